"""Where the versions of tensors live: ports, memory taken over from an older version, temporaries; and in which order the pieces run.

The graph is SSA: `update`, `scatter` and a nest give a *new version* of a tensor.  A version may take over the memory of the one that it starts from
when everybody else who reads that one can do so before, and what its own statements read of it is read before it is overwritten (`in_place`).  The version that an `inout`
port ends with is computed in the port's memory on the same condition, with every other reader of the old contents ordered before; where the
condition fails, it is computed in a temporary and copied at the end (`A + Aᵀ` into A).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from ...ir.bounds import Known
from ...ir.expr import Expr, const, load, var
from ...ir.graph import Graph
from ...ir.kernel import Block, Buffer, If, Loop, Stmt, Store, map_block, statements
from ...ir.renaming import Names, rename_buffers
from ...ir.walks import postorder
from .nest_body import NestBody


class Piece(NamedTuple):
    """The statements that make some versions.  `starts`: a version begins as a copy of another; `before`: kernels that run first."""

    writes: tuple[str, ...]
    block: Block
    starts: tuple[tuple[str, str], ...] = ()
    before: tuple[Block, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def reads(self) -> dict[str, None]:
        """The names of all buffers read, local ones too, in order of first appearance."""
        found: dict[str, None] = {}
        for block in (*self.before, self.block):
            found.update(loads(block))
        found.update((source, None) for _, source in self.starts)
        return found


MOST_FORMS = 4  # of one kernel, of which the sizes choose


class Plan(NamedTuple):
    kernels: tuple[tuple[Block, tuple[str, ...]], ...]  # statements and notes, in launch order
    temps: tuple[Buffer, ...]


def loads(block: Block) -> dict[str, None]:
    """The buffers that a block reads, in order of first appearance."""
    roots = (e for s in statements(block) for e in s.expressions())
    return {n.attr: None for n in postorder(*roots) if n.op in ("load", "var")}


def in_place(block: Block, old: str, new: str) -> bool:
    """May `new` share the memory of `old`: is each element of `old` read for the last time before the block stores there?

    True where all reads of `old` stand before the store of `new`, in program order, and each is either at the stored index, or at an index that agrees with
    it in a plain loop variable for every loop that is open around both (then other iterations touch other elements).
    """
    if old not in loads(block):
        return True
    places = list(_placed(block, ()))
    stores = [(k, loops, s) for k, (loops, s) in enumerate(places) if isinstance(s, Store) and s.buffer == new]
    if len(stores) != 1:
        either = next(
            (s for _, s in places if isinstance(s, If) and s.orelse and new in {t.buffer for t in statements((s,)) if isinstance(t, Store)}), None
        )
        if either is None or len(stores) > MOST_FORMS or old in loads((If(either.condition, (), ()),)):
            return not stores
        # one form or the other runs: each by itself
        return all(in_place(map_block(block, lambda s, b=b: b if s == either else None), old, new) for b in (either.body, either.orelse))
    at, around, store = stores[0]
    used = {n for e in store.index for n in postorder(e)}
    if any(var(axis) not in used for axis in around):
        return False
    for k, (loops, s) in enumerate(places):
        for n in postorder(*s.expressions()):
            if n.op != "load" or n.attr != old:
                continue
            common = [axis for axis in loops if axis in around]
            apart = all(any(a is var(axis) and b is var(axis) for a, b in zip(store.index, n.args, strict=True)) for axis in common)
            if k > at or not (apart or n.args == store.index):
                return False
    return True


def _placed(block: Block, loops: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Stmt]]:
    """Every statement in program order with the axes of the loops around it."""
    for s in block:
        yield loops, s
        for inside in s.blocks():
            yield from _placed(inside, (*loops, s.axis) if isinstance(s, Loop) else loops)


def fill_block(buffer: Buffer, names: Names, value: Callable[[tuple[Expr, ...]], Expr]) -> Block:
    """`buffer` at every point becomes `value(point)`."""
    body = NestBody(names, Known({}), lambda _: None, frozenset(), unchecked=True)
    with body.nest(buffer.shape) as point:
        body.store(buffer.name, point, value(point))
    return tuple(body.root.body)


def zeros_block(buffer: Buffer, names: Names) -> Block:
    return fill_block(buffer, names, lambda _: const(0, buffer.dtype))


def copy_block(buffer: Buffer, source: str, names: Names, scalar: bool) -> Block:
    """`buffer` becomes a copy of another buffer of its shape, or of a scalar parameter."""
    return fill_block(buffer, names, lambda point: var(source, buffer.dtype) if scalar else load(source, buffer.dtype, *point))


def bind(graph: Graph, pieces: list[Piece], versions: list[Buffer], outputs: dict[str, str], taken: Iterable[str]) -> Plan:
    """Give each version a buffer and order the pieces.  `outputs`: version → the port whose result it is; `taken`: names that axes may not have."""
    return _Binder(graph, pieces, versions, outputs, set(taken)).plan()


class _Binder:
    def __init__(self, graph: Graph, pieces: list[Piece], versions: list[Buffer], outputs: dict[str, str], taken: set[str]) -> None:
        self.pieces, self.outputs, self.taken = pieces, outputs, taken
        self.buffers = {b.name: b for b in versions}
        self.scalars = frozenset(p.name for p in graph.ports if p.role == "scalar")
        self.inout = [p.name for p in graph.ports if p.role == "inout"]
        self.writer = {name: k for k, piece in enumerate(pieces) for name in piece.writes}
        self.readers: dict[str, list[int]] = {}
        for k, piece in enumerate(pieces):
            for name in piece.reads:
                if name not in piece.writes:
                    self.readers.setdefault(name, []).append(k)
        self.after: list[set[int]] = [{self.writer[r] for r in piece.reads if r in self.writer} - {k} for k, piece in enumerate(pieces)]
        self.home: dict[str, str] = {b.name: outputs.get(b.name, b.name) for b in versions}

    def plan(self) -> Plan:
        self.take_over()
        copied = [version for version, port in self.outputs.items() if port in self.inout and not self.settle(version, port)]
        kernels: list[tuple[Block, tuple[str, ...]]] = []
        for k in self.order():
            piece = self.pieces[k]
            for version, source in piece.starts:
                if self.home[version] != self.home.get(source, source):
                    copy = copy_block(self.buffers[version], source, Names(self.taken), source in self.scalars)
                    kernels.append((copy, ("a copy: the old contents are still read when the new ones are stored",)))
            kernels += [(b, ()) for b in piece.before]
            if piece.block:
                kernels.append((piece.block, piece.notes))
        kernels = [(rename_buffers(b, self.home), notes) for b, notes in kernels]
        for version in copied:
            source = self.buffers[version]
            port = Buffer(self.outputs[version], source.dtype, source.shape)
            copy = copy_block(port, self.home[version], Names(self.taken), scalar=False)
            kernels.append((copy, (f"a copy into `{port.name}`: its old contents were read to the end",)))
        homes = set(self.home.values())
        return Plan(tuple(kernels), tuple(b for b in self.buffers.values() if b.name in homes))

    def take_over(self) -> None:
        """Versions share the memory of the one that they start from, where its other readers can run before; from the last to the first, so that a chain
        ends in one home."""
        for k in range(len(self.pieces) - 1, -1, -1):
            piece = self.pieces[k]
            for version, source in piece.starts:
                once = sum(s == source for _, s in piece.starts) == 1 and self.home.get(source) == source
                own = source in self.writer and source not in self.outputs
                others = [j for j in self.readers.get(source, ()) if j != k]
                if once and own and in_place(piece.block, source, version) and not any(self.depends(j, k) for j in others):
                    self.home[source] = self.home[version]
                    self.after[k].update(others)

    def settle(self, version: str, port: str) -> bool:
        """Compute `version` in the memory of its inout port, or (False) in a temporary of its own."""
        chain = [v for v, home in self.home.items() if home == port]
        writers = sorted({self.writer[v] for v in chain})
        first = self.first_of(chain)
        others = [k for k in self.readers.get(port, ()) if k not in writers]
        fits = all(port not in self.pieces[k].reads for k in writers if k != first) and self.may_overwrite(first, chain, port)
        if fits and not any(self.depends(k, first) for k in others):
            self.after[first].update(others)
            return True
        for v in chain:
            self.home[v] = version
        return False

    def first_of(self, chain: list[str]) -> int:
        """The piece that makes the oldest version of a chain."""
        (first,) = [self.writer[v] for v in chain if not any((v, s) in self.pieces[self.writer[v]].starts for s in chain)]
        return first

    def may_overwrite(self, k: int, chain: list[str], port: str) -> bool:
        """Piece k makes its version in the port's memory while it reads the port's old contents."""
        piece = self.pieces[k]
        (version,) = (v for v in piece.writes if v in chain)
        source = dict(piece.starts).get(version)
        begins = [b for b in piece.before if any(isinstance(s, Store) and s.buffer == version for s in statements(b))]
        if source == port or (source is None and not begins):
            return in_place(piece.block, port, version)
        overwritten_at_once = [b for b in (*piece.before, piece.block) if b not in begins]
        later = any(port in loads(b) for b in overwritten_at_once) or any(s == port for _, s in piece.starts)
        return not later and all(in_place(b, port, version) for b in begins)

    def depends(self, k: int, on: int) -> bool:
        """Piece k must run after piece `on`."""
        seen, stack = {k}, [k]
        while stack:
            for earlier in self.after[stack.pop()]:
                if earlier == on:
                    return True
                if earlier not in seen:
                    seen.add(earlier)
                    stack.append(earlier)
        return False

    def order(self) -> list[int]:
        """The pieces so that each comes after what it must follow; otherwise as they were."""
        waiting = [len(a) for a in self.after]
        followers: list[list[int]] = [[] for _ in self.pieces]
        for k, earlier in enumerate(self.after):
            for e in sorted(earlier):
                followers[e].append(k)
        ready = [k for k, n in enumerate(waiting) if n == 0]
        heapify(ready)
        result = []
        while ready:
            k = heappop(ready)
            result.append(k)
            for f in followers[k]:
                waiting[f] -= 1
                if waiting[f] == 0:
                    heappush(ready, f)
        return result
