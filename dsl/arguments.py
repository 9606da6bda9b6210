"""The operands of a call: positional ones and keywords, and how each kind of operand is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..ir.dtypes import DType, dtype
from ..ir.errors import Diagnostic, SourceError
from ..ir.expr import Expr
from ..ir.tensor import BuildError, Tensor
from .diagnostics import nearest, shorten
from .frame import BROKEN, Silenced
from .operators import KINDS, Operand, Operator, constant_of
from .recovery import also
from .sexpr import Comma, Form, Keyword, List, String, Symbol
from .source import error

if TYPE_CHECKING:
    from .evaluate import Evaluator

ARITHMETIC = frozenset({"+", "-", "*", "/", "floordiv", "mod", "min", "max", "abs", "neg", "if"})

MAX_OPERANDS = 1024
T = TypeVar("T")


def split(form: List) -> tuple[list[Form], dict[str, tuple[Keyword, Form]]]:
    """The operands of a call and its keywords; E0104 for a comma, E0502 for a keyword twice or without a value."""
    positional: list[Form] = []
    keywords: dict[str, tuple[Keyword, Form]] = {}
    if len(form.items) > MAX_OPERANDS:
        raise error("E0106", f"{len(form.items) - 1} operands; at most {MAX_OPERANDS} are allowed", form.items[0].place)
    rest = list(form.items[1:])
    while rest:
        item = rest.pop(0)
        if isinstance(item, Comma):
            raise error("E0105", "a comma in the code", item.place, "help: operands are separated by spaces")
        if not isinstance(item, Keyword):
            if keywords:
                raise error(
                    "E0501", "an operand after the keywords", item.place, f"help: operands come first: ({form.head} … :{next(iter(keywords))} …)"
                )
            positional.append(item)
            continue
        if not rest or isinstance(rest[0], Keyword):
            raise error("E0502", f"the keyword :{item.name} has no value", item.place)
        if item.name in keywords:
            raise error("E0502", f"the keyword :{item.name} is given twice", item.place)
        keywords[item.name] = (item, rest.pop(0))
    return positional, keywords


def bind(evaluator: Evaluator, form: List, operator: Operator) -> tuple[list[Any], dict[str, Any]]:
    """The values of a call's operands by the operator's signature.  Mistakes in several operands are reported together."""
    inside = evaluator.reader.values
    with also(lambda: inside(form.items[1:])):
        positional, keywords = split(form)
    problems = Problems()
    operands = operator.operands
    for name, (key, value) in list(keywords.items()):
        if name in operator.keywords or (name == "dtype" and any(o.kind == "type" for o in operands)):
            continue
        with problems, also(lambda value=value: inside([value])):
            known = [f":{k}" for k in operator.keywords]
            raise error(
                "E0502",
                f"`{operator.name}` has no keyword :{shorten(name)}",
                key.place,
                *(nearest(f":{name}", known) or (f"expected: {operator.signature}",)),
            )
        del keywords[name]
    if operands and operands[0].kind == "type" and "dtype" in keywords:
        positional.insert(0, keywords.pop("dtype")[1])
    required = sum(o.required for o in operands)
    if len(positional) < required - any(o.many and o.kind != "tensor" for o in operands) or (
        len(positional) > len(operands) and not (operands and operands[-1].many)
    ):
        wanted = "no operands" if not operands else f"{required} operand{'s' * (required != 1)}"
        with problems, also(lambda: inside(form.items[1:])):
            raise error(
                "E0501",
                f"`{operator.name}` takes {'at least ' * bool(operands and operands[-1].many)}{wanted}, found {len(positional)}",
                form.place,
                f"expected: {operator.signature}",
                *_as_one_list(operator, positional),
            )
        problems.finish()
    found: list[Any] = []
    for k, operand in enumerate(operands):
        with problems:
            if operand.many:
                found.append(read_many(evaluator, positional[k:], operand))
            elif k < len(positional):
                found.append(read(evaluator, positional[k], operand))
    values = {k: o.default for k, o in operator.keywords.items()}
    for name, (_, value) in keywords.items():
        with problems:
            values[name] = read(evaluator, value, operator.keywords[name])
    problems.finish()
    return found, values


def _as_one_list(operator: Operator, positional: list[Form]) -> tuple[str, ...]:
    """For `(zeros S D)`: extents that stand side by side where one shape is meant."""
    beyond = len(positional) - len(operator.operands)
    if beyond <= 0 or not operator.operands or operator.operands[0].kind != "shape":
        return ()
    extents, rest = positional[: beyond + 1], positional[beyond + 1 :]
    words = [operator.name, f"({' '.join(f.source_text for f in extents)})", *(f.source_text for f in rest)]
    return (f"help: the shape is one list: {shorten('(' + ' '.join(words) + ')')}",)


class Problems:
    """Lets every operand of a call be looked at before the first mistake is raised."""

    def __init__(self) -> None:
        self.found: list[Diagnostic] = []
        self.silenced = False

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type | None, problem: BaseException | None, trace: object) -> bool:
        if isinstance(problem, SourceError):
            self.found.extend(problem.diagnostics)
        self.silenced = self.silenced or isinstance(problem, Silenced)
        return isinstance(problem, (SourceError, Silenced))

    def finish(self) -> None:
        if self.found:
            raise SourceError(list(dict.fromkeys(self.found)))
        if self.silenced:
            raise Silenced


def each(forms: Iterable[Form], run: Callable[[Form], T]) -> list[T]:
    """One value for each form; mistakes in several are told together."""
    problems = Problems()
    found: list[T] = []
    for f in forms:
        with problems:
            found.append(run(f))
    problems.finish()
    return found


# ---- one operand


def read(evaluator: Evaluator, form: Form, operand: Operand) -> Any:
    """The value of one operand of a kind; E0503 where the form is of another kind."""
    try:
        return _READ[operand.kind](evaluator, form)
    except BuildError as e:
        raise error(e.code, e.message, form.place, *e.notes) from None


def read_many(evaluator: Evaluator, forms: Sequence[Form], operand: Operand) -> tuple[Any, ...]:
    if operand.kind == "sizes":
        whole = listed(evaluator, forms[0], size) if len(forms) == 1 else None
        return sizes(evaluator, forms) if whole is None else whole
    if operand.kind == "axes":
        whole = listed(evaluator, forms[0], axis) if len(forms) == 1 else None
        return tuple(each(forms, lambda f: axis(evaluator, f))) if whole is None else whole
    return tuple(each(forms, lambda f: read(evaluator, f, operand)))


def mismatch(form: Form, kind: str, *notes: str) -> SourceError:
    return error("E0503", f"expected {KINDS[kind]}, found `{shorten(form.source_text)}`", form.place, *notes)


def anything(evaluator: Evaluator, form: Form) -> Any:
    """A tensor or a compile-time truth value."""
    value = evaluator.value(form)
    if value is BROKEN:
        raise Silenced
    return value


def tensor(evaluator: Evaluator, form: Form) -> Tensor:
    value = anything(evaluator, form)
    if isinstance(value, bool):
        return evaluator.builder.constant(value)
    if not isinstance(value, Tensor):
        raise mismatch(form, "tensor", *(("help: bind several values by (setf (values a b) …)",) if isinstance(value, tuple) else ()))
    return value


def tensors(evaluator: Evaluator, forms: Sequence[Form]) -> list[Tensor]:
    return each(forms, lambda f: tensor(evaluator, f))


def size(evaluator: Evaluator, form: Form) -> Expr:
    """An integer expression of sizes."""
    value = anything(evaluator, form)
    if not isinstance(value, Tensor):
        raise mismatch(form, "size")
    return evaluator.guarded(form, lambda: evaluator.builder.position(value))


def axis(evaluator: Evaluator, form: Form) -> int:
    """An integer that is known now."""
    found = size(evaluator, form)
    if not found.is_const:
        raise error(
            "E0320", f"`{shorten(form.source_text)}` must be known at compile time", form.place, "expected: an integer literal or a parameter"
        )
    return found.attr


def sizes(evaluator: Evaluator, forms: Sequence[Form]) -> tuple[Expr, ...]:
    """Sizes one by one; `~` stands for all that it stands for in the ports."""

    def one(form: Form) -> Sequence[Expr]:
        if not is_tilde(form):
            return (size(evaluator, form),)
        leading = evaluator.frame.leading
        if leading is None:
            raise error("E0503", "`~` stands for nothing here: no port of this composite has it", form.place)
        return leading

    return tuple(e for found in each(forms, one) for e in found)


def is_tilde(form: Form) -> bool:
    return isinstance(form, Symbol) and form.name == "~"


def listed(evaluator: Evaluator, form: Form, one: Any) -> tuple[Any, ...] | None:
    """A list of integers: written out (unless its head is an arithmetic operator), a parameter of type ints, or `~` of sizes; None where the form is no list."""
    if isinstance(form, List) and form.bracket != "{" and (form.bracket == "[" or not is_expression(form)):
        items = [f for f in form.items if not isinstance(f, Comma)]
        return sizes(evaluator, items) if one is size else tuple(each(items, lambda f: one(evaluator, f)))
    if is_tilde(form) and one is size:
        return sizes(evaluator, [form])
    if isinstance(form, Symbol):
        value = anything(evaluator, form)
        if isinstance(value, tuple) and all(isinstance(v, int) for v in value):
            return value
    return None


def is_expression(form: List) -> bool:
    """In an operand of sizes `(a b)` is a list, `(* 2 a)` an expression."""
    return (form.head or "").lower() in ARITHMETIC


def axes(evaluator: Evaluator, form: Form) -> Any:
    if isinstance(form, Symbol) and form.name.lower() == "nil":
        return None
    found = listed(evaluator, form, axis)
    return axis(evaluator, form) if found is None else found


def shape(evaluator: Evaluator, form: Form) -> tuple[Any, ...]:
    found = listed(evaluator, form, size)
    return (size(evaluator, form),) if found is None else found


def flag(evaluator: Evaluator, form: Form) -> bool:
    """`t` and `nil` are always the literals here, whatever a port of that name may be."""
    if isinstance(form, Symbol) and form.name.lower() in ("t", "nil"):
        return form.name.lower() == "t"
    value = anything(evaluator, form)
    if not isinstance(value, bool):
        raise mismatch(form, "flag")
    return value


def literal(evaluator: Evaluator, form: Form) -> Any:
    found = constant_of(anything(evaluator, form))
    if isinstance(found, (int, float)):
        return found
    raise mismatch(form, "literal")


def text(evaluator: Evaluator, form: Form) -> str:
    """A string, or a bare word that names nothing."""
    if isinstance(form, String):
        return form.value
    if isinstance(form, Symbol):
        found = evaluator.frame.resolve(form.name, form.place)
        if found is not None and isinstance(found.value, str):
            return found.value
        return form.name.lower()
    raise mismatch(form, "text")


def type_(evaluator: Evaluator, form: Form) -> DType:
    """A dtype, a type variable of the composite, or anything whose value is a dtype: a parameter, a name, `(if (= T f64) f64 f32)`."""
    if isinstance(form, Symbol):
        frame = evaluator.frame
        if form.name in frame.dtypes:
            return frame.dtypes[form.name]
        found = frame.resolve(form.name, form.place)
        if found is not None and isinstance(found.value, DType):
            return found.value
        if found is not None and found.value is BROKEN:
            raise Silenced
        known = dtype(form.name)
        if known is not None and known.lanes == 1:
            return known
        from ..ir.dtypes import DTYPES

        raise error("E0114", f"unknown type `{shorten(form.name)}`", form.place, *nearest(form.name, [*DTYPES, *frame.dtypes]))
    value = evaluator.value(form) if isinstance(form, List) else None
    if isinstance(value, DType):
        return value
    raise mismatch(form, "type")


def range_(evaluator: Evaluator, form: Form) -> Any:
    """`_` for all, an integer (drops the axis), (start stop [step]) with `_` for what is left out, or `~` for all axes that nothing else is given for."""
    if isinstance(form, Symbol) and form.name == "_":
        return None
    if is_tilde(form):
        return ...
    if not isinstance(form, List) or is_expression(form):
        return size(evaluator, form)
    if not 2 <= len(form.items) <= 3:
        raise mismatch(form, "ranges", "expected: (start stop) or (start stop step), `_` for all")
    parts = each(form.items, lambda f: None if isinstance(f, Symbol) and f.name == "_" else size(evaluator, f))
    return (parts[0], parts[1], parts[2] if len(parts) == 3 else None)


def pair(evaluator: Evaluator, form: Form) -> Any:
    """(before after), `_` for (0 0), or `~` for (0 0) at every axis that nothing else is given for."""
    if isinstance(form, Symbol) and form.name in ("_", "~"):
        return ... if form.name == "~" else (0, 0)
    found = listed(evaluator, form, size)
    if found is None or len(found) != 2:
        raise mismatch(form, "pairs", "expected: (before after) for each axis")
    return found


_READ: dict[str, Any] = {
    "tensor": tensor, "any": anything, "size": size, "axis": axis, "axes": axes, "shape": shape, "flag": flag, "literal": literal, "text": text,
    "type": type_, "ranges": range_, "pairs": pair, "sizes": size,
}  # fmt: skip
