"""What every level begins with: its name and version, the text it came from, sizes, ports, derived sizes and preconditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any

from ..expr import Expr
from ..graph import Graph, Port, Size
from ..kernel import SPACES, Buffer, Module
from ..program import Program
from ..record import changing
from .expressions import show_expr
from .parse import Scope, expression, expression_list
from .tokens import Line, Source
from .words import quoted, word

VERSION = "v1"


def show_header(level: str, x: Graph | Module | Program) -> list[str]:
    lines = [f"{level} {word(x.name)} {VERSION}"]
    lines += show_text("doc", x.documentation)
    lines += show_text("source", x.source)
    lines += [_show_size(s) for s in x.sizes]
    lines += [_show_port(p) for p in x.ports]
    lines += [f"derived {word(name)} = {show_expr(e)}" for name, e in x.derived]
    lines += [f"require {show_expr(e)}" for e in x.requires]
    return lines


def show_text(keyword: str, text: str) -> list[str]:
    """One quoted line for each line of the text; none where there is no text."""
    return [f"{keyword} {quoted(line)}" for line in text.split("\n")] if text else []


def show_statements(block: Iterable[Any], indent: str, head: Callable[[Any], str]) -> list[str]:
    """The line of each statement of a kernel or of a program, and behind it what it holds, further in."""
    lines: list[str] = []
    for s in block:
        lines.append(indent + head(s))
        lines += show_statements(getattr(s, "body", ()), indent + "  ", head)
        if orelse := getattr(s, "orelse", ()):
            lines += [f"{indent}else:", *show_statements(orelse, indent + "  ", head)]
    return lines


def show_list(items: Iterable[Expr]) -> str:
    return "[" + ", ".join(map(show_expr, items)) + "]"


def _show_size(s: Size) -> str:
    usual = Size(s.name)
    facts = ("min", "max", "multiple")
    return f"size {word(s.name)}" + "".join(f" {f} {getattr(s, f)}" for f in facts if getattr(s, f) != getattr(usual, f))


def _show_port(p: Port) -> str:
    text = f"{p.role} {word(p.name)}: {p.dtype.name}{show_list(p.shape)}"
    if p.order:
        text += " order " + " ".join(map(str, p.order))
    if p.strided:
        text += " strided " + " ".join(map(word, p.strided))
    if p.index_limit is not None:
        text += f" index {show_expr(p.index_limit)}"
    if p.draw != "normal":
        text += f" draw {quoted(p.draw)}"
    return text + " pairs" if p.pairs else text


def show_buffer(b: Buffer) -> str:
    text = f"{word(b.name)}: {b.dtype.name}{show_list(b.shape)}"
    if b.space != "global":
        text += f" {b.space}"
    if b.strides:
        text += f" strides {show_list(b.strides)}"
    if b.align:
        text += f" align {b.align}"
    if b.swizzle:
        text += f" swizzle {b.swizzle}"
    return text


@changing
class Header:
    """The header as it is read; `scope` holds what it declares."""

    name: str = ""
    documentation: list[str] = field(default_factory=list)
    source: list[str] = field(default_factory=list)
    sizes: list[Size] = field(default_factory=list)
    ports: list[Port] = field(default_factory=list)
    derived: list[tuple[str, Expr]] = field(default_factory=list)
    requires: list[Expr] = field(default_factory=list)
    scope: Scope = field(default_factory=Scope)


def read_header(source: Source) -> Header:
    """The first line and all header lines that follow it, in any order that declares a name before its use."""
    header = Header()
    line = source.lines[0]
    source.at = 1
    line.take()
    header.name = line.name()
    if line.token.text != VERSION:
        line.expected(f"the version {VERSION} of this format")
    line.take()
    line.end()
    while (line := source.peek()) is not None and line.indent == 0 and _header_line(line, header):
        line.end()
        source.at += 1
    return header


def _header_line(line: Line, header: Header) -> bool:
    """Read a line of the header; False, with nothing taken, where it is none."""
    keyword = line.token.text
    match keyword:
        case "doc" | "source":
            line.take()
            (header.documentation if keyword == "doc" else header.source).append(line.string())
        case "size":
            line.take()
            header.sizes.append(_read_size(line))
            header.scope.sizes.add(header.sizes[-1].name)
        case "in" | "out" | "inout" | "scalar":
            header.ports.append(_read_port(line, header.scope))
        case "derived":
            line.take()
            name = line.name()
            line.expect("=")
            header.derived.append((name, expression(line, header.scope)))
        case "require":
            line.take()
            header.requires.append(expression(line, header.scope))
        case _:
            return False
    return True


def _read_size(line: Line) -> Size:
    name = line.name()
    facts: dict[str, int] = {}
    while line.token.text in ("min", "max", "multiple"):
        key = line.take().text
        facts[key] = line.integer()
    return Size(name, **facts)


def _read_port(line: Line, scope: Scope) -> Port:
    role = line.take().text
    name = line.name()
    line.expect(":")
    d = line.dtype()
    shape = expression_list(line, scope)
    order: list[int] = []
    strided: list[str] = []
    if line.accept("order"):
        while line.token.kind == "int":
            order.append(line.integer())
    if line.accept("strided"):
        while line.token.kind == "string" or (line.token.kind == "name" and line.token.text not in ("index", "draw", "pairs")):
            strided.append(line.name())
    index = expression(line, scope) if line.accept("index") else None
    draw = line.string() if line.accept("draw") else "normal"
    port = Port(name, d, shape, role, tuple(order), tuple(strided), index, draw, pairs=line.accept("pairs"))
    scope.sizes.update(strided)
    scope.buffers[name] = d.part if port.pairs else d
    if role == "scalar":
        scope.variables.update(port.values)
    return port


def read_buffer(line: Line, scope: Scope) -> Buffer:
    name = line.name()
    line.expect(":")
    d = line.dtype()
    shape = expression_list(line, scope)
    space = line.take().text if line.token.text in SPACES else "global"
    strides = expression_list(line, scope) if line.accept("strides") else ()
    align = line.integer() if line.accept("align") else 0
    return Buffer(name, d, shape, space, strides, align, line.integer() if line.accept("swizzle") else 0)
