"""Rows that wait for the row before, and whose elements wait for the one before, eight at a time, each a few elements behind the last.

                                                  for i in 0 .. M step 8:
                                                    … the first few positions, of the first rows
    for i in 0 .. M:                                for q in 14 .. N:
      for j in 0 .. N:                      →         A[i, q] = f(A[i, q - 1], A[i - 1, q + 1])
        A[i, j] = f(A[i, j - 1], A[i - 1, j + 1])     A[i + 1, q - 2] = f(A[i + 1, q - 3], A[i, q - 1])
                                                      …
                                                      A[i + 7, q - 14] = f(A[i + 7, q - 15], A[i + 6, q - 13])
                                                    … the last few positions, of the last rows

An element takes as long as its operations take one after the other, in which a core does nothing else; of eight rows it does eight of them at a time.  No operation changes, and none that needs another comes before
it: that a row is so far behind that all it reads of those before it is there, and nothing that they read is stored over, is asked of the accesses (`dependence.py`).  What an iteration of `q` does in eight rows it does
independently.
Source: loop skewing; Wolfe, Loop skewing: the wavefront method revisited (1986).
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.expr import ZERO, Expr, both, const, floordiv, maximum, var
from ...ir.kernel import Alloc, Block, If, Let, Loop, Nest, Stmt, Store, map_block, statements, substitute_block
from ...ir.record import record, replace
from ...ir.renaming import Names, defined, unique_locals
from ...ir.simplify import simplify
from ...ir.walks import postorder, substitute
from .dependence import Dependences
from .reordered import Turn, behind

ROWS = 8
FARTHEST = 4  # elements that a row is behind the one before
MOST = 4  # statements of an element: each stands eight times
WAITS = 3  # cycles for the element before: what takes fewer is as fast row by row, handed on in a register
FLOAT = 4  # cycles of an operation on floats; one on integers takes one
SHORT = 64  # elements of a row, of which what begins and ends the rows is too much


def staggered(nest: Nest, pairs: Dependences) -> Nest:
    """The nest with such rows."""
    for rows in [s for s in statements(nest.body) if isinstance(s, Loop)]:
        row = _row(rows)
        if row is None:
            continue
        far = behind(nest, rows, (row,), pairs, FARTHEST, _early)
        if far:
            names = Names({b.name for b in (*nest.operands, *nest.results)} | set(defined(nest.body)))
            block = _Rows(rows, row, far, names).block()
            nest = replace(nest, body=map_block(nest.body, lambda s, rows=rows, block=block: block if s is rows else None))
    return nest


def _row(rows: Loop) -> Loop | None:
    """The loop over a row, in order as the one over rows, which knows nothing of it but where it is."""
    row = rows.body[0] if len(rows.body) == 1 else None
    if not isinstance(row, Loop):
        return None
    inside = statements(row.body)
    own = {s.buffer.name for s in inside if isinstance(s, Alloc)}
    if len(inside) > MOST or not all(isinstance(s, (Alloc, Let, Store)) for s in inside):
        return None
    for x in (rows, row):
        if x.kind != "serial" or not x.step.is_const or abs(x.step.attr) != 1 or x.start.buffers or x.stop.buffers:
            return None
    if rows.axis in row.start.names | row.stop.names or not all(s.index or s.buffer in own for s in inside if isinstance(s, Store)):
        return None
    return row if _waits(row) >= WAITS and not any(_branches(e) for s in inside for e in s.expressions()) else None


def _waits(row: Loop) -> int:
    """Cycles from one element to the next of its row: the longest chain of operations."""
    values: dict[Expr, Expr] = {}
    longest = 0
    for s in row.body:
        if isinstance(s, Let):
            values[var(s.name, s.value.dtype)] = substitute(s.value, values)
        elif isinstance(s, Store):
            cycles: dict[Expr, int] = {}
            value = substitute(s.value, values)
            for n in postorder(value):
                before = [cycles[a] for a in n.args if a in cycles]
                if before:
                    cycles[n] = max(before) + _takes(n)
                elif n.op == "load" and n.attr == s.buffer and n.args != s.index:
                    own = all(x is y or {row.axis} <= x.names & y.names for x, y in zip(n.args, s.index, strict=True))
                    cycles.update({n: 0} if own else {})
            if value in cycles:
                longest = max(longest, cycles[value] + (_takes(value) if s.combiner else 0))
    return longest


def _takes(n: Expr) -> int:
    return FLOAT if n.dtype.is_float else 1


def _branches(e: Expr) -> bool:
    """Whether it chooses between what is not there yet: compilers make branches of that, and a wrong guess of a core throws away the work on all rows (1500² of i32 by gcc 1.2 → 9 ms)."""
    return any(n.op == "where" and any(a.args for a in n.args[1:]) for n in postorder(e))


def _early(a: Turn, b: Turn, far: int) -> Iterator[Expr | None]:
    """When an element of a later row of the eight would come before, or with, one of `a`."""
    ahead = b.outer - a.outer
    yield both(a.outer.lt(b.outer), b.outer.lt(a.outer + ROWS), (b.inner + ahead * far).le(a.inner))


@record
class _Rows:
    rows: Loop
    row: Loop
    behind: int
    names: Names

    def block(self) -> Block:
        """The rows as they were where they are short, else eight at a time, and those that are left."""
        rows, step = self.rows, self.rows.step.attr
        assert isinstance(step, int)
        begin = self.names.fresh(rows.axis)
        eight = replace(rows, axis=begin, stop=rows.stop - (ROWS - 1) * step, step=const(ROWS * step), body=tuple(self._eight(var(begin))))
        done = floordiv(maximum(ZERO, (rows.stop - rows.start) * step), const(ROWS)) * ROWS
        (rest,) = unique_locals((replace(rows, start=rows.start + done * step),), self.names.fresh)
        return (If(self._length().le(SHORT), (rows,), (eight, rest)),)

    def _length(self) -> Expr:
        return simplify((self.row.stop - self.row.start) * self.row.step)

    def _eight(self, begin: Expr) -> Iterator[Stmt]:
        """The first rows begin alone, the last end alone."""
        first, length = (ROWS - 1) * self.behind, self._length()
        for start, stop in ((ZERO, const(first)), (const(first), length), (length, length + first)):
            q, which = var(self.names.fresh(self.row.axis)), var(self.names.fresh(self.rows.axis))
            if stop is length:
                body: Block = tuple(s for k in range(ROWS) for s in self._element(begin, const(k), q))
            else:
                ends = (ZERO, floordiv(q, const(self.behind)) + 1) if start is ZERO else (floordiv(q - length, const(self.behind)) + 1, const(ROWS))
                body = (Loop(which.attr, *ends, self._element(begin, which, q), "serial", span=self.row.span),)
            yield Loop(q.attr, start, stop, body, "serial", span=self.row.span)

    def _element(self, begin: Expr, which: Expr, q: Expr) -> Block:
        """Of the row that is so many behind, in the iteration in which the first is at the element `q` of its own."""
        here = {var(self.rows.axis): begin + which * self.rows.step, var(self.row.axis): self.row.start + (q - which * self.behind) * self.row.step}
        return substitute_block(unique_locals(self.row.body, self.names.fresh), here)


__all__ = ["staggered"]
