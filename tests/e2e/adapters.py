#!/usr/bin/env python3
"""Adapters on a frozen base: LoRA that a model writes by hand, its base from a file in bf16 that knows nothing of them.

  adapters.py --bin BIN --work DIR

Under each strategy losses and adapters are PyTorch's (1e-5), what was frozen is equal to the file's to the bit, moments and
gradients are there for adapters alone, and `--trained-only` saves them alone. What a file may lack is said by name and must be
asked for. A later run takes the base from its file and the adapters from theirs.
"""
import json
import sys

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from checks import check, faults
import harness

STEPS, BATCH, WIDTH, RANK = 8, 8, 16, 2
OPTIMIZER = "optimizer: {adamw: {lr: 1.0e-2, weight_decay: 0.1}}\n"
STRATEGIES = {
    "one": "",
    "pipeline": """annotate:
  - {tag: PP, starts: ["layers.0", "layers.2"]}
schedule: {family: 1f1b, microbatches: 2, ranks: [[0, 1], [2, 3]]}
""",
    "zero3": """directives:
  - {op: place, filter: {}, devices: [0, 1]}
  - {op: replicate, filter: {}, devices: [0, 1], shard_optimizer: true, shard_grads: true, shard_params: true}
""",
}


class Lora(nn.Linear):
    """The base's weight has the base's name, and is frozen."""

    def __init__(self):
        super().__init__(WIDTH, WIDTH)
        self.weight.requires_grad_(False)
        self.bias.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.randn(RANK, WIDTH) / WIDTH ** 0.5)
        self.lora_b = nn.Parameter(torch.zeros(WIDTH, RANK))

    def forward(self, x):
        return super().forward(x) + 2 * ((x @ self.lora_a.T) @ self.lora_b.T)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.layers = nn.ModuleList(Lora() for _ in range(4))
        self.norm = nn.LayerNorm(WIDTH)
        self.norm.requires_grad_(False)
        self.register_buffer("scale", torch.full((WIDTH,), 0.5))

    def forward(self, x, y):
        for layer in self.layers:
            x = x + torch.tanh(layer(self.norm(x) * self.scale))
        return nn.functional.mse_loss(x, y)


def main():
    bench = harness.bench_in_empty_folder(__doc__)
    work = bench.work
    torch.manual_seed(1)
    data = {"x": torch.randn(BATCH * STEPS, WIDTH), "y": torch.randn(BATCH * STEPS, WIDTH)}
    save_file(data, work / "data.safetensors")
    model = Model()
    adapters = sorted(name for name, parameter in model.named_parameters() if parameter.requires_grad)
    # Others trained the base: it has other values than the model that is exported, and no adapters.
    base = {name: torch.randn_like(value).mul(0.3).to(torch.bfloat16) for name, value in model.state_dict().items() if name not in adapters}
    save_file(base, work / "base.safetensors")
    initial = {name: model.state_dict()[name].clone() for name in adapters}
    path = bench.export(model, {name: value[:BATCH] for name, value in data.items()}, "adapters.pt2")

    torch.set_num_threads(1)
    model.load_state_dict({**{name: value.float() for name, value in base.items()}, **initial})
    rule = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2, weight_decay=0.1)
    losses = []
    for step in range(STEPS):
        rule.zero_grad(set_to_none=True)
        loss = model(**{name: value[step * BATCH:(step + 1) * BATCH] for name, value in data.items()})
        loss.backward()
        rule.step()
        losses.append(loss.item())
    trained = {name: model.state_dict()[name].clone() for name in adapters}

    def run(name, steps, *flags):
        log = work / f"{name}.jsonl"
        log.unlink(missing_ok=True)
        text = bench.call([bench.bin / "piper-run", work / name, "--data", work / "data.safetensors", "--steps", steps, "--threads", 1,
                           "--log", log, *flags])
        return text, [row["loss"] for row in map(json.loads, log.read_text().splitlines()) if "loss" in row]

    def refused(*flags):
        return bench.end_of([bench.bin / "piper-run", work / "one", "--data", work / "data.safetensors", "--steps", 1, *flags])

    given = ("--load", work / "base.safetensors", "--missing", "*.lora_a", "--missing", "*.lora_b")
    for name, text in STRATEGIES.items():
        (work / f"{name}.yaml").write_text(f"model: {{batch: {BATCH}}}\n{text}{OPTIMIZER}")
        bench.call([bench.bin / "piperc", path, "--strategy", work / f"{name}.yaml", "-o", work / name])
        saved, folder = work / f"{name}.safetensors", work / f"{name}.checkpoints"
        said, got = run(name, STEPS, *given, "--save", saved, "--checkpoint", folder, "--save-gradients", work / "gradients.safetensors")
        check(f"{name}: what the file lacks is said by name", f"8 tensors that '{work / 'base.safetensors'}' lacks begin as in the model that "
              f"was compiled: {', '.join(adapters)}\n" in said, said)
        wrong = harness.loss_faults(got, losses, 1e-5)
        check(f"{name}: PyTorch's losses", not wrong, wrong)
        weights = load_file(saved)
        far = {n: (weights[n] - trained[n]).abs().max().item() for n in adapters}
        check(f"{name}: PyTorch's adapters", max(far.values()) < 1e-5 and all(not torch.equal(weights[n], initial[n]) for n in adapters), far)
        moved = [n for n, value in base.items() if not torch.equal(weights[n], value.float())]
        check(f"{name}: the base is the file's to the bit", not moved, moved)
        check(f"{name}: gradients of adapters alone", sorted(load_file(work / "gradients.safetensors")) == adapters)
        state = json.loads((folder / f"step-{STEPS:09}" / "MANIFEST.json").read_text())["tensors"]
        moments = {kind: sorted(tensor["tensor"] for tensor in state if tensor["kind"] == kind) for kind in ("m", "v")}
        check(f"{name}: moments of adapters alone", moments == {"m": adapters, "v": adapters}, moments)
        run(name, STEPS, *given, "--save", work / "alone.safetensors", "--trained-only")
        alone = load_file(work / "alone.safetensors")
        check(f"{name}: adapters saved alone", sorted(alone) == adapters and all(torch.equal(alone[n], weights[n]) for n in adapters))
        size = (work / "alone.safetensors").stat().st_size
        check(f"{name}: their file is small", size < 8 * RANK * WIDTH * 4 + 1500, size)

    # What was saved, over the base's file, over the bundle's own weights, and in the place of what may be missing.
    _, whole = run("one", 1, "--load", work / "one.safetensors")
    said, over = run("one", 1, *given[:2], "--adapters", work / "alone.safetensors")
    check("adapters over the base's file train on", abs(over[0] - whole[0]) < 1e-6 and "lacks" not in said, f"{over} {whole} {said}")
    said, _ = run("one", 0, *given, "--adapters", work / "alone.safetensors", "--save", work / "again.safetensors")
    again = load_file(work / "again.safetensors")
    check("adapters of a file are not missing", "lacks" not in said and all(torch.equal(again[n], alone[n]) for n in adapters), said)
    run("one", 0, "--adapters", work / "alone.safetensors", "--save", work / "own.safetensors")
    own, fresh = load_file(work / "own.safetensors"), Model().state_dict()
    check("adapters over the bundle's weights", all(torch.equal(own[n], alone[n] if n in adapters else fresh[n]) for n in fresh))

    # A base that is too large to be exported with values: the adapters' first ones come from a file.
    bench.call([bench.bin / "piperc", path, "--strategy", work / "one.yaml", "--weights", "none", "-o", work / "without"])
    save_file(initial, work / "initial.safetensors")
    _, got = run("without", STEPS, *given[:2], "--adapters", work / "initial.safetensors")
    wrong = harness.loss_faults(got, losses, 1e-5)
    check("a bundle without weights starts from a base and first adapters", not wrong, wrong)

    save_file({"layers.0.lora_c": torch.zeros(1)}, work / "others.safetensors")
    code, said = bench.end_of([bench.bin / "piper-run", work / "without", "--data", work / "data.safetensors", "--steps", 1,
                               "--adapters", work / "initial.safetensors"])
    check("adapters without a base: refused", code == 1 and "R0501" in said, f"{code} {said}")
    for what, flags, status, word in (
            ("a file that lacks adapters", given[:2], 1, "R0501"),
            ("a glob of nothing", [*given[:2], "--missing", "*.lora_c"], 1, "R0505"),
            ("adapters of another model", ["--adapters", work / "others.safetensors"], 1, "R0505"),
            ("--missing without --load", ["--missing", "*.lora_a"], 2, "--load"),
            ("--adapters beside --init", ["--adapters", work / "alone.safetensors", "--init", "normal:0.1"], 2, "--init"),
            ("--trained-only without a file", ["--trained-only"], 2, "--save")):
        code, said = refused(*flags)
        check(f"{what}: refused", code == status and word in said, f"{code} {said}")
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
