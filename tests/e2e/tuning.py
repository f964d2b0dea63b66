#!/usr/bin/env python3
"""`piper-plan tune` as a user calls it: never worse, within the limit, and the same training.

  tuning.py --bin BIN --work DIR --strategies DIR [--only NAME]...

Every file in strategies/ is tuned for a machine of slow links, with the memory that it takes already: the result, compiled and
priced by the programs that did not tune it, is no slower and takes no more than the limit. A pipeline with experts gets back most of
what its communication costs, where links are not what takes longest. Weights after three steps are the same bits as those of the
strategy that was tuned, but where gradients are clipped and buckets changed. By the profile of a run (--profile) the start takes what
`piper-plan simulate --profile` says of that run, and ten times as long by a profile of ten times its times.
"""
import argparse
import collections
import json
import pathlib
import re
import sys

import harness
from strategies_train import model_of

MACHINE = """name: a slow machine for each rank
device: cpu
ranks_per_node: 1
flops: {{f32: 20.0e9}}
memory_bytes: 8.0e9
memory_bytes_per_second: 20.0e9
efficiency: {{product: 1, grouped_product: 1, attention: 1, memory: 1}}
kernel_us: 0
host_us: 0
inside_node: {{latency_us: {1}, bytes_per_second: {0}}}
between_nodes: {{latency_us: {1}, bytes_per_second: {0}}}
"""
EXPERTS = """piper: 1
model: {batch: 32}
annotate:
  - {tag: PP, starts: ["h.0", "h.2"]}
  - {tag: EP, modules: ["*.moe"]}
directives:
  - {op: replicate, filter: {PP: 0}, devices: [0, 1]}
  - {op: replicate, filter: {PP: 1}, devices: [2, 3]}
  - {op: shard, filter: {PP: 0, EP: "*"}, devices: [0, 1]}
  - {op: shard, filter: {PP: 1, EP: "*"}, devices: [2, 3]}
schedule: {family: 1f1b, microbatches: 8}
optimizer: {adamw: {lr: 3.0e-4}}
"""


def machine(bench, bytes_per_second, latency_us=10):
    path = bench.work / f"links_{bytes_per_second:.0e}.yaml"
    path.write_text(MACHINE.format(bytes_per_second, latency_us))
    return path


def compiled(bench, model, strategy):
    """The bundle of a strategy."""
    plans = bench.work / f"{strategy.stem}.plans"
    bench.call([bench.bin / "piperc", bench.exported(model), "--strategy", strategy, "-o", plans])
    return plans


def costs(bench, plans, target):
    """Step in microseconds, and the largest peak."""
    told = json.loads(bench.call([bench.bin / "piper-plan", "simulate", plans, "--target", target, "--json"]))
    return told["step_us"], max(rank["peak_bytes"] for rank in told["ranks"])


def tuned(bench, model, plans, strategy, target, *flags):
    """The tuned strategy's file, and what was said."""
    out = bench.work / f"{strategy.stem}.tuned.yaml"
    said = bench.call([bench.bin / "piper-plan", "tune", plans, "--model", bench.exported(model), "--strategy", strategy,
                       "--target", target, "-o", out, *flags])
    return out, said


def weights(bench, model, plans):
    """The bytes of a file with the weights after three steps."""
    out = plans.with_suffix(".safetensors")
    bench.call([bench.bin / "piper-run", plans, "--data", bench.work / f"{model}.safetensors", "--steps", 3, "--threads", 1,
                "--save", out])
    return out.read_bytes()


def never_worse(bench, strategy, target):
    """What is wrong with the tuned form of one file."""
    model = model_of(strategy)
    plans = compiled(bench, model, strategy)
    step, peak = costs(bench, plans, target)
    out, _ = tuned(bench, model, plans, strategy, target, "--memory-limit", peak, "--candidates", 120)
    after = compiled(bench, model, out)
    tuned_step, tuned_peak = costs(bench, after, target)
    print(f"{strategy.stem:28s} {step / 1000:8.3f} -> {tuned_step / 1000:8.3f} ms, {peak} -> {tuned_peak} bytes", flush=True)
    if tuned_step > step * (1 + 1e-9):
        return [f"{strategy.stem} became slower: {step} -> {tuned_step} us"]
    if tuned_peak > peak:
        return [f"{strategy.stem} needs more than the limit: {peak} -> {tuned_peak} bytes"]
    # The norm of all gradients is added up bucket by bucket.
    clips = json.loads((plans / "manifest.json").read_text())["clip_grad_norm"] and "tuned: bucket_size" in out.read_text()
    if not clips and weights(bench, model, plans) != weights(bench, model, after):
        return [f"{strategy.stem} trains to other bits"]
    return []


def hides_exchanges(bench):
    """1F1B with experts over slow links. What can be gained is what the step is longer than with links of no cost."""
    strategy = bench.work / "experts.yaml"
    strategy.write_text(EXPERTS)
    faults = []
    plans = compiled(bench, "moe_dense", strategy)
    free, _ = costs(bench, plans, machine(bench, 1e18, 0))
    for bytes_per_second, least in ((400e6, 0.95), (150e6, 0.75), (50e6, 0.45)):
        target = machine(bench, bytes_per_second)
        step, _ = costs(bench, plans, target)
        out, said = tuned(bench, "moe_dense", plans, strategy, target)
        tuned_step, _ = costs(bench, compiled(bench, "moe_dense", out), target)
        gained = (step - tuned_step) / (step - free)
        print(f"1f1b x experts at {bytes_per_second / 1e6:.0f} MB/s: {step / 1000:.3f} -> {tuned_step / 1000:.3f} ms, without "
              f"communication {free / 1000:.3f}: {100 * gained:.0f} % of the bound\n{said}", flush=True)
        if gained < least:
            faults.append(f"at {bytes_per_second} bytes/s only {gained} of the bound")
    # A strategy that was changed since is another one.
    strategy.write_text(EXPERTS.replace("3.0e-4", "1.0e-4"))
    try:
        tuned(bench, "moe_dense", plans, strategy, target)
        faults.append("a bundle of another strategy was tuned")
    except AssertionError as error:
        if "differs from what was compiled" not in str(error):
            faults.append(str(error))
    return faults


def text_of(rows):
    """A profile's text."""
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)


def evened(rows):
    """Every run of a program takes the mean of its runs, and what is neither run nor update takes nothing: `tune` has of a
    profile those means alone, and the longest path of uneven times is longer than one of their means."""
    runs = collections.defaultdict(list)
    for row in rows:
        if found := re.match(r"run (\S+) on", row["what"]):
            runs[found[1]].append(row)
        elif not row["what"].startswith("update"):
            row["cpu_us"] = 0
    for of_program in runs.values():
        mean = sum(row["cpu_us"] for row in of_program) / len(of_program)
        for row in of_program:
            row["cpu_us"] = round(mean, 3)


def by_profile(bench):
    """Links of no cost, so that all of a step is what was measured."""
    strategy = bench.work / "profiled.yaml"
    strategy.write_text(EXPERTS)
    plans, profile = compiled(bench, "moe_dense", strategy), bench.work / "profiled.jsonl"
    bench.call([bench.bin / "piper-run", plans, "--data", bench.work / "moe_dense.safetensors", "--steps", 12, "--threads", 1,
                "--profile", profile])
    target, rows = machine(bench, 1e18, 0), [json.loads(line) for line in profile.read_text().splitlines()]
    evened(rows)
    profile.write_text(text_of(rows))
    played = float(re.match(r"step: (\S+) us", bench.call([bench.bin / "piper-plan", "simulate", plans, "--profile", profile]))[1]) / 1e3
    steps, faults = [], []
    for factor in (1, 10):
        profile.write_text(text_of(row | {"cpu_us": row["cpu_us"] * factor} for row in rows))
        out, said = tuned(bench, "moe_dense", plans, strategy, target, "--profile", profile)
        steps.append([float(re.search(rf"^{what}: (?:.* with .*: )?(\S+) ms a step", said, re.M)[1]) for what in ("start", "tuned")])
        if f"start: {strategy} with " not in said:
            faults.append(f"the start is not named: {said}")
    print(f"1f1b x experts by its profile: {steps}, played {played:.2f} ms\n{said}", flush=True)
    if not 0.95 < steps[0][0] / played < 1.05:
        faults.append(f"by its profile a step takes {steps[0][0]} ms, but {played} ms as it was measured")
    if abs(steps[1][0] / steps[0][0] - 10) > 0.01 or abs(steps[1][1] / steps[0][1] - 10) > 0.01:
        faults.append(f"ten times the measured times are not ten times the step: {steps}")
    if any(after > before for before, after in steps):
        faults.append(f"tuned by its profile a step is longer: {steps}")
    found = re.search(r"(\d+) of its (\d+) distinct kernel calls have measured times", said)
    if not found or found[1] != found[2]:
        faults.append(f"not every call of the start was measured: {said}")
    profile.write_text(text_of(rows[:-1]))
    try:
        tuned(bench, "moe_dense", plans, strategy, target, "--profile", profile)
        faults.append("the profile of another plan was taken")
    except AssertionError as error:
        if "it is of another plan" not in str(error):
            faults.append(str(error))
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--strategies", required=True, type=pathlib.Path)
    parser.add_argument("--only", action="append", help="a file's name without .yaml")
    args = parser.parse_args()
    bench = harness.Bench(args.bin, args.work)
    target = machine(bench, 400e6)
    paths = [p for p in sorted(args.strategies.glob("*.yaml")) if not args.only or p.stem in args.only]
    faults = [fault for path in paths for fault in never_worse(bench, path, target)]
    if not args.only:
        faults += hides_exchanges(bench) + by_profile(bench)
    print(f"{len(paths)} strategies, {len(faults)} faults", *faults, sep="\n")
    sys.exit(1 if faults or not paths else 0)


if __name__ == "__main__":
    main()
