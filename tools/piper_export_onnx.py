"""What piper_export.py writes as ONNX: torch.onnx.export with the right settings, and metadata for what ONNX has no place for."""
from __future__ import annotations

import operator
import sys

import torch


def onnx_of(program, inputs, shapes, opset):
    """A traced program as torch.onnx's; every operator that trains in another way once it is taken apart stays one."""
    _fix_attention_layouts(program)
    return torch.onnx.export(program, (), kwargs=inputs, dynamo=True, verbose=False, opset_version=opset, optimize=False,
                             dynamic_shapes=shapes, custom_translation_table=_translations())


def _fix_attention_layouts(program):
    """Copies the result of attention with a mask. The exporter traces the graph twice, and PyTorch's attention by a trained
    mask lays its result out in another way each time: views that fit the first layout are refused in the second."""
    graph = program.graph_module.graph
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.scaled_dot_product_attention.default):
        if (node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")) is None:
            continue
        with graph.inserting_after(node):
            copied = graph.call_function(torch.ops.aten.clone.default, (node,), {"memory_format": torch.contiguous_format})
        copied.meta = dict(node.meta)
        node.replace_all_uses_with(copied, delete_user_cb=lambda user, copied=copied: user is not copied)
    program.graph_module.recompile()


def _translations():
    """What the exporter has no ONNX for, or takes apart: products of rows in groups, one group for each expert; the cross entropy
    of probabilities, whose own gradient is a number where they are 0 or 1, and that of its parts is none."""
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

    table = {torch.ops.aten.binary_cross_entropy.default: binary_cross_entropy}
    if hasattr(torch.ops.transformers, "grouped_mm_fallback"):
        table[torch.ops.transformers.grouped_mm_fallback.default] = grouped_mm
    if hasattr(torch.ops.aten, "_grouped_mm"):
        table[torch.ops.aten._grouped_mm.default] = grouped_mm
    return table


def save(model, onnx_program, path, external_data, no_grad, short_trace):
    """`no_grad`: the mark of nodes without gradient; `short_trace`: what a stack trace is written as."""
    weight_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
    for key, text in _notes(model, onnx_program, no_grad).items():
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
    """Of each tensor of the state dict, its names; what counts batches is no part of a plan."""
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
