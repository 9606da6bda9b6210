"""The functions that stand beside an entry: how much workspace a call takes, and what its derived sizes are.

Both are asked before anybody has checked the sizes, so their formulas stop at INT64_MAX instead of overflowing.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..ir.dtypes import u8
from ..ir.expr import size
from ..ir.program import Program
from .describe import formulas
from .render import Renderer
from .signature import SATURATING, scratch, size_parameters


class Workspace(NamedTuple):
    """`int64_t ENTRY_workspace(sizes)`: -1 where a size is refused."""

    sizes: list[str]  # parameters
    names: list[str]  # their names
    reserve: str  # the helper that adds one piece
    pieces: list[tuple[str, str, int]]  # name for a comment, elements, bytes of one


class Shape(NamedTuple):
    """`int32_t ENTRY_shape(sizes, int64_t *derived…)`."""

    sizes: list[str]  # parameters
    outputs: list[str]  # parameters
    formulas: list[tuple[str, str]]  # name of an output, its value
    words: list[str]  # `name = formula`, for people


def entry_sizes(program: Program, renderer: Renderer) -> tuple[list[str], list[str]]:
    """Names and parameters of the free sizes in the open scope, which is the entry's."""
    names = [renderer.expressions.text(size(s.name)) for s in program.sizes]
    return names, [renderer.parameter(p, n) for p, n in zip(size_parameters(program), names, strict=True)]


def workspace(program: Program, renderer: Renderer) -> Workspace | None:
    """None where an entry has no temporaries."""
    pieces = scratch(program.entry)
    if not pieces:
        return None
    names, sizes = entry_sizes(program, renderer)
    saturating = renderer.expressions.respelled(SATURATING)
    counts = [(re.sub(r"[^A-Za-z0-9_.]", "_", name), saturating.text(count), width) for name, count, width in pieces]
    return Workspace(sizes, names, renderer.helpers.need("reserve", u8), counts)


def shape(program: Program, renderer: Renderer) -> Shape | None:
    """None where no size is derived."""
    if not program.derived:
        return None
    _, sizes = entry_sizes(program, renderer)
    saturating = renderer.expressions.respelled(SATURATING)
    outputs = [renderer.local_name(f"out_{name}") for name, _ in program.derived]
    return Shape(
        sizes,
        [f"int64_t *{o}" for o in outputs],
        [(o, saturating.text(e)) for o, (_, e) in zip(outputs, program.derived, strict=True)],
        formulas(program, renderer.expressions),
    )
