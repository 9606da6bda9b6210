"""The builder's operators against NumPy: elementwise with their dtypes, reductions, scans, contractions.  Values come from the graph interpreter."""

import random

import numpy as np
import pytest
from graph_bench import Bench, K, M, N, movement_only
from luminal.ir.dtypes import DTYPES, bool_, f16, f32, f64, i8, i32, i64, u8
from luminal.ir.graph import postorder


@pytest.fixture
def t():
    return Bench()


# ---- elementwise, dtypes, weak numbers


def test_broadcasting(t):
    (x, a), (y, b), (s, c) = t.input(M, 1, K), t.input(N, 1), t.input()
    t.check(t.b.elementwise("add", t.b.elementwise("mul", x, y), s), a * b + c)
    t.check(t.b.where(t.b.elementwise("less_than", x, y), x, y), np.minimum(*np.broadcast_arrays(a, b)))


def test_numbers_take_the_neighbours_dtype(t):
    b = t.b
    (h, _), (d, a), (i, c) = t.input(M, dtype=f16), t.input(M, dtype=f64), t.input(M, dtype=i8)
    assert b.elementwise("mul", b.constant(2), h).dtype is f16
    assert b.elementwise("mul", b.constant(0.1), h).dtype is f16
    assert b.elementwise("add", b.integer(N), i).dtype is i8
    assert b.elementwise("sqrt", b.integer(N)).dtype is f32
    assert b.strong(b.integer(N)).dtype is i64
    t.check(b.elementwise("mul", d, b.constant(0.1)), a * 0.1)
    scale = b.elementwise("recip", b.elementwise("sqrt", b.integer(K)))
    scaled = b.elementwise("mul", d, scale)
    assert scaled.dtype is f64
    np.testing.assert_allclose(t.value(scaled).astype(float), a / np.sqrt(5), rtol=1e-15)
    t.check(b.elementwise("add", i, b.iota(M)), c + np.arange(3))
    t.check(b.elementwise("mul", d, b.elementwise("neg", b.constant(0.25))), a * -0.25)


def test_plain_integers_stay_expressions(t):
    b = t.b
    x = b.elementwise("add", b.elementwise("mul", b.iota(N), b.constant(2)), b.integer(M))
    assert x.integer is not None
    t.check(x, 2 * np.arange(4) + 3, exact=True)
    t.check(b.elementwise("mod", x, b.constant(3)), (2 * np.arange(4) + 3) % 3, exact=True)
    assert b.position(b.elementwise("floordiv", b.integer(N * 4), b.constant(4))) is N
    t.check(b.elementwise("less_than", b.iota(N), b.constant(2)), np.arange(4) < 2, exact=True)
    assert b.condition(b.elementwise("bit_not", b.elementwise("less_than", b.iota(N), b.constant(2)))) is not None


def test_causal_mask_is_a_view(t):
    x, a = t.input(N, N)
    i, j = t.b.unsqueeze(t.b.iota(N), 1), t.b.iota(N)
    y = t.b.where(t.b.elementwise("less_equal", j, i), x, t.b.constant(-np.inf))
    assert movement_only(y)
    assert y.view.domain is not None
    t.check(y, np.where(np.tri(4, dtype=bool), a, -np.inf))
    z = t.b.where(t.b.elementwise("less_than", i, j), t.b.constant(1.0), x)
    t.check(z, np.where(np.tri(4, dtype=bool), a, 1.0))
    t.check(t.b.cast(t.b.elementwise("less_equal", j, i), f32), np.tri(4))


def test_casts_and_powers(t):
    (x, a), (i, c) = t.input(M, N, dtype=f32), t.input(M, dtype=i32)
    t.check(t.b.cast(x, i32), a.astype(np.int32), exact=True)
    t.check(t.b.cast(i, f64), c.astype(float))
    t.check(t.b.bitcast(x, DTYPES["u32"]), a.view(np.uint32), exact=True)
    for n in (0, 1, 2, 5, -3):
        y = t.b.elementwise("pow", x, t.b.constant(n))
        t.check(y, a.astype(float) ** n)
    t.check(t.b.pow(i, t.b.constant(3)), c**3, exact=True)
    assert t.b.pow(x, t.b.constant(2)).view.node.op == "mul"
    assert t.b.pow(x, x).view.node.op == "pow"


# ---- reductions, scans, contractions


@pytest.mark.parametrize("axes", [None, 0, -1, (0, 2), (2, 0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(t, axes, keepdims):
    x, a = t.input(M, N, K)
    b, kw = t.b, {"axis": axes, "keepdims": keepdims}
    t.check(b.sum(x, axes, keepdims), a.sum(**kw))
    t.check(b.prod(x, axes, keepdims), a.prod(**kw))
    t.check(b.max(x, axes, keepdims), a.max(**kw))
    t.check(b.min(x, axes, keepdims), a.min(**kw))
    t.check(b.mean(x, axes, keepdims), a.mean(**kw))
    t.check(b.var(x, axes, keepdims, 1), a.var(ddof=1, **kw))
    t.check(b.any(b.elementwise("less_than", b.constant(1.0), x), axes, keepdims), (a > 1).any(**kw), exact=True)
    t.check(b.all(x, axes, keepdims), a.all(**kw), exact=True)
    t.check(b.logsumexp(x, axes, keepdims), np.log(np.exp(a).sum(**kw)))


def test_integer_sums_are_wide(t):
    (i, a), (u, c) = t.input(M, N, dtype=i8), t.input(M, dtype=u8)
    assert t.b.sum(i).dtype is i64
    assert t.b.cumsum(u, 0).dtype is i64
    assert t.b.max(i).dtype is i8
    t.check(t.b.sum(t.b.elementwise("less_than", i, t.b.constant(3)), 1), (a < 3).sum(1), exact=True)
    t.check(t.b.max(t.b.truth(u)), (c != 0).max(), exact=True)


def test_logsumexp_of_extremes():
    t = Bench({"M": 3})
    for array, wanted in (([-np.inf] * 3, -np.inf), ([np.inf, 0, -np.inf], np.inf), ([1000.0, 1000.0, -np.inf], 1000 + np.log(2))):
        x, _ = t.input(M, array=array)
        t.check(t.b.logsumexp(x), wanted)


@pytest.mark.parametrize("dtype", [f32, i32, u8, bool_])
def test_argmax_takes_the_first(dtype):
    t = Bench({"M": 4, "N": 6})
    x, a = t.input(M, N, dtype=dtype, low=-2, high=2, array=np.random.default_rng(3).integers(0, 3, (4, 6)))
    for axis in (None, 0, 1, -1):
        t.check(t.b.argmax(x, axis), a.argmax(axis), exact=True)
        t.check(t.b.argmin(x, axis, keepdims=True), a.argmin(axis, keepdims=True), exact=True)


def test_argmax_of_nan():
    t = Bench({"M": 4})
    x, _ = t.input(M, array=[1.0, np.nan, 5.0, np.nan])
    t.check(t.b.argmax(x), 1, exact=True)
    t.check(t.b.argmin(x), 1, exact=True)


def test_scans(t):
    x, a = t.input(M, N)
    t.check(t.b.cumsum(x, 1), a.cumsum(1))
    t.check(t.b.cumprod(x, 0), a.cumprod(0))
    t.check(t.b.cummax(x, -1), np.maximum.accumulate(a, -1))
    t.check(t.b.cummin(t.b.transpose(x), 0), np.minimum.accumulate(a.T, 0))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((M, K), (K, N)),
        ((K,), (K, N)),
        ((M, K), (K,)),
        ((K,), (K,)),
        ((2, M, K), (K, N)),
        ((2, 1, M, K), (N, K, M)),
        ((K,), (N, K, M)),
        ((N, M, K), (K,)),
    ],
    ids=repr,
)
def test_matmul(t, left, right):
    (x, a), (y, b) = t.input(*left), t.input(*right)
    z = t.b.matmul(x, y)
    assert z.view.node.op == "reduce"
    t.check(z, a @ b)


@pytest.mark.parametrize(
    "spec",
    [
        "ij->ji", "ii->i", "ii", "ij->", "ij,jk->ik", "ij,jk", "ij,kj->ki", "i,j->ij", "ij,ij->", "ij,ij->ij", "ii,i->i", "bij,bjk->bik", "ij,jk,kl->il", "ij,jk,kl,l->i",
        "ij,ji,ij", "abc,bad,de->ec", "ab,bc,cd,de,ea->a", "i,j,k,l,ij,kl->", "abcd,ai,bj,ck,dl->ijkl", "i,i,i->", "...ij,...jk->...ik", "...i,i->...", "i...,...->i...", "ijk,k->j",
        "ikik,kj->ij", "abc,bd->d", "ab,cd->", "abc,d,be->ea",
    ],
)  # fmt: skip
@pytest.mark.parametrize("seed", [0, 1])
def test_einsum(spec, seed):
    r = random.Random(seed)
    t = Bench({"M": 3, "N": 2, "K": 5})
    size = {c: r.choice((M, N, K, 2)) for c in "abcdeijkl"}
    terms = spec.split("->")[0].split(",")
    dots = [(M, N), (1, N), (N,)]
    shapes = [[e for c in term.replace("...", ".") for e in (dots[k] if c == "." else (size[c],))] for k, term in enumerate(terms)]
    pairs = [t.input(*s) for s in shapes]
    t.check(t.b.einsum(spec, *(x for x, _ in pairs)), np.einsum(spec, *(a for _, a in pairs)))


def test_the_order_of_a_contraction_counts_all_its_products():
    """Five small matrices along five axes of a long tensor: the cheapest pair first would multiply the matrices by one another, and then the tensor by all of it."""
    t = Bench({"M": 3})
    (x, a), (h, b) = t.input(M, 2, 2, 2, 2), t.input(2, 2)
    y = t.b.einsum("mabcd,av,bw,cx,dy->mvwxy", x, h, h, h, h)
    t.check(y, np.einsum("mabcd,av,bw,cx,dy->mvwxy", a, b, b, b, b))
    products = [n for n in postorder(y.view.node) if n.op == "mul"]
    assert len(products) == 4
    assert all(n.shape.count(M) == 1 and len(n.shape) == 6 for n in products)


def test_what_one_operand_alone_has_is_summed_before_it_is_multiplied(t):
    """Σ over k of A[i, k] · B[j] multiplies the sum of each row, once for each j; where the others have nothing that a misses, one sum is one pass."""
    (x, a), (y, b), (v, c) = t.input(M, K), t.input(N), t.input(M)
    early, late = t.b.einsum("ik,j->ij", x, y), t.b.einsum("ik,i->i", x, v)
    t.check(early, np.einsum("ik,j->ij", a, b))
    t.check(late, np.einsum("ik,i->i", a, c))
    assert [n.shape for n in postorder(early.view.node) if n.op == "mul"] == [(M, N)]
    assert [n.shape for n in postorder(late.view.node) if n.op == "mul"] == [(M, K)]


def test_contractions_are_one_reduction_each(t):
    (x, _), (y, _), (z, _) = t.input(M, K), t.input(K, N), t.input(N, M)
    ops = [n.op for n in postorder(t.b.einsum("mk,kn,nm->m", x, y, z).view.node)]
    assert ops.count("reduce") == 2
    assert ops.count("mul") == 2
