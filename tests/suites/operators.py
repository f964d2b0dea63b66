#!/usr/bin/env python3
"""The operators of PyTorch's own operator database train as in PyTorch, or are refused with a code.

  operators.py --bin BIN --work DIR [--results FILE] [--first N] [--count N] [--every N] [--only WORD] [--containers pt2,onnx]

Of every operator with a derivative in f32 the first, the middle and the last sample: its tensors that have a gradient are
parameters, the others constants. The loss is the sum of the results times fixed weights, times the mean of the data, whole; and mapped
over the batch, each sample with the operator's parameters times its number, cut and one sample a piece. Operators that draw random
numbers are trained, and not compared.

Where a training in PyTorch leaves the operator's domain, grows without bound or is changed by roundings, another is compared, which
what PyTorch computes in f64 defines:

- A result that is NaN or infinite counts as a number of its own, without gradient (nan_to_num).
- The weight of a result is divided by its size and its derivative, where they are more than 1.
- An element of a parameter whose gradient a rounding of the parameters changes, at an edge between two formulas, is moved off it.
- The step is the first of LR, LR / 10 .. that ends in the domain.
"""
import copy
import dataclasses
import functools
import operator
import random
import sys

import numpy
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from suite import BATCH, BENT, LR, STEPS, UNBOUNDED, Form, Subject, arguments, report, require, run

PLACES = ("first", "middle", "last")
STEP_SIZES = [LR / 10 ** i for i in range(5)]


class Operator(nn.Module):
    """tame_for: the data of the training for which weights and parameters are chosen; None: they are as they come."""

    def __init__(self, call, sample, mapped, tame_for=None):
        super().__init__()
        self.call, self.process, self.mapped, self.numbered = [call], [sample.output_process_fn_grad], mapped, False
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
        if tame_for is not None:
            self.tame(tame_for.unique().tolist() if mapped else [None])

    def tame(self, factors):
        torch.set_default_dtype(torch.float64)
        try:
            wide = copy.deepcopy(self).to(torch.float64)
            self.numbered = wide.numbered = any(not r.isfinite().all() for factor in factors for r in wide.results(factor))
            weights = [getattr(wide, f"w{i}").clone() for i in range(len(wide.results(factors[0])))]
            wide.weigh(weights, factors)
            if wide.move_off_edges(factors):
                wide.weigh(weights, factors)
        finally:
            torch.set_default_dtype(torch.float32)
        for mine, exact in zip((*self.parameters(), *self.buffers()), (*wide.parameters(), *wide.buffers()), strict=True):
            mine.data.copy_(exact)

    def moved(self, by, seed):
        """A copy with every element of a parameter a little larger or smaller."""
        draws, other = torch.Generator().manual_seed(seed), copy.deepcopy(self)
        for parameter in other.parameters():
            parameter.data += by * torch.randn(parameter.shape, generator=draws).sign()
        return other

    def weigh(self, weights, factors):
        by = 1e-7
        others = [self.moved(by, seed) for seed in (1, 2)]
        for i, weight in enumerate(weights):
            size = torch.ones_like(weight)
            for factor in factors:
                result = self.results(factor)[i].detach()
                for other in others:
                    slope = ((other.results(factor)[i].detach() - result) / by).abs().nan_to_num(1 / by, 1 / by)
                    size = size.maximum(slope).maximum(result.abs().nan_to_num(1, 1))
            getattr(self, f"w{i}").copy_(weight / size)

    def gradients(self, factors):
        trained = [p for p in self.parameters() if p.requires_grad]
        return torch.autograd.grad(sum(self.value(factor) for factor in factors), trained, allow_unused=True)

    def move_off_edges(self, factors):
        """Whether there were any."""
        exact, found = self.gradients(factors), False
        largest = max((g.abs().nan_to_num(0, 0).max().item() for g in exact if g is not None and g.numel()), default=0.0)
        edges = [torch.zeros_like(p, dtype=torch.bool) for p in self.parameters()]
        for seed in (1, 2):
            for edge, mine, other in zip(edges, exact, self.moved(2e-7, seed).gradients(factors), strict=True):
                if mine is not None:
                    edge |= (mine - other).abs() > 1e-4 * largest
        for parameter, edge in zip(self.parameters(), edges, strict=True):
            parameter.data[edge] *= 1.001
            found |= bool(edge.any())
        return found

    def results(self, factor):
        given = []
        for i, leaf in enumerate(self.leaves):
            tensor = getattr(self, f"p{i}", leaf)
            given.append(tensor if factor is None or not isinstance(tensor, nn.Parameter) else tensor * factor)
        first, rest, named = tree_unflatten(given, self.tree)
        results = tree_flatten(self.process[0](self.call[0](first, *rest, **named)))[0]
        results = [torch.view_as_real(r) if r.is_complex() else r for r in results if isinstance(r, torch.Tensor)]
        results = [r for r in results if r.is_floating_point()]
        return [torch.nan_to_num(r, nan=1.0, posinf=2.0, neginf=-2.0) for r in results] if self.numbered else results

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
        for constant in list(graph.find_nodes(op="get_attr")):    # an operand, since torch.onnx finds none of a module within
            self.names.append(f"constant{len(self.names)}")
            self.register_buffer(self.names[-1], getattr(self.graph, constant.target), persistent=False)
            with graph.inserting_after(graph.find_nodes(op="placeholder")[-1]):
                constant.replace_all_uses_with(graph.placeholder(self.names[-1]))
            graph.erase_node(constant)
            delattr(self.graph, constant.target)
        self.graph.recompile()

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

        def form(mapped, cuts, lr, tamed):
            def make():
                seed()
                return Operator(self.infos[name].op, samples[at], mapped, data["x"] if tamed else None)
            known = functools.cache(make) if tamed else make    # weighing takes long
            return Form(Subject(lambda: copy.deepcopy(known()), data, {"x": data["x"][:6]}, BATCH, STEPS, lr,
                                (lambda: Traced(make(), data["x"])) if mapped else None), cuts)

        def fitting(mapped, cuts):
            """The form that can be compared."""
            plain = form(mapped, cuts, LR, False)
            plain = dataclasses.replace(plain, known=plain.reference())
            if plain.known.unfit not in (UNBOUNDED, BENT):
                return plain
            for lr in STEP_SIZES:
                tame = form(mapped, cuts, lr, True)
                reference = tame.reference()
                if not reference.unfit:
                    return dataclasses.replace(tame, known=reference)
            return plain
        return [fitting(False, {"whole": 1}), fitting(True, {"mapped": 1, "cut": 2, "one sample a piece": 8})]


def main():
    args = arguments(__doc__).parse_args()
    require("expecttest")
    operators = Operators()
    sys.exit(report(args, run(args, operators.names, operators.forms_of), lambda name: name.rsplit(" ", 1)[0]))


if __name__ == "__main__":
    main()
