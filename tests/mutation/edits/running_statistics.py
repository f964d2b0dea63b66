"""Running statistics that take no samples, or samples twice."""
import json
import re

from edits.bundle import Bundle, buffer, call, edit, fill, only, put, slot

KEPT = 'writes "state norm.running_mean", which is kept for something else'
OTHER = 'leaves something else in the running statistic "norm.running_mean" than the model'


@edit("running_statistics", "P0638", KEPT)
def statistic_cleared(bundle: Bundle):
    """A running statistic is cleared at the end of each step."""
    rank = bundle.ranks[0]
    bundle.add_program("clear.mean", [slot("mean", "output", 24, "write")], [fill("mean f32[6]", 0.0)])
    rank.add_run("clear.mean", ["state norm.running_mean"])


@edit("running_statistics", "P0638", KEPT)
def statistic_put_back(bundle: Bundle):
    """A running statistic is copied before the step and put back after it: it never changes."""
    rank = bundle.ranks[0]
    bundle.add_program("copy", [slot("old", "input", 24, "read"), slot("new", "output", 24, "write")],
                       [call("copy", ["new f32[6]"], ["old f32[6]"])])
    rank.add_buffer(buffer("kept", "gradient", 24, "f32", [6]), 1 << 20)
    rank.add_run("copy", ["state norm.running_mean", "kept"], before=rank["instructions"][0])
    rank.add_run("copy", ["kept", "state norm.running_mean"])


@edit("running_statistics", "P0641", OTHER)
def statistic_filled(bundle: Bundle):
    """The forward sets the running mean to a number after its normalisation."""
    calls = bundle.programs["PP0.F.b2"]["calls"]
    put(calls, [fill("norm.running_mean f32[6]", 5.0)], after=only(calls, call="batch_norm"))


@edit("running_statistics", "P0641", 'are proved; not "norm.running_mean": a result of fill with gaps')
def statistic_filled_in_part(bundle: Bundle):
    """The forward sets every other element of the running mean to a number after its normalisation."""
    put(bundle.programs["PP0.F.b2"]["calls"], [call("fill", ["norm.running_mean f32[3]{2}"], [], shape=[3], value=5.0, to="f32")])


@edit("running_statistics", "P0641", OTHER)
def statistic_taken_twice(bundle: Bundle):
    """The normalisation is called twice, so its running statistics take each piece twice."""
    program = bundle.programs["PP0.F.b2"]
    once = only(program["calls"], call="batch_norm")
    again, at = [], program["workspace_bytes"]
    for out in once["out"]:
        shape = out.split(" ")[1]
        again.append(f"workspace+{at} {shape}")
        at += bytes_of(shape)
    put(program["calls"], [{**once, "out": again}], after=once)
    program["workspace_bytes"] = at
    give_workspace(bundle, at)


def bytes_of(shape: str) -> int:
    """The bytes of an operand such as f32[2,6], up to the next multiple of 64."""
    size = 4
    for axis in json.loads(re.search(r"\[.*\]", shape).group(0)):
        size *= axis
    return (size + 63) // 64 * 64


def give_workspace(bundle: Bundle, size: int):
    """A workspace of at least `size` bytes after the arena of every rank, for every run; runs that have workspaces of their own share it."""
    for rank, share in zip(bundle.ranks, bundle.manifest["ranks"]):
        if rank.spelt_out:
            for workspace in rank["buffers"]:
                if workspace["buffer"].split()[-1] == "workspace":
                    workspace["bytes"] = size = max(size, workspace["bytes"])
                    rank["offsets"][workspace["buffer"]] = rank["arena_bytes"]
        rank["arena_bytes"] += size
        share["arena_bytes"] += size
