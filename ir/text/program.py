"""The program level as text."""

from __future__ import annotations

from ..dtypes import INDEX, DType
from ..expr import ONE, Expr
from ..instructions import FRAGMENTS, TILES
from ..program import (
    PRAGMAS,
    Array,
    Assign,
    Barrier,
    Block,
    Call,
    Define,
    Fail,
    For,
    Function,
    If,
    Matrix,
    Multiply,
    Param,
    Prefetch,
    Program,
    Region,
    Scratch,
    Stmt,
    StoreTo,
    Tiles,
    While,
)
from .expressions import show_expr
from .header import read_header, show_header, show_list, show_statements
from .kernel import read_strings
from .parse import Scope, expression, expression_list
from .tokens import Line, Source
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
    lines += ["", "entry:", *show_block(program.entry, "  ")]
    return "\n".join(lines) + "\n"


def show_function(f: Function) -> list[str]:
    text = f"function {word(f.name)}({', '.join(map(_show_param, f.params))})"
    text += f" grid {show_list(f.grid)}" if f.grid else ""
    text += f" threads {show_list(f.threads)}" if f.threads else ""
    text += " fails" if f.fails else ""
    return [text + ":", *show_block(f.body, "  ")]


def _show_param(p: Param) -> str:
    flags = ("const " if p.const else "") + ("may_alias " if p.may_alias else "")
    return f"{flags}{p.dtype.name}{'*' if p.pointer else ''} {word(p.name)}{' position' if p.position else ''}{' natural' if p.natural else ''}"


def show_block(block: Block, indent: str) -> list[str]:
    return show_statements(block, indent, _show_statement)


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
            swizzle = f" swizzle {s.swizzle}" if s.swizzle else ""
            return f"{keyword} {word(s.name)}: {s.dtype.name}[{s.count}]{space}{align}{swizzle}"
        case Scratch():
            align = "" if s.align == 64 else f" align {s.align}"
            return f"scratch {word(s.name)}: {s.dtype.name}[{show_expr(s.count)}]{align}"
        case StoreTo():
            count = "" if s.count is None else f", {show_expr(s.count)}"
            stream = "" if s.stream is None else f" stream {show_expr(s.stream)}"
            return f"{word(s.buffer)}[{show_expr(s.address)}{count}] = {show_expr(s.value)}{stream}"
        case For():
            step = "" if s.step is ONE else f" step {show_expr(s.step)}"
            pragma = f" {s.pragma}" if s.pragma else ""
            pragma += f" {s.times}" if s.times else ""
            serial = "" if s.serial_if is None else f" serial_if {show_expr(s.serial_if)}"
            end = f", {word(s.end)}" if s.end else ""
            return f"for {word(s.var)}{end} in {show_expr(s.start)} .. {show_expr(s.stop)}{step}{pragma}{serial}:"
        case If():
            return f"if {show_expr(s.condition)}:"
        case While():
            return f"while {show_expr(s.condition)}:"
        case Region():
            return "region:" if s.serial_if is None else f"region serial_if {show_expr(s.serial_if)}:"
        case Barrier():
            return f"barrier later {s.later}" if s.later else "barrier"
        case Prefetch():
            cache = f" cache {s.cache}" if s.cache > 1 else ""
            return f"prefetch {word(s.buffer)}[{show_expr(s.address)}]{cache}{' write' if s.write else ''}"
        case Multiply():
            tiles = [f"{word(name)}{show_list(at)}" for name, *at in ((s.buffer, s.address, s.row), s.left, s.right)]
            anew = " anew" if s.anew else ""
            lying = f" in words of {s.neighbours}" if s.neighbours > 1 else ""
            return f"multiply {s.instruction} {s.rows} by {s.columns}{anew} into {tiles[0]} from {tiles[1]}{lying} and {tiles[2]} over {show_expr(s.steps)}"
        case Matrix():
            lines = [
                f"{word(name)}[{', '.join((show_expr(at), *map(str, far)))}]"
                for name, at, *far in ((s.buffer, s.address, *s.distances), s.left, s.right)
            ]
            return (
                f"matrix {s.instruction} {' by '.join(map(str, s.tiles))} into {lines[0]} from {lines[1]} and {lines[2]}{' group' if s.group else ''}"
            )
        case Tiles():
            return f"tiles {'begin' if s.begin else 'end'}"
        case Call():
            return f"call {word(s.function)}({', '.join(show_expr(a) if isinstance(a, Expr) else word(a) for a in s.args)})"
        case Fail():
            return f"fail {s.code}"


def read_program(source: Source) -> Program:
    header = read_header(source)
    scope = header.scope
    target, workspace = "", None
    if (line := source.sees(0, "target")) is not None:
        source.at += 1
        line.take()
        target = line.string()
        line.end()
    if (line := source.sees(0, "workspace")) is not None:
        source.at += 1
        line.take()
        workspace = expression(line, scope)
        line.end()
    notes = read_strings(source, -1, "note")
    functions = []
    while (line := source.sees(0, "function")) is not None:
        source.at += 1
        functions.append(_read_function(source, line, scope.sizes))
    entry: Block = ()
    if (line := source.peek()) is not None:
        source.at += 1
        line.expect("entry")
        entry = _read_body(source, line, scope)
    if (line := source.peek()) is not None:
        line.expected("nothing after the entry")
    return Program(
        header.name, tuple(header.sizes), tuple(header.ports), tuple(functions), entry, tuple(header.derived), tuple(header.requires),
        "\n".join(header.documentation), "\n".join(header.source), target, workspace, notes,
    )  # fmt: skip


def _read_function(source: Source, line: Line, sizes: set[str]) -> Function:
    line.take()
    name = line.name()
    scope = Scope(sizes)
    line.expect("(")
    params: list[Param] = []
    while not line.accept(")"):
        if params:
            line.expect(",")
        p = _read_param(line)
        params.append(p)
        (scope.buffers if p.pointer else scope.variables)[p.name] = p.dtype
    grid = expression_list(line, scope) if line.accept("grid") else ()
    threads = expression_list(line, scope) if line.accept("threads") else ()
    fails = line.accept("fails")
    return Function(name, tuple(params), _read_body(source, line, scope), grid, threads, fails)


def _read_param(line: Line) -> Param:
    const = line.accept("const")
    may_alias = line.accept("may_alias")
    d = line.dtype()
    pointer = line.accept("*")
    return Param(line.name(), d, pointer, const, may_alias, line.accept("position"), line.accept("natural"))


def _read_body(source: Source, line: Line, scope: Scope) -> Block:
    line.expect(":")
    line.end()
    inner = scope.inside()
    return source.block(line.indent, lambda below: _read_statement(source, below, inner))


def _read_statement(source: Source, line: Line, scope: Scope) -> Stmt:
    keyword = line.token.text if line.token.kind == "name" else ""
    if keyword not in _STATEMENTS:
        return _read_assignment(line, scope)
    line.take()
    match keyword:
        case "let" | "var":
            name, d = _declared(line)
            value = expression(line, scope) if line.accept("=") else None
            scope.variables[name] = d
            return Define(name, d, value, keyword == "var")
        case "array" | "shared":
            return _read_array(line, scope, keyword)
        case "scratch":
            name, d = _declared(line)
            line.expect("[")
            count = expression(line, scope)
            line.expect("]")
            scope.buffers[name] = d
            return Scratch(name, d, count, line.integer() if line.accept("align") else 64)
        case "for":
            return _read_for(source, line, scope)
        case "if":
            condition = expression(line, scope)
            body = _read_body(source, line, scope)
            other = source.otherwise(line)
            return If(condition, body, () if other is None else _read_body(source, other, scope))
        case "while":
            condition = expression(line, scope)
            return While(condition, _read_body(source, line, scope))
        case "region":
            serial_if = expression(line, scope) if line.accept("serial_if") else None
            return Region(_read_body(source, line, scope), serial_if)
        case "barrier":
            return Barrier(line.integer() if line.accept("later") else 0)
        case "prefetch":
            name, address = _element(line, scope)
            line.expect("]")
            return Prefetch(name, address, line.integer() if line.accept("cache") else 1, line.accept("write"))
        case "multiply":
            return _read_multiply(line, scope)
        case "matrix":
            return _read_matrix(line, scope)
        case "tiles":
            begin = line.accept("begin")
            if not begin:
                line.expect("end")
            return Tiles(begin)
        case "call":
            return _read_call(line, scope)
        case _:
            return Fail(line.integer())


_STATEMENTS = (
    "let",
    "var",
    "array",
    "shared",
    "scratch",
    "for",
    "if",
    "while",
    "region",
    "barrier",
    "prefetch",
    "multiply",
    "matrix",
    "tiles",
    "call",
    "fail",
)


def _declared(line: Line) -> tuple[str, DType]:
    name = line.name()
    line.expect(":")
    return name, line.dtype()


def _read_array(line: Line, scope: Scope, keyword: str) -> Array:
    name, d = _declared(line)
    line.expect("[")
    count = line.integer()
    line.expect("]")
    space = "shared" if keyword == "shared" else "register" if line.accept("register") else "stack"
    scope.buffers[name] = d
    align = line.integer() if line.accept("align") else 0
    return Array(name, d, count, space, align, line.integer() if line.accept("swizzle") else 0)


def _read_assignment(line: Line, scope: Scope) -> Assign | StoreTo:
    at = line.token
    if line.next.text == "[":
        return _read_store(line, scope)
    name = line.name("a statement")
    if not line.sees("="):
        line.unknown("statement", at, _STATEMENTS)
    if name not in scope.variables:
        line.unknown("variable", at, scope.variables)
    line.take()
    return Assign(name, expression(line, scope))


def _element(line: Line, scope: Scope) -> tuple[str, Expr]:
    """A buffer and an address, without what follows it in the brackets."""
    at = line.token
    name = line.name("the name of a buffer")
    if name not in scope.buffers:
        line.unknown("buffer", at, scope.buffers)
    line.expect("[")
    return name, expression(line, scope)


def _read_store(line: Line, scope: Scope) -> StoreTo:
    name, address = _element(line, scope)
    count = expression(line, scope) if line.accept(",") else None
    line.expect("]")
    line.expect("=")
    value = expression(line, scope)
    return StoreTo(name, address, value, expression(line, scope) if line.accept("stream") else None, count)


def _read_multiply(line: Line, scope: Scope) -> Multiply:
    at = line.token
    instruction = line.name("the name of an instruction")
    if instruction not in TILES:
        line.unknown("instruction", at, TILES)
    rows = line.integer()
    line.expect("by")
    columns = line.integer()
    anew = line.accept("anew")
    found = []
    neighbours = 1
    for keyword, count in (("into", 2), ("from", 3), ("and", 3)):
        line.expect(keyword)
        name, *index = _element(line, scope)
        for _ in range(count - 1):
            line.expect(",")
            index.append(expression(line, scope))
        line.expect("]")
        found.append((name, *index))
        if keyword == "from" and line.accept("in"):
            line.expect("words")
            line.expect("of")
            neighbours = line.integer()
    line.expect("over")
    (buffer, address, row), left, right = found
    return Multiply(instruction, rows, columns, buffer, address, row, left, right, expression(line, scope), anew, neighbours)


def _read_matrix(line: Line, scope: Scope) -> Matrix:
    at = line.token
    instruction = line.name("the name of an instruction")
    if instruction not in FRAGMENTS:
        line.unknown("instruction", at, FRAGMENTS)
    rows = line.integer()
    line.expect("by")
    columns = line.integer()
    line.expect("by")
    tiles = (rows, columns, line.integer())

    def lines(keyword: str, count: int) -> tuple[str, Expr, list[int]]:
        line.expect(keyword)
        name, address = _element(line, scope)
        far: list[int] = []
        for _ in range(count):
            line.expect(",")
            far.append(line.integer())
        line.expect("]")
        return name, address, far

    buffer, address, (mi, h, ni, j) = lines("into", 4)
    (a, left, far), (b, right, wide) = lines("from", 3), lines("and", 3)
    operands = ((a, left, far[0], far[1], far[2]), (b, right, wide[0], wide[1], wide[2]))
    return Matrix(instruction, tiles, buffer, address, (mi, h, ni, j), *operands, line.accept("group"))


def _read_for(source: Source, line: Line, scope: Scope) -> For:
    name = line.name()
    end = line.name() if line.accept(",") else ""
    line.expect("in")
    start = expression(line, scope)
    line.expect("..")
    stop = expression(line, scope)
    step = expression(line, scope) if line.accept("step") else ONE
    pragma = ""
    if line.token.kind == "name" and line.token.text != "serial_if":
        if line.token.text not in PRAGMAS:
            line.unknown("pragma", line.token, PRAGMAS)
        pragma = line.take().text
    times = line.integer() if pragma == "unroll" and line.token.kind == "int" else 0
    serial_if = expression(line, scope) if line.accept("serial_if") else None
    inner = scope.inside()
    inner.variables |= dict.fromkeys((name, end) if end else (name,), INDEX)
    return For(name, start, stop, _read_body(source, line, inner), step, pragma, serial_if, end, times)


def _read_call(line: Line, scope: Scope) -> Call:
    function = line.name()
    line.expect("(")
    args: list[Expr | str] = []
    while not line.accept(")"):
        if args:
            line.expect(",")
        # a bare name of a buffer is passed by pointer
        if line.token.kind in ("name", "string") and line.next.text in (",", ")"):
            at = line.at
            name = line.name()
            if name in scope.buffers and name not in scope.variables:
                args.append(name)
                continue
            line.at = at
        args.append(expression(line, scope))
    return Call(function, tuple(args))
