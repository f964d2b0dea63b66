"""A torch twin of the runtime's counter-based dropout (layout: runtime/kernels/dropout.h).

`with_masks(seed)` is a way to call a module with every dropout, also the one inside attention, replaced by masks of
the twin, so that PyTorch's loss and gradients can be compared with a run of piper.
"""
from __future__ import annotations

import contextlib
import math
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F

_M32, _M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


def splitmix64(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & _M64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _M64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _M64
    return x ^ (x >> 31)


def xxh64(data: bytes, seed: int = 0) -> int:
    """The XXH64 hash (specification: the xxHash project's doc/xxhash_spec.md)."""
    p1, p2, p3, p4, p5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5

    def rotated(x, r):
        return ((x << r) | (x >> (64 - r))) & _M64

    def mixed(acc, lane):
        return (rotated((acc + lane * p2) & _M64, 31) * p1) & _M64

    at, n = 0, len(data)
    if n >= 32:
        acc = [(seed + p1 + p2) & _M64, (seed + p2) & _M64, seed, (seed - p1) & _M64]
        while at + 32 <= n:
            for i in range(4):
                acc[i] = mixed(acc[i], int.from_bytes(data[at + 8 * i:at + 8 * i + 8], "little"))
            at += 32
        h = (rotated(acc[0], 1) + rotated(acc[1], 7) + rotated(acc[2], 12) + rotated(acc[3], 18)) & _M64
        for a in acc:
            h = ((h ^ mixed(0, a)) * p1 + p4) & _M64
    else:
        h = (seed + p5) & _M64
    h = (h + n) & _M64
    while at + 8 <= n:
        h ^= mixed(0, int.from_bytes(data[at:at + 8], "little"))
        h = (rotated(h, 27) * p1 + p4) & _M64
        at += 8
    if at + 4 <= n:
        h ^= (int.from_bytes(data[at:at + 4], "little") * p1) & _M64
        h = (rotated(h, 23) * p2 + p3) & _M64
        at += 4
    while at < n:
        h ^= (data[at] * p5) & _M64
        h = (rotated(h, 11) * p1) & _M64
        at += 1
    h = ((h ^ (h >> 33)) * p2) & _M64
    h = ((h ^ (h >> 29)) * p3) & _M64
    return h ^ (h >> 32)


def philox4x32_10(counter: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """counter: uint64 [..., 4] holding 32-bit words; returns the same shape."""
    c = [counter[..., i].astype(np.uint64) for i in range(4)]
    k0, k1 = key
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), b & np.uint64(_M32),
             (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), a & np.uint64(_M32)]
        k0, k1 = (k0 + 0x9E3779B9) & _M32, (k1 + 0xBB67AE85) & _M32
    return np.stack(c, axis=-1)


def mask(shape, p: float, seed: int, step: int, path: str, ordinal: int, first_sample: int = 0) -> torch.Tensor:
    """1 / (1 - p) where kept, else 0; axis 0 is the batch."""
    purpose = splitmix64(xxh64(f"{path}/{ordinal}".encode()) ^ 0x64726F706F757400)
    key = (seed & _M32, ((seed >> 32) & _M32) ^ (purpose >> 32))
    inner = math.prod(shape[1:])
    blocks = (inner + 3) // 4
    counter = np.zeros((shape[0], blocks, 4), np.uint64)
    counter[..., 0] = np.arange(blocks)[None, :]
    counter[..., 1] = (first_sample + np.arange(shape[0]))[:, None]
    counter[..., 2] = step
    counter[..., 3] = purpose & _M32
    words = philox4x32_10(counter, key).reshape(shape[0], -1)[:, :inner]
    uniform = (words >> np.uint64(8)).astype(np.float32) * np.float32(2.0 ** -24)
    kept = (uniform >= np.float32(p)).astype(np.float32) / np.float32(1 - p)
    return torch.from_numpy(kept.reshape(shape))


def with_masks(seed: int):
    def call(module, step, batch):
        stack, ordinals = [], {}

        def path():
            return stack[-1] if stack else ""

        def dropped(x, p):
            ordinal = ordinals.get(path(), 0)
            ordinals[path()] = ordinal + 1
            return x * mask(tuple(x.shape), p, seed, step, path(), ordinal)

        def dropout(x, p=0.5, training=True, inplace=False):
            return dropped(x, p) if p else x

        def attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
            scores = q @ k.transpose(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
            if is_causal:
                scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), float("-inf"))
            weights = scores.softmax(-1)
            return (dropped(weights, dropout_p) if dropout_p else weights) @ v

        with contextlib.ExitStack() as patches:
            for name, child in module.named_modules():
                handle = child.register_forward_pre_hook(lambda m, a, n=name: stack.append(n))
                patches.callback(handle.remove)
                handle = child.register_forward_hook(lambda m, a, o: stack.__delitem__(-1))
                patches.callback(handle.remove)
            patches.enter_context(mock.patch.object(F, "dropout", dropout))
            patches.enter_context(mock.patch.object(F, "scaled_dot_product_attention", attention))
            return module(**batch)
    return call
