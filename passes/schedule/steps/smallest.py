"""What `screen` asks of elements that are multiplied where they were written: the smallest, found while they are; or, where weights are 0 below some number, only where that number is too small."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ....ir.dtypes import bf16, f32, u16, u32
from ....ir.expr import ZERO, Expr, call, cast, const, load, var
from ....ir.instructions import ROUGH_EXP, WEIGHT
from ....ir.kernel import Alloc, Block, Buffer, If, Kernel, Let, Loop, Stmt, Store, statements, with_blocks, written
from ....ir.record import replace
from ....ir.walks import substitute
from ..tree import StepError, fresh, replace_in, walk_paths


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
    begin: Block = (Alloc(least), Alloc(lanes), Loop(start, ZERO, held.shape[-1], (Store(lanes.name, (var(start),), most),), "parallel"))
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
            return (with_blocks(s, lambda b: tuple(t for x in b for t in counted(x))),)
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


def no_less(kernel: Kernel, held: Buffer) -> int | None:
    """The bits, less 1, of a number that all in a local buffer of bf16 are no less than, but for zeros: exponentials that are 0 below some exponent, as weights are.  None where none is known."""
    if held.dtype is not bf16:
        return None
    names = {s.name: s.value for s in statements(kernel.body) if isinstance(s, Let)}
    stores = [s for s in statements(kernel.body) if isinstance(s, Store) and s.buffer == held.name]
    powers = [None if s.combiner else _least_power(s.value, names) for s in stores]
    found = [p for p in powers if p is not None]
    if not found or len(found) < len(powers):
        return None
    least = math.floor(min(found)) - 1  # one less: what takes it need not be exact
    return (least + 127 << 7) - 1 if least >= -126 else None


def _least_power(e: Expr, names: Mapping[str, Expr]) -> float | None:
    """The power of two that an exponential in f32, rounded or not, is no less than, where it is not 0: weights are 0 below it."""
    if e.op == "var" and e.attr in names:
        return _least_power(names[e.attr], names)
    if e.op == "cast" and e.args[0].dtype is f32:
        return _least_power(e.args[0], names)
    if e.op == "where" and e.args[2].is_const and e.args[2].attr == 0:
        return _least_power(e.args[1], names)
    if e.op == "ins" and e.attr in (WEIGHT.name, ROUGH_EXP.name):
        least = e.args[1]
    elif e.op in ("exp", "exp2") and e.dtype is f32 and (chosen := e.args[0]).op == "where":
        condition, nothing, x = chosen.args
        if condition.op != "less_than" or condition.args[0] is not x or not nothing.is_const or nothing.attr != -math.inf:
            return None
        least = condition.args[1]
    else:
        return None
    return None if not least.is_const else least.attr if e.op == "exp2" else least.attr / math.log(2)


def smallest_asked(reader: Loop, word: Expr, bound: int, enough: Expr, magnitude: Callable[[Expr], Expr], taken: set[str]) -> tuple[Block, Expr]:
    """What finds the smallest magnitude of the words that a loop multiplies, before it, where `enough` does not hold of the `bound`; and where that is.

                                              alloc least: u32[] register
                                              least[] = the bound
                                              if not enough:
                                                least[] = the largest
                                                for i.b reduce:
    for p reduce:                     →           alloc one: u32[] register
      for i, j: … W[i, p] …                       one[] = the largest
                                                  for p.b reduce: one[] min= the magnitude of W[i.b, p.b]
                                                  least[] min= one[]
                                              for p reduce: …
    """
    least, one = (Buffer(fresh("least", taken), u32, (), "register") for _ in range(2))
    loops = [s for s in statements((reader,)) if isinstance(s, Loop) and s.axis in word.names]
    loops.sort(key=lambda x: x.kind == "reduce" or x.axis == reader.axis)  # words of a row are neighbours
    new = {x.axis: var(fresh(x.axis, taken)) for x in loops}
    largest = const(u32.max, u32)
    words: Block = (Store(one.name, (), magnitude(substitute(word, {var(a): e for a, e in new.items()})), "min"),)
    for k, x in enumerate(reversed(loops)):
        words = (Loop(new[x.axis].attr, ZERO, x.stop, words, "reduce"),)
        if not k:
            words = (Alloc(one), Store(one.name, (), largest), *words, Store(least.name, (), load(one.name, u32), "min"))
    asked = If(call("bit_not", enough), (Store(least.name, (), largest), *words))
    return (Alloc(least), Store(least.name, (), const(bound, u32)), asked), load(least.name, u32)
