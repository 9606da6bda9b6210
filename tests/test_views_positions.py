"""Positions held in tensors, and partial writes: which are views, which are checked at run time, and what they give."""

from __future__ import annotations

import numpy as np
import pytest
from graph_bench import Bench, K, M, N, index, movement_only, shape
from luminal.ir.dtypes import INDEX, i32
from luminal.ir.expr import axis


@pytest.fixture
def t() -> Bench:
    return Bench()


def test_a_gather_at_plain_positions_inside_is_a_view(t: Bench) -> None:
    x, a = t.input(M, N)
    b = t.b
    back = b.elementwise("sub", b.integer(N - 1), b.iota(N))
    y = b.gather(x, back, 1)
    assert movement_only(y) and index(y) == ["$0", "-$1 + N - 1"] and shape(y) == ["M", "N"]
    t.check(y, a[:, ::-1])
    for beyond in (b.elementwise("add", b.iota(N), b.constant(1)), b.elementwise("sub", b.iota(N), b.constant(1))):
        assert b.gather(x, beyond, 1).view.node.op == "gather", "a position that may be outside is checked at run time"
    assert not b.inside(axis(0), N, (N + 1,)) and b.inside(axis(0), N, (N,)) and not b.inside(axis(0) - 1, N, (N,))
    scalar, c = t.input()
    t.check(b.gather_at(scalar, []), c)


def test_positions_of_a_gather_along_an_axis(t: Bench) -> None:
    x, a = t.input(M, N, K)
    i, p = t.input(2, 3, dtype=i32, array=[[0, 2, 1], [2, 2, 0]])
    for axis_ in (0, 1, 2, -1):
        y = t.b.gather(x, i, axis_)
        t.check(y, np.take(a, p, axis_))
        assert y.view.node.op == "gather"
    scalar, q = t.input(dtype=i32, array=2)
    t.check(t.b.gather(x, scalar, 1), np.take(a, q, 1))
    at = t.b.take_positions((M, N, K), i, 1)
    assert [shape(e) for e in at] == [["M", "2", "3", "K"]] * 3
    assert (str(at[0].integer), str(at[2].integer), index(at[1])) == ("$0", "$3", ["$1", "$2"])


def test_take_along_broadcasts_the_other_axes(t: Bench) -> None:
    x, a = t.input(M, 1, K)
    i, p = t.input(1, N, 2, dtype=i32, array=np.random.default_rng(0).integers(0, 5, (1, 4, 2)))
    y = t.b.take_along(x, i)
    assert shape(y) == ["M", "N", "2"]
    t.check(y, np.take_along_axis(np.broadcast_to(a, (3, 4, 5)), np.broadcast_to(p, (3, 4, 2)), -1))
    j, q = t.input(2, N, 1, dtype=i32, array=np.random.default_rng(2).integers(0, 3, (2, 4, 1)))
    t.check(t.b.take_along(x, j, 0), np.take_along_axis(np.broadcast_to(a, (3, 4, 5)), np.broadcast_to(q, (2, 4, 5)), 0))
    w, d = t.input(M, N, K)
    j, q = t.input(2, 1, K, dtype=i32, array=np.random.default_rng(3).integers(0, 3, (2, 1, 5)))
    t.check(t.b.take_along(w, j, 0), np.take_along_axis(d, np.broadcast_to(q, (2, 4, 5)), 0))
    z, c = t.input(M, N)
    j, q = t.input(2, N, dtype=i32, array=np.random.default_rng(1).integers(0, 3, (2, 4)))
    t.check(t.b.take_along(z, j, 0), np.take_along_axis(c, q, 0))


@pytest.mark.parametrize("axis_", [0, 1, -1])
def test_a_scatter_is_the_dual_of_a_gather(t: Bench, axis_: int) -> None:
    x, a = t.input(M, N)
    positions = np.array([[0, 2], [2, 1]])
    i, _ = t.input(2, 2, dtype=i32, array=positions)
    want = a.copy()
    u, v = t.input(*((2, 2, N) if axis_ == 0 else (M, 2, 2)))
    for j in np.ndindex(2, 2):
        if axis_ == 0:
            want[positions[j]] += v[j]
        else:
            want[:, positions[j]] += v[:, *j]
    t.check(t.b.scatter(x, i, u, axis_, "add"), want)
    one = t.b.scatter(x, i, t.b.constant(1), axis_, "add")
    count = np.bincount(positions.ravel(), minlength=x.shape[axis_].attr if x.shape[axis_].is_const else a.shape[axis_])
    t.check(one, a + (count[:, None] if axis_ == 0 else count))


def test_an_update_at_positions_steps_and_ends(t: Bench) -> None:
    x, a = t.input(3, 4, 5)
    for ranges, at in (
        ([(0, 2, 1), -1, (4, None, -2)], np.s_[0:2, -1, 4::-2]),
        ([None, None, None], np.s_[:, :, :]),
        ([], np.s_[:]),
        ([2, 3, 4], np.s_[2, 3, 4]),
        ([1, (None, None, 3)], np.s_[1, ::3]),
    ):
        want = a.copy()
        want[at] = 2.5
        y = t.b.update(x, ranges, t.b.constant(2.5))
        t.check(y, want)
        u, v = t.input(*a[at].shape)
        want[at] = v
        t.check(t.b.update(x, ranges, u), want)
    y = t.b.update(t.input(M, N, K)[0], [None, (1, None, 2), 3], t.b.constant(0.0))
    assert [str(e) for e in y.view.node.attr.at] == ["$0", "$1 * 2 + min(1, N)", "3"]


def test_axes_that_are_not_given(t: Bench) -> None:
    """The first one for what takes, puts and joins, the last one for what goes along."""
    (x, a), (u, v) = t.input(M, N), t.input(2, N)
    i, p = t.input(2, dtype=i32, array=[2, 0])
    t.check(t.b.gather(x, i), a[p])
    want = a.copy()
    want[p] = v
    t.check(t.b.scatter(x, i, u), want)
    diagonal = a.copy()
    diagonal[p, p] = 0.5
    t.check(t.b.scatter_at(x, [i, i], t.b.constant(0.5)), diagonal)
    j, q = t.input(M, 1, dtype=i32, array=[[3], [0], [1]])
    t.check(t.b.take_along(x, j), np.take_along_axis(a, q, -1))
    t.check(t.b.split(x, [1, -1])[1], a[1:])
    t.check(t.b.concat([x, u]), np.concatenate([a, v]))
    assert shape(t.b.unfold(x, 2)) == ["M", "N - 1", "2"]


def test_an_index_is_i64(t: Bench) -> None:
    i, _ = t.input(M, dtype=i32)
    assert t.b.index_tensor(i).dtype is INDEX and t.b.index_tensor(t.b.iota(N)).dtype is INDEX
