"""Calls that piperc has a row for whose row refuses these arguments, where PyTorch takes them apart."""
from __future__ import annotations

import torch


def _argument(node, name, default=None):
    names = [argument.name for argument in node.target._schema.arguments]
    if name in node.kwargs:
        return node.kwargs[name]
    at = names.index(name)
    return node.args[at] if at < len(node.args) else default


def _dims(node, name="self"):
    value = _argument(node, name)
    return value.meta["val"].dim() if isinstance(value, torch.fx.Node) else 0


# target: whether the row refuses the call of this node
CONDITIONS = {
    "aten.pad.default": lambda node: _argument(node, "mode", "constant") != "constant",
    "aten.softmax.int": lambda node: _dims(node) == 0,
    "aten.log_softmax.int": lambda node: _dims(node) == 0,
    "aten.instance_norm.default": lambda node: _argument(node, "running_mean") is not None,
}


def row_refuses(node):
    condition = CONDITIONS.get(str(node.target))
    return condition is not None and bool(condition(node))
