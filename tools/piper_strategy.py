"""Writes strategies of piper from Python: loops and functions in place of long lists. Standard library only.

A schedule is a list of rows, one a rank; a row is what the rank runs, pass after pass:

    from piper_strategy import B, F, Strategy

    def rows(ranks, microbatches):                       # all forwards, then all backwards
        return [[F(rank, m) for m in range(microbatches)] + [B(rank, m) for m in range(microbatches)]
                for rank in range(ranks)]

    program = Strategy(model={"batch": 16}, optimizer={"sgd": {"lr": 0.1}})
    program.annotate(tag="PP", starts=["h.0", "h.2"])
    program.pipeline(rows(2, 4))
    print(program.text(), end="")

What comes out is a strategy file as one written by hand (docs/strategy-language.md); nothing of this module runs with
piperc or with a plan. The same calls give the same bytes. A comment after each directive names its line of Python,
so that piperc's messages show it; a schedule that cannot run is refused here, by AuthorError, with that line.
`main(rows)` makes a program of a function of ranks and microbatches (strategies/authored has examples).
"""
from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import re
import sys

WIDTH = 118             # of a line of the text
UNIT_TIMES = {"F": 1, "B": 2, "BI": 1, "BW": 1}
LETTERS = {"F": "F", "B": "B", "BI": "I", "BW": "W"}    # of a table in PyTorch's form


class AuthorError(Exception):
    """A program that cannot be meant; begins with the file and line of the author's Python."""


def author_line() -> str:
    """'v_half.py:12': the innermost line of a file that is not this one."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


@dataclasses.dataclass(frozen=True)
class Pass:
    """One pass of a stage on a microbatch; both count from 0."""
    stage: int
    microbatch: int
    kind: str                                                     # F, B, BI or BW
    line: str = dataclasses.field(default="", compare=False)      # of the author's Python

    def __str__(self) -> str:
        return f"{self.stage}{LETTERS[self.kind]}{self.microbatch}"


def make_pass(stage: int, microbatch: int, kind: str) -> Pass:
    line = author_line()
    for name, number in (("stage", stage), ("microbatch", microbatch)):
        if type(number) is not int or number < 0:
            raise AuthorError(f"{line}: {number!r} is no {name}; stages and microbatches count from 0")
    return Pass(stage, microbatch, kind, line)


def F(stage: int, microbatch: int) -> Pass:
    """The forward of a stage."""
    return make_pass(stage, microbatch, "F")


def B(stage: int, microbatch: int) -> Pass:
    """Its backward in one piece."""
    return make_pass(stage, microbatch, "B")


def BI(stage: int, microbatch: int) -> Pass:
    """The half of its backward that computes gradients of activations: the stage before waits for it."""
    return make_pass(stage, microbatch, "BI")


def BW(stage: int, microbatch: int) -> Pass:
    """The half that computes gradients of weights: only the update waits for it."""
    return make_pass(stage, microbatch, "BW")


def overlap(*passes: Pass) -> tuple[Pass, ...]:
    """A slot: its members alternate where one waits for communication."""
    return passes


def slots_of(row: list) -> list[tuple[Pass, ...]]:
    """A row with every entry as a slot."""
    slots = [(entry,) if isinstance(entry, Pass) else entry for entry in row]
    for slot in slots:
        if not isinstance(slot, tuple) or not slot or not all(isinstance(member, Pass) for member in slot):
            raise AuthorError(f"{author_line()}: a row holds passes and overlap(...) of passes, not {slot!r}")
    return slots


# ------------------------------------------------------------------ what a schedule does

@dataclasses.dataclass
class Played:
    """A schedule in unit times, communication free; lists are by rank."""
    step: float             # end of the last pass
    idle: list[float]       # of the whole step
    idle_inside: list[float]    # between a rank's own first and last pass
    peak: list[int]         # forwards whose backward has not ended, at most, in stages


def needs_of(step: Pass, last: int) -> list[tuple[int, int, str]]:
    """What must have ended before a pass begins, as (stage, microbatch, what): F, or the input half I of a backward."""
    if step.kind == "F":
        return [(step.stage - 1, step.microbatch, "F")] if step.stage else []
    if step.kind == "BW":
        return [(step.stage, step.microbatch, "I")]
    return [(step.stage, step.microbatch, "F")] + ([(step.stage + 1, step.microbatch, "I")] if step.stage < last else [])


def play(rows: list[list], times: dict[str, float] = UNIT_TIMES) -> Played:
    """Runs the rows; members of a slot one after the other. Raises AuthorError where the schedule is not complete, or stops
    because rows wait for each other."""
    queues = [[member for slot in slots_of(row) for member in slot] for row in rows]
    check_complete(queues)
    last = max(step.stage for queue in queues for step in queue)
    count, done = len(queues), {}
    clock, first, busy, alive, peak, at = [0.0] * count, [None] * count, [0.0] * count, [0] * count, [0] * count, [0] * count
    moved = True
    while moved:
        moved = False
        for rank, queue in enumerate(queues):
            while at[rank] < len(queue):
                step = queue[at[rank]]
                needs = needs_of(step, last)
                if any(need not in done for need in needs):
                    break
                begin = max([clock[rank], *(done[need] for need in needs)])
                clock[rank] = begin + times[step.kind]
                first[rank] = begin if first[rank] is None else first[rank]
                busy[rank] += times[step.kind]
                if step.kind != "BW":
                    done[step.stage, step.microbatch, "F" if step.kind == "F" else "I"] = clock[rank]
                alive[rank] += {"F": 1, "B": -1, "BI": 0, "BW": -1}[step.kind]
                peak[rank] = max(peak[rank], alive[rank])
                at[rank] += 1
                moved = True
    waiting = [(rank, queue[at[rank]]) for rank, queue in enumerate(queues) if at[rank] < len(queue)]
    if waiting:
        rank, step = waiting[0]
        missing = next(need for need in needs_of(step, last) if need not in done)
        raise AuthorError(f"{step.line}: the rows wait for each other: rank {rank} stops at {step}, which needs "
                          f"{missing[0]}{missing[2]}{missing[1]}")
    step = max(clock)
    return Played(step, [step - b for b in busy], [c - (f or 0) - b for c, f, b in zip(clock, first, busy)], peak)


def check_complete(queues: list[list[Pass]]) -> None:
    """Every stage does each microbatch once, on one rank: F, and B or BI and BW."""
    kinds: dict[tuple[int, int], dict[str, Pass]] = {}
    owner: dict[tuple[int, int], int] = {}
    for rank, queue in enumerate(queues):
        for step in queue:
            seen = kinds.setdefault((step.stage, step.microbatch), {})
            if step.kind in seen:
                raise AuthorError(f"{step.line}: {step} appears twice; the other is of {seen[step.kind].line}")
            if owner.setdefault((step.stage, step.microbatch), rank) != rank:
                raise AuthorError(f"{step.line}: {step} is on rank {rank}, other passes of this stage and microbatch are on "
                                  f"rank {owner[step.stage, step.microbatch]}")
            seen[step.kind] = step
    if not kinds:
        raise AuthorError(f"{author_line()}: the schedule is empty")
    stages, microbatches = (1 + max(key[i] for key in kinds) for i in (0, 1))
    for stage in range(stages):
        for microbatch in range(microbatches):
            seen = kinds.get((stage, microbatch), {})
            if set(seen) not in ({"F", "B"}, {"F", "BI", "BW"}):
                line = next((step.line for step in seen.values()), author_line())
                has = ", ".join(sorted(seen)) or "nothing"
                raise AuthorError(f"{line}: stage {stage} needs F and B, or F, BI and BW, of microbatch {microbatch}; it has {has}")


def table(rows: list[list]) -> str:
    """The schedule as piperc reads it by `schedule: {csv: FILE}`, and as `piperc --expand=csv` prints it."""
    def cell(slot):
        return str(slot[0]) if len(slot) == 1 else "(" + ";".join(map(str, slot)) + ")OVERLAP_F_B"
    return "".join(",".join(map(cell, slots_of(row))) + "\n" for row in rows)


# ------------------------------------------------------------------ text

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./]*\Z")
WORDS_WITH_A_MEANING = {"true", "false", "null", "True", "False", "Null", "TRUE", "FALSE", "NULL"}


def yaml(value) -> str:
    """A value in YAML's flow style, on one line; quoted where the reader would take a text for something else."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        text = repr(value)
        return text.replace("e", ".0e", 1) if re.fullmatch(r"-?\d+e.*", text) else text
    if isinstance(value, str):
        if PLAIN.match(value) and value not in WORDS_WITH_A_MEANING:
            return value
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{yaml(key)}: {yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple, range)):
        return "[" + ", ".join(map(yaml, value)) + "]"
    raise AuthorError(f"{author_line()}: {value!r} has no place in a strategy; it takes numbers, texts, lists and mappings")


def wrapped(items: list[str], indent: str, first: str) -> str:
    """The items between brackets, in lines of at most WIDTH columns."""
    lines, line = [], first + "["
    for number, item in enumerate(items):
        piece = item + (", " if number + 1 < len(items) else "]")
        if len(line) + len(piece.rstrip()) > WIDTH and line.strip() != first.strip() + "[":
            lines.append(line.rstrip())
            line = indent
        line += piece
    return "\n".join([*lines, line]) + "\n"


class Strategy:
    """A strategy file in the making. Keys of the file are given to the constructor, or come as the text of a file that has no
    `directives` and no `schedule` yet; directives are added by the methods, whose keywords are those of the language
    (docs/directives.md; `piperc` checks them and shows the line of Python that it finds after each)."""

    def __init__(self, base: str = "", **keys):
        self._base, self._keys, self._annotations, self._directives = base, keys, [], []
        if base and re.search(r"^(directives|schedule)\s*:", base, re.MULTILINE):
            raise AuthorError(f"{author_line()}: the text to begin with has directives or a schedule of its own")

    def annotate(self, **annotation) -> None:
        self._annotations.append(f"  - {yaml(annotation)}   # {author_line()}\n")

    def add(self, op: str, **arguments) -> None:
        """Any directive by its name."""
        self._add(author_line(), op, arguments)

    def _add(self, line: str, op: str, arguments: dict) -> None:
        self._directives.append(f"  - {yaml({'op': op, **arguments})}   # {line}\n")

    def place(self, filter: dict, devices, **options) -> None:
        self.add("place", filter=filter, devices=devices, **options)

    def replicate(self, filter: dict, devices, **options) -> None:
        self.add("replicate", filter=filter, devices=devices, **options)

    def shard(self, filter: dict, devices, **options) -> None:
        self.add("shard", filter=filter, devices=devices, **options)

    def recompute(self, filter: dict) -> None:
        self.add("recompute", filter=filter)

    def split(self, num_microbatches: int) -> None:
        self.add("split", num_microbatches=num_microbatches)

    def order(self, row: list, tag: str = "PP") -> None:
        """What one rank runs, pass after pass or slot after slot; stages are the indices of `tag`."""
        row_slots = slots_of(row)
        if len(row_slots) < 2:
            raise AuthorError(f"{author_line()}: an order needs at least two slots, here are {len(row_slots)}")
        slots = [yaml([{tag: step.stage, "MB": step.microbatch, "PASS": step.kind} for step in slot]) for slot in row_slots]
        self._directives.append(f"  - op: order   # {row_slots[0][0].line}\n" + wrapped(slots, " " * 14, "    filters: "))

    def pipeline(self, rows: list[list], devices: list | None = None, tag: str = "PP") -> None:
        """A whole schedule: `split`, a `place` for each stage and an `order` for each rank. Row r runs on devices[r], on
        device r where they are left out. Raises AuthorError where the schedule cannot run (play)."""
        play(rows)
        groups = [[rank] for rank in range(len(rows))] if devices is None else list(devices)
        if len(groups) != len(rows):
            raise AuthorError(f"{author_line()}: {len(rows)} rows on {len(groups)} groups of devices")
        homes: dict[tuple[int, int], list[Pass]] = {}           # the forwards of a stage on a rank
        for rank, row in enumerate(rows):
            for step in (step for slot in slots_of(row) for step in slot):
                if step.kind == "F":
                    homes.setdefault((step.stage, rank), []).append(step)
        self.split(1 + max(step.microbatch for forwards in homes.values() for step in forwards))
        several = {stage for stage, rank in homes if any(other == stage and there != rank for other, there in homes)}
        for (stage, rank), forwards in sorted(homes.items()):
            where = {tag: stage}
            if stage in several:
                where["MB"] = sorted(step.microbatch for step in forwards)
            self._add(forwards[0].line, "place", {"filter": where, "devices": groups[rank]})
        for row in rows:
            if len(row) > 1:
                self.order(row, tag)

    def text(self) -> str:
        """The file."""
        lines = [self._base if not self._base or self._base.endswith("\n") else self._base + "\n"]
        if not self._base:
            lines.append("piper: 1\n")
        lines += [f"{key}: {yaml(value)}\n" for key, value in self._keys.items()]
        if self._annotations:
            lines += ["annotate:\n", *self._annotations]
        if self._directives:
            lines += ["directives:\n", *self._directives]
        return "".join(lines)


def main(rows, description: str = "") -> None:
    """The command line of a file that has a function of (ranks, microbatches) -> rows: prints the strategy, the table or the
    figures. Exit status 1 with the author's line where the schedule cannot run."""
    parser = argparse.ArgumentParser(description=description or rows.__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--base", type=pathlib.Path, help="a strategy file without directives, which comes before these")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--table", action="store_true", help="print the table of passes, a row a rank")
    what.add_argument("--figures", action="store_true", help="print idle time and activations with unit times")
    arguments = parser.parse_args()
    try:
        if arguments.ranks < 1 or arguments.microbatches < 1:
            parser.error("--ranks and --microbatches are at least 1")
        schedule = rows(arguments.ranks, arguments.microbatches)
        if arguments.table:
            play(schedule)
            print(table(schedule), end="")
        elif arguments.figures:
            played = play(schedule)
            print(f"step {played.step:g}; on the worst rank: idle {max(played.idle):g}, idle between its first and last pass "
                  f"{max(played.idle_inside):g}, activations kept {max(played.peak)}")
        else:
            program = Strategy(base=arguments.base.read_text() if arguments.base else "")
            program.pipeline(schedule)
            print(program.text(), end="")
    except (AuthorError, OSError) as error:
        sys.exit(str(error))
