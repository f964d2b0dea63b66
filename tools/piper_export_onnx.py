"""What piper_export.py writes as ONNX: torch.onnx.export with the right settings, and metadata for what ONNX has no place for."""
from __future__ import annotations

import operator
import sys
import unittest.mock

import torch

from piper_export_calls import ROWS
from piper_export_decompose import quiet, target_name

_ATEN = "org.pytorch.aten"    # of torch.onnx's operators without ONNX: the type ATen, `operator`, `overload_name`


def onnx_of(program, inputs, shapes, opset):
    """A traced program as torch.onnx's; every operator that trains in another way once it is taken apart stays one."""
    _fix_attention(program)
    _fix_bounds(program)
    _leave_out_same(program)

    def written(table):
        with unittest.mock.patch.dict(torch._decomp.decomposition_table):
            # Its reference in Python takes other arguments than the operator: `reduction` 0 is no `size_average`.
            torch._decomp.decomposition_table.pop(torch.ops.aten.nll_loss.default, None)
            return torch.onnx.export(program, (), kwargs=inputs, dynamo=True, verbose=False, opset_version=opset, optimize=False,
                                     dynamic_shapes=shapes, custom_translation_table=table)
    try:
        return written(_translations())
    except torch.onnx.OnnxExporterError:    # something, or a part of it, has no ONNX
        if not (others := _calls_without_onnx(program)):
            raise
        return written({**others, **_translations()})


def _calls_without_onnx(program):
    """What piperc has a row for and torch.onnx does not know is one node, with torch's text of the call."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    with quiet():
        known = ONNXRegistry.from_torchlib().functions
    found = {}
    for module in program.graph_module.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            target = node.target
            if (isinstance(target, torch._ops.OpOverload) and target_name(target) in ROWS and target.name() not in known
                    and not target._schema.is_mutable):
                found[target] = _as_node(target)
    return found


def _as_node(target):
    """Tensors are its inputs, other arguments attributes by their names."""
    import onnx_ir
    from onnxscript import evaluator
    name, _, overload = str(target).removeprefix("aten.").partition(".")
    parameters = [argument.name for argument in target._schema.arguments]

    def translated(*args, **kwargs):
        inputs, attributes = [], {"operator": name, "overload_name": "" if overload == "default" else overload}
        for parameter, value in [*zip(parameters, args), *kwargs.items()]:
            values = list(value) if isinstance(value, (list, tuple)) else [value]
            if any(isinstance(x, onnx_ir.Value) for x in values):
                inputs += [x if isinstance(x, onnx_ir.Value) else None for x in values]
            elif value is not None and values:
                attributes[parameter] = value if isinstance(value, (int, float, str, list, tuple)) else str(value)
        node = onnx_ir.Node(_ATEN, "ATen", inputs, onnx_ir.convenience.convert_attributes(attributes), num_outputs=len(target._schema.returns), version=1)
        evaluator.default().nodes.append(node)
        return node.outputs[0] if len(node.outputs) == 1 else list(node.outputs)
    return translated


def _fix_attention(program):
    """Attention without heads gets one. And its result with a mask is copied: the exporter traces the graph twice, and PyTorch's attention
    by a trained mask lays its result out in another way each time: views that fit the first layout are refused in the second."""
    aten, graph = torch.ops.aten, program.graph_module.graph
    for node in graph.find_nodes(op="call_function", target=aten.scaled_dot_product_attention.default):
        mask = node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")
        result = node

        def added(target, *args, at, node=node, **kwargs):
            with at:
                made = graph.call_function(target, args, kwargs)
            made.meta = dict(node.meta)
            return made
        if node.meta["val"].dim() == 3:
            masks = [mask] if mask is not None and mask.meta["val"].dim() > 2 else []
            for x in dict.fromkeys([*node.args[:3], *masks]):
                node.replace_input_with(x, added(aten.unsqueeze.default, x, 1, at=graph.inserting_before(node)))
            result = added(aten.squeeze.dim, node, 1, at=graph.inserting_after(node))
        if mask is not None:
            result = added(aten.clone.default, result, at=graph.inserting_after(result), memory_format=torch.contiguous_format)
        if result is not node:
            node.replace_all_uses_with(result, delete_user_cb=lambda user, result=result: user not in (result, *result.all_input_nodes))
    program.graph_module.recompile()


def _fix_bounds(program):
    """Bounds of one number that are a whole number and a fraction: torch.onnx takes them for tensors of two types."""
    for module in program.graph_module.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            if node.target is torch.ops.aten.clamp.default and node.meta["val"].is_floating_point():
                node.args = (node.args[0], *(float(a) if isinstance(a, int) else a for a in node.args[1:]))
                node.kwargs = {key: float(a) if isinstance(a, int) else a for key, a in node.kwargs.items()}


def _leave_out_same(program):
    """Calls that give their operand as it is: torch.onnx gives the operand the name of the result, and loses it where it is an input."""
    aten, graph = torch.ops.aten, program.graph_module.graph
    if any(isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable for node in graph.nodes):
        return
    of_one = {aten.logsumexp.default, aten.logcumsumexp.default, aten.transpose.int, aten.transpose_copy.int, aten.max.dim, aten.min.dim}
    for node in list(graph.nodes):
        target, value = node.target, node.args[0].meta.get("val") if node.args and isinstance(node.args[0], torch.fx.Node) else None
        if not isinstance(value, torch.Tensor) or not (
                (target in of_one and value.dim() == 0) or (target in (aten.t.default, aten.t_copy.default) and value.dim() < 2)
                or (target is aten.repeat.default and list(node.args[1]) == [1] * value.dim())):
            continue
        for same in [user for user in node.users if user.args[1] == 0] if target in (aten.max.dim, aten.min.dim) else [node]:
            same.replace_all_uses_with(node.args[0])
            graph.erase_node(same)
        if node in graph.nodes and not node.users:
            graph.erase_node(node)
    program.graph_module.recompile()


def _translations():
    """What the exporter has no ONNX for, takes apart, or writes in fewer cases: an operator whose own gradient is a number where
    that of its parts is none, or another, stays one. Products of rows in groups are one for each expert."""

    from onnxscript import opset20 as op

    def grouped_mm(rows, weight, offs, bias=None, out_dtype=None):
        ends = op.Cast(offs, to=7)    # int64
        start, products = op.Constant(value_ints=[0]), []
        for expert in range(weight.shape[0]):
            first, last = op.Constant(value_ints=[expert]), op.Constant(value_ints=[expert + 1])
            axis, end = op.Constant(value_ints=[0]), op.Slice(ends, first, last)
            matrix = op.Squeeze(op.Slice(weight, first, last, axis), axis)
            products.append(op.MatMul(op.Slice(rows, start, end, axis), matrix))
            start = end
        return op.Concat(*products, axis=0)

    def log_above(x):    # max(log(x), -100)
        zero, least = op.Equal(x, op.CastLike(0.0, x)), op.CastLike(-100.0, x)
        return op.Where(zero, least, op.Max(op.Log(op.Where(zero, op.CastLike(1.0, x), x)), least))

    def binary_cross_entropy(p, target, weight=None, reduction=1):
        one = op.CastLike(1.0, p)
        terms = op.Neg(op.Add(op.Mul(target, log_above(p)), op.Mul(op.Sub(one, target), log_above(op.Sub(one, p)))))
        terms = terms if weight is None else op.Mul(terms, weight)
        return terms if reduction == 0 else (op.ReduceMean if reduction == 1 else op.ReduceSum)(terms, keepdims=0)

    def centred(x, dim, correction):
        """x without its mean, the mean, the axes, and how many elements the variance divides by."""
        axes = op.Constant(value_ints=[dim] if isinstance(dim, int) else list(dim or range(len(x.shape))))
        mean = op.ReduceMean(x, axes, keepdims=1)
        count = op.CastLike(op.ReduceProd(op.Gather(op.Shape(x), axes, axis=0), keepdims=0), x)
        return op.Sub(x, mean), mean, axes, op.Sub(count, op.CastLike(1.0 if correction is None else float(correction), x))

    def std(x, dim=None, correction=None, keepdim=False):
        rest, _, axes, count = centred(x, dim, correction)
        return op.Div(op.ReduceL2(rest, axes, keepdims=int(keepdim)), op.Sqrt(count))

    def std_mean(x, dim=None, correction=None, keepdim=False):
        _, mean, axes, _ = centred(x, dim, correction)
        return std(x, dim, correction, keepdim), mean if keepdim else op.Squeeze(mean, axes)

    def var_mean(x, dim=None, correction=None, keepdim=False):
        rest, mean, axes, count = centred(x, dim, correction)
        return op.Div(op.ReduceSumSquare(rest, axes, keepdims=int(keepdim)), count), mean if keepdim else op.Squeeze(mean, axes)

    def cosine_similarity(x1, x2, dim=1, eps=1e-8):
        axes = op.Constant(value_ints=[dim])
        scaled = [op.Div(x, op.Max(op.ReduceL2(x, axes, keepdims=1), op.CastLike(eps, x))) for x in (x1, x2)]
        return op.ReduceSum(op.Mul(*scaled), axes, keepdims=0)

    def eye(n, m=None, dtype=1, layout="", device="", pin_memory=False):
        sides = [op.Reshape(side, op.Constant(value_ints=[1])) for side in (n, n if m is None else m)]
        return op.EyeLike(op.ConstantOfShape(op.Concat(*sides, axis=0)), dtype=dtype)

    def extreme(reduced):
        def written(x, dim=(), keepdim=False):    # of all axes where there are none: torch.onnx wants them to be named
            axes = [dim] if isinstance(dim, int) else list(dim) or list(range(len(x.shape)))
            return reduced(x, op.Constant(value_ints=axes), keepdims=int(keepdim)) if axes else op.Identity(x)
        return written

    aten = torch.ops.aten
    table = {aten.amax.default: extreme(op.ReduceMax), aten.amin.default: extreme(op.ReduceMin), aten.binary_cross_entropy.default: binary_cross_entropy, aten.std.correction: std, aten.std_mean.correction: std_mean,
             aten.var_mean.correction: var_mean, aten.cosine_similarity.default: cosine_similarity, aten.eye.default: eye, aten.eye.m: eye}
    # The gradient of parts has NaN at infinities; a part has no row.
    for whole in (aten.special_log_ndtr.default, aten._safe_softmax.default, aten.adaptive_max_pool3d.default):
        table[whole] = _as_node(whole)
    if hasattr(torch.ops.transformers, "grouped_mm_fallback"):
        table[torch.ops.transformers.grouped_mm_fallback.default] = grouped_mm
    if hasattr(torch.ops.aten, "_grouped_mm"):
        table[torch.ops.aten._grouped_mm.default] = grouped_mm
    return table


def save(model, onnx_program, path, external_data, no_grad, short_trace, notes):
    """`no_grad`: the mark of nodes without gradient; `short_trace`: what a stack trace is written as; `notes`: further ones."""
    weight_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
    for key, text in {**_notes(model, onnx_program, no_grad), **notes}.items():
        if text:
            onnx_program.model.metadata_props[key] = text
    _check_parameters(model, onnx_program)
    _shorten_stack_traces(onnx_program, short_trace)
    onnx_program.save(str(path), external_data=weight_bytes > 2**30 if external_data is None else external_data)


def _notes(model, onnx_program, mark) -> dict[str, str]:
    tags, no_grad, results = [], [], {}
    for node in onnx_program.exported_program.graph.nodes:
        custom = dict(node.meta.get("custom") or {})
        if custom.pop(mark, False):
            no_grad.append(node.name)
        words = [f"{key}={value}" for key, value in sorted(custom.items())
                 if isinstance(value, int) and not isinstance(value, bool) and not key.startswith("_") and " " not in key]
        if words and node.op == "call_function":
            tags.append(f"{node.name} {' '.join(words)}")
        if node.target is operator.getitem:    # by their names alone, those that nothing reads would be missed
            results.setdefault(node.args[0].name, {})[node.args[1]] = node.name
    groups = _names_in_state(model)
    frozen = [name for name, parameter in model.named_parameters(remove_duplicate=False) if not parameter.requires_grad]
    named = (" ".join([call, *(of.get(i, "-") for i in range(max(of) + 1))]) for call, of in results.items())
    return {"piper.tags": "\n".join(tags), "piper.no_grad": "\n".join(no_grad), "piper.frozen": "\n".join(frozen), "piper.results": "\n".join(named),
            "piper.tied": "\n".join(" ".join(names) for names in groups.values() if len(names) > 1)}


def _names_in_state(model):
    """The names of each tensor of the state dict; what counts batches is no part of a plan."""
    groups: dict[int, list[str]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if isinstance(tensor, torch.Tensor) and name.rpartition(".")[2] != "num_batches_tracked":
            groups.setdefault(id(tensor), []).append(name)
    return groups


def _check_parameters(model, onnx_program):
    kept, groups = set(onnx_program.model.graph.initializers), _names_in_state(model)
    lost = [names[0] for names in groups.values() if not kept & set(names)]
    if lost:
        print(f"piper_export: the loss does not depend on {', '.join(lost[:10])}"
              f"{' and more' if len(lost) > 10 else ''}: left out", file=sys.stderr)


def _shorten_stack_traces(onnx_program, short_trace):
    """Keeps the user's own frames, files by base name: what diagnostics show, and no machine's paths."""
    key = "pkg.torch.onnx.stack_trace"
    for node in onnx_program.model.graph:
        short = short_trace(node.metadata_props.get(key, ""))
        if short:
            node.metadata_props[key] = short
