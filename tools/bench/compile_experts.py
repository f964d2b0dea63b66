#!/usr/bin/env python3
"""Compile time of pipelines whose stages hold mixtures of experts, sharded over a group of devices per stage.

  compile_experts.py --bin build/release/bin --work DIR [--rounds 15] [--devices 2]

Two programs: 16 stages in a V on 8 ranks of the family, overlapped slots, 16 microbatches, one mixture a stage; and 8 stages, 32
microbatches, three mixtures a stage. Prints nodes of the DAG, wall time of the whole program and time by phase; weights are left out. On a
virtual machine also what share of its processors' time the host took meanwhile: wall times with more than a few percent of it are the host's.
"""
import argparse
import re
import statistics
import time

from programs import Programs, spread


def strategy(stages, blocks, family, microbatches, devices):
    v_layout = family == "dualpipev"
    starts = ["wte"] + [f"h.{blocks // stages * s}" for s in range(1, stages)]
    text = f"piper: 1\nmodel: {{batch: {2 * microbatches * devices}}}\nannotate:\n  - {{tag: PP, starts: {starts}}}\n"
    text += '  - {tag: EP, modules: ["h.*.mixture"]}\ndirectives:\n'
    for s in range(stages):
        owner = min(s, stages - 1 - s) if v_layout else s
        group = list(range(owner * devices, (owner + 1) * devices))
        text += f"  - {{op: place, filter: {{PP: {s}}}, devices: {group}}}\n  - {{op: replicate, filter: {{PP: {s}}}, devices: {group}}}\n"
        text += f'  - {{op: shard, filter: {{PP: {s}, EP: "*"}}, devices: {group}}}\n'
    return text.replace("'", '"') + f"schedule: {{family: {family}, microbatches: {microbatches}}}\noptimizer: {{adamw: {{lr: 1.0e-3}}}}\n"


def processor_ticks():
    """All of them and the stolen ones, of all processors since the start of the machine (proc(5), /proc/stat)."""
    with open("/proc/stat") as stat:
        ticks = [int(word) for word in stat.readline().split()[1:9]]
    return sum(ticks), ticks[7]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--devices", type=int, default=2, help="devices of a stage")
    args = parser.parse_args()
    own = Programs(args.bin, args.work)
    programs = {"v": ("experts_deep", strategy(16, 16, "dualpipev", 16, args.devices)),
                "three": ("experts_three_a_stage", strategy(8, 24, "1f1b", 32, args.devices))}
    nodes, times, phases = {}, {n: [] for n in programs}, {n: [] for n in programs}
    for name, (model, text) in programs.items():
        done = own.piperc(model, text, name, "--weights", "none", "--emit=dag", "--stop-after=order")
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        nodes[name] = re.search(r"nodes (\d+)", done.stdout)[1]
    before, stolen_before = processor_ticks()
    for _ in range(args.rounds):
        for name, (model, text) in programs.items():
            began = time.perf_counter()
            done = own.piperc(model, text, name, "--weights", "none", "--time-phases", "-o", own.work / f"{name}.plans")
            times[name].append(time.perf_counter() - began)
            if done.returncode != 0:
                raise SystemExit(done.stderr)
            phases[name].append({m[1]: float(m[2]) for m in re.finditer(r"^(\w+) +([0-9.e+-]+) ms$", done.stderr, re.M)})
    after, stolen_after = processor_ticks()
    for name in programs:
        print(f"{name}: nodes {nodes[name]}, whole program {spread(times[name], '{:.3f}')} s, phases "
              f"{sum(statistics.median(p[k] for p in phases[name]) for k in phases[name][0]):.1f} ms: "
              + " ".join(f"{k} {statistics.median(p[k] for p in phases[name]):.1f}" for k in phases[name][0]), flush=True)
    print(f"stolen by the host: {100 * (stolen_after - stolen_before) / max(1, after - before):.1f} % of the processors' time", flush=True)


if __name__ == "__main__":
    main()
