#!/usr/bin/env python3
"""What fits a GPU: for each strategy of Llama 8B at 8,192 tokens the largest microbatch with nothing recomputed and with every layer
recomputed, and with one sample a microbatch the fewest layers whose forwards are repeated.

  what_fits.py --bin build/release/bin --work DIR [--with BIN] [--gigabytes 80]

Computation in bf16, masters and moments in f32. A plan fits where every rank's peak, as its manifest says it, is at most so many gigabytes
(10^9 bytes). Layers are repeated from the first of each stage on, as many of every stage; --with prints the same of another build beside it.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import real_sizes

MODEL, TOKENS, LAYERS = "llama_8b", 8192, 32
# Ranks, stages, replicas, what these divide. Stages work on twice as many microbatches as there are stages.
ROWS = {"zero3 x 8": (1, 8, "shard_params"), "4 stages, zero1 x 2": (4, 2, "shard_optimizer"), "8 stages": (8, 1, None),
        "zero3 x 32": (1, 32, "shard_params"), "4 stages, zero1 x 8": (4, 8, "shard_optimizer"), "8 stages, zero1 x 4": (8, 4, "shard_optimizer")}


def strategy(row, samples, repeated):
    stages, replicas, divided = ROWS[row]
    microbatches = 2 * stages if stages > 1 else 1
    each = LAYERS // stages
    lines = ["piper: 1", f"model: {{batch: {samples * replicas * microbatches}}}", "precision: {compute: bf16, master: f32}", "annotate:"]
    if stages > 1:
        lines.append(f"  - {{tag: PP, starts: {json.dumps([f'net.model.layers.{s * each}' for s in range(stages)])}}}")
    lines += ['  - {tag: L, modules: ["net.model.layers.*"]}', "directives:"]
    for stage in range(stages):
        devices = list(range(stage * replicas, (stage + 1) * replicas))
        where = f"{{PP: {stage}}}" if stages > 1 else "{}"
        lines.append(f"  - {{op: place, filter: {where}, devices: {devices}}}")
        if replicas > 1:
            lines.append(f"  - {{op: replicate, filter: {where}, devices: {devices}, {divided}: true, bucket_size: 200}}")
    again = [stage * each + layer for stage in range(stages) for layer in range(repeated)]
    lines += [f"  - {{op: recompute, filter: {{L: {again}}}}}"] if again else []
    lines += [f"schedule: {{family: 1f1b, microbatches: {microbatches}}}"] if stages > 1 else []
    return "\n".join([*lines, "optimizer: {adamw: {lr: 0.0003}}", ""])


def peak(binary, work, text):
    """Bytes of the fullest rank."""
    (work / "s.yaml").write_text(text)
    with tempfile.TemporaryDirectory(dir=work) as plans:
        command = [binary / "piperc", work / f"{MODEL}_{TOKENS}.pt2", "--strategy", work / "s.yaml", "-o", plans, "--weights", "none", "--device", "cuda"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        return max(rank["peak_bytes"] for rank in json.loads((pathlib.Path(plans) / "manifest.json").read_text())["ranks"])


def least(fits, numbers):
    """The first of the ascending numbers that fits, where all after it do; None: none."""
    low, high = 0, len(numbers)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(numbers[middle]) else (middle + 1, high)
    return numbers[low] if low < len(numbers) else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--with", dest="other", type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--gigabytes", type=float, default=80)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    if not (args.work / f"{MODEL}_{TOKENS}.pt2").exists():
        model = real_sizes.MODELS[MODEL]
        real_sizes.export(model, real_sizes.config_of(model, TOKENS, None), TOKENS, args.work / f"{MODEL}_{TOKENS}.pt2")
    limit = args.gigabytes * 1e9
    print("| strategy | one sample, nothing repeated | largest microbatch, nothing repeated | largest microbatch, all layers repeated | layers repeated of a stage, one sample |\n|---|---|---|---|---|")
    for row, (stages, _, _) in ROWS.items():
        cells = [[], [], [], []]
        for binary in filter(None, (args.other, args.bin)):
            whole = peak(binary, args.work, strategy(row, 1, 0))
            largest = [least(lambda n: peak(binary, args.work, strategy(row, n + 1, again)) > limit, list(range(64)))
                       for again in (0, LAYERS // stages)]
            layers = list(range(LAYERS // stages + 1))
            fewest = least(lambda n: peak(binary, args.work, strategy(row, 1, n)) <= limit, layers)
            cells[0].append(f"{whole / 1e9:.1f} GB")
            for cell, samples in zip(cells[1:], largest):
                cell.append(str(samples or "none"))
            cells[3].append(f"more than {layers[-1]}" if fewest is None else f"{fewest} of {layers[-1]}")
        print(f"| {row} | " + " | ".join(" -> ".join(values) for values in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
