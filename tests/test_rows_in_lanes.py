"""Sums with rows in the lanes: the plan, its pieces one by one, and scores of few queries that share keys against float64 at depths around pieces, lines and vectors."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import FAMILIES, needs_cc
from luminal.ir.bounds import Known
from luminal.ir.dtypes import f32
from luminal.ir.expr import ZERO, call, const, floordiv, load, var
from luminal.ir.program import Array, For, StoreTo, statements
from luminal.ir.target import Target
from luminal.ir.walks import postorder
from luminal.passes.lower.names import Names
from luminal.passes.lower.vectors import vectorise
from luminal.passes.schedule.affine import upper_of_rest

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 11
TARGET = Target("clang", "avx512", "avx512", vector_bytes=64, vector_registers=32)
GROUPED = """
(composite grouped ((Q{T}[G A D] K{T}[G M D] V{T}[G M E]) -> (O{T}[G A E]))
  (setf S (* (einsum "gad,gjd->gaj" Q K) (rsqrt D)))
  (return (einsum "gaj,gje->gae" (softmax S :axis -1) V)))
"""
DISTANCE = """
(composite nearest ((Q{f32}[G A D] K{f32}[G M D] V{f32}[G M E]) -> (O{f32}[G A E]))
  (setf far (sum (abs (- (reshape Q G A 1 D) (reshape K G 1 M D))) :axis -1))
  (return (einsum "gaj,gje->gae" (softmax (neg far) :axis -1) V)))
"""


def folds(rows=4, count=4, length=4, op="add", apart=None, stored=None):
    """Sums of segments of register vectors, behind what makes these an array of vectors."""
    r, p, w, x = var("r"), var("p"), var("w"), var("x")
    lanes = rows * length
    at = r * count + p if stored is None else stored
    value = load("lanes", f32, p * (lanes if apart is None else apart) + r * length + w)
    zero = For(
        "p",
        ZERO,
        const(count),
        (For("x", ZERO, const(lanes), (StoreTo("lanes", p * lanes + x, const(0.0, f32)),), pragma="vector"),),
        pragma="unroll",
    )
    sums = StoreTo("acc", at, call(op, load("acc", f32, at), value))
    nest = For("w", ZERO, const(length), (sums,), pragma="vector")
    nest = For("r", ZERO, const(rows), (For("p", ZERO, const(count), (nest,), pragma="unroll"),), pragma="unroll")
    assert x.attr == "x"
    return (Array("lanes", f32, lanes * count, "register"), zero, nest)


def forms(block):
    return {n.op for s in statements(block) for n in postorder(*s.expressions())}


@pytest.mark.parametrize(("rows", "length"), [(4, 4), (8, 2), (2, 8)])
@pytest.mark.parametrize("op", ["add", "max"])
def test_segments_are_folded_together(rows, length, op):
    found = vectorise(folds(rows, length, length, op), TARGET, Names())
    assert "fold" not in forms(found) and "pick" in forms(found)
    assert next(s for s in found if isinstance(s, Array) and s.name == "lanes").dtype is f32.vector(16)
    assert sum(isinstance(s, StoreTo) and s.buffer == "acc" for s in statements(found)) == 1


@pytest.mark.parametrize(
    "block",
    {
        "fewer sums than lanes": folds(count=2),
        "sums lie in another order": folds(stored=var("p") * 4 + var("r")),
        "vectors overlap": folds(apart=8),
    }.items(),
    ids=lambda c: c[0],
)
def test_what_is_left_alone(block):
    found = vectorise(block[1], TARGET, Names())
    assert "pick" not in forms(found)


def attention(q, k, v, scores):
    s = scores(q, k)
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("gaj,gje->gae", p / p.sum(-1, keepdims=True), v)


def drawn(*shapes):
    rng = np.random.default_rng(SEED)
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


def schedule(f):
    return [line.split() for k in f.compilation.kernels.kernels for line in k.schedule]


SIZES = [
    (1, 4, 4, 16, 1),
    (2, 5, 15, 33, 16),
    (1, 8, 16, 40, 20),
    (1, 9, 19, 300, 64),
    (2, 12, 40, 17, 33),
    (3, 16, 64, 1100, 24),
    (1, 6, 3, 20, 7),
    (1, 4, 128, 700, 128),
]


@needs_cc
@pytest.mark.parametrize(("dtype", "vector", "bound"), [("f32", 64, 8e-6), ("f32", 32, 8e-6), ("f64", 64, 4e-14)])
def test_queries_that_share_keys(dtype, vector, bound):
    f = luminal.compile(GROUPED, dtype={"T": dtype}, config={"VECTOR": vector})
    for g, a, d, m, e in SIZES:
        q, k, v = (x.astype(dtype.replace("f", "float")) for x in drawn((g, a, d), (g, m, d), (g, m, e)))
        expected = attention(*(x.astype(np.float64) for x in (q, k, v)), lambda q, k: np.einsum("gad,gjd->gaj", q, k) / np.sqrt(q.shape[-1]))
        np.testing.assert_allclose(f(q, k, v), expected, rtol=0, atol=bound, err_msg=f"G={g} A={a} D={d} M={m} E={e}, seed {SEED}")


@needs_cc
@pytest.mark.parametrize("family", [f for f in ("clang", "gcc") if f in FAMILIES])
def test_a_piece_is_loaded_repeated(family):
    """By an instruction of the machine with gcc too, which else stores the piece and loads a vector from there."""
    f = luminal.compile(GROUPED, dtype={"T": "f32"}, sizes={"A": 8, "D": 64}, config={"VECTOR": 64, "CC": FAMILIES[family]})
    (helper,) = (part for part in f.source.split("\n\n") if " repeat_f32x4_f32x16(" in part.partition("\n")[0])
    assert "__builtin_ia32_broadcastf32x4_512(" in helper
    q, k, v = drawn((2, 8, 64), (2, 100, 64), (2, 100, 40))
    expected = attention(*(x.astype(np.float64) for x in (q, k, v)), lambda q, k: np.einsum("gad,gjd->gaj", q, k) / 8)
    np.testing.assert_allclose(f(q, k, v), expected, rtol=0, atol=8e-6)


@needs_cc
def test_another_product():
    """Sums of distances: no product, and no scale behind it."""
    f = luminal.compile(DISTANCE, config={"VECTOR": 64})
    for g, a, d, m, e in SIZES:
        q, k, v = drawn((g, a, d), (g, m, d), (g, m, e))
        wide = [x.astype(np.float64) for x in (q, k, v)]
        expected = attention(*wide, lambda q, k: -np.abs(q[:, :, None] - k[:, None]).sum(-1))
        np.testing.assert_allclose(f(q, k, v), expected, rtol=0, atol=2e-4, err_msg=f"G={g} A={a} D={d} M={m} E={e}, seed {SEED}")


def test_what_larger_pieces_leave_is_few_smaller_ones():
    """Of up to eight rows that a tile of eight leaves, one of four is left at most: what is copied for it has a constant place, allocated once for each thread."""
    known, n = Known({"n": (0, None, 1)}), var("n")
    quarters, eighths = (floordiv(n, const(k)) for k in (4, 8))
    assert upper_of_rest(quarters - eighths * 2, known) == 1
    assert upper_of_rest(floordiv(n, const(2)) - eighths * 4, known) == 3
    assert upper_of_rest(floordiv(n - eighths * 8, const(4)), known) == 1
    assert upper_of_rest(quarters - floordiv(n, const(6)), known) is None
