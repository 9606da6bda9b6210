"""The axis along which lanes lie: what varies along it, and by how much."""

from __future__ import annotations

from typing import Final

from ....ir.expr import INDEX, Expr, const, var
from ....ir.program import Define, For, StoreTo
from ....ir.walks import always, substitute
from ..affine import slope

ONE_STEP: Final = const(1, INDEX)
TWO_STEPS: Final = const(2, INDEX)


class Serial(Exception):
    """This loop has no vector form."""


class Axis:
    """The variable of a vector loop.  `base` is what it is in lane 0."""

    def __init__(self, loop: For, lanes: int, base: Expr) -> None:
        self.loop, self.lanes, self.base = loop, lanes, base
        self.wide: set[str] = set()  # names with a value a lane: lets, variables and arrays of the body
        # of addresses, which accesses share and are asked about several times
        self._slopes: dict[Expr, Expr | None] = {}
        self._at_base: dict[Expr, Expr] = {}
        self._loaded: dict[str, dict[Expr, None]] | None = None

    def varies(self, e: Expr) -> bool:
        return self.loop.var in e.names or not (self.wide.isdisjoint(e.names) and self.wide.isdisjoint(e.buffers))

    def slope(self, address: Expr) -> Expr | None:
        if address not in self._slopes:  # what it mentions is wide from before on, or never
            self._slopes[address] = slope(address, var(self.loop.var), self.varies)
        return self._slopes[address]

    def loaded(self) -> dict[str, dict[Expr, None]]:
        """By buffer, the addresses that the loop's own statements load in any case."""
        if self._loaded is None:
            self._loaded = {}
            for s in self.loop.body:
                if isinstance(s, (Define, StoreTo)):
                    for n in always(*s.expressions()):
                        if n.op == "load":
                            self._loaded.setdefault(n.attr, {})[n.args[0]] = None
        return self._loaded

    def at_base(self, e: Expr) -> Expr:
        found = self._at_base.get(e)
        if found is None:
            found = self._at_base[e] = substitute(e, {var(self.loop.var): self.base})
        return found
