#!/usr/bin/env python3
"""What people and tests know of the passes is what the pipeline has.

  check_passes.py ROOT PIPER_OPT      PIPER_UPDATE_GENERATED=1 writes the list of docs/architecture.md anew

Between its markers docs/architecture.md holds what `piper-opt --list-passes` prints; every pass has a case in
tests/golden, a module in text form whose RUN-PASSES names it.
"""
import os
import pathlib
import re
import subprocess
import sys

BEGIN, END = "<!-- passes -->\n", "<!-- /passes -->"


def faults_of_page(page: pathlib.Path, listing: str) -> list[str]:
    text = page.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(END) < text.index(BEGIN):
        return [f"{page}: no list of passes between {BEGIN.strip()} and {END}"]
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    if text[begin:end] == listing:
        return []
    if "PIPER_UPDATE_GENERATED" in os.environ:
        page.write_text(text[:begin] + listing + text[end:])
        return []
    return [f"{page}: not what piper-opt --list-passes prints; set PIPER_UPDATE_GENERATED=1 for this test"]


def passes_of(case: pathlib.Path) -> set[str]:
    """Passes of the pipeline that a golden file runs; of a file that holds a graph alone they are others."""
    text = case.read_text()
    if re.search(r"^module {", text, re.MULTILINE) is None:
        return set()
    return {name.strip() for line in re.findall(r"^// RUN-PASSES:(.*)", text, re.MULTILINE) for name in line.split(",")}


def main():
    root, program = pathlib.Path(sys.argv[1]), sys.argv[2]
    listing = subprocess.run([program, "--list-passes"], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^- \*\*(\w+)\*\*", listing, re.MULTILINE)
    faults = faults_of_page(root / "docs" / "architecture.md", listing)
    tested = set().union(*(passes_of(case) for case in (root / "tests" / "golden").rglob("*.pir")))
    faults += [f"{name}: no file of tests/golden has it in its RUN-PASSES" for name in names if name not in tested]
    print("\n".join([*faults, f"{len(names)} passes, {len(faults)} faults"]))
    sys.exit(1 if faults or not names else 0)


if __name__ == "__main__":
    main()
