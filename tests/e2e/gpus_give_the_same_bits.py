#!/usr/bin/env python3
"""Every file in strategies/, compiled for GPUs, trains on the stand-in's GPU to the bits of the CPU, without graphs and with them, and
without a race: all ranks of a plan as threads of one process on one GPU, as `piper-run --device cuda --comm local` runs
them; with --comm nccl on a GPU each, over the stand-in for NCCL, and --reduction library says that NCCL adds, to losses
within a tolerance; with --kernels own on CUDA's own kernels under the shim, to losses within that tolerance. Waits for events that are left out of a plan, one at a time, are found as races.

  gpus_give_the_same_bits.py --bin BIN --work DIR --strategies DIR [--comm nccl] [--reduction library] [--kernels own] [--only NAME]...
"""
import argparse
import json
import pathlib
import sys

from safetensors.torch import save_file

import harness
import zoo
from strategies_train import model_of

STEPS = 4
DROPPED_WAITS = 2  # of a rank


def faults_of(bench, path, comm, reduction, kernels):
    """What is wrong with one strategy, and the number of its ranks."""
    model = model_of(path)
    plans = bench.work / f"{path.stem}.plans"
    bench.call([bench.bin / "piperc", bench.exported(model), "--strategy", path, "-o", plans, "--device", "cuda",
                "--reduction", reduction])
    manifest = json.loads((plans / "manifest.json").read_text())
    data, out = bench.work / f"{path.stem}.safetensors", bench.work / f"{path.stem}.saved"
    save_file(zoo.draw(model, manifest["batch"] * STEPS), data)
    out.mkdir(exist_ok=True)
    try:
        bench.call([bench.bin / "train_both", plans, data, STEPS, out, "--comm", comm, *(["--kernels", "own"] if kernels == "own" else [])])
        if comm == "local" and kernels == "cpu":
            bench.call([bench.bin / "drop_waits", plans, data, out, DROPPED_WAITS])
    except AssertionError as failure:
        return str(failure).splitlines()[-1], manifest["world_size"]
    return "", manifest["world_size"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--strategies", required=True, type=pathlib.Path)
    parser.add_argument("--comm", default="local", choices=["local", "nccl"])
    parser.add_argument("--reduction", default="position", choices=["position", "library"])
    parser.add_argument("--kernels", default="cpu", choices=["cpu", "own"])
    parser.add_argument("--only", action="append", help="a file's name without .yaml")
    args = parser.parse_args()
    bench = harness.Bench(args.bin, args.work)
    paths = [p for p in sorted(args.strategies.glob("*.yaml")) if not args.only or p.stem in args.only]
    failed = 0
    for path in paths:
        wrong, world = faults_of(bench, path, args.comm, args.reduction, args.kernels)
        print(f"{'FAILED' if wrong else 'ok    '} {path.stem} ({world} ranks){': ' + wrong if wrong else ''}", flush=True)
        failed += bool(wrong)
    sys.exit(1 if failed or not paths else 0)


if __name__ == "__main__":
    main()
