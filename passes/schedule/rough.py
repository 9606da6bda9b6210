"""The step that computes what is rounded to a small float to no more digits than that needs: `rough`."""

from __future__ import annotations

import math

from ...ir.dtypes import bf16, f32
from ...ir.expr import Expr, cast, make, var
from ...ir.instructions import ROUGH_EXP, ROUNDED
from ...ir.kernel import Kernel, Let, Stmt, Store, map_expressions
from ...ir.record import replace
from ...ir.walks import rewrite
from .tree import Facts, StepError, find, fresh, names_taken, replace_loop

LEAST = -87.0  # e to that power is a normal number


def rough(kernel: Kernel, facts: Facts, axis: str) -> Kernel:
    """Exponentials that a loop rounds to bf16 get a few digits more than that, and what else the loop makes of one reads it before it is rounded.

        for s:                                                           for s:
          let v: bf16 = cast.bf16(exp(where(x < -62.0, -inf, x)))          let e: f32 = ins.rough_exp:f32(x, -62.0:f32)
          W[s] = v                                                  →      let v: bf16 = ins.rounded:bf16(e)
          acc[] add= cast.f32(v)                                           W[s] = v
                                                                           acc[] add= e

    Of exponentials that are 0 below some x > -87, so that none is a denormal number: those that weigh something.
    """
    if facts.strict:
        raise StepError("rough: floats are computed as they are written")
    loop = find(kernel, axis)
    taken = names_taken(kernel)
    unrounded: dict[Expr, Expr] = {}  # what reads a value that has been rounded: the value
    body: list[Stmt] = []
    for s in loop.body:
        if not isinstance(s, (Let, Store)):
            raise StepError(f"rough: `{axis}` does more than store")
        (s,) = map_expressions((s,), lambda e: rewrite(e, unrounded.get))
        found = _exponential(s.value)
        if isinstance(s, Let) and found is not None:
            value = var(fresh("e", taken), f32)
            body.append(Let(value.attr, found))
            s = replace(s, value=_rounded(value))
            unrounded[cast(f32, var(s.name, bf16))] = value
        else:
            (s,) = map_expressions((s,), lambda e: rewrite(e, _in_place))
        body.append(s)
    if all(a is b for a, b in zip(body, loop.body, strict=False)):
        raise StepError(f"rough: `{axis}` rounds no exponential to bf16 that is 0 below some exponent")
    return replace_loop(kernel, axis, lambda x: (replace(x, body=tuple(body)),))


def _exponential(n: Expr) -> Expr | None:
    """By the instruction, what is rounded to bf16 here, where that is e^x or 0."""
    if n.op != "cast" or n.dtype is not bf16 or (e := n.args[0]).op != "exp" or e.dtype is not f32 or (chosen := e.args[0]).op != "where":
        return None
    condition, nothing, x = chosen.args
    if condition.op != "less_than" or condition.args[0] is not x or not (least := condition.args[1]).is_const or least.attr < LEAST:
        return None
    return make("ins", f32, (x, least), ROUGH_EXP.name) if nothing.is_const and nothing.attr == -math.inf else None


def _rounded(x: Expr) -> Expr:
    return make("ins", bf16, (x,), ROUNDED.name)


def _in_place(n: Expr) -> Expr | None:
    found = _exponential(n)
    return None if found is None else _rounded(found)
