"""Operators of what_people_write.py with unusual arguments: name -> loss of (module, prediction, y, mask), and what the module has beside
its two layers."""
import torch
import torch.nn.functional as F
from torch import nn

from people_models import error


def _numbers(count):
    def add(module):
        module.w = nn.Parameter(torch.linspace(-1, 1, count))
    return add


def _equal_bounds(module):
    module.w, module.v = nn.Parameter(torch.tensor([0.1, -0.2, 0.3])), nn.Parameter(torch.tensor([0.1, 0.2, 0.3]))


def _keys_of_one(module):
    module.w, module.v = (nn.Parameter(torch.linspace(*ends, 15).view(1, 1, 5, 3)) for ends in ((-1, 1), (1, -0.5)))


# Slots of a step's own are called so.
STEP_NAMES = ("loss", "dropped", "seed_step", "sample_offset", "place", "loss_scale", "saved")


def _called_like_a_step(module):
    for name in STEP_NAMES:
        setattr(module, name, nn.Parameter(torch.linspace(0.5, 1.5, 3)))


def _nothing(module):
    pass


def _image(m, p):
    """[B, 1, 4, 5]"""
    return torch.outer(p[:, 0], m.w).view(-1, 1, 4, 5).tanh()


LOSSES = {
    "parameters_called_like_a_step": (lambda m, p, y, mask: error(p * sum(getattr(m, name).tanh() for name in STEP_NAMES), y).mean(), _called_like_a_step),
    "bounds_that_are_equal": (lambda m, p, y, mask: error(p, y).mean() + p.clamp(m.w, m.v).pow(2).mean(), _equal_bounds),
    "counts_per_bin_at_edges": (lambda m, p, y, mask: (error(p, y) * torch.histc((10 * m.w).round() / 10, bins=7, min=-0.3, max=0.4)[1]).mean(), _numbers(21)),
}
for _name, _joined in {"with_nothing": lambda p: torch.cat([torch.empty(0), p], 1),
                       "of_types": lambda p: torch.stack([p[:, 0].bfloat16(), p[:, 1], p[:, 2].bfloat16()], 1),
                       "of_numbers": lambda p: p * torch.stack([p[:, 0] > 0, p[:, 1] > 1, (p[:, 2] > 0).long()], 1)}.items():
    LOSSES[f"joined_{_name}"] = (lambda m, p, y, mask, joined=_joined: error(joined(p), y).mean(), _nothing)
for _name, _attended in {"keys_of_one": lambda m, p: F.scaled_dot_product_attention(p.view(-1, 1, 1, 3), m.w, m.v),
                         "queries_of_one": lambda m, p: F.scaled_dot_product_attention(m.w, p.view(-1, 1, 1, 3), p.view(-1, 1, 1, 3)).mean(2),
                         "one_head_of_values": lambda m, p: F.scaled_dot_product_attention(p.view(-1, 1, 1, 3), m.w.expand(-1, 2, -1, -1), m.v).mean(1),
                         "heads_of_one": lambda m, p: F.scaled_dot_product_attention(p.view(-1, 3, 1, 1), m.w.view(1, 1, 15, 1), m.v.view(1, 1, 15, 1))}.items():
    LOSSES[f"attention_with_{_name}"] = (lambda m, p, y, mask, attended=_attended: error(attended(m, p).reshape(-1, 3), y).mean(), _keys_of_one)
# An axis that keeps its size is copied by some modes, whatever its factor.
for _mode in ("nearest", "bilinear"):
    for _factors in ((2.3, 1.1), (1.05, 1.1), (2.2, 3.05)):
        LOSSES[f"resized_{_mode}_by_{_factors[0]}"] = (lambda m, p, y, mask, mode=_mode, factors=_factors: error(p, y).mean() + F.interpolate(
            _image(m, p), scale_factor=factors, mode=mode).pow(2).mean(), _numbers(20))


def _rows(x):
    return torch.arange(x.shape[0])[:, None]


def _grid(p):
    """[B, 2, 3, 3]"""
    return torch.stack([p[..., None] * row for row in torch.tensor([[1., 2, 3], [2., -1, 1]])], 1)


def _places(y):
    return torch.stack([(y[:, 0] > 0).long(), (y[:, 1] > 0).long() + 1], 1)


# Elements of every sample by indices of its own: [B, 2] of p or of a grid.
for _name, _picked in {"rows": lambda p, at: _grid(p)[:, 1][_rows(p), at],
                       "negative_rows": lambda p, at: p[_rows(p), at - 3],
                       "cells": lambda p, at: _grid(p)[_rows(p), at - 1, at][..., 0],
                       "axes_apart": lambda p, at: _grid(p)[_rows(p), :, at].sum((-1, -2)),
                       "two_counted": lambda p, at: _grid(p)[_rows(p)[..., None], torch.arange(2)[:, None], at[:, None]].sum((1, 3)),
                       "samples_last": lambda p, at: p.t()[at, _rows(p)],
                       "put": lambda p, at: torch.zeros(p.shape).index_put((_rows(p), at), p[:, :1] * p[:, 1:]),
                       "added": lambda p, at: p.index_put((_rows(p), at.flip(1)), p[:, 1:], accumulate=True)}.items():
    LOSSES[f"index_by_sample_{_name}"] = (
        lambda m, p, y, mask, picked=_picked: error(p, y).mean() + picked(p, _places(y)).pow(2).mean(), _nothing)
