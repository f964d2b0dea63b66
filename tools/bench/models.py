"""The models of the benchmarks, in plain PyTorch: functions for tools/piper_export.py, and stages for PyTorch's own pipelining.

`tied` is the demo GPT, `untied` the same with a head of its own (PyTorch's pipelining offers no tied weights), `wide` a GPT whose
parameters outweigh its activations, `experts` a GPT with a mixture of experts in every block. `small` is a GPT of 14 M parameters, `gpt2s`
GPT-2's 124 M with 256 positions, `gpt2` with its own 1024; `llama20m` a Llama of 19 M (root-mean-square norms, rotary positions, SwiGLU, two
key heads for six query heads), `llama_small` one of 5 M whose heads divide by four, `qwen3_1b` a dense Qwen3 of 1.1 billion (also norms of
queries and keys; tied). `moe` is the demo GPT with eight experts, two of them for each token, `moe_capacity` the same with a limit to the
tokens of an expert; `tiny` is so small that only the time between kernels is left.

  models.py MODEL FILE.onnx     # exports it with zeros in place of its weights, for `piperc --weights none`: much less memory
"""
from __future__ import annotations

import math
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn

TOOLS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOOLS / "demo"))
import model as demo  # noqa: E402

EXPERTS, EXPERT_WIDTH, EXPERT_HIDDEN, EXPERT_SEQUENCE = 4, 128, 256, 64


def tied():
    return demo.make_model()


def untied():
    module, example = demo.make_model()
    module.head.weight = nn.Parameter(module.wte.weight.detach().clone())
    return module, example


class WideBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, s, c = x.shape
        q, k, v = (t.view(b, s, self.heads, c // self.heads).transpose(1, 2) for t in self.qkv(self.ln_1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, c))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class WideGpt(nn.Module):
    def __init__(self, width, layers, sequence, vocabulary=256, heads=8):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(sequence, width)
        self.h = nn.ModuleList(WideBlock(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1], device=idx.device))
        for block in self.h:
            x = block(x)
        return F.cross_entropy(self.head(self.ln_f(x)).flatten(0, 1), targets.flatten())


def wide():
    torch.manual_seed(1)
    example = torch.randint(256, (2, 32))
    return WideGpt(512, 8, 32), {"idx": example, "targets": example.clone()}


def _example(vocabulary, sequence):
    example = torch.randint(vocabulary, (2, sequence))
    return {"idx": example, "targets": example.clone()}


def small():
    torch.manual_seed(1)
    module = WideGpt(384, 6, 256, vocabulary=8192, heads=6)
    module.head.weight = module.wte.weight
    return module, _example(8192, 256)


def _gpt2(sequence, tied=True):
    torch.manual_seed(1)
    module = WideGpt(768, 12, sequence, vocabulary=50257, heads=12)
    nn.init.normal_(module.wte.weight, std=0.02)
    if tied:
        module.head.weight = module.wte.weight
    return module, _example(50257, sequence)


def gpt2s():
    return _gpt2(256)


def gpt2():
    return _gpt2(1024)


def gpt2_untied():
    return _gpt2(1024, tied=False)


class LlamaBlock(nn.Module):
    def __init__(self, width, inner, heads, key_heads, size, qk_norms):
        super().__init__()
        self.size = size
        self.norm_1, self.norm_2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.out = nn.Linear(width, heads * size, bias=False), nn.Linear(heads * size, width, bias=False)
        self.k, self.v = (nn.Linear(width, key_heads * size, bias=False) for _ in range(2))
        self.q_norm, self.k_norm = (nn.RMSNorm(size) if qk_norms else nn.Identity() for _ in range(2))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def turned(self, x, cos, sin):
        left, right = x.chunk(2, -1)
        return x * cos + torch.cat((-right, left), -1) * sin

    def forward(self, x, cos, sin):
        samples, length, _ = x.shape
        h = self.norm_1(x)
        q, k, v = (f(h).view(samples, length, -1, self.size).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = self.turned(self.q_norm(q), cos, sin), self.turned(self.k_norm(k), cos, sin)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(samples, length, -1))
        h = self.norm_2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, width, layers, inner, sequence, vocabulary, heads=6, key_heads=2, size=64, qk_norms=False, base=10000.0):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.h = nn.ModuleList(LlamaBlock(width, inner, heads, key_heads, size, qk_norms) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        angles = torch.outer(torch.arange(sequence), base ** (-torch.arange(0, size, 2) / size)).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, idx, targets):
        x = self.embed(idx)
        for block in self.h:
            x = block(x, self.cos, self.sin)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def llama20m():
    torch.manual_seed(1)
    return Llama(384, 8, 1024, 256, 8192), _example(8192, 256)


def llama_small():
    """Eight blocks, eight heads and four of keys: kernels of at most some milliseconds for a sample."""
    torch.manual_seed(1)
    return Llama(256, 8, 512, 256, 1024, heads=8, key_heads=4, size=32), _example(1024, 256)


def qwen3_1b():
    torch.manual_seed(1)
    module = Llama(2048, 16, 6144, 2048, 151936, heads=16, key_heads=8, size=128, qk_norms=True, base=1e6)
    nn.init.normal_(module.embed.weight, std=0.02)
    module.head.weight = module.embed.weight
    return module, _example(151936, 2048)


class Mixture(nn.Module):
    """Every expert on every token; a gate, zero except for the two best experts, weighs the sum."""

    def __init__(self, width, hidden, experts):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, hidden) / math.sqrt(width))
        self.down = nn.Parameter(torch.randn(experts, hidden, width) / math.sqrt(hidden))

    def forward(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        probs = F.softmax(self.router(tokens), dim=-1)
        weight, chosen = probs.topk(2, dim=-1)
        gate = torch.zeros_like(probs).scatter(1, chosen, weight / weight.sum(-1, keepdim=True))
        hidden = F.gelu(torch.einsum("tc,ech->eth", tokens, self.up), approximate="tanh")
        return torch.einsum("eth,ehc,te->tc", hidden, self.down, gate).view_as(x)


class IndexMixture(nn.Module):
    """Two experts for each token, which compute no other. In training each takes its tokens by index, as suits eager PyTorch; the counts
    of tokens depend on data and cannot be exported, so that the exporter sees each token's matrices gathered, as transformers writes it."""

    def __init__(self, width, hidden, experts):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, hidden, width) / math.sqrt(width))
        self.down = nn.Parameter(torch.randn(experts, width, hidden) / math.sqrt(hidden))

    def forward(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        weight, chosen = F.softmax(self.router(tokens), dim=-1).topk(2, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        compute = self.gathered if torch.compiler.is_exporting() else self.indexed
        return compute(tokens, weight, chosen).view_as(x)

    def indexed(self, tokens, weight, chosen):
        out = torch.zeros_like(tokens)
        for expert in range(self.up.shape[0]):
            rows, place = torch.where(chosen == expert)
            hidden = F.linear(F.gelu(F.linear(tokens[rows], self.up[expert]), approximate="tanh"), self.down[expert])
            out = out.index_add(0, rows, (hidden * weight[rows, place, None]).to(out.dtype))
        return out

    def gathered(self, tokens, weight, chosen):
        rows, experts = torch.arange(tokens.shape[0], device=tokens.device).repeat_interleave(2), chosen.reshape(-1)
        hidden = torch.bmm(self.up[experts], tokens[rows].unsqueeze(-1)).squeeze(-1)
        hidden = torch.bmm(self.down[experts], F.gelu(hidden, approximate="tanh").unsqueeze(-1)).squeeze(-1)
        hidden = hidden * weight.reshape(-1, 1)
        return hidden.view(tokens.shape[0], 2, -1).sum(1)


class CapacityMixture(Mixture):
    """Each expert has room for 1.25 times its share of the tokens, in their order; what is over is dropped."""

    def forward(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        experts = self.up.shape[0]
        capacity = x.shape[0] * (x.shape[1] * 2 * 5 // (4 * experts))
        weight, chosen = F.softmax(self.router(tokens), dim=-1).topk(2, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        taken = (chosen.unsqueeze(-1) == torch.arange(experts, device=x.device)).to(x.dtype)
        place = (taken.reshape(-1, experts).cumsum(0) - 1).reshape(taken.shape)
        place = (place * taken).sum(-1).long()
        slot = (place.unsqueeze(-1) == torch.arange(capacity, device=x.device)).to(x.dtype)
        inputs = torch.einsum("tke,tkc,th->ech", taken, slot, tokens)
        hidden = torch.bmm(F.gelu(torch.bmm(inputs, self.up), approximate="tanh"), self.down)
        return torch.einsum("tk,tke,tkc,ech->th", weight, taken, slot, hidden).view_as(x)


class ExpertBlock(nn.Module):
    def __init__(self, width, hidden, experts, mixture=Mixture, heads=4):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mixture = mixture(width, hidden, experts)

    def forward(self, x):
        b, s, c = x.shape
        q, k, v = (t.view(b, s, self.heads, c // self.heads).transpose(1, 2) for t in self.qkv(self.ln_1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, c))
        return x + self.mixture(self.ln_2(x))


class ExpertGpt(nn.Module):
    def __init__(self, layers, width, hidden, experts, sequence, **block):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(256, width), nn.Embedding(sequence, width)
        self.h = nn.ModuleList(ExpertBlock(width, hidden, experts, **block) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, 256, bias=False)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1], device=idx.device))
        for block in self.h:
            x = block(x)
        return F.cross_entropy(self.head(self.ln_f(x)).flatten(0, 1), targets.flatten())


def _experts(layers, width, hidden, sequence, experts=EXPERTS):
    torch.manual_seed(1)
    example = torch.randint(256, (2, sequence))
    return ExpertGpt(layers, width, hidden, experts, sequence), {"idx": example, "targets": example.clone()}


def experts():
    return _experts(4, EXPERT_WIDTH, EXPERT_HIDDEN, EXPERT_SEQUENCE)


def experts_deep():
    """16 small blocks: one for each stage of a V on eight ranks."""
    return _experts(16, 32, 32, 8)


def experts_deep_eight():
    """The same with eight experts a block, to part over eight ranks."""
    return _experts(16, 32, 32, 8, experts=8)


def experts_three_a_stage():
    """24 small blocks: three for each of eight stages."""
    return _experts(24, 32, 32, 8)


def _demo_with_experts(mixture):
    torch.manual_seed(1)
    return ExpertGpt(4, 192, 384, 8, 128, mixture=mixture, heads=6), _example(256, 128)


def moe():
    return _demo_with_experts(IndexMixture)


def moe_capacity():
    return _demo_with_experts(CapacityMixture)


def tiny():
    torch.manual_seed(1)
    return WideGpt(8, 4, 8, heads=2), _example(256, 8)


def flops_per_token(module, sequence):
    """The operations of a training step: 6 for each weight of a product, 12 * sequence * width for the attention of each block.

    Chowdhery et al. 2022 (PaLM), appendix B: forward 2 and backward 4 a weight; scores and mixtures of all positions, though causal
    attention needs half of them; nothing for embeddings, norms, or what is computed again. Of experts those that a token takes.
    """
    weights = sum(part.weight.numel() for part in module.modules() if isinstance(part, nn.Linear))
    for part in module.modules():
        for matrices in (p for p in part.parameters(recurse=False) if p.dim() == 3):    # one an expert; `Mixture` computes all
            weights += matrices[0].numel() * (len(matrices) if type(part) is Mixture else 2)
    return 6 * weights + 12 * sequence * sum(block.out.in_features for block in module.h)


class Stage(nn.Module):
    """Blocks [first, last) of a GPT of the demo's form, with the embeddings before the first and the head after the last."""

    def __init__(self, whole, first, last):
        super().__init__()
        self.h = nn.ModuleList(whole.h[first:last])
        self.wte, self.wpe = (whole.wte, whole.wpe) if first == 0 else (None, None)
        self.ln_f, self.head = (whole.ln_f, whole.head) if last == len(whole.h) else (None, None)

    def forward(self, x):
        if self.wte is not None:
            x = self.wte(x) + self.wpe(torch.arange(x.shape[1], device=x.device))
        for block in self.h:
            x = block(x)
        return x if self.head is None else self.head(self.ln_f(x))


def without_weights(module):
    """Its parameters become zeros that take no memory; tied ones stay tied."""
    shared = {}
    for part in module.modules():
        for name, parameter in part.named_parameters(recurse=False, remove_duplicate=False):
            zeros = shared.setdefault(parameter, nn.Parameter(torch.zeros((), dtype=parameter.dtype).expand(parameter.shape)))
            setattr(part, name, zeros)
    return module


if __name__ == "__main__":
    sys.path.insert(0, str(TOOLS))
    import piper_export
    made, inputs = globals()[sys.argv[1]]()
    # Weights that share one zero cannot be moved, which the comparison with what was exported does.
    piper_export.export(without_weights(made), inputs, sys.argv[2], check=False)
