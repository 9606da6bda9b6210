"""Statements run with every operation off by a random amount of the size that rounding may have: stochastic arithmetic.

The idea is that of CESTAC (Vignes 1974) and of Monte Carlo arithmetic (Parker 1997, Denis et al. 2016).  Values are kept in the working form of `meaning`; after an operation
whose row admits `ulp`, its result v becomes

    v + ξ·2·ulp·(ε·|v| + smallest subnormal),    ξ uniform in [-1, 1) (both parts of it, for complex numbers)

unless the dtype holds v exactly and the row is correctly rounded, so that small integers stay what they are; beyond the dtype's range it becomes infinite.  That is twice
the error that the operation may have, at most: its standard deviation is at least twice that of rounding to nearest.

Where no float decides anything (`steady`), all samples take the same way, and run together: each element is then an array over the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import kernel as k
from ..dtypes import DType, numpy_dtype
from ..expr import Expr
from ..primops import COMBINERS, OPS
from ..walks import postorder
from .bounds import epsilon, overflow, smallest
from .complex_bounds import ulp as complex_ulp
from .kernel import KernelTranslator

EXCESS = 2  # times an operation's own error
_BLOCK = 4096  # random numbers drawn at once
_COMPLEX_ROUNDED = 2  # ULP below which a complex operation has no error where its result is representable


def own_ulp(op: str, source: DType, to: DType) -> float:
    """What one operation may be off by, 0 where it does not round."""
    if not to.is_inexact:
        return 0.0
    return complex_ulp(op) if source.is_complex or to.is_complex else OPS[op].ulp


def _operations(body: k.Block, dtypes: dict[str, DType]) -> Iterator[tuple[str, DType, DType]]:
    """Operator, dtype of its operand, dtype of its result."""
    known = dict(dtypes)
    for s in k.statements(body):
        if isinstance(s, k.Alloc):
            known[s.buffer.name] = s.buffer.dtype
        if isinstance(s, k.Store) and s.combiner:
            yield COMBINERS[s.combiner].op, known[s.buffer], known[s.buffer]
        for root in s.expressions():
            for n in postorder(root):
                if n.op in OPS:
                    yield n.op, _source(n), n.dtype


def _source(n: Expr) -> DType:
    """The dtype of what an operator reads: of a selection, what it selects from."""
    return n.args[1 if n.op == "where" else 0].dtype


def rounds(body: k.Block, dtypes: dict[str, DType]) -> bool:
    """Whether any operation may round; what is checked is no value."""
    values = k.map_block(body, lambda s: () if isinstance(s, k.Check) else None)
    return any(own_ulp(*found) for found in _operations(values, dtypes))


def steady(body: k.Block, dtypes: dict[str, DType]) -> bool:
    """Whether no float becomes a truth value, an integer or an index, so that the way through the statements does not depend on roundings.

    Arrays that live within an iteration are left to a sample at a time."""
    if any(isinstance(s, k.Alloc) and s.buffer.shape for s in k.statements(body)):
        return False
    return not any(source.is_inexact and not to.is_inexact for _, source, to in _operations(body, dtypes))


class Perturbed(KernelTranslator):
    """One sample a run, drawn from `random`; with `lanes` that many samples, for statements that are `steady`: arrays then have one more axis, of that extent."""

    def __init__(self, dtypes: dict[str, DType], random: np.random.Generator, lanes: int = 0) -> None:
        super().__init__(dtypes, True, False)
        self.lanes = lanes
        self.uniform = _rows(random, lanes) if lanes else _numbers(random)
        if lanes:
            self.globals.update(fmax=np.maximum, fmin=np.minimum)

    def settled(self, op: str, source: DType, to: DType, text: str) -> str:
        ulp = own_ulp(op, source, to)
        if not ulp:
            return text
        key = ("noise", ulp, to)
        if key not in self.functions:
            self.functions[key] = self.constant((vector_noise if self.lanes else noise)(ulp, to, self.uniform))
        return f"{self.functions[key]}({text})"

    def load(self, node: Expr, index: list[str]) -> str:
        text = super().load(node, index)
        if not self.lanes or not node.dtype.is_inexact or node.attr in self.cells:
            return text
        return f"{text}.copy()"  # of what a later store replaces


def _numbers(random: np.random.Generator) -> Callable[[], float]:
    """Uniform in [-1, 1)."""

    def numbers() -> Iterator[float]:
        while True:
            yield from random.uniform(-1, 1, _BLOCK).tolist()

    return numbers().__next__


def _rows(random: np.random.Generator, lanes: int) -> Callable[[], Any]:
    def rows() -> Iterator[Any]:
        while True:
            yield from random.uniform(-1, 1, (_BLOCK, lanes))

    return rows().__next__


def noise(ulp: float, d: DType, uniform: Callable[[], float]) -> Callable[[Any], Any]:
    """A function of working scalars: v, moved as the head of this file says."""
    exact = numpy_dtype(d).type
    relative, absolute = EXCESS * ulp * epsilon(d), EXCESS * ulp * float(smallest(d))
    beyond = overflow(d)
    fits = ulp < _COMPLEX_ROUNDED if d.is_complex else ulp <= 0.5
    direction = (lambda: complex(uniform(), uniform())) if d.is_complex else uniform

    def moved(v: Any) -> Any:
        if (fits and exact(v) == v) or v != v:
            return v
        result = v + direction() * (relative * abs(v) + absolute)
        return result if abs(result) < beyond else type(v)(exact(result))

    return moved


def vector_noise(ulp: float, d: DType, uniform: Callable[[], Any]) -> Callable[[Any], Any]:
    """The same of arrays over the samples, or of a scalar that all of them share."""
    exact = numpy_dtype(d)
    relative, absolute = EXCESS * ulp * epsilon(d), EXCESS * ulp * float(smallest(d))
    beyond = float(overflow(d)) / 2  # nearer to the edge it is looked at more closely
    fits = ulp < _COMPLEX_ROUNDED if d.is_complex else ulp <= 0.5

    def moved(v: Any) -> Any:
        direction = uniform() + 1j * uniform() if d.is_complex else uniform()
        size = np.abs(v)
        result = v + direction * (relative * size + absolute)
        if fits:
            inside = v.astype(exact) == v
            if inside.any():
                result = np.where(inside, v, result)
        if not size.max() < beyond:
            rounded = result.astype(exact).astype(v.dtype)
            result = np.where(np.isfinite(rounded), result, rounded)
        return result

    return moved


__all__ = ["EXCESS", "Perturbed", "rounds", "steady"]
