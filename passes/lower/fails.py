"""A failed check among threads.

One thread of a team cannot leave the function: `fail` sets a flag there, and the function returns it when the team is done.  What a check protects must
not run all the same, so it moves under the check:

    if not (at[j] < N):              if not (at[j] < N):
      fail 3                    →      fail 3
    y[j] = b[at[j]]                  else:
                                       y[j] = b[at[j]]
"""

from __future__ import annotations

from ...ir import program as p


def protect(body: p.Block, team: bool) -> p.Block:
    """`team`: many threads run this body (they do on a GPU, in a region and in a parallel loop)."""
    result: list[p.Stmt] = []
    for place, s in enumerate(body):
        if team and isinstance(s, p.If) and len(s.body) == 1 and isinstance(s.body[0], p.Fail) and not s.orelse:
            rest = protect(body[place + 1 :], team)
            return (*result, p.If(s.condition, s.body, rest))
        result.append(_inside(s, team))
    return tuple(result)


def _inside(s: p.Stmt, team: bool) -> p.Stmt:
    match s:
        case p.For():
            return p.with_body(s, protect(s.body, team or s.pragma == "parallel"))
        case p.Region():
            return p.with_body(s, protect(s.body, True))
        case p.While():
            return p.with_body(s, protect(s.body, team))
        case p.If():
            return p.If(s.condition, protect(s.body, team), protect(s.orelse, team))
        case _:
            return s
