"""The plan for blocks: a parallel loop that holds several nests, a contraction among them, and the memory between them.

    for block parallel
      alloc A, D private                           what a thread keeps of them stays in its second cache
      for …: A[…] = …                              vectors, as if this were all of a kernel
      for rows, columns: acc[rows, columns]        register tiles, operands read in place
      for …: Y[…] = … D[…]

Each nest is looked at as a kernel by itself, whose memory is what it shares with the others too, for one thread; the steps that it takes there are taken in the whole.
"""

from __future__ import annotations

from ....ir.expr import const
from ....ir.kernel import Alloc, If, Kernel, Let, Loop
from ....ir.record import replace
from .. import roles
from ..cost import Blocking, blocking
from ..plan import Plan
from ..steps.copies import tile_cost
from ..tree import Facts, local_buffers
from .direct import in_place, tiles

# Rows of a register tile where the sizes decide at run time between those of tiles without packing and a few more, and how many there are at least where they are known.  (Golden Cove, 49 rows 128 deep, 5 tiles of 10
# for 7 of 8: the products 0.87 of the time.)
MORE_ROWS, LEAST_ROWS = 10, 6
THREADS = ("parallel", "region")  # steps that are for all nests together


def blocks(plan: Plan) -> bool:
    """Schedule such a kernel; False (and an unchanged plan) where it is none."""
    form = roles.shape(plan.kernel)
    # a loop that is neither parallel nor a sum goes through pieces: nests stand in it as they do beside it
    nests = [t for s in form.body if isinstance(s, Loop) for t in (s.body if s.kind == "serial" else (s,)) if not isinstance(t, Let)]
    if len(form.chain) != 1 or len(nests) < 2 or not all(isinstance(s, (Let, Alloc, Loop)) for s in (*form.body, *nests)):
        return False
    kept = {n: b for n, b in local_buffers(plan.kernel).items() if any(isinstance(s, Alloc) and s.buffer is b for s in form.body)}
    facts = Facts({**plan.facts.buffers, **kept}, plan.facts.sizes, plan.facts.strict)
    parts = [_Part(plan, nest, facts, frozenset(kept)) for nest in nests if isinstance(nest, Loop)]
    if not any(p.found for p in parts):
        return False
    for p in parts:
        for line in p.steps():
            if line.split()[0] not in THREADS:
                plan.do(*line.split())
        plan.note(*p.plan.notes)
    plan.do("parallel", form.axes[0])
    plan.tried("region")  # memory of a block is allocated once a thread
    return True


class _Part:
    """One of the nests, as a kernel of its own."""

    def __init__(self, plan: Plan, nest: Loop, facts: Facts, kept: frozenset[str]) -> None:
        self.kept = kept
        kernel = Kernel(plan.kernel.name, tuple(facts.buffers), (nest,))
        self.plan = Plan(kernel, facts, replace(plan.target, cores=1, l3=0), plan.options)  # what is stored is read soon, past no cache
        found = roles.contraction(kernel, facts)
        self.found = found if found is not None and found.rows and in_place(self.plan, found) else None

    def steps(self) -> tuple[str, ...]:
        from ..rows.vectors import vectors

        found, plan = self.found, self.plan
        if found is None:
            vectors(plan)
            return plan.kernel.schedule
        # columns of the block's own are as many as a narrow tile has; of all columns a wide one takes more, and rows enough that few are computed in vain at their end
        block = blocking(plan.target, found.accumulator.dtype)
        own = plan.loop(found.column).stop.names - plan.facts.sizes.keys()
        if not own:
            return self.tiled(found, block._replace(direct_rows=block.rows))
        narrow = block._replace(wide_columns=0)
        height = plan.extent(found.rows[-1])
        if height is not None:
            least = min(range(min(LEAST_ROWS, block.rows), block.rows + 1), key=lambda rows: tile_cost(const(height), rows).attr)
            return self.tiled(found, narrow._replace(direct_rows=least))
        (nest,) = plan.kernel.body
        assert isinstance(nest, Loop)
        if block.rows < MORE_ROWS or plan.tried("fit", nest.axis, found.rows[-1], MORE_ROWS, narrow.direct_rows):
            return self.tiled(found, narrow)
        (choice,) = plan.kernel.body
        assert isinstance(choice, If)
        lines = plan.kernel.schedule
        for part, rows in ((choice.body, MORE_ROWS), (choice.orelse, narrow.direct_rows)):
            (copy,) = part
            assert isinstance(copy, Loop)
            each = _Part(plan, copy, plan.facts, self.kept)
            if each.found is not None:
                lines = (*lines, *each.tiled(each.found, narrow._replace(direct_rows=rows)))
            plan.note(*each.plan.notes)
        return lines

    def tiled(self, found: roles.Contraction, block: Blocking) -> tuple[str, ...]:
        tiles(self.plan, found, block, clamps=True)
        self.asked_ahead(found)
        return self.plan.kernel.schedule

    def asked_ahead(self, found: roles.Contraction) -> None:
        """Rows that another kernel has made, some of them in another core's cache, are asked for while the tile before is multiplied.  (Golden Cove, 49 and 16 rows 128 and 256 deep, two threads: the products 0.86 and
        0.90 of the time; one thread the same; rows of the block's own 1.03.)"""
        for buffer in (b for b in found.row_operands if b not in self.kept):
            nests = (loops for loops in self.plan.around_store(found.accumulator.name) if any(x.kind == "reduce" for x in loops))
            for loops in nests:
                deep = next(x.axis for x in loops if x.kind == "reduce")
                if not self.plan.tried("prefetch_rows", buffer, deep, loops[0].axis):
                    break
