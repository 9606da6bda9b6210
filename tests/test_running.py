"""Reductions of what stands before or behind each position, as people write them with triangular matrices and masks: one pass that runs along the axis, and the same values."""

from __future__ import annotations

from collections.abc import Callable

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 5
AT = "(setf i (iota N)) (setf j (unsqueeze i :axis 1))"
FORMS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "a triangular matrix": ("(return (matmul X (triu (ones (N N)))))", lambda x: x.cumsum(1)),
    "one of comparisons": (f'{AT} (return (einsum "bp,jp->bj" X (cast f32 (<= i j))))', lambda x: x.cumsum(1)),
    "what is before": ("(return (matmul X (triu (ones (N N)) :k 1)))", lambda x: x.cumsum(1) - x),
    "what is behind": ("(return (matmul X (tril (ones (N N)))))", lambda x: x[:, ::-1].cumsum(1)[:, ::-1]),
    "well behind": ("(return (matmul X (tril (ones (N N)) :k -2)))", lambda x: np.pad(x[:, ::-1].cumsum(1)[:, ::-1], ((0, 0), (0, 2)))[:, 2:]),
    "with weights": (f"{AT} (return (matmul (* X (cast f32 (+ i 1))) (triu (ones (N N)))))", lambda x: (x * np.arange(1, x.shape[1] + 1)).cumsum(1)),
    "the largest so far": (f"{AT} (return (max (where (<= i j) (unsqueeze X :axis 1) -inf) :axis 2))", lambda x: np.maximum.accumulate(x, 1)),
    "the smallest to come": (
        f"{AT} (return (min (where (>= i j) (unsqueeze X :axis 1) inf) :axis 2))",
        lambda x: np.minimum.accumulate(x[:, ::-1], 1)[:, ::-1],
    ),
}
OTHERS = {
    "further than the axis": "(return (matmul X (triu (ones (N N)) :k -1)))",
    "what depends on the position": f"{AT} (return (max (where (<= i j) (- (unsqueeze X :axis 1) (cast f32 (* i j))) -inf) :axis 2))",
    "outside it something counts": f"{AT} (return (max (where (<= i j) (unsqueeze X :axis 1) 0.0) :axis 2))",
    "a band": f"{AT} (return (sum (where (and (<= i j) (< j (+ i 3))) (unsqueeze X :axis 1) 0.0) :axis 2))",
}


def operators(body: str, strict: bool = False) -> list[str]:
    text = f"(composite form ((X{{f32}}[B N]) -> (Y)) {body})"
    (found,) = compilations(text, Settings(runtime="clang", strict=strict))
    return [n.op for n in found.graph.nodes()]


@pytest.mark.parametrize("name", FORMS)
def test_runs_along_the_axis(name: str) -> None:
    found = operators(FORMS[name][0])
    assert found.count("scan") == 1 and "reduce" not in found


@pytest.mark.parametrize("name", OTHERS)
def test_stays(name: str) -> None:
    assert "scan" not in operators(OTHERS[name])


def test_strict_products_with_zeros_stay() -> None:
    assert "scan" not in operators(FORMS["a triangular matrix"][0], strict=True)
    assert "scan" in operators(FORMS["the largest so far"][0], strict=True)


@needs_cc
@pytest.mark.parametrize("name", FORMS)
def test_meaning(name: str) -> None:
    body, reference = FORMS[name]
    function = luminal.compile(f"(composite form ((X{{f32}}[B N]) -> (Y)) {body})")
    rng = np.random.default_rng(SEED)
    for shape in ((2, 0), (3, 1), (1, 2), (3, 37), (0, 5)):
        x = rng.standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(function(x), reference(x.astype(float)), rtol=1e-5, atol=1e-5, err_msg=f"seed {SEED}, {shape}")
