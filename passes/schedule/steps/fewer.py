"""The step that leaves out the end of tiles of which nothing is read there: `fewer`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import pairwise
from typing import NamedTuple

from ....ir.bounds import fact
from ....ir.conditions import conjuncts
from ....ir.expr import FALSE, ONE, ZERO, Expr, both, call, var
from ....ir.kernel import Alloc, Block, If, Kernel, Loop, Prefetch, Stmt, Store, map_block, reads as read_in, statements
from ....ir.polynomial import Poly, atoms, expr, is_constant, linear, plus, shifted
from ....ir.record import replace
from ....ir.simplify import simplify
from ....ir.walks import leaves
from ..affine import constant_extent, inside
from ..tree import Facts, Never, StepError, around, copy, local_buffers, names_taken, replace_loop, walk_paths
from .skips import comes_back, reads


def fewer(kernel: Kernel, facts: Facts, depth: str, axis: str, most: int) -> Kernel:
    """A copy of the loop over `depth` for tiles of which no sum is read from position `most` of an axis on: it adds up those before.

        for j.0:                                              for j.0:
          acc[…] = 0                                            acc[…] = 0
          for p in 0 .. K:                                      if 32·j.0 + 16 < N:
            for i.1 in 0 .. 14:                                   …                                  as it was
              for j.1 in 0 .. 32:                             else:
                acc[i.1, j.1] += …                  →             for p.b in 0 .. K:
          for i.1 in 0 .. 14:                                       for i.1.b in 0 .. 14:
            for j.1 in 0 .. 32:                                       for j.1.b in 0 .. 16:
              if 32·j.0 + j.1 < N: C[…] = acc[i.1, j.1]                 acc[i.1.b, j.1.b] += …
                                                                for i.1 in 0 .. 14:
                                                                  …

    All that reads the sums behind the loop does so under conditions on positions, in an `if` or where a loop ends, along the axes of the tile and outside of it; or copies them, into a tile that is read so.  So a
    last panel of which most would be padding takes half of its time.  What the loop asks for ahead of time is asked for before the last panel, and not in the copy.
    """
    *outside, loop = around(kernel, depth)
    top: Stmt = loop
    while outside and isinstance(outside[-1], If):  # tiles that end along another axis have a copy already
        top = outside.pop()
    scope = outside[-1] if outside else None
    stores = [s for s in statements((loop,)) if isinstance(s, Store)]
    if not isinstance(scope, Loop) or len(stores) != 1 or any(n.attr == stores[0].buffer for n in read_in((loop,))):
        raise StepError(f"fewer: `{depth}` stands in no loop, or does not add up one tile")
    (sums,) = stores
    if not any(isinstance(s, Alloc) and s.buffer.name == sums.buffer for s in scope.body):
        raise StepError(f"fewer: `{sums.buffer}` is no tile that each iteration around `{depth}` has for itself")
    cut = next((s for s in statements((loop,)) if isinstance(s, Loop) and s.axis == axis), None)
    along = [k for k, e in enumerate(sums.index) if axis in e.names]
    length = constant_extent(cut) if cut is not None else None
    if cut is None or cut.start is not ZERO or length is None or not 0 < most < length or [sums.index[k] for k in along] != [var(axis)]:
        raise StepError(f"fewer: `{axis}` is no axis of `{sums.buffer}` that has more than {most} positions")
    asked = _Asked(kernel, scope, {s.axis for s in outside if isinstance(s, Loop)})
    wanted = asked.wanted(_End(sums.buffer, along[0], most), scope.body[scope.body.index(top) + 1 :])
    if wanted is None:
        raise StepError(f"fewer: something is read of each tile of `{sums.buffer}` from {most} of `{axis}` on")
    if simplify(wanted, inside(outside, facts.known)).is_const:
        raise Never(f"fewer: all tiles of `{sums.buffer}` are read as far along `{axis}`, or none")

    def shorter(s: Stmt) -> Block | None:
        return () if isinstance(s, Prefetch) else (replace(s, stop=cut.start + most),) if s is cut else None

    few = copy(map_block((loop,), shorter), names_taken(kernel))
    return replace_loop(kernel, depth, lambda x: (If(wanted, (x,), few),))


class _End(NamedTuple):
    """The elements of a tile from a position of one of its axes on."""

    tile: str
    axis: int
    begin: int


class _Asked:
    """Under which conditions on the axes outside of a tile something of its end is read."""

    def __init__(self, kernel: Kernel, scope: Loop, fixed: set[str]) -> None:
        self.kernel, self.fixed = kernel, fixed
        self.own = {s.buffer.name for s in statements(scope.body) if isinstance(s, Alloc)}
        self.buffers = local_buffers(kernel)

    def wanted(self, end: _End, behind: Block) -> Expr | None:
        """One that is no narrower; None where nobody knows of one."""
        moving: list[list[Poly]] = []  # what must be at least 0, for each place that reads something
        others: list[list[Poly]] = []
        ends = [end]
        for e in ends:  # it grows
            for s, path in walk_paths(behind):
                copied = self._copied(s, e)
                if copied is not None:
                    ends += [copied] if copied not in ends else []
                    continue
                if isinstance(s, Store) and s.value.op == "load" and s.value.attr == e.tile and comes_back(self.kernel, s, e.tile):
                    continue
                for n, given in ((n, g) for x in s.expressions() for n, g in reads(x, e.tile)):
                    most = [self._most(p, n, e) for c in (*given, *_conditions((*path, s))) for p in _parts(c)]
                    found = [p for p, moves in most if moves and p is not None and not (is_constant(p) and p.get((), 0) >= 0)]
                    (moving if found else others).append(found or [p for p, _ in most if p is not None])
        if not moving or not all(any(all(any(_implies(p, q) for p in o) for q in m) for m in moving) for o in others):
            return None
        conditions = dict.fromkeys(both(*(simplify(ZERO.le(expr(p))) for p in m)) or FALSE for m in moving)
        return simplify(reduce(lambda a, b: call("bit_or", a, b), conditions))

    def _copied(self, s: Stmt, end: _End) -> _End | None:
        """The end of the tile that a statement copies this one into, element by element."""
        if not isinstance(s, Store) or s.combiner or s.value.op != "load" or s.value.attr != end.tile or s.buffer not in self.own:
            return None
        places = [k for k, e in enumerate(s.index) if e is s.value.args[end.axis]]
        return _End(s.buffer, places[0], end.begin) if len(places) == 1 and s.value.args[end.axis].op == "var" else None

    def _most(self, p: Poly, n: Expr, end: _End) -> tuple[Poly | None, bool]:
        """The most that it is where the end of a tile is read, and whether it moves along that; None where that is not known."""
        moves = False
        for k, (x, extent) in enumerate(zip(n.args, self.buffers[end.tile].shape, strict=True)):
            if x.op != "var" or x.attr in self.fixed or x not in atoms(p):
                continue
            found = linear(p, x)
            if found is None or not is_constant(found[0]) or not extent.is_const:
                return None, False
            factor = found[0].get((), 0)
            low = end.begin if k == end.axis else 0
            moves = moves or k == end.axis
            p = shifted(found[1], factor * (extent.attr - 1 if factor > 0 else low))
        known = all(not a.buffers and all(v.attr in self.fixed for v in leaves(a, "var")) for a in atoms(p))
        return (p if known else None), moves and known


def _conditions(path: Sequence[Stmt]) -> Iterator[Expr]:
    """What holds where the last of these runs, which stands inside of the others."""
    for s, below in pairwise(path):
        if isinstance(s, If) and any(t is below for t in s.body):
            yield s.condition
        elif isinstance(s, Loop) and s.step is ONE and s.kind != "vector":
            yield from (var(s.axis).lt(e) for e in (s.stop.args if s.stop.op == "min" else (s.stop,)))


def _parts(condition: Expr) -> Iterator[Poly]:
    for part in conjuncts(condition):
        yield from fact(part)


def _implies(p: Poly, q: Poly) -> bool:
    """Whether q is at least 0 wherever p is."""
    rest = plus(q, p, -1)
    return is_constant(rest) and rest.get((), 0) >= 0
