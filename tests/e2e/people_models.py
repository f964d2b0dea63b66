"""Modules that people write: a table of what_people_write.py, beside that of losses."""
import functools

import torch
import torch.nn.functional as F
from torch import nn

from people_losses import MIXES, REPLICAS, Case, error, family


class Attention(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.a, self.b = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 3)

    def forward(self, x, y):
        return F.mse_loss(self.b(self.a(x, x, x, need_weights=False)[0]), y)


class EncoderLayer(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.a, self.b = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), nn.Linear(4, 3)

    def forward(self, x, y):
        return F.mse_loss(self.b(self.a(x)), y)


class SequenceFirst(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.a, self.b = nn.GRU(4, 4), nn.Linear(4, 3)

    def forward(self, x, y):
        return F.mse_loss(self.b(self.a(x.transpose(0, 1))[0].transpose(0, 1)), y)


class NoWeightsFirst(nn.Module):
    """`first`: a stage that trains nothing and has nothing to train."""

    def __init__(self, case, first):
        super().__init__()
        self.a, self.b, self.c = first, nn.Linear(8, 4), nn.Linear(4, 3)

    def forward(self, x, y):
        return F.mse_loss(self.c(torch.tanh(self.b(self.a(x)))), y)


class Turned(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2).reshape(x.shape[0], -1)


class Scaled(nn.Module):
    def forward(self, x):
        return (x.flatten(1) - 0.5) / 0.25


NO_WEIGHTS = {"flatten": nn.Flatten, "turned": Turned, "scaled": Scaled, "activation": lambda: nn.Sequential(nn.Flatten(), nn.Tanh()),
              "pooling": lambda: nn.Sequential(nn.Upsample(scale_factor=2), nn.AvgPool1d(2), nn.Flatten()),
              "norm": lambda: nn.Sequential(nn.Flatten(), nn.LayerNorm(8, elementwise_affine=False)),
              "repeated": lambda: nn.Sequential(nn.Flatten(), nn.Unflatten(1, (2, 4)), nn.Softmax(-1), nn.Flatten())}


class FrozenTable(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.a, self.b = nn.Embedding(7, 4), nn.Linear(4, 3)
        self.a.requires_grad_(False)

    def forward(self, ids, y):
        return F.mse_loss(self.b(self.a(ids)).mean(1), y)


class NormTwice(nn.Module):
    """`turn`: how one batch norm is called more than once; its statistics are updated as often, in this order."""

    def __init__(self, case, turn):
        super().__init__()
        self.a, self.norm, self.b, self.turn = nn.Linear(8, 6), nn.BatchNorm1d(6, momentum=0.3), nn.Linear(6, 1), turn
        self.again = nn.Linear(6, 6)

    def forward(self, x, y):
        return (self.b(self.turn(self, self.a(x))).squeeze(1) - y).square().mean() + 0.1 * self.norm.running_var.mean()


NORMS = {
    "in_turn": lambda m, h: m.norm(m.again(torch.tanh(m.norm(h)))),
    "in_a_loop": lambda m, h: [h := torch.tanh(m.norm(h)) for _ in range(3)][-1],
    "of_two_branches": lambda m, h: m.norm(h) + m.norm(2 * h),
    "then_evaluated": lambda m, h: m.norm(h) + F.batch_norm(2 * h.detach(), m.norm.running_mean, m.norm.running_var),
    "with_its_mean_read": lambda m, h: m.norm(h) * (1 + m.norm.running_mean),
    "once": lambda m, h: m.norm(h),
}


class Transformers(nn.Module):
    """A language model of transformers with its own dropout."""

    def __init__(self, case, kind, **config):
        import transformers
        super().__init__()
        made = getattr(transformers, f"{kind}Config")(vocab_size=50, **config)
        self.model = getattr(transformers, kind + ("LMHeadModel" if kind == "XLNet" else "ForMaskedLM"))(made)

    def forward(self, input_ids, labels):
        return self.model(input_ids=input_ids, labels=labels).loss


def words(n):
    return {"input_ids": torch.randint(3, 50, (n, 6)), "labels": torch.randint(0, 50, (n, 6))}


ENCODER = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 16,
           "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
XLNET = {"d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 16}


class InstanceStatistics(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.a, self.norm = nn.Conv1d(2, 4, 3), nn.InstanceNorm1d(4, track_running_stats=True)

    def forward(self, x, y):
        return (self.norm(self.a(x.reshape(-1, 2, 4))).mean((1, 2)) - y).square().mean()


class ByFrequency(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.a, self.b = nn.Embedding(5, 4, scale_grad_by_freq=True), nn.Linear(4, 3)

    def forward(self, ids, y):
        return F.mse_loss(self.b(self.a(ids)), y)


class DropoutOfPositions(nn.Module):
    """Its masks are not PyTorch's: it must train, and alike in pieces."""

    def __init__(self, case):
        super().__init__()
        self.pos, self.drop, self.b = nn.Embedding(5, 4), nn.Dropout(0.3), nn.Linear(4, 3)

    def forward(self, x, y):
        return F.mse_loss(self.b(x + self.drop(self.pos(torch.arange(5)))), y)


class GroupStatistics(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 12), nn.Linear(12, 1)

    def forward(self, x, y):
        h = self.inner(x)
        out, mean, rstd = torch.native_group_norm(h.unsqueeze(2), None, None, h.shape[0], 12, 1, 3, 1e-3)
        return (self.outer(out.squeeze(2)).squeeze(1) + mean.sum(1) + 0.1 * rstd.sum(1) - y).square().mean()


class RowStatistics(nn.Module):
    """`read`: which results of the norm the loss depends on."""
    read = (0, 1, 2)

    def __init__(self, case):
        super().__init__()
        self.inner, self.norm, self.outer = nn.Linear(8, 12), nn.LayerNorm(12, eps=1e-3), nn.Linear(12, 1)

    def forward(self, x, y):
        h = self.inner(x)
        results = torch.native_layer_norm(h, (12,), self.norm.weight, self.norm.bias, 1e-3)
        out = results[0] if 0 in self.read else self.norm.weight * h + self.norm.bias
        made = self.outer(out).squeeze(1) + sum(0.1 * results[i].squeeze(1) for i in self.read if i > 0)
        return (made - y).square().mean()


class MeanOfRows(RowStatistics):
    read = (0, 1)


class DeviationOfRows(RowStatistics):
    read = (0, 2)


class StatisticsAlone(RowStatistics):
    read = (1, 2)


class Bags(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.a, self.b = nn.EmbeddingBag(7, 4, mode=self.mode), nn.Linear(4, 3)

    def forward(self, ids, y):
        return F.mse_loss(self.b(self.a(ids)), y)


class MeanBags(Bags):
    mode = "mean"


class SumBags(Bags):
    mode = "sum"


class PositionsInBothStages(nn.Module):
    """Each stage computes the numbers of its samples, so its graph is made anew."""

    def __init__(self, case):
        super().__init__()
        self.a, self.b, self.w = nn.Linear(4, 4), nn.Linear(4, 3), nn.Parameter(torch.linspace(0.5, 1.5, 4))

    def forward(self, x, y, mask):
        h = torch.tanh(self.a(x)) + torch.outer(torch.arange(x.shape[0]) * 0.1, self.w)
        return (error(self.b(h), y) * mask * (torch.arange(x.shape[0]) < 4)).mean()


class TotalInBothStages(nn.Module):
    """Stages that both read the mean of the labels."""

    def __init__(self, case):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x, y, mask):
        mean = y.mean(0)
        return error(self.b(torch.tanh(self.a(x)) * mean.sum()), y - mean).mean()


def rows(n):
    return {"x": torch.randn(n, 8), "y": torch.randn(n)}


def bags(n):
    return {"ids": torch.randint(0, 7, (n, 5)), "y": torch.randn(n, 3)}


def sequences(n):
    return {"x": torch.randn(n, 5, 4), "y": torch.randn(n, 5, 3)}


MODELS = {}
for name, first in NO_WEIGHTS.items():
    MODELS[f"no_weights_first_{name}"] = Case(None, model=functools.partial(NoWeightsFirst, first=first()), data=lambda n: {"x": torch.randn(n, 2, 4), "y": torch.randn(n, 3)},
                                             forms=(*(family(f, stages=s) for f, s in (("gpipe", 2), ("1f1b", 3), ("zero_bubble", 2))),
                                                    family("1f1b").replace("starts", "modules")))
MODELS["frozen_table_first"] = Case(None, model=FrozenTable, data=lambda n: {"ids": torch.randint(0, 7, (n, 5)), "y": torch.randn(n, 3)},
                                   forms=(family("gpipe"), family("1f1b"), family("zero_bubble")))
for name, turn in NORMS.items():
    MODELS[f"norm_{name}"] = Case(None, model=functools.partial(NormTwice, turn=turn), data=rows, forms=(1,), kinds=("onnx", "pt2"), spread=False)
for name, kind, config in (("deberta", "Deberta", ENCODER | {"max_relative_positions": 16}), ("deberta_v2", "DebertaV2", ENCODER), ("xlnet", "XLNet", XLNET | {"dropout": 0.1})):
    MODELS[f"dropout_of_{name}"] = Case(None, model=functools.partial(Transformers, kind=kind, **config), data=words, forms=(1, 2), own_masks=True)
# Its positions are expanded over the batch after another axis, which is seen once dropout has touched them.
MODELS["xlnet"] = Case(None, model=functools.partial(Transformers, kind="XLNet", **XLNET, dropout=0.0), data=words, forms=(1, 2), refused={2: "P0331"})
MODELS["instance_statistics"] = Case(None, model=InstanceStatistics, data=rows, forms=(1,), refused={1: "P0306", REPLICAS: "P0306"}, spread=True)
MODELS["dropout_of_positions"] = Case(None, model=DropoutOfPositions, data=sequences, own_masks=True)
MODELS["total_in_both_stages"] = Case(None, model=TotalInBothStages, forms=(1, family("gpipe", 4), family("1f1b", 8)))
MODELS["positions_in_both_stages"] = Case(None, model=PositionsInBothStages, forms=(1, family("gpipe", 8), family("1f1b", 8)))
for name, model in (("attention", Attention), ("encoder_layer", EncoderLayer), ("sequence_first_gru", SequenceFirst)):
    MODELS[name] = Case(None, model=model, data=sequences, kinds=("pt2",))
for name, model in (("group_statistics", GroupStatistics), ("row_statistics", RowStatistics), ("mean_of_rows", MeanOfRows),
                    ("deviation_of_rows", DeviationOfRows), ("statistics_alone", StatisticsAlone)):
    MODELS[name] = Case(None, model=model, data=rows, forms=(1, 2), kinds=("pt2",))
for name, model in (("mean_bags", MeanBags), ("sum_bags", SumBags)):
    MODELS[name] = Case(None, model=model, data=bags, forms=(1,))
MODELS["scale_grad_by_freq"] = Case(None, model=ByFrequency, refused=MIXES, data=lambda n: {"ids": torch.randint(0, 5, (n,)), "y": torch.randn(n, 3)})
