"""`Builder`: the one way to make a graph by hand or from a composite.  Shapes and dtypes follow NumPy; user mistakes raise `BuildError`.

    b = Builder({"M": Size("M"), "K": Size("K"), "N": Size("N")})
    c = b.matmul(b.input(port_a), b.input(port_b))
    node = b.output(c, f32, (M, N))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .dtypes import INDEX, DType, bool_, f32, i64
from .errors import NOWHERE, Span
from .expr import ONE, ZERO, Expr, Scalar, as_expr, axis, const
from .graph import Node, Port, Shape, Size, View, const_node, elementwise, identity, input_node, iota_node, reduce_node
from .graph import make as make_node
from .primops import OPS
from .tensor import BuildError, Int, Tensor

Range = tuple[Int | None, Int | None, Int | None]  # start, stop, step as in Python; None is the default


class Builder:
    """`sizes`: the free sizes by name; `facts`: preconditions that may be assumed in proofs.  `requires` collects the preconditions that building
    adds (`N % 4 == 0` of a reshape); `span` is the place that nodes are made for."""

    def __init__(self, sizes: dict[str, Size], facts: Iterable[Expr] = ()) -> None:
        self.sizes = sizes
        self.facts = tuple(facts)
        self.requires: list[Expr] = []
        self.span: Span = NOWHERE

    # ---- proofs on sizes

    def same(self, a: Int, b: Int) -> bool:
        """The two integer expressions are provably equal."""
        return as_expr(a) is as_expr(b)

    def require(self, condition: Expr) -> None:
        """Add a precondition over sizes unless it is proven already; BuildError E0311 where it is refuted."""
        self.requires.append(condition)

    # ---- making

    def input(self, port: Port) -> Tensor:
        return self.of(input_node(port))

    def of(self, node: Node, weak: str = "") -> Tensor:
        return Tensor(identity(node), node.shape, weak)

    def constant(self, value: Scalar, dtype: DType | None = None) -> Tensor:
        """A literal of rank 0; without a dtype a weak number (bool is bool)."""
        if dtype is not None:
            return self.of(const_node(const(value, dtype).attr, dtype, self.span))
        if isinstance(value, bool):
            return self.of(const_node(value, bool_, self.span))
        if isinstance(value, int):
            return self.integer(const(value))
        return self.of(const_node(value, f32, self.span), "float")

    def integer(self, expr: Int) -> Tensor:
        """A plain integer of rank 0: an expression of sizes."""
        return self.of(iota_node(as_expr(expr), (), self.span), "int")

    def iota(self, extent: Int) -> Tensor:
        """0, 1, …, extent-1: weak integers of shape [extent]."""
        return self.of(iota_node(axis(0), (as_expr(extent),), self.span), "int")

    def full(self, shape: Sequence[Int], value: Scalar | Tensor, dtype: DType | None = None) -> Tensor:
        """`value` everywhere; without a dtype it is as weak as the value."""
        x = value if isinstance(value, Tensor) else self.constant(value)
        return self.expand(x if dtype is None else self.cast(x, dtype), shape)

    def zeros(self, shape: Sequence[Int], dtype: DType | None = None) -> Tensor:
        return self.full(shape, 0.0, dtype)

    def ones(self, shape: Sequence[Int], dtype: DType | None = None) -> Tensor:
        return self.full(shape, 1.0, dtype)

    # ---- leaving the builder

    def node(self, x: Tensor) -> Node:
        """The tensor as one node with the tensor's own shape (a `contiguous` where the view is no identity)."""
        if x.view.is_identity and x.view.node.shape == x.shape:
            return x.view.node
        return make_node("contiguous", x.dtype, x.shape, (x.view,), span=self.span)

    def contiguous(self, x: Tensor) -> Tensor:
        return self.of(self.node(x), x.weak)

    def output(self, x: Tensor, dtype: DType, shape: Sequence[Int]) -> Node:
        """The node for an output port: checks dtype (E0301; weak numbers convert) and shape (E0311, E0313)."""
        raise NotImplementedError

    def position(self, x: Tensor) -> Expr:
        """The integer expression over sizes of a plain rank-0 integer; E0320 where it is not known at compile time."""
        raise NotImplementedError

    # ---- elementwise

    def unify(self, *xs: Tensor, what: str = "operands") -> tuple[Tensor, ...]:
        """The operands in one dtype by the rules for weak numbers; E0301, E0302."""
        raise NotImplementedError

    def elementwise(self, op: str, *xs: Tensor) -> Tensor:
        """The row `op` of `primops.OPS` with broadcasting and weak numbers."""
        raise NotImplementedError

    def cast(self, x: Tensor, to: DType) -> Tensor:
        raise NotImplementedError

    def bitcast(self, x: Tensor, to: DType) -> Tensor:
        raise NotImplementedError

    def where(self, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
        raise NotImplementedError

    def pow(self, x: Tensor, y: Tensor) -> Tensor:
        """Integer literals as exponents become multiplications."""
        raise NotImplementedError

    # ---- reductions: axes are one, several or None (all); negative ones count from the end

    def reduce(self, combiner: str, x: Tensor, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        raise NotImplementedError

    def sum(self, x: Tensor, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """bool and integers under 64 bits are summed in i64."""
        raise NotImplementedError

    def prod(self, x: Tensor, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        raise NotImplementedError

    def max(self, x: Tensor, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        raise NotImplementedError

    def min(self, x: Tensor, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        raise NotImplementedError

    def any(self, x: Tensor, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        raise NotImplementedError

    def all(self, x: Tensor, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        raise NotImplementedError

    def mean(self, x: Tensor, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        raise NotImplementedError

    def var(self, x: Tensor, axes: int | Sequence[int] | None = None, keepdims: bool = False, correction: int = 0) -> Tensor:
        raise NotImplementedError

    def argmax(self, x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
        raise NotImplementedError

    def argmin(self, x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
        raise NotImplementedError

    def logsumexp(self, x: Tensor, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        raise NotImplementedError

    def scan(self, combiner: str, x: Tensor, axis: int) -> Tensor:
        raise NotImplementedError

    def cumsum(self, x: Tensor, axis: int) -> Tensor:
        raise NotImplementedError

    def cumprod(self, x: Tensor, axis: int) -> Tensor:
        raise NotImplementedError

    def cummax(self, x: Tensor, axis: int) -> Tensor:
        raise NotImplementedError

    def cummin(self, x: Tensor, axis: int) -> Tensor:
        raise NotImplementedError

    # ---- contractions

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        raise NotImplementedError

    def einsum(self, spec: str, *xs: Tensor) -> Tensor:
        raise NotImplementedError

    # ---- movement: edits the view

    def expand(self, x: Tensor, shape: Sequence[Int]) -> Tensor:
        """Broadcast to `shape` (aligned at the last axis); only literal 1 stretches."""
        raise NotImplementedError

    def reshape(self, x: Tensor, shape: Sequence[Int]) -> Tensor:
        """One extent may be -1."""
        raise NotImplementedError

    def transpose(self, x: Tensor, order: Sequence[int] = ()) -> Tensor:
        """No order: reversed axes."""
        raise NotImplementedError

    def squeeze(self, x: Tensor, axes: int | Sequence[int] | None = None) -> Tensor:
        raise NotImplementedError

    def unsqueeze(self, x: Tensor, axes: int | Sequence[int]) -> Tensor:
        raise NotImplementedError

    def slice(self, x: Tensor, ranges: Sequence[Range | Int | None]) -> Tensor:
        """One entry an axis (missing ones: all): (start, stop, step) as in Python, an integer (drops the axis), or None (all)."""
        raise NotImplementedError

    def pad(self, x: Tensor, widths: Sequence[tuple[Int, Int]], value: Scalar = 0) -> Tensor:
        raise NotImplementedError

    def concat(self, xs: Sequence[Tensor], axis: int = 0) -> Tensor:
        raise NotImplementedError

    def stack(self, xs: Sequence[Tensor], axis: int = 0) -> Tensor:
        raise NotImplementedError

    def split(self, x: Tensor, extents: Sequence[Int], axis: int = 0) -> tuple[Tensor, ...]:
        """Pieces of the given extents, which must add up (one may be -1)."""
        raise NotImplementedError

    def flip(self, x: Tensor, axes: int | Sequence[int] | None = None) -> Tensor:
        raise NotImplementedError

    def roll(self, x: Tensor, shift: Int, axis: int) -> Tensor:
        raise NotImplementedError

    def tile(self, x: Tensor, counts: Sequence[Int]) -> Tensor:
        raise NotImplementedError

    def triu(self, x: Tensor, k: Int = 0) -> Tensor:
        raise NotImplementedError

    def tril(self, x: Tensor, k: Int = 0) -> Tensor:
        raise NotImplementedError

    def unfold(self, x: Tensor, size: Int, step: Int = 1, axis: int = -1) -> Tensor:
        """As torch.Tensor.unfold: the windows along `axis`, a new last axis of extent `size`."""
        raise NotImplementedError

    # ---- positions held in tensors

    def gather(self, x: Tensor, index: Tensor, axis: int = 0) -> Tensor:
        """np.take."""
        raise NotImplementedError

    def take_along(self, x: Tensor, index: Tensor, axis: int = -1) -> Tensor:
        """np.take_along_axis."""
        raise NotImplementedError

    def gather_at(self, x: Tensor, indices: Sequence[Tensor]) -> Tensor:
        """x[i0, i1, …] with one integer tensor an axis, broadcast together."""
        raise NotImplementedError

    def scatter(self, base: Tensor, index: Tensor, updates: Tensor, axis: int = 0, combine: str = "set") -> Tensor:
        """The dual of `gather`: updates has the shape of gather(base, index, axis) and is combined (set add max min mul) in at those positions."""
        raise NotImplementedError

    def scatter_at(self, base: Tensor, indices: Sequence[Tensor], updates: Tensor, combine: str = "set") -> Tensor:
        """base[i0, i1, …] combined with updates, one integer tensor an axis."""
        raise NotImplementedError

    def update(self, base: Tensor, ranges: Sequence[Range | Int | None], value: Tensor) -> Tensor:
        """base with base[ranges] = value (broadcast to that slice)."""
        raise NotImplementedError
