#!/usr/bin/env python3
"""piperd as a user has it: jobs are queued, run, shown, cancelled and drained; what is killed goes on from its checkpoint to
the bits of a run that nobody disturbed, and nothing is left of it.

  piperd.py --bin BIN --work DIR --write-plans PROGRAM [CASE]...

Jobs are piper-run on a hand-written plan of two ranks, or shell scripts where only their ends matter. Every daemon has a
folder of its own, listens on loopback at a free port, and has ended when the script does.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

STEPS, PATIENCE = 60, 60
faults = []


def check(what, fine, why=""):
    print(f"{'ok    ' if fine else 'FAILED'} {what}" + ("" if fine else f": {why}"), flush=True)
    if not fine:
        faults.append(what)


def until(condition, what):
    """Its first result that is true."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"never: {what}")


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def all_gone(pids):
    return not [pid for pid in pids if alive(pid)]


class Node:
    """A piperd and its folder, and piper-launch as its user calls it."""

    def __init__(self, bin_dir, *flags):
        self.bin = pathlib.Path(bin_dir)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="piperd-"))
        self.state, self.flags, self.process = self.folder / "state", flags, None
        self.output = self.folder / "piperd.out"

    def start(self):
        with open(self.output, "a") as output:
            self.process = subprocess.Popen([self.bin / "piperd", "--state", self.state, "--http-port", "0", *self.flags],
                                            stdout=output, stderr=subprocess.STDOUT)
        until(lambda: self.process.poll() is not None or self.call("status")[0] == 0, "piperd answers")
        assert self.process.poll() is None, self.output.read_text()
        return self

    def end(self, number=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE) if self.process else 0

    def call(self, command, *arguments, **options):
        """Exit status, what was said."""
        done = subprocess.run([self.bin / "piper-launch", command, "--state", self.state, *map(str, arguments)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE, **options)
        return done.returncode, done.stdout

    def submit(self, *arguments):
        code, text = self.call("submit", *arguments)
        assert code == 0 and re.fullmatch(r"job \d+\n", text), f"{code} {text}"
        return int(text.split()[1])

    def status(self, job=None):
        code, text = self.call("status", "--json", *([job] if job else []))
        assert code == 0, text
        answer = json.loads(text)
        return answer["jobs"][0] if job else answer

    def until_state(self, job, *states):
        return until(lambda: (found := self.status(job))["state"] in states and found, f"job {job} is {states}: {self.status(job)}")

    def pids(self, job):
        return [rank["pid"] for rank in self.status(job)["rank_states"] if "pid" in rank]

    def log(self, job):
        return self.call("logs", job)[1]

    def http(self, path, method="GET"):
        request = urllib.request.Request(f"http://127.0.0.1:{self.status()['http_port']}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as failure:
            return failure.code, failure.read().decode()


@contextlib.contextmanager
def node(bench, *flags):
    one = Node(bench.bin, *flags)
    try:
        yield one.start()
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            one.end()
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
        if faults:
            print(one.output.read_text())
        shutil.rmtree(one.folder)


class Bench:
    """A plan of two ranks, and what it comes to when nothing happens to it."""

    def __init__(self, bin_dir, work, write_plans):
        self.bin, self.work = pathlib.Path(bin_dir).resolve(), pathlib.Path(work).resolve()
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        subprocess.run([write_plans, "pipeline", self.work / "p"], check=True)
        self.whole = self.work / "whole.safetensors"
        subprocess.run([str(word) for word in [*self.command("whole", slow=False), "--save", self.whole]], check=True, stderr=subprocess.DEVNULL)

    def command(self, name, steps=STEPS, slow=True):
        """Steps that take long enough to be looked at."""
        p = self.work / "p"
        return [self.bin / "piper-run", p / "plans", "--data", p / "data.safetensors", "--load", p / "weights.safetensors",
                "--no-stop-on-nan", "--steps", steps, *(["--link-delay", 30000] if slow else []),
                "--checkpoint", self.work / f"{name}.checkpoints", "--every", 1]

    def saves(self, name):
        return ["--save", self.work / f"{name}.safetensors"]

    def same_bits(self, name):
        return (self.work / f"{name}.safetensors").read_bytes() == self.whole.read_bytes()


def to_its_end(bench):
    """Submit, look, read what was printed."""
    with node(bench, "--slots", 2) as one:
        job = one.submit("--name", "short", "--", *bench.command("end", slow=False), *bench.saves("end"))
        done = one.until_state(job, "done", "failed")
        check("a job of two ranks runs to its end", done["state"] == "done" and done["exit_status"] == 0, str(done))
        check("to the bits of one process", bench.same_bits("end"))
        ranks = done["rank_states"]
        check("its pages say so", [(r["state"], r["step"], r["steps"]) for r in ranks] == [("done", STEPS, STEPS)] * 2, str(ranks))
        check("and its checkpoint", done["checkpoint_step"] == STEPS and done["checkpoint_s"] > 0, str(done))
        text = one.log(job)
        check("logs are those of its ranks", re.search(rf"^\[rank \d\] .*step {STEPS}/{STEPS}", text, re.M), text)
        table = one.call("status")[1]
        check("status is a table", re.search(rf"^JOB +NAME +STATE .*\n{job} +short +done +2 +{STEPS}/{STEPS} ", table, re.M), table)
        check("status of a job has its ranks", "RANK  PID" in one.call("status", job)[1])


CASES = {"end": to_its_end}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--write-plans", required=True)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []])
    arguments = parser.parse_args()
    bench = Bench(arguments.bin, arguments.work, arguments.write_plans)
    for name in arguments.cases or CASES:
        CASES[name](bench)
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
