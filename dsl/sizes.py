"""Sizes of ports: the expressions that may stand there, and what a `where` says of them.

An equation whose one side is a size that nothing else fixes *derives* that size; every other constraint is a precondition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from ..ir.bounds import Known
from ..ir.expr import FALSE, Expr, call, const, maximum, minimum
from ..ir.graph import Size
from ..ir.record import changing, replace
from ..ir.simplify import assuming, prove, simplify
from .ast import Composite, Constraint
from .diagnostics import nearest, shorten
from .names import fold, unique
from .sexpr import Comma, Form, List, Number, Symbol
from .source import Place, error

MAX_CONSTRAINTS = 100
MAX_EXTENT = 1 << 48  # of one axis and of the literal part of a tensor's elements

_ARITHMETIC: dict[str, Callable[[Expr, Expr], Expr]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b,
    "max": maximum, "min": minimum,
}  # fmt: skip
_COMPARE: dict[str, Callable[[Expr, Expr], Expr]] = {
    "=": lambda a, b: a.eq(b), "/=": lambda a, b: call("not_equal", a, b), "<": lambda a, b: a.lt(b), "<=": lambda a, b: a.le(b),
    ">": lambda a, b: b.lt(a), ">=": lambda a, b: b.le(a),
}  # fmt: skip


def evaluate(form: Form, lookup: Callable[[Symbol], Expr]) -> Expr:
    """A size expression; `lookup` gives the names.  E0115 for what cannot stand there."""
    match form:
        case Number(value=int(value)):
            return const(value)
        case Symbol():
            return lookup(form)
        case List() if form.head in _ARITHMETIC and len(form.items) > 1:
            values = [evaluate(f, lookup) for f in form.items[1:] if not isinstance(f, Comma)]
            if form.head == "-" and len(values) == 1:
                return -values[0]
            result = values[0]
            for v in values[1:]:
                if form.head in ("floordiv", "mod") and v.is_const and v.attr <= 0:
                    raise error("E0115", f"`{form.head}` by {v.attr} in a size", form.place)
                result = _ARITHMETIC[form.head](result, v)
            return result
        case _:
            raise error(
                "E0115",
                f"`{shorten(form.source_text)}` is not a size expression",
                form.place,
                f"expected: integers, sizes and ({' | '.join(_ARITHMETIC)} …)",
            )


def symbols(form: Form) -> list[Symbol]:
    """The names in a size expression, in order."""
    if isinstance(form, Symbol):
        return [] if form.name == "~" else [form]
    return [s for f in form.items[1:] for s in symbols(f)] if isinstance(form, List) else []


def check_extent(extent: Expr, place: Place) -> Expr:
    """E0306 for a literal extent that no memory holds, or that is negative."""
    if extent.is_const and not 0 <= extent.attr <= MAX_EXTENT:
        what = "is negative" if extent.attr < 0 else "is larger than 2^48"
        raise error("E0306", f"the extent {extent.attr} {what}", place)
    return extent


def check_elements(shape: Sequence[Expr], place: Place) -> None:
    """E0306 where already the literal extents of a tensor multiply to more than any memory holds."""
    product = 1
    for e in shape:
        product *= e.attr if e.is_const and e.attr else 1
    if product > MAX_EXTENT:
        raise error("E0306", f"a tensor of {product} elements", place, "note: at most 2^48 are allowed")


@changing
class Sizes:
    """The sizes of the composite that is compiled.  `values` maps every known name to its expression over the free ones."""

    values: dict[str, Expr] = field(default_factory=dict)
    free: dict[str, Size] = field(default_factory=dict)
    derived: dict[str, Expr] = field(default_factory=dict)
    requires: list[tuple[Expr, Place]] = field(default_factory=list)
    known: Known | None = None  # what the constraints so far say together


def solve(composite: Composite, fixed: Mapping[str, int], parameters: Mapping[str, object]) -> Sizes:
    """Which sizes are free (in order of first appearance), which are derived, and what must hold.

    `fixed` are the sizes given by -D.  E0206 where a derivation goes in a circle, E0306 for impossible extents, E0307 where a precondition cannot hold."""
    names = Names()
    for port in composite.inputs:
        for form in port.sizes or ():
            for s in symbols(form):
                if s.name not in parameters:
                    names.add(s)
    inputs = set(names.all)
    ports = {p.name for p in composite.ports}
    for name, place in names.all.items():
        if name in ports:
            raise error(
                "E0204",
                f"the size `{name}` has the name of a port",
                place,
                "help: both are parameters of the emitted function, and keywords in Python",
            )
    constraints = [*(c for p in composite.ports for c in p.where), *composite.where]
    if len(constraints) > MAX_CONSTRAINTS:
        raise error("E0106", f"{len(constraints)} constraints; at most {MAX_CONSTRAINTS} are allowed", constraints[MAX_CONSTRAINTS].place)
    for c in constraints:
        for s in (*symbols(c.left), *symbols(c.right)):
            if s.name not in parameters:
                names.add(s)
    equations, rest = _equations(constraints, names, inputs, fixed)
    sizes = Sizes()
    for name in names.all:
        key = next((k for k in fixed if k == name or fold(k) == fold(name)), None)
        if key is not None:
            sizes.values[name] = check_extent(const(fixed[key]), composite.place)
        elif name not in equations:
            if name not in inputs:
                place = names.all[name]
                raise error(
                    "E0208",
                    f"nothing says what the size `{name}` is",
                    place,
                    *nearest(name, inputs),
                    "help: it stands in no input; an equation with the name alone on one side would define it, or an input of that size that is updated in place",
                )
            sizes.free[name] = Size(name)
            sizes.values[name] = _size(name)
    _derive(sizes, equations, names, parameters)
    for c in rest:
        precondition(sizes, c, lambda s: lookup(s, sizes, names, parameters))
    return sizes


class Names:
    """The size names of a composite in order of first appearance; spellings that fold alike are one size."""

    def __init__(self) -> None:
        self.all: dict[str, Place] = {}

    def add(self, s: Symbol) -> None:
        if unique(s.name, self.all, s.place) is None:
            self.all[s.name] = s.place

    def key(self, s: Symbol) -> str | None:
        return unique(s.name, self.all, s.place)


def _size(name: str) -> Expr:
    from ..ir.expr import size

    return size(name)


def _equations(
    constraints: Iterable[Constraint], names: Names, inputs: set[str], fixed: Mapping[str, int]
) -> tuple[dict[str, tuple[Form, Place]], list[Constraint]]:
    """name → (what it equals, place), and the constraints that define nothing.  A size that no input has is derived before one that has."""
    equations: dict[str, tuple[Form, Place]] = {}
    rest: list[Constraint] = []
    folded = {fold(k) for k in fixed}
    for c in constraints:
        sides = [(c.left, c.right), (c.right, c.left)] if c.op == "=" else []
        candidates: list[tuple[str, Form]] = []
        for one, other in sides:
            key = names.key(one) if isinstance(one, Symbol) else None
            if key is not None and key not in equations and fold(key) not in folded and key not in [names.key(s) for s in symbols(other)]:
                candidates.append((key, other))
        candidates.sort(key=lambda pair: pair[0] in inputs)
        if candidates:
            equations[candidates[0][0]] = (candidates[0][1], c.place)
        else:
            rest.append(c)
    return equations, rest


def _derive(sizes: Sizes, equations: dict[str, tuple[Form, Place]], names: Names, parameters: Mapping[str, object]) -> None:
    """Evaluate the equations in an order in which each uses known sizes only."""
    waiting = dict(equations)
    while waiting:
        ready = [n for n, (form, _) in waiting.items() if all(names.key(s) not in waiting for s in symbols(form))]
        if not ready:
            name = next(iter(waiting))
            raise error("E0206", f"the size `{name}` is defined by itself", waiting[name][1], f"note: {' and '.join(waiting)} depend on one another")
        for name in ready:
            form, place = waiting.pop(name)
            value = check_extent(evaluate(form, lambda s: lookup(s, sizes, names, parameters)), place)
            sizes.values[name] = value
            sizes.derived[name] = value
            positive = const(0).le(value)
            if not prove(positive, {n: Size(n) for n in sizes.free}):
                sizes.requires.append((positive, place))


def lookup(s: Symbol, sizes: Sizes, names: Names, parameters: Mapping[str, object]) -> Expr:
    value = parameters.get(s.name)
    if isinstance(value, int) and not isinstance(value, bool):
        return const(value)
    key = names.key(s)
    if key is None or key not in sizes.values:
        raise error("E0208", f"unknown size `{shorten(s.name)}`", s.place, *nearest(s.name, sizes.values))
    return sizes.values[key]


def precondition(sizes: Sizes, c: Constraint, known: Callable[[Symbol], Expr]) -> None:
    """A constraint that must hold: E0307 where it cannot; what it says of one size is kept with it."""
    left, right = (evaluate(f, known) for f in (c.left, c.right))
    if left.is_const and right.is_const:
        holds = {
            "=": left.attr == right.attr,
            "/=": left.attr != right.attr,
            "<": left.attr < right.attr,
            "<=": left.attr <= right.attr,
            ">": left.attr > right.attr,
            ">=": left.attr >= right.attr,
        }
        if not holds[c.op]:
            raise error("E0307", f"{_said(c)} does not hold: {left.attr} {c.op} {right.attr}", c.place)
        return
    condition = _COMPARE[c.op](left, right)
    so_far = sizes.known or Known(sizes.free)
    if simplify(condition, so_far) is FALSE:
        alone = simplify(condition, {n: Size(n) for n in sizes.free}) is FALSE
        others = () if alone else ("note: the constraints before it say otherwise",)
        raise error("E0307", f"{_said(c)} never holds", c.place, *others)
    sizes.known = assuming(so_far, condition)
    sizes.requires.append((condition, c.place))
    for size in (_refine(sizes, c.op, left, right), _refine(sizes, _MIRRORED.get(c.op, c.op), right, left)):
        if size is not None and size.min + -size.min % size.multiple > size.max:
            raise error("E0307", f"with {_said(c)} no number is left for `{size.name}`", c.place)


def _said(c: Constraint) -> str:
    """The constraint as it is written."""
    return f"`{shorten(c.place.text.value[c.place.start : c.place.end])}`"


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _refine(sizes: Sizes, op: str, left: Expr, right: Expr) -> Size | None:
    """What the simple constraints say of one size: bounds, and M % 8 = 0.  Gives the size."""
    if not right.is_const:
        return None
    value = right.attr
    if left.op == "mod" and left.args[0].op == "size" and left.args[1].is_const and op == "=" and value == 0:
        known = sizes.free[left.args[0].attr]
        sizes.free[known.name] = replace(known, multiple=_lcm(known.multiple, left.args[1].attr))
    elif left.op == "size" and op in ("<", "<=", "="):
        known = sizes.free[left.attr]
        sizes.free[known.name] = replace(known, max=min(known.max, value - (op == "<")))
    if left.op == "size" and op in (">", ">=", "="):
        known = sizes.free[left.attr]
        sizes.free[known.name] = replace(known, min=max(known.min, value + (op == ">")))
    about = left.args[0] if left.op == "mod" else left
    return sizes.free[about.attr] if about.op == "size" else None


def _lcm(a: int, b: int) -> int:
    from math import lcm

    return lcm(a, b)


def comparison(op: str, left: Expr, right: Expr) -> Expr:
    """The boolean expression of a constraint."""
    return _COMPARE[op](left, right)
