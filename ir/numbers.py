"""What a caller may give for a scalar port, as the Python number that it stands for."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Complex, Real
from operator import index
from typing import Any

from .graph import Port


def number_for(port: Port) -> Callable[[Any], Any]:
    """A function that takes a Python or NumPy number, or an array without axes; TypeError where it is of another kind, ValueError where the dtype does not hold it."""
    name, d = port.name, port.dtype

    def refused(value: Any, what: str) -> TypeError:
        return TypeError(f"port {name}: expected {what}, found {type(value).__name__}")

    def whole(value: Any) -> int:
        try:
            found = index(value)
        except TypeError:
            raise refused(value, "an integer") from None
        if not least <= found <= most:
            raise ValueError(f"port {name}: {found} is no {d.name}")
        return found

    def real(value: Any) -> float:
        if type(value) is float:
            return value
        if not isinstance(value, Real) and getattr(value, "shape", None) != ():
            raise refused(value, "a number")
        try:
            return float(value)
        except (TypeError, ValueError):
            raise refused(value, "a number") from None
        except OverflowError:
            raise ValueError(f"port {name}: {value} is no {d.name}") from None

    def complex_(value: Any) -> complex:
        if not isinstance(value, Complex) and getattr(value, "shape", None) != ():
            raise refused(value, "a number")
        return complex(value)

    if port.dtype.is_complex or port.pairs:
        return complex_
    if d.kind == "bool":
        least, most = 0, 1
        return lambda value: bool(whole(value) if not hasattr(value, "item") else whole(value.item()))
    if d.is_integer:
        least, most = d.min, d.max
        return whole
    return real
