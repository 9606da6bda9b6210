"""Seeded random IR for property tests: valid, small, and runnable for any sizes (0 included), so that a pass can be checked by running before and after.

    rng = random.Random(seed)
    random_expr(rng, f32, leaves)     an expression of a dtype over given leaves
    random_index(rng, leaves)         integer arithmetic as views and addresses have it: divisors are positive constants
    random_graph(rng)                 inputs, elementwise work, views with masks, reductions, scans, gathers, scatters, updates, a nest now and then
    random_module(rng)                kernels: accumulations, staging, regions, guards, vector loops
    random_program(rng)               functions over flat addresses, vectors, an entry

Values stay small and operators tame (no overflow, no huge cancellation), so results can be compared with a tolerance.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from luminal.ir.dtypes import DType, bool_, f16, f32, f64, i8, i32, i64, u8
from luminal.ir.expr import ZERO, Expr, axis, both, call, cast, const, load, size, var, where
from luminal.ir.graph import (
    Attr,
    Graph,
    Node,
    Port,
    Shape,
    Size,
    View,
    const_node,
    elementwise,
    gather_node,
    identity,
    input_node,
    iota_node,
    make,
    reduce_node,
    scan_node,
    scatter_node,
    update_node,
)
from luminal.ir.kernel import Buffer, Loop, Nest, Store
from random_code import random_module, random_program

__all__ = ["ODD_SIZES", "random_constant", "random_expr", "random_graph", "random_index", "random_module", "random_program", "sizes_for"]

VALUES = (f32, f64, f16, i32, i64, i8, u8, bool_)
ODD_SIZES = (0, 1, 2, 3, 5, 7, 8, 13)
M, N, K = size("M"), size("N"), size("K")

# Operators by the kind of their operands: same dtype in, same dtype out.
_SAME = {
    "float": ("add", "sub", "mul", "max", "min", "neg", "abs", "sin", "cos", "tanh", "floor", "where"),
    "int": ("add", "sub", "mul", "max", "min", "neg", "abs", "bit_and", "bit_or", "bit_xor", "bit_not", "where"),
    "uint": ("add", "mul", "max", "min", "bit_and", "bit_or", "bit_xor", "where"),
    "bool": ("bit_and", "bit_or", "bit_xor", "bit_not", "where"),
}
_COMPARE = ("less_than", "less_equal", "equal", "not_equal")
_REDUCE = {"float": ("add", "max", "min"), "int": ("add", "max", "min"), "uint": ("add", "max", "min"), "bool": ("and", "or")}
_ARITY = {"neg": 1, "abs": 1, "sin": 1, "cos": 1, "tanh": 1, "floor": 1, "bit_not": 1, "where": 3}


def random_constant(rng: random.Random, dtype: DType) -> Expr:
    if dtype.kind == "bool":
        return const(rng.random() < 0.5, dtype)
    if dtype.is_float:
        return const(rng.choice((0.0, -0.0, 1.0, -0.5, 2.0, 0.25, rng.uniform(-2, 2), float("inf"))), dtype)
    return const(rng.randint(0, 9) if dtype.kind == "uint" else rng.randint(-9, 9), dtype)


def random_expr(rng: random.Random, dtype: DType, leaves: Sequence[Expr] = (), depth: int = 4) -> Expr:
    """Of this dtype, over constants and those of `leaves` (any dtypes; casts lead from one to the other)."""
    own = [e for e in leaves if e.dtype is dtype]
    if depth <= 0 or rng.random() < 0.1:
        return rng.choice(own) if own and rng.random() < 0.8 else random_constant(rng, dtype)
    if rng.random() < 0.15:
        return cast(dtype, random_expr(rng, rng.choice([e.dtype for e in leaves] or list(VALUES)), leaves, depth - 1))
    if dtype.kind == "bool" and rng.random() < 0.6:
        operand = rng.choice([e.dtype for e in leaves] or list(VALUES))
        return call(rng.choice(_COMPARE), *(random_expr(rng, operand, leaves, depth - 1) for _ in range(2)))
    op = rng.choice(_SAME[dtype.kind])
    args = [random_expr(rng, dtype, leaves, depth - 1) for _ in range(_ARITY.get(op, 2))]
    if op == "where":
        args[0] = random_expr(rng, bool_, leaves, depth - 1)
    return call(op, *args)


def random_index(rng: random.Random, leaves: Sequence[Expr], depth: int = 4) -> Expr:
    if depth <= 0 or rng.random() < 0.15:
        return rng.choice(leaves) if rng.random() < 0.75 else const(rng.randint(-4, 9))
    a = random_index(rng, leaves, depth - 1)
    match rng.randrange(7):
        case 0 | 1:
            return a + random_index(rng, leaves, depth - 1)
        case 2:
            return a - random_index(rng, leaves, depth - 1)
        case 3:
            return a * rng.choice((-3, -1, 2, 4, 7))
        case 4:
            return a // rng.choice((1, 2, 3, 4, 8))
        case 5:
            return a % rng.choice((1, 2, 3, 4, 8))
        case _:
            return call(rng.choice(("min", "max")), a, random_index(rng, leaves, depth - 1))


def sizes_for(rng: random.Random, graph: Graph) -> dict[str, int]:
    """Odd values for the free sizes, within what is known of them."""
    found = {}
    for s in graph.sizes:
        value = rng.choice(ODD_SIZES)
        found[s.name] = min(s.max, max(s.min, value - value % s.multiple))
    return found


# ---- graphs


class _Graphs:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.nodes: list[Node] = []
        self.ports: list[Port] = []

    def shape(self) -> Shape:
        rng = self.rng
        rank = rng.choice((0, 1, 1, 2, 2, 2, 3))
        return tuple(rng.choice((M, N, K, M + 2, const(3), const(1))) for _ in range(rank))

    def input(self) -> None:
        rng = self.rng
        shape = self.shape()
        order = tuple(rng.sample(range(len(shape)), len(shape))) if rng.random() < 0.3 else ()
        port = Port(f"x{len(self.ports)}", rng.choice(VALUES), shape, "in" if shape or rng.random() < 0.5 else "scalar", order)
        self.ports.append(port)
        self.nodes.append(input_node(port))

    def source(self, dtype: DType | None = None) -> Node:
        """An earlier node, of this dtype if it is given: cast where there is none."""
        rng = self.rng
        node = rng.choice(self.nodes)
        if dtype is None or node.dtype is dtype:
            return node
        own = [n for n in self.nodes if n.dtype is dtype]
        if own and rng.random() < 0.7:
            return rng.choice(own)
        return elementwise("cast", node.shape, identity(node), to=dtype)

    def view(self, node: Node, domain: Shape) -> View:
        """A reading of the node over the domain that stays inside: axes matched by extent (in any order, maybe backwards) or shifted and masked."""
        rng = self.rng
        index: list[Expr] = []
        guard: Expr | None = None
        for extent in node.shape:
            same = [k for k, e in enumerate(domain) if e is extent]
            if same and rng.random() < 0.8:
                k = rng.choice(same)
                index.append(axis(k) if rng.random() < 0.8 else extent - 1 - axis(k))
            elif extent.is_const and rng.random() < 0.5:
                index.append(const(rng.randrange(extent.attr)))
            else:
                at = axis(rng.randrange(len(domain))) * rng.choice((1, 1, 1, 2)) + rng.randint(-2, 2) if domain else const(rng.randint(0, 2))
                index.append(at)
                guard = both(guard, ZERO.le(at), at.lt(extent))
        fill = random_constant(rng, node.dtype).attr
        return View(node, tuple(index), guard, fill) if guard is not None else View(node, tuple(index))

    def elementwise(self) -> Node:
        rng, shape = self.rng, self.shape()
        kind = rng.random()
        if kind < 0.15:
            x = self.source()
            return elementwise("cast", shape, self.view(x, shape), to=rng.choice(VALUES))
        x = self.source()
        if kind < 0.3:
            return elementwise(rng.choice(_COMPARE), shape, *(self.view(n, shape) for n in (x, self.source(x.dtype))))
        op = rng.choice(_SAME[x.dtype.kind])
        args = [x, *(self.source(x.dtype) for _ in range(_ARITY.get(op, 2) - 1))]
        if op == "where":
            args[0] = self.source(bool_)
        return elementwise(op, shape, *(self.view(n, shape) for n in args))

    def reduce(self) -> Node:
        x, shape = self.source(), self.shape()[:2]
        extents = tuple(self.rng.choice((M, N, K, const(3))) for _ in range(self.rng.choice((1, 1, 2))))
        return reduce_node(self.rng.choice(_REDUCE[x.dtype.kind]), shape, extents, self.view(x, shape + extents))

    def scan(self) -> Node:
        x, shape = self.source(), self.shape() or (N,)
        return scan_node(self.rng.choice(_REDUCE[x.dtype.kind]), self.rng.randrange(len(shape)), self.view(x, shape), shape)

    def position(self, domain: Shape, extent: int) -> View:
        """Positions in [0, extent) over the domain."""
        where_ = ZERO
        for k in range(len(domain)):
            where_ = where_ + axis(k) * self.rng.randint(1, 3)
        return identity(iota_node((where_ + self.rng.randrange(extent)) % extent, domain))

    def gather(self) -> Node:
        x, shape = self.source(), self.shape()
        extents = tuple(const(self.rng.randint(1, 4)) for _ in range(self.rng.choice((1, 2))))
        return gather_node(self.view(x, extents), extents, tuple(self.position(shape, e.attr) for e in extents), shape)

    def scatter(self) -> Node:
        rng = self.rng
        shape = tuple(const(rng.randint(1, 4)) for _ in range(rng.choice((1, 2))))
        domain = (rng.choice((M, N)),)
        base = self.source()
        combiners = ("set", "max", "min", "add") if base.dtype.kind in ("int", "float") else ("set",)
        updates = self.view(self.source(base.dtype), domain)
        return scatter_node(
            rng.choice(combiners), self.view(base, shape), updates, tuple(self.position(domain, e.attr) for e in shape), domain, shape
        )

    def update(self) -> Node:
        rng = self.rng
        extent = rng.choice((M, N, const(2)))
        stride, offset = rng.randint(1, 2), rng.randint(0, 2)
        shape = (extent * stride + offset, rng.choice((N, const(3))))
        base = self.source()
        at = (axis(0) * stride + offset, axis(1))
        domain = (extent, shape[1])
        return update_node(self.view(base, shape), self.view(self.source(base.dtype), domain), domain, at, shape)

    def nest(self) -> Node:
        """x[i] = x[i] + (x[i-1] below the first): a loop that carries."""
        x = self.view(self.source(f32), (N,))
        x_node = make("contiguous", f32, (N,), (x,))
        i = var("i")
        before = where(ZERO.lt(i), load("x", f32, i - 1), const(0.0, f32))
        body = (Loop("i", ZERO, N, (Store("x", (i,), call("add", call("mul", load("x", f32, i), const(0.5, f32)), before)),)),)
        buffer = Buffer("x", f32, (N,))
        return make("nest", f32, (N,), (identity(x_node),), Attr(nest=Nest("running", (buffer,), (buffer,), body), result=0))

    def one(self) -> Node:
        rng = self.rng
        pick = rng.random()
        if pick < 0.5:
            return self.elementwise()
        if pick < 0.54:
            return iota_node(random_index(rng, [M, N, *(axis(k) for k in range(2))], 3), (M, N))
        if pick < 0.58:
            dtype = rng.choice(VALUES)
            return const_node(random_constant(rng, dtype).attr, dtype)
        if pick < 0.62:
            x, shape = self.source(), self.shape()
            return make("contiguous", x.dtype, shape, (self.view(x, shape),))
        return rng.choice((self.reduce, self.reduce, self.reduce, self.scan, self.gather, self.scatter, self.update, self.nest))()


def random_graph(rng: random.Random, nodes: int = 8) -> Graph:
    """About `nodes` nodes over sizes M, N, K (from 0), one to three outputs; valid and runnable for any sizes."""
    g = _Graphs(rng)
    for _ in range(rng.randint(1, 3)):
        g.input()
    for _ in range(rng.randint(2, nodes)):
        g.nodes.append(g.one())
    g.nodes.append(g.elementwise())
    made = [n for n in g.nodes if n.op not in ("input", "const")]
    results = made[-1:] + rng.sample(made[:-1], min(len(made) - 1, rng.randint(0, 2)))
    ports = [
        Port(f"y{k}", n.dtype, n.shape, "out", tuple(reversed(range(n.rank))) if n.rank > 1 and rng.random() < 0.2 else ())
        for k, n in enumerate(results)
    ]
    outputs = tuple((p.name, n) for p, n in zip(ports, results, strict=True))
    return Graph("random", (Size("M"), Size("N"), Size("K")), (*g.ports, *ports), outputs)
