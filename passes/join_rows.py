"""kernels → kernels: kernels that work off the same rows become one, where one reads what another has made of each row, or both read the same.

    for i in 0 .. M parallel:                          for i in 0 .. M parallel:
      …                                                  alloc temp: f32[N] private
      for j: temp[i, j] = exp(X[i, j] - m) / l           …
    for r in 0 .. M parallel:                    →       for j: temp[j] = exp(X[i, j] - m) / l
      for p: best max= temp[r, p]                        for p: best max= temp[p]
      Y[r] = best                                        Y[i] = best

So a softmax and a choice of its largest are one kernel, however the choice is written: as reductions, as scans or as loops that stayed loops.  A row that nobody else wants stays in the cache.
And a sum, an extreme and a norm of the same rows (or columns, or of everything) read them once.

1. Two that walk the same rows (`rows.py`) are joined where the one reads what the other writes, and something is left to do inside a row: two pointwise kernels are as well side by side.
2. Not where rows share operands of a reduction (a matrix product): such a kernel is tiled over rows, which it must be alone for.  Nor where a row takes a `while` (a sort, a transform in log N
   rounds): beside as much work the traffic is little, and what is done for all rows at once has more parallel loops than rows.
3. Where few long rows are worked off in another way (`split_cascade`), the kernels follow one another there as they were, and what is between them is in memory.
4. They are joined, too, where every reduction of the one finds one of the other that it can share a loop with (`join_loops.py`): together they go through memory no more often than the longer of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.expr import ZERO, Expr, call, load, var
from ..ir.kernel import Alloc, Block, Buffer, If, Kernel, Let, Loop, Module, Stmt, Store, While, map_block, map_expressions, nested, reads, statements
from ..ir.record import replace
from ..ir.renaming import Names, defined
from ..ir.target import Options, Target
from ..ir.walks import rewrite
from .joins.join_loops import sums, with_joined_loops
from .joins.rows import Rows, common_depth, joined, one_after_the_other, rows_of

AXES = 2  # of a row, not counting those of constant extent: one with more leaves the cache, and its loops are better shared by threads


def join_rows(ir: Module, target: Target, options: Options) -> Module:
    def joint(a: Rows, b: Rows) -> Rows | None:
        handing = _handing_on(a, b) if not target.gpu else 0  # a thread of a GPU has no memory for a row
        return one_after_the_other(a, b, handing) if handing else _in_one_pass(a, b, target.vector_registers)

    done = joined(rows_of(ir), joint)
    kernels = [with_joined_loops(r.kernel, (*r.sizes, *r.buffers), target.vector_registers) for r in done]
    return _local_rows(ir, kernels) if len(done) < len(ir.kernels) else ir.with_kernels(tuple(kernels)) if kernels != [*ir.kernels] else ir


def _alone(r: Rows) -> bool:
    """Whether rows, or what is inside of them, have operands of a reduction in common, or take nobody knows how long."""
    return any(isinstance(s, While) for s in statements(r.body)) or any(True for _ in _contractions(r.body, ()))


def _contractions(block: Block, around: tuple[str, ...]) -> Iterator[Loop]:
    """The reductions in which one operand misses a kept axis that another has."""
    for s in block:
        if isinstance(s, Loop) and s.kind == "reduce" and not any(isinstance(t, Loop) for t in statements(s.body)):
            moving = [n.names & set(around) for n in reads(s.body) if s.axis in n.names]
            if any(m != moving[0] for m in moving):
                yield s
        else:
            for inside in s.blocks():
                yield from _contractions(inside, (*around, s.axis) if isinstance(s, Loop) and s.kind == "parallel" else around)


def _handing_on(a: Rows, b: Rows) -> int:
    """Over how many outer loops the two kernels walk the same rows, of which one reads what the other has made; 0 where they do not."""
    if not a.written & b.read or _alone(a) or _alone(b) or (a.few and b.few and a.few[0] is not b.few[0]):
        return 0
    depth = common_depth(a, b)
    while depth and not _row_by_row(a, b, depth):
        depth -= 1
    if depth and any(_deepest(r.inside(depth)) > AXES for r in (a, b)):
        return 0
    return depth if depth and any(_has_elements(r.inside(depth)) for r in (a, b)) else 0


def _has_elements(block: Block) -> bool:
    """Whether a row has several elements: a loop over them, or stores of one after the other, where they are few."""
    stored = [s.buffer for s in statements(block) if isinstance(s, Store)]
    return any(isinstance(s, Loop) for s in statements(block)) or len(set(stored)) < len(stored)


def _deepest(block: Block) -> int:
    """How many parallel loops of no constant extent are inside of one another."""
    found = 0
    for s in block:
        if isinstance(s, Loop) and s.kind == "parallel":
            constant = s.start.is_const and s.stop.is_const
            found = max(found, _deepest(s.body) + (0 if constant else 1))
        elif isinstance(s, If):
            found = max(found, _deepest((*s.body, *s.orelse)))
    return found


def _row_by_row(a: Rows, b: Rows, depth: int) -> bool:
    """Whether what one writes and the other touches is, in both, touched at a row's own position."""
    shared = [n for n in a.accesses if n in b.accesses and (n in a.written or n in b.written)]
    return all(r.by_row(n, depth) for r in (a, b) for n in shared)


def _in_one_pass(a: Rows, b: Rows, registers: int) -> Rows | None:
    """The two as one, where they are all the rows there are, and each reduction of the shorter one shares a loop with one of the longer."""
    depth = len(a.chain)
    if a.few or b.few or a.read.isdisjoint(b.read) or common_depth(a, b) != depth or len(b.chain) != depth or not _row_by_row(a, b, depth):
        return None
    passes = [sums(r.inside(depth)) for r in (a, b)]
    if 0 in passes:
        return None
    one = one_after_the_other(a, b, depth)
    one = replace(one, kernel=with_joined_loops(one.kernel, (*one.sizes, *one.buffers), registers))
    return one if sums(one.inside(depth)) == max(passes) else None


def _local_rows(ir: Module, kernels: list[Kernel]) -> Module:
    """The kernels numbered anew; a temporary that was between kernels and is now inside of one, row by row, is that row's own."""
    temps = {t.name: t for t in ir.temps}
    for k, kernel in enumerate(kernels):
        rows = Rows(kernel, {n: ir.buffer(n) for n in kernel.buffers}, frozenset(s.name for s in ir.sizes))
        inside = [t for t in ir.temps if [t.name in other.buffers for other in kernels] == [j == k for j in range(len(kernels))]]
        inside = [t for t in inside if rows.accesses[t.name] and sum(t.name in other.buffers for other in ir.kernels) > 1]
        inside = [t for t in inside if rows.chain and rows.by_row(t.name, len(rows.chain))]  # a number of no row stays where it is
        if inside:
            kernel = _with_own(rows, inside)
        for t in inside:
            if t.name not in kernel.buffers:
                del temps[t.name]
            elif rows.few is not None:
                temps[t.name] = replace(t, shape=(call("where", rows.few[0], t.shape[0], ZERO), *t.shape[1:]))
        kernels[k] = replace(kernel, name=f"{ir.name}_{k}")
    return replace(ir, temps=tuple(temps.values())).with_kernels(tuple(kernels))


def _with_own(rows: Rows, inside: list[Buffer]) -> Kernel:
    """The kernel with buffers of one row instead of those of all; where few rows are worked off in another way, those of all are left."""
    depth, few = len(rows.chain), rows.few
    names = Names((*rows.kernel.buffers, *defined(rows.kernel.body)))
    own = {t.name: replace(t, name=names.fresh("row"), shape=t.shape[depth:], space="private" if t.shape[depth:] else "register") for t in inside}

    named = _set_once(rows.chain[-1].body) & {name for name, b in own.items() if not b.shape}

    def read(e: Expr) -> Expr | None:
        if e.op != "load" or e.attr not in own:
            return None
        return var(own[e.attr].name, e.dtype) if e.attr in named else load(own[e.attr].name, e.dtype, *e.args[depth:])

    def stored(s: Stmt) -> Block | None:
        if not isinstance(s, Store) or s.buffer not in own:
            return None
        return (Let(own[s.buffer].name, s.value) if s.buffer in named else replace(s, buffer=own[s.buffer].name, index=s.index[depth:]),)

    body = map_block(map_expressions(rows.chain[-1].body, lambda e: rewrite(e, read)), stored)
    body = (*rows.before, *nested(rows.chain, (*(Alloc(b) for name, b in own.items() if name not in named), *body)))
    note = f"kernels that work off the same rows are one: a row of what was {len(own)} tensor{'s' * (len(own) > 1)} in memory stays in the cache"
    kept = rows.kernel.buffers if few else tuple(n for n in rows.kernel.buffers if n not in own)
    return replace(rows.kernel, buffers=kept, body=(If(*few, body),) if few else body, notes=(*rows.kernel.notes, note))


def _set_once(block: Block) -> set[str]:
    """What the block itself stores, and nothing inside of its statements: of a row's numbers, those that never change."""
    once = [s.buffer for s in block if isinstance(s, Store) and not s.combiner]
    stores = [s.buffer for s in statements(block) if isinstance(s, Store)]
    return {name for name in once if stores.count(name) == 1}
