"""What the inputs of a case hold: drawn by what each port is for, or the values at which arithmetic is special.

Everything is a function of the seed: the same case has the same inputs on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from zlib import crc32

from ...ir.dtypes import DType, numpy_dtype
from ...ir.graph import Graph, Port
from ...ir.layout import allocate, layout
from ...ir.primops import OPS
from ..draw import draw

if TYPE_CHECKING:
    import numpy

DRAWN, SPECIAL = "drawn", "special"
LARGE_COSINE_0 = (
    2.8754415e38  # of the last binade of f32 (2x is infinite), the cosine near 0: a reduction of the operand that is not exact shows here
)
_POINTWISE = frozenset(OPS) | {"input", "const", "iota", "contiguous"}


def is_elementwise(graph: Graph) -> bool:
    """Whether every output point is made of one point of each input: errors are then counted in ULP."""
    return all(n.op in _POINTWISE for n in graph.nodes())


def takes_special(graph: Graph) -> bool:
    return is_elementwise(graph) and any(_free(p) for p in graph.ports)


def special_size(graph: Graph) -> int:
    """Points at which every combination of special values of the first two ports that take them stands beside random bits."""
    counts = [len(special_values(p.dtype)) for p in graph.ports if _free(p)][:2]
    size = counts[0] * (counts[1] if len(counts) > 1 else 1)
    return size + 301


def inputs(graph: Graph, sizes: Mapping[str, int], values: str, seed: int) -> dict[str, Any]:
    """An array in its layout for every port that is read, a number for every scalar."""
    found = {p.name: draw(p, sizes, seed) for p in graph.ports if p.role != "out"}
    if values == SPECIAL:
        stride = 1
        for p in graph.ports:
            if _free(p):
                found[p.name], stride = _special(p, sizes, seed, stride)
    return found


def _free(port: Port) -> bool:
    """Whether a test may put anything there."""
    return port.role in ("in", "inout") and port.draw == "normal" and port.index_limit is None and port.dtype.kind != "complex"


def _special(port: Port, sizes: Mapping[str, int], seed: int, stride: int) -> tuple[Any, int]:
    """The special values, each for `stride` points, again and again; behind one round of all combinations random bits, then numbers of all magnitudes."""
    import numpy

    shape = layout(port, sizes)[0]
    count = int(numpy.prod(shape))
    fixed = special_values(port.dtype)
    rng = numpy.random.default_rng([seed, crc32(port.name.encode()), 1])
    flat = fixed[(numpy.arange(count) // stride) % len(fixed)].copy()
    rounds = max(len(fixed) * stride, min(count, len(fixed) ** 2))
    rest = max(0, count - rounds)
    flat[rounds:] = _anything(port.dtype, rest, rng)
    array = allocate(port, sizes)
    array[...] = flat.reshape(shape)
    return array, stride * len(fixed)


def special_values(d: DType) -> numpy.ndarray:
    """Where an operator on this dtype may behave differently from its neighbourhood."""
    import numpy

    kind = numpy_dtype(d)
    if d.kind == "bool":
        return numpy.array([False, True])
    if d.is_float:
        import ml_dtypes

        info = ml_dtypes.finfo(kind)
        tiny = float(info.smallest_subnormal)
        listed = [
            0.0,
            -0.0,
            float("nan"),
            1.0,
            -1.0,
            0.5,
            -0.5,
            1.5,
            2.0,
            -2.5,
            3.0,
            90.0,
            -110.0,
            float(info.max),
            float(info.min),
            float(info.tiny),
            tiny,
            -tiny,
        ]
        if float(info.max) > LARGE_COSINE_0:
            listed.append(LARGE_COSINE_0)
        if kind.name != "float8_e4m3fn":
            listed += [float("inf"), float("-inf")]
        with numpy.errstate(over="ignore"):
            return numpy.array(listed).astype(kind)
    listed_integers = [0, 1, 2, 3, 7, d.bits - 1, d.bits, int(d.max), int(d.max) - 1, int(d.min)]
    if d.kind == "int":
        listed_integers += [-1, -2, -3, -7, int(d.min) + 1]
    return numpy.array([v for v in listed_integers if v <= d.max], dtype=object).astype(kind)


def _anything(d: DType, count: int, rng: numpy.random.Generator) -> numpy.ndarray:
    import numpy

    kind = numpy_dtype(d)
    if d.kind == "bool":
        return rng.integers(0, 2, count).astype(bool)
    bits = rng.integers(0, 256, count * d.bytes, dtype=numpy.uint8).view(kind)
    if not d.is_float:
        return bits
    with numpy.errstate(over="ignore"):
        scaled = (rng.standard_normal(count) * numpy.exp2(rng.integers(-8, 8, count))).astype(kind)
    return numpy.where(rng.random(count) < 0.5, bits, scaled)
