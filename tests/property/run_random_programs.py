#!/usr/bin/env python3
"""Random programs: a diagnostic or a plan that the independent checker accepts, and a sample of the plans trained.

  run_random_programs.py --bin BIN --work DIR [--first SEED] [--count N] [--train N]

Every seed gives a program (random_programs.py). A coherent one must compile, its ranks must run what its `order`s say in
that order, and N of them train 4 steps as one device does: losses to 1e-5, gradients to 1e-5 of their norms. A damaged one
must compile or be refused with exit 1, a code and a place in the file. Anything else fails: another exit status, a signal, no
end within a minute. The text of a program that fails is kept as DIR/seed-N.json.
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import compositions  # noqa: E402
import harness  # noqa: E402
import random_programs  # noqa: E402

STEPS = 4
# What a coherent program may still meet: what groups of unequal sizes cannot exchange, and pieces of one sample, for which reshapes
# of the model fall away.
ALLOWED = {"P0510", "P0511"}
ONE_SAMPLE = "structure for 1 sample "
# Refusals that are about the program as a whole or about the model, and name what they mean in words.
PLACELESS = {"P0421", "P0512", "P0219", "P0228", "P0237", "P0238", "P0331", "P0333"}


def runs_of(plans, rank):
    """[(stage, microbatch, pass)] of a rank's computes, in issue order; neighbours of one kind count once."""
    found = []
    for line in (plans / "ranks" / f"rank-{rank:05}.json").read_text().splitlines():
        match = re.search(r'"run":"[^"]*","args":"(?:[^" ]*?)PP(\d+)[^" ]*\.(F|B|BI|BW) m(\d+)"', line)
        if match:
            node = int(match[1]), int(match[3]), match[2]
            if not found or found[-1] != node:
                found.append(node)
    return found


def order_faults(program, plans):
    """Where a rank does not run what the program's orders say."""
    faults = []
    for group, slots in program.orders.items():
        for rank in group:
            runs, last = runs_of(plans, rank), -1
            for slot in slots:
                places = [i for i, n in enumerate(runs) if n in slot or ((n[0], n[1], "B") in slot and n[2] in ("BI", "BW"))]
                if places and places[0] <= last:
                    faults.append(f"rank {rank}: {slot} does not stand behind the slot before it: {runs}")
                last = max([last] + places)
    return faults


class Runner:
    def __init__(self, args):
        self.bench, self.args = compositions.Matrix(args.bin, args.work, "pt2"), args
        self.codes, self.failed, self.trained, self.one = collections.Counter(), 0, 0, {}

    def fail(self, program, why):
        self.failed += 1
        (self.bench.work / f"seed-{program.seed}.json").write_text(json.dumps(program.text, indent=1))
        print(f"FAILED seed {program.seed} ({program.model}, {'coherent' if program.coherent else 'damaged'}): {why}", flush=True)

    def compile(self, program, name):
        model = self.bench.exported(program.model)
        strategy = self.bench.work / f"{name}.json"
        strategy.write_text(json.dumps(program.text, indent=1))
        return subprocess.run([str(c) for c in (self.bench.bin / "piperc", model, "--strategy", strategy, "-o", self.bench.work / f"{name}.plans",
                                                "--diagnostics=json")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)

    def check(self, seed):
        program = random_programs.make(seed)
        try:
            done = self.compile(program, "program")
        except subprocess.TimeoutExpired:
            return self.fail(program, "no end within a minute")
        if done.returncode == 1:
            return self.refused(program, done)
        if done.returncode:
            return self.fail(program, f"exit {done.returncode}: {(done.stderr + done.stdout)[-600:]}")
        self.codes["compiled, " + ("coherent" if program.coherent else "damaged")] += 1
        plans = self.bench.work / "program.plans"
        try:
            self.bench.call([self.bench.bin / "piper-plan", "verify", plans])
        except AssertionError as error:
            return self.fail(program, str(error))
        faults = order_faults(program, plans)
        if not faults and program.coherent and self.trained < self.args.train:
            self.trained += 1
            faults = self.train(program, plans)
        if faults:
            self.fail(program, faults[0])

    def refused(self, program, done):
        try:
            errors = [d for d in json.loads(done.stdout or done.stderr)["diagnostics"] if d["severity"] == "error"]
        except (ValueError, KeyError):
            return self.fail(program, f"no diagnostics: {done.stdout[-300:]}{done.stderr[-300:]}")
        self.codes.update(e["code"] for e in errors)
        if not errors or not all(e["message"] for e in errors):
            return self.fail(program, "refused without an error")
        for e in errors:
            if not re.fullmatch(r"P0[0-9]{3}", e["code"]) or ("line" not in e and e["code"] not in PLACELESS):
                return self.fail(program, f"an error without a code or a place: {e}")
        if program.coherent and not all(e["code"] in ALLOWED or (program.has_slots and e["code"] == "P0221")
                                        or (e["code"] == "P0512" and ONE_SAMPLE in e["message"]) for e in errors):
            return self.fail(program, f"refused: {errors[0]['code']} {errors[0]['message']}")

    def train(self, program, plans):
        """Against the same model and keys on one device."""
        keys = {k: program.text[k] for k in ("model", "optimizer", "clip_grad_norm", "lr_schedule") if k in program.text}
        known = program.model + json.dumps(keys, sort_keys=True)
        if known not in self.one:
            alone = self.bench.compile(program.model, json.dumps(keys), "alone")
            self.one[known] = self.bench.run(alone, program.model, 1, "local", STEPS)
        wanted = self.one[known]
        try:
            result = self.bench.run(plans, program.model, 0, "local", STEPS)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            return [str(error)]
        return harness.loss_faults(result.losses, wanted.losses, 1e-5) + harness.gradient_faults(result.gradients, wanted.gradients)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--train", type=int, default=20)
    parser.add_argument("--also", default="", help="further seeds, whose plans were refuted once, separated by commas")
    args = parser.parse_args()
    runner = Runner(args)
    for seed in [*range(args.first, args.first + args.count), *(int(s) for s in args.also.split(",") if s)]:
        runner.check(seed)
    for code, count in sorted(runner.codes.items()):
        print(f"{count:5} {code}")
    print(f"{args.count} programs, {runner.trained} of them trained, {runner.failed} failed")
    sys.exit(1 if runner.failed or not args.count else 0)


if __name__ == "__main__":
    main()
