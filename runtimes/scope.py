"""What names stand for where a statement is rendered."""

from __future__ import annotations

from ..ir.dtypes import DType
from ..ir.expr import Expr
from ..ir.record import record

Key = tuple[str, str]  # size | var | buffer, and the name


@record
class Info:
    """What a name stands for in the function that is being rendered."""

    text: str
    dtype: DType
    position: bool = False  # an i64 built of sizes and positions only
    natural: bool = False  # never negative
    mask: int = 0  # a vector of bools: bits of its mask's lanes
    swizzle: int = 0  # of an array (`ir/swizzle.py`)


class Scope:
    """The names that are declared.  `meaning` goes up whenever a name comes to stand for something else than before, so that what was rendered until then is no longer what it
    would be: names leave and come back with every loop, and nearly always as what they were."""

    def __init__(self) -> None:
        self.meaning = 0
        self.positions: dict[Expr, bool] = {}  # whether an expression is one, as long as `meaning` is the same
        self.naturals: dict[Expr, bool] = {}
        self._held: dict[Key, Info] = {}
        self._ever: dict[Key, Info] = {}  # also those that have left

    def get(self, key: Key) -> Info | None:
        return self._held.get(key)

    def number(self, space: str, name: str) -> Info | None:
        """A size or a variable: of this space, or else of the other one."""
        return self._held.get((space, name)) or self._held.get((_OTHER[space], name))

    def declare(self, key: Key, info: Info) -> None:
        known = self._ever.get(key)
        if known != info:
            if known is not None or self._other(key) in self._ever:
                self._changed()
            self._ever[key] = info
        self._held[key] = info

    def forget(self, key: Key) -> None:
        """The name leaves; one of the other space that it hid is seen again."""
        if self._held.pop(key, None) is not None and self._other(key) in self._held:
            self._changed()

    def _changed(self) -> None:
        self.meaning += 1
        self.positions, self.naturals = {}, {}

    @staticmethod
    def _other(key: Key) -> Key:
        return _OTHER.get(key[0], ""), key[1]


_OTHER = {"size": "var", "var": "size"}

__all__ = ["Info", "Key", "Scope"]
