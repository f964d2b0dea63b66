#!/usr/bin/env python3
"""Heads in blocks of rows train as PyTorch's own: a bias, class weights, smoothing and labels that do not count, whole and spread over ranks.

  heads_in_blocks.py --bin BIN --work DIR

Three steps of SGD in each form with three blocks a piece. In f32 losses are within 1e-5, relative, weights within 1e-5 of their norms. In
bf16, and in f16 with a loss scale, both are as near to PyTorch's f32 training as its autocast to bf16 is: 1.5 times its distance, plus
1e-3. Each bundle is proved whole, and its programs call the head and no loss of whole logits.
"""
import json

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from checks import check, faults
import harness

BATCH, STEPS, WIDTH, CLASSES, IGNORED, RATE = 8, 3, 16, 50, -1, 0.5
HEADS = {"plain": {}, "bias": {"bias": True}, "weights": {"weights": True}, "all": {"bias": True, "weights": True, "smoothing": 0.1}}
PRECISIONS = {"f32": "", "bf16": "precision: {compute: bf16}\n", "f16": "precision: {compute: f16, loss_scale: 1024}\n"}
FORMS = {"whole": "", "microbatches": "directives:\n  - {op: split, num_microbatches: 4}\n",
         "replicas": "directives:\n  - {op: split, num_microbatches: 2}\n  - {op: replicate, filter: {}, devices: [0, 1], shard_params: true}\n",
         "stages": "annotate: [{tag: PP, starts: [first, last]}]\nschedule: {family: 1f1b, microbatches: 4}\n",
         "halves": "annotate: [{tag: PP, starts: [first, last]}]\nschedule: {family: zero_bubble, microbatches: 4}\n"}


class Words(nn.Module):
    def __init__(self, bias=False, weights=False, smoothing=0.0):
        super().__init__()
        self.first, self.last, self.smoothing = nn.Linear(5, WIDTH), nn.Linear(WIDTH, CLASSES, bias=bias), smoothing
        if weights:
            self.register_buffer("weights", torch.linspace(0.5, 2, CLASSES))

    def forward(self, x, labels):
        logits = self.last(torch.tanh(self.first(x)) * 6)
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), weight=getattr(self, "weights", None), ignore_index=IGNORED,
                                        label_smoothing=self.smoothing)


def made(head):
    torch.manual_seed(3)
    return Words(**head)


def draw(samples):
    torch.manual_seed(7)
    labels = torch.randint(0, CLASSES, (samples, 4))
    labels[::3, 1:] = IGNORED
    labels[1::4] = IGNORED
    return {"x": torch.randn(samples, 4, 5), "labels": labels}


def reference(head, autocast=False):
    module, data, losses = made(head), draw(BATCH * STEPS), []
    rule = torch.optim.SGD(module.parameters(), RATE)
    for step in range(STEPS):
        batch = {k: v[step * BATCH:(step + 1) * BATCH] for k, v in data.items()}
        rule.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            loss = module(**batch)
        loss.backward()
        losses.append(loss.item())
        rule.step()
    return losses, {name: p.detach() for name, p in module.named_parameters()}


def distances(losses, weights, exact):
    """From PyTorch's f32 training: of the losses the root mean square, of each parameter relative to its norm."""
    found = {"losses": (sum((a - b) ** 2 for a, b in zip(losses, exact[0])) / STEPS) ** 0.5}
    return found | {name: ((weights[name] - wanted).norm() / wanted.norm()).item() for name, wanted in exact[1].items()}


def main():
    bench = harness.bench_in_empty_folder(__doc__)
    data = bench.work / "data.safetensors"
    save_file(draw(BATCH * STEPS), data)
    for name, head in HEADS.items():
        model = bench.work / f"{name}.pt2"
        torch.export.save(torch.export.export(made(head), tuple(draw(BATCH).values()), dynamic_shapes=({0: torch.export.Dim("B", min=2)},) * 2), model)
        exact = reference(head)
        autocast = distances(*reference(head, autocast=True), exact)
        for form, more in FORMS.items():
            for precision, compute in PRECISIONS.items():
                tag = f"{name}-{form}-{precision}"
                strategy, plans, log, saved = (bench.work / f"{tag}{end}" for end in (".yaml", ".plans", ".jsonl", ".safetensors"))
                strategy.write_text(f"piper: 1\nmodel: {{batch: {BATCH}}}\nhead: {{blocks: 3}}\n{more}{compute}optimizer: {{sgd: {{lr: {RATE}}}}}\n")
                bench.call([bench.bin / "piperc", model, "--strategy", strategy, "-o", plans])
                proved = bench.call([bench.bin / "piper-plan", "verify", plans])
                bench.call([bench.bin / "piper-run", plans, "--data", data, "--steps", STEPS, "--threads", 1, "--log", log, "--save", saved])
                own = [row["loss"] for row in map(json.loads, log.read_text().splitlines()) if "loss" in row]
                programs = "".join(path.read_text() for path in plans.rglob("*.json"))
                wrong = [] if "linear_cross_entropy" in programs else ["no head in blocks"]
                if "equality with the model: proved" not in proved:
                    wrong.append("not proved")
                limits = dict.fromkeys(autocast, 1e-5) if precision == "f32" else {k: 1.5 * far + 1e-3 for k, far in autocast.items()}
                for of, far in distances(own, load_file(saved), exact).items():
                    if not far <= limits[of]:
                        wrong.append(f"{of} {far:.2e} from f32, at most {limits[of]:.2e}")
                check(tag, not wrong, "; ".join(wrong[:3]))
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
