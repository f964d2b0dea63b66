"""What what_people_write.py trains over places: the models of people_models_over_places.py, each under several strategies."""
import functools

import torch
import torch.nn.functional as F

import people_models_over_places as models
from people_strategies import columns, stages_over_places


def cases(Case, sequences):
    """Name -> Case. `sequences`: inputs of five tokens for so many samples."""
    found = {}
    # A product of two sums over devices is not the sum of the devices' products.
    for name, product in {"einsum": lambda u, v: torch.einsum("bd,bd->b", u, v), "matmul": lambda u, v: (u.unsqueeze(1) @ v.unsqueeze(2)).flatten(),
                          "in_a_sum": lambda u, v: (u * v).sum(-1), "scores": lambda u, v: (u.view(-1, 2, 4) @ v.view(-1, 2, 4).transpose(1, 2)).flatten(1).tanh().sum(-1),
                          "of_one": lambda u, v: (u * u).sum(-1) + v.sum(-1)}.items():
        found[f"product_of_towers_{name}"] = Case(None, model=functools.partial(models.ProductOfTowers, product=product), forms=(columns(2), columns(8)))
    for name, options in {"": {}, "_wide": {"sizes": (4, 8, 16, 16, 3)}, "_frozen": {"sizes": (4, 8, 16, 16, 3), "frozen": (1,)}}.items():
        found[f"bottleneck{name}"] = Case(None, model=functools.partial(models.Bottleneck, **options), forms=(1, columns(2), columns(8)),
                                          said="With two samples in each piece, everything is proved")
    for name, batch_first, forms in (("", True, (1, 2, columns(2))), ("_tokens_first", False, (2, columns(2))), ("_sequence", True, (columns(2, "sequence"),))):
        found[f"standard_layers{name}"] = Case(None, model=functools.partial(models.StandardLayers, batch_first=batch_first), kinds=("pt2",), proved=not name, forms=forms,
                                               data=lambda n: {"x": torch.randn(n, 6, 4), "y": torch.randn(n, 6, 3)})
    found["squared_matrix"] = Case(None, model=models.SquaredMatrix, forms=(1, columns(2), columns(8)))
    for name, use in {"twice": lambda m, h, y: F.cross_entropy(m.head(h), y) + 0.3 * F.cross_entropy(m.head(torch.tanh(h)), y),
                      "bias_squared": lambda m, h, y: F.cross_entropy(m.head(h), y) + 0.1 * m.head.bias.pow(2).sum(),
                      "bias_summed": lambda m, h, y: F.cross_entropy(m.head(h), y) + 0.1 * m.head.bias.sum()}.items():
        found[f"head_{name}"] = Case(None, model=functools.partial(models.HeadTwice, use=use), forms=(columns(1, "vocabulary"), columns(2, "vocabulary"), columns(8, "vocabulary")),
                                     data=lambda n: {"ids": torch.randint(0, 12, (n,)), "labels": torch.randint(0, 12, (n,))})
    found["sequence_first_mlp"] = Case(None, model=models.SequenceFirstMlp, data=sequences, forms=(columns(1), columns(2), columns(8)))
    for name, options in {"": {}, "_of_two": {"tokens": 2}, "_without_bias": {"bias": False}}.items():
        found[f"token_mixer{name}"] = Case(None, model=functools.partial(models.TokenMixer, **options), forms=(columns(2), columns(2, "sequence"), columns(8, "sequence")),
                                           data=lambda n, tokens=options.get("tokens", 6): {"x": torch.randn(n, tokens, 4), "y": torch.randn(n, tokens, 3)})
    for name, use in models.OUTPUTS_AS_LOSSES.items():
        found[f"output_as_loss_{name}"] = Case(None, model=functools.partial(models.OutputAsLoss, use=use), data=lambda n: {"x": torch.randn(n, 6, 4)},
                                               forms=tuple(columns(n, *dim) for dim in ((), ("sequence",)) for n in (1, 2)))
    for name, normed in {"": False, "_after_a_norm": True}.items():
        found[f"factorised_head{name}"] = Case(None, model=functools.partial(models.FactorisedHead, normed=normed), forms=(columns(1, "sequence"), columns(2, "sequence")), proved=True,
                                               data=lambda n: {"ids": torch.randint(0, 12, (n, 4)), "labels": torch.randint(0, 12, (n, 4))})
    found["matrix_twice"] = Case(None, model=models.MatrixTwice, data=lambda n: {"x": torch.randn(n, 6, 4), "y": torch.randn(n, 6, 3)},
                                 forms=(columns(1, "sequence"), columns(2, "sequence")), proved=True)
    for name, pool in {"mean": lambda x: x.mean(1), "sum": lambda x: x.sum(1)}.items():
        found[f"pooled_head_{name}"] = Case(None, model=functools.partial(models.PooledHead, pool=pool), forms=(columns(1, "sequence"), columns(2, "sequence")),
                                            data=lambda n: {"x": torch.randn(n, 6, 4), "y": torch.randn(n, 6, 3)})
    # Only the devices that have the parts of a sequence can gather them: again, or for the products of other devices.
    PARTED = ("column", "sequence")
    for name, stages in {"one_device": (([[0, 1]], PARTED), ([[2]], ())), "whole": (([[0, 1]], PARTED), ([[2, 3]], PARTED[:1])), "parts": (([[0, 1]], PARTED), ([[2, 3]], PARTED)),
                         "whole_of_replicas": (([[0, 1], [2, 3]], PARTED), ([[4, 6], [5, 7]], PARTED[:1])), "fewer_places": (([[0, 1, 2, 3]], PARTED), ([[4, 5], [6, 7]], PARTED))}.items():
        for model in (models.TwoBlocks, models.BlockOfTwoStages):
            found[f"sequence_then_{name}_{model.__name__}"] = Case(None, model=model, data=lambda n: {"x": torch.randn(n, 8, 8), "y": torch.randn(n, 8, 3)},
                                                                   forms=(stages_over_places(*stages), stages_over_places(*stages, recomputed=True)))
    for name, lengths in (("first_token", (1, 5)), ("tokens_in_three_parts", (2, 1, 3))):
        found[f"{name}_apart"] = Case(None, model=functools.partial(models.TokensApart, lengths=lengths), data=lambda n: {"x": torch.randn(n, 6, 8), "y": torch.randn(n, 6, 3)},
                                      forms=(columns(2), *(columns(n, "sequence") for n in (1, 2, 8))))
    return found
