#!/usr/bin/env python3
"""Every file in strategies/ compiles and trains: under `local`, mpirun and piper-launch, as one device does.

  strategies_train.py --bin BIN --work DIR --strategies DIR [--only NAME]... [--launch LAUNCHER]... [--launched NAME,...]

The model is the tests' GPT, with mixtures of experts where the file shards them. Each file runs with its own optimizer, and with
SGD in its place: AdamW hides a gradient of the wrong scale. Losses of 10 steps agree with PyTorch's own loop to 1e-5 (1e-6 at the first step), gradients of the first step
to 1e-5 of their norm, and each launcher gives the same bits, of losses and of weights. With --launched only these files are launched, with their own
optimizer: what processes exchange depends on the plan's communication, of which few files show every kind.
"""
import argparse
import json
import pathlib
import re
import shutil
import sys

import torch

import harness
import zoo

STEPS = 10


SGD = {"lr": 0.05, "momentum": 0.9}


def model_of(path):
    """The tests' model for a strategy file."""
    text = path.read_text()
    shards, of_places = (len(re.findall(pattern, text)) for pattern in (r'op"?: "?shard', r'dim"?: "?(column|sequence|vocabulary)'))
    return "moe_dense" if shards > of_places else "gpt"


def with_optimizer(sets, sgd):
    """The values of --set for a run with the file's own optimizer, or with SGD."""
    return [*sets, f"optimizer={json.dumps({'sgd': SGD})}"] if sgd else list(sets)


def reference(model, data, batch, clip, factor, sgd):
    """PyTorch on one process, with the optimizer that the files share, or SGD: losses, gradients of step 1."""
    torch.set_num_threads(1)
    module = zoo.build(model)
    if sgd:
        rule = torch.optim.SGD(module.parameters(), foreach=False, **SGD)
    else:
        plain = [p for n, p in module.named_parameters() if not (n.endswith(".bias") or "ln" in n)]
        rest = [p for n, p in module.named_parameters() if n.endswith(".bias") or "ln" in n]
        rule = torch.optim.AdamW([{"params": plain}, {"params": rest, "weight_decay": 0.0}], lr=3e-4, betas=(0.9, 0.95),
                                 weight_decay=0.1, foreach=False)
    base = rule.param_groups[0]["lr"]
    losses, gradients = [], {}
    for step in range(STEPS):
        for group in rule.param_groups:
            group["lr"] = base * factor(step + 1)
        rule.zero_grad()
        loss = module(**{k: v[step * batch:(step + 1) * batch] for k, v in data.items()})
        loss.backward()
        if step == 0:
            gradients = {n: p.grad.detach().clone() for n, p in module.named_parameters()}
        if clip:
            torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
        rule.step()
        losses.append(loss.item())
    return losses, gradients


def faults_of(bench, name, path, sets, sgd, launchers=("mpirun",)):
    """What is wrong with one strategy, and the number of its ranks."""
    from safetensors.torch import save_file
    model = model_of(path)
    plans = bench.work / f"{name}{'.sgd' if sgd else ''}.plans"
    bench.call([bench.bin / "piperc", bench.exported(model), "--strategy", path, "-o", plans,
                *(f for s in with_optimizer(sets, sgd) for f in ("--set", s))])
    manifest = json.loads((plans / "manifest.json").read_text())
    batch, world = manifest["batch"], manifest["world_size"]
    data = zoo.draw(model, batch * STEPS)
    save_file(data, bench.work / f"{model}.safetensors")
    clip = manifest.get("clip_grad_norm") or 0
    # The files that warm up do so over 20 steps, longer than this test runs.
    warmup = manifest.get("lr_schedule", {}).get("warmup", 0)
    losses, gradients = reference(model, data, batch, clip, lambda step: step / warmup if warmup else 1.0, sgd)
    result = bench.run(plans, model, world, "local", STEPS)
    faults = harness.loss_faults(result.losses, losses, 1e-5) + harness.gradient_faults(result.gradients, gradients)
    for launcher in launchers if world > 1 else ():
        if launcher == "mpirun" and not shutil.which("mpirun"):
            continue
        launched = bench.run(plans, model, world, launcher, STEPS)
        if launched.losses != result.losses or any(not torch.equal(w, result.weights[n]) for n, w in launched.weights.items()):
            faults.append(f"local and {launcher} differ")
    return faults, world


def train(bench, strategies, launchers=("mpirun",), launched=None):
    """Every (name, path, sets) with both optimizers, of which those of `launched` are launched, all where it is None; how many are wrong."""
    failed = 0
    unknown = set(launched or ()) - {name for name, *_ in strategies}
    if unknown:
        raise SystemExit(f"nothing to launch: {sorted(unknown)}")
    for name, path, sets in strategies:
        for sgd in (False, True):
            chosen = launchers if launched is None or (name in launched and not sgd) else ()
            faults, world = faults_of(bench, name, path, sets, sgd, chosen)
            print(f"{'FAILED' if faults else 'ok    '} {name} ({world} ranks{', SGD' if sgd else ''})"
                  + (f": {faults[0]}" if faults else ""), flush=True)
            failed += bool(faults)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--strategies", required=True, type=pathlib.Path)
    parser.add_argument("--only", action="append", help="a file's name without .yaml")
    parser.add_argument("--launch", action="append", choices=("mpirun", "piper-launch"), help="default: mpirun where it is")
    parser.add_argument("--launched", type=lambda names: names.split(","))
    args = parser.parse_args()
    bench = harness.Bench(args.bin, args.work)
    paths = [p for p in sorted(args.strategies.glob("*.yaml")) if not args.only or p.stem in args.only]
    failed = train(bench, [(path.stem, path, []) for path in paths], args.launch or ["mpirun"], args.launched)
    sys.exit(1 if failed or not paths else 0)


if __name__ == "__main__":
    main()
