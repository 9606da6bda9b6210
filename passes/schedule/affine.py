"""Linear forms of index expressions, and what can be proven of them: enough for guards, tails and bounds of copies.

A linear form is `constant + Σ coefficient · atom`, where an atom is a loop variable, a size, or any expression that is not linear (`i // 4`, `min(…)`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...ir.expr import ZERO, Expr, const, var
from ...ir.graph import Size


@dataclass(frozen=True, slots=True)
class Linear:
    terms: tuple[tuple[Expr, int], ...]  # in order of first appearance, no zero coefficients
    constant: int

    def coefficient(self, atom: Expr) -> int:
        return next((c for a, c in self.terms if a is atom), 0)

    def without(self, atom: Expr) -> Linear:
        return Linear(tuple((a, c) for a, c in self.terms if a is not atom), self.constant)

    def expr(self) -> Expr:
        result = ZERO
        for a, c in self.terms:
            result = result + a * c if result is not ZERO else a * c
        return result + self.constant


def linear(e: Expr) -> Linear:
    """The linear form of an integer expression (exact: indices do not wrap).  Iterative: sums may be long."""
    terms: dict[Expr, int] = {}
    constant = 0
    stack = [(e, 1)]
    while stack:
        node, factor = stack.pop()
        if node.op == "const":
            constant += factor * node.attr
        elif node.op == "add":
            stack += [(node.args[1], factor), (node.args[0], factor)]
        elif node.op == "sub":
            stack += [(node.args[1], -factor), (node.args[0], factor)]
        elif node.op == "neg":
            stack.append((node.args[0], -factor))
        elif node.op == "mul" and node.args[1].is_const:
            stack.append((node.args[0], factor * node.args[1].attr))
        elif node.op == "mul" and node.args[0].is_const:
            stack.append((node.args[1], factor * node.args[0].attr))
        else:
            terms[node] = terms.get(node, 0) + factor
    return Linear(tuple((a, c) for a, c in terms.items() if c), constant)


def minus(a: Expr, b: Expr) -> Expr:
    """a - b, with equal terms cancelled."""
    return linear(a - b).expr()


def stride(e: Expr, axis: str) -> int | None:
    """How far `e` moves when `axis` takes one step; None where that is no constant."""
    form = linear(e)
    variable = var(axis)
    for atom, _ in form.terms:
        if atom is not variable and _mentions(atom, variable):
            return None
    return form.coefficient(variable)


def _mentions(e: Expr, wanted: Expr) -> bool:
    stack, seen = [e], set()
    while stack:
        n = stack.pop()
        if n is wanted:
            return True
        if n not in seen:
            seen.add(n)
            stack.extend(n.args)
    return False


def upper(e: Expr, sizes: Mapping[str, Size]) -> int | None:
    """A constant that `e` never exceeds, from the sizes' bounds and from `min`; None where none is known.  Loop variables are unknown."""
    if e.op == "const":
        return e.attr
    if e.op == "min":
        known = [b for b in (upper(a, sizes) for a in e.args) if b is not None]
        return min(known) if known else None
    if e.op == "max":
        both = [upper(a, sizes) for a in e.args]
        return None if None in both else max(b for b in both if b is not None)
    if e.op == "size":
        info = sizes.get(e.attr)
        return None if info is None or info.max >= 1 << 40 else info.max
    if e.op == "floordiv" and e.args[1].is_const and e.args[1].attr > 0:
        above = upper(e.args[0], sizes)
        return None if above is None else above // e.args[1].attr
    if e.op == "mod" and e.args[1].is_const and e.args[1].attr > 0:
        return e.args[1].attr - 1
    if e.op in ("add", "mul", "sub"):
        form = linear(e)
        result = form.constant
        if len(form.terms) == 1 and form.terms[0][0] is e:
            return None  # a product that is not linear
        for atom, factor in form.terms:
            bound = upper(atom, sizes) if factor > 0 else lower(atom, sizes)
            if bound is None:
                return None
            result += factor * bound
        return result
    return None


def lower(e: Expr, sizes: Mapping[str, Size]) -> int | None:
    """A constant that `e` is never below; the counterpart of `upper`.  Loop variables count as at least 0 only where the caller says so by substitution."""
    if e.op == "const":
        return e.attr
    if e.op == "max":
        known = [b for b in (lower(a, sizes) for a in e.args) if b is not None]
        return max(known) if known else None
    if e.op == "size":
        info = sizes.get(e.attr)
        return 0 if info is None else info.min
    if e.op == "floordiv" and e.args[1].is_const and e.args[1].attr > 0:
        below = lower(e.args[0], sizes)
        return None if below is None else below // e.args[1].attr
    if e.op == "mod" and e.args[1].is_const and e.args[1].attr > 0:
        return 0
    if e.op in ("add", "sub"):
        form = linear(e)
        result = form.constant
        for atom, factor in form.terms:
            bound = lower(atom, sizes) if factor > 0 else upper(atom, sizes)
            if bound is None:
                return None
            result += factor * bound
        return result
    return None


def is_multiple(e: Expr, factor: int, sizes: Mapping[str, Size]) -> bool:
    """Whether `e` is known to be a multiple of `factor`."""
    form = linear(e)
    if form.constant % factor:
        return False
    for atom, coefficient in form.terms:
        known = sizes[atom.attr].multiple if atom.op == "size" and atom.attr in sizes else 1
        if (coefficient * known) % factor:
            return False
    return True


def constant_extent(start: Expr, stop: Expr) -> int | None:
    """stop - start where that is a constant."""
    form = linear(stop - start)
    return form.constant if not form.terms else None


def extent(start: Expr, stop: Expr) -> Expr:
    return stop if start is ZERO else minus(stop, start)


__all__ = ["Linear", "const", "constant_extent", "extent", "is_multiple", "linear", "lower", "minus", "stride", "upper"]
