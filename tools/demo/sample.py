"""Loads weights that piper-run saved into the PyTorch model, by name, and writes text with it.

    python sample.py weights.safetensors [--prompt TEXT] [--length N]
"""
from __future__ import annotations

import argparse
import sys

import torch
from safetensors.torch import load_file

import model as gpt


@torch.no_grad()
def generate(module, prompt: bytes, length: int, temperature: float) -> bytes:
    pick = torch.Generator().manual_seed(1)
    ids = torch.tensor([list(prompt)])
    for _ in range(length):
        logits = module.logits(ids[:, -gpt.SEQUENCE:])[:, -1] / temperature
        ids = torch.cat([ids, torch.multinomial(logits.softmax(-1), 1, generator=pick)], dim=1)
    return bytes(ids[0].tolist())


def main() -> int:
    parser = argparse.ArgumentParser(description="Write text with trained weights.")
    parser.add_argument("weights")
    parser.add_argument("--prompt", default="def ")
    parser.add_argument("--length", type=int, default=300)
    parser.add_argument("--temperature", type=float, default=0.8)
    args = parser.parse_args()
    torch.set_num_threads(1)  # so small a model is no faster on more
    module = gpt.Gpt()
    module.load_state_dict(load_file(args.weights), strict=True)
    module.eval()
    text = generate(module, args.prompt.encode() or b"\n", args.length, args.temperature)
    print("".join(c if c.isprintable() or c in "\n\t" else "?" for c in text.decode("utf-8", "replace")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
