"""Immutable records: what statements are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

C = TypeVar("C", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: C) -> C:
    """A frozen dataclass with slots, equal by value.  That nothing assigns to its fields is held by the type checker alone: a frozen dataclass that checks it
    while the program runs takes four times as long to make, and passes make little else."""
    cls.__doc__ = cls.__doc__ or cls.__name__  # else it is made of the signature, which takes as long as the rest
    return dataclass(slots=True, unsafe_hash=True)(cls)
