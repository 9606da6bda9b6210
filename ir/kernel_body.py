"""What kernels consist of: the statements of `kernel.py`, where their grammar is, and walks over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from .dtypes import DType
from .errors import NOWHERE, Span
from .expr import ONE, ZERO, Expr, add, mul, product
from .statement import Around, Statement, Structure, replace, same, statements, with_body
from .walks import postorder, substitute, substitution

if TYPE_CHECKING:
    from .graph import Shape


class Buffer(Structure):
    """Memory with a logical shape.  Ports and temps are `global`; the others come from `alloc`."""

    __match_args__: ClassVar = ("name", "dtype", "shape", "space", "strides", "align", "swizzle")
    __slots__ = (*__match_args__, "_steps")

    def __init__(
        self, name: str, dtype: DType, shape: Shape, space: str = "global", strides: tuple[Expr, ...] = (), align: int = 0, swizzle: int = 0
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.space = space
        self.strides = strides  # in elements; () is row-major
        self.align = align  # bytes; 0 = element alignment
        self.swizzle = swizzle  # elements of a row whose pieces change places (`swizzle.py`); 0 where each element lies at its address
        self._steps: tuple[Expr, ...] | None = None

    @property
    def steps(self) -> tuple[Expr, ...]:
        """How many elements each axis moves by."""
        found = self._steps
        if found is None:
            found = self._steps = self.strides or tuple([product(self.shape[k:]) for k in range(1, len(self.shape) + 1)])
        return found

    def stride(self, k: int) -> Expr:
        return self.steps[k]

    def address(self, index: tuple[Expr, ...]) -> Expr:
        """The flat position (in elements) of a logical index."""
        result = ZERO
        for e, step in zip(index, self.steps, strict=True):
            result = add(result, mul(e, step))
        return result

    @property
    def elements(self) -> Expr:
        return product(self.shape)


class Loop(Around):
    __match_args__: ClassVar = ("axis", "start", "stop", "body", "kind", "step", "span")
    __slots__ = __match_args__

    def __init__(self, axis: str, start: Expr, stop: Expr, body: Block, kind: str = "serial", step: Expr = ONE, span: Span = NOWHERE) -> None:
        self.axis = axis
        self.start = start
        self.stop = stop
        self.body = body
        self.kind = kind
        self.step = step  # never 0; negative counts down: start, start+step, … while > stop
        self.span = span
        self.within, self.kinds, self.hashed = None, -1, 0

    def around(self, body: Block, orelse: Block = ()) -> Loop:
        return Loop(self.axis, self.start, self.stop, body, self.kind, self.step, self.span)

    def expressions(self) -> tuple[Expr, ...]:
        return (self.start, self.stop, self.step)


class Let(Statement):
    __match_args__: ClassVar = ("name", "value")
    __slots__ = __match_args__

    def __init__(self, name: str, value: Expr) -> None:
        self.name = name
        self.value = value

    def expressions(self) -> tuple[Expr, ...]:
        return (self.value,)


class Alloc(Statement):
    __match_args__: ClassVar = ("buffer",)
    __slots__ = __match_args__

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer

    def expressions(self) -> tuple[Expr, ...]:
        return self.buffer.shape


class Store(Statement):
    __match_args__: ClassVar = ("buffer", "index", "value", "combiner", "span", "stream")
    __slots__ = __match_args__

    def __init__(
        self, buffer: str, index: tuple[Expr, ...], value: Expr, combiner: str = "", span: Span = NOWHERE, stream: Expr | None = None
    ) -> None:
        self.buffer = buffer
        self.index = index
        self.value = value
        self.combiner = combiner  # "" stores; else accumulates with this monoid
        self.span = span
        self.stream = stream  # on sizes: where it holds, nothing reads the result soon

    def expressions(self) -> tuple[Expr, ...]:
        return (*self.index, self.value) if self.stream is None else (*self.index, self.value, self.stream)


class If(Around):
    __match_args__: ClassVar = ("condition", "body", "orelse")
    __slots__ = __match_args__

    def __init__(self, condition: Expr, body: Block, orelse: Block = ()) -> None:
        self.condition = condition
        self.body = body
        self.orelse = orelse
        self.within, self.kinds, self.hashed = None, -1, 0

    def blocks(self) -> tuple[Block, ...]:
        return self.body, self.orelse

    def around(self, body: Block, orelse: Block = ()) -> If:
        return If(self.condition, body, orelse)

    def expressions(self) -> tuple[Expr, ...]:
        return (self.condition,)


class While(Around):
    __match_args__: ClassVar = ("condition", "body", "limit")
    __slots__ = __match_args__

    def __init__(self, condition: Expr, body: Block, limit: Expr | None = None) -> None:
        self.condition = condition
        self.body = body
        self.limit = limit  # at most this many trips
        self.within, self.kinds, self.hashed = None, -1, 0

    def around(self, body: Block, orelse: Block = ()) -> While:
        return While(self.condition, body, self.limit)

    def expressions(self) -> tuple[Expr, ...]:
        return (self.condition,) if self.limit is None else (self.condition, self.limit)


class Region(Around):
    __match_args__: ClassVar = ("body",)
    __slots__ = __match_args__

    def __init__(self, body: Block) -> None:
        self.body = body
        self.within, self.kinds, self.hashed = None, -1, 0

    def around(self, body: Block, orelse: Block = ()) -> Region:
        return Region(body)


class Barrier(Statement):
    __match_args__: ClassVar = ("later",)
    __slots__ = __match_args__

    def __init__(self, later: int = 0) -> None:
        self.later = later  # what was begun in the last so many stretches, of which this barrier ends one, may still be on its way


class Check(Statement):
    __match_args__: ClassVar = ("condition", "code", "span")
    __slots__ = __match_args__

    def __init__(self, condition: Expr, code: int, span: Span = NOWHERE) -> None:
        self.condition = condition
        self.code = code
        self.span = span

    def expressions(self) -> tuple[Expr, ...]:
        return (self.condition,)


class Prefetch(Statement):
    __match_args__: ClassVar = ("buffer", "index", "ahead", "cache", "write")
    __slots__ = __match_args__

    def __init__(self, buffer: str, index: tuple[Expr, ...], ahead: Expr, cache: int = 1, write: bool = False) -> None:
        self.buffer = buffer
        self.index = index
        self.ahead = ahead  # elements
        self.cache = cache  # into which it is to come: the first, or only as near as the second
        self.write = write  # it is going to be stored into

    def expressions(self) -> tuple[Expr, ...]:
        return (*self.index, self.ahead)


Stmt = Loop | Let | Alloc | Store | If | While | Region | Barrier | Check | Prefetch
Block = tuple[Stmt, ...]


# Where names are introduced, and where a statement is, for `places.py`: where the one that encloses it is (None: it stands in the kernel itself), and its number there.
Place = tuple[Any, int]
Homes = dict[str, Place]


class Kernel(Structure):
    """One launchable unit."""

    __match_args__: ClassVar = ("name", "buffers", "body", "schedule", "notes")
    __slots__ = (*__match_args__, "homes", "paths")

    def __init__(self, name: str, buffers: tuple[str, ...], body: Block, schedule: tuple[str, ...] = (), notes: tuple[str, ...] = ()) -> None:
        self.name = name
        self.buffers = buffers  # ports and temps that it touches, ports first in port order
        self.body = body
        self.schedule = schedule  # the steps that made it, replayable
        self.notes = notes  # what `--why` prints
        self.homes: Homes | None = None  # of `places.homes_in`, found once: statements never change
        self.paths: dict[str, tuple[Stmt, ...]] = {}  # of `places.path_of`

    def with_body(self, body: Block, homes: Homes | None = None) -> Kernel:
        """The kernel with other statements, and where their names are, if that is known."""
        result = Kernel(self.name, self.buffers, body, self.schedule, self.notes)
        result.homes = homes
        return result

    def with_schedule(self, schedule: tuple[str, ...]) -> Kernel:
        result = Kernel(self.name, self.buffers, self.body, schedule, self.notes)
        result.homes, result.paths = self.homes, self.paths
        return result


def written(block: Block) -> set[str]:
    """The buffers that a block stores into."""
    return {s.buffer for s in statements(block) if isinstance(s, Store)}


_AS_THEY_ARE: Final[dict[str, str]] = {}


def map_expressions(block: Block, change: Callable[[Expr], Expr], names: dict[str, str] = _AS_THEY_ARE) -> Block:
    """The block with every expression replaced; statements keep their order and their spans, one in which nothing changes stays the same object.  What statements
    name themselves (axes, lets, buffers) is called by what `names` says."""

    def one(s: Stmt) -> Stmt:
        if isinstance(s, Store):
            buffer, index, value = names.get(s.buffer, s.buffer), tuple(map(change, s.index)), change(s.value)
            stream = None if s.stream is None else change(s.stream)
            same = buffer is s.buffer and index == s.index and value is s.value and stream is s.stream
            return s if same else Store(buffer, index, value, s.combiner, s.span, stream)
        if isinstance(s, Loop):
            axis, body = names.get(s.axis, s.axis), walk(s.body)
            start, stop, step = [e if e.is_const else change(e) for e in (s.start, s.stop, s.step)]
            same = body is s.body and axis is s.axis and start is s.start and stop is s.stop and step is s.step
            return s if same else Loop(axis, start, stop, body, s.kind, step, s.span)
        if isinstance(s, Let):
            name, value = names.get(s.name, s.name), change(s.value)
            return s if name is s.name and value is s.value else Let(name, value)
        if isinstance(s, Alloc):
            b = s.buffer
            name, shape, strides = names.get(b.name, b.name), tuple(map(change, b.shape)), tuple(map(change, b.strides))
            same = name is b.name and shape == b.shape and strides == b.strides
            return s if same else Alloc(replace(b, name=name, shape=shape, strides=strides))
        if isinstance(s, If):
            condition, body, orelse = change(s.condition), walk(s.body), walk(s.orelse)
            return s if condition is s.condition and body is s.body and orelse is s.orelse else If(condition, body, orelse)
        if isinstance(s, While):
            return While(change(s.condition), walk(s.body), None if s.limit is None else change(s.limit))
        if isinstance(s, Region):
            return with_body(s, walk(s.body))
        if isinstance(s, Check):
            return replace(s, condition=change(s.condition))
        if isinstance(s, Prefetch):
            return replace(s, buffer=names.get(s.buffer, s.buffer), index=tuple(map(change, s.index)), ahead=change(s.ahead))
        return s

    def walk(block: Block) -> Block:
        changed = [one(s) for s in block]
        return block if same(changed, block) else tuple(changed)

    return walk(block)


def with_parts(s: Stmt, change: Callable[[Expr], Expr], walk: Callable[[Block], Block]) -> Stmt:
    """The statement with every expression of its own replaced, around what becomes of each block that it holds."""
    (head,) = map_expressions((s.around(()) if isinstance(s, Around) else s,), change)
    return head.around(*[walk(b) for b in s.blocks()]) if isinstance(head, Around) else head


def nested(loops: Sequence[Loop], body: Block) -> Block:
    """The loops, outermost first, one inside the other, around a block."""
    for x in reversed(loops):
        body = (with_body(x, body),)
    return body


def perfect(block: Block, suits: Callable[[Loop], bool] = lambda loop: True) -> tuple[list[Loop], Block]:
    """The loops, as far as they suit, of which each is all that the block or the loop before holds; and what the last of them holds."""
    loops: list[Loop] = []
    while len(block) == 1 and isinstance(x := block[0], Loop) and suits(x):
        loops.append(x)
        block = x.body
    return loops, block


def loads_in(*exprs: Expr) -> list[Expr]:
    return [n for n in postorder(*(e for e in exprs if e.buffers)) if n.op == "load"]


def reads(block: Block) -> list[Expr]:
    """Every load of the block, once, in order."""
    return loads_in(*(e for s in statements(block) for e in s.expressions()))


def accesses(block: Block) -> Iterator[tuple[str, tuple[Expr, ...]]]:
    """Each buffer that is read or stored into, with the index, in order."""
    for s in statements(block):
        yield from ((n.attr, n.args) for n in loads_in(*s.expressions()))
        if isinstance(s, Store):
            yield s.buffer, s.index


def sized(buffer: Buffer, fixed: dict[Expr, Expr]) -> Buffer:
    """A buffer where some sizes have these values."""
    shape, strides = (tuple([substitute(e, fixed) for e in extents]) for extents in (buffer.shape, buffer.strides))
    return buffer if shape == buffer.shape and strides == buffer.strides else replace(buffer, shape=shape, strides=strides)


def substitute_block(block: Block, mapping: dict[Expr, Expr]) -> Block:
    return map_expressions(block, substitution(mapping)) if mapping else block
