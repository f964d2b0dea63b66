#!/usr/bin/env python3
"""Every file in strategies/ compiles and trains: under `local` and under mpirun, to the losses of one device.

  strategies_train.py --bin BIN --work DIR --strategies DIR

The model is the tests' GPT; its batch is overridden to the file's. Losses of 10 steps agree with PyTorch's own loop to 1e-5
(plain optimizers), and the two launchers give the same bits.
"""
import argparse
import json
import pathlib
import shutil
import sys

import torch

import harness
import zoo

STEPS = 10


def reference(data, batch, clip, factor):
    """PyTorch on one process, with the optimizer that the files share."""
    torch.set_num_threads(1)
    module = zoo.build("gpt")
    plain = [p for n, p in module.named_parameters() if not (n.endswith(".bias") or "ln" in n)]
    rest = [p for n, p in module.named_parameters() if n.endswith(".bias") or "ln" in n]
    rule = torch.optim.AdamW([{"params": plain}, {"params": rest, "weight_decay": 0.0}], lr=3e-4, betas=(0.9, 0.95),
                             weight_decay=0.1, foreach=False)
    losses = []
    for step in range(STEPS):
        for group in rule.param_groups:
            group["lr"] = 3e-4 * factor(step + 1)
        rule.zero_grad()
        loss = module(**{k: v[step * batch:(step + 1) * batch] for k, v in data.items()})
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
        rule.step()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--strategies", required=True, type=pathlib.Path)
    args = parser.parse_args()
    from safetensors.torch import save_file
    bench = harness.Bench(args.bin, args.work)
    bench.exported("gpt")
    failed = 0
    for path in sorted(args.strategies.glob("*.yaml")):
        plans = bench.work / f"{path.stem}.plans"
        bench.call([bench.bin / "piperc", bench.work / "gpt.onnx", "--strategy", path, "-o", plans])
        manifest = json.loads((plans / "manifest.json").read_text())
        batch, world = manifest["batch"], manifest["world_size"]
        data = zoo.draw("gpt", batch * STEPS)
        save_file(data, bench.work / "gpt.safetensors")
        clip = manifest.get("clip_grad_norm") or 0
        # The files that warm up do so over 20 steps, longer than this test runs.
        warmup = manifest.get("lr_schedule", {}).get("warmup", 0)
        expected = reference(data, batch, clip, lambda step, w=warmup: step / w if w else 1.0)
        result = bench.run(plans, "gpt", world, "local", STEPS)
        faults = harness.loss_faults(result.losses, expected, 1e-5)
        if world > 1 and shutil.which("mpirun") and bench.run(plans, "gpt", world, "mpirun", STEPS).losses != result.losses:
            faults.append("local and mpirun differ")
        print(f"{'FAILED' if faults else 'ok    '} {path.name} ({world} ranks)" + (f": {faults[0]}" if faults else ""), flush=True)
        failed += bool(faults)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
