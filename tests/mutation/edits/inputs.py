"""Samples that go where no samples should be, or are other samples than the model takes."""
from edits.bundle import Bundle, edit, put


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
