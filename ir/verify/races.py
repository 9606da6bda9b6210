"""The two rules on what runs at the same time: reading what another iteration writes, and accumulating into one place."""

from __future__ import annotations

from collections.abc import Container, Iterator

from ..bounds import Known, Range
from ..expr import ONE, ZERO, Expr, var
from ..kernel import Alloc, Barrier, If, Loop, Store, While, statements
from ..polynomial import coefficient, is_constant, plus, poly
from ..simplify import assuming, prove, prove_le
from ..walks import leaves, postorder, substitute
from .body import CONCURRENT, Body, Place

Index = tuple[Expr, ...]


def races(body: Body, axes: Container[str] | None = None) -> Iterator[str]:
    """For each axis whose iterations run at the same time: a load of a global or shared buffer that an enclosed statement stores to must be at an index that moves with the axis
    as the stored one does, or apart from it.  A loop in order may read what it likes: its order is written down.  `axes`: of these alone."""
    for loop, places in _concurrent(body):
        if axes is not None and loop.axis not in axes:
            continue
        stored = [(s, at) for s, at in _stores(body, places) if not _is_copy(s, at)]  # of which `arrivals` has more to say
        written = frozenset([s.buffer for s, _ in stored])
        readers = [p for p in places if not written.isdisjoint(p.loaded)] if stored else []  # few results are read again
        stretch = _stretches(loop, places) if readers else {}
        for s, at in stored:
            for p in readers:
                if stretch.get(id(at)) != stretch.get(id(p)):
                    continue
                for n in p.names if p.reads(s.buffer) else ():
                    if n.op == "load" and n.attr == s.buffer and not _separate(body, loop, (s.index, at), (n.args, p)) and not _is_alone(loop):
                        yield f"iterations of {loop.axis} ({loop.kind}) store {s.buffer}[{_list(s.index)}] and read {n!r}"


def overwrites(body: Body, axes: Container[str]) -> Iterator[str]:
    """For each of the axes whose iterations run at the same time: two stores of different iterations to one place, whose order would decide."""
    for loop, places in _concurrent(body):
        if loop.axis not in axes:
            continue
        stored = list(_stores(body, places))
        stretch = _stretches(loop, places)
        for k, (s, at) in enumerate(stored):
            for t, there in stored[k + 1 :]:
                if (
                    s.buffer == t.buffer
                    and stretch.get(id(at)) == stretch.get(id(there))
                    and not _separate(body, loop, (s.index, at), (t.index, there))
                ):
                    yield f"iterations of {loop.axis} ({loop.kind}) store {s.buffer}[{_list(s.index)}] and {t.buffer}[{_list(t.index)}]"


def arrivals(body: Body) -> Iterator[str]:
    """What is on its way into memory that threads share is read by nobody: a read in the same loop around barriers is elsewhere, by a remainder, in each stretch in which the copy may be."""
    places = body.places
    for k, at in enumerate(places):
        s = at.stmt
        if not isinstance(s, Store) or not _is_copy(s, at):
            continue
        around = [x for x in at.loops() if any(isinstance(t, Barrier) for t in statements(x.body)) and not x.kind.startswith(("block.", "thread."))]
        if not around:
            continue  # it is waited for behind
        loop = around[-1]
        barriers = [(n, p.stmt.later) for n, p in enumerate(places) if isinstance(p.stmt, Barrier) and loop in p.around]
        begun = [
            tuple([substitute(body.expanded(e), {var(loop.axis): var(loop.axis) - ago}) for e in s.index])
            for ago in range(max(later for _, later in barriers) + 1)
        ]
        for n, p in enumerate(places):
            if loop not in p.around or not p.reads(s.buffer) or any(k < b < n and not later for b, later in barriers):
                continue
            for read in (e.args for e in p.names if e.op == "load" and e.attr == s.buffer):
                for index in begun:
                    if not any(_never_equal(x, body.expanded(y)) for x, y in zip(index, read, strict=True)):
                        yield f"{s.buffer}[{_list(read)}] may be read while {s.buffer}[{_list(index)}] is on its way"
                        break


def _is_copy(s: Store, at: Place) -> bool:
    return s.stream is not None and s.buffer in at.buffers and at.buffers[s.buffer].space == "shared"


def _never_equal(x: Expr, y: Expr) -> bool:
    """Whether two remainders of one division are apart by a constant."""
    if x.op != "mod" or y.op != "mod" or x.args[1] is not y.args[1] or not x.args[1].is_const:
        return False
    distance = plus(poly(x.args[0]), poly(y.args[0]), -1)
    return is_constant(distance) and distance.get((), 0) % x.args[1].attr != 0


def _stretches(loop: Loop, places: list[Place]) -> dict[int, int]:
    """For the places inside a loop over the threads of a block: the stretch between barriers in which each stands.  What is in two of them is never done at the same time.

    The stretch behind the last barrier in a loop goes on before the first one there.
    """
    if not loop.kind.startswith("thread.") or not any(isinstance(p.stmt, Barrier) for p in places):
        return {}
    joined = [0]  # the stretch with which each is one
    found: dict[int, int] = {}
    open_: list[tuple[int, int]] = []  # loops around: how deep their bodies are, and the stretch in which they begin

    def close(depth: int) -> None:
        while open_ and open_[-1][0] > depth:
            begin = open_.pop()[1]
            old, new = joined[-1], joined[begin]
            joined[:] = [new if j == old else j for j in joined]

    for p in places:
        close(len(p.around))
        if isinstance(p.stmt, Barrier):
            joined.append(len(joined))
        elif isinstance(p.stmt, (Loop, While)):
            open_.append((len(p.around) + 1, len(joined) - 1))
        found[id(p)] = len(joined) - 1
    close(0)
    return {place: joined[k] for place, k in found.items()}


def _stores(body: Body, places: list[Place]) -> Iterator[tuple[Store, Place]]:
    """The stores among the statements of a loop that other iterations can see."""
    common = body.common
    inner = _declared_inside(places)
    for p in places:
        if isinstance(s := p.stmt, Store) and s.buffer in common and s.buffer not in inner:
            yield s, p


def _separate(body: Body, loop: Loop, a: tuple[Index, Place], b: tuple[Index, Place]) -> bool:
    return _follows(body, loop, a[0], b[0]) or _apart(body, loop, a, b)


def accumulations(body: Body) -> Iterator[str]:
    """Vector axes are apart: they accumulate into lanes, which are combined in a fixed order.  So are a thread's private buffers, once an iteration has stored there."""
    private = {p.stmt.buffer.name for p in body.places if isinstance(p.stmt, Alloc) and p.stmt.buffer.space == "private"}
    for loop, places in _concurrent(body):
        if loop.kind == "vector":
            continue
        inner = _declared_inside(places)
        for p in places:
            if loop.kind in ("workshare", "queue") and isinstance(p.stmt, Store) and p.stmt.buffer in private and not _accumulates(p.stmt):
                inner.add(p.stmt.buffer)
            s = p.stmt
            if (
                isinstance(s, Store)
                and s.buffer not in inner
                and _accumulates(s)
                and not _depends(body, loop, s.index, p)
                and not _picked(body, loop, p)
                and not _is_alone(loop)
                and not _is_empty(p)
            ):
                yield f"iterations of {loop.axis} ({loop.kind}) accumulate into {s.buffer}[{_list(s.index)}]"


def _concurrent(body: Body) -> Iterator[tuple[Loop, list[Place]]]:
    """Each loop whose iterations may run at the same time, with the statements inside it; a loop of one iteration has no other beside it."""
    places = body.places
    for k, p in enumerate(places):
        if isinstance(p.stmt, Loop) and p.stmt.kind in CONCURRENT and not (p.stmt.start is ZERO and p.stmt.stop is ONE):
            depth, end = len(p.around), k + 1
            while end < len(places) and len(places[end].around) > depth:
                end += 1
            yield p.stmt, places[k + 1 : end]


def _is_alone(loop: Loop) -> bool:
    """Whether there is one iteration at most, as of `min(1, n)`; what needs no proof is asked first."""
    return prove_le(loop.stop, loop.start + 1)


def _is_empty(place: Place) -> bool:
    """Whether a statement stands in a loop of no iterations, as an axis that is shorter than a tile leaves one."""
    return any(x.start.is_const and x.stop.is_const and x.stop.attr <= x.start.attr and x.step is ONE for x in place.loops())


def _declared_inside(places: list[Place]) -> set[str]:
    return {p.stmt.buffer.name for p in places if isinstance(p.stmt, Alloc)}


def _list(index: Index) -> str:
    return ", ".join(map(repr, index))


def _follows(body: Body, loop: Loop, a: Index, b: Index) -> bool:
    """Along some axis of the buffer the two indices move alike with the loop, so that iterations apart touch places apart (or: nothing is known)."""
    if a == b:
        return True
    axis = var(loop.axis)
    for x, y in zip(a, b, strict=False):
        p, q = poly(body.expanded(x)), poly(body.expanded(y))
        if _hidden(body.expanded(x), axis) or _hidden(body.expanded(y), axis):
            return True
        (slope, _), (other, _) = coefficient(p, axis), coefficient(q, axis)
        if not slope or slope != other:
            continue
        distance = plus(p, q, -1)
        if is_constant(distance) and is_constant(slope) and distance and distance[()] % slope[()] == 0:
            continue  # a neighbour's place
        return True
    return False


def _apart(body: Body, loop: Loop, a: tuple[Index, Place], b: tuple[Index, Place]) -> bool:
    """Along some axis of the buffer the two indices differ in any two iterations, by the bounds of the loops."""
    depth = a[1].around.index(loop)
    renamed = {var(s.axis): var(f"{s.axis}'") for s in b[1].around[depth:] if isinstance(s, Loop)}
    known = Known({})
    for s in a[1].loops():
        known = known.with_ranges({s.axis: _range(s, {}, body)})
    for s in b[1].around[depth:]:
        if isinstance(s, Loop):
            known = known.with_ranges({f"{s.axis}'": _range(s, renamed, body)})
    mine, other = var(loop.axis), renamed[var(loop.axis)]
    return all(
        any(
            prove(x.lt(y), there) or prove(y.lt(x), there)
            for x, y in zip(map(body.expanded, a[0]), (substitute(body.expanded(e), renamed) for e in b[0]), strict=True)
        )
        for there in (assuming(known, mine.lt(other)), assuming(known, other.lt(mine)))
    )


def _range(loop: Loop, renamed: dict[Expr, Expr], body: Body) -> Range:
    start, stop, step = (substitute(body.expanded(e), renamed) for e in (loop.start, loop.stop, loop.step))
    if not step.is_const or any(leaves(e, "load") for e in (start, stop)):
        return Range()
    return Range(start, stop - 1) if step.attr > 0 else Range(stop + 1, start)


def _hidden(e: Expr, axis: Expr) -> bool:
    """The axis stands inside something that is not affine in it."""
    touched: set[Expr] = {axis}
    for n in postorder(e):
        if not touched.isdisjoint(n.args):
            touched.add(n)
            if n.op not in ("add", "sub", "mul", "neg"):
                return True
    return False


def _accumulates(s: Store) -> bool:
    return bool(s.combiner) or any(n.op == "load" and n.attr == s.buffer and n.args == s.index for n in postorder(s.value))


def _depends(body: Body, loop: Loop, index: Index, place: Place) -> bool:
    """The place moves with the axis, or with a loop whose iterations are dealt out to those of the axis; a position read from memory may be the same twice and does not count."""
    axes = {var(loop.axis), *(var(s.axis) for s in place.loops() if _dealt(loop, s))}
    stack = [body.expanded(e) for e in index]
    seen: set[Expr] = set()
    while stack:
        node = stack.pop()
        if node in axes:
            return True
        if node.op != "load" and node not in seen:
            seen.add(node)
            stack.extend(node.args)
    return False


def _dealt(loop: Loop, inner: Loop) -> bool:
    """Whether an inner loop goes through `start + t·step, start + (t + T)·step, …` for iteration t of a loop over 0 .. T: no two of these share an iteration."""
    if not (inner.step.is_const and loop.stop.is_const and loop.start is ZERO):
        return False
    slope, _ = coefficient(poly(inner.start), var(loop.axis))
    return is_constant(slope) and bool(slope) and inner.step.attr == slope[()] * loop.stop.attr


def _picked(body: Body, loop: Loop, place: Place) -> bool:
    """A condition between the axis and the statement picks iterations."""
    return any(
        n is var(loop.axis) or (n.op in ("first", "last") and n.attr == loop.axis)
        for s in place.around[place.around.index(loop) :]
        if isinstance(s, If)
        for n in postorder(body.expanded(s.condition))
    )
