#!/usr/bin/env python3
"""Writes tools/piper_export_calls.py, the calls of ATen and the operators of ONNX that piperc has rows for, from its tables.

  generate_export_calls.py [--check] [--compiler CXX]

The exporter runs where no piperc is. With --check the file is compared, not written; exit status 1 where it is another.
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE, ONNX_TABLE = ROOT / "compiler/frontend/aten/call_table.def", ROOT / "compiler/frontend/onnx/ops_table.def"
WRITTEN = ROOT / "tools/piper_export_calls.py"
HEAD = '''"""The calls of ATen that piperc has rows for, with the names of their arguments, and the operators of ONNX. Written by tools/generate_export_calls.py."""
'''


def parameters(text):
    """Names of `Tensor self, int[2] dim=[-2, -1], str mode=constant`."""
    fields = re.sub(r"\[[^\]]*\]", "", text).split(",") if text else []
    return [field.split("=")[0].split()[-1] for field in fields]


def rows(compiler, table, macro):
    """Arguments of the macro, its strings joined: other tables are included, and macros expand to it."""
    text = subprocess.run([compiler, "-E", "-P", "-x", "c++", f"-I{ROOT}", table], check=True, capture_output=True, text=True).stdout
    text = re.sub(r'"\s*"', "", text)
    return re.findall(rf'\b{macro}\((?:\w+, \w+, )?"([^"]*)"', text)


def block(words):
    """A text of words, in lines."""
    return textwrap.fill(" ".join(words), 140, initial_indent="        ", subsequent_indent="        ", break_on_hyphens=False)


def entry(names, found):
    words = sorted(found)
    line = f'    "{names}": "{" ".join(words)}",\n'
    return line if len(line) <= 140 else f'    "{names}": """\n{block(words)}\n    """,\n'


def generated(compiler):
    targets = collections.defaultdict(list)
    for text in rows(compiler, TABLE, "PIPER_ATEN"):
        target, arguments = re.fullmatch(r"([^(]+)\((.*)\)", text).groups()
        targets[" ".join(parameters(arguments))].append(target)
    calls = "".join(entry(names, found) for names, found in sorted(targets.items()))
    operators = block(sorted(rows(compiler, ONNX_TABLE, "PIPER_ONNX_OP")))
    return (HEAD + "_TARGETS = {    # by the names of their arguments\n" + calls + "}\n" +
            "ROWS = {target: tuple(names.split()) for names, targets in _TARGETS.items() for target in targets.split()}\n" +
            f'ONNX_ROWS = frozenset("""\n{operators}\n""".split())\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--compiler", default=os.environ.get("CXX", "c++"), help="one that expands macros of C")
    args = parser.parse_args()
    text = generated(args.compiler)
    if args.check:
        if WRITTEN.read_text() != text:
            print(f"{WRITTEN.relative_to(ROOT)} is not what tools/generate_export_calls.py writes")
            return 1
        return 0
    WRITTEN.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
