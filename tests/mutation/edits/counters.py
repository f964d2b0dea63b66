"""The number of the optimizer's step."""
from edits.bundle import Bundle, buffer, call, edit, fill, slot

KEPT = 'writes "optimizer_step", which is kept for something else'


@edit("one_device", "P0638", KEPT)
def step_cleared(bundle: Bundle):
    """The number of the optimizer's step is cleared after the updates: each step is Adam's first."""
    rank = bundle.ranks[0]
    bundle.add_program("clear.step", [slot("step", "output", 8, "write")], [fill("step i64[]", 0.0)])
    rank.add_run("clear.step", ["optimizer_step"])


@edit("one_device", "P0638", KEPT)
def step_copied_from_other_counter(bundle: Bundle):
    """The number of the step is taken from a counter that nothing counts up, before it is advanced."""
    rank = bundle.ranks[0]
    bundle.add_program("back", [slot("other", "input", 8, "read"), slot("step", "output", 8, "write")],
                       [call("copy", ["step i64[]"], ["other i64[]"])])
    rank.add_buffer(buffer("other_step", "training", 8, "i64", []), 64)
    rank.add_run("back", ["other_step", "optimizer_step"], before=rank.instruction(run="advance"))


@edit("gpipe", "P0638", 'rank 0 keeps "optimizer_step" for training, but does not count it in a step')
def name_of_counter_on_one_rank(bundle: Bundle):
    """One rank counts in a buffer of another name, and a checkpoint keeps its buffer of the common name, which counts nothing."""
    rank = bundle.ranks[0]
    for item in rank["buffers"]:
        item["buffer"] = "steps" if item["buffer"] == "optimizer_step" else item["buffer"]
    rank["offsets"] = {"steps" if name == "optimizer_step" else name: offset for name, offset in rank["offsets"].items()}
    rank.exchange_argument("optimizer_step", "steps", "")
    rank.add_buffer(buffer("optimizer_step", "training", 8, "i64", []), 64)
