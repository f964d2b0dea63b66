#!/usr/bin/env python3
"""The operators of PyTorch's own operator database train as in PyTorch, or are refused with a code.

  operators.py --bin BIN --work DIR [--results FILE] [--first N] [--count N] [--every N] [--only WORD] [--containers pt2,onnx]

Of every operator with a derivative in f32 the first, the middle and the last sample: its tensors that have a gradient are
parameters, the others constants. The loss is the sum of the results times fixed weights, times the mean of the data, whole; and mapped
over the batch, each sample with the operator's parameters times its number, cut and one sample a piece. Operators that draw random
numbers are trained, and not compared.
"""
import functools
import operator
import random
import sys

import numpy
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from suite import BATCH, LR, STEPS, Form, Subject, arguments, report, require, run

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
        sums = [(r * getattr(self, f"w{i}")).sum() for i, r in enumerate(self.results(factor))]
        return functools.reduce(torch.add, sums)

    def forward(self, x):
        return torch.vmap(self.value)(x).mean() if self.mapped else x.mean() * self.value(None)


class Traced(nn.Module):
    """A module whose forward maps over its batch, as operators on the whole batch: what vmap makes of it for two sizes of the batch.
    A number that differs is one of the batch's size."""
    SIZES = (6, 10)

    def __init__(self, module, x):
        super().__init__()
        named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        self.names = list(named)
        for name, tensor in named.items():
            if isinstance(tensor, nn.Parameter):
                self.register_parameter(name, tensor)
            else:
                self.register_buffer(name, tensor, persistent=False)

        def forward(x, *tensors):
            return torch.func.functional_call(module, dict(zip(self.names, tensors, strict=True)), (x,))
        self.graph, other = (make_fx(forward)(x[:size].clone(), *named.values()) for size in self.SIZES)
        graph = self.graph.graph
        pairs = list(zip(graph.nodes, other.graph.nodes, strict=True))
        given = pairs[0][0]
        with graph.inserting_after(next(a for a, _ in reversed(pairs) if a.op == "placeholder")):
            self.size = graph.call_function(torch.ops.aten.sym_size.int, (given, 0))
        for a, b in pairs:
            if a.target != b.target or (a.op == "get_attr" and getattr(self.graph, a.target).shape != getattr(other, b.target).shape):
                raise ValueError(f"{a} is another operator for another batch")
            with graph.inserting_before(a):
                a.args, a.kwargs = self.merged(graph, a.args, b.args), self.merged(graph, a.kwargs, b.kwargs)
        graph.eliminate_dead_code()
        self.graph.recompile()
        for name, _ in self.graph.named_buffers():
            self.graph._non_persistent_buffers_set.add(name)

    def merged(self, graph, a, b):
        if isinstance(a, (list, tuple)):
            return type(a)(self.merged(graph, *both) for both in zip(a, b, strict=True))
        if isinstance(a, dict):
            return {key: self.merged(graph, a[key], b[key]) for key in a}
        if type(a) is not int or a == b:
            return a
        each, rest = divmod(b - a, self.SIZES[1] - self.SIZES[0])
        if rest:
            raise ValueError(f"{a} and {b} are no multiples of the batch")
        scaled = self.size if each == 1 else graph.call_function(operator.mul, (self.size, each))
        fixed = a - each * self.SIZES[0]
        return graph.call_function(operator.add, (scaled, fixed)) if fixed else scaled

    def forward(self, x):
        return self.graph(x, *(getattr(self, name) for name in self.names))


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
        if "polygamma" in name:
            return "PyTorch takes minutes for one step of it"
        seed()
        try:
            samples = list(self.infos[name].sample_inputs("cpu", torch.float32, requires_grad=True))
        except Exception as error:
            return f"its samples: {type(error).__name__}: {error}"[:200]
        chosen = {"first": 0, "middle": len(samples) // 2, "last": len(samples) - 1}
        at = chosen.get(place, -1)
        if at < 0 or at in [chosen[p] for p in PLACES[:PLACES.index(place)]]:
            return "no such sample"
        leaves = [x for x in tree_leaves((samples[at].input, samples[at].args, samples[at].kwargs)) if isinstance(x, torch.Tensor) and x.requires_grad]
        if not any(x.numel() for x in leaves):
            return "its parameters have no elements, there is nothing to train"
        draws = torch.Generator().manual_seed(0)
        data = {"x": 0.9 + 0.1 * torch.rand(STEPS * BATCH, generator=draws)}

        def subject(mapped):
            def make():
                seed()
                return Operator(self.infos[name].op, samples[at], mapped)
            return Subject(make, data, {"x": data["x"][:6]}, BATCH, STEPS, LR, (lambda: Traced(make(), data["x"])) if mapped else None)
        return [Form(subject(False), {"whole": 1}), Form(subject(True), {"mapped": 1, "cut": 2, "one sample a piece": 8})]


def main():
    args = arguments(__doc__).parse_args()
    require("expecttest")
    operators = Operators()
    sys.exit(report(args, run(args, operators.names, operators.forms_of), lambda name: name.rsplit(" ", 1)[0]))


if __name__ == "__main__":
    main()
