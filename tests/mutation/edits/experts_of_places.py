"""Dense experts over the places of a cut: rows, gates and sums of other places, sources or experts."""
from edits.bundle import Bundle, call, call_of, edit, only, put

COMPOSITION = "cut_whole_dense_experts"
TOKENS, EXPERTS, BACK = "rest.rest.2.F.b2", "EP0.experts.F.b2", "EP0.experts.B.b2"


@edit(COMPOSITION, "P0641", "operands that number experts by different axes")
def gates_of_other_experts(bundle: Bundle):
    """A place sends to each rank the gates of every second expert."""
    call_of(bundle, TOKENS, "reshape_6 f32[2,2,6]")["in"] = ["saved f32[2,2,6]{1,2,4}"]


@edit(COMPOSITION, "P0641", "an operand that does not name all samples")
def gates_by_rank_and_expert(bundle: Bundle):
    """What both places sent is read as if it were of two experts, and the other way round."""
    call_of(bundle, EXPERTS, "saved+4608 f32[2,2,6]")["in"] = ["unsqueeze_2.received f32[2,2,6]{12,6,1}"]


@edit(COMPOSITION, "P0641", "an operand that does not name all samples")
def results_of_one_place(bundle: Bundle):
    """Both places get back what the experts made of the rows of place 0."""
    call_of(bundle, EXPERTS, "reshape_9 f32[12,8]").update({"out": ["reshape_9 f32[2,6,8]"],
                                                            "in": ["workspace+768 f32[2,6,8]{0,8,1}"]})


@edit(COMPOSITION, "P0641", "an exchange of what no program makes as one value")
def results_of_the_other_place(bundle: Bundle):
    """Each place gets back what the experts made of the other's rows."""
    calls = bundle.programs[EXPERTS]["calls"]
    copied = call_of(bundle, EXPERTS, "reshape_9 f32[12,8]")
    put(calls, [call("copy", ["reshape_9+192 f32[6,8]"], ["workspace+768 f32[6,8]"])], after=copied)
    copied.update({"out": ["reshape_9 f32[6,8]"], "in": ["workspace+960 f32[6,8]"]})


@edit(COMPOSITION, "P0641", "ranks by an axis of their own")
def rows_of_places_added(bundle: Bundle):
    """Both places get back the sum of what the experts made of their rows."""
    calls = bundle.programs[EXPERTS]["calls"]
    copied = call_of(bundle, EXPERTS, "reshape_9 f32[12,8]")
    put(calls, [call("sum", ["workspace f32[6,8]"], ["workspace+768 f32[2,6,8]"], dims=[0], keepdim=False)], before=copied)
    copied.update({"out": ["reshape_9 f32[2,6,8]"], "in": ["workspace f32[2,6,8]{0,8,1}"]})


@edit(COMPOSITION, "P0641", "shares of a sum that are not added up")
def experts_counted_twice(bundle: Bundle):
    """A place adds up the share of the first rank's experts twice, and that of the second's never."""
    only(bundle.programs["rest.2.F.b2"]["calls"], call="sum")["in"] = ["sum_1_2.returned f32[2,6,8]{0,8,1}"]


@edit(COMPOSITION, "P0641", "13 are proved; not \"grad mixture.down_bias\"")
def gradient_of_one_place(bundle: Bundle):
    """The gradient of an expert's bias has the rows of place 0 twice."""
    made = call_of(bundle, BACK, "grad mixture.down_bias f32[2,1,8]")
    made.update({"in": ["workspace f32[2,2,6,8]{96,0,8,1}"], "out": ["grad mixture.down_bias f32[2,1,1,8]"]})
    made["attrs"]["dims"] = [1, 2]


@edit(COMPOSITION, "P0636", "adds rows of several places to \"grad mixture.up\", a sum over samples alone")
def gradient_of_a_place_alone(bundle: Bundle):
    """The gradient of an expert's weights is said to be the sum of all places' rows at each of them."""
    for slot in bundle.programs[BACK]["slots"]:
        if slot["slot"] == "grad mixture.up":
            del slot["spread"], slot["cut"]


@edit(COMPOSITION, "P0641", "shares of a sum that are not added up")
def tokens_of_one_expert_rank(bundle: Bundle):
    """The gradient of a token has what the first rank's experts give it, twice."""
    call_of(bundle, "rest.rest.2.B.b2", "workspace f32[1,1,6,8]")["in"] = ["all_to_all_3 f32[2,1,6,8]{0,48,8,1}"]


@edit(COMPOSITION, "P0637", "of all places' rows, together with values of its own")
def part_said_to_be_whole(bundle: Bundle):
    """What a place sends is said to be of all places."""
    for program in bundle.programs.values():
        for slot in program["slots"]:
            if slot["slot"] == "expand":
                del slot["spread"], slot["cut"]


@edit("experts_capacity", "P0641", "an order of rows in parts, which no kernel makes")
def order_of_parts_in_a_program(bundle: Bundle):
    """The capacity of an expert is said to be of each part of the rows, in the reference and in the program that ranks run."""
    for calls in (bundle.reference["calls"], *(program["calls"] for program in bundle.programs.values())):
        for item in calls:
            if item["call"] == "expert_order":
                item["attrs"] |= {"parts": 2, "run": 1}


@edit("cut_whole_experts_capacity", "P0641", "a capacity of the rows of a place")
def capacity_of_other_parts(bundle: Bundle):
    """The model's parts are every other row, the places' are parts of each sequence."""
    for item in bundle.reference["calls"]:
        if item["call"] == "expert_order":
            item["attrs"]["run"] = 1


@edit("cut_whole_experts_capacity", "P0641", "a capacity of the rows of a place")
def capacity_of_all_rows(bundle: Bundle):
    """The model bounds the rows of the whole sequence, each place those of its part."""
    for item in bundle.reference["calls"]:
        if item["call"] == "expert_order":
            del item["attrs"]["parts"], item["attrs"]["run"]


@edit("cut_whole_experts_capacity", "P0641", "a capacity of the rows of a place")
def other_capacity(bundle: Bundle):
    """An expert takes fewer rows of each place than the strategy says."""
    for program in bundle.programs.values():
        for item in program["calls"]:
            if item["call"] == "expert_order":
                item["attrs"]["capacity"] -= 1
