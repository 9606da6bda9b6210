"""Program → text, for C-family languages: one macro of `statements.j2` a kind of statement (those that a folder does not bring are inherited), one template a product.

A macro has the name of the statement's class and receives the rendered parts as keywords.  A line that is only `{{ body }}` stands for the statements
inside (`{{ orelse }}` for the other branch), indented as that line is (two spaces a level in the templates, `indent` in the product).  `Scratch` takes the
statements that follow it in its block as its body, so that a macro can free what it made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ir.dtypes import INDEX
from ..ir.errors import CompilerBug
from ..ir.expr import ONE, ZERO, Expr, call, var
from ..ir.positions import of_loop
from ..ir.program import (
    ERRORS,
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
    statements,
)  # fmt: skip
from ..ir.record import changing, replace
from ..ir.walks import postorder, substitute
from . import Description
from .expressions import Expressions
from .helpers import Helpers, Types
from .layout import BODY, ORELSE, depth_of, lines_of, segments_of
from .names import Names
from .scope import Info, Key, Scope
from .spelling import Need
from .teams import copied_in, ends_by_leaving, failing, fails_in_team, team_inside

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def environment(folders: tuple[Path, ...]) -> Environment:
    """The templates of a runtime's folder, then those of what it inherits from.

    `NAME/FILE` is the one of the inherited folder NAME, so that a template can include or extend the one that it stands in for; `K/FILE` that of folder K.
    """
    from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader, StrictUndefined

    from .templates import Kept

    loaders = [FileSystemLoader(folder) for folder in folders]
    named = {folder.name: loader for folder, loader in zip(reversed(folders[1:]), reversed(loaders[1:]), strict=True)}
    return Environment(
        loader=ChoiceLoader([*loaders, PrefixLoader({**named, **{str(k): loader for k, loader in enumerate(loaders)}})]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
        optimized=False,  # looking for constants at every level of every expression: a ninth of compiling a template, and there are none
        bytecode_cache=Kept(),
    )


@changing
class _Frame:
    """A block that is being rendered: what is left of it, where it stands, and what comes after it."""

    rest: Iterator[Stmt]
    depth: int
    after: list[tuple[Block | None, list[str], int]]  # then: lines (depth relative to `base`), then perhaps another block
    base: int
    team: str  # "" | region | loop: inside a region, or a loop whose iterations are divided among threads: no return from here
    restore: dict[Key, Info] = field(default_factory=dict)
    added: list[Key] = field(default_factory=list)
    release: int = 0  # scratch names to forget at the end


class Renderer:
    """Everything that one source shares: types, helpers, names.  Use one a product."""

    def __init__(
        self, description: Description, folders: tuple[Path, ...], program: Program, reserved: frozenset[str] = frozenset(), register_bytes: int = 0
    ) -> None:
        self.program = program
        self.environment = environment(folders)
        self.indent = " " * description.table.get("indent", 2)
        self.restrict = description.table.get("restrict", "restrict")
        self.types = Types(description.dtypes, register_bytes)
        self.helpers = Helpers(self.environment, folders, self.types)
        self.expressions = Expressions(description, self.types, self.helpers)
        self.names = Names(reserved)
        self._local = self.names
        from .templates import blamed

        given = {"need": self.helpers.need, "vector": self.types.info}
        # a folder may bring some of the macros only
        files = [f"{k}/statements.j2" for k, folder in enumerate(folders) if (folder / "statements.j2").is_file()]
        self._modules = []
        self._macros: dict[str, Any] = {}  # by the kind of statement
        for file in files:
            with blamed(str(folders[int(file.partition("/")[0])] / "statements.j2")):
                self._modules.append(self.environment.get_template(file).make_module(given))
        self._functions = {f.name: f for f in program.functions}
        self.failing = failing(program)
        self._live: list[str] = []
        self._place = "function"

    # ---- names

    def function_name(self, name: str) -> str:
        return self.names.get("function", name)

    def open_scope(self, params: tuple[Param, ...]) -> list[str]:
        """Start a function; the C names of its parameters."""
        self._local = Names(self.names.taken)
        self._live = []
        self._pointers: set[str] = set()
        scope = Scope()
        sizes = {s.name for s in self.program.sizes} | {name for name, _ in self.program.derived}
        texts = []
        for p in params:
            space = "buffer" if p.pointer else "size" if p.name in sizes and p.dtype.name == "i64" else "var"
            text = self._local.get(space, p.name)
            self._pointers |= {p.name} if p.pointer else set()
            scope.declare((space, p.name), Info(text, p.dtype, position=space == "size" or p.position, natural=space == "size" or p.natural))
            texts.append(text)
        self.expressions.scope = scope
        return texts

    def local_name(self, name: str) -> str:
        """A C name of our own (not the program's) in the open function."""
        return self._local.get("own", name)

    def parameter(self, p: Param, text: str) -> str:
        element = self.types.spell(p.dtype)
        if not p.pointer:
            return f"{element} {text}"
        return f"{'const ' if p.const else ''}{element} *{'' if p.may_alias else self.restrict + ' '}{text}"

    # ---- functions and blocks

    def fails(self, function: Function) -> bool:
        return function.name in self.failing

    def asked(self, function: Function) -> int:
        """Bytes of memory for the threads of a block to share that a launch asks for (of a GPU's)."""
        return 0

    def resident(self, function: Function) -> int:
        """How many blocks of a GPU's function are to run side by side on a processor; 0 where that is left to the compiler."""
        return 0

    def function(self, function: Function) -> list[str]:
        """The lines of one kernel, signature and braces included (macro `Function`)."""
        name = self.function_name(function.name)
        texts = self.open_scope(function.params)
        params = [self.parameter(p, t) for p, t in zip(function.params, texts, strict=True)]
        sticky = self.fails(function) and fails_in_team(function.body, self.failing)
        grid = [self.expressions.text(e) for e in function.grid]
        threads = [self.expressions.text(e) for e in function.threads]
        given = {
            "name": name, "params": params, "fails": self.fails(function), "sticky": sticky, "grid": grid, "threads": threads, "resident": self.resident(function), "asked": self.asked(function),
            "returns": not ends_by_leaving(function.body), "body": BODY,
        }  # fmt: skip
        macro = self._macro("Function")
        text = macro(**{k: given[k] for k in macro.arguments if k in given})
        return self._wrap(str(text), function.body, "function")

    def block(self, block: Block, place: str, depth: int = 1) -> list[str]:
        """The lines of a block in the open function.  place: function | entry (scratch comes from the workspace)."""
        return self._walk(block, place, depth)

    def _wrap(self, text: str, block: Block, place: str) -> list[str]:
        lines: list[str] = []
        for line in lines_of(text):
            stripped, depth = depth_of(line)
            lines.extend(self._walk(block, place, depth) if stripped == BODY else [self._line(stripped, depth)])
        return lines

    def _walk(self, block: Block, place: str, depth: int) -> list[str]:
        self._place = place
        lines: list[str] = []
        frames = [_Frame(iter(block), depth, [], depth, "")]
        while frames:
            frame = frames[-1]
            stmt = next(frame.rest, None)
            if stmt is None:
                self._close(frames, lines)
            else:
                self._statement(stmt, frames, lines)
        return lines

    def _close(self, frames: list[_Frame], lines: list[str]) -> None:
        frame = frames.pop()
        for key in frame.added:
            if key in frame.restore:
                self.expressions.scope.declare(key, frame.restore[key])
            else:
                self.expressions.scope.forget(key)
        del self._live[len(self._live) - frame.release :]
        for k, (block, text, depth) in enumerate(frame.after):
            lines.extend(self._line(*_deeper(line, frame.base)) for line in text)
            if block is not None:
                frames.append(_Frame(iter(block), depth, frame.after[k + 1 :], frame.base, frame.team))
                return

    def _statement(self, stmt: Stmt, frames: list[_Frame], lines: list[str]) -> None:
        frame = frames[-1]
        macro = self._macro(type(stmt).__name__)
        if isinstance(stmt, For) and stmt.end and "end" not in macro.arguments:  # this language's threads take iterations one by one
            stmt = replace(stmt, end="", body=(Define(stmt.end, INDEX, var(stmt.var) + 1), *stmt.body))
        fields, blocks, declare = getattr(self, f"_{type(stmt).__name__.lower()}")(stmt, frame)
        given = {**fields, "body": BODY, "orelse": ORELSE}
        # a macro takes what it names
        text = str(macro(**{k: given[k] for k in macro.arguments if k in given}))
        segments, depths, found = segments_of(text)
        for line in segments[0]:
            stripped, deeper = depth_of(line)
            lines.append(self.indent * (frame.depth + deeper) + stripped)
        if not isinstance(stmt, (For,)) and declare is not None:
            self._declare(frame, *declare)
        if not found:
            return
        after = [
            (blocks[found[k + 1]] if k + 1 < len(found) else None, segments[k + 1], frame.depth + depths[k + 1] if k + 1 < len(found) else 0)
            for k in range(len(found))
        ]
        inner = iter(blocks[found[0]]) if not isinstance(stmt, Scratch) else frame.rest
        team = team_inside(stmt, frame.team)
        opened = _Frame(inner, frame.depth + depths[0], after, frame.depth, team)
        frames.append(opened)
        if isinstance(stmt, For) and declare is not None:
            self._declare(opened, *declare)
            if stmt.end:
                self._declare(opened, ("var", stmt.end), Info(self._local.get("var", stmt.end), INDEX, True, True))
        if isinstance(stmt, Scratch) and fields["where"] != "entry":
            self._live.append(fields["name"])
            opened.release = 1

    def _declare(self, frame: _Frame, key: Key, info: Info) -> None:
        scope = self.expressions.scope
        if key not in frame.added:
            frame.added.append(key)
            hidden = scope.get(key)
            if hidden is not None:
                frame.restore[key] = hidden
        scope.declare(key, info)

    def _line(self, text: str, depth: int) -> str:
        return self.indent * depth + text

    def _macro(self, name: str) -> Any:
        """The nearest folder's macro for a kind of statement."""
        macro = self._macros.get(name)
        if macro is not None:
            return macro
        for module in self._modules:
            macro = getattr(module, name, None)
            if macro is not None:
                self._macros[name] = macro
                return macro
        raise CompilerBug("render", f"no statements.j2 has a macro `{name}`")

    # ---- one method a kind of statement: fields for its macro, its blocks, what it declares

    def _define(self, s: Define, frame: _Frame) -> tuple[Any, ...]:
        name = self._local.get("var", s.name)
        e = self.expressions
        position = not s.mutable and s.value is not None and e.is_position(s.value)
        natural = not s.mutable and s.value is not None and e.is_natural(s.value)
        value, dtype, mask = None, s.dtype, 0
        if dtype.kind == "bool" and dtype.lanes > 1:
            rendered = None if s.value is None else e.rendered(s.value)
            mask = 8 if rendered is None else e.mask_bits(rendered)
            value = None if rendered is None else e.as_mask(rendered, mask, dtype.lanes).text
            dtype = e._integers(mask, dtype.lanes)
        elif s.value is not None:
            value = e.text(s.value)
        info = Info(name, s.dtype, position, natural, mask)
        return {"type": self.types.spell(dtype), "name": name, "value": value, "mutable": s.mutable}, {}, (("var", s.name), info)

    def _assign(self, s: Assign, frame: _Frame) -> tuple[Any, ...]:
        info = self.expressions.scope.get(("var", s.name))
        if info is None:
            raise CompilerBug("render", f"assignment to `{s.name}`, which is not declared")
        rendered = self.expressions.rendered(s.value)
        value = self.expressions.as_mask(rendered, info.mask, info.dtype.lanes).text if info.mask else rendered.text
        return {"name": info.text, "value": value}, {}, None

    def _array(self, s: Array, frame: _Frame) -> tuple[Any, ...]:
        name = self._local.get("buffer", s.name)
        fields = {"type": self._memory_type(s.dtype), "name": name, "count": max(1, s.count), "align": s.align, "space": s.space}
        return fields, {}, (("buffer", s.name), Info(name, s.dtype, swizzle=s.swizzle))

    def _memory_type(self, dtype: Any) -> str:
        """The type of an element in memory: bytes for vectors of bools."""
        return self.types.spell(self.types.info(dtype).like("u8").dtype if dtype.kind == "bool" and dtype.lanes > 1 else dtype)

    def _scratch(self, s: Scratch, frame: _Frame) -> tuple[Any, ...]:
        if s.align > 64:
            raise CompilerBug("render", f"scratch `{s.name}` asks for more than the 64 bytes of alignment that all scratch memory has")
        name = self._local.get("buffer", s.name)
        where = frame.team or self._place
        count = self.expressions.text(s.count, Need(13))
        fields = {
            "type": self.types.spell(s.dtype), "name": name, "count": count, "bytes": s.dtype.bytes, "align": s.align,
            "where": where, "release": list(self._live), "restrict": self.restrict,
        }  # fmt: skip
        return fields, {BODY: ()}, (("buffer", s.name), Info(name, s.dtype))

    def _storeto(self, s: StoreTo, frame: _Frame) -> tuple[Any, ...]:
        e = self.expressions
        info = e.buffer(s.buffer)
        value = e.rendered(s.value)
        dtype = s.value.dtype
        if dtype.lanes > 1 and info.dtype.lanes == 1:
            past = "stream" if s.count is None else "stream_first"
            if s.stream is not None and e.spelled(past):
                return {"call": e.store(past, info, s.address, value, dtype, s.count, s.stream)}, {}, None
            return {"call": e.store("vstore" if s.count is None else "store_first", info, s.address, value, dtype, s.count)}, {}, None
        text = e.as_bytes(value, dtype.lanes).text if value.mask else value.text
        return {"call": f"{info.text}[{e.place(info, s.address).text}] = {text}"}, {}, None

    def _for(self, s: For, frame: _Frame) -> tuple[Any, ...]:
        e = self.expressions
        name = self._local.get("var", s.var)
        step = s.step.attr if s.step.is_const else None
        trips = None
        if s.start.is_const and s.stop.is_const and step:
            trips = max(0, -((s.start.attr - s.stop.attr) // step))
        copied = copied_in(s, self._pointers) if s.pragma == "parallel" and not frame.team else []
        fields = {
            "type": "int64_t", "name": name, "start": e.text(s.start), "stop": e.text(s.stop, Need(11)), "step": step,
            "step_text": e.text(s.step, Need(13)), "pragma": s.pragma, "trips": trips, "team": bool(frame.team),
            "times": s.times, "lanes": bool(s.times) and not _goes_on(s.body) and all(x.dtype.lanes == 1 for t in statements(s.body) for x in t.expressions()),
            "end": self._local.get("var", s.end) if s.end else "",
            "last": self.local_name(f"{s.var}_last") if s.pragma == "parallel" and s.start is ZERO and s.step is ONE else "",
            "parallel_if": None if s.serial_if is None else e.text(negation(s.serial_if), Need(6)),
            "copied": [e.buffer(name).text if space == "buffer" else e.number(space, name).text for space, name in copied],
        }  # fmt: skip
        return fields, {BODY: s.body}, (("var", s.var), Info(name, s.step.dtype, *of_loop(s.start, s.step, e.known)))

    def _if(self, s: If, frame: _Frame) -> tuple[Any, ...]:
        # the checks of an entry are one line each
        leave = s.body[0].code if len(s.body) == 1 and isinstance(s.body[0], Fail) and not (s.orelse or frame.team or self._live) else None
        fields = {
            "condition": self.expressions.text(s.condition),
            "has_else": bool(s.orelse),
            "leave": leave,
            "meaning": "" if leave is None else ERRORS[leave],
        }
        return fields, {BODY: s.body, ORELSE: s.orelse}, None

    def _while(self, s: While, frame: _Frame) -> tuple[Any, ...]:
        return {"condition": self.expressions.text(s.condition)}, {BODY: s.body}, None

    def _region(self, s: Region, frame: _Frame) -> tuple[Any, ...]:
        condition = None if s.serial_if is None else self.expressions.text(negation(s.serial_if), Need(6))
        return {"parallel_if": condition}, {BODY: s.body}, None

    def _prefetch(self, s: Prefetch, frame: _Frame) -> tuple[Any, ...]:
        e = self.expressions
        info = e.buffer(s.buffer)
        return {"buffer": info.text, "address": e.text(s.address), "bytes": info.dtype.bytes, "cache": s.cache, "write": s.write}, {}, None

    def _multiply(self, s: Multiply, frame: _Frame) -> tuple[Any, ...]:
        e = self.expressions
        return {"call": e.multiply(s)}, {}, None

    def _matrix(self, s: Matrix, frame: _Frame) -> tuple[Any, ...]:
        e = self.expressions
        sides = [(e.buffer(name), e.text(at)) for name, at, *_ in (s.left, s.right)]
        firsts = [f"&{e.buffer(s.buffer).text}[{e.text(s.address)}]", *(text for info, at in sides for text in (info.text, at))]
        numbers = (*s.tiles, *s.distances, *(n for (info, _), side in zip(sides, (s.left, s.right), strict=True) for n in (*side[2:], info.swizzle)))
        return {"function": e.matrix(s), "firsts": firsts, "numbers": numbers}, {}, None

    def _tiles(self, s: Tiles, frame: _Frame) -> tuple[Any, ...]:
        return {"begin": s.begin}, {}, None

    def _barrier(self, s: Barrier, frame: _Frame) -> tuple[Any, ...]:
        return {"team": bool(frame.team)}, {}, None

    def _call(self, s: Call, frame: _Frame) -> tuple[Any, ...]:
        e = self.expressions
        args = [e.buffer(a).text if isinstance(a, str) else e.text(a) for a in s.args]
        function = self._functions[s.function]
        fields = {
            "name": self.function_name(s.function), "args": args, "fails": self.fails(function), "team": bool(frame.team), "release": list(self._live),
            "grid": [], "threads": [],
        }  # fmt: skip
        if function.grid or function.threads:
            # on a GPU the launch is written where the call stands: its extents over the caller's arguments
            given = {p.name: a for p, a in zip(function.params, s.args, strict=True) if isinstance(a, Expr)}
            fields["grid"], fields["threads"] = ([e.text(_over(x, given)) for x in part] for part in (function.grid, function.threads))
        return fields, {}, None

    def _fail(self, s: Fail, frame: _Frame) -> tuple[Any, ...]:
        fields = {"code": s.code, "meaning": ERRORS.get(s.code, ""), "team": bool(frame.team), "release": list(self._live), "place": self._place}
        return fields, {}, None


def negation(condition: Expr) -> Expr:
    """The opposite of an integer condition, comparisons turned round."""
    turned = {"less_than": "less_equal", "less_equal": "less_than"}
    if condition.op in turned and condition.args[0].dtype.is_integer:
        return call(turned[condition.op], condition.args[1], condition.args[0])
    return call("bit_not", condition)


def _over(e: Expr, given: dict[str, Expr]) -> Expr:
    return substitute(e, {n: given[n.attr] for n in postorder(e) if n.op in ("size", "var") and n.attr in given})


def _deeper(line: str, base: int) -> tuple[str, int]:
    stripped, depth = depth_of(line)
    return stripped, base + depth


def _goes_on(body: Block) -> bool:
    """Whether an iteration takes something from the one before it, in a variable."""
    own = {s.name for s in statements(body) if isinstance(s, Define)}
    return any(isinstance(s, Assign) and s.name not in own for s in statements(body))
