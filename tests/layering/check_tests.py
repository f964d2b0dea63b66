#!/usr/bin/env python3
"""Every test is run: no source, script or golden folder of tests/ is left out of the build files, and each group has a budget.

  check_tests.py ROOT
"""
import pathlib
import re
import sys

# Not tests and not part of one: started by hand, or by a script that says so in its usage.
BY_HAND = {"tests/e2e/router_margins.py", "tests/gpu/starts_in_root.py", "tests/fuzz/make_onnx_corpus.py", "tests/fuzz/make_text_corpus.py", "tests/models/make_models.py"}
# "import a, b", "from a import b", "from a import (b, c)" over several lines.
IMPORT = re.compile(r"^\s*(?:import|from)\s+((?:[\w., ]|\([^)]*\))+)", re.MULTILINE)


def main() -> int:
    root = pathlib.Path(sys.argv[1]).resolve()
    tests = root / "tests"
    builds = sorted([*tests.rglob("CMakeLists.txt"), *tests.rglob("*.cmake")])
    text = "\n".join(re.sub(r"^\s*#.*$", "", file.read_text(), flags=re.MULTILINE) for file in builds)
    layering = re.search(r"foreach\(check ([\w ]+)\)", text)
    named = set(re.findall(r"[\w./-]+\.(?:cc|py|sh)\b", text)) | {f"check_{word}.py" for word in layering.group(1).split()}
    # "${part}_test.cc" of a foreach, and a script that another one imports.
    named |= {f"{part}{end}" for parts in re.findall(r"foreach\(\w+ ([\w ]+)\)", text) for part in parts.split() for end in ("_test.cc", "_main.cc")}
    scripts = [file for file in sorted(tests.rglob("*.py")) if "__pycache__" not in file.parts]
    imported = {word for file in scripts for words in IMPORT.findall(file.read_text()) for word in re.findall(r"\w+", words)}
    names = {name.rsplit("/", 1)[-1] for name in named}
    faults = []
    for file in [*sorted(tests.rglob("*.cc")), *scripts]:
        path = file.relative_to(root).as_posix()
        if file.name not in names and path not in BY_HAND and not (file.suffix == ".py" and file.stem in imported):
            faults.append(f"{path}: no build file of tests/ names it, so nothing runs it")
    budget = {line.split()[0] for line in (tests / "budget.txt").read_text().splitlines() if line and not line.startswith("#")}
    groups = set(re.findall(r"(?:\bGROUP |set\(piper_test_group )(\w[\w-]*)", text))
    faults += [f"tests/budget.txt: no line for the group {group}" for group in sorted(groups - budget)]
    faults += [f"tests/budget.txt: no test is of the group {group}" for group in sorted(budget - groups)]
    for fault in faults:
        print(fault)
    print(f"{len(scripts)} scripts, {len(groups)} groups, {len(faults)} faults")
    return 1 if faults or not groups else 0


if __name__ == "__main__":
    sys.exit(main())
