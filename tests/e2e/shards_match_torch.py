#!/usr/bin/env python3
"""Models whose experts are partitioned over devices train as PyTorch trains them whole, on one process.

  shards_match_torch.py --bin BIN --work DIR [MODEL...] [--strategies a,b] [--optimizers adamw,sgd] [--launch local|mpirun]

Losses of all steps, gradients of step 1 and weights after the last step. Where a statistic belongs to a piece (a microbatch on a
replica), PyTorch's loop takes the same pieces. Tolerances are those of train_matches_torch.py; weights: 1e-4 of the
largest of their tensor for SGD (20 steps of rounding), not compared for AdamW, which turns rounding of zero gradients into steps.
Exit status 0: all agree.
"""
import argparse
import dataclasses
import json

import harness
import zoo


# Model -> modules whose experts are sharded.
REGIONS = {"moe_dense": "*.moe", "moe_stacked": "*.moe", "moe_capacity": "*.moe", "moe_gathered": "*.moe",
           "qwen3_moe": "*.mlp", "mixtral": "*.mlp"}


@dataclasses.dataclass(frozen=True)
class Strategy:
    data: tuple[tuple[int, ...], ...]             # devices of every stage
    experts: tuple[tuple[tuple[int, ...], ...], ...]  # groups of every stage; () where its experts stay whole
    microbatches: int = 1
    family: str | None = None
    replicate: str = ""
    extra: str = ""
    directives: str = ""
    halves: bool = False     # two regions of several layers each, instead of one for each mixture
    alone: bool = False      # no `place`, no `replicate`: all of the model is in regions that are sharded
    places: int = 1          # so many devices, one after the other, share samples and cut tensors
    dims: tuple[str, ...] = ("column",)  # what they cut

    def places_of_experts(self):
        """Into how many parts the tokens of a piece are divided before they go to the experts."""
        shared = [set(devices[i:i + self.places]) for devices in self.data for i in range(0, len(devices), self.places)]
        return self.places if any(group <= set(experts) for groups in self.experts for experts in groups for group in shared) else 1

    def pieces(self):
        return self.microbatches * max(len(group) for group in self.data) // self.places


STRATEGIES = {
    "ep2": Strategy(((0, 1),), (((0, 1),),)),
    "ep2_mb2": Strategy(((0, 1),), (((0, 1),),), 2),
    "ep4": Strategy(((0, 1, 2, 3),), (((0, 1, 2, 3),),)),
    "ep2x2": Strategy(((0, 1, 2, 3),), (((0, 1), (2, 3)),)),
    "ep2x2_across": Strategy(((0, 1, 2, 3),), (((0, 2), (3, 1)),), 2),
    "pp2_ep2": Strategy(((0, 1), (2, 3)), (((0, 1),), ((2, 3),)), 2, "1f1b"),
    "pp2_ep2_gpipe": Strategy(((0, 1), (2, 3)), (((0, 1),), ((2, 3),)), 4, "gpipe"),
    "pp2_ep2_zero_bubble": Strategy(((0, 1), (2, 3)), (((0, 1),), ((2, 3),)), 4, "zero_bubble"),
    "ep2_optimizer": Strategy(((0, 1),), (((0, 1),),), 2, replicate=", shard_optimizer: true"),
    "ep2_gradients": Strategy(((0, 1),), (((0, 1),),), 2, replicate=", shard_grads: true"),
    "ep2_parameters": Strategy(((0, 1),), (((0, 1),),), 2, replicate=", shard_params: true"),
    "ep2x2_parameters": Strategy(((0, 1, 2, 3),), (((0, 1), (2, 3)),), 2, replicate=", shard_params: true"),
    "pp2_ep2_parameters": Strategy(((0, 1), (2, 3)), (((0, 1),), ((2, 3),)), 2, "1f1b", replicate=", shard_params: true"),
    "pp2_nested_ep2": Strategy(((0,), (1, 2)), ((), ((1, 2),)), 2, "1f1b"),
    "ep2_recompute": Strategy(((0, 1),), (((0, 1),),), 2, directives="  - {op: recompute, filter: {EP: \"*\"}}"),
    "ep2_halves": Strategy(((0, 1),), (((0, 1),),), 2, halves=True),
    "ep2_alone": Strategy(((0, 1),), (((0, 1),),), 2, alone=True),
    "ep2_tp2": Strategy(((0, 1, 2, 3),), (((0, 2), (1, 3)),), 2, places=2),
    "ep2_tp2_seq": Strategy(((0, 1, 2, 3),), (((0, 2), (1, 3)),), places=2, dims=("column", "sequence")),
    "ep2_tp2_all": Strategy(((0, 1, 2, 3),), (((2, 0), (3, 1)),), 2, replicate=", shard_params: true", places=2,
                            dims=("column", "sequence", "vocabulary")),
    "pp2_ep2_tp2_seq": Strategy(((0, 1, 2, 3), (4, 5, 6, 7)), (((0, 2), (1, 3)), ((4, 6), (5, 7))), 2, "1f1b", places=2,
                                dims=("column", "sequence")),
    # Whole experts over the places, too.
    "etp": Strategy(((0, 1, 2, 3),), (((0, 1, 2, 3),),), places=2, dims=("column", "sequence")),
    "etp_recompute": Strategy(((0, 1, 2, 3),), (((0, 1), (2, 3)),), 2, replicate=", shard_params: true", places=2, extra="clip_grad_norm: 0.5\n",
                              dims=("column", "sequence", "vocabulary"), directives="  - {op: recompute, filter: {EP: \"*\"}}"),
    "pp2_etp": Strategy(((0, 1, 2, 3), (4, 5, 6, 7)), (((0, 1, 2, 3),), ((4, 5, 6, 7),)), 2, "1f1b", places=2, dims=("column", "sequence")),
    "ep2_clip": Strategy(((0, 1),), (((0, 1),),), extra="clip_grad_norm: 0.5\n"),
}

# The stages cut the batch into pieces of two sizes, and each layer bounds its experts by its own piece: a loop over pieces of one size is no reference.
NO_REFERENCE = {("moe_capacity", "pp2_nested_ep2")}
# A capacity of the model's own is of all tokens: no place can decide on those of its part (P0259).
NOT_DIVIDED = {("moe_capacity", name) for name in ("etp", "etp_recompute", "pp2_etp")}


def strategy_text(s: Strategy, model: str, optimizer: str) -> str:
    spec = zoo.MODELS[model]
    annotations = [f'  - {{tag: EP, modules: ["{REGIONS[model]}"]}}']
    if s.halves:
        annotations = [f"  - {{tag: EP, starts: {json.dumps(spec.quarters[::2])}}}"]
    if len(s.data) > 1:
        annotations.insert(0, f"  - {{tag: PP, starts: {json.dumps(spec.quarters[::len(spec.quarters) // len(s.data)])}}}")
    directives = []
    for stage, (devices, groups) in enumerate(zip(s.data, s.experts)):
        tag = f"PP: {stage}" if len(s.data) > 1 else ""
        both = ", ".join(filter(None, (tag, 'EP: "*"')))
        if s.alone:
            tag = both = ""
        else:
            directives += [f"  - {{op: place, filter: {{{tag}}}, devices: {list(devices)}}}",
                           f"  - {{op: replicate, filter: {{{tag}}}, devices: {list(devices)}, bucket_size: 0.05{s.replicate}}}"]
        if groups:
            directives.append(f"  - {{op: shard, filter: {{{both}}}, devices: {json.dumps(groups if len(groups) > 1 else groups[0])}}}")
    if s.places > 1:
        over = [list(devices[i:i + s.places]) for devices in s.data for i in range(0, len(devices), s.places)]
        directives += [f"  - {{op: shard, filter: {{}}, dim: {dim}, over: {over}}}" for dim in s.dims]
    if s.microbatches > 1 and not s.family:
        directives.append(f"  - {{op: split, num_microbatches: {s.microbatches}}}")
    if s.directives:
        directives.append(s.directives)
    values = dict(harness.OPTIMIZERS[optimizer])
    values["lr"] = values["lr"] or spec.sgd_lr
    text = f"piper: 1\nmodel: {{batch: {harness.BATCH}}}\nannotate:\n" + "\n".join(annotations) + "\ndirectives:\n" + "\n".join(directives)
    if s.family:
        text += f"\nschedule: {{family: {s.family}, microbatches: {s.microbatches}}}"
    if spec.per_microbatch:
        text += f"\nper_microbatch: {json.dumps(list(spec.per_microbatch))}"
    return text + f"\noptimizer: {{{optimizer}: {json.dumps(values)}}}\n" + s.extra


def weight_faults(weights, module):
    faults = []
    for name, wanted in module.named_parameters():
        if name not in weights:
            faults.append(f"{name}: not saved")
        elif (weights[name] - wanted.detach()).abs().max() > 1e-4 * wanted.detach().abs().max():
            faults.append(f"{name}: weights differ by {(weights[name] - wanted.detach()).abs().max():.3g}")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(REGIONS))
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--optimizers", default="sgd")
    parser.add_argument("--launch", choices=("local", "mpirun"), default="local")
    args = parser.parse_args()
    bench = harness.Bench(args.bin, args.work)
    agreement = harness.Agreement()
    for model in args.models:
        spec = zoo.MODELS[model]
        for optimizer in args.optimizers.split(","):
            references = {}
            for name in args.strategies.split(","):
                if (model, name) in NO_REFERENCE | NOT_DIVIDED:
                    continue
                s = STRATEGIES[name]
                clip = 0.5 if "clip" in s.extra else None
                key = (s.pieces() if spec.per_microbatch else 1, clip)
                if key not in references:
                    around = harness.piece_by_piece(key[0]) if key[0] > 1 else None
                    references[key] = harness.torch_training(model, optimizer, clip=clip, around=around)
                losses, gradients, module = references[key]
                plans = bench.compile(model, strategy_text(s, model, optimizer), f"{model}-{name}-{optimizer}")
                result = bench.run(plans, model, 1 + max(max(d) for d in s.data), args.launch)
                faults = harness.loss_faults(result.losses, losses, spec.tolerance)
                faults += harness.gradient_faults(result.gradients, gradients)
                if optimizer == "sgd":
                    faults += weight_faults(result.weights, module)
                agreement.add(f"{model:16} {optimizer:6} {name:20} {args.launch:7}", result.losses, losses, faults)
    agreement.exit()


if __name__ == "__main__":
    main()
