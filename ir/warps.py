"""What the 32 threads of a warp multiply together: the nest over the results of one of them, a loop of the kind `matrix`, and which of its loops is which.

    for k in 0 .. 32 reduce matrix                         and in thread 4 g + q of a warp
      for mi in 0 .. 4:                                    (tiles of 16 rows, 8 columns, 16 products)
        for h in 0 .. 2:                                   row     8 h + g of tile mi
          for ni in 0 .. 8:
            for j in 0 .. 2:                               column  2 q + j of tile ni
              acc[mi, h, ni, j] add= cast.f32(A[row, k]) * cast.f32(B[column, k])

The loops stand in any order; those over tiles may be left out.  A and B are memory that the threads of a block share, of 16-bit floats, where neighbours along k, or along the rows (the
columns), lie side by side, and eight of them on a multiple of 16 bytes; acc is the thread's own.  Which rows and columns a thread has is read off the addresses of all threads, number by number.
All threads of a warp come by together: what stands around is the same for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from . import polynomial as pl
from .dtypes import f32
from .evaluate import evaluate
from .expr import ONE, ZERO, Expr, var
from .instructions import FRAGMENTS, LANES, Fragment
from .kernel import Buffer, If, Let, Loop, Stmt, Store, perfect, statements
from .swizzle import LINE, PIECE
from .walks import leaves, substitute

ALIGNED = 8  # elements that are loaded at once
HALF = 8  # rows between a thread's two of a tile
GROUP = 4  # warps that multiply together what lies as `swizzle.py` says
GROUP_TILES = (8, 16, 32)  # of columns, that they do


class Operand(NamedTuple):
    """A side of the product, as one thread sees it: its own first element, and distances in elements."""

    buffer: str
    address: Expr  # flat
    line: int  # from one row (of the other side: column) to the next
    tile: int  # from one tile to the next
    step: int  # along the reduction


class Product(NamedTuple):
    """The nest of a loop of the kind `matrix`."""

    instruction: Fragment
    tiles: tuple[int, int, int]  # of rows, of columns, along the reduction
    result: str
    address: Expr  # of the thread's own first result
    distances: tuple[
        int, int, int, int
    ]  # between its results: to the next tile of rows, to the other row, to the next tile of columns, to the other column
    rows: Operand
    columns: Operand
    group: bool  # four warps one behind the other have 64 rows one below the other, and the same columns, of operands as `swizzle.py` lays them out


class NoProduct(Exception):
    """The loop is no such nest: the message says why."""


def product(loop: Loop, path: Sequence[Stmt], buffers: Mapping[str, Buffer]) -> Product:
    """The nest of a loop inside the statements of `path`, outermost first.  Raises NoProduct."""
    team = _team(path)
    nest, body = perfect((loop,))
    s = body[0] if len(body) == 1 else None
    if not isinstance(s, Store) or s.combiner != "add" or s.value.op != "mul":
        raise NoProduct(f"`{loop.axis}` is no perfect nest around one sum of products")
    if any(x.start is not ZERO or x.step is not ONE or not x.stop.is_const or x.stop.attr < 1 for x in nest):
        raise NoProduct(f"not all loops of the nest of `{loop.axis}` have constant extents")
    factors = [a.args[0] for a in s.value.args if a.op == "cast" and a.dtype is f32 and a.args[0].op == "load"]
    instruction = next((x for x in FRAGMENTS.values() if len(factors) == 2 and all(e.dtype is x.operand for e in factors)), None)
    if instruction is None:
        raise NoProduct("the factors are no two elements of one type of 16-bit floats as f32")
    for e in factors:
        held = buffers.get(e.attr)
        if held is None or held.space != "shared" or held.align % (2 * ALIGNED) or not held.align:
            raise NoProduct(f"`{e.attr}` is no memory that the threads share, aligned to {2 * ALIGNED} bytes")
    sums = buffers.get(s.buffer)
    if sums is None or sums.space != "register" or sums.dtype is not f32:
        raise NoProduct(f"`{s.buffer}` is no array of a thread's own, of f32")
    known = {x.axis for x in (*path, *nest) if isinstance(x, Loop)}
    left, right = (_Access(buffers[e.attr], e.args, nest, team, known) for e in factors)
    own = _Access(sums, s.index, nest, team, known)
    if any(own.of_threads):
        raise NoProduct(f"`{s.buffer}` is indexed by the thread")
    for a, b in ((left, right), (right, left)):
        rows, columns = a.apart(lambda lane: lane // 4), b.apart(lambda lane: lane % 4 * 2)
        if rows is not None and columns is not None:
            return _product(instruction, nest, own, (a, rows), (b, columns))
    raise NoProduct("lane 4 g + q of a warp does not have row g of one factor and columns 2 q, 2 q + 1 of the other")


def _team(path: Sequence[Stmt]) -> Loop:
    """The loop over the threads, all of which come by together.  Raises NoProduct."""
    threads = [s for s in path if isinstance(s, Loop) and s.kind == "thread.x"]
    if len(threads) != 1 or threads[0].start is not ZERO or not threads[0].stop.is_const or threads[0].stop.attr % LANES:
        raise NoProduct(f"it stands in no loop over threads that are whole warps of {LANES}")
    team = threads[0]
    # what is named inside of it may be another number in each thread; not so the loops around, if all threads run them alike
    unlike = {team.axis} | {s.axis if isinstance(s, Loop) else s.name for s in statements(team.body) if isinstance(s, (Loop, Let))}
    for s in path:
        if isinstance(s, Loop):
            found = (s.start, s.stop, s.step)
        elif isinstance(s, If):
            found = (s.condition,)
        else:
            raise NoProduct("what stands around it is not the same for all threads of a warp")
        if s is not team and any(e.buffers or not unlike.isdisjoint(n.attr for n in leaves(e, "var")) for e in found):
            raise NoProduct("what stands around it is not the same for all threads of a warp")
        if isinstance(s, Loop) and s is not team:
            unlike.discard(s.axis)
    return team


class _Access:
    """The address of one access, taken apart: by the axes of the nest, by the thread, and the rest."""

    def __init__(self, buffer: Buffer, index: tuple[Expr, ...], nest: Sequence[Loop], team: Loop, known: set[str]) -> None:
        self.buffer, self.swizzle, address = buffer.name, buffer.swizzle, buffer.address(index)
        if address.buffers or not {n.attr for n in leaves(address, "var")} <= known:
            raise NoProduct(f"where `{buffer.name}` is read or stored into is not said by the loops alone")
        axes = {x.axis for x in nest}
        self.steps = dict.fromkeys(axes, 0)
        self.rest: list[int] = []  # coefficients of what is the same for all threads
        by_thread: dict[pl.Monomial, int] = {}
        for monomial, factor in pl.poly(address).items():
            named = {n.attr for a in monomial for op in ("var", "size") for n in leaves(a, op)}
            if named.isdisjoint(axes | {team.axis}):
                self.rest.append(factor)
            elif named == {team.axis}:
                by_thread[monomial] = factor
            elif len(monomial) == 1 and monomial[0].op == "var":
                self.steps[monomial[0].attr] = factor
            else:
                raise NoProduct(f"how `{buffer.name}` is gone through is not seen")
        moved = pl.expr(by_thread)
        self.of_threads = [evaluate(moved, {team.axis: t}) for t in range(team.stop.attr)]
        self.address = substitute(address, dict.fromkeys(map(var, axes), ZERO))

    def apart(self, place: Callable[[int], int]) -> int | None:
        """How far it is from one row (or column) to the next, where `place` says which one a lane has; None where the threads of some warp are apart in another way."""
        first = next(lane for lane in range(LANES) if place(lane))
        found, rest = divmod(self.of_threads[first] - self.of_threads[0], place(first))
        alike = all(at - self.of_threads[t - t % LANES] == place(t % LANES) * found for t, at in enumerate(self.of_threads))
        return found if alike and not rest else None

    def whole(self, line: int, step: int, tile: int) -> bool:
        """Whether eight neighbours lie on a multiple of their size, from each warp's first element on."""
        across = line if step == 1 else step
        return (line == 1 or step == 1) and all(n % ALIGNED == 0 for n in (across, tile, *self.rest, *self.of_threads[::LANES]))

    def grouped(self, line: int, step: int, apart: int) -> bool:
        """Whether it is swizzled by its own rows; and of four warps each is so far behind the one before, and the first begins where a line begins, the first of eight."""
        whole, first = PIECE * self.swizzle, self.of_threads[::LANES]
        if self.swizzle != max(line, step) or len(first) % GROUP or any(n % whole for n in self.rest):
            return False
        begin = [at % whole for at in first[::GROUP]]
        return all(at - first[w - w % GROUP] == w % GROUP * apart for w, at in enumerate(first)) and (
            not any(begin) if step == 1 else all(at < self.swizzle and at % LINE == 0 for at in begin)
        )


def _product(instruction: Fragment, nest: Sequence[Loop], own: _Access, left: tuple[_Access, int], right: tuple[_Access, int]) -> Product:
    (rows, line), (columns, beside) = left, right
    roles: dict[str, list[Loop]] = {"rows": [], "columns": [], "reduction": []}
    for x in nest:
        in_rows, in_columns, in_own = (bool(a.steps[x.axis]) for a in (rows, columns, own))
        role = {(True, False, True): "rows", (False, True, True): "columns", (True, True, False): "reduction"}.get((in_rows, in_columns, in_own))
        if role is not None:
            roles[role].append(x)
        elif x.stop.attr > 1:
            raise NoProduct(f"`{x.axis}` goes along neither rows nor columns nor the reduction")
    (along,) = roles["reduction"] if len(roles["reduction"]) == 1 else (None,)
    if along is None or along.stop.attr % instruction.depth:
        raise NoProduct(f"there is no one loop along the reduction, over a multiple of {instruction.depth}")
    high, other = _pair(roles["rows"], rows, HALF * line, "rows")
    wide, beneath = _pair(roles["columns"], columns, beside, "columns")
    steps = rows.steps[along.axis], columns.steps[along.axis]
    apart = [0 if x is None else a.steps[x.axis] for x, a in ((high, rows), (wide, columns))]
    for a, far, step, tile in ((rows, line, steps[0], apart[0]), (columns, beside, steps[1], apart[1])):
        if not a.whole(far, step, tile):
            raise NoProduct(f"eight neighbours of `{a.buffer}` do not lie side by side from a multiple of {2 * ALIGNED} bytes on")
    count = [1 if x is None else x.stop.attr for x in (high, wide)]
    distances = [0 if x is None else own.steps[x.axis] for x in (high, other, wide, beneath)]
    return Product(
        instruction,
        (count[0], count[1], along.stop.attr // instruction.depth),
        own.buffer,
        own.address,
        (distances[0], distances[1], distances[2], distances[3]),
        Operand(rows.buffer, rows.address, line, apart[0], steps[0]),
        Operand(columns.buffer, columns.address, beside, apart[1], steps[1]),
        count[1] in GROUP_TILES
        and rows.grouped(line, steps[0], 2 * HALF * line)
        and columns.grouped(beside, steps[1], 0)
        and (count[0] == 1 or apart[0] == GROUP * 2 * HALF * line)
        and apart[1] == ALIGNED * beside,
    )


def _pair(loops: Sequence[Loop], access: _Access, distance: int, what: str) -> tuple[Loop | None, Loop]:
    """The loop over tiles, if there is one, and that over a thread's two rows or columns of a tile.  Raises NoProduct."""
    pairs = [x for x in loops if x.stop.attr == 2 and access.steps[x.axis] == distance]
    others = [x for x in loops if x not in pairs[:1]]
    if not pairs or len(others) > 1:
        raise NoProduct(f"a thread does not have two {what} of each tile")
    return (others[0] if others else None), pairs[0]


__all__ = ["NoProduct", "Operand", "Product", "product"]
