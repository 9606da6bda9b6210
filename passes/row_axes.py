"""graph → graph: loops over the rows of a tensor whose leading axes were made one get these axes back.

    %2 = contiguous [B * N, M] %1[$0 // N, $0 % N, $1]            %3 = nest [B, N, K] %1:
    %3 = nest [B * N, K] %2:                                        for r1 in 0 .. B parallel:
      for r in 0 .. B * N parallel:                         →         for r2 in 0 .. N parallel:
        … X[r, n] … Y[r, j] …                                           … X[r1, r2, n] … Y[r1, r2, j] …
    %4 = contiguous [B, N, K] %3[$0 * N + $1, $2]                 %4 = %3

`(reshape X -1 N)` is how loops are written for any number of leading axes.  With the axes back nothing is copied before the loops and after them, and what makes a row and what is made of it are
seen to walk the same rows.

Conditions: the nest is one parallel loop over rows; what it writes, and the operands that were reshaped, it touches at its own row alone.
"""

from __future__ import annotations

from ..ir.bounds import Known
from ..ir.expr import ZERO, Expr, axis, product, total, var
from ..ir.graph import Graph, Node, Shape, View, contiguous_node, identity, make, operand_domain
from ..ir.kernel import Block, Loop, Nest, accesses, substitute_block
from ..ir.record import record, replace
from ..ir.renaming import at_places, defined
from ..ir.simplify import simplify
from ..ir.target import Options, Target


def row_axes(ir: Graph, target: Target, options: Options) -> Graph:
    """See the head of this file."""
    nodes = ir.nodes()
    if target.gpu or not any(n.op == "nest" for n in nodes):
        return ir  # a grid has one axis of rows
    known = Known(ir.size_info())
    rows = {n: found for n in nodes if n.op == "nest" and (found := _rows(n, known)) is not None}
    if not rows:
        return ir
    done: dict[Node, Node] = {}
    for n in nodes:
        if n in rows:
            found = rows[n]
            sources = (a.node.args[0].node if k in found.reshaped else a.node for k, a in enumerate(n.args))
            args = tuple(identity(done[m]) for m in sources)
            done[n] = make("nest", n.dtype, found.split(n.shape), args, replace(n.attr, nest=found.nest), n.span)
            continue
        args = tuple(_read(n, k, a, rows, done, known) for k, a in enumerate(n.args))
        done[n] = n if args == n.args else make(n.op, n.dtype, n.shape, args, n.attr, n.span)
        if n.op == "contiguous" and args[0].node is not n.args[0].node and args[0].is_all(n.shape):
            done[n] = args[0].node
    outputs = [(name, rows[n].whole(done[n], n.shape, known) if n in rows else done[n]) for name, n in ir.outputs]
    return ir.with_outputs(tuple(n for _, n in outputs))


@record
class _Rows:
    nest: Nest
    lead: Shape  # the extents that were made one
    reshaped: frozenset[int]  # the operands that were

    def split(self, shape: Shape) -> Shape:
        return (*self.lead, *shape[1:])

    def view(self, node: Node, index: tuple[Expr, ...], domain: Shape, known: Known) -> View:
        """What stood at `index` of the result with one axis of rows."""
        inside = known.with_domain(domain)
        return View(node, tuple(simplify(e, inside) for e in (*_places(index[0], self.lead), *index[1:])))

    def whole(self, node: Node, shape: Shape, known: Known) -> Node:
        """The result with one axis of rows again."""
        view = self.view(node, tuple(axis(k) for k in range(len(shape))), shape, known)
        return contiguous_node(view, shape, node.span)


def _read(user: Node, k: int, view: View, rows: dict[Node, _Rows], done: dict[Node, Node], known: Known) -> View:
    found, new = rows.get(view.node), done[view.node]
    if found is None:
        return View(new, view.index, view.domain, view.fill)
    if user.op in ("nest", "cascade", "previous") or view.domain is not None:
        return View(found.whole(new, view.node.shape, known), view.index, view.domain, view.fill)
    return found.view(new, view.index, operand_domain(user, k), known)


def _places(row: Expr, lead: Shape) -> list[Expr]:
    """The positions along the leading axes of a row counted through them all."""
    found = []
    for k, extent in enumerate(lead):
        inner = product(lead[k + 1 :])
        found.append(row // inner if k == 0 else row // inner % extent)
    return found


def _rows(n: Node, known: Known) -> _Rows | None:
    nest = n.attr.nest
    assert nest is not None
    reshaped = {k: lead for k, a in enumerate(n.args) if (lead := _lead(a.node, known))}
    if len(set(reshaped.values())) != 1:
        return None
    lead = next(iter(reshaped.values()))
    match nest.body:
        case (Loop(kind="parallel") as loop,) if loop.start is ZERO:
            pass
        case _:
            return None
    named = {nest.operands[k].name for k in reshaped}
    own = {b.name for b in (*nest.operands, *nest.results) if b.name in named or b in nest.results}
    if any(b.name in own and b.name not in named for b in nest.operands):
        return None
    if any(not b.shape or simplify(b.shape[0], known) is not simplify(loop.stop, known) for b in nest.results):
        return None
    row = var(loop.axis)
    if any(not index or index[0] is not row for name, index in accesses(loop.body) if name in own):
        return None
    taken = {*defined(nest.body), *(b.name for b in (*nest.operands, *nest.results)), *known.ranges}
    names = [name for j in range(1, len(taken) + len(lead) + 1) if (name := f"{loop.axis}{j}") not in taken][: len(lead)]
    body: Block = _split(loop.body, own, row, tuple(var(name) for name in names), lead)
    for name, extent in zip(reversed(names), reversed(lead), strict=True):
        body = (Loop(name, ZERO, extent, body, "parallel", loop.step, loop.span),)
    buffers = [tuple(replace(b, shape=(*lead, *b.shape[1:])) if b.name in own else b for b in group) for group in (nest.operands, nest.results)]
    return _Rows(replace(nest, operands=buffers[0], results=buffers[1], body=body), lead, frozenset(reshaped))


def _lead(n: Node, known: Known) -> Shape:
    """The leading extents that a tensor has as one axis, counted in order; none where it is not such a one."""
    if n.op != "contiguous" or n.args[0].domain is not None:
        return ()
    index, shape = n.args[0].index, n.args[0].node.shape
    count = len(shape) - n.rank + 1
    if count < 2 or any(e is not axis(k + 1) for k, e in enumerate(index[count:])) or shape[count:] != n.shape[1:]:
        return ()
    inside = known.with_domain(n.shape)
    wanted = [simplify(e, inside) for e in _places(axis(0), shape[:count])]
    same = all(simplify(e, inside) is w for e, w in zip(index, wanted, strict=False))
    return shape[:count] if same and simplify(n.shape[0], known) is simplify(product(shape[:count]), known) else ()


def _split(block: Block, own: set[str], row: Expr, places: tuple[Expr, ...], lead: Shape) -> Block:
    """The statements at a row with a position along each leading axis."""
    counted = {row: total(e * product(lead[k + 1 :]) for k, e in enumerate(places))}
    return substitute_block(at_places(block, own, lambda _, index: (*places, *index[1:])), counted)
