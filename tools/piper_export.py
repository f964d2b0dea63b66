#!/usr/bin/env python3
"""Export a PyTorch model with its loss to a file that piper trains exactly: ONNX, or torch's own `.pt2`.

    from piper_export import export
    export(model, {"input_ids": ids, "labels": labels}, "model.onnx")   # or "model.pt2"

    python piper_export.py module.py:make_model -o model.onnx
    # make_model() returns (model, example_inputs) or (model, example_inputs, options of export)
    python piper_export.py module.py:make_model -o model.pt2 --no-weights     # shapes alone: a model of any size
    python piper_export.py --decompose old.pt2 -o new.pt2    # of somebody else: operators that piperc does not know, taken apart

It needs the files piper_export_*.py next to it: copy all of them to where your models are. Of these piper_export_onnx.py, which writes
the ONNX, may be absent for a `.pt2`; without piper_export_one_sample.py a file does not say whether forward does with one sample
what it does with several.

torch.onnx.export's defaults are made for inference: its optimizer merges and folds weights, and
frozen parameters, regions without gradient, tags and names of tied weights are lost. This file
exports with the right settings and writes what ONNX has no place for into the file's metadata:
piper.tags, piper.frozen, piper.no_grad, piper.results, piper.tied. A `.pt2` archive (torch.export.save) has a place
for these; piper.dims adds the names of symbolic axes. Both have piper.one_sample where forward does with one sample what it does
with several. It needs torch >= 2.13; ONNX files also need onnx and onnxscript.

The forward must return the scalar loss, or an object with a `loss` (transformers), or pass
`loss=function(outputs, inputs)`. Every example input needs a batch of at least 2 on axis 0.

What is written is compared with the model's own step on the example inputs: a tracer does not see all that autograd does.
The model is afterwards as it was.
"""
from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.util
import inspect
import pathlib
import sys

import torch

try:
    from piper_export_autograd import NO_GRAD, refuse_hooks, refuse_shared_memory, tracing
    from piper_export_check import Check
    from piper_export_error import ExportError, told
    from piper_export_file import decompose_file
    from piper_export_forward import as_trained
    from piper_export_pt2 import check_outputs, save_pt2, short_trace
    from piper_export_shapes import export_shapes, without_weights
    from piper_export_state import State
    from piper_export_tracing import traced
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("piper_export"):
        raise
    raise ModuleNotFoundError(f"piper_export.py needs {error.name}.py next to it: copy all files piper_export*.py of piper", name=error.name) from None
try:
    import piper_export_onnx
except ModuleNotFoundError:    # copied without it
    piper_export_onnx = None

__all__ = ["ExportError", "export", "without_weights"]


def export(model: torch.nn.Module, example_inputs, path, *, loss=None, static_inputs=(), dynamic=None, batch_axis_name="B",
           opset=20, external_data=None, allow_custom_functions=False, allow_hooks=False, weights=True, check=True,
           decompose=()) -> pathlib.Path:
    """Write `model` with its loss to `path` (.onnx or .pt2); returns the path.

    example_inputs: {argument of forward: tensor}, or a tuple in the order of forward's arguments.
    loss: function(outputs, inputs as a dict) -> scalar, where forward does not return the loss itself.
    static_inputs: names of inputs whose axis 0 is not the batch.
    dynamic: {input: {axis: name}}: further symbolic axes, e.g. {"input_ids": {1: "S"}}.
    opset, external_data: of an .onnx file; weights are in a second file by default where they exceed 1 GiB.
    allow_custom_functions: export torch.autograd.Function by its forward; its backward is lost.
    allow_hooks: export a model with hooks on gradients, for hooks that only look; they are lost.
    weights: False writes parameters as shapes, into a .pt2 alone: for `piperc --weights none`. The model may be made under
    without_weights(), which never allocates them.
    decompose: names of operators ("aten.softmax.int") that are written as PyTorch takes them apart, besides those that piperc has no row
    for; None where every call is to stay.
    check: compare what is written with the model's own step (see Check). It takes memory for four copies of the weights more.
    """
    inputs = _named_inputs(model, example_inputs)
    path = pathlib.Path(path)
    if path.suffix != ".pt2" and piper_export_onnx is None:
        raise ExportError("an ONNX file needs piper_export_onnx.py next to piper_export.py; a .pt2 does not")
    shapes = _dynamic_shapes(inputs, set(static_inputs), dynamic or {}, batch_axis_name)
    causes: list[str] = []
    with as_trained(model, loss):
        no_hooks = functools.partial(refuse_hooks, model, allow_hooks, causes)
        no_hooks()
        refuse_shared_memory(model)
        as_traced = functools.partial(tracing, model, allow_custom_functions, allow_hooks, causes)
        if not weights:
            return _not_checked("it is written without weights", export_shapes(model, inputs, path, shapes, as_traced, no_hooks, decompose))
        state = State(model, values=check)
        try:
            with as_traced():
                with told("torch.export cannot trace the model"):
                    program, shapes, notes = traced(model, inputs, shapes, no_hooks, decompose)
                    exported = program
                if path.suffix != ".pt2":
                    with told("torch.onnx.export cannot write the model as ONNX"):
                        onnx_program = piper_export_onnx.onnx_of(program, inputs, shapes, opset)
                    exported = onnx_program.exported_program
            check_outputs(exported)
            state.restore_all()    # a forward may have registered buffers
            reason = Check(model, exported, inputs, state, causes).compare() if check else None
        finally:
            state.restore_all()
    if path.suffix == ".pt2":
        save_pt2(program, path, shapes, notes)
    else:
        piper_export_onnx.save(model, onnx_program, path, external_data, NO_GRAD, short_trace, notes)
    return path if reason is None else _not_checked(reason, path)


def _not_checked(reason, path):
    print(f"piper_export: {path}: not checked against the model's own step: {reason}", file=sys.stderr)
    return path


def _named_inputs(model, example_inputs) -> dict[str, torch.Tensor]:
    if isinstance(example_inputs, torch.Tensor):
        example_inputs = (example_inputs,)
    if not isinstance(example_inputs, dict):
        example_inputs = dict(zip(inspect.signature(model.forward).parameters, example_inputs, strict=False))
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


def _decompose_file(args):
    done, left = decompose_file(args.decompose, args.out, args.take_apart)
    words = f"operators without a row that cannot be taken apart: {', '.join(left)}" if left else ""
    if not done:
        raise ExportError(f"nothing in {args.decompose} can be taken apart" + (f"; {words}" if left else ": piperc has a row for every call"))
    print(f"{args.out}: {len(done)} calls are taken apart: {', '.join(done[:10])}{' and more' if len(done) > 10 else ''}")
    if left:
        print(f"piper_export: {words}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description="Export a PyTorch model with its loss for piper.")
    parser.add_argument("model", nargs="?", help="module.py:function; the function returns (model, example_inputs[, options])")
    parser.add_argument("-o", "--out", required=True, type=pathlib.Path, help="the file to write: .onnx or .pt2")
    parser.add_argument("--opset", type=int, default=20)
    parser.add_argument("--no-weights", action="store_true",
                        help="write the shapes of the parameters without their values, and do not allocate them while the model is made; "
                        "only for .pt2. Compile the file with piperc --weights none")
    parser.add_argument("--no-check", action="store_true",
                        help="do not compare what is written with the model's own step: for models too big to run here")
    parser.add_argument("--decompose", metavar="FILE", type=pathlib.Path,
                        help="instead of a model: a .pt2 or ONNX file, whose calls that piperc has no row for are taken apart")
    parser.add_argument("--take-apart", metavar="OPERATOR", action="append", default=[],
                        help="an operator that is taken apart although piperc has a row, which refuses its arguments: aten.pad.default")
    args = parser.parse_args()
    if (args.model is None) == (args.decompose is None):
        parser.error("name a model, or a file with --decompose")
    try:
        if args.decompose is not None:
            _decompose_file(args)
            return 0
        make_model = _load(args.model)
        with without_weights() if args.no_weights else contextlib.nullcontext():
            model, inputs, *rest = make_model()
        options = {"opset": args.opset, "weights": not args.no_weights, "check": not args.no_check, "decompose": args.take_apart,
                   **(rest[0] if rest else {})}
        path = export(model, inputs, args.out, **options)
    except ExportError as error:
        print(f"piper_export: {error}", file=sys.stderr)
        return 1
    print(f"{path}: {path.stat().st_size} bytes, {sum(p.numel() for p in model.parameters())} parameters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
