"""What each kernel does, as formulas over the sizes: bytes that it must move, arithmetic that it does, and which of the two bounds it.

Counted on the kernels before they are scheduled, where a loop nest is what it computes.  Bytes are compulsory traffic: every element that is touched, once.
Where a kernel has two forms and the sizes choose, so do the formulas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..ir.dtypes import INDEX
from ..ir.evaluate import evaluate
from ..ir.expr import ONE, ZERO, Expr, ceildiv, minimum, product, total, var, where
from ..ir.kernel import Block, Buffer, If, Kernel, Let, Loop, Module, Region, Stmt, Store, While
from ..ir.primops import COMBINERS, OPS
from ..ir.record import record
from ..ir.simplify import simplify
from ..ir.walks import postorder, substitute
from ..passes.costs import READ, WRITE, nominal, operation

_FREE = frozenset({"cast", "bitcast", "where"})


@record
class Work:
    """One kernel.  `reads` and `writes`: buffer → bytes; `flops`: float operations; `additions`: the same, weighed by what they cost."""

    kernel: str
    reads: dict[str, Expr]
    writes: dict[str, Expr]
    flops: Expr
    additions: Expr
    at_least: bool  # some loop runs for as long as data says, or not at all: it counts once

    @property
    def bytes(self) -> Expr:
        return simplify(total((*self.reads.values(), *self.writes.values())))

    def memory_cost(self, sizes: Mapping[str, int]) -> float:
        """In additions of vector code, as `passes/costs.py` weighs them."""
        read, written = (sum(amount(e, sizes) for e in part.values()) for part in (self.reads, self.writes))
        return READ * read + WRITE * written

    def arithmetic_cost(self, sizes: Mapping[str, int]) -> float:
        return float(amount(self.additions, sizes))

    def cost(self, sizes: Mapping[str, int]) -> float:
        """The larger of the two: they overlap."""
        return max(self.memory_cost(sizes), self.arithmetic_cost(sizes))

    def bound(self, sizes: Mapping[str, int]) -> str:
        """`memory` or `arithmetic`."""
        return "memory" if self.memory_cost(sizes) >= self.arithmetic_cost(sizes) else "arithmetic"


def amount(e: Expr, sizes: Mapping[str, int]) -> int:
    """What is counted comes to at least 0; where it is divided by a size that is 0, nothing is there to be counted."""
    try:
        return max(0, evaluate(e, sizes))
    except ZeroDivisionError:
        return 0


def work_of(module: Module) -> list[Work]:
    """The work of each kernel of a module that is not scheduled yet."""
    sizes = nominal(module.size_info())
    return [_Counter(module, k, sizes).work() for k in module.kernels]


Trips = dict[Expr, tuple[Expr, Expr]]  # the variable of each loop around a statement -> (first, last)


@dataclass
class _Tally:
    """What the statements of a block do."""

    flops: list[Expr] = field(default_factory=list)
    additions: list[Expr] = field(default_factory=list)
    # (reads | writes, buffer) -> elements of each access, by its constant indices: those that differ in one touch different elements
    touched: dict[tuple[str, str], dict[tuple[tuple[int, Expr], ...], list[Expr]]] = field(default_factory=dict)


@dataclass
class _Counter:
    module: Module
    kernel: Kernel
    sizes: Mapping[str, int]
    at_least: bool = False

    def work(self) -> Work:
        tally = _Tally()
        self.block(self.kernel.body, {}, {}, tally)
        parts: dict[str, dict[str, Expr]] = {"reads": {}, "writes": {}}
        for (way, name), elements in tally.touched.items():
            buffer = self.module.buffer(name)
            parts[way][name] = simplify(self.smaller(buffer, elements.values()) * buffer.dtype.bytes)
        return Work(self.kernel.name, parts["reads"], parts["writes"], simplify(total(tally.flops)), simplify(total(tally.additions)), self.at_least)

    def block(self, block: Block, trips: Trips, lets: dict[Expr, Expr], tally: _Tally) -> None:
        """Count a block into `tally`; `lets`: what the names of positions and extents stand for."""
        lets = dict(lets)
        for s in block:
            self.count(s, trips, lets, tally)
            match s:
                case Let() if s.value.dtype is INDEX:
                    lets[var(s.name)] = substitute(s.value, lets)
                case Loop():
                    start, stop = substitute(s.start, lets), substitute(s.stop, lets)
                    last = start + (stop - start - 1) // s.step * s.step if s.step.is_const else stop - 1
                    self.block(s.body, {**trips, var(s.axis): (start, last)}, lets, tally)
                case While():
                    limit = ONE if s.limit is None else substitute(s.limit, lets)
                    self.at_least |= s.limit is None
                    self.block(s.body, {**trips, var(f"while {id(s)}"): (ZERO, limit - 1)}, lets, tally)
                case If():
                    self.branches(s, trips, lets, tally)
                case Region():
                    self.block(s.body, trips, lets, tally)
                case _:
                    pass

    def branches(self, choice: If, trips: Trips, lets: dict[Expr, Expr], tally: _Tally) -> None:
        """Of two forms that the sizes choose between, the one that they choose; where positions or data choose, both."""
        condition = simplify(substitute(choice.condition, lets))
        if any(e.op in ("var", "load") for e in postorder(condition)):
            self.block((*choice.body, *choice.orelse), trips, lets, tally)
            return
        ways = (_Tally(), _Tally())
        for way, body in zip(ways, (choice.body, choice.orelse), strict=True):
            self.block(body, trips, lets, way)

        def chosen(first: Expr, second: Expr) -> Expr:
            return simplify(where(condition, first, second))

        tally.flops.append(chosen(*(simplify(total(way.flops)) for way in ways)))
        tally.additions.append(chosen(*(simplify(total(way.additions)) for way in ways)))
        for key in {**ways[0].touched, **ways[1].touched}:
            either = [way.touched.get(key, {}) for way in ways]
            for fixed in {**either[0], **either[1]}:
                elements = [self.smaller(self.module.buffer(key[1]), [way.get(fixed, [ZERO])]) for way in either]
                tally.touched.setdefault(key, {}).setdefault(fixed, []).append(chosen(*elements))

    def count(self, stmt: Stmt, trips: Trips, lets: dict[Expr, Expr], tally: _Tally) -> None:
        """Count what a statement evaluates itself."""
        flops, cost = 0, 0.0
        for e in postorder(*stmt.expressions()):
            if e.op in OPS and e.op not in _FREE and e.dtype.is_float:
                flops += 2 if e.op == "fma" else 1
                cost += operation(e.op)
            elif e.op == "load":
                self.touch("reads", e.attr, e.args, trips, lets, tally)
        if isinstance(stmt, Store):
            if stmt.combiner:
                flops += stmt.value.dtype.is_float
                cost += operation(COMBINERS[stmt.combiner].op)
                self.touch("reads", stmt.buffer, stmt.index, trips, lets, tally)
            self.touch("writes", stmt.buffer, stmt.index, trips, lets, tally)
        if flops or cost:
            points = self.points(trips, None)
            tally.flops.append(points * flops)
            tally.additions.append(points * max(flops, round(cost)))

    def touch(self, way: str, buffer: str, index: tuple[Expr, ...], trips: Trips, lets: dict[Expr, Expr], tally: _Tally) -> None:
        """An access to `buffer`, which may be local: that costs nothing."""
        if buffer in self.kernel.buffers:
            index = tuple(substitute(e, lets) for e in index)
            fixed = tuple((k, e) for k, e in enumerate(index) if e.is_const)
            tally.touched.setdefault((way, buffer), {}).setdefault(fixed, []).append(self.points(trips, set(postorder(*index))))

    def points(self, trips: Trips, used: set[Expr] | None) -> Expr:
        """How often something inside these loops runs, or how many different positions it names: only loops whose variable is `used` count.

        Loops over tiles and inside them, down to a last one that is cut, count what they cut.
        The trips of a loop whose bounds are linear in an outer variable are averaged over it, which is exact for triangles."""
        counts: dict[Expr, Expr] = {}
        for name, (first, last) in trips.items():
            if used is None or name in used:
                count = simplify(last - first + 1)
                while (tiles := _cut(count, trips, counts)) is not None:
                    outer, count = tiles
                    del counts[outer]
                counts[name] = count
        order, halves = list(trips), 1
        for name, count in counts.items():
            for outer in reversed(order[: order.index(name)]):
                if outer in set(postorder(count)):
                    low, high = trips[outer]
                    count = substitute(count, {outer: low}) + substitute(count, {outer: high})
                    halves *= 2
            if any(e.op in ("var", "load") for e in postorder(count)):
                self.at_least = True
                count = ONE
            counts[name] = count
        return simplify(product(counts.values()) // halves)

    def smaller(self, buffer: Buffer, accesses: Iterable[list[Expr]]) -> Expr:
        """All elements of the buffer, or as many as the widest accesses name, whichever is less on nominal sizes."""
        whole = buffer.elements
        named = total(max(elements, key=lambda e: evaluate(e, self.sizes)) for elements in accesses)
        return whole if evaluate(whole, self.sizes) <= evaluate(named, self.sizes) else named


def _cut(count: Expr, trips: Trips, counts: Mapping[Expr, Expr]) -> tuple[Expr, Expr] | None:
    """The loop t over tiles, and what it and the loop inside it run together, where that one runs `min(R - t * S, S)` times: min(R, S times the tiles)."""
    if count.op != "min":
        return None
    for size, rest in (count.args, count.args[::-1]):
        for outer, tiles in counts.items():
            whole = simplify(rest + outer * size)
            if trips[outer][0] is ZERO and outer in set(postorder(rest)) and outer not in {*postorder(whole), *postorder(size)}:
                return outer, whole if tiles is simplify(ceildiv(whole, size)) else simplify(minimum(whole, tiles * size))
    return None


__all__ = ["Work", "work_of"]
