"""Compares an exported program with the model's own step: a tracer does not see all that autograd does."""
from __future__ import annotations

import math

import torch

from piper_export_autograd import NO_GRAD
from piper_export_error import ExportError, first_line
from piper_export_state import State
from piper_export_tracing import in_pairs

# The second step's loss has a factor of 2 to the largest of these powers that leaves its gradients finite in their type.
POWERS = (20, 10, 4, 0)


class _Marked(torch.fx.Interpreter):
    """Runs an exported program as it is trained: nodes with the mark of _recording_no_grad without gradient."""

    def run_node(self, n):
        with torch.set_grad_enabled(torch.is_grad_enabled() and not (n.meta.get("custom") or {}).get(NO_GRAD)):
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

    def smallest(self, name):
        """Numbers below this one have fewer digits in the type of a gradient."""
        gradient = self.gradients.get(name)
        return 0.0 if gradient is None else torch.finfo(gradient.dtype).smallest_normal


class Check:
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
            for power in POWERS:
                again = self._own_step(1.1 * 2**power, attributes=False)
                if again.is_finite():
                    break
        except Exception as error:
            return f"on the example inputs it fails: {first_line(error)}"
        if not own.is_finite():
            return "its loss or a gradient is no finite number on the example inputs"
        if (reason := self._unlike_itself(own, again, power)) is not None:
            return reason
        noise = {name: own.difference(again, name)[0] for name in own.gradients}
        del again
        try:
            program = self._program_step()
        except Exception as error:
            return f"what is written does not run in PyTorch: {first_line(error)}"
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
            if original is not None and original.is_complex():
                arguments.append(in_pairs(original.detach()))
                continue
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

    def _unlike_itself(self, own, again, power):
        """As compare: whether the model's second step, whose loss has a factor of 1.1 * 2**power, is its first."""
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
        # A factor of a power of two changes no rounding, so that here only what a type is too small for makes a difference.
        doubled = self._own_step(2.0**power)
        bent = [name for name in bent for error, norm in [own.difference(doubled, name)]
                if not error <= 1e-6 * norm + own.smallest(name)]
        if not bent:
            return None
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
        Check(self.model, self.exported, inputs, State(self.model), self.causes, moved=True).compare()
