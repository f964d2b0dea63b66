#!/usr/bin/env python3
"""The paper's evaluation (Piper, arXiv 2606.11169) at its own size, priced for nodes of 8 A100: no GPU is used.

  figures.py --bin build/release/bin --work DIR [--only 7 8 9 zero1 contention] [--target FILE] [--microbatch 4]

Exports the models of tools/bench/paper/models.py without weights into DIR where they are not there, compiles each strategy of the
paper, simulates it, and prints per claim: ours with rows as a balanced router sends them, ours with experts padded to all tokens
as in the paper's programs, and a verdict by the rule that is beside it. No constant is chosen after a figure that it serves.

Stages of a pipeline are inside of a node, as the paper's programs place them. Sequences are 512 tokens, masters and moments are f32,
products bf16; microbatches: two for each rank of a pipeline, of `--microbatch` sequences a rank; layers in equal numbers a stage.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
LAYERS = {"1b": 16, "9b": 24, "small_1b": 8, "small_9b": 8}
ADAM = 'precision: {compute: bf16, keep: ["*.gate"]}\noptimizer: {adamw: {lr: 3.0e-4}}\n'
OWNERS = {"1f1b": lambda s, p: s, "interleaved_1f1b": lambda s, p: s % p, "dualpipev": lambda s, p: min(s, 2 * p - 1 - s)}
ZERO = {"none": "", "ZeRO-1": ", shard_optimizer: true", "ZeRO-2": ", shard_optimizer: true, shard_grads: true",
        "ZeRO-3": ", shard_optimizer: true, shard_grads: true, shard_params: true"}


def strategy(model, family, pipeline, copies, zero, microbatch, experts=False, pipeline_inside=True, microbatches=None):
    """`copies` of every stage; with `experts`, these are parted over them."""
    stages = pipeline if family == "1f1b" else 2 * pipeline
    microbatches = microbatches or 2 * pipeline
    starts = ["net.model.embed_tokens"] + [f"net.model.layers.{s * LAYERS[model] // stages}" for s in range(1, stages)]
    text = f"piper: 1\nmodel: {{batch: {microbatches * microbatch * copies}}}\nannotate:\n  - {{tag: PP, starts: {json.dumps(starts)}}}\n"
    text += '  - {tag: EP, modules: ["*.mlp"]}\ndirectives:\n' if experts else "directives:\n"
    for p in range(pipeline):
        group = [c * pipeline + p if pipeline_inside else p * copies + c for c in range(copies)]
        own = [s for s in range(stages) if OWNERS[family](s, pipeline) == p]
        text += f"  - {{op: replicate, filter: {{PP: {own}}}, devices: {group}{ZERO[zero]}}}\n"
        if experts:
            text += f'  - {{op: shard, filter: {{PP: {own}, EP: "*"}}, devices: {group}}}\n'
    return text + f"schedule: {{family: {family}, microbatches: {microbatches}}}\n" + ADAM


class Paper:
    def __init__(self, args):
        self.args = args
        args.work.mkdir(parents=True, exist_ok=True)

    def ran(self, *command):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, command))}:\n{done.stderr}")
        return done.stdout

    def model(self, model, padded):
        name = f"qwen3_{model}" + ("_padded" if padded else "")
        path = self.args.work / f"{name}.pt2"
        if not path.exists():
            self.ran(sys.executable, ROOT / "tools" / "piper_export.py", f"{ROOT / 'tools' / 'bench' / 'paper' / 'models.py'}:{name}",
                     "-o", path, "--no-weights")
        return path

    def compiled(self, model, padded, text):
        path, plans = self.args.work / "strategy.yaml", self.args.work / "plans"
        path.write_text(text)
        self.ran(self.args.bin / "piperc", self.model(model, padded), "--strategy", path, "--device", "cuda", "--weights", "none",
                 "--reference=none", "-o", plans)
        return plans

    def priced(self, model, padded, text, target=None):
        plans = self.compiled(model, padded, text)
        return json.loads(self.ran(self.args.bin / "piper-plan", "simulate", plans, "--target", target or self.args.target, "--json"))

    def peak(self, model, padded, text):
        manifest = json.loads((self.compiled(model, padded, text) / "manifest.json").read_text())
        return max(rank["peak_bytes"] for rank in manifest["ranks"])

    def ranks_per_node(self, ranks):
        """The target with so many ranks of a node in use, and of its ports between nodes no more than ranks."""
        path = self.args.work / f"node{ranks}.yaml"
        text, nodes = re.subn(r"^ranks_per_node: \d+", f"ranks_per_node: {ranks}", self.args.target.read_text(), flags=re.M)
        text, ports = re.subn(r"(^between_nodes: .*ports_per_node: )(\d+)", lambda m: f"{m[1]}{min(int(m[2]), ranks)}", text, flags=re.M)
        if nodes != 1 or ports != 1:
            raise SystemExit(f"{self.args.target} does not say ranks and ports of a node, each on a line of its own")
        path.write_text(text)
        return path


def row(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def head(*cells):
    print()
    row(*cells)
    row(*["---"] * len(cells))


# The paper's claims are of the second and later schedules, over the first.
FIGURE_7 = [("1b", 8, 4, {"1f1b": None, "interleaved_1f1b": 5, "dualpipev": 13}),
            ("9b", 4, 4, {"interleaved_1f1b": None, "dualpipev": 10})]


def figure_7(paper):
    head("Figure 7", "inside a node", "schedule", "the paper's gain, %", "ours, balanced, %", "step, ms", "peak, GiB",
         "ours, padded, %", "step, ms", "peak, GiB", "verdict: within 5 points of the claim")
    for model, pipeline, experts, families in FIGURE_7:
        for inside in (True, False):
            first = {}
            for family, claim in families.items():
                text = strategy(model, family, pipeline, experts, "ZeRO-1", paper.args.microbatch, True, inside)
                cells, gains = [], []
                for padded in (False, True):
                    got = paper.priced(model, padded, text)
                    base = first.setdefault(padded, got)
                    gains.append(100 * (base["step_us"] / got["step_us"] - 1))
                    words = "-" if claim is None else f"{gains[-1]:+.1f}"
                    peak = max(rank["peak_bytes"] for rank in got["ranks"])
                    cells += [words, f"{got['step_us'] / 1e3:.1f}", f"{peak / 2**30:.1f}"]
                verdict = "" if claim is None else ", ".join(
                    f"{what}: " + ("agrees" if abs(gain - claim) <= 5 else "less" if gain < claim else "more") for what, gain in zip(("balanced", "padded"), gains))
                row(f"{model.upper()}, PP{pipeline} x EP{experts}", "stages" if inside else "experts", family,
                    "-" if claim is None else f"+{claim}", *cells, verdict)


# "none" is what the paper's programs do where ZeRO-1 is asked for: state and gradients whole on every replica.
FIGURE_8 = {"none": None, "ZeRO-1": 0, "ZeRO-2": 32, "ZeRO-3": 40}


def largest(fits, most=96):
    """The largest number up to `most` that fits, 0: not even 1; memory grows with it."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def figure_8(paper):
    head("Figure 8: 9B, PP8 x DP4", "the paper's largest batch", "ours, balanced: largest in 40 GB, in 80 GB", "GiB at 1", "GiB a sequence more",
         "ours, padded: largest in 40 GB, in 80 GB", "GiB at 1", "GiB a sequence more", "verdict: largest in 80 GB as the paper's")
    for zero, claim in FIGURE_8.items():
        cells, found = [], []
        for padded in (False, True):
            peaks = {}

            def peak(size):
                if size not in peaks:
                    peaks[size] = paper.peak("9b", padded, strategy("9b", "1f1b", 8, 4, zero, size))
                return peaks[size]
            small, large = (largest(lambda size, limit=limit: peak(size) <= limit) for limit in (40e9, 80e9))
            found.append(large)
            cells += [f"{small}, {large}", f"{peak(1) / 2**30:.1f}", f"{(peak(9) - peak(1)) / 8 / 2**30:.2f}"]
        verdict = "" if claim is None else ", ".join(
            f"{what}: " + ("agrees" if size == claim else f"{size} against {claim}") for what, size in zip(("balanced", "padded"), found))
        row(zero, "-" if claim is None else str(claim) if claim else "none fits", *cells, verdict)


def figure_9(paper):
    head("Figure 9: 1B, ranks", "ours, balanced: tokens/s", "of linear, %", "ours, padded: tokens/s", "of linear, %",
         "verdict: close to linear is 90 % and more")
    first = {}
    for pipeline in (2, 4, 8):
        for copies in (2, 4):
            cells, parts = [], []
            for padded in (False, True):
                got = paper.priced("1b", padded, strategy("1b", "1f1b", pipeline, copies, "none", paper.args.microbatch),
                                   paper.ranks_per_node(pipeline))
                a_rank = got["tokens_per_s"] / (pipeline * copies)
                parts.append(100 * a_rank / first.setdefault(padded, a_rank))
                cells += [f"{got['tokens_per_s']:.0f}", f"{parts[-1]:.0f}"]
            row(f"PP{pipeline} x DP{copies}", *cells, ", ".join(f"{what}: " + ("agrees" if part >= 90 else "below") for what, part in zip(("balanced", "padded"), parts)))


def zero_1(paper):
    head("ZeRO-1 on 2 devices: 1B, one microbatch of 8 a rank", "the paper's tokens/s", "ours, balanced", "ours, padded", "verdict")
    got = [paper.priced("1b", padded, strategy("1b", "1f1b", 1, 2, "ZeRO-1", 8, microbatches=1))["tokens_per_s"] for padded in (False, True)]
    row("DP2", "8641", *(f"{rate:.0f}" for rate in got), ", ".join(f"{rate / 8641:.1f} times" for rate in got))


def contention(paper):
    head("exchanges under reductions: 1B, PP8 x EP4, dualpipev", "the paper's slowdown", "ours, balanced: exchanges", "reductions",
         "ours, padded: exchanges", "reductions")
    for zero in ("ZeRO-1", "ZeRO-2"):
        cells = []
        for padded in (False, True):
            got = paper.priced("1b", padded, strategy("1b", "dualpipev", 8, 4, zero, paper.args.microbatch, True))
            slower = {kind["kind"]: kind["us"] / kind["alone_us"] for kind in got["transfers"]}
            cells += [f"{slower['all_to_all']:.2f}", f"{slower['reduce_scatter']:.2f}"]
        row("reduced once a step" if zero == "ZeRO-1" else "reduced after every backward", "1.46", *cells)


PARTS = {"7": figure_7, "8": figure_8, "9": figure_9, "zero1": zero_1, "contention": contention}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--target", type=pathlib.Path, default=ROOT / "strategies" / "targets" / "a100_node8.yaml")
    parser.add_argument("--microbatch", type=int, default=4)
    paper = Paper(parser.parse_args())
    for part in paper.args.only:
        PARTS[part](paper)


if __name__ == "__main__":
    main()
