"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple


class Rule(NamedTuple):
    name: str
    meaning: str  # one line: what holds in valid IR
    findings: Callable[[Any], Iterable[str]]  # what breaks it, in order


def repeated(names: Iterable[str]) -> Iterator[str]:
    """Every name that stood before."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield name
        seen.add(name)
