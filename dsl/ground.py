"""The ground that a walk over a nest stands on: its names, its memory, its blocks, and how variables are declared and written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..ir.dtypes import DType, bool_, f64
from ..ir.expr import FALSE, ZERO, Expr, cast, load, var
from ..ir.kernel import Alloc, Buffer, Check, Let, Loop, Stmt, Store
from ..ir.tensor import Tensor, show_shape
from . import scalars
from .diagnostics import shorten
from .frame import BROKEN, Found, Silenced, taken_for_output
from .locals import Kinds, Memory, Plain, Rows, count_targets, known_before, space_of
from .loop_values import LoopValues
from .names import fold, unique
from .scalars import Scalar
from .sexpr import Form, List, Symbol
from .source import error

if TYPE_CHECKING:
    from .evaluate import Evaluator


def plain(name: str) -> str:
    """A user's name as the levels below write one."""
    base = re.sub(r"\W", "_", name)
    return f"_{base}" if base[:1].isdigit() else base


class Ground:
    """What one walk over a nest knows.  `block` is where statements go; `known` what holds there; the frame's inner scopes hold the nest's own names."""

    def __init__(self, evaluator: Evaluator, form: List, kinds: Kinds) -> None:
        self.evaluator = evaluator
        self.session = evaluator.session
        self.frame = evaluator.frame
        self.form = form
        self.kinds = kinds
        self.values = LoopValues(self)
        self.known = evaluator.builder.known()
        self.block: list[Stmt] = []
        self.bodies: list[list[Stmt]] = [self.block]
        self.outside: dict[tuple[int, str], Memory] = {}
        self.unset: dict[tuple[int, str], Symbol] = {}  # outputs without a value yet, where they are named first
        self.written: dict[str, tuple[Memory, Symbol]] = {}
        self.counts = count_targets(form)
        self.count = 0  # of statements
        self.counted: dict[str, tuple[List, range]] = {}  # variable → its loop, where that has constant bounds, and what it runs over
        self.nested = bool(self.session.taken)
        self.taken = self.session.taken  # shared with the nest around, where this one becomes a part of it
        if not self.nested:
            self.taken = {plain(n) for n in (*evaluator.builder.sizes, *self.frame.visible(), *(p.name for p in self.frame.composite.ports))}
        self.tensorial: dict[int, bool] = {}  # of a form: it has a tensor in it
        self.frame.scopes.append({})

    def fresh(self, name: str) -> str:
        """A name that nothing else in the nest has, as near to the user's as can be."""
        base = plain(name)
        found, k = base, 1
        while found in self.taken:
            k += 1
            found = f"{base}_{k}"
        self.taken.add(found)
        return found

    def assigns(self, key: str) -> bool:
        """Some statement of the nest assigns this name."""
        return fold(key) in self.counts

    def memory(self, found: Found) -> Memory:
        """The buffer of a tensor from outside."""
        x: Tensor = found.value
        where = max(k for k, s in enumerate(self.frame.scopes) if s.get(found.key) is x)
        place = (where, found.key)
        if place not in self.outside:
            self.outside[place] = Memory(self.outer(found.key), x.shape, place, x)
            self.kinds.start(place, x.weak or x.dtype)
        return self.outside[place]

    def outer(self, key: str) -> str:
        """The name of a buffer from outside: its own where no other one has taken it."""
        name = plain(key)
        return name if not self.nested and name not in [m.name for m in self.outside.values()] else self.fresh(key)

    def output(self, name: Symbol) -> Memory | None:
        """The buffer of an output port of its own that has no value yet: it starts as zeros."""
        key = unique(name.name, [p.name for p in self.frame.composite.ports if p.role == "out"], name.place)
        if key is None:
            return None
        place = (0, key)
        if place not in self.outside:
            declared = self.frame.declared_output(key)
            if declared is None:
                raise error(
                    "E0608",
                    f"the shape of the output `{key}` is not known before it has a value",
                    name.place,
                    "help: its sizes must stand in an input (which the output may be: it is updated in place) or a `where`, or give it a value first: (setf Y (zeros (M N)))",
                )
            shape, dtype = declared
            self.outside[place] = Memory(self.outer(key), shape, place)
            self.kinds.start(place, dtype)
            self.unset[place] = name
        return self.outside[place]

    def buffer(self, memory: Memory, space: str = "global") -> Buffer:
        return Buffer(memory.name, self.kinds.dtype(memory.key), memory.shape, space)

    def read(self, memory: Memory, at: tuple[Expr, ...]) -> Scalar:
        """An element's value; one whose dtype is open still is as weak as what it was given."""
        e, weak = load(memory.name, self.kinds.dtype(memory.key), *at), self.kinds.weak(memory.key)
        return Scalar(cast(f64, e) if weak == "float" else e, weak)

    def statement(self, form: Form) -> None:
        """Emit what a statement of the loop style does."""
        raise NotImplementedError

    def is_statement(self, head: str) -> bool:
        """The head is a statement's of the loop style."""
        raise NotImplementedError

    @contextmanager
    def inner(self, body: bool = True) -> Iterator[list[Stmt]]:
        """Statements go to a new block; with `body` it is one that `set` declares in."""
        outer, known = self.block, self.known
        self.block = []
        if body:
            self.bodies.append(self.block)
            self.frame.scopes.append({})
        try:
            yield self.block
        finally:
            if body:
                self.bodies.pop()
                self.frame.scopes.pop()
            self.block, self.known = outer, known

    def emit_check(self, check: Check) -> None:
        """Each check once in a block, as long as it depends on no memory."""
        if not scalars.has_loads(check.condition) and any(isinstance(s, Check) and s.condition is check.condition for s in self.block):
            return
        self.block.append(check)

    def once(self, e: Expr, name: str) -> Expr:
        """Loop bounds are evaluated once, before the loop."""
        if not scalars.has_loads(e):
            return e
        named = self.fresh(name)
        self.block.append(Let(named, e))
        return var(named)

    def declare(self, name: Symbol, value: Scalar | Rows, mutable: bool) -> None:
        """A new variable of the innermost scope."""
        scope = self.frame.scopes[-1]
        if mutable or isinstance(value, Rows):
            memory = self.cell(name, value)
            scope[name.name] = memory
            self.write(name, memory, (), value, "")
        elif scalars.has_loads(value.expr):
            expr = scalars.strong(value)
            named = self.fresh(name.name)
            self.block.append(Let(named, expr))
            scope[name.name] = Plain(Scalar(var(named, expr.dtype), value.weak if value.weak == "int" else ""))
        else:
            scope[name.name] = Plain(value)

    def cell(self, name: Symbol, value: Scalar | Rows) -> Memory:
        """A mutable scalar, or an array for rows, allocated in the enclosing body."""
        shape, kind = (value.tensor.shape, value.kind) if isinstance(value, Rows) else ((), value)
        if not known_before(shape):
            raise error("E0320", "the sizes of a local array must be known before the loops", name.place, f"note: its shape is {show_shape(shape)}")
        memory = Memory(self.fresh(name.name), shape, name.place.start)
        self.kinds.start(memory.key, kind.weak or kind.expr.dtype)
        self.bodies[-1].append(Alloc(self.buffer(memory, space_of(shape))))
        return memory

    def assign_name(self, name: Symbol, value: Scalar | Rows, form: List) -> None:
        found = self.frame.resolve(name.name, name.place)
        own = found is not None and found.key != name.name and self.frame.is_input(found.key)  # `u` beside the port `U`
        memory = None if own else self.variable(name, value)
        if memory is not None:
            self.write(name, memory, (), value, "", form)
        elif self.block is not self.bodies[-1] or self.counts.get(fold(name.name), 0) > 1:
            memory = self.cell(name, value)
            self.frame.scopes[-1][name.name] = memory
            if self.block is not self.bodies[-1]:
                self.bodies[-1].extend(self.zeros(memory))
            self.write(name, memory, (), value, "", form)
        else:
            self.declare(name, value, mutable=False)

    def zeros(self, memory: Memory) -> tuple[Stmt, ...]:
        """Statements that fill memory with zeros."""
        axes = [self.fresh(f"{memory.name}_{k}") for k in range(len(memory.shape))]
        dtype = self.kinds.dtype(memory.key)
        zero = FALSE if dtype is bool_ else scalars.retype(Scalar(ZERO, "int"), dtype)
        body: tuple[Stmt, ...] = (Store(memory.name, tuple(var(a) for a in axes), zero),)
        for a, extent in reversed(list(zip(axes, memory.shape, strict=True))):
            body = (Loop(a, ZERO, extent, body),)
        return body

    def variable(self, name: Symbol, value: Scalar | Rows) -> Memory | None:
        """The visible variable of this name that takes such a value; None where there is none.  E0610 for what is no variable."""
        found = self.frame.resolve(name.name, name.place)
        if found is None or found.space != "local":
            memory = self.output(name)
            return memory if memory is None else self.fits(memory, name, value)
        old = found.value
        if isinstance(old, Plain):
            if old.loop:
                raise error("E0610", f"the loop variable `{found.key}` cannot be assigned", name.place)
            return None
        if old is BROKEN:
            raise Silenced
        memory = self.memory(found) if isinstance(old, Tensor) else old
        if not isinstance(memory, Memory):
            raise error("E0610", f"`{found.key}` is no variable", name.place)
        return self.fits(memory, name, value)

    def output_notes(self, name: Symbol, memory: Memory) -> tuple[str, ...]:
        return taken_for_output(self.frame, name.name, len(memory.shape)) if memory.key in self.outside else ()

    def fits(self, memory: Memory, name: Symbol, value: Scalar | Rows) -> Memory:
        """The memory where the value has as many axes; E0607 for a number that would be a whole tensor, E0313."""
        if isinstance(value, Rows) and value.tensor.rank != len(memory.shape):
            said = f"`{name.name}` has rank {len(memory.shape)}, its new value rank {value.tensor.rank}"
            raise error("E0313", said, name.place, *self.output_notes(name, memory))
        if memory.shape and not isinstance(value, Rows):
            raise error(
                "E0607",
                f"`{name.name}` is a whole tensor; inside a loop its elements are assigned",
                name.place,
                *(self.output_notes(name, memory) or (f"help: (setf (aref {name.name} {' '.join('ijklmnpq'[: len(memory.shape)])}) …)",)),
            )
        return memory

    def write(self, name: Form, memory: Memory, at: tuple[Expr, ...], value: Scalar | Rows, combiner: str, form: List | None = None) -> None:
        """Store into memory, in its dtype; a weak one takes the value's.  Rows go to the elements that the indices leave, and so does a number."""
        to = self.agreed(name, memory, value.kind if isinstance(value, Rows) else value, combiner, form)
        if isinstance(value, Rows):
            from .loop_tensors import store

            notes = self.output_notes(name, memory) if isinstance(name, Symbol) else ()
            store(value, memory, at, combiner, form or self.form, *notes)
        else:
            self.block.append(Store(memory.name, at, scalars.retype(value, to), combiner, (form or self.form).place.span))
        if memory.key in self.outside and isinstance(name, Symbol):
            self.written.setdefault(memory.name, (memory, name))

    def agreed(self, name: Form, memory: Memory, value: Scalar, combiner: str, form: List | None) -> DType:
        """The dtype in which the value is stored; E0301, E0303."""
        self.kinds.meet(memory.key, value)
        to = self.kinds.dtype(memory.key)
        if not value.weak and value.expr.dtype is not to:
            raise error(
                "E0301",
                f"`{shorten(name.source_text)}` is {to}, its new value {value.expr.dtype}",
                (form or self.form).place,
                "help: (real …), (imag …) or (abs …)" if value.expr.dtype.is_complex else f"help: (cast {to} …)",
            )
        if combiner in ("max", "min") and to.is_complex:
            place = (form or self.form).place
            raise error(
                "E0303", f"`{shorten(name.source_text)}` is c64, and complex numbers have no order", place, "help: compare (abs z) or (real z)"
            )
        if combiner and to.kind == "bool":
            raise error("E0303", f"`{shorten(name.source_text)}` is bool and cannot be accumulated", (form or self.form).place)
        return to
