"""One kernel becomes one function."""

from __future__ import annotations

from collections.abc import Callable

from ...ir import kernel as k, program as p
from ...ir.bounds import Known
from ...ir.dtypes import INDEX
from ...ir.operator_kinds import MERGES
from ...ir.target import Target
from .fails import protect
from .flatten import Flattener, Place, Scope
from .folds import folds
from .grid import BLOCKS, THREADS, grid
from .names import Names
from .straighten import straighten
from .threads import threads
from .tiles import registers, tiles
from .transposes import transposes
from .vectors import vectorise
from .words import words


def function(kernel: k.Kernel, name: str, module: k.Module, target: Target, known: Callable[[], Known]) -> p.Function:
    """Parameters: pointers to the buffers in the kernel's order (const where only read), then the scalars and the sizes that occur.  `known` is what the sizes are known to be."""
    scalars = [value for port in module.ports if port.role == "scalar" for value in port.values]
    names = Names([*(s.name for s in module.sizes), *(s.name for s in module.ports), *(s.name for s in module.temps)])
    places = {name: Place(k.Buffer(name, d, ()), name, scalar=True) for name, d in scalars}
    pointers = [module.buffer(n) for n in kernel.buffers if n not in places]
    flat = Flattener(target, names, known)
    scope = Scope({}, places, {}, {})
    lets: list[p.Stmt] = []
    for b in pointers:
        before, named = flat.extents(b, scope)
        places[b.name] = Place(b, b.name, named=named)
        lets.extend(before)
    body = (*lets, *flat.inside(kernel.body, scope))
    on_grid, on_tiles = target.gpu or not flat.loops.isdisjoint(BLOCKS + THREADS), "tile" in flat.loops
    body, blocks, block = grid(body, target.gpu) if on_grid else (body, (), ())
    body = straighten(body, known)
    body = tiles(body) if on_tiles else body
    # vectors first: what a fork is worth is counted in the operations that are left
    body = folds(transposes(vectorise(body, target, names, flat.kinds), names), names)
    body = words(body) if flat.kinds & MERGES else body
    body = threads(body, target.threads and not target.gpu, target.gpu)
    body = registers(body) if on_tiles else body
    body = protect(body, target.gpu) if flat.checks else body

    stmts = p.statements(body)
    roots = [*blocks, *block, *[e for s in stmts for e in s.expressions()]]
    mentioned = frozenset().union(*[e.names for e in roots])
    written = {p.stored(s) for s in stmts}
    params = [
        *(p.Param(b.name, b.dtype, pointer=True, const=b.name not in written) for b in pointers),
        *(p.Param(name, d) for name, d in scalars if name in mentioned),
        *(p.Param(s.name, INDEX) for s in module.sizes if s.name in mentioned),
    ]
    return p.Function(name, tuple(params), body, blocks, block, fails=any(isinstance(s, p.Fail) for s in stmts))
