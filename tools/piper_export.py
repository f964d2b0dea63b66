#!/usr/bin/env python3
"""Export a PyTorch model with its loss to a file that piper trains exactly: ONNX, or torch's own `.pt2`.

    from piper_export import export
    export(model, {"input_ids": ids, "labels": labels}, "model.onnx")   # or "model.pt2"

    python piper_export.py module.py:make_model -o model.onnx
    # make_model() returns (model, example_inputs) or (model, example_inputs, options of export)
    python piper_export.py module.py:make_model -o model.pt2 --no-weights     # shapes alone: a model of any size

One file, though long: users copy it to where their models are. Beside it piper_export_onnx.py writes the ONNX, and
piper_export_one_sample.py says whether forward does with one sample what it does with several.

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
import collections
import contextlib
import functools
import importlib.util
import inspect
import math
import pathlib
import random
import re
import sys
import traceback
import types
import warnings

import torch

try:
    import piper_export_one_sample
    import piper_export_onnx
except ModuleNotFoundError:    # copied alone
    piper_export_one_sample = piper_export_onnx = None

_NO_GRAD = "piper_no_grad"


class ExportError(ValueError):
    """The model cannot be exported so that it would train as it does in PyTorch."""


def export(model: torch.nn.Module, example_inputs, path, *, loss=None, static_inputs=(), dynamic=None, batch_axis_name="B",
           opset=20, external_data=None, allow_custom_functions=False, allow_hooks=False, weights=True, check=True) -> pathlib.Path:
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
    check: compare what is written with the model's own step (see _Check). It takes memory for four copies of the weights more.
    """
    inputs = _named_inputs(model, example_inputs)
    path = pathlib.Path(path)
    if path.suffix != ".pt2" and piper_export_onnx is None:
        raise ExportError("an ONNX file needs piper_export_onnx.py beside piper_export.py; a .pt2 does not")
    shapes = _dynamic_shapes(inputs, set(static_inputs), dynamic or {}, batch_axis_name)
    causes: list[str] = []
    with _as_trained(model, loss):
        refuse_hooks = functools.partial(_refuse_hooks, model, allow_hooks, causes)
        refuse_hooks()
        _refuse_shared_memory(model)
        as_traced = functools.partial(_tracing, model, allow_custom_functions, allow_hooks, causes)
        if not weights:
            return _not_checked("it is written without weights", _export_shapes(model, inputs, path, shapes, as_traced, refuse_hooks))
        state = _State(model, values=check)
        try:
            with as_traced():
                with _told("torch.export cannot trace the model"):
                    program, shapes, notes = _traced(model, inputs, shapes, refuse_hooks)
                    exported = program
                if path.suffix != ".pt2":
                    with _told("torch.onnx.export cannot write the model as ONNX"):
                        onnx_program = piper_export_onnx.onnx_of(program, inputs, shapes, opset)
                    exported = onnx_program.exported_program
            _check_outputs(exported)
            state.restore_all()    # a forward may have registered buffers
            reason = _Check(model, exported, inputs, state, causes).compare() if check else None
        finally:
            state.restore_all()
    if path.suffix == ".pt2":
        _save_pt2(program, path, shapes, notes)
    else:
        piper_export_onnx.save(model, onnx_program, path, external_data, _NO_GRAD, _short_trace, notes)
    return path if reason is None else _not_checked(reason, path)


def _not_checked(reason, path):
    print(f"piper_export: {path}: not checked against the model's own step: {reason}", file=sys.stderr)
    return path


@contextlib.contextmanager
def _told(what):
    """What torch raises here for reasons of its own is an ExportError, with its first cause and the model's line."""
    try:
        yield
    except ExportError:
        raise
    except Exception as error:
        cause = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, ExportError):    # raised while a tracer ran forward
            raise cause from error
        raise ExportError(f"{what}: {_first_line(cause)}{_line_of(cause)}") from error


def _line_of(error):
    """" (file.py, line 3)": the innermost line of an error's traceback that is neither torch's nor of this file, or nothing."""
    found = [f for f, _ in traceback.walk_tb(error.__traceback__)
             if f.f_globals.get("__name__", "").split(".")[0] not in ("torch", "contextlib") and f.f_globals is not globals()]
    frames = [(pathlib.Path(f.f_code.co_filename).name, line) for f, line in traceback.walk_tb(error.__traceback__) if f in found]
    return f" ({frames[-1][0]}, line {frames[-1][1]})" if frames else ""


@contextlib.contextmanager
def _as_trained(model, loss):
    """The model in training mode, and everything about its forward as a step of training needs it."""
    modes = [(module, module.training) for module in model.modules()]
    model.train()
    try:
        with warnings.catch_warnings(), _returning_loss(model, loss), _without_cache(model):
            warnings.simplefilter("ignore")
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def _tracing(model, allow_custom_functions, allow_hooks, causes):
    """While the model is traced: what autograd sees and a tracer does not is recorded, done in another way, or refused. All this
    is in place only while forward runs: what torch itself looks up meanwhile is as ever."""
    def wrap(forward):
        def watched(*args, **kwargs):
            inside: list[bool] = []
            with (_recording_no_grad(inside), _replacing_functions(allow_custom_functions, causes, inside),
                  _refusing_autograd(allow_hooks, causes), _without_new_buffers()):
                return forward(*args, **kwargs)
        return watched
    return _with_forward(model, wrap)


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

    with _replaced((torch.nn.Module, "register_buffer", register_buffer), (torch.nn.Module, "__setattr__", set_attribute)):
        try:
            yield
        finally:
            for module, name, was_there in made:
                vars(module).pop(name, None)
                if was_there:
                    module._buffers[name] = None


def _traced(model, inputs, shapes, refuse_hooks):
    """The program, the shapes that it is for (fewer where forward's own indices need a larger batch) and notes for its file."""
    before, notes = _State(model, values=False), {}
    program, shapes = _traced_for_several(model, inputs, shapes)
    refuse_hooks()
    before.restore_all()    # forward may count its calls
    if piper_export_one_sample is not None:
        notes = piper_export_one_sample.notes(program, inputs, shapes, functools.partial(_trace, model), _NO_GRAD)
    before.restore_all()
    return program, shapes, notes


def _traced_for_several(model, inputs, shapes):
    extents = [inputs[name].shape[axis] for name, axes in shapes.items() for axis in axes]
    for least in range(3, min(extents, default=2) + 2):
        try:
            return _trace(model, inputs, shapes), shapes
        except torch._dynamo.exc.UserError as error:
            if "Constraints violated" not in str(error) or least > min(extents):
                raise
        dims = {dim.__name__: torch.export.Dim(dim.__name__, min=least) for axes in shapes.values() for dim in axes.values()}
        shapes = {name: {axis: dims[dim.__name__] for axis, dim in axes.items()} for name, axes in shapes.items()}


def _trace(model, inputs, shapes=None):
    with torch.fx.traceback.preserve_node_meta():
        program = torch.export.export(model, (), kwargs=inputs, dynamic_shapes=shapes, strict=False)
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.find_nodes(op="call_function", target=torch.ops.aten.detach_.default):
                node.target = torch.ops.aten.detach.default    # what reads the tensor from here on reads this node
            module.recompile()
    return program


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


def _export_shapes(model, inputs, path, shapes, as_traced, refuse_hooks):
    """Exports with every tensor on the meta device, and puts the values of buffers back."""
    if path.suffix != ".pt2":
        raise ExportError("a model without weights is written as .pt2: name the file so")
    lost = [name for name, buffer in model.named_buffers() if buffer.device.type == "meta"]
    if lost:
        raise ExportError(f"the buffers {', '.join(lost[:5])} are on the meta device and have no values; "
                          "make the model under piper_export.without_weights(), which keeps buffers")
    buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers(remove_duplicate=False)}
    on_meta: dict[int, torch.Tensor] = {}
    state = _State(model, values=False)
    try:
        for module in model.modules():
            for table, make in ((module._parameters, _shape_of), (module._buffers, lambda b: torch.empty_like(b, device="meta"))):
                for name, tensor in table.items():
                    if tensor is not None:
                        table[name] = on_meta.setdefault(id(tensor), make(tensor))
        ties: dict[int, list[str]] = {}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            ties.setdefault(id(parameter), []).append(name)
        with as_traced(), _told("torch.export cannot trace the model"):
            program, shapes, notes = _traced(model, {name: tensor.to("meta") for name, tensor in inputs.items()}, shapes,
                                             refuse_hooks)
    finally:
        state.restore_all()
    for table in (program.state_dict, program.constants):
        table.update({name: buffers[name] for name in table if name in buffers})
    tied = "".join(" ".join(names) + "\n" for names in ties.values() if len(names) > 1)
    _save_pt2(program, path, shapes, {"piper.tied": tied, **notes})
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


@contextlib.contextmanager
def _with_forward(model, wrap):
    """model.forward is wrap(what it is), with the same signature; parameter names stay as they are."""
    forward = model.forward
    inner = wrap(forward)

    def replacing(_self, *args, **kwargs):
        return inner(*args, **kwargs)

    signature = inspect.signature(forward)
    first = inspect.Parameter("_self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    replacing.__signature__ = signature.replace(parameters=[first, *signature.parameters.values()])
    had_own = "forward" in vars(model)
    model.forward = types.MethodType(replacing, model)
    try:
        yield
    finally:
        if had_own:
            model.forward = forward
        else:
            del model.forward


def _returning_loss(model, loss):
    def wrap(forward):
        def with_loss(*args, **kwargs):
            outputs = forward(*args, **kwargs)
            if loss is not None:
                return loss(outputs, dict(inspect.signature(forward).bind_partial(*args, **kwargs).arguments))
            return outputs if isinstance(outputs, torch.Tensor) else getattr(outputs, "loss", outputs)
        return with_loss
    return _with_forward(model, wrap)


@contextlib.contextmanager
def _replaced(*places):
    """(object, attribute, value): the values, and afterwards what was there."""
    before = [(owner, name, vars(owner).get(name)) for owner, name, _ in places]
    try:
        for owner, name, value in places:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value) if value is not None else delattr(owner, name)


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
            node.meta["custom"] = {**node.meta.get("custom", {}), _NO_GRAD: True}
        return node

    def enter_inference(region):
        region._piper_was_on = torch.is_grad_enabled()
        hidden(not region.mode and region._piper_was_on)

    with _replaced((torch._C, "_set_grad_enabled", hidden), (torch.fx.proxy.TracerBase, "create_node", marked),
                   (torch.inference_mode, "__enter__", enter_inference),
                   (torch.inference_mode, "__exit__", lambda region, *_: hidden(region._piper_was_on))):
        hidden(True)
        try:
            yield
        finally:
            hidden(was_on)


@contextlib.contextmanager
def _without_cache(model):
    """transformers models build key-value caches by default: of no use in training."""
    configs = [m.config for m in model.modules() if getattr(getattr(m, "config", None), "use_cache", False) is True]
    for config in configs:
        config.use_cache = False
    try:
        yield
    finally:
        for config in configs:
            config.use_cache = True


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

    with _replaced((torch.autograd.Function, "apply", classmethod(apply))):
        yield


@contextlib.contextmanager
def _refusing_autograd(allow_hooks, causes):
    """Calls by which a forward reaches into the backward."""
    def hook_on(what, register):
        def refuse(tensor, hook, *args, **kwargs):
            _refuse_hook(f"{_place()} registers the hook '{_name(hook)}' on {what}", allow_hooks, causes)
            return register(tensor, hook, *args, **kwargs)
        return refuse

    def multi_hook(_tensors, hook, **_):
        _refuse_hook(f"{_place()} registers the hook '{_name(hook)}' on gradients", allow_hooks, causes)
        return contextlib.nullcontext()

    def backward(*_, **__):
        raise ExportError(f"{_place()} computes gradients inside of forward (backward, torch.autograd.grad): an export has no "
                          "place for them")

    def enter_saved(hooks):
        if not hooks.pack_hook.__module__.startswith("torch."):
            causes.append(f"saved_tensors_hooks at {_place()}, which change what the backward reads")
        enter(hooks)

    saved = torch.autograd.graph.saved_tensors_hooks
    enter = saved.__enter__
    with _replaced((torch.Tensor, "register_hook", hook_on("a gradient", torch.Tensor.register_hook)),
                   (torch.Tensor, "register_post_accumulate_grad_hook",
                    hook_on("a parameter's gradient", torch.Tensor.register_post_accumulate_grad_hook)),
                   (torch.autograd.graph, "register_multi_grad_hook", multi_hook), (torch.autograd, "grad", backward),
                   (torch.autograd, "backward", backward), (saved, "__enter__", enter_saved),
                   (torch.Tensor, "data", property(lambda tensor: tensor.detach(), torch.Tensor.data.__set__))):
        yield


def _place():
    """The innermost line of the model's own code that is running."""
    frame = sys._getframe(1)
    while frame.f_back and (frame.f_globals.get("__name__", "").split(".")[0] == "torch" or frame.f_globals is globals()):
        frame = frame.f_back
    return f"{pathlib.Path(frame.f_code.co_filename).name}, line {frame.f_lineno}"


def _name(hook):
    return getattr(hook, "__qualname__", type(hook).__qualname__)


def _refuse_hook(what, allowed, causes):
    if not allowed:
        raise ExportError(f"{what}: an export loses it, and what it does to gradients. Write it with ordinary operators, or remove it; "
                          "pass allow_hooks=True where it changes no gradient")
    causes.append(what)


def _refuse_hooks(model, allowed, causes):
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


class _State:
    """What a step or a trace may change of a model: its tensors and their gradients, attributes of its modules, random numbers.
    Without `values` tensors are not copied: a trace does not change them."""

    def __init__(self, model, values=True):
        self.model = model
        self.modules = [(module, dict(vars(module)), {name: dict(table) for name, table in vars(module).items()
                                                      if type(table) in (dict, collections.OrderedDict)}) for module in model.modules()]
        tensors = [*model.parameters(), *model.buffers()]
        tensors += [v for _, attributes, _ in self.modules for v in attributes.values() if isinstance(v, torch.Tensor)]
        self.tensors = [(t, t.detach().clone(), t.is_leaf, t.grad if t.is_leaf else None, t.requires_grad)
                        for t in {id(t): t for t in tensors if values}.values()]
        self.random = (torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None)
        self.numpy = sys.modules.get("numpy")
        self.others = random.getstate(), self.numpy and self.numpy.random.get_state()

    def restore(self, attributes=True):
        """All but Python's and numpy's random numbers. Without `attributes` what the last step has left in them stays."""
        for module, values, tables in self.modules:
            if attributes:
                vars(module).clear()
                vars(module).update(values)
            for name, table in tables.items():    # hooks are in such tables, too
                if attributes or name in ("_parameters", "_buffers", "_modules"):
                    values[name].clear()
                    values[name].update(table)
        for tensor, value, is_leaf, gradient, requires_grad in self.tensors:
            if is_leaf:
                tensor = tensor if tensor.is_leaf else tensor.detach_()
                tensor.requires_grad_(requires_grad).grad = gradient
            tensor.data = value.clone() if tensor.shape != value.shape else tensor.data.copy_(value)
        torch.set_rng_state(self.random[0])
        if self.random[1] is not None:
            torch.cuda.set_rng_state_all(self.random[1])

    def restore_all(self):
        self.restore()
        random.setstate(self.others[0])
        if self.numpy:
            self.numpy.random.set_state(self.others[1])

    def drew_others(self):
        return random.getstate() != self.others[0] or bool(self.numpy and str(self.numpy.random.get_state()) != str(self.others[1]))

    def changed_attributes(self):
        names = {module: name for name, module in self.model.named_modules()}
        return [f"{names[module]}.{key}".lstrip(".") for module, values, _ in self.modules for key, value in vars(module).items()
                if values.get(key) is not value]


class _Marked(torch.fx.Interpreter):
    """Runs an exported program as it is trained: nodes with the mark of _recording_no_grad without gradient."""

    def run_node(self, n):
        with torch.set_grad_enabled(torch.is_grad_enabled() and not (n.meta.get("custom") or {}).get(_NO_GRAD)):
            return super().run_node(n)

    def call_function(self, target, args, kwargs):
        if target is torch.ops.aten.copy.default:    # what a write in place becomes; PyTorch has no derivative for it
            return args[1].to(args[0].dtype).expand(args[0].shape).clone()
        return super().call_function(target, args, kwargs)

    def get_attr(self, target, args, kwargs):
        value = super().get_attr(target, args, kwargs)
        return (lambda *inner: _Marked(value).run(*inner)) if isinstance(value, torch.fx.GraphModule) else value


def _norm(tensor):
    return torch.linalg.vector_norm(tensor, dtype=torch.float64).item() if tensor.is_floating_point() else _norm(tensor.double())


class _Step:
    """What a step gives: its loss, the gradients and the tensors that it has changed, by name, the state of the random numbers.

    forward: returns the loss, and a function that returns the parameters and buffers after the step, by name.
    before: the same before it. first_names: of a tied tensor the first of its names, for each of them.
    scale: the gradient of the loss; the gradients are divided by it.
    """

    def __init__(self, forward, before, first_names, scale=1.0):
        with torch.enable_grad():
            loss, after = forward()
        self.random = torch.get_rng_state()
        if loss.requires_grad:
            loss.backward(torch.full_like(loss, scale))
        self.loss, self.gradients, self.changed = loss.item(), {}, {}
        for name, tensor in after().items():
            gradient, old, name = tensor.grad if tensor.is_leaf else None, before[name], first_names[name]
            if gradient is not None:
                gradient = gradient.to_dense() if gradient.layout != torch.strided else gradient
                self.gradients[name], tensor.grad = gradient if scale == 1 else gradient / scale, None
            if tensor.dtype != old.dtype or tensor.shape != old.shape or not ((tensor == old) | (tensor != tensor)).all():
                self.changed[name] = tensor.detach().clone()

    def is_finite(self):
        return all(map(math.isfinite, (self.loss, *map(_norm, self.gradients.values()))))

    def difference(self, other, name):
        """Norms of the difference of a gradient and of the gradient; one that is not there is 0."""
        mine, others = self.gradients.get(name), other.gradients.get(name)
        if mine is None or others is None:
            present = mine if others is None else others
            return (0.0, 0.0) if present is None else 2 * (_norm(present),)
        return _norm(mine - others), _norm(mine)


class _Check:
    """Compares an exported program with the model's own step on the example inputs: the loss, every gradient, every buffer after
    the step. Both run with the same random numbers and the same kernels, so that 1e-5 of the norm is a hundred times what
    rounding makes of it. Where a gradient is nothing but rounding (a key's bias), ten times what another scale of the loss does.

    The model runs twice, the second time with its loss scaled and its attributes as the first has left them: so a gradient that is
    clipped on its way is seen, and a forward that depends on what it has changed itself. Where a gradient is 0 (after a weight
    that starts at 0) nothing is compared, so all is done again with weights and inputs that are moved a little.
    """

    def __init__(self, model, exported, inputs, state, causes, moved=False):
        self.model, self.exported, self.inputs, self.state, self.moved = model, exported, inputs, state, moved
        self.causes = list(dict.fromkeys(causes))
        self.tensors = self._named()
        values = {id(tensor): value for tensor, value, *_ in state.tensors}
        first: dict[int, str] = {}
        self.first_names = {name: first.setdefault(id(tensor), name) for name, tensor in self.tensors.items()}
        self.before = {name: values[id(tensor)] for name, tensor in self.tensors.items()}

    def compare(self):
        """Why nothing could be compared, or None. Raises ExportError where the program is another one."""
        if any(tensor.device.type == "meta" for tensor in self.tensors.values()):
            return "it has tensors on the meta device"
        try:
            own = self._own_step()
            again = self._own_step(1.1 * 2**20, attributes=False)
            if not again.is_finite():    # in 16 bits
                again = self._own_step(1.1, attributes=False)
        except Exception as error:
            return f"on the example inputs it fails: {_first_line(error)}"
        if not own.is_finite():
            return "its loss or a gradient is no finite number on the example inputs"
        if (reason := self._unlike_itself(own, again)) is not None:
            return reason
        noise = {name: own.difference(again, name)[0] for name in own.gradients}
        del again
        try:
            program = self._program_step()
        except Exception as error:
            return f"what is written does not run in PyTorch: {_first_line(error)}"
        fault = self._fault(own, program, noise)
        if fault and not torch.equal(own.random, program.random):
            return "what is written draws its random numbers in another order"
        if fault:
            raise self._error(f"what would be written is not the model: {fault}")
        still = any(own.difference(program, name) == (0, 0) for name in {**own.gradients, **program.gradients})
        del own, program
        if still and not self.moved:
            self._compare_moved()
        if self.state.drew_others():
            return "it draws random numbers of Python or numpy, and a file holds those of one step"
        return None

    def _named(self):
        return {**dict(self.model.named_parameters(remove_duplicate=False)), **dict(self.model.named_buffers(remove_duplicate=False))}

    def _own_step(self, scale=1.0, attributes=True):
        self.state.restore(attributes)
        for parameter in self.model.parameters():
            parameter.grad = None

        def forward():
            loss = self.model(**{name: value.clone() for name, value in self.inputs.items()})
            return loss, lambda: {name: tensor for name, tensor in self._named().items() if name in self.before}
        return _Step(forward, self.before, self.first_names, scale)

    def _program_step(self):
        """The program's, on copies of the model's tensors."""
        self.state.restore()
        signature, copies, arguments, named = self.exported.graph_signature, {}, [], {}
        for spec in signature.input_specs:
            original = self.tensors.get(spec.target)
            if original is not None:
                if id(original) not in copies:
                    copies[id(original)] = original.detach().clone().requires_grad_(original.requires_grad)
                named[spec.target] = copies[id(original)]
            stored = self.inputs.get(spec.arg.name) if spec.target is None else self.exported.constants.get(spec.target)
            arguments.append(named[spec.target] if original is not None else stored.clone())

        def forward():
            outputs = _Marked(self.exported.graph_module).run(*arguments, enable_io_processing=False)
            for spec, value in zip(signature.output_specs, outputs, strict=True):
                if spec.target in named:    # the buffer's value after the step
                    named[spec.target] = value
            kinds = [spec.kind for spec in signature.output_specs]
            return outputs[kinds.index(torch.export.graph_signature.OutputKind.USER_OUTPUT)], lambda: named
        return _Step(forward, self.before, self.first_names)

    def _unlike_itself(self, own, again):
        """As compare: whether the model's second step is its first."""
        largest = max((_norm(g) for g in own.gradients.values()), default=0.0)
        bent = [name for name in {**own.gradients, **again.gradients} for error, norm in [own.difference(again, name)]
                if error > max(0.1 * norm, 1e-5 * largest, 1e-5 * abs(own.loss) / max(_norm(self.before[name]), 1e-3))]    # or rounding
        same_loss = abs(own.loss - again.loss) <= 1e-6 * abs(own.loss)
        if same_loss and not bent:
            return None
        changed = self.state.changed_attributes()
        third = self._own_step()
        if own.loss != third.loss or self._fault(own, third, {}):
            return "two runs of it on the same inputs differ"
        if not same_loss:
            raise ExportError(f"forward depends on what the step before has left in {', '.join(changed[:5])}: a file has only what "
                              "a buffer or an input holds")
        raise self._error(f"the gradient of '{bent[0]}' is not in proportion to that of the loss, so something changes it on its way")

    def _fault(self, own, other, noise):
        """What differs, in words, or nothing."""
        for name in own.changed:
            if isinstance(self.tensors[name], torch.nn.Parameter):
                return f"forward changes the parameter '{name}'; only the optimizer does so in a plan"
        if not abs(own.loss - other.loss) <= 1e-5 * abs(own.loss):
            return f"its loss is {other.loss:.7g}, the model's {own.loss:.7g}"
        largest, faults = max((_norm(g) for g in own.gradients.values()), default=0.0), []
        for name in {**own.gradients, **other.gradients}:
            error, norm = own.difference(other, name)
            if not error <= 1e-5 * norm + 10 * noise.get(name, 0.0) + 1e-9 * largest:
                how = ("has no gradient in it" if name not in other.gradients else "has a gradient in it and none in the model"
                       if name not in own.gradients else f"has a gradient in it that differs by {error:.3g}; its norm is {norm:.3g}")
                faults.append(f"'{name}' {how}")
        if faults:
            return faults[0] + (f", and {len(faults) - 1} others" if len(faults) > 1 else "")
        for name in {**own.changed, **other.changed}:
            mine, others = (step.changed.get(name, self.before[name]).double() for step in (own, other))
            if mine.shape != others.shape or not _norm(mine - others) <= 1e-5 * _norm(mine):
                return f"the buffer '{name}' has another value after the step"
        return ""

    def _error(self, what):
        causes = self.causes or ["a hook on a grad_fn, or a write through .data, which no tracer sees"]
        return ExportError(f"{what}. The likely cause: {'; or '.join(causes)}")

    def _compare_moved(self):
        self.state.restore()
        draws = torch.Generator().manual_seed(0)

        def moved(tensor, draw):
            return 0.02 * draw(tensor.shape, generator=draws).to(tensor) if tensor.is_floating_point() else 0

        for parameter in self.model.parameters():
            parameter.data += moved(parameter, torch.randn)
        inputs = {name: value + moved(value, torch.rand) for name, value in self.inputs.items()}
        _Check(self.model, self.exported, inputs, _State(self.model), self.causes, moved=True).compare()


def _first_line(error):
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def _refuse_shared_memory(model):
    owners = {parameter.untyped_storage().data_ptr(): name for name, parameter in model.named_parameters()
              if parameter.device.type != "meta" and parameter.requires_grad and parameter.numel()}
    for name, buffer in model.named_buffers():
        owner = owners.get(buffer.untyped_storage().data_ptr()) if buffer.device.type != "meta" and buffer.numel() else None
        if owner is not None:
            raise ExportError(f"the buffer '{name}' shares the memory of the parameter '{owner}', so that the optimizer changes it: "
                              "a file has two tensors. Read the parameter instead, or register a clone")


def _check_outputs(program):
    outputs = [s.arg for s in program.graph_signature.output_specs if s.kind == torch.export.graph_signature.OutputKind.USER_OUTPUT]
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    if len(outputs) != 1 or not isinstance(values.get(outputs[0].name), torch.Tensor) or values[outputs[0].name].dim() != 0:
        found = ", ".join(f"{o.name} {tuple(getattr(values.get(getattr(o, 'name', None)), 'shape', ()))}" for o in outputs)
        raise ExportError(f"forward must return one scalar loss, but the export returns {found}; pass loss=function(outputs, inputs)")


def _save_pt2(program, path, shapes, notes):
    _check_outputs(program)
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    names = []
    for name, axes in shapes.items():
        for axis, dim in axes.items():
            symbol = str(values[name].shape[axis])
            if symbol.isidentifier():
                names.append(f"{symbol} {dim.__name__}\n")
    for module in program.graph_module.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            if node.meta.get("stack_trace"):
                node.meta["stack_trace"] = _short_trace(node.meta["stack_trace"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(program, str(path), extra_files={"piper.dims": "".join(dict.fromkeys(names)), **notes})


def _short_trace(trace):
    frames = re.split(r'(?m)^(?=\s*File ")', trace)
    own = [f for f in frames if f.strip() and "/torch/" not in f] or frames[-1:]
    return "".join(re.sub(r'File "[^"]*[/\\]([^"/\\]+)"', r'File "\1"', f) for f in own)


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


def main() -> int:
    parser = argparse.ArgumentParser(description="Export a PyTorch model with its loss for piper.")
    parser.add_argument("model", help="module.py:function; the function returns (model, example_inputs[, options])")
    parser.add_argument("-o", "--out", required=True, help="the file to write: .onnx or .pt2")
    parser.add_argument("--opset", type=int, default=20)
    parser.add_argument("--no-weights", action="store_true",
                        help="write shapes of parameters and no values, and allocate none: for piperc --weights none")
    parser.add_argument("--no-check", action="store_true",
                        help="do not compare what is written with the model's own step: for models too big to run here")
    args = parser.parse_args()
    try:
        make_model = _load(args.model)
        with without_weights() if args.no_weights else contextlib.nullcontext():
            model, inputs, *rest = make_model()
        options = {"opset": args.opset, "weights": not args.no_weights, "check": not args.no_check, **(rest[0] if rest else {})}
        path = export(model, inputs, args.out, **options)
    except ExportError as error:
        print(f"piper_export: {error}", file=sys.stderr)
        return 1
    print(f"{path}: {path.stat().st_size} bytes, {sum(p.numel() for p in model.parameters())} parameters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
