"""Models in the style of what people write, which meet tensor parallelism in ways that a transformer does not. Used by what_people_write.py."""
import torch
from torch import nn


class ProductOfTowers(nn.Module):
    """`product`: of the two towers' results, a number for each sample. Cut by columns, each result is a sum over devices."""

    def __init__(self, case, product):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 8, bias=False)
        self.c, self.d = nn.Linear(3, 6), nn.Linear(6, 8, bias=False)
        self.product = product

    def forward(self, x, y, mask):
        left, right = self.b(torch.relu(self.a(x))), self.d(torch.relu(self.c(y)))
        return (self.product(left, right) - mask).pow(2).mean()


class Bottleneck(nn.Module):
    """Products by bare matrices, of which one makes less than the product before it. `frozen`: numbers of matrices."""

    def __init__(self, case, sizes=(4, 8, 16, 8, 3), frozen=()):
        super().__init__()
        for k in range(4):
            setattr(self, f"w{k}", nn.Parameter(torch.randn(sizes[k], sizes[k + 1]) / sizes[k] ** 0.5, requires_grad=k not in frozen))

    def forward(self, x, y, mask):
        h = torch.relu(x @ self.w0) @ self.w1
        return (torch.tanh(h @ self.w2) @ self.w3 - y).pow(2).mean()


class SquaredMatrix(nn.Module):
    """A weight that one operator reads twice."""

    def __init__(self, case):
        super().__init__()
        self.w, self.b = nn.Parameter(torch.randn(4, 4) / 2), nn.Linear(4, 3)

    def forward(self, x, y, mask):
        return (self.b(torch.relu(x @ (self.w @ self.w))) - y).pow(2).mean()


class HeadTwice(nn.Module):
    """`use`: how the loss reads the head and its bias, of (module, hidden, labels)."""

    def __init__(self, case, use):
        super().__init__()
        self.embed, self.a, self.head, self.use = nn.Embedding(12, 8), nn.Linear(8, 8), nn.Linear(8, 12), use

    def forward(self, ids, labels):
        return self.use(self, torch.tanh(self.a(self.embed(ids))), labels)


class SequenceFirstMlp(nn.Module):
    """Samples are the second axis."""

    def __init__(self, case):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 8), nn.Linear(8, 4), nn.Linear(4, 3)

    def forward(self, x, y):
        return (self.c(self.b(torch.relu(self.a(x.transpose(0, 1))))).transpose(0, 1) - y).pow(2).mean()


class TokenMixer(nn.Module):
    """An MLP along the sequence, as in MLP-Mixer (Tolstikhin et al. 2021)."""

    def __init__(self, case, tokens=6, bias=True):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(4), nn.Linear(4, 3)
        self.a, self.b = nn.Linear(tokens, 8), nn.Linear(8, tokens, bias=bias)

    def forward(self, x, y):
        mixed = self.b(torch.nn.functional.gelu(self.a(self.norm(x).transpose(1, 2)))).transpose(1, 2)
        return (self.out(x + mixed) - y).pow(2).mean()


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(size), nn.Linear(size, 16), nn.Linear(16, size)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class TwoBlocks(nn.Module):
    """A residual stream that goes on from one stage to the next."""

    def __init__(self, case):
        super().__init__()
        self.a, self.b, self.head = Block(8), Block(8), nn.Linear(8, 3)

    def forward(self, x, y):
        return torch.nn.functional.mse_loss(self.head(self.b(self.a(x))), y)


class BlockOfTwoStages(nn.Module):
    """The second stage begins with a product that reads a norm of the first one."""

    def __init__(self, case):
        super().__init__()
        self.a, self.norm, self.b, self.down, self.head = Block(8), nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8), nn.Linear(8, 3)

    def forward(self, x, y):
        x = self.a(x)
        x = x + self.down(torch.tanh(self.b(self.norm(x))))
        return torch.nn.functional.mse_loss(self.head(x), y)


class TokensApart(nn.Module):
    """The first tokens are treated in another way than the others, beside a residual connection."""

    def __init__(self, case, lengths=(1, 5)):
        super().__init__()
        self.block, self.head, self.lengths = Block(8), nn.Linear(8, 3), lengths

    def forward(self, x, y):
        x = self.block(x)
        x = x + torch.cat([part * (1 - 0.3 * i) for i, part in enumerate(x.split(self.lengths, 1))], 1)
        return torch.nn.functional.mse_loss(self.head(x), y)


class LayerScale(nn.Module):
    """Activations of 16 bits that a norm reads in f32, and so does a sum after it."""

    def __init__(self, case):
        super().__init__()
        self.a, self.norm, self.up, self.down, self.b = nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8), nn.Linear(8, 3)
        self.scale = nn.Parameter(torch.rand(8))

    def forward(self, x, y):
        x = self.a(x)
        x = x + self.down(torch.tanh(self.up(self.norm(x)))) * self.scale
        return torch.nn.functional.mse_loss(self.b(x), y)


class FactorsOfLayers(nn.Module):
    """One parameter has a number for each layer."""

    def __init__(self, case):
        super().__init__()
        self.a, self.b, self.c, self.factors = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 3), nn.Parameter(torch.rand(2))

    def forward(self, x, y, mask):
        first = torch.tanh(self.a(x))
        h = torch.tanh(self.b(first)) * self.factors[0] + first * self.factors[1]
        return (self.c(h) - y).pow(2).mean()


class OutputAsLoss(nn.Module):
    """`use`: what the loss is, of (module, hidden, output); no target. Gradients are the same for many elements."""

    def __init__(self, case, use):
        super().__init__()
        self.first, self.up, self.down, self.norm, self.use = nn.Linear(4, 4), nn.Linear(4, 8), nn.Linear(8, 4), nn.LayerNorm(4), use
        self.w = nn.Parameter(torch.randn(4, 4) / 2)

    def forward(self, x):
        hidden = self.up(torch.tanh(self.first(x)))
        return self.use(self, hidden, self.down(torch.relu(hidden)))


OUTPUTS_AS_LOSSES = {
    "sum_of_columns": lambda m, h, p: h.sum() / 10,
    "mean_of_columns": lambda m, h, p: h.mean(),
    "weighted_columns": lambda m, h, p: (h * torch.linspace(0, 1, 8)).sum(),
    "sum": lambda m, h, p: p.sum(),
    "mean": lambda m, h, p: p.mean(),
    "negative": lambda m, h, p: -p.sum(-1).mean(),
    "norm": lambda m, h, p: m.norm(p).mean() + h.sum() / 10,
    "bare_matrix": lambda m, h, p: (m.down(h) @ m.w).sum(),
    "mean_of_samples": lambda m, h, p: m.down(h).mean((1, 2)).mean(),
    "squared_means": lambda m, h, p: (m.down(h).mean(1) ** 2).mean(),
    "gated": lambda m, h, p: (torch.sigmoid((p @ m.w).sum(-1, keepdim=True)) * p).sum(),
    "weights": lambda m, h, p: (p * 0.5).sum() + m.norm.weight.sum(),
}


class FactorisedHead(nn.Module):
    """Logits by the table, which the embedding reads in parts of the sequence; `normed`: with a norm before the head."""

    def __init__(self, case, normed=False):
        super().__init__()
        self.e, self.up, self.down, self.back = nn.Embedding(12, 4), nn.Linear(4, 8), nn.Linear(8, 4), nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4) if normed else nn.Identity()

    def forward(self, ids, labels):
        x = self.e(ids)
        x = self.norm(x + self.down(torch.relu(self.up(x))))
        return torch.nn.functional.cross_entropy((self.back(x) @ self.e.weight.t()).view(-1, 12), labels.view(-1))


class MatrixTwice(nn.Module):
    """One matrix makes columns, and is read beside parts of the sequence."""

    def __init__(self, case):
        super().__init__()
        self.w, self.up, self.down, self.b = nn.Parameter(torch.randn(4, 4) / 2), nn.Linear(4, 8), nn.Linear(8, 4), nn.Linear(4, 4)

    def forward(self, x, y):
        x = x @ self.w.t()
        x = x + self.down(torch.relu(self.up(x)))
        return (self.b(x) @ self.w.t() - y[..., :1]).pow(2).mean()


class PooledHead(nn.Module):
    """`pool`: of the sequence."""

    def __init__(self, case, pool):
        super().__init__()
        self.a, self.up, self.down, self.head, self.pool = nn.Linear(4, 4), nn.Linear(4, 8), nn.Linear(8, 4), nn.Linear(4, 3), pool

    def forward(self, x, y):
        x = self.a(x)
        x = x + self.down(torch.relu(self.up(x)))
        return (self.head(self.pool(x)) - y[:, 0]).pow(2).mean()


class PenaltyOnAll(nn.Module):
    """The loss has a penalty on all parameters, some of which are read beside parts of a sequence."""

    def __init__(self, case):
        super().__init__()
        self.first, self.norm, self.last = nn.Embedding(7, 4), nn.LayerNorm(4), nn.Linear(4, 7)
        self.pos = nn.Parameter(torch.randn(1, 6, 4))

    def forward(self, ids, labels):
        h = torch.tanh(self.norm(self.first(ids) + self.pos))
        penalty = sum(p.pow(2).sum() for p in self.parameters()) + self.first.weight.abs().sum()
        return torch.nn.functional.cross_entropy(self.last(h).view(-1, 7), labels.view(-1)) + 0.01 * penalty


class PlacesInStages(nn.Module):
    """What is the same for all samples is added to them: with one sample in a piece, gradients are not summed over an axis."""

    def __init__(self, case):
        super().__init__()
        self.pos, self.a, self.b = nn.Parameter(torch.randn(1, 6, 4)), nn.Linear(4, 4), nn.Linear(4, 3)
        self.scale = nn.Parameter(torch.randn(1, 6, 3))

    def forward(self, x, y):
        h = torch.tanh(self.a(x + self.pos))
        return (self.b(h) * self.scale - y).pow(2).mean()


class LossInBf16(nn.Module):
    """`error`: of (prediction, y), all in bf16; times a parameter, beside a term without samples."""

    def __init__(self, case, error):
        super().__init__()
        self.a, self.w, self.error = nn.Linear(4, 3), nn.Parameter(torch.zeros(())), error
        self.bfloat16()

    def forward(self, x, y, mask):
        return self.error(self.a(x.bfloat16()), y.bfloat16()) * torch.exp(-self.w) + self.w


ERRORS_IN_BF16 = {"mean": lambda p, y: (p - y).abs().mean(), "mse": torch.nn.functional.mse_loss,
                  "sum": lambda p, y: (p - y).pow(2).sum() / p.numel()}


class StandardLayers(nn.Module):
    """PyTorch's own transformer layers, whose attention takes the axes of samples and of tokens from the rows of its last layer."""

    def __init__(self, case, batch_first):
        super().__init__()
        self.a, self.b, self.batch_first = nn.Linear(4, 8), nn.Linear(8, 3), batch_first
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=batch_first)
        self.decoder = nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=batch_first)

    def forward(self, x, y):
        h = self.a(x) if self.batch_first else self.a(x).transpose(0, 1)
        h = self.decoder(h, self.encoder(h))
        return (self.b(h if self.batch_first else h.transpose(0, 1)) - y).pow(2).mean()
