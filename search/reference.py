"""What a run is judged by: the composite's own graph, before any pass, evaluated exactly; the bound of each value.

Values are always those of the composite as it is written, one iteration of a loop at a time.  Their bounds come from samples where loops stay loops (`ir/interpret/nest.py`), of which
each iteration costs ten times as much as its value; where all loops of a composite are tensor algebra, they are those of that algebra, by the rule of each node.  A mistake in raising the
loops is not hidden by that: a kernel made from it is compared with the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ..ir.graph import Graph
from ..ir.interpret.graph import evaluate
from ..ir.interpret.judge import Bounded, CheckFault, IndexFault
from .operations import work_of

# Operations up to which a loop nest is run as it was written; an iteration takes about a microsecond.  A longer one (hours) is judged by what it was raised to; that raising keeps the
# meaning is tested at small sizes.
INTERPRETED = 10_000_000


def reference(graph: Graph, inputs: Mapping[str, Any], sizes: Mapping[str, int], written: Graph | None = None) -> dict[str, Bounded]:
    """Every output of the composite, and how far from it a right kernel may be; under --fast, where `written` is, as far as the less accurate operations in that
    may be.  Raises IndexFault, CheckFault."""
    exact = _reference(graph, inputs, sizes)
    if written is None:
        return exact
    from ..ir.quotients import loosened

    admitted = evaluate(loosened(written), inputs, sizes)
    return {name: Bounded(v.value, admitted[name].bound, v.ill | admitted[name].ill) for name, v in exact.items()}


def _reference(graph: Graph, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Bounded]:
    algebra = _algebra(graph)
    if algebra is None:
        return evaluate(graph, inputs, sizes)
    if work_of(algebra, sizes)[0] > INTERPRETED:
        return evaluate(algebra, inputs, sizes)
    written = evaluate(graph, inputs, sizes, bounds=False)
    try:
        bounded = evaluate(algebra, inputs, sizes)
    except (IndexFault, CheckFault):
        return evaluate(graph, inputs, sizes)
    return {name: Bounded(v.value, bounded[name].bound, bounded[name].ill) for name, v in written.items()}


@lru_cache(maxsize=16)  # of the sizes of one composite, which follow each other
def _algebra(graph: Graph) -> Graph | None:
    """The graph with its loops raised; None where it has none, or where some stay loops."""
    if not has_loops(graph):
        return None
    from ..ir.target import Options
    from ..passes.raise_loops import tensor_algebra

    raised = tensor_algebra(graph, Options())
    return None if has_loops(raised) else raised


def has_loops(graph: Graph) -> bool:
    """Whether some loops of the composite stay loops: what they do is not counted, and they are run as they stand."""
    return any(n.op == "nest" for n in graph.nodes())


def asked(opinion: Graph, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Bounded] | str:
    """What the second opinion says, evaluated exactly too, or why it says nothing."""
    try:
        return reference(opinion, inputs, sizes)
    except (IndexFault, CheckFault) as fault:
        return str(fault)


def where_needed(simplified: Graph, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Bounded] | None:
    """What a run that reported no index is judged by although the composite's own graph has one outside: the values after the passes on the graph, if none is
    outside there.  An index is checked where its element is needed: what simplifies away (`x - x`) is not computed, and its check may vanish."""
    try:
        return evaluate(simplified, inputs, sizes)
    except (IndexFault, CheckFault):
        return None


__all__ = ["asked", "reference", "where_needed"]
