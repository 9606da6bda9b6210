"""Movement: every method edits the view of its operand and makes no node, unless a second fill must be kept apart from a first one."""

from __future__ import annotations

from collections.abc import Sequence

from .dtypes import DType
from .expr import ONE, TRUE, ZERO, Expr, Scalar, axis as place, both, call, ceildiv, const, maximum, minimum, total
from .graph import Shape, View
from .tensor import BuildError, Int, Range, Tensor, show, show_shape
from .values import Values, constant_value, literal, same_literal


class Movement(Values):
    """See `Builder`."""

    def moved(self, x: Tensor, index: Sequence[Expr], shape: Sequence[Expr], condition: Expr | None = None, fill: Scalar = 0) -> Tensor:
        """x read at `index` (positions along x's axes over the new $ axes), and the fill outside the condition."""
        extents = tuple(self.extent(e) for e in shape)
        condition = None if condition is None else self.tidy(condition, extents)
        if condition is TRUE:  # which masks nothing
            condition = None
        if condition is not None and x.view.domain is not None and not same_literal(x.view.fill, fill, x.dtype):
            x = self.contiguous(x)
        view = x.view.through({place(k): e for k, e in enumerate(index)})
        domain = both(view.domain, condition)
        # what is known of the positions includes the condition: outside it nothing is read
        view = View(view.node, tuple(self.within_reach(self.tidy(e, extents, domain), "the position") for e in view.index), None, 0)
        moved = Tensor(view, extents, x.weak)
        if domain is None:
            return moved
        return self.masked(moved, domain, fill if x.view.domain is None else x.view.fill)

    def along(self, x: Tensor, a: int, position: Expr) -> list[Expr]:
        """The identity index map of x but for axis a, which is read at `position`."""
        return [position if k == a else place(k) for k in range(x.rank)]

    # ---- order of axes

    def transpose(self, x: Tensor, order: Sequence[int] = ()) -> Tensor:
        """Axis k of the result is axis order[k] of x; no order reverses; E0314."""
        places = [self.axis_number(a, x.rank) for a in order] if order else list(range(x.rank))[::-1]
        if sorted(places) != list(range(x.rank)):
            raise BuildError("E0314", f"{list(order)} is not a permutation of the {x.rank} axes", f"the operand has shape {show_shape(x.shape)}")
        index: list[Expr] = [ZERO] * x.rank
        for k, a in enumerate(places):
            index[a] = place(k)
        return self.moved(x, index, [x.shape[a] for a in places])

    def squeeze(self, x: Tensor, axes: int | Sequence[int] | None = None) -> Tensor:
        """Without the given axes, which must have extent 1 (None: every axis of extent 1); E0317."""
        if axes is None:
            gone = tuple(k for k, e in enumerate(x.shape) if e is ONE)
        else:
            gone = self.axis_numbers(axes, x.rank)
        for k in gone:
            if not self.same(x.shape[k], 1):
                raise BuildError("E0317", f"axis {k} has extent {show(x.shape[k])}, only an axis of extent 1 can be squeezed")
        kept = [k for k in range(x.rank) if k not in gone]
        index = [place(kept.index(k)) if k in kept else ZERO for k in range(x.rank)]
        return self.moved(x, index, [x.shape[k] for k in kept])

    def unsqueeze(self, x: Tensor, axes: int | Sequence[int]) -> Tensor:
        """New axes of extent 1 at these places of the result."""
        count = 1 if isinstance(axes, int) else len(axes)
        new = self.axis_numbers(axes, x.rank + count)
        old = [k for k in range(x.rank + count) if k not in new]
        shape = [ONE] * (x.rank + count)
        for k, a in enumerate(old):
            shape[a] = x.shape[k]
        return self.moved(x, [place(a) for a in old], shape)

    # ---- pieces

    def limits(self, given: Range | Int | None, extent: Expr) -> tuple[Expr, Expr, int]:
        """(start, extent, step) of one axis of a slice, with Python's defaults, clamping and negative positions.  A symbolic position of unknown sign
        is taken from the front and becomes a precondition."""
        if given is None:
            return ZERO, extent, 1
        if not isinstance(given, tuple):
            position = self.from_front(given, extent)
            self.require(
                both(ZERO.le(position), position.lt(extent)) or TRUE, "E0319", f"index {show(given)} is outside the axis of extent {show(extent)}"
            )
            return position, ONE, 0
        start, stop, step = (*given, None, None, None)[:3]
        step = 1 if step is None else step
        if isinstance(step, Expr):
            if not step.is_const:
                raise BuildError("E0320", f"the step {show(step)} of a slice is not a literal")
            step = int(step.attr)
        if step == 0:
            raise BuildError("E0317", "the step of a slice is 0")
        if step > 0:
            low = ZERO if start is None else self.clamped(start, ZERO, extent, extent)
            high = extent if stop is None else self.clamped(stop, ZERO, extent, extent)
            return low, self.tidy(maximum(ceildiv(high - low, step), 0)), step
        last = extent - 1
        low = last if start is None else self.clamped(start, const(-1), last, extent)
        high = const(-1) if stop is None else self.clamped(stop, const(-1), last, extent)
        return low, self.tidy(maximum(ceildiv(low - high, -step), 0)), step

    def from_front(self, position: Int, extent: Expr) -> Expr:
        """A position counted from the end where it is negative."""
        e = self.tidy(position)
        if self.proves(e.lt(0)):
            return self.tidy(e + extent)
        if not self.proves(ZERO.le(e)):
            self.require(ZERO.le(e), "E0319", f"the position {show(e)} is of unknown sign")
        return e

    def clamped(self, position: Int, low: Expr, high: Expr, extent: Expr) -> Expr:
        return self.tidy(minimum(maximum(self.from_front(position, extent), low), high))

    def slice(self, x: Tensor, ranges: Sequence[Range | Int | None]) -> Tensor:
        """One entry an axis (missing ones: all): (start, stop, step) as in Python, an integer (drops the axis), or None (all); E0313, E0317, E0319."""
        if len(ranges) > x.rank:
            raise BuildError("E0313", f"{len(ranges)} positions for a tensor of rank {x.rank}")
        index: list[Expr] = []
        shape: list[Expr] = []
        for k, extent in enumerate(x.shape):
            start, count, step = self.limits(ranges[k] if k < len(ranges) else None, extent)
            if step == 0:
                index.append(start)
            else:
                index.append(start + place(len(shape)) * step)
                shape.append(count)
        return self.moved(x, index, shape)

    def split(self, x: Tensor, extents: Sequence[Int], axis: int = 0) -> tuple[Tensor, ...]:
        """Pieces of the given extents, which must add up to the axis; one may be -1; E0311, E0317."""
        a = self.axis_number(axis, x.rank)
        whole = x.shape[a]
        given = [self.tidy(e) for e in extents]
        open_ones = [k for k, e in enumerate(given) if e.is_const and e.attr == -1]
        if len(open_ones) > 1:
            raise BuildError("E0317", "only one piece of a split may be -1")
        if open_ones:
            rest = total(e for k, e in enumerate(given) if k not in open_ones)
            given[open_ones[0]] = self.tidy(whole - rest)
        for e in given:
            self.require(ZERO.le(e), "E0317", f"a piece of extent {show(e)}")
        self.check_same(total(given), whole, "the pieces of a split and its axis")
        pieces: list[Tensor] = []
        start = ZERO
        for e in given:
            pieces.append(self.window(x, a, start, e))
            start = self.tidy(start + e)
        return tuple(pieces)

    def window(self, x: Tensor, a: int, start: Expr, extent: Expr) -> Tensor:
        """`extent` positions from `start` on along axis a, known to be inside."""
        return self.moved(x, self.along(x, a, place(a) + start), (*x.shape[:a], extent, *x.shape[a + 1 :]))

    def flip(self, x: Tensor, axes: int | Sequence[int] | None = None) -> Tensor:
        """Reversed along these axes (None: all)."""
        chosen = self.axis_numbers(axes, x.rank)
        return self.moved(x, [x.shape[k] - 1 - place(k) if k in chosen else place(k) for k in range(x.rank)], x.shape)

    def roll(self, x: Tensor, shift: Int, axis: int) -> Tensor:
        """np.roll: position p moves to (p + shift) mod extent."""
        a = self.axis_number(axis, x.rank)
        return self.moved(x, self.along(x, a, (place(a) - shift) % x.shape[a]), x.shape)

    def tile(self, x: Tensor, counts: Sequence[Int]) -> Tensor:
        """np.tile."""
        rank = max(x.rank, len(counts))
        self.check_rank(rank)
        wide = self.expand(x, (*[ONE] * (rank - x.rank), *x.shape))
        times = [ONE] * (rank - len(counts)) + [self.tidy(c) for c in counts]
        for c in times:
            self.require(ZERO.le(c), "E0317", f"a tile count of {show(c)}")
        index = [place(k) if times[k] is ONE else place(k) % e for k, e in enumerate(wide.shape)]
        return self.moved(wide, index, [e * c for e, c in zip(wide.shape, times, strict=True)])

    def unfold(self, x: Tensor, size: Int, step: Int = 1, axis: int = -1) -> Tensor:
        """As torch.Tensor.unfold: the windows of `size` along `axis`, `step` apart; a window's positions are a new last axis."""
        a = self.axis_number(axis, x.rank)
        size, step = self.tidy(size), self.tidy(step)
        self.require(both(ZERO.le(size), size.le(x.shape[a])) or TRUE, "E0317", f"a window of {show(size)} in an axis of extent {show(x.shape[a])}")
        self.require(ZERO.lt(step), "E0317", f"a step of {show(step)}")
        count = (x.shape[a] - size) // step + 1
        return self.moved(x, self.along(x, a, place(a) * step + place(x.rank)), (*x.shape[:a], count, *x.shape[a + 1 :], size))

    # ---- masks

    def pad(self, x: Tensor, widths: Sequence[tuple[Int, Int]], value: Scalar | Tensor | None = None) -> Tensor:
        """(before, after) for each axis; outside x the value (0 or false where none is given) is read; E0313, E0317."""
        if len(widths) != x.rank:
            raise BuildError("E0313", f"{len(widths)} pairs of widths for a tensor of rank {x.rank}")
        fill = literal(0, x.dtype) if value is None else self.fill_value(x, value)
        index: list[Expr] = []
        shape: list[Expr] = []
        conditions: list[Expr] = []
        for k, (before, after) in enumerate(widths):
            before, after = self.tidy(before), self.tidy(after)
            for width in (before, after):
                self.require(ZERO.le(width), "E0317", f"a negative padding {show(width)} on axis {k}")
            position = place(k) - before
            index.append(position)
            shape.append(x.shape[k] + before + after)
            conditions += [ZERO.le(position), position.lt(x.shape[k])]
        return self.moved(x, index, shape, both(*conditions), fill)

    def fill_value(self, x: Tensor, value: Scalar | Tensor) -> Scalar:
        """A fill as a literal of x's dtype, by the rules for weak numbers; E0320 where it is no literal."""
        given = value if isinstance(value, Tensor) else self.constant(value)
        if not x.weak and given.weak:
            given = self.retype(given, x.dtype)
        found = constant_value(given)
        if found is None or given.rank:
            raise BuildError("E0320", "the value of a padding must be a literal")
        if given.dtype is not x.dtype:
            raise BuildError("E0301", f"a padding of {given.dtype} on {x.dtype}", f"try (cast {x.dtype} …)")
        return literal(found, x.dtype)

    def triangle(self, x: Tensor, k: Int, upper: bool) -> Tensor:
        if x.rank < 2:
            raise BuildError("E0313", f"triu and tril need two axes, the operand has rank {x.rank}")
        below = place(x.rank - 2) + k
        column = place(x.rank - 1)
        keep = call("less_equal", below, column) if upper else call("less_equal", column, below)
        return self.masked(x, keep, 0)

    def triu(self, x: Tensor, k: Int = 0) -> Tensor:
        """The last two axes (i, j) where j >= i + k, else 0."""
        return self.triangle(x, k, True)

    def tril(self, x: Tensor, k: Int = 0) -> Tensor:
        """The last two axes (i, j) where j <= i + k, else 0."""
        return self.triangle(x, k, False)

    def eye(self, n: Int, dtype: DType | None = None) -> Tensor:
        """Ones where both positions are the same, else zeros."""
        return self.masked(self.ones((n, n), dtype), place(0).eq(place(1)), 0)

    # ---- joining

    def concat(self, xs: Sequence[Tensor], axis: int = 0) -> Tensor:
        """One after the other along `axis`: a chain of `where` on masks; E0301, E0311, E0313."""
        if not xs:
            raise BuildError("E0317", "concat of nothing")
        parts = self.unify(*xs, what="the operands of concat")
        rank = parts[0].rank
        for x in parts:
            if x.rank != rank:
                raise BuildError("E0313", f"concat of shapes {' and '.join(show_shape(x.shape) for x in parts)}: the ranks differ")
        a = self.axis_number(axis, rank)
        for x in parts[1:]:
            for k in range(rank):
                if k != a:
                    self.check_same(parts[0].shape[k], x.shape[k], f"axis {k} of the operands of concat")
        extents = [x.shape[a] for x in parts]
        shape = (*parts[0].shape[:a], self.tidy(total(extents)), *parts[0].shape[a + 1 :])
        result: Tensor | None = None
        start = shape[a]
        for x in reversed(parts):
            start = self.tidy(start - x.shape[a])
            result = self.joined(x, result, start, a, shape)
        assert result is not None
        return result

    def joined(self, x: Tensor, after: Tensor | None, start: Expr, a: int, shape: Shape) -> Tensor:
        """x from `start` on along axis a; `after` is what follows it."""
        position = place(a) - start
        here = both(ZERO.le(position), position.lt(x.shape[a]))
        piece = self.moved(x, self.along(x, a, position), shape, here, 0)
        if after is None:
            return piece
        return self.where(self.mask(position.lt(x.shape[a]), shape), piece, after)

    def stack(self, xs: Sequence[Tensor], axis: int = 0) -> Tensor:
        """Joined along a new axis."""
        if not xs:
            raise BuildError("E0317", "stack of nothing")
        return self.concat([self.unsqueeze(x, axis) for x in xs], axis)
