"""What an iteration stores and the next one reads is carried in a register.

                                            s = Y[i, 0]
    for j in 1 .. N:                        for j in 1 .. N:
      Y[i, j] = f(Y[i, j - 1], X[i, j])  →    let v = f(s, X[i, j])
                                              Y[i, j] = v
                                              s = v

A load of what was just stored takes as long as two additions, and a loop that reads what it writes is none that the scheduler can run for several rows at a time (`schedule/rows_carried.py`).
What it reads and stores at one position is in a register before (`kept_elements.py`).
Source: Callahan, Carr and Kennedy, Improving register allocation for subscripted variables (1990).
"""

from __future__ import annotations

from ..ir.bounds import Known
from ..ir.expr import ONE, TRUE, Expr, const, in_range, load, var, where
from ..ir.kernel import Alloc, Block, Buffer, Kernel, Let, Loop, Module, Region, Stmt, Store, While, map_expressions, statements, with_blocks
from ..ir.record import replace
from ..ir.renaming import Names, defined
from ..ir.simplify import simplify
from ..ir.target import Options, Target
from ..ir.walks import postorder, substitute
from .schedule.affine import inside, minus, same_position


def carry(ir: Module, target: Target, options: Options) -> Module:
    """The module with what is handed from one iteration to the next in registers."""
    return ir.with_kernels(tuple(_in_kernel(k, ir) for k in ir.kernels))


def _in_kernel(kernel: Kernel, ir: Module) -> Kernel:
    if not any(isinstance(s, Loop) and s.kind == "serial" for s in statements(kernel.body)):
        return kernel
    held = {name: ir.buffer(name) for name in kernel.buffers} | {s.buffer.name: s.buffer for s in statements(kernel.body) if isinstance(s, Alloc)}
    names = Names((*kernel.buffers, *defined(kernel.body)))

    def within(block: Block, path: tuple[Stmt, ...]) -> Block:
        return tuple(t for s in block for t in one(s, path))

    def one(s: Stmt, path: tuple[Stmt, ...]) -> Block:
        before: list[Stmt] = []
        if isinstance(s, Loop) and s.kind == "serial" and s.step in (ONE, const(-1)):
            own = {t.buffer.name for t in statements(s.body) if isinstance(t, Alloc)}  # which an iteration does not leave to the next
            for name in dict.fromkeys(
                t.buffer for t in statements(s.body) if isinstance(t, Store) and t.buffer in held.keys() - own and held[t.buffer].shape
            ):
                made = _carried(s, held[name], names, inside(path, known))
                if made is not None:
                    first, s = made
                    before += first
        if not before:  # what stands inside a loop that was changed stays as it is
            inner = (*path, s)
            s = with_blocks(s, lambda b: within(b, inner))
        return (*before, s)

    known = Known(ir.size_info())
    return kernel.with_body(within(kernel.body, ()))


def _carried(loop: Loop, held: Buffer, names: Names, known: Known) -> tuple[Block, Loop] | None:
    """What is read before the loop, and the loop; None where it stores into the buffer more than once, or might read something else of what it stores, or later."""
    stated = list(statements(loop.body))
    inner = {s.axis for s in stated if isinstance(s, Loop)} | {s.name for s in stated if isinstance(s, Let)}
    j = var(loop.axis)
    if any(isinstance(s, (While, Region)) for s in stated) or sum(isinstance(s, Store) and s.buffer == held.name for s in stated) > 1:
        return None
    store = next((s for s in loop.body if isinstance(s, Store) and s.buffer == held.name), None)
    if (
        store is None
        or store.combiner
        or not any(loop.axis in e.names for e in store.index)
        or any(e.buffers or e.names & inner for e in store.index)
    ):
        return None
    last = tuple(substitute(e, {j: j - loop.step}) for e in store.index)
    at = next(k for k, s in enumerate(stated) if s is store)
    found: dict[Expr, None] = {}
    for k, s in enumerate(stated):
        for n in postorder(*(e for e in s.expressions() if held.name in e.buffers)):
            if n.op == "load" and n.attr == held.name and not _elsewhere(n, store, loop.axis):
                if k > at or not all(map(same_position, n.args, last)):
                    return None
                found[n] = None
    if not found:
        return None
    scalar = Buffer(names.fresh(f"{held.name}.last"), held.dtype, (), "register")
    first = tuple(substitute(e, {j: loop.start - loop.step}) for e in store.index)
    begins = load(held.name, held.dtype, *first)
    there = simplify(in_range(first, held.shape), known)
    value = begins if there is TRUE else where(there, begins, const(0, held.dtype))
    kept = var(names.fresh(f"{held.name}.now"), held.dtype)
    body: list[Stmt] = []
    for s in map_expressions(loop.body, lambda e: substitute(e, dict.fromkeys(found, load(scalar.name, held.dtype)))):
        if isinstance(s, Store) and s.buffer == held.name:
            body += [Let(kept.attr, s.value), replace(s, value=kept), Store(scalar.name, (), kept, span=s.span)]
        else:
            body.append(s)
    return (Alloc(scalar), Store(scalar.name, (), value, span=store.span)), replace(loop, body=tuple(body))


def _elsewhere(read: Expr, store: Store, axis: str) -> bool:
    """Whether no iteration stores there: along some axis of the buffer that the loop does not move, always so far away."""
    return any(axis not in a.names | b.names and (far := minus(a, b)).is_const and far.attr != 0 for a, b in zip(read.args, store.index, strict=True))
