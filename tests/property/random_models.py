"""Seeded random PyTorch models: values of a few types, and statements of model_statements.py that make more of them.

The same seed gives the same source text on every machine. `Model.smaller` gives the models that are one step smaller, for
looking at what fails.
"""
from __future__ import annotations

import dataclasses
import random
import re

from model_statements import BASES, HEAD, PRODUCTIONS, Production
from rare_statements import RARE

BATCH = 8
MIXING = {"P0331", "P0336"}
INPUTS = ("x", "y", "z", "mask", "ids", "labels")
PLACE = re.compile(r"<([A-Z]|first)(?::(\d))?>")
DRAWN = sorted(name for name, rare in RARE.items() if not rare.foreign)    # others say too little for the rest of a model
RARELY = 0.25                            # share of the models that have a rare statement
USED = {"G": "F.mse_loss(<G>, y)", "P": "F.mse_loss(<P>, z)", "F": "<F>.pow(2).mean()", "T": "((<G> - <T>) ** 2).mean()", "V": "(<G> * <V>).pow(2).mean()"}
DROPPED = 0.2
CHOICE = re.compile(r"\{([^{}]*\|[^{}]*)\}")
KEPT = {name for _, name, _, _ in BASES}
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
    onnx: str = ""               # in place of `code` in the ONNX file
    rare: str = ""               # its name

    def lines(self, container="pt2"):
        text = self.onnx if self.onnx and container == "onnx" else self.code
        for i, (_, name) in enumerate(self.reads):
            text = text.replace(f"\0{i}\0", name)
        return text.replace("$", self.name) if "$" in text else f"{self.name} = {text}"


def statement(name, number, production, choose, draw, rare=""):
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
    code, init = PLACE.sub(read, chosen(production.code)), chosen(production.init)
    if isinstance(production, Production):
        return Statement(name, production.type, code, init, tuple(reads), production.mixes, production.limit)
    return Statement(name, production.type, code, init, tuple(reads), production.mixes, production.limit, PLACE.sub(read, chosen(production.onnx)), rare)


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

    @property
    def rare(self):
        """The rare statement that it has, or nothing."""
        return next((RARE[s.rare] for s in self.live()[0] if s.rare), None)

    @property
    def drops(self):
        return "DROP" in self.source()

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

    def frozen(self):
        """Names of all parameters ahead of the second stage."""
        stages, names, bases = self.stages(), set(), {s.name: s for s in self.statements if s.name in KEPT}
        for s in self.live()[0] if stages else ():
            if s.name in bases and s.name != "h":
                continue
            ahead, second, _ = s.code.partition(f"self.{stages[1]}(")
            texts = [ahead] + [bases[name].code for _, name in s.reads if name in bases]
            names |= set(re.findall(r"self\.(\w+)", "\n".join(texts)))
            if second:
                break
        return sorted(names)

    def source(self, container="pt2", drop=DROPPED):
        live, borrowed = self.live()
        bases = {f"self.{name} =": init for _, _, _, init in BASES for name in MODULE.findall(init)}
        inits = [s.init for s in live if s.init]
        inits += [bases[f"self.{name} ="] for name in sorted(borrowed) if not any(f"self.{name} =" in init for init in inits)]
        inits += [f"self.{name}.requires_grad_(False)" for name in (self.frozen() if self.rare and self.rare.frozen else ())]
        body = [s.lines(container) for s in live if s.lines() != f"{s.name} = "]     # inputs have no text
        loss = " + ".join(name if factor == 1 else f"{factor} * {name}" for factor, name in self.terms)

        def indented(texts):
            return "".join(f"        {line}\n" for text in texts for line in text.split("\n"))
        sizes = f"S, D, DROP = {self.steps}, {self.width}, {drop}" if "DROP" in "".join(inits + body) else f"S, D = {self.steps}, {self.width}"
        return (f"{sizes}\n\n\nclass Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n{indented(inits)}\n"
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
    def __init__(self, seed: int, asked: str = ""):
        self.random, self.seldom = random.Random(seed), random.Random(f"rare {seed}")
        self.seed, self.values, self.statements = seed, {}, []
        self.alone = bool(asked)
        self.rare = asked or (self.seldom.choice(DRAWN) if self.seldom.random() < RARELY else "")

    def add(self, made: Statement):
        self.statements.append(made)
        self.values.setdefault(made.type, []).append(made.name)

    def draw(self, letter: str, r=None):
        """Rather what was made last."""
        if letter == "first":
            return "G", "h"
        r = r or self.random
        types = KINDS.get(letter, letter)
        names = self.values[r.choice([t for t in types if t in self.values])]
        at = len(names) - 1 - min(int(r.expovariate(0.7)), len(names) - 1)
        return "".join(sorted(set(types))), names[at]

    def grow(self, type_: str):
        productions = [p for p in PRODUCTIONS if p.type == type_]
        production = self.random.choices(productions, [p.weight for p in productions])[0]
        number = len(self.statements)
        self.add(statement(f"v{number}", number, production, self.random.choice, self.draw))

    def grow_rarely(self):
        """The rare statement, and a loss that has it: the loss's name."""
        number, rare = len(self.statements), RARE[self.rare]
        made = statement(f"v{number}", number, rare, self.seldom.choice, lambda letter: self.draw(letter, self.seldom), self.rare)
        self.add(made)
        if made.type == "L":
            return made.name
        self.add(statement(f"v{number + 1}", 0, Production("L", USED[made.type]), self.seldom.choice,
                           lambda letter: (letter, made.name) if letter == made.type else self.draw(letter, self.seldom)))
        return f"v{number + 1}"

    def model(self) -> Model:
        r = self.random
        steps, width = r.choice((2, 3, 3, 4, 5, 8)), r.choice((2, 4, 4, 6, 8))
        for type_, name, code, init in BASES:
            if name == "h" and self.rare and RARE[self.rare].first:
                code, init = RARE[self.rare].first
            self.add(statement(name, 0, Production(type_, code, init), self.seldom.choice, self.draw))
        if self.alone:
            rarely = self.grow_rarely()
            return Model(self.seed, steps, width, tuple(self.statements), self.terms(rarely, ["base"]), self.cut(rarely))
        count, rarely = r.randint(4, 14), ""
        at = self.seldom.randrange(count) if self.rare else -1
        for i in range(count):
            self.grow(r.choices(list(WANTED), list(WANTED.values()))[0])
            if i == at:
                rarely = self.grow_rarely()
        # What was made last is used: an error of each token of it by y, or a head.
        for _ in range(r.choice((1, 1, 1, 2, 2, 3))):
            if r.random() < 0.3:
                self.grow("F")
            self.grow("L")
        losses = [name for name in self.values["L"] if name not in ("base", rarely)]
        if r.random() < 0.8:
            self.add(statement("head", 0, Production("L", *HEAD), r.choice, lambda _: ("G", self.values["G"][-1])))
            losses.append("head")
        return Model(self.seed, steps, width, tuple(self.statements), self.terms(rarely, losses), self.cut(rarely))

    def terms(self, rarely, losses):
        found = tuple((self.random.choice((1, 1, 1, 0.5, 0.1)), name) for name in losses)
        return ((1, rarely),) if rarely and RARE[self.rare].alone else (*found, *([(1, rarely)] if rarely else []))

    def cut(self, rarely):
        drawn = self.random.random()
        return drawn if not rarely or RARE[self.rare].cut is None else RARE[self.rare].cut


def make(seed: int, asked: str = "") -> Model:
    """asked: the rare statement that it has, and no other."""
    return Maker(seed, asked).model()
