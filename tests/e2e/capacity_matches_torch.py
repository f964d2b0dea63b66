#!/usr/bin/env python3
"""Experts with a capacity train as PyTorch trains them with the same pairs left out, on one process.

  capacity_matches_torch.py --bin BIN --work DIR [MODEL...] [--strategies a,b] [--launch local|mpirun] [--no-mpirun]

The reference decides pair by pair: of the pairs of a token and a chosen expert that one rank has in one microbatch, tokens first, then
a token's choices, an expert takes the first ceil(factor * pairs / experts). A rank of whole experts over places has those of its part of the sequence. Losses of all steps, gradients of step 1, weights after the last
step, tolerances as in shards_match_torch.py; the number of dropped pairs of every step exactly. Then, once for each model: a factor
that drops nothing gives the bits of a run without capacity; a capacity takes less memory, predicted and measured; `overflow: error`
stops all ranks with R0406. Exit status 0: all agree.
"""
import argparse
import json
import math
import re
import subprocess
import sys
import types

import torch
import torch.nn.functional as F

import harness
import zoo
import zoo_experts
from shards_match_torch import STRATEGIES, Strategy, strategy_text, weight_faults

# Model -> factor at which some pairs are dropped and most are not, number of experts.
MODELS = {"moe_gathered": (1.0, 4), "qwen3_moe": (1.25, 8), "mixtral": (1.0, 4)}
STRATEGIES = STRATEGIES | {
    "ep1": Strategy(((0, 1),), (((0,), (1,)),), 2),                        # groups of one device
    "ep4_mb2": Strategy(((0, 1, 2, 3),), (((0, 1, 2, 3),),), 2),
}


class Reference:
    """Makes the experts of a module leave out what is over, and counts it."""

    def __init__(self, factor, places):
        self.factor, self.places, self.dropped, self.sequence = factor, places, 0, 0

    def kept(self, ids, experts):
        """ids [tokens, choices] -> the same shape: 1 where the expert takes the pair, else 0."""
        bound = math.ceil(self.factor * ids.numel() / self.places / experts)
        taken, keep = [[0] * experts for _ in range(self.places)], []
        for pair, expert in enumerate(ids.flatten().tolist()):
            here = taken[pair // ids.shape[1] % self.sequence * self.places // self.sequence]
            keep.append(1.0 if here[expert] < bound else 0.0)
            here[expert] += 1
        self.dropped += keep.count(0.0)
        return torch.tensor(keep).view(ids.shape)

    def attach(self, module):
        for part in module.modules():
            if isinstance(part, zoo_experts.GatheredExperts):
                part.forward = types.MethodType(self.gathered, part)
            elif type(part).__name__ in ("Qwen3MoeExperts", "MixtralExperts"):
                self.wrap(part)

    def gathered(self, part, x):
        tokens = x.reshape(-1, x.shape[-1])
        gate, ids = part.router(tokens).softmax(-1).topk(part.chosen)
        keep = self.kept(ids, part.experts)
        y = torch.zeros_like(tokens)
        for e in range(part.experts):
            token, choice = ((ids == e) & (keep > 0)).nonzero(as_tuple=True)
            h = F.gelu(tokens[token] @ part.up[e] + part.up_bias[e]) @ part.down[e] + part.down_bias[e]
            y = y.index_add(0, token, h * part.scale[e] * gate[token, choice].unsqueeze(-1))
        return y.reshape(x.shape)

    # transformers' experts weigh what each of them makes: a weight of zero leaves the pair out.
    def wrap(self, part):
        inner = part.forward

        def forward(hidden_states, top_k_index, top_k_weights):
            return inner(hidden_states, top_k_index, top_k_weights * self.kept(top_k_index, part.num_experts))
        part.forward = forward


def torch_training(model, factor, pieces, clip, places):
    reference, dropped, margin = Reference(factor, places), [], []
    loop = harness.piece_by_piece(pieces)

    def step(module, number, batch):
        if number == 1:
            reference.attach(module)
            margin.append(zoo_experts.smallest_margin(module))
        reference.dropped = 0
        reference.sequence = next(iter(batch.values())).shape[1]
        loss = loop(module, number, batch)
        dropped.append(reference.dropped)
        return loss
    losses, gradients, module = harness.torch_training(model, "sgd", clip=clip, around=step)
    return losses, gradients, module, dropped, margin[0]()


def bounded(text, factor, overflow):
    text, count = re.subn(r"(\{op: shard, (?!.*dim: ).*)\}$", rf"\1, capacity: {{factor: {factor}, overflow: {overflow}}}}}", text, flags=re.MULTILINE)
    assert count, "the strategy has no shard"
    return text


def log_of(plans, launch="local"):
    rows = [json.loads(line) for line in (plans.with_suffix("." + launch) / "log.jsonl").read_text().splitlines()]
    return [row.get("dropped") for row in rows if "loss" in row], rows[-1]["summary"]["peak_memory_bytes"]


class Checks:
    def __init__(self):
        self.failed = self.total = 0

    def say(self, what, faults):
        print(f"{what}" + ("" if not faults else f"  FAILED {len(faults)}: {faults[0]}"), flush=True)
        self.failed += bool(faults)
        self.total += 1


def check_numbers(bench, model, names, launch, checks):
    references = {}
    factor = MODELS[model][0]
    for name in names:
        s = STRATEGIES[name]
        key = (s.pieces(), 0.5 if "clip" in s.extra else None, s.places_of_experts())
        if key not in references:
            references[key] = torch_training(model, factor, *key)
        losses, gradients, module, dropped, margin = references[key]
        plans = bench.compile(model, bounded(strategy_text(s, model, "sgd"), factor, "drop"), f"{model}-{name}-drop")
        result = bench.run(plans, model, 1 + max(max(d) for d in s.data), launch)
        faults = harness.loss_faults(result.losses, losses, zoo.MODELS[model].tolerance)
        faults += harness.gradient_faults(result.gradients, gradients) + weight_faults(result.weights, module)
        logged = log_of(plans, launch)[0]
        if logged != dropped:
            faults.append(f"dropped {logged}, expected {dropped}")
        if min(dropped) == 0:
            faults.append("a step drops nothing: choose a smaller factor")
        worst = max(abs(a - b) / abs(b) for a, b in zip(result.losses, losses))
        checks.say(f"{model:16} {name:20} {launch:7} {min(dropped)} to {max(dropped)} pairs dropped, smallest margin {margin:.0e}, "
                   f"largest relative loss difference {worst:.1e}", faults)


def check_enough(bench, model, checks):
    """A capacity that cannot be exceeded changes no bit; a smaller one takes less memory."""
    text = strategy_text(STRATEGIES["ep4_mb2"], model, "sgd")
    plans = {name: bench.compile(model, strategy, f"{model}-{name}") for name, strategy in
             {"unbounded": text, "enough": bounded(text, MODELS[model][1], "drop"), "small": bounded(text, 1.25, "drop")}.items()}
    results = {name: bench.run(plan, model, 4) for name, plan in plans.items()}
    faults = []
    if results["enough"].losses != results["unbounded"].losses:
        faults.append("losses differ")
    faults += [f"{name} differs" for name, value in results["unbounded"].weights.items() if not torch.equal(value, results["enough"].weights[name])]
    dropped, _ = log_of(plans["enough"])
    if any(number != 0 for number in dropped):
        faults.append(f"dropped {dropped}")
    if any(number is not None for number in log_of(plans["unbounded"])[0]):
        faults.append("a run without capacity tells of dropped pairs")
    checks.say(f"{model:16} capacity that is never reached: the same bits", faults)
    predicted = {name: [rank["peak_bytes"] for rank in json.loads((plan / "manifest.json").read_text())["ranks"]] for name, plan in plans.items()}
    measured = {name: log_of(plan)[1] for name, plan in plans.items()}
    faults = [f"{kind} peak of rank {rank}: {small} bytes with capacity, {whole} without"
              for kind, of in (("predicted", predicted), ("measured", measured))
              for rank, (small, whole) in enumerate(zip(of["small"], of["unbounded"])) if small >= whole]
    checks.say(f"{model:16} peak of rank 0, with factor 1.25 and without: predicted {predicted['small'][0]} and {predicted['unbounded'][0]}, "
               f"measured {measured['small'][0]} and {measured['unbounded'][0]} bytes", faults)


def check_whole_parts(bench, model, checks):
    """Made for GPUs, whole parts travel without counts, and change no bit."""
    text = bounded(strategy_text(STRATEGIES["ep4_mb2"], model, "sgd"), MODELS[model][0], "drop")
    results, counted = {}, {}
    for device in ("cpu", "cuda"):
        plans = bench.compile(model, text, f"{model}-parts-{device}", "--device", device)
        results[device] = bench.run(plans, model, 4)
        counted[device] = (plans / "ranks" / "rank-00000.json").read_text().count('"send_counts"')
    faults = [] if results["cpu"].losses == results["cuda"].losses else ["losses differ"]
    faults += [f"{name} differs" for name, value in results["cpu"].weights.items() if not torch.equal(value, results["cuda"].weights[name])]
    if counted["cpu"] == 0 or counted["cuda"] != 0:
        faults.append(f"exchanges with counts: {counted}")
    checks.say(f"{model:16} whole parts for GPUs: the same bits", faults)


def check_error(bench, model, launches, checks):
    text = bounded(strategy_text(STRATEGIES["pp2_ep2"], model, "sgd"), 0.5, "error")
    plans = bench.compile(model, text, f"{model}-error")
    line = 1 + next(i for i, row in enumerate(text.splitlines()) if "op: shard" in row)
    for launch in launches:
        command = [bench.bin / "piper-run", plans, "--data", bench.work / f"{model}.safetensors", "--steps", 3, "--threads", 1]
        if launch == "mpirun":
            command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", 4, *command]
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        said = re.search(r"error\[R0406\]: rank \d+, step 1, .*, kernel expert_order \(.*, shard at .*\.yaml:(\d+):\d+\) at .*\.py:\d+\): "
                         r"(\d+) of \d+ rows are over the capacity of \d+ rows of an expert; expert \d+ is asked for \d+", done.stdout)
        faults = []
        if done.returncode != 3:
            faults.append(f"exit status {done.returncode}")
        if not said or int(said[1]) not in (line, line + 3):   # the shard of either stage
            faults.append(done.stdout.strip())
        checks.say(f"{model:16} overflow: error {launch:7} stops with R0406", faults)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--strategies", default="ep1,ep2,ep4_mb2,ep2x2_across,pp2_ep2,pp2_ep2_zero_bubble,ep2x2_parameters,ep2_recompute,ep2_halves,ep2_alone,ep2_clip,etp,etp_recompute,pp2_etp")
    parser.add_argument("--launch", choices=("local", "mpirun"), default="local")
    parser.add_argument("--no-mpirun", action="store_true", help="stop with an error under the program's own threads alone")
    args = parser.parse_args()
    bench = harness.Bench(args.bin, args.work)
    checks = Checks()
    for model in args.models:
        check_numbers(bench, model, args.strategies.split(","), args.launch, checks)
        check_enough(bench, model, checks)
        check_whole_parts(bench, model, checks)
        check_error(bench, model, ["local"] if args.no_mpirun else ["local", "mpirun"], checks)
    print(f"{checks.total - checks.failed} of {checks.total} agree")
    sys.exit(1 if checks.failed or not checks.total else 0)


if __name__ == "__main__":
    main()
