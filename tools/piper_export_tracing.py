"""Traces a model for a symbolic batch."""
from __future__ import annotations

import contextlib
import functools

import torch

import piper_export_vmap
from piper_export_autograd import NO_GRAD
from piper_export_decompose import keep_shapes, take_apart
from piper_export_error import ExportError
from piper_export_state import State
from piper_export_written import WrittenLosses

try:
    import piper_export_one_sample
except ModuleNotFoundError:    # copied without it
    piper_export_one_sample = None


def traced(model, inputs, shapes, no_hooks, also):
    """The program, taken apart where piperc has no row (`also`: of these operators, too; not at all where it is None), the shapes that it is for (fewer where forward's own indices need a larger batch) and notes for its file."""
    before, notes = State(model, values=False), {}
    trace = functools.partial(_trace, model, also)
    program, shapes = _traced_for_several(trace, inputs, shapes)
    no_hooks()
    before.restore_all()    # forward may count its calls
    if piper_export_one_sample is not None:
        notes = piper_export_one_sample.notes(program, inputs, shapes, trace, NO_GRAD)
    before.restore_all()
    return program, shapes, notes


def _traced_for_several(trace, inputs, shapes):
    extents = [inputs[name].shape[axis] for name, axes in shapes.items() for axis in axes]
    for least in range(3, min(extents, default=2) + 2):
        try:
            return trace(inputs, shapes), shapes
        except torch._dynamo.exc.UserError as error:
            if "Constraints violated" not in str(error) or least > min(extents):
                raise
        dims = {dim.__name__: torch.export.Dim(dim.__name__, min=least) for axes in shapes.values() for dim in axes.values()}
        shapes = {name: {axis: dims[dim.__name__] for axis, dim in axes.items()} for name, axes in shapes.items()}


def _trace(model, also, inputs, shapes=None):
    with torch.fx.traceback.preserve_node_meta(), contextlib.nullcontext() if also is None else WrittenLosses():
        program = torch.export.export(model, (), kwargs=inputs, dynamic_shapes=shapes, strict=False)
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.find_nodes(op="call_function", target=torch.ops.aten.detach_.default):
                node.target = torch.ops.aten.detach.default    # what reads the tensor from here on reads this node
            keep_shapes(module.graph)
            module.recompile()
    if also is not None:
        piper_export_vmap.retrace(program)
        take_apart(program, also)
    pair_complex(program)
    return program


def in_pairs(tensor):
    """A tensor as a file holds it: complex numbers are pairs along a last axis."""
    return torch.view_as_real(tensor.resolve_conj()).clone() if tensor.is_complex() else tensor


def pair_complex(program):
    """Complex buffers, which a file has no type for, become pairs that the program makes complex numbers of."""
    graph, signature = program.graph_module.graph, program.graph_signature
    placeholders = {node.name: node for node in graph.find_nodes(op="placeholder")}
    first = next(node for node in graph.nodes if node.op != "placeholder")
    changed = {spec.target for spec in signature.output_specs}

    def changes(user, node):
        return isinstance(user.target, torch._ops.OpOverload) and user.target._schema.is_mutable and user.args[0] is node

    for spec in signature.input_specs:
        node = placeholders.get(getattr(spec.arg, "name", None))
        value = None if node is None else node.meta.get("val")
        if spec.target is None or not isinstance(value, torch.Tensor) or not value.is_complex():
            continue
        if (value.dtype != torch.complex64 or spec.target in changed or any(changes(user, node) for user in node.users)
                or spec.kind == torch.export.graph_signature.InputKind.PARAMETER):
            raise ExportError(f"'{spec.target}' has elements of {str(value.dtype).removeprefix('torch.')}: piper has no complex parameters, "
                              "and complex buffers of complex64 that forward does not change. Store real numbers, with a last axis of 2, "
                              "and use torch.view_as_complex in forward")
        with graph.inserting_before(first):
            made = graph.call_function(torch.ops.aten.view_as_complex.default, (node,))
        user = next(iter(node.users), None)
        made.meta = {**(user.meta if user is not None else {}), "val": value}
        node.replace_all_uses_with(made, delete_user_cb=lambda user, made=made: user is not made)
        made.meta["tensor_meta"] = node.meta.pop("tensor_meta", None)
        node.meta["val"] = torch.view_as_real(value)
        for table in (program.state_dict, program.constants):
            if spec.target in table:
                table[spec.target] = in_pairs(table[spec.target])
    program.graph_module.recompile()
