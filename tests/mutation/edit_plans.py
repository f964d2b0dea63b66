#!/usr/bin/env python3
"""Makes changes to compiled bundles that a person thought of (edits/), each of which would train to other numbers, and fails
where piper-plan verify does not refuse one, or for another reason than it should.

    edit_plans.py --bin BIN --work DIR [--only NAME,...]

Names are those of edits. Compositions are compositions/*.yaml and edits/compositions/*.yaml, each compiled once.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

from edits import (added_values, constants, counters, evaluation, exchanges, experts_of_pieces, experts_of_places, inputs, kept_tensors, loss_scale,
                   names, operands, predicates, programs, reports, roles, running_statistics, saved_blocks, scalars, sums)
from edits.bundle import Bundle, Edit, text_of

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 60  # that a proof may take; one of these takes 0.1
TOPICS = (added_values, operands, predicates, programs, roles, sums, saved_blocks, scalars, constants, counters, running_statistics,
          kept_tensors, reports, inputs, loss_scale, evaluation, names, exchanges, experts_of_places, experts_of_pieces)


def compile_composition(bin_folder: pathlib.Path, name: str, bundle: pathlib.Path):
    folder = HERE / "compositions"
    strategy = folder / f"{name}.yaml" if (folder / f"{name}.yaml").exists() else HERE / "edits" / "compositions" / f"{name}.yaml"
    model = re.match(r"# of (\S+)\n", strategy.read_text()).group(1)
    subprocess.run([bin_folder / "piperc", HERE.parents[1] / model, "--strategy", strategy, "-o", bundle], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def verify(bin_folder: pathlib.Path, bundle: pathlib.Path) -> tuple[int, str]:
    """Exit status and output; a status below 0 where it was ended."""
    try:
        done = subprocess.run([bin_folder / "piper-plan", "verify", bundle], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return -1, f"nothing within {SECONDS} seconds"
    return done.returncode, done.stdout


def fault_of_base(bin_folder: pathlib.Path, folder: pathlib.Path) -> str:
    """An edit says nothing where the bundle is refused without it, or is written otherwise than it was read."""
    status, said = verify(bin_folder, folder)
    if status != 0:
        return f"is refused as it was compiled: {said}"
    bundle = Bundle(folder)
    for part in bundle.parts:
        texts = {**part.texts(), "manifest.json": text_of(part.manifest)}
        for name, text in texts.items():
            if (part.folder / name).read_text() != text:
                return f"{name} is written otherwise than piperc writes it"
    return ""


def fault_of(edit: Edit, status: int, said: str) -> str:
    if edit.code == "":
        return "" if status in (0, 1) else f"exit status {status}"
    if status != 1:
        return f"exit status {status}, not refused"
    if f"[{edit.code}]" not in said:
        return f"not refused with {edit.code}"
    return "" if edit.phrase in said else f"does not say: {edit.phrase}"


def all_edits() -> list[Edit]:
    return [value for topic in TOPICS for value in vars(topic).values() if isinstance(value, Edit)]


def judge(bin_folder: pathlib.Path, edit: Edit, compiled: pathlib.Path, folder: pathlib.Path) -> str:
    """What is wrong with the answer of piper-plan verify to the edited bundle, which it leaves in `folder`; else ""."""
    shutil.copytree(compiled, folder)
    bundle = Bundle(folder)
    try:
        edit.change(bundle)
    except LookupError as error:
        return f"is no edit of this plan any more: {error}"
    bundle.save()
    status, said = verify(bin_folder, folder)
    fault = fault_of(edit, status, said)
    return f"{fault}; it says:\n  {said}" if fault else ""


def run(args: argparse.Namespace, edits: list[Edit]) -> int:
    """Compiles the compositions and judges the edits; gives the number of faults."""
    faults, plans = 0, args.work / "plans"
    for composition in sorted({edit.composition for edit in edits}):
        compile_composition(args.bin, composition, plans / composition)
        fault = fault_of_base(args.bin, plans / composition)
        if fault:
            faults += 1
            print(f"FAILED {composition}: {fault}")
    for edit in edits:
        fault = judge(args.bin, edit, plans / edit.composition, args.work / edit.name)
        if fault:
            faults += 1
            print(f"FAILED {edit.name} ({edit.composition}): {edit.change.__doc__}\n  {fault}")
        else:
            print(f"{edit.name} ({edit.composition}): {edit.code or 'no crash'}")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="", help="names of edits; default: all")
    args = parser.parse_args()
    edits = all_edits()
    if args.only:
        chosen = set(args.only.split(","))
        unknown = chosen - {edit.name for edit in edits}
        if unknown:
            parser.error(f"no edit is called {', '.join(sorted(unknown))}")
        edits = [edit for edit in edits if edit.name in chosen]
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    faults = run(args, edits)
    print(f"{len(edits)} edits, {faults} faults")
    if faults == 0:
        shutil.rmtree(args.work)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
