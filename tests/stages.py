"""Composites as far as tests of one pass want them."""

from __future__ import annotations

from luminal.compiler import Settings, compilations
from luminal.ir.graph import Graph


def graph_after(name: str, text: str) -> Graph:
    """The graph that a pass leaves."""
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3"))
    return found.run(stop_after=name)
