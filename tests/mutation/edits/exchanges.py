"""Exchanges of rows of experts: parts and counts that are not where they should be."""
from edits.bundle import Bundle, call, edit, only, slot

COMPOSITION = "experts_capacity"


def read_from_the_middle(bundle: Bundle, name: str, member: str):
    """What is exchanged, or counts it, lies twice one after the other; the exchange takes it from the middle on."""
    rank = bundle.ranks[0]
    size = only(rank["buffers"], buffer=name)["bytes"]
    words = size // 8
    bundle.add_program("copy.it", [slot("x", "input", size, "read"), slot("y", "output", size, "write")],
                       [call("copy", [f"y i64[{words}]"], [f"x i64[{words}]"])])
    only(rank["buffers"], buffer=name).update(bytes=2 * size, shape=[2 * words])
    rank["offsets"][name] = rank["arena_bytes"]
    for each, said in zip(bundle.ranks, bundle.manifest["ranks"]):
        each["arena_bytes"] = said["arena_bytes"] = each["arena_bytes"] + 2 * size + 64
    exchange = [item for item in rank["instructions"] if item.get(member) == name][0]
    exchange[member] = f"{name}+{size // 2}"
    made = [item for item in rank["instructions"] if "run" in item and name in rank.arguments(item["args"])][0]
    rank.add_run("copy.it", [name, f"{name}+{size}"], after=made)


@edit(COMPOSITION, "P0637", "counts the rows that it moves by a part of the counts")
def counts_rotated(bundle: Bundle):
    """The numbers of rows for each rank change places."""
    read_from_the_middle(bundle, "sum_3 m0", "send_counts")


@edit(COMPOSITION, "P0637", "sends parts of what is not all of a value")
def parts_rotated(bundle: Bundle):
    """What is sent to each rank changes places."""
    read_from_the_middle(bundle, "expert_order_3.2 m0", "all_to_all")
