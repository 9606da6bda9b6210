"""The graph level as text."""

from __future__ import annotations

from ..graph import Graph, Node, View, operand_domain
from ..kernel import Nest
from .expressions import show_expr
from .header import show_buffer, show_header, show_list
from .kernel import show_block
from .words import plain, word


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
        case "reduce" | "gather" | "scatter":
            text += f" over {show_list(a.extents)}"
        case "update":
            text += f" over {show_list(a.extents)} at {show_list(a.at)}"
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
