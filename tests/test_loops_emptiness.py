"""The test of emptiness against counting: systems of small integers, solved by trying all of a box; and what dependences make of it."""

from __future__ import annotations

import random
from itertools import pairwise, product

from luminal.ir import polynomial as pl
from luminal.ir.bounds import Known, Range
from luminal.ir.evaluate import evaluate
from luminal.ir.expr import Expr, ceildiv, const, floordiv, maximum, minimum, mod, size, var
from luminal.ir.graph import Size
from luminal.ir.simplify import prove_le
from luminal.passes.loops.dependence import Dependences
from luminal.passes.loops.domains import Trip, granted
from luminal.passes.loops.emptiness import is_empty
from luminal.passes.loops.loop_records import Read
from luminal.passes.loops.systems import System

NAMES = [var(n) for n in "xyz"]
BOX = range(-3, 4)


def system(rng: random.Random) -> tuple[list[pl.Poly], list[pl.Poly]]:
    def one() -> pl.Poly:
        terms = {(v,): rng.choice((-3, -2, -1, 0, 0, 1, 2)) for v in NAMES}
        return {m: c for m, c in {**terms, (): rng.randint(-6, 6)}.items() if c}

    bounds = [{(v,): way, (): 3} for v in NAMES for way in (1, -1)]
    return [one() for _ in range(rng.randint(0, 2))], [*bounds, *(one() for _ in range(rng.randint(0, 4)))]


def holds(p: pl.Poly, at: dict[Expr, int]) -> int:
    return sum(c * (at[m[0]] if m else 1) for m, c in p.items())


def test_against_trying() -> None:
    """What is called empty has no solution; of those with none, most are found out (the others have one in the rationals)."""
    found = there = 0
    for seed in range(600):
        equations, inequalities = system(random.Random(seed))
        solved = any(
            all(holds(p, at) == 0 for p in equations) and all(holds(p, at) >= 0 for p in inequalities)
            for point in product(BOX, repeat=3)
            for at in [dict(zip(NAMES, point, strict=True))]
        )
        empty = is_empty(equations, inequalities)
        assert not (solved and empty), f"seed {seed}: {equations} {inequalities}"
        assert empty is not None
        there += not solved
        found += empty and not solved
    assert there > 150 and found > 0.85 * there, (found, there)


def test_parity_and_contradictions() -> None:
    x, y = ((v,) for v in NAMES[:2])
    assert is_empty([{x: 2, y: -2, (): 1}], [])  # 2x + 1 = 2y
    assert is_empty([], [{x: 2, (): -1}, {x: -2, (): 1}])  # 2x = 1 as two inequalities
    assert is_empty([{(): 1}], [])
    assert is_empty([], []) is False


def test_unknowns_of_one_sign_are_no_work() -> None:
    """However many there are, and those that only they hold on to: x₀ ≤ x₁ ≤ … with nothing above the last."""
    many = [(var(f"x{k}"),) for k in range(130)]
    assert is_empty([], [{x: 1, (): -1} for x in many]) is False
    chain = [{b: 1, a: -1} for a, b in pairwise(many)]
    assert is_empty([], chain) is False
    assert is_empty([], [*chain, {many[0]: 1, many[1]: -1, (): -1}])  # x₀ > x₁


def test_operators_as_inequalities() -> None:
    """Quotients, remainders, least and greatest, and multiples, by a seed: what is called empty has no solution, and where the system is exact most of what has none is found out."""
    rng = random.Random(5)
    x, y, z = NAMES
    found = there = exact = 0
    for _ in range(1500):
        d, e = const(rng.randint(1, 4)), const(rng.randint(-3, 3))
        made = [floordiv(x + e, d), mod(y + e, d), minimum(x + e, y), maximum(y, z + e), floordiv(minimum(x, y) + e, d), x, y, z]
        multiple = rng.choice((1, 1, 2, 3))
        known = Known({"x": Range(-3, 3), "y": Range(-3, 3), "z": Range(-3, 3, multiple)})

        def one(made: list[Expr] = made) -> Expr:
            total = const(rng.randint(-4, 4))
            for e in rng.sample(made, 3):
                total = total + e * rng.choice((-2, -1, 1, 1))
            return total

        equal, least = [one() for _ in range(rng.randint(0, 1))], [one() for _ in range(rng.randint(1, 3))]
        points = [dict(zip("xyz", p, strict=True)) for p in product(BOX, repeat=3) if p[2] % multiple == 0]
        solved = any(all(evaluate(e, p) == 0 for e in equal) and all(evaluate(e, p) >= 0 for e in least) for p in points)
        system = System(known, list(map(pl.poly, equal)), list(map(pl.poly, least)))
        empty = is_empty(system.equal, system.least)
        assert not (solved and empty), (equal, least)
        exact += system.exact
        if system.exact and not solved:
            there += 1
            found += bool(empty)
    assert exact > 250 and there > 40 and found > 0.8 * there, (exact, there, found)


def test_blocks() -> None:
    """A position of one block of eight and one behind it in a later block, as an elimination has them: the blocks' ends are the lesser of two, their number is a quotient."""
    n = size("N")
    b, k, i = (Trip(var(name), count) for name, count in (("b", ceildiv(n, 8)), ("k", const(0)), ("i", const(0))))
    k = Trip(k.var, minimum(b.var * 8 + 8, n) - b.var * 8)
    i = Trip(i.var, n - b.var * 8 - k.var - 1)
    pairs = Dependences(Known({"N": Size("N")}))
    row = Read("U", 0, (b.var * 8 + k.var,), (b, k), None)
    below = Read("U", 0, (b.var * 8 + k.var + 1 + i.var,), (b, k, i), None)
    assert pairs.apart(row, below, 0)  # a row of an earlier block is above
    assert not pairs.apart(below, row, 0)  # what is below is a later block's row
    assert pairs.apart(row, below, 1) and not pairs.apart(below, row, 1)
    assert pairs.apart(row, below, 2)
    assert pairs.apart(row, row, 0) and pairs.apart(row, row, 1)
    assert not pairs.apart(below, below, 0)
    assert not pairs.meet(row, below) and pairs.meet(below, row) and not pairs.touch(row, below)


def test_what_is_seen_at_once_takes_no_proof() -> None:
    """Lanes of two loops that meet in the first iterations, though what a block holds is no linear bound; and a position that one loop alone moves."""
    n, m = size("N"), size("M")
    b = Trip(var("b"), ceildiv(m, 16))
    few = minimum(const(16), minimum(const(1), floordiv(const(255), maximum(n, 1))) * m - b.var * 16)
    lane, other, round_ = Trip(var("l"), few), Trip(var("w"), few), Trip(var("t"), var("%0"))
    pairs = Dependences(Known({"N": Size("N"), "M": Size("M")}))
    here, there = (Read("A", 0, (b.var, t.var), (b, round_, t), None) for t in (lane, other))
    assert pairs.touch(here, there) and pairs.touch(here, here)
    assert not pairs._domains  # nothing was made known for a proof
    again = Dependences(pairs.known)
    assert again.apart(here, here, 0) and again.apart(here, here, 2)
    assert not again._apart
    assert not again.apart(here, here, 1)  # the next round has the same lanes


def test_apart_against_trying() -> None:
    """Two positions in loops of few trips: those that are said to be apart never meet."""
    rng = random.Random(3)
    i, j = Trip(var("i"), const(3)), Trip(var("j"), const(4))
    told = 0
    for _ in range(300):
        first, second = (i.var * rng.choice((-2, 0, 1, 3)) + j.var * rng.choice((-1, 0, 1, 2)) + rng.randint(-2, 2) for _ in range(2))
        a, b = Read("A", 0, (first,), (i, j), None), Read("A", 0, (second,), (i, j), None)
        for level in range(3):
            points = [p for p in product(range(3), range(4), range(3), range(4)) if p[:level] == p[2 : 2 + level]]
            points = [p for p in points if level == 2 or p[level] < p[2 + level]]
            meet = any(evaluate(first, {"i": p[0], "j": p[1]}) == evaluate(second, {"i": p[2], "j": p[3]}) for p in points)
            apart = Dependences(Known({})).apart(a, b, level)
            assert not (apart and meet), (first, second, level)
            told += apart == (not meet)
    assert told > 850


def test_what_is_granted_is_below_both_ends_of_a_count() -> None:
    """And nothing is asked: knowledge of what stands inside loops is made for one question each."""
    n, m, i, j = size("N"), size("M"), var("i"), var("j")
    known = Known({"N": Size("N"), "M": Size("M")})
    inside = granted(known, (Trip(i, minimum(n, m)), Trip(j, floordiv(n, const(2)))))
    assert prove_le(i + 1, n, inside) and prove_le(i + 1, m, inside) and prove_le(j * 2 + 2, n, inside)
    assert not prove_le(i + 2, n, inside) and not known.assumed and not inside.assumed
