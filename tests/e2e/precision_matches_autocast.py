#!/usr/bin/env python3
"""Mixed precision is as near to PyTorch's f32 training as PyTorch's own autocast does.

  precision_matches_autocast.py --bin BIN --work DIR [MODEL...] [--compositions a,b] [--steps N] [--seeds N]
                                [--compute bf16|f16] [--parameters bf16 [--master]]

At every step and seed the distance of piper's loss to PyTorch's in f32 is at most 1.5 times that of PyTorch's
autocast(bf16), plus 1e-3. Routers of mixtures stay in f32 in both. A mixture's loss jumps where a token changes its
expert, so that distances cross zero by chance: autocast on the batch cut in two leaves that bound against autocast on the
whole one at 4 to 10 of 50 steps. Mixtures are held to it by the root mean square over the steps.

With --parameters bf16 the model's own parameters are bf16 and the strategy says nothing of precision (--master: gives
them masters): PyTorch's training of the same module takes the place of autocast, by the root mean square as well, since its
losses are rounded to bf16.
"""
from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys

import torch

import harness
import zoo
import zoo_experts

KEEP = {"qwen3_moe": ["*.gate"], "mixtral": ["*.gate"]}
REGIONS = {"qwen3_moe": "*.mlp", "mixtral": "*.mlp"}
REPLICATE = {"zero1": ", shard_optimizer: true", "zero2": ", shard_grads: true", "zero3": ", shard_params: true"}
FACTOR, SLACK = 1.5, 1e-3


@dataclasses.dataclass(frozen=True)
class Composition:
    stages: int = 1
    replicas: int = 1
    microbatches: int = 1
    replicate: str = ""
    experts: bool = False
    directives: str = ""
    extra: str = ""
    places: int = 1               # devices of a replica, which cut its weights
    dims: tuple[str, ...] = ("column",)

    @property
    def pieces(self):
        return self.replicas * self.microbatches

    @property
    def ranks(self):
        return self.stages * self.replicas * self.places


COMPOSITIONS = {
    "one": Composition(),
    "mb2": Composition(microbatches=2),
    "recompute": Composition(microbatches=2, directives="  - {op: recompute, filter: {}}\n"),
    "dp2": Composition(replicas=2),
    "pp2_dp2": Composition(2, 2, 2),
    "zero1": Composition(replicas=2, replicate=REPLICATE["zero1"]),
    "zero2": Composition(replicas=2, microbatches=2, replicate=REPLICATE["zero2"]),
    "zero3": Composition(replicas=2, microbatches=2, replicate=REPLICATE["zero3"]),
    "pp2_zero3": Composition(2, 2, 2, REPLICATE["zero3"]),
    "ep2": Composition(replicas=2, experts=True),
    "ep2_zero3": Composition(replicas=2, experts=True, replicate=REPLICATE["zero3"]),
    "clip": Composition(replicas=2, extra="clip_grad_norm: 0.5\n"),
    "tp2": Composition(places=2),
    "tp4": Composition(places=4),
    "tp2_seq": Composition(places=2, dims=("column", "sequence")),
    "tp2_all": Composition(places=2, dims=("column", "sequence", "vocabulary")),
    "pp2_dp2_tp2_all": Composition(2, 2, 2, places=2, dims=("column", "sequence", "vocabulary")),
}


def strategy_text(model: str, c: Composition, precision: dict | None, optimizer: str) -> str:
    spec = zoo.MODELS[model]
    lines = ["piper: 1", f"model: {{batch: {harness.BATCH}}}"]
    annotations = []
    if c.stages > 1:
        annotations.append(f"  - {{tag: PP, starts: {json.dumps(spec.quarters[::len(spec.quarters) // c.stages])}}}")
    if c.experts:
        annotations.append(f'  - {{tag: EP, modules: ["{REGIONS[model.split("@")[0].removesuffix("_bf16")]}"]}}')
    if annotations:
        lines.append("annotate:\n" + "\n".join(annotations))
    directives = ""
    for stage in range(c.stages):
        size = c.replicas * c.places
        devices = list(range(stage * size, (stage + 1) * size))
        tag = f"PP: {stage}" if c.stages > 1 else ""
        if c.stages > 1 or size > 1:
            directives += f"  - {{op: place, filter: {{{tag}}}, devices: {devices}}}\n"
        if size > 1:
            directives += f"  - {{op: replicate, filter: {{{tag}}}, devices: {devices}, bucket_size: 0.05{c.replicate}}}\n"
        if c.experts:
            both = ", ".join(filter(None, (tag, 'EP: "*"')))
            directives += f"  - {{op: shard, filter: {{{both}}}, devices: {devices}}}\n"
    over = [list(range(first, first + c.places)) for first in range(0, c.ranks, c.places)]
    for dim in c.dims if c.places > 1 else ():
        directives += f"  - {{op: shard, filter: {{}}, dim: {dim}, over: {over}}}\n"
    if c.microbatches > 1 and c.stages == 1:
        directives += f"  - {{op: split, num_microbatches: {c.microbatches}}}\n"
    directives += c.directives
    if directives:
        lines.append("directives:\n" + directives.rstrip("\n"))
    if c.stages > 1:
        lines.append(f"schedule: {{family: 1f1b, microbatches: {c.microbatches}}}")
    if spec.per_microbatch and c.pieces > 1:
        lines.append(f"per_microbatch: {json.dumps(list(spec.per_microbatch))}")
    values = dict(harness.OPTIMIZERS[optimizer])
    values["lr"] = values["lr"] or spec.sgd_lr
    lines.append(f"optimizer: {{{optimizer}: {json.dumps(values)}}}")
    if precision is not None:
        lines.append(f"precision: {json.dumps(precision)}")
    return "\n".join(lines) + "\n" + c.extra


def router_in_f32(router):
    inner = router.forward

    def forward(x, *args, **kwargs):
        with torch.autocast("cpu", enabled=False):
            return inner(x.float(), *args, **kwargs)
    router.forward = forward


def root_mean_square(values):
    return math.sqrt(sum(value * value for value in values) / len(values))


def torch_losses(model: str, optimizer: str, pieces: int, clip):
    around = harness.piece_by_piece(pieces) if pieces > 1 else None
    return harness.torch_training(model, optimizer, clip=clip, around=around)[0]


def autocast_losses(model: str, optimizer: str, pieces: int, clip):
    around = harness.piece_by_piece(pieces) if pieces > 1 else None

    def step(module, number, batch):
        if number == 1:
            for router in zoo_experts.routers(module):
                router_in_f32(router)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = around(module, number, batch) if around else module(**batch)
        return loss.float()
    return harness.torch_training(model, optimizer, clip=clip, around=step)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["gpt", "llama", "qwen3_moe"])
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--compositions", default="one,pp2_dp2,zero3")
    parser.add_argument("--optimizers", default="adamw")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--compute", choices=("bf16", "f16"), default="bf16")
    parser.add_argument("--parameters", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--master", action="store_true")
    parser.add_argument("--reduce", choices=("f32", "bf16"), default="f32")
    args = parser.parse_args()
    bench = harness.Bench(args.bin, f"{args.work}/{args.steps}")   # data are drawn for all steps at once
    failed = total = 0
    for base in args.models:
        for seed in range(args.seeds):
            model = f"{base}@{seed}"
            spec = zoo.MODELS[base]
            narrow = args.parameters == "bf16"
            if narrow:
                model = f"{base}_bf16@{seed}"
            spec = dataclasses.replace(spec, seed=spec.seed + 100 * seed, steps=args.steps)
            zoo.MODELS[model] = dataclasses.replace(spec, build=lambda: spec.build().bfloat16()) if narrow else spec
            zoo.MODELS[f"{model} in f32"] = dataclasses.replace(spec, build=lambda: zoo.MODELS[model].build().float())
            for optimizer in args.optimizers.split(","):
                references = {}
                for name in args.compositions.split(","):
                    c = COMPOSITIONS[name]
                    clip = 0.5 if "clip" in c.extra else None
                    key = (c.pieces if spec.per_microbatch else 1, clip)
                    if key not in references:
                        wide = torch_losses(f"{model} in f32", optimizer, *key)
                        references[key] = wide, (torch_losses(model, optimizer, *key) if narrow else
                                                 autocast_losses(model, optimizer, *key))
                    f32, autocast = references[key]
                    precision = {"compute": args.compute, "reduce": args.reduce, "keep": KEEP.get(base, [])}
                    if narrow:
                        precision = {"master": "f32"} if args.master else None
                    elif args.compute == "f16":
                        precision["loss_scale"] = "dynamic"
                    tag = f"{model.replace('@', '-')}-{name}-{optimizer}" + ("-master" if args.master else "")
                    plans = bench.compile(model, strategy_text(model, c, precision, optimizer), tag)
                    losses = bench.run(plans, model, c.ranks).losses
                    ours = [abs(a - b) for a, b in zip(losses, f32)]
                    theirs = [abs(a - b) for a, b in zip(autocast, f32)]
                    if base in KEEP or narrow:
                        ours, theirs = [[root_mean_square(distances)] for distances in (ours, theirs)]
                    over = [i + 1 for i, (a, b) in enumerate(zip(ours, theirs)) if not a <= FACTOR * b + SLACK]
                    worst = max(a / (FACTOR * b + SLACK) for a, b in zip(ours, theirs))
                    print(f"{tag}: {len(losses)} steps, distance to f32 {max(ours):.2e}, of autocast {max(theirs):.2e}, "
                          f"largest part of what is allowed {worst:.2f}" + (f"  FAILED at {over}" if over else ""), flush=True)
                    failed += bool(over) or len(losses) != args.steps
                    total += 1
    print(f"{total - failed} of {total} as near as autocast")
    sys.exit(1 if failed or not total else 0)


if __name__ == "__main__":
    main()
