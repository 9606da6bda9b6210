"""kernels → kernels: a contraction of complex numbers is one of twice as many real rows and columns.

    for i, j parallel:                                                 for i2 in 0 .. 2·M, j2 in 0 .. 2·N parallel:
      for p reduce:                                                      for p reduce:
        re add= A[i, p, 0] * B[p, j, 0] - A[i, p, 1] * B[p, j, 1]   →      acc add= A[i2 // 2, p, i2 % 2] * B[p, j2 // 2, j2 % 2]
        im add= A[i, p, 0] * B[p, j, 1] + A[i, p, 1] * B[p, j, 0]        temp[i2, j2] = acc
      C[i, j, 0] = re; C[i, j, 1] = im                                 for i, j parallel:
                                                                         C[i, j, 0] = temp[2·i, 2·j] - temp[2·i + 1, 2·j + 1]
                                                                         C[i, j, 1] = temp[2·i, 2·j + 1] + temp[2·i + 1, 2·j]

Four real products are what a complex one takes, and the real contraction takes the road of all contractions: components that lie side by side are columns.  Conjugates are other signs in the second
kernel.  It runs where each operand has a kept axis that the other misses; and where one has none, and the other lies along its own, the first is a single row.  What is between the kernels is twice the result, so a reduction
that is known to be short stays as it is.
--strict forbids it: two sums are subtracted where differences were summed.
"""

from __future__ import annotations

from typing import NamedTuple

from ..ir.expr import ONE, ZERO, Expr, call, load, var, where
from ..ir.graph import PARTS
from ..ir.kernel import Alloc, Block, Buffer, Kernel, Let, Loop, Module, Store, identity_of, map_expressions, nested
from ..ir.record import replace
from ..ir.renaming import Names, defined
from ..ir.target import Options, Target
from ..ir.walks import rewrite, substitute
from .joins.join_loops import Sum, reduction
from .joins.rows import Rows, rows_of

SHORT = 8  # products of a sum: moving two results to memory and back costs about as many


class Product(NamedTuple):
    """One of the four products: its sign, which components it has, and of what."""

    sign: int
    parts: tuple[int, int]
    operands: tuple[Expr, Expr]  # with component 0


def complex_products(ir: Module, target: Target, options: Options) -> Module:
    paired = frozenset(p.name for p in ir.ports if p.pairs)
    if not (paired or any(t.name.endswith(f".{PARTS[0]}") for t in ir.temps)) or target.gpu or not target.vector_bytes or options.strict:
        return ir
    kernels: list[Kernel] = []
    temps = list(ir.temps)
    for r in rows_of(ir):
        found = _twice(r, paired, {t.name for t in temps})
        kernels += [r.kernel] if found is None else found[:2]
        temps += [] if found is None else [found[2]]
    if len(kernels) == len(ir.kernels):
        return ir
    numbered = tuple(replace(k, name=f"{ir.name}_{n}") for n, k in enumerate(kernels))
    return replace(ir, temps=tuple(temps)).with_kernels(numbered)


def _twice(r: Rows, paired: frozenset[str], temps: set[str]) -> tuple[Kernel, Kernel, Buffer] | None:
    """The real contraction, what makes the result of it, and what is between them."""
    body = r.inside(len(r.chain))
    loops = [s for s in body if not isinstance(s, (Alloc, Store, Let))]
    found = reduction(loops[0]) if len(loops) == 1 and r.few is None and not r.kernel.schedule else None
    if found is None or len(found.body) != 2 or any(x.stop.is_const and x.stop.attr < SHORT for x in found.loops):
        return None
    stores = [s for s in found.body if isinstance(s, Store) and s.combiner == "add"]
    sums = [_products(s.value, paired) for s in stores]
    if len(sums) != 2 or any(p is None or len(p) != 2 for p in sums):
        return None
    products = [p for some in sums for p in some or []]
    a, b = products[0].operands
    if {p.parts for p in products} != {(0, 0), (0, 1), (1, 0), (1, 1)} or any(p.operands != (a, b) for p in products):
        return None
    kept = {x.axis for x in r.chain}
    rows, columns = ([x for x in r.chain if x.axis in (e.names - other.names) & kept] for e, other in ((a, b), (b, a)))
    names = Names((*r.sizes, *r.buffers, *temps, *defined(r.kernel.body)))
    chain = r.chain
    if not rows or not columns:
        matrix, own = (a, rows) if rows else (b, columns)
        if not own or own[-1] is not chain[-1] or not _consecutive(matrix, own[-1].axis, paired):
            return None
        one = Loop(names.fresh("one"), ZERO, ONE, (), "parallel")
        rows, columns = rows or [one], columns or [one]
        chain = (*chain[:-1], one, chain[-1])
    if rows[-1].axis == chain[-1].axis:  # the columns are the innermost axis
        a, b, rows, columns = b, a, columns, rows
        products = [_turned(p) for p in products]
    return _real(r, found, products, (a, b), chain, (rows[-1], columns[-1]), paired, names)


def _consecutive(matrix: Expr, axis: str, paired: frozenset[str]) -> bool:
    """Whether memory is consecutive along an axis of a matrix, components aside."""
    index = matrix.args[:-1] if matrix.attr in paired else matrix.args
    return index[-1] is var(axis)


def _real(
    r: Rows,
    found: Sum,
    products: list[Product],
    operands: tuple[Expr, Expr],
    kept: tuple[Loop, ...],
    doubled: tuple[Loop, Loop],
    paired: frozenset[str],
    names: Names,
) -> tuple[Kernel, Kernel, Buffer]:
    """`kept`: the loops of the kernel, and the one of a single row where a vector has none."""
    dtype = operands[0].dtype
    twice = {x.axis: replace(x, axis=names.fresh(x.axis), stop=x.stop * 2) for x in doubled}
    chain = [twice.get(x.axis, x) for x in kept]
    between = Buffer(names.fresh("temp"), dtype, tuple(x.stop for x in chain))
    halves = {var(old): var(new.axis) // 2 for old, new in twice.items()}

    def component(operand: Expr, axis: Loop) -> Expr:
        index, part = [substitute(e, halves) for e in operand.args], var(twice[axis.axis].axis) % 2
        if operand.attr in paired:
            return load(operand.attr, dtype, *index[:-1], part)
        planes = (load(f"{operand.attr.rpartition('.')[0]}.{which}", dtype, *index) for which in PARTS)
        return where(part.eq(ZERO), *planes)

    acc = Buffer(names.fresh("acc"), dtype, (), "register")
    value = call("mul", component(operands[0], doubled[0]), component(operands[1], doubled[1]))
    body: Block = (
        Alloc(acc),
        Store(acc.name, (), identity_of("add", dtype)),
        *nested(found.loops, (Store(acc.name, (), value, "add"),)),
        Store(between.name, tuple(var(x.axis) for x in chain), load(acc.name, dtype)),
    )
    note = "a complex contraction is a real one of twice the rows and columns"
    touched = dict.fromkeys((*r.kernel.buffers, between.name))
    first = Kernel(r.kernel.name, tuple(touched), (*r.before, *nested(tuple(chain), body)), notes=(*r.kernel.notes, note))

    def at(parts: tuple[int, int]) -> Expr:
        part = dict(zip((x.axis for x in doubled), parts, strict=True))
        place = {x.axis: var(x.axis) if x in r.chain else ZERO for x in kept}
        return load(between.name, dtype, *(place[x.axis] * 2 + part[x.axis] if x.axis in part else place[x.axis] for x in kept))

    sums: dict[str, Expr] = {}
    for s, (p, q) in zip(found.body, zip(products[::2], products[1::2], strict=True), strict=True):
        assert isinstance(s, Store)
        p, q = (p, q) if p.sign > 0 else (q, p)
        x = at(p.parts) if p.sign > 0 else call("neg", at(p.parts))
        sums[s.buffer] = call("add" if q.sign > 0 else "sub", x, at(q.parts))
    rest = tuple(s for s in r.inside(len(r.chain)) if not isinstance(s, (Alloc, Loop)) and not (isinstance(s, Store) and s.buffer in sums))
    results = map_expressions(rest, lambda e: rewrite(e, lambda n: sums.get(n.attr) if n.op == "load" else None))
    second = Kernel(r.kernel.name, tuple(touched), (*r.before, *nested(r.chain, results)))
    return first, second, between


def _component(e: Expr, paired: frozenset[str]) -> tuple[Expr, int] | None:
    """Component 0 of what one of the components of a number in memory is of, and which one that is: ports hold pairs, temporaries a plane for each."""
    if e.op != "load" or not e.args:
        return None
    if e.attr in paired:
        return (load(e.attr, e.dtype, *e.args[:-1], ZERO), e.args[-1].attr) if e.args[-1].is_const else None
    name, _, part = e.attr.rpartition(".")
    return (load(f"{name}.{PARTS[0]}", e.dtype, *e.args), PARTS.index(part)) if name and part in PARTS else None


def _products(value: Expr, paired: frozenset[str]) -> list[Product] | None:
    """The value as a sum of products of components, each with its sign; None where it is something else."""
    result: list[Product] = []
    pending = [(value, 1)]
    while pending:
        e, sign = pending.pop()
        if e.op in ("add", "sub"):
            pending += [(e.args[1], sign if e.op == "add" else -sign), (e.args[0], sign)]
        elif e.op == "neg":
            pending.append((e.args[0], -sign))
        elif e.op == "mul":
            factors = []
            for f in e.args:
                while f.op == "neg":
                    f, sign = f.args[0], -sign
                component = _component(f, paired)
                if component is None:
                    return None
                factors.append(component)
            (a, m), (b, n) = factors
            result.append(Product(sign, (m, n), (a, b)))
        else:
            return None
    first = result[0].operands if result else None
    return [p if p.operands == first else _turned(p) for p in result]


def _turned(p: Product) -> Product:
    """The same with its factors the other way round."""
    (a, b), (m, n) = p.operands, p.parts
    return Product(p.sign, (n, m), (b, a))
