"""The step that leaves out sums of which nothing is read: `skip`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from ....ir.bounds import fact
from ....ir.conditions import conjuncts
from ....ir.expr import TRUE, ZERO, Expr, both, call, const, var, where
from ....ir.kernel import Alloc, Block, Buffer, If, Kernel, Loop, Store, statements
from ....ir.polynomial import expr
from ....ir.record import replace
from ....ir.simplify import simplify
from ....ir.walks import leaves, substitute
from ..affine import extreme
from ..tree import Facts, StepError, around, local_buffers, replace_loop


def skip(kernel: Kernel, facts: Facts, depth: str, end: int = 0) -> Kernel:
    """Leave out the loop over `depth` in tiles of which no sum is read: where a mask of the result holds nowhere in a tile.

        for i.0:                                              for i.0:
          for j.0:                                              for j.0:
            acc[…] = 0                                            acc[…] = 0
            for p in 0 .. K: acc[…] += …                  →       if 32·j.0 <= 14·i.0 + 13:
                                                                    for p in 0 .. K: acc[…] += …
            for i.1 in 0 .. 14:                                   for i.1 in 0 .. 14:
              for j.1 in 0 .. 32:                                   …
                C[…] = where(32·j.0 + j.1 <= 14·i.0 + i.1, acc[i.1, j.1], 0)

    All that reads the sums behind the loop chooses them under a condition on positions, along the axes of the tile and outside of it, or copies them: into a tile that is read so, or to where they are
    kept until the same tile goes on with them.

    With end=1 that is where the loop ends: for p in 0 .. where(32·j.0 <= 14·i.0 + 13, K, 0).
    """
    *outside, loop = around(kernel, depth)
    scope = outside[-1] if outside else None
    sums = {s.buffer for s in statements(loop.blocks()[0]) if isinstance(s, Store)}
    if not isinstance(scope, Loop) or len(sums) != 1:
        raise StepError(f"skip: `{depth}` stands in no loop, or does not add up one tile")
    (tile,) = sums
    if not any(isinstance(s, Alloc) and s.buffer.name == tile for s in scope.body):
        raise StepError(f"skip: `{tile}` is no tile that each iteration around `{depth}` has for itself")
    wanted = _Tile(kernel, scope, {s.axis for s in outside if isinstance(s, Loop)}).wanted(tile, tuple(s for s in scope.body if s is not loop))
    if wanted is TRUE:
        raise StepError(f"skip: something of each tile of `{tile}` is read")
    return replace_loop(kernel, depth, lambda x: (replace(x, stop=where(wanted, x.stop, x.start)) if end else If(wanted, (x,)),))


def is_masked(kernel: Kernel, tile: str, *axes: str) -> bool:
    """Whether what becomes of a sum chooses it under a condition that ties these axes to each other."""
    values = (s.value for s in statements(kernel.body) if isinstance(s, Store) and s.buffer != tile)
    return any(set(axes) <= part.names for v in values for _, given in _reads(v, tile) for c in given for part in conjuncts(c) if fact(part))


class _Tile:
    """The sums of a tile, and what they are copied into: under which conditions on the axes outside of it something of them is read."""

    def __init__(self, kernel: Kernel, scope: Loop, fixed: set[str]) -> None:
        self.kernel, self.fixed = kernel, fixed
        self.own = {s.buffer.name for s in statements(scope.body) if isinstance(s, Alloc)}
        self.buffers: dict[str, Buffer] = local_buffers(kernel)

    def wanted(self, tile: str, behind: Block) -> Expr:
        found: dict[Expr, None] = {}
        tiles = [tile]
        for t in tiles:  # it grows
            for s in statements(behind):
                copied = s if isinstance(s, Store) and not s.combiner and s.value.op == "load" and s.value.attr == t else None
                if copied is not None and copied.buffer in self.own:
                    tiles += [copied.buffer] if copied.buffer not in tiles else []
                elif copied is None or not self._comes_back(copied, t):
                    found |= dict.fromkeys(self._possible(n, c) for x in s.expressions() for n, c in _reads(x, t))
        return TRUE if TRUE in found or not found else simplify(reduce(lambda a, b: call("bit_or", a, b), found))

    def _comes_back(self, kept: Store, tile: str) -> bool:
        """Whether what is stored is read by the same tile alone, which goes on with it."""
        stores = [s for s in statements(self.kernel.body) if isinstance(s, Store)]
        loads = [(s, n) for s in statements(self.kernel.body) for e in s.expressions() for n in leaves(e, "load") if n.attr == kept.buffer]
        back = [s for s in stores if s.value.op == "load" and s.value.attr == kept.buffer and s.buffer == tile and not s.combiner]
        if kept.buffer not in self.buffers or sum(s.buffer == kept.buffer for s in stores) != 1 or len(loads) != len(back):
            return False

        def place(at: tuple[Expr, ...], inner: tuple[Expr, ...]) -> tuple[Expr, ...]:
            return tuple(substitute(e, {x: var(f"~{k}") for k, x in enumerate(inner)}) for e in at)

        return all(place(s.value.args, s.index) == place(kept.index, kept.value.args) for s in back)

    def _possible(self, n: Expr, conditions: tuple[Expr, ...]) -> Expr:
        """Where they may hold for some element of a tile."""
        inner = {x: extent.attr - 1 for x, extent in zip(n.args, self.buffers[n.attr].shape, strict=True) if x.op == "var" and extent.is_const}
        inner = {x: most for x, most in inner.items() if x.attr not in self.fixed}
        parts = [q for c in conditions for part in conjuncts(c) for p in fact(part) if (q := self._most(expr(p), inner)) is not None]
        return both(*(ZERO.le(p) for p in parts)) or TRUE

    def _most(self, e: Expr, inner: dict[Expr, int]) -> Expr | None:
        """The most that it is inside of a tile; None where it is the same in all of one, or that is not known."""
        moving = [x for x in inner if x.attr in e.names]
        for x in moving:
            most = extreme(e, x.attr, ZERO, const(inner[x]), largest=True)
            if most is None:
                return None
            e = most
        return e if moving and not e.buffers and all(v.attr in self.fixed for v in leaves(e, "var")) else None


def _reads(e: Expr, buffer: str) -> Iterator[tuple[Expr, tuple[Expr, ...]]]:
    """Where an expression reads the buffer, each with the choices that it stands in."""
    stack: list[tuple[Expr, tuple[Expr, ...]]] = [(e, ())]
    while stack:
        n, given = stack.pop()
        if buffer not in n.buffers:
            continue
        if n.op == "load" and n.attr == buffer:
            yield n, given
        if n.op == "where":
            condition, yes, no = n.args
            stack += [(condition, given), (yes, (*given, condition)), (no, given)]
        else:
            stack += [(a, given) for a in n.args]
