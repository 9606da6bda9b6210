"""The body of a vector loop, statement by statement, for all lanes at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ....ir.expr import TRUE, ZERO, Expr, both, call, const, fold, load, var
from ....ir.primops import COMBINERS
from ....ir.program import Array, Assign, Block, Define, For, If, Stmt, StoreTo, statements
from ....ir.record import replace
from ....ir.target import LINE
from ....ir.walks import postorder, substitute
from .axis import ONE_STEP, Axis, Serial
from .columns import rows, stored_rows
from .guards import First, guard
from .values import Values, in_memory

MOST_FOLDED: Final = 8  # vectors that are written out to be folded together
COMBINER_OF: Final = {c.op: c.name for c in COMBINERS.values()}


class Statements:
    def __init__(self, axis: Axis, values: Values) -> None:
        self.axis, self.values = axis, values

    def block(self, block: Block) -> Block:
        """Raises Serial where it has no vector form."""
        rows = stored_rows(self.axis, block)
        square = self.values.rows == self.axis.lanes
        if self.values.open and not square and any(s.value.dtype.bytes * self.axis.lanes < LINE for stores in rows.values() for s in stores):
            rows = {}  # shorter vectors store their first lanes in pieces (AVX2, rows of 20 complex numbers that change places 1.56 of the time)
        done = [t for k, s in enumerate(block) for t in (self.rows(rows[k]) if k in rows else (self.statement(s),))]
        return tuple(t for s in done for t in (s.body if isinstance(s, If) and s.condition is TRUE else (s,)))

    def statement(self, s: Stmt) -> Stmt:
        wide, lanes, values = self.axis.wide, self.axis.lanes, self.values
        if isinstance(s, Define):
            value = None if s.value is None else values.widen(s.value)
            if not s.mutable and value is not None and value.dtype.lanes == 1:
                return replace(s, value=value)
            wide.add(s.name)
            return replace(s, dtype=s.dtype.vector(lanes), value=None if value is None else values.vector(value))
        if isinstance(s, Assign) and s.name in wide:
            return Assign(s.name, values.vectors(s.value))
        if isinstance(s, Assign):
            return Assign(s.name, self.folded(var(s.name, s.value.dtype), s.value))
        if isinstance(s, StoreTo):
            return self.store(s)
        if isinstance(s, Array):
            wide.add(s.name)
            return replace(s, dtype=s.dtype.vector(lanes))
        if isinstance(s, If) and self._branches(s):
            return self.first_lanes(s)
        if isinstance(s, If):
            return If(values.scalar(s.condition), self.block(s.body), self.block(s.orelse))
        if isinstance(s, For):
            bounds = [values.scalar(e) for e in (s.start, s.stop, s.step)]
            pragma = "" if s.pragma == "vector" else s.pragma
            return For(s.var, bounds[0], bounds[1], self.block(s.body), bounds[2], pragma)
        raise Serial

    def _branches(self, s: If) -> bool:
        """Whether lanes go different ways here, or further in."""
        whole: Block = (s,)
        return any(self.axis.varies(t.condition) for t in statements(whole) if isinstance(t, If))

    def first_lanes(self, s: If) -> Stmt:
        """Stores behind a guard that only the first lanes pass."""
        while len(s.body) == 1 and isinstance(inner := s.body[0], If) and not s.orelse:
            s = If(both(s.condition, inner.condition) or TRUE, inner.body, inner.orelse)
        found = guard(s.condition, self.axis, self.values.widen)
        if found is None or found[1].skip is not None or s.orelse or self.values.open or not all(isinstance(t, (StoreTo, Define)) for t in s.body):
            raise Serial
        others, first = found
        with self.only(first):
            some = () if first.stop.is_const and first.stop.attr > 0 else (ZERO.lt(first.stop),)
            return If(both(*others, *some) or TRUE, self.block(s.body))

    @contextmanager
    def only(self, first: First) -> Iterator[None]:
        self.values.open = first
        try:
            yield
        finally:
            self.values.open = None

    def store(self, s: StoreTo) -> Stmt:
        axis, values, wide = self.axis, self.values, self.axis.wide
        alone, values.stored, first = not axis.varies(s.address), s.buffer, values.open
        if first and (s.buffer in wide or s.buffer in values.arrays.candidates or alone):
            raise Serial
        if s.buffer in wide:
            return replace(s, address=values.scalar(s.address), value=values.vectors(s.value))
        if s.buffer in values.arrays.candidates:
            return replace(s, address=values.aligned(s.buffer, s.address), value=values.vectors(s.value))
        if alone:
            return replace(s, address=values.scalar(s.address), value=self.folded(load(s.buffer, s.value.dtype, s.address), s.value))
        if axis.slope(s.address) is not ONE_STEP or not in_memory(s.value.dtype):
            raise Serial
        stored = replace(s, address=axis.at_base(s.address), value=values.vectors(s.value), count=first and first.stop)
        return stored if first is None else self.whole_or_some((replace(stored, count=None),), (stored,), first)[0]

    def rows(self, stores: list[StoreTo]) -> Block:
        """Rows of a few elements, put together of what is stored into their columns; behind a guard that the first lanes pass, the first of these rows."""
        if not stores:
            return ()
        axis, values, one = self.axis, self.values, stores[0]
        if values.open and (one.buffer in axis.wide or one.buffer in values.arrays.candidates):
            raise Serial
        values.stored = one.buffer
        at, lanes = axis.at_base(one.address), axis.lanes
        whole = tuple([replace(one, address=at + k * lanes, value=v) for k, v in enumerate(rows([values.vectors(s.value) for s in stores]))])
        if values.open is None:
            return whole
        some = tuple([replace(s, count=values.open.stop * len(stores) - k * lanes) for k, s in enumerate(whole)])
        return self.whole_or_some(whole, some, values.open)

    def whole_or_some(self, whole: Block, some: Block, first: First) -> Block:
        """Stores of the first lanes; past the caches, where most iterations have all of them, asked for as loads ask, so that all are of one kind."""
        if not isinstance(s := whole[0], StoreTo) or s.stream is None or self.values.around not in first.stop.names:
            return some
        return (If(const(self.axis.lanes).le(first.stop), whole, some),)

    def folded(self, target: Expr, value: Expr) -> Expr:
        """The value of `target = value` for all lanes at once, where `target` is one scalar: target ⊕ x accumulates a fold of x."""
        if value.op in COMBINER_OF and value.args[0] is target and target not in postorder(value.args[1]):
            term = fold(COMBINER_OF[value.op], self.values.vectors(value.args[1]))
            return call(value.op, self.values.scalar(target), term)
        if target in postorder(value):
            raise Serial
        return self.values.scalar(value)


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
