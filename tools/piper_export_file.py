"""A file that somebody exported already, with the calls taken apart that piperc has no row for."""
from __future__ import annotations

import warnings

import torch

import piper_export_vmap
from piper_export_decompose import take_apart, without_rows
from piper_export_error import ExportError, told
from piper_export_pt2 import write_pt2

try:
    import piper_export_onnx_functions
except ModuleNotFoundError:    # copied without it
    piper_export_onnx_functions = None

_NOTES = ("piper.dims", "piper.tied", "piper.one_sample")    # what save_pt2 writes


def decompose_file(source, path, also=()):
    """Writes `source`, a `.pt2` or an ONNX file, as `path`. Returns (calls taken apart, operators without a row that are left)."""
    if source.suffix != path.suffix:
        raise ExportError(f"{source} and {path} are of two kinds: a file is taken apart, not made another kind")
    if source.resolve() == path.resolve():
        raise ExportError(f"{path} would be written over: give another name")
    if source.suffix == ".onnx":
        if piper_export_onnx_functions is None:
            raise ExportError("an ONNX file needs piper_export_onnx_functions.py next to piper_export.py")
        return piper_export_onnx_functions.inline_file(source, path, also)
    with told(f"torch.export cannot load {source}"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        notes = dict.fromkeys(_NOTES, "")
        program = torch.export.load(str(source), extra_files=notes)
    before = [_named(spec) for spec in program.graph_signature.input_specs]
    done = [*piper_export_vmap.retrace(program), *take_apart(program, also)]
    if [_named(spec) for spec in program.graph_signature.input_specs] != before:
        raise ExportError(f"{source}: its inputs would have other names")
    notes = {key: value.decode() if isinstance(value, bytes) else value for key, value in notes.items() if value}
    if done:
        notes.pop("piper.one_sample", None)    # said of the calls as they were
        write_pt2(program, path, notes)
    return done, without_rows(program)


def _named(spec):
    return str(spec.kind), getattr(spec.arg, "name", None), spec.target
