#!/usr/bin/env python3
"""What `piperc --search` proposes, against strategies drawn by chance and the files of strategies/, run with kernels that sleep.

  searched.py --bin build/release/bin --work DIR [--ranks 4] [--link 500,400000000] [--rounds 3] [--steps 5]

CPU ranks on however few cores there are: kernels wait for the times that prices use as well, and every message takes what --link says
(docs/pricing.md, "Simulated against measured"). All choices of a drawn strategy are drawn; one that does not compile is drawn again. The
files' blocks are numbered anew for this model, and they have its batch; what does not compile so, and experts, is left out, and said.

One table of kernel times is for all: calls that it lacks are calibrated on two cores, of each the least time. Such a call is priced by a
roofline that no kernel of this machine reaches, so that a search finds what it has not measured rather than leaves it out. Searches are
repeated until the table has every call of what they propose. Every prediction is that of `piper-plan simulate --target --kernel-times`, as
of the search. Runs are in turn, every other round backwards. Prints what was measured, the rank correlation (Spearman) of predicted and
measured steps, and how the first proposal compares with the best and with the files.
"""
import argparse
import json
import pathlib
import random
import re
import statistics
import subprocess

import programs
import simulated
from programs import Programs

MODEL, BLOCKS, FILES_BLOCKS = "llama_small", 8, 4
STRATEGIES = pathlib.Path(__file__).resolve().parents[2] / "strategies"
DRAWN = {"sequence": ("false", "true"), "vocabulary": ("false", "true"), "zero": range(4),
         "recompute": ("none", "attention", "all_but_products", "all"), "virtual": (1, 2, 4)}
FAMILIES = ("1f1b", "gpipe", "zero_bubble", "interleaved_1f1b", "interleaved_zero_bubble", "zb_v", "dualpipev", "dualpipe")


def target_text(ranks, link):
    latency, rate = link.split(",")
    level = f"{{latency_us: {latency}, bytes_per_second: {float(rate)}}}"
    return (f"name: {ranks} ranks whose kernels wait\ndevice: cpu\nranks_per_node: {ranks}\nflops: {{f32: 1.5e11}}\nmemory_bytes: 4.0e9\n"
            "memory_bytes_per_second: 4.0e10\nefficiency: {product: 1, grouped_product: 1, attention: 1, memory: 1}\nkernel_us: 0\nhost_us: 0\n"
            f"inside_node: {level}\nbetween_nodes: {level}\ncollectives: direct\n")


class Bench:
    def __init__(self, args):
        self.own, self.args, self.link = Programs(args.bin, args.work), args, args.link
        self.base = f"piper: 1\nmodel: {{batch: {args.batch}}}\n{programs.OPTIMIZER}"
        self.target, self.times = self.own.work / "target.yaml", self.own.work / "kernel.times"
        self.target.write_text(target_text(args.ranks, args.link))
        if not self.times.exists():
            self.times.write_text("")

    def searched(self, out, *flags):
        """The strategies that a search writes, as (text, words), or None where there are none."""
        folder = self.own.work / out
        done = self.own.piperc(MODEL, self.base, "base", "--search", folder, "--target", self.target, "--ranks", str(self.args.ranks),
                               "--kernel-times", self.times, "--candidates", "1", "--json", *flags)
        if done.returncode != 0:
            if "P0271" in done.stderr or "P0272" in done.stderr:
                return None
            raise SystemExit(done.stderr)
        return [((folder / row["file"]).read_text(), row["strategy"]) for row in json.loads(done.stdout)["strategies"]]

    def plans(self, text, name):
        """None where it does not compile."""
        plans = self.own.work / f"{name}.plans"
        return plans if self.own.piperc(MODEL, text, name, "-o", plans).returncode == 0 else None

    def priced(self, plans):
        done = subprocess.run([self.own.bin / "piper-plan", "simulate", plans, "--target", self.target, "--kernel-times", self.times, "--json"],
                              capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def calibrate(self, plans):
        """Whether the table lacked calls of the plans; it has them then."""
        told = self.priced(plans)
        if told["measured_calls"] == told["distinct_calls"]:
            return False
        own = self.own.work / "own.times"
        self.own.run(plans, 2, "--calibrate", own)
        known = self.times.read_text()
        self.times.write_text(simulated.least_times([known, own.read_text()]))
        return True


def drawn(bench, dice, known):
    """A random strategy of the search's space: every choice is drawn, and a draw that is no strategy, or known, is drawn again."""
    ranks, batch = bench.args.ranks, bench.args.batch
    powers = [1 << k for k in range(ranks.bit_length()) if ranks % (1 << k) == 0]
    while True:
        pp, tp = dice.choice([(p, t) for p in powers for t in powers if p * t <= ranks])
        dp = ranks // pp // tp
        fixed = {name: dice.choice(values) for name, values in DRAWN.items()}
        fixed |= {"pp": pp, "tp": tp, "dp": dp, "family": dice.choice(FAMILIES),
                  "microbatches": dice.choice([m for m in range(1, batch // dp + 1) if batch // dp % m == 0])}
        if found := bench.searched("drawn", "--keep", "1", *[word for name, value in fixed.items() for word in ("--fix", f"{name}={value}")]):
            text, what = found[0]
            if what not in known:
                return text, what


def files(bench):
    """(name, text) of strategies/*.yaml for this model: its batch, its blocks, and what the proposals train with."""
    for path in sorted(STRATEGIES.glob("*.yaml")):
        text = re.sub(r"batch: \d+", f"batch: {bench.args.batch}", path.read_text())
        text = re.sub(r"^(optimizer|lr_schedule|clip_grad_norm):.*\n", "", text, flags=re.MULTILINE) + programs.OPTIMIZER
        yield path.name, re.sub(r"\bh\.(\d)", lambda found: f"h.{int(found[1]) * BLOCKS // FILES_BLOCKS}", text)


def ranks_of(plans):
    return len(json.loads((plans / "manifest.json").read_text())["ranks"])


def gathered(bench):
    """{name: plans}: the proposals, the drawn, and the files, all of whose calls the table has."""
    dice, known, plans = random.Random(bench.args.seed), {}, {}
    for name, text in files(bench):
        made = bench.plans(text, name)
        if made is None or ranks_of(made) > bench.args.ranks:
            print(f"left out: {name}, {'which does not compile for this model' if made is None else f'{ranks_of(made)} ranks'}")
            continue
        bench.calibrate(made)
        plans[name] = made
    while len(known) < 10:
        text, what = drawn(bench, dice, known)
        made = bench.plans(text, f"drawn.{len(known)}")
        bench.calibrate(made)
        known[what] = made
    searches = 0
    while True:
        proposed, searches = {}, searches + 1
        lacked = False
        for k, (text, what) in enumerate(bench.searched("found", "--keep", "10")):
            made = bench.plans(text, f"proposed.{k + 1}")
            lacked |= bench.calibrate(made)
            proposed[f"{k + 1}: {what}"] = made
        print(f"search {searches}: {'the table lacked calls of what it proposed' if lacked else next(iter(proposed))}", flush=True)
        if not lacked:
            return proposed, {f"drawn: {what}": made for what, made in known.items()}, plans


def compare(bench, proposed, drawn_ones, of_files):
    plans = proposed | drawn_ones | of_files
    predicted = {name: bench.priced(made)["step_us"] / 1e3 for name, made in plans.items()}
    runs = {name: [] for name in plans}
    for round_ in range(bench.args.rounds):
        for name in list(plans)[::-1 if round_ % 2 else 1]:
            runs[name].append(bench.own.run(plans[name], bench.args.steps, "--kernel-times", bench.times, "--link-delay", bench.link).step_ms)
    print(f"| strategy | ranks | step, ms: predicted | measured (range of {bench.args.rounds}) | spread | error |\n{'|---' * 6}|")
    middle = {name: statistics.median(steps) for name, steps in runs.items()}
    for name, steps in runs.items():
        print(f"| {name} | {ranks_of(plans[name])} | {predicted[name]:.1f} | {programs.spread(steps, '{:.1f}')} | {100 * (max(steps) / min(steps) - 1):.1f} % | "
              f"{100 * (predicted[name] / middle[name] - 1):+.1f} % |", flush=True)
    twenty = [*proposed, *drawn_ones]
    first, best = next(iter(proposed)), min(twenty, key=middle.get)
    print(f"rank correlation of predicted and measured: {simulated.spearman([predicted[n] for n in twenty], [middle[n] for n in twenty]):.3f} of all {len(twenty)}, "
          f"{simulated.spearman([predicted[n] for n in drawn_ones], [middle[n] for n in drawn_ones]):.3f} of the drawn alone")
    print(f"the first proposal: {100 * (middle[first] / middle[best] - 1):.1f} % slower than the best measured ({best})")
    closest = min(of_files, key=middle.get)
    print(f"of the files the fastest, {closest}, takes {middle[closest] / middle[first]:.2f} times as long as the first proposal")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--link", default="500,400000000", help="microseconds of every message, and bytes per second of a rank's port")
    parser.add_argument("--seed", type=int, default=1, help="of the drawn strategies")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    bench = Bench(args)
    print(programs.load(), flush=True)
    compare(bench, *gathered(bench))
    print(programs.load())


if __name__ == "__main__":
    main()
