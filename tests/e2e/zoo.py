"""Small seeded models of the end-to-end tests: fp32, loss inside forward, learnable data.

MODELS maps a name to a Model: how to build it, how to draw data for it, where its four quarters begin.
Sizes are multiples of 32 where bits are compared across row splits, and four blocks deep so that four
pipeline stages fit.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

import zoo_experts as experts

VOCABULARY, SEQUENCE, BLOCKS, WIDTH = 97, 16, 4, 64


@dataclasses.dataclass(frozen=True)
class Model:
    build: Callable[[], nn.Module]
    draw: Callable[[int, torch.Generator], dict[str, torch.Tensor]]
    quarters: tuple[str, ...] = ()      # module where each quarter of the network begins
    sgd_lr: float = 0.05
    tolerance: float = 1e-5             # of losses over all steps, relative
    steps: int = 20                     # mixtures whose pieces train apart: 10, half as many chances of a tie
    exact_pieces: bool = True           # the mean over equal pieces is the batch's loss
    seed: int = 5
    per_microbatch: tuple[str, ...] = ()   # modules whose statistics are those of a piece of the batch


# ------------------------------------------------------------------ data
def _chains(samples, length, generator):
    """Token chains t -> 5 t + 1, one token in four replaced at random."""
    tokens = torch.empty(samples, length, dtype=torch.int64)
    tokens[:, 0] = torch.randint(VOCABULARY, (samples,), generator=generator)
    noise = torch.randint(VOCABULARY, (samples, length), generator=generator)
    keep = torch.rand(samples, length, generator=generator) < 0.75
    for i in range(1, length):
        tokens[:, i] = torch.where(keep[:, i], (5 * tokens[:, i - 1] + 1) % VOCABULARY, noise[:, i])
    return tokens


def draw_next_token(samples, generator):
    tokens = _chains(samples, SEQUENCE + 1, generator)
    return {"input_ids": tokens[:, :-1].contiguous(), "labels": tokens[:, 1:].contiguous()}


def draw_causal(samples, generator):
    tokens = _chains(samples, SEQUENCE, generator)
    return {"input_ids": tokens, "labels": tokens.clone()}


def draw_reversed(samples, generator):
    """A sequence and, shorter, its end backwards."""
    tokens = _chains(samples, SEQUENCE, generator).clamp(min=1)
    return {"input_ids": tokens, "labels": tokens.flip(1)[:, :SEQUENCE - 4].contiguous()}


def draw_masked(samples, generator):
    """Uneven lengths and uneven numbers of counted labels, so that a mean of means is wrong."""
    tokens = _chains(samples, SEQUENCE, generator)
    lengths = torch.randint(SEQUENCE // 2, SEQUENCE + 1, (samples, 1), generator=generator)
    attention_mask = (torch.arange(SEQUENCE) < lengths).long()
    chosen = (torch.rand(samples, SEQUENCE, generator=generator) < 0.25) & (attention_mask == 1)
    chosen[:, 0] = True
    return {"input_ids": torch.where(chosen, VOCABULARY - 1, tokens) * attention_mask,
            "attention_mask": attention_mask, "labels": torch.where(chosen, tokens, -100)}


def draw_vectors(samples, generator):
    teacher = torch.randn(32, 8, generator=generator) / 6
    x = torch.randn(samples, 32, generator=generator)
    return {"x": x, "target": torch.tanh(2 * x @ teacher)}


def draw_images(samples, generator):
    patterns = torch.randn(10, 3, 16, 16, generator=generator)
    labels = torch.randint(10, (samples,), generator=generator)
    return {"pixel_values": patterns[labels] + torch.randn(samples, 3, 16, 16, generator=generator), "labels": labels}


# ------------------------------------------------------------------ plain PyTorch
class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(32, 128), nn.Linear(128, 128), nn.Linear(128, 128), nn.Linear(128, 8)])

    def forward(self, x, target):
        for layer in self.layers[:-1]:
            x = torch.tanh(layer(x))
        return F.mse_loss(self.layers[-1](x), target)


class Detached(Mlp):
    """The second layer's weights are read again further on, without a gradient."""

    def forward(self, x, target):
        for layer in self.layers[:-1]:
            x = torch.tanh(layer(x))
        x = x + 0.1 * F.linear(x, self.layers[1].weight.detach())
        return F.mse_loss(self.layers[-1](x), target)


class Balance(nn.Module):
    """A statistic of the batch, divided by hand."""

    def forward(self, x):
        return (x.sum(0) / x.shape[0]).pow(2).sum()


class Counted(Mlp):
    """Sums over the batch that the model itself divides by the batch's extent."""

    def __init__(self):
        super().__init__()
        self.balance = Balance()

    def forward(self, x, target):
        for layer in self.layers[:-1]:
            x = torch.tanh(layer(x))
        z = self.layers[-1](x)
        samples = z.shape[0]
        loss = F.kl_div(F.log_softmax(z, -1), target.softmax(-1), reduction="batchmean")
        loss = loss + (z - target).pow(2).sum() / z.numel() + z.abs().sum() * (0.1 / (2.0 * samples))
        return loss + 0.1 * self.balance(z)


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.norm = nn.GroupNorm(8, 32)
        self.down = nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.head = nn.Linear(64, 10)

    def forward(self, pixel_values, labels):
        x = F.max_pool2d(F.relu(self.norm(self.stem(pixel_values))), 2)
        x = F.adaptive_avg_pool2d(F.silu(self.down(x)), 1).flatten(1)
        return F.cross_entropy(self.head(x), labels)


class Block(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.heads, self.dropout = 4, dropout
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        b, s, c = x.shape
        q, k, v = (t.view(b, s, self.heads, c // self.heads).transpose(1, 2) for t in self.qkv(self.ln1(x)).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, s, c))
        return x + self.drop(self.down(F.gelu(self.up(self.ln2(x)))))


class Gpt(nn.Module):
    """Learned positions, head tied to the token embedding, and a skip connection over the blocks."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(SEQUENCE, WIDTH)
        self.h = nn.ModuleList(Block(dropout) for _ in range(BLOCKS))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        nn.init.normal_(self.wte.weight, std=0.05)
        self.head.weight = self.wte.weight

    def forward(self, input_ids, labels):
        x = first = self.wte(input_ids) + self.wpe(torch.arange(input_ids.shape[1]))
        for block in self.h:
            x = block(x)
        return F.cross_entropy(self.head(self.ln_f(x + 0.1 * first)).flatten(0, 1), labels.flatten(), ignore_index=-1)


class InPlace(nn.Module):
    """Writes into tensors, through views of them, and under no_grad; batch statistics on the way."""

    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(32, 64), nn.BatchNorm1d(64), nn.Linear(64, 8)
        self.mix = nn.Parameter(torch.randn(64, 64).t() / 8)       # not stored row by row
        self.register_buffer("ramp", torch.linspace(-1, 1, 64))

    def forward(self, x, target):
        h = self.norm(self.up(x))
        h[target[:, 0] > 0.5] = 0.25
        z = torch.zeros_like(h)
        z[:, 2:40] = h[:, 1:39]
        z[:, 0] += 1
        pairs = z.view(-1, 32, 2)
        pairs[:, 3:5].mul_(0.5)
        z += h @ self.mix
        pairs.transpose(1, 2)[:, 0].add_(self.ramp[:32])
        with torch.no_grad():
            gate = torch.sigmoid(h)
            gate[:, :4] = 1
        out = self.down(torch.tanh_(z * gate) + h)
        out.clamp_(-3, 3)
        return F.mse_loss(out, target)


class Normed(nn.Module):
    """Batch normalisation with running statistics, over enough values in a piece of two samples."""

    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(32, 64), nn.BatchNorm1d(8), nn.Linear(64, 8)

    def forward(self, x, target):
        return F.mse_loss(self.down(torch.tanh(self.norm(self.up(x).view(-1, 8, 8)).flatten(1))), target)


class Pooled(nn.Module):
    """A mean over places of what a product makes: its gradient is one row, repeated."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x, target):
        return F.mse_loss(self.down(self.up(x.view(-1, 4, 8)).mean(1)), target)


class TaggedGpt(Gpt):
    """The stages of a pipeline are annotated in Python."""

    def forward(self, input_ids, labels):
        with torch.fx.traceback.annotate({"PP": 0}):
            x = first = self.wte(input_ids) + self.wpe(torch.arange(input_ids.shape[1]))
            for block in self.h[:2]:
                x = block(x)
        with torch.fx.traceback.annotate({"PP": 1}):
            for block in self.h[2:]:
                x = block(x)
            logits = self.head(self.ln_f(x + 0.1 * first))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1)


# ------------------------------------------------------------------ transformers, random weights, no edits
class Loss(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net


class CausalLoss(Loss):
    def forward(self, input_ids, labels):
        return self.net(input_ids=input_ids, labels=labels, use_cache=False).loss


class MaskedLoss(Loss):
    def forward(self, input_ids, attention_mask, labels):
        return self.net(input_ids=input_ids, attention_mask=attention_mask, labels=labels).loss


class SequenceToSequenceLoss(Loss):
    def forward(self, input_ids, labels):
        return self.net(input_ids=input_ids, labels=labels, use_cache=False).loss


class ImageLoss(Loss):
    def forward(self, pixel_values, labels):
        return self.net(pixel_values=pixel_values, labels=labels).loss


def _transformer(wrapper, family, head, attention="sdpa", **config):
    def build():
        import transformers
        made = getattr(transformers, family + "Config")(**config)
        made._attn_implementation = attention
        return wrapper(getattr(transformers, head)(made))
    return build


_DECODER = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": BLOCKS, "num_attention_heads": 4,
            "num_key_value_heads": 2, "intermediate_size": 160, "max_position_embeddings": 2 * SEQUENCE}

gpt2 = _transformer(CausalLoss, "GPT2", "GPT2LMHeadModel", vocab_size=VOCABULARY, n_positions=2 * SEQUENCE, n_embd=WIDTH,
                    n_layer=BLOCKS, n_head=4, embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0, bos_token_id=0, eos_token_id=0)
llama = _transformer(CausalLoss, "Llama", "LlamaForCausalLM", **_DECODER)
qwen3 = _transformer(CausalLoss, "Qwen3", "Qwen3ForCausalLM", head_dim=16, **_DECODER)
phi3 = _transformer(CausalLoss, "Phi3", "Phi3ForCausalLM", pad_token_id=0, **_DECODER)
bert = _transformer(MaskedLoss, "Bert", "BertForMaskedLM", vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=BLOCKS,
                    num_attention_heads=4, intermediate_size=160, max_position_embeddings=2 * SEQUENCE,
                    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
vit = _transformer(ImageLoss, "ViT", "ViTForImageClassification", hidden_size=WIDTH, num_hidden_layers=BLOCKS, num_attention_heads=4,
                   intermediate_size=160, image_size=16, patch_size=4, num_labels=10, hidden_dropout_prob=0.0,
                   attention_probs_dropout_prob=0.0)

# Learned relative positions are a bias of the attention scores. torch's ONNX exporter cannot export it with sdpa.
_T5 = {"vocab_size": VOCABULARY, "d_model": WIDTH, "d_kv": 16, "d_ff": 160, "num_layers": BLOCKS // 2, "num_decoder_layers": BLOCKS // 2,
       "num_heads": 4, "dropout_rate": 0.0, "decoder_start_token_id": 0, "pad_token_id": 0}
t5 = _transformer(SequenceToSequenceLoss, "T5", "T5ForConditionalGeneration", "eager", **_T5)
t5_sdpa = _transformer(SequenceToSequenceLoss, "T5", "T5ForConditionalGeneration", "sdpa", **_T5)


_T5_QUARTERS = ("net.encoder.block.0", "net.encoder.block.1", "net.decoder.block.0", "net.decoder.block.1")


_EXPERTS = {"num_experts_per_tok": 2, "output_router_logits": True, "router_aux_loss_coef": 0.02, **_DECODER}


def _mixture(family, implementation="batched_mm", **config):   # batched_mm is the one that ONNX can hold
    base = _transformer(CausalLoss, family, family + "ForCausalLM", **_EXPERTS, **config)

    def build():
        model = base()
        model.net.config._experts_implementation = implementation
        return model
    return build


_QWEN3_MOE = {"head_dim": 16, "num_experts": 8, "moe_intermediate_size": 32, "norm_topk_prob": True}
qwen3_moe = _mixture("Qwen3Moe", **_QWEN3_MOE)
qwen3_moe_sorted = _mixture("Qwen3Moe", "grouped_mm", **_QWEN3_MOE)   # sorts the rows itself; .pt2 alone
mixtral = _mixture("Mixtral", num_local_experts=4, sliding_window=None)


def _experts(form):
    return lambda: experts.ExpertGpt(form, VOCABULARY, SEQUENCE, WIDTH, BLOCKS)


def _quarters(pattern):
    return tuple(pattern.format(i) for i in range(BLOCKS))


MODELS = {
    "mlp": Model(Mlp, draw_vectors, _quarters("layers.{}")),
    "pooled": Model(Pooled, draw_vectors, ("up", "up", "down", "down")),
    "detached": Model(Detached, draw_vectors, _quarters("layers.{}")),
    "counted": Model(Counted, draw_vectors, _quarters("layers.{}"), per_microbatch=("balance",)),
    "cnn": Model(Cnn, draw_images, ("stem", "norm", "down", "head"), tolerance=1e-4),
    "gpt": Model(Gpt, draw_next_token, _quarters("h.{}")),
    "gpt_dropout": Model(lambda: Gpt(dropout=0.2), draw_next_token, _quarters("h.{}")),
    "moe_stacked": Model(_experts(experts.StackedExperts), draw_next_token, _quarters("h.{}"), seed=26),
    "gpt2": Model(gpt2, draw_causal, _quarters("net.transformer.h.{}")),
    "llama": Model(llama, draw_causal, _quarters("net.model.layers.{}")),
    "qwen3": Model(qwen3, draw_causal, _quarters("net.model.layers.{}")),
    "phi3": Model(phi3, draw_causal, _quarters("net.model.layers.{}")),
    "bert": Model(bert, draw_masked, _quarters("net.bert.encoder.layer.{}"), exact_pieces=False),
    "in_place": Model(InPlace, draw_vectors, ("up", "norm", "down", "down"), exact_pieces=False),
    "normed": Model(Normed, draw_vectors, ("up", "up", "down", "down"), per_microbatch=("norm",)),
    "gpt_tagged": Model(TaggedGpt, draw_next_token),
    "t5": Model(t5, draw_reversed, _T5_QUARTERS),
    "t5_sdpa": Model(t5_sdpa, draw_reversed, _T5_QUARTERS),
    "vit": Model(vit, draw_images, _quarters("net.vit.layers.{}")),
    # Seeds by router_margins.py.
    "qwen3_moe": Model(qwen3_moe, draw_causal, _quarters("net.model.layers.{}"), seed=14, steps=10, per_microbatch=("*",)),
    "qwen3_moe_sorted": Model(qwen3_moe_sorted, draw_causal, _quarters("net.model.layers.{}"), seed=14, steps=10, per_microbatch=("*",)),
    "mixtral": Model(mixtral, draw_causal, _quarters("net.model.layers.{}"), seed=25, steps=10, per_microbatch=("*",)),
    "moe_gathered": Model(_experts(experts.GatheredExperts), draw_next_token, _quarters("h.{}"), seed=13, steps=10),
    "moe_capacity": Model(_experts(experts.CapacityExperts), draw_next_token, _quarters("h.{}"), seed=24, steps=10, per_microbatch=("*.moe",)),
    "moe_dense": Model(_experts(experts.DenseExperts), draw_next_token, _quarters("h.{}"), seed=22),
}


def build(name):
    torch.manual_seed(MODELS[name].seed)
    return MODELS[name].build().train()


def draw(name, samples):
    return MODELS[name].draw(samples, torch.Generator().manual_seed(MODELS[name].seed + 1000))
