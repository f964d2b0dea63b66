"""The rows of schemas/plan/elementwise.def, for the tools and tests that list operators. Plain Python, no packages."""
import pathlib
import re
from typing import NamedTuple

TABLE = pathlib.Path(__file__).resolve().parents[1] / "schemas/plan/elementwise.def"


class Row(NamedTuple):
    section: str
    binary: bool
    step: bool  # of derivative zero
    kernel: str
    name: str
    onnx: str  # "" where ONNX has no such operator
    low: float  # of unary ones: where tests draw x from
    high: float
    derivatives: list[str]


def columns(text: str) -> list[str]:
    """The arguments of a macro: commas within parentheses are of an argument."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def rows(text: str = "") -> list[Row]:
    found, section = [], ""
    for line in (text or TABLE.read_text()).splitlines():
        if line.startswith("// ---- "):
            section = line[8:]
        row = re.match(r"PIPER_(UNARY|BINARY)(_STEP)?\((.*)\)$", line)
        if not row:
            continue
        binary, step, parts = row[1] == "BINARY", row[2] is not None, columns(row[3])
        wanted = (4 if binary else 7) + (0 if step else 2 if binary else 1)
        if len(parts) != wanted:
            raise SystemExit(f"{TABLE}: {len(parts)} columns instead of {wanted}: {line}")
        onnx, low, high = ("", 0.0, 0.0) if binary else (parts[2].strip('"'), float(parts[4]), float(parts[5]))
        derivatives = [] if step else parts[-2:] if binary else parts[-1:]
        found.append(Row(section, binary, step, parts[0], parts[1], onnx, low, high, derivatives))
    return found
