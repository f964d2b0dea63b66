#!/usr/bin/env python3
"""The matrix: what a user may combine trains as one device does, and as PyTorch does.

  compositions.py --bin BIN --work DIR [--fast] [--only NAME,...] [--optimizers adamw,sgd] [--launch local|mpirun] [--container pt2|onnx]

For every row of compositions_table.py and both optimizers: piperc compiles, `piper-plan verify` accepts, and 10 steps give
the losses of the same model on one device to 1e-5 relative (1e-6 at the first step), and the gradients of the first step to
1e-5 of each one's norm (of 1e-4 of the typical norm where that is more). One device is held against PyTorch's own loop, same
tolerances; a model with a loss over the statistics of a piece against a loop over the same pieces. The smallest router margin
is printed: where a choice hung on rounding, a comparison would say nothing.
"""
import argparse
import dataclasses
import json
import math
import sys
import time

import torch

import compositions_table as table
import harness
import piper_export
import small_models

STEPS = 10


class Matrix(harness.Bench):
    def exported(self, model):
        def write(path):
            piper_export.export(small_models.build(model), small_models.draw(model, table.BATCH), path)
        if model not in self.drawn:
            from safetensors.torch import save_file
            save_file(small_models.draw(model, table.BATCH * STEPS), self.work / f"{model}.safetensors")
            self.drawn.add(model)
        return self.exported_once(f"{model}.{self.container}", [small_models], {"batch": table.BATCH}, write)

    def trained(self, row, optimizer, launch="local"):
        text = table.strategy(row, optimizer)
        plans = self.compile(row.model, json.dumps(text, indent=1), f"{row.name}-{optimizer}")
        self.call([self.bin / "piper-plan", "verify", plans])
        world = json.loads((plans / "manifest.json").read_text())["world_size"]
        return self.run(plans, row.model, world, launch, STEPS), world


def factor(keys, step):
    """The factor on the rate that lr_schedule of `keys` gives."""
    rule = keys.get("lr_schedule")
    if not rule:
        return 1.0
    warmup, until, to = rule["warmup"], rule["cosine"]["until"], rule["cosine"]["to"]
    if step <= warmup:
        return step / warmup
    return to if step >= until else to + (1 - to) * (1 + math.cos(math.pi * (step - warmup) / (until - warmup))) / 2


def backward(module, model, batch, pieces):
    """One step's loss and gradients; the statistics of a piece enter with weight 1 / pieces, its mean with its share of the labels."""
    if not small_models.MODELS[model].pieces:
        loss = module(**batch)
        loss.backward()
        return loss.item()
    total, size = 0.0, table.BATCH // pieces
    counted = (batch["labels"] != -1).sum()
    for i in range(pieces):
        part = {k: v[i * size:(i + 1) * size] for k, v in batch.items()}
        loss, _, balance = module.terms(**part)
        loss = loss * ((part["labels"] != -1).sum() / counted) + 0.01 * balance / pieces
        loss.backward()
        total += loss.item()
    return total


def torch_training(model, optimizer, keys, pieces):
    """Losses, gradients of step 1, smallest router margin."""
    torch.set_num_threads(1)
    module, data = small_models.build(model), small_models.draw(model, table.BATCH * STEPS)
    rule = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[optimizer](module.parameters(), foreach=False, **table.OPTIMIZERS[optimizer])
    base, losses, gradients = rule.param_groups[0]["lr"], [], {}
    for step in range(STEPS):
        for group in rule.param_groups:
            group["lr"] = base * factor(keys, step + 1)
        rule.zero_grad()
        losses.append(backward(module, model, {k: v[step * table.BATCH:(step + 1) * table.BATCH] for k, v in data.items()}, pieces))
        if step == 0:
            gradients = {n: p.grad.detach().clone() for n, p in module.named_parameters()}
        if keys.get("clip_grad_norm"):
            torch.nn.utils.clip_grad_norm_(module.parameters(), keys["clip_grad_norm"])
        rule.step()
    return losses, gradients, small_models.margin(module)


class References:
    """One device, held against PyTorch once for each model, optimizer, further keys and number of pieces."""

    def __init__(self, bench):
        self.bench, self.known, self.margin, self.failed = bench, {}, math.inf, 0

    def get(self, row, optimizer):
        pieces = row.pieces if small_models.MODELS[row.model].pieces else 1
        key = (row.model, optimizer, json.dumps(row.keys), pieces)
        if key not in self.known:
            losses, gradients, margin = torch_training(row.model, optimizer, row.keys, pieces)
            one = dataclasses.replace(table.Row("one", row.model), keys=row.keys, microbatches=pieces,
                                      name=f"one-{len(self.known)}-{row.model}")
            result, _ = self.bench.trained(one, optimizer)
            faults = harness.loss_faults(result.losses, losses, 1e-5) + harness.gradient_faults(result.gradients, gradients)
            self.margin, self.failed = min(self.margin, margin), self.failed + bool(faults)
            print(f"{'FAILED' if faults else 'ok    '} {row.model} on one device against PyTorch, {optimizer}, {pieces} pieces {row.keys or ''}: "
                  f"{worst(result.losses, losses):.1e}" + (f", router margin {margin:.1e}" if margin < math.inf else "")
                  + "".join(f"\n       {f}" for f in faults[:3]), flush=True)
            self.known[key] = result.losses, gradients
        return self.known[key]


def worst(losses, expected):
    return max((abs(a - b) / abs(b) for a, b in zip(losses, expected)), default=math.nan)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--fast", action="store_true", help="the rows marked so")
    parser.add_argument("--only", help="names of rows, by comma")
    parser.add_argument("--optimizers", default="adamw,sgd")
    parser.add_argument("--launch", choices=("local", "mpirun"), default="local")
    parser.add_argument("--container", choices=("onnx", "pt2"), default="pt2")
    args = parser.parse_args()
    bench = Matrix(args.bin, args.work, args.container)
    references, failed, count, begin = References(bench), 0, 0, time.monotonic()
    for row in table.ROWS.values():
        if (args.fast and not row.fast) or (args.only and row.name not in args.only.split(",")):
            continue
        for optimizer in args.optimizers.split(","):
            count += 1
            try:
                losses, gradients = references.get(row, optimizer)
                result, world = bench.trained(row, optimizer, args.launch)
            except AssertionError as error:
                failed += 1
                print(f"FAILED {row.name} {optimizer}: {error}", flush=True)
                continue
            faults = harness.loss_faults(result.losses, losses, 1e-5) + harness.gradient_faults(result.gradients, gradients)
            failed += bool(faults)
            print(f"{'FAILED' if faults else 'ok    '} {row.name:28} {row.model:8} {optimizer:6} {world} ranks, {worst(result.losses, losses):.1e}"
                  + "".join(f"\n       {f}" for f in faults[:3]), flush=True)
    print(f"{count - failed} of {count} train as one device does, {len(references.known) - references.failed} of {len(references.known)} "
          f"references as PyTorch; smallest router margin {references.margin:.1e}; {time.monotonic() - begin:.0f} s")
    sys.exit(1 if failed or references.failed or not count else 0)


if __name__ == "__main__":
    main()
