"""The loss that is reported."""
from edits.bundle import Bundle, call, edit, only, put, slot


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
