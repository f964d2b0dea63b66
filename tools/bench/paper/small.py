#!/usr/bin/env python3
"""The grids of the paper's evaluation (Piper, arXiv 2606.11169) scaled down and run on CPU ranks: simulated against measured.

  small.py --bin build/release/bin --work DIR [--only 7 8 9] [--link 2000,20000000] [--slower 25] [--steps 3]

Schedules, placements and levels of ZeRO are those of figures.py, on 4 to 16 ranks; the models are small_1b and small_9b of models.py,
in f32, with one sequence a rank and microbatch. Every rank is a thread of one process, on however few cores there are. For Figures 7
and 9 kernels wait (`piper-run --kernel-times`) for --slower times what `piper-run --calibrate` measured them to take, so that the
executor's own time on shared cores is small beside it, rows travel as a balanced router sends them, and messages take what --link
says; the simulation has the same times and links. A step is the median of --steps, its parts (kernels, transfers that no kernel
hides, waiting) are means over ranks of the same steps. For Figure 8 kernels compute, and the peak memory that every rank counted
is compared with what was predicted for it. Each figure ends with the order of its rows, simulated and measured.
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
        self.steps, self.parts, self.tables = [], [], {}

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
        done = subprocess.run([self.own.bin / "piperc", self.model(model), "--strategy", path, "--reference=none", "-o", plans], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"piperc refuses {path}:\n{done.stderr}")
        return plans

    def kernel_times(self, plans, figure):
        """The table of a bundle. A call that several schedules of a figure have takes what it took in the first of them: their steps
        then differ by their schedules alone."""
        times = self.own.work / "small.times"
        self.own.run(plans, 1, "--calibrate", times)
        known = self.tables.setdefault(figure, {})
        for row in map(json.loads, times.read_text().splitlines()):
            known.setdefault(row["call"], row | {"us": row["us"] * self.args.slower})
        times.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in known.values()))
        return times

    def compared(self, plans, figure):
        """(measured, simulated) step in milliseconds, and the cells of a row with the parts of both."""
        times, profile, (latency, rate) = self.kernel_times(plans, figure), self.own.work / "small.profile", self.args.link.split(",")
        real = self.own.run(plans, self.args.steps, "--kernel-times", times, "--link-delay", self.args.link, "--profile", profile).step_ms
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


def order(names, values):
    """Names from the smallest value to the largest."""
    return " < ".join(name for _, name in sorted(zip(values, names)))


# (model, ranks of the pipeline, of experts, the paper's gains over the first), on at most 16 ranks.
FIGURE_7 = [("1b", 4, 4, {"1f1b": None, "interleaved_1f1b": 5, "dualpipev": 13}),
            ("9b", 2, 4, {"interleaved_1f1b": None, "dualpipev": 10})]


def figure_7(small):
    print(f"\n| Figure 7 | schedule | gain over the first, %: the paper's, measured, simulated | step, ms: measured, simulated | error |"
          f"{simulated.PART_HEADS}\n{'|---' * 8}|", flush=True)
    orders = []
    for model, pipeline, experts, families in FIGURE_7:
        steps = []
        for family, claim in families.items():
            plans = small.compiled(f"small_{model}", family, pipeline, experts, "ZeRO-1", 1, experts=True)
            real, step, cells = small.compared(plans, f"7 {model}")
            steps.append((real, step))
            gains = "-" if claim is None else ", ".join([f"+{claim}", *(f"{100 * (a / b - 1):+.1f}" for a, b in zip(steps[0], steps[-1]))])
            print(f"| small {model.upper()}, PP{pipeline} x EP{experts} | {family} | {gains} | {cells}", flush=True)
        paper = order(families, [-(claim or 0) for claim in families.values()])
        orders.append(f"small {model.upper()}, shortest step first: the paper's {paper}; measured {order(families, [real for real, _ in steps])}; "
                      f"simulated {order(families, [step for _, step in steps])}")
    small.summary("Figure 7, step")
    print("\n".join(orders))


def figure_8(small):
    print(f"\n| Figure 8: small 9B, PP4 x DP4 | sequences of a microbatch | largest peak, MiB: predicted, measured | of the rank with the largest gap |\n"
          f"{'|---' * 4}|", flush=True)
    for size in (1, 4):
        peaks = []
        for zero in figures.FIGURE_8:
            plans = small.compiled("small_9b", "1f1b", 4, 4, zero, size)
            predicted, measured = small.own.predicted_memory(plans), small.own.run(plans, 1).peak_memory
            peaks.append((max(measured), max(predicted)))
            print(f"| {zero} | {size} | {max(predicted) / 2**20:.1f}, {max(measured) / 2**20:.1f} |{simulated.memory_cell(predicted, measured)}", flush=True)
        print(f"smallest peak first, {size} a microbatch: measured {order(figures.FIGURE_8, [m for m, _ in peaks])}; "
              f"predicted {order(figures.FIGURE_8, [p for _, p in peaks])}", flush=True)


def figure_9(small):
    print(f"\n| Figure 9: small 1B, ranks | of linear, %: measured, simulated | step, ms: measured, simulated | error |{simulated.PART_HEADS}\n{'|---' * 7}|", flush=True)
    first = None
    for pipeline, copies in ((2, 2), (2, 4), (4, 2), (4, 4), (8, 2)):
        real, step, cells = small.compared(small.compiled("small_1b", "1f1b", pipeline, copies, "none", 1), "9")
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
    parser.add_argument("--slower", type=float, default=25, help="times the kernels' own time")
    parser.add_argument("--steps", type=int, default=3)
    small = Small(parser.parse_args())
    print(programs.load())
    for part in small.args.only:
        PARTS[part](small)
    print(programs.load())


if __name__ == "__main__":
    main()
