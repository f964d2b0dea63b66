#!/usr/bin/env python3
"""The scripts of tools/ that people start say how they are used, and start nothing where they do not know an argument.

  check_scripts.py ROOT

Each prints its usage for --help and -h (status 0) and, after a line with the word, for a word that it does not know
(status 2). A script that runs on is ended after TIMEOUT seconds, with what it started.
"""
import os
import pathlib
import signal
import subprocess
import sys

SCRIPTS = ("check.sh", "demo.sh", "setup.sh", "setup_cuda.sh", "bench/gpu_node.sh")
TIMEOUT = 10
UNKNOWN = "--no-such-word"


def run(script: pathlib.Path, argument: str) -> tuple[int, str]:
    process = subprocess.Popen([script, argument], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               start_new_session=True)
    try:
        output, _ = process.communicate(timeout=TIMEOUT)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return -1, ""


def main() -> int:
    tools = pathlib.Path(sys.argv[1]) / "tools"
    faults = []
    for name in SCRIPTS:
        first_line = (tools / name).read_text().splitlines()[1].removeprefix("# ")
        for argument, expected in (("--help", 0), ("-h", 0), (UNKNOWN, 2)):
            status, output = run(tools / name, argument)
            if status != expected:
                faults.append(f"tools/{name} {argument}: exit status {status}, not {expected}")
            elif first_line not in output:
                faults.append(f"tools/{name} {argument}: does not print its usage")
            elif expected and argument not in output.splitlines()[0]:
                faults.append(f"tools/{name} {argument}: does not name the word that it refuses")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
