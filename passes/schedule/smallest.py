"""What `screen` asks of elements that are multiplied where they were written: the smallest, found while they are."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...ir.dtypes import u16, u32
from ...ir.expr import ZERO, Expr, call, cast, const, load, var
from ...ir.kernel import Alloc, Block, Buffer, If, Kernel, Let, Loop, Stmt, Store, statements, written
from ...ir.record import replace
from .tree import StepError, fresh, replace_in, walk_paths


def smallest_written(kernel: Kernel, reader: Loop, held: Buffer, taken: set[str]) -> tuple[Kernel, str]:
    """The kernel with the smallest magnitude, less 1, of all that is written into a local buffer of small floats in an iteration of the innermost loop around who writes and the loop that reads it;
    and the name of where that is.

                                        alloc W.lanes: u16[128] private
                                        W.lanes[…] = the largest
        for j, n:                  →    for j, n:
          W[j, n] = x                     W[j, n] = x
                                          W.lanes[n] min= the magnitude of x (its bits, where it has no sign)
                                        W.least[] = min over n of W.lanes[n]
        for p: … W[i, p] …              for p: … W[i, p] …
    """
    paths = [(*outer, s) for s, outer in walk_paths(kernel.body) if isinstance(s, Store) and s.buffer == held.name]
    reading = next((*outer, s) for s, outer in walk_paths(kernel.body) if s is reader)
    common = 0
    while all(path[common] is reading[common] for path in paths):
        common += 1
    home = reading[common - 1] if common else None
    if not isinstance(home, Loop) or not held.shape[-1].is_const or held.dtype.bits != 16:
        raise StepError(f"screen: `{held.name}` is not written in a loop around `{reader.axis}`")
    lanes = Buffer(fresh(f"{held.name}.lanes", taken), u16, held.shape[-1:], "private", align=64)
    least = Buffer(fresh(f"{held.name}.least", taken), u32, (), "register")
    one = Buffer(fresh("least", taken), u16, (), "register")
    start, lane = fresh("c", taken), fresh("c", taken)
    most = const(u16.max, u16)
    begin: Block = (
        Alloc(least),
        Alloc(lanes),
        Loop(start, ZERO, held.shape[-1], (Store(lanes.name, (var(start),), most),), "parallel"),
    )
    end: Block = (
        Alloc(one),
        Store(one.name, (), most),
        Loop(lane, ZERO, held.shape[-1], (Store(one.name, (), load(lanes.name, u16, var(lane)), "min"),), "reduce"),
        Store(least.name, (), cast(u32, load(one.name, u16))),
    )

    names = {s.name: s.value for s in statements(home.body) if isinstance(s, Let)}

    def counted(s: Stmt) -> Block:
        if isinstance(s, Store) and s.buffer == held.name:
            word = var(fresh("word", taken), held.dtype)
            bits = call("bitcast", word, to=u16)
            size = call("sub", bits if _without_sign(s.value, names) else call("bit_and", bits, const(0x7FFF, u16)), const(1, u16))
            return (Let(word.attr, s.value), replace(s, value=word), Store(lanes.name, s.index[-1:], size, "min"))
        if held.name not in written((s,)):
            return (s,)
        if isinstance(s, Loop):
            moves = any(isinstance(t, Store) and t.buffer == held.name and s.axis in t.index[-1].names for t, _ in walk_paths(s.body))
            return (replace(s, body=tuple(t for x in s.body for t in counted(x)), kind=s.kind if moves or s.kind != "parallel" else "serial"),)
        if isinstance(s, If):
            return (If(s.condition, tuple(t for x in s.body for t in counted(x)), tuple(t for x in s.orelse for t in counted(x))),)
        raise StepError(f"screen: `{held.name}` is written by a {type(s).__name__.lower()}")

    writing = [s for s in home.body if held.name in written((s,))]
    body: list[Stmt] = []
    for s in home.body:
        if s is writing[0]:
            body += begin
        body += counted(s) if any(s is w for w in writing) else (s,)
        if s is writing[-1]:
            body += end
    return kernel.with_body(replace_in(kernel.body, home, (replace(home, body=tuple(body)),))), least.name


def _without_sign(e: Expr, names: Mapping[str, Expr]) -> bool:
    """Whether a float is seen to have none; NaN may have one, and is no small number with it either."""
    match e.op:
        case "exp" | "exp2" | "abs":
            return True
        case "const":
            return math.copysign(1, e.attr) > 0
        case "var":
            return e.attr in names and _without_sign(names[e.attr], names)
        case "cast":
            return e.args[0].dtype.is_float and _without_sign(e.args[0], names)
        case "where":
            return all(_without_sign(x, names) for x in e.args[1:])
        case _:
            return False
