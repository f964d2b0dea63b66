#!/usr/bin/env python3
"""Random models train as in PyTorch on one process, however they are cut, or are refused with a code.

  run_random_models.py --bin BIN --work DIR [--first SEED] [--count N] [--results FILE] [--statement NAME]

Every seed gives a model (random_models.py). It is exported into both containers, compiled under each strategy of `strategies_of`, and
trained for three steps of SGD: losses, gradients of the first step and weights after the last must be those of PyTorch in f64, as
near as PyTorch's own f32 and weights that are moved by a rounding come to them. A refusal must have a code; one for reading several
samples together (P0331, P0336) needs a statement that does. Anything else fails: other numbers, another exit status, a signal.

What fails is made smaller by itself, as long as it fails alike, and printed as a program. Seeds that are in the results file already
are not run again.
"""
import argparse
import collections
import json
import pathlib
import re
import sys
import time

import onnx
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import compared_training  # noqa: E402
import random_models  # noqa: E402
from compared_training import End, Programs, Reference, Subject  # noqa: E402
from file_edits import EDITS  # noqa: E402
from random_models import BATCH, MIXING  # noqa: E402

STEPS, LR = 3, 0.05
TRAIN = ", train: ['c*']"                # all single numbers of rare_statements.py
OPSET = 25                               # of files with operators by their own names
CONTAINERS = ("pt2", "onnx")


def data_of(model, samples):
    draws = torch.Generator().manual_seed(model.seed)
    shape = (samples, model.steps)
    data = {"x": torch.randn(*shape, model.width, generator=draws), "y": torch.randn(*shape, model.width, generator=draws),
            "z": torch.randn(samples, model.width, generator=draws), "mask": (torch.rand(shape, generator=draws) < 0.7).float(),
            "ids": torch.randint(0, 7, shape, generator=draws), "labels": torch.randint(0, model.width, shape, generator=draws)}
    data["labels"][torch.rand(shape, generator=draws) < 0.2] = -100
    data["mask"][:, 0] = 1
    return {name: data[name] for name in model.inputs()}


def onnx_op(name, operands, **attributes):
    """An operator that the ONNX file has by this name; in PyTorch its result is zeros."""
    return torch.onnx.ops.symbolic(name, operands, attributes, dtype=operands[0].dtype, shape=operands[0].shape, version=20)


def made(model, container="pt2", drop=random_models.DROPPED):
    scope = {"torch": torch, "nn": nn, "F": F, "onnx_op": onnx_op}
    exec(model.source(container, drop), scope)  # noqa: S102 its text is the generator's
    torch.manual_seed(1)
    return scope["Model"]()


def edited(path, edit, opset):
    model = onnx.load(path)
    if opset:
        model.opset_import[0].version = opset
    EDITS[edit](model)
    onnx.save(model, path)


def subject_of(model, container="pt2", drop=random_models.DROPPED):
    """What is exported into the container, and what it is compared with."""
    rare, more = model.rare, {}
    if rare and rare.loads:
        more["load"] = {n: 0.5 * v + 0.25 if n not in dict(made(model).named_parameters()) and v.is_floating_point() else v
                        for n, v in made(model).state_dict().items()}
    if rare and container == "onnx" and rare.onnx:
        more |= {"written": lambda: made(model, container), "checked": False}
    if rare and container == "onnx" and rare.foreign:
        more["edit"] = lambda path: edited(path, rare.edit or "foreign", OPSET if rare.onnx else 0)
    return Subject(lambda: made(model, drop=drop), data_of(model, STEPS * BATCH), data_of(model, 6), BATCH, STEPS, LR, buffers=True, **more)


def strategies_of(model, container="pt2"):
    """{name: text}, the simplest first."""
    train = TRAIN if container == "onnx" and model.rare and model.rare.edit == "foreign" else ""

    def text(*directives, annotate="", schedule=""):
        listed = "directives:\n" + "".join(f"  - {{{d}}}\n" for d in directives) if directives else ""
        return f"piper: 1\nmodel: {{batch: {BATCH}{train}}}\n{annotate}{listed}{schedule}optimizer: {{sgd: {{lr: {LR}}}}}\n"

    def split(count):
        return f"op: split, num_microbatches: {count}"
    both = "op: replicate, filter: {}, devices: [0, 1]"
    shard = ("shard_optimizer", "shard_grads", "shard_params")[model.seed % 3]
    places = [f"op: shard, filter: {{}}, dim: {dim}, devices: [0, 1]" for dim in ("column", "sequence")[:1 + model.seed % 2]]
    found = {"whole": text(), "split 2": text(split(2)), "split 4": text(split(4)), "one sample a piece": text(split(8)),
             "replicas": text(split(2), both), "two places": text(split((2, 4, 8)[model.seed // 3 % 3]), *places),
             shard: text(*([split(2)] if model.seed % 2 else []), f"{both}, {shard}: true")}
    if stages := model.stages():
        family, microbatches = ("gpipe", "1f1b")[model.seed % 2], (2, 4, 8)[model.seed // 2 % 3]
        if model.seed % 5 == 2:
            family, microbatches = ("dualpipe", "zero_bubble")[model.seed % 2], (4, 8)[model.seed // 2 % 2]
        if model.seed % 5 == 4 and len(modules := model.modules()) > 3:
            at = sorted({1, 2, 3, modules.index(stages[1])})[-3:]
            stages, microbatches = (modules[0], *(modules[i] for i in at)), (4, 8)[model.seed // 2 % 2]
            family = ("interleaved_1f1b", "zb_v", "dualpipev")[model.seed // 5 % 3]
        found[f"{len(stages)} stages, {family}"] = text(annotate=f"annotate:\n  - {{tag: PP, starts: {json.dumps(stages)}}}\n",
                                                        schedule=f"schedule: {{family: {family}, microbatches: {microbatches}}}\n")
    return found


def made_of(seed, asked):
    return random_models.make(seed, list(random_models.RARE)[seed % len(random_models.RARE)] if asked == "all" else asked)


class Runner:
    def __init__(self, args):
        self.args, self.programs = args, Programs(args.bin, args.work)
        self.refusals, self.runs, self.failures, self.unfit = collections.Counter(), collections.Counter(), [], collections.Counter()

    def run(self, model, container, strategy, reference, refused):
        if not refused and TRAIN in strategy and (said := self.of_constants(container, strategy, reference)):
            return said
        end = refused or self.programs.run(container, strategy, reference)
        if end.kind == "refused" and end.text[:5] in MIXING - model.may_meet():
            return End(f"refused with {end.text[:5]} though no statement mixes samples", end.text)
        if end.kind == "refused" and self.must_train(model, strategy):
            return End("refused what must train", end.text)
        if end.kind != "refused" and container == "onnx" and model.rare and model.rare.refused:
            return End("trains what it cannot know", end.text)
        return end

    def must_train(self, model, strategy):
        """Modules are found by what exporters say of them, which other files do not."""
        asked = self.args.statement and model.rare and model.rare.trains
        whole = not any(word in strategy for word in ("split", "replicate", "shard", "schedule"))
        return bool(asked and (whole or not model.rare.mixes) and not (model.rare.foreign and "schedule" in strategy))

    def of_constants(self, container, strategy, reference):
        """A file that does not say what is trained: without our word single numbers are constants, and piperc names them. An End otherwise."""
        end = self.programs.trained(container, strategy.replace(TRAIN, ""), reference)
        if isinstance(end, End):
            return end if end.fails else None
        return None if re.search(r"\bc\d", self.programs.said) else End("a constant in silence", self.programs.said)

    def ends(self, model, containers=CONTAINERS, strategies=None):
        """{(container, strategy): End}, or why PyTorch is none to compare with."""
        found, reference = {}, Reference(subject_of(model, drop=0.0))
        if reference.unfit:
            return reference.unfit
        self.programs.save_data(reference.subject)
        for container in containers:
            refused = self.programs.exported(subject_of(model, container), container)
            for name, strategy in strategies_of(model, container).items():
                if name == "whole" and model.drops and not refused:
                    refused = reference.take(self.programs.trained(container, strategy, reference))
                if strategies is None or name in strategies:
                    found[container, name] = end = self.run(model, container, strategy, reference, refused)
                    if name == "whole" and end.kind == "refused":
                        refused = end    # what one device refuses, all do
        return found

    def check(self, seed):
        model = made_of(seed, self.args.statement)
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
    parser.add_argument("--statement", default="", choices=[*random_models.RARE, "all"], metavar="NAME", help="one of rare_statements.py that every model has; all: each in turn")
    parser.add_argument("--results", type=pathlib.Path, help="lines of JSON, a seed each; seeds in it are left out")
    parser.add_argument("--most-refused", type=float, default=100, help="percent of the runs that may be refused, 100 by default")
    parser.add_argument("--shrink-seconds", type=float, default=60)
    parser.add_argument("--print", action="store_true", help="the models' texts, and no run")
    args = parser.parse_args()
    compared_training.quiet()
    seeds = range(args.first, args.first + args.count)
    if args.print:
        print("\n".join(f"# seed {seed}\n{made_of(seed, args.statement).source()}" for seed in seeds))
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
