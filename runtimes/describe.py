"""A program in words, for the comments at the head of emitted files."""

from __future__ import annotations

from ..ir.expr import Expr, size
from ..ir.graph import Port
from ..ir.program import Program
from ..ir.target import Target
from ..ir.version import VERSION
from .expressions import Expressions
from .layout import comment
from .signature import limits

_ROLES = {"in": "read", "out": "written", "inout": "read and written", "scalar": "by value"}


def heading(program: Program, target: Target, e: Expressions, brief: bool = False) -> str:
    """The first comment: name, documentation, the composite's own text, target, version, preconditions.  No paths, no dates."""
    lines = [program.name + (f" - {first_line(program.documentation)}" if program.documentation else "")]
    if program.source and not brief:
        lines += ["", *program.source.strip("\n").split("\n")]
    lines += ["", f"target: {program.target or target.describe}", f"compiler: luminal {VERSION}"]
    lines += [f"requires: {text}" for text in preconditions(program, e)]
    return block_comment(lines)


def block_comment(lines: list[str]) -> str:
    """Lines as one C comment."""
    text = comment("\n".join(lines)).replace("\n", "\n   ")
    return "/* " + "\n".join(line.rstrip() for line in text.split("\n")) + "\n*/"


def first_line(text: str) -> str:
    return text.strip().split("\n")[0].strip()


def preconditions(program: Program, e: Expressions) -> list[str]:
    """What the entry checks of the sizes, as C conditions."""
    found = []
    for name, low, high, multiple in limits(program):
        text = words(size(name), e)
        found.append(f"{low} <= {text}" + (f" <= {high}" if high is not None else ""))
        if multiple != 1:
            found.append(f"{text} % {multiple} == 0")
    return found + [words(c, e) for c in program.requires]


def formulas(program: Program, e: Expressions) -> list[str]:
    """`name = formula` of the derived sizes."""
    return [f"{name} = {words(formula, e)}" for name, formula in program.derived]


def described_parameters(program: Program, names: dict[str, str], e: Expressions) -> str:
    """What a header says of the entry: its documentation, one line a parameter, what is allowed of memory, what is returned."""
    lines = [*(program.documentation.strip() or program.name).split("\n"), ""]
    width = max((len(n) for n in names.values()), default=0)
    for p in program.ports:
        label = ", ".join(names[name] for name, _ in p.values) if p.role == "scalar" else names[p.name]
        lines.append(f"{label:<{width}}  {port_words(p, e)}")
    for s in program.sizes:
        bounds = [f">= {s.min}"] + ([f"<= {s.max}"] if s.max < (1 << 62) - 1 else []) + ([f"a multiple of {s.multiple}"] if s.multiple != 1 else [])
        lines.append(f"{names[s.name]:<{width}}  size, {', '.join(bounds)}")
    lines += [f"where {text}" for text in formulas(program, e)]
    lines += [f"requires {words(c, e)}" for c in program.requires]
    lines += [
        "",
        "Element alignment suffices.  A pointer may be NULL where its tensor has no elements.  What is written may not overlap anything else.",
        "Returns 0, or a code that strerror explains; then nothing that was written means anything.  Thread-safe, no global state.",
    ]
    return block_comment(lines)


def port_words(p: Port, e: Expressions) -> str:
    shape = ", ".join(words(x, e) for x in p.shape)
    kinds = {
        "f16": " (bits of an IEEE half)", "bf16": " (bits of a bfloat16)", "f8e4m3": " (bits of an OCP E4M3, no infinities)", "f8e5m2": " (bits of an OCP E5M2)",
        "bool": " (bytes 0 and 1)", "c64": " (real part, imaginary part)",
    }  # fmt: skip
    text = f"{_ROLES[p.role]}, {p.dtype.name}{kinds.get(p.dtype.name, '')}"
    return text if p.role == "scalar" else f"{text} [{shape}], {layout(p)}"


def layout(p: Port) -> str:
    """The memory order of a port."""
    order = p.memory_order
    if len(order) < 2 and not p.strided:
        return "contiguous"
    if order == tuple(range(len(order))):
        text = "row-major"
    elif order == tuple(reversed(range(len(order)))):
        text = "column-major"
    else:
        text = f"axes from outer to inner {' '.join(map(str, order))}"
    return text + (f", leading strides {', '.join(p.strided)} (in elements)" if p.strided else "")


# How formulas are written for people: no helper functions.
_WORDS = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "floordiv": "{0} / {1}", "mod": "{0} % {1}", "neg": "-{0}", "abs": "abs({0})",
    "max": "max({0}, {1})", "min": "min({0}, {1})", "equal": "{0} == {1}", "not_equal": "{0} != {1}", "less_than": "{0} < {1}",
    "less_equal": "{0} <= {1}", "bit_and": "{0} && {1}", "bit_or": "{0} || {1}", "bit_not": "!{0}", "where": "{0} ? {1} : {2}",
}  # fmt: skip


def words(x: Expr, e: Expressions) -> str:
    return e.respelled(_WORDS).text(x)


__all__ = ["block_comment", "described_parameters", "first_line", "formulas", "heading", "layout", "port_words", "preconditions", "words"]
