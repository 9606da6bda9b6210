"""Which lanes a guard lets through: a piece of them, also where what it compares grows by more than 1 from lane to lane."""

from __future__ import annotations

import numpy as np
import pytest
from luminal.compiler import Settings, compilations
from luminal.ir.bounds import Known
from luminal.ir.conditions import conjuncts
from luminal.ir.expr import INDEX, ONE, ZERO, Expr, both, call, const, var
from luminal.ir.kernel import statements as kernel_statements
from luminal.ir.program import For, statements
from luminal.ir.simplify import prove_le, simplify
from luminal.ir.walks import postorder, substitute
from luminal.passes.lower import flatten
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


def test_what_the_loops_say_is_inside_is_read_in_all_lanes() -> None:
    """A choice lets all lanes through but one, and what it reads is not read elsewhere in the loop: the bounds of tiles say that it is there."""
    text = """(composite apart ((Z{f32}[96 16] S{f32}[96]) -> (Y{f32}[96]))
      (setf i (iota 96))
      (return (logsumexp (where (= (unsqueeze i :axis 1) i) -inf (/ (/ (matmul Z (transpose Z)) (unsqueeze S :axis 1)) S)) :axis 1)))"""
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3"))
    tiles = [n for f in found.program.functions for s in statements(f.body) for e in s.expressions() for n in postorder(e) if n.op == "not_equal"]
    assert any(n.dtype.lanes > 1 for n in tiles)


@pytest.mark.pure
def test_what_a_choice_asks_is_not_looked_for_in_the_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """`where(j < N, B[p, j], 0)` in the last vector of a row is there because nothing says that j < N; of two axes the one of the lanes is looked at first, and the other not at all."""
    tried: list[tuple[Expr, Expr]] = []

    def recorded(a: Expr, b: Expr, known: Known) -> bool:
        tried.append((a, b))
        return prove_le(a, b, known)

    monkeypatch.setattr(flatten, "prove_le", recorded)
    (padded,) = compilations(
        "(composite p ((A{f32}[M K] B{f32}[K N]) -> (C{f32}[M N])) (return (matmul A B)))", Settings(runtime="clang", target="x86-64-v4")
    )
    guards = {
        c
        for k in padded.module.kernels
        for s in kernel_statements(k.body)
        for e in s.expressions()
        for n in postorder(e)
        if n.op == "where"
        for c in conjuncts(n.args[0])
    }
    assert padded.program.functions
    assert tried and len(tried) < 8
    assert all((a - 1).lt(b) not in guards for a, b in tried)
