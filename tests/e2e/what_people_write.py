#!/usr/bin/env python3
"""Small models in the style of what people write train as in PyTorch on one process, however the batch is cut, or are refused with a code.

  what_people_write.py --bin BIN --work DIR [--only WORD] [--all]

Each model is exported and compiled under its strategies; three steps of SGD are compared with PyTorch's. `forms` of a case are numbers
of microbatches, 8 being pieces of one sample, or whole strategies; `refused` maps a form to the code that it must be refused with, and
an empty map means that it trains in every form. Every case has two microbatches and pieces of one sample from the first of its
containers, those that are `spread` also the other container and replicas; --all has every form from both.
"""
import argparse
import dataclasses
import functools
import json
import logging
import pathlib
import sys
import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

import harness
import people_models
import people_models_over_places
import people_operators
import people_over_places
import piper_export
from people_models import NO_WEIGHTS, NORMS, NormTwice, NoWeightsFirst, StepsAcrossStages, TermOfFirstStage, TermTimesTotal, Transformers, WeightsOfLastStage, error
from people_strategies import BATCH, FEWER_IN_FIRST, LR, REPLICAS, THIRD_FIRST, columns, family, strategy, two_on_one_device

STEPS = 3


def small_data(n):
    return {"x": torch.randn(n, 4), "y": torch.randn(n, 3), "mask": (torch.rand(n) < 0.6).float() + 0.1}


def documents(n):
    """Samples of a few documents each, the first tokens of some padding."""
    tokens = people_models.LONG
    return {"x": torch.randn(n, tokens, 4), "y": torch.randn(n, tokens, 3), "ids": (torch.rand(n, tokens) < 0.02).cumsum(1),
            "kept": torch.arange(tokens) >= torch.randint(0, 9, (n, 1))}


@dataclasses.dataclass
class Case:
    loss: Callable                     # (module, prediction, y, mask) -> loss; or a whole forward, where `model` says how it is made
    forms: tuple = (1, 2, 4, 8)
    spread: bool = False               # also under replicas and stages
    refused: dict = dataclasses.field(default_factory=dict)    # of a form: the code, or {container: code}
    more: Callable = lambda module: None   # parameters and buffers beside the two layers
    kinds: tuple = ("pt2", "onnx")
    data: Callable = small_data
    model: Callable | None = None
    batch: int = BATCH
    plan: str | None = None            # what a plan of one process has to say, `!` before what it must not
    said: str = ""                     # by piperc, of the last form
    proved: bool = False               # completely, of each form
    own_masks: bool = False            # dropout draws other masks than PyTorch's: all forms must agree with the first


class TwoLayers(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 3)
        self.case = [case]
        case.more(self)

    def forward(self, x, y, mask):
        return self.case[0].loss(self, self.b(torch.tanh(self.a(x))), y, mask)


def last_position_left_out(m, p, y, mask):
    e = (p - y).pow(2)
    counted = torch.ones_like(e)
    counted[:, -1] = 0
    return (e * counted).sum() / counted.sum()


def first_sample_left_out(m, p, y, mask):
    e = error(p, y)
    counted = torch.ones_like(e)
    counted[0] = 0
    return (e * counted).sum() / counted.sum()


def later_samples_left_out(m, p, y, mask):
    e = error(p, y)
    counted = torch.ones_like(e)
    counted[1:] = 0
    return (e * (counted + 0.5)).sum() / counted.sum()


def views(m, p, y):
    return m.b(torch.tanh(F.pad(torch.cat([p, y]), (0, 1))))


def halves(rows, middle):
    return rows[:middle], rows[middle:]


def two_samples_left_out(m, p, y, mask):
    counted = torch.ones(p.shape[0])
    counted[:2] = 0
    return (error(p, y) * counted).sum() / counted.sum()


def larger_of_neighbours(m, p, y, mask):
    """By places that are cut out of what an expand repeats for each sample."""
    places = torch.arange(y.shape[1]).expand(y.shape)
    return (p.gather(1, torch.where(y[:, :-1] > y[:, 1:], places[:, :-1], places[:, 1:])) - y[:, 1:]).pow(2).mean()


def turned_features(m, p, y, mask):
    """By numbers that are computed, the same for each sample, and then repeated along another axis."""
    places = (torch.arange(y.shape[1]).expand(y.shape) + 1) % y.shape[1]
    pairs = torch.stack([p, p * p], -1)
    return (pairs.gather(1, places.unsqueeze(-1).expand(*y.shape, 2)) - y.unsqueeze(-1)).pow(2).mean()


def in_batch_negatives(m, p, y, mask):
    logits = 5 * F.normalize(p, dim=-1) @ F.normalize(y, dim=-1).t()
    return F.cross_entropy(logits, torch.arange(logits.shape[0]))


def sorted_experts(m, p, y, mask):
    """Rows sorted by their experts as `transformers` writes it, for one product by groups and a bias, and put back."""
    import transformers.integrations.moe  # noqa: F401  whose product by groups is of f32, too
    chosen = p.topk(2, dim=-1).indices.reshape(-1)
    experts, order = chosen.sort()
    counts = torch.histc(experts.float(), bins=3, min=0, max=2)
    rows = torch.ops.transformers.grouped_mm_fallback(p[order // 2], m.w, counts.cumsum(0, dtype=torch.int32)) + m.v[experts]
    rows = rows * p.softmax(-1).gather(1, chosen.view(-1, 2)).reshape(-1)[order].unsqueeze(-1)
    back = torch.empty_like(order)
    back[order] = torch.arange(order.shape[0])
    return error(rows[back].view(-1, 2, 4).sum(1)[:, :3], y).mean()


def experts(module):
    module.w, module.v = nn.Parameter(torch.randn(3, 3, 4) / 2), nn.Parameter(torch.randn(3, 4) / 4)


def with_parameter(*shape):
    def add(module):
        count = torch.Size(shape).numel()
        module.w = nn.Parameter(torch.linspace(-1, 1, count).reshape(shape) if count else torch.zeros(shape))
    return add


def two_of_nothing(module):
    module.w, module.v = nn.Parameter(torch.zeros(0, 3)), nn.Parameter(torch.zeros(0, 1))


def rows_alike(module):
    """A row of zeros, one of equal numbers, one shorter than 0.5, one as it comes."""
    module.w = nn.Parameter(torch.tensor([[0.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.1, -0.2, 0.3], [1.5, -0.5, 0.25]]))


def closed_and_open(module):
    module.w = nn.Parameter(torch.tensor([0.5, -torch.inf, 0.1]))


def frozen_first(module):
    module.a.requires_grad_(False)


MIXES = {form: "P0331" for form in (2, 4, 8)}
# The places in a row that is sorted are numbers of its length.
SORTED = {form: "P0336" for form in (2, 4, 8)}

CASES = {
    # numbers of the step as divisors and factors
    "masked_mean": Case(lambda m, p, y, mask: (error(p, y) * mask).sum() / mask.sum(), spread=True),
    "masked_mean_kept_axis": Case(lambda m, p, y, mask: ((error(p, y) * mask).sum(0, keepdim=True) / mask.sum(0, keepdim=True)).sum()),
    "clamped_divisor": Case(lambda m, p, y, mask: (error(p, y) * mask).sum() / mask.sum().clamp(min=1e-6)),
    "rooted_divisor": Case(lambda m, p, y, mask: error(p, y).sum() / mask.sum().sqrt()),
    "data_as_factor": Case(lambda m, p, y, mask: mask.mean() * error(p, y).mean()),
    "loss_of_data": Case(lambda m, p, y, mask: error(p, y).mean() + 0.5 * F.cross_entropy(y, y.argmax(-1), reduction="none").pow(2).mean()),
    "error_of_data": Case(lambda m, p, y, mask: error(p, y).mean() + 0.5 * F.mse_loss(y, 2 * y, reduction="none").mean(1).pow(2).mean()),
    "factor_and_divisor": Case(lambda m, p, y, mask: error(p, y).sum() / mask.sum() * y.abs().mean()),
    # ... read sample by sample, or as vectors
    "mask_by_its_sum": Case(lambda m, p, y, mask: (error(p, y) * mask / mask.sum()).sum(), spread=True),
    "mask_by_its_mean": Case(lambda m, p, y, mask: (error(p, y) * (mask / mask.mean()).sqrt()).mean()),
    "centred_labels": Case(lambda m, p, y, mask: error(p, y - y.mean(0)).mean(), spread=True),
    "centred_before_a_layer": Case(lambda m, p, y, mask: error(p + m.b(F.pad(y - y.mean(0, keepdim=True), (0, 1))), y).mean()),
    "labels_by_their_size": Case(lambda m, p, y, mask: error(p, y / y.pow(2).mean(0).sqrt()).mean()),
    "columns_by_their_counts": Case(lambda m, p, y, mask: (((p - y) * (y > 0)).pow(2).sum(0) / (y > 0).sum(0).clamp(min=1)).mean(), spread=True),
    "weights_of_classes": Case(lambda m, p, y, mask: (F.cross_entropy(p, y.argmax(-1), reduction="none")
                                                     / F.one_hot(y.argmax(-1), 3).sum(0)[y.argmax(-1)].clamp(min=1)).sum()),
    "total_times_parameter": Case(lambda m, p, y, mask: error(p, y).mean() + 0.1 * (m.w * y.mean(0)).pow(2).sum(), more=with_parameter(3)),
    "total_expanded": Case(lambda m, p, y, mask: (error(p, y) * mask / mask.sum().expand(p.shape[0])).sum()),
    "nothing_where_no_mask": Case(lambda m, p, y, mask: torch.where(mask.sum() > 0, (error(p, y) * mask).sum() / mask.sum(), 0.0), spread=True),
    "dot_of_mask": Case(lambda m, p, y, mask: torch.dot(error(p, y), mask) / mask.sum()),
    "dot_of_masks": Case(lambda m, p, y, mask: torch.dot(error(p, y), mask) / torch.dot(mask, mask)),
    **{f"{name}_of_constants": Case(lambda m, p, y, mask, f=f: error(p, y).mean() + 0.1 * f(p, p.shape[0]), kinds=kinds) for name, kinds, f in (
        ("dot", ("pt2", "onnx"), lambda p, B: torch.dot(p.reshape(-1), (torch.ones(B, 3) * torch.arange(1, 4)).reshape(-1))),
        ("dot_by_position", ("onnx", "pt2"), lambda p, B: torch.dot(torch.arange(B).float(), p.pow(2).sum(-1))),
        ("product", ("pt2", "onnx"), lambda p, B: (torch.ones(2, B) @ p).pow(1).mean()),
        ("product_by_position", ("onnx", "pt2"), lambda p, B: (p.t() @ torch.arange(2 * B).view(B, 2).float()).mean()))},
    "product_over_samples": Case(lambda m, p, y, mask: ((p - y).t() @ y).sum() / 10 + error(p, y).mean()),
    "total_as_target": Case(lambda m, p, y, mask: F.mse_loss(p, y.mean(0).expand_as(p))),
    # what is linear in losses
    "loss_beside_itself_detached": Case(lambda m, p, y, mask: (lambda l: l + 0.5 * l.detach())(error(p, y).mean()), spread=True),
    "losses_by_weights": Case(lambda m, p, y, mask: torch.dot(torch.tensor([0.5, 2.0]), torch.stack([error(p, y).mean(), (p - y).abs().sum()])), spread=True),
    "weights_by_losses": Case(lambda m, p, y, mask: torch.stack([error(p, y).mean(), (p - y).abs().sum()]) @ m.w.softmax(0), more=with_parameter(2), spread=True),
    # a total of totals is not known in one pass over the data
    "standardised": Case(lambda m, p, y, mask: error(p, (y - y.mean(0)) / y.std(0)).mean(), refused=MIXES),
    "labels_by_a_total": Case(lambda m, p, y, mask: F.cross_entropy(p, (mask > mask.mean()).long()), refused={form: "P0332" for form in (2, 4, 8)}),
    # constants in a shape that has the batch: each sample has the same
    "ones_counted": Case(last_position_left_out, spread=True),
    "two_terms_of_one_error": Case(lambda m, p, y, mask: (error(p, y) * m.w).mean() + last_position_left_out(m, p, y, mask), more=with_parameter()),
    "ones_like_summed": Case(lambda m, p, y, mask: error(p, y).sum() / torch.ones_like(mask).sum()),
    "new_full_summed": Case(lambda m, p, y, mask: error(p, y).sum() / y.new_full((y.shape[0], 2), 0.5).sum()),
    "zeros_concatenated": Case(lambda m, p, y, mask: torch.cat([p - y, torch.zeros(y.shape[0], 2)], 1).pow(2).mean()),
    "zeros_in_front": Case(lambda m, p, y, mask: torch.cat([torch.zeros(y.shape[0], 2), p - y], 1).pow(2).mean()),
    "a_term_of_ones": Case(lambda m, p, y, mask: error(p, y).mean() + (0.1 * torch.ones_like(mask)).sum()),
    "parameter_expanded": Case(lambda m, p, y, mask: error(p, y).sum() + m.w.expand(y.shape[0], 4).pow(2).sum(), more=with_parameter(4), spread=True),
    "parameter_expanded_by_a_total": Case(lambda m, p, y, mask: m.w.expand(y.shape[0], 4).pow(2).sum() / y.shape[0] * mask.sum(), more=with_parameter(4), forms=(1,)),
    "parameter_repeated": Case(lambda m, p, y, mask: error(p, y).sum() + (m.w * torch.ones(y.shape[0], 4)).pow(2).sum(), more=with_parameter(4)),
    # ... and positions in the batch
    "first_half": Case(lambda m, p, y, mask: (error(p, y) * (torch.arange(p.shape[0]) < 4)).mean(), spread=True),
    "a_sample_left_out": Case(first_sample_left_out, spread=True),
    "places_of_the_larger": Case(larger_of_neighbours, spread=True),
    "turned_features": Case(turned_features, spread=True),
    "two_samples_left_out": Case(two_samples_left_out, spread=True),
    "weights_by_position": Case(lambda m, p, y, mask: (error(p, y) * torch.arange(p.shape[0]).float()).sum() / 28, spread=True),
    "position_and_feature": Case(lambda m, p, y, mask: ((p - y) * torch.arange(3 * p.shape[0]).reshape(-1, 3) / 10).pow(2).mean()),
    "cumulated_ones": Case(lambda m, p, y, mask: (error(p, y) * torch.ones_like(mask).cumsum(0)).mean()),
    "table_by_position": Case(lambda m, p, y, mask: error(p + m.w[torch.arange(p.shape[0])], y).mean(), more=with_parameter(16, 3), kinds=("pt2",)),
    "one_hot_of_positions": Case(lambda m, p, y, mask: error(p * F.one_hot(torch.arange(p.shape[0]) % 3, 3), y).mean()),
    # ... repeated along other axes, and added up over the batch
    **{f"constants_{name}": Case(lambda m, p, y, mask, f=f: f((p - y).pow(2), p.shape[0]).mean(), kinds=kinds) for name, kinds, f in (
        ("added_up", ("pt2", "onnx"), lambda e, B: (e * torch.ones_like(e)).sum(0) / torch.ones_like(e).sum(0)),
        ("added_up_kept", ("onnx", "pt2"), lambda e, B: e / torch.ones(B, 3).sum(0, keepdim=True)),
        ("last_of_counts", ("pt2", "onnx"), lambda e, B: e / torch.ones(B, 3).cumsum(0)[-1]),
        ("expanded", ("pt2", "onnx"), lambda e, B: (e * (torch.arange(B) / B)[:, None].expand(B, 3)).sum(0) / torch.arange(B).float()[:, None].expand(B, 3).sum(0)),
        ("transposed", ("onnx", "pt2"), lambda e, B: e * (torch.arange(B) / B)[None].expand(3, B).t()),
        ("unsqueezed", ("pt2", "onnx"), lambda e, B: e.unsqueeze(1) * (torch.arange(B) / B)[:, None].expand(B, 3).unsqueeze(1)),
        ("as_labels", ("onnx", "pt2"), lambda e, B: torch.cat([e, F.binary_cross_entropy_with_logits(e, torch.ones(B, 3, dtype=torch.bool).to(e.dtype), reduction="none")], 1)),
        ("mean_expanded", ("pt2", "onnx"), lambda e, B: e * torch.arange(B).float().mean().expand(3)))},
    # a mean of means, whose factors are no powers of two
    **{f"mean_of_means_of_{n}": Case(lambda m, p, y, mask, n=n: (p - y).repeat(1, n).view(-1, n, 3).pow(2).mean(-1).view(-1).mean()) for n in (2, 3, 6)},
    # ... times a number: the factor and the count are no product in f32 that the quotient is, too
    **{f"{factor}_of_a_mean": Case(lambda m, p, y, mask, f=factor: f * F.binary_cross_entropy_with_logits(p, (y > 0.5).float()), spread=factor == 0.3) for factor in (0.01, 0.3, 0.64)},
    # gradients of one value from several terms are added up in the order in which forward reads it, cut or whole
    "parameter_in_several_terms": Case(lambda m, p, y, mask: 0.1 * (torch.exp(-m.w) * error(p, y).mean() + m.w) + m.w, more=with_parameter(), spread=True),
    "parameter_added_and_taken": Case(lambda m, p, y, mask: error(p, y).mean() * m.w + 3 * m.w - 2 * m.w + m.w / 4, more=with_parameter(), spread=True),
    "mean_times_its_count": Case(lambda m, p, y, mask: (p * y).sum(-1).mean() * mask.numel()),
    "mean_times_a_sum_of_ones": Case(lambda m, p, y, mask: (p * y).sum(-1).mean() * torch.ones_like(mask).sum()),
    "terms_of_one_error": Case(lambda m, p, y, mask: (lambda e: e.mean() + e.pow(2).mean() + e.sum() / p.shape[0])(error(p, y)), spread=True),
    # ... in steps of few samples, and where forward's own indices need some
    **{f"{batch}_samples_{name}": Case(loss, forms=(1, batch), batch=batch, kinds=("pt2", "onnx") if batch == 2 else ("onnx", "pt2")) for batch in (2, 3) for name, loss in (
        ("by_position", lambda m, p, y, mask: (error(p, y) * (1 + torch.arange(p.shape[0]))).sum()),
        ("but_the_first", first_sample_left_out), ("counted", last_position_left_out))},
    "later_samples_left_out": Case(later_samples_left_out, kinds=("onnx", "pt2"), forms=(1, 2, 4, 8), spread=True),
    "3_samples_later_left_out": Case(later_samples_left_out, batch=3, forms=(1, 3)),
    "fewer_samples_than_indices": Case(later_samples_left_out, batch=2, kinds=("onnx", "pt2"), forms=(1, 2), refused={1: "P0223", 2: "P0223"}),
    # batches one after the other in one pass
    "two_views": Case(lambda m, p, y, mask: (lambda z: z[0] * z[1])(views(m, p, y).view(2, -1, 3)).pow(2).mean(), spread=True),
    "two_views_in_halves": Case(lambda m, p, y, mask: error(*halves(views(m, p, y), p.shape[0])).mean(), spread=True),
    "two_views_in_slices": Case(lambda m, p, y, mask: F.logsigmoid(views(m, p, y)[:p.shape[0]] - views(m, p, y)[p.shape[0]:]).mean().neg(), spread=True),
    "three_views": Case(lambda m, p, y, mask: (lambda a, b, c: (a * b + b * c).sum(-1).mean() / 10 + error(p, y).mean())(*torch.cat([p, y, p * y]).view(3, -1, 3))),
    "views_of_rows": Case(lambda m, p, y, mask: error(*halves(torch.cat([p.unsqueeze(1) * y.unsqueeze(2), y.unsqueeze(1).expand(-1, 3, -1)]).flatten(0, 1),
                                                              3 * p.shape[0])).mean()),
    # rows that a mixture sorts
    "sorted_experts": Case(sorted_experts, more=experts, spread=True),
    # what reads several samples is refused under a cut, with one sample in a piece as well
    "in_batch_negatives": Case(in_batch_negatives, refused=MIXES),
    "gram": Case(lambda m, p, y, mask: (p @ p.t()).pow(2).mean(), refused=MIXES),
    "pairwise": Case(lambda m, p, y, mask: (p.unsqueeze(0) - y.unsqueeze(1)).pow(2).mean(), refused=MIXES),
    "sorted_samples": Case(lambda m, p, y, mask: (error(p.sort(0)[0], y) * mask).mean(), refused=SORTED),
    "largest_samples": Case(lambda m, p, y, mask: p.topk(1, dim=0)[0].sum() + error(p, y).mean(), refused=MIXES),
    "flipped": Case(lambda m, p, y, mask: error(p, y.flip(0)).mean(), refused=MIXES | {8: "P0336"}),
    "rolled": Case(lambda m, p, y, mask: error(p, y.roll(1, 0)).mean(), refused=MIXES),
    "first_row": Case(lambda m, p, y, mask: error(p, y).mean() + p[0].sum(), refused=MIXES),
    "first_rows": Case(lambda m, p, y, mask: error(p, y).mean() + p[:1].sum(), refused=MIXES),
    "expanded_pairs": Case(lambda m, p, y, mask: p.unsqueeze(1).expand(p.shape[0], p.shape[0], 3).pow(2).sum(), refused=MIXES),
    # a loss that no parameter enters, or nothing but one
    **{f"no_parameter_{name}": Case(loss, forms=(1, 2, REPLICAS), refused={1: "P0421", 2: "P0421", REPLICAS: "P0421"}) for name, loss in (
        ("zeros_like", lambda m, p, y, mask: torch.zeros_like(p).sum()),
        ("ones_like", lambda m, p, y, mask: torch.ones_like(p).mean()),
        ("number", lambda m, p, y, mask: torch.tensor(3.0)),
        ("new_zeros", lambda m, p, y, mask: y.new_zeros(y.shape[0]).sum()),
        ("full", lambda m, p, y, mask: torch.full((4,), 2.0).sum()),
        ("data", lambda m, p, y, mask: y.pow(2).mean()),
        ("detached", lambda m, p, y, mask: error(p, y).mean().detach()),
        ("chosen", lambda m, p, y, mask: p.argmax(-1).float().mean()))},
    # nor by anything but steps, empty parts and what is never chosen: gradients of zeros
    **{f"zero_gradient_{name}": Case(loss, forms=(1, 2, REPLICAS)) for name, loss in (
        ("sign", lambda m, p, y, mask: torch.sign(p).mean()),
        ("floor", lambda m, p, y, mask: (p.floor() + y.ceil()).mean()),
        ("of_none", lambda m, p, y, mask: y.mean() + sum(w[:0].sum() for w in m.parameters())),
        ("never_chosen", lambda m, p, y, mask: y.mean() + sum(torch.where(torch.zeros([], dtype=torch.bool), w, 1.0).sum() for w in m.parameters())))},
    "times_zero": Case(lambda m, p, y, mask: (0 * p).sum(), forms=(1, 2)),
    "power_zero": Case(lambda m, p, y, mask: (p ** 0).sum() + 0 * error(p, y).mean(), forms=(1, 2)),
    "matrix_power_zero": Case(lambda m, p, y, mask: (p[:, :2] @ torch.linalg.matrix_power(m.a.weight[:2, :2], 0)).pow(2).mean(), forms=(1,)),
    "parameter_alone": Case(lambda m, p, y, mask: m.w.sum(), more=with_parameter(), forms=(1, 2, REPLICAS)),
    "parameter_and_error": Case(lambda m, p, y, mask: m.w.sum() + error(p, y).mean(), more=with_parameter(), forms=(1, 2, REPLICAS)),
    # dropout that a model writes itself
    **{f"own_dropout_{name}": Case(lambda m, p, y, mask, f=f: error(f(p), y).mean(), forms=(1, 2), refused={1: code, 2: code}, own_masks=isinstance(code, dict))
       for name, code, f in (
        ("rand_like", "P0321", lambda h: h * (torch.rand_like(h) > 0.1) / 0.9),
        ("bernoulli", "P0321", lambda h: h * torch.bernoulli(torch.full_like(h, 0.9)) / 0.9),
        ("path", "P0321", lambda h: h / 0.9 * (0.9 + torch.rand(h.shape[0], 1)).floor()),
        ("zoneout", "P0321", lambda h: torch.where(torch.rand_like(h) > 0.1, h, torch.zeros_like(h))),
        ("noise", "P0321", lambda h: h + 0.1 * torch.randn_like(h)),
        ("alpha", {"onnx": "P0321"}, lambda h: F.alpha_dropout(h, 0.1, True)),
        ("feature", {"onnx": "P0321"}, lambda h: F.dropout1d(h.unsqueeze(-1), 0.1, True).squeeze(-1)))},
    "own_dropout_of_features": Case(lambda m, p, y, mask: error(p * F.dropout(torch.ones(3), 0.3, True), y).mean(), own_masks=True),
    "own_dropout_native": Case(lambda m, p, y, mask: error(torch.native_dropout(p, 0.3, True)[0], y).mean(), own_masks=True),
    # a product of positions and rates, as sinusoids have it
    "einsum_of_positions": Case(lambda m, p, y, mask: error(p * torch.einsum("i,j->ij", torch.arange(2), m.w).cos()[1], y).mean(), more=with_parameter(3), forms=(1, 2)),
    # one of several results
    "one_of_unbound": Case(lambda m, p, y, mask: error(p, y).mean() + p.unbind(1)[1].pow(2).mean(), kinds=("onnx", "pt2"), forms=(1, 2)),
    "places_of_largest": Case(lambda m, p, y, mask: F.cross_entropy(p, y.max(1)[1]), kinds=("onnx", "pt2"), forms=(1, 2)),
    "last_of_extremes": Case(lambda m, p, y, mask: (error(p, y) * (1 + y.aminmax(dim=1)[1])).mean(), kinds=("onnx",), forms=(1, 2)),
    # parameters of nothing
    "empty_parameter": Case(lambda m, p, y, mask: error(p + m.w.sum(0), y).mean(), more=with_parameter(0, 3), forms=(1, 2)),
    "two_parameters_of_nothing": Case(lambda m, p, y, mask: error(p + m.w.sum(0) + m.v.sum(0), y).mean(), more=two_of_nothing, forms=(1, 2)),
    "differences_of_nothing": Case(lambda m, p, y, mask: error(p, y).mean() + p.diff(n=3).sum(), forms=(1, 2)),
    # a weight that is infinite stays so
    "a_place_that_is_closed": Case(lambda m, p, y, mask: error((p + m.w).softmax(-1), y).mean(), more=closed_and_open, forms=(1, 2)),
    # a norm or deviation of zeros: PyTorch's gradient is 0 there, that of its parts is no number; below an eps the gradient is PyTorch's, too
    **{f"rows_alike_{name}": Case(lambda m, p, y, mask, f=f: error(p, y).mean() + 0.1 * f(m.w).sum(), more=rows_alike, kinds=kinds, forms=(1, 2), spread=len(kinds) > 1)
       for name, kinds, f in (
        ("std", ("onnx", "pt2"), lambda w: w.std(-1)),
        ("std_kept", ("onnx", "pt2"), lambda w: w / (1 + w.std(1, correction=0, keepdim=True))),
        ("std_mean", ("onnx", "pt2"), lambda w: torch.stack(torch.std_mean(w[:3], (0, 1))) * torch.std_mean(w[:2], -1)[0]),
        ("var_mean", ("onnx", "pt2"), lambda w: torch.stack(torch.var_mean(w, -1, correction=2))),
        ("norm", ("onnx", "pt2"), lambda w: w.norm(dim=-1)),
        ("norm_of_differences", ("onnx", "pt2"), lambda w: (w[:, None] - w[None]).norm(dim=-1)),
        ("normalize", ("onnx", "pt2"), lambda w: F.normalize(w, dim=-1, eps=0.5)),
        ("cosine", ("onnx", "pt2"), lambda w: F.cosine_similarity(w, w.flip(0), dim=-1)),
        ("cosine_above_eps", ("onnx", "pt2"), lambda w: F.cosine_similarity(w, w.roll(1, 0), dim=0, eps=0.9)),
        ("sqrt_of_some", ("onnx", "pt2"), lambda w: torch.where(w > 0, torch.where(w > 0, w, 1.0).sqrt(), 0.0)),
        ("pairwise_distance", ("onnx",), lambda w: F.pairwise_distance(w, w.flip(0), eps=0.0)))},
    # what torch.onnx writes in fewer cases than PyTorch computes
    "losses_by_token": Case(lambda m, p, y, mask: F.cross_entropy(torch.stack([p, y], 1).flatten(0, 1), torch.ones(2 * y.shape[0], dtype=torch.long),
                                                                  reduction="none").view(y.shape[0], 2).sum(1).mean(), kinds=("onnx", "pt2"), spread=True),
    "bounds_of_two_types": Case(lambda m, p, y, mask: error(p.clamp(-0.5, 1) + p.clamp(0, 0.5), y).mean(), kinds=("onnx",), forms=(1, 2)),
    "identity": Case(lambda m, p, y, mask: error(p @ torch.eye(3) + (p @ torch.eye(3, 2)).sum(-1, keepdim=True), y).mean(), kinds=("onnx", "pt2"), spread=True),
    "attention_without_heads": Case(lambda m, p, y, mask: F.scaled_dot_product_attention(p.unsqueeze(-1), y.unsqueeze(-1), p.unsqueeze(-1), attn_mask=m.w).pow(2).mean(),
                                    more=with_parameter(3, 3), kinds=("onnx", "pt2"), spread=True),
    # a power of whole numbers
    "whole_power": Case(lambda m, p, y, mask: error(p * 2 ** (mask > 0.5).long().unsqueeze(1), y).mean()),
    # a first stage that trains nothing
    **{f"frozen_first_{name}": Case(lambda m, p, y, mask: error(p, y).mean(), more=frozen_first, forms=(family(name),))
       for name in ("gpipe", "1f1b", "zero_bubble")},
}


def words(n):
    return {"input_ids": torch.randint(3, 50, (n, 6)), "labels": torch.randint(0, 50, (n, 6))}


ENCODER = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 16,
           "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
XLNET = {"d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 16}


def rows(n):
    return {"x": torch.randn(n, 8), "y": torch.randn(n)}


def bags(n):
    return {"ids": torch.randint(0, 7, (n, 5)), "y": torch.randn(n, 3)}


def sequences(n):
    return {"x": torch.randn(n, 5, 4), "y": torch.randn(n, 5, 3)}


for name, first in NO_WEIGHTS.items():
    CASES[f"no_weights_first_{name}"] = Case(None, model=functools.partial(NoWeightsFirst, first=first()), data=lambda n: {"x": torch.randn(n, 2, 4), "y": torch.randn(n, 3)},
                                             forms=(*(family(f, stages=s) for f, s in (("gpipe", 2), ("1f1b", 3), ("zero_bubble", 2))),
                                                    family("1f1b").replace("starts", "modules")))
CASES["frozen_table_first"] = Case(None, model=people_models.FrozenTable, data=lambda n: {"ids": torch.randint(0, 7, (n, 5)), "y": torch.randn(n, 3)},
                                   forms=(family("gpipe"), family("1f1b"), family("zero_bubble")))
for name, turn in NORMS.items():
    CASES[f"norm_{name}"] = Case(None, model=functools.partial(NormTwice, turn=turn), data=rows, forms=(1,), kinds=("onnx", "pt2"), spread=False)
for name, kind, config in (("deberta", "Deberta", ENCODER | {"max_relative_positions": 16}), ("deberta_v2", "DebertaV2", ENCODER), ("xlnet", "XLNet", XLNET | {"dropout": 0.1})):
    CASES[f"dropout_of_{name}"] = Case(None, model=functools.partial(Transformers, kind=kind, **config), data=words, forms=(1, 2), own_masks=True)
# Its positions are expanded over the batch after another axis, which is seen once dropout has touched them.
CASES["xlnet"] = Case(None, model=functools.partial(Transformers, kind="XLNet", **XLNET, dropout=0.0), data=words, forms=(1, 2), refused={2: "P0331"})
CASES["instance_statistics"] = Case(None, model=people_models.InstanceStatistics, data=rows, forms=(1,), refused=dict.fromkeys((1, REPLICAS, family("1f1b"), family("gpipe", 8)), "P0306"), spread=True)
CASES["dropout_of_positions"] = Case(None, model=people_models.DropoutOfPositions, data=sequences, own_masks=True)
CASES["data_terms_of_both_stages"] = Case(None, model=people_models.DataTermsOfBothStages, data=sequences, forms=(1, family("gpipe", 4), family("gpipe", 8), family("1f1b", 8)))
CASES["total_in_both_stages"] = Case(None, model=people_models.TotalInBothStages, forms=(1, family("gpipe", 4), family("1f1b", 8)))
for name, read in {"in_a_sum": lambda t: t + (0.5 * t + t), "as_a_view": lambda t: t + t.reshape(1).squeeze(0), "expanded": lambda t: t.expand(1)[0] + t,
                   "of_a_list": lambda t: (lambda terms: terms[0] + terms.sum() + terms[0])(torch.stack([t, 2 * t])), "three_times": lambda t: t + t + t}.items():
    CASES[f"a_term_twice_{name}"] = Case(None, model=functools.partial(TermOfFirstStage, read=read), forms=(family("gpipe"), family("1f1b", 8)))
for name, carry in (("alone", 0.0), ("carried", 0.5)):
    CASES[f"steps_across_stages_{name}"] = Case(None, model=functools.partial(StepsAcrossStages, carry=carry), data=sequences,
                                                forms=(family("gpipe"), family("1f1b", 4), family("zero_bubble")))
# A factor that is, by the batch, another number of the model.
CASES["balance_of_eight"] = Case(lambda m, p, y, mask: error(p, y).mean() + 0.01 * (8 * p.softmax(-1).pow(2).sum(-1).mean()), proved=True)
CASES |= people_over_places.cases(Case, sequences)
# Losses whose rows are not the samples, or not those of both operands.
for name, loss in {"listwise": lambda p: F.cross_entropy(p[:, :1].reshape(1, -1), torch.zeros(1, dtype=torch.long)), "classes_in_rows": lambda p: F.cross_entropy(p.t(), torch.tensor([1, 0, 2])),
                   "summed": lambda p: F.cross_entropy(p.t(), torch.tensor([1, 0, 2]), reduction="sum"), "nll": lambda p: F.nll_loss(p.log_softmax(0).t(), torch.tensor([1, 0, 2]))}.items():
    CASES[f"loss_over_samples_{name}"] = Case(lambda m, p, y, mask, loss=loss: loss(p), refused=MIXES)
CASES["loss_of_other_samples_mse"] = Case(lambda m, p, y, mask: F.mse_loss(p.t().reshape(-1), y.reshape(-1)), refused=MIXES)
CASES["loss_of_other_samples_classes"] = Case(lambda m, p, y, mask: F.cross_entropy(torch.stack([p, -p], -1).transpose(0, 1).reshape(-1, 2), (y > 0).long().reshape(-1)), refused=MIXES)
for name, mixed in {"difference": lambda p, y: p[:, :1] - y[:, 0], "product": lambda p, y: p[:, :1] * y[:, 0], "choice": lambda p, y: torch.where(y[:, 0] > 0, p[:, :1], 0.0)}.items():
    CASES[f"pairs_of_samples_{name}"] = Case(lambda m, p, y, mask, mixed=mixed: mixed(p, y).sum() / 10 + (p ** 2).mean(), refused=MIXES)
CASES["loss_of_totals"] = Case(lambda m, p, y, mask: F.mse_loss(y.mean(0), torch.tensor([1., 2., 3.]), reduction="sum") + (p - y).pow(2).mean())
for name, places in {"linspace": lambda n: torch.linspace(0, n - 1, 16), "linspace_of_one": lambda n: torch.linspace(3, n - 1, 1), "arange": lambda n: torch.arange(0, n - 2, (n - 2) / 14),
                     "powers": lambda n: 7.0 ** torch.arange(1.0, 3.0)}.items():
    CASES[f"places_by_{name}"] = Case(None, model=functools.partial(people_models.Sampled, places=places), forms=(1, 8), kinds=("pt2",),
                                      data=lambda n: {"x": torch.randn(n, 64, 4), "y": torch.randn(n, 64, 3)})
for name, read in {"product": lambda z: z * 0.3, "quotient": lambda z: z / 3.0 - 0.1, "zero_axes": lambda z: z * torch.tensor(0.3), "sum": lambda z: 0.7 + z, "addcmul": lambda z: torch.addcmul(z, z, z.flip(1), value=0.3)}.items():
    CASES[f"number_in_bf16_{name}"] = Case(None, model=functools.partial(people_models.NumbersInBf16, read=read), forms=(1, 2), kinds=("pt2",))
CASES["pow_in_place"] = Case(lambda m, p, y, mask: ((p * 1.0).pow_(2) - y).pow(2).mean(), kinds=("pt2",))
CASES["sinks_and_a_trained_mask"] = Case(None, model=people_models.TrainedMask, data=sequences, forms=(1, 2, columns(2)), kinds=("pt2",))
CASES["layer_scale_in_bf16"] = Case(None, model=people_models_over_places.LayerScale, data=sequences, own_masks=True,
                                    forms=tuple(form + "precision: {compute: bf16}\n" for form in (strategy(2), family("gpipe"), family("1f1b"))))
CASES["mean_of_a_product_in_bf16"] = Case(lambda m, p, y, mask: (p * 0.3).mean() + 2.0, own_masks=True,
                                          forms=tuple(strategy(n) + "precision: {compute: bf16}\n" for n in (1, 2, 8)))
CASES["evaluated_over_places"] = Case(None, model=people_models_over_places.LayerScale, data=lambda n: {"x": torch.randn(n, 6, 4), "y": torch.randn(n, 6, 3)},
                                      forms=tuple(columns(n, "sequence") + "eval: {data: held_out.safetensors, every: 1, batches: 1}\n" for n in (1, 2)))
CASES["norm_of_both_stages"] = Case(None, model=people_models.NormOfBothStages, forms=(1, family("gpipe", 1), two_on_one_device(1), THIRD_FIRST), kinds=("pt2",),
                                    refused={family("gpipe", 1): "P0274", two_on_one_device(1): "P0274", THIRD_FIRST: "P0221"})
CASES["factors_of_layers"] = Case(None, model=people_models_over_places.FactorsOfLayers, forms=(1, 8, columns(2), columns(8), family("1f1b")))
for name, (loss, more) in people_operators.LOSSES.items():
    CASES[name] = Case(loss, more=more, kinds=("pt2",), forms=(2, 8))
CASES["penalty_on_all"] = Case(None, model=people_models_over_places.PenaltyOnAll, data=lambda n: {k: torch.randint(0, 7, (n, 6)) for k in ("ids", "labels")},
                               forms=(1, columns(1, "sequence"), columns(2, "sequence")))
CASES["places_in_stages"] = Case(None, model=people_models_over_places.PlacesInStages, data=lambda n: {"x": torch.randn(n, 6, 4), "y": torch.randn(n, 6, 3)}, forms=(1, 8, FEWER_IN_FIRST))
for name, loss in people_models_over_places.ERRORS_IN_BF16.items():    # bf16 rounds more than losses may differ
    CASES[f"loss_in_bf16_{name}"] = Case(None, model=functools.partial(people_models_over_places.LossInBf16, error=loss), forms=(2,), own_masks=True)
CASES["frozen_norm"] = Case(None, model=people_models.FrozenNorm, forms=(1, 2, 8), kinds=("pt2",))
for name, factor in {"sum": lambda t, mask: t * mask.sum(), "reciprocal": lambda t, mask: t / mask.sum(), "expanded": lambda t, mask: (t.expand(3) * mask.mean()).sum()}.items():
    CASES[f"a_term_by_a_total_{name}"] = Case(None, model=functools.partial(TermTimesTotal, factor=factor), forms=(family("gpipe", 4), family("1f1b"), family("zero_bubble")))
# Sums over the batch of what several samples of the data made are no sums of pieces, also where no parameter enters.
for name, mixed in {"first_sample": lambda y: y[0].expand(y.shape[0], 3), "rolled": lambda y: y.roll(1, 0), "flipped": lambda y: y.flip(0), "scanned": lambda y: y.cumsum(0), "normalised": lambda y: y.softmax(0),
                    "greatest": lambda y: (y - y.amax(0)).abs(), "products": lambda y: y @ y.t() @ y, "sorted": lambda y: y.sort(0).values}.items():
    CASES[f"data_of_several_samples_{name}"] = Case(lambda m, p, y, mask, mixed=mixed: error(p, y).mean() + error(p, y).sum() * ((y * mixed(y)).sum() / mask.sum()),
                                                   refused={"flipped": MIXES | {8: "P0336"}, "sorted": SORTED}.get(name, MIXES))
for name, weights in {"positions": lambda p, y, i: i.float(), "labels": lambda p, y, i: y.pow(2).sum(-1) + 1, "a_choice": lambda p, y, i: (p > y).float().amax(-1),
                      "no_gradient": lambda p, y, i: p.detach().exp().mean(-1), "both": lambda p, y, i: y.exp()[:, 0] * i}.items():
    CASES[f"weighted_in_last_stage_by_{name}"] = Case(None, model=functools.partial(WeightsOfLastStage, weights=weights),
                                                      forms=tuple(family(f, 4) for f in ("gpipe", "1f1b", "zero_bubble")))
CASES["positions_in_both_stages"] = Case(None, model=people_models.PositionsInBothStages, forms=(1, family("gpipe", 8), family("1f1b", 8)))
for name, model in (("attention", people_models.Attention), ("encoder_layer", people_models.EncoderLayer), ("sequence_first_gru", people_models.SequenceFirst)):
    CASES[name] = Case(None, model=model, data=sequences, kinds=("pt2",))
for name, model in (("group_statistics", people_models.GroupStatistics), ("row_statistics", people_models.RowStatistics), ("mean_of_rows", people_models.MeanOfRows),
                    ("deviation_of_rows", people_models.DeviationOfRows), ("statistics_alone", people_models.StatisticsAlone)):
    CASES[name] = Case(None, model=model, data=rows, forms=(1, 2), kinds=("pt2",))
for name, model in (("mean_bags", people_models.MeanBags), ("sum_bags", people_models.SumBags)):
    CASES[name] = Case(None, model=model, data=bags, forms=(1,))
for name, loss in {"scalar": lambda e: e.mean((0, 1), keepdim=True).squeeze(), "row": lambda e: e.mean(0, keepdim=True).mean(), "sum": lambda e: e.mean(0, True).sum()}.items():
    CASES[f"kept_axes_of_mean_{name}"] = Case(lambda m, p, y, mask, loss=loss: loss((p - y).pow(2)), forms=(1, 2))
CASES["bags_by_frequency"] = Case(None, model=people_models.BagsByFrequency, data=bags, forms=(1,), refused={1: "P0306"})
CASES["scale_grad_by_freq"] = Case(None, model=people_models.ByFrequency, refused=MIXES, data=lambda n: {"ids": torch.randint(0, 5, (n,)), "y": torch.randn(n, 3)})
for name, mask in people_models.MASKS.items():
    CASES[f"mask_{name}"] = Case(None, model=functools.partial(people_models.Masked, mask=mask), kinds=("pt2", "onnx"), forms=(1, 2, 8),
                                 data=lambda n: {"x": torch.randn(n, people_models.LONG, 4), "y": torch.randn(n, people_models.LONG, 3)})
for name, (mask, plan) in people_models.MASKS_WITH_SINKS.items():
    CASES[f"sinks_{name}"] = Case(None, model=functools.partial(people_models.WithSinks, mask=mask), kinds=("pt2", "onnx"), forms=(1, 2, 8), plan=plan,
                                  data=lambda n: {"x": torch.randn(n, people_models.LONG, 4), "y": torch.randn(n, people_models.LONG, 3)})
for name, table in people_models.TABLES.items():
    CASES[f"table_{name}"] = Case(None, model=functools.partial(people_models.OfTable, table=table), kinds=("pt2", "onnx"),
                                  forms=(1, 2, 8, family("gpipe"), family("zero_bubble")),
                                  data=lambda n: {"x": torch.randn(n, people_models.OfTable.PLACES), "y": torch.randn(n, 3)})
for name, (mask, attends) in people_models.MASKS_BY_DATA.items():
    CASES[f"mask_{name}"] = Case(None, model=functools.partial(people_models.MaskedByData, mask=mask), kinds=("pt2", "onnx"), forms=(1, 2, 8),
                                 plan=f'"attends":"{attends}"' if attends else '!"attends"', data=documents)



def made(case):
    torch.manual_seed(1)
    return (case.model or TwoLayers)(case)


def trained_by_torch(case, data):
    module = made(case)
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=LR)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = module(**{k: v[step * case.batch:(step + 1) * case.batch] for k, v in data.items()})
        if loss.requires_grad:
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    return losses


def logged(folder):
    return [json.loads(line)["loss"] for line in (folder / "log.jsonl").read_text().splitlines() if '"loss":' in line]


def outcome(bench, model, form, case, wanted):
    """"right", the code of a refusal, or what is wrong."""
    folder = bench.work
    (folder / "s.yaml").write_text(strategy(form, case.batch))
    code, text = bench.end_of([bench.bin / "piperc", model, "--strategy", folder / "s.yaml", "-o", folder / "plans"])
    if code == 1:
        return next((word[:5] for word in text.split("error[")[1:]), text)
    if code:
        return f"piperc exits with {code}: {text}"
    if case.proved and "not proved" in text:
        return f"not completely proved: {text}"
    if form == case.forms[-1] and case.said not in text:
        return f"piperc does not say '{case.said}': {text}"
    if case.plan and (case.plan.lstrip("!") in "".join(p.read_text() for p in (folder / "plans" / "programs").iterdir())) == case.plan.startswith("!"):
        return f"the plan does not say {case.plan}"
    evaluated = ("--eval-data", folder / "data.safetensors") if "eval:" in strategy(form, case.batch) else ()
    code, text = bench.end_of([bench.bin / "piper-run", folder / "plans", "--data", folder / "data.safetensors", "--steps", STEPS,
                               "--log", folder / "log.jsonl", "--threads", 1, *evaluated])
    if code:
        return f"piper-run exits with {code}: {text}"
    losses = logged(folder)
    if wanted is None:
        return "right" if len(losses) == STEPS and all(0 < loss < 10 for loss in losses) else f"losses {losses}"
    near = len(losses) == STEPS and all(abs(a - b) <= 2e-5 * abs(b) + 1e-6 for a, b in zip(losses, wanted))
    return "right" if near else f"losses {losses}, of PyTorch {wanted}"


def exported(bench, name, case, kind, data):
    """The exporter's own check of what it wrote is another test's (export_checks.py)."""
    def write(path):
        piper_export.export(made(case), {k: v[:6].clone() for k, v in data.items()}, path, check=False)
    return bench.exported_once(f"people_{name}.{kind}", [sys.modules[__name__], people_models, people_models_over_places, people_operators, people_over_places], {"case": name}, write)


def containers(case, every):
    return case.kinds if every or case.spread else case.kinds[:1]


def forms(case, every):
    if every:
        return case.forms + ((REPLICAS, family("1f1b"), family("gpipe", 8)) if case.spread else ())
    some = tuple(form for form in case.forms if form in (2, case.batch) or isinstance(form, str) or case.own_masks) or case.forms
    return some + ((REPLICAS,) if case.spread else ())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    bench = harness.Bench(args.bin, args.work)
    faults, runs = [], 0
    for name, case in CASES.items():
        if args.only not in name:
            continue
        torch.manual_seed(0)
        data = case.data(STEPS * case.batch)
        save_file({k: v.contiguous() for k, v in data.items()}, bench.work / "data.safetensors")
        wanted_of_torch = None if case.own_masks else trained_by_torch(case, data)
        for kind in containers(case, args.all):
            wanted = wanted_of_torch
            model = exported(bench, name, case, kind, data)
            for form in forms(case, args.all):
                runs += 1
                found, expected = outcome(bench, model, form, case, wanted), case.refused.get(form, "right")
                if isinstance(expected, dict):
                    expected = expected.get(kind, "right")
                wanted = wanted or logged(bench.work)
                if found != expected:
                    faults.append(f"{name}, {kind}, {form}: {found}, expected {expected}")
                    print("FAILED", faults[-1], flush=True)
    print(f"{runs} runs, {len(faults)} not as expected")
    sys.exit(1 if faults or not runs else 0)


if __name__ == "__main__":
    main()
