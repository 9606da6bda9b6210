"""Movement and indexing of the library against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from library import Array, Case, check
from scipy import linalg


def merged(combine: np.ufunc, base: Array, index: Array, updates: Array) -> Array:
    result = base.copy()
    combine.at(result, index, updates)
    return result


def stored(base: Array, at: tuple[Array, ...], updates: Array) -> Array:
    result = base.copy()
    for place in np.ndindex(updates.shape):
        result[tuple(i[place] for i in at)] = updates[place]
    return result


def segments(combine: np.ufunc, identity: float, x: Array, s: Array) -> Array:
    return merged(combine, np.full((7, x.shape[1]), identity), s, x)


def padded(mode: str) -> Case:
    name = {"constant": "pad_constant", "reflect": "pad_reflect", "edge": "pad_replicate", "wrap": "pad_circular"}[mode]
    return Case(name, lambda x: np.pad(x, ((0, 0), (2, 3)), mode))


SQUARE = [{"batch": 2, "M": 5, "N": 5}]
CUBE = [{"batch_0": 2, "batch_1": 3, "batch_2": 1, "N": 5}]
CASES = [
    Case("transpose", lambda x: np.swapaxes(x, -1, -2)),
    Case("transpose2d", np.transpose),
    Case("permute", lambda x: np.transpose(x, (2, 0, 1))),
    Case("permute", lambda x: np.transpose(x, (1, 0, 2)), {"order": [1, 0, 2]}),
    Case("flip", lambda x: np.flip(x, -1)),
    Case("flip", lambda x: np.flip(x, (0, 2)), {"axes": [0, 2]}, ranks=3, sizes=[{"batch_0": 2, "batch_1": 3, "batch_2": 5}]),
    Case("roll", lambda x: np.roll(x, 5, -1)),
    Case("roll", lambda x: np.roll(x, -2, 0), {"shift": -2, "axis": 0}, ranks=2, sizes=[{"batch_0": 3, "batch_1": 5}]),
    Case("tile", lambda x: np.tile(x, (2, 3))),
    Case("repeat", lambda x: np.repeat(x, 3, -1)),
    Case("repeat", lambda x: np.repeat(x, 2, -1), {"count": 2}, ranks=3, sizes=CUBE, dtype="i32"),
    *map(padded, ("constant", "reflect", "edge", "wrap")),
    Case("pad_constant", lambda x: np.pad(x, ((0, 0), (1, 0)), constant_values=-np.inf), {"before": 1, "after": 0, "value": float("-inf")}),
    Case("concat", lambda a, b: np.concatenate((a, b), -1)),
    Case("stack", lambda a, b: np.stack((a, b), -2)),
    Case("interleave", lambda a, b: np.stack((a, b), -1).reshape(len(a), -1)),
    Case("split", lambda x: tuple(np.split(x, [3], -1))),
    Case("slice", lambda x: x[..., 1:11:3]),
    Case("slice", lambda x: x[..., -2:1:-2], {"start": -2, "stop": 1, "step": -2}, sizes=[{"batch": 3, "N": 17}]),
    Case("triu", np.triu), Case("triu", lambda x: np.triu(x, 2), {"k": 2}), Case("tril", np.tril), Case("tril", lambda x: np.tril(x, -1), {"k": -1}),
    Case("diag", np.diag), Case("diag", lambda x: np.diag(x, 3), {"k": 3}), Case("diag", lambda x: np.diag(x, -2), {"k": -2}),
    *(Case("diagonal", lambda x, k=k: np.diagonal(x, k, -2, -1), {"k": k}, sizes=[*SQUARE, {"batch": 1, "M": 4, "N": 9}]) for k in (0, 2, -3)),
    Case("meshgrid", lambda a, b: tuple(np.meshgrid(a, b, indexing="ij"))),
    Case("take", lambda x, i: np.take(x, i, -1)), Case("gather", lambda x, i: np.take(x, i, 0)),
    Case("take_along", lambda x, i: np.take_along_axis(x, i, -1)),
    Case("gather_elements", lambda x, i: np.take_along_axis(x[:, : i.shape[1]], i, 0)),
    Case("gather_elements", lambda x, i: np.take_along_axis(x[: i.shape[0]], i, 1), {"axis": 1}, sizes=[{"M": 7, "N": 13, "P": 5, "Q": 11}]),
    Case("gather_nd", lambda x, i: x[tuple(i.T)], sizes=[{"M": 5, "N": 5, "K": 29}, {"M": 3, "N": 2, "K": 0}]),
    Case("scatter_add", lambda x, i, u: merged(np.add, x, i, u)), Case("scatter_mul", lambda x, i, u: merged(np.multiply, x, i, u)),
    Case("scatter_max", lambda x, i, u: merged(np.maximum, x, i, u)), Case("scatter_min", lambda x, i, u: merged(np.minimum, x, i, u)),
    Case("scatter", lambda x, i, u: stored(x, (np.broadcast_to(i[:, None], u.shape), np.broadcast_to(np.arange(x.shape[1]), u.shape)), u)),
    Case("scatter_elements", lambda x, i, u: stored(x, (i, np.broadcast_to(np.arange(i.shape[1]), i.shape)), u)),
    Case("scatter_nd", lambda x, i, u: stored(x, tuple(i.T), u)),
    Case("segment_sum", lambda x, s: segments(np.add, 0.0, x, s)), Case("segment_max", lambda x, s: segments(np.maximum, -np.inf, x, s)),
    Case("segment_min", lambda x, s: segments(np.minimum, np.inf, x, s)),
    Case("where", np.where), Case("masked_fill", lambda x, m: np.where(m, 0, x)),
    Case("unfold", lambda x: np.lib.stride_tricks.sliding_window_view(x, 4, -1)[..., ::3, :]),
    Case("expand", lambda x: np.broadcast_to(x, (3, *x.shape))),
    Case("flatten", lambda x: x.reshape(len(x), -1)), Case("unflatten", lambda x: x.reshape(len(x), -1, 3)),
    Case("rot90", lambda x: np.rot90(x, axes=(-2, -1))),
    Case("toeplitz", linalg.toeplitz), Case("hankel", linalg.hankel), Case("vander", lambda x: np.vander(x, 4)),
    Case("inverse_permutation", np.argsort, inputs={"I": lambda i: np.random.default_rng(3).permutation(len(i))}),
    Case("embedding", lambda w, i: w[i]), Case("one_hot", lambda i: np.eye(10)[i]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_movement(case: Case) -> None:
    check(case)
