#!/usr/bin/env python3
"""What overlapped slots hide of the exchanges between experts, with links of a stated delay.

  overlap.py --bin build/release/bin --work DIR [--rounds 7] [--steps 6] [--links 50,400000000 ...] [--ranks 2]

A GPT with a mixture of experts in each of four blocks, the experts partitioned over two devices, eight microbatches. In one run, in turn:
`1f1b` (a forward and a backward in turn), `serial` (the table of dualpipev with every slot's two passes one after the other) and
`overlap` (dualpipev as it is). On two ranks all stages are on the same two devices, so that nothing but the exchanges is to be
hidden; on four, two groups of two form a pipeline.
Next to the measured ratio is the one that the plans' critical paths allow: `piper-plan simulate --profile` with the processor
times of a run without delay and the same links.
"""
import argparse
import re
import statistics
import subprocess

import programs
from programs import Programs, spread

MICROBATCHES, BLOCKS = 8, 4


def strategy(family, groups, stages, schedule=None):
    """`groups`: devices of each rank of the family. The V layout puts two stages on a rank."""
    starts = ["wte"] + [f"h.{BLOCKS // stages * s}" for s in range(1, stages)]
    text = f"piper: 1\nmodel: {{batch: {4 * MICROBATCHES}}}\nannotate:\n  - {{tag: PP, starts: {starts}}}\n"
    text += '  - {tag: EP, modules: ["h.*.mixture"]}\ndirectives:\n'
    for s in range(stages):
        group = groups[min(s, stages - 1 - s) if family == "dualpipev" else s]
        text += f"  - {{op: place, filter: {{PP: {s}}}, devices: {group}}}\n  - {{op: replicate, filter: {{PP: {s}}}, devices: {group}}}\n"
        text += f'  - {{op: shard, filter: {{PP: {s}, EP: "*"}}, devices: {group}}}\n'
    return text.replace("'", '"') + (schedule or f"schedule: {{family: {family}, microbatches: {MICROBATCHES}}}\n") + programs.OPTIMIZER


def serial_table(own, text):
    """The family's own table with its slots taken apart, as a file beside the strategy."""
    done = own.piperc("experts", text, "table", "--expand=csv")
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    table = re.sub(r"\(([^;()]+);([^;()]+)\)OVERLAP_F_B", r"\1,\2", done.stdout)
    if table == done.stdout:
        raise SystemExit("the table has no overlapped slot:\n" + table)
    (own.work / "serial.csv").write_text(table)


def simulated_ms(own, plans, profile, link):
    latency, rate = link.split(",")
    done = subprocess.run([own.bin / "piper-plan", "simulate", plans, "--profile", profile, "--latency-us", latency, "--bytes-per-second", rate],
                          capture_output=True, text=True, check=True)
    return 1e-3 * float(re.match(r"step: ([0-9.e+]+) us", done.stdout)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--links", nargs="+", default=["50,400000000", "50,200000000", "50,100000000", "50,66000000"],
                        help="microseconds of every message, and bytes per second")
    parser.add_argument("--ranks", type=int, choices=(2, 4), default=2)
    args = parser.parse_args()
    own = Programs(args.bin, args.work)
    groups = [[2 * r, 2 * r + 1] for r in range(args.ranks // 2)]
    overlapped = strategy("dualpipev", groups, 2 * len(groups))
    serial_table(own, overlapped)
    texts = {"1f1b": strategy("1f1b", groups, len(groups)),
             "serial": strategy("dualpipev", groups, 2 * len(groups), "schedule: {csv: serial.csv}\n"), "overlap": overlapped}
    plans = {name: own.compile("experts", text, f"{name}{args.ranks}") for name, text in texts.items()}
    print(programs.load())
    bounds, losses = {}, {}
    for name in plans:
        profile = own.work / f"{name}{args.ranks}.profile"
        losses[name] = own.run(plans[name], args.steps, "--profile", profile).losses
        bounds[name] = {link: simulated_ms(own, plans[name], profile, link) for link in ["0,0"] + args.links}
    for name in plans:
        worst = max(abs(a - b) / abs(b) for a, b in zip(losses[name], losses["1f1b"]))
        print(f"{name}: losses differ from 1f1b's by {worst:.1e} at most; critical path without delay {bounds[name]['0,0']:.1f} ms, "
              f"peak {max(own.predicted_memory(plans[name])) / 2**20:.1f} MiB")
    print("| link: us, bytes/s | 1f1b, ms | serial, ms | overlap, ms | serial / overlap | bound | 1f1b / overlap | bound |\n|---|---|---|---|---|---|---|---|")
    for link in args.links:
        times = {name: [] for name in plans}
        for _ in range(args.rounds):
            for name in plans:
                times[name].append(own.run(plans[name], args.steps, "--link-delay", link).step_ms)
        row = f"| {link} | " + " | ".join(f"{statistics.median(times[name]):.1f}" for name in plans)
        for other in ("serial", "1f1b"):
            ratios = [a / b for a, b in zip(times[other], times["overlap"])]
            row += f" | {spread(ratios)} | {bounds[other][link] / bounds['overlap'][link]:.2f}"
        print(row + " |", flush=True)
    print(programs.load())


if __name__ == "__main__":
    main()
