"""Positions held in tensors, and partial writes."""

from __future__ import annotations

from collections.abc import Sequence

from .dtypes import INDEX
from .einsum import Contractions
from .expr import ONE, ZERO, Expr, axis as place
from .graph import Shape, gather_node, scatter_node, update_node
from .primops import COMBINERS, OPS, accepts
from .tensor import BuildError, Int, Range, Tensor

_COMBINE = {"set": "set", "add": "add", "max": "max", "min": "min", "mul": "mul"}


class Indexing(Contractions):
    """See `Builder`.  A position outside is an error at run time of the emitted function, unless it is proven inside."""

    def index_tensor(self, x: Tensor) -> Tensor:
        """An integer tensor as i64 positions; E0318."""
        if not x.dtype.is_integer:
            raise BuildError("E0318", f"an index of dtype {x.dtype}", "an index is an integer; try (cast i64 …)")
        return self.cast(x, INDEX)

    def gather_at(self, x: Tensor, indices: Sequence[Tensor]) -> Tensor:
        """x[i0, i1, …] with one integer tensor an axis, broadcast together.  Where every index is a plain integer and proven inside, a view."""
        if len(indices) != x.rank:
            raise BuildError("E0313", f"{len(indices)} indices for a tensor of rank {x.rank}")
        places = [self.index_tensor(i) if i.weak != "int" else i for i in indices]
        shape = self.broadcast_shape(*(i.shape for i in places)) if places else ()
        places = [self.expand(i, shape) for i in places]
        plain = [i.integer for i in places]
        if all(e is not None and self.inside(e, extent, shape) for e, extent in zip(plain, x.shape, strict=True)):
            return self.moved(x, [e for e in plain if e is not None], shape)
        x = self.strong(x)
        return self.of(gather_node(x.view, x.shape, tuple(self.strong(i).view for i in places), shape, self.span))

    def inside(self, position: Expr, extent: Expr, shape: Shape) -> bool:
        """0 <= position < extent wherever the $ axes are inside the shape."""
        return self.proves(ZERO.le(position), shape) and self.proves(position.lt(extent), shape)

    def gather(self, x: Tensor, index: Tensor, axis: int = 0) -> Tensor:
        """np.take(x, index, axis): the axis is replaced by the axes of index."""
        a = self.axis_number(axis, x.rank)
        return self.gather_at(x, self.take_positions(x.shape, index, a))

    def take_positions(self, shape: Shape, index: Tensor, a: int) -> list[Tensor]:
        """One index tensor for each axis of a np.take along axis a: its own position, and `index` for a."""
        r = index.rank
        joint = (*shape[:a], *index.shape, *shape[a + 1 :])
        result: list[Tensor] = []
        for k in range(len(shape)):
            if k == a:
                spread = self.moved(index, [place(a + j) for j in range(r)], joint)
                result.append(spread)
            else:
                result.append(self.integer(place(k if k < a else k + r - 1), joint))
        return result

    def take_along(self, x: Tensor, index: Tensor, axis: int = -1) -> Tensor:
        """np.take_along_axis(x, index, axis): index has x's rank, its other axes broadcast with x's."""
        if index.rank != x.rank:
            raise BuildError("E0313", f"the index has rank {index.rank}, the tensor rank {x.rank}")
        a = self.axis_number(axis, x.rank)
        around = self.broadcast_shape((*x.shape[:a], ONE, *x.shape[a + 1 :]), (*index.shape[:a], ONE, *index.shape[a + 1 :]))
        shape = (*around[:a], index.shape[a], *around[a + 1 :])
        x = self.expand(x, (*around[:a], x.shape[a], *around[a + 1 :]))
        index = self.expand(index, shape)
        return self.gather_at(x, [index if k == a else self.integer(place(k), shape) for k in range(x.rank)])

    def scatter(self, base: Tensor, index: Tensor, updates: Tensor, axis: int = 0, combine: str = "set") -> Tensor:
        """The dual of `gather`: updates (broadcast to the shape of gather(base, index, axis)) combined (set add max min mul) in at those positions."""
        a = self.axis_number(axis, base.rank)
        return self.scatter_at(base, self.take_positions(base.shape, index, a), updates, combine)

    def scatter_at(self, base: Tensor, indices: Sequence[Tensor], updates: Tensor, combine: str = "set") -> Tensor:
        """base[i0, i1, …] combined with updates, one integer tensor an axis, broadcast together; with `set` the last of equal positions wins."""
        if len(indices) != base.rank:
            raise BuildError("E0313", f"{len(indices)} indices for a tensor of rank {base.rank}")
        if combine not in _COMBINE:
            raise BuildError("E0317", f"scatter combines with {' '.join(_COMBINE)}, not with {combine}")
        base, updates = (self.strong(x) for x in self.unify(base, updates, what="base and updates of scatter"))
        if combine in COMBINERS and not accepts(OPS[COMBINERS[combine].op], base.dtype):
            raise BuildError("E0303", f"scatter: {combine} does not take {base.dtype}")
        places = [self.strong(self.index_tensor(i)) for i in indices]
        shape = self.broadcast_shape(*(i.shape for i in places))
        updates = self.expand(updates, shape)
        places = [self.expand(i, shape) for i in places]
        return self.of(scatter_node(combine, base.view, updates.view, tuple(i.view for i in places), shape, base.shape, self.span))

    def update(self, base: Tensor, ranges: Sequence[Range | Int | None], value: Tensor) -> Tensor:
        """base with base[ranges] = value, which is broadcast to that slice; `ranges` as in `slice`."""
        if len(ranges) > base.rank:
            raise BuildError("E0313", f"{len(ranges)} positions for a tensor of rank {base.rank}")
        base, value = (self.strong(x) for x in self.unify(base, value, what="the tensor and the value stored into it"))
        at: list[Expr] = []
        shape: list[Expr] = []
        for k, extent in enumerate(base.shape):
            start, count, step = self.limits(ranges[k] if k < len(ranges) else None, extent)
            at.append(self.tidy(start if step == 0 else start + place(len(shape)) * step))
            shape += [count] if step else []
        value = self.expand(value, shape)
        return self.of(update_node(base.view, value.view, value.shape, tuple(at), base.shape, self.span))
