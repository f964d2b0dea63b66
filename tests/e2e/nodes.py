#!/usr/bin/env python3
"""Runs on several hosts, which are namespaces of this machine: piper-launch --nnodes on each of them trains to the bits of one process.

  nodes.py --bin BIN --work DIR --write-plans PROGRAM [CASE]...

[SKIP] where no namespaces can be made. Nothing of a host is left when the script ends.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import time

from checks import check, faults
from network_hosts import network, why_not

STEPS, PATIENCE = 60, 60


class Bench:
    """A plan of two ranks, and what it comes to in one process."""

    def __init__(self, bin_dir, work, write_plans):
        self.bin, self.work = pathlib.Path(bin_dir).resolve(), pathlib.Path(work).resolve()
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        subprocess.run([write_plans, "pipeline", self.work / "p"], check=True)
        self.whole = self.work / "whole.safetensors"
        subprocess.run([*map(str, self.command()), "--save", self.whole], check=True, stderr=subprocess.DEVNULL)

    def command(self, steps=STEPS):
        p = self.work / "p"
        return [self.bin / "piper-run", p / "plans", "--data", p / "data.safetensors", "--load", p / "weights.safetensors",
                "--no-stop-on-nan", "--steps", steps]

    def same_bits(self, name):
        saved = self.work / f"{name}.safetensors"
        return saved.exists() and saved.read_bytes() == self.whole.read_bytes()


def launch(bench, hosts, name):
    """One piper-launch on each host; exit statuses and what was said, by host."""
    runs = [host.start([bench.bin / "piper-launch", "--tag-output", "--nnodes", len(hosts), "--node-rank", rank, "--master",
                        f"{hosts[0].name}:29400", *bench.command(), "--save", bench.work / f"{name}.safetensors"],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for rank, host in enumerate(hosts)]
    texts = [run.communicate(timeout=PATIENCE)[0] for run in runs]
    return [run.returncode for run in runs], texts


def two_hosts(bench):
    with network(bench.work, "node1", "node2") as hosts:
        names = [host.run(["hostname"], stdout=subprocess.PIPE).stdout.strip() for host in hosts]
        check("hosts have names, memory and processes of their own", names == ["node1", "node2"] and all(
            host.run(["ls", "/dev/shm"], stdout=subprocess.PIPE).stdout == "" and
            host.run(["cat", "/proc/1/comm"], stdout=subprocess.PIPE).stdout.startswith("python") for host in hosts), names)
        codes, texts = launch(bench, hosts, "two_hosts")
        check("piper-launch on two hosts ends well", codes == [0, 0], f"{codes} {texts}")
        check("to the bits of one process", bench.same_bits("two_hosts"))
        check("each host had its own rank", all(f"[rank {rank}]" not in texts[1 - rank] for rank in (0, 1)), texts)


def two_containers(bench):
    """Shared memory that reaches further than the network."""
    with network(bench.work, "node1", "node2", apart=False) as hosts:
        codes, texts = launch(bench, hosts, "two_containers")
        check("piper-launch in two containers that share memory ends well", codes == [0, 0], f"{codes} {texts}")
        check("to the bits of one process, too", bench.same_bits("two_containers"))


def a_hang_over_two_hosts(bench):
    """Each launcher has the rings of its own ranks, and piper-plan those of both."""
    with network(bench.work, "node1", "node2") as hosts:
        saved, kept = bench.work / "hang.checkpoints", [bench.work / f"hang.{host.name}" for host in hosts]
        runs = [host.start([bench.bin / "piper-launch", "--nnodes", 2, "--node-rank", rank, "--master", "node1:29400", "--hang-after", 4,
                            "--incidents", kept[rank], *bench.command(steps=100000), "--link-delay", 50000, "--checkpoint", saved,
                            "--every", 3], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                for rank, host in enumerate(hosts)]
        end = time.monotonic() + PATIENCE
        while not list(saved.glob("step-*")) and time.monotonic() < end:
            time.sleep(0.05)
        hosts[1].run(["pkill", "-STOP", "-x", "piper-run"])
        texts = [run.communicate(timeout=PATIENCE)[0] for run in runs]
        check("a stopped rank is named by the launcher of its host", runs[1].returncode == 81 and "stopped process: rank 1" in texts[1], texts[1])
        check("that of the other host ends, too", runs[0].returncode in (76, 81), texts[0])
        folders = [folder for place in kept for folder in place.glob("hang-*")]
        whole = why_hang(bench, *folders)
        check("piper-plan takes the rings of all hosts", whole.returncode == 0 and "stopped process: rank 1" in whole.stdout, whole.stdout)
        twice = why_hang(bench, *folders, folders[-1])
        check("but each rank's once", twice.returncode == 1 and "R0911" in twice.stdout and "this rank, too" in twice.stdout, twice.stdout)
        ages = [float(age) for age in re.findall(r", (\d+\.\d) s ago", why_hang(bench, *folders, "--events", "1").stdout)]
        check("of clocks that differ", len(ages) >= len(folders) and max(ages) < PATIENCE, str(ages))


def why_hang(bench, *folders):
    return subprocess.run([bench.bin / "piper-plan", "whyhang", bench.work / "p" / "plans", *folders], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)


CASES = {"hosts": two_hosts, "containers": two_containers, "hang": a_hang_over_two_hosts}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--write-plans", required=True)
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    if why := why_not():
        print(f"[SKIP] no hosts to run on: {why}")
        return
    bench = Bench(arguments.bin, arguments.work, arguments.write_plans)
    for name in arguments.cases or CASES:
        CASES[name](bench)
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
