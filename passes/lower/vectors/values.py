"""What an expression is in all lanes: a scalar where every lane has the same value, else the vector of the lanes' values."""

from __future__ import annotations

from typing import Final

from ....ir.bounds import Known
from ....ir.dtypes import DType
from ....ir.expr import INDEX, ZERO, Expr, both, broadcast, call, const, gather, load, make, pick, ramp, unzip, var, vload
from ....ir.kernel import loads_in
from ....ir.operator_kinds import DIVIDES
from ....ir.simplify import simplify
from ....ir.walks import substitute
from ..affine import difference, divide, slope
from ..positions import NARROWED, narrowed
from ..words import parts
from .arrays import Arrays
from .axis import ONE_STEP, TWO_STEPS, Axis, Serial
from .columns import column, is_row, row_start
from .guards import First, any_lane, guard, guarded, inside, is_every_other

MOST_STRETCHES: Final = 4  # that one vector is put together of
_NOTHING: Final = Known({})  # of variables


class Values:
    """Expressions of the body of one vector loop."""

    def __init__(self, axis: Axis, arrays: Arrays, around: str, rows: int) -> None:
        self.axis, self.arrays = axis, arrays
        self.around = around  # the variable of the loop around
        self.rows = rows  # its trips, where it is unrolled
        self.open: First | None = None  # the lanes that a guard around lets through
        self.stored = ""  # the buffer that is stored into

    def scalar(self, e: Expr) -> Expr:
        """Raises Serial where the lanes differ."""
        result = self.widen(e)
        if result.dtype.lanes > 1:
            raise Serial
        return result

    def vector(self, e: Expr) -> Expr:
        """All lanes of what has been widened."""
        return e if e.dtype.lanes > 1 else broadcast(e, self.axis.lanes)

    def vectors(self, e: Expr) -> Expr:
        return self.vector(self.widen(e))

    def aligned(self, name: str, address: Expr) -> Expr:
        """The index, in vectors, of a register array's elements from `address`."""
        index = divide(self.axis.at_base(address), self.axis.lanes) if self.axis.slope(address) is ONE_STEP else None
        return self.arrays.aligned(name, index, self.axis.lanes)

    def widen(self, root: Expr) -> Expr:
        """A scalar where every lane has the same value, else the vector of the lanes' values."""
        partial = guarded(root, self.axis, self.widen, self.open, self.is_square)
        arrays = self.arrays.candidates.keys()
        done: dict[Expr, Expr] = {}
        stack = [root]
        while stack:
            n = stack[-1]
            if n not in done:
                if not self.axis.varies(n) and n.buffers.isdisjoint(arrays):
                    done[n] = self.same(n, partial)
                elif n.op == "bit_or" and n not in partial and (word := self.words(n)) is not None:
                    done[n] = word
                elif n.op == "load":  # its address is seldom wanted as a vector
                    done[n] = self.load(n, partial.get(n, self.open))
                elif waiting := [a for a in n.args if a not in done]:
                    stack += waiting
                    continue
                elif n.op == "var":
                    done[n] = self.variable(n)
                else:
                    args = tuple([done[a] for a in n.args])
                    done[n] = self.chosen(n, args, partial) if n in partial else self.operator(n, args)
            stack.pop()
        return done[root]

    def same(self, n: Expr, partial: dict[Expr, First]) -> Expr:
        """What has one value for all lanes; what it reads where only some may load is read if there are any."""
        for first in dict.fromkeys(partial[m] for m in loads_in(n) if m in partial) if partial else ():
            n = call("where", any_lane(first, self.axis.lanes), n, const(0, n.dtype))
        return n

    def variable(self, n: Expr) -> Expr:
        lanes, base = self.axis.lanes, self.axis.base
        if n.attr in self.axis.wide:
            return var(n.attr, n.dtype.vector(lanes))
        return ramp(lanes) if base is ZERO else call("add", broadcast(base, lanes), ramp(lanes))

    def load(self, n: Expr, first: First | None) -> Expr:
        """`first`: only these lanes may be read."""
        name, lanes, (address,) = n.attr, self.axis.lanes, n.args
        if name in self.axis.wide:
            return load(name, n.dtype.vector(lanes), self.scalar(address))
        if name in self.arrays.candidates:
            return load(name, n.dtype.vector(lanes), self.aligned(name, address))
        if not self.axis.varies(address):
            return make("load", n.dtype, (self.scalar(address),), name)
        if not in_memory(n.dtype):
            raise Serial
        growth = self.axis.slope(address)
        if growth is ONE_STEP:
            return self.consecutive(n, first)
        if is_every_other(growth, lanes, first):
            return self.every_other(n, first)
        if first is not None and (growth is None or not (self.is_square(address) or (first.skip is None and first.stop.is_const))):
            raise Serial
        if first is None and (found := self.column(n, growth)) is not None:
            return found
        backwards = growth is not None and growth.is_const and growth.attr == -1
        if (growth is None or backwards) and first is None and (found := self.near(n, address)) is not None:
            return found
        if growth is None:
            places = self.widen(address)
            return gather(name, n.dtype, places) if places.dtype.lanes > 1 else make("load", n.dtype, (places,), name)
        # beyond the first lanes, which nobody asks for, the last of them again; before them the first
        lane = ramp(lanes) if first is None else call("min", ramp(lanes), broadcast(first.stop - 1, lanes))
        if first is not None and first.skip is not None:
            lane = call("max", lane, broadcast(first.skip, lanes))
        steps = call("mul", broadcast(growth, lanes), lane)
        return gather(name, n.dtype, call("add", broadcast(self.axis.at_base(address), lanes), steps))

    def is_square(self, address: Expr) -> bool:
        """Whether what is gathered lies side by side along the loop around, or is every other one, for as many trips as there are lanes: `../transposes.py` loads it so."""
        return self.rows == self.axis.lanes and slope(address, var(self.around), lambda e: self.around in e.names) in (ONE_STEP, TWO_STEPS)

    def consecutive(self, n: Expr, first: First | None) -> Expr:
        name, lanes, at = n.attr, self.axis.lanes, self.axis.at_base(n.args[0])
        some = vload(name, n.dtype, lanes, at) if first is None else vload(name, n.dtype, lanes, at, first.stop, first.skip)
        if first is None or first.skip is not None or self.around not in first.stop.names or name == self.stored:
            return some
        # most iterations load whole vectors; after one that might be masked, the machine asks for nothing ahead of time (what is stored is there already)
        return call("where", const(lanes, INDEX).le(first.stop), vload(name, n.dtype, lanes, at), some)

    def words(self, n: Expr) -> Expr | None:
        """Words, put together of elements that lie side by side in memory, one after the other; None where they are not."""
        loads = parts(n)
        if not loads or self.open is not None or any(x.op != "load" or x.attr in self.axis.wide or x.attr in self.arrays.candidates for x in loads):
            return None
        first = loads[0].args[0]
        if any(difference(x.args[0], first) is not const(k, INDEX) for k, x in enumerate(loads)):
            return None
        if self.axis.slope(first) is not const(len(loads), INDEX):
            return self.words_again(n, loads)
        side_by_side = vload(loads[0].attr, loads[0].dtype, self.axis.lanes * len(loads), self.axis.at_base(first))
        return make("bitcast", n.dtype.vector(self.axis.lanes), (side_by_side,))

    def words_again(self, n: Expr, loads: tuple[Expr, ...]) -> Expr | None:
        """The same few words again and again, as many as a vector has or fewer; None where they are others."""
        lanes, address = self.axis.lanes, loads[0].args[0]
        if address.buffers or not self.axis.wide.isdisjoint(address.names) or not address.kinds & DIVIDES:
            return None
        places = [simplify(substitute(address, {var(self.axis.loop.var): self.axis.base + k}), _NOTHING) for k in range(lanes)]
        steps = [difference(p, places[0]) for p in places]
        count = next((k for k in range(1, lanes) if steps[k] is ZERO), lanes)
        if count < 2 or lanes % count or any(step is not const(k % count * len(loads), INDEX) for k, step in enumerate(steps)):
            return None
        some = vload(loads[0].attr, loads[0].dtype, count * len(loads), places[0])
        few = make("bitcast", n.dtype.vector(count), (some,))
        return pick(few, few, tuple(k % count for k in range(lanes)))

    def every_other(self, n: Expr, first: First | None) -> Expr:
        """Every other one of consecutive elements: of two vectors, the second from the last element of the first on, so that nothing beyond the last one wanted is read."""
        at, lanes = self.axis.at_base(n.args[0]), self.axis.lanes
        counts = ((), ()) if first is None else ((first.stop * 2 - 1,), (first.stop * 2 - lanes,))
        a, b = (vload(n.attr, n.dtype, lanes, at + k, *count) for k, count in zip((0, lanes - 1), counts, strict=True))
        return unzip(a, b)

    def column(self, n: Expr, growth: Expr | None) -> Expr | None:
        """An element of each row, where rows are a few elements that lie one behind the other; None where they are more, or not all there."""
        if not is_row(growth, n.dtype, self.axis.lanes) or growth is None or (before := row_start(self.axis, n, growth.attr)) is None:
            return None
        start = self.axis.at_base(n.args[0]) - before
        lanes = self.axis.lanes
        return column([vload(n.attr, n.dtype, lanes, start + k * lanes) for k in range(growth.attr)], before)

    def near(self, n: Expr, address: Expr) -> Expr | None:
        """Elements whose places beside each other no variable decides (x // 2, x % 4): the stretches of memory that hold them, and of those their lanes.  None where there are many, or long ones."""
        axis, lanes = self.axis, self.axis.lanes
        if n.dtype.kind == "bool" or address.buffers or not axis.wide.isdisjoint(address.names):
            return None
        stretches: list[tuple[Expr, dict[int, int]]] = []  # a first place, and for some lanes how far from it
        for k in range(lanes):
            place = simplify(substitute(address, {var(axis.loop.var): axis.base + k}), _NOTHING)
            for start, offsets in stretches:
                if (step := difference(place, start)).is_const:
                    offsets[k] = step.attr
                    break
            else:
                stretches.append((place, {k: 0}))
            if len(stretches) > min(MOST_STRETCHES, lanes // 2):
                return None
        result: Expr | None = None
        for start, offsets in stretches:
            low, high = min(offsets.values()), max(offsets.values())
            if (span := high - low + 1) > 2 * lanes:
                return None
            at = start + low
            if span == 1:
                part = make("load", n.dtype, (at,), n.attr)
                if len(stretches) == 1:
                    return part
                part = broadcast(part, lanes)
            else:
                wide = 1 << (span.bit_length() - 1)  # two vectors of so many lanes, of which the second ends with the stretch
                a, b = (vload(n.attr, n.dtype, wide, at + k) for k in (0, span - wide))
                places = [offsets.get(k, low) - low for k in range(lanes)]
                part = pick(a, b, tuple(k if k < wide else k - span + 2 * wide for k in places))
            result = part if result is None else pick(result, part, tuple(lanes + k if k in offsets else k for k in range(lanes)))
        return result

    def operator(self, n: Expr, args: tuple[Expr, ...]) -> Expr:
        if all(a.dtype.lanes == 1 for a in args):
            return make(n.op, n.dtype, args, n.attr)
        axis, lanes = self.axis, self.axis.lanes
        if n.op in NARROWED and n.args[0].dtype is INDEX:
            trips = difference(axis.loop.stop, axis.loop.start).attr // lanes
            narrow = narrowed(n, args, var(axis.loop.var), axis.base, trips, axis.varies)
            if narrow is not None:
                return narrow
        if n.op == "where":  # a condition that is the same in every lane stays scalar: a choice between vectors, still lazy
            condition, a, b = args
            return call("where", condition, self.vector(a), self.vector(b))
        if n.op == "ins":
            return make("ins", n.dtype.vector(lanes), tuple(map(self.vector, args)), n.attr)
        return call(n.op, *map(self.vector, args), to=n.dtype.vector(lanes) if n.op in ("cast", "bitcast") else None)

    def chosen(self, n: Expr, args: tuple[Expr, ...], partial: dict[Expr, First]) -> Expr:
        """A choice whose loads are of the first lanes only.  Zeros in the other lanes are what such a load gives; else lanes are compared.  Where there is no lane at all, nothing is gathered."""
        found = guard(n.args[0], self.axis, self.widen)
        assert found is not None
        others, first = found
        a, b = self.vector(args[1]), self.vector(args[2])
        if not self.ends_in_zeros(n.args[1], partial) or not (n.args[2].is_const and n.args[2].attr == 0):
            a = call("where", inside(first, self.axis.lanes), a, b)
        if any(m in partial and self.axis.varies(m) and self.axis.slope(m.args[0]) not in (ONE_STEP, TWO_STEPS) for m in loads_in(n.args[1])):
            others = [*others, any_lane(first, self.axis.lanes)]
        rest = both(*others)
        return a if rest is None else call("where", rest, a, b)

    def ends_in_zeros(self, n: Expr, partial: dict[Expr, First]) -> bool:
        """Whether lanes that a guard keeps from being read are 0: loads of consecutive elements that nothing else reads in all lanes, and products of such (0 · ∞ is no 0)."""
        if n.op == "mul":
            return all(self.ends_in_zeros(a, partial) for a in n.args)
        plain = n in partial and n.op == "load" and n.attr not in self.axis.wide and n.attr not in self.arrays.candidates
        return plain and self.axis.slope(n.args[0]) is ONE_STEP


def in_memory(d: DType) -> bool:
    """Whether vectors of this dtype are loaded and stored; complex numbers are pairs."""
    return not d.is_complex
