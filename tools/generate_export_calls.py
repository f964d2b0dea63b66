#!/usr/bin/env python3
"""Writes tools/piper_export_calls.py, the calls of ATen that piperc has rows for, from compiler/frontend/aten/call_table.def.

  generate_export_calls.py [--check]

The exporter runs where no piperc is. With --check the file is compared, not written; exit status 1 where it is another.
"""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE, WRITTEN = ROOT / "compiler/frontend/aten/call_table.def", ROOT / "tools/piper_export_calls.py"
HEAD = '''"""The calls that piperc has rows for, and the names of their arguments. Written by tools/generate_export_calls.py."""
'''


def parameters(text):
    """Names of `Tensor self, int[2] dim=[-2, -1], str mode=constant`."""
    fields = re.sub(r"\[[^\]]*\]", "", text).split(",") if text else []
    return [field.split("=")[0].split()[-1] for field in fields]


def generated():
    rows = re.findall(r'^PIPER_ATEN\(\w+, \w+, "([^"(]+)\((.*)\)"\)$', TABLE.read_text(), re.M)
    lines = [f'    "{target}": "{" ".join(parameters(text))}",\n' for target, text in sorted(rows)]
    return HEAD + "ROWS = {target: tuple(names.split()) for target, names in {\n" + "".join(lines) + "}.items()}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    text = generated()
    if parser.parse_args().check:
        if WRITTEN.read_text() != text:
            print(f"{WRITTEN.relative_to(ROOT)} is not what tools/generate_export_calls.py writes of {TABLE.relative_to(ROOT)}")
            return 1
        return 0
    WRITTEN.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
