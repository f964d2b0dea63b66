"""What autograd sees of a forward and a tracer does not: regions without gradient, hooks, functions with a backward of their own.
It is recorded, done in another way, or refused."""
from __future__ import annotations

import contextlib
import sys

import torch

from piper_export_error import ExportError, place
from piper_export_forward import replaced, with_forward

NO_GRAD = "piper_no_grad"    # the mark of a node whose result has no gradient


def tracing(model, allow_custom_functions, allow_hooks, causes):
    """While the model is traced: what autograd sees and a tracer does not is recorded, done in another way, or refused. All this
    is in place only while forward runs: what torch itself looks up meanwhile is as ever."""
    def wrap(forward):
        def watched(*args, **kwargs):
            inside: list[bool] = []
            with (_recording_no_grad(inside), _replacing_functions(allow_custom_functions, causes, inside),
                  _refusing_autograd(allow_hooks, causes), _without_new_buffers()):
                return forward(*args, **kwargs)
        return watched
    return with_forward(model, wrap)


@contextlib.contextmanager
def _without_new_buffers():
    """A buffer that forward makes is an attribute while it runs: torch.export would take it for the tensor that it knows in its place,
    and write to that."""
    made = []
    register, assign = torch.nn.Module.register_buffer, torch.nn.Module.__setattr__

    def keep(module, name, tensor):
        made.append((module, name, name in module._buffers))
        module._buffers.pop(name, None)
        object.__setattr__(module, name, tensor)

    def register_buffer(module, name, tensor, persistent=True):
        if tensor is None or vars(module).get("_buffers", {}).get(name) is not None or name in vars(module):
            return register(module, name, tensor, persistent)
        return keep(module, name, tensor)

    def set_attribute(module, name, value):
        if isinstance(value, torch.Tensor) and vars(module).get("_buffers", {}).get(name, value) is None:
            return keep(module, name, value)
        return assign(module, name, value)

    with replaced((torch.nn.Module, "register_buffer", register_buffer), (torch.nn.Module, "__setattr__", set_attribute)):
        try:
            yield
        finally:
            for module, name, was_there in made:
                vars(module).pop(name, None)
                if was_there:
                    module._buffers[name] = None


@contextlib.contextmanager
def _recording_no_grad(inside):
    """Annotates what the model computes without gradient, by whichever switch: exports keep no trace of it. `inside`: whether
    gradients were on outside of each torch.autograd.Function that runs; its forward always runs without.

    The switches work, but the tracer does not see them: it would move the region into a sub-graph whose nodes lose their
    module path. Each node that is made while they are off has the mark.
    """
    switch, create_node, was_on = torch._C._set_grad_enabled, torch.fx.proxy.TracerBase.create_node, torch.is_grad_enabled()

    def hidden(mode):
        with torch._C.DisableTorchFunction():
            switch(mode)

    def marked(tracer, *args, **kwargs):
        node = create_node(tracer, *args, **kwargs)
        if not (inside[0] if inside else torch.is_grad_enabled()):
            node.meta["custom"] = {**node.meta.get("custom", {}), NO_GRAD: True}
        return node

    def enter_inference(region):
        region._piper_was_on = torch.is_grad_enabled()
        hidden(not region.mode and region._piper_was_on)

    with replaced((torch._C, "_set_grad_enabled", hidden), (torch.fx.proxy.TracerBase, "create_node", marked),
                   (torch.inference_mode, "__enter__", enter_inference),
                   (torch.inference_mode, "__exit__", lambda region, *_: hidden(region._piper_was_on))):
        hidden(True)
        try:
            yield
        finally:
            hidden(was_on)


@contextlib.contextmanager
def _replacing_functions(allowed, causes, inside):
    """Functions with a backward of their own: a reentrant checkpoint becomes what it computes, others are refused."""
    from torch.utils.checkpoint import CheckpointFunction
    original = torch.autograd.Function.__dict__["apply"]

    def apply(cls, *args, **kwargs):
        if cls is CheckpointFunction:
            causes.append("a reentrant checkpoint (use_reentrant=True) none of whose arguments has a gradient, which trains nothing "
                          "that is inside")
            function, _preserve_random_state, *rest = args
            return function(*rest)
        if cls.__module__.split(".")[0] != "torch":
            if not allowed:
                raise ExportError(
                    f"the model uses the torch.autograd.Function '{cls.__qualname__}': an export keeps its forward and "
                    "loses its backward. Write it with ordinary operators, or pass allow_custom_functions=True "
                    "where the backward is the derivative of the forward")
            causes.append(f"the torch.autograd.Function '{cls.__qualname__}', whose backward is not the derivative of its forward")
        inside.append(torch.is_grad_enabled())
        try:
            return original.__get__(None, cls)(*args, **kwargs)
        finally:
            inside.pop()

    with replaced((torch.autograd.Function, "apply", classmethod(apply))):
        yield


@contextlib.contextmanager
def _refusing_autograd(allow_hooks, causes):
    """Calls by which a forward reaches into the backward."""
    def hook_on(what, register):
        def refuse(tensor, hook, *args, **kwargs):
            _refuse_hook(f"{place()} registers the hook '{_name(hook)}' on {what}", allow_hooks, causes)
            return register(tensor, hook, *args, **kwargs)
        return refuse

    def multi_hook(_tensors, hook, **_):
        _refuse_hook(f"{place()} registers the hook '{_name(hook)}' on gradients", allow_hooks, causes)
        return contextlib.nullcontext()

    def backward(*_, **__):
        raise ExportError(f"{place()} computes gradients inside forward (backward, torch.autograd.grad): an export has no "
                          "place for them")

    def enter_saved(hooks):
        if not hooks.pack_hook.__module__.startswith("torch."):
            causes.append(f"saved_tensors_hooks at {place()}, which change what the backward reads")
        enter(hooks)

    saved = torch.autograd.graph.saved_tensors_hooks
    enter = saved.__enter__
    with replaced((torch.Tensor, "register_hook", hook_on("a gradient", torch.Tensor.register_hook)),
                   (torch.Tensor, "register_post_accumulate_grad_hook",
                    hook_on("a parameter's gradient", torch.Tensor.register_post_accumulate_grad_hook)),
                   (torch.autograd.graph, "register_multi_grad_hook", multi_hook), (torch.autograd, "grad", backward),
                   (torch.autograd, "backward", backward), (saved, "__enter__", enter_saved),
                   (torch.Tensor, "data", property(lambda tensor: tensor.detach(), torch.Tensor.data.__set__))):
        yield


def _name(hook):
    return getattr(hook, "__qualname__", type(hook).__qualname__)


def _refuse_hook(what, allowed, causes):
    if not allowed:
        raise ExportError(f"{what}: an export loses it, and what it does to gradients. Write it with ordinary operators, or remove it; "
                          "pass allow_hooks=True where it changes no gradient")
    causes.append(what)


def refuse_hooks(model, allowed, causes):
    """Hooks on gradients that modules and parameters have."""
    where = torch.nn.modules.module
    found = [("every module", hook) for hook in (*where._global_backward_hooks.values(), *where._global_backward_pre_hooks.values())]
    for name, module in model.named_modules():
        found += [(f"the module '{name}'", hook) for hook in (*module._backward_hooks.values(), *module._backward_pre_hooks.values())]
    for name, parameter in model.named_parameters():
        for hooks in (parameter._backward_hooks, parameter._post_accumulate_grad_hooks):
            found += [(f"the parameter '{name}'", hook) for hook in (hooks or {}).values()]
    for owner, hook in found:
        _refuse_hook(f"{owner} has the backward hook '{_name(hook)}'", allowed, causes)


def refuse_shared_memory(model):
    owners = {parameter.untyped_storage().data_ptr(): name for name, parameter in model.named_parameters()
              if parameter.device.type != "meta" and parameter.requires_grad and parameter.numel()}
    for name, buffer in model.named_buffers():
        owner = owners.get(buffer.untyped_storage().data_ptr()) if buffer.device.type != "meta" and buffer.numel() else None
        if owner is not None:
            raise ExportError(f"the buffer '{name}' shares the memory of the parameter '{owner}', so that the optimizer changes it: "
                              "a file has two tensors. Read the parameter instead, or register a clone")
