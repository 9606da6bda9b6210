"""The loop style: a form with loops becomes one `Nest`, whose results give the tensors that it writes their new versions.

The walk goes through the statements once and emits kernel-level statements.  The dtype of a mutable number is unified over all its assignments: a walk
that finds a wider one than it started with is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NoReturn

from ..ir.bounds import Range
from ..ir.dtypes import bool_
from ..ir.errors import CompilerBug, SourceError
from ..ir.expr import FALSE, ONE, TRUE, ZERO, Expr, call, const, load, var
from ..ir.graph import Attr, Shape, identity, make
from ..ir.kernel import Alloc, Buffer, Check, If, Loop, Nest, Stmt, Store, While, statements
from ..ir.program import BAD_SIZE
from ..ir.simplify import assuming, simplify
from ..ir.tensor import BuildError
from ..ir.walks import leaves
from . import arguments, scalars
from .checks import hoisted, on_sizes_only
from .diagnostics import nearest, shorten
from .frame import BROKEN, Silenced
from .ground import Ground
from .locals import ACCUMULATE, Kinds, Memory, Plain, Rows, count_targets, is_element, place_and_operand, targets
from .loop_values import LoopValues
from .names import fold
from .recovery import also, silence
from .scalars import Scalar
from .sexpr import Form, List, Symbol
from .source import error

if TYPE_CHECKING:
    from .evaluate import Evaluator

MAX_WALKS = 64
MAX_STATEMENTS = 500  # of one nest: what depends on what is asked of every two of them
MAX_WRITTEN_OUT = 1000  # tensor expressions as the loops that they are included


def run_nest(evaluator: Evaluator, form: List) -> None:
    """Elaborate a statement of the loop style and give the names that it writes their new values."""
    kinds = Kinds()
    frame = evaluator.frame
    depth = len(frame.scopes)
    try:
        for _ in range(MAX_WALKS):
            kinds.changed = False
            before = [dict(s) for s in frame.scopes]
            walk = Walk(evaluator, form, kinds)
            try:
                walk.statement(form)
            except (SourceError, Silenced):
                if not kinds.changed:
                    raise
                for scope, names in zip(frame.scopes, before, strict=False):  # without the marks of what was cut short
                    scope.clear()
                    scope.update(names)
            finally:
                del frame.scopes[depth:]
            if not kinds.changed:
                evaluator.guarded(form, walk.finish)
                return
        raise CompilerBug("elaborate", "the dtypes of a nest do not settle")
    except Exception:  # raised again: only what it would have made is marked
        for name in targets(form):
            found = frame.resolve(name.name, name.place)
            if (found is not None and found.space == "local") or frame.declared_output(name.name) is not None:
                frame.assign(name.name, BROKEN, name.place)
        raise


class Walk(Ground):
    """One walk over a nest, statement by statement."""

    def statement(self, form: Form) -> None:
        self.count += 1
        if self.count > MAX_STATEMENTS:
            notes = ("note: a loop whose variable picks elements of a list is written out",) if self.kinds.loops else ()
            raise error("E0106", f"more than {MAX_STATEMENTS} statements in one nest of loops", form.place, *notes)
        head = (form.head or "").lower() if isinstance(form, List) else ""
        run = STATEMENTS.get(head)
        if run is None or not isinstance(form, List):
            self.no_statement(form, head)
        with self.session.nested(form):
            try:
                with also(lambda: self.values.reader.inside(form), form):
                    run(self, form)
            except BuildError as e:
                raise error(e.code, e.message, form.place, *e.notes) from None

    def is_statement(self, head: str) -> bool:
        return head.lower() in STATEMENTS or head.lower() == "return"

    def no_statement(self, form: Form, head: str) -> NoReturn:
        if head == "return":
            where = "in a branch whose condition is not known at compile time" if (self.form.head or "").lower() == "if" else "inside a loop"
            raise error(
                "E0609",
                f"`return` {where}",
                form.place,
                "help: outputs are returned behind it, made by (where c a b), or stored by (setf (aref Y …) …)",
            )
        if isinstance(form, List) and form.head is not None:
            known = [*STATEMENTS, *scalars.SCALARS]
            if head in scalars.SCALARS or head == "aref" or self.session.composite(form.head, self.frame):
                raise error(
                    "E0605", "this value is used by nothing", form.place, "help: inside a loop a statement stores: (setf …), (incf …), (set …)"
                )
            try:
                with also(lambda: self.values.reader.inside(form)):
                    raise error("E0203", f"unknown statement `{shorten(form.head)}`", form.items[0].place, *nearest(form.head, known))
            finally:
                silence(self.frame, form)
        raise error("E0605", "this value is used by nothing", form.place)

    def statements(self, forms: Sequence[Form]) -> None:
        problems = arguments.Problems()
        for f in forms:
            with problems:
                self.statement(f)
        problems.finish()

    def sequence(self, form: List) -> None:
        self.statements(form.items[1:])

    def dotimes(self, form: List) -> None:
        """`(dotimes (v count) form…)`"""
        name, (count,) = loop_head(form, 1, 1, "(dotimes (v count) form…)")
        with self.head(form.items[2:], name):
            stop = self.once(self.values.index(count), "count")
        self.loop_over(form, name, ZERO, stop, ONE)

    def loop(self, form: List) -> None:
        """`(loop (v from to [by]) form…)`: half-open; a negative `by` counts down."""
        name, (start, stop, *by) = loop_head(form, 2, 3, "(loop (v from to [by]) form…)")
        with self.head(form.items[2:], name):
            first, last, *given = self.bounds(start, stop, *by)
            step = given[0] if given else ONE
            if step is ZERO:
                raise error("E0610", "a loop by 0 never ends", by[0].place)
        if not step.is_const:
            self.emit_check(Check(call("not_equal", step, ZERO), BAD_SIZE, by[0].place.span))
        self.loop_over(form, name, first, last, step)

    def bounds(self, *forms: Form) -> list[Expr]:
        """What a loop runs from, to and by, evaluated once; mistakes in several are told together."""
        problems = arguments.Problems()
        found: list[Expr] = []
        for f, name in zip(forms, ("from", "to", "by"), strict=False):
            with problems:
                found.append(self.once(self.values.index(f), name))
        problems.finish()
        return found

    @contextmanager
    def head(self, body: Sequence[Form], variable: Symbol | None = None) -> Iterator[None]:
        """The head of a loop or of a branch: after a mistake in it, the body is looked at all the same."""
        problems = arguments.Problems()
        with problems:
            yield
        if problems.found or problems.silenced:
            with problems, self.inner():
                if variable is not None:
                    self.frame.scopes[-1][variable.name] = BROKEN
                self.statements([f for f in body if isinstance(f, List)])
            problems.finish()

    @contextmanager
    def naming(self, name: Symbol) -> Iterator[None]:
        """After a mistake in what a name is to stand for, its uses are not reported again."""
        try:
            yield
        except Exception:
            self.frame.assign(name.name, BROKEN, name.place)
            raise

    def loop_over(self, form: List, name: Symbol, start: Expr, stop: Expr, step: Expr) -> None:
        counted = range(start.attr, stop.attr, step.attr) if start.is_const and stop.is_const and step.is_const else None
        if counted is not None and id(form) in self.kinds.loops:
            self.written_out(form, name, counted)
            return
        axis = self.fresh(name.name)
        v = var(axis)
        if counted is not None:
            self.counted[axis] = form, counted
        with self.inner() as body:
            self.frame.scopes[-1][name.name] = Plain(Scalar(v, "int"), loop=True)
            if step.is_const:
                ends = Range(start, stop + -1) if step.attr > 0 else Range(stop + 1, start)
                self.known = self.known.with_ranges({axis: ends})
            self.statements(form.items[2:])
        kept, checks = hoisted(body, v, start, stop, step, self.known)
        for check in checks:
            left = simplify(check.condition, self.known)
            if left is FALSE:
                raise error("E0319", "an index in this loop is always outside its axis", form.place)
            if left is not TRUE:
                self.emit_check(Check(left, check.code, check.span))
        self.block.append(Loop(axis, start, stop, tuple(kept), step=step, span=form.place.span))

    def written_out(self, form: List, name: Symbol, counted: range) -> None:
        """A loop whose variable picks an element of a list: its iterations one after the other, in which it is a number."""
        problems = arguments.Problems()
        for k in counted:
            with problems, self.inner() as body:
                self.frame.scopes[-1][name.name] = Plain(Scalar(const(k), "int"), loop=True)
                self.statements(form.items[2:])
            self.block.extend(body)
            if self.count > MAX_STATEMENTS:
                break
        problems.found = list({(d.code, d.span): d for d in reversed(problems.found)}.values())[::-1]  # each mistake once, not in each iteration
        problems.finish()

    def while_(self, form: List) -> None:
        """`(while condition [:max n] form…)`"""
        items = list(form.items[1:])
        limit: Expr | None = None
        if len(items) > 2 and getattr(items[1], "name", None) == "max" and not isinstance(items[1], Symbol):
            limit = self.once(self.values.index(items[2]), "max")
            del items[1:3]
        if not items:
            raise error("E0601", "this is not a `while`", form.place, "expected: (while condition :max n form…)")
        with self.head(items[1:]), self.inner(body=False) as checks:
            value = self.values.condition(items[0])
        if value is False:
            return
        condition = TRUE if value is True else value
        self.block.extend(checks)
        if not all(isinstance(s, Check) for s in checks):
            self.while_computed(items, condition, limit)
            return
        with self.inner() as body:
            self.known = assuming(self.known, condition) if not scalars.has_loads(condition) else self.known
            self.statements(items[1:])
        self.block.append(While(condition, (*body, *checks), limit))

    def while_computed(self, items: Sequence[Form], condition: Expr, limit: Expr | None) -> None:
        """A condition that takes statements of its own is computed before the loop and at the end of its body."""
        go = self.fresh("go")
        self.block += [Alloc(Buffer(go, bool_, (), "register")), Store(go, (), condition)]
        with self.inner() as body:
            self.statements(items[1:])
            again = self.values.condition(items[0])
            self.block.append(Store(go, (), again if isinstance(again, Expr) else TRUE if again else FALSE))
        self.block.append(While(load(go, bool_), tuple(body), limit))

    def conditional(self, form: List) -> None:
        if not 3 <= len(form.items) <= 4:
            raise error("E0501", f"`if` takes 2 or 3 operands, found {len(form.items) - 1}", form.place, "expected: (if condition then [else])")
        with self.head(form.items[2:]):
            condition = self.values.condition(form.items[1])
        if isinstance(condition, bool):
            self.statements(form.items[2:3] if condition else form.items[3:])
            return
        blocks: list[tuple[Stmt, ...]] = []
        problems = arguments.Problems()
        for f, holds in zip(form.items[2:], (condition, call("bit_not", condition)), strict=False):
            with problems, self.inner(body=False) as block:
                if not scalars.has_loads(condition):
                    self.known = assuming(self.known, holds)
                self.statement(f)
                blocks.append(tuple(block))
        problems.finish()
        self.block.append(If(condition, *blocks))

    def let(self, form: List) -> None:
        from .evaluate import let_pairs

        pairs = let_pairs(form)
        problems = arguments.Problems()
        values: dict[str, Scalar | Rows] = {}
        for name, value in pairs:
            with problems:
                values[name.name] = self.values.operand(value)
        self.frame.scopes.append({name.name: BROKEN for name, _ in pairs})
        for name, _ in pairs:
            with problems:
                if name.name in values:
                    self.declare(name, values[name.name], mutable=fold(name.name) in count_targets(form))
        try:
            with problems:
                self.statements(form.items[2:])
        finally:
            self.frame.scopes.pop()
        problems.finish()

    def make_array(self, form: List) -> None:
        """`(make-array v dtype (sizes))`: local memory, zeros at first."""
        if len(form.items) != 4 or not isinstance(form.items[1], Symbol):
            raise error("E0601", "this is not a `make-array`", form.place, "expected: (make-array name dtype (sizes))")
        name = form.items[1]
        self.frame.scopes[-1][name.name] = BROKEN  # where a mistake follows
        dtype = arguments.type_(self.evaluator, form.items[2])
        items = form.items[3].items if isinstance(form.items[3], List) and not arguments.is_expression(form.items[3]) else (form.items[3],)
        shape: Shape = tuple(self.values.index(f) for f in items)
        if any(scalars.has_loads(e) or leaves(e, "var") for e in shape):
            raise error("E0320", "the sizes of a local array must be known before the loops", form.items[3].place)
        memory = Memory(self.fresh(name.name), shape, name.place.start)
        self.kinds.start(memory.key, dtype)
        self.frame.scopes[-1][name.name] = memory
        self.block.append(Alloc(self.buffer(memory, "stack" if all(e.is_const for e in shape) else "private")))
        self.block.extend(self.zeros(memory))

    def assign(self, form: List) -> None:
        """`(setf place value …)`, `(set v value)`"""
        if len(form.items) < 3 or len(form.items) % 2 == 0:
            raise error("E0601", "this is not an assignment", form.place, f"expected: ({form.head} place value)")
        for k in range(1, len(form.items), 2):
            place, value = form.items[k], form.items[k + 1]
            if isinstance(place, Symbol):
                with self.naming(place):
                    self.assign_name(place, self.values.operand(value), form)
                continue
            if isinstance(place, List) and (place.head or "").lower() == "values":
                self.assign_values(place, value, form)
                continue
            if is_element(place):
                memory, at, x = self.element_and(place, value)
                self.write(place.items[1], memory, at, x, "", form)
            else:
                raise error("E0601", f"`{shorten(place.source_text)}` cannot be assigned", place.place, "expected: a name or (aref T i…)")

    def assign_values(self, place: List, value: Form, form: List) -> None:
        """`(setf (values a b) value)`"""
        names = [n for n in place.items[1:] if isinstance(n, Symbol)]
        with ExitStack() as stack:
            for name in names:
                stack.enter_context(self.naming(name))
            found = self.values.value(value)
            if not isinstance(found, tuple) or len(found) != len(place.items) - 1 or len(names) != len(found):
                count = len(found) if isinstance(found, tuple) else 1
                raise error("E0603", f"{len(place.items) - 1} names for {count} value{'s' * (count != 1)}", place.place)
            for name, x in zip(names, found, strict=True):
                self.assign_name(name, x, form)

    def increment(self, form: Form | None) -> Scalar | Rows:
        return Scalar(ONE, "int") if form is None else self.values.operand(form)

    def element_and(self, place: List, form: Form | None) -> tuple[Memory, tuple[Expr, ...], Scalar | Rows]:
        """The memory and the indices of a place, and what is stored there (1 where nothing is said); mistakes in both are told together."""
        problems = arguments.Problems()
        value: Scalar | Rows | None = None
        at: tuple[Memory, tuple[Expr, ...]] | None = None
        with problems:
            value = self.increment(form)
        with problems:
            at = self.values.element(place, value is None or isinstance(value, Rows))
        problems.finish()
        assert at is not None and value is not None
        return *at, value

    def update(self, form: List) -> None:
        """`(incf place [e])` and its kin."""
        head = (form.head or "").lower()
        place, operand = place_and_operand(form)
        if is_element(place):
            memory, at, value = self.element_and(place, operand)
            name = place.items[1]
        elif isinstance(place, Symbol):
            value = self.increment(operand)
            found, at, name = self.variable(place, value), (), place
            if found is None:
                raise error(
                    "E0201",
                    f"unknown variable `{shorten(place.name)}`",
                    place.place,
                    *nearest(place.name, self.frame.visible()),
                    f"help: (set {place.name} 0) declares it",
                )
            memory = found
        else:
            raise error("E0601", f"`{shorten(place.source_text)}` cannot be assigned", place.place, "expected: a name or (aref T i…)")
        if isinstance(value, Rows):
            from .loop_tensors import updated

            value = updated(value, head, memory, at, form)
        elif head == "decf":
            value = scalars.apply("neg", [value], "decf")
        elif head == "divcf":
            value = scalars.SCALARS["/"][2]([self.read(memory, at), value], "divcf")
        self.write(name, memory, at, value, ACCUMULATE[head], form)

    def finish(self) -> None:
        """The graph nodes of the nest, and the names that now stand for its results."""
        from .statements import rebind

        if not self.written:
            raise error("E0605", f"this `{self.form.head}` has no effect: it stores into nothing", self.form.place)
        never = next((name for (_, key), name in self.unset.items() if not any(m.key == (0, key) for m, _ in self.written.values())), None)
        if never is not None:
            raise error("E0604", f"the output `{shorten(never.name)}` has no value here", never.place)
        if sum(1 for _ in statements(tuple(self.block))) > MAX_WRITTEN_OUT:
            said = f"more than {MAX_WRITTEN_OUT} statements in one nest of loops, with its tensor expressions written out"
            raise error("E0106", said, self.form.place, "help: what needs no loop around it may stand outside")
        b = self.evaluator.builder
        for s in self.block:
            if isinstance(s, Check) and on_sizes_only(s):
                b.require(s.condition, "E0319", "an index in this loop is always outside its axis")
        body = tuple(s for s in self.block if not (isinstance(s, Check) and on_sizes_only(s)))
        # an output that has no value yet is zeros where it is only read
        inputs = [m for m in self.outside.values() if m.tensor is not None or m.name not in self.written]
        tensors = [(m, b.zeros(m.shape, self.kinds.dtype(m.key)) if m.tensor is None else m.tensor) for m in inputs]
        nodes = [b.node(b.retype(x, self.kinds.dtype(m.key)) if x.weak else x) for m, x in tensors]
        results = [(m, name) for m, name in self.written.values()]
        composite = self.frame.composite
        nest = Nest(composite.name, tuple(map(self.buffer, inputs)), tuple(self.buffer(m) for m, _ in results), body)
        args = tuple(identity(n) for n in nodes)
        span = self.form.place.span
        for k, (m, name) in enumerate(results):
            node = make("nest", self.kinds.dtype(m.key), m.shape, args, Attr(nest=nest, result=k), span)
            # a number that only plain integers were given stays one
            rebind(self.evaluator, name, b.of(node, "int" if self.kinds.weak(m.key) == "int" else ""))


def loop_head(form: List, least: int, most: int, expected: str) -> tuple[Symbol, list[Form]]:
    """The variable and the operands of a loop's head; E0601."""
    head = form.items[1] if len(form.items) > 1 else None
    if not isinstance(head, List) or not head.items or not isinstance(head.items[0], Symbol) or not least <= len(head.items) - 1 <= most:
        raise error("E0601", f"this is not a `{form.head}`", form.place, f"expected: {expected}")
    if len(form.items) < 3:
        raise error("E0601", f"the body of this `{form.head}` is empty", form.place)
    LoopValues.commas(head)
    return head.items[0], list(head.items[1:])


STATEMENTS: dict[str, Callable[[Walk, List], None]] = {
    "dotimes": Walk.dotimes, "loop": Walk.loop, "while": Walk.while_, "progn": Walk.sequence, "if": Walk.conditional, "let": Walk.let,
    "make-array": Walk.make_array, "set": Walk.assign, "setf": Walk.assign, **dict.fromkeys(ACCUMULATE, Walk.update),
}  # fmt: skip
