#!/usr/bin/env python3
"""Pipeline 2 x data parallel 2 over NCCL with a process for each rank, on the stand-ins: started with the variables that torchrun
sets and by mpirun, it trains to the CPU's bits; a rank that fails or is killed ends all others, with one message;
one that is asked to stop stops all after one step, with its checkpoint.

  processes_over_nccl.py --bin BIN --work DIR [--no-mpirun]
"""
import argparse
import json
import pathlib
import re
import shutil
import signal
import sys
import time

from safetensors.torch import load_file, save_file

import gpu_ranks
import harness

MODEL, WORLD, STEPS = "gpt", 4, 4
failed = 0


def check(what, good, seen=""):
    global failed
    failed += not good
    print(f"{'ok    ' if good else 'FAILED'} {what}" + ("" if good else f": {seen}"), flush=True)


def errors_of(lines):
    """The messages, with the lines that say where a rank's streams are."""
    found, goes_on = [], False
    for line in lines:
        begins = any(words in line for words in ("piper-run: error", "race:", "piper-run: stopped", "terminate called", "[c10d]"))
        if begins:
            found.append(line)
        elif goes_on and line.startswith("  stream "):
            found[-1] += "\n" + line
        goes_on = begins or (goes_on and line.startswith("  stream "))
    return found


def names_the_place(message):
    return all(re.search(words, message) for words in (r"rank \d+, step \d+", r"instr \d+ .*\.yaml:\d+"))


def trains(bench, program, plans, data, mpirun):
    def files(name):
        return bench.work / f"{name}.log", bench.work / f"{name}.weights"

    def flags(name):
        log, weights = files(name)
        weights.unlink(missing_ok=True)
        return ["--data", data, "--threads", 1, "--steps", STEPS, "--log", log, "--save", weights]

    def losses(name):
        return [row["loss"] for row in map(json.loads, files(name)[0].read_text().splitlines()) if "loss" in row]

    bench.call([bench.bin / "piper-run", plans, *flags("cpu")])
    for how in ["processes"] + ["mpirun"] * mpirun:
        for graphs in ([], ["--cuda-graph"]):
            what = f"{how}{', graphs' if graphs else ''}"
            status, lines = gpu_ranks.run(how, program, WORLD, bench.work, plans, *flags("gpu"), *graphs)
            check(f"{what}: trains", status == 0 and len(losses("gpu")) == STEPS, lines)
            if status == 0:
                check(f"{what}: losses", losses("gpu") == losses("cpu"), (losses("gpu"), losses("cpu")))
                check(f"{what}: weights", files("gpu")[1].read_bytes() == files("cpu")[1].read_bytes())
    status, lines = gpu_ranks.run("nccl", program, WORLD, bench.work, plans, *flags("own"), kernels="own")
    check("CUDA's kernels, one process: trains", status == 0, lines)
    status, lines = gpu_ranks.run("processes", program, WORLD, bench.work, plans, *flags("processes"), kernels="own")
    check("CUDA's kernels, processes: trains", status == 0, lines)
    if status == 0:
        check("CUDA's kernels: the same weights", files("own")[1].read_bytes() == files("processes")[1].read_bytes())


def one_message(what, statuses, lines, killed=None, code=3):
    ended = [status for rank, status in enumerate(statuses) if rank != killed]
    check(f"{what}: all end with {code}", ended == [code] * len(ended), (statuses, lines))
    errors = errors_of(lines)
    check(f"{what}: one message", len(errors) == 1, lines)
    check(f"{what}: it names rank, instruction and line", len(errors) == 1 and names_the_place(errors[0]), errors)


def fails(bench, program, plans, data, mpirun):
    """A label that is no class, in the third step: both ranks of the last stage find it."""
    manifest = json.loads((plans / "manifest.json").read_text())
    tensors = load_file(data)
    labels = next(name for name in tensors if name in ("labels", "targets"))
    tensors[labels][2 * manifest["batch"]:3 * manifest["batch"]] = 1 << 20
    wrong = bench.work / "wrong.safetensors"
    save_file(tensors, wrong)
    flags = ["--data", wrong, "--steps", STEPS, "--threads", 1]
    for graphs in ([], ["--cuda-graph"]):
        statuses, lines = gpu_ranks.Processes([program, plans, "--device", "cuda", *flags, *graphs], WORLD, bench.work, "own").wait()
        one_message(f"a wrong label{', graphs' if graphs else ''}", statuses, lines)
        check("  it is the cause", all("step 3" in line and "target" in line for line in errors_of(lines)), lines)
    if mpirun:
        status, lines = gpu_ranks.run("mpirun", program, WORLD, bench.work, plans, *flags, kernels="own")
        told = errors_of(lines)
        fine = status == 3 and told and all(names_the_place(line) and "target" in line for line in told)
        check("a wrong label, mpirun: the cause alone is told", fine, (status, lines))


def dies(bench, program, plans, data):
    for victim in (3, 0):
        log = bench.work / "killed.log"
        log.unlink(missing_ok=True)
        command = [program, plans, "--device", "cuda", "--threads", 1, "--data", data, "--steps", 1000000, "--log", log]
        ranks = gpu_ranks.Processes(command, WORLD, bench.work)
        while ranks.processes[victim].poll() is None and not (log.exists() and log.read_text().count("\n") >= 2):
            time.sleep(0.01)
        ranks.processes[victim].kill()
        statuses, lines = ranks.wait()
        one_message(f"rank {victim} is killed", statuses, lines, killed=victim, code=76)


def stops(bench, program, plans, data):
    """One rank is asked; all save the same step and end, and the run goes on to the bits of one that never stopped."""
    folder, whole, rest = bench.work / "stopped", bench.work / "whole.safetensors", bench.work / "rest.safetensors"
    for asked, status in ((signal.SIGUSR1, 75), (signal.SIGTERM, 75)):
        shutil.rmtree(folder, ignore_errors=True)
        log = bench.work / "stopped.log"
        log.unlink(missing_ok=True)
        command = [program, plans, "--device", "cuda", "--threads", 1, "--data", data]
        saving = [*command, "--checkpoint", folder]
        ranks = gpu_ranks.Processes([*saving, "--every", 1000000, "--steps", 1000000, "--log", log], WORLD, bench.work)
        while ranks.processes[2].poll() is None and not (log.exists() and log.read_text().count("\n") >= 2):
            time.sleep(0.01)
        ranks.processes[2].send_signal(asked)
        statuses, lines = ranks.wait()
        saved = [int(path.name.removeprefix("step-")) for path in folder.glob("step-*[0-9]")] if folder.exists() else []
        what = f"{asked.name} to one rank"
        check(f"{what}: all end with {status}", statuses == [status] * WORLD, (statuses, lines))
        check(f"{what}: one checkpoint", len(saved) == 1, saved)
        if len(saved) != 1:
            continue
        steps = saved[0] + 2
        goes_on, _ = gpu_ranks.Processes([*saving, "--resume", "--every", 1000000, "--steps", steps, "--save", rest], WORLD, bench.work).wait()
        at_once, _ = gpu_ranks.Processes([*command, "--steps", steps, "--save", whole], WORLD, bench.work).wait()
        check(f"{what}: goes on", goes_on == at_once == [0] * WORLD, (goes_on, at_once))
        check(f"{what}: the same weights", rest.exists() and rest.read_bytes() == whole.read_bytes())


def refusals(bench, program, plans, data):
    command = [program, plans, "--device", "cuda", "--data", data, "--steps", STEPS]
    statuses, lines = gpu_ranks.Processes(command, WORLD, bench.work, gpus=2).wait()
    told = [line for line in errors_of(lines) if "R0106" in line and "4 ranks or more has 2" in line]
    check("more ranks than GPUs: refused, once", statuses == [1] * WORLD and len(told) == 1, (statuses, lines))
    statuses, lines = gpu_ranks.Processes([*command, "--load", bench.work / "none.safetensors"], WORLD, bench.work).wait()
    check("weights that are not there: refused, once", statuses == [1] * WORLD and len(errors_of(lines)) == 1, (statuses, lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--no-mpirun", action="store_true")
    args = parser.parse_args()
    bench = harness.Bench(args.bin, args.work)
    plans = bench.compile(MODEL, harness.strategy_text(MODEL, "pp2_dp2", "adamw"), f"{MODEL}-pp2_dp2", "--device", "cuda")
    data = bench.work / f"{MODEL}.safetensors"
    program, mpirun = bench.bin / "piper-run-standin", not args.no_mpirun
    trains(bench, program, plans, data, mpirun)
    fails(bench, program, plans, data, mpirun)
    dies(bench, program, plans, data)
    stops(bench, program, plans, data)
    refusals(bench, program, plans, data)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
