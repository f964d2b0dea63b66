#!/usr/bin/env python3
"""A run that is forked (forked_runs.py) ends as one that is started: status, text, bits, folder, signals; and each has nothing of the one before.

  forked_runs_end_alike.py --bin BIN --work DIR --models DIR
"""
import argparse
import array
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

from checks import check, faults
from forked_runs import ForkedRuns

STRATEGY = """piper: 1
model: {batch: 8}
annotate: [{tag: PP, starts: ["h.0", "h.1"]}]
schedule: {family: 1f1b, microbatches: 4}
optimizer: {sgd: {lr: 0.1}}
"""


def child_of(process):
    """Waits for it."""
    children = pathlib.Path(f"/proc/{process}/task/{process}/children")
    while not (found := children.read_text().split()):
        time.sleep(0.001)
    return int(found[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--bin", "--work", "--models"):
        parser.add_argument(name, required=True, type=pathlib.Path)
    args = parser.parse_args()
    args.bin, args.work = args.bin.resolve(), args.work.resolve()
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    (args.work / "s.yaml").write_text(STRATEGY)
    subprocess.run([args.bin / "piperc", args.models / "tiny_gpt.onnx", "--strategy", args.work / "s.yaml", "-o", args.work / "plans"], check=True)
    (args.work / "tokens.bin").write_bytes(array.array("H", (i * 7 % 19 for i in range(4096))).tobytes())   # tokens of the model's vocabulary of 19
    forks = ForkedRuns(args.bin / "piper-run-forks", dict(os.environ))

    def started(words):
        done = subprocess.run([args.bin / "piper-run", *words], cwd=args.work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout

    def forked(words):
        return forks.call(["piper-run", *words], str(args.work), 60)

    trains = ["plans", "--data", "tokens.bin", "--steps", "5", "--threads", "1", "--save"]
    for turn in range(2):
        ends = [run([*trains, f"{run.__name__}.{turn}"]) for run in (started, forked)]
        check("both train", [code for code, _ in ends] == [0, 0], ends)
        check("to the same bits, in their folder", (args.work / f"started.{turn}").read_bytes() == (args.work / f"forked.{turn}").read_bytes())
        for what, words in (("no such bundle", ["nothing", "--data", "tokens.bin"]), ("no such flag", ["--no-such-flag"]), ("help", ["--help"]),
                            ("no data", ["plans", "--data", "nothing.bin"])):
            check(f"{what}: the same end", started(words) == forked(words), f"{started(words)} {forked(words)}")
        killing = threading.Thread(target=lambda: os.kill(child_of(forks.process.pid), signal.SIGKILL))
        killing.start()
        code, _ = forked([*trains[:4], "1000000"])
        killing.join()
        check("a run that is killed is told by its signal", code == -signal.SIGKILL, code)
    try:
        forks.call(["piper-run", *trains[:4], "1000000"], str(args.work), 0.5)
        check("a run that takes too long is ended", False)
    except subprocess.TimeoutExpired:
        check("a run that takes too long is ended, with what it was forked from", forks.process.wait() == -signal.SIGKILL)
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
