"""What a loop nest does to memory, as a list of *events*, by executing it once symbolically.

    event    for every point of `loops`, where `guard` holds:  buffer[index] = value   (or combined into it)
    read     a load that some value contains, with the loops and the guard that it stands in

Loops are normalised: their variables count trips (v = start + step·t), so every one runs from 0 to its number of trips.  Scalars are gone: a `let` or a
local variable is replaced by its value, and a local accumulator by a *sum* (of any combiner), a variable `%k` defined in `Events.sums`:

    alloc acc[] ; acc[] = 0 ; for p in 0 .. K: acc[] add= A[i, p]          acc[] ≡ %0 with %0 = Σ over p < K of A[i, p]

A load is stamped with the number of events before it (`A@2`): an event changes memory, and a scalar may hold what was there before.

`NotTensor` says why a nest is no list of events: a `while`, a value carried from one iteration to the next, a local array inside a loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..ir.dtypes import DType
from ..ir.errors import NOWHERE, CompilerBug, Span
from ..ir.expr import ONE, Expr, both, call, floordiv, load, make, postorder, rewrite, var
from ..ir.graph import Shape
from ..ir.kernel import Alloc, Block, Check, If, Let, Loop, Nest, Store, While, statements
from ..ir.primops import COMBINERS
from .nest_body import identity_of


class NotTensor(Exception):
    """Why a nest is left as it is; the message is what `--why` prints."""

    def __init__(self, message: str, span: Span = NOWHERE) -> None:
        super().__init__(message)
        self.span = span


@dataclass(frozen=True, slots=True)
class Trip:
    """One loop: `var` runs from 0 to `count`, which may mention the variables of loops around it, and be negative where there are none."""

    var: Expr
    count: Expr


@dataclass(frozen=True, slots=True)
class Event:
    buffer: str
    index: tuple[Expr, ...]
    value: Expr
    combiner: str
    loops: tuple[Trip, ...]
    guard: Expr | None
    span: Span


@dataclass(frozen=True, slots=True)
class Read:
    buffer: str
    after: int  # how many events stand before it
    index: tuple[Expr, ...]
    loops: tuple[Trip, ...]
    guard: Expr | None


@dataclass(frozen=True, slots=True)
class Sum:
    """The values of `body` at all points of `loops` (where `guard`, that of the statement, holds), combined."""

    combiner: str
    dtype: DType
    loops: tuple[Trip, ...]
    body: Expr
    guard: Expr | None


@dataclass(frozen=True, slots=True)
class Test:
    """A run-time check of an index."""

    condition: Expr
    code: int
    loops: tuple[Trip, ...]
    span: Span


def stamped(buffer: str, after: int) -> str:
    return f"{buffer}@{after}"


def unstamped(name: str) -> tuple[str, int]:
    buffer, _, after = name.rpartition("@")
    return buffer, int(after)


@dataclass
class _Carried:
    """The value of a scalar that an iteration has not set itself; what is accumulated into it meanwhile."""

    terms: list[tuple[str, Expr]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Lost:
    """A value that cannot be said: `why` completes the sentence “the value of x …”."""

    why: str


Value = Expr | _Carried | _Lost


class Events:
    """The events of a nest in program order, the reads, and the definitions of the sums."""

    def __init__(self, nest: Nest) -> None:
        self.arrays: dict[str, tuple[DType, Shape]] = {b.name: (b.dtype, b.shape) for b in (*nest.operands, *nest.results)}
        self.scalars: dict[str, DType] = {}  # the nest's own variables
        self.events: list[Event] = []
        self.reads: dict[Read, None] = {}
        self.sums: dict[Expr, Sum] = {}
        self.tests: list[Test] = []
        self.loops: dict[Expr, Loop] = {}  # by the variable of their trips
        self._loops: tuple[Trip, ...] = ()
        self._guard: Expr | None = None
        self._env: dict[str, Value] = {}
        self._variables = 0
        self._block(nest.body)

    # ---- expressions

    def _value(self, e: Expr, span: Span = NOWHERE) -> Expr:
        """`e` with scalars and variables replaced, loads stamped and recorded."""

        def leaf(n: Expr) -> Expr | None:
            if n.op == "var" or (n.op == "load" and n.attr in self.scalars):
                found = self._env.get(n.attr, n)
                if isinstance(found, _Carried):
                    raise NotTensor(f"the value of {n.attr} is carried from one iteration to the next", span)
                if isinstance(found, _Lost):
                    raise NotTensor(f"the value of {n.attr} {found.why}", span)
                return found
            if n.op == "load":
                self.reads[Read(n.attr, len(self.events), n.args, self._loops, self._guard)] = None
                return load(stamped(n.attr, len(self.events)), n.dtype, *n.args)
            if n.op in ("first", "last"):
                raise NotTensor("it asks for the first or the last iteration", span)
            return None

        return rewrite(e, leaf)

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
                    if self._guard is not None:
                        raise NotTensor("an index is checked under a condition", s.span)
                    self.tests.append(Test(self._value(s.condition, s.span), s.code, self._loops, s.span))
                case While():
                    raise NotTensor("nobody knows how often a `while` runs")
                case _:
                    raise CompilerBug("raise_loops", f"{type(s).__name__} in a nest")

    def _alloc(self, s: Alloc) -> None:
        b = s.buffer
        if not b.shape:
            self.scalars[b.name] = b.dtype
            self._env[b.name] = _Lost("is not set")
        elif self._loops:
            raise NotTensor(f"the local array {b.name} is made anew in each iteration")
        else:
            self.arrays[b.name] = (b.dtype, b.shape)

    def _store(self, s: Store) -> None:
        s = accumulating(s)
        value = self._value(s.value, s.span)
        if s.buffer not in self.scalars:
            index = tuple(self._value(e, s.span) for e in s.index)
            self.events.append(Event(s.buffer, index, value, s.combiner, self._loops, self._guard, s.span))
            return
        old = self._env[s.buffer]
        if not s.combiner:
            self._env[s.buffer] = value
        elif isinstance(old, _Carried):
            old.terms.append((s.combiner, value))
        elif isinstance(old, _Lost):
            raise NotTensor(f"the value of {s.buffer} {old.why}", s.span)
        else:
            self._env[s.buffer] = combined(s.combiner, old, value)

    def _if(self, s: If) -> None:
        condition = self._value(s.condition)
        before = dict(self._env)
        ends = []
        for holds, body in ((condition, s.body), (call("bit_not", condition), s.orelse)):
            self._env = {name: _Carried() if isinstance(v, _Carried) else v for name, v in before.items()}
            entered = dict(self._env)
            with self._guarded(holds):
                self._block(body)
            for name, v in entered.items():
                outer = before[name]
                if isinstance(v, _Carried) and isinstance(outer, _Carried):
                    for combiner, term in v.terms:
                        nothing = identity_of(combiner, self.scalars[name])
                        outer.terms.append((combiner, call("where", holds, term, nothing)))
            ends.append((entered, self._env))
        (entered_a, a), (entered_b, b) = ends
        for name, outer in before.items():
            kept = a[name] is entered_a[name] and b[name] is entered_b[name]
            x, y = a[name], b[name]
            if kept:
                before[name] = outer
            elif isinstance(x, Expr) and isinstance(y, Expr):
                before[name] = call("where", condition, x, y)
            else:
                before[name] = _Lost("is set by some iterations only")
        self._env = before

    @contextmanager
    def _guarded(self, condition: Expr | None) -> Iterator[None]:
        outer = self._guard
        self._guard = both(outer, condition)
        yield
        self._guard = outer

    def _loop(self, s: Loop) -> None:
        start, stop, step = (self._value(e, s.span) for e in (s.start, s.stop, s.step))
        if not step.is_const:
            raise NotTensor(f"the step of the loop over {s.axis} is known at run time only", s.span)
        t = var(f"{s.axis}~{self._variables}")
        self._variables += 1
        span = stop - start if step.attr > 0 else start - stop
        size = abs(step.attr)
        count = span if size == 1 else floordiv(span + (size - 1), make("const", ONE.dtype, (), size))
        if any(n.op == "load" or n in self.sums for n in postorder(count)):
            raise NotTensor(f"the bounds of the loop over {s.axis} are data", s.span)
        self.loops[t] = s
        outer = self._env
        written = [name for name in dict.fromkeys(b.buffer for b in statements(s.body) if isinstance(b, Store)) if name in outer]
        carried = {name: _Carried() for name in written}
        self._env = {**outer, **carried, s.axis: start + t * step}
        loops = self._loops
        self._loops = (*loops, Trip(t, count))
        self._block(s.body)
        after = self._env
        self._loops = loops
        self._env = outer
        for name, c in carried.items():
            if after[name] is not c:
                outer[name] = _Lost("is what the last iteration leaves")
            elif c.terms:
                self._accumulated(name, c, Trip(t, count), s.span)

    def _accumulated(self, name: str, c: _Carried, trip: Trip, span: Span) -> None:
        """Behind the loop, a scalar holds what it held before, combined with a sum over the loop."""
        combiners = dict.fromkeys(combiner for combiner, _ in c.terms)
        if len(combiners) > 1:
            raise NotTensor(f"{name} is accumulated in different ways", span)
        (combiner,) = combiners
        body = c.terms[0][1]
        for _, term in c.terms[1:]:
            body = combined(combiner, body, term)
        loops = (trip,)
        inner = self.sums.get(body)
        if inner is not None and inner.combiner == combiner:
            loops, body = (trip, *inner.loops), inner.body
        total = var(f"%{len(self.sums)}", self.scalars[name])
        self.sums[total] = Sum(combiner, self.scalars[name], loops, body, self._guard)
        old = self._env[name]
        if isinstance(old, _Carried):
            old.terms.append((combiner, total))
        elif isinstance(old, _Lost):
            raise NotTensor(f"the value of {name} {old.why}", span)
        else:
            self._env[name] = total if old is identity_of(combiner, total.dtype) else combined(combiner, old, total)


def combined(combiner: str, a: Expr, b: Expr) -> Expr:
    return call(COMBINERS[combiner].op, a, b)


_BY_OPERATOR = {c.op: c.name for c in COMBINERS.values()} | {"min": "min"}


def accumulating(s: Store) -> Store:
    """x = x + e, x = e + x, x = x - e, x = a·b + x (fma), and so on for the other combiners, as an accumulation; other stores as they are."""
    if s.combiner:
        return s
    own = [n for n in postorder(s.value) if n.op == "load" and n.attr == s.buffer and n.args == s.index]
    if len(own) != 1:
        return s
    x, e = own[0], s.value
    if e.op == "fma" and e.args[2] is x:
        return _accumulation(s, x, "add", [call("mul", *e.args[:2])])
    if e.op == "sub" and e.args[0] is x:
        return _accumulation(s, x, "add", [call("neg", e.args[1])])
    terms: list[Expr] = []
    while e.op in _BY_OPERATOR and e.op == s.value.op:
        a, b = e.args
        inner, term = (a, b) if x in set(postorder(a)) else (b, a)
        terms.append(term)
        if inner is x:
            return _accumulation(s, x, _BY_OPERATOR[e.op], terms[::-1])
        e = inner
    return s


def _accumulation(s: Store, x: Expr, combiner: str, terms: list[Expr]) -> Store:
    if any(x in set(postorder(t)) for t in terms):
        return s
    value = terms[0]
    for t in terms[1:]:
        value = combined(combiner, value, t)
    return Store(s.buffer, s.index, value, combiner, s.span)
