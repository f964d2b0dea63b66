"""Blocks of saved values that another program reads than the one for which they were saved."""
import re

from edits.bundle import Bundle, edit

SHARED = ("parameter", "gradient")  # of a size that does not depend on the number of samples


def half_operand(operand: str | None, shared: set[str]) -> str | None:
    """An operand for half of the samples, which are outermost: its place in a block, its first axis."""
    name, _, rest = (operand or "").rpartition(" ")
    if not operand or name in shared:
        return operand
    base, _, offset = name.partition("+")
    place = f"{base}+{int(offset) // 2}" if offset else base
    return f"{place} " + re.sub(r"\[(\d+)", lambda first: f"[{int(first.group(1)) // 2}", rest)


def add_half(bundle: Bundle, name: str) -> list[dict]:
    """Adds NAME.b2 like NAME.b4, for half of the samples, without padding; gives its slots."""
    program = bundle.copy_program(f"{name}.b4", f"{name}.b2")
    program["workspace_bytes"] //= 2
    for item in program["slots"]:
        if item["role"] not in SHARED:
            item["bytes"] //= 2
    shared = {item["slot"] for item in program["slots"] if item["role"] in SHARED}
    for item in program["calls"]:
        for operands in ("out", "in"):
            item[operands] = [half_operand(operand, shared) for operand in item[operands]]
    return program["slots"]


@edit("chain", "P0637", 'reads a part of a saved block as "saved"')
def saved_block_read_in_halves(bundle: Bundle):
    """Two backwards of 2 samples each take halves of the block that a forward of 4 samples saved."""
    add_half(bundle, "PP0.F")
    slots = add_half(bundle, "PP0.B")
    rank = bundle.ranks[0]
    whole = rank.instruction(run="PP0.B.b4", args="PP0.B m0")
    names = rank.arguments("PP0.B m0")
    second = [name if item["role"] in SHARED else f"{name}+{item['bytes']}" for name, item in zip(names, slots)]
    for half in (second, list(names)):
        rank.add_run("PP0.B.b2", half, after=whole, workspace=True)
    rank["instructions"].remove(whole)
