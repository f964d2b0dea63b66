#!/usr/bin/env python3
"""Runs on several hosts, which are namespaces of this machine: piper-launch --nnodes on each of them trains to the bits of one process.

  nodes.py --bin BIN --work DIR --write-plans PROGRAM [CASE]...

[SKIP] where no namespaces can be made. Nothing of a host is left when the script ends.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys

from network_hosts import network, why_not

STEPS, PATIENCE = 60, 60
faults = []


def check(what, fine, why=""):
    print(f"{'ok    ' if fine else 'FAILED'} {what}" + ("" if fine else f": {why}"), flush=True)
    if not fine:
        faults.append(what)


class Bench:
    """A plan of two ranks, and what it comes to in one process."""

    def __init__(self, bin_dir, work, write_plans):
        self.bin, self.work = pathlib.Path(bin_dir).resolve(), pathlib.Path(work).resolve()
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        subprocess.run([write_plans, "pipeline", self.work / "p"], check=True)
        self.whole = self.work / "whole.safetensors"
        subprocess.run([*map(str, self.command()), "--save", self.whole], check=True, stderr=subprocess.DEVNULL)

    def command(self):
        p = self.work / "p"
        return [self.bin / "piper-run", p / "plans", "--data", p / "data.safetensors", "--load", p / "weights.safetensors",
                "--no-stop-on-nan", "--steps", STEPS]

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


CASES = {"hosts": two_hosts, "containers": two_containers}


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
