"""graph → graph, under --fast: filters of a few taps by fewer multiplications, on tiles of their results (`ir/filters.py` says how, and what it may cost in accuracy)."""

from __future__ import annotations

from ..ir.graph import Graph
from ..ir.target import Options, Target


def shorten_filters(ir: Graph, target: Target, options: Options) -> Graph:
    if not options.fast or target.gpu:  # what it costs was measured where caches are
        return ir
    from ..ir.filters import shortened

    return shortened(ir)
