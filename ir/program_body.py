"""What programs consist of: the statements of `program.py`, where their grammar is, and walks over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from .dtypes import DType
from .expr import FALSE, ONE, Expr
from .record import replace
from .statement import Around, Statement, same


class Define(Statement):
    """`let` (mutable=False) or `var`."""

    __match_args__: ClassVar = ("name", "dtype", "value", "mutable")
    __slots__ = __match_args__

    def __init__(self, name: str, dtype: DType, value: Expr | None = None, mutable: bool = False) -> None:
        self.name = name
        self.dtype = dtype
        self.value = value
        self.mutable = mutable

    def expressions(self) -> tuple[Expr, ...]:
        return () if self.value is None else (self.value,)


class Assign(Statement):
    __match_args__: ClassVar = ("name", "value")
    __slots__ = __match_args__

    def __init__(self, name: str, value: Expr) -> None:
        self.name = name
        self.value = value

    def expressions(self) -> tuple[Expr, ...]:
        return (self.value,)


class Array(Statement):
    """A local array with a constant number of elements (scalars or vectors).  space: register | stack | shared."""

    __match_args__: ClassVar = ("name", "dtype", "count", "space", "align", "swizzle")
    __slots__ = __match_args__

    def __init__(self, name: str, dtype: DType, count: int, space: str = "stack", align: int = 0, swizzle: int = 0) -> None:
        self.name = name
        self.dtype = dtype
        self.count = count
        self.space = space
        self.align = align
        self.swizzle = swizzle  # elements of a row whose pieces change places (`swizzle.py`): where each lies is the runtime's business, addresses are as without


class Scratch(Statement):
    """`count` elements of heap (or workspace) memory, released where the enclosing block ends; failing gives the code for no memory."""

    __match_args__: ClassVar = ("name", "dtype", "count", "align")
    __slots__ = __match_args__

    def __init__(self, name: str, dtype: DType, count: Expr, align: int = 64) -> None:
        self.name = name
        self.dtype = dtype
        self.count = count
        self.align = align

    def expressions(self) -> tuple[Expr, ...]:
        return (self.count,)


class StoreTo(Statement):
    __match_args__: ClassVar = ("buffer", "address", "value", "stream", "count")
    __slots__ = __match_args__

    def __init__(self, buffer: str, address: Expr, value: Expr, stream: Expr | None = None, count: Expr | None = None) -> None:
        self.buffer = buffer
        self.address = address
        self.value = value
        self.stream = stream
        self.count = count  # of a vector: only so many lanes

    def expressions(self) -> tuple[Expr, ...]:
        found = (self.address, self.value) if self.count is None else (self.address, self.count, self.value)
        return found if self.stream is None else (*found, self.stream)


class For(Around):
    __match_args__: ClassVar = ("var", "start", "stop", "body", "step", "pragma", "serial_if", "end", "times")
    __slots__ = __match_args__

    def __init__(
        self,
        var: str,
        start: Expr,
        stop: Expr,
        body: Block,
        step: Expr = ONE,
        pragma: str = "",
        serial_if: Expr | None = None,
        end: str = "",
        times: int = 0,
    ) -> None:
        self.var = var
        self.start = start
        self.stop = stop
        self.body = body
        self.step = step
        self.pragma = pragma  # "" | unroll | parallel | workshare | queue | block.x … thread.z
        self.serial_if = None if serial_if is FALSE else serial_if  # parallel only: run by one thread where this holds (too little work to fork)
        self.end = end  # parallel only, from 0 in steps of 1: the body is for all iterations from `var` to this, as many as a thread has
        self.times = times  # unroll only: so many iterations side by side; 0: all of them
        self.within, self.kinds, self.hashed = None, -1, 0

    def around(self, body: Block, orelse: Block = ()) -> For:
        return For(self.var, self.start, self.stop, body, self.step, self.pragma, self.serial_if, self.end, self.times)

    def expressions(self) -> tuple[Expr, ...]:
        return (self.start, self.stop, self.step) if self.serial_if is None else (self.start, self.stop, self.step, self.serial_if)


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
    __match_args__: ClassVar = ("condition", "body")
    __slots__ = __match_args__

    def __init__(self, condition: Expr, body: Block) -> None:
        self.condition = condition
        self.body = body
        self.within, self.kinds, self.hashed = None, -1, 0

    def around(self, body: Block, orelse: Block = ()) -> While:
        return While(self.condition, body)

    def expressions(self) -> tuple[Expr, ...]:
        return (self.condition,)


class Region(Around):
    __match_args__: ClassVar = ("body", "serial_if")
    __slots__ = __match_args__

    def __init__(self, body: Block, serial_if: Expr | None = None) -> None:
        self.body = body
        self.serial_if = None if serial_if is FALSE else serial_if  # run by one thread where this holds (too little work to fork)
        self.within, self.kinds, self.hashed = None, -1, 0

    def around(self, body: Block, orelse: Block = ()) -> Region:
        return Region(body, self.serial_if)

    def expressions(self) -> tuple[Expr, ...]:
        return () if self.serial_if is None else (self.serial_if,)


class Barrier(Statement):
    __match_args__: ClassVar = ("later",)
    __slots__ = __match_args__

    def __init__(self, later: int = 0) -> None:
        self.later = later  # what was begun in the last so many stretches, of which this barrier ends one, may still be on its way


class Call(Statement):
    __match_args__: ClassVar = ("function", "args")
    __slots__ = __match_args__

    def __init__(self, function: str, args: tuple[Expr | str, ...]) -> None:
        self.function = function
        self.args = args  # a string is a buffer passed by pointer

    def expressions(self) -> tuple[Expr, ...]:
        return tuple([a for a in self.args if isinstance(a, Expr)])


class Fail(Statement):
    __match_args__: ClassVar = ("code",)
    __slots__ = __match_args__

    def __init__(self, code: int) -> None:
        self.code = code


class Prefetch(Statement):
    __match_args__: ClassVar = ("buffer", "address", "cache", "write")
    __slots__ = __match_args__

    def __init__(self, buffer: str, address: Expr, cache: int = 1, write: bool = False) -> None:
        self.buffer = buffer
        self.address = address
        self.cache = cache  # into which it is to come: the first, or only as near as the second
        self.write = write  # it is going to be stored into

    def expressions(self) -> tuple[Expr, ...]:
        return (self.address,)


class Multiply(Statement):
    """An instruction on tiles (`ir/instructions.py`), over and over along a reduction, for i below `rows`, j below `columns` and k below `SIDE`:

    result[i, j] add= Σ over s below `steps`, and k, of dot(0, left[s, i, k], right[s, k, j])

    Where it begins anew, the result is that sum, and what was there is not read.
    """

    __match_args__: ClassVar = ("instruction", "rows", "columns", "buffer", "address", "row", "left", "right", "steps", "anew", "neighbours")
    __slots__ = __match_args__

    def __init__(
        self,
        instruction: str,
        rows: int,
        columns: int,
        buffer: str,
        address: Expr,
        row: Expr,
        left: tuple[str, Expr, Expr, Expr],
        right: tuple[str, Expr, Expr, Expr],
        steps: Expr,
        anew: bool = False,
        neighbours: int = 1,
    ) -> None:
        self.instruction = instruction  # of TILES
        self.rows = rows  # multiples of SIDE, at most MOST_TILES of them
        self.columns = columns
        self.buffer = buffer
        self.address = address
        self.row = row  # from one row of the result to the next
        self.left = left  # buffer, address, and how far it is to the next step and to the next row
        self.right = right  # the same; its rows are words along the reduction
        self.steps = steps
        self.anew = anew
        self.neighbours = neighbours  # elements of the left buffer in a word: its address counts elements, distances count words

    def expressions(self) -> tuple[Expr, ...]:
        return (self.address, self.row, *self.left[1:], *self.right[1:], self.steps)


class Matrix(Statement):
    """A thread's part of what the threads of its warp multiply together (`ir/warps.py`), for mi, ni and ks below `tiles`, h and j below 2, k below `depth` of the instruction:

    result[address + (mi, h, ni, j)] add= Σ over ks and k of left[mi, h, depth·ks + k] · right[ni, j, depth·ks + k], as f32

    All threads of the warp come by together; of the others' elements the distances say where they are.
    """

    __match_args__: ClassVar = ("instruction", "tiles", "buffer", "address", "distances", "left", "right", "group")
    __slots__ = __match_args__

    def __init__(
        self,
        instruction: str,
        tiles: tuple[int, int, int],
        buffer: str,
        address: Expr,
        distances: tuple[int, int, int, int],
        left: tuple[str, Expr, int, int, int],
        right: tuple[str, Expr, int, int, int],
        group: bool = False,
    ) -> None:
        self.instruction = instruction  # of FRAGMENTS
        self.tiles = tiles  # of rows, of columns, along the reduction
        self.buffer = buffer
        self.address = address
        self.distances = distances  # to the next mi, h, ni, j
        self.left = left  # buffer, address, and how far it is to the next row, to the next tile (mi), and along the reduction
        self.right = right  # the same of columns
        self.group = group  # four warps multiply together: they have 64 rows one below the other, and the same columns

    def expressions(self) -> tuple[Expr, ...]:
        return (self.address, self.left[1], self.right[1])


class Tiles(Statement):
    """A thread begins to use its tile registers, or is done with them."""

    __match_args__: ClassVar = ("begin",)
    __slots__ = __match_args__

    def __init__(self, begin: bool) -> None:
        self.begin = begin


Stmt = Define | Assign | Array | Scratch | StoreTo | For | If | While | Region | Barrier | Call | Fail | Prefetch | Multiply | Matrix | Tiles
Block = tuple[Stmt, ...]


def stored(stmt: Stmt) -> str | None:
    """The buffer that a statement writes."""
    return stmt.buffer if isinstance(stmt, (StoreTo, Multiply, Matrix)) else None


def named(stmt: Stmt) -> tuple[str, ...]:
    """The buffers that a statement names itself, not in an expression."""
    if isinstance(stmt, (Multiply, Matrix)):
        return stmt.buffer, stmt.left[0], stmt.right[0]
    return (stmt.buffer,) if isinstance(stmt, (StoreTo, Prefetch)) else ()


def map_expressions(block: Block, change: Callable[[Expr], Expr]) -> Block:
    """The block with every expression replaced; a statement in which nothing changes stays the same object."""
    changed = [with_expressions(s, change) for s in block]
    return block if same(changed, block) else tuple(changed)


def with_expressions(s: Stmt, change: Callable[[Expr], Expr]) -> Stmt:
    """One statement, and what it holds, with every expression replaced."""
    if isinstance(s, StoreTo):
        address, value = change(s.address), change(s.value)
        count, stream = None if s.count is None else change(s.count), None if s.stream is None else change(s.stream)
        same = address is s.address and value is s.value and count is s.count and stream is s.stream
        return s if same else StoreTo(s.buffer, address, value, stream, count)
    if isinstance(s, Define):
        given = None if s.value is None else change(s.value)
        return s if given is s.value else Define(s.name, s.dtype, given, s.mutable)
    if isinstance(s, Assign):
        assigned = change(s.value)
        return s if assigned is s.value else Assign(s.name, assigned)
    if isinstance(s, For):
        serial_if, body = None if s.serial_if is None else change(s.serial_if), map_expressions(s.body, change)
        start, stop, step = change(s.start), change(s.stop), change(s.step)
        same = body is s.body and start is s.start and stop is s.stop and step is s.step and serial_if is s.serial_if
        return s if same else For(s.var, start, stop, body, step, s.pragma, serial_if, s.end, s.times)
    if isinstance(s, If):
        condition, body, orelse = change(s.condition), map_expressions(s.body, change), map_expressions(s.orelse, change)
        return s if condition is s.condition and body is s.body and orelse is s.orelse else If(condition, body, orelse)
    if isinstance(s, While):
        return While(change(s.condition), map_expressions(s.body, change))
    if isinstance(s, Region):
        body, serial_if = map_expressions(s.body, change), None if s.serial_if is None else change(s.serial_if)
        return s if body is s.body and serial_if is s.serial_if else Region(body, serial_if)
    if isinstance(s, Scratch):
        return replace(s, count=change(s.count))
    if isinstance(s, Prefetch):
        address = change(s.address)
        return s if address is s.address else Prefetch(s.buffer, address, s.cache, s.write)
    if isinstance(s, Multiply):
        (a, *left), (b, *right) = s.left, s.right
        moved = {"left": (a, *map(change, left)), "right": (b, *map(change, right))}
        return replace(s, address=change(s.address), row=change(s.row), steps=change(s.steps), **moved)
    if isinstance(s, Matrix):
        (a, at_left, *far), (b, at_right, *wide) = s.left, s.right
        return replace(s, address=change(s.address), left=(a, change(at_left), *far), right=(b, change(at_right), *wide))
    return replace(s, args=tuple([change(a) if isinstance(a, Expr) else a for a in s.args])) if isinstance(s, Call) else s
