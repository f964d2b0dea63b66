#!/usr/bin/env python3
"""Programs in the bare form, a JSON list of directives, train as PyTorch does on one device.

  bare_lists.py --bin BIN --work DIR [--launched NAME,...]

They are written as their generators write them: `device` for `devices`, quoted indices, device numbers as labels, keys left
empty. Batch, tags and optimizer come from the command line. Tolerances: those of strategies_train.py.
"""
import argparse
import json
import sys

import harness
import strategies_train

MICROBATCHES = 4


def place(stage, devices):
    return {"op": "place", "filter": {"PP": stage}, "device": devices, "stream": "pp_stream"}


def replicate(stage, devices, **options):
    return {"op": "replicate", "filter": {"PP": str(stage)}, "devices": devices, "reduce_stream": "dp_stream", **options}


def split(count=MICROBATCHES):
    return {"op": "split", "filter": {}, "dim_name": "MB", "num_microbatches": count}


def one(stage, microbatch, name):
    return {"PP": stage, "MB": microbatch, "PASS": name}


def order(*slots):
    return {"op": "order", "filters": [list(slot) for slot in slots]}


def alternate(stage, warm_up):
    """Some forwards, then a forward and a backward in turn."""
    passes = [(m, "F") for m in range(warm_up)]
    for m in range(MICROBATCHES):
        passes += ([(m + warm_up, "F")] if m + warm_up < MICROBATCHES else []) + [(m, "B")]
    return order(*([one(stage, m, name)] for m, name in passes))


def replicas(**options):
    """Two stages on two labelled devices each."""
    groups = ([10, 12], [11, 13])
    return [place(s, g) for s, g in enumerate(groups)] + [split()] + [replicate(s, g, **options) for s, g in enumerate(groups)] + [
        alternate(0, 1), alternate(1, 0)]


def experts():
    """Experts parted over each stage's two devices; `shard` comes before the `replicate` that it narrows."""
    shards = [{"op": "shard", "filter": {"PP": s, "EP": "*"}, "devices": g, "stream": "ep_stream"} for s, g in enumerate(([12, 10], [11, 13]))]
    return shards + replicas(gather_stream="ag_stream", shard_params=True, bucket_size=1000)


def halves():
    """The second stage's weight halves wait until all of its forwards are through."""
    last = [one(1, m, name) for m in range(MICROBATCHES) for name in ("F", "BI")] + [one(1, m, "BW") for m in range(MICROBATCHES)]
    return [place(0, [0]), place(1, [1]), split(), alternate(0, 1), order(*([p] for p in last))]


def stars():
    """All forwards, then all backwards, each as one group."""
    return [place(0, ["0"]), place(1, ["1"]), split(str(MICROBATCHES))] + [
        order([{"PP": s, "MB": "*", "PASS": "F"}], [{"PP": s, "MB": "*", "PASS": "B"}]) for s in (0, 1)]


def slots():
    """Four stages in a V; a forward of one stage and a backward of another share a slot."""
    first = [one(0, 0, "F"), one(0, 1, "F"), one(3, 0, "F"), one(3, 0, "B"), one(0, 2, "F"), one(3, 1, "F")]
    rest = [one(0, 0, "B"), one(3, 1, "B"), one(3, 2, "F"), one(0, 1, "B"), one(3, 2, "B"), one(3, 3, "F"), one(0, 2, "B"),
            one(3, 3, "B"), one(0, 3, "B")]
    return [place(s, [d]) for s, d in enumerate((0, 1, 1, 0))] + [split()] + [
        order(*([p] for p in first), [one(0, 3, "F"), rest[0]], *([p] for p in rest[1:]))]


# name -> stages, program
PROGRAMS = {
    "replicas": (2, replicas()),
    "parts of gradients": (2, replicas(gather_stream="ag_stream", shard_grads=True, bucket_size=1000)),
    "parts of parameters": (2, replicas(gather_stream="ag_stream", shard_params=True, bucket_size=1000, shard_grads=None)),
    "experts": (2, experts()),
    "halves": (2, halves()),
    "stars": (2, stars()),
    "slots": (4, slots()),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--launched", type=lambda names: names.split(","), help="as of strategies_train.py")
    args = parser.parse_args()
    bench = harness.Bench(args.bin, args.work)
    strategies = []
    for name, (stages, program) in PROGRAMS.items():
        path = bench.work / f"{name.replace(' ', '_')}.json"
        path.write_text(json.dumps(program))
        tags = [{"tag": "PP", "starts": [f"h.{s * 4 // stages}" for s in range(stages)]}]
        if name == "experts":
            tags.append({"tag": "EP", "modules": ["*.moe"]})
        adamw = {"lr": 3e-4, "betas": [0.9, 0.95], "weight_decay": 0.1, "no_decay": ["*.bias", "*ln*"]}
        strategies.append((path.stem, path, ["model.batch=16", f"annotate={json.dumps(tags)}",
                                             f"optimizer={json.dumps({'adamw': adamw})}"]))
    sys.exit(1 if strategies_train.train(bench, strategies, launched=args.launched) else 0)


if __name__ == "__main__":
    main()
