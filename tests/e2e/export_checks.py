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

import numpy
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

import export_cases
import exports
import harness
import piper_export
from checks import check, faults
from export_cases import CASES, RIGHT, Checkpointed, Net, ends, hidden, tenth, without

STEPS, RATE = 3, 0.3


def data_of(model, samples):
    draws = torch.Generator().manual_seed(0)
    if isinstance(model, Checkpointed):
        ids = torch.randint(0, 17, (samples, 6), generator=draws)
        return {"input_ids": ids, "labels": ids.clone()}
    return {"x": torch.randn(samples, 4, generator=draws), "y": torch.randn(samples, 3, generator=draws)}


def made(make):
    torch.manual_seed(1)
    return make()


def torch_losses(make, batch=harness.BATCH):
    model = made(make).train()
    data, losses = data_of(model, STEPS * batch), []
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(**{k: v[step * batch:(step + 1) * batch] for k, v in data.items()})
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
        (self.work / "one.yaml").write_text(f"piper: 1\nmodel: {{batch: 1}}\noptimizer: {{sgd: {{lr: {RATE}}}}}\n")
        self.said = ""

    def trained(self, path, data, strategy="s.yaml"):
        """Losses, or what piperc says where it refuses. What it says otherwise is in `said`."""
        plans, log = self.work / "plans", self.work / "log.jsonl"
        done = subprocess.run([self.bin / "piperc", path, "--strategy", self.work / strategy, "-o", plans], capture_output=True, text=True)
        self.said = done.stderr
        if done.returncode:
            return done.stderr if done.returncode == 1 else f"piperc ends with {done.returncode}: {done.stderr}"
        save_file(data, self.work / "data.safetensors")
        done = subprocess.run([self.bin / "piper-run", plans, "--data", self.work / "data.safetensors", "--steps", str(STEPS), "--log", log,
                               "--threads", "1"], capture_output=True, text=True)
        if done.returncode:
            return f"piper-run ends with {done.returncode}: {done.stderr}"
        return [row["loss"] for row in map(json.loads, log.read_text().splitlines()) if "loss" in row]

    def exported_once(self, name, container, module, write):
        """Where `write(path)` put the model of this case of a module, if it did, and what it returned. It is called once for the same
        sources, exporter and packages."""
        model = f"model.{container}"
        said = exports.exported_once(exports.shared_folder(self.bin), "said.txt", [piper_export, export_cases, module],
                                     {"case": name, "container": container}, lambda to: to.write_text(write(to.with_name(model))))
        return said.with_name(model), said.read_text()

    def try_case(self, name, make, expected, containers, options):
        for container in containers:
            path, said = self.exported_once(name, container, sys.modules[__name__], lambda to: exported(make, to, **options))
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
            s.m.register_forward_hook(lambda *_: None)
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
                  model.training and not model.norm.training and model.count == 3 and set(vars(model)) == keys and not model.m._forward_hooks and
                  [name for name, p in model.named_parameters() if not p.requires_grad] == ["m.weight"])
            check(f"random numbers are as before ({container})", torch.equal(torch.get_rng_state(), drawn[0]) and
                  (random.getstate(), str(numpy.random.get_state())) == drawn[1:])
            check(f"gradients are on, and classes are torch's own ({container})",
                  torch.is_grad_enabled() and all("piper_export" not in f.__module__ for f in (
                      torch.inference_mode.__enter__, torch.Tensor.register_hook, torch.autograd.grad, torch.autograd.Function.apply)))

    def in_16_bits(self):
        """Gradients that are 0 except for roundings are no sign of a hook; clipped ones are, however small they are."""
        path = self.work / "rounded.pt2"

        def run(s, x, y):
            h = torch.tanh(s.a(x.to(s.a.weight.dtype)))
            if s.clips and not torch.compiler.is_compiling():
                h.grad_fn.register_prehook(lambda outer: (outer[0].clamp(-s.clips, s.clips),))
            return F.cross_entropy(s.q(torch.tanh(h[..., None] * s.m.weight))[..., 0], y.argmax(1))    # q.bias has no effect

        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            for clips in (0, 1e-3, 1e4):
                def prepare(s, dtype=dtype, clips=clips):
                    s.q, s.clips = nn.Linear(4, 1), clips
                    s.to(dtype)
                path.unlink(missing_ok=True)
                said = exported(lambda: Net(run, prepare), path)
                binds = 0 < clips < 1
                check(f"a gradient that is 0 except for roundings ({dtype}, clipped at {clips})", path.exists() != binds and
                      re.search("'a.(weight|bias)' is not in proportion" if binds else "^$", said), said)

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
        trial.in_16_bits()
        trial.not_checked()
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
