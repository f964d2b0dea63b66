#!/usr/bin/env python3
"""What packed documents cost: `documents: mask` beside a mask of tokens x tokens that is an input of the model.

  packed_documents.py --bin BIN --work DIR [--lengths 1024,4096,16384]

Two layers of causal attention, 4 heads of 16, one sample of so many tokens a step, documents of 256 tokens on average; on one rank with one
thread. Printed by length: processor seconds of a step, and the rank's measured peak of memory; and the two losses, which are the same.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import piper_export  # noqa: E402

WIDTH, HEADS, VOCABULARY, STEPS = 64, 4, 256, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x, mask):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS)).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return x + self.out(y.transpose(1, 2).flatten(2))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.wte, self.h, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.ModuleList([Block(), Block()]), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens, labels, mask=None):
        x = self.wte(tokens)
        for block in self.h:
            x = block(x, mask)
        return functional.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--lengths", type=lambda text: [int(word) for word in text.split(",")], default=[1024, 4096, 16384])
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    tokens = torch.zeros(2, 16, dtype=torch.int64)
    names = {"tokens": {1: "S"}, "labels": {1: "S"}}
    piper_export.export(Model(), {"tokens": tokens, "labels": tokens}, work / "documents.pt2", dynamic=names)
    piper_export.export(Model(), {"tokens": tokens, "labels": tokens, "mask": torch.ones(2, 1, 16, 16, dtype=torch.bool)},
                        work / "dense.pt2", dynamic={**names, "mask": {2: "S", 3: "S"}})

    def call(*words):
        """Processor seconds."""
        before = os.times()
        subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    for length in arguments.lengths:
        torch.manual_seed(length)
        data = {"tokens": torch.randint(VOCABULARY, (1, length)), "labels": torch.randint(VOCABULARY, (1, length))}
        documents = (torch.rand(1, length) < 1 / 256).cumsum(1)
        same = documents[:, None, :, None] == documents[:, None, None, :]
        save_file({**data, "documents": documents}, work / "documents.safetensors")
        save_file({**data, "mask": same.tril()}, work / "dense.safetensors")
        for name, word in (("documents", ", documents: mask"), ("dense", "")):
            end = "run: {document_end: 0}\n" if word else ""
            (work / f"{name}.yaml").write_text(f"model: {{batch: 1, dims: {{S: {length}}}{word}}}\n{end}optimizer: {{sgd: {{lr: 0.1}}}}\n")
            plans, log = work / name, work / f"{name}.jsonl"
            call(arguments.bin / "piperc", work / f"{name}.pt2", "--strategy", work / f"{name}.yaml", "-o", plans)
            run = (arguments.bin / "piper-run", plans, "--data", work / f"{name}.safetensors", "--threads", 1)
            first = call(*run, "--steps", 1)
            log.unlink(missing_ok=True)
            seconds = (call(*run, "--steps", 1 + STEPS, "--log", log) - first) / STEPS
            rows = [json.loads(line) for line in log.read_text().splitlines()]
            peak = next(row["summary"]["peak_memory_bytes"][0] for row in rows if "summary" in row)
            loss = [row["loss"] for row in rows if "loss" in row][-1]
            print(f"{length} tokens, {name}: {seconds:.3f} s a step, {peak / 2**20:.1f} MiB, loss {loss:.6f}", flush=True)


if __name__ == "__main__":
    main()
