"""kernels → kernels: a batched contraction, what makes its operand and what reads its result are worked off in blocks that stay in the second cache.

    for r: for t: A[p, r, t] = …                                      for b parallel:                  blocks of rows
    for p: for r, t: for l: D[p, r, t, l] = Σ_k A[p, r, t, k] B[p, k, l]     alloc A, D of some rows, private
    for r: for t: Y[r, t] = f(D[:, r, t])                       →       the first, the second, the third for these rows

Together A and D are more than a core's cache holds, and each is written by other threads than read it: they come and go through what all cores (and others' programs) share.  A block's stay with
the thread that works on it, for the price of reading B once for each block.

1. What is joined are the kernels that touch the contraction's row operand (or its column operand) and its result, as far as all of them go through the same positions (`blocks.py`), and what
   makes those in turn, position by position.  A tensor that somebody else reads too stays as it is.
2. Only contractions that read their operands where they lie, with a batch: planes that are each small, so that what is handed on counts beside the products.  None of the others is one that wants
   packed panels: in a block it would be summed element by element.
3. Both are handed on: where D stays in memory, or A comes from there, little is saved for what is read again.
4. Blocks are so many that what one holds of A and D is a quarter of the second cache, where B wants to stay too, and a multiple of the cores.  They pay where reading B for each is less than writing
   and reading A and D: the sizes decide, at run time where they are free, between the blocks and the kernels one after the other.
5. Of an operand that is cut by columns a block holds one piece of the depth, as much as a quarter of the second cache (`pieces.py`): what makes it and the products alternate.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from ..ir.bounds import Known
from ..ir.expr import FALSE, ONE, TRUE, ZERO, Expr, both, call, ceildiv, const, floordiv, maximum, minimum, product, total, var
from ..ir.kernel import Alloc, Block, Buffer, If, Kernel, Let, Loop, Module, map_expressions, statements
from ..ir.record import changing, record, replace
from ..ir.renaming import Names, defined, unique_locals
from ..ir.simplify import assuming, simplify
from ..ir.target import Options, Target
from ..ir.walks import postorder, rewrite
from .joins.rows import Rows, rows_of
from .schedule import Facts, is_scheduled
from .schedule.cost import blocking
from .schedule.plan import Plan
from .schedule.products.direct import in_place
from .schedule.roles import Contraction, contraction

if TYPE_CHECKING:
    from .joins.blocks import Axes, Form
    from .joins.pieces import Pieces


def join_blocks(ir: Module, target: Target, options: Options) -> Module:
    if target.gpu or target.vector_bytes == 0 or any(map(is_scheduled, ir.kernels)):
        return ir
    facts = Facts.of(ir, options.strict)
    kernels = rows_of(ir)
    known = assuming(Known(ir.size_info()), both(*ir.requires))
    products = [contraction(kernel, facts) for kernel in ir.kernels]
    lying = [p is not None and in_place(Plan(kernel, facts, target, options), p) for kernel, p in zip(ir.kernels, products, strict=True)]
    packed = frozenset(k for k, p in enumerate(products) if p is not None and p.rows and not lying[k])
    found: list[_Chain] = []
    for k, roles in enumerate(products):
        if roles is None or not roles.batch or not roles.rows or not lying[k]:
            continue
        if not any(k in c.members for c in found):
            chains = (_Search(ir, kernels, k, target, known, packed, options.strict).chain(roles, column) for column in (False, True))
            found += [
                c for c in chains if c is not None and not any(c.members.keys() & other.members.keys() for other in found if k not in other.members)
            ]
    return _joined(ir, kernels, found, known) if found else ir


@record
class _Chain:
    """Kernels that are worked off in blocks together, and when."""

    members: Mapping[int, Form]
    axes: Axes
    rows: Expr
    unit: Expr
    grain: int  # rows of which a block has a multiple
    blocks: Expr
    at: int  # the contraction
    pieces: Pieces | None  # in which they go through the depth of the contraction
    chosen: tuple[Expr, ...]  # the conditions on sizes under which there are positions at all
    condition: Expr = TRUE  # these, and that it pays

    def there(self, e: Expr) -> Expr:
        """An expression where there are positions: `where(c, B, 0)` is B."""
        return rewrite(e, lambda n: n.args[1] if _is_choice(n) and n.args[0] in self.chosen else None)


@changing
class _Search:
    ir: Module
    kernels: list[Rows]
    at: int  # the contraction's place
    target: Target
    known: Known
    packed: frozenset[int]  # contractions that want panels, which a block has none of
    strict: bool

    def chain(self, roles: Contraction, column: bool) -> _Chain | None:
        """The kernels that go through the positions along the rows of the contraction (or along its columns) together with it, where that can pay."""
        this = self.kernels[self.at]
        axis = roles.column if column else roles.rows[-1]
        extents = {x.axis: x.stop for x in this.chain}
        if not {axis, roles.column} <= extents.keys():
            return None  # something stands before the loops
        length = extents[axis]
        operands, others = (roles.row_operands, roles.column_operands)[:: -1 if column else 1]
        axes: dict[str, int] = {}
        members: dict[int, Form] = {}
        waiting = [(name, k) for name in (*operands, roles.output) if (k := _axis(this, name, frozenset({axis}))) is not None]
        while waiting:
            name, k = waiting.pop(0)
            if name in axes or name not in {t.name for t in self.ir.temps}:
                continue
            grown = self.grown(axes | {name: k}, length)
            if grown is None:
                continue
            axes[name] = k
            for place, form in grown.items():
                if place not in members and form.carriers:
                    reads = (n for n in self.kernels[place].read if n not in axes)
                    waiting += [(n, d) for n in sorted(reads) if (d := _axis(self.kernels[place], n, form.carriers)) is not None]
            members = grown
        if self.packed & members.keys():
            return None
        if roles.output not in axes or not any(n in axes for n in operands) or not self.in_order(members, axes):
            return None  # where only one side of the product is handed on, little is saved for what is read again
        found = self.costed(members, axes, length, roles, column)
        held, read = (total(_bytes(self.ir.buffer(n)) for n in dict.fromkeys(names)) for names in (operands, others))
        larger = read.lt(held) if column else read.le(held)
        moved = total(_bytes(self.ir.buffer(n)) for n in axes) * 2
        depth = product(s.stop for s in statements(this.body) if isinstance(s, Loop) and s.axis in roles.reduced)
        width = const(found.grain) if column else extents[roles.column]
        near = (depth * width).le(self.target.l2 * 3 // 4 // roles.accumulator.dtype.bytes)  # what the register tiles of a block read again and again
        pays = simplify(found.there(both(larger, near, (found.blocks * read).lt(moved)) or TRUE), self.known)
        return None if pays is FALSE else replace(found, condition=simplify(both(*found.chosen, pays) or TRUE, self.known))

    def grown(self, axes: Axes, length: Expr) -> dict[int, Form] | None:
        """How each kernel that touches these tensors goes through the positions."""
        from .joins.blocks import form_of

        touching = [k for k, r in enumerate(self.kernels) if any(n in r.accesses and r.accesses[n] for n in axes)]
        units: list[Expr | None] = [None]
        for unit in units:
            forms = [form_of(self.kernels[k], {n: d for n, d in axes.items() if n in self.kernels[k].accesses}, length, unit) for k in touching]
            own = list(dict.fromkeys(f.unit for f in forms if f is not None and f.depth))
            if any(f is None for f in forms):
                continue
            if len(own) <= 1:
                return {k: f for k, f in zip(touching, forms, strict=True) if f is not None}
            if unit is None:
                units += own
        return None

    def in_order(self, members: Mapping[int, Form], axes: Axes) -> bool:
        """Whether all may run where the last of them does, and share nothing else that one of them writes."""
        last = max(members)
        for k in members:
            between = [self.kernels[j] for j in range(k + 1, last) if j not in members]
            if not all(self.kernels[k].passes(other) for other in between):
                return False
            written = self.kernels[k].written - axes.keys()
            if any(written & self.kernels[j].accesses.keys() for j in members if j != k) or written & self.kernels[k].read:
                return False
        return True

    def costed(self, members: Mapping[int, Form], axes: Axes, length: Expr, roles: Contraction, column: bool) -> _Chain:
        """So many blocks that what one holds takes a quarter of the second cache, a multiple of the cores."""
        unit = next((f.unit for f in members.values() if f.depth), ONE)
        rows = next((f.rows for f in members.values() if f.depth), length)
        block = blocking(self.target, roles.accumulator.dtype)
        grain = block.columns if column else block.rows if unit is ONE else 1
        shared = [self.ir.buffer(n) for n in axes]
        cores = self.target.cores
        sizes = {s.name for s in self.ir.sizes}
        stops = (s.stop for k in members for s in statements(self.kernels[k].body) if isinstance(s, Loop))
        choices = {n.args[0]: None for n in postorder(*stops) if _is_choice(n) and n.args[0].names <= sizes and not n.args[0].buffers}
        found = _Chain(members, axes, rows, unit, grain, ONE, self.at, None, tuple(choices))
        if column:
            found = replace(found, pieces=self.pieces(found, roles))
        of_block = {b.name: b.shape if found.pieces is None else found.pieces.shape(b, b.shape) for b in shared}
        piece = total(product((*of_block[b.name][: (k := axes[b.name])], *of_block[b.name][k + 1 :])) * b.dtype.bytes for b in shared) * unit * grain
        most = maximum(ONE, floordiv(const(self.target.l2 // 4), maximum(ONE, piece)))
        blocks = ceildiv(ceildiv(rows, grain), most * cores) * cores
        return replace(found, rows=simplify(found.there(rows), self.known), unit=found.there(unit), blocks=simplify(found.there(blocks), self.known))

    def pieces(self, found: _Chain, roles: Contraction) -> Pieces | None:
        """How they go through the depth: what makes the columns' operand holds a quarter of the second cache for one piece."""
        from .joins.pieces import LEAST, MOST, pieces_of

        if self.strict or any(form.depth for form in found.members.values()):
            return None
        kernels = {k: self.kernels[k] for k in sorted(found.members)}
        cut = pieces_of(kernels, self.at, roles, frozenset(found.axes), self.known, found.there)
        if cut is None:
            return None
        each = ZERO
        for name, k in cut.axes.items():
            b = self.ir.buffer(name)
            each = each + product(found.there(e) for d, e in enumerate(b.shape) if d not in (k, found.axes[name])) * (cut.spans[name] * b.dtype.bytes)
        each = simplify(each * found.grain, self.known)
        if not each.is_const:
            return None
        depth = LEAST
        while depth * 2 <= min(MOST, self.target.l2 // 4 // max(1, each.attr)):
            depth *= 2
        longer = simplify(cut.length.le(depth), self.known)
        return None if longer is TRUE else replace(cut, depth=depth)


def _is_choice(n: Expr) -> bool:
    return n.op == "where" and n.args[2] is ZERO


def _bytes(b: Buffer) -> Expr:
    return b.elements * b.dtype.bytes


def _axis(kernel: Rows, name: str, loops: frozenset[str]) -> int | None:
    """The one axis of a tensor at which it is touched at the position of one of some loops, always."""
    found = {k for index in kernel.accesses[name][:1] for k in range(len(index))}
    for index in kernel.accesses[name]:
        found &= {k for k, e in enumerate(index) if any(e is var(axis) for axis in loops)}
    return min(found) if len(found) == 1 else None


def _joined(ir: Module, kernels: list[Rows], chains: list[_Chain], known: Known) -> Module:
    """The kernels with what is done in blocks behind the last of its members, each under its condition."""
    temps = {t.name: t for t in ir.temps}
    done: list[Kernel] = []
    for k, r in enumerate(kernels):
        without = [c.condition for c in chains if k in c.members]
        if TRUE not in without:
            elsewhere = reduce(lambda a, b: call("bit_or", a, b), without) if without else None
            done.append(r.kernel if elsewhere is None else replace(r.kernel, body=(If(elsewhere, (), r.kernel.body),)))
        done += [_in_blocks(ir, kernels, c, known) for c in chains if max(c.members) == k]
    for c in chains:
        for name in c.axes:
            if c.condition is TRUE:
                temps.pop(name, None)
            elif name in temps:  # the first extent is part of no address
                first, *rest = temps[name].shape
                temps[name] = replace(temps[name], shape=(call("where", c.condition, ZERO, first), *rest))
    named = tuple(replace(kernel, name=f"{ir.name}_{k}") for k, kernel in enumerate(done))
    return replace(ir, temps=tuple(temps.values())).with_kernels(named)


def _in_blocks(ir: Module, kernels: list[Rows], c: _Chain, known: Known) -> Kernel:
    from .joins.blocks import Cut, blocked

    members = {k: c.members[k] for k in sorted(c.members)}
    touched = {n for k in members for n in kernels[k].kernel.buffers}
    buffers = {b.name: ir.buffer(b.name) for b in (*ir.ports, *ir.temps) if b.name in touched}
    names = Names((*(s.name for s in ir.sizes), *buffers, *(n for k in members for n in defined(kernels[k].kernel.body))))
    blocks, axis, first, count = (names.fresh(n) for n in ("blocks", "block", "first", "count"))
    pieces = simplify(ceildiv(c.rows, c.grain), known)
    begin, end = (minimum(c.rows, floordiv((var(axis) + j) * pieces, var(blocks)) * c.grain) for j in (0, 1))
    most = simplify(ceildiv(pieces, maximum(ONE, c.blocks)) * c.grain * c.unit, known)
    own: dict[str, Buffer] = {}
    for n, k in c.axes.items():
        b = buffers[n]
        shape = (*(c.there(e) for e in b.shape[:k]), most, *(c.there(e) for e in b.shape[k + 1 :]))
        if c.pieces is not None:
            shape = c.pieces.shape(b, shape, apart=True)
        own[n] = replace(b, name=names.fresh(f"{n}_block"), shape=shape, space="private", align=64)
    cut = Cut(var(first), var(count), c.unit)
    body: Block = (Let(first, begin), Let(count, end - var(first)), *(Alloc(b) for b in own.values()))
    parts: dict[int, Block] = {}
    for k, form in members.items():
        mine = {n: k for n, k in c.axes.items() if n in form.kernel.accesses}
        parts[k] = unique_locals(blocked(form, cut, mine, own, names.fresh("row")), names.fresh)
    if c.pieces is None:
        body = (*body, *(s for part in parts.values() for s in part))
    else:
        from .joins.pieces import in_pieces

        body = (*body, *in_pieces(parts, c.at, c.pieces, own, names))
    loop = Loop(axis, ZERO, var(blocks), map_expressions(body, c.there), "parallel")
    note = f"{len(members)} kernels are worked off in blocks: {len(own)} tensor{'s' * (len(own) > 1)} between them stay in the second cache"
    whole: Block = (Let(blocks, c.blocks), loop)
    notes = dict.fromkeys((*(n for k in members for n in kernels[k].kernel.notes), note))
    whole = whole if c.condition is TRUE else (If(c.condition, whole),)
    return Kernel("", tuple(n for n in buffers if n not in own), whole, notes=tuple(notes))
