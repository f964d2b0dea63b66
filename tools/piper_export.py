#!/usr/bin/env python3
"""Export a PyTorch model with its loss to a file that piper trains exactly: ONNX, or torch's own `.pt2`.

    from piper_export import export
    export(model, {"input_ids": ids, "labels": labels}, "model.onnx")   # or "model.pt2"

    python piper_export.py module.py:make_model -o model.onnx
    # make_model() returns (model, example_inputs) or (model, example_inputs, options of export)
    python piper_export.py module.py:make_model -o model.pt2 --no-weights     # shapes alone: a model of any size

torch.onnx.export's defaults are made for inference: its optimizer merges and folds weights, and
frozen parameters, regions without gradient, tags and names of tied weights are lost. This file
exports with the right settings and writes what ONNX has no place for into the file's metadata:
piper.tags, piper.frozen, piper.no_grad, piper.tied. A `.pt2` archive (torch.export.save) has a place
for these; piper.dims adds the names of symbolic axes. It needs torch >= 2.13; ONNX files also need
onnx and onnxscript.

The forward must return the scalar loss, or an object with a `loss` (transformers), or pass
`loss=function(outputs, inputs)`. Every example input needs a batch of at least 2 on axis 0.
"""
from __future__ import annotations

import argparse
import contextlib
import importlib.util
import inspect
import pathlib
import re
import sys
import types
import warnings

import torch

_NO_GRAD = "piper_no_grad"


class ExportError(ValueError):
    """The model cannot be exported so that it would train as it does in PyTorch."""


def export(model: torch.nn.Module, example_inputs, path, *, loss=None, static_inputs=(), dynamic=None,
           batch_axis_name="B", opset=20, external_data=None, allow_custom_functions=False, weights=True) -> pathlib.Path:
    """Write `model` with its loss to `path` (.onnx or .pt2); returns the path.

    example_inputs: {argument of forward: tensor}, or a tuple in the order of forward's arguments.
    loss: function(outputs, inputs as a dict) -> scalar, where forward does not return the loss itself.
    static_inputs: names of inputs whose axis 0 is not the batch.
    dynamic: {input: {axis: name}}: further symbolic axes, e.g. {"input_ids": {1: "S"}}.
    opset, external_data: of an .onnx file; weights stand in a second file by default where they exceed 1 GiB.
    allow_custom_functions: export torch.autograd.Function by its forward; its backward is lost.
    weights: False writes parameters as shapes, into a .pt2 alone: for `piperc --weights none`. The model may be made under
    without_weights(), which never allocates them.
    """
    inputs = _named_inputs(model, example_inputs)
    path = pathlib.Path(path)
    weight_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
    shapes = _dynamic_shapes(inputs, set(static_inputs), dynamic or {}, batch_axis_name)
    if not weights:
        return _export_shapes(model, inputs, path, shapes, lambda: _as_trained(model, loss, allow_custom_functions))
    with _as_trained(model, loss, allow_custom_functions):
        program = _traced(model, inputs, shapes)
        if path.suffix != ".pt2":
            _fix_attention_layouts(program)
            onnx_program = torch.onnx.export(
                program, (), kwargs=inputs, dynamo=True, verbose=False, opset_version=opset, optimize=False,
                dynamic_shapes=shapes, custom_translation_table=_translations())
    if path.suffix == ".pt2":
        _save_pt2(program, path, shapes)
        return path
    _check_outputs(onnx_program)
    for key, text in _notes(model, onnx_program).items():
        if text:
            onnx_program.model.metadata_props[key] = text
    _check_parameters(model, onnx_program)
    _shorten_stack_traces(onnx_program)
    onnx_program.save(str(path), external_data=weight_bytes > 2**30 if external_data is None else external_data)
    return path


@contextlib.contextmanager
def _as_trained(model, loss, allow_custom_functions):
    """The model in training mode, and everything about its forward as a step of training needs it."""
    was_training = model.training
    model.train()
    try:
        with (warnings.catch_warnings(), _returning_loss(model, loss), _recording_no_grad(model),
              _refusing_custom_functions(allow_custom_functions), _without_cache(model)):
            warnings.simplefilter("ignore")
            yield
    finally:
        model.train(was_training)


def _traced(model, inputs, shapes):
    with torch.fx.traceback.preserve_node_meta():
        return torch.export.export(model, (), kwargs=inputs, dynamic_shapes=shapes, strict=False)


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


@contextlib.contextmanager
def without_weights():
    """Modules that are made inside have parameters on torch's meta device: shapes without memory. Buffers have values."""
    register = torch.nn.Module.register_parameter

    def register_shape(module, name, parameter):
        register(module, name, None if parameter is None else _shape_of(parameter))

    torch.nn.Module.register_parameter = register_shape
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = register


def _shape_of(parameter):
    if parameter.device.type == "meta":
        return parameter        # a tied one stays the same object
    return torch.nn.Parameter(torch.empty_like(parameter, device="meta"), requires_grad=parameter.requires_grad)


def _export_shapes(model, inputs, path, shapes, as_trained):
    """Exports with every tensor on the meta device, and puts the values of buffers back."""
    if path.suffix != ".pt2":
        raise ExportError("a model without weights is written as .pt2: name the file so")
    lost = [name for name, buffer in model.named_buffers() if buffer.device.type == "meta"]
    if lost:
        raise ExportError(f"the buffers {', '.join(lost[:5])} are on the meta device and have no values; "
                          "make the model under piper_export.without_weights(), which keeps buffers")
    buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers(remove_duplicate=False)}
    on_meta: dict[int, torch.Tensor] = {}
    moved = []
    try:
        for module in model.modules():
            for table, make in ((module._parameters, _shape_of), (module._buffers, lambda b: torch.empty_like(b, device="meta"))):
                for name, tensor in table.items():
                    if tensor is not None:
                        moved.append((table, name, tensor))
                        table[name] = on_meta.setdefault(id(tensor), make(tensor))
        ties: dict[int, list[str]] = {}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            ties.setdefault(id(parameter), []).append(name)
        with as_trained():
            program = _traced(model, {name: tensor.to("meta") for name, tensor in inputs.items()}, shapes)
    finally:
        for table, name, tensor in moved:
            table[name] = tensor
    for table in (program.state_dict, program.constants):
        table.update({name: buffers[name] for name in table if name in buffers})
    tied = "".join(" ".join(names) + "\n" for names in ties.values() if len(names) > 1)
    _save_pt2(program, path, shapes, {"piper.tied": tied})
    return path


def _named_inputs(model, example_inputs) -> dict[str, torch.Tensor]:
    if isinstance(example_inputs, torch.Tensor):
        example_inputs = (example_inputs,)
    if not isinstance(example_inputs, dict):
        names = list(inspect.signature(model.forward).parameters)
        example_inputs = dict(zip(names, example_inputs, strict=False))
    named = {}
    for name, value in example_inputs.items():
        if not isinstance(value, torch.Tensor):
            raise ExportError(f"input '{name}' must be a tensor, not {type(value).__name__}")
        named[name] = value.detach().clone()  # one tensor given twice would become one input
    return named


def _dynamic_shapes(inputs, static_inputs, dynamic, batch_axis_name):
    unknown = (static_inputs | set(dynamic)) - set(inputs)
    if unknown:
        raise ExportError(f"no such input: {', '.join(sorted(unknown))}; inputs are {', '.join(inputs)}")
    axes = {batch_axis_name: torch.export.Dim(batch_axis_name, min=2)}
    shapes, batches = {}, {}
    for name, tensor in inputs.items():
        shapes[name] = {}
        if name not in static_inputs and tensor.dim() > 0:
            shapes[name][0] = axes[batch_axis_name]
            batches[name] = tensor.shape[0]
        for axis, symbol in dynamic.get(name, {}).items():
            shapes[name][axis] = axes.setdefault(symbol, torch.export.Dim(symbol, min=2))
    if not batches:
        raise ExportError("no input has a batch axis")
    if len(set(batches.values())) > 1:
        raise ExportError(f"example inputs have different batches: {batches}; name inputs without a batch in static_inputs")
    if min(batches.values()) < 2:
        raise ExportError("the example batch must be at least 2: torch.export treats an extent of 1 as fixed")
    return shapes


@contextlib.contextmanager
def _returning_loss(model, loss):
    """forward returns the scalar loss; parameter names stay as they are."""
    forward = model.forward

    def with_loss(*args, **kwargs):
        bound = inspect.signature(forward).bind_partial(*args, **kwargs)
        outputs = forward(*args, **kwargs)
        if loss is not None:
            return loss(outputs, dict(bound.arguments))
        return outputs if isinstance(outputs, torch.Tensor) else getattr(outputs, "loss", outputs)

    with_loss.__signature__ = inspect.signature(forward)
    had_own = "forward" in vars(model)
    model.forward = types.MethodType(_unbound(with_loss), model)
    try:
        yield
    finally:
        if had_own:
            model.forward = forward
        else:
            del model.forward


def _unbound(function):
    def forward(_self, *args, **kwargs):
        return function(*args, **kwargs)

    signature = inspect.signature(function)
    first = inspect.Parameter("_self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    forward.__signature__ = signature.replace(parameters=[first, *signature.parameters.values()])
    return forward


@contextlib.contextmanager
def _recording_no_grad(model):
    """Annotates what the model computes under torch.no_grad: exports keep no trace of it."""
    depth = [0]
    hooks = [model.register_forward_pre_hook(lambda *_: depth.__setitem__(0, depth[0] + 1)),
             model.register_forward_hook(lambda *_: depth.__setitem__(0, depth[0] - 1), always_call=True)]
    patched = []

    def patch(cls, without_gradient):
        enter, leave = cls.__enter__, cls.__exit__

        # Inside of the model the switch itself is left out: it would move the region into a
        # sub-graph whose nodes lose their module path.
        def new_enter(self):
            if depth[0] == 0:
                return enter(self)
            marks = vars(self).setdefault("_piper_marks", [])
            marks.append(torch.fx.traceback.annotate({_NO_GRAD: without_gradient(self)}))
            marks[-1].__enter__()
            return self

        def new_exit(self, *error):
            marks = vars(self).get("_piper_marks")
            if not marks:
                return leave(self, *error)
            marks.pop().__exit__(*error)
            return None

        cls.__enter__, cls.__exit__ = new_enter, new_exit
        patched.append((cls, enter, leave))

    patch(torch.no_grad, lambda _: True)
    patch(torch.enable_grad, lambda _: False)
    patch(torch.set_grad_enabled, lambda self: not self.mode)
    try:
        yield
    finally:
        for cls, enter, leave in patched:
            cls.__enter__, cls.__exit__ = enter, leave
        for hook in hooks:
            hook.remove()


@contextlib.contextmanager
def _without_cache(model):
    """transformers models build key-value caches by default: of no use in training."""
    configs = [m.config for m in model.modules() if getattr(getattr(m, "config", None), "use_cache", False) is True]
    for config in configs:
        config.use_cache = False
    try:
        yield
    finally:
        for config in configs:
            config.use_cache = True


@contextlib.contextmanager
def _refusing_custom_functions(allowed):
    original = torch.autograd.Function.__dict__["apply"]

    def apply(cls, *args, **kwargs):
        if not allowed and cls.__module__.split(".")[0] != "torch":
            raise ExportError(
                f"the model uses the torch.autograd.Function '{cls.__qualname__}': an export keeps its forward and "
                "loses its backward. Write it with ordinary operators, or pass allow_custom_functions=True "
                "where the backward is the derivative of the forward")
        return original.__get__(None, cls)(*args, **kwargs)

    torch.autograd.Function.apply = classmethod(apply)
    try:
        yield
    finally:
        torch.autograd.Function.apply = original


def _save_pt2(program, path, shapes, extra_files=None):
    outputs = [s.arg for s in program.graph_signature.output_specs if s.kind == torch.export.graph_signature.OutputKind.USER_OUTPUT]
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    if len(outputs) != 1 or not isinstance(values.get(outputs[0].name), torch.Tensor) or values[outputs[0].name].dim() != 0:
        found = ", ".join(f"{o.name} {tuple(getattr(values.get(getattr(o, 'name', None)), 'shape', ()))}" for o in outputs)
        raise ExportError(f"forward must return one scalar loss, but the export returns {found}; pass loss=function(outputs, inputs)")
    names = []
    for name, axes in shapes.items():
        for axis, dim in axes.items():
            symbol = str(values[name].shape[axis])
            if symbol.isidentifier():
                names.append(f"{symbol} {dim.__name__}\n")
    for module in program.graph_module.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            if node.meta.get("stack_trace"):
                node.meta["stack_trace"] = _short_trace(node.meta["stack_trace"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(program, str(path), extra_files={"piper.dims": "".join(dict.fromkeys(names)), **(extra_files or {})})


def _check_outputs(onnx_program):
    outputs = onnx_program.model.graph.outputs
    if len(outputs) != 1 or len(outputs[0].shape or ()) != 0:
        found = ", ".join(f"{o.name} {o.shape}" for o in outputs)
        raise ExportError(f"forward must return one scalar loss, but the export returns {found}; pass loss=function(outputs, inputs)")


def _notes(model, onnx_program) -> dict[str, str]:
    tags, no_grad = [], []
    for node in onnx_program.exported_program.graph.nodes:
        custom = dict(node.meta.get("custom") or {})
        if custom.pop(_NO_GRAD, False):
            no_grad.append(node.name)
        words = [f"{key}={value}" for key, value in sorted(custom.items())
                 if isinstance(value, int) and not isinstance(value, bool) and not key.startswith("_") and " " not in key]
        if words and node.op == "call_function":
            tags.append(f"{node.name} {' '.join(words)}")
    groups: dict[int, list[str]] = {}
    frozen = []
    for name, parameter in model.named_parameters(remove_duplicate=False):
        groups.setdefault(id(parameter), []).append(name)
        if not parameter.requires_grad:
            frozen.append(name)
    return {"piper.tags": "\n".join(tags), "piper.no_grad": "\n".join(no_grad), "piper.frozen": "\n".join(frozen),
            "piper.tied": "\n".join(" ".join(names) for names in groups.values() if len(names) > 1)}


def _check_parameters(model, onnx_program):
    kept = set(onnx_program.model.graph.initializers)
    groups: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        groups.setdefault(id(parameter), []).append(name)
    lost = [names[0] for names in groups.values() if not kept & set(names)]
    if lost:
        print(f"piper_export: the loss does not depend on {', '.join(lost[:10])}"
              f"{' and more' if len(lost) > 10 else ''}: left out", file=sys.stderr)


def _shorten_stack_traces(onnx_program):
    """Keeps the user's own frames, files by base name: what diagnostics show, and no machine's paths."""
    key = "pkg.torch.onnx.stack_trace"
    for node in onnx_program.model.graph:
        short = _short_trace(node.metadata_props.get(key, ""))
        if short:
            node.metadata_props[key] = short


def _short_trace(trace):
    frames = re.split(r'(?m)^(?=\s*File ")', trace)
    own = [f for f in frames if f.strip() and "/torch/" not in f] or frames[-1:]
    return "".join(re.sub(r'File "[^"]*[/\\]([^"/\\]+)"', r'File "\1"', f) for f in own)


def _load(reference):
    file, _, name = reference.rpartition(":")
    if not file:
        raise ExportError("name the function that makes the model: module.py:make_model")
    spec = importlib.util.spec_from_file_location(pathlib.Path(file).stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(pathlib.Path(file).resolve().parent))
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def main() -> int:
    parser = argparse.ArgumentParser(description="Export a PyTorch model with its loss for piper.")
    parser.add_argument("model", help="module.py:function; the function returns (model, example_inputs[, options])")
    parser.add_argument("-o", "--out", required=True, help="the file to write: .onnx or .pt2")
    parser.add_argument("--opset", type=int, default=20)
    parser.add_argument("--no-weights", action="store_true",
                        help="write shapes of parameters and no values, and allocate none: for piperc --weights none")
    args = parser.parse_args()
    try:
        make_model = _load(args.model)
        with without_weights() if args.no_weights else contextlib.nullcontext():
            model, inputs, *rest = make_model()
        options = {"opset": args.opset, "weights": not args.no_weights, **(rest[0] if rest else {})}
        path = export(model, inputs, args.out, **options)
    except ExportError as error:
        print(f"piper_export: {error}", file=sys.stderr)
        return 1
    print(f"{path}: {path.stat().st_size} bytes, {sum(p.numel() for p in model.parameters())} parameters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
