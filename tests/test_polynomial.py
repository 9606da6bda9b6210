"""Polynomials over atoms: each function against evaluation at random points, and the canonical forms letter by letter."""

from __future__ import annotations

import random
from functools import reduce

import pytest
from luminal.ir import polynomial as pl
from luminal.ir.dtypes import INDEX, i32
from luminal.ir.expr import ZERO, Expr, axis, call, const, load, size, var
from luminal.ir.polynomial import MOST_FACTORS, MOST_TERMS, Poly

x, y, z = var("x"), var("y"), var("z")
N = size("N")
ATOMS = (x, y, z)


def drawn(r: random.Random, terms: int = 4) -> Poly:
    p: Poly = {}
    for _ in range(r.randint(0, terms)):
        m = tuple(sorted(r.choices(ATOMS, k=r.randint(0, 3)), key=pl.key))
        p = pl.plus(p, {m: r.choice((-6, -4, -2, -1, 1, 2, 3, 4, 8))})
    return p


def value(p: Poly, at: dict[Expr, int]) -> int:
    total = 0
    for m, c in p.items():
        for a in m:
            c *= at[a]
        total += c
    return total


def well_formed(p: Poly) -> bool:
    return all(c != 0 and list(m) == sorted(m, key=pl.key) for m, c in p.items())


@pytest.mark.parametrize("seed", range(20))
def test_the_ring(seed: int) -> None:
    r = random.Random(seed)
    a, b, c = drawn(r), drawn(r), drawn(r)
    at = {v: r.randint(-9, 9) for v in ATOMS}
    u, v = value(a, at), value(b, at)
    k = r.randint(-3, 3)
    for got, want in (
        (pl.plus(a, b), u + v),
        (pl.plus(a, b, k), u + k * v),
        (pl.scaled(a, k), k * u),
        (pl.shifted(a, k), u + k),
        (pl.composed(a, {x: pl.expr(b), y: y, z: z}), value(a, at | {x: v})),
        (pl.times(a, b), u * v),
        (pl.times(pl.plus(a, b), pl.plus(a, b, -1)), u * u - v * v),
        (pl.combined("add", [a, b]), u + v),
        (pl.combined("sub", [a, b]), u - v),
        (pl.combined("mul", [a, b]), u * v),
        (pl.combined("neg", [a]), -u),
    ):
        assert got is not None and well_formed(got) and value(got, at) == want
        assert pl.poly(pl.expr(got)) == got, "an expression is read as what it was written from"
        assert pl.expr(pl.poly(pl.expr(got))) is pl.expr(got)
        assert pl.expr(got).canonical == (pl.expr(got).op in ("add", "mul")), "only what is written so need not be written again"
    assert pl.plus(a, a, -1) == {} and pl.is_constant(pl.plus(a, a, -1))
    assert pl.times(a, pl.plus(b, c)) == pl.plus(pl.times(a, b), pl.times(a, c))


@pytest.mark.parametrize("seed", range(40))
def test_long_division(seed: int) -> None:
    r = random.Random(100 + seed)
    d = drawn(r, 3) or {(x,): 2}
    q = drawn(r)
    p = pl.plus(pl.times(q, d), drawn(r, 2))
    got, rest = pl.divided(p, d)
    assert well_formed(got) and well_formed(rest)
    assert pl.plus(pl.times(got, d), rest) == p
    lead = min(d, key=pl.order)
    for m, c in rest.items():
        over = pl.without(m, lead)
        assert over is None or c % d[lead] or (pl.is_constant(d) and not m), (d, rest)
    if pl.is_constant(d) and d[()] > 0:
        assert 0 <= rest.get((), 0) < d[()]
    assert pl.divided(pl.times(q, d), d) == (q, {}), "what is a multiple is divided without a rest"


@pytest.mark.parametrize(
    ("p", "d", "q", "r"),
    [
        ({(x,): 4, (): 7}, {(): 4}, {(x,): 1, (): 1}, {(): 3}),
        ({(x,): 4, (): -1}, {(): 4}, {(x,): 1, (): -1}, {(): 3}),
        ({(x,): 6}, {(): 4}, {}, {(x,): 6}),
        ({(): 3}, {(): 4}, {}, {(): 3}),
        ({(): 4}, {(): 4}, {(): 1}, {}),
        ({(x, y): 3, (x,): 3, (y,): 1}, {(x,): 3}, {(y,): 1, (): 1}, {(y,): 1}),
        ({(x, x): 1, (): -1}, {(x,): 1, (): -1}, {(x,): 1, (): 1}, {}),
        ({(x,): 1}, {(x, x): 1}, {}, {(x,): 1}),
    ],
    ids=repr,
)
def test_division_by_hand(p: Poly, d: Poly, q: Poly, r: Poly) -> None:
    assert pl.divided(p, d) == (q, r)


def test_products_that_grow_too_long_are_kept() -> None:
    """At most MOST_TERMS terms, unless one factor is a single term, and at most MOST_FACTORS atoms in one."""

    def sum_of(count: int, letter: str) -> Poly:
        return {(var(f"{letter}{k}"),): 1 for k in range(count)}

    def power(count: int) -> Poly:
        return {(x,) * count: 1}

    assert len(pl.combined("mul", [sum_of(8, "a"), sum_of(8, "b")]) or ()) == MOST_TERMS
    assert pl.combined("mul", [sum_of(5, "a"), sum_of(13, "b")]) is None
    assert pl.combined("mul", [sum_of(2, "a"), sum_of(33, "b")]) is None
    assert len(pl.combined("mul", [sum_of(1, "a"), sum_of(90, "b")]) or ()) == 90
    assert pl.combined("mul", [{}, sum_of(90, "b")]) == {}
    assert pl.combined("mul", [power(8), power(8)]) == power(MOST_FACTORS)
    assert pl.combined("mul", [power(9), power(8)]) is None
    assert pl.combined("mul", [power(MOST_FACTORS), {}]) == {}
    assert pl.combined("mul", [{**power(3), (): 1}, power(14)]) is None, "its longest term counts"
    assert pl.combined("add", [sum_of(60, "a"), sum_of(60, "b")]) is not None

    wide = reduce(lambda a, b: a + b, (var(f"a{k}") for k in range(9)))
    tall = reduce(lambda a, b: a + b, (var(f"b{k}") for k in range(9)))
    product = wide * tall
    assert pl.poly(product) == {(product,): 1}
    assert pl.poly(product + wide * 2 - product - wide) == pl.poly(wide), "what is kept is an atom like any other"
    assert product.poly is None, "a polynomial that refers to its own expression would keep it alive"
    assert (wide + x).poly is None and pl.poly(wide + x) is pl.poly(wide + x), "remembered where it does not"


def test_reading() -> None:
    assert pl.poly(ZERO) == {} and pl.poly(const(3)) == {(): 3} and pl.poly(x) == {(x,): 1}
    assert pl.poly(x * 2 + y * x - x - 3) == {(x,): 1, (x, y): 1, (): -3}
    assert pl.poly(call("neg", call("sub", x, y))) == {(x,): -1, (y,): 1}
    quotient = (x + y) // 2
    assert pl.poly(quotient * 2 + 1) == {(quotient,): 2, (): 1}
    shared = x + 1
    for _ in range(5):
        shared = shared + shared
    assert pl.poly(shared) == {(x,): 32, (): 32}


def test_other_spellings_are_not_taken_for_canonical() -> None:
    from luminal.ir.simplify import simplify

    for e in (call("add", call("mul", const(3), y), x), call("add", const(2), call("mul", y, x)), call("sub", call("add", y, x), y)):
        assert not e.canonical
        assert simplify(e) is pl.expr(pl.poly(e)) and not e.canonical


def test_composed() -> None:
    p = pl.poly(x * y + z * 3 + 2)
    assert pl.composed(p, {x: x, y: y, z: z}) is p
    assert pl.composed(p, {x: y + 1, y: y, z: const(-1)}) == pl.poly(y * y + y - 1)
    assert pl.composed(p, {x: x, y: y, z: ZERO}) == pl.poly(x * y + 2)
    wide = reduce(lambda a, b: a + b, (var(f"a{k}") for k in range(9)))
    assert pl.composed(p, {x: wide, y: wide, z: z}) is None


def test_questions() -> None:
    p = {(x, x): 4, (x, y): -6, (z,): 2, (): 3}
    assert pl.content(p) == 2 and pl.content({(): 6}) == 0 and pl.content({}) == 0 and pl.content({(x,): -4}) == 4
    assert pl.atoms(p) == [x, y, z] and pl.atoms({(): 1}) == []
    assert [pl.degree(p, a) for a in (x, y, z, N)] == [2, 1, 1, 0] and pl.degree({}, x) == 0
    assert [pl.is_constant(q) for q in ({}, {(): 2}, {(x,): 2}, {(x,): 2, (): 1})] == [True, True, False, False]
    assert pl.constant(0) == {} and pl.constant(-2) == {(): -2} and pl.atom(x) == {(x,): 1}
    assert (
        pl.without((x, x, y), (x,)) == (x, y)
        and pl.without((x,), (x, x)) is None
        and pl.without((x, y), ()) == (x, y)
        and pl.without((), (x,)) is None
    )
    q = {(x, y): 5, (y,): 2, (x,): 1, (): 7}
    assert pl.coefficient(q, x) == ({(y,): 5, (): 1}, {(y,): 2, (): 7})
    assert pl.coefficient(q, z) == ({}, q)


def test_what_says_the_same_of_integers() -> None:
    """Quotients that stand alone, and what divides all terms but the number."""
    quotient = {(x // const(4),): 1, (y,): -2, (): -1}  # x // 4 >= 2·y + 1
    assert pl.undivided(quotient) == {(x,): 1, (y,): -8, (): -4}
    below = {(x // const(4),): -1, (y,): 1}  # x // 4 <= y
    assert pl.undivided(below) == {(x,): -1, (y,): 4, (): 3}
    assert pl.undivided(pl.poly(x // const(4) // const(2) - 1)) == pl.poly(x - 8), "one inside the other"
    for p in (pl.poly(x - 1), {(x // const(4),): 2, (): -1}, pl.poly(x // y), pl.poly(call("floordiv", x, const(-4))), {}):
        assert pl.undivided(p) is p
    assert pl.tightened({(x,): 4, (y,): -6, (): 5}) == {(x,): 2, (y,): -3, (): 2}
    assert pl.tightened({(x,): 2, (): 1}) == {(x,): 1} and pl.tightened({(x,): 2, (): -1}) == {(x,): 1, (): -1}
    assert pl.tightened(quotient) is quotient and pl.tightened({(): 3}) == {(): 3}
    for a in range(-9, 10):
        for b in range(-3, 4):
            at = {x: a, y: b, x // const(4): a // 4}
            assert all((value(p, at) >= 0) == (value(pl.undivided(p), at) >= 0) for p in (quotient, below))


def test_names() -> None:
    assert [pl.name(e) for e in (x, N, axis(2), const(1), x // 2, load("x", INDEX, ZERO))] == ["x", "N", "$2", "", "", ""]


def test_keys_tell_apart_and_stay_short() -> None:
    deep: Expr = x
    seen: set[str] = set()
    for k in range(400):
        deep = call("mod", call("floordiv", deep, const(k + 2)), y)
        seen.add(pl.key(deep))
        assert len(pl.key(deep)) < 256
    assert len(seen) == 400
    others = (x, var("x", i32), size("x"), const(1), axis(1), x // 2, x // 3, x % 2, load("A", INDEX, x), load("B", INDEX, x), load("A", i32, x))
    assert len({pl.key(e) for e in others}) == len(others)
    assert pl.key(x // 2) == "floordiv.i64:None(var.i64:x,const.i64:2)"


@pytest.mark.parametrize(
    ("p", "text"),
    [
        ({}, "0"),
        ({(): -4}, "-4"),
        ({(x,): 1}, "x"),
        ({(x,): -1}, "-x"),
        ({(): 1, (x,): 2}, "x * 2 + 1"),
        ({(y,): 1, (x,): 1}, "x + y"),
        ({(x,): 1, (x, y): 1, (): -1, (y, y, y): 3}, "y * y * y * 3 + x * y + x - 1"),
        ({(x, z): 1, (x, y): 1}, "x * y + x * z"),
    ],
    ids=str,
)
def test_written(p: Poly, text: str) -> None:
    assert str(pl.expr(p)) == text
