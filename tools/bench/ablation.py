#!/usr/bin/env python3
"""What streams and bucket sizes are worth, one change at a time.

  ablation.py --bin build/release/bin --work DIR [--rounds 5] [--steps 5]

Streams: a GPT with mixtures of experts on two ranks, overlapped slots, gradients reduce-scattered after every microbatch, over links
of 50 us and 100 MB/s. All communication on one named stream, against one stream each for messages of the pipeline, sums of
gradients and exchanges between experts.
Buckets: a GPT of 25 M parameters (100 MB of gradients) on two replicas, whole and sharded parameters, links as they are and links of
200 us and 1 GB/s. Each row is one bucket size; ratios are to 25 MB, inside a round.
"""
import argparse
import statistics

import overlap
import programs
from programs import Programs, spread

SLOW, FAST = "50,100000000", "200,1000000000"
SIZES = (1, 5, 25, 100)


def one_stream(text):
    """The same strategy with every stream called comm."""
    return (text.replace("op: place,", "op: place, stream: comm,").replace("op: shard,", "op: shard, stream: comm,")
            .replace("op: replicate,", "op: replicate, reduce_stream: comm, gather_stream: comm,"))


def replicas(size, extra):
    return (f"piper: 1\nmodel: {{batch: 8}}\ndirectives:\n  - {{op: replicate, filter: {{}}, devices: [0, 1], bucket_size: {size}{extra}}}\n"
            + programs.OPTIMIZER)


def rounds(own, plans, args, *flags):
    """Step times of each plan, in turn, and the largest peak of memory."""
    times, peaks = {n: [] for n in plans}, {}
    for _ in range(args.rounds):
        for name, bundle in plans.items():
            run = own.run(bundle, args.steps, *flags)
            times[name].append(run.step_ms)
            peaks[name] = max(run.peak_memory) / 2**20
    return times, peaks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    own = Programs(args.bin, args.work)
    print(programs.load())
    apart = overlap.strategy("dualpipev", [[0, 1]], 2).replace("op: replicate,", "op: replicate, bucket_size: 1, shard_grads: true,")
    plans = {"own streams": own.compile("experts", apart, "apart"), "one stream": own.compile("experts", one_stream(apart), "shared")}
    times, peaks = rounds(own, plans, args, "--link-delay", SLOW)
    print("| streams | ms | peak, MiB | to own streams |\n|---|---|---|---|")
    for name in plans:
        ratios = [a / b for a, b in zip(times[name], times["own streams"])]
        print(f"| {name} | {statistics.median(times[name]):.1f} | {peaks[name]:.0f} | {spread(ratios)} |", flush=True)
    print("\n| parameters | link | bucket, MB | ms | peak, MiB | time to that of 25 MB |\n|---|---|---|---|---|---|")
    for title, extra in (("whole", ""), ("sharded", ", shard_params: true")):
        plans = {size: own.compile("wide", replicas(size, extra), f"bucket{title}{size}") for size in SIZES}
        for link in ("", FAST):
            times, peaks = rounds(own, plans, args, *(("--link-delay", link) if link else ()))
            for size in SIZES:
                ratios = [a / b for a, b in zip(times[size], times[25])]
                print(f"| {title} | {link or 'as it is'} | {size} | {statistics.median(times[size]):.0f} | {peaks[size]:.0f} | {spread(ratios)} |", flush=True)
    print(programs.load())


if __name__ == "__main__":
    main()
