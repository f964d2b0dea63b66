"""Where attention attends, said by a predicate and the vectors that it reads."""
from edits.bundle import Bundle, edit

OTHER = "the difference begins at"


def attentions(bundle: Bundle) -> list[dict]:
    found = [item for program in bundle.programs.values() for item in program["calls"] if "attends" in item.get("attrs", {})]
    assert len(found) == 2 and found[0]["attrs"]["attends"] == "-q + k + 3 >= 0 & q - k >= 0 & r0[q] - r0[k] = 0", found
    return found


@edit("packed", "P0641", OTHER)
def window_of_one_more(bundle: Bundle):
    """Queries attend to one key more, in the forward and in the backward."""
    for item in attentions(bundle):
        item["attrs"]["attends"] = item["attrs"]["attends"].replace("3", "4")


@edit("packed", "P0641", OTHER)
def across_documents(bundle: Bundle):
    """Queries attend across documents."""
    for item in attentions(bundle):
        item["attrs"]["attends"] = "-q + k + 3 >= 0 & q - k >= 0 & r0[q] - r0[q] = 0"


@edit("packed", "P0641", OTHER)
def another_mask_in_the_backward(bundle: Bundle):
    """The backward's window is narrower than the forward's."""
    attentions(bundle)[1]["attrs"]["attends"] = "q - k >= 0 & r0[q] - r0[k] = 0"
