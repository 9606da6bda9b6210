"""What the levels are made of most: records that are written out, of which compiling ahead of time makes structures; statements, and walks over blocks of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from .expr import Expr

R = TypeVar("R")


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

    def blocks(self) -> tuple[tuple[Any, ...], ...]:
        """Those that it holds."""
        return ()


class Around(Statement):
    """One that holds others, in a body; an `if` in two."""

    __slots__ = ("hashed", "kinds", "within")
    body: tuple[Any, ...]
    within: tuple[Any, ...] | None  # of `statements`
    kinds: int  # of `kinds_in`
    hashed: int  # of `hash`, for which a nest in a graph is looked up whenever a node of it is made

    def __hash__(self) -> int:
        if self.hashed == 0:
            self.hashed = hash(self.compared())
        return self.hashed

    def blocks(self) -> tuple[tuple[Any, ...], ...]:
        return (self.body,)

    def around(self, body: tuple[Any, ...], orelse: tuple[Any, ...] = ()) -> Any:
        """The same around others."""
        raise NotImplementedError  # each class has its own


S = TypeVar("S", bound=Statement)
A = TypeVar("A", bound=Around)


def same(made: list[Any], block: tuple[Any, ...]) -> bool:
    """Whether the statements that a walk has made are those that it met."""
    if len(made) != len(block):
        return False
    for k, s in enumerate(made):  # noqa: SIM110 - asked for every block of every walk, and a generator takes longer
        if s is not block[k]:
            return False
    return True


def with_body(s: A, body: tuple[Any, ...]) -> A:
    """The statement, no `if`, around another block; itself where that is its own."""
    return s if body is s.body else s.around(body)


def with_blocks(s: S, walk: Callable[[Any], tuple[Any, ...]]) -> S:
    """The statement around what becomes of each block that it holds; itself where none changes, or it holds none."""
    if isinstance(s, Around):
        blocks = s.blocks()
        changed = [walk(block) for block in blocks]
        if not same(changed, blocks):
            return s.around(*changed)
    return s


def statements(block: tuple[S, ...]) -> list[S]:
    """Every statement, outer before inner, in order.  One that holds others remembers them: most of a tree stays when a part of it changes."""
    found: list[S] = []
    for s in block:
        found.append(s)
        if isinstance(s, Around):
            if s.within is None:
                blocks = s.blocks()
                inside: list[Any] = statements(blocks[0])
                for more in blocks[1:]:
                    inside += statements(more)
                s.within = tuple(inside)
            found += s.within
    return found


def kinds_in(block: tuple[Statement, ...]) -> int:
    """The kinds of operators that stand in it (`Expr.kinds`).  A statement that holds others remembers its own."""
    found = 0
    for s in block:
        kinds = s.kinds if isinstance(s, Around) else -1
        if kinds < 0:
            kinds = 0
            for e in s.expressions():
                kinds |= e.kinds
            for inside in s.blocks():
                kinds |= kinds_in(inside)
            if isinstance(s, Around):
                s.kinds = kinds
        found |= kinds
    return found


def map_block(block: tuple[S, ...], change: Callable[[S], tuple[S, ...] | None], kinds: int = 0) -> tuple[S, ...]:
    """Bottom-up: `change(stmt)` (its body already changed) gives the statements that stand in its place, or None to keep it.  With `kinds` (`Expr.kinds`), blocks in which no such operator
    stands are left alone."""
    if kinds and not kinds_in(block) & kinds:
        return block

    def walk(inside: tuple[S, ...]) -> tuple[S, ...]:
        return map_block(inside, change, kinds)

    result: list[S] = []
    for s in block:
        s = with_blocks(s, walk)
        changed = change(s)
        if changed is None:
            result.append(s)
        else:
            result.extend(changed)
    return block if same(result, block) else tuple(result)


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
