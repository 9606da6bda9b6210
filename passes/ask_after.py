"""graph → graph: sums of products under a choice are multiplied without it, and where what comes out is not finite the sum is taken again as it is written.

    C[i, j] = Σ_p where(c[i, p], a[i, p] · b[p, j], 0)

        →    S[i, j] = Σ_p where(c[i, p], a[i, p], 0) · b[p, j]
             for rows of i:
               if Σ_i Σ_j S[i, j] · 0 ≠ 0:                                    an infinity or NaN
                 for i, j:
                   if S[i, j] · 0 ≠ 0: S[i, j] = Σ_p where(c[i, p], a[i, p] · b[p, j], 0)

Loops pass over what is masked, `if (<= p i)`: the term is *not added*, so an infinite b must not show where the choice leaves it out.  A sum that is finite holds no 0 · ∞ and no 0 · NaN: what the choice
would have left out was zeros, of which the factor that has the choice's axes holds as many as there are.  So S is a contraction like any other, in register tiles and panels, and the rows of it are looked at once.
Of integers nothing need be asked, and a choice that is the same all along the sum stands around it.  What a cascade is made of has the same from `nest_guarded.py`, tile by tile.

Conditions: two operands that are each used again along an axis that the other has (else each element is read once, and a choice costs nothing beside that); the choice is one of the axes of
a factor, which is read at each position of them once, so that it is as large without what the choice leaves out as with it.  Where the choice, or what is multiplied, is made by many operators, the sum stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.bounds import Known
from ..ir.dtypes import bool_
from ..ir.expr import ZERO, Expr, axis, both, call, ceildiv, const, load, minimum, var, where
from ..ir.graph import Attr, Graph, Node, View, const_node, elementwise, identity, make, postorder, reduce_node, scalar
from ..ir.kernel import Alloc, Block, Buffer, If, Loop, Nest, Store, substitute_block
from ..ir.primops import OPS
from ..ir.record import record
from ..ir.renaming import Names
from ..ir.simplify import assuming, prove_le
from ..ir.target import Options, Target
from ..ir.walks import leaves, substitute
from .reading import factors, reads_of
from .separate import is_zero

OPERATORS = 32  # that the value of a term is made of, at most: it is written out once more
ROWS = 16  # of sums that are looked at together: of 8 sums each, one by one took ten times as long
LETTERS, REDUCED = "ijklmno", "pqrstuvw"


def ask_after(ir: Graph, target: Target, options: Options) -> Graph:
    """See the head of this file."""
    if target.gpu:
        return ir  # a mask is cheap there
    nodes = ir.nodes()
    within = {m for n in nodes if n.op == "cascade" for a in n.args for m in postorder(a.node)}
    taken = {s.name for s in ir.sizes}
    known = assuming(Known(ir.size_info()), both(*ir.requires))
    done: dict[Node, Node] = {}
    for n in nodes:
        args = tuple(View(done[a.node], a.index, a.domain, a.fill) for a in n.args)
        done[n] = n if all(a.node is b.node for a, b in zip(args, n.args, strict=True)) else make(n.op, n.dtype, n.shape, args, n.attr, n.span)
        if n not in within:
            done[n] = _bare(done[n], known, taken, options)
    outputs = tuple(done[n] for _, n in ir.outputs)
    return ir if all(m is n for m, (_, n) in zip(outputs, ir.outputs, strict=True)) else ir.with_outputs(outputs)


@record
class _Choice:
    """A sum of products under a choice."""

    node: Node
    test: View
    factors: tuple[View, ...]
    negative: bool

    @property
    def zero(self) -> View:
        return scalar(const_node(0.0 if self.node.dtype.is_float else 0, self.node.dtype))

    def extents(self, axes: list[int]) -> tuple[Expr, ...]:
        every = (*self.node.shape, *self.node.attr.extents)
        return tuple(every[a] for a in axes)


def _bare(n: Node, known: Known, taken: set[str], options: Options) -> Node:
    """The value of a sum without the choice around what it adds up; the node itself where it is something else."""
    found = _choice(n)
    if found is None or (options.strict and len(found.factors) > 2):
        return n
    used = _axes(found.test)
    if all(a < n.rank for a in used):
        if not all(_there(f, found, known) for f in found.factors):
            return n
        value = reduce_node("add", n.shape, n.attr.extents, _product(found, found.factors), n.span)
        return elementwise("where", n.shape, found.test, identity(value), found.zero, span=n.span)
    for k, factor in enumerate(found.factors):
        others = (*found.factors[:k], *found.factors[k + 1 :])
        if not used <= _axes(factor) or not _reused(found, _axes(factor), others) or not all(_there(f, found, known) for f in others):
            continue
        masked = _masked(factor, found, known)
        if masked is not None:
            value = _product(found, (*found.factors[:k], masked, *found.factors[k + 1 :]))
            bare = reduce_node("add", n.shape, n.attr.extents, value, n.span)
            return bare if n.dtype.is_integer else _again(n, bare, taken)
    return n


def _masked(factor: View, found: _Choice, known: Known) -> View | None:
    """A factor with the choice around it: a tensor as large as itself where it is read at each position once; a view where positions alone decide, as of windows that stand over an edge."""
    axes = [e.attr for e in factor.index if e.op == "axis"]  # in the order in which it lies in memory
    if factor.domain is None and len(factor.index) == len(axes) == len(set(axes)) and _there(factor, found, known):
        inside = {axis(a): axis(j) for j, a in enumerate(axes)}
        masked = elementwise("where", found.extents(axes), found.test.through(inside), factor.through(inside), found.zero, span=found.node.span)
        # what lies in memory as it is multiplied may be read in place: 8 of 256 × 256 by 256 × 64, 1.4 of PyTorch's speed, 0.43 where panels are packed and masked meanwhile
        masked = make("contiguous", masked.dtype, masked.shape, (identity(masked),), span=found.node.span)
        return View(masked, tuple(axis(a) for a in axes))
    if found.test.node is const_node(True, bool_) and factor.node.op == "input" and factor.fill == 0:
        return View(factor.node, factor.index, both(factor.domain, found.test.domain), factor.fill)
    return None


def _there(v: View, found: _Choice, known: Known) -> bool:
    """Whether all that a factor is made of is there also where the choice leaves it out."""
    inside = known.with_domain((*found.node.shape, *found.node.attr.extents))
    for r in reads_of(v):
        within = assuming(inside, r.domain)
        if r.node.op == "gather" or not all(
            prove_le(ZERO, e, within) and prove_le(e, n - 1, within) for e, n in zip(r.index, r.node.shape, strict=True)
        ):
            return False
    return True


def _choice(n: Node) -> _Choice | None:
    """The sum as one of products under a choice that are worth register tiles."""
    if n.op != "reduce" or n.attr.combiner != "add" or n.rank < 2 or not (n.dtype.is_float or n.dtype.is_integer):
        return None
    view = n.args[0]
    inside = {axis(k): e for k, e in enumerate(view.index)}
    if view.domain is not None and view.fill == 0:
        test, product = View(const_node(True, bool_), (), view.domain, False), View(view.node, view.index)
    elif view.domain is None and view.node.op == "where" and is_zero(view.node.args[2]):
        test, product = (a.through(inside) for a in view.node.args[:2])
    else:
        return None
    negative = product.node.op == "neg" and product.domain is None
    if negative:
        product = product.node.args[0].through({axis(k): e for k, e in enumerate(product.index)})
    found = _Choice(n, test, tuple(factors(product)), negative)
    return found if any(_reused(found, _axes(f), found.factors) for f in found.factors) else None


def _axes(v: View) -> set[int]:
    return {a.attr for e in (*v.index, *(() if v.domain is None else (v.domain,))) for a in leaves(e, "axis")}


def _reused(found: _Choice, axes: set[int], others: Iterable[View]) -> bool:
    """Whether an operand with these axes, and another, are each used again along an axis that the other one has."""
    kept = {a for a, e in enumerate(found.node.shape) if not e.is_const or e.attr > 1}
    return any(axes & kept - b and b & kept - axes for b in map(_axes, others))


def _product(found: _Choice, of: tuple[View, ...]) -> View:
    shape = (*found.node.shape, *found.node.attr.extents)
    value = of[0]
    for f in of[1:]:
        value = identity(elementwise("mul", shape, value, f, span=found.node.span))
    return identity(elementwise("neg", shape, value, span=found.node.span)) if found.negative else value


# ---- where it is not finite


def _again(n: Node, bare: Node, taken: set[str]) -> Node:
    """The bare sum, some rows of which are looked at together, in loops that stay loops."""
    names = Names(taken)
    sums = Buffer(names.fresh("sums"), n.dtype, n.shape)
    term = _Term(names)
    outer = [names.fresh(*LETTERS) for _ in n.shape]
    inner = [names.fresh(*REDUCED) for _ in n.attr.extents]
    value = term.value(n.args[0], tuple(map(var, (*outer, *inner))))
    if value is None:
        return n
    at = tuple(map(var, outer))
    doubt, again = (Buffer(names.fresh(name), n.dtype, (), "register") for name in ("doubt", "again"))
    zero = const(0.0, n.dtype)

    def nothing(*place: Expr) -> Expr:
        return call("mul", load(sums.name, n.dtype, *place), zero)  # 0, or NaN

    def nested(loops: Iterable[tuple[str, Expr]], body: Block, kind: str) -> Block:
        for name, extent in reversed([*loops]):
            body = (Loop(name, ZERO, extent, body, kind),)
        return body

    *around, row, column = outer
    block, r, c = names.fresh("b"), names.fresh(*REDUCED), names.fresh(*REDUCED)
    first = var(block) * ROWS
    count = minimum(n.shape[-2] - first, ROWS)
    sum_again = nested(zip(inner, n.attr.extents, strict=True), (Store(again.name, (), value, "add"),), "reduce")
    anew = (Alloc(again), Store(again.name, (), zero), *sum_again, Store(sums.name, at, load(again.name, n.dtype)))
    each = nested(((row, count), (column, n.shape[-1])), (If(call("not_equal", nothing(*at), zero), anew),), "parallel")
    places = (*map(var, around), first + var(r), var(c))
    look = nested(((r, count), (c, n.shape[-1])), (Store(doubt.name, (), nothing(*places), "add"),), "reduce")
    body = (
        Alloc(doubt),
        Store(doubt.name, (), zero),
        *look,
        If(call("not_equal", load(doubt.name, n.dtype), zero), substitute_block(each, {var(row): first + var(row)})),
    )
    body = nested((*zip(around, n.shape[:-2], strict=True), (block, ceildiv(n.shape[-2], ROWS))), body, "parallel")
    operands = (sums, *(Buffer(name, m.dtype, m.shape) for m, name in term.operands.items()))
    nest = Nest("again", operands, (sums,), body)
    return make("nest", n.dtype, n.shape, tuple(identity(m) for m in (bare, *term.operands)), Attr(nest=nest), n.span)


class _Term:
    """What is added up, as an expression in loops, and the tensors that it reads."""

    def __init__(self, names: Names) -> None:
        self.names, self.operands, self.left = names, dict[Node, str](), OPERATORS

    def value(self, view: View, point: tuple[Expr, ...]) -> Expr | None:
        """None where it is made of too much."""
        mapping = {axis(k): e for k, e in enumerate(point)}
        index = tuple(substitute(e, mapping) for e in view.index)
        node = view.node
        self.left -= 1
        if self.left < 0:
            return None
        if node.op == "const":
            value = const(node.attr.value, node.dtype)
        elif node.op == "iota":
            assert node.attr.expr is not None
            value = substitute(node.attr.expr, {axis(k): e for k, e in enumerate(index)})
        elif node.op in OPS:
            operands: list[Expr] = []
            for a in node.args:
                e = self.value(a, index)
                if e is None:
                    return None
                operands.append(e)
            value = where(*operands) if node.op == "where" else call(node.op, *operands, to=node.dtype)
        else:
            value = load(self.operands.setdefault(node, "") or self._named(node), node.dtype, *index)
        if view.domain is None:
            return value
        domain = substitute(view.domain, mapping)
        if node.dtype is bool_ and not view.fill:
            return both(domain, value)
        return where(domain, value, const(view.fill, node.dtype))

    def _named(self, node: Node) -> str:
        name = self.operands[node] = self.names.fresh(node.attr.name or "operand")
        return name
