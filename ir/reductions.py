"""Reductions and scans.  Axes are one, several or None (all); negative ones count from the end."""

from __future__ import annotations

from collections.abc import Sequence

from .dtypes import i64
from .expr import ZERO, Expr, axis as place, product
from .graph import reduce_node, scan_node
from .reshape import Reshape
from .tensor import BuildError, Tensor

Axes = int | Sequence[int] | None


class Reductions(Reshape):
    """See `Builder`."""

    def reduce(self, combiner: str, x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
        """One reduction over these axes by add, mul, max, min, and, or, in the operand's own dtype; E0303, E0312."""
        x = self.strong(x)
        if combiner in ("and", "or"):
            self.check_accepts("bit_and", x.dtype)
        elif combiner in ("max", "min") and x.dtype.kind == "bool":
            combiner = "or" if combiner == "max" else "and"
        else:
            self.check_accepts(combiner, x.dtype)
        gone = self.axis_numbers(axes, x.rank)
        kept = [k for k in range(x.rank) if k not in gone]
        if gone:
            mapping = {place(k): place(new) for new, k in enumerate((*kept, *gone))}
            extents = tuple(x.shape[k] for k in gone)
            node = reduce_node(combiner, tuple(x.shape[k] for k in kept), extents, x.view.through(mapping), self.span)
            x = self.of(node)
        return self.unsqueeze(x, gone) if keepdims and gone else x

    def widened(self, x: Tensor) -> Tensor:
        """bool and integers under 64 bits as i64, the dtype that sums and products of them have."""
        x = self.strong(x)
        return self.cast(x, i64) if x.dtype.kind == "bool" or (x.dtype.is_integer and x.dtype.bits < 64) else x

    def sum(self, x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
        return self.reduce("add", self.widened(x), axes, keepdims)

    def prod(self, x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
        return self.reduce("mul", self.widened(x), axes, keepdims)

    def max(self, x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
        return self.reduce("max", x, axes, keepdims)

    def min(self, x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
        return self.reduce("min", x, axes, keepdims)

    def truth(self, x: Tensor) -> Tensor:
        """x as bool: not zero."""
        return x if x.dtype.kind == "bool" else self.elementwise("not_equal", x, self.constant(0))

    def any(self, x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
        return self.reduce("or", self.truth(x), axes, keepdims)

    def all(self, x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
        return self.reduce("and", self.truth(x), axes, keepdims)

    def count(self, x: Tensor, axes: Axes) -> Expr:
        """How many positions these axes have."""
        return self.tidy(product(x.shape[k] for k in self.axis_numbers(axes, x.rank)))

    def mean(self, x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
        """sum / count; NaN over no elements; E0303 for integers."""
        x = self.needs_float("mean", x)
        return self.elementwise("div", self.reduce("add", x, axes, keepdims), self.integer(self.count(x, axes)))

    def var(self, x: Tensor, axes: Axes = None, keepdims: bool = False, correction: int = 0) -> Tensor:
        """Σ (x - mean)² / max(count - correction, 0), in two passes."""
        x = self.needs_float("var", x)
        away = self.elementwise("sub", x, self.mean(x, axes, keepdims=True))
        squares = self.reduce("add", self.elementwise("mul", away, away), axes, keepdims)
        free = self.elementwise("max", self.integer(self.count(x, axes) - correction), self.constant(0))
        return self.elementwise("div", squares, free)

    def needs_float(self, what: str, x: Tensor) -> Tensor:
        x = self.strong(x)
        if not x.dtype.is_inexact:
            raise BuildError("E0303", f"{what} of {x.dtype}", f"cast to a float dtype first, as in ({what} (cast f32 x))")
        return x

    def argument(self, combiner: str, x: Tensor, axis_number: int | None, keepdims: bool) -> Tensor:
        """The first position of the extreme value, a NaN counting as extreme: the least of the positions where x is its own extreme."""
        x = self.strong(x)
        axes = None if axis_number is None else (self.axis_number(axis_number, x.rank),)
        extreme = self.reduce(combiner, x, axes, keepdims=True)
        hit = self.elementwise("equal", x, extreme)
        if x.dtype.is_float:
            hit = self.elementwise("bit_or", hit, self.elementwise("isnan", x))
        position = ZERO
        for k in range(x.rank) if axes is None else axes:
            position = position * x.shape[k] + place(k)
        found = self.where(hit, self.integer(position, x.shape), self.constant(i64.max))
        return self.reduce("min", found, axes, keepdims)

    def argmax(self, x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """np.argmax: the first of equals, i64; the position in row-major order where no axis is given."""
        return self.argument("max", x, axis, keepdims)

    def argmin(self, x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
        return self.argument("min", x, axis, keepdims)

    def logsumexp(self, x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
        """log Σ exp x (of reals), shifted by the maximum (not by an infinite one, which would make NaN of ±inf)."""
        x = self.needs_float("logsumexp", x)
        top = self.reduce("max", x, axes, keepdims=True)
        shift = self.where(self.elementwise("isinf", top), self.constant(0), top)
        total = self.reduce("add", self.elementwise("exp", self.elementwise("sub", x, shift)), axes, keepdims=True)
        result = self.elementwise("add", self.elementwise("log", total), shift)
        return result if keepdims else self.squeeze(result, self.axis_numbers(axes, x.rank))

    # ---- scans

    def scan(self, combiner: str, x: Tensor, axis: int) -> Tensor:
        """The inclusive running reduction along an axis, in the operand's own dtype."""
        x = self.strong(x)
        self.check_accepts("bit_and" if combiner in ("and", "or") else combiner, x.dtype)
        return self.of(scan_node(combiner, self.axis_number(axis, x.rank), x.view, x.shape, self.span))

    def cumsum(self, x: Tensor, axis: int) -> Tensor:
        return self.scan("add", self.widened(x), axis)

    def cumprod(self, x: Tensor, axis: int) -> Tensor:
        return self.scan("mul", self.widened(x), axis)

    def cummax(self, x: Tensor, axis: int) -> Tensor:
        return self.scan("max", x, axis)

    def cummin(self, x: Tensor, axis: int) -> Tensor:
        return self.scan("min", x, axis)
