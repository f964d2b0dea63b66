#!/usr/bin/env python3
"""piperd as a user has it: jobs are queued, run, shown, cancelled and drained; what is killed goes on from its checkpoint to
the bits of a run that nobody disturbed, and nothing is left of it.

  piperd.py --bin BIN --work DIR --write-plans PROGRAM [CASE]...

Jobs are piper-run on a hand-written plan of two ranks, or shell scripts where only their ends matter. Every daemon has a
folder of its own, listens on loopback at a free port, and has ended when the script does.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

from checks import check, faults
from daemon import PATIENCE, Daemon, until

STEPS = 60


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def all_gone(pids):
    return not [pid for pid in pids if alive(pid)]


class Node(Daemon):
    """A piperd and its folder, and piper-launch as its user calls it."""

    def __init__(self, bin_dir, *flags):
        self.bin = pathlib.Path(bin_dir)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="piperd-"))
        self.state, self.flags, self.process = self.folder / "state", flags, None
        self.output = self.folder / "piperd.out"

    def start(self):
        with open(self.output, "a") as output:
            self.process = subprocess.Popen([self.bin / "piperd", "--state", self.state, "--http-port", "0", *self.flags],
                                            stdout=output, stderr=subprocess.STDOUT)
        until(lambda: self.process.poll() is not None or self.call("status")[0] == 0, "piperd answers")
        assert self.process.poll() is None, self.output.read_text()
        return self

    def end(self, number=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE) if self.process else 0

    def call(self, command, *arguments, **options):
        """Exit status, what was said."""
        done = subprocess.run([self.bin / "piper-launch", command, "--state", self.state, *map(str, arguments)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE, **options)
        return done.returncode, done.stdout

    def pids(self, job):
        return [rank["pid"] for rank in self.status(job)["rank_states"] if "pid" in rank]

    def http(self, path, method="GET"):
        request = urllib.request.Request(f"http://127.0.0.1:{self.status()['http_port']}{path}", method=method)
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as failure:
            return failure.code, failure.read().decode()


@contextlib.contextmanager
def node(bench, *flags):
    one = Node(bench.bin, *flags)
    try:
        yield one.start()
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            one.end()
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
        if faults:
            print(one.output.read_text())
        shutil.rmtree(one.folder)


class Bench:
    """A plan of two ranks, and what it comes to when nothing happens to it."""

    def __init__(self, bin_dir, work, write_plans):
        self.bin, self.work = pathlib.Path(bin_dir).resolve(), pathlib.Path(work).resolve()
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        subprocess.run([write_plans, "pipeline", self.work / "p"], check=True)
        self.whole = self.work / "whole.safetensors"
        subprocess.run([str(word) for word in [*self.command("whole", slow=False), "--save", self.whole]], check=True, stderr=subprocess.DEVNULL)

    def command(self, name, steps=STEPS, slow=True):
        """Steps that take long enough to be looked at."""
        p = self.work / "p"
        return [self.bin / "piper-run", p / "plans", "--data", p / "data.safetensors", "--load", p / "weights.safetensors",
                "--no-stop-on-nan", "--steps", steps, *(["--link-delay", 30000] if slow else []),
                "--checkpoint", self.work / f"{name}.checkpoints", "--every", 1]

    def saves(self, name):
        return ["--save", self.work / f"{name}.safetensors"]

    def same_bits(self, name):
        return (self.work / f"{name}.safetensors").read_bytes() == self.whole.read_bytes()


def to_its_end(bench):
    """Submit, look, read what was printed."""
    with node(bench, "--slots", "2") as one:
        job = one.submit("--name", "short", "--", *bench.command("end", slow=False), *bench.saves("end"))
        done = one.until_state(job, "done", "failed")
        check("a job of two ranks runs to its end", done["state"] == "done" and done["exit_status"] == 0, str(done))
        check("to the bits of one process", bench.same_bits("end"))
        ranks = done["rank_states"]
        check("its pages say so", [(r["state"], r["step"], r["steps"]) for r in ranks] == [("done", STEPS, STEPS)] * 2, str(ranks))
        check("and its checkpoint", done["checkpoint_step"] == STEPS and done["checkpoint_s"] > 0, str(done))
        text = one.log(job)
        check("logs are those of its ranks", re.search(rf"^\[rank \d\] .*step {STEPS}/{STEPS}", text, re.M), text)
        table = one.call("status")[1]
        check("status is a table", re.search(rf"^JOB +NAME +STATE .*\n{job} +short +done +2 +{STEPS}/{STEPS} ", table, re.M), table)
        check("status of a job has its ranks", "RANK  PID" in one.call("status", job)[1])


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def under_way(one, bench, name, steps=STEPS):
    """A job that is in the middle of its steps, after some checkpoints: its number, the pids of its ranks and its launcher."""
    job = one.submit("--", *bench.command(name, steps), *bench.saves(name))
    until(lambda: one.status(job)["checkpoint_step"] >= 3, "a checkpoint")
    pids = one.pids(job)
    return job, pids, parent_of(pids[0])


def goes_on(one, bench, job, name, what):
    done = one.until_state(job, "done", "failed", "cancelled")
    check(f"{what}: the job goes on to its end", done["state"] == "done" and done["attempts"] == 2, str(done))
    check(f"{what}: from its checkpoint", re.search(r"continues after step [1-9]", one.log(job)), one.log(job))
    check(f"{what}: to the bits of a run that nobody disturbed", bench.same_bits(name))
    return done


def a_rank_is_killed(bench):
    secret = {**os.environ, "TOKEN_OF_A_TEST": "hunter2", "OMP_NUM_THREADS": "1"}
    with node(bench, "--slots", "2") as one:
        code, text = one.call("submit", "--", *bench.command("rank"), *bench.saves("rank"), env=secret)
        job = int(text.split()[1])
        until(lambda: one.status(job)["checkpoint_step"] >= 3, "a checkpoint")
        os.kill(one.pids(job)[1], signal.SIGKILL)
        waiting = until(lambda: (found := one.status(job))["attempts"] == 2 and found, "another start")
        check("a killed rank: it is started again", waiting["restarts"] == 1, str(waiting))
        done = goes_on(one, bench, job, "rank", "a killed rank")
        kept = json.loads((pathlib.Path(done["state_folder"]) / "incident-1" / "incident.json").read_text())
        check("an incident: who failed, and how", kept["launch"]["first_rank_that_failed"] == 1 and kept["exit_status"] == 137
              and kept["launch"]["exit_statuses"][1] == 137, str(kept))
        check("an incident: how far each rank was", [rank["step"] >= 3 for rank in kept["ranks"]] == [True, True], str(kept))
        check("an incident: the bundle and its environment", len(kept["bundle"]["digest"]) == 64 and "OMP_NUM_THREADS=1" in kept["environment"], str(kept))
        files = [path.read_bytes() for path in one.state.rglob("*") if path.is_file()]
        check("no variable is kept that was not passed on", files and not any(b"hunter2" in text for text in files))
        table = one.call("status", job)[1]
        check("status tells of it", "1 after failures, of 5 in 1:00:00" in table and "incident-*" in table, table)


def its_launcher_is_killed(bench):
    with node(bench, "--slots", "2") as one:
        job, pids, launcher = under_way(one, bench, "launcher")
        os.kill(launcher, signal.SIGKILL)
        until(lambda: all_gone(pids), "the ranks of a killed piper-launch are gone")
        goes_on(one, bench, job, "launcher", "a killed piper-launch")


def the_daemon_is_killed(bench):
    """What it ran is gone with it; the next one goes on with all that it had."""
    with node(bench, "--slots", "3") as one:
        job, pids, launcher = under_way(one, bench, "daemon")
        simple = one.submit("-n", 1, "sh", "-c", "sleep 1000 & wait")
        one.until_state(simple, "running")
        queued = one.submit("-n", 3, "sh", "-c", "true")
        # piper-launch, the shell and what that started.
        left = until(lambda: len(found := processes_of(one.status(simple)["state_folder"])) == 3 and found, "three processes")
        one.end(signal.SIGKILL)
        until(lambda: all_gone([*pids, launcher]), "the ranks of a killed piperd are gone")
        check("nobody answers", "L0131" in one.call("status")[1])
        one.start()
        done = goes_on(one, bench, job, "daemon", "a killed piperd")
        check("a killed piperd: that is no failure of the job", done["restarts"] == 0 and done["incidents"] == 0, str(done))
        until(lambda: all_gone(left), "what ranks started is gone")
        ended = one.until_state(simple, "failed")
        check("a killed piperd: what saves nothing does not begin anew", "saves no checkpoints" in ended["why"] and ended["attempts"] == 1, str(ended))
        check("a killed piperd: what was queued is still to come", one.until_state(queued, "done")["attempts"] == 1)
        check("numbers are not given twice", one.submit("-n", 1, "true") == queued + 1)


def processes_of(job_folder):
    """Pids of what began with the job's variable."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"PIPER_JOB={job_folder}\0".encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
    return found


def the_daemon_ends(bench):
    with node(bench, "--slots", "2") as one:
        job, pids, launcher = under_way(one, bench, "ended")
        check("piperd ends when it is asked to", one.end() == 0)
        check("and its ranks before it", all_gone([*pids, launcher]))
        kept = json.loads((one.state / "jobs" / f"{job:06}" / "job.json").read_text())
        check("its job is queued", kept["state"] == "queued" and kept["resume"] and kept["exit_status"] == 75, str(kept))
        one.start()
        goes_on(one, bench, job, "ended", "the next piperd")


def drained(bench):
    with node(bench, "--slots", "2") as one:
        job, pids, launcher = under_way(one, bench, "drained")
        code, text = one.call("drain")
        check("drain waits until nothing runs", code == 0 and all_gone([*pids, launcher]), f"{code} {text}")
        found = one.status(job)
        check("the job has a checkpoint and is queued", found["state"] == "queued" and found["exit_status"] == 75 and found["checkpoint_step"] >= found["step"] > 0, str(found))
        later = one.submit("-n", 1, "true")
        one.end()
        one.start()
        check("a drained node stays drained", one.status(later)["state"] == "queued" and "nothing starts" in one.call("status")[1])
        one.call("drain", "--off")
        goes_on(one, bench, job, "drained", "behind a drain")
        check("and what came later runs", one.until_state(later, "done")["exit_status"] == 0)


def cancelled(bench):
    with node(bench, "--slots", "2") as one:
        ready = one.folder / "ready"
        polite = one.submit("-n", 2, "sh", "-c", f"trap 'exit 7' TERM; echo >> {ready}; while :; do sleep 0.05; done")
        queued = one.submit("-n", 1, "sh", "-c", "true")
        until(lambda: ready.exists() and len(ready.read_text()) == 2, "ranks have begun")
        check("a queued job", one.call("cancel", queued)[0] == 0 and one.status(queued)["state"] == "cancelled")
        check("a job that runs is asked to end", one.call("cancel", polite)[0] == 0 and one.until_state(polite, "cancelled")["exit_status"] == 7)
        code, text = one.call("cancel", polite)
        check("one that has ended", code == 1 and "error[L0132]" in text, text)
        ready.unlink()
        stubborn = one.submit("-n", 1, "--grace", 1, "sh", "-c", f"trap '' TERM; echo >> {ready}; while :; do sleep 0.05; done")
        until(ready.exists, "the rank has begun")
        one.call("cancel", stubborn)
        check("one that does not want to", one.until_state(stubborn, "cancelled")["exit_status"] == 137)


def in_order(bench):
    """A job that does not fit is not overtaken."""
    with node(bench, "--slots", "3") as one:
        go = one.folder / "go"
        wait = ["sh", "-c", f"until [ -e {go} ]; do sleep 0.05; done"]
        first, second, third = one.submit("-n", 2, *wait), one.submit("-n", 2, *wait), one.submit("-n", 1, *wait)
        one.until_state(first, "running")
        check("slots are ranks", one.status()["slots_used"] == 2 and one.status(second)["state"] == one.status(third)["state"] == "queued")
        go.touch()
        for job in (first, second, third):
            one.until_state(job, "done")
        starts = [one.status(job)["started_ms"] for job in (first, second, third)]
        check("jobs start in the order of their numbers", starts == sorted(starts), str(starts))


def permanent(bench):
    with node(bench, "--slots", "2") as one:
        job = one.submit("-n", 2, "sh", "-c", "[ $RANK = 1 ] && { echo the cause >&2; exit 3; }; sleep 1000", "x", "--checkpoint", "c")
        found = one.until_state(job, "failed")
        check("what another start does not mend is not started again", found["attempts"] == 1 and found["exit_status"] == 3, str(found))
        check("its log ends with the cause", "rank 1 ended first, with status 3" in one.log(job), one.log(job))
        job = one.submit("-n", 1, "--restarts", 1, "sh", "-c", "kill -9 $$", "x", "--checkpoint", "c")
        found = one.until_state(job, "failed")
        check("a budget of restarts ends", found["attempts"] == 2 and "as many as it may have" in found["why"], str(found))
        job = one.submit("-n", 1, "sh", "-c", "kill -9 $$")
        found = one.until_state(job, "failed")
        check("without checkpoints nothing is started again", found["attempts"] == 1 and "without --checkpoint" in found["why"], str(found))


def logs_are_bounded(bench):
    with node(bench, "--log-mib", "0.01", "--log-files", "3") as one:
        job = one.submit("-n", 1, "sh", "-c", 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "line $i"; done')
        text = one.call("logs", "-f", job)[1]
        check("logs --follow goes on until the job ends", text.endswith("[rank 0] line 3000\n"), text[-200:])
        one.until_state(job, "done")
        files = sorted(pathlib.Path(one.status(job)["state_folder"]).glob("log-*"))
        check("a log has a bounded size", len(files) == 3 and all(file.stat().st_size <= 10486 for file in files), str(files))
        lines = one.log(job).splitlines()
        check("the newest lines are there", lines == [f"[rank 0] line {n}" for n in range(3001 - len(lines), 3001)] and len(lines) > 1000)


def talk(path, data, patience=PATIENCE):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(patience)
        line.connect(str(path))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            line.sendall(data)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := line.recv(65536):
                answer += piece
        return answer


def whatever_comes(bench):
    with node(bench, "--slots", "2") as one:
        path = one.state / "socket"
        check("its folder and socket are its user's", one.state.stat().st_mode & 0o777 == 0o700 and path.stat().st_mode & 0o777 == 0o600)
        submit = {"op": "submit", "name": "n", "arguments": ["/bin/true"], "folder": "/", "environment": [], "ranks": 1, "nodes": 1,
                  "grace_s": 1, "restarts": 0, "window_s": 1}
        wrong = [b"", b"{}", b"[]", b"7", b"\xff\x00\x01", b"[" * 200000, b'{"op":"no"}', b'{"op":"status","job":0}', b'{"op":"status","job":99}',
                 b'{"op":"status","more":1}', b'{"op":"logs","job":"1","from":0}', b'{"op":"cancel"}', b'{"op":"drain","on":1}']
        for change in ({"ranks": 0}, {"ranks": 10**12}, {"ranks": 1.5}, {"arguments": []}, {"arguments": "x"}, {"arguments": ["true"]},
                       {"arguments": ["/bin/a\0b"]}, {"folder": "x"}, {"name": "n" * 101}, {"environment": [7]}, {"window_s": 0}, {"more": 1}):
            wrong.append(json.dumps({**submit, **change}).encode())
        answers = [talk(path, line + b"\n") for line in wrong]
        odd = [(line[:80], answer) for line, answer in zip(wrong, answers) if b'"code":"L0132"' not in answer or answer.count(b"\n") != 1]
        check("what is no request is refused in a line", not odd, str(odd))
        check("too long a request ends the connection", talk(path, b"x" * (3 << 20)) == b"")
        check("nothing was queued", one.status()["jobs"] == [])
        with contextlib.ExitStack() as idle:
            for _ in range(40):
                idle.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)).connect(str(path))
        check("behind forty that say nothing it answers", one.call("status")[0] == 0)
        if os.geteuid() == 0:
            for folder in (one.folder, one.state):
                folder.chmod(0o711)
            path.chmod(0o666)
            code = f"import os, socket; os.setuid(65534); s = socket.socket(socket.AF_UNIX); s.connect({str(path)!r}); s.sendall(b'{{\"op\":\"status\"}}\\n'); print(s.recv(100))"
            said = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
            check("another user is sent away", said.strip() == "b''" or "ConnectionReset" in said or "BrokenPipe" in said, said)
            check("and that is told", "another user" in one.output.read_text())
        else:
            print("[SKIP] another user is sent away: only root can be one")


SAMPLE = re.compile(r'^([a-z_]+)(?:\{((?:[a-z_]+="[^"\\\\]*",?)+)\})? (\S+)$')


def samples_of(text):
    """(family, labels) -> value, where all of it is Prometheus' text."""
    samples, families = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            families[line.split()[2]] = line.split()[3]
        if line.startswith("#"):
            continue
        name, labels, value = SAMPLE.match(line).groups()
        assert name in families and (families[name] == "counter") == name.endswith("_total"), line
        found = dict(pair.split("=", 1) for pair in (labels or "").rstrip(",").split(",") if pair)
        assert set(found) <= {"job_id", "name", "rank", "state"}, line
        samples[name, labels or ""] = float(value)
    return samples


def watched(bench):
    with node(bench, "--slots", "4") as one:
        job, _, _ = under_way(one, bench, "watched", 100000)
        failed = one.submit("-n", 1, "sh", "-c", "exit 3")
        one.until_state(failed, "failed")
        code, text = one.http("/metrics")
        numbers = samples_of(text)
        check("/metrics", code == 200 and numbers["piperd_slots", ""] == 4 and numbers["piperd_slots_used", ""] == 2
              and numbers["piperd_jobs", 'state="running"'] == 1 and numbers["piperd_jobs_ended_total", 'state="failed"'] == 1
              and numbers["piperd_incidents_total", ""] == 1, text)
        of = f'job_id="{job}",name="piper-run"'
        check("/metrics of a job", numbers["piperd_job_steps", of] == 100000 and numbers["piperd_job_step", of] >= 3
              and numbers["piperd_job_checkpoint_step", of] >= 3 and ("piperd_job_loss", of) in numbers, text)
        check("/metrics of its ranks", all(numbers["piperd_rank_step", f'{of},rank="{rank}"'] >= 3 for rank in (0, 1)), text)
        check("/healthz", one.http("/healthz") == (200, "ok\n"))
        check("no other page, no other method", one.http("/")[0] == 404 and one.http("/metrics", "POST")[0] == one.http("/metrics", "DELETE")[0] == 405)
        one.end(signal.SIGKILL)
        one.start()
        numbers = samples_of(one.http("/metrics")[1])
        check("counters survive the daemon", numbers["piperd_jobs_ended_total", 'state="failed"'] == 1 and numbers["piperd_incidents_total", ""] == 1)
        one.call("cancel", job)


def refusals(bench):
    def refused(what, said, code, exit_status=1):
        check(what, said[0] == exit_status and code in said[1] and len(said[1].splitlines()) == 1, str(said))

    def second(*flags):
        done = subprocess.run([bench.bin / "piperd", *map(str, flags)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE)
        return done.returncode, done.stdout

    with node(bench, "--slots", "2") as one:
        refused("more ranks than slots", one.call("submit", "-n", 3, "true"), "error[L0134]")
        refused("several nodes", one.call("submit", "--nnodes", 2, "-n", 1, "true"), "error[L0135]")
        refused("no such program", one.call("submit", "-n", 1, "no-such-program"), "error[L0102]")
        refused("nothing says how many ranks", one.call("submit", "true"), "error[L0101]")
        refused("restarts without checkpoints", one.call("submit", "-n", 1, "--restarts", 1, "true"), "error[L0105]")
        refused("a variable that is not there", one.call("submit", "-n", 1, "--env", "NO_SUCH", "true"), "error[L0101]")
        if shutil.which("mpirun"):
            refused("ranks that mpirun starts", one.call("submit", "mpirun", "-n", 1, "true"), "error[L0101]")
        refused("no program", one.call("submit", "-n", 1), "there is no program", 2)
        refused("no such job", one.call("status", 99), "error[L0132]")
        refused("a folder that a piperd has", second("--state", one.state, "--http-port", 0), "error[L0133]")
        refused("a port that a program has", second("--state", one.folder / "other", "--http-port", one.status()["http_port"]), "error[L0136]")
        refused("a path that is too long", second("--state", one.folder / ("x" * 120), "--http-port", 0), "error[L0133]")
        check("an option that there is not", one.call("cancel", "--no", 1)[0] == 2 and one.call("logs")[0] == 2)
        (one.state / "daemon.json").write_text("{")
        one.end()
        refused("a damaged record", second("--state", one.state, "--http-port", 0), "error[L0133]")
        refused("no daemon", one.call("status"), "error[L0131]")


CASES = {"end": to_its_end, "rank": a_rank_is_killed, "launcher": its_launcher_is_killed, "daemon": the_daemon_is_killed,
         "ends": the_daemon_ends, "drain": drained, "cancel": cancelled, "order": in_order, "permanent": permanent,
         "logs": logs_are_bounded, "socket": whatever_comes, "metrics": watched, "refusals": refusals}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--write-plans", required=True)
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    bench = Bench(arguments.bin, arguments.work, arguments.write_plans)
    for name in arguments.cases or CASES:
        CASES[name](bench)
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
