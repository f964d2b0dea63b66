#!/usr/bin/env python3
"""Models of timm and of x-transformers train as in PyTorch, or are refused with a code: of each family of timm the smallest model, and
small models with each option of their classes, one at a time.

  packages.py --bin BIN --work DIR [--results FILE] [--first N] [--count N] [--every N] [--only WORD] [--containers pt2,onnx]

Options are those of the classes' own signatures: what is False by default is True in a model, what is True is False, and numbers and
words have the values of VALUES. No weights are downloaded. Dropout is 0.
"""
import inspect
import sys
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn

from suite import BATCH, LR, STEPS, Form, Subject, arguments, report, require, run

TOKENS, SEQUENCE, CLASSES, PIXELS = 17, 8, 5, 32
# Values of options whose default says too little. An empty tuple: the option has no place in such a model.
VALUES = {
    # x-transformers
    "rotary_emb_dim": (), "rotary_interpolation_factor": (2.0,), "sandwich_coef": (1,), "par_ratio": (2,), "shift_tokens": (1,),
    "softclamp_output_value": (), "num_residual_streams": (2,), "layers_execute_order": ((0, 1, 0, 1),), "custom_layers": (("a", "f", "f"),),
    "scale_residual_constant": (0.5,), "rotate_num_heads": (1,), "attn_sparse_topk": (2,), "attn_num_mem_kv": (2,), "attn_max_attend_past": (3,),
    "attn_qk_norm_groups": (), "attn_kv_heads": (1,), "attn_value_dim_head": (6,), "attn_gate_values_rank": (), "attn_output_proj_depth": (),
    "attn_logit_softclamp_value": (), "ff_mult": (2,), "ff_output_proj_depth": (2,), "ff_softclamp_value": (5.0,), "num_memory_tokens": (2,),
    "emb_dim": (6,), "num_output_heads": (), "tie_embedding_scale": (), "logits_dim": (), "emb_frac_gradient": (0.5,), "alibi_num_heads": (1,),
    # timm
    "global_pool": ("avg", "avgmax", "max", "token", "map"), "init_values": (0.1,), "pos_embed": ("none", "learn"), "reg_tokens": (2,), "fc_norm": (True, False),
    "ls_init_value": (None, 0.1), "stem_type": ("patch", "overlap", "overlap_tiered", "deep", "deep_tiered"), "head_hidden_size": (16,),
    "act_layer": ("relu", "silu", "gelu_tanh", "hard_swish", "mish", "elu", "celu", "selu", "sigmoid", "tanh", "hard_sigmoid", "prelu", "quick_gelu"),
    "norm_layer": ("rmsnorm", "layernorm", "batchnorm2d", "groupnorm1"), "output_stride": (16, 8), "kernel_sizes": (3,), "head_dim": (4,),
    "stem_width": (16,), "cardinality": (2,), "base_width": (32,), "block_reduce_first": (2,), "down_kernel_size": (3,), "attn_type": ("rope",),
}
LEFT_OUT = ("self", "device", "dtype", "dropout", "verbose", "num_classes", "in_chans", "dim", "depth", "heads", "flash", "num_tokens", "max_seq_len")


def options_of(function, prefix=""):
    """(name, value) of each option, one at a time."""
    for name, parameter in inspect.signature(function).parameters.items():
        key = prefix + name
        if name in LEFT_OUT or parameter.default is inspect.Parameter.empty:
            continue
        if isinstance(parameter.default, bool):
            yield key, not parameter.default
        for value in VALUES.get(key, ()):
            yield key, value


class Loss(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, labels):
        made = self.net(x)
        made = made[0] if isinstance(made, (tuple, list)) else made
        return F.cross_entropy(made.flatten(0, -2), labels.flatten())


def x_transformer(kind, wrapper, layers):
    import x_transformers
    small = {"dim": 16, "depth": 2, "heads": 2, "attn_dim_head": 8, "ff_mult": 2, "verbose": False}
    stack = getattr(x_transformers, kind)(**{**small, **layers})
    return x_transformers.TransformerWrapper(num_tokens=TOKENS, max_seq_len=SEQUENCE, attn_layers=stack, **wrapper)


def x_transformers_items():
    from x_transformers import x_transformers
    items = {}
    for kind in ("Decoder", "Encoder"):
        items[f"x-transformers {kind}"] = lambda kind=kind: x_transformer(kind, {}, {})
        layers = [*options_of(x_transformers.AttentionLayers.__init__), *options_of(x_transformers.Attention.__init__, "attn_"),
                  *options_of(x_transformers.FeedForward.__init__, "ff_")]
        for key, value in layers:
            if key not in ("causal", "attn_causal"):
                items[f"x-transformers {kind} {key}={value}"] = lambda kind=kind, key=key, value=value: x_transformer(kind, {}, {key: value})
    for key, value in options_of(x_transformers.TransformerWrapper.__init__):
        items[f"x-transformers wrapper {key}={value}"] = lambda key=key, value=value: x_transformer("Decoder", {key: value}, {})
    return items


def token_data(samples, draws):
    return {"x": torch.randint(0, TOKENS, (samples, SEQUENCE), generator=draws), "labels": torch.randint(0, TOKENS, (samples, SEQUENCE), generator=draws)}


def image_data(pixels):
    def data(samples, draws):
        return {"x": torch.randn(samples, 3, pixels, pixels, generator=draws), "labels": torch.randint(0, CLASSES, (samples,), generator=draws)}
    return data


# Small configurations of classes of timm.
TIMM_CLASSES = {
    "VisionTransformer": {"img_size": PIXELS, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2},
    "ConvNeXt": {"depths": (1, 1), "dims": (8, 16)},
    "SwinTransformer": {"img_size": PIXELS, "patch_size": 4, "embed_dim": 8, "depths": (2, 2), "num_heads": (1, 2), "window_size": 4, "drop_path_rate": 0.0},
    "MlpMixer": {"img_size": PIXELS, "patch_size": 8, "num_blocks": 2, "embed_dim": 16},
    "Eva": {"img_size": PIXELS, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2},
    "Beit": {"img_size": PIXELS, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2},
    "Cait": {"img_size": PIXELS, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2},
    "MetaFormer": {"depths": (1, 1, 1, 1), "dims": (8, 8, 16, 16)},
    "Xcit": {"img_size": PIXELS, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2},
}


def import_timm():
    """timm needs torchvision for transforms alone; a torchvision of another build than torch's has no operators, and need have none."""
    with mock.patch.object(torch.library, "register_fake", lambda *_, **__: lambda function: function):
        import torchvision  # noqa: F401
    import timm
    return timm


def timm_items():
    timm = import_timm()
    items = {}
    for name, small in TIMM_CLASSES.items():
        made = getattr(timm.models, name)
        items[f"timm {name}"] = lambda made=made, small=small: made(num_classes=CLASSES, **small)
        for key, value in options_of(made.__init__):
            items[f"timm {name} {key}={value}"] = lambda made=made, small=small, key=key, value=value: made(num_classes=CLASSES, **{**small, key: value})
    return items


class Packages:
    def __init__(self):
        self.made = {name: (make, token_data) for name, make in x_transformers_items().items()}
        self.made |= {name: (make, image_data(PIXELS)) for name, make in timm_items().items()}
        self.names = list(self.made)

    def forms_of(self, name):
        make, data = self.made[name]

        def module():
            torch.manual_seed(1)
            return Loss(make()).train()
        try:
            module()
        except Exception as error:
            return f"no such model: {type(error).__name__}: {str(error)[:100]}"
        draws = torch.Generator().manual_seed(0)
        given = data(STEPS * BATCH, draws)
        return [Form(Subject(module, given, {k: v[:6] for k, v in given.items()}, BATCH, STEPS, LR), {"whole": 1, "cut": 2, "one sample a piece": 8})]


def main():
    args = arguments(__doc__).parse_args()
    require("timm", "torchvision", "x_transformers")
    packages = Packages()
    sys.exit(report(args, run(args, packages.names, packages.forms_of), lambda name: name))


if __name__ == "__main__":
    main()
