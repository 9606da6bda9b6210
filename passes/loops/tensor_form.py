"""The tensor form of a loop nest: its events (`loop_events.py`), group by group (`loop_order.py`), as nodes over the boxes of their loops.

    an event that stores every element       the value's node itself
    one that stores a part                   update; over a constant, a view of the value that is the constant outside
    X[e] ⊕= v, some loops not in e           X ⊕ reduce.⊕ of v over those loops
    X[2·i + j] ⊕= v, where iterations meet   the same, of v at i = (position - j) / 2 (`overlaps.py`)
    a group that stays loops                 a nest of the statements that it needs (`loop_slices.py`)

Each gives a new version of the tensors that it stores into.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import field
from typing import TYPE_CHECKING

from ...ir.bounds import Known
from ...ir.conditions import conjuncts
from ...ir.dtypes import DType
from ...ir.expr import ONE, TRUE, ZERO, Expr, axis, both, call, const, load
from ...ir.graph import Attr, Node, Shape, View, const_node, elementwise, identity, make, scan_node, update_node
from ...ir.kernel import Alloc, Block, Nest, Stmt, Store, identity_of, map_block, statements, written
from ...ir.primops import COMBINERS
from ...ir.program import BAD_INDEX
from ...ir.record import changing, record, replace
from ...ir.simplify import prove, simplify
from ...ir.target import Options
from ...ir.walks import postorder, substitute
from .accumulations import mentions
from .dependence import Dependences
from .domains import NotTensor, Trip, box, within
from .lift import Lift, Operand, places
from .loop_events import Events
from .loop_order import Order
from .loop_records import Event, Scan, stamped
from .stored_box import box_of, covering, in_turn, turn_of, whole
from .upright import upright

if TYPE_CHECKING:
    from .loop_slices import Slice
    from .overlaps import Turned

_IN_MEMORY = frozenset({"nest", "update", "scatter", "scan"})


class Stuck(Exception):
    """Found out on the way: event k cannot be a node."""

    def __init__(self, k: int, reason: NotTensor) -> None:
        super().__init__(str(reason))
        self.k, self.reason = k, reason


@record
class Form:
    """The nodes of a nest's results; none where nothing could be raised, for the reasons in `notes`."""

    nodes: tuple[Node, ...]
    notes: tuple[str, ...] = ()


def tensor_form(nest: Nest, operands: tuple[Node, ...], pairs: Dependences, inout: frozenset[str], options: Options) -> Form:
    """`inout`: the ports that are updated in place."""
    found = pairs.events(nest)
    moved = upright(found)
    if moved is not found:
        form = _form(nest, operands, moved, pairs, inout, options)
        if form.nodes:
            return form
    return _form(nest, operands, found, pairs, inout, options)


def _form(nest: Nest, operands: tuple[Node, ...], found: Events, pairs: Dependences, inout: frozenset[str], options: Options) -> Form:
    known = pairs.known
    order = Order(found, pairs)
    while True:
        if len(order.stuck) == len(found.live):
            return Form((), _notes(order.stuck.values()))
        state = _Versions(nest, operands, found, order, known, inout, options)
        try:
            if state.run() and len(order.stuck) < len(found.live):
                return Form(tuple(state.final(b.name) for b in nest.results))
        except Stuck as s:
            order.stuck[s.k] = s.reason
        except NotTensor as reason:
            return Form((), _notes((reason,)))


def _notes(reasons: Iterable[NotTensor]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"the loops stay loops: {r}" + (f" (line {r.span.line})" if r.span.line else "") for r in reasons))


@changing
class _Versions:
    """Every version of every tensor so far, each with the events that made it."""

    nest: Nest
    operands: tuple[Node, ...]
    found: Events
    order: Order
    known: Known
    inout: frozenset[str]
    options: Options
    history: dict[str, list[tuple[frozenset[int], Node]]] = field(default_factory=dict)  # events since the version before, and the version
    checked: set[Expr] = field(default_factory=set)  # by gathers
    asked: dict[tuple[tuple[Trip, ...], Expr], None] = field(default_factory=dict)  # the same as it was written, and where
    kept: set[int] = field(default_factory=set)  # checks in the groups that stay loops

    def run(self) -> bool:
        """All groups in order; False where they must be formed again, since one of them needs more."""
        found, order = self.found, self.order
        groups = order.groups()
        loops = [g for g in groups if len(g) > 1 or g[0] in order.stuck]
        for g in groups:
            if len(g) > 1:
                for k in g:
                    order.stick(k, str(next((order.stuck[j] for j in g if j in order.stuck), "")))
        slices = {g[0]: self._slice(g) for g in loops}
        if self._more(loops, slices):
            return False
        for b in found.arrays:
            dtype, _ = found.arrays[b]
            self.history[b] = [(frozenset(), const_node(const(0, dtype).attr, dtype))]
        for b, node in zip(self.nest.operands, self.operands, strict=True):
            self.history[b.name] = [(frozenset(), node)]
        for g in groups:
            if g[0] in slices:
                self._loops(g, slices[g[0]])
                continue
            (k,) = g
            try:
                node = self.stored(k, found.events[k])
            except NotTensor as reason:
                raise Stuck(k, reason) from None
            self.history[found.events[k].buffer].append((frozenset((k,)), node))
        self._check_tests()
        return True

    # ---- versions

    def source(self, n: Expr) -> tuple[Node, Shape]:
        """The version that a load reads: a constant node stands for that constant everywhere.  The newest that nothing after the load is in."""
        buffer = n.attr.rpartition("@")[0]
        after = {k for r in self.found.loads.get(n, ()) for k in self.order.seen[r][1]} if n in self.found.loads else set()
        node = self.history[buffer][0][1]
        for events, version in self.history[buffer]:
            if events & after:
                break
            node = version
        return node, self.found.arrays[buffer][1]

    def head(self, buffer: str) -> Node:
        return self.history[buffer][-1][1]

    def final(self, buffer: str) -> Node:
        return self._real(buffer, self.head(buffer))

    def _real(self, buffer: str, node: Node) -> Node:
        shape = self.found.arrays[buffer][1]
        return whole(View(node, ()), shape) if node.op == "const" and shape else node

    # ---- groups that stay loops

    def _slice(self, group: list[int]) -> Slice:
        from .loop_slices import Slice

        stores = [s for k in group for s in self.found.events[k].stores]
        return Slice(self.nest.body, stores, frozenset(self.found.scalars))

    def _more(self, loops: list[list[int]], slices: dict[int, Slice]) -> bool:
        """What else must stay together with a group, or come behind it; True where that is news."""
        order, events = self.order, self.found.events
        before = order.known_so_far()
        for g in loops:
            for test in self.found.tests:
                if test.check in slices[g[0]].checks:
                    order.adopt(g[0], self.found.reads_of(test.condition))
            names = written(slices[g[0]].body)
            touched = {events[k].buffer for k in g} | {r.buffer for k in g for r in order.reads[k]}
            for k in self.found.live:
                e = events[k]
                if k in g:
                    continue
                # a tensor without axes that is computed on the way, and a local array of one iteration
                own = e.buffer in names and e.buffer in self.found.scalars
                local = any(self.found.private.get(b) and b in touched for b in (e.buffer, *(r.buffer for r in order.reads[k])))
                # and what is read between two stores of the group
                between = any(before & {*g} and after & {*g} for before, after in (map(set, order.seen[r]) for r in order.reads[k]))
                if own or local or between:
                    order.together.append((g[0], k))
                    order.stick(k, str(order.stuck[g[0]]))
            stored = {events[k].buffer for k in g}
            for k in g:
                for r in order.reads[k]:
                    if r.buffer in stored:
                        order.before.update({(g[0], j): None for j in order.seen[r][1] if j not in g})
        return before != order.known_so_far()

    def _loops(self, group: list[int], part: Slice) -> None:
        """The group as a nest of its own."""
        found = self.found
        inside = {id(s) for s in statements(part.body) if isinstance(s, Store)}
        self.kept |= part.checks
        stored = dict.fromkeys(s.buffer for s in statements(part.body) if isinstance(s, Store) and s.buffer in found.arrays)
        local = {s.buffer.name: s.buffer for s in statements(part.body) if isinstance(s, Alloc) and s.buffer.shape}
        loaded = dict.fromkeys(n.attr for s in statements(part.body) for n in _loads(s) if n.attr in found.arrays)
        alone = {
            b for b in local
            if all(set(found.events[k].stores) <= inside for k in found.live if found.events[k].buffer == b)
            and all(k in group for k in found.live if any(r.buffer == b for r in self.order.reads[k]))
        }  # fmt: skip
        shapes = {b.name: b for b in (*self.nest.operands, *self.nest.results, *(replace(b, space="global") for b in local.values()))}
        results = [b for b in stored if b not in alone]
        operands: list[str] = []
        args: list[Node] = []
        for b in dict.fromkeys((*loaded, *results)):
            if b in alone:
                continue
            node = self.head(b) if b in results else self._read_by(group, b)
            if node.op == "const" and b in results:
                continue  # starts as zeros
            operands.append(b)
            args.append(self._real(b, node))
        notes = _notes(self.order.stuck[k] for k in group)
        body = _without(part.body, local.keys() - alone)
        nest = Nest(self.nest.name, tuple(shapes[b] for b in operands), tuple(shapes[b] for b in results), body, notes)
        made = frozenset(group)
        for j, b in enumerate(results):
            node = make("nest", shapes[b].dtype, shapes[b].shape, tuple(map(identity, args)), Attr(nest=nest, result=j), found.events[group[0]].span)
            self.history[b].append((made, node))

    def _read_by(self, group: list[int], buffer: str) -> Node:
        """The one version of a tensor that a group reads and does not store into."""
        reads = [r for k in group for r in self.order.reads[k] if r.buffer == buffer]
        after = {k for r in reads for k in self.order.seen[r][1]}
        needed = {k for r in reads for k in self.order.seen[r][0]}
        node, had = self.history[buffer][0][1], set()
        for events, version in self.history[buffer]:
            if events & after:
                break
            node, had = version, had | events
        if not needed <= had:
            raise NotTensor(f"{buffer} is read as it was at several times")
        return node

    def _check_tests(self) -> None:
        """Every run-time check of the nest must be one that some gather makes, or stand in a group that stays loops."""
        for test in self.found.tests:
            if test.check in self.kept or (self.options.unchecked and test.code == BAD_INDEX):
                continue
            known = within(self.known, test.loops)
            if any(c is not TRUE and c not in self.checked and not self._asks(c, test.loops) for c in conjuncts(simplify(test.condition, known))):
                raise Stuck(
                    next((k for k in self.found.live if k >= test.after), self.found.live[-1]),
                    NotTensor("an index is checked while it runs", test.span),
                )

    def _asks(self, condition: Expr, loops: tuple[Trip, ...]) -> bool:
        """Whether a gather asks for a condition of these loops, be it that it does so only where further loops run, as the condition may say itself."""
        for inside, asked in self.asked:
            known = within(self.known, (*loops, *(t for t in inside if t not in loops)))
            if simplify(condition, known) is simplify(asked, known):
                return True
        return False

    # ---- one event

    def stored(self, k: int, event: Event) -> Node:
        """The version of the event's tensor after it."""
        dtype, shape = self.found.arrays[event.buffer]
        turn, written = self.order.turned.get(k), event
        if turn is not None:
            event = replace(event, index=turn.index, loops=(*turn.trips, *(t for t in event.loops if t.var not in turn.solved)))
        mentioned = {n for e in event.index for n in postorder(e)}
        kept = [t for t in event.loops if t.var in mentioned]
        kept.sort(key=lambda t: next(d for d, e in enumerate(event.index) if t.var in set(postorder(e))))
        reduced = [t.var for t in event.loops if t.var not in mentioned]
        lift = Lift(self.boxes(k, (*event.loops, *written.loops), kept), self.known, self.source, self.found, self.options.strict)
        if event.previous:
            return self.recurrence(event, kept, lift, shape)
        value = self.value(written, reduced, lift, dtype, turn)
        self.checked |= lift.checked
        self.asked.update(lift.asked)
        axes = [t.var for t in kept]
        old = self.head(event.buffer)
        covered = covering(event, axes, lift.boxes, shape, self.known)
        if covered is not None and covered[1] is None:
            if event.combiner and reduced and old is not const_node(identity_of(event.combiner, dtype).attr, dtype):
                base = View(old, ()) if old.op == "const" else identity(old)
                return elementwise(COMBINERS[event.combiner].op, shape, base, lift.view(value, axes, covered[0]))
            return whole(lift.view(value, axes, covered[0]), shape)
        if event.combiner and reduced:
            old_value = lift.lift(_old(event, dtype), event.loops)
            value = lift.apply(call(COMBINERS[event.combiner].op, identity_of(event.combiner, dtype), const(1, dtype)), [old_value, value])
        self.inside(event, lift.inside(event.loops), shape)
        turned = in_turn(event, axes, lift.boxes, shape, self.known)
        if turned is not None and not self.changes_in_place(event.buffer, old):
            return turn_of(event, turned[1], lift.view(value, axes, turned[0]), old, shape, self.known)
        always = self.inside(event, lift.inside(kept), shape, False)
        if covered is not None and not (always and self.changes_in_place(event.buffer, old)):
            runs = () if always else (ONE.le(lift.boxes[v]) for v in reduced)  # else there may be no such element
            return box_of(event, lift.view(value, axes, covered[0]), both(covered[1], *runs), old, shape)
        if not always:
            raise NotTensor(f"{event.buffer} has no such element where the loops do not run", event.span)
        return self.updated(event, axes, lift, value, shape)

    def recurrence(self, event: Event, kept: list[Trip], lift: Lift, shape: Shape) -> Node:
        """X[i] = X[i - 1] ⊕ e for all i but the first: a scan of X[0], e, e, …"""
        d = self.found.defined[event.value]
        covered = covering(event, [t.var for t in kept], lift.boxes, shape, self.known)
        assert isinstance(d, Scan)
        along = next(k for k, e in enumerate(event.index) if mentions(e, d.loop.var))
        if covered is None or covered[1] is not ONE.le(axis(along)):
            raise NotTensor(f"{event.previous} is read where another iteration stores {self.found.shown(event.buffer, event.index)}", event.span)
        old = self.head(event.buffer)
        body = lift.lift(lift.folded(d), event.loops)
        self.checked |= lift.checked
        self.asked.update(lift.asked)
        terms = box_of(event, lift.view(body, [t.var for t in kept], covered[0]), covered[1], old, shape)
        if d.body is load(stamped(event.buffer, self.found.events.index(event)), d.dtype, *event.index):
            terms = self._real(event.buffer, old)  # e is the element itself
        return scan_node(d.combiner, along, identity(terms), shape, event.span)

    def changes_in_place(self, buffer: str, old: Node) -> bool:
        """A store to a part changes what is there.  What is computed anew anyway, or copied, is made in one pass with a choice in it."""
        own = old.op == "input" and old.attr.name in self.inout and old is self.history[buffer][0][1]
        return own or old.op in _IN_MEMORY

    def value(self, event: Event, reduced: list[Expr], lift: Lift, dtype: DType, turn: Turned | None) -> Operand:
        """What is stored at each point of the kept loops; for an accumulation over loops, what is accumulated there."""
        old = _old(event, dtype)
        value = event.value
        if event.combiner and not reduced:
            value = call(COMBINERS[event.combiner].op, old, value)
        otherwise = identity_of(event.combiner, dtype) if event.combiner and reduced else old
        if event.guard is not None:
            value = call("where", event.guard, value, otherwise)
        value = lift.masked(value, event.loops, (), otherwise)
        result = lift.lift(value, event.loops, bool(event.combiner and reduced))
        if not (event.combiner and reduced):
            return result
        if self.options.strict and dtype.is_inexact and event.combiner in ("add", "mul"):
            raise NotTensor("--strict keeps the order in which floats are accumulated", event.span)
        if turn is not None:
            apart = [v for v in reduced if v not in set(postorder(turn.domain))]
            result = lift.folded_over(event.combiner, result, apart) if apart else result  # over all that is summed: its terms do not overlap
            result = lift.moved(result, turn.solved, turn.domain, otherwise)
            reduced = [v for v in reduced if v not in apart]
        return lift.folded_over(event.combiner, result, reduced)

    def boxes(self, k: int, own: Sequence[Trip], kept: list[Trip]) -> dict[Expr, Expr]:
        """The greatest number of trips of every loop that event k depends on, `own` and those of what it reads, over all iterations of the loops around it; kept ones first, in the order
        of the tensor's axes."""
        found = self.found
        defined = (t for v in found.definitions(*found.expressions(k)) for t in found.defined[v].loops)
        loops = {t.var: t for t in (*own, *(t for r in self.order.reads[k] for t in r.loops), *defined)}
        extents: dict[Expr, Expr] = {}
        for t in sorted(loops.values(), key=lambda t: int(t.var.attr.rpartition("~")[2])):
            extents[t.var] = box(t, extents, self.known)
        first = [t.var for t in kept] + [t.var for t in own if t not in kept]
        return {v: extents[v] for v in (*first, *(v for v in extents if v not in first))}

    def inside(self, event: Event, known: Known, shape: Shape, demanded: bool = True) -> bool:
        """Whether the event stores inside its tensor; NotTensor where that is demanded and not proven."""
        for e, extent in zip(event.index, shape, strict=True):
            if not prove(call("bit_and", ZERO.le(e), e.lt(extent)), known):
                if demanded:
                    raise NotTensor(f"{self.found.shown(event.buffer, event.index)} is not proven to be inside of {event.buffer}", event.span)
                return False
        return True

    def updated(self, event: Event, axes: list[Expr], lift: Lift, value: Operand, shape: Shape) -> Node:
        old = self.head(event.buffer)
        base = View(old, ()) if old.op == "const" else identity(old)
        at = tuple(substitute(simplify(e, lift.inside(event.loops)), places(axes)) for e in event.index)
        return update_node(base, lift.view(value, axes), lift.shape(axes), at, shape, event.span)


def _loads(s: Stmt) -> list[Expr]:
    return [n for n in postorder(*s.expressions()) if n.op == "load"]


def _without(block: Block, arrays: Set[str]) -> Block:
    """Without the declarations of these local arrays, which are made outside."""
    return map_block(block, lambda s: () if isinstance(s, Alloc) and s.buffer.name in arrays else None)


def _old(event: Event, dtype: DType) -> Expr:
    """The element before the event, as a load of the newest version."""
    return load(stamped(event.buffer, -1), dtype, *event.index)
