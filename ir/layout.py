"""Ports as arrays: logical shape, strides and extent in memory, for given sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from .dtypes import numpy_dtype
from .expr import evaluate
from .graph import Port
from .kernel import port_buffer

if TYPE_CHECKING:
    import numpy


def layout(port: Port, sizes: Mapping[str, int]) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Shape and strides (in elements) by logical axis, and the number of elements from the first to one past the last."""
    buffer = port_buffer(port)
    shape = tuple(evaluate(e, sizes) for e in buffer.shape)
    strides = tuple(evaluate(buffer.stride(k), sizes) for k in range(len(shape)))
    span = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    return shape, strides, span


def as_array(port: Port, sizes: Mapping[str, int], flat: numpy.ndarray) -> numpy.ndarray:
    """The logical view of a flat array of `span` elements."""
    from numpy.lib.stride_tricks import as_strided

    shape, strides, _ = layout(port, sizes)
    item = flat.dtype.itemsize
    return as_strided(flat, shape, tuple(s * item for s in strides), writeable=True)


def allocator(port: Port, sizes: Mapping[str, int]) -> Callable[[], numpy.ndarray]:
    """A function that makes arrays of the port's logical shape in the port's memory layout, their contents undefined."""
    import numpy

    shape, strides, span = layout(port, sizes)
    element = numpy_dtype(port.dtype)
    if not port.strided and not port.order:
        return partial(numpy.empty, shape, element)
    item = element.itemsize
    steps = tuple(s * item for s in strides)
    return lambda: numpy.lib.stride_tricks.as_strided(numpy.zeros(max(span, 1), element), shape, steps)


def allocate(port: Port, sizes: Mapping[str, int]) -> numpy.ndarray:
    """One zeroed array of the port's logical shape in the port's memory layout."""
    array = allocator(port, sizes)()
    array[...] = 0
    return array
