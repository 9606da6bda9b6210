"""What the user of an emitted library sees of a program: the C parameters, the workspace, what is known of the sizes.

int32_t PREFIXname(ports in declared order (const T *, T *, scalars by value), then int64_t sizes)
int32_t PREFIXname_ws(…, void *workspace)         where there are temporaries: in the caller's memory
int64_t PREFIXname_workspace(sizes)               bytes of it; -1 where a size is refused
int32_t PREFIXname_shape(sizes, int64_t *derived) where sizes are derived
"""

from __future__ import annotations

from ..ir.expr import Expr, size, var
from ..ir.kernel import port_buffer
from ..ir.program import Block, Define, If, Param, Program, Scratch
from ..ir.walks import substitute

_UNLIMITED = (1 << 62) - 1

# How formulas over unchecked sizes are computed: they stop at INT64_MAX, which no buffer reaches.
SATURATING = {"add.index": "@sum_of({0}, {1})", "mul.index": "@product_of({0}, {1})"}


def parameters(program: Program) -> tuple[Param, ...]:
    """The entry's parameters: ports as declared, then the free sizes.  No `restrict`: C++ has none, and the entry checks overlaps."""
    ports: list[Param] = []
    for p in program.ports:
        if p.role == "scalar":
            ports += [Param(name, d, const=True, may_alias=True) for name, d in p.values]
        else:
            ports.append(Param(p.name, port_buffer(p).dtype, pointer=True, const=p.role == "in", may_alias=True))
    return (*ports, *size_parameters(program))


def size_parameters(program: Program) -> tuple[Param, ...]:
    return tuple(Param(s.name, size(s.name).dtype) for s in program.sizes)


def scratch(block: Block) -> list[tuple[str, Expr, int]]:
    """(name, elements, bytes of one) of the temporaries that an entry takes from the workspace, over the sizes; both branches of an `if` count."""
    found: list[tuple[str, Expr, int]] = []
    known: dict[Expr, Expr] = {}
    stack = list(reversed(block))
    while stack:
        s = stack.pop()
        if isinstance(s, Scratch):
            found.append((s.name, substitute(s.count, known), s.dtype.bytes))
        elif isinstance(s, Define) and s.value is not None and not s.mutable:
            known[var(s.name, s.dtype)] = substitute(s.value, known)
        elif isinstance(s, If):
            stack.extend(reversed(s.body + s.orelse))
    return found


def limits(program: Program) -> list[tuple[str, int, int | None, int]]:
    """(size, min, max or None, multiple)."""
    return [(s.name, s.min, None if s.max >= _UNLIMITED else s.max, s.multiple) for s in program.sizes]
