"""The activation family of the library against NumPy and SciPy, also where |x| is large."""

from __future__ import annotations

import numpy as np
import pytest
from library import Array, Case, check
from luminal.dsl.scope import LIBRARY
from scipy import special

LARGE = (0.0, -0.0, 3.0, -3.0, 6.0, 0.5, -0.5, 30.0, -30.0, 745.0, -745.0, 1e4, -1e4, 1e300, -1e300, np.inf, np.nan)


def wide(values: Array) -> Array:
    """The drawn values, with large and special ones among them where there is room."""
    result = np.array(values, float)
    flat = result.reshape(-1)
    flat[: len(LARGE)] = LARGE[: len(flat)]
    return result


def wider(values: Array) -> Array:
    """The same with -inf, where the function has a limit there."""
    result = wide(values)
    result.reshape(-1)[len(LARGE) :][:1] = -np.inf
    return result


def gelu(x: Array) -> Array:
    return x * special.ndtr(x)


def silu(x: Array) -> Array:
    return x * special.expit(x)


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def halves(x: Array) -> tuple[Array, Array]:
    return x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]


# 1.05070098…, 1.67326324… make the mean and the variance of selu(x) those of x, a standard normal variable
SCALE, ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
LIMITED = {
    "relu": relu, "relu6": lambda x: np.clip(x, 0, 6), "relu_squared": lambda x: relu(x) ** 2, "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)), "selu": lambda x: SCALE * np.where(x > 0, x, ALPHA * np.expm1(x)),
    "celu": lambda x: np.where(x > 0, x, np.expm1(x)), "sigmoid": special.expit, "log_sigmoid": special.log_expit, "softplus": lambda x: np.logaddexp(x, 0),
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1), "hardtanh": lambda x: np.clip(x, -1, 1), "tanhshrink": lambda x: x - np.tanh(x),
    "softshrink": lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0), "hardshrink": lambda x: np.where(np.abs(x) <= 0.5, 0, x),
    "threshold": lambda x: np.where(x <= 0, 0, x),
}  # fmt: skip
UNLIMITED = {
    "gelu": gelu, "silu": silu, "swish": silu, "quick_gelu": lambda x: x * special.expit(1.702 * x), "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1), "softsign": lambda x: np.where(np.isinf(x), np.nan, x / (1 + np.abs(x))),
}  # fmt: skip
GATES = {"geglu": gelu, "reglu": relu, "swiglu": silu}
CASES = [
    *(Case(name, f, inputs={"X": wider}) for name, f in LIMITED.items()),
    *(Case(name, f, inputs={"X": wide}) for name, f in UNLIMITED.items()),
    *(Case(name, lambda g, x, f=f: f(g) * x) for name, f in GATES.items()),
    Case("squareplus", lambda x: (x + np.sqrt(x * x + 4)) / 2),
    Case("glu", lambda x: halves(x)[0] * special.expit(halves(x)[1])),
    Case("prelu", lambda x, a: np.where(x > 0, x, a * x)),
    Case("gelu", lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), {"approximate": True}),
    Case("leaky_relu", lambda x: np.where(x > 0, x, 0.2 * x), {"slope": 0.2}),
    Case("elu", lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)), {"alpha": 0.5}),
    Case("celu", lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2)), {"alpha": 2.0}, inputs={"X": wider}),
    Case("swish", lambda x: x * special.expit(2 * x), {"beta": 2.0}),
    Case("threshold", lambda x: np.where(x > 0.5, x, -1), {"threshold": 0.5, "value": -1.0}),
    Case("hardtanh", lambda x: np.clip(x, -2, 0.5), {"low": -2.0, "high": 0.5}),
    Case("relu", relu, dtype="i32"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_activations(case: Case) -> None:
    check(case)


def test_every_composite_of_the_family_has_a_check() -> None:
    assert {p.stem for p in LIBRARY.glob("activation/*.toml")} == {c.name for c in CASES}
