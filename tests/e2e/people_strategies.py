"""The strategies under which what_people_write.py trains its models."""
import json

BATCH, LR = 8, 0.1


def strategy(form, batch=BATCH):
    if isinstance(form, str):
        return form
    split = f"directives:\n  - {{op: split, num_microbatches: {form}}}\n" if form > 1 else ""
    return f"piper: 1\nmodel: {{batch: {batch}}}\n{split}optimizer: {{sgd: {{lr: {LR}}}}}\n"


def family(name, microbatches=2, stages=2):
    starts = ["a", "b", "c", "d"][:stages]
    return (f"piper: 1\nmodel: {{batch: {BATCH}}}\nannotate:\n  - {{tag: PP, starts: {json.dumps(starts)}}}\n"
            f"schedule: {{family: {name}, microbatches: {microbatches}}}\noptimizer: {{sgd: {{lr: {LR}}}}}\n")


REPLICAS = (f"piper: 1\nmodel: {{batch: {BATCH}}}\ndirectives:\n  - {{op: split, num_microbatches: 2}}\n"
            f"  - {{op: place, filter: {{}}, devices: [0, 1]}}\n  - {{op: replicate, filter: {{}}, devices: [0, 1]}}\n"
            f"optimizer: {{sgd: {{lr: {LR}}}}}\n")


def columns(microbatches, *more):
    shards = "".join(f"  - {{op: shard, filter: {{}}, dim: {dim}, devices: [0, 1]}}\n" for dim in ("column", *more))
    return (f"piper: 1\nmodel: {{batch: {BATCH}}}\ndirectives:\n  - {{op: split, num_microbatches: {microbatches}}}\n{shards}"
            f"optimizer: {{sgd: {{lr: {LR}}}}}\n")


def stages_over_places(*stages, recomputed=False):
    """A pipeline of stages, each given as groups of devices that share samples and the dimensions that these divide."""
    lines = []
    for stage, (groups, dims) in enumerate(stages):
        op, devices = "place" if len(groups) == 1 else "replicate", sum(groups, [])
        lines.append(f"{{op: {op}, filter: {{PP: {stage}}}, devices: {devices}}}")
        lines += [f"{{op: shard, filter: {{PP: {stage}}}, dim: {dim}, over: {groups}}}" for dim in dims]
    lines += ['{op: recompute, filter: {PP: "*"}}'] * recomputed
    listed = "".join(f"  - {line}\n" for line in lines)
    return family("1f1b").replace("schedule:", f"directives:\n{listed}schedule:")


def two_on_one_device(microbatches):
    placed = "".join(f"  - {{op: place, filter: {{PP: {stage}}}, devices: [0]}}\n" for stage in (0, 1))
    return (f"piper: 1\nmodel: {{batch: {BATCH}}}\nannotate:\n  - {{tag: PP, starts: [a, b]}}\ndirectives:\n"
            f"  - {{op: split, num_microbatches: {microbatches}}}\n{placed}optimizer: {{sgd: {{lr: {LR}}}}}\n")


# The third microbatch is run before the second.
THIRD_FIRST = (f"piper: 1\nmodel: {{batch: {BATCH}}}\nper_microbatch: [norm]\ndirectives:\n  - {{op: split, num_microbatches: 4}}\n"
               f"  - {{op: order, filters: [[{{MB: 2, PASS: F}}], [{{MB: 1, PASS: F}}]]}}\noptimizer: {{sgd: {{lr: {LR}}}}}\n")

# Pieces of one sample in the first stage, and of two in the second.
FEWER_IN_FIRST = (f"piper: 1\nmodel: {{batch: {BATCH}}}\nannotate:\n  - {{tag: PP, starts: [a, b]}}\ndirectives:\n"
                  "  - {op: replicate, filter: {PP: 0}, devices: [0, 1, 2, 3]}\n  - {op: replicate, filter: {PP: 1}, devices: [4, 5]}\n"
                  f"schedule: {{family: 1f1b, microbatches: 2}}\noptimizer: {{sgd: {{lr: {LR}}}}}\n")
