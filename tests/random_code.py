"""Random kernels and programs (see random_ir): assembled from small pieces, each of which is valid and has one result whatever the order of its threads."""

from __future__ import annotations

import random

from luminal.ir import program as p
from luminal.ir.dtypes import DType, f32, f64, i32
from luminal.ir.expr import (
    ONE,
    ZERO,
    Expr,
    both,
    broadcast,
    call,
    const,
    extract,
    first,
    fold,
    gather as gather_lanes,
    last,
    load,
    minimum,
    null,
    ramp,
    size,
    var,
    vload,
    where,
)
from luminal.ir.graph import Port, Size
from luminal.ir.kernel import Alloc, Barrier, Block, Buffer, Check, If, Kernel, Let, Loop, Module, Region, Store, While, statements
from luminal.ir.walks import postorder

M, N = size("M"), size("N")
I, J = var("i"), var("j")  # noqa: E741


# ---- kernels


class _Kernels:
    """Each piece fills the M by N buffer `out` from the M by N buffers `sources`."""

    def __init__(self, rng: random.Random, dtype: DType) -> None:
        self.rng, self.dtype = rng, dtype

    def value(self, at: tuple[Expr, Expr], sources: list[str], depth: int = 3) -> Expr:
        rng = self.rng
        if depth == 0 or rng.random() < 0.2:
            if not sources or rng.random() < 0.2:
                return const(rng.randint(-3, 3), self.dtype)
            if rng.random() < 0.25:  # a neighbour, where there is one
                i = at[0] + rng.randint(-1, 1)
                return where(both(ZERO.le(i), i.lt(M)) or ZERO.le(i), load(rng.choice(sources), self.dtype, i, at[1]), const(0, self.dtype))
            return load(rng.choice(sources), self.dtype, *at)
        a, b = (self.value(at, sources, depth - 1) for _ in range(2))
        op = rng.choice(("add", "sub", "max", "min", "where"))
        return where(call("less_than", a, b), a, b) if op == "where" else call(op, a, b)

    def pointwise(self, out: str, sources: list[str]) -> Block:
        kinds = self.rng.choice((("serial", "serial"), ("parallel", "serial"), ("parallel", "parallel"), ("block.x", "thread.x")))
        return (Loop("i", ZERO, M, (Loop("j", ZERO, N, (Store(out, (I, J), self.value((I, J), sources)),), kinds[1]),), kinds[0]),)

    def vectors(self, out: str, sources: list[str]) -> Block:
        """Split by the lanes: a full tile as a vector loop, else a guarded serial loop."""
        lanes = self.rng.choice((4, 8))
        j0, j1 = var("j.0"), var("j.1")
        at = j0 * lanes + j1
        store = Store(out, (I, at), self.value((I, at), sources))
        full = (Loop("j.1", ZERO, const(lanes), (store,), "vector"),)
        rest = j0 * lanes + var("j.2")
        cut = (Loop("j.2", ZERO, minimum(const(lanes), N - j0 * lanes), (Store(out, (I, rest), self.value((I, rest), sources)),)),)
        tiles = Loop("j.0", ZERO, (N + (lanes - 1)) // lanes, (If((j0 * lanes + lanes).le(N), full, cut),))
        return (Loop("i", ZERO, M, (tiles,), "parallel"),)

    def rows(self, out: str, sources: list[str]) -> Block:
        """Every row filled with a combination of itself."""
        combiner = self.rng.choice(("add", "max", "min"))
        k = var("k")
        start = const(0 if combiner == "add" else -9, self.dtype)
        body = (
            Alloc(Buffer("acc", self.dtype, (), "register")),
            Store("acc", (), start),
            Loop("k", ZERO, N, (Store("acc", (), self.value((I, k), sources, 2), combiner),), self.rng.choice(("reduce", "serial"))),
            Let("row", load("acc", self.dtype)),
            Loop("j", ZERO, N, (Store(out, (I, J), var("row", self.dtype)),)),
        )
        return (Loop("i", ZERO, M, body, self.rng.choice(("serial", "parallel"))),)

    def staged(self, out: str, sources: list[str]) -> Block:
        """A team copies into shared memory, waits, and reads what the others wrote."""
        fill = Loop("i", ZERO, M, (Loop("j", ZERO, N, (Store("tile", (I, J), self.value((I, J), sources, 2)),)),), "workshare")
        use_i = var("i.b")
        mirrored = load("tile", self.dtype, M - 1 - use_i, var("j.b"))
        read = Loop("i.b", ZERO, M, (Loop("j.b", ZERO, N, (Store(out, (use_i, var("j.b")), mirrored),)),), "queue")
        return (Alloc(Buffer("tile", self.dtype, (M, N), "shared", align=64)), Region((fill, Barrier(), read)))

    def steps(self, out: str, sources: list[str]) -> Block:
        """Both ends of a loop told apart, and a strided loop that counts down."""
        edge = If(first("i"), (Store(out, (I, J), const(1, self.dtype)),), (Store(out, (I, J), self.value((I, J), sources)),))
        more = If(last("i"), (Store(out, (I, J), const(2, self.dtype), "add"),))
        j_down = Loop("j", N - 1, const(-1), (edge, more), "serial", const(-1))
        return (Loop("i", ZERO, M, (j_down,)),)

    def halving(self, out: str, sources: list[str]) -> Block:
        """A `while` that ends by its condition or by its bound."""
        del sources
        count = load("n", f32)
        trip = (Store("n", (), call("mul", count, const(0.5, f32))), Store("t", (), const(1, self.dtype), "add"))
        loop = While(call("less_than", const(1.0, f32), count), trip, const(self.rng.randint(1, 9)))
        setup = (
            Alloc(Buffer("n", f32, (), "register")),
            Alloc(Buffer("t", self.dtype, (), "register")),
            Store("n", (), const(30.0, f32)),
            Store("t", (), const(0, self.dtype)),
        )
        fill = Loop("i", ZERO, M, (Loop("j", ZERO, N, (Store(out, (I, J), load("t", self.dtype)),)),))
        return (Check(ZERO.le(M), 2), *setup, loop, fill)


def random_module(rng: random.Random) -> Module:
    """One to three kernels over M by N buffers; the last writes the port `out`."""
    dtype = rng.choice((f32, f64, i32))
    ports = tuple(Port(f"x{k}", dtype, (M, N), "in", (1, 0) if rng.random() < 0.3 else ()) for k in range(rng.randint(1, 2)))
    ports += (Port("out", dtype, (M, N), "out"),)
    k = _Kernels(rng, dtype)
    known = [q.name for q in ports[:-1]]
    temps: list[Buffer] = []
    kernels: list[Kernel] = []
    count = rng.randint(1, 3)
    for n in range(count):
        if n < count - 1:
            strides = (ONE, M) if rng.random() < 0.3 else ()
            temps.append(Buffer(f"t{n}", dtype, (M, N), "global", strides, rng.choice((0, 64))))
        target = "out" if n == count - 1 else temps[-1].name
        piece = rng.choice((k.pointwise, k.vectors, k.rows, k.staged, k.steps, k.halving))
        body = piece(target, known)
        used = _touched(body)
        names = tuple(b for b in [*(q.name for q in ports), *(t.name for t in temps)] if b in used)
        kernels.append(Kernel(f"{piece.__name__}.{n}", names, body, ("split(i, 4)",) * rng.randint(0, 2), ("because",) * rng.randint(0, 1)))
        known.append(target)
    return Module("random", (Size("M"), Size("N", max=1 << 20)), ports, tuple(temps), tuple(kernels))


def _touched(body: Block) -> set[str]:
    found: set[str] = set()
    for s in statements(body):
        found |= {s.buffer} if isinstance(s, Store) else set()
        for e in s.expressions():
            found |= {x.attr for x in postorder(e) if x.op == "load"}
    return found


# ---- programs


def random_program(rng: random.Random) -> p.Program:
    """`out[i] = f(a[i], b[i])` in vectors with a serial tail, sometimes followed by a sum of the lanes; called by an entry that checks its pointers."""
    dtype = rng.choice((f32, f64, i32))
    lanes = rng.choice((2, 4, 8))
    step = const(lanes)
    i = var("i")

    def combine(a: Expr, b: Expr) -> Expr:
        for _ in range(rng.randint(1, 4)):
            op = rng.choice(("add", "sub", "max", "min", "where"))
            a = where(call("less_than", a, b), b, a) if op == "where" else call(op, a, b)
        return a

    state = rng.getstate()
    vector_value = combine(vload("a", dtype, lanes, i), vload("b", dtype, lanes, i))
    rng.setstate(state)
    scalar_value = combine(load("a", dtype, i), load("b", dtype, i))
    full = p.For(
        "i",
        ZERO,
        N // lanes * lanes,
        (p.StoreTo("out", i, vector_value, const(3).lt(N) if rng.random() < 0.2 else None),),
        step,
        rng.choice(("", "parallel", "unroll")),
    )
    tail = p.For("i", N // lanes * lanes, N, (p.StoreTo("out", i, scalar_value),))
    if rng.random() < 0.4:  # the first lanes of one more vector
        rng.setstate(state)
        some = combine(vload("a", dtype, lanes, i, N - i), vload("b", dtype, lanes, i, N - i))
        tail = p.For("i", N // lanes * lanes, N, (p.StoreTo("out", i, some, count=N - i),), step)
    params = (p.Param("a", dtype, True, True), p.Param("b", dtype, True, True, True), p.Param("out", dtype, True), p.Param("N", N.dtype))
    functions = [p.Function("map", params, (full, tail))]
    calls: list[p.Stmt] = [p.Call("map", ("a", "b", "out", N))]
    if rng.random() < 0.6:
        functions.append(_shift(rng, dtype, lanes))
        calls.append(p.Call("shift", ("work", "out", N, const(rng.randint(1, 3), dtype))))
    entry: list[p.Stmt] = [p.If(call("bit_and", ZERO.lt(N), null(name)), (p.Fail(p.NULL_POINTER),)) for name in ("a", "b", "out")]
    entry += [p.Scratch("work", dtype, N + lanes), *calls] if len(functions) > 1 else calls
    ports = (Port("a", dtype, (N,), "in"), Port("b", dtype, (N,), "in"), Port("out", dtype, (N,), "out"))
    workspace = (N + lanes) * dtype.bytes if len(functions) > 1 else ZERO
    return p.Program(
        "random", (Size("N"),), ports, tuple(functions), tuple(entry), target="any machine", workspace=workspace, notes=("made by chance",)
    )


def _shift(rng: random.Random, dtype: DType, lanes: int) -> p.Function:
    """Copies through scratch memory and an array of vectors, adds a scalar and the sum of a vector's lanes, in a region with a barrier."""
    i, k = var("i"), var("k")
    by = var("by", dtype)
    vector = dtype.vector(lanes)
    total = fold("add", broadcast(by, lanes))
    picked = extract(load("parts", vector, ZERO), rng.randrange(lanes))
    copy = p.For("i", ZERO, N, (p.StoreTo("work", i, load("out", dtype, i)),), ONE, "workshare")
    back = p.For("i", ZERO, N, (p.StoreTo("out", i, call("add", call("add", load("work", dtype, i), total), var("seen", dtype))),), ONE, "queue")
    body: tuple[p.Stmt, ...] = (
        p.Array("parts", vector, 2, rng.choice(("stack", "register"))),
        p.For("k", ZERO, const(2), (p.StoreTo("parts", k, broadcast(by, lanes)),), ONE, "unroll"),
        p.Define("seen", dtype, picked),
        p.Define("left", N.dtype, const(3), True),
        p.While(ZERO.lt(var("left")), (p.Assign("left", var("left") - 1),)),
        p.If(const(lanes).le(N), (p.Define("some", vector, gather_lanes("out", dtype, ramp(lanes))),)),
        p.Region((copy, p.Barrier(), back), N.lt(const(64)) if rng.random() < 0.5 else None),
    )
    params = (p.Param("work", dtype, True), p.Param("out", dtype, True), p.Param("N", N.dtype), p.Param("by", dtype))
    return p.Function("shift", params, body, fails=rng.random() < 0.3)


__all__ = ["random_module", "random_program"]
