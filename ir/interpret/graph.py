"""The graph level, evaluated exactly: the definition of what a composite means, with a bound for the error of a right implementation.

Evaluation is pulled by the outputs.  Every node is made in *tiles* of at most TILE elements, cut along its outer axes and kept in a cache of limited size, so a
tensor that does not fit in memory is never whole: a reduction asks for the tiles that it needs, a sum of products goes through matrix products of its
factors (see `contract`).  Small tensors are one tile.  A request is a generator's `yield`, so the depth of a graph is not Python's.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Generator, Mapping
from itertools import product
from typing import Any

import numpy as np

from .. import expr as ex
from ..errors import CompilerBug
from ..graph import Graph, Node, View, make
from ..primops import OPS
from .bounds import Error, constant, error
from .contract import multiply, sum_of_products
from .extremes import sole
from .judge import Bounded, IndexFault, Verdict, judge
from .meaning import Array, compute, from_numpy, identity, working
from .nest import run_nest
from .reads import Pull, Reads, Values
from .reduce import Partial, among_terms, exact_beside, finish, merge, of_magnitudes, partial
from .scatter import scatter, store
from .tiles import Box, axes_of, boxes, chunks, two_groups

TILE = 1 << 21  # elements of one tile, and of the joint domain of one step of a reduction
CACHE = 1 << 30  # bytes of finished tiles that are kept


def evaluate(graph: Graph, inputs: Mapping[str, Any], sizes: Mapping[str, int], *, bounds: bool = True) -> dict[str, Bounded]:
    """The exact value of every output, by port name.

    `inputs` holds every in, inout and scalar port: arrays in logical shape, or numbers.  `sizes` gives the free sizes.  With `bounds=False` only the
    values are computed (bounds are 0 then).  Raises IndexFault where an element that some output needs is gathered from outside its tensor, or one is scattered
    to there; ValueError for an input of the wrong shape.
    """
    with np.errstate(all="ignore"):
        evaluator = _Evaluator(graph, inputs, sizes, bounds)
        evaluator.check_empty(graph)
        return {name: evaluator.output(node) for name, node in graph.outputs}


def reads_outside(graph: Graph, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> bool:
    """Whether some index of the graph is outside, be it in a value that no output has a use for: whether a kernel computes those (and so reports them) is its own affair."""
    with np.errstate(all="ignore"):
        evaluator = _Evaluator(graph, inputs, sizes, True)
        try:
            for node in graph.nodes():
                if node.op == "gather":  # also of no elements: what each row asks for is looked at once
                    evaluator.check(tuple(map(_of_its_own_axes, node.args[1:])), evaluator.extents(node.attr.extents), evaluator.extents(node.shape))
                elif node.op == "scatter":
                    evaluator.check(node.args[2:], evaluator.extents(node.shape), evaluator.extents(node.attr.extents))
        except IndexFault:
            return True
    return False


def _of_its_own_axes(view: View) -> View:
    """What is read, as a tensor of the axes alone that it moves with."""
    node = view.node
    if node.op not in OPS:
        return view
    args = tuple(map(_of_its_own_axes, node.args))
    moving = set[int]().union(*(a.axes for a in args))
    shape = tuple(extent if k in moving else ex.ONE for k, extent in enumerate(node.shape))
    index = tuple(e if k in moving else ex.ZERO for k, e in enumerate(view.index))
    return View(make(node.op, node.dtype, shape, args, node.attr, node.span), index, view.domain, view.fill)


class _Evaluator(Reads):
    def __init__(self, graph: Graph, inputs: Mapping[str, Any], sizes: Mapping[str, int], bounds: bool) -> None:
        super().__init__(sizes)
        self.bounds = bounds
        self.cache: OrderedDict[tuple[Node, tuple[int, ...]], Values] = OrderedDict()
        self.cached_bytes = 0
        self.nests: dict[Any, list[Values]] = {}
        self.reads: dict[Node, int] = dict.fromkeys(graph.nodes(), 0)
        for n in self.reads:
            for a in n.args:
                self.reads[a.node] += 1
        for _, n in graph.outputs:
            self.reads[n] += 1
        self.inputs: dict[str, Array] = {}
        for p in graph.ports:
            if p.name in inputs:
                array = np.asarray(inputs[p.name])
                shape = self.extents(p.shape)
                if array.shape != shape:
                    raise ValueError(f"{p.name} has shape {array.shape}, expected {shape}")
                self.inputs[p.name] = array

    # ---- tiles

    def tile_shape(self, node: Node) -> tuple[int, ...]:
        """How large the tiles of a node are: whole inner axes, a piece of one, single positions of the outer ones."""
        shape = list(self.extents(node.shape))
        if node.op in ("scatter", "update", "nest"):
            return tuple(max(n, 1) for n in shape)
        for k in range(len(shape)):
            inner = math.prod(shape[k + 1 :])
            if node.op == "scan" and k == node.attr.axis:
                continue
            if shape[k] * inner > TILE:
                shape[k] = max(1, TILE // max(inner, 1))
        return tuple(max(n, 1) for n in shape)

    def output(self, node: Node) -> Bounded:
        shape = self.extents(node.shape)
        v, e = self.drive(self.fetch(node, tuple((0, n) for n in shape)))
        v = np.broadcast_to(v, shape)
        if e is None:
            return Bounded(v, np.broadcast_to(np.zeros(()), shape), np.broadcast_to(np.zeros((), bool), shape))
        e = np.broadcast_to(e, shape)
        return Bounded(v, e, np.isinf(e))

    def check_empty(self, graph: Graph) -> None:
        """What has no elements is asked for by nobody; the updates that a scatter stores into it are outside all the same."""
        for node in graph.nodes():
            if node.op == "scatter" and 0 in self.extents(node.shape) and 0 not in self.extents(node.attr.extents):
                self.check(node.args[2:], self.extents(node.shape), self.extents(node.attr.extents))

    def check(self, indices: tuple[View, ...], extents: tuple[int, ...], domain: tuple[int, ...]) -> None:
        """Each index on its own, over the axes that it depends on."""
        for view, n in zip(indices, extents, strict=True):
            over = tuple((0, m if k in axes_of(view) else 1) for k, m in enumerate(domain))
            self.drive(self.positions((view,), (n,), over))  # type: ignore[arg-type]

    def drive(self, root: Pull) -> Values:
        """Run a generator and those that it asks for, on a stack of our own."""
        stack: list[tuple[Pull, tuple[Node, tuple[int, ...]] | None]] = [(root, None)]
        answer: Values | None = None
        while True:
            generator, key = stack[-1]
            try:
                wanted = generator.send(answer)  # type: ignore[arg-type]
            except StopIteration as stop:
                answer = stop.value
                stack.pop()
                if key is None:
                    return stop.value
                self.keep(key, stop.value)
                continue
            answer = self.cache.get(wanted)
            if answer is None:
                node, place = wanted
                shape, tile = self.extents(node.shape), self.tile_shape(node)
                box = tuple((p * t, min((p + 1) * t, n)) for p, t, n in zip(place, tile, shape, strict=True))
                stack.append((self.make(node, box), wanted))
            else:
                self.cache.move_to_end(wanted)

    def keep(self, key: tuple[Node, tuple[int, ...]], values: Values) -> None:
        node = key[0]
        if node.op in OPS and self.reads.get(node, 1) == 1 and math.prod(self.extents(node.shape)) > TILE:
            # a large tensor on its way to one reader: made again if it is asked for again
            return
        self.cache[key] = values
        self.cached_bytes += _bytes(values)
        while self.cached_bytes > CACHE and len(self.cache) > 1:
            _, old = self.cache.popitem(last=False)
            self.cached_bytes -= _bytes(old)

    def fetch(self, node: Node, box: Box) -> Pull:
        """The values of a node over a box of its domain."""
        shape = tuple(hi - lo for lo, hi in box)
        if 0 in shape:
            return np.zeros(shape, working(node.dtype)), None
        if node.op == "input":
            return from_numpy(self.port(node)[tuple(slice(lo, hi) for lo, hi in box)], node.dtype), None
        tile = self.tile_shape(node)
        places = [range(lo // t, (hi - 1) // t + 1) for (lo, hi), t in zip(box, tile, strict=True)]
        if all(len(p) == 1 for p in places):
            v, e = yield node, tuple(p[0] for p in places)
            inside = tuple(slice(lo - p[0] * t, hi - p[0] * t) for (lo, hi), p, t in zip(box, places, tile, strict=True))
            return v[inside], None if e is None else e[inside]
        value, bound = np.empty(shape, working(node.dtype)), None
        for place in product(*places):
            v, e = yield node, place
            begins = [max(p * t, lo) for p, t, (lo, _) in zip(place, tile, box, strict=True)]
            ends = [min((p + 1) * t, hi) for p, t, (_, hi) in zip(place, tile, box, strict=True)]
            there = tuple(slice(b - lo, f - lo) for b, f, (lo, _) in zip(begins, ends, box, strict=True))
            inside = tuple(slice(b - p * t, f - p * t) for b, f, p, t in zip(begins, ends, place, tile, strict=True))
            value[there] = v[inside]
            if e is not None:
                bound = np.zeros(shape) if bound is None else bound
                bound[there] = e[inside]
        return value, bound

    # ---- nodes

    def make(self, node: Node, box: Box) -> Pull:
        """The values of a node over a box of its domain, as arrays of exactly that shape (strides may be 0)."""
        shape = tuple(hi - lo for lo, hi in box)
        if node.op == "const":
            v, e = constant(node.attr.value, node.dtype)
        elif node.op == "iota":
            assert node.attr.expr is not None
            axes = [np.arange(lo, hi).reshape([-1 if j == k else 1 for j in range(len(box))]) for k, (lo, hi) in enumerate(box)]
            v, e = np.asarray(self.index(node.attr.expr, axes), np.int64), None
        elif node.op == "reached":
            v, e = np.asarray(math.prod(self.extents(node.attr.extents)), np.int64), None
        elif node.op in ("contiguous", "previous"):
            v, e = yield from self.read(node.args[0], box)
        elif node.op == "cascade":
            v, e = yield from self.fetch(node.args[node.attr.result].node, box)
        elif node.op in OPS:
            v, e = yield from self.elementwise(node, box)
        elif node.op in _STRUCTURAL:
            v, e = yield from _STRUCTURAL[node.op](self, node, box)
        else:
            raise CompilerBug("interpret", f"no meaning for node {node.op}")
        return np.broadcast_to(v, shape), None if e is None else np.broadcast_to(e, shape)

    def elementwise(self, node: Node, box: Box) -> Pull:
        args: list[Array] = []
        errors: list[Error] = []
        for a in node.args:
            v, e = yield from self.read(a, box)
            args.append(v)
            errors.append(e)
        source = node.args[0].dtype
        value = np.asarray(compute(node.op, args, source, node.dtype))
        if not self.bounds:
            return value, None
        bound = error(node.op, value, args, errors, source, node.dtype)
        if node.op in ("add", "sub") and node.dtype.is_inexact:
            for view, other, e in zip(node.args, reversed(args), errors, strict=True):
                count = self.terms(view.node)
                if count and (e is not None or not exact_beside(other, node.dtype)):
                    size = np.abs(other) if e is not None else np.abs(other) + (yield from self.read(of_magnitudes(view), box))[0]
                    bound = among_terms(bound, size, count, node.dtype)
        if bound is not None and node.op == "equal" and source.is_float:
            certain = sole(node, box, self.extents(node.shape), args, errors)
            bound = bound if certain is None else np.where(certain, 0.0, bound)
        return value, bound

    def terms(self, node: Node) -> int:
        """How many a sum has; 0 where the node is no sum."""
        return math.prod(self.extents(node.attr.extents)) if node.op == "reduce" and node.attr.combiner == "add" else 0

    def reduce(self, node: Node, box: Box) -> Pull:
        shape = tuple(hi - lo for lo, hi in box)
        combiner, d, kept = node.attr.combiner, node.dtype, len(box)
        extents = self.extents(node.attr.extents)
        if 0 in shape or 0 in extents:
            return np.full(shape, identity(combiner, d)), None
        joint = box + tuple((0, n) for n in extents)
        factors = self.factors(node) if combiner == "add" and d.kind != "bool" else [node.args[0]]
        ranges = [hi - lo for lo, hi in joint]
        has = [frozenset(k for k in axes_of(f) if ranges[k] > 1) for f in factors]
        every = frozenset(k for k, n in enumerate(ranges) if n > 1)
        groups = two_groups(has, ranges) if len(factors) > 1 and every not in has else [list(range(len(factors)))]
        sets = [every] if len(groups) == 1 else [frozenset().union(*(has[k] for k in g)) for g in groups] + [frozenset(range(kept))]
        lengths = chunks(ranges, sets, TILE)
        value, bound = None, None
        for outer in boxes(box, lengths[:kept]):
            whole: Partial | None = None
            for inner in boxes(joint[kept:], lengths[kept:]):
                part = yield from self.part(node, factors, groups, outer + inner)
                whole = part if whole is None else merge(combiner, whole, part, d)
            assert whole is not None
            v, e = finish(combiner, whole, math.prod(extents), d, self.bounds)
            if outer == box:
                return v, e
            value = np.empty(shape, v.dtype) if value is None else value
            there = tuple(slice(lo - first, hi - first) for (lo, hi), (first, _) in zip(outer, box, strict=True))
            value[there] = v
            if e is not None:
                bound = np.zeros(shape) if bound is None else bound
                bound[there] = e
        assert value is not None
        return value, bound

    def part(self, node: Node, factors: list[View], groups: list[list[int]], joint: Box) -> Generator[Any, Values, Partial]:
        """The reduction over one piece of the joint domain."""
        shape, kept, d = tuple(hi - lo for lo, hi in joint), node.rank, node.dtype
        merged: list[Values] = []
        for group in groups:
            product_: Values | None = None
            for k in group:
                v, e = yield from self.read(factors[k], joint)
                product_ = (v, e) if product_ is None else multiply(product_, (v, e), d, self.bounds, len(factors) == 2)
            assert product_ is not None
            merged.append(product_)
        if len(merged) == 2:
            return sum_of_products(merged[0], merged[1], shape, kept, d, self.bounds)
        v, e = merged[0]
        return partial(node.attr.combiner, np.broadcast_to(v, shape), e, tuple(range(kept, len(shape))), d, self.bounds)

    def factors(self, node: Node) -> list[View]:
        """The operands of the product that a sum runs over, as views over the joint domain: multiplications that nothing else reads are looked through."""
        found: list[View] = []
        stack = [node.args[0]]
        while stack:
            view = stack.pop()
            inner = view.node
            if inner.op == "mul" and inner.dtype is node.dtype and view.domain is None and self.reads.get(inner, 1) == 1:
                stack.extend(reversed(view.operands))
            else:
                found.append(view)
        return found

    def scan(self, node: Node, box: Box) -> Pull:
        shape = tuple(hi - lo for lo, hi in box)
        if 0 in shape:
            return np.zeros(shape, working(node.dtype)), None
        v, e = yield from self.read(node.args[0], box)
        k = node.attr.axis
        running = partial(node.attr.combiner, np.broadcast_to(v, shape), e, (k,), node.dtype, self.bounds, running=True)
        count = np.arange(1, shape[k] + 1).reshape([-1 if j == k else 1 for j in range(len(shape))])
        return finish(node.attr.combiner, running, count, node.dtype, self.bounds)

    def positions(self, indices: tuple[View, ...], extents: tuple[int, ...], box: Box) -> Generator[Any, Values, tuple[list[Array], Array | None]]:
        """Index operands over a box as int64 arrays, checked against `extents`, and where they are undecided."""
        places: list[Array] = []
        open_: Array | None = None
        for view, n in zip(indices, extents, strict=True):
            v, e = yield from self.read(view, box)
            if v.size and (int(v.min()) < 0 or int(v.max()) >= n):
                raise IndexFault(f"an index between {v.min()} and {v.max()} into an axis of extent {n}")
            places.append(v.astype(np.int64))
            if e is not None:
                open_ = (e > 0) if open_ is None else open_ | (e > 0)
        return places, open_

    def gather(self, node: Node, box: Box) -> Pull:
        shape = tuple(hi - lo for lo, hi in box)
        if 0 in shape:
            return np.zeros(shape, working(node.dtype)), None
        places, open_ = yield from self.positions(node.args[1:], self.extents(node.attr.extents), box)
        v, e = yield from self.pick(node.args[0], places, len(box))
        if open_ is not None and self.bounds:
            e = np.where(open_, np.inf, 0.0 if e is None else e)
        return v, e

    def scatter(self, node: Node, box: Box) -> Pull:
        domain = self.extents(node.attr.extents)
        over = tuple((0, n) for n in domain)
        base = yield from self.read(node.args[0], box)
        if 0 in domain:
            return base
        places, open_ = yield from self.positions(node.args[2:], self.extents(node.shape), over)
        updates = yield from self.read(node.args[1], over)
        return scatter(node.attr.combiner, base, updates, places, open_, self.extents(node.shape), domain, node.dtype, self.bounds)

    def update(self, node: Node, box: Box) -> Pull:
        domain = self.extents(node.attr.extents)
        base = yield from self.read(node.args[0], box)
        value = yield from self.read(node.args[1], tuple((0, n) for n in domain))
        axes = [np.arange(n).reshape([-1 if j == k else 1 for j in range(len(domain))]) for k, n in enumerate(domain)]
        places = [np.asarray(self.index(e, axes)) for e in node.attr.at]
        return store(base, value, places, self.extents(node.shape), domain)

    def nest(self, node: Node, box: Box) -> Pull:
        nest = node.attr.nest
        assert nest is not None
        key = (id(nest), node.args)
        if key not in self.nests:
            operands: list[Values] = []
            for a, b in zip(node.args, nest.operands, strict=True):
                shape = self.extents(b.shape)
                v, e = yield from self.read(a, tuple((0, n) for n in shape))
                operands.append((np.broadcast_to(v, shape), None if e is None else np.broadcast_to(e, shape)))
            shapes = [self.extents(b.shape) for b in nest.results]
            self.nests[key] = run_nest(nest, operands, shapes, self.sizes, self.bounds)
        return self.nests[key][node.attr.result]


_STRUCTURAL: dict[str, Any] = {
    "nest": _Evaluator.nest,
    "reduce": _Evaluator.reduce, "scan": _Evaluator.scan, "gather": _Evaluator.gather, "scatter": _Evaluator.scatter, "update": _Evaluator.update,
}  # fmt: skip


def _bytes(values: Values) -> int:
    return values[0].nbytes + (0 if values[1] is None else values[1].nbytes)


__all__ = ["Bounded", "IndexFault", "Verdict", "evaluate", "judge", "reads_outside"]
