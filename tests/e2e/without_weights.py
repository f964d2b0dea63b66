#!/usr/bin/env python3
"""Models exported without weights: their plans are those of the model with weights, and --init gives them values.

  without_weights.py --bin BIN --work FOLDER
"""
import argparse
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys

import torch
from safetensors.torch import load_file, save_file

import harness
import piper_export
import zoo

SINGLE = "piper: 1\nmodel: {batch: 8}\noptimizer: {adamw: {lr: 1.0e-3}}\n"
SHARDED = """piper: 1
mesh: {pp: 2, dp: 2}
model: {batch: 8}
annotate: [{tag: PP, starts: STARTS}]
directives:
  - {op: replicate, filter: {PP: 0}, devices: {pp: 0}, shard_params: true}
  - {op: replicate, filter: {PP: 1}, devices: {pp: 1}, shard_optimizer: true}
schedule: {family: 1f1b, microbatches: 2}
optimizer: {adamw: {lr: 1.0e-3}}
"""
DEVIATION = 0.02


class Counted(torch.nn.Module):
    """Running statistics: state that is no parameter."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)

    def forward(self, x, target):
        return torch.nn.functional.mse_loss(self.norm(x), target)


class LargerThanMemory(torch.nn.Module):
    """A weight of 4 TiB, made as transformers makes those of experts, and a buffer that is filled after it is made."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(4, 2**38))
        self.shift = torch.nn.Buffer(torch.empty(3))
        self.shift.fill_(2.0)

    def forward(self, x, target):
        return torch.nn.functional.mse_loss(x[:, 0] * self.weight[:3, 0] + self.shift, target[:, 0])


class Check:
    def __init__(self, bench):
        self.bench, self.faults = bench, []

    def expect(self, holds, what):
        if not holds:
            self.faults.append(what)

    def refused(self, what, *command):
        """What the failing command says."""
        result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        self.expect(result.returncode != 0, f"not refused: {what}")
        return result.stderr

    def compile(self, model, strategy, name):
        path, plans = self.bench.work / f"{name}.yaml", self.bench.work / f"{name}.plans"
        path.write_text(strategy)
        self.bench.call([self.bench.bin / "piperc", model, "--strategy", path, "--weights", "none", "-o", plans])
        return plans

    def same_plans(self, model):
        """Every file of the bundle except the manifest, which has the digest of the model's file."""
        example = zoo.draw(model, 8)
        exports = {}
        for weights in (True, False):
            exports[weights] = self.bench.work / f"{weights}" / f"{model}.pt2"
            exports[weights].parent.mkdir(exist_ok=True)
            piper_export.export(zoo.build(model), example, exports[weights], weights=weights)
        bundles = {weights: self.compile(path, SINGLE, f"{model}.{weights}") for weights, path in exports.items()}
        files = {weights: {p.relative_to(plans).as_posix(): p.read_text().replace(f"{model}.{weights}.yaml", "s.yaml")
                           for p in plans.rglob("*.json") if p.name != "manifest.json"} for weights, plans in bundles.items()}
        self.expect(files[True] == files[False] and len(files[True]) > 3, f"{model}: the plans differ")
        return exports[False]

    def drawn(self, model, exported):
        """The same values and losses under every layout, another seed other values; checkpoints win over --init."""
        starts = json.dumps(list(zoo.MODELS[model].quarters[::2]))
        layouts = {"single": SINGLE, "sharded": SHARDED.replace("STARTS", starts)}
        data = self.bench.work / "data.safetensors"
        save_file(zoo.draw(model, 8 * 4), data)
        weights, losses = {}, {}
        for layout, strategy in layouts.items():
            plans = self.compile(exported, strategy, f"{model}.{layout}")
            for seed in (1, 2):
                saved = self.bench.work / f"{layout}.{seed}.safetensors"
                self.bench.call([self.bench.bin / "piper-run", plans, "--data", data, "--steps", "0", "--seed", seed,
                                 "--init", f"normal:{DEVIATION}", "--save", saved])
                weights[layout, seed] = load_file(saved)
            losses[layout] = self.losses(plans, data, 1, "--steps", "4")
        for seed in (1, 2):
            pair = [weights[layout, seed] for layout in layouts]
            self.expect(pair[0].keys() == pair[1].keys() and all(torch.equal(pair[0][n], pair[1][n]) for n in pair[0]),
                        f"seed {seed}: layouts start from different values")
        values = torch.cat([w.flatten().double() for w in weights["single", 1].values()])
        others = torch.cat([w.flatten().double() for w in weights["single", 2].values()])
        # Four standard errors of the mean and of the deviation of so many normal numbers.
        error = 4 * DEVIATION / values.numel() ** 0.5
        self.expect(abs(values.mean()) < error and abs(values.std() - DEVIATION) < error,
                    f"mean {values.mean()}, deviation {values.std()}")
        self.expect(abs((values * others).mean()) < 4 * DEVIATION**2 / values.numel() ** 0.5, "seeds are correlated")
        self.expect(values.unique().numel() > 0.9 * values.numel(), "values repeat")
        self.expect(not harness.loss_faults(losses["sharded"], losses["single"], 1e-5), f"losses differ: {losses}")
        plans, folder = self.bench.work / f"{model}.single.plans", self.bench.work / "checkpoints"
        shutil.rmtree(folder, ignore_errors=True)
        self.losses(plans, data, 1, "--steps", "2", "--checkpoint", folder)
        resumed = self.losses(plans, data, 1, "--steps", "4", "--checkpoint", folder, "--resume")
        self.expect(resumed[-2:] == losses["single"][2:], f"{resumed} after a checkpoint, {losses['single'][2:]} without")
        return plans, data

    def losses(self, plans, data, seed, *flags):
        log = self.bench.work / "log.jsonl"
        self.bench.call([self.bench.bin / "piper-run", plans, "--data", data, "--seed", seed, "--init", f"normal:{DEVIATION}",
                         "--log", log, *flags])
        return [line["loss"] for line in map(json.loads, log.read_text().splitlines()) if "loss" in line]

    def refusals(self, exported, plans, data):
        strategy = self.bench.work / "gpt.single.yaml"
        piperc, run = self.bench.bin / "piperc", self.bench.bin / "piper-run"
        said = self.refused("weights that are not there", piperc, exported, "--strategy", strategy, "-o", self.bench.work / "x")
        self.expect("error[P0613]: the model was exported without weights" in said, said)
        said = self.refused("another rule", run, plans, "--data", data, "--init", "uniform:1")
        self.expect("'uniform:1' is no rule for parameters" in said, said)
        statistics, images = self.bench.work / "counted.pt2", {"x": torch.randn(8, 3, 4), "target": torch.randn(8, 3, 4)}
        piper_export.export(Counted(), images, statistics, weights=False)
        bundle = self.compile(statistics, SINGLE, "counted")
        save_file(images, data)
        said = self.refused("running statistics", run, bundle, "--data", data, "--init", "normal:0.02")
        self.expect("R0501" in said and "running_mean" in said, said)
        for path, build, message in (("model.onnx", Counted, "written as .pt2"),
                                     ("model.pt2", lambda: Counted().to("meta"), "have no values")):
            try:
                piper_export.export(build(), images, self.bench.work / path, weights=False)
                self.faults.append(f"exported: {message}")
            except piper_export.ExportError as error:
                self.expect(message in str(error), f"{error} is not '{message}'")

    def larger_than_memory(self):
        with piper_export.without_weights():
            model = LargerThanMemory()
        self.expect(model.shift.tolist() == [2.0] * 3, f"the buffer holds {model.shift}")
        path = self.bench.work / "larger.pt2"
        piper_export.export(model, {"x": torch.randn(8, 4, 3), "target": torch.randn(8, 4, 3)}, path, weights=False)
        self.compile(path, SINGLE, "larger")

    def experts(self):
        """The architecture of the paper's models, made without memory for its weights."""
        file = pathlib.Path(__file__).resolve().parents[2] / "tools" / "bench" / "paper" / "models.py"
        spec = importlib.util.spec_from_file_location("paper_models", file)
        models = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(models)
        with piper_export.without_weights():
            model, inputs = models.tiny()
        self.expect(all(p.device.type == "meta" for p in model.parameters()), "a parameter was allocated")
        path = self.bench.work / "tiny.pt2"
        piper_export.export(model, inputs, path, weights=False)
        plans = self.compile(path, SINGLE, "tiny")
        tokens = self.bench.work / "tokens.txt"
        tokens.write_bytes(bytes(range(32, 127)) * 50)
        losses = self.losses(plans, tokens, 1, "--steps", "2")
        # Logits near zero: the loss of guessing one of 256.
        self.expect(len(losses) == 2 and abs(losses[0] - torch.log(torch.tensor(256.0)).item()) < 0.1, f"losses {losses}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    arguments = parser.parse_args()
    check = Check(harness.Bench(arguments.bin, arguments.work))
    exported = check.same_plans("gpt")
    check.same_plans("bert")
    plans, data = check.drawn("gpt", exported)
    check.refusals(exported, plans, data)
    check.larger_than_memory()
    check.experts()
    for fault in check.faults:
        print(fault)
    print(f"{len(check.faults)} faults")
    sys.exit(1 if check.faults else 0)


if __name__ == "__main__":
    main()
