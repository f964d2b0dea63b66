"""What the executor writes before a step (rate, seed and step, positions of samples) and where programs read it."""
from edits.bundle import Bundle, call, edit, fill, only, put, slot
from edits.running_statistics import give_workspace

ELSEWHERE = 'reads something else where "{}" should be'


@edit("one_device", "P0637", 'reads what a program made where "learning_rate" should be')
def rate_made_by_program(bundle: Bundle):
    """A program of the chunk makes the rate by which parameters are updated."""
    rank = bundle.ranks[0]
    bundle.add_program("all.N.b8", [slot("learning_rate", "scalar", 8, "write")], [fill("learning_rate f64[]", 0.5)])
    rank.exchange_argument("learning_rate", "workspace", "update")
    rank.add_run("all.N.b8", ["workspace"], before=rank.instruction(run="advance"))


@edit("one_device", "P0637", ELSEWHERE.format("learning_rate"))
def rate_written_beside(bundle: Bundle):
    """The executor writes the rate into the second 8 bytes of its buffer, updates read the first."""
    rank = bundle.ranks[0]
    rank["learning_rate"] = "learning_rate+8"
    only(rank["buffers"], buffer="learning_rate").update(bytes=16, shape=[2])


@edit("replicas_dropout", "P0637", ELSEWHERE.format("seed_step"))
def seed_and_step_written_beside(bundle: Bundle):
    """The executor writes seed and step into half of their buffer, dropout reads the other: all steps have one mask."""
    for rank in bundle.ranks:
        rank["seed_step"] = "seed_step+16"
    for rank in bundle.spelt_out:
        only(rank["buffers"], buffer="seed_step").update(bytes=32, shape=[4])


@edit("replicas_dropout", "P0637", ELSEWHERE.format("sample_offset"))
def position_read_beside(bundle: Bundle):
    """Dropout reads the second 8 bytes of a buffer whose first hold the position of its first sample."""
    rank = bundle.ranks[0]
    only(rank["buffers"], buffer="sample_offset m1").update(bytes=16, shape=[2])
    rank.exchange_argument("sample_offset m1", "sample_offset m1+8", "")


@edit("replicas_dropout", "P0637", "draws its dropout by something else than a sample's position")
def position_copied_before_dropout(bundle: Bundle):
    """Dropout draws by a copy of a position, that of microbatch 0 in microbatch 1: both have the same masks."""
    program = bundle.programs["all/4.F.b2"]
    copied = f"workspace+{program['workspace_bytes']} i64[1]"
    program["workspace_bytes"] += 64
    for item in program["calls"]:
        item["in"] = [copied if operand == "sample_offset i64[1]" else operand for operand in item["in"]]
    give_workspace(bundle, program["workspace_bytes"])
    put(program["calls"], [call("copy", [copied], ["sample_offset i64[1]"])], before=program["calls"][0])
    bundle.ranks[0].exchange_argument("sample_offset m1", "sample_offset m0", "all/4.F m1")


@edit("replicas_dropout", "P0637", "draws its dropout for another sample than its first")
def dropout_of_scattered_samples(bundle: Bundle):
    """The microbatches of a rank exchange their second samples: masks are drawn for those after the first."""
    for rank in bundle.ranks:
        for item in list(rank["inputs"]):
            other = item["first"] + (4 if item["in"].endswith("m0") else -4)
            put(rank["inputs"], [{"input": item["input"], "first": other + 1, "count": 1, "in": f"{item['in']}+48"}], after=item)
            item["count"] = 1


@edit("one_device", "P0637", 'rank 0 has "seed_step" in "const arange", a buffer of another class')
def seed_and_step_over_constant(bundle: Bundle):
    """The executor writes seed and step over a constant that forwards read."""
    bundle.ranks[0].add_header("seed_step", "const arange", before="learning_rate")


@edit("table", "P0637", 'reads a part of something where "div_2" should be')
def number_of_the_step_read_beside(bundle: Bundle):
    """Forwards read the second half of a number of the step and the first half of its copy."""
    rank = bundle.ranks[0]
    bundle.add_program("copy.it", [slot("x", "input", 72, "read"), slot("y", "output", 72, "write")], [call("copy", ["y f32[18]"], ["x f32[18]"])])
    only(rank["buffers"], buffer="step div_2").update(bytes=144, shape=[36])
    rank["offsets"]["step div_2"] = rank["arena_bytes"]
    rank["arena_bytes"] = bundle.manifest["ranks"][0]["arena_bytes"] = rank["arena_bytes"] + 192
    rank.exchange_argument("step div_2", "step div_2+36", "all.F")
    rank.add_run("copy.it", ["step div_2", "step div_2+72"], after=rank.instruction(run="all.N.b2"))
