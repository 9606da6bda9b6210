"""Short reductions along rows, as many side by side as a vector has lanes: the plan, and its sums against float64 at lengths around vectors and blocks."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.ir.dtypes import f32
from luminal.ir.expr import ZERO, call, const, fold, load, var, vload
from luminal.ir.program import For, StoreTo, statements
from luminal.ir.target import Target
from luminal.ir.walks import postorder
from luminal.passes.lower.folds import folds
from luminal.passes.lower.names import Names
from luminal.passes.schedule import cost

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 7
NEAREST = """
(composite nearest ((Q{f32}[H D] K{f32}[H M D] V{f32}[H M E]) -> (O{f32}[H E]))
  (setf far (max (abs (- (reshape Q H 1 D) K)) :axis -1))
  (return (einsum "hj,hje->he" (softmax (neg far) :axis -1) V)))
"""
DECODE = """
(composite decoded ((Q{T}[H D] K{T}[H M D] V{T}[H M E]) -> (O{T}[H E]))
  (setf P (softmax (* (einsum "hd,hjd->hj" Q K) (rsqrt D)) :axis -1))
  (return (einsum "hj,hje->he" P V)))
"""
GROUPED = """
(composite grouped ((Q{T}[G A D] K{T}[G M D] V{T}[G M E]) -> (O{T}[G A E]))
  (setf S (* (einsum "gad,gjd->gaj" Q K) (rsqrt D)))
  (return (einsum "gaj,gje->gae" (softmax S :axis -1) V)))
"""
BOUNDS = {"f32": 2e-6, "f64": 1e-14, "f16": 2e-3, "bf16": 1.6e-2}  # of a value near 1: rounding of the result, and of some dozen products


def row(op="add", folded="add", stop=16, address=None, before=None, vector=None):
    at = var("i") if address is None else address
    value = vload("V", f32, 16, var("i") * 16) if vector is None else vector
    return (
        For(
            "i",
            ZERO,
            const(stop),
            (StoreTo("acc", at, call(op, load("acc", f32, at if before is None else before), fold(folded, value))),),
            pragma="unroll",
        ),
    )


def tile(rows=4, columns=4, address=None, loaded=None, vector=None):
    """Folds of a nest of unrolled loops, of accumulators that lie in its order."""
    r, i = var("r"), var("i")
    at = r * columns + i if address is None else address
    value = load("lanes", f32.vector(16), r * columns + i if loaded is None else loaded) if vector is None else vector
    store = StoreTo("acc", at, call("add", load("acc", f32, at), fold("add", value)))
    return (For("r", ZERO, const(rows), (For("i", ZERO, const(columns), (store,), pragma="unroll"),), pragma="unroll"),)


def forms(block):
    return {n.op for s in statements(block) for n in postorder(*s.expressions())}


@pytest.mark.parametrize(("op", "folded"), [("add", "add"), ("max", "max")])
def test_folds_of_a_row_are_taken_together(op, folded):
    found = folds(row(op, folded), Names())
    assert "fold" not in forms(found) and {"zip_low", "zip_high"} <= forms(found)
    assert sum(isinstance(s, StoreTo) and s.buffer == "acc" for s in statements(found)) == 1


@pytest.mark.parametrize("rows", [9, 14, 15])
def test_folds_of_fewer_rows_than_lanes_store_the_first_lanes(rows):
    """The last row stands for those that are not there."""
    found = folds(row(stop=rows), Names())
    assert "fold" not in forms(found)
    (store,) = (s for s in statements(found) if isinstance(s, StoreTo) and s.buffer == "acc")
    assert store.count is const(rows) and vload("acc", f32, 16, ZERO, const(rows)) in set(postorder(store.value))
    assert any(n.op == "min" and const(rows - 1) in n.args for s in statements(found) for n in postorder(*s.expressions()))


@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (2, 8), (8, 2)])
def test_folds_of_a_tile_are_taken_together(rows, columns):
    """As a row of so many is: the same statements, whatever the tile's sides."""
    one = (
        For(
            "i",
            ZERO,
            const(16),
            (StoreTo("acc", var("i"), call("add", load("acc", f32, var("i")), fold("add", load("lanes", f32.vector(16), var("i"))))),),
            pragma="unroll",
        ),
    )
    assert folds(tile(rows, columns), Names()) == folds(one, Names())
    assert "fold" not in forms(folds(one, Names()))


@pytest.mark.parametrize(
    "block",
    {
        "sums lie in another order": tile(address=var("i") * 4 + var("r")),
        "rows lie apart": tile(address=var("r") * 5 + var("i")),
        "lanes lie in another order": tile(loaded=var("i") * 4 + var("r")),
        "from memory": tile(vector=vload("V", f32, 16, var("r") * 64 + var("i") * 16)),
        "fewer sums than lanes": tile(rows=2),
    }.items(),
    ids=lambda c: c[0],
)
def test_tiles_that_are_left_alone(block):
    assert folds(block[1], Names()) == block[1]


@pytest.mark.parametrize(
    ("registers", "width", "wanted"),
    [(32, 16, ((4, 4), (2, 8))), (32, 8, ((2, 4),)), (16, 8, ((2, 4),)), (16, 4, ((2, 2),)), (16, 16, ()), (16, 2, ())],
)
def test_tiles_fill_a_vector_and_fit_in_the_registers(registers, width, wanted):
    target = Target("clang", "test", "", native=frozenset(), dtypes=frozenset(), arithmetic=frozenset(), vector_registers=registers)
    assert cost.tiles_of_scores(target, width) == wanted


@pytest.mark.parametrize(
    "block",
    {
        "another operator": row("max", "add"),
        "as many lanes without a row as with one": row(stop=8),
        "not side by side": row(address=var("i") * 2),
        "another sum is read": row(before=var("i") + 1),
        "what is folded reads the sums": row(vector=vload("acc", f32, 16, var("i"))),
    }.items(),
    ids=lambda c: c[0],
)
def test_what_is_left_alone(block):
    assert folds(block[1], Names()) == block[1]


def decoded(q, k, v):
    s = np.einsum("hd,hjd->hj", q, k) / np.sqrt(q.shape[-1])
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hj,hje->he", p / p.sum(-1, keepdims=True), v)


@needs_cc
@pytest.mark.parametrize(("dtype", "vector"), [("f32", 32), ("f32", 64), ("f64", 64), ("f16", 64), ("bf16", 32)])
def test_decode(dtype, vector):
    """Depths and lengths below, at and above vectors; row by row, and in chunks."""
    f = luminal.compile(DECODE, dtype={"T": dtype}, config={"VECTOR": vector})
    rng = np.random.default_rng(SEED)
    for h, d, m, e in [
        (1, 1, 1, 1),
        (2, 16, 16, 5),
        (3, 15, 17, 16),
        (2, 33, 47, 33),
        (1, 64, 1024, 64),
        (2, 24, 1500, 40),
        (1, 7, 2100, 129),
        (40, 20, 31, 8),
    ]:
        q, k, v = (rng.standard_normal(shape).astype(np.float32) for shape in ((h, d), (h, m, d), (h, m, e)))
        q, k, v = (cast(x, dtype) for x in (q, k, v))
        found = np.asarray(f(q, k, v)).astype(np.float64)
        expected = decoded(*(np.asarray(x).astype(np.float64) for x in (q, k, v)))
        np.testing.assert_allclose(found, expected, rtol=0, atol=4 * BOUNDS[dtype], err_msg=f"H={h} D={d} M={m} E={e}, seed {SEED}")


@needs_cc
@pytest.mark.parametrize(("dtype", "vector"), [("f32", 32), ("f32", 64), ("f64", 64), ("bf16", 64)])
def test_rows_that_share_a_cache(dtype, vector):
    """Tiles of four rows and of two, and what is left of them, at depths and lengths below, at and above vectors."""
    f = luminal.compile(GROUPED, dtype={"T": dtype}, config={"VECTOR": vector})
    rng = np.random.default_rng(SEED)
    for g, a, d, m, e in [
        (1, 1, 1, 1, 1),
        (2, 2, 16, 16, 5),
        (3, 3, 15, 17, 16),
        (1, 4, 33, 47, 33),
        (2, 5, 64, 300, 64),
        (1, 7, 40, 35, 20),
        (1, 8, 24, 1500, 40),
        (2, 9, 7, 40, 129),
    ]:
        q, k, v = (cast(rng.standard_normal(shape).astype(np.float32), dtype) for shape in ((g, a, d), (g, m, d), (g, m, e)))
        found = np.asarray(f(q, k, v)).astype(np.float64)
        wide = [np.asarray(x).astype(np.float64) for x in (q, k, v)]
        expected = decoded(wide[0].reshape(g * a, d), np.repeat(wide[1], a, 0), np.repeat(wide[2], a, 0)).reshape(g, a, e)
        np.testing.assert_allclose(found, expected, rtol=0, atol=4 * BOUNDS[dtype], err_msg=f"G={g} A={a} D={d} M={m} E={e}, seed {SEED}")


def cast(x, dtype):
    if dtype == "bf16":
        ml_dtypes = pytest.importorskip("ml_dtypes")
        return x.astype(ml_dtypes.bfloat16)
    return x.astype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[dtype])


@needs_cc
def test_another_reduction():
    """A maximum of distances: one fold of maxima for 16 of them."""
    f = luminal.compile(NEAREST, config={"VECTOR": 64})
    rng = np.random.default_rng(SEED)
    for h, d, m, e in [(1, 1, 1, 1), (3, 15, 17, 16), (2, 33, 1100, 7)]:
        q, k, v = (rng.standard_normal(shape).astype(np.float32) for shape in ((h, d), (h, m, d), (h, m, e)))
        far = np.abs(q[:, None] - k).max(-1).astype(np.float64)
        p = np.exp(far.min(-1, keepdims=True) - far)
        expected = np.einsum("hj,hje->he", p / p.sum(-1, keepdims=True), v)
        np.testing.assert_allclose(f(q, k, v), expected, atol=4e-6, rtol=0, err_msg=f"H={h} D={d} M={m} E={e}, seed {SEED}")
