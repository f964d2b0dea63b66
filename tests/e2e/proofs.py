#!/usr/bin/env python3
"""How many sound bundles of the tests, and their evaluations, are proved equal to their model, and that none is refused.

  proofs.py --bin BIN --work DIR [--sets matrix,strategies,mutation,shards,capacity,zoo] [--fast]

Compiles bundles of these sets and asks `piper-plan verify` about each:
  matrix      every row of compositions_table.py, with both optimizers (--fast: with SGD, the rows that share experts, and the fast ones of places)
  strategies  every file of strategies/
  mutation    tests/mutation/compositions
  shards      every model and strategy of shards_match_torch.py (--fast: its experts by rows)
  capacity    every model and strategy of capacity_matches_torch.py (--fast: one model)
  zoo         every model of zoo.py in eight compositions of harness.py
  one_sample  the models of zoo.py without statistics of pieces, in pieces of one sample (--fast: llama)
Each evaluates, where its loss can be evaluated. Prints for each set how many are proved, proved in part and without a reference,
and why, of trainings and of evaluations; for those that share experts also by themselves. Exit status 0: none is refused, and of the
sets whose models are known to be covered, all but IN_PART are proved, and all evaluations. All sets take some four minutes of one
processor.
"""
import argparse
import collections
import json
import pathlib
import re
import sys
import warnings

import capacity_matches_torch
import compositions
import compositions_table
import harness
import shards_match_torch
import strategies_train
import zoo

ROOT = pathlib.Path(__file__).resolve().parents[2]
ZOO = ("one", "mb4", "dp2_mb2", "pp2_gpipe", "pp4_1f1b", "pp2_dp2", "pp4_zb_v", "pp2_dualpipe_dp2")
GROUPED = ("moe_gathered", "qwen3_moe", "mixtral")
# What is not proved of sets where everything else is: forwards of which some microbatches leave what others compute again; experts that return
# samples one by one.
COVERED = ("matrix", "strategies", "mutation", "shards", "capacity")
# Rows in the order of their experts, or with a capacity, of pieces of several sizes.
NO_REFERENCE = {"gathered_whole"} | {f"{model}-pp2_nested_ep2" for model in ("moe_capacity", *GROUPED)}
IN_PART = {"recompute_some_params", "recompute_some_two_way", "recompute_but_products", "places_seq_recompute_some",
           "moe_stacked-ep2x2_across", "moe_stacked-ep2x2_parameters", "moe_stacked-pp2_ep2_gpipe", "moe_stacked-pp2_ep2_zero_bubble"}
ONE_SAMPLE = ("llama", "qwen3", "gpt")


class Evaluating:
    """A bench whose bundles evaluate; except losses that are none of several batches (P0335)."""
    EVALUATION = ("--set", "eval.data=held_out.safetensors", "--set", "eval.every=1", "--set", "eval.batches=1")

    def call(self, command, cwd=None):
        if command[0].name != "piperc":
            return super().call(command, cwd)
        try:
            return super().call([*command, *self.EVALUATION], cwd)
        except AssertionError as error:
            if "P0335" not in str(error):
                raise
            return super().call(command, cwd)


class Bench(Evaluating, harness.Bench):
    pass


class Matrix(Evaluating, compositions.Matrix):
    pass


def matrix(bench, fast):
    bench = Matrix(bench.bin, bench.work / "matrix", "pt2")
    for row in compositions_table.ROWS.values():
        for optimizer in ("sgd",) if fast else ("adamw", "sgd"):
            if not fast or row.experts or (row.fast and row.places > 1):
                text = json.dumps(compositions_table.strategy(row, optimizer))
                yield row.name, bool(row.experts), lambda: bench.compile(row.model, text, f"{row.name}-{optimizer}")


def compiled(bench, model, strategy, tag):
    plans = bench.work / f"{tag}.plans"
    bench.call([bench.bin / "piperc", model, "--strategy", strategy, "-o", plans])
    return plans


def shares_experts(path):
    return re.search(r'op"?: "?shard\b', path.read_text()) is not None


def strategies(bench, fast):
    for path in sorted((ROOT / "strategies").glob("*.yaml")):
        yield path.stem, shares_experts(path), lambda: compiled(bench, bench.exported(strategies_train.model_of(path)), path, path.stem)


def mutation(bench, fast):
    for path in sorted((ROOT / "tests/mutation/compositions").glob("*.yaml")):
        model = re.match(r"# of (\S+)\n", path.read_text()).group(1)
        yield path.stem, shares_experts(path), lambda: compiled(bench, ROOT / model, path, path.stem)


def shards(bench, fast):
    for model in shards_match_torch.REGIONS:
        if fast and model not in GROUPED:
            continue
        for name, s in shards_match_torch.STRATEGIES.items():
            if (model, name) not in shards_match_torch.NOT_DIVIDED:
                yield f"{model}-{name}", True, lambda: bench.compile(model, shards_match_torch.strategy_text(s, model, "sgd"), f"{model}-{name}")


def capacity(bench, fast):
    for model, (factor, _) in capacity_matches_torch.MODELS.items():
        if fast and model != "moe_gathered":
            continue
        for name, s in capacity_matches_torch.STRATEGIES.items():
            text = shards_match_torch.strategy_text(s, model, "sgd")
            text = capacity_matches_torch.bounded(text, factor, "drop")
            yield f"{model}-{name}", True, lambda: bench.compile(model, text, f"{model}-{name}-capacity")


def of_zoo(bench, fast):
    for model in zoo.MODELS:
        for name in ZOO[:2] if fast else ZOO:
            if len(zoo.MODELS[model].quarters) == 0 and "pp" in name:
                continue
            yield f"{model}-{name}", False, lambda: bench.compile(model, harness.strategy_text(model, name, "sgd"), f"{model}-{name}")


def one_sample(bench, fast):
    text = f"piper: 1\nmodel: {{batch: {harness.BATCH}}}\ndirectives: [{{op: split, num_microbatches: {harness.BATCH}}}]\noptimizer: {{sgd: {{lr: 0.1}}}}\n"
    for model in ("llama",) if fast else zoo.MODELS:
        if not zoo.MODELS[model].per_microbatch:
            yield model, False, lambda: bench.compile(model, text, f"{model}-one-sample")


SETS = {"matrix": matrix, "strategies": strategies, "mutation": mutation, "shards": shards, "capacity": capacity, "zoo": of_zoo, "one_sample": one_sample}
NOT_COMPILED = "not compiled"


def verdicts(bench, make):
    """The word for a bundle, and why it is not proved, and both of its evaluation; one that is refused raises."""
    try:
        plans = make()
    except AssertionError as error:
        # piperc proves what it compiles: a refutation there is a bug of the proof or of piperc, all else the strategy's.
        if re.search(r"P06\d\d|bug in piperc", str(error)):
            raise
        return (NOT_COMPILED, re.findall(r"error\[?.*", str(error))[:1]), ("no evaluation", [])
    training, _, evaluation = bench.call([bench.bin / "piper-plan", "verify", plans]).partition("evaluation: ")
    return said(training), said(evaluation) if evaluation else ("no evaluation", [])


def said(text):
    word = re.search(r"equality with the model: (proved in part|proved|not proved)", text).group(1)
    return word, re.findall(r"not proved for \d+, as .*?: (.*)", text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--fast", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    faults, every, sharing = [], collections.Counter(), collections.Counter()
    for chosen in args.sets.split(","):
        bench = Bench(args.bin, pathlib.Path(args.work) / chosen)
        words, of_evaluations, reasons = collections.Counter(), collections.Counter(), collections.Counter()
        for name, shares, make in SETS[chosen](bench, args.fast):
            try:
                (word, why), (evaluated, why_not) = verdicts(bench, make)
            except AssertionError as error:
                word, why, evaluated, why_not = "REFUSED", [], "no evaluation", []
                faults.append(f"{chosen} {name}: {error}")
            if word in ("proved in part", "not proved") and chosen in COVERED and name not in (IN_PART if word == "proved in part" else NO_REFERENCE):
                faults.append(f"{chosen} {name}: {'; '.join(why)}")
            if word != "proved" and name in ONE_SAMPLE and chosen == "one_sample":
                faults.append(f"{chosen} {name}: {word}, {'; '.join(why)}")
            if evaluated in ("proved in part", "not proved") and chosen in COVERED and name not in NO_REFERENCE:
                faults.append(f"{chosen} {name}, its evaluation: {'; '.join(why_not)}")
            words[word] += 1
            of_evaluations[evaluated] += 1
            if word != NOT_COMPILED:
                every[word] += 1
                sharing[word] += shares
            for reason in why:
                reasons[f"{word}: {reason}"] += 1
            for reason in why_not:
                reasons[f"evaluation {evaluated}: {reason}"] += 1
        for title, counts in ((chosen, words), ("    evaluations", of_evaluations)):
            print(f"{title}: " + ", ".join(f"{n} {word}" for word, n in counts.most_common()), flush=True)
        for reason, n in reasons.most_common():
            print(f"    {n} {reason}", flush=True)
    for title, counts in (("all", every), ("of these share experts", sharing)):
        print(f"{title}: {sum(counts.values())} bundles, " + ", ".join(f"{n} {word}" for word, n in counts.most_common()))
    for fault in faults:
        print(f"FAILED {fault}")
    sys.exit(1 if faults or not every else 0)


if __name__ == "__main__":
    main()
