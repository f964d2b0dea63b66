#!/usr/bin/env python3
"""Losses that the strategy makes of a model's logits train as PyTorch's own: label smoothing, z-loss, labels that do not count.

  losses_of_strategies.py --bin BIN --work DIR

Three steps of SGD, whole, cut into microbatches, on replicas and on stages: losses within 1e-5, relative, weights within 1e-5 of their
norms. Labels that count are spread unevenly over microbatches and replicas, so that a mean of means is another number.
"""
import json

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from checks import check, faults
import harness

BATCH, STEPS, CLASSES, IGNORED, RATE = 8, 3, 7, -1, 0.5
LOSSES = {"smoothed": {"label_smoothing": 0.1}, "z": {"z_loss": 0.05}, "both": {"label_smoothing": 0.2, "z_loss": 0.01}}
FORMS = {"whole": "", "microbatches": "directives:\n  - {op: split, num_microbatches: 4}\n",
         "replicas": "directives:\n  - {op: split, num_microbatches: 2}\n  - {op: replicate, filter: {}, devices: [0, 1], shard_params: true}\n",
         "stages": "annotate: [{tag: PP, starts: [first, last]}]\nschedule: {family: 1f1b, microbatches: 4}\n"}


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 16), nn.Linear(16, CLASSES)

    def forward(self, x):
        return 3 * self.last(torch.tanh(self.first(x)))


def made(seed):
    torch.manual_seed(seed)
    return Scores()


def draw(samples):
    torch.manual_seed(7)
    labels = torch.randint(0, CLASSES, (samples, 4))
    labels[::3, 1:] = IGNORED
    labels[1::4] = IGNORED
    return {"x": torch.randn(samples, 4, 5), "labels": labels}


def loss_of(logits, labels, label_smoothing=0.0, z_loss=0.0):
    rows, flat = logits.flatten(0, 1), labels.flatten()
    loss = functional.cross_entropy(rows, flat, ignore_index=IGNORED, label_smoothing=label_smoothing)
    return loss + z_loss * torch.logsumexp(rows, -1)[flat != IGNORED].square().mean()


def reference(numbers):
    module, data, losses = made(3), draw(BATCH * STEPS), []
    rule = torch.optim.SGD(module.parameters(), RATE)
    for step in range(STEPS):
        batch = {k: v[step * BATCH:(step + 1) * BATCH] for k, v in data.items()}
        rule.zero_grad()
        loss = loss_of(module(batch["x"]), batch["labels"], **numbers)
        loss.backward()
        losses.append(loss.item())
        rule.step()
    return losses, {name: p.detach() for name, p in module.named_parameters()}


def main():
    bench = harness.bench_in_empty_folder(__doc__)
    data = bench.work / "data.safetensors"
    save_file(draw(BATCH * STEPS), data)
    model = bench.work / "scores.pt2"
    program = torch.export.export(made(3), (draw(BATCH)["x"],), dynamic_shapes=({0: torch.export.Dim("B", min=2)},))
    torch.export.save(program, model)
    logits = program.graph_signature.user_outputs[0]
    for name, numbers in LOSSES.items():
        losses, weights = reference(numbers)
        for form, more in FORMS.items():
            strategy, plans, log, saved = (bench.work / f"{name}-{form}{end}" for end in (".yaml", ".plans", ".jsonl", ".safetensors"))
            entropy = json.dumps({"logits": logits, "labels": "labels", "ignore_index": IGNORED} | numbers)
            strategy.write_text(f"piper: 1\nmodel: {{batch: {BATCH}, loss: {{cross_entropy: {entropy}}}}}\n{more}optimizer: {{sgd: {{lr: {RATE}}}}}\n")
            bench.call([bench.bin / "piperc", model, "--strategy", strategy, "-o", plans])
            bench.call([bench.bin / "piper-plan", "verify", plans])
            bench.call([bench.bin / "piper-run", plans, "--data", data, "--steps", STEPS, "--threads", 1, "--log", log, "--save", saved])
            own = [row["loss"] for row in map(json.loads, log.read_text().splitlines()) if "loss" in row]
            wrong = harness.loss_faults(own, losses, 1e-5)
            found = load_file(saved)
            wrong += [f"{n} is off" for n, wanted in weights.items() if (found[n] - wanted).norm() > 1e-5 * wanted.norm()]
            check(f"{name}, {form}", not wrong, "; ".join(wrong[:3]))
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
