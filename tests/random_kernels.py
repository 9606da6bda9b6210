"""Random kernels in the forms that schedules make: split axes with cut, guarded or masked tails, vectors, register tiles, lets, lazy loads.

Every index is inside its buffer wherever it is evaluated, and every value is a small whole number, so that sums are exact in any order.
"""

from __future__ import annotations

import random

from luminal.ir.dtypes import f32, i64
from luminal.ir.expr import ONE, TRUE, ZERO, Expr, call, cast, ceildiv, const, first, last, load, minimum, size, var, where
from luminal.ir.graph import Port, Size
from luminal.ir.kernel import Alloc, Block, Buffer, Check, If, Kernel, Let, Loop, Module, Region, Stmt, Store

M, N = size("M"), size("N")
LANES = 4


class _Random:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.count = 0
        self.plain = rng.random() < 0.5  # nothing lazy or indirect: what vectors are made of

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}.{self.count}"

    def kind(self) -> str:
        return self.rng.choice(("serial", "parallel", "reduce", "serial"))

    # ---- expressions

    def value(self, i: Expr, j: Expr, names: tuple[Expr, ...], depth: int = 3) -> Expr:
        """A value at the position (i, j), which is inside M × N."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.15:
            return rng.choice(
                (
                    load("x", f32, i, j), load("b", f32, j), load("z", f32, i, j), var("alpha", f32), const(float(rng.randint(-3, 3)), f32),
                    cast(f32, i * 2 + j), *names, *(() if self.plain else (load("table", f32, load("at", i64, j)),)),
                )
            )  # fmt: skip
        kind = rng.choice((0, 3, 4)) if self.plain else rng.randrange(5)
        a = self.value(i, j, names, depth - 1)
        if kind == 0:
            return call(rng.choice(("neg", "abs")), a)
        if kind == 1:
            return where(self.condition(i, j), a, self.value(i, j, names, depth - 1))
        if kind == 2:  # a neighbour, where there is one
            return where(ZERO.lt(j), load("x", f32, i, j - 1), const(0.0, f32))
        return call(rng.choice(("add", "sub", "max", "min")), a, a if kind == 3 else self.value(i, j, names, depth - 1))

    def condition(self, i: Expr, j: Expr) -> Expr:
        return self.rng.choice((i.lt(j), j.eq(N - 1), call("less_than", load("x", f32, i, j), const(0.0, f32)), (j % 2).eq(0), TRUE))

    # ---- statements

    def store(self, i: Expr, j: Expr, tile: tuple[str, Expr] | None, total: str | None) -> Block:
        rng = self.rng
        result: list[Stmt] = []
        names: tuple[Expr, ...] = ()
        if rng.random() < 0.5:
            name = self.name("v")
            result.append(Let(name, self.value(i, j, ())))
            names = (var(name, f32),)
        value = self.value(i, j, names)
        if tile is not None:
            result.append(Store(tile[0], (tile[1],), value, rng.choice(("", "add"))))
            value = load(tile[0], f32, tile[1])
        if total is not None:
            result.append(Store(total, (), self.value(i, j, names), "add"))
        result.append(Store(rng.choice(("y", "w")), (i, j), value, rng.choice(("", "add", "max"))))
        return tuple(result)

    def row(self, i: Expr, total: str | None) -> Block:
        """Every j once, by one of the ways to run along an axis."""
        way = self.rng.randrange(5)
        jo, ji, jt = self.name("j"), self.name("j"), self.name("j")
        if way == 0:
            return (Loop(jo, ZERO, N, self.store(i, var(jo), None, total), self.kind() if total is None else "reduce"),)
        if way == 1:
            return (Loop(jo, N - 1, const(-1), self.store(i, var(jo), None, total), "serial", const(-1)),)
        j = var(jo) * LANES + var(ji)
        if way == 2:  # cut
            main = Loop(jo, ZERO, N // LANES, (Loop(ji, ZERO, const(LANES), self.store(i, j, None, total), "vector"),))
            tail = Loop(jt, N // LANES * LANES, N, self.store(i, var(jt), None, total))
            return (main, tail)
        tile = self.name("tile")
        alloc = Alloc(Buffer(tile, f32, (const(LANES * 2),), "register"))
        wide = var(jo) * (LANES * 2) + var(ji)
        zero = Loop(self.name("k"), ZERO, const(LANES * 2), (), "vector")
        zero = Loop(zero.axis, zero.start, zero.stop, (Store(tile, (var(zero.axis),), const(0.0, f32)),), "vector")
        whole = Loop(ji, ZERO, const(LANES * 2), self.store(i, wide, (tile, var(ji)), total), "vector")
        if way == 3:  # guarded by tiles, the last one short
            short = Loop(
                jt, ZERO, minimum(const(LANES * 2), N - var(jo) * (LANES * 2)), self.store(i, var(jo) * (LANES * 2) + var(jt), (tile, var(jt)), total)
            )
            inside = If((var(jo) * (LANES * 2) + LANES * 2).le(N), (whole,), (short,) if self.rng.random() < 0.5 else ())
            return (Loop(jo, ZERO, ceildiv(N, LANES * 2), (alloc, zero, inside)),)
        guarded = Loop(ji, ZERO, const(LANES * 2), (If(wide.lt(N), self.store(i, wide, (tile, var(ji)), total)),), "vector")
        return (Loop(jo, ZERO, ceildiv(N, LANES * 2), (alloc, zero, guarded), "serial"),)

    def kernel(self, name: str) -> Kernel:
        rng = self.rng
        i = self.name("i")
        total = self.name("sum") if rng.random() < 0.6 else None
        body: Block = self.row(var(i), total)
        if total is not None:
            body = (
                Alloc(Buffer(total, f32, (), "register")), Store(total, (), const(0.0, f32)), *body,
                Store("r", (var(i),), where(first(i), call("neg", load(total, f32)), load(total, f32))),
            )  # fmt: skip
        if rng.random() < 0.3:
            body = (*body, If(last(i), (Store("r", (var(i),), const(1.0, f32), "add"),)))
        if rng.random() < 0.2:
            body = (Check(var(i).lt(5), 3), *body)
        loop = Loop(i, ZERO, M, body, self.kind())
        if rng.random() < 0.3:
            return Kernel(name, BUFFERS, (Region((Loop(loop.axis, loop.start, loop.stop, loop.body, "workshare"),)),))
        return Kernel(name, BUFFERS, (loop,))


BUFFERS = ("x", "z", "b", "table", "at", "y", "w", "r")


def random_module(seed: int) -> Module:
    """Two kernels over a row-major, a column-major and a strided matrix, a vector, a table with positions in it, and a scalar."""
    rng = random.Random(seed)
    make = _Random(rng)
    ports = (
        Port("x", f32, (M, N), "in"), Port("z", f32, (M, N), "in", order=(1, 0)), Port("b", f32, (N,), "in"), Port("table", f32, (const(3),), "in"),
        Port("at", i64, (N,), "in", index_limit=const(3)), Port("alpha", f32, (), "scalar"),
        Port("y", f32, (M, N), "inout"), Port("w", f32, (M, N), "inout", strided=("ldw",)), Port("r", f32, (M,), "inout"),
    )  # fmt: skip
    kernels = (make.kernel("k_0"), make.kernel("k_1"))
    return Module(f"random_{seed}", (Size("M"), Size("N"), Size("ldw")), ports, (), kernels, requires=(N.le(size("ldw")), ONE.le(size("ldw"))))
