"""What loops scatter, as one sum for each position (`passes/products/shifted_sums.py`): where that is less work, and that nothing shows of what it multiplies beyond the edges."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations

pytestmark = pytest.mark.usefixtures("plain_c")

GRADIENT = """
(composite gradient ((G{T}[B O H W] F{T}[O C 3 3]) -> (D{T}[B C (+ H 2) (+ W 2)]))
  (dotimes (b B) (dotimes (o O) (dotimes (c C) (dotimes (y H) (dotimes (x W) (dotimes (i 3) (dotimes (j 3)
    (incf (aref D b c (+ y i) (+ x j)) (* (aref G b o y x) (aref F o c i j)))))))))))
"""
LARGE = {"B": 2, "O": 3, "C": 9, "H": 50, "W": 90}
SIZES = (LARGE, LARGE | {"C": 1}, LARGE | {"H": 3, "W": 2}, LARGE | {"B": 0}, LARGE | {"O": 0}, LARGE | {"H": 1})


def kernels_of(text: str, **options: object) -> list[str]:
    """The notes of each kernel."""
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3", **options))
    return [" ".join(k.notes) for k in found.run("schedule").kernels]


def through_windows(notes: list[str]) -> bool:
    return any("is read through windows" in n for n in notes)


def test_the_sizes_decide() -> None:
    assert through_windows(kernels_of(GRADIENT, sizes=LARGE))
    assert not through_windows(kernels_of(GRADIENT, sizes=LARGE | {"C": 1}))  # lanes would be empty
    assert not through_windows(
        kernels_of(GRADIENT, sizes=LARGE | {"B": 40, "O": 200, "C": 64, "H": 7, "W": 7})
    )  # most of a window would be beyond an edge
    assert not through_windows(kernels_of(GRADIENT, sizes=LARGE | {"H": 7, "W": 7}))  # what is between stays in a cache
    known_later = kernels_of(GRADIENT)
    assert through_windows(known_later)
    assert "register tile" in known_later[0]
    assert not through_windows(known_later[:1])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("(+ y i)", "(+ (* 2 y) i)"),  # elements that windows would multiply by zeros between them
        ("(aref F o c i j)", "(aref F o c 0 j)"),  # a sum that is read three times
        ("F{T}[O C 3 3]", "F{T}[O C R 3]"),
    ],
)
def test_others_stay(before: str, after: str) -> None:
    text = GRADIENT.replace(before, after, 1).replace("D{T}[B C (+ H 2)", "D{T}[B C (+ (* 2 H) 2)")
    text = text.replace("(+ (* 2 H) 2)", "(+ H R -1)").replace("(i 3)", "(i R)") if "R 3" in after else text
    assert not through_windows(kernels_of(text))


@needs_cc
@pytest.mark.parametrize("sizes", SIZES)
def test_values(sizes: dict[str, int]) -> None:
    """As the shifted products in float64, with infinities that meet what is inside alone."""
    b, o, c, h, w = (sizes[n] for n in "BOCHW")
    rng = np.random.default_rng(3)
    g, f = rng.standard_normal((b, o, h, w)).astype(np.float32), rng.standard_normal((o, c, 3, 3)).astype(np.float32)
    if o:
        f[0, 0, 2, 0] = np.inf
    want = np.zeros((b, c, h + 2, w + 2))
    with np.errstate(invalid="ignore"):
        for i in range(3):
            for j in range(3):
                want[:, :, i : i + h, j : j + w] += sum(g[:, k, None].astype(float) * f[k, :, i, j, None, None] for k in range(o))
    got = luminal.compile(GRADIENT, runtime="clang")(g, f)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    assert not b or not o or np.isinf(got[:, 0]).sum() == b * h * w


@needs_cc
def test_integers_wrap() -> None:
    sizes = LARGE | {"O": 2}
    b, o, c, h, w = (sizes[n] for n in "BOCHW")
    rng = np.random.default_rng(4)
    g, f = (rng.integers(-(2**31), 2**31, s, dtype=np.int64).astype(np.int32) for s in ((b, o, h, w), (o, c, 3, 3)))
    want = np.zeros((b, c, h + 2, w + 2), np.int32)
    for i in range(3):
        for j in range(3):
            want[:, :, i : i + h, j : j + w] += sum(g[:, k, None] * f[k, :, i, j, None, None] for k in range(o))
    assert (luminal.compile(GRADIENT.replace("{T}", "{i32}"), runtime="clang")(g, f) == want).all()


def test_taps_are_no_rows_of_scores() -> None:
    (found,) = compilations(GRADIENT, Settings(runtime="clang", target="x86-64-v3"))
    assert len(found.module.temps) == 1  # the products, where they are stored: the sums over three taps are not
