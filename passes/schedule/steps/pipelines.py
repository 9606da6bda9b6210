"""The step `pipeline`: the passes over one row after the other run side by side, each on a row of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from functools import reduce

from ....ir.bounds import Known
from ....ir.dtypes import INDEX
from ....ir.expr import ONE, TRUE, ZERO, Expr, both, const, load, maximum, minimum, mod, var, where
from ....ir.kernel import Alloc, Block, Buffer, Check, If, Kernel, Let, Loop, Stmt, Store, map_expressions, statements, substitute_block, written
from ....ir.record import changing, replace
from ....ir.simplify import prove_le
from ....ir.walks import postorder, substitute
from ..affine import constant_extent, inside, performed, stride
from ..tree import Facts, StepError, around, copy, fresh, loads_in, names_taken, reads, rename, replace_at, touched
from .distribute import prefixed


def pipeline(kernel: Kernel, facts: Facts, row: str, *axes: str) -> Kernel:
    """Run the passes over a row side by side, each on a row of its own: what the first makes of a row, the second works on one iteration later.

        for i in 0 .. M:                          for i in 0 .. M + 1:
          m = 0                                     m = 0
          for p in 0 .. N:                          let p.n = where(i < M, N, 0)
            m max= X[i, p]                          let q.n = where(1 <= i, N, 0)
          for q in 0 .. N:                 →        for p in 0 .. min(p.n, q.n):
            Y[i, q] = exp(X[i, q] - m)                Y[i - 1, p] = exp(X[i - 1, p] - m.was)
                                                      m max= X[i, p]
                                                    for q in min(p.n, q.n) .. q.n:
                                                      Y[i - 1, q] = exp(X[i - 1, q] - m.was)
                                                    for p.b in min(p.n, q.n) .. p.n:
                                                      m max= X[i, p.b]
                                                    m.was = m

    One pass waits for memory, another computes, a third stores: in one loop they do so at the same time.  Where a pass has no row, before the first or behind the last, or is longer than the others, it goes on alone.

    `row` is a parallel loop in steps of 1, `axes` are two loops or more of its body in order, each from 0 in steps of 1.  A pass is such a loop, what comes before it, and what comes behind it for as long as it writes
    what the loop has touched.  A scalar that later passes touch is one for each pass, and moves on with its row; an array lies there as often, or once, where each position is read before it is written again.  Where every
    pass ends in a vector of the same length, these become one too, behind what they read.  The operations of a row, and their order, stay the same.
    """
    path = around(kernel, row)
    loop = path[-1]
    assert isinstance(loop, Loop)
    if loop.kind != "parallel" or loop.step is not ONE:
        raise StepError(f"pipeline: `{row}` is no parallel loop in steps of 1")
    if len(axes) < 2:
        raise StepError("pipeline: one pass has no other to run beside")
    if any(n.op in ("first", "last") and n.attr == row for s in statements(loop.body) for e in s.expressions() for n in postorder(e)):
        raise StepError(f"pipeline: a condition asks for the first or the last of `{row}`")
    work = _Pipeline(facts, loop, names_taken(kernel), _cut(loop, axes))
    return kernel.with_body(replace_at(kernel.body, path, work.run(inside(path[:-1], facts.known))))


@changing
class _Pass:
    """A loop over the columns of a row, and what is done for the row before and after it."""

    before: list[Stmt]
    loop: Loop
    after: list[Stmt]

    @property
    def block(self) -> Block:
        return (*self.before, self.loop, *self.after)

    def change(self, how: Callable[[Block], Block]) -> None:
        self.before[:], self.after[:] = how(tuple(self.before)), how(tuple(self.after))
        (main,) = how((self.loop,))
        assert isinstance(main, Loop)
        self.loop = main


def _cut(loop: Loop, axes: Sequence[str]) -> list[_Pass]:
    """The body of a row as passes."""
    places = [next((k for k, s in enumerate(loop.body) if isinstance(s, Loop) and s.axis == a), None) for a in axes]
    if any(p is None for p in places) or places != sorted(set(places), key=lambda p: p or 0):
        raise StepError(f"pipeline: {', '.join(axes)} are no loops of the body of `{loop.axis}` in this order")
    found: list[_Pass] = []
    begin = 0
    for k, (here, then) in enumerate(zip(places, [*places[1:], len(loop.body)], strict=True)):
        assert here is not None and then is not None
        main = loop.body[here]
        assert isinstance(main, Loop)
        if main.start is not ZERO or main.step is not ONE or main.kind not in ("serial", "parallel", "reduce", "elastic"):
            raise StepError(f"pipeline: `{main.axis}` does not run from 0 in steps of 1, one after the other")
        before, rest = list(loop.body[begin:here]), loop.body[here + 1 : then]
        own = touched((*before, main)) & {s.buffer.name for s in loop.body if isinstance(s, Alloc)}
        last = max((n for n, s in enumerate(rest, 1) if written((s,)) & own), default=0)
        end = last if k + 1 < len(axes) else len(rest)
        found.append(_Pass(before, main, list(rest[:end])))
        begin = here + 1 + end
    return found


@changing
class _Pipeline:
    facts: Facts
    loop: Loop
    taken: set[str]
    passes: list[_Pass]
    before: list[Stmt] = field(default_factory=list)  # all rows
    turn: list[Stmt] = field(default_factory=list)  # at the end of an iteration
    own: set[str] = field(default_factory=set)  # buffers of the iterations

    def run(self, known: Known) -> Block:
        self.name_what_crosses()
        self.own_lets()
        self.keep_what_crosses()
        count = len(self.passes)
        self.own = {s.buffer.name for s in statements((*self.before, *(t for p in self.passes for t in p.block))) if isinstance(s, Alloc)}
        heads: list[Stmt] = []
        behind: list[Stmt] = []
        lets: list[Stmt] = []
        trips: list[Expr] = []
        shifted = [self.shifted(k) for k in range(count)]
        for k, p in enumerate(shifted):
            name = fresh(f"{p.loop.axis}.n", self.taken)
            active, length = self.active(k), p.loop.stop
            if not prove_le(ZERO, substitute(length, _meaning(p)), known):
                length = maximum(ZERO, length)
            lets.append(Let(name, length if active is TRUE else where(active, length, ZERO)))
            trips.append(var(name, INDEX))
        together = fresh(f"{self.loop.axis}.n", self.taken)
        lets.append(Let(together, reduce(minimum, trips)))
        for k in reversed(range(count)):
            p = shifted[k]
            heads += self.guarded(p.before, k)
            self.taken -= {p.loop.axis} if k else set()
            rest = copy((replace(p.loop, start=var(together, INDEX), stop=trips[k]),), self.taken)
            behind += [*rest, *self.guarded(p.after, k)]
        one = Loop(shifted[0].loop.axis, ZERO, var(together, INDEX), self.fused([p.loop for p in shifted]), "serial", span=shifted[0].loop.span)
        body = (*heads, *lets, one, *behind, *self.turn)
        return (*self.before, replace(self.loop, stop=self.loop.stop + (count - 1), body=body, kind="serial"))

    # ---- what crosses from one pass to a later one

    def users(self, name: str) -> list[int]:
        """The passes that touch a buffer, or mention a let."""
        return [
            k
            for k, p in enumerate(self.passes)
            if any(name in e.names or name in e.buffers for s in statements(p.block) for e in s.expressions()) or name in written(p.block)
        ]

    def name_what_crosses(self) -> None:
        """A value that is named in one pass for later ones is kept in a scalar; a position is worked out again, see `own_lets`."""
        for k, p in enumerate(self.passes):
            for part in (p.before, p.after):
                for n, s in enumerate(part):
                    if isinstance(s, Let) and s.value.buffers and any(u > k for u in self.users(s.name)):
                        if s.value.dtype.is_integer:
                            raise StepError(f"pipeline: the position `{s.name}` is read from memory in one pass and used in a later one")
                        kept = Buffer(fresh(f"{s.name}.kept", self.taken), s.value.dtype, (), "register")
                        part[n : n + 1] = [Alloc(kept), Store(kept.name, (), s.value)]
                        here = {var(s.name, s.value.dtype): load(kept.name, kept.dtype)}
                        self.substitute(range(len(self.passes)), here)

    def substitute(self, which: Iterable[int], mapping: dict[Expr, Expr]) -> None:
        for k in which:
            self.passes[k].change(lambda b: substitute_block(b, mapping))

    def own_lets(self) -> None:
        """Positions that later passes use, each works out for itself."""
        meaning: dict[Expr, Expr] = {}
        for k, p in enumerate(self.passes):
            for s in [s for s in (*p.before, *p.after) if isinstance(s, Let)]:
                value = meaning[var(s.name, s.value.dtype)] = substitute(s.value, meaning)
                for u in self.users(s.name):
                    if u > k:
                        name = fresh(s.name, self.taken)
                        self.substitute([u], {var(s.name, s.value.dtype): var(name, s.value.dtype)})
                        self.passes[u].before.insert(0, Let(name, value))

    def keep_what_crosses(self) -> None:
        for k, p in enumerate(self.passes):
            for s in [s for s in (*p.before, *p.after) if isinstance(s, Alloc)]:
                users = self.users(s.buffer.name)
                if not users or users == [k]:
                    continue
                if s in p.before:
                    p.before.remove(s)
                else:
                    p.after.remove(s)
                first, last = users[0], users[-1]
                if first == last:
                    self.passes[first].before.insert(0, s)
                    continue
                if s.buffer.shape:
                    self.keep_array(s.buffer, first, last)
                else:
                    self.keep_scalar(s.buffer, first, last)

    def keep_scalar(self, buffer: Buffer, first: int, last: int) -> None:
        """One for each pass: what a row has come to moves on to the next at the end of an iteration."""
        self.passes[first].before.insert(0, Alloc(buffer))
        before = buffer.name
        turn: list[Stmt] = []
        for k in range(first + 1, last + 1):
            was = replace(buffer, name=fresh(f"{buffer.name}.was", self.taken))
            self.before += [Alloc(was), Store(was.name, (), const(0, buffer.dtype))]
            turn.insert(0, Store(was.name, (), load(before, buffer.dtype)))
            before = was.name
            self.passes[k].change(lambda b, name=was.name: rename(b, {buffer.name: name}))
        self.turn += turn

    def keep_array(self, buffer: Buffer, first: int, last: int) -> None:
        """Once, where what is read of a row is read before the next row is written there; else as often as there are rows."""
        if buffer.space == "register" or buffer.strides:
            raise StepError(f"pipeline: the passes share `{buffer.name}`, which is in registers or has strides")
        if any(buffer.name in written(p.block) for p in self.passes[first + 1 :]):
            raise StepError(f"pipeline: `{buffer.name}` is written by several passes")
        if last == first + 1 and self.follows(buffer.name, self.passes[first], self.passes[last]):
            self.before.append(Alloc(buffer))
            return
        count = last - first + 1
        self.before.append(Alloc(replace(buffer, shape=(const(count), *buffer.shape))))
        which = mod(var(self.loop.axis), const(count))
        for p in self.passes[first : last + 1]:
            p.change(lambda b: prefixed(b, buffer.name, (which,)))

    def follows(self, name: str, writer: _Pass, reader: _Pass) -> bool:
        """Whether the reader of a row is never behind the writer of the next: each position has been read when the other comes there."""
        stores = [s for s in statements(writer.loop.body) if isinstance(s, Store) and s.buffer == name]
        lane, other = _lanes(writer.loop), _lanes(reader.loop)
        if lane is None or other is None or len(stores) != 1 or len(stores[0].index) != 1:
            return False
        length = constant_extent(lane)
        if length is None or constant_extent(other) != length:
            return False
        (at,) = stores[0].index
        if (
            name in {*written(tuple(writer.before)), *(n.attr for n in reads(writer.block))}
            or stride(at, lane.axis) != 1
            or stride(at, writer.loop.axis) != length
        ):
            return False
        meaning = _meaning(reader)
        known = inside((s for s in statements(substitute_block(reader.block, meaning)) if isinstance(s, Loop)), self.facts.known)

        def not_before(here: Expr, least: Expr) -> bool:
            return prove_le(substitute(least, meaning), substitute(here, meaning), known)

        begin = substitute(at, {var(writer.loop.axis): ZERO, var(lane.axis): ZERO})
        for n in (n for n in reads((reader.loop,)) if n.attr == name):
            here = n.args[0]
            first = substitute(here, {var(reader.loop.axis): ZERO, var(other.axis): ZERO})
            if stride(here, other.axis) != 1 or stride(here, reader.loop.axis) != length or not not_before(first, begin):
                return False
        return all(not_before(n.args[0], reader.loop.stop * length + begin) for n in reads(tuple(reader.after)) if n.attr == name)

    # ---- the iteration

    def shifted(self, k: int) -> _Pass:
        """A pass on its own row: k before the one that the first works on."""
        p = self.passes[k]
        found = _Pass([*p.before], p.loop, [*p.after])
        found.change(lambda b: substitute_block(b, {var(self.loop.axis): var(self.loop.axis) - k}))
        return found

    def active(self, k: int) -> Expr:
        """Whether a pass has a row."""
        here = var(self.loop.axis)
        begun = None if k == 0 else (self.loop.start + k).le(here)
        left = None if k + 1 == len(self.passes) else here.lt(self.loop.stop + k)
        return both(begun, left) or TRUE

    def guarded(self, block: Sequence[Stmt], k: int) -> Block:
        """What a pass does for a row beside its loop, where it has one; what touches nothing but the iterations' own is done anyway."""
        result: list[Stmt] = []
        held: list[Stmt] = []
        for s in block:
            own = {*(n.attr for n in reads((s,))), *written((s,))} <= self.own and not any(isinstance(t, Check) for t in statements((s,)))
            if isinstance(s, Let) and not own:
                raise StepError(f"pipeline: `{s.name}` is read from memory, beyond the rows too")
            if own and held:
                result.append(If(self.active(k), tuple(held)))
                held = []
            (result if own else held).append(s)
        return (*result, *((If(self.active(k), tuple(held)),) if held else ()))

    def fused(self, loops: Sequence[Loop]) -> Block:
        """The iterations of all passes at the same columns, the oldest row first; their vectors as one where they are as long."""
        axis = var(loops[0].axis)
        bodies = [substitute_block(x.body, {var(x.axis): axis}) for x in reversed(loops)]
        lanes = [b[-1] for b in bodies if isinstance(b[-1], Loop) and b[-1].kind == "vector"]
        if len(lanes) != len(bodies) or len({constant_extent(x) for x in lanes}) != 1 or any(x.start is not ZERO for x in lanes):
            return tuple(s for b in bodies for s in b)
        lane = lanes[-1]
        inner = tuple(s for x in lanes for s in substitute_block(x.body, {var(x.axis): var(lane.axis)}))
        first, inner = self.read_first(inner, lane)
        return (*(s for b in bodies for s in b[:-1]), *first, replace(lane, body=inner))

    def read_first(self, block: Block, lane: Loop) -> tuple[Block, Block]:
        """What all lanes of an iteration's vectors read from memory, and the rest: a load waits for an earlier store whose address ends in the same 12 bits, as those of two large arrays do (softmax of 4096² on Zen 4, two
        threads: 6.2 → 3.15 ms by gcc, 4.1 → 3.17 by clang; one pass after the other 4.6 and 3.95)."""
        registers = {s.buffer.name for s in statements((self.loop,)) if isinstance(s, Alloc) and s.buffer.space == "register"}
        named = {s.name for s in block if isinstance(s, Let)}
        values: dict[Expr, Expr] = {}
        result: list[Stmt] = []
        stores: list[Store] = []
        changed: set[str] = set()
        own = fresh(lane.axis, self.taken)
        for s in block:
            for n in (
                n for e in s.expressions() for n in loads_in(e) if n in performed(e, always=True)
            ):  # there need not be what only some lanes read
                if n not in values and n.attr not in registers | changed and lane.axis in n.names and n.names.isdisjoint(named):
                    held = Buffer(fresh(f"{n.attr}.now", self.taken), n.dtype, (lane.stop,), "register")
                    result.append(Alloc(held))
                    stores.append(Store(held.name, (var(own),), substitute(n, {var(lane.axis): var(own)})))
                    values[n] = load(held.name, held.dtype, var(lane.axis))
            changed |= written((s,))
        if not stores:
            return (), block
        return (*result, replace(lane, axis=own, body=tuple(stores))), map_expressions(block, lambda e: substitute(e, values))


def _lanes(loop: Loop) -> Loop | None:
    """The vector that a loop consists of."""
    inner = [s for s in loop.body if isinstance(s, Loop)]
    return inner[0] if len(inner) == 1 and inner[0].kind == "vector" and inner[0].start is ZERO else None


def _meaning(p: _Pass) -> dict[Expr, Expr]:
    """What is named in a pass."""
    found: dict[Expr, Expr] = {}
    for s in p.block:
        if isinstance(s, Let):
            found[var(s.name, s.value.dtype)] = substitute(s.value, found)
    return found
