#!/usr/bin/env python3
"""What a user sees who gives piperc or piper-run something wrong: the exact text and the exit status.

  wrong_inputs.py --bin BIN --work DIR [--no-mpirun] [--only NAME] [--update] [--page]

Every case of wrong_cases.py runs in a folder of its own. Its commands, what they print and how they exit are in
wrong_inputs/expected/NAME.txt; --update writes these files anew, --page the page of docs/errors that shows them.
"""
import argparse
import difflib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import wrong_cases
from forked_runs import forked_runs

EXPECTED = pathlib.Path(__file__).resolve().parent / "wrong_inputs" / "expected"
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "errors" / "examples.md"
MODELS = pathlib.Path(__file__).resolve().parents[1] / "models"
# What a run prints before it begins.
BANNER = re.compile(r"piper-run: (data: |weights: |evaluation: |[\d,]+ steps? of |evaluates once|\S+: [\d,]+ parameters?, )")
LIMIT_S = 120    # a case that takes longer hangs


class Desk:
    """A case's folder, and the programs by their names."""

    def __init__(self, bin_dir: pathlib.Path, work: pathlib.Path):
        self.bin, self.work = bin_dir, work
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        self.environment = os.environ | {
            "PATH": f"{bin_dir}:{os.environ['PATH']}",
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}

    def write(self, name: str, content: str | bytes):
        path = self.work / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def call(self, command: str) -> tuple[int, str]:
        words = command.split()
        if words[0] == "piper-run" and (forks := forked_runs(self.bin / "piper-run")):
            return forks.call(words, str(self.work), LIMIT_S)
        done = subprocess.run(words, cwd=self.work, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=LIMIT_S)
        return done.returncode, done.stdout

    def must(self, command: str):
        code, text = self.call(command)
        if code:
            raise AssertionError(f"exit {code}: {command}\n{text}")

    def start_and_disturb(self, command: str, log: str, disturb) -> tuple[int, str]:
        """Starts, waits for the third step in the log, and calls disturb(pid of the program, pids of mpirun's ranks)."""
        out = self.work / "signalled.txt"
        with out.open("w") as sink:
            process = subprocess.Popen(command.split(), cwd=self.work, env=self.environment, stdout=sink, stderr=subprocess.STDOUT)
            until = time.monotonic() + LIMIT_S
            while (not (self.work / log).exists() or (self.work / log).read_text().count('"loss"') < 3) and process.poll() is None:
                if time.monotonic() > until:
                    process.kill()
                    raise AssertionError("no third step: " + out.read_text())
                time.sleep(0.02)
            ranks = children(process.pid)
            disturb(process.pid, ranks)
            try:
                code = process.wait(timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise AssertionError("the run hangs when disturbed: " + out.read_text()) from None
        until = time.monotonic() + 10
        while left := [pid for pid in ranks if pathlib.Path(f"/proc/{pid}/cmdline").exists()]:
            if time.monotonic() > until:
                raise AssertionError(f"{len(left)} ranks outlive the launcher")
            time.sleep(0.05)
        return code, out.read_text()


def children(pid: int) -> list[int]:
    return [int(child) for task in pathlib.Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]


def rank_pid(processes: list[int], rank: int) -> int:
    for pid in processes:
        if f"OMPI_COMM_WORLD_RANK={rank}".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            return pid
    raise AssertionError(f"rank {rank} is not running")


def as_shown(case, desk: Desk, text: str) -> str:
    """The output without what differs from run to run or between versions of MPI."""
    text = text.replace(str(desk.work), "WORK")
    lines = [line.rstrip() for line in text.splitlines()]
    if case.mpi:
        lines = [line for line in lines if line.startswith("piper") or "noticed that process" in line]
        lines = [re.sub(r"(noticed that process rank \d+) with PID.*(exited on signal \d+).*", r"\1 \2", line) for line in lines]
    for pattern, shown in case.masks:
        lines = [re.sub(pattern, shown, line) for line in lines]
    return "".join(line + "\n" for line in lines if line and not re.match(r"step \d+[/:]", line) and not BANNER.match(line))


def play(case, desk: Desk) -> str:
    for suffix in ("onnx", "pt2"):
        for model in MODELS.glob(f"*.{suffix}"):
            shutil.copy(model, desk.work)
    for name, content in case.files.items():
        desk.write(name, content)
    if case.prepare:
        case.prepare(desk)
    if case.signal:
        def send(pid, ranks):
            os.kill(pid if case.signal_rank is None else rank_pid(ranks, case.signal_rank), getattr(signal, case.signal))
        code, text = desk.start_and_disturb(case.command, "log.jsonl", send)
    elif case.meanwhile:
        code, text = desk.start_and_disturb(case.command, "log.jsonl", lambda pid, ranks: case.meanwhile(desk))
    else:
        code, text = desk.call(case.command)
    shown = as_shown(case, desk, text)
    return f"# {case.title}\n$ {case.command}\n{shown}exit {code}\n"


def page(cases) -> str:
    lines = ["# What piperc and piper-run say to wrong inputs\n",
             "Written by `python tests/e2e/wrong_inputs.py --page` from the expected texts of the test of the same name.",
             "Exit status: 1 refused before the first step, 2 command line, 3 failed while training; [the others](../stopping.md).\n"]
    area = None
    for case in cases:
        if case.area != area:
            area = case.area
            lines.append(f"## {area}\n")
        title, command, *shown = (EXPECTED / f"{case.name}.txt").read_text().splitlines()
        lines += [f"**{title[2:]}**\n", "```\n" + "\n".join([command, *shown]) + "\n```\n"]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--no-mpirun", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args()
    cases = [case for case in wrong_cases.ALL if args.only in case.name and not (args.no_mpirun and case.mpi)]
    if args.page:
        PAGE.write_text(page(wrong_cases.ALL))
        return
    os.environ |= {"LC_ALL": "C", "OMP_NUM_THREADS": "1"}
    EXPECTED.mkdir(parents=True, exist_ok=True)
    failed = 0
    for case in cases:
        try:
            found = play(case, Desk(args.bin.resolve(), args.work.resolve() / case.name))
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            print(f"FAILED {case.name}: {error}", flush=True)
            failed += 1
            continue
        file = EXPECTED / f"{case.name}.txt"
        if args.update:
            file.write_text(found)
        expected = file.read_text() if file.exists() else ""
        print(f"{'ok    ' if found == expected else 'FAILED'} {case.name}", flush=True)
        if found != expected:
            failed += 1
            sys.stdout.writelines(difflib.unified_diff(expected.splitlines(True), found.splitlines(True), "expected", "found"))
    left = {p.stem for p in EXPECTED.glob("*.txt")} - {case.name for case in wrong_cases.ALL}
    if left:
        print(f"FAILED expected texts without a case: {sorted(left)}")
    stale = not left and PAGE.read_text() != page(wrong_cases.ALL)
    if stale:
        print(f"FAILED {PAGE.name} is not what --page writes")
    sys.exit(1 if failed or left or stale or not cases else 0)


if __name__ == "__main__":
    main()
