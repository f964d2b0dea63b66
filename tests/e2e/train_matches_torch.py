#!/usr/bin/env python3
"""Losses of all steps and gradients of step 1 against PyTorch's own loop on one process.

  train_matches_torch.py --bin BIN --work DIR MODEL... [--compositions a,b] [--optimizers adamw,sgd]
                         [--launch local|mpirun] [--route auto|onnx] [--container onnx|pt2|plain.pt2]

Tolerances: losses 1e-6 at step 1, then the model's (1e-5; 1e-4 for the CNN, whose max pooling flips on rounding);
gradients 1e-5 of max(norm, 1e-4 of the typical norm). Models with statistics per microbatch are compared with a
loop over the same pieces of the batch. Exit status 0: all agree.
"""
import argparse

import harness
import zoo


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", choices=zoo.MODELS)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--compositions", default="one,dp2_mb2,pp2_gpipe,pp2_1f1b,pp4_1f1b,pp2_dp2,pp2_nested,pp2_nested_back")
    parser.add_argument("--optimizers", default="adamw,sgd")
    parser.add_argument("--launch", choices=("local", "mpirun"), default="local")
    parser.add_argument("--route", default="auto")
    parser.add_argument("--container", choices=("onnx", "pt2", "plain.pt2"), default="onnx")
    args = parser.parse_args()
    bench = harness.Bench(args.bin, args.work, args.container)
    agreement = harness.Agreement()
    for model in args.models:
        for optimizer in args.optimizers.split(","):
            by_pieces = {}
            for name in args.compositions.split(","):
                pieces = harness.COMPOSITIONS[name].pieces if zoo.MODELS[model].per_microbatch else 1
                if pieces not in by_pieces:
                    around = harness.piece_by_piece(pieces) if pieces > 1 else None
                    by_pieces[pieces] = harness.torch_training(model, optimizer, around=around)
                losses, gradients, _ = by_pieces[pieces]
                result = bench.train(model, name, optimizer, args.launch, "", "--route", args.route)
                faults = harness.loss_faults(result.losses, losses, zoo.MODELS[model].tolerance)
                faults += harness.gradient_faults(result.gradients, gradients)
                agreement.add(f"{model:12} {optimizer:6} {name:16} {args.launch:7}", result.losses, losses, faults)
    agreement.exit()


if __name__ == "__main__":
    main()
