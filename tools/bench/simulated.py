#!/usr/bin/env python3
"""Simulated against measured steps of ten strategies on the cores of this machine.

  simulated.py --bin build/release/bin --work DIR [--rounds 3] [--steps 12]
  simulated.py --bin build/release/bin --work DIR --waiting [--link 1000,200000000]

A GPT on two ranks, each with one thread; at most as many ranks as cores, so that kernels run as they are. Kernel times come from
`piper-run --calibrate` of bundles that are not among those predicted; calls that these lack are priced by the roofline of --target.
A round calibrates and runs every strategy once, so that a machine whose speed drifts is as fast for both; of the rounds the least
counts, of each call's median as of each strategy's median step: others on the machine only add to it. Prints for each strategy the
step, measured and simulated without and with the table; the parts of it (kernels, transfers that no kernel hides, waiting; means
over ranks, of the round whose profiled step is the shortest), each with its error as a part of the step; and the peak memory of the
rank with the largest gap. At last the median errors, and the rank correlation (Spearman).

With --waiting 4 to 16 ranks run on however few cores there are: kernels wait (`piper-run --kernel-times`) for the times that the
same table gives the simulation, and every message takes what --link says in both. What is compared then is the executor, its streams
and its messages, and what the simulation takes them for. Memory is that of a run of two steps whose kernels compute.
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


PARTS = ("kernels", "exposed transfers", "waiting")
PART_HEADS = "".join(f" {part}, ms: measured, simulated (error, % of the step) |" for part in PARTS)
MEMORY_HEAD = " peak memory, MiB: predicted, measured |"


def part_cells(step_ms, measured_us, simulated_us):
    return "".join(f" {m / 1e3:.1f}, {s / 1e3:.1f} ({(s - m) / step_ms / 10:+.1f}) |" for m, s in zip(measured_us, simulated_us))


def memory_cell(predicted, measured):
    """The cell of the rank with the largest gap; a prediction below what was measured stands out."""
    if any(p < m for p, m in zip(predicted, measured)):
        return f" **below**: {predicted}, {measured} |"
    p, m = max(zip(predicted, measured), key=lambda pair: pair[0] / pair[1])
    return f" {p / 2**20:.1f}, {m / 2**20:.1f} ({100 * (p / m - 1):+.1f} %) |"


def summary(what, steps, parts=()):
    """`steps`: (measured, simulated) in milliseconds; `parts`: of each, three pairs in microseconds."""
    errors = [abs(simulated / real - 1) for real, simulated in steps]
    print(f"{what}: median error {100 * statistics.median(errors):.1f} %, largest {100 * max(errors):.1f} %, "
          f"rank correlation {spearman(*zip(*steps)):.2f}")
    for k, part in enumerate(PARTS if parts else ()):
        signed = [(pairs[k][1] - pairs[k][0]) / step / 10 for (step, _), pairs in zip(steps, parts)]
        print(f"  {part}: median error {statistics.median(signed):+.1f} % of the step ({min(signed):+.1f} to {max(signed):+.1f})")


def waiting(own, args):
    steps, parts = [], []
    print(f"| strategy | ranks | step, ms: measured, simulated | error |{PART_HEADS}{MEMORY_HEAD}\n{'|---' * 8}|", flush=True)
    for name, text in WAITING.items():
        plans = own.compile(args.model or "untied", text, name.replace(", ", ".").replace(" ", ""))
        predicted = own.predicted_memory(plans)
        times, profile, (latency, rate) = own.work / "waiting.times", own.work / "waiting.profile", args.link.split(",")
        own.run(plans, args.steps, "--calibrate", times)
        flags = ("--kernel-times", times, "--link-delay", args.link)
        real = min(own.run(plans, args.steps, *flags).step_ms for _ in range(args.rounds))
        own.run(plans, args.steps, *flags, "--profile", profile)
        done = subprocess.run([own.bin / "piper-plan", "simulate", plans, "--kernel-times", times, "--latency-us", latency,
                               "--bytes-per-second", rate], capture_output=True, text=True, check=True)
        step = float(re.match(r"step: ([0-9.e+]+) us", done.stdout)[1])
        told = [*map(float, re.search(r"of a rank: (\S+) us kernels, (\S+) us exposed transfers, (\S+) us", done.stdout).groups())]
        found = kinds.measured(plans, profile)
        steps.append((real, step / 1e3))
        parts.append([*zip(found, told)])
        print(f"| {name} | {len(predicted)} | {real:.1f}, {step / 1e3:.1f} | {100 * (step / 1e3 / real - 1):+.1f} % |"
              f"{part_cells(real, found, told)}{memory_cell(predicted, own.run(plans, 2).peak_memory)}", flush=True)
    summary("step", steps, parts)
    print(programs.load())


def ranks_of(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    places = [0] * len(values)
    for place, index in enumerate(order):
        places[index] = place
    return places


def least_times(tables):
    """One table of several: of each call the least time."""
    best = {}
    for table in tables:
        for line in table.splitlines():
            row = json.loads(line)
            if row["call"] not in best or row["us"] < best[row["call"]]["us"]:
                best[row["call"]] = row
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in best.values())


def computing(own, args):
    model, times = args.model or "tied", own.work / "kernel.times"
    plans = {name: own.compile(model, text, name.replace(", ", ".")) for name, text in STRATEGIES.items()}
    calibrations = [own.compile(model, text, name) for name, text in CALIBRATION.items()]
    tables, runs, found = [], {name: [] for name in plans}, {name: [] for name in plans}
    for _ in range(args.rounds):
        for calibration in calibrations:
            own.run(calibration, args.steps, "--calibrate", times)
            tables.append(times.read_text())
        for name, bundle in plans.items():
            runs[name].append(own.run(bundle, args.steps))
            own.run(bundle, args.steps, "--profile", own.work / "profile.jsonl")
            found[name].append(kinds.measured(bundle, own.work / "profile.jsonl"))
    times.write_text(least_times(tables))

    def simulated(bundle, *flags):
        done = subprocess.run([own.bin / "piper-plan", "simulate", bundle, "--target", args.target, "--json", *flags], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    by_roofline, by_table, parts = [], [], []
    print(f"| strategy | step, ms: measured | by roofline | error | by measured kernels | error |{PART_HEADS} calls measured |{MEMORY_HEAD}\n{'|---' * 11}|", flush=True)
    for name, bundle in plans.items():
        roof, table = simulated(bundle), simulated(bundle, "--kernel-times", times)
        real = min(run.step_ms for run in runs[name])
        told = [statistics.mean(rank[f"{key}_us"] for rank in table["ranks"]) for key in ("busy", "exposed_communication", "waiting")]
        best = min(found[name], key=sum)
        by_roofline.append((real, roof["step_us"] / 1e3))
        by_table.append((real, table["step_us"] / 1e3))
        parts.append([*zip(best, told)])
        errors = [f"{100 * (step / real - 1):+.1f} %" for step in (by_roofline[-1][1], by_table[-1][1])]
        print(f"| {name} | {real:.1f} | {by_roofline[-1][1]:.1f} | {errors[0]} | {by_table[-1][1]:.1f} | {errors[1]} |{part_cells(real, best, told)} "
              f"{table['measured_calls']} of {table['distinct_calls']} |{memory_cell(own.predicted_memory(bundle), runs[name][0].peak_memory)}", flush=True)
    summary("by roofline", by_roofline)
    summary("by measured kernels", by_table, parts)
    print(programs.load())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--model", help="of tools/bench/models.py")
    parser.add_argument("--target", type=pathlib.Path, default=TARGET, help="whose roofline prices what has no measured time")
    parser.add_argument("--waiting", action="store_true", help="4 to 16 ranks whose kernels wait")
    parser.add_argument("--link", default="1000,200000000", help="with --waiting: microseconds of every message, and bytes per second")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    own = Programs(args.bin, args.work)
    print(programs.load(), f"{os.cpu_count()} cores")
    (waiting if args.waiting else computing)(own, args)


if __name__ == "__main__":
    main()
