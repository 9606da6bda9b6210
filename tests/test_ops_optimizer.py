"""One step of each optimiser of the library against its publication, written out in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from library import Array, Case, check
from luminal.dsl.scope import LIBRARY

Arrays = tuple[Array, ...]


def momentum(p: Array, g: Array, v: Array, lr: float, nesterov: bool = False, decay: float = 0) -> Arrays:
    g = g + decay * p
    v = 0.9 * v + g
    return p - lr * (g + 0.9 * v if nesterov else v), v


def moments(g: Array, m: Array, v: Array, t: int) -> Arrays:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
    return m, v, (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)


def adam(p: Array, g: Array, m: Array, v: Array, lr: float, t: int, decay: float = 0) -> Arrays:
    m, v, step = moments(g + decay * p, m, v, t)
    return p - lr * step, m, v


def adamw(p: Array, g: Array, m: Array, v: Array, lr: float, t: int, decay: float = 0.01) -> Arrays:
    m, v, step = moments(g, m, v, t)
    return p - lr * decay * p - lr * step, m, v


def adamax(p: Array, g: Array, m: Array, u: Array, lr: float, t: int) -> Arrays:
    m, u = 0.9 * m + 0.1 * g, np.maximum(0.999 * u, np.abs(g) + 1e-8)
    return p - lr / (1 - 0.9**t) * m / u, m, u


def lion(p: Array, g: Array, m: Array, lr: float, decay: float = 0) -> Arrays:
    return p - lr * (np.sign(0.9 * m + 0.1 * g) + decay * p), 0.99 * m + 0.01 * g


def rmsprop(p: Array, g: Array, v: Array, lr: float) -> Arrays:
    v = 0.99 * v + 0.01 * g**2
    return p - lr * g / (np.sqrt(v) + 1e-8), v


def adagrad(p: Array, g: Array, v: Array, lr: float) -> Arrays:
    v = v + g**2
    return p - lr * g / (np.sqrt(v) + 1e-10), v


def adadelta(p: Array, g: Array, v: Array, u: Array, lr: float) -> Arrays:
    v = 0.9 * v + 0.1 * g**2
    d = g * np.sqrt((u + 1e-6) / (v + 1e-6))
    return p - lr * d, v, 0.9 * u + 0.1 * d**2


def signum(p: Array, g: Array, m: Array, lr: float) -> Arrays:
    m = 0.9 * m + 0.1 * g
    return p - lr * np.sign(m), m


def clip_norm(g: Array, limit: float = 1) -> Arrays:
    size = np.linalg.norm(g)
    return g * min(1, limit / (size + 1e-6)), size


CASES = [
    Case("sgd", lambda p, g, lr: p - lr * g), Case("sgd", lambda p, g, lr: p - lr * (g + 0.1 * p), {"decay": 0.1}),
    Case("momentum", momentum), Case("momentum", lambda *a: momentum(*a, decay=0.1), {"decay": 0.1}),
    Case("nesterov", lambda *a: momentum(*a, nesterov=True)), Case("nesterov", lambda *a: momentum(*a, nesterov=True, decay=0.1), {"decay": 0.1}),
    *(Case("adam", adam, inputs={"step": lambda _, t=t: t}) for t in (1, 2, 100000)), Case("adam", lambda *a: adam(*a, decay=0.1), {"decay": 0.1}),
    Case("adamw", adamw), Case("adamw", lambda *a: adamw(*a, decay=0.0), {"decay": 0.0}), Case("adamax", adamax),
    Case("lion", lion), Case("lion", lambda *a: lion(*a, decay=0.1), {"decay": 0.1}),
    Case("rmsprop", rmsprop), Case("adagrad", adagrad), Case("adadelta", adadelta), Case("signum", signum),
    Case("ema", lambda e, p: 0.999 * e + 0.001 * p), Case("ema", lambda e, p: p, {"decay": 0.0}),
    Case("clip_gradient_norm", clip_norm), Case("clip_gradient_norm", lambda g: clip_norm(g, 1e3), {"limit": 1e3}),
    Case("clip_gradient_value", lambda g: np.clip(g, -1, 1)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_steps(case: Case) -> None:
    check(case)


def test_every_composite_of_the_family_has_a_check() -> None:
    assert {p.stem for p in LIBRARY.glob("optimizer/*.toml")} == {c.name for c in CASES}
