"""Seeded random PyTorch models: values of a few types, and statements of model_statements.py that make more of them.

The same seed gives the same source text on every machine. `Model.smaller` gives the models that are one step smaller, for
looking at what fails.
"""
from __future__ import annotations

import dataclasses
import random
import re

from model_statements import BASES, HEAD, PRODUCTIONS, Production

BATCH = 8
MIXING = {"P0331", "P0336"}
INPUTS = ("x", "y", "z", "mask", "ids", "labels")
PLACE = re.compile(r"<([A-Z])(?::(\d))?>")
CHOICE = re.compile(r"\{([^{}]*\|[^{}]*)\}")
KINDS = {"H": "GGGX", "W": "FFFM"}       # a place of one type that takes values of two
WANTED = {"G": 7, "P": 1.5, "F": 2.5, "M": 2, "K": 0.8, "I": 0.8, "T": 0.6, "V": 0.6, "C": 0.5, "E": 0.8}
MODULE = re.compile(r"^self\.(\w+) = nn\.(?!Parameter|ModuleList)", re.M)


@dataclasses.dataclass(frozen=True)
class Statement:
    name: str
    type: str
    code: str                    # with {0}, {1}, ... for `reads`
    init: str = ""
    reads: tuple = ()            # ((types that may be read there, name), ...)
    mixes: bool = False
    limit: str = ""

    def lines(self):
        text = self.code
        for i, (_, name) in enumerate(self.reads):
            text = text.replace(f"\0{i}\0", name)
        return text.replace("$", self.name) if "$" in text else f"{self.name} = {text}"


def statement(name, number, production, choose, draw):
    """choose: of alternatives; draw: (a type's letter) -> (types, name)."""
    def chosen(text):
        while CHOICE.search(text):
            text = CHOICE.sub(lambda m: choose(m[1].split("|")), text, count=1)
        return text.replace("#", str(number))

    reads, known = [], {}

    def read(match):
        key = match[0] if match[2] else None
        if key is None or key not in known:
            reads.append(draw(match[1]))
            known[key] = len(reads) - 1
        return f"\0{known[key]}\0"
    code = PLACE.sub(read, chosen(production.code))
    return Statement(name, production.type, code, chosen(production.init), tuple(reads), production.mixes, production.limit)


@dataclasses.dataclass(frozen=True)
class Model:
    seed: int
    steps: int                   # S
    width: int                   # D
    statements: tuple            # in order, all of them
    terms: tuple                 # ((factor, name of an L), ...)
    cut: float                   # where the second stage begins, as a share of the modules

    def live(self):
        """The statements that the loss depends on."""
        wanted, found = {name for _, name in self.terms}, []
        for s in reversed(self.statements):
            if s.name in wanted:
                wanted |= {name for _, name in s.reads}
                found.append(s)
        found.reverse()
        borrowed = {"first", "last"} & set(re.findall(r"self\.(\w+)", "\n".join(s.code for s in found)))
        return found, borrowed

    def may_meet(self):
        """Codes of refusals for reading several samples together that its statements give a reason for."""
        live = self.live()[0]
        return MIXING if any(s.mixes for s in live) else {s.limit for s in live if s.limit}

    def inputs(self):
        words = set(re.findall(r"\w+", "\n".join(s.lines() for s in self.live()[0])))
        return [name for name in INPUTS if name in words or name == "x"]

    def modules(self):
        """Names of modules in the order of their calls."""
        return [name for s in self.live()[0] for name in MODULE.findall(s.init) if f"self.{name}(" in s.code]

    def stages(self):
        """Where the two stages of a pipeline begin, or nothing."""
        modules = self.modules()
        return (modules[0], modules[1 + int(self.cut * (len(modules) - 1))]) if len(modules) > 1 else None

    def source(self):
        live, borrowed = self.live()
        bases = {f"self.{name} =": init for _, _, _, init in BASES for name in MODULE.findall(init)}
        inits = [s.init for s in live if s.init]
        inits += [bases[f"self.{name} ="] for name in sorted(borrowed) if not any(f"self.{name} =" in init for init in inits)]
        body = [s.lines() for s in live if s.lines() != f"{s.name} = "]     # inputs have no text
        loss = " + ".join(name if factor == 1 else f"{factor} * {name}" for factor, name in self.terms)

        def indented(texts):
            return "".join(f"        {line}\n" for text in texts for line in text.split("\n"))
        return (f"S, D = {self.steps}, {self.width}\n\n\nclass Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n{indented(inits)}\n"
                f"    def forward(self, {', '.join(self.inputs())}):\n        B, S, D = x.shape\n{indented(body)}        return {loss}\n")

    # ---------------------------------------------------------------- smaller ones
    def without(self, name):
        """None where it is a value to begin with, or no value can take its place."""
        dropped = next(s for s in self.statements if s.name == name)
        kept, before = [], []

        def other(types):
            names = [s.name for s in before if s.type in types]
            return names[-1]
        if any(name == base for _, base, _, _ in BASES):
            return None
        for s in self.statements:
            if s is dropped:
                continue
            kept.append(dataclasses.replace(s, reads=tuple((types, other(types) if read == name else read) for types, read in s.reads)))
            before.append(s)
        terms = tuple((factor, "base" if read == name else read) for factor, read in self.terms)
        return dataclasses.replace(self, statements=tuple(kept), terms=terms)

    def smaller(self):
        for i in range(len(self.terms)):
            if len(self.terms) > 1:
                yield dataclasses.replace(self, terms=self.terms[:i] + self.terms[i + 1:])
        if any(factor != 1 for factor, _ in self.terms):
            yield dataclasses.replace(self, terms=tuple((1, name) for _, name in self.terms))
        for s in reversed(self.live()[0]):
            less = self.without(s.name)
            if less is not None:
                yield less
        for steps, width in ((2, 2), (2, self.width), (self.steps, 2)):
            if (steps, width) != (self.steps, self.width):
                yield dataclasses.replace(self, steps=steps, width=width)


class Maker:
    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.seed, self.values, self.statements = seed, {}, []

    def add(self, made: Statement):
        self.statements.append(made)
        self.values.setdefault(made.type, []).append(made.name)

    def draw(self, letter: str):
        """Rather what was made last."""
        types = KINDS.get(letter, letter)
        names = self.values[self.random.choice([t for t in types if t in self.values])]
        at = len(names) - 1 - min(int(self.random.expovariate(0.7)), len(names) - 1)
        return "".join(sorted(set(types))), names[at]

    def grow(self, type_: str):
        productions = [p for p in PRODUCTIONS if p.type == type_]
        production = self.random.choices(productions, [p.weight for p in productions])[0]
        number = len(self.statements)
        self.add(statement(f"v{number}", number, production, self.random.choice, self.draw))

    def model(self) -> Model:
        r = self.random
        steps, width = r.choice((2, 3, 3, 4, 5, 8)), r.choice((2, 4, 4, 6, 8))
        for type_, name, code, init in BASES:
            self.add(statement(name, 0, Production(type_, code, init), r.choice, self.draw))
        for _ in range(r.randint(4, 14)):
            self.grow(r.choices(list(WANTED), list(WANTED.values()))[0])
        # What was made last is used: an error of each token of it by y, or a head.
        for _ in range(r.choice((1, 1, 1, 2, 2, 3))):
            if r.random() < 0.3:
                self.grow("F")
            self.grow("L")
        losses = [name for name in self.values["L"] if name != "base"]
        if r.random() < 0.8:
            self.add(statement("head", 0, Production("L", *HEAD), r.choice, lambda _: ("G", self.values["G"][-1])))
            losses.append("head")
        terms = tuple((r.choice((1, 1, 1, 0.5, 0.1)), name) for name in losses)
        return Model(self.seed, steps, width, tuple(self.statements), terms, r.random())


def make(seed: int) -> Model:
    return Maker(seed).model()
