"""uncollapse: program → program.  A loop that stands for two is two again, where its iterations divide to find out where each is.

                                for q in begin // C .. ceil(end / C):
    for x in begin .. end:        for r in max(begin - q * C, 0) .. min(end - q * C, C):
      S(x // C, x % C)      →       S(q, r)

So is the outer one of the two, where q is divided too.  Two axes were made one for the threads to share; what each of them then runs from one end to the other stands in a loop by itself (`outline.py`).
Machines divide 64 bits in ten to twenty cycles, one after the other, as long as a row of a few vectors takes.  (Zen 4, one thread, floats: 1000 × 12 rows of 64 whose axes change places 0.6, a bias of 256 channels of 7 × 7 0.8 of the time.)

Only of loops in which stand no loops that hold others: beside more work nobody sees a division.  Without threads all of them: what is divided and what is left of it stand in the address of each row
of a tile, and clang, which then finds no pointer that moves from one iteration to the next, keeps no tile in registers (Granite Rapids, batched products of 128³ and 192³ floats 0.5 and 0.4 of the time, of 100³ complex numbers 0.5).  What is divided by is the same in all iterations; as none runs where it is 0, the beginning is divided by 1 there.
"""

from __future__ import annotations

from ..ir.dtypes import INDEX
from ..ir.expr import ONE, ZERO, Expr, ceildiv, floordiv, maximum, minimum, mod, var
from ..ir.operator_kinds import DIVIDES
from ..ir.program import Array, Block, Define, For, Function, Program, Scratch, Stmt, kinds_in, map_expressions, statements, with_blocks
from ..ir.record import replace
from ..ir.target import Options, Target
from ..ir.walks import postorder, substitution
from .lower.names import Names


def uncollapse(program: Program, target: Target, options: Options) -> Program:
    """In every function; the entry has no loops of its own that matter."""
    taken = [*(s.name for s in program.sizes), *(p.name for p in program.ports), *(f.name for f in program.functions)]
    return program.with_functions(tuple(_function(f, taken, not target.threads) if kinds_in(f.body) & DIVIDES else f for f in program.functions))


def _function(f: Function, taken: list[str], alone: bool) -> Function:
    return replace(f, body=_block(f.body, Names([*taken, *(p.name for p in f.params), *_defined(f.body)]), alone))


def _defined(block: Block) -> list[str]:
    return [s.var if isinstance(s, For) else s.name for s in statements(block) if isinstance(s, (For, Define, Array, Scratch))]


def _block(block: Block, names: Names, alone: bool) -> Block:
    return tuple(t for s in block for t in _statement(s, names, alone))


def _statement(s: Stmt, names: Names, alone: bool) -> Block:
    """`alone`: there are no threads, so no loop need stand for two."""
    if isinstance(s, For) and not kinds_in(s.body) & DIVIDES:
        return (s,)
    if (
        isinstance(s, For)
        and s.pragma == ""
        and s.step is ONE
        and (alone or not any(isinstance(x, For) and _holds_loops(x) for x in statements(s.body)))
    ):
        return _two(s, {s.var, *_defined(s.body)}, names)
    return (with_blocks(s, lambda b: _block(b, names, alone)),)


def _holds_loops(s: For) -> bool:
    return any(isinstance(x, For) for x in statements(s.body))


def _two(loop: For, changing: set[str], names: Names) -> Block:
    """The loop as two, the outer one of which may be two again; `changing`: what has another value in another iteration."""
    x = var(loop.var)
    divisor = next((d for d in _divisors(loop.body, x) if changing.isdisjoint(d.names)), None)
    if divisor is None:
        return (loop,)
    outer, inner, last, end = (names.fresh(f"{loop.var}{part}") for part in (".0", ".1", ".last", ".end"))
    q, r = var(outer), var(inner)
    body = map_expressions(loop.body, substitution({floordiv(x, divisor): q, mod(x, divisor): r, x: q * divisor + r}))
    part = Define(end, INDEX, minimum(loop.stop - q * divisor, divisor))
    counted = maximum(divisor, ONE)
    whole = loop.start is ZERO
    rows = For(inner, ZERO if whole else maximum(loop.start - q * divisor, ZERO), var(end), body)
    both = For(outer, ZERO if whole else floordiv(loop.start, counted), var(last), (part, rows))
    return (Define(last, INDEX, ceildiv(loop.stop, counted)), *_two(both, {*changing, outer, inner, end}, names))


def _divisors(body: Block, position: Expr) -> list[Expr]:
    """By what a position is divided, where that is no literal: compilers multiply in place of these divisions."""
    nodes = postorder(*(e for s in statements(body) for e in s.expressions() if e.kinds & DIVIDES))
    divisors = dict.fromkeys(n.args[1] for n in nodes if n.op in ("floordiv", "mod") and n.args[0] is position)
    return [d for d in divisors if not d.is_const and not d.buffers]
