#!/usr/bin/env python3
"""Reads the sources that changed last: each includes what it uses, and clang-tidy 19 finds nothing in it.

  lint.py [--all] [--jobs N]

Sources come in this order: those that differ from the main branch, or, on that branch itself, from the commit before; those that
include a header that differs; those of older commits, newest first. Of the libraries, which the build joins and so does not see what
one source lacks, at most PIPER_SYNTAX_FILES (200) are compiled by themselves (-fsyntax-only); PIPER_TIDY_FILES (24) are given to
clang-tidy. --all: no limit.
Exit status: 0 nothing was found, 1 something was, 2 the command line.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMANDS = ROOT / "build" / "lint" / "compile_commands.json"
JOINED = ("compiler/", "launcher/", "runtime/", "schemas/")
TIDY = ("compiler/", "launcher/", "runtime/", "schemas/", "tools/")
# What includes LibTorch, whose headers clang 19 does not read.
NOT_TIDY = ("runtime/kernels/", "tools/piper_torchscript/")
ENDS = (".cc", ".h", ".def", ".inc")


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def base_commit() -> str | None:
    head = git("rev-parse", "HEAD")
    for found in (git("merge-base", "HEAD", "origin/main"), git("rev-parse", "--quiet", "--verify", "HEAD~1")):
        if found and found != head:
            return found[0]
    return None


def changed_files(base: str | None) -> list[str]:
    """Paths that exist, those of newer commits first, what is not committed before all. From `base` on; None: of all commits."""
    names = git("diff", "--name-only", "HEAD") + git("ls-files", "--others", "--exclude-standard")
    names += [name for name in git("log", "--format=", "--name-only", f"{base}..HEAD" if base else "HEAD") if name]
    return [name for name in dict.fromkeys(names) if name.endswith(ENDS) and (ROOT / name).is_file()]


def commands_by_source() -> dict[str, list[str]]:
    subprocess.run(["cmake", "--preset", "lint"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    entries = json.loads(COMMANDS.read_text())
    root = f"{ROOT}/"
    ours = [entry for entry in entries if entry["file"].startswith(root) and not entry["file"].startswith(f"{root}build/")]
    return {entry["file"].removeprefix(root): shlex.split(entry["command"]) for entry in ours}


def with_includers(changed: list[str], sources: dict[str, list[str]]) -> list[str]:
    """Sources that changed, then sources with a line that includes a changed header."""
    found = [name for name in changed if name in sources]
    headers = [f'#include "{name}"' for name in changed if not name.endswith(".cc")]
    if headers:
        found += [name for name in sources if any(header in (ROOT / name).read_text(errors="replace") for header in headers)]
    return list(dict.fromkeys(found))


def compiles_alone(name: str, command: list[str]) -> str:
    """What the compiler says of a source by itself, or ""."""
    at = command.index("-o")
    without_output = command[:at] + command[at + 2:]
    without_cache = without_output[next(i for i, word in enumerate(without_output) if word.endswith(("c++", "g++", "clang++"))):]
    # Joined with others a source may use what it does not include.
    done = subprocess.run([*without_cache, "-fsyntax-only"], cwd=COMMANDS.parent, capture_output=True, text=True)
    return f"{name}: does not compile by itself\n{done.stderr}" if done.returncode else ""


def tidy(name: str) -> str:
    program = next(path for path in (shutil.which("clang-tidy-19"), shutil.which("clang-tidy")) if path)
    done = subprocess.run([program, "-p", COMMANDS.parent, "--quiet", ROOT / name], capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


def limited(names: list[str], most: int | None, what: str) -> list[str]:
    if most is None or len(names) <= most:
        return names
    print(f"lint: {what}: {len(names) - most} of older commits left out")
    return names[:most]


def version_19_is_there() -> bool:
    if shutil.which("clang-tidy-19"):
        return True
    plain = shutil.which("clang-tidy")
    return plain is not None and "version 19." in subprocess.run([plain, "--version"], capture_output=True, text=True).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    base = base_commit()
    if not version_19_is_there():
        print("lint: clang-tidy 19 is missing; tools/setup.sh check installs it on Debian", file=sys.stderr)
        return 1
    sources = commands_by_source()
    in_order = list(dict.fromkeys(with_includers(changed_files(base), sources) + [n for n in changed_files(None) if n in sources]))

    def most(variable: str, default: int) -> int | None:
        return None if arguments.all else int(os.environ.get(variable, default))

    alone = limited([name for name in in_order if name.startswith(JOINED)], most("PIPER_SYNTAX_FILES", 200), "by itself")
    tidied = limited([name for name in in_order if name.startswith(TIDY) and not name.startswith(NOT_TIDY)],
                     most("PIPER_TIDY_FILES", 24), "clang-tidy")
    print(f"lint: {len(alone)} sources by themselves, clang-tidy on {len(tidied)}")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        said = list(pool.map(tidy, tidied)) + list(pool.map(lambda name: compiles_alone(name, sources[name]), alone))
    faults = [text for text in said if text]
    print("\n".join(faults), end="" if not faults else "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
