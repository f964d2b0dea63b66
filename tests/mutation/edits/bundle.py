"""A compiled bundle as values of Python, to be changed and written again, and the decorator of the changes.

Files of a bundle are JSON with one item a line (schemas/README.md). Members keep their order, so what is not changed is
written as it was read. `save` puts the digests right: a bundle is refused for what it says, not for a sum that is off.
"""
import copy
import dataclasses
import hashlib
import json
import pathlib
import re
from collections.abc import Callable


@dataclasses.dataclass
class Edit:
    """A change of the bundle of one composition, and how piper-plan verify refuses it (code "": or takes it)."""
    composition: str
    code: str
    phrase: str
    change: Callable

    @property
    def name(self) -> str:
        return self.change.__name__


def edit(composition: str, code: str = "", phrase: str = ""):
    """Makes an Edit of a function that changes a Bundle; its docstring says what that does to the training."""
    return lambda change: Edit(composition, code, phrase, change)


def only(items: list[dict], **members) -> dict:
    """The one item that has these members; it is no edit of this plan where there is none, or more."""
    found = [item for item in items if all(item.get(name) == value for name, value in members.items())]
    if len(found) != 1:
        raise LookupError(f"{len(found)} items have {members}")
    return found[0]


def put(items: list, new: list[dict], before: dict | None = None, after: dict | None = None):
    """Puts items before one of the list, or after one, or at its end."""
    beside = before or after
    place = [item is beside for item in items].index(True) if beside else len(items)
    place += 1 if after else 0
    items[place:place] = new


def call(kernel: str, out: list[str], operands: list, **attributes) -> dict:
    return {"call": kernel, "out": out, "in": operands, **({"attrs": attributes} if attributes else {}), "from": "edit"}


def add_to(out: str, operand: str) -> dict:
    return {"call": "add_into", "add": True, "out": [out], "in": [operand], "from": "edit"}


def fill(out: str, value: float) -> dict:
    """A call that sets an operand such as "x f32[2,3]" to one value."""
    dtype, shape = re.fullmatch(r".* (\w+)\[(.*)\]", out).groups()
    return call("fill", [out], [], shape=json.loads(f"[{shape}]"), value=value, to=dtype)


MODEL_INPUTS = ("input_ids", "labels")


def slot(name: str, role: str, size: int, access: str) -> dict:
    """A slot with piperc's name for what it holds says in its fields that it holds that."""
    held = {}
    if role in ("parameter", "state") or (role == "input" and name in MODEL_INPUTS):
        held = {"of": name}
    elif role == "gradient" and name.startswith("grad "):
        held = {"of": name.removeprefix("grad ")}
    elif role == "scalar" or (role in ("gradient", "output") and name == "loss"):
        held = {"holds": name}
    return {"slot": name, "role": role, **held, "bytes": size, "access": access}


def buffer(name: str, buffer_class: str, size: int, dtype: str, shape: list[int]) -> dict:
    return {"buffer": name, "class": buffer_class, "bytes": size, "dtype": dtype, "shape": shape}


class Rank:
    """What one rank does. One that is said to be `like` another has inputs and communicators of its own, no instructions."""

    def __init__(self, members: dict):
        self.members = members

    def __getitem__(self, name: str):
        return self.members[name]

    def __setitem__(self, name: str, value):
        self.members[name] = value

    @property
    def spelt_out(self) -> bool:
        return "like" not in self.members

    def instruction(self, **members) -> dict:
        return only(self["instructions"], **members)

    def first(self, kind: str) -> dict:
        """The first instruction of a kind, such as "send"."""
        found = [item for item in self["instructions"] if kind in item]
        if not found:
            raise LookupError(f"no instruction is a {kind}")
        return found[0]

    def arguments(self, name: str) -> list[str]:
        return only(self["arguments"], args=name)["in"]

    def add_run(self, program: str, buffers: list[str], *, before: dict | None = None, after: dict | None = None,
                workspace: bool = False):
        """A run on the compute stream, at the line of the strategy of the instruction that it is beside; else at the end."""
        name = f"{program} by hand {len(self['arguments'])}"
        put(self["arguments"], [{"args": name, "in": buffers}], before=self["arguments"][0])
        run = {"run": program, "args": name, **({"workspace": "workspace"} if workspace else {}), "stream": "compute",
               "at": (before or after or self["instructions"][-1])["at"]}
        put(self["instructions"], [run], before, after)

    def add_buffer(self, new: dict, offset: int):
        put(self["buffers"], [new], before=self["buffers"][0])
        self["offsets"] = {new["buffer"]: offset, **self["offsets"]}

    def add_header(self, name: str, value: str, *, before: str):
        """Header members, which name buffers, have one order."""
        members, self.members = self.members, {}
        for key, old in members.items():
            if key == before:
                self.members[name] = value
            self.members[key] = old
        if name not in self.members:
            raise LookupError(f"no member {before}")

    def exchange_argument(self, old: str, new: str, lists: str):
        """In the argument lists whose names begin with `lists`."""
        changed = [items["in"] for items in self["arguments"] if items["args"].startswith(lists) and old in items["in"]]
        if not changed:
            raise LookupError(f"no list {lists} has {old}")
        for names in changed:
            names[:] = [new if name == old else name for name in names]


class Bundle:
    """The manifest, the ranks, the programs by name and the reference; `evaluation` is the bundle in eval/, where there is one."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.manifest = json.loads((folder / "manifest.json").read_text())
        self.ranks = [Rank(json.loads(file.read_text())) for file in sorted((folder / "ranks").iterdir())]
        programs = [json.loads(file.read_text()) for file in sorted((folder / "programs").iterdir())]
        self.programs = {program["program"]: program for program in programs}
        reference = folder / "reference.json"
        self.reference = json.loads(reference.read_text()) if reference.exists() else None
        self.evaluation = Bundle(folder / "eval") if (folder / "eval").exists() else None

    @property
    def parts(self) -> list["Bundle"]:
        return [self, self.evaluation] if self.evaluation else [self]

    @property
    def spelt_out(self) -> list[Rank]:
        return [rank for rank in self.ranks if rank.spelt_out]

    def add_program(self, name: str, slots: list[dict], calls: list[dict], workspace: int = 0):
        """One that is called as piperc calls a chunk's says in its fields that it is that chunk's."""
        fields = re.fullmatch(r"(.+)\.(F|B|BI|BW|C|N)\.b(\d+)", name)
        of = {"of": {"chunk": fields[1], "pass": fields[2], "samples": int(fields[3])}} if fields else {}
        if fields and all(item["chunk"] != fields[1] for item in self.manifest["chunks"]):
            self.manifest["chunks"].append({"chunk": fields[1], "tags": {}})
        self.programs[name] = {"program": name, **of, "workspace_bytes": workspace, "slots": slots, "calls": calls}
        self.manifest["files"].append({"file": file_of(name), "bytes": 0, "sha256": ""})
        self.manifest["files"].sort(key=lambda entry: entry["file"])

    def copy_program(self, name: str, new_name: str) -> dict:
        program = copy.deepcopy(self.programs[name])
        self.add_program(new_name, program["slots"], program["calls"], program["workspace_bytes"])
        return self.programs[new_name]

    def texts(self) -> dict[str, str]:
        """The digest of each file that may have been changed, except the manifest."""
        return {**{f"ranks/rank-{i:05}.json": text_of(rank.members) for i, rank in enumerate(self.ranks)},
                **{file_of(name): text_of(program) for name, program in self.programs.items()},
                **({"reference.json": text_of(self.reference)} if self.reference else {})}

    def save(self):
        texts = self.texts()
        if self.evaluation:
            self.evaluation.save()
            texts["eval/manifest.json"] = text_of(self.evaluation.manifest)
        for name, text in texts.items():
            (self.folder / name).write_text(text)
            entry = only(self.manifest["files"], file=name)
            entry["bytes"], entry["sha256"] = len(text.encode()), hashlib.sha256(text.encode()).hexdigest()
        (self.folder / "manifest.json").write_text(text_of(self.manifest))


def call_of(bundle: Bundle, program: str, out: str) -> dict:
    """The call that writes this operand first."""
    found = [item for item in bundle.programs[program]["calls"] if item["out"] == [out]]
    if not found:
        raise LookupError(f"no call of {program} makes {out}")
    return found[0]


def file_of(program: str) -> str:
    return f"programs/{re.sub(r'[^A-Za-z0-9._-]', '_', program)}.json"


def text_of(members: dict) -> str:
    return "{\n" + ",\n".join(f"{line(name)}:{value_text(name, value)}" for name, value in members.items()) + "\n}\n"


def value_text(name: str, value) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(line(item) for item in value) + "\n]"
    if name == "offsets":
        return "{\n" + ",\n".join(f"{line(key)}:{line(item)}" for key, item in value.items()) + "\n}"
    return line(value)


def line(value) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("Infinity", "1e999")
