"""Interned expressions: one object for equal parts, what each knows of itself, and the table that forgets the dead."""

from __future__ import annotations

from luminal.ir import expr as ex
from luminal.ir.dtypes import INDEX, bool_, f32, f64
from luminal.ir.evaluate import holds
from luminal.ir.expr import axis, call, const, first, load, make, size, var, vload, where
from luminal.ir.walks import rewrite, substitute


def test_equal_parts_are_one_object_and_others_are_not() -> None:
    assert size("N") + 1 is size("N") + 1
    assert size("N") is not var("N")
    literals = [const(1), const(1.0, f32), const(1.0, f64), const(True, bool_), const(0.0, f32), const(-0.0, f32), const(0)]
    assert len({id(e) for e in literals}) == len(literals)
    assert const(float("nan"), f32) is const(float("nan"), f32)


def test_the_dead_are_swept_and_the_living_stay() -> None:
    kept = [size("N") * k + load("A", INDEX, var("i") + k) for k in range(100)]
    assert all(((size("forgotten") + k) * 3).names == {"forgotten"} for k in range(2, 100))
    ex._sweep()
    assert not any("forgotten" in e.names for e in ex._interned.values())
    for k, e in enumerate(kept):
        assert size("N") * k + load("A", INDEX, var("i") + k) is e
        assert make(e.op, e.dtype, e.args, e.attr) is e
    assert call("floordiv", size("N"), const(4)) is size("N") // 4 and call("mod", size("N"), const(4)) is size("N") % 4


def test_an_expression_knows_its_names_buffers_and_whether_it_is_a_position() -> None:
    i, n = var("i"), size("N")
    e = where(first("p"), load("A", f32, i * n, axis(0)), vload("B", f32, 1, n))
    assert e.names == {"i", "N", "$0", "p"}
    assert e.buffers == {"A", "B"}
    assert not e.is_position
    assert (i * n // 4).lt(n).is_position
    assert not (load("at", INDEX, i) + n).is_position
    assert not call("add", load("A", f32, i), const(1.0, f32)).is_position


def test_an_expression_knows_which_kinds_of_operators_stand_in_it() -> None:
    i, n = var("i"), size("N")
    x = load("A", f32, i * n + 1)
    assert x.kinds == 0
    assert load("A", f32, i // 2 + n).kinds == ex.DIVIDES
    assert where(first("p"), call("exp", x), x).kinds == ex.CHOOSES | ex.LONG | ex.ENDS
    assert call("div", x, x).kinds == ex.QUOTIENTS
    assert vload("B", f32, 8, i).kinds == 0
    assert call("add", *[vload("B", f32, 8, i, n % 8)] * 2).kinds == ex.PARTIAL | ex.DIVIDES
    assert call("bit_or", i.lt(n), n.lt(i)).kinds == ex.MERGES
    assert ex.gather("A", f32, ex.ramp(8)).kinds == ex.GATHERS


def test_substitution_finds_leaves_loops_loads_and_constants() -> None:
    i, j, scalar = var("i"), var("j"), load("acc", f32)
    e = where(first("p"), scalar, load("A", f32, i + 3))
    assert substitute(e, {i: j}) is where(first("p"), scalar, load("A", f32, j + 3))
    assert substitute(e, {first("p"): i.eq(0)}) is where(i.eq(0), scalar, load("A", f32, i + 3))
    assert substitute(e, {scalar: load("B", f32, i), i: j}) is where(first("p"), load("B", f32, i), load("A", f32, j + 3))
    assert substitute(e, {const(3): const(4)}) is where(first("p"), scalar, load("A", f32, i + 4))
    assert substitute(e, {var("k"): j}) is e


def test_what_expressions_share_is_rewritten_once() -> None:
    shared = var("i") * size("N")
    seen: list[ex.Expr] = []

    def rule(n: ex.Expr) -> ex.Expr | None:
        seen.append(n)
        return var("j") if n is var("i") else None

    done: dict[ex.Expr, ex.Expr] = {}
    assert rewrite(shared + 1, rule, done) is var("j") * size("N") + 1
    asked = len(seen)
    assert rewrite(shared + 2, rule, done) is var("j") * size("N") + 2
    assert len(seen) == asked + 2  # the number and the sum


def test_a_precondition_holds_whatever_the_part_that_is_not_asked_divides_by() -> None:
    n = size("N")
    one = (const(255) // n).le(const(1))
    either = call("bit_or", n.le(const(0)), one)
    assert not holds(one, {"N": 0}) and holds(either, {"N": 0}) and not holds(either, {"N": 9}) and holds(either, {"N": 200})
