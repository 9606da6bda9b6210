"""What the user of an emitted library sees of a program: the C parameters, what is checked of them, and how they are described in words.

int32_t PREFIXname(ports in declared order (const T *, T *, scalars by value), then int64_t sizes)
int32_t PREFIXname_ws(…, void *workspace)         where there are temporaries: in the caller's memory
int64_t PREFIXname_workspace(sizes)               bytes of it; -1 where a size is refused
int32_t PREFIXname_shape(sizes, int64_t *derived) where sizes are derived
"""

from __future__ import annotations

from ..ir.expr import ONE, Expr, const, product, size, substitute, total, var
from ..ir.graph import Port
from ..ir.kernel import port_buffer
from ..ir.program import Block, Define, If, Param, Program, Scratch

_UNLIMITED = (1 << 62) - 1

# How formulas over unchecked sizes are computed: they stop at INT64_MAX, which no buffer reaches.
SATURATING = {"add.index": "@sum_of({0}, {1})", "mul.index": "@product_of({0}, {1})"}


def parameters(program: Program) -> tuple[Param, ...]:
    """The entry's parameters: ports as declared, then the free sizes.  No `restrict`: C++ has none, and the entry checks overlaps."""
    ports = tuple(Param(p.name, p.dtype, pointer=p.role != "scalar", const=p.role in ("in", "scalar"), may_alias=True) for p in program.ports)
    return ports + size_parameters(program)


def size_parameters(program: Program) -> tuple[Param, ...]:
    return tuple(Param(s.name, size(s.name).dtype) for s in program.sizes)


def factors(shape: tuple[Expr, ...]) -> list[Expr]:
    """The extents with products taken apart, so that each is a size, a literal or a sum."""
    found: list[Expr] = []
    for extent in shape:
        stack = [extent]
        while stack:
            e = stack.pop()
            if e.op == "mul":
                stack.extend(reversed(e.args))
            elif e is not ONE:
                found.append(e)
    return found


def pointers(program: Program) -> list[Port]:
    return [p for p in program.ports if p.role != "scalar"]


def span(port: Port) -> Expr:
    """Elements from the first to the last of a port, both included, where it has any."""
    if not port.strided:
        return product(port.shape)
    buffer = port_buffer(port)
    return total((e - 1) * buffer.stride(k) for k, e in enumerate(port.shape)) + 1


def inner_strides(port: Port) -> list[tuple[Expr, Expr]]:
    """(stride, smallest it may be) for each stride that is given at run time."""
    if not port.strided:
        return []
    order = port.memory_order
    buffer = port_buffer(port)
    pairs = []
    for place in range(len(port.strided)):
        inner = order[place + 1] if place + 1 < len(order) else None
        least = ONE if inner is None else buffer.stride(inner) * port.shape[inner]
        pairs.append((buffer.stride(order[place]), least))
    return pairs


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


def bytes_of(port: Port) -> Expr:
    return span(port) * const(port.dtype.bytes)
