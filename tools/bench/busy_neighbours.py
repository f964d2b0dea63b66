#!/usr/bin/env python3
"""Step time beside two busy processes: how much slower than on the machine as it is, with every way to choose the threads.

  busy_neighbours.py --bin build/release/bin --work DIR [--runs 20] [--steps 8]

The demo GPT, batch 8, four microbatches, one rank. Each round runs every variant once without and once with the neighbours; a
neighbour is an endless loop at the priority of the runs. Prints the slowest run of each variant, by its median step and by its
longest one, against its fastest quiet run. `spins` is what libgomp does by default: idle threads spin for milliseconds.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

import programs
from programs import WARM_UP, Programs, load, spread

STRATEGY = """piper: 1
model: {batch: 8}
directives:
  - {op: split, num_microbatches: 4}
""" + programs.OPTIMIZER
# name: (environment, flags)
VARIANTS = {
    "as it is": ({}, ()),
    "OMP_NUM_THREADS=1": ({"OMP_NUM_THREADS": "1"}, ()),
    "OMP_NUM_THREADS=1 --threads 2": ({"OMP_NUM_THREADS": "1"}, ("--threads", "2")),
    "the same, spins": ({"OMP_NUM_THREADS": "1", "GOMP_SPINCOUNT": "300000"}, ("--threads", "2")),
}


def steps(own, plans, count, environment, flags):
    """Times in ms of the steps after the warm-up."""
    log = own.work / "log.jsonl"
    clean = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    subprocess.run([own.bin / "piper-run", plans, "--data", own.data, "--steps", str(count + WARM_UP), "--log", log, *flags],
                   env=clean | environment, check=True, capture_output=True)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    return [row["step_ms"] for row in rows if "step_ms" in row][WARM_UP:]


def beside_neighbours(run):
    neighbours = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        return run()
    finally:
        for neighbour in neighbours:
            neighbour.kill()
            neighbour.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=8)
    args = parser.parse_args()
    own = Programs(args.bin, args.work)
    plans = own.compile("tied", STRATEGY, "neighbours")
    quiet, busy = {v: [] for v in VARIANTS}, {v: [] for v in VARIANTS}
    print(load())
    for _ in range(args.runs):
        for name, (environment, flags) in VARIANTS.items():
            quiet[name].append(steps(own, plans, args.steps, environment, flags))
            busy[name].append(beside_neighbours(lambda: steps(own, plans, args.steps, environment, flags)))
    print("| threads | quiet, ms | busy, ms | worst run, by median step | longest step of all |\n|---|---|---|---|---|")
    for name in VARIANTS:
        alone = min(statistics.median(run) for run in quiet[name])
        medians = [statistics.median(run) for run in busy[name]]
        longest = max(t for run in busy[name] for t in run)
        print(f"| {name} | {spread([statistics.median(run) for run in quiet[name]], '{:.0f}')} | {spread(medians, '{:.0f}')} "
              f"| {max(medians) / alone:.2f} | {longest / alone:.2f} |")
    print(load())


if __name__ == "__main__":
    main()
