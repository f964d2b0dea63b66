"""The scale of the loss: what takes it back, and the overflow by which a step is left out."""
from edits.bundle import Bundle, buffer, call, edit, only, slot
from edits.kept_tensors import FAR

NO_FACTOR = "scales by what is no factor of clipping"


@edit("f16_scaled_clipped", "P0638", NO_FACTOR)
def scale_taken_back_without_clipping(bundle: Bundle):
    """Updates take the factor that takes the scale back in place of the one that clips as well."""
    bundle.add_program("unscale", [slot("loss_scale", "scalar", 4, "read"), slot("grad_scale", "output", 4, "write")],
                       [call("unscale", ["grad_scale f32[]"], ["loss_scale f32[]"])])
    for rank in bundle.spelt_out:
        rank.add_run("unscale", ["loss_scale", "grad_scale"], after=rank.instruction(run="clip"))


@edit("f16_scaled_clipped", "P0638", NO_FACTOR)
def clipping_that_manifest_denies(bundle: Bundle):
    """The manifest says that nothing is clipped, the plan clips: the limit is 0."""
    bundle.manifest["clip_grad_norm"] = 0.0


@edit("f16_scaled", "P0638", 'programs "advance" and "advance.still" bring the loss scale forward by different rules')
def scale_follows_overflows_on_one_rank(bundle: Bundle):
    """The loss scale of one rank follows overflows, that of the other stays."""
    still = bundle.copy_program("advance", "advance.still")
    only(still["calls"], call="advance_loss_scale")["attrs"]["dynamic"] = False
    bundle.ranks[1].instruction(run="advance")["run"] = "advance.still"


@edit("f16_scaled", "P0636", "the overflow that rank 0 reports skips by what is no overflow of gradients")
def overflow_reported_from_factor(bundle: Bundle):
    """Steps are left out by the factor on gradients, which is never 0, in place of their overflow."""
    for rank in bundle.ranks:
        rank["overflow"] = "grad_scale"


@edit("f16_scaled", "P0636", "rule 8: rank 0 reports the loss scale without the overflow by which it skips steps")
def overflow_not_reported(bundle: Bundle):
    """Nothing says which steps are left out."""
    for rank in bundle.ranks:
        del rank.members["overflow"]


@edit("f16_scaled", "P0636", 'the overflow that rank 0 reports lacks element 0 of "wpe.weight"')
def overflow_reported_from_gradient(bundle: Bundle):
    """What is reported as the overflow is a gradient after its update, which is always 0: no step counts as left out."""
    for rank in bundle.ranks:
        rank["overflow"] = "grad all/1/lm_head.weight"


@edit("f16_scaled_clipped", "P0636", "rank 0 reports what is no norm of the gradients")
def norm_of_scaled_gradients(bundle: Bundle):
    """The norm that is reported is that of the gradients as they are, times the loss scale."""
    slots = [slot("norms", "input", 112, "read"), slot("norm", "output", 4, "write"), slot("factor", "output", 4, "write")]
    bundle.add_program("scaled norm", slots, [call("clip_scale", ["norm f32[]", "factor f32[]"], ["norms f32[28]"])])
    rank = bundle.ranks[0]
    for name, offset in (("norm", FAR), ("factor", FAR + 64)):
        rank.add_buffer(buffer(f"scaled {name}", "gradient", 4, "f32", []), offset)
    rank.add_run("scaled norm", ["grad norms", "scaled norm", "scaled factor"], before=rank.instruction(run="clip"))
    rank["grad_norm"] = "scaled norm"
