"""How calls are taken apart where PyTorch has no rule, or one with another derivative: by the call's arguments, in operators of torch.

A rule that does not fit the arguments raises NotImplementedError; the call stays.
"""
from __future__ import annotations

import itertools
import math

import torch
from torch._decomp import decompositions
from torch.fx.experimental.symbolic_shapes import statically_known_true

RULES = {}


def _rule(*overloads):
    def add(function):
        RULES.update(dict.fromkeys(overloads, function))
        return function
    return add


aten = torch.ops.aten


@_rule(aten.diagonal.default)
def _(x, offset=0, dim1=0, dim2=1):
    """Every (columns + 1)-th element of the last two axes: torch's own is by the strides of the memory."""
    x = x.movedim((dim1, dim2), (-2, -1))
    rows, columns = x.shape[-2:]
    count, start = (min(rows, columns - offset), offset) if offset >= 0 else (min(rows + offset, columns), -offset * columns)
    if count <= 0:
        return x[..., 0, :0]
    return x.reshape(*x.shape[:-2], rows * columns)[..., start:start + (count - 1) * (columns + 1) + 1:columns + 1]


@_rule(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def _index_filled(x, dim, index, value):
    if x.dim() == 0:
        return _index_filled(x.reshape(1), 0, index, value).reshape([])
    extent, index = x.shape[dim], index.reshape(-1)
    index = torch.where(index < 0, index + extent, index)
    filled = (torch.arange(extent).unsqueeze(1) == index).any(1)
    return torch.where(filled.reshape([-1] + [1] * (x.dim() - 1 - dim % x.dim())), value, x)


@_rule(aten.upsample_linear1d.default)
def _(x, output_size, align_corners, scales=None):
    return _linear(x, output_size, align_corners, [scales])


@_rule(aten.upsample_bilinear2d.default)
def _(x, output_size, align_corners, scales_h=None, scales_w=None):
    return _linear(x, output_size, align_corners, [scales_h, scales_w])


@_rule(aten.upsample_trilinear3d.default)
def _(x, output_size, align_corners, scales_d=None, scales_h=None, scales_w=None):
    return _linear(x, output_size, align_corners, [scales_d, scales_h, scales_w])


def _by_sizes(overload):
    """An upsampling by factors is the same call by sizes, as in PyTorch's own kernel, which wants a number for the batch."""
    def rule(x, output_size, *rest):
        *aligned, factors = rest
        sizes = output_size if output_size is not None else [int(extent * factor) for extent, factor in zip(x.shape[2:], factors)]
        return overload(x, sizes, *aligned, *(factors if factors is not None else [None] * len(sizes)))
    return rule


for _name in ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d", "upsample_nearest1d", "upsample_nearest2d",
              "upsample_nearest3d", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"):
    RULES[getattr(aten, _name).vec] = _by_sizes(getattr(aten, _name).default)


def _linear(x, output_size, align_corners, scales):
    """Each axis by itself, the last first: weighted sums of two neighbours. torch's own adds a weighted difference, which has no meaning
    between infinities."""
    if not x.is_floating_point():
        raise NotImplementedError
    for axis in reversed(range(2, x.dim())):
        inside, outside = x.shape[axis], output_size[axis - 2]
        if statically_known_true(inside == outside):    # whatever the factor
            continue
        scale = decompositions._compute_scale(inside, outside, align_corners, scales[axis - 2])
        places = torch.arange(outside).to(torch.float32)
        source = decompositions._compute_source_index(scale, places, align_corners).clamp(min=0.0)
        first = source.to(torch.int64).clamp(max=inside - 1)
        weight = (source - first).clamp(0.0, 1.0).to(x.dtype).reshape([-1] + [1] * (x.dim() - 1 - axis))
        second = (first + 1).clamp(max=inside - 1)
        x = (1.0 - weight) * x.index_select(axis, first) + weight * x.index_select(axis, second)
    return x


@_rule(aten.upsample_nearest2d.default)
def _(x, output_size, scales_h=None, scales_w=None):
    """An axis that keeps its size, or doubles it, is by its sizes, whatever the factor: in two dimensions alone."""
    scales = [None if statically_known_true(outside == inside) or statically_known_true(outside == 2 * inside) else scale
              for inside, outside, scale in zip(x.shape[2:], output_size, (scales_h, scales_w))]
    return decompositions.upsample_nearest2d(x, output_size, *scales)


@_rule(aten.grid_sampler_2d.default, aten.grid_sampler_3d.default)
def _grid_sampler(x, grid, interpolation_mode, padding_mode, align_corners):
    """Weighted sums of elements that are gathered: torch's own reads by an index of the sample, too, which mixes the samples of a batch.
    Cubic slopes cancel each other out where neighbours are equal: of doubles."""
    if interpolation_mode == 2 and x.dtype == torch.float32:
        return _grid_sampler(x.double(), grid.double(), interpolation_mode, padding_mode, align_corners).to(x.dtype)
    axes, flat = x.dim() - 2, x.flatten(2)
    sizes, places = x.shape[2:], grid.flatten(1, -2).unbind(-1)[::-1]    # of [batch, point]; the last axis is the grid's first

    def moved(place, size):
        """Where the element is that is read for one outside, and by what its gradient is multiplied."""
        factor = 1.0
        if padding_mode == 2:
            place, factor = _reflected(place, *((0.0, size - 1.0) if align_corners else (-0.5, float(size))))
        if padding_mode:    # at the border without a gradient
            factor = factor * torch.logical_and(place > 0, place < size - 1).to(place.dtype)
            place = place.clamp(0, size - 1)
        if padding_mode or axes == 3:
            place = torch.where(place.abs() < 2**31 - 1, place, -100.0)
        return place, factor

    def source(place, size):
        place = ((place + 1) / 2) * (size - 1) if align_corners else ((place + 1) * size - 1) / 2
        if interpolation_mode == 2:
            return place
        found, factor = moved(place.detach(), size)
        if padding_mode or axes == 3:
            place = torch.where(place.abs() < torch.inf, place, 0.0)
        return found + (place - place.detach()) * factor

    def corner(at):
        inside, index = None, 0
        for size, place in zip(sizes, at):
            fits = torch.logical_and(place >= 0, place < size)
            inside = fits if inside is None else torch.logical_and(inside, fits)
            index = index * size + place
        index = torch.where(inside, index, 0).unsqueeze(1).expand(-1, x.shape[1], -1)
        return torch.where(inside.unsqueeze(1), flat.gather(2, index), 0.0)
    places = [source(place, size) for size, place in zip(sizes, places)]
    if interpolation_mode == 0:
        first = [torch.floor(place).detach() for place in places]
        near = [[(a.to(torch.int64), a + 1 - place), (a.to(torch.int64) + 1, place - a)] for a, place in zip(first, places)]
    elif interpolation_mode == 1:
        near = [[(torch.round(place).detach().to(torch.int64), None)] for place in places]
    else:
        first = [torch.floor(place).detach() for place in places]
        weights = [_cubic_weights(place - a) for a, place in zip(first, places)]
        near = [[(moved(a + i - 1, size)[0].to(torch.int64), w[i]) for i in range(4)] for a, w, size in zip(first, weights, sizes)]
    total = 0.0
    for chosen in itertools.product(*near):
        term = corner([place for place, _ in chosen])
        for _, weight in chosen:
            term = term if weight is None else term * weight.unsqueeze(1)
        total = total + term
    return total.reshape(x.shape[0], x.shape[1], *grid.shape[1:1 + axes])


def _reflected(place, low, span):
    if span <= 0:
        return torch.zeros_like(place), 0.0
    away, rest = (place - low).abs(), torch.fmod((place - low).abs(), span)
    even = torch.remainder(torch.floor(away / span), 2.0) == 0
    return torch.where(even, rest + low, span - rest + low), torch.where(even, 1.0, -1.0) * torch.where(place < low, -1.0, 1.0)


def _cubic_weights(t, a=-0.75):
    """Weights of four neighbours, with the derivatives that torch writes out."""
    fixed, change = t.detach(), t - t.detach()

    def near(x):
        return ((a + 2) * x - (a + 3)) * x * x + 1, (3 * (a + 2) * x - 2 * (a + 3)) * x

    def far(x):
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a, (3 * a * x - 10 * a) * x + 8 * a
    weights = (*far(fixed + 1), 1), (*near(fixed), 1), (*near(1 - fixed), -1), (*far(2 - fixed), -1)
    return [value + change * (slope * sign) for value, slope, sign in weights]


@_rule(aten.multilabel_margin_loss_forward.default)
def _(x, target, reduction):
    """With no gradient at the edge of the margin. Labels after the first -1 are none."""
    shape, x, target = target.shape, torch.atleast_2d(x), torch.atleast_2d(target)
    classes = torch.arange(x.shape[1])
    counted = classes < torch.where(target == -1, classes, x.shape[1]).amin(-1, keepdim=True)
    is_target = (classes == torch.where(counted, target, -1).unsqueeze(-1)).any(1)
    wanted = torch.gather(x, 1, torch.where(counted, target, 0))
    z = 1.0 - wanted.unsqueeze(-1) + x.unsqueeze(1)    # of a sample, a label, a class
    z = torch.where(torch.logical_and(z > 0, counted.unsqueeze(-1)), z, 0) / x.shape[1]
    z = torch.where(is_target.unsqueeze(1), 0, z).sum((1, 2))
    return _reduced(z if len(shape) == 2 else z.squeeze(0), reduction), is_target.to(x.dtype).reshape(shape)


def _reduced(x, reduction):
    return x.mean() if reduction == 1 else x.sum() if reduction == 2 else x


@_rule(aten.cummax.default)
def _(x, dim):
    return _extremes_so_far(x, dim, torch.gt)


@_rule(aten.cummin.default)
def _(x, dim):
    return _extremes_so_far(x, dim, torch.lt)


def _extremes_so_far(x, dim, beats):
    """The extreme of the elements so far, and which it is, the last of equal ones; a NaN is as far as any."""
    if x.dim() == 0:
        return x.clone(), torch.zeros([], dtype=torch.int64)
    at = torch.arange(x.shape[dim]).reshape([-1] + [1] * (x.dim() - 1 - dim % x.dim())).expand(x.shape)
    reach = 1
    while reach < x.shape[dim]:    # each step twice as far as the last
        rest = x.shape[dim] - reach
        before, here = x.narrow(dim, 0, rest), x.narrow(dim, reach, rest)
        keeps = beats(before, here)
        if x.is_floating_point():
            keeps = keeps.logical_or(before.isnan()).logical_and(here.isnan().logical_not())
        x, at = (torch.cat([y.narrow(dim, 0, reach), torch.where(keeps, y.narrow(dim, 0, rest), y.narrow(dim, reach, rest))], dim) for y in (x, at))
        reach *= 2
    return x.clone(), at.clone()


@_rule(aten.masked_scatter.default)
def _(x, mask, source):
    """The n-th element that the mask chooses is the n-th of the source."""
    x, mask = torch.broadcast_tensors(x, mask)
    if source.numel() == 0:
        raise NotImplementedError
    chosen = (mask.reshape(-1).to(torch.int64).cumsum(0) - 1).clamp(0, source.numel() - 1)
    return torch.where(mask, source.reshape(-1).index_select(0, chosen).reshape(x.shape), x)


@_rule(aten.diagonal_scatter.default)
def _(x, src, offset=0, dim1=0, dim2=1):
    """Each row has the element of the diagonal that lies in it, or each column, where the diagonal begins below the first row."""
    moved = x.movedim((dim1, dim2), (-2, -1))
    rows, columns = moved.shape[-2:]
    if src.numel() == 0:
        return x.clone()
    on = torch.arange(columns) - torch.arange(rows).unsqueeze(1) == offset
    by_row = src.index_select(-1, torch.arange(rows).clamp(max=src.shape[-1] - 1)).unsqueeze(-1)
    by_column = src.index_select(-1, torch.arange(columns).clamp(max=src.shape[-1] - 1)).unsqueeze(-2)
    return torch.where(on, by_row if offset >= 0 else by_column, moved).movedim((-2, -1), (dim1, dim2))


@_rule(aten.put.default)
def _(x, index, source, accumulate=False):
    index, source = index.reshape(-1), source.reshape(-1)
    index = torch.where(index < 0, index + x.numel(), index)
    flat = x.reshape(-1)
    return (flat.index_add(0, index, source) if accumulate else flat.scatter(0, index, source)).reshape(x.shape)


@_rule(aten.index_copy.default)
def _index_copied(x, dim, index, source):
    if x.dim() == 0:
        return _index_copied(x.reshape(1), 0, index, source.reshape(-1)).reshape([])
    if source.dim() != x.dim():
        raise NotImplementedError
    return x.scatter(dim, index.reshape([-1] + [1] * (x.dim() - 1 - dim % x.dim())).expand(source.shape), source)


@_rule(aten.max_unpool2d.default)
def _(x, indices, output_size):
    return _unpooled(x, indices, output_size)


@_rule(aten.max_unpool3d.default)
def _(x, indices, output_size, stride, padding):
    return _unpooled(x, indices, output_size)


def _unpooled(x, indices, output_size):
    lead, places = x.shape[:x.dim() - len(output_size)], 1
    for extent in output_size:
        places *= extent
    zeros = torch.zeros([*lead, places], dtype=x.dtype)
    return zeros.scatter(-1, indices.reshape([*lead, -1]), x.reshape([*lead, -1])).reshape([*lead, *output_size])


@_rule(aten.scatter_reduce.two)
def _scatter_reduced(x, dim, index, src, reduce, *, include_self=True):
    if not x.is_floating_point() or reduce == "prod":    # of products PyTorch divides by infinities
        raise NotImplementedError
    if x.dim() == 0:
        return _scatter_reduced(x.reshape(1), 0, index.reshape(-1), src.reshape(-1), reduce, include_self=include_self).reshape([])
    dim %= x.dim()
    index, src = (index.reshape(1), src.reshape(1)) if index.dim() == 0 else (index, src)
    for axis in range(x.dim()):    # only the part that the index covers is read
        src = src.narrow(axis, 0, index.shape[axis])
    count = torch.zeros(x.shape, dtype=x.dtype).scatter_add(dim, index, torch.ones(index.shape, dtype=x.dtype))
    start = x if include_self else torch.where(count > 0, 0, x)
    if reduce == "sum":
        return start.scatter_add(dim, index, src)
    if reduce == "mean":
        return start.scatter_add(dim, index, src) / (count + 1 if include_self else count.clamp(min=1))
    # Each place of the result by all elements along the axis: what goes there, or what changes nothing.
    for axis in range(x.dim()):    # what lies beyond the index stays
        if axis != dim and index.shape[axis] < x.shape[axis]:
            parts = x.split([index.shape[axis], x.shape[axis] - index.shape[axis]], axis)
            return torch.cat([_scatter_reduced(parts[0], dim, index, src, reduce, include_self=include_self), parts[1]], axis)
    goes = index.unsqueeze(dim) == torch.arange(x.shape[dim]).reshape([-1] + [1] * (x.dim() - dim))
    return _of_groups(x, src.unsqueeze(dim), goes, dim + 1, reduce, include_self)


@_rule(aten.index_reduce.default)
def _index_reduced(x, dim, index, source, reduce, *, include_self=True):
    if not x.is_floating_point() or reduce == "prod":    # of products PyTorch divides by infinities
        raise NotImplementedError
    if x.dim() == 0:
        return _index_reduced(x.reshape(1), 0, index, source.reshape(-1), reduce, include_self=include_self).reshape([])
    dim, index = dim % x.dim(), index.reshape(-1)
    if reduce == "mean":
        whole = index.reshape([-1] + [1] * (x.dim() - 1 - dim)).expand(source.shape)
        return _scatter_reduced(x, dim, whole, source, "mean", include_self=include_self)
    goes = (index == torch.arange(x.shape[dim]).unsqueeze(1)).reshape([1] * dim + [x.shape[dim], -1] + [1] * (x.dim() - 1 - dim))
    return _of_groups(x, source.unsqueeze(dim), goes, dim + 1, reduce, include_self)


_MOST = 1 << 22    # elements that are compared with every place


def _of_groups(x, values, goes, axis, reduce, include_self):
    """The extreme, along `axis`, of the values that go to each place and x's own, if that counts."""
    shape = torch.broadcast_shapes(values.shape, goes.shape)
    if math.prod(extent for extent in shape if isinstance(extent, int)) > _MOST:
        raise NotImplementedError
    touched = goes.any(axis).expand(x.shape)
    own = x if include_self else torch.where(touched, x.detach(), x)    # PyTorch counts it among equal ones though it is left out
    values, goes = torch.cat([own.unsqueeze(axis), values.expand(shape)], axis), goes.expand(shape)
    counts = torch.cat([(torch.ones_like(touched) if include_self else touched.logical_not()).unsqueeze(axis), goes], axis)
    found = torch.where(counts, values.detach(), -torch.inf if reduce == "amax" else torch.inf)
    found = found.amax(axis, True) if reduce == "amax" else found.amin(axis, True)
    same = (values == found).logical_or(values.isnan().logical_and(found.isnan()))
    same = same.logical_and(torch.cat([torch.ones_like(touched).unsqueeze(axis), goes], axis))
    return torch.where(same, values, 0).sum(axis) / same.to(x.dtype).sum(axis)    # equal ones share the gradient


@_rule(aten.segment_reduce.default)
def _(x, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    """Each place of the result by all elements along the axis, those that are not of its segment left out. Of extremes that several
    elements are, PyTorch's gradient is shared by them or not, by its sign; of products it divides by infinities."""
    if indices is not None or reduce not in ("sum", "mean"):
        raise NotImplementedError
    ends = offsets[..., 1:] if lengths is None else lengths.cumsum(-1)
    begins = offsets[..., :-1] if lengths is None else ends - lengths
    at = torch.arange(x.shape[axis])
    goes = torch.logical_and(at >= begins.unsqueeze(-1), at < ends.unsqueeze(-1))
    goes, values = goes.reshape([*goes.shape, *[1] * (x.dim() - 1 - axis)]), x.unsqueeze(axis)
    shape = torch.broadcast_shapes(values.shape, goes.shape)
    if math.prod(extent for extent in shape if isinstance(extent, int)) > _MOST:
        raise NotImplementedError
    total = torch.where(goes, values, 0).sum(axis + 1) + (0 if initial is None else initial)
    if reduce == "sum":
        return total
    count, empty = goes.to(x.dtype).sum(axis + 1), torch.nan if initial is None else initial
    return torch.where(count > 0, total / count.clamp(min=1), empty)


@_rule(aten.quantile.default)
def _(x, q, dim=None, keepdim=False, *, interpolation="linear"):
    return _quantiles(x, q, dim, keepdim, interpolation, False)


@_rule(aten.nanquantile.default)
def _(x, q, dim=None, keepdim=False, *, interpolation="linear"):
    return _quantiles(x, q, dim, keepdim, interpolation, True)


def _quantiles(x, q, dim, keepdim, interpolation, of_numbers):
    """As PyTorch's own parts, which ask the values of q whether they are from 0 to 1."""
    axes = x.dim()
    if dim is None or axes == 0:
        x, axis = x.reshape(-1), 0
    else:
        axis = dim % axes
    x = x.movedim(axis, -1).sort(-1).values
    none = x.isnan()
    if of_numbers:
        ranks = (q.reshape(-1) * (none.logical_not().sum(-1, keepdim=True) - 1)).clamp(min=0)
    else:
        ranks = torch.where(none.any(-1, keepdim=True), x.shape[-1] - 1.0, q.reshape(-1) * (x.shape[-1] - 1))
    rounding = {"lower": torch.floor, "higher": torch.ceil, "nearest": torch.round}.get(interpolation)
    if rounding is not None:
        ranks = rounding(ranks)
    below = ranks.to(torch.int64)
    found = x.gather(-1, below)
    if rounding is None:
        weight = torch.full_like(ranks, 0.5) if interpolation == "midpoint" else ranks - below
        found = found.lerp(x.gather(-1, ranks.ceil().to(torch.int64)), weight)
    found = found.movedim(-1, 0)
    if keepdim:
        found = found.reshape([found.shape[0], *[1] * axes]) if dim is None else found.unsqueeze(axis + 1) if axes else found
    return found.squeeze(0) if q.dim() == 0 else found


@_rule(aten.frexp.Tensor)
def _(x):
    """The exponent by the logarithm, which may round to the next one; the number by it in two steps, each of which has a power."""
    size = x.detach().abs()
    normal = torch.logical_and(size > 0, size < torch.inf)
    exponent = torch.where(normal, torch.log2(torch.where(normal, size, 1.0)).floor(), -1.0) + 1

    def scaled(value, exponent):
        half = torch.floor(exponent / 2)
        return value * torch.exp2(-half) * torch.exp2(half - exponent)
    left = scaled(size, exponent)
    exponent = exponent + torch.where(normal, (left >= 1).to(x.dtype) - (left < 0.5).to(x.dtype), 0.0)
    return scaled(x, exponent), exponent.to(torch.int32)


@_rule(aten.as_strided.default, aten.as_strided_copy.default)
def _(x, size, stride, storage_offset=None):
    """Elements by constant places, of a tensor that is all of its memory in order."""
    if not _is_all_of_its_memory(x):
        raise NotImplementedError
    if len(size) == x.dim() and not storage_offset and all(
            statically_known_true(n == before) and (statically_known_true(n == 1) or statically_known_true(step == own))
            for n, before, step, own in zip(size, x.shape, stride, x.stride())):
        return x.clone()
    lead = 0
    if size and x.dim() and stride[0] * x.shape[0] == x.numel() and statically_known_true(size[0] == x.shape[0]):
        reach = (storage_offset or 0) + sum((n - 1) * step for n, step in zip(size[1:], stride[1:]))
        lead = int(statically_known_true(reach < stride[0]))    # each of the first axis by itself
    places = _places(size[lead:], stride[lead:], storage_offset or 0)
    flat = x.reshape(x.shape[0], -1) if lead else x.reshape(-1)
    return flat.index_select(lead, places).reshape(size)


def _is_all_of_its_memory(x):
    return x.is_contiguous() and statically_known_true(x.storage_offset() == 0) and (
        statically_known_true(x.untyped_storage().nbytes() == x.numel() * x.element_size()))


def _places(size, stride, offset):
    places = torch.full([], offset, dtype=torch.int64)
    for axis, (n, step) in enumerate(zip(size, stride)):
        places = places + (torch.arange(n) * step).reshape([-1] + [1] * (len(size) - 1 - axis))
    return places.expand(size).reshape(-1)
