"""Whether a call that the exporter takes apart has the derivative of PyTorch's own: results and gradients of the call and of its parts,
at the values that are given and at zeros, ties, edges of domains and infinities."""
import itertools
import pathlib
import sys
import unittest.mock

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import piper_export_decompose  # noqa: E402
from piper_export_decompositions import SAME_DERIVATIVE  # noqa: E402

EDGES = (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1e-30, 1e-3, -1e-3, 20.5, -20.5, 88.9, -88.9, 120.0, -120.0, torch.inf, -torch.inf)
FINITE = EDGES[:-2]
# Arguments that PyTorch's kernels read memory by: infinite places are outside of it.
PLACES = {"aten::grid_sampler_2d": 1, "aten::grid_sampler_3d": 1}


class Everything(frozenset):
    def __contains__(self, name):
        return True


def parts_of(target, args, kwargs, listed=False):
    """A module of the call's parts that takes its tensors in order, or None. listed: only by operators of the list."""
    leaves, tree = tree_flatten((args, kwargs))
    mode = torch._subclasses.FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    graph, given = torch.fx.Graph(), []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            given.append(graph.placeholder(f"x{len(given)}"))
            given[-1].meta["val"] = mode.from_tensor(leaf.detach(), static_shapes=True)
    rest = iter(given)
    args, kwargs = tree_unflatten([next(rest) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], tree)
    node = graph.call_function(target, tuple(args), kwargs)
    with mode:
        node.meta["val"] = target(*torch.fx.map_arg(node.args, lambda x: x.meta["val"]), **torch.fx.map_arg(node.kwargs, lambda x: x.meta["val"]))
    if piper_export_decompose.has_row(target) and not piper_export_decompose.row_refuses(node):
        return None
    with unittest.mock.patch.object(piper_export_decompose, "SAME_DERIVATIVE", SAME_DERIVATIVE if listed else Everything()):
        return piper_export_decompose.parts_of(node)


def step(call, leaves, tree, differentiated):
    """Results, and gradients of the tensors, or of the first alone."""
    floats = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]
    wanted = set(floats if differentiated == "all" else floats[:1])
    mine = [leaf.detach().clone().requires_grad_(i in wanted) if isinstance(leaf, torch.Tensor) else leaf for i, leaf in enumerate(leaves)]
    results = [r for r in tree_leaves(call(mine, tree)) if isinstance(r, torch.Tensor)]
    draws = torch.Generator().manual_seed(5)
    wanted = [(r * torch.randn(r.shape, generator=draws).to(r.dtype)).sum() for r in results if r.is_floating_point() and r.requires_grad]
    given = [leaf for leaf in mine if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    gradients = torch.autograd.grad(sum(wanted), given, allow_unused=True) if wanted and given else [None] * len(given)
    return [r.detach() for r in results], [torch.zeros_like(x) if g is None else g for x, g in zip(given, gradients)]


def size(tensors):
    """The largest finite number in tensors of floats, 0 where there is none."""
    finite = [x[x.isfinite()].abs().max().item() for x in tensors if isinstance(x, torch.Tensor) and x.is_floating_point() and x.isfinite().any()]
    return max(finite, default=0.0)


def differing(mine, wanted, exact, scale):
    """The first two numbers that differ by more than roundings of numbers up to `scale`, or nothing. exact: `wanted` in f64."""
    if mine.dtype != wanted.dtype or mine.shape != wanted.shape:
        return f"{mine.dtype} {tuple(mine.shape)}, of PyTorch {wanted.dtype} {tuple(wanted.shape)}"
    close = torch.isclose(mine, wanted, rtol=3e-5, atol=1e-6 * max(scale, size([wanted]), 1e-6), equal_nan=True)
    if exact is not None and wanted.is_floating_point():
        close |= (mine - wanted).abs() <= 4 * (wanted - exact).abs().nan_to_num(0, 0, 0)
    close = close.flatten()
    if close.all():
        return ""
    at = int(close.logical_not().nonzero()[0])
    return f"{mine.flatten()[at].item():.7g}, of PyTorch {wanted.flatten()[at].item():.7g}"


def variants(leaves, name):
    """The same arguments with other values in their tensors of floats: {what: leaves}. An operator named for NaN has a meaning of it;
    elsewhere a loss of it is NaN whatever its gradient."""
    edges = EDGES + (torch.nan,) * ("nan" in name)
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float32]

    def filled(values, turn):
        found = list(leaves)
        for position, i in enumerate(at):
            cycle = itertools.islice(itertools.cycle(values), turn * position, turn * position + leaves[i].numel())
            found[i] = torch.tensor(list(cycle), dtype=torch.float32).view(leaves[i].shape)
            if i == PLACES.get(name.partition(".")[0]):
                found[i] = found[i].clamp(FINITE[-1], FINITE[-2])
        return found
    yield "as given", leaves
    for start in range(0, len(EDGES), 3):
        for turn in (0, 1, 5):    # ties of two tensors; neighbours; others
            yield f"edges from {edges[start]}, {turn} apart", filled(edges[start:] + edges[:start], turn)
            yield f"finite edges from {FINITE[start % len(FINITE)]}, {turn} apart", filled(FINITE[start % len(FINITE):] + FINITE[:start % len(FINITE)], turn)
    for value in (0.0, 1.0, -1.0, 3.0, 0.5):
        yield f"all {value}", filled([value], 0)
    yield "ties", filled([0.5, 0.5, -0.25], 0)
    yield "between 0 and 1", filled([0.0, 1.0, 0.25, 0.999999, 1e-7, 1.0, 0.0], 2)


def in_f64(call, leaves, tree, differentiated, results):
    """As step, with None for a result where there is no such call or it is of another form."""
    try:
        found = step(call, [leaf.double() if isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float32 else leaf for leaf in leaves], tree, differentiated)
    except Exception:
        found = results
    return [[a if len(mine) == len(others) and a.shape == b.shape else None for a, b in zip(mine, others)] if len(mine) == len(others)
            else [None] * len(others) for mine, others in zip(found, results)]


def difference(target, args, kwargs, module):
    """Where the parts are another function than the call, or nothing."""
    leaves, tree = tree_flatten((args, kwargs))

    def own(given, tree):
        args, kwargs = tree_unflatten(given, tree)
        return target(*args, **kwargs)

    def of_parts(given, _):
        return module(*(x for x in given if isinstance(x, torch.Tensor)))
    compared = 0
    for (what, values), differentiated in itertools.product(variants(leaves, target.name()), ("all", "the first")):
        try:
            wanted = step(own, values, tree, differentiated)
        except Exception:    # these arguments have no meaning for the operator, or it has no derivative by one of them
            continue
        try:
            mine = step(of_parts, values, tree, differentiated)
        except Exception as error:
            return f"{what}: {type(error).__name__}: {str(error)[:150]}"
        exact = in_f64(own, values, tree, differentiated, wanted)
        for kind, ours, theirs, precise in zip(("result", "gradient"), mine, wanted, exact):
            for i, pair in enumerate(zip(ours, theirs, precise, strict=True)):
                if found := differing(*pair, size(values) if kind == "result" else 1.0):
                    return f"{what}: {kind} {i} is {found}"
        compared += 1
    return "" if compared else "nothing could be compared"
