"""Losses of torch that look at values while they are traced, written out: of the same values and gradients."""
from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode


class WrittenLosses(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        written = _WRITTEN.get(function)
        if written is not None:
            try:
                return written(*args, **(kwargs or {}))
            except NotImplementedError:
                pass
        return function(*args, **(kwargs or {}))


def _gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """torch's own looks for a variance below 0. Its bound has no gradient of its own: var is changed in place."""
    if isinstance(var, float):
        var = var * torch.ones_like(input)
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif not (input.dim() == var.dim() and all(v in (1, i) for v, i in zip(var.shape, input.shape))):
            raise NotImplementedError
    var = var + (var.clamp(min=eps) - var).detach()
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _log_sum(x):
    """The log of the sum of exponentials along the first axis; without a gradient where all are -inf."""
    none = (x == -torch.inf).all(0)
    return torch.where(none, -torch.inf, torch.logsumexp(torch.where(none, 0.0, x), 0))


def _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """Graves et al., Connectionist temporal classification, section 4.1, forward alone. torch's gradient is that of what log_softmax made
    of the scores: exp(log_probs) more than the derivative."""
    if targets.dim() == 0 or log_probs.dim() not in (2, 3):
        raise NotImplementedError
    lone = log_probs.dim() == 2
    lengths = [torch.as_tensor(n, dtype=torch.int64).reshape(-1) for n in (input_lengths, target_lengths)]
    steps, ends = lengths
    if lone:
        log_probs, targets = log_probs.unsqueeze(1), targets.reshape(1, -1)
    elif targets.dim() == 1:    # one after the other
        if isinstance(target_lengths, torch.Tensor):
            raise NotImplementedError
        longest = max(target_lengths)
        place = (ends.cumsum(0) - ends).unsqueeze(1) + torch.arange(longest)
        targets = targets[place.clamp(max=targets.shape[0] - 1)]
    targets = torch.where(torch.arange(targets.shape[1]) < ends.unsqueeze(1), targets.to(torch.int64), blank)
    between = torch.full_like(targets, blank)
    labels = torch.cat([torch.stack([between, targets], 2).flatten(1), torch.full_like(ends, blank).unsqueeze(1)], 1)
    skips = torch.cat([torch.zeros_like(labels[:, :2], dtype=torch.bool), torch.logical_and(labels[:, 2:] != labels[:, :-2], labels[:, 2:] != blank)], 1)
    none = torch.full_like(labels, -torch.inf, dtype=log_probs.dtype)
    scores = [frame.gather(1, labels) for frame in log_probs.unbind(0)]
    reached = torch.where(torch.arange(labels.shape[1]) < 2, scores[0], none)
    for step, score in enumerate(scores[1:], 1):
        one, two = (torch.cat([none[:, :by], reached[:, :-by]], 1) if reached.shape[1] > by else none for by in (1, 2))
        next_ones = _log_sum(torch.stack([reached, one, torch.where(skips, two, none)])) + score
        reached = torch.where((step < steps).unsqueeze(1), next_ones, reached)
    last = (2 * ends).unsqueeze(1)
    before = torch.where(last > 0, reached.gather(1, (last - 1).clamp(min=0)), -torch.inf)
    loss = -_log_sum(torch.stack([reached.gather(1, last), before]))[:, 0]
    in_time = torch.arange(log_probs.shape[0]).unsqueeze(1) < steps
    more = torch.where(in_time.unsqueeze(2), log_probs, -torch.inf).exp().sum((0, 2))
    loss = loss + (more - more.detach())
    if zero_infinity:
        loss = torch.where(loss == torch.inf, 0.0, loss)
    if reduction == 1:
        return (loss / ends.clamp(min=1)).mean()
    return loss.sum() if reduction == 2 else loss.squeeze(0) if lone else loss


def _named_ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    return _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, {"none": 0, "mean": 1, "sum": 2}[reduction], zero_infinity)


_WRITTEN = {F.ctc_loss: _named_ctc_loss, F.gaussian_nll_loss: _gaussian_nll_loss, torch.ctc_loss: _ctc_loss}
