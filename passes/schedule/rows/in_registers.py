"""Columns of a reduction that are a few vectors in all: these are the accumulators.

for j in 0 .. N parallel:                  if N <= 16:
  acc[] = 0                                  acc.lanes[0 .. 4, 0 .. 16] = 0
  for p in 0 .. M reduce:         →          for p.0 in 0 .. M // 4 reduce:
    acc[] add= X[p, j]                         for p.1 in 0 .. 4:
  Y[j] = acc[]                                   acc.lanes[p.1, 0 .. 16] add= X[4·p.0 + p.1, 0 .. 16]   (the first N of them)
                                             …
"""

from __future__ import annotations

from .. import cost, roles
from ..plan import Plan
from .columns_inside import strips


def in_registers(plan: Plan, axis: str, width: int) -> None:
    """Where all of a kept axis is in a few vectors, these are the accumulators: such rows are too short for what begins and ends each, and for elements that are no vector."""
    pieces = shorter(plan, axis, halves(cost.ACCUMULATORS * width, width))
    _several(plan, pieces[-1][0])
    padded(plan, pieces)


def halves(most: int, least: int) -> list[int]:
    """From `most` elements down to `least`, each half of the one before."""
    found = [most]
    while found[-1] > least:
        found.append(found[-1] // 2)
    return found


def shorter(plan: Plan, axis: str, lanes: list[int]) -> list[tuple[str, int]]:
    """Copies of a loop for where it has at most so many iterations, each made of the one before."""
    pieces: list[tuple[str, int]] = []
    for n in lanes:
        before = plan.kernel
        plan.do("short", axis, n)
        axis = plan.added(before)[0]
        pieces.append((axis, n))
    return pieces


def padded(plan: Plan, pieces: list[tuple[str, int]]) -> None:
    """Each of some loops in vectors of accumulators, so many elements side by side, of the last of which the first lanes are there."""
    for piece, lanes in pieces:
        strips(plan, piece, lanes, pad=True)


def _several(plan: Plan, axis: str) -> None:
    """A reduction of rows that are one vector each adds up several of them at a time: one sum would wait for itself."""
    with plan.attempt() as attempt:
        for x in [x for x in roles.innermost(plan.loop(axis).body) if x.kind == "reduce"]:
            plan.do("split", x.axis, cost.ACCUMULATORS, tail="cut")
            plan.do("rfactor", f"{x.axis}.1")
    if not attempt.refused:
        plan.note(f"{cost.ACCUMULATORS} rows at a time have accumulators each")
