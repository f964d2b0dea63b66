#!/usr/bin/env python3
"""docs/numerics.md says for every kernel that LibTorch computes on GPUs why its bits are the same in every run; and what PyTorch's list of
operations without that promise has to do with plans is a kernel of our own.

  check_same_bits.py ROOT
"""
import pathlib
import re
import sys

PAGE = "docs/numerics.md"


def rows(file):
    return re.findall(r'^PIPER_\w+_ROW\("(\w+)"', file.read_text(), re.MULTILINE)


def listed(page, name, column):
    """The kernels in one column of the page's list."""
    between = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", page, re.DOTALL)
    lines = between[1].splitlines()[2:] if between else []
    return [kernel for line in lines for kernel in re.findall(r"`(\w+)`", line.split("|")[column])]


def main():
    root = pathlib.Path(sys.argv[1])
    page = (root / PAGE).read_text()
    kernels = root / "runtime" / "kernels"
    own = set(rows(kernels / "cuda" / "own_rows.def"))
    library = set(rows(kernels / "library" / "library_rows.def")) - own
    reasoned = listed(page, "of LibTorch", 1)
    ours = listed(page, "our own", 2)
    faults = [f"{PAGE}: does not say why `{kernel}` of LibTorch gives the same bits in every run" for kernel in sorted(library - set(reasoned))]
    faults += [f"{PAGE}: `{kernel}` is no kernel that LibTorch computes on GPUs" for kernel in sorted(set(reasoned) - library)]
    if "`schemas/plan/elementwise.def`" not in page:
        faults.append(f"{PAGE}: does not say why the rows of schemas/plan/elementwise.def give the same bits in every run")
    faults += [f"{PAGE}: `{kernel}` stands in two lines" for kernel in sorted(set(reasoned)) if reasoned.count(kernel) > 1]
    faults += [f"{PAGE}: `{kernel}` is not one of own_rows.def" for kernel in ours if kernel not in own]
    print("\n".join([*faults, f"{len(library)} kernels of LibTorch, {len(ours)} of our own, {len(faults)} faults"]))
    sys.exit(1 if faults or not library or not ours else 0)


if __name__ == "__main__":
    main()
