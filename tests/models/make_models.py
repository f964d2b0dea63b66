#!/usr/bin/env python3
"""Makes the small models that the tests read (checked in beside this file).

    python tests/models/make_models.py [OUT]     # default: this folder; needs torch, onnx, onnxscript
"""
import pathlib
import sys

import onnx
import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))
from piper_export import export  # noqa: E402

VOCAB, WIDTH, HEADS, SEQ, BATCH = 19, 8, 2, 6, 4


class TinyMlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 10), nn.Linear(10, 10), nn.Linear(10, 3)])

    def forward(self, x, target):
        for layer in self.layers[:-1]:
            x = torch.tanh(layer(x))
        return F.mse_loss(self.layers[-1](x), target)


class Chain(nn.Module):
    """Sixteen layers that only neighbours connect: pipelines of up to sixteen equal stages."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(16))

    def forward(self, x, target):
        for layer in self.layers[:-1]:
            x = torch.tanh(layer(x))
        return F.mse_loss(self.layers[-1](x), target)


class Block(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc, self.out = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        b, s, c = x.shape
        q, k, v = (t.view(b, s, HEADS, c // HEADS).transpose(1, 2) for t in self.qkv(self.ln1(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.drop.p, is_causal=True)
        x = x + self.drop(self.proj(y.transpose(1, 2).reshape(b, s, c)))
        return x + self.drop(self.out(F.gelu(self.fc(self.ln2(x)))))


class TinyGpt(nn.Module):
    """Tied head, learned positions; labels of -1 do not count."""

    def __init__(self, layers=2, dropout=0.0):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, WIDTH), nn.Embedding(2 * SEQ, WIDTH)
        self.h = nn.ModuleList(Block(dropout) for _ in range(layers))
        self.ln_f, self.lm_head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, input_ids, labels):
        x = self.wte(input_ids) + self.wpe(torch.arange(input_ids.shape[1]))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1)


class Hazards(nn.Module):
    """What plain ONNX operators lose, in one model."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, WIDTH, padding_idx=0)
        self.norm = nn.BatchNorm1d(SEQ)
        self.scale = nn.Parameter(torch.ones(WIDTH))
        self.frozen, self.gate, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, VOCAB)
        self.frozen.weight.requires_grad_(False)

    def forward(self, ids, labels):
        x = self.norm(self.emb(ids))
        with torch.fx.traceback.annotate({"PP": 0}):
            x = self.frozen(x)
            x = self.scale * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
        with torch.no_grad():
            gate = torch.sigmoid(self.gate(x))
        with torch.fx.traceback.annotate({"PP": 1}):
            logits = self.head(x * gate + x.detach())
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1)


class Mixture(nn.Module):
    """Every one of four experts on every row, weighed by a router."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(6, 4)
        self.up, self.down = nn.Parameter(torch.randn(4, 6, 8)), nn.Parameter(torch.randn(4, 8, 6))

    def forward(self, x):
        hidden = torch.einsum("tc,ech->eth", x, self.up).tanh()
        return torch.einsum("eth,ehc,te->tc", hidden, self.down, self.router(x).softmax(-1))


class TinyExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.mixtures, self.last = nn.Linear(6, 6), nn.ModuleList([Mixture(), Mixture()]), nn.Linear(6, 3)

    def forward(self, x, target):
        x = self.first(x)
        for mixture in self.mixtures:
            x = x + mixture(x)
        return F.mse_loss(self.last(x), target)


class Routed(nn.Module):
    """Two of four experts on every row, by their gathered matrices."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(6, 4)
        self.up, self.down = nn.Parameter(torch.randn(4, 6, 8)), nn.Parameter(torch.randn(4, 8, 6))

    def forward(self, x):
        gate, ids = self.router(x).softmax(-1).topk(2)
        hidden = torch.einsum("tc,tkch->tkh", x, self.up[ids]).tanh()
        return (torch.einsum("tkh,tkhc->tkc", hidden, self.down[ids]) * gate.unsqueeze(-1)).sum(1)


class TinyRouted(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.mixtures, self.last = nn.Linear(6, 6), nn.ModuleList([Routed(), Routed()]), nn.Linear(6, 3)

    def forward(self, x, target):
        x = self.first(x)
        for mixture in self.mixtures:
            x = x + mixture(x)
        return F.mse_loss(self.last(x), target)


class Slots(nn.Module):
    """Each of four experts takes the first three rows of a batch that choose it."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(6, 4)
        self.up, self.down = nn.Parameter(torch.randn(4, 6, 8)), nn.Parameter(torch.randn(4, 8, 6))

    def forward(self, x):
        scores = self.router(x).softmax(-1)
        chosen = (scores.topk(2).indices.unsqueeze(-1) == torch.arange(4)).to(x.dtype).sum(1)
        slots = ((chosen.cumsum(0) * chosen).unsqueeze(-1) == torch.arange(1, 4)).to(x.dtype)
        rows = torch.einsum("tes,tc->esc", slots, x)
        made = torch.bmm(torch.bmm(rows, self.up).tanh(), self.down)
        return torch.einsum("tes,te,esc->tc", slots, scores, made)


class TinySlots(nn.Module):
    """Experts that take rows of the batch after experts that compute every row."""

    def __init__(self):
        super().__init__()
        self.first, self.mixtures, self.last = nn.Linear(6, 6), nn.ModuleList([Mixture(), Slots()]), nn.Linear(6, 3)

    forward = TinyRouted.forward


class RoutedChain(nn.Module):
    """Eight layers of routed experts between two others: pipelines of up to eight stages with experts in each."""

    def __init__(self):
        super().__init__()
        self.first, self.mixtures, self.last = nn.Linear(6, 6), nn.ModuleList(Routed() for _ in range(8)), nn.Linear(6, 3)

    forward = TinyRouted.forward


class Experts(nn.Module):
    """Every expert on every row, times a gate."""

    def __init__(self):
        super().__init__()
        self.w1, self.w2 = nn.Parameter(torch.randn(4, 8, 8) / 3), nn.Parameter(torch.randn(4, 8, 8) / 3)

    def forward(self, x, gate):
        return torch.einsum("eth,ehc,te->tc", F.gelu(torch.einsum("tc,ech->eth", x, self.w1)), self.w2, gate)


class TinyTwoLosses(nn.Module):
    """A mixture of experts between two layers, and a second loss before it."""

    def __init__(self):
        super().__init__()
        self.first, self.early, self.router = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 4, bias=False)
        self.experts, self.last = Experts(), nn.Linear(8, 3)

    def forward(self, x, target):
        x = torch.tanh(self.first(x))
        early = F.mse_loss(self.early(x), target)
        x = x + self.experts(x, F.softmax(self.router(x), dim=-1))
        return F.mse_loss(self.last(x), target) + 0.3 * early


class TinyStatistic(nn.Module):
    """The second layer reads a statistic of the batch that the first makes."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x, target):
        x = torch.tanh(self.first(x))
        scale = x.abs().mean()
        return F.mse_loss(self.last(x) * scale, target)


class TinyBalanced(nn.Module):
    """A loss with terms of the batch's mean that every layer makes, as routers are balanced."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)])

    def forward(self, x, target):
        balance = 0
        for layer in self.layers[:-1]:
            x = torch.tanh(layer(x))
            balance = balance + x.mean(0).square().sum()
        return F.mse_loss(self.layers[-1](x), target) + 0.1 * balance


class TinyShared(nn.Module):
    """Both layers add what one weight makes of another, without any input."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 8)
        self.table = nn.Parameter(torch.randn(4, 8))

    def forward(self, x, target):
        place = torch.tanh(self.table).sum(0)
        x = torch.tanh(self.first(x) + place)
        return F.mse_loss(self.last(x) + place, target)


class TinyPositions(nn.Module):
    """Reads samples by their numbers in the batch, beside them and in a term without them; an axis of one before them."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.pull = nn.Linear(6, 8), nn.Linear(8, 3), nn.Parameter(torch.tensor(1.0))

    def forward(self, x, target):
        place = torch.arange(x.shape[0]) * 0.1
        y = self.last(torch.tanh(self.first(x)) + place.unsqueeze(1))
        return (y - target).pow(2).unsqueeze(0).mean(0).sum() + (self.pull * place).sum()


class TinyPacked(nn.Module):
    """Attention within documents, of a window."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 12), nn.Linear(4, 3)

    def forward(self, x, documents, target):
        q, k, v = (part.unsqueeze(1) for part in self.first(x).chunk(3, -1))
        place = torch.arange(x.shape[1])
        near = (place <= place[:, None]) & (place > place[:, None] - 4)
        mask = near & (documents[:, None, :, None] == documents[:, None, None, :])
        return F.mse_loss(self.last(F.scaled_dot_product_attention(q, k, v, mask).squeeze(1)), target)


class SharedHeads(nn.Module):
    """Four heads of queries share heads of keys and values. fused: one weight makes all three, of unequal parts."""

    def __init__(self, heads, fused):
        super().__init__()
        self.heads, self.fused = heads, fused
        if fused:
            self.qkv = nn.Linear(8, 8 + 4 * heads)
        else:
            self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 2 * heads), nn.Linear(8, 2 * heads)
        self.proj = nn.Linear(8, 8)

    def forward(self, x):
        b, s, c = x.shape
        parts = self.qkv(x).split([8, 2 * self.heads, 2 * self.heads], -1) if self.fused else (self.q(x), self.k(x), self.v(x))
        q, k, v = (part.view(b, s, -1, 2).transpose(1, 2) for part in parts)
        k, v = (t[:, :, None].expand(b, self.heads, 4 // self.heads, s, 2).reshape(b, 4, s, 2) for t in (k, v))
        return self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, c))


class TinyHeads(nn.Module):
    """One head of keys and values for all queries, then two that one weight makes with the queries."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)
        self.h = nn.ModuleList((SharedHeads(1, False), SharedHeads(2, True)))

    def forward(self, x, target):
        x = self.first(x)
        for layer in self.h:
            x = x + layer(x)
        return F.mse_loss(self.last(x), target)


class TinyFrequencies(nn.Module):
    """Gradients of rows are divided by how often the batch names them."""

    def __init__(self):
        super().__init__()
        self.rows, self.last = nn.Embedding(VOCAB, 8, scale_grad_by_freq=True), nn.Linear(8, 3)

    def forward(self, ids, target):
        return F.mse_loss(self.last(torch.tanh(self.rows(ids))), target)


class LlamaBlock(nn.Module):
    """Four heads of queries that share two of keys and values, RMS norms, a gated MLP."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(16), nn.RMSNorm(16)
        self.q, self.k, self.v, self.o = (nn.Linear(16, out, bias=False) for out in (16, 8, 8, 16))
        self.gate, self.up, self.down = nn.Linear(16, 32, bias=False), nn.Linear(16, 32, bias=False), nn.Linear(32, 16, bias=False)

    def forward(self, x):
        batch, seq, _ = x.shape
        y = self.norm1(x)
        q, k, v = (part(y).view(batch, seq, -1, 4).transpose(1, 2) for part in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, seq, 16))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class TinyLlama(nn.Module):
    def __init__(self, layers=4):
        super().__init__()
        self.embed = nn.Embedding(VOCAB + 1, 16)
        self.layers = nn.ModuleList(LlamaBlock() for _ in range(layers))
        self.norm = nn.RMSNorm(16)
        self.head = nn.Linear(16, VOCAB + 1, bias=False)

    def forward(self, idx, targets):
        x = self.embed(idx)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


class Stacked(nn.Module):
    """Every one of four experts on every row by products of all of them, with gates and biases."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(8, 4, bias=False)
        self.up, self.up_bias = nn.Parameter(torch.randn(4, 8, 16)), nn.Parameter(torch.randn(4, 16))
        self.down, self.down_bias = nn.Parameter(torch.randn(4, 8, 8)), nn.Parameter(torch.randn(4, 8))

    def forward(self, x):
        rows = x.reshape(-1, 8)
        each = rows.repeat(4, 1).view(4, -1, 8)
        gate, up = (torch.bmm(each, self.up) + self.up_bias[:, None]).chunk(2, dim=-1)
        made = torch.bmm(F.silu(gate) * up, self.down) + self.down_bias[:, None]
        return (made * self.router(rows).softmax(-1).transpose(0, 1)[..., None]).sum(0).view(x.shape)


class TinyStacked(nn.Module):
    """Rows of a sequence between products: a feed-forward layer, then experts."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.up, self.down = nn.Embedding(VOCAB, 8), nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
        self.mixture, self.last = Stacked(), nn.Linear(8, VOCAB, bias=False)

    def forward(self, input_ids, labels):
        x = self.embed(input_ids)
        x = x + self.down(torch.tanh(self.up(self.norm(x))))
        x = x + self.mixture(x)
        return F.cross_entropy(self.last(x).flatten(0, 1), labels.flatten())


class TinyRoutedTokens(nn.Module):
    """Rows of a sequence between products: a feed-forward layer, then two of four experts on every row, with a norm before each."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.up, self.down = nn.Embedding(VOCAB, 6), nn.LayerNorm(6), nn.Linear(6, 8), nn.Linear(8, 6)
        self.second, self.mixture, self.last = nn.LayerNorm(6), Routed(), nn.Linear(6, VOCAB, bias=False)

    def forward(self, input_ids, labels):
        x = self.embed(input_ids)
        x = x + self.down(torch.tanh(self.up(self.norm(x))))
        x = x + self.mixture(self.second(x).flatten(0, 1)).view(x.shape)
        return F.cross_entropy(self.last(x).flatten(0, 1), labels.flatten())


class TinyBottleneck(nn.Module):
    """Products by bare matrices, of which the third makes less than the second."""

    def __init__(self):
        super().__init__()
        for k, (inputs, outputs) in enumerate(((4, 8), (8, 16), (16, 8), (8, 3))):
            setattr(self, f"w{k}", nn.Parameter(torch.randn(inputs, outputs) / inputs ** 0.5))

    def forward(self, x, target):
        return F.mse_loss(torch.tanh(torch.relu(x @ self.w0) @ self.w1 @ self.w2) @ self.w3, target)


class TinyTable(nn.Module):
    """An input without samples, which is added at each position, and a number of the step at each place of a target."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 3, bias=False)

    def forward(self, x, positions, target):
        return F.mse_loss(self.out(x + positions), target - target.mean(0))


def tokens():
    return torch.randint(1, VOCAB, (BATCH, SEQ))


def shrink(path):
    """Drops metadata that no reader of ours looks at: half of a small file."""
    model = onnx.load(path)
    for node in model.graph.node:
        kept = [p for p in node.metadata_props if p.key not in ("namespace", "pkg.torch.onnx.class_hierarchy")]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(model, path)


def main():
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    torch.manual_seed(0)
    text = {"input_ids": tokens(), "labels": tokens()}
    export(TinyMlp(), {"x": torch.randn(BATCH, 6), "target": torch.randn(BATCH, 3)}, out / "tiny_mlp.onnx")
    export(TinyGpt(), text, out / "tiny_gpt.onnx", opset=23)
    sequence = {"input_ids": {1: "S"}, "labels": {1: "S"}}
    export(TinyGpt(layers=1, dropout=0.1), text, out / "tiny_gpt_dropout.onnx", dynamic=sequence)
    export(Hazards(), {"ids": tokens(), "labels": tokens()}, out / "hazards.onnx")
    export(Chain(), {"x": torch.randn(BATCH, 4), "target": torch.randn(BATCH, 4)}, out / "chain.onnx")
    export(TinyTwoLosses(), {"x": torch.randn(BATCH, 6), "target": torch.randn(BATCH, 3)}, out / "tiny_two_losses.onnx")
    export(TinyStatistic(), {"x": torch.randn(BATCH, 6), "target": torch.randn(BATCH, 3)}, out / "tiny_statistic.onnx")
    export(TinyMlp(), {"x": torch.randn(BATCH, 6), "target": torch.randn(BATCH, 3)}, out / "tiny_mlp.pt2")
    export(TinyGpt(layers=1, dropout=0.1), text, out / "tiny_gpt_dropout.pt2", dynamic=sequence)
    export(Hazards(), {"ids": tokens(), "labels": tokens()}, out / "hazards.pt2")
    # What not to do: a fixed batch, and the exporter's own optimizer.
    mlp_inputs = {"x": torch.randn(BATCH, 6), "target": torch.randn(BATCH, 3)}
    for model, inputs, name, optimize in ((TinyMlp(), mlp_inputs, "fixed_batch", False), (TinyGpt(layers=1), text, "optimized", True)):
        program = torch.onnx.export(model.train(), (), kwargs=inputs, dynamo=True, verbose=False, opset_version=20, optimize=optimize)
        for node in program.model.graph:
            node.metadata_props.pop("pkg.torch.onnx.stack_trace", None)
        program.save(str(out / f"{name}.onnx"))
    export(TinyExperts(), {"x": torch.randn(BATCH, 6), "target": torch.randn(BATCH, 3)}, out / "tiny_experts.onnx")
    export(TinyShared(), {"x": torch.randn(BATCH, 6), "target": torch.randn(BATCH, 8)}, out / "tiny_shared.onnx")
    export(TinyRouted(), {"x": torch.randn(BATCH, 6), "target": torch.randn(BATCH, 3)}, out / "tiny_routed.onnx")
    export(TinyBalanced(), {"x": torch.randn(BATCH, 6), "target": torch.randn(BATCH, 3)}, out / "tiny_balanced.onnx")
    export(TinyPositions(), {"x": torch.randn(BATCH, 6), "target": torch.randn(BATCH, 3)}, out / "tiny_positions.onnx")
    export(TinyFrequencies(), {"ids": tokens(), "target": torch.randn(BATCH, SEQ, 3)}, out / "tiny_frequencies.onnx")
    export(RoutedChain(), {"x": torch.randn(BATCH, 6), "target": torch.randn(BATCH, 3)}, out / "routed_chain.onnx")
    export(TinyPacked(), {"x": torch.randn(BATCH, SEQ, 6), "documents": torch.randint(0, 2, (BATCH, SEQ)), "target": torch.randn(BATCH, SEQ, 3)},
           out / "tiny_packed.onnx")
    export(TinyHeads(), {"x": torch.randn(BATCH, SEQ, 6), "target": torch.randn(BATCH, SEQ, 3)}, out / "tiny_heads.onnx", opset=23)
    export(TinyLlama(), {"idx": tokens(), "targets": tokens()}, out / "tiny_llama.onnx", opset=23)
    export(TinyStacked(), {"input_ids": tokens(), "labels": tokens()}, out / "tiny_stacked.onnx")
    export(TinyRoutedTokens(), {"input_ids": tokens(), "labels": tokens()}, out / "tiny_routed_tokens.onnx")
    export(TinySlots(), {"x": torch.randn(BATCH, 6), "target": torch.randn(BATCH, 3)}, out / "tiny_slots.onnx")
    export(TinyBottleneck(), {"x": torch.randn(BATCH, 4), "target": torch.randn(BATCH, 3)}, out / "tiny_bottleneck.onnx")
    export(TinyTable(), {"x": torch.randn(BATCH, SEQ, 4), "positions": torch.randn(SEQ, 4), "target": torch.randn(BATCH, SEQ, 3)},
           out / "tiny_table.onnx", static_inputs={"positions"})
    for path in out.glob("*.onnx"):
        shrink(path)


if __name__ == "__main__":
    main()
