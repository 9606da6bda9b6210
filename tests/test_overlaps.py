"""Accumulations whose iterations overlap (transposed convolutions, gradients of convolutions, products of polynomials, all written as they scatter) are sums for each position."""

from __future__ import annotations

from functools import cache

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 21

# name: ports, body
FORMS: dict[str, tuple[str, str]] = {
    "a product of polynomials": (
        "A{f32}[N] B{f32}[M](where N + M > 0) -> Y{f32}[(- (+ N M) 1)]",
        "(dotimes (i N) (dotimes (j M) (incf (aref Y (+ i j)) (* (aref A i) (aref B j)))))",
    ),
    "a correlation, turned back": (
        "A{f32}[N] B{f32}[M](where N + M > 0) -> Y{f32}[(- (+ N M) 1)]",
        "(dotimes (i N) (dotimes (j M) (incf (aref Y (+ (- i j) (- M 1))) (* (aref A i) (aref B j)))))",
    ),
    "a transposed convolution": (
        "A{f32}[C H W] B{f32}[C O 4 3] -> Y{f32}[O (+ (* 2 H) 2) (* 3 W)]",
        "(dotimes (c C) (dotimes (o O) (dotimes (y H) (dotimes (x W) (dotimes (i 4) (dotimes (j 3)"
        " (incf (aref Y o (+ (* 2 y) i) (+ (* 3 x) j)) (* (aref A c y x) (aref B c o i j)))))))))",
    ),
    "a gradient by the image, dilated": (
        "A{f32}[H W O] B{f32}[3 3 C O] -> Y{f32}[(+ H 4) (+ W 4) C]",
        "(dotimes (y H) (dotimes (x W) (dotimes (o O) (dotimes (c C) (dotimes (i 3) (dotimes (j 3)"
        " (incf (aref Y (+ y (* 2 i)) (+ x (* 2 j)) c) (* (aref A y x o) (aref B i j c o)))))))))",
    ),
    "columns to an image": (
        "A{f32}[(* C 9) H W] -> Y{f32}[C (+ H 2) (+ W 2)]",
        "(dotimes (c C) (dotimes (i 3) (dotimes (j 3) (dotimes (y H) (dotimes (x W)"
        " (incf (aref Y c (+ y i) (+ x j)) (aref A (+ (* 9 c) (* 3 i) j) y x)))))))",
    ),
    "the largest of what meets": (
        "A{f32}[N] B{f32}[M](where N + M > 0) Y{f32}[(- (+ N M) 1)] -> Y",
        "(dotimes (i N) (dotimes (j M) (maxf (aref Y (+ i j)) (+ (aref A i) (aref B j)))))",
    ),
    "under a condition": (
        "A{f32}[N] B{f32}[M](where N + M > 0) -> Y{f32}[(- (+ N M) 1)]",
        "(dotimes (i N) (dotimes (j M) (if (< (aref A i) (aref B j)) (incf (aref Y (+ i j)) (aref A i)))))",
    ),
    "a triangle": (
        "A{f32}[N] B{f32}[N](where N > 0) -> Y{f32}[(* 2 N)]",
        "(dotimes (i N) (dotimes (j (+ i 1)) (incf (aref Y (+ i j)) (* (aref A i) (aref B j)))))",
    ),
    "a sum inside": (
        "A{f32}[N K] B{f32}[M K](where N + M > 0) -> Y{f32}[(- (+ N M) 1)]",
        "(dotimes (i N) (dotimes (j M) (set s 0.0) (dotimes (k K) (incf s (* (aref A i k) (aref B j k)))) (incf (aref Y (+ i j)) s)))",
    ),
    "after a bias": (
        "A{f32}[N] B{f32}[M](where N + M > 0) -> Y{f32}[(- (+ N M) 1)]",
        "(dotimes (n (- (+ N M) 1)) (setf (aref Y n) 0.5)) (dotimes (i N) (dotimes (j M) (incf (aref Y (+ i j)) (* (aref A i) (aref B j)))))",
    ),
}  # fmt: skip


SHAPES = {
    "a product of polynomials": "N; M", "a correlation, turned back": "N; M", "a transposed convolution": "C,H,W; C,O,4,3", "a gradient by the image, dilated": "H,W,O; 3,3,C,O",
    "columns to an image": "C*9,H,W", "the largest of what meets": "N; M; N+M-1", "under a condition": "N; M", "a triangle": "N; N", "a sum inside": "N,K; M,K", "after a bias": "N; M",
}  # fmt: skip


def shapes_of(name: str, sizes: dict[str, int]) -> list[list[int]]:
    """The extents of each input."""
    return [[eval(extent, dict(sizes)) for extent in shape.split(",")] for shape in SHAPES[name].split(";")]


def text_of(name: str) -> str:
    before, after = FORMS[name][0].split(" -> ")
    return f"(composite overlapping (({before}) -> ({after})) {FORMS[name][1]})"


def graph_of(text: str, **options: bool) -> list[str]:
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3", **options))
    return [n.op for n in found.run("raise_loops").nodes()]


@pytest.mark.parametrize("name", FORMS)
def test_no_loops_are_left(name: str) -> None:
    assert "nest" not in graph_of(text_of(name))


def test_strict_keeps_the_order() -> None:
    assert "nest" in graph_of(text_of("a product of polynomials"), strict=True)


def test_what_cannot_be_solved_stays_loops() -> None:
    for index in ("(* i j)", "(+ (* N i) (* N j))", "(floordiv i 2)"):
        body = f"(dotimes (i N) (dotimes (j N) (incf (aref Y {index}) (* (aref A i) (aref A j)))))"
        assert "nest" in graph_of(f"(composite c ((A{{f32}}[N]) -> (Y{{f32}}[(* 2 N N)])) {body})")


def test_channels_are_summed_as_a_product_of_matrices() -> None:
    """What does not overlap is summed first, without any condition: in register tiles."""
    (found,) = compilations(text_of("a transposed convolution"), Settings(runtime="clang", target="x86-64-v3"))
    kernels = found.run("schedule").kernels
    assert [any("register tile" in note for note in k.notes) for k in kernels] == [True, False]
    assert not any(note.startswith("not contraction") for k in kernels for note in k.notes)


@cache
def compiled(name: str) -> tuple[luminal.Composite, luminal.Composite]:
    """By a C compiler and by the interpreter, once for all sizes."""
    return luminal.compile(text_of(name), runtime="clang"), luminal.compile(text_of(name), runtime="reference")


@needs_cc
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(
    "sizes", [{"N": 1, "M": 1, "K": 1, "C": 1, "O": 1, "H": 1, "W": 1}, {"N": 37, "M": 5, "K": 3, "C": 3, "O": 5, "H": 4, "W": 35}]
)
def test_meaning(name: str, sizes: dict[str, int]) -> None:
    """As the loops, one after the other, in float64."""
    given, reference = compiled(name)
    rng = np.random.default_rng(SEED)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes_of(name, sizes)]
    want = reference(*(x.copy() for x in inputs))
    got = given(*inputs)
    assert np.abs(got - want).max() <= 100 * np.finfo(np.float32).eps * (1 + np.abs(want).max())


@needs_cc
def test_what_does_not_meet_does_not_matter() -> None:
    """An element to which an infinite factor is never added stays finite."""
    a, b = np.ones((1, 1, 3, 8), np.float32)[0], np.ones((1, 1, 4, 3), np.float32)
    b[0, 0, 0, 0] = np.inf
    y = luminal.compile(text_of("a transposed convolution"), runtime="clang")(a, b)
    want = np.full((1, 8, 24), False)
    want[0, 0:6:2, 0::3] = True
    assert (np.isinf(y) == want).all()
    assert not np.isnan(y).any()
