"""Starts `piper-run-standin --device cuda`: all ranks in one process, or a process each, by the variables that torchrun sets or
by mpirun. Its GPUs and NCCL are the stand-ins', its kernels the CPU's unless `kernels` says otherwise."""
from __future__ import annotations

import os
import socket
import subprocess
import time

LAUNCHERS = ("OMPI_", "PMIX_", "PMI_", "SLURM_", "TORCHELASTIC_", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_")
PATIENCE = 240    # seconds until processes count as hanging


def environment(gpus, kernels="cpu", **more):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    return {**inherited, "PIPER_STANDIN_DEVICES": str(gpus), "PIPER_STANDIN_KERNELS": kernels, "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **{name: str(value) for name, value in more.items()}}


def free_port():
    with socket.socket() as at:
        at.bind(("127.0.0.1", 0))
        return at.getsockname()[1]


class Processes:
    """One process a rank, each with the variables of its rank."""

    def __init__(self, command, world, work, kernels="cpu", gpus=None, changes=None):
        port = free_port()
        self.files = [work / f"rank-{rank}.err" for rank in range(world)]
        self.processes = []
        for rank, file in enumerate(self.files):
            variables = environment(world if gpus is None else gpus, kernels, RANK=rank, WORLD_SIZE=world, LOCAL_RANK=rank,
                                    LOCAL_WORLD_SIZE=world, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **(changes or {}))
            with open(file, "w") as errors:
                self.processes.append(subprocess.Popen([str(word) for word in command], env=variables, stdout=errors, stderr=errors))

    def wait(self):
        """Exit statuses by rank, and what all of them said; None for one that does not end, which is killed."""
        end = time.monotonic() + PATIENCE
        statuses = []
        for process in self.processes:
            try:
                statuses.append(process.wait(max(0.0, end - time.monotonic())))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                statuses.append(None)
        return statuses, [line for file in self.files for line in file.read_text().splitlines()]


def run(how, program, world, work, plans, *flags, kernels="cpu"):
    """`how`: local, nccl, processes, mpirun. The exit status, the highest one of several, and the lines that were said."""
    command = [program, plans, "--device", "cuda", *flags]
    if how == "processes":
        statuses, lines = Processes(command, world, work, kernels).wait()
        return max(-1 if status is None else status for status in statuses), lines
    if how == "mpirun":
        command = ["mpirun", "--oversubscribe", "-n", world, *command]
    else:
        command += ["--comm", how]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment(1 if how == "local" else world, kernels), timeout=PATIENCE)
    return done.returncode, done.stdout.splitlines()
