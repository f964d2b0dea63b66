"""The table of the matrix: what is combined with what. compositions.py trains every row against one device and PyTorch.

A row says which model is cut where, which devices each stage has, the schedule, what is replicated and how, and which
further directives and keys its strategy has; `strategy` makes the file from it.
"""
from __future__ import annotations

import dataclasses

BATCH = 16
FOUR, TWO, THREE = ("h.0", "h.1", "h.2", "h.3"), ("h.0", "h.2"), ("h.0", "h.1", "h.3")
LEVELS = {"dp": {}, "optimizer": {"shard_optimizer": True}, "grads": {"shard_grads": True}, "params": {"shard_params": True}}
OPTIMIZERS = {"adamw": {"lr": 2e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}, "sgd": {"lr": 0.1, "momentum": 0.9}}


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    model: str
    starts: tuple[str, ...] = ()             # modules where stages begin; empty: one region
    groups: tuple[tuple[int, ...], ...] = ()  # devices of each stage; empty: the family places on `ranks`
    ranks: tuple[tuple[int, ...], ...] = ()
    family: str | None = None
    microbatches: int = 1
    replicate: dict = dataclasses.field(default_factory=dict)
    experts: tuple | None = None             # `devices` of a shard per stage that has experts: {stage: devices} as pairs
    places: int = 1                          # so many devices of a stage, one after the other, share samples and cut weights
    dims: tuple[str, ...] = ("column",)      # what they cut
    more: tuple[dict, ...] = ()              # further directives
    keys: dict = dataclasses.field(default_factory=dict)
    annotate: tuple[dict, ...] | None = None  # instead of `starts`
    fast: bool = False

    @property
    def pieces(self) -> int:
        """Into how many pieces a step's batch is cut: microbatches times replicas."""
        return self.microbatches * max((len(g) for g in self.groups + self.ranks), default=1) // self.places


def strategy(row: Row, optimizer: str) -> dict:
    text: dict = {"piper": 1, "model": {"batch": BATCH}}
    annotate = list(row.annotate or ())
    if row.starts:
        annotate.append({"tag": "PP", "starts": list(row.starts)})
    if row.experts:
        annotate.append({"tag": "EP", "modules": ["*.mlp.experts"]})
    if annotate:
        text["annotate"] = annotate
    staged = bool(row.starts or row.annotate)
    directives: list[dict] = []
    for stage, group in enumerate(row.groups):
        chosen = {"PP": stage} if staged else {}
        directives.append({"op": "place", "filter": chosen, "devices": list(group)})
        if len(group) > 1:
            directives.append({"op": "replicate", "filter": chosen, "devices": list(group), "bucket_size": 0.02} | row.replicate)
    if row.family == "dualpipe" and row.replicate:
        half, last = row.microbatches // 2, len(row.ranks) - 1
        for stage in range(len(row.starts)):
            for devices, first in ((row.ranks[stage], 0), (row.ranks[last - stage], half)):
                directives.append({"op": "place", "filter": {"PP": stage, "MB": f"{first}..{first + half - 1}"}, "devices": list(devices)})
                directives.append({"op": "replicate", "filter": {"PP": stage}, "devices": list(devices), "bucket_size": 0.02} | row.replicate)
    elif row.ranks and row.replicate:
        owner = {}
        ranks = len(row.ranks)
        for stage in range(len(row.starts)):
            v = row.family in ("zb_v", "dualpipev")
            owner[stage] = stage if stage < ranks else (2 * ranks - 1 - stage if v else stage % ranks)
        for stage, rank in owner.items():
            if len(row.ranks[rank]) > 1:
                directives.append({"op": "replicate", "filter": {"PP": stage}, "devices": list(row.ranks[rank]), "bucket_size": 0.02} | row.replicate)
    for region, devices in row.experts or ():
        directives.append({"op": "shard", "filter": region, "devices": devices})
    if row.places > 1:
        over = [list(g[i:i + row.places]) for g in row.groups + row.ranks for i in range(0, len(g), row.places)]
        directives += [{"op": "shard", "filter": {}, "dim": dim, "over": over} for dim in row.dims]
    if row.microbatches > 1 and not row.family:
        directives.append({"op": "split", "num_microbatches": row.microbatches})
    directives += row.more
    if directives:
        text["directives"] = directives
    if row.family:
        text["schedule"] = {"family": row.family, "microbatches": row.microbatches}
        if row.ranks:
            text["schedule"]["ranks"] = [list(r) for r in row.ranks]
    text["optimizer"] = {optimizer: OPTIMIZERS[optimizer]}
    return text | row.keys


def _families() -> list[Row]:
    """Every family on two ranks of two replicas, at every level of sharding: dense, and with experts shared by the replicas."""
    shapes = {"gpipe": (TWO, 2), "1f1b": (TWO, 4), "zero_bubble": (TWO, 2), "interleaved_1f1b": (FOUR, 4),
              "interleaved_zero_bubble": (FOUR, 2), "zb_v": (FOUR, 4), "dualpipev": (FOUR, 4)}
    rows = []
    for number, (family, (starts, microbatches)) in enumerate(shapes.items()):
        for step, (level, fields) in enumerate(LEVELS.items()):
            residency = {"residency": ("use", "microbatch", "step")[number % 3], "prefetch": 1 + number % 3} if level == "params" else {}
            rows.append(Row(f"{family}_{level}", ("dense", "losses", "plain")[(number + step) % 3], starts, ranks=((0, 1), (2, 3)),
                            family=family, microbatches=microbatches, replicate=fields | residency, fast=(number + step) % 4 == 0))
        shared = {"gpipe": "dp", "1f1b": "optimizer", "zero_bubble": "dp", "interleaved_1f1b": "grads",
                  "interleaved_zero_bubble": "dp", "zb_v": "params", "dualpipev": "params"}[family]
        for model, level in (("experts", "dp"), ("slots", shared)):
            # The odd, or the even, of four blocks hold experts.
            held = [1, 3] if model == "experts" else [0, 2]
            stage_of = {b: max(i for i, s in enumerate(starts) if int(s[2:]) <= b) for b in held}
            ranks = ((0, 1), (2, 3))
            v = family in ("zb_v", "dualpipev")
            rank_of = {s: s if s < 2 else (3 - s if v else s % 2) for s in stage_of.values()}
            rows.append(Row(f"{family}_{model}_{level}", model, starts, ranks=ranks, family=family, microbatches=microbatches,
                            replicate=LEVELS[level] or {"bucket_size": 0.02},
                            experts=tuple(({"EP": i}, list(ranks[rank_of[stage_of[b]]])) for i, b in enumerate(held)),
                            fast=family in ("1f1b", "dualpipev") and model == "experts"))
    return rows


_TAIL = {"op": "recompute", "filter": {"PP": "*"}}
_REPEAT_SOME = {"op": "recompute", "filter": {"PP": "*", "MB": 0}}


def _by_microbatch(placed: dict[int, tuple[tuple[int, ...], str]], fields: dict) -> tuple[dict, ...]:
    """Directives for regions on several groups: {region: ((devices, microbatches), ..)}."""
    directives = []
    for region, parts in placed.items():
        for devices, microbatches in parts:
            directives.append({"op": "place", "filter": {"PP": region, "MB": microbatches}, "devices": list(devices)})
            directives.append({"op": "replicate", "filter": {"PP": region}, "devices": list(devices), "bucket_size": 0.02} | fields)
    return tuple(directives)


def _sizes() -> list[Row]:
    """Two, three and four ranks, microbatches that fill the pipeline and that do not, stages of unequal cost."""
    return [
        Row("one_device_split", "losses", microbatches=8),
        Row("two_ranks_many", "dense", TWO, ((0,), (1,)), family="1f1b", microbatches=8),
        Row("two_ranks_one", "dense", TWO, ((0,), (1,)), family="1f1b", microbatches=1),
        Row("three_ranks", "dense", THREE, ((0,), (1,), (2,)), family="1f1b", microbatches=4, fast=True),
        Row("three_ranks_few", "losses", THREE, ((2,), (0,), (1,)), family="zero_bubble", microbatches=2),
        Row("three_ranks_gpipe", "experts", THREE, ((0,), (1,), (2,)), family="gpipe", microbatches=2),
        Row("four_ranks", "dense", FOUR, ((0,), (1,), (2,), (3,)), family="zero_bubble", microbatches=8, fast=True),
        Row("four_ranks_few", "slots", FOUR, ((0,), (1,), (2,), (3,)), family="1f1b", microbatches=2),
        Row("four_ranks_data", "dense", TWO, ((0, 1), (2, 3)), microbatches=2),
        Row("four_replicas", "losses", groups=((0, 1, 2, 3),), replicate={"shard_params": True, "residency": "microbatch"}, microbatches=2),
        Row("four_replicas_one_bucket", "dense", groups=((3, 2, 1, 0),), replicate={"shard_grads": True, "bucket_size": 25}, microbatches=4),
        Row("bucket_per_parameter", "dense", groups=((0, 1),), replicate={"shard_optimizer": True, "bucket_size": 0}, microbatches=2),
        Row("params_not_ahead", "losses", TWO, ((0, 1), (2, 3)), family="1f1b", microbatches=2, replicate=LEVELS["params"] | {"prefetch": 0}),
        Row("params_per_parameter", "experts", groups=((0, 1),), replicate={"shard_params": True, "bucket_size": 0, "prefetch": 2}),
        Row("params_vectors_cut", "experts", groups=((0, 1),), replicate={"shard_params": True, "bucket_size": 0, "whole_below": 0}),
        Row("two_way", "dense", TWO, ranks=((0,), (1,)), family="dualpipe", microbatches=4, fast=True),
        Row("two_way_four", "plain", FOUR, ranks=((0,), (1,), (2,), (3,)), family="dualpipe", microbatches=8),
        Row("two_way_experts", "experts", TWO, ranks=((0,), (1,)), family="dualpipe", microbatches=4),
        Row("two_way_buckets", "losses", TWO, ranks=((0,), (1,)), family="dualpipe", microbatches=8, replicate={"bucket_size": 0.02}),
        Row("two_way_optimizer", "dense", TWO, ranks=((1,), (0,)), family="dualpipe", microbatches=4, replicate=LEVELS["optimizer"], fast=True),
        Row("two_way_grads", "losses", TWO, ranks=((0,), (1,)), family="dualpipe", microbatches=8, replicate=LEVELS["grads"]),
        Row("two_way_params", "plain", TWO, ranks=((0,), (1,)), family="dualpipe", microbatches=4, replicate=LEVELS["params"], fast=True),
        Row("two_way_params_microbatch", "experts", TWO, ranks=((0,), (1,)), family="dualpipe", microbatches=4,
            replicate=LEVELS["params"] | {"residency": "microbatch", "prefetch": 2}),
        Row("two_way_params_step", "dense", TWO, ranks=((0,), (1,)), family="dualpipe", microbatches=8,
            replicate=LEVELS["params"] | {"residency": "step"}, more=(_TAIL,)),
        Row("two_way_four_optimizer", "losses", FOUR, ranks=((0,), (1,), (2,), (3,)), family="dualpipe", microbatches=8,
            replicate=LEVELS["optimizer"]),
        Row("two_way_four_grads", "plain", FOUR, ranks=((3,), (1,), (2,), (0,)), family="dualpipe", microbatches=16, replicate=LEVELS["grads"]),
        Row("two_way_four_params", "dense", FOUR, ranks=((0,), (1,), (2,), (3,)), family="dualpipe", microbatches=8, replicate=LEVELS["params"]),
        Row("two_way_groups", "dense", TWO, ranks=((0, 1), (2, 3)), family="dualpipe", microbatches=4, replicate={"bucket_size": 0.02}),
        Row("two_way_groups_optimizer", "experts", TWO, ranks=((0, 1), (2, 3)), family="dualpipe", microbatches=4, replicate=LEVELS["optimizer"]),
        Row("two_way_groups_grads", "dense", TWO, ranks=((0, 1), (2, 3)), family="dualpipe", microbatches=8, replicate=LEVELS["grads"], fast=True),
        Row("two_way_expert_groups", "experts", TWO, ranks=((0, 1), (2, 3)), family="dualpipe", microbatches=4, replicate=LEVELS["optimizer"],
            experts=(({"EP": "*"}, [[0, 1], [3, 2]]),)),
        Row("two_way_expert_groups_params", "gathered", TWO, ranks=((0, 1), (2, 3)), family="dualpipe", microbatches=4, replicate=LEVELS["params"],
            experts=(({"EP": "*"}, [[0, 1], [2, 3]]),)),
        Row("two_way_groups_params", "losses", TWO, ranks=((0, 1), (2, 3)), family="dualpipe", microbatches=4, replicate=LEVELS["params"]),
        Row("v_on_one_replica", "losses", FOUR, ranks=((1,), (0,)), family="dualpipev", microbatches=8),
        Row("balanced", "losses", groups=((0,), (1,), (2,)), annotate=({"tag": "PP", "stages": 3, "balance": "flops"},), family="1f1b",
            microbatches=4, fast=True),
        Row("balanced_experts", "experts", groups=((0, 1), (2, 3)), annotate=({"tag": "PP", "stages": 2, "balance": "flops"},),
            family="zero_bubble", microbatches=2, replicate=LEVELS["optimizer"]),
    ]


def _groups() -> list[Row]:
    """Neighbours of unequal size, expert groups inside the data group, stages without parameters."""
    quiet = ("h.0", "quiet", "h.2")
    return [
        Row("one_to_two", "dense", TWO, ((0,), (1, 2)), family="1f1b", microbatches=2, fast=True),
        Row("two_to_one", "losses", TWO, ((0, 1), (2,)), family="zero_bubble", microbatches=4, replicate=LEVELS["params"]),
        Row("two_to_four", "dense", TWO, ((0, 1), (2, 3, 4, 5)), family="gpipe", microbatches=2, replicate=LEVELS["grads"]),
        Row("four_to_two", "plain", TWO, ((0, 1, 2, 3), (4, 5)), family="1f1b", microbatches=4, replicate=LEVELS["optimizer"]),
        Row("one_two_four", "losses", THREE, ((0,), (1, 2), (3, 4, 5, 6)), family="1f1b", microbatches=4, fast=True),
        Row("one_to_two_whole", "dense", TWO, ((0,), (1, 2)), replicate=LEVELS["params"]),
        Row("one_to_two_whole_experts", "experts", TWO, ((0,), (1, 2)), fast=True),
        Row("one_to_two_experts", "experts", TWO, ((0,), (1, 2)), family="1f1b", microbatches=2, experts=(({"EP": 1}, [1, 2]),)),
        Row("two_to_four_experts", "experts", TWO, ((0, 1), (2, 3, 4, 5)), family="zero_bubble", microbatches=2,
            experts=(({"EP": 0}, [1, 0]), ({"EP": 1}, [[2, 3], [4, 5]]))),
        Row("expert_groups", "experts", groups=((0, 1, 2, 3),), microbatches=2, experts=(({"EP": "*"}, [[0, 1], [2, 3]]),), fast=True),
        Row("expert_groups_optimizer", "experts", groups=((0, 1, 2, 3),), microbatches=2, replicate=LEVELS["optimizer"],
            experts=(({"EP": "*"}, [[0, 2], [1, 3]]),)),
        Row("expert_groups_grads", "slots", groups=((0, 1, 2, 3),), microbatches=2, replicate=LEVELS["grads"],
            experts=(({"EP": "*"}, [[0, 1], [2, 3]]),)),
        Row("expert_groups_params", "experts", groups=((0, 1, 2, 3),), microbatches=2, replicate=LEVELS["params"],
            experts=(({"EP": "*"}, [[3, 1], [2, 0]]),)),
        Row("an_expert_each", "experts", groups=((0, 1, 2, 3),), experts=(({"EP": "*"}, [0, 1, 2, 3]),), fast=True),
        Row("slots_an_expert_each", "slots", groups=((0, 1, 2, 3),), experts=(({"EP": "*"}, [0, 1, 2, 3]),), microbatches=2),
        Row("gathered_groups", "gathered", groups=((0, 1, 2, 3),), microbatches=2, experts=(({"EP": "*"}, [[0, 1], [2, 3]]),), fast=True),
        Row("gathered_an_expert_each", "gathered", groups=((0, 1, 2, 3),), experts=(({"EP": "*"}, [2, 0, 1, 3]),), replicate=LEVELS["grads"]),
        Row("gathered_pipeline", "gathered", FOUR, ranks=((0, 1), (2, 3)), family="zb_v", microbatches=4, replicate=LEVELS["params"],
            experts=(({"EP": 0}, [2, 3]), ({"EP": 1}, [0, 1]))),
        Row("gathered_slots", "gathered", FOUR, ranks=((0, 1), (2, 3)), family="dualpipev", microbatches=4, replicate=LEVELS["optimizer"],
            experts=(({"EP": 0}, [2, 3]), ({"EP": 1}, [0, 1]))),
        Row("gathered_recompute", "gathered", TWO, ((0, 1), (2, 3)), family="1f1b", microbatches=2, more=(_TAIL,),
            experts=(({"EP": 0}, [0, 1]), ({"EP": 1}, [2, 3]))),
        Row("gathered_whole", "gathered", TWO, ((0,), (1, 2)), family="zero_bubble", microbatches=2, replicate=LEVELS["params"]),
        Row("shard_places", "experts", TWO, ((0,),), microbatches=2, more=({"op": "shard", "filter": {"PP": 1}, "devices": [1, 2]},)),
        Row("slots_alone", "slots", groups=((0, 1),), experts=(({"EP": 1}, [0, 1]),), microbatches=2, replicate=LEVELS["params"]),
        Row("several_groups_grads", "dense", TWO, microbatches=4, more=_by_microbatch(
            {0: (((0,), "0..2"), ((1,), 3)), 1: (((2,), "0..3"),)}, LEVELS["grads"]), fast=True),
        Row("several_groups_params", "losses", TWO, microbatches=4, more=_by_microbatch(
            {0: (((0,), "0..1"), ((1, 2), "2..3")), 1: (((3,), [0, 2, 3]), ((1,), 1))}, LEVELS["params"] | {"prefetch": 2})),
        Row("several_groups_microbatch", "dense", TWO, microbatches=4, more=_by_microbatch(
            {0: (((0,), [0, 2, 3]), ((1, 2), 1)), 1: (((1, 2), "0..3"),)}, LEVELS["params"] | {"residency": "microbatch"})),
        Row("made_of_weights", "shared", TWO, ((0,), (1, 2)), family="1f1b", microbatches=2, fast=True),
        Row("made_of_weights_params", "shared", THREE, ((0, 1, 2, 3), (4, 5), (6,)), family="zero_bubble", microbatches=4,
            replicate=LEVELS["params"]),
        Row("made_of_weights_one_size", "shared", TWO, ((0, 1), (2, 3)), family="1f1b", microbatches=2, replicate=LEVELS["grads"]),
        Row("made_of_weights_two_way", "shared", TWO, ranks=((0,), (1,)), family="dualpipe", microbatches=4, replicate=LEVELS["optimizer"]),
        Row("no_parameters", "dense", quiet, ((0,), (1,), (2,)), family="1f1b", microbatches=4, fast=True),
        Row("no_parameters_split", "losses", quiet, ((0,), (1,), (0,)), microbatches=4),
        Row("no_parameters_replicated", "experts", quiet, ((0, 1), (2, 3), (4, 5)), family="zero_bubble", microbatches=2,
            replicate=LEVELS["params"], experts=(({"EP": 1}, [4, 5]),)),
        Row("same_device_stages", "dense", FOUR, ((0,), (1,), (1,), (0,)), microbatches=4),
    ]


def _extras() -> list[Row]:
    """Recomputed forwards, streams, orders by hand, clipping, rates, frozen parameters, statistics of a piece."""
    def slot(*members):
        return [dict(zip(("PP", "MB", "PASS"), m)) for m in members]

    by_hand = ({"op": "order", "filters": [slot((0, 0, "F")), slot((0, 1, "F")), slot((0, 0, "BI")), slot((0, 1, "BI"), (0, 0, "BW")), slot((0, 1, "BW"))]},
               {"op": "order", "filters": [slot((1, 0, "F")), slot((1, 1, "F"), (1, 0, "B")), slot((1, 1, "B"))]})
    rate = {"lr_schedule": {"warmup": 3, "cosine": {"until": 8, "to": 0.1}}, "clip_grad_norm": 0.5}
    return [
        Row("recompute", "dense", TWO, ((0,), (1,)), family="1f1b", microbatches=4, more=(_TAIL,), fast=True),
        Row("recompute_stage", "losses", FOUR, ranks=((0,), (1,)), family="zb_v", microbatches=4,
            more=({"op": "recompute", "filter": {"PP": [1, 2]}},)),
        Row("recompute_some", "dense", TWO, ((0,), (1,)), family="1f1b", microbatches=4, more=(_REPEAT_SOME,), fast=True),
        Row("recompute_some_params", "losses", TWO, ((0, 1), (2, 3)), family="zero_bubble", microbatches=4, replicate=LEVELS["params"],
            more=({"op": "recompute", "filter": {"PP": 1, "MB": "1..2"}}, {"op": "recompute", "filter": {"PP": 0}})),
        Row("recompute_some_experts", "experts", TWO, ((0, 1), (2, 3)), family="1f1b", microbatches=2, more=(_REPEAT_SOME,),
            experts=(({"EP": 0}, [0, 1]), ({"EP": 1}, [2, 3]))),
        Row("recompute_some_two_way", "plain", TWO, ranks=((0,), (1,)), family="dualpipe", microbatches=4, replicate=LEVELS["params"],
            more=({"op": "recompute", "filter": {"PP": "*", "MB": [0, 3]}},)),
        Row("recompute_some_sizes", "dense", TWO, ((0,), (1, 2)), family="1f1b", microbatches=4, more=(_REPEAT_SOME,)),
        Row("recompute_params", "dense", TWO, ((0, 1), (2, 3)), family="zero_bubble", microbatches=2, replicate=LEVELS["params"], more=(_TAIL,)),
        Row("recompute_experts", "experts", TWO, ((0, 1), (2, 3)), family="1f1b", microbatches=2, more=(_TAIL,),
            experts=(({"EP": 0}, [0, 1]), ({"EP": 1}, [2, 3]))),
        Row("recompute_modules", "dense", TWO, ((0, 1), (2, 3)), family="1f1b", microbatches=2, replicate=LEVELS["params"],
            more=({"op": "recompute", "modules": ["*.mlp"]},), fast=True),
        Row("recompute_layers", "losses", TWO, ((0,), (1,)), family="zero_bubble", microbatches=4, more=({"op": "recompute", "layers": 0.5},)),
        Row("recompute_but_products", "dense", TWO, ((0,), (1,)), family="1f1b", microbatches=4,
            more=({"op": "recompute", "ops": "all_but_products", "filter": {"MB": "1..3"}},)),
        Row("recompute_attention", "dense", groups=((0, 1),), microbatches=2, replicate=LEVELS["grads"],
            more=({"op": "recompute", "ops": "attention"},)),
        Row("recompute_slots", "slots", groups=((0, 1),), microbatches=2, experts=(({"EP": "*"}, [0, 1]),),
            more=({"op": "recompute", "filter": {}},)),
        Row("recompute_experts", "experts", groups=((0, 1),), microbatches=2, experts=(({"EP": "*"}, [0, 1]),),
            more=({"op": "recompute", "filter": {"EP": "*"}},), fast=True),
        Row("recompute_but_experts", "gathered", groups=((0, 1),), microbatches=2, experts=(({"EP": "*"}, [0, 1]),), replicate=LEVELS["grads"],
            more=({"op": "recompute", "filter": {"EP": "-"}},), fast=True),
        Row("exchanged_again", "gathered", FOUR, ranks=((0, 1), (2, 3)), family="zb_v", microbatches=4, replicate=LEVELS["params"], more=(_TAIL,),
            experts=(({"EP": 0}, [2, 3]), ({"EP": 1}, [0, 1]))),
        Row("exchanged_again_dense", "experts", FOUR, ranks=((0, 1), (2, 3)), family="dualpipev", microbatches=4, replicate=LEVELS["grads"],
            experts=(({"EP": 0}, [2, 3]), ({"EP": 1}, [0, 1])), more=(_TAIL,), keys=rate),
        Row("exchanged_again_slots", "slots", TWO, ((0, 1), (2, 3)), family="zero_bubble", microbatches=2, replicate=LEVELS["optimizer"],
            experts=(({"EP": 0}, [0, 1]), ({"EP": 1}, [2, 3])), more=(_TAIL,)),
        Row("exchanged_again_two_way", "gathered", TWO, ranks=((0, 1), (2, 3)), family="dualpipe", microbatches=4, replicate=LEVELS["optimizer"],
            experts=(({"EP": "*"}, [[0, 1], [2, 3]]),), more=(_TAIL,)),
        Row("exchanged_again_groups", "gathered", groups=((0, 1, 2, 3),), microbatches=2, replicate=LEVELS["optimizer"],
            experts=(({"EP": "*"}, [[0, 1], [2, 3]]),), more=({"op": "recompute", "filter": {}},), keys=rate, fast=True),
        Row("exchanged_kept", "gathered", groups=((0, 1, 2, 3),), microbatches=2, experts=(({"EP": "*"}, [[0, 1], [2, 3]]),),
            more=({"op": "recompute", "filter": {}, "exchanged": "kept"},)),
        Row("streams", "dense", TWO, ((0,), (1,)), family="zero_bubble", microbatches=4,
            more=({"op": "stream", "filter": {"PASS": "BW"}, "name": "weights"},), fast=True),
        Row("streams_of_experts", "experts", groups=((0, 1),), microbatches=2, experts=(({"EP": "*"}, [0, 1]),),
            more=({"op": "stream", "filter": {"MB": 1}, "name": "other"},)),
        Row("streams_in_slots", "experts", FOUR, ranks=((0, 1), (2, 3)), family="dualpipev", microbatches=4, replicate={"bucket_size": 0.02},
            experts=(({"EP": 0}, [2, 3]), ({"EP": 1}, [0, 1])), more=({"op": "stream", "filter": {"PP": [2, 3]}, "name": "second"},)),
        Row("orders_by_hand", "dense", TWO, ((0,), (1,)), microbatches=2, more=by_hand, fast=True),
        Row("orders_by_hand_params", "losses", TWO, ((0, 1), (2, 3)), microbatches=2, more=by_hand, replicate=LEVELS["params"]),
        Row("head_in_blocks", "dense", TWO, ((0, 1), (2,)), family="1f1b", microbatches=2, keys={"head": {"blocks": 3}}, replicate=LEVELS["params"], fast=True),
        Row("head_in_blocks_zero_bubble", "losses", THREE, ((2,), (0,), (1,)), family="zero_bubble", microbatches=2, keys={"head": {"blocks": 5}}),
        Row("head_in_blocks_recomputed", "dense", groups=((0, 1),), microbatches=2, keys={"head": {"blocks": 4}}, more=({"op": "recompute", "filter": {}},)),
        Row("clip_and_rate", "dense", TWO, ((0, 1), (2,)), family="1f1b", microbatches=2, keys=rate, replicate=LEVELS["params"], fast=True),
        Row("clip_and_rate_grads", "losses", groups=((0, 1, 2, 3),), microbatches=2, keys=rate, replicate=LEVELS["grads"]),
        Row("clip_experts", "experts", TWO, ((0, 1), (2, 3)), family="zero_bubble", microbatches=2, keys=rate,
            experts=(({"EP": 0}, [0, 1]), ({"EP": 1}, [2, 3])), replicate=LEVELS["optimizer"]),
        Row("clip_expert_groups", "experts", groups=((0, 1, 2, 3),), keys=rate, experts=(({"EP": "*"}, [[0, 1], [2, 3]]),),
            replicate=LEVELS["optimizer"]),
        Row("clip_two_way", "dense", TWO, ranks=((0,), (1,)), family="dualpipe", microbatches=4, keys=rate),
        Row("clip_two_way_params", "dense", FOUR, ranks=((0,), (1,), (2,), (3,)), family="dualpipe", microbatches=8, keys=rate,
            replicate=LEVELS["params"]),
        Row("clip_two_way_groups", "experts", TWO, ranks=((0, 1), (2, 3)), family="dualpipe", microbatches=4, keys=rate, replicate=LEVELS["grads"]),
        Row("pieces", "balance", microbatches=4, keys={"per_microbatch": ["*.mlp"]}, fast=True),
        Row("pieces_pipeline", "balance", TWO, ((0, 1), (2, 3)), family="1f1b", microbatches=2, keys={"per_microbatch": ["*.mlp"]},
            replicate=LEVELS["grads"]),
        Row("pieces_experts", "balance", TWO, ((0, 1), (2, 3)), family="zero_bubble", microbatches=2, keys={"per_microbatch": ["*.mlp"]},
            experts=(({"EP": 0}, [0, 1]), ({"EP": 1}, [2, 3]))),
    ]


def _parts_over() -> list[Row]:
    """Parts within groups of replicas, sums across: beside every schedule of the paper, experts, tied weights and clipping."""
    pairs, four, eight = [[0, 1], [2, 3]], ((0, 1, 2, 3),), ((0, 1, 2, 3), (4, 5, 6, 7))
    both = pairs + [[4, 5], [6, 7]]
    rate = {"lr_schedule": {"warmup": 3, "cosine": {"until": 8, "to": 0.1}}, "clip_grad_norm": 0.5}
    return [
        Row("over_pairs_optimizer", "dense", groups=four, microbatches=2, replicate=LEVELS["optimizer"] | {"parts_over": pairs}, fast=True),
        Row("over_pairs_grads", "losses", groups=four, microbatches=2, replicate=LEVELS["grads"] | {"parts_over": pairs}),
        Row("over_pairs_params", "plain", groups=four, microbatches=2, replicate=LEVELS["params"] | {"parts_over": pairs}, keys=rate, fast=True),
        Row("over_columns_params", "dense", groups=((3, 1, 2, 0),), microbatches=4, keys=rate,
            replicate=LEVELS["params"] | {"parts_over": [[0, 2], [1, 3]], "residency": "microbatch"}),
        Row("over_pairs_clip_optimizer", "losses", groups=four, keys=rate, replicate=LEVELS["optimizer"] | {"parts_over": pairs}),
        Row("over_pairs_clip_grads", "dense", TWO, eight, family="zero_bubble", microbatches=2, keys=rate,
            replicate=LEVELS["grads"] | {"parts_over": both}),
        Row("over_pairs_1f1b", "dense", TWO, eight, family="1f1b", microbatches=2, replicate=LEVELS["params"] | {"parts_over": both}, fast=True),
        Row("over_pairs_zb_v", "losses", FOUR, ranks=eight, family="zb_v", microbatches=4,
            replicate=LEVELS["params"] | {"parts_over": both, "residency": "step"}),
        Row("over_pairs_two_way", "dense", TWO, ranks=eight, family="dualpipe", microbatches=4,
            replicate=LEVELS["grads"] | {"parts_over": both}, keys=rate),
        Row("over_pairs_experts", "experts", groups=four, microbatches=2, experts=(({"EP": "*"}, pairs),),
            replicate=LEVELS["params"] | {"parts_over": pairs}, keys=rate),
        Row("over_fours_experts", "experts", groups=((0, 1, 2, 3, 4, 5, 6, 7),), experts=(({"EP": "*"}, both),), keys=rate,
            replicate=LEVELS["params"] | {"parts_over": [[0, 1, 2, 3], [4, 5, 6, 7]]}),
        Row("over_pairs_shared", "shared", TWO, eight, family="1f1b", microbatches=2, replicate=LEVELS["optimizer"] | {"parts_over": both}),
        Row("over_unlike_shared", "shared", TWO, eight, family="1f1b", microbatches=2,
            replicate=LEVELS["params"] | {"parts_over": pairs + [[4, 6], [5, 7]]}),
    ]


def _places() -> list[Row]:
    """Weights cut over devices that share samples: beside every schedule, level of sharding, recomputation, clipping and tied
    weights."""
    pair, fours, eight = ((0, 1),), ((0, 1, 2, 3),), ((0, 1, 2, 3), (4, 5, 6, 7))
    pipeline = ((0, 1), (2, 3))
    rate = {"lr_schedule": {"warmup": 3, "cosine": {"until": 8, "to": 0.1}}, "clip_grad_norm": 0.5}
    both, rows = ("column", "vocabulary"), ("vocabulary",)    # 61 rows, which neither 2 nor 4 devices share equally
    rests, every = ("column", "sequence"), ("column", "sequence", "vocabulary")
    return [
        Row("places_vocab", "dense", groups=pair, places=2, dims=both, keys=rate, fast=True),
        Row("places_vocab_alone", "losses", groups=fours, places=4, dims=rows, microbatches=2),
        Row("places_vocab_four", "plain", groups=fours, places=4, dims=both, keys=rate),
        Row("places_vocab_optimizer", "dense", groups=fours, places=2, dims=both, replicate=LEVELS["optimizer"], keys=rate),
        Row("places_vocab_params", "plain", groups=fours, places=2, dims=both, microbatches=2, replicate=LEVELS["params"], keys=rate),
        Row("places_vocab_1f1b", "dense", TWO, ranks=pipeline, places=2, dims=both, family="1f1b", microbatches=2, keys=rate, fast=True),
        Row("places_vocab_zb_v", "losses", FOUR, ranks=pipeline, places=2, dims=both, family="zb_v", microbatches=4),
        Row("places_vocab_dualpipe", "dense", TWO, ranks=pipeline, places=2, dims=rows, family="dualpipe", microbatches=4),
        Row("places_vocab_1f1b_params", "dense", TWO, ranks=eight, places=2, dims=both, family="1f1b", microbatches=2,
            replicate=LEVELS["params"], keys=rate),
        Row("places_vocab_recompute", "shared", TWO, ranks=pipeline, places=2, dims=both, family="1f1b", microbatches=2, more=(_TAIL,)),
        Row("places", "dense", groups=pair, places=2, fast=True),
        Row("places_one_to_two_experts", "experts", TWO, ((0, 1), (2, 3, 4, 5)), places=2, replicate=LEVELS["params"]),
        Row("places_split", "losses", groups=pair, places=2, microbatches=4),
        Row("places_four", "plain", groups=fours, places=4, microbatches=2),
        Row("places_replicas", "dense", groups=fours, places=2, microbatches=2, fast=True),
        Row("places_replicas_apart", "losses", groups=((3, 1, 0, 2),), places=2, keys=rate),
        Row("places_optimizer", "dense", groups=fours, places=2, replicate=LEVELS["optimizer"], keys=rate, fast=True),
        Row("places_grads", "losses", groups=fours, places=2, microbatches=2, replicate=LEVELS["grads"]),
        Row("places_params", "plain", groups=fours, places=2, microbatches=2, replicate=LEVELS["params"], keys=rate),
        Row("places_gpipe", "dense", TWO, ranks=pipeline, places=2, family="gpipe", microbatches=2),
        Row("places_1f1b", "dense", TWO, ranks=pipeline, places=2, family="1f1b", microbatches=4, fast=True),
        Row("places_zero_bubble", "losses", TWO, ranks=pipeline, places=2, family="zero_bubble", microbatches=4),
        Row("places_interleaved", "dense", FOUR, ranks=pipeline, places=2, family="interleaved_1f1b", microbatches=4),
        Row("places_interleaved_zero_bubble", "plain", FOUR, ranks=pipeline, places=2, family="interleaved_zero_bubble", microbatches=4),
        Row("places_zb_v", "losses", FOUR, ranks=pipeline, places=2, family="zb_v", microbatches=4, keys=rate),
        Row("places_dualpipev", "dense", FOUR, ranks=pipeline, places=2, family="dualpipev", microbatches=4),
        Row("places_dualpipe", "dense", TWO, ranks=pipeline, places=2, family="dualpipe", microbatches=4),
        Row("places_1f1b_replicas", "dense", TWO, ranks=eight, places=2, family="1f1b", microbatches=2, replicate={"bucket_size": 0.02}, fast=True),
        Row("places_1f1b_params", "losses", TWO, ranks=eight, places=2, family="1f1b", microbatches=2, replicate=LEVELS["params"], keys=rate),
        Row("places_zb_v_optimizer", "dense", FOUR, ranks=eight, places=2, family="zb_v", microbatches=4, replicate=LEVELS["optimizer"]),
        Row("places_dualpipev_grads", "plain", FOUR, ranks=eight, places=2, family="dualpipev", microbatches=4, replicate=LEVELS["grads"]),
        Row("places_recompute", "dense", TWO, ranks=pipeline, places=2, family="1f1b", microbatches=2, more=(_TAIL,), fast=True),
        Row("places_recompute_some", "losses", groups=fours, places=2, microbatches=2, more=({"op": "recompute", "filter": {"MB": 0}},)),
        Row("places_shared", "shared", TWO, ranks=pipeline, places=2, family="1f1b", microbatches=2),
        Row("places_experts", "experts", groups=fours, places=2, microbatches=2, experts=(({"EP": "*"}, [[0, 2], [1, 3]]),)),
        Row("places_experts_params", "gathered", groups=fours, places=2, experts=(({"EP": "*"}, [[2, 0], [1, 3]]),), keys=rate,
            replicate=LEVELS["params"]),
        Row("places_experts_pipeline", "slots", TWO, eight, places=2, family="1f1b", microbatches=2, replicate={"bucket_size": 0.02},
            experts=(({"EP": 0}, [[0, 2], [1, 3]]), ({"EP": 1}, [[4, 6], [5, 7]]))),
        Row("places_seq", "losses", groups=pair, places=2, dims=rests, fast=True),
        Row("places_seq_four", "plain", groups=fours, places=4, dims=rests, microbatches=8),
        Row("places_seq_tied", "dense", groups=fours, places=2, dims=rests, microbatches=2, keys=rate),
        Row("places_seq_optimizer", "losses", groups=fours, places=2, dims=rests, replicate=LEVELS["optimizer"], keys=rate, fast=True),
        Row("places_seq_params", "plain", groups=fours, places=2, dims=rests, microbatches=2, replicate=LEVELS["params"], keys=rate),
        Row("places_seq_1f1b", "dense", TWO, ranks=pipeline, places=2, dims=rests, family="1f1b", microbatches=4),
        Row("places_seq_1f1b_params", "losses", TWO, ranks=eight, places=2, dims=rests, family="1f1b", microbatches=2, replicate=LEVELS["params"]),
        Row("places_seq_zb_v", "plain", FOUR, ranks=pipeline, places=2, dims=rests, family="zb_v", microbatches=4, keys=rate),
        Row("places_seq_nested", "plain", TWO, groups=((0, 1), (2, 3, 4, 5)), places=2, dims=rests, microbatches=2),
        Row("places_seq_recompute", "losses", TWO, ranks=pipeline, places=2, dims=rests, family="1f1b", microbatches=2, more=(_TAIL,)),
        Row("places_seq_recompute_params", "plain", TWO, ranks=eight, places=2, dims=rests, family="1f1b", microbatches=2,
            replicate=LEVELS["params"], more=(_TAIL,)),
        Row("places_seq_recompute_zb_v", "plain", FOUR, ranks=pipeline, places=2, dims=rests, family="zb_v", microbatches=4,
            more=({"op": "recompute", "filter": {"PP": "*"}, "ops": "all_but_products"},)),
        Row("places_seq_recompute_dualpipev", "dense", FOUR, ranks=pipeline, places=2, dims=rests, family="dualpipev", microbatches=4,
            more=(_TAIL,), fast=True),
        Row("places_seq_recompute_some", "losses", TWO, ranks=pipeline, places=2, dims=rests, family="zero_bubble", microbatches=4,
            more=(_REPEAT_SOME,)),
        Row("places_all", "dense", groups=pair, places=2, dims=every, keys=rate, fast=True),
        Row("places_all_four", "plain", groups=fours, places=4, dims=every, microbatches=8),
        Row("places_all_params", "dense", groups=fours, places=2, dims=every, microbatches=2, replicate=LEVELS["params"], keys=rate),
        Row("places_all_1f1b", "dense", TWO, ranks=pipeline, places=2, dims=every, family="1f1b", microbatches=4, keys=rate),
        Row("places_heads", "grouped", groups=pair, places=2, microbatches=2, fast=True),
        Row("places_heads_four", "grouped", groups=fours, places=4, keys=rate, fast=True),
        Row("places_heads_seq_four", "grouped", groups=fours, places=4, dims=rests, microbatches=8),
        Row("places_heads_all", "grouped", groups=pair, places=2, dims=every, keys=rate, fast=True),
        Row("places_heads_optimizer", "grouped", groups=fours, places=2, dims=rests, replicate=LEVELS["optimizer"], keys=rate),
        Row("places_heads_params", "grouped", groups=fours, places=2, microbatches=2, replicate=LEVELS["params"], keys=rate),
        Row("places_heads_1f1b", "grouped", TWO, ranks=pipeline, places=2, dims=every, family="1f1b", microbatches=4),
        Row("places_heads_zb_v", "grouped", FOUR, ranks=pipeline, places=2, dims=rests, family="zb_v", microbatches=4, keys=rate),
        Row("places_heads_dualpipev", "grouped", FOUR, ranks=eight, places=4, family="dualpipev", microbatches=4),
        Row("places_heads_recompute", "grouped", TWO, ranks=pipeline, places=2, family="1f1b", microbatches=2, more=(_TAIL,)),
        Row("places_moe", "gathered", groups=pair, places=2, fast=True),
        Row("places_moe_dense", "experts", groups=fours, places=4, microbatches=2),
        Row("places_moe_slots", "slots", groups=pair, places=2, keys=rate),
        Row("places_moe_optimizer", "gathered", groups=fours, places=2, microbatches=2, replicate=LEVELS["optimizer"], keys=rate),
        Row("places_moe_params", "experts", groups=fours, places=2, replicate=LEVELS["params"]),
        Row("places_moe_1f1b", "gathered", TWO, ranks=pipeline, places=2, family="1f1b", microbatches=2, keys=rate),
        Row("places_moe_recompute", "gathered", TWO, ranks=pipeline, places=2, family="1f1b", microbatches=2, more=(_TAIL,)),
        Row("places_moe_seq", "gathered", groups=pair, places=2, dims=rests, fast=True),
        Row("places_moe_seq_four", "experts", groups=fours, places=4, dims=rests, microbatches=8),
        Row("places_moe_seq_grads", "gathered", groups=fours, places=2, dims=rests, replicate=LEVELS["grads"], keys=rate),
        Row("places_moe_seq_1f1b_params", "gathered", TWO, ranks=eight, places=2, dims=rests, family="1f1b", microbatches=2,
            replicate=LEVELS["params"]),
        Row("places_moe_all", "gathered", groups=pair, places=2, dims=every, keys=rate),
        Row("places_moe_all_zb_v", "slots", FOUR, ranks=pipeline, places=2, dims=every, family="zb_v", microbatches=4),
        Row("places_moe_ep", "gathered", groups=fours, places=2, experts=(({"EP": "*"}, [[0, 2], [1, 3]]),), fast=True),
        Row("places_moe_ep_seq", "gathered", groups=fours, places=2, dims=rests, experts=(({"EP": "*"}, [[0, 2], [1, 3]]),), microbatches=2,
            replicate=LEVELS["optimizer"], keys=rate),
        Row("places_moe_ep_pipeline", "gathered", TWO, eight, places=2, dims=every, family="1f1b", microbatches=2, replicate=LEVELS["params"],
            experts=(({"EP": 0}, [[0, 2], [1, 3]]), ({"EP": 1}, [[4, 6], [5, 7]]))),
        Row("places_moe_ep_dense_seq", "experts", groups=fours, places=2, dims=rests, experts=(({"EP": "*"}, [[0, 2], [1, 3]]),), keys=rate,
            fast=True),
        Row("places_moe_ep_dense_pipeline", "experts", TWO, eight, places=2, dims=every, family="1f1b", microbatches=2,
            replicate=LEVELS["params"], experts=(({"EP": 0}, [[0, 2], [1, 3]]), ({"EP": 1}, [[4, 6], [5, 7]]))),
        # Whole experts over all devices of the replicas: each place sends the tokens of its own part.
        Row("places_etp", "gathered", groups=fours, places=2, dims=rests, experts=(({"EP": "*"}, [0, 1, 2, 3]),), keys=rate, fast=True),
        Row("places_etp_one", "gathered", groups=pair, places=2, dims=rests, experts=(({"EP": "*"}, [0, 1]),), microbatches=2, fast=True),
        Row("places_etp_four", "gathered", groups=fours, places=4, dims=every, experts=(({"EP": "*"}, [0, 1, 2, 3]),), microbatches=8, keys=rate),
        Row("places_etp_groups", "gathered", groups=fours, places=2, dims=every, experts=(({"EP": "*"}, [[0, 1], [2, 3]]),), microbatches=2,
            keys=rate),
        Row("places_etp_optimizer", "gathered", groups=fours, places=2, dims=rests, experts=(({"EP": "*"}, [[0, 1], [2, 3]]),),
            replicate=LEVELS["optimizer"], keys=rate),
        Row("places_etp_grads", "gathered", groups=fours, places=2, dims=rests, experts=(({"EP": "*"}, [[0, 1], [2, 3]]),),
            replicate=LEVELS["grads"], microbatches=2),
        Row("places_etp_params", "gathered", groups=((0, 1, 2, 3, 4, 5, 6, 7),), places=2, dims=rests, replicate=LEVELS["params"], keys=rate,
            experts=(({"EP": "*"}, [[0, 1, 2, 3], [4, 5, 6, 7]]),)),
        Row("places_etp_params_all", "gathered", groups=fours, places=2, dims=rests, replicate=LEVELS["params"], microbatches=2,
            experts=(({"EP": "*"}, [2, 3, 0, 1]),)),
        Row("places_etp_1f1b", "gathered", TWO, eight, places=2, dims=rests, family="1f1b", microbatches=2, replicate=LEVELS["params"],
            experts=(({"EP": 0}, [0, 1, 2, 3]), ({"EP": 1}, [4, 5, 6, 7])), keys=rate),
        Row("places_etp_zb_v", "gathered", FOUR, ranks=pipeline, places=2, dims=every, family="zb_v", microbatches=4,
            experts=(({"EP": 0}, [2, 3]), ({"EP": 1}, [0, 1]))),
        Row("places_etp_recompute", "gathered", TWO, pipeline, places=2, dims=rests, family="1f1b", microbatches=2, more=(_TAIL,),
            experts=(({"EP": 0}, [0, 1]), ({"EP": 1}, [2, 3])), fast=True),
        # The same of experts that compute every token.
        Row("places_etp_dense", "experts", groups=fours, places=2, dims=rests, experts=(({"EP": "*"}, [0, 1, 2, 3]),), keys=rate, fast=True),
        Row("places_etp_dense_one", "experts", groups=pair, places=2, dims=rests, experts=(({"EP": "*"}, [0, 1]),), microbatches=2),
        Row("places_etp_dense_four", "experts", groups=fours, places=4, dims=every, experts=(({"EP": "*"}, [0, 1, 2, 3]),), microbatches=8),
        Row("places_etp_dense_groups", "experts", groups=fours, places=2, dims=every, experts=(({"EP": "*"}, [[0, 1], [2, 3]]),),
            microbatches=2, replicate=LEVELS["grads"], keys=rate, fast=True),
        Row("places_etp_dense_params", "experts", groups=((0, 1, 2, 3, 4, 5, 6, 7),), places=2, dims=rests, replicate=LEVELS["params"],
            experts=(({"EP": "*"}, [[0, 1, 2, 3], [4, 5, 6, 7]]),)),
        Row("places_etp_dense_1f1b", "experts", TWO, eight, places=2, dims=rests, family="1f1b", microbatches=2,
            replicate=LEVELS["optimizer"], experts=(({"EP": 0}, [0, 1, 2, 3]), ({"EP": 1}, [4, 5, 6, 7])), keys=rate),
        Row("places_etp_dense_zb_v", "experts", FOUR, ranks=pipeline, places=2, dims=every, family="zb_v", microbatches=4,
            experts=(({"EP": 0}, [2, 3]), ({"EP": 1}, [0, 1]))),
        Row("places_etp_dense_recompute", "experts", TWO, pipeline, places=2, dims=rests, family="1f1b", microbatches=2, more=(_TAIL,),
            experts=(({"EP": 0}, [0, 1]), ({"EP": 1}, [2, 3]))),
        Row("places_bare", "bare", groups=pair, places=2, dims=both, microbatches=2, fast=True),
        Row("places_bare_all", "bare", TWO, ranks=pipeline, places=2, dims=every, family="1f1b", microbatches=4, keys=rate),
        Row("places_over_pairs", "dense", groups=((0, 1, 2, 3, 4, 5, 6, 7),), places=2, microbatches=1, keys=rate,
            replicate=LEVELS["params"] | {"parts_over": [[0, 1, 2, 3], [4, 5, 6, 7]]}),
    ]


ROWS = {row.name: row for row in _families() + _sizes() + _groups() + _extras() + _parts_over() + _places()}
