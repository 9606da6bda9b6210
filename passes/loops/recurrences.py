"""Recurrences through memory that are running sums.

    for i in 1 .. N: X[i] = X[i - 1] ⊕ e        X is an inclusive scan of X[0], e, e, … over i

⊕ is the operator of a combiner, e reads of X at most the element that is stored, no other statement of the loop stores into X, and the loop's neighbours have as many trips in every iteration of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.expr import load
from ...ir.kernel import identity_of
from ...ir.record import replace
from ...ir.walks import postorder, substitute
from .accumulations import combined, mentions, peeled
from .loop_records import Read, Scan, stamped

if TYPE_CHECKING:
    from .loop_events import Events


def recurrences(found: Events) -> None:
    """Say of such events that their value is a scan."""
    for k, e in enumerate(found.events):
        own = stamped(e.buffer, k)
        if e.guard is not None or not any(n.attr == own for n in found.loads):
            continue
        for t in e.loops:
            previous = tuple(substitute(i, {t.var: t.var - 1}) for i in e.index)
            n = load(own, e.value.dtype, *previous)
            if n not in found.loads or previous == e.index or any(mentions(other.count, t.var) for other in e.loops):
                continue
            if any(w is not e and w.buffer == e.buffer and any(x.var is t.var for x in w.loops) for w in found.events):
                continue  # the iteration before has stored another value there, or may have
            taken = peeled(e.value, n)
            if taken is None or (e.combiner and taken[0] not in ("", e.combiner)) or not (taken[0] or e.combiner):
                continue
            combiner, body = taken[0] or e.combiner, taken[1]
            if e.combiner:
                old = load(own, e.value.dtype, *e.index)
                body = combined(combiner, old, body) if taken[0] else old
                found.loads.setdefault(old, {})[Read(e.buffer, k, e.index, e.loops, None)] = None
            if any(x.attr == own and x.args != e.index for x in postorder(body) if x.op == "load"):
                continue
            others = tuple(other for other in e.loops if other is not t)
            v = found.fresh(e.value.dtype)
            found.defined[v] = Scan(combiner, v.dtype, t, identity_of(combiner, v.dtype), body, None, others, True)
            found.events[k] = replace(e, value=v, combiner="", previous=found.shown(e.buffer, previous))
            break
