"""Writes the text that the demo trains on: the sources of Python's standard library, or the user's own file.

    python prepare_text.py -o corpus.txt [--text FILE] [--megabytes 8]

Files are taken in the order of their names, so the same Python gives the same text.
"""
from __future__ import annotations

import argparse
import pathlib
import sys
import sysconfig

# Other people's packages, tests, and folders that are mostly tables.
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idlelib", "encodings", "pydoc_data"}


def standard_library(limit: int) -> bytes:
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    text = bytearray()
    for path in sorted(root.rglob("*.py"), key=lambda p: p.relative_to(root).as_posix()):
        inside = path.relative_to(root).parts
        if SKIPPED & set(inside):
            continue
        text += path.read_bytes()
        if len(text) >= limit:
            break
    return bytes(text[:limit])


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the demo's text.")
    parser.add_argument("-o", "--out", required=True, type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path, help="a text of your own instead of the standard library")
    parser.add_argument("--megabytes", type=int, default=8, help="at most this much of it")
    args = parser.parse_args()
    limit = args.megabytes * 10**6
    if args.text:
        try:
            with args.text.open("rb") as file:
                text = file.read(limit)
        except OSError as error:
            print(f"prepare_text: {args.text}: {error.strerror}", file=sys.stderr)
            return 1
    else:
        text = standard_library(limit)
    if len(text) < 10_000:
        print(f"prepare_text: {len(text)} bytes are too little text to learn from; 10000 are needed", file=sys.stderr)
        return 1
    args.out.write_bytes(text)
    print(f"{args.out}: {len(text)} bytes of {args.text or 'the standard library of Python'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
