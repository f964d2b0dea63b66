"""The loss that is reported."""
from edits.bundle import Bundle, buffer, call, edit, fill, only, put, slot


@edit("one_device", "P0634", 'overwrote "loss", which is reported')
def loss_overwritten(bundle: Bundle):
    """The loss is finished before the backward, in bytes that the backward then takes as its workspace."""
    rank = bundle.ranks[0]
    finish = rank.instruction(run="loss.finish")
    rank["instructions"].remove(finish)
    put(rank["instructions"], [finish], before=rank.instruction(run="all.B.b8"))
    only(rank["buffers"], buffer="loss")["class"] = "arena"
    rank["offsets"]["loss"] = rank["offsets"]["workspace"]


@edit("one_device", "P0636", "the loss that rank 0 reports is never computed")
def number_of_targets_for_loss(bundle: Bundle):
    """A program of the chunk writes the number of targets where the loss is reported from; another reads the true sum."""
    rank = bundle.ranks[0]
    bundle.add_program("all.N.b8", [slot("labels", "input", 384, "read"), slot("loss", "output", 4, "write")],
                       [call("cross_entropy_count", ["loss f32[]"], ["labels i64[48]"], ignore_index=-1, label_smoothing=0.0)])
    bundle.add_program("all.C.b8", [slot("loss", "gradient", 4, "read"), slot("negated", "output", 4, "write")],
                       [call("neg", ["negated f32[]"], ["loss f32[]"])])
    rank.add_run("all.C.b8", ["loss sum", "workspace"], before=rank.instruction(run="loss.finish"))
    rank.add_run("all.N.b8", ["labels", "loss"], before=rank.instruction(run="advance"))


@edit("experts_capacity", "P0641", 'adds to "dropped" what the model does not')
def rows_sent_for_rows_dropped(bundle: Bundle):
    """The number of rows that a rank gets is reported as the number of those that were dropped."""
    only(bundle.programs["rest.2.F.b2"]["calls"], out=["dropped i64[]"])["in"] = ["sum_5 i64[]"]


def add_clearing(bundle: Bundle, size: int):
    bundle.add_program("clear.it", [slot("x", "output", size, "write")], [fill(f"x f32[{size // 4}]", 0.0)])


def make_room(bundle: Bundle, size: int) -> int:
    """In the arenas of all ranks, at their end, which is at one place."""
    at = {rank["arena_bytes"] for rank in bundle.ranks}.pop()
    for rank, said in zip(bundle.ranks, bundle.manifest["ranks"]):
        rank["arena_bytes"] = said["arena_bytes"] = at + size
    return at


@edit("replicas", "P0634", 'overwrote "grad norms", which is reported')
def norms_overwritten_after_the_first(bundle: Bundle):
    """Squares of gradients that lie after the first ones are cleared before they are reported."""
    at = make_room(bundle, 192)
    add_clearing(bundle, 48)
    for rank in bundle.spelt_out:
        only(rank["buffers"], buffer="grad norms")["class"] = "arena"
        rank["offsets"]["grad norms"] = at
        rank.add_buffer(buffer("other", "arena", 48, "f32", [12]), at + 64)
        rank.add_run("clear.it", ["other"], after=rank.instruction(run="clip"))
        rank.add_run("clear.it", ["other"], before=rank["instructions"][0])


@edit("replicas_dropout", "P0634", 'overwrote "loss", which is reported')
def loss_of_a_like_rank_overwritten(bundle: Bundle):
    """The rank that reports the loss is not the one whose instructions it has; the loss is cleared before it is reported."""
    at = make_room(bundle, 64)
    add_clearing(bundle, 4)
    rank = bundle.ranks[0]
    only(rank["buffers"], buffer="loss")["class"] = "arena"
    rank["offsets"]["loss"] = at
    rank.add_buffer(buffer("other", "arena", 4, "f32", [1]), at)
    rank.add_run("clear.it", ["other"], before=rank["instructions"][0])
    reduced = rank.instruction(all_reduce="loss")
    rank.add_run("clear.it", ["other"], after=reduced)
    rank["instructions"][rank["instructions"].index(reduced) + 1]["stream"] = reduced["stream"]
    del rank.members["loss"]
    bundle.manifest["reporting_rank"] = 1
