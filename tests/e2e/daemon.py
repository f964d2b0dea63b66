"""What the tests of piperd share: a daemon as its user calls it by piper-launch, and waiting."""
import json
import re
import time

PATIENCE = 60


def until(condition, what):
    """Its first result that is true; `what`: a text, or a function that makes one when it never is."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"never: {what() if callable(what) else what}")


class Daemon:
    """The commands of piper-launch for one piperd. Who derives from it says how it is called: call(command, *arguments) gives the
    exit status and what was said."""

    def submit(self, *arguments):
        code, text = self.call("submit", *arguments)
        assert code == 0 and re.fullmatch(r"job \d+\n", text), f"{code} {text}"
        return int(text.split()[1])

    def status(self, job=None):
        code, text = self.call("status", "--json", *([job] if job else []))
        assert code == 0, text
        answer = json.loads(text)
        return answer["jobs"][0] if job else answer

    def until_state(self, job, *states):
        return until(lambda: (found := self.status(job))["state"] in states and found, lambda: f"job {job} is {states}: {self.status(job)}")

    def log(self, job):
        return self.call("logs", job)[1]
