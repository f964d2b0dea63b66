#!/usr/bin/env python3
"""Strategies written in Python: tools/piper_strategy.py and the schedules of strategies/authored.

  authored_strategies.py --bin BIN --work FOLDER

The families that the language has come out as the same tables; the others take the memory and the idle time that their
papers state, counted on the compiled plans; a wrong program is refused with the author's line. Plain Python, no packages.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
AUTHORED, CHAIN = ROOT / "strategies" / "authored", ROOT / "tests" / "models" / "chain.onnx"
sys.path[:0] = [str(AUTHORED), str(ROOT / "tools")]
import piper_strategy  # noqa: E402
from dualpipev import dualpipev  # noqa: E402
from interleaved import interleaved, interleaved_zero_bubble  # noqa: E402
from looped_breadth_first import looped_breadth_first  # noqa: E402
from one_f_one_b import one_f_one_b, zero_bubble  # noqa: E402
from piper_strategy import BI, BW, AuthorError, B, F, Strategy, overlap, yaml  # noqa: E402
from v_half import v_half  # noqa: E402
from v_min import v_min  # noqa: E402
from zb_h2 import zb_h2  # noqa: E402
from zb_v import zb_v  # noqa: E402

# name in the language, rows, stages of a rank
FAMILIES = [("1f1b", one_f_one_b, 1), ("zero_bubble", zero_bubble, 1), ("interleaved_1f1b", interleaved, 2),
            ("interleaved_zero_bubble", interleaved_zero_bubble, 2), ("zb_v", zb_v, 2), ("dualpipev", dualpipev, 2)]
# rows; stages of a rank; step beside the work of a rank and activations in stages, at R ranks and M microbatches, both at most
# what the papers state (the files in strategies/authored cite them). Units: F = BI = BW = 1.
PUBLISHED = [
    (zb_h2, 1, lambda R, M: R - 1, lambda R, M: 2 * R - 1),             # a rank starts r later than the first: not idle inside
    (v_half, 2, lambda R, M: 6 * R / 2, lambda R, M: 2 * ((R + 2) // 2)),
    (v_min, 2, lambda R, M: 6 * 2 * R / 3, lambda R, M: 2 * ((R + 4) // 3)),
    (looped_breadth_first, 2, lambda R, M: 3 * (R - 1), lambda R, M: 2 * M),
]


class Check:
    def __init__(self, bin_folder: pathlib.Path, work: pathlib.Path):
        self.bin, self.work, self.faults = bin_folder, work, []

    def run(self, program: str, *arguments) -> subprocess.CompletedProcess:
        return subprocess.run([str(self.bin / program), *map(str, arguments)], cwd=self.work, capture_output=True, text=True)

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.faults.append(what)

    def printed(self, program: str, *arguments) -> str:
        result = self.run(program, *arguments)
        self.expect(result.returncode == 0, f"{program} {arguments}: exit status {result.returncode}\n{result.stderr}")
        return result.stdout

    def families(self) -> None:
        """The same table as piperc's own expansion."""
        for name, rows, own in FAMILIES:
            for ranks, microbatches in ((2, 4), (3, 6), (4, 8), (4, 16), (8, 16)):
                path = self.program(f"{name}.yaml", ranks * own, microbatches)
                path.write_text(path.read_text() + f"schedule: {{family: {name}, microbatches: {microbatches}}}\n")
                own_table = self.printed("piperc", CHAIN, "--strategy", path, "--expand=csv")
                self.expect(piper_strategy.table(rows(ranks, microbatches)) == own_table, f"{name} {ranks} x {microbatches} differs")

    def program(self, name: str, stages: int, microbatches: int, rows=None) -> pathlib.Path:
        made = Strategy(model={"batch": microbatches}, optimizer={"sgd": {"lr": 0.1}})
        made.annotate(tag="PP", starts=[f"layers.{stage * 16 // stages}" for stage in range(stages)])
        if rows:
            made.pipeline(rows)
        path = self.work / name
        path.write_text(made.text())
        return path

    def published(self) -> None:
        for rows, own, idle, activations in PUBLISHED:
            for ranks in (2, 3, 4, 5, 8):
                for microbatches in (2 * ranks, 4 * ranks):
                    if ranks <= 4 or microbatches == 2 * ranks:
                        self.one(rows, own, ranks, microbatches, idle(ranks, microbatches), activations(ranks, microbatches))

    def one(self, rows, own: int, ranks: int, microbatches: int, idle: float, activations: int) -> None:
        """A plan's own step and memory: what piper-plan simulates, and forwards whose backward has not ended."""
        what = f"{rows.__name__} {ranks} x {microbatches}"
        schedule = rows(ranks, microbatches)
        path = self.program(f"{rows.__name__}.yaml", ranks * own, microbatches, schedule)
        plans = self.work / f"{rows.__name__}.plans"
        self.printed("piperc", CHAIN, "--strategy", path, "-o", plans)
        said = self.printed("piper-plan", "verify", plans)
        self.expect("proved for" in said and "equality with the model: proved" in said, f"{what} is not proved: {said}")
        step = float(re.search(r"step: ([\d.]+) units", self.printed("piper-plan", "simulate", plans))[1])
        work = 3 * own * microbatches
        self.expect(step - work <= idle, f"{what} is idle for {step - work} units, published: {idle}")
        peaks = [alive_at_most(plan) for plan in sorted((plans / "ranks").glob("*.json"))]
        self.expect(len(peaks) == ranks and max(peaks) == activations, f"{what} holds {peaks} stages, published: {activations}")
        played = piper_strategy.play(schedule)
        self.expect((played.step, played.peak) == (step, peaks), f"{what}: play says {played}, the plan {step}, {peaks}")
        if rows is zb_h2:
            self.expect(not any(played.idle_inside), f"{what} is idle between a rank's first and last pass: {played.idle_inside}")

    def same_bytes(self) -> None:
        """Whatever order Python hashes in; and a base file comes first."""
        base = self.work / "base.yaml"
        base.write_text("piper: 1\nmodel: {batch: 8}\n")
        texts = {subprocess.run([sys.executable, AUTHORED / "v_half.py", "--ranks", "4", "--base", base], capture_output=True, text=True,
                                check=True, env={**os.environ, "PYTHONHASHSEED": seed}).stdout for seed in ("1", "2", "3")}
        self.expect(len(texts) == 1 and texts.pop().startswith("piper: 1\nmodel: {batch: 8}\ndirectives:\n"), "v_half differs")

    def two_copies(self) -> None:
        """A stage on two ranks, by microbatch, comes back from piperc as the table that was written."""
        rows = [[F(0, 0), F(1, 1), B(1, 1), B(0, 0)], [F(0, 1), F(1, 0), B(1, 0), B(0, 1)]]
        path = self.program("two_copies.yaml", 2, 2, rows)
        self.printed("piperc", CHAIN, "--strategy", path, "-o", self.work / "two_copies.plans")
        self.expect("MB: [0]" in path.read_text(), "a stage of two ranks is placed without its microbatches")

    def on_a_mesh(self) -> None:
        """Groups of devices by their axes give the plans that lists of ranks give, wherever the text says them."""
        bundles = []
        for name, keys, devices in (("lists", {}, [[0, 1], [2, 3]]), ("mesh", {"mesh": {"pp": 2, "dp": 2}}, [{"pp": 0}, {"pp": 1}])):
            made = Strategy(**keys, model={"batch": 8}, optimizer={"sgd": {"lr": 0.1}})
            made.annotate(tag="PP", starts=[f"layers.{4 * stage}" for stage in range(4)])
            for rank, stages in enumerate(([0, 3], [1, 2])):
                made.replicate({"PP": stages}, devices[rank], shard_optimizer=True)
            made.pipeline(v_half(2, 4), devices)
            (self.work / "s.yaml").write_text(made.text())
            self.printed("piperc", CHAIN, "--strategy", "s.yaml", "-o", f"{name}.plans")
            bundles.append([re.sub(r's\.yaml:[0-9:]+', "", file.read_text())
                            for file in sorted((self.work / f"{name}.plans" / "ranks").glob("*.json"))])
        self.expect(bundles[0] == bundles[1] and len(bundles[0]) == 4, "ranks of a mesh give other plans than their lists")

    def scalars(self) -> None:
        """Values come back as themselves: texts that look like something else are quoted."""
        for value, text in ((1e-8, "1.0e-08"), (3e-4, "0.0003"), ("*.bias", '"*.bias"'), ("true", '"true"'), ("0..3", '"0..3"'),
                            (True, "true"), (None, "null"), ("h.0", "h.0"), ('a "b"\n', r'"a \"b\"\n"'), ({"PP": [0, 1]}, "{PP: [0, 1]}")):
            self.expect(yaml(value) == text, f"{value!r} is written as {yaml(value)}, not as {text}")

    def refused(self) -> None:
        """Each program is wrong in one way; the message begins with the line that made it so."""
        cases = [
            (lambda: F(-1, 0), "-1 is no stage"),
            (lambda: F(0, 0.5), "0.5 is no microbatch"),
            (lambda: piper_strategy.play([[F(0, 0)]]), "stage 0 needs F and B, or F, BI and BW, of microbatch 0; it has F"),
            (lambda: piper_strategy.play([[F(0, 0), BI(0, 0), B(0, 0)]]), "it has B, BI, F"),
            (lambda: piper_strategy.play([[F(0, 0), F(0, 0), B(0, 0)]]), "0F0 appears twice"),
            (lambda: piper_strategy.play([[F(0, 0)], [B(0, 0)]]), "0B0 is on rank 1"),
            (lambda: piper_strategy.play([[F(0, 0), BW(0, 0), BI(0, 0)]]), "rank 0 stops at 0W0, which needs 0I0"),
            (lambda: piper_strategy.play([[F(1, 0), F(0, 0), B(1, 0), B(0, 0)]]), "rank 0 stops at 1F0, which needs 0F0"),
            (lambda: piper_strategy.play([[]]), "the schedule is empty"),
            (lambda: piper_strategy.table([[3]]), "a row holds passes"),
            (lambda: Strategy(model=object()).text(), "has no place in a strategy"),
            (lambda: Strategy(base="schedule: {}\n"), "has directives or a schedule of its own"),
            (lambda: Strategy().order([F(0, 0)]), "at least two slots"),
            (lambda: Strategy().pipeline([[F(0, 0), B(0, 0)]], devices=[[0], [1]]), "1 rows on 2 groups of devices"),
        ]
        for call, message in cases:
            line = f"{pathlib.Path(__file__).name}:{call.__code__.co_firstlineno}: "
            try:
                call()
                self.faults.append(f"not refused: {message}")
            except AuthorError as error:
                self.expect(str(error).startswith(line) and message in str(error), f"{error} is not '{line}...{message}'")
        for rows, shape, message in ((interleaved, (2, 5), "5 microbatches are no multiple of 2 ranks"),
                                     (dualpipev, (2, 3), "3 microbatches are fewer than two a rank")):
            try:
                rows(*shape)
                self.faults.append(f"not refused: {message}")
            except AuthorError as error:
                self.expect(message in str(error), f"{error} is not '{message}'")
        self.expect(overlap(F(0, 0), B(1, 0)) == (F(0, 0), B(1, 0)), "a slot is its members")

    def shown_by_piperc(self) -> None:
        """What piperc refuses, it shows with its line of Python."""
        made = Strategy(model={"batch": 4}, optimizer={"sgd": {"lr": 0.1}})
        made.place({"PP": 0}, [-1])
        line = sys._getframe().f_lineno - 1
        (self.work / "wrong.yaml").write_text(made.text())
        result = self.run("piperc", CHAIN, "--strategy", "wrong.yaml", "-o", "wrong.plans")
        self.expect(result.returncode == 1 and "P0213" in result.stderr and f"authored_strategies.py:{line}" in result.stderr,
                    f"piperc does not show the author's line: {result.stderr}")


def alive_at_most(plan: pathlib.Path) -> int:
    """The largest number of forwards of a rank's plan whose B or BW comes later."""
    alive = peak = 0
    for kind in re.findall(r'^\{"run":"[^"]*","args":"PP\d+\.(F|B|BI|BW) m\d+"', plan.read_text(), re.MULTILINE):
        alive += {"F": 1, "B": -1, "BI": 0, "BW": -1}[kind]
        peak = max(peak, alive)
    return peak


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    check = Check(arguments.bin.resolve(), work)
    for part in (check.families, check.published, check.same_bytes, check.two_copies, check.on_a_mesh, check.scalars, check.refused,
                 check.shown_by_piperc):
        part()
        print(f"{part.__name__}: {len(check.faults)} faults so far", flush=True)
    for fault in check.faults:
        print(fault)
    sys.exit(1 if check.faults else 0)


if __name__ == "__main__":
    main()
