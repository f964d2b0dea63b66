#!/usr/bin/env python3
"""Six plans of two to four ranks train on one GPU as a single rank does: what a machine with a GPU is asked for, in one command.

  train_on_gpu.py --plans DIR --bin BIN --strategies DIR                  # compiles them: wants piperc and torch, no GPU
  train_on_gpu.py --plans DIR --program PIPER_RUN --work DIR [--gpus N] [--only NAME ...] [--sanitizer-only]     # trains: wants no module of Python

Both halves may be asked for at once. Trained are, for each model, a single rank on the CPU and on a GPU, and each plan with all
its ranks on one GPU (`--comm local`): losses agree to TOLERANCE, relative, with the single rank's on the GPU, and that one's with
the CPU's. `--cuda-graph` and a second run give the same losses and weights, to the bit. Ranks that have a GPU each (`--comm nccl`)
train to the same losses where there are GPUs enough; so does a single rank, which says of NCCL that it is not missed: it has nobody to
call (gpu_nccl_test calls NCCL on one GPU); so do four local ranks on two GPUs. Last, two plans run under compute-sanitizer, where
there is one; --sanitizer-only leaves out what comes before.

--gpus: as many as `nvidia-smi -L` lists. On the stand-in for CUDA (piper-run-standin) it is how many that one pretends to have.
Without a GPU the last line says so, and the exit status is 0.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

STEPS = 4
TOLERANCE = 1e-5
# Strategy: the single rank that it is compared with, a value of --set each.
PLANS = {"1f1b": [], "zb_v": [], "zero3": [], "1f1b_data_parallel": ["clip_grad_norm=1.0", "lr_schedule={warmup: 20, cosine: {until: 400, to: 0.1}}"],
         "expert_parallel": ["model.batch=8"], "dualpipev_expert_parallel": []}
SINGLE = "single_device"
SANITIZED = ("1f1b", "expert_parallel")


def compile_plans(names, folder, bin_dir, strategies):
    """Each plan and its single rank, with data, under `folder`/STRATEGY."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
    import harness
    import zoo
    from safetensors.torch import save_file
    from strategies_train import model_of
    bench = harness.Bench(bin_dir, folder.parent / (folder.name + ".models"))
    for name in names:
        path, target = strategies / f"{name}.yaml", folder / name
        target.mkdir(parents=True, exist_ok=True)
        model = bench.exported(model_of(path))
        bench.call([bench.bin / "piperc", model, "--strategy", path, "--device", "cuda", "-o", target / "plans"])
        bench.call([bench.bin / "piperc", model, "--strategy", strategies / f"{SINGLE}.yaml", "--device", "cuda", "-o", target / "single",
                    *(word for value in PLANS[name] for word in ("--set", value))])
        batches = {json.loads((target / plans / "manifest.json").read_text())["batch"] for plans in ("plans", "single")}
        if len(batches) != 1:
            raise SystemExit(f"{name}: its single rank has another batch: {batches}")
        save_file(zoo.draw(model_of(path), batches.pop() * STEPS), target / "data.safetensors")
    print(f"compiled {len(names)} plans")


class Gpus:
    """piper-run on the plans, and what was wrong so far."""

    def __init__(self, program, plans, work, gpus):
        self.program, self.plans, self.work, self.gpus = program, plans, work, gpus
        self.failed = self.checked = 0
        work.mkdir(parents=True, exist_ok=True)

    def run(self, name, which, *options, gpus=1, steps=STEPS, under=()):
        """Exit status, what was said, losses, the bytes of the weights."""
        log, weights = self.work / "log.jsonl", self.work / "weights.safetensors"
        for file in (log, weights):
            file.unlink(missing_ok=True)
        visible = ",".join(map(str, range(gpus)))
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": visible, "PIPER_STANDIN_DEVICES": str(gpus)}
        done = subprocess.run([*map(str, under), self.program, self.plans / name / which, "--data", self.plans / name / "data.safetensors",
                               "--steps", str(steps), "--log", log, "--save", weights, *map(str, options)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment)
        rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return done.returncode, done.stdout, [row["loss"] for row in rows if "loss" in row], weights.read_bytes() if weights.exists() else b""

    def check(self, what, good, seen):
        self.checked += 1
        self.failed += not good
        print(f"{'ok    ' if good else 'FAILED'} {what}" + ("" if good else f": {seen}"), flush=True)

    def losses(self, what, run, expected):
        status, said, losses, _ = run
        worst = max((abs(a - b) / abs(b) for a, b in zip(losses, expected)), default=float("nan"))
        good = status == 0 and len(losses) == len(expected) == STEPS and worst <= TOLERANCE
        self.check(f"{what}: losses differ by {worst:.1e}", good, (status, said[-600:], losses, expected))

    def plan(self, name):
        world = json.loads((self.plans / name / "plans" / "manifest.json").read_text())["world_size"]
        on_gpu = ("--device", "cuda")
        cpu = self.run(name, "single")
        single = self.run(name, "single", *on_gpu)
        self.losses(f"{name}: a single rank on the GPU and on the CPU", single, cpu[2])
        for which, ranks in (("single", 1), ("plans", world)):
            plain = single if which == "single" else self.run(name, which, *on_gpu, "--comm", "local")
            if which == "plans":
                self.losses(f"{name}: {ranks} ranks on one GPU", plain, single[2])
            for what, options in (("run again", ()), ("by graphs", ("--cuda-graph",))):
                again = self.run(name, which, *on_gpu, "--comm", "local", *options)
                self.check(f"{name}: {ranks} ranks on one GPU, {what}: the same bits", again[0] == 0 and again[2:] == plain[2:] and bool(plain[3]),
                           (again[0], again[1][-600:], again[2], plain[2]))
        if self.gpus >= 2:
            self.losses(f"{name}: {world} ranks on two GPUs", self.run(name, "plans", *on_gpu, "--comm", "local", gpus=2), single[2])
        for which, ranks in (("single", 1), ("plans", world)):
            if self.gpus < ranks:
                print(f"left out: {name} over NCCL: it wants {ranks} GPUs, here are {self.gpus}")
                continue
            for options in ((), ("--cuda-graph",)):
                run = self.run(name, which, *on_gpu, "--comm", "nccl", *options, gpus=ranks)
                who = f"{ranks} ranks over NCCL" if ranks > 1 else "a single rank with --comm nccl"
                self.losses(f"{name}: {who}{', by graphs' if options else ''}", run, single[2])

    def sanitize(self, sanitizer, names):
        for name in names:
            under = (sanitizer, "--tool", "memcheck", "--error-exitcode", 99)
            status, said, losses, _ = self.run(name, "plans", "--device", "cuda", "--comm", "local", steps=1, under=under)
            self.check(f"{name} under compute-sanitizer", status == 0 and len(losses) == 1, (status, said[-2000:]))


def count_gpus():
    if not shutil.which("nvidia-smi"):
        return 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines()) if listed.returncode == 0 else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=pathlib.Path, help="default: WORK/plans")
    parser.add_argument("--bin", type=pathlib.Path)
    parser.add_argument("--strategies", type=pathlib.Path)
    parser.add_argument("--program", help="piper-run, or a name in BIN")
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--gpus", type=int)
    parser.add_argument("--only", nargs="+", choices=PLANS, default=list(PLANS))
    parser.add_argument("--sanitizer", default=shutil.which("compute-sanitizer"))
    parser.add_argument("--sanitizer-only", action="store_true")
    args = parser.parse_args()
    plans = args.plans or args.work / "plans"
    if args.strategies:
        compile_plans(args.only, plans, args.bin, args.strategies)
    if not args.program:
        return
    program = args.bin / args.program if args.bin and (args.bin / args.program).exists() else args.program
    gpus = Gpus(program, plans, args.work, count_gpus() if args.gpus is None else args.gpus)
    status, said, _, _ = gpus.run(args.only[0], "single", "--device", "cuda", gpus=min(gpus.gpus, 1))
    if gpus.gpus == 0:
        gpus.check("without a GPU one line says so", status == 1 and "R0106" in said and said.count("\n") == 1, (status, said))
        if gpus.failed:
            sys.exit(1)
        print("skipped: there is no GPU")
        return
    for name in [] if args.sanitizer_only else args.only:
        gpus.plan(name)
    if args.sanitizer:
        gpus.sanitize(args.sanitizer, [name for name in SANITIZED if name in args.only])
    else:
        print("left out: compute-sanitizer is not in PATH")
    print(f"{gpus.checked} checks, {gpus.failed} failed")
    sys.exit(1 if gpus.failed else 0)


if __name__ == "__main__":
    main()
