"""Ports, `NAME{TYPE}[SIZES]<ORDER>(WHERE)?`, and the constraints of a `where`.

ports       ::= port*                       commas between them are optional
port        ::= NAME ["{" [TYPE] "}"] ["[" size* "]"] ["<" axis* [":strided"] ">"] ["(" ["where" constraints] ")"] ["?"]
constraints ::= comparison ("," comparison)*
comparison  ::= sum (("=" | "/=" | "<" | "<=" | ">" | ">=") sum)+
sum         ::= term (("+" | "-") term)*            term ::= operand (("*" | "%" | "//") operand)*
operand     ::= INTEGER | NAME | "(" form ")"
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..ir.dtypes import DTYPES, DType, dtype
from .ast import Constraint, PortDecl, TypeName
from .diagnostics import nearest, shorten
from .sexpr import Comma, Form, Keyword, List, Number, Order, Symbol
from .source import Place, error

NAME = re.compile(r"[^\W\d][\w\-.]*")
MAX_PORTS = 1024
MAX_RANK = 64
_COMPARE = {"=": "=", "==": "=", "/=": "/=", "!=": "/=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_SPLIT = re.compile(r"<=|>=|/=|!=|==|=|<|>|%")


def read_ports(forms: Sequence[Form], role: str) -> list[PortDecl]:
    """All ports of a list; `role` is in or out.  Raises SourceError E0112 … E0116."""
    ports: list[PortDecl] = []
    at = 0
    while at < len(forms):
        if isinstance(forms[at], Comma):
            at += 1
            continue
        port, at = _port(forms, at, role)
        ports.append(port)
        if len(ports) > MAX_PORTS:
            raise error("E0106", f"more than {MAX_PORTS} ports", port.place)
    return ports


def _port(forms: Sequence[Form], at: int, role: str) -> tuple[PortDecl, int]:
    head = forms[at]
    if not isinstance(head, Symbol) or not NAME.fullmatch(head.name):
        raise error(
            "E0112",
            f"expected the name of a port, found `{shorten(head.source_text)}`",
            head.place,
            "help: a port is written NAME{TYPE}[SIZES], as in A{f32}[M N]",
        )
    start = at
    at += 1

    def part(kind: type, bracket: str = "") -> Form | None:
        """The next form where it is of this kind and stands right behind the last one."""
        nonlocal at
        if at < len(forms) and isinstance(forms[at], kind) and forms[at].place.start == forms[at - 1].place.end:
            found = forms[at]
            if not bracket or (isinstance(found, List) and found.bracket == bracket):
                at += 1
                return found
        return None

    type_, sizes, order, where = part(List, "{"), part(List, "["), part(Order), part(List, "(")
    mark = part(Symbol)
    if isinstance(mark, Symbol) and mark.name.startswith("<"):
        raise error(
            "E0116",
            f"`{shorten(mark.source_text)}` begins no memory order",
            mark.place,
            "expected: the axes from outermost to innermost, as in <1 0> or <0 1 :strided>",
        )
    if mark is not None and not (isinstance(mark, Symbol) and mark.name == "?"):
        raise error(
            "E0112",
            f"`{shorten(mark.source_text)}` does not belong to a port",
            mark.place,
            "expected: NAME{TYPE}[SIZES]<ORDER>(WHERE), then perhaps `?`",
        )
    end = forms[at - 1]
    place = Place(head.place.text, head.place.start, end.place.end)
    extents = None if not isinstance(sizes, List) else _sizes(sizes)
    axes, strided = _order(order, extents, head.name) if isinstance(order, Order) else ((), False)
    constraints = constraints_of(where) if isinstance(where, List) else ()
    port = PortDecl(head.name, role, _type(type_), extents, axes, strided, constraints, mark is not None, place)
    if role == "in":
        _complete(port, bare=at == start + 1)
    return port, at


def _complete(port: PortDecl, bare: bool) -> None:
    if port.type is None:
        what = "a type and sizes" if bare else "a type"
        raise error(
            "E0113",
            f"the input `{port.name}` needs {what}",
            port.place,
            f"help: write {port.name}{{f32}}[M N], or {port.name}{{T}}[M N] for any type",
        )
    if port.sizes is None:
        raise error("E0113", f"the input `{port.name}` needs its sizes", port.place, f"help: write {port.name}{{{port.type.name}}}[] for a scalar")


def _type(form: Form | None) -> TypeName | None:
    if not isinstance(form, List) or not form.items:
        return None
    name = form.items[0]
    if len(form.items) != 1 or not isinstance(name, Symbol):
        raise error(
            "E0114", f"`{shorten(form.source_text)}` is not a type", form.place, "expected: a dtype such as {f32}, or a type variable such as {T}"
        )
    return TypeName(name.name, type_named(name.name, name.place), name.place)


def is_variable(name: str) -> bool:
    """A type variable: one capital letter, or `Dense`."""
    return (len(name) == 1 and name.isascii() and name.isupper()) or name == "Dense"


def type_named(name: str, place: Place) -> DType | None:
    """The dtype of this name, None for a type variable; E0114 for anything else."""
    found = dtype(name)
    if found is not None and found.lanes == 1:
        return found
    if is_variable(name):
        return None
    raise error(
        "E0114",
        f"unknown type `{shorten(name)}`",
        place,
        *nearest(name, [*DTYPES, "float", "double", "half", "int"]),
        "expected: a dtype (f64 f32 f16 bf16 i64 … bool), or a type variable (one capital letter)",
    )


def _sizes(form: List) -> tuple[Form, ...]:
    found = tuple(f for f in form.items if not isinstance(f, Comma))
    if len(found) > MAX_RANK:
        raise error("E0106", f"{len(found)} axes; at most {MAX_RANK} are allowed", form.place)
    broadcast = [f for f in found if isinstance(f, Symbol) and f.name == "~"]
    if len(broadcast) > 1:
        raise error("E0115", "`~` may stand once in a port", broadcast[1].place)
    if broadcast and found[0] is not broadcast[0]:
        raise error("E0115", "`~` stands for the leading axes: it comes first", broadcast[0].place)
    for f in found:
        good = isinstance(f, Symbol) or (isinstance(f, List) and f.bracket == "(") or (isinstance(f, Number) and isinstance(f.value, int))
        if not good:
            raise error(
                "E0115", f"`{shorten(f.source_text)}` is not a size", f.place, "expected: an integer, a name, an expression such as (* 2 M), or ~"
            )
        if isinstance(f, Number) and f.value < 0:
            raise error("E0115", f"a size cannot be negative: {f.value}", f.place)
        if isinstance(f, Symbol) and f.name != "~" and not NAME.fullmatch(f.name):
            raise error("E0115", f"`{shorten(f.name)}` is not a size", f.place, "expected: an integer, a name, an expression such as (* 2 M), or ~")
    return found


def _order(form: Order, sizes: tuple[Form, ...] | None, name: str) -> tuple[tuple[int, ...], bool]:
    """The permutation, () for row-major.  A port with `~` counts its written axes only: its order is the identity or an error."""
    axes = form.axes
    if not axes:
        return (), False
    rank = len(sizes or ())
    if sorted(axes) != list(range(rank)):
        raise error(
            "E0116",
            f"<{' '.join(map(str, axes))}> is not an order of the {rank} axes of `{name}`",
            form.place,
            f"expected: each of {' '.join(map(str, range(rank))) or 'no axes'} once, outermost first",
        )
    if sizes and isinstance(sizes[0], Symbol) and sizes[0].name == "~" and axes != tuple(range(rank)):
        raise error("E0116", "a port with `~` is row-major", form.place)
    return (() if axes == tuple(range(rank)) else axes), form.strided


# ---- where


def constraints_of(form: List) -> tuple[Constraint, ...]:
    """The constraints of `(where …)`; `()` has none."""
    if not form.items:
        return ()
    first = form.items[0]
    if not (isinstance(first, Symbol) and first.name.lower() == "where"):
        raise error(
            "E0117", f"expected `where`, found `{shorten(first.source_text)}`", first.place, "expected: (where M = 1, N < 4096), or () for nothing"
        )
    return read_constraints(form.items[1:], first.place)


def read_constraints(forms: Sequence[Form], place: Place) -> tuple[Constraint, ...]:
    """Comparisons separated by commas."""
    groups: list[list[Form]] = [[]]
    for f in forms:
        if isinstance(f, Comma):
            groups.append([])
        else:
            groups[-1].extend(_words(f))
    if groups[-1] == [] and len(groups) > 1:
        groups.pop()
    if any(not g for g in groups):
        raise error("E0117", "a constraint is missing", place, "expected: (where M = 1, N < 4096)")
    return tuple(c for g in groups for c in _comparison(g))


def _words(form: Form) -> list[Form]:
    """`M%8=0` as five words: names hold none of the operator characters."""
    if not isinstance(form, Symbol) or form.name in _COMPARE or not _SPLIT.search(form.name):
        return [form]
    from .sexpr import atom

    words: list[Form] = []
    at = 0
    for m in [*_SPLIT.finditer(form.name), None]:
        end = m.start() if m else len(form.name)
        start = form.place.start
        if end > at:
            words.append(atom(Place(form.place.text, start + at, start + end), form.name[at:end]))
        if m:
            words.append(Symbol(Place(form.place.text, start + m.start(), start + m.end()), m.group()))
            at = m.end()
    return words


def _comparison(words: list[Form]) -> list[Constraint]:
    place = _over(words[0], words[-1])
    if len(words) == 1 and isinstance(words[0], List) and words[0].head in _COMPARE and len(words[0].items) == 3:
        inner = words[0].items
        return [Constraint(_COMPARE[str(words[0].head)], inner[1], inner[2], place)]
    sides: list[list[Form]] = [[]]
    ops: list[str] = []
    for w in words:
        if isinstance(w, Symbol) and w.name in _COMPARE:
            ops.append(_COMPARE[w.name])
            sides.append([])
        else:
            sides[-1].append(w)
    if not ops or any(not s for s in sides):
        raise error("E0117", f"`{shorten(_text(place))}` is not a constraint", place, "expected: a comparison such as M = 1, N < 4096 or M % 8 = 0")
    values = [_infix(s, 0) for s in sides]
    return [Constraint(op, values[k], values[k + 1], place) for k, op in enumerate(ops)]


_INFIX = ({"+": "+", "-": "-"}, {"*": "*", "%": "mod", "//": "floordiv"})


def _infix(words: list[Form], level: int) -> Form:
    """Left-associative sums (level 0) of products (level 1) of operands (level 2), as nested lists."""
    if level == len(_INFIX):
        if len(words) == 1 and isinstance(words[0], (Number, List, Symbol)) and not isinstance(words[0], Keyword):
            return words[0]
        place = _over(words[0], words[-1])
        raise error("E0117", f"`{shorten(_text(place))}` is not a size expression", place, "help: write (* 2 M) or 2 * M, with spaces")
    table = _INFIX[level]
    result: Form | None = None
    pending = ""
    start = 0
    for k in range(len(words) + 1):
        w = words[k] if k < len(words) else None
        if w is not None and not (isinstance(w, Symbol) and w.name in table):
            continue
        part = words[start:k]
        if not part:
            at = words[min(k, len(words) - 1)]
            raise error("E0117", f"an operand is missing beside `{shorten(at.source_text)}`", at.place)
        value = _infix(part, level + 1)
        if result is None:
            result = value
        else:
            place = _over(result, value)
            result = List(place, "(", (Symbol(place, pending), result, value))
        if isinstance(w, Symbol):
            pending, start = table[w.name], k + 1
    assert result is not None
    return result


def _over(first: Form, last: Form) -> Place:
    return Place(first.place.text, first.place.start, last.place.end)


def _text(place: Place) -> str:
    return place.text.value[place.start : place.end]
