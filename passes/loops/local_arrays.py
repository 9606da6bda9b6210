"""Local arrays of symbolic sizes, where the target has no memory for them that grows at run time (a GPU's threads).

    for i in 0 .. M parallel:                    result w: f32[M, N]
      alloc w: f32[N] private                    for i in 0 .. M parallel:
      … w[j] …                            →        … w[i, j] …

The array becomes a tensor of the nest, with an axis for each parallel loop around it.  A loop whose number of trips depends on other loops or on data
stays in order instead.
"""

from __future__ import annotations

from ...ir.expr import Expr, maximum, var
from ...ir.kernel import Alloc, Block, Buffer, Loop, Nest, map_block, statements
from ...ir.record import replace
from ...ir.renaming import at_places
from ...ir.walks import leaves


def made_global(nest: Nest) -> Nest:
    """The nest with its local arrays of symbolic sizes among the results."""
    found: dict[str, tuple[Buffer, tuple[Loop, ...]]] = {}
    serial: set[str] = set()
    _find(nest.body, (), found, serial)
    if not found:
        return nest

    def place(name: str, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (*(var(s.axis) - s.start for s in found[name][1]), *index)

    def statement(s: object) -> Block | None:
        match s:
            case Alloc() if s.buffer.name in found:
                return ()
            case Loop() if s.axis in serial:
                return (replace(s, kind="serial"),)
            case _:
                return None

    results = (replace(b, shape=(*(maximum(s.stop - s.start, 0) for s in around), *b.shape), space="global") for b, around in found.values())
    body = map_block(at_places(nest.body, found, place), statement)
    return replace(nest, results=(*nest.results, *results), body=body)


def _find(block: Block, around: tuple[Loop, ...], found: dict[str, tuple[Buffer, tuple[Loop, ...]]], serial: set[str]) -> None:
    for s in block:
        match s:
            case Alloc() if any(not e.is_const for e in s.buffer.shape):
                found[s.buffer.name] = (s.buffer, around)
            case Loop() if s.kind == "parallel":
                plain = not any(leaves(e, kind) for e in (s.start, s.stop) for kind in ("var", "load"))
                local = any(isinstance(t, Alloc) and any(not e.is_const for e in t.buffer.shape) for t in statements(s.body))
                if local and not plain:
                    serial.add(s.axis)
                _find(s.body, (*around, s) if plain else around, found, serial)
            case _:
                for inside in s.blocks():
                    _find(inside, around, found, serial)


__all__ = ["made_global"]
