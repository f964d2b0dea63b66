"""Values of programs that a call adds to behind the call that made them."""
from edits.bundle import Bundle, add_to, edit, put

ADDED = "a value that is added to in place"


@edit("gpipe", "P0641", ADDED)
def activation_added_to(bundle: Bundle):
    """The first stage adds something else to the activation that it sends, in the slot where it stands."""
    calls = bundle.programs["PP0.F.b2"]["calls"]
    put(calls, [add_to("add_106 f32[2,6,8]", "saved f32[2,6,8]")])


@edit("gpipe", "P0641", ADDED)
def saved_value_added_to(bundle: Bundle):
    """The first stage adds to a value that it saves for its backward, behind its last reader."""
    calls = bundle.programs["PP0.F.b2"]["calls"]
    put(calls, [add_to("saved f32[2,6,8]", "add_106 f32[2,6,8]")])
