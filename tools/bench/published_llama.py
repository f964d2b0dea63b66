#!/usr/bin/env python3
"""The layouts of Llama 3 405B's pretraining, beside what a target predicts for them.

  published_llama.py --bin BIN --work DIR [--target FILE] [--only 8192] [--repeat all]

The rows are the first two of table 4 of The Llama 3 Herd of Models (arXiv 2407.21783): 8,192 and 16,384 H100, TP8 x PP16 x DP64 and x DP128, samples of 8,192
tokens, 16 million tokens a step. The third row has context parallelism, which piper does not have. MFU is the paper's: bf16, of 989 TFLOP/s.

The paper interleaves stages, and gives the first and the last rank of the pipeline one layer less; here every layer is a stage, and so are the embedding and the
head. The optimizer is sharded over the replicas, gradients are fp32 and clipped, values between layers are cut along the sequence. The paper repeats no forward
operator. Here products are never repeated but in the first stages, as many as the memory of a GPU asks for (--repeat: in all of them).
"""
import argparse
import dataclasses
import json
import logging
import pathlib
import shutil
import subprocess
import sys
import warnings

import real_sizes

PP, TP, VIRTUAL, TOKENS = 16, 8, 8, 8192


@dataclasses.dataclass(frozen=True)
class Row:
    """repeated: stages in which all operators are repeated. mfu: as published."""
    gpus: int
    microbatches: int
    repeated: int
    mfu: float

    @property
    def dp(self):
        return self.gpus // (PP * TP)


TABLE = (Row(8192, 32, 32, 0.43), Row(16384, 16, 32, 0.41))


def layout(row, repeats_all):
    stages = PP * VIRTUAL
    directives = [f"{{op: replicate, filter: {{PP: {list(range(rank, stages, PP))}}}, devices: {{pp: {rank}}}, shard_optimizer: true}}" for rank in range(PP)]
    directives += [f"{{op: shard, filter: {{}}, dim: {dim}, over: tp}}" for dim in ("column", "sequence", "vocabulary")]
    first = stages if repeats_all else row.repeated
    directives.append(f"{{op: recompute, filter: {{PP: {list(range(first))}}}}}")
    if first < stages:
        directives.append(f"{{op: recompute, filter: {{PP: {list(range(first, stages))}}}, ops: all_but_products}}")
    return (f"piper: 1\nmodel: {{batch: {row.microbatches * row.dp}}}\nprecision: {{compute: bf16, master: f32}}\n"
            "optimizer: {adamw: {lr: 8.0e-5, weight_decay: 0.1}}\nclip_grad_norm: 1.0\n"
            f"mesh: {{pp: {PP}, dp: {row.dp}, tp: {TP}}}\nnode: {{ranks: 8, inside: [tp]}}\nannotate: [{{tag: PP, stages: {stages}, balance: flops}}]\n"
            f"schedule: {{family: interleaved_1f1b, virtual: {VIRTUAL}, microbatches: {row.microbatches}, ranks: {{pp: each}}}}\n"
            "directives:\n" + "".join(f"  - {one}\n" for one in directives))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--target", type=pathlib.Path, default=pathlib.Path("strategies/targets/h100_node8.yaml"))
    parser.add_argument("--only", type=int, default=0, help="the row of so many GPUs")
    parser.add_argument("--repeat", choices=("all",))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    args.work.mkdir(parents=True, exist_ok=True)
    model, shape = args.work / "llama_405b.pt2", real_sizes.MODELS["llama_405b"]
    if not model.exists():
        real_sizes.export(shape, real_sizes.config_of(shape, TOKENS, 0), TOKENS, model)
    print("| GPUs | microbatches | peak, GiB | fits | step, s | MFU: published | predicted | busy | exposed communication | waiting | compiled and proved, s "
          "| priced, s |\n" + "|---" * 12 + "|")
    for row in TABLE:
        if args.only not in (0, row.gpus):
            continue
        plans, strategy = args.work / f"{row.gpus}.plans", args.work / f"{row.gpus}.yaml"
        strategy.write_text(layout(row, args.repeat == "all"))
        shutil.rmtree(plans, ignore_errors=True)
        try:
            compiled, *_ = real_sizes.called(args.bin / "piperc", model, "--strategy", strategy, "--target", args.target, "--weights", "none", "-o", plans)
        except real_sizes.Failed as failure:
            sys.exit(str(failure))
        priced, *_, told = real_sizes.called(args.bin / "piper-plan", "simulate", plans, "--target", args.target, "--json")
        shutil.rmtree(plans)
        told = json.loads(told)
        step, ranks = told["step_us"], told["ranks"]
        parts = [sum(rank[key] for rank in ranks) / len(ranks) / step for key in ("busy_us", "exposed_communication_us", "waiting_us")]
        print(f"| {row.gpus:,} | {row.microbatches} | {max(rank['peak_bytes'] for rank in ranks) / 2**30:.1f} "
              f"| {'no' if any(rank['fits'] == 'oom' for rank in ranks) else 'yes'} | {step / 1e6:.2f} | {row.mfu:.0%} | {told['mfu']:.1%} | "
              + " | ".join(f"{part:.0%}" for part in parts) + f" | {compiled:.0f} | {priced:.0f} |", flush=True)


if __name__ == "__main__":
    main()
