#!/usr/bin/env python3
"""Ranks that are killed, anywhere: the run goes on by itself to the bits of one that never stopped, and leaves nothing behind.

  kills.py --bin BIN --work DIR [--kills N] [--seed S] [--launch piper-launch|mpirun]... [--only PLACE]... [--json FILE]

Which rank, in which run, where and when is drawn by chance, from a seed. A rank is stopped (SIGSTOP), its ring and the folder of
checkpoints say where that was, and it is killed there (SIGKILL) or, where another place was wanted, goes on and is tried again; a run that ends before is repeated, and hit wherever it is.
"""
import argparse
import collections
import json
import mmap
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time

import checkpoints
from checks import check, faults
import harness
from ring_words import FIRST_STEP, HEADER, STEP, TRACK, RingWords

MODEL, STEPS, EVERY, KEEP = "gpt_dropout", 60, 3, 2
PLANS = ("pp2_1f1b", "dp2_mb2", "zero3", "pp2_dp2")
# Shares of a hundred kills. A restore follows another kill.
WEIGHTS = {"step": 20, "snapshot": 15, "wait": 5, "shard": 20, "rename": 20, "restore": 12, "start": 8}
LONGEST_TRY_S, LONGEST_RUN_S, LONGEST_START_S = 60, 600, 0.6
TRIES = 5
MARK = "PIPER_TEST_RUN"     # in the environment of all processes of a run
# schemas/live/ring_layout.h
HOST, WRITER = 1, 3         # TrackKind
STARTING, DATA, IN_STEP, SAVE, WRITE, IDLE = 2, 3, 4, 7, 12, 14     # EventKind


class Ring(RingWords):
    """A rank's ring as its process writes it."""

    def __init__(self, path):
        with open(path, "rb") as file:
            super().__init__(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        kinds = [self.word(HEADER + number * TRACK + 1) for number in range(self.tracks)]
        self.track_of = {kind: kinds.index(kind) for kind in set(kinds)}

    def steps(self):
        return self.section(STEP)[0] + self.section(FIRST_STEP)[0]

    def newest(self, kind, back=0):
        """(step, EventKind) of an event of the track, None where it has none."""
        found = self.event(self.track_of[kind], back)
        return found and (found[1], found[2] & 0xff)

    def instruction(self):
        """Where its first stream is."""
        found = self.event(0)
        return f"instruction {found[2] >> 32}" if found and found[2] & 0xff == 0 else "between instructions"

    def copies(self):
        """A checkpoint, with the one before written; else it waits for that."""
        host, writer = self.newest(HOST), self.newest(WRITER)
        return host is not None and host[1] == SAVE and (writer is None or writer[1] == IDLE)

    def writes(self):
        """Which of the three parts of writing a checkpoint the rank is in: folder, shard, commit; 0: none."""
        newest = self.newest(WRITER)
        if newest is None or newest[1] != WRITE:
            return 0
        back = 0
        while (event := self.newest(WRITER, back)) is not None and event[0] == newest[0] and event[1] != IDLE:
            back += 1
        return sum(self.newest(WRITER, i)[1] == WRITE for i in range(back))


def state_of(process):
    """The letter of its state; '' where it is gone."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def processes_of(mark):
    """Process -> environment, of all that carry the mark."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                words = pathlib.Path("/proc", entry, "environ").read_bytes()
            except OSError:
                continue
            if f"{MARK}={mark}\0".encode() in words and state_of(entry) not in ("", "Z"):
                found[int(entry)] = dict(word.split(b"=", 1) for word in words.split(b"\0") if b"=" in word)
    return found


def rank_of(process, environment):
    """The rank of a process that is one, else None."""
    try:
        program = pathlib.Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return None
    number = environment.get(b"OMPI_COMM_WORLD_RANK", environment.get(b"RANK"))
    return int(number) if program == "piper-run" and number is not None else None


def shared_memory():
    """Names in /dev/shm, and System V segments that no process has attached, with the process that made them."""
    segments = [line.split() for line in pathlib.Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    unused = [words for words in segments if words[6] == "0" and not os.path.exists(f"/proc/{words[4]}")]
    return set(os.listdir("/dev/shm")) | {f"System V segment {words[1]} of process {words[4]}" for words in unused}


def held_by_others():
    """What processes of this machine have mapped, and the rings of launchers that run: segments of other programs, which come and go as
    they like."""
    held = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            held.add(f"piper-rings.{os.getuid()}.{entry}")
            try:
                lines = pathlib.Path("/proc", entry, "maps").read_text().splitlines()
            except OSError:
                continue
            for line in lines:
                if "/dev/shm/" in line:
                    held.add(line.split("/dev/shm/", 1)[1].removesuffix(" (deleted)").split("/")[0])
    return held


Strategy = collections.namedtuple("Strategy", "plans world whole")      # whole: folder, log, weights of a run that nothing stopped


class Run:
    """A run under piper-launch that starts again what is killed."""

    def __init__(self, bench, strategy, name, launch, number):
        self.mark = f"{os.getpid()}-{number}"
        self.strategy, self.work = strategy, bench.work / "runs" / f"{number:03}-{name}-{launch}"
        shutil.rmtree(self.work, ignore_errors=True)
        self.folder, self.temporary = self.work / "checkpoints", self.work / "tmp"
        self.log, self.weights, self.output = self.work / "log.jsonl", self.work / "weights.safetensors", self.work / "output"
        self.temporary.mkdir(parents=True)
        self.before = shared_memory()
        self.killed_in_start = False
        command = [bench.bin / "piper-launch", "--restarts", 4, "--grace", 2]
        if launch == "mpirun":
            command += ["mpirun", "--oversubscribe", "-n", strategy.world]
        command += [bench.bin / "piper-run", *settings(bench, strategy.plans, self.folder, self.log, self.weights)]
        environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", MARK: self.mark,
                                    "TMPDIR": str(self.temporary)}
        with open(self.output, "w") as output:
            self.process = subprocess.Popen([str(word) for word in command], stdout=output, stderr=subprocess.STDOUT, env=environment)
        self.rings_at = pathlib.Path(f"/dev/shm/piper-rings.{os.getuid()}.{self.process.pid}")
        self.gone = set()       # ranks' processes of attempts that have ended

    def rings(self):
        """By rank, of this attempt, as far as they are there."""
        found = {}
        for rank in range(self.strategy.world):
            try:
                ring = Ring(self.rings_at / f"rank-{rank:05}.ring")
            except (OSError, ValueError):
                continue
            if ring.process not in self.gone:
                found[rank] = ring
        return found

    def ranks(self):
        """Rank -> process, of this attempt, as far as they are there."""
        found = {rank_of(process, environment): process for process, environment in processes_of(self.mark).items() if process not in self.gone}
        found.pop(None, None)
        return found

    def until(self, condition, seconds=LONGEST_RUN_S, pause=0.005):
        """What the condition comes to, None where the run ends or the time is up before."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            if result := condition():
                return result
            time.sleep(pause)
        return None

    def training(self, steps):
        """The rings, once every rank has done so many steps."""
        rings = self.rings()
        return rings if len(rings) == self.strategy.world and all(ring.steps() >= steps for ring in rings.values()) else None

    def places(self, rings, rank):
        """Where the rank is, that is stopped: place -> in words. A thread of it may be in a step, another one in a checkpoint's."""
        ring = rings.get(rank)
        host = ring and ring.newest(HOST)
        if host is None or host[1] == STARTING:
            begun = any(self.folder.glob("step-*[0-9]")) if self.folder.exists() else False
            return {"restore" if begun else "start": "before its ring" if host is None else "behind its ring"}
        found = {}
        step = f"step {host[0]}"
        if host[1] == SAVE:
            found["snapshot" if ring.copies() else "wait"] = step
        if host[1] in (DATA, IN_STEP):
            found["step"] = f"{step}, {ring.instruction()}"
        if (part := ring.writes()) in (1, 2):
            found["shard"] = f"{step}, {'its folder' if part == 1 else 'its file'}"
        if 0 in rings and rings[0].writes() == 3:
            found["rename"] = f"{step}, {self.stage_of_commit()}{'' if rank == 0 else ', of another rank'}"
        return found or {"between": f"{step}, event {host[1]}"}

    def stage_of_commit(self):
        beginning = [path for path in self.folder.iterdir() if ".tmp-" in path.name]
        if not beginning:
            return "behind the folder's name"
        names = os.listdir(beginning[0])
        if "MANIFEST.json" in names:
            return "behind the manifest's name"
        return "the manifest is written" if "MANIFEST.tmp" in names else "in front of the manifest"

    def stop(self, processes):
        """SIGSTOP; when it returns, all threads of them are stopped, or gone."""
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        for process in processes:
            while any(letter not in ("T", "Z", "X", "") for letter in states_of_threads(process)):
                time.sleep(0.0002)

    def wait_for(self, place, rings, rank, chance):
        """Until the rank seems to be there, which may be over when it is stopped."""
        if place == "step":
            time.sleep(chance.random() * 0.03)
            return
        there = {"snapshot": rings[rank].copies, "wait": lambda: rings[rank].newest(HOST)[1] == SAVE, "shard": lambda: rings[rank].writes() in (1, 2),
                 "rename": lambda: rings[0].writes() == 3}[place]
        deadline = time.monotonic() + 1
        while not there() and time.monotonic() < deadline:
            pass
        later = time.monotonic() + chance.random() * (0 if place == "snapshot" else 0.004)
        while there() and time.monotonic() < later:
            pass

    def kill_in_training(self, place, rank, chance, anywhere):
        rings = self.until(lambda: self.training(1 + chance.randrange(6)))
        if rings is None:
            return None
        victim = rings[rank].process
        stopped = {victim, rings[0].process} if place == "rename" else {victim}     # the rename is rank 0's
        deadline = time.monotonic() + LONGEST_TRY_S
        while time.monotonic() < deadline and self.process.poll() is None:
            self.wait_for(place, rings, rank, chance)
            try:
                self.stop(stopped)
                found = self.places(rings, rank)
                hit = place if place in found else next(iter(found)) if anywhere else None
                if hit:
                    os.kill(victim, signal.SIGKILL)
                for process in stopped:
                    os.kill(process, signal.SIGCONT)
            except ProcessLookupError:
                return None
            if hit:
                return hit, found[hit]
        return None

    def kill_in_start(self, rank, chance):
        victim = self.until(lambda: self.ranks().get(rank), pause=0.001)
        if victim is None:
            return None
        time.sleep(chance.random() * LONGEST_START_S)
        try:
            self.stop({victim})
            found = self.places(self.rings(), rank)
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            return None
        return next(iter(found.items()))

    def kill(self, place, rank, chance, anywhere):
        """Kills the rank at the place, or `anywhere` else: what was hit, and where; None where the run ended before."""
        starts = place in ("start", "restore")
        self.killed_in_start |= starts
        found = self.kill_in_start(rank, chance) if starts else self.kill_in_training(place, rank, chance, anywhere)
        self.killed = time.monotonic()
        self.gone |= set(self.ranks().values())
        return found

    def next_step_s(self):
        """From the kill until all ranks have done a step."""
        return time.monotonic() - self.killed if self.until(lambda: self.training(1), pause=0.002) else None

    def end(self):
        """What is wrong with how the run ended, the bits it came to, and what it left."""
        try:
            code = self.process.wait(timeout=LONGEST_RUN_S)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            code = f"{self.process.wait()}, too late"
        if code != 0:
            return [f"it ended with {code}: {self.output.read_text()}"]
        wrong = []
        whole_folder, whole_log, whole_weights = self.strategy.whole
        rows, wanted = checkpoints.rows_of(self.log), checkpoints.rows_of(whole_log)
        if rows != wanted:
            wrong.append("the log is another: " + str(next((pair for pair in zip(rows, wanted) if pair[0] != pair[1]), f"{len(rows)} rows")))
        if self.weights.read_bytes() != whole_weights.read_bytes():
            wrong.append("the weights are others")
        differs = checkpoints.difference(*(checkpoints.tensors_of(checkpoints.step(folder, STEPS)) for folder in (whole_folder, self.folder)))
        if differs:
            wrong.append(f"the last checkpoint is another: {differs}")
        return wrong + [f"{what} is left: {found}" for what, found in self.leavings().items() if found]

    def leavings(self):
        """What is left of this run, two seconds after its end."""
        deadline = time.monotonic() + 2
        while (processes := processes_of(self.mark)) and time.monotonic() < deadline:
            time.sleep(0.01)
        while (segments := shared_memory() - self.before - held_by_others()) and time.monotonic() < deadline:
            time.sleep(0.1)
        if self.killed_in_start:    # UCX unlinks a segment right after making it: who dies between the two leaves it, under no known name
            segments = {segment for segment in segments if not segment.startswith("ucx_shm_posix_")}
        steps = {f"step-{step:09d}" for step in range(STEPS - (KEEP - 1) * EVERY, STEPS + 1, EVERY)}
        return {"a process": sorted(processes), "shared memory": sorted(segments),
                "in the folder": sorted({"LOCK", *steps} ^ set(os.listdir(self.folder))),
                "a temporary file": [str(path) for path in self.temporary.rglob("*")],
                "a socket": [line for line in pathlib.Path("/proc/net/unix").read_text().splitlines() if str(self.work) in line]}


def states_of_threads(process):
    try:
        return [state_of(f"{process}/task/{thread}") for thread in os.listdir(f"/proc/{process}/task")]
    except OSError:
        return []


def settings(bench, plans, folder, log, weights):
    return [plans, "--data", bench.work / f"{MODEL}.safetensors", "--sampling", "shuffled", "--threads", 1, "--steps", STEPS, "--checkpoint", folder,
            "--every", EVERY, "--keep", KEEP, "--log", log, "--save", weights]


def strategy_of(bench, name):
    """The plans, and a run of them that nothing stops."""
    more = ", shard_params: true" if name == "zero3" else ""
    composition = "dp2_mb2" if name == "zero3" else name
    text = harness.strategy_text(MODEL, composition, "adamw").replace("bucket_size: 0.05", "bucket_size: 0.05" + more)
    plans = bench.compile(MODEL, text, name)
    whole = tuple(bench.work / f"{name}.{suffix}" for suffix in ("checkpoints", "jsonl", "weights"))
    shutil.rmtree(whole[0], ignore_errors=True)
    bench.call([bench.bin / "piper-run", *settings(bench, plans, *whole)])
    return Strategy(plans, harness.world_size(composition), whole)


def places_of(wanted):
    """The kills of a run of which the last one is wanted: what is restored was saved, and killed, before."""
    return ["rename", "restore"] if wanted == "restore" else [wanted]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--kills", type=int, default=0, help="so many by chance; 0: one at each place")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("PIPER_TEST_SEED", "1")))
    parser.add_argument("--launch", action="append", choices=("piper-launch", "mpirun"))
    parser.add_argument("--only", action="append", choices=tuple(WEIGHTS))
    parser.add_argument("--json", type=pathlib.Path, help="a row for each kill is added to it")
    arguments = parser.parse_args()
    bench = harness.Bench(arguments.bin, arguments.work)
    chance = random.Random(arguments.seed)
    print(f"seed {arguments.seed}")
    launches, places = arguments.launch or ["piper-launch"], arguments.only or list(WEIGHTS)
    strategies, rows = {}, []

    def case(number, wanted, launch, plan):
        if plan not in strategies:
            strategies[plan] = strategy_of(bench, plan)
        strategy = strategies[plan]
        for attempt in range(TRIES):    # a run that ended before it was hit is begun again
            run = Run(bench, strategy, plan, launch, number)
            hits = []
            for place in places_of(wanted):
                rank = chance.randrange(strategy.world)
                found = run.kill(place, rank, chance, anywhere=attempt > 0)
                if found is None:
                    break
                hits.append({"place": found[0], "where": found[1], "rank": rank, "plan": plan, "launch": launch})
            if hits:
                hits[-1]["next_step_s"] = run.next_step_s()
            told = ", then ".join(f"rank {hit['rank']} in {hit['place']} ({hit['where']})" for hit in hits)
            label = f"{number} {launch}, {plan}: {told or 'ended before'}"
            wrong = run.end()
            check(label, not wrong, "\n".join(wrong))
            rows.extend(hits)
            if arguments.json:
                with open(arguments.json, "a") as file:
                    file.writelines(json.dumps(hit) + "\n" for hit in hits)
            if len(hits) == len(places_of(wanted)):
                break
        else:
            check(f"{number} {launch}, {plan}: a rank is killed in {wanted}", False, f"{TRIES} runs ended before")
        if not wrong:
            shutil.rmtree(run.work)

    if arguments.kills:
        number = 0
        while len(rows) < arguments.kills and len(faults) < 20:
            wanted = chance.choices(places, [WEIGHTS[place] for place in places])[0]
            case(number, wanted, chance.choice(launches), chance.choice(PLANS))
            number += 1
    else:
        for number, wanted in enumerate(places):
            case(number, wanted, launches[number % len(launches)], PLANS[number % len(PLANS)])
    for place, count in sorted(collections.Counter(row["place"] for row in rows).items()):
        print(f"{count} kills in {place}")
    for launch in launches:
        waited = [row["next_step_s"] for row in rows if row["launch"] == launch and row.get("next_step_s")]
        if waited:
            print(f"{launch}: from a kill to the next step median {statistics.median(waited):.2f} s, longest {max(waited):.2f} s")
    print(f"{len(rows)} kills, {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
