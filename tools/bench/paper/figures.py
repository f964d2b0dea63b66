#!/usr/bin/env python3
"""Figures 7 and 8 of the paper (Piper, arXiv 2606.11169), priced for nodes of 8 A100: no GPU is used.

  figures.py --bin build/release/bin --work DIR --model-1b qwen3_1b.pt2 [--model-9b qwen3_9b.pt2] [--target FILE] [--microbatch 4]

The models are tools/bench/paper/models.py's, exported with --no-weights. Groups of experts are placed as the artifact places them in a
cluster: the stages of a pipeline inside of a node, so that experts exchange rows between nodes, and the other way round. Microbatches:
two for each rank of the pipeline, of `--microbatch` sequences of 512 tokens a rank; ZeRO-1, bf16, AdamW, stages of equal numbers of layers.
Prints the simulated step of each schedule, and the gain over the first one beside the paper's; then, for the 9B model with
--figure-8, the peak memory of 1F1B on PP8 x DP4 by what replicas share out, and the largest microbatch that fits.
"""
import argparse
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Model, layers, stages of a pipeline, ranks of a group of experts; the gain over the first schedule that the paper states.
FIGURE_7 = [("1b", 16, 8, 4, {"1f1b": None, "interleaved_1f1b": 5, "dualpipev": 13}),
            ("9b", 24, 4, 4, {"interleaved_1f1b": None, "dualpipev": 10})]


# What replicas share out, and the largest batch that the paper fits with it: none, 32, 40.
FIGURE_8 = {"ZeRO-1": ("shard_optimizer: true", 0), "ZeRO-2": ("shard_optimizer: true, shard_grads: true", 32),
            "ZeRO-3": ("shard_optimizer: true, shard_grads: true, shard_params: true", 40)}
SIZES = (4, 8, 16, 24, 32, 40)


def shared_out(flags, microbatch, layers=24, pipeline=8, replicas=4):
    starts = ["net.model.embed_tokens"] + [f"net.model.layers.{s * layers // pipeline}" for s in range(1, pipeline)]
    text = f"piper: 1\nmodel: {{batch: {2 * pipeline * microbatch * replicas}}}\nannotate:\n  - {{tag: PP, starts: {json.dumps(starts)}}}\ndirectives:\n"
    for p in range(pipeline):
        text += f"  - {{op: replicate, filter: {{PP: {p}}}, devices: {[d * pipeline + p for d in range(replicas)]}, {flags}}}\n"
    return text + (f"schedule: {{family: 1f1b, microbatches: {2 * pipeline}}}\n"
                   'precision: {compute: bf16, keep: ["*.gate"]}\noptimizer: {adamw: {lr: 3.0e-4}}\n')


def strategy(layers, pipeline, experts, family, microbatch, pipeline_inside):
    stages = pipeline if family == "1f1b" else 2 * pipeline
    owner = {"1f1b": lambda s: s, "interleaved_1f1b": lambda s: s % pipeline,
             "dualpipev": lambda s: min(s, stages - 1 - s)}[family]
    starts = ["net.model.embed_tokens"] + [f"net.model.layers.{s * layers // stages}" for s in range(1, stages)]
    microbatches = 2 * pipeline
    text = f"piper: 1\nmodel: {{batch: {microbatches * microbatch * experts}}}\nannotate:\n  - {{tag: PP, starts: {json.dumps(starts)}}}\n"
    text += '  - {tag: EP, modules: ["*.mlp"]}\ndirectives:\n'
    for p in range(pipeline):
        group = [e * pipeline + p if pipeline_inside else p * experts + e for e in range(experts)]
        own = [s for s in range(stages) if owner(s) == p]
        text += f"  - {{op: replicate, filter: {{PP: {own}}}, devices: {group}, shard_optimizer: true}}\n"
        text += f'  - {{op: shard, filter: {{PP: {own}, EP: "*"}}, devices: {group}}}\n'
    return text + (f"schedule: {{family: {family}, microbatches: {microbatches}}}\n"
                   'precision: {compute: bf16, keep: ["*.gate"]}\noptimizer: {adamw: {lr: 3.0e-4}}\n')


def priced(args, model, text, name):
    path, plans = args.work / f"{name}.yaml", args.work / f"{name}.plans"
    path.write_text(text)
    for command in ([args.piperc, model, "--strategy", path, "--device", "cuda", "--weights", "none", "-o", plans],
                    [args.bin / "piper-plan", "simulate", plans, "--target", args.target, "--json"]):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{name}: {done.stderr}")
    return json.loads(done.stdout)


def figure_8(args):
    print("| 9B, PP8 x DP4 | " + " | ".join(f"{size}: GiB, step ms" for size in SIZES) + " | the paper's largest |\n" + "|---" * (len(SIZES) + 2) + "|")
    for name, (flags, claim) in FIGURE_8.items():
        cells = []
        for size in SIZES:
            got = priced(args, args.model_9b, shared_out(flags, size), f"9b.{name}.{size}")
            peak = max(rank["peak_bytes"] for rank in got["ranks"])
            cells.append(f"{peak / 2**30:.1f}, {got['step_us'] / 1e3:.0f}" + ("" if all(rank["fits"] == "ok" for rank in got["ranks"]) else " oom"))
        print(f"| {name} | " + " | ".join(cells) + f" | {claim or 'none'} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--piperc", type=pathlib.Path, help="default: that of --bin")
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--model-1b", type=pathlib.Path)
    parser.add_argument("--model-9b", type=pathlib.Path)
    parser.add_argument("--figure-8", action="store_true")
    parser.add_argument("--target", type=pathlib.Path, default=ROOT / "strategies" / "targets" / "a100_node8.yaml")
    parser.add_argument("--microbatch", type=int, default=4)
    args = parser.parse_args()
    args.piperc = args.piperc or args.bin / "piperc"
    args.work.mkdir(parents=True, exist_ok=True)
    if args.figure_8 and args.model_9b is None:
        raise SystemExit("figures.py: --figure-8 is of the 9B model: give --model-9b")
    print("| model | inside a node | schedule | step, ms (kernels +-20 %) | idle or exposed, % | peak, GiB | gain, % (+-20 %) | the paper's |")
    print("|---|---|---|---|---|---|---|---|")
    for name, layers, pipeline, experts, families in FIGURE_7:
        model = args.model_1b if name == "1b" else args.model_9b
        if model is None:
            continue
        for inside in (True, False):
            first = None
            for family, claim in families.items():
                got = priced(args, model, strategy(layers, pipeline, experts, family, args.microbatch, inside),
                             f"{name}.{family}.{'pp' if inside else 'ep'}")
                first = first or got
                steps = [got[key] / 1e3 for key in ("step_us", "step_us_efficient", "step_us_inefficient")]
                gains = [100 * (first[key] / got[key] - 1) for key in ("step_us", "step_us_efficient", "step_us_inefficient")]
                lost = [(rank["exposed_communication_us"] + rank["waiting_us"]) / got["step_us"] for rank in got["ranks"]]
                peak = max(rank["peak_bytes"] for rank in got["ranks"]) / 2**30
                print(f"| {name} | {'stages' if inside else 'experts'} | {family} | {steps[0]:.1f} ({steps[1]:.1f} to {steps[2]:.1f}) | "
                      f"{100 * sum(lost) / len(lost):.1f} | {peak:.1f} | "
                      + (f"{gains[0]:+.1f} ({gains[1]:+.1f} to {gains[2]:+.1f}) | {claim:+d} |" if claim else "- | - |"), flush=True)
    if args.figure_8:
        figure_8(args)


if __name__ == "__main__":
    main()
