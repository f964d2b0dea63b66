"""Models of what_people_write.py that are more than two layers and a loss. Each is made with its case and returns its loss."""
import torch
import torch.nn.functional as F
from torch import nn


def error(p, y):
    return (p - y).pow(2).mean(-1)


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
    more: dict = {}

    def __init__(self, case):
        super().__init__()
        self.a, self.b = nn.EmbeddingBag(7, 4, mode=self.mode, **self.more), nn.Linear(4, 3)

    def forward(self, ids, y):
        return F.mse_loss(self.b(self.a(ids)), y)


class MeanBags(Bags):
    mode = "mean"


class SumBags(Bags):
    mode = "sum"


class BagsByFrequency(Bags):
    mode, more = "sum", {"scale_grad_by_freq": True}


class PositionsInBothStages(nn.Module):
    """Each stage computes the numbers of its samples, so its graph is made anew."""

    def __init__(self, case):
        super().__init__()
        self.a, self.b, self.w = nn.Linear(4, 4), nn.Linear(4, 3), nn.Parameter(torch.linspace(0.5, 1.5, 4))

    def forward(self, x, y, mask):
        h = torch.tanh(self.a(x)) + torch.outer(torch.arange(x.shape[0]) * 0.1, self.w)
        return (error(self.b(h), y) * mask * (torch.arange(x.shape[0]) < 4)).mean()


class WeightsOfLastStage(nn.Module):
    """The gradient of a sum that the first stage makes is what the last one's forward has computed. `weights`: of (prediction, labels, numbers of samples)."""

    def __init__(self, case, weights):
        super().__init__()
        self.a, self.b, self.weights = nn.Linear(4, 4), nn.Linear(4, 3), weights

    def forward(self, x, y, mask):
        h = torch.tanh(self.a(x))
        total = h.sum(-1)
        p = self.b(h)
        return 0.1 * error(p, y).sum() + (total * self.weights(p, y, torch.arange(x.shape[0]))).sum()


class TermOfFirstStage(nn.Module):
    """`read`: how the loss has a term that the first stage makes."""

    def __init__(self, case, read):
        super().__init__()
        self.a, self.b, self.read = nn.Linear(4, 4), nn.Linear(4, 3), read

    def forward(self, x, y, mask):
        h = torch.tanh(self.a(x))
        term = (h.pow(2).mean(-1) ** 2).mean()
        return self.read(term) + error(self.b(h), y).mean()


class Sampled(nn.Module):
    """Places that are computed in floats and rounded down. `places`: of a number of tokens."""

    def __init__(self, case, places):
        super().__init__()
        self.a, self.b, self.places = nn.Linear(4, 4), nn.Linear(4, 3), places

    def forward(self, x, y):
        chosen = self.places(x.shape[1]).long()
        return (self.b(torch.tanh(self.a(x))[:, chosen]) - y[:, chosen]).pow(2).mean()


class NumbersInBf16(nn.Module):
    """`read`: a tensor of bf16 and numbers that bf16 does not hold."""

    def __init__(self, case, read):
        super().__init__()
        self.a, self.b, self.read = nn.Linear(4, 6), nn.Linear(6, 3), read

    def forward(self, x, y, mask):
        z = torch.tanh(self.a(x)).to(torch.bfloat16)
        return (self.b(self.read(z).float()) - y).pow(2).mean()


class TrainedMask(nn.Module):
    """Attention written out, with a column of sinks and a mask that is trained."""

    def __init__(self, case):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(4, 4) for _ in range(4))
        self.bias, self.sink, self.last = nn.Parameter(torch.randn(2, 5, 5) / 2), nn.Parameter(torch.randn(2)), nn.Linear(4, 3)

    def forward(self, x, y):
        q, k, v = (part(x).unflatten(-1, (2, 2)).transpose(1, 2) for part in (self.q, self.k, self.v))
        scores = q @ k.transpose(2, 3) / 2 ** 0.5 + self.bias
        sinks = self.sink.view(1, 2, 1, 1).expand(x.shape[0], 2, x.shape[1], 1)
        kept = torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]
        return (self.last(self.out((kept @ v).transpose(1, 2).flatten(2))) - y).pow(2).mean()


class NormOfBothStages(nn.Module):
    """One batch norm, called after the first layer and after the second."""

    def __init__(self, case):
        super().__init__()
        self.a, self.b, self.norm, self.c = nn.Linear(4, 6), nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)

    def forward(self, x, y, mask):
        h = torch.tanh(self.norm(self.a(x)))
        return (self.c(torch.tanh(self.norm(self.b(h)))) - y).pow(2).mean()


class FrozenNorm(nn.Module):
    """A batch norm in evaluation mode within a model in training mode."""

    def __init__(self, case):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)
        self.norm.eval()

    def forward(self, x, y, mask):
        return (self.b(torch.tanh(self.norm(self.a(x)))) - y).pow(2).mean()


class TermTimesTotal(nn.Module):
    """A number of the step is the gradient of a term that an earlier stage makes. `factor`: of (term, mask)."""

    def __init__(self, case, factor):
        super().__init__()
        self.a, self.b, self.factor = nn.Linear(4, 4), nn.Linear(4, 3), factor

    def forward(self, x, y, mask):
        h = torch.tanh(self.a(x))
        term = h.pow(2).mean()
        p = self.b(h)
        return self.factor(term, mask) + error(p, y).mean()


class StepsAcrossStages(nn.Module):
    """A later stage goes through what an earlier one makes step by step; the first of the slices is made before the stage begins."""

    def __init__(self, case, carry):
        super().__init__()
        self.a, self.b, self.carry = nn.Linear(4, 4), nn.Linear(4, 3), carry

    def forward(self, x, y):
        h, before = torch.tanh(self.a(x)), 0
        outs = []
        for t in range(x.shape[1]):
            before = torch.tanh(self.b(h[:, t]) + self.carry * before)
            outs.append(before)
        return F.mse_loss(torch.stack(outs, 1), y)


class TotalInBothStages(nn.Module):
    """Stages that both read the mean of the labels."""

    def __init__(self, case):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x, y, mask):
        mean = y.mean(0)
        return error(self.b(torch.tanh(self.a(x)) * mean.sum()), y - mean).mean()


class DataTermsOfBothStages(nn.Module):
    """Terms of the loss of data: a mean over samples and a sum, which a parameter is added to."""

    def __init__(self, case):
        super().__init__()
        self.a, self.b, self.shift = nn.Linear(4, 4), nn.Linear(4, 3), nn.Parameter(torch.tensor(0.8))

    def forward(self, x, y):
        h = torch.tanh(self.a(x))
        of_tokens = torch.logsumexp(x, -1)
        return torch.logsumexp(of_tokens, 1).mean() + (of_tokens.sum(0)[0] + self.shift) + F.mse_loss(self.b(h), y)


LONG = 264    # more places of a mask than the compiler writes out


class Masked(nn.Module):
    """Attention over LONG tokens by a mask that `mask(batch, tokens)` makes; None: `is_causal`."""

    def __init__(self, case, mask):
        super().__init__()
        self.a, self.b, self.mask = nn.Linear(4, 12), nn.Linear(4, 3), mask

    def forward(self, x, y):
        q, k, v = (part.unsqueeze(1) for part in torch.tanh(self.a(x)).mul(3).chunk(3, -1))
        mask = self.mask(*x.shape[:2])
        mixed = F.scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None)
        return error(self.b(mixed.squeeze(1)), y).mean()


class MaskedByData(Masked):
    """The same by a mask that is made of the data: `mask(ids, kept, q, k)` of document numbers and of what is no padding."""

    def forward(self, x, y, ids, kept):
        q, k, v = (part.unsqueeze(1) for part in torch.tanh(self.a(x)).mul(3).chunk(3, -1))
        _, of_query, of_key = places(*x.shape[:2])
        mixed = F.scaled_dot_product_attention(q, k, v, self.mask(ids, kept, of_query, of_key))
        return error(self.b(mixed.squeeze(1)), y).mean()


class WithSinks(Masked):
    """Two heads that share keys, with a score of each head that has no value, as GPT-OSS writes it out."""

    def __init__(self, case, mask):
        super().__init__(case, mask)
        self.a, self.b, self.sinks = nn.Linear(4, 16), nn.Linear(8, 3), nn.Parameter(torch.tensor([0.5, -1.0]))

    def forward(self, x, y):
        batch, tokens = x.shape[:2]
        q, k, v = torch.tanh(self.a(x)).mul(3).split((8, 4, 4), -1)
        q = q.view(batch, tokens, 2, 4).transpose(1, 2)
        k, v = (part[:, None, None].expand(batch, 1, 2, tokens, 4).reshape(batch, 2, tokens, 4) for part in (k, v))
        scores, mask = q @ k.transpose(2, 3) * 0.5, self.mask(batch, tokens)
        if mask is not None:
            scores = scores + (torch.where(mask, 0.0, -torch.inf) if mask.dtype == torch.bool else mask)
        with_sinks = torch.cat([scores, self.sinks.reshape(1, -1, 1, 1).expand(batch, -1, tokens, -1)], -1)
        shares = (with_sinks - with_sinks.max(-1, keepdim=True).values).softmax(-1)
        return error(self.b((shares[..., :-1] @ v).transpose(1, 2).reshape(batch, tokens, 8)), y).mean()


class OfTable(nn.Module):
    """Reads a table of floats of more than a megabyte, which `table(batch, places, width)` makes of constants."""

    PLACES, WIDTH = 512, 520

    def __init__(self, case, table):
        super().__init__()
        self.a, self.b, self.table = nn.Linear(self.PLACES, self.PLACES), nn.Linear(self.WIDTH, 3), table

    def forward(self, x, y):
        place, width = torch.arange(self.PLACES).float(), torch.arange(self.WIDTH).float()
        angles = place[:, None] * torch.exp(-width / 40)
        read = torch.tanh(self.a(x)).unsqueeze(1) @ self.table(angles, torch.arange(x.shape[0]).float().view(-1, 1, 1))
        return error(self.b(read.squeeze(1) / 20), y).mean()


TABLES = {
    "sine": lambda angles, sample: angles.sin(),
    "sine_and_cosine": lambda angles, sample: torch.cat([angles[:, ::2].sin(), angles[:, 1::2].cos()], -1),
    "of_every_sample": lambda angles, sample: angles.sin().expand(sample.shape[0], -1, -1) + 0.5,
    # Takes a megabyte for some numbers of samples, not for one.
    "parts_of_every_sample": lambda angles, sample: torch.cat([angles[:200].sin().expand(sample.shape[0], -1, -1) + 0.5, torch.zeros(1, 312, 520).expand(sample.shape[0], -1, -1)], 1),
    "by_sample": lambda angles, sample: (angles * (sample + 1)).cos(),
    "first_sample_alone": lambda angles, sample: torch.where(sample == 0, angles.sin(), angles.cos()),
}


def by_query(vector):
    return vector[:, None, :, None]


def by_key(vector):
    return vector[:, None, None, :]


def places(batch, tokens):
    """Numbers of samples, queries and keys, as they are broadcast to a mask."""
    return torch.arange(batch).view(-1, 1, 1, 1), torch.arange(tokens).view(1, 1, -1, 1), torch.arange(tokens).view(1, 1, 1, -1)


def of_places(condition):
    return lambda batch, tokens: condition(*places(batch, tokens)).expand(batch, 1, tokens, tokens)


MASKS = {
    "none_but_causal": lambda batch, tokens: None,
    "causal": of_places(lambda b, q, k: k <= q),
    "causal_of_each_sample": of_places(lambda b, q, k: (k <= q) & (b >= 0)),
    "lower_triangle": lambda batch, tokens: torch.ones(tokens, tokens, dtype=torch.bool).tril(),
    "minus_infinity_above": lambda batch, tokens: torch.full((tokens, tokens), float("-inf")).triu(1),
    "lowest_above": lambda batch, tokens: torch.where(torch.arange(tokens).view(-1, 1) < torch.arange(tokens), torch.finfo(torch.float32).min, 0.0),
    "inverted": of_places(lambda b, q, k: (1.0 - (k <= q).float()) * torch.finfo(torch.float32).min),
    "all": of_places(lambda b, q, k: k < q + k + 1),
    "window": of_places(lambda b, q, k: (k <= q) & (k > q - 7)),
    "chunks": of_places(lambda b, q, k: (k <= q) & (k // 50 == q // 50)),
    "prefix": of_places(lambda b, q, k: (k <= q) | (k < 9)),
    "anti_causal": of_places(lambda b, q, k: k >= q),
    "one_less": of_places(lambda b, q, k: (k < q) | (k == 0)),
    "sample_by_sample": of_places(lambda b, q, k: k <= q + b),
    "first_samples_causal": of_places(lambda b, q, k: (k <= q) | (b > 2)),
    "linear_bias": of_places(lambda b, q, k: (k - q).float() / 8),
}


# With what their plans say of it, or None where nothing.
MASKS_WITH_SINKS = {
    "none": (lambda batch, tokens: None, '!"attends"'),
    "causal": (MASKS["causal"], '"is_causal":true'),
    "lower_triangle": (MASKS["lower_triangle"], '"is_causal":true'),
    "window": (MASKS["window"], '"attends":"-q + k + 6 >= 0 & q - k >= 0"'),
    # The first query attends to its sink alone.
    "before": (of_places(lambda b, q, k: k < q), '"attends":"q - k - 1 >= 0"'),
    "linear_bias": (MASKS["linear_bias"], '!"attends"'),
}


def of_starts(ids, kept, q, k):
    """Documents counted where they start."""
    number = ids.diff(dim=1, prepend=ids[:, :1]).ne(0).cumsum(1)
    return (k <= q) & (by_query(number) == by_key(number))


LOWEST = torch.finfo(torch.float32).min
# With what their plans say instead of a mask, or None where the mask stays one.
MASKS_BY_DATA = {
    "packed": (lambda ids, kept, q, k: (k <= q) & (by_query(ids) == by_key(ids)), "q - k >= 0 & r0[q] - r0[k] = 0"),
    "packed_by_starts": (of_starts, "q - k >= 0 & r0[q] - r0[k] = 0"),
    "packed_window": (lambda ids, kept, q, k: (k <= q) & (k > q - 20) & (by_query(ids) == by_key(ids)), "-q + k + 19 >= 0 & q - k >= 0 & r0[q] - r0[k] = 0"),
    "both_ways_in_documents": (lambda ids, kept, q, k: by_query(ids) == by_key(ids), "r0[q] - r0[k] = 0"),
    "padded": (lambda ids, kept, q, k: (k <= q) & by_key(kept), "q - k >= 0 & t0[k]"),
    "padded_and_packed": (lambda ids, kept, q, k: (k <= q) & by_key(kept) & by_query(kept) & (by_query(ids) == by_key(ids)),
                          "q - k >= 0 & r0[q] - r0[k] = 0 & t1[q] & t1[k]"),
    "padded_at_minus_infinity": (lambda ids, kept, q, k: torch.where((k <= q) & by_key(kept), 0.0, -torch.inf), "q - k >= 0 & t0[k]"),
    # A query that attends nowhere attends everywhere by finite numbers.
    "padded_at_the_lowest": (lambda ids, kept, q, k: torch.where((k <= q) & by_key(kept), 0.0, LOWEST), None),
    "packed_at_the_lowest": (lambda ids, kept, q, k: torch.where((k <= q) & (by_query(ids) == by_key(ids)), 0.0, LOWEST), "q - k >= 0 & r0[q] - r0[k] = 0"),
    "later_documents": (lambda ids, kept, q, k: by_query(ids) >= by_key(ids), "r0[q] - r0[k] >= 0"),
    "bias_of_documents": (lambda ids, kept, q, k: (by_query(ids) - by_key(ids)).float() / 8, None),
}
