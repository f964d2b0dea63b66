#!/usr/bin/env python3
"""A model of torch.jit.trace, rewritten by piper-torchscript, trains to the losses of PyTorch.

  torchscript.py --bin BIN --work DIR MODEL...

Traces each model at another batch than it is trained with. Prints [SKIP] where the program was not built
(PIPER_TORCHSCRIPT). Exit status 0: all agree, and what is no trace is refused.
"""
import argparse
import pathlib
import subprocess
import sys
import warnings

import harness
import torch
import zoo

warnings.simplefilter("ignore")


class Branch(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x * 2
        return x.mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", choices=zoo.MODELS)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    args = parser.parse_args()
    program = pathlib.Path(args.bin) / "piper-torchscript"
    if not program.exists():
        print("[SKIP] piper-torchscript was not built; configure with -DPIPER_TORCHSCRIPT=ON")
        return 0
    failed = 0
    for model in args.models:
        bench = harness.Bench(args.bin, args.work, "pt2")
        bench.exported(model)   # writes the data, too
        example = zoo.draw(model, 4)
        traced = bench.work / f"{model}.traced.pt"
        torch.jit.trace(zoo.build(model), example_kwarg_inputs=example, check_trace=False).save(str(traced))
        inputs = []
        for name, value in example.items():
            inputs += ["-i", f"{name}:{str(value.dtype).removeprefix('torch.')}[{','.join(['B', *map(str, value.shape[1:])])}]"]
        bench.call([program, traced, "-o", bench.work / f"{model}.pt2", *inputs])
        for name in ("one", "pp2_dp2"):
            losses, gradients, _ = harness.torch_training(model, "sgd")
            result = bench.train(model, name, "sgd")
            faults = harness.loss_faults(result.losses, losses, zoo.MODELS[model].tolerance) + harness.gradient_faults(result.gradients, gradients)
            print(f"{model:10} {name:8} " + (f"FAILED {len(faults)}: {faults[0]}" if faults else "agrees with PyTorch"), flush=True)
            failed += bool(faults)
    work = pathlib.Path(args.work)
    torch.jit.script(Branch()).save(str(work / "branch.pt"))
    (work / "no.pt").write_text("no archive")
    for file, inputs, said in (("branch.pt", ["-i", "x:float32[B,4]"], "torch.jit.trace"), ("no.pt", ["-i", "x:float32[B]"], "no.pt"),
                               ("branch.pt", ["-i", "x:float32[B,4]", "-i", "y:int64[B]"], "1 arguments"), ("branch.pt", ["-i", "x float32"], "is no input")):
        done = subprocess.run([str(program), str(work / file), "-o", str(work / "wrong.pt2"), *inputs], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120)
        if done.returncode != 1 or said not in done.stdout:
            print(f"{file} {inputs}: exit {done.returncode}, {done.stdout}")
            failed += 1
    print(f"{failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
