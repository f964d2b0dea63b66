#!/usr/bin/env python3
"""Reads the sources that changed last: each includes what it uses, and clang-tidy 19 finds nothing in it.

  lint.py [--all] [--jobs N] [--passed FOLDER]

Sources come in this order: those that differ from the main branch, or, on that branch itself, from the commit before; those that
include a header that differs; those of older commits, newest first. Of the libraries, which the build joins and so does not see what
one source lacks, at most PIPER_SYNTAX_FILES (200) are compiled by themselves (-fsyntax-only); PIPER_TIDY_FILES (24) are given to
clang-tidy. --all: no limit. --passed: remembers there what passed, by the digest of the tool, the command and all files that were read,
and does not read the same again.
Exit status: 0 nothing was found, 1 something was, 2 the command line.
"""
import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMANDS = ROOT / "build" / "lint" / "compile_commands.json"
JOINED = ("compiler/", "launcher/", "runtime/", "schemas/")
TIDY = ("compiler/", "launcher/", "runtime/", "schemas/", "tools/")
# What includes LibTorch, whose headers clang 19 does not read.
NOT_TIDY = ("runtime/kernels/", "tools/piper_torchscript/")
ENDS = (".cc", ".h", ".def", ".inc")
UNUSED_S = 14 * 24 * 3600    # what nobody asked for so long is forgotten


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


def compiler_call(command: list[str], *instead: str) -> list[str]:
    """The command of a source without ccache and the output; `instead` says what to do."""
    at = command.index("-o")
    without_output = command[:at] + command[at + 2:]
    return [*without_output[next(i for i, word in enumerate(without_output) if word.endswith(("c++", "g++", "clang++"))):], *instead]


def compiles_alone(name: str, command: list[str]) -> str:
    """What the compiler says of a source by itself, or ""."""
    # Joined with others a source may use what it does not include.
    done = subprocess.run(compiler_call(command, "-fsyntax-only"), cwd=COMMANDS.parent, capture_output=True, text=True)
    return f"{name}: does not compile by itself\n{done.stderr}" if done.returncode else ""


def clang_tidy() -> str:
    return next(path for path in (shutil.which("clang-tidy-19"), shutil.which("clang-tidy")) if path)


def tidy(name: str) -> str:
    done = subprocess.run([clang_tidy(), "-p", COMMANDS.parent, "--quiet", ROOT / name], capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


@functools.cache
def version(tool: str) -> str:
    return subprocess.run([tool, "--version"], check=True, capture_output=True, text=True).stdout


@functools.cache
def digest_of(file: str) -> str:
    return hashlib.sha256((COMMANDS.parent / file).read_bytes()).hexdigest()


def digest_of_read(command: list[str]) -> str | None:
    """A digest of a source's command, of the source and of all headers that it reads, the same in each checkout. None: it cannot be read."""
    call = compiler_call(command, "-M")
    done = subprocess.run(call, cwd=COMMANDS.parent, capture_output=True, text=True)
    if done.returncode:
        return None
    files = done.stdout.replace("\\\n", " ").split()[1:]
    read = version(call[0]) + " ".join(call) + "".join(f"\n{file} {digest_of(file)}" for file in [__file__, *files])
    return hashlib.sha256(read.replace(str(ROOT), "").encode()).hexdigest()


def unless_passed(folder: pathlib.Path | None, tool: str, command: list[str], says: Callable[[], str]) -> str:
    """What `says` returns, which is not asked where it returned nothing of the same files before."""
    read = digest_of_read(command) if folder else None
    passed = folder / hashlib.sha256(f"{tool} {read}".encode()).hexdigest() if read else None
    if passed and passed.exists():
        passed.touch()
        return ""
    said = says()
    if passed and not said:
        passed.touch()
    return said


def forget_unused(folder: pathlib.Path):
    folder.mkdir(parents=True, exist_ok=True)
    for passed in folder.iterdir():
        if time.time() - passed.stat().st_mtime > UNUSED_S:
            passed.unlink(missing_ok=True)


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
    parser.add_argument("--passed", type=pathlib.Path)
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
    rules = version(clang_tidy()) + (ROOT / ".clang-tidy").read_text()

    def tidied_once(name: str) -> str:
        return unless_passed(arguments.passed, rules, sources[name], lambda: tidy(name))

    def alone_once(name: str) -> str:
        return unless_passed(arguments.passed, "alone", sources[name], lambda: compiles_alone(name, sources[name]))

    if arguments.passed:
        forget_unused(arguments.passed)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        said = list(pool.map(tidied_once, tidied)) + list(pool.map(alone_once, alone))
    faults = [text for text in said if text]
    print("\n".join(faults), end="" if not faults else "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
