"""Which lanes a guard lets through: a piece of them, also where what it compares grows by more than 1 from lane to lane."""

from __future__ import annotations

import numpy as np
import pytest
from luminal.ir.expr import INDEX, ONE, ZERO, both, call, const, var
from luminal.ir.program import For
from luminal.ir.simplify import simplify
from luminal.ir.walks import substitute
from luminal.passes.lower.vectors.axis import Axis
from luminal.passes.lower.vectors.guards import guard

LANES = 8
J, A, B = var("j"), var("a"), var("b")


def axis() -> Axis:
    return Axis(For("j", ZERO, const(LANES), (), ONE, pragma="vector"), LANES, ZERO)


@pytest.mark.parametrize("step", [1, 2, 3, 7])
@pytest.mark.parametrize("op", ["less_than", "less_equal"])
def test_a_piece_of_the_lanes(step: int, op: str) -> None:
    below, above = call(op, J * step + A, B), call(op, A, J * step + B)
    for condition in (below, above, both(below, call(op, A - 9, J * step + B))):
        assert condition is not None
        found = guard(condition, axis(), lambda e: e)
        assert found is not None
        others, first = found
        assert not others
        for a, b in np.random.default_rng(step).integers(-25, 25, (60, 2)).tolist():

            def at(e, **lane: int) -> int:
                return simplify(substitute(e, {var(n): const(v, INDEX) for n, v in ({"a": a, "b": b} | lane).items()})).attr  # noqa: B023

            skip = 0 if first.skip is None else at(first.skip)
            assert [bool(at(condition, j=k)) for k in range(LANES)] == [skip <= k < at(first.stop) for k in range(LANES)]


@pytest.mark.parametrize("condition", [(J * J).lt(9), (J * -2 + A).lt(B), (J * A).lt(B), call("equal", J * 2, A)])
def test_no_piece(condition) -> None:
    assert guard(condition, axis(), lambda e: e) is None
