"""spare_nans: kernels → kernels.  A maximum does not look for NaN where a sum shows it anyway.

    for p in 0 .. N reduce:                            for p in 0 .. N reduce:
      m[] max= X[i, p]                                   m[] max= ins.larger:f32(-inf, X[i, p])
    for q in 0 .. N reduce:                            for q in 0 .. N reduce:
      l[] add= exp(X[i, q] - m[])               →        l[] add= exp(X[i, q] - m[])
    Y[i] = log(l[]) + m[]                              Y[i] = log(l[]) + m[]

A maximum is NaN where an element is.  The machine's own instruction gives one of two numbers there, so a second one looks for it, and with narrower vectors two.  But where the same elements go through a sum next, that is NaN
whatever the maximum is, and so is all that the two make together; what else a sum so far is multiplied with, or added to, changes nothing.

That is proved on the kernel as it runs: wherever an element of the maximum may have been NaN, the maximum is *anything* and the sum is *lost*; what an operator makes of something lost is lost, of anything else anything.  All ways through
loops and branches are followed.  Nothing that is anything may be stored outside of the kernel, decide a branch, or be a bound or a position.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from ..ir.dtypes import f32, f64
from ..ir.expr import Expr, make, var
from ..ir.instructions import LARGER, SMALLER
from ..ir.kernel import (
    Alloc,
    Barrier,
    Block,
    Check,
    If,
    Kernel,
    Let,
    Loop,
    Module,
    Prefetch,
    Region,
    Stmt,
    Store,
    While,
    identity_of,
    map_block,
    statements,
    written,
)
from ..ir.record import replace
from ..ir.target import Options, Target
from ..ir.walks import postorder, substitute
from .schedule.tree import path_to

INSTEAD = {"max": LARGER.name, "min": SMALLER.name}
MOST_WAYS = 32  # through a kernel, told apart by what is lost

# what is NaN where an operand is
SHOWS = frozenset(
    {
        "add", "sub", "mul", "div", "fma", "neg", "abs", "recip", "sqrt", "rsqrt", "max", "min", "exp", "exp2", "expm1", "log", "log2", "log1p", "erf",
        "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
    }
)  # fmt: skip


def spare_nans(module: Module, target: Target, options: Options) -> Module:
    """See the head of this file."""
    return module.with_kernels(tuple(_kernel(k, target) for k in module.kernels))


def _kernel(kernel: Kernel, target: Target) -> Kernel:
    for extreme in list(_candidates(kernel.body, target)):
        if _shown(kernel, extreme):
            kernel = kernel.with_body(_without(kernel.body, extreme))
    return kernel


class _Extreme(NamedTuple):
    """A loop that accumulates an extreme of values, and those behind it that add up something over the same range."""

    loop: Loop
    store: Store
    sums: tuple[Loop, ...]


def _candidates(block: Block, target: Target) -> Iterator[_Extreme]:
    for inner in chain((block,), (b for s in statements(block) for b in s.blocks())):
        for k, loop in enumerate(inner):
            if not isinstance(loop, Loop) or loop.kind != "reduce":
                continue
            for s in loop.body:
                if (
                    isinstance(s, Store)
                    and INSTEAD.get(s.combiner) in target.instructions
                    and not s.index
                    and s.value.dtype in (f32, f64)
                    and s.value.op != "ins"
                ):
                    sums = tuple(_sums(inner[k + 1 :], loop, s))
                    if sums:
                        yield _Extreme(loop, s, sums)


def _sums(behind: Block, loop: Loop, extreme: Store) -> Iterator[Loop]:
    """Loops over the same range that add up something made of the values, as far as what these are read from has not changed."""
    for s in behind:
        if not extreme.value.buffers.isdisjoint(written((s,))):
            return
        if isinstance(s, Loop) and s.kind == "reduce" and (s.start, s.stop, s.step) == (loop.start, loop.stop, loop.step):
            value = _in(s, loop, extreme)
            if any(value in postorder(t.value) for t in s.body if isinstance(t, Store) and t.combiner == "add"):
                yield s


def _in(later: Loop, loop: Loop, extreme: Store) -> Expr:
    """The value of an extreme in a later loop over the same range."""
    return substitute(extreme.value, {var(loop.axis): var(later.axis)})


def _without(block: Block, extreme: _Extreme) -> Block:
    s = extreme.store
    value = make("ins", s.value.dtype, (identity_of(s.combiner, s.value.dtype), s.value), INSTEAD[s.combiner])
    spared = replace(extreme.loop, body=tuple(replace(s, value=value) if t is s else t for t in extreme.loop.body))
    return map_block(block, lambda t: (spared,) if t is extreme.loop else None)


# ---- the proof


class _Way(NamedTuple):
    """What is known after one way through some statements."""

    anything: frozenset[str] = frozenset()  # names of values and buffers that may be another number than before
    lost: frozenset[str] = frozenset()  # those that are NaN, as they were before
    missed: bool = False  # whether the last run of the loop has seen NaN

    def given(self, name: str, value: str, keeps: bool = False) -> _Way:
        """After something is given a value; `keeps` what else it holds, or held."""
        if value == SAME and name not in self.anything and name not in self.lost:
            return self
        anything = self.anything - {name} | ({name} if value == ANYTHING or (keeps and (value == LOST or name in self.anything)) else set())
        return self._replace(anything=anything, lost=self.lost - {name} | ({name} if value == LOST and name not in anything else set()))


SAME, ANYTHING, LOST = "same", "anything", "lost"
Ways = frozenset[_Way]


class _NotShown(Exception):
    """Somebody would see another number."""


def _shown(kernel: Kernel, extreme: _Extreme) -> bool:
    scalars = {s.buffer.name: not s.buffer.shape for s in statements(kernel.body) if isinstance(s, Alloc)}
    if extreme.store.buffer not in scalars or not scalars[extreme.store.buffer]:
        return False
    try:
        _Proof(kernel, extreme, scalars).block(kernel.body, frozenset({_Way()}))
    except _NotShown:
        return False
    return True


class _Proof:
    def __init__(self, kernel: Kernel, extreme: _Extreme, scalars: dict[str, bool]) -> None:
        self.extreme = extreme
        self.scalars = scalars  # the kernel's own buffers, and which are single numbers
        self.around = {id(s) for s in path_to(kernel.body, lambda t: t is extreme.loop)}
        self.after: dict[
            tuple[int, _Way], Ways
        ] = {}  # of a statement by its `id`: loops inside one another come back to it for every iteration of each

    def block(self, block: Block, ways: Ways) -> Ways:
        for s in block:
            ways = frozenset(after for way in ways for after in self.statement(s, way))
            if len(ways) > MOST_WAYS:
                raise _NotShown
        return ways

    def statement(self, s: Stmt, way: _Way) -> Ways:
        if not (way.anything or way.lost or way.missed or id(s) in self.around):
            return frozenset({way})
        found = self.after.get((id(s), way))
        if found is None:
            found = self.after[id(s), way] = self.followed(s, way)
        return found

    def followed(self, s: Stmt, way: _Way) -> Ways:
        match s:
            case Alloc():
                return frozenset({way.given(s.buffer.name, SAME)})
            case Let():
                return frozenset({way.given(s.name, self.value(s.value, way))})
            case Store():
                return frozenset({self.stored(s, way)})
            case Loop():
                self.same(way, s.start, s.stop, s.step)
                ways = self.loop(s.body, way)
                if s is self.extreme.loop:
                    ways = frozenset(
                        {w._replace(missed=False) for w in ways} | {w.given(self.extreme.store.buffer, ANYTHING)._replace(missed=True) for w in ways}
                    )
                elif any(s is t for t in self.extreme.sums):
                    ways = frozenset(self.summed(s, way, w) for w in ways)
                return ways
            case While():
                self.same(way, *((s.condition,) if s.limit is None else (s.condition, s.limit)))
                ways = self.loop(s.body, way)
                for w in ways:
                    self.same(w, s.condition)
                return ways
            case If():
                self.same(way, s.condition)
                return self.block(s.body, frozenset({way})) | self.block(s.orelse, frozenset({way}))
            case Region():
                return self.block(s.body, frozenset({way}))
            case Check():
                self.same(way, s.condition)
            case Barrier() | Prefetch():
                pass
        return frozenset({way})

    def loop(self, body: Block, way: _Way) -> Ways:
        """After any number of iterations."""
        found, new = frozenset({way}), frozenset({way})
        while new:
            new = self.block(body, new) - found
            found |= new
            if len(found) > MOST_WAYS:
                raise _NotShown
        return found

    def stored(self, s: Store, way: _Way) -> _Way:
        self.same(way, *s.index)
        value = self.value(s.value, way)
        if s.combiner:
            before = ANYTHING if s.buffer in way.anything else LOST if s.buffer in way.lost else SAME
            value = _together((before, value)) if s.combiner in ("add", "mul", "max", "min") else _unless_same((before, value))
        if s.buffer in self.scalars:
            return way.given(s.buffer, value, keeps=not self.scalars[s.buffer])
        if value == ANYTHING:
            raise _NotShown
        return way

    def summed(self, loop: Loop, before: _Way, after: _Way) -> _Way:
        """After a sum over the values of the extreme."""
        if not before.missed:
            return after
        shown = _in(loop, self.extreme.loop, self.extreme.store)
        for s in loop.body:
            if isinstance(s, Store) and s.combiner == "add" and self.scalars.get(s.buffer) and self.value(s.value, before, shown) == LOST:
                after = after.given(s.buffer, LOST)
        return after

    def same(self, way: _Way, *exprs: Expr) -> None:
        if any(self.value(e, way) == ANYTHING for e in exprs):
            raise _NotShown

    def value(self, e: Expr, way: _Way, lost: Expr | None = None) -> str:
        """What becomes of an expression; `lost` is NaN."""
        changed = way.anything | way.lost
        if lost is None and changed.isdisjoint(e.names) and changed.isdisjoint(e.buffers):
            return SAME
        found: dict[Expr, str] = {}
        for n in postorder(e):
            args = tuple([found[a] for a in n.args])
            if n is lost:
                found[n] = LOST
            elif n.op in ("var", "load") and n.attr in changed:
                found[n] = ANYTHING if n.attr in way.anything else LOST
            elif n.op == "where" and args[0] == SAME and args[1] == args[2]:
                found[n] = args[1]
            elif not args:
                found[n] = SAME
            elif n.op in SHOWS or (n.op == "cast" and n.dtype.is_float and n.args[0].dtype.is_float):
                found[n] = _together(args)
            else:
                found[n] = _unless_same(args)
            if n.op == "load" and ANYTHING in args:
                raise _NotShown
        return found[e]


def _together(values: tuple[str, ...]) -> str:
    return LOST if LOST in values else ANYTHING if ANYTHING in values else SAME


def _unless_same(values: tuple[str, ...]) -> str:
    return ANYTHING if LOST in values or ANYTHING in values else SAME
