#!/usr/bin/env python3
"""`piper-run --device cuda` on the stand-ins for CUDA and NCCL: what it refuses, each in one line; and a plan of four ranks with
experts, trained to the losses of CPU ranks: over local ranks on one GPU and on two, over NCCL, without graphs and with them.

  piper_run_on_gpus.py --bin BIN --work DIR --strategies DIR
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

from safetensors.torch import save_file

import harness
import zoo
from strategies_train import model_of

STEPS = 4
TOLERANCE = 1e-5  # relative, of losses: CUDA's own kernels have another exp
STRATEGY = "expert_parallel"


def run(program, plans, *options, gpus=0):
    """Exit status and the lines on standard error."""
    done = subprocess.run([program, plans, *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "PIPER_STANDIN_DEVICES": str(gpus)})
    return done.returncode, done.stderr.splitlines()


def losses(log):
    return [record["loss"] for record in map(json.loads, log.read_text().splitlines()) if "loss" in record]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--strategies", required=True, type=pathlib.Path)
    args = parser.parse_args()
    bench = harness.Bench(args.bin, args.work)
    path = args.strategies / f"{STRATEGY}.yaml"
    model = model_of(path)
    plans = {}
    for device in ("cpu", "cuda"):
        plans[device] = bench.work / f"{device}.plans"
        bench.call([bench.bin / "piperc", bench.exported(model), "--strategy", path, "-o", plans[device], "--device", device])
    manifest = json.loads((plans["cuda"] / "manifest.json").read_text())
    world = manifest["world_size"]
    data = bench.work / "data.safetensors"
    save_file(zoo.draw(model, manifest["batch"] * STEPS), data)
    ours, standin = bench.bin / "piper-run", bench.bin / "piper-run-standin"
    failed = 0

    def check(what, good, seen):
        nonlocal failed
        failed += not good
        print(f"{'ok    ' if good else 'FAILED'} {what}" + ("" if good else f": {seen}"), flush=True)

    on_gpus = ["--data", data, "--steps", STEPS, "--device", "cuda"]
    refusals = [
        ("a build without CUDA", ours, plans["cuda"], [], 0, "R0106", "CUDA"),
        ("no GPU", standin, plans["cuda"], [], 0, "R0106", "there is no CUDA device here"),
        ("a plan for CPU ranks", standin, plans["cpu"], [], 1, "R0106", "piperc --device cuda"),
        ("MPI", standin, plans["cuda"], ["--comm", "mpi"], 1, "R0106", "--comm nccl"),
        ("fewer GPUs than ranks", standin, plans["cuda"], ["--comm", "nccl"], world - 1, "R0106", f"here are {world - 1}"),
    ]
    for what, program, bundle, options, gpus, code, words in refusals:
        status, lines = run(program, bundle, *on_gpus, *options, gpus=gpus)
        check(f"refused: {what}", status == 1 and len(lines) == 1 and code in lines[0] and words in lines[0], (status, lines))
    status, lines = run(ours, plans["cpu"], "--data", data, "--cuda-graph")
    check("refused: --cuda-graph for CPU ranks", status == 2 and len(lines) == 1, (status, lines))

    log = bench.work / "log"
    status, lines = run(ours, plans["cuda"], "--data", data, "--steps", STEPS, "--log", log)
    expected = losses(log)
    check("CPU ranks train", status == 0 and len(expected) >= STEPS, (status, lines))
    for comm, gpus in (("local", 1), ("local", 2), ("nccl", world)):
        for graphs in ([], ["--cuda-graph"]):
            status, lines = run(standin, plans["cuda"], *on_gpus, "--comm", comm, "--log", log, *graphs, gpus=gpus)
            seen = losses(log) if status == 0 else []
            alike = len(seen) == len(expected) and all(abs(a - b) <= TOLERANCE * abs(a) for a, b in zip(expected, seen))
            check(f"trains: {comm}, {gpus} GPUs{', graphs' if graphs else ''}", alike, (status, lines, expected, seen))
            notes = [line for line in lines if "cannot be part of a graph" in line]
            told = all("instr" in line and ".yaml:" in line for line in notes)
            cut = bool(graphs) and comm == "local"  # whole parts: no host reads a count
            check("  what cuts a graph is told, by instruction and line", told and bool(notes) == cut, lines)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
