#!/usr/bin/env python3
"""Several tests in one process, which imports PyTorch once: each is reported by name and fails by itself.

  together.py --bin BIN --work DIR [--only NAME,...] -- NAME SCRIPT [ARGUMENT...] [-- NAME SCRIPT [ARGUMENT...]]...

Each script's main() is called as from a shell, with a folder of its own in DIR. Exit status 0: all have passed.
"""
import argparse
import atexit
import importlib
import os
import pathlib
import sys
import time
import traceback

import torch

import checks
import harness
import zoo


def parts_of(words):
    """(name, script, arguments) of each test."""
    parts = []
    for word in words:
        if word == "--":
            parts.append([])
        else:
            parts[-1].append(word)
    return [(name, script, arguments) for name, script, *arguments in parts]


def status_of(script, arguments):
    """What a shell would have as exit status of the script."""
    checks.faults.clear()
    models, compositions, argv, threads = dict(zoo.MODELS), dict(harness.COMPOSITIONS), sys.argv, torch.get_num_threads()
    torch.manual_seed(0)
    sys.argv = [script, *arguments]
    try:
        importlib.import_module(pathlib.Path(script).stem).main()
        return 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code)
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except Exception:
        traceback.print_exc(file=sys.stdout)
        return 1
    finally:    # what a script adds is its own
        zoo.MODELS.clear()
        zoo.MODELS.update(models)
        harness.COMPOSITIONS.clear()
        harness.COMPOSITIONS.update(compositions)
        sys.argv = argv
        torch.set_num_threads(threads)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--only", type=lambda names: names.split(","))
    begin = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args, parts = parser.parse_args(sys.argv[1:begin]), parts_of(sys.argv[begin:])
    unknown = set(args.only or ()) - {name for name, *_ in parts}
    if unknown or len({name for name, *_ in parts}) < len(parts):
        parser.error(f"names: {[name for name, *_ in parts]}, not there: {sorted(unknown)}")
    ended = []
    for name, script, arguments in parts:
        if args.only and name not in args.only:
            continue
        print(f"---- {name}: {script} {' '.join(arguments)}", flush=True)
        started = time.monotonic()
        status = status_of(script, ["--bin", args.bin, "--work", str(pathlib.Path(args.work) / name), *arguments])
        ended.append((name, status, time.monotonic() - started))
    print("----")
    for name, status, seconds in ended:
        print(f"{'FAILED' if status else 'ok    '} {name} ({seconds:.0f} s)")
    return 1 if not ended or any(status for _, status, _ in ended) else 0


if __name__ == "__main__":
    code = main()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)      # the interpreter's own end takes apart all of PyTorch, which costs more than its start
