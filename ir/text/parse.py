"""An expression read back: operator precedence with a stack of its own, so that depth costs memory and never Python's stack."""

from __future__ import annotations

from dataclasses import field

from ..dtypes import INDEX, DType, bool_, dtype
from ..expr import Expr, axis, call, const, first, last, load, make, mul, null, overlap, ramp, size, to_line, var
from ..primops import COMBINERS, OPS
from ..record import changing
from .operators import COMPARISON, PREFIX, ROW
from .tokens import MISMATCH, Line, Token

_MINUS_ONE = const(-1)
_NAMED = {"first": first, "last": last, "null": null, "to_line": to_line}
_MAX_LANES = 1 << 16


@changing
class Scope:
    """What a name may mean.  A name of a size is never anything else."""

    sizes: set[str] = field(default_factory=set)
    variables: dict[str, DType] = field(default_factory=dict)
    buffers: dict[str, DType] = field(default_factory=dict)

    def inside(self) -> Scope:
        """The scope of an inner block: what is declared there ends there."""
        return Scope(self.sizes, dict(self.variables), dict(self.buffers))


@changing
class _Group:
    """An open bracket: what stands before it, and where its operands begin."""

    form: str  # paren | part | load | vload | gather | overlap | ins | an operator's name
    token: Token
    base: int
    close: str = ")"
    name: str = ""  # buffer, instruction or combiner
    other: str = ""  # overlap: the second pointer
    number: int = 0  # lanes, or the number of a shared part
    dtype: DType = INDEX


@changing
class _Infix:
    token: Token
    name: str
    level: int


class _Reader:
    def __init__(self, line: Line, scope: Scope) -> None:
        self.line, self.scope = line, scope
        self.operands: list[Expr] = []
        self.pending: list[_Group | _Infix] = []
        self.parts: dict[str, Expr] = {}

    def read(self) -> Expr:
        while True:
            if not self.operand():
                continue
            if self.operator():
                return self.operands[0]

    # ---- where an operand is expected: True when one is complete

    def operand(self) -> bool:
        line, token = self.line, self.line.token
        if token.kind in ("int", "float") or token.text in ("inf", "nan", "true", "false"):
            self.operands.append(self.literal(False))
            return True
        if token.kind == "axis":
            line.take()
            self.operands.append(axis(int(token.text[1:])))
            return True
        if token.kind == "part":
            line.take()
            if token.text not in self.parts:
                line.unknown("part", token, self.parts)
            self.operands.append(self.parts[token.text])
            return True
        if token.kind in ("name", "string"):
            return self.named()
        line.take()
        if token.text in ("-", "~") and token.kind == "sign":
            number = line.token
            if token.text == "-" and (number.kind in ("int", "float") or number.text in ("inf", "nan")):
                self.operands.append(self.literal(True))
                return True
            self.pending.append(_Infix(token, token.text, PREFIX))
            return False
        if token.text == "(":
            if line.token.kind == "part" and line.next.text == "=":
                part = line.take()
                line.take()
                return self.open(_Group("part", part, len(self.operands)))
            return self.open(_Group("paren", token, len(self.operands)))
        line.at -= token.kind != "end"
        return line.expected("an expression")

    def literal(self, negative: bool) -> Expr:
        line, token = self.line, self.line.token
        value = line.scalar()
        value = -value if negative else value
        given = INDEX if token.kind == "int" else bool_ if isinstance(value, bool) else None
        if line.sees(":") and line.next.kind == "name":
            line.take()
            given = line.dtype()
        if given is None:
            line.fail("a float literal needs its dtype, as in 0.5:f32", token)
        if isinstance(value, float) > given.is_inexact or isinstance(value, bool) != (given.kind == "bool"):
            line.fail(f"{token.text} is no value of {given.name}", token, MISMATCH)
        if given.is_integer and not given.min <= value <= given.max:
            line.fail(f"{value} is outside {given.name}", token, MISMATCH)
        return const(value, given)

    def named(self) -> bool:
        line = self.line
        token = line.token
        quoted = token.kind == "string"
        name = line.name()
        base = len(self.operands)
        head, _, tail = name.partition(".")
        if not quoted and line.accept("("):
            return self.function(name, token)
        if not quoted and head == "ins" and line.sees(":"):
            line.take()
            group = _Group("ins", token, base, name=tail, dtype=line.dtype())
            line.expect("(")
            return self.open(group)
        if not quoted and tail and head in ("vload", "gather", "ramp"):
            lanes = self.lanes(tail, token)
            if head == "ramp":
                self.operands.append(ramp(lanes))
                return True
            buffer = self.buffer()
            line.expect("[")
            return self.open(_Group(head, token, base, "]", buffer, number=lanes))
        if line.sees("["):
            line.at -= 1
            buffer = self.buffer()
            line.take()
            return self.open(_Group("load", token, base, "]", buffer))
        if name in self.scope.sizes:
            self.operands.append(size(name))
        elif name in self.scope.variables:
            self.operands.append(var(name, self.scope.variables[name]))
        else:
            line.unknown("size or variable", token, [*sorted(self.scope.sizes), *self.scope.variables])
        return True

    def function(self, name: str, token: Token) -> bool:
        """After `name(`."""
        line = self.line
        if name in _NAMED:
            self.operands.append(_NAMED[name](line.name("the name of a buffer" if name in ("null", "to_line") else "the name of an axis")))
            line.expect(")")
            return True
        group = _Group(name, token, len(self.operands))
        head, _, tail = name.partition(".")
        if name == "overlap":
            group.name = self.buffer()
            line.expect(",")
        elif head in ("cast", "bitcast"):
            to = dtype(tail)
            if to is None:
                line.fail(f"{name}: expected a dtype after the dot", token)
            group.form, group.dtype = head, to
        elif head == "broadcast":
            group.form, group.number = head, self.lanes(tail, token)
        elif head == "fold":
            if tail not in COMBINERS:
                line.unknown("combiner", Token("name", tail, token.column), COMBINERS)
            group.form, group.name = head, tail
        elif name not in OPS and name not in ("extract", "zip_low", "zip_high", "unzip", "pick"):
            line.unknown("operator", token, [*OPS, "extract", "overlap", "zip_low", "zip_high", "unzip", "pick"])
        return self.open(group)

    def lanes(self, text: str, token: Token) -> int:
        if not text.isdecimal() or not 1 < int(text[:9]) <= _MAX_LANES:
            self.line.fail(f"{token.text}: expected a number of lanes after the dot", token)
        return int(text)

    def buffer(self) -> str:
        token = self.line.token
        name = self.line.name("the name of a buffer")
        if name not in self.scope.buffers:
            self.line.unknown("buffer", token, self.scope.buffers)
        return name

    def open(self, group: _Group) -> bool:
        self.pending.append(group)
        if group.form not in ("paren", "part") and self.line.accept(group.close):
            self.close()
            return True
        return False

    # ---- after an operand: True when the expression is complete

    def operator(self) -> bool:
        line = self.line
        while True:
            token = line.token
            if token.kind == "sign" and token.text in ROW:
                name, level = ROW[token.text]
                self.reduce(level)
                if level == COMPARISON and self.pending and isinstance(top := self.pending[-1], _Infix) and top.level == level:
                    line.fail("comparisons do not chain: use parentheses", token)
                line.take()
                self.pending.append(_Infix(token, name, level))
                return False
            self.reduce(0)
            if not self.pending:
                return True
            group = self.pending[-1]
            assert isinstance(group, _Group)
            if line.accept(group.close):
                self.close()
                continue
            if group.form in ("paren", "part") or not line.sees(","):
                line.expected(f"`{group.close}`")
            line.take()
            if group.form == "overlap" and not group.other:
                group.other = self.buffer()
                line.expect(",")
            return False

    def reduce(self, level: int) -> None:
        """Build what binds at least as tightly as `level` (all of it at 0), down to the innermost open bracket."""
        while self.pending and isinstance(top := self.pending[-1], _Infix):
            if top.level < level or (top.level == level == COMPARISON):
                return
            self.pending.pop()
            b = self.operands.pop()
            self.operands.append(self.prefix(top, b) if top.level == PREFIX else self.infix(top, self.operands.pop(), b))

    def prefix(self, at: _Infix, x: Expr) -> Expr:
        if at.name == "~":
            return self.row("bit_not", (x,), at.token)
        return mul(x, _MINUS_ONE) if x.dtype is INDEX else self.row("neg", (x,), at.token)

    def infix(self, at: _Infix, a: Expr, b: Expr) -> Expr:
        if at.name == "sub" and b.dtype is INDEX:
            return self.row("add", (a, mul(b, _MINUS_ONE)), at.token)
        return self.row(at.name, (a, b), at.token)

    def row(self, name: str, args: tuple[Expr, ...], at: Token, to: DType | None = None) -> Expr:
        """A row of the table, nothing folded."""
        arity = OPS[name].arity
        if len(args) != arity:
            self.line.fail(f"{name} takes {arity} operand{'s' * (arity != 1)}, found {len(args)}", at)
        operands = args[1:] if name == "where" else args
        if any(a.dtype is not operands[0].dtype for a in operands):
            self.line.fail(f"{name}: the operands are " + " and ".join(a.dtype.name for a in operands), at, MISMATCH)
        return call(name, *args, to=to)

    def close(self) -> None:
        """The innermost bracket is closed: its operands become one."""
        group = self.pending.pop()
        assert isinstance(group, _Group)
        args = tuple(self.operands[group.base :])
        del self.operands[group.base :]
        self.operands.append(self.build(group, args))

    def build(self, group: _Group, args: tuple[Expr, ...]) -> Expr:
        line, form = self.line, group.form
        match form:
            case "paren":
                return args[0]
            case "part":
                self.parts[group.token.text] = args[0]
                return args[0]
            case "load":
                return load(group.name, self.scope.buffers[group.name], *args)
            case "ins":
                return make("ins", group.dtype, args, group.name)
            case "overlap":
                self.count(group, args, 2)
                return overlap(group.name, args[0], group.other, args[1])
            case "vload" | "gather":
                self.count(group, args, len(args) if form == "vload" and len(args) in (2, 3) else 1)
                element = self.scalar_type(group, self.scope.buffers[group.name])
                return make(form, element.vector(group.number), args, group.name)
            case "broadcast":
                self.count(group, args, 1)
                return make(form, self.scalar_type(group, args[0].dtype).vector(group.number), args)
            case "fold":
                self.count(group, args, 1)
                return make(form, args[0].dtype.element, args, group.name)
            case "zip_low" | "zip_high" | "unzip":
                self.count(group, args, 2)
                return make(form, args[0].dtype, args)
            case "pick":
                if len(args) < 4 or not all(a.is_const and a.dtype is INDEX for a in args[2:]):
                    line.fail("pick: two vectors, then lanes as integer literals", group.token)
                return make(form, self.scalar_type(group, args[0].dtype.element).vector(len(args) - 2), args[:2], tuple(a.attr for a in args[2:]))
            case "extract":
                self.count(group, args, 2)
                if not args[1].is_const or args[1].dtype is not INDEX:
                    line.fail("extract: the lane must be an integer literal", group.token)
                return make(form, args[0].dtype.element, args[:1], args[1].attr)
            case _:
                return self.row(form, args, group.token, group.dtype)

    def count(self, group: _Group, args: tuple[Expr, ...], n: int) -> None:
        if len(args) != n:
            self.line.fail(f"{group.token.text} takes {n} operand{'s' * (n != 1)}, found {len(args)}", group.token)

    def scalar_type(self, group: _Group, d: DType) -> DType:
        if d.lanes != 1:
            self.line.fail(f"{group.token.text}: expected a scalar element type, found {d.name}", group.token, MISMATCH)
        return d


def expression(line: Line, scope: Scope) -> Expr:
    """The expression that begins at the line's next token, read as far as it goes."""
    return _Reader(line, scope).read()


def expression_list(line: Line, scope: Scope) -> tuple[Expr, ...]:
    """`[expr, …]`."""
    line.expect("[")
    items: list[Expr] = []
    if line.accept("]"):
        return ()
    while True:
        items.append(expression(line, scope))
        if line.accept("]"):
            return tuple(items)
        line.expect(",")
