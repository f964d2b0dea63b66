#!/usr/bin/env python3
"""A plan says how many floating-point operations the model's products have in a step: as many as PyTorch counts, under any strategy.
piper-run says what part of a given peak that is.

  model_flops.py --bin BIN --work DIR [MODEL...]
"""
import argparse
import json
import math
import re
import subprocess
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from checks import check, faults
import harness
import zoo

COMPOSITIONS = ("one", "dp2_mb2", "pp2_1f1b", "pp2_dp2")
PEAK = 1e9


def counted_by_torch(model, frozen=()):
    """The operations of a step; attention is computed by its two products, of which a fused one would compute one again."""
    module, batch = zoo.build(model), zoo.draw(model, harness.BATCH)
    for name, parameter in module.named_parameters():
        if name in frozen:
            parameter.requires_grad_(False)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        module(**batch).backward()
    return counter.get_total_flops()


def flops_of(plans):
    return json.loads((plans / "manifest.json").read_text()).get("model_flops")


def in_plans(bench, model):
    wanted = counted_by_torch(model)
    for name in COMPOSITIONS:
        said = flops_of(bench.compile(model, harness.strategy_text(model, name, "sgd"), f"{model}-{name}"))
        check(f"{model} {name}: as many as PyTorch counts", said == wanted, f"{said} {wanted}")


def without_gradients(bench):
    """What nobody trains has no gradient; what is computed again counts once."""
    text = harness.strategy_text("gpt", "one", "sgd")
    whole = flops_of(bench.plans["gpt"])
    names = [name for name, _ in zoo.build("gpt").named_parameters()]
    frozen = [name for name in names if ".0." in name]
    pattern = re.match(r".*\.0\.", frozen[0])[0] + "*"
    said = flops_of(bench.compile("gpt", text.replace("model: {", f"model: {{freeze: ['{pattern}'], "), "frozen"))
    wanted = counted_by_torch("gpt", frozen)
    check("gpt with a block that is not trained: as many as PyTorch counts", said == wanted < whole, f"{said} {wanted} {whole}")


def while_training(bench):
    plans, log = bench.plans["gpt"], bench.work / "log.jsonl"
    command = [bench.bin / "piper-run", plans, "--data", bench.work / "gpt.safetensors", "--threads", 1, "--steps", 4, "--log", log]
    bench.call([*command, "--peak-flops", PEAK])
    rows = [row for row in map(json.loads, log.read_text().splitlines()) if "loss" in row]
    world = json.loads((plans / "manifest.json").read_text())["world_size"]
    check("the log has the share of the peak", len(rows) == 4 and all(
        math.isclose(row["mfu"], flops_of(plans) / (row["step_ms"] / 1e3 * world * PEAK), rel_tol=1e-4) for row in rows), rows)
    bench.call(command)
    check("without a peak it has none", "mfu" not in log.read_text())
    shown = bench.call([bench.bin / "piper-plan", "show", plans])
    check("piper-plan show tells them", f"{flops_of(plans):.4g} floating-point operations of the model a step" in shown, shown)
    done = subprocess.run([str(word) for word in [*command, "--peak-flops", -1]], capture_output=True, text=True)
    check("a peak below 0 is refused", done.returncode == 2 and "--peak-flops" in done.stderr, done.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("models", nargs="*", default=["gpt", "bert", "cnn", "detached"])
    args = parser.parse_args()
    torch.set_num_threads(1)
    bench = harness.Bench(args.bin, args.work)
    bench.plans = {"gpt": bench.compile("gpt", harness.strategy_text("gpt", "pp2_1f1b", "sgd"), "gpt")}
    for model in args.models:
        in_plans(bench, model)
    without_gradients(bench)
    while_training(bench)
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
