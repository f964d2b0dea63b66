"""Experts of whole pieces: slots and sums of other ranks or experts."""
from edits.bundle import Bundle, call, call_of, edit, put
from edits.running_statistics import give_workspace

COMPOSITION = "experts_slots"
UP, DOWN, BACK = "EP1.experts/1.F.b4", "EP1.experts/2.F.b4", "EP1.experts/2.B.b4"


@edit(COMPOSITION, "P0641", "experts in a product")
def slots_by_expert_and_rank(bundle: Bundle):
    """What both ranks sent is read as if it were of two experts, and the other way round."""
    call_of(bundle, UP, "saved f32[2,2,3,6]")["in"] = ["einsum_2.received f32[2,2,3,6]"]


@edit(COMPOSITION, "P0641", "an operand that does not name all samples")
def slots_of_one_rank(bundle: Bundle):
    """Both ranks get back what the experts made of the slots of rank 0."""
    call_of(bundle, DOWN, "reshape_20 f32[2,2,3,6]")["in"] = ["workspace f32[2,2,3,6]{0,36,6,1}"]


@edit(COMPOSITION, "P0641", "an exchange of what no program makes as one value")
def slots_of_the_other_rank(bundle: Bundle):
    """Each rank gets back what the experts made of the other's slots."""
    copied = call_of(bundle, DOWN, "reshape_20 f32[2,2,3,6]")
    put(bundle.programs[DOWN]["calls"], [call("copy", ["reshape_20+144 f32[2,3,6]"], ["workspace f32[2,3,6]{36,6,1}"])], after=copied)
    copied.update({"out": ["reshape_20 f32[2,3,6]"], "in": ["workspace+72 f32[2,3,6]{36,6,1}"]})


@edit(COMPOSITION, "P0641", "an exchange of what an exchange brought")
def slots_of_ranks_added(bundle: Bundle):
    """Both ranks get back the sum of what the experts made of their slots."""
    copied = call_of(bundle, DOWN, "reshape_20 f32[2,2,3,6]")
    put(bundle.programs[DOWN]["calls"],
        [call("sum", ["workspace+512 f32[2,3,6]"], ["workspace f32[2,2,3,6]"], dims=[1], keepdim=False)], before=copied)
    copied["in"] = ["workspace+512 f32[2,2,3,6]{0,18,6,1}"]
    bundle.programs[DOWN]["workspace_bytes"] = 1024
    give_workspace(bundle, 1024)


@edit(COMPOSITION, "P0641", "an operand that does not name all samples")
def gradient_of_one_rank(bundle: Bundle):
    """The gradient of an expert has the slots of rank 0 alone."""
    call_of(bundle, BACK, "grad mixtures.1.down f32[2,8,6]")["in"] = ["saved f32[2,8,3]{48,1,8}", "workspace f32[2,3,6]{36,6,1}"]


@edit(COMPOSITION, "P0641", "an operand that does not name all samples")
def gradient_of_the_other_rank(bundle: Bundle):
    """The gradient of an expert multiplies the slots of each rank with the gradient of the other's."""
    made = call_of(bundle, BACK, "grad mixtures.1.down f32[2,8,6]")
    made["in"] = ["saved f32[2,8,3]{48,1,8}", "workspace+72 f32[2,3,6]{36,6,1}"]
    put(bundle.programs[BACK]["calls"], [{**made, "in": ["saved+96 f32[2,8,3]{48,1,8}", "workspace f32[2,3,6]{36,6,1}"]}], after=made)
