"""The loops of a nest that stays loops: which have independent iterations, and may run in any order, and which only accumulate."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from ...ir.expr import ONE, Expr, load, var, where
from ...ir.kernel import Alloc, Block, If, Let, Loop, Nest, Stmt, Store, identity_of, loads_in, map_block, statements, with_blocks, written
from ...ir.record import replace
from ...ir.verify.kernel import Nested
from ...ir.verify.races import accumulations, races
from ...ir.walks import postorder
from .accumulations import peeled
from .dependence import Access, Dependences
from .loop_events import Events
from .loop_records import Event
from .steady import in_iteration


def marked(nest: Nest, pairs: Dependences) -> Nest:
    """The nest with its independent loops parallel: those whose iterations are proven to touch different elements, and that later passes can follow."""
    found = pairs.events(nest)
    free = {id(loop) for v, loop in found.loops.items() if isinstance(loop, Loop) and _independent(v, loop, found, pairs)}
    if not _can_be_followed(nest, free, pairs):  # one of them, at least
        free = {loop for loop in free if _can_be_followed(nest, {loop}, pairs)}
    nest = replace(nest, body=_marked(nest.body, free)) if free else nest

    def reduction(s: Stmt) -> Block | None:
        combining = with_blocks(s, lambda b: map_block(b, _combining)) if isinstance(s, Loop) and s.kind == "serial" else s
        return (_reduction(combining),) if isinstance(combining, Loop) and _accumulates(combining) else None

    return replace(nest, body=map_block(nest.body, reduction))


def _can_be_followed(nest: Nest, free: set[int], pairs: Dependences) -> bool:
    """Whether later passes can see that the iterations of these loops are independent."""
    if not free:
        return True
    body = Nested(replace(nest, body=_marked(nest.body, free)), frozenset(pairs.known.ranges))
    return not any(True for _ in chain(races(body), accumulations(body)))


def followed(nest: Nest, pairs: Dependences) -> Nest:
    """The nest in whose local arrays, now tensors, later passes can follow that iterations are independent: where they cannot, only the outermost loops stay parallel."""
    if not any(True for _ in races(Nested(nest, frozenset(pairs.known.ranges)))):
        return nest

    return replace(nest, body=_outermost(nest.body))


def _outermost(block: Block) -> Block:
    """With the loops inside of parallel ones in order."""

    def serial(s: Stmt) -> Block | None:
        return (replace(s, kind="serial"),) if isinstance(s, Loop) and s.kind == "parallel" else None

    return tuple([with_blocks(s, (lambda b: map_block(b, serial)) if isinstance(s, Loop) and s.kind == "parallel" else _outermost) for s in block])


def _combining(s: Stmt) -> Block | None:
    """x = max(x, e)  →  x max= e"""
    found = peeled(s.value, load(s.buffer, s.value.dtype, *s.index)) if isinstance(s, Store) and not s.combiner else None
    return (replace(s, combiner=found[0], value=found[1]),) if found is not None and found[0] else None


def _reduction(loop: Loop) -> Loop:
    """A loop that accumulates.  What it adds under an `if` is a choice: lanes side by side take no branches.

    if x > t: acc[] add= x        →        acc[] add= where(x > t, x, 0)
    """

    def chosen(s: Stmt) -> Block | None:
        if not isinstance(s, If) or not all(isinstance(t, Store) and not t.index for t in (*s.body, *s.orelse)):
            return None
        yes, no = ({(t.buffer, t.combiner): t for t in branch if isinstance(t, Store)} for branch in (s.body, s.orelse))
        if len(yes) + len(no) < len(s.body) + len(s.orelse):  # twice into one place
            return None
        result: list[Stmt] = []
        for place, t in {**no, **yes}.items():
            nothing = identity_of(t.combiner, t.value.dtype)
            values = (side[place].value if place in side else nothing for side in (yes, no))
            result.append(replace(t, value=where(s.condition, *values)))
        return tuple(result)

    return replace(loop, kind="reduce", body=map_block(loop.body, chosen))


def _accumulates(loop: Loop) -> bool:
    """Whether all that the iterations of a loop in order do is to accumulate, into places that they share and do not read: `for p: acc[] add= e(p)`."""
    inside = statements(loop.body)
    if loop.kind != "serial" or loop.step is not ONE or not all(isinstance(s, (Let, Store, Loop, If)) for s in inside):
        return False
    stores = [s for s in inside if isinstance(s, Store)]
    named = {var(loop.axis), *(var(s.name, s.value.dtype) for s in inside if isinstance(s, Let))}
    read = {n.attr for s in inside for n in loads_in(*s.expressions())}
    return bool(stores) and all(s.combiner and s.buffer not in read and named.isdisjoint(postorder(*s.index)) for s in stores)


def _independent(v: Expr, loop: Loop, found: Events, pairs: Dependences) -> bool:
    own = {s.buffer.name for s in statements(loop.body) if isinstance(s, Alloc)}
    shared = written(loop.body) - own
    return loop.step is ONE and not any(name in found.scalars for name in shared) and not any(conflicts(v, found, pairs))


def conflicts(v: Expr, found: Events, pairs: Dependences, without: frozenset[int] = frozenset()) -> Iterator[bool]:
    """For each store inside the loop, but those of `without` (by `id`), and each access to its buffer there: may two iterations touch one element?"""
    inside: dict[tuple[str, int], list[Access]] = {}  # by buffer and loops around
    stores: list[tuple[Access, int]] = []
    for a, depth in found.within(v):
        inside.setdefault((a.buffer, depth), []).append(a)
        if isinstance(a, Event) and without.isdisjoint(a.stores):
            stores.append((a, depth))
    seen: dict[int, Access] = {}  # as one iteration sees them, by `id`: made as they are asked for, since many a loop is decided by its first pair

    def within(a: Access, depth: int) -> Access:
        if id(a) not in seen:
            seen[id(a)] = in_iteration(a, depth, found)
        return seen[id(a)]

    for a, depth in stores:
        for b in inside[a.buffer, depth]:
            one, other = within(a, depth), within(b, depth)
            yield not (pairs.apart(one, other, depth) and pairs.apart(other, one, depth))


def _marked(block: Block, free: set[int]) -> Block:
    inside = [with_blocks(s, lambda b: _marked(b, free)) for s in block]
    return tuple(replace(t, kind="parallel") if isinstance(t, Loop) and id(s) in free else t for s, t in zip(block, inside, strict=True))
