"""What each kernel does, as formulas over the sizes: bytes that it must move, arithmetic that it does, and which of the two bounds it.

Counted on the kernels before they are scheduled, where a loop nest is what it computes.  Bytes are compulsory traffic: every element that is touched, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..ir.expr import ONE, ZERO, Expr, evaluate, postorder, product, substitute, total, var
from ..ir.kernel import Block, Buffer, If, Kernel, Loop, Module, Region, Stmt, Store, While, expressions
from ..ir.primops import COMBINERS, OPS
from ..ir.simplify import simplify
from ..passes.costs import READ, WRITE, nominal, operation

_FREE = frozenset({"cast", "bitcast", "where"})


@dataclass(frozen=True, slots=True)
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
        read, written = (sum(max(0, evaluate(e, sizes)) for e in part.values()) for part in (self.reads, self.writes))
        return READ * read + WRITE * written

    def arithmetic_cost(self, sizes: Mapping[str, int]) -> float:
        return float(max(0, evaluate(self.additions, sizes)))

    def cost(self, sizes: Mapping[str, int]) -> float:
        """The larger of the two: they overlap."""
        return max(self.memory_cost(sizes), self.arithmetic_cost(sizes))

    def bound(self, sizes: Mapping[str, int]) -> str:
        """`memory` or `arithmetic`."""
        return "memory" if self.memory_cost(sizes) >= self.arithmetic_cost(sizes) else "arithmetic"


def work_of(module: Module) -> list[Work]:
    """The work of each kernel of a module that is not scheduled yet."""
    sizes = nominal(module.size_info())
    return [_Counter(module, k, sizes).work() for k in module.kernels]


@dataclass
class _Counter:
    module: Module
    kernel: Kernel
    sizes: Mapping[str, int]
    flops: list[Expr] = field(default_factory=list)
    additions: list[Expr] = field(default_factory=list)
    # (reads | writes, buffer) -> elements of each access, by its constant indices: those that differ in one touch different elements
    touched: dict[tuple[str, str], dict[tuple[tuple[int, Expr], ...], list[Expr]]] = field(default_factory=dict)
    at_least: bool = False

    def work(self) -> Work:
        for stmt, trips in self.placed(self.kernel.body, {}):
            self.count(stmt, trips)
        parts: dict[str, dict[str, Expr]] = {"reads": {}, "writes": {}}
        for (way, name), elements in self.touched.items():
            buffer = self.module.buffer(name)
            parts[way][name] = simplify(self.smaller(buffer, elements.values()) * buffer.dtype.bytes)
        return Work(self.kernel.name, parts["reads"], parts["writes"], simplify(total(self.flops)), simplify(total(self.additions)), self.at_least)

    def placed(self, block: Block, trips: dict[Expr, tuple[Expr, Expr]]) -> Iterator[tuple[Stmt, dict[Expr, tuple[Expr, Expr]]]]:
        """Every statement with the loops around it: variable -> (first, last)."""
        for s in block:
            yield s, trips
            match s:
                case Loop():
                    inner = (s.start, s.start + (s.stop - s.start - 1) // s.step * s.step) if s.step.is_const else (s.start, s.stop - 1)
                    yield from self.placed(s.body, {**trips, var(s.axis): inner})
                case While():
                    limit = ONE if s.limit is None else s.limit
                    self.at_least |= s.limit is None
                    yield from self.placed(s.body, {**trips, var(f"while {id(s)}"): (ZERO, limit - 1)})
                case If():
                    yield from self.placed((*s.body, *s.orelse), trips)
                case Region():
                    yield from self.placed(s.body, trips)
                case _:
                    pass

    def count(self, stmt: Stmt, trips: dict[Expr, tuple[Expr, Expr]]) -> None:
        found = list(postorder(*expressions(stmt)))
        flops, cost = 0, 0.0
        for e in found:
            if e.op in OPS and e.op not in _FREE and e.dtype.is_float:
                flops += 2 if e.op == "fma" else 1
                cost += operation(e.op)
            elif e.op == "load":
                self.touch("reads", e.attr, e.args, trips)
        if isinstance(stmt, Store):
            if stmt.combiner:
                flops += stmt.value.dtype.is_float
                cost += operation(COMBINERS[stmt.combiner].op)
                self.touch("reads", stmt.buffer, stmt.index, trips)
            self.touch("writes", stmt.buffer, stmt.index, trips)
        points = self.points(trips, None) if flops or cost else ZERO
        self.flops.append(points * flops)
        self.additions.append(points * max(flops, round(cost)))

    def touch(self, way: str, buffer: str, index: tuple[Expr, ...], trips: dict[Expr, tuple[Expr, Expr]]) -> None:
        """An access to `buffer`, which may be local: that costs nothing."""
        if buffer in self.kernel.buffers:
            fixed = tuple((k, e) for k, e in enumerate(index) if e.is_const)
            self.touched.setdefault((way, buffer), {}).setdefault(fixed, []).append(self.points(trips, set(postorder(*index))))

    def points(self, trips: dict[Expr, tuple[Expr, Expr]], used: set[Expr] | None) -> Expr:
        """How often something inside these loops runs, or how many different positions it names: only loops whose variable is `used` count.

        The trips of a loop whose bounds are linear in an outer variable are averaged over it, which is exact for triangles."""
        counts: list[Expr] = []
        halves = 1
        for k, (name, (first, last)) in enumerate(trips.items()):
            if used is not None and name not in used:
                continue
            count = last - first + 1
            for outer, (low, high) in reversed(list(trips.items())[:k]):
                if outer in set(postorder(count)):
                    count = substitute(count, {outer: low}) + substitute(count, {outer: high})
                    halves *= 2
            if any(e.op in ("var", "load") for e in postorder(count)):
                self.at_least = True
                count = ONE
            counts.append(count)
        return simplify(product(counts) // halves)

    def smaller(self, buffer: Buffer, accesses: Iterable[list[Expr]]) -> Expr:
        """All elements of the buffer, or as many as the widest accesses name, whichever is less on nominal sizes."""
        whole = buffer.elements
        named = total(max(elements, key=lambda e: evaluate(e, self.sizes)) for elements in accesses)
        return whole if evaluate(whole, self.sizes) <= evaluate(named, self.sizes) else named


__all__ = ["Work", "work_of"]
