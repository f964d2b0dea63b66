#!/usr/bin/env python3
"""The two parts of a split backward do the work of the whole one: the same kernel calls on the same shapes, none twice.

  split_backward_work.py --bin BIN --work DIR

Every stage of three models is compiled with whole and with split backwards; calls are compared as multisets of kernel, shapes and
attributes. Where a sum is added into its accumulator differs: a gradient that one part keeps for the other is added there
(`add_into`) instead of by the kernel that makes it, so these calls are counted apart and bounded.
"""
import argparse
import collections
import json
import re
import sys

import harness


def calls(path):
    counted, added = collections.Counter(), 0
    for call in json.loads(path.read_text())["calls"]:
        if call["call"] == "add_into":
            added += 1
            continue
        shapes = [re.sub(r"^.*? (?=[a-z]+\d*\[)", "", operand) for operand in map(str, [*call["out"], *call["in"]])]
        shapes = [re.sub(r" strides.*$", "", shape) for shape in shapes]
        counted[call["call"], tuple(shapes), json.dumps(call.get("attrs"), sort_keys=True)] += 1
    return counted, added


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    args = parser.parse_args()
    bench = harness.Bench(args.bin, args.work)
    wrong = 0
    for model in ("gpt", "bert", "mlp"):
        whole, split = (bench.compile(model, harness.strategy_text(model, name, "adamw"), f"{model}-{name}") / "programs"
                        for name in ("pp4_1f1b", "pp4_zero_bubble"))
        backwards = sorted(whole.glob("*.B.*.json"))
        assert backwards, f"{model}: no backward"
        for program in backwards:
            one, added = calls(program)
            parts = collections.Counter()
            parts_added = weights = 0
            for part in ("BI", "BW"):
                path = split / program.name.replace(".B.", f".{part}.")
                if path.exists():
                    counted, more = calls(path)
                    parts += counted
                    parts_added += more
                    weights += part == "BW" and sum(counted.values())
            same = one == parts and (weights > 0 or sum(one.values()) < 2) and parts_added <= added + weights
            wrong += not same
            print(f"{'ok    ' if same else 'FAILED'} {model} {program.stem}: {sum(one.values())} calls, {sum(parts.values())} in two parts, "
                  f"{weights} of them for weights; {added} and {parts_added} sums", *(() if same else (one - parts, parts - one)))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
