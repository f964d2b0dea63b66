"""What a step or a trace may change of a model, and how it is put back."""
from __future__ import annotations

import collections
import random
import sys

import torch


class State:
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
