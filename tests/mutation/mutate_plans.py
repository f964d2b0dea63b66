#!/usr/bin/env python3
"""Compiles compositions/*.yaml, changes the bundles in thousands of ways (tools/mutate), and fails where a changed bundle
is accepted and trains to other numbers.

    mutate_plans.py --bin BIN --work DIR [--mutants N] [--seed S] [--jobs J] [--turns T] [--changes C] [--only NAME,...]
                    [--kind "KIND OF CHANGE"] [--evaluations]

With --evaluations the compositions evaluate at every step, and their evaluations are changed.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
EVALUATION = ("eval.data=held_out.safetensors", "eval.every=1", "eval.batches=2")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--mutants", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="threads that judge")
    parser.add_argument("--turns", type=int, default=1, help="how often an accepted mutant trains: a race shows by chance")
    parser.add_argument("--changes", type=int, default=1, help="a mutant that does no harm is changed again, so often in all")
    parser.add_argument("--only", default="", help="names of compositions; default: all")
    parser.add_argument("--kind", default="", help="one kind of change, as the table calls it; default: all")
    parser.add_argument("--evaluations", action="store_true")
    args = parser.parse_args()
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    chosen = args.only.split(",") if args.only else []
    bundles = []
    for strategy in sorted((HERE / "compositions").glob("*.yaml")):
        if chosen and strategy.stem not in chosen:
            continue
        model = re.match(r"# of (\S+)\n", strategy.read_text()).group(1)
        bundle = args.work / "plans" / strategy.stem
        evaluation = [word for key in EVALUATION for word in ("--set", key)] if args.evaluations else []
        subprocess.run([args.bin / "piperc", HERE.parents[1] / model, "--strategy", strategy, "-o", bundle, *evaluation],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        bundles.append(bundle)
    command = [args.bin / "piper-mutate", *bundles, "--work", args.work / "mutants"]
    for flag in ("mutants", "seed", "jobs", "turns", "changes"):
        command += [f"--{flag}", str(getattr(args, flag))]
    command += ["--kind", args.kind] if args.kind else []
    command += ["--evaluations"] if args.evaluations else []
    status = subprocess.run(command, check=False).returncode
    if status == 0:
        shutil.rmtree(args.work)
    return status


if __name__ == "__main__":
    sys.exit(main())
