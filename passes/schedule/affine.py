"""What the steps ask of index expressions: differences, strides, bounds.  The algebra is `ir/polynomial.py`, the proofs are `ir/bounds.py`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Final

from ...ir import polynomial as pl
from ...ir.bounds import Known, Range
from ...ir.expr import ONE, ZERO, Expr, call, const, minimum, var
from ...ir.kernel import Loop, Stmt
from ...ir.operator_kinds import DIVIDES
from ...ir.simplify import prove_le, simplify
from ...ir.walks import postorder, substitute

UNBOUNDED: Final = 1 << 40  # a bound above this is no help to anybody


def minus(a: Expr, b: Expr) -> Expr:
    """a - b, with equal terms cancelled."""
    return pl.expr(pl.plus(pl.poly(a), pl.poly(b), -1))


def stride(e: Expr, axis: str) -> int | None:
    """How far `e` moves when `axis` takes one step; None where that is no constant."""
    v = var(axis)
    found = 0
    for monomial, coefficient in pl.poly(e).items():
        if any(axis in a.names for a in monomial):
            if monomial != (v,):
                return None
            found = coefficient
    return found


def row_step(address: Expr, loop: Loop) -> Expr | None:
    """How far an address moves from one iteration to the next; None where that is not the same for all."""
    if loop.axis not in address.names:
        return ZERO
    here = var(loop.axis)
    linear = pl.linear(pl.poly(address), here)
    if linear is not None and not any(loop.axis in a.names for part in linear for m in part for a in m):
        return pl.expr(linear[0])
    found = minus(substitute(address, {here: here + 1}), address)
    return None if loop.axis in found.names else found


def step_within(e: Expr, loop: Loop, length: int, known: Known) -> int | None:
    """How far `e` moves with one step of a loop from 0, in each `length` iterations from a multiple of `length` on: of 16 of p, p // 32 by 0, p // 32 · 34 + p % 32 by 1.  None where that is no constant."""
    if not e.kinds & DIVIDES:
        return stride(e, loop.axis)
    block, lane = var(f"{loop.axis}.block"), var(f"{loop.axis}.lane")
    moved = substitute(e, {var(loop.axis): block * length + lane})
    inside = known.with_ranges({block.attr: Range(ZERO, loop.stop), lane.attr: Range(ZERO, const(length - 1))})
    return stride(simplify(moved, inside), lane.attr)


def same_position(a: Expr, b: Expr) -> bool:
    """Whether two positions are the same polynomial of sizes and variables."""
    return pl.poly(a) == pl.poly(b)


def constant_extent(loop: Loop) -> int | None:
    """The extent of a loop, where it is a constant; None also for a loop in other steps than 1, whose extent is not stop - start."""
    length = extent(loop)
    return length.attr if length.is_const and loop.step is ONE else None


def extent(loop: Loop) -> Expr:
    """The extent of a loop in steps of 1."""
    return loop.stop if loop.start is ZERO else minus(loop.stop, loop.start)


def extreme(e: Expr, axis: str, low: Expr, high: Expr, largest: bool) -> Expr | None:
    """The largest (or smallest) value of a monotone expression for `low` <= axis <= `high`; None where it is not seen to be monotone."""
    if axis not in e.names:
        return e
    if e.op == "var":
        return high if largest else low
    rising = {"add": (True, True), "sub": (True, False), "min": (True, True), "max": (True, True)}.get(e.op)
    if e.op == "floordiv" and _natural(e.args[1]):
        rising = (True, True)
    elif e.op == "mul" and e.args[1].is_const:
        rising = (e.args[1].attr >= 0, True)
    elif e.op == "mul" and e.args[0].is_const:
        rising = (True, e.args[0].attr >= 0)
    elif e.op == "mul" and any(axis not in a.names and _natural(a) for a in e.args):
        rising = (True, True)
    if rising is None:
        return None
    args = [extreme(a, axis, low, high, largest == up) for a, up in zip(e.args, rising, strict=True)]
    return None if any(a is None for a in args) else call(e.op, *(a for a in args if a is not None))


def of_any_rest(bound: Expr, axes: Set[str], known: Known, largest: bool) -> Expr:
    """The largest (or smallest) value of a bound for any rest of a division by a constant, x % 16, of an x that these axes decide; the end, 16, counts as one: lengths stay round."""
    for n in [n for n in postorder(bound) if n.op == "mod" and n.args[1].is_const and n.args[1].attr > 0 and n.names & axes]:
        found = extreme(substitute(bound, {n: var("rest", n.dtype)}), "rest", ZERO, n.args[1], largest)
        bound = bound if found is None else simplify(found, known)
    return bound


def _natural(e: Expr) -> bool:
    """Whether an expression is made of sizes and of what is no less than 0, so that it is neither (a quotient by 0 is 0, whatever is divided)."""
    if e.op in ("add", "mul", "min", "floordiv"):
        return all(map(_natural, e.args))
    return e.op == "size" or (e.is_const and e.attr >= 0) or (e.op == "max" and any(map(_natural, e.args)))


def upper(e: Expr, known: Known) -> int | None:
    """A constant that `e` never exceeds."""
    low = known.least(pl.scaled(pl.poly(e), -1))
    return None if low is None or -low >= UNBOUNDED else -low


def upper_of_rest(e: Expr, known: Known) -> int | None:
    """The same for how many pieces there are of what larger pieces leave: x // 4 - x // 8 · 2 is at most 1, as x // 4 is no more than x // 8 · 2 + 1."""
    e = simplify(e, known)
    quotients = [n for n in postorder(e) if n.op == "floordiv" and n.args[1].is_const and n.args[1].attr > 0]
    for n in quotients:
        for m in quotients:
            (x, a), (y, b) = n.args, m.args
            if x is y and a.attr < b.attr and b.attr % a.attr == 0 and (stride(substitute(e, {n: var("quotient")}), "quotient") or 0) > 0:
                times = b.attr // a.attr
                found = upper(substitute(e, {n: m * times + (times - 1)}), known)
                if found is not None:
                    return found
    return None


def divides(e: Expr, axes: Iterable[str]) -> bool:
    """Whether the position along one of the axes is divided."""
    return bool(e.kinds & DIVIDES) and any(n.op in ("floordiv", "mod") and not n.names.isdisjoint(axes) for n in postorder(e))


def taken_apart(address: Expr, axis: str) -> bool:
    """Whether an axis stands inside a term of an address, not as a factor of one."""
    return any(a.args and axis in a.names for a in pl.atoms(pl.poly(address)))


def at_least(e: Expr, least: int, known: Known) -> bool:
    return prove_le(ZERO + least, e, known)


def is_multiple(e: Expr, factor: int, known: Known) -> bool:
    """Whether `e` is known to be a multiple of `factor`."""
    return known.multiple(pl.poly(e)) % factor == 0


def inside(path: Iterable[Stmt], known: Known) -> Known:
    """What is known inside the loops of a path.  What does not mention the variable of a loop is judged as outside of it, once for all loops."""
    for s in path:
        if isinstance(s, Loop) and s.step.is_const and abs(s.step.attr) == 1:
            ends = Range(s.start, s.stop - 1) if s.step is ONE else Range(s.stop + 1, s.start)
            known = known.with_ranges({s.axis: ends}, within=known)
    return known


def inside_for(path: Sequence[Stmt], known: Known, *asked: Expr) -> Known:
    """The same as far as these expressions tell: no further in than the last loop that they mention."""
    names = frozenset().union(*[e.names for e in asked])
    last = len(path)
    while last and not (isinstance(s := path[last - 1], Loop) and s.axis in names):
        last -= 1
    return inside(path[:last], known)


def bounded(limit: int, length: Expr) -> Expr:
    """min(limit, length): the extent of a part that may be the last."""
    return minimum(ZERO + limit, length)


def performed(e: Expr, always: bool) -> set[Expr]:
    """The loads of an expression; `always`: those that are performed whatever its `where`s choose."""
    if not e.buffers:
        return set()
    stack, seen = [e], {e}
    while stack:
        n = stack.pop()
        fresh = [a for a in (n.args[:1] if always and n.op == "where" else n.args) if a not in seen and a.buffers]
        stack += fresh
        seen.update(fresh)
    return {n for n in seen if n.op == "load"}
