#!/usr/bin/env python3
"""Random models train as in PyTorch on one process, however they are cut, or are refused with a code.

  run_random_models.py --bin BIN --work DIR [--first SEED] [--count N] [--results FILE]

Every seed gives a model (random_models.py). It is exported into both containers, compiled under each strategy of `strategies_of`, and
trained for three steps of SGD: losses, gradients of the first step and weights after the last must be those of PyTorch in f64, as
near as PyTorch's own f32 and weights that are moved by a rounding come to them. A refusal must have a code; one for reading several
samples together (P0331, P0336) needs a statement that does. Anything else fails: other numbers, another exit status, a signal.

What fails is made smaller by itself, as long as it fails alike, and printed as a program. Seeds that are in the results file already
are not run again.
"""
import argparse
import collections
import contextlib
import dataclasses
import io
import json
import logging
import math
import os
import pathlib
import re
import subprocess
import sys
import time
import warnings

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from safetensors.torch import load_file, save_file
from torch import nn

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "e2e"), str(pathlib.Path(__file__).resolve().parents[2] / "tools")]
import piper_export  # noqa: E402
import random_models  # noqa: E402
from forked_runs import forked_runs  # noqa: E402
from random_models import BATCH, MIXING  # noqa: E402

STEPS, LR = 3, 0.05
CONTAINERS = ("pt2", "onnx")
# A rounding is some 6e-8 of a value; sums of few dozen values in another order lose ten times that.
OF_VALUE, OF_CHANGE, OF_ERROR = 2e-6, 2e-5, 30


def data_of(model, samples):
    draws = torch.Generator().manual_seed(model.seed)
    shape = (samples, model.steps)
    data = {"x": torch.randn(*shape, model.width, generator=draws), "y": torch.randn(*shape, model.width, generator=draws),
            "z": torch.randn(samples, model.width, generator=draws), "mask": (torch.rand(shape, generator=draws) < 0.7).float(),
            "ids": torch.randint(0, 7, shape, generator=draws), "labels": torch.randint(0, model.width, shape, generator=draws)}
    data["labels"][torch.rand(shape, generator=draws) < 0.2] = -100
    data["mask"][:, 0] = 1
    return {name: data[name] for name in model.inputs()}


def made(model):
    scope = {"torch": torch, "nn": nn, "F": F}
    exec(model.source(), scope)  # noqa: S102 its text is the generator's
    torch.manual_seed(1)
    return scope["Model"]()


@dataclasses.dataclass
class Trained:
    losses: list
    gradients: dict
    weights: dict
    start: dict = dataclasses.field(default_factory=dict)


def trained_by_torch(model, data, dtype, moved=None):
    """moved: the seed of a rounding by which the weights are moved."""
    module = made(model).to(dtype)
    draws = torch.Generator().manual_seed(moved or 0)
    torch.set_default_dtype(dtype)
    try:
        for parameter in module.parameters() if moved is not None else ():
            parameter.data *= 1 + 1e-7 * torch.randn(parameter.shape, generator=draws, dtype=dtype)
        named = dict(module.named_parameters())
        result = Trained([], {}, {}, {name: p.detach().double().clone() for name, p in named.items()})
        optimizer = torch.optim.SGD([p for p in named.values() if p.requires_grad] or [torch.zeros(1, requires_grad=True)], lr=LR)
        for step in range(STEPS):
            optimizer.zero_grad()
            batch = {k: v[step * BATCH:(step + 1) * BATCH].clone() for k, v in data.items()}
            loss = module(**{k: v.to(dtype) if v.is_floating_point() else v for k, v in batch.items()})
            loss.backward()
            if step == 0:
                result.gradients = {n: p.grad.double().clone() for n, p in named.items() if p.grad is not None}
            optimizer.step()
            result.losses.append(loss.item())
        result.weights = {name: p.detach().double() for name, p in named.items()}
        return result
    finally:
        torch.set_default_dtype(torch.float32)


def norm(tensor):
    return torch.linalg.vector_norm(tensor.double()).item()


class Reference:
    """A model's training in f64, and how far from it roundings lead. `unfit`: why it is none to compare with, or nothing."""

    def __init__(self, model, data):
        self.unfit = ""
        try:
            self.exact = trained_by_torch(model, data, torch.float64)
            others = [trained_by_torch(model, data, torch.float32)] + [trained_by_torch(model, data, torch.float64, moved) for moved in (1, 2)]
        except Exception as error:  # whatever PyTorch says of the text
            self.unfit = f"PyTorch: {type(error).__name__}: {str(error).splitlines()[0][:150]}"
            return
        exact = self.exact
        self.losses = [max(abs(o.losses[i] - exact.losses[i]) for o in others) for i in range(STEPS)]
        self.gradients = {n: max(norm(o.gradients[n] - g) for o in others) for n, g in exact.gradients.items()}
        self.weights = {n: max(norm(o.weights[n] - w) for o in others) for n, w in exact.weights.items() if n in exact.gradients}
        self.largest = max(map(norm, exact.gradients.values()), default=0.0)
        sizes = [*exact.losses, *self.losses, self.largest, *self.gradients.values(), *self.weights.values()]
        if not all(map(math.isfinite, sizes)) or max(map(abs, sizes)) > 1e4:
            self.unfit = "numbers that grow without bound"
        elif any(error > 1e-3 * (1 + abs(value)) for error, value in zip(self.losses, exact.losses)) or any(
                error > 1e-3 * self.largest for error in self.gradients.values()):
            self.unfit = "roundings change it"

    def faults(self, got):
        exact, faults = self.exact, []
        if len(got.losses) != STEPS:
            return [f"{len(got.losses)} losses"]
        for i, (mine, wanted, error) in enumerate(zip(got.losses, exact.losses, self.losses)):
            if not abs(mine - wanted) <= OF_VALUE * (abs(wanted) + 1) + OF_ERROR * error:
                faults.append(f"loss {i + 1} is {mine:.7g}, of PyTorch {wanted:.7g}")
        for name, wanted in exact.gradients.items():
            mine = got.gradients.get(name)
            error = norm(wanted if mine is None else mine.double() - wanted)
            if not error <= OF_CHANGE * norm(wanted) + OF_VALUE * self.largest + OF_ERROR * self.gradients[name]:
                faults.append(f"the gradient of {name} differs by {error:.3g}, its norm is {norm(wanted):.3g}")
        for name, error in self.weights.items():
            wanted, mine = exact.weights[name], got.weights.get(name)
            if mine is None and wanted.numel():
                faults.append(f"no weight {name}")
            elif wanted.numel() and not (differs := norm(mine.double() - wanted)) <= (
                    OF_VALUE * (norm(wanted) / 4 + STEPS * LR * self.largest) + OF_CHANGE * norm(wanted - exact.start[name]) + OF_ERROR * error):
                faults.append(f"the weight {name} differs by {differs:.3g}, it changed by {norm(wanted - exact.start[name]):.3g}")
        return faults


def strategies_of(model):
    """{name: text}, the simplest first."""
    def text(*directives, annotate="", schedule=""):
        listed = "directives:\n" + "".join(f"  - {{{d}}}\n" for d in directives) if directives else ""
        return f"piper: 1\nmodel: {{batch: {BATCH}}}\n{annotate}{listed}{schedule}optimizer: {{sgd: {{lr: {LR}}}}}\n"

    def split(count):
        return f"op: split, num_microbatches: {count}"
    both = "op: replicate, filter: {}, devices: [0, 1]"
    shard = ("shard_optimizer", "shard_grads", "shard_params")[model.seed % 3]
    found = {"whole": text(), "split 2": text(split(2)), "split 4": text(split(4)), "one sample a piece": text(split(8)),
             "replicas": text(split(2), both), shard: text(*([split(2)] if model.seed % 2 else []), f"{both}, {shard}: true")}
    if stages := model.stages():
        family, microbatches = ("gpipe", "1f1b")[model.seed % 2], (2, 4, 8)[model.seed // 2 % 3]
        found[f"two stages, {family}"] = text(annotate=f"annotate:\n  - {{tag: PP, starts: {json.dumps(stages)}}}\n",
                                              schedule=f"schedule: {{family: {family}, microbatches: {microbatches}}}\n")
    return found


@dataclasses.dataclass(frozen=True)
class End:
    kind: str        # "right", "refused" or how it fails
    text: str = ""   # the code, or what is wrong

    @property
    def fails(self):
        return self.kind not in ("right", "refused")


class Runner:
    def __init__(self, args):
        self.args, self.bin, self.work = args, args.bin.resolve(), args.work.resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.refusals, self.runs, self.failures, self.unfit = collections.Counter(), collections.Counter(), [], collections.Counter()

    def called(self, *command):
        """Exit status and what is printed."""
        words = [str(c) for c in command]
        if words[0] == str(self.bin / "piper-run") and (forks := forked_runs(self.bin / "piper-run")):
            return forks.call(words, os.getcwd(), 120)
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, cwd=self.work)
        return done.returncode, done.stdout

    def exported(self, model, container):
        """An End where it is not."""
        path = self.work / f"model.{container}"
        path.unlink(missing_ok=True)
        example = {k: v.clone() for k, v in data_of(model, 6).items()}
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            try:
                piper_export.export(made(model), example, path)
            except piper_export.ExportError as error:
                return End("refused", f"ExportError, {str(error).splitlines()[0][:100]}")
            except Exception as error:  # what a tracer refuses
                return End("refused" if type(error).__module__.startswith("torch.") else "exporter ends",
                           f"{type(error).__name__}, {str(error).splitlines()[0][:150]}")
        return None

    def run(self, model, container, strategy, reference):
        """One compilation and training of the exported model."""
        (self.work / "s.yaml").write_text(strategy)
        try:
            code, text = self.called(self.bin / "piperc", self.work / f"model.{container}", "--strategy", self.work / "s.yaml", "-o", self.work / "plans")
            if code == 1 and (found := re.search(r"error\[(P\d{4})\]", text)):
                false = found[1] in MIXING - model.may_meet()
                return End(f"refused with {found[1]} though no statement mixes samples", text) if false else End("refused", text[found.start() + 6:found.start() + 300])
            if code:
                return End(f"piperc exits with {code}", text[-1500:])
            code, text = self.called(self.bin / "piper-run", self.work / "plans", "--data", self.work / "data.safetensors", "--steps", STEPS, "--threads", 1,
                                     "--log", self.work / "log.jsonl", "--save", self.work / "weights.safetensors",
                                     "--save-gradients", self.work / "gradients.safetensors")
        except subprocess.TimeoutExpired:
            return End("no end within two minutes")
        if code:
            return End(f"piper-run exits with {code}", text[-1500:])
        rows = [json.loads(line) for line in (self.work / "log.jsonl").read_text().splitlines()]
        faults = reference.faults(Trained([row["loss"] for row in rows if "loss" in row], load_file(self.work / "gradients.safetensors"),
                                          load_file(self.work / "weights.safetensors")))
        return End("wrong", "; ".join(faults[:4])) if faults else End("right")

    def prepared(self, model):
        data = data_of(model, STEPS * BATCH)
        reference = Reference(model, data)
        if not reference.unfit:
            save_file({k: v.contiguous() for k, v in data.items()}, self.work / "data.safetensors")
        return reference

    def ends(self, model, containers=CONTAINERS, strategies=None):
        """{(container, strategy): End}, or why PyTorch is none to compare with."""
        reference, found = self.prepared(model), {}
        if reference.unfit:
            return reference.unfit
        for container in containers:
            refused = self.exported(model, container)
            for name, strategy in strategies_of(model).items():
                if strategies is None or name in strategies:
                    found[container, name] = end = refused or self.run(model, container, strategy, reference)
                    if name == "whole" and end.kind == "refused":
                        refused = end    # what one device refuses, all do
        return found

    def check(self, seed):
        model = random_models.make(seed)
        ends = self.ends(model)
        if isinstance(ends, str):
            self.unfit[re.sub(r"[\d.]+", "N", ends)[:90]] += 1
            return {"seed": seed, "unfit": ends}
        for (container, strategy), end in ends.items():
            self.runs["fails" if end.fails else end.kind] += 1
            if end.kind == "refused":
                self.refusals[f"{end.text[:5] if end.text.startswith('P0') else end.text} ({'whole' if ends[container, 'whole'].kind == 'refused' else 'cut'})"] += 1
        failing = {where: end for where, end in ends.items() if end.fails}
        if failing:
            self.failed(model, failing)
        return {"seed": seed, "ends": {f"{c}, {s}": [end.kind, end.text[:300]] for (c, s), end in ends.items()}}

    def failed(self, model, failing):
        shown = set()
        for (container, strategy), end in failing.items():
            if end.kind in shown:
                continue
            shown.add(end.kind)
            where = ", ".join(f"{c} {s}" for (c, s), e in failing.items() if e.kind == end.kind)
            print(f"FAILED seed {model.seed}: {end.kind} ({where}): {end.text}", flush=True)
            small, end = self.shrunk(model, container, strategy, end)
            self.failures.append((model.seed, end.kind))
            print(f"---- {container}, {strategy}\n{strategies_of(small).get(strategy)}\n{small.source()}---- {end.kind}: {end.text}\n", flush=True)

    def shrunk(self, model, container, strategy, end):
        """The smallest model found that fails alike under the strategy, and its End."""
        until, smaller = time.monotonic() + self.args.shrink_seconds, True
        while smaller:
            smaller = False
            for less in model.smaller():
                if time.monotonic() > until:
                    return model, end
                ends = self.ends(less, (container,), (strategy,))
                if not isinstance(ends, str) and (found := ends.get((container, strategy))) and found.kind == end.kind:
                    model, end, smaller = less, found, True
                    break
        return model, end


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--results", type=pathlib.Path, help="lines of JSON, a seed each; seeds in it are left out")
    parser.add_argument("--most-refused", type=float, default=100, help="percent of the runs that may be refused, 100 by default")
    parser.add_argument("--shrink-seconds", type=float, default=60)
    parser.add_argument("--print", action="store_true", help="the models' texts, and no run")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in ("torch.onnx", "torch.export", "torch.fx"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    torch.set_num_threads(1)
    seeds = range(args.first, args.first + args.count)
    if args.print:
        print("\n".join(f"# seed {seed}\n{random_models.make(seed).source()}" for seed in seeds))
        return
    known = {json.loads(line)["seed"] for line in args.results.read_text().splitlines()} if args.results and args.results.exists() else set()
    runner = Runner(args)
    for seed in seeds:
        if seed not in known:
            row = runner.check(seed)
            if args.results:
                with args.results.open("a") as results:
                    results.write(json.dumps(row) + "\n")
    for text, count in runner.refusals.most_common():
        print(f"{count:5} refused: {text}")
    for text, count in runner.unfit.most_common():
        print(f"{count:5} models left out: {text}")
    ran, runs = args.count - len(known & set(seeds)), sum(runner.runs.values())
    print(f"{ran} models, {sum(runner.unfit.values())} of them left out, {runs} runs: "
          + ", ".join(f"{n} {kind}" for kind, n in sorted(runner.runs.items())) + f"; {len(runner.failures)} failures")
    refused = 100 * runner.runs["refused"] / max(runs, 1)
    if refused > args.most_refused:
        print(f"{refused:.0f} % of the runs are refused, more than {args.most_refused:g} %")
    sys.exit(1 if runner.failures or (ran and not runs) or refused > args.most_refused else 0)


if __name__ == "__main__":
    main()
