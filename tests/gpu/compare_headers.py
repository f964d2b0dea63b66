#!/usr/bin/env python3
"""Whether the stand-in's headers declare what CUDA's and NCCL's own declare: names, signatures, values, layouts.

  compare_headers.py --compiler C++ --standin DIR --cuda DIR [--nccl DIR]

Every declaration of the stand-in becomes a static_assert in a source file that includes the real header of the same name. nccl.h is
compared where the real one is given and is of the stand-in's version.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

FUNCTION = re.compile(r"^(?P<result>[\w ]+?\*?) ?(?P<name>\w+)\((?P<parameters>[^()]*)\);$", re.M)
ENUMERATOR = re.compile(r"^  (\w+) = (\d+),$", re.M)
STRUCT = re.compile(r"^typedef struct \{\n(?P<fields>.*?)^\} (?P<name>\w+);$", re.M | re.S)
FIELD = re.compile(r"(\w+)(\[\w+\])?;$", re.M)
INITIALIZER = re.compile(r"^#define (?P<of>\w+)_INITIALIZER (?P<value>\{(?:.*\\\n)+.*\})$", re.M)
VERSION = re.compile(r"^#define NCCL_VERSION_CODE (\d+)$", re.M)
MACRO = re.compile(r"^#define (\w+) (0x[0-9a-f]+|\d+)$", re.M)


def layouts(text):
    """The stand-in's structs under names of their own beside the real ones, and what an initializer fills in."""
    for found in STRUCT.finditer(text):
        name, ours = found["name"], "standin_" + found["name"]
        yield f"typedef struct {{\n{found['fields']}}} {ours};"
        yield f'static_assert(sizeof({ours}) == sizeof({name}), "{name}");'
        fields = [field for field, _ in FIELD.findall(found["fields"])]
        for field in fields:
            yield f'static_assert(offsetof({ours}, {field}) == offsetof({name}, {field}), "{name}::{field}");'
            yield f'static_assert(std::is_same_v<decltype({ours}::{field}), decltype({name}::{field})>, "{name}::{field}");'
        for initializer in INITIALIZER.finditer(text):
            if initializer["of"].lower().replace("_", "") + "_t" != name.lower():
                continue
            value = initializer["value"].replace("\\\n", "\n")
            yield f"constexpr {ours} ours_{name} = {value};\nconstexpr {name} theirs_{name} = {initializer['of']}_INITIALIZER;"
            for field in fields:
                yield f'static_assert(ours_{name}.{field} == theirs_{name}.{field}, "{name}::{field} at first");'


def version(folder):
    found = VERSION.search((folder / "nccl.h").read_text())
    return int(found[1]) // 100 if found else 0


def assertions(text):
    yield from layouts(text)
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
    parser.add_argument("--nccl", type=pathlib.Path)
    args = parser.parse_args()
    failed = 0
    for header in sorted(args.standin.glob("*.h")):
        own = [f"-I{args.cuda}", f"-I{args.cuda}/cccl"]  # cuda_fp16.h wants <nv/target>
        if header.name == "nccl.h":
            if args.nccl is None or version(args.nccl) != version(args.standin):
                print("nccl.h: not compared, " + ("there is none" if args.nccl is None else f"that of {args.nccl} is of another version"))
                continue
            own.append(f"-I{args.nccl}")
        lines = list(assertions(header.read_text()))
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "compare.cc"
            source.write_text("\n".join([f"#include <{header.name}>", "#include <cstddef>", "#include <type_traits>", *lines]) + "\n")
            done = subprocess.run([args.compiler, "-std=c++20", "-fsyntax-only", *own, source],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(f"{header.name}: {len(lines)} declarations " + ("as in the real one" if done.returncode == 0 else "differ\n" + done.stdout))
        failed += done.returncode != 0 or not lines
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
