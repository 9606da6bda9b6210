"""Names of a function: identifiers for axes such as `i.0`, and no two alike in one function."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """Hands out names; one that is taken gets the first free number behind it."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def fresh(self, wish: str) -> str:
        """`i.0` becomes `i_0`; a second one `i_0_2`."""
        stem = name = wish.replace(".", "_")
        number = 1
        while name in self._taken:
            number += 1
            name = f"{stem}_{number}"
        self._taken.add(name)
        return name
