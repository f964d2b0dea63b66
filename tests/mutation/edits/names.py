"""Names that cannot appear in a line of text."""
from edits.bundle import Bundle, edit


@edit("replicas", "P0606", "the name of a communicator has a control character")
def line_end_in_name(bundle: Bundle):
    """Names of communicators have line ends: what lists one name a line lists other names."""
    for rank in bundle.spelt_out:
        for item in rank["communicators"] + rank["instructions"]:
            if "communicator" in item:
                item["communicator"] = "x\n" + item["communicator"]
