"""share_divisors: program → program.  Vectors that a loop divides by one number are multiplied by its reciprocal, and corrected to the very bits of the quotient.

                                                      let inverse: f32 = where(2^-60 <= l & l <= 2^60, 1.0 / l, nan)
    for j in 0 .. N:                                  for j in 0 .. N:
      Y[j] = X[j] / broadcast.16(l)             →       Y[j] = ins.quotient:f32x16(X[j], broadcast.16(l), broadcast.16(inverse))

With r = 1 / y rounded, q = x r rounded and the exact rest q y - x, the sum q - rest r rounded once is x / y rounded (Markstein 1990; Brisebarre, Muller and Raina, Accelerating correctly rounded
floating-point division when the divisor is known in advance, 2004): three operations that do not wait for the machine's divider.  That holds where no number overflows and the quotient is none of the denormal ones:
of y the range above sees to it (NaN says that it is left to the divider, and so are negative numbers, whose quotients of 0 would get the wrong sign), of x / y the instruction does, vector by vector.

A product that is divided by a literal is multiplied by less, where one factor is made of sizes, so that its quotient is no denormal number: two results are rounded either way.

    let t: f32 = rsqrt(f32(D))                        let t: f32 = rsqrt(f32(D))
    for j in 0 .. N:                                  for j in 0 .. N:
      Y[j] = X[j] * broadcast.16(t) / 50.0      →       Y[j] = X[j] * broadcast.16(t / 50.0)

Only where the target has the instruction (`ir/instructions.py`), for divisors that are not loaded (no pass moves a load out of a loop) and do not change in the loop just around; `hoist` then computes the
reciprocal before it.  The divisor may be a literal, unless it is a power of two, of which a C compiler makes a product.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from ..ir.dtypes import f32, f64
from ..ir.expr import Expr, both, broadcast, call, const, make, where
from ..ir.instructions import QUOTIENT
from ..ir.operator_kinds import QUOTIENTS
from ..ir.program import (
    Array,
    Assign,
    Block,
    Define,
    For,
    Function,
    If,
    Program,
    Stmt,
    StoreTo,
    While,
    kinds_in,
    map_expressions,
    statements,
    with_blocks,
    with_body,
    with_expressions,
)
from ..ir.quotients import rounded
from ..ir.record import replace
from ..ir.target import Options, Target
from ..ir.walks import rewrite

Values = Mapping[str, Expr]

RANGES = {
    f32: (2.0**-60, 2.0**60),
    f64: (2.0**-800, 2.0**800),
}  # of divisors, so that they and their reciprocals leave room for a scale of 2^64 (f64: 2^128)


def share_divisors(program: Program, target: Target, options: Options) -> Program:
    """See the head of this file."""
    if QUOTIENT.name not in target.instructions:
        return program
    change = _of_threads if target.gpu else lambda f: _function(f, target.vector_bytes)
    return replace(program, functions=tuple(change(f) if _divides(f) else f for f in program.functions))


def _function(f: Function, width: int) -> Function:
    return replace(f, body=_block(f.body, None, width, _values(f)))


def _values(f: Function) -> Values:
    """What names stand for that have one value."""
    defined = [s for s in statements(f.body) if isinstance(s, Define)]
    twice = {name for name, times in Counter(s.name for s in defined).items() if times > 1}
    twice |= {s.name for s in statements(f.body) if isinstance(s, Assign)}
    return {s.name: s.value for s in defined if s.value is not None and s.name not in twice}


def _divides(f: Function) -> bool:
    """Whether there is something to do at all, which is seldom so."""
    return bool(kinds_in(f.body) & QUOTIENTS)


def _block(block: Block, changing: frozenset[str] | None, width: int, values: Values) -> Block:
    """`changing`: the names that have another value in another iteration of the loop just around; None outside of loops."""
    return tuple(_statement(s, changing, width, values) for s in block)


def _statement(s: Stmt, changing: frozenset[str] | None, width: int, values: Values) -> Stmt:
    if isinstance(s, (For, While)) and not kinds_in(s.body) & QUOTIENTS:
        return s
    if isinstance(s, (For, While)):
        return with_body(s, _block(s.body, changed_in(s), width, values))
    if isinstance(s, (Define, Assign, StoreTo)) and changing is not None:
        return with_expressions(s, lambda e: rewrite(e, lambda n: _quotient(n, changing, width, values)) if e.kinds & QUOTIENTS else e)
    return with_blocks(s, lambda b: _block(b, changing, width, values))


def changed_in(loop: For | While) -> frozenset[str]:
    """The loop's own variable, and whatever its body defines or assigns."""
    found = {s.var if isinstance(s, For) else s.name for s in statements(loop.body) if isinstance(s, (For, Define, Assign, Array))}
    return frozenset(found | {loop.var} if isinstance(loop, For) else found)


def _quotient(n: Expr, changing: frozenset[str], width: int, values: Values) -> Expr | None:
    if n.op != "div" or n.dtype.bytes != width or n.dtype.element not in RANGES or n.args[1].op != "broadcast":
        return None
    x, y = n.args[0], n.args[1].args[0]
    if y.buffers or not changing.isdisjoint(y.names):
        return None
    if y.is_const and x.op == "mul":
        for factor, other in (x.args, x.args[::-1]):
            if factor.op == "broadcast" and changing.isdisjoint(factor.names) and not factor.buffers and _divisible(factor, y, values):
                return call("mul", other, broadcast(call("div", factor.args[0], y), n.dtype.lanes))
    inverse = _inverse(y)
    return None if inverse is None else make("ins", n.dtype, (x, n.args[1], broadcast(inverse, n.dtype.lanes)), QUOTIENT.name)


def _of_threads(f: Function) -> Function:
    """The same on a GPU, each of whose threads divides numbers: all of an unrolled nest at once, under one condition on what it divides by."""
    return replace(f, body=_outermost(f.body))


def _outermost(block: Block) -> Block:
    """The outermost unrolled nests."""
    return tuple(
        _unrolled(s) if isinstance(s, For) and s.pragma == "unroll" and kinds_in(s.body) & QUOTIENTS else with_blocks(s, _outermost) for s in block
    )


def _unrolled(s: For) -> Stmt:
    changing = frozenset().union(*(changed_in(t) for t in (s, *statements(s.body)) if isinstance(t, For)))
    found: dict[Expr, Expr] = {}  # divisor: whether it is in range

    def rule(n: Expr) -> Expr | None:
        if n.op != "div" or n.dtype is not f32:
            return None
        x, y = n.args
        if y.buffers or y.is_const or not changing.isdisjoint(y.names) or changing.isdisjoint(x.names):
            return None
        found[y] = _within(y)
        return make("ins", f32, (x, y, call("div", const(1.0, f32), y)), QUOTIENT.name)

    fast = with_body(s, map_expressions(s.body, lambda e: rewrite(e, rule) if e.kinds & QUOTIENTS else e))
    within = both(*found.values())
    return s if within is None else If(within, (fast,), (s,))


def _within(y: Expr) -> Expr:
    """Whether a divisor and its reciprocal leave room for a scale."""
    least, most = RANGES[y.dtype]
    return call("bit_and", const(least, y.dtype).le(y), y.le(const(most, y.dtype)))


def _divisible(factor: Expr, y: Expr, values: Values) -> bool:
    """Whether the quotient is a normal number, 0 or infinite: the factor is 0 or infinite or between 2^-64 and 2^64, as are integers, their roots, and what these are of in turn."""
    if not 1 <= float(y.attr) <= RANGES[y.dtype][1]:
        return False
    while factor.op in ("broadcast", "sqrt", "rsqrt") or (factor.op == "var" and factor.attr in values):
        factor = values[factor.attr] if factor.op == "var" else factor.args[0]
    if factor.op == "const":
        return factor.attr == 0 or 2.0**-64 <= abs(factor.attr) <= 2.0**64
    return factor.op == "cast" and factor.args[0].dtype.element.is_integer


def _inverse(y: Expr) -> Expr | None:
    """The third operand of the instruction; None for a literal that has none."""
    least, most = RANGES[y.dtype]
    if y.is_const:
        value = float(y.attr)
        return const(rounded(1 / value, y.dtype), y.dtype) if least <= value <= most and math.frexp(value)[0] != 0.5 else None
    return where(_within(y), call("div", const(1.0, y.dtype), y), const(math.nan, y.dtype))
