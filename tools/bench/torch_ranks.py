"""One rank of PyTorch's own training of a model of models.py: what against_torch.py compares with. Started once per rank.

  RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 torch_ranks.py VARIANT --model M --batch N --precision P --device D
      --weights FILE --tokens FILE --steps N
  torch_ranks.py save_weights --model M --weights FILE      # a safetensors file of the model as models.py makes it

VARIANT, of one rank: eager (AdamW as PyTorch takes it by default), fused (its fused AdamW, as in all that follow), compile
(torch.compile), graphs (torch.compile with CUDA graphs, mode="reduce-overhead"). Of several: ddp, fully_shard, gpipe, 1f1b, zb_v,
1f1b_ddp, zb_v_ddp, tp (DTensor's tensor parallelism: ColwiseParallel and RowwiseParallel). With bf16 or f16 the forward runs under autocast. Rank 0 prints a JSON object: the step times, the losses of
the whole batch where it knows them, and the most memory that all ranks together had.
"""
import argparse
import contextlib
import ctypes
import json
import os
import resource
import struct
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

import models

MICROBATCHES, WARM_UP = 4, 4    # with CUDA graphs: compile, warm up, record, replay
PRECISIONS = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def optimizer(parameters, **options):
    return torch.optim.AdamW(parameters, lr=3e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, **({"fused": True} | options))


def alone(args, module):
    """A step of one rank."""
    rule = optimizer(module.parameters(), **({"fused": None} if args.variant == "eager" else {}))
    modes = {"compile": {}, "graphs": {"mode": "reduce-overhead"}}
    forward = torch.compile(module, **modes[args.variant]) if args.variant in modes else module

    def step(idx, targets, narrow):
        rule.zero_grad(set_to_none=True)
        if args.variant == "graphs":
            torch.compiler.cudagraph_mark_step_begin()
        with narrow():
            loss = forward(idx, targets)
        loss.backward()
        rule.step()
        return loss.detach()
    return step


def replicated(args, module, rank, world):
    """A step on this rank's part of the batch; its loss is the mean over the ranks."""
    if args.variant == "ddp":
        from torch.nn.parallel import DistributedDataParallel
        module = DistributedDataParallel(module)
    else:
        from torch.distributed.fsdp import fully_shard
        for block in module.h:
            fully_shard(block)
        fully_shard(module)
    rule = optimizer(module.parameters())
    local = args.batch // world

    def step(idx, targets, narrow):
        rule.zero_grad(set_to_none=True)
        with narrow():
            loss = module(idx[rank * local:(rank + 1) * local], targets[rank * local:(rank + 1) * local])
        loss.backward()
        rule.step()
        return loss.detach() / world
    return step


class LocalHeads(torch.nn.Module):
    """A block of a GPT on the heads of one rank: DTensor cuts no product that makes queries, keys and values in one."""

    def __init__(self, block, heads):
        super().__init__()
        width = block.out.in_features
        self.size = width // heads
        self.ln_1, self.ln_2, self.out, self.up, self.down = block.ln_1, block.ln_2, block.out, block.up, block.down
        for part, name in enumerate("qkv"):
            product = torch.nn.Linear(width, width)
            product.weight.data.copy_(block.qkv.weight.data[part * width:(part + 1) * width])
            product.bias.data.copy_(block.qkv.bias.data[part * width:(part + 1) * width])
            setattr(self, name, product)

    def forward(self, x):
        samples, length, _ = x.shape
        h = self.ln_1(x)
        q, k, v = (f(h).view(samples, length, -1, self.size).transpose(1, 2) for f in (self.q, self.k, self.v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(samples, length, -1))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


def tensor_parallel(args, module, world):
    """A step of ranks that share the batch and have parts of the weights of each block; every rank knows the loss."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    if hasattr(module.h[0], "qkv"):
        heads = getattr(module.h[0], "heads", models.demo.HEADS)
        module.h = torch.nn.ModuleList(LocalHeads(block, heads) for block in module.h)
    columns = [name for name in ("q", "k", "v", "gate", "up") if hasattr(module.h[0], name)]
    parallelize_module(module, init_device_mesh(args.device, (world,)),
                       {f"h.*.{name}": ColwiseParallel() for name in columns} | {f"h.*.{name}": RowwiseParallel() for name in ("out", "down")})
    kinds = [[p for p in module.parameters() if isinstance(p, DTensor) == cut] for cut in (True, False)]
    rule = optimizer([{"params": kind} for kind in kinds])    # an update is of DTensors alone, or of none

    def step(idx, targets, narrow):
        rule.zero_grad(set_to_none=True)
        with narrow():
            loss = module(idx, targets)
        loss.backward()
        rule.step()
        return loss.detach()
    return step


def pipelined(args, whole, world):
    """A step of a pipeline; with `_ddp`, of one of two equal pipelines. Losses stay with the last stage."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleZBVZeroBubble
    from torch.nn.parallel import DistributedDataParallel
    replicas = 2 if args.variant.endswith("_ddp") else 1
    mesh = init_device_mesh(args.device, (world // replicas, replicas), mesh_dim_names=("pp", "dp"))
    group, position, ranks = mesh.get_group("pp"), mesh.get_local_rank("pp"), mesh.size(0)
    family = args.variant.removesuffix("_ddp")
    total = 2 * ranks if family == "zb_v" else ranks
    depth = len(whole.h) // total
    owned = [position, total - 1 - position] if family == "zb_v" else [position]
    parts = [models.Stage(whole, s * depth, (s + 1) * depth) for s in owned]
    if replicas > 1:
        parts = [DistributedDataParallel(part, process_group=mesh.get_group("dp")) for part in parts]
    stages = [PipelineStage(part, s, total, torch.device(args.device), group=group) for part, s in zip(parts, owned)]
    make = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B, "zb_v": ScheduleZBVZeroBubble}[family]
    schedule = make(stages if family == "zb_v" else stages[0], n_microbatches=MICROBATCHES, loss_fn=loss_of)
    rule = optimizer([p for part in parts for p in part.parameters()])
    local, replica = args.batch // replicas, mesh.get_local_rank("dp")

    def step(idx, targets, narrow):
        rule.zero_grad(set_to_none=True)
        idx, targets = (t[replica * local:(replica + 1) * local] for t in (idx, targets))
        given = (idx,) if 0 in owned else ()
        wanted = {"target": targets} if total - 1 in owned else {}
        with narrow():
            schedule.step(*given, **wanted)
        rule.step()
    return step


def save_weights(module, path):
    """Every tensor once, under the first of its names, as safetensors (a module that a bare machine does not have)."""
    tensors, header, end = [], {}, 0
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        size = tensor.numel() * tensor.element_size()
        kind = {torch.float32: "F32", torch.int64: "I64"}[tensor.dtype]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [end, end + size]}
        tensors.append(tensor.detach().contiguous())
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors:
            file.write((ctypes.c_char * (tensor.numel() * tensor.element_size())).from_address(tensor.data_ptr()))


def load_weights(module, path):
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            begin, end = header[name]["data_offsets"]
            file.seek(8 + length + begin)
            tensor.data.copy_(torch.frombuffer(bytearray(file.read(end - begin)), dtype=tensor.dtype).view(tensor.shape))


def read_batches(args, sequence):
    """Batch after batch of the file's tokens in their order, as `piper-run --sampling sequential` reads them."""
    with open(args.tokens, "rb") as file:
        raw = bytearray(file.read())
    tokens = torch.frombuffer(raw, dtype=torch.int32 if args.tokens.endswith(".u32.bin") else torch.uint8).to(torch.int64)
    for step in range(args.steps + WARM_UP):
        starts = torch.arange(step * args.batch, (step + 1) * args.batch)[:, None] * sequence
        at = starts + torch.arange(sequence)
        yield tokens[at].to(args.device), tokens[at + 1].to(args.device)


def most_memory(args):
    return torch.cuda.max_memory_reserved() if args.device == "cuda" else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variant")
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--precision", choices=PRECISIONS)
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--weights", required=True)
    parser.add_argument("--tokens")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    module, example = getattr(models, args.model)()
    if args.variant == "save_weights":
        save_weights(module, args.weights)
        return
    torch.set_num_threads(args.threads)
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if args.device == "cuda":
        torch.cuda.set_device(rank)
    load_weights(module, args.weights)
    module.train().to(args.device)
    if world > 1:
        dist.init_process_group("nccl" if args.device == "cuda" else "gloo")
        if args.variant in ("ddp", "fully_shard"):
            step = replicated(args, module, rank, world)
        else:
            step = (tensor_parallel if args.variant == "tp" else pipelined)(args, module, world)
    else:
        step = alone(args, module)
    narrow = contextlib.nullcontext
    if args.precision != "f32":
        def narrow():
            return torch.autocast(args.device, dtype=PRECISIONS[args.precision])
    times, losses = [], []
    for idx, targets in read_batches(args, example["idx"].shape[1]):
        began = time.perf_counter()
        loss = step(idx, targets, narrow)
        if loss is not None:
            losses.append(loss.item())      # a step ends when its loss is known, piper's too
        if args.device == "cuda":
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - began))
    seen = torch.tensor([float(most_memory(args)), *losses], dtype=torch.float64, device=args.device)
    if world > 1:
        if args.variant in ("ddp", "fully_shard"):
            dist.all_reduce(seen)
        else:
            dist.all_reduce(seen[:1])
        dist.barrier()
    if rank == 0:
        print(json.dumps({"steps_ms": times[WARM_UP:], "losses": seen[1:].tolist(), "memory_bytes": int(seen[0])}), flush=True)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
