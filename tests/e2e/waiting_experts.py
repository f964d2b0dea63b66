#!/usr/bin/env python3
"""Experts whose kernels wait: both ends of every exchange have the rows of a balanced router, as the simulation has them.

  waiting_experts.py --bin BIN --work DIR --models tests/models

DualPipeV of four stages on two pairs of ranks, experts of every stage parted over its pair, links so slow that rows take most of the
step: it is over after all of its steps, none shorter than the simulated one. A step in which no rows travelled would be.
"""
import argparse
import json
import pathlib
import re
import shutil
import struct
import subprocess

STRATEGY = """piper: 1
model: {batch: 128}
annotate:
  - {tag: PP, starts: [first, mixtures.2, mixtures.4, mixtures.6]}
  - {tag: EP, modules: ["mixtures.*"]}
directives:
  - {op: replicate, filter: {PP: [0, 3]}, devices: [0, 1], shard_optimizer: true}
  - {op: replicate, filter: {PP: [1, 2]}, devices: [2, 3], shard_optimizer: true}
  - {op: shard, filter: {PP: [0, 3], EP: "*"}, devices: [0, 1]}
  - {op: shard, filter: {PP: [1, 2], EP: "*"}, devices: [2, 3]}
schedule: {family: dualpipev, microbatches: 4}
optimizer: {adamw: {lr: 1.0e-3}}
"""
STEPS, LATENCY_US, BYTES_PER_SECOND = 5, 200, 400_000


def write_samples(path, count):
    """x [count, 6] and target [count, 3] as safetensors."""
    values = {"x": 6, "target": 3}
    header, data = {}, b""
    for name, width in values.items():
        numbers = [(i * 7 % 13 - 6) / 6 for i in range(count * width)]
        header[name] = {"dtype": "F32", "shape": [count, width], "data_offsets": [len(data), len(data) + 4 * len(numbers)]}
        data += struct.pack(f"<{len(numbers)}f", *numbers)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--bin", "--work", "--models"):
        parser.add_argument(name, type=pathlib.Path, required=True)
    args = parser.parse_args()
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    strategy, plans, times, data, log = (args.work / name for name in ("s.yaml", "plans", "times.jsonl", "data.safetensors", "log.jsonl"))
    strategy.write_text(STRATEGY)
    write_samples(data, 256)

    def ran(program, *words):
        done = subprocess.run([str(args.bin / program), *map(str, words)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{program}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    ran("piperc", args.models / "routed_chain.onnx", "--strategy", strategy, "-o", plans)
    counted = sum('"send_counts"' in line for path in (plans / "ranks").iterdir() for line in path.read_text().splitlines())
    assert counted > 0, "no exchange whose rows are counted"
    ran("piper-run", plans, "--data", data, "--steps", 4, "--threads", 1, "--calibrate", times)
    said = ran("piper-plan", "simulate", plans, "--kernel-times", times, "--latency-us", LATENCY_US, "--bytes-per-second", BYTES_PER_SECOND)
    step = float(re.match(r"step: (\S+) us", said)[1]) / 1e3
    ran("piper-run", plans, "--data", data, "--steps", STEPS, "--threads", 1, "--kernel-times", times,
        "--link-delay", f"{LATENCY_US},{BYTES_PER_SECOND}", "--log", log)
    measured = [row["step_ms"] for row in map(json.loads, log.read_text().splitlines()) if "step_ms" in row]
    print(f"{counted} exchanges with counted rows; simulated {step:.1f} ms, measured", *(f"{ms:.1f}" for ms in measured))
    assert len(measured) == STEPS and min(measured[1:]) > 0.95 * step, (step, measured)


if __name__ == "__main__":
    main()
