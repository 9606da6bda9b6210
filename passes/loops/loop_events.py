"""What a loop nest does to memory, as a list of *events*, by executing it once symbolically.

    event    for every point of `loops`, where `guard` holds:  buffer[index] = value   (or combined into it)
    read     a load that some value contains, with the loops and the guard that it stands in
    test     a run-time check of an index

Loops are normalised: their variables count trips (v = start + step·t), so every one runs from 0 to its number of trips.  Scalars are gone: a `let`, a local
variable or a tensor without axes is replaced by its value.  What a loop accumulates is a variable `%k` that stands for a definition (`Events.defined`):

    acc = 0 ; for p in 0 .. K: acc += A[i, p]                 acc ≡ %0 with %0 = Σ over p < K of A[i, p]                     Sum
    acc = 0 ; for j in 0 .. N: acc += A[j] ; B[j] = acc       acc ≡ %0 + A[j], the running value, with %0 the sum so far     Scan
    n = 0   ; for j in 0 .. N: B[n] = A[j] ; n += 2           n ≡ 2·j
    for i in 1 .. N: X[i] = X[i - 1] + A[i]                   X[i] = X[0] + the running sum of A

A local array that is made anew in each iteration gets an axis for each loop around it.  What cannot be said at all (the bounds are data, a value is carried
from one iteration to the next) is a variable too, *unknown*, with the reason; events that depend on one stay loops.

A load is stamped with the number of events before it (`A@2`): an event changes memory, and a scalar may hold what was there before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...ir.bounds import Known
from ...ir.dtypes import INDEX, DType, bool_
from ...ir.errors import NOWHERE, CompilerBug, Span
from ...ir.expr import FALSE, ONE, TRUE, Expr, both, call, ceildiv, load, maximum, var
from ...ir.graph import Shape
from ...ir.kernel import Alloc, Block, Check, If, Let, Loop, Nest, Store, While, statements
from ...ir.record import replace
from ...ir.simplify import prove, simplify
from ...ir.walks import postorder, rewrite, substitute, substitution
from .accumulations import combined, mentions, peeled
from .branches import Before, in_both_branches
from .dependence import is_data
from .domains import NotTensor, Trip, box
from .last_extreme import at_last, last_stores
from .loop_records import Event, Read, Scan, Sum, Test, Unknown, in_place_of, stamped, unstamped
from .recurrences import recurrences


class Events:
    """The events of a nest in program order, the loads in them, and the definitions of the variables `%k`."""

    def __init__(self, nest: Nest, known: Known) -> None:
        self.known = known
        self.arrays: dict[str, tuple[DType, Shape]] = {b.name: (b.dtype, b.shape) for b in (*nest.operands, *nest.results)}
        self.scalars: dict[str, DType] = {}  # variables, and the tensors without axes that the nest sets
        self.private: dict[str, tuple[Trip, ...]] = {}  # local arrays inside loops: the loops whose axes they were given
        self.events: list[Event] = []
        self.loads: dict[Expr, dict[Read, None]] = {}  # a stamped load -> where it stands
        self.defined: dict[Expr, Sum | Scan | Unknown] = {}
        self.steady: dict[Expr, tuple[Expr, ...]] = {}  # `%k` -> the variables of the loops in one iteration of which it is one value
        self.bounds: dict[Expr, Expr] = {}  # `%k` for the trips of a loop whose bounds are data, or for its variable -> what it is of the bounds
        self.tests: list[Test] = []
        self.loops: dict[Expr, Loop | While] = {}  # by the variable of their trips
        self.starts: dict[Expr, tuple[Expr, Expr]] = {}  # by the same: the loop variable's first value, and its step
        self.around: tuple[Trip, ...] = ()  # the loops at hand
        self._guard: Expr | None = None
        self._env: dict[str, Expr] = {}
        self._variables = 0
        self._reads: dict[tuple[Expr, ...], list[Read]] | None = None  # of `reads_of`
        self._within: dict[Expr, list[tuple[Event | Read, int]]] = {}  # of `within`
        self.meant: dict[Expr, Expr] = {}  # of `steady.py`: what bounds say of expressions
        self.named: dict[tuple[object, ...], dict[Expr, Expr]] = {}  # and, by loops around and inside, what is one number there
        ports = [b for b in nest.results if not b.shape]
        for b in ports:
            self.scalars[b.name] = b.dtype
            self._env[b.name] = self._load(b.name, b.dtype, ())
        first = dict(self._env)
        self._block(nest.body)
        for b in ports:
            stores = tuple(id(s) for s in statements(nest.body) if isinstance(s, Store) and s.buffer == b.name)
            if self._env[b.name] is not first[b.name]:
                self.events.append(Event(b.name, (), self._env[b.name], "", (), None, self._span(nest.body, b.name), stores))
        recurrences(self)
        last_stores(self)
        self.settle()
        checked = {r.buffer for r in self.reads_of(*(t.condition for t in self.tests))}
        self.live = self._used({b.name for b in nest.results} | checked)

    @staticmethod
    def _span(body: Block, name: str) -> Span:
        return next(s.span for s in statements(body) if isinstance(s, Store) and s.buffer == name)

    def _used(self, buffers: set[str]) -> list[int]:
        """The events that the contents of these buffers depend on: not those of a local array that nothing reads."""
        while True:
            live = [k for k, e in enumerate(self.events) if e.buffer in buffers]
            more = {r.buffer for k in live for r in self.reads(k)} - buffers
            if not more:
                return live
            buffers = buffers | more

    # ---- expressions

    def fresh(self, dtype: DType) -> Expr:
        """A new variable `%k`."""
        self._variables += 1
        return var(f"%{self._variables - 1}", dtype)

    def unknown(self, dtype: DType, why: str, span: Span, *parts: Expr) -> Expr:
        v = self.fresh(dtype)
        self.defined[v] = Unknown(why, span, parts)
        self.steady[v] = tuple(t.var for t in self.around)
        return v

    def _load(self, buffer: str, dtype: DType, index: tuple[Expr, ...]) -> Expr:
        n = load(stamped(buffer, len(self.events)), dtype, *index)
        self.loads.setdefault(n, {})[Read(buffer, len(self.events), index, self.around, self._guard)] = None
        return n

    def _value(self, e: Expr, span: Span = NOWHERE) -> Expr:
        """`e` with scalars and variables replaced, loads stamped and recorded."""

        def meant(n: Expr) -> Expr | None:
            if n.op == "var" or (n.op == "load" and n.attr in self.scalars):
                return self._env.get(n.attr, n)
            if n.op == "load":
                return self._load(n.attr, n.dtype, self._place(n.attr, n.args))
            if n.op in ("first", "last"):
                return self.unknown(n.dtype, "it asks for the first or the last iteration", span)
            return self._junction(n) if n.op == "where" and n.dtype is bool_ else None

        return rewrite(e, meant)

    def _junction(self, n: Expr) -> Expr | None:
        """`and` and `or` that are choices for the sake of what their second operand reads are none where that is a position."""
        c, a, b = n.args
        if is_data(n):
            return None
        return call("bit_and", c, a) if b is FALSE else call("bit_or", c, b) if a is TRUE else None

    def _place(self, buffer: str, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (*(t.var for t in self.private.get(buffer, ())), *index)

    # ---- statements

    def _block(self, block: Block) -> None:
        for s in block:
            match s:
                case Let():
                    self._env[s.name] = self._value(s.value)
                case Alloc():
                    self._alloc(s)
                case Store():
                    self._store(s)
                case If():
                    self._if(s)
                case Loop():
                    self._loop(s)
                case Check():
                    condition = self._value(s.condition, s.span)
                    if self._guard is not None:
                        condition = call("bit_or", call("bit_not", self._guard), condition)
                    self.tests.append(Test(condition, s.code, self.around, len(self.events), id(s), s.span))
                case While():
                    self._while(s)
                case _:
                    raise CompilerBug("raise_loops", f"{type(s).__name__} in a nest")

    def _alloc(self, s: Alloc) -> None:
        b = s.buffer
        if not b.shape:
            self.scalars[b.name] = b.dtype
            self._env[b.name] = self.unknown(b.dtype, f"{b.name} is not set", NOWHERE)
            return
        extents: dict[Expr, Expr] = {}
        for t in self.around:
            try:
                extents[t.var] = box(t, extents, self.known)
            except NotTensor:
                extents[t.var] = t.count
        self.private[b.name] = self.around
        self.arrays[b.name] = (b.dtype, (*(simplify(maximum(e, 0), self.known) for e in extents.values()), *b.shape))

    def _store(self, s: Store) -> None:
        value, combiner = self._value(s.value, s.span), s.combiner
        if s.buffer in self.scalars:
            self._env[s.buffer] = combined(combiner, self._env[s.buffer], value) if combiner else value
            return
        index = self._place(s.buffer, tuple(self._value(e, s.span) for e in s.index))
        if not combiner:  # x = x + e and its kin
            found = peeled(value, load(stamped(s.buffer, len(self.events)), value.dtype, *index))
            if found is not None and found[0]:
                combiner, value = found
            elif value in (TRUE, FALSE) and self._guard is not None and any(not any(mentions(e, t.var) for e in index) for t in self.around):
                combiner = "or" if value is TRUE else "and"  # however often it is set
        self.events.append(Event(s.buffer, index, value, combiner, self.around, self._guard, s.span, (id(s),)))

    def _if(self, s: If) -> None:
        condition = self._value(s.condition)
        before, ends, events, so_far = self._env, [], [len(self.events)], Before(len(self.events), len(self.tests), self._variables)
        for holds, body in ((condition, s.body), (call("bit_not", condition), s.orelse)):
            self._env = dict(before)
            with self._guarded(holds):
                self._block(body)
            ends.append(self._env)
            events.append(len(self.events))
        if events[0] < events[1] < events[2]:
            in_both_branches(self, so_far, events[1], condition, self._guard)
        a, b = ends
        self._env = {name: a[name] if a[name] is b[name] else call("where", condition, a[name], b[name]) for name in before}

    @contextmanager
    def _guarded(self, condition: Expr | None) -> Iterator[None]:
        outer = self._guard
        self._guard = both(outer, condition)
        yield
        self._guard = outer

    # ---- loops

    def _loop(self, s: Loop) -> None:
        start, stop, step = (self._value(e, s.span) for e in (s.start, s.stop, s.step))
        t = var(f"{s.axis}~{len(self.loops)}")
        data = [e for e in (start, stop, step) if is_data(e)]
        way = 1 if prove(ONE.le(step), self.known) else -1 if prove(step.le(-1), self.known) else 0
        if data or not way:
            why = f"the bounds of the loop over {s.axis} are data" if data else f"the step of the loop over {s.axis} is known at run time only"
            count = self.unknown(INDEX, why, s.span, start, stop, step)
            at = start + t * step if not data else self.unknown(INDEX, why, s.span, start, stop, step, t)
            if step is ONE:
                self.bounds |= {count: stop - start, at: start + t}
        else:
            count = ceildiv(stop - start, step) if way > 0 else ceildiv(start - stop, -step)
            at = start + t * step
        count = simplify(count, self.known)
        if count is ONE:
            self._env[s.axis] = start
            self._block(s.body)
            return
        self.starts[t] = (start, step)
        self._trips(s, Trip(t, count), {s.axis: at}, s.body, "")

    def _while(self, s: While) -> None:
        t = var(f"while~{len(self.loops)}")
        why = "nobody knows how often a `while` runs"
        parts = [] if s.limit is None else [self._value(s.limit)]
        count = self.unknown(INDEX, why, NOWHERE, *parts)
        self._trips(s, Trip(t, count), {}, s.body, why, s.condition)

    def _trips(self, s: Loop | While, trip: Trip, own: dict[str, Expr], body: Block, lost: str, condition: Expr = TRUE) -> None:
        """The body once, for every trip; then what it leaves in the scalars.  `lost`: why that cannot be said."""
        outer, loops, span = self._env, self.around, s.span if isinstance(s, Loop) else NOWHERE
        written = [name for name in dict.fromkeys(b.buffer for b in statements(body) if isinstance(b, Store)) if name in outer]
        entry = {name: self.fresh(self.scalars[name]) for name in written}
        first = len(self.events)
        self.loops[trip.var] = s
        self._env = {**outer, **entry, **own}
        self.around = (*loops, trip)
        tested = self._value(condition)
        if tested is not TRUE:
            known = self.defined[trip.count]
            assert isinstance(known, Unknown)
            self.defined[trip.count] = replace(known, parts=(*known.parts, tested))
        self._block(body)
        after = {name: self._env[name] for name in written}
        self._env, self.around = outer, loops
        self._counters(trip, entry, after, lost)
        for name in sorted(entry, key=lambda name: peeled(after[name], entry[name]) is None):  # what hangs on an extreme is said when that is
            self._close(name, entry[name], after[name], trip, lost, first, span)

    def _counters(self, trip: Trip, entry: dict[str, Expr], after: dict[str, Expr], lost: str) -> None:
        """Scalars that a loop leaves as they were, and integers that it changes by the same in every trip: their values are known."""
        for name, p in list(entry.items()):
            found = peeled(after[name], p)
            if found is None or (
                found[0] and (lost or found[0] != "add" or p.dtype is not INDEX or is_data(found[1]) or mentions(found[1], trip.var))
            ):
                continue
            combiner, by = found
            before = self._env[name]
            if combiner:
                self._env[name] = before + by * simplify(maximum(trip.count, 0), self.known)
            known = {p: before + by * trip.var if combiner else before}
            self._replace(known)
            del entry[name]
            after.update((other, substitute(e, known)) for other, e in after.items())

    def _close(self, name: str, p: Expr, v: Expr, trip: Trip, lost: str, first: int, span: Span) -> None:
        """What a scalar holds behind the loop, and what its value on entry of an iteration was."""
        before = self._env[name]
        found = peeled(v, p)
        self.steady[p] = (*(t.var for t in self.around), trip.var)
        if lost or found is None or self.is_unknown(found[1]):
            carried = f"the value of {name} is carried from one iteration to the next"
            self.defined[p] = Unknown(lost or carried, span, (v, before))
            left = None if lost else self._selected(v, p, before, trip) if mentions(v, p) else self._last(v, before, trip, first)
            self._env[name] = (
                self.unknown(p.dtype, lost or f"the value of {name} is what the last iteration leaves", span, v, before) if left is None else left
            )
            return
        combiner, body = found
        scan = Scan(combiner, p.dtype, trip, before, body, self._guard, self.around, False)
        self.defined[p] = scan
        with_own = self.fresh(p.dtype)  # the value that the iteration leaves, where the whole of it is used
        self.defined[with_own] = replace(scan, inclusive=True)
        self._replace({v: with_own})
        loops = (trip,)
        inner = self.defined.get(body)
        if isinstance(inner, Sum) and inner.combiner == combiner:
            loops, body = (trip, *inner.loops), inner.body
        total = self.fresh(p.dtype)
        self.defined[total] = Sum(combiner, p.dtype, loops, body, self._guard, self.around)
        self._env[name] = combined(combiner, before, total)

    def _selected(self, v: Expr, p: Expr, before: Expr, trip: Trip) -> Expr | None:
        """What was set when the last extreme was found, if that is when it is set."""
        if v.op != "where" or v.args[2] is not p or mentions(v.args[1], p):
            return None
        found = at_last(self, v.args[0], v.args[1], trip)
        return None if found is None else call("where", *found, before)

    def _last(self, v: Expr, before: Expr, trip: Trip, first: int) -> Expr | None:
        """The value of the last trip, where no event of the loop changes what it reads."""
        written = {e.buffer for e in self.events[first:]}
        inner = {n for n in postorder(v) if n in self.defined}
        if inner or any(n.op == "load" and unstamped(n.attr)[0] in written for n in postorder(v)) or is_data(trip.count):
            return None
        at = {trip.var: trip.count - 1}
        runs = simplify(ONE.le(trip.count), self.known)
        for n in postorder(v):
            if n.op == "load":
                moved = substitute(n, at)
                places = self.loads.setdefault(moved, {})
                places[Read(*unstamped(n.attr), moved.args, self.around, both(self._guard, runs))] = None
        return call("where", runs, substitute(v, at), before)

    # ---- what is known of it afterwards

    def _replace(self, known: dict[Expr, Expr]) -> None:
        """Variables whose meaning was found out, everywhere."""

        of = substitution(known)
        done: dict[int, tuple[tuple[Trip, ...], tuple[Trip, ...]]] = {}  # by `id`: most of what is in a loop has the same trips

        def trips(loops: tuple[Trip, ...]) -> tuple[Trip, ...]:
            if id(loops) not in done:
                done[id(loops)] = loops, tuple([Trip(t.var, of(t.count)) for t in loops])
            return done[id(loops)][1]

        def guard(e: Expr | None) -> Expr | None:
            return None if e is None else of(e)

        self.events = [replace(e, index=tuple(map(of, e.index)), value=of(e.value), loops=trips(e.loops), guard=guard(e.guard)) for e in self.events]
        loads: dict[Expr, dict[Read, None]] = {}
        for n, places in self.loads.items():
            moved = loads.setdefault(of(n), {})
            moved.update((Read(r.buffer, r.after, tuple(map(of, r.index)), trips(r.loops), guard(r.guard)), None) for r in places)
        self.loads = loads
        self.tests = [replace(t, condition=of(t.condition), loops=trips(t.loops)) for t in self.tests]
        for v, d in self.defined.items():
            match d:
                case Sum():
                    self.defined[v] = replace(d, loops=trips(d.loops), around=trips(d.around), body=of(d.body), guard=guard(d.guard))
                case Scan():
                    self.defined[v] = replace(
                        d, loop=trips((d.loop,))[0], around=trips(d.around), start=of(d.start), body=of(d.body), guard=guard(d.guard)
                    )
                case Unknown():
                    self.defined[v] = replace(d, parts=tuple(map(of, d.parts)))
        self.bounds = {v: of(e) for v, e in self.bounds.items()}
        self.around, self._guard = trips(self.around), guard(self._guard)
        self._env = {name: of(e) for name, e in self._env.items()}

    def definitions(self, *roots: Expr) -> list[Expr]:
        """The variables `%k` that expressions depend on, each after those that it is made of."""
        found: dict[Expr, None] = {}
        entered: set[Expr] = set()  # an unknown may depend on itself
        stack: list[tuple[Expr, bool]] = [(n, False) for r in reversed(roots) if is_data(r) for n in reversed(postorder(r)) if n in self.defined]
        while stack:
            v, done = stack.pop()
            if done:
                found[v] = None
            elif v not in entered:
                entered.add(v)
                stack.append((v, True))
                d = self.defined[v]
                exprs = (*d.parts, *(t.count for t in d.loops), *(() if d.guard is None else (d.guard,)))
                stack += [(n, False) for e in exprs if is_data(e) for n in postorder(e) if n in self.defined and n not in entered]
        return list(found)

    def expressions(self, k: int) -> tuple[Expr, ...]:
        """All that the event depends on."""
        return self._with_parts(*self._own(k))

    def _own(self, k: int) -> tuple[Expr, ...]:
        e = self.events[k]
        return e.value, *e.index, *[t.count for t in e.loops], *(() if e.guard is None else (e.guard,))

    def _with_parts(self, *own: Expr) -> tuple[Expr, ...]:
        parts: list[Expr] = []
        for v in self.definitions(*own):
            d = self.defined[v]
            parts += [*d.parts, *(t.count for t in d.loops), *(() if d.guard is None else (d.guard,))]
        return (*own, *parts)

    def reads(self, k: int) -> list[Read]:
        """The loads of an event, of all that its value is made of too."""
        return self.reads_of(*self._own(k))

    def settle(self) -> None:
        """From here on, nothing changes any more; also of a copy whose events are others."""
        self.stored = {e.buffer for e in self.events}
        self._reads, self._within, self.meant, self.named = {}, {}, {}, {}

    def reads_of(self, *exprs: Expr) -> list[Read]:
        reads = None if self._reads is None else self._reads.get(exprs)
        if reads is None:
            found = [n for n in postorder(*[e for e in self._with_parts(*exprs) if e.buffers]) if n.op == "load"]
            reads = [r for n in found for r in self.loads[n]]
            if self._reads is not None:
                self._reads[exprs] = reads
        return reads

    def within(self, v: Expr) -> list[tuple[Event | Read, int]]:
        """The accesses to what the nest stores that stand inside the loop with this variable, each with how many loops are around that one: reads first."""
        if not self._within:
            reads = [r for places in self.loads.values() for r in places if r.buffer in self.stored]
            for a in (*reads, *self.events):
                for depth, t in enumerate(a.loops):
                    self._within.setdefault(t.var, []).append((a, depth))
        return self._within.get(v, [])

    def is_unknown(self, *exprs: Expr) -> bool:
        return any(isinstance(self.defined[v], Unknown) for v in self.definitions(*exprs))

    def shown(self, buffer: str, index: Sequence[Expr]) -> str:
        """An access in the names of the user's loops."""
        own = list(index[len(self.private.get(buffer, ())) :])
        for t, (start, step) in reversed(self.starts.items()):  # the start of an inner loop may hang on outer ones
            loop = self.loops[t]
            if isinstance(loop, Loop) and step.is_const and not is_data(start):
                place = var(loop.axis) - start
                if abs(step.attr) == 1:
                    own = [substitute(e, {t: place * step}) for e in own]
                else:
                    own = [in_place_of(step * t, place, t, e) for e in own]
        return f"{buffer}[{', '.join(repr(simplify(e, self.known)) for e in own)}]" if own else buffer


__all__ = ["Events"]
