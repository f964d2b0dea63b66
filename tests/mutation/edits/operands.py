"""Operands of a call that share bytes where they may not, or that do not fit the call."""
from edits.bundle import Bundle, call, edit, fill, put
from edits.running_statistics import give_workspace


@edit("gpipe", "P0635", "call 14 (neg of edit) writes output 0 over bytes of input 0, in the workspace")
def output_over_last_elements_of_input(bundle: Bundle):
    """A call writes over elements of its operand that lie behind the first 4,096 of these, apart from one another."""
    program = bundle.programs["PP0.F.b2"]
    put(program["calls"], [fill("workspace f32[10000]", 1.0),
                           call("neg", ["workspace+36000 f32[5000]"], ["workspace f32[5000]{2}"])])
    program["workspace_bytes"] = 56000
    give_workspace(bundle, 56000)
