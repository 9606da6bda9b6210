"""The step by which the threads of a GPU's block share the work of one row, or of one tile: `cooperate`."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.dtypes import DType
from ....ir.expr import ONE, ZERO, Expr, call, const, load, var
from ....ir.graph import Shape
from ....ir.kernel import (
    Alloc,
    Barrier,
    Block,
    Buffer,
    Check,
    If,
    Kernel,
    Let,
    Loop,
    Stmt,
    Store,
    While,
    identity_of,
    map_expressions,
    perfect,
    statements,
    with_body,
    written,
)
from ....ir.record import replace
from ....ir.renaming import at_places
from ....ir.walks import substitute
from ..tree import Facts, StepError, TooMuch, find, fresh, loads_in, local_buffers, names_taken, path_to, reads, rename, replace_loop, touched
from .fetches import bytes_of
from .kinds import in_order

PLACES = ("thread.x", "thread.y", "thread.z")
SHARED = ("parallel", "reduce")  # kinds of loops that threads share
MOST_SHARED = 48 << 10  # bytes of a block's memory that need no asking for more


def cooperate(kernel: Kernel, facts: Facts, axis: str, threads: int, *, most: int = MOST_SHARED) -> Kernel:
    """Let so many threads of a block do together what one did for each iteration of a loop that is bound to blocks, or to other threads of the block.

        for i in 0 .. M block.x:                for i in 0 .. M block.x:
          alloc acc                               alloc acc.all: f32[256] shared
          acc[] = 0                               alloc acc.few: f32[16] shared
          for p in 0 .. N reduce:                 for i.t in 0 .. 256 thread.x:
            acc[] add= X[i, p]                      alloc acc
          for j in 0 .. N parallel:                 acc[] = 0
            Y[i, j] = X[i, j] / acc[]               alloc acc.own
                                         →          acc.own[] = 0
                                                    for p in i.t .. N step 256:
                                                      acc.own[] add= X[i, p]
                                                    acc.all[i.t] = acc.own[]
                                                    barrier
                                                    if i.t < 16:
                                                      acc.few[i.t] = acc.all[i.t] + acc.all[i.t + 16] + … + acc.all[i.t + 240]
                                                    barrier
                                                    acc[] add= acc.few[0] + … + acc.few[15]
                                                    for j in i.t .. N step 256:
                                                      Y[i, j] = X[i, j] / acc[]

    Neighbouring threads take neighbouring positions of the outermost parallel and reduction loops inside; parallel loops of constant extents that hold nothing
    but one another are one such loop.  Whatever else there is every thread does, but what is stored there, which the first of them does.  An array is shared
    by them, and between storing and reading it there are barriers; where each thread stores and reads elements of its own alone, by the axes of nests that have
    just as many iterations as there are threads, each has these as an array of its own.

    Sums are of so many parts in a fixed order: --strict refuses those of floats.  Refused is also what would leave a thread's work to all of them: a serial loop
    without a shared one inside, and reductions into more than scalars; and a loop around a barrier whose bounds are not the same for all threads.
    N is a power of two.  What they share has no more than `most` bytes.
    """
    loop = find(kernel, axis)
    if not loop.kind.startswith(("block.", "thread.")):
        raise StepError(f"cooperate: `{axis}` is bound to no block and to no thread")
    if threads < 2 or threads & (threads - 1):
        raise StepError(f"cooperate: {threads} is no power of two")
    around = [s for s in path_to(kernel.body, lambda s: s is loop) if isinstance(s, Loop)]
    held = [s for s in around if s.kind in PLACES]
    free = [place for place in PLACES if place not in {s.kind for s in held}]
    if not free or any(isinstance(s, Loop) and s.kind in PLACES for s in statements(loop.body)):
        raise StepError(f"cooperate: threads stand inside `{axis}` already")
    if any(not (s.stop.is_const and s.start is ZERO) for s in held):
        raise StepError("cooperate: the threads around it are not so many everywhere")
    if sum(isinstance(s, Loop) and s.kind.startswith("block.") for s in statements(kernel.body)) != sum(s.kind.startswith("block.") for s in around):
        raise StepError("cooperate: the kernel has other blocks, whose threads are others")
    found = _Cooperation(kernel, facts, loop, threads, held, min(most, facts.shared_bytes))
    body = found.block(loop.body, None)
    if not found.shared:
        raise StepError(f"cooperate: nothing inside `{axis}` can be shared")
    team = Loop(found.thread, ZERO, const(threads), body, free[0])
    inside: Block = (team,) if held else (*found.memory, team)
    outside = replace_loop(kernel, held[0].axis, lambda x: (*found.memory, x)) if held else kernel
    return replace_loop(outside, axis, lambda x: (with_body(x, inside),))


def whole(kernel: Kernel, facts: Facts, axis: str) -> Kernel:
    """All of the kernel as the one iteration of a loop, which can be bound to a block.

    S      →      for axis in 0 .. 1 parallel:
                    S
    """
    if axis in names_taken(kernel):
        raise StepError(f"whole: the name `{axis}` is taken")
    return kernel.with_body((Loop(axis, ZERO, ONE, kernel.body, "parallel"),))


class _Cooperation:
    """The walk through the body of the loop."""

    def __init__(self, kernel: Kernel, facts: Facts, loop: Loop, threads: int, held: Sequence[Loop], most: int) -> None:
        self.facts, self.threads, self.held, self.most = facts, threads, held, most
        self.taken = names_taken(kernel)
        self.thread = fresh(f"{loop.axis}.t", self.taken)
        self.unlike = {x.axis for x in held}  # names that are not the same in all threads of the block
        self.local = local_buffers(kernel)
        self.memory: list[Stmt] = []  # what they share
        self.shared = 0  # loops
        self.private = self._private(loop.body)
        scalars = {b for b, buffer in self.local.items() if not buffer.shape}
        self.exchanged = written(loop.body) - scalars - self.private.keys()  # what one thread may store and another touch
        self.stored, self.read = set[str](), set[str]()  # of these, since the last barrier

    # ---- arrays of a thread's own

    def _private(self, block: Block) -> dict[str, tuple[int, ...]]:
        """The arrays of which each thread touches elements of its own alone, and which of their axes say whose they are."""
        found: dict[str, tuple[int, ...] | None] = {}
        own = {s.buffer.name for s in _outside(block) if isinstance(s, Alloc) and s.buffer.shape}
        for s in _outside(block):
            axes = self._exact(s)
            for b in own & touched((s,) if isinstance(s, (Loop, Store, Let)) else ()):
                places = {_places(index, axes, self.local[b]) for index in _indices(s, b)}
                place = next(iter(places)) if len(places) == 1 else None
                found[b] = place if found.get(b, place) == place else None
        return {b: places for b, places in found.items() if places is not None}

    def _exact(self, s: Stmt) -> list[Loop]:
        """The outer loops of a nest that have just as many iterations as there are threads; none where there are no such."""
        nest = _nest(s) if isinstance(s, Loop) and s.kind in SHARED else []
        return next((nest[:k] for k in range(1, len(nest) + 1) if _count(nest[:k]) == self.threads), [])

    def _own(self, block: Block) -> Block:
        """The block with the axes left out that say which thread's an element is."""
        return at_places(block, self.private, lambda name, index: _without(index, self.private[name])) if self.private else block

    # ---- statements

    def block(self, block: Block, guard: Expr | None) -> Block:
        """`guard`: the condition under which the threads of one iteration have anything to do, where that is not the same for all threads of the block."""
        result: list[Stmt] = []
        head = block if guard is None else block[: max((k + 1 for k, s in enumerate(block) if _has_shared((s,))), default=0)]
        for s in head:
            result += self._statement(s, guard)
        return (*result, *self._ending(block[len(head) :], guard))

    def _ending(self, block: Block, guard: Expr | None) -> Block:
        """What follows the last loop that threads share where some have nothing to do: under one condition, for what is named there is read nowhere else."""
        if not block or guard is None:
            return ()
        own = {s.buffer.name for s in block if isinstance(s, Alloc)}
        stored = written(block) - own
        if any(b in self.local and not self.local[b].shape for b in stored):
            return tuple(t for s in block for t in self._statement(s, guard))
        condition = call("bit_and", guard, var(self.thread).eq(ZERO)) if stored else guard
        return (*self._wait(block), If(condition, block))

    def _statement(self, s: Stmt, guard: Expr | None) -> Block:
        match s:
            case Loop(kind="parallel"):
                return (*self._wait((s,)), *self._parallel(s, guard))
            case Loop(kind="reduce"):
                return (*self._wait((s,)), *self._reduction(s, guard))
            case Loop() if _has_shared(s.body):
                return (self._in_order(s, guard),)
            case If() if _has_shared((*s.body, *s.orelse)):
                return self._branches(s, guard)
            case Loop() | While():
                raise StepError("cooperate: every thread would run the whole of a serial loop")
            case Let():
                if guard is not None and s.value.buffers - self.local.keys():
                    raise StepError(f"cooperate: `{s.name}` is read from where a thread may have nothing to do")
                if not self._alike(s.value):
                    self.unlike.add(s.name)
                return (*self._wait((s,)), s)
            case Alloc(buffer) if buffer.shape:
                return self._array(buffer)
            case Alloc():
                return (s,)
            case Store() | If() | Check():
                return self._once(s, guard)
            case _:
                raise StepError(f"cooperate: a {type(s).__name__.lower()} cannot be shared")

    def _alike(self, *found: Expr) -> bool:
        """Whether all threads of the block see the same: no axis of theirs, and with such axes nothing that is read."""
        return all(e.names.isdisjoint(self.unlike) and not (self.held and e.buffers) for e in found)

    def _in_order(self, s: Loop, guard: Expr | None) -> Stmt:
        """A serial loop that every thread runs, around what they share."""
        if s.kind not in ("serial", "elastic") or not self._alike(s.start, s.stop, s.step) or any(e.buffers for e in (s.start, s.stop, s.step)):
            raise StepError(f"cooperate: not every thread runs `{s.axis}` as often, or runs it in order")
        stored, read = set(self.stored), set(self.read)
        body = self.block(s.body, guard)
        end = self._wait((s,))  # the next iteration begins
        self.stored |= stored
        self.read |= read
        return with_body(s, (*body, *end))

    def _branches(self, s: If, guard: Expr | None) -> Block:
        if not s.condition.buffers and self._alike(s.condition):
            before = self._wait((s,))  # not in one branch alone
            return (*before, If(s.condition, self.block(s.body, guard), self.block(s.orelse, guard)))
        if s.orelse or guard is not None or s.condition.buffers:
            raise StepError("cooperate: a condition that is not the same for all threads stands around what they share")
        return self.block(s.body, s.condition)

    def _array(self, buffer: Buffer) -> Block:
        if not all(e.is_const for e in buffer.shape):
            raise StepError(f"cooperate: `{buffer.name}` has no constant shape")
        if buffer.name in self.private:
            shape = _without(buffer.shape, self.private[buffer.name])
            return (Alloc(replace(buffer, shape=shape, space="register")),)
        if self.held:
            raise StepError(f"cooperate: `{buffer.name}` is an array of each of `{self.held[-1].axis}`")
        self.memory.append(Alloc(replace(buffer, space="shared")))
        size = sum(bytes_of(s.buffer) for s in self.memory if isinstance(s, Alloc))
        if size > self.most:
            raise TooMuch(f"cooperate: {size} bytes are more than a block's threads share")
        return ()

    def _once(self, s: Stmt, guard: Expr | None) -> Block:
        """What every thread does in numbers of its own, and what the first alone stores for all."""
        if any(isinstance(t, Store) and t.buffer in self.private for t in statements((s,))):
            raise StepError("cooperate: a thread's own array is stored into outside of what they share")
        outside = {t.buffer for t in statements((s,)) if isinstance(t, Store) and (t.buffer not in self.local or self.local[t.buffer].shape)}
        reading = any(e.buffers - self.local.keys() for t in statements((s,)) for e in t.expressions())
        condition = guard if reading or outside or isinstance(s, Check) else None
        if outside:
            if any(isinstance(t, Store) and t.buffer not in outside for t in statements((s,))):
                raise StepError("cooperate: under one condition something is stored for all and something for each thread")
            first = var(self.thread).eq(ZERO)
            condition = first if guard is None else call("bit_and", guard, first)
        return (*self._wait((s,)), s if condition is None else If(condition, (s,)))

    def _wait(self, block: Block) -> Block:
        """A barrier, where the block touches what was stored since the last one, or stores what was read."""
        storing, touching = written(block) & self.exchanged, touched(block) & self.exchanged
        needed = not self.stored.isdisjoint(touching) or not self.read.isdisjoint(storing)
        if needed:
            self._passed()
        self.stored |= storing
        self.read |= touching - storing | {n.attr for n in reads(block)} & self.exchanged
        return (Barrier(),) if needed else ()

    def _passed(self) -> None:
        self.stored.clear()
        self.read.clear()

    # ---- loops that are shared

    def _parallel(self, s: Loop, guard: Expr | None) -> Block:
        nest = _nest(s)
        if not self.private.keys().isdisjoint(touched((s,))):
            nest = self._exact(s)
        self.shared += 1
        if _count(nest) is None:
            return _under(guard, self._mine(s, self._own(in_order(s.body))))
        count = _count(nest) or 1
        turn = var(fresh(f"{s.axis}.n", self.taken)) if count > self.threads else ZERO
        positions = {var(x.axis): e for x, e in zip(nest, self._digits(nest, turn), strict=True)}
        body = map_expressions(self._own(in_order(nest[-1].body)), lambda e: substitute(e, positions))
        if turn is not ZERO:
            turns, rest = divmod(count, self.threads)
            body = body if not rest else (If((turn * self.threads + var(self.thread)).lt(count), body),)
            body = (Loop(turn.attr, ZERO, const(turns + bool(rest)), body, "serial", span=s.span),)
        elif count < self.threads:
            body = (If(var(self.thread).lt(count), body),)
        return _under(guard, body)

    def _digits(self, nest: Sequence[Loop], turn: Expr) -> list[Expr]:
        """Where a thread is in a nest at its so-many-th turn: the digits of turn · threads + thread.  Those that are the same in each turn are written so."""
        thread, found = var(self.thread), list[Expr]()
        inner = _count(nest) or 1
        for k, x in enumerate(nest):
            inner //= x.stop.attr
            if self.threads % inner == 0:
                apart = self.threads // inner  # how far on this axis the next turn is
                own = thread // inner if inner > 1 else thread
                place = own if turn is ZERO or (k > 0 and apart % x.stop.attr == 0) else turn * apart + own
            elif inner % self.threads == 0:
                place = turn // (inner // self.threads)
            else:
                place = (turn * self.threads + thread) // inner
            found.append(place % x.stop if k > 0 else place)
        return found

    def _mine(self, s: Loop, body: Block) -> Block:
        """A thread's own part of a loop's iterations."""
        return (Loop(s.axis, s.start + var(self.thread) * s.step, s.stop, body, "serial", s.step * self.threads, s.span),)

    def _reduction(self, s: Loop, guard: Expr | None) -> Block:
        """Each thread's part into a number of its own, and these put together by all."""
        inside = {t.buffer.name for t in statements(s.body) if isinstance(t, Alloc)}
        combiners: dict[str, str] = {}
        for t in statements(s.body):
            if not isinstance(t, Store) or t.buffer in inside:
                continue
            if t.buffer not in self.local or self.local[t.buffer].shape or not t.combiner:
                raise StepError(f"cooperate: `{s.axis}` reduces into `{t.buffer}`, which is no scalar")
            if combiners.setdefault(t.buffer, t.combiner) != t.combiner:
                raise StepError(f"cooperate: `{s.axis}` reduces into `{t.buffer}` in two ways")
            if self.facts.strict and t.combiner in ("add", "mul") and self.local[t.buffer].dtype.is_float:
                raise StepError("cooperate: --strict forbids another order of a float sum")
        if any(n.attr in combiners for n in reads(s.body)):
            raise StepError(f"cooperate: what `{s.axis}` reduces is read inside of it")
        self.shared += 1
        parts = {b: fresh(f"{b}.own", self.taken) for b in combiners}
        before: list[Stmt] = []
        for b, own in parts.items():
            dtype = self.local[b].dtype
            before += [Alloc(Buffer(own, dtype, (), "register")), Store(own, (), identity_of(combiners[b], dtype))]
        mine = _under(guard, self._mine(s, rename(in_order(s.body), parts)))
        return (*before, *mine, *self._together(parts, combiners))

    def _together(self, parts: dict[str, str], combiners: dict[str, str]) -> Block:
        """The threads' numbers through shared memory: so many in each of a few threads, then these in each thread.

        Two barriers are enough, also for the next time: what is stored into the first array then was read before the second barrier, and the other way round.
        """
        few = 1 << (self.threads.bit_length() // 2)
        across = tuple(x.stop for x in self.held)  # other iterations of this block have numbers of their own
        beside = tuple(var(x.axis) for x in self.held)
        share: list[Stmt] = []
        fold: list[Stmt] = []
        take: list[Stmt] = []
        thread = var(self.thread)
        for b, own in parts.items():
            dtype, combiner = self.local[b].dtype, combiners[b]
            all_, some = (fresh(f"{b}.{word}", self.taken) for word in ("all", "few"))
            self.memory += [Alloc(Buffer(n, dtype, (const(count), *across), "shared")) for n, count in ((all_, self.threads), (some, few))]
            share.append(Store(all_, (thread, *beside), load(own, dtype)))
            part = fresh(f"{b}.part", self.taken)
            fold += [Alloc(Buffer(part, dtype, (), "register")), Store(part, (), identity_of(combiner, dtype))]
            fold.append(self._fold(part, combiner, dtype, all_, self.threads // few, few, thread, beside))
            fold.append(Store(some, (thread, *beside), load(part, dtype)))
            take.append(self._fold(b, combiner, dtype, some, few, 1, ZERO, beside))
        self._passed()
        return (*share, Barrier(), If(thread.lt(few), tuple(fold)), Barrier(), *take)

    def _fold(self, into: str, combiner: str, dtype: DType, source: str, count: int, step: int, first: Expr, beside: tuple[Expr, ...]) -> Stmt:
        """`count` numbers of an array, from `first` on by steps, into one."""
        axis = fresh(f"{source}.k", self.taken)
        value = load(source, dtype, first + var(axis) * step, *beside)
        return Loop(axis, ZERO, const(count), (Store(into, (), value, combiner),), "unroll")


def _places(index: Shape, axes: Sequence[Loop], buffer: Buffer) -> tuple[int, ...] | None:
    """Where in an index the positions of some loops stand, each over the whole of that axis; None where one does not."""
    places = tuple(next((k for k, e in enumerate(index) if e is var(x.axis) and buffer.shape[k] is x.stop), -1) for x in axes)
    return places if places and -1 not in places else None


def _without(index: Shape, places: Sequence[int]) -> Shape:
    return tuple(e for k, e in enumerate(index) if k not in places)


def _under(guard: Expr | None, block: Block) -> Block:
    return block if guard is None else (If(guard, block),)


def _has_shared(block: Block) -> bool:
    return any(isinstance(t, Loop) and t.kind in SHARED for t in statements(block))


def _outside(block: Block) -> list[Stmt]:
    """The statements that every thread runs, and the outermost loops that they share."""
    result: list[Stmt] = []
    for s in block:
        result.append(s)
        if isinstance(s, Loop) and s.kind not in SHARED:
            result[-1:] = _outside(s.body)
        elif isinstance(s, If):
            result[-1:] = [Let("", s.condition), *_outside((*s.body, *s.orelse))]
    return result


def _nest(loop: Loop) -> list[Loop]:
    """Parallel loops from 0 of constant extents, each of which holds the next and nothing else; the loop alone where it is none."""
    return perfect((loop,), _plain)[0] or [loop]


def _plain(s: Loop) -> bool:
    return s.kind == "parallel" and s.start is ZERO and s.step is ONE and s.stop.is_const and s.stop.attr > 0


def _count(nest: Sequence[Loop]) -> int | None:
    """The iterations of such a nest."""
    result = 1
    for x in nest:
        if not _plain(x):
            return None
        result *= x.stop.attr
    return result


def _indices(s: Stmt, buffer: str) -> list[tuple[Expr, ...]]:
    """Where a statement touches a buffer."""
    found = [n.args for t in statements((s,)) for n in loads_in(*t.expressions()) if n.attr == buffer]
    return found + [t.index for t in statements((s,)) if isinstance(t, Store) and t.buffer == buffer]
