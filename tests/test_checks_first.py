"""Positions that data decides, looked at before the loops that read at them."""

from __future__ import annotations

from luminal.ir.dtypes import INDEX, f32, i32
from luminal.ir.expr import ZERO, Expr, call, cast, const, load, size, var
from luminal.ir.kernel import Check, If, Kernel, Let, Loop, Module, Store, statements
from luminal.ir.target import Options
from luminal.passes.checks_first import checks_first
from running import TARGET

N, P, ROW, PLACE = size("N"), size("P"), var("i"), var("j")


def _gathering(name: str) -> Kernel:
    at: Expr = var("at")
    check = Check(_inside(at), 3)
    body = (Let("at", cast(INDEX, load("I", i32, PLACE))), check, Store("Y", (ROW, PLACE), load("X", f32, at)))
    return Kernel(name, ("I", "X", "Y"), (Loop("i", ZERO, N, (Loop("j", ZERO, P, body, "parallel"),), "parallel"),))


def _inside(at: Expr) -> Expr:
    return call("bit_and", ZERO.le(at), at.lt(N))


def test_what_has_been_written_since_is_looked_at_again() -> None:
    writing = Kernel("write", ("I",), (Loop("i", ZERO, P, (Store("I", (ROW,), const(7, i32)),), "parallel"),))
    for between, expected in (((), 1), ((writing,), 2)):
        module = Module("m", (), (), (), (_gathering("a"), *between, _gathering("b")))
        found = checks_first(module, TARGET, Options()).kernels
        looking = [k for k in found if any(isinstance(s, Check) for s in statements(k.body))]
        assert len(looking) == expected
        assert found.index(looking[-1]) == len(found) - 2 if between else found.index(looking[0]) == 0
        assert not any(isinstance(s, Check) for k in found if k not in looking for s in statements(k.body))
        assert all(any(isinstance(s, If) for s in k.body) for k in looking), "asked only where the rows are there"


def test_checks_in_a_branch_on_sizes_are_made_where_it_is_taken() -> None:
    """Bounds that are named before the loops are no other loops' business."""
    gathering = _gathering("a")
    (rows,) = gathering.body
    assert isinstance(rows, Loop)
    chunks = (Let("half", call("floordiv", N, const(2))), Loop("i", ZERO, var("half"), rows.body, "parallel"))
    few = P.lt(const(9))
    module = Module("m", (), (), (), (Kernel("a", gathering.buffers, (If(few, chunks, gathering.body),)),))
    *looking, left = checks_first(module, TARGET, Options()).kernels
    assert not any(isinstance(s, Check) for s in statements(left.body))
    asked = [s.condition for k in looking for s in k.body if isinstance(s, If)]
    there = (call("bit_and", few, ZERO.lt(call("floordiv", N, const(2)))), call("bit_and", call("bit_not", few), ZERO.lt(N)))
    assert set(asked) == set(there)
