#!/usr/bin/env python3
"""Sizes and names of the tracked sources.

  check_house.py ROOT

C++ keeps to the columns of .clang-format (which leaves long strings alone), a file ends where a reader loses the thread,
and no file or folder is a drawer, a name under which anything may be put. No file has the marks of a merge. compiler/passes holds the passes of the table alone.
No source but one is compiled with a path of the checkout (tests/source_path.h).
Without git the files of the folders are read.
"""
import pathlib
import re
import subprocess
import sys

MOST_COLUMNS, MOST_LINES = 120, 600
COLUMNS = (".cc", ".h")
SOURCES = (".cc", ".h", ".py", ".sh", ".cu")
TOP = ("cmake", "compiler", "docs", "launcher", "runtime", "schemas", "strategies", "tests", "tools")
DRAWERS = {"util", "utils", "utility", "utilities", "helper", "helpers", "common", "commons", "misc", "miscellaneous",
           "stuff", "various", "assorted"}
MERGE_MARKS = re.compile(rb"^(<<<<<<<|>>>>>>>) ", re.MULTILINE)
# A macro that is a path of the checkout: of sources compiled with it, ccache finds nothing of another checkout.
PATH_MACRO = re.compile(r"\b(\w+)=\"?\$\{\w*(?:SOURCE|BINARY|LIST)_DIR\}")
PATH_MACROS = {"PIPER_SOURCE_FOLDER"}
FILE_DRAWERS = {"tools", "shared", "general", "other", "others"}  # as a file's whole name; tools/ is where programs are


def tracked(root: pathlib.Path) -> list[str]:
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        return [path for path in listed.stdout.split("\0") if path and (root / path).is_file()]
    return [file.relative_to(root).as_posix() for top in TOP for file in sorted((root / top).rglob("*")) if file.is_file()]


def is_drawer(path: str) -> bool:
    *folders, name = path.split("/")
    stem = name.split(".")[0].lower()
    words = {word for part in [*folders, stem] for word in re.split(r"[_-]", part.lower())}
    return bool(words & DRAWERS) or stem in FILE_DRAWERS


def faults_of(root: pathlib.Path, path: str) -> list[str]:
    faults = [f"{path}: is named like a drawer; say what it holds"] if is_drawer(path) else []
    if MERGE_MARKS.search((root / path).read_bytes()):
        faults.append(f"{path}: has the marks of a merge: choose one of the two texts")
    if path.endswith(("CMakeLists.txt", ".cmake")):
        calls = re.findall(r"_compile_definitions\(([^)]*)\)", (root / path).read_text())
        faults += [f"{path}: {name} is a path of the checkout: ask test::source_path instead (tests/source_path.h)"
                   for call in calls for name in PATH_MACRO.findall(call) if name not in PATH_MACROS]
    if not path.endswith(SOURCES):
        return faults
    lines = (root / path).read_text().splitlines()
    if len(lines) > MOST_LINES:
        faults.append(f"{path}: has {len(lines)} lines, more than {MOST_LINES}; split it where two things meet")
    if path.endswith(COLUMNS):
        faults += [f"{path}:{number}: has {len(line)} columns, more than {MOST_COLUMNS}"
                   for number, line in enumerate(lines, 1) if len(line) > MOST_COLUMNS]
    return faults


def passes_of_no_table(root: pathlib.Path, files: list[str]) -> list[str]:
    named = set(re.findall(r'^    \{"(\w+)", "', (root / "compiler/driver/pipeline.cc").read_text(), re.M))
    stems = {pathlib.Path(path).stem: path for path in files if re.match(r"compiler/passes/\w+\.cc$", path)}
    faults = [f"{path}: no pass of compiler/driver/pipeline.cc has this name" for stem, path in stems.items() if stem not in named]
    return faults if stems else ["compiler/passes: no passes were found"]


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    files = tracked(root)
    faults = [fault for path in files for fault in faults_of(root, path)] + passes_of_no_table(root, files)
    for line in faults:
        print(line)
    print(f"{len(files)} files, {len(faults)} faults")
    sys.exit(1 if faults or not files else 0)


if __name__ == "__main__":
    main()
