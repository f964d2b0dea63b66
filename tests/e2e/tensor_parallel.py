#!/usr/bin/env python3
"""Weights, and sequences, cut over places train as PyTorch's own tensor parallelism does: torch.distributed's DTensor over gloo.

  tensor_parallel.py --bin BIN --work DIR [--models llama,mlp] [--places 2,4] [--optimizers adamw,sgd] [--sequence] [--tables llama]
    [--proved qwen3] [--steps 20]

For each model and number of places the same model, weights and samples are trained by piper under
`shard: {dim: column}` and by ranks of PyTorch under parallelize_module (ColwiseParallel, RowwiseParallel; with --sequence under
`dim: sequence` too, and SequenceParallel on norms, the residual stream Shard(1)). Losses of
all steps agree to 1e-5 relative (1e-6 at the first), gradients of the first step to 1e-5 of each one's norm, and a step of the
plan has no more collectives than CommDebugMode counts. Plans are proved whole, those of --proved too, whose norms of heads DTensor's styles
do not know. Models of --tables are trained once more with their tables and logits cut, too (`dim: vocabulary`), beside loss_parallel over parts
that the places cannot share equally. A rank of PyTorch is this script with --rank.

With --steps, roundings have grown: the largest distance of a loss, and that of all weights together after the last step, from those of
PyTorch on one process is at most 1.5 times DTensor's own, and 3e-7 of the loss, or of the weights' norm.
"""
import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import socket
import subprocess
import sys

import torch

import harness
import zoo
from checks import check, faults

STEPS = 3
FACTOR, ROUNDING = 1.5, 3e-7    # of more steps: as far from one process as DTensor, and five roundings of f32
# model -> modules whose output features are cut, and those whose input features are
CUT = {"mlp": (["layers.0", "layers.2"], ["layers.1", "layers.3"]),
       "llama": (["*.self_attn.q_proj", "*.self_attn.k_proj", "*.self_attn.v_proj", "*.mlp.gate_proj", "*.mlp.up_proj"],
                 ["*.self_attn.o_proj", "*.mlp.down_proj"])}
TABLES = {"llama": ("net.model.embed_tokens", "net.lm_head")}    # embedding and head
# ... of which the sequence is cut: norms, the embedding, the logits
AT_REST = {"llama": (["*.input_layernorm", "*.post_attention_layernorm", "net.model.norm"], "net.model.embed_tokens", "net.lm_head")}


def with_steps(model, steps):
    zoo.MODELS[model] = dataclasses.replace(zoo.MODELS[model], steps=steps)


def rank_of_torch(args):
    """Trains one rank; rank 0 writes losses, gradients of step 1 and the collectives of a step."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.debug import CommDebugMode
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module
    from safetensors.torch import save_file
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{args.port}", rank=args.rank, world_size=args.world)
    with_steps(args.models, args.steps)
    module = zoo.build(args.models)
    columns, rows = CUT[args.models]
    plan = {match: ColwiseParallel() for match in columns} | {match: RowwiseParallel() for match in rows}
    if args.sequence:
        plan = of_sequences(args.models)
    mesh = init_device_mesh("cpu", (args.world,))
    styles = {under(module, match): style for match, style in plan.items()}
    if args.tables:
        embedding, head = TABLES[args.models]
        styles |= {embedding: RowwiseParallel(input_layouts=Replicate()), head: ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)}
    module = parallelize_module(module, mesh, styles)
    data = zoo.draw(args.models, harness.BATCH * zoo.MODELS[args.models].steps)    # as piper is given them
    rule = harness.rule_of(args.optimizers, module, harness.values_of(args.models, args.optimizers))
    losses, gradients, counts = [], {}, {}
    for step in range(args.steps):
        batch = {k: v[step * harness.BATCH:(step + 1) * harness.BATCH] for k, v in data.items()}
        rule.zero_grad()
        with CommDebugMode() as counted, loss_parallel() if args.tables else contextlib.nullcontext():
            loss = module(**batch)
            loss.backward()
        losses.append(whole(loss).item())
        if step == 0:
            counts = {str(kind).split(".")[-1]: number for kind, number in counted.get_comm_counts().items()}
            gradients = {n: whole(p.grad).detach().clone().contiguous() for n, p in module.named_parameters()}
        for p in module.parameters():
            if hasattr(p.grad, "redistribute"):    # of a norm: an addend of each rank
                p.grad = p.grad.redistribute(placements=p.placements)
        rule.step()
    weights = {n: whole(p).detach().clone().contiguous() for n, p in module.named_parameters()}
    if args.rank == 0:
        save_file(weights, args.work / "weights.safetensors")
        save_file(gradients, args.work / "gradients.safetensors")
        (args.work / "torch.json").write_text(json.dumps({"losses": losses, "collectives": sum(counts.values()), "kinds": counts}))
    dist.barrier()
    dist.destroy_process_group()


def of_sequences(model):
    """The styles by which the residual stream is Shard(1), and logits are whole."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, PrepareModuleOutput, RowwiseParallel,
                                                   SequenceParallel)
    columns, rows = CUT[model]
    norms, embedding, logits = AT_REST[model]
    return ({match: ColwiseParallel(input_layouts=Shard(1)) for match in columns} |
            {match: RowwiseParallel(output_layouts=Shard(1), use_local_output=False) for match in rows} |
            {match: SequenceParallel(use_local_output=False) for match in norms} |
            {embedding: PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(1), use_local_output=False),
             logits: PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate(), use_local_output=True)})


def under(module, match):
    """The pattern as parallelize_module takes it: a `*` for each level that it stands for."""
    import fnmatch
    names = [name for name, _ in module.named_modules() if fnmatch.fnmatch(name, match)]
    parts = [["*" if p.isdigit() else p for p in name.split(".")] for name in names]
    assert parts and all(p == parts[0] for p in parts), (match, names)
    return ".".join(parts[0]) if len(names) > 1 else names[0]


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def trained_by_torch(model, places, optimizer, sequence, tables, steps, work):
    work.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, __file__, "--bin", ".", "--work", work, "--models", model, "--optimizers", optimizer, "--world", str(places),
               "--steps", str(steps), "--port", str(port), *(["--sequence"] if sequence else []), *(["--tables", model] if tables else [])]
    ranks = [subprocess.Popen([*map(str, command), "--rank", str(r)], env=os.environ | {"OMP_NUM_THREADS": "1"},
                              stderr=subprocess.PIPE, text=True) for r in range(places)]
    errors = [rank.communicate()[1] for rank in ranks]
    assert all(rank.returncode == 0 for rank in ranks), "\n".join(errors)[-3000:]
    from safetensors.torch import load_file
    return json.loads((work / "torch.json").read_text()), load_file(work / "gradients.safetensors"), load_file(work / "weights.safetensors")


def far(losses, weights, one):
    """The largest distance of a loss, and that of all weights, from one process, each as a part of its size."""
    of_losses, _, module = one
    wanted = {name: p.detach().double() for name, p in module.named_parameters()}
    apart = torch.stack([(weights[name].double() - w).square().sum() for name, w in wanted.items()]).sum().sqrt()
    size = torch.stack([w.square().sum() for w in wanted.values()]).sum().sqrt()
    return max(abs(a - b) / abs(b) for a, b in zip(losses, of_losses, strict=True)), (apart / size).item()


def collectives_of_values(plans):
    """Collectives of rank 0 over the ranks that share its samples."""
    rank = json.loads((plans / "ranks" / "rank-00000.json").read_text())
    return sum(any(kind in i for kind in ("all_reduce", "all_gather", "reduce_scatter")) and i["stream"].startswith("tp")
               for i in rank["instructions"])


def is_proved(bench, plans):
    return "equality with the model: proved: " in bench.call([bench.bin / "piper-plan", "verify", plans])


def cut_tensors(plans):
    return sum("cut" in tensor for tensor in json.loads((plans / "manifest.json").read_text())["tensors"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--models", default="llama,mlp")
    parser.add_argument("--places", default="2")
    parser.add_argument("--optimizers", default="adamw,sgd")
    parser.add_argument("--tables", default="")
    parser.add_argument("--sequence", action="store_true")
    parser.add_argument("--proved", default="")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--world", type=int)
    parser.add_argument("--port", type=int)
    args = parser.parse_args()
    if args.rank is not None:
        return rank_of_torch(args)
    for model in args.models.split(","):
        with_steps(model, args.steps)
    bench = harness.Bench(args.bin, args.work, "pt2")
    for model, tables in [(m, False) for m in args.models.split(",")] + [(m, True) for m in args.tables.split(",") if m]:
        for places in map(int, args.places.split(",")):
            for optimizer in args.optimizers.split(","):
                cut = "_seq" if args.sequence else ""
                over = f"vocab{places}" if tables else f"tp{places}{cut}"
                name = f"{model} over {places} places{', and its sequence' if cut else ''}{', tables' if tables else ''}, {optimizer}"
                torch_ranks, gradients, weights = trained_by_torch(model, places, optimizer, args.sequence, tables, args.steps, args.work / f"{model}-{over}-{optimizer}.torch")
                text = harness.strategy_text(model, over, optimizer)
                plans = bench.compile(model, text, f"{model}-{over}-{optimizer}")
                result = bench.run(plans, model, places, "local", args.steps)
                wrong = harness.gradient_faults(result.gradients, gradients) + (
                    harness.loss_faults(result.losses, torch_ranks["losses"], 1e-5) if args.steps == STEPS else [])
                check(f"{name}: losses and gradients are DTensor's", not wrong, "; ".join(wrong[:3]))
                if args.steps != STEPS:
                    one = harness.torch_training(model, optimizer)
                    ours, theirs = far(result.losses, result.weights, one), far(torch_ranks["losses"], weights, one)
                    check(f"{name}: {args.steps} steps, from one process {ours[0]:.1e} in losses and {ours[1]:.1e} in weights, DTensor {theirs[0]:.1e} and {theirs[1]:.1e}",
                          all(a <= FACTOR * b + ROUNDING for a, b in zip(ours, theirs)))
                ours, theirs = collectives_of_values(plans), torch_ranks["collectives"]
                check(f"{name}: {ours} collectives a step, DTensor {theirs}", 0 < ours <= theirs)
                check(f"{name}: proved whole", is_proved(bench, plans))
    for model in filter(None, args.proved.split(",")):
        plans = bench.compile(model, harness.strategy_text(model, "tp2_dp2", "sgd"), f"{model}-proved")
        check(f"{model} over 2 places, 2 replicas: {cut_tensors(plans)} tensors are cut, proved whole", is_proved(bench, plans) and cut_tensors(plans) > 0)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
