"""Views letter by letter: which position each movement reads, what it asks of the sizes, and what it refuses; slices against Python's for every small case."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_bench import Bench, K, M, N, asked, index, movement_only, shape
from luminal.ir.build import Builder, BuildError, Tensor
from luminal.ir.dtypes import bool_, f32, f64, i32
from luminal.ir.evaluate import evaluate
from luminal.ir.expr import ONE, ZERO, const
from luminal.ir.graph import Size
from luminal.ir.scope import MAX_RANK


@pytest.fixture
def t() -> Bench:
    return Bench()


# ---- slices, against Python's


EDGES = (None, -6, -4, -2, -1, 0, 1, 2, 4, 7)


@pytest.mark.parametrize("step", [None, -5, -2, -1, 1, 2, 5])
@pytest.mark.parametrize("symbolic", [False, True])
def test_every_slice_is_pythons(step: int | None, symbolic: bool) -> None:
    b = Bench().b
    b.sizes["N"] = Size("N")
    for extent, start, stop in itertools.product((0, 1, 3, 4), EDGES, EDGES):
        low, count, stride = b.limits((start, stop, step), N if symbolic else const(extent))
        at = {"N": extent}
        found = [evaluate(low, at) + k * stride for k in range(evaluate(count, at))]
        assert found == list(range(*slice(start, stop, step).indices(extent))), (extent, start, stop, step)
    assert b.requires == []


def test_a_step_may_be_an_expression(t: Bench) -> None:
    assert t.b.limits((1, None, const(2)), const(6)) == (ONE, const(3), 2)
    assert t.b.limits((None, None, const(-1)), N)[2] == -1
    with pytest.raises(BuildError, match="not a literal") as caught:
        t.b.limits((None, None, K), N)
    assert caught.value.code == "E0320"


def test_positions(t: Bench) -> None:
    assert t.b.limits(None, N) == (ZERO, N, 1)
    assert t.b.limits(2, const(3)) == (const(2), ONE, 0)
    assert t.b.limits(-3, const(3)) == (ZERO, ONE, 0)
    assert t.b.limits(-1, N)[0] is N - 1
    assert asked(t) == ["1 <= N"]
    for outside in (3, -4):
        with pytest.raises(BuildError) as caught:
            t.b.limits(outside, const(3))
        assert caught.value.code == "E0319"


def test_what_a_symbolic_position_asks(t: Bench) -> None:
    assert t.b.limits(K - N, M)[0] is t.b.tidy(K - N)
    assert asked(t) == ["N <= K", "K < M + N"]
    other = Bench()
    low, count, step = other.b.limits((N - 2, N, 1), N)
    assert (str(low), str(count), step) == ("N - 2", "2", 1) and asked(other) == ["2 <= N"]


def test_missing_ranges_are_whole_axes(t: Bench) -> None:
    x, a = t.input(M, N, K)
    y = t.b.slice(x, [-1])
    assert index(y) == ["M - 1", "$0", "$1"] and shape(y) == ["N", "K"]
    t.check(y, a[-1])
    z = t.b.slice(x, [None, (1, None, 2), 0])
    assert index(z) == ["$0", "$1 * 2 + 1", "0"] and shape(z)[0] == "M"
    t.check(z, a[:, 1::2, 0])
    with pytest.raises(BuildError) as caught:
        t.b.slice(x, [0, 0, 0, 0])
    assert caught.value.code == "E0313"


# ---- the order and number of axes

MOVES: dict[str, tuple[Callable[[Builder, Tensor], Tensor], list[str], list[str], list[str]]] = {
    # what is done to f64[M, N, K]: the positions read, the shape, the preconditions
    "transpose": (lambda b, x: b.transpose(x, (1, 2, 0)), ["$2", "$0", "$1"], ["N", "K", "M"], []),
    "transpose from the end": (lambda b, x: b.transpose(x, (-1, 0, -2)), ["$1", "$2", "$0"], ["K", "M", "N"], []),
    "reverse": (lambda b, x: b.transpose(x), ["$2", "$1", "$0"], ["K", "N", "M"], []),
    "unsqueeze one": (lambda b, x: b.unsqueeze(x, 1), ["$0", "$2", "$3"], ["M", "1", "N", "K"], []),
    "unsqueeze last": (lambda b, x: b.unsqueeze(x, -1), ["$0", "$1", "$2"], ["M", "N", "K", "1"], []),
    "unsqueeze two": (lambda b, x: b.unsqueeze(x, (0, -2)), ["$1", "$2", "$4"], ["1", "M", "N", "1", "K"], []),
    "flip one": (lambda b, x: b.flip(x, 1), ["$0", "-$1 + N - 1", "$2"], ["M", "N", "K"], []),
    "flip all": (lambda b, x: b.flip(x), ["-$0 + M - 1", "-$1 + N - 1", "-$2 + K - 1"], ["M", "N", "K"], []),
    "roll": (lambda b, x: b.roll(x, 1, 0), ["($0 - 1) % M", "$1", "$2"], ["M", "N", "K"], []),
    "roll by a size": (lambda b, x: b.roll(x, N, -1), ["$0", "$1", "($2 - N) % K"], ["M", "N", "K"], []),
    "roll by all": (lambda b, x: b.roll(x, M * 2, 0), ["$0", "$1", "$2"], ["M", "N", "K"], []),
    "tile": (lambda b, x: b.tile(x, (2, 1, M)), ["$0 % M", "$1", "$2 % K"], ["M * 2", "N", "K * M"], []),
    "tile to more axes": (lambda b, x: b.tile(x, (3, 1, 1, 1)), ["$1", "$2", "$3"], ["3", "M", "N", "K"], []),
    "tile fewer axes": (lambda b, x: b.tile(x, (2,)), ["$0", "$1", "$2 % K"], ["M", "N", "K * 2"], []),
    "tile by a difference": (lambda b, x: b.tile(x, (1, 1, N - M)), ["$0", "$1", "$2 % K"], ["M", "N", "-(K * M) + K * N"], ["M <= N"]),
    "unfold": (lambda b, x: b.unfold(x, 2, 3, 0), ["$0 * 3 + $3", "$1", "$2"], ["(M + 1) // 3", "N", "K", "2"], ["2 <= M"]),
    "unfold the last": (lambda b, x: b.unfold(x, N), ["$0", "$1", "$2 + $3"], ["M", "N", "K - N + 1", "N"], ["N <= K"]),
    "unfold by a size": (lambda b, x: b.unfold(x, 1, N, 0), ["$0 * N + $3", "$1", "$2"], ["(M - 1) // N + 1", "N", "K", "1"], ["1 <= M", "1 <= N"]),
    "window": (lambda b, x: b.window(x, 1, const(1), N - 1), ["$0", "$1 + 1", "$2"], ["M", "N - 1", "K"], []),
    "pad": (lambda b, x: b.pad(x, [(1, 0), (0, 2), (0, 0)]), ["$0 - 1", "$1", "$2"], ["M + 1", "N + 2", "K"], []),
    "pad by a size": (lambda b, x: b.pad(x, [(N - 1, 0), (0, M - N), (0, 0)]), ["$0 - N + 1", "$1", "$2"], ["M + N - 1", "M", "K"], ["1 <= N", "N <= M"]),
    "triu": (lambda b, x: b.triu(x, 1), ["$0", "$1", "$2"], ["M", "N", "K"], []),
    "reshape flat": (lambda b, x: b.reshape(x, (-1,)), ["$0 // (K * N)", "$0 // K % N", "$0 % K"], ["K * M * N"], []),
    "reshape two": (lambda b, x: b.reshape(x, (M * N, K)), ["$0 // N", "$0 % N", "$1"], ["M * N", "K"], []),
    "reshape apart": (lambda b, x: b.reshape(b.reshape(x, (-1, K)), (M, N, K)), ["$0", "$1", "$2"], ["M", "N", "K"], []),
    "reshape with ones": (lambda b, x: b.reshape(x, (1, M, 1, N, K, 1)), ["$1", "$3", "$4"], ["1", "M", "1", "N", "K", "1"], []),
    "reshape -1 in front": (lambda b, x: b.reshape(x, (-1, N, K)), ["$0", "$1", "$2"], ["M", "N", "K"], []),
    "reshape crosswise": (lambda b, x: b.reshape(x, (N * K, M)), ["($0 * M + $1) // (K * N)", "($0 * M + $1) // K % N", "($0 * M + $1) % K"], ["K * N", "M"], []),
    "reshape by a number": (lambda b, x: b.reshape(x, (M, N, -1, 5)), ["$0", "$1", "$2 * 5 + $3"], ["M", "N", "K // 5", "5"], ["K % 5 == 0"]),
    "reshape by a quotient": (lambda b, x: b.reshape(x, (M // 3, 3, N, K)), ["$0 * 3 + $1", "$2", "$3"], ["M // 3", "3", "N", "K"], ["M % 3 == 0"]),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_move(t: Bench, name: str) -> None:
    build, positions, extents, requires = MOVES[name]
    x, _ = t.input(M, N, K)
    y = build(t.b, x)
    assert movement_only(y)
    assert (index(y), shape(y), asked(t)) == (positions, extents, requires)


def test_squeeze(t: Bench) -> None:
    x, a = t.input(1, N, 1, M)
    for axes, at in ((None, (0, 2)), (0, (0,)), (-2, (2,)), ((0, 2), (0, 2)), ((), ())):
        y = t.b.squeeze(x, axes)
        assert movement_only(y)
        t.check(y, a.squeeze(at))
    assert index(t.b.squeeze(x)) == ["0", "$0", "0", "$1"]
    with pytest.raises(BuildError, match="axis 3 has extent M") as caught:
        t.b.squeeze(x, (0, 3))
    assert caught.value.code == "E0317"


def test_a_slice_of_a_slice_reads_one_sum(t: Bench) -> None:
    x, a = t.input(M, N, K)
    y = t.b.slice(t.b.slice(x, [None, (1, None, 1), (None, None, 2)]), [None, (None, None, -1), (1, None, 1)])
    assert index(y) == ["$0", "-$1 + N - 1", "$2 * 2 + 2"]
    t.check(y, a[:, 1:, ::2][:, ::-1, 1:])


# ---- masks and fills


def test_what_a_padding_masks(t: Bench) -> None:
    x, a = t.input(M, N)
    y = t.b.pad(x, [(2, 0), (0, 1)], 3)
    assert (str(y.view.domain), y.view.fill) == ("2 <= $0 & $1 < N", 3.0)
    t.check(y, np.pad(a, [(2, 0), (0, 1)], constant_values=3))
    z = t.b.pad(y, [(1, 0), (0, 0)], 3)
    assert (str(z.view.domain), z.view.fill) == ("3 <= $0 & $1 < N", 3.0) and movement_only(z), "an equal fill is one mask"
    other = t.b.pad(y, [(1, 0), (0, 0)], -1)
    assert not movement_only(other)
    t.check(other, np.pad(np.pad(a, [(2, 0), (0, 1)], constant_values=3), [(1, 0), (0, 0)], constant_values=-1))
    moved = t.b.transpose(y)
    assert movement_only(moved) and moved.view.fill == 3.0
    t.check(moved, np.pad(a, [(2, 0), (0, 1)], constant_values=3).T)
    nothing = t.b.pad(y, [(0, 0), (0, 0)], -1)
    assert movement_only(nothing) and nothing.view.fill == 3.0, "no padding, no second fill"
    assert t.b.pad(x, [(0, 0), (0, 0)]).view.is_identity


def test_a_piece_inside_a_padding_has_no_mask(t: Bench) -> None:
    x, a = t.input(M, N)
    y = t.b.slice(t.b.pad(x, [(2, 1), (0, 3)]), [(2, M + 2, 1), (0, N, 1)])
    assert y.view.is_identity and y.shape == (M, N)
    cut = t.b.slice(t.b.pad(x, [(2, 1), (0, 3)]), [(1, M + 2, 1), (0, N, 1)])
    assert str(cut.view.domain) == "1 <= $0"
    t.check(cut, np.pad(a, [(1, 0), (0, 0)]))


FILLS: list[tuple[Any, Any]] = [(None, 0.0), (2, 2.0), (-0.5, -0.5), (float("-inf"), float("-inf"))]


@pytest.mark.parametrize(("given", "fill"), FILLS)
def test_fills(t: Bench, given: Any, fill: float) -> None:
    x, a = t.input(M)
    y = t.b.pad(x, [(1, 1)], given)
    assert y.view.fill == fill and type(y.view.fill) is float
    t.check(y, np.pad(a, 1, constant_values=fill))


def test_fills_of_other_dtypes(t: Bench) -> None:
    (i, a), (h, _), (c, b) = t.input(M, dtype=i32), t.input(M, dtype=f32), t.input(M, dtype=bool_, high=2)
    y = t.b.pad(i, [(1, 0)], 7)
    assert y.view.fill == 7 and type(y.view.fill) is int
    t.check(y, np.pad(a, [(1, 0)], constant_values=7), exact=True)
    assert t.b.pad(c, [(1, 0)]).view.fill is False
    t.check(t.b.pad(c, [(1, 0)], True), np.pad(b, [(1, 0)], constant_values=True), exact=True)
    assert t.b.pad(h, [(1, 0)], t.b.constant(2.0, f32)).view.fill == 2.0
    weak = t.b.pad(t.b.iota(N), [(1, 0)], 5)
    assert weak.weak == "int"
    t.check(weak, [5, 0, 1, 2, 3], exact=True)
    for code, x, value in (
        ("E0302", i, 0.5),
        ("E0301", h, t.b.constant(2.0, f64)),
        ("E0320", h, h),
        ("E0320", h, t.b.pad(t.b.ones((2,), f32), [(1, 0)])),
        ("E0320", h, t.b.ones((2,), f32)),
        ("E0301", t.b.iota(N), t.b.constant(2, i32)),
    ):
        with pytest.raises(BuildError) as caught:
            t.b.pad(x, [(1, 0)], value)
        assert caught.value.code == code, (x, value)


@pytest.mark.parametrize("k", [-5, -1, 0, 2, 6])
def test_triangles(t: Bench, k: int) -> None:
    x, a = t.input(2, M, N)
    t.check(t.b.triu(x, k), np.triu(a, k))
    t.check(t.b.tril(x, k), np.tril(a, k))
    y, c = t.input(M, M)
    t.check(t.b.triu(y), np.triu(c))
    t.check(t.b.tril(y), np.tril(c))
    assert str(t.b.triu(y, 1).view.domain) == "$0 < $1" and str(t.b.tril(y).view.domain) == "$1 <= $0"


# ---- joining and splitting


def test_concat_is_a_chain_of_masks(t: Bench) -> None:
    (x, a), (y, b), (z, c) = t.input(2, M), t.input(2, N), t.input(2, K)
    joined = t.b.concat([x, y, z], 1)
    assert shape(joined) == ["2", "K + M + N"]
    t.check(joined, np.concatenate([a, b, c], 1))
    assert joined.view.node.op == "where"
    first, rest = joined.view.node.args[1:]
    assert str(first.domain) == "$1 < M" and rest.node.op == "where"
    second, third = rest.node.args[1:]
    assert (str(second.domain), [str(e) for e in second.index]) == ("M <= $1 & $1 < M + N", ["$0", "$1 - M"])
    assert (str(third.domain), [str(e) for e in third.index]) == ("M + N <= $1", ["$0", "$1 - M - N"])
    alone = t.b.concat([x], -1)
    assert alone.view.is_identity and alone.shape == x.shape
    stacked = t.b.stack([x, x], 1)
    assert shape(stacked) == ["2", "2", "M"]
    t.check(stacked, np.stack([a, a], 1))
    t.check(t.b.stack([x]), np.stack([a]))


def test_pieces(t: Bench) -> None:
    x, a = t.input(M, N + K)
    left, right = t.b.split(x, [N, K], 1)
    assert (index(left), shape(left)) == (["$0", "$1"], ["M", "N"]) and (index(right), shape(right)) == (["$0", "$1 + N"], ["M", "K"])
    assert asked(t) == []
    front, rest, last = t.b.split(x, [1, -1, K], -1)
    assert (shape(rest)[1], index(rest)[1], index(last)[1]) == ("N - 1", "$1 + 1", "$1 + N") and asked(t) == ["1 <= N"]
    for got, want in zip((front, rest, last), np.split(a, [1, 4], 1), strict=True):
        t.check(got, want)
    (whole,) = t.b.split(x, [-1])
    assert whole.view.is_identity


# ---- reshape


@pytest.mark.parametrize("seed", range(40))
def test_reshapes_of_literals(seed: int) -> None:
    """From any shape to any other with as many elements."""
    r = random.Random(seed)
    print("seed", seed)
    old = [r.choice((1, 2, 3, 4, 6)) for _ in range(r.randint(0, 4))]
    left, new = int(np.prod(old)), list[int]()
    while left > 1 or r.random() < 0.3:
        new.append(r.choice([d for d in range(1, left + 1) if left % d == 0]))
        left //= new[-1]
    wanted = list(new)
    if new and r.random() < 0.5:
        wanted[r.randrange(len(new))] = -1
    t = Bench({})
    x, a = t.input(*old)
    y = t.b.reshape(x, wanted)
    assert movement_only(y) and asked(t) == []
    t.check(y, a.reshape(new))


def test_groups_are_as_small_as_can_be(t: Bench) -> None:
    for old, new, groups in (
        ((M, N), (M, N), [([0], [0]), ([1], [1])]),
        ((M, N), (M * N,), [([0, 1], [0])]),
        ((M * N, K), (M, N, K), [([0], [0, 1]), ([1], [2])]),
        ((M, const(6), K), (M, const(2), const(3), K), [([0], [0]), ([1], [1, 2]), ([2], [3])]),
        ((M, N, K), (M, K, N), [([0], [0]), ([1, 2], [1, 2])]),
        ((const(4), const(6)), (const(8), const(3)), [([0, 1], [0, 1])]),
        ((ONE, M), (M,), [([0], []), ([1], [0])]),
        ((M,), (M, ONE), [([0], [0]), ([], [1])]),
        ((M, ONE), (M,), [([0], [0]), ([1], [])]),
        ((), (), []),
    ):
        assert t.b.groups(old, new) == groups, (old, new)


def test_what_a_reshape_asks(t: Bench) -> None:
    x, a = t.input(M, N - M, K)
    assert asked(t) == []
    t.check(t.b.reshape(x, ((N - M) * M, K)), a.reshape(-1, 5))
    assert asked(t) == ["M * M <= M * N"], "an extent may be negative, the element counts are the same"
    y = t.b.reshape(x, (-1, N - M))
    assert shape(y) == ["K * M", "-M + N"] and asked(t)[:1] == ["M * M <= M * N"], "what is in both shapes is taken out first"
    other = Bench({"M": 3, "N": 4, "K": 6})
    z, c = other.input(M, K)
    w = other.b.reshape(z, (N // 2, -1))
    assert asked(other) == ["2 <= N", "K * M % (N // 2) == 0"]
    other.check(w, c.reshape(2, -1))
    third = Bench({"M": 3, "N": 4, "K": 6})
    z, c = third.input(M, K)
    third.check(third.b.reshape(z, (N - 2, -1)), c.reshape(2, -1))
    assert asked(third) == ["3 <= N", "K * M % (N - 2) == 0"]


def test_a_half_and_the_other_half(t: Bench) -> None:
    """Of a size that is known to be even; else the note says what is missing."""
    half = N // 2
    with pytest.raises(BuildError) as caught:
        t.b.check_same(half, N - half, "the halves")
    assert caught.value.notes == ("help: they are equal where N % 2 = 0: a port says so by `(where N % 2 = 0)` behind its sizes",)
    with pytest.raises(BuildError) as caught:
        t.b.check_same(half, M, "two sizes")
    assert caught.value.notes == ()
    t.b.require((N % 2).eq(0), "E0204", "even")
    t.b.check_same(half, N - half, "the halves")


# ---- what is refused

REFUSED: dict[str, tuple[str, str, Callable[[Builder, Tensor, Tensor], Any]]] = {
    # the code, a part of the message, what is done to f64[M, N] and i32[M]
    "transpose twice": ("E0314", "not a permutation", lambda b, x, i: b.transpose(x, (1, 1))),
    "transpose fewer": ("E0314", "not a permutation", lambda b, x, i: b.transpose(x, (0,))),
    "transpose beyond": ("E0312", "no axis 2", lambda b, x, i: b.transpose(x, (0, 2))),
    "unsqueeze beyond": ("E0312", "no axis 3", lambda b, x, i: b.unsqueeze(x, 3)),
    "step 0": ("E0317", "step of a slice is 0", lambda b, x, i: b.slice(x, [(None, None, 0)])),
    "two rests": ("E0317", "only one piece", lambda b, x, i: b.split(x, [-1, -1])),
    "pieces that do not add up": ("E0311", "the pieces of a split", lambda b, x, i: b.split(x, [1, N], 1)),
    "a negative piece": ("E0317", "a piece of extent -2", lambda b, x, i: b.split(x, [-2, M + 2])),
    "tile a negative number of times": ("E0317", "a tile count of -1", lambda b, x, i: b.tile(x, (-1,))),
    "a window that is too long": ("E0317", "a window of 4", lambda b, x, i: b.unfold(b.ones((3,)), 4)),
    "a window of negative length": ("E0317", "a window of -1", lambda b, x, i: b.unfold(x, -1)),
    "windows 0 apart": ("E0317", "a step of 0", lambda b, x, i: b.unfold(x, 1, 0)),
    "pad too few": ("E0313", "1 pairs of widths", lambda b, x, i: b.pad(x, [(0, 0)])),
    "pad before": ("E0317", "negative padding -1 on axis 1", lambda b, x, i: b.pad(x, [(0, 0), (-1, 0)])),
    "pad after": ("E0317", "negative padding -1 on axis 0", lambda b, x, i: b.pad(x, [(0, -1), (0, 0)])),
    "a triangle of one axis": ("E0313", "need two axes", lambda b, x, i: b.tril(i)),
    "concat of nothing": ("E0317", "concat of nothing", lambda b, x, i: b.concat([])),
    "stack of nothing": ("E0317", "stack of nothing", lambda b, x, i: b.stack([])),
    "concat of ranks": ("E0313", "the ranks differ", lambda b, x, i: b.concat([x, b.unsqueeze(x, 0)])),
    "concat of sizes": ("E0311", "axis 1 of the operands", lambda b, x, i: b.concat([x, b.transpose(x)])),
    "two open extents": ("E0315", "only one extent may be -1", lambda b, x, i: b.reshape(x, (-1, -1))),
    "an extent of 0 beside -1": ("E0315", "an extent is 0", lambda b, x, i: b.reshape(x, (0, -1))),
    "a negative extent beside -1": ("E0315", "may be negative", lambda b, x, i: b.reshape(x, (-2, -1))),
    "a negative extent": ("E0315", "an extent is negative", lambda b, x, i: b.reshape(b.ones((6,)), (-2, -3))),
    "what does not divide": ("E0315", "do not divide", lambda b, x, i: b.reshape(b.ones((6,)), (4, -1))),
    "other elements": ("E0315", "not provably equal", lambda b, x, i: b.reshape(x, (M, N + 1))),
    "a quotient that is no part": ("E0315", "not provably equal", lambda b, x, i: b.reshape(x, (N // 2, 2, K))),
    "a quotient by what may be 0": ("E0315", "not provably equal", lambda b, x, i: b.reshape(x, (M // K, K, N))),
    "too many axes": ("E0313", "65 axes", lambda b, x, i: b.reshape(x, (M, N, *[1] * (MAX_RANK - 1)))),
    "tiles of too many axes": ("E0313", "65 axes", lambda b, x, i: b.tile(x, [1] * (MAX_RANK + 1))),
    "a float literal as index": ("E0318", "an index of dtype", lambda b, x, i: b.gather(x, b.constant(1.0))),
    "a truth value as index": ("E0318", "an index of dtype bool", lambda b, x, i: b.gather(x, b.truth(i))),
    "too few indices": ("E0313", "1 indices for a tensor of rank 2", lambda b, x, i: b.gather_at(x, [i])),
    "take along another rank": ("E0313", "the index has rank 1", lambda b, x, i: b.take_along(x, i)),
    "scatter at too many": ("E0313", "3 indices", lambda b, x, i: b.scatter_at(x, [i, i, i], x)),
    "scatter with a word": ("E0317", "not with xor", lambda b, x, i: b.scatter(x, i, x, 0, "xor")),
    "scatter of another dtype": ("E0301", "base and updates", lambda b, x, i: b.scatter(x, i, b.cast(x, f32))),
    "update at too many": ("E0313", "3 positions", lambda b, x, i: b.update(x, [0, 0, 0], x)),
    "update with another shape": ("E0310", "do not broadcast", lambda b, x, i: b.update(x, [(0, 2, 1)], x)),
    "an update outside": ("E0319", "outside the axis", lambda b, x, i: b.update(x, [None, N], b.constant(1.0))),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(t: Bench, name: str) -> None:
    code, part, act = REFUSED[name]
    (x, _), (i, _) = t.input(M, N), t.input(M, dtype=i32)
    with pytest.raises(BuildError) as caught:
        act(t.b, x, i)
    assert caught.value.code == code and part in caught.value.message, caught.value.message


def test_as_many_axes_as_are_allowed(t: Bench) -> None:
    x, _ = t.input(M, N)
    assert t.b.reshape(x, (M, N, *[1] * (MAX_RANK - 2))).rank == MAX_RANK == t.b.tile(x, [1] * MAX_RANK).rank
