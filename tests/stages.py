"""Composites as far as tests of one pass want them."""

from __future__ import annotations

from functools import cache

from luminal.compiler import Settings, compilations
from luminal.ir.graph import Graph


@cache
def graph_after(name: str, text: str) -> Graph:
    """The graph that a pass leaves; several tests of a file look at one."""
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3"))
    return found.run(stop_after=name)
