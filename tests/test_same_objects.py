"""What is left as it was stays the same object, and what is known already is not asked again."""

from __future__ import annotations

import pytest
from luminal.ir import program as pr
from luminal.ir.dtypes import f32
from luminal.ir.expr import ONE, ZERO, Expr, call, const, floordiv, load, size, var
from luminal.ir.walks import SHORT, postorder
from luminal.passes.schedule import beside

N, x = size("N"), var("x")


def test_a_block_in_which_nothing_changes() -> None:
    store = pr.StoreTo("y", x, load("x", f32, x))
    block: pr.Block = (pr.For("x", ZERO, N, (pr.If(x.lt(N), (store,), (store,)),), ONE), pr.Region((store,)))
    assert pr.map_block(block, lambda s: None) is block
    assert pr.map_block(block, lambda s: (s,)) is block
    assert pr.map_block(block, lambda s: () if isinstance(s, pr.Region) else None) == block[:1]
    without = pr.map_block(block, lambda s: () if s is store else None)
    assert not [s for s in pr.statements(without) if isinstance(s, pr.StoreTo)]


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
