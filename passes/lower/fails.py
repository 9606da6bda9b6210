"""A failed check among threads.

One thread of a team cannot leave the function: `fail` sets a flag there, and the function returns it when the team is done.  What a check protects must
not run all the same, so it moves under the check:

    if not (at[j] < N):              if not (at[j] < N):
      fail 3                    →      fail 3
    y[j] = b[at[j]]                  else:
                                       y[j] = b[at[j]]

So it does under those that stand under an `if` of their own, which are asked only where that holds.
"""

from __future__ import annotations

from ...ir import program as p
from ...ir.expr import FALSE, call


def protect(body: p.Block, team: bool) -> p.Block:
    """`team`: many threads run this body (they do on a GPU, in a region and in a parallel loop)."""
    result: list[p.Stmt] = []
    for place, s in enumerate(body):
        checks = _checks(s) if team else ()
        if checks:
            rest = protect(body[place + 1 :], team)
            for check in reversed(checks):
                rest = (p.If(check.condition, check.body, rest),)
            return (*result, *rest)
        result.append(_inside(s, team))
    return tuple(result)


def _checks(s: p.Stmt) -> tuple[p.If, ...]:
    """The checks that a statement is made of alone, in order, each with all that it is asked under."""
    if not isinstance(s, p.If) or s.orelse:
        return ()
    if len(s.body) == 1 and isinstance(s.body[0], p.Fail):
        return (s,)
    inner = [_checks(t) for t in s.body]
    return tuple(p.If(call("where", s.condition, x.condition, FALSE), x.body) for found in inner for x in found) if all(inner) else ()


def _inside(s: p.Stmt, team: bool) -> p.Stmt:
    match s:
        case p.For():
            return p.with_body(s, protect(s.body, team or s.pragma == "parallel"))
        case p.Region():
            return p.with_body(s, protect(s.body, True))
        case _:
            return p.with_blocks(s, lambda b: protect(b, team))
