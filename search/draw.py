"""Inputs for a test run: drawn from a seed, by what each port is for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from zlib import crc32

from ..ir.dtypes import numpy_dtype
from ..ir.errors import UsageError
from ..ir.evaluate import evaluate
from ..ir.graph import Port
from ..ir.layout import allocate, layout
from ..ir.record import replace

if TYPE_CHECKING:
    import numpy


def draw(port: Port, sizes: Mapping[str, int], seed: int) -> Any:
    """A value for an input port: an array in the port's layout, or a Python number for a scalar port.

    The stream depends on the seed and the port's name only, so one port's values do not move when another port is added.
    """
    import numpy

    rng = numpy.random.default_rng([seed, crc32(port.name.encode())])
    shape = layout(port, sizes)[0]
    values = _values(port, shape, sizes, rng)
    if port.role == "scalar":
        return values.astype(numpy_dtype(port.dtype)).reshape(()).item()
    array = allocate(port, sizes)
    with numpy.errstate(over="ignore"):
        array[...] = values.astype(numpy_dtype(port.dtype))
    return array


def _values(port: Port, shape: tuple[int, ...], sizes: Mapping[str, int], rng: numpy.random.Generator) -> numpy.ndarray:
    import numpy

    kind, _, rest = port.draw.partition(" ")
    if port.index_limit is not None or kind == "index":
        limit = evaluate(port.index_limit, sizes) if port.index_limit is not None else sizes.get(rest.strip(), 0)
        limit = int(min(max(limit, 1), port.dtype.max + 1))
        values = rng.integers(0, limit, shape)
        return _rising(values, int(rest), limit) if kind == "rising" else values
    if port.dtype.kind == "bool":
        return rng.integers(0, 2, shape)
    if port.dtype.is_complex and kind != "one":
        return _complex_values(port, shape, sizes, rng)
    if kind == "one":  # "one of 1, 2, 3"
        choices = [
            v
            for v in _listed(port, rest.partition(" ")[2])
            if not port.dtype.is_integer or (v.is_integer() and port.dtype.min <= v <= port.dtype.max)
        ]
        if not choices:
            raise UsageError(f"port {port.name}: no value of {port.draw!r} is a {port.dtype}")
        return rng.choice(numpy.array(choices), shape)
    if port.dtype.is_integer:
        low, high = (0, 20) if port.dtype.kind == "uint" or kind == "positive" else (-10, 11)
        return rng.integers(low, high, shape)
    if kind == "normal":
        return rng.standard_normal(shape)
    if kind == "uniform":
        return rng.random(shape)
    if kind == "positive":
        return rng.random(shape) + 0.1
    if kind == "spd" and (len(shape) < 2 or shape[-1] != shape[-2]):
        raise UsageError(f"port {port.name}: only square matrices are drawn as spd, and its shape is {list(shape)}")
    if kind == "spd":
        square = rng.standard_normal(shape)
        n = shape[-1]
        return square @ square.swapaxes(-1, -2) / max(n, 1) + numpy.eye(n)
    raise UsageError(f"port {port.name}: no way to draw inputs is called {port.draw!r}; there are normal, uniform, positive, spd, index V, one of …")


def _rising(values: numpy.ndarray, axis: int, limit: int) -> numpy.ndarray:
    """In order along an axis, from 0 to limit - 1, as bounds that share out `limit - 1` elements are."""
    import numpy

    values = numpy.sort(values, axis)
    ends = numpy.moveaxis(values, axis, 0)
    if len(ends):
        ends[-1] = limit - 1
        ends[0] = 0
    return values


def _listed(port: Port, text: str) -> list[float]:
    """Numbers with commas or spaces between them."""
    try:
        return [float(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise UsageError(f"port {port.name}: {port.draw!r} names something that is no number") from None


def _complex_values(port: Port, shape: tuple[int, ...], sizes: Mapping[str, int], rng: numpy.random.Generator) -> numpy.ndarray:
    """Both parts drawn alike; `spd` is Hermitian."""
    import numpy

    real = replace(port, dtype=port.dtype.part)
    if port.draw == "spd" and len(shape) >= 2 and shape[-1] == shape[-2]:
        square = _complex_values(replace(port, draw="normal"), shape, sizes, rng)
        n = shape[-1]
        return square @ square.conj().swapaxes(-1, -2) / max(n, 1) + numpy.eye(n)
    return _values(real, shape, sizes, rng) + 1j * _values(real, shape, sizes, rng)
