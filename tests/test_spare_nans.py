"""Extremes that do not look for NaN (`passes/spare_nans.py`): where that is so, and that nobody sees another number."""

from __future__ import annotations

import itertools

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.instructions import ACCUMULATES
from luminal.ir.program import statements
from luminal.ir.walks import postorder

SEED = 9
M = "(setf m (max X :axis 1 :keepdims t)) (setf e (exp (- X m))) (setf l (sum e :axis 1 :keepdims t))"
N = "(setf m (min X :axis 1 :keepdims t)) (setf e (exp (- m X))) (setf l (sum e :axis 1 :keepdims t))"

SPARED = {
    "softmax": f"{M} (return (/ e l))",
    "softmin": f"{N} (return (/ e l))",
    "logarithms": f"{M} (return (- (- X m) (log l)))",
    "logsumexp": "(return (* X (logsumexp X :axis 1 :keepdims t)))",
    "of scaled elements": f"{M.replace('X', '(* 2 X)')} (return (/ e l))",
}
KEPT = {
    "an extreme alone": "(return (- X (max X :axis 1 :keepdims t)))",
    "one that is stored": f"{M} (return (* (/ 1 X) m))",
    "exponentials that are stored": f"{M} (return (+ e (* 0 X)))",
    "one that decides": f"{M} (return (where (> m 0) X l))",
    "a sum that decides": f"{M} (return (+ X (where (> l 3) m 1)))",
    "a sum of something else": f"{M.replace('sum e', 'sum (exp (- Z m))')} (return (/ e l))",
    "a sum of what is chosen": f"{M.replace('sum e', 'sum (where (> X 0) e 0)')} (return (/ e l))",
}


def composite(body: str) -> str:
    return f"(composite spared ((X{{f32}}[M N] Z{{f32}}[M N]) -> (Y{{f32}}[M N])) {body})"


def spares(text: str, target: str) -> bool:
    (found,) = compilations(text, Settings(runtime="clang", target=target))
    return any(
        n.op == "ins" and n.attr in ACCUMULATES
        for f in found.program.functions
        for s in statements(f.body)
        for e in s.expressions()
        for n in postorder(e)
    )


@pytest.mark.parametrize("target", ["x86-64-v4", "x86-64-v3"])
@pytest.mark.parametrize("name", [*SPARED, *KEPT])
def test_where_nan_is_looked_for(name: str, target: str) -> None:
    assert spares(composite((SPARED | KEPT)[name]), target) == (name in SPARED)


@needs_cc
@pytest.mark.parametrize("name", [*SPARED, *KEPT])
def test_nan_shows(name: str) -> None:
    """Rows with NaN, and with infinities beside it, are what they are where every maximum looks for it."""
    rng = np.random.default_rng(SEED)
    spared, plain = (luminal.compile(composite((SPARED | KEPT)[name]), runtime="clang", O=level) for level in (2, 1))
    for length in (3, 40, 700, 9000):
        rows = []
        for values in itertools.chain.from_iterable(itertools.combinations([np.nan, np.inf, -np.inf, 1e38], k) for k in range(4)):
            row = rng.standard_normal(length).astype(np.float32)
            row[rng.choice(length, len(values), replace=False)] = values
            rows.append(row)
        x = np.stack([*rows, np.full(length, -np.inf, np.float32), np.full(length, np.nan, np.float32)])
        z = rng.standard_normal(x.shape).astype(np.float32)
        with np.errstate(all="ignore"):
            found, wanted = spared(x, z), plain(x, z)
        assert np.isnan(wanted).any() and not np.isnan(wanted).all()
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
