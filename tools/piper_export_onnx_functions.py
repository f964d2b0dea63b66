"""Functions of an ONNX file, and operators that ONNX defines by a function, are put in the place of their calls where piperc has no
row for the operator."""
from __future__ import annotations

import onnx
import onnx.external_data_helper
import onnx.inliner

from piper_export_calls import ONNX_ROWS
from piper_export_error import told

_TEXT = "pkg.torch.onnx.fx_node"
_RANDOM = {"Bernoulli"}


def inline_file(source, path, also=()):
    """As piper_export_file.decompose_file."""
    with told(f"onnx cannot load {source}"):
        model = onnx.load(str(source), load_external_data=False)
        inlined, done = inline(model, also)
        if done:
            _save(inlined, source, path)
    return done, sorted({_name(node) for node in inlined.graph.node if not _has_row(node)})


def inline(model, also=()):
    """The model with functions in the place of their calls, and the names of the calls."""
    local = {(function.domain, function.name) for function in model.functions}
    versions = {entry.domain: entry.version for entry in model.opset_import}
    wanted = {(node.domain, node.op_type) for node in model.graph.node if (node.domain, node.op_type) in local
              or ((not _has_row(node) or node.op_type in also) and _is_function(node, versions))}
    if not wanted:
        return model, []
    inlined = onnx.inliner.inline_selected_functions(model, sorted(wanted), inline_schema_functions=True)
    calls = [node for node in model.graph.node if (node.domain, node.op_type) in wanted]
    _write_places(model, inlined, wanted)
    return inlined, [node.name or node.output[0] for node in calls]


def _name(node):
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def _has_row(node):
    """With torch's text of the call it is that of ATen that has one."""
    return (not node.domain and node.op_type in ONNX_ROWS) or any(entry.key == _TEXT for entry in node.metadata_props)


def _is_function(node, versions):
    if node.domain or node.op_type in _RANDOM:
        return False
    try:
        schema = onnx.defs.get_schema(node.op_type, versions.get("", 1), "")
    except onnx.defs.SchemaError:
        return False
    return schema.has_function or schema.has_context_dependent_function


def _write_places(model, inlined, wanted):
    """What a call says of its module and line its parts say, too. The other calls are as they were, in the same order."""
    calls, call, left = iter(model.graph.node), None, set()
    for node in inlined.graph.node:
        if not left:
            following = next(calls, None)
            if following is None or (following.domain, following.op_type) in wanted or list(following.output) == list(node.output):
                call, left = following, set(following.output if following is not None else ()) - {""}
        left -= set(node.output)
        if call is None or (call.domain, call.op_type) not in wanted:
            continue
        for entry in call.metadata_props:
            if entry.key != _TEXT and not any(own.key == entry.key for own in node.metadata_props):
                node.metadata_props.add(key=entry.key, value=entry.value)


def _save(model, source, path):
    outside = [tensor for tensor in model.graph.initializer if tensor.data_location == onnx.TensorProto.EXTERNAL]
    if outside:
        onnx.external_data_helper.load_external_data_for_model(model, str(source.parent))
    onnx.save(model, str(path), save_as_external_data=bool(outside), location=f"{path.name}.data" if outside else None)
