"""Whether a model that piper_export.py has traced with several samples does the same with one.

The ranges of an exported program do not say so: torch.export takes an extent for neither 0 nor 1 while it traces, whatever is
declared, so it decides `len(x) > 1` without a guard. So forward is traced once more, with one sample.
"""
from __future__ import annotations

import logging
import math
import unittest.mock

import sympy
import torch
import torch.fx.config

# With one sample forwards, and torch, leave out what changes nothing then: `x.expand(len(x), -1)`.
_VIEWS = {torch.ops.aten.expand.default, torch.ops.aten.view.default, torch.ops.aten.slice.Tensor, torch.ops.aten.alias.default}
_MAY_COPY = {torch.ops.aten.reshape.default, torch.ops.aten.contiguous.default}


def notes(program, inputs, shapes, trace, no_grad):
    """What the file of `program` says of one sample: piper.one_sample is "same" where forward does with one what it does with several.

    inputs, shapes: example inputs and symbolic axes of `program`. trace: inputs -> a program whose extents are numbers.
    no_grad: the mark of nodes without gradient.
    """
    return {"piper.one_sample": "same"} if _does_the_same(program, inputs, shapes, trace, no_grad) else {}


def _does_the_same(program, inputs, shapes, trace, no_grad):
    """Whether forward with one sample computes the values of `program` from the same values, with the same constants."""
    batch = next(axes[0].__name__ for axes in shapes.values() if 0 in axes)
    one = dict(inputs)
    for name, axes in shapes.items():
        for axis, dim in axes.items():
            one[name] = one[name].narrow(axis, 0, 1).clone() if dim.__name__ == batch else one[name]
    extents = {}
    for node in program.graph.find_nodes(op="placeholder"):
        for axis, dim in shapes.get(node.target, {}).items():
            extent = node.meta["val"].shape[axis]
            symbol = extent.node.expr if isinstance(extent, torch.SymInt) else None
            if dim.__name__ == batch and (symbol not in program.range_constraints or program.range_constraints[symbol].lower > 2):
                return False
            extents[symbol] = sympy.Integer(one[node.target].shape[axis])
    logs = logging.root.manager.disable
    logging.disable(logging.CRITICAL)    # torch logs what it cannot trace
    try:
        with (unittest.mock.patch.object(torch.fx.config, "do_not_emit_stack_traces", True),
              unittest.mock.patch.object(torch.fx.GraphModule, "recompile", lambda _: None)):    # nobody runs it: a third of the time
            of_one = trace(one)
        return _Comparison(program, of_one, extents, no_grad).holds()
    except Exception:    # forward has no meaning for one sample, or torch cannot trace it
        return False
    finally:
        logging.disable(logs)


def _tensors(node):
    return [value for value in torch.utils._pytree.tree_leaves(node.meta.get("val")) if isinstance(value, torch.Tensor)]


def _same_constant(several, one):
    if several is one or not isinstance(several, torch.Tensor):
        return several is one
    if several.is_meta or one.is_meta:
        return several.is_meta and one.is_meta and several.shape == one.shape and several.dtype == one.dtype
    return several.dtype == one.dtype and torch.equal(several, one)


def _number(value, extents):
    """The value of an extent, or of what is computed of extents; None where it depends on values of tensors, or is no number."""
    if isinstance(value, (int, float)):
        return value
    if not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return None
    found = value.node.expr.xreplace(extents)
    return None if found.free_symbols else bool(found) if isinstance(value, torch.SymBool) else float(found)


def _read_nodes(graph):
    """Placeholders, what changes something, and what the results depend on."""
    read = set()
    for node in reversed(graph.nodes):
        if node in read or node.op == "placeholder" or node.is_impure():
            read.update([node, *node.all_input_nodes])
    return read


def _written(graph):
    """The memory that calls write to and others have made: there it matters who has a copy."""
    found = set()
    for node in graph.nodes:
        for argument, value in zip(getattr(getattr(node.target, "_schema", None), "arguments", ()), node.args):
            if argument.is_write and isinstance(value, torch.fx.Node) and value.op != "placeholder":
                found.add(_memory(value))
    return found


def _memory(node):
    return node.meta["val"].untyped_storage()._cdata


class _Calls:
    """The calls of a program that make tensors which its results depend on; `of` says where a node's elements come from."""

    def __init__(self, program, extents):
        self.extents, self.of, self.graphs, self.written = extents, {}, [], set()
        for module in program.graph_module.modules():
            if isinstance(module, torch.fx.GraphModule):
                read = _read_nodes(module.graph)
                self.written |= _written(module.graph)
                self.graphs.append([node for node in module.graph.nodes if node in read and self.counts(node)])

    def counts(self, node):
        if node.op != "call_function":
            return True
        if node.target in _VIEWS or (node.target in _MAY_COPY and not {_memory(node), _memory(node.args[0])} & self.written):
            if None not in self.shape(node) and self.shape(node) == self.shape(node.args[0]):
                self.of[node] = self.of.get(node.args[0], node.args[0])
                return False
        return bool(_tensors(node))

    def shape(self, node):
        return [_number(extent, self.extents) for extent in node.meta["val"].shape]


class _Comparison:
    """Compares two programs, call by call. `extents`: of the symbols of the first, their numbers in the second."""

    def __init__(self, several, one, extents, no_grad):
        self.several, self.one, self.no_grad = several, one, no_grad
        self.calls, self.calls_of_one = _Calls(several, extents), _Calls(one, {})
        self.same = {}    # node of `several` that is a tensor -> node of `one`

    def holds(self):
        constants, others = self.several.constants, self.one.constants
        graphs, other_graphs = self.calls.graphs, self.calls_of_one.graphs
        return (constants.keys() == others.keys() and all(_same_constant(constants[name], others[name]) for name in constants) and
                len(graphs) == len(other_graphs) and all(
                    len(nodes) == len(other_nodes) and all(map(self.same_node, nodes, other_nodes))
                    for nodes, other_nodes in zip(graphs, other_graphs, strict=True)))

    def same_node(self, node, other):
        marks = [(n.op, str(n.target), bool((n.meta.get("custom") or {}).get(self.no_grad))) for n in (node, other)]
        tensors, others = _tensors(node), _tensors(other)
        self.same[node] = other
        return (marks[0] == marks[1] and len(tensors) == len(others) and all(map(self.same_type, tensors, others)) and
                self.same_argument(node.args, other.args) and self.same_argument(node.kwargs, other.kwargs))

    def same_type(self, tensor, other):
        return tensor.dtype == other.dtype and tensor.dim() == other.dim() and all(map(self.same_number, tensor.shape, other.shape))

    def same_argument(self, value, other):
        if isinstance(value, torch.fx.Node):
            value = self.calls.of.get(value, value)
            if value not in self.same:
                return self.same_number(value.meta.get("val"), other)
            return isinstance(other, torch.fx.Node) and self.same[value] is self.calls_of_one.of.get(other, other)
        if isinstance(value, (list, tuple)):
            return isinstance(other, (list, tuple)) and len(value) == len(other) and all(map(self.same_argument, value, other))
        if isinstance(value, dict):
            return isinstance(other, dict) and value.keys() == other.keys() and all(self.same_argument(value[key], other[key]) for key in value)
        if isinstance(value, slice):
            return isinstance(other, slice) and self.same_argument([value.start, value.stop, value.step], [other.start, other.stop, other.step])
        return type(value) is type(other) and (value == other or (value != value and other != other))    # nan

    def same_number(self, value, other):
        """One that depends on values of tensors is a symbol in both."""
        other = other.meta.get("val") if isinstance(other, torch.fx.Node) else other
        numbers = [_number(value, self.calls.extents), _number(other, {})]
        if None in numbers:
            return numbers[0] is numbers[1] and type(value) is type(other)
        return math.isclose(*numbers, rel_tol=1e-12)
