#!/usr/bin/env python3
"""Thousands of ranks on this machine: compiled, proved and simulated, in seconds, bytes on disk and memory of the process.

  scale.py --bin build/release/bin --work DIR [--grids 16x64x1 16x32x8 16x64x8] [--flags "shard_optimizer: true"] [--microbatches 32]

A GPT with a mixture of experts in each of 16 blocks (`experts_deep_eight` of tools/bench/models.py), one block a stage, as many stages as the grid's
first number; every stage on dp x ep ranks, its experts parted over groups of ep (none where that is 1); one forward and one backward in turn.
Simulated on nodes of 8 A100. Weights are left out. Wall time, and processor time, which what else runs on the machine does not add to.
"""
import argparse
import os
import pathlib
import subprocess
import time

import programs
from programs import Programs

TARGET = pathlib.Path(__file__).resolve().parents[2] / "strategies" / "targets" / "a100_node8.yaml"
BLOCKS = 16


def strategy(pp, dp, ep, flags, microbatches):
    starts = ", ".join(['"wte"'] + [f'"h.{BLOCKS // pp * s}"' for s in range(1, pp)])
    text = f"piper: 1\nmodel: {{batch: {2 * microbatches * dp * ep}}}\nmesh: {{pp: {pp}, dp: {dp}, ep: {ep}}}\nannotate:\n  - {{tag: PP, starts: [{starts}]}}\n"
    text += '  - {tag: EP, modules: ["h.*.mixture"]}\ndirectives:\n' if ep > 1 else "directives:\n"
    for p in range(pp):
        text += f"  - {{op: replicate, filter: {{PP: {p}}}, devices: {{pp: {p}}}{', ' + flags if flags else ''}}}\n"
        if ep > 1:
            text += f'  - {{op: shard, filter: {{PP: {p}, EP: "*"}}, devices: {{pp: {p}, dp: each}}}}\n'
    return text + f"schedule: {{family: 1f1b, microbatches: {microbatches}, ranks: {{pp: each}}}}\noptimizer: {{adamw: {{lr: 1.0e-3}}}}\n"


def measured(*command):
    """(wall seconds, processor seconds, the most resident bytes)."""
    began = time.perf_counter()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}:\n{said}")
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, 1024 * usage.ru_maxrss


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--grids", nargs="+", default=["16x64x1", "16x32x8", "16x64x8"])
    parser.add_argument("--flags", default="", help="of every replicate")
    parser.add_argument("--microbatches", type=int, default=32)
    parser.add_argument("--steps", nargs="+", choices=("compile", "verify", "simulate"), default=["compile", "verify", "simulate"])
    args = parser.parse_args()
    own = Programs(args.bin, args.work)
    model, path, plans = own.model("experts_deep_eight"), own.work / "scale.yaml", own.work / "scale.plans"
    commands = {"compile": [own.bin / "piperc", model, "--strategy", path, "--device", "cuda", "--weights", "none", "-o", plans],
                "verify": [own.bin / "piper-plan", "verify", plans],
                "simulate": [own.bin / "piper-plan", "simulate", plans, "--target", TARGET, "--json"]}
    print(programs.load())
    print("| PP x DP x EP | ranks | plans, MB | " + " | ".join(f"{step}: s, processor s, peak GiB" for step in args.steps) + " |")
    print("|---" * (3 + len(args.steps)) + "|")
    for grid in args.grids:
        pp, dp, ep = map(int, grid.split("x"))
        path.write_text(strategy(pp, dp, ep, args.flags, args.microbatches))
        cells = []
        for step in args.steps:
            wall, processor, peak = measured(*commands[step])
            cells.append(f"{wall:.1f}, {processor:.1f}, {peak / 2**30:.2f}")
        size = sum(file.stat().st_size for file in plans.rglob("*") if file.is_file())
        print(f"| {grid.replace('x', ' x ')} | {pp * dp * ep} | {size / 1e6:.1f} | " + " | ".join(cells) + " |", flush=True)
    print(programs.load())


if __name__ == "__main__":
    main()
