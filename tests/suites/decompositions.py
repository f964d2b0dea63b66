#!/usr/bin/env python3
"""The operators that the exporter takes apart have the derivative of their parts, also at zeros, ties, edges and infinities.

  decompositions.py [--write] [--only WORD] [--samples N]

Of PyTorch's operator database every sample is run, and each call of ATen in it that has no row in piperc, a derivative of its own and a
decomposition is compared with that. Exit status 1 where an operator of the list differs, or one that is not in it could be; --write
writes the list (tools/piper_export_decompositions.py).
"""
import argparse
import collections
import os
import pathlib
import random
import sys
import warnings

import numpy
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from suite import require  # first: it sets the paths

import derivatives_of_parts
import piper_export_decompose as decompose
from piper_export_decompositions import SAME_DERIVATIVE

LIST = pathlib.Path(decompose.__file__).with_name("piper_export_decompositions.py")
EACH = 24    # calls of an operator with other arguments


class Calls(TorchDispatchMode):
    """Calls of ATen without a row that PyTorch has a derivative of, with their arguments."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if isinstance(function, torch._ops.OpOverload) and decompose.wants_a_list(function) and not function._schema.is_mutable:
            copied = tree_map_only(torch.Tensor, lambda x: x.detach().clone(), (args, kwargs or {}))
            self.found.append((function, *copied))
        return function(*args, **(kwargs or {}))


def described(args, kwargs):
    """Arguments without the values of tensors."""
    return repr(tree_map_only(torch.Tensor, lambda x: (x.dtype, min(x.dim(), 3), 0 in x.shape), (args, kwargs)))


def calls_of(info, samples):
    torch.manual_seed(0)
    random.seed(0)
    numpy.random.seed(0)
    given = list(info.sample_inputs("cpu", torch.float32, requires_grad=True))
    for sample in given[:samples]:
        with Calls() as calls:
            try:
                info.op(sample.input, *sample.args, **sample.kwargs)
            except Exception:    # a sample that this version refuses
                continue
        yield from calls.found


def in_a_child(function, *arguments):
    """What it returns, a text. PyTorch's own kernels may end the process at values that they do not expect."""
    reads, writes = os.pipe()
    if (child := os.fork()) == 0:
        with os.fdopen(writes, "w") as pipe:
            pipe.write(function(*arguments))
            pipe.flush()
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as pipe:
        text = pipe.read()
    return "PyTorch ends the process" if os.waitpid(child, 0)[1] else text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="writes the list")
    parser.add_argument("--only", default="", help="operators of the database whose name has this in it")
    parser.add_argument("--samples", type=int, default=30, help="of each operator of the database at most")
    args = parser.parse_args()
    require("expecttest")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    from torch.testing._internal.common_methods_invocations import op_db
    seen, differs, compared = set(), {}, collections.Counter()
    for info in op_db:
        if not info.supports_autograd or torch.float32 not in info.dtypes or args.only not in info.name or "polygamma" in info.name:
            continue
        for target, operands, named in calls_of(info, args.samples):
            name, form = decompose.target_name(target), described(operands, named)
            if (name, form) in seen or compared[name] >= EACH:
                continue
            seen.add((name, form))
            module = derivatives_of_parts.parts_of(target, operands, named)
            if module is None:
                continue
            compared[name] += 1
            if why := in_a_child(derivatives_of_parts.difference, target, operands, named, module):
                differs.setdefault(name, why)
    same = {name for name in compared if name not in differs}
    for name in sorted(compared):
        print(f"{'differs' if name in differs else 'same   '} {compared[name]:3} {name} {differs.get(name, '')[:200]}")
    faults = [f"{name} is in the list and differs: {differs[name]}" for name in sorted(SAME_DERIVATIVE & differs.keys())]
    if not args.only:
        faults += [f"{name} could be in the list" for name in sorted(same - SAME_DERIVATIVE)]
        faults += [f"{name} is in the list and was not compared" for name in sorted(SAME_DERIVATIVE - compared.keys())]
    if args.write:
        head, _, rest = LIST.read_text().partition('SAME_DERIVATIVE = frozenset("""\n')
        LIST.write_text(head + 'SAME_DERIVATIVE = frozenset("""\n' + "".join(f"    {name}\n" for name in sorted(same)) + '""".split())\n')
        print(f"{len(same)} written")
        return 0
    for fault in faults:
        print(f"FAILED {fault}")
    print(f"{len(compared)} operators, {len(faults)} faults")
    return 1 if faults or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
