#!/usr/bin/env python3
"""reference.json is the model's step: whatever the strategy, it has the same bytes; plans are proved equal to it; and it trains.

  reference.py --bin BIN --work DIR --strategies DIR [MODEL...]

Of each of the tests' models: bundles of several compositions have one reference.json, whose digest their manifests name, and `piper-plan verify`
proves each equal to it: all gradients and the loss. The bundle of `--emit=reference` has one rank, the same
reference.json, is proved equal to it, and trains to the losses and gradients of PyTorch's own loop. All files in strategies/ give
the GPT one reference.json. With a precision there is a second file, the same without casts, to which verify holds the first. `--reference=none`
leaves it out, and verify says so.
"""
import argparse
import hashlib
import json
import pathlib
import sys

import harness
import strategies_train

COMPOSITIONS = ("one", "dp2_mb2", "pp2_1f1b", "pp2_dp2", "pp2_nested")


def reference_of(plans, name="reference.json"):
    """The bytes of reference.json, which the manifest must name."""
    text = (plans / name).read_bytes()
    files = {file["file"]: file["sha256"] for file in json.loads((plans / "manifest.json").read_text())["files"]}
    assert files[name] == hashlib.sha256(text).hexdigest(), plans
    return text


def equality(bench, plans):
    """What verify says of equality with the model."""
    text = bench.call([bench.bin / "piper-plan", "verify", plans])
    return text[text.index("equality with the model: "):]


def faults_of_model(bench, model):
    faults, texts = [], set()
    for name in COMPOSITIONS:
        plans = bench.compile(model, harness.strategy_text(model, name, "sgd"), f"{model}-{name}")
        texts.add(reference_of(plans))
        if not (said := equality(bench, plans)).startswith("equality with the model: proved: "):
            faults.append(f"{name}: {said}")
    if len(texts) > 1:
        faults.append("reference.json differs between strategies")
    plans = bench.compile(model, harness.strategy_text(model, "pp2_dp2", "sgd"), f"{model}-reference", "--emit=reference")
    if reference_of(plans) not in texts or json.loads((plans / "manifest.json").read_text())["world_size"] != 1:
        faults.append("--emit=reference makes another reference, or more than one rank")
    if not (said := equality(bench, plans)).startswith("equality with the model: proved: "):
        faults.append(f"--emit=reference: {said}")
    result = bench.run(plans, model, 1)
    losses, gradients, _ = harness.torch_training(model, "sgd")
    faults += harness.loss_faults(result.losses, losses, 1e-5) + harness.gradient_faults(result.gradients, gradients)
    return faults


def faults_of_precision(bench, model):
    faults, texts = [], set()
    for name in COMPOSITIONS:
        text = harness.strategy_text(model, name, "sgd") + "precision: {compute: bf16}\n"
        plans = bench.compile(model, text, f"{model}-{name}-bf16")
        texts.add((reference_of(plans), reference_of(plans, "reference.uncast.json")))
        said = equality(bench, plans)
        if not said.startswith("equality with the model: proved: ") or "as before `precision` inserted casts" not in said or "not held" in said:
            faults.append(f"{name} in bf16: {said}")
    if len(texts) > 1:
        faults.append("the references of bf16 differ between strategies")
    return faults


def faults_of_strategies(bench, folder):
    """The files that do not shard experts: these are for one model."""
    texts = {}
    for path in sorted(folder.glob("*.yaml")):
        if strategies_train.model_of(path) != "gpt":
            continue
        plans = bench.compile("gpt", path.read_text(), path.stem)
        texts.setdefault(reference_of(plans), []).append(path.name)
    return [] if len(texts) == 1 else [f"strategies give {len(texts)} references: {list(texts.values())}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["mlp"])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--strategies", type=pathlib.Path, required=True)
    args = parser.parse_args()
    bench = harness.Bench(args.bin.resolve(), args.work)
    faults = [f"{model}: {fault}" for model in args.models for fault in faults_of_model(bench, model) + faults_of_precision(bench, model)]
    faults += faults_of_strategies(bench, args.strategies)
    plans = bench.compile("mlp", harness.strategy_text("mlp", "one", "sgd"), "without", "--reference=none")
    if (plans / "reference.json").exists() or "not proved, the bundle has no reference" not in equality(bench, plans):
        faults.append("--reference=none leaves something behind")
    print("\n".join(faults) or f"{', '.join(args.models)}: one reference each, proved and trained")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
