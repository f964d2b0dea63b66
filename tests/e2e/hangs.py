#!/usr/bin/env python3
"""Runs that hang are ended, and the rank, the instruction and the reason are named, under piper-launch alone and over
mpirun. What fails, where and when is drawn by chance, from a seed.

  hangs.py --bin BIN --work DIR [--cases N] [--seed S] [--launch piper-launch|mpirun]... [--only KIND]...
  hangs.py --bin BIN --work DIR --quiet STEPS         a busy machine is no hang, a slow rank is reported
"""
import argparse
import collections
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

from checks import check, faults
import harness
from ring_words import FIRST_STEP, SEEN, STEP, RingWords

MODEL, FOR_EVER = "gpt", 10000000
AFTER, FIRST, FACTOR = 2.0, 6.0, 10.0       # --hang-after, --hang-first, --hang-factor
HANG, STORAGE = 81, 74
# What is sharded of these gathers and scatters, among four ranks.
OWN = {"dp4": "", "dp4_sharded": "shard_params: true, "}
PLANS = ("pp2_1f1b", "dp2_mb2", "pp2_dp2", "pp4_zb_v", *OWN)
WRITERS = {"dp2_mb2": (0,), "pp2_dp2": (0, 2), "dp4": (0,)}     # of checkpoints; of the others all: a replica owns nothing
READERS = {"pp4_zb_v": (0,)}      # of samples; of the others all: rank 0 has the first and the last stage
late = []       # seconds from the deadline to the verdict
LATEST = 5.0    # of these


class Ring(RingWords):
    """What a test needs of a ring, at one moment."""

    def __init__(self, path):
        super().__init__(path.read_bytes())
        self.seen_s = self.word(SEEN) / 1e9
        first_steps, first_s = self.section(FIRST_STEP)
        later_steps, longest_s = self.section(STEP)
        self.steps = first_steps + later_steps
        # The limit of a rank in a step: the first one has a limit of its own, a second one is measured by the first.
        self.limit_s = FIRST if first_steps == 0 else max(AFTER, FACTOR * (longest_s if later_steps > 0 else first_s))
        self.newest_s = max((event[0] / 1e9 for track in range(self.tracks) if (event := self.event(track))), default=0.0)


def alive(process):
    """What has ended and waits to be asked how is not."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Run:
    """piper-run under piper-launch, in the background; what it says goes to a file."""

    def __init__(self, bench, plans, world, launch, *flags, fault=None, launcher=(), name="run", after=AFTER, first=FIRST):
        self.work = bench.work / name
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.world, self.output, self.incidents = world, self.work / "output", self.work / "incidents"
        command = [bench.bin / "piper-launch", "--grace", 2, "--hang-after", after, "--hang-first", first, "--hang-factor", FACTOR,
                   "--incidents", self.incidents, *launcher]
        if launch == "mpirun":
            command += ["mpirun", "--oversubscribe", "-n", world]
        command += [bench.bin / ("piper-run-faulty" if fault else "piper-run"), plans, "--data", bench.work / f"{MODEL}.safetensors",
                    "--threads", 1, *flags]
        environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        if fault:
            environment["PIPER_TEST_FAULT"] = fault
        with open(self.output, "w") as output:
            self.process = subprocess.Popen([str(word) for word in command], stdout=output, stderr=subprocess.STDOUT, env=environment)
        self.folder = pathlib.Path(f"/dev/shm/piper-rings.{os.getuid()}.{self.process.pid}")

    def rings(self):
        """By rank, of those that are there."""
        rings = {}
        for rank in range(self.world):
            try:
                rings[rank] = Ring(self.folder / f"rank-{rank:05}.ring")
            except (OSError, struct.error, IndexError):
                pass
        return rings

    def until(self, condition):
        """Waits for it as long as the run lasts."""
        while self.process.poll() is None and not condition():
            time.sleep(0.01)
        return self

    def until_step(self, step):
        """Waits until all ranks have done so many steps."""
        return self.until(lambda: len(rings := self.rings()) == self.world and all(r.steps >= step for r in rings.values()))

    def end(self, patience_s=300):
        """Exit status, as a shell has it, and what was said."""
        try:
            code = self.process.wait(timeout=patience_s)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            code = self.process.wait()
        return code if code >= 0 else 128 - code, self.output.read_text()


Found = collections.namedtuple("Found", "cause rank peer text")


def culprit(text):
    """The parts of the message of piper-launch."""
    line = re.search(r"error\[L0121\]: the run hangs: ([a-z ]+): (.*)", text)
    if not line:
        return Found("nothing", -1, -1, "")
    message = re.match(r"the message of rank (\d+) to rank (\d+)", line[2])
    if message:
        return Found(line[1], int(message[1]), int(message[2]), line[2])
    rank = re.match(r"rank (\d+) ", line[2])
    return Found(line[1], int(rank[1]) if rank else -1, -1, line[2])


def judged(bench, plans, run, label, right, what, least=AFTER):
    """The run ended because of a hang whose culprit is `right`, and left its rings for piper-plan."""
    code, text = run.end()
    found = culprit(text)
    if not check(f"{label}: {what}", code == HANG and right(found), f"{code} {found}\n{text[-2000:]}"):
        return
    incident = next(run.incidents.iterdir())
    done = subprocess.run([bench.bin / "piper-plan", "whyhang", plans, incident, "--events", "3"], capture_output=True, text=True)
    check(f"{label}: piper-plan whyhang says the same", done.returncode == 0 and found.text in done.stdout, done.stdout + done.stderr)
    rings = [Ring(path) for path in sorted(incident.glob("*.ring"))]
    check(f"{label}: process and host of every rank are in the message", bool(rings) and all(
        f"  rank {ring.rank} is process {ring.process} on {socket.gethostname()}\n" in text for ring in rings), text)
    check(f"{label}: no rank and no ring is left",
          not run.folder.exists() and not any(alive(ring.process) for ring in rings))
    deadline = max(least, *(ring.limit_s for ring in rings))
    late.append((max(ring.seen_s for ring in rings) - max(ring.newest_s for ring in rings) - deadline, label))


def stopped(bench, plans, world, launch, chance, label):
    """From outside, anywhere in a step."""
    rank = chance.randrange(world)
    run = Run(bench, plans, world, launch, "--steps", FOR_EVER).until_step(3 + chance.randrange(20))
    time.sleep(chance.random() * 0.02)
    rings = run.rings()
    if not check(f"{label}: the run begins", rank in rings, run.output.read_text()):
        return
    os.kill(rings[rank].process, signal.SIGSTOP)
    judged(bench, plans, run, label, lambda found: found[:2] == ("stopped process", rank), f"rank {rank} is stopped")


def faulty(bench, plans, world, launch, kind, rank, at, *flags):
    return Run(bench, plans, world, launch, "--steps", FOR_EVER, *flags, fault=f"{kind} {rank} {at}")


def lost(run, rank, sends):
    """Right are both ends of the message, as the one that lost it has reported. `rank`: its sender or its receiver."""
    def right(found):
        told = re.search(r"piper-run-faulty: rank (\d+) does not get the message of rank (\d+)", run.output.read_text())
        receiver, sender = map(int, told.groups()) if told else (-1, -1)
        return rank == (sender if sends else receiver) and found[:3] == ("missing message", sender, receiver)
    return right


def dropped(bench, plans, world, launch, chance, label):
    rank, at = chance.randrange(world), 2 + chance.randrange(200)
    run = faulty(bench, plans, world, launch, "drop", rank, at)
    judged(bench, plans, run, label, lost(run, rank, True), f"messages of rank {rank} are lost from its {at}th on")


def delayed(bench, plans, world, launch, chance, label):
    rank, at = chance.randrange(world), 2 + chance.randrange(200)
    run = faulty(bench, plans, world, launch, "delay", rank, at)
    judged(bench, plans, run, label, lost(run, rank, False), f"the {at}th message to rank {rank} takes an hour")


def slow(bench, plans, world, launch, chance, label):
    rank, at = chance.randrange(world), 2 + chance.randrange(60)
    run = faulty(bench, plans, world, launch, "slow", rank, at, *chance.choice(((), ("--check-replicas", 1))))
    judged(bench, plans, run, label, lambda found: found[:2] == ("slow rank", rank) and "run " in found.text,
           f"the {at}th run of a kernel of rank {rank} does not end")


def loader(bench, plans, world, launch, chance, label):
    rank, at = chance.choice(READERS.get(plans.stem, range(world))), 2 + chance.randrange(30)
    run = faulty(bench, plans, world, launch, "loader", rank, at)
    judged(bench, plans, run, label, lambda found: found[:2] == ("loader", rank) and f"step {at}" in found.text,
           f"rank {rank} does not get the samples of step {at}")


def writer_of(plans, world, chance):
    return chance.choice(WRITERS.get(plans.stem, range(world)))


def disk(bench, plans, world, launch, chance, label):
    rank, at = writer_of(plans, world, chance), 1 + chance.randrange(3)
    folder = bench.work / "disk.checkpoints"
    shutil.rmtree(folder, ignore_errors=True)
    run = faulty(bench, plans, world, launch, "disk", rank, at, "--checkpoint", folder, "--every", 3)
    judged(bench, plans, run, label, lambda found: found[:2] == ("disk", rank) and "it writes the checkpoint" in found.text,
           f"the {at}th file of rank {rank} never is on the disk", FIRST)


def full(bench, plans, world, launch, chance, label):
    """No hang: a storage that refuses says so itself."""
    rank = writer_of(plans, world, chance)
    folder = bench.work / "full.checkpoints"
    shutil.rmtree(folder, ignore_errors=True)
    code, text = faulty(bench, plans, world, launch, "full", rank, 1, "--checkpoint", folder, "--every", 3).end()
    check(f"{label}: rank {rank} has a full disk", code == STORAGE and "error[R0701]" in text and "No space left" in text, f"{code} {text}")


def reading(bench, plans, world, launch, chance, label):
    """No hang: the others wait for a rank that reads its weights, as long as it takes."""
    rank = chance.randrange(world)
    code, text = Run(bench, plans, world, launch, "--steps", 2, "--timeout", 1, fault=f"load {rank} 3").end()
    check(f"{label}: rank {rank} reads its weights longer than --timeout", code == 0 and "step 2/2" in text, f"{code} {text}")


KINDS = {"stop": stopped, "drop": dropped, "delay": delayed, "slow": slow, "loader": loader, "disk": disk, "full": full,
         "reading": reading}


def asked(bench, plans, world):
    """SIGQUIT, to a rank and to the launcher: where all threads are, and the run goes on."""
    run = Run(bench, plans, world, "piper-launch", "--steps", FOR_EVER).until_step(5)
    rings = run.rings()
    os.kill(rings[1].process, signal.SIGQUIT)
    run.until(lambda: "SIGQUIT: rank 1" in run.output.read_text())
    text = run.output.read_text()
    # Between two steps the stream has nothing to do, and the rank says that.
    somewhere = re.search(r"stream compute: (step \d+, instr \d+, |done with step \d+)", text)
    check("SIGQUIT: a rank tells where its threads are", somewhere and "before: step" in text, text)
    run.process.send_signal(signal.SIGQUIT)
    run.until(lambda: "rank 0 (process" in run.output.read_text())
    reached = run.rings()[0].steps
    run.until_step(reached + 5)
    check("SIGQUIT: the run goes on", run.process.poll() is None)
    run.process.send_signal(signal.SIGTERM)
    run.end()
    rings = bench.work / "own.rings"
    shutil.rmtree(rings, ignore_errors=True)
    command = [bench.bin / "piper-run", plans, "--data", bench.work / f"{MODEL}.safetensors", "--steps", 3, "--rings", rings, "--threads", 1]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    check("--rings: every rank leaves its ring", done.returncode == 0 and len(list(rings.glob("*.ring"))) == world, done.stderr)
    done = subprocess.run([bench.bin / "piper-plan", "whyhang", plans, rings], capture_output=True, text=True)
    check("--rings: of a run that has ended nobody waits", "nothing in the rings waits" in done.stdout, done.stdout + done.stderr)
    for name, damage in (("cut", lambda data: data[:1000]), ("other", lambda data: b"?" + data[1:])):
        path = rings / "rank-00000.ring"
        whole = path.read_bytes()
        path.write_bytes(damage(whole))
        done = subprocess.run([bench.bin / "piper-plan", "whyhang", plans, rings], capture_output=True, text=True)
        check(f"--rings: a ring that is {name} is refused", done.returncode == 1 and done.stderr.count("\n") == 1 and "R0911" in done.stderr, done.stderr)
        path.write_bytes(whole)
    file = bench.work / "file"
    file.write_text("")
    done = subprocess.run([*map(str, command[:-4]), "--rings", file / "rings"], capture_output=True, text=True)
    check("--rings: a folder that cannot be is refused", done.returncode == 1 and "error[R0912]" in done.stderr, done.stderr)


def starts_again(bench, plans, world):
    """After a hang the launcher continues from the newest checkpoint."""
    folder = bench.work / "again.checkpoints"
    shutil.rmtree(folder, ignore_errors=True)
    run = Run(bench, plans, world, "piper-launch", "--steps", 3000, "--checkpoint", folder, "--every", 20, launcher=("--restarts", 1))
    run.until(lambda: any(".tmp-" not in path.parent.name for path in folder.glob("step-*/MANIFEST.json")))
    rings = run.rings()
    if check("--restarts: a checkpoint is there", world - 1 in rings, run.output.read_text()):
        os.kill(rings[world - 1].process, signal.SIGSTOP)
    code, text = run.end()
    check("--restarts: a run that hung goes on to its end", code == 0 and "L0121" in text and "continues after step" in text, f"{code} {text}")


def leavings(bench, plans, world):
    """A launcher that is killed leaves no rank; what it leaves in memory, the next one removes."""
    run = Run(bench, plans, world, "piper-launch", "--steps", FOR_EVER).until_step(3)
    ranks = [ring.process for ring in run.rings().values()]
    run.process.kill()
    run.process.wait()
    for _ in range(200):
        if not any(map(alive, ranks)):
            break
        time.sleep(0.01)
    check("SIGKILL of the launcher: no rank is left", not any(map(alive, ranks)))
    code, text = Run(bench, plans, world, "piper-launch", "--steps", 2, name="next").end()
    check("SIGKILL of the launcher: the next one removes its rings", code == 0 and not run.folder.exists(), f"{code} {text}")


def straggles(bench, plans, world):
    """A rank whose kernel takes longer from some step on is reported, and the run goes on."""
    run = Run(bench, plans, world, "piper-launch", "--steps", FOR_EVER, fault="late 1 3000")
    run.until(lambda: "is slow" in run.output.read_text())
    check("a rank that becomes slow is told of", run.process.poll() is None and "piper-launch: rank 1 is slow: it computes" in run.output.read_text(),
          run.output.read_text())
    run.process.send_signal(signal.SIGTERM)
    run.end()


def quiet(bench, plans, world, launch, steps):
    """Other programs keep all cores busy meanwhile."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 2))]
    try:
        code, text = Run(bench, plans, world, launch, "--steps", steps, after=5, first=60).end(patience_s=3000)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    check(f"{launch}: {steps} steps on a busy machine, no alarm", code == 0 and "L0121" not in text, f"{code} {text[-2000:]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--cases", type=int, default=0, help="so many by chance; 0: one of each kind")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("PIPER_TEST_SEED", "1")))
    parser.add_argument("--launch", action="append", choices=("piper-launch", "mpirun"))
    parser.add_argument("--only", action="append", choices=tuple(KINDS))
    parser.add_argument("--quiet", type=int, default=0, metavar="STEPS")
    arguments = parser.parse_args()
    bench = harness.Bench(arguments.bin, arguments.work)
    for name in OWN:
        harness.COMPOSITIONS[name] = harness.Composition(replicas=4)
    chance = random.Random(arguments.seed)
    print(f"seed {arguments.seed}")
    launches, kinds = arguments.launch or ["piper-launch"], arguments.only or list(KINDS)
    compiled = {}

    def plans(name):
        if name not in compiled:
            text = harness.strategy_text(MODEL, name, "adamw")
            compiled[name] = bench.compile(MODEL, text.replace("bucket_size:", OWN.get(name, "") + "bucket_size:"), name)
        return compiled[name], harness.world_size(name)

    def case(number, kind, launch, name):
        KINDS[kind](bench, *plans(name), launch, chance, f"{number} {kind}, {launch}, {name}")

    if arguments.quiet:
        for launch in launches:
            quiet(bench, *plans("pp2_1f1b"), launch, arguments.quiet)
        straggles(bench, *plans("dp2_mb2"))
    elif arguments.cases:
        for number in range(arguments.cases):
            case(number, chance.choice(kinds), chance.choice(launches), chance.choice(PLANS))
    else:
        for number, kind in enumerate(kinds):
            case(number, kind, launches[number % len(launches)], PLANS[number % len(PLANS)])
        if not arguments.only:
            asked(bench, *plans("pp2_1f1b"))
            starts_again(bench, *plans("pp2_1f1b"))
            leavings(bench, *plans("pp2_1f1b"))
    if late:
        check(f"{len(late)} verdicts within {LATEST} s of the deadline", max(late)[0] <= LATEST, str(max(late)))
    for seconds, label in sorted(late)[-3:]:
        print(f"{seconds:.2f} s from the deadline to the verdict: {label}")
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
