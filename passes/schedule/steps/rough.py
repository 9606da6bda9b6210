"""The step that computes what is rounded to a small float to no more digits than that needs: `rough`."""

from __future__ import annotations

import math

from ....ir.dtypes import bf16, f32
from ....ir.expr import Expr, cast, const, make, var, where
from ....ir.instructions import ROUGH_EXP, ROUNDED, WEIGHT
from ....ir.kernel import Block, Kernel, Let, Stmt, Store, map_expressions
from ....ir.record import replace
from ....ir.statement import same
from ....ir.walks import rewrite
from ..tree import Facts, StepError, find, fresh, names_taken, replace_loop

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
    if not all(isinstance(s, (Let, Store)) for s in loop.body):
        raise StepError(f"rough: `{axis}` does more than store")
    taken = names_taken(kernel)
    small: dict[Expr, Expr] = {}  # names of such exponentials, by the instruction
    unrounded: dict[Expr, Expr] = {}  # what reads a value that has been rounded: the value
    body: list[Stmt] = []
    for k, s in enumerate(loop.body):
        (s,) = map_expressions((s,), lambda e: rewrite(e, unrounded.get))
        value = _before(s.value, small) if isinstance(s, Let) else None
        if isinstance(s, Let) and value is not None:
            e = var(fresh("e", taken), f32)
            body.append(Let(e.attr, value))
            s = replace(s, value=_rounded(e))
            unrounded[cast(f32, var(s.name, bf16))] = e
        elif isinstance(s, Let) and s.value.dtype is bf16 and cast(f32, s.value) in unrounded:  # another name of one
            unrounded[cast(f32, var(s.name, bf16))] = unrounded[cast(f32, s.value)]
        elif isinstance(s, Let) and (found := _exponential(s.value)) is not None and _only_rounded(var(s.name, f32), loop.body[k + 1 :]):
            small[var(s.name, f32)] = found
            s = replace(s, value=found)
        else:
            (s,) = map_expressions((s,), lambda e: rewrite(e, lambda n: None if (x := _before(n, small)) is None else _rounded(x)))
        body.append(s)
    if same(body, loop.body):
        raise StepError(f"rough: `{axis}` rounds no exponential to bf16 that is 0 below some exponent")
    return replace_loop(kernel, axis, lambda x: (replace(x, body=tuple(body)),))


def _exponential(e: Expr) -> Expr | None:
    """By the instruction, e^x that is 0 below some x."""
    if e.op == "ins" and e.attr == WEIGHT.name and e.args[1].is_const and e.args[1].attr >= LEAST:
        return make("ins", f32, e.args, ROUGH_EXP.name)
    if e.op != "exp" or e.dtype is not f32 or (chosen := e.args[0]).op != "where":
        return None
    condition, nothing, x = chosen.args
    if condition.op != "less_than" or condition.args[0] is not x or not (least := condition.args[1]).is_const or least.attr < LEAST:
        return None
    return make("ins", f32, (x, least), ROUGH_EXP.name) if nothing.is_const and nothing.attr == -math.inf else None


def _before(n: Expr, small: dict[Expr, Expr]) -> Expr | None:
    """What is rounded to bf16 here, where that is such an exponential, or 0."""
    if n.op != "cast" or n.dtype is not bf16 or n.args[0].dtype is not f32:
        return None
    (value,) = n.args
    if value.op == "where" and value.args[2].is_const and value.args[2].attr == 0:
        condition, chosen, nothing = value.args
        found = chosen if chosen in small else _exponential(chosen)
        return None if found is None else where(condition, found, nothing)
    return value if value in small else _exponential(value)


def _only_rounded(value: Expr, rest: Block) -> bool:
    """Whether a value is only read to be rounded to bf16."""
    small = {value: value}
    bare = map_expressions(rest, lambda e: rewrite(e, lambda n: const(0.0, bf16) if _before(n, small) is not None else None))
    return not any(value.attr in e.names for s in bare for e in s.expressions())


def _rounded(x: Expr) -> Expr:
    return make("ins", bf16, (x,), ROUNDED.name)
