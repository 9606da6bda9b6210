"""Rules of the graph level."""

from __future__ import annotations

from collections.abc import Iterator

from ..dtypes import INDEX, bool_
from ..expr import Expr
from ..graph import NO_ATTR, Attr, Graph, Node, operand_domain, reduced_extents, state_axes, state_count
from ..kernel import Nest
from ..primops import COMBINERS, OPS
from .expressions import literal_of, mistyped, operands_of
from .header import header_rules, size_names, undeclared
from .kernel import Nested, body_findings
from .rule import Rule, repeated

# What a node of structure carries; the other fields of its Attr keep their defaults.
_CARRIES: dict[str, tuple[str, ...]] = {
    "input": ("name",), "const": ("value",), "iota": ("expr",), "contiguous": (), "reduce": ("combiner", "extents"), "scan": ("combiner", "axis"),
    "gather": ("extents",), "scatter": ("combiner", "extents"), "update": ("extents", "at"), "nest": ("nest", "result"),
    "cascade": ("extents", "result"), "previous": (), "reached": ("extents",),
}  # fmt: skip
_OPERANDS = {"input": 0, "const": 0, "iota": 0, "contiguous": 1, "reduce": 1, "scan": 1, "update": 2, "previous": 1, "reached": 0}
_FIELDS = Attr.__match_args__
_AS_OPERAND = ("contiguous", "reduce", "scan", "gather", "scatter", "update")  # have the dtype of their first operand


def _at(graph: Graph, node: Node) -> str:
    return f"%{graph.nodes().index(node)} = {node.op} {node.dtype.name}{list(node.shape)}"


def _operators(graph: Graph) -> Iterator[str]:
    for node in graph.nodes():
        if node.op not in OPS and node.op not in _CARRIES:
            yield f"{_at(graph, node)}: there is no operator {node.op}"


def _attributes(graph: Graph) -> Iterator[str]:
    for node in graph.nodes():
        carried = _CARRIES.get(node.op, ())
        for name in _FIELDS:
            if name not in carried and getattr(node.attr, name) != getattr(NO_ATTR, name):
                yield f"{_at(graph, node)} carries {name}"
        if "combiner" in carried and node.attr.combiner not in COMBINERS and not (node.op == "scatter" and node.attr.combiner == "set"):
            yield f"{_at(graph, node)}: there is no combiner {node.attr.combiner!r}"
        if node.op in _OPERANDS and len(node.args) != _OPERANDS[node.op]:
            yield f"{_at(graph, node)} has {len(node.args)} operands"
        if node.op in ("gather", "scatter"):
            lead = 1 if node.op == "gather" else 2
            rank = len(node.attr.extents) if node.op == "gather" else node.rank
            if len(node.args) - lead != rank:
                yield f"{_at(graph, node)} has {len(node.args) - lead} indices for {rank} axes"
        if node.op == "scan" and not 0 <= node.attr.axis < node.rank:
            yield f"{_at(graph, node)} runs along axis {node.attr.axis}"
        if node.op == "update" and len(node.attr.at) != node.rank:
            yield f"{_at(graph, node)}: `at` has {len(node.attr.at)} positions"
        if (node.op == "const" and node.shape) or (node.op == "iota" and node.attr.expr is None) or (node.op == "nest" and node.attr.nest is None):
            yield f"{_at(graph, node)} lacks what it is made of"


def _dtypes(graph: Graph) -> Iterator[str]:
    for node in graph.nodes():
        found = ""
        if node.dtype.lanes != 1:
            found = "a vector type at the graph level"
        elif node.op in OPS:
            found = operands_of(OPS[node.op], tuple(a.dtype for a in node.args), node.dtype)
        elif node.op == "const":
            found = literal_of(node.attr.value, node.dtype)
        elif node.op in ("iota", "reached") and (node.dtype is not INDEX or (node.attr.expr is not None and node.attr.expr.dtype is not INDEX)):
            found = f"an iota of {node.dtype}"
        elif node.op in _AS_OPERAND:
            found = _combined(node)
        if found:
            yield f"{_at(graph, node)}: {found}"


def _combined(node: Node) -> str:
    values = node.args[:2] if node.op in ("scatter", "update") else node.args[:1]
    if any(v.dtype is not node.dtype for v in values):
        return "operands of " + " and ".join(v.dtype.name for v in values)
    if any(not i.dtype.is_integer for i in (node.args[len(values) :] if node.op in ("gather", "scatter") else ())):
        return "an index that is no integer"
    if node.attr.combiner in COMBINERS:
        row = OPS[COMBINERS[node.attr.combiner].op]
        return operands_of(row, (node.dtype, node.dtype), node.dtype)
    return ""


def _views(graph: Graph) -> Iterator[str]:
    for node in graph.nodes():
        for k, view in enumerate(node.args):
            if len(view.index) != view.node.rank:
                yield f"{_at(graph, node)}: operand {k} has {len(view.index)} positions for a source of rank {view.node.rank}"
            bad = [e for e in view.index if e.dtype is not INDEX]
            if bad:
                yield f"{_at(graph, node)}: operand {k} has the position {bad[0]!r} of {bad[0].dtype}"


def _domains(graph: Graph) -> Iterator[str]:
    for node in graph.nodes():
        for k, view in enumerate(node.args):
            if view.domain is None:
                continue
            if view.domain.dtype is not bool_:
                yield f"{_at(graph, node)}: the domain of operand {k} is {view.domain.dtype}"
            kinds = (bool,) if view.dtype.kind == "bool" else (int, float) if view.dtype.is_inexact else (int,)
            if type(view.fill) not in kinds:
                yield f"{_at(graph, node)}: operand {k} of {view.dtype} is filled with {view.fill!r}"


def _own(node: Node) -> Iterator[tuple[Expr, int]]:
    """The expressions of a node itself and the rank of the domain that their $ axes run through."""
    yield from ((e, 0) for e in (*node.shape, *node.attr.extents))
    if node.attr.expr is not None:
        yield node.attr.expr, node.rank
    yield from ((e, len(node.attr.extents)) for e in node.attr.at)


def _positions(graph: Graph) -> Iterator[str]:
    known = size_names(graph.sizes, graph.ports)
    for node in graph.nodes():
        where = list(_own(node))
        for k, view in enumerate(node.args):
            rank = len(operand_domain(node, k))
            where += [(e, rank) for e in view.exprs]
        for e, rank in where:
            yield from (f"{_at(graph, node)}: {text}" for text in undeclared(e, known, rank))


def _expressions(graph: Graph) -> Iterator[str]:
    for node in graph.nodes():
        roots = [e for e, _ in _own(node)]
        for view in node.args:
            roots += view.exprs
        yield from (f"{_at(graph, node)}: {text}" for text in mistyped(roots))


def _inputs(graph: Graph) -> Iterator[str]:
    ports = {p.name: p for p in graph.ports}
    for node in graph.nodes():
        if node.op != "input":
            continue
        port = ports.get(node.attr.name)
        if port is None or port.role == "out":
            yield f"{_at(graph, node)} reads {node.attr.name}, which is no port to read"
        elif port.dtype is not node.dtype or port.shape != node.shape:
            yield f"{_at(graph, node)} differs from the port {port.name}: {port.dtype}{list(port.shape)}"


def _outputs(graph: Graph) -> Iterator[str]:
    ports = {p.name: p for p in graph.ports if p.role in ("out", "inout")}
    for name in repeated(name for name, _ in graph.outputs):
        yield f"{name} is written twice"
    for name, node in graph.outputs:
        port = ports.get(name)
        if port is None:
            yield f"{name} is no port to write"
        elif port.dtype is not node.dtype or port.shape != node.shape:
            yield f"{name} is {port.dtype}{list(port.shape)}, its value {node.dtype}{list(node.shape)}"
    written = {name for name, _ in graph.outputs}
    for name in ports:
        if name not in written:
            yield f"{name} has no value"


def _nests(graph: Graph) -> Iterator[str]:
    known = size_names(graph.sizes, graph.ports)
    checked: list[Nest] = []
    for node in graph.nodes():
        nest = node.attr.nest
        if nest is None:
            continue
        if len(node.args) != len(nest.operands):
            yield f"{_at(graph, node)} has {len(node.args)} operands for the buffers of {nest.name}"
            continue
        for view, b in zip(node.args, nest.operands, strict=True):
            if not view.is_identity or view.dtype is not b.dtype or view.node.shape != b.shape:
                yield f"{_at(graph, node)}: the operand for {b.name}: {b.dtype}{list(b.shape)} does not fit it"
        if not 0 <= node.attr.result < len(nest.results):
            yield f"{_at(graph, node)} is result {node.attr.result} of {len(nest.results)}"
        elif nest.results[node.attr.result].dtype is not node.dtype or nest.results[node.attr.result].shape != node.shape:
            yield f"{_at(graph, node)} differs from the result {nest.results[node.attr.result].name} of {nest.name}"
        if nest not in checked:
            checked.append(nest)
            yield from (f"nest {nest.name}: {text}" for text in body_findings(Nested(nest, known)))


def _cascades(graph: Graph) -> Iterator[str]:
    for node in graph.nodes():
        if node.op != "cascade":
            continue
        count, rows = state_count(node), node.attr.extents
        if len(node.args) != 3 * count or not 0 <= node.attr.result < count:
            yield f"{_at(graph, node)} is state {node.attr.result} of {len(node.args)} operands"
            continue
        if any(a.node.op not in ("reduce", "nest") for a in node.args[:count]) or len({reduced_extents(a.node) for a in node.args[:count]}) != 1:
            yield f"{_at(graph, node)}: its states are no reductions over one axis"
            continue
        for k, a in enumerate(node.args[:count]):
            places = [e.attr for e in a.index if e.op == "axis"]
            if a.domain is not None or sorted(places) != list(range(a.node.rank)):
                yield f"{_at(graph, node)}: state {k} is read through more than an order of its axes"
            elif any(a.node.shape[n] is not rows[j] for n, j in enumerate(state_axes(node, k)[0]) if j < len(rows)):
                yield f"{_at(graph, node)}: state {k} has other rows"
        state = node.args[node.attr.result].node
        if state.dtype is not node.dtype or state.shape != node.shape:
            yield f"{_at(graph, node)} differs from its state: {state.dtype}{list(state.shape)}"


RULES: tuple[Rule, ...] = (
    *header_rules(Graph),
    Rule("operators", "every node is a row of the table or of structure", _operators),
    Rule("attributes", "a node carries what its operator needs, and nothing else", _attributes),
    Rule("dtypes", "operands agree in dtype and the operator accepts them", _dtypes),
    Rule("view-rank", "a view has one i64 position for each axis of its source", _views),
    Rule("domains", "the domain of a view is bool and its fill a value of the source's dtype", _domains),
    Rule("positions", "expressions mention declared sizes and $ axes of the right domain only", _positions),
    Rule("expressions", "expressions are well typed", _expressions),
    Rule("inputs", "an input is a declared port, with its dtype and shape", _inputs),
    Rule("outputs", "every port to write has one value, of its dtype and shape", _outputs),
    Rule("cascades", "the states of a cascade are reductions over one axis with the same rows", _cascades),
    Rule("nests", "a nest fits its operands and results, and its statements are valid", _nests),
)
