"""The cases of wrong_inputs.py: what a user gets wrong, by area, in the order in which the page shows them."""
from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable

STRATEGY, MODEL, BUNDLE, LAUNCH, DATA, RUNNING = "Strategies", "Models", "Bundles", "Launches", "Data", "While it runs"


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    area: str
    title: str
    command: str
    files: dict[str, str | bytes] = dataclasses.field(default_factory=dict)
    prepare: Callable | None = None
    masks: tuple[tuple[str, str], ...] = ()     # pattern, what is shown instead
    signal: str = ""
    signal_rank: int | None = None              # of mpirun's; None: the program itself
    meanwhile: Callable | None = None           # done to the desk while the program runs

    @property
    def mpi(self):
        return self.command.startswith("mpirun")


ALL: list[Case] = []

PIPELINE = """\
piper: 1
model: {batch: 8}
annotate:
  - {tag: PP, starts: ["h.0", "h.1"]}
directives:
  - {op: place, filter: {PP: 0}, devices: [0]}
  - {op: place, filter: {PP: 1}, devices: [1]}
schedule: {family: 1f1b, microbatches: 4}
optimizer: {sgd: {lr: 0.1}}
"""
REPLICAS = """\
piper: 1
model: {batch: 8}
directives:
  - {op: place, filter: {}, devices: [0, 1]}
  - {op: replicate, filter: {}, devices: [0, 1]}
optimizer: {sgd: {lr: 0.1}}
"""
SINGLE = """\
piper: 1
model: {batch: 8}
optimizer: {sgd: {lr: 0.1}}
"""

MIX = SINGLE + "run:\n  data:\n    - {path: web.bin, weight: 3}\n    - {path: books, weight: 1}\n"


def edited(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        if old not in text:
            raise AssertionError(f"nothing to replace: {old}")
        text = text.replace(old, new)
    return text


BY_HAND = edited(PIPELINE, ("schedule: {family: 1f1b, microbatches: 4}\n", ""), ("devices: [1]}\n", """\
devices: [1]}
  - {op: split, num_microbatches: 2}
"""))


def strategy(name, title, text, model="tiny_gpt.onnx", flags="", masks=()):
    command = f"piperc {model} --strategy strategy.yaml -o plans {flags}".rstrip()
    ALL.append(Case(name, STRATEGY, title, command, {"strategy.yaml": text}, masks=masks))


# ------------------------------------------------------------------ strategies
strategy("unknown_key", "A key that does not exist", edited(PIPELINE, ("microbatches", "micro_batches")))
strategy("unknown_section", "A section that does not exist", edited(PIPELINE, ("optimizer:", "optimiser:")))
strategy("unknown_directive", "A directive that does not exist", edited(PIPELINE, ("op: place, filter: {PP: 1}", "op: pin, filter: {PP: 1}")))
strategy("not_yaml", "Not valid YAML", edited(PIPELINE, ("devices: [1]}", "devices: [1}")))
strategy("duplicate_key", "A key twice", PIPELINE + "model: {batch: 16}\n")
strategy("wrong_type", "A word in place of a number", edited(PIPELINE, ("batch: 8", "batch: eight")))
strategy("tag_typo", "A misspelt tag in a filter", edited(BY_HAND, ("filter: {PP: 1}", "filter: {P: 1}")))
strategy("tag_typo_beside_schedule", "A misspelt tag in a filter, with a schedule", edited(PIPELINE, ("filter: {PP: 1}", "filter: {P: 1}")))
strategy("stage_missing", "A stage that does not exist", edited(BY_HAND, ("filter: {PP: 1}", "filter: {PP: 2}")))
strategy("stage_missing_beside_schedule", "A stage that does not exist, with a schedule", edited(PIPELINE, ("filter: {PP: 1}", "filter: {PP: 2}")))
strategy("pass_typo", "A pass that does not exist",
         edited(BY_HAND, ("num_microbatches: 2}\n", "num_microbatches: 2}\n  - {op: order, filters: [[{PP: 0, MB: 0, PASS: F}], [{PP: 0, MB: 0, PASS: BACKWARD}]]}\n")))
strategy("microbatch_missing", "A microbatch that does not exist",
         edited(BY_HAND, ("num_microbatches: 2}\n", "num_microbatches: 2}\n  - {op: order, filters: [[{PP: 0, MB: 0, PASS: F}], [{PP: 0, MB: 2, PASS: F}]]}\n")))
strategy("glob_matches_nothing", "A module path that the model does not have", edited(PIPELINE, ('"h.1"', '"layers.1"')))
strategy("no_decay_matches_nothing", "no_decay for the norms of another model",
         edited(SINGLE, ("sgd: {lr: 0.1}", 'adamw: {lr: 0.1, no_decay: ["*norm*"]}')))
strategy("columns_of_muon", "tensor parallelism where Muon updates all matrices",
         "model: {batch: 8}\noptimizer: {muon: {lr: 0.02, rest: {adamw: {lr: 0.001}}}}\n"
         "directives:\n  - {op: shard, filter: {}, dim: column, over: [[0, 1]]}\n")
strategy("no_decay_in_part", "no_decay for some norms",
         edited(SINGLE, ("sgd: {lr: 0.1}", 'adamw: {lr: 0.1, no_decay: ["*.ln1", "*norm*"]}')))
strategy("per_microbatch_matches_nothing", "per_microbatch of a module that the model lacks", SINGLE + 'per_microbatch: ["*.router"]\n')
strategy("freeze_in_part", "A glob of freeze that matches nothing", edited(SINGLE, ("batch: 8", 'batch: 8, freeze: ["*.wte", "h.7"]')))
strategy("batch_does_not_divide", "A batch that microbatches do not divide", edited(PIPELINE, ("microbatches: 4", "microbatches: 3")))
strategy("batch_does_not_divide_replicas", "A batch that replicas do not divide", edited(REPLICAS, ("batch: 8", "batch: 9")))
strategy("group_without_replicate", "A group of devices without replicate",
         edited(BY_HAND, ("devices: [0]", "devices: [0, 1]"), ("devices: [1]", "devices: [2, 3]")))
strategy("place_and_replicate_differ", "place and replicate name different devices",
         edited(REPLICAS, ("replicate, filter: {}, devices: [0, 1]", "replicate, filter: {}, devices: [0, 2]")))
strategy("groups_do_not_nest", "Stages on two and three devices", edited(
    PIPELINE, ("devices: [0]}\n", "devices: [0, 1]}\n  - {op: replicate, filter: {PP: 0}, devices: [0, 1]}\n"),
    ("devices: [1]}\n", "devices: [2, 3, 4]}\n  - {op: replicate, filter: {PP: 1}, devices: [2, 3, 4]}\n"), ("batch: 8", "batch: 24")))
strategy("order_against_data", "An order that contradicts data", edited(BY_HAND, ("num_microbatches: 2}\n", """\
num_microbatches: 2}
  - {op: order, filters: [[{PP: 0, MB: 0, PASS: F}], [{PP: 0, MB: 0, PASS: B}], [{PP: 0, MB: 1, PASS: F}]]}
  - {op: order, filters: [[{PP: 1, MB: 1, PASS: F}], [{PP: 1, MB: 0, PASS: F}]]}
""")))
strategy("order_of_other_devices", "An order of passes on different devices without a data dependence", edited(BY_HAND, ("num_microbatches: 2}\n", """\
num_microbatches: 2}
  - {op: order, filters: [[{PP: 1, MB: 0, PASS: F}], [{PP: 0, MB: 1, PASS: F}]]}
""")))
strategy("order_weights_before_input", "The weight half of a backward before its input half", edited(BY_HAND, ("num_microbatches: 2}\n", """\
num_microbatches: 2}
  - {op: order, filters: [[{PP: 0, MB: 0, PASS: BW}], [{PP: 0, MB: 0, PASS: BI}]]}
""")))
strategy("order_without_weights_half", "Half of a backward without the other",
         edited(BY_HAND, ("num_microbatches: 2}\n", """\
num_microbatches: 2}
  - {op: order, filters: [[{PP: 0, MB: 0, PASS: F}], [{PP: 0, MB: 0, PASS: BI}]]}
""")))
strategy("shard_a_dense_region", "shard over a region without experts", edited(REPLICAS, ("op: replicate", "op: shard")))
strategy("two_splits", "Two splits", edited(BY_HAND, ("num_microbatches: 2}\n", "num_microbatches: 2}\n  - {op: split, num_microbatches: 4}\n")))
strategy("split_beside_schedule", "split together with a schedule", edited(PIPELINE, ("devices: [1]}\n", "devices: [1]}\n  - {op: split, num_microbatches: 4}\n")))
strategy("order_beside_schedule", "order together with a schedule", edited(PIPELINE, ("devices: [1]}\n", """\
devices: [1]}
  - {op: order, filters: [[{PP: 0, MB: 0, PASS: F}], [{PP: 0, MB: 1, PASS: F}]]}
""")))
strategy("wrong_family", "A schedule that does not exist", edited(PIPELINE, ("family: 1f1b", "family: 1fb1")))
strategy("microbatches_missing", "A schedule without its microbatches", edited(PIPELINE, (", microbatches: 4", "")))
strategy("family_precondition", "A number of microbatches that the schedule does not support", edited(PIPELINE, ("family: 1f1b, microbatches: 4", "family: dualpipe, microbatches: 1")))
strategy("mix_weight", "A data source with the weight 0", edited(MIX, ("weight: 1}", "weight: 0}")))
strategy("documents_without_end", "Positions in documents without document_end",
         edited(SINGLE, ("batch: 8", "batch: 8, inputs: {input_ids: positions, labels: tokens}")))
strategy("unused_rank", "A rank without work", edited(PIPELINE, ("devices: [1]", "devices: [2]")))
strategy("repeated_device", "A device twice in a group", edited(REPLICAS, ("devices: [0, 1]", "devices: [0, 0]")))
strategy("negative_device", "A negative device", edited(PIPELINE, ("devices: [1]", "devices: [-1]")))
strategy("one_stage_unplaced", "A stage without a place", edited(PIPELINE, ("  - {op: place, filter: {PP: 1}, devices: [1]}\n", "")))
strategy("two_places", "Two places for one stage", edited(BY_HAND, ("filter: {PP: 1}", "filter: {}")))
strategy("no_optimizer", "No optimizer", edited(PIPELINE, ("optimizer: {sgd: {lr: 0.1}}\n", "")))
strategy("no_batch", "No batch", edited(SINGLE, ("model: {batch: 8}\n", "")))
strategy("loss_unknown", "A loss that the model does not have", edited(SINGLE, ("batch: 8", "batch: 8, loss: los")))
strategy("dimension_unbound", "A dimension of the model without a value", SINGLE, "tiny_gpt_dropout.onnx")
strategy("dimension_unknown", "A dimension that the model does not have", edited(SINGLE, ("batch: 8", "batch: 8, dims: {T: 6}")))
strategy("override_typo", "--set with a key that does not exist", SINGLE, flags="--set optimizer.sgd.rate=0.2")
strategy("override_without_value", "--set without a value", SINGLE, flags="--set model.batch")
strategy("memory_limit", "More memory than --memory-limit allows", PIPELINE, flags="--memory-limit 20000")
ALL.append(Case("flag_glob", STRATEGY, "--print-ir-after with a glob that matches no pass", "piperc tiny_gpt.onnx --strategy strategy.yaml -o plans --print-ir-after=insert",
                {"strategy.yaml": SINGLE}))
ALL.append(Case("flag_memory_limit", STRATEGY, "A memory limit below zero", "piperc tiny_gpt.onnx --strategy strategy.yaml -o plans --memory-limit -5",
                {"strategy.yaml": SINGLE}))
ALL.append(Case("strategy_missing", STRATEGY, "A strategy file that does not exist", "piperc tiny_gpt.onnx --strategy strategies/pp2.yaml -o plans"))
ALL.append(Case("strategy_not_given", STRATEGY, "No strategy", "piperc tiny_gpt.onnx -o plans"))
ALL.append(Case("flag_unknown", STRATEGY, "A flag that does not exist", "piperc tiny_gpt.onnx --strategy strategy.yaml --out plans"))


def search(name, title, flags="", text=SINGLE):
    """On two ranks that have a megabyte each, which is more than the model needs."""
    target = """\
name: small
device: cpu
ranks_per_node: 2
flops: {f32: 1.0e9}
memory_bytes: 1.0e6
memory_bytes_per_second: 4.0e9
efficiency: {product: 0.8, grouped_product: 0.8, attention: 0.5, memory: 0.9}
kernel_us: 0.2
host_us: 0
inside_node: {latency_us: 1, bytes_per_second: 2.0e9}
between_nodes: {latency_us: 2, bytes_per_second: 1.0e9, ports_per_node: 1}
"""
    command = f"piperc tiny_gpt.onnx --strategy base.yaml --search found --target ./small.yaml {flags}".rstrip()
    ALL.append(Case(name, STRATEGY, title, command, {"base.yaml": text, "small.yaml": target}))


search("search_from_a_schedule", "A search from a strategy that has a schedule", text=SINGLE + "schedule: {family: 1f1b, microbatches: 2}\n")
search("search_fits_nothing", "A search where nothing fits", "--memory-limit 10KB")
search("search_fixes_no_choice", "--fix with a choice that does not exist", "--fix pipeline=2")


# ------------------------------------------------------------------ models
def model(name, title, file, text=SINGLE, prepare=None, flags=""):
    ALL.append(Case(name, MODEL, title, f"piperc {file} --strategy strategy.yaml -o plans {flags}".rstrip(), {"strategy.yaml": text}, prepare,
                    ((r"wrong_cases\.py:\d+", "model.py:12"),)))


def export_outside_the_set(desk):
    import logging

    import torch
    import harness  # noqa: F401  (tools/ on the path)
    import piper_export
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)

    class Products(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(9, 9)

        def forward(self, x, target):
            y = self.layer(x).scatter_reduce(1, torch.zeros(1, 9, dtype=torch.int64).expand(x.shape[0], 9), x, "prod").sum(1)
            return torch.nn.functional.mse_loss(y, target)

    torch.manual_seed(0)
    piper_export.export(Products(), {"x": torch.randn(4, 9), "target": torch.randn(4)}, desk.work / "products.onnx")


def archive(source, **changes):
    """Writes model.pt2: `source` with the text of entries changed, once or several times, or without them (None)."""
    def prepare(desk):
        import zipfile
        with zipfile.ZipFile(desk.work / source) as old, zipfile.ZipFile(desk.work / "model.pt2", "w") as new:
            for name in old.namelist():
                change = changes.get(name.rsplit("/", 1)[1].replace(".", "_"), ())
                if change is not None:
                    content = old.read(name)
                    edits = change if change and isinstance(change[0], tuple) else (change,) if change else ()
                    new.writestr(name, edited(content.decode(), *edits).encode() if edits else content)
    return prepare


def saved(make, file="model.pt2"):
    """Writes it by torch.export.save: what the user's own program would make."""
    def prepare(desk):
        import warnings

        import torch

        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        inputs = {"x": torch.randn(4, 8), "target": torch.randn(4, 8)}
        batch = torch.export.Dim("B", min=2)
        program = torch.export.export(make(torch).train(), (), kwargs=inputs, dynamic_shapes={name: {0: batch} for name in inputs})
        torch.export.save(program, desk.work / file)
    return prepare


def average(torch):
    class Average(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 8)
            self.register_buffer("ema", torch.zeros(8))

        def forward(self, x, target):
            y = self.layer(x)
            self.ema.mul_(0.9).add_(0.1 * y.detach().mean(0))
            return torch.nn.functional.mse_loss(y - self.ema, target)
    return Average()


def in_f64(torch):
    class InF64(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 8).double()

        def forward(self, x, target):
            return torch.nn.functional.mse_loss(self.layer(x.double()).float(), target)
    return InF64()


def expanded(torch):
    class Expanded(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 8)

        def forward(self, x, target):
            y = self.layer(x)
            first = torch.zeros(1, 8)
            first.expand(4, 8)[1].add_(1)
            return torch.nn.functional.mse_loss(y + first, target)
    return Expanded()


def recurrent(torch):
    class Recurrent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.RNN(8, 8, batch_first=True)

        def forward(self, x, target):
            y, _ = self.layer(x.unsqueeze(1).expand(-1, 23, -1))
            return torch.nn.functional.mse_loss(y[:, -1], target)
    return Recurrent()


def recurrent_of_2049(desk):
    """PyTorch takes a minute to export so many steps, so 23 of them are exported."""
    saved(recurrent, "short.pt2")(desk)
    archive("short.pt2", model_json=(('{"as_int": 23}', '{"as_int": 2049}'), ("[-1, 23, -1]", "[-1, 2049, -1]")))(desk)


def traced(desk):
    import torch
    torch.jit.trace(torch.nn.Linear(3, 3), torch.randn(2, 3)).save(str(desk.work / "model.pt"))


model("pt2_truncated", "Half of a .pt2 archive", "half.pt2",
      prepare=lambda desk: desk.write("half.pt2", (desk.work / "tiny_mlp.pt2").read_bytes()[:9000]))
model("pt2_other_schema", "A .pt2 archive of another version of torch", "model.pt2", prepare=archive("tiny_mlp.pt2", model_json=('"major": 8', '"major": 7')))
model("pt2_lost_weight", "A .pt2 archive without one of its weights", "model.pt2", prepare=archive("tiny_mlp.pt2", weight_2=None))
model("pt2_lost_entry", "A .pt2 archive that does not list one of its weights", "model.pt2",
      prepare=archive("tiny_mlp.pt2", model_weights_config_json=("layers.1.weight", "layers.9.weight")))
model("pt2_changes_a_buffer", "A model that updates its own moving average", "model.pt2", prepare=saved(average))
model("f64_parameters", "A model with f64 parameters", "model.pt2", prepare=saved(in_f64))
model("recurrent_steps", "A recurrent network with too many steps", "model.pt2", prepare=recurrent_of_2049)
model("pt2_in_place_through_expand", "A change in place that cannot be followed", "model.pt2", prepare=saved(expanded))
model("pt2_open_extent", "A .pt2 archive with a dimension that has no value", "tiny_gpt_dropout.pt2")
model("torchscript", "A traced model, given to piperc as it is", "model.pt", prepare=traced)
model("tags_with_a_gap", "Tags of the model with a missing index", "model.pt2", prepare=archive("hazards.pt2", model_json=('\\"PP\\": 0', '\\"PP\\": 2')))
model("model_missing", "A model that does not exist", "tiny_gtp.onnx")
model("model_not_onnx", "A file that is not an ONNX model", "model.onnx", prepare=lambda desk: desk.write("model.onnx", "state_dict\n" * 40))
model("model_truncated", "Half of a model", "half.onnx",
      prepare=lambda desk: desk.write("half.onnx", (desk.work / "tiny_gpt.onnx").read_bytes()[:40000]))
model("model_optimized", "A model exported with optimize=True", "optimized.onnx")
model("model_fixed_batch", "A model exported with a fixed batch", "fixed_batch.onnx")
model("model_outside_the_set", "An operator that piper does not know", "products.onnx", prepare=export_outside_the_set)
HAZARD_SPLIT = edited(SINGLE, ("optimizer", "directives:\n  - {op: split, num_microbatches: 2}\noptimizer"))
model("batch_norm_under_split", "Batch normalisation in microbatches", "hazards.onnx", HAZARD_SPLIT)
model("batch_norm_under_replicate", "Batch normalisation on replicas", "hazards.onnx", REPLICAS)


# ------------------------------------------------------------------ bundles, launches and data
def tensors(desk, samples=40, **changes):
    import torch
    from safetensors.torch import save_file
    generator = torch.Generator().manual_seed(1)
    made = {n: torch.randint(1, 19, (samples, 6), generator=generator) for n in ("input_ids", "labels")}
    for name, change in changes.items():
        value = change(made.pop(name))
        if value is not None:
            made[value[0]] = value[1].contiguous()
    save_file(made, desk.work / "data.safetensors")


def trained(text=PIPELINE, damage=None, flags="", **changes):
    def prepare(desk):
        desk.write("strategy.yaml", text)
        desk.must(f"piperc tiny_gpt.onnx --strategy strategy.yaml -o plans {flags}")
        tensors(desk, **changes)
        if damage:
            damage(desk)
    return prepare


def flip(name, at):
    def damage(desk):
        path = desk.work / "plans" / name
        content = bytearray(path.read_bytes())
        content[at] ^= 1
        path.write_bytes(content)
    return damage


def cut(name):
    def damage(desk):
        path = desk.work / "plans" / name
        path.write_bytes(path.read_bytes()[:len(path.read_bytes()) // 2])
    return damage


RUN = "piper-run plans --data data.safetensors --steps 2"


# All ranks find it alike; which one reports is chance.
RANK = ((r"rank \d+:", "rank N:"),)


def run(name, area, title, prepare, command=RUN, masks=()):
    ALL.append(Case(name, area, title, command, {}, prepare, masks))


run("bundle_missing", BUNDLE, "A bundle that does not exist", None)
run("bundle_is_no_bundle", BUNDLE, "A directory that is not a bundle", lambda desk: (desk.work / "plans").mkdir())
run("bundle_byte_flipped", BUNDLE, "A flipped bit in the plan of a rank", trained(damage=flip("ranks/rank-00001.json", 600)))
run("bundle_file_missing", BUNDLE, "The plan of a rank is missing", trained(damage=lambda desk: (desk.work / "plans/ranks/rank-00001.json").unlink()))
run("bundle_manifest_damaged", BUNDLE, "A damaged manifest", trained(damage=cut("manifest.json")))
run("bundle_weights_damaged", BUNDLE, "A flipped bit in the weights", trained(damage=flip("weights/model.safetensors", -5)))
run("bundle_without_weights", BUNDLE, "A bundle without weights and no --load", trained(flags="--weights none"), masks=RANK)
run("load_missing", BUNDLE, "--load of a file that does not exist", trained(), RUN + " --load weights.safetensors")
run("load_other_model", BUNDLE, "--load of another model's weights", trained(), RUN + " --load data.safetensors", (RANK[0], (r"tensor '.*'", "tensor NAME")))


def tied_apart(desk):
    """The head has other values than the embedding, which are one parameter of the model."""
    from safetensors.torch import load_file, save_file
    weights = load_file(desk.work / "plans" / "weights" / "model.safetensors")
    save_file(weights | {"wte.weight": weights["lm_head.weight"] + 1}, desk.work / "weights.safetensors")


def narrower(desk):
    """The weights of the same model with half as wide a norm."""
    from safetensors.torch import load_file, save_file
    weights = load_file(desk.work / "plans" / "weights" / "model.safetensors")
    save_file({name: w[:len(w) // 2].clone() for name, w in weights.items()}, desk.work / "weights.safetensors")


def batch_below_zero(desk):
    path = desk.work / "plans" / "manifest.json"
    text = path.read_text()
    path.write_text(text.replace('"batch":8', '"batch":-8', 1))
    assert path.read_text() != text


def of_other_batches(desk):
    desk.must("piper-run plans --data data.safetensors --steps 3 --checkpoint checkpoints --every 3")
    desk.must("piperc tiny_gpt.onnx --strategy strategy.yaml -o plans --checkpoints --set model.batch=16")


run("load_other_shape", BUNDLE, "--load of the weights of a narrower model", trained(damage=narrower), RUN + " --load weights.safetensors",
    (RANK[0], (r"tensor '.*' of 'weights.safetensors' is .*", "tensor NAME of 'weights.safetensors' is TYPE, the plan needs TYPE")))
run("bundle_number_out_of_range", BUNDLE, "A number in a manifest that was changed by hand", trained(damage=batch_below_zero))
run("resume_within_a_step", BUNDLE, "A checkpoint that ends within a step of another batch", trained(SINGLE, of_other_batches, "--checkpoints"),
    "piper-run plans --data data.safetensors --steps 5 --checkpoint checkpoints --resume", RANK)
run("load_tied_apart", BUNDLE, "--load of a tied head that differs from the embedding", trained(damage=tied_apart), RUN + " --load weights.safetensors")
ALL.append(Case("output_is_something_else", BUNDLE, "-o names a directory with something else", "piperc tiny_gpt.onnx --strategy strategy.yaml -o thesis",
                {"strategy.yaml": SINGLE}, lambda desk: ((desk.work / "thesis").mkdir(), desk.write("thesis/chapter1.tex", "Once"))))
ALL.append(Case("output_is_a_file", BUNDLE, "-o names a file", "piperc tiny_gpt.onnx --strategy strategy.yaml -o tiny_gpt.onnx", {"strategy.yaml": SINGLE}))

run("launch_too_many", LAUNCH, "mpirun starts three processes for two ranks", trained(), "mpirun -n 3 " + RUN)
run("launch_local_under_mpirun", LAUNCH, "--comm local under mpirun", trained(), "mpirun -n 2 " + RUN + " --comm local")
run("launch_mpi_alone", LAUNCH, "--comm mpi without a launcher", trained(), RUN + " --comm mpi")
run("launch_cuda", LAUNCH, "--device cuda", trained(), RUN + " --device cuda")
run("launch_threads", LAUNCH, "More threads than a rank can have", trained(), RUN + " --threads 100000")
run("launch_timeout", LAUNCH, "A timeout that is not a time", trained(), RUN + " --timeout nan")
run("launch_flag", LAUNCH, "A value that is not a number", trained(), "piper-run plans --data data.safetensors --steps many")

run("data_not_given", DATA, "No data", trained(), "piper-run plans --steps 2")
run("data_missing", DATA, "Data that do not exist", trained(), "piper-run plans --data corpus.bin --steps 2")
run("data_missing_mpirun", DATA, "Data that do not exist, under mpirun", trained(), "mpirun -n 2 piper-run plans --data corpus.bin --steps 2")
run("data_input_missing", DATA, "A tensor with another name than the model's input", trained(labels=lambda t: ("targets", t)))
run("data_wrong_dtype", DATA, "Numbers of another type", trained(input_ids=lambda t: ("input_ids", t.float())))
run("data_wrong_shape", DATA, "Samples of another shape", trained(input_ids=lambda t: ("input_ids", t[:, :4])))
run("data_lengths_differ", DATA, "Inputs with different numbers of samples", trained(labels=lambda t: ("labels", t[:30])))
run("data_index_out_of_range", DATA, "A token that the vocabulary does not have", trained(input_ids=lambda t: ("input_ids", t + 10)),
    masks=((r"index \d+ lies", "index N lies"),))


def routed(desk):
    import torch
    from safetensors.torch import save_file
    desk.write("strategy.yaml", """piper: 1
model: {batch: 8}
annotate:
  - {tag: EP, modules: [mixtures.0, mixtures.1]}
directives:
  - {op: place, filter: {}, devices: [0]}
  - {op: shard, filter: {EP: 0}, devices: [0], capacity: {factor: 0.5, overflow: error}}
optimizer: {sgd: {lr: 0.1}}
""")
    desk.must("piperc tiny_routed.onnx --strategy strategy.yaml -o plans")
    generator = torch.Generator().manual_seed(1)
    save_file({"x": torch.randn(40, 6, generator=generator), "target": torch.randn(40, 3, generator=generator)}, desk.work / "data.safetensors")


run("experts_over_capacity", DATA, "More rows for an expert than the strategy allows", routed)
STREAM = "piper-run plans --data corpus.bin --steps 2"
run("stream_width", DATA, "A token file of bytes, read as 16-bit tokens",
    trained(damage=lambda desk: desk.write("corpus.bin", bytes(range(1, 11)) * 100)), STREAM)
run("stream_too_short", DATA, "A token stream shorter than a sample",
    trained(damage=lambda desk: desk.write("corpus.bin", b"\1\0\2\0\3\0")), STREAM)
run("data_json_lines", DATA, "Text in JSON lines", trained(damage=lambda desk: desk.write("corpus.jsonl", '{"text": "once"}\n' * 99)),
    "piper-run plans --data corpus.jsonl --steps 2")
run("data_is_a_model", DATA, "A model given as data", trained(), "piper-run plans --data tiny_mlp.pt2 --steps 2")
run("stream_odd_bytes", DATA, "A token file that ends within a token",
    trained(damage=lambda desk: desk.write("corpus.bin", b"\1\0" * 200 + b"\1")), STREAM)


def mix(files):
    def damage(desk):
        (desk.work / "books").mkdir()
        for name, content in files.items():
            desk.write(name, content)
    return damage


SAMPLES = b"\1\0" * 200
run("mix_missing", DATA, "A source of a mix that does not exist", trained(MIX, damage=mix({"books/a.bin": SAMPLES})), "piper-run plans --steps 2")
run("mix_empty_folder", DATA, "A source of a mix that is an empty folder", trained(MIX, damage=mix({"web.bin": SAMPLES})), "piper-run plans --steps 2")
run("mix_types", DATA, "Sources with tokens of different types", trained(MIX, damage=mix({"web.bin": SAMPLES, "books/a.txt": b"ab" * 200})),
    "piper-run plans --steps 2")

# ------------------------------------------------------------------ while it runs
LONG = "piper-run plans --data data.safetensors --steps 1000000 --log log.jsonl"
STEP = (r"after step \d+", "after step N")
ALL.append(Case("rank_killed", RUNNING, "A rank is killed", "mpirun -n 2 " + LONG, {}, trained(), (STEP,), "SIGKILL", 1))
ALL.append(Case("rank_zero_killed", RUNNING, "Rank 0 is killed", "mpirun -n 2 " + LONG, {}, trained(), (STEP,), "SIGKILL", 0))
ALL.append(Case("interrupted", RUNNING, "Ctrl-C", LONG, {}, trained(), (STEP,), "SIGINT"))
ALL.append(Case("data_cut", RUNNING, "The data file is cut", LONG, {}, trained(), meanwhile=lambda desk: os.truncate(desk.work / "data.safetensors", 0)))
run("save_over_a_directory", RUNNING, "--save names a directory", trained(), RUN + " --save plans")
run("save_into_nowhere", RUNNING, "--save into a directory that does not exist", trained(), RUN + " --save results/weights.safetensors")
run("log_into_nowhere", RUNNING, "--log into a directory that does not exist", trained(), RUN + " --log results/log.jsonl")
ALL.append(Case("rank_frozen", RUNNING, "A rank that stops answering", "mpirun -n 2 " + LONG + " --timeout 3", {}, trained(),
                ((r"^(piper-run: error.*: rank 0), .* waited (.* rank 1) .*", r"\1, WHERE: waited \2 WHAT"),
                 (r"^piper-run: error.*: rank 1, .*", "")), "SIGSTOP", 1))     # woken to be ended, rank 1 may speak too
