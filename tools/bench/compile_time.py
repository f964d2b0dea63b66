#!/usr/bin/env python3
"""Compile time of a GPT on 8 pipeline stages, one forward and one backward in turn, over the number of microbatches and replicas.

  compile_time.py --bin build/release/bin --work DIR [--rounds 5]

Prints per size: nodes of the DAG, median wall time of the whole program, time by phase; then the growth exponent between the
sizes; then, for 1, 2 and 64 replicas, all phases before emission, the whole program and the size of the plans. Weights are left out.
"""
import argparse
import math
import pathlib
import re
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import piper_export  # noqa: E402

STAGES, WIDTH, SEQUENCE, VOCABULARY = 8, 32, 16, 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, s, c = x.shape
        q, k, v = (t.view(b, s, 2, c // 2).transpose(1, 2) for t in self.qkv(self.ln1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, s, c))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(SEQUENCE, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(STAGES))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, input_ids, labels):
        x = self.wte(input_ids) + self.wpe(torch.arange(input_ids.shape[1]))
        for block in self.h:
            x = block(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


def strategy(microbatches, replicas):
    lines = ["piper: 1", f"model: {{batch: {2 * microbatches * replicas}}}",
             "annotate: [{tag: PP, starts: [" + ", ".join(f"h.{s}" for s in range(STAGES)) + "]}]", "directives:"]
    for s in range(STAGES):
        group = list(range(s * replicas, (s + 1) * replicas))
        lines.append(f"  - {{op: place, filter: {{PP: {s}}}, devices: {group}}}")
        if replicas > 1:
            lines.append(f"  - {{op: replicate, filter: {{PP: {s}}}, devices: {group}}}")
    lines += [f"schedule: {{family: 1f1b, microbatches: {microbatches}}}", "optimizer: {adamw: {lr: 1.0e-3}}"]
    return "\n".join(lines) + "\n"


def compile_once(args, model, path, *flags):
    began = time.perf_counter()
    done = subprocess.run([args.bin / "piperc", model, "--strategy", path, "--weights", "none", "--time-phases", *flags],
                          capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - began
    phases = {m[1]: float(m[2]) for m in re.finditer(r"^(\w+) +([0-9.e+-]+) ms$", done.stderr, re.M)}
    return seconds, phases, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    model = args.work / "gpt8.onnx"
    if not model.exists():
        example = torch.randint(VOCABULARY, (2, SEQUENCE))
        piper_export.export(Gpt(), {"input_ids": example, "labels": example.clone()}, model)
    sizes = []
    for microbatches in (8, 64, 285, 1000, 3330):
        path = args.work / f"m{microbatches}.yaml"
        path.write_text(strategy(microbatches, 1))
        _, _, text = compile_once(args, model, path, "--emit=dag", "--stop-after=order")
        nodes = int(re.search(r"nodes (\d+)", text)[1])
        runs = [compile_once(args, model, path, "-o", args.work / "plans") for _ in range(args.rounds)]
        median = statistics.median(r[0] for r in runs)
        phases = {name: statistics.median(r[1][name] for r in runs) for name in runs[0][1]}
        sizes.append((nodes, median))
        print(f"microbatches {microbatches:5} nodes {nodes:7} median {median:.3f} s  "
              + " ".join(f"{k} {v:.1f}" for k, v in phases.items()) + " ms", flush=True)
    (n0, t0), (n1, t1) = sizes[-2], sizes[-1]
    print(f"growth exponent between {n0} and {n1} nodes: {math.log(t1 / t0) / math.log(n1 / n0):.2f}")
    for replicas in (1, 2, 64):
        path = args.work / f"r{replicas}.yaml"
        path.write_text(strategy(64, replicas))
        runs = [compile_once(args, model, path, "--stop-after=order")[1] for _ in range(args.rounds)]
        before = [sum(r.values()) for r in runs]
        whole = statistics.median(compile_once(args, model, path, "-o", args.work / "plans")[0] for _ in range(args.rounds))
        size = sum(file.stat().st_size for file in (args.work / "plans").rglob("*") if file.is_file())
        print(f"replicas {replicas:3}: phases before emission {statistics.median(before):.2f} ms, whole program {whole:.3f} s, "
              f"plans {size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
