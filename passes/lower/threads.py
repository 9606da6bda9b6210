"""Parallel loops, regions and workshares as far as the target has threads; what is left over is a plain loop.

The outermost parallel loop is divided among threads; loops inside it, and everything on a target without threads, stay serial.  Waking threads costs
some microseconds, so a loop carries the condition under which one thread does it all (`work.py`).
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import program as p
from ...ir.expr import TRUE
from .work import little_work


def threads(body: p.Block, wanted: bool) -> p.Block:
    """`wanted`: the target has threads; without them a region runs once and its barriers are void."""
    return _block(body, wanted, "")


def _block(body: p.Block, wanted: bool, inside: str) -> p.Block:
    return tuple(t for s in body for t in _statement(s, wanted, inside))


def _statement(s: p.Stmt, wanted: bool, inside: str) -> p.Block:
    match s:
        case p.For(pragma="parallel") if wanted and not inside and (condition := little_work((s,))) is not TRUE:
            return (replace(s, body=_block(s.body, wanted, "parallel"), serial_if=condition),)
        case p.For(pragma="workshare") if wanted and inside == "region":
            return (p.with_body(s, _block(s.body, wanted, "workshare")),)
        case p.For(pragma="parallel" | "workshare"):
            return (replace(s, body=_block(s.body, wanted, inside), pragma=""),)
        case p.For() | p.While():
            return (p.with_body(s, _block(s.body, wanted, inside)),)
        case p.If():
            return (p.If(s.condition, _block(s.body, wanted, inside), _block(s.orelse, wanted, inside)),)
        case p.Region() if wanted and not inside and (condition := little_work(s.body)) is not TRUE:
            return (p.Region(_block(s.body, wanted, "region"), condition),)
        case p.Region():
            return _block(s.body, False, inside)
        case p.Barrier() if not (wanted and inside == "region"):
            return ()
        case _:
            return (s,)
