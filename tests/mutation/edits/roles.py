"""Slots whose role says otherwise than what the program does with them."""
from edits.bundle import Bundle, edit, fill, only, slot

RUN_AT_ADVANCE = "all.N.b8"


def read_first_microbatch_as(bundle: Bundle, role: str):
    only(bundle.programs["PP1.F.b2"]["slots"], slot="add_106")["role"] = role
    bundle.ranks[1].exchange_argument("add_106 m1", "add_106 m0", "PP1.F m1")


@edit("gpipe", "P0637", 'reads samples where "add_106" should be')
def activation_as_scalar(bundle: Bundle):
    """The second stage reads the activation of microbatch 0 for microbatch 1, in a slot that is said to be a scalar."""
    read_first_microbatch_as(bundle, "scalar")


@edit("gpipe", "P0637", 'is of a program that has a moment of the optimizer in slot "add_106"')
def activation_as_moment(bundle: Bundle):
    """The second stage reads the activation of microbatch 0 for microbatch 1, in a slot that is said to be a moment."""
    read_first_microbatch_as(bundle, "moment")


@edit("one_device", "P0637", 'is of a program that has a moment of the optimizer in slot "x"')
def gradient_written_as_moment(bundle: Bundle):
    """A program of the chunk writes over a gradient through a slot that is said to be a moment."""
    rank = bundle.ranks[0]
    bundle.add_program(RUN_AT_ADVANCE, [slot("x", "moment", 608, "write")], [fill("x f32[152]", 0.5)])
    rank.add_run(RUN_AT_ADVANCE, ["grad all/lm_head.weight"], before=rank.instruction(run="advance"))


@edit("sharded_parameters", "P0637", 'is of a program that writes slot "lm_head.weight", whose role is to be read')
def parameter_written_before_its_use(bundle: Bundle):
    """A program of the chunk writes over the gathered copy of a parameter before a forward reads it."""
    rank = bundle.ranks[0]
    bundle.add_program("all/1.C.b2", [slot("lm_head.weight", "parameter", 608, "write")], [fill("lm_head.weight f32[152]", 0.5)])
    rank.add_run("all/1.C.b2", ["param all/1/lm_head.weight for all/1.F m0"],
                 before=rank.instruction(run="all/1.F.b2", args="all/1.F m0"))
