"""Evaluations that change the training, or measure something else."""
from edits.bundle import Bundle, buffer, call, edit, only, put, slot
from edits.kept_tensors import FAR, says


@edit("replicas_evaluated", "P0636", 'the evaluation: rule 8: "loss", which rank 0 reports, holds "loss" as "loss 1"')
def mean_reported_twice(bundle: Bundle):
    """A mean counts twice in what an evaluation reports."""
    rank = bundle.evaluation.ranks[0]
    rank["means"].append(only(rank["means"], sum="loss"))


@edit("replicas_evaluated", "P0637", 'its samples go into "param all/1/wpe.weight", which is not for inputs')
def evaluation_loads_over_parameter(bundle: Bundle):
    """An evaluation loads the labels of a sample over a parameter."""
    inputs = bundle.evaluation.ranks[0]["inputs"]
    put(inputs, [{"input": "labels", "first": 0, "count": 1, "in": "param all/1/wpe.weight"}], before=inputs[0])


@edit("replicas_evaluated", "P0637", 'rank 0 has "learning_rate" in "optimizer_step", a buffer of another class')
def evaluation_sets_rate_over_step(bundle: Bundle):
    """Before an evaluation the executor writes the rate over the training's number of the optimizer's step."""
    for trained, rank in zip(bundle.ranks, bundle.evaluation.ranks):
        rank.add_header("learning_rate", "optimizer_step", before="streams")
        rank.add_buffer(only(trained["buffers"], buffer="optimizer_step"), trained["offsets"]["optimizer_step"])


def add_copy(bundle: Bundle, kind: str, new: dict, tensor: str):
    """Rank 0 has a copy of a tensor that no step updates, which is placed in training and in evaluations."""
    for part in bundle.parts:
        rank = part.ranks[0]
        rank.add_buffer(new, FAR)
        placement = {"tensor": tensor, "kind": kind, "dtype": new["dtype"], "shape": new["shape"], "in": "stale"}
        put(rank["placements"], [placement], before=rank["placements"][0])


@edit("running_statistics_evaluated", "P0638", says('value of "norm.running_mean"', "stale"))
def statistic_evaluated_from_copy(bundle: Bundle):
    """An evaluation reads a copy of a running statistic that no step updates."""
    add_copy(bundle, "state", buffer("stale", "state", 24, "f32", [6]), "norm.running_mean")
    bundle.evaluation.ranks[0].exchange_argument("state norm.running_mean", "stale", "")


@edit("gpipe_evaluated", "P0638", says('value of "h.1.out.weight"', "stale"))
def parameter_evaluated_from_copy_of_other_stage(bundle: Bundle):
    """In an evaluation the first stage sends a copy of a parameter that no step updates to the second, which uses it."""
    shape, size = [8, 16], 512
    add_copy(bundle, "value", buffer("stale", "parameter", size, "f32", shape), "h.1.out.weight")
    first, second = bundle.evaluation.ranks
    send, receive = first.first("send"), second.first("recv")
    put(first["instructions"], [{**send, "send": "stale", "count": 128}], before=first["instructions"][0])
    put(second["instructions"], [{**receive, "recv": "got", "count": 128}], before=second["instructions"][0])
    second.add_buffer(buffer("got", "arena", size, "f32", shape), second["arena_bytes"])
    second["arena_bytes"] += size
    bundle.evaluation.manifest["ranks"][1]["arena_bytes"] += size
    used = [item["slot"] for item in bundle.evaluation.programs["PP1.F.b2"]["slots"]].index("h.1.out.weight")
    for items in second["arguments"]:
        if items["args"].startswith("PP1.F m"):
            items["in"][used] = "got"


@edit("gpipe_evaluated", "P0636", 'rule 8: "loss count", which rank 0 reports, holds "loss count" as "loss"')
def count_reported_as_sum(bundle: Bundle):
    """An evaluation reports what its loss is divided by as the loss, and divides it by the loss."""
    mean = bundle.evaluation.ranks[0]["means"][0]
    mean["sum"], mean["count"] = mean["count"], mean["sum"]


def last_forward(bundle: Bundle) -> list[dict]:
    """The calls that make the loss of an evaluation."""
    return bundle.evaluation.programs["PP1.F.b2"]["calls"]


@edit("gpipe_evaluated", "P0641", 'the difference begins at program "PP1.F.b2" call 7 (gelu')
def evaluation_of_other_activation(bundle: Bundle):
    """An evaluation approximates the activation, which the training does not."""
    only(last_forward(bundle), call="gelu")["attrs"]["approximate"] = "tanh"


@edit("gpipe_evaluated", "P0641", 'the difference begins at program "PP1.F.b2" call 13 (cross_entropy_sum')
def evaluation_ignores_token(bundle: Bundle):
    """An evaluation leaves a token out that the training learns."""
    for name in ("cross_entropy_count", "cross_entropy_sum"):
        only(last_forward(bundle), call=name)["attrs"]["ignore_index"] = 3


@edit("gpipe_evaluated", "P0641", 'adds to "loss count" what the model does not')
def evaluation_counts_loss(bundle: Bundle):
    """The loss of an evaluation is divided by itself."""
    only(last_forward(bundle), out=["loss count f32[]"])["in"] = only(last_forward(bundle), out=["loss f32[]"])["in"]


@edit("gpipe_evaluated", "P0641", 'the difference begins at program "PP1.F.b2" call 5 (layer_norm')
def evaluation_exchanges_parameters(bundle: Bundle):
    """Two normalisations of an evaluation read one another's weights."""
    norms = [item["in"] for item in last_forward(bundle) if item["call"] == "layer_norm"]
    norms[1][1:], norms[2][1:] = norms[2][1:], norms[1][1:]


@edit("replicas_evaluated", "P0639", "the evaluation is reported by rank 1, its training by rank 0")
def evaluation_reported_by_other_rank(bundle: Bundle):
    """The rank that reports what an evaluation measured is another than the one that writes the log."""
    bundle.evaluation.manifest["reporting_rank"] = 1


@edit("dropout_evaluated", "P0639", 'sets "sample_offset m1" before it runs, and its training another buffer')
def evaluation_sets_rate_over_position(bundle: Bundle):
    """Before an evaluation the executor writes the rate over the position by which the training draws its dropout."""
    for trained, rank in zip(bundle.ranks, bundle.evaluation.ranks):
        rank.add_header("learning_rate", "sample_offset m1", before="streams" if rank.spelt_out else "communicators")
        if rank.spelt_out:
            rank.add_buffer(only(trained["buffers"], buffer="sample_offset m1"), trained["offsets"]["sample_offset m1"])


@edit("replicas_evaluated", "P0636", 'nobody reports "loss count", which is added up')
def mean_without_its_count(bundle: Bundle):
    """An evaluation does not divide its loss by the count, which a program reads for nothing."""
    part = bundle.evaluation
    part.add_program("all/7.C.b2", [{"slot": "loss count", "role": "gradient", "holds": "count", "bytes": 4, "access": "read"},
                                    slot("negated", "output", 4, "write")], [call("neg", ["negated f32[]"], ["loss count f32[]"])])
    for rank in part.spelt_out:
        count, last = rank["means"][0].pop("count"), rank["instructions"][-1]
        rank.add_buffer(buffer("negated", "gradient", 4, "f32", []), 1 << 18)
        rank.add_run("all/7.C.b2", [count, "negated"], after=last)
        rank["instructions"][-1]["stream"] = last["stream"]


@edit("replicas_evaluated", "P0639", "the evaluation is of other tensors than its training")
def evaluation_of_a_turned_weight(bundle: Bundle):
    """An evaluation takes a weight for one of another shape."""
    shape = only(bundle.evaluation.manifest["tensors"], tensor="wpe.weight")["shape"]
    shape.reverse()
