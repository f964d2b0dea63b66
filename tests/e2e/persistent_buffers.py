#!/usr/bin/env python3
"""Persistent buffers that no step changes are part of the state: loaded, saved, kept in checkpoints, as in PyTorch's state dict.

  persistent_buffers.py --bin BIN --work DIR [--only WORD] [--all]

Each model trains from weights whose buffers differ from those of the export, and its losses are compared with PyTorch's after
load_state_dict. What is saved has every name of the state dict, with its value. A buffer that is a mask or an index is looked
into when the model is compiled: another value of it is refused (R0504), its own is loaded and saved like the others.
--all tries every form of every case from both containers.
"""
import argparse
import dataclasses
import logging
import pathlib
import shutil
import sys
import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

import harness
import piper_export
from what_people_write import BATCH, LR, REPLICAS, STEPS, family, logged, strategy

RECOMPUTED = strategy(2).replace("optimizer", "  - {op: recompute, filter: {}}\noptimizer")
EVALUATED = strategy(2) + "eval: {data: DATA, every: 1, batches: 1}\n"
SHARDED = REPLICAS.replace("replicate, filter: {}", "replicate, filter: {}, shard_params: true")


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 4)

    def forward(self, x, y):
        return F.mse_loss(self.b(self.between(torch.tanh(self.a(x)))), y)

    def between(self, h):
        return h


class Scale(Small):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(6))
        self.register_buffer("unread", torch.ones(2, 2))
        self.register_buffer("own", torch.full((6,), 0.5), persistent=False)

    def between(self, h):
        return h * self.scale + self.own


class InBothStages(Scale):
    def forward(self, x, y):
        return F.mse_loss(self.b(torch.tanh(self.a(x * self.scale)) * self.scale), y)


class Temperature(Small):
    def __init__(self):
        super().__init__()
        self.register_buffer("temperature", torch.tensor(2.0))

    def between(self, h):
        return (h / self.temperature).softmax(-1)


class Exponent(Small):
    """The compiler has no power with an exponent that it does not know."""

    def __init__(self):
        super().__init__()
        self.register_buffer("sharpness", torch.tensor(2.0))

    def between(self, h):
        return h.softmax(-1) ** self.sharpness


class FixedNorm(Small):
    """As torchvision's FrozenBatchNorm2d."""

    def __init__(self):
        super().__init__()
        for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.1), ("running_var", 1.5)):
            self.register_buffer(name, torch.full((6,), value))

    def between(self, h):
        scale = self.weight * (self.running_var + 1e-5).rsqrt()
        return h * scale + (self.bias - self.running_mean * scale)


class Router(nn.Module):
    """Experts are chosen by biased scores and weighed by unbiased ones, as DeepSeek-V3 does."""

    def __init__(self):
        super().__init__()
        self.a, self.gate, self.b = nn.Linear(6, 6), nn.Linear(6, 4, bias=False), nn.Linear(6, 4)
        self.up = nn.Parameter(torch.linspace(-1, 1, 4 * 36).reshape(4, 6, 6))
        self.register_buffer("bias", torch.zeros(4))

    def forward(self, x, y):
        h = torch.tanh(self.a(x))
        scores = self.gate(h).sigmoid()
        chosen = (scores + self.bias).topk(2, dim=-1).indices
        weights = torch.zeros_like(scores).scatter(1, chosen, scores.gather(1, chosen))
        return F.mse_loss(self.b((torch.einsum("bd,edf->bef", h, self.up) * weights.unsqueeze(-1)).sum(1)), y)


class ClassWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 4)
        self.register_buffer("of_class", torch.ones(4))

    def forward(self, x, label):
        return F.cross_entropy(self.b(torch.tanh(self.a(x))), label, weight=self.of_class)


class Offsets(nn.Module):
    """Fields of one table, as recommenders have them."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Embedding(12, 4), nn.Linear(12, 4)
        self.register_buffer("offsets", torch.tensor([0, 4, 8]))

    def forward(self, ids, y):
        return F.mse_loss(self.b(self.a(ids + self.offsets).flatten(1)), y)


class TwoNames(Small):
    def __init__(self):
        super().__init__()
        self.register_buffer("one", torch.ones(6))
        self.register_buffer("other", self.one)

    def between(self, h):
        return h * self.one + self.other


class SharedNorm(Small):
    """Running statistics under two names, updated twice a step."""

    def __init__(self):
        super().__init__()
        self.norm = self.again = nn.BatchNorm1d(6, affine=False)

    def between(self, h):
        return self.again(torch.tanh(self.norm(h)))


class HalfType(Small):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(6, dtype=torch.bfloat16))

    def between(self, h):
        return h * self.scale


class Attends(nn.Module):
    """Attention written out, with what is given to its scores."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 12), nn.Linear(4, 3)

    def forward(self, x, y):
        q, k, v = self.turned(*self.a(self.placed(x)).chunk(3, -1))
        return F.mse_loss(self.b(self.attend(q, k, v)), y)

    def attend(self, q, k, v):
        return self.masked(q @ k.transpose(-1, -2) / 2).softmax(-1) @ v

    def placed(self, x):
        return x

    def turned(self, q, k, v):
        return q, k, v

    def masked(self, scores):
        return scores


class Positions(Attends):
    """The encoding of PyTorch's tutorial."""

    def __init__(self):
        super().__init__()
        angle = torch.arange(9).unsqueeze(1) / torch.tensor([1.0, 10.0])
        self.register_buffer("pe", torch.cat([angle.sin(), angle.cos()], 1))

    def placed(self, x):
        return x + self.pe[:x.shape[1]]


class Rotary(Attends):
    def __init__(self):
        super().__init__()
        self.register_buffer("inv_freq", torch.tensor([1.0, 0.1]))

    def turned(self, q, k, v):
        angle = torch.outer(torch.arange(q.shape[1]).float(), self.inv_freq)
        angle = torch.cat([angle, angle], -1)
        half = [torch.cat([-t[..., 2:], t[..., :2]], -1) for t in (q, k)]
        return q * angle.cos() + half[0] * angle.sin(), k * angle.cos() + half[1] * angle.sin(), v


class TriangleOfNumbers(Attends):
    """nanoGPT's mask."""

    def __init__(self):
        super().__init__()
        self.register_buffer("bias", torch.tril(torch.ones(7, 7)))

    def masked(self, scores):
        t = scores.shape[-1]
        return scores.masked_fill(self.bias[:t, :t] == 0, float("-inf"))


class TriangleOfTruth(Attends):
    """GPT-2's in older versions of transformers, and the number beside it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("bias", torch.tril(torch.ones(7, 7, dtype=torch.bool)))
        self.register_buffer("masked_bias", torch.tensor(-1e4))

    def masked(self, scores):
        t = scores.shape[-1]
        return torch.where(self.bias[:t, :t], scores, self.masked_bias)


class MaskOfAttention(Attends):
    """nn.Transformer.generate_square_subsequent_mask, kept in the module."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(5))

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)


class AddedToScores(Attends):
    """A bias by distance."""

    def __init__(self):
        super().__init__()
        self.register_buffer("slopes", torch.zeros(5, 5))

    def masked(self, scores):
        return scores + self.slopes


class PositionIds(Attends):
    """BERT's in older versions of transformers."""

    def __init__(self):
        super().__init__()
        self.positions = nn.Embedding(8, 4)
        self.register_buffer("position_ids", torch.arange(8).unsqueeze(0))

    def placed(self, x):
        return x + self.positions(self.position_ids[:, :x.shape[1]])


class TableOfDistances(Attends):
    """Swin's relative_position_index."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.linspace(-1, 1, 9))
        self.register_buffer("index", torch.arange(5).unsqueeze(1) - torch.arange(5) + 4)

    def masked(self, scores):
        return scores + self.table[self.index.view(-1)].view(5, 5)


class MaskAndNumber(Attends):
    """Where it is read as a number, too, a mask is no constant."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.tril(torch.ones(5, 5)))

    def masked(self, scores):
        return (scores * self.kept).masked_fill(self.kept == 0, -1e4)


def vectors(n):
    return {"x": torch.randn(n, 6), "y": torch.randn(n, 4)}


def sequences(n):
    return {"x": torch.randn(n, 5, 4), "y": torch.randn(n, 5, 3)}


def labelled(n):
    return {"x": torch.randn(n, 6), "label": torch.randint(0, 4, (n,))}


def fields(n):
    return {"ids": torch.randint(0, 4, (n, 3)), "y": torch.randn(n, 4)}


@dataclasses.dataclass
class Case:
    model: type
    loaded: dict = dataclasses.field(default_factory=dict)     # values of buffers in the file of --load
    data: Callable = vectors
    forms: tuple = (2,)
    fixed: dict = dataclasses.field(default_factory=dict)      # values that are refused
    spread: bool = False                                       # ONNX as well
    containers: tuple = ("pt2", "onnx")
    left_out: dict = dataclasses.field(default_factory=dict)   # of a container: what its file does not have


EVERYWHERE = (1, 2, REPLICAS, SHARDED, RECOMPUTED, EVALUATED, family("1f1b"), family("gpipe", 4), family("zero_bubble"))
SIX = torch.tensor([5.0, 4, 3, 2, 1, 0])
CASES = {
    "scale": Case(Scale, {"scale": SIX, "unread": torch.zeros(2, 2)}, forms=EVERYWHERE, spread=True, left_out={"onnx": {"unread"}}),
    "in_both_stages": Case(InBothStages, {"scale": SIX / 3}, forms=(family("1f1b"), SHARDED), left_out={"onnx": {"unread"}}),
    "temperature": Case(Temperature, {"temperature": torch.tensor(0.5)}, spread=True),
    "exponent": Case(Exponent, fixed={"sharpness": torch.tensor(3.0)}, spread=True),
    "fixed_norm": Case(FixedNorm, {"running_mean": SIX / 4, "running_var": SIX + 0.5, "weight": SIX}, spread=True),
    "router": Case(Router, {"bias": torch.tensor([0.5, -0.2, 0.1, -0.4])}, forms=(1, 2, REPLICAS), spread=True),
    "class_weights": Case(ClassWeights, {"of_class": torch.tensor([0.5, 2.0, 1.0, 0.25])}, data=labelled, forms=(1, 2, REPLICAS), spread=True),
    "offsets": Case(Offsets, {"offsets": torch.tensor([8, 0, 4])}, data=fields, spread=True),
    "two_names": Case(TwoNames, {"one": SIX, "other": SIX}, spread=True),
    "shared_norm": Case(SharedNorm, {f"{name}.running_mean": SIX / 6 for name in ("norm", "again")}, forms=(1,),
                        left_out={"pt2": {f"{name}.num_batches_tracked" for name in ("norm", "again")}}, containers=("pt2",)),
    "half_type": Case(HalfType, {"scale": SIX.bfloat16()}),
    "positions": Case(Positions, {"pe": torch.linspace(-1, 1, 36).reshape(9, 4)}, data=sequences, spread=True),
    "rotary": Case(Rotary, {"inv_freq": torch.tensor([0.5, 0.2])}, data=sequences),
    "added_to_scores": Case(AddedToScores, {"slopes": torch.linspace(-1, 1, 25).reshape(5, 5)}, data=sequences),
    "mask_and_number": Case(MaskAndNumber, {"kept": 2 * torch.tril(torch.ones(5, 5), 1)}, data=sequences),
    "triangle_of_numbers": Case(TriangleOfNumbers, data=sequences, fixed={"bias": torch.ones(7, 7)}, spread=True),
    "triangle_of_truth": Case(TriangleOfTruth, {"masked_bias": torch.tensor(-2.0)}, data=sequences, fixed={"bias": torch.ones(7, 7, dtype=torch.bool)}, spread=True),
    "mask_of_attention": Case(MaskOfAttention, data=sequences, fixed={"mask": torch.zeros(5, 5)}, containers=("pt2",)),
    "position_ids": Case(PositionIds, data=sequences, fixed={"position_ids": torch.arange(8).flip(0).unsqueeze(0)}, spread=True),
    "table_of_distances": Case(TableOfDistances, data=sequences, fixed={"index": torch.zeros(5, 5, dtype=torch.long)}),
}


def made(case):
    torch.manual_seed(1)
    return case.model()


def start_of(case):
    """The weights of --load: other than those of the export."""
    torch.manual_seed(2)
    state = {name: value.clone() for name, value in made(case).state_dict().items()}
    for name, _ in made(case).named_parameters():
        state[name] += 0.05 * torch.randn(state[name].shape)
    return state | {name: value.clone() for name, value in case.loaded.items()}


def trained_by_torch(case, data):
    module = made(case)
    module.load_state_dict(start_of(case))
    optimizer, losses = torch.optim.SGD(module.parameters(), lr=LR), []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = module(**{k: v[step * BATCH:(step + 1) * BATCH] for k, v in data.items()})
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, module.state_dict()


def near(a, b):
    return torch.equal(a, b) or (a.double() - b.double()).abs().max() <= 1e-5 * max(1.0, b.double().abs().max())


class Runs:
    def __init__(self, bench):
        self.bench, self.folder, self.faults, self.count = bench, bench.work, [], 0

    def check(self, what, holds, why=""):
        self.count += 1
        if not holds:
            self.faults.append(what)
            print("FAILED", what, why, flush=True)

    def run(self, *flags):
        return self.bench.end_of([self.bench.bin / "piper-run", self.folder / "plans", "--data", self.folder / "data.safetensors",
                                  "--log", self.folder / "log.jsonl", "--threads", 1, *flags])

    def exported(self, name, kind="pt2"):
        case = CASES[name]

        def write(path):
            piper_export.export(made(case), {k: v.clone() for k, v in case.data(6).items()}, path, check=False)
        return self.bench.exported_once(f"buffers_{name}.{kind}", [sys.modules[__name__]], {"case": name}, write)

    def saved_as(self, what, path, wanted):
        saved = load_file(path)
        self.check(f"{what}: names", set(saved) == set(wanted), sorted(set(saved) ^ set(wanted)))
        wrong = [n for n in set(saved) & set(wanted) if saved[n].dtype != wanted[n].dtype or not near(saved[n], wanted[n])]
        self.check(f"{what}: values", not wrong, wrong)

    def try_one(self, name, case, kind, form, losses, state):
        what, folder, model = f"{name}, {kind}, {form}", self.folder, self.exported(name, kind)
        (folder / "s.yaml").write_text(strategy(form).replace("DATA", str(folder.resolve() / "data.safetensors")))
        code, text = self.bench.end_of([self.bench.bin / "piperc", model, "--strategy", folder / "s.yaml", "-o", folder / "plans"])
        self.check(f"{what}: compiles", code == 0, text)
        if code:
            return
        left_out = case.left_out.get(kind, set())
        save_file(start_of(case), folder / "start.safetensors")
        code, text = self.run("--steps", STEPS, "--load", folder / "start.safetensors", "--save", folder / "saved.safetensors")
        self.check(f"{what}: runs", code == 0, text)
        if code:
            return
        got = logged(folder)
        self.check(f"{what}: losses", len(got) == STEPS and all(abs(a - b) <= 2e-5 * abs(b) + 1e-6 for a, b in zip(got, losses)),
                   f"{got}, of PyTorch {losses}")
        self.saved_as(what, folder / "saved.safetensors", {n: v for n, v in state.items() if n not in left_out})
        for buffer, value in case.fixed.items():
            save_file(start_of(case) | {buffer: value}, folder / "other.safetensors")
            code, text = self.run("--steps", 1, "--load", folder / "other.safetensors")
            self.check(f"{what}: another '{buffer}' is refused", code == 1 and "error[R0504]" in text and f"'{buffer}'" in text, f"{code} {text}")


def kept_in_checkpoints(runs):
    """A run goes on with the buffers of the checkpoint, in another strategy as well, and what is exported from it has them."""
    case, folder, bench = CASES["scale"], runs.folder, runs.bench
    shutil.rmtree(folder / "kept", ignore_errors=True)
    torch.manual_seed(0)
    data = case.data(STEPS * BATCH)
    save_file(data, folder / "data.safetensors")
    losses, state = trained_by_torch(case, data)
    save_file(start_of(case), folder / "start.safetensors")
    model = runs.exported("scale")
    for turn, form in enumerate((2, family("1f1b"))):
        (folder / "s.yaml").write_text(strategy(form))
        bench.call([bench.bin / "piperc", model, "--strategy", folder / "s.yaml", "-o", folder / "plans"])
        flags = ["--checkpoint", folder / "kept", "--every", 1, "--save", folder / "saved.safetensors"]
        if turn == 0:
            code, text = runs.run("--steps", 2, "--load", folder / "start.safetensors", *flags)
        else:
            code, text = runs.run("--steps", STEPS, "--resume", *flags)
        runs.check(f"checkpoint, turn {turn}", code == 0, text)
    runs.check("the last loss of the run that goes on", abs(logged(folder)[-1] - losses[-1]) <= 2e-5 * abs(losses[-1]), logged(folder))
    runs.saved_as("saved by the run that goes on", folder / "saved.safetensors", state)
    bench.call([bench.bin / "piper-plan", "checkpoint", "export", folder / "kept", "-o", folder / "exported.safetensors"])
    runs.saved_as("exported from the checkpoint", folder / "exported.safetensors", state)


def drawn_weights(runs):
    """--init draws parameters; buffers have the values of the model, also where the plan has no weights."""
    case, folder, bench = CASES["triangle_of_truth"], runs.folder, runs.bench
    model = runs.exported("triangle_of_truth")
    (folder / "s.yaml").write_text(strategy(2))
    torch.manual_seed(0)
    save_file(case.data(STEPS * BATCH), folder / "data.safetensors")
    for weights in ("none", "copy"):
        bench.call([bench.bin / "piperc", model, "--strategy", folder / "s.yaml", "-o", folder / "plans", "--weights", weights])
        code, text = runs.run("--steps", 1, "--init", "normal:0.1", "--save", folder / "saved.safetensors")
        runs.check(f"--weights {weights} --init", code == 0, text)
        saved, own = load_file(folder / "saved.safetensors"), made(case).state_dict()
        runs.check(f"--weights {weights}: buffers", all(torch.equal(saved[n], own[n]) for n in ("bias", "masked_bias")), sorted(saved))
        if weights == "none":
            code, text = runs.run("--steps", 1)
            runs.check("neither --load nor --init", code == 1 and "error[R0501]" in text and "--weights none" in text, text)


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
    runs = Runs(harness.Bench(args.bin, args.work))
    for name, case in CASES.items():
        if args.only not in name:
            continue
        torch.manual_seed(0)
        data = case.data(STEPS * BATCH)
        save_file({k: v.contiguous() for k, v in data.items()}, runs.folder / "data.safetensors")
        losses, state = trained_by_torch(case, data)
        for kind in case.containers if case.spread or args.all else ("pt2",):
            for form in EVERYWHERE if args.all and case.data is vectors and case.forms != (1,) else case.forms:
                runs.try_one(name, case, kind, form, losses, state)
    if not args.only:
        kept_in_checkpoints(runs)
        drawn_weights(runs)
    print(f"{runs.count} checks, {len(runs.faults)} failed")
    sys.exit(1 if runs.faults or not runs.count else 0)


if __name__ == "__main__":
    main()
