"""What is left as it was stays the same object, and what is known already is not asked again."""

from __future__ import annotations

import pytest
from luminal.ir import program as pr
from luminal.ir.bounds import Known
from luminal.ir.dtypes import f32
from luminal.ir.expr import ONE, ZERO, Expr, call, const, floordiv, load, size, var
from luminal.ir.kernel import Kernel, Loop
from luminal.ir.operator_kinds import DIVIDES
from luminal.ir.places import path_of
from luminal.ir.simplify import simplify
from luminal.ir.walks import SHORT, postorder
from luminal.passes.schedule.affine import inside, inside_for
from luminal.passes.schedule.rows import beside

N, x = size("N"), var("x")


def test_a_block_in_which_nothing_changes() -> None:
    store = pr.StoreTo("y", x, load("x", f32, x))
    block: pr.Block = (pr.For("x", ZERO, N, (pr.If(x.lt(N), (store,), (store,)),), ONE), pr.Region((store,)))
    assert pr.map_block(block, lambda s: None) is block
    assert pr.map_block(block, lambda s: (s,)) is block
    assert pr.map_block(block, lambda s: () if isinstance(s, pr.Region) else None) == block[:1]
    without = pr.map_block(block, lambda s: () if s is store else None)
    assert not [s for s in pr.statements(without) if isinstance(s, pr.StoreTo)]


def test_blocks_without_such_operators_are_left_alone() -> None:
    divided, plain = pr.StoreTo("y", floordiv(x, N), ONE), pr.StoreTo("y", x, ONE)
    block: pr.Block = (pr.For("i", ZERO, N, (plain,)), pr.If(x.lt(N), (divided,), (plain,)), plain)
    met: list[pr.Stmt] = []
    assert pr.map_block(block, lambda s: met.append(s), DIVIDES) is block
    assert met == [block[0], divided, block[1], plain], "what stands in the loop, or under `else`, is not looked at"
    assert pr.map_block(block[:1], lambda s: met.append(s), DIVIDES) is not None and len(met) == 4
    assert pr.map_block(block, lambda s: () if s is divided else None, DIVIDES)[0] is block[0]


def test_no_scope_is_made_for_loops_that_nobody_asks_about() -> None:
    known = Known({"N": (1, None, 1)})
    path = tuple(Loop(a, ZERO, stop, ()) for a, stop in (("i", N), ("j", const(8)), ("k", var("i"))))
    assert inside_for(path, known, N + 1) is known
    assert inside_for(path, known, var("j"), N) is inside(path[:2], known)
    for e in (var("i").lt(N), (var("j") + var("i") * 8).lt(N * 8), var("k").lt(N), floordiv(var("j"), const(8))):
        assert simplify(e, inside_for(path, known, e)) is simplify(e, inside(path, known)) is not e


def test_the_way_to_a_name_is_found_once() -> None:
    k = Kernel("f", (), (Loop("i", ZERO, N, (Loop("j", ZERO, N, ()),)),))
    path = path_of(k, "j")
    assert path_of(k, "j") is path and path_of(k.with_schedule(("a step",)), "j") is path
    moved = k.with_body((Loop("j", ZERO, N, ()),))
    assert [s.axis for s in path_of(moved, "j") if isinstance(s, Loop)] == ["j"]


def test_lanes_are_looked_at_until_two_are_no_constant_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Expr] = []
    simplify = beside.simplify
    monkeypatch.setattr(beside, "simplify", lambda e, known: asked.append(e) or simplify(e, known))
    assert beside.in_pieces(floordiv(x, const(2)), "x", 8)
    assert len(asked) == 8
    asked.clear()
    assert not beside.in_pieces(call("mod", x, N) * 5, "x", 8)
    assert len(asked) == 2


def test_an_order_is_remembered_up_to_a_length() -> None:
    e = load("x", f32, x)
    chain = [e]
    while len(chain) < SHORT + 10:
        chain.append(call("add", chain[-1], load("x", f32, x + len(chain))))
    for e in chain:
        order = list(postorder(e))
        assert len(set(order)) == len(order) and order[-1] is e
        assert all(order.index(a) < k for k, n in enumerate(order) for a in n.args)
        assert (e.order is not None) == (len(order) <= SHORT)
