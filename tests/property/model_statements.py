"""The statements of random models: what people write in `forward`, by the type of what they make.

    X  float [B, S, D] of the data        G  float [B, S, D] made by the model     P  float [B, D]
    M  float [B, S] of the data           F  float [B, S] made by the model        K  bool [B, S] of the data    I  integer [B, S], 0 to 6
    T  float [S, D] without samples       V  float [D] without samples             C  scalar without samples
    E  scalar of the step's data          L  scalar that a loss may add

`<T>` in a text is an earlier value of that type, `<T:1>` the same one at each place of the text, `H` one of G or X, `W` one of F or M.
`{a|b}` is one of the words. `#` is the statement's number and `$` its value; a text without `$` is an expression. A statement that
`mixes` reads several samples together, so that it may be refused where the batch is cut.
"""
from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Production:
    type: str
    code: str
    init: str = ""
    weight: float = 1.0
    mixes: bool = False
    limit: str = ""      # a code that it may be refused with where the batch is cut, though it reads no other sample


LINEAR = "self.m# = nn.Linear(D, D)"
HEAD = ("F.mse_loss(self.last(<G>), y)", "self.last = nn.Linear(D, D)")
# Each type has a value to begin with: (type, name, text, init).
BASES = (
    ("X", "x", "", ""), ("X", "y", "", ""), ("P", "z", "", ""), ("M", "mask", "", ""), ("I", "ids", "", ""),
    ("G", "h", "torch.tanh(self.first(x))", "self.first = nn.Linear(D, D)"),
    ("K", "keep", "mask > 0.5", ""),
    ("F", "error", "(<G> - y).pow(2).mean(-1)", ""),
    ("T", "table", "self.positions", "self.positions = nn.Parameter(0.3 * torch.randn(S, D))"),
    ("V", "scale", "self.vector", "self.vector = nn.Parameter(torch.linspace(0.5, 1.5, D))"),
    ("C", "gain", "self.scalar", "self.scalar = nn.Parameter(torch.tensor(0.8))"),
    ("E", "count", "mask.sum()", ""),
    ("L", "base", *HEAD),
)

# ---------------------------------------------------------------- [B, S, D]
HIDDEN = [
    ("torch.{tanh|relu|sigmoid}(self.m#(<H>))", LINEAR, 3),
    ("F.{gelu|silu|softplus|leaky_relu}(self.m#(<H>))", LINEAR, 2),
    ("<G> + self.m#(<G>)", LINEAR, 2),
    ("self.m#(<H>)", "self.m# = nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Dropout(0.0), nn.Linear(2 * D, D))"),
    ("self.m#(<H>)", "self.m# = nn.LayerNorm(D)", 2),
    ("self.m#(<H>)", "self.m# = nn.RMSNorm(D, eps=1e-5)"),
    ("self.m#(<H>.transpose(1, 2)).transpose(1, 2)", "self.m# = nn.GroupNorm(2, D)"),
    ("self.m#(<H>.transpose(1, 2)).transpose(1, 2)", "self.m# = nn.Conv1d(D, D, 3, padding=1)"),
    ("self.m#(<I>)", "self.m# = nn.Embedding(7, D)", 2),
    ("self.m#(<I>)", "self.m# = nn.Embedding(7, D, padding_idx=0)"),
    ("<H> * torch.sigmoid(<H>)",), ("<H> + <P>.unsqueeze(1)",), ("<H> + <T>", "", 2), ("<H> * <V>",), ("<H> * <W>.unsqueeze(-1)",), ("<H> * <C>",),
    ("<H> - <P>[:, None]",), ("torch.maximum(<H>, 0.5 * <H>)",), ("<H>.clamp(-1, 1)",), ("<H>.softmax({-1|1})",), ("<H>.log_softmax(-1)",),
    ("torch.where(<K>.unsqueeze(-1), <H>, <H>)",), ("<H>.masked_fill(~<K>.unsqueeze(-1), {0.0|-1.0})",), ("<H> * <K>[..., None]",),
    ("F.normalize(<H>, dim=-1)",), ("<H> / (1 + <H:1>.norm(dim=-1, keepdim=True))",), ("<H> - <H:1>.amax(1, keepdim=True)",),
    ("<H:1> - <H:1>.mean({1|-1|(1, 2)}, keepdim=True)",), ("(<H:1> - <H:1>.mean(1, keepdim=True)) / (<H:1>.var(1, keepdim=True) + 0.1).sqrt()",),
    ("torch.cat([<H:1>[:, 1:], <H:1>[:, :1]], 1)",), ("<H>.flip(1)",), ("<H>.roll(1, 1)",), ("<H>.cumsum(1) / S",), ("F.pad(<H>, (0, 0, 1, 0))[:, :-1]",),
    ("torch.cat([<H>, <H>], -1)[..., 1:D + 1]",), ("self.m#(torch.cat([<H>, <H>], -1))", "self.m# = nn.Linear(2 * D, D)"),
    # views
    ("<H>.reshape(B, -1).view(B, S, D)",), ("torch.tanh(<H>.reshape(-1, D)).view(B, S, D)",), ("self.m#(<H>.flatten(0, 1)).unflatten(0, (B, S))", LINEAR),
    ("<H>.transpose(0, 1).contiguous().transpose(0, 1)",), ("<H>.view(B, S, 2, D // 2).transpose(2, 3).reshape(B, S, D)",),
    ("torch.stack([<H>, <H>]).mean(0)",), ("torch.stack(<H>.unbind(1), 1)",), ("torch.cat(<H>.chunk(2, -1)[::-1], -1)",),
    ("<H>.unsqueeze(0).squeeze(0)",), ("<H>.permute(2, 0, 1).permute(1, 2, 0)",), ("<H>.expand(2, -1, -1, -1).sum(0)",), ("<H>.repeat(1, 1, 2)[..., :D]",),
    ("torch.einsum('bsd,de->bse', <H>, self.w#)", "self.w# = nn.Parameter(0.5 * torch.randn(D, D))"),
    ("torch.einsum('bsd,bsd,e->bse', <H>, <H>, <V>)",), ("<H> @ self.m#.weight.t()", LINEAR), ("F.linear(<H>, self.first.weight)",),
    # attention and recurrences
    ("torch.softmax(<H> @ <H>.transpose(1, 2) / D ** 0.5, -1) @ <H>", "", 2),
    ("a = <H> @ <H>.transpose(1, 2)\na = a.masked_fill(torch.triu(torch.ones(S, S, dtype=torch.bool), 1), float('-inf'))\n$ = a.softmax(-1) @ <H>",),
    ("a = <H> @ <H>.transpose(1, 2) + (1 - <M>)[:, None, :] * -1e4\n$ = a.softmax(-1) @ <H>",),
    ("q, k, v = self.m#(<H>).chunk(3, -1)\nq, k, v = (t.view(B, S, 2, D // 2).transpose(1, 2) for t in (q, k, v))\n"
     "$ = F.scaled_dot_product_attention(q, k, v, is_causal={True|False}).transpose(1, 2).reshape(B, S, D)", "self.m# = nn.Linear(D, 3 * D)", 2),
    ("q = <H>.view(B, S, 2, -1).transpose(1, 2)\n$ = F.scaled_dot_product_attention(q, q, q, attn_mask=<K>[:, None, None, :] | "
     "torch.eye(S, dtype=torch.bool)).transpose(1, 2).reshape(B, S, D)",),
    ("self.m#(<H:1>, <H:1>, <H:1>, need_weights=False)[0]", "self.m# = nn.MultiheadAttention(D, 2, batch_first=True)"),
    ("self.m#(<H>)", "self.m# = nn.TransformerEncoderLayer(D, 2, 2 * D, dropout=0.0, batch_first=True{|, norm_first=True})", 0.5),
    ("self.m#(<H>)[0]", "self.m# = nn.{GRU|LSTM|RNN}(D, D, batch_first=True)"),
    ("self.m#(<H>.transpose(0, 1))[0].transpose(0, 1)", "self.m# = nn.{GRU|LSTM}(D, D)", 0.5),
    ("s, outs = torch.zeros(B, D), []\nfor t in range(S):\n    s = torch.tanh(self.m#(<H:1>[:, t]) + 0.5 * s)\n    outs.append(s)\n$ = torch.stack(outs, 1)", LINEAR),
    ("s, outs = <P>, []\nfor step in <H:1>.unbind(1):\n    s = self.m#(step, s)\n    outs.append(s)\n$ = torch.stack(outs, dim=1)", "self.m# = nn.GRUCell(D, D)", 0.2),
    # in place
    ("$ = <H>.clone()\n$[:, {0|-1}] = 0",), ("$ = <H> * 1.0\n$[:, -1] += <P>",), ("$ = <H>.clone()\n$.mul_(0.5).add_(<V>)",), ("$ = <H> * 1.0\n$[..., 0].add_(1.0)",),
    ("$ = torch.zeros_like(<H:1>)\n$[:, 1:] = <H:1>[:, :-1]",), ("$ = torch.zeros(B, S, D)\n$[..., :1] = <H>[..., :1]",), ("$ = <H> * 1.0\na = $[:, :2]\na *= 2",),
    ("$ = <H>.clone()\n$.masked_fill_(~<K>[..., None], 0.0)",), ("$ = <H>.clone()\n$[:, 0] = <V>",), ("$ = <H> * 1.0\n$.view(B, -1)[:, 0] = 1.0",),
    ("$ = <H>.clone()\n$[0] = 0", "", 0.3, False, "P0331"), ("$ = self.m#(<G>)", "self.m# = nn.ReLU(inplace=True)", 0.3), ("$ = <G:1>.add_(0.5)", "", 0.3), ("$ = <H>.clone()\n$[<K>] = 0", "", 0.3),
    ("$ = <H> + 1\n$ -= <T>",), ("$ = torch.empty(B, S, D)\n$.copy_(<H>)",), ("$ = <H>.clone()\nfor t in range(1, S):\n    $[:, t] = $[:, t] + 0.5 * $[:, t - 1].clone()", "", 0.5),
    # constants in a shape that has the batch
    ("<H> + torch.zeros(B, S, D)",), ("<H> + 0.1 * torch.ones_like(<H>)",), ("<H> * (torch.arange(B) / B)[:, None, None]",), ("<H> + torch.arange(B)[:, None, None] / 8",),
    ("<H> * (torch.arange(B * S).view(B, S, 1) / 50)",), ("<H> * <H>.new_full((B, S, 1), 0.5)",), ("torch.cat([<H>[:, :-1], torch.zeros(B, 1, D)], 1)",),
    ("torch.cat([<V>.expand(B, 1, D), <H>[:, 1:]], 1)", "", 2), ("<T>.expand(B, S, D) * <H>",), ("<T>.unsqueeze(0).repeat(B, 1, 1) + <H>",),
    ("a = torch.ones_like(<H:1>)\na[{0|:, 0|..., -1}] = 0\n$ = <H:1> * a", "", 2), ("F.one_hot(<I>, 7).to(x.dtype) @ self.w#", "self.w# = nn.Parameter(torch.randn(7, D))"),
    ("<H> * (torch.arange(B) % 2)[:, None, None]",), ("<H> + torch.outer(torch.arange(B) * 0.1, <V>).unsqueeze(1)",),
    # gradients stopped, computed again, hooked
    ("<H>.detach() + <G>",), ("with torch.no_grad():\n    a = <G>.abs()\n$ = <G> * a",), ("<G:1> + (torch.sign(<G:1>) - <G:1>).detach()",), ("<H> * (<G> > 0)",),
    ("torch.set_grad_enabled(False)\na = self.m#(<G>)\ntorch.set_grad_enabled(True)\n$ = <G> + a", LINEAR, 0.5),
    ("torch.utils.checkpoint.checkpoint(self.m#, <G>, use_reentrant={True|False})", "self.m# = nn.Sequential(nn.Linear(D, D), nn.Tanh())"),
    ("$ = <G> * 1.0\nif $.requires_grad:\n    $.register_hook(lambda gradient: gradient * 2)", "", 0.2),
    # parameters and buffers
    ("self.m#(<H>)", "self.m# = nn.Linear(D, D).requires_grad_(False)"), ("<H> * self.c#", "self.register_buffer('c#', torch.linspace(0.5, 1, D){|, persistent=False})"),
    ("<H> + self.w#.sum(0)", "self.w# = nn.Parameter(torch.zeros(0, D))", 0.5), ("F.linear(self.m#(<H>), self.m#.weight)", LINEAR), ("<H> + self.m#.weight[0]", "self.m# = nn.Embedding(3, D)"),
    ("self.c# += 1\n$ = <H> / self.c#", "self.register_buffer('c#', torch.tensor(1.0))", 0.2), ("<H> * self.w#", "self.w# = nn.Parameter(torch.tensor(1.5), requires_grad=False)"),
    ("F.dropout(<H>, 0.0, self.training)",), ("<H> * {2|0.5|-1}",), ("<H> / D ** 0.5",), ("<H> * (8 / B)", "", 0.5), ("<H> if S > 3 else <H>",), ("<H:1> * 2 if <H:1>.shape[-1] % 2 == 0 else <H:1>",),
    # mixtures, gathers
    ("g = self.g#(<H:1>).softmax(-1)\n$ = sum(g[..., i:i + 1] * torch.tanh(e(<H:1>)) for i, e in enumerate(self.e#))",
     "self.g# = nn.Linear(D, 2)\nself.e# = nn.ModuleList([nn.Linear(D, D) for _ in range(2)])"),
    ("g, i = self.m#(<H:1>).softmax(-1).max(-1, keepdim=True)\n$ = <H:1> * g + torch.where(i == 0, <H>, 0.0)", "self.m# = nn.Linear(D, 3)"),
    ("g, i = self.m#(<H:1>).topk(2, -1)\n$ = <H:1> * g.softmax(-1)[..., :1] + self.e#(i).sum(2)", "self.m# = nn.Linear(D, 4)\nself.e# = nn.Embedding(4, D)"),
    ("<H>.gather(1, (<I> % S).unsqueeze(-1).expand(B, S, D))",), ("<H>[:, torch.arange(S - 1, -1, -1)]",), ("<H>.index_select(1, torch.arange(S).flip(0))",),
    ("self.m#(torch.arange(S)) + <H>", "self.m# = nn.Embedding(9, D)"), ("<T>[<I> % S]",), ("<H>.sort(1)[0]", "", 0.3),
]
HIDDEN_MIXING = ["<H> - <G>.mean(0)", "<H> / (1 + <G>.pow(2).sum(0, keepdim=True))", "<G>.flip(0)", "<G>.roll(1, 0)", "<G>.cumsum(0) / B", "<G>.softmax(0)", "<H> + <G>[:1]", "<H> + <G>[0]",
                 "<H> * <E> / 9", "self.m#(<H>.reshape(-1, D)).view(B, S, D)", "<H> - <X>.mean(0)", "torch.cat([<G:1>[B // 2:], <G:1>[:B // 2]])"]

# ---------------------------------------------------------------- [B, D]
POOLED = [
    ("<H>.mean(1)", "", 2), ("<H>[:, {0|-1}]", "", 2), ("<H>.sum(1) / S",), ("<H>.amax(1)",), ("<H>.max(1).values",), ("torch.tanh(self.m#(<P>))", LINEAR, 2), ("<P> + <V>",), ("<P> * <P>",),
    ("(<H> * <M:1>[..., None]).sum(1) / <M:1>.sum(1, keepdim=True).clamp(min=1)", "", 2), ("self.m#(<I>[:, 0])", "self.m# = nn.Embedding(7, D)"), ("torch.ones(B, D) * <V>",), ("<V>.expand(B, D)",),
    ("self.m#(<H>)[1].squeeze(0)", "self.m# = nn.GRU(D, D, batch_first=True)"), ("<H>[torch.arange(B), (<K>.sum(1) - 1).clamp(min=0)]",), ("torch.einsum('bsd,bs->bd', <H>, <W>)",),
    ("<H>.reshape(B, -1)[:, :D]",), ("self.m#(<H>.flatten(1))", "self.m# = nn.Linear(S * D, D)"), ("torch.zeros(B, D) + <P>",),
    ("<P> * torch.arange(1, B + 1).unsqueeze(1) / 8",), ("F.dropout(<P>, 0.0) + <P>.detach()",), ("<H>.std(1)",), ("<W> @ <T>",), ("(<W>.softmax(1).unsqueeze(1) @ <H>).squeeze(1)",),
    ("self.m#(<P>)", "self.m# = nn.LayerNorm(D)"), ("F.softmax(<P>, -1)",), ("torch.cat([<P>[:, :1], <P>[:, 1:]], 1)",), ("<H>.unbind(1)[0] - <H>.select(1, -1)",), ("torch.addmm(<V>, <P>, self.w#)", "self.w# = nn.Parameter(torch.randn(D, D) / 2)"),
    ("$ = torch.zeros(B, D)\nfor t in range(S):\n    $ = $ + <H:1>[:, t]",), ("self.m#(<I>)", "self.m# = nn.EmbeddingBag(7, D, mode='{mean|sum}')", 0.5), ("torch.baddbmm(<P>.unsqueeze(1), <W>.unsqueeze(1), <H>).squeeze(1)", "", 0.5),
]
POOLED_MIXING = ["<P> - <P:1>.mean(0)", "<P:1>.softmax(0)", "<P>.flip(0)", "<P:1> @ <P:1>.t() @ <P>", "<P:1> / <P:1>.norm(dim=0)", "<P>[0].expand(B, D)", "<H>.mean(0)[:1].expand(B, D)", "self.m#(<P>)"]

# ---------------------------------------------------------------- [B, S]
PER_TOKEN = [
    ("<H>.mean(-1)",), ("(<G> - <H>).pow(2).mean(-1)", "", 3), ("(<G> - y).abs().sum(-1)", "", 2), ("F.mse_loss(<G>, y, reduction='none').mean(-1)", "", 2), ("<H>[..., 0]",), ("self.m#(<H>).squeeze(-1)", "self.m# = nn.Linear(D, 1)"),
    ("F.cross_entropy(<G>.transpose(1, 2), labels, reduction='none')", "", 2), ("F.cross_entropy(<G>.reshape(-1, D), labels.reshape(-1), reduction='none').view(B, S)", "", 2), ("<F> * <M>", "", 2), ("torch.logsumexp(<H>, -1)",),
    ("<F>.softmax(1)",), ("<F>.cumsum(1)",), ("(<H> * <P>.unsqueeze(1)).sum(-1)",), ("F.cosine_similarity(<G>, <H>, dim=-1)",), ("F.smooth_l1_loss(<G>, <H>, reduction='none').mean(-1)",), ("<H>.abs().amax(-1)",), ("<F:1> - <F:1>.mean(1, keepdim=True)",),
    ("-<G>.log_softmax(-1).gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)", "", 2), ("<F>.sigmoid()",), ("<F> + <F>",), ("torch.where(<K>, <F>, 0.0)",), ("<F>.masked_fill(~<K>, 0)",), ("(<H> @ <V>)",), ("<F> * <C>",), ("<H> @ self.w#", "self.w# = nn.Parameter(torch.randn(D))"),
    ("(<F> - 0.1).relu()",), ("<F> * torch.linspace(0, 1, S)",), ("$ = <F>.clone()\n$[:, -1] = 0",), ("<F>.clamp(max=2)",), ("F.binary_cross_entropy_with_logits(<F>, <K>.to(x.dtype), reduction='none')",), ("<F:1> * torch.exp(-<F:1>.detach())",), ("<F> / (B * S) * 40", "", 0.5),
]
PER_TOKEN_MIXING = ["<F> - <F:1>.mean()", "<F:1> / <F:1>.sum(0)", "<F>.flip(0)", "<F>.softmax(0)", "<F> / <F:1>.max()", "<F>.sort(0)[0]", "(<F:1>.flatten().cumsum(0)).view(B, S) / 9"]
MASKS = [
    ("<K>.to(x.dtype)", "", 2), ("<K> * 1.0",), ("torch.ones(B, S)",), ("torch.ones_like(<M>)", "", 2), ("(torch.arange(S) < S - 1).to(x.dtype).expand(B, S)",), ("<M> * torch.arange(1, S + 1)",), ("1 - 0.5 * <M>",), ("$ = torch.ones_like(<M>)\n$[:, -1] = 0", "", 2),
    ("$ = torch.ones(B, S)\n$[{0|-1|1:}] = 0", "", 2), ("$ = torch.ones(B, S)\n$[:2] = 0", "", 0.5, False, "P0336"), ("torch.zeros(B, S) + 0.5",), ("(<I> != 0).to(x.dtype)", "", 2), ("<M>.cumsum(1) / S",), ("(torch.arange(B) * 0.1 + 0.5).unsqueeze(1) * <M>",), ("<M>.new_ones(B, S)",), ("<M>.new_full((B, S), 0.3)",), ("(torch.arange(B) % 2).unsqueeze(1) + <M>",),
    ("torch.ones(B, S).cumsum(0) / 8",), ("torch.full((B, S), 0.3)",), ("torch.tril(torch.ones(S, S))[-1].expand(B, S)",), ("torch.where(<K>, 1.0, 0.25)",), ("<M> / <M:1>.sum(1, keepdim=True).clamp(min=1)",), ("<M> * <M>",), ("(labels != -100).to(x.dtype)", "", 2), ("F.one_hot(torch.arange(B) % S, S).to(x.dtype) + <M>",),
    ("torch.ones(S).unsqueeze(0).repeat(B, 1) * <M>",), ("x[..., 0].abs()",), ("y.norm(dim=-1)",), ("torch.outer(torch.ones(B), torch.arange(S) / S)",), ("<M>.max(1, keepdim=True).values.expand(B, S)",), ("torch.eye(S)[<I> % S].sum(-1)",), ("torch.stack([<M>, <M>]).sum(0)",),
]
BOOLEANS = [("mask > 0.5",), ("<I> > 2",), ("<I> == <I:1>.amax(1, keepdim=True)",), ("~<K>",), ("<K> & <K>",), ("<K> | <K>",), ("<M> > 0.3",), ("torch.ones(B, S, dtype=torch.bool)",), ("(torch.arange(S) % 2 == 0).expand(B, S)",), ("<K> | (torch.arange(S) < 2)",), ("(torch.arange(B) < 4)[:, None].expand(B, S)",),
            ("labels != -100", "", 2), ("(<I> != 0) & (<I> != 6)",), ("<K>.logical_not()",), ("torch.isin(<I>, torch.tensor([1, 2, 3]))", "", 0.5), ("$ = torch.ones_like(<K>)\n$[:, 0] = False",)]
INTEGERS = [("(<I> + 1) % 7",), ("torch.arange(S).expand(B, S) % 7",), ("<I> * <K>.long()",), ("<K>.long().cumsum(1) % 7",), ("torch.arange(B * S).view(B, S) % 7",), ("<I>.flip(1)",), ("torch.cat([<I:1>[:, 1:], <I:1>[:, :1]], 1)",), ("torch.zeros_like(<I>)",), ("torch.where(<K>, <I>, 0)",), ("<I>.clamp(max=3)",), ("torch.full_like(<I>, 2)",),
            ("<I>.masked_fill(~<K>, 0)",), ("$ = <I>.clone()\n$[:, 0] = 1",), ("(torch.arange(B)[:, None] + torch.arange(S)) % 7",), ("F.pad(<I>, (1, 0))[:, :-1]",), ("<I>.roll(-1, 1)",), ("<X>.argmax(-1) % 7",)]

# ---------------------------------------------------------------- without samples
TABLES = [("self.t#", "self.t# = nn.Parameter(0.3 * torch.randn(S, D))", 2), ("torch.arange(S).unsqueeze(1) * <V>",), ("self.m#(torch.arange(S))", "self.m# = nn.Embedding(9, D)"), ("<T> + <V>",), ("torch.outer(torch.linspace(0, 1, S), <V>)",), ("torch.sin(torch.arange(S)[:, None] / 10 ** torch.linspace(0, 1, D))",), ("<T>.softmax(0)",),
          ("<T>.flip(0)",), ("torch.tril(torch.ones(S, S)) @ <T> / S",), ("self.m#(<T>)", LINEAR), ("self.m#[:S]", "self.register_buffer('m#', torch.randn(9, D))"), ("<T>.clone().detach() + <V>",), ("$ = torch.zeros(S, D)\n$[0] = <V>",)]
VECTORS = [("self.v#", "self.v# = nn.Parameter(torch.linspace(0.5, 1, D))", 2), ("<V>.tanh()",), ("<T>.mean(0)",), ("<V> * <V>",), ("self.c#", "self.register_buffer('c#', torch.linspace(1, 2, D))"), ("F.softmax(<V>, 0)",), ("self.first.bias",), ("self.m#(<V>)", LINEAR), ("<V> + <C>",), ("torch.ones(D) * <C>",), ("self.first.weight.norm(dim=0)",)]
SCALARS = [("<V>.pow(2).sum()",), ("<T>.mean()",), ("self.c#", "self.c# = nn.Parameter(torch.tensor(0.3))", 2), ("<C>.exp().clamp(max=10)",), ("torch.sigmoid(<C>)",), ("torch.tensor(0.7)",), ("1 + <C> ** 2",), ("<C> * <C>",), ("sum(p.pow(2).sum() for p in self.first.parameters())",), ("(<V> * <V>).mean().sqrt()",), ("<T>.max()",)]
COUNTS = [("<M>.sum()", "", 3), ("<M>.mean()", "", 2), ("<K>.sum()", "", 2), ("<K>.to(x.dtype).mean()",), ("y.abs().mean()",), ("<M>.sum().clamp(min=1)", "", 2), ("(labels != -100).sum()", "", 2), ("<E> + 1.0",), ("<M>.sum().sqrt()",), ("torch.ones(B, S).sum()",), ("(<M> * <M>).sum()",), ("<M>.sum(1).clamp(min=1).sum()",), ("<E> * 0.5 + <E>",),
          ("<I>.to(x.dtype).mean()",), ("x.pow(2).sum().sqrt()",), ("torch.maximum(<E>, torch.tensor(1.0))",), ("torch.log1p(<E>)",), ("<M>.sum() / <M>.numel()",), ("<K>.sum().to(x.dtype) / B",), ("torch.ones_like(<M>).sum()",)]

# ---------------------------------------------------------------- losses
LOSSES = [
    ("F.mse_loss(<G>, y)", "", 2), ("<G>.pow(2).mean()",), ("F.mse_loss(<P>, z)", "", 2), ("F.{l1_loss|smooth_l1_loss|huber_loss}(<G>, y)",), ("F.cross_entropy(<G>.reshape(-1, D), labels.reshape(-1))", "", 2), ("F.cross_entropy(<G>.reshape(-1, D), labels.reshape(-1), label_smoothing=0.1)",),
    ("F.cross_entropy(<G>.flatten(0, 1), labels.flatten(), reduction='sum') / (labels != -100).sum()", "", 2), ("F.nll_loss(<G>.log_softmax(-1).flatten(0, 1), labels.flatten())",), ("(<F> * <M:1>).sum() / <M:1>.sum()", "", 5), ("(<F> * <M:1>).sum() / <M:1>.sum().clamp(min=1e-6)", "", 2), ("(<F> * <M>).sum() / <M>.sum()",),
    ("((<G> - y).pow(2) * <M:1>.unsqueeze(-1)).sum() / (<M:1>.sum() * D)", "", 2), ("((<G> - y).pow(2) * <M:1>[..., None]).sum() / <M:1>[..., None].expand_as(y).sum()",), ("<F>.sum() / <E>", "", 2), ("<F>.mean() * <E>",), ("(<F> * <M>).sum(1).mean()",), ("((<F> * <M:1>).sum(1) / <M:1>.sum(1).clamp(min=1)).mean()", "", 2),
    ("<F>.sum() / B",), ("<F>.sum() / (B * S)",), ("<F:1>.sum() / <F:1>.numel()",), ("<F:1>.sum() / <F:1>.shape[0]",), ("((<F> * <M:1>).sum(0) / <M:1>.sum(0).clamp(min=1)).{sum|mean}()", "", 0.5, False, "P0331"), ("<F>[<K>].mean()", "", 0.3), ("torch.masked_select(<F>, <K>).sum() / <E>", "", 0.2), ("F.binary_cross_entropy_with_logits(<F>, <K>.to(x.dtype))",),
    ("F.binary_cross_entropy_with_logits(<F>, <K>.to(x.dtype), weight=<M>, pos_weight=torch.tensor(2.0))",), ("F.kl_div(<G>.log_softmax(-1), y.softmax(-1), reduction='{batchmean|sum|mean}')",), ("F.gaussian_nll_loss(<G>, y, <G>.exp())", "", 0.5), ("F.triplet_margin_loss(<P>, <P>, <P>)", "", 0.5), ("F.cosine_embedding_loss(<P>, z, torch.ones(B))",),
    ("0.01 * sum(p.pow(2).sum() for p in self.parameters())",), ("<T>.pow(2).sum()",), ("<V>.expand(B, D).pow(2).sum() / B",), ("<V>.expand(B, D).pow(2).sum()",), ("(<F>.mean(1) ** 2).mean()",), ("<C>",), ("(<F> * <C>).mean()",), ("torch.logsumexp(<F>, 1).mean()",), ("-<F>.log_softmax(1)[:, 0].mean()",), ("<H>.std(1).mean()", "", 0.5),
    ("(<F> * <M> / <M:1>.sum()).sum()", "", 1, False, "P0331"), ("<F>.sum() / <E> + <F>.mean()",), ("torch.stack([<L>, <L>]).{sum|mean}()",), ("<L> * 0.5 + <L>",), ("<L> / <E>",), ("<L> * <C>",), ("<L> * <C>.detach()",), ("torch.where(<E> > 0, <L>, 0.0)", "", 0.5, False, "P0331"), ("<L> if S > 3 else 2 * <L>",), ("torch.exp(-<C:1>) * <L> + <C:1>",), ("<L> * <E>",), ("<P>.{mean|sum}() * 0.1",),
    ("((<P> - z) ** 2).sum(-1).mean(0)",), ("(<F> * torch.arange(B).to(x.dtype)[:, None]).mean() / 8",), ("(<F> * (torch.arange(B) < 4)[:, None]).sum()",), ("$ = x.new_zeros(())\nfor t in range(S):\n    $ = $ + F.mse_loss(<G:1>[:, t], y[:, t]) / S",), ("torch.cat([<F>, <F>], 1).mean()",), ("<F>.max(1)[0].mean()",),
    ("(0.1 * torch.ones_like(<M>)).sum() + <L>",), ("(<G>.softmax(-1) * <G>.log_softmax(-1)).sum(-1).mean()",), ("<F>.view(-1).mean()",), ("<F>.t().sum(1).mean()",), ("torch.dot(<F>.reshape(-1), <M>.reshape(-1)) / <E>", "", 0.5, False, "P0331"), ("(<F> * <M>).sum().div(<M>.sum())",), ("torch.mean(<F>[:, 1:] - <F>[:, :-1])",), ("<F:1>.{sum|mean}() + <F:1>.pow(2).mean()",),
    ("<F>.sum(dim=(0, 1)) / <E>",), ("(<G> - y).norm(dim=-1).mean()", "", 0.5), ("F.l1_loss(<G> * <M:1>[..., None], y * <M:1>[..., None], reduction='sum') / <M:1>.sum()", "", 2), ("sum(F.mse_loss(<G>, t) for t in (x, y)) / 2",), ("<F>.mean(0).mean()",), ("<F>.{sum|mean}(0)[0] + <L>",),
]
LOSSES_MIXING = ["<L> * <L>", "(1 + <L>.pow(2)).sqrt()", "torch.log(1 + <L> ** 2)", "<L:1> / (1 + <L:1>.detach() ** 2)", "<F>.max()", "<F>.var()", "F.cross_entropy(<P> @ <P>.t(), torch.arange(B))", "(<P> - <P:1>.mean(0)).pow(2).mean()", "(<P:1>.unsqueeze(0) - <P:1>.unsqueeze(1)).pow(2).mean()", "<F>.sum() / (1 + <F>.pow(2).sum())",
                 "<P>[0].sum() + <L>", "<F>[:4].mean()", "<P>.mean(0).pow(2).sum()", "(<F:1> * (<F:1> > 0)).sum() / (1 + (<F:1> > 0).sum())", "<F>[1:].sum()", "torch.cat([<F>, <F>], 0).mean()",
                 "(<F:1> * (<G:2>.argmax(-1) == labels)).sum() / (1 + (<G:2>.argmax(-1) == labels).sum())"]


def table(type_, rows, mixing=()):
    def init_of(text):
        return "self.m# = nn.Sequential(nn.BatchNorm1d(D))" if "self.m#" in text else ""
    return ([Production(type_, row[0], *row[1:]) for row in rows] + [Production(type_, text, init_of(text), 0.15, True) for text in mixing])


PRODUCTIONS = (table("G", HIDDEN, HIDDEN_MIXING) + table("P", POOLED, POOLED_MIXING) + table("F", PER_TOKEN, PER_TOKEN_MIXING) + table("M", MASKS) + table("K", BOOLEANS) + table("I", INTEGERS) +
               table("T", TABLES) + table("V", VECTORS) + table("C", SCALARS) + table("E", COUNTS) + table("L", LOSSES, LOSSES_MIXING))
