"""Models without the values of their weights."""
from __future__ import annotations

import contextlib

import torch

from piper_export_error import ExportError, told
from piper_export_pt2 import save_pt2
from piper_export_state import State
from piper_export_tracing import in_pairs, traced

_MOST_OF_A_BUFFER = 2**30    # bytes


class _LargeOnMeta(torch.overrides.TorchFunctionMode):
    """A tensor without values that no machine may have memory for is a weight: it is on the meta device before it is a parameter."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        on_meta = function(*args, **{**kwargs, "device": "meta"}) if function is torch.empty and kwargs.get("device") is None else None
        return on_meta if on_meta is not None and on_meta.nbytes > _MOST_OF_A_BUFFER else function(*args, **kwargs)


@contextlib.contextmanager
def without_weights():
    """Modules that are made inside have parameters on torch's meta device: shapes without memory. Buffers have values."""
    register = torch.nn.Module.register_parameter

    def register_shape(module, name, parameter):
        register(module, name, None if parameter is None else _shape_of(parameter))

    torch.nn.Module.register_parameter = register_shape
    try:
        with _LargeOnMeta():
            yield
    finally:
        torch.nn.Module.register_parameter = register


def _shape_of(parameter):
    if parameter.device.type == "meta":
        return parameter        # a tied one stays the same object
    return torch.nn.Parameter(torch.empty_like(parameter, device="meta"), requires_grad=parameter.requires_grad)


def export_shapes(model, inputs, path, shapes, as_traced, no_hooks, also):
    """Exports with every tensor on the meta device, and puts the values of buffers back."""
    if path.suffix != ".pt2":
        raise ExportError("a model without weights is written as .pt2: name the file so")
    lost = [name for name, buffer in model.named_buffers() if buffer.device.type == "meta"]
    if lost:
        raise ExportError(f"the buffers {', '.join(lost[:5])} are on the meta device and have no values; "
                          "make the model under piper_export.without_weights(), which keeps buffers")
    buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers(remove_duplicate=False)}
    on_meta: dict[int, torch.Tensor] = {}
    state = State(model, values=False)
    try:
        for module in model.modules():
            for table, make in ((module._parameters, _shape_of), (module._buffers, lambda b: torch.empty_like(b, device="meta"))):
                for name, tensor in table.items():
                    if tensor is not None:
                        table[name] = on_meta.setdefault(id(tensor), make(tensor))
        ties: dict[int, list[str]] = {}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            ties.setdefault(id(parameter), []).append(name)
        with as_traced(), told("torch.export cannot trace the model"):
            program, shapes, notes = traced(model, {name: tensor.to("meta") for name, tensor in inputs.items()}, shapes, no_hooks, also)
    finally:
        state.restore_all()
    for table in (program.state_dict, program.constants):
        table.update({name: in_pairs(buffers[name]) for name in table if name in buffers})
    tied = "".join(" ".join(names) + "\n" for names in ties.values() if len(names) > 1)
    save_pt2(program, path, shapes, {"piper.tied": tied, **notes})
    return path
