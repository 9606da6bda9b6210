"""The graph level as text."""

from __future__ import annotations

from ..expr import axis
from ..graph import Attr, Graph, Node, View, make, operand_domain
from ..kernel import Buffer, Nest
from ..primops import COMBINERS, OPS
from ..record import replace
from .expressions import show_expr
from .header import Header, read_buffer, read_header, show_buffer, show_header, show_list
from .kernel import read_block, read_strings, show_block
from .parse import Scope, expression, expression_list
from .tokens import UNKNOWN, Line, Source, Token
from .words import plain, quoted, word

_STRUCTURE = ("input", "const", "iota", "contiguous", "reduce", "scan", "gather", "scatter", "update", "nest", "cascade", "previous", "reached")
_COMBINING = ("reduce", "scan", "scatter")


def show_graph(graph: Graph) -> str:
    lines = show_header("graph", graph)
    number: dict[Node, int] = {}
    nests: dict[Nest, int] = {}  # the number of the node that spells it out
    for node in graph.nodes():
        k = number[node] = len(number)
        text = f"%{k} = {_head(node, nests)}"
        text += "".join(f" {_show_view(node, place, view, number)}" for place, view in enumerate(node.args))
        nest = node.attr.nest
        if nest is not None and nest not in nests:
            nests[nest] = k
            lines.append(text + ":")
            lines += [f"  operand {show_buffer(b)}" for b in nest.operands]
            lines += [f"  result {show_buffer(b)}" for b in nest.results]
            lines += [f"  note {quoted(n)}" for n in nest.notes]
            lines += show_block(nest.body, "  ")
        else:
            lines.append(text)
    lines += [f"output {word(name)} = %{number[node]}" for name, node in graph.outputs]
    return "\n".join(lines) + "\n"


def _head(node: Node, nests: dict[Nest, int]) -> str:
    """The operator with its dtype, shape and attributes: all but the operands."""
    a = node.attr
    op = f"{node.op}.{a.combiner}" if a.combiner else node.op
    text = f"{op} {node.dtype.name}{show_list(node.shape)}"
    match node.op:
        case "input":
            text += f" {word(a.name)}"
        case "const":
            text += f" {plain(a.value)}"
        case "iota" if a.expr is not None:
            text += f" {show_expr(a.expr)}"
        case "scan":
            text += f" axis {a.axis}"
        case "reduce" | "gather" | "scatter" | "reached":
            text += f" over {show_list(a.extents)}"
        case "update":
            text += f" over {show_list(a.extents)} at {show_list(a.at)}"
        case "cascade":
            text += f" result {a.result} over {show_list(a.extents)}"
        case "nest" if a.nest is not None:
            text += f" result {a.result} " + (f"as %{nests[a.nest]}" if a.nest in nests else word(a.nest.name))
        case _:
            pass
    return text


def _show_view(node: Node, place: int, view: View, number: dict[Node, int]) -> str:
    text = f"%{number[view.node]}"
    # bare where it reads the same point that the node is at: a source of lower rank shows what it is spread along
    if not (view.is_identity and view.node.rank == len(operand_domain(node, place)) == len(view.index)):
        text += show_list(view.index)
        if view.domain is not None:
            text += f" if {show_expr(view.domain)} else {plain(view.fill)}"
    return text


def read_graph(source: Source) -> Graph:
    header = read_header(source)
    reader = _GraphReader(source, header)
    outputs = []
    while (line := source.peek()) is not None:
        source.at += 1
        if line.indent != 0:
            line.fail(f"expected an indentation of 0, found {line.indent}")
        if line.accept("output"):
            name = line.name()
            line.expect("=")
            outputs.append((name, reader.known(line)))
        else:
            reader.node(line)
        line.end()
    return Graph(
        header.name, tuple(header.sizes), tuple(header.ports), tuple(outputs), tuple(header.derived), tuple(header.requires),
        "\n".join(header.documentation), "\n".join(header.source),
    )  # fmt: skip


class _GraphReader:
    def __init__(self, source: Source, header: Header) -> None:
        self.source, self.scope = source, header.scope
        self.nodes: dict[str, Node] = {}

    def known(self, line: Line) -> Node:
        token = line.token
        if token.kind != "node":
            line.expected("a node")
        line.take()
        if token.text not in self.nodes:
            line.fail(f"there is no node {token.text} above this line", token, UNKNOWN)
        return self.nodes[token.text]

    def node(self, line: Line) -> None:
        at = line.token
        if at.kind != "node":
            line.expected("a node or an output")
        line.take()
        if at.text in self.nodes:
            line.fail(f"{at.text} stands twice", at)
        line.expect("=")
        op, combiner = _operator(line)
        dtype = line.dtype()
        shape = expression_list(line, self.scope)
        attr, spelled_out = self.attributes(line, op, combiner)
        args = []
        while line.token.kind == "node":
            args.append(self.view(line))
        if spelled_out:
            line.expect(":")
            line.end()
            attr = replace(attr, nest=self.nest(line, attr.name), name="")
        self.nodes[at.text] = make(op, dtype, shape, tuple(args), attr)

    def attributes(self, line: Line, op: str, combiner: str) -> tuple[Attr, bool]:
        """What stands between the shape and the operands; whether a nest is spelled out below (its name is then in `name`)."""
        extents = at = ()
        match op:
            case "input":
                return Attr(name=line.name()), False
            case "const":
                return Attr(value=line.scalar()), False
            case "iota":
                return Attr(expr=expression(line, self.scope)), False
            case "scan":
                line.expect("axis")
                return Attr(combiner=combiner, axis=line.integer()), False
            case "nest":
                line.expect("result")
                result = line.integer()
                if not line.accept("as"):
                    return Attr(name=line.name(), result=result), True
                token = line.token
                nest = self.known(line).attr.nest
                if nest is None:
                    line.fail(f"{token.text} is no nest", token)
                return Attr(nest=nest, result=result), False
            case "cascade":
                line.expect("result")
                result = line.integer()
                line.expect("over")
                return Attr(extents=expression_list(line, self.scope), result=result), False
            case "reduce" | "gather" | "scatter" | "update" | "reached":
                line.expect("over")
                extents = expression_list(line, self.scope)
                if op == "update":
                    line.expect("at")
                    at = expression_list(line, self.scope)
            case _:
                pass
        return Attr(combiner=combiner, extents=extents, at=at), False

    def view(self, line: Line) -> View:
        node = self.known(line)
        if not line.sees("["):
            return View(node, tuple(axis(k) for k in range(node.rank)))
        index = expression_list(line, self.scope)
        if not line.accept("if"):
            return View(node, index)
        domain = expression(line, self.scope)
        line.expect("else")
        return View(node, index, domain, line.scalar())

    def nest(self, line: Line, name: str) -> Nest:
        scope = Scope(self.scope.sizes)
        buffers: dict[str, list[Buffer]] = {"operand": [], "result": []}
        while (below := self.source.peek()) is not None and below.indent > line.indent and below.token.text in buffers:
            self.source.at += 1
            buffer = buffers[below.take().text]
            buffer.append(read_buffer(below, scope))
            scope.buffers[buffer[-1].name] = buffer[-1].dtype
            below.end()
        notes = read_strings(self.source, line.indent, "note")
        return Nest(name, tuple(buffers["operand"]), tuple(buffers["result"]), read_block(self.source, line, scope), notes)


def _operator(line: Line) -> tuple[str, str]:
    token = line.token
    op, _, combiner = line.name("an operator").partition(".")
    if op not in OPS and op not in _STRUCTURE:
        line.unknown("operator", Token("name", op, token.column), [*OPS, *_STRUCTURE])
    combiners = [*COMBINERS, "set"] if op == "scatter" else [*COMBINERS] if op in _COMBINING else [""]
    if combiner not in combiners:
        line.unknown(f"combiner of {op}", Token("name", combiner, token.column), combiners)
    return op, combiner
