"""The builder's movement and positions against NumPy: every method, random chains of views, and what it refuses.  Values come from the graph interpreter."""

import random

import numpy as np
import pytest
from graph_bench import SIZES, Bench, K, M, N, movement_only
from luminal.ir import expr as ex
from luminal.ir.build import BuildError
from luminal.ir.dtypes import INDEX, f16, f64, i32, i64
from luminal.ir.evaluate import evaluate
from luminal.ir.graph import Size


@pytest.fixture
def t():
    return Bench()


# ---- movement


MOVES = {
    "transpose": (lambda b, x: b.transpose(x, (2, 0, 1)), lambda a: a.transpose(2, 0, 1)),
    "reverse axes": (lambda b, x: b.transpose(x), lambda a: a.T),
    "unsqueeze": (lambda b, x: b.unsqueeze(x, (0, -1)), lambda a: a[None, ..., None]),
    "squeeze": (lambda b, x: b.squeeze(b.unsqueeze(x, 2)), lambda a: a),
    "slice": (lambda b, x: b.slice(x, [(1, None, None), (0, -1, 2)]), lambda a: a[1:, 0:-1:2]),
    "slice past the end": (lambda b, x: b.slice(x, [(0, 100, 1), (-100, 2, 1)]), lambda a: a[0:100, -100:2]),
    "empty slice": (lambda b, x: b.slice(x, [(2, 1, 1)]), lambda a: a[2:1]),
    "negative step": (lambda b, x: b.slice(x, [(None, None, -1), (3, 0, -2), (-1, None, -3)]), lambda a: a[::-1, 3:0:-2, -1::-3]),
    "position": (lambda b, x: b.slice(x, [1, None, -1]), lambda a: a[1, :, -1]),
    "symbolic slice": (lambda b, x: b.slice(x, [None, (N - 2, N, 1)]), lambda a: a[:, 2:4]),
    "pad": (lambda b, x: b.pad(x, [(1, 2), (0, 0), (3, 0)], 7.5), lambda a: np.pad(a, [(1, 2), (0, 0), (3, 0)], constant_values=7.5)),
    "flip": (lambda b, x: b.flip(x, (0, 2)), lambda a: a[::-1, :, ::-1]),
    "roll": (lambda b, x: b.roll(x, 2, 1), lambda a: np.roll(a, 2, 1)),
    "roll back": (lambda b, x: b.roll(x, -7, 2), lambda a: np.roll(a, -7, 2)),
    "tile": (lambda b, x: b.tile(x, (2, 1, 3)), lambda a: np.tile(a, (2, 1, 3))),
    "tile to more axes": (lambda b, x: b.tile(x, (2, 1, 1, 2)), lambda a: np.tile(a, (2, 1, 1, 2))),
    "tile fewer axes": (lambda b, x: b.tile(x, (2,)), lambda a: np.tile(a, (2,))),
    "triu": (lambda b, x: b.triu(x, 1), lambda a: np.triu(a, 1)),
    "tril": (lambda b, x: b.tril(x, -1), lambda a: np.tril(a, -1)),
    "unfold": (lambda b, x: b.unfold(x, 3, 2, 2), lambda a: np.lib.stride_tricks.sliding_window_view(a, 3, 2)[:, :, ::2]),
    "expand": (lambda b, x: b.expand(b.unsqueeze(x, 1), (2, M, 6, N, K)), lambda a: np.broadcast_to(a[:, None], (2, 3, 6, 4, 5))),
    "reshape flat": (lambda b, x: b.reshape(x, (M * N * K,)), lambda a: a.reshape(-1)),
    "reshape -1": (lambda b, x: b.reshape(x, (M, -1)), lambda a: a.reshape(3, -1)),
    "reshape apart": (lambda b, x: b.reshape(b.reshape(x, (-1,)), (K, M, N)), lambda a: a.reshape(5, 3, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_move(t, name):
    build, expected = MOVES[name]
    x, a = t.input(M, N, K)
    y = build(t.b, x)
    assert movement_only(y)
    t.check(y, expected(a))


def test_joining(t):
    (x, a), (y, b), (z, c) = t.input(M, N), t.input(2, N), t.input(M, N)
    t.check(t.b.concat([x, y, z]), np.concatenate([a, b, c]))
    t.check(t.b.concat([x, z, x], -1), np.concatenate([a, c, a], -1))
    t.check(t.b.concat([x]), a)
    t.check(t.b.stack([x, z], -1), np.stack([a, c], -1))
    pieces = t.b.split(t.b.concat([x, y]), [M, -1])
    t.check(pieces[0], a)
    t.check(pieces[1], b)


def test_concat_leaves_nothing_of_what_is_masked(t):
    x, a = t.input(M, array=[np.inf, np.nan, 1.0])
    y, b = t.input(2)
    t.check(t.b.concat([x, y]), np.concatenate([a, b]))


@pytest.mark.parametrize("seed", range(25))
def test_chains_of_views(seed):
    """Moves on moves, masks with equal and with different fills among them, then arithmetic on the result."""
    r = random.Random(seed)
    t = Bench({"M": r.choice((1, 2, 3)), "N": r.choice((2, 4)), "K": r.choice((1, 5))}, seed)
    b = t.b
    x, a = t.input(M, N, K)
    if r.random() < 0.5:
        x, a = b.elementwise("add", x, x), a + a
    for _ in range(6):
        k = r.randrange(len(a.shape)) if a.ndim else None
        kind = r.choice(("transpose", "flip", "pad", "pad", "slice", "reshape", "roll", "triangle", "unsqueeze", "tile", "split axis", "masked"))
        if k is None or (a.size > 4000 and kind in ("pad", "tile")) or a.ndim > 5:
            kind = "flat"
        if kind == "transpose":
            p = r.sample(range(a.ndim), a.ndim)
            x, a = b.transpose(x, p), a.transpose(p)
        elif kind == "flip":
            x, a = b.flip(x, k), np.flip(a, k)
        elif kind == "pad":
            w = [(r.randrange(3), r.randrange(2)) for _ in a.shape]
            v = r.choice((0.0, 0.0, 1.0, -np.inf))
            x, a = b.pad(x, w, v), np.pad(a, w, constant_values=v)
        elif kind == "slice":
            s = [(r.choice((None, 0, 1, -2)), r.choice((None, 2, -1, 9)), r.choice((None, 1, 2, -1))) for _ in a.shape]
            x, a = b.slice(x, s), a[tuple(slice(*q) for q in s)]
        elif kind == "reshape" and a.ndim > 1 and k:
            x, a = (
                b.reshape(x, (*x.shape[: k - 1], x.shape[k - 1] * x.shape[k], *x.shape[k + 1 :])),
                a.reshape(*a.shape[: k - 1], a.shape[k - 1] * a.shape[k], *a.shape[k + 1 :]),
            )
        elif kind == "split axis":
            x, a = b.tile(x, (1,) * k + (2,) + (1,) * (a.ndim - k - 1)), np.tile(a, (1,) * k + (2,) + (1,) * (a.ndim - k - 1))
            x, a = (
                b.reshape(x, (*x.shape[:k], 2, -1, *x.shape[k + 1 :])) if a.size else x,
                a.reshape(*a.shape[:k], 2, -1, *a.shape[k + 1 :]) if a.size else a,
            )
        elif kind == "roll" and a.shape[k]:
            s = r.randint(-3, 3)
            x, a = b.roll(x, s, k), np.roll(a, s, k)
        elif kind == "triangle" and a.ndim > 1:
            s = r.randint(-1, 2)
            x, a = b.triu(x, s), np.triu(a, s)
        elif kind == "unsqueeze":
            x, a = b.unsqueeze(x, k), np.expand_dims(a, k)
        elif kind == "masked":
            row = b.iota(x.shape[k])
            row = b.unsqueeze(row, tuple(range(1, a.ndim - k))) if a.ndim - k > 1 else row
            c = np.arange(a.shape[k]).reshape(-1, *[1] * (a.ndim - k - 1)) % 2 == 0
            x, a = b.where(b.elementwise("equal", b.elementwise("mod", row, b.constant(2)), b.constant(0)), x, b.constant(3.0)), np.where(c, a, 3.0)
        elif kind == "flat":
            x, a = b.reshape(x, (-1,)), a.reshape(-1)
    print("seed", seed)
    t.check(x, a)
    if a.ndim:
        t.check(b.sum(b.elementwise("max", x, b.constant(-100.0)), 0), np.maximum(a, -100.0).sum(0))


# ---- reshape


def test_reshape_divides_only_where_it_must(t):
    x, _ = t.input(M, N, K)
    flat = t.b.reshape(x, (M, N * K))
    assert flat.view.index == (ex.axis(0), ex.axis(1) // K, ex.axis(1) % K)
    assert t.b.reshape(flat, (M, N, K)).view.is_identity
    y, _ = t.input(M * N, K)
    assert t.b.reshape(y, (M, N, K)).view.index[1] is ex.axis(2)
    t.check(t.b.reshape(y, (M, N * K)), t.arrays["x1"].reshape(3, 20))


def test_reshape_adds_a_precondition():
    t = Bench({"N": 12})
    x, a = t.input(N)
    y = t.b.reshape(x, (N // 4, 4))
    assert [repr(c) for c in t.b.requires] == [repr((N % 4).eq(0))]
    t.check(y, a.reshape(3, 4))
    z = t.b.reshape(x, (-1, 4))
    assert len(t.b.requires) == 1
    assert t.b.same(z.shape[0], N // 4)
    assert t.b.reshape(y, (N,)).view.is_identity


def test_reshape_by_known_multiple():
    t = Bench({"N": 12}, N=Size("N", multiple=4))
    x, _ = t.input(N)
    t.b.reshape(x, (-1, 4))
    assert not t.b.requires


# ---- positions in tensors, partial writes


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_and_take_along(t, axis):
    (x, a), (i, p) = t.input(M, N, K), t.input(2, 3, dtype=i32, array=[[0, 2, 1], [2, 2, 0]])
    t.check(t.b.gather(x, i, axis), np.take(a, p, axis))
    shape = list(x.shape)
    shape[axis] = 2
    q = np.random.default_rng(0).integers(0, 3, [evaluate(ex.as_expr(e), SIZES) for e in shape])
    j, _ = t.input(*shape, dtype=i64, array=q)
    t.check(t.b.take_along(x, j, axis), np.take_along_axis(a, q, axis))


def test_gather_by_positions_is_a_view(t):
    x, a = t.input(M, N)
    y = t.b.gather(x, t.b.elementwise("sub", t.b.integer(N - 1), t.b.iota(N)), 1)
    assert movement_only(y)
    t.check(y, a[:, ::-1])
    i, p = t.input(K, dtype=i64, array=[0, 1, 2, 0, 1])
    t.check(t.b.gather_at(x, [i, t.b.constant(1)]), a[p, 1])


@pytest.mark.parametrize("combine", ["set", "add", "max", "min", "mul"])
def test_scatter(t, combine):
    (x, a), (i, p), (u, v) = t.input(M, N), t.input(K, dtype=i64, array=[0, 2, 2, 1, 2]), t.input(M, K)
    expected = a.copy()
    for k, at in enumerate(p):
        c = expected[:, at]
        expected[:, at] = {"set": v[:, k], "add": c + v[:, k], "mul": c * v[:, k], "max": np.maximum(c, v[:, k]), "min": np.minimum(c, v[:, k])}[
            combine
        ]
    t.check(t.b.scatter(x, i, u, 1, combine), expected)


def test_update(t):
    (x, a), (u, v) = t.input(M, N, K), t.input(K)
    for ranges, at in (
        ([1], np.s_[1]),
        ([None, (1, None, 2)], np.s_[:, 1::2]),
        ([None, (None, None, -1), None], np.s_[:, ::-1]),
        ([-1, 2], np.s_[-1, 2]),
    ):
        expected = a.copy()
        expected[at] = v
        t.check(t.b.update(x, ranges, u), expected)
    expected = a.copy()
    expected[0] = 2
    t.check(t.b.update(x, [0], t.b.constant(2)), expected)


# ---- sizes 0


def test_empty():
    t = Bench({"M": 0, "N": 4, "K": 1})
    (x, a), (y, b) = t.input(M, N), t.input(N, M)
    t.check(t.b.matmul(y, x), b @ a)
    t.check(t.b.sum(x, 0), a.sum(0))
    t.check(t.b.concat([x, x]), np.concatenate([a, a]))
    t.check(t.b.reshape(x, (N, M)), a.reshape(4, 0))
    t.check(t.b.pad(x, [(1, 1), (0, 0)]), np.pad(a, [(1, 1), (0, 0)]))
    t.check(t.b.roll(x, 1, 0), a)


# ---- what is refused


REFUSED = {
    "dtypes": ("E0301", lambda t, b, x, i, h: b.elementwise("add", x, h)),
    "bool and a number": ("E0301", lambda t, b, x, i, h: b.elementwise("equal", b.truth(x), b.constant(1))),
    "float literal": ("E0302", lambda t, b, x, i, h: b.elementwise("mul", i, b.constant(0.5))),
    "integer division": ("E0303", lambda t, b, x, i, h: b.elementwise("div", i, i)),
    "sin of integers": ("E0303", lambda t, b, x, i, h: b.elementwise("sin", i)),
    "mean of integers": ("E0303", lambda t, b, x, i, h: b.mean(i)),
    "bits of floats": ("E0303", lambda t, b, x, i, h: b.elementwise("bit_and", x, x)),
    "where without bool": ("E0303", lambda t, b, x, i, h: b.where(x, x, x)),
    "bitcast": ("E0303", lambda t, b, x, i, h: b.bitcast(i, INDEX)),
    "broadcast": ("E0310", lambda t, b, x, i, h: b.elementwise("add", x, b.transpose(x))),
    "expand": ("E0310", lambda t, b, x, i, h: b.expand(x, (M, K))),
    "inner sizes": ("E0311", lambda t, b, x, i, h: b.matmul(x, x)),
    "concat sizes": ("E0311", lambda t, b, x, i, h: b.concat([x, b.transpose(x)])),
    "split sizes": ("E0311", lambda t, b, x, i, h: b.split(x, [1, 1])),
    "axis": ("E0312", lambda t, b, x, i, h: b.sum(x, 2)),
    "axis twice": ("E0312", lambda t, b, x, i, h: b.sum(x, (0, -2))),
    "rank": ("E0313", lambda t, b, x, i, h: b.triu(i)),
    "pad rank": ("E0313", lambda t, b, x, i, h: b.pad(x, [(0, 0)])),
    "permutation": ("E0314", lambda t, b, x, i, h: b.transpose(x, (0, 0))),
    "reshape": ("E0315", lambda t, b, x, i, h: b.reshape(x, (M, K))),
    "reshape of literals": ("E0315", lambda t, b, x, i, h: b.reshape(b.ones((6,)), (4, -1))),
    "two holes": ("E0315", lambda t, b, x, i, h: b.reshape(x, (-1, -1))),
    "einsum operands": ("E0316", lambda t, b, x, i, h: b.einsum("ij,jk->ik", x)),
    "einsum output": ("E0316", lambda t, b, x, i, h: b.einsum("ij->ik", x)),
    "einsum rank": ("E0313", lambda t, b, x, i, h: b.einsum("ijk->i", x)),
    "einsum sizes": ("E0311", lambda t, b, x, i, h: b.einsum("ii->i", x)),
    "step 0": ("E0317", lambda t, b, x, i, h: b.slice(x, [(0, 1, 0)])),
    "negative pad": ("E0317", lambda t, b, x, i, h: b.pad(x, [(-1, 0), (0, 0)])),
    "squeeze": ("E0317", lambda t, b, x, i, h: b.squeeze(x, 0)),
    "float index": ("E0318", lambda t, b, x, i, h: b.gather(x, x)),
    "index outside": ("E0319", lambda t, b, x, i, h: b.slice(x, [M])),
    "position of data": ("E0320", lambda t, b, x, i, h: b.position(b.sum(i))),
    "output dtype": ("E0301", lambda t, b, x, i, h: b.output(x, f16, x.shape)),
    "output rank": ("E0313", lambda t, b, x, i, h: b.output(x, f64, (M,))),
    "output size": ("E0311", lambda t, b, x, i, h: b.output(x, f64, (M, K))),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(t, name):
    code, act = REFUSED[name]
    (x, _), (i, _), (h, _) = t.input(M, N), t.input(M, dtype=i32), t.input(M, N, dtype=f16)
    with pytest.raises(BuildError) as caught:
        act(t, t.b, x, i, h)
    assert caught.value.code == code
    assert caught.value.message


def test_both_sizes_are_named(t):
    (x, _), (y, _) = t.input(M, N), t.input(M, K)
    with pytest.raises(BuildError, match=r"N.*K"):
        t.b.elementwise("add", x, y)


def test_facts_prove_what_sizes_cannot(t):
    known = Bench(facts=(N.le(K),))
    x, _ = known.input(M, K)
    y = known.b.slice(x, [None, (0, N, 1)])
    assert y.shape[1] is N
    assert not known.b.requires
