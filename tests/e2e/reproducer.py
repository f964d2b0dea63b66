#!/usr/bin/env python3
"""A bug in any pass leaves a file from which piper-opt repeats it.

  reproducer.py --bin BIN --work FOLDER

Fails piperc in each pass of the pipeline in turn. The message names the pass and the file, and the line that it prints
fails in the same way; without --fail-in the same line runs the pass, and what that makes of the file is the module
before the next pass. Plain Python, no packages.
"""
import argparse
import difflib
import pathlib
import re
import shlex
import subprocess
import sys

MODEL = pathlib.Path(__file__).resolve().parents[1] / "models" / "tiny_gpt.onnx"
BUG = 70  # exit status of a program that found its own bug
STRATEGY = """\
model: {batch: 16}
annotate: [{tag: PP, starts: [h.0, h.1]}]
directives:
  - {op: replicate, filter: {PP: 0}, devices: [0, 1], shard_params: true, bucket_size: 0.001}
  - {op: replicate, filter: {PP: 1}, devices: [2, 3], shard_grads: true}
  - {op: recompute, filter: {PP: 0, MB: 1}}
  - {op: note, filter: {PP: 1}, text: the last stage}
schedule: {family: zero_bubble, microbatches: 2}
clip_grad_norm: 1.0
optimizer: {sgd: {lr: 0.1}}
"""


def module_of(text: str, file_name: str) -> str:
    """The module in a text, with the same name for the file of the strategy wherever it was read from."""
    module = text[re.search("^module {", text, re.MULTILINE).start():]
    return re.sub(r"@\d+:", "@", module).replace(file_name, "s.yaml")


class Check:
    def __init__(self, bin_folder: pathlib.Path, work: pathlib.Path):
        self.bin, self.work, self.faults = bin_folder, work, []

    def run(self, command: list[str]) -> subprocess.CompletedProcess:
        return subprocess.run([str(self.bin / command[0]), *command[1:]], cwd=self.work, capture_output=True, text=True)

    def expect(self, holds: bool, pass_name: str, what: str, result: subprocess.CompletedProcess):
        if not holds:
            self.faults.append(f"{pass_name}: {what}; exit status {result.returncode}\n{result.stderr}")

    def one(self, name: str) -> tuple[str, str]:
        """The module before the pass and after it, as text."""
        made = self.work / "piperc-reproducer.pir"
        made.unlink(missing_ok=True)
        failed = self.run(["piperc", str(MODEL), "--strategy", "s.yaml", "--fail-in", name])
        repeat = re.search(r"repeat with: (.*)", failed.stderr)
        self.expect(failed.returncode == BUG, name, "piperc was to fail", failed)
        self.expect(f"bug in piperc: {name}: " in failed.stderr, name, "piperc does not name the pass", failed)
        if repeat is None or not made.exists() or made.name not in repeat[1]:
            self.expect(False, name, "piperc names no file and line", failed)
            return "", ""
        before = module_of(made.read_text(), made.name)
        line = shlex.split(repeat[1])
        again = self.run(line)
        self.expect(again.returncode == BUG, name, "the line was to fail", again)
        self.expect(f"bug in piper-opt: {name}: " in again.stderr, name, "the line does not name the pass", again)
        at = line.index("--fail-in")
        done = self.run(line[:at] + line[at + 2:])
        self.expect(done.returncode == 0, name, "the line without --fail-in fails", done)
        after = module_of(done.stdout, made.name) if done.stdout.startswith("module {") else ""
        return before, after


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    (args.work / "s.yaml").write_text(STRATEGY)
    check = Check(args.bin, args.work)
    passes = re.findall(r"^- \*\*(\w+)\*\*", check.run(["piper-opt", "--list-passes"]).stdout, re.MULTILINE)
    behind = ""
    for name in passes:
        before, after = check.one(name)
        if behind and before and before != behind:
            difference = difflib.unified_diff(behind.splitlines(), before.splitlines(), "from the file", "compiled", n=0)
            check.faults.append(f"{name}: the pass before makes another module of its file\n" + "\n".join(difference))
        behind = after
    for fault in check.faults:
        print(fault)
    print(f"{len(passes)} passes, {len(check.faults)} faults")
    sys.exit(1 if check.faults or not passes else 0)


if __name__ == "__main__":
    main()
