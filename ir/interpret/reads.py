"""An operand as its user reads it: through a view, over a box of the user's domain, or at arbitrary positions of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any

import numpy as np

from ..errors import CompilerBug
from ..graph import Node, View
from .bounds import Error, constant
from .meaning import Array, from_numpy, working
from .positions import Positions
from .tiles import Box

Values = tuple[Array, Error]
Pull = Generator[tuple[Node, tuple[int, ...]], Values, Values]  # asks for tiles of other nodes, returns its own values


class Reads(Positions, ABC):
    """What evaluates a graph has one of these: `fetch` is where the values of a node come from."""

    inputs: dict[str, Array]  # ports by name, in logical shape

    @abstractmethod
    def fetch(self, node: Node, box: Box) -> Pull:
        """The values of a node over a box of its domain."""

    def port(self, node: Node) -> Array:
        if node.attr.name not in self.inputs:
            raise ValueError(f"no input {node.attr.name}")
        return self.inputs[node.attr.name]

    def read(self, view: View, box: Box) -> Pull:
        """An operand over a box of its user's domain, with extent 1 along the axes that it does not depend on."""
        shape = tuple(hi - lo for lo, hi in box)
        if 0 in shape:
            return np.zeros(shape, working(view.dtype)), None
        plan = self.strides(view, box) if view.domain is None else None
        if plan is None:
            axes = [np.arange(lo, hi).reshape([-1 if j == k else 1 for j in range(len(box))]) for k, (lo, hi) in enumerate(box)]
            return (yield from self.pick(view, axes, len(box)))
        source, steps, order = plan
        v, e = yield from self.fetch(view.node, source)

        def arranged(x: Array) -> Array:
            x = x[steps]
            by_user = sorted(range(len(order)), key=order.__getitem__)
            extents = [1] * len(box)
            for k in order:
                extents[k] = shape[k]
            return x.transpose(by_user).reshape(extents)

        return arranged(v), None if e is None else arranged(e)

    def strides(self, view: View, box: Box) -> tuple[Box, tuple[Any, ...], list[int]] | None:
        """Where each source axis follows one axis of the user with a stride: the source box, how to index it, and which axes those are; else None."""
        source: list[tuple[int, int]] = []
        steps: list[Any] = []
        order: list[int] = []
        for e, n in zip(view.index, self.extents(view.node.shape), strict=True):
            form = self.linear(e)
            if form is None or len(form[1]) > 1:
                return None
            constant, factors = form
            first = last = constant
            for k, f in factors.items():
                if k in order:
                    return None
                order.append(k)
                first, last = constant + f * box[k][0], constant + f * (box[k][1] - 1)
            low, high = min(first, last), max(first, last)
            if low < 0 or high >= n:
                raise CompilerBug("interpret", f"a view reads positions {low} … {high} of an axis of extent {n}")
            source.append((low, high + 1))
            stride = next(iter(factors.values()), 0)
            steps.append(0 if stride == 0 else slice(None, None, stride))
        return tuple(source), tuple(steps), order

    def pick(self, view: View, axes: list[Array], rank: int) -> Pull:
        """An operand at arbitrary positions: `axes[k]` holds those along axis k of the view's domain, all of one rank, broadcasting together."""
        places = [np.asarray(self.index(e, axes)) for e in view.index]
        inside = None if view.domain is None else np.asarray(self.index(view.domain, axes))
        extents = self.extents(view.node.shape)
        fill, reach = constant(view.fill, view.dtype)
        if inside is not None:
            if not inside.any():
                return np.full((1,) * rank, fill), None if reach is None else np.full((1,) * rank, reach)
            if inside.all():
                inside = None
        if inside is not None:
            places = [np.clip(p, 0, n - 1) for p, n in zip(places, extents, strict=True)]
        hull: list[tuple[int, int]] = []
        for p, n in zip(places, extents, strict=True):
            low, high = int(p.min()), int(p.max())
            if low < 0 or high >= n:
                raise CompilerBug("interpret", f"a view reads positions {low} … {high} of an axis of extent {n}")
            hull.append((low, high + 1))
        places = [p if p.ndim == rank else p.reshape((1,) * rank) for p in places]
        e: Error
        if view.node.op == "input":
            v, e = from_numpy(self.port(view.node)[tuple(places)], view.dtype), None
        else:
            whole, bound = yield from self.fetch(view.node, tuple(hull))
            at = tuple(p - low for p, (low, _) in zip(places, hull, strict=True))
            v, e = whole[at], None if bound is None else bound[at]
        v = v if v.ndim == rank else np.reshape(v, (1,) * rank)
        e = None if e is None else np.reshape(e, v.shape)
        if inside is not None:
            inside = inside if inside.ndim == rank else inside.reshape((1,) * rank)
            if e is not None or reach is not None:
                e = np.where(inside, 0.0 if e is None else e, 0.0 if reach is None else reach)
            v = np.where(inside, v, fill)
        return v, e


__all__ = ["Pull", "Reads", "Values"]
