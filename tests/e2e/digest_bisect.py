#!/usr/bin/env python3
"""`piper-run --digest` and `piper-plan bisect`: equal runs have equal digests, also in several processes; a weight with one
bit flipped is found at the first operator that reads it, under the same strategy and under another one.

  digest_bisect.py --bin BIN --work DIR [--no-mpirun]
"""
import argparse
import json
import re
import shutil
import subprocess
import sys

import torch
from safetensors.torch import load_file, save_file

import gpu_ranks
from checks import check, faults
import harness

STEPS = 2


class Digests:
    def __init__(self, args):
        self.bench = harness.Bench(args.bin, args.work)
        self.mpirun = not args.no_mpirun

    def plans(self, model, composition, optimizer="adamw"):
        return self.bench.compile(model, harness.strategy_text(model, composition, optimizer), f"{model}-{composition}-{optimizer}")

    def run(self, plans, model, name, *flags, launch=()):
        """The file of digests."""
        path = self.bench.work / f"{name}.digests"
        path.unlink(missing_ok=True)
        self.bench.call([*launch, self.bench.bin / "piper-run", plans, "--data", self.bench.work / f"{model}.safetensors", "--steps", STEPS,
                         "--threads", 1, "--digest", path, *flags])
        return path

    def bisect(self, a, b, *flags):
        done = subprocess.run([str(w) for w in (self.bench.bin / "piper-plan", "bisect", a, b, *flags)], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def flipped(self, model, tensor):
        """The model's weights with the top bit of one element's mantissa flipped."""
        weights = self.bench.work / f"{model}-{tensor}.safetensors"
        source = self.plans(model, "one") / "weights" / "model.safetensors"
        tensors = load_file(source)
        tensors[tensor].view(-1).view(torch.int32)[3] ^= 1 << 22
        save_file(tensors, weights)
        return weights


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def one_bundle(digests):
    plans = digests.plans("mlp", "mb4")
    first, second = (digests.run(plans, "mlp", name) for name in ("first", "second"))
    check("two runs of a bundle write the same bytes", first.read_bytes() == second.read_bytes())
    code, text = digests.bisect(first, second)
    check("no difference is found between them", code == 0 and text.startswith("no difference"), text)

    rows = lines(first)[1:]
    forward = [r for r in rows if r["step"] == 1 and r["value"] == "tanh_1" and r["kernel"] == "tanh"]
    samples = sorted(tuple(r["samples"]) for r in forward)
    check("an operator's value is there once for each piece of the batch", samples == [(0, 2), (2, 2), (4, 2), (6, 2)], f"{samples}")
    check("it names the line of Python", all(re.fullmatch(r"zoo\.py:\d+", r["line"]) for r in forward), f"{forward[:1]}")
    check("both steps are there", {r["step"] for r in rows} == {1, 2})
    some = digests.run(plans, "mlp", "some", "--digest-steps", "2..2")
    check("steps can be chosen", lines(some)[1:] == [r for r in rows if r["step"] == 2])
    folder = digests.bench.work / "folder"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for step in (1, 2):
        digests.run(plans, "mlp", f"folder/{step}", "--digest-steps", step)
    code, text = digests.bisect(first, folder)
    check("a folder of files is compared like one", code == 0 and " 0 differ, 0 are not compared" in text, text)

    code, text = digests.bisect(first, digests.run(plans, "mlp", "flipped", "--load", digests.flipped("mlp", "layers.2.weight")))
    check("a flipped weight is found at the first operator that reads it",
          code == 1 and re.search(r"first difference is in step 1: linear of linear_2 \(layers\.2\) at zoo\.py:\d+", text), text)
    check("with rank, pass and samples", re.search(r"rank 0, instruction 0, call 4, output 0, \S+\.F on samples 0 to 1", text), text)


def bits(digests):
    """Recording changes nothing of the training."""
    plans = digests.plans("gpt_dropout", "pp2_1f1b")
    saved = []
    for name, flags in (("plain", ()), ("recorded", ("--digest", digests.bench.work / "bits.digests"))):
        path = digests.bench.work / f"{name}.safetensors"
        digests.bench.call([digests.bench.bin / "piper-run", plans, "--data", digests.bench.work / "gpt_dropout.safetensors", "--steps", STEPS,
                            "--threads", 1, "--save", path, *flags])
        saved.append(path.read_bytes())
    check("a run that records trains to the same bits", saved[0] == saved[1])


def strategies(digests):
    # Adam's first steps have the size of the rate, whatever that of a gradient is: roundings would be as large.
    plans = {name: digests.plans("gpt", name, "sgd") for name in ("mb4", "dp2", "pp2_1f1b", "pp2_dp2", "pp4_zb_v")}
    files = {name: digests.run(plans[name], "gpt", name) for name in plans}
    for name in ("dp2", "pp2_1f1b", "pp2_dp2", "pp4_zb_v"):
        code, text = digests.bisect(files["mb4"], files[name], "--tolerance", "1e-4")
        equal = int((re.search(r"(\d+) values are equal", text) or [0, 0])[1])
        check(f"{name} computes what one rank does", code == 0 and equal > 100, f"{code} {text}")
    code, text = digests.bisect(files["mb4"], files["pp2_1f1b"])
    check("the same pieces give the same bits forward", code == 0 or re.search(r"\.B", text), text)
    weights = digests.flipped("gpt", "h.2.proj.weight")
    for name, tolerance in (("pp2_1f1b", "1e-5"), ("pp2_dp2", "1e-5")):
        other = digests.run(plans[name], "gpt", f"{name}-flipped", "--load", weights)
        code, text = digests.bisect(files["mb4"], other, "--tolerance", tolerance)
        check(f"{name}: a flipped weight is found where it is read",
              code == 1 and re.search(r"first difference is in step 1: linear of \S+ \(h\.2\.proj\) at zoo\.py", text), text)


def processes(digests):
    plans = digests.plans("gpt", "pp2_dp2")
    local = digests.run(plans, "gpt", "local")
    launched = [("piper-launch", (digests.bench.bin / "piper-launch",), ("--comm", "ucx"))]
    if digests.mpirun:
        launched.append(("mpirun", ("mpirun", "--oversubscribe", "-n", harness.world_size("pp2_dp2")), ()))
    for name, launch, flags in launched:
        file = digests.run(plans, "gpt", name, *flags, launch=launch)
        check(f"{name}: the file is that of ranks in one process", file.read_bytes() == local.read_bytes())


def gpus(digests):
    """Call by call on the stand-in for GPUs, whose kernels are the CPU's."""
    bench = digests.bench
    plans = bench.compile("gpt", harness.strategy_text("gpt", "pp2_1f1b", "adamw"), "gpt-cuda", "--device", "cuda")
    cpu, gpu = digests.run(plans, "gpt", "on-cpu"), bench.work / "on-gpu.digests"
    code, lines_said = gpu_ranks.run("local", bench.bin / "piper-run-standin", 2, bench.work, plans, "--data", bench.work / "gpt.safetensors", "--steps", STEPS,
                                     "--threads", 1, "--digest", gpu)
    check("ranks on GPUs record", code == 0, f"{code} {lines_said}")
    code, text = digests.bisect(cpu, gpu)
    check("what CPU ranks do", code == 0 and " 0 differ, 0 are not compared" in text, text)


def refusals(digests):
    work = digests.bench.work
    good = digests.run(digests.plans("mlp", "one"), "mlp", "good")
    text = good.read_text().splitlines()
    damaged = {
        "empty": "",
        "not_digests": '{"step": 1}\n',
        "other_version": text[0].replace('"piper_digest":1', '"piper_digest":9') + "\n",
        "cut_line": "\n".join(text[:3] + [text[3][:40], text[4]]) + "\n",
        "bad_digest": "\n".join([text[0], re.sub(r'"digest":"\w+"', '"digest":"xyz"', text[1])]) + "\n",
        "negative_rank": "\n".join([text[0], text[1].replace('"rank":0', '"rank":-1')]) + "\n",
    }
    for name, what in damaged.items():
        path = work / f"{name}.digests"
        path.write_text(what)
        code, said = digests.bisect(good, path)
        check(f"{name} is refused", code == 2 and "R0812" in said and said.count("\n") == 1, f"{code} {said}")
    code, said = digests.bisect(good, work / "nowhere.digests")
    check("a missing file is refused", code == 2 and "R0812" in said, f"{code} {said}")
    other = work / "no_values.digests"
    other.write_text(text[0] + "\n")
    code, said = digests.bisect(good, other)
    check("runs without a common value are refused", code == 2 and "R0813" in said, f"{code} {said}")
    cut = work / "cut.digests"
    cut.write_text("\n".join(text)[:-20])
    code, said = digests.bisect(good, cut)
    check("a run that was ended while it wrote is compared as far as it came", code == 0, f"{code} {said}")
    (work / "empty_folder").mkdir(exist_ok=True)
    code, said = digests.bisect(good, work / "empty_folder")
    check("an empty folder is refused", code == 2 and "R0812" in said, f"{code} {said}")
    done = subprocess.run([str(w) for w in (digests.bench.bin / "piper-run", digests.plans("mlp", "one"), "--data", work / "mlp.safetensors", "--digest", work / "no/where")],
                          capture_output=True, text=True)
    check("a file that cannot be written is refused", done.returncode == 1 and "R0601" in done.stderr, done.stderr)
    done = subprocess.run([str(digests.bench.bin / "piper-run"), "plans", "--digest", "x", "--digest-steps", "3..1"], capture_output=True, text=True)
    check("a range of steps that ends before it begins is refused", done.returncode == 2, done.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--no-mpirun", action="store_true")
    args = parser.parse_args()
    digests = Digests(args)
    for part in (one_bundle, bits, strategies, processes, gpus, refusals):
        part(digests)
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
