"""Loops that stayed loops and walk a reduced axis in order: states of a cascade that need no correction.

    for i parallel:                                        for i parallel:
      for p in 0 .. M:                                       …
        x = X[i, p]                                          for tiles:
        if x > Y[i, k-1]: insert (x, p) into Y[i], I[i]  →     for p in the tile: the same statements, on x of the tile

The k largest of a row, written as an insertion, are one.  Where such a loop reads scores, it goes on from tile to tile as they are made, and no row of them is in memory.

    X = exp(s − m) / l        it reads what other states of the cascade make in the end

A loop that only compares and copies what it reads does the same with any values that stand in the same order.  A softmax keeps the order of its scores, equal ones too; so the loop walks the
scores, and what it copied becomes exp(s − m) / l when m and l are there.  Its results start as 0, which is what a softmax makes of −∞, so there they start as −∞.  Where l is no positive number
(the row holds NaN or ∞, or nothing but −∞) the value is the same all along the row, NaN, and the loop walks a row of that.

A positive number that is too small for a float is 0, and equal to others, only after it has been walked: among those the order is that of exact numbers.
What a loop has kept of one part of an axis and of another is not what it keeps of both, unless more is known of it; so such a cascade is not split into chunks.
"""

from __future__ import annotations

from collections.abc import Container

from ...ir.expr import ONE, ZERO, Expr, axis, var
from ...ir.graph import Node, View, identity
from ...ir.kernel import Block, Let, Loop, Nest, Stmt, Store, accesses, perfect, statements
from ...ir.primops import OPS
from ...ir.record import record
from ...ir.walks import leaves
from .separate import EXPONENTIALS


@record
class Fold:
    """The form of such a nest."""

    rows: tuple[str, ...]  # the parallel loops' variables
    before: Block  # what is done before the axis is walked
    along: Loop
    source: str  # the buffer that is walked


@record
class Order:
    """What a walked value is made of, over (rows, axis): a score, and what becomes of it without a change of order where the factors are positive numbers."""

    score: View
    steps: tuple[
        tuple[str, int, tuple[View, ...]], ...
    ] = ()  # the last one first: an operator, which operand is what the steps before make, and the others, which are of rows alone

    @property
    def factors(self) -> list[View]:
        return [v for op, _, rest in self.steps if op in ("mul", "div") for v in rest]

    @property
    def terms(self) -> list[View]:
        return [v for op, _, rest in self.steps if op in ("add", "sub") for v in rest]


def fold(n: Node) -> Fold | None:
    """The form of a nest that walks the last axis of its one operand, each row by itself; None where it has another."""
    nest = n.attr.nest
    if n.op != "nest" or nest is None or len(nest.operands) != 1 or not nest.operands[0].shape:
        return None
    source = nest.operands[0]
    loops, body = perfect(nest.body, lambda x: x.kind == "parallel" and x.start is ZERO and x.step is ONE)
    rows = [x.axis for x in loops]
    if len(rows) != len(source.shape) - 1 or not body or not isinstance(along := body[-1], Loop):
        return None
    if along.kind != "serial" or along.start is not ZERO or along.step is not ONE or along.stop is not source.shape[-1]:
        return None
    found = Fold(tuple(rows), body[:-1], along, source.name)
    return found if _by_rows(nest, found) else None


def _by_rows(nest: Nest, f: Fold) -> bool:
    """Whether the operand is read where the axis is walked, and results are touched at the row alone."""
    rows = tuple(var(name) for name in f.rows)
    if any(b.name == f.source or b.shape[: len(rows)] != nest.operands[0].shape[:-1] for b in nest.results):
        return False
    results = {b.name for b in nest.results}
    if any(name == f.source for name, _ in accesses(f.before)):
        return False
    here = (*rows, var(f.along.axis))
    return all(
        index == here if name == f.source else name not in results or index[: len(rows)] == rows for name, index in accesses((*f.before, f.along))
    )


def copies(n: Node, f: Fold) -> frozenset[str] | None:
    """The results that hold copies of elements; None where elements are more than compared with one another and copied."""
    nest = n.attr.nest
    assert nest is not None
    floats = frozenset(b.name for b in nest.results if b.dtype is nest.operands[0].dtype)
    carried = set(floats) | {f.source}

    def is_copy(e: Expr) -> bool:
        return (e.op in ("load", "var") and e.attr in carried) or (e.op == "where" and is_copy(e.args[1]) and is_copy(e.args[2]))

    def free(e: Expr) -> bool:
        """Whether a value is the same for other elements in the same order."""
        if e.op in ("load", "var") and e.attr in carried:
            return False
        if e.op in ("less_than", "less_equal", "equal", "not_equal") and all(is_copy(a) for a in e.args):
            return all(free(a.args[0]) and all(free(i) for i in a.args) for a in e.args if a.op == "where") and all(
                free(i) for a in e.args if a.op == "load" for i in a.args
            )
        if e.op == "isnan" and is_copy(e.args[0]):
            return True
        return all(free(a) for a in e.args)

    def copied(e: Expr) -> bool:
        return is_copy(e) and all(free(a) for a in (e.args if e.op == "load" else e.args[:1] if e.op == "where" else ()))

    def holds(s: Stmt) -> bool:
        match s:
            case Let() if copied(s.value):
                carried.add(s.name)
                return True
            case Store() if s.buffer in floats:
                return not s.combiner and copied(s.value) and all(map(free, s.index))
            case _:
                return all(map(free, s.expressions()))

    return floats if not f.before and all(map(holds, statements((f.along,)))) else None


def order(walked: Node, states: Container[Node]) -> Order | None:
    """The score that a value is made of; None where that may change the order.  The score itself is what holds no state."""
    along = axis(walked.rank - 1)
    view, steps, inside = identity(walked), list[tuple[str, int, tuple[View, ...]]](), False
    while _holds(view.node, states):
        n, args = view.node, view.operands
        moving = [k for k, a in enumerate(args) if any(along in leaves(e, "axis") for e in a.index)]
        if view.domain is not None or len(moving) != 1 or any(a.domain is not None for k, a in enumerate(args) if k not in moving):
            return None
        (k,) = moving
        allowed = ("add", "sub") if inside else ("mul", "div", *EXPONENTIALS)
        if n.op not in allowed or (n.op in ("sub", "div") and k != 0):
            return None
        inside = inside or n.op in EXPONENTIALS
        steps.append((n.op, k, tuple(a for j, a in enumerate(args) if j != k)))
        view = args[k]
    if steps and not (inside and any(op in ("mul", "div") for op, _, _ in steps)):
        return None
    return Order(view, tuple(steps)) if view.dtype is walked.dtype else None


def _holds(node: Node, states: Container[Node]) -> bool:
    stack, seen = [node], set[Node]()
    while stack:
        n = stack.pop()
        if n in states:
            return True
        if n not in seen and n.op in OPS:
            seen.add(n)
            stack.extend(a.node for a in n.args)
    return False
