#!/usr/bin/env python3
"""Calls of ATen that become compositions of operators, each after a layer of its own: losses and gradients against PyTorch.

  aten_calls.py --bin BIN --work DIR

One model holds them all, so a gradient that differs names the call by its layer. Losses of 3 steps to 1e-5, gradients of the
first to 2e-5 of their norms. Through .pt2, on one device and in two microbatches on two replicas; those with values or gradients
of their own at bounds, of infinities and of zeros also through .onnx.
"""
import argparse
import json
import re
import sys
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import elementwise_rows
import harness

BATCH, STEPS, WIDTH = 8, 3, 16
CHUNKS = nn.LinearCrossEntropyOptions(batch_chunk_size=2)


def images(x):
    return x.view(-1, 4, 2, 2)


def cut(p, *shapes):
    """Weights of these shapes, made of p by repeating it."""
    sizes = [torch.Size(shape).numel() for shape in shapes]
    whole = torch.cat([p * (0.2 + 0.1 * i) for i in range(-(-sum(sizes) // WIDTH))])
    return [part.view(shape) for part, shape in zip(whole[:sum(sizes)].split(sizes), shapes)]


def recurrent(call, x, p, gates, states, layers=1, both=False, first=True, biases=True):
    """All results of a network of 4 features over 4 steps, flat; `first`: the batch is the first axis."""
    sides, features = 1 + both, 4
    x = x.view(-1, 4, 4) if first else x.view(-1, 4, 4).transpose(0, 1)
    shapes = []
    for layer in range(layers):
        inputs = 4 if layer == 0 else sides * features
        shapes += sides * ([(gates * features, inputs), (gates * features, features)] + biases * 2 * [(gates * features,)])
    begin = torch.zeros(layers * sides, x.shape[1 - first], features)
    out, *last = call(x, (begin, begin + 0.5) if states == 2 else begin + 0.5, cut(p, *shapes), biases, layers, 0.0, True, both, first)
    return torch.cat([(out if first else out.transpose(0, 1)).flatten(1), *(state.transpose(0, 1).flatten(1) for state in last)], 1)


def projected(x, p):
    """An LSTM of 4 features whose output is projected to 2."""
    begin = torch.zeros(1, x.shape[0], 4)
    weights = cut(p, (16, 4), (16, 2), (16,), (16,), (2, 4))
    return torch.lstm(x.view(-1, 4, 4), (begin[..., :2], begin), weights, True, 1, 0.0, True, False, True)[0].flatten(1)


def with_nan(x, at):
    """x with NaN for one of its last axis."""
    return x.masked_fill(torch.arange(16) == at, float("nan"))


def saturated(x):
    """x, of which sigmoid is 1 where x was above 0.2, 0 where it was below -0.2."""
    return x + 50 * (x.detach() > 0.2) - 150 * (x.detach() < -0.2)


def whole(x):
    """Integers from -4 to 4."""
    return (2 * x.detach()).round().clamp(-4, 4).long()


def integers(p):
    """-8 to 7, with the gradient of p: bounds of activations are among them."""
    return torch.arange(-8.0, 8.0) + (p - p.detach())


def without(x, remainder, step):
    """-inf in every step-th column."""
    return x.masked_fill(torch.arange(x.shape[-1]) % step == remainder, -torch.inf)


def without_some(x, p):
    """x, 0 in its second and seventh column."""
    return x * p * ((torch.arange(x.shape[-1]) != 1) & (torch.arange(x.shape[-1]) != 6))


def attention_with_sinks(x, p):
    """As GPT-OSS writes it out: a score of each head takes part of the softmax and has no value."""
    q, k = (x * p).view(-1, 2, 2, 4), x.view(-1, 2, 2, 4)
    scores = torch.cat([q @ k.transpose(2, 3) * 0.5, p[:2].reshape(1, 2, 1, 1).expand(q.shape[0], -1, 2, -1)], -1)
    return ((scores - scores.max(-1, keepdim=True).values).softmax(-1)[..., :-1] @ k).flatten(1)


def attention_of_none(x, p):
    """By a trained mask, and with a dropout that drops one in 10^9; the second row may attend to nothing, the third not to the first."""
    q, k, v = (x.view(-1, 1, 4, 4) * (i + 1) for i in range(3))
    mask = without(p, 8, 16).view(4, 4).masked_fill(torch.arange(4)[:, None] == 1, -torch.inf)
    return (F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            + F.scaled_dot_product_attention(q, k, v, attn_mask=mask.detach() > -torch.inf, dropout_p=1e-9)).flatten(1)


def changed_behind_views(x, p):
    """Views of a tensor that is changed after they were made, and through one of them."""
    y = (x * p).view(-1, 4, 4)
    views = [y, y.unfold(1, 2, 2), y.swapdims(1, 2), y.moveaxis(2, 1), y.moveaxis((1, 2), (2, 1))]
    pieces = y.tensor_split(2, 1)
    y.mul_(2)
    y.swapaxes(1, 2).add_(torch.arange(16.0).view(4, 4) / 16)
    return sum(v.flatten(1) * (0.1 * i + 0.1) for i, v in enumerate(views)) + torch.cat(pieces[::-1], 1).flatten(1)


def volumes(x):
    return x.view(-1, 2, 2, 2, 2)


def attention_on_five_axes(x, p):
    """Windows before the heads; a mask of each window, of all, and one that is trained."""
    q, k, v = (x * p).view(-1, 2, 1, 2, 4), x.view(-1, 2, 1, 2, 4), x.roll(1, 1).view(-1, 2, 1, 2, 4)
    masks = [None, p[:8].view(2, 1, 2, 2), p[:4].detach().view(2, 2), (x.detach()[:, :8].view(-1, 2, 1, 2, 2) > 0) | torch.eye(2).bool()]
    return sum(F.scaled_dot_product_attention(q, k, v, attn_mask=mask) * (i + 1) for i, mask in enumerate(masks)).flatten(1)


def means_of_volumes(x, p):
    """Windows over the edge, with and without what lies outside of it, and sums."""
    v = volumes(x * p)
    means = [F.avg_pool3d(v, (1, 2, 2), 1, (0, 1, 1)), F.avg_pool3d(v, 2, 1, 1, count_include_pad=False), F.avg_pool3d(v, (2, 1, 2), 2, ceil_mode=True, divisor_override=3),
             F.avg_pool3d(v, (2, 2, 1)), F.adaptive_avg_pool3d(v, (1, 2, 1)), F.adaptive_avg_pool3d(volumes(x).flatten(2).view(-1, 2, 1, 2, 4), (1, 2, 3)),
             F.avg_pool2d(x.view(-1, 1, 4, 4), 3, 2, 1, ceil_mode=True, divisor_override=5)]
    return torch.cat([m.flatten(1) for m in means], 1)


def greatest_of_windows(x, p):
    """Windows have several sizes, and the places are read; of ties the first has the gradient."""
    tied = torch.floor(4 * x.detach()) + (x - x.detach())
    found = [F.adaptive_max_pool1d(x.view(-1, 2, 8), 3, return_indices=True), F.adaptive_max_pool2d((x * p).view(-1, 1, 4, 4), (3, 2), return_indices=True),
             F.adaptive_max_pool2d(tied.view(-1, 1, 4, 4), (2, 3), return_indices=True), F.adaptive_max_pool3d(volumes(tied), (1, 2, 1), return_indices=True)]
    return torch.cat([(value * (1 + 0.1 * place)).flatten(1) for value, place in found], 1)


def resampled(x, p):
    """Smaller and larger, by sizes and by factors, aligned or not."""
    image = (x * p).view(-1, 1, 4, 4)
    made = [F.interpolate(image, size, scale_factor=factor, mode=mode, align_corners=aligned, antialias=True) for mode in ("bilinear", "bicubic")
            for size, factor, aligned in (((3, 2), None, False), ((5, 7), None, True), (None, (0.6, 1.5), False))]
    return torch.cat([m.flatten(1) for m in made], 1)


def bags(x, p):
    """Bags have several sizes, one is empty; with a row that is left out, weights and the greatest."""
    rows, offsets = torch.tensor([1, 0, 2, 3, 3, 1, 2]), torch.tensor([0, 2, 2, 5])
    table = p.view(4, 4)
    made = [F.embedding_bag(rows, table, offsets, mode="sum", per_sample_weights=p[:7]), F.embedding_bag(rows, table, offsets, mode="mean", padding_idx=3),
            F.embedding_bag(rows, table, torch.tensor([0, 2, 2, 5, 7]), mode="max", include_last_offset=True), F.embedding_bag(rows, table, offsets, mode="max", padding_idx=-4)]
    each = F.embedding_bag((x.detach()[:, :3] > 0).long(), table, mode="sum", per_sample_weights=x[:, :3])
    return sum(m.flatten() * (i + 1) for i, m in enumerate(made)) * x + each.repeat(1, 4)


def rows_apart(x, p):
    a, b = (x * p).view(-1, 4, 4), torch.cat([x.view(-1, 4, 4)[:, :2] * 1.0, (x * p).view(-1, 4, 4)[:, :1]], 1)
    return torch.cat([torch.cdist(a, b, q).flatten(1) for q in (1.0, 2.0, 3.0, float("inf"))], 1) + torch.pdist(p.view(4, 4)).repeat(8)


def left_out(x, p):
    """Dropout that leaves out nearly nothing, since its numbers are others than PyTorch's."""
    image = images(x * p)
    return (F.dropout2d(image, 1e-9) + F.alpha_dropout(image, 1e-9) + F.feature_alpha_dropout(image, 1e-9) + F.alpha_dropout(image, 0.5, training=False)).flatten(1)


def definite(x):
    """Symmetric matrices of 4 rows with eigenvalues above 1."""
    a = x.view(-1, 4, 4)
    return a @ a.mT + (1 + torch.arange(4.)).diag()


def factored(x, p):
    """Matrices of each sample, of a weight that all share, and of both; both triangles."""
    linalg, s, b = torch.linalg, definite(x), x.view(-1, 4, 4)
    w = definite(p)[0]
    y = linalg.cholesky(s, upper=True) + linalg.cholesky(w) @ linalg.inv(s) + linalg.solve(w, b) + linalg.solve(s, p.view(4, 4), left=False)
    y = y + torch.cholesky_solve(b, linalg.cholesky(w)) + torch.cholesky_inverse(linalg.cholesky(s)) + linalg.solve(s, p[:4])[..., None]
    y = y + linalg.solve_triangular(w.tril(), b, upper=False) + linalg.solve_triangular(s, p.view(4, 4), upper=True, left=False, unitriangular=True)
    y = y + (linalg.det(s).log() + linalg.slogdet(w)[1] + torch.logdet(s))[:, None, None] * 0.1
    return 0.1 * (y + 0.1 * linalg.matrix_exp(0.3 * b * p[0]) + linalg.matrix_power(w, 3) * 1e-3 + linalg.matrix_power(s, -2)).flatten(1)


def solved_with_factors(x, p):
    """By factors with row exchanges, from both sides; a matrix that is exactly singular has a derivative of zeros. No other is near to it:
    what solves by such a one changes by far more than a rounding where its elements change by one."""
    a = 0.5 * torch.tanh(x.view(-1, 4, 4) + p.view(4, 4).flip(0)) + 3 * torch.eye(4).flip(0)
    lu, pivots = torch.linalg.lu_factor(a)
    left, lower, upper = torch.linalg.lu(x.view(-1, 8, 2))
    b = p.view(4, 4)
    y = sum(torch.linalg.lu_solve(lu, pivots, b, left=side, adjoint=turned) for side in (True, False) for turned in (True, False))
    singular = torch.linalg.det(torch.stack([p[:2], p[:2] * 2]))
    return 0.1 * (y.flatten(1) + (left @ lower @ upper.cos()).flatten(1) + torch.lu_unpack(lu, pivots)[1].flatten(1) + singular)


def decomposed(x, p):
    """Second and third results; those of one triangle, of few rows and of many."""
    linalg, s, a = torch.linalg, definite(x), x.view(-1, 2, 8) + p.view(2, 8)
    values, vectors = linalg.eigh(s, UPLO="U")
    y = (vectors.square() @ values[..., None] + linalg.eigvalsh(definite(p))[0].sum()).expand(-1, 4, 4)
    u, d, v = linalg.svd(a, full_matrices=False)
    q, r = linalg.qr(a)
    wide = (u.abs() * d[:, None]) @ v.abs() + q @ r.cos() + linalg.svd(a, full_matrices=True)[1][..., None] * linalg.matrix_norm(a, "nuc")[:, None, None]
    tall, triangle = linalg.qr(a.mT)
    return 0.1 * (y.flatten(1) + wide.flatten(1) + (tall @ triangle.sin()).flatten(1) + linalg.pinv(a).flatten(1) + linalg.pinv(s, hermitian=True).flatten(1))


def reflected(x, p):
    """Products of reflections, and with what they are applied to; of both sides."""
    v, y = x.view(-1, 4, 4), p.view(4, 4)
    tau = torch.sigmoid(p[:3]) * (1 + 0.1 * x[:, :3])
    y = sum(torch.ormqr(v[..., :3], tau, y.expand_as(v), left, turned) for left in (True, False) for turned in (True, False))
    return 0.1 * (torch.linalg.householder_product(v[..., :3], tau) @ torch.ones(3, 4) + y).flatten(1)


def of_scalars(x, p):
    """Calls along an axis, which a scalar lacks."""
    zero, one = torch.tensor(0), torch.tensor([0])
    return x * (p[0].gather(0, zero) + p[1].scatter(0, zero, p[2]) + p[3].scatter_add(0, one[0], p[4]) + p[5].index_select(0, one)
                + p[6].index_add(0, one, p[7]) + p[8].topk(1)[0] + p[9].sort()[0] + p[10].unfold(0, 1, 1) + p[11].index_copy(0, one, p[12])
                + p[13].index_fill(0, one, 0.5) + p[14].scatter_reduce(0, zero, p[15], "mean"))


def strided(x, p):
    """Windows that overlap, of each sample; of a parameter, a diagonal and its elements more than once."""
    return ((x * p).as_strided((x.shape[0], 3, 4), (16, 4, 1), 2).flatten(1) + (p * 1).as_strided((4, 3), (5, 0)).flatten()
            + torch.as_strided_copy(x * 2, (x.shape[0], 12), (16, 1), 4))


def transforms(x, p):
    """Real numbers to half of their frequencies, and back; fewer and more points than there are."""
    image, fft = (x * p).view(-1, 4, 4), torch.fft
    half = fft.rfft2(image, norm="ortho")
    parts = [fft.rfft(x), fft.rfft(x, 7, norm="forward"), half, fft.rfftn(image, (3, 6), (2, 1)), fft.ifft(x, 5), fft.ifft2(image), fft.ihfft(x),
             fft.ihfft2(image, norm="ortho"), fft.ifftn(fft.fft2(image, (3, 5)), dim=(1,)), x.stft(8, 3, 6, p[:6], center=False, return_complex=True)]
    real = [fft.irfft(fft.rfft(x) * p[:9]), fft.irfft(x, 9, norm="ortho"), fft.irfft2(half, (4, 3)), fft.irfftn(half, dim=(2, 1)), fft.hfft(fft.rfft(x).conj()),
            fft.hfft2(half, norm="forward"), fft.hfftn(half, (3, 5)), p.stft(5, return_complex=False).sum().expand(x.shape)]
    return torch.cat([torch.view_as_real(part.resolve_conj()).flatten(1) for part in parts] + [part.flatten(1) for part in real], 1)


def turned(x, p):
    """Positions as angles of complex numbers, as the first Llama has them, and parts put together."""
    angles = torch.polar(p[:8].abs(), p[8:])
    z = torch.view_as_complex((x * p).view(-1, 8, 2)) * angles + torch.complex(x[:, :8], x[:, 8:]) - angles.conj()
    return torch.view_as_real(z.roll(1, 1).flip(1)[:, 1:].resolve_conj()).flatten(1) + z.real[:, :1] * z.imag[:, :1]


def pieces_of_powers(x, p):
    """Numbers and exponents, of zeros too."""
    number, exponent = torch.frexp((x * 40) * (x.detach() > -0.5) + p * 0)
    return number * p + exponent * 0.1 * x


def indices_apart(x, p):
    y = p.view(4, 2, 2) * 1
    y[torch.tensor([1, 3]), :, torch.tensor([0, 1])] = p[:4].view(2, 2)
    return (x * p).view(-1, 4, 2, 2)[:, torch.tensor([0, 3]), :, torch.tensor([1, 0])].transpose(0, 1).flatten(1) + y.sum((1, 2))


def of_segments(x, p):
    """Sums and means of rows whose lengths are known, none of which is in the second."""
    lengths = torch.tensor([3, 0, 1])
    return (x.flatten(1).unsqueeze(-1) * torch.segment_reduce(p.view(4, 4), "sum", lengths=lengths, initial=0.5).sum(0).repeat(4)[:, None]
            + torch.segment_reduce(p.view(4, 4), "mean", offsets=torch.tensor([0, 1, 4])).sum()).flatten(1)


CALLS = {
    "of_scalars": of_scalars,
    "transforms": transforms,
    "turned": turned,
    "pieces_of_powers": pieces_of_powers,
    "of_segments": of_segments,
    "diagonals": lambda x, p: x * (torch.diag(p.view(4, 4), 1).sum() + torch.diag(p.view(2, 8), -1)) + torch.diagonal_copy(x.view(-1, 4, 4), 1, 2, 1).sum(-1, True),
    "rolled_whole": lambda x, p: x * p.view(4, 4).roll(3).flatten(),
    "addbmm": lambda x, p: x @ torch.addbmm(p.view(4, 4).repeat(4, 4), p.repeat(4).view(2, 16, 2), p.repeat(4).view(2, 2, 16), beta=0.5, alpha=0.2),
    "every_third": lambda x, p: torch.slice_scatter(x, (x * p)[:, :5], 1, 1, 15, 3),
    "indices_apart": indices_apart,
    "sorted_with_nan": lambda x, p: torch.nan_to_num(with_nan(x * p, 5).sort(1)[0], 0.5) + torch.nan_to_num(with_nan(x, 2).topk(16, 1, largest=False)[0], 0.3)
                       + with_nan(x, 15).gather(1, with_nan(x, 15).argsort(1) * 0) + x.sort(1)[0] * p,
    "signs_of_infinity": lambda x, p: torch.where(torch.isneginf(without(x, 1, 4)), p, x) + torch.where(torch.isposinf(-without(x, 2, 4)), p, x),
    "quantiles": lambda x, p: (x * p).quantile(torch.tensor([0.2, 0.7]), -1).sum(0)[:, None] + x.quantile(torch.tensor(0.4), 1, True, interpolation="midpoint")
                 + with_nan(x, 5).nanquantile(torch.tensor([0.3]), 1, interpolation="lower").transpose(0, 1) + p.quantile(torch.tensor(0.9), interpolation="nearest"),
    "attention_on_five_axes": attention_on_five_axes,
    "means_of_volumes": means_of_volumes,
    "greatest_of_windows": greatest_of_windows,
    "resampled": resampled,
    "bags": bags,
    "rows_apart": rows_apart,
    "left_out": left_out,
    "conv3d": lambda x, p: F.conv3d(volumes(x), p.view(2, 2, 2, 1, 2), p[:2], padding=(1, 0, 1), stride=(1, 2, 1)).flatten(1)
                           + F.conv3d(volumes(x), p.view(4, 1, 1, 2, 2), groups=2, padding="same").flatten(1)[:, :18],
    "conv_same": lambda x, p: (F.conv1d(x.view(-1, 4, 4), p.view(2, 4, 2), padding="same") + F.conv1d(x.view(-1, 4, 4), p.view(1, 4, 4), padding="same")).flatten(1),
    "conv_transpose3d": lambda x, p: F.conv_transpose3d(volumes(x), p.view(2, 1, 2, 2, 2), stride=2, padding=1, output_padding=1).flatten(1)
                                     + F.conv_transpose3d(p.view(2, 2, 2, 2), p.view(2, 1, 2, 2, 2), stride=(1, 2, 1), padding=1)[0].flatten()[:1],
    "kernel_of_each_sample": lambda x, p: F.conv1d(x.reshape(1, -1, 4), (x * p).view(-1, 4, 2), x[:, :2].flatten(), padding=1, groups=x.shape[0]).view(x.shape[0], -1),
    "col2im": lambda x, p: F.fold((x * p).view(-1, 4, 4), 3, 2).flatten(1) + F.fold((x * p).view(-1, 4, 4)[..., :3], (3, 2), 2, padding=(0, 1), stride=(2, 1)).flatten(1).repeat(1, 2)[:, :9],
    "bilinear": lambda x, p: F.bilinear(x.view(-1, 4, 4), (x * p).view(-1, 4, 4), p.repeat(2).view(2, 4, 4), p[:2]).flatten(1),
    "rrelu": lambda x, p: F.rrelu(x * p, 0.1, 0.4),
    "instance_norm": lambda x, p: F.instance_norm(images(x), torch.arange(4.0) / 4, torch.arange(4.0) + 1, p[:4], p[4:8], use_input_stats=False).flatten(1),
    "changed_behind_views": changed_behind_views,
    "outer": lambda x, p: x * torch.outer(p[:4], p[4:8]).flatten(),
    "tensor_split": lambda x, p: torch.cat([a * (i + 1) for i, a in enumerate(x.tensor_split(3, -1) + x.tensor_split((2, 5), 1))], 1),
    "cosine_similarity": lambda x, p: F.cosine_similarity(x.view(-1, 4, 4), p.view(4, 4), dim=-1),
    "std": lambda x, p: torch.stack([x.std(-1), x.std(1, unbiased=False), x.var(1)], 1),
    "std_of_equal_numbers": lambda x, p: (x.detach() * 0 + x[:, :1] * 0).std(-1, keepdim=True),
    "var_mean": lambda x, p: torch.cat(torch.var_mean(x, -1, keepdim=True), 1),
    "norm_of_zeros": lambda x, p: torch.stack([x, x * 0], 1).norm(dim=-1),
    "round": lambda x, p: x + (torch.round(4 * x) / 4 - x).detach() + torch.round(10 * x) * p,
    "floor": lambda x, p: p * torch.floor(5 * x) + torch.ceil(3 * x) * x + torch.trunc(7 * x) * x,
    "quotients": lambda x, p: p * torch.div(torch.arange(-8, 8) * (x[:, :1] == x[:, :1]), 3, rounding_mode="trunc") + x,
    "integer_powers": lambda x, p: p * 0.01 * (whole(x) ** 3 + whole(x) ** 0 + 2 ** whole(x).abs() + whole(x) ** (whole(x) + 3)) + x,
    "odd_powers": lambda x, p: p * ((whole(x) % 3 - 1) ** (whole(x) * 40) + (x > 0) ** torch.arange(16)) + x,
    "shifts": lambda x, p: p * 0.1 * ((whole(x) << 2) + (whole(x) >> 1) + (whole(x) >> 70) + (1 << whole(x)) + (whole(x) >> whole(x))) + x,
    "known_integers": lambda x, p: x + p * 0.001 * (2 ** torch.arange(16) + (torch.arange(-8, 8) >> 1) + (torch.arange(16) << 3)
                                                    + torch.arange(-8, 8) ** torch.arange(16) % 97 + torch.arange(-8, 8) ** 3),
    "bits": lambda x, p: p * (~whole(x) + ~(x > 0) + (whole(x) & 5) + (whole(x) & -3) + (whole(x) | 6) + (whole(x) ^ 9) + (whole(x) ^ -2)) + x,
    "half_to_even": lambda x, p: p * torch.round(torch.arange(-8, 8) / 2 + 0 * x) + x,
    "lerp": lambda x, p: torch.lerp(x, p.expand_as(x), 0.3) + torch.lerp(x, p.expand_as(x), p),
    "units": lambda x, p: F.selu(x) + F.celu(x, 0.7) + F.elu(x, 0.5) + F.hardshrink(x, 0.2) + F.softshrink(x, 0.1) + F.tanhshrink(x),
    "cosh": lambda x, p: torch.log(torch.cosh(x)) + torch.tan(0.5 * x),
    "logarithms": lambda x, p: torch.log2(x.abs() + 1) + torch.log10(x.abs() + 1) + torch.exp2(x) + torch.logaddexp(x, p.expand_as(x)) + torch.rsqrt(x.abs() + 1),
    "aliases": lambda x, p: torch.multiply(x, p) + torch.subtract(x, p, alpha=2) + torch.divide(x, p.abs() + 1) + torch.clip(x, -0.5, 0.5) + torch.negative(x),
    "meshgrid": lambda x, p: x + sum(g.flatten() * i for i, g in enumerate(torch.meshgrid(p[:2], p[2:10], indexing="xy"))),
    "diag": lambda x, p: x @ torch.diag(p) + x @ torch.eye(WIDTH) + x @ torch.diag(p[1:], 1) * 2 + torch.diag(p.view(4, 4)).sum(),
    "moveaxis": lambda x, p: torch.moveaxis(x.view(-1, 2, 4, 2), (1, 2), (3, 1)).flatten(1) * p,
    "unfold": lambda x, p: (x.unfold(1, 3, 2) * p[:3]).sum(-1),
    "argsort": lambda x, p: x.gather(1, x.detach().argsort(-1)) * p,
    "stable_sorts": lambda x, p: x.repeat(1, 4).gather(1, torch.argsort((x.detach() > 0).long().repeat(1, 4), dim=-1, stable=True))[:, :WIDTH] * p
                    + x.repeat(1, 4).gather(1, (x.detach() > 0).float().repeat(1, 4).sort(dim=-1, descending=True, stable=True).indices)[:, -WIDTH:],
    "one_of_a_row": lambda x, p: x.view(-1, 4, 4)[torch.arange(x.shape[0]), x.detach().argmax(-1) // 4 - 4] * p[:4],
    "argmin": lambda x, p: x.gather(1, x.argmin(1, keepdim=True)),
    "embedding_bag": lambda x, p: F.embedding_bag((x.detach() > 0).long(), p.view(2, 8), mode="mean") * x[:, :8],
    "upsample": lambda x, p: F.interpolate(images(x), scale_factor=2) * F.interpolate(images(x), size=(4, 4)),
    "adaptive_pool": lambda x, p: F.adaptive_avg_pool1d(x.view(-1, 2, 8), 5).flatten(1) * p[:10] + F.adaptive_avg_pool1d(x, 10),
    "adaptive_pool_evenly": lambda x, p: F.adaptive_avg_pool1d(x.view(-1, 2, 8), 4).flatten(1) * p[:8] + F.adaptive_avg_pool1d(x, 1) + F.adaptive_avg_pool1d(x, 8),
    "adaptive_pool_of_images": lambda x, p: F.adaptive_avg_pool2d(x.view(-1, 1, 4, 4), (3, 2)).flatten(1) * p[:6],
    "pool_to_one": lambda x, p: torch.as_strided(images(x).mean((-1, -2), True), (x.shape[0], 4, 1, 1), (4, 1, 4, 4)).flatten(1) * p[:4],
    "pool_without_padding": lambda x, p: F.avg_pool2d(x.view(-1, 1, 4, 4), 3, 1, 1, count_include_pad=False).flatten(1) * p
                            + F.avg_pool2d(x.view(-1, 1, 4, 4), 3, 2, 1, ceil_mode=True, count_include_pad=False).flatten(1).repeat(1, 4)[:, :16]
                            + F.avg_pool1d(x.view(-1, 1, 16), 3, 1, 1, count_include_pad=False).flatten(1),
    "im2col": lambda x, p: F.unfold(x.view(-1, 1, 4, 4), (3, 2), dilation=(1, 2), padding=1, stride=2).flatten(1)[:, :16] * p,
    "weight_norm": lambda x, p: x @ torch._weight_norm(p.view(4, 4).repeat(4, 1), p[:16].view(16, 1), 0) + torch._weight_norm(p, p[:1], -1)[:4],
    "lstm": lambda x, p: recurrent(torch.lstm, x, p, 4, 2),
    "lstm_both_ways": lambda x, p: recurrent(torch.lstm, x, p, 4, 2, layers=2, both=True),
    "lstm_projected": lambda x, p: projected(x, p),
    "gru": lambda x, p: recurrent(torch.gru, x, p, 3, 1, layers=2),
    "rnn": lambda x, p: recurrent(torch.rnn_tanh, x, p, 1, 1, both=True) + recurrent(torch.rnn_relu, x, p, 1, 1, both=True, first=False, biases=False),
    "cells": lambda x, p: torch.cat([torch.lstm_cell(x[:, :4], (x[:, 4:8], x[:, 8:12]), *cut(p, (16, 4), (16, 4), (16,), (16,)))[1],
                                     torch.gru_cell(x[:, :4], x[:, 4:8], *cut(p, (12, 4), (12, 4))), torch.rnn_tanh_cell(x[:, :4], x[:, 4:8], *cut(p, (4, 4), (4, 4), (4,), (4,))),
                                     torch.rnn_relu_cell(x[:, :4], x[:, 4:8], *cut(p, (4, 4), (4, 4)))], 1),
    "new_empty": lambda x, p: x * x.new_empty(x.shape).fill_(2.0) + p,
    "one_head_of_keys": lambda x, p: F.scaled_dot_product_attention(x.view(-1, 4, 2, 2), x.view(-1, 1, 8, 2), (x * p).view(-1, 1, 8, 2)).flatten(1),
    "narrow_values": lambda x, p: F.scaled_dot_product_attention((x * p).view(-1, 2, 2, 4), x.view(-1, 2, 2, 4), x.view(-1, 2, 2, 4)[..., 1:]).flatten(1)
                     + F.scaled_dot_product_attention(x.view(-1, 4, 4), x.view(-1, 4, 4), (x * p).view(-1, 4, 4)[..., :3], is_causal=True).flatten(1),
    "wide_values": lambda x, p: F.scaled_dot_product_attention((x * p).view(-1, 2, 2, 4)[..., 1:], (x * p).view(-1, 2, 2, 4)[..., :3], x.view(-1, 2, 2, 4)).flatten(1),
    "long_ranges": lambda x, p: (x[:, :1] * torch.sin(torch.arange(7, 210007, 3) * 1e-3) + p[:1] * torch.arange(70000)[None]).mean(1, keepdim=True) * 1e-4 + x * p,
    "large_masks": lambda x, p: (torch.tril(torch.ones(1100, 1100)).bool() & (x[:, :1, None] > 0)).float().mean((1, 2))[:, None] * p + x * p,
    "conv_transpose": lambda x, p: F.conv_transpose2d(images(x), p.view(4, 1, 2, 2), stride=2, groups=2, padding=1, output_padding=1, dilation=2),
    "conv_transpose1d": lambda x, p: F.conv_transpose1d(x.view(-1, 4, 4), p.view(4, 2, 2), bias=p[:2], stride=3),
    "extremes": lambda x, p: torch.minimum(x, p) + x.amax(-1, keepdim=True),
    "avg_pool2d": lambda x, p: F.avg_pool2d(images(x), 2).flatten(1),
    "window_over_the_edge": lambda x, p: F.max_pool2d(images(x), 3, 2, ceil_mode=True).flatten(1) * p[:4] + F.avg_pool2d(images(x), 3, 2, ceil_mode=True).flatten(1),
    "erf": lambda x, p: torch.erf(x) * p,
    "large_integers": lambda x, p: x.gather(1, (x.detach() > 0).long().masked_fill(x.detach() > 0.5, torch.iinfo(torch.int64).max).clamp(0, 15)) * p,
    "gates": lambda x, p: torch.sigmoid(x) * p + F.logsigmoid(x) + F.leaky_relu(x, 0.2),
    "conditions": lambda x, p: torch.where(torch.logical_not(x > 0.1), x, p) + torch.where(torch.isnan(x), p, x),
    "pixel_shuffle": lambda x, p: F.pixel_shuffle(x.view(-1, 4, 2, 2), 2).flatten(1) * p + F.pixel_unshuffle(x.view(-1, 1, 4, 4), 2).flatten(1),
    "channel_shuffle": lambda x, p: F.channel_shuffle(x.view(-1, 8, 2, 1), 4).flatten(1) * p,
    "fourier": lambda x, p: torch.fft.fftn((x * p).view(-1, 4, 4), dim=(1, 2)).real.flatten(1) + torch.fft.fft(x, norm="ortho").imag
                            + torch.view_as_real(torch.fft.fft2(x[:, :8].view(-1, 2, 4), norm="forward")).flatten(1),
    "cumsum": lambda x, p: x.cumsum(-1) * p,
    "saturated_cross_entropy": lambda x, p: 0.1 * F.binary_cross_entropy(saturated(x).sigmoid(), torch.full_like(x, 0.3), reduction="none")
                            + F.binary_cross_entropy((p * 0 + 200).sigmoid(), torch.full_like(p, 0.9), p.detach() ** 2),
    "cross_entropy_at_bounds": lambda x, p: x + 1e-12 * F.binary_cross_entropy((integers(p) > 0) + (p - p.detach()), torch.full_like(p, 0.25), reduction="none"),
    "cross_entropy_of_both": lambda x, p: F.binary_cross_entropy(x.sigmoid(), p.sigmoid().expand_as(x), reduction="none"),
    "attention_of_none": attention_of_none,
    "attention_with_sinks": attention_with_sinks,
    "safe_softmax": lambda x, p: torch._safe_softmax(without((x * p).view(-1, 4, 4).transpose(1, 2), 2, 4).transpose(1, 2), -1).flatten(1),
    "bounds": lambda x, p: 0.1 * (x + F.hardtanh(integers(p)) - 2 * F.hardtanh(integers(p), 2, 5) + 3 * F.relu6(integers(p))),
    "hard_gates": lambda x, p: 0.1 * F.hardswish(integers(p)) + F.hardswish(2 * x) - 0.5 * F.hardsigmoid(integers(p)) + F.hardsigmoid(x),
    "clamp_at_bounds": lambda x, p: x + 0.1 * torch.clamp(integers(p), -2, 5) - 0.1 * torch.clamp(integers(p), min=1),
    "units_at_zero": lambda x, p: x + 0.1 * (F.elu(integers(p), 0.5) + 2 * F.selu(integers(p)) - F.celu(integers(p), 0.7)),
    "logsumexp": lambda x, p: torch.logsumexp(x * p, -1, keepdim=True) + torch.logsumexp((x * 2).view(-1, 4, 4), (1, 2), keepdim=True).flatten(1),
    "logsumexp_of_none": lambda x, p: torch.exp(torch.logsumexp(without((x * p).view(-1, 4, 4), 1, 4), 1)),
    "logaddexp": lambda x, p: torch.exp(torch.logaddexp(without(x, 1, 4), without(p, 1, 2))) + torch.logaddexp(x, x.detach()) + torch.logaddexp(p, p * 1),
    "products": lambda x, p: x.prod(-1, keepdim=True) + (x * p).view(-1, 2, 8).prod(1).repeat(1, 2) + without_some(x, p).prod(-1, keepdim=True)
                + without_some(x, p).cumprod(-1) + p.prod(),
    "order": lambda x, p: (x * p).kthvalue(5, -1, True)[0] + torch.kthvalue(x.view(-1, 4, 4), 2, 1)[0].repeat(1, 4) + (x + p).median(-1, True)[0]
             + without(x, 1, 4).nanmedian(-1, True)[0] + p.median() + (p * 2).nanmedian() + (x - p).mode(-1, True)[0],
    "median_of_nan": lambda x, p: torch.nan_to_num(with_nan(x, 5).median(-1, True)[0], 0.5) + with_nan(x * p, 5).nanmedian(-1, True)[0] + with_nan(p, 3).nanmedian()
                     + with_nan(x, 2).kthvalue(4, -1, True)[0],
    "equal_medians": lambda x, p: x + integers(p).median() + torch.cat([p * 0 + 1, p]).median(),
    "logcumsumexp": lambda x, p: (x * p).logcumsumexp(-1) + x.view(-1, 4, 4).logcumsumexp(1).flatten(1),
    "distances_of_rows": lambda x, p: sum(torch.cdist(x.view(-1, 4, 4), (x * p).view(-1, 4, 4) + 0.1, order).flatten(1) for order in (0., 1., 2., 2.5, float("inf")))
                         + torch.cdist(x.view(-1, 4, 4), x.detach().view(-1, 4, 4)).flatten(1) + sum(F.pdist(p.view(4, 4), order).sum() for order in (1., 2., 3., float("inf"))),
    "put": lambda x, p: torch.index_put(x, (torch.arange(x.shape[0]), torch.tensor(3)), p[0]) + torch.index_put(p * 2, (torch.tensor([1, -3]),), p[4:6])
           + torch.index_put(p.view(4, 4), (torch.tensor([0, 2]), torch.tensor([1, 1])), torch.tensor(0.5)).view(16),
    "softmax_of_one": lambda x, p: x * (p[0].softmax(0) + torch.log_softmax(p[1] * p[2], 0)) + torch.broadcast_to(p, x.shape),
    "norms": lambda x, p: x.norm(3, -1, keepdim=True) + (x * p).norm(float("inf"), -1, keepdim=True) + torch.linalg.vector_norm(x, -float("inf"), -1, True)
             + torch.linalg.vector_norm(x * p, 1.5, -1, True) + torch.linalg.vector_norm(x, 0, -1, True) + torch.linalg.vector_norm(x * 0, 3, -1, True),
    "rounded_quotients": lambda x, p: torch.div(9 * x, 1 + p.abs(), rounding_mode="floor") * p + torch.div(9 * x, 1 + p.abs(), rounding_mode="trunc") * x
                         + torch.fmod(torch.arange(-8, 8), 3) * p + torch.fmax(torch.arange(-8, 8), torch.tensor(2)) * x,
    "factored": factored,
    "solved_with_factors": solved_with_factors,
    "decomposed": decomposed,
    "reflected": reflected,
    "small_arguments": lambda x, p: 1e6 * (torch.log1p(1e-6 * x) + torch.expm1(1e-6 * x * p)) + torch.log1p(3 * x.abs()) + torch.expm1(2 * x)
                            + torch.log1p(1e-3 * x) - torch.expm1(1e-3 * p),
}


def elementwise(row):
    """The operator of a row of elementwise.def, where it is smooth."""
    call = getattr(torch.ops.aten, row.name)
    if row.binary and row.step:  # PyTorch refuses a derivative, be it zero
        return lambda x, p: call(x.detach().abs() + 0.1, p.detach().abs() + 0.5) * p + x
    if row.binary:
        return lambda x, p: call(x.abs() + 0.1, p.abs() + 0.5)
    if row.step:
        return lambda x, p: call(row.low + (row.high - row.low) * torch.sigmoid(x + p)) * p + x
    return lambda x, p: call(row.low + (row.high - row.low) * torch.sigmoid(x + p))


ROWS = {f"row_{row.name}": row for row in elementwise_rows.rows()}
CALLS |= {name: elementwise(row) for name, row in ROWS.items()}
# Results of the nodes of an .onnx file, without the calls that they were made from, and by those calls.
BY_NODES = ["norm_of_zeros", "saturated_cross_entropy", "cross_entropy_of_both", "hard_gates", "units_at_zero", "logsumexp", "logsumexp_of_none",
            *(name for name, row in ROWS.items() if row.onnx)]
BY_CALLS = [*BY_NODES, "cross_entropy_at_bounds", "attention_of_none", "bounds", "clamp_at_bounds", "logaddexp", "small_arguments", "order",
            "logcumsumexp", "distances_of_rows"]
LOSSES = {
    "distances": lambda x, p: 0.1 * F.triplet_margin_loss(x, p.expand_as(x), x.roll(1, 1), margin=0.5, swap=True) + 0.1 * F.triplet_margin_loss(x, p.expand_as(x), x * 2, p=1)
                              + 0.1 * (F.pairwise_distance(x, p) + F.pairwise_distance(x, p.expand_as(x), p=1, keepdim=True)[:, 0] + F.pairwise_distance(x, x * 1, eps=0.0)).mean(),
    "margins": lambda x, p: 0.1 * F.margin_ranking_loss(x, p.expand_as(x), x.detach().sign(), margin=0.2) + 0.1 * F.hinge_embedding_loss(x * p, x.detach().sign(), margin=0.7)
                            + 0.1 * F.soft_margin_loss(x * p, x.detach().sign(), reduction="sum") / 64,
    "cosines": lambda x, p: 0.1 * F.cosine_embedding_loss(x, p.expand_as(x), x.detach()[:, 0].sign(), margin=0.1)
                            + 0.1 * F.cosine_embedding_loss(p, 2 * p + 1, torch.tensor(1)) + 0.1 * F.cosine_embedding_loss(x * 0, x, torch.ones(x.shape[0], dtype=torch.long)),
    "counts": lambda x, p: 0.1 * F.poisson_nll_loss(x * p, (4 * x.detach()).abs().round(), full=True)
                           + 0.1 * F.poisson_nll_loss((x * p).abs(), x.detach().abs(), log_input=False, reduction="none").mean(),
    "in_f64": lambda x, p: 0.1 * (torch.float_power(x.abs() + 0.1, p).mean() + (x.double() * p).exp().mean() + torch.log_softmax(x, -1, dtype=torch.float64).mean()),
    "linear_cross_entropy": lambda x, p: 0.1 * x.mean() * F.linear_cross_entropy(p.view(4, 4), (p * 2).view(4, 4), torch.tensor([0, 3, 1, 2]), label_smoothing=0.1, options=CHUNKS)
                            + 0.1 * F.linear_cross_entropy(p.view(4, 4), (p * 2).view(4, 4), torch.tensor([0, 3, 1, 2]), reduction="none", options=CHUNKS).mean(),
    "nll_loss": lambda x, p: 0.1 * F.nll_loss(-(x * p).pow(2), x.detach().argmax(-1), reduction="sum"),
}


# Calls that the exporter takes apart in models alone that write nothing in place: their result is a view.
WITHOUT_WRITES = {"strided": strided}


class Model(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.layers = nn.ModuleDict({name: nn.Linear(WIDTH, WIDTH) for name in names})
        self.vectors = nn.ParameterDict({name: nn.Parameter(torch.randn(WIDTH)) for name in names})

    def forward(self, x):
        loss = 0
        for name, layer in self.layers.items():
            if name in LOSSES:
                loss = loss + LOSSES[name](layer(x), self.vectors[name])
                continue
            y = (CALLS | WITHOUT_WRITES)[name](layer(x), self.vectors[name])
            loss = loss + (y * torch.linspace(0.5, 1.5, y.shape[-1])).mean() + 0.1 * y.pow(2).mean()
        return loss


def exported(bench, names, container="pt2"):
    """A model of these calls, and its file."""
    torch.manual_seed(2)
    model = Model(names).train()
    return model, bench.export(model, {"x": torch.randn(BATCH, WIDTH)}, f"calls.{container}", calls=names)


def check(bench, names, title, keys, container="pt2", *flags):
    from safetensors.torch import save_file
    model, path = exported(bench, names, container)
    data = torch.randn(BATCH * STEPS, WIDTH, generator=torch.Generator().manual_seed(3))
    save_file({"x": data}, bench.work / f"{title}.safetensors")
    strategy = bench.work / f"{title}.json"
    strategy.write_text(json.dumps({"model": {"batch": BATCH}, "optimizer": {"sgd": {"lr": 0.01}}} | keys))
    plans = bench.work / f"{title}.plans"
    bench.call([bench.bin / "piperc", path, "--strategy", strategy, "-o", plans, *flags])
    result = bench.run(plans, title, 0, "local", STEPS)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.01), []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(data[step * BATCH:(step + 1) * BATCH])
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        optimizer.step()
    faults = [f"step {i + 1}: loss {a}, PyTorch {b}" for i, (a, b) in enumerate(zip(result.losses, losses)) if not abs(a - b) <= 1e-5 * abs(b)]
    for name, wanted in gradients.items():
        got = result.gradients.get(name)
        if got is None or not (got - wanted).norm() <= 2e-5 * max(wanted.norm(), 1e-3):
            faults.append(f"{name}: gradient differs" + ("" if got is None else f" by {(got - wanted).norm():.3g} of {wanted.norm():.3g}"))
    if len(result.losses) != STEPS:
        faults.append(f"{len(result.losses)} losses")
    print(f"{title}: {len(names)} calls, losses {result.losses}" + "".join(f"\n  FAILED {fault}" for fault in faults), flush=True)
    return len(faults)


PIECES = {"directives": [{"op": "replicate", "filter": {}, "devices": [0, 1]}, {"op": "split", "num_microbatches": 2}]}

# Results that share memory with an operand though ATen's schema does not say so.
UNSAID = {"aten._unsafe_view", "aten.unsafe_split", "aten.unsafe_chunk", "prims.broadcast_in_dim"}


def check_sharing():
    """Which results share memory with an operand is in the table of calls as in ATen's schemas."""
    failed = 0
    table = (Path(__file__).resolve().parents[2] / "compiler/frontend/aten/call_table.def").read_text()
    for schema in re.findall(r'^PIPER_ATEN\(.*?"((?:aten|prims)\..*)"\)', table, re.M):
        target = schema.partition("(")[0]
        name, _, overload = target.rpartition(".")
        call = getattr(getattr(getattr(torch.ops, name.partition(".")[0]), name.partition(".")[2]), overload)
        shares = any(a.alias_info and not a.alias_info.is_write for a in call._schema.arguments)
        if (shares and "Tensor(a" not in schema) or ("Tensor(a)" in schema and not shares and name not in UNSAID):
            failed += 1
            print(f"FAILED {target}: the table does not say of its result what ATen does: {call._schema}")
    return failed


def check_proof(bench):
    """A plan of every row of elementwise.def, cut into pieces, is proved to compute the model's step."""
    _, path = exported(bench, list(ROWS))
    strategy, plans = bench.work / "rows.json", bench.work / "rows.plans"
    strategy.write_text(json.dumps({"model": {"batch": BATCH}, "optimizer": {"sgd": {"lr": 0.01}}} | PIECES))
    bench.call([bench.bin / "piperc", path, "--strategy", strategy, "-o", plans, "--reference", "json"])
    text = bench.call([bench.bin / "piper-plan", "verify", plans])
    print(f"rows: {text}", flush=True)
    return "equality with the model: proved" not in text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    bench = harness.Bench(args.bin, args.work, "pt2")
    names = [*CALLS, *LOSSES]
    failed = check_sharing() + check(bench, names, "one", {})
    failed += check(bench, names, "pieces", PIECES) + check_proof(bench)
    failed += check(bench, list(WITHOUT_WRITES), "views", {}) + check(bench, list(WITHOUT_WRITES), "pieces_of_views", PIECES)
    failed += check(bench, BY_CALLS, "onnx", {}, "onnx")
    failed += check(bench, BY_NODES, "nodes", {}, "onnx", "--route", "onnx")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
