#!/usr/bin/env python3
"""Arenas hold little more than what is alive in them at one time: on every rank of the tests' strategies, for CPUs and for GPUs.

  arenas.py --bin BIN --work DIR [--sets strategies,families,matrix] [--table FILE] [--before BIN]

Sets:
  strategies  every file of strategies/ with its model
  families    every composition of harness.py with the tests' GPT
  matrix      every row of compositions_table.py, with SGD
The bytes alive at one time, in issue order and without alignment, are those that `piper-plan explain` prints. At most MOST_OFTEN of them
on a share of the ranks (OFTEN), at most MOST on all; a rank above LISTED is in KNOWN by name. --table writes a row for each rank. --before:
a folder with another piperc, whose arenas are printed next to these and may not be smaller.
"""
import argparse
import csv
import math
import json
import pathlib
import re
import statistics
import sys
import warnings

import compositions
import compositions_table
import harness
import strategies_train
from checks import check, faults

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEVICES = ("cpu", "cuda")
MOST_OFTEN, MOST, LISTED = 1.02, 1.16, 1.10
OFTEN = {("strategies", "families"): 0.95, ("matrix",): 0.85}    # the matrix has arenas of 100 KB, where alignment counts
# Pipelines of two ways on four ranks, with a hundred buffers alive at one time, which the effort of repair does not get closer.
KNOWN = {f"matrix {row} {device} rank {rank}" for row in ("two_way_four_grads", "two_way_groups_grads") for device in DEVICES for rank in range(4)}


def strategies(bench):
    for path in sorted((ROOT / "strategies").glob("*.yaml")):
        yield path.stem, bench.exported(strategies_train.model_of(path)), path


def written(bench, name, text):
    path = bench.work / f"{name}.yaml"
    path.write_text(text)
    return path


def families(bench):
    for name in harness.COMPOSITIONS:
        yield name, bench.exported("gpt"), written(bench, name, harness.strategy_text("gpt", name, "adamw"))


def matrix(bench):
    bench = compositions.Matrix(bench.bin, bench.work, "pt2")
    for row in compositions_table.ROWS.values():
        yield row.name, bench.exported(row.model), written(bench, row.name, json.dumps(compositions_table.strategy(row, "sgd")))


SETS = {"strategies": strategies, "families": families, "matrix": matrix}


def compiled(bench, piperc, model, strategy, device, tag):
    plans = bench.work / f"{tag}.plans"
    bench.call([piperc, model, "--strategy", strategy, "-o", plans, "--device", device, "--weights", "none"])
    return plans


def arenas(plans):
    """Bytes of each rank's arena."""
    return {rank: row["arena_bytes"] for rank, row in enumerate(json.loads((plans / "manifest.json").read_text())["ranks"])}


def explained(text):
    """(rank, bytes of the arena, of these alive at one time) for each rank that has one."""
    for part in re.split(r"^(?=rank \d+$)", text, flags=re.M)[1:]:
        told = re.search(r"arena: (\d+) bytes, \S+ of the (\d+) that are alive", part)
        if told:
            yield int(re.match(r"rank (\d+)", part)[1]), int(told[1]), int(told[2])


def quantile(values, share):
    """The least value that `share` of all do not exceed."""
    values = sorted(values)
    return values[math.ceil(share * len(values)) - 1]


def summary(ratios):
    above = {bound: sum(ratio > bound for ratio in ratios) for bound in (MOST_OFTEN, LISTED)}
    return (f"{len(ratios)} ranks, arena / live: median {statistics.median(ratios):.3f}, 90 % {quantile(ratios, 0.9):.3f}, "
            f"worst {max(ratios):.3f}, " + ", ".join(f"{n} above {bound}" for bound, n in above.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True)
    parser.add_argument("--sets", default="strategies,families")
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--before", type=pathlib.Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for chosen in args.sets.split(","):
        bench = harness.Bench(args.bin, pathlib.Path(args.work) / chosen)
        for name, model, strategy in SETS[chosen](bench):
            for device in DEVICES:
                tag = f"{name}.{device}"
                plans = compiled(bench, bench.bin / "piperc", model, strategy, device, tag)
                before = arenas(compiled(bench, args.before / "piperc", model, strategy, device, f"{tag}.before")) if args.before else {}
                for rank, arena, live in explained(bench.call([bench.bin / "piper-plan", "explain", plans])):
                    rows.append((f"{chosen} {name} {device} rank {rank}", arena, live, before.get(rank, "")))
    if args.table:
        with args.table.open("w", newline="") as file:
            csv.writer(file).writerows([("rank", "arena", "live", "before"), *rows])
    ratios = {name: arena / live for name, arena, live, _ in rows}
    for sets, share in OFTEN.items():
        of_sets = [ratio for name, ratio in ratios.items() if name.split()[0] in sets]
        if of_sets:
            text = f"{' and '.join(sets)}: {summary(of_sets)}"
            check(f"{text}; at most {MOST_OFTEN} on {share:.0%}", quantile(of_sets, share) <= MOST_OFTEN)
    check(f"at most {MOST} on all", max(ratios.values()) <= MOST, ", ".join(name for name, ratio in ratios.items() if ratio > MOST))
    unknown = [f"{name}: {ratio:.3f}" for name, ratio in ratios.items() if ratio > LISTED and name not in KNOWN]
    check(f"what is above {LISTED} is known by name", not unknown, ", ".join(unknown))
    if args.before:
        print("before: " + summary([before / live for _, _, live, before in rows]))
        larger = [f"{name}: {arena / live:.3f}, before {before / live:.3f}" for name, arena, live, before in rows if arena > before]
        check("no arena is larger than before", not larger, "; ".join(larger))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
