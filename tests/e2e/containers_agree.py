#!/usr/bin/env python3
"""A model trains to the same losses whether it was exported as ONNX, as `.pt2`, or by torch.export.save alone.

  containers_agree.py --bin BIN --work DIR MODEL... [--compositions a,b] [--optimizers adamw,sgd] [--containers a,b,c]

All of them hold the same ATen calls, so losses are equal to the bit, dropout included: its masks are keyed by
module and sample. Exit status 0: all are equal.
"""
import argparse
import sys

import harness
import zoo


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", choices=zoo.MODELS)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--compositions", default="one,pp2_1f1b")
    parser.add_argument("--optimizers", default="adamw,sgd")
    parser.add_argument("--containers", default="onnx,pt2,plain.pt2")
    args = parser.parse_args()
    failed = total = 0
    for model in args.models:
        for optimizer in args.optimizers.split(","):
            for name in args.compositions.split(","):
                onnx, *others = (harness.Bench(args.bin, args.work, c).train(model, name, optimizer).losses for c in args.containers.split(","))
                equal = all(losses == onnx and len(losses) == zoo.MODELS[model].steps for losses in others)
                worst = max((abs(a - b) / abs(b) for losses in others for a, b in zip(losses, onnx)), default=float("nan"))
                print(f"{model:12} {optimizer:6} {name:12} " + ("equal to the bit" if equal else f"FAILED: largest relative loss difference {worst:.1e}"),
                      flush=True)
                failed += not equal
                total += 1
    print(f"{total - failed} of {total} agree")
    sys.exit(1 if failed or not total else 0)


if __name__ == "__main__":
    main()
