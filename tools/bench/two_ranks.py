#!/usr/bin/env python3
"""Step time of the demo GPT on two ranks with one thread each (and on 2 x 2 ranks), piper against PyTorch over gloo.

  two_ranks.py --bin build/release/bin --work DIR [--rounds 5] [--steps 8] [--only dp,1f1b]

Each round runs every pair, piper and PyTorch in turn; same model, same batch of 16, fp32, AdamW. A figure is the median step of
its run; a ratio is taken inside a round. The pipelines cut the batch into four microbatches and have a head of their own.
"""
import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys

import programs
from programs import TOOLS, Programs, spread

BLOCKS = 4


def strategy(stages, replicas, family=None, extra="", bucket=25):
    """Stages of equal depth; `family` zb_v puts two of them on a rank."""
    text = "piper: 1\nmodel: {batch: 16}\n"
    if stages > 1:
        starts = ["wte"] + [f"h.{BLOCKS // stages * s}" for s in range(1, stages)]
        text += f"annotate: [{{tag: PP, starts: {json.dumps(starts)}}}]\n"
    ranks = stages // 2 if family == "zb_v" else stages
    directives = []
    for s in range(stages):
        owner = min(s, stages - 1 - s) if family == "zb_v" else s
        group = list(range(owner * replicas, (owner + 1) * replicas))
        chosen = f"{{PP: {s}}}" if stages > 1 else "{}"
        if ranks > 1 or stages > 1:
            directives.append(f"  - {{op: place, filter: {chosen}, devices: {group}}}\n")
        if replicas > 1:
            directives.append(f"  - {{op: replicate, filter: {chosen}, devices: {group}, bucket_size: {bucket}{extra}}}\n")
    text += "directives:\n" + "".join(directives)
    if family:
        text += f"schedule: {{family: {family}, microbatches: 4}}\n"
    return text + programs.OPTIMIZER


# name: (model, strategy, ranks, PyTorch's variant or None, goal)
PAIRS = {
    "dp": ("tied", strategy(1, 2), 2, "ddp", 1.2),
    "shard_params": ("tied", strategy(1, 2, extra=", shard_params: true", bucket=2), 2, "fully_shard", 1.6),
    "1f1b": ("untied", strategy(2, 1, "1f1b"), 2, "1f1b", 1.25),
    "zb_v": ("untied", strategy(4, 1, "zb_v"), 2, "zb_v", 1.2),
    "1f1b_dp2": ("untied", strategy(2, 2, "1f1b"), 4, "1f1b_ddp", 1.4),
    "zb_v_dp2": ("untied", strategy(4, 2, "zb_v"), 4, None, None),
}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def torch_step_ms(variant, world, steps):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1",
                                "MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    ranks = [subprocess.Popen([sys.executable, TOOLS / "bench" / "torch_ranks.py", variant, str(steps)], env=environment | {"RANK": str(r)},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for r in range(world)]
    outs = [p.communicate() for p in ranks]
    if any(p.returncode for p in ranks):
        said = [line for _, err in outs for line in err.splitlines() if re.search(r"Error|ASSERT", line)]
        raise RuntimeError(said[0][-160:] if said else "a rank of PyTorch failed")
    return statistics.median(json.loads(outs[0][0].splitlines()[-1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--only", default=",".join(PAIRS))
    args = parser.parse_args()
    own = Programs(args.bin, args.work)
    chosen = args.only.split(",")
    plans = {name: own.compile(PAIRS[name][0], PAIRS[name][1], name) for name in chosen}
    mine, theirs = {n: [] for n in chosen}, {n: [] for n in chosen}
    print(programs.load())
    for _ in range(args.rounds):
        for name in chosen:
            _, _, ranks, variant, _ = PAIRS[name]
            mine[name].append(own.run(plans[name], args.steps).step_ms)
            if variant:
                theirs[name].append(torch_step_ms(variant, ranks, args.steps))
    print(programs.load())
    print("| strategy | ranks | piper, ms | PyTorch | PyTorch, ms | PyTorch / piper | by best | goal |\n|---|---|---|---|---|---|---|---|")
    for name in chosen:
        _, _, ranks, variant, goal = PAIRS[name]
        row = f"| {name} | {ranks} | {statistics.median(mine[name]):.0f} |"
        if variant:
            ratios = [t / m for t, m in zip(theirs[name], mine[name])]
            row += f" {variant} | {statistics.median(theirs[name]):.0f} | {spread(ratios)} | {min(theirs[name]) / min(mine[name]):.2f} | {goal} |"
        else:
            try:
                torch_step_ms(name.replace("_dp2", "_ddp"), ranks, 1)
                row += " runs | | | | |"
            except RuntimeError as failure:
                row += f" fails: {failure} | | | | |"
        print(row, flush=True)


if __name__ == "__main__":
    main()
