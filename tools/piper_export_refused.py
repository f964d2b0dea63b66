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


def _dims(node, name="self"):
    value = _argument(node, name)
    return value.meta["val"].dim() if isinstance(value, torch.fx.Node) else 0


def _whole_factors(node):
    before, after = _argument(node, _argument_names(node)[0]).meta["val"].shape, node.meta["val"].shape
    return all(isinstance(x, int) and isinstance(y, int) and y % x == 0 for x, y in zip(before[2:], after[2:]))


# target: whether the row refuses the call of this node
CONDITIONS = {
    "aten.linalg_vector_norm.default": lambda node: _argument(node, "ord", 2) not in (1, 2),
    "aten.pad.default": lambda node: _argument(node, "mode", "constant") != "constant",
    "aten.index_put.default": lambda node: not _argument(node, "accumulate", False),
    "aten.softplus.default": lambda node: _argument(node, "threshold", 20) != 20,
    "aten.upsample_nearest1d.vec": lambda node: not _whole_factors(node),
    "aten.upsample_nearest2d.vec": lambda node: not _whole_factors(node),
    "aten.upsample_nearest2d.default": lambda node: not _whole_factors(node),
    "aten._softmax.default": lambda node: _dims(node) == 0,
    "aten._log_softmax.default": lambda node: _dims(node) == 0,
    "aten.roll.default": lambda node: len(_argument(node, "dims", [])) == 0 and _dims(node) != 1,
    "aten.softmax.int": lambda node: _dims(node) == 0,
    "aten.log_softmax.int": lambda node: _dims(node) == 0,
}


def row_refuses(node):
    condition = CONDITIONS.get(str(node.target))
    return condition is not None and bool(condition(node))
