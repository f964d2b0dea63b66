#!/usr/bin/env python3
"""Small models in the style of what people write train as in PyTorch on one process, however the batch is cut, or are refused with a code.

  what_people_write.py --bin BIN --work DIR [--only WORD] [--all]

Each model is exported and compiled under its strategies; three steps of SGD are compared with PyTorch's. `forms` of a case are numbers
of microbatches, 8 being pieces of one sample, or whole strategies; `refused` maps a form to the code that it must be refused with, and
an empty map means that it trains in every form. Every case has two microbatches and pieces of one sample from the first of its
containers, those that are `spread` also the other container and replicas; --all has every form from both.
"""
import argparse
import json
import logging
import pathlib
import sys
import warnings

import torch
from safetensors.torch import save_file

import harness
import people_losses
import people_models
import piper_export
from people_losses import BATCH, LR, REPLICAS, STEPS, TwoLayers, family

CASES = people_losses.LOSSES | people_models.MODELS


def strategy(form):
    if isinstance(form, str):
        return form
    split = f"directives:\n  - {{op: split, num_microbatches: {form}}}\n" if form > 1 else ""
    return f"piper: 1\nmodel: {{batch: {BATCH}}}\n{split}optimizer: {{sgd: {{lr: {LR}}}}}\n"


def made(case):
    torch.manual_seed(1)
    return (case.model or TwoLayers)(case)


def trained_by_torch(case, data):
    module = made(case)
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=LR)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = module(**{k: v[step * BATCH:(step + 1) * BATCH] for k, v in data.items()})
        if loss.requires_grad:
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    return losses


def logged(folder):
    return [json.loads(line)["loss"] for line in (folder / "log.jsonl").read_text().splitlines() if '"loss":' in line]


def outcome(bench, model, form, wanted):
    """"right", the code of a refusal, or what is wrong."""
    folder = bench.work
    (folder / "s.yaml").write_text(strategy(form))
    code, text = bench.end_of([bench.bin / "piperc", model, "--strategy", folder / "s.yaml", "-o", folder / "plans"])
    if code == 1:
        return next((word[:5] for word in text.split("error[")[1:]), text)
    if code:
        return f"piperc exits with {code}: {text}"
    code, text = bench.end_of([bench.bin / "piper-run", folder / "plans", "--data", folder / "data.safetensors", "--steps", STEPS,
                               "--log", folder / "log.jsonl", "--threads", 1])
    if code:
        return f"piper-run exits with {code}: {text}"
    losses = logged(folder)
    if wanted is None:
        return "right" if len(losses) == STEPS and all(0 < loss < 10 for loss in losses) else f"losses {losses}"
    near = len(losses) == STEPS and all(abs(a - b) <= 2e-5 * abs(b) + 1e-6 for a, b in zip(losses, wanted))
    return "right" if near else f"losses {losses}, of PyTorch {wanted}"


def exported(bench, name, case, kind, data):
    """The exporter's own check of what it wrote is another test's (export_checks.py)."""
    def write(path):
        piper_export.export(made(case), {k: v[:6].clone() for k, v in data.items()}, path, check=False)
    return bench.exported_once(f"people_{name}.{kind}", [people_losses, people_models], {"case": name}, write)


def containers(case, every):
    return case.kinds if every or case.spread else case.kinds[:1]


def forms(case, every):
    if every:
        return case.forms + ((REPLICAS, family("1f1b"), family("gpipe", 8)) if case.spread else ())
    some = tuple(form for form in case.forms if form in (2, 8) or isinstance(form, str) or case.own_masks) or case.forms
    return some + ((REPLICAS,) if case.spread else ())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    bench = harness.Bench(args.bin, args.work)
    faults, runs = [], 0
    for name, case in CASES.items():
        if args.only not in name:
            continue
        torch.manual_seed(0)
        data = case.data(STEPS * BATCH)
        save_file({k: v.contiguous() for k, v in data.items()}, bench.work / "data.safetensors")
        wanted_of_torch = None if case.own_masks else trained_by_torch(case, data)
        for kind in containers(case, args.all):
            wanted = wanted_of_torch
            model = exported(bench, name, case, kind, data)
            for form in forms(case, args.all):
                runs += 1
                found, expected = outcome(bench, model, form, wanted), case.refused.get(form, "right")
                wanted = wanted or logged(bench.work)
                if found != expected:
                    faults.append(f"{name}, {kind}, {form}: {found}, expected {expected}")
                    print("FAILED", faults[-1], flush=True)
    print(f"{runs} runs, {len(faults)} not as expected")
    sys.exit(1 if faults or not runs else 0)


if __name__ == "__main__":
    main()
