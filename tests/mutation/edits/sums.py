"""Gradients and counts that lack an addend, have another, or are added as something else."""
from edits.bundle import Bundle, add_to, call, edit, fill, only, put, slot
from edits.programs import turn_gradient

GRADIENT = "grad lm_head.weight f32[152]"
COUNT_OF_TARGETS = call("cross_entropy_count", ["workspace f32[]"], ["labels i64[48]"], ignore_index=-1,
                        label_smoothing=0.0)
READS_GRADIENT = 'reads the gradient "grad lm_head.weight", which only updates may use'


@edit("one_device", "P0636", READS_GRADIENT)
def gradient_assigned(bundle: Bundle):
    """A program of the chunk assigns a gradient anew after the backward, with the other sign."""
    turn_gradient(bundle, "all.N.b8")


@edit("one_device", "P0636", READS_GRADIENT)
def gradient_assigned_by_a_reader_of_samples(bundle: Bundle):
    """A program of the chunk that reads the labels multiplies a gradient by their number."""
    rank = bundle.ranks[0]
    slots = [slot("labels", "input", 384, "read"), slot("grad lm_head.weight", "gradient", 608, "read_write")]
    bundle.add_program("all.N.b8", slots, [COUNT_OF_TARGETS, call("mul", [GRADIENT], [GRADIENT, "workspace f32[]"])], 64)
    rank.add_run("all.N.b8", ["labels", "grad all/lm_head.weight"], before=rank.instruction(run="advance"), workspace=True)


@edit("one_device", "P0641", "an accumulator that is written over")
def gradient_cleared_between_two_uses(bundle: Bundle):
    """The backward clears a tied weight's gradient between what its two uses add to it."""
    calls = bundle.programs["all.B.b8"]["calls"]
    _, second = [item for item in calls if item["out"][0].startswith("grad lm_head.weight ")]
    put(calls, [fill("grad lm_head.weight f32[19,8]", 0.0)], before=second)


@edit("gpipe", "P0636", READS_GRADIENT)
def tied_weight_updated_by_one_use(bundle: Bundle):
    """Both copies of a tied weight are updated by what the first stage adds; the second stage's is read, not added."""
    first, second = bundle.ranks
    combine = bundle.programs["combine.lm_head.weight.rl"]
    combine["calls"][0] = call("copy", combine["calls"][0]["out"], combine["calls"][0]["in"])
    only(combine["slots"], slot="grad use 1")["access"] = "write"
    first["instructions"].remove(first.instruction(run="combine.lm_head.weight.lr"))
    bundle.add_program("PP1.BW.b2", [slot("grad lm_head.weight", "gradient", 608, "read")],
                       [call("neg", ["workspace f32[152]"], [GRADIENT])], 608)
    second.add_run("PP1.BW.b2", ["grad PP1/lm_head.weight"], after=second.instruction(run="PP1.B.b2", args="PP1.B m3"),
                   workspace=True)


@edit("replicas", "P0636", "in what all/7 adds to")
def count_added_to_by_its_reader(bundle: Bundle):
    """The program that takes the reciprocal of the count of targets adds 5 to the count first."""
    reciprocal = bundle.programs["all/7.N.b2"]
    put(reciprocal["slots"], [slot("five", "output", 4, "write")], before=reciprocal["slots"][0])
    put(reciprocal["calls"], [fill("five f32[]", 5.0), add_to("step_sum f32[]", "five f32[]")], before=reciprocal["calls"][0])
    for rank in bundle.spelt_out:
        rank.arguments("all/7.count").insert(0, "workspace")


@edit("replicas", "P0636", "missing in what all/7 adds to")
def count_written_over_by_its_reader(bundle: Bundle):
    """The program that takes the reciprocal of the count of targets writes 5 over the count first."""
    put(bundle.programs["all/7.N.b2"]["calls"], [fill("step_sum f32[]", 5.0)],
        before=bundle.programs["all/7.N.b2"]["calls"][0])


@edit("replicas", "P0636", 'reads "step_sum" with samples')
def count_read_before_its_sum(bundle: Bundle):
    """The count of targets is read as a value before it is added up over the ranks."""
    reciprocal = bundle.programs["all/7.N.b2"]
    only(reciprocal["slots"], slot="step_sum").update(role="input", access="read")
    reciprocal["calls"].remove(only(reciprocal["calls"], call="fill"))
    bundle.add_program("all/7.BW.b2", [slot("step_sum", "gradient", 4, "read_write"), slot("negated", "output", 4, "write")],
                       [call("neg", ["negated f32[]"], ["step_sum f32[]"]), fill("step_sum f32[]", 0.0)])
    for rank in bundle.spelt_out:
        run = rank.instruction(run="all/7.N.b2")
        start = rank["instructions"].index(rank.instruction(all_reduce="count step_sum"))
        adding = rank["instructions"][start:start + 3]
        del rank["instructions"][start:start + 3]
        put(rank["instructions"], [{"record": "N", "stream": "compute", "at": run["at"]},
                                   {"wait": "N", "stream": "loss:0,1", "at": run["at"]}, *adding], after=run)
        rank["events"].insert(0, "N")
        rank.add_run("all/7.BW.b2", ["count step_sum", "workspace"], after=adding[-1])


@edit("replicas", "P0631", "adds f32 as elements of another kind")
def gradients_added_as_integers(bundle: Bundle):
    """Gradients of f32 are added up over the ranks as if their elements were integers."""
    for rank in bundle.spelt_out:
        for i, item in enumerate(rank["instructions"]):
            if item.get("all_reduce", "").startswith("grad "):
                head = {"all_reduce": item["all_reduce"], "count": item["count"], "dtype": "f32", "message": "f32", "sum": "i32"}
                rank["instructions"][i] = {**head, **{name: value for name, value in item.items() if name not in head}}


COUNT = call("cross_entropy_count", ["step_sum f32[]"], ["labels i64[12]"], ignore_index=-1, label_smoothing=0.0)


def add_numbers_of_targets(bundle: Bundle, made: dict, sum_buffer: str, before: dict):
    """A program of the chunk makes the number of a piece's targets, a program of none adds it to a sum."""
    operand = f"{made['slot']} f32[]"
    bundle.add_program("all/7.BW.b2", [slot("labels", "input", 96, "read"), made], [{**COUNT, "out": [operand]}])
    bundle.add_program("more", [slot("sum", "output", 4, "read_write"), slot("x", "input", 4, "read")], [add_to("sum f32[]", "x f32[]")])
    for rank in bundle.spelt_out:
        for microbatch in (0, 1):
            beside = rank.instruction(**before)
            rank.add_run("all/7.BW.b2", [f"labels m{microbatch}", "workspace"], before=beside)
            rank.add_run("more", [sum_buffer, "workspace"], before=beside)


@edit("replicas", "P0636", "a value that no program adds to it")
def count_with_a_value_added(bundle: Bundle):
    """The count of targets has each of them twice: once as what a chunk's program adds, once as a value that is called like the sum."""
    add_numbers_of_targets(bundle, slot("step_sum", "output", 4, "write"), "count step_sum", {"record": "all/7.C m1"})


@edit("replicas", "P0636", "a value that no program adds to it")
def loss_with_a_value_added(bundle: Bundle):
    """The reported loss has the number of targets in it."""
    add_numbers_of_targets(bundle, slot("loss", "output", 4, "write"), "loss sum", {"run": "loss.finish"})


@edit("one_device", "P0636", "missing in what v adds to")
def weights_added_that_cancel_out_by_their_programs(bundle: Bundle):
    """Two programs add a weight to its gradient and take it away, but one of them runs four times."""
    held = [{"slot": "w", "role": "parameter", "of": "ln_f.weight", "bytes": 32, "access": "read"},
            {"slot": "g", "role": "gradient", "of": "ln_f.weight", "bytes": 32, "access": "read_write"}]
    bundle.add_program("u.B.b8", held, [add_to("g f32[8]", "w f32[8]")])
    bundle.add_program("v.B.b2", held, [call("neg", ["workspace f32[8]"], ["w f32[8]"]), add_to("g f32[8]", "workspace f32[8]")], 64)
    rank = bundle.ranks[0]
    slots = bundle.programs["all.B.b8"]["slots"]
    buffers = next(items for items in rank["arguments"] if items["args"].startswith("all.B"))["in"]
    used = [buffers[slots.index(only(slots, of="ln_f.weight", role=role))] for role in ("parameter", "gradient")]
    at = rank.instruction(run="advance")
    rank.add_run("u.B.b8", used, before=at)
    rank.add_run("v.B.b2", used, before=at, workspace=True)


@edit("replicas", "P0636", "to all of which nothing was added")
def count_read_beside(bundle: Bundle):
    """The program that takes the reciprocal of the count reads beside it."""
    for rank in bundle.spelt_out:
        only(rank["buffers"], buffer="count step_sum").update(bytes=160)
        rank["offsets"]["count step_sum"] = 1 << 16
        rank.exchange_argument("count step_sum", "count step_sum+16", "all/7.count")
