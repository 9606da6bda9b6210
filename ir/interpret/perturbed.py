"""Statements run with every operation off by a random amount of the size that rounding may have: stochastic arithmetic.

The idea is that of CESTAC (Vignes 1974) and of Monte Carlo arithmetic (Parker 1997, Denis et al. 2016).  Values are kept in the working form of `meaning`; after an operation
whose row admits `ulp`, its result v becomes

    v + ξ·2·ulp·(ε·|v| + smallest subnormal),    ξ uniform in [-1, 1) (in the square, for complex numbers)

unless the dtype holds v exactly and the row is correctly rounded, so that small integers stay what they are; beyond the dtype's range it becomes infinite.  That is twice
the error that the operation may have, at most: its standard deviation is at least twice that of rounding to nearest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dtypes import DType, numpy_dtype
from ..primops import OPS
from .bounds import epsilon, overflow, smallest
from .complex_bounds import ulp as complex_ulp
from .kernel import KernelTranslator

EXCESS = 2  # times an operation's own error


class Perturbed(KernelTranslator):
    """`uniform()` draws from [0, 1).  After translation `rounds` says whether there was any operation that may round."""

    def __init__(self, dtypes: dict[str, DType], uniform: Callable[[], float]) -> None:
        super().__init__(dtypes, True, False)
        self.uniform = uniform
        self.rounds = False

    def settled(self, op: str, source: DType, to: DType, text: str) -> str:
        ulp = complex_ulp(op) if source.is_complex or to.is_complex else OPS[op].ulp
        if not ulp or not to.is_inexact:
            return text
        self.rounds = True
        key = ("noise", ulp, to)
        if key not in self.functions:
            self.functions[key] = self.constant(noise(ulp, to, self.uniform))
        return f"{self.functions[key]}({text})"


def noise(ulp: float, d: DType, uniform: Callable[[], float]) -> Callable[[Any], Any]:
    """A function of working scalars: v, moved as the head of this file says."""
    kind = numpy_dtype(d)
    exact = kind.type
    relative, absolute = 2 * EXCESS * ulp * epsilon(d), 2 * EXCESS * ulp * float(smallest(d))
    beyond = overflow(d)

    def real(v: Any) -> Any:
        if ulp <= 0.5 and exact(v) == v or v != v:
            return v
        moved = v + (uniform() - 0.5) * (relative * abs(v) + absolute)
        return moved if abs(moved) < beyond else type(v)(exact(moved))

    def pair(v: Any) -> Any:
        if ulp < 2 and exact(v) == v or v != v:
            return v
        moved = v + complex(uniform() - 0.5, uniform() - 0.5) * (relative * abs(v) + absolute)
        return moved if abs(moved) < beyond else type(v)(exact(moved))

    return pair if d.is_complex else real


__all__ = ["EXCESS", "Perturbed", "noise"]
