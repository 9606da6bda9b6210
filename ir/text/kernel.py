"""The kernel level as text."""

from __future__ import annotations

from ..dtypes import INDEX
from ..expr import ONE
from ..kernel import KINDS, Alloc, Barrier, Block, Check, If, Kernel, Let, Loop, Module, Prefetch, Region, Stmt, Store, While
from ..primops import COMBINERS
from .expressions import show_expr
from .header import read_buffer, read_header, show_buffer, show_header, show_list, show_statements
from .parse import Scope, expression, expression_list
from .tokens import MISMATCH, Line, Source
from .words import quoted, word


def show_module(module: Module) -> str:
    lines = show_header("kernels", module)
    lines += [f"temp {show_buffer(b)}" for b in module.temps]
    for kernel in module.kernels:
        lines += ["", *show_kernel(kernel)]
    return "\n".join(lines) + "\n"


def show_kernel(kernel: Kernel) -> list[str]:
    lines = [f"kernel {word(kernel.name)}({', '.join(map(word, kernel.buffers))}):"]
    lines += [f"  schedule {quoted(step)}" for step in kernel.schedule]
    lines += [f"  note {quoted(note)}" for note in kernel.notes]
    return lines + show_block(kernel.body, "  ")


def show_block(block: Block, indent: str) -> list[str]:
    return show_statements(block, indent, _show_statement)


def _show_statement(s: Stmt) -> str:
    match s:
        case Loop():
            step = "" if s.step is ONE else f" step {show_expr(s.step)}"
            kind = "" if s.kind == "serial" else f" {s.kind}"
            return f"for {word(s.axis)} in {show_expr(s.start)} .. {show_expr(s.stop)}{step}{kind}:"
        case Let():
            return f"let {word(s.name)}: {s.value.dtype.name} = {show_expr(s.value)}"
        case Alloc():
            return f"alloc {show_buffer(s.buffer)}"
        case Store():
            combiner = f" {s.combiner}=" if s.combiner else " ="
            stream = "" if s.stream is None else f" stream {show_expr(s.stream)}"
            return f"{word(s.buffer)}{show_list(s.index)}{combiner} {show_expr(s.value)}{stream}"
        case If():
            return f"if {show_expr(s.condition)}:"
        case While():
            limit = "" if s.limit is None else f" max {show_expr(s.limit)}"
            return f"while {show_expr(s.condition)}{limit}:"
        case Region():
            return "region:"
        case Barrier():
            return f"barrier later {s.later}" if s.later else "barrier"
        case Prefetch():
            cache = f" cache {s.cache}" if s.cache > 1 else ""
            return f"prefetch {word(s.buffer)}{show_list(s.index)} ahead {show_expr(s.ahead)}{cache}{' write' if s.write else ''}"
        case Check():
            return f"check {show_expr(s.condition)} code {s.code}"


def read_module(source: Source) -> Module:
    header = read_header(source)
    scope = header.scope
    temps = []
    while (line := source.sees(0, "temp")) is not None:
        source.at += 1
        line.take()
        temps.append(read_buffer(line, scope))
        scope.buffers[temps[-1].name] = temps[-1].dtype
        line.end()
    kernels = source.block(-1, lambda line: _read_kernel(source, line, scope))
    return Module(
        header.name, tuple(header.sizes), tuple(header.ports), tuple(temps), kernels, tuple(header.derived), tuple(header.requires),
        "\n".join(header.documentation), "\n".join(header.source),
    )  # fmt: skip


def _read_kernel(source: Source, line: Line, scope: Scope) -> Kernel:
    line.expect("kernel")
    name = line.name()
    buffers = _read_names(line)
    line.expect(":")
    line.end()
    schedule = read_strings(source, line.indent, "schedule")
    notes = read_strings(source, line.indent, "note")
    return Kernel(name, buffers, read_block(source, line, scope), schedule, notes)


def _read_names(line: Line) -> tuple[str, ...]:
    """`(NAME, …)`."""
    line.expect("(")
    names: list[str] = []
    while not line.accept(")"):
        if names:
            line.expect(",")
        names.append(line.name())
    return tuple(names)


def read_strings(source: Source, parent: int, keyword: str) -> tuple[str, ...]:
    """The lines `KEYWORD "…"` that come next, indented deeper than `parent`."""
    found: list[str] = []
    while (line := source.peek()) is not None and line.indent > parent and line.sees(keyword):
        source.at += 1
        line.take()
        found.append(line.string())
        line.end()
    return tuple(found)


def read_block(source: Source, parent: Line, scope: Scope) -> Block:
    """The statements below `parent`; what they declare ends with them."""
    inner = scope.inside()
    return source.block(parent.indent, lambda line: _read_statement(source, line, inner))


def _read_body(source: Source, line: Line, scope: Scope) -> Block:
    line.expect(":")
    line.end()
    return read_block(source, line, scope)


def _read_statement(source: Source, line: Line, scope: Scope) -> Stmt:
    word_ = line.token.text if line.token.kind == "name" else ""
    if word_ not in _STATEMENTS:
        return _read_store(line, scope)
    line.take()
    match word_:
        case "for":
            return _read_loop(source, line, scope)
        case "let":
            return _read_let(line, scope)
        case "alloc":
            buffer = read_buffer(line, scope)
            scope.buffers[buffer.name] = buffer.dtype
            return Alloc(buffer)
        case "if":
            condition = expression(line, scope)
            body = _read_body(source, line, scope)
            other = source.otherwise(line)
            return If(condition, body, () if other is None else _read_body(source, other, scope))
        case "while":
            condition = expression(line, scope)
            limit = expression(line, scope) if line.accept("max") else None
            return While(condition, _read_body(source, line, scope), limit)
        case "region":
            return Region(_read_body(source, line, scope))
        case "barrier":
            return Barrier(line.integer() if line.accept("later") else 0)
        case "prefetch":
            name = _known_buffer(line, scope)
            index = expression_list(line, scope)
            line.expect("ahead")
            ahead = expression(line, scope)
            return Prefetch(name, index, ahead, line.integer() if line.accept("cache") else 1, line.accept("write"))
        case _:
            condition = expression(line, scope)
            line.expect("code")
            return Check(condition, line.integer())


_STATEMENTS = ("for", "let", "alloc", "if", "while", "region", "barrier", "check", "prefetch")


def _read_loop(source: Source, line: Line, scope: Scope) -> Loop:
    axis = line.name()
    line.expect("in")
    start = expression(line, scope)
    line.expect("..")
    stop = expression(line, scope)
    step = expression(line, scope) if line.accept("step") else ONE
    kind = "serial"
    if line.token.kind == "name":
        if line.token.text not in KINDS:
            line.unknown("kind of axis", line.token, KINDS)
        kind = line.take().text
    inner = scope.inside()
    inner.variables[axis] = INDEX
    return Loop(axis, start, stop, _read_body(source, line, inner), kind, step)


def _read_let(line: Line, scope: Scope) -> Let:
    name = line.name()
    line.expect(":")
    at = line.token
    d = line.dtype()
    line.expect("=")
    value = expression(line, scope)
    if value.dtype is not d:
        line.fail(f"{name} is declared {d.name}, its value is {value.dtype.name}", at, MISMATCH)
    scope.variables[name] = d
    return Let(name, value)


def _known_buffer(line: Line, scope: Scope) -> str:
    at = line.token
    name = line.name("the name of a buffer")
    if name not in scope.buffers:
        line.unknown("buffer", at, scope.buffers)
    return name


def _read_store(line: Line, scope: Scope) -> Store:
    at = line.token
    name = line.name("a statement")
    if not line.sees("["):
        line.unknown("statement", at, _STATEMENTS)
    if name not in scope.buffers:
        line.unknown("buffer", at, scope.buffers)
    index = expression_list(line, scope)
    combiner = ""
    if line.token.kind == "name":
        if line.token.text not in COMBINERS:
            line.unknown("combiner", line.token, COMBINERS)
        combiner = line.take().text
    line.expect("=")
    value = expression(line, scope)
    return Store(name, index, value, combiner, stream=expression(line, scope) if line.accept("stream") else None)
