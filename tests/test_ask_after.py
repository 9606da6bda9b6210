"""Products under a choice, as loops with an `if` write them: what they are multiplied as, beside float64 in NumPy, and that nothing shows which the choice leaves out."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from stages import graph_after

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 11
Array = np.ndarray


class Form(NamedTuple):
    ports: str
    condition: str
    term: str
    holds: Callable[..., Array]  # of the arrays, over [i, j, p]
    product: Callable[..., Array]  # of the arrays, over [i, j, p]
    ways: tuple[str, ...] = (
        "nest again",
        "masked",
    )  # what the graph holds: a look at the sums, a tensor with the choice (none where positions say where sums begin and end)


def at(*shape: int) -> tuple[Array, ...]:
    return tuple(np.ogrid[tuple(slice(n) for n in shape)])


def plain(a: Array, b: Array, *_: Array) -> Array:
    return a[:, None, :] * b.T[None]


def before(x: Array, axis: int) -> Array:
    """Each position's neighbour before it; the first one's is never asked for."""
    return np.roll(x, 1, axis)


def cube(a: Array, b: Array) -> tuple[Array, ...]:
    return at(a.shape[0], b.shape[1], a.shape[1])


AB = "A{f32}[M K] B{f32}[K N]"
TERM = "(* (aref A i p) (aref B p j))"
FORMS = {
    "a triangle": Form(AB, "(<= p i)", TERM, lambda a, b: np.less_equal(cube(a, b)[2], cube(a, b)[0]), plain, ("nest again",)),
    "a triangle of the columns": Form(AB, "(< p j)", TERM, lambda a, b: np.less(cube(a, b)[2], cube(a, b)[1]), plain, ("nest again",)),
    "every third": Form(AB, "(= (mod (+ p i) 3) 0)", TERM, lambda a, b: (cube(a, b)[0] + cube(a, b)[2]) % 3 == 0, plain),
    "positive factors": Form(AB, "(> (aref A i p) 0)", TERM, lambda a, b: (a > 0)[:, None, :], plain),
    "what is kept": Form(f"{AB} W{{bool}}[K]", "(aref W p)", TERM, lambda a, b, w: w[None, None, :], plain),
    "the same class": Form(f"{AB} I{{i64}}[M] J{{i64}}[K]", "(= (aref I i) (aref J p))", TERM, lambda a, b, i, j: (i[:, None] == j)[:, None, :], plain),
    "three factors": Form(f"{AB} S{{f32}}[K]", "(<= p i)", "(* (aref A i p) (aref S p) (aref B p j))", lambda a, b, s: np.less_equal(cube(a, b)[2], cube(a, b)[0]), lambda a, b, s: plain(a, b) * s, ("nest again",)),
    "taken away": Form(AB, "(<= p i)", f"(- {TERM})", lambda a, b: np.less_equal(cube(a, b)[2], cube(a, b)[0]), lambda a, b: -plain(a, b), ("nest again",)),
    "a triangle of the result": Form(AB, "(<= j i)", TERM, lambda a, b: np.less_equal(cube(a, b)[1], cube(a, b)[0]), plain, ()),
    "rows that count": Form(f"{AB} W{{bool}}[M]", "(aref W i)", TERM, lambda a, b, w: w[:, None, None], plain, ()),
    "the row before": Form(AB, "(> p 0)", "(* (aref A i p) (aref B (- p 1) j))", lambda a, b: cube(a, b)[2] > 0, lambda a, b: plain(a, before(b, 0))),
    "one of all axes": Form(AB, "(<= (+ j p) i)", TERM, lambda a, b: np.less_equal(cube(a, b)[1] + cube(a, b)[2], cube(a, b)[0]), plain, ()),
}  # fmt: skip
SIZES = ((0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (2, 7, 5), (33, 17, 19), (70, 90, 129))  # M, N, K


def text_of(name: str) -> str:
    form = FORMS[name]
    loops = f"(dotimes (i M) (dotimes (j N) (dotimes (p K) (if {form.condition} (incf (aref C i j) {form.term})))))"
    return f"(composite form (({form.ports}) -> (C{{f32}}[M N])) {loops})"


def arrays_of(name: str, sizes: tuple[int, int, int], rng: np.random.Generator) -> list[Array]:
    extents = dict(zip("MNK", sizes, strict=True))
    found: list[Array] = []
    for kind, axes in re.findall(r"\{(\w+)\}\[([\w ]+)\]", FORMS[name].ports):
        shape = tuple(extents[e] for e in axes.split())
        drawn = {"f32": rng.standard_normal(shape).astype(np.float32), "bool": rng.random(shape) < 0.5, "i64": rng.integers(0, 3, shape)}
        found.append(drawn[kind])
    return found


def reference(name: str, arrays: list[Array]) -> Array:
    form = FORMS[name]
    wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in arrays]
    with np.errstate(invalid="ignore"):
        product = form.product(*wide)
        return np.where(np.broadcast_to(form.holds(*wide), product.shape), product, 0).sum(2)


@cache
def kernel(name: str) -> Callable[..., Any]:
    return luminal.compile(text_of(name), runtime="clang")


@pytest.mark.parametrize("name", FORMS)
def test_what_is_multiplied(name: str) -> None:
    nodes = graph_after("ask_after", text_of(name)).nodes()
    assert any(n.op == "nest" for n in nodes) == ("nest again" in FORMS[name].ways)
    assert any(n.op == "contiguous" for n in nodes) == ("masked" in FORMS[name].ways)


@needs_cc
@pytest.mark.parametrize("name", FORMS)
def test_values(name: str) -> None:
    f, rng = kernel(name), np.random.default_rng(SEED)
    for sizes in SIZES:
        arrays = arrays_of(name, sizes, rng)
        np.testing.assert_allclose(f(*arrays), reference(name, arrays), rtol=2e-5, atol=2e-4, err_msg=f"{name} at {sizes}")


@needs_cc
@pytest.mark.parametrize("name", FORMS)
def test_nothing_leaks(name: str) -> None:
    """What the choice leaves out may be anything; what it does not shows."""
    f, rng = kernel(name), np.random.default_rng(SEED)
    for bad in (np.inf, -np.inf, np.nan):
        a, b, *others = arrays_of(name, (37, 53, 41), rng)
        b[29], b[5, ::7], b[3, 50], a[8, 30], a[30, 2:4] = bad, bad, 0.0, bad, bad
        arrays = [a, b, *others]
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(f(*arrays), reference(name, arrays), rtol=2e-5, atol=2e-4, err_msg=f"{name}, {bad}")


@needs_cc
def test_windows_over_an_edge() -> None:
    """A convolution that asks in its loops whether a window stands over the edge is one with padding: no element is read nine times, and infinite taps do not meet what is beyond."""
    loops = "(dotimes (n N) (dotimes (o O) (dotimes (i H) (dotimes (j V) (dotimes (c C) (dotimes (p 3) (dotimes (q 3) {}))))))))"
    asked = "(if (and (<= 1 (+ i p)) (<= (+ i p) H) (<= 1 (+ j q)) (<= (+ j q) V)) (incf (aref Y n o i j) (* (aref X n c (- (+ i p) 1) (- (+ j q) 1)) (aref W o c p q))))"
    text = f"(composite windows ((X{{f32}}[N C H V] W{{f32}}[O C 3 3]) -> (Y{{f32}}[N O H V])) {loops.format(asked)}"
    assert not any(n.op == "contiguous" for n in graph_after("ask_after", text).nodes())
    f, rng = luminal.compile(text, runtime="clang"), np.random.default_rng(SEED)
    for n, c, o, h, v in ((2, 3, 5, 7, 9), (1, 4, 33, 1, 1), (1, 1, 1, 6, 40), (0, 2, 2, 4, 4)):
        x, w = rng.standard_normal((n, c, h, v)).astype(np.float32), rng.standard_normal((o, c, 3, 3)).astype(np.float32)
        w[0, 0, 0, 0] = np.inf
        expected = np.zeros((n, o, h, v))
        for i, j, p, q in np.ndindex(h, v, 3, 3):
            if 0 <= i + p - 1 < h and 0 <= j + q - 1 < v:
                expected[:, :, i, j] += np.einsum("nc,oc->no", x[:, :, i + p - 1, j + q - 1].astype(np.float64), w[:, :, p, q])
        np.testing.assert_allclose(f(x, w), expected, rtol=2e-5, atol=2e-4)


@needs_cc
def test_windows_by_name() -> None:
    """Rows and columns of a window that have names, asked about one after the other: the same padding."""
    text = """(composite dilated ((X{f32}[C H W] K{f32}[O C 3 3]) -> (Y{f32}[O H W]))
      (dotimes (o O) (dotimes (i H) (dotimes (j W) (dotimes (c C) (dotimes (p 3) (dotimes (q 3)
        (let ((y (+ i (* 2 (- p 1)))) (x (+ j (* 2 (- q 1)))))
          (if (and (>= y 0) (< y H) (>= x 0) (< x W)) (incf (aref Y o i j) (* (aref X c y x) (aref K o c p q)))))))))))) """
    assert again(text)
    f, rng = luminal.compile(text, runtime="clang"), np.random.default_rng(SEED)
    for c, o, h, w in ((3, 5, 7, 9), (4, 33, 1, 2), (1, 1, 6, 40), (2, 2, 0, 4)):
        x, k = rng.standard_normal((c, h, w)).astype(np.float32), rng.standard_normal((o, c, 3, 3)).astype(np.float32)
        k[0, 0, 0, 0] = np.inf
        expected = np.zeros((o, h, w))
        for i, j, p, q in np.ndindex(h, w, 3, 3):
            y, z = i + 2 * (p - 1), j + 2 * (q - 1)
            if 0 <= y < h and 0 <= z < w:
                expected[:, i, j] += k[:, :, p, q].astype(np.float64) @ x[:, y, z]
        np.testing.assert_allclose(f(x, k), expected, rtol=2e-5, atol=2e-4)


@needs_cc
@pytest.mark.parametrize("leading", ["", "C"])
def test_filters_over_an_edge(leading: str) -> None:
    """A filter with one kept axis, or with channels that all have its taps: what it reads is read through windows."""
    c = "c" if leading else ""
    text = f"""(composite filter ((X{{f32}}[{leading} N] h{{f32}}[T]) -> (Y{{f32}}[{leading} N]))
      (dotimes (c {leading or 1}) (dotimes (n N) (dotimes (k T)
        (if (>= n k) (incf (aref Y {c} n) (* (aref h k) (aref X {c} (- n k)))))))))"""
    assert again(text)
    f, rng = luminal.compile(text, runtime="clang"), np.random.default_rng(SEED)
    for channels, n, t in ((1, 1, 1), (3, 37, 5), (2, 5, 9), (2, 0, 3), (2, 3, 0), (1, 4099, 3), (20, 300, 17)):
        x, h = rng.standard_normal((channels, n)).astype(np.float32), rng.standard_normal(t).astype(np.float32)
        for bad in (0.0, np.inf):  # infinite taps show from where they are read, and nowhere before
            if t:
                h[-1] = bad
            expected = np.zeros((channels, n))
            for k in range(min(t, n)):
                expected[:, k:] += h[k].astype(np.float64) * x[:, : n - k]
            found = f(x if leading else x[0], h)
            np.testing.assert_allclose(found, expected if leading else expected[0], rtol=2e-5, atol=2e-4)


def again(text: str) -> bool:
    return any(n.op == "nest" and n.attr.nest is not None and n.attr.nest.name == "again" for n in graph_after("ask_after", text).nodes())


CHOSEN = """(composite chosen ((A{{f32}}[M K] I{{i64}}[K] B{{f32}}[V N]) -> (C{{f32}}[M N]))
  (dotimes (i M) (dotimes (j N) (dotimes (p K) (if {} (incf (aref C i j) (* (aref A i p) (aref B {} j))))))))"""


@pytest.mark.parametrize(("condition", "masked"), [("(>= (aref I p) 0)", False), ("(<= p i)", True)])
def test_rows_that_data_chooses(condition: str, masked: bool) -> None:
    """They are copied, and multiplied as any others; where the choice alone says which are read, what it leaves out is 0 as it stands."""
    text = CHOSEN.format(condition, "(aref I p)")
    assert again(text)
    assert (
        any(a.domain is not None and a.node.op == "input" for n in graph_after("ask_after", text).nodes() if n.op == "mul" for a in n.args) == masked
    )


def test_rows_for_every_term_are_no_operand() -> None:
    """What has all axes of the sum is not made real."""
    text = """(composite chosen ((A{f32}[M K] B{f32}[K N] I{i64}[M K N] T{f32}[V]) -> (C{f32}[M N]))
      (dotimes (i M) (dotimes (j N) (dotimes (p K) (if (<= p i) (incf (aref C i j) (* (aref A i p) (aref B p j) (aref T (aref I i p j)))))))))"""
    assert not again(text)


@needs_cc
def test_integers() -> None:
    """Nothing is looked at twice: 0 times an integer is 0."""
    text = f"(composite form ((A{{i32}}[M K] B{{i32}}[K N]) -> (C{{i32}}[M N])) (dotimes (i M) (dotimes (j N) (dotimes (p K) (if (<= p i) (incf (aref C i j) {TERM}))))))"
    assert not any(n.op == "nest" for n in graph_after("ask_after", text).nodes())
    a, b = (np.random.default_rng(SEED).integers(-9, 9, shape, np.int32) for shape in ((40, 21), (21, 30)))
    np.testing.assert_array_equal(luminal.compile(text, runtime="clang")(a, b), np.tril(a) @ b)


ADDED = {
    "two of a triangle": ("(if (<= j i) (incf (aref C i j) (+ (* (aref A i p) (aref B j p)) (* (aref B i p) (aref A j p)))))", lambda a, b: np.tril(a @ b.T + b @ a.T)),
    "one taken away": ("(incf (aref C i j) (- (* (aref A i p) (aref B j p)) (* (aref B i p) (aref A j p))))", lambda a, b: a @ b.T - b @ a.T),
    "both taken away": ("(decf (aref C i j) (+ (* (aref A i p) (aref B j p)) (* (aref B i p) (aref A j p))))", lambda a, b: -(a @ b.T) - b @ a.T),
}  # fmt: skip


@needs_cc
@pytest.mark.parametrize("name", ADDED)
def test_products_that_are_added_up_are_a_sum_each(name: str) -> None:
    """Each is a contraction by itself."""
    term, want = ADDED[name]
    text = f"(composite form ((A{{f32}}[N K] B{{f32}}[N K]) -> (C{{f32}}[N N])) (dotimes (i N) (dotimes (j N) (dotimes (p K) {term}))))"
    assert [n.args[0].node.op for n in graph_after("ask_after", text).nodes() if n.op == "reduce"] == ["mul", "mul"]
    call, rng = luminal.compile(text), np.random.default_rng(SEED)
    for n, k in ((0, 3), (3, 0), (1, 1), (7, 5), (33, 70)):
        a, b = (rng.standard_normal((n, k)).astype(np.float32) for _ in range(2))
        np.testing.assert_allclose(call(a, b), want(a.astype(np.float64), b.astype(np.float64)), rtol=1e-4, atol=1e-4)
