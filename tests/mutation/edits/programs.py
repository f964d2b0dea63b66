"""Programs that are of no chunk of the model, and programs that never run."""
import copy

from edits.bundle import Bundle, call, edit, fill, only, put, slot

FOREIGN = "is of a program of no chunk that does more than copy, add, clear, clip and count"


def turn_gradient(bundle: Bundle, program: str):
    """A new program of this name turns a gradient's sign before its update."""
    gradient = "grad lm_head.weight f32[152]"
    bundle.add_program(program, [slot("grad lm_head.weight", "gradient", 608, "read_write")],
                       [call("neg", [gradient], [gradient])])
    rank = bundle.ranks[0]
    rank.add_run(program, ["grad all/lm_head.weight"], before=rank.instruction(run="advance"))


@edit("one_device", "P0637", FOREIGN)
def sign_of_gradient_turned(bundle: Bundle):
    """A program of no chunk turns a gradient's sign before its update."""
    turn_gradient(bundle, "turn")


@edit("gpipe", "P0637", FOREIGN)
def activation_made_by_foreign_program(bundle: Bundle):
    """A program of no chunk makes the activation that the next stage receives, of the same samples: zeros."""
    rank = bundle.ranks[0]
    bundle.add_program("zeros", [slot("input_ids", "input", 96, "read"), slot("add_106", "output", 384, "write")],
                       [call("cast", ["add_106 f32[12]"], ["input_ids i64[12]"], to="f32"), fill("add_106 f32[96]", 0.0)])
    rank.add_run("zeros", ["input_ids m0", "add_106 m0"], after=rank.instruction(run="PP0.F.b2", args="PP0.F m0"))


def into_workspace(operand: str | None, saved_at: int, workspace_at: int) -> str | None:
    """The operand, if in the saved block or the workspace, in one workspace that holds both."""
    name, _, rest = (operand or "").rpartition(" ")
    base, _, offset = name.partition("+")
    starts = {"saved": saved_at, "workspace": workspace_at}
    return f"workspace+{starts[base] + int(offset or 0)} {rest}" if base in starts else operand


@edit("gpipe", "P0641", 'no program makes for "grad lm_head.weight" the model\'s call')
def contribution_of_program_that_never_runs(bundle: Bundle):
    """The second stage leaves out what it adds to the tied weight's gradient; a program that never runs adds it."""
    forward, backward = bundle.programs["PP1.F.b2"], bundle.programs["PP1.B.b2"]
    adds = next(item for item in backward["calls"] if item["out"][0].startswith("grad lm_head.weight "))
    calls = copy.deepcopy([item for item in forward["calls"] if item["from"] != "loss"] + [backward["calls"][0], adds])
    saved = only(forward["slots"], slot="saved")["bytes"]
    for item in calls:
        for operands in ("out", "in"):
            item[operands] = [into_workspace(operand, 0, saved) for operand in item[operands]]
    slots = [item for item in forward["slots"] if item["slot"] not in ("saved", "loss")]
    gradient = only(backward["slots"], slot="grad lm_head.weight")
    bundle.add_program("unused.B.b2", [*slots, gradient], calls, saved + backward["workspace_bytes"])
    place = backward["slots"].index(gradient)
    backward["slots"].pop(place)
    backward["calls"].remove(adds)
    for items in bundle.ranks[1]["arguments"]:
        if items["args"].startswith("PP1.B m"):
            items["in"].pop(place)


@edit("gpipe", "P0641", "the difference begins at program \"PP1.F.b2\" call 7 (relu of")
def activation_of_program_that_never_runs(bundle: Bundle):
    """The second stage has relu in place of gelu; a program that never runs makes what it reads otherwise."""
    bundle.add_program("unused.F.b2", [slot("input_ids", "input", 96, "read"), slot("add_106", "output", 384, "write")],
                       [fill("add_106 f32[96]", 0.0), call("cast", ["add_106 f32[12]"], ["input_ids i64[12]"], to="f32")])
    gelu = only(bundle.programs["PP1.F.b2"]["calls"], call="gelu")
    gelu["call"] = "relu"
    del gelu["attrs"]


@edit("one_device")
def parameter_without_elements(bundle: Bundle):
    """A program that never runs reads a parameter of which the model has no element."""
    put(bundle.manifest["tensors"], [{"tensor": "none", "dtype": "f32", "shape": [0], "aliases": [], "trained": False}],
        before=bundle.manifest["tensors"][0])
    bundle.add_program("unused.F.b8", [slot("none", "parameter", 4, "read")],
                       [call("neg", ["workspace f32[1]"], ["none f32[1]"])], 64)


@edit("running_statistics")
def rows_of_no_expert(bundle: Bundle):
    """A program that never runs puts rows in the order of no expert."""
    ordered = ["workspace+64 i64[0]", "workspace+64 i64[2]", "workspace+128 i64[2,0]", "workspace+192 i64[]"]
    bundle.add_program("unused.F.b2", [], [
        fill("workspace i64[2]", 0.0),
        call("expert_order", ordered, ["workspace i64[2]"], experts=0, capacity=1, segments=2),
        call("neg", ["workspace+200 i64[0]"], ["workspace+64 i64[0]"])], 256)


@edit("gpipe", "P0637", 'reads "saved of PP1" where "saved" should be')
def backward_said_to_be_of_the_other_stage(bundle: Bundle):
    """The second stage's backward says that it is the first one's."""
    bundle.programs["PP1.B.b2"]["of"]["chunk"] = "PP0"


@edit("replicas", "P0637", "and its program is for 4")
def programs_said_to_work_on_more_samples(bundle: Bundle):
    """Programs of chunks say twice the samples that they work on."""
    for program in bundle.programs.values():
        if "of" in program:
            program["of"]["samples"] *= 2


@edit("gpipe", "P0636", "the loss that rank 0 reports holds")
def count_of_rows_said_to_be_the_loss(bundle: Bundle):
    """What the loss is added up in says that it is a number of dropped rows; its name stays."""
    for program in bundle.programs.values():
        for item in program["slots"]:
            if item.get("holds") == "loss":
                item["holds"] = "dropped"


@edit("one_device", "P0637", "is of a program of no chunk")
def backward_said_to_be_of_no_chunk(bundle: Bundle):
    """The backward is called as before and says no chunk."""
    del bundle.programs["all.B.b8"]["of"]


@edit("one_device", "P0637", "rule 9")
def weights_said_to_be_each_others(bundle: Bundle):
    """Two parameters of one size exchange what their slots say that they hold, and keep their names."""
    slots = bundle.programs["all.B.b8"]["slots"]
    one, other = only(slots, slot="h.0.fc.weight"), only(slots, slot="h.1.fc.weight")
    one["of"], other["of"] = other["of"], one["of"]
