"""Immutable records: what statements are, and nearly everything else that passes hand on."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

C = TypeVar("C", bound=type)
R = TypeVar("R")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: C) -> C:
    """A frozen dataclass with slots, equal by value.  That nothing assigns to its fields is held by the type checker alone: a frozen dataclass that checks it
    while the program runs takes four times as long to make, and passes make little else.

    Its methods are made together: one by one, as `dataclass` makes them, they were a tenth of what the command takes to start.
    """
    cls.__doc__ = cls.__doc__ or cls.__name__  # else it is made of the signature, which takes as long as the rest
    cls = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    given = {name: method for name, method in _methods(cls).items() if name not in cls.__dict__}
    for name, method in given.items():
        setattr(cls, name, method)
    return cls


def _methods(cls: type) -> dict[str, Any]:
    scope: dict[str, Any] = {"MISSING": MISSING}
    parameters, body, compared, hashed = ["self"], [], "", ""
    for f in fields(cls):
        name, value = f.name, f.name
        if f.default is not MISSING:
            scope[f"of_{name}"] = f.default
            default = f"of_{name}"
        elif f.default_factory is not MISSING:
            scope[f"of_{name}"] = f.default_factory
            default, value = "MISSING", f"of_{name}() if {name} is MISSING else {name}"
        else:
            default = ""
        if f.init:
            parameters.append(f"{name}={default}" if default else name)
            body.append(f"self.{name} = {value}")
        elif default:
            body.append(f"self.{name} = of_{name}{'()' if default == 'MISSING' else ''}")
        compared += f"self.{name}, " if f.compare else ""
        hashed += f"self.{name}, " if (f.compare if f.hash is None else f.hash) else ""
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    text = f"""\
def __init__({", ".join(parameters)}):
    {"; ".join(body) or "pass"}
def __eq__(self, other):
    return ({compared}) == ({compared.replace("self.", "other.")}) if other.__class__ is self.__class__ else NotImplemented
def __hash__(self):
    return hash(({hashed}))
"""
    made: dict[str, Any] = {"__repr__": _shown}
    exec(text, scope, made)  # of the names of fields alone
    return made


def _shown(self: Any) -> str:
    return f"{type(self).__qualname__}({', '.join([f'{f.name}={getattr(self, f.name)!r}' for f in fields(self) if f.repr])})"


_given: dict[type, list[str]] = {}  # the fields that a record is made of


def replace(made: R, **changes: Any) -> R:
    """The record with some fields changed: `dataclasses.replace`, which looks at what each field is every time."""
    cls: Any = type(made)
    names = _given.get(cls)
    if names is None:
        names = _given[cls] = [f.name for f in fields(cls) if f.init]
    for name in names:
        if name not in changes:
            changes[name] = getattr(made, name)
    return cls(**changes)
