"""Parallel loops, regions and workshares as far as the target has threads; what is left over is a plain loop.

The outermost parallel loop is divided among threads; loops inside it, and everything on a target without threads, stay serial.  Waking threads costs
some microseconds, so a loop carries the condition under which one thread does it all (`work.py`).
"""

from __future__ import annotations

from typing import Final

from ...ir import program as p
from ...ir.dtypes import INDEX
from ...ir.expr import TRUE, Expr
from ...ir.record import replace
from .work import little_work

SHARED: Final = ("parallel", "workshare", "queue")  # loops that are divided among threads, where there are some


def threads(body: p.Block, wanted: bool, gpu: bool = False) -> p.Block:
    """`wanted`: the target has threads; without them a region runs once and its barriers are void.  On a GPU the threads are there already, and barriers are theirs."""
    return p.map_block(body, _plain) if gpu else _block(body, wanted, "", {})


def _plain(s: p.Stmt) -> p.Block | None:
    if isinstance(s, p.For) and s.pragma in SHARED:
        return (replace(s, pragma=""),)
    return s.body if isinstance(s, p.Region) else None


def _block(body: p.Block, wanted: bool, inside: str, names: dict[str, Expr]) -> p.Block:
    """`names`: the positions that have one by now."""
    result: list[p.Stmt] = []
    for s in body:
        if isinstance(s, p.Define) and not s.mutable and s.dtype is INDEX and s.value is not None:
            names = {**names, s.name: s.value}
        result += _statement(s, wanted, inside, names)
    return tuple(result)


def _statement(s: p.Stmt, wanted: bool, inside: str, names: dict[str, Expr]) -> p.Block:
    if isinstance(s, p.For):
        if s.pragma == "parallel" and wanted and not inside and (condition := little_work((s,), names)) is not TRUE:
            return (replace(s, body=_block(s.body, wanted, "parallel", names), serial_if=condition),)
        if s.pragma in ("workshare", "queue") and wanted and inside == "region":
            return (p.with_body(s, _block(s.body, wanted, "workshare", names)),)
        body = _block(s.body, wanted, inside, names)
        return (replace(s, body=body, pragma=""),) if s.pragma in SHARED else (p.with_body(s, body),)
    if isinstance(s, p.Region):
        if wanted and not inside and (condition := little_work(s.body, names)) is not TRUE:
            return (p.Region(_block(s.body, wanted, "region", names), condition),)
        return _block(s.body, False, inside, names)
    if isinstance(s, p.Barrier) and not (wanted and inside == "region"):
        return ()
    return (p.with_blocks(s, lambda b: _block(b, wanted, inside, names)),)
