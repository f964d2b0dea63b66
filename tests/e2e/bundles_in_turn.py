#!/usr/bin/env python3
"""A batch that grows and sequences that grow: bundles in turn under one folder of checkpoints, against PyTorch doing the same.

  bundles_in_turn.py --bin BIN --work DIR

Three bundles of one model, each with AdamW: a batch of 8 on one device; 16 in two pieces on two replicas; 16 with sequences of twice the
length, as a pipeline. Each goes on from the checkpoint of the one before: losses, and weights after the last step, are PyTorch's; a bundle
begins with the sample at which the one before ended.
"""
import json
import sys

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from checks import check, faults
import harness

RATE, WIDTH = 0.02, 6
# name -> batch, tokens of a sample, steps, strategy
STAGES = {
    "small": (8, 4, 4, ""),
    "large": (16, 4, 3, "directives:\n  - {op: split, num_microbatches: 2}\n  - {op: replicate, filter: {}, devices: [0, 1]}\n"),
    "long": (16, 8, 2, "annotate:\n  - {tag: PP, starts: [first, second]}\nschedule: {family: 1f1b, microbatches: 4}\n"),
}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.first, self.second = nn.Linear(WIDTH, 12), nn.Linear(12, WIDTH)

    def forward(self, x, y):
        return nn.functional.mse_loss(self.second(torch.tanh(self.first(x).cumsum(1))), y)


def torch_training(data):
    """Losses of all steps, and the model."""
    model, seen, losses = Model(), 0, []
    rule = torch.optim.AdamW(model.parameters(), lr=RATE)
    for batch, tokens, steps, _ in STAGES.values():
        for _ in range(steps):
            rule.zero_grad()
            loss = model(**{name: value[seen:seen + batch] for name, value in data[tokens].items()})
            loss.backward()
            rule.step()
            losses.append(loss.item())
            seen += batch
    return losses, model


def main():
    bench = harness.bench_in_empty_folder(__doc__)
    work = bench.work
    torch.manual_seed(1)
    torch.set_num_threads(1)
    samples = sum(batch * steps for batch, _, steps, _ in STAGES.values())
    data = {tokens: {name: torch.randn(samples, tokens, WIDTH) for name in "xy"} for tokens in (4, 8)}
    for tokens, tensors in data.items():
        save_file(tensors, work / f"data{tokens}.safetensors")
    example = {name: value[:6] for name, value in data[4].items()}

    def write(path):
        harness.piper_export.export(Model(), example, path, dynamic={name: {1: "S"} for name in "xy"})
    model = bench.exported_once("bundles_in_turn.pt2", [sys.modules[__name__]], {}, write)
    expected, trained = torch_training(data)
    losses, end, before = [], 0, None
    for name, (batch, tokens, steps, text) in STAGES.items():
        (work / f"{name}.yaml").write_text(f"model: {{batch: {batch}, dims: {{S: {tokens}}}}}\noptimizer: {{adamw: {{lr: {RATE}, weight_decay: 0.01}}}}\n{text}")
        bench.call([bench.bin / "piperc", model, "--strategy", work / f"{name}.yaml", "-o", work / name])
        end += steps
        goes_on = [*(["--resume"] if before else []), *(["--new-data"] if before not in (None, tokens) else [])]
        log = work / f"{name}.jsonl"
        command = [bench.bin / "piper-run", work / name, "--data", work / f"data{tokens}.safetensors", "--steps", end, "--threads", 1, "--log", log,
                   "--checkpoint", work / "checkpoints", "--save", work / "weights.safetensors", *goes_on]
        if "--new-data" in goes_on:
            status, said = bench.end_of([word for word in command if word != "--new-data"])
            check("other sequences are other data", status == 84 and "R0703" in said, said[-300:])
        bench.call(command)
        losses += [row["loss"] for row in map(json.loads, log.read_text().splitlines()) if "loss" in row]
        before = tokens
    check("as many steps", len(losses) == len(expected), (len(losses), len(expected)))
    wrong = harness.loss_faults(losses, expected, 1e-5)
    check("PyTorch's losses", not wrong, wrong)
    start = dict(Model().named_parameters())
    weights = load_file(work / "weights.safetensors")
    for name, parameter in trained.named_parameters():
        changed = (parameter - start[name]).norm()
        check(f"{name}: PyTorch's weights", (weights[name] - parameter).norm() <= 1e-4 * changed, (weights[name] - parameter).norm().item())
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
