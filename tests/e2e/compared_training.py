"""Trains many small models in one process, by piper and by PyTorch, and compares them: what random models and suites of others share.

Losses, gradients of the first step and weights after the last must be those of PyTorch in f64, as near as PyTorch's own f32 and
weights that are moved by a rounding come to them, and NaN at the same places. A refusal must have a code.
"""
from __future__ import annotations

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
import warnings
from collections.abc import Callable

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import piper_export  # noqa: E402
from forked_runs import forked_runs  # noqa: E402

# A rounding is some 6e-8 of a value; sums of few dozen values in another order lose ten times that.
OF_VALUE, OF_CHANGE, OF_ERROR = 2e-6, 2e-5, 30
UNBOUNDED, BENT = "numbers that grow without bound", "roundings change it"    # why a training is none to compare with


@dataclasses.dataclass(frozen=True)
class Subject:
    make: Callable[[], nn.Module]          # every time with the same weights; its forward returns the loss
    data: dict[str, torch.Tensor]          # of `steps` times `batch` samples
    example: dict[str, torch.Tensor]       # what it is exported with
    batch: int
    steps: int = 3
    lr: float = 0.05
    written: Callable[[], nn.Module] | None = None   # what is exported in its place
    checked: bool = True                   # by the exporter, against the module's own step
    edit: Callable[[pathlib.Path], None] | None = None   # of the file
    load: dict[str, torch.Tensor] | None = None          # what training begins with
    buffers: bool = False                  # those of the state dict are compared, too
    clip: float | None = None              # the largest norm of all gradients


@dataclasses.dataclass
class Trained:
    losses: list
    gradients: dict
    weights: dict
    norms: list = dataclasses.field(default_factory=list)   # of all gradients, each step, where they are clipped
    start: dict = dataclasses.field(default_factory=dict)
    buffers: set = dataclasses.field(default_factory=set)   # names of weights that are none


@dataclasses.dataclass(frozen=True)
class End:
    kind: str        # "right", "refused", "not compared", "left out" or how it fails
    text: str = ""   # the code, or what is wrong

    @property
    def fails(self):
        return self.kind not in ("right", "refused", "not compared", "left out")


def quiet():
    """For a process of many exports."""
    warnings.simplefilter("ignore")
    for name in ("torch.onnx", "torch.export", "torch.fx"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    torch.set_num_threads(1)


def trained_by_torch(subject, dtype, moved=None, trained=None):
    """moved: the seed of a rounding by which the weights are moved; trained: names of those that are, all by default."""
    module = subject.make().to(dtype)
    draws = torch.Generator().manual_seed(moved or 0)
    torch.set_default_dtype(dtype)
    try:
        for name, parameter in module.named_parameters() if moved is not None else ():
            rounding = 1 + 1e-7 * torch.randn(parameter.shape, generator=draws, dtype=dtype)
            if trained is None or name in trained:
                parameter.data *= rounding
        named = dict(module.named_parameters())
        if subject.load:
            module.load_state_dict(subject.load, strict=False)
        kept = named | {n: v for n, v in module.state_dict(keep_vars=True).items() if subject.buffers and n not in named and v.is_floating_point()}
        result = Trained([], {}, {}, start={name: p.detach().double().clone() for name, p in kept.items()})
        optimizer = torch.optim.SGD([p for p in named.values() if p.requires_grad] or [torch.zeros(1, requires_grad=True)], lr=subject.lr)
        for step in range(subject.steps):
            optimizer.zero_grad()
            batch = {k: v[step * subject.batch:(step + 1) * subject.batch].clone() for k, v in subject.data.items()}
            loss = module(**{k: v.to(dtype) if v.is_floating_point() else v for k, v in batch.items()})
            loss.backward()
            result.losses.append(loss.item())    # before the step, which changes a loss that is a parameter
            if step == 0:
                result.gradients = {n: p.grad.to_dense().double().clone() for n, p in named.items() if p.grad is not None}
            if subject.clip:
                result.norms.append(nn.utils.clip_grad_norm_(named.values(), subject.clip).item())
            optimizer.step()
        result.weights = {name: p.detach().double() for name, p in kept.items()}
        result.buffers = kept.keys() - named.keys()
        return result
    finally:
        torch.set_default_dtype(torch.float32)


class Draws(TorchDispatchMode):
    """Sees operators that draw random numbers, also where the model sets the generator back. Attention has the mark, but draws by others."""
    seen = False

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen |= torch.Tag.nondeterministic_seeded in function.tags and "attention" not in function.name()
        return function(*args, **(kwargs or {}))


def draws_random_numbers(subject):
    module = subject.make()
    with Draws() as draws:
        module(**{k: v.clone() for k, v in subject.example.items()})
    return draws.seen


def norm(tensor):
    return torch.linalg.vector_norm(tensor.double()).item()


def size(tensor):
    """Norm of what is finite: a weight of -inf may be trained, too, and a gradient may be NaN."""
    return norm(tensor.masked_fill(~tensor.isfinite(), 0))


def apart(mine, wanted):
    """Norm of the difference: NaN where one alone is NaN; the same infinity is none, nor are two NaN."""
    return norm((mine.double() - wanted.double()).masked_fill((mine == wanted) | (mine.isnan() & wanted.isnan()), 0))


class Reference:
    """A model's training in f64, and how far from it roundings lead. `unfit`: why it is none to compare with, or nothing."""

    def __init__(self, subject, drops=False):
        self.subject, self.unfit = subject, ""
        try:
            self.exact = trained_by_torch(subject, torch.float64)
            others = [trained_by_torch(subject, torch.float32)]
            others += [trained_by_torch(subject, torch.float64, moved, self.exact.gradients) for moved in (1, 2)]
        except Exception as error:  # whatever PyTorch says of the text
            self.unfit = f"PyTorch: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:150]}"
            return
        exact = self.exact
        if any(other.gradients.keys() != exact.gradients.keys() for other in others):
            self.unfit = "a parameter has a gradient in one run and none in another"
            return
        if not drops and draws_random_numbers(subject):
            self.unfit = "it draws random numbers"
            return
        self.losses = [max(abs(o.losses[i] - exact.losses[i]) for o in others) for i in range(subject.steps)]
        self.gradients = {n: max(apart(o.gradients[n], g) for o in others) for n, g in exact.gradients.items()}
        self.weights = {n: max(apart(o.weights[n], w) for o in others) for n, w in exact.weights.items() if n in exact.gradients or n in exact.buffers}
        self.largest = max(map(size, exact.gradients.values()), default=0.0)
        sizes = [*exact.losses, *self.losses, self.largest, *self.gradients.values(), *self.weights.values()]
        if not all(map(math.isfinite, sizes)) or max(map(abs, sizes)) > 1e4:
            self.unfit = UNBOUNDED
        elif any(error > 1e-3 * (1 + abs(value)) for error, value in zip(self.losses, exact.losses)) or any(
                error > 1e-3 * self.scale() for error in self.gradients.values()):
            self.unfit = BENT

    def scale(self):
        """The scale of gradients. Where all true ones are 0, those of f32 are roundings of the loss by its weights; f32 has none below its smallest number."""
        weights = max((w.abs().max().item() for n, w in self.exact.start.items() if n in self.exact.gradients and w.numel()), default=0.0)
        of_loss = abs(self.exact.losses[0]) / max(weights, 1.0)
        return max(self.largest, of_loss if self.largest <= 1e-5 * of_loss else 0.0, 1e3 * torch.finfo(torch.float32).tiny)

    def trains_nothing(self):
        return not self.unfit and self.largest == 0

    def take(self, got):
        """Dropout draws our own numbers: all strategies are compared with what one device gave. An End where it gave nothing."""
        if isinstance(got, End):
            return got
        exact = self.exact
        self.exact = dataclasses.replace(got, gradients={n: got.gradients[n].double() for n in exact.gradients},
                                         weights={n: got.weights[n].double() for n in exact.weights if n in got.weights},
                                         start=exact.start, buffers=exact.buffers)
        return None

    def faults(self, got):
        exact, faults, steps, lr = self.exact, [], self.subject.steps, self.subject.lr
        if len(got.losses) != steps:
            return [f"{len(got.losses)} losses"]
        for i, (mine, wanted, error) in enumerate(zip(got.losses, exact.losses, self.losses)):
            if not abs(mine - wanted) <= OF_VALUE * (abs(wanted) + 1) + OF_ERROR * error:
                faults.append(f"loss {i + 1} is {mine:.7g}, of PyTorch {wanted:.7g}")
        for i, (mine, wanted) in enumerate(zip(got.norms, exact.norms, strict=True)):
            if not abs(mine - wanted) <= OF_CHANGE * wanted:
                faults.append(f"norm {i + 1} of gradients is {mine:.7g}, of PyTorch {wanted:.7g}")
        for name, wanted in exact.gradients.items():
            mine = got.gradients.get(name)
            error = norm(wanted) if mine is None else apart(mine, wanted)
            if not error <= OF_CHANGE * size(wanted) + OF_VALUE * self.largest + OF_ERROR * self.gradients[name]:
                faults.append(f"the gradient of {name} differs by {error:.3g}, its norm is {size(wanted):.3g}")
        for name, error in self.weights.items():
            wanted, mine = exact.weights[name], got.weights.get(name)
            if mine is None and wanted.numel():
                faults.append(f"no weight {name}")
            elif wanted.numel() and not (differs := apart(mine, wanted)) <= (
                    OF_VALUE * (size(wanted) / 4 + steps * lr * self.largest) + OF_CHANGE * (changed := size(wanted - exact.start[name])) + OF_ERROR * error):
                faults.append(f"the weight {name} differs by {differs:.3g}, it changed by {changed:.3g}")
        return faults


class Programs:
    """The exporter, piperc and piper-run, in one folder."""

    def __init__(self, programs, work):
        self.bin, self.work = programs.resolve(), work.resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.said = ""    # by piperc, at last

    def called(self, *command):
        """Exit status and what is printed."""
        words = [str(c) for c in command]
        if words[0] == str(self.bin / "piper-run") and (forks := forked_runs(self.bin / "piper-run")):
            return forks.call(words, os.getcwd(), 120)
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, cwd=self.work)
        return done.returncode, done.stdout

    def exported(self, subject, container):
        """An End where it is not."""
        path = self.work / f"model.{container}"
        path.unlink(missing_ok=True)
        example = {k: v.clone() for k, v in subject.example.items()}
        try:
            module = (subject.written or subject.make)()
        except Exception as error:
            return End("left out", f"{type(error).__name__}: {str(error)[:150]}")
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            try:
                piper_export.export(module, example, path, check=subject.checked)
                if subject.edit:
                    subject.edit(path)
            except piper_export.ExportError as error:
                return End("refused", f"ExportError, {str(error).splitlines()[0][:100]}")
            except Exception as error:  # what a tracer refuses
                return End("refused" if type(error).__module__.startswith("torch.") else "exporter ends",
                           f"{type(error).__name__}, {(str(error).splitlines() or [''])[0][:150]}")
        return None

    def save_data(self, subject):
        save_file({k: v.contiguous() for k, v in subject.data.items()}, self.work / "data.safetensors")
        if subject.load:
            save_file({k: v.contiguous() for k, v in subject.load.items()}, self.work / "load.safetensors")

    def run(self, container, strategy, reference):
        """One compilation and training of the exported model, on the saved data. Nothing is compared with an unfit reference."""
        got = self.trained(container, strategy, reference)
        if isinstance(got, End):
            return got
        faults = reference.faults(got)
        return End("wrong", "; ".join(faults[:4])) if faults else End("right")

    def trained(self, container, strategy, reference):
        """What training gave, or its End."""
        (self.work / "s.yaml").write_text(strategy)
        load = ["--load", self.work / "load.safetensors"] if reference.subject.load else []
        try:
            code, text = self.called(self.bin / "piperc", self.work / f"model.{container}", "--strategy", self.work / "s.yaml", "-o", self.work / "plans")
            if code == 1 and (found := re.search(r"error\[(P\d{4})\]", text)):
                return End("refused", text[found.start() + 6:found.start() + 300])
            if code:
                return End(f"piperc exits with {code}", text[-1500:])
            self.said = text
            code, text = self.called(self.bin / "piper-run", self.work / "plans", "--data", self.work / "data.safetensors", "--steps", reference.subject.steps,
                                     "--threads", 1, "--log", self.work / "log.jsonl", "--save", self.work / "weights.safetensors",
                                     "--save-gradients", self.work / "gradients.safetensors", *load)
        except subprocess.TimeoutExpired:
            return End("no end within two minutes")
        if reference.unfit and (code == 0 or "error[R0801]" in text):    # a number that is none, as in PyTorch
            return End("not compared", reference.unfit)
        if code:
            return End(f"piper-run exits with {code}", text[-1500:])
        rows = [json.loads(line) for line in (self.work / "log.jsonl").read_text().splitlines()]
        steps = [row for row in rows if "loss" in row]
        return Trained([row["loss"] for row in steps], load_file(self.work / "gradients.safetensors"), load_file(self.work / "weights.safetensors"),
                       [row["grad_norm"] for row in steps] if reference.subject.clip else [])
