"""simplify_index: program → program.  Addresses, bounds and conditions in their simplest form, given what the loops around them say.

    for i in 0 .. 8:                              for i in 0 .. 8:
      if i < 8:                             →       y[i] = x[i]
        y[(i*4 + 3) // 4] = x[i + 0]

What is known: the sizes (min, max, multiple), the preconditions, the range of each loop around, the conditions of each `if` around, the lets.  A condition
that always holds goes, a loop of one trip becomes its body, a loop of none nothing, vectors that are known to be whole are loaded and stored so (`whole_vectors.py`).  The meaning is kept exactly; values of floats are left alone.
"""

from __future__ import annotations

from typing import Final

from ..ir import polynomial as pl
from ..ir.bounds import Known, Range
from ..ir.dtypes import INDEX
from ..ir.expr import FALSE, ONE, TRUE, ZERO, Expr, call, var
from ..ir.graph import Size
from ..ir.program import Block, Define, For, If, Program, Region, Stmt, While, map_expressions, with_body, with_expressions
from ..ir.record import replace
from ..ir.simplify import assuming, prove_le, simplify
from ..ir.target import Options, Target
from ..ir.walks import leaves, substitute
from .programs.whole_vectors import whole_vectors

ONE_TRIP: Final = ("", "unroll")  # loops that may become their body: one that is divided among threads has a meaning beyond its trips


def simplify_index(program: Program, target: Target, options: Options) -> Program:
    """Functions under the preconditions that the entry has checked; the entry itself stays, its order of checks is its meaning."""
    known = known_of(program.sizes, program.requires)
    functions = (
        replace(
            f,
            body=simplify_block(f.body, known),
            grid=tuple(simplify(e, known) for e in f.grid),
            threads=tuple(simplify(e, known) for e in f.threads),
        )
        for f in program.functions
    )
    return replace(program, functions=tuple(functions))


def known_of(sizes: tuple[Size, ...], requires: tuple[Expr, ...]) -> Known:
    """What a kernel may rely on: the declared bounds of the sizes and the preconditions."""
    known = Known({s.name: s for s in sizes})
    for r in requires:
        known = assuming(known, r)
    return known


def simplify_block(block: Block, known: Known) -> Block:
    """The statements with what is known of the sizes and the loops around them put to use."""
    result: list[Stmt] = []
    for s in block:
        result.extend(_statement(s, known))
        if isinstance(s, Define) and not s.mutable and s.dtype is INDEX and s.value is not None and _is_fixed(s.value, known):
            known = known.with_ranges({s.name: _range(s.value, known)})
    return tuple(result)


def _range(e: Expr, known: Known) -> Range:
    """Of a quotient or a remainder by a size, as positions in collapsed loops are, only the bounds: what it is exactly makes proofs long and decides none."""
    if e.op not in ("mod", "floordiv") or e.args[1].is_const or not prove_le(ONE, e.args[1], known):
        return Range(e, e)
    if e.op == "mod":
        return Range(ZERO, e.args[1] - 1, exactly=e)
    return Range(ZERO if prove_le(ZERO, e.args[0], known) else None, exactly=e)


def _is_fixed(e: Expr, known: Known) -> bool:
    """Built of sizes, loop variables, lets of such and where memory begins: the same wherever it stands."""
    return not e.buffers and e.names - {n.attr for n in leaves(e, "to_line")} <= known.ranges.keys()


def _statement(s: Stmt, known: Known) -> Block:
    if isinstance(s, For):
        return _loop(s, known)
    if isinstance(s, If):
        condition = simplify(s.condition, known)
        if condition is TRUE:
            return simplify_block(s.body, known)
        if condition is FALSE:
            return simplify_block(s.orelse, known)
        body = simplify_block(s.body, assuming(known, condition))
        if not s.orelse:
            return (If(condition, body),) if body else ()
        otherwise = simplify(call("bit_not", condition), known)
        orelse = simplify_block(s.orelse, assuming(known, otherwise))
        if not body:
            return (If(otherwise, orelse),) if orelse else ()
        return (If(condition, body, orelse),)
    if isinstance(s, While):
        return (While(simplify(s.condition, known), simplify_block(s.body, known)),)
    if isinstance(s, Region):
        return (Region(simplify_block(s.body, known), None if s.serial_if is None else simplify(s.serial_if, known)),)
    return (with_expressions(s, lambda e: simplify(e, known)),)


def _loop(s: For, known: Known) -> Block:
    start, stop, step = [simplify(e, known) if e.args else e for e in (s.start, s.stop, s.step)]
    up = not step.is_const or step.attr > 0
    first, beyond = (start, stop) if up else (stop, start)
    if step.is_const and prove_le(beyond, first, known):  # it never runs
        return ()
    if step.is_const and s.pragma in ONE_TRIP:
        after = start + step  # where the first trip is the only one
        if (prove_le(stop, after, known) if up else prove_le(after, stop, known)) and prove_le(first + 1, beyond, known):
            return simplify_block(map_expressions(s.body, lambda e: substitute(e, {var(s.var): start})), known)
    header = For(s.var, start, stop, s.body, step, s.pragma, None if s.serial_if is None else simplify(s.serial_if, known))
    if (parts := whole_vectors(header, known)) is not None:
        return tuple(t for part in parts for t in _statement(part, known))
    body = simplify_block(s.body, inside_loop(header, known))
    return (with_body(header, body),) if body else ()


def inside_loop(s: For, known: Known) -> Known:
    """What is known in the body of a loop: its trips, and that there are any.  What does not mention its variable is judged as outside, once for all loops."""
    if not s.step.is_const:
        return known
    up = s.step.attr > 0
    stop = s.stop.attr if s.stop.is_const else s.stop
    range_ = Range(s.start, stop - 1, s.step.attr if s.start.is_const and s.start.attr == 0 else 1) if up else Range(stop + 1, s.start)
    if s.start.is_const and s.stop.is_const:  # half of all loops: the range of the variable says it all
        return known.with_ranges({s.var: range_}, within=known)
    first, beyond = (s.start, s.stop) if up else (s.stop, s.start)
    trips = pl.plus(pl.plus(pl.poly(beyond), pl.poly(first), -1), pl.constant(-1))
    runs = pl.undivided(trips)  # the range of the variable says the rest
    return (known if runs is trips else known.with_facts((runs,))).with_ranges({s.var: range_}, within=known)
