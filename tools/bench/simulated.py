#!/usr/bin/env python3
"""Simulated against measured steps of ten strategies on the cores of this machine.

  simulated.py --bin build/release/bin --work DIR [--rounds 3] [--steps 12]
  simulated.py --bin build/release/bin --work DIR --waiting [--link 1000,200000000]

A GPT on two ranks, each with one thread; at most as many ranks as cores, so that kernels run as they are. Kernel times come from
`piper-run --calibrate` of bundles that are not among those predicted; calls that these lack are priced by the roofline of
strategies/targets/cpu_two_cores.yaml. Prints for each strategy the measured step (the least of the rounds' medians: others on the machine
only add to it), what is simulated without and with the table, with signed errors; the processor time of a rank's kernels beside what is
simulated; the predicted and measured peak memory. At last the median errors of the step, and the rank correlation (Spearman).

With --waiting 4 to 16 ranks run on however few cores there are: kernels wait (`piper-run --kernel-times`) for the times that the
same table gives the simulation, and every message takes what --link says in both. What is compared then is the executor, its streams
and its messages, and what the simulation takes them for.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess

import kinds
import programs
from programs import Programs

TARGET = pathlib.Path(__file__).resolve().parents[2] / "strategies" / "targets" / "cpu_two_cores.yaml"
BLOCKS = 4


def pipeline(family, microbatches, stages):
    starts = ["wte"] + [f"h.{BLOCKS // stages * s}" for s in range(1, stages)]
    return (f"piper: 1\nmodel: {{batch: 16}}\nannotate:\n  - {{tag: PP, starts: {json.dumps(starts)}}}\n"
            f"schedule: {{family: {family}, microbatches: {microbatches}}}\n{programs.OPTIMIZER}")


def replicas(flags=""):
    return ("piper: 1\nmodel: {batch: 16}\ndirectives:\n"
            f"  - {{op: replicate, filter: {{}}, devices: [0, 1]{flags}}}\n{programs.OPTIMIZER}")


STRATEGIES = {
    "gpipe, 4": pipeline("gpipe", 4, 2), "1f1b, 4": pipeline("1f1b", 4, 2), "1f1b, 8": pipeline("1f1b", 8, 2),
    "zero_bubble, 4": pipeline("zero_bubble", 4, 2), "interleaved, 4": pipeline("interleaved_1f1b", 4, 4),
    "zb_v, 4": pipeline("zb_v", 4, 4), "dualpipev, 8": pipeline("dualpipev", 8, 4),
    "replicas": replicas(), "shard_optimizer": replicas(", shard_optimizer: true"),
    "shard_params": replicas(", shard_params: true, shard_grads: true, shard_optimizer: true"),
}
# Not predicted: kernels of local batches of 2, 4 and 8, measured on two ranks.
CALIBRATION = {"cal2": pipeline("gpipe", 8, 2), "cal4": pipeline("zb_v", 4, 4).replace("zb_v", "interleaved_zero_bubble"),
               "cal8": replicas(", bucket_size: 4")}


def grid(family, microbatches, pipeline_ranks, copies, flags=""):
    """A pipeline of `pipeline_ranks`, each stage on `copies` replicas."""
    stages = pipeline_ranks * (2 if family in ("interleaved_1f1b", "zb_v", "dualpipev") else 1)
    text = pipeline(family, microbatches, stages).replace("{batch: 16}", f"{{batch: {2 * microbatches * copies}}}")
    owner = {"interleaved_1f1b": lambda s: s % pipeline_ranks, "zb_v": lambda s: min(s, stages - 1 - s),
             "dualpipev": lambda s: min(s, stages - 1 - s)}.get(family, lambda s: s)
    lines = ["directives:"]
    for p in range(pipeline_ranks):
        own, group = [s for s in range(stages) if owner(s) == p], list(range(p * copies, (p + 1) * copies))
        lines.append(f"  - {{op: place, filter: {{PP: {own}}}, devices: {group}}}")
        if copies > 1:
            lines.append(f"  - {{op: replicate, filter: {{PP: {own}}}, devices: {group}{flags}}}")
    return text.replace("schedule:", "\n".join(lines) + "\nschedule:")


WAITING = {
    "gpipe, 4": grid("gpipe", 8, 4, 1), "1f1b, 4": grid("1f1b", 8, 4, 1), "zero_bubble, 4": grid("zero_bubble", 8, 4, 1),
    "interleaved, 2 x 2": grid("interleaved_1f1b", 4, 2, 2), "zb_v, 2 x 2": grid("zb_v", 4, 2, 2),
    "dualpipev, 2 x 2": grid("dualpipev", 8, 2, 2), "1f1b, 4 x 2": grid("1f1b", 8, 4, 2),
    "1f1b, shard_optimizer, 4 x 2": grid("1f1b", 8, 4, 2, ", shard_optimizer: true"),
    "1f1b, 4 x 4": grid("1f1b", 4, 4, 4), "zero_bubble, shard_optimizer, 4 x 4": grid("zero_bubble", 4, 4, 4, ", shard_optimizer: true"),
}


def spearman(a, b):
    x, y, n = ranks_of(a), ranks_of(b), len(a)
    return 1 - 6 * sum((i - j) ** 2 for i, j in zip(x, y)) / (n * (n * n - 1))


def waiting(own, args):
    rows = []
    print("| strategy | ranks | measured, ms | simulated, ms | error | kernels, ms: measured, simulated | exposed transfers | waiting |\n"
          "|---|---|---|---|---|---|---|---|", flush=True)
    for name, text in WAITING.items():
        plans = own.compile(args.model or "untied", text, name.replace(", ", ".").replace(" ", ""))
        ranks = len(own.predicted_memory(plans))
        times, profile, (latency, rate) = own.work / "waiting.times", own.work / "waiting.profile", args.link.split(",")
        own.run(plans, args.steps, "--calibrate", times)
        flags = ("--kernel-times", times, "--link-delay", args.link)
        real = min(own.run(plans, args.steps, *flags).step_ms for _ in range(args.rounds))
        own.run(plans, args.steps, *flags, "--profile", profile)
        done = subprocess.run([own.bin / "piper-plan", "simulate", plans, "--kernel-times", times, "--latency-us", latency,
                               "--bytes-per-second", rate], capture_output=True, text=True, check=True)
        step = float(re.match(r"step: ([0-9.e+]+) us", done.stdout)[1])
        parts = map(float, re.search(r"of a rank: (\S+) us kernels, (\S+) us exposed transfers, (\S+) us", done.stdout).groups())
        rows.append((real, step / 1e3))
        print(f"| {name} | {ranks} | {real:.1f} | {rows[-1][1]:.1f} | {100 * (rows[-1][1] / real - 1):+.1f} % | "
              + " | ".join(f"{m / 1e3:.1f}, {s / 1e3:.1f}" for m, s in zip(kinds.measured(plans, profile), parts)) + " |", flush=True)
    errors = [simulated / real - 1 for real, simulated in rows]
    print(f"step: median error {100 * statistics.median(map(abs, errors)):.1f} %, largest {100 * max(map(abs, errors)):.1f} %, "
          f"rank correlation {spearman(*zip(*rows)):.2f}")
    print(programs.load())


def ranks_of(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    places = [0] * len(values)
    for place, index in enumerate(order):
        places[index] = place
    return places


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--model", help="of tools/bench/models.py")
    parser.add_argument("--waiting", action="store_true", help="4 to 16 ranks whose kernels wait")
    parser.add_argument("--link", default="1000,200000000", help="with --waiting: microseconds of every message, and bytes per second")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    own = Programs(args.bin, args.work)
    print(programs.load(), f"{os.cpu_count()} cores")
    if args.waiting:
        return waiting(own, args)
    args.model = args.model or "tied"
    times = own.work / "kernel.times"
    lines = []
    for name, text in CALIBRATION.items():
        one = own.work / f"{name}.times"
        own.run(own.compile(args.model, text, name), args.steps, "--calibrate", one)
        lines.append(one.read_text())
    times.write_text("".join(lines))

    # Processor time of a rank's kernels, the mean over ranks: what other programs on the machine do not add to.
    def kernels_ms(plans):
        profile = own.work / "profile.jsonl"
        own.run(plans, args.steps, "--profile", profile)
        rows = [json.loads(line) for line in profile.read_text().splitlines()]
        ranks = len({row["rank"] for row in rows})
        return sum(row["cpu_us"] for row in rows if row["what"].startswith(("run", "update"))) / ranks / 1e3

    def simulated(plans, *flags):
        done = subprocess.run([own.bin / "piper-plan", "simulate", plans, "--target", TARGET, "--json", *flags], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    rows = []
    print("| strategy | measured, ms | roofline, ms | error | calibrated, ms | error | kernels of a rank, measured, ms | error | calls measured | peak memory: predicted / measured |\n|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for name, text in STRATEGIES.items():
        plans = own.compile(args.model, text, name.replace(", ", "."))
        runs = [own.run(plans, args.steps) for _ in range(args.rounds)]
        roof, table = simulated(plans), simulated(plans, "--kernel-times", times)
        real, by_roof, by_table = min(run.step_ms for run in runs), roof["step_us"] / 1e3, table["step_us"] / 1e3
        rows.append((name, real, by_roof, by_table))
        kernels, priced = kernels_ms(plans), statistics.mean(rank["busy_us"] for rank in table["ranks"]) / 1e3
        print(f"| {name} | {real:.1f} | {by_roof:.1f} | {100 * (by_roof / real - 1):+.1f} % | {by_table:.1f} | {100 * (by_table / real - 1):+.1f} % | "
              f"{kernels:.1f} | {100 * (priced / kernels - 1):+.1f} % | {table['measured_calls']} of {table['distinct_calls']} | "
              f"{max(own.predicted_memory(plans)) / max(runs[0].peak_memory):.3f} |", flush=True)
    for what, column in (("roofline", 2), ("calibrated", 3)):
        print(f"{what}: median error {100 * statistics.median(abs(row[column] / row[1] - 1) for row in rows):.1f} %, "
              f"rank correlation {spearman([row[1] for row in rows], [row[column] for row in rows]):.2f}")
    print(programs.load())


if __name__ == "__main__":
    main()
