"""Statements that few models have, each with a name so that a run can ask for it (`run_random_models.py --statement NAME`): what training
programs, of whatever kind, get wrong in silence. Their texts are as in model_statements.py, and further:

`<first>` is the value that every model begins with. `DROP` is the probability of dropout, 0 where PyTorch's own numbers are wanted.
`onnx` is what the ONNX file has in place of `code`: an operator of ONNX by its own name and attributes (`onnx_op`).
"""
from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Rare:
    kind: str                    # of fault
    type: str
    code: str
    init: str = ""
    mixes: bool = False          # as of a Production
    limit: str = ""
    onnx: str = ""
    first: tuple = ()            # (text, init) of the value that the model begins with
    cut: float | None = None     # where the second stage begins, as a share of the modules
    frozen: bool = False         # all that is ahead of the second stage
    loads: bool = False          # buffers are loaded with other values than they are exported with
    edit: str = ""               # of the ONNX file (file_edits.py)
    refused: bool = False        # the ONNX file, always
    alone: bool = False          # the loss is this value and nothing else
    trains: bool = False         # a refusal fails, except of what mixes samples where the batch is cut

    @property
    def foreign(self):
        """Its ONNX file is as another exporter would write it."""
        return bool(self.onnx or self.edit)


LINEAR = "self.m# = nn.Linear(D, D)"
NORM_TWICE = "self.m# = nn.{BatchNorm1d(D)|BatchNorm1d(D, momentum=0.3)|BatchNorm1d(D, affine=False)}"
THREE = "\n".join(f"self.{name}# = nn.Linear(D, D)" for name in "abm")
THREE_MORE = "a = torch.tanh(self.a#(<first>))\na = torch.relu(self.b#(a))\n$ = torch.tanh(self.m#(a))"
HEADS = "a = <H:1>\n$ = F.scaled_dot_product_attention(*[a.view(B, S, 2, -1).transpose(1, 2)] * 3, attn_mask={0}).transpose(1, 2).reshape(B, S, D)"
ATTENTION = "onnx_op('Attention', (<H:1>, <H:1>, <H:1>), q_num_heads=2, kv_num_heads=2, {0})"


def attention(mask, attributes):
    return {"code": HEADS.replace("{0}", mask), "onnx": ATTENTION.replace("{0}", attributes)}


def group(kind, trains=False, /, **rows):
    """{name: (type, code, init, fields)}"""
    made = {}
    for name, (type_, code, *rest) in rows.items():
        init = rest[0] if rest and isinstance(rest[0], str) else ""
        fields = rest[-1] if rest and isinstance(rest[-1], dict) else {}
        made[name] = Rare(kind, type_, **{"code": code, "init": init, "trains": trains} | fields)
    return made


MIXES = {"mixes": True}

COUNTING = group(
    "counts over the batch inside of an operator",
    embedding_by_frequency=("G", "self.m#(<I>)", "self.m# = nn.Embedding(7, D, scale_grad_by_freq=True)", MIXES),
    look_up_by_frequency=("G", "F.embedding(<I>, self.w#, None, None, 2.0, True)", "self.w# = nn.Parameter(0.5 * torch.randn(7, D))", MIXES),
    bag_by_frequency=("P", "self.m#(<I>)", "self.m# = nn.EmbeddingBag(7, D, mode='{sum|mean}', scale_grad_by_freq=True)", MIXES),
    weighted_classes=("L", "F.cross_entropy(<G>.flatten(0, 1), labels.flatten(), weight=self.c#)", "self.register_buffer('c#', torch.linspace(0.5, 2, D))"),
    weighted_likelihood=("L", "F.nll_loss(<G>.log_softmax(-1).transpose(1, 2), labels, weight=torch.linspace(0.5, 2, D))"),
)
DROPOUT = group(
    "dropout on what no sample is in", True,
    dropout_of_positions=("T", "F.dropout(self.m#(torch.arange(S)), DROP)", "self.m# = nn.Embedding(9, D)"),
    dropout_of_table=("T", "self.d#(<T>)", "self.d# = nn.Dropout(DROP)"),
    dropout_of_buffer=("T", "F.dropout(self.c#, DROP, self.training)", "self.register_buffer('c#', torch.randn(S, D))"),
    drop_connect=("G", "F.linear(<H>, F.dropout(self.m#.weight, DROP), self.m#.bias)", LINEAR),
    dropout_of_constant=("V", "F.dropout(torch.ones(D), DROP) * <V>"),
    dropout_of_scores=("G", "F.dropout(<H:1> @ <H:1>.transpose(1, 2) / D, DROP) @ <H>"),
    dropout_of_hidden=("G", "self.d#(<H>)", "self.d# = nn.Dropout(DROP)"),
)
STAGES = group(
    "a first stage without trained parameters", True,
    frozen_first_stage=("G", THREE_MORE, THREE, {"frozen": True, "cut": 0.0}),
    frozen_first_embedding=("G", THREE_MORE, THREE, {"frozen": True, "cut": 0.0,
                            "first": ("torch.tanh(self.first(ids)) + 0.1 * x", "self.first = nn.Embedding(7, D)")}),
    frozen_but_the_last=("G", THREE_MORE, THREE, {"frozen": True, "cut": 0.8}),
    first_stage_without_parameters=("G", THREE_MORE, THREE, {"cut": 0.0, "first": (
        "torch.tanh(self.first(self.before(x)))", "self.before = nn.{Tanh|ReLU|Softplus|Softmax(-1)}()\nself.first = nn.Linear(D, D)")}),
    first_stage_of_a_norm=("G", THREE_MORE, THREE, {"cut": 0.0, "first": (
        "torch.tanh(self.first(self.before(x)))", "self.before = nn.LayerNorm(D, elementwise_affine=False)\nself.first = nn.Linear(D, D)")}),
)
BUFFERS = group(
    "persistent buffers that no step changes", True,
    loaded_scale=("G", "<H> * self.c#", "self.register_buffer('c#', torch.linspace(0.5, 1, D))", {"loads": True}),
    loaded_router_bias=("G", "g = self.m#(<H:1>)\ni = (g.sigmoid() + self.c#).topk(2, -1).indices\n$ = <H:1> * g.gather(-1, i).sum(-1, keepdim=True) + self.e#(i).sum(2)",
                        "self.m# = nn.Linear(D, 4)\nself.e# = nn.Embedding(4, D)\nself.register_buffer('c#', torch.tensor([0.3, 0.0, -0.2, 0.1]))", {"loads": True}),
    loaded_table=("T", "self.c#[:S] * self.k#", "self.register_buffer('c#', torch.randn(9, D))\nself.register_buffer('k#', torch.tensor(0.5))", {"loads": True}),
    loaded_mask=("G", "(<H> @ <H>.transpose(1, 2) + self.c#[:S, :S]).softmax(-1) @ <H>", "self.c# = nn.Buffer(torch.full((9, 9), -2.0).triu(1))", {"loads": True}),
    loaded_statistics=("G", "self.m#(<H>.transpose(1, 2)).transpose(1, 2)", "self.m# = nn.BatchNorm1d(D).eval()\nself.m#.train = lambda mode=True: self.m#",
                       {"loads": True}),
)
INTEGERS = group(
    "integers and bags",
    two_to_the_power=("G", "<H> * 2 ** (<I> % 3)[..., None]"),
    power_of_tensors=("G", "<H> * torch.pow(torch.tensor(2), <I> % 3)[..., None] / 4"),
    power_of_integers=("G", "<H> * (<I> % 4 + 1).pow({2|3})[..., None] / 20"),
    integers_to_integers=("G", "<H> + ((<I> % 3) ** (<I> % 3))[..., None] / 9"),
    float_to_the_power=("G", "<H> * 0.5 ** (<I> % 3)[..., None]"),
    integer_division=("G", "<H> * (<I> // 2 + (<I> - 3) % 4 + torch.div(<I> - 3, 2, rounding_mode='{floor|trunc}'))[..., None] / 7"),
    shifted_integers=("G", "<H> * ((<I> << 1) + (<I> >> 1) - (<I> & 3))[..., None] / 9"),
    bag_of_pieces=("P", "self.m#(<I>.flatten(), torch.arange(B) * S)", "self.m# = nn.EmbeddingBag(7, D, mode='{mean|sum}')", {"limit": "P0331"}),
    bag_in_a_row=("P", "self.m#(<I>)", "self.m# = nn.EmbeddingBag(7, D, mode='{mean|sum}')", {"trains": True}),
    weighted_bag=("P", "self.m#(<I>, per_sample_weights=<M>)", "self.m# = nn.EmbeddingBag(7, D, mode='sum')"),
    padded_bag=("P", "self.m#(<I>)", "self.m# = nn.EmbeddingBag(7, D, mode='{sum|max|mean}'{|, padding_idx=0})"),
)
NORMS = group(
    "a normalisation over the batch called twice", True,
    norm_twice=("G", "self.m#(<H>.transpose(1, 2)).transpose(1, 2) + self.m#(<H>.transpose(1, 2)).transpose(1, 2)", NORM_TWICE, MIXES),
    norm_of_its_result=("P", "self.m#(torch.tanh(self.m#(<P>)))", NORM_TWICE, MIXES),
    norm_in_a_loop=("G", "a = <H>\nfor t in range(2):\n    a = a + torch.tanh(self.m#(a.transpose(1, 2)).transpose(1, 2))\n$ = a", NORM_TWICE, MIXES),
    instance_norm_twice=("G", "self.m#(<H>.transpose(1, 2)).transpose(1, 2) - self.m#(<H>.transpose(1, 2)).transpose(1, 2)", "self.m# = nn.InstanceNorm1d(D, affine=True)"),
)
HOOKS = group(
    "hooks",
    hook_on_tensor=("G", "$ = torch.tanh(<G>)\nif $.requires_grad:\n    $.register_hook(lambda g: 0.1 * g)"),
    hook_on_parameter=("G", "self.m#(<H>)", LINEAR + "\nself.m#.weight.register_hook(lambda g: 0.5 * g)"),
    hook_that_clips=("G", "self.m#(<H>)", LINEAR + "\nself.m#.bias.register_hook(lambda g: g.clamp(-1e-3, 1e-3))"),
    hook_after_accumulation=("G", "self.m#(<H>)", LINEAR + "\nself.m#.weight.register_post_accumulate_grad_hook(lambda p: setattr(p, 'grad', 0.5 * p.grad))"),
    hook_of_backward=("G", "self.m#(<G>)", LINEAR + "\nself.m#.register_full_backward_hook(lambda m, into, out: tuple(0.5 * g for g in into))"),
    hook_before_backward=("G", "self.m#(<G>)", LINEAR + "\nself.m#.register_full_backward_pre_hook(lambda m, out: tuple(2 * g for g in out))"),
    hook_of_forward=("G", "self.m#(<H>)", LINEAR + "\nself.m#.register_forward_hook(lambda m, into, out: 2 * out)"),
    hook_before_forward=("G", "self.m#(<H>)", LINEAR + "\nself.m#.register_forward_pre_hook(lambda m, into: tuple(torch.tanh(a) for a in into))"),
)
RESULTS = group(
    "second results of an operator",
    moments_of_groups=("P", "a, b, c = torch.native_group_norm(<G>.transpose(1, 2).contiguous(), None, None, B, D, S, 2, 1e-3)\n"
                       "$ = a.mean(2) + b.sum(1, keepdim=True) + c.sum(1, keepdim=True) / 9"),
    moments_of_layers=("G", "a, b, c = torch.native_layer_norm(<G>, [D], <V>, None, 1e-3)\n$ = a + b + c / 9"),
    deviation_alone=("F", "torch.native_layer_norm(<G>, [D], None, None, 1e-2)[2].squeeze(-1) / 9"),
    variance_and_mean=("G", "a, b = torch.var_mean(<H:1>, 1, keepdim=True)\n$ = (<H:1> - b) / (a + 0.1).sqrt() + b"),
    deviation_and_mean=("P", "a, b = torch.std_mean(<H>, 1)\n$ = a * b"),
    both_ends=("F", "a, b = torch.aminmax(<H>, dim=-1)\n$ = b - 0.5 * a"),
    largest_and_where=("F", "a, b = <H>.max(-1)\n$ = a * (b + 1) / D"),
    sorted_and_where=("G", "a, b = <H>.sort(-1, descending=True)\n$ = a / (b + 1)"),
    median_of_tokens=("P", "<H>.median(1).values + <H>.kthvalue(1, 1).values"),
    states_of_recurrence=("P", "a, (b, c) = self.m#(<H>)\n$ = a.mean(1) + b[0] * c[0]", "self.m# = nn.LSTM(D, D, batch_first=True)"),
    weights_of_attention=("F", "a, b = self.m#(<H>, <H>, <H>)\n$ = b[:, 0] * a.mean(-1)", "self.m# = nn.MultiheadAttention(D, 2, batch_first=True)"),
)
FUNCTIONS = group(
    "attention as a function, a loss of no parameter",
    attention_as_function=("G", "a = <H>.transpose(0, 1)\n$ = F.multi_head_attention_forward(a, a, a, D, 2, self.w#, self.b#, None, None, False, 0.0, "
                           "self.m#.weight, self.m#.bias, need_weights={True|False})[0].transpose(0, 1)",
                           LINEAR + "\nself.w# = nn.Parameter(0.4 * torch.randn(3 * D, D))\nself.b# = nn.Parameter(0.1 * torch.randn(3 * D))"),
    attention_with_zeros=("G", "a = <H>.transpose(0, 1)\n$ = F.multi_head_attention_forward(a, a, a, D, 2, self.w#, None, self.k#, self.v#, {True|False}, 0.0, "
                          "self.m#.weight, None, key_padding_mask=~(<K> | (torch.arange(S) == 0)))[0].transpose(0, 1)",
                          LINEAR + "\nself.w# = nn.Parameter(0.4 * torch.randn(3 * D, D))\nself.k#, self.v# = (nn.Parameter(torch.randn(1, 1, D)) for _ in range(2))"),
    matrix_to_no_power=("L", "torch.linalg.matrix_power(self.w#, {0|0|1|2}).{sum|mean}()", "self.w# = nn.Parameter(torch.randn(D, D))", {"alone": True}),
    loss_of_a_parameter=("L", "<C>.pow(2) + 0 * <F>.mean()", {"alone": True}),
    loss_of_nothing=("L", "(self.w# * 0 + y).pow(2).mean()", "self.w# = nn.Parameter(torch.randn(D))", {"alone": True}),
    loss_of_a_sign=("L", "(self.w#.sign() * <F>.detach().mean()).sum()", "self.w# = nn.Parameter(torch.randn(D))", {"alone": True}),
)
ATTRIBUTES = group(
    "attributes of an ONNX operator",
    attention_in_window=("G", "", attention("(torch.arange(S)[:, None] - torch.arange(S)).abs() < 2", "left_window_size=1, right_window_size=1")),
    attention_of_the_past=("G", "", attention("torch.tril(torch.ones(S, S, dtype=torch.bool))", "is_causal=1")),
    attention_capped=("G", "a = <H:1>.view(B, S, 2, -1).transpose(1, 2)\nb = 0.5 * torch.tanh(a @ a.transpose(2, 3) / (D // 2) ** 0.5 / 0.5)\n"
                      "$ = (b.softmax(-1) @ a).transpose(1, 2).reshape(B, S, D)", {"onnx": ATTENTION.replace("{0}", "softcap=0.5")}),
    sum_backwards=("G", "<H:1>.flip(1).cumsum(1).flip(1) / S", {"onnx": "onnx_op('CumSum', (<H:1>, torch.tensor(1)), reverse=1) / S"}),
    sum_of_others=("G", "(<H:1>.cumsum(1) - <H:1>) / S", {"onnx": "onnx_op('CumSum', (<H:1>, torch.tensor(1)), exclusive=1) / S"}),
    norm_of_both_axes=("G", "F.layer_norm(<H:1>, (S, D), eps=0.1)", {"onnx": "onnx_op('LayerNormalization', (<H:1>, torch.ones(S, D)), axis=1, epsilon=0.1)"}),
    sums_to_one=("G", "F.normalize(<H:1>, p=1.0, dim=1)", {"onnx": "onnx_op('LpNormalization', (<H:1>,), axis=1, p=1)"}),
    alpha_of_elu=("G", "F.elu(<H:1>, 0.3)", {"onnx": "onnx_op('Elu', (<H:1>,), alpha=0.3)"}),
    gelu_by_tanh=("G", "F.gelu(<H:1>, approximate='tanh')", {"onnx": "onnx_op('Gelu', (<H:1>,), approximate='tanh')"}),
    slope_of_relu=("G", "F.leaky_relu(<H:1>, 0.3)", {"onnx": "onnx_op('LeakyRelu', (<H:1>,), alpha=0.3)"}),
    unknown_attribute=("G", "torch.tanh(<H:1>)", {"onnx": "onnx_op('Tanh', (<H:1>,), steepness=2)", "refused": True}),
)
FILES = group(
    "what a file of another exporter has",
    single_number=("G", "<H> * self.c#", "self.c# = nn.Parameter(torch.tensor(0.7))", {"edit": "foreign"}),
    single_bias=("F", "<F> + self.c#", "self.c# = nn.Parameter(torch.tensor(0.1))", {"edit": "foreign"}),
    value_named_loss=("G", "torch.tanh(self.m#(<H>))", LINEAR, {"edit": "name_loss", "trains": True}),
)
RARE = COUNTING | DROPOUT | STAGES | BUFFERS | INTEGERS | NORMS | HOOKS | RESULTS | FUNCTIONS | ATTRIBUTES | FILES
