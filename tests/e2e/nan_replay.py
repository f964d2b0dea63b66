#!/usr/bin/env python3
"""A run that ends because its loss is no number names the call that made the first one; replicas of which one has a bit
flipped are named.

  nan_replay.py --bin BIN --work DIR [--no-mpirun] [--only PART,...]

The model of two stages takes the logarithm of an input, which is negative in one sample of step BAD: the call, its line of
Python, rank, samples and step are known. Masks with -inf and logarithms of 0 that where() hides are part of it, and are named
by nobody.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

import gpu_ranks
from checks import check, faults
import harness

BATCH, STEPS, BAD, SAMPLE, WIDTH = 8, 6, 4, 5, 16
NOT_FINITE = 82
UNSEEN = 1500    # of 8192 elements


class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x):
        h = self.up(x)
        scores = torch.where(h > 0, h, torch.full_like(h, float("-inf")))   # a mask: its infinities are meant
        return torch.tanh(h) * torch.softmax(torch.cat([scores, torch.zeros_like(h[:, :1])], 1), 1)[:, :-1]


class Second(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Linear(2 * WIDTH, 4)

    def forward(self, h, level):
        hidden = torch.where(level == 1, torch.zeros_like(level), torch.log((level - 1).abs()))   # -inf where level is 1
        scale = torch.log(level)    # HERE
        return self.down(h) * scale + hidden.clamp(min=-1)


class Root(Second):
    """Its loss is finite where the level is 0, and its gradient is not."""

    def forward(self, h, level):
        return torch.sqrt((self.down(h) * level).square())


class Masked(Second):
    """It trains a mask, whose infinity is meant."""

    def __init__(self):
        super().__init__()
        self.mask = nn.Parameter(torch.tensor([0.0, float("-inf"), 1.0, 0.0]))

    def forward(self, h, level):
        return super().forward(h, level) * torch.softmax(self.mask, 0)


class Wide(Second):
    """A weight of which ranks compare some blocks alone when they start (plan::kQuickBlocks); UNSEEN lies between them."""

    def __init__(self):
        super().__init__()
        self.wide = nn.Linear(4, 2048)

    def forward(self, h, level):
        rows = super().forward(h, level)
        return rows + self.wide(rows).mean(-1, keepdim=True)


class Levels(nn.Module):
    def __init__(self, second=Second):
        super().__init__()
        self.first, self.second = First(), second()

    def forward(self, x, level, target):
        return F.mse_loss(self.second(self.first(x), level), target)


LINE = next(i for i, line in enumerate(pathlib.Path(__file__).read_text().splitlines(), 1) if line.endswith("# HERE"))


def strategy(stages, replicas, microbatches, more=""):
    groups = [list(range(s * replicas, (s + 1) * replicas)) for s in range(stages)]
    text = f"piper: 1\nmodel: {{batch: {BATCH}}}\n"
    if stages > 1:
        text += 'annotate:\n  - {tag: PP, starts: ["first", "second"]}\n'
    directives = []
    for stage, group in enumerate(groups):
        chosen = f"{{PP: {stage}}}" if stages > 1 else "{}"
        if stages * replicas > 1:
            directives.append(f"  - {{op: place, filter: {chosen}, devices: {group}}}\n")
        if replicas > 1:
            directives.append(f"  - {{op: replicate, filter: {chosen}, devices: {group}, bucket_size: 0.05}}\n")
    if stages == 1 and microbatches > 1:
        directives.append(f"  - {{op: split, num_microbatches: {microbatches}}}\n")
    if directives:
        text += "directives:\n" + "".join(directives)
    if stages > 1:
        text += f"schedule: {{family: 1f1b, microbatches: {microbatches}}}\n"
    return text + "optimizer: {sgd: {lr: 0.01, momentum: 0.9}}\n" + more


class Bench(harness.Bench):
    def __init__(self, args):
        super().__init__(args.bin, args.work)
        self.mpirun = not args.no_mpirun
        generator = torch.Generator().manual_seed(3)
        self.data = {"x": torch.randn(BATCH * STEPS, WIDTH, generator=generator), "level": 1 + torch.randint(0, 3, (BATCH * STEPS, 1), generator=generator).float(),
                     "target": torch.randn(BATCH * STEPS, 4, generator=generator)}
        self.write("good", self.data)
        bad = {k: v.clone() for k, v in self.data.items()}
        bad["level"][(BAD - 1) * BATCH + SAMPLE] = -2
        self.write("bad", bad)
        bad["level"][(BAD - 1) * BATCH + SAMPLE] = 0
        self.write("zero", bad)
        bad = {k: v.clone() for k, v in self.data.items()}
        bad["x"][(BAD - 1) * BATCH + SAMPLE, 1] = float("nan")
        self.write("nan_in_data", bad)
        torch.manual_seed(2)
        example = {k: v[:BATCH] for k, v in self.data.items()}
        self.model = self.export(Levels(), example, "levels.onnx")
        self.root = self.export(Levels(Root), example, "levels_root.onnx", second="root")

    def write(self, name, tensors):
        save_file(tensors, self.work / f"{name}.safetensors")

    def plans(self, name, *shape, more="", model=None):
        (self.work / f"{name}.yaml").write_text(strategy(*shape, more))
        self.call([self.bin / "piperc", model or self.model, "--strategy", self.work / f"{name}.yaml", "-o", self.work / f"{name}.plans"])
        return self.work / f"{name}.plans"

    def run_piper(self, plans, *flags, data="bad", launch=(), more=(), steps=STEPS):
        return self.end_of([*launch, self.bin / "piper-run", plans, "--data", self.work / f"{data}.safetensors", "--threads", 1, "--steps", steps,
                            "--sampling", "sequential", *flags, *more])

    def launches(self, ranks):
        yield "local", (), ()
        if ranks > 1:
            yield "piper-launch", (self.bin / "piper-launch",), ("--comm", "ucx")
            if self.mpirun:
                yield "mpirun", ("mpirun", "--oversubscribe", "-n", ranks), ()


def named(label, code, text, rank, samples, start):
    """What is said once, of the call that is known to have made it."""
    # piper-launch repeats the last lines, after two spaces.
    wanted = (rf"^piper-run: error\[R0801\]: step {BAD}: the loss is NaN; in step {BAD} the first NaN is made by rank {rank} instruction \d+ \(run .*\), "
              rf"call \d+: kernel log of log\S* \(second\) at nan_replay\.py:{LINE}, samples {samples[0]} to {samples[1]} of the step "
              rf"\(replayed from step {start} on\)")
    check(f"{label}: exit status 82", code == NOT_FINITE, f"{code} {text}")
    check(f"{label}: the call is named, once", len(re.findall(wanted, text, re.M)) == 1 and len(re.findall("^piper-run: error", text, re.M)) == 1, text)


def origin(bench):
    for name, shape, rank, samples in (("one", (1, 1, 1), 0, (0, 7)), ("mb4", (1, 1, 4), 0, (4, 5)), ("pp2", (2, 1, 4), 1, (4, 5)), ("pp2_dp2", (2, 2, 2), 2, (4, 5))):
        plans, ranks = bench.plans(name, *shape), shape[0] * shape[1]
        for way, launch, more in bench.launches(ranks):
            code, text = bench.run_piper(plans, launch=launch, more=more)
            named(f"{name}, {way}", code, text, rank, samples, 1)


def checkpoints(bench):
    """The replay begins at the newest checkpoint, and changes nothing in the folder; no step after the first lost one is in it."""
    plans = bench.plans("pp2", 2, 1, 4)
    for way, launch, more in bench.launches(2):
        folder = bench.work / "checkpoints"
        shutil.rmtree(folder, ignore_errors=True)
        code, text = bench.run_piper(plans, "--checkpoint", folder, "--every", 1, launch=launch, more=more)
        named(f"checkpoints, {way}", code, text, 1, (4, 5), BAD)
        kept = sorted(path.name for path in folder.glob("*") if path.name != "LOCK")
        check(f"checkpoints, {way}: those in front of the step are there, and nothing else", kept == [f"step-{s:09}" for s in range(1, BAD)], f"{kept}")
        bench.call([bench.bin / "piper-plan", "checkpoint", "verify", folder])
        code, text = bench.run_piper(plans, "--checkpoint", folder, "--every", 1, "--resume", data="bad", launch=launch, more=more)
        named(f"resumed, {way}", code, text, 1, (4, 5), BAD)
    folder = bench.work / "checkpoints"
    shutil.rmtree(folder)
    code, text = bench.run_piper(plans, "--checkpoint", folder, "--every", 2)
    named("every second step", code, text, 1, (4, 5), 3)


def states(bench):
    """Step BAD has a finite loss and leaves NaNs in the parameters: they are saved nowhere, and nothing is removed for them."""
    plans = bench.plans("root", 2, 1, 4, model=bench.root)
    folder, weights = bench.work / "states", bench.work / "states.safetensors"
    weights.unlink(missing_ok=True)
    wanted = rf"error\[R0801\]: step {BAD}: (parameter|the first moment of) '\S+' has (a NaN|an infinity); in step {BAD} the first NaN is made by rank 1 "
    for way, launch, more in bench.launches(2):
        for steps in (STEPS, BAD):
            label = f"states, {way}, {steps} steps"
            shutil.rmtree(folder, ignore_errors=True)
            saving = ["--checkpoint", folder, "--every", 1, "--keep", 2, "--save", weights]
            code, text = bench.run_piper(plans, *saving, data="zero", launch=launch, more=more, steps=steps)
            check(f"{label}: the call is named", code == NOT_FINITE and re.search(wanted, text), f"{code} {text}")
            kept = sorted(path.name for path in folder.glob("*") if path.name != "LOCK")
            check(f"{label}: those before it are there, and nothing else", kept == [f"step-{s:09}" for s in (BAD - 2, BAD - 1)], f"{kept}")
            check(f"{label}: no weights", not weights.exists())
        code, text = bench.run_piper(plans, "--save", weights, data="zero", launch=launch, more=more, steps=BAD)
        check(f"states, {way}, --save alone: refused", code == NOT_FINITE and re.search(wanted, text) and not weights.exists(), f"{code} {text}")
    code, text = bench.run_piper(plans, "--save", weights, "--no-stop-on-nan", data="zero", steps=BAD)
    check("states, --no-stop-on-nan: saved", code == 0 and any(value.isnan().any() for value in load_file(weights).values()), f"{code} {text}")
    masked = bench.export(Levels(Masked), {k: v[:BATCH] for k, v in bench.data.items()}, "levels_masked.onnx", second="masked")
    plans = bench.plans("masked", 2, 1, 4, model=masked)
    shutil.rmtree(folder)
    for steps in (2, STEPS):
        code, text = bench.run_piper(plans, "--checkpoint", folder, "--every", 1, "--keep", 1, "--resume", "--save", weights, data="good", steps=steps)
        check(f"states, an infinity that the model begins with, {steps} steps: saved", code == 0, f"{code} {text}")


def others(bench):
    plans = bench.plans("pp2", 2, 1, 4)
    code, text = bench.run_piper(plans, data="good")
    check("infinities that the model means end no run", code == 0, f"{code} {text}")
    code, text = bench.run_piper(plans, data="nan_in_data")
    check("a NaN of the data is told apart", code == NOT_FINITE and f"in step {BAD} it came with the data, in input 'x' on rank 0" in text, f"{code} {text}")
    weights = load_file(plans / "weights" / "model.safetensors")
    weights["second.down.weight"][1, 1] = float("inf")
    save_file(weights, bench.work / "broken.safetensors")
    code, text = bench.run_piper(plans, "--load", bench.work / "broken.safetensors")
    check("so is one of the weights", code == NOT_FINITE and "such a number is in tensor 'second.down.weight' on rank 1 already before step 1" in text, f"{code} {text}")
    code, text = bench.run_piper(plans, "--no-stop-on-nan")
    check("--no-stop-on-nan trains on", code == 0 and "R0801" not in text, f"{code} {text}")
    log = bench.work / "log.jsonl"
    code, text = bench.run_piper(plans, "--log", log)
    rows = log.read_text().splitlines()
    check("the log ends with the step that was lost", len(rows) == BAD and "NaN" in rows[-1], rows[-1])
    plans = bench.plans("last", 2, 1, 4)
    code, text = bench.run_piper(plans, steps=BAD)
    named("in the last step", code, text, 1, (4, 5), 1)
    clipped = bench.plans("clipped", 2, 1, 4, more="clip_grad_norm: 1.0\n")
    code, text = bench.run_piper(clipped)
    named("with clipping", code, text, 1, (4, 5), 1)


def gpus(bench):
    """Ranks on GPUs replay like others, in one process and over NCCL in one each, from a checkpoint or from where the run began."""
    (bench.work / "cuda.yaml").write_text(strategy(2, 1, 4))
    plans = bench.work / "cuda.plans"
    bench.call([bench.bin / "piperc", bench.model, "--strategy", bench.work / "cuda.yaml", "-o", plans, "--device", "cuda"])
    flags = ["--data", bench.work / "bad.safetensors", "--threads", 1, "--steps", STEPS, "--sampling", "sequential"]
    folder = bench.work / "cuda.checkpoints"
    for how in ("local", "nccl", "processes") + ("mpirun",) * bench.mpirun:
        for saving, start in ([], 1), (["--checkpoint", folder, "--every", 1], BAD):
            shutil.rmtree(folder, ignore_errors=True)
            code, lines = gpu_ranks.run(how, bench.bin / "piper-run-standin", 2, bench.work, plans, *flags, *saving)
            named(f"gpus, {how}{', checkpoints' if saving else ''}", code, "\n".join(lines), 1, (4, 5), start)


def replicas(bench):
    """Processes that were started with other weights stand for a flipped bit: everything else of them is the same."""
    if not bench.mpirun:
        print("[SKIP] replicas: no mpirun")
        return
    model = bench.export(Levels(Wide), {k: v[:BATCH] for k, v in bench.data.items()}, "levels_wide.onnx", second="wide")
    weights = load_file(bench.plans("wide", 1, 1, 1, model=model) / "weights" / "model.safetensors")
    name = "second.wide.weight"
    good, bad = bench.work / "good_weights.safetensors", bench.work / "flipped.safetensors"
    save_file(weights, good)
    weights[name].view(torch.int32).view(-1)[UNSEEN] ^= 1 << 10
    save_file(weights, bad)
    flags = ["--steps", 4, "--check-replicas", 2]
    for label, ranks, odd, wanted in (("two", 2, 1, r"ranks 0 and 1 differ in (value|m) of 'second\.wide\.weight', 8192 elements from 0; with two, it is not known which one is right"),
                                      ("three", 4, 2, r"rank 2 differs from the other replicas \(of ranks 0, 1, 2 and 3\) in (value|m) of 'second\.wide\.weight', 8192 elements from 0")):
        plans = bench.plans(f"dp{ranks}", 1, ranks, 1, model=model)

        def part(count, weights):
            return ["-n", count, bench.bin / "piper-run", plans, "--data", bench.work / "good.safetensors", "--threads", 1, "--sampling", "sequential",
                    "--load", weights, *flags]
        equal = ["mpirun", "--oversubscribe", *part(ranks, good)]
        differing = ["mpirun", "--oversubscribe", *part(odd, good), ":", *part(1, bad)]
        if ranks - odd > 1:
            differing += [":", *part(ranks - odd - 1, good)]
        environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        run = lambda command: subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, env=environment)
        done = run(equal)
        check(f"{label} replicas that are equal train", done.returncode == 0, done.stderr)
        done = run(differing)
        text = done.stdout + done.stderr
        check(f"{label} replicas: the one that differs is named, once",
              done.returncode == NOT_FINITE and len(re.findall(r"R0811\]: after step 2 " + wanted + "; this is the first check", text)) == 1 and text.count("R0811") == 1,
              f"{done.returncode} {text}")


PARTS = {f.__name__: f for f in (origin, checkpoints, states, others, gpus, replicas)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--no-mpirun", action="store_true")
    parser.add_argument("--only", default=",".join(PARTS))
    args = parser.parse_args()
    bench = Bench(args)
    for part in args.only.split(","):
        PARTS[part](bench)
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
