#!/usr/bin/env python3
"""Ranks with parts of weights along one axis or another: what they write has the model's names, shapes and order.

  checkpoints_of_places.py --bin BIN --work DIR

Saved, exported and drawn weights and the checkpoints of ranks that share samples are those of one device, and one is read by the other.
"""
import argparse
import json
import sys

from safetensors import safe_open

import harness
from checkpoints import STEPS, Runs, bits, check_memory, pairs, step, whole_run
from checks import check, faults

MODEL = "llama"
UNEQUAL = "phi3"    # more queries than keys and values of one weight
FUSED = "gpt"    # queries, keys and values of one weight; a table of 97 rows that is embedding and head
MIXTURE = "moe_gathered"


def strategies(model):
    """Weights cut over ranks that share samples, also with what ZeRO makes of a part."""
    names = {"one": ("one", ""), "dp2": ("dp2", ""), "tp2": ("tp2", ""), "tp4": ("tp4", ""), "tp2_zero1": ("tp2_dp2", ", shard_optimizer: true"),
             "tp2_zero3": ("tp2_dp2", ", shard_params: true"), "pp2_tp2": ("pp2_tp2", "")}
    return {name: (harness.strategy_text(model, composition, "adamw").replace("bucket_size: 0.05", "bucket_size: 0.05" + more),
                   harness.world_size(composition)) for name, (composition, more) in names.items()}


def whatever_is_written(runs):
    """Names, shapes and order of saved, exported and drawn weights, and of checkpoints."""
    for name, (text, ranks) in strategies(runs.model).items():
        runs.compile(name, text, ranks)
    cut, one = {}, whole_run(runs, "one")
    for name in runs.plans:
        folder, log, weights = whole = whole_run(runs, name)
        check_memory(runs, name, whole)
        manifest = json.loads((step(folder, STEPS) / "MANIFEST.json").read_text())
        cut[name] = sum("cut" in tensor for tensor in manifest["tensors"])
        exported = folder.with_suffix(".exported")
        runs.bench.call([runs.bench.bin / "piper-plan", "checkpoint", "export", folder, "-o", exported])
        for what, file in (("saved weights", weights), ("exported weights", exported)):
            check(f"{name}: {what} are those of one device", not (wrong := unlike(file, one[2], 1e-3)), wrong)
        first = [(tensor["tensor"], tensor["kind"], tensor["dtype"], tensor["shape"], tensor["aliases"]) for tensor in manifest["tensors"]]
        of_one = json.loads((step(one[0], STEPS) / "MANIFEST.json").read_text())["tensors"]
        check(f"{name}: a checkpoint has the tensors of one device", first ==
              [(tensor["tensor"], tensor["kind"], tensor["dtype"], tensor["shape"], tensor["aliases"]) for tensor in of_one])
    check("parts along an inner axis are counted part by part", all((number > 0) == ("tp" in name) for name, number in cut.items()), cut)
    drawn = {name: runs.fresh(f"{name}-drawn").with_suffix(".drawn") for name in runs.plans}
    for name, file in drawn.items():
        runs.bench.call([runs.bench.bin / "piper-run", runs.plans[name], "--data", runs.bench.work / f"{runs.model}.safetensors", "--threads", "1",
                         "--init", "normal:0.02", "--steps", "1", "--save-gradients", file])
    for name in drawn:
        check(f"{name}: gradients of drawn weights are those of one device", not (wrong := unlike(drawn[name], drawn["one"], 1e-5)), wrong)


def unlike(a, b, tolerance):
    """The first tensor of two files that differs, by more than this share of its largest element or in its name."""
    with safe_open(a, "np") as x, safe_open(b, "np") as y:
        for name in sorted({*x.keys(), *y.keys()}):
            if name not in x.keys() or name not in y.keys():
                return f"{name} is in one alone"
            mine, theirs = x.get_tensor(name), y.get_tensor(name)
            if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
                return f"{name}: {mine.dtype} {mine.shape}, {theirs.dtype} {theirs.shape}"
            if mine.size and abs(mine - theirs).max() > tolerance * abs(theirs).max():
                return f"{name}: {abs(mine - theirs).max()} of {abs(theirs).max()}"
    return ""


def state_of_all_kinds(kinds):
    """Frozen parts, and masters that are ranges of a part beside copies of all of it."""
    for name, (text, ranks) in strategies(kinds.model).items():
        if name in ("one", "tp2_zero1", "tp2_zero3"):
            kinds.compile(f"bf16-{name}", text + "precision: {compute: bf16}\n", ranks)
    text, ranks = strategies(kinds.model)["tp2_zero1"]
    kinds.compile("frozen", text.replace(f"{{batch: {harness.BATCH}}}", f'{{batch: {harness.BATCH}, freeze: ["*.layers.0.*"]}}'), ranks)
    bits(kinds)
    # Sums of bf16 round otherwise in other parts: state alone is compared.
    pairs(kinds, [(a, b) for a in kinds.plans for b in kinds.plans if "frozen" not in (a, b)], tolerance=None)


def fused(runs, told):
    """A part of a fused weight is the same part of each segment; `told`: what the manifest of a checkpoint says of them."""
    for name in ("one", "tp2", "tp2_zero1"):
        runs.compile(name, *strategies(runs.model)[name])
    folder, _, weights = whole_run(runs, "tp2_zero1")
    cuts = [tensor["cut"] for tensor in json.loads((step(folder, STEPS) / "MANIFEST.json").read_text())["tensors"] if "cut" in tensor]
    check(f"fused, {runs.model}: parts of three segments", any(told.items() <= cut.items() for cut in cuts), cuts)
    check(f"fused, {runs.model}: saved weights are those of one device", not (wrong := unlike(weights, whole_run(runs, "one")[2], 1e-3)), wrong)
    pairs(runs)


def tables(runs):
    """Files have the model's rows of a table that the places cannot share equally."""
    for name, composition, more in (("one", "one", ""), ("tp2", "tp2", ""), ("vocab2", "vocab2", ""), ("vocab4", "vocab4", ""),
                                    ("vocab2_zero1", "vocab2_dp2", ", shard_optimizer: true"), ("vocab2_zero3", "vocab2_dp2", ", shard_params: true"),
                                    ("pp2_vocab2", "pp2_vocab2", "")):
        text = harness.strategy_text(runs.model, composition, "adamw").replace("bucket_size: 0.05", "bucket_size: 0.05" + more)
        runs.compile(name, text, harness.world_size(composition))
    as_one_device(runs, "tables")
    pairs(runs)


def mixtures(runs):
    """Columns of all experts, and of those that a rank has, which are a part of the part of its place; whole experts over all places."""
    experts = {"ep2_tp2": [[0, 2], [1, 3]], "etp2_zero3": [[0, 1], [2, 3]]}
    for name, composition, more in (("one", "one", ""), ("tp2", "tp2", ""), ("tp4_seq", "tp4_seq", ""), ("tp2_zero3", "tp2_dp2", ", shard_params: true"),
                                    ("ep2_tp2", "tp2_dp2", ", shard_optimizer: true"), ("etp2_zero3", "tp2_dp2", ", shard_params: true")):
        text = harness.strategy_text(runs.model, composition, "adamw").replace("bucket_size: 0.05", "bucket_size: 0.05" + more)
        if name in experts:
            text = text.replace("directives:\n", 'annotate:\n  - {tag: EP, modules: ["*.moe"]}\ndirectives:\n'
                                f'  - {{op: shard, filter: {{EP: "*"}}, devices: {experts[name]}}}\n'
                                + ("  - {op: shard, filter: {}, dim: sequence, over: [[0, 1], [2, 3]]}\n" if "etp" in name else ""))
        runs.compile(name, text, harness.world_size(composition))
    as_one_device(runs, "mixtures")
    pairs(runs)


def as_one_device(runs, what):
    one = whole_run(runs, "one")
    of_one = json.loads((step(one[0], STEPS) / "MANIFEST.json").read_text())["tensors"]
    for name in runs.plans:
        folder, _, weights = whole = whole_run(runs, name)
        check_memory(runs, name, whole)
        check(f"{what}, {name}: saved weights are those of one device", not (wrong := unlike(weights, one[2], 1e-3)), wrong)
        tensors = json.loads((step(folder, STEPS) / "MANIFEST.json").read_text())["tensors"]
        check(f"{what}, {name}: a checkpoint has the tensors of one device",
              [(t["tensor"], t["kind"], t["shape"]) for t in tensors] == [(t["tensor"], t["kind"], t["shape"]) for t in of_one])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    arguments = parser.parse_args()
    bench = harness.Bench(arguments.bin, arguments.work)
    runs = Runs(bench, MODEL)
    whatever_is_written(runs)
    pairs(runs)
    state_of_all_kinds(Runs(bench, MODEL))
    fused(Runs(bench, FUSED), {"segments": 3})
    fused(Runs(bench, UNEQUAL), {"extents": [64, 32, 32]})
    tables(Runs(bench, FUSED))
    mixtures(Runs(bench, MIXTURE))
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
