"""The losses of the library against their definitions in NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from library import Array, Case, check
from luminal.dsl.scope import LIBRARY
from scipy import special


def huber(x: Array, y: Array, delta: float = 1) -> Array:
    return special.huber(delta, x - y)


def binary(p: Array, y: Array) -> Array:
    """Cross-entropy of probabilities; the logarithms are at least -100."""
    return -(y * np.maximum(np.log(p), -100) + (1 - y) * np.maximum(np.log1p(-p), -100))


def logits(x: Array, y: Array) -> Array:
    return -(y * special.log_expit(x) + (1 - y) * special.log_expit(-x))


def focal(x: Array, y: Array) -> Array:
    p = special.expit(np.where(y == 1, x, -x))
    return np.where(y == 1, 0.25, 0.75) * (1 - p) ** 2 * -np.log(p)


def labels(x: Array, i: Array, smoothing: float = 0) -> Array:
    target = (1 - smoothing) * np.eye(x.shape[1])[i] + smoothing / x.shape[1]
    return -(target * special.log_softmax(x, 1)).sum(1)


def cosine(x: Array, y: Array, s: Array, margin: float = 0) -> Array:
    c = (x * y).sum(-1) / (np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1))
    return np.where(s == 1, 1 - c, np.maximum(c - margin, 0))


def triplet(a: Array, p: Array, n: Array) -> Array:
    return np.maximum(np.linalg.norm(a - p, axis=-1) - np.linalg.norm(a - n, axis=-1) + 1, 0)


def dice(x: Array, y: Array) -> Array:
    return np.mean(1 - (2 * (x * y).sum(-1) + 2) / (x.sum(-1) + y.sum(-1) + 2))


EACH = {
    "mse": lambda x, y: (x - y) ** 2, "mae": lambda x, y: np.abs(x - y), "huber": huber, "smooth_l1": huber, "log_cosh": lambda x, y: np.log(np.cosh(x - y)),
    "bce": binary, "bce_with_logits": logits, "focal": focal, "cross_entropy": labels, "nll": lambda x, i: -x[np.arange(len(x)), i],
    "kl_div": lambda x, y: special.xlogy(y, y) - y * x, "hinge": lambda x, y: np.maximum(1 - x * y, 0), "squared_hinge": lambda x, y: np.maximum(1 - x * y, 0) ** 2,
    "soft_margin": lambda x, y: np.log1p(np.exp(-x * y)), "cosine_embedding": cosine, "triplet": triplet,
    "margin_ranking": lambda x, y, s: np.maximum(-s * (x - y), 0), "poisson_nll": lambda x, y: np.exp(x) - x * y,
    "gaussian_nll": lambda x, y, v: (np.log(v) + (x - y) ** 2 / v) / 2, "quantile_loss": lambda x, y: np.abs(x - y) / 2,
}  # fmt: skip
HOW = {"mean": np.mean, "sum": np.sum, "none": np.asarray}
CASES = [
    *(Case(name, lambda *a, f=f, how=how: how(f(*a)), {"reduction": word}) for name, f in EACH.items() for word, how in HOW.items()),
    *(Case("reduce_loss", f, {"how": word}) for word, f in HOW.items()),
    Case("rmse", lambda x, y: np.sqrt(np.mean((x - y) ** 2))), Case("dice", dice), Case("accuracy", lambda x, i: np.mean(x.argmax(1) == i)),
    Case("huber", lambda x, y: huber(x, y, 0.3).mean(), {"delta": 0.3}),
    Case("smooth_l1", lambda x, y: (huber(x, y, 0.3) / 0.3).mean(), {"beta": 0.3}),
    Case("quantile_loss", lambda x, y: np.where(y > x, 0.9 * (y - x), 0.1 * (x - y)).mean(), {"q": 0.9}),
    Case("cross_entropy", lambda x, i: labels(x, i, 0.1).mean(), {"smoothing": 0.1}),
    Case("cross_entropy", lambda x, i: labels(x, i).mean(), inputs={"X": lambda x: 1000 * x}),
    Case("bce_with_logits", lambda x, y: logits(x, y).mean(), inputs={"X": lambda x: 1000 * x}),
    Case("log_cosh", lambda x, y: np.mean(np.abs(x - y) - np.log(2)), inputs={"X": 1000.0}),
    Case("bce", lambda p, y: binary(p, y).mean(), inputs={"X": lambda p: np.round(p)}),
    Case("cosine_embedding", lambda x, y, s: cosine(x, y, s, 0.2).mean(), {"margin": 0.2}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_losses(case: Case) -> None:
    check(case)


def test_every_composite_of_the_family_has_a_check() -> None:
    assert {p.stem for p in LIBRARY.glob("loss/*.toml")} == {c.name for c in CASES}
