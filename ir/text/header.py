"""What every level begins with: its name and version, the text it came from, sizes, ports, derived sizes and preconditions."""

from __future__ import annotations

from collections.abc import Iterable

from ..expr import Expr
from ..graph import Graph, Port, Size
from ..kernel import Buffer, Module
from ..program import Program
from .expressions import show_expr
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
    return text


def show_buffer(b: Buffer) -> str:
    text = f"{word(b.name)}: {b.dtype.name}{show_list(b.shape)}"
    if b.space != "global":
        text += f" {b.space}"
    if b.strides:
        text += f" strides {show_list(b.strides)}"
    if b.align:
        text += f" align {b.align}"
    return text
