#!/usr/bin/env python3
"""Simulated against measured steps of ten strategies on the cores of this machine.

  simulated.py --bin build/release/bin --work DIR [--rounds 3] [--steps 12]

A GPT on two ranks, each with one thread; at most as many ranks as cores, so that kernels run as they are. Kernel times come from
`piper-run --calibrate` of bundles that are not among those predicted; calls that these lack are priced by the roofline of
strategies/targets/cpu_two_cores.yaml. Prints for each strategy the measured step (the least of the rounds' medians: others on the machine
only add to it), what is simulated without and with the table, with signed errors; the processor time of a rank's kernels beside what is
simulated; the predicted and measured peak memory. At last the median errors of the step, and the rank correlation (Spearman).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess

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
    parser.add_argument("--model", default="tied", help="of tools/bench/models.py")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    own = Programs(args.bin, args.work)
    print(programs.load(), f"{os.cpu_count()} cores")
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
        a, b = ranks_of([row[1] for row in rows]), ranks_of([row[column] for row in rows])
        n = len(rows)
        print(f"{what}: median error {100 * statistics.median(abs(row[column] / row[1] - 1) for row in rows):.1f} %, "
              f"rank correlation {1 - 6 * sum((x - y) ** 2 for x, y in zip(a, b)) / (n * (n * n - 1)):.2f}")
    print(programs.load())


if __name__ == "__main__":
    main()
