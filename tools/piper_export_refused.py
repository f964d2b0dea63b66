"""Calls that piperc has a row for whose row refuses these arguments, where PyTorch takes them apart."""
from __future__ import annotations

import torch


def _argument_names(node):
    return [argument.name for argument in node.target._schema.arguments]


def _argument(node, name, default=None):
    names = _argument_names(node)
    if name in node.kwargs:
        return node.kwargs[name]
    at = names.index(name)
    return node.args[at] if at < len(node.args) else default


def _whole_factors(node):
    before, after = _argument(node, _argument_names(node)[0]).meta["val"].shape, node.meta["val"].shape
    by = [x for name in _argument_names(node) if name.startswith("scale") for x in _listed(_argument(node, name)) if x is not None]
    return all(x == int(x) for x in by) and all(isinstance(x, int) and isinstance(y, int) and y % x == 0 for x, y in zip(before[2:], after[2:]))


def _listed(value):
    return value if isinstance(value, (list, tuple)) else [value]


# target: whether the row refuses the call of this node
CONDITIONS = {
    "aten.as_strided.default": lambda node: _argument(node, "self").target is not torch.ops.aten.mean.dim,
    "aten.pad.default": lambda node: _argument(node, "mode", "constant") != "constant",
    "aten.upsample_nearest1d.vec": lambda node: not _whole_factors(node),
    "aten.upsample_nearest2d.vec": lambda node: not _whole_factors(node),
    "aten.upsample_nearest2d.default": lambda node: not _whole_factors(node),
}


def row_refuses(node):
    condition = CONDITIONS.get(str(node.target))
    return condition is not None and bool(condition(node))
