#!/usr/bin/env python3
"""Every optimizer of schemas/plan/optimizers.def trains for 20 steps as its reference does on one process: whole, on stages and replicas, with
its state divided in each of the three ways, and stopped and taken up again under another strategy.

  optimizers.py --bin BIN --work DIR [--only NAME]

Losses within 1e-5 of the reference's, relative; weights after the last step within 1e-4 of what training changed, as norms over all of them.
Muon beside AdamW also clipped, with a loss scale, with working copies in bf16, and against torch.optim.Muon itself, which computes
Newton-Schulz in bf16; a checkpoint in which the other of the two has updated a tensor is refused.

The sign that Lion takes of a direction near 0 hangs on rounding, so of its weights one in a
thousand may be off, by a few steps' rates.
"""
import argparse
import functools
import itertools
import json
import pathlib
import re
import shutil
import sys

import torch
from safetensors.torch import load_file

import harness
import zoo
from checks import check, faults
from reference_optimizers import Lion, MuonInBf16, rule_of

MODEL, STEPS, HALF = "gpt", 20, 11
TABLE = pathlib.Path(__file__).resolve().parents[2] / "schemas/plan/optimizers.def"
# Composition, and what its replicas divide.
FORMS = {"whole": ("one", ""), "pp2_dp2": ("pp2_dp2", ""), "zero1": ("dp2", "shard_optimizer"), "zero2": ("dp2_mb2", "shard_grads"),
         "zero3": ("dp2", "shard_params")}


def strategy(form, optimizer):
    composition, divided = FORMS.get(form, (form, ""))
    more = f", {divided}: true" if divided else ""
    return harness.strategy_text(MODEL, composition, optimizer).replace("bucket_size: 0.05", "bucket_size: 0.05" + more)


def with_gradient(name, tensor):
    """Without the keys' biases, whose gradient is 0 except for rounding."""
    return torch.cat([tensor.chunk(3)[0], tensor.chunk(3)[2]]) if name.endswith("qkv.bias") else tensor.flatten()


def weight_faults(optimizer, weights, reference, before, lr):
    off = torch.cat([with_gradient(name, weights[name] - wanted) for name, wanted in reference.items()])
    changed = torch.cat([with_gradient(name, wanted - before[name]) for name, wanted in reference.items()])
    if optimizer == "lion":
        share = (off.abs() > 1e-6).float().mean().item()
        return [f"{share:.2%} of the weights are off, the most by {off.abs().max().item():.1e}"] if share > 1e-3 or off.abs().max() > 6 * lr else []
    return [f"weights are off by {off.norm().item():.1e} of {changed.norm().item():.1e}"] if off.norm() > 1e-4 * changed.norm() else []


def muon_beside_adamw(bench, before):
    """What only the two together can get wrong."""
    def trained(form, extra, tag):
        plans = bench.compile(MODEL, strategy(form, "muon") + extra, tag, "--checkpoints")
        return plans, bench.run(plans, MODEL, 0, "local", STEPS)

    def off(weights, reference):
        def norm(of):
            return torch.cat([with_gradient(name, of(name)) for name in before]).norm().item()
        return norm(lambda name: weights[name] - reference[name]) / norm(lambda name: reference[name] - before[name])

    def compared(what, result, losses, reference, of_losses, of_weights):
        wrong = harness.loss_faults(result.losses, losses, of_losses)
        share = off(result.weights, reference)
        check(f"muon {what}", not wrong and share <= of_weights, f"weights are off by {share:.1e} of what changed; {wrong[:2]}")

    losses, _, module = harness.torch_training(MODEL, "muon", clip=0.5)
    clipped = {name: p.detach() for name, p in module.named_parameters()}
    # A power of two as the loss scale changes no bit of a gradient in f32.
    for form, extra in (("zero1", ""), ("zero2", "precision: {loss_scale: 1024}\n"), ("zero3", "precision: {loss_scale: 1024}\n")):
        plans, result = trained(form, "clip_grad_norm: 0.5\n" + extra, f"{form}-muon-clipped")
        compared(f"clipped {'and scaled ' if extra else ''}on {form}", result, losses, clipped, 1e-5, 1e-4)
    # bf16 rounds to 2^-9 at each of five steps, each of which lets an error grow up to 3.4-fold: about 0.02 of an update.
    losses, _, module = harness.torch_training(MODEL, "muon", rule_of=functools.partial(rule_of, muon=MuonInBf16))
    _, result = trained("whole", "", "whole-muon-torch")
    compared("as torch.optim.Muon has it", result, losses, {name: p.detach() for name, p in module.named_parameters()}, 1e-3, 5e-2)
    # Working copies: masters of a divided state are those of one that is whole.
    bf16 = "precision: {compute: bf16}\n"
    _, result = trained("dp2", bf16, "dp2-muon-bf16")
    for form in ("zero1", "zero3"):
        _, divided = trained(form, bf16, f"{form}-muon-bf16")
        compared(f"in bf16 on {form}", divided, result.losses, result.weights, 1e-6, 1e-6)
    # A tensor goes from the one to the other optimizer: its moments are not those.
    text = strategy("whole", "muon")
    other = text.replace('"rest":', '"except": ["h.0.up"], "rest":')
    assert other != text
    for first, second in ((text, other), (other, text)):
        folder = bench.work / "exchanged.checkpoints"
        shutil.rmtree(folder, ignore_errors=True)
        for which, words in ((first, ["--steps", 1]), (second, ["--steps", 2, "--resume"])):
            plans = bench.compile(MODEL, which, "exchanged", "--checkpoints")
            code, said = bench.end_of([bench.bin / "piper-run", plans, "--data", bench.work / f"{MODEL}.safetensors", "--threads", 1,
                                       "--checkpoint", folder, *words])
            if which is first and code:
                raise AssertionError(said)
        check("muon moments of the other optimizer are refused", code == 84 and "R0703" in said and "h.0.up.weight" in said, f"{code} {said}")


# Beside `no_decay`: a rate, momenta and a decay of its own each; the first group that matches has a parameter.
NO_DECAY = ["*.bias", "*ln*"]
GROUPS = [{"match": ["h.0", "wpe"], "lr_factor": 0.25}, {"match": ["*.down", "h.1.up"], "weight_decay": 0.3, "betas": [0.8, 0.99]},
          {"match": ["h.3.*.bias", "ln_f"], "lr_factor": 3, "weight_decay": 0.02}]


def group_of(name):
    """By the meaning of docs/training-step.md, written down anew."""
    rules = (lambda n: n.startswith("h.0.") or n.startswith("wpe."), lambda n: ".down." in n or n.startswith("h.1.up."),
             lambda n: (n.startswith("h.3.") and n.endswith(".bias")) or n.startswith("ln_f."))
    return next((i for i, rule in enumerate(rules) if rule(name)), None)


def with_groups(optimizer, module, values):
    groups = []
    for name, p in module.named_parameters():
        group = GROUPS[i] if (i := group_of(name)) is not None else {}
        undecayed = name.endswith(".bias") or ".ln" in name or name.startswith("ln")
        decay = group.get("weight_decay", 0 if undecayed else values["weight_decay"])
        groups.append({"params": [p], "lr": values["lr"] * group.get("lr_factor", 1), "weight_decay": decay,
                       "betas": group.get("betas", values["betas"])})
    return {"adamw": torch.optim.AdamW, "lion": Lion}[optimizer](groups, lr=values["lr"])


def parameter_groups(bench, before):
    """Groups of parameters in every form, as PyTorch has them."""
    values = json.dumps({"no_decay": NO_DECAY, "groups": GROUPS})[1:-1]
    for optimizer in ("adamw", "lion"):
        own = harness.values_of(MODEL, optimizer)
        losses, _, module = harness.torch_training(MODEL, optimizer, rule_of=with_groups)
        reference = {name: p.detach() for name, p in module.named_parameters()}
        for form in FORMS:
            text = strategy(form, optimizer)
            grouped = text.replace(f'optimizer: {{{optimizer}: {{', f'optimizer: {{{optimizer}: {{{values}, ')
            assert grouped != text
            result = bench.run(bench.compile(MODEL, grouped, f"{form}-{optimizer}-groups"), MODEL, 0, "local", STEPS)
            wrong = harness.loss_faults(result.losses, losses, 1e-5) + weight_faults(optimizer, result.weights, reference, before, 3 * own["lr"])
            check(f"{optimizer} with groups, {form}", not wrong, "; ".join(wrong[:3]))


def norms_of_groups(bench):
    """The log has the norm of the gradients of each group, as PyTorch has it, also of gradients that are scaled."""
    values = json.dumps({"no_decay": NO_DECAY, "groups": GROUPS})[1:-1]
    _, gradients, _ = harness.torch_training(MODEL, "adamw")
    squares = {}
    for name, gradient in gradients.items():
        group = group_of(name)
        undecayed = (group is None or "weight_decay" not in GROUPS[group]) and (name.endswith(".bias") or ".ln" in name or name.startswith("ln"))
        said = ("decay", "no_decay")[undecayed] if group is None else f"group{group}" + "_no_decay" * undecayed
        squares[said] = squares.get(said, 0) + gradient.double().square().sum().item()
    wanted = {said: square ** 0.5 for said, square in squares.items()}
    assert len(wanted) > 4


    def first_row(form, groups, extra):
        text = strategy(form, "adamw").replace("optimizer: {adamw: {", f"optimizer: {{adamw: {{{groups}") + f"clip_grad_norm: 0.5\n{extra}"
        plans = bench.compile(MODEL, text, f"{form}-norms")
        bench.run(plans, MODEL, 0, "local", 1)
        return json.loads((plans.with_suffix(".local") / "log.jsonl").read_text().splitlines()[0])

    for form, extra in itertools.product((*FORMS, "tp2", "tp2_dp2"), ("", "precision: {loss_scale: 1024}\n")):
        row = first_row(form, values + ", ", extra)
        told = row["grad_norms"]
        wrong = [f"{said} is {told.get(said)} instead of {norm}" for said, norm in wanted.items()
                 if not abs(told.get(said, 0) - norm) <= 1e-5 * norm]
        whole = sum(norm ** 2 for norm in told.values()) ** 0.5
        if told.keys() != wanted.keys() or abs(whole - row["grad_norm"]) > 1e-6 * whole:
            wrong.append(f"groups {sorted(told)} with {whole}, of {row['grad_norm']}")
        check(f"norms of groups on {form}{', scaled' if extra else ''}", not wrong, "; ".join(wrong[:3]))
    check("one group has no norm of its own", "grad_norms" not in first_row("whole", "", ""), "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--only")
    args = parser.parse_args()
    names = re.findall(r'^PIPER_OPTIMIZER\(\w+, "(\w+)"', TABLE.read_text(), re.M)
    check("every optimizer has a reference", sorted(names) == sorted(harness.OPTIMIZERS), f"{names}, {sorted(harness.OPTIMIZERS)}")
    bench = harness.Bench(args.bin, args.work)
    before = {name: p.detach().clone() for name, p in zoo.build(MODEL).named_parameters()}
    for optimizer in names:
        if args.only not in (None, optimizer):
            continue
        losses, _, module = harness.torch_training(MODEL, optimizer)
        reference = {name: p.detach() for name, p in module.named_parameters()}
        lr = harness.values_of(MODEL, optimizer)["lr"]

        def judge(what, own_losses, weights):
            wrong = harness.loss_faults(own_losses, losses, 1e-5) + weight_faults(optimizer, weights, reference, before, lr)
            check(f"{optimizer} {what}", not wrong, "; ".join(wrong[:3]))

        plans = {}
        for form in FORMS:
            plans[form] = bench.compile(MODEL, strategy(form, optimizer), f"{form}-{optimizer}", "--checkpoints")
            result = bench.run(plans[form], MODEL, 0, "local", STEPS)
            judge(form, result.losses, result.weights)
        folder = bench.work / f"{optimizer}.checkpoints"
        shutil.rmtree(folder, ignore_errors=True)
        log, saved = bench.work / "log.jsonl", bench.work / "weights.safetensors"
        log.unlink(missing_ok=True)
        run = [bench.bin / "piper-run", plans["zero3"], "--data", bench.work / f"{MODEL}.safetensors", "--threads", 1, "--log", log, "--checkpoint", folder]
        bench.call([*run, "--steps", HALF])
        bench.call([run[0], plans["pp2_dp2"], *run[2:], "--resume", "--steps", STEPS, "--save", saved])
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        judge("stopped and taken up", [row["loss"] for row in rows if "loss" in row], load_file(saved))
        if optimizer == "muon":
            muon_beside_adamw(bench, before)
    if args.only in (None, "groups"):
        parameter_groups(bench, before)
    if args.only in (None, "norms"):
        norms_of_groups(bench)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
