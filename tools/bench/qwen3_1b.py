#!/usr/bin/env python3
"""A bundle for 32 GPUs of a Qwen3-style mixture of about a billion parameters: PP8 x EP4, DualPipeV, bf16.

  qwen3_1b.py --bin build/release/bin --work DIR [--sequence 512] [--microbatches 16]

The model is paper/models.py's, exported without weights. 16 stages in a V on 8 groups of 4 devices; experts are parted over each group, with room for 1.25 of an even share.
Prints the time of export and compilation, what `piper-plan verify` says, and the predicted peak of each rank. Needs no GPU.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

TOOLS = pathlib.Path(__file__).resolve().parents[1]
MODEL = f"{TOOLS / 'bench' / 'paper' / 'models.py'}:qwen3_1b"


def strategy(microbatches):
    starts = ["net.model.embed_tokens"] + [f"net.model.layers.{layer}" for layer in range(1, 16)]
    text = f"piper: 1\nmodel: {{batch: {8 * microbatches}}}\nannotate:\n  - {{tag: PP, starts: {json.dumps(starts)}}}\n"
    text += '  - {tag: EP, modules: ["*.mlp"]}\ndirectives:\n'
    for owner in range(8):
        group, stages = list(range(4 * owner, 4 * owner + 4)), [owner, 15 - owner]
        text += f"  - {{op: replicate, filter: {{PP: {stages}}}, devices: {group}, shard_optimizer: true}}\n"
        text += f'  - {{op: shard, filter: {{PP: {stages}, EP: "*"}}, devices: {group}, capacity: {{factor: 1.25, overflow: drop}}}}\n'
    return text + (f"schedule: {{family: dualpipev, microbatches: {microbatches}}}\n"
                   'precision: {compute: bf16, keep: ["*.gate"]}\noptimizer: {adamw: {lr: 3.0e-4}}\n')


def timed(*command):
    began = time.perf_counter()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr[-4000:])
    return done.stdout, time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--microbatches", type=int, default=16)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    text, model, plans = (args.work / name for name in ("strategy.yaml", f"qwen3_1b_{args.sequence}.pt2", "plans"))
    os.environ["PIPER_SEQUENCE"] = str(args.sequence)
    text.write_text(strategy(args.microbatches))
    if not model.exists():
        print(f"export      {timed(sys.executable, TOOLS / 'piper_export.py', MODEL, '-o', model, '--no-weights')[1]:7.1f} s")
    _, seconds = timed(args.bin / "piperc", model, "--strategy", text, "--device", "cuda", "--weights", "none", "-o", plans)
    size = sum(path.stat().st_size for path in plans.rglob("*") if path.is_file())
    print(f"piperc      {seconds:7.1f} s, {size / 1e6:.1f} MB of text")
    verdict, seconds = timed(args.bin / "piper-plan", "verify", plans)
    print(f"verify      {seconds:7.1f} s")
    print(verdict)
    ranks = json.loads((plans / "manifest.json").read_text())["ranks"]
    for stage in range(8):
        peaks = [ranks[rank]["peak_bytes"] / 2**30 for rank in range(4 * stage, 4 * stage + 4)]
        print(f"ranks {4 * stage:2} to {4 * stage + 3:2}: predicted peak {min(peaks):.2f} to {max(peaks):.2f} GiB")


if __name__ == "__main__":
    main()
