"""The points by which hopeless proofs are cut short agree with all that is known."""

from __future__ import annotations

from luminal.ir import polynomial as pl
from luminal.ir.bounds import Known
from luminal.ir.dtypes import INDEX
from luminal.ir.expr import ceildiv, load, size, to_line, var
from luminal.ir.graph import Size
from luminal.ir.ranges import Range
from luminal.ir.simplify import assuming

N, M, i, j = size("N"), size("M"), var("i"), var("j")
NEST = Known({"N": Size("N"), "M": Range(1, None, 4)}).with_ranges({"i": (0, ceildiv(N, 8) - 1, 1)}).with_ranges({"j": (i * 8, M - 1, 1)})


def test_points_lie_in_every_range_and_obey_every_fact() -> None:
    known = assuming(NEST, (i * 8 + 8).le(N))
    assert not any(known.refuted(pl.poly(e)) for e in (i, ceildiv(N, 8) - 1 - i, j - i * 8, M - 1 - j, N - 8 - i * 8, N - 1, M - 1))
    assert not known.refuted(pl.poly(M % 4)) and not known.refuted(pl.poly((M % 4) * -1))


def test_what_fails_somewhere_is_refuted_and_not_proven() -> None:
    for e in (N - i * 8 - 8, i - 1, j - i * 8 - 1, N - M, M - N):
        assert NEST.refuted(pl.poly(e)), e
        assert not NEST.nonnegative(pl.poly(e))


def test_what_depends_on_where_a_line_begins_is_refuted_too() -> None:
    assert NEST.refuted(pl.poly(to_line("Y") * -1)) and not NEST.refuted(pl.poly(to_line("Y")))


def test_a_value_that_is_not_known_refutes_nothing() -> None:
    assert not NEST.refuted(pl.poly(load("A", INDEX, i) - 5))
    assert not NEST.refuted(pl.poly(i // (i - i) - 5))


def test_contradicting_facts_leave_no_point() -> None:
    contradicting = NEST.with_facts([pl.poly(2 - i), pl.poly(i - 8)])
    assert contradicting._find_points() == [] and not contradicting.refuted(pl.poly(i * -1))


def test_the_same_name_in_another_loop_has_another_value() -> None:
    again = NEST.with_ranges({"i": (5, 5, 1)})
    assert again.refuted(pl.poly(i * -1 + 4)) and not again.refuted(pl.poly(i - 5))
