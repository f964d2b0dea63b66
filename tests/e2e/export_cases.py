"""The models of export_checks.py, and what comes of each."""
import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

RIGHT = "right"
CASES = []


class Net(nn.Module):
    """Three layers, and a forward that a case writes."""

    def __init__(self, run, prepare=None):
        super().__init__()
        self.a, self.m, self.b = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.run = run
        if prepare:
            prepare(self)

    def forward(self, x, y):
        return self.run(self, x, y)


def case(name, expected=RIGHT, prepare=None, containers=("pt2", "onnx"), **options):
    """The decorated function is the forward; `expected`: RIGHT, or words of the refusal. One container where the other takes the
    same way to the answer."""
    def add(run):
        CASES.append((name, lambda: Net(run, prepare), expected, containers, options))
        return run
    return add


def hidden(s, x):
    return torch.tanh(s.a(x))


def ends(s, h, y):
    return F.mse_loss(s.b(h), y)


# ---------------------------------------------------------------- reentrant checkpoints
@case("checkpoint: a module")
def _(s, x, y):
    return ends(s, checkpoint(s.m, hidden(s, x), use_reentrant=True), y)


@case("checkpoint: a function of two tensors, one without gradient")
def _(s, x, y):
    return ends(s, checkpoint(lambda h, t: s.m(h) * t.sigmoid(), hidden(s, x), x, use_reentrant=True), y)


@case("checkpoint: one inside of another")
def _(s, x, y):
    return ends(s, checkpoint(lambda h: checkpoint(s.m, h, use_reentrant=True).tanh(), hidden(s, x), use_reentrant=True), y)


@case("checkpoint: two results, beside one that is not reentrant")
def _(s, x, y):
    one, two = checkpoint(lambda h: (s.m(h), h * 2), hidden(s, x), use_reentrant=True)
    return ends(s, checkpoint(torch.sin, one + two, use_reentrant=False), y)


@case("checkpoint: checkpoint_sequential")
def _(s, x, y):
    return ends(s, checkpoint_sequential(nn.Sequential(s.m, nn.Tanh(), s.m), 2, hidden(s, x), use_reentrant=True), y)


@case("checkpoint: no argument has a gradient", "'a.weight' has a gradient in it and none in the model.*reentrant checkpoint")
def _(s, x, y):
    return ends(s, s.m(checkpoint(s.a, x, use_reentrant=True)), y)


# ---------------------------------------------------------------- regions without gradient
@case("no gradient: set_grad_enabled by with")
def _(s, x, y):
    h = hidden(s, x)
    with torch.set_grad_enabled(False):
        t = s.m(h)
    return ends(s, h + t, y)


@case("no gradient: set_grad_enabled as a call")
def _(s, x, y):
    h = hidden(s, x)
    torch.set_grad_enabled(False)
    t = s.m(h)
    torch.set_grad_enabled(True)
    return ends(s, h + t, y)


@torch.set_grad_enabled(False)
def switched_off(s, h):
    return s.m(h)


@torch.inference_mode()
def inferred(s, h):
    return s.m(h)


@torch.no_grad()
def without(s, h):
    return s.m(h)


@case("no gradient: decorators of no_grad and set_grad_enabled")
def _(s, x, y):
    h = hidden(s, x)
    return ends(s, h + switched_off(s, h) + without(s, h).sin(), y)


@case("no gradient: inference_mode by with and as a decorator")
def _(s, x, y):
    h = hidden(s, x)
    with torch.inference_mode():
        t = s.m(h).tanh()
    return ends(s, h + t + inferred(s, h), y)


@case("no gradient: inference_mode that is off", containers=("pt2",))
def _(s, x, y):
    with torch.inference_mode(False):
        h = s.m(hidden(s, x))
    return ends(s, h, y)


@case("no gradient: enable_grad inside of no_grad, and a switch that is on")
def _(s, x, y):
    h = hidden(s, x)
    with torch.no_grad():
        with torch.enable_grad():
            t = s.m(h)
        u = s.m(h).sin()
    with torch.set_grad_enabled(s.training):
        return ends(s, h + t + u, y)


@case("no gradient: detach_")
def _(s, x, y):
    h = hidden(s, x)
    t = s.m(h)
    t.detach_()
    return ends(s, h + t, y)


@case("no gradient: detach_ of what was read before")
def _(s, x, y):
    h = hidden(s, x)
    t = s.m(h)
    u = t * 2
    t.detach_()
    return ends(s, h + t + u, y)


@case("no gradient: .data")
def _(s, x, y):
    h = hidden(s, x)
    return ends(s, h + s.m(h).data + s.m(h.data), y)


@case("no gradient: a straight-through estimate")
def _(s, x, y):
    h = hidden(s, x)
    return ends(s, s.m(h + (h.round() - h).detach()), y)


@case("no gradient: a write into a part of what has one", "P0313.*changes, without gradient|has no gradient in it")
def _(s, x, y):
    h = s.m(hidden(s, x))
    with torch.no_grad():
        h[:, 0] = 0
    return ends(s, h, y)


# ---------------------------------------------------------------- hooks
def tenth(gradient):
    return 0.1 * gradient


def clipped(gradient):
    return gradient.clamp(-1, 1)


@case("hook: of a tensor", r"export_cases.py, line \d+ registers the hook 'tenth' on a gradient")
def _(s, x, y):
    h = hidden(s, x)
    h.register_hook(tenth)
    return ends(s, h, y)


@case("hook: of several tensors", "registers the hook 'print' on gradients")
def _(s, x, y):
    h = hidden(s, x)
    torch.autograd.graph.register_multi_grad_hook((h, x), print)
    return ends(s, h, y)


for name, words, prepare in (
        ("of a parameter", "the parameter 'a.weight' has the backward hook 'tenth'", lambda s: s.a.weight.register_hook(tenth)),
        ("of a module", "the module 'm' has the backward hook '.*<lambda>'",
         lambda s: s.m.register_full_backward_hook(lambda _, inner, outer: (inner[0] * 2,))),
        ("of a module, before its backward", "the module 'm' has the backward hook",
         lambda s: s.m.register_full_backward_pre_hook(lambda _, outer: (outer[0] * 2,))),
        ("after a gradient was added", "the parameter 'b.bias' has the backward hook",
         lambda s: s.b.bias.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(2)))):
    case(f"hook: {name}", words, prepare)(lambda s, x, y: ends(s, s.m(hidden(s, x)), y))


@case("hook: of a grad_fn", "'a.(weight|bias)' has a gradient in it that differs by .*a hook on a grad_fn")
def _(s, x, y):
    h = hidden(s, x)
    if h.grad_fn is not None:
        h.grad_fn.register_hook(lambda inner, _: (inner[0] * 2,))
    return ends(s, h, y)


@case("hook: before the backward of a grad_fn, that clips what is large", "not in proportion to that of the loss.*a hook on a grad_fn")
def _(s, x, y):
    h = hidden(s, x)
    if h.grad_fn is not None:
        h.grad_fn.register_prehook(lambda outer: (clipped(outer[0]),))
    return ends(s, h, y)


def on_accumulation(s):
    s.kept = s.a.weight.expand_as(s.a.weight).grad_fn.next_functions[0][0]
    s.kept.register_prehook(lambda outer: (outer[0] * 2,))


@case("hook: before a gradient is added", "'a.weight' has a gradient in it that differs by", on_accumulation, containers=("pt2",))
def _(s, x, y):
    return ends(s, hidden(s, x), y)


@case("hook: of a grad_fn, after a weight that starts at 0", "'a.(weight|bias)' has a gradient in it that differs by",
      lambda s: nn.init.zeros_(s.m.weight), containers=("pt2",))
def _(s, x, y):
    h = hidden(s, x)
    if h.grad_fn is not None:
        h.grad_fn.register_hook(lambda inner, _: (inner[0] * 2,))
    return ends(s, x + s.m(h), y)


@case("hook: that only looks, allowed", prepare=lambda s: s.a.weight.register_hook(lambda g: None), allow_hooks=True, containers=("pt2",))
def _(s, x, y):
    h = hidden(s, x)
    if h.requires_grad:
        h.register_hook(lambda g: None)
    h.retain_grad()
    return ends(s, h, y)


@case("hook: that changes a gradient, allowed", "'a.weight' has a gradient in it that differs by .*'tenth'",
      lambda s: s.a.weight.register_hook(tenth), allow_hooks=True)
def _(s, x, y):
    return ends(s, hidden(s, x), y)


# ---------------------------------------------------------------- what else autograd sees
class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0] * gradient


@case("autograd: a function of one's own", "the model uses the torch.autograd.Function 'Reversed'")
def _(s, x, y):
    return ends(s, Reversed.apply(hidden(s, x)), y)


@case("autograd: a function whose backward is no derivative, allowed",
      "'a.(weight|bias)' has a gradient in it that differs by .*the torch.autograd.Function 'Reversed'", allow_custom_functions=True)
def _(s, x, y):
    return ends(s, Reversed.apply(hidden(s, x)), y)


@case("autograd: a function whose backward is the derivative, allowed", allow_custom_functions=True)
def _(s, x, y):
    return ends(s, Square.apply(hidden(s, x)), y)


@case("autograd: saved tensors that are changed", "has a gradient in it that differs by .*saved_tensors_hooks")
def _(s, x, y):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * 0.5):
        h = hidden(s, x)
    return ends(s, h, y)


@case("autograd: saved tensors that are packed", containers=("pt2",))
def _(s, x, y):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        h = hidden(s, x)
    return ends(s, h, y)


@case("autograd: a gradient penalty", "computes gradients inside forward")
def _(s, x, y):
    h = hidden(s, x)
    return ends(s, h, y) + torch.autograd.grad(h.sum(), s.a.weight, create_graph=True)[0].square().mean()


@case("autograd: a backward inside of forward", "computes gradients inside forward")
def _(s, x, y):
    h = hidden(s, x)
    h.mean().backward(retain_graph=True)
    return ends(s, h, y)


@case("autograd: requires_grad_ of an intermediate result", containers=("pt2",))
def _(s, x, y):
    return ends(s, s.m(hidden(s, x).detach().requires_grad_()), y)


# ---------------------------------------------------------------- state that forward changes
def with_buffer(value):
    return lambda s: s.register_buffer("kept", torch.as_tensor(value))


@case("state: a buffer that counts", r"P0314.* changes the buffer 'kept'", with_buffer(0.0))
def _(s, x, y):
    s.kept += 1
    return ends(s, hidden(s, x) / s.kept, y)


@case("state: a buffer that is replaced", "P0314.* changes the buffer 'kept'", with_buffer(torch.ones(4)))
def _(s, x, y):
    h = hidden(s, x)
    s.kept = 0.9 * s.kept + 0.1 * h.detach().mean(0)
    return ends(s, h * s.kept, y)


@case("state: a buffer that keeps a norm", "P0314.* changes the buffer 'kept'", with_buffer(torch.ones(4)))
def _(s, x, y):
    h = hidden(s, x) + s.kept
    s.kept.copy_(h.detach().norm(dim=0))
    return ends(s, h, y)


@case("state: a buffer that is changed through .data", "buffer 'kept'", with_buffer(torch.ones(4)))
def _(s, x, y):
    h = hidden(s, x) + s.kept
    s.kept.data.mul_(0.5)
    return ends(s, h, y)


@case("state: spectral_norm", "P0314|P0305.*aten.vdot", lambda s: nn.utils.parametrizations.spectral_norm(s.m))
def _(s, x, y):
    return ends(s, s.m(hidden(s, x)), y)


@case("state: running statistics", prepare=lambda s: setattr(s, "norm", nn.BatchNorm1d(4)))
def _(s, x, y):
    return ends(s, s.norm(hidden(s, x)), y)


@case("state: a buffer that is a part of a weight", "buffer 'kept' shares the memory of the parameter 'm.weight'",
      lambda s: s.register_buffer("kept", s.m.weight.detach()[0]))
def _(s, x, y):
    return ends(s, s.m(hidden(s, x)) * s.kept, y)


@case("state: a buffer that is a part of a frozen weight", prepare=lambda s: s.register_buffer("kept", s.m.weight.requires_grad_(False).detach()[0].clone()))
def _(s, x, y):
    return ends(s, s.m(hidden(s, x)) * s.kept, y)


@case("state: a weight that forward clips", "forward changes the parameter 'm.weight'")
def _(s, x, y):
    s.m.weight.data.clamp_(-0.1, 0.1)
    return ends(s, s.m(hidden(s, x)), y)


@case("state: a counter in Python that the loss depends on", "depends on what the step before has left in count",
      lambda s: setattr(s, "count", 0), containers=("pt2",))
def _(s, x, y):
    s.count += 1
    return ends(s, hidden(s, x), y) / s.count


@case("state: a counter in Python that nothing reads", prepare=lambda s: setattr(s, "count", 0), containers=("pt2",))
def _(s, x, y):
    s.count += 1
    s.last = ends(s, hidden(s, x), y)
    return s.last


@case("state: a buffer that forward registers")
def _(s, x, y):
    if not hasattr(s, "bias"):
        s.register_buffer("bias", torch.arange(4.0), persistent=False)
    return ends(s, hidden(s, x) + s.bias, y)


@case("state: a buffer that forward fills", prepare=lambda s: s.register_buffer("bias", None))
def _(s, x, y):
    if s.bias is None:
        s.bias = torch.arange(4.0)
    return ends(s, hidden(s, x) + s.bias, y)


# ---------------------------------------------------------------- what torch's own exporters refuse
@case("torch: a branch on data", r"torch.export cannot trace the model: GuardOnDataDependent.*\(export_cases.py, line \d+\)", containers=("pt2",))
def _(s, x, y):
    h = hidden(s, x)
    return ends(s, h if h.sum() > 0 else -h, y)


@case("losses: a variance is checked, and has a least", containers=("pt2",))
def _(s, x, y):
    return F.gaussian_nll_loss(s.b(hidden(s, x)), y, s.b(s.m(x)).exp(), full=True, eps=0.8) + 0.1 * F.gaussian_nll_loss(s.b(x), y, s.m(x).square()[:, :1] + 0.5)


@case("losses: sequences of several lengths, one that cannot be", containers=("pt2",))
def _(s, x, y):
    frames = torch.stack([s.a(x), s.m(x), hidden(s, x), s.m(hidden(s, x))]).log_softmax(-1)
    targets = torch.cat([(y > 0).long() + 1, (y[:, :1] > 0).long() + 1], 1)
    lengths = 2 + (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    return F.ctc_loss(frames, targets, lengths, (y[:, 1] > 0).long() + 1, zero_infinity=True) + F.ctc_loss(
        frames, targets, lengths, torch.full_like(lengths, 4), reduction="none", zero_infinity=True).mean()


@case("torch: an error of forward", r"torch.export cannot trace the model: RuntimeError: .*\(export_cases.py, line \d+\)", containers=("pt2",))
def _(s, x, y):
    return ends(s, hidden(s, x) @ torch.ones(5, 4), y)


@case("torch: no ONNX for an operator", "torch.onnx.export cannot write the model as ONNX: DispatchError: No ONNX function found", containers=("onnx",))
def _(s, x, y):
    return ends(s, hidden(s, x) * torch.special.bessel_j0(x), y)


# ---------------------------------------------------------------- transformers
class Checkpointed(nn.Module):
    """A decoder of transformers that recomputes in backward, by its own switch."""

    def __init__(self):
        super().__init__()
        from transformers import LlamaConfig, LlamaForCausalLM
        self.net = LlamaForCausalLM(LlamaConfig(vocab_size=17, hidden_size=8, intermediate_size=16, num_hidden_layers=1,
                                                num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=8))
        with warnings.catch_warnings(action="ignore"):    # the switch has a new name besides
            self.net.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})

    def forward(self, input_ids, labels):
        return self.net(input_ids=input_ids, labels=labels).loss


CASES.append(("checkpoint: gradient_checkpointing_enable", Checkpointed, RIGHT, ("pt2",), {}))


# ---------------------------------------------------------------- complex buffers
for _persistent in (True, False):
    def _turns(s, persistent=_persistent):
        s.register_buffer("turns", torch.polar(torch.ones(3, 2), torch.arange(6.).view(3, 2)), persistent=persistent)

    @case(f"complex buffer: rotations{', saved' if _persistent else ''}", prepare=_turns)
    def _(s, x, y):
        z = torch.view_as_complex(hidden(s, x).view(-1, 2, 2)) * s.turns[1:2].view(1, 2) + s.turns[2:].conj()
        return ends(s, torch.view_as_real(z).flatten(1), y)


@case("complex buffer: of two f64", "'turns' has elements of complex128: .* Store real numbers", containers=("pt2",),
      prepare=lambda s: s.register_buffer("turns", torch.ones(2, dtype=torch.complex128)))
def _(s, x, y):
    return ends(s, hidden(s, x) * torch.view_as_real(s.turns).sum().float(), y)


@case("complex buffer: that forward changes", "'turns' has elements of complex64: .* that forward does not change", containers=("pt2",),
      prepare=lambda s: s.register_buffer("turns", torch.ones(2, dtype=torch.complex64)))
def _(s, x, y):
    s.turns.mul_(2)
    return ends(s, hidden(s, x) * torch.view_as_real(s.turns).sum(), y)
