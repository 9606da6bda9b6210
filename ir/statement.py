"""What the levels are made of most: records that are written out, of which compiling ahead of time makes structures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from .expr import Expr

R = TypeVar("R")


def same(made: list[Any], block: tuple[Any, ...]) -> bool:
    """Whether the statements that a walk has made are those that it met."""
    if len(made) != len(block):
        return False
    for k, s in enumerate(made):  # noqa: SIM110 - asked for every block of every walk, and a generator takes longer
        if s is not block[k]:
            return False
    return True


class Structure:
    """Immutable, as the type checker holds; equal by value, wherever in the text it stands.  Not a `record`: classes written out become structures where they are compiled ahead of time
    (`compile_core.py`), and passes do little else than make these and look at them."""

    __match_args__: ClassVar[tuple[str, ...]] = ()  # what one is made of, in the order of `__init__`
    __slots__ = ()

    def compared(self) -> tuple[Any, ...]:
        """What tells it from others of its class."""
        return tuple([getattr(self, name) for name in type(self).__match_args__ if name != "span"])

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Structure) and type(self) is type(other) and self.compared() == other.compared())

    def __hash__(self) -> int:
        return hash(self.compared())

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in type(self).__match_args__])})"


class Statement(Structure):
    """One of a kernel, or of a program."""

    __slots__ = ()

    def expressions(self) -> tuple[Expr, ...]:
        """Those that it holds itself (not those of its body): a method, as no other question is asked of so many statements."""
        return ()


def replace(made: R, **changes: Any) -> R:
    """The record, the dataclass or the structure with some parts changed: `dataclasses.replace`, which looks at what each field is every time."""
    cls: Any = type(made)
    parts: list[Any] = []
    given = 0
    for name in cls.__match_args__:
        if name in changes:
            given += 1
            parts.append(changes[name])
        else:
            parts.append(getattr(made, name))
    if given < len(changes):
        raise TypeError(f"{cls.__qualname__} is made of {', '.join(cls.__match_args__)}: not of all of {', '.join(changes)}")
    return cls(*parts)
