"""What of a local buffer is filled before a loop: beyond its end the loop may read that, but not what nobody wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from ....ir import polynomial as pl
from ....ir.bounds import Known, Range
from ....ir.expr import ONE, ZERO, Expr, ceildiv, var
from ....ir.graph import Shape
from ....ir.kernel import Alloc, Buffer, Kernel, Loop, Store, statements
from ....ir.places import block_of, path_of
from ....ir.record import replace
from ....ir.simplify import prove_le, simplify
from ....ir.walks import substitute
from ..affine import extent, extreme, inside, upper
from ..tree import Facts, around, walk_paths


def stays_filled(kernel: Kernel, facts: Facts, loop: Loop, factor: int) -> Callable[[Expr], bool]:
    """Whether a load of a local buffer reads what is filled before the loop, where the loop's extent is rounded up to a multiple of the factor."""

    @cache
    def scopes() -> tuple[Known, Known, tuple[Loop, ...]]:
        """Around the loop, at its deepest, and its loops: asked for where a buffer is found filled."""
        path = around(kernel, loop.axis)[:-1]
        inner = [s for s in statements(loop.body) if isinstance(s, Loop) and s.step is ONE]
        known = inside(path, facts.known)
        rounded = simplify(ceildiv(extent(loop), factor) * factor, known)
        bound = upper(rounded, known)
        deep = inside((*path, *inner), facts.known)
        deep = deep.with_ranges({loop.axis: Range(loop.start, loop.start + (rounded if bound is None else bound) - 1)})
        return known, deep, (replace(loop, stop=loop.start + rounded), *inner)

    @cache
    def outside() -> tuple[Loop, ...]:
        return tuple(x for x in around(kernel, loop.axis)[:-1] if isinstance(x, Loop) and x.step is ONE)

    @cache
    def filled(name: str) -> tuple[Buffer, list[Shape]] | None:
        return _filled(kernel, loop, name)

    def stays(n: Expr) -> bool:
        found = None if any(e.buffers for e in n.args) else filled(n.attr)
        if found is None:
            return False
        known, deep, loops = scopes()
        buffer, ends = found

        def reaches(a: Expr | None, b: Expr) -> bool:
            """a <= b, if not for each iteration of the loops around, then for the last one of those that the copy is the same for."""
            if a is None or _at_most(a, b, known):
                return a is not None
            further = _largest(a, [x for x in outside() if x.axis in a.names - b.names])
            return further is not None and further is not a and _at_most(further, b, known)

        if not all(prove_le(ZERO, e, deep) and prove_le(e + 1, length, deep) for e, length in zip(n.args, buffer.shape, strict=True)):
            return False
        tops = [_largest(e, loops) for e in n.args]
        return any(all(reaches(a, b) for a, b in zip(tops, end, strict=True)) for end in ends)

    return stays


def _largest(e: Expr, loops: Iterable[Loop]) -> Expr | None:
    """The largest value of a position inside these loops, the outermost first; None where it is not seen to be monotone."""
    found: Expr | None = e
    for loop in reversed(tuple(loops)):
        found = None if found is None else extreme(found, loop.axis, loop.start, loop.stop - 1, largest=True)
    return found


def _filled(kernel: Kernel, loop: Loop, name: str) -> tuple[Buffer, list[Shape]] | None:
    """Of a local buffer, how far the stores reach that stand before the loop and under no condition: the last position along each axis.  None where there are none."""
    home = path_of(kernel, name)
    if not home or not isinstance(home[-1], Alloc):
        return None
    enclosing = {id(s) for s in around(kernel, loop.axis)}
    ends: list[Shape] = []
    block = block_of(kernel, home)
    for s, inner in walk_paths(block):
        if s is loop:
            break
        if isinstance(s, Store) and s.buffer == name:
            own = [x for x in inner if id(x) not in enclosing]
            loops = [x for x in own if isinstance(x, Loop) and x.step is ONE]
            reach = [_largest(e, loops) for e in s.index]
            if len(loops) == len(own) and None not in reach:
                ends.append(tuple(e for e in reach if e is not None))
    return (home[-1].buffer, ends) if ends else None


def _at_most(a: Expr, b: Expr, known: Known) -> bool:
    """a <= b is proven; whatever is rounded or cut in `a`, where it is the same in `b`."""
    a, b = simplify(a, known), simplify(b, known)
    parts = {n for monomial in pl.poly(a) for n in monomial if n.args}
    named = {n: var(f"part {k}") for k, n in enumerate(sorted(parts, key=pl.key))}
    return prove_le(a, b, known) or prove_le(substitute(a, named), substitute(b, named), known)
