"""An element that the iterations of a loop read and store is in a register meanwhile.

    for k in 0 .. j:                                s = A[i, j]
      A[i, j] -= A[i, k] * A[j, k]          →       for k in 0 .. j: s -= A[i, k] * A[j, k]
                                                    A[i, j] = s

A sum in memory waits for each store, and nothing that makes vectors, tiles or blocks of sums knows it.  Whatever else the loop reads of the array, or stores into it, must be other
elements: that is asked of the nest as it would stand (`dependence.py`; here k < j).  Where it touches no other, there is nothing to ask, and `carry.py` does it when loops over rows have been found by their form.
Source: Callahan, Carr and Kennedy, Improving register allocation for subscripted variables (1990).
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.bounds import Known
from ...ir.expr import ZERO, load
from ...ir.kernel import Alloc, Block, Buffer, Let, Loop, Nest, Region, Stmt, Store, While, accesses, map_block, map_expressions, statements
from ...ir.record import replace
from ...ir.renaming import Names, defined
from ...ir.simplify import prove_le
from ...ir.walks import postorder, substitute
from ..schedule.affine import inside
from .dependence import Dependences
from .loop_events import Events
from .reordered import all_accesses, may_touch


def kept_elements(nest: Nest, pairs: Dependences) -> Nest:
    """The nest with such elements in registers, each in the outermost loop that lets it."""
    asked: set[tuple[str, Store]] = set()
    while True:
        found = next(((x, s) for x, s in _elements(nest, pairs.known) if (x.axis, s) not in asked), None)
        if found is None:
            return nest
        loop, store = found
        asked.add((loop.axis, store))
        nest = _kept(nest, loop, store, pairs) or nest


def _elements(nest: Nest, known: Known) -> Iterator[tuple[Loop, Store]]:
    """Loops with a store of one element of an array, which is there, that they read or add to."""
    held = {b.name: b for b in (*nest.operands, *nest.results)} | {s.buffer.name: s.buffer for s in statements(nest.body) if isinstance(s, Alloc)}
    for loop, path in _loops(nest.body, ()):
        stated = statements(loop.body)
        if any(isinstance(s, (While, Region)) for s in stated):
            continue
        inner = {loop.axis} | {s.axis for s in stated if isinstance(s, Loop)} | {s.name for s in stated if isinstance(s, Let)}
        own = {s.buffer.name for s in stated if isinstance(s, Alloc)}
        for s in stated:
            if not isinstance(s, Store) or not s.index or s.buffer in own or any(e.buffers or e.names & inner for e in s.index):
                continue
            if any(isinstance(x, Loop) and x.kind == "parallel" and not any(x.axis in e.names for e in s.index) for x in path):
                continue
            there = inside(path, known)
            if all(prove_le(ZERO, e, there) and prove_le(e, extent - 1, there) for e, extent in zip(s.index, held[s.buffer].shape, strict=True)) and (
                s.combiner or any(n.op == "load" and n.attr == s.buffer and n.args == s.index for t in stated for n in postorder(*t.expressions()))
            ):
                yield loop, s


def _loops(block: Block, path: tuple[Stmt, ...]) -> Iterator[tuple[Loop, tuple[Stmt, ...]]]:
    for s in block:
        if isinstance(s, Loop):
            yield s, path
        for inner in s.blocks():
            yield from _loops(inner, (*path, s))


def _kept(nest: Nest, loop: Loop, store: Store, pairs: Dependences) -> Nest | None:
    """The nest with what the loop stores there in a register; None where the loop may touch the element in other ways."""
    name, index = store.buffer, store.index
    names = Names({b.name for b in (*nest.operands, *nest.results)} | set(defined(nest.body)))
    scalar = Buffer(names.fresh(f"{name}.now"), store.value.dtype, (), "register")
    there = load(name, store.value.dtype, *index)
    now = load(scalar.name, scalar.dtype)

    def into(s: Stmt) -> Block | None:
        return (replace(s, buffer=scalar.name, index=(), stream=None),) if isinstance(s, Store) and s.buffer == name and s.index == index else None

    body = map_block(map_expressions(loop.body, lambda e: substitute(e, {there: now})), into)
    end = Store(name, index, now, span=store.span)
    inner = replace(loop, body=body)
    block = (Alloc(scalar), Store(scalar.name, (), there, span=store.span), inner, end)
    kept = replace(nest, body=map_block(nest.body, lambda s: block if s is loop else None))
    return kept if _alone(kept, inner, end, pairs) else None


def _alone(nest: Nest, loop: Loop, end: Store, pairs: Dependences) -> bool:
    """Whether the loop touches other elements of the array, and no iteration what is stored behind it."""
    if not any(name == end.buffer for name, _ in accesses(loop.body)):
        return False  # all of it is the element: a loop over rows that others may join is found by its form first (`carry.py`)
    found = Events(nest, pairs.known)
    trips = {v for v, x in found.loops.items() if x is loop}
    stored = [e for e in found.events if id(end) in e.stores]
    if not trips or not stored:
        return False
    touching = [a for a in all_accesses(found) if a.buffer == end.buffer and trips & {t.var for t in a.loops}]
    return not any(may_touch(e, a, len(e.loops), found, pairs) for e in stored for a in touching)
