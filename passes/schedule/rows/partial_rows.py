"""Rows of a few elements: what a loop over rows that stores several of each means for its vectors, and which rows are vectors of their own; and rows of which a mask leaves a part."""

from __future__ import annotations

from ....ir.kernel import Block, Buffer, Let, Loop, Store, statements
from ....ir.walks import postorder
from .. import cost
from ..affine import stride
from ..plan import Plan
from ..roles import innermost, shape
from ..steps.tables import cost as evaluation


def stored_in_part(plan: Plan, axis: str, width: int) -> bool:
    """Whether several elements of the same row are stored, but not all, or more than there are registers for: neither do vectors lie in memory, nor are there columns of them."""
    rows: dict[tuple[Buffer, int], int] = {}
    for s in statements(plan.loop(axis).body):
        if isinstance(s, Store) and (buffer := plan.facts.buffers.get(s.buffer)) is not None:
            step = stride(buffer.address(s.index), axis)
            if step is not None and step > 1:
                rows[buffer, step] = rows.get((buffer, step), 0) + 1
    return any(n > 1 and not (n == step and cost.columns_in_lanes(n, b.dtype.bytes, width)) for (b, step), n in rows.items())


def computed_long(body: Block) -> bool:
    """Whether rows are computed from so many operations for each element stored that their columns are worth vectors of less than a register."""
    values = [s.value for s in statements(body) if isinstance(s, (Let, Store))]
    work = sum(bool(n.args) and n.op != "load" and not n.is_position for n in postorder(*values))
    return work >= cost.LONG_ROWS * sum(isinstance(s, Store) for s in statements(body))


def own_vector(body: Block, extent: int, width: int) -> int:
    """The lanes of a vector of which the first ones hold all of such a row, less than one of the machine's; 0 where it is no vector.

    Of the shortest, C compilers make vectors along the rows (a bias on 10⁵ rows of 3 floats is twice as fast so), but of no polynomial.
    """
    dear = any(evaluation(e) > cost.LONG_ROWS for s in statements(body) for e in s.expressions())
    return min(width, max(cost.OWN_VECTOR, 1 << (extent - 1).bit_length())) if extent >= cost.OWN_VECTOR or (extent > 1 and dear) else 0


def confined(plan: Plan, loops: list[Loop]) -> list[Loop]:
    """The innermost loops, of which sums begin and end where a mask of the row does; but for those of fewer terms than a vector of floats has lanes, which are written out."""
    few = plan.target.vector_bytes // 4
    found = [x.axis for x in loops if not 0 < (plan.at_most(x.axis) or 0) <= few and not plan.tried("confine", x.axis)]
    plan.note(*(f"`{axis}` begins and ends where a mask of the row does" for axis in found))
    return innermost(shape(plan.kernel).body) if found else loops
