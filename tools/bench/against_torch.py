#!/usr/bin/env python3
"""piper-run and PyTorch in turn on the same model, weights, tokens, batch and precision, on the CPU or on GPUs of this machine.

  against_torch.py --bin build/release/bin --work DIR [--device cpu|cuda] [--cases CASE ...] [--rounds 3] [--steps 8] [--threads 1]
                   [--variants NAME ... | none] [--json FILE] [--faults]
  against_torch.py --bin build/release/bin --work DIR --device cuda --cases CASE ... --compile

CASE is MODEL:BATCH:PRECISION or MODEL:BATCH:PRECISION:LAYOUT. MODEL: a function of models.py. PRECISION: f32, bf16, f16 (products;
weights and optimizer are f32, PyTorch runs under autocast). LAYOUT: dp2, zero3_2, pp2_1f1b, pp2_zb_v, pp2_1f1b_dp2, pp2_zb_v_dp2; pipelines
cut the batch into four microbatches and want a GPT with a head of its own. tp2: weights of blocks cut over two ranks, against DTensor.

Each round runs piper and then each of PyTorch's variants (torch_ranks.py), each in processes of its own; a figure is the median step of
its run, a ratio is taken inside a round; each run's figure is printed as it comes. On GPUs piper runs with and without CUDA graphs, ranks have a GPU each, and the ratio is to
the faster of the two. What cannot run is a row that says why.

tokens/s: batch * sequence / median step. MFU: tokens/s * models.flops_per_token / (ranks * peak); the peak is that of the GPU's data
sheet for dense products of the precision, on a CPU (and an unknown GPU) what torch.mm of 2048 x 2048 reaches here before the rounds.
Memory: on the CPU the resident sets of all processes, on GPUs what all ranks together had there.

--compile only writes the bundles (WORK/bundles, without weights) for a machine that has no piperc; with bundles there, none is wanted.
"""
import argparse
import array
import dataclasses
import json
import os
import pathlib
import platform
import re
import socket
import statistics
import subprocess
import sys
import time

import torch

import models
import programs
from programs import TOOLS, Programs, spread
from torch_ranks import MICROBATCHES, PRECISIONS
from torch_ranks import WARM_UP as TORCH_WARM_UP

CPU_CASES = ["tied:16:f32", "tied:16:bf16", "tied:16:f32:dp2", "tied:16:f32:zero3_2", "untied:16:f32:pp2_1f1b", "untied:16:f32:pp2_zb_v",
             "untied:16:f32:pp2_1f1b_dp2"]
GPU_CASES = ["gpt2:32:bf16", "qwen3_1b:4:bf16", "gpt2:32:f32", "gpt2:32:bf16:dp2", "gpt2:32:bf16:zero3_2", "gpt2_untied:32:bf16:pp2_1f1b"]
ALONE = {"cpu": ["eager", "fused", "compile"], "cuda": ["eager", "fused", "compile", "graphs"]}


@dataclasses.dataclass(frozen=True)
class Layout:
    stages: int = 1
    replicas: int = 1
    family: str | None = None
    extra: str = ""
    variant: str | None = None      # PyTorch's
    places: int = 1                 # that share the batch

    @property
    def ranks(self):
        return self.places * self.replicas * (self.stages // 2 if self.family == "zb_v" else self.stages)


LAYOUTS = {
    "": Layout(),
    "dp2": Layout(1, 2, variant="ddp"),
    "zero3_2": Layout(1, 2, extra=", shard_params: true", variant="fully_shard"),
    "tp2": Layout(variant="tp", places=2),
    "pp2_1f1b": Layout(2, 1, "1f1b", variant="1f1b"),
    "pp2_zb_v": Layout(4, 1, "zb_v", variant="zb_v"),
    "pp2_1f1b_dp2": Layout(2, 2, "1f1b", variant="1f1b_ddp"),
    "pp2_zb_v_dp2": Layout(4, 2, "zb_v", variant="zb_v_ddp"),
}
# Peaks of dense products, TFLOP/s, from NVIDIA's data sheets (SXM boards where nothing else is said); the longest name that fits counts.
# f32 is without TF32, which neither side uses.
PEAKS = {"NVIDIA H100": {"bf16": 989.4, "f16": 989.4, "f32": 66.9}, "NVIDIA H100 PCIe": {"bf16": 756.0, "f16": 756.0, "f32": 51.2},
         "NVIDIA H200": {"bf16": 989.4, "f16": 989.4, "f32": 66.9}, "NVIDIA A100": {"bf16": 312.0, "f16": 312.0, "f32": 19.5}}


class Case:
    def __init__(self, text):
        fields = text.split(":")
        if len(fields) not in (3, 4) or not hasattr(models, fields[0]) or fields[2] not in PRECISIONS or (fields[3:] or [""])[0] not in LAYOUTS:
            raise SystemExit(f"'{text}' is no case; see against_torch.py --help")
        self.text, self.name = text, text.replace(":", "-")
        self.model, self.batch, self.precision = fields[0], int(fields[1]), fields[2]
        self.layout = LAYOUTS[(fields[3:] or [""])[0]]
        with torch.device("meta"):
            module, example = getattr(models, self.model)()
        self.sequence = example["idx"].shape[1]
        self.blocks = len(module.h)
        self.parameters = sum(p.numel() for p in module.parameters())
        self.vocabulary = module.head.out_features
        self.flops_per_token = models.flops_per_token(module, self.sequence)

    def strategy(self):
        """Stages of equal depth; `zb_v` puts two of them on a rank."""
        how, text = self.layout, f"piper: 1\nmodel: {{batch: {self.batch}}}\n"
        if how.stages > 1:
            starts = ["wte"] + [f"h.{self.blocks // how.stages * s}" for s in range(1, how.stages)]
            text += f"annotate: [{{tag: PP, starts: {json.dumps(starts)}}}]\n"
        bucket = 2 if how.extra and self.parameters < 10**7 else 25
        directives = ""
        if how.places > 1:
            directives = f"  - {{op: shard, filter: {{}}, dim: column, over: [{list(range(how.places))}]}}\n"
        for s in range(how.stages if how.replicas * how.stages > 1 else 0):
            owner = min(s, how.stages - 1 - s) if how.family == "zb_v" else s
            group = list(range(owner * how.replicas, (owner + 1) * how.replicas))
            chosen = f"{{PP: {s}}}" if how.stages > 1 else "{}"
            directives += f"  - {{op: place, filter: {chosen}, devices: {group}}}\n"
            if how.replicas > 1:
                directives += f"  - {{op: replicate, filter: {chosen}, devices: {group}, bucket_size: {bucket}{how.extra}}}\n"
        text += "directives:\n" + directives if directives else ""
        text += f"schedule: {{family: {how.family}, microbatches: {MICROBATCHES}}}\n" if how.family else ""
        text += f"precision: {{compute: {self.precision}}}\n" if self.precision != "f32" else ""
        return text + programs.OPTIMIZER

    def bundle(self, own, device):
        """Compiled where it is not there yet, on this device's behalf and without weights."""
        folder = own.work / "bundles" / self.name
        if not (folder / "manifest.json").exists():
            if not (own.bin / "piperc").exists():
                raise SystemExit(f"there is no bundle {folder}, and no {own.bin / 'piperc'} to make it")
            folder.parent.mkdir(exist_ok=True)
            model = f"{self.model}.shapes"
            if not (own.work / f"{model}.onnx").exists():
                subprocess.run([sys.executable, TOOLS / "bench" / "models.py", self.model, own.work / f"{model}.onnx"], check=True, capture_output=True)
            own.compile(model, self.strategy(), self.name, "--weights", "none", "--device", device).rename(folder)
        return folder

    def weights(self, own):
        """The model's own, as its function makes them on this machine."""
        path = own.work / f"{self.model}.weights.safetensors"
        if not path.exists():
            subprocess.run([sys.executable, TOOLS / "bench" / "torch_ranks.py", "save_weights", "--model", self.model, "--weights", path], check=True)
        return path

    def tokens(self, own, steps):
        wide = self.vocabulary > 256
        path = own.work / f"{self.name}.{'u32.bin' if wide else 'u8.bin'}"
        count = steps * self.batch * self.sequence + 1
        drawn = torch.randint(self.vocabulary, (count,), generator=torch.Generator().manual_seed(0))
        path.write_bytes(array.array("I" if wide else "B", drawn.tolist()).tobytes())
        return path


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def torch_run(case, args, variant, weights, tokens):
    """What rank 0 printed; RuntimeError with the first line that says why not."""
    world = case.layout.ranks
    environment = os.environ | {"OMP_NUM_THREADS": str(args.threads), "MKL_NUM_THREADS": str(args.threads), "TORCH_CPP_LOG_LEVEL": "ERROR"}
    if world > 1:
        environment |= {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, TOOLS / "bench" / "torch_ranks.py", variant, "--model", case.model, "--batch", case.batch, "--precision", case.precision,
               "--device", where_torch_is(args), "--weights", weights, "--tokens", tokens, "--steps", args.steps, "--threads", args.threads]
    ranks = [subprocess.Popen([str(word) for word in command], env=environment | ({"RANK": str(r)} if world > 1 else {}),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for r in range(world)]
    outs = [p.communicate() for p in ranks]
    if any(p.returncode for p in ranks):
        said = [line for _, err in outs for line in err.splitlines() if re.search(r"Error|ASSERT", line)]
        raise RuntimeError(said[0][-160:] if said else "a rank of PyTorch failed")
    return json.loads(outs[0][0].splitlines()[-1])


def where_torch_is(args):
    return args.torch_device or args.device


def peak_of(args, precision, ranks):
    """FLOP/s of all ranks, and where the figure comes from."""
    if where_torch_is(args) == "cuda":
        name = torch.cuda.get_device_name()
        known = max((n for n in PEAKS if name.startswith(n)), key=len, default=None)
        if known:
            return 1e12 * PEAKS[known][precision] * ranks, f"data sheet of {known}"
    threads = min(ranks * args.threads, os.cpu_count())
    torch.set_num_threads(threads)
    a = torch.rand(2048, 2048, device=where_torch_is(args)).to(PRECISIONS[precision])
    best = float("inf")
    for _ in range(12):
        began = time.perf_counter()
        torch.mm(a, a)
        if where_torch_is(args) == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began)
    rate = 2 * 2048**3 / best
    on_gpus = where_torch_is(args) == "cuda"
    return rate * (ranks if on_gpus else 1), "torch.mm here" + ("" if on_gpus else f", {threads} thread{'s' if threads > 1 else ''}")


class Row:
    def __init__(self, variant):
        self.variant, self.step_ms, self.memory, self.losses, self.failed = variant, [], 0, [], None

    def add(self, step_ms, memory, losses):
        self.step_ms.append(step_ms)
        self.memory, self.losses = max(self.memory, memory), losses

    def take(self, run):
        """One more round, unless one failed before."""
        if self.failed is None:
            try:
                run()
                print(f"  {self.variant}: {self.step_ms[-1]:.1f} ms", flush=True)
            except RuntimeError as failure:
                self.failed = str(failure).strip()
                print(f"  {self.variant}: {self.failed}", flush=True)


def rows_of(case, args, own):
    """All variants, `rounds` times in turn. piper's rows come first."""
    bundle, weights = case.bundle(own, args.device), case.weights(own)
    tokens = case.tokens(own, args.steps + max(programs.WARM_UP, TORCH_WARM_UP))
    flags = ["--sampling", "sequential", "--load", weights, "--device", args.device]
    if args.device == "cuda" and case.layout.ranks > 1:
        flags += ["--comm", "nccl"]
    mine = [(Row("piper"), [])] + ([(Row("piper, CUDA graphs"), ["--cuda-graph"])] if args.device == "cuda" else [])
    chosen = [case.layout.variant] if case.layout.ranks > 1 else ALONE[args.device]
    theirs = [Row(variant) for variant in chosen if not args.variants or variant in args.variants]
    for _ in range(args.rounds):
        for row, more in mine:
            def piper(row=row, more=more):
                run = own.run(bundle, args.steps, *flags, *more, threads=args.threads, data=tokens)
                row.add(run.step_ms, run.resident if args.device == "cpu" else sum(run.peak_memory), run.losses)
            row.take(piper)
        for row in theirs:
            def torch_variant(row=row):
                run = torch_run(case, args, row.variant, weights, tokens)
                row.add(statistics.median(run["steps_ms"]), run["memory_bytes"], run["losses"])
            row.take(torch_variant)
    if args.faults:
        faults = [own.run(bundle, steps, *flags, threads=args.threads, data=tokens).faults for steps in (2, args.steps)]
        print(f"minor page faults per steady step of piper: {(faults[1] - faults[0]) / (args.steps - 2):.1f}")
    return [row for row, _ in mine], theirs


def report(case, args, own):
    """Runs a case, prints its table, and returns it for the JSON file."""
    ranks = case.layout.ranks
    peak, source = peak_of(args, case.precision, ranks)
    tokens = case.batch * case.sequence
    where = torch.cuda.get_device_name() if where_torch_is(args) == "cuda" else "CPU"
    print(f"\n{case.text} on {where}: {ranks} rank{'s' if ranks > 1 else ''}, {args.threads} thread{'s' if args.threads > 1 else ''} each, "
          f"{case.parameters / 1e6:.1f} M parameters, {case.batch} x {case.sequence} tokens a step, "
          f"{case.flops_per_token / 1e6:.1f} MFLOP a token, peak {peak / 1e12:.3f} TFLOP/s ({source}); {programs.load()}", flush=True)
    mine, theirs = rows_of(case, args, own)
    base = min((row for row in mine if row.failed is None), key=lambda row: statistics.median(row.step_ms), default=None)
    print("| variant | step, ms | best | tokens/s | MFU | memory, MiB | to piper, median (range) |\n|---|---|---|---|---|---|---|")
    result = []
    for row in mine + theirs:
        entry = {"variant": row.variant}
        result.append(entry)
        if row.failed is not None:
            entry["failed"] = row.failed
            print(f"| {row.variant} | {row.failed.splitlines()[-1]} | | | | | |", flush=True)
            continue
        median = statistics.median(row.step_ms)
        rate = tokens / (1e-3 * median)
        entry |= {"step_ms": row.step_ms, "median_ms": median, "tokens_per_s": rate, "mfu": rate * case.flops_per_token / peak, "memory_bytes": row.memory,
                  "losses": row.losses}
        ratio = ""
        if base is not None and row is not base:
            entry["to_piper"] = [a / b for a, b in zip(row.step_ms, base.step_ms)]
            ratio = spread(entry["to_piper"])
        print(f"| {row.variant} | {median:.1f} | {min(row.step_ms):.1f} | {rate:,.0f} | {entry['mfu']:.1%} | {row.memory / 2**20:.0f} | {ratio} |", flush=True)
    first = [(row, row.losses[0]) for row in theirs if row.failed is None and row.losses]
    if base is not None and first:
        entry = max(abs(loss - base.losses[0]) / abs(base.losses[0]) for _, loss in first)
        last = max(abs(row.losses[n] - base.losses[n]) / abs(base.losses[n]) for row, _ in first for n in [min(len(row.losses), len(base.losses)) - 1])
        print(f"losses: {base.losses[0]:.4f} at the first step; PyTorch's differ by {entry:.1e} there, by {last:.1e} at the last")
    return {"case": case.text, "ranks": ranks, "parameters": case.parameters, "batch": case.batch, "sequence": case.sequence, "precision": case.precision,
            "flops_per_token": case.flops_per_token, "peak_flops": peak, "peak": source, "rows": result}


def machine(args):
    facts = {"device": args.device, "threads": args.threads, "cores": os.cpu_count(), "python": platform.python_version(), "torch": torch.__version__,
             "date": time.strftime("%Y-%m-%d %H:%M:%S")}
    if where_torch_is(args) == "cuda":
        facts |= {"gpus": [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())], "cuda": torch.version.cuda,
                  "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
    return facts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--torch-device", choices=("cpu", "cuda"), help="PyTorch's, where it is not --device: piper is on the stand-in for CUDA")
    parser.add_argument("--cases", nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--variants", nargs="+")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--faults", action="store_true", help="print the page faults of a steady step, too")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    own = Programs(args.bin, args.work)
    cases = [Case(text) for text in args.cases or (CPU_CASES if args.device == "cpu" else GPU_CASES)]
    if args.compile:
        for case in cases:
            print(case.bundle(own, args.device), flush=True)
        return
    if where_torch_is(args) == "cuda" and not torch.cuda.is_available():
        raise SystemExit("there is no GPU that PyTorch could use: take --device cpu")
    results = []
    for case in cases:
        if where_torch_is(args) == "cuda" and case.layout.ranks > torch.cuda.device_count():
            print(f"\n{case.text}: left out, it wants {case.layout.ranks} GPUs, here are {torch.cuda.device_count()}", flush=True)
            results.append({"case": case.text, "left_out": f"{case.layout.ranks} GPUs"})
            continue
        results.append(report(case, args, own))
        if args.json:
            args.json.write_text(json.dumps({"machine": machine(args), "cases": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
