#!/usr/bin/env python3
"""How long `piper-plan verify` takes, paired with another build of piper: the 1,024 ranks of a GPT (16 stages of 64 replicas, 64
microbatches) and the pipeline with three mixtures a stage of compile_experts.py.

  proof_time.py --bin build/release/bin --before OTHER/bin --work DIR [--rounds 15]

Each build proves what it has compiled itself, in turn; ratios are of the two runs of one round, processor time and wall time. Where a
build holds plans to the model (reference.json), also without it.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

import compile_experts
import compile_time
import programs
from programs import Programs, spread

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import piper_export  # noqa: E402

STAGES, REPLICAS, MICROBATCHES = 16, 64, 64


def gpt(own):
    compile_time.STAGES = STAGES
    model = own.work / "gpt16.onnx"
    if not model.exists():
        example = compile_time.torch.randint(compile_time.VOCABULARY, (2, compile_time.SEQUENCE))
        piper_export.export(compile_time.Gpt(), {"input_ids": example, "labels": example.clone()}, model)
    return model, compile_time.strategy(MICROBATCHES, REPLICAS)


def compiled(bin_dir, own, name, model, text, *flags):
    strategy, plans = own.work / f"{name}.yaml", own.work / f"{name}.plans"
    strategy.write_text(text)
    subprocess.run([bin_dir / "piperc", model, "--strategy", strategy, "--weights", "none", "-o", plans, *flags], check=True, capture_output=True)
    return plans


def verify(bin_dir, plans):
    """(processor, wall) seconds."""
    began = time.perf_counter()
    process = subprocess.Popen([bin_dir / "piper-plan", "verify", plans], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{plans} is refused")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--before", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    own, before = Programs(args.bin, args.work), pathlib.Path(args.before).resolve()
    cases = {"1,024 ranks": gpt(own),
             "three mixtures a stage": (own.model("experts_three_a_stage"), compile_experts.strategy(8, 24, "1f1b", 32, 2))}
    print(programs.load())
    print("| plan | before, processor s | now | now / before | now / before, wall | without a reference, processor s | / before |")
    print("|---|---|---|---|---|---|---|")
    for name, (model, text) in cases.items():
        stem = name.replace(" ", "_").replace(",", "")
        plans = {"before": (before, compiled(before, own, f"{stem}.before", model, text)), "now": (own.bin, compiled(own.bin, own, stem, model, text)),
                 "alone": (own.bin, compiled(own.bin, own, f"{stem}.alone", model, text, "--reference=none"))}
        times = {kind: [] for kind in plans}
        for _ in range(args.rounds):
            for kind, (bin_dir, bundle) in plans.items():
                times[kind].append(verify(bin_dir, bundle))
        processor = {kind: [t[0] for t in times[kind]] for kind in times}

        def ratio(kind, clock):
            return statistics.median(a[clock] / b[clock] for a, b in zip(times[kind], times["before"]))

        print(f"| {name} | {spread(processor['before'], '{:.3f}')} | {spread(processor['now'], '{:.3f}')} | {ratio('now', 0):.2f} | {ratio('now', 1):.2f} "
              f"| {spread(processor['alone'], '{:.3f}')} | {ratio('alone', 0):.2f} |", flush=True)
    print(programs.load())


if __name__ == "__main__":
    main()
