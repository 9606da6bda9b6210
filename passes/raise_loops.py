"""graph → graph: loop nests that are tensor algebra become primops.

    for i: for j: for p: C[i, j] add= A[i, p] * B[p, j]      →      C + Σₚ A[i, p]·B[p, j]

A nest is executed symbolically (`loop_events.py`), which gives a list of stores, each over the box of its loops.  Where no dependence is in the way
(`dependence.py`) they may run one after another, and each becomes nodes (`lift.py`) and a new version of its tensor:

    stores every element                     the value's node itself
    X[e] ⊕= v, some loops not in e           X ⊕ reduce.⊕ of v over those loops
    stores a part, at affine positions       update
    under a condition                        where(condition, new, old)
    scalars, local accumulators              gone, into the values

A nest is taken apart where no dependence is in the way (`loop_order.py`): what can be nodes becomes nodes, the rest stays loops, with those marked parallel whose
iterations are independent (`concurrency.py`).  A nest of which nothing can be raised stays as it is written.  The reason is a note on the nest,
and then on its kernel.
"""

from __future__ import annotations

from ..ir.bounds import Known
from ..ir.expr import both
from ..ir.graph import Attr, Graph, Node, View, make, postorder, rewrite
from ..ir.kernel import Check, Nest, map_block
from ..ir.program import BAD_INDEX
from ..ir.record import replace
from ..ir.simplify import assuming
from ..ir.target import Options, Target
from .loops.dependence import Dependences
from .loops.tensor_form import Form, tensor_form


def raise_loops(ir: Graph, target: Target, options: Options) -> Graph:
    """See the head of this file."""
    pairs = _dependences(ir)
    done: dict[Nest, Nest] = {}  # each of a nest's results is a node, and a composite that is called twice gives the same nest twice

    def rule(n: Node) -> Node | None:
        nest = n.attr.nest
        if nest is None:
            return None
        if nest not in done:
            done[nest] = _parallel(nest, pairs, target, options)
        return make("nest", n.dtype, n.shape, n.args, replace(n.attr, nest=done[nest]), n.span)

    return rewrite(tensor_algebra(ir, options, pairs), rule)


def tensor_algebra(ir: Graph, options: Options, pairs: Dependences | None = None) -> Graph:
    """What of the loops is tensor algebra as nodes, whatever the target; `pairs` are the graph's dependences, where they are known."""
    pairs = _dependences(ir) if pairs is None else pairs
    inout = frozenset(p.name for p in ir.ports if p.role == "inout")
    raised: dict[tuple[Nest, tuple[View, ...]], tuple[Node, ...]] = {}
    first: dict[Nest, Nest] = {}  # of those that are equal, so that what their statements do is found out once

    def rule(n: Node) -> Node | None:
        if n.op != "nest":
            return None
        nest = n.attr.nest
        assert nest is not None
        if nest.notes:  # looked at before
            return None
        key = (nest, n.args)
        if key not in raised:
            raised[key] = _raised(n, first.setdefault(nest, nest), pairs, inout, options)
        return raised[key][n.attr.result]

    return rewrite(ir, rule)


def _dependences(ir: Graph) -> Dependences:
    return Dependences(assuming(Known(ir.size_info()), both(*ir.requires)))


def _raised(node: Node, nest: Nest, pairs: Dependences, inout: frozenset[str], options: Options) -> tuple[Node, ...]:
    """The nodes of all results of a node's nest: what is left of it are nests too."""
    operands = tuple(a.node for a in node.args)
    form = tensor_form(nest, operands, pairs, inout, options)
    if _has_loops(form, operands):
        from .loops.written_out import written_out

        rows = written_out(nest, pairs.known)
        if rows is not None and not _has_loops(again := tensor_form(rows, operands, pairs, inout, options), operands):
            return again.nodes
    if form.nodes:
        return form.nodes
    whole = replace(nest, notes=form.notes)
    return tuple(make("nest", b.dtype, b.shape, node.args, Attr(nest=whole, result=k), node.span) for k, b in enumerate(nest.results))


def _has_loops(form: Form, operands: tuple[Node, ...]) -> bool:
    """Whether loops are left between the operands and the results."""
    before = set(postorder(*operands))
    return not form.nodes or any(n.op == "nest" and n not in before for n in postorder(*form.nodes))


def _parallel(nest: Nest, pairs: Dependences, target: Target, options: Options) -> Nest:
    """A nest with its independent loops marked, its checks outside of the loops that they do not ask about, and without those that nobody wants."""
    from .loops.ahead import ahead
    from .loops.around_one import around_one
    from .loops.checks import checks_outside, checks_together
    from .loops.concurrency import followed, marked
    from .loops.distributed import distributed
    from .loops.in_blocks import in_blocks
    from .loops.in_flight import in_flight
    from .loops.kept_elements import kept_elements
    from .loops.local_arrays import made_global
    from .loops.staggered import staggered
    from .loops.written_out import local_networks

    if options.unchecked:
        nest = replace(nest, body=map_block(nest.body, lambda s: () if isinstance(s, Check) and s.code == BAD_INDEX else None))
    # on a GPU, a check lets a thread leave out the access behind it: it stays where that is
    nest = checks_together(nest) if target.gpu else checks_outside(nest, pairs.known)
    nest = kept_elements(local_networks(nest, pairs.known), pairs)
    if not target.gpu:
        nest = ahead(in_blocks(nest, pairs, target), pairs, options.strict)
    nest = marked(distributed(around_one(nest, pairs), pairs), pairs)
    if target.gpu:
        return followed(made_global(nest), pairs)
    if target.vector_bytes:
        nest = in_flight(nest, pairs, target)
    return staggered(nest, pairs)
