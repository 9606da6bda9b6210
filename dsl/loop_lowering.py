"""Graph nodes as statements of a nest: what a tensor expression inside a loop computes, for the iteration at hand.

    acc[] = 0                                  the value of `(sum (aref A i))` is acc[]
    for p in 0 .. N: acc[] add= A[i, p]

    inline    elementwise nodes and gathers, by substitution through their views; a reduction whose one reader walks the same domain
    scalar    what has no axes and is read by what has some, before the loops of its reader
    array     scans, scatters, updates, nests, reductions that are read again and again, and what is dear to compute and read twice: local memory,
              whose extents must be known before the loops (else the latter three are computed again)

Statements go where the walk is (`Ground.block`).  A value that a view hides is computed under the view's condition only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from ..ir.bounds import Range
from ..ir.dtypes import INDEX, DType
from ..ir.expr import FALSE, ONE, TRUE, ZERO, Expr, axis, both, call, cast, const, load, var
from ..ir.graph import Node, Shape, View, make, postorder
from ..ir.kernel import Alloc, Buffer, Check, If, Let, Loop, Stmt, Store, identity_of, map_block, statements
from ..ir.primops import OPS
from ..ir.program import BAD_INDEX
from ..ir.record import replace
from ..ir.renaming import rename_buffers
from ..ir.simplify import assuming, simplify
from ..ir.tensor import BuildError, Tensor
from ..ir.walks import leaves, substitute
from .locals import Memory, known_before, space_of
from .scalars import has_loads

if TYPE_CHECKING:
    from .ground import Ground

Point = tuple[Expr, ...]

DEPTH = 32  # of an expression; what is deeper goes through memory
ARRAYS = frozenset({"scan", "scatter", "update", "nest"})


class Lowering:
    """Of one tensor expression.  `leaves` says what its input nodes are: memory of the nest, or a number."""

    def __init__(self, walk: Ground, inputs: Mapping[str, Memory | Expr]) -> None:
        self.walk = walk
        self.inputs = inputs
        self.arrays: dict[Node, str] = {}
        self.scalars: dict[Node, Expr] = {}
        self.memo: dict[tuple[Node, Point, Expr | None], Expr] = {}

    def scalar(self, x: Tensor) -> Expr:
        """The value of a tensor without axes; statements that compute it are emitted."""
        self.prepare(x.view, x.shape)
        return self.read(x.view, (), None)

    def store(self, x: Tensor, memory: str, at: Point, combiner: str) -> None:
        """`memory[at, …] = x`, accumulated by the combiner where there is one.  Where x reads elements of the memory that may have been stored to by
        then, it goes through an array of its own."""
        self.prepare(x.view, x.shape)
        walk, outer = self.walk, self.walk.block
        with self.aside() as block, self.loops(x.shape) as point:
            value = self.read(x.view, point, None)
            place = (*at, *point)
            inner = walk.block
            inner.append(Store(memory, place, value, combiner))
        if all(e.args == place for s in statements(tuple(block)) for e in reads(s, memory)):
            outer.extend(block)
            return
        copy = self.array(x.dtype, x.shape)
        outer.extend(rename_stores(block, memory, copy, point))
        with self.loops(x.shape) as again:
            walk.block.append(Store(memory, (*at, *again), load(copy, x.dtype, *again), combiner))

    # ---- what is computed before the statement

    def prepare(self, root: View, shape: Shape) -> None:
        """Make real what must be, operands before users."""
        nodes = list(postorder(root.node))
        readers: dict[Node, list[tuple[Shape, View]]] = {n: [] for n in nodes}
        readers[root.node].append((shape, root))
        for n in nodes:
            for a in n.args:
                domain = () if n.op in ("reduce", "gather", "scatter", "update") else n.shape
                readers[a.node].append((domain, a))
        depth: dict[Node, int] = {}
        for n in nodes:
            if n in self.arrays or n in self.scalars:
                depth[n] = 0
                continue
            depth[n] = 1 + max((depth[a.node] for a in n.args), default=0)
            if not n.args and n.op != "nest":
                continue
            once = len(readers[n]) == 1 and readers[n][0][1].is_identity and readers[n][0][0] == n.shape
            again = not once and bool(n.shape) and (n.op == "reduce" or (costly(n) and len(readers[n]) > 1))
            if n.op in ARRAYS or depth[n] > DEPTH or (again and known_before(n.shape)):
                self.make_real(n)
            elif not n.shape and (n.op == "reduce" or any(domain for domain, _ in readers[n])):
                self.scalars[n] = self.named(self.value(n, (), None))
            else:
                continue
            depth[n] = 0

    def named(self, value: Expr) -> Expr:
        """The value under a name, so that it is computed once."""
        if value.is_const or value.op in ("var", "size") or (value.op == "load" and not value.args):
            return value
        name = self.walk.fresh("t")
        self.walk.block.append(Let(name, value))
        return var(name, value.dtype)

    def array(self, dtype: DType, shape: Shape) -> str:
        """A new local array; E0320 where its extents are not known before the loops."""
        if not known_before(shape):
            raise BuildError(
                "E0320",
                "this needs a local array whose extents change from one iteration to the next",
                "help: take whole axes, and choose by `where` what counts",
            )
        found = self.walk.fresh("part")
        self.walk.block.append(Alloc(Buffer(found, dtype, shape, space_of(shape))))
        return found

    def make_real(self, node: Node) -> None:
        if node.op == "nest":
            self.nest(node)
            return
        name = self.array(node.dtype, node.shape)
        match node.op:
            case "scan":
                self.scan(node, name)
            case "scatter" | "update":
                self.copy(node.args[0], node.shape, name)
                self.partial(node, name)
            case _:
                with self.loops(node.shape) as point:
                    self.emit(Store(name, point, self.value(node, point, None)))
        self.arrays[node] = name

    def copy(self, view: View, shape: Shape, name: str) -> None:
        with self.loops(shape) as point:
            self.emit(Store(name, point, self.read(view, point, None)))

    def scan(self, node: Node, name: str) -> None:
        """The running value in a register, the scanned axis innermost."""
        k = node.attr.axis
        with self.loops(node.shape[:k] + node.shape[k + 1 :]) as others:
            acc = self.accumulator(node)
            with self.loops((node.shape[k],), "p") as (p,):
                point = (*others[:k], p, *others[k:])
                self.emit(Store(acc, (), self.read(node.args[0], point, None), node.attr.combiner))
                self.emit(Store(name, point, load(acc, node.dtype)))

    def partial(self, node: Node, name: str) -> None:
        """A scatter or an update into memory that holds its base."""
        combiner = node.attr.combiner if node.op == "scatter" and node.attr.combiner != "set" else ""
        with self.loops(node.attr.extents) as point:
            value = self.read(node.args[1], point, None)
            if node.op == "update":
                mapping = {axis(k): e for k, e in enumerate(point)}
                at = tuple(substitute(e, mapping) for e in node.attr.at)
            else:
                at = tuple(self.position(self.read(v, point, None), e, None) for v, e in zip(node.args[2:], node.shape, strict=True))
            self.emit(Store(name, at, value, combiner))

    def nest(self, node: Node) -> None:
        """The loops of a composite that is called: their statements, on memory of this nest."""
        nest = node.attr.nest
        assert nest is not None
        names: dict[str, str] = {}
        written = {b.name for b in nest.results}
        for b, view in zip(nest.operands, node.args, strict=True):
            held = self.inputs.get(view.node.attr.name) if view.node.op == "input" else None
            found = held.name if isinstance(held, Memory) else self.arrays.get(view.node)
            if found is None or b.name in written:
                found = self.array(b.dtype, b.shape)
                self.copy(view, b.shape, found)
            names[b.name] = found
        for k, b in enumerate(nest.results):
            if b.name not in names:
                names[b.name] = self.array(b.dtype, b.shape)
                with self.loops(b.shape) as point:
                    self.emit(Store(names[b.name], point, const(0, b.dtype)))
            for other in (n for n in self.group(node) if n.attr.result == k):
                self.arrays[other] = names[b.name]
        self.walk.block.extend(rename_buffers(nest.body, names))

    def group(self, node: Node) -> list[Node]:
        """The results of a nest that may be asked for: each is a node of its own."""
        assert node.attr.nest is not None
        return [make("nest", b.dtype, b.shape, node.args, replace(node.attr, result=k), node.span) for k, b in enumerate(node.attr.nest.results)]

    # ---- values

    def read(self, view: View, point: Point, guard: Expr | None) -> Expr:
        """An operand at a point of its user's domain; `guard` is when it is asked for at all."""
        mapping = {axis(k): e for k, e in enumerate(point)}
        known = assuming(self.walk.known, guard if guard is not None and not has_loads(guard) else None)
        index = tuple(simplify(substitute(e, mapping), known) for e in view.index)
        domain = None if view.domain is None else simplify(substitute(view.domain, mapping), known)
        if domain is FALSE:
            return const(view.fill, view.dtype)
        if domain is None or domain is TRUE:
            return self.value(view.node, index, guard)
        return call("where", domain, self.value(view.node, index, both(guard, domain)), const(view.fill, view.dtype))

    def value(self, node: Node, point: Point, guard: Expr | None) -> Expr:
        if node in self.arrays:
            return load(self.arrays[node], node.dtype, *point)
        if node in self.scalars:
            return self.scalars[node]
        key = (node, point, guard)
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = self.computed(node, point, guard)
        return found

    def computed(self, node: Node, point: Point, guard: Expr | None) -> Expr:
        match node.op:
            case "input":
                held = self.inputs[node.attr.name]
                return held if isinstance(held, Expr) else load(held.name, node.dtype, *point)
            case "const":
                return const(node.attr.value, node.dtype)
            case "iota":
                assert node.attr.expr is not None
                return simplify(substitute(node.attr.expr, {axis(k): e for k, e in enumerate(point)}), self.walk.known)
            case "reduce":
                acc = self.accumulator(node)
                with self.under(guard), self.loops(node.attr.extents, "p") as reduced:
                    self.emit(Store(acc, (), self.read(node.args[0], (*point, *reduced), None), node.attr.combiner))
                return load(acc, node.dtype)
            case "gather":
                indices = [self.read(v, point, guard) for v in node.args[1:]]
                at = tuple(self.position(i, e, guard) for i, e in zip(indices, node.attr.extents, strict=True))
                return self.read(node.args[0], at, guard)
            case "contiguous":
                return self.read(node.args[0], point, guard)
            case _:
                assert node.op in OPS
                return call(node.op, *(self.read(a, point, guard) for a in node.args), to=node.dtype)

    def position(self, index: Expr, extent: Expr, guard: Expr | None) -> Expr:
        """An index that data decides, under a name, with the check that it lies in 0 … extent-1 wherever it is asked for."""
        index = cast(INDEX, index)
        if has_loads(index):
            index = self.named(index if guard is None else call("where", guard, index, ZERO))
        inside = simplify(call("bit_and", ZERO.le(index), index.lt(extent)), self.walk.known)
        if inside is not TRUE:
            self.walk.emit_check(Check(inside if guard is None else call("bit_or", call("bit_not", guard), inside), BAD_INDEX))
        return index

    # ---- statements

    def emit(self, s: Stmt) -> None:
        self.walk.block.append(s)

    def accumulator(self, node: Node) -> str:
        name = self.walk.fresh("acc")
        self.emit(Alloc(Buffer(name, node.dtype, (), "register")))
        self.emit(Store(name, (), identity_of(node.attr.combiner, node.dtype)))
        return name

    @contextmanager
    def aside(self) -> Iterator[list[Stmt]]:
        """Statements go to a block of its own; values that were computed in it are forgotten behind it."""
        memo, self.memo = self.memo, dict(self.memo)
        try:
            with self.walk.inner(body=False) as block:
                yield block
        finally:
            self.memo = memo

    @contextmanager
    def under(self, guard: Expr | None) -> Iterator[None]:
        """Statements that run where the guard holds."""
        if guard is None:
            yield
            return
        with self.aside() as block:
            self.walk.known = assuming(self.walk.known, None if has_loads(guard) else guard)
            yield
        self.emit(If(guard, tuple(block)))

    @contextmanager
    def loops(self, shape: Shape, letter: str = "k") -> Iterator[Point]:
        """Loops over a domain; an extent of 1 needs none."""
        with ExitStack() as stack:
            yield tuple(stack.enter_context(self.loop(e, letter)) for e in shape)

    @contextmanager
    def loop(self, extent: Expr, letter: str) -> Iterator[Expr]:
        if extent is ONE:
            yield ZERO
            return
        name = self.walk.fresh(letter)
        with self.aside() as block:
            self.walk.known = self.walk.known.with_ranges({name: Range(ZERO, extent + -1)})
            yield var(name)
        self.emit(Loop(name, ZERO, extent, tuple(block)))


def costly(node: Node) -> bool:
    """It is dearer to compute than to keep."""
    return node.op in OPS and (OPS[node.op].accepts == "smooth" or node.op in ("mod", "floordiv", "pow"))


def reads(s: Stmt, memory: str) -> list[Expr]:
    """The loads of a buffer that a statement makes itself."""
    return [e for x in s.expressions() for e in leaves(x, "load") if e.attr == memory]


def rename_stores(block: list[Stmt], old: str, new: str, point: Point) -> list[Stmt]:
    """The one store into `old` goes to `new[point]` instead."""

    def change(s: Stmt) -> tuple[Stmt, ...] | None:
        return (replace(s, buffer=new, index=point, combiner=""),) if isinstance(s, Store) and s.buffer == old else None

    return list(map_block(tuple(block), change))


__all__ = ["Lowering"]
