"""Whether what is read where it is updated stays safe."""

from __future__ import annotations

from ...ir.kernel import Kernel, written
from ...ir.verify.body import Body
from ...ir.verify.races import races
from .tree import Facts, StepError, reads


def stays_in_place(before: Kernel, after: Kernel, facts: Facts) -> None:
    """What is read where it is updated must still be seen to be safe: pieces of a loop are statements of their own, which a condition may no longer hold apart.  StepError."""
    if written(before.body).isdisjoint({n.attr for n in reads(before.body)} & set(before.buffers)):
        return
    laid = Body(after.name, after.body, facts.buffers, {}, frozenset(facts.sizes), frozenset(), False)
    found = next(races(laid), None)
    if found is not None:
        raise StepError(found)
