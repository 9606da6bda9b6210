"""Ports as arrays: logical shape, strides and extent in memory, for given sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from .dtypes import numpy_dtype
from .evaluate import evaluate
from .graph import Port
from .kernel import port_buffer
from .record import replace

if TYPE_CHECKING:
    import numpy


def layout(port: Port, sizes: Mapping[str, int]) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Shape and strides (in elements, complex ones too) by logical axis, and the number of elements from the first to one past the last."""
    buffer = port_buffer(replace(port, pairs=False))
    shape = tuple(evaluate(e, sizes) for e in buffer.shape)
    strides = tuple(evaluate(buffer.stride(k), sizes) for k in range(len(shape)))
    span = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    return shape, strides, span


def strides_of(ports: Iterable[Port]) -> list[str]:
    """The sizes that are leading strides of ports; where nobody says what they are, `dense` does."""
    return [n for p in ports for n in p.strided]


def dense(ports: Iterable[Port], sizes: Mapping[str, int], padding: int = 0) -> dict[str, int]:
    """The sizes with the leading strides that are not among them: of arrays without gaps, or with gaps of `padding` elements."""
    found = dict(sizes)
    for p in ports:
        buffer = port_buffer(replace(p, pairs=False))
        for place, name in reversed(list(enumerate(p.strided))):
            if name not in found:
                inner = p.memory_order[place + 1] if place + 1 < len(p.shape) else None
                least = 1 if inner is None else evaluate(p.shape[inner], found) * evaluate(buffer.stride(inner), found)
                found[name] = least + padding
    return found


def at(array: numpy.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether the elements of an array of this shape are where these strides (in elements) say."""
    return 0 in shape or all(n <= 1 or have == want * array.itemsize for n, have, want in zip(shape, array.strides, strides, strict=True))


def lies(port: Port, array: numpy.ndarray, sizes: Mapping[str, int]) -> bool:
    """Whether an array lies as a strided port may, its leading strides being among the sizes: the others without gaps, and no stride too short."""
    if any(sizes[name] < dense((port,), {n: v for n, v in sizes.items() if n != name})[name] for name in port.strided):
        return False
    return at(array, *layout(port, sizes)[:2])


def as_array(port: Port, sizes: Mapping[str, int], flat: numpy.ndarray) -> numpy.ndarray:
    """The logical view of a flat array of `span` elements."""
    shape, strides, _ = layout(port, sizes)
    return strided(flat, shape, strides)


def strided(array: numpy.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> numpy.ndarray:
    """The memory of `array` from its first element, read with this shape and these strides (in elements)."""
    from numpy.lib.stride_tricks import as_strided

    item = array.itemsize
    # as bits, because NumPy cannot do it with every type of ml_dtypes
    return as_strided(array.view(f"u{item}"), shape, tuple(s * item for s in strides)).view(array.dtype)


def components(array: numpy.ndarray) -> numpy.ndarray:
    """The memory of a complex array as real numbers, with a last axis of 2."""
    import numpy

    real = numpy.real(array)
    return numpy.lib.stride_tricks.as_strided(real, (*array.shape, 2), (*array.strides, real.itemsize))


def allocator(port: Port, sizes: Mapping[str, int], leading: tuple[int, ...] | None = None) -> Callable[[], numpy.ndarray]:
    """A function that makes arrays of the port's logical shape in the port's memory layout, their contents undefined; a row-major one may have other
    axes, with as many elements, in place of its first."""
    import numpy

    shape, strides, span = layout(port, sizes)
    element = numpy_dtype(port.dtype)
    if not port.strided and not port.order:
        return partial(numpy.empty, shape if leading is None else (*leading, *shape[1:]), element)
    return lambda: strided(numpy.zeros(max(span, 1), element), shape, strides)


def allocate(port: Port, sizes: Mapping[str, int]) -> numpy.ndarray:
    """One zeroed array of the port's logical shape in the port's memory layout."""
    array = allocator(port, sizes)()
    array[...] = 0
    return array
