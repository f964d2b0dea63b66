#!/usr/bin/env python3
"""How near the mixtures of experts of zoo.py come to a tie in the tests' trainings, by seed.

  router_margins.py [MODEL...] [--seeds 9,10,11]

Prints for each seed (the model's own where none is given) the smallest margin of a router, as zoo_experts.smallest_margin defines it, over
both optimizers; over the numbers of pieces that tests cut the batch into, for models whose reference is a loop over pieces; and over
the trainings with a capacity. A processor's other rounding moves scores by some 1e-6 of their spread, more after steps of AdamW: below
2e-5 a test may pass on one machine and fail on another.
"""
import argparse
import dataclasses

import capacity_matches_torch
import harness
import zoo
import zoo_experts

MIXTURES = ("qwen3_moe", "mixtral", "moe_gathered", "moe_capacity", "moe_dense", "moe_stacked")
PIECES = {"adamw": (1, 2, 4), "sgd": (1, 2, 4, 8)}
CAPACITY_PIECES = (2, 4, 8)


def margin(model, optimizer, pieces):
    ask = []
    train = harness.piece_by_piece(pieces) if pieces > 1 else lambda module, _, batch: module(**batch)

    def step(module, number, batch):
        if number == 1:
            ask.append(zoo_experts.smallest_margin(module))
        return train(module, number, batch)
    harness.torch_training(model, optimizer, around=step)
    return ask[0]()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MIXTURES))
    parser.add_argument("--seeds", help="by comma")
    args = parser.parse_args()
    for model in args.models or MIXTURES:
        seeds = [int(s) for s in args.seeds.split(",")] if args.seeds else [zoo.MODELS[model].seed]
        for seed in seeds:
            zoo.MODELS[model] = dataclasses.replace(zoo.MODELS[model], seed=seed)
            found = {(o, p): margin(model, o, p) for o, pieces in PIECES.items() for p in pieces if p == 1 or zoo.MODELS[model].per_microbatch}
            if model in capacity_matches_torch.MODELS:
                found |= {("capacity", p): capacity_matches_torch.torch_training(model, capacity_matches_torch.MODELS[model][0], p, None)[-1]
                          for p in CAPACITY_PIECES}
            print(f"{model:14} seed {seed:3}  {min(found.values()):.1e}   " + " ".join(f"{o}/{p} {m:.0e}" for (o, p), m in found.items()), flush=True)


if __name__ == "__main__":
    main()
