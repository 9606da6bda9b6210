"""Expressions inside a nest: a form → a scalar, with the checks that its indices need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..ir.dtypes import DType
from ..ir.expr import FALSE, TRUE, ZERO, Expr, call, const
from ..ir.kernel import Check
from ..ir.program import BAD_INDEX
from ..ir.simplify import assuming, simplify
from ..ir.tensor import BuildError, Tensor
from . import arguments, lists, scalars
from .diagnostics import shorten
from .frame import Broken, Silenced, no_operator, taken_for_output, unknown
from .locals import Memory, Plain, Rows
from .names import fold
from .operators import TABLE
from .recovery import Reader, also
from .scalars import SCALARS, Scalar
from .sexpr import Comma, Form, List, Number, String, Symbol
from .source import error
from .tensorial import tensorial

if TYPE_CHECKING:
    from .ground import Ground


class LoopValues:
    """Evaluates expressions for a walk; `guards` are the conditions under which the expression at hand is reached (branches of `if`)."""

    def __init__(self, walk: Ground) -> None:
        self.walk = walk
        self.guards: list[Expr] = []

    def value(self, form: Form) -> Any:
        """A Scalar, or a compile-time bool, str or DType; Rows for a tensor with axes.  SourceError E0201, E0203, E0301 …"""
        match form:
            case Number(value=value):
                return number(value)
            case Symbol():
                return self.tensor(form) if tensorial(self, form) else self.name(form)
            case List() if form.head is not None:
                with self.walk.session.nested(form):
                    try:
                        if tensorial(self, form):
                            return self.tensor(form)
                        with also(lambda: self.reader.values(form.items[1:]), form):
                            return self.call(form)
                    except BuildError as e:
                        raise error(e.code, e.message, form.place, *e.notes) from None
            case String(value=value):
                return value
            case _:
                notes = ("help: what stands first is an operator, as in (+ a b)",) if isinstance(form, List) and form.items else ()
                raise error("E0503", f"`{shorten(form.source_text)}` has no value", form.place, *notes)

    def tensor(self, form: Form) -> Any:
        from .loop_tensors import evaluate

        return evaluate(self, form)

    def scalar(self, form: Form) -> Scalar:
        """A value that is a number or a truth value."""
        return self._scalar(form, self.value(form))

    def operand(self, form: Form) -> Scalar | Rows:
        """What is stored: a number, or a tensor of the iteration."""
        value = self.value(form)
        return value if isinstance(value, Rows) else self._scalar(form, value)

    def binding(self, form: Form) -> DType | Plain:
        """What a name may stand for: a dtype, or a number that stays as it is."""
        value = self.value(form)
        return value if isinstance(value, DType) else Plain(self._scalar(form, value))

    def _scalar(self, form: Form, value: Any) -> Scalar:
        if isinstance(value, bool):
            return Scalar(TRUE if value else FALSE)
        if isinstance(value, Rows):
            raise too_many_axes(form, value)
        if not isinstance(value, Scalar):
            raise error("E0503", f"expected a number, found `{shorten(form.source_text)}`", form.place)
        return value

    def condition(self, form: Form) -> bool | Expr:
        """A truth value, at compile time where it is known then; E0303 for anything else."""
        value = self.value(form)
        if isinstance(value, bool):
            return value
        if isinstance(value, Rows):
            raise too_many_axes(form, value)
        if not isinstance(value, Scalar):
            raise error("E0303", f"a condition must be bool, found `{shorten(form.source_text)}`", form.place, "help: compare it, as in (/= x 0)")
        try:
            return scalars.truth(value)
        except BuildError as e:
            raise error(e.code, e.message, form.place, *e.notes) from None

    def index(self, form: Form) -> Expr:
        try:
            return scalars.index(self.scalar(form))
        except BuildError as e:
            raise error(e.code, e.message, form.place, *e.notes) from None

    # ---- names

    def name(self, form: Symbol) -> Any:
        frame = self.walk.frame
        found = frame.resolve(form.name, form.place)
        if found is None:
            memory = self.walk.output(form)
            if memory is None:
                raise unknown(form.name, frame, form.place)
            return self.walk.read(memory, ())
        value = found.value
        match value:
            case Broken():
                raise Silenced
            case Plain():
                return value.value
            case Memory():
                return self.walk.read(value, ())
            case Tensor():
                fixed = None if self.walk.assigns(found.key) else plain(value)
                return fixed if fixed is not None else self.walk.read(self.walk.memory(found), ())
            case Expr():
                return Scalar(value, "int")
            case bool() | str() | DType():
                return value
            case int() | float():
                return number(value)
            case _:
                notes = ("help: one of its numbers is (aref list k)",) if lists.is_list(value) else ()
                raise error("E0503", f"`{shorten(form.name)}` is no number", form.place, *notes)

    # ---- calls

    def call(self, form: List) -> Any:
        head = (form.head or "").lower()
        match head:
            case "aref":
                values = lists.list_named(self.walk.frame, form.items[1]) if len(form.items) > 1 else None
                if values is not None:
                    return number(lists.element_in_loop(self, form, values))
                memory, at = self.element(form)
                return self.walk.read(memory, at)
            case "length":
                of = form.items[1] if len(form.items) == 2 else None
                found = lists.list_named(self.walk.frame, of) if of is not None else None
                if found is None and isinstance(of, Symbol):
                    self.name(of)  # it may be no name at all
                return number(lists.length_of(form, found))
            case "if" | "where":
                return self.choice(form)
            case "and" | "or":
                return self.junction(form, head)
            case "cast" | "bitcast":
                return self.cast(form, head)
            case "given":
                return self.walk.evaluator.value(form)
            case _:
                pass
        name = form.head or ""
        row = SCALARS.get(name) or SCALARS.get(head)
        composite = self.walk.session.composite(name, self.walk.frame)
        if composite is not None:
            from .scalar_calls import call_on_numbers

            return call_on_numbers(self, form, composite)
        operands = form.items[1:]
        if row is None and self.walk.is_statement(head):
            with also(lambda: self.reader.inside(form)):
                notes = ("help: it stands by itself, before what reads what it stores",)
                raise error("E0605", f"`{name}` is a statement and has no value", form.items[0].place, *notes)
        if row is None:
            with also(lambda: self.reader.values(operands)):
                notes = no_operator(self.walk.frame, name, [*SCALARS, *TABLE], form.items[0].place)
                raise error("E0203", f"unknown operator `{shorten(name)}`", form.items[0].place, *notes)
        least, most, run = row
        self.commas(form)
        if not least <= len(operands) <= most:
            raise error(
                "E0501",
                f"`{name}` takes {least}{' operands or more' if most > 9 else ' operand' + 's' * (least != 1)}, found {len(operands)}",
                form.place,
            )
        values = self.operands(operands)
        known = scalars.known_comparison(name, values)
        if known is not None:
            return known
        if name == "not" and isinstance(values[0], bool):
            return not values[0]
        numbers = [Scalar(const(v, TRUE.dtype)) if isinstance(v, bool) else v for v in values]
        text = next((f for f, v in zip(operands, values, strict=True) if isinstance(v, str)), None)
        if text is not None:
            raise error("E0503", f"expected a number, found `{shorten(text.source_text)}`", text.place)
        return run(numbers, name)

    @property
    def reader(self) -> Reader:
        """For what stands inside a wrong form."""
        walk = self.walk
        return Reader(walk.frame, self.value, walk.statement, self.knows, walk.is_statement)

    def knows(self, head: str) -> bool:
        """Whether `(head …)` has a value, here or as a tensor."""
        return head.lower() not in ("let", "progn", "values") and self.walk.evaluator.knows(head)

    def operands(self, forms: Sequence[Form]) -> list[Any]:
        problems = arguments.Problems()
        values: list[Any] = []
        for f in forms:
            with problems:
                value = self.value(f)
                if isinstance(value, Rows):
                    raise too_many_axes(f, value)
                if not isinstance(value, (Scalar, bool, str, DType)):
                    raise error("E0503", f"expected a number, found `{shorten(f.source_text)}`", f.place)
                values.append(value.name if isinstance(value, DType) else value)
        problems.finish()
        return values

    @staticmethod
    def commas(form: List) -> None:
        comma = next((f for f in form.items if isinstance(f, Comma)), None)
        if comma is not None:
            raise error("E0105", "a comma in the code", comma.place, "help: operands are separated by spaces")

    def choice(self, form: List) -> Any:
        """`(if c a b)`: only the chosen branch is reached, so the checks of its indices hold under the condition."""
        if len(form.items) != 4:
            raise error(
                "E0501",
                f"an `{form.head}` that gives a value takes 3 operands, found {len(form.items) - 1}",
                form.place,
                "expected: (if condition then else)",
            )
        problems = arguments.Problems()
        test: bool | Expr = TRUE  # where it is wrong, the branches are looked at all the same
        with problems:
            test = self.condition(form.items[1])
        if isinstance(test, bool):
            return self.value(form.items[2 if test else 3])
        branches: list[Scalar] = []
        for f, holds in ((form.items[2], test), (form.items[3], call("bit_not", test))):
            with problems, self.guarded(holds):
                branches.append(self.scalar(f))
        problems.finish()
        return scalars.choose(Scalar(test), *branches)

    def guarded(self, condition: Expr) -> _Guard:
        return _Guard(self.guards, condition)

    def junction(self, form: List, head: str) -> Any:
        """`and`, `or`: an operand is reached only where those before it do not decide."""
        result: Scalar | None = None
        depth = len(self.guards)
        try:
            for f in form.items[1:]:
                test = self.condition(f)
                if isinstance(test, bool):
                    if test == (head == "or"):
                        return test
                    continue
                if result is None:
                    result = Scalar(test)
                elif scalars.has_loads(test):
                    result = Scalar(call("where", result.expr, *((test, FALSE) if head == "and" else (TRUE, test))))
                else:
                    result = Scalar(call("bit_and" if head == "and" else "bit_or", result.expr, test))
                self.guards.append(test if head == "and" else call("bit_not", test))
        finally:
            del self.guards[depth:]
        return head == "and" if result is None else result

    def cast(self, form: List, head: str) -> Scalar:
        positional, keywords = arguments.split(form)
        if "dtype" in keywords:
            positional.insert(0, keywords["dtype"][1])
        if len(positional) != 2:
            raise error("E0501", f"`{head}` takes a dtype and a value", form.place, f"expected: ({head} f32 x)")
        to = arguments.type_(self.walk.evaluator, positional[0])
        x = self.scalar(positional[1])
        return scalars.cast_to(x, to) if head == "cast" else scalars.bitcast_to(x, to)

    # ---- elements

    def element(self, form: List, part: bool = False) -> tuple[Memory, tuple[Expr, ...]]:
        """The memory and the checked indices of `(aref T i…)`; of a `part` there may be fewer than axes."""
        if len(form.items) < 2 or not isinstance(form.items[1], Symbol):
            raise error("E0501", "`aref` takes the name of a tensor and its indices", form.place, "expected: (aref T i…)")
        problems = arguments.Problems()
        memory: Memory | None = None
        at: list[Expr] = []
        with problems:
            memory = self.base(form.items[1])
        for f in form.items[2:]:
            with problems:
                at.append(self.index(f))
        problems.finish()
        assert memory is not None
        if len(at) != len(memory.shape) and not (part and len(at) < len(memory.shape)):
            axes = len(memory.shape)
            raise error(
                "E0505",
                f"`{form.items[1].name}` has {axes} ax{'i' if axes == 1 else 'e'}s, found {len(at)} ind{'ex' if len(at) == 1 else 'ices'}",
                form.place,
                *(taken_for_output(self.walk.frame, form.items[1].name, axes) if memory.key in self.walk.outside else ()),
            )
        for f, i, extent in zip(form.items[2:], at, memory.shape, strict=False):
            self.inside(f, i, extent)
        return memory, tuple(at)

    def base(self, name: Symbol) -> Memory:
        frame = self.walk.frame
        found = frame.resolve(name.name, name.place)
        folded = found is not None and found.key != name.name
        # the exact spelling wins, also where the output has no value yet: `Y` beside a loop variable `y`
        if found is None or (folded and any(p.name == name.name and p.role == "out" for p in frame.composite.ports)):
            memory = self.walk.output(name)
            if memory is None:
                raise unknown(name.name, frame, name.place)
            return memory
        if isinstance(found.value, Broken):
            raise Silenced
        if isinstance(found.value, Memory):
            return found.value
        if isinstance(found.value, Tensor):
            return self.walk.memory(found)
        raise error("E0503", f"`{shorten(name.name)}` is no tensor", name.place)

    def inside(self, form: Form, i: Expr, extent: Expr) -> None:
        """Prove that 0 <= i < extent where the element is reached, or check it at run time.  E0319 where it is never inside."""
        walk = self.walk
        known = walk.known
        for g in self.guards:
            known = assuming(known, g)
        for condition in (ZERO.le(i), i.lt(extent)):
            left = simplify(condition, known)
            if left is TRUE:
                continue
            if left is FALSE and extent is not ZERO:  # of no elements none is reached, as a rule
                raise error("E0319", f"the index `{shorten(form.source_text)}` is never inside its axis of extent {extent!r}", form.place)
            for g in self.guards:
                left = call("bit_or", call("bit_not", g), left)
            walk.emit_check(Check(left, BAD_INDEX, form.place.span))


class _Guard:
    def __init__(self, guards: list[Expr], condition: Expr) -> None:
        self.guards, self.condition = guards, condition

    def __enter__(self) -> None:
        self.guards.append(self.condition)

    def __exit__(self, *_: object) -> None:
        self.guards.pop()


def too_many_axes(form: Form, rows: Rows) -> Exception:
    axes = rows.tensor.rank
    elements = f"one element is (aref x {' '.join('ijklmnpq'[:axes])}), and (sum x), (max x) and others reduce all axes"
    meant = next((n for n in rows.inside.frame.sizes if isinstance(form, Symbol) and fold(n) == fold(form.name)), None)
    return error(
        "E0607",
        f"`{shorten(form.source_text)}` has {axes} ax{'i' if axes == 1 else 'e'}s, and a number is needed here",
        form.place,
        f"help: the size is `{meant}`; `{shorten(form.source_text)}` is a tensor" if meant else f"help: {elements}",
    )


def number(value: float) -> Scalar:
    from ..ir.dtypes import f64

    return Scalar(const(value), "int") if isinstance(value, int) else Scalar(const(value, f64), "float")


def plain(x: Tensor) -> Scalar | None:
    """A tensor that is a plain number known now (a literal, an expression of sizes), as a scalar."""
    if x.shape:
        return None
    if x.integer is not None:
        return Scalar(x.integer, "int")
    node = x.view.node
    if node.op == "const" and x.view.domain is None:
        return number(node.attr.value) if x.weak == "float" else Scalar(const(node.attr.value, node.dtype))
    return None
