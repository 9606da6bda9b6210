"""The program level as text."""

from __future__ import annotations

from ..expr import ONE, Expr
from ..program import Array, Assign, Barrier, Block, Call, Define, Fail, For, Function, If, Param, Program, Region, Scratch, Stmt, StoreTo, While
from .expressions import show_expr
from .header import show_header, show_list
from .words import quoted, word


def show_program(program: Program) -> str:
    lines = show_header("program", program)
    if program.target:
        lines.append(f"target {quoted(program.target)}")
    if program.workspace is not None:
        lines.append(f"workspace {show_expr(program.workspace)}")
    lines += [f"note {quoted(note)}" for note in program.notes]
    for function in program.functions:
        lines += ["", *show_function(function)]
    lines += ["", "entry:", *show_statements(program.entry, "  ")]
    return "\n".join(lines) + "\n"


def show_function(f: Function) -> list[str]:
    text = f"function {word(f.name)}({', '.join(map(_show_param, f.params))})"
    text += f" grid {show_list(f.grid)}" if f.grid else ""
    text += f" threads {show_list(f.threads)}" if f.threads else ""
    text += " fails" if f.fails else ""
    return [text + ":", *show_statements(f.body, "  ")]


def _show_param(p: Param) -> str:
    flags = ("const " if p.const else "") + ("may_alias " if p.may_alias else "")
    return f"{flags}{p.dtype.name}{'*' if p.pointer else ''} {word(p.name)}"


def show_statements(block: Block, indent: str) -> list[str]:
    lines: list[str] = []
    for s in block:
        lines.append(indent + _show_statement(s))
        if isinstance(s, (For, While, Region, If)):
            lines += show_statements(s.body, indent + "  ")
        if isinstance(s, If) and s.orelse:
            lines += [f"{indent}else:", *show_statements(s.orelse, indent + "  ")]
    return lines


def _show_statement(s: Stmt) -> str:
    match s:
        case Define():
            value = "" if s.value is None else f" = {show_expr(s.value)}"
            return f"{'var' if s.mutable else 'let'} {word(s.name)}: {s.dtype.name}{value}"
        case Assign():
            return f"{word(s.name)} = {show_expr(s.value)}"
        case Array():
            keyword = "shared" if s.space == "shared" else "array"
            space = "" if s.space in ("shared", "stack") else f" {s.space}"
            align = f" align {s.align}" if s.align else ""
            return f"{keyword} {word(s.name)}: {s.dtype.name}[{s.count}]{space}{align}"
        case Scratch():
            align = "" if s.align == 64 else f" align {s.align}"
            return f"scratch {word(s.name)}: {s.dtype.name}[{show_expr(s.count)}]{align}"
        case StoreTo():
            return f"{'stream ' if s.stream else ''}{word(s.buffer)}[{show_expr(s.address)}] = {show_expr(s.value)}"
        case For():
            step = "" if s.step is ONE else f" step {show_expr(s.step)}"
            pragma = f" {s.pragma}" if s.pragma else ""
            serial = "" if s.serial_if is None else f" serial_if {show_expr(s.serial_if)}"
            return f"for {word(s.var)} in {show_expr(s.start)} .. {show_expr(s.stop)}{step}{pragma}{serial}:"
        case If():
            return f"if {show_expr(s.condition)}:"
        case While():
            return f"while {show_expr(s.condition)}:"
        case Region():
            return "region:" if s.serial_if is None else f"region serial_if {show_expr(s.serial_if)}:"
        case Barrier():
            return "barrier"
        case Call():
            return f"call {word(s.function)}({', '.join(show_expr(a) if isinstance(a, Expr) else word(a) for a in s.args)})"
        case Fail():
            return f"fail {s.code}"
