#!/usr/bin/env python3
"""Schedules of the learning rate against PyTorch's own: 50 steps, and again stopped in the middle.

  lr_schedules.py --bin BIN --work DIR

Each rate of the log is that of the scheduler (LambdaLR, PolynomialLR, SequentialLR of LinearLR, ConstantLR, CosineAnnealingLR) to
the digits of the log, each loss PyTorch's to 1e-5; a run that stops after step 23 and goes on has the same losses to the bit. Step s of piper is
epoch s of PyTorch, whose epoch 0 no step of piper has.
"""
import json
import math
import sys

import torch
from safetensors.torch import save_file
from torch import nn
from torch.optim import lr_scheduler as torch_lr

from checks import check, faults
import harness

STEPS, BATCH, RATE, STOP = 50, 4, 0.05, 23


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x, y):
        return nn.functional.mse_loss(self.second(torch.tanh(self.first(x))), y)


def warm(warmup, behind):
    """A LambdaLR: step / warmup, then `behind`(steps since)."""
    return lambda rule: torch_lr.LambdaLR(rule, lambda step: step / warmup if step <= warmup else behind(step - warmup))


def down(start, length, to, left):
    """1 up to `start`, then by `left`(part done) to `to`."""
    return lambda step: 1.0 if step <= start else to + (1 - to) * left(min(1.0, (step - start) / length))


def in_turn(*parts):
    """A SequentialLR of (steps, scheduler of rule)."""
    def made(rule):
        ends = [sum(steps for steps, _ in parts[:i + 1]) for i in range(len(parts) - 1)]
        return torch_lr.SequentialLR(rule, [make(rule) for _, make in parts], milestones=ends)
    return made


CASES = {
    "wsd": ("{warmup: 5, wsd: {until: 45, decay: 15, to: 0.1}}", warm(5, down(25, 15, 0.1, lambda p: 1 - p))),
    "wsd_cosine": ("{warmup: 5, wsd: {until: 45, decay: 15, to: 0.1, shape: cosine}}",
                   warm(5, down(25, 15, 0.1, lambda p: (1 + math.cos(math.pi * p)) / 2))),
    "wsd_1_sqrt": ("{warmup: 5, wsd: {until: 45, decay: 15, shape: 1-sqrt}}", warm(5, down(25, 15, 0, lambda p: 1 - math.sqrt(p)))),
    "inverse_sqrt": ("{warmup: 8, inverse_sqrt: {}}", warm(8, lambda step: math.sqrt(8 / (8 + step)))),
    "inverse_sqrt_timescale": ("{inverse_sqrt: {timescale: 20}}", lambda rule: torch_lr.LambdaLR(rule, lambda s: math.sqrt(20 / (20 + s)))),
    "polynomial": ("{polynomial: {until: 40, power: 2}}", lambda rule: torch_lr.PolynomialLR(rule, total_iters=40, power=2)),
    "polynomial_warm": ("{warmup: 5, polynomial: {until: 45, to: 0.2, power: 0.5}}", warm(5, down(0, 40, 0.2, lambda p: math.sqrt(1 - p)))),
    "1_sqrt": ("{1-sqrt: {until: 60, to: 0.1}}", lambda rule: torch_lr.LambdaLR(rule, down(0, 60, 0.1, lambda p: 1 - math.sqrt(p)))),
    "cosine": ("{cosine: {until: 50, to: 0.1}}", lambda rule: torch_lr.CosineAnnealingLR(rule, 50, eta_min=0.1 * RATE)),
    "linear": ("{linear: {until: 40, to: 0.25}}", lambda rule: torch_lr.LinearLR(rule, 1, 0.25, 40)),
    "phases": ("""
  phases:
    - {steps: 10, linear: {from: 0.25, to: 1}}
    - {steps: 15, constant: 1}
    - {steps: 20, cosine: {to: 0.2}}
    - {constant: 0.2}""", in_turn((10, lambda rule: torch_lr.LinearLR(rule, 0.25, 1, 10)), (15, lambda rule: torch_lr.ConstantLR(rule, 1, 15)),
                                  (20, lambda rule: torch_lr.CosineAnnealingLR(rule, 20, eta_min=0.2 * RATE)),
                                  (5, lambda rule: torch_lr.ConstantLR(rule, 0.2, 1000)))),
}


def torch_training(data, scheduler):
    """Rates and losses of PyTorch's loop."""
    model = Model()
    rule = torch.optim.AdamW(model.parameters(), lr=RATE)
    schedule = scheduler(rule)
    rates, losses = [], []
    for step in range(STEPS):
        if step == 0:
            rule.step()     # it has no gradients yet; without one PyTorch warns of a scheduler before its optimizer
        schedule.step()
        rule.zero_grad(set_to_none=True)
        loss = model(**{name: value[step * BATCH:(step + 1) * BATCH] for name, value in data.items()})
        loss.backward()
        rates.append(rule.param_groups[0]["lr"])
        rule.step()
        losses.append(loss.item())
    return rates, losses


def main():
    bench = harness.bench_in_empty_folder(__doc__)
    work = bench.work
    torch.manual_seed(1)
    torch.set_num_threads(1)
    data = {"x": torch.randn(BATCH * STEPS, 4), "y": torch.randn(BATCH * STEPS, 2)}
    save_file(data, work / "data.safetensors")
    model = bench.export(Model(), {name: value[:BATCH] for name, value in data.items()}, "lr_schedules.pt2")

    def run(name, steps, *flags):
        log = work / f"{name}.jsonl"
        log.unlink(missing_ok=True)
        bench.call([bench.bin / "piper-run", work / name, "--data", work / "data.safetensors", "--steps", steps, "--threads", 1, "--log", log, *flags])
        rows = [row for row in map(json.loads, log.read_text().splitlines()) if "loss" in row]
        return [row["lr"] for row in rows], [row["loss"] for row in rows]

    for name, (text, scheduler) in CASES.items():
        (work / f"{name}.yaml").write_text(f"model: {{batch: {BATCH}}}\noptimizer: {{adamw: {{lr: {RATE}}}}}\nlr_schedule: {text}\n")
        bench.call([bench.bin / "piperc", model, "--strategy", work / f"{name}.yaml", "-o", work / name])
        rates, losses = torch_training(data, scheduler)
        got_rates, got_losses = run(name, STEPS)
        far = [(step, a, b) for step, (a, b) in enumerate(zip(got_rates, rates, strict=True), 1) if abs(a - b) > 1e-12 + 1e-6 * b]
        check(f"{name}: PyTorch's rates", not far, far[:3])
        wrong = harness.loss_faults(got_losses, losses, 1e-5)
        check(f"{name}: PyTorch's losses", not wrong, wrong)
        folder = work / f"{name}.checkpoints"
        first = run(name, STOP, "--checkpoint", folder)
        second = run(name, STEPS, "--checkpoint", folder, "--resume")
        check(f"{name}: stopped behind step {STOP}, the same to the bit", [a + b for a, b in zip(first, second)] == [got_rates, got_losses])
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
