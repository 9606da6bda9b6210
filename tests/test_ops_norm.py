"""Softmax and its kin, normalisation and dropout of the library against NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from library import Array, Case, check
from scipy import special

IMAGE = (None, slice(None), None, None)


def standard(x: Array, axes: tuple[int, ...], eps: float = 1e-5) -> Array:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def batch(x: Array, w: Array, b: Array) -> tuple[Array, Array, Array]:
    return standard(x, (0, 2, 3)) * w[IMAGE] + b[IMAGE], x.mean((0, 2, 3)), x.var((0, 2, 3))


def group(x: Array, groups: int = 2) -> Array:
    return standard(x.reshape(len(x), groups, -1), (2,)).reshape(x.shape)


def response(x: Array, size: int = 5, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> Array:
    """PyTorch's window: channels c - size // 2 … c + (size - 1) // 2."""
    channels = x.shape[1]
    near = [np.square(x[:, max(c - size // 2, 0) : c + (size - 1) // 2 + 1]).sum(1) for c in range(channels)]
    return x / (k + alpha / size * np.stack(near, 1)) ** beta


def masked(x: Array, m: Array) -> Array:
    return special.softmax(np.where(m, x, -np.inf), -1)


CASES = [
    Case("softmax", lambda x: special.softmax(x, -1)), Case("softmax", lambda x: special.softmax(x, 0), {"axis": 0}, inputs={"X": lambda x: 1000 * x}),
    Case("log_softmax", lambda x: special.log_softmax(x, -1)), Case("softmin", lambda x: special.softmax(-x, -1)), Case("masked_softmax", masked),
    Case("softcap", lambda x: 50 * np.tanh(x / 50)), Case("softcap", lambda x: 0.5 * np.tanh(2 * x), {"cap": 0.5}),
    Case("layer_norm", lambda x, w, b: standard(x, (-1,)) * w + b), Case("layer_norm", lambda x: standard(x, (-1,)), given=()),
    Case("layer_norm", lambda x, w: standard(x, (-1,)) * w, given=("W",)),
    Case("rms_norm", lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w),
    Case("rms_norm", lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 0.5), {"eps": 0.5}, given=()),
    Case("batch_norm", lambda x, m, v, w, b: (x - m[IMAGE]) / np.sqrt(v[IMAGE] + 1e-5) * w[IMAGE] + b[IMAGE]),
    Case("batch_norm", lambda x, m, v: (x - m[IMAGE]) / np.sqrt(v[IMAGE] + 1e-5), given=()),
    Case("batch_norm_training", batch), Case("running_statistics", lambda a, b, m, v: (0.9 * a + 0.1 * m, 0.9 * b + 0.1 * v)),
    Case("group_norm", lambda x, w, b: group(x) * w[IMAGE] + b[IMAGE]), Case("group_norm", lambda x: group(x, 3), {"groups": 3}, given=(), sizes=[{"B": 2, "C": 6, "H": 5, "W": 3}]),
    Case("instance_norm", lambda x, w, b: standard(x, (2, 3)) * w[IMAGE] + b[IMAGE]),
    Case("l2_normalize", lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)), Case("l2_normalize", np.zeros_like, inputs={"X": 0.0}),
    Case("local_response_norm", response),
    Case("local_response_norm", lambda x: response(x, 4, 0.5, 0.5, 2), {"size": 4, "alpha": 0.5, "beta": 0.5, "k": 2.0}),
    Case("weight_norm", lambda v, g: g[:, None] * v / np.linalg.norm(v, axis=1, keepdims=True)),
    Case("add_norm", lambda x, r, w, b: (standard(x + r, (-1,)) * w + b, x + r)),
    Case("dropout", lambda x, m: x * m * 2), Case("dropout", lambda x, m: np.where(m, x / 0.9, 0), {"p": 0.1}, inputs={"X": lambda x: x / (np.abs(x) > 1)}),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_norms(case: Case) -> None:
    check(case)
