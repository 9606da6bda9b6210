"""What both branches of an `if` accumulate, as loops write it: one sum whose terms are chosen; of products with a factor in common one product with what is chosen.  Beside float64 in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from stages import graph_after

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 13
Array = np.ndarray
LOOPS = "(dotimes (i M) (dotimes (j N) (dotimes (p K) {})))"
ADD = "(incf (aref C i j) {})"
SUB = "(decf (aref C i j) {})"
AB = "(* (aref A i p) (aref B p j))"


def p_at_most_i(a: Array) -> Array:
    return np.arange(a.shape[1]) <= np.arange(a.shape[0])[:, None]


class Form(NamedTuple):
    ports: str
    body: str
    terms: Callable[..., Array]  # over [i, p, j], what is added
    products: int  # sums of the graph
    again: bool = False  # whether they are looked at


def plain(a: Array, b: Array) -> Array:
    return a[:, :, None] * b[None]


FORMS = {
    "a multiple": Form(
        "A{f32}[M K] B{f32}[K N]",
        f"(if (<= p i) {ADD.format(AB)} {ADD.format(f'(* 2.0 {AB})')})",
        lambda a, b: np.where(p_at_most_i(a)[:, :, None], plain(a, b), 2 * plain(a, b)), 1,
    ),
    "signs": Form(
        "A{f32}[M K] B{f32}[K N] W{bool}[K]",
        f"(if (aref W p) {ADD.format(AB)} {SUB.format(AB)})",
        lambda a, b, w: np.where(w[None, :, None], plain(a, b), -plain(a, b)), 1,
    ),
    "bits": Form(
        "A{f32}[M K] W{bool}[K N]",
        f"(if (aref W p j) {ADD.format('(aref A i p)')} {SUB.format('(aref A i p)')})",
        lambda a, w: np.where(w[None], a[:, :, None], -a[:, :, None]), 1,
    ),
    "three values": Form(
        "A{f32}[M K] W{i8}[K N]",
        f"(if (> (aref W p j) 0) {ADD.format('(aref A i p)')} (if (< (aref W p j) 0) {SUB.format('(aref A i p)')}))",
        lambda a, w: np.where(w[None] > 0, a[:, :, None], np.where(w[None] < 0, -a[:, :, None], 0)), 1, True,
    ),
    "other operands": Form(
        "A{f32}[M K] B{f32}[K N] D{f32}[K N]",
        f"(if (<= p i) {ADD.format(AB)} {ADD.format('(* (aref A i p) (aref D p j))')})",
        lambda a, b, d: np.where(p_at_most_i(a)[:, :, None], plain(a, b), plain(a, d)), 2, True,
    ),
    "rows that data chooses": Form(
        "A{f32}[M K] B{f32}[K N] I{i64}[K]",
        f"(if (>= (aref I p) 0) {ADD.format('(* (aref A i p) (aref B (aref I p) j))')} {ADD.format('(* 0.5 (aref A i p))')})",
        lambda a, b, i: np.where((i >= 0)[None, :, None], a[:, :, None] * b[np.maximum(i, 0)][None] if len(b) else 0, 0.5 * a[:, :, None]), 1,
    ),
    "whatever is the case": Form(
        "A{f32}[M K] B{f32}[K N] S{f32}[M K N]",
        f"(if (> (aref S i p j) 0) {ADD.format(AB)} {SUB.format(AB)})",
        lambda a, b, s: np.where(s > 0, plain(a, b), -plain(a, b)), 1,
    ),
}  # fmt: skip
SIZES = ((0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (2, 7, 5), (33, 17, 19), (70, 90, 129))  # M, N, K


def text_of(name: str) -> str:
    return f"(composite form (({FORMS[name].ports}) -> (C{{f32}}[M N])) {LOOPS.format(FORMS[name].body)})"


def arrays_of(name: str, sizes: tuple[int, int, int], rng: np.random.Generator) -> list[Array]:
    extents, found = dict(zip("MNK", sizes, strict=True)), list[Array]()
    for port in FORMS[name].ports.split("] "):
        kind, axes = port.rstrip("]").split("{")[1].split("}[")
        shape = tuple(extents[e] for e in axes.split())
        match kind:
            case "f32":
                found.append(rng.standard_normal(shape).astype(np.float32))
            case "bool":
                found.append(rng.random(shape) < 0.5)
            case "i8":
                found.append(rng.integers(-2, 3, shape).astype(np.int8))
            case _:
                found.append(rng.integers(-3, max(extents["K"], 1), shape))
    return found


def reference(name: str, arrays: list[Array]) -> Array:
    wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in arrays]
    with np.errstate(invalid="ignore"):
        return np.broadcast_to(FORMS[name].terms(*wide), (len(arrays[0]), arrays[0].shape[1], arrays[1].shape[-1] if arrays[1].ndim > 1 else 0)).sum(
            1
        )


@pytest.mark.parametrize("name", FORMS)
def test_sums(name: str) -> None:
    nodes = graph_after("ask_after", text_of(name)).nodes()
    assert sum(n.op == "reduce" for n in nodes) == FORMS[name].products
    assert any(n.op == "nest" for n in nodes) == FORMS[name].again


@needs_cc
@pytest.mark.parametrize("name", FORMS)
def test_values(name: str) -> None:
    f, rng = luminal.compile(text_of(name), runtime="clang"), np.random.default_rng(SEED)
    for sizes in SIZES:
        arrays = arrays_of(name, sizes, rng)
        np.testing.assert_allclose(f(*arrays), reference(name, arrays), rtol=2e-5, atol=2e-4, err_msg=f"{name} at {sizes}")


@needs_cc
@pytest.mark.parametrize("name", FORMS)
def test_nothing_leaks(name: str) -> None:
    """What no branch adds may be anything; what one does shows."""
    f, rng = luminal.compile(text_of(name), runtime="clang"), np.random.default_rng(SEED)
    for bad in (np.inf, -np.inf, np.nan):
        arrays = arrays_of(name, (37, 53, 41), rng)
        arrays[0][8, 30], arrays[0][30, 2:4] = bad, bad
        if arrays[1].dtype == np.float32:
            arrays[1][29], arrays[1][5, ::7], arrays[1][3, 50] = bad, bad, 0.0
        np.testing.assert_allclose(f(*arrays), reference(name, arrays), rtol=2e-5, atol=2e-4, err_msg=f"{name}, {bad}")


@needs_cc
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("(if (> (aref X m i) 0) (maxf (aref y m) (aref X m i)) (maxf (aref y m) (- (aref X m i))))", lambda x: np.abs(x).max(1, initial=0)),
        ("(if (> (aref X m i) 0) (progn (incf (aref y m) 2.0) (incf (aref z m) (aref X m i))) (progn (incf (aref z m) 1.0) (incf (aref y m) (aref X m i))))", lambda x: np.where(x > 0, 2, x).sum(1)),
        ("(if (> (aref X m i) 0) (progn (incf (aref y m) 1.0) (incf (aref z m) (aref y m))) (incf (aref y m) 2.0))", lambda x: np.where(x > 0, 1, 2).sum(1)),
        ("(if (> (aref X m i) 0) (incf (aref y m) 1.0) (mulcf (aref y m) 0.5))", None),
    ],
)  # fmt: skip
def test_other_accumulations(body: str, expected: Callable[[Array], float] | None) -> None:
    """Several at once; others than sums; and those that must stay as they are, for one branch reads what it stores, or they are not of one kind."""
    text = (
        f"(composite c ((X{{f32}}[M N]) -> (y{{f32}}[M] z{{f32}}[M])) (dotimes (m M) (incf (aref z m) 0.0)) (dotimes (m M) (dotimes (i N) {body})))"
    )
    f, rng = luminal.compile(text, runtime="clang"), np.random.default_rng(SEED)
    for m, n in ((0, 3), (3, 0), (1, 1), (9, 7), (40, 100)):
        x = rng.standard_normal((m, n)).astype(np.float32)
        y = np.zeros(m)
        for column in x.T:
            y = np.where(column > 0, y + 1.0, y * 0.5)
        np.testing.assert_allclose(f(x)[0], y if expected is None else expected(x.astype(np.float64)), rtol=1e-5, atol=1e-5)
