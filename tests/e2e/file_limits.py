#!/usr/bin/env python3
"""A limit on the size of files (`ulimit -f`) is reported like a full disk, and leaves no part of a file that could pass for a whole one.

  file_limits.py --bin BIN --work DIR

Each program writes under a limit that the file in question exceeds: the exit status and the code say so, the name is not there or
holds what it held before, and nothing else is left beside it.
"""
import argparse
import json
import pathlib
import resource
import shutil
import subprocess
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

import harness

LIMIT, BATCH = 4 << 20, 4    # what a run keeps in memory for piper-plan whyhang must fit
STRATEGY = f"piper: 1\nmodel: {{batch: {BATCH}}}\noptimizer: {{sgd: {{lr: 0.001}}}}\n"


class Layers(nn.Module):
    """With a width of 300,000 the weights take 6 MB."""

    def __init__(self, width):
        super().__init__()
        self.a, self.b = nn.Linear(3, width), nn.Linear(width, 2)

    def forward(self, x, y):
        return F.mse_loss(self.b(torch.tanh(self.a(x))), y)


def limited():
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


class Desk:
    def __init__(self, bench):
        self.bench, self.folder, self.faults, self.count = bench, bench.work, [], 0
        self.plans, self.data = self.folder / "plans", self.folder / "data.safetensors"

    def check(self, what, holds, why=""):
        self.count += 1
        if not holds:
            self.faults.append(what)
            print("FAILED", what, why, flush=True)

    def call(self, program, *flags, limit=False):
        done = subprocess.run([str(word) for word in (self.bench.bin / program, *flags)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=120, preexec_fn=limited if limit else None)
        return done.returncode, done.stdout

    def run(self, *flags, limit=False, steps=2):
        return self.call("piper-run", self.plans, "--data", self.data, "--steps", steps, "--threads", 1, *flags, limit=limit)

    def fails(self, what, result, status, word):
        code, text = result
        self.check(f"{what}: exit status {status}", code == status, f"{code} {text}")
        self.check(f"{what}: says {word}", word in text and "File too large" in text, text)

    def fresh(self, name):
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder


def bundles(desk, model):
    strategy = desk.folder / "s.yaml"
    strategy.write_text(STRATEGY)
    folder = desk.fresh("compiled")
    flags = (model, "--strategy", strategy, "-o", folder / "plans")
    desk.fails("piperc -o", desk.call("piperc", *flags, limit=True), 1, "error[P06")
    desk.check("piperc -o: nothing is left", not list(folder.iterdir()), list(folder.iterdir()))
    code, text = desk.call("piperc", *flags)
    desk.check("piperc -o without a limit", code == 0, text)
    before = (folder / "plans" / "manifest.json").read_bytes()
    desk.fails("piperc -o over a bundle", desk.call("piperc", *flags, "--set", "optimizer.sgd.lr=0.2", limit=True), 1, "error[P06")
    desk.check("piperc -o over a bundle: it is as it was", (folder / "plans" / "manifest.json").read_bytes() == before)
    desk.check("piperc -o over a bundle: nothing else is left", len(list(folder.iterdir())) == 1, list(folder.iterdir()))
    code, text = desk.call("piper-plan", "verify", folder / "plans")
    desk.check("piperc -o over a bundle: it verifies", code == 0, text)
    shutil.rmtree(desk.plans, ignore_errors=True)
    shutil.copytree(folder / "plans", desk.plans)


def weights(desk):
    folder = desk.fresh("saved")
    for flag in ("--save", "--save-gradients"):
        path = folder / "w.safetensors"
        desk.fails(flag, desk.run(flag, path, limit=True), 3, "error[P0621]")
        desk.check(f"{flag}: nothing is left", not list(folder.iterdir()), list(folder.iterdir()))
        path.write_text("what was there")
        desk.fails(f"{flag} over a file", desk.run(flag, path, limit=True), 3, "error[P0621]")
        desk.check(f"{flag} over a file: it is as it was", path.read_text() == "what was there" and len(list(folder.iterdir())) == 1)
        path.unlink()


def checkpoints(desk):
    folder = desk.fresh("checkpoints")
    flags = ("--checkpoint", folder, "--every", 1)
    code, text = desk.run(*flags, steps=1)
    desk.check("a checkpoint without a limit", code == 0, text)
    desk.fails("checkpoints", desk.run(*flags, "--resume", limit=True, steps=2), 74, "error[R07")
    desk.check("checkpoints: the one before is there alone", [p.name for p in folder.glob("step-*")] == ["step-000000001"],
               list(folder.iterdir()))
    code, text = desk.call("piper-plan", "checkpoint", "verify", folder)
    desk.check("checkpoints: it verifies", code == 0, text)
    out = desk.fresh("exported")
    desk.fails("checkpoint export", desk.call("piper-plan", "checkpoint", "export", folder, "-o", out / "w.safetensors", limit=True), 1, "P0621")
    desk.check("checkpoint export: nothing is left", not list(out.iterdir()), list(out.iterdir()))


def logs(desk, model):
    code, text = desk.call("piperc", model, "--strategy", desk.folder / "s.yaml", "-o", desk.plans)
    desk.check("piperc", code == 0, text)
    log = desk.fresh("logged") / "log.jsonl"
    code, text = desk.run("--log", log, limit=True, steps=40000)
    desk.check("--log: exit status 3", code == 3, f"{code} {text[-500:]}")
    desk.check("--log: says that it is incomplete", "the log is incomplete" in text and "File too large" in text, text[-500:])
    lines = log.read_text().split("\n")
    steps = [json.loads(line)["step"] for line in lines[:-1]]
    desk.check("--log: whole lines in order, then one that no newline ends", steps == list(range(1, len(steps) + 1)) and len(steps) > 50, lines[-3:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    bench = harness.Bench(args.bin, args.work)
    desk = Desk(bench)
    example = {"x": torch.randn(BATCH, 3), "y": torch.randn(BATCH, 2)}
    save_file({"x": torch.randn(40 * BATCH, 3), "y": torch.randn(40 * BATCH, 2)}, desk.data)
    bundles(desk, bench.export(Layers(300_000), example, "limits_wide.pt2", width=300_000))
    weights(desk)
    checkpoints(desk)
    logs(desk, bench.export(Layers(3), example, "limits_small.pt2", width=3))
    print(f"{desk.count} checks, {len(desk.faults)} failed")
    sys.exit(1 if desk.faults else 0)


if __name__ == "__main__":
    main()
