"""The test of emptiness against counting: systems of small integers, solved by trying all of a box."""

from __future__ import annotations

import random
from itertools import product

from luminal.ir import polynomial as pl
from luminal.ir.expr import Expr, var
from luminal.passes.emptiness import is_empty

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
