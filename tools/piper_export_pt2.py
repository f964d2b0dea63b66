"""Writes an exported program as torch's own `.pt2`, with what piper adds to it."""
from __future__ import annotations

import re
import warnings

import torch

from piper_export_error import ExportError


def check_outputs(program):
    outputs = [s.arg for s in program.graph_signature.output_specs if s.kind == torch.export.graph_signature.OutputKind.USER_OUTPUT]
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    if len(outputs) != 1 or not isinstance(values.get(outputs[0].name), torch.Tensor) or values[outputs[0].name].dim() != 0:
        found = ", ".join(f"{o.name} {tuple(getattr(values.get(getattr(o, 'name', None)), 'shape', ()))}" for o in outputs)
        raise ExportError(f"forward must return one scalar loss, but the export returns {found}; pass loss=function(outputs, inputs)")


def save_pt2(program, path, shapes, notes):
    check_outputs(program)
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    names = []
    for name, axes in shapes.items():
        for axis, dim in axes.items():
            symbol = str(values[name].shape[axis])
            if symbol.isidentifier():
                names.append(f"{symbol} {dim.__name__}\n")
    write_pt2(program, path, {"piper.dims": "".join(dict.fromkeys(names)), **notes})


def write_pt2(program, path, notes):
    """notes: files beside the program's."""
    for module in program.graph_module.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            if node.meta.get("stack_trace"):
                node.meta["stack_trace"] = short_trace(node.meta["stack_trace"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(program, str(path), extra_files=notes)


def short_trace(trace):
    frames = re.split(r'(?m)^(?=\s*File ")', trace)
    own = [f for f in frames if f.strip() and "/torch/" not in f] or frames[-1:]
    return "".join(re.sub(r'File "[^"]*[/\\]([^"/\\]+)"', r'File "\1"', f) for f in own)
