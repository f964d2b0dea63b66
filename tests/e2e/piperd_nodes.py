#!/usr/bin/env python3
"""piperd on several hosts, which are namespaces of this machine: a job of two nodes is placed, run, shown, cancelled and drained by
one daemon; whatever of it is killed, a rank, a daemon, a host, a link, it goes on from its checkpoint to the bits of a run that
nobody disturbed, and no two copies of it ever run.

  piperd_nodes.py --bin BIN --work DIR --write-plans PROGRAM [--slow] [CASE]...

[SKIP] where no namespaces can be made. Without --slow the cases that need no lease to end. Nothing of a host is left at the end.
"""
import argparse
import contextlib
import hashlib
import hmac
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time

from checks import check, faults
from daemon import PATIENCE, Daemon, until
from network_hosts import network, why_not

STEPS, LEASE = 40, 3
PORT = 9432


class Node(Daemon):
    """The piperd of a host, and piper-launch as a user calls it there."""

    def __init__(self, bench, host, *flags):
        self.bench, self.host, self.flags = bench, host, flags
        self.state = bench.work / "state" / host.name
        self.output = bench.work / f"piperd.{host.name}.out"
        self.process = None
        self.output.unlink(missing_ok=True)

    def start(self):
        script = 'echo $$ > "$0"; exec "$@"'  # the daemon's number on its host
        with open(self.output, "a") as output:
            self.process = self.host.start(
                ["sh", "-c", script, self.state.with_suffix(".pid"), self.bench.bin / "piperd", "--state", self.state, "--http-port", 0,
                 "--nodes", self.bench.list, "--listen", self.host.address, "--token", self.bench.token, "--lease", LEASE, *self.flags],
                stdout=output, stderr=subprocess.STDOUT)
        until(lambda: self.process.poll() is not None or self.call("status")[0] == 0, "piperd answers")
        assert self.process.poll() is None, self.output.read_text()
        return self

    def send(self, number):
        self.host.kill(self.state.with_suffix(".pid").read_text().strip(), number)

    def kill(self, number=signal.SIGKILL):
        self.send(number)
        return self.process.wait(timeout=PATIENCE)

    def call(self, command, *arguments):
        """Exit status, what was said."""
        done = self.host.run([self.bench.bin / "piper-launch", command, "--state", self.state, *arguments],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE)
        return done.returncode, done.stdout

    def ranks(self):
        """The ranks that run on the host."""
        return self.host.run(["sh", "-c", "pgrep -x piper-run || true"], stdout=subprocess.PIPE).stdout.split()


class Bench:
    """A plan of two ranks, what it comes to when nothing happens to it, and what the daemons share."""

    def __init__(self, bin_dir, work, write_plans):
        self.bin, self.work = pathlib.Path(bin_dir).resolve(), pathlib.Path(work).resolve()
        shutil.rmtree(self.work, ignore_errors=True)
        (self.work / "state").mkdir(parents=True)
        subprocess.run([write_plans, "pipeline", self.work / "p"], check=True)
        self.whole = self.work / "whole.safetensors"
        subprocess.run([*map(str, self.command("whole", slow=False)), "--save", self.whole], check=True, stderr=subprocess.DEVNULL)
        self.token, self.list = self.work / "token", self.work / "nodes"
        self.token.write_text(secrets.token_hex(32) + "\n")
        self.token.chmod(0o600)

    def command(self, name, slow=True):
        """Steps that take long enough to be looked at."""
        p = self.work / "p"
        return [self.bin / "piper-run", p / "plans", "--data", p / "data.safetensors", "--load", p / "weights.safetensors",
                "--no-stop-on-nan", "--steps", STEPS, *(["--link-delay", 50000] if slow else []),
                "--checkpoint", self.work / f"{name}.checkpoints", "--every", 1]

    def submission(self, name):
        return ["--nnodes", 2, "--name", name, "--", *self.command(name), "--save", self.work / f"{name}.safetensors"]

    def same_bits(self, name):
        saved = self.work / f"{name}.safetensors"
        return saved.exists() and saved.read_bytes() == self.whole.read_bytes()


@contextlib.contextmanager
def nodes(bench, *names, slots=1):
    """A piperd on each of these hosts, which have heard of each other."""
    shutil.rmtree(bench.work / "state")
    (bench.work / "state").mkdir()
    with network(bench.work, *names) as hosts:
        bench.list.write_text("# name address slots\n" + "".join(f"{host.name} {host.address}:{PORT} {slots}\n" for host in hosts))
        all_nodes = [Node(bench, host).start() for host in hosts]
        try:
            for node in all_nodes:
                until(lambda: all(other["answers"] for other in node.status()["nodes"]), "all nodes answer")
            yield all_nodes
        finally:
            for node in all_nodes:
                node.process.kill()  # nsenter, which is stopped where the daemon was, and would keep its host from ending
            if faults or sys.exc_info()[0]:
                for node in all_nodes:
                    print(f"--- {node.output}\n{node.output.read_text()}")


def under_way(node, bench, name):
    """A job after some checkpoints, placed when all slots are free. Nodes other than the first say with their next answer what their ranks do."""
    until(lambda: all(other["used"] == 0 for other in node.status()["nodes"] if other["answers"]), "all slots are free")
    job = node.submit(*bench.submission(name))

    def saved():
        found = node.status(job)
        return found if found["checkpoint_step"] >= 3 and all("pid" in rank for rank in found["rank_states"]) else None

    return job, until(saved, lambda: f"a checkpoint: {node.status(job)}")


def goes_on(node, bench, job, name, what, restarts=1):
    done = node.until_state(job, "done", "failed", "cancelled")
    check(f"{what}: the job goes on to its end", done["state"] == "done" and done["restarts"] == restarts, str(done))
    log = node.log(job)
    check(f"{what}: from its checkpoint", re.search(r"continues after step [1-9]", log), log[-2000:])
    check(f"{what}: to the bits of a run that nobody disturbed", bench.same_bits(name))
    return done


def on_one_network(bench):
    with nodes(bench, "node1", "node2", "node3") as (one, two, three):
        to_its_end(bench, one, three)
        a_rank_is_killed(bench, one, two)
        moved_by_drain(bench, one, two, three)
        cancelled(bench, one, two)
        strangers(bench, one, two)
        refusals(bench, one)


def to_its_end(bench, one, three):
    job, seen = under_way(three, bench, "end")
    check("a job is placed on the first nodes with free slots", seen["placed"] == ["node1", "node2"] and seen["state"] == "running", str(seen))

    def shown():
        """Other nodes report their slots with their next answer."""
        text = three.call("status")[1]
        return re.search(r"^node1 +1 +1$", text, re.M) and re.search(r"^node3 +1 +0$", text, re.M)

    check("status has the nodes", until(shown, lambda: three.call("status")[1]))
    check("a node tells of the parts that it has", "here: 1 ranks of job 1 of node3, running" in one.call("status")[1], one.call("status")[1])
    done = three.until_state(job, "done", "failed")
    check("it runs to its end", done["state"] == "done" and done["attempts"] == 1, str(done))
    check("to the bits of one process", bench.same_bits("end"))
    check("its ranks say so", [(r["node"], r["state"], r["step"]) for r in done["rank_states"]] ==
          [("node1", "done", STEPS), ("node2", "done", STEPS)], str(done))
    log = three.log(job)
    check("its log has the lines of all nodes", re.search(rf"^\[rank \d\] .*step {STEPS}/{STEPS}", log, re.M) and "[rank 1]" in log, log)


def a_rank_is_killed(bench, one, two):
    job, seen = under_way(one, bench, "rank")
    two.host.kill(seen["rank_states"][1]["pid"])
    done = goes_on(one, bench, job, "rank", "a killed rank")
    kept = json.loads((pathlib.Path(done["state_folder"]) / "incident-1" / "incident.json").read_text())
    check("an incident: who failed", kept["launch"]["first_rank_that_failed"] == 1 and kept["exit_status"] == 137
          and kept["launch"]["exit_statuses"][1] == 137, str(kept))


def moved_by_drain(bench, one, two, three):
    job, _ = under_way(one, bench, "drain")
    code, text = two.call("drain")
    check("a drained node has no parts any more", code == 0 and two.ranks() == [], f"{code} {text}")
    done = goes_on(one, bench, job, "drain", "a drained node", restarts=0)
    check("a drained node: on those that are left", done["placed"] == ["node1", "node3"] and done["incidents"] == 0, str(done))
    queued = one.submit("--nnodes", 3, "-n", 1, "true")
    found = until(lambda: (seen := one.status(queued))["why"] and seen, "a reason")
    check("what has no place says why", found["state"] == "queued" and "node2 is drained" in found["why"], str(found))
    two.call("drain", "--off")
    check("and runs when it has one", one.until_state(queued, "done", "failed")["state"] == "done")


def cancelled(bench, one, two):
    ready = bench.work / "ready"
    job = one.submit("--nnodes", 2, "-n", 1, "sh", "-c", f"trap 'exit 7' TERM; echo >> {ready}; while :; do sleep 0.05; done")
    until(lambda: ready.exists() and len(ready.read_text()) == 2, "both ranks have begun")
    one.call("cancel", job)
    found = one.until_state(job, "cancelled")
    check("a cancelled job: its ranks are asked to end", found["exit_status"] == 7, str(found))
    job, _ = under_way(one, bench, "cancel")
    one.call("cancel", job)
    one.until_state(job, "cancelled")
    check("a cancelled job: nothing is left of it", one.ranks() == two.ranks() == [])


ASK = """
import sys, http.client, json
host, port, method, path, headers, body = json.loads(sys.stdin.read())
line = http.client.HTTPConnection(host, port, timeout=10)
try:
    line.request(method, path, body=body.encode(), headers=headers)
    answer = line.getresponse()
    print(answer.status, answer.read().decode())
except OSError as failure:
    print(0, failure)
"""


def strangers(bench, one, two):
    """Whoever has no token, or only a message of somebody who has."""
    secret = bench.token.read_text().strip().encode()

    def ask(path="/state", body="{}", receiver="node1", seconds=0.0, nonce=None, key=secret, method="POST", signed=None, headers=None):
        nonce = nonce or secrets.token_hex(16)
        sent = int((time.time() + seconds) * 1000)
        text = f"piperd request 1\n{method}\n{path}\n{receiver}\n{nonce}\n{sent}\n{body if signed is None else signed}"
        stamp = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        how = {"Piperd-Time": str(sent), "Piperd-Nonce": nonce, "Piperd-Stamp": stamp} if headers is None else headers
        done = two.host.run([sys.executable, "-c", ASK], input=json.dumps([one.host.address, PORT, method, path, how, body]), stdout=subprocess.PIPE)
        return done.stdout.split(" ", 1)

    code, text = ask()
    check("who has the token is heard", code == "200" and json.loads(text)["name"] == "node1", text)
    nonce = secrets.token_hex(16)
    check("once", (ask(nonce=nonce)[0], ask(nonce=nonce)[0]) == ("200", "403"))
    wrong = {"no stamp": ask(headers={}), "another token": ask(key=b"x" * 32), "another body": ask(signed="[]"), "another node's": ask(receiver="node2"),
             "an old one": ask(seconds=-120), "one of tomorrow": ask(seconds=120), "no nonce": ask(nonce="x")}
    check("all others are not", all(code == "403" and text.strip() == "" for code, text in wrong.values()), str(wrong))
    check("no other method or page", ask(method="GET")[0] == "404" and ask(path="/hold")[0] == ask(path="/no")[0] == "400")
    hold = {"from": "node9", "job": 1, "epoch": "0" * 32, "part": 0, "ranks": 1, "lease_ms": 3000}
    check("no slots for a node that is none", ask(path="/hold", body=json.dumps(hold))[0] == "400")
    check("too long a body is not read", ask(body=" " * (3 << 20))[0] in ("413", "0"))
    check("and that is told", "requests refused so far, the last one from " + two.host.address in one.output.read_text(), one.output.read_text())
    everything = b"".join(path.read_bytes() for path in (bench.work / "state").rglob("*") if path.is_file()) + one.output.read_bytes()
    check("no token stands in a log or a state folder", secret not in everything)


def refusals(bench, one):
    def refused(what, said, code):
        check(what, said[0] == 1 and code in said[1] and len(said[1].splitlines()) == 1, str(said))

    def second(**changes):
        flags = {"--state": bench.work / "state" / "second", "--http-port": 0, "--nodes": bench.list, "--node": "node1", "--listen": "127.0.0.1:19432",
                 "--token": bench.token, **{f"--{key}": value for key, value in changes.items()}}
        done = one.host.run([bench.bin / "piperd", *(word for flag, value in flags.items() if value is not None for word in (flag, value))],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE)
        return done.returncode, done.stdout

    refused("more nodes than there are", one.call("submit", "--nnodes", 4, "-n", 1, "true"), "error[L0134]")
    refused("more ranks than a node has slots", one.call("submit", "--nnodes", 2, "-n", 2, "true"), "error[L0134]")
    readable = bench.work / "readable"
    shutil.copy(bench.token, readable)
    readable.chmod(0o644)
    short = bench.work / "short"
    short.write_text("secret")
    short.chmod(0o600)
    refused("a token that others can read", second(token=readable), "error[L0139]")
    refused("a token that can be guessed", second(token=short), "error[L0139]")
    refused("no token", second(token=None), "error[L0138]")
    refused("no address", second(listen=None), "error[L0138]")
    refused("a node that is not in the list", second(node="node9"), "error[L0138]")
    refused("no list", second(nodes=bench.work / "none"), "error[L0138]")
    refused("no job of Slurm", second(nodes="slurm"), "error[L0138]")
    refused("an address that is taken", second(listen=f"{one.host.address}:{PORT}"), "error[L0136]")


def its_daemon_is_killed(bench):
    with nodes(bench, "node1", "node2", "node3") as (one, two, three):
        job, _ = under_way(one, bench, "daemon")
        two.kill()
        until(lambda: two.ranks() == [], "the ranks of a killed piperd are gone")
        done = goes_on(one, bench, job, "daemon", "a killed piperd")
        check("a killed piperd: on the nodes that are left", done["placed"] == ["node1", "node3"], str(done))
        check("a killed piperd: status says who does not answer", re.search("^node2 +1 +- +does not answer", one.call("status")[1], re.M), one.call("status")[1])
        two.start()
        until(lambda: all(node["answers"] for node in one.status()["nodes"]), "the node is back")
        job, seen = under_way(one, bench, "daemon_back")
        check("a piperd that is back has parts again", seen["placed"] == ["node1", "node2"], str(seen))
        goes_on_without_coordinator(bench, one, two, job)


def goes_on_without_coordinator(bench, one, two, job):
    one.kill()
    until(lambda: two.ranks() == [], "without their coordinator parts end themselves")
    check("a killed coordinator: its parts end themselves", True)
    one.start()
    goes_on(one, bench, job, "daemon_back", "a killed coordinator", restarts=0)


def a_host_is_killed(bench):
    with nodes(bench, "node1", "node2", "node3") as (one, two, three):
        job, _ = under_way(one, bench, "host")
        two.host.power_off()
        done = goes_on(one, bench, job, "host", "a killed host")
        check("a killed host: on those that are left", done["placed"] == ["node1", "node3"], str(done))


def silent(bench, what, name, quiet, loud):
    """A part whose node is not heard of still runs, and must not when the job begins anew."""
    with nodes(bench, "node1", "node2", "node3") as (one, two, three):
        mark = bench.work / f"mark.{name}"
        script = f'trap "" TERM; echo >> {mark}.$(hostname); sleep 1000 & while :; do sleep 0.2; done'
        job = one.submit("--nnodes", 2, "-n", 1, "sh", "-c", script, "x", "--checkpoint", "c")
        marks = lambda host: pathlib.Path(f"{mark}.{host}").exists()
        until(lambda: marks("node1") and marks("node2"), "both ranks have begun")
        quiet(two)
        until(lambda: one.status(job)["attempts"] == 2, "the next attempt")
        left = two.host.run(["sh", "-c", "pgrep -x sleep || true"], stdout=subprocess.PIPE).stdout
        check(f"{what}: what runs there has ended before the job begins anew", left == "", left)
        again = until(lambda: marks("node3") and one.status(job), "a rank on the third node")
        check(f"{what}: the job goes on with the nodes that are left", again["placed"] == ["node1", "node3"] and "node2 has not answered" in one.output.read_text(), str(again))
        loud(two)
        until(lambda: all(node["answers"] for node in one.status()["nodes"]), "the node is back")
        until(lambda: two.status()["parts"] == [], "its part is forgotten")
        for _ in range(2):
            one.call("cancel", job)


def a_link_is_cut(bench):
    silent(bench, "a cut link", "link", lambda two: two.host.link(up=False), lambda two: two.host.link(up=True))


def a_daemon_is_stopped(bench):
    silent(bench, "a stopped piperd", "stopped", lambda two: two.send(signal.SIGSTOP), lambda two: two.send(signal.SIGCONT))


def daemons_end(bench):
    """Which is no failure of what they run."""
    with nodes(bench, "node1", "node2", "node3") as (one, two, three):
        job, _ = under_way(one, bench, "end_of_part")
        check("a piperd that is asked to end does", two.kill(signal.SIGTERM) == 0)
        check("and nothing of its parts is left", two.ranks() == [])
        done = goes_on(one, bench, job, "end_of_part", "a piperd that ended", restarts=0)
        check("a piperd that ended: on the nodes that are left", done["placed"] == ["node1", "node3"] and done["incidents"] == 0, str(done))
        job, _ = under_way(one, bench, "end_of_coordinator")
        check("a coordinator that is asked to end does", one.kill(signal.SIGTERM) == 0)
        check("and nothing of its job is left", one.ranks() == three.ranks() == [])
        kept = json.loads((one.state / "jobs" / f"{job:06}" / "job.json").read_text())
        check("its job is queued", kept["state"] == "queued" and kept["resume"] and kept["exit_status"] == 75, str(kept))
        one.start()
        goes_on(one, bench, job, "end_of_coordinator", "a coordinator that ended", restarts=0)


def a_node_fails_again_and_again(bench):
    with nodes(bench, "node1", "node2", "node3") as (one, two, three):
        script = '[ $(hostname) = node2 ] || { sleep 2; exit 0; }; kill -9 $$'
        job = one.submit("--nnodes", 2, "-n", 1, "sh", "-c", script, "x", "--checkpoint", "c")
        done = one.until_state(job, "done", "failed")
        check("a node that fails three times in a row is left out", done["state"] == "done" and done["attempts"] == 4 and done["excluded"] == ["node2"]
              and done["placed"] == ["node1", "node3"], str(done))
        check("and that is said", "failed 3 times in a row on node2" in one.output.read_text() and re.search("^excluded +node2", one.call("status", job)[1], re.M), one.call("status", job)[1])


FAST = {"network": on_one_network}
SLOW = {"daemon": its_daemon_is_killed, "host": a_host_is_killed, "link": a_link_is_cut, "stopped": a_daemon_is_stopped, "ends": daemons_end,
        "exclusion": a_node_fails_again_and_again}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--write-plans", required=True)
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    if why := why_not():
        print(f"[SKIP] no hosts to run on: {why}")
        return
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    bench = Bench(arguments.bin, arguments.work, arguments.write_plans)
    for name in arguments.cases or (SLOW if arguments.slow else FAST):
        {**FAST, **SLOW}[name](bench)
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
