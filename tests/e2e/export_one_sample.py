#!/usr/bin/env python3
"""Steps of one sample: piperc warns (P0223) unless piper_export.py has seen that forward does with one sample what it does with several.

  export_one_sample.py --bin BIN --work DIR

A tracer decides `len(x) > 1` without a guard, whatever range is declared, so a file that torch alone wrote is never believed. Where
piperc does not warn, three steps of one sample train to PyTorch's losses. Exit status 0: all is as said.
"""
import argparse
import functools
import os
import re
import shutil
import subprocess
import sys
import warnings

import torch
import torch.nn.functional as F
from torch.export import Dim

import harness
import piper_export
import piper_export_tracing
from checks import check, faults
from export_cases import Net, ends, hidden
from export_checks import STEPS, Trial, data_of, exported, made, torch_losses

SAME, OTHER = {}, {}    # name -> forward


def case(kind):
    def add(forward):
        kind[forward.__name__] = forward
        return forward
    return add


@case(SAME)
def plain(s, x, y):
    return ends(s, hidden(s, x).reshape(x.shape[0] * 2, 2).view(x.shape[0], -1), y)


@case(SAME)
def expands_what_is_there(s, x, y):
    positions = torch.arange(4.0).unsqueeze(0)
    return ends(s, hidden(s, x + (positions.expand(x.shape[0], -1) if x.shape[0] != 1 else positions)), y)


@case(SAME)
def copies_what_lies_apart(s, x, y):
    return ends(s, F.pad(hidden(s, x), (0, 1))[..., :4].contiguous().view(-1, 4), y) / x.shape[0]


@case(SAME)
def counts_its_calls(s, x, y):
    s.calls = getattr(s, "calls", 0) + 1
    return ends(s, hidden(s, x), y) * float(s.calls) / float(s.calls)


@case(SAME)
def hooks_its_modules_once(s, x, y):
    s.seen = []
    if not s.__dict__.get("hooked"):
        s.hooked = True
        s.m.register_forward_hook(lambda _module, _inputs, out: s.seen.append(out))
    loss = ends(s, s.m(hidden(s, x)), y)
    return loss + 0.1 * sum(out.square().mean() for out in s.seen)


@case(SAME)
def draws_pythons_numbers(s, x, y):
    import random
    return ends(s, hidden(s, x), y) * (1.0 + 0.0 * random.random())


@case(OTHER)
def another_branch(s, x, y):
    return ends(s, hidden(s, x) if x.shape[0] > 1 else x, y)


@case(OTHER)
def another_constant(s, x, y):
    return ends(s, hidden(s, x), y) * (2.0 if x.shape[0] > 1 else 3.0)


@case(OTHER)
def another_tensor(s, x, y):
    return ends(s, hidden(s, x), y) * torch.tensor(2.0 if x.shape[0] > 1 else 3.0)


@case(OTHER)
def another_number_of_samples(s, x, y):
    return ends(s, hidden(s, x), y) * (x.shape[0] if x.shape[0] > 1 else 7)


@case(OTHER)
def another_parameter(s, x, y):
    return ends(s, (s.a if x.shape[0] > 1 else s.m)(x), y) + 0.0 * (s.a.weight.sum() + s.m.weight.sum())


@case(OTHER)
def another_value(s, x, y):
    h, g = torch.tanh(s.a(x)), torch.tanh(s.m(x))
    return ends(s, h if x.shape[0] > 1 else g, y) + 0.0 * (h - g).sum()


@case(OTHER)
def another_gradient(s, x, y):
    with torch.set_grad_enabled(bool(x.shape[0] == 1)):
        h = hidden(s, x)
    return ends(s, s.m(h), y)


@case(OTHER)
def another_type(s, x, y):
    return ends(s, hidden(s, x).to(torch.float32 if x.shape[0] > 1 else torch.bfloat16).float(), y)


@case(OTHER)
def another_copy(s, x, y):
    h = hidden(s, x).view(-1, 4)
    g = h.contiguous() if x.shape[0] > 1 else h.clone()
    g.mul_(2.0)
    return ends(s, h + g, y)


def doubles_one(s):
    """Its second layer does something else with one sample."""
    class Doubling(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x) * (1.0 if x.shape[0] > 1 else 2.0)
    s.m = Doubling(4, 4)


def with_second_layer(s, x, y):
    return ends(s, s.m(hidden(s, x)), y)


def another_rank(s, x, y):
    return F.mse_loss(s.b(hidden(s, x)).squeeze(0), y.squeeze(0))


def by_width(s, x, y):
    mean = x.mean(1, keepdim=True).expand(x.shape[0], 4)
    return ends(s, hidden(s, mean), y) * (2.0 if x.shape[1] > 1 else 3.0)


def by_hand(net, path, dim, **more):
    """As docs/models.md says it, with another declaration of the batch; `more`: of further axes, by the input's name. Returns ""."""
    model = made(net).train()
    inputs = data_of(model, harness.BATCH)
    shapes = {name: {0: dim, **more.get(name, {})} for name in inputs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if path.suffix == ".onnx":
            torch.onnx.export(model, (), kwargs=inputs, dynamo=True, verbose=False, opset_version=20, optimize=False,
                              dynamic_shapes=shapes).save(str(path))
        else:
            torch.export.save(torch.export.export(model, (), kwargs=inputs, dynamic_shapes=shapes), path)
    return ""


class OneSample(Trial):
    def step_of(self, net, path):
        """Whether piperc warns, and what is wrong with the losses."""
        got = self.trained(path, data_of(made(net), STEPS), "one.yaml")
        wrong = got if isinstance(got, str) else harness.loss_faults(got, torch_losses(net, 1), 1e-5)
        return "warning[P0223]" in self.said, wrong

    def checked(self, container):
        for kind in (SAME, OTHER):
            for name, forward in kind.items():
                def net(forward=forward):
                    return Net(forward)

                path, told = self.exported_once(name, container, sys.modules[__name__], functools.partial(exported, net))
                warned, wrong = self.step_of(net, path) if path.exists() else (None, "no file")
                if kind is SAME:
                    check(f"{name} is not warned of ({container})", warned is False and not wrong, f"{told}{self.said}{wrong}")
                else:
                    check(f"{name} is warned of ({container})", warned is True, f"{told}{self.said}{wrong}")
        path, told = self.exported_once("another_rank", container, sys.modules[__name__], lambda to: exported(lambda: Net(another_rank), to))
        self.step_of(lambda: Net(another_rank), path)
        check(f"another rank is refused ({container})", "P0306" in self.said, f"{told}{self.said}")

    def unchecked(self, container):
        for forward, word, dim in ((another_branch, "min_1", Dim("batch", min=1)), (another_branch, "no_min", Dim("batch")),
                                   (another_branch, "dynamic", Dim.DYNAMIC), (another_branch, "auto", Dim.AUTO),
                                   (plain, "min_1", Dim("batch", min=1))):
            def net(forward=forward):
                return Net(forward)

            name = f"{forward.__name__} by hand, {word},"
            path, _ = self.exported_once(name, container, sys.modules[__name__], functools.partial(by_hand, net, dim=dim))
            warned, wrong = self.step_of(net, path)
            check(f"{name} is warned of ({container})", warned and (wrong or forward is plain), f"{self.said}{wrong}")
            if word == "min_1":
                self.trained(path, data_of(made(net), STEPS * harness.BATCH))
                check(f"{name} is not warned of with several samples ({container})", "P0223" not in self.said, self.said)

    def other_axes(self):
        """An extent of 1 that is not the batch's: refused in what the exporter wrote, warned of elsewhere."""
        (self.work / "width.yaml").write_text("piper: 1\nmodel: {batch: 4, dims: {W: 1}}\noptimizer: {sgd: {lr: 0.3}}\n")
        for container in ("pt2", "onnx"):
            path = self.work / f"width.{container}"
            told = exported(lambda: Net(by_width), path, dynamic={"x": {1: "W"}})
            self.trained(path, data_of(Net(plain), 1), "width.yaml")
            check(f"an extent of 1 is refused ({container})", "error[P0302]" in self.said, f"{told}{self.said}")
        by_hand(lambda: Net(by_width), path, Dim("batch", min=1), x={1: Dim("W", min=1)})
        self.trained(path, {"x": torch.randn(12, 1), "y": torch.randn(12, 3)}, "width.yaml")
        check("an extent of 1 by hand is warned of", "warning[P0302]" in self.said and "error" not in self.said, self.said)

    def pieces(self):
        """Pieces of one sample compute like those of several, except what computes with the extent of the piece."""
        path, told = self.work / "pieces.pt2", {}
        for prepare in (None, doubles_one):
            exported(lambda prepare=prepare: Net(with_second_layer, prepare), path)
            for key in ("", 'per_microbatch: ["m"]\n'):
                (self.work / "pieces.yaml").write_text("piper: 1\nmodel: {batch: 2}\ndirectives: [{op: split, num_microbatches: 2}]\n"
                                                       f"{key}optimizer: {{sgd: {{lr: 0.3}}}}\n")
                self.trained(path, data_of(made(lambda: Net(plain)), STEPS * 2), "pieces.yaml")
                told[prepare, bool(key)] = self.said
        for (prepare, by_piece), said in told.items():
            check(f"warned of as said: pieces of one sample{', by their own extent,' if by_piece else ''} {'that do something else' if prepare else 'that do the same'}",
                  ("P0223" in said) == (prepare is not None and by_piece) and "error" not in said, said)

    def copied_alone(self):
        """piper_export.py without the file beside it checks nothing, and says nothing of one sample."""
        beside, piper_export_tracing.piper_export_one_sample = piper_export_tracing.piper_export_one_sample, None
        path = self.work / "alone.pt2"
        told = exported(lambda: Net(plain), path)
        piper_export_tracing.piper_export_one_sample = beside
        warned, wrong = self.step_of(lambda: Net(plain), path)
        check("an exporter without piper_export_one_sample.py is warned of", warned and not wrong, f"{told}{self.said}{wrong}")
        alone = self.work / "alone"
        alone.mkdir(exist_ok=True)
        shutil.copy(piper_export.__file__, alone)
        done = subprocess.run([sys.executable, "-P", alone / "piper_export.py", "--help"], capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
        check("an exporter without the files that it needs names one", done.returncode == 1 and re.search(
            r"piper_export.py needs piper_export_\w+.py next to it: copy all files piper_export\*.py", done.stderr), done.stdout + done.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    trial = OneSample(args.bin, args.work)
    for container in ("pt2", "onnx"):
        trial.checked(container)
        trial.unchecked(container)
    trial.other_axes()
    trial.pieces()
    trial.copied_alone()
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
