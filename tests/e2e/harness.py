"""Export, compile, run, compare: what the end-to-end tests share.

A Case is a model and a composition of pipeline and data parallelism; `train` runs it through piperc and
piper-run as a user does and returns losses, gradients of the first step and final weights.
"""
from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import os
import pathlib
import shutil
import subprocess
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import exports  # noqa: E402
import piper_export  # noqa: E402
import zoo  # noqa: E402
from forked_runs import forked_runs  # noqa: E402
from reference_optimizers import rule_of  # noqa: E402

logging.getLogger("torch.onnx").setLevel(logging.ERROR)
BATCH = 8
OPTIMIZERS = {"adamw": {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1},
              "adam": {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1},
              "sgd": {"lr": None, "momentum": 0.9},
              "lion": {"lr": 3e-4, "betas": [0.9, 0.98], "weight_decay": 0.1},
              "muon": {"lr": 0.02, "momentum": 0.95, "nesterov": True, "steps": 5, "weight_decay": 0.1, "adjust": "original",
                       "rest": {"adamw": {"lr": 1e-3, "betas": [0.9, 0.95], "weight_decay": 0.1}}}}


@dataclasses.dataclass(frozen=True)
class Composition:
    stages: int = 1
    replicas: int = 1
    microbatches: int = 1
    family: str | None = None
    devices: tuple[tuple[int, ...], ...] | None = None     # per stage; default: stage after stage
    ranks: int | None = None        # the family places the stages itself, on this many ranks
    places: int = 1                 # devices of a replica, which share its samples and cut its weights
    dims: tuple[str, ...] = ("column",)

    @property
    def devices_of_a_stage(self) -> int:
        return self.replicas * self.places

    @property
    def pieces(self) -> int:
        return self.replicas * self.microbatches


COMPOSITIONS = {
    "one": Composition(),
    "mb4": Composition(microbatches=4),
    "dp2": Composition(replicas=2),
    "dp2_mb2": Composition(replicas=2, microbatches=2),
    "pp2_gpipe": Composition(2, 1, 4, "gpipe"),
    "pp2_1f1b": Composition(2, 1, 4, "1f1b"),
    "pp2_1f1b_swapped": Composition(2, 1, 4, "1f1b", ((1,), (0,))),
    "pp4_gpipe": Composition(4, 1, 4, "gpipe"),
    "pp4_1f1b": Composition(4, 1, 4, "1f1b"),
    "pp2_one_device": Composition(2, 1, 4, None, ((0,), (0,))),
    "pp2_dp2": Composition(2, 2, 2, "1f1b"),
    "pp2_nested": Composition(2, 2, 2, "1f1b", ((0,), (1, 2))),
    "pp2_nested_back": Composition(2, 2, 2, "1f1b", ((0, 1), (2,))),
    "pp4_zero_bubble": Composition(4, 1, 4, "zero_bubble", ranks=4),
    "pp4_interleaved": Composition(4, 1, 4, "interleaved_1f1b", ranks=2),
    "pp4_interleaved_zero_bubble": Composition(4, 1, 4, "interleaved_zero_bubble", ranks=2),
    "pp4_zb_v": Composition(4, 1, 4, "zb_v", ranks=2),
    "pp4_dualpipev": Composition(4, 1, 4, "dualpipev", ranks=2),
    "pp2_dualpipe": Composition(2, 1, 4, "dualpipe", ranks=2),
    "pp2_dualpipe_dp2": Composition(2, 2, 4, "dualpipe", ranks=2),
    "pp4_dualpipev_dp2": Composition(4, 2, 4, "dualpipev", ranks=2),
    "tp2": Composition(places=2),
    "tp2_mb2": Composition(microbatches=2, places=2),
    "tp4": Composition(places=4),
    "tp2_dp2": Composition(replicas=2, microbatches=2, places=2),
    "pp2_tp2": Composition(2, 1, 4, "1f1b", places=2),
    "pp2_dp2_tp2": Composition(2, 2, 2, "1f1b", places=2),
    "tp2_seq": Composition(places=2, dims=("column", "sequence")),
    "tp2_seq_mb8": Composition(microbatches=8, places=2, dims=("column", "sequence")),
    "tp4_seq": Composition(places=4, dims=("column", "sequence")),
    "tp2_seq_dp2": Composition(replicas=2, microbatches=2, places=2, dims=("column", "sequence")),
    "pp2_tp2_seq": Composition(2, 1, 4, "1f1b", places=2, dims=("column", "sequence")),
    "pp4_zb_v_tp2": Composition(4, 1, 4, "zb_v", ranks=2, places=2),
    "tp2_all": Composition(places=2, dims=("column", "sequence", "vocabulary")),
    "pp2_dp2_tp2_all": Composition(2, 2, 2, "1f1b", places=2, dims=("column", "sequence", "vocabulary")),
    "vocab2": Composition(places=2, dims=("column", "vocabulary")),
    "vocab4": Composition(places=4, dims=("column", "vocabulary")),
    "vocab2_dp2": Composition(replicas=2, microbatches=2, places=2, dims=("column", "vocabulary")),
    "pp2_vocab2": Composition(2, 1, 4, "1f1b", places=2, dims=("column", "vocabulary")),
}


def values_of(model: str, optimizer: str) -> dict:
    values = dict(OPTIMIZERS[optimizer])
    if values["lr"] is None:
        values["lr"] = zoo.MODELS[model].sgd_lr
    return values


def strategy_text(model: str, name: str, optimizer: str, extra: str = "") -> str:
    c = COMPOSITIONS[name]
    spec = zoo.MODELS[model]
    size = c.devices_of_a_stage
    groups = c.devices or tuple(tuple(range(s * size, (s + 1) * size)) for s in range(c.stages))
    lines = ["piper: 1", f"model: {{batch: {BATCH}}}"]
    if spec.per_microbatch and c.pieces > 1:
        lines.append(f"per_microbatch: {json.dumps(list(spec.per_microbatch))}")
    if len(groups) > 1:
        starts = spec.quarters[::len(spec.quarters) // len(groups)]
        lines.append(f"annotate:\n  - {{tag: PP, starts: {json.dumps(list(starts))}}}")
    directives, ranks = [], ""
    if c.ranks:
        ranks = ", ranks: " + json.dumps([list(range(r * size, (r + 1) * size)) for r in range(c.ranks)])
    for stage, group in enumerate(() if c.ranks else groups):
        chosen = f"{{PP: {stage}}}" if len(groups) > 1 else "{}"
        if len(groups) > 1 or len(group) > 1:
            directives.append(f"  - {{op: place, filter: {chosen}, devices: {list(group)}}}")
        if len(group) > 1:
            directives.append(f"  - {{op: replicate, filter: {chosen}, devices: {list(group)}, bucket_size: 0.05}}")
    if c.places > 1:
        over = [list(range(r, r + c.places)) for r in range(0, world_size(name), c.places)]
        directives += [f"  - {{op: shard, filter: {{}}, dim: {dim}, over: {over}}}" for dim in c.dims]
    if c.microbatches > 1 and not c.family:
        directives.append(f"  - {{op: split, num_microbatches: {c.microbatches}{ranks}}}")
    if directives:
        lines.append("directives:\n" + "\n".join(directives))
    if c.family:
        lines.append(f"schedule: {{family: {c.family}, microbatches: {c.microbatches}{ranks}}}")
    lines.append(f"optimizer: {{{optimizer}: {json.dumps(values_of(model, optimizer))}}}")
    return "\n".join(lines) + "\n" + extra


def world_size(name: str) -> int:
    c = COMPOSITIONS[name]
    if c.ranks:
        return c.ranks * c.devices_of_a_stage
    groups = c.devices or tuple(tuple(range(s * c.devices_of_a_stage, (s + 1) * c.devices_of_a_stage)) for s in range(c.stages))
    return 1 + max(r for g in groups for r in g)


@dataclasses.dataclass
class Result:
    losses: list[float]
    gradients: dict[str, torch.Tensor]
    weights: dict[str, torch.Tensor]
    log: str


def require_predicted_memory(plans: pathlib.Path, rows: list[dict]) -> None:
    """No rank took more memory than the manifest says that it will."""
    ranks = json.loads((plans / "manifest.json").read_text())["ranks"]
    measured = next(row["summary"]["peak_memory_bytes"] for row in rows if "summary" in row)
    for rank, (took, said) in enumerate(zip(measured, ranks, strict=True)):
        if took > said["peak_bytes"]:
            raise AssertionError(f"{plans}: rank {rank} took {took} bytes, the plan says {said['peak_bytes']}")


class Bench:
    """The programs, a folder for data and plans, and that of the exported models, which all tests of a build share."""

    def __init__(self, bin_dir, work, container="onnx"):
        self.bin, self.work, self.container = pathlib.Path(bin_dir), pathlib.Path(work), container
        self.work.mkdir(parents=True, exist_ok=True)
        self.drawn = set()

    def export(self, model: torch.nn.Module, example, name: str, **arguments) -> pathlib.Path:
        """A test's own model as `name`, whose ending says the container. What it is must follow from the test's text and `arguments`."""
        def write(path):
            piper_export.export(model, example, path)
        return self.exported_once(name, [sys.modules[type(model).__module__]], arguments, write)

    def exported_once(self, name, modules, arguments, write) -> pathlib.Path:
        return exports.exported_once(exports.shared_folder(self.bin), name, [piper_export, *modules], arguments, write)

    def exported(self, model: str) -> pathlib.Path:
        """The file of a model of the zoo; its data are in the folder of the test."""
        spec = zoo.MODELS[model]
        if model not in self.drawn:
            from safetensors.torch import save_file
            save_file(zoo.draw(model, BATCH * spec.steps), self.work / f"{model}.safetensors")
            self.drawn.add(model)
        modules = [zoo, *(sys.modules[function.__module__] for function in (spec.build, spec.draw))]
        return self.exported_once(f"{model}.{self.container}", modules, {"seed": spec.seed, "batch": BATCH}, lambda path: write_export(model, path))

    def end_of(self, command, cwd=None) -> tuple[int, str]:
        """Exit status and what it prints; a run of piper-run alone may be forked (forked_runs.py)."""
        words, seconds = [str(word) for word in command], 600
        if words[0] == str(self.bin / "piper-run") and (forks := forked_runs(self.bin / "piper-run")):
            return forks.call(words, os.path.abspath(cwd or "."), seconds)
        environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, env=environment, cwd=cwd)
        return done.returncode, done.stdout

    def call(self, command, cwd=None) -> str:
        """What it prints; it must end with 0."""
        code, text = self.end_of(command, cwd)
        if code:
            raise AssertionError(f"exit {code}: {' '.join(map(str, command))}\n{text}")
        return text

    def compile(self, model, text, tag, *flags):
        path = self.exported(model)
        strategy = self.work / f"{tag}.yaml"
        strategy.write_text(text)
        plans = self.work / f"{tag}.plans"
        self.call([self.bin / "piperc", path, "--strategy", strategy, "-o", plans, *flags])
        return plans

    def run(self, plans, model, world, launch="local", steps=None, *flags) -> Result:
        """`steps`: those of the model where none are given."""
        from safetensors.torch import load_file
        out = plans.with_suffix("." + launch)
        out.mkdir(exist_ok=True)
        command = [self.bin / "piper-run", plans, "--data", self.work / f"{model}.safetensors", "--steps", steps or zoo.MODELS[model].steps,
                   "--log", out / "log.jsonl", "--save", out / "weights.safetensors",
                   "--save-gradients", out / "gradients.safetensors", "--threads", 1, *flags]
        if launch == "mpirun":
            command = ["mpirun", "--oversubscribe", "-n", world, *command]
        elif launch == "piper-launch":
            command = [self.bin / "piper-launch", *command, "--comm", "ucx"]
        text = self.call(command)
        rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
        require_predicted_memory(plans, rows)
        return Result([row["loss"] for row in rows if "loss" in row], load_file(out / "gradients.safetensors"),
                      load_file(out / "weights.safetensors"), text)

    def train(self, model, name, optimizer, launch="local", extra="", *flags) -> Result:
        plans = self.compile(model, strategy_text(model, name, optimizer, extra), f"{model}-{name}-{optimizer}", *flags)
        return self.run(plans, model, world_size(name), launch)


def bench_in_empty_folder(description: str) -> Bench:
    """The folders of a test that takes no other words than --bin BIN --work DIR; DIR begins empty."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    return Bench(arguments.bin, arguments.work.resolve())


def write_export(model: str, path: pathlib.Path):
    example = zoo.draw(model, BATCH)
    if not path.name.endswith(".plain.pt2"):
        piper_export.export(zoo.build(model), example, path)
        return
    batch = torch.export.Dim("B", min=2)    # without piper's helper, as its documentation says
    program = torch.export.export(zoo.build(model), (), kwargs=example, dynamic_shapes={k: {0: batch} for k in example})
    torch.export.save(program, path)


def torch_training(model: str, optimizer: str, *, schedule=None, clip=None, around=None, rule_of=rule_of):
    """PyTorch's own loop on one process: losses, gradients of step 1, module after the last step."""
    torch.set_num_threads(1)
    module, data = zoo.build(model), zoo.draw(model, BATCH * zoo.MODELS[model].steps)
    values = values_of(model, optimizer)
    rule = rule_of(optimizer, module, values)
    base_lr, losses, gradients = values["lr"], [], {}
    for step in range(zoo.MODELS[model].steps):
        if schedule:
            for group in rule.param_groups:
                group["lr"] = base_lr * schedule(step + 1)
        rule.zero_grad(set_to_none=True)
        batch = {k: v[step * BATCH:(step + 1) * BATCH] for k, v in data.items()}
        loss = around(module, step + 1, batch) if around else module(**batch)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            gradients = {n: p.grad.detach().clone() for n, p in module.named_parameters() if p.grad is not None}
        if clip:
            torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
        rule.step()
    return losses, gradients, module


def piece_by_piece(pieces: int):
    """The step of a model with statistics per piece: the mean of the pieces' losses, each on its own samples.

    It is the step's loss where every piece has as many counted labels as the others.
    """
    def step(module, _, batch):
        parts = [{k: v.chunk(pieces)[i] for k, v in batch.items()} for i in range(pieces)]
        return sum(module(**part) for part in parts) / pieces
    return step


def loss_faults(losses, expected, tolerance):
    if len(losses) != len(expected):
        return [f"{len(losses)} losses, expected {len(expected)}"]
    return [f"step {i + 1}: loss {a!r}, expected {b!r}" for i, (a, b) in enumerate(zip(losses, expected))
            if not abs(a - b) <= (min(tolerance, 1e-6) if i == 0 else tolerance) * abs(b)]


class Agreement:
    """Prints a line for every run that was compared with PyTorch, and at the end how many agree."""

    def __init__(self):
        self.failed = self.total = 0

    def add(self, label, losses, expected, faults):
        worst = max((abs(a - b) / abs(b) for a, b in zip(losses, expected)), default=float("nan"))
        print(f"{label} largest relative loss difference {worst:.1e}" + ("" if not faults else f"  FAILED {len(faults)}: {faults[0]}"), flush=True)
        self.failed += bool(faults)
        self.total += 1

    def exit(self):
        print(f"{self.total - self.failed} of {self.total} agree with PyTorch")
        sys.exit(1 if self.failed or not self.total else 0)


def gradient_faults(gradients, expected):
    """Norm of the difference <= 1e-5 of max(its norm, 1e-4 of the typical gradient's).

    Gradients below 1e-6 of the largest are zero in exact arithmetic (key biases) and hold rounding noise only.
    """
    norms = sorted(g.norm().item() for g in expected.values())
    typical = norms[len(norms) // 2]
    faults = []
    for name, wanted in expected.items():
        if name not in gradients:
            faults.append(f"{name}: no gradient")
            continue
        if wanted.norm().item() < 1e-6 * norms[-1]:
            continue
        error = (gradients[name] - wanted).norm().item()
        if error > 1e-5 * max(wanted.norm().item(), 1e-4 * typical):
            faults.append(f"{name}: gradient differs by {error:.3g}, norm {wanted.norm().item():.3g}")
    return faults
