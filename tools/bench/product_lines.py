#!/usr/bin/env python3
"""How many lines of product code there are, by room: without comments, blank lines, tests and generated files.

  product_lines.py [--at REVISION]... [--rooms]

Product code is what git has of C++, CUDA, tables (.def) and Python in ROOMS, and the schemas that are written by hand. Without --at
the files as they lie in the working tree; with it, those of each revision, one column each. --rooms: a row for each folder below, too.
"""
import argparse
import collections
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("compiler", "runtime", "launcher", "schemas", "tools")
GENERATED = {"schemas/strategy.schema.json", "schemas/plan.schema.json"}    # by strategy_test and plan_schema_test
CODE = (".cc", ".h", ".cu", ".def", ".inc", ".py", ".sh", ".json")
# A comment, or a string that may look like one.
C_PARTS = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
PYTHON_DOCUMENTATION = re.compile(r'^[ \t]*"""(?:.*?)"""[ \t]*$', re.S | re.M)


def files(revision):
    command = ["git", "ls-tree", "-r", "--name-only", revision] if revision else ["git", "ls-files"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in names if name.startswith(tuple(f"{room}/" for room in ROOMS)) and name.endswith(CODE) and name not in GENERATED]


def texts(revision, names):
    """The text of each file."""
    if not revision:
        yield from ((name, (ROOT / name).read_text()) for name in names if (ROOT / name).exists())
        return
    request = "".join(f"{revision}:{name}\n" for name in names).encode()
    out = subprocess.run(["git", "cat-file", "--batch"], cwd=ROOT, input=request, capture_output=True, check=True).stdout
    at = 0
    for name in names:
        end = out.index(b"\n", at)
        size = int(out[at:end].split()[2])
        yield name, out[end + 1:end + 1 + size].decode()
        at = end + 1 + size + 1


def lines(name, text):
    if name.endswith((".py", ".sh")):
        text = PYTHON_DOCUMENTATION.sub("", text)
        return sum(1 for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    if not name.endswith(".json"):
        text = C_PARTS.sub(lambda part: "" if part[0].startswith(("//", "/*")) else part[0], text)
    return sum(1 for line in text.splitlines() if line.strip())


def count(revision, depth):
    found = collections.Counter()
    for name, text in texts(revision, files(revision)):
        parts = name.split("/")
        for room in {"/".join(parts[:min(d, len(parts) - 1)]) for d in range(1, depth + 1)}:
            found[room] += lines(name, text)
    found["all"] = sum(found[room] for room in ROOMS)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--at", action="append", default=[])
    parser.add_argument("--rooms", action="store_true")
    args = parser.parse_args()
    columns = [count(revision, 2 if args.rooms else 1) for revision in args.at or [None]]
    print("".join(f"{title[:12]:>14}" for title in args.at or ["now"]))
    for room in sorted({room for column in columns for room in column}):
        print("".join(f"{column[room]:14,}" for column in columns), "", room)


if __name__ == "__main__":
    main()
