"""The models of the matrix of compositions: four blocks, width 32, about a tenth of a second per run.

What makes them hard to spread: a tied embedding, a skip connection over all blocks, a block without parameters, blocks of
different cost, two losses with counts of their own, mixtures of experts in three exported forms, a balance loss over a piece.
MODELS maps a name to a Model; `starts` are the modules where stages may begin.
"""
from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, SEQUENCE, WIDTH, HEADS, EXPERTS, TOP_K, SLOTS = 61, 8, 32, 2, 4, 2, 5


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        b, s, c = x.shape
        q, k, v = (t.view(b, s, HEADS, c // HEADS).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, s, c))


class GroupedAttention(nn.Module):
    """Four heads of queries share heads of keys and values. fused: one weight makes all three, which have unequal parts of it; else
    heads of queries and keys are normed."""
    queries = 4

    def __init__(self, heads, fused):
        super().__init__()
        self.heads, self.fused, width = heads, fused, WIDTH // self.queries
        if fused:
            self.qkv = nn.Linear(WIDTH, WIDTH + 2 * heads * width)
        else:
            self.q, self.k, self.v = (nn.Linear(WIDTH, n * width) for n in (self.queries, heads, heads))
            self.q_norm, self.k_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        b, s, c = x.shape
        width = c // self.queries
        if self.fused:
            q, k, v = self.qkv(x).split([c, self.heads * width, self.heads * width], dim=-1)
        else:
            q, k, v = self.q(x), self.k(x), self.v(x)
        q, k, v = (t.view(b, s, -1, width) for t in (q, k, v))
        if not self.fused:
            q, k = self.q_norm(q), self.k_norm(k)
        k, v = (t.transpose(1, 2)[:, :, None].expand(b, self.heads, self.queries // self.heads, s, width).reshape(b, self.queries, s, width)
                for t in (k, v))
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, s, c))


class GatedFeedForward(nn.Module):
    """One weight makes the gate and what it gates."""

    def __init__(self, hidden):
        super().__init__()
        self.gate_up, self.down = nn.Linear(WIDTH, 2 * hidden, bias=False), nn.Linear(hidden, WIDTH, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class FeedForward(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, hidden), nn.Linear(hidden, WIDTH)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Experts(nn.Module):
    """Two matrices per expert, stacked [experts, in, out]; dense: every expert on every token, times a gate."""

    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(EXPERTS, WIDTH, 2 * WIDTH) / math.sqrt(WIDTH))
        self.w2 = nn.Parameter(torch.randn(EXPERTS, 2 * WIDTH, WIDTH) / math.sqrt(2 * WIDTH))

    def forward(self, tokens, gate, chosen):
        weights = torch.zeros(tokens.shape[0], EXPERTS, dtype=gate.dtype).scatter(1, chosen, gate)
        hidden = F.gelu(torch.einsum("tc,ech->eth", tokens, self.w1))
        return torch.einsum("eth,ehc,te->tc", hidden, self.w2, weights)


class GatheredExperts(Experts):
    """Each token gathers the matrices of its experts."""

    def forward(self, tokens, gate, chosen):
        rows = tokens.unsqueeze(1).expand(-1, TOP_K, -1).reshape(-1, 1, tokens.shape[1])
        index = chosen.reshape(-1)
        made = torch.bmm(F.gelu(torch.bmm(rows, self.w1[index])), self.w2[index])
        return (made.view(-1, TOP_K, tokens.shape[1]) * gate.unsqueeze(-1)).sum(1)


class ExpertsWithSlots(nn.Module):
    """Dispatch and combine tensors with a fixed number of slots per expert and sample; what finds no slot is dropped."""

    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(EXPERTS, WIDTH, 2 * WIDTH) / math.sqrt(WIDTH))
        self.b1 = nn.Parameter(0.1 * torch.randn(EXPERTS, 2 * WIDTH))
        self.w2 = nn.Parameter(torch.randn(EXPERTS, 2 * WIDTH, WIDTH) / math.sqrt(2 * WIDTH))

    def forward(self, x, gate, chosen):
        b, s, c = x.shape
        taken = F.one_hot(chosen, EXPERTS).sum(2).to(gate.dtype)                       # [b, s, e]
        weights = (F.one_hot(chosen, EXPERTS).to(gate.dtype) * gate.unsqueeze(-1)).sum(2)
        position = taken.cumsum(1) - taken
        slots = torch.arange(SLOTS, dtype=gate.dtype)
        dispatch = taken.unsqueeze(-1) * (position.unsqueeze(-1) == slots).to(gate.dtype)   # [b, s, e, slot]
        combine = dispatch * weights.unsqueeze(-1)
        rows = torch.einsum("bseq,bsc->ebqc", dispatch, x).reshape(EXPERTS, b * SLOTS, c)
        hidden = F.gelu(torch.bmm(rows, self.w1) + self.b1.unsqueeze(1))
        made = torch.bmm(hidden, self.w2).reshape(EXPERTS, b, SLOTS, c)
        return torch.einsum("bseq,ebqc->bsc", combine, made)


class Mixture(nn.Module):
    """Top-2 softmax router; remembers how far its choice was from another one."""

    def __init__(self, form, balance):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = {"dense": Experts, "gathered": GatheredExperts, "slots": ExpertsWithSlots}[form]()
        slots = form == "slots"
        self.slots, self.balance, self.margin = slots, balance, math.inf

    def forward(self, x):
        b, s, c = x.shape
        probabilities = F.softmax(self.router(x if self.slots else x.reshape(b * s, c)), dim=-1)
        gate, chosen = probabilities.topk(TOP_K, dim=-1)
        if not torch.compiler.is_compiling():
            ordered = probabilities.detach().sort(dim=-1, descending=True).values
            self.margin = min(self.margin, (ordered[..., :TOP_K] - ordered[..., 1:TOP_K + 1]).min().item())
        gate = gate / gate.sum(-1, keepdim=True)
        balance = 0.0
        if self.balance:
            share = F.one_hot(chosen, EXPERTS).sum(1).to(probabilities.dtype).mean(0)
            balance = EXPERTS * (share * probabilities.mean(0)).sum() / TOP_K
        if self.slots:
            return self.experts(x, gate, chosen), balance
        return self.experts(x.reshape(b * s, c), gate, chosen).view(b, s, c), balance


class Block(nn.Module):
    def __init__(self, mlp, attention=None, norm=nn.LayerNorm):
        super().__init__()
        self.ln1, self.ln2, self.attn, self.mlp = norm(WIDTH), norm(WIDTH), attention or Attention(), mlp

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        y = self.mlp(self.ln2(x))
        y, balance = y if isinstance(y, tuple) else (y, 0.0)
        return x + y, balance


class Quiet(nn.Module):
    """A stage without parameters."""

    def forward(self, x):
        return x + 0.1 * torch.tanh(x)


class Net(nn.Module):
    """A decoder of four blocks and, between the second and the third, one without parameters.

    hidden: widths of the feed-forward layers, 0 = a mixture of experts. tied: the head is the embedding. skip: the
    embedding is added again after the blocks. second_loss: a head of its own after the second block. form: of the mixtures.
    shared: all blocks add what one layer makes of the positions, which depends on no input. grouped: queries share heads.
    bare: products read the residual stream without norms.
    """

    def __init__(self, hidden=(64, 64, 64, 64), tied=False, skip=False, second_loss=False, form="dense", balance=False, shared=False,
                 grouped=False, bare=False):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(SEQUENCE, WIDTH)
        if grouped:
            self.h = nn.ModuleList(Block(GatedFeedForward(n), GroupedAttention(1 + i // 2, i % 2 == 1)) for i, n in enumerate(hidden))
        else:
            norm = nn.Identity if bare else nn.LayerNorm
            self.h = nn.ModuleList(Block(FeedForward(n) if n else Mixture(form, balance), norm=norm) for n in hidden)
        self.quiet = Quiet()
        self.ln_f, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.early = nn.Linear(WIDTH, VOCABULARY) if second_loss else None
        self.skip = skip
        self.shared = nn.Linear(WIDTH, WIDTH) if shared else None
        nn.init.normal_(self.wte.weight, std=0.1)
        if tied:
            self.head.weight = self.wte.weight

    def terms(self, input_ids, labels):
        """The mean over counted labels, that of the second head, and the balance of the routers."""
        x = first = self.wte(input_ids) + self.wpe(torch.arange(input_ids.shape[1]))
        balance = extra = 0.0
        places = torch.tanh(self.shared(self.wpe.weight)) if self.shared is not None else None
        for i, block in enumerate(self.h):
            if i == 2:
                if self.early is not None:
                    # Half of the labels count here, another number of them per sample.
                    wanted = torch.where(labels % 2 == 0, labels, -100)
                    extra = F.cross_entropy(self.early(x).flatten(0, 1), wanted.flatten())
                x = self.quiet(x)
            x, term = block(x if places is None else x + places)
            balance = balance + term
        if self.skip:
            x = x + 0.1 * first
        return F.cross_entropy(self.head(self.ln_f(x)).flatten(0, 1), labels.flatten(), ignore_index=-1), extra, balance

    def forward(self, input_ids, labels):
        loss, extra, balance = self.terms(input_ids, labels)
        return loss + 0.3 * extra + 0.01 * balance


@dataclasses.dataclass(frozen=True)
class Model:
    build: Callable[[], nn.Module]
    seed: int = 5              # of mixtures: one that keeps every choice of a router clear of a tie
    pieces: bool = False       # a loss over the statistics of a piece: the reference is a loop over the same pieces
    starts: tuple[str, ...] = ("h.0", "h.1", "h.2", "h.3")


MODELS = {
    "dense": Model(lambda: Net(tied=True, skip=True)),
    "plain": Model(Net),
    "losses": Model(lambda: Net(hidden=(32, 128, 64, 160), skip=True, second_loss=True)),
    "experts": Model(lambda: Net(hidden=(64, 0, 64, 0), tied=True, skip=True), seed=22),
    "slots": Model(lambda: Net(hidden=(0, 64, 0, 64), form="slots"), seed=19),
    "gathered": Model(lambda: Net(hidden=(64, 0, 64, 0), tied=True, form="gathered"), seed=14),
    "grouped": Model(lambda: Net(grouped=True)),
    "bare": Model(lambda: Net(bare=True)),
    "shared": Model(lambda: Net(shared=True, tied=True)),
    "balance": Model(lambda: Net(hidden=(64, 0, 64, 0), balance=True), seed=21, pieces=True),
}


def build(name):
    torch.manual_seed(MODELS[name].seed)
    return MODELS[name].build().train()


def draw(name, samples):
    """Token chains t -> 5 t + 1, one in four replaced at random, and some labels that do not count."""
    generator = torch.Generator().manual_seed(MODELS[name].seed + 1000)
    tokens = torch.empty(samples, SEQUENCE + 1, dtype=torch.int64)
    tokens[:, 0] = torch.randint(VOCABULARY, (samples,), generator=generator)
    noise = torch.randint(VOCABULARY, (samples, SEQUENCE + 1), generator=generator)
    keep = torch.rand(samples, SEQUENCE + 1, generator=generator) < 0.75
    for i in range(1, SEQUENCE + 1):
        tokens[:, i] = torch.where(keep[:, i], (5 * tokens[:, i - 1] + 1) % VOCABULARY, noise[:, i])
    labels = tokens[:, 1:].clone()
    labels[torch.rand(samples, SEQUENCE, generator=generator) < 0.2] = -1
    return {"input_ids": tokens[:, :-1].contiguous(), "labels": labels}


def margin(module):
    """The smallest distance of a router's probabilities over which a choice would change, over all forwards so far."""
    return min((m.margin for m in module.modules() if isinstance(m, Mixture)), default=math.inf)
