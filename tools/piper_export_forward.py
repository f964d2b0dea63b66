"""The model as a step of training needs it: in training mode, its forward returning the loss, what it runs replaced for a while."""
from __future__ import annotations

import contextlib
import inspect
import types
import warnings

import torch


@contextlib.contextmanager
def as_trained(model, loss):
    """The model in training mode, and everything about its forward as a step of training needs it. Parts that were put into evaluation mode
    within a model in training mode (frozen norms) stay in it."""
    modes = [(module, module.training) for module in model.modules()]
    if not model.training:
        model.train()
    try:
        with warnings.catch_warnings(), returning_loss(model, loss), _without_cache(model):
            warnings.simplefilter("ignore")
            yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextlib.contextmanager
def with_forward(model, wrap):
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


def returning_loss(model, loss):
    def wrap(forward):
        def with_loss(*args, **kwargs):
            outputs = forward(*args, **kwargs)
            if loss is not None:
                return loss(outputs, dict(inspect.signature(forward).bind_partial(*args, **kwargs).arguments))
            return outputs if isinstance(outputs, torch.Tensor) else getattr(outputs, "loss", outputs)
        return with_loss
    return with_forward(model, wrap)


@contextlib.contextmanager
def replaced(*places):
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
