"""Exports, compiles and runs for the benchmarks: piper's side of every measurement."""
from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys

TOOLS = pathlib.Path(__file__).resolve().parents[1]
WARM_UP = 3
OPTIMIZER = "optimizer: {adamw: {lr: 3.0e-4, betas: [0.9, 0.95], eps: 1.0e-8, weight_decay: 0.1}}\n"


@dataclasses.dataclass
class Run:
    step_ms: float                  # median of the steps after the warm-up
    losses: list[float]
    peak_memory: list[int]          # bytes, by rank, counted by piper-run
    resident: int                   # bytes, the most of the whole process
    faults: int                     # minor page faults of the whole process


class Programs:
    def __init__(self, bin_dir, work):
        self.bin, self.work = pathlib.Path(bin_dir).resolve(), pathlib.Path(work).resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.data, self.notes = self.work / "bytes.u8.bin", set()      # notes of runs, each of which is printed once
        if not self.data.exists():
            self.data.write_bytes(os.urandom(1 << 20))

    def model(self, name):
        """models.NAME as ONNX."""
        path = self.work / f"{name}.onnx"
        if not path.exists():
            subprocess.run([sys.executable, TOOLS / "piper_export.py", f"{TOOLS / 'bench' / 'models.py'}:{name}", "-o", path],
                           check=True, capture_output=True)
        return path

    def piperc(self, model, text, name, *flags):
        """piperc on models.MODEL and a strategy's text; the completed process, whatever its exit status."""
        path = self.work / f"{name}.yaml"
        path.write_text(text)
        return subprocess.run([self.bin / "piperc", self.model(model), "--strategy", path, *flags], capture_output=True, text=True)

    def compile(self, model, text, name, *flags):
        plans = self.work / f"{name}.plans"
        done = self.piperc(model, text, name, "-o", plans, *flags)
        if done.returncode != 0:
            raise SystemExit(f"piperc refuses {self.work / name}.yaml:\n{done.stderr}")
        return plans

    def predicted_memory(self, plans):
        return [rank["peak_bytes"] for rank in json.loads((plans / "manifest.json").read_text())["ranks"]]

    def run(self, plans, steps, *flags, threads=1, data=None):
        """One process, all ranks in it, one thread each. RuntimeError with its own words where it fails."""
        log, said = self.work / "log.jsonl", self.work / "said.txt"
        with open(said, "w") as err:
            process = subprocess.Popen([self.bin / "piper-run", plans, "--data", data or self.data, "--steps", str(steps + WARM_UP),
                                        "--threads", str(threads), "--seed", "1", "--log", log, *flags], stdout=subprocess.DEVNULL, stderr=err)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise RuntimeError(f"piper-run fails on {plans}:\n{said.read_text()}")
        for line in said.read_text().splitlines():
            if line.startswith("piper-run: note:") and line not in self.notes:
                self.notes.add(line)
                print(line, flush=True)
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        steps = [row for row in rows if "step_ms" in row]
        return Run(statistics.median(row["step_ms"] for row in steps[WARM_UP:]), [row["loss"] for row in steps],
                   rows[-1]["summary"]["peak_memory_bytes"], 1024 * usage.ru_maxrss, usage.ru_minflt)


def spread(values, form="{:.2f}"):
    """Median and range, as every table prints them."""
    return f"{form} ({form} to {form})".format(statistics.median(values), min(values), max(values))


def load():
    """The machine's load, to print beside a table."""
    return "load " + " ".join(f"{x:.1f}" for x in os.getloadavg())
