"""The step `jam`: the iterations of a short loop side by side, inside of the loops that it holds."""

from __future__ import annotations

from ....ir.expr import ZERO, Expr, const, load, var
from ....ir.kernel import (
    Alloc,
    Block,
    Buffer,
    If,
    Kernel,
    Let,
    Loop,
    Prefetch,
    Stmt,
    Store,
    map_block,
    map_expressions,
    statements,
    substitute_block,
    with_blocks,
    written,
)
from ....ir.record import replace
from ....ir.walks import rewrite
from ..affine import constant_extent
from ..tree import Facts, StepError, find, fresh, local_buffers, names_taken, reads, rename, replace_loop


def jam(kernel: Kernel, facts: Facts, axis: str, stores: int = 0) -> Kernel:
    """Run the iterations of a short parallel loop side by side: what each of them does, one statement after the other, inside of the loops and conditions that all of them share.

                                          alloc acc: f32[4] register
        for i.1 in 0 .. 4:                for i.1 in 0 .. 4 unroll:
          alloc acc: f32[] register         acc[i.1] = 0
          acc[] = 0                       for p in 0 .. N reduce:
          for p in 0 .. N reduce:    →      for i.1.b in 0 .. 4 unroll:
            acc[] add= X[i.1, p]              acc[i.1.b] add= X[i.1.b, p]
          let m = acc[] / N               alloc m: f32[4] register
          Y[i.1] = exp(m)                 for i.1.c in 0 .. 4 unroll:
                                            m[i.1.c] = acc[i.1.c] / N
                                            Y[i.1.c] = exp(m[i.1.c])

    The loop has a constant extent from 0.  What an iteration allocates or names, each has for itself; positions that it names are written where they are used, and are not read from memory.
    What depends on the iteration in its bounds or its condition stays whole, and so does a loop that stores into memory that outlives the iteration: lines of the cache that rows share with their
    neighbours, or vectors with theirs, would else be written again and again.  With stores=1, for what is stored once for much that is read, it does not.
    """
    loop = find(kernel, axis)
    count = constant_extent(loop)
    if loop.kind != "parallel" or loop.start is not ZERO or count is None:
        raise StepError(f"jam: `{axis}` is no parallel loop of constant extent from 0")
    return replace_loop(kernel, axis, lambda x: _Jam(kernel, x, count, bool(stores)).block(x.body))


class _Jam:
    """What iterations of a loop have for themselves, and how it is named."""

    def __init__(self, kernel: Kernel, loop: Loop, count: int, stores: bool) -> None:
        self.loop, self.count, self.stores = loop, count, stores
        self.taken = names_taken(kernel) - {loop.axis}
        self.local = local_buffers(kernel).keys()
        self.own: set[str] = set()  # buffers, and values that have become such
        self.positions: dict[Expr, Expr] = {}  # what is named of them

    def block(self, block: Block) -> Block:
        result: list[Stmt] = []
        together: list[Stmt] = []

        def close() -> None:
            if together:
                result.append(self.each(tuple(together)))
                together.clear()

        def apart(s: Stmt) -> None:
            if _whole(s) and not any(map(_whole, together)):
                close()
            together.append(s)

        for s in block:
            (s,) = substitute_block((s,), self.positions)
            if isinstance(s, Alloc):
                result.append(Alloc(self.expanded(s.buffer)))
            elif isinstance(s, Let) and s.value.dtype.is_integer:
                if s.value.buffers:
                    raise StepError(f"jam: the position `{s.name}` is read from memory")
                self.positions[var(s.name, s.value.dtype)] = s.value
            elif isinstance(s, Let):
                result.append(Alloc(self.expanded(Buffer(s.name, s.value.dtype, (), "register"))))
                together.append(Store(s.name, (), s.value))
            elif (
                isinstance(s, (Loop, If))
                and (isinstance(s, If) or _whole(s))
                and self.shared(*s.expressions())
                and (self.stores or written((s,)) <= self.local)
            ):
                close()
                result.append(with_blocks(s, self.block))
            elif isinstance(s, (Store, Prefetch, Loop, If)):
                apart(s)
            else:
                raise StepError(f"jam: `{self.loop.axis}` holds a {type(s).__name__.lower()}")
        close()
        return tuple(result)

    def expanded(self, buffer: Buffer) -> Buffer:
        if buffer.strides:
            raise StepError(f"jam: `{buffer.name}` has strides")
        self.own.add(buffer.name)
        return replace(buffer, shape=(const(self.count), *buffer.shape))

    def shared(self, *found: Expr) -> bool:
        """Whether an expression is the same for all iterations."""
        return all(e.names.isdisjoint({self.loop.axis, *self.own}) and e.buffers.isdisjoint(self.own) for e in found)

    def each(self, block: Block) -> Stmt:
        """The statements for every iteration."""
        axis = fresh(self.loop.axis, self.taken)
        here = var(axis)

        def rule(n: Expr) -> Expr | None:
            return load(n.attr, n.dtype, here, *n.args) if n.op in ("load", "var") and n.attr in self.own else None

        def own_place(s: Stmt) -> Block | None:
            return (replace(s, index=(here, *s.index)),) if isinstance(s, Store) and s.buffer in self.own else None

        whole = any(map(_whole, block))
        body = rename(block, {self.loop.axis: axis})
        body = map_block(map_expressions(body, lambda e: rewrite(e, rule)), own_place)
        if whole:  # what stays the same for an iteration is named before its loops
            changed = written(body)
            same = dict.fromkeys(n for n in reads(body) if n.attr in self.own - changed and n.args == (here,))
            names = {n: var(fresh(f"{n.attr}.own", self.taken), n.dtype) for n in same}
            body = (*(Let(v.attr, n) for n, v in names.items()), *substitute_block(body, names))
        return Loop(axis, ZERO, const(self.count), body, "parallel" if whole else "unroll", span=self.loop.span)


def _whole(s: Stmt) -> bool:
    """Whether it is more than can stand in an unrolled loop."""
    return any(isinstance(x, Loop) and x.kind not in ("vector", "unroll") for x in statements((s,)))
