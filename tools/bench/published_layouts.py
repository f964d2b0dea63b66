#!/usr/bin/env python3
"""The layouts of Megatron-LM's table, beside what a target predicts for the same models, GPUs, batches and strategies.

  published_layouts.py --bin BIN --work DIR --target FILE [--only GLOB] [--attention unfused] [--set KEY=VALUE]... [--network paper]

The rows are those of table 1 of Narayanan et al. 2021 (arXiv 2104.04473): GPTs of 1.7 to 1,008 billion parameters, 2,048 tokens, a vocabulary of 51,200, on 32
to 3,072 A100 of 80 GB. Sizes of microbatches, layers of a stage and options are those of Megatron-LM's examples/sc21/run_table_1.sh and CONFIG.sh: Adam,
masters in f32, gradients clipped, every block repeated, optimizers not sharded, weights and the vocabulary cut over the ranks of a node, without sequence parallelism, which
Megatron-LM did not have then. Other than theirs: weights and values are bf16, not f16 with a loss scale, gradients f32, and there is no dropout.

FLOP/s are the paper's: 96 B s l h^2 (1 + s / 6h + V / 16 l h) for a step, which counts the repeated forward, whatever a plan computes.

--attention unfused: scores and softmax as operators of their own, as then, not one kernel. --network paper: the target's network replaced by that of
the paper's machine, a port of 200 Gbit/s for each GPU. --set: another value of one of the target's numbers.
"""
import argparse
import dataclasses
import fnmatch
import json
import logging
import pathlib
import re
import shutil
import subprocess
import sys
import time
import warnings

import torch

from published_runs import Block, Gpt, export, target_with

TOKENS, VOCABULARY = 2048, 51200
PAPERS_NETWORK = "between_nodes: {latency_us: 14, bytes_per_second: 25.0e9, ports_per_node: 8}"


@dataclasses.dataclass(frozen=True)
class Row:
    """samples: of a microbatch. virtual: stages of a pipeline rank. teraflops: of one GPU, as published."""
    name: str
    width: int
    heads: int
    layers: int
    tp: int
    pp: int
    gpus: int
    batch: int
    samples: int
    virtual: int
    teraflops: float

    @property
    def dp(self):
        return self.gpus // (self.tp * self.pp)

    @property
    def microbatches(self):
        return self.batch // (self.dp * self.samples)

    @property
    def flops(self):
        s, l, h, v = TOKENS, self.layers, self.width, VOCABULARY
        return 96 * self.batch * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h))


TABLE = [Row(name, *numbers) for name, *numbers in (
    ("1.7b", 2304, 24, 24, 1, 1, 32, 512, 16, 1, 137),
    ("3.6b", 3072, 32, 30, 2, 1, 64, 512, 16, 1, 138),
    ("7.5b", 4096, 32, 36, 4, 1, 128, 512, 16, 1, 142),
    ("18.4b", 6144, 48, 40, 8, 1, 256, 1024, 8, 1, 135),
    ("39.1b", 8192, 64, 48, 8, 2, 512, 1536, 4, 1, 138),
    ("76.1b", 10240, 80, 60, 8, 4, 1024, 1792, 2, 3, 140),
    ("145.6b", 12288, 96, 80, 8, 8, 1536, 2304, 2, 2, 148),
    ("310.1b", 16384, 128, 96, 8, 16, 1920, 2160, 1, 2, 155),
    ("529.6b", 20480, 128, 105, 8, 35, 2520, 2520, 1, 3, 163),
    ("1008b", 25600, 160, 128, 8, 64, 3072, 3072, 1, 1, 163))]


class HalfGpt(Gpt):
    """All weights and values between operators in bf16 (piper takes no f16 weights); logits become f32 before the loss."""

    def __init__(self, row, block):
        super().__init__(row.width, row.layers, row.heads, TOKENS, VOCABULARY, bias=True, block=block)
        self.bfloat16()

    def loss(self, logits, labels):
        return super().loss(logits.float(), labels)


class UnfusedBlock(Block):
    def attention(self, q, k, v):
        length = q.shape[-2]
        scores = q @ k.transpose(-2, -1) / (q.shape[-1] ** 0.5)
        later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
        return torch.softmax(scores.masked_fill(later, -10000.0), -1) @ v


def training(row):
    """What no strategy of a row changes."""
    return (f"piper: 1\nmodel: {{batch: {row.batch}}}\nprecision: {{master: f32}}\n"
            "clip_grad_norm: 1.0\noptimizer: {adam: {lr: 1.0e-4}}\n")


def layout(row):
    axes = {"pp": row.pp, "dp": row.dp, "tp": row.tp}
    text = training(row) + f"mesh: {{{', '.join(f'{axis}: {size}' for axis, size in axes.items())}}}\nnode: {{ranks: 8, inside: [tp]}}\n"
    stages = row.pp * row.virtual
    if row.pp > 1:
        starts = ", ".join(f'"blocks.{row.layers // stages * stage}"' for stage in range(stages))
        text += f"annotate: [{{tag: PP, starts: [{starts}]}}]\n"
        family = f"interleaved_1f1b, virtual: {row.virtual}" if row.virtual > 1 else "1f1b"
        text += f"schedule: {{family: {family}, microbatches: {row.microbatches}, ranks: {{pp: each}}}}\n"
        directives = [f"{{op: replicate, filter: {{PP: {stage}}}, devices: {{pp: {stage % row.pp}}}}}" for stage in range(stages)]
    else:
        directives = ['{op: replicate, filter: {}, devices: {pp: 0}}']
        directives += [f"{{op: split, num_microbatches: {row.microbatches}}}"] * (row.microbatches > 1)
    if row.tp > 1:
        directives += [f"{{op: shard, filter: {{}}, dim: {dim}, over: tp}}" for dim in ("column", "vocabulary")]
    directives.append('{op: recompute, filter: {}, modules: ["blocks.*"]}')
    return text + "directives:\n" + "".join(f"  - {one}\n" for one in directives)


def exported(row, attention, work):
    path = work / f"{row.name}_{attention}.pt2"
    if not path.exists():
        block = UnfusedBlock if attention == "unfused" else Block
        export(lambda: HalfGpt(row, block), TOKENS, path)
    return path


def target_of(args):
    """The target's file, with what the command line changes."""
    text = target_with(args.target.read_text(), **dict(one.split("=") for one in args.set))
    if args.network == "paper":
        text, found = re.subn(r"(?m)^between_nodes: .*$", PAPERS_NETWORK, text)
        if found != 1:
            sys.exit("the target has no line between_nodes")
    file = args.work / f"{args.target.stem}.{args.network}.yaml"
    file.write_text(text)
    return file


def priced(args, row, target):
    """What piper-plan simulate says of a row's layout; of the rank that needs most, the peak and the arena; and seconds."""
    plans, strategy = args.work / f"{row.name}_{args.attention}.plans", args.work / f"{row.name}.yaml"
    strategy.write_text(layout(row))
    start = time.monotonic()
    if not (plans / "manifest.json").exists():
        done = subprocess.run([args.bin / "piperc", exported(row, args.attention, args.work), "--strategy", strategy, "--target", target,
                               "--reference", "none", "--weights", "none", "-o", plans], capture_output=True, text=True)
        if done.returncode not in (0, 3):    # 3: more memory than the machine has; priced like any other
            sys.exit(f"{row.name}: {done.stderr}")
    told = subprocess.run([args.bin / "piper-plan", "simulate", plans, "--target", target, "--json"], capture_output=True, text=True, check=True)
    told = json.loads(told.stdout)
    worst = max(told["ranks"], key=lambda rank: rank["peak_bytes"])
    head = (plans / "ranks" / f"rank-{worst['rank']:05}.json").open().read(1000)    # the whole file can be large
    arena = int(re.search(r'"arena_bytes":(\d+)', head)[1])
    if not args.keep:
        shutil.rmtree(plans)
    return told, worst["peak_bytes"], arena, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--target", required=True, type=pathlib.Path)
    parser.add_argument("--only", default="*")
    parser.add_argument("--attention", choices=("fused", "unfused"), default="fused")
    parser.add_argument("--network", choices=("target", "paper"), default="target")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--keep", action="store_true", help="keep the plans, which can be gigabytes")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    args.work.mkdir(parents=True, exist_ok=True)
    target = target_of(args)
    peak_flops = float(re.search(r"bf16: ([0-9.e]+)", target.read_text())[1])
    print("| model | TP x PP x DP | microbatches | peak, GiB | of it values | fits | step, s | TFLOP/s of a GPU: published | predicted | of the peak: published "
          "| predicted | busy | exposed communication | waiting | wall, s |\n" + "|---" * 15 + "|")
    for row in TABLE:
        if not fnmatch.fnmatch(row.name, args.only):
            continue
        (args.work / f"{row.name}.base.yaml").write_text(training(row))
        told, peak, arena, wall = priced(args, row, target)
        step, ranks = told["step_us"] / 1e6, told["ranks"]
        predicted = row.flops / step / row.gpus / 1e12
        parts = [sum(rank[key] for rank in ranks) / len(ranks) / told["step_us"] for key in ("busy_us", "exposed_communication_us", "waiting_us")]
        print(f"| {row.name} | {row.tp} x {row.pp} x {row.dp} | {row.microbatches} x {row.samples} | {peak / 2**30:.1f} "
              f"| {arena / 2**30:.1f} | {'no' if any(rank['fits'] == 'oom' for rank in ranks) else 'yes'} | {step:.2f} | {row.teraflops:.0f} | {predicted:.0f} "
              f"| {row.teraflops * 1e12 / peak_flops:.0%} | {predicted * 1e12 / peak_flops:.0%} | " + " | ".join(f"{part:.0%}" for part in parts)
              + f" | {wall:.0f} |", flush=True)


if __name__ == "__main__":
    main()
