"""Loops whose bounds are data, `(loop (p (aref P i) (aref P (+ i 1))) …)`: what P holds if the loops are to stay inside what they index.

A CSR matrix has its rows' first elements in P, so P rises; and what it bounds are positions along an axis, so it holds no more than that axis has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ..ir.dtypes import INDEX
from ..ir.expr import Expr, make, var
from ..ir.kernel import Alloc, Let, Loop, Nest, Stmt, statements
from ..ir.polynomial import Poly, expr, is_constant, linear, plus, poly
from ..ir.walks import leaves, postorder, rewrite

Accesses = list[tuple[str, tuple[Expr, ...]]]


def bounds_of_loops(nest: Nest) -> Iterator[tuple[str, Expr, int | None]]:
    """(buffer, the most that its elements may be, the axis along which they rise) for the buffers whose elements are bounds of loops."""
    body = list(statements(nest.body))
    loops = [s for s in body if isinstance(s, Loop) and s.step.is_const]
    if not any(isinstance(s, Let) and _loads(s.value) for s in body) and not any(_loads(e) for s in loops for e in (s.start, s.stop)):
        return
    shapes = {b.name: b.shape for b in (*nest.operands, *nest.results, *(s.buffer for s in body if isinstance(s, Alloc)))}
    plain = _plainly(body)
    for s in loops:
        low, high = plain(s.start), plain(s.stop)
        if not (_loads(low) or _loads(high)):
            continue
        if s.step.attr < 0:
            low, high = high + 1, low + 1
        rising = _rising(plus(poly(high), poly(low), -1))
        for buffer, index in _accesses(s, plain):
            for e, extent in zip(index, shapes.get(buffer, ()), strict=False):
                for bound in (low, high):
                    for by, most in _reached(poly(e), s.axis, bound, extent):
                        yield by, most, rising.get(by)


def _plainly(body: Sequence[Stmt]) -> Callable[[Expr], Expr]:
    """A function that writes an expression without casts between integers, with the values of names, and a bound that is clamped as what it is else."""
    named: dict[str, Expr] = {}

    def rule(e: Expr) -> Expr | None:
        if e.op == "load" and e.dtype.is_integer:
            return make("load", INDEX, e.args, e.attr)
        if e.op == "cast" and e.dtype.is_integer and e.args[0].dtype.is_integer:
            return e.args[0]
        if e.op in ("add", "sub", "mul", "neg") and e.dtype.is_integer:
            return make(e.op, INDEX, e.args, e.attr)
        if e.op in ("min", "max"):
            read = [a for a in e.args if _loads(a)]
            return read[0] if len(read) == 1 else None
        return named.get(e.attr) if e.op == "var" else None

    def plain(e: Expr) -> Expr:
        return rewrite(e, rule, done)

    done: dict[Expr, Expr] = {}
    for s in body:
        if isinstance(s, Let):
            named[s.name] = plain(s.value)
            done.pop(var(s.name, s.value.dtype), None)
    return plain


def _loads(e: Expr) -> bool:
    return bool(leaves(e, "load"))


def _accesses(loop: Loop, plain: Callable[[Expr], Expr]) -> Accesses:
    """(buffer, index) of what the body loads and stores."""
    found: Accesses = []
    for s in statements(loop.body):
        found += [(e.attr, tuple(map(plain, e.args))) for root in s.expressions() for e in postorder(root) if e.op == "load"]
        name, at = getattr(s, "buffer", None), getattr(s, "index", None)
        if isinstance(name, str) and at is not None:
            found.append((name, tuple(map(plain, at))))
    return found


def _reached(index: Poly, axis: str, bound: Expr, extent: Expr) -> Iterator[tuple[str, Expr]]:
    """(buffer, the most that its elements may be), where the index is the loop's variable and more, and with the bound in its place an element of data and a number."""
    split = linear(index, var(axis))
    if split is None or split[0] != {(): 1}:
        return
    end = plus(split[1], poly(bound))
    read = [m for m in end if len(m) == 1 and m[0].op == "load"]
    if len(read) == 1 and end[read[0]] == 1:
        rest: Mapping[tuple[Expr, ...], int] = {m: c for m, c in end.items() if m != read[0]}
        if all(e.op == "size" for m in rest for e in m):
            yield read[0][0].attr, expr(plus(poly(extent), rest, -1))


def _rising(count: Poly) -> dict[str, int]:
    """Of a number of iterations `P[i + 1] - P[i] + …`: P, and the axis of which two elements side by side are taken."""
    found: dict[str, int] = {}
    reads = [(m[0], c) for m, c in count.items() if len(m) == 1 and m[0].op == "load"]
    for ahead, c in reads:
        for behind, d in reads:
            if (c, d) == (1, -1) and ahead.attr == behind.attr:
                steps = [plus(poly(a), poly(b), -1) for a, b in zip(ahead.args, behind.args, strict=True)]
                moved = [k for k, step in enumerate(steps) if step]
                if len(moved) == 1 and is_constant(steps[moved[0]]) and steps[moved[0]][()] > 0:
                    found[ahead.attr] = moved[0]
    return found
