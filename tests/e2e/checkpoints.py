#!/usr/bin/env python3
"""A run that stops, however it stops, goes on to the bits of one that never did; any strategy reads any other's checkpoint.

  checkpoints.py --bin BIN --work DIR [bits kinds kill pairs all_pairs damage refusals export gradients mpirun gpus]

The checkpoints are read here by a reader of its own: the manifest as JSON, the shards by the safetensors package.
"""
import argparse
import dataclasses
import fcntl
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import huggingface_hub
import numpy
import torch
from safetensors import safe_open

import gpu_ranks
from checks import check, faults
import harness

STEPS = 6


def strategies(model):
    """Name -> (text, ranks)."""
    def text(name, more=""):
        return harness.strategy_text(model, name, "adamw").replace("bucket_size: 0.05", "bucket_size: 0.05" + more)
    return {"one": (text("one"), 1), "dp2": (text("dp2"), 2), "zero1": (text("dp2", ", shard_optimizer: true"), 2),
            "zero3": (text("dp2_mb2", ", shard_params: true"), 2), "pp2": (text("pp2_1f1b"), 2), "pp2_dp2": (text("pp2_dp2"), 4)}


def expert_strategies(model):
    import shards_match_torch
    return {name: (shards_match_torch.strategy_text(shards_match_torch.STRATEGIES[name], model, "adamw"), 2) for name in ("ep2", "ep2_parameters")}


def tensors_of(checkpoint):
    """(kind, name) -> the bytes of the whole tensor, and its type and shape."""
    manifest = json.loads((checkpoint / "MANIFEST.json").read_text())
    shards = [safe_open(checkpoint / file["file"], "pt") for file in manifest["files"]]
    result = {}
    for tensor in manifest["tensors"]:
        parts = [shards[part["file"]].get_tensor(part["key"]).contiguous().view(-1) for part in tensor["parts"]]
        for part, values in zip(tensor["parts"], parts):
            assert len(values) == part["flat"][1] - part["flat"][0], tensor["tensor"]
        whole = b"".join(values.view(dtype_of_bytes()).numpy().tobytes() for values in parts)
        if "cut" in tensor:
            whole = row_major(whole, tensor["shape"], **tensor["cut"])
        result[tensor["kind"], tensor["tensor"]] = (whole, tensor["dtype"], tensor["shape"])
    return result


def row_major(whole, shape, axis, parts, segments=1, extents=None):
    """Elements that were counted part by part along an axis, or along segments of it."""
    extents = extents or [shape[axis] // segments] * segments
    of_parts = numpy.frombuffer(whole, numpy.uint8).reshape(parts, *shape[:axis], shape[axis] // parts, *shape[axis + 1:], -1)
    ends = numpy.cumsum(extents)[:-1] // parts
    return numpy.concatenate([part for segment in numpy.split(of_parts, ends, axis=axis + 1) for part in segment], axis=axis).tobytes()


def dtype_of_bytes():
    import torch
    return torch.uint8


def difference(a, b):
    """The first tensor that differs, or nothing."""
    if a.keys() != b.keys():
        return f"only one has {sorted(a.keys() ^ b.keys())[:3]}"
    return next((f"{name}" for name in a if a[name] != b[name]), "")


class Runs:
    def __init__(self, bench, model):
        self.bench, self.model = bench, model
        self.plans, self.ranks = {}, {}

    def compile(self, name, text, ranks, *flags):
        self.plans[name], self.ranks[name] = self.bench.compile(self.model, text, f"{self.model}-{name}", "--checkpoints", *flags), ranks

    def settings(self, folder, *flags):
        data = self.bench.work / f"{self.model}.safetensors"
        return ["--data", data, "--sampling", "shuffled", "--threads", 1, "--checkpoint", folder, *flags]

    def command(self, name, folder, *flags, launch="local"):
        command = [self.bench.bin / "piper-run", self.plans[name], *self.settings(folder, *flags)]
        if launch == "mpirun":
            command = ["mpirun", "--oversubscribe", "-n", self.ranks[name], *command]
        return [str(word) for word in command]

    def run(self, name, folder, *flags, launch="local"):
        return self.bench.call(self.command(name, folder, *flags, launch=launch))

    def fails(self, name, folder, *flags):
        """Exit status and text of a run that is refused."""
        return self.bench.end_of(self.command(name, folder, *flags))

    def fresh(self, name):
        folder = self.bench.work / f"{self.model}-{name}.checkpoints"
        shutil.rmtree(folder, ignore_errors=True)
        return folder


def losses_of(log):
    return {row["step"]: row["loss"] for row in map(json.loads, log.read_text().splitlines()) if "loss" in row}


def rows_of(log):
    """All of a log that does not depend on the clock."""
    wanted = ("step", "loss", "lr", "grad_norm", "loss_scale", "skipped", "samples_fingerprint")
    return [{key: row[key] for key in wanted if key in row} for row in map(json.loads, log.read_text().splitlines()) if "loss" in row]


def step(folder, number):
    return folder / f"step-{number:09d}"


def whole_run(runs, name, launch="local"):
    """Folder, log and weights of a run that nothing stopped."""
    folder = runs.fresh(f"{name}-whole")
    log, weights = folder.with_suffix(".jsonl"), folder.with_suffix(".weights")
    runs.run(name, folder, "--steps", STEPS, "--every", 2, "--keep", 0, "--log", log, "--save", weights, launch=launch)
    return folder, log, weights


def compare(label, whole, folder, log, weights):
    check(f"{label}: losses", rows_of(log) == rows_of(whole[1]), f"{rows_of(log)} {rows_of(whole[1])}")
    check(f"{label}: weights", weights.read_bytes() == whole[2].read_bytes())
    differs = difference(tensors_of(step(whole[0], STEPS)), tensors_of(step(folder, STEPS)))
    check(f"{label}: state", not differs, differs)


def peaks(plans):
    return [rank["peak_bytes"] for rank in json.loads((plans / "manifest.json").read_text())["ranks"]]


def check_memory(runs, name, whole):
    """The copy that a shard is written from is in the predicted peak: its bytes, and where another rank saves the counts of training,
    those and their place in the header as well."""
    folder, log, _ = whole
    harness.require_predicted_memory(runs.plans[name], list(map(json.loads, log.read_text().splitlines())))
    without = peaks(runs.bench.compile(runs.model, runs.plans[name].with_suffix(".yaml").read_text(), f"{runs.model}-{name}-unsaved"))
    predicted = [a - b for a, b in zip(peaks(runs.plans[name]), without, strict=True)]
    manifest = json.loads((step(folder, STEPS) / "MANIFEST.json").read_text())
    shards = {int(file["file"].split("-")[1]): file["bytes"] for file in manifest["files"]}
    counts = 128 * sum(tensor["kind"] == "training" for tensor in manifest["tensors"])
    check(f"{name}: predicted copies", predicted[0] == shards[0] and
          all(shards.get(rank, 0) <= bytes <= shards.get(rank, 0) + counts for rank, bytes in enumerate(predicted)), f"{predicted} {shards}")


def bits(runs, launch="local"):
    for name in runs.plans:
        whole = whole_run(runs, name, launch)
        if launch == "local":
            check_memory(runs, name, whole)
        folder = runs.fresh(f"{name}-resumed")
        log, weights = folder.with_suffix(".jsonl"), folder.with_suffix(".weights")
        runs.run(name, folder, "--resume", "--steps", 3, "--log", log, launch=launch)
        runs.run(name, folder, "--resume=latest-valid", "--steps", STEPS, "--log", log, "--save", weights, launch=launch)
        compare(f"{name} {launch}: 3 steps and the rest", whole, folder, log, weights)
        same = (step(whole[0], STEPS) / "MANIFEST.json").read_text() == (step(folder, STEPS) / "MANIFEST.json").read_text()
        check(f"{name} {launch}: manifests name their own runs", not same)


def state_of_all_kinds(bench):
    """Optimizers, masters, loss scales with steps that are left out, running statistics, frozen parameters."""
    import overflow_leaves_steps_out as overflow
    import precision_matches_autocast as precision
    import zoo

    def gpt(composition, optimizer, more="", **precisions):
        text = precision.strategy_text("gpt_dropout", precision.COMPOSITIONS[composition], precisions or None, optimizer)
        ranks = precision.COMPOSITIONS[composition].stages * precision.COMPOSITIONS[composition].replicas
        return text.replace(f"{{batch: {harness.BATCH}}}", f"{{batch: {harness.BATCH}{more}}}"), ranks

    runs = Runs(bench, "gpt_dropout")
    adam = gpt("dp2", "adamw")
    cases = {"sgd": gpt("zero1", "sgd"), "adam": (adam[0].replace("{adamw:", "{adam:"), adam[1]), "clipped": gpt("clip", "adamw"),
             "bf16-zero1": gpt("zero1", "adamw", compute="bf16"), "bf16-zero2": gpt("zero2", "adamw", compute="bf16"),
             "bf16-zero3": gpt("pp2_zero3", "adamw", compute="bf16"), "bf16-sgd": gpt("pp2_dp2", "sgd", compute="bf16"),
             "frozen": gpt("zero3", "adamw", ', freeze: ["*wpe*", "h.0.*"]')}
    for name, case in cases.items():
        runs.compile(name, *case)
    bits(runs)
    # Pieces of other sizes round otherwise in bf16: losses are compared in f32.
    pairs(runs, [("bf16-zero1", "bf16-zero3"), ("bf16-zero3", "bf16-zero2")], tolerance=None)

    zoo.MODELS[overflow.MODEL] = dataclasses.replace(zoo.MODELS["mlp"], draw=overflow.draw, steps=overflow.STEPS)
    scaled = Runs(bench, overflow.MODEL)
    for composition in ("one", "zero1", "pp2_zero3"):
        c = precision.COMPOSITIONS[composition]
        scaled.compile(composition, precision.strategy_text(overflow.MODEL, c, {"compute": "f16", "loss_scale": "dynamic"}, "adamw"), c.stages * c.replicas)
    bits(scaled)
    skipped = [row["skipped"] for row in rows_of(bench.work / f"{overflow.MODEL}-one-whole.jsonl")]
    check("a step is left out in front of the checkpoint or behind it", skipped[-1] > 0, str(skipped))

    statistics = Runs(bench, "normed")
    for composition in ("one", "dp2_mb2", "pp2_1f1b"):
        statistics.compile(composition, harness.strategy_text("normed", composition, "sgd"), harness.world_size(composition))
    bits(statistics)


def gradients(runs):
    """--save-gradients has those of the first step that a run does, also of one that goes on."""
    name = "zero3"
    folder = runs.fresh(f"{name}-gradients")
    runs.run(name, folder, "--steps", 2, "--every", 1)
    saved = {}
    for steps, flags in ((1, ["--load", folder.with_suffix(".two")]), (3, ["--resume"])):
        path = saved[steps] = folder.with_suffix(f".gradients{steps}")
        path.unlink(missing_ok=True)
        if steps == 1:
            runs.bench.call([runs.bench.bin / "piper-plan", "checkpoint", "export", folder, "-o", flags[1]])
        runs.run(name, runs.fresh("first") if steps == 1 else folder, "--steps", steps, "--save-gradients", path, *flags)
        check(f"--save-gradients, {' '.join(flags[:1])}: the file is there", path.exists())
    with safe_open(saved[1], "np") as first, safe_open(saved[3], "np") as third:
        names = sorted(third.keys())
        check("--save-gradients: the same tensors", names == sorted(first.keys()) and names)
        # The same weights, the samples and the dropout of another step.
        check("--save-gradients: of another step", any(not numpy.array_equal(first.get_tensor(n), third.get_tensor(n)) for n in names))


def on_gpus(bench, model):
    """Ranks on the stand-ins' GPUs, with the CPU's kernels: they save and go on as CPU ranks do, which read their checkpoints, and
    they read those of CPU ranks."""
    runs, program = Runs(bench, model), bench.bin / "piper-run-standin"
    for name in ("pp2_dp2", "zero1"):
        text, ranks = strategies(model)[name]
        runs.compile(f"{name}-cuda", text, ranks, "--device", "cuda")

    def on_gpu(how, name, folder, *flags):
        status, lines = gpu_ranks.run(how, program, runs.ranks[name], bench.work, runs.plans[name], *runs.settings(folder, *flags))
        check(f"{name} {how}: runs", status == 0, lines)

    for name in runs.plans:
        whole = whole_run(runs, name)
        for how in ("local", "nccl", "processes"):
            folder, other = runs.fresh(f"{name}-{how}"), runs.fresh(f"{name}-{how}-on-cpu")
            log, weights = folder.with_suffix(".jsonl"), folder.with_suffix(".weights")
            on_gpu(how, name, folder, "--resume", "--steps", 3, "--log", log)
            shutil.copytree(folder, other)
            shutil.copy(log, other.with_suffix(".jsonl"))
            graphs = ["--cuda-graph"] if how == "nccl" else []
            on_gpu(how, name, folder, "--resume", "--steps", STEPS, "--log", log, "--save", weights, *graphs)
            compare(f"{name} {how}: 3 steps and the rest", whole, folder, log, weights)
            log, weights = other.with_suffix(".jsonl"), other.with_suffix(".weights")
            runs.run(name, other, "--resume", "--steps", STEPS, "--log", log, "--save", weights)
            compare(f"{name} {how}: 3 steps, the rest on the CPU", whole, other, log, weights)
        folder = runs.fresh(f"{name}-from-cpu")
        shutil.copytree(whole[0], folder)
        weights = folder.with_suffix(".weights")
        on_gpu("processes", name, folder, "--resume=exact:2", "--steps", STEPS, "--save", weights)
        check(f"{name}: 2 steps on the CPU, the rest on GPUs", weights.read_bytes() == whole[2].read_bytes())


def by_the_clock(runs):
    """An interval that is always over: all ranks save after each step."""
    name = "pp2_dp2" if "pp2_dp2" in runs.plans else next(iter(runs.plans))
    folder = runs.fresh(f"{name}-clock")
    runs.run(name, folder, "--steps", STEPS, "--every-minutes", 1e-7, "--keep", 0)
    found = sorted(path.name for path in folder.glob("step-*"))
    check(f"{name}: --every-minutes", found == [f"step-{n:09d}" for n in range(1, STEPS + 1)], str(found))
    runs.run(name, folder, "--steps", STEPS, "--resume", "--keep", 2)
    found = sorted(path.name for path in folder.glob("step-*"))
    check(f"{name}: --keep of a run without steps", found == [f"step-{n:09d}" for n in range(STEPS - 1, STEPS + 1)], str(found))


def kill(runs):
    """SIGKILL at a step, several times in a run."""
    name = "pp2_dp2" if "pp2_dp2" in runs.plans else next(iter(runs.plans))
    whole = whole_run(runs, name)
    folder = runs.fresh(f"{name}-killed")
    log, weights = folder.with_suffix(".jsonl"), folder.with_suffix(".weights")
    flags = ["--resume", "--every", 1, "--steps", STEPS, "--log", log, "--save", weights]
    killed = 0
    for at in range(1, STEPS):
        log.unlink(missing_ok=True)
        process = subprocess.Popen(runs.command(name, folder, *flags), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not (log.exists() and any(n >= at for n in losses_of_partial(log))):
            time.sleep(0.002)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.wait()
    runs.run(name, folder, *flags)
    losses = losses_of(log)
    check(f"{name}: {killed} of {STEPS - 1} runs were killed", killed > 0)
    check(f"{name}: killed runs leave the losses", all(losses_of(whole[1])[n] == loss for n, loss in losses.items()), str(losses))
    differs = difference(tensors_of(step(whole[0], STEPS)), tensors_of(step(folder, STEPS)))
    check(f"{name}: killed runs leave the state", not differs, differs)
    check(f"{name}: and the weights", not weights.exists() or weights.read_bytes() == whole[2].read_bytes())
    left = [path.name for path in folder.iterdir() if not (path.name.startswith("step-") and ".tmp-" not in path.name or path.name == "LOCK")]
    check(f"{name}: nothing is left in the folder", not left, str(left))
    check(f"{name}: three are kept", len(list(folder.glob("step-*"))) == 3, str(sorted(folder.iterdir())))


def losses_of_partial(log):
    """Steps of a log that is being written."""
    steps = []
    for line in log.read_text().splitlines():
        try:
            steps.append(json.loads(line).get("step", 0))
        except json.JSONDecodeError:
            pass
    return steps


def order_of_sums(runs, name):
    """The digest by which `piper-plan verify` says in which order a plan adds."""
    text = runs.bench.call([runs.bench.bin / "piper-plan", "verify", runs.plans[name]])
    return next(line.split()[-1] for line in text.splitlines() if line.startswith("order of sums "))


def goes_on(runs, name, folder):
    """Losses of the two steps after a checkpoint of two, and the weights after them."""
    log, weights = folder.with_suffix(".jsonl"), folder.with_suffix(".safetensors")
    log.unlink(missing_ok=True)
    runs.run(name, folder, "--resume", "--steps", 4, "--log", log, "--save", weights)
    losses = losses_of(log)
    return [losses[3], losses[4]], weights.read_bytes()


def pairs(runs, only=None, tolerance=1e-5):
    made, after, orders = {}, {}, {}
    for name in runs.plans:
        if only is not None and all(name != source for source, _ in only):
            continue
        made[name] = runs.fresh(f"{name}-from")
        runs.run(name, made[name], "--steps", 2)
        whole = runs.fresh(f"{name}-goes-on")
        shutil.copytree(made[name], whole)
        after[name] = goes_on(runs, name, whole)
    for name in runs.plans:
        orders[name] = order_of_sums(runs, name)
    alike = [f"{target} after {source}" for source in made for target in runs.plans if source != target and orders[source] == orders[target]]
    print(f"{runs.model}: pairs that add in one order: {', '.join(alike) or 'none'}", flush=True)
    for source in made:
        expected = tensors_of(step(made[source], 2))
        for target in runs.plans:
            if source == target or (only is not None and (source, target) not in only):
                continue
            folder = runs.fresh("pair")
            shutil.copytree(made[source], folder)
            runs.run(target, folder, "--resume", "--steps", 2)
            manifest = json.loads((step(folder, 2) / "MANIFEST.json").read_text())
            old = json.loads((step(made[source], 2) / "MANIFEST.json").read_text())
            differs = difference(expected, tensors_of(step(folder, 2)))
            fine = not differs and manifest["plan"] != old["plan"] and manifest["parent"] == old["digest"]
            check(f"{runs.model}: {target} reads the checkpoint of {source}", fine, differs or "it was not written anew")
            losses, weights = goes_on(runs, target, folder)
            if orders[source] == orders[target]:
                check(f"{runs.model}: and goes on to the same bits", (losses, weights) == after[source], f"{losses}, {after[source][0]}")
            elif tolerance is not None:
                close = all(abs(a - b) <= tolerance * abs(b) for a, b in zip(losses, after[source][0]))
                check(f"{runs.model}: and goes on to losses within {tolerance}", close, f"{losses}, {after[source][0]}")


TWELVE = {"one": ("one", ""), "mb4": ("mb4", ""), "dp2": ("dp2", ""), "zero1": ("dp2", ", shard_optimizer: true"),
          "zero2": ("dp2_mb2", ", shard_grads: true"), "zero3": ("dp2_mb2", ", shard_params: true"), "pp2": ("pp2_1f1b", ""),
          "pp4": ("pp4_1f1b", ""), "pp2_dp2": ("pp2_dp2", ""), "pp2_zero3": ("pp2_dp2", ", shard_params: true"),
          "pp2_nested": ("pp2_nested", ""), "pp4_zb_v": ("pp4_zb_v", "")}


def all_pairs(bench):
    """132 ordered pairs of twelve strategies."""
    runs = Runs(bench, "gpt_dropout")
    for name, (composition, more) in TWELVE.items():
        text = harness.strategy_text(runs.model, composition, "adamw").replace("bucket_size: 0.05", "bucket_size: 0.05" + more)
        runs.compile(name, text, harness.world_size(composition))
    pairs(runs)


def damage(runs):
    """Each file of the newest checkpoint: cut, a bit turned, gone, exchanged."""
    name = "zero3" if "zero3" in runs.plans else next(iter(runs.plans))
    source = runs.fresh(f"{name}-sound")
    runs.run(name, source, "--steps", 2, "--every", 1)
    folder = runs.fresh("damaged")
    for file in sorted(path.name for path in step(source, 2).iterdir()):
        for how in ("cut", "turned", "turned at the end", "gone", "link", "of the step before"):
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(source, folder)
            path = step(folder, 2) / file
            data = bytearray(path.read_bytes())
            if how == "cut":
                path.write_bytes(data[:-1])
            elif how.startswith("turned"):
                data[len(data) // 2 if how == "turned" else -3] ^= 4
                path.write_bytes(data)
            elif how == "gone":
                path.unlink()
            elif how == "link":
                path.unlink()
                path.symlink_to(step(source, 2) / file)
            else:
                path.write_bytes((step(folder, 1) / file).read_bytes())
            code, text = runs.fails(name, folder, "--resume=exact:2", "--steps", 3)
            named = file in text
            if how.startswith("turned") and file != "MANIFEST.json":
                named = named and "tensor '" in text
            check(f"{file} {how}: exact is refused", (code, named, "R0702" in text) == (83, True, True), f"{code} {text}")
            text = runs.run(name, folder, "--resume", "--steps", 3)
            check(f"{file} {how}: the one before is taken", "R0705" in text and "after step 1" in text, text)
    shutil.rmtree(folder)
    shutil.copytree(source, folder)
    for checkpoint in folder.glob("step-*"):
        (checkpoint / "MANIFEST.json").write_text("{}")
    code, text = runs.fails(name, folder, "--resume", "--steps", 3)
    check("all damaged: refused", code == 83 and "R0702" in text, f"{code} {text}")


def refusals(runs, other):
    name = next(iter(runs.plans))
    folder = runs.fresh("refused")
    runs.run(name, folder, "--steps", 2)
    cases = [("a folder with checkpoints, without --resume", [], 1, "R0704"), ("a step that is not there", ["--resume=exact:1"], 83, "R0702"),
             ("another seed", ["--resume", "--seed", 77], 84, "R0703"), ("another order of the data", ["--resume", "--sampling", "sequential"], 84, "R0703"),
             ("other data", ["--resume", "--data", other], 84, "R0703"), ("a word that is none", ["--resume=newest"], 2, "latest-valid"),
             ("a checkpoint behind the last step", ["--resume", "--steps", 1], 84, "R0703")]
    for what, flags, status, word in cases:
        command = runs.command(name, folder, "--steps", 3)
        for flag in ("--sampling", "--data", "--steps"):
            if flag in flags:
                del command[command.index(flag):command.index(flag) + 2]
        code, said = runs.bench.end_of([*command, *flags])
        check(f"{what}: refused", code == status and word in said, f"{code} {said}")
    text = harness.strategy_text(runs.model, "one", "sgd")
    runs.compile("sgd", text, 1)
    code, said = runs.fails("sgd", folder, "--resume", "--steps", 3)
    check("another optimizer: refused", code == 84 and "R0703" in said and "sgd" in said, f"{code} {said}")
    del runs.plans["sgd"]
    with open(folder / "LOCK", "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, said = runs.fails(name, folder, "--resume", "--steps", 3)
        check("a folder in use: refused", code == 1 and "R0704" in said, f"{code} {said}")
    file = folder / "file"
    file.write_text("")
    code, said = runs.fails(name, file, "--steps", 3)
    check("a folder that is a file: refused", code == 74 and "R0701" in said, f"{code} {said}")
    code, said = runs.fails(name, folder, "--resume", "--steps", 3, "--load", folder / "gone", "--adapters", folder / "gone")
    noted = said.count("note: the run continues from a checkpoint without files of weights: cannot read") == 1
    check("files of weights that are gone: a run that resumes does not need them", code == 0 and noted, f"{code} {said}")
    check("files of weights that are gone: the run says that it ignores them", "weights: --load and --adapters are ignored: " in said, said)
    said = runs.run(name, folder, "--resume", "--steps", 3, "--init", "normal:0.02")
    check("drawn weights: a run that resumes says that it ignores them", "weights: --init is ignored: " in said, said)


def export(runs):
    """piper-plan checkpoint, and --load of what it writes."""
    name = "zero3" if "zero3" in runs.plans else next(iter(runs.plans))
    folder = runs.fresh(f"{name}-exported")
    weights, out = folder.with_suffix(".weights"), folder.with_suffix(".safetensors")
    runs.run(name, folder, "--steps", 3, "--every", 1, "--save", weights)
    tool = runs.bench.bin / "piper-plan"
    listing = runs.bench.call([tool, "checkpoint", "ls", folder])
    check("ls tells three steps", all(f"step-{n:09d}" in listing for n in (1, 2, 3)), listing)
    check("verify", "3 checkpoints" in runs.bench.call([tool, "checkpoint", "verify", folder]))
    check("a checkpoint equals itself", "no difference" in runs.bench.call([tool, "checkpoint", "diff", step(folder, 3), step(folder, 3)]))
    done = subprocess.run([tool, "checkpoint", "diff", step(folder, 2), step(folder, 3)], stdout=subprocess.PIPE, text=True)
    check("diff names steps and tensors", "step: 2 against 3" in done.stdout and "param '" in done.stdout, done.stdout)
    runs.bench.call([tool, "checkpoint", "export", folder, "-o", out])
    with safe_open(weights, "np") as saved, safe_open(out, "np") as exported:
        names = sorted(exported.keys())
        same = all(numpy.array_equal(saved.get_tensor(n), exported.get_tensor(n)) for n in names)
        check("exported tensors are those of --save", same and names and set(names) <= set(saved.keys()))
    again = folder.with_suffix(".again")
    loaded = runs.fresh("loaded")
    runs.run(name, loaded, "--load", out, "--steps", 1, "--save", again)
    check("--load reads what export wrote", again.exists())
    export_in_files(runs, name, folder, out)
    shard = next(step(folder, 2).glob("shard-*"))
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    done = subprocess.run([tool, "checkpoint", "verify", folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    manifest = next(step(folder, 3).glob("*.json"))
    manifest.write_text(manifest.read_text()[:-9])
    done_ls = subprocess.run([tool, "checkpoint", "ls", folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check("ls tells the damaged one once, and exits with 1", done_ls.returncode == 1 and done_ls.stdout.count("damaged") == 1, done_ls.stdout)
    check("verify finds the damaged one", done.returncode == 1 and "R0705" in done.stdout and shard.name in done.stdout, done.stdout)


def export_in_files(runs, name, folder, whole):
    """Several files with an index: read by Hugging Face's reader and by --load, to the same losses as one file."""
    tool, out = runs.bench.bin / "piper-plan", folder.with_suffix(".files")
    shutil.rmtree(out, ignore_errors=True)
    said = runs.bench.call([tool, "checkpoint", "export", folder, "-o", out, "--max-shard-size", "100KB"])
    index = json.loads((out / "model.safetensors.index.json").read_text())
    files = sorted(set(index["weight_map"].values()))
    check("export in files: its size is the limit", len(files) > 2 and f"{len(files)} files in" in said and
          sorted(file.name for file in out.glob("*.safetensors")) == files, said)
    with safe_open(whole, "np") as one:
        bytes_of = {key: one.get_tensor(key).nbytes for key in one.keys()}
        sizes = {file: [bytes_of[key] for key, of in index["weight_map"].items() if of == file] for file in files}
        check("export in files: the limit holds", all(sum(size) <= 100_000 or len(size) == 1 for size in sizes.values()), sizes)
        check("export in files: every tensor once", index["weight_map"].keys() == bytes_of.keys() and
              index["metadata"]["total_size"] == sum(bytes_of.values()))
        read = torch.nn.Module()
        for key in one.keys():    # names with dots: a tree of modules, as the model has
            parent = read
            *path, leaf = key.split(".")
            for part in path:
                if part not in parent._modules:
                    parent.add_module(part, torch.nn.Module())
                parent = parent._modules[part]
            parent.register_buffer(leaf, torch.zeros(one.get_tensor(key).shape))
        huggingface_hub.load_torch_model(read, out)
        check("Hugging Face's reader reads it", all(numpy.array_equal(value, one.get_tensor(key)) for key, value in read.state_dict().items()))

    def first_losses(source):
        log = folder.with_suffix(".log")
        log.unlink(missing_ok=True)
        runs.run(name, runs.fresh("loaded"), "--load", source, "--steps", 2, "--log", log)
        return losses_of(log)
    check("--load of files: the losses of one file", first_losses(out) == first_losses(whole) == first_losses(out / "model.safetensors.index.json"))
    for what, damage, words in (("cut", lambda file: file.write_bytes(file.read_bytes()[:-1]), ("P0620", files[1])),
                                ("missing", lambda file: file.unlink(), ("P0622", files[1]))):
        damage(out / files[1])
        code, text = runs.fails(name, runs.fresh("loaded"), "--load", out, "--steps", 1)
        check(f"--load of files, one {what}: refused", code == 1 and all(word in text for word in words), f"{code} {text}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("parts", nargs="*")
    arguments = parser.parse_args()
    parts = arguments.parts or ["bits", "kinds", "kill", "pairs", "damage", "refusals", "export", "gradients"]
    runs = Runs(harness.Bench(arguments.bin, arguments.work), "gpt_dropout")
    for name, (text, ranks) in strategies(runs.model).items() if parts != ["gpus"] else ():
        runs.compile(name, text, ranks)
    for part in parts:
        if part == "bits":
            bits(runs)
            by_the_clock(runs)
        elif part == "kinds":
            state_of_all_kinds(runs.bench)
        elif part == "all_pairs":
            all_pairs(runs.bench)
        elif part == "gradients":
            gradients(runs)
        elif part == "mpirun":
            bits(runs, "mpirun")
        elif part == "gpus":
            on_gpus(runs.bench, runs.model)
        elif part == "kill":
            kill(runs)
        elif part == "pairs":
            pairs(runs)
            experts = Runs(runs.bench, "moe_dense")
            experts.compile("one", harness.strategy_text("moe_dense", "one", "adamw"), 1)
            for name, (text, ranks) in expert_strategies("moe_dense").items():
                experts.compile(name, text, ranks)
            pairs(experts)
        elif part == "damage":
            damage(runs)
        elif part == "refusals":
            other = pathlib.Path(arguments.work) / "other.safetensors"
            data = bytearray((runs.bench.work / f"{runs.model}.safetensors").read_bytes())
            data[-8] ^= 1
            other.write_bytes(data)
            refusals(runs, other)
        elif part == "export":
            export(runs)
        else:
            parser.error(f"no part {part}")
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
