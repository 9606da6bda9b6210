"""Between a composite and who uses it: shapes of its ports, type variables, parameters, and its outputs.

The composite that is compiled has free sizes (`entry_ports`); in a call the sizes follow from the tensors given (`Unifier`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from ..ir.dtypes import DType, dtype, f32, i64
from ..ir.expr import Expr, const, floordiv, mod, size
from ..ir.graph import Shape
from ..ir.polynomial import expr, is_constant, linear, plus, poly, scaled
from ..ir.record import changing
from ..ir.tensor import BuildError, Tensor
from .ast import Composite, Parameter, PortDecl, TypeName
from .diagnostics import nearest, shorten
from .document import parameter_value
from .frame import Frame
from .names import fold, unique
from .session import Session
from .sexpr import Form, Symbol
from .sizes import check_elements, check_extent, evaluate, symbols
from .source import Place, error


def type_of(name: TypeName, dtypes: Mapping[str, DType]) -> DType:
    """The dtype of a port; a type variable that nothing binds is f32."""
    return name.dtype or dtypes.get(name.name, f32)


def parameters_of(composite: Composite, given: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """name → value for every parameter: what is given, else the default.  E0502 for an unknown one, E0504 for a missing one, E0120 for a wrong one."""
    values: dict[str, Any] = {}
    known = {p.name: p for p in composite.parameters}
    for name in given:
        if unique(name, known, place) is None:
            raise error("E0502", f"`{composite.name}` has no parameter `{shorten(name)}`", place, *nearest(name, known))
    for p in composite.parameters:
        key = next((k for k in given if unique(k, [p.name], place)), None)
        if key is not None:
            values[p.name] = given[key] if isinstance(given[key], DType) else _brought(p, parameter_value(p.type, given[key], place, p.name), place)
        elif p.required:
            raise error(
                "E0504", f"the parameter `{p.name}` of `{composite.name}` has no value", place, f"help: it is of type {p.type} and has no default"
            )
        else:
            values[p.name] = _brought(p, p.default, p.place)
    return values


def _brought(p: Parameter, value: Any, place: Place) -> Any:
    if p.type != "dtype":
        return value
    found = dtype(value)
    if found is None:
        raise error("E0114", f"unknown type `{shorten(str(value))}`", place)
    return found


def is_broadcast(sizes: Sequence[Form]) -> bool:
    """The port starts with `~`."""
    return bool(sizes) and isinstance(sizes[0], Symbol) and sizes[0].name == "~"


def size_lookup(frame: Frame) -> Any:
    """The names in size expressions: sizes, then integer parameters."""

    def lookup(s: Symbol) -> Expr:
        key = unique(s.name, frame.sizes, s.place)
        if key is not None:
            return frame.sizes[key]
        value = frame.parameters.get(s.name)
        if isinstance(value, int) and not isinstance(value, bool):
            return const(value)
        raise error("E0208", f"unknown size `{shorten(s.name)}`", s.place, *nearest(s.name, frame.sizes))

    return lookup


def port_shape(port: PortDecl, frame: Frame, leading: Shape) -> Shape:
    """The shape of a port whose sizes are all known."""
    extents: list[Expr] = []
    for form in port.sizes or ():
        if isinstance(form, Symbol) and form.name == "~":
            extents.extend(leading)
        else:
            extents.append(check_extent(evaluate(form, size_lookup(frame)), form.place))
    check_elements(extents, port.place)
    return tuple(extents)


@changing
class Unifier:
    """Matches tensors with the ports of a callee: binds its sizes and type variables, and reports what does not fit at the place of the operand."""

    session: Session
    frame: Frame
    leading: list[Shape] = field(default_factory=list)  # what `~` stands for at each port that has one
    _later: list[tuple[PortDecl, Form, Expr, Place]] = field(default_factory=list)
    _origin: dict[str, str] = field(default_factory=dict)  # size → the port that bound it

    def types(self, ports: Sequence[tuple[PortDecl, Tensor, Place]]) -> None:
        """Bind the type variables: a tensor's dtype where one is given, else what plain numbers are alone."""
        plain: dict[str, str] = {}
        for port, x, place in ports:
            name = port.type
            if name is None or name.dtype is not None:
                continue
            if x.weak:
                plain[name.name] = "float" if "float" in (x.weak, plain.get(name.name)) else "int"
                continue
            bound = self.frame.dtypes.setdefault(name.name, x.dtype)
            if bound is not x.dtype:
                raise error(
                    "E0301",
                    f"`{port.name}` of `{self.frame.composite.name}` is {{{name.name}}} = {bound}, found {x.dtype}",
                    place,
                    f"help: (cast {bound} …)",
                )
        for name, weak in plain.items():
            self.frame.dtypes.setdefault(name, f32 if weak == "float" else i64)

    def port(self, port: PortDecl, x: Tensor, place: Place) -> Tensor:
        """The tensor as the port sees it: in its dtype (plain numbers are converted), its shape matched with the sizes."""
        assert port.type is not None and port.sizes is not None
        wanted = type_of(port.type, self.frame.dtypes)
        callee = self.frame.composite.name
        if x.weak:
            try:
                x = self.session.builder.retype(x, wanted)
            except BuildError as e:
                raise error(e.code, e.message, place, *e.notes) from None
        if x.dtype is not wanted:
            raise error("E0301", f"`{port.name}` of `{callee}` is {wanted}, found {x.dtype}", place, f"help: (cast {wanted} …)")
        self.shape(port, x.shape, place)
        return x

    def shape(self, port: PortDecl, shape: Shape, place: Place) -> None:
        """Match a shape with the port's sizes."""
        sizes = port.sizes or ()
        if is_broadcast(sizes):
            sizes = sizes[1:]
            if len(shape) >= len(sizes):
                self.leading.append(shape[: len(shape) - len(sizes)])
                shape = shape[len(shape) - len(sizes) :]
        if len(shape) != len(sizes):
            least = "at least " if is_broadcast(port.sizes or ()) else ""
            raise error("E0313", f"{self._called(port)} has {least}{len(sizes)} ax{'i' if len(sizes) == 1 else 'e'}s, found {len(shape)}", place)
        for form, extent in zip(sizes, shape, strict=True):
            self._extent(port, form, extent, place)

    def _called(self, port: PortDecl) -> str:
        """The port in a message."""
        return f"the output `{port.name}`" if port.role == "out" else f"`{port.name}` of `{self.frame.composite.name}`"

    def _extent(self, port: PortDecl, form: Form, extent: Expr, place: Place) -> None:
        unknown = [s for s in symbols(form) if s.name not in self.frame.parameters and unique(s.name, self.frame.sizes, s.place) is None]
        if isinstance(form, Symbol) and unknown:
            self.frame.sizes[form.name] = extent
            self._origin[form.name] = port.name
        elif unknown:
            self._later.append((port, form, extent, place))
        else:
            self._check(port, form, extent, place)

    def _check(self, port: PortDecl, form: Form, extent: Expr, place: Place) -> None:
        wanted = evaluate(form, size_lookup(self.frame))
        if self.session.builder.same(wanted, extent):
            return
        origin = self._origin.get(form.name) if isinstance(form, Symbol) else None
        because = f" (from `{origin}`)" if origin and origin != port.name else ""
        text, value = shorten(form.source_text), show_size(wanted)
        label = text if text == value or origin else f"{text} = {value}"
        raise error(
            "E0311",
            f"{self._called(port)} has the extent {label}{because}, found {show_size(extent)}",
            place,
            "note: the two are not provably equal",
            *self.session.builder.where_equal(wanted, extent),
        )

    def solve(self) -> None:
        """Sizes that stand in expressions alone, as the N of `[(+ N 1)]`: where the extent is a sum with one of them in it, it is what makes that true."""
        waiting, self._later = self._later, []
        for port, form, extent, place in waiting:
            if not self._solved(port, form, extent, place):
                self._later.append((port, form, extent, place))

    def _solved(self, port: PortDecl, form: Form, extent: Expr, place: Place) -> bool:
        known = size_lookup(self.frame)
        unknown = [s for s in symbols(form) if s.name not in self.frame.parameters and unique(s.name, self.frame.sizes, s.place) is None]
        names = {fold(s.name) for s in unknown}
        if len(names) != 1:
            return False
        one = size(f"{unknown[0].name}?")  # no name of a user's
        parts = linear(poly(evaluate(form, lambda s: one if fold(s.name) in names else known(s))), one)
        if parts is None or not is_constant(parts[0]) or one.attr in expr(parts[1]).names:
            return False
        times, rest = parts[0][()], plus(poly(extent), parts[1], -1)
        whole = expr(rest if times > 0 else scaled(rest, -1))
        b = self.session.builder
        try:
            b.span = place.span
            for condition in (mod(whole, const(abs(times))).eq(0), const(0).le(whole)):
                b.require(condition, "E0311", f"{self._called(port)} has the extent {shorten(form.source_text)}, found {show_size(extent)}")
        except BuildError as e:
            raise error(e.code, e.message, place, *e.notes) from None
        self.frame.sizes[unknown[0].name] = floordiv(whole, const(abs(times)))
        self._origin[unknown[0].name] = port.name
        return True

    def finish(self) -> None:
        """Check the extents that are expressions of sizes, now that the sizes are known.  E0208 where one still is not."""
        self.solve()
        for port, form, extent, place in self._later:
            self._check(port, form, extent, place)

    def broadcast(self, place: Place) -> Shape:
        """What `~` stands for in an output: the ports' leading axes, broadcast."""
        try:
            return self.session.builder.broadcast_shape(*self.leading) if self.leading else ()
        except BuildError as e:
            raise error(e.code, e.message, place, *e.notes) from None


def show_size(extent: Expr) -> str:
    """A size expression for a message, as a user writes one."""
    from ..ir.tensor import show

    return show(extent)


def bind_output(frame: Frame, unifier: Unifier, port: PortDecl, x: Tensor, place: Place) -> Tensor:
    """The value of an output as its port says: dtype, shape, and the sizes that only outputs have, which it defines."""
    wanted = None if port.type is None else type_of(port.type, frame.dtypes)
    b = unifier.session.builder
    try:
        if x.weak:
            x = b.retype(x, wanted) if wanted is not None else b.strong(x)
    except BuildError as e:
        raise error(e.code, e.message, place, *e.notes) from None
    if wanted is not None and x.dtype is not wanted:
        raise error("E0301", f"the output `{port.name}` is {wanted}, its value {x.dtype}", place, f"help: (cast {wanted} …)")
    if port.sizes is not None:
        outer = unifier.broadcast(port.place)
        known = len(unifier.leading)
        unifier.shape(port, x.shape, place)
        if len(unifier.leading) > known:
            found = unifier.leading.pop()
            if known and not (len(found) == len(outer) and all(b.same(p, q) for p, q in zip(found, outer, strict=True))):
                raise error(
                    "E0310",
                    f"the leading axes of `{port.name}` are [{', '.join(map(show_size, found))}], those of the inputs [{', '.join(map(show_size, outer))}]",
                    place,
                )
        unifier.finish()
    return x
