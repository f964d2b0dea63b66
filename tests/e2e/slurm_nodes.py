#!/usr/bin/env python3
"""piperd as the daemons of a Slurm job: one a node, which find each other by the nodes that Slurm gave the job, run a job of two
nodes to the bits of one process, and end when the Slurm job is cancelled.

  slurm_nodes.py --bin BIN --work DIR --write-plans PROGRAM

The nodes are namespaces of this machine, each with a slurmd. [SKIP] where there is no Slurm or no namespace can be made.
"""
import argparse
import contextlib
import pathlib
import secrets
import shutil
import subprocess
import sys
import tempfile

from checks import check, faults
from daemon import PATIENCE, until
from network_hosts import network, why_not
from piperd_nodes import Bench, Node

NAMES = ("node1", "node2")
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "scancel", "sinfo")


@contextlib.contextmanager
def slurm(hosts):
    """Slurm on these hosts, the first of which has the controller. Its configuration file."""
    state = pathlib.Path(tempfile.mkdtemp(prefix="piper-slurm."))  # the names of sockets are short
    state.chmod(0o711)
    for folder in ("munge", "log", "jobs", *(f"tmp.{host.name}" for host in hosts)):
        (state / folder).mkdir()
    (state / "munge").chmod(0o711)
    key, config = state / "munge" / "key", state / "slurm.conf"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    template = (pathlib.Path(__file__).parent / "slurm.conf").read_text()
    config.write_text(template.replace("@state@", str(state)).replace("@mpi@", "none")
                      + f"SlurmctldHost={hosts[0].name}({hosts[0].address})\n"
                      + "".join(f"NodeName={host.name} NodeAddr={host.address} CPUs=2 RealMemory=1000 State=UNKNOWN\n" for host in hosts)
                      + f"PartitionName=test Nodes={','.join(host.name for host in hosts)} Default=YES State=UP MaxTime=5\n")
    configured = ["env", f"SLURM_CONF={config}"]
    try:
        # One munge serves all: hosts have the machine's users, and its sockets are files.
        hosts[0].run(["munged", "--force", f"--key-file={key}", f"--socket={state}/munge/socket", f"--pid-file={state}/munge/pid",
                      f"--log-file={state}/log/munged", f"--seed-file={state}/munge/seed", "--num-threads=1"], check=True)
        hosts[0].run([*configured, "slurmctld"], check=True)
        for host in hosts:
            host.run([*configured, "slurmd", "-N", host.name], check=True)
        until(lambda: hosts[0].run([*configured, "sinfo", "--noheader", "--format", "%t %D"], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL).stdout == f"idle {len(hosts)}\n", "all nodes are idle")
        yield configured
    except BaseException:
        for log in sorted((state / "log").iterdir()):
            print(f"--- {log.name}\n" + "".join(log.read_text(errors="replace").splitlines(keepends=True)[-20:]))
        raise
    finally:
        shutil.rmtree(state, ignore_errors=True)  # the daemons end with their hosts


def daemons_of_a_job(bench, hosts, configured):
    """One command, as docs/launching.md has it; the folders of state are where users have them, by host."""
    output = bench.work / "daemons"
    with open(output, "w") as file:
        job = hosts[0].start([*configured, f"HOME={bench.work}", "srun", "--nodes", len(hosts), "--ntasks-per-node", 1, "--job-name", "daemons", bench.bin / "piperd",
                              "--nodes", "slurm", "--slots", 1, "--listen", "0.0.0.0", "--token", bench.token, "--http-port", 0],
                             stdout=file, stderr=subprocess.STDOUT)
    return job, output


def run(bench):
    with network(bench.work, *NAMES) as hosts, slurm(hosts) as configured:
        job, output = daemons_of_a_job(bench, hosts, configured)
        try:
            daemons = [Node(bench, host) for host in hosts]
            for daemon in daemons:
                daemon.state = bench.work / ".local" / "state" / "piperd" / daemon.host.name
            until(lambda: job.poll() is not None or all(daemon.call("status")[0] == 0 for daemon in daemons), "both daemons answer")
            assert job.poll() is None, output.read_text()
            until(lambda: all(node["answers"] for daemon in daemons for node in daemon.status()["nodes"]), "they have found each other")
            known = [node["name"] for node in daemons[1].status()["nodes"]]
            check("the daemons' nodes are the Slurm job's", known == list(NAMES), str(known))
            number = daemons[1].submit(*bench.submission("slurm"))
            done = daemons[1].until_state(number, "done", "failed")
            check("a job of both nodes runs to its end", done["state"] == "done" and done["attempts"] == 1, str(done) + daemons[1].log(number))
            check("a rank on each", [rank["node"] for rank in done["rank_states"]] == list(NAMES), str(done))
            check("to the bits of one process", bench.same_bits("slurm"))
            check("each node has its daemon", all(running(host) for host in hosts))
            hosts[0].run([*configured, "scancel", "--name", "daemons"], check=True)
            job.wait(timeout=PATIENCE)
            left = until(lambda: not any(running(host) for host in hosts), "the daemons have ended with the Slurm job")
            check("the daemons end with the Slurm job", left)
        finally:
            job.kill()  # nsenter, if it is still there
            if faults or sys.exc_info()[0]:
                print(f"--- {output}\n{output.read_text()}")


def running(host):
    return host.run(["sh", "-c", "pgrep -x piperd; pgrep -x piper-launch; pgrep -x piper-run; true"], stdout=subprocess.PIPE).stdout.split()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--write-plans", required=True)
    args = parser.parse_args()
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if reason := f"{missing[0]} is not installed" if missing else why_not():
        print(f"[SKIP] {reason}")
        return 0
    run(Bench(args.bin, args.work, args.write_plans))
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
