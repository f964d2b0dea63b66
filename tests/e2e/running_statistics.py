#!/usr/bin/env python3
"""Running statistics on several devices are those of the first, as PyTorch's replicas save them.

  running_statistics.py --bin BIN --work DIR

Every replica normalises its own samples of every microbatch, and averages over these alone. The reference runs the same pieces with
one set of statistics per replica. Losses agree to 1e-5 (1e-6 at step 1), the saved statistics after 20 steps to 1e-5 of their
largest; those of the second replica are others. The compiler warns (P0334) where there is a second one.
"""
import argparse
import sys

import torch

import harness

MODEL, STATISTICS = "normed", ("norm.running_mean", "norm.running_var")


def replicas_apart(replicas, pieces):
    """The step of `replicas` that keep statistics of their own, in `kept`; sample order: microbatch, then replica."""
    kept = []

    def step(module, _, batch):
        if not kept:
            kept.extend({n: b.clone() for n, b in module.named_buffers()} for _ in range(replicas))
        parts = [{k: v.chunk(pieces)[i] for k, v in batch.items()} for i in range(pieces)]
        return sum(torch.func.functional_call(module, kept[i % replicas], (), part) for i, part in enumerate(parts)) / pieces
    return step, kept


def distance(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


def faults_of(bench, name, replicas):
    pieces = harness.COMPOSITIONS[name].pieces
    step, kept = replicas_apart(replicas, pieces)
    losses, gradients, _ = harness.torch_training(MODEL, "sgd", around=step)
    result = bench.train(MODEL, name, "sgd")
    strategy = bench.work / f"{MODEL}-{name}-sgd.yaml"
    warned = "warning[P0334]: running statistics 'norm.running_mean' and 1 more are kept by each of 2 devices" in bench.call(
        [bench.bin / "piperc", bench.exported(MODEL), "--strategy", strategy, "--stop-after", "differentiate"])
    if warned != (replicas > 1):
        return [f"the warning P0334 is {'there' if warned else 'missing'}"]
    faults = harness.loss_faults(result.losses, losses, 1e-5) + harness.gradient_faults(result.gradients, gradients)
    for statistic in STATISTICS:
        saved = result.weights.get(statistic)
        if saved is None:
            faults.append(f"{statistic} is not saved")
            continue
        if not distance(saved, kept[0][statistic]) <= 1e-5:
            faults.append(f"{statistic} is {distance(saved, kept[0][statistic]):.1e} from the first replica's")
        if replicas > 1 and distance(kept[1][statistic], kept[0][statistic]) < 1e-3:
            faults.append(f"{statistic}: the replicas do not differ, nothing is tested")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    args = parser.parse_args()
    bench = harness.Bench(args.bin, args.work)
    failed = 0
    for name, replicas in (("one", 1), ("dp2_mb2", 2), ("pp2_dp2", 2)):
        faults = faults_of(bench, name, replicas)
        print(f"{'FAILED' if faults else 'ok    '} {name}" + (f": {faults[0]}" if faults else ""), flush=True)
        failed += bool(faults)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
