"""Runs of piper-run as children of one process that has LibTorch loaded already (piper_run_forks_main.cc): some 0.04 s of a processor
for each instead of 0.24. With PIPER_TEST_FORKS=0, as in `slow` tests, each is a process of its own, as users have it."""
from __future__ import annotations

import atexit
import functools
import os
import pathlib
import select
import subprocess
import tempfile


class ForkedRuns:
    def __init__(self, program: pathlib.Path, environment: dict[str, str]):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.output = tempfile.NamedTemporaryFile(prefix="piper-run-forks.")
        atexit.register(self.end)

    def end(self):
        """Waits, so that its time is counted as that of the test."""
        self.process.stdin.close()
        self.process.wait()

    def call(self, command: list[str], folder: str, seconds: float) -> tuple[int, str]:
        """Exit status, as subprocess has it, and what was printed."""
        texts = [str(len(command)), self.output.name, folder, *command]
        self.process.stdin.write(b"".join(text.encode() + b"\0" for text in texts))
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            self.process.kill()     # and with it the run
            raise subprocess.TimeoutExpired(command, seconds)
        answer = self.process.stdout.readline()
        printed = pathlib.Path(self.output.name).read_text(errors="replace")
        if not answer:
            raise AssertionError(f"piper-run-forks ended with {self.process.wait()}: {' '.join(command)}\n{printed}")
        return int(answer), printed


@functools.cache
def forked_runs(program: pathlib.Path) -> ForkedRuns | None:
    """Those of `program`, a piper-run; None where runs are processes of their own."""
    forks = program.with_name(program.name + "-forks")
    if os.environ.get("PIPER_TEST_FORKS") == "0" or not forks.exists():
        return None
    return ForkedRuns(forks, dict(os.environ))
