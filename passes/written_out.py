"""Short loops of a nest, written out: what small matrices, networks and butterflies keep in elements at known positions stands in variables, and is a value of its row.

for n: for s in 0 .. 2:                      for n: y0 = X[n, 0], y1 = X[n, 1], …
         Y[n, s] = Y[n, s] + Y[n, s + 1]  →         y0 = y0 + y1
                                                    y1 = y1 + y2
                                                    Y[n, 0] = y0, Y[n, 1] = y1
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..ir.bounds import Known
from ..ir.expr import FALSE, TRUE, ZERO, Expr, const, load, var
from ..ir.kernel import (
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
    expressions,
    map_expressions,
    statements,
    substitute_block,
    with_body,
)
from ..ir.record import replace
from ..ir.renaming import Names, defined, unique_locals
from ..ir.simplify import simplify
from ..ir.walks import always, leaves, postorder, rewrite

MOST = 1024  # statements of a row
OUTSIDE = 2  # loops of known trips that may stay loops


def written_out(nest: Nest, known: Known) -> Nest | None:
    """The nest without its loops of few known trips; None where there are none, or too much is in them."""
    for kept in range(OUTSIDE + 1):
        writing = _Writing(known, MOST)
        body = writing.block(nest.body, kept)
        if writing.left >= 0:
            break
    else:
        return None
    if not writing.loops:
        return None
    arrays = {b.name: b for b in (*nest.operands, *nest.results)}
    sizes = {n.attr for s in statements(body) for e in expressions(s) for n in leaves(e, "size")}
    names = Names({*arrays, *sizes})
    return replace(nest, body=_Variables(arrays, names).block(unique_locals(body, names.fresh)))


class _Writing:
    """`left` statements may still be written; `loops` have been."""

    def __init__(self, known: Known, left: int) -> None:
        self.known, self.left, self.loops = known, left, 0

    def block(self, body: Block, kept: int) -> Block:
        """`kept`: how many loops outside stay as they are."""
        result: list[Stmt] = []
        for k, s in enumerate(body):
            if self.left < 0:
                break
            if isinstance(s, Let) and (value := simplify(s.value, self.known)).is_const:
                return (*result, *self.block(substitute_block(body[k + 1 :], {var(s.name, value.dtype): value}), kept))
            result += self.statement(s, kept)
        return tuple(result)

    def statement(self, s: Stmt, kept: int) -> Block:
        match s:
            case Loop():
                ends = [simplify(e, self.known) for e in (s.start, s.stop, s.step)]
                if kept or not all(e.is_const for e in ends) or ends[2] is ZERO:
                    return (with_body(s, self.block(s.body, max(kept - 1, 0))),)
                result: Block = ()
                for k in range(*[e.attr for e in ends]):
                    result += self.block(substitute_block(s.body, {var(s.axis): const(k)}), 0)
                    if any(isinstance(t, Loop | While) for t in result):  # of unknown trips: work for kernels, once for all iterations
                        return (s,)
                    if self.left < 0:
                        break
                self.loops += 1
                return result
            case If():
                condition = simplify(s.condition, self.known)
                if condition is TRUE or condition is FALSE:
                    return self.block(s.body if condition is TRUE else s.orelse, kept)
                return (If(condition, self.block(s.body, kept), self.block(s.orelse, kept)),)
            case While():
                return (with_body(s, self.block(s.body, kept)),)
            case Check() if simplify(s.condition, self.known) is TRUE:
                return ()
            case _:
                self.left -= 1
                settled = map_expressions((s,), lambda e: rewrite(e, self.place))
                return tuple(replace(s, index=tuple(simplify(e, self.known) for e in s.index)) if isinstance(s, Store) else s for s in settled)

    def place(self, n: Expr) -> Expr | None:
        return load(n.attr, n.dtype, *(simplify(e, self.known) for e in n.args)) if n.op == "load" else None


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

        def variable(s: Stmt) -> Stmt:
            name = place.get((s.buffer, s.index)) if isinstance(s, Store) else None
            return s if name is None else replace(s, buffer=name, index=())

        def nested(block: Block) -> Block:
            return tuple(If(s.condition, nested(s.body), nested(s.orelse)) if isinstance(s, If) else variable(s) for s in block)

        result: list[Stmt] = [Alloc(Buffer(name, self.arrays[buffer].dtype, (), "register")) for (buffer, _), name in place.items()]
        known: set[str] = set()
        for s in body:
            if isinstance(s, Alloc) and any(s.buffer.name == buffer for buffer, _ in place):
                continue
            fresh = {s.buffer: s.index} if isinstance(s, Store) and not s.combiner else {}
            read = {(n.attr, n.args) for t in statements((s,)) for e in expressions(t) for n in _elements(e)}
            for t in statements((s,)):
                for buffer, index, _ in _accesses(t):
                    name = place.get((buffer, index))
                    if name is None or name in known:
                        continue
                    known.add(name)
                    if buffer not in own and (fresh.get(buffer) != index or (buffer, index) in read):
                        result.append(Store(name, (), load(buffer, self.arrays[buffer].dtype, *index)))
            result += nested(map_expressions((s,), lambda e: rewrite(e, leaf)))
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
        if isinstance(s, If):
            yield from _in_order(s.body, False)
            yield from _in_order(s.orelse, False)


def _accesses(s: Stmt) -> Iterator[tuple[str, tuple[Expr, ...], bool]]:
    """The elements that a statement itself reads and stores: buffer, index, and whether it always does."""
    certain = set(always(*expressions(s)))
    for e in expressions(s):
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
