"""One rank of PyTorch's own training of the demo GPT over gloo: what two_ranks.py compares with. Started once per rank.

  RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 torch_ranks.py VARIANT STEPS

VARIANT: ddp, fully_shard, gpipe, 1f1b, zb_v, 1f1b_ddp, zb_v_ddp. Rank 0 prints the step times in ms as JSON.
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleZBVZeroBubble
from torch.nn.parallel import DistributedDataParallel

import models
from models import demo

BATCH, MICROBATCHES, WARM_UP = 16, 4, 3


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=3e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)


def replicated(variant, rank, world):
    """A step on this rank's part of the batch, tied head as in the demo."""
    module, _ = models.tied()
    if variant == "ddp":
        module = DistributedDataParallel(module)
    else:
        for block in module.h:
            fully_shard(block)
        fully_shard(module)
    rule = optimizer(module.parameters())
    local = BATCH // world

    def step(idx, targets):
        rule.zero_grad(set_to_none=True)
        module(idx[rank * local:(rank + 1) * local], targets[rank * local:(rank + 1) * local]).backward()
        rule.step()
    return step


def pipelined(variant, rank, world):
    """A step of a pipeline over two ranks; with `_ddp`, of one of two equal pipelines."""
    whole, _ = models.untied()
    replicas = 2 if variant.endswith("_ddp") else 1
    mesh = init_device_mesh("cpu", (world // replicas, replicas), mesh_dim_names=("pp", "dp"))
    group, position, ranks = mesh.get_group("pp"), mesh.get_local_rank("pp"), mesh.size(0)
    family = variant.removesuffix("_ddp")
    depth = len(whole.h) // (2 * ranks if family == "zb_v" else ranks)
    owned = [position, 2 * ranks - 1 - position] if family == "zb_v" else [position]
    total = 2 * ranks if family == "zb_v" else ranks
    parts = [models.Stage(whole, s * depth, (s + 1) * depth) for s in owned]
    if replicas > 1:
        parts = [DistributedDataParallel(part, process_group=mesh.get_group("dp")) for part in parts]
    stages = [PipelineStage(part, s, total, torch.device("cpu"), group=group) for part, s in zip(parts, owned)]
    make = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B, "zb_v": ScheduleZBVZeroBubble}[family]
    schedule = make(stages if family == "zb_v" else stages[0], n_microbatches=MICROBATCHES, loss_fn=loss_of)
    rule = optimizer([p for part in parts for p in part.parameters()])
    local, replica = BATCH // replicas, mesh.get_local_rank("dp")

    def step(idx, targets):
        rule.zero_grad(set_to_none=True)
        idx, targets = (t[replica * local:(replica + 1) * local] for t in (idx, targets))
        given = (idx,) if 0 in owned else ()
        wanted = {"target": targets} if total - 1 in owned else {}
        schedule.step(*given, **wanted)
        rule.step()
    return step


def main():
    variant, steps = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    step = (replicated if variant in ("ddp", "fully_shard") else pipelined)(variant, rank, world)
    generator = torch.Generator().manual_seed(0)
    times = []
    for _ in range(steps + WARM_UP):
        tokens = torch.randint(256, (BATCH, demo.SEQUENCE + 1), generator=generator)
        began = time.perf_counter()
        step(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        times.append(1e3 * (time.perf_counter() - began))
    dist.barrier()
    if rank == 0:
        print(json.dumps(times[WARM_UP:]), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
