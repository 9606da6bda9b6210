"""What an iteration stores and the next one reads is carried in a register.

                                            s = Y[i, 0]
    for j in 1 .. N:                        for j in 1 .. N:
      Y[i, j] = f(Y[i, j - 1], X[i, j])  →    let v = f(s, X[i, j])
                                              Y[i, j] = v
                                              s = v

A load of what was just stored takes as long as two additions, and a loop that reads what it writes is none that the scheduler can run for several rows at a time (`schedule/rows_carried.py`).
So is what a loop reads and stores at one position alone.
Source: Callahan, Carr and Kennedy, Improving register allocation for subscripted variables (1990).
"""

from __future__ import annotations

from ..ir.bounds import Known
from ..ir.expr import ONE, TRUE, ZERO, Expr, const, in_range, load, var, where
from ..ir.kernel import (
    Alloc,
    Block,
    Buffer,
    Kernel,
    Let,
    Loop,
    Module,
    Region,
    Stmt,
    Store,
    While,
    map_block,
    map_expressions,
    statements,
    with_blocks,
)
from ..ir.record import replace
from ..ir.renaming import Names, defined
from ..ir.simplify import prove_le, simplify
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
        after: list[Stmt] = []
        if isinstance(s, Loop) and s.kind == "serial" and s.step in (ONE, const(-1)):
            own = {t.buffer.name for t in statements(s.body) if isinstance(t, Alloc)}  # which an iteration does not leave to the next
            for name in dict.fromkeys(
                t.buffer for t in statements(s.body) if isinstance(t, Store) and t.buffer in held.keys() - own and held[t.buffer].shape
            ):
                made = _carried(s, held[name], names, inside(path, known)) or _kept(s, held[name], names, path, known)
                if made is not None:
                    first, s, last = made
                    before += first
                    after += last
        if not before:  # what stands inside a loop that was changed stays as it is
            inner = (*path, s)
            s = with_blocks(s, lambda b: within(b, inner))
        return (*before, s, *after)

    known = Known(ir.size_info())
    return kernel.with_body(within(kernel.body, ()))


def _carried(loop: Loop, held: Buffer, names: Names, known: Known) -> tuple[Block, Loop, Block] | None:
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
    return (Alloc(scalar), Store(scalar.name, (), value, span=store.span)), replace(loop, body=tuple(body)), ()


def _kept(loop: Loop, held: Buffer, names: Names, path: tuple[Stmt, ...], known: Known) -> tuple[Block, Loop, Block] | None:
    """What a loop reads and stores at one position alone, which is there, is in a register meanwhile: what is read before, the loop, and what is stored after it."""
    stated = list(statements(loop.body))
    inner = {loop.axis} | {s.axis for s in stated if isinstance(s, Loop)} | {s.name for s in stated if isinstance(s, Let)}
    stores = [s for s in stated if isinstance(s, Store) and s.buffer == held.name]
    index = stores[0].index
    reads = [n for s in stated for n in postorder(*(e for e in s.expressions() if held.name in e.buffers)) if n.op == "load" and n.attr == held.name]
    if any(isinstance(s, (While, Region)) for s in stated) or any(s.index != index for s in stores) or any(n.args != index for n in reads):
        return None
    if not reads and not any(s.combiner for s in stores):
        return None
    if any(e.buffers or e.names & inner for e in index) or any(
        isinstance(s, Loop) and s.kind == "parallel" and not any(s.axis in e.names for e in index) for s in path
    ):
        return None
    known = inside(path, known)
    if not all(prove_le(ZERO, e, known) and prove_le(e, extent - 1, known) for e, extent in zip(index, held.shape, strict=True)):
        return None
    scalar = Buffer(names.fresh(f"{held.name}.now"), held.dtype, (), "register")
    there = load(held.name, held.dtype, *index)
    body = map_expressions(loop.body, lambda e: substitute(e, {there: load(scalar.name, held.dtype)}))
    body = map_block(
        body, lambda s: (replace(s, buffer=scalar.name, index=(), stream=None),) if isinstance(s, Store) and s.buffer == held.name else None
    )
    begin, end = Store(scalar.name, (), there, span=stores[0].span), Store(held.name, index, load(scalar.name, held.dtype), span=stores[0].span)
    return (Alloc(scalar), begin), replace(loop, body=body), (end,)


def _elsewhere(read: Expr, store: Store, axis: str) -> bool:
    """Whether no iteration stores there: along some axis of the buffer that the loop does not move, always so far away."""
    return any(axis not in a.names | b.names and (far := minus(a, b)).is_const and far.attr != 0 for a, b in zip(read.args, store.index, strict=True))
