#!/usr/bin/env python3
"""The grids of the paper's evaluation (Piper, arXiv 2606.11169) with small models, run for real on CPU ranks: simulated against measured.

  small.py --bin build/release/bin --work DIR [--only 7 8 9] [--link 2000,20000000] [--slower 100]

The grids, schedules and placements are those of figures.py, the models small_1b and small_9b of models.py, in f32, with one sequence a
rank and microbatch. Every rank is a thread of one process, up to 32 of them on however few cores there are. For Figures 7 and 9 kernels
wait (`piper-run --kernel-times`) for --slower times what `piper-run --calibrate` measured them to take, so that the executor's own
time on shared cores is small beside it, and every message takes what --link says; the simulation has the same times and links. A
step is the median of two, its parts (kernels, transfers that no kernel hides, waiting) are means over ranks of the same steps. For
Figure 8 kernels compute, and the peak memory that every rank counted is compared with what was predicted for it.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools" / "bench"))
import figures  # noqa: E402
import kinds  # noqa: E402
import programs  # noqa: E402
import simulated  # noqa: E402

OPTIMIZER = "optimizer: {adamw: {lr: 3.0e-4}}\n"


class Small:
    def __init__(self, args):
        self.args, self.own = args, programs.Programs(args.bin, args.work)
        self.steps, self.parts = [], []

    def model(self, name):
        path = self.own.work / f"{name}.pt2"
        if not path.exists():
            subprocess.run([sys.executable, ROOT / "tools" / "piper_export.py", f"{ROOT / 'tools' / 'bench' / 'paper' / 'models.py'}:{name}", "-o", path],
                           check=True, capture_output=True)
        return path

    def compiled(self, model, *shape, **options):
        text = figures.strategy(model, *shape, **options).replace(figures.ADAM, OPTIMIZER)
        path, plans = self.own.work / "strategy.yaml", self.own.work / "plans"
        path.write_text(text)
        subprocess.run([self.own.bin / "piperc", self.model(model), "--strategy", path, "--reference=none", "-o", plans], check=True)
        return plans

    def compared(self, plans):
        """(measured, simulated) step in milliseconds, and the cells of a row with the parts of both."""
        times, profile, (latency, rate) = self.own.work / "small.times", self.own.work / "small.profile", self.args.link.split(",")
        self.own.run(plans, 1, "--calibrate", times)
        rows = [json.loads(line) for line in times.read_text().splitlines()]
        times.write_text("".join(json.dumps(row | {"us": row["us"] * self.args.slower}, separators=(",", ":")) + "\n" for row in rows))
        real = self.own.run(plans, 2, "--kernel-times", times, "--link-delay", self.args.link, "--profile", profile).step_ms
        said = subprocess.run([self.own.bin / "piper-plan", "simulate", plans, "--kernel-times", times, "--latency-us", latency,
                               "--bytes-per-second", rate], capture_output=True, text=True, check=True).stdout
        step = float(re.match(r"step: ([0-9.e+]+) us", said)[1]) / 1e3
        told = [*map(float, re.search(r"of a rank: (\S+) us kernels, (\S+) us exposed transfers, (\S+) us", said).groups())]
        found = kinds.measured(plans, profile)
        self.steps.append((real, step))
        self.parts.append([*zip(found, told)])
        return real, step, f"{real:.0f}, {step:.0f} | {100 * (step / real - 1):+.1f} % |{simulated.part_cells(real, found, told)}"

    def summary(self, what):
        simulated.summary(what, self.steps, self.parts)
        self.steps, self.parts = [], []


def figure_7(small):
    print(f"\n| Figure 7 | schedule | gain over the first, %: measured, simulated | step, ms: measured, simulated | error |{simulated.PART_HEADS}\n{'|---' * 8}|", flush=True)
    for model, pipeline, experts, families in figures.FIGURE_7:
        first = None
        for family in families:
            real, step, cells = small.compared(small.compiled(f"small_{model}", family, pipeline, experts, "ZeRO-1", 1, experts=True))
            first = first or (real, step)
            gains = "-" if first == (real, step) else ", ".join(f"{100 * (a / b - 1):+.1f}" for a, b in zip(first, (real, step)))
            print(f"| small {model.upper()}, PP{pipeline} x EP{experts} | {family} | {gains} | {cells}", flush=True)
    small.summary("Figure 7, step")


def figure_8(small):
    print(f"\n| Figure 8: small 9B, PP8 x DP4 | sequences of a microbatch |{simulated.MEMORY_HEAD}\n{'|---' * 3}|", flush=True)
    for zero in figures.FIGURE_8:
        for size in (1, 4):
            plans = small.compiled("small_9b", "1f1b", 8, 4, zero, size)
            measured = small.own.run(plans, 1).peak_memory
            print(f"| {zero} | {size} |{simulated.memory_cell(small.own.predicted_memory(plans), measured)}", flush=True)


def figure_9(small):
    print(f"\n| Figure 9: small 1B, ranks | of linear, %: measured, simulated | step, ms: measured, simulated | error |{simulated.PART_HEADS}\n{'|---' * 7}|", flush=True)
    first = None
    for pipeline in (2, 4, 8):
        for copies in (2, 4):
            real, step, cells = small.compared(small.compiled("small_1b", "1f1b", pipeline, copies, "none", 1))
            # Microbatches are two for each rank of a pipeline, so that steps of equal length are linear.
            first = first or (real, step)
            print(f"| PP{pipeline} x DP{copies} | {100 * first[0] / real:.0f}, {100 * first[1] / step:.0f} | {cells}", flush=True)
    small.summary("Figure 9, step")


PARTS = {"7": figure_7, "8": figure_8, "9": figure_9}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--link", default="2000,20000000", help="microseconds of every message, and bytes per second")
    parser.add_argument("--slower", type=float, default=100, help="times the kernels' own time")
    small = Small(parser.parse_args())
    print(programs.load())
    for part in small.args.only:
        PARTS[part](small)
    print(programs.load())


if __name__ == "__main__":
    main()
