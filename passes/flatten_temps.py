"""kernels → kernels: axes of a temporary that a kernel reads at the pieces of one position become one axis.

    temp t: f32[C, M, N]                                     temp t: f32[C, M * N]
    for c: for i: for j: t[c, i, j] = …               →      for c: for i: for j: t[c, i * N + j] = …
    …                                                        …
    for l in 0 .. M * N:                                     for l in 0 .. M * N:
      … t[c, l // N, l % N] …                                  … t[c, l] …

    temp t: f32[1, C, 1, 1]                                  temp t: f32[C]
    for i in 0 .. C: t[0, i, 0, 0] = …                →      for i in 0 .. C: t[i] = …

And axes of one position, as means that keep the axes they went along have them, are none: then it is by its rows that one kernel writes it and another reads it (`join_rows`).

The elements stay where they are.  A schedule that looks at positions then sees what is consecutive, and no loop divides.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.bounds import Known
from ..ir.expr import ONE, ZERO, Expr, both, load, product
from ..ir.kernel import Block, Buffer, Loop, Module, Stmt, Store, with_parts
from ..ir.record import replace
from ..ir.renaming import at_places
from ..ir.simplify import assuming, simplify
from ..ir.target import Options, Target
from ..ir.walks import postorder, rewrite
from .schedule import is_scheduled


def flatten_temps(ir: Module, target: Target, options: Options) -> Module:
    if any(map(is_scheduled, ir.kernels)):
        return ir  # steps divide positions too
    ir = _without_units(ir)
    found = _Axes({t.name: t for t in ir.temps if not t.strides and len(t.shape) > 1}, frozenset(s.name for s in ir.sizes))
    known = assuming(Known(ir.size_info()), both(*ir.requires))
    for k in ir.kernels:
        found.look(k.body, known, ())
    if not found.runs:
        return ir
    kernels = tuple(replace(k, body=found.changed(k.body, known)) for k in ir.kernels)
    return replace(ir, temps=tuple(found.merged(t) for t in ir.temps)).with_kernels(kernels)


def _without_units(ir: Module) -> Module:
    """Without the axes of one position: the only one that there is, is 0."""
    kept = {t.name: [k for k, e in enumerate(t.shape) if e is not ONE] for t in ir.temps if not t.strides and ONE in t.shape}
    if not kept:
        return ir

    def at(name: str, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(index[k] for k in kept[name])

    kernels = tuple(replace(k, body=at_places(k.body, kept, at)) for k in ir.kernels)
    return replace(ir, temps=tuple(replace(t, shape=at(t.name, t.shape)) if t.name in kept else t for t in ir.temps)).with_kernels(kernels)


class _Axes:
    """Which axes of which temporaries are one: the first and the last of each."""

    def __init__(self, temps: dict[str, Buffer], sizes: frozenset[str]) -> None:
        self.temps, self.sizes = temps, sizes
        self.runs: dict[str, tuple[int, int]] = {}

    def divides(self, e: Expr) -> bool:
        """Whether the position of a loop is divided, not only sizes."""
        return any(n.op in ("floordiv", "mod") and n.names - self.sizes for n in postorder(e))

    def look(self, block: Block, known: Known, loops: tuple[Loop, ...]) -> None:
        """`loops` are those around the block; what they say is worked out where it is asked for."""
        for s in block:
            for n in postorder(*[e for e in s.expressions() if not e.buffers.isdisjoint(self.temps)]):
                divided = [k for k, e in enumerate(n.args) if self.divides(e)] if n.op == "load" and n.attr in self.temps else []
                if len(divided) > 1 and n.attr not in self.runs:
                    run = divided[0], divided[-1]
                    for loop in loops:
                        known = _inside(loop, known)
                    loops = ()
                    if not self.divides(simplify(self.flat(n.attr, n.args, run), known)):
                        self.runs[n.attr] = run
            for inside in s.blocks():
                self.look(inside, known, (*loops, s) if isinstance(s, Loop) else loops)

    def flat(self, name: str, index: tuple[Expr, ...], run: tuple[int, int]) -> Expr:
        position = ZERO
        for k in range(run[0], run[1] + 1):
            position = position * self.temps[name].shape[k] + index[k]
        return position

    def _walk(self, known: Known) -> Callable[[Block], Block]:
        return lambda b: self.changed(b, known)

    def merged(self, t: Buffer) -> Buffer:
        if t.name not in self.runs:
            return t
        first, last = self.runs[t.name]
        return replace(t, shape=(*t.shape[:first], product(t.shape[first : last + 1]), *t.shape[last + 1 :]))

    def changed(self, block: Block, known: Known) -> Block:
        def at(name: str, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
            first, last = run = self.runs[name]
            return (*index[:first], simplify(self.flat(name, index, run), known), *index[last + 1 :])

        def read(e: Expr) -> Expr | None:
            return load(e.attr, e.dtype, *at(e.attr, e.args)) if e.op == "load" and e.attr in self.runs else None

        done: list[Stmt] = []
        for s in block:
            inside = _inside(s, known) if isinstance(s, Loop) else known
            new = with_parts(s, lambda e: rewrite(e, read), self._walk(inside))
            done.append(replace(new, index=at(new.buffer, new.index)) if isinstance(new, Store) and new.buffer in self.runs else new)
        return tuple(done)


def _inside(loop: Loop, known: Known) -> Known:
    return known.with_ranges({loop.axis: (loop.start, loop.stop - 1, 1)})
