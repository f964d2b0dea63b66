#!/usr/bin/env python3
"""A step whose gradients overflow in f16 changes nothing on any rank.

  overflow_leaves_steps_out.py --bin BIN --work DIR

One sample of two steps is too large for f16; under replicas one rank alone has it. Compared: which steps
the log counts as skipped and the loss scale after each step, on every composition alike; and the final weights with PyTorch's
training in f32 without those steps, norm of the difference at most 2e-3 of the weight's.
"""
from __future__ import annotations

import argparse
import dataclasses
import json
import sys

import torch

import harness
import zoo
from precision_matches_autocast import COMPOSITIONS, strategy_text

STEPS, LARGE, TOLERANCE = 8, (3, 6), 2e-3
FACTOR = 1e6
MODEL = "mlp with large samples"


def draw(samples, generator):
    data = zoo.draw_vectors(samples, generator)
    data["x"][[i for i in (step * harness.BATCH - 1 for step in LARGE) if i < samples]] *= FACTOR
    return data


def torch_weights():
    module, data = zoo.build(MODEL), zoo.draw(MODEL, harness.BATCH * STEPS)
    rule = torch.optim.AdamW(module.parameters(), foreach=False, **harness.OPTIMIZERS["adamw"])
    for step in range(STEPS):
        if step + 1 in LARGE:
            continue
        rule.zero_grad()
        module(**{k: v[step * harness.BATCH:(step + 1) * harness.BATCH] for k, v in data.items()}).backward()
        rule.step()
    return {name: value.detach() for name, value in module.named_parameters()}


def faults(rows, weights, expected, scale, dynamic):
    skipped, scales = [row["skipped"] for row in rows], [row["loss_scale"] for row in rows]
    wanted = [sum(large <= step for large in LARGE) for step in range(1, STEPS + 1)]
    if skipped != wanted:
        yield f"skipped {skipped} instead of {wanted}"
    halved = [scale / 2 ** (sum(large <= step for large in LARGE) if dynamic else 0) for step in range(1, STEPS + 1)]
    if scales != halved:
        yield f"loss scales {scales} instead of {halved}"
    for name, value in expected.items():
        difference = (weights[name].float() - value).norm() / value.norm()
        if not difference <= TOLERANCE:
            yield f"{name} differs by {difference:.1e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    zoo.MODELS[MODEL] = dataclasses.replace(zoo.MODELS["mlp"], draw=draw, steps=STEPS)
    bench, expected = harness.Bench(args.bin, args.work), torch_weights()
    failed = total = 0
    for name in ("one", "mb2", "dp2", "zero1", "zero3", "pp2_dp2", "pp2_zero3", "clip"):
        for said, scale in (("dynamic", 65536.0), (1024, 1024.0)):
            c = COMPOSITIONS[name]
            text = strategy_text(MODEL, c, {"compute": "f16", "loss_scale": said}, "adamw")
            plans = bench.compile(MODEL, text.replace("clip_grad_norm: 0.5", "clip_grad_norm: 1000"), f"{name}-{said}")
            weights = bench.run(plans, MODEL, c.stages * c.replicas).weights
            rows = [json.loads(line) for line in plans.with_suffix(".local").joinpath("log.jsonl").read_text().splitlines()]
            found = list(faults([row for row in rows if "loss" in row], weights, expected, scale, said == "dynamic"))
            print(f"{name}, loss scale {said}: " + (f"FAILED {found[0]}" if found else "as without the large steps"), flush=True)
            failed += bool(found)
            total += 1
    print(f"{total - failed} of {total} left the steps out")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
