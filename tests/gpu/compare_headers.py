#!/usr/bin/env python3
"""Whether the stand-in's headers declare what CUDA's own declare: names, signatures, values.

  compare_headers.py --compiler C++ --standin DIR --cuda DIR

Every declaration of the stand-in becomes a static_assert in a source file that includes CUDA's header of the same name.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

FUNCTION = re.compile(r"^(?P<result>[\w ]+?\*?) ?(?P<name>\w+)\((?P<parameters>[^()]*)\);$", re.M)
ENUMERATOR = re.compile(r"^  (\w+) = (\d+),$", re.M)
MACRO = re.compile(r"^#define (\w+) (0x[0-9a-f]+|\d+)$", re.M)


def assertions(text):
    for name, value in ENUMERATOR.findall(text) + MACRO.findall(text):
        yield f'static_assert({name} == {value}, "{name}");'
    for found in FUNCTION.finditer(text):
        parameters = "" if found["parameters"] == "void" else found["parameters"]
        yield (f'static_assert(std::is_same_v<decltype(&{found["name"]}), {found["result"]} (*)({parameters})>, '
               f'"{found["name"]}");')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--standin", type=pathlib.Path, required=True)
    parser.add_argument("--cuda", required=True)
    args = parser.parse_args()
    failed = 0
    for header in sorted(args.standin.glob("*.h")):
        lines = list(assertions(header.read_text()))
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "compare.cc"
            source.write_text("\n".join([f"#include <{header.name}>", "#include <type_traits>", *lines]) + "\n")
            done = subprocess.run([args.compiler, "-std=c++20", "-fsyntax-only", f"-I{args.cuda}", source],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(f"{header.name}: {len(lines)} declarations " + ("as CUDA has them" if done.returncode == 0 else "differ\n" + done.stdout))
        failed += done.returncode != 0 or not lines
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
