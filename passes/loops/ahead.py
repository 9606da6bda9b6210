"""A loop in order, each iteration of which sums one element over those before it, in blocks: what is summed up to the block lies side by side, and is summed in vectors.

                                                       for b in 0 .. N step 16:
                                                         for j in b .. min(b + 16, N) parallel:
                                                           s = -∞
    for j in 0 .. N:                                       for k in 0 .. b: s max= T[i, k] + T[k + 1, j]
      s = T[i, j]                                          partial[j - b] = s
      for k in 0 .. j: s max= T[i, k] + T[k + 1, j]  →   for j in b .. min(b + 16, N):
      T[i, j] = s                                          s = T[i, j]
                                                           s max= partial[j - b]
                                                           for k in b .. j: s max= T[i, k] + T[k + 1, j]
                                                           T[i, j] = s

Element by element, the sum goes down a column, a line of memory for each term; of sixteen elements it reads whole lines.  `in_blocks.py` does so where an iteration sums several elements.  What the sum reads must move by
one with the loop, or not at all, and nothing of it may be stored in the block before its iteration: that is asked of the nest as it would stand.  --strict forbids it for sums and products of floats.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.bounds import Known, Range
from ...ir.conditions import negated
from ...ir.expr import ONE, ZERO, const, load, maximum, minimum, var
from ...ir.kernel import (
    Alloc,
    Block,
    Buffer,
    Check,
    If,
    Let,
    Loop,
    Nest,
    Store,
    While,
    identity_of,
    loads_in,
    map_block,
    statements,
    substitute_block,
)
from ...ir.polynomial import is_constant, plus, poly
from ...ir.record import replace
from ...ir.renaming import Names, defined, unique_locals
from ...ir.simplify import assuming, prove_le, simplify
from ..schedule.affine import inside as within
from .dependence import Dependences
from .loop_events import Events
from .loop_records import Event
from .reordered import inside, may_touch, position

BLOCK = 16  # a line of 4 bytes, two vectors of 8
SHORT = 32  # iterations of which blocks bring nothing


def ahead(nest: Nest, pairs: Dependences, strict: bool) -> Nest:
    """The nest with such loops in blocks."""
    for loop, known in list(loops_in(nest.body, pairs.known)):
        found = _summed(loop, strict)
        if found is None or prove_le(loop.stop - loop.start, const(SHORT), known):
            continue
        block = _Block(nest, loop, found)
        if block.as_before(pairs):
            nest = block.nest(block.loop)
    return nest


def loops_in(block: Block, known: Known) -> Iterator[tuple[Loop, Known]]:
    """The loops, each with what is known where it begins."""
    for s in block:
        if isinstance(s, Loop):
            yield s, known
            ends = known.with_ranges({s.axis: Range(s.start, s.stop - 1)}, within=known) if s.step.is_const and s.step.attr > 1 else None
            yield from loops_in(s.body, ends or within((s,), known))
        elif isinstance(s, If):
            yield from loops_in(s.body, assuming(known, s.condition))
            yield from loops_in(s.orelse, assuming(known, negated(s.condition, known)))
        else:
            for inner in s.blocks():
                yield from loops_in(inner, known)


def _summed(loop: Loop, strict: bool) -> Loop | None:
    """The loop inside it that adds up an element, if it is longer by one in each iteration and reads elements side by side; None where there is none, or several loops are."""
    if loop.kind != "serial" or loop.step is not ONE or any(isinstance(s, (Check, While)) for s in statements(loop.body)):
        return None
    inner = [s for s in statements(loop.body) if isinstance(s, Loop)]
    (one,) = inner if len(inner) == 1 and any(s is inner[0] for s in loop.body) else (None,)
    if one is None or one.step is not ONE or loop.axis in one.start.names or not is_constant(plus(poly(one.stop), poly(var(loop.axis)), -1)):
        return None
    *lets, s = one.body
    if not isinstance(s, Store) or s.index or not s.combiner or not all(isinstance(x, Let) for x in lets):
        return None
    if strict and s.value.dtype.is_float and s.combiner in ("add", "mul"):
        return None
    own = {x.buffer for x in statements(loop.body) if isinstance(x, Store) and not x.index} | {
        x.buffer.name for x in statements(loop.body) if isinstance(x, Alloc)
    }
    named = {x.name for x in loop.body if isinstance(x, Let)}
    read = [n for x in one.body for n in loads_in(*x.expressions())]
    if any(n.attr in own or n.names & named for n in read) or any(e.names & named for x in one.body for e in x.expressions()):
        return None
    beside = [
        poly(n.args[-1]).get((var(loop.axis),)) == 1 and all(loop.axis not in e.names for e in n.args[:-1]) for n in read if loop.axis in n.names
    ]
    return one if beside and all(beside) else None


class _Block:
    def __init__(self, nest: Nest, loop: Loop, summed: Loop) -> None:
        self.whole, self.old = nest, loop
        names = Names({b.name for b in (*nest.operands, *nest.results)} | set(defined(nest.body)))
        begin, j = var(names.fresh("block")), var(loop.axis)
        store = next(s for s in summed.body if isinstance(s, Store))
        self.partial = Buffer(names.fresh("partial"), store.value.dtype, (const(BLOCK),), "private")
        total = Buffer(names.fresh(store.buffer), store.value.dtype, (), "register")
        bound = known = simplify(summed.stop - j + begin)  # before the start of the sum, there is none
        beyond = plus(poly(summed.stop - j + loop.start), poly(summed.start), -1)  # in the first block
        if not is_constant(beyond) or beyond.get((), 0) < 0:
            bound = maximum(bound, summed.start)
        part = map_block(summed.body, lambda s: (replace(s, buffer=total.name),) if s is store else None)
        body: Block = (
            Alloc(total),
            Store(total.name, (), identity_of(store.combiner, total.dtype), span=store.span),
            replace(summed, stop=known, body=part),
            Store(self.partial.name, (j - begin,), load(total.name, total.dtype), span=store.span),
        )
        here = {j: begin + j}  # counted from 0, it is seen to be no longer than a block
        (first,) = unique_locals(
            (replace(loop, start=ZERO, stop=minimum(const(BLOCK), loop.stop - begin), body=substitute_block(body, here)),), names.fresh
        )
        assert isinstance(first, Loop)
        self.first = first
        stop = minimum(begin + BLOCK, loop.stop)
        whole = replace(store, value=load(self.partial.name, total.dtype, j - begin))
        rest = map_block(loop.body, lambda s: (whole, replace(summed, start=bound)) if s is summed else None)
        self.rest = replace(loop, start=begin, stop=stop, body=rest)
        self.loop = replace(loop, axis=begin.attr, step=const(BLOCK), body=(self.first, self.rest))

    def nest(self, loop: Loop) -> Nest:
        return replace(self.whole, body=map_block(self.whole.body, lambda s: (Alloc(self.partial), loop) if s is self.old else None))

    def as_before(self, pairs: Dependences) -> bool:
        """Whether nothing that is read ahead would have been stored in the block before, or in the iteration itself."""
        found = Events(self.nest(self.loop), pairs.known)
        stores = [(e, k) for e, k in inside(found, self.rest) if isinstance(e, Event)]
        return not any(
            may_touch(
                e, r, k, found, pairs, position(e.loops[k].var, found).le(position(r.loops[k - 1].var, found) + position(r.loops[k].var, found))
            )
            for r, _ in inside(found, self.first)
            for e, k in stores
            if e.buffer == r.buffer
        )


__all__ = ["ahead", "loops_in"]
