#!/usr/bin/env python3
"""Compilation of unedited models of transformers at the sizes that people train: exported without weights, cut by 1f1b over stages.

  real_sizes.py --bin build/release/bin --work DIR [--models llama_1b,llama_8b] [--tokens 2048,8192] [--ranks 4] [--with BIN]

Prints for each model and number of tokens: seconds of the export, seconds and most memory of piperc, bytes of the bundle, seconds of
piper-plan verify, what is proved, and the largest value of a plan that has the tokens twice in its shape (a mask); with --with the
same of another build beside it.
"""
import argparse
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

WIDTHS = {    # hidden, layers, heads, key heads, feed-forward, vocabulary: as their owners published them
    "llama_1b": (2048, 16, 32, 8, 8192, 128256),
    "llama_8b": (4096, 32, 32, 8, 14336, 128256),
    "llama_70b": (8192, 80, 64, 8, 28672, 128256),
    "llama_405b": (16384, 126, 128, 8, 53248, 128256),
}
MICROBATCHES = 8


class CausalLoss(torch.nn.Module):
    def __init__(self, name, tokens):
        import transformers
        super().__init__()
        hidden, layers, heads, key_heads, inner, vocabulary = WIDTHS[name]
        self.net = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=key_heads,
            intermediate_size=inner, max_position_embeddings=tokens, use_cache=False))

    def forward(self, input_ids, labels):
        return self.net(input_ids=input_ids, labels=labels).loss


def exported(name, tokens, path):
    begin = time.perf_counter()
    with piper_export.without_weights():
        model = CausalLoss(name, tokens)
    ids = torch.zeros(3, tokens, dtype=torch.int64)
    piper_export.export(model, {"input_ids": ids, "labels": ids}, path, check=False)
    return time.perf_counter() - begin


def strategy(ranks):
    return (f"piper: 1\nmodel: {{batch: {MICROBATCHES}}}\nannotate: [{{tag: PP, stages: {ranks}, balance: flops}}]\n"
            f"schedule: {{family: 1f1b, microbatches: {MICROBATCHES}}}\noptimizer: {{adamw: {{lr: 0.0003}}}}\n")


# The most memory of a process counts what the one had that started it: a small one starts it, and tells it on its last line.
STARTER = ("import os, subprocess, sys; process = subprocess.Popen(sys.argv[1:]); _, status, usage = os.wait4(process.pid, 0); "
           "print(usage.ru_maxrss, flush=True); sys.exit(os.waitstatus_to_exitcode(status))")


def called(*command):
    """Seconds, most memory in bytes, output."""
    begin = time.perf_counter()
    process = subprocess.run([sys.executable, "-S", "-c", STARTER, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    seconds = time.perf_counter() - begin
    *text, memory = process.stdout.splitlines()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: {process.stdout}")
    return seconds, int(memory) * 1024, "\n".join(text)


def masks(plans, tokens):
    """Most elements of a value with the tokens twice in its shape."""
    shapes = re.findall(r"\[([\d,]+)\]", "".join(path.read_text() for path in (plans / "programs").rglob("*") if path.is_file()))
    found = [[int(extent) for extent in shape.split(",")] for shape in set(shapes)]
    return max((torch.Size(shape).numel() for shape in found if shape.count(tokens) > 1), default=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--with", dest="other", type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--models", default="llama_1b,llama_8b")
    parser.add_argument("--tokens", default="2048,8192")
    parser.add_argument("--ranks", type=int, default=4)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    args.work.mkdir(parents=True, exist_ok=True)
    (args.work / "s.yaml").write_text(strategy(args.ranks))
    print("model       tokens  export    piperc  memory   bundle    verify  equality  largest mask")
    for name in args.models.split(","):
        for tokens in map(int, args.tokens.split(",")):
            model = args.work / f"{name}_{tokens}.pt2"
            took = exported(name, tokens, model)
            for folder in filter(None, (args.bin, args.other)):
                plans = args.work / "plans"
                subprocess.run(["rm", "-rf", plans], check=True)
                seconds, memory, _ = called(folder / "piperc", model, "--strategy", args.work / "s.yaml", "-o", plans, "--weights", "none")
                proof, _, verdict = called(folder / "piper-plan", "verify", plans)
                size = sum(path.stat().st_size for path in plans.rglob("*") if path.is_file())
                word = re.search(r"equality with the model: (proved in part|proved|not proved)", verdict).group(1)
                print(f"{name:10} {tokens:7} {took:6.1f} s {seconds:7.2f} s {memory / 2**20:5.0f} MB {size / 1e6:6.1f} MB {proof:7.2f} s  {word}"
                      f"  {masks(plans, tokens) or 'none'}", flush=True)


if __name__ == "__main__":
    main()
