#!/usr/bin/env python3
"""Runs that hang are ended, and the rank, the instruction and the reason are named, under piper-launch alone and over
mpirun. What hangs is drawn by chance, from a seed.

  hangs.py --bin BIN --work DIR [--cases N] [--seed S] [--launch piper-launch|mpirun] [--only KIND]
"""
import argparse
import collections
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import harness

MODEL, FOR_EVER = "gpt", 10000000
AFTER, FACTOR = 2.0, 10.0       # --hang-after and --hang-factor
HANG = 81
PLANS = {"pp2_1f1b": (), "dp2_mb2": (), "pp2_dp2": (), "pp4_zb_v": ()}
# Words of a ring's header and tracks: schemas/live/ring_layout.h.
PROCESS, TRACKS, SECTIONS = 5, 8, 16
HEADER, TRACK, FIRST_STEP, STEP = 64, 8, 1, 2
faults = []


def check(what, fine, why=""):
    print(f"{'ok    ' if fine else 'FAILED'} {what}" + ("" if fine else f": {why}"), flush=True)
    if not fine:
        faults.append(what)


class RingHeader:
    """The first words of a ring, read by other code than piper's own."""

    def __init__(self, path):
        data = path.read_bytes()
        assert data[:8] == b"piprring", path
        words = struct.unpack_from(f"<{HEADER}Q", data)
        self.process = words[PROCESS]
        self.steps = words[SECTIONS + 2 * STEP] + words[SECTIONS + 2 * FIRST_STEP]
        self.longest_step_s = words[SECTIONS + 2 * STEP + 1] / 1e9


class Run:
    """piper-run under piper-launch, in the background; what it says goes to a file."""

    def __init__(self, bench, plans, world, launch, name, *flags, after=AFTER, program="piper-run", fault=None, more=()):
        self.work = bench.work / name
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.world, self.output, self.incidents = world, self.work / "output", self.work / "incidents"
        command = [bench.bin / "piper-launch", "--hang-after", after, "--hang-first", max(after, 60), "--hang-factor", FACTOR,
                   "--incidents", self.incidents, *more]
        if launch == "mpirun":
            command += ["mpirun", "--oversubscribe", "-n", world]
        command += [bench.bin / program, plans, "--data", bench.work / f"{MODEL}.safetensors", "--threads", 1, *flags]
        environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        if fault:
            environment["PIPER_TEST_FAULT"] = fault
        with open(self.output, "w") as output:
            self.process = subprocess.Popen([str(word) for word in command], stdout=output, stderr=subprocess.STDOUT, env=environment)
        self.rings = pathlib.Path(f"/dev/shm/piper-rings.{os.getuid()}.{self.process.pid}")

    def ring(self, rank):
        try:
            return RingHeader(self.rings / f"rank-{rank:05}.ring")
        except (OSError, struct.error):
            return None

    def until_step(self, step):
        """Waits until all ranks have done so many steps, as long as the run lasts."""
        def reached():
            rings = [self.ring(rank) for rank in range(self.world)]
            return all(ring and ring.steps >= step for ring in rings)
        while self.process.poll() is None and not reached():
            time.sleep(0.01)
        return self

    def end(self, timeout=180):
        """Exit status, as a shell has it, and what was said."""
        try:
            code = self.process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        return code if code >= 0 else 128 - code, self.output.read_text()


Found = collections.namedtuple("Found", "cause rank peer text")


def culprit(text):
    """Of the message of piper-launch; None: there is none."""
    line = re.search(r"error\[L0121\]: the run hangs: ([a-z ]+): (.*)", text)
    if not line:
        return None
    message = re.match(r"the message of rank (\d+) to rank (\d+)", line[2])
    if message:
        return Found(line[1], int(message[1]), int(message[2]), line[2])
    rank = re.match(r"rank (\d+) ", line[2])
    return Found(line[1], int(rank[1]) if rank else -1, None, line[2])


def stopped(bench, plans, world, launch, chance, label):
    """A rank is stopped from outside, anywhere in a step."""
    rank = chance.randrange(world)
    run = Run(bench, plans, world, launch, f"stop-{launch}", "--steps", FOR_EVER).until_step(3 + chance.randrange(20))
    time.sleep(chance.random() * 0.02)
    ring = run.ring(rank)
    if ring is None:
        check(f"{label}: the run begins", False, run.end()[1])
        return None
    os.kill(ring.process, signal.SIGSTOP)
    code, text = run.end()
    found = culprit(text)
    check(f"{label}: rank {rank} stopped", code == HANG and found and found[:2] == ("stopped process", rank), f"{code} {text}")
    left = subprocess.run([bench.bin / "piper-plan", "whyhang", plans, next(run.incidents.iterdir())],
                          capture_output=True, text=True) if found else None
    check(f"{label}: piper-plan whyhang says the same", left and found.text in left.stdout, left and left.stdout + left.stderr)
    check(f"{label}: no rank and no ring is left", not run.rings.exists() and not pathlib.Path(f"/proc/{ring.process}").exists())
    return found


KINDS = {"stop": stopped}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--cases", type=int, default=0, help="so many by chance; 0: one of each kind")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("PIPER_TEST_SEED", "1")))
    parser.add_argument("--launch", action="append", choices=("piper-launch", "mpirun"))
    parser.add_argument("--only", action="append", choices=tuple(KINDS))
    arguments = parser.parse_args()
    bench = harness.Bench(arguments.bin, arguments.work)
    chance = random.Random(arguments.seed)
    print(f"seed {arguments.seed}")
    launches, kinds = arguments.launch or ("piper-launch",), arguments.only or tuple(KINDS)
    plans = {}

    def case(number, kind, launch, name):
        if name not in plans:
            plans[name] = bench.compile(MODEL, harness.strategy_text(MODEL, name, "adamw"), name)
        KINDS[kind](bench, plans[name], harness.world_size(name), launch, chance, f"{number}: {launch} {name}")

    if arguments.cases:
        for number in range(arguments.cases):
            case(number, chance.choice(kinds), chance.choice(launches), chance.choice(tuple(PLANS)))
    else:
        for number, (kind, launch) in enumerate((k, l) for k in kinds for l in launches):
            case(number, kind, launch, tuple(PLANS)[number % len(PLANS)])
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
