#!/usr/bin/env python3
"""Element-wise calls at zeros, ties, edges of their domains, infinities and no numbers: values and gradients element by element against PyTorch.

  elementwise_edges.py --bin BIN --work DIR

Every row of schemas/plan/elementwise.def, and calls that are compositions of them. Operands are parameters, and so are the weights of
results, so that a run's gradients are both. Nothing flows back from results
that are large or no numbers, whose kind is compared.
"""
import argparse
import itertools
import json
import sys
import warnings

import torch
import torch.nn.functional as F
from torch import nn

import elementwise_rows
import harness

INF, NAN, BATCH = torch.inf, torch.nan, 2
POINTS = torch.tensor([-INF, -1e30, -90.0, -21.0, -2.5, -1.5, -1.0, -0.5, -1e-6, -0.0, 0.0, 1e-6, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 21.0, 90.0, 1e30, INF, NAN])
PAIRS = torch.tensor(list(itertools.product([-INF, -2.5, -2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0, 7.5, INF, NAN], repeat=2)))
ATEN = torch.ops.aten
UNARY = {row.name: getattr(ATEN, row.name) for row in elementwise_rows.rows() if not row.binary} | {
    "softplus_2_5": lambda x: F.softplus(x, 2.0, 5.0), "softplus_half_40": lambda x: F.softplus(x, 0.5, 40.0), "logit": torch.logit,
    "logit_eps": lambda x: torch.logit(x, 0.1), "digamma_1": lambda x: torch.polygamma(1, x), "ndtr": torch.special.ndtr,
    "deg2rad": torch.deg2rad, "rad2deg": torch.rad2deg, "sgn": torch.sgn, "sign": torch.sign, "angle": torch.angle, "frac": torch.frac,
    "signbit": lambda x: torch.signbit(x) * x, "isinf": lambda x: torch.isinf(x) * 2 + torch.where(torch.isinf(x), 0.0, x),
    "nan_to_num": torch.nan_to_num, "nan_to_num_given": lambda x: torch.nan_to_num(x, 3.0, 5.0, -7.0),
    "round_3": lambda x: torch.round(x, decimals=3) + x, "round_neg_1": lambda x: torch.round(x, decimals=-1) + x,
    "pow_of_0": lambda x: torch.pow(0.0, x), "pow_of_minus_2": lambda x: torch.pow(-2.0, x),
}
BINARY = {row.name: getattr(ATEN, row.name) for row in elementwise_rows.rows() if row.binary and not row.step} | {
    "floor_divide": lambda a, b: torch.floor_divide(a.detach(), b.detach()) + a + b,  # PyTorch has no derivative of it
    "div_floor": lambda a, b: torch.div(a, b, rounding_mode="floor") + a, "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc") + b,
    "ldexp": torch.ldexp, "float_power": lambda a, b: torch.float_power(a, b).float(),
}
CALLS = UNARY | BINARY


class Model(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.names = names
        for name in names:
            operands = [POINTS] if name in UNARY else PAIRS.unbind(1)
            for i, operand in enumerate(operands):
                self.register_parameter(f"{name}_{'ab'[i]}", nn.Parameter(operand.clone()))
            for i, part in enumerate(("value", "kind")):
                self.register_parameter(f"{name}_{part}", nn.Parameter(torch.linspace(0.5, 1.5 + i, len(operands[0]))))

    def forward(self, x):
        total = x.mean() * 0
        for name in self.names:
            operands = [getattr(self, f"{name}_{letter}") for letter in ("a" if name in UNARY else "ab")]
            y = CALLS[name](*operands).float()
            small = y.abs() < 1e37
            kind = torch.isnan(y).float() + 2 * (y == INF).float() + 3 * (y == -INF).float() + 4 * (y >= 1e37).float() + 8 * (y <= -1e37).float()
            total = total + (torch.where(small, y, 0.0) * getattr(self, f"{name}_value")).mean() + (kind * getattr(self, f"{name}_kind")).mean()
        return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    from safetensors.torch import save_file
    bench = harness.Bench(args.bin, args.work, "pt2")
    names = sorted(CALLS)
    model, data = Model(names), torch.ones(BATCH, 1)
    path = bench.export(model, {"x": data}, "edges.pt2", calls=names)
    save_file({"x": data}, bench.work / "edges.safetensors")
    strategy, plans = bench.work / "edges.json", bench.work / "edges.plans"
    strategy.write_text(json.dumps({"model": {"batch": BATCH}, "optimizer": {"sgd": {"lr": 0.01}}}))
    bench.call([bench.bin / "piperc", path, "--strategy", strategy, "-o", plans])
    result = bench.run(plans, "edges", 0, "local", 1)
    model(data).backward()
    failed = 0
    for name, parameter in model.named_parameters():
        got, wanted = result.gradients.get(name, torch.zeros_like(parameter)), parameter.grad
        wanted = torch.zeros_like(parameter) if wanted is None else wanted
        same = torch.isclose(got, wanted, 1e-5, 1e-8, equal_nan=True)
        if same.all():
            continue
        failed += 1
        call = name.rpartition("_")[0]
        for i in (~same).nonzero().flatten().tolist()[:12]:
            at = POINTS[i].item() if call in UNARY else tuple(PAIRS[i].tolist())
            print(f"FAILED {name} at {at}: {got[i].item()}, PyTorch {wanted[i].item()}")
    print(f"{len(names)} calls at edges, {failed} of {sum(1 for _ in model.parameters())} gradients differ")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
