#!/usr/bin/env python3
"""Memory per rank, measured and predicted, by level of sharding; then the largest batch that fits under one limit.

  memory.py --bin build/release/bin --work DIR [--replicas 4]

First table: a GPT (25 M parameters, width 512, 8 layers, sequence 32, fp32, AdamW), two stages of 1f1b with four microbatches, each on
`--replicas` replicas; `peak_memory_bytes` of the log beside that of the manifest, largest rank and smallest.
Second table: the same model and ranks; for each limit the largest number of samples a microbatch and replica that
`piperc --memory-limit` accepts without and with sharded parameters, and the ratio of the two. The smallest limit is what the
unsharded form needs for one sample.
"""
import argparse

import programs
from programs import Programs

STAGES, MICROBATCHES, LAYERS = 2, 4, 8
LEVELS = {"replicate": "", "shard_optimizer": ", shard_optimizer: true", "shard_grads": ", shard_grads: true",
          "shard_params": ", shard_params: true"}


def strategy(replicas, samples, extra, bucket=2):
    """`samples` of a microbatch on a replica."""
    lines = [f"piper: 1\nmodel: {{batch: {samples * MICROBATCHES * replicas}}}",
             f'annotate: [{{tag: PP, starts: ["wte", "h.{LAYERS // 2}"]}}]', "directives:"]
    for s in range(STAGES):
        group = list(range(s * replicas, (s + 1) * replicas))
        lines += [f"  - {{op: place, filter: {{PP: {s}}}, devices: {group}}}",
                  f"  - {{op: replicate, filter: {{PP: {s}}}, devices: {group}, bucket_size: {bucket}{extra}}}"]
    return "\n".join(lines) + f"\nschedule: {{family: 1f1b, microbatches: {MICROBATCHES}}}\n" + programs.OPTIMIZER


def fits(own, replicas, samples, extra, limit):
    done = own.piperc("wide", strategy(replicas, samples, extra), "limit", "--memory-limit", str(limit), "--weights", "none",
                      "-o", own.work / "limit.plans")
    if done.returncode not in (0, 1) or (done.returncode == 1 and "P0520" not in done.stderr):
        raise SystemExit(done.stderr)
    return done.returncode == 0


def largest(own, replicas, extra, limit):
    """The largest number of samples that fits; memory grows with it, so bisection finds it."""
    if not fits(own, replicas, 1, extra, limit):
        return 0
    low, high = 1, 2
    while fits(own, replicas, high, extra, limit):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(own, replicas, middle, extra, limit) else (low, middle)
    return low


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--sweep", nargs="+", type=float, default=[1.0, 1.05, 1.1, 1.25, 1.5, 2.0], help="limits, in units of the smallest")
    args = parser.parse_args()
    own = Programs(args.bin, args.work)
    mib = 1 / 2**20
    print("| level | measured, MiB (smallest rank to largest) | predicted, MiB | measured / predicted | of replicate |\n|---|---|---|---|---|")
    base = None
    for level, extra in LEVELS.items():
        plans = own.compile("wide", strategy(args.replicas, 1, extra), level)
        measured, predicted = own.run(plans, 1).peak_memory, own.predicted_memory(plans)
        base = base or max(measured)
        ratios = [m / p for m, p in zip(measured, predicted)]
        print(f"| {level} | {min(measured) * mib:.1f} to {max(measured) * mib:.1f} | {min(predicted) * mib:.1f} to {max(predicted) * mib:.1f} "
              f"| {min(ratios):.3f} to {max(ratios):.3f} | {max(measured) / base:.2f} |", flush=True)
    smallest = max(own.predicted_memory(own.compile("wide", strategy(args.replicas, 1, ""), "smallest", "--weights", "none")))
    print("\n| limit, MiB | of the smallest | replicate: samples | shard_params: samples | ratio |\n|---|---|---|---|---|")
    for factor in args.sweep:
        limit = int(smallest * factor)
        plain, sharded = (largest(own, args.replicas, LEVELS[level], limit) for level in ("replicate", "shard_params"))
        print(f"| {limit * mib:.0f} | {factor:g} | {plain} | {sharded} | {sharded / max(plain, 1):.1f} |", flush=True)


if __name__ == "__main__":
    main()
