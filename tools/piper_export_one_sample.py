"""Whether a model that piper_export.py has traced with several samples does the same with one."""
from __future__ import annotations

import torch


def allow(program, model, inputs, shapes):
    """Lets the program's range begin with one sample where forward does with one what it does with several. Ranges do not say that:
    torch.export takes an extent for neither 0 nor 1 while it traces, whatever is declared, so it decides `len(x) > 1` without a guard."""
    batch = next(axes[0].__name__ for axes in shapes.values() if 0 in axes)
    symbols = {node.meta["val"].shape[axis].node.expr for node in program.graph.nodes if node.op == "placeholder"
               for axis, dim in shapes.get(node.target, {}).items() if dim.__name__ == batch}
    if (all(program.range_constraints[symbol].lower == 2 for symbol in symbols & program.range_constraints.keys()) and
            _does_the_same_with_one(model, inputs, shapes, batch, program)):
        for symbol in symbols & program.range_constraints.keys():    # no second trace: forward may count its calls
            several = program.range_constraints[symbol]
            program.range_constraints[symbol] = type(several)(1, several.upper)


def _does_the_same_with_one(model, inputs, shapes, batch, program):
    """Whether forward, traced with one sample, calls the operators of `program` with the same constants, for results of the same ranks."""
    one, others = dict(inputs), {}
    for name, axes in shapes.items():
        others[name] = {axis: dim for axis, dim in axes.items() if dim.__name__ != batch}
        for axis in axes.keys() - others[name].keys():
            one[name] = one[name].narrow(axis, 0, 1).clone()
    try:
        with torch.fx.traceback.preserve_node_meta():
            of_one = torch.export.export(model, (), kwargs=one, dynamic_shapes=others, strict=False)
    except Exception:    # forward has no meaning for one sample, or torch cannot trace it
        return False
    return _agree(_calls(program), _calls(of_one))


def _calls(program):
    """(operator, ranks of its results, arguments, named arguments) of each call that makes tensors, in order."""
    nodes = [node for module in program.graph_module.modules() for node in getattr(getattr(module, "graph", None), "nodes", ())]
    calls = []
    for node in nodes:
        tensors = [value for value in torch.utils._pytree.tree_leaves(node.meta.get("val")) if isinstance(value, torch.Tensor)]
        if node.op == "call_function" and tensors:
            calls.append((str(node.target), [tensor.dim() for tensor in tensors], node.args, node.kwargs))
    return calls


def _agree(several, one):
    """Equal constants. An extent that is computed for several samples is a number for one."""
    if isinstance(several, torch.fx.Node):
        return isinstance(one, torch.fx.Node) or isinstance(one, (int, float))
    if isinstance(several, (list, tuple)) and isinstance(one, (list, tuple)):
        return len(several) == len(one) and all(map(_agree, several, one))
    if isinstance(several, dict) and isinstance(one, dict):
        return several.keys() == one.keys() and all(_agree(several[key], one[key]) for key in several)
    return type(several) is type(one) and several == one
