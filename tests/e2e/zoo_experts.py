"""Mixtures of experts for the end-to-end tests, in the three forms that exporters write.

Grouped: transformers' Qwen3-MoE and Mixtral, as their own code exports (gathered expert matrices and a batched
product). Capacity: one-hot dispatch and combine around [experts, capacity, hidden]. Dense: every expert on every
token, times a gate. A token near a tie between two experts may be given to the other one by a rounding, and the
loss then jumps; `smallest_margin` measures how near any token comes in a training, and seeds are chosen by it.
"""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

def routers(model: nn.Module) -> list[nn.Module]:
    """Modules that choose experts: they have a weight [experts, hidden]."""
    return [m for name, m in model.named_modules() if name.split(".")[-1] in ("gate", "router") and hasattr(m, "weight")]


def smallest_margin(model: nn.Module, chosen: int = 2):
    """A function that returns the smallest margin that the model's routers have seen since this call: the difference
    between the last chosen and the first refused score, over the standard deviation of all scores."""
    seen = [float("inf")]

    def watch(module, inputs, output):
        x = inputs[0].detach().reshape(-1, inputs[0].shape[-1])
        scores = F.linear(x, module.weight.detach())
        top = scores.topk(chosen + 1).values
        seen[0] = min(seen[0], ((top[:, chosen - 1] - top[:, chosen]).min() / scores.std()).item())

    for module in routers(model):
        module.register_forward_hook(watch)
    return lambda: seen[0]


class CapacityExperts(nn.Module):
    """Each expert takes at most `capacity` tokens, in the order of the tokens; what is over is dropped."""

    def __init__(self, hidden, inner, experts=4, chosen=2, capacity_per_sample=12):
        super().__init__()
        self.experts, self.chosen, self.capacity_per_sample = experts, chosen, capacity_per_sample
        self.router = nn.Linear(hidden, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, hidden, inner) * 0.05)
        self.down = nn.Parameter(torch.randn(experts, inner, hidden) * 0.05)

    def forward(self, x):
        batch, length, hidden = x.shape
        tokens = x.reshape(-1, hidden)
        gate, ids = self.router(tokens).softmax(-1).topk(self.chosen)
        gate = gate / gate.sum(-1, keepdim=True)
        capacity = batch * self.capacity_per_sample
        taken = (ids.unsqueeze(-1) == torch.arange(self.experts)).to(x.dtype)            # [T, k, E]
        place = (taken.reshape(-1, self.experts).cumsum(0) - 1).reshape(taken.shape)      # [T, k, E]
        place = (place * taken).sum(-1).long()                                            # [T, k]
        slot = (place.unsqueeze(-1) == torch.arange(capacity)).to(x.dtype)                # [T, k, C]; zero where full
        dispatch = torch.einsum("tke,tkc->tec", taken, slot)
        combine = torch.einsum("tk,tke,tkc->tec", gate, taken, slot)
        h = torch.einsum("tec,th->ech", dispatch, tokens)
        h = F.silu(torch.bmm(h, self.up))
        h = torch.bmm(h, self.down)
        return torch.einsum("tec,ech->th", combine, h).reshape(batch, length, hidden)


class DenseExperts(nn.Module):
    """Every expert computes every token; the gate is zero for those that are not chosen."""

    def __init__(self, hidden, inner, experts=4, chosen=2):
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(hidden, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, hidden, inner) * 0.05)
        self.down = nn.Parameter(torch.randn(experts, inner, hidden) * 0.05)

    def forward(self, x):
        batch, length, hidden = x.shape
        tokens = x.reshape(-1, hidden)
        scores = self.router(tokens).softmax(-1)
        top, ids = scores.topk(self.chosen)
        gate = torch.zeros_like(scores).scatter(1, ids, top / top.sum(-1, keepdim=True))  # [T, E]
        h = F.silu(torch.einsum("th,ehf->etf", tokens, self.up))
        y = torch.einsum("etf,efh->eth", h, self.down)
        return torch.einsum("te,eth->th", gate, y).reshape(batch, length, hidden)


class StackedExperts(nn.Module):
    """The dense form as batched products: tokens repeated for every expert, gated units, biases, a sum over experts."""

    def __init__(self, hidden, inner, experts=4, chosen=2):
        super().__init__()
        self.experts, self.chosen = experts, chosen
        self.router = nn.Linear(hidden, experts, bias=False)
        self.gate_up, self.gate_up_bias = nn.Parameter(torch.randn(experts, hidden, 2 * inner) * 0.05), nn.Parameter(torch.randn(experts, 2 * inner) * 0.05)
        self.down, self.down_bias = nn.Parameter(torch.randn(experts, inner, hidden) * 0.05), nn.Parameter(torch.randn(experts, hidden) * 0.05)

    def forward(self, x):
        batch, length, hidden = x.shape
        tokens = x.reshape(-1, hidden)
        scores = self.router(tokens).softmax(-1)
        top, ids = scores.topk(self.chosen)
        gate = torch.zeros_like(scores).scatter(1, ids, top)
        each = tokens.repeat(self.experts, 1).view(self.experts, -1, hidden)
        left, right = (torch.bmm(each, self.gate_up) + self.gate_up_bias[:, None]).chunk(2, dim=-1)
        y = torch.bmm(F.silu(left) * right, self.down) + self.down_bias[:, None]
        return (y * gate.transpose(0, 1)[..., None]).sum(0).reshape(batch, length, hidden)


class GatheredExperts(nn.Module):
    """The grouped form by hand, with biases and a scale of each expert, and ids that count from the end."""

    def __init__(self, hidden, inner, experts=4, chosen=2):
        super().__init__()
        self.experts, self.chosen = experts, chosen
        self.router = nn.Linear(hidden, experts, bias=False)
        self.up, self.up_bias = nn.Parameter(torch.randn(experts, hidden, inner) * 0.05), nn.Parameter(torch.randn(experts, inner) * 0.05)
        self.down, self.down_bias = nn.Parameter(torch.randn(experts, inner, hidden) * 0.05), nn.Parameter(torch.randn(experts, hidden) * 0.05)
        self.scale = nn.Parameter(torch.ones(experts, 1))

    def forward(self, x):
        batch, length, hidden = x.shape
        tokens = x.reshape(-1, hidden)
        gate, ids = self.router(tokens).softmax(-1).topk(self.chosen)
        ids = ids - self.experts
        h = torch.einsum("th,tkhf->tkf", tokens, self.up[ids]) + self.up_bias[ids]
        y = torch.einsum("tkf,tkfh->tkh", F.gelu(h), self.down[ids]) + self.down_bias[ids]
        y = y * self.scale[ids]
        return (y * gate.unsqueeze(-1)).sum(1).reshape(batch, length, hidden)


class ExpertBlock(nn.Module):
    def __init__(self, hidden, heads, experts):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.moe = experts(hidden, 2 * hidden)

    def forward(self, x):
        b, s, c = x.shape
        q, k, v = (t.view(b, s, self.heads, c // self.heads).transpose(1, 2) for t in self.qkv(self.ln1(x)).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, s, c))
        return x + self.moe(self.ln2(x))


class ExpertGpt(nn.Module):
    def __init__(self, experts, vocabulary, sequence, width, blocks):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(sequence, width)
        self.h = nn.ModuleList(ExpertBlock(width, 4, experts) for _ in range(blocks))
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, input_ids, labels):
        x = self.wte(input_ids) + self.wpe(torch.arange(input_ids.shape[1]))
        for block in self.h:
            x = block(x)
        return F.cross_entropy(self.head(self.ln_f(x)).flatten(0, 1), labels.flatten())
