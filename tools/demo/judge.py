"""Says what the demo's logs show: whether the model learned, and whether two runs are the same.

    python judge.py learned corpus.txt log.jsonl     the last losses against the unigram entropy of the text
    python judge.py same local.jsonl mpi.jsonl       the losses of the shorter log equal the other's, bit by bit
"""
from __future__ import annotations

import collections
import json
import math
import pathlib
import sys


def losses(log: str) -> list[float]:
    rows = (json.loads(line) for line in pathlib.Path(log).read_text().splitlines())
    return [row["loss"] for row in rows if "loss" in row]


def unigram_entropy(text: bytes) -> float:
    """Nats per byte of a model that knows how often each byte occurs and nothing else."""
    counts = collections.Counter(text)
    return -sum(n / len(text) * math.log(n / len(text)) for n in counts.values())


def learned(corpus: str, log: str) -> int:
    entropy, values = unigram_entropy(pathlib.Path(corpus).read_bytes()), losses(log)
    last = values[-max(1, min(10, len(values) // 10)):]
    loss = sum(last) / len(last)
    print(f"loss of step 1: {values[0]:.3f}; mean of the last {len(last)} of {len(values)} steps: {loss:.3f} nats a byte; "
          f"unigram entropy of the text: {entropy:.3f}")
    if loss < entropy:
        return 0
    print("the loss did not fall below the unigram entropy: the model learned nothing but how often each byte occurs",
          file=sys.stderr)
    return 1


def same(one: str, other: str) -> int:
    a, b = losses(one), losses(other)
    steps = min(len(a), len(b))
    different = [i for i in range(steps) if a[i] != b[i]]
    if steps and not different:
        print(f"{steps} losses are the same bits: {', '.join(f'{x:.6f}' for x in b[:steps])}")
        return 0
    where = f"step {different[0] + 1}: {a[different[0]]!r} and {b[different[0]]!r}" if different else "no losses in a log"
    print(f"the runs differ: {where}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    commands = {"learned": learned, "same": same}
    if len(sys.argv) != 4 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    sys.exit(commands[sys.argv[1]](*sys.argv[2:]))
