#!/usr/bin/env python3
"""What autograd sees and a tracer does not is exported right, or refused by name: checkpoints, regions without gradient, hooks,
functions with a backward of their own, state that forward changes.

  export_checks.py --bin BIN --work DIR [--only PART OF A NAME]

Each small model is exported as `.pt2` and as ONNX. "Right": piperc and piper-run train it for three steps to PyTorch's losses.
Else the exporter's ExportError, or piperc's error, has the words that are given. Exit status 0: all are as said.
"""
import argparse
import contextlib
import io
import json
import pathlib
import random
import re
import subprocess
import sys
import warnings

import numpy
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import harness
import piper_export
from checks import check, faults

STEPS, RATE = 3, 0.3
RIGHT = "right"
CASES = []


class Net(nn.Module):
    """Three layers, and a forward that a case writes."""

    def __init__(self, run, prepare=None):
        super().__init__()
        self.a, self.m, self.b = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.run = run
        if prepare:
            prepare(self)

    def forward(self, x, y):
        return self.run(self, x, y)


def case(name, expected=RIGHT, prepare=None, containers=("pt2", "onnx"), **options):
    """The decorated function is the forward; `expected`: RIGHT, or words of the refusal. One container where the other takes the
    same way to the answer."""
    def add(run):
        CASES.append((name, lambda: Net(run, prepare), expected, containers, options))
        return run
    return add


def hidden(s, x):
    return torch.tanh(s.a(x))


def ends(s, h, y):
    return F.mse_loss(s.b(h), y)


# ---------------------------------------------------------------- reentrant checkpoints
@case("checkpoint: a module")
def _(s, x, y):
    return ends(s, checkpoint(s.m, hidden(s, x), use_reentrant=True), y)


@case("checkpoint: a function of two tensors, one without gradient")
def _(s, x, y):
    return ends(s, checkpoint(lambda h, t: s.m(h) * t.sigmoid(), hidden(s, x), x, use_reentrant=True), y)


@case("checkpoint: one inside of another")
def _(s, x, y):
    return ends(s, checkpoint(lambda h: checkpoint(s.m, h, use_reentrant=True).tanh(), hidden(s, x), use_reentrant=True), y)


@case("checkpoint: two results, beside one that is not reentrant")
def _(s, x, y):
    one, two = checkpoint(lambda h: (s.m(h), h * 2), hidden(s, x), use_reentrant=True)
    return ends(s, checkpoint(torch.sin, one + two, use_reentrant=False), y)


@case("checkpoint: checkpoint_sequential")
def _(s, x, y):
    return ends(s, checkpoint_sequential(nn.Sequential(s.m, nn.Tanh(), s.m), 2, hidden(s, x), use_reentrant=True), y)


@case("checkpoint: no argument has a gradient", "'a.weight' has a gradient in it and none in the model.*reentrant checkpoint")
def _(s, x, y):
    return ends(s, s.m(checkpoint(s.a, x, use_reentrant=True)), y)


# ---------------------------------------------------------------- regions without gradient
@case("no gradient: set_grad_enabled by with")
def _(s, x, y):
    h = hidden(s, x)
    with torch.set_grad_enabled(False):
        t = s.m(h)
    return ends(s, h + t, y)


@case("no gradient: set_grad_enabled as a call")
def _(s, x, y):
    h = hidden(s, x)
    torch.set_grad_enabled(False)
    t = s.m(h)
    torch.set_grad_enabled(True)
    return ends(s, h + t, y)


@torch.set_grad_enabled(False)
def switched_off(s, h):
    return s.m(h)


@torch.inference_mode()
def inferred(s, h):
    return s.m(h)


@torch.no_grad()
def without(s, h):
    return s.m(h)


@case("no gradient: decorators of no_grad and set_grad_enabled")
def _(s, x, y):
    h = hidden(s, x)
    return ends(s, h + switched_off(s, h) + without(s, h).sin(), y)


@case("no gradient: inference_mode by with and as a decorator")
def _(s, x, y):
    h = hidden(s, x)
    with torch.inference_mode():
        t = s.m(h).tanh()
    return ends(s, h + t + inferred(s, h), y)


@case("no gradient: inference_mode that is off", containers=("pt2",))
def _(s, x, y):
    with torch.inference_mode(False):
        h = s.m(hidden(s, x))
    return ends(s, h, y)


@case("no gradient: enable_grad inside of no_grad, and a switch that is on")
def _(s, x, y):
    h = hidden(s, x)
    with torch.no_grad():
        with torch.enable_grad():
            t = s.m(h)
        u = s.m(h).sin()
    with torch.set_grad_enabled(s.training):
        return ends(s, h + t + u, y)


@case("no gradient: detach_")
def _(s, x, y):
    h = hidden(s, x)
    t = s.m(h)
    t.detach_()
    return ends(s, h + t, y)


@case("no gradient: detach_ of what was read before")
def _(s, x, y):
    h = hidden(s, x)
    t = s.m(h)
    u = t * 2
    t.detach_()
    return ends(s, h + t + u, y)


@case("no gradient: .data")
def _(s, x, y):
    h = hidden(s, x)
    return ends(s, h + s.m(h).data + s.m(h.data), y)


@case("no gradient: a straight-through estimate")
def _(s, x, y):
    h = hidden(s, x)
    return ends(s, s.m(h + (h.round() - h).detach()), y)


@case("no gradient: a write into a part of what has one", "P0313.*changes, without gradient|has no gradient in it")
def _(s, x, y):
    h = s.m(hidden(s, x))
    with torch.no_grad():
        h[:, 0] = 0
    return ends(s, h, y)


# ---------------------------------------------------------------- hooks
def tenth(gradient):
    return 0.1 * gradient


def clipped(gradient):
    return gradient.clamp(-1, 1)


@case("hook: of a tensor", r"export_checks.py, line \d+ registers the hook 'tenth' on a gradient")
def _(s, x, y):
    h = hidden(s, x)
    h.register_hook(tenth)
    return ends(s, h, y)


@case("hook: of several tensors", "registers the hook 'print' on gradients")
def _(s, x, y):
    h = hidden(s, x)
    torch.autograd.graph.register_multi_grad_hook((h, x), print)
    return ends(s, h, y)


for name, words, prepare in (
        ("of a parameter", "the parameter 'a.weight' has the backward hook 'tenth'", lambda s: s.a.weight.register_hook(tenth)),
        ("of a module", "the module 'm' has the backward hook '.*<lambda>'",
         lambda s: s.m.register_full_backward_hook(lambda _, inner, outer: (inner[0] * 2,))),
        ("of a module, before its backward", "the module 'm' has the backward hook",
         lambda s: s.m.register_full_backward_pre_hook(lambda _, outer: (outer[0] * 2,))),
        ("after a gradient was added", "the parameter 'b.bias' has the backward hook",
         lambda s: s.b.bias.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(2)))):
    case(f"hook: {name}", words, prepare)(lambda s, x, y: ends(s, s.m(hidden(s, x)), y))


@case("hook: of a grad_fn", "'a.(weight|bias)' has a gradient in it that differs by .*a hook on a grad_fn")
def _(s, x, y):
    h = hidden(s, x)
    if h.grad_fn is not None:
        h.grad_fn.register_hook(lambda inner, _: (inner[0] * 2,))
    return ends(s, h, y)


@case("hook: before the backward of a grad_fn, that clips what is large", "not in proportion to that of the loss.*a hook on a grad_fn")
def _(s, x, y):
    h = hidden(s, x)
    if h.grad_fn is not None:
        h.grad_fn.register_prehook(lambda outer: (clipped(outer[0]),))
    return ends(s, h, y)


def on_accumulation(s):
    s.kept = s.a.weight.expand_as(s.a.weight).grad_fn.next_functions[0][0]
    s.kept.register_prehook(lambda outer: (outer[0] * 2,))


@case("hook: before a gradient is added", "'a.weight' has a gradient in it that differs by", on_accumulation, containers=("pt2",))
def _(s, x, y):
    return ends(s, hidden(s, x), y)


@case("hook: of a grad_fn, after a weight that starts at 0", "'a.(weight|bias)' has a gradient in it that differs by",
      lambda s: nn.init.zeros_(s.m.weight), containers=("pt2",))
def _(s, x, y):
    h = hidden(s, x)
    if h.grad_fn is not None:
        h.grad_fn.register_hook(lambda inner, _: (inner[0] * 2,))
    return ends(s, x + s.m(h), y)


@case("hook: that only looks, allowed", prepare=lambda s: s.a.weight.register_hook(lambda g: None), allow_hooks=True, containers=("pt2",))
def _(s, x, y):
    h = hidden(s, x)
    if h.requires_grad:
        h.register_hook(lambda g: None)
    h.retain_grad()
    return ends(s, h, y)


@case("hook: that changes a gradient, allowed", "'a.weight' has a gradient in it that differs by .*'tenth'",
      lambda s: s.a.weight.register_hook(tenth), allow_hooks=True)
def _(s, x, y):
    return ends(s, hidden(s, x), y)


# ---------------------------------------------------------------- what else autograd sees
class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0] * gradient


@case("autograd: a function of one's own", "the model uses the torch.autograd.Function 'Reversed'")
def _(s, x, y):
    return ends(s, Reversed.apply(hidden(s, x)), y)


@case("autograd: a function whose backward is no derivative, allowed",
      "'a.(weight|bias)' has a gradient in it that differs by .*the torch.autograd.Function 'Reversed'", allow_custom_functions=True)
def _(s, x, y):
    return ends(s, Reversed.apply(hidden(s, x)), y)


@case("autograd: a function whose backward is the derivative, allowed", allow_custom_functions=True)
def _(s, x, y):
    return ends(s, Square.apply(hidden(s, x)), y)


@case("autograd: saved tensors that are changed", "has a gradient in it that differs by .*saved_tensors_hooks")
def _(s, x, y):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * 0.5):
        h = hidden(s, x)
    return ends(s, h, y)


@case("autograd: saved tensors that are packed", containers=("pt2",))
def _(s, x, y):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        h = hidden(s, x)
    return ends(s, h, y)


@case("autograd: a gradient penalty", "computes gradients inside of forward")
def _(s, x, y):
    h = hidden(s, x)
    return ends(s, h, y) + torch.autograd.grad(h.sum(), s.a.weight, create_graph=True)[0].square().mean()


@case("autograd: a backward inside of forward", "computes gradients inside of forward")
def _(s, x, y):
    h = hidden(s, x)
    h.mean().backward(retain_graph=True)
    return ends(s, h, y)


@case("autograd: requires_grad_ of an intermediate result", containers=("pt2",))
def _(s, x, y):
    return ends(s, s.m(hidden(s, x).detach().requires_grad_()), y)


# ---------------------------------------------------------------- state that forward changes
def with_buffer(value):
    return lambda s: s.register_buffer("kept", torch.as_tensor(value))


@case("state: a buffer that counts", r"P0314.* changes the buffer 'kept'", with_buffer(0.0))
def _(s, x, y):
    s.kept += 1
    return ends(s, hidden(s, x) / s.kept, y)


@case("state: a buffer that is replaced", "P0314.* changes the buffer 'kept'", with_buffer(torch.ones(4)))
def _(s, x, y):
    h = hidden(s, x)
    s.kept = 0.9 * s.kept + 0.1 * h.detach().mean(0)
    return ends(s, h * s.kept, y)


@case("state: a buffer that keeps a norm", "P0314.* changes the buffer 'kept'", with_buffer(torch.ones(4)))
def _(s, x, y):
    h = hidden(s, x) + s.kept
    s.kept.copy_(h.detach().norm(dim=0))
    return ends(s, h, y)


@case("state: a buffer that is changed through .data", "buffer 'kept'", with_buffer(torch.ones(4)))
def _(s, x, y):
    h = hidden(s, x) + s.kept
    s.kept.data.mul_(0.5)
    return ends(s, h, y)


@case("state: spectral_norm", "P0314|P0305.*aten.vdot", lambda s: nn.utils.parametrizations.spectral_norm(s.m))
def _(s, x, y):
    return ends(s, s.m(hidden(s, x)), y)


@case("state: running statistics", prepare=lambda s: setattr(s, "norm", nn.BatchNorm1d(4)))
def _(s, x, y):
    return ends(s, s.norm(hidden(s, x)), y)


@case("state: a buffer that is a part of a weight", "buffer 'kept' shares the memory of the parameter 'm.weight'",
      lambda s: s.register_buffer("kept", s.m.weight.detach()[0]))
def _(s, x, y):
    return ends(s, s.m(hidden(s, x)) * s.kept, y)


@case("state: a weight that forward clips", "forward changes the parameter 'm.weight'")
def _(s, x, y):
    s.m.weight.data.clamp_(-0.1, 0.1)
    return ends(s, s.m(hidden(s, x)), y)


@case("state: a counter in Python that the loss depends on", "depends on what the step before has left in count",
      lambda s: setattr(s, "count", 0), containers=("pt2",))
def _(s, x, y):
    s.count += 1
    return ends(s, hidden(s, x), y) / s.count


@case("state: a counter in Python that nothing reads", prepare=lambda s: setattr(s, "count", 0), containers=("pt2",))
def _(s, x, y):
    s.count += 1
    s.last = ends(s, hidden(s, x), y)
    return s.last


# ---------------------------------------------------------------- transformers
class Checkpointed(nn.Module):
    """A decoder of transformers that recomputes in backward, by its own switch."""

    def __init__(self):
        super().__init__()
        from transformers import LlamaConfig, LlamaForCausalLM
        self.net = LlamaForCausalLM(LlamaConfig(vocab_size=17, hidden_size=8, intermediate_size=16, num_hidden_layers=1,
                                                num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=8))
        with warnings.catch_warnings(action="ignore"):    # the switch has a new name besides
            self.net.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})

    def forward(self, input_ids, labels):
        return self.net(input_ids=input_ids, labels=labels).loss


CASES.append(("checkpoint: gradient_checkpointing_enable", Checkpointed, RIGHT, ("pt2",), {}))


def data_of(model, samples):
    draws = torch.Generator().manual_seed(0)
    if isinstance(model, Checkpointed):
        ids = torch.randint(0, 17, (samples, 6), generator=draws)
        return {"input_ids": ids, "labels": ids.clone()}
    return {"x": torch.randn(samples, 4, generator=draws), "y": torch.randn(samples, 3, generator=draws)}


def made(make):
    torch.manual_seed(1)
    return make()


def torch_losses(make):
    model = made(make).train()
    data, losses = data_of(model, STEPS * harness.BATCH), []
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(**{k: v[step * harness.BATCH:(step + 1) * harness.BATCH] for k, v in data.items()})
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def exported(make, path, **options):
    """What the exporter says on stderr, or its error."""
    said = io.StringIO()
    model = made(make)
    with contextlib.redirect_stderr(said):
        try:
            piper_export.export(model, {k: v[:harness.BATCH] for k, v in data_of(model, harness.BATCH).items()}, path, **options)
        except piper_export.ExportError as error:
            return str(error)
    return said.getvalue()


class Trial:
    def __init__(self, bin_dir, work):
        self.bin, self.work = pathlib.Path(bin_dir), pathlib.Path(work)
        self.work.mkdir(parents=True, exist_ok=True)
        (self.work / "s.yaml").write_text(f"piper: 1\nmodel: {{batch: {harness.BATCH}}}\noptimizer: {{sgd: {{lr: {RATE}}}}}\n")

    def trained(self, path, data):
        """Losses, or what piperc says where it refuses."""
        plans, log = self.work / "plans", self.work / "log.jsonl"
        done = subprocess.run([self.bin / "piperc", path, "--strategy", self.work / "s.yaml", "-o", plans], capture_output=True, text=True)
        if done.returncode:
            return done.stderr if done.returncode == 1 else f"piperc ends with {done.returncode}: {done.stderr}"
        save_file(data, self.work / "data.safetensors")
        done = subprocess.run([self.bin / "piper-run", plans, "--data", self.work / "data.safetensors", "--steps", str(STEPS), "--log", log,
                               "--threads", "1"], capture_output=True, text=True)
        if done.returncode:
            return f"piper-run ends with {done.returncode}: {done.stderr}"
        return [row["loss"] for row in map(json.loads, log.read_text().splitlines()) if "loss" in row]

    def try_case(self, name, make, expected, containers, options):
        for container in containers:
            path = self.work / f"model.{container}"
            path.unlink(missing_ok=True)
            said = exported(make, path, **options)
            what = f"{name} ({container}) is " + ("right" if expected == RIGHT else "refused by name")
            if not path.exists():
                check(what, expected != RIGHT and re.search(expected, said, re.S), said)
                continue
            got = self.trained(path, data_of(made(make), STEPS * harness.BATCH))
            if isinstance(got, str) or expected != RIGHT:
                check(what, isinstance(got, str) and expected != RIGHT and re.search(expected, got, re.S), f"{said}{got}")
                continue
            wrong = harness.loss_faults(got, torch_losses(make), 1e-5)
            check(what, not wrong and "not checked" not in said, f"{said}{wrong}")

    def state_is_kept(self):
        """A model with everything that an export could change."""
        def prepare(s):
            s.norm, s.count = nn.BatchNorm1d(4), 3
            s.norm.eval()
            s.m.weight.requires_grad_(False)

        def forward(s, x, y):
            s.count += 1
            s.seen = s.norm(F.dropout(hidden(s, x), 0.2))
            random.random(), numpy.random.rand()
            return ends(s, s.m(s.seen), y)

        for container in ("pt2", "onnx"):
            model = made(lambda: Net(forward, prepare))
            model.a.weight.grad = torch.full((4, 4), 2.0)
            gradient, keys = model.a.weight.grad, set(vars(model))
            before = {name: value.clone() for name, value in model.state_dict().items()}
            drawn = torch.get_rng_state(), random.getstate(), str(numpy.random.get_state())
            piper_export.export(model, data_of(model, 4), self.work / f"kept.{container}")
            check(f"weights and buffers are as before ({container})",
                  all(torch.equal(value, before[name]) for name, value in model.state_dict().items()))
            check(f"gradients are as before ({container})", model.a.weight.grad is gradient and bool((gradient == 2).all()) and
                  all(p.grad is None for p in model.parameters() if p is not model.a.weight))
            check(f"modes, attributes and marks of gradients are as before ({container})",
                  model.training and not model.norm.training and model.count == 3 and set(vars(model)) == keys and
                  [name for name, p in model.named_parameters() if not p.requires_grad] == ["m.weight"])
            check(f"random numbers are as before ({container})", torch.equal(torch.get_rng_state(), drawn[0]) and
                  (random.getstate(), str(numpy.random.get_state())) == drawn[1:])
            check(f"gradients are on, and classes are torch's own ({container})",
                  torch.is_grad_enabled() and all("piper_export" not in f.__module__ for f in (
                      torch.inference_mode.__enter__, torch.Tensor.register_hook, torch.autograd.grad, torch.autograd.Function.apply)))

    def not_checked(self):
        """Where nothing can be compared the exporter says so in a line, and writes the file."""
        path = self.work / "unchecked.pt2"

        def plain(s, x, y):
            return ends(s, hidden(s, x), y)

        def drawn(s, x, y):
            return ends(s, hidden(s, x), y) * random.random()

        def once(s, x, y):
            return ends(s, hidden(s, x), y) * (1.0 + 0.0 * random.random())

        def strict(s, x, y):
            if not torch.compiler.is_compiling():
                raise ValueError("labels are out of range")
            return ends(s, hidden(s, x), y)

        changing = dict(prepare=lambda s: s.a.weight.register_hook(tenth))
        for why, net, words, options in (
                ("two runs differ", lambda: Net(drawn), "not checked .*two runs of it on the same inputs differ\n$", {}),
                ("Python's random numbers are drawn", lambda: Net(once), "not checked .*draws random numbers of Python or numpy", {}),
                ("the model fails on the example", lambda: Net(strict), "not checked .*fails: ValueError: labels are out of range\n$", {}),
                ("it has no weights", lambda: Net(plain), "not checked .*written without weights\n$", {"weights": False}),
                ("that is asked for", lambda: Net(plain, **changing), "^$", {"allow_hooks": True, "check": False})):
            path.unlink(missing_ok=True)
            said = exported(net, path, **options)
            check(f"not checked where {why}", path.exists() and re.search(words, said) and said.count("\n") <= 1, said)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    torch.set_num_threads(1)
    trial = Trial(args.bin, args.work)
    for name, *rest in CASES:
        if args.only in name:
            trial.try_case(name, *rest)
    if not args.only:
        trial.state_is_kept()
        trial.not_checked()
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
