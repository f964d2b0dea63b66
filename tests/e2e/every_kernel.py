#!/usr/bin/env python3
"""Every kernel that plans may call is called by a plan that is proved: one that no compilation reaches is one that no test of the
whole trains, and no mutant of a plan changes.

  every_kernel.py --bin BIN --work DIR

Compiles the compositions of tests/mutation and a few models, reads the programs, and compares with schemas/plan/kernels.def.
"""
import argparse
import json
import pathlib
import re
import sys
import warnings

import aten_calls
import elementwise_rows
import harness
import shards_match_torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = (("cnn", "one", "sgd"), ("counted", "one", "lion"), ("llama", "one", "adamw"))


def compositions(bench):
    for strategy in sorted((ROOT / "tests/mutation/compositions").glob("*.yaml")):
        model = re.match(r"# of (\S+)\n", strategy.read_text()).group(1)
        plans = bench.work / f"{strategy.stem}.plans"
        bench.call([bench.bin / "piperc", ROOT / model, "--strategy", strategy, "-o", plans])
        yield strategy.stem, plans


def models(bench):
    names = [*aten_calls.CALLS, *aten_calls.LOSSES]
    _, exported = aten_calls.exported(bench, names)
    (bench.work / "calls.yaml").write_text(f"piper: 1\nmodel: {{batch: {harness.BATCH}}}\noptimizer: {{adam: {{lr: 0.001}}}}\n")
    bench.call([bench.bin / "piperc", exported, "--strategy", bench.work / "calls.yaml", "-o", bench.work / "calls.plans"])
    yield "calls", bench.work / "calls.plans"
    for model, composition, optimizer in MODELS:
        yield model, bench.compile(model, harness.strategy_text(model, composition, optimizer), model)
    experts = shards_match_torch.strategy_text(shards_match_torch.STRATEGIES["ep2"], "moe_gathered", "sgd")
    yield "experts", bench.compile("moe_gathered", experts, "moe_gathered")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    bench = harness.Bench(args.bin, args.work, "pt2")
    tables = "".join((ROOT / "schemas/plan" / file).read_text() for file in ("kernels.def", "optimizers.def"))
    kernels = set(re.findall(r'^PIPER_(?:KERNEL|OPTIMIZER)\(\w+, "(\w+)"', tables, re.M)) | {row.name for row in elementwise_rows.rows()}
    called, bundles = set(), 0
    for name, plans in (*compositions(bench), *models(bench)):
        found = {call["call"] for path in plans.glob("**/programs/*.json") for call in json.loads(path.read_text())["calls"]}
        print(f"{name}: {len(found - called)} kernels more", flush=True)
        called |= found
        bundles += 1
    print(f"{len(called & kernels)} of {len(kernels)} kernels are called by {bundles} bundles")
    for kernel in sorted(kernels - called):
        print(f"FAILED no plan calls {kernel}: compile something that does, or delete it")
    sys.exit(1 if kernels - called else 0)


if __name__ == "__main__":
    main()
