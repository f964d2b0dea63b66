"""Losses as people write them, for evaluation.py: a small model that classifies tokens, of whose labels few batches ignore equally many.

Each of LOSSES is (module, logits, labels, results of layers) -> loss; `model` makes the module of one. REFUSED has those of which piperc
must say that they cannot be evaluated over batches (P0335). STRATEGIES cut the batch, the layers and the tokens.
"""
import torch
import torch.nn.functional as F
from torch import nn

CLASSES, TOKENS, WIDTH, IGNORED = 6, 4, 8, -100


def mean(x, y):
    return F.cross_entropy(x.reshape(-1, CLASSES), y.reshape(-1))


def each(x, y):
    return F.cross_entropy(x.transpose(1, 2), y, reduction="none")


def kept(y):
    return (y != IGNORED).float()


def entropy(x):
    return -(x.softmax(-1) * x.log_softmax(-1)).sum(-1).mean()


def of_each_sample(x, y):
    return ((each(x, y) * kept(y)).sum(1) / kept(y).sum(1)).mean()




LOSSES = {
    "constant": lambda m, x, y, h: h[1].pow(2).mean() + 1.0,
    "mean_and_constant": lambda m, x, y, h: mean(x, y) + 1.0,
    "buffer": lambda m, x, y, h: mean(x, y) + m.known,
    "element_of_buffer": lambda m, x, y, h: mean(x, y) + m.table[1],
    "terms_of_stages": lambda m, x, y, h: mean(x, y) + 0.1 * h[0].pow(2).mean() + m.known,
    "uncertainty": lambda m, x, y, h: mean(x, y) * torch.exp(-m.scale) + m.scale,
    "entropy_bonus": lambda m, x, y, h: mean(x, y) - 0.1 * entropy(x),
    "from_constant": lambda m, x, y, h: 1.0 - (2.0 - mean(x, y)),
    "stack_sum": lambda m, x, y, h: torch.stack([mean(x, y), h[1].pow(2).mean()]).sum(),
    "stack_mean": lambda m, x, y, h: torch.stack([mean(x[:, :2], y[:, :2]), mean(x, y)]).mean(),
    "weighted": lambda m, x, y, h: torch.dot(m.table, torch.stack([mean(x, y), h[1].pow(2).mean()])),
    "unsqueezed": lambda m, x, y, h: mean(x, y).unsqueeze(0).mean(),
    "divided_first": lambda m, x, y, h: (each(x, y) * kept(y) / kept(y).sum()).sum(),
    "integer_count": lambda m, x, y, h: (each(x, y) * (y != IGNORED)).sum() / (y != IGNORED).sum(),
    "least_one": lambda m, x, y, h: (each(x, y) * (y != IGNORED)).sum() / (y != IGNORED).sum().clamp(min=1),
    "plus_little": lambda m, x, y, h: (each(x, y) * kept(y)).sum() / (kept(y).sum() + 1e-8),
    "two_counts": lambda m, x, y, h: (each(x, y) * kept(y)).sum() / (kept(y).sum() + kept(y)[:, :2].sum()),
    "of_each_sample": lambda m, x, y, h: of_each_sample(x, y) + h[1].pow(2).mean(),
}
REFUSED = {
    "guarded": lambda m, x, y, h: torch.where((y != IGNORED).sum() > 0, mean(x, y), 0.0),
    "by_root": lambda m, x, y, h: (each(x, y) * kept(y)).sum() / kept(y).sum().sqrt(),
    "twice": lambda m, x, y, h: mean(x, y) / kept(y).mean(),
}


# Also refused: devices add up what each of them has divided.
REFUSED_HERE = (("divided_first", "seq2"),)
BATCH, BATCHES = 8, 3
PLAIN = f"piper: 1\nmodel: {{batch: {BATCH}}}\noptimizer: {{sgd: {{lr: 0.1}}}}\neval: {{batches: {BATCHES}}}\n"
STRATEGIES = {
    "one": PLAIN,
    "mb2": PLAIN + "directives: [{op: split, num_microbatches: 2}]\n",
    "mb8": PLAIN + "directives: [{op: split, num_microbatches: 8}]\n",
    "pp2": PLAIN + "annotate: [{tag: PP, starts: [layers.0, layers.1]}]\nschedule: {family: gpipe, microbatches: 1}\n",
    "seq2": PLAIN + "directives: [{op: shard, filter: {}, dim: column, devices: [0, 1]}, {op: shard, filter: {}, dim: sequence, devices: [0, 1]}]\n",
}


class Tokens(nn.Module):
    def __init__(self, loss):
        super().__init__()
        self.embed = nn.Embedding(CLASSES, WIDTH)
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(2))
        self.head = nn.Linear(WIDTH, CLASSES)
        if loss == "uncertainty":
            self.scale = nn.Parameter(torch.tensor(0.7))
        self.register_buffer("known", torch.tensor(2.5))
        self.register_buffer("table", torch.tensor([0.75, 0.25]))
        self.loss = [(LOSSES | REFUSED)[loss]]

    def forward(self, ids, labels):
        h = [self.embed(ids)]
        for layer in self.layers:
            h.append(h[-1] + layer(h[-1]))
        return self.loss[0](self, self.head(h[-1]), labels, h[1:])


def model(loss):
    torch.manual_seed(1)
    return Tokens(loss)


def draw(samples):
    """Every sample has a label; those of the first batches have fewer than the last ones."""
    torch.manual_seed(2)
    data = {name: torch.randint(0, CLASSES, (samples, TOKENS)) for name in ("ids", "labels")}
    ignored = torch.arange(TOKENS) > torch.arange(samples)[:, None] * TOKENS // samples
    data["labels"][ignored] = IGNORED
    return data
