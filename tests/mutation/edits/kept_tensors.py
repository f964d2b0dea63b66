"""What a checkpoint keeps of a tensor is in a buffer that training leaves alone."""
from edits.bundle import Bundle, Rank, buffer, edit, only, put

FAR = 1 << 16


def save_from_copy(rank: Rank, tensor: str, kind: str, buffer_class: str, size: int):
    """What is saved of a tensor is a copy in a buffer of its own."""
    owner = only(rank["placements"], tensor=tensor, kind=kind)
    rank.add_buffer(buffer("stale", buffer_class, size, owner["dtype"], owner["shape"]), FAR)
    put(rank["placements"], [{**owner, "in": "stale"}], after=owner)
    del owner["owner"]


def says(what: str, where: str) -> str:
    return f'leaves something else, or old, where the {what} is placed, in "{where}"'


@edit("running_statistics", "P0638", says('value of "norm.running_mean"', "stale"))
def statistic_saved_from_copy(bundle: Bundle):
    """What is saved of a running statistic is a copy that no step updates."""
    save_from_copy(bundle.ranks[0], "norm.running_mean", "state", "state", 24)


@edit("one_device", "P0638", says('first moment of "lm_head.weight"', "stale"))
def moment_saved_from_copy(bundle: Bundle):
    """What is saved of a moment is a copy that no update writes: training goes on otherwise after a resume."""
    save_from_copy(bundle.ranks[0], "lm_head.weight", "m", "optimizer", 608)


@edit("running_statistics", "P0638", says('value of "gate.bias"', "param PP0/frozen.bias"))
def frozen_parameter_saved_from_trained(bundle: Bundle):
    """What is saved of a frozen parameter are the bytes of a trained one."""
    placements = bundle.ranks[0]["placements"]
    owner = only(placements, tensor="gate.bias", kind="value")
    put(placements, [{**owner, "in": "param PP0/frozen.bias"}], before=placements[0])
    del owner["owner"]
