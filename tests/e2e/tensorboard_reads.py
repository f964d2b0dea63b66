#!/usr/bin/env python3
"""TensorBoard's own reader finds in the event files what the log says: also where a run went on from a checkpoint.

  tensorboard_reads.py --bin BIN --work DIR
"""
import argparse
import json
import math
import shutil
import sys

import numpy
from tensorboard.backend.event_processing import event_accumulator

import harness

TAGS = {"loss": "loss", "learning_rate": "lr", "grad_norm": "grad_norm", "speed/step_ms": "step_ms", "speed/data_wait_s": "data_wait",
        "speed/samples_per_s": "samples_per_s", "speed/tokens_per_s": "tokens_per_s", "speed/mfu": "mfu", "loss_scale": "loss_scale", "loss_spikes": "loss_spikes", "skipped_steps": "skipped"}


def value_of(row, tag):
    """What the log says where TensorBoard has `tag`; None: nothing."""
    group = tag.removeprefix("grad_norm/")
    return row.get(TAGS[tag]) if tag in TAGS else row.get("grad_norms", {}).get(group)


def faults_of(folder, log):
    """What TensorBoard reads otherwise than the log has it."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    rows = [row for row in lines if "loss" in row]
    events = event_accumulator.EventAccumulator(str(folder), purge_orphaned_data=True)
    events.Reload()
    found, faults = set(events.Tags()["scalars"]), []
    by_rank = {tag for tag in found if tag.startswith("speed/step_ms_by_rank/")}
    if by_rank != {f"speed/step_ms_by_rank/{rank}" for rank in range(2)}:
        faults.append(f"step times of ranks are {sorted(by_rank)}")
    found -= by_rank
    peaks = {f"memory/peak_mib_by_rank/{rank}": peak / 2**20 for rank, peak in enumerate(lines[-1]["summary"]["peak_memory_bytes"])}
    told = {tag: events.Scalars(tag)[-1] for tag in found if tag.startswith("memory/")}
    if told.keys() != peaks.keys() or any(
            scalar.step != rows[-1]["step"] or not math.isclose(scalar.value, peaks[tag], rel_tol=1e-6) for tag, scalar in told.items()):
        faults.append(f"memory by rank is {told} instead of {peaks}")
    found -= told.keys()
    wanted = {tag for tag in [*TAGS, *(f"grad_norm/{group}" for group in rows[0]["grad_norms"])] if value_of(rows[0], tag) is not None}
    if found != wanted:
        faults.append(f"tags {sorted(found)} instead of {sorted(wanted)}")
    for tag in found & wanted:
        scalars = events.Scalars(tag)
        if [scalar.step for scalar in scalars] != [row["step"] for row in rows]:
            faults.append(f"{tag} is of steps {[scalar.step for scalar in scalars]}")
        for scalar, row in zip(scalars, rows):
            # What is measured has six digits in the log.
            exact = numpy.float32(scalar.value) == numpy.float32(value_of(row, tag))
            if not (exact or (tag.startswith("speed/") and math.isclose(scalar.value, value_of(row, tag), rel_tol=1e-5))):
                faults.append(f"{tag} of step {row['step']} is {scalar.value} instead of {value_of(row, tag)}")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    args = parser.parse_args()
    bench = harness.Bench(args.bin, args.work)
    text = harness.strategy_text("gpt_dropout", "pp2_1f1b", "adamw").replace("adamw: {", 'adamw: {no_decay: ["*.bias"], ')
    text += "clip_grad_norm: 1.0\n"
    text += "precision: {compute: f16, loss_scale: dynamic}\n"
    plans = bench.compile("gpt_dropout", text, "tensorboard")
    folder, checkpoints, log = (bench.work / name for name in ("events", "events.checkpoints", "events.jsonl"))
    for old in (folder, checkpoints):
        shutil.rmtree(old, ignore_errors=True)

    def run(*flags):
        bench.call([str(word) for word in [bench.bin / "piper-run", plans, "--data", bench.work / "gpt_dropout.safetensors",
                                           "--threads", 1, "--peak-flops", 1e9, "--log", log, "--tensorboard", folder, *flags]])

    run("--steps", 5, "--checkpoint", checkpoints, "--every", 3)
    faults = faults_of(folder, log)
    run("--steps", 7, "--checkpoint", checkpoints, "--resume=exact:3")
    faults += faults_of(folder, log)
    if len(list(folder.iterdir())) != 2:
        faults.append(f"not two event files: {sorted(folder.iterdir())}")
    print("\n".join(faults) or "ok")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
