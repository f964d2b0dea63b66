#!/usr/bin/env python3
"""Mistakes planted in the compiler's passes, *.patch beside this file: the proof refuses what each of them makes, before a
plan is written.

  plant.py --check                       every patch still applies
  plant.py --work DIR [--only NAME,...]  applies each to a copy of the sources, builds piperc and compiles the patch's
                                         composition (beside it, or in tests/mutation/compositions): the proof has to refuse it

A patch begins with what is wrong, and with its composition; what `git apply` takes follows. A line "believed: WHY" between them: the
proof does not see this mistake yet; the day it does, the line has to go. A line "open: REASON": a plan is written, and piperc says that it
is not proved, for this reason.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUG, REFUTED = 70, re.compile(r"P063\d|rule \d+")


def apply(patch: pathlib.Path, folder: pathlib.Path, *flags: str) -> subprocess.CompletedProcess:
    # Inside of another repository `git apply` takes the paths for its own, and leaves out without a word what lies elsewhere.
    alone = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    return subprocess.run(["git", "apply", *flags, str(patch)], cwd=folder, env=alone, capture_output=True, text=True, check=False)


def check(patches: list[pathlib.Path]) -> int:
    failed = 0
    for patch in patches:
        done = apply(patch, ROOT, "--check")
        if done.returncode != 0:
            failed = 1
            print(f"{patch.name} no longer applies: plant its mistake anew\n{done.stderr}")
    print(f"{len(patches)} patches")
    return failed


def build(source: pathlib.Path, folder: pathlib.Path) -> str:
    """Builds piperc; what the compiler said where it failed."""
    if not (folder / "build.ninja").exists():
        subprocess.run(["cmake", "-S", source, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DPIPER_QUICK_BUILD=ON"],
                       check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run(["cmake", "--build", folder, "--target", "piperc"], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode != 0 else ""


def compile_with(piperc: pathlib.Path, composition: str, plans: pathlib.Path) -> subprocess.CompletedProcess:
    places = (HERE, ROOT / "tests/mutation/compositions")
    strategy = next(place / f"{composition}.yaml" for place in places if (place / f"{composition}.yaml").exists())
    model = re.match(r"# of (\S+)\n", strategy.read_text()).group(1)
    shutil.rmtree(plans, ignore_errors=True)
    return subprocess.run([piperc, ROOT / model, "--strategy", strategy, "-o", plans], capture_output=True, text=True, check=False,
                          cwd=plans.parent)


def plant(patches: list[pathlib.Path], work: pathlib.Path) -> int:
    source = work / "source"
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for file in files:
        (source / file).parent.mkdir(parents=True, exist_ok=True)
        # A file that differs gets today's date, so that a build folder of before is built anew where it has to be.
        if not (source / file).exists() or (source / file).read_bytes() != (ROOT / file).read_bytes():
            shutil.copy(ROOT / file, source / file)
    if (ROOT / ".venv").exists() and not (source / ".venv").exists():    # where cmake finds LibTorch
        (source / ".venv").symlink_to((ROOT / ".venv").resolve())
    failed = 0
    for patch in patches:
        composition = re.search(r"^composition: (\S+)$", patch.read_text(), re.M).group(1)
        left_open = re.search(r"^open: (.*)$", patch.read_text(), re.M)
        believed = re.search(r"^believed: (.*)$", patch.read_text(), re.M)
        planted = apply(patch, source)
        wrong = planted.stderr or build(source, work / "build")
        said, plans = "", work / "plans"
        if not wrong:
            done = compile_with(work / "build/bin/piperc", composition, plans)
            said = next((line for line in done.stderr.splitlines() if REFUTED.search(line)), "")
            if believed:
                said, wrong = f"not refused: {believed.group(1)}", "" if plans.exists() else "refused, though its patch says `believed`"
            elif left_open:
                notes = [line for line in done.stderr.splitlines() if "not proved" in line and left_open.group(1) in line]
                said, wrong = "".join(notes), "" if notes and plans.exists() else f"not left open: {done.stderr}"
            elif plans.exists():
                wrong = "a plan is written"
            elif done.returncode != BUG or not said:
                wrong = f"not refused by the proof, exit status {done.returncode}: {done.stderr}"
        apply(patch, source, "--reverse")
        failed |= bool(wrong)
        print(f"{patch.stem}, {composition}: {wrong or said.strip()}", flush=True)
    return int(failed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    patches = [patch for patch in sorted(HERE.glob("*.patch")) if not args.only or patch.stem in args.only.split(",")]
    return check(patches) if args.check else plant(patches, args.work.resolve())


if __name__ == "__main__":
    sys.exit(main())
