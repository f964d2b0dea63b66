#!/usr/bin/env python3
"""Training runs that others published, beside what a target predicts for the same model, machines, batch and sharding; and the two
efficiencies of the target that fit half of them best.

  published_runs.py --bin BIN --work DIR --target FILE [--fit KEY,KEY] [--set KEY=VALUE]... [--only GLOB]

The runs are those of MosaicML's table for models of the MPT family (github.com/mosaicml/llm-foundry, scripts/train/benchmarking/README.md at
061f2c7c, "H100 80GB BF16" and "A100 80GB"): plain data parallelism with everything sharded (FULL_SHARD, ZeRO-3), bf16 with f32 masters, gradients
clipped, blocks recomputed where the table says activation checkpointing, PyTorch without a compiler, flash attention. The model is written
here as the table's numbers of parameters say that it is: no biases, learned positions, tied embeddings. Rows of fewer than 1,024 or more than
32,768 tokens are left out, and the 70B of A100s, whose parameters were bf16. TorchTitan's two rows without its compiler
(github.com/pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md) are of an H100 with other memory (2.4e12 bytes/s, 500 W): they are
predicted with that memory, and never fitted.

--fit product,attention: these two of the target's efficiencies are searched on every second row, for the least mean square of the logarithm of
predicted over published time; the others are held out. Printed for both halves: the median of the errors, how many are within 25 %, and the range
that holds nine of ten. --set: another value of one of the target's numbers.
"""
import argparse
import dataclasses
import fnmatch
import json
import logging
import math
import pathlib
import re
import statistics
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import piper_export  # noqa: E402

VOCABULARY = 50368
SHAPES = {    # width, layers, heads
    "350m": (1024, 24, 16), "760m": (1536, 24, 12), "1b": (2048, 24, 16), "3b": (2560, 32, 20), "7b": (4096, 32, 32), "13b": (5120, 40, 40),
    "30b": (7168, 48, 56), "70b": (8192, 80, 64)}


@dataclasses.dataclass(frozen=True)
class Run:
    """samples: of a microbatch. tokens_per_second: of one GPU, as published. recompute: the directive's fields, "" without."""
    model: str
    tokens: int
    gpus: int
    samples: int
    microbatches: int
    recompute: str
    tokens_per_second: float
    memory_bytes_per_second: float = 0    # other than the target's

    @property
    def name(self):
        return f"{self.model}/{self.tokens}/{self.gpus}x{self.samples}x{self.microbatches}{'/repeated' if self.recompute else ''}"


def rows(text):
    """model tokens gpus samples microbatches recomputed tokens/s/GPU."""
    runs = []
    for line in text.split("\n"):
        if cells := line.split():
            model, *numbers, checkpointed, speed = cells
            runs.append(Run(model, *map(int, numbers), "{op: recompute, filter: {}}" if checkpointed == "yes" else "", float(speed)))
    return runs


H100 = rows("""
70b 2048 64 8 4 yes 1039
70b 2048 32 2 16 yes 882
30b 8192 8 1 21 yes 1384
30b 4096 8 1 21 yes 1802
30b 2048 32 14 3 yes 2308
30b 2048 16 10 3 yes 2263
30b 2048 8 3 21 yes 2002
30b 1024 8 6 21 yes 2084
13b 32768 8 1 3 yes 1976
13b 16384 8 3 3 yes 2985
13b 4096 8 10 3 yes 4717
13b 2048 64 2 1 no 4800
13b 2048 32 2 1 no 4811
13b 2048 16 2 1 no 4767
13b 2048 8 2 1 no 4792
13b 1024 8 40 3 yes 5502
7b 32768 8 2 2 yes 3318
7b 8192 8 8 2 yes 6935
7b 4096 8 16 2 yes 8611
7b 2048 8 6 1 no 10643
7b 1024 8 64 2 yes 10203
3b 32768 8 3 6 yes 5873
3b 16384 8 1 6 no 11152
3b 8192 8 3 6 no 16578
3b 4096 8 5 6 no 20964
3b 2048 64 6 3 no 22525
3b 2048 32 6 3 no 23021
3b 2048 16 10 3 no 24142
3b 1024 8 20 6 no 27046
1b 32768 8 1 4 no 12025
1b 16384 8 2 4 no 19649
1b 8192 8 3 4 no 29157
1b 4096 8 7 4 no 38535
1b 2048 64 20 1 no 44402
1b 2048 32 20 1 no 45130
1b 2048 16 20 1 no 46037
1b 2048 8 14 1 no 45455
1b 1024 8 18 4 no 48910
760m 32768 8 1 2 no 16291
760m 16384 8 3 2 no 27815
760m 8192 8 6 2 no 41825
760m 4096 8 12 2 no 55459
760m 2048 32 24 1 no 67971
760m 2048 16 24 1 no 68551
760m 2048 8 24 2 no 63147
760m 1024 8 48 2 no 78581
""")
A100 = rows("""
30b 8192 8 1 21 yes 574
30b 4096 8 1 21 yes 814
30b 2048 8 3 21 yes 916
30b 1024 8 6 21 yes 946
13b 32768 8 1 3 yes 1016
13b 16384 8 3 3 yes 1431
13b 8192 8 5 3 yes 1795
13b 4096 8 10 3 yes 2060
13b 2048 8 2 3 no 2262
13b 1024 8 40 3 yes 2330
7b 32768 8 2 2 yes 1672
7b 16384 8 4 2 yes 2453
7b 8192 8 8 2 yes 3206
7b 4096 8 16 2 yes 3684
7b 2048 8 6 2 no 4641
7b 1024 8 64 2 yes 4357
3b 32768 8 3 6 yes 3029
3b 16384 8 1 6 no 5529
3b 8192 8 3 6 no 7695
3b 4096 8 5 6 no 9457
3b 2048 8 10 2 no 10811
3b 1024 8 20 6 no 11580
1b 32768 8 1 4 no 6275
1b 16384 8 2 4 no 9956
1b 8192 8 3 4 no 13814
1b 4096 8 7 4 no 17807
1b 2048 8 14 4 no 20513
1b 1024 8 18 4 no 22112
760m 32768 8 1 2 no 8802
760m 16384 8 3 2 no 14274
760m 8192 8 6 2 no 20933
760m 4096 8 12 2 no 27351
760m 2048 8 24 2 no 32434
760m 1024 8 48 2 no 29765
350m 32768 8 2 2 no 13652
350m 16384 8 4 2 no 23559
350m 8192 8 8 2 no 36569
350m 4096 8 16 2 no 49555
350m 2048 8 32 2 no 58782
350m 1024 8 64 2 no 64813
""")
KEPT_PRODUCTS = "{op: recompute, filter: {}, ops: all_but_products}"
TITAN = [Run("llama_8b", 8192, 8, 2, 1, KEPT_PRODUCTS, 5762, 2.4e12), Run("llama_8b", 8192, 128, 2, 1, KEPT_PRODUCTS, 5605, 2.4e12)]
RUNS = {"h100": (H100, TITAN), "a100": (A100, [])}    # by the beginning of the target's name: fitted and held out, predicted alone


class Block(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width, bias=bias), nn.LayerNorm(width, bias=bias)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=bias), nn.Linear(width, width, bias=bias)
        self.up, self.down = nn.Linear(width, 4 * width, bias=bias), nn.Linear(4 * width, width, bias=bias)

    def attention(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def forward(self, x):
        samples, length, width = x.shape
        q, k, v = (t.view(samples, length, self.heads, width // self.heads).transpose(1, 2) for t in self.qkv(self.norm_1(x)).chunk(3, -1))
        x = x + self.out(self.attention(q, k, v).transpose(1, 2).reshape(samples, length, width))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Gpt(nn.Module):
    """A GPT with learned positions and a tied embedding."""

    def __init__(self, width, layers, heads, tokens, vocabulary, bias=False, block=Block):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(block(width, heads, bias) for _ in range(layers))
        self.norm_f = nn.LayerNorm(width, bias=bias)

    def forward(self, ids, labels):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.loss(F.linear(self.norm_f(x), self.wte.weight), labels)

    def loss(self, logits, labels):
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def export(make, tokens, path):
    with piper_export.without_weights():
        net = make()
    ids = torch.zeros(3, tokens, dtype=torch.int64)
    piper_export.export(net, {"ids": ids, "labels": ids}, path, weights=False)


def exported(run, work):
    """The model's file, and the bytes of a block's weights in f32."""
    path = work / f"{run.model}_{run.tokens}.pt2"
    if run.model not in SHAPES:
        import real_sizes
        if not path.exists():
            real_sizes.export(real_sizes.MODELS[run.model], real_sizes.config_of(real_sizes.MODELS[run.model], run.tokens, 0), run.tokens, path)
        shape = real_sizes.LLAMA_8B
        width, inner = shape["hidden_size"], shape["intermediate_size"]
        return path, 4 * (width * width * 2 + 2 * width * (width // shape["num_attention_heads"] * shape["num_key_value_heads"]) + 3 * width * inner)
    width, layers, heads = SHAPES[run.model]
    if not path.exists():
        export(lambda: Gpt(width, layers, heads, run.tokens, VOCABULARY), run.tokens, path)
    return path, 4 * 12 * width * width


def planned(binaries, run, work, target):
    """The plans of a run: one bucket a block, as its framework wraps them."""
    plans = work / (run.name.replace("/", "_") + ".plans")
    if (plans / "manifest.json").exists():
        return plans
    model, block = exported(run, work)
    split = [f"{{op: split, num_microbatches: {run.microbatches}}}"] if run.microbatches > 1 else []
    directives = split + [f'{{op: replicate, filter: {{}}, devices: {{dp: "*"}}, shard_params: true, bucket_size: {1.01 * block / 2**20:.1f}}}']
    directives += [run.recompute] if run.recompute else []
    strategy = work / (run.name.replace("/", "_") + ".yaml")
    strategy.write_text(f"piper: 1\nmesh: {{dp: {run.gpus}}}\nmodel: {{batch: {run.gpus * run.samples * run.microbatches}}}\n"
                        "directives:\n" + "".join(f"  - {one}\n" for one in directives)
                        + "precision: {compute: bf16, master: f32}\nclip_grad_norm: 1.0\noptimizer: {adamw: {lr: 3.0e-4}}\n")
    done = subprocess.run([binaries / "piperc", model, "--strategy", strategy, "--target", target, "--reference", "none", "--weights", "none", "-o", plans], capture_output=True, text=True)
    if done.returncode not in (0, 3):    # 3: more memory than the machine has; priced like any other
        sys.exit(f"{run.name}: {done.stderr}")
    return plans


def target_with(text, **values):
    for key, value in values.items():
        text, found = re.subn(rf"(\b{key}: )[-+.e0-9]+", rf"\g<1>{value}", text, count=1)
        if not found:
            sys.exit(f"the target has no {key}")
    return text


class Machine:
    """A target whose numbers are changed; predicts times in seconds."""

    def __init__(self, binaries, work, target):
        self.binaries, self.work, self.text = binaries, work, target.read_text()

    def predicted(self, runs_and_plans, **efficiency):
        def one(item):
            run, plans = item
            text = target_with(self.text, **efficiency)
            if run.memory_bytes_per_second:
                text = target_with(text, memory_bytes_per_second=run.memory_bytes_per_second)
            file = self.work / (plans.name + ".target.yaml")
            file.write_text(text)
            told = subprocess.run([self.binaries / "piper-plan", "simulate", plans, "--target", file, "--json"], capture_output=True, text=True)
            if told.returncode != 0:
                sys.exit(f"{run.name}: {told.stderr}")
            return json.loads(told.stdout)["step_us"] / 1e6
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(one, runs_and_plans))


def published(run):
    return run.tokens * run.samples * run.microbatches / run.tokens_per_second


def summary(name, runs, times):
    ratios = [time / published(run) for run, time in zip(runs, times)]
    errors = sorted(abs(ratio - 1) for ratio in ratios)
    ordered = sorted(ratios)
    cut = len(ordered) // 20
    print(f"{name}: {len(runs)} runs, error in the median {100 * statistics.median(errors):.1f} %, at most {100 * errors[-1]:.1f} %; "
          f"{sum(error <= 0.25 for error in errors)} within 25 %; predicted over published, nine of ten: {ordered[cut]:.3f} to {ordered[-1 - cut]:.3f}")


def fitted(machine, items, keys, fixed):
    """Two efficiencies, by a search of falling steps."""
    wanted = [published(run) for run, _ in items]

    def error(values):
        times = machine.predicted(items, **fixed, **dict(zip(keys, values)))
        value = statistics.fmean(math.log(time / want) ** 2 for time, want in zip(times, wanted))
        print(f"  {', '.join(f'{key} {value:.3f}' for key, value in zip(keys, values))}: root mean square of the logarithms {math.sqrt(value):.4f}", flush=True)
        return value

    best, step = tuple(0.5 for _ in keys), 0.2
    least = error(best)
    while step > 0.006:
        around = [tuple(value + sign * step * (key == at) for at, value in zip(keys, best)) for key in keys for sign in (1, -1)]
        tried = [(error(at), at) for at in around if 0.05 < min(at) and max(at) <= 1]
        if tried and min(tried)[0] < least:
            least, best = min(tried)
        else:
            step /= 2
    return {key: f"{value:.3g}" for key, value in zip(keys, best)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--target", required=True, type=pathlib.Path)
    parser.add_argument("--fit", help="two keys of efficiency")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--only", default="*")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    args.work.mkdir(parents=True, exist_ok=True)
    machine = Machine(args.bin, args.work, args.target)
    runs, others = RUNS[args.target.name[:4]]
    runs, others = ([run for run in some if fnmatch.fnmatch(run.name, args.only)] for some in (runs, others))
    items = []
    for run in runs + others:
        items.append((run, planned(args.bin, run, args.work, args.target)))
        print(f"{run.name}: compiled", flush=True)
    efficiency = dict(one.split("=") for one in args.set)
    if args.fit:
        efficiency |= fitted(machine, items[:len(runs):2], args.fit.split(","), efficiency)
        print(f"fitted: {efficiency}")
    times = machine.predicted(items, **efficiency)
    print("| run | published, tokens/s a GPU | predicted | time, predicted over published |\n|---|---|---|---|")
    for (run, _), time in zip(items, times):
        print(f"| {run.name} | {run.tokens_per_second:,.0f} | {run.tokens * run.samples * run.microbatches / time:,.0f} | {time / published(run):.3f} |")
    summary("fitted half", runs[::2], times[:len(runs):2])
    summary("held out", runs[1::2], times[1:len(runs):2])
    if others:
        summary("predicted alone", others, times[len(runs):])


if __name__ == "__main__":
    main()
