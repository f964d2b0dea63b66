#!/usr/bin/env python3
"""What a run evaluates is PyTorch's loss in eval(), and the training does not notice.

  evaluation.py --bin BIN --work DIR [--fast] [--only NAME,...] [--launch local|mpirun]

Each case trains with `eval: {every: 2, batches: 3}` and without: losses and saved weights are equal to the bit, and so is every
file of the bundle but its manifest. The last `eval_loss` is that of PyTorch in eval() over all samples of the three batches at
once, which is the mean over all of their terms, to 1e-6. `--eval-only` on the saved weights gives it again to the bit, and on the
weights of `--save-best` the smallest of the log. Where nothing is dropped out, evaluating the first batch of the training gives
the loss of its first step to 1e-6; that is all that is asked in bf16. `losses`: the forms of evaluated_losses.py, whose training is
PyTorch's, too. `refusals`: what cannot be evaluated. `resumed_best`: what a run
that resumes does with the file of `--save-best`. Exit status 0: all agree.
"""
import argparse
import json
import math
import shutil
import sys

import torch

import compositions
import compositions_table as table
import evaluated_losses
import harness
import small_models
import zoo

STEPS, BATCHES, SPARE, TOLERANCE = 5, 3, 5, 1e-6
BF16 = {"precision": {"compute": "bf16"}}
ROWS = ("gpipe_optimizer", "1f1b_dp", "interleaved_1f1b_params", "zb_v_params", "dualpipev_dp", "1f1b_experts_dp",
        "gpipe_slots_dp", "three_ranks", "four_replicas", "one_device_split", "places_vocab")
ZOO = (("gpt", "one"), ("gpt", "pp2_nested"), ("gpt_dropout", "pp2_dp2"), ("gpt_dropout", "pp4_zb_v"), ("cnn", "dp2_mb2"),
       ("normed", "one"), ("normed", "pp2_1f1b"), ("counted", "one"), ("bert", "dp2"))
FAST = ("losses", "refusals", "resumed_best", "1f1b_dp", "zb_v_params", "1f1b_experts_dp", "gpt_dropout-pp2_dp2", "normed-pp2_1f1b", "interleaved_1f1b_params-bf16", "places_vocab")


class SmallModels:
    """A row of the matrix of compositions."""

    def __init__(self, args, row, keys):
        self.bench = compositions.Matrix(args.bin, args.work)
        self.row, self.model, self.batch, self.exact = row, row.model, table.BATCH, not keys
        self.text = lambda more: json.dumps(table.strategy(row, "adamw") | keys | more, indent=1)
        self.draws_out, self.is_cross_entropy = False, self.model == "dense"

    def draw(self, samples):
        return small_models.draw(self.model, samples)

    def loss(self, weights, data):
        return eval_loss(small_models.build(self.model), weights, data)


class ZooModel:
    def __init__(self, args, model, composition):
        self.bench = harness.Bench(args.bin, args.work)
        self.model, self.batch, self.exact = model, harness.BATCH, model != "counted"
        self.text = lambda more, optimizer="adamw": harness.strategy_text(model, composition, optimizer,
                                                                          "".join(f"{k}: {json.dumps(v)}\n" for k, v in more.items()))
        self.draws_out, self.is_cross_entropy = "dropout" in model or model == "normed", model == "gpt"

    def draw(self, samples):
        return zoo.draw(self.model, samples)

    def loss(self, weights, data):
        module = zoo.build(self.model)
        for part in module.modules():   # attention that drops out whatever the mode
            if isinstance(part, zoo.Block):
                part.dropout = 0.0
        return eval_loss(module, weights, data)


def eval_loss(module, weights, data):
    torch.set_num_threads(1)
    module.load_state_dict({name: weights.get(name, value) for name, value in module.state_dict().items()})
    with torch.no_grad():
        return module.eval()(**data).item()


def evaluations(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {row["step"]: row for row in rows if "eval_loss" in row}


def apart(a, b):
    return abs(a - b) / abs(b)


def bundle_faults(plain, evaluated):
    texts = [{str(f.relative_to(d)): f.read_bytes() for f in sorted(d.rglob("*")) if f.is_file() and f.parent.name != "weights"}
             for d in (plain, evaluated)]
    kept = {name: text for name, text in texts[1].items() if not name.startswith("eval/")}
    return [f"{name} is another one with an evaluation" for name in texts[0] | kept
            if name != "manifest.json" and texts[0].get(name) != kept.get(name)]


def faults_of(case, tag, launch):
    from safetensors.torch import load_file, save_file
    bench, model = case.bench, case.model
    bench.exported(model)
    every = case.draw(case.batch * 20 + BATCHES * case.batch + SPARE)
    held_out = {k: v[case.batch * 20:].clone() for k, v in every.items()}
    data = bench.work / f"{tag}.held_out.safetensors"
    save_file(held_out, data)
    # Under one name, which plans tell.
    plain = bench.work / f"{tag}.plain.plans"
    shutil.rmtree(plain, ignore_errors=True)
    bench.compile(model, case.text({}), tag).rename(plain)
    plans = bench.compile(model, case.text({"eval": {"data": str(data), "every": 2, "batches": BATCHES}}), tag)
    bench.call([bench.bin / "piper-plan", "verify", plans])
    faults = bundle_faults(plain, plans)
    world = json.loads((plans / "manifest.json").read_text())["world_size"]
    without = bench.run(plain, model, world, launch, STEPS)
    best_path = bench.work / f"{tag}.best.safetensors"
    result = bench.run(plans, model, world, launch, STEPS, "--save-best", best_path)
    if result.losses != without.losses:
        faults.append("the evaluations change the losses")
    if any(not torch.equal(without.weights[n], t) for n, t in result.weights.items()):
        faults.append("the evaluations change the weights")
    out = plans.with_suffix("." + launch)
    found = evaluations(out / "log.jsonl")
    if list(found) != [2, 4, 5]:
        return faults + [f"evaluations after steps {list(found)}, not 2, 4 and 5"]
    last, best = found[5]["eval_loss"], min(row["eval_loss"] for row in found.values())
    if case.is_cross_entropy and "perplexity" not in found[5]:
        faults.append("no perplexity of a mean cross entropy")
    if "perplexity" in found[5] and apart(found[5]["perplexity"], math.exp(last)) > 1e-12:
        faults.append("the perplexity is not that of the loss")
    if case.exact:
        expected = case.loss(result.weights, {k: v[:BATCHES * case.batch] for k, v in held_out.items()})
        if not apart(last, expected) <= TOLERANCE:
            faults.append(f"eval_loss {last!r} is {apart(last, expected):.1e} from PyTorch's {expected!r}")

    def alone(name, *flags):
        log = bench.work / f"{tag}.{name}.jsonl"
        bench.call([bench.bin / "piper-run", plans, "--eval-only", "--log", log, "--threads", 1, *flags])
        return [row["eval_loss"] for row in evaluations(log).values()]
    if alone("again", "--load", out / "weights.safetensors") != [last]:
        faults.append("--eval-only finds another loss for the saved weights")
    if alone("best", "--load", best_path) != [best]:
        faults.append("--save-best did not keep the weights of the smallest loss")
    first = alone("first", "--eval-data", bench.work / f"{model}.safetensors", "--eval-batches", 1)
    if not case.draws_out and not apart(first[0], without.losses[0]) <= TOLERANCE:
        faults.append(f"the first batch has loss {without.losses[0]!r} in training, {first[0]!r} in evaluation")
    return faults


def loss_of(bench, plans, *flags):
    """The loss of the last evaluation of a run; None: it fails."""
    log = bench.work / "loss.jsonl"
    log.unlink(missing_ok=True)
    status, said = bench.end_of([bench.bin / "piper-run", plans, "--log", log, *flags])
    if status:
        print(said[-500:])
        return None
    return [row["eval_loss"] for row in evaluations(log).values()][-1]


def refusal_faults(case):
    """What cannot be evaluated ends with status 1 before anything runs, and says why."""
    from safetensors.torch import save_file
    bench, model = case.bench, case.model
    bench.exported(model)
    data, few = bench.work / f"{model}.safetensors", bench.work / "few.safetensors"
    save_file(case.draw(case.batch - 1), few)
    without = bench.compile(model, case.text({}), "refused.plain")
    plans = bench.compile(model, case.text({"eval": {"batches": 1}}), "refused")
    faults = []
    for code, *command in (("R0212", without, "--eval-data", data), ("R0212", without, "--eval-only"), ("R0212", plans, "--eval-only"),
                           ("R0211", plans, "--eval-data", few), ("R0211", plans, "--eval-data", data, "--eval-batches", 1000),
                           ("R0201", plans, "--eval-data", bench.work / "nothing.bin")):
        status, said = bench.end_of([bench.bin / "piper-run", *command, "--data", data])
        if status != 1 or f"error[{code}]" not in said:
            faults.append(f"{command[1:]}: exit {status}, not {code}: {said[-300:]}")
    # Steps need the optimizer of a checkpoint, and a batch that divides the samples that it has seen; an evaluation does not.
    folder = bench.work / "refused.checkpoints"
    shutil.rmtree(folder, ignore_errors=True)
    bench.call([bench.bin / "piper-run", plans, "--data", data, "--steps", 1, "--checkpoint", folder])
    again = ("--data", data, "--checkpoint", folder, "--resume")
    evaluate = ("--eval-only", "--eval-data", data)
    wanted = loss_of(bench, plans, *again, *evaluate)
    for name, optimizer, *changed in (("batch", "adamw", "--set", f"model.batch={case.batch - 2}"), ("sgd", "sgd"), ("lion", "lion")):
        text = case.text({"eval": {"batches": 1}}, optimizer)
        other = bench.compile(model, text, f"refused.{name}", *changed)
        status, said = bench.end_of([bench.bin / "piper-run", other, *again, "--steps", 2])
        if status != 84 or "error[R0703]" not in said:
            faults.append(f"steps after another checkpoint, {name}: exit {status}, not 84: {said[-300:]}")
        found = loss_of(bench, other, *again, *evaluate, "--seed", 7)
        if found is None or (name != "batch" and found != wanted):
            faults.append(f"an evaluation of another checkpoint, {name}: {found} instead of {wanted}")
    return faults


def resumed_best_faults(case, launch):
    """A resumed run replaces the file of --save-best only by weights of a smaller loss of the same evaluation."""
    from safetensors import safe_open
    bench, model = case.bench, case.model
    bench.exported(model)
    data, best = bench.work / f"{model}.safetensors", bench.work / "resumed.best.safetensors"
    plans = {name: bench.compile(model, case.text({"eval": {"data": str(data), "every": 1, "batches": 2}}), f"resumed.{name}",
                                 "--set", f"optimizer.adamw.lr={rate}") for name, rate in (("slow", 1e-4), ("wild", 30))}
    world = json.loads((plans["slow"] / "manifest.json").read_text())["world_size"]
    folder, log, faults = bench.work / "resumed.checkpoints", bench.work / "resumed.jsonl", []
    shutil.rmtree(folder, ignore_errors=True)
    best.unlink(missing_ok=True)

    def run(name, steps, *flags):
        """The losses of the evaluations, what the file says of itself, and what the run said."""
        log.unlink(missing_ok=True)
        command = [bench.bin / "piper-run", plans[name], "--data", data, "--steps", steps, "--checkpoint", folder, "--keep", 0, "--log", log,
                   "--save-best", best, "--threads", 1, *flags]
        said = bench.call((["mpirun", "--oversubscribe", "-n", world] if launch == "mpirun" else []) + command)
        with safe_open(best, "pt") as file:
            return [row["eval_loss"] for row in evaluations(log).values()], file.metadata(), said

    def expect(what, found, loss, step):
        if (found.get("format"), found.get("eval_loss") and float(found["eval_loss"]), found.get("step")) != ("pt", loss, str(step)):
            faults.append(f"{what}: the file says {found}, not the loss {loss!r} of step {step}")
    first, found, _ = run("slow", 2)
    expect("a run that begins", found, min(first), 1 + first.index(min(first)))
    kept = best.read_bytes()
    worse, _, said = run("wild", 4, "--resume")
    if not min(worse) > min(first):
        faults.append(f"the test is wrong: the losses {worse} are not all larger than {min(first)}")
    if best.read_bytes() != kept or "only a smaller loss replaces it" not in said:
        faults.append(f"a resumed run replaces better weights: {said[-500:]}")
    better, found, _ = run("slow", 4, "--resume=exact:2")
    expect("smaller losses", found, min(better), 3 + better.index(min(better)))
    others, found, said = run("wild", 5, "--resume", "--eval-batches", 1)
    expect("another evaluation", found, min(others), 5 + others.index(min(others)))
    if "an evaluation of other samples" not in said:
        faults.append(f"nothing is said of another evaluation: {said[-500:]}")
    best.unlink()
    worse, found, _ = run("wild", 6, "--resume")
    expect("a file that is gone", found, min(worse), 6 + worse.index(min(worse)))
    shutil.rmtree(folder)
    first, found, _ = run("wild", 1)
    expect("a run that begins, over the file of another one", found, min(first), 1)
    return faults


def losses_faults(args):
    from safetensors.torch import save_file
    bench, faults = harness.Bench(args.bin, args.work, "pt2"), []
    samples = evaluated_losses.BATCH * evaluated_losses.BATCHES
    data, path = evaluated_losses.draw(samples), bench.work / "losses.safetensors"
    save_file(data, path)
    first = {name: t[:evaluated_losses.BATCH] for name, t in data.items()}
    for name in evaluated_losses.LOSSES | evaluated_losses.REFUSED:
        module = evaluated_losses.model(name)
        file = bench.export(module, {k: v[-3:].clone() for k, v in data.items()}, f"loss_{name}.pt2", loss=name)
        with torch.no_grad():
            wanted = [module(**part).item() for part in (data, first)]
        for strategy, text in evaluated_losses.STRATEGIES.items():
            tag = f"losses.{name}-{strategy}"
            (bench.work / f"{tag}.yaml").write_text(text)
            plans, log = bench.work / f"{tag}.plans", bench.work / f"{tag}.jsonl"
            status, said = bench.end_of([bench.bin / "piperc", file, "--strategy", bench.work / f"{tag}.yaml", "-o", plans])
            if name in evaluated_losses.REFUSED or (name, strategy) in evaluated_losses.REFUSED_HERE:
                if status != 1 or "error[P0335]" not in said:
                    faults.append(f"{tag}: piperc exits with {status}, not P0335: {said[-300:]}")
                continue
            if status:
                faults.append(f"{tag}: piperc exits with {status}: {said[-300:]}")
                continue
            log.unlink(missing_ok=True)
            run = [bench.bin / "piper-run", plans, "--threads", 1, "--log", log]
            bench.call([*run, "--eval-only", "--eval-data", path])
            found = [row["eval_loss"] for row in evaluations(log).values()]
            bench.call([*run, "--data", path, "--steps", 1])
            found += [row["loss"] for row in map(json.loads, log.read_text().splitlines()) if "loss" in row]
            faults += [f"{tag}: the {what} is {here!r}, of PyTorch {there!r}" for what, here, there in
                       zip(("evaluation", "loss of a step"), found, wanted) if not apart(here, there) <= 2 * TOLERANCE]
    return faults


def cases(args):
    yield "losses", None
    yield "refusals", ZooModel(args, "mlp", "one")
    yield "resumed_best", ZooModel(args, "gpt", "pp2_1f1b")
    for name in ROWS:
        yield name, SmallModels(args, table.ROWS[name], {})
    for name in ("interleaved_1f1b_params", "1f1b_dp"):
        yield f"{name}-bf16", SmallModels(args, table.ROWS[name], BF16)
    for model, composition in ZOO:
        yield f"{model}-{composition}", ZooModel(args, model, composition)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--launch", choices=("local", "mpirun"), default="local")
    args = parser.parse_args()
    failed = count = 0
    for tag, case in cases(args):
        if (args.fast and tag not in FAST) or (args.only and tag not in args.only.split(",")):
            continue
        count += 1
        try:
            if tag == "losses":
                faults = losses_faults(args)
            elif tag == "refusals":
                faults = refusal_faults(case)
            else:
                faults = resumed_best_faults(case, args.launch) if tag == "resumed_best" else faults_of(case, tag, args.launch)
        except AssertionError as error:
            faults = [str(error)[-800:]]
        print(f"{'FAILED' if faults else 'ok    '} {tag}" + "".join(f"\n       {f}" for f in faults), flush=True)
        failed += bool(faults)
    print(f"{count - failed} of {count} cases agree")
    sys.exit(1 if failed or not count else 0)


if __name__ == "__main__":
    main()
