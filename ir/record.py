"""Immutable records, which nearly everything is that passes hand on; and what changes while work is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache, cached_property
from operator import attrgetter
from types import CodeType, FunctionType
from typing import Any, TypeVar, dataclass_transform

from .statement import replace as replace

C = TypeVar("C", bound=type)

_fields: dict[type, dict[str, Field[Any]]] = {}  # of each record, by name, those of its bases first


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: C) -> C:
    """A frozen dataclass with slots, equal by value.  That nothing assigns to its fields is held by the type checker alone: a frozen dataclass that checks it
    while the program runs takes four times as long to make, and passes make little else.

    Making a class is most of what importing a module takes, and the command imports hundreds: so what makes a record is made with the first one, how two are compared when the first two are, and
    what `dataclasses` wants to know of it when somebody asks.
    """
    inherited = _inherited(cls)
    body = dict(cls.__dict__)
    own = _own(body)
    all_fields = inherited | own
    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    remembers = any(isinstance(value, cached_property) for value in body.values())
    body["__slots__"] = (*(name for name in own if name not in inherited), *(("__dict__",) if remembers else ()))
    body["__match_args__"] = tuple(name for name, f in all_fields.items() if f.init)
    body["__dataclass_fields__"] = _Told(cls, all_fields)
    own_class: list[type] = []
    methods = {name: _later(name, own_class) for name in ("__init__", "__eq__", "__hash__")}
    made: Any = type(cls)(cls.__name__, cls.__bases__, {"__repr__": _shown, **methods, **body})
    own_class.append(made)
    made.__qualname__ = cls.__qualname__
    _fields[made] = all_fields
    return made


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def changing(cls: C) -> C:
    """A dataclass whose fields may be set, equal to itself alone.  The class stays the one that it is, and its `__init__` is made with the first of them, as that of a record is."""
    body = dict(cls.__dict__)
    own = _own(body)
    made: Any = cls
    for name, f in own.items():
        if f.default is not MISSING:
            setattr(made, name, f.default)
        elif name in cls.__dict__:
            delattr(made, name)
    _fields[cls] = _inherited(cls) | own
    made.__match_args__ = tuple(name for name, f in _fields[cls].items() if f.init)
    made.__dataclass_fields__ = _Told(cls, _fields[cls])
    made.__init__ = _later("__init__", [cls])
    if "__repr__" not in body:
        made.__repr__ = _shown
    return cls


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def individual(cls: C) -> C:
    """A frozen dataclass that is equal to itself alone, made as `changing` makes it; the type checker alone holds that nothing assigns to its fields."""
    return changing(cls)


def _inherited(cls: type) -> dict[str, Field[Any]]:
    return {name: f for base in reversed(cls.__mro__) if base in _fields for name, f in _fields[base].items()}


def _own(body: dict[str, Any]) -> dict[str, Field[Any]]:
    """The fields that the body of a class names; what they are given there is taken out of it."""
    own: dict[str, Field[Any]] = {}
    for name, type_ in body.get("__annotations__", {}).items():
        given = body.pop(name, MISSING)
        own[name] = given if isinstance(given, Field) else field(default=given)
        own[name].type = type_
    return own


class _Told:
    """What `dataclasses` knows of a class, found out when it is asked for."""

    def __init__(self, cls: type, all_fields: dict[str, Field[Any]]) -> None:
        self.cls, self.fields = cls, all_fields
        self.found: dict[str, Field[Any]] | None = None

    def __get__(self, made: object, cls: type) -> dict[str, Field[Any]]:
        found = self.found
        if found is None:
            types = {name: f.type for name, f in self.fields.items()}
            body = {"__annotations__": types, "__module__": self.cls.__module__, "__doc__": self.cls.__name__, **self.fields}
            twin: Any = dataclass(init=False, repr=False, eq=False)(type(self.cls.__name__, (), body))
            found = self.found = dict(twin.__dataclass_fields__)
        return found


def _maker(cls: type) -> Callable[..., None]:
    """`__init__`: what no caller gives (`init=False`) stands behind all others, with its default."""
    fields_of = _fields[cls]
    names = [name for name, f in fields_of.items() if f.init] + [name for name, f in fields_of.items() if not f.init and _is_made(f)]
    defaults = tuple([fields_of[name].default for name in names if _is_made(fields_of[name])])
    factories = [(name, f.default_factory) for name, f in fields_of.items() if f.default_factory is not MISSING]  # a value of its own for each record
    made = hasattr(cls, "__post_init__")
    parameters = ", ".join(["self", *(f"field_{k}" for k in range(len(names)))])
    body = [f"self.field_{k} = field_{k}" for k in range(len(names))]
    if not factories and not made:
        return _method(f"def __init__({parameters}):\n    {'; '.join(body) or 'pass'}", names, {}, defaults)

    def finish(self: Any) -> None:
        for name, factory in factories:
            if getattr(self, name) is MISSING:
                setattr(self, name, factory())
        if made:
            self.__post_init__()

    return _method(f"def __init__({parameters}):\n    {'; '.join([*body, 'finish(self)'])}", names, {"finish": finish}, defaults)


def _is_made(f: Field[Any]) -> bool:
    """Whether a field has a value where none is given."""
    return f.default is not MISSING or f.default_factory is not MISSING


def _later(name: str, own_class: list[type]) -> Callable[..., Any]:
    """The method that puts itself into its class, which is all that the list will hold, when it is first called; another thread may be doing the same."""

    def method(self: Any, *others: Any, **named: Any) -> Any:
        (cls,) = own_class
        made = _maker(cls) if name == "__init__" else _equal(cls) if name == "__eq__" else _hashed(cls)
        setattr(cls, name, made)
        return made(self, *others, **named)

    return method


def _equal(cls: type) -> Callable[[Any, Any], Any]:
    values = _values([name for name, f in _fields[cls].items() if f.compare])
    return lambda self, other: values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented


def _hashed(cls: type) -> Callable[[Any], int]:
    values = _values([name for name, f in _fields[cls].items() if (f.compare if f.hash is None else f.hash)])
    return lambda self: hash(values(self))


def _values(names: list[str]) -> Callable[[Any], Any]:
    """What tells one record of a class from another, as a tuple."""
    return attrgetter(*names) if len(names) > 1 else lambda self: tuple([getattr(self, name) for name in names])


def _method(text: str, names: list[str], scope: dict[str, Any], defaults: tuple[Any, ...]) -> Callable[..., Any]:
    """The function that a text defines, its `field_0`, `field_1`, … by these names.  Python reads each text once: a record has as many fields as many others have."""
    code = _read(text)

    def named(found: tuple[str, ...]) -> tuple[str, ...]:
        return tuple([names[int(n[6:])] if n.startswith("field_") else n for n in found])

    return FunctionType(code.replace(co_names=named(code.co_names), co_varnames=named(code.co_varnames)), scope, code.co_name, defaults)


@cache
def _read(text: str) -> CodeType:
    made: dict[str, Any] = {}
    exec(text, {}, made)  # of numbers of fields alone
    return next(iter(made.values())).__code__


def _shown(self: Any) -> str:
    return f"{type(self).__qualname__}({', '.join([f'{f.name}={getattr(self, f.name)!r}' for f in fields(self) if f.repr])})"
