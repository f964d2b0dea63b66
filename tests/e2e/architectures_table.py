"""The architectures of architectures.py: models of transformers and modules of torch.nn, as they are, small, with random
weights. Dropout is 0 everywhere, since PyTorch draws other masks than piper."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, SEQUENCE, WIDTH, LAYERS, HEADS, CLASSES, PIXELS = 61, 12, 32, 2, 4, 5, 32


@dataclasses.dataclass(frozen=True)
class Architecture:
    name: str
    family: str                                               # heading of the page
    build: Callable[[], nn.Module]                            # forward returns the loss, or something with a `loss`
    draw: Callable[[int], dict[str, torch.Tensor]]            # data of so many samples
    statistics: bool = False                                  # of the batch (batch normalisation): pieces have their own

    @property
    def rate(self):
        """Statistics of few values amplify rounding from step to step: such models take smaller steps."""
        return 0.001 if self.statistics else 0.02


ALL: list[Architecture] = []


# ------------------------------------------------------------------ data
def tokens(samples):
    return torch.randint(1, VOCABULARY, (samples, SEQUENCE))


def causal(samples):
    ids = tokens(samples)
    return {"input_ids": ids, "labels": ids.clone()}


def masked(samples):
    return {"input_ids": tokens(samples), "labels": tokens(samples)}


def sequences(samples):
    return {"input_ids": tokens(samples), "labels": tokens(samples)[:, :SEQUENCE - 3].contiguous()}


def sentences(samples):
    return {"input_ids": tokens(samples), "labels": torch.randint(CLASSES, (samples,))}


def images(samples):
    return {"pixel_values": torch.randn(samples, 3, PIXELS, PIXELS), "labels": torch.randint(CLASSES, (samples,))}


def waves(samples):
    return {"input_values": torch.randn(samples, 800), "labels": torch.randint(CLASSES, (samples,))}


def vectors(*axes, out=8):
    return lambda samples: {"x": torch.randn(samples, *axes), "target": torch.randn(samples, out)}


# ------------------------------------------------------------------ transformers
def transformers_model(family, name, config, head, draw, statistics=False, adjust=None, **values):
    def build():
        import transformers
        made = getattr(transformers, config)(**values)
        for part in (made, *(v for v in vars(made).values() if isinstance(v, transformers.PretrainedConfig))):
            for key, value in list(vars(part).items()):
                if ("drop" in key or key.startswith("mask_")) and isinstance(value, float):
                    setattr(part, key, 0.0)
            if hasattr(part, "apply_spec_augment"):
                part.apply_spec_augment = False
        made.use_cache = False
        if adjust:
            adjust(made)
        return getattr(transformers, head)(made)
    ALL.append(Architecture(name, family, build, draw, statistics))


def decoder(name, config, head=None, **values):
    transformers_model("Decoders", name, config, head or config.removesuffix("Config") + "ForCausalLM", causal,
                       **{**TEXT, "num_key_value_heads": 2, "head_dim": WIDTH // HEADS, **values})


TEXT = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "intermediate_size": 48, "max_position_embeddings": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GPT = {"vocab_size": VOCABULARY, "n_positions": 32, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "bos_token_id": 1, "eos_token_id": 2}

transformers_model("Decoders", "GPT-2", "GPT2Config", "GPT2LMHeadModel", causal, **GPT)
transformers_model("Decoders", "GPT-J", "GPTJConfig", "GPTJForCausalLM", causal, rotary_dim=4, **GPT)
transformers_model("Decoders", "CodeGen", "CodeGenConfig", "CodeGenForCausalLM", causal, rotary_dim=4, **GPT)
transformers_model("Decoders", "GPT-BigCode", "GPTBigCodeConfig", "GPTBigCodeForCausalLM", causal, **GPT)
transformers_model("Decoders", "GPT-Neo", "GPTNeoConfig", "GPTNeoForCausalLM", causal, vocab_size=VOCABULARY, hidden_size=WIDTH, num_layers=LAYERS,
                   num_heads=HEADS, attention_types=[[["global", "local"], 1]], window_size=4, max_position_embeddings=32)
decoder("GPT-NeoX", "GPTNeoXConfig")
decoder("Llama", "LlamaConfig")
decoder("Mistral", "MistralConfig", sliding_window=4)
decoder("Qwen2", "Qwen2Config")
decoder("Qwen3", "Qwen3Config")
decoder("Gemma", "GemmaConfig")
decoder("Gemma 2", "Gemma2Config", query_pre_attn_scalar=8, sliding_window=4)
decoder("Gemma 3", "Gemma3TextConfig", "Gemma3ForCausalLM", query_pre_attn_scalar=8, sliding_window=4)
decoder("Phi", "PhiConfig", num_key_value_heads=HEADS)
decoder("Phi-3", "Phi3Config")
decoder("StableLM", "StableLmConfig")
decoder("StarCoder2", "Starcoder2Config")
decoder("OLMo", "OlmoConfig")
decoder("OLMo 2", "Olmo2Config")
decoder("Granite", "GraniteConfig")
decoder("Cohere", "CohereConfig")
decoder("GLM", "GlmConfig")
decoder("Nemotron", "NemotronConfig")
decoder("SmolLM3", "SmolLM3Config")
decoder("BioGPT", "BioGptConfig")
transformers_model("Decoders", "Falcon", "FalconConfig", "FalconForCausalLM", causal, multi_query=True, alibi=False, **TEXT)
transformers_model("Decoders", "BLOOM", "BloomConfig", "BloomForCausalLM", causal, vocab_size=VOCABULARY, hidden_size=WIDTH, n_layer=LAYERS, n_head=HEADS)
transformers_model("Decoders", "MPT", "MptConfig", "MptForCausalLM", causal, vocab_size=VOCABULARY, d_model=WIDTH, n_layers=LAYERS, n_heads=HEADS, max_seq_len=32)
transformers_model("Decoders", "OPT", "OPTConfig", "OPTForCausalLM", causal, ffn_dim=48, word_embed_proj_dim=WIDTH, **{k: v for k, v in TEXT.items() if k != "intermediate_size"})

transformers_model("Mixtures of experts", "Mixtral", "MixtralConfig", "MixtralForCausalLM", causal, num_key_value_heads=2, num_local_experts=4, **TEXT)
transformers_model("Mixtures of experts", "Qwen3-MoE", "Qwen3MoeConfig", "Qwen3MoeForCausalLM", causal, num_key_value_heads=2, head_dim=8, num_experts=4,
                   num_experts_per_tok=2, moe_intermediate_size=16, **TEXT)
transformers_model("Mixtures of experts", "OLMoE", "OlmoeConfig", "OlmoeForCausalLM", causal, num_key_value_heads=2, num_experts=4, num_experts_per_tok=2, **TEXT)
transformers_model("Mixtures of experts", "GPT-OSS", "GptOssConfig", "GptOssForCausalLM", causal, num_key_value_heads=2, head_dim=8, num_local_experts=4,
                   num_experts_per_tok=2, sliding_window=4, **TEXT)
transformers_model("Mixtures of experts", "DeepSeek-V3", "DeepseekV3Config", "DeepseekV3ForCausalLM", causal, q_lora_rank=16, kv_lora_rank=8,
                   qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=4, n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1,
                   first_k_dense_replace=1, moe_intermediate_size=16, **TEXT)

ENCODER = {**TEXT, "type_vocab_size": 2}
for name in ("Bert", "Roberta", "Electra", "Ernie", "MegatronBert", "RoFormer", "ConvBert", "Nystromformer"):
    transformers_model("Encoders", name, name + "Config", name + "ForMaskedLM", masked, **ENCODER, **({"embedding_size": WIDTH} if name in (
        "Electra", "RoFormer", "ConvBert") else {}))
transformers_model("Encoders", "Albert", "AlbertConfig", "AlbertForMaskedLM", masked, embedding_size=16, **ENCODER)
transformers_model("Encoders", "DistilBert", "DistilBertConfig", "DistilBertForMaskedLM", masked, vocab_size=VOCABULARY, dim=WIDTH, n_layers=LAYERS,
                   n_heads=HEADS, hidden_dim=48, max_position_embeddings=32)
transformers_model("Encoders", "DeBERTa v2", "DebertaV2Config", "DebertaV2ForMaskedLM", masked, **ENCODER)
transformers_model("Encoders", "MPNet", "MPNetConfig", "MPNetForMaskedLM", masked, **TEXT)
transformers_model("Encoders", "ModernBERT", "ModernBertConfig", "ModernBertForMaskedLM", masked, **TEXT)
transformers_model("Encoders", "FNet", "FNetConfig", "FNetForMaskedLM", masked, **ENCODER)

PAIR = {"vocab_size": VOCABULARY, "d_model": WIDTH, "encoder_layers": LAYERS, "decoder_layers": LAYERS, "encoder_attention_heads": HEADS,
        "decoder_attention_heads": HEADS, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 32, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
T5 = {"vocab_size": VOCABULARY, "d_model": WIDTH, "d_kv": 8, "d_ff": 48, "num_layers": LAYERS, "num_heads": HEADS, "decoder_start_token_id": 0}
transformers_model("Encoder-decoders", "BART", "BartConfig", "BartForConditionalGeneration", sequences, **PAIR)
transformers_model("Encoder-decoders", "mBART", "MBartConfig", "MBartForConditionalGeneration", sequences, **PAIR)
transformers_model("Encoder-decoders", "Pegasus", "PegasusConfig", "PegasusForConditionalGeneration", sequences, **PAIR)
transformers_model("Encoder-decoders", "Marian", "MarianConfig", "MarianMTModel", sequences, **PAIR)
transformers_model("Encoder-decoders", "M2M-100", "M2M100Config", "M2M100ForConditionalGeneration", sequences, **PAIR)
transformers_model("Encoder-decoders", "T5", "T5Config", "T5ForConditionalGeneration", sequences, **T5)
transformers_model("Encoder-decoders", "mT5", "MT5Config", "MT5ForConditionalGeneration", sequences, **T5)

IMAGES = {"image_size": PIXELS, "patch_size": 8, "num_labels": CLASSES, "hidden_size": WIDTH, "num_hidden_layers": LAYERS,
          "num_attention_heads": HEADS, "intermediate_size": 48}
STAGES = {"num_labels": CLASSES, "depths": [1, 1], "hidden_sizes": [16, 32]}
for name in ("ViT", "DeiT", "Beit", "Dinov2", "IJepa"):
    transformers_model("Vision", name, name + "Config", name + "ForImageClassification", images, **IMAGES)
transformers_model("Vision", "Swin", "SwinConfig", "SwinForImageClassification", images, image_size=PIXELS, patch_size=4, embed_dim=16, depths=[1, 1],
                   num_heads=[2, 4], window_size=4, num_labels=CLASSES)
transformers_model("Vision", "SegFormer", "SegformerConfig", "SegformerForImageClassification", images, num_labels=CLASSES, num_encoder_blocks=2, depths=[1, 1],
                   sr_ratios=[2, 1], hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2], num_attention_heads=[2, 4], mlp_ratios=[2, 2])
transformers_model("Vision", "PoolFormer", "PoolFormerConfig", "PoolFormerForImageClassification", images, num_labels=CLASSES, depths=[1, 1, 1, 1],
                   hidden_sizes=[8, 16, 16, 32])
transformers_model("Convolution nets", "ResNet", "ResNetConfig", "ResNetForImageClassification", images, True, embedding_size=16, layer_type="basic", **STAGES)
transformers_model("Convolution nets", "RegNet", "RegNetConfig", "RegNetForImageClassification", images, True, num_labels=CLASSES, embedding_size=16,
                   hidden_sizes=[16, 32, 32, 32], depths=[1, 1, 1, 1], groups_width=8)
transformers_model("Convolution nets", "MobileNet v1", "MobileNetV1Config", "MobileNetV1ForImageClassification", images, True, image_size=PIXELS,
                   depth_multiplier=0.25, min_depth=8, num_labels=CLASSES, classifier_dropout_prob=0.0)
transformers_model("Convolution nets", "ConvNeXt", "ConvNextConfig", "ConvNextForImageClassification", images, num_stages=2, **STAGES)
transformers_model("Convolution nets", "ConvNeXt v2", "ConvNextV2Config", "ConvNextV2ForImageClassification", images, num_stages=2, **STAGES)

WAVES = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": 48, "num_labels": CLASSES,
         "conv_dim": (16, 16), "conv_stride": (5, 4), "conv_kernel": (10, 4), "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 8,
         "num_conv_pos_embedding_groups": 2, "classifier_proj_size": 16}
for name in ("Wav2Vec2", "Hubert", "WavLM", "UniSpeech"):
    transformers_model("Audio", name, name + "Config", name + "ForSequenceClassification", waves, **WAVES)
transformers_model("Audio", "AST", "ASTConfig", "ASTForAudioClassification",
                   lambda n: {"input_values": torch.randn(n, 32, 16), "labels": torch.randint(CLASSES, (n,))}, hidden_size=WIDTH, num_hidden_layers=LAYERS,
                   num_attention_heads=HEADS, intermediate_size=48, max_length=32, num_mel_bins=16, patch_size=8, time_stride=8, frequency_stride=8, num_labels=CLASSES)
transformers_model("Audio", "Whisper", "WhisperConfig", "WhisperForConditionalGeneration",
                   lambda n: {"input_features": torch.randn(n, 16, 2 * SEQUENCE), "labels": tokens(n)}, num_mel_bins=16, max_source_positions=SEQUENCE,
                   max_target_positions=32, **{k: v for k, v in PAIR.items() if k != "max_position_embeddings"})

transformers_model("State spaces and recurrences", "Mamba", "MambaConfig", "MambaForCausalLM", causal, vocab_size=VOCABULARY, hidden_size=WIDTH, state_size=4,
                   num_hidden_layers=LAYERS, time_step_rank=4)
transformers_model("State spaces and recurrences", "Mamba-2", "Mamba2Config", "Mamba2ForCausalLM", causal, vocab_size=VOCABULARY, hidden_size=WIDTH,
                   state_size=8, num_hidden_layers=LAYERS, num_heads=8, head_dim=8, n_groups=2, chunk_size=4)
transformers_model("State spaces and recurrences", "RecurrentGemma", "RecurrentGemmaConfig", "RecurrentGemmaForCausalLM", causal, vocab_size=VOCABULARY,
                   hidden_size=WIDTH, num_hidden_layers=3, num_attention_heads=HEADS, lru_width=WIDTH, intermediate_size=96, attention_window_size=8)


# ------------------------------------------------------------------ torch.nn
class Regression(nn.Module):
    """A network between two layers; the mean square of what misses a target."""

    def __init__(self, before, net, after, take=lambda y: y):
        super().__init__()
        self.before, self.net, self.after, self.take = before, net, after, take

    def forward(self, x, target):
        return F.mse_loss(self.after(self.take(self.net(self.before(x)))), target)


def module(family, name, make, draw, statistics=False):
    ALL.append(Architecture(name, family, make, draw, statistics))


def recurrent(net):
    return lambda: Regression(nn.Linear(6, 16), net(), nn.Linear(16, 8), lambda y: y[0][:, -1])


def encoder_decoder():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Transformer(16, 2, 1, 1, 32, 0.0, batch_first=True)

        def forward(self, x):
            return self.net(x, x[:, :4])
    return Regression(nn.Linear(6, 16), Pair(), nn.Linear(16, 8), lambda y: y.mean(1))



IMAGE, SERIES = vectors(3, 14, 14), vectors(SEQUENCE, 6)
module("Modules of torch.nn", "LSTM", recurrent(lambda: nn.LSTM(16, 16, 1, batch_first=True)), SERIES)
module("Modules of torch.nn", "LSTM, two layers, both directions", lambda: Regression(nn.Linear(6, 16), nn.LSTM(16, 8, 2, batch_first=True, bidirectional=True),
       nn.Linear(16, 8), lambda y: y[0][:, -1]), SERIES)
module("Modules of torch.nn", "GRU", recurrent(lambda: nn.GRU(16, 16, batch_first=True)), SERIES)
module("Modules of torch.nn", "RNN", recurrent(lambda: nn.RNN(16, 16, batch_first=True)), SERIES)
module("Modules of torch.nn", "TransformerEncoder", lambda: Regression(nn.Linear(6, 16), nn.TransformerEncoder(
    nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), 2), nn.Linear(16, 8), lambda y: y.mean(1)), SERIES)
module("Modules of torch.nn", "Transformer", encoder_decoder, SERIES)
module("Modules of torch.nn", "AdaptiveAvgPool1d", lambda: Regression(nn.Conv1d(3, 8, 3), nn.AdaptiveAvgPool1d(5), nn.Linear(40, 8), lambda y: y.flatten(1)),
       vectors(3, 14))
module("Modules of torch.nn", "BatchNorm2d, max pooling", lambda: Regression(nn.Conv2d(3, 8, 3, padding=1), nn.Sequential(
    nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)), nn.Linear(392, 8), lambda y: y.flatten(1)), IMAGE, True)
module("Modules of torch.nn", "U-Net of transposed convolutions", lambda: Regression(nn.Conv2d(3, 8, 3, padding=1), nn.Sequential(
    nn.Conv2d(8, 16, 2, 2), nn.GroupNorm(4, 16), nn.GELU(), nn.ConvTranspose2d(16, 8, 2, 2)), nn.Linear(1568, 8), lambda y: y.flatten(1)), IMAGE)
module("Modules of torch.nn", "InstanceNorm2d, PixelShuffle", lambda: Regression(nn.Conv2d(3, 8, 3, padding=1), nn.Sequential(
    nn.InstanceNorm2d(8, affine=True), nn.PReLU(), nn.PixelShuffle(2)), nn.Linear(1568, 8), lambda y: y.flatten(1)), IMAGE)
