"""graph → graph: loop nests that are tensor algebra become primops.

    for i: for j: for p: C[i, j] add= A[i, p] * B[p, j]      →      C + Σₚ A[i, p]·B[p, j]

A nest is executed symbolically (`loop_events.py`), which gives a list of stores, each over the box of its loops.  Where no dependence is in the way
(`dependence.py`) they may run one after another, and each becomes nodes (`lift.py`) and a new version of its tensor:

    stores every element                     the value's node itself
    X[e] ⊕= v, some loops not in e           X ⊕ reduce.⊕ of v over those loops
    stores a part, at affine positions       update
    under a condition                        where(condition, new, old)
    scalars, local accumulators              gone, into the values

All or nothing: a nest with one store that cannot be raised stays loops, those without dependences marked parallel; the reason (`why_not`) is noted on its
kernel by `make_nests`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..ir.bounds import Known
from ..ir.expr import both
from ..ir.graph import Attr, Graph, Node, View, make, rewrite
from ..ir.kernel import Block, If, Loop, Nest, Stmt
from ..ir.simplify import assuming
from ..ir.target import Options, Target

if TYPE_CHECKING:
    from .loop_events import NotTensor


def raise_loops(ir: Graph, target: Target, options: Options) -> Graph:
    """See the head of this file."""
    if not any(n.op == "nest" for n in ir.nodes()):
        return ir
    known = _known(ir)
    raised: dict[tuple[Nest, tuple[View, ...]], tuple[Node, ...]] = {}

    def rule(n: Node) -> Node | None:
        if n.op != "nest":
            return None
        nest = n.attr.nest
        assert nest is not None
        key = (nest, n.args)
        if key not in raised:
            raised[key] = _raised(n, known, options)[0] or _parallel(nest, n.args, known)
        return raised[key][n.attr.result]

    return rewrite(ir, rule)


def why_not(node: Node, graph: Graph, options: Options) -> str:
    """What keeps a `nest` node from being raised, as a sentence; empty where nothing does."""
    _, reason = _raised(node, _known(graph), options)
    if reason is None:
        return ""
    place = f" (line {reason.span.line})" if reason.span.line else ""
    return f"the loops stay loops: {reason}{place}"


def _known(graph: Graph) -> Known:
    return assuming(Known(graph.size_info()), both(*graph.requires))


def _raised(node: Node, known: Known, options: Options) -> tuple[tuple[Node, ...], NotTensor | None]:
    """The nodes of all results of a nest, or none and the reason."""
    from .loop_events import NotTensor
    from .tensor_form import results

    assert node.attr.nest is not None
    try:
        return results(node.attr.nest, tuple(a.node for a in node.args), known, options), None
    except NotTensor as reason:
        return (), reason


def _parallel(nest: Nest, args: tuple[View, ...], known: Known) -> tuple[Node, ...]:
    """The results of a nest that is not raised; its loops without dependences are marked."""
    from .dependence import independent
    from .loop_events import Events, NotTensor

    try:
        free = independent(Events(nest), known)
    except NotTensor:
        free = set()
    marked = replace(nest, body=_marked(nest.body, free)) if free else nest
    return tuple(make("nest", b.dtype, b.shape, args, Attr(nest=marked, result=k)) for k, b in enumerate(nest.results))


def _marked(block: Block, free: set[int]) -> Block:
    found: list[Stmt] = []
    for s in block:
        match s:
            case Loop():
                found.append(replace(s, body=_marked(s.body, free), kind="parallel" if id(s) in free else s.kind))
            case If():
                found.append(replace(s, body=_marked(s.body, free), orelse=_marked(s.orelse, free)))
            case _:
                found.append(s)
    return tuple(found)
