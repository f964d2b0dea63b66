"""The commands of a page of docs/, as the page has them: they run, and they print what it shows.

Of the page's fenced blocks, `python NAME` and `yaml NAME` are files, `sh` commands of one shell (`sh fails`: the last one
ends with an error), and `text` after commands is what these print: each of its lines, except `...`. A block `sh setup`
says where the project is; the test says it itself.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)(?: ([\w.]+))?\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


def run(script, work, environment):
    result = subprocess.run(["bash", "-e", "-c", script], cwd=work, env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    print(script + result.stdout, flush=True)
    return result


def main(name, description, least, links=(), after=lambda work: []):
    """`least`: so many blocks of a kind the page must have, so that a page whose blocks are not found does not pass. `links`: what the
    project has in the folder in which the page's commands run; `build/release/bin` are the programs, `NAME/` is a new folder. `after`
    looks at what the commands left."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    work = arguments.work.resolve() / "folder"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for link in links:
        (work / link).parent.mkdir(parents=True, exist_ok=True)
        if link.endswith("/"):
            (work / link).mkdir()
            continue
        (work / link).symlink_to(arguments.bin.resolve() if link == "build/release/bin" else ROOT / link)
    path = f"{arguments.bin.resolve()}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "tools"), "PIPER": str(ROOT), "OMP_NUM_THREADS": "1"}
    blocks = BLOCK.findall((ROOT / "docs" / name).read_text())
    kinds = [kind for kind, _, _ in blocks]
    faults, printed, setups = [], "", 0
    for kind, word, text in blocks:
        if kind in ("python", "yaml"):
            (work / word).write_text(text)
        elif kind == "sh" and word == "setup":
            setups += 1
        elif kind == "sh":
            result = run(text, work, environment)
            printed = result.stdout
            if (result.returncode != 0) != (word == "fails"):
                faults.append(f"exit status {result.returncode} of: {text}")
        elif kind == "text":
            lines = {line.rstrip() for line in printed.splitlines()}
            faults += [f"not printed: {line}" for line in text.splitlines() if line != "..." and line.rstrip() not in lines]
        else:
            faults.append(f"a block of the kind '{kind}'")
    if any(kinds.count(kind) < count for kind, count in least.items()) or setups != (0 if links else 1):
        faults.append(f"the page has too few blocks: {kinds}")
    faults += after(work)
    print("\n".join(faults))
    sys.exit(1 if faults else 0)
