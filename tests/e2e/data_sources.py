#!/usr/bin/env python3
"""Two weighted token files and a folder train a model that takes positions and documents, to the losses of PyTorch on samples
that this file computes from the formulas of docs/data.md; a run that goes on under another number of microbatches,
another strategy or another batch reads the samples that follow; another mix is refused.

  data_sources.py --bin BIN --work DIR
"""
import array
import functools
import json
import math
import random
import shutil
import subprocess
import sys

import numpy
import torch
from torch import nn

from checks import check, faults
import harness
import philox

TOKENS, VOCABULARY, END, BATCH, STEPS, SEED = 8, 41, 0, 8, 12, 23
WEIGHTS = [3, 1, 0.5]


# ------------------------------------------------------------------ which samples a run reads
def philox4x32(counter, key):
    return [int(word) for word in philox.philox4x32_10(numpy.array(counter, numpy.uint64), (key & 0xFFFFFFFF, key >> 32))]


def bits64(seed, purpose, a, b=0):
    out = philox4x32([purpose, a & 0xFFFFFFFF, b, a >> 32], seed)
    return out[0] | out[1] << 32


def drawn(weights, seed, n):
    """The source of sample n, and how many samples of it come before."""
    exponent = math.frexp(max(weights))[1]
    whole = [max(1, int(math.ldexp(w, 40 - exponent))) for w in weights]
    lo, hi = 0, len(weights)
    while hi - lo > 1:
        middle = (lo + hi) // 2
        left, all_of_it = sum(whole[lo:middle]), sum(whole[lo:hi])
        phase = bits64(seed, 3, middle) % all_of_it
        before, behind = ((m * left + phase) // all_of_it for m in (n, n + 1))
        lo, hi, n = (lo, middle, before) if behind > before else (middle, hi, n - before)
    return lo, n


def permuted(seed, epoch, count, position):
    """runtime/data/permutation.h."""
    bits = (count - 1).bit_length()
    low_bits = bits - bits // 2
    value, first = position, True
    while first or value >= count:
        first = False
        low, high = value & (1 << low_bits) - 1, value >> low_bits
        for r in range(0, 32 if bits <= 16 else 12, 2):
            low ^= philox4x32([2 | r << 16, epoch & 0xFFFFFFFF, high, epoch >> 32], seed)[0] & (1 << low_bits) - 1
            high ^= philox4x32([2 | (r + 1) << 16, epoch & 0xFFFFFFFF, low, epoch >> 32], seed)[0] & (1 << bits // 2) - 1
        value = high << low_bits | low
    return value


class Sources:
    """Streams cut into samples; a source is a list of them."""

    def __init__(self, sources, weights=WEIGHTS):
        self.weights = weights
        self.sources = [[stream[i:i + TOKENS + 1] for stream in streams for i in range(0, len(stream) - TOKENS, TOKENS)]
                        for streams in sources]

    @classmethod
    def of_same_files(cls, sources, weights):
        made = cls([], weights)
        made.sources = sources.sources
        return made

    @functools.cache
    def sample(self, n):
        """(identity, tokens) of the run's sample n."""
        source, k = drawn(self.weights, SEED, n)
        count = len(self.sources[source])
        at = permuted(bits64(SEED, 4, source), k // count, count, k % count)
        return sum(map(len, self.sources[:source])) + at, self.sources[source][at]

    def fingerprint(self, first, count):
        digest = 0
        for j in range(count):
            identity = self.sample(first + j)[0]
            out = philox4x32([identity, 0, digest & 0xFFFFFFFF, digest >> 32], j)
            digest = out[0] | out[1] << 32
        return f"{digest:016x}"

    def batch(self, first, count):
        inputs = {name: [] for name in ("tokens", "positions", "documents", "labels")}
        for j in range(count):
            tokens = self.sample(first + j)[1]
            positions, documents = [], []
            for i in range(TOKENS):
                ended = i > 0 and tokens[i - 1] == END
                positions.append(0 if i == 0 or ended else positions[-1] + 1)
                documents.append(0 if i == 0 else documents[-1] + ended)
            for name, values in zip(inputs, (tokens[:-1], positions, documents, tokens[1:])):
                inputs[name].append(list(values))
        return {name: torch.tensor(values) for name, values in inputs.items()}


# ------------------------------------------------------------------ the model
class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.wte, self.wpe, self.wde = (nn.Embedding(rows, 32) for rows in (VOCABULARY, TOKENS, TOKENS))
        self.first, self.second = nn.Linear(32, 64), nn.Linear(64, VOCABULARY)

    def forward(self, tokens, positions, documents, labels):
        x = self.wte(tokens) + 3 * self.wpe(positions) - 2 * self.wde(documents)
        return nn.functional.cross_entropy(self.second(torch.tanh(self.first(x))).flatten(0, 1), labels.flatten())


def torch_losses(batches, momentum=0):
    model = Packed()
    rule = torch.optim.SGD(model.parameters(), lr=0.2, momentum=momentum)
    losses = []
    for batch in batches:
        rule.zero_grad(set_to_none=True)
        loss = model(**batch)
        loss.backward()
        rule.step()
        losses.append(loss.item())
    return losses


def strategy(work, more="", batch=BATCH, weights=WEIGHTS, momentum=0):
    """A bundle without weights and without data, which the command line names."""
    paths = [work / "web.bin", work / "code.bin", work / "books"]
    data = "  data:\n" * bool(weights) + "".join(f"    - {{path: \"{path}\", weight: {weight}}}\n" for path, weight in zip(paths, weights))
    return (f"piper: 1\nmodel:\n  batch: {batch}\n"
            "  inputs: {tokens: tokens, positions: positions, documents: documents, labels: next_tokens}\n"
            f"optimizer: {{sgd: {{lr: 0.2, momentum: {momentum}}}}}\nrun:\n  seed: {SEED}\n  document_end: {END}\n{data}{more}")


MICROBATCHES = "directives:\n  - {op: split, num_microbatches: 4}\n"
REPLICAS = "directives:\n  - {op: place, filter: {}, devices: [0, 1]}\n  - {op: replicate, filter: {}, devices: [0, 1]}\n"
PIPELINE = """annotate:
  - {tag: PP, starts: ["wte", "second"]}
directives:
  - {op: place, filter: {PP: 0}, devices: [0]}
  - {op: place, filter: {PP: 1}, devices: [1]}
schedule: {family: 1f1b, microbatches: 2}
"""


def write_data(work):
    draw = random.Random(1)

    def write(path, count):
        tokens = [END if draw.random() < 0.2 else draw.randrange(1, VOCABULARY) for _ in range(count)]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(array.array("H", tokens).tobytes())
        return tokens
    # In the byte-wise order of names, a capital letter comes before a small one.
    books = [write(work / "books" / name, count) for name, count in (("B.bin", 45), ("a.bin", 60), ("short.bin", TOKENS), ("z.bin", 17))]
    return Sources([[write(work / "web.bin", 331)], [write(work / "code.bin", 100)], books])


def main():
    bench = harness.bench_in_empty_folder(__doc__)
    work = bench.work
    sources = write_data(work)
    example = sources.batch(0, BATCH)
    model = bench.export(Packed(), example, "packed.onnx")

    def compiled(name, *text, **options):
        (work / f"{name}.yaml").write_text(strategy(work, *text, **options))
        bench.call([bench.bin / "piperc", model, "--strategy", work / f"{name}.yaml", "-o", work / name])
        return name

    def run(name, steps, *flags):
        """The log's lines of steps."""
        log = work / f"{name}.jsonl"
        log.unlink(missing_ok=True)
        bench.call([bench.bin / "piper-run", work / name, "--steps", steps, "--threads", 1, "--log", log, *flags])
        return [row for row in map(json.loads, log.read_text().splitlines()) if "loss" in row]

    def peaks(name):
        """Measured and predicted, by rank."""
        manifest = json.loads((work / name / "manifest.json").read_text())
        measured = json.loads((work / f"{name}.jsonl").read_text().splitlines()[-1])["summary"]["peak_memory_bytes"]
        return list(zip(measured, (rank["peak_bytes"] for rank in manifest["ranks"])))

    expected = [sources.fingerprint(step * BATCH, BATCH) for step in range(STEPS)]
    losses = torch_losses([sources.batch(step * BATCH, BATCH) for step in range(STEPS)])
    for name, text in (("one", ""), ("microbatches", MICROBATCHES), ("replicas", REPLICAS), ("pipeline", PIPELINE)):
        rows = run(compiled(name, text), STEPS)
        check(f"{name}: the samples of the formulas", [row["samples_fingerprint"] for row in rows] == expected, rows)
        wrong = harness.loss_faults([row["loss"] for row in rows], losses, 1e-5)
        check(f"{name}: PyTorch's losses, positions and documents with them", not wrong, wrong)
        check(f"{name}: what is read ahead is in the predicted peak", all(a <= b for a, b in peaks(name)), peaks(name))
        check(f"{name}: the wait for data is in the log", all(0 <= row["data_wait"] <= row["step_ms"] / 1e3 for row in rows), rows)

    folder = work / "checkpoints"
    for first, later in (("one", "microbatches"), ("microbatches", "pipeline"), ("pipeline", "replicas")):
        shutil.rmtree(folder, ignore_errors=True)
        run(first, 5, "--checkpoint", folder)
        rows = run(later, STEPS, "--checkpoint", folder, "--resume")
        check(f"{later} goes on behind {first}", [row["samples_fingerprint"] for row in rows] == expected[5:], rows)
        wrong = harness.loss_faults([row["loss"] for row in rows], losses[5:], 1e-5)
        check(f"{later} goes on behind {first}: losses", not wrong, wrong)

    shutil.rmtree(folder)
    run("one", 5, "--checkpoint", folder)
    half = run(compiled("half_the_batch", batch=4), 9, "--checkpoint", folder, "--resume")
    check("half the batch goes on behind the same samples", [row["samples_fingerprint"] for row in half] == [
        sources.fingerprint(5 * BATCH + 4 * i, 4) for i in range(4)], half)

    # Samples of one file begin anywhere, drawn by step and place: twice the batch draws on, and nothing that was drawn before.
    shutil.rmtree(folder)
    one_file = ("--data", work / "web.bin")
    run(compiled("one_file", weights=[]), 6, *one_file, "--checkpoint", folder)
    twice = compiled("one_file_twice_the_batch", weights=[], batch=2 * BATCH)
    drawn_anew = [row["samples_fingerprint"] for row in run(twice, 9, *one_file)]
    drawn_on = [row["samples_fingerprint"] for row in run(twice, 9, *one_file, "--checkpoint", folder, "--resume")]
    check("twice the batch of one file draws on", drawn_on == drawn_anew[6:], f"{drawn_on} {drawn_anew}")

    shutil.rmtree(folder)
    run("one", 5, "--checkpoint", folder)
    compiled("other_weights", weights=[3, 1, 0.25])
    done = subprocess.run([bench.bin / "piper-run", work / "other_weights", "--steps", "20", "--checkpoint", folder, "--resume"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check("another mix is another data set", done.returncode == 84 and "R0703" in done.stdout and "--new-data" in done.stdout, f"{done.returncode} {done.stdout}")
    # With the word for it weights, moments and the number of samples are kept; what follows is the other mix's from that number on.
    shutil.rmtree(folder)
    other = Sources.of_same_files(sources, [3, 1, 0.25])
    run(compiled("momentum", momentum=0.9), 5, "--checkpoint", folder)
    rows = run(compiled("momentum_other_weights", PIPELINE, weights=other.weights, momentum=0.9), 8, "--checkpoint", folder, "--resume",
               "--new-data")
    rows += run("momentum_other_weights", 10, "--checkpoint", folder, "--resume")
    check("--new-data goes on with another mix, and again without the word", [row["samples_fingerprint"] for row in rows] == [
        other.fingerprint(step * BATCH, BATCH) for step in range(5, 10)], rows)
    batches = [(sources if step < 5 else other).batch(step * BATCH, BATCH) for step in range(10)]
    wrong = harness.loss_faults([row["loss"] for row in rows], torch_losses(batches, 0.9)[5:], 1e-5)
    check("--new-data keeps weights and moments", not wrong, wrong)
    rows = run("momentum", 12, "--data", work / "web.bin", "--checkpoint", folder, "--resume", "--new-data")
    check("--new-data goes on with one file", len(rows) == 2 and rows[0]["samples_fingerprint"] != other.fingerprint(10 * BATCH, BATCH), rows)
    done = subprocess.run([bench.bin / "piper-run", work / "momentum", "--new-data"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check("--new-data is for --resume", done.returncode == 2 and "--resume" in done.stdout, f"{done.returncode} {done.stdout}")
    done = subprocess.run([bench.bin / "piper-plan", "diff", work / "one", work / "other_weights", "--exit-code"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check("piper-plan diff shows the weights", done.returncode == 1 and '"weight":0.25' in done.stdout, done.stdout)

    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
