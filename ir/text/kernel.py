"""The kernel level as text."""

from __future__ import annotations

from ..expr import ONE
from ..kernel import Alloc, Barrier, Block, Check, If, Kernel, Let, Loop, Module, Region, Stmt, Store, While
from .expressions import show_expr
from .header import show_buffer, show_header, show_list
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
    lines: list[str] = []
    for s in block:
        lines.append(indent + _show_statement(s))
        if isinstance(s, (Loop, While, Region, If)):
            lines += show_block(s.body, indent + "  ")
        if isinstance(s, If) and s.orelse:
            lines += [f"{indent}else:", *show_block(s.orelse, indent + "  ")]
    return lines


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
            return f"{word(s.buffer)}{show_list(s.index)}{combiner} {show_expr(s.value)}"
        case If():
            return f"if {show_expr(s.condition)}:"
        case While():
            limit = "" if s.limit is None else f" max {show_expr(s.limit)}"
            return f"while {show_expr(s.condition)}{limit}:"
        case Region():
            return "region:"
        case Barrier():
            return "barrier"
        case Check():
            return f"check {show_expr(s.condition)} code {s.code}"
