"""Short loops of a nest, written out: what small matrices, networks and butterflies keep in elements at known positions stands in variables, and is a value of its row.

for n: for s in 0 .. 2:                      for n: y0 = X[n, 0], y1 = X[n, 1], …
         Y[n, s] = Y[n, s] + Y[n, s + 1]  →         y0 = y0 + y1
                                                    y1 = y1 + y2
                                                    Y[n, 0] = y0, Y[n, 1] = y1
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from ...ir.bounds import Known, Range, bounds
from ...ir.evaluate import evaluate
from ...ir.expr import FALSE, INDEX, TRUE, ZERO, Expr, call, const, load, var
from ...ir.kernel import (
    Alloc,
    Block,
    Buffer,
    Check,
    If,
    Let,
    Loop,
    Nest,
    Stmt,
    Store,
    While,
    map_block,
    map_expressions,
    statements,
    substitute_block,
    with_body,
    with_parts,
    written,
)
from ...ir.record import replace
from ...ir.renaming import Names, defined, unique_locals
from ...ir.simplify import simplify
from ...ir.walks import always, leaves, postorder, rewrite, substitute, substitution
from .accumulations import combined

MOST = 1024  # statements of a row
MOST_CHOSEN = 16  # positions of an element that data chooses: so many choices between variables
OUTSIDE = 2  # loops of known trips that may stay loops


def written_out(nest: Nest, known: Known) -> Nest | None:
    """The nest without its loops of few known trips; None where there are none, or too much is in them."""
    arrays = {b.name: b for b in (*nest.operands, *nest.results)}
    stored = {s.buffer for s in statements(nest.body) if isinstance(s, Store) and s.index}
    for kept in range(OUTSIDE + 1):
        writing = _Writing(known, MOST, arrays, stored, (While,))  # which no row of values is left of
        body = writing.block(nest.body, kept)
        if writing.stuck:
            return None
        if writing.left >= 0:
            break
    else:
        return None
    if not writing.loops or _chosen(body):
        return None
    sizes = {n.attr for s in statements(body) for e in s.expressions() for n in leaves(e, "size")}
    names = Names({*arrays, *sizes})
    return replace(nest, body=_Variables(arrays, names).block(unique_locals(body, names.fresh)))


def local_networks(nest: Nest, known: Known) -> Nest:
    """A nest that keeps its loops, but for those beside a local array of few elements that are all at known positions once these loops are written out: they stand in variables."""
    arrays = {b.name: b for b in (*nest.operands, *nest.results, *(s.buffer for s in statements(nest.body) if isinstance(s, Alloc)))}
    stored = {s.buffer for s in statements(nest.body) if isinstance(s, Store) and s.index}
    names = Names({*arrays, *defined(nest.body), *(n.attr for s in statements(nest.body) for e in s.expressions() for n in leaves(e, "size"))})

    def block(body: Block) -> Block:
        few = {s.buffer.name for s in body if isinstance(s, Alloc) and s.buffer.shape and all(e.is_const for e in s.buffer.shape)}
        if few and any(isinstance(s, While) for s in statements(body)):
            writing = _Writing(known, MOST, arrays, stored, (Loop, While))
            written = writing.block(body, 0)
            if writing.left >= 0 and not _chosen(written):
                return _Variables(writing.arrays, names).block(unique_locals(_without_counters(body, written), names.fresh))
        return tuple([with_parts(s, lambda e: e, block) if s.blocks() else s for s in body])

    return replace(nest, body=block(nest.body))


def _without_counters(before: Block, body: Block) -> Block:
    """Without the scalars of its own that only loops asked for: as vectors of integers they would halve the lanes."""
    read = {n.attr for s in statements(body) for e in s.expressions() for n in postorder(e) if n.op == "load"}
    unread = {s.buffer.name for s in statements(before) if isinstance(s, Alloc)} - read
    return map_block(body, lambda s: () if (s.buffer if isinstance(s, Store) else s.buffer.name if isinstance(s, Alloc) else "") in unread else None)


def _chosen(body: Block) -> bool:
    """Whether something that data decides is read of what is stored: each such element would be a gather, of all that was stored before."""
    stored = {s.buffer for s in statements(body) if isinstance(s, Store) and s.index}
    data = {s.name for s in statements(body) if isinstance(s, Let) and s.value.buffers}
    return any(
        n.attr in stored and any(index.buffers or not data.isdisjoint(index.names) for index in n.args)
        for s in statements(body) for e in s.expressions() for n in _elements(e)
    )  # fmt: skip


class _Writing:
    """`left` statements may still be written, none once it is `stuck` at a loop of a kind that may not stay; `loops` have been.  Integers that are set have `values`, between two ends: what a loop doubles in each round is known where its rounds are."""

    def __init__(self, known: Known, left: int, arrays: Mapping[str, Buffer], stored: Collection[str], all_of: tuple[type[Stmt], ...]) -> None:
        self.known, self.left, self.loops = known, left, 0
        self.all_of, self.stuck = all_of, False
        self.arrays, self.stored = dict(arrays), stored
        self.values: dict[str, tuple[int, int]] = {}
        self.data: set[str] = set()  # names of what was read

    def block(self, body: Block, kept: int) -> Block:
        """`kept`: how many loops outside stay as they are."""
        result: list[Stmt] = []
        for k, s in enumerate(body):
            if self.left < 0:
                break
            if isinstance(s, Let) and (value := self.settled(s.value)).is_const:
                return (*result, *self.block(substitute_block(body[k + 1 :], {var(s.name, value.dtype): value}), kept))
            result += self.statement(s, kept)
        return tuple(result)

    def statement(self, s: Stmt, kept: int) -> Block:
        match s:
            case Loop():
                ends = [self.settled(e) for e in (s.start, s.stop, s.step)]
                if kept or not all(e.is_const for e in ends) or ends[2] is ZERO:
                    return self.staying(s, max(kept - 1, 0))
                trips = range(*[e.attr for e in ends])
                return self.trips(s, (map_expressions(s.body, substitution({var(s.axis): const(k)})) for k in trips))
            case While():
                return self.staying(s, kept) if kept else self.trips(s, self.rounds(s))
            case If():
                condition = self.settled(s.condition)
                if condition is TRUE or condition is FALSE:
                    return self.block(s.body if condition is TRUE else s.orelse, kept)
                before = dict(self.values)
                body, self.values, after = self.block(s.body, kept), before, self.values
                orelse = self.block(s.orelse, kept)
                both = after.keys() & self.values.keys()
                self.values = {n: (min(after[n][0], self.values[n][0]), max(after[n][1], self.values[n][1])) for n in self.values if n in both}
                return (If(condition, body, orelse),)
            case Check() if self.holds(s.condition):
                return ()
            case Store() if s.index:
                return self.store(s)
            case _:
                self.left -= 1
                if isinstance(s, Alloc):
                    self.arrays[s.buffer.name] = s.buffer
                (settled,) = map_expressions((s,), self.placed)
                if isinstance(settled, Let) and self.is_data(settled.value):
                    self.data.add(settled.name)
                self.note(settled)
                return (settled,)

    def staying(self, s: Loop | While, kept: int) -> Block:
        """A loop that is not written out: what it sets is not known."""
        if self.is_stuck(s):
            return (s,)
        self.forget(s.body)
        stays = with_body(s, self.block(s.body, kept))
        self.forget(s.body)
        return (stays,)

    def is_stuck(self, s: Loop | While) -> bool:
        if isinstance(s, self.all_of):
            self.left, self.stuck = -1, True
        return self.stuck

    def trips(self, s: Loop | While, bodies: Iterable[Block | None]) -> Block:
        """One after the other; the loop itself where that is too much, or leaves loops."""
        result: Block = ()
        before = dict(self.values)
        for body in bodies:
            self.left -= 1  # however little is in it
            result += (s,) if body is None else self.block(body, 0)
            if any(isinstance(t, Loop | While) for t in result):  # of unknown trips: work for kernels, once for all iterations
                self.values = before
                self.forget(s.body)
                self.is_stuck(s)
                return (s,)
            if self.left < 0:
                break
        self.loops += 1
        return result

    def rounds(self, s: While) -> Iterator[Block | None]:
        """The body as often as its condition holds; None where that is not known."""
        limit = None if s.limit is None else self.settled(s.limit)
        trips = 0
        while (goes_on := self.settled(s.condition)) is not FALSE and (limit is None or limit is not const(trips)):
            trips += 1
            yield s.body if goes_on is TRUE and (limit is None or limit.is_const) else None

    def store(self, s: Store) -> Block:
        """One element; where data decides which, each that it may be, under a choice."""
        index = tuple([self.settled(e) for e in s.index])
        value = self.placed(s.value)
        k, places = self.places(s.buffer, index)
        self.left -= len(places)
        if len(places) == 1:
            return (replace(s, index=index, value=value),)
        at, new = var(f"{s.buffer}.at"), var(f"{s.buffer}.new", value.dtype)
        result: list[Stmt] = [Let(at.attr, index[k]), Let(new.attr, value)]
        for p in places:
            there = (*index[:k], const(p), *index[k + 1 :])
            old = var(f"{s.buffer}.old", value.dtype)  # in any case, so that it may be a variable
            stored = combined(s.combiner, old, new) if s.combiner else new
            chosen = call("where", at.eq(const(p)), stored, old)
            result += [Let(old.attr, load(s.buffer, value.dtype, *there)), replace(s, index=there, value=chosen, combiner="")]
        return tuple(result)

    # ---- what is known of scalars

    def note(self, s: Stmt) -> None:
        """Between which ends a scalar is behind this statement."""
        if isinstance(s, Store):
            before = self.scalar(load(s.buffer, s.value.dtype)) if s.buffer in self.values else None
            value = s.value if not s.combiner else None if before is None else combined(s.combiner, before, s.value)
            ends = (None, None) if value is None or value.dtype is not INDEX else self.ends(rewrite(value, self.scalar))
            self.values.pop(s.buffer, None)
            if ends[0] is not None and ends[1] is not None:
                self.values[s.buffer] = ends[0], ends[1]
        elif isinstance(s, Alloc):
            self.values.pop(s.buffer.name, None)

    def forget(self, body: Block) -> None:
        """What loops set is not known where they stay."""
        for name in written(body):
            self.values.pop(name, None)

    def ends(self, e: Expr) -> tuple[int | None, int | None]:
        return bounds(simplify(e, self.here), self.here)[:2]

    @property
    def here(self) -> Known:
        inexact = {f"{name}?": Range(const(low), const(high)) for name, (low, high) in self.values.items() if low < high}
        return self.known.with_ranges(inexact) if inexact else self.known

    def scalar(self, n: Expr) -> Expr | None:
        """A scalar that is set as a variable with ends, or as what it is."""
        if n.op != "load" or n.args or n.attr not in self.values:
            return None
        low, high = self.values[n.attr]
        return const(low) if low == high else var(f"{n.attr}?")

    def settled(self, e: Expr) -> Expr:
        """Simplified with what is known of scalars."""
        return self.named(simplify(rewrite(self.placed(e), self.scalar), self.here))

    def holds(self, condition: Expr) -> bool:
        settled = self.settled(condition)
        try:
            return settled is TRUE or bool(evaluate(settled, {}))
        except (KeyError, ZeroDivisionError):  # it asks for more than numbers
            return False

    def named(self, e: Expr) -> Expr:
        """Variables with ends as the scalars that they are."""
        return substitute(e, {var(f"{name}?"): load(name, INDEX) for name in self.values})

    def placed(self, e: Expr) -> Expr:
        """With what is read at positions that are known, or chosen from those that it may be."""
        return rewrite(e, self.element)

    def element(self, n: Expr) -> Expr | None:
        if n.op != "load":
            return None
        if not n.args:
            found = self.scalar(n)
            return found if found is not None and found.is_const else None
        index = tuple([self.named(simplify(rewrite(e, self.scalar), self.here)) for e in n.args])
        k, places = self.places(n.attr, index)
        self.left -= len(places) - 1
        result = load(n.attr, n.dtype, *index)
        if len(places) > 1:
            *few, last = [load(n.attr, n.dtype, *index[:k], const(p), *index[k + 1 :]) for p in places]
            result = last
            for p, x in zip(reversed(places[:-1]), reversed(few), strict=True):
                result = call("where", index[k].eq(const(p)), x, result)
        return result

    def is_data(self, e: Expr) -> bool:
        return bool(e.buffers) or not self.data.isdisjoint(e.names)

    def places(self, buffer: str, index: tuple[Expr, ...]) -> tuple[int, range]:
        """Along which axis, and at which of its positions, an element may be that data chooses of what is stored; one position where it is no choice of a few."""
        chosen = [k for k, e in enumerate(index) if self.is_data(e)]
        if buffer in self.stored and len(chosen) == 1 and (extent := self.arrays[buffer].shape[chosen[0]]).is_const:
            low, high = self.ends(rewrite(index[chosen[0]], self.scalar))
            places = range(max(low or 0, 0), extent.attr if high is None else min(high + 1, extent.attr))
            if 1 < len(places) <= MOST_CHOSEN:
                return chosen[0], places
        return 0, range(1)


class _Variables:
    """Elements at known positions become variables, in every block of statements that no loop is left in."""

    def __init__(self, arrays: dict[str, Buffer], names: Names) -> None:
        self.arrays, self.names = dict(arrays), names

    def block(self, body: Block) -> Block:
        self.arrays.update({s.buffer.name: s.buffer for s in body if isinstance(s, Alloc)})
        if not any(isinstance(s, Loop | While) for s in statements(body)):
            return self.row(body)
        return tuple(with_body(s, self.block(s.body)) if isinstance(s, Loop) else s for s in body)

    def row(self, body: Block) -> Block:
        inside = set(defined(body))
        # of each array the positions, and whether the first access of all that there is is made always
        found: dict[str, dict[tuple[Expr, ...], bool]] = {}
        for s, sure in _in_order(body):
            for buffer, index, certain in _accesses(s):
                found.setdefault(buffer, {}).setdefault(index, sure and certain)
        own = {s.buffer.name for s in body if isinstance(s, Alloc)}
        stored = {s.buffer for s in statements(body) if isinstance(s, Store) and s.index}
        place: dict[tuple[str, tuple[Expr, ...]], str] = {}
        for buffer in sorted(stored):
            positions = found[buffer]
            if _apart(list(positions), inside) and (buffer in own or all(positions.values())):
                place.update({(buffer, index): self.names.fresh(buffer) for index in positions})
        return self.rewritten(body, place, own) if place else body

    def rewritten(self, body: Block, place: dict[tuple[str, tuple[Expr, ...]], str], own: set[str]) -> Block:
        def leaf(n: Expr) -> Expr | None:
            return load(name, n.dtype) if n.op == "load" and (name := place.get((n.attr, n.args))) else None

        def variable(s: Stmt) -> Block | None:
            name = place.get((s.buffer, s.index)) if isinstance(s, Store) else None
            return None if name is None else (replace(s, buffer=name, index=()),)

        result: list[Stmt] = [Alloc(Buffer(name, self.arrays[buffer].dtype, (), "register")) for (buffer, _), name in place.items()]
        known: set[str] = set()
        for s in body:
            if isinstance(s, Alloc) and any(s.buffer.name == buffer for buffer, _ in place):
                continue
            fresh = {s.buffer: s.index} if isinstance(s, Store) and not s.combiner else {}
            read = {(n.attr, n.args) for t in statements((s,)) for e in t.expressions() for n in _elements(e)}
            for t in statements((s,)):
                for buffer, index, _ in _accesses(t):
                    name = place.get((buffer, index))
                    if name is None or name in known:
                        continue
                    known.add(name)
                    if buffer not in own and (fresh.get(buffer) != index or (buffer, index) in read):
                        result.append(Store(name, (), load(buffer, self.arrays[buffer].dtype, *index)))
            result += map_block(map_expressions((s,), lambda e: rewrite(e, leaf)), variable)
        spans = {(s.buffer, s.index): s.span for s in statements(body) if isinstance(s, Store)}
        for (buffer, index), name in place.items():
            if buffer not in own and (buffer, index) in spans:
                result.append(Store(buffer, index, load(name, self.arrays[buffer].dtype), "", spans[buffer, index]))
        return tuple(result)


def _elements(e: Expr) -> list[Expr]:
    """What is read of arrays, not of variables."""
    return [n for n in postorder(e) if n.op == "load" and n.args]


def _in_order(body: Block, sure: bool = True) -> Iterator[tuple[Stmt, bool]]:
    """All statements, and whether they always run."""
    for s in body:
        yield s, sure
        for inside in s.blocks():
            yield from _in_order(inside, False)


def _accesses(s: Stmt) -> Iterator[tuple[str, tuple[Expr, ...], bool]]:
    """The elements that a statement itself reads and stores: buffer, index, and whether it always does."""
    certain = set(always(*s.expressions()))
    for e in s.expressions():
        for n in _elements(e):
            yield n.attr, n.args, n in certain
    if isinstance(s, Store) and s.index:
        yield s.buffer, s.index, True


def _apart(positions: list[tuple[Expr, ...]], inside: Collection[str]) -> bool:
    """Whether these are the same elements at every statement, and each another one."""
    if any(n.op == "load" or (n.op == "var" and n.attr in inside) for index in positions for e in index for n in postorder(e)):
        return False
    return all(
        any(x.is_const and y.is_const and x is not y for x, y in zip(a, b, strict=True))
        for k, a in enumerate(positions) for b in positions[:k]
    )  # fmt: skip
