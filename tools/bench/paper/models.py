"""The two mixtures of experts of the paper's evaluation (Piper, arXiv 2606.11169), as transformers' Qwen3-MoE.

    python tools/piper_export.py tools/bench/paper/models.py:qwen3_1b -o qwen3_1b.pt2 --no-weights
    python tools/piper_export.py tools/bench/paper/models.py:qwen3_9b -o qwen3_9b.pt2 --no-weights

Every layer has experts, of which a token takes two; sequences are 512 tokens long. PIPER_SEQUENCE in the environment says
another length. `make` is for sizes of one's own. The `_padded` ones are what the paper's programs do to them: every expert
computes on all tokens, two (1B) and four (9B) times the rows that the router sends.
"""
import os

import torch
import transformers

VOCABULARY, HEAD_WIDTH, EXPERTS_OF_A_TOKEN = 151936, 64, 2


class Loss(torch.nn.Module):
    """The mean loss of a causal model of transformers, as its only output."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, input_ids, labels):
        return self.net(input_ids=input_ids, labels=labels, use_cache=False).loss


def make(layers, width, heads, key_heads, experts, expert_width, sequence=None, vocabulary=VOCABULARY, padded=False):
    """(model, example inputs), as tools/piper_export.py takes them. `padded`: a token takes all experts."""
    sequence = sequence or int(os.environ.get("PIPER_SEQUENCE", "512"))
    config = transformers.Qwen3MoeConfig(
        vocab_size=vocabulary, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=key_heads, head_dim=HEAD_WIDTH, intermediate_size=expert_width, moe_intermediate_size=expert_width,
        num_experts=experts, num_experts_per_tok=experts if padded else EXPERTS_OF_A_TOKEN, norm_topk_prob=True, decoder_sparse_step=1,
        tie_word_embeddings=False, max_position_embeddings=4096)
    config._attn_implementation = "sdpa"
    net = transformers.Qwen3MoeForCausalLM(config)
    net.config._experts_implementation = "batched_mm"
    ids = torch.zeros(2, sequence, dtype=torch.long)
    return Loss(net), {"input_ids": ids, "labels": ids}


def qwen3_1b(padded=False):
    return make(layers=16, width=1024, heads=16, key_heads=8, experts=4, expert_width=3584, padded=padded)


def qwen3_9b(padded=False):
    return make(layers=24, width=2048, heads=32, key_heads=8, experts=8, expert_width=7168, padded=padded)


def qwen3_1b_padded():
    return qwen3_1b(padded=True)


def qwen3_9b_padded():
    return qwen3_9b(padded=True)


def small_1b():
    """The 1B model's experts and proportions in eight layers of a width that two cores can run; its head is six layers' work, as there."""
    return make(layers=8, width=64, heads=2, key_heads=1, experts=4, expert_width=224, sequence=32, vocabulary=8192)


def small_9b():
    """As small_1b with the 9B model's experts."""
    return make(layers=8, width=64, heads=4, key_heads=1, experts=8, expert_width=224, sequence=32, vocabulary=8192)


def tiny():
    """The same architecture for tests: two layers of width 64."""
    return make(layers=2, width=64, heads=2, key_heads=1, experts=4, expert_width=32, sequence=16, vocabulary=256)
