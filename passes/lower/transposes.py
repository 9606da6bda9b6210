"""Square blocks turned over in registers: what one loop would gather, lane by lane, is loaded along the loop around it.

                                                      array block: f32x16[16] register
                                                      array turned: f32x16[16] register
                                                      for k in 0 .. 16 unroll:
                                                        block[k] = vload.16 X[x + k * N]
                                                      for stage in 0 .. 2 unroll:
                                                        for k in 0 .. 8 unroll:
    for i in 0 .. 16 unroll:                              turned[k * 2] = zip_low(block[k], block[k + 8])
      Y[y + i * M] =                             →        turned[k * 2 + 1] = zip_high(block[k], block[k + 8])
          gather.16 X[x + i + ramp * N]                 … and back
                                                      for i in 0 .. 16 unroll:
                                                        Y[y + i * M] = block[i]

Zipping rows k and k + n/2 rotates the bits of (row, lane) by one; after log2 n times rows and lanes have changed places.  The loop has as many trips as the vector has
lanes, runs from 0 and holds no other; the gathered address moves by one element with the loop (or, where neighbours are put together as words, by one word) and by a fixed number of
elements with the lane, and nothing in the loop changes that or writes the buffer.  Where all parts of some neighbours are taken, as of complex numbers both, it moves by so many elements: each row is as many
vectors long, and the loop is one for each square of these.  Lanes that nobody asks for repeat a row.  What is loaded under a condition that no trip changes is loaded under it; any other load
that may not be performed is left alone.  Where a guard lets only the first trips pass, of each row the first elements are loaded.
"""

from __future__ import annotations

from typing import NamedTuple

from ...ir.conditions import conjuncts
from ...ir.dtypes import DType
from ...ir.expr import ONE, ZERO, Expr, both, broadcast, call, const, load, make, maximum, minimum, var, vload, zip_halves
from ...ir.operator_kinds import GATHERS
from ...ir.program import Array, Assign, Block, Define, For, If, Stmt, StoreTo, kinds_in, map_block, map_expressions, statements
from ...ir.record import replace
from ...ir.walks import always, is_lazy, postorder, substitute
from .affine import difference, slope
from .names import Names
from .words import parts

MOST = 32  # rows: more fit in the registers of no machine
PAIR = 2  # neighbours that are taken together without being a word: the parts of complex numbers


def transposes(body: Block, names: Names) -> Block:
    """The body with such blocks loaded along the other axis."""
    return map_block(body, lambda s: _turned(s, names) if isinstance(s, For) else None, GATHERS)


def _turned(loop: For, names: Names) -> Block | None:
    """The loop with every gather of a square block replaced, and before it the blocks; None where there is none."""
    if not (loop.start is ZERO and loop.step is ONE and loop.stop.is_const and loop.pragma in ("", "unroll")):
        return None
    lanes = loop.stop.attr
    if not 2 <= lanes <= MOST or lanes & (lanes - 1):
        return None
    if len(loop.body) == 1 and isinstance(s := loop.body[0], If) and not s.orelse and not s.condition.buffers:
        parts = conjuncts(s.condition)
        if (outside := both(*(c for c in parts if loop.var not in c.names))) is not None:
            guard = both(*(c for c in parts if loop.var in c.names))
            turned = _turned(replace(loop, body=s.body if guard is None else (If(guard, s.body),)), names)
            return None if turned is None else (If(outside, turned),)
    i = var(loop.var)
    inside, count = _first_rows(loop.body, i)
    if not kinds_in(inside) & GATHERS:
        return None
    if not all(isinstance(s, (Define, Assign, StoreTo, If)) for s in statements(inside)):
        return None
    # what differs between the trips: the loop's variable, and what the body defines or changes
    inner = {loop.var, *(s.name for s in statements(loop.body) if isinstance(s, (Define, Assign)))}
    changed = {s.buffer for s in statements(loop.body) if isinstance(s, StoreTo)}

    def varies(e: Expr) -> bool:
        return not e.names.isdisjoint(inner) or not e.buffers.isdisjoint(changed)

    taken: dict[Expr, Taken] = {}
    for s in inside:
        for n, condition in _performed(s.expressions()).items():
            rows = None if n in taken or n.dtype.lanes != lanes else _rows(n)
            if (
                rows is None
                or (condition is not None and varies(condition))
                or (rows.first is not None and varies(rows.first))
                or rows.buffer in changed
                or varies(rows.growth)
                or (rows.last is not None and varies(rows.last))
                or (step := slope(rows.base, i, varies)) is None
                or not step.is_const
                or (count is not None and (rows.parts > 1 or varies(count)))
            ):
                continue
            if step.attr == rows.parts or (rows.parts == 1 and step.attr == PAIR < lanes):
                taken[n] = Taken(rows._replace(base=substitute(rows.base, {i: ZERO})), step.attr // rows.parts, condition)
    step = min((t.step for t in taken.values()), default=0)
    squares = _squares({n: t for n, t in taken.items() if t.step == step})
    if not squares:
        return None
    result: list[Stmt] = []
    trips = lanes // step
    for part in range(step):
        found: dict[Expr, Expr] = {}
        for rows, condition, places in squares:
            here = None if count is None else count * step - part * lanes
            block, filling = _block(rows._replace(base=rows.base + part * lanes), next(iter(places)).dtype, names, here, condition)
            result += filling
            found |= {n: load(block, n.dtype, i * step + (place - part * lanes)) for n, place in places.items()}
        body = map_expressions(loop.body, lambda e, found=found: substitute(e, found))
        if part:
            body = map_expressions(body, lambda e, first=part * trips: substitute(e, {i: i + first}))
        result.append(replace(loop, stop=const(trips), body=body, pragma="unroll"))
    return tuple(result)


def _squares(taken: dict[Expr, Taken]) -> list[tuple[Rows, Expr | None, dict[Expr, int]]]:
    """What is loaded together, under which condition, and which element of how many neighbours each is: all of them are taken, so that nothing is read that nobody asks for."""
    found: list[tuple[Rows, Expr | None, dict[Expr, int]]] = []
    left = list(taken)
    while left:
        rows, step, condition = taken[left[0]]
        near: dict[Expr, int] = {}
        for n in left:
            t = taken[n]
            if n.dtype is left[0].dtype and t.condition is condition and t.rows._replace(base=rows.base) == rows:
                far = difference(t.rows.base, rows.base)
                if far.is_const and abs(far.attr) < step:
                    near[n] = far.attr
        lowest = min(near, key=lambda n: near[n])
        places = {n: k - near[lowest] for n, k in near.items()}
        if {*places.values()} == {*range(step)}:
            found.append((taken[lowest].rows, condition, places))
        left = [n for n in left if n not in near]
    return found


def _first_rows(body: Block, i: Expr) -> tuple[Block, Expr | None]:
    """What is done in each trip, and in how many of them, where a guard lets only the first pass."""
    if len(body) == 1 and isinstance(s := body[0], If) and not s.orelse and s.condition.op == "less_than" and not s.condition.buffers:
        position, end = s.condition.args
        left = difference(end + i, position)
        if i.attr in position.names and i.attr not in left.names:
            return s.body, left
    return body, None


def _performed(roots: tuple[Expr, ...]) -> dict[Expr, Expr | None]:
    """The parts that are evaluated whatever the data, and what a choice between them takes if its condition holds, and nothing else does, with that condition (None: always)."""
    found: dict[Expr, Expr | None] = dict.fromkeys(always(*roots))
    choices = [n for n in found if is_lazy(n)]
    for choice in choices:
        condition, chosen, other = choice.args
        otherwise = set(always(other))
        for n in always(chosen):
            before = found.get(n, condition)
            found[n] = None if n in otherwise else condition if before is condition else before and call("bit_or", before, condition)
    elsewhere = set(postorder(*(choice.args[2] for choice in choices)))
    return {n: condition for n, condition in found.items() if condition is None or n not in elsewhere}


class Rows(NamedTuple):
    """What a vector gathers: of each row of a block one element, or a word of so many."""

    buffer: str
    element: DType  # as it lies in memory
    parts: int
    base: Expr
    growth: Expr  # from each row to the next
    last: Expr | None  # the row that stands for all after it, if there is one
    first: Expr | None  # and for all before it

    def at(self, row: Expr) -> Expr:
        row = row if self.last is None else minimum(row, self.last)
        return self.base + (row if self.first is None else maximum(row, self.first)) * self.growth


class Taken(NamedTuple):
    """What a vector gathers in the first trip, how many of its words further it is in the next, and under which condition that is (None: always)."""

    rows: Rows
    step: int
    condition: Expr | None


def _rows(e: Expr) -> Rows | None:
    """A vector of elements, or of words of neighbours, as rows; None where it is something else."""
    elements = (e,) if e.op == "gather" else parts(e)
    forms = [_strided(x.args[0]) for x in elements]
    if not forms or any(f is None for f in forms):
        return None
    (base, growth, *ends), *others = [f for f in forms if f is not None]
    if any((difference(b, base), g, w) != (const(k), growth, ends) for k, (b, g, *w) in enumerate(others, 1)):
        return None
    return Rows(elements[0].attr, elements[0].dtype.element, len(elements), base, growth, *ends)


def _strided(addresses: Expr) -> tuple[Expr, Expr, Expr | None, Expr | None] | None:
    """The scalars b, g and perhaps m and l of `b + ramp * g` or `b + max(min(ramp, m), l) * g`, as vectors of addresses are written."""
    if addresses.op != "add" or addresses.args[1].op != "mul":
        return None
    base, (growth, lane) = addresses.args[0], addresses.args[1].args
    if base.op != "broadcast" or growth.op != "broadcast":
        return None
    first = last = None
    if lane.op == "max" and lane.args[1].op == "broadcast":
        lane, first = lane.args[0], lane.args[1].args[0]
    if lane.op == "min" and lane.args[1].op == "broadcast":
        lane, last = lane.args[0], lane.args[1].args[0]
    return (base.args[0], growth.args[0], last, first) if lane.op == "ramp" else None


def _block(rows: Rows, vector: DType, names: Names, count: Expr | None, condition: Expr | None) -> tuple[str, list[Stmt]]:
    """The name of an array of vectors that holds the block turned over, and the statements that fill it; `count`: of each row only so many elements are there; `condition`: none is loaded, or wanted, unless it holds."""
    lanes = vector.lanes
    here, there = names.fresh("block"), names.fresh("turned")
    k = names.fresh("k")
    row, half = var(k), const(lanes // 2)
    read = vload(rows.buffer, rows.element, lanes * rows.parts, rows.at(row), count)
    read = read if rows.parts == 1 else make("bitcast", vector, (read,))
    if condition is not None:
        read = call("where", condition, read, broadcast(const(0, vector.element), lanes))
    first = StoreTo(here, row, read)
    result: list[Stmt] = [Array(here, vector, lanes, "register"), Array(there, vector, lanes, "register")]
    result.append(For(k, ZERO, const(lanes), (first,), pragma="unroll"))

    def zipped(here: str, there: str) -> Stmt:
        a, b = load(here, vector, row), load(here, vector, row + half)
        pair = (StoreTo(there, row * 2, zip_halves(a, b, high=False)), StoreTo(there, row * 2 + 1, zip_halves(a, b, high=True)))
        return For(k, ZERO, half, pair, pragma="unroll")

    twice, once = divmod(lanes.bit_length() - 1, 2)
    there_and_back = (zipped(here, there), zipped(there, here))
    result += [For(names.fresh("stage"), ZERO, const(twice), there_and_back, pragma="unroll")] if twice > 1 else there_and_back * twice
    return (there, [*result, zipped(here, there)]) if once else (here, result)
