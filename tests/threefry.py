"""Threefry-2x32-20 in 64-bit NumPy, and the numbers of `rand` and `randn` made of it: what the composites of `ops/random/` are held against."""

from __future__ import annotations

from typing import Any

import numpy as np

TURNS = (13, 15, 26, 6, 17, 29, 16, 24)
MASK = np.uint64(0xFFFFFFFF)


def threefry(x: Any, y: Any, k0: int, k1: int) -> tuple[Any, Any]:
    """Both words for counters (x, y) under the key (k0, k1); all words are below 2^32."""
    keys = [np.uint64(k) for k in (k0, k1, k0 ^ k1 ^ 0x1BD11BDA)]
    x, y = (np.asarray(x, np.uint64) + keys[0]) & MASK, (np.asarray(y, np.uint64) + keys[1]) & MASK
    for r in range(20):
        turn = np.uint64(TURNS[r % 8])
        x = (x + y) & MASK
        y = (((y << turn) | (y >> (np.uint64(32) - turn))) & MASK) ^ x
        if r % 4 == 3:
            k = r // 4 + 1
            x, y = (x + keys[k % 3]) & MASK, (y + keys[(k + 1) % 3] + np.uint64(k)) & MASK
    return x, y


def words(position: Any, seed: int) -> tuple[Any, Any]:
    """The two words of each position (i64) under a seed (i64)."""
    p, s = np.asarray(position, np.int64).view(np.uint64), int(np.int64(seed).view(np.uint64))
    return threefry(p & MASK, p >> np.uint64(32), s & 0xFFFFFFFF, s >> 32)


def uniform(position: Any, seed: int, digits: int) -> Any:
    """In [0, 1) with so many binary digits."""
    x, y = words(position, seed)
    both = (x << np.uint64(32)) | y
    return (both >> np.uint64(64 - digits)).astype(float) / 2.0**digits


def normal(position: Any, seed: int) -> Any:
    x, y = words(position, seed)
    return np.sqrt(-2 * np.log((x.astype(float) + 0.5) / 2**32)) * np.cos(2 * np.pi * y.astype(float) / 2**32)
