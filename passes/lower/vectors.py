"""Vector loops: the body of `for j in 0 .. 16 vector` becomes code on vectors.

    for j in 0 .. 16 vector:                             for j in 0 .. 2 unroll:                                        (8 lanes)
      acc[i*16 + j] = acc[i*16 + j] + a[i] * b[j]   →      acc[i*2 + j] = acc[i*2 + j] + broadcast.8(a[i]) * vload.8 b[j*8]

Loads of consecutive elements are `vload`, of every other one two of them (`unzip`), of others `gather` (`transposes.py` finds better for square blocks); what is the same in every lane stays scalar until it meets a vector.  A sum into one scalar
folds its vector.  Where a guard lets only the first lanes through (`j < N`), loads and stores of consecutive elements are of so many lanes.  A register array that is only ever touched by aligned vectors of one length becomes an array of vectors.  What has no such form
(a branch that differs between lanes in another way, a guarded load that may not be performed, a scattered store, booleans in memory) stays a serial loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import NamedTuple

from ...ir.conditions import conjuncts
from ...ir.dtypes import DType, i32
from ...ir.expr import INDEX, TRUE, ZERO, Expr, both, broadcast, call, const, fold, gather, load, make, maximum, minimum, ramp, unzip, var, vload
from ...ir.primops import COMBINERS
from ...ir.program import Array, Assign, Block, Define, For, If, Region, Stmt, StoreTo, While, expressions, statements, with_body
from ...ir.target import Target
from ...ir.walks import postorder, substitute
from .affine import difference, divide, slope
from .positions import narrowed

TWO_STEPS = const(2, INDEX)
MOST_FOLDED = 8  # vectors that are written out to be folded together
COMBINER_OF = {c.op: c.name for c in COMBINERS.values()}


class _Serial(Exception):
    """This loop has no vector form."""


class First(NamedTuple):
    """The lanes before `stop`, perhaps without the first `skip` of them."""

    stop: Expr
    skip: Expr | None = None


class _Memory(Exception):
    """This register array is touched otherwise than by aligned vectors; it stays an array of scalars."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def vectorise(body: Block, target: Target) -> Block:
    """The body without `vector` loops; on a target without vectors they are plain loops."""
    memory = touched_by_scalars(body)
    while True:
        attempt = _Attempt(target, memory)
        try:
            return attempt.arrays_of_vectors(attempt.block(body))
        except _Memory as found:
            memory.add(found.name)


def touched_by_scalars(body: Block) -> set[str]:
    """What statements outside of all vector loops load and store, and what their lanes store into one place."""
    found: set[str] = set()
    for s in body:
        if isinstance(s, For) and s.pragma == "vector":
            found.update(t.buffer for t in s.body if isinstance(t, StoreTo) and s.var not in t.address.names)
            continue
        found.update(*[e.buffers for e in expressions(s)])
        if isinstance(s, StoreTo):
            found.add(s.buffer)
        elif isinstance(s, If):
            found |= touched_by_scalars(s.body) | touched_by_scalars(s.orelse)
        elif isinstance(s, (For, While, Region)):
            found |= touched_by_scalars(s.body)
    return found


def loads_of(*roots: Expr) -> list[Expr]:
    return [n for n in postorder(*(e for e in roots if e.buffers)) if n.op == "load"]


class _Attempt:
    """One walk over a function, under the assumption that the register arrays outside `memory` can be arrays of vectors."""

    def __init__(self, target: Target, memory: set[str]) -> None:
        self.target = target
        self.memory = memory
        self.arrays: dict[str, Array] = {}  # candidates in scope
        self.lanes: dict[str, int] = {}  # those found to be touched by vectors of so many lanes
        self.around = ""  # the variable of the loop around

    def block(self, block: Block) -> Block:
        return tuple(t for s in block for t in self.statement(s))

    def statement(self, s: Stmt) -> Block:
        if isinstance(s, For) and s.pragma == "vector":
            return self.loop(s)
        if isinstance(s, Array) and s.space == "register" and s.name not in self.memory:
            self.arrays[s.name] = s
        self.scalar_access(s)
        match s:
            case For():
                outside, self.around = self.around, s.var
                s = with_body(s, self.block(s.body))
                self.around = outside
                return (s,)
            case While() | Region():
                return (with_body(s, self.block(s.body)),)
            case If():
                return (If(s.condition, self.block(s.body), self.block(s.orelse)),)
            case _:
                return (s,)

    def scalar_access(self, s: Stmt) -> None:
        if not self.arrays:
            return
        touched = [n.attr for n in loads_of(*expressions(s))] + ([s.buffer] if isinstance(s, StoreTo) else [])
        for name in touched:
            if name in self.arrays:
                raise _Memory(name)

    def loop(self, s: For) -> Block:
        known = dict(self.lanes)
        try:
            lanes, count = self.shape(s)
            if count == 1:
                return _Lanes(self, s, lanes, s.start).block(s.body)
            base = s.start + var(s.var) * lanes
            body = _Lanes(self, s, lanes, base).block(s.body)
            return folded_once(body, s.var, count) or (For(s.var, ZERO, const(count), body, pragma="unroll"),)
        except _Serial:
            self.lanes = known
            return (replace(s, body=self.block(s.body), pragma=""),)

    def shape(self, s: For) -> tuple[int, int]:
        """Lanes of a vector, and the number of vectors: as many lanes of the widest dtype as a register holds and the extent is a multiple of."""
        extent = difference(s.stop, s.start)
        widest = max((d.bits for d in data_types(s.body)), default=0)
        if not extent.is_const or not widest or not s.step.is_const or s.step.attr != 1:
            raise _Serial
        lanes = self.target.vector_bytes * 8 // widest
        while lanes > 1 and extent.attr % lanes:
            lanes //= 2
        if lanes < 2 or extent.attr <= 0:
            raise _Serial
        return lanes, extent.attr // lanes

    def arrays_of_vectors(self, block: Block) -> Block:
        def one(s: Stmt) -> Stmt:
            match s:
                case Array() if s.name in self.lanes:
                    lanes = self.lanes[s.name]
                    return replace(s, dtype=s.dtype.vector(lanes), count=s.count // lanes)
                case For() | While() | Region():
                    return with_body(s, self.arrays_of_vectors(s.body))
                case If():
                    return If(s.condition, self.arrays_of_vectors(s.body), self.arrays_of_vectors(s.orelse))
                case _:
                    return s

        return tuple(map(one, block))


def folded_once(body: Block, name: str, count: int) -> Block:
    """Vectors that one scalar accumulates, or one element, combined before they are folded, as a tree; () where the body is something else.

    A fold is a chain of shuffles that nothing hides.
    """
    if len(body) != 1 or not isinstance(s := body[0], (Assign, StoreTo)) or s.value.op not in COMBINER_OF or s.value.args[1].op != "fold":
        return ()
    target, folded = s.value.args
    if name in target.names or count > MOST_FOLDED:
        return ()
    if isinstance(s, StoreTo) and (target is not load(s.buffer, target.dtype, s.address) or s.buffer in folded.buffers):
        return ()
    terms = [substitute(folded.args[0], {var(name): const(k)}) for k in range(count)]
    while len(terms) > 1:
        terms = [call(s.value.op, *pair) if len(pair) > 1 else pair[0] for pair in (terms[k : k + 2] for k in range(0, len(terms), 2))]
    return (replace(s, value=call(s.value.op, target, fold(folded.attr, terms[0]))),)


def data_types(body: Block) -> list[DType]:
    """The dtypes that the statements load, store and compute with on the way: a cast through a wider dtype needs vectors of that.

    Positions do not count, neither in addresses nor as data: what they become does.
    """
    found: list[DType] = []
    for s in statements(body):
        found += [n.dtype for n in loads_of(*expressions(s))]
        if isinstance(s, (StoreTo, Assign)):
            found.append(s.value.dtype)
            found += computed_types(s.value)
    return found


def computed_types(value: Expr) -> list[DType]:
    """The dtypes of what a value is computed from, down to its loads; bools have the width of what was compared."""
    found: list[DType] = []
    pending, seen = [value], {value}
    while pending:
        n = pending.pop()
        if n.dtype is not INDEX and n.dtype.kind != "bool":
            found.append(n.dtype)
        fresh = [a for a in n.args if a not in seen] if n.op != "load" else []
        pending += fresh
        seen.update(fresh)
    return found


@dataclass
class _Lanes:
    """The body of one vector loop.  `base` is what its variable is in lane 0."""

    attempt: _Attempt
    loop: For
    lanes: int
    base: Expr
    wide: set[str] = field(default_factory=set)  # names with a value a lane: lets, variables and arrays of the body
    open: First | None = None  # the lanes that a guard around lets through
    stored: str = ""  # the buffer that is stored into

    def block(self, block: Block) -> Block:
        return tuple(self.statement(s) for s in block)

    def statement(self, s: Stmt) -> Stmt:
        match s:
            case Define():
                value = None if s.value is None else self.widen(s.value)
                if not s.mutable and value is not None and value.dtype.lanes == 1:
                    return replace(s, value=value)
                self.wide.add(s.name)
                return replace(s, dtype=s.dtype.vector(self.lanes), value=None if value is None else self.vector(value))
            case Assign() if s.name in self.wide:
                return Assign(s.name, self.vector(self.widen(s.value)))
            case Assign():
                return Assign(s.name, self.folded(var(s.name, s.value.dtype), s.value))
            case StoreTo():
                return self.store(s)
            case Array():
                self.wide.add(s.name)
                return replace(s, dtype=s.dtype.vector(self.lanes))
            case If() if any(self.varies(t.condition) for t in statements((s,)) if isinstance(t, If)):
                return self.first_lanes(s)
            case If():
                return If(self.scalar(s.condition), self.block(s.body), self.block(s.orelse))
            case For():
                bounds = [self.scalar(e) for e in (s.start, s.stop, s.step)]
                pragma = "" if s.pragma == "vector" else s.pragma
                return For(s.var, bounds[0], bounds[1], self.block(s.body), bounds[2], pragma)
            case _:
                raise _Serial

    def first_lanes(self, s: If) -> Stmt:
        """Stores behind a guard that only the first lanes pass."""
        while len(s.body) == 1 and isinstance(inner := s.body[0], If) and not s.orelse:
            s = If(both(s.condition, inner.condition) or TRUE, inner.body, inner.orelse)
        found = self.guard(s.condition)
        if found is None or found[1].skip is not None or s.orelse or self.open or not all(isinstance(t, (StoreTo, Define)) for t in s.body):
            raise _Serial
        others, first = found
        with self.only(first):
            return If(both(*others, ZERO.lt(first.stop)) or TRUE, self.block(s.body))

    def guard(self, condition: Expr) -> tuple[list[Expr], First] | None:
        """A condition as what is the same in every lane and which lanes, in one piece, pass the rest; None where it has no such form."""
        others: list[Expr] = []
        counts: list[Expr] = []
        skips: list[Expr] = []
        for part in conjuncts(condition):
            if not self.varies(part):
                others.append(self.widen(part))
                continue
            if part.op not in ("less_than", "less_equal") or part.args[0].dtype is not INDEX:
                return None
            left, right = part.args
            equal = 1 if part.op == "less_equal" else 0
            if not self.varies(right) and self.slope(left) is ONE_STEP:
                counts.append(difference(self.widen(right) + equal, self.at_base(left)))
            elif not self.varies(left) and self.slope(right) is ONE_STEP:
                skips.append(difference(self.widen(left) + (1 - equal), self.at_base(right)))
            else:
                return None
        if not counts and not skips:
            return None
        return others, First(reduce(minimum, counts) if counts else const(self.lanes), reduce(maximum, skips) if skips else None)

    @contextmanager
    def only(self, first: First) -> Iterator[None]:
        self.open = first
        try:
            yield
        finally:
            self.open = None

    def store(self, s: StoreTo) -> Stmt:
        alone, self.stored = not self.varies(s.address), s.buffer
        if self.open and (s.buffer in self.wide or s.buffer in self.attempt.arrays or alone):
            raise _Serial
        if s.buffer in self.wide:
            return replace(s, address=self.scalar(s.address), value=self.vector(self.widen(s.value)))
        if s.buffer in self.attempt.arrays:
            return replace(s, address=self.aligned(s.buffer, s.address), value=self.vector(self.widen(s.value)))
        if alone:
            return replace(s, address=self.scalar(s.address), value=self.folded(load(s.buffer, s.value.dtype, s.address), s.value))
        if self.slope(s.address) is not ONE_STEP or not in_memory(s.value.dtype):
            raise _Serial
        stream = None if self.open else s.stream  # a border is not worth it
        return replace(s, address=self.at_base(s.address), value=self.vector(self.widen(s.value)), count=self.open and self.open.stop, stream=stream)

    def folded(self, target: Expr, value: Expr) -> Expr:
        """The value of `target = value` for all lanes at once, where `target` is one scalar: target ⊕ x accumulates a fold of x."""
        if value.op in COMBINER_OF and value.args[0] is target and target not in postorder(value.args[1]):
            term = fold(COMBINER_OF[value.op], self.vector(self.widen(value.args[1])))
            return call(value.op, self.scalar(target), term)
        if target in postorder(value):
            raise _Serial
        return self.scalar(value)

    # ---- expressions

    def varies(self, e: Expr) -> bool:
        return self.loop.var in e.names or not (self.wide.isdisjoint(e.names) and self.wide.isdisjoint(e.buffers))

    def slope(self, address: Expr) -> Expr | None:
        return slope(address, var(self.loop.var), self.varies)

    def at_base(self, e: Expr) -> Expr:
        return substitute(e, {var(self.loop.var): self.base})

    def scalar(self, e: Expr) -> Expr:
        result = self.widen(e)
        if result.dtype.lanes > 1:
            raise _Serial
        return result

    def vector(self, e: Expr) -> Expr:
        return e if e.dtype.lanes > 1 else broadcast(e, self.lanes)

    def aligned(self, name: str, address: Expr) -> Expr:
        """The index, in vectors, of a register array's elements from `address`."""
        index = divide(self.at_base(address), self.lanes) if self.slope(address) is ONE_STEP else None
        array = self.attempt.arrays[name]
        if index is None or array.count % self.lanes or self.attempt.lanes.setdefault(name, self.lanes) != self.lanes:
            raise _Memory(name)
        return index

    def widen(self, root: Expr) -> Expr:
        """A scalar where every lane has the same value, else the vector of the lanes' values."""
        partial = self.guarded(root)
        arrays = self.attempt.arrays.keys()
        done: dict[Expr, Expr] = {}
        stack = [root]
        while stack:
            n = stack[-1]
            if n not in done:
                if not self.varies(n) and n.buffers.isdisjoint(arrays):
                    done[n] = n
                elif n.op == "load":  # its address is seldom wanted as a vector
                    done[n] = self.load(n, partial.get(n, self.open))
                elif waiting := [a for a in n.args if a not in done]:
                    stack += waiting
                    continue
                elif n.op == "var":
                    done[n] = self.variable(n)
                else:
                    args = tuple([done[a] for a in n.args])
                    done[n] = self.chosen(n, args) if n in partial else self.operator(n, args)
            stack.pop()
        return done[root]

    def variable(self, n: Expr) -> Expr:
        if n.attr in self.wide:
            return var(n.attr, n.dtype.vector(self.lanes))
        return ramp(self.lanes) if self.base is ZERO else call("add", broadcast(self.base, self.lanes), ramp(self.lanes))

    def load(self, n: Expr, first: First | None) -> Expr:
        """`first`: only these lanes may be read."""
        name = n.attr
        if name in self.wide:
            return load(name, n.dtype.vector(self.lanes), self.scalar(n.args[0]))
        if name in self.attempt.arrays:
            return load(name, n.dtype.vector(self.lanes), self.aligned(name, n.args[0]))
        if not self.varies(n.args[0]):
            return make("load", n.dtype, (self.scalar(n.args[0]),), name)
        if not in_memory(n.dtype):
            raise _Serial
        growth = self.slope(n.args[0])
        if growth is ONE_STEP:
            some = vload(name, n.dtype, self.lanes, self.at_base(n.args[0]), *(first or ()))
            if first is None or first.skip is not None or self.attempt.around not in first.stop.names or name == self.stored:
                return some
            # most iterations load whole vectors; after one that might be masked, the machine asks for nothing ahead of time (what is stored is there already)
            whole = vload(name, n.dtype, self.lanes, self.at_base(n.args[0]))
            return call("where", call("less_equal", const(self.lanes, INDEX), first.stop), whole, some)
        if self.is_every_other(growth, first):
            return self.every_other(n, first)
        if first is not None:
            raise _Serial
        if growth is None:
            address = self.widen(n.args[0])
            return gather(name, n.dtype, address) if address.dtype.lanes > 1 else make("load", n.dtype, (address,), name)
        steps = call("mul", broadcast(growth, self.lanes), ramp(self.lanes))
        return gather(name, n.dtype, call("add", broadcast(self.at_base(n.args[0]), self.lanes), steps))

    def is_every_other(self, growth: Expr | None, first: First | None) -> bool:
        return growth is TWO_STEPS and self.lanes % 2 == 0 and (first is None or first.skip is None)

    def every_other(self, n: Expr, first: First | None) -> Expr:
        """Every other one of consecutive elements: of two vectors, the second from the last element of the first on, so that nothing beyond the last one wanted is read."""
        at, last = self.at_base(n.args[0]), self.lanes - 1
        counts = ((), ()) if first is None else ((first.stop * 2 - 1,), (first.stop * 2 - self.lanes,))
        a, b = (vload(n.attr, n.dtype, self.lanes, at + k, *count) for k, count in zip((0, last), counts, strict=True))
        return unzip(a, b)

    def operator(self, n: Expr, args: tuple[Expr, ...]) -> Expr:
        if all(a.dtype.lanes == 1 for a in args):
            return make(n.op, n.dtype, args, n.attr)
        trips = difference(self.loop.stop, self.loop.start).attr // self.lanes
        narrow = narrowed(n, args, var(self.loop.var), self.base, trips, self.varies)
        if narrow is not None:
            return narrow
        if n.op == "where":  # a condition that is the same in every lane stays scalar: a choice between vectors, still lazy
            condition, a, b = args
            return call("where", condition, self.vector(a), self.vector(b))
        if n.op == "ins":
            return make("ins", n.dtype.vector(self.lanes), tuple(map(self.vector, args)), n.attr)
        return call(n.op, *map(self.vector, args), to=n.dtype.vector(self.lanes) if n.op in ("cast", "bitcast") else None)

    def guarded(self, root: Expr) -> dict[Expr, First]:
        """What only some lanes may load, with these lanes; and the choices that say so.  A load that other lanes may perform, but not all, has no vector form."""
        choices = [n for n in postorder(root) if n.op == "where" and self.varies(n.args[0])]
        if not choices:
            return {}
        always: set[Expr] = set()
        stack = [root]
        while stack:
            n = stack.pop()
            if n not in always:
                always.add(n)
                stack.extend(n.args[:1] if n in choices else n.args)
        partial: dict[Expr, First] = {}
        for c in choices:
            loads = [[n for n in loads_of(a) if n not in always] for a in c.args[1:]]
            if not any(loads):
                continue
            found = self.guard(c.args[0])
            if found is None or loads[1] or c not in always or self.open or any(n in partial for n in loads[0]):
                raise _Serial
            partial[c] = found[1]
            for n in loads[0]:
                growth = self.slope(n.args[0])
                if growth is not ONE_STEP and not self.is_every_other(growth, found[1]):
                    raise _Serial
                partial[n] = found[1]
        return partial

    def bound(self, count: Expr) -> Expr:
        """A number of lanes, kept to those that there are, beside lanes of 32 bits."""
        return broadcast(call("cast", minimum(maximum(count, 0), self.lanes), to=i32), self.lanes)

    def chosen(self, n: Expr, args: tuple[Expr, ...]) -> Expr:
        """A choice whose loads are of the first lanes only.  Zeros in the other lanes are what such a load gives; else lanes are compared."""
        found = self.guard(n.args[0])
        assert found is not None
        others, first = found
        a, b = self.vector(args[1]), self.vector(args[2])
        if n.args[1].op != "load" or not (n.args[2].is_const and n.args[2].attr == 0):
            place = call("cast", ramp(self.lanes), to=i32.vector(self.lanes))
            inside = call("less_than", place, self.bound(first.stop))
            if first.skip is not None:
                inside = call("bit_and", inside, call("less_equal", self.bound(first.skip), place))
            a = call("where", inside, a, b)
        rest = both(*others)
        return a if rest is None else call("where", rest, a, b)


ONE_STEP = const(1, INDEX)


def in_memory(d: DType) -> bool:
    """Whether vectors of this dtype are loaded and stored; complex numbers are pairs."""
    return not d.is_complex
