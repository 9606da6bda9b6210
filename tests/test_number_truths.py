"""Whether any or all of some truths hold: numbers of 0 and 1 with vectors of their own, however it is written."""

from __future__ import annotations

from collections.abc import Callable

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Compilation, Settings, compilations

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 17
Array = np.ndarray
LOOPS = "(dotimes (i M) (dotimes (j N) {0} (dotimes (k K) {1}) {2}))"
AND = "(and (aref A i k) (aref B k j))"
PAIR = "A{bool}[M K] B{bool}[K N]"


def product(a: Array, b: Array) -> Array:
    return (a[:, :, None] & b[None]).any(1)


FORMS: dict[str, tuple[str, str, Callable[[Array, Array], Array]]] = {
    "tensors": (PAIR, "(return (any (and (unsqueeze A :axis 2) (unsqueeze B :axis 0)) :axis 1))", product),
    "set where it is so": (PAIR, LOOPS.format("", f"(if {AND} (setf (aref C i j) t))", ""), product),
    "a name that is set": (PAIR, LOOPS.format("(set r nil)", f"(if {AND} (set r t))", "(setf (aref C i j) r)"), product),
    "or that looks no further": (PAIR, LOOPS.format("(set r nil)", f"(set r (or r {AND}))", "(setf (aref C i j) r)"), product),
    "all of them": (PAIR, LOOPS.format("(set r t)", f"(set r (and r (not {AND})))", "(setf (aref C i j) r)"), lambda a, b: ~product(a, b)),
    "unset where it is so": (PAIR, LOOPS.format("(set r t)", f"(if {AND} (set r nil))", "(setf (aref C i j) r)"), lambda a, b: ~product(a, b)),
    "of unequal operands": (PAIR, "(return (all (or (not (unsqueeze A :axis 2)) (unsqueeze B :axis 0)) :axis 1))", lambda a, b: (~a[:, :, None] | b[None]).all(1)),
    "of what is compared": ("A{f32}[M K] B{f32}[K N]", "(return (all (<= (unsqueeze A :axis 2) (unsqueeze B :axis 0)) :axis 1))", lambda a, b: (a[:, :, None] <= b[None]).all(1)),
    "of both": ("A{i16}[M K] B{bool}[K N]", "(return (any (and (< (unsqueeze A :axis 2) 1) (unsqueeze B :axis 0)) :axis 1))", lambda a, b: ((a < 1)[:, :, None] & b[None]).any(1)),
}  # fmt: skip


def text_of(ports: str, body: str) -> str:
    return f"(composite truths (({ports}) -> (C{{bool}}[M N])) {body})"


def compilation_of(text: str) -> Compilation:
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3"))
    return found


@pytest.mark.parametrize("name", FORMS)
def test_they_are_contractions(name: str) -> None:
    """A register tile: several rows and columns of sums."""
    ports, body, _ = FORMS[name]
    found = compilation_of(text_of(ports, body))
    assert any("register tile" in note for k in found.module.kernels for note in k.notes)


@needs_cc
@pytest.mark.parametrize("name", FORMS)
def test_values(name: str) -> None:
    ports, body, expected = FORMS[name]
    f, rng = luminal.compile(text_of(ports, body), runtime="clang"), np.random.default_rng(SEED)
    for m, k, n in ((0, 3, 2), (2, 0, 3), (1, 1, 1), (7, 5, 3), (33, 17, 65), (70, 130, 129)):
        a, b = (_drawn(rng, shape, port) for shape, port in (((m, k), ports.split()[0]), ((k, n), ports.split()[2])))
        np.testing.assert_array_equal(f(a, b), expected(a, b), err_msg=f"{name}, {m} {k} {n}")


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], port: str) -> Array:
    if "bool" in port:
        return rng.random(shape) < 0.1
    x = rng.integers(-2, 30, shape)
    return x.astype(np.int16) if "i16" in port else np.where(x == 0, np.nan, x).astype(np.float32) if port[0] == "A" else (x + 25).astype(np.float32)


@needs_cc
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_and_columns_are_vectors(axis: int) -> None:
    text = f"(composite truths ((A{{bool}}[M N]) -> (C{{bool}}[K])) (return (all A :axis {axis})))"
    assert any(line.startswith("vectorize") for k in compilation_of(text).module.kernels for line in k.schedule)
    f, rng = luminal.compile(text, runtime="clang"), np.random.default_rng(SEED)
    for shape in ((0, 3), (3, 0), (1, 1), (5, 130), (1100, 1030)):
        a = rng.random(shape) < 0.999
        np.testing.assert_array_equal(f(a), a.all(axis))


def test_elements_are_vectors() -> None:
    found = compilation_of("(composite truths ((A{bool}[N] B{bool}[N]) -> (C{bool}[N])) (return (and A (not B))))")
    assert any(line.startswith("vectorize") for k in found.module.kernels for line in k.schedule)
