"""Attention, written naively, beside PyTorch's kernel and PyTorch's naive form: f32, the same threads, checked before it is timed.

`python -m luminal.bench.attention` needs PyTorch (`pip install torch`); the rows without a kernel there are compared with the naive form alone.
"""

from __future__ import annotations

import math
import os
import platform
import sys
from collections.abc import Callable
from typing import Any

import numpy

from .. import __version__, compile
from .blocks import compare, table
from .gemm import processor

HEADS = 8
SHAPES = [(128, 64), (511, 64), (1024, 64), (4096, 64), (1024, 32), (1024, 80), (1024, 128)]
VARIANTS = {
    "plain": "",
    "causal": "(setf S (where (<= j i) S -inf))",
    "window of 256": "(setf S (where (and (<= j i) (< (- i j) 256)) S -inf))",
    "soft cap": "(setf S (* 30 (tanh (/ S 30))))",
    "distance bias": "(setf S (- S (* 0.1 (abs (cast f32 (- i j))))))",
}


def naive(scores: str) -> str:
    return f"""(composite attention ((Q{{f32}}[H N D] K{{f32}}[H M D] V{{f32}}[H M E]) -> (O{{f32}}[H N E]))
      (setf i (unsqueeze (iota N) :axis 1)) (setf j (iota M))
      (setf S (* (einsum "hid,hjd->hij" Q K) (rsqrt D))) {scores}
      (return (einsum "hij,hje->hie" (softmax S :axis -1) V)))"""


def exact(name: str, q: Any, k: Any, v: Any) -> Any:
    """One head in float64."""
    s = q.astype(numpy.float64) @ k.astype(numpy.float64).T / math.sqrt(q.shape[1])
    i, j = numpy.arange(len(q))[:, None], numpy.arange(len(k))
    match name:
        case "causal":
            s = numpy.where(j <= i, s, -numpy.inf)
        case "window of 256":
            s = numpy.where((j <= i) & (i - j < 256), s, -numpy.inf)
        case "soft cap":
            s = 30 * numpy.tanh(s / 30)
        case "distance bias":
            s = s - 0.1 * abs(i - j)
        case _:
            pass
    e = numpy.exp(s - s.max(1, keepdims=True))
    return e @ v.astype(numpy.float64) / e.sum(1, keepdims=True)


def peers(name: str, torch: Any, q: Any, k: Any, v: Any) -> dict[str, Callable[[], object]]:
    n, m, d = q.shape[1], k.shape[1], q.shape[2]
    i, j = torch.arange(n)[:, None], torch.arange(m)
    mask = {"causal": j <= i, "window of 256": (j <= i) & (i - j < 256)}.get(name)
    bias = -0.1 * (i - j).abs().float() if name == "distance bias" else None

    def slow() -> object:
        s = q @ k.transpose(1, 2) / math.sqrt(d)
        if mask is not None:
            s = s.masked_fill(~mask, -math.inf)
        if name == "soft cap":
            s = 30 * torch.tanh(s / 30)
        if bias is not None:
            s = s + bias
        return torch.softmax(s, -1) @ v

    found: dict[str, Callable[[], object]] = {"torch naive": slow}
    kernel = torch.nn.functional.scaled_dot_product_attention
    if name == "causal":
        found["torch"] = lambda: kernel(q[None], k[None], v[None], is_causal=True)
    elif name != "soft cap":
        extra = bias if mask is None else mask
        found["torch"] = lambda: kernel(q[None], k[None], v[None], attn_mask=extra)
    return found


def main() -> None:
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    rng = numpy.random.default_rng(0)
    rows: list[tuple[str, dict[str, float], float, str]] = []
    kernel = None
    for name, scores in VARIANTS.items():
        kernel = compile(naive(scores))
        for s, d in SHAPES if name in ("plain", "causal") else [(1024, 64), (4096, 64)]:
            q, k, v = (rng.standard_normal((HEADS, s, d), dtype=numpy.float32) for _ in range(3))
            out = numpy.zeros_like(q)
            kernel(q, k, v, O=out)
            error = abs(out[0] - exact(name, q[0], k[0], v[0])).max()
            assert error < 1e-5, f"wrong result: {name}, {s}×{d}: {error}"
            calls = {"luminal": kernel.bound(q, k, v, O=out), **peers(name, torch, *map(torch.from_numpy, (q, k, v)))}
            seconds = compare(calls, blocks=3, runs=3 if s > 2000 else 10)
            rows.append((f"{name} {HEADS}x{s}x{d}", seconds, 4.0 * HEADS * s * s * d, "GFLOP/s"))
    assert kernel is not None
    target = kernel.compilation.target.describe
    print(f"luminal {__version__}, Python {platform.python_version()}, PyTorch {torch.__version__}, {processor()}, target {target}")
    print("command: " + " ".join(["python", "-m", "luminal.bench.attention", *sys.argv[1:]]))
    print(table("attention f32, heads x length x size; masked work counted as if it were done", rows))


if __name__ == "__main__":
    main()
