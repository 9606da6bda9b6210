"""What statements have in common, of kernels and of programs."""

from __future__ import annotations

from typing import Any, ClassVar


class Statement:
    """Immutable, as the type checker holds; equal by value, wherever in the text it stands.  Not a `record`: classes written out become structures where they are compiled ahead of time
    (`compile_core.py`), and passes do little else than make statements and look at them."""

    __match_args__: ClassVar[tuple[str, ...]] = ()  # what one is made of, in the order of `__init__`
    __slots__ = ()

    def compared(self) -> tuple[Any, ...]:
        """What tells it from others of its class."""
        return tuple([getattr(self, name) for name in type(self).__match_args__ if name != "span"])

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Statement) and type(self) is type(other) and self.compared() == other.compared())

    def __hash__(self) -> int:
        return hash(self.compared())

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in type(self).__match_args__])})"
