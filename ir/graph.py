"""The graph level: primops (and derived operators) over tensors; movement is a *view* on the operand edge.

    graph     ::= "graph" NAME "v1" NEWLINE header* node* output*
    header    ::= "doc" STRING | "source" STRING              the documentation and the composite's own text, a line each
                | "size" NAME ["min" INT] ["max" INT] ["multiple" INT]
                | port
                | "derived" NAME "=" expr                     a size that `where` or the body defines
                | "require" expr                              a precondition on the sizes
    port      ::= ("in" | "out" | "inout" | "scalar") NAME ":" DTYPE shape ["order" INT…] ["strided" NAME…] ["index" expr] ["draw" STRING] ["pairs"]
    node      ::= "%" INT "=" op DTYPE shape [attribute…] operand*
    op        ::= OP | ("reduce" | "scan" | "scatter") "." COMBINER | "input" | "const" | "iota" | "contiguous" | "gather" | "update" | "nest" | "cascade" | "previous" | "reached"
    shape     ::= "[" expr, … "]"                             the domain of the node: one extent an axis; $k is the position along axis k
    operand   ::= source [ "[" expr, … "]" [ "if" expr "else" value ] ]
    source    ::= "%" INT                                     the k-th expression gives the position along the source's axis k, as a
                                                              function of the *user's* domain; outside `if` the value (the fill) is read;
                                                              bare, axis k of the source is $k
    value     ::= ["-"] (INT | FLOAT | "inf" | "nan") | "true" | "false"
    output    ::= "output" NAME "=" "%" INT

The header's lines stand in the order above when shown; read, in any order that declares a name before its use.  Names in `strided` are sizes.
`pairs`: kernels see a complex tensor as f32 with a last axis of 2, and a complex scalar NAME as the two scalars NAME.re and NAME.im.  Expressions and
names are those of ir/expr.py.

A node's value at a point of its domain:

    input NAME                        the port's tensor (a scalar port has shape [])
    const value                       a literal, shape []
    iota expr                         the integer expression of $k and the sizes, as i64 (so a size as a value is `iota N`, shape [])
    OP operand…                       an elementwise row of `primops.OPS`; each operand is read through its view
    cast/bitcast operand              to the node's dtype
    contiguous operand                the operand, made real
    reduce.COMBINER over [expr,…] x   x is read over the node's axes followed by the reduced ones ($rank, $rank+1, …)
    scan.COMBINER axis K x            inclusive running reduction of x along axis K
    gather over [expr,…] x i…         one integer operand i_k for each axis of x's view; the view of x is over *those* positions ($k = value of i_k),
                                      its extents are the listed ones; positions outside them are an error at run time unless proven inside
    scatter.COMBINER over [expr,…] base updates i…   base (read over the node's domain) with updates(p) combined in at position (i_0(p), i_1(p), …) for every p of the listed
                                      domain; COMBINER is `set` (a later p wins, in row-major order) or add, max, min, mul
    update over [expr,…] at [expr,…] base value      base with value(p) stored at position at(p), for every p of the listed domain; `at` is affine and injective
    nest result K NAME operand… ":" block
                                      the K-th result of a loop nest that is not raised to primops (see `Nest`); operands are identity views.  The block holds a line
                                      `operand` buffer for each operand, then `result` buffer for each result, notes, then statements, all in the grammar of ir/kernel.py
    nest result K as %n operand…      another result of the nest that node %n spells out
    cascade result K over [expr,…] x… c… a…   the value of the K-th state: the states x are reductions over one axis, bodies of later ones may read earlier ones.  They may be computed
                                      in one pass, tile by tile: when the earlier states move on, what state k has summed so far, s, becomes s · c_k + a_k.  The list is the rows'
                                      extents; x_k and a_k are read over the rows followed by the state's other axes, c_k over the rows.  A state may be a result of a nest too, that walks
                                      the last axis of its operand, row by row (`passes/cascades/folds.py`): it goes on where it was
    reached over [expr]               the extent of a reduced axis as i64[]; while a cascade over it runs, how much of it has been worked off with this tile
    previous x                        x; in c and a, what the state x, or what was reached, was one tile before

Invariants (`ir/verify/graph.py` has them as rules): shapes and views mention only declared sizes and $0 … $(rank-1) of the right domain; no two operands disagree in dtype
except where the operator says so; nodes are acyclic because they are immutable.  Every position that a view reads is inside its source wherever its `if` holds: that takes
proofs, so the makers of views see to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from .dtypes import INDEX, DType, bool_
from .errors import NOWHERE, Span
from .expr import Expr, Scalar, axis, size
from .primops import OPS, result_of
from .record import record, replace
from .walks import leaves, substitute

if TYPE_CHECKING:
    from .kernel import Nest

Shape = tuple[Expr, ...]
PARTS = ("re", "im")  # of a complex number; in memory re comes first


@record
class Size:
    """A symbolic size and what is known of it: min <= value <= max, value % multiple == 0."""

    name: str
    min: int = 0
    max: int = (1 << 62) - 1
    multiple: int = 1


@record
class Port:
    """One argument of a composite."""

    name: str
    dtype: DType
    shape: Shape
    role: str  # in | out | inout | scalar
    order: tuple[int, ...] = ()  # axes from outermost to innermost in memory; () is row-major
    strided: tuple[str, ...] = ()  # size names of the leading strides (in elements) given at run time, outermost first
    index_limit: Expr | None = None  # used as an index into an axis of this extent: how a test draws it
    draw: str = "normal"  # how a test draws it: normal | uniform | positive | spd | index V | one of …
    span: Span = field(default=NOWHERE, compare=False)
    pairs: bool = False  # complex, and in kernels its components (`passes/split_complex.py`)

    @property
    def values(self) -> tuple[tuple[str, DType], ...]:
        """What kernels take for a scalar port, by name: itself, or its components."""
        if not self.pairs:
            return ((self.name, self.dtype),)
        return tuple((f"{self.name}.{part}", self.dtype.part) for part in PARTS)

    @property
    def memory_order(self) -> tuple[int, ...]:
        return self.order or tuple(range(len(self.shape)))


@record
class View:
    """How an operand is read: `index[k]` is the position along axis k of `node`, over the user's $ axes; where `domain` is false, `fill` is read."""

    node: Node
    index: tuple[Expr, ...]
    domain: Expr | None = None
    fill: Scalar = 0

    @property
    def dtype(self) -> DType:
        return self.node.dtype

    @property
    def is_identity(self) -> bool:
        """Every axis of the source is read at the same axis of the user.  The source may still have fewer axes, or other extents: compare shapes where that matters."""
        return self.domain is None and all(e is axis(k) for k, e in enumerate(self.index))

    def is_all(self, shape: Shape) -> bool:
        """Whether a user of this shape reads the source as it is, and all of it."""
        return self.is_identity and self.node.shape == shape

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """The index, and the domain where there is one."""
        return self.index if self.domain is None else (*self.index, self.domain)

    @property
    def axes(self) -> set[int]:
        """The axes of the user on which it depends what is read."""
        return {a.attr for e in self.exprs for a in leaves(e, "axis")}

    @property
    def places(self) -> dict[Expr, Expr]:
        """Where the axes of the node stand in the domain of the user."""
        return {axis(k): e for k, e in enumerate(self.index)}

    @property
    def operands(self) -> list[View]:
        """What the node is made of, over the axes of the user (where the domain holds)."""
        places = self.places
        return [a.through(places) for a in self.node.args]

    def through(self, mapping: dict[Expr, Expr]) -> View:
        """The view with its axis variables replaced (the domain of the user changed)."""
        return View(
            self.node, tuple(substitute(e, mapping) for e in self.index), None if self.domain is None else substitute(self.domain, mapping), self.fill
        )


@record
class Attr:
    """What a structural node carries besides its operands; unused fields keep their defaults."""

    name: str = ""  # input: the port
    value: Any = None  # const: the literal
    expr: Expr | None = None  # iota
    combiner: str = ""  # reduce, scan, scatter
    extents: Shape = ()  # reduce: the reduced axes; gather: the view's extents; scatter, update: the domain of the updates; cascade: the rows
    at: tuple[Expr, ...] = ()  # update: where each point goes
    axis: int = 0  # scan
    nest: Nest | None = None
    result: int = 0  # nest, cascade: which of its results


class Node:
    """One interned graph node; equality is identity."""

    __slots__ = ("__weakref__", "args", "attr", "dtype", "op", "shape", "span")
    op: str
    dtype: DType
    shape: Shape
    args: tuple[View, ...]
    attr: Attr
    span: Span  # of the text that made it first; not part of its identity

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<{self.op} {self.dtype}{list(self.shape)}>"


NO_ATTR = Attr()
_interned: WeakValueDictionary[tuple[Any, ...], Node] = WeakValueDictionary()


def _bits(value: Any) -> Any:
    return (type(value).__name__, value.hex() if isinstance(value, float) else value)


def make(op: str, dtype: DType, shape: Shape, args: tuple[View, ...] = (), attr: Attr = NO_ATTR, span: Span = NOWHERE) -> Node:
    key = (
        op, dtype.name, shape, tuple((a.node, a.index, a.domain, None if a.domain is None else _bits(a.fill)) for a in args),
        attr.name, _bits(attr.value), attr.expr, attr.combiner, attr.extents, attr.at, attr.axis, attr.nest, attr.result,
    )  # fmt: skip
    found = _interned.get(key)
    if found is None:
        found = Node.__new__(Node)
        found.op, found.dtype, found.shape, found.args, found.attr, found.span = op, dtype, shape, args, attr, span
        _interned[key] = found
    return found


# ---- building nodes (no broadcasting here: that is `ir/build.py`)


def identity(node: Node) -> View:
    return View(node, tuple(axis(k) for k in range(node.rank)))


def truth(condition: Expr | None, span: Span = NOWHERE) -> View:
    """Whether a condition on positions and sizes holds: the constant true, and false elsewhere.  None: everywhere."""
    return View(const_node(True, bool_, span), (), condition, False)


def condition_of(test: View) -> Expr | None:
    """The condition that `truth` was made of; None where the test is made otherwise."""
    return test.domain if test.fill is False and test.node.op == "const" and test.node.attr.value is True else None


def scalar(node: Node) -> View:
    """A rank-0 node read everywhere."""
    return View(node, ())


def contiguous_node(x: View, shape: Shape, span: Span = NOWHERE) -> Node:
    return make("contiguous", x.dtype, shape, (x,), span=span)


def real_node(x: Node) -> Node:
    """The node made real."""
    return contiguous_node(identity(x), x.shape, x.span)


def node_of(x: View, shape: Shape, span: Span = NOWHERE) -> Node:
    """What a user of this shape reads, as a node: the source itself where that is all of it."""
    return x.node if x.is_all(shape) else contiguous_node(x, shape, span)


def input_node(port: Port) -> Node:
    return make("input", port.dtype, port.shape, (), Attr(name=port.name), port.span)


def const_node(value: Scalar, dtype: DType, span: Span = NOWHERE) -> Node:
    return make("const", dtype, (), (), Attr(value=value), span)


def iota_node(expr: Expr, shape: Shape, span: Span = NOWHERE) -> Node:
    return make("iota", INDEX, shape, (), Attr(expr=expr), span)


def elementwise(op: str, shape: Shape, *args: View, to: DType | None = None, span: Span = NOWHERE) -> Node:
    row = OPS[op]
    assert len(args) == row.arity
    return make(op, result_of(row, tuple(a.dtype for a in args), to), shape, args, NO_ATTR, span)


def reduce_node(combiner: str, shape: Shape, extents: Shape, x: View, span: Span = NOWHERE) -> Node:
    return make("reduce", x.dtype, shape, (x,), Attr(combiner=combiner, extents=extents), span)


def scan_node(combiner: str, axis_number: int, x: View, shape: Shape, span: Span = NOWHERE) -> Node:
    return make("scan", x.dtype, shape, (x,), Attr(combiner=combiner, axis=axis_number), span)


def gather_node(x: View, extents: Shape, indices: tuple[View, ...], shape: Shape, span: Span = NOWHERE) -> Node:
    return make("gather", x.dtype, shape, (x, *indices), Attr(extents=extents), span)


def scatter_node(combiner: str, base: View, updates: View, indices: tuple[View, ...], extents: Shape, shape: Shape, span: Span = NOWHERE) -> Node:
    return make("scatter", base.dtype, shape, (base, updates, *indices), Attr(combiner=combiner, extents=extents), span)


def previous_node(x: Node) -> Node:
    return make("previous", x.dtype, x.shape, (identity(x),), span=x.span)


def reached_node(extents: Shape) -> Node:
    return make("reached", INDEX, (), (), Attr(extents=extents))


def cascade_nodes(rows: Shape, states: tuple[View, ...], factors: tuple[View, ...], additions: tuple[View, ...]) -> tuple[Node, ...]:
    """One node for each state: see the head of this file."""
    return tuple(
        make("cascade", x.dtype, x.node.shape, (*states, *factors, *additions), Attr(extents=rows, result=k), x.node.span)
        for k, x in enumerate(states)
    )


def update_node(base: View, value: View, extents: Shape, at: tuple[Expr, ...], shape: Shape, span: Span = NOWHERE) -> Node:
    return make("update", base.dtype, shape, (base, value), Attr(extents=extents, at=at), span)


def operand_domain(node: Node, k: int) -> Shape:
    """The domain that operand k of `node` is read over: the extents that its $ axes run through."""
    if node.op == "reduce":
        return node.shape + node.attr.extents
    if node.op == "gather" and k == 0:
        return node.attr.extents
    if (node.op == "scatter" and k >= 1) or (node.op == "update" and k == 1):
        return node.attr.extents
    if node.op == "nest":
        return node.args[k].node.shape
    if node.op == "cascade":
        count = state_count(node)
        own = k < count or 2 * count <= k < 3 * count  # the others are factors, or too many
        return node.attr.extents + (state_axes(node, k % count)[1] if own else ())
    return node.shape


def state_count(cascade: Node) -> int:
    return len(cascade.args) // 3


def reduced_extents(state: Node) -> Shape:
    """What a state of a cascade runs along: the axes of a reduction, or the last axis of what a nest reads."""
    return state.args[0].node.shape[-1:] if state.op == "nest" else state.attr.extents


def state_axes(cascade: Node, k: int) -> tuple[tuple[int, ...], Shape]:
    """Where each axis of state k stands among the rows and its further axes (in that order), and the extents of the further ones."""
    view, rows = cascade.args[k], len(cascade.attr.extents)
    places = tuple(e.attr for e in view.index)
    extents = dict(zip(places, view.node.shape, strict=True))
    return places, tuple(extents[j] for j in range(rows, len(places)))


# ---- the whole


@record
class Graph:
    """A composite after inlining: what is computed, not how."""

    name: str
    sizes: tuple[Size, ...]  # the free ones, in the order in which the emitted function takes them
    ports: tuple[Port, ...]  # in declared order
    outputs: tuple[tuple[str, Node], ...]  # port name (role out or inout) -> its value, identity layout over the port's shape
    derived: tuple[tuple[str, Expr], ...] = ()  # for the header: name = formula over the free sizes (already substituted everywhere)
    requires: tuple[Expr, ...] = ()  # preconditions: boolean expressions over the free sizes
    documentation: str = ""
    source: str = ""  # the composite's own text, for the head of emitted files
    spans: dict[str, Span] = field(default_factory=dict, compare=False)
    order: tuple[Node, ...] | None = field(default=None, init=False, repr=False, compare=False)  # of `nodes`, found once: every pass asks

    def nodes(self) -> list[Node]:
        """Every node once, operands before users, in a fixed order."""
        if self.order is None:
            object.__setattr__(self, "order", tuple(postorder(*(n for _, n in self.outputs))))
        assert self.order is not None
        return list(self.order)

    def port(self, name: str) -> Port:
        return next(p for p in self.ports if p.name == name)

    def with_outputs(self, nodes: tuple[Node, ...]) -> Graph:
        if all(n is m for n, (_, m) in zip(nodes, self.outputs, strict=True)):
            return self
        return replace(self, outputs=tuple((name, n) for (name, _), n in zip(self.outputs, nodes, strict=True)))

    def size_info(self) -> dict[str, Size]:
        return {s.name: s for s in self.sizes}


def postorder(*roots: Node) -> Iterator[Node]:
    seen: set[Node] = set()
    stack = [(r, False) for r in reversed(roots)]
    while stack:
        node, done = stack.pop()
        if node in seen:
            continue
        if done:
            seen.add(node)
            yield node
        else:
            stack.append((node, True))
            stack.extend((a.node, False) for a in reversed(node.args) if a.node not in seen)


def with_operands(node: Node, found: Mapping[Node, Node]) -> Node:
    """The node over what stands for the nodes that it reads."""
    if all(found[a.node] is a.node for a in node.args):
        return node
    args = tuple([View(found[a.node], a.index, a.domain, a.fill) for a in node.args])
    return make(node.op, node.dtype, node.shape, args, node.attr, node.span)


def rewrite(graph: Graph, rule: Callable[[Node], Node | None]) -> Graph:
    """Bottom-up, once: `rule(node)` (its operands already rewritten) gives a replacement of the same shape and dtype, or None."""
    done: dict[Node, Node] = {}
    for node in graph.nodes():
        new = with_operands(node, done)
        replacement = rule(new)
        done[node] = new if replacement is None else replacement
    return graph.with_outputs(tuple(done[n] for _, n in graph.outputs))


def users(graph: Graph) -> dict[Node, list[tuple[Node, int]]]:
    """For every node, who reads it and as which operand (outputs not counted)."""
    found: dict[Node, list[tuple[Node, int]]] = {n: [] for n in graph.nodes()}
    for n in graph.nodes():
        for k, a in enumerate(n.args):
            found[a.node].append((n, k))
    return found


__all__ = [
    "Attr", "Graph", "Node", "Port", "Shape", "Size", "View", "cascade_nodes", "condition_of", "const_node", "contiguous_node", "elementwise", "gather_node", "identity", "input_node",
    "iota_node", "make", "node_of", "operand_domain", "postorder", "previous_node", "reached_node", "real_node", "reduce_node", "reduced_extents", "rewrite", "scalar", "scan_node", "scatter_node", "size",
    "state_axes", "state_count", "truth", "update_node", "users", "with_operands",
]  # fmt: skip
