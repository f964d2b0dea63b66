#!/usr/bin/env python3
"""Step time of a model on one rank with one thread, against PyTorch on the same machine in the same minutes.

  step_time.py --bin build/release/bin --work DIR [--model tied] [--batch 16] [--precision f32|bf16] [--rounds 9] [--steps 8]
               [--variants eager fused compile]

`model`: a function of models.py (`tied`: the demo GPT). Each round runs piper and every PyTorch variant once, in turn, each in a
process of its own with one thread; a figure is the median step of its run. In bf16 PyTorch runs under autocast. Prints per variant
the median over rounds of (PyTorch step / piper step), and for piper the page faults per steady step (difference between a long and
a short run).
"""
import argparse
import contextlib
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

TOOLS = pathlib.Path(__file__).resolve().parents[1]
WARM_UP = 3
STRATEGY = """piper: 1
model: {{batch: {batch}}}
optimizer: {{adamw: {{lr: 3.0e-4, betas: [0.9, 0.95], eps: 1.0e-8, weight_decay: 0.1}}}}
"""


def torch_steps(args):
    """Runs in a child process: prints the step times in ms."""
    import models
    import torch
    torch.set_num_threads(1)
    module, example = getattr(models, args.model)()
    module.train()
    step = torch.compile(module) if args.child == "compile" else module
    rule = torch.optim.AdamW(module.parameters(), lr=3e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1,
                             **({"fused": True} if args.child in ("fused", "compile") else {}))
    generator = torch.Generator().manual_seed(0)
    narrow = torch.autocast("cpu", dtype=torch.bfloat16) if args.precision == "bf16" else contextlib.nullcontext()
    times = []
    for _ in range(args.steps + WARM_UP):
        tokens = torch.randint(256, (args.batch, example["idx"].shape[1] + 1), generator=generator)
        began = time.perf_counter()
        rule.zero_grad(set_to_none=True)
        with narrow:
            loss = step(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        rule.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(json.dumps(times[WARM_UP:]))


def child(args, variant):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--child", variant, "--steps", args.steps, "--model", args.model, "--batch", args.batch,
               "--precision", args.precision]
    out = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, check=True).stdout
    return statistics.median(json.loads(out.splitlines()[-1]))


def piper(args, steps):
    """Median step in ms and the minor page faults of the whole process."""
    log = args.work / "log.jsonl"
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
    subprocess.run([args.bin / "piper-run", args.work / "plans", "--data", args.work / "bytes.txt", "--steps", str(steps),
                    "--threads", "1", "--log", log], check=True, capture_output=True)
    faults = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    return statistics.median(row["step_ms"] for row in rows if "step_ms" in row and row["step"] > WARM_UP), faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--model", default="tied")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--variants", nargs="+", default=["eager", "fused", "compile"])
    parser.add_argument("--child")
    args = parser.parse_args()
    if args.child:
        torch_steps(args)
        return
    args.work.mkdir(parents=True, exist_ok=True)
    (args.work / "bytes.txt").write_bytes(os.urandom(1 << 20))
    (args.work / "one.yaml").write_text(
        STRATEGY.format(batch=args.batch) + ("precision: {compute: bf16}\n" if args.precision == "bf16" else ""))
    subprocess.run([sys.executable, TOOLS / "piper_export.py", f"{TOOLS / 'bench' / 'models.py'}:{args.model}",
                    "-o", args.work / "model.onnx"], check=True, capture_output=True)
    subprocess.run([args.bin / "piperc", args.work / "model.onnx", "--strategy", args.work / "one.yaml", "-o", args.work / "plans"], check=True)
    ratios, own, others = {v: [] for v in args.variants}, [], {v: [] for v in args.variants}
    for _ in range(args.rounds):
        mine, _ = piper(args, args.steps + WARM_UP)
        own.append(mine)
        for variant in args.variants:
            theirs = child(args, variant)
            others[variant].append(theirs)
            ratios[variant].append(theirs / mine)
    print(f"piper    {statistics.median(own):8.1f} ms (best {min(own):.1f})")
    for variant in args.variants:
        print(f"{variant:8} {statistics.median(others[variant]):8.1f} ms (best {min(others[variant]):.1f})  "
              f"ratio to piper: median {statistics.median(ratios[variant]):.2f}, {min(ratios[variant]):.2f} to {max(ratios[variant]):.2f}")
    _, short = piper(args, 10)
    _, long = piper(args, 30)
    print(f"minor page faults per steady step: {(long - short) / 20:.1f}")


if __name__ == "__main__":
    main()
