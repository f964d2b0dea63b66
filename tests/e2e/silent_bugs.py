#!/usr/bin/env python3
"""What trainers get wrong in silence where parallelisms meet trains here as in PyTorch on one process, or is refused with a code.

  silent_bugs.py --bin BIN --work DIR [--only WORD] [--all]

A case is named for what went wrong elsewhere, `reported` says where. Its model trains for three steps under each of its strategies, and
losses, gradients of the first step, norms of gradients and weights after the last must be those of PyTorch in f64, as near as PyTorch's
own f32 comes to them. Without --all each case has its first two strategies.
"""
from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import pathlib
import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

import compared_training
import small_models
from compared_training import End, Programs, Reference, Subject
from small_models import SEQUENCE, VOCABULARY, WIDTH

BATCH, STEPS, LR, HEADS = 8, 3, 0.05, 4


class Attention(nn.Module):
    def __init__(self, kv=HEADS, norms=False, fused=False, bias=False, sinks=False, dropout=0.0):
        super().__init__()
        self.size = WIDTH // HEADS
        self.widths = [WIDTH, kv * self.size, kv * self.size]
        if fused:
            self.qkv = nn.Linear(WIDTH, sum(self.widths), bias=bias)
        else:
            self.q, self.k, self.v = (nn.Linear(WIDTH, n, bias=bias) for n in self.widths)
        self.o = nn.Linear(WIDTH, WIDTH, bias=bias)
        self.q_norm, self.k_norm = (nn.RMSNorm(self.size, eps=1e-5) if norms else nn.Identity() for _ in range(2))
        self.sinks = nn.Parameter(torch.linspace(-1, 1, HEADS)) if sinks else None
        self.fused, self.groups, self.dropout = fused, HEADS // kv, nn.Dropout(dropout)

    def forward(self, x):
        q, k, v = self.qkv(x).split(self.widths, -1) if self.fused else (self.q(x), self.k(x), self.v(x))
        q, k, v = (t.unflatten(-1, (-1, self.size)) for t in (q, k, v))
        q, k, v = self.q_norm(q).transpose(1, 2), self.k_norm(k).transpose(1, 2), v.transpose(1, 2)
        if self.sinks is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.groups > 1)
        else:
            k, v = (t.repeat_interleave(self.groups, 1) for t in (k, v))
            scores = (q @ k.transpose(2, 3) / self.size ** 0.5).masked_fill(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1), -1e9)
            with_sink = torch.cat([scores, self.sinks.view(1, -1, 1, 1).expand(x.shape[0], -1, x.shape[1], 1)], -1)
            y = with_sink.softmax(-1)[..., :-1] @ v
        return self.dropout(self.o(y.transpose(1, 2).flatten(2)))


class Gated(nn.Module):
    def __init__(self, fused=False, bias=False, dropout=0.0):
        super().__init__()
        self.fused, self.dropout = fused, nn.Dropout(dropout)
        if fused:
            self.gate_up = nn.Linear(WIDTH, 4 * WIDTH, bias=bias)
        else:
            self.gate, self.up = (nn.Linear(WIDTH, 2 * WIDTH, bias=bias) for _ in range(2))
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=bias)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, -1) if self.fused else (self.gate(x), self.up(x))
        return self.down(self.dropout(F.silu(gate) * up))


class Experts(nn.Module):
    """Every expert on every token, weighted by the router; their output has a bias."""

    def __init__(self, count=4):
        super().__init__()
        self.router = nn.Linear(WIDTH, count)
        self.up, self.down = (nn.Parameter(torch.randn(count, *shape) / WIDTH ** 0.5) for shape in ((WIDTH, 2 * WIDTH), (2 * WIDTH, WIDTH)))
        self.bias = nn.Parameter(0.3 * torch.randn(count, WIDTH))

    def forward(self, x):
        hidden = torch.relu(torch.einsum("bsd,edf->ebsf", x, self.up))
        made = torch.einsum("ebsf,efd->ebsd", hidden, self.down) + self.bias[:, None, None]
        return torch.einsum("bse,ebsd->bsd", self.router(x).softmax(-1), made)


class Decoder(nn.Module):
    """attention, mlp: what makes the parts of a block. losses: {name: weight} of further terms."""

    def __init__(self, attention=Attention, mlp=Gated, tied=False, losses=(), blocks=2, scaled=False):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(nn.ModuleDict({"norm": nn.RMSNorm(WIDTH, eps=1e-5), "attention": attention(), "norm_mlp": nn.LayerNorm(WIDTH), "mlp": mlp()})
                                    for _ in range(blocks))
        self.norm, self.head = nn.RMSNorm(WIDTH, eps=1e-5), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.further = nn.Linear(WIDTH, WIDTH) if {"next", "projected"} & set(losses) else None
        self.gate = nn.Parameter(torch.tensor(0.7)) if scaled else None
        self.losses = losses
        nn.init.normal_(self.embed.weight, std=0.2)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, input_ids, labels):
        x = self.embed(input_ids)
        for layer in self.layers:
            x = x + layer["attention"](layer["norm"](x)) * (1 if self.gate is None else self.gate)
            x = x + layer["mlp"](layer["norm_mlp"](x))
        logits = self.head(torch.tanh(self.further(x)) if "projected" in self.losses else self.norm(x))
        if "capped" in self.losses:
            logits = 3 * torch.tanh(logits / 3)
        if "shifted" in self.losses:
            logits, labels = logits[:, :-1], labels[:, 1:]
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1)
        if "z" in self.losses:
            loss = loss + 0.1 * logits.logsumexp(-1).square().mean()
        if "next" in self.losses:        # the token after the next, by the same head; fewer of its labels count
            later = self.head(torch.tanh(self.further(x)))[:, :-1]
            loss = loss + 0.3 * F.cross_entropy(later.flatten(0, 1), torch.where(labels[:, 1:] % 3 == 0, labels[:, 1:], -1).flatten(), ignore_index=-1)
        return loss


@dataclasses.dataclass(frozen=True)
class Strategy:
    places: int = 2
    dims: tuple = ("column",)
    replicas: int = 1
    microbatches: int = 1
    stages: int = 1
    replicate: str = ""
    experts: bool = False        # those of small_models over the replicas

    def text(self, case):
        size = self.places * self.replicas
        groups = [list(range(s * size, (s + 1) * size)) for s in range(self.stages)]
        lines = ["piper: 1", f"model: {{batch: {BATCH}}}"]
        annotate = [f"  - {{tag: PP, starts: {json.dumps(case.starts)}}}"] if self.stages > 1 else []
        annotate += ['  - {tag: EP, modules: ["h.1.mlp", "h.3.mlp"]}'] if self.experts else []
        directives = []
        for stage, devices in enumerate(groups):
            chosen = f"{{PP: {stage}}}" if self.stages > 1 else "{}"
            if len(devices) > 1:
                directives += [f"{{op: place, filter: {chosen}, devices: {devices}}}", f"{{op: replicate, filter: {chosen}, devices: {devices}{self.replicate}}}"]
            if self.experts:
                directives.append(f"{{op: shard, filter: {{EP: '*'}}, devices: {[devices[p::self.places] for p in range(self.places)]}}}")
        over = [list(range(first, first + self.places)) for first in range(0, size * self.stages, self.places)]
        directives += [f"{{op: shard, filter: {{}}, dim: {dim}, over: {over}}}" for dim in (self.dims if self.places > 1 else ())]
        if self.microbatches > 1 and self.stages == 1:
            directives.append(f"{{op: split, num_microbatches: {self.microbatches}}}")
        lines += ["annotate:", *annotate] if annotate else []
        lines += ["directives:", *(f"  - {d}" for d in directives)] if directives else []
        lines += [f"schedule: {{family: 1f1b, microbatches: {self.microbatches}}}"] if self.stages > 1 else []
        lines += [f"optimizer: {{sgd: {{lr: {LR}}}}}"] + ([f"clip_grad_norm: {case.clip}"] if case.clip else [])
        return "\n".join(lines) + "\n"


SEQ, ALL = ("column", "sequence"), ("column", "sequence", "vocabulary")
ONE = Strategy(places=1)
TP2, TP4, TP2_SEQ, TP4_SEQ, TP2_ALL, TP4_ALL = (Strategy(p, d) for d, p in ((("column",), 2), (("column",), 4), (SEQ, 2), (SEQ, 4), (ALL, 2), (ALL, 4)))
TP2_DP2 = Strategy(replicas=2, microbatches=2)
ZERO1, ZERO3 = (Strategy(replicas=2, dims=SEQ, replicate=f", shard_{what}: true") for what in ("optimizer", "params"))
PP2_ALL = Strategy(dims=ALL, stages=2, microbatches=4)
PP2_DP2_ALL = Strategy(dims=ALL, stages=2, microbatches=2, replicas=2)
EP2_TP2 = Strategy(replicas=2, experts=True)


@dataclasses.dataclass(frozen=True)
class Case:
    reported: str
    build: Callable[[], nn.Module]
    strategies: tuple
    clip: float | None = None
    drops: bool = False            # its masks are ours: all strategies have those of one device
    seed: int = 5
    refused: dict = dataclasses.field(default_factory=dict)     # {strategy: code}
    starts: tuple = ("embed", "layers.1.norm")


def of(build, **options):
    return functools.partial(build, **options)


def net(name):
    return small_models.MODELS[name].build


CASES = {
    "norm_weights_under_sequence_parallelism": Case("Megatron-LM #1446, gpt-neox #1257, ColossalAI #4915", Decoder, (TP2_SEQ, PP2_ALL, TP4_SEQ, ZERO3)),
    "norms_of_heads_shared_by_places": Case("Megatron-LM #7452, finding 11", of(Decoder, attention=of(Attention, norms=True, kv=2)), (TP2, TP4, TP2_SEQ, TP2_DP2)),
    "fewer_key_heads_than_places": Case("Megatron-LM #7452, transformers #48687", of(Decoder, attention=of(Attention, kv=2)), (TP4, TP4_ALL, TP2_SEQ)),
    "one_key_head": Case("Megatron-LM #7452", of(Decoder, attention=of(Attention, kv=1, norms=True)), (TP2, TP4_SEQ)),
    "a_number_of_all_places": Case("Megatron-LM #7452: a replicated parameter whose gradient is a sum over places", of(Decoder, scaled=True), (TP2_SEQ, TP2, TP4_ALL)),
    "bias_of_a_row_cut_added_once": Case("text-generation-inference #1036", of(Decoder, attention=of(Attention, bias=True), mlp=of(Gated, bias=True)), (TP2, TP4_SEQ, TP2_DP2)),
    "bias_of_experts_added_once": Case("torchtitan #4245", of(Decoder, mlp=Experts), (TP2, TP2_SEQ, TP2_DP2)),
    "router_beside_cut_experts": Case("Megatron-LM #7452, bigcode Megatron-LM #35", net("experts"), (EP2_TP2, TP2_DP2), seed=22),
    "norm_counts_copies_once": Case("Megatron-LM #5916, NeMo-RL #3788, VeOmni #184", of(Decoder, attention=of(Attention, kv=2, norms=True, bias=True)),
                                    (TP2_SEQ, PP2_DP2_ALL, TP4, ZERO1, ZERO3, TP2_DP2), clip=0.3),
    "norm_counts_sinks_of_all_heads": Case("Megatron-LM #7452, finding 8", of(Decoder, attention=of(Attention, sinks=True)), (TP2, TP4, TP2_DP2), clip=0.3),
    "norm_counts_experts_of_all_ranks": Case("Megatron-LM #5916, #6099", net("experts"), (EP2_TP2, TP2_DP2), clip=0.3, seed=22),
    "loss_counts_labels_of_all_pieces": Case("Megatron-LM #7452, finding 3", of(Decoder, losses=("next",)), (TP2_DP2, PP2_DP2_ALL, TP2_ALL)),
    "logits_read_beside_the_loss": Case("Megatron-LM #7452: cross entropy of gathered logits", of(Decoder, losses=("z",)), (TP2_ALL, TP4_ALL, PP2_ALL)),
    "shifted_and_capped_logits": Case("transformers: labels are shifted by the model, Gemma 2 bounds its logits; over tables that places cannot share equally",
                                      of(Decoder, losses=("shifted", "capped")), (TP2_ALL, PP2_ALL, TP4_ALL)),
    "tables_after_a_column_cut": Case("a product that both its features and its classes ask to cut", of(Decoder, losses=("projected",)), (TP2_ALL, TP4_ALL, PP2_ALL)),
    "dropout_is_that_of_one_device": Case("Megatron-LM #7452: masks equal where values are parts, or unlike where they are copies",
                                          of(Decoder, attention=of(Attention, dropout=0.3), mlp=of(Gated, dropout=0.2)), (TP2_SEQ, TP2_DP2, TP2, PP2_ALL), drops=True),
    "tied_tables_over_stages": Case("Megatron-LM #673", of(Decoder, tied=True), (PP2_ALL, TP2_ALL, PP2_DP2_ALL)),
    "tables_that_places_cannot_share_equally": Case("ColossalAI #6167, Megatron-Bridge #1331", Decoder, (TP4_ALL, TP2_ALL, PP2_DP2_ALL)),
    "fused_projections": Case("DeepSpeed #3844, diffusers #13718, TransformerEngine #394",
                              of(Decoder, attention=of(Attention, fused=True, kv=2, bias=True), mlp=of(Gated, fused=True)), (TP2, TP4_SEQ, TP2_DP2)),
}


def subject_of(case):
    def made():
        torch.manual_seed(case.seed)
        return case.build().train()
    generator = torch.Generator().manual_seed(case.seed + 1000)
    tokens = torch.randint(0, VOCABULARY, (BATCH * STEPS, SEQUENCE + 1), generator=generator)
    labels = tokens[:, 1:].clone()
    labels[torch.rand(labels.shape, generator=generator) < torch.linspace(0, 0.7, BATCH * STEPS)[:, None]] = -1     # pieces with other counts
    data = {"input_ids": tokens[:, :-1].contiguous(), "labels": labels}
    return Subject(made, data, {k: v[:6].clone() for k, v in data.items()}, BATCH, STEPS, LR, clip=case.clip)


def ends(programs, case, every):
    subject = subject_of(case)
    reference = Reference(subject, drops=case.drops)
    assert not reference.unfit, reference.unfit
    programs.save_data(subject)
    failed = programs.exported(subject, "pt2")
    if failed is None and case.drops:
        failed = reference.take(programs.trained("pt2", ONE.text(case), reference))
    for strategy in case.strategies if every else case.strategies[:2]:
        wanted = case.refused.get(strategy)
        end = failed or programs.run("pt2", strategy.text(case), reference)
        if wanted and end.kind == "refused" and end.text.startswith(wanted):
            end = End("right")
        yield strategy, End("not refused") if wanted and end.kind != "right" else end


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    compared_training.quiet()
    programs, runs, faults = Programs(args.bin, args.work), 0, 0
    for name, case in CASES.items():
        for strategy, end in ends(programs, case, args.all) if args.only in name else ():
            runs, faults = runs + 1, faults + (end.kind != "right")
            print(f"{'ok    ' if end.kind == 'right' else 'FAILED'} {name} ({case.reported}), {strategy}" + ("" if end.kind == "right" else f": {end.kind}, {end.text}"), flush=True)
    print(f"{runs - faults} of {runs} right")
    sys.exit(1 if faults or not runs else 0)


if __name__ == "__main__":
    main()
