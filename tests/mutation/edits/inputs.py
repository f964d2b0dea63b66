"""Samples that go where no samples should be, or are other samples than the model takes."""
from edits.bundle import Bundle, edit, only, put


@edit("one_device", "P0637", 'its samples go into "param all/lm_head.weight", which is not for inputs')
def samples_over_parameter(bundle: Bundle):
    """The labels of a sample are loaded over a parameter, too."""
    inputs = bundle.ranks[0]["inputs"]
    put(inputs, [{"input": "labels", "first": 0, "count": 1, "in": "param all/lm_head.weight+832"}], before=inputs[0])


@edit("one_device", "P0641", "the manifest says that a sample of an input is smaller than one of the model")
def half_samples(bundle: Bundle):
    """A sample is half of what the model takes for one, and a step has 16 of them."""
    bundle.manifest["batch"] = 16
    for item in bundle.manifest["inputs"]:
        item["sample_shape"] = [3]
    for item in bundle.ranks[0]["inputs"]:
        item["count"] = 16
    for program in bundle.programs.values():
        if "of" in program:
            program["of"]["samples"] = 16


@edit("replicas", "P0637", "and its program is for 2")
def last_sample_left_out(bundle: Bundle):
    """A step has 7 samples; the program of the last piece reads zeros for its second."""
    bundle.manifest["batch"] = 7
    for rank in bundle.ranks:
        for item in rank["inputs"]:
            if item["first"] == 6:
                item["count"] = 1


NOT_WHOLE = 'reads a part of "positions", which has no samples'


@edit("table", "P0637", NOT_WHOLE)
def table_read_beside(bundle: Bundle):
    """What has no samples is read from its second row on, to beyond its end."""
    rank = bundle.ranks[0]
    only(rank["buffers"], buffer="positions").update(bytes=160, shape=[])
    rank.exchange_argument("positions", "positions+16", "all.F")
    rank["offsets"]["positions"] = 1 << 16


@edit("table", "P0637", NOT_WHOLE)
def table_rotated(bundle: Bundle):
    """What has no samples is loaded twice and read from the middle on."""
    rank = bundle.ranks[0]
    only(rank["buffers"], buffer="positions").update(bytes=192, shape=[])
    rank["inputs"].append({"input": "positions", "first": 0, "count": 0, "in": "positions+96"})
    rank.exchange_argument("positions", "positions+48", "all.F")
    rank["offsets"]["positions"] = 1 << 16
