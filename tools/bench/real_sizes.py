#!/usr/bin/env python3
"""Compilation of unedited models of transformers at the sizes that people train, exported without weights.

  real_sizes.py --bin build/release/bin --work DIR [--only "llama_8b/*"] [--layers 4] [--reuse] [--with BIN]

A row is model/strategy/tokens; --only names rows by a pattern. Prints for each seconds of the export, seconds, processor seconds and most memory of
piperc, bytes of the bundle, seconds of piper-plan verify, what is proved, and the elements of the largest value of a plan that has the tokens
twice in its shape (a mask, or scores; not reported where a width of the model is the number of tokens); with --with the same of another build beside
it. Of what ends otherwise the first line is printed, and the next row is tried.
--reuse takes what an earlier call has exported into DIR. --layers cuts models down, for trying a row out.
"""
import argparse
import dataclasses
import fnmatch
import logging
import pathlib
import re
import subprocess
import sys
import time
import warnings

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import piper_export  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Model:
    """family: of transformers' classes. source: who published the shape. packed: samples hold several documents."""
    family: str
    source: str
    shape: dict
    packed: bool = False


def llama(hidden, layers, heads, inner):
    return {"vocab_size": 128256, "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": 8,
            "intermediate_size": inner}


LLAMA_8B = llama(4096, 32, 32, 14336)
MODELS = {
    "llama_1b": Model("Llama", "config.json of meta-llama/Llama-3.2-1B", llama(2048, 16, 32, 8192)),
    "llama_8b": Model("Llama", "The Llama 3 Herd of Models, table 3", LLAMA_8B),
    "llama_8b_packed": Model("Llama", "The Llama 3 Herd of Models, table 3", LLAMA_8B, packed=True),
    "llama_70b": Model("Llama", "The Llama 3 Herd of Models, table 3", llama(8192, 80, 64, 28672)),
    "llama_405b": Model("Llama", "The Llama 3 Herd of Models, table 3", llama(16384, 126, 128, 53248)),
    "qwen3_30b_a3b": Model("Qwen3Moe", "config.json of Qwen/Qwen3-30B-A3B", {
        "vocab_size": 151936, "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
        "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": True}),
    "deepseek_v3": Model("DeepseekV3", "transformers' DeepseekV3Config as it is, without the module that predicts a further token", {}),
    "gpt_oss_120b": Model("GptOss", "transformers' GptOssConfig as it is", {}),
}


def strategy(model, mesh, microbatches, replicate="", experts_from=None):
    """A strategy for the axes of `mesh`: stages by flops along pp where there is one; along the others replicas with what `replicate` says; experts
    parted along ep, in the stages from that on."""
    pp, replicas = mesh.get("pp", 1), 1
    for axis, size in mesh.items():
        replicas *= size if axis != "pp" else 1
    text = f"piper: 1\nmesh: {{{', '.join(f'{axis}: {size}' for axis, size in mesh.items())}}}\nmodel:\n  batch: {microbatches * replicas}\n"
    if model.packed:
        text += "  inputs: {input_ids: tokens, labels: tokens, position_ids: positions}\nrun: {document_end: 0}\n"
    annotations = [f"{{tag: PP, stages: {pp}, balance: flops}}"] * (pp > 1) + ['{tag: EP, modules: ["*.mlp.experts"]}'] * (experts_from is not None)
    directives = []
    for index in range(pp):
        place = f"{{pp: {index}}}" if pp > 1 else f'{{{next(iter(mesh))}: "*"}}'
        stage = f"PP: {index}" if pp > 1 else ""
        if replicas > 1:
            directives.append(f"{{op: replicate, filter: {{{stage}}}, devices: {place}{replicate}}}")
        if experts_from is not None and index >= experts_from:
            groups = "{" + ", ".join(f"{axis}: {'each' if axis == 'dp' else index}" for axis in mesh if axis != "ep") + "}"
            directives.append(f'{{op: shard, filter: {{{stage}{", " * bool(stage)}EP: "*"}}, devices: {groups}}}')
    if pp == 1 and microbatches > 1:
        directives.append(f"{{op: split, filter: {{}}, num_microbatches: {microbatches}}}")
    for key, items in (("annotate", annotations), ("directives", directives)):
        text += "".join(f"{key}:\n" * bool(items)) + "".join(f"  - {item}\n" for item in items)
    if pp > 1:
        text += f"schedule: {{family: 1f1b, microbatches: {microbatches}, ranks: {{pp: each}}}}\n"
    return text + "optimizer: {adamw: {lr: 0.0003}}\n"


def with_cuts(pp, dp, tp, microbatches):
    """Weights cut over `tp` devices of a node, stages by flops, replicas that divide the optimizer's work, in bf16."""
    directives = [f"{{op: replicate, filter: {{PP: {index}}}, devices: {{pp: {index}}}, shard_optimizer: true}}" for index in range(pp)]
    directives.append("{op: shard, filter: {}, dim: column, over: tp}")
    return (f"piper: 1\nmesh: {{pp: {pp}, dp: {dp}, tp: {tp}}}\nnode: {{ranks: {tp}, inside: [tp]}}\nmodel: {{batch: {microbatches * dp}}}\n"
            f"annotate: [{{tag: PP, stages: {pp}, balance: flops}}]\ndirectives:\n" + "".join(f"  - {item}\n" for item in directives)
            + f"precision: {{compute: bf16, master: f32}}\nschedule: {{family: 1f1b, microbatches: {microbatches}, ranks: {{pp: each}}}}\n"
            "optimizer: {adamw: {lr: 3.0e-4}}\n")


ZERO1, ZERO3 = ", shard_optimizer: true", ", shard_params: true"
STRATEGIES = {    # by name: ranks and what they are
    "pp4": lambda model: strategy(model, {"pp": 4}, 8),
    "pp8_zero1x4": lambda model: strategy(model, {"pp": 8, "dp": 4}, 16, ZERO1),
    "pp16_zero1x64": lambda model: strategy(model, {"pp": 16, "dp": 64}, 32, ZERO1),
    "tp8_pp16_zero1x8": lambda model: with_cuts(16, 8, 8, 128),
    "tp8_pp16_zero1x64": lambda model: with_cuts(16, 64, 8, 128),
    "zero3x128": lambda model: strategy(model, {"dp": 128}, 1, ZERO3),
    "ep8_zero3x32": lambda model: strategy(model, {"dp": 4, "ep": 8}, 1, ZERO3, experts_from=0),
    "pp16_ep8_zero1x64": lambda model: strategy(model, {"pp": 16, "dp": 8, "ep": 8}, 32, ZERO1, experts_from=1),    # V3 begins with three dense layers
}
ROWS = {    # model and strategy: tokens
    ("llama_1b", "pp4"): (2048, 8192),
    ("llama_8b", "pp4"): (2048, 8192, 32768, 131072),
    ("llama_8b_packed", "pp4"): (8192, 131072),
    ("llama_8b", "zero3x128"): (8192,),
    ("llama_70b", "pp8_zero1x4"): (8192, 131072),
    ("llama_405b", "pp16_zero1x64"): (8192, 131072),
    ("llama_405b", "tp8_pp16_zero1x8"): (8192,),
    ("llama_405b", "tp8_pp16_zero1x64"): (8192,),
    ("qwen3_30b_a3b", "ep8_zero3x32"): (8192, 32768),
    ("gpt_oss_120b", "ep8_zero3x32"): (8192, 131072),
    ("deepseek_v3", "pp16_ep8_zero1x64"): (4096, 131072),
}


class CausalLoss(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, input_ids, labels):
        return self.net(input_ids=input_ids, labels=labels).loss


class PackedLoss(CausalLoss):
    """Documents of a sample begin where positions begin again."""

    def forward(self, input_ids, labels, position_ids):
        return self.net(input_ids=input_ids, labels=labels, position_ids=position_ids).loss


def config_of(model, tokens, layers):
    import transformers
    shape = {**model.shape, "max_position_embeddings": tokens, "use_cache": False, **({"num_hidden_layers": layers} if layers else {})}
    return getattr(transformers, model.family + "Config")(**shape)


def export(model, config, tokens, path):
    import transformers
    with piper_export.without_weights():
        net = getattr(transformers, model.family + "ForCausalLM")(config)
    ids = torch.zeros(3, tokens, dtype=torch.int64)
    inputs = {"input_ids": ids, "labels": ids, **({"position_ids": ids} if model.packed else {})}
    piper_export.export((PackedLoss if model.packed else CausalLoss)(net), inputs, path, weights=False)


# The most memory of a process counts what the one had that started it: a small one starts it, and prints it on its last line.
STARTER = ("import os, subprocess, sys; process = subprocess.Popen(sys.argv[1:]); _, status, usage = os.wait4(process.pid, 0); "
           "print(usage.ru_maxrss, usage.ru_utime + usage.ru_stime, flush=True); sys.exit(os.waitstatus_to_exitcode(status))")


class Failed(Exception):
    pass


def called(*command):
    """Seconds, processor seconds, most memory in bytes, output."""
    begin = time.perf_counter()
    process = subprocess.run([sys.executable, "-S", "-c", STARTER, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    seconds = time.perf_counter() - begin
    *text, last = process.stdout.splitlines()
    memory, busy = last.split()
    if process.returncode != 0:
        said = [line for line in text if "error" in line] or text or ["nothing"]
        raise Failed(f"{pathlib.Path(command[0]).name} after {seconds:.2f} s, status {process.returncode}: {said[0]}")
    return seconds, float(busy), int(memory) * 1024, "\n".join(text)


def squares(plans, tokens, widths):
    """Most elements of a value with the tokens twice in its shape."""
    if tokens in widths:
        return "a width"
    shapes = re.findall(r"\[([\d,]+)\]", "".join(path.read_text() for path in (plans / "programs").rglob("*") if path.is_file()))
    found = [[int(extent) for extent in shape.split(",")] for shape in set(shapes)]
    return max((torch.Size(shape).numel() for shape in found if shape.count(tokens) > 1), default="none")


def widths_of(config):
    numbers = {value for name, value in config.to_dict().items() if isinstance(value, int) and name != "max_position_embeddings"}
    return numbers | {config.num_attention_heads * (getattr(config, "head_dim", None) or 1)}


def compiled(folder, model, written, plans, tokens, widths):
    """The cells of a row."""
    subprocess.run(["rm", "-rf", plans], check=True)
    seconds, busy, memory, _ = called(folder / "piperc", model, "--strategy", written, "-o", plans, "--weights", "none")
    size = sum(path.stat().st_size for path in plans.rglob("*") if path.is_file())
    cells = f"{seconds:7.2f} s {busy:6.2f} s {memory / 2**20:5.0f} MB {size / 1e6:6.1f} MB"
    try:
        proof, _, _, verdict = called(folder / "piper-plan", "verify", plans)
    except Failed as failure:
        return f"{cells}  {failure}"
    word = re.search(r"equality with the model: (proved in part|proved|not proved)", verdict).group(1)
    return f"{cells} {proof:7.2f} s  {word}  {squares(plans, tokens, widths)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--with", dest="other", type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--only", default="*")
    parser.add_argument("--layers", type=int, default=0)
    parser.add_argument("--reuse", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    args.work.mkdir(parents=True, exist_ok=True)
    print(f"{'row':40}   export    piperc, processor  memory    bundle    verify  equality  tokens x tokens")
    for (name, how), lengths in ROWS.items():
        for tokens in lengths:
            row = f"{name}/{how}/{tokens}"
            if not fnmatch.fnmatch(row, args.only):
                continue
            path, written = args.work / f"{name}_{tokens}_{args.layers}.pt2", args.work / f"{name}_{how}.yaml"
            written.write_text(STRATEGIES[how](MODELS[name]))
            begin, config = time.perf_counter(), config_of(MODELS[name], tokens, args.layers)
            if not (args.reuse and path.exists()):
                export(MODELS[name], config, tokens, path)
            took = time.perf_counter() - begin
            for folder in filter(None, (args.bin, args.other)):
                try:
                    cells = compiled(folder, path, written, args.work / "plans", tokens, widths_of(config))
                except Failed as failure:
                    cells = str(failure)
                print(f"{row:40} {took:6.1f} s {cells}", flush=True)


if __name__ == "__main__":
    main()
