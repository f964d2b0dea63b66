#!/usr/bin/env python3
"""The operators of PyTorch's own operator database train as in PyTorch, or are refused with a code.

  operators.py --bin BIN --work DIR [--results FILE] [--first N] [--count N] [--every N] [--only WORD] [--containers pt2,onnx]

Of every operator with a derivative in f32 the first, the middle and the last sample: its tensors that have a gradient are
parameters, the others constants. The loss is the sum of the results times fixed weights, times the mean of the data, whole; and mapped
over the batch, each sample with the operator's parameters times its number, cut and one sample a piece. Operators that draw random
numbers are trained, and not compared.
"""
import random
import sys

import numpy
import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from suite import BATCH, LR, STEPS, Form, Subject, arguments, report, run

PLACES = ("first", "middle", "last")


class Operator(nn.Module):
    def __init__(self, call, sample, mapped):
        super().__init__()
        self.call, self.process, self.mapped = [call], [sample.output_process_fn_grad], mapped
        self.leaves, self.tree = tree_flatten((sample.input, sample.args, sample.kwargs))
        for i, leaf in enumerate(self.leaves):
            if isinstance(leaf, torch.Tensor):
                value = leaf.detach().clone()
                if leaf.requires_grad:
                    self.register_parameter(f"p{i}", nn.Parameter(value))
                else:
                    self.register_buffer(f"p{i}", value, persistent=False)
                self.leaves[i] = None
        draws = torch.Generator().manual_seed(3)
        for i, result in enumerate(self.results(None)):
            count = max(result.numel(), 1)
            self.register_buffer(f"w{i}", torch.randn(result.shape, generator=draws) / count ** 0.5, persistent=False)

    def results(self, factor):
        given = []
        for i, leaf in enumerate(self.leaves):
            tensor = getattr(self, f"p{i}", leaf)
            given.append(tensor if factor is None or not isinstance(tensor, nn.Parameter) else tensor * factor)
        first, rest, named = tree_unflatten(given, self.tree)
        results = tree_flatten(self.process[0](self.call[0](first, *rest, **named)))[0]
        results = [torch.view_as_real(r) if r.is_complex() else r for r in results if isinstance(r, torch.Tensor)]
        return [r for r in results if r.is_floating_point()]

    def value(self, factor):
        return sum((r * getattr(self, f"w{i}")).sum() for i, r in enumerate(self.results(factor)))

    def forward(self, x):
        return torch.vmap(self.value)(x).mean() if self.mapped else x.mean() * self.value(None)


def seed():
    torch.manual_seed(0)
    random.seed(0)
    numpy.random.seed(0)


class Operators:
    def __init__(self):
        from torch.testing._internal.common_methods_invocations import op_db
        self.infos = {f"{info.name}{'.' + info.variant_test_name if info.variant_test_name else ''}": info for info in op_db
                      if info.supports_autograd and torch.float32 in info.dtypes}
        self.names = [f"{name} {place}" for name in self.infos for place in PLACES]

    def forms_of(self, item):
        name, place = item.rsplit(" ", 1)
        seed()
        try:
            samples = list(self.infos[name].sample_inputs("cpu", torch.float32, requires_grad=True))
        except Exception as error:
            return f"its samples: {type(error).__name__}: {error}"[:200]
        chosen = {"first": 0, "middle": len(samples) // 2, "last": len(samples) - 1}
        at = chosen.get(place, -1)
        if at < 0 or at in [chosen[p] for p in PLACES[:PLACES.index(place)]]:
            return "no such sample"
        draws = torch.Generator().manual_seed(0)
        data = {"x": 0.9 + 0.1 * torch.rand(STEPS * BATCH, generator=draws)}

        def subject(mapped):
            def make():
                seed()
                return Operator(self.infos[name].op, samples[at], mapped)
            return Subject(make, data, {"x": data["x"][:6]}, BATCH, STEPS, LR)
        return [Form(subject(False), {"whole": 1}), Form(subject(True), {"mapped": 1, "cut": 2, "one sample a piece": 8})]


def main():
    args = arguments(__doc__).parse_args()
    operators = Operators()
    sys.exit(report(run(args, operators.names, operators.forms_of)))


if __name__ == "__main__":
    main()
