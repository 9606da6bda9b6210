"""Kernels that differ in names alone: one function does for all of them, called with other buffers and sizes.

    kernel k_0(X, Wq, temp):                         function k_0(X, Wq, temp, N, C):
      for i in 0 .. N: … X[i, p] * Wq[j, p] …          …
    kernel k_1(Y, Wk, temp1):                  →     call k_0(X, Wq, temp, N, C)
      for i in 0 .. M: … Y[i, p] * Wk[j, p] …        call k_0(Y, Wk, temp1, M, C)

So the four projections of attention are scheduled once (`schedule/again.py`), lowered once, and compiled once.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.expr import Expr
from ...ir.kernel import Alloc, Barrier, Block, Buffer, Check, If, Kernel, Let, Loop, Module, Prefetch, Region, Stmt, Store, While
from ...ir.record import replace
from ...ir.simplify import simplify

_NAMED = frozenset({"var", "size", "load", "first", "last", "to_line"})


def alike(kernel: Kernel, other: Kernel, module: Module, gpu: bool = False) -> Mapping[str, str] | None:
    """The names of `other` by those of `kernel`, where that is all in which they differ; None where there is more.

    A function goes by what is known of its sizes: of the others as much is known.  On a GPU they are the same ones, for the entry counts blocks by them.
    """
    found = _Renaming()
    if len(kernel.buffers) != len(other.buffers) or not found.blocks(kernel.body, other.body):
        return None
    if {found.to.get(b) for b in kernel.buffers} != {*other.buffers}:
        return None
    sizes = module.size_info()
    scalars = {name for port in module.ports if port.role == "scalar" for name, _ in port.values}

    def memory(name: str) -> Buffer:
        b = module.buffer(name)
        return replace(b, shape=tuple(simplify(e, sizes) for e in b.shape), strides=tuple(simplify(e, sizes) for e in b.strides))

    if any((b in scalars) != (found.to[b] in scalars) or not (b in scalars or found.buffers(memory(b), memory(found.to[b]))) for b in kernel.buffers):
        return None
    moved = {a: b for a, b in found.to.items() if a in sizes and b != a}
    if moved and (gpu or any(not r.names.isdisjoint(moved) for r in module.requires)):
        return None
    if any(b not in sizes or replace(sizes[b], name=a) != sizes[a] for a, b in moved.items()):
        return None
    return found.to


class _Renaming:
    """A walk through two kernels side by side.  Each name stands for one name of the other."""

    def __init__(self) -> None:
        self.to: dict[str, str] = {}
        self._back: dict[str, str] = {}
        self._same: set[tuple[Expr, Expr]] = set()

    def names(self, a: str, b: str) -> bool:
        return self.to.setdefault(a, b) == b and self._back.setdefault(b, a) == a

    def blocks(self, a: Block, b: Block) -> bool:
        return len(a) == len(b) and all(self._statements(s, t) for s, t in zip(a, b, strict=True))

    def _statements(self, s: Stmt, t: Stmt) -> bool:
        if isinstance(s, Loop) and isinstance(t, Loop):
            same = s.kind == t.kind and self.names(s.axis, t.axis)
            return same and self.exprs((s.start, s.stop, s.step), (t.start, t.stop, t.step)) and self.blocks(s.body, t.body)
        if isinstance(s, Let) and isinstance(t, Let):
            return self.names(s.name, t.name) and self.exprs((s.value,), (t.value,))
        if isinstance(s, Alloc) and isinstance(t, Alloc):
            return self.buffers(s.buffer, t.buffer)
        if isinstance(s, Store) and isinstance(t, Store):
            same = s.combiner == t.combiner and self.names(s.buffer, t.buffer)
            return same and self.exprs((*s.index, s.value, s.stream), (*t.index, t.value, t.stream))
        if isinstance(s, If) and isinstance(t, If):
            return self.exprs((s.condition,), (t.condition,)) and self.blocks(s.body, t.body) and self.blocks(s.orelse, t.orelse)
        if isinstance(s, While) and isinstance(t, While):
            return self.exprs((s.condition, s.limit), (t.condition, t.limit)) and self.blocks(s.body, t.body)
        if isinstance(s, Region) and isinstance(t, Region):
            return self.blocks(s.body, t.body)
        if isinstance(s, Prefetch) and isinstance(t, Prefetch):
            return (
                (s.cache, s.write) == (t.cache, t.write) and self.names(s.buffer, t.buffer) and self.exprs((*s.index, s.ahead), (*t.index, t.ahead))
            )
        if isinstance(s, Check) and isinstance(t, Check):
            return s.code == t.code and self.exprs((s.condition,), (t.condition,))
        return isinstance(s, Barrier) and s == t

    def buffers(self, a: Buffer, b: Buffer) -> bool:
        same = (a.dtype, a.space, a.align, a.swizzle) == (b.dtype, b.space, b.align, b.swizzle) and self.names(a.name, b.name)
        return same and len(a.shape) == len(b.shape) and self.exprs((*a.shape, *a.strides), (*b.shape, *b.strides))

    def exprs(self, some: tuple[Expr | None, ...], others: tuple[Expr | None, ...]) -> bool:
        if len(some) != len(others):
            return False
        stack = list(zip(some, others, strict=True))
        while stack:
            a, b = stack.pop()
            if a is None or b is None:
                if a is not b:
                    return False
                continue
            if (a, b) in self._same:
                continue
            self._same.add((a, b))
            if a.op != b.op or a.dtype is not b.dtype or len(a.args) != len(b.args):
                return False
            if not (self.names(a.attr, b.attr) if a.op in _NAMED else a is b if a.is_const else a.attr == b.attr):
                return False
            stack += zip(a.args, b.args, strict=True)
        return True
