"""Operands that share bytes where they may not, or do not fit their call, of programs and of the reference."""
from edits.bundle import Bundle, call, edit, fill, put
from edits.running_statistics import give_workspace


@edit("gpipe", "P0635", "call 14 (neg of edit) writes output 0 over bytes of input 0, in the workspace")
def output_over_last_elements_of_input(bundle: Bundle):
    """A call writes over elements of its operand that lie after the first 4,096 of these, apart from one another."""
    program = bundle.programs["PP0.F.b2"]
    put(program["calls"], [fill("workspace f32[10000]", 1.0),
                           call("neg", ["workspace+36000 f32[5000]"], ["workspace f32[5000]{2}"])])
    program["workspace_bytes"] = 56000
    give_workspace(bundle, 56000)


def first_call(bundle: Bundle, kernel: str) -> dict:
    """Operands of the reference."""
    return next(item for item in bundle.reference["calls"] if item["call"] == kernel)


@edit("gpipe", "P0641", "does not fit its kernel: input x is absent")
def reference_without_operands(bundle: Bundle):
    """A call of the reference has no operands."""
    first_call(bundle, "linear")["in"] = []


@edit("gpipe", "P0641", "does not fit its kernel: output y is absent")
def reference_without_results(bundle: Bundle):
    """A call of the reference makes nothing."""
    first_call(bundle, "gelu")["out"] = []


@edit("gpipe", "P0641", "(none of \"gelu (h.0) at make_models.py:44\") is no kernel")
def reference_of_no_kernel(bundle: Bundle):
    """A call of the reference is of no kernel."""
    first_call(bundle, "gelu")["call"] = "none"


@edit("gpipe")
def statistic_without_axes(bundle: Bundle):
    """The first stage ends with the derivative of a cross entropy whose sums of exponentials are one number without axes."""
    loss = call("cross_entropy_sum", ["workspace f32[]", "workspace+64 f32[]"], ["lm_head.weight f32[6,8]", "arange i64[6]"])
    operands = ["workspace+128 f32[]", "saved f32[2,8,6]{48,1,8}", "input_ids i64[2,6]", "workspace+64 f32[]", None]
    put(bundle.programs["PP0.F.b2"]["calls"], [
        loss, fill("workspace+128 f32[]", 1.0), call("cross_entropy_backward", ["workspace+192 f32[2,8,6]"], operands)])
