"""join: kernels → kernels.  Elementwise kernels over one domain become one, and hand values on in registers.

    kernel 0:                                kernel 0:
      for i in 0 .. N:                         for i in 0 .. N:
        M[i] = 0.9 * M[i] + 0.1 * G[i]           let m = 0.9 * M[i] + 0.1 * G[i]
    kernel 1:                          →         M[i] = m
      for i in 0 .. N:                           P[i] = P[i] - lr * m
        P[i] = P[i] - lr * M[i]

What two such kernels both touch is moved once, and what one hands to the other is not read again (nor stored, where it is a temporary that nobody else reads): they never move more bytes together than apart.

A kernel joins an earlier one where both are perfect nests of parallel loops over the same extents, around stores and lets; that store elements of one width; where whatever one of them writes is touched by both at
one position alone, which each point of the domain has for itself; and where it may run before the kernels between them, which write nothing that it touches and touch nothing that it writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from ..ir.expr import ONE, ZERO, Expr, load, var
from ..ir.kernel import Block, Kernel, Let, Loop, Module, Stmt, Store, expressions, statements, substitute_block
from ..ir.renaming import defined, unique_locals
from ..ir.target import Options, Target
from ..ir.walks import postorder, substitute

MOST = 64  # statements of a joined body: more values than registers help nobody
STREAMS = 12  # tensors that one loop moves: prefetchers and write buffers follow no more


class Pointwise(NamedTuple):
    """A kernel of this form: scalars before the loops, the loops, what is inside."""

    before: Block
    loops: tuple[Loop, ...]
    body: Block


def join(ir: Module, target: Target, options: Options) -> Module:
    if len(ir.kernels) < 2:
        return ir
    kernels: list[Kernel] = []
    for kernel in ir.kernels:
        place, joined = _place(kernels, kernel, ir)
        if joined is None:
            kernels.append(kernel)
        else:
            kernels[place] = joined
    if len(kernels) == len(ir.kernels):
        return ir
    numbered = tuple(replace(k, name=f"{ir.name}_{n}") for n, k in enumerate(kernels))
    return _without_unread(ir.with_kernels(numbered))


def _place(kernels: list[Kernel], kernel: Kernel, ir: Module) -> tuple[int, Kernel | None]:
    """Where among the kernels before it a kernel can join one, and the two together."""
    own = pointwise(kernel)
    if own is not None:
        for place in range(len(kernels) - 1, -1, -1):
            joined = _together(kernels[place], kernel, own, ir)
            if joined is not None:
                return place, joined
            if written(kernels[place]) & {*kernel.buffers} or written(kernel) & {*kernels[place].buffers}:
                break
    return 0, None


def pointwise(kernel: Kernel) -> Pointwise | None:
    before = tuple(s for s in kernel.body if isinstance(s, Let))
    rest = tuple(s for s in kernel.body if not isinstance(s, Let))
    loops: list[Loop] = []
    while len(rest) == 1 and isinstance(s := rest[0], Loop) and s.kind == "parallel" and s.start is ZERO and s.step is ONE:
        loops.append(s)
        rest = s.body
    plain = loops and all(isinstance(s, Let) or (isinstance(s, Store) and not s.combiner) for s in rest) and not any(s.value.buffers for s in before)
    return Pointwise(before, tuple(loops), rest) if plain and not kernel.schedule else None


def written(kernel: Kernel) -> set[str]:
    return {s.buffer for s in statements(kernel.body) if isinstance(s, Store)}


def _together(first: Kernel, second: Kernel, b: Pointwise, ir: Module) -> Kernel | None:
    a = pointwise(first)
    buffers = {*first.buffers, *second.buffers}
    if a is None or len(a.body) + len(b.body) > MOST or len(buffers) > STREAMS or not {*first.buffers} & {*second.buffers}:
        return None
    if [x.stop for x in a.loops] != [x.stop for x in b.loops] or _widths(a) != _widths(b):
        return None
    taken = {*buffers, *defined(first.body), *(s.name for s in ir.sizes), *(p.name for p in ir.ports), *(t.name for t in ir.temps)}
    renamed = unique_locals((*b.before, *_nest(b)), lambda name: _free(name, taken))
    own = tuple(s for s in renamed if isinstance(s, Let))
    inner: Block = tuple(s for s in renamed if not isinstance(s, Let))
    mapping: dict[Expr, Expr] = {}
    for x in a.loops:
        (loop,) = inner
        assert isinstance(loop, Loop)
        mapping[var(loop.axis)] = var(x.axis)
        inner = loop.body
    inner = substitute_block(inner, mapping)
    if not _apart((*a.body, *inner), written(first) | written(second), a.loops):
        return None
    body = _handed_on((*a.body, *inner), taken)
    for x in reversed(a.loops):
        body = (replace(x, body=body),)
    order = [p.name for p in ir.ports] + [t.name for t in ir.temps]
    notes = (*first.notes, *(n for n in second.notes if n not in first.notes))
    return replace(first, buffers=tuple(n for n in order if n in buffers), body=(*a.before, *own, *body), notes=notes)


def _widths(p: Pointwise) -> set[tuple[int, bool]]:
    """Of what is stored: one vector loop has one width, and bools are none."""
    return {(s.value.dtype.bits, s.value.dtype.kind == "bool") for s in p.body if isinstance(s, Store)}


def _nest(p: Pointwise) -> Block:
    body = p.body
    for x in reversed(p.loops):
        body = (replace(x, body=body),)
    return body


def _free(name: str, taken: set[str]) -> str:
    free, number = name, 0
    while free in taken:
        number += 1
        free = f"{name}{number}"
    taken.add(free)
    return free


def _apart(body: Block, changed: set[str], loops: Iterable[Loop]) -> bool:
    """Whether every buffer that is written is touched at one position alone, and no other point of the domain touches that."""
    at: dict[str, set[tuple[Expr, ...]]] = {}
    for s in body:
        if isinstance(s, Store):
            at.setdefault(s.buffer, set()).add(s.index)
        for n in postorder(*expressions(s)):
            if n.op == "load":
                at.setdefault(n.attr, set()).add(n.args)
    axes = [var(x.axis) for x in loops]
    return all(len(at[b]) == 1 and all(next(iter(at[b])).count(v) == 1 for v in axes) for b in sorted(changed))


def _handed_on(body: Block, taken: set[str]) -> Block:
    """What is loaded after it was stored is a name for what was stored."""
    reads = {n for s in body for n in postorder(*expressions(s)) if n.op == "load"}
    known: dict[Expr, Expr] = {}
    result: list[Stmt] = []
    for s in body:
        if isinstance(s, Let):
            result.append(Let(s.name, substitute(s.value, known)))
            continue
        assert isinstance(s, Store)
        value = substitute(s.value, known)
        again = load(s.buffer, value.dtype, *s.index)
        if again in reads and value.args:
            name = _free("t", taken)
            result.append(Let(name, value))
            value = var(name, value.dtype)
        known[again] = value
        result.append(replace(s, value=value))
    return tuple(result)


def _without_unread(ir: Module) -> Module:
    """Temporaries that nobody reads any more are not stored either."""
    read = {n.attr for k in ir.kernels for s in statements(k.body) for n in postorder(*expressions(s)) if n.op == "load"}
    dead = {t.name for t in ir.temps if t.name not in read}
    if not dead:
        return ir

    def without(block: Block) -> Block:
        kept: list[Stmt] = []
        for s in block:
            if isinstance(s, Loop):
                s = replace(s, body=without(s.body))
            if not (isinstance(s, Store) and s.buffer in dead):
                kept.append(s)
        return tuple(kept)

    kernels = tuple(replace(k, body=without(k.body)) if dead & {*k.buffers} and pointwise(k) is not None else k for k in ir.kernels)
    dead -= {b for k in kernels for b in written(k)}
    return replace(ir, temps=tuple(t for t in ir.temps if t.name not in dead)).with_kernels(kernels)
