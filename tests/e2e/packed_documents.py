#!/usr/bin/env python3
"""`model: {documents: mask}`: samples of a token stream hold several documents, the models know nothing of them, and train to the
losses of PyTorch on the documents one by one.

  packed_documents.py --bin BIN --work DIR

The models attend causally, within a window, and past padding that a vector of the data says; their positions are relative (rotary), so
that a document is the same wherever it begins. In the plans documents are a predicate on two vectors: memory grows with the tokens of
a sample, not with their square. What cannot be kept apart is refused.
"""
import array
import json
import random
import sys

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

from checks import check, faults
import harness
import piper_export

VOCABULARY, END, TOKENS, BATCH, STEPS, WIDTH, HEADS, RATE = 37, 0, 24, 8, 4, 16, 2, 0.3


def rotated(x):
    """Rotary positions of [.., places, width]."""
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[-2]).unsqueeze(1) * 50.0 ** (-torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)


def causal(q, k, v, keep):
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def within_a_window(q, k, v, keep):
    places = torch.arange(q.shape[-2])
    apart = places.unsqueeze(1) - places
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=(apart >= 0) & (apart < 5))


def past_padding(q, k, v, keep):
    places = torch.arange(q.shape[-2])
    seen = (places.unsqueeze(1) >= places) & (keep[:, None, None, :] | (places.unsqueeze(1) == places))
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)


def with_a_bias(q, k, v, keep):
    places = torch.arange(q.shape[-2])
    bias = -0.5 * (places.unsqueeze(1) - places).abs()
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.float())


def written_out(q, k, v, keep):
    return (q @ k.transpose(-1, -2)).softmax(-1) @ v


def across(q, k, v, keep):
    return functional.scaled_dot_product_attention(q, k[:, :, :7], v[:, :, :7])


def none_at_all(q, k, v, keep):
    return v


class Block(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention
        self.qkv, self.out, self.norm = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x, keep):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS)).permute(2, 0, 3, 1, 4)
        return x + self.out(self.attention(rotated(q), rotated(k), v, keep).transpose(1, 2).flatten(2))


class Model(nn.Module):
    def __init__(self, attention):
        super().__init__()
        torch.manual_seed(2)
        self.wte = nn.Embedding(VOCABULARY, WIDTH)
        self.h = nn.ModuleList(Block(attention) for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def logits(self, tokens, keep=None):
        x = self.wte(tokens)
        for block in self.h:
            x = block(x, keep)
        return self.head(x)

    def forward(self, tokens, labels):
        return functional.cross_entropy(self.logits(tokens).flatten(0, 1), labels.flatten())


class Padded(Model):
    def forward(self, tokens, labels, keep):
        return functional.cross_entropy(self.logits(tokens, keep).flatten(0, 1), labels.flatten())


def one_by_one(model, batch):
    """The loss of a step, each document by itself."""
    total = 0
    for n, (tokens, labels) in enumerate(zip(batch["tokens"], batch["labels"])):
        ends = [i + 1 for i in range(TOKENS) if tokens[i] == END or i == TOKENS - 1]
        for begin, end in zip([0, *ends], ends):
            keep = batch["keep"][n:n + 1, begin:end] if "keep" in batch else None
            logits = model.logits(tokens[None, begin:end], keep)
            total = total + functional.cross_entropy(logits[0], labels[begin:end], reduction="sum")
    return total / (BATCH * TOKENS)


def torch_losses(model, data):
    rule = torch.optim.SGD(model.parameters(), lr=RATE)
    losses = []
    for step in range(STEPS):
        rule.zero_grad(set_to_none=True)
        loss = one_by_one(model, {name: value[step * BATCH:(step + 1) * BATCH] for name, value in data.items()})
        loss.backward()
        rule.step()
        losses.append(loss.item())
    return losses


COMPOSITIONS = {
    "one": "",
    "pp2_dp2": """annotate:
  - {tag: PP, starts: ["h.0", "h.1"]}
schedule: {family: 1f1b, microbatches: 2, ranks: [[0, 1], [2, 3]]}
""",
}
MODELS = {"causal": (Model, causal), "window": (Model, within_a_window), "padding": (Padded, past_padding)}
REFUSED = {"bias": (with_a_bias, "is no predicate of places"), "written_out": (written_out, "is written out as a softmax over 24 x 24"),
           "across": (across, "is from 24 to 7 places"), "none": (none_at_all, "no attention that stays within documents")}


def strategy(more, documents="mask", inputs="tokens: tokens, labels: next_tokens"):
    kept = f", documents: {documents}" if documents else ""
    end = f", document_end: {END}" if documents else ""
    return (f"model: {{batch: {BATCH}, inputs: {{{inputs}}}{kept}}}\n{more}optimizer: {{sgd: {{lr: {RATE}}}}}\n"
            f"run: {{sampling: sequential{end}}}\n")


def main():
    bench = harness.bench_in_empty_folder(__doc__)
    work = bench.work
    torch.set_num_threads(1)
    draw = random.Random(4)
    count = BATCH * STEPS
    stream = [END if draw.random() < 0.15 else draw.randrange(1, VOCABULARY) for _ in range(count * TOKENS + 1)]
    (work / "stream.bin").write_bytes(array.array("H", stream).tobytes())
    whole = torch.tensor(stream)
    data = {"tokens": whole[:-1].view(count, TOKENS), "labels": whole[1:].clone().view(count, TOKENS)}
    torch.manual_seed(6)
    padded = {**data, "keep": torch.rand(count, TOKENS) < 0.7}
    documents = torch.zeros_like(data["tokens"])
    documents[:, 1:] = (data["tokens"][:, :-1] == END).cumsum(1)
    save_file({**padded, "documents": documents}, work / "padded.safetensors")

    def exported(name, kind, attention):
        example = padded if kind is Padded else data
        return bench.export(kind(attention), {key: value[:BATCH] for key, value in example.items()}, f"packed_{name}.pt2")

    def compiled(path, name, text):
        (work / f"{name}.yaml").write_text(text)
        return bench.end_of([bench.bin / "piperc", path, "--strategy", work / f"{name}.yaml", "-o", work / name])

    def run(name, source):
        log = work / f"{name}.jsonl"
        bench.call([bench.bin / "piper-run", work / name, "--data", source, "--steps", STEPS, "--threads", 1, "--log", log])
        return [row["loss"] for row in map(json.loads, log.read_text().splitlines()) if "loss" in row]

    for name, (kind, attention) in MODELS.items():
        path = exported(name, kind, attention)
        example = padded if kind is Padded else data
        expected = torch_losses(kind(attention), example)
        for composition, text in COMPOSITIONS.items():
            tag = f"{name}_{composition}"
            code, said = compiled(path, tag, strategy(text, inputs="tokens: tokens, labels: next_tokens"))
            if not check(f"{tag}: compiled", code == 0, said):
                continue
            source = work / ("padded.safetensors" if kind is Padded else "stream.bin")
            wrong = harness.loss_faults(run(tag, source), expected, 1e-5)
            check(f"{tag}: the losses of documents one by one", not wrong, wrong)
            bench.call([bench.bin / "piper-plan", "verify", work / tag])
        compiled(path, f"{name}_plain", strategy("", documents=""))
        source = work / ("padded.safetensors" if kind is Padded else "stream.bin")
        if kind is not Padded:
            plain = run(f"{name}_plain", source)
            check(f"{name}: without the word attention crosses documents", abs(plain[0] - expected[0]) > 1e-4, f"{plain} {expected}")

    # What documents cost grows with the tokens of a sample; a mask of tokens x tokens would grow with their square.
    model, cost = Model(causal), {}
    path = bench.exported_once("packed_long.pt2", [sys.modules[__name__]], {}, lambda to: piper_export.export(
        model, {key: torch.zeros(2, 96, dtype=torch.int64) for key in data}, to, dynamic={key: {1: "S"} for key in data}))
    for length in (512, 1024):
        peaks = []
        for documents in ("mask", ""):
            tag = f"long_{length}_{documents or 'plain'}"
            code, said = compiled(path, tag, strategy("", documents).replace(f"batch: {BATCH}", f"batch: 2, dims: {{S: {length}}}"))
            check(f"{tag}: compiled", code == 0, said)
            peaks.append(json.loads((work / tag / "manifest.json").read_text())["ranks"][0]["peak_bytes"])
        cost[length] = peaks[0] - peaks[1]
    check("documents cost memory by the tokens, not by their square", 0 < cost[1024] < 2.2 * cost[512], cost)

    for name, (attention, told) in REFUSED.items():
        path = exported(name, Model, attention)
        code, said = compiled(path, name, strategy(""))
        check(f"{name}: refused", code != 0 and "P0255" in said and told in said, f"{code} {said}")
    path = exported("causal", Model, causal)
    code, said = compiled(path, "endless", strategy("").replace(f", document_end: {END}", ""))
    check("documents need a token that ends one", code != 0 and "P0206" in said, said)
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
