"""Where statements stand in a kernel: places and paths.

The *place* of a statement is where the one that encloses it is (None: it stands in the kernel itself), and its number there.  That says nothing of the statements themselves, so it holds in every
kernel of the same form: a step that changes a part of a kernel carries over the places of the rest.  A *path* is the statements on the way to one, the outermost first.  The *homes* of a kernel
are the places of the statements that introduce an axis, a let or a local buffer, by name; where two introduce the same one, of the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from .kernel import Alloc, Block, Homes, If, Kernel, Let, Loop, Place, Stmt, Store
from .statement import Around


def homes_in(kernel: Kernel) -> Homes:
    found = kernel.homes
    if found is None:
        places: dict[str, Place] = {}
        settle(kernel.body, None, places)
        found = kernel.homes = places
    return found


def settle(block: Block, outer: Place | None, homes: dict[str, Place], first: int = 0) -> None:
    """Enter where everything is in a block whose statements stand in the one at `outer`, numbered from `first` on."""
    k = first - 1
    for s in block:
        k += 1
        if isinstance(s, Store):
            continue
        if isinstance(s, Loop):
            place = outer, k
            homes.setdefault(s.axis, place)
            settle(s.body, place, homes)
        elif isinstance(s, Alloc):
            homes.setdefault(s.buffer.name, (outer, k))
        elif isinstance(s, Let):
            homes.setdefault(s.name, (outer, k))
        elif isinstance(s, Around):
            settle(inner(s), (outer, k), homes)


def unsettle(block: Block, homes: dict[str, Place]) -> None:
    """Forget where everything in a block is."""
    for s in block:
        if isinstance(s, Store):
            continue
        if isinstance(s, Loop):
            homes.pop(s.axis, None)
            unsettle(s.body, homes)
        elif isinstance(s, Alloc):
            homes.pop(s.buffer.name, None)
        elif isinstance(s, Let):
            homes.pop(s.name, None)
        elif isinstance(s, Around):
            unsettle(inner(s), homes)


def inner(s: Stmt) -> Block:
    """The statements that a statement holds; of an `if`, those of its `else` behind the others."""
    if isinstance(s, If):
        return (*s.body, *s.orelse) if s.orelse else s.body
    return s.body if isinstance(s, Around) else ()


def block_of(kernel: Kernel, path: Sequence[Stmt]) -> Block:
    """The block in which the last statement of a path stands."""
    return kernel.body if len(path) == 1 else next(b for b in path[-2].blocks() if any(s is path[-1] for s in b))


def path_of(kernel: Kernel, name: str) -> tuple[Stmt, ...]:
    """What encloses the statement that introduces a name, outermost first, that statement last; empty where there is none."""
    found = kernel.paths.get(name)
    if found is None:
        place = (kernel.homes or homes_in(kernel)).get(name)
        found = kernel.paths[name] = () if place is None else path_at(kernel.body, numbers(place))
    return found


def numbers(place: Place | None) -> list[int]:
    """Of the statements on the way to a place, each in the one before: they order places as a walk meets them."""
    found: list[int] = []
    while place is not None:
        place, k = place
        found.append(k)
    found.reverse()
    return found


def path_at(block: Block, at: list[int]) -> tuple[Stmt, ...]:
    """The statements with these numbers, each in the one before."""
    path: list[Stmt] = []
    for k in at:
        s = block[k]
        path.append(s)
        block = s.body if isinstance(s, Loop) else inner(s)
    return tuple(path)


__all__ = ["Homes", "Place", "block_of", "homes_in", "inner", "numbers", "path_at", "path_of", "settle", "unsettle"]
