#!/usr/bin/env python3
"""A run that a signal stops ends on all ranks after one step, whose checkpoint it leaves, and goes on from there to the
bits of one that never stopped. A loss that is no number ends a run before that is saved.

  stopping.py --bin BIN --work DIR [--no-mpirun]
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from safetensors.torch import load_file, save_file

from checks import check, faults
import harness
from checkpoints import difference, losses_of, step, tensors_of

MODEL, RANKS, FOR_EVER = "gpt_dropout", 4, 10000000
STOPPED, NOT_FINITE, TERMINATED = 75, 82, 143
# An option of Open MPI: seconds between SIGTERM and SIGKILL, which it waits for in full, also where all ranks have ended.
PATIENT = ["--mca", "odls_base_sigkill_timeout", "10"]


class Run:
    """piper-run in the background; what it says goes to a file."""

    def __init__(self, bench, plans, launch, *flags, data=MODEL, mca=(), fault=None):
        self.output = bench.work / "output"
        command = [bench.bin / ("piper-run-faulty" if fault else "piper-run"), plans, "--data", bench.work / f"{data}.safetensors", "--threads", 1, *flags]
        if launch == "mpirun":
            command = ["mpirun", "--oversubscribe", *mca, "-n", RANKS, *command]
        environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PIPER_TEST_FAULT": fault or ""}
        with open(self.output, "w") as output:
            self.process = subprocess.Popen([str(word) for word in command], stdout=output, stderr=subprocess.STDOUT, env=environment)

    def until(self, condition):
        """Waits for it as long as the run lasts."""
        while self.process.poll() is None and not condition():
            time.sleep(0.01)
        return self

    def signal(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)

    def end(self):
        """Exit status, as a shell has it, and what was said."""
        try:
            code = self.process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        return code if code >= 0 else 128 - code, self.output.read_text()

    def ranks(self):
        """Processes of piper-run under a launcher."""
        pids = []
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                name, rest = path.read_text().rsplit(")", 1)
            except OSError:
                continue
            if int(rest.split()[1]) == self.process.pid and "piper-run" in name:
                pids.append(int(path.parent.name))
        return sorted(pids)


def steps_in(log):
    return len(log.read_text().splitlines()) if log.exists() else 0


def fresh(bench, name):
    folder = bench.work / f"{name}.checkpoints"
    shutil.rmtree(folder, ignore_errors=True)
    log = folder.with_suffix(".jsonl")
    log.unlink(missing_ok=True)
    return folder, log


def stopped_behind(label, folder, code, text, signal_name):
    """The step, where all is as it should be."""
    found = re.findall(rf"stopped by {signal_name} after step (\d+) of {FOR_EVER}; the newest checkpoint is of step (\d+)", text)
    right = code == STOPPED and len(found) == 1 and found[0][0] == found[0][1]
    check(f"{label}: all ranks stop behind a step that is saved", right, f"{code} {text}")
    if not right:
        return 0
    number = int(found[0][0])
    check(f"{label}: the checkpoint of that step is there", (step(folder, number) / "MANIFEST.json").exists())
    return number


def goes_on(bench, plans, label, launch, folder, log, number):
    """Two more steps are those of a run that never stopped."""
    whole, whole_log = fresh(bench, "whole")
    for where, to, way in ((folder, log, launch), (whole, whole_log, "local")):
        code, text = Run(bench, plans, way, "--sampling", "shuffled", "--checkpoint", where, "--resume", "--log", to, "--steps", number + 2).end()
        check(f"{label}: a run ends", code == 0, f"{code} {text}")
    check(f"{label}: losses are those of one run", losses_of(log) == losses_of(whole_log))
    differs = difference(tensors_of(step(whole, number + 2)), tensors_of(step(folder, number + 2)))
    check(f"{label}: so is the state", not differs, differs)


def signals(bench, plans, launch):
    def start(name, mca=()):
        folder, log = fresh(bench, f"{launch}-{name}")
        flags = ["--sampling", "shuffled", "--steps", FOR_EVER, "--log", log]
        return folder, log, Run(bench, plans, launch, "--checkpoint", folder, *flags, mca=mca).until(lambda: steps_in(log) > 2)

    for name in ("SIGUSR1", "SIGTERM"):
        label = f"{launch} {name}"
        folder, log, run = start(name, PATIENT if name == "SIGTERM" else ())
        run.signal(getattr(signal, name))
        code, text = run.end()
        if launch == "mpirun" and name == "SIGTERM":    # mpirun has a status of its own
            check(f"{label}: the ranks were asked", "stopped by SIGTERM after step" in text, text)
            code = STOPPED
        number = stopped_behind(label, folder, code, text, name)
        if number:
            goes_on(bench, plans, label, launch, folder, log, number)

    label = f"{launch} SIGUSR2"
    folder, log, run = start("SIGUSR2")
    run.signal(signal.SIGUSR2)

    def saved():    # without what is being written, which has a manifest before it has its name
        return {path.name for path in folder.glob("step-*") if ".tmp-" not in path.name}
    run.until(saved)
    there = saved()
    more = steps_in(log) + 5
    run.until(lambda: steps_in(log) > more)
    check(f"{label}: a checkpoint, and training goes on", len(there) == 1 and run.process.poll() is None, str(there))
    run.signal(signal.SIGUSR1)
    code, text = run.end()
    stopped_behind(label, folder, code, text, "SIGUSR1")

    if launch == "mpirun":
        folder, log, run = start("one-rank")
        os.kill(run.ranks()[-1], signal.SIGUSR1)
        code, text = run.end()
        stopped_behind("mpirun, one rank alone has the signal", folder, code, text, "SIGUSR1")


def without_checkpoints(bench, plans):
    for name in ("SIGUSR1", "SIGTERM"):
        log = bench.work / "none.jsonl"
        log.unlink(missing_ok=True)
        run = Run(bench, plans, "local", "--steps", FOR_EVER, "--log", log).until(lambda: steps_in(log) > 2)
        run.signal(signal.SIGUSR2)
        more = steps_in(log) + 5
        run.until(lambda: steps_in(log) > more)
        check("SIGUSR2 without --checkpoint: training goes on", run.process.poll() is None)
        run.signal(getattr(signal, name))
        code, text = run.end()
        said = f"stopped by {name}" in text and "nothing was saved" in text and "SIGUSR2 saves nothing without --checkpoint" in text
        check(f"{name} without --checkpoint", code == TERMINATED and said, f"{code} {text}")


def evaluation_alone(bench):
    """It saves no checkpoint, also where it reads one: there is nothing to wait for."""
    plans = bench.compile(MODEL, harness.strategy_text(MODEL, "pp2_dp2", "adamw", "eval: {batches: 1}\n"), "stopping-eval")
    folder, _ = fresh(bench, "eval")
    code, text = Run(bench, plans, "local", "--steps", 1, "--checkpoint", folder).end()
    check("a step to evaluate", code == 0, f"{code} {text}")
    run = Run(bench, plans, "local", "--checkpoint", folder, "--resume", "--eval-only", "--eval-data", bench.work / f"{MODEL}.safetensors",
              "--link-delay", 3600000000)
    run.until(lambda: "evaluates once" in run.output.read_text())
    time.sleep(0.5)
    run.signal(signal.SIGUSR1)
    code, text = run.end()
    check("SIGUSR1 ends an evaluation at once", code == TERMINATED and "stopped by SIGUSR1" in text, f"{code} {text}")


def twice(bench, plans):
    """A step takes seconds here; who asks again does not wait for its end."""
    for second in (signal.SIGTERM, signal.SIGINT):
        folder, _ = fresh(bench, "twice")
        run = Run(bench, plans, "local", "--steps", FOR_EVER, "--checkpoint", folder, "--link-delay", 3600000000)
        run.until(lambda: "host memory" in run.output.read_text())
        time.sleep(0.5)
        run.signal(signal.SIGTERM)
        time.sleep(0.5)
        check(f"{second.name} behind SIGTERM: the first one waits for the step", run.process.poll() is None)
        run.signal(second)
        code, text = run.end()
        check(f"{second.name} behind SIGTERM ends the run at once", code == 128 + second, f"{code} {text}")
        left = [path.name for path in folder.iterdir() if path.name != "LOCK"]
        check(f"{second.name} behind SIGTERM: nothing was saved", not left, str(left))
    folder, _ = fresh(bench, "grace")
    run = Run(bench, plans, "local", "--steps", FOR_EVER, "--checkpoint", folder, "--link-delay", 3600000000, "--grace", 1)
    run.until(lambda: "host memory" in run.output.read_text())
    time.sleep(0.5)
    run.signal(signal.SIGTERM)
    code, text = run.end()
    check("a step longer than --grace", code == TERMINATED and "nothing was saved" in text, f"{code} {text}")


def nearly_written(bench):
    """A checkpoint takes 2.4 s, longer than --grace; half of the second one is on the disk when SIGTERM comes."""
    plans = bench.compile(MODEL, harness.strategy_text(MODEL, "one", "adamw"), "stopping-one")
    folder, log = fresh(bench, "nearly")

    def kept():
        return sorted(path.name for path in folder.glob("step-*") if ".tmp-" not in path.name)
    run = Run(bench, plans, "local", "--steps", FOR_EVER, "--checkpoint", folder, "--grace", 2, "--log", log, fault="sync 0 1")
    run.until(lambda: steps_in(log) > 2).signal(signal.SIGUSR2)
    run.until(kept).signal(signal.SIGUSR2)
    run.until(lambda: list(folder.glob("step-*.tmp-*/MANIFEST.tmp"))).signal(signal.SIGTERM)
    code, text = run.end()
    newest = re.findall(r"stopped by SIGTERM after step \d+ of \d+; the newest checkpoint is of step (\d+)", text)
    said = "none is saved after the one that is being written" in text and len(newest) == 1
    check("SIGTERM and a checkpoint that is nearly written: it is committed", code == TERMINATED and said and
          len(kept()) == 2 and kept()[1] == step(folder, int(newest[0])).name, f"{code} {kept()} {text}")


def not_finite(bench):
    """A sample of step 4 is NaN, or so far from any output that the loss is infinite."""
    plans = bench.compile("mlp", harness.strategy_text("mlp", "dp2", "adamw"), "mlp-nan")
    clean = load_file(bench.work / "mlp.safetensors")
    for name, key, value in (("NaN", "x", float("nan")), ("infinite", "target", 1e30)):
        data = {of: tensor.clone() for of, tensor in clean.items()}
        data[key][3 * harness.BATCH + harness.BATCH - 1] = value
        save_file(data, bench.work / "damaged.safetensors")
        folder, log = fresh(bench, f"nan-{name}")
        flags = ["--steps", 6, "--sampling", "sequential", "--checkpoint", folder, "--every", 1, "--log", log]
        code, text = Run(bench, plans, "local", *flags, data="damaged").end()
        found = re.findall(r"error\[R0801\]: step 4: the loss is (\w+)", text)
        check(f"{name}: the run ends, one message", code == NOT_FINITE and found == [name], f"{code} {text}")
        kept = sorted(path.name for path in folder.glob("step-*") if ".tmp-" not in path.name)
        check(f"{name}: nothing behind it is saved", set(kept) <= {f"step-{n:09d}" for n in (1, 2, 3)} and kept, str(kept))
        shutil.rmtree(folder)
        log.unlink()
        code, text = Run(bench, plans, "local", "--no-stop-on-nan", *flags, data="damaged").end()
        check(f"{name}: --no-stop-on-nan goes on", code == 0 and len(losses_of(log)) == 6, f"{code} {text}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--no-mpirun", action="store_true")
    arguments = parser.parse_args()
    bench = harness.Bench(arguments.bin, arguments.work)
    plans = bench.compile(MODEL, harness.strategy_text(MODEL, "pp2_dp2", "adamw"), "stopping")
    for launch in ("local",) if arguments.no_mpirun else ("local", "mpirun"):
        signals(bench, plans, launch)
    without_checkpoints(bench, plans)
    evaluation_alone(bench)
    twice(bench, plans)
    nearly_written(bench)
    not_finite(bench)
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
