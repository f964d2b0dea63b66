"""Values of programs that a call adds to, or changes in place, after the call that made them."""
from edits.bundle import Bundle, add_to, call, edit, put

ADDED = "a value that is added to in place"
CHANGED = "a value that is changed in place"


@edit("gpipe", "P0641", ADDED)
def activation_added_to(bundle: Bundle):
    """The first stage adds something else to the activation that it sends, in the slot that holds it."""
    calls = bundle.programs["PP0.F.b2"]["calls"]
    put(calls, [add_to("add_106 f32[2,6,8]", "saved f32[2,6,8]")])


@edit("gpipe", "P0641", ADDED)
def saved_value_added_to(bundle: Bundle):
    """The first stage adds to a value that it saves for its backward, after its last reader."""
    calls = bundle.programs["PP0.F.b2"]["calls"]
    put(calls, [add_to("saved f32[2,6,8]", "add_106 f32[2,6,8]")])


def normalise(bundle: Bundle, mean: str, variance: str, shape: str = "2,6,8"):
    """The first stage ends with a normalisation that nothing reads, which has these for its running statistics."""
    calls = bundle.programs["PP0.F.b2"]["calls"]
    operands = [f"add_106 f32[{shape}]", None, None, mean, variance]
    put(calls, [call("batch_norm", [f"workspace f32[{shape}]", None, None], operands, eps=1e-05, momentum=0.1)])


@edit("gpipe", "P0635", 'call 13 (batch_norm) writes slot "h.0.qkv.bias", which does not declare it')
def parameters_for_running_statistics(bundle: Bundle):
    """A normalisation brings parameters forward as if they were running statistics."""
    normalise(bundle, "h.0.qkv.bias f32[6]", "h.0.fc.bias f32[6]")


@edit("gpipe", "P0641", CHANGED)
def saved_values_for_running_statistics(bundle: Bundle):
    """A normalisation brings saved values forward as if they were running statistics."""
    normalise(bundle, "saved f32[96]", "saved+384 f32[96]", "1,96,1")


@edit("gpipe", "P0635", "call 13 (batch_norm of edit) changes input 3 over bytes of input 4, in slot \"saved\"")
def running_statistics_in_one_place(bundle: Bundle):
    """A normalisation brings forward one place as its running mean and as its running variance."""
    normalise(bundle, "saved f32[6]", "saved f32[6]")
