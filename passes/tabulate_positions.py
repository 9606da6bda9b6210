"""kernels → kernels: positions that are quotients of multiples of an axis are worked out once, in a kernel of their own, and not again for each row.

    for b in 0 .. B parallel:                        for k in 0 .. 112 parallel:
      for k in 0 .. 112 parallel:              →       at[k] = W * k // 112
        Y[b, k] = X[b, W * k // 112]                 for b in 0 .. B parallel:
                                                       for k in 0 .. 112 parallel:
                                                         Y[b, k] = X[b, at[k]]

No vector divides integers, and lanes that are divided one by one take longer than all else that such a loop does.  What is a piece of an axis (k // 3, k % W) is left alone: that axis is cut (`schedule/parts.py`).
"""

from __future__ import annotations

from math import prod

from ..ir.dtypes import INDEX
from ..ir.expr import ONE, ZERO, Expr, load, var
from ..ir.kernel import Buffer, Kernel, Loop, Module, Stmt, Store, map_expressions, perfect
from ..ir.operator_kinds import DIVIDES
from ..ir.record import replace
from ..ir.renaming import Names, defined
from ..ir.target import Options, Target
from ..ir.walks import postorder, substitute, substitution

FEW = 8  # rows: of fewer, each is as dear as the kernel that works out the positions


def tabulate_positions(ir: Module, target: Target, options: Options) -> Module:
    names = Names(
        (*(s.name for s in ir.sizes), *(p.name for p in ir.ports), *(t.name for t in ir.temps), *(n for k in ir.kernels for n in defined(k.body)))
    )
    tables: dict[Expr, Buffer] = {}  # by the position along "%along"
    kernels: list[Kernel] = []
    for kernel in ir.kernels:
        body = tuple(_tabulated(s, tables, names, kernels, kernel) for s in kernel.body)
        kernels.append(replace(kernel, body=body, buffers=(*kernel.buffers, *(t.name for t in tables.values()))))
    return replace(ir, temps=(*ir.temps, *tables.values())).with_kernels(tuple(kernels)) if tables else ir


def _tabulated(s: Stmt, tables: dict[Expr, Buffer], names: Names, kernels: list[Kernel], kernel: Kernel) -> Stmt:
    """A nest of parallel loops around stores, with its positions read from tables; the kernels that fill new ones come before."""
    chain, body = perfect((s,), lambda x: x.kind == "parallel" and x.step is ONE)
    if len(chain) < 2 or not all(isinstance(t, Store) for t in body):
        return s
    row = chain[-1]
    rows = [x.stop.attr for x in chain[:-1] if x.stop.is_const and x.start is ZERO]
    few = len(rows) == len(chain) - 1 and prod(rows) < FEW
    if few or row.start is not ZERO or row.stop.names & {x.axis for x in chain}:
        return s
    along = var("%along")
    found: dict[Expr, Expr] = {}
    for position in dict.fromkeys(
        p
        for t in body
        for e in t.expressions()
        for n in postorder(e)
        if n.op == "load"
        for p in _positions(n.args, row.axis, {x.axis for x in chain})
    ):
        general = substitute(position, {var(row.axis): along})
        if general not in tables:
            table = tables[general] = Buffer(names.fresh("at"), INDEX, (row.stop,))
            filling = Loop(row.axis, ZERO, row.stop, (Store(table.name, (var(row.axis),), position),), "parallel")
            kernels.append(Kernel(f"{kernel.name}_{table.name}", (table.name,), (filling,)))
        elif tables[general].shape != (row.stop,):
            continue
        found[position] = load(tables[general].name, INDEX, var(row.axis))
    return map_expressions((s,), substitution(found))[0] if found else s


def _positions(args: tuple[Expr, ...], axis: str, axes: set[str]) -> list[Expr]:
    """The largest parts of an index that depend on the axis alone, of which a multiple is divided."""
    found: list[Expr] = []
    stack = list(args)
    while stack:
        e = stack.pop()
        if axis not in e.names or not e.kinds & DIVIDES:
            continue
        if e.names & axes == {axis} and not e.buffers and any(_of_a_multiple(n, axis) for n in postorder(e)):
            found.append(e)
        elif e.op != "load":
            stack += e.args
    return found


def _of_a_multiple(n: Expr, axis: str) -> bool:
    """Whether a position that is no piece of the axis is divided: neighbours are some apart before they are."""
    return n.op in ("floordiv", "mod") and axis in n.args[0].names and any(m.op == "mul" and axis in m.names for m in postorder(n.args[0]))
