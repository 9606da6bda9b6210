"""Quantisation of the library against NumPy; blocks against a packing with `struct`, after the C of ggml-quants."""

from __future__ import annotations

import math
import struct

import luminal
import ml_dtypes
import numpy as np
import pytest
from compilers import needs_cc
from library import Array, Case, check


def affine(x: Array, scale: float, zero: int) -> Array:
    return np.clip(np.rint(x / scale) + zero, -128, 127).astype(np.int8)


def rows(x: Array) -> tuple[Array, Array]:
    scale = np.abs(x).max(-1) / 127
    return np.rint(x / scale[..., None]).astype(np.int8), scale


def unsigned_rows(x: Array) -> tuple[Array, Array, Array]:
    low, high = np.minimum(x.min(-1), 0), np.maximum(x.max(-1), 0)
    scale = (high - low) / 255
    zero = np.rint(-low / scale)
    return np.clip(np.rint(x / scale[..., None]) + zero[..., None], 0, 255).astype(np.uint8), scale, zero.astype(np.uint8)


def product(a: Array, b: Array, sa: Array, sb: Array) -> Array:
    return (a.astype(int) @ b.astype(int).T) * sa[:, None] * sb


def quantized_linear(x: Array, w: Array, scale: Array, bias: Array | float = 0) -> Array:
    q, s = rows(x)
    return product(q, w, s, scale) + bias


def blocks(x: Array, width: int) -> list[Array]:
    """The groups of `width` elements, last axis first."""
    return list(x.reshape(-1, width))


def packed(x: Array, pack: object, size: int) -> Array:
    found = b"".join(pack(b) for b in blocks(x.astype(np.float64), 32))  # type: ignore[operator]
    return np.frombuffer(found, np.uint8).reshape(*x.shape[:-1], -1, size)


def q8_0(block: Array) -> bytes:
    d = float(np.abs(block).max()) / 127
    whole = [math.floor(abs(v) / d + 0.5) * (1 if v >= 0 else -1) if d else 0 for v in map(float, block)]
    return struct.pack("<e32b", d, *whole)


def q4_0(block: Array) -> bytes:
    largest = float(block[np.abs(block).argmax()])
    d = largest / -8
    q = [min(int(v / d + 8.5), 15) if d else 8 for v in map(float, block)]
    return struct.pack("<e16B", d, *(q[i] | q[i + 16] << 4 for i in range(16)))


def from_q8_0(b: Array) -> Array:
    unpacked = [struct.unpack("<e32b", bytes(block)) for block in blocks(b, 34)]
    return np.array([d * q for d, *qs in unpacked for q in qs]).reshape(*b.shape[:-2], -1)


def from_q4_0(b: Array) -> Array:
    unpacked = [struct.unpack("<e16B", bytes(block)) for block in blocks(b, 18)]
    return np.array([d * ((q >> shift & 15) - 8) for d, *qs in unpacked for shift in (0, 4) for q in qs]).reshape(*b.shape[:-2], -1)


def valid(b: Array) -> Array:
    """Any bytes but that the scale is an ordinary number."""
    b = np.random.default_rng(11).integers(0, 256, b.shape).astype(np.uint8)
    b[..., 1] = b[..., 1] & 0x8F | 0x20
    return b


def any_bytes(q: Array) -> Array:
    info = np.iinfo(q.dtype)
    return np.random.default_rng(12).integers(info.min, info.max + 1, q.shape).astype(q.dtype)


def scaled_rows(x: Array, limit: float) -> tuple[Array, Array]:
    scale = np.abs(x).max(-1) / limit
    return x / scale[..., None], scale


def f8_product(a: Array, b: Array, sa: Array, sb: Array) -> Array:
    return a @ b.T * sa[:, None] * sb


F8 = (("f8e4m3", ml_dtypes.float8_e4m3fn, 448.0), ("f8e5m2", ml_dtypes.float8_e5m2, 57344.0))
FULL = {"A": any_bytes, "B": any_bytes}
CASES = [
    Case("quantize_int8", affine, inputs={"X": lambda x: x * 50}),
    Case("quantize_int8", lambda x, s, z: np.array([-126, 2, 4, 6, 127][: len(x)], np.int8), sizes=[{"batch": 5}], inputs={"X": lambda x: np.array([-256, 1, 5, 7.2, np.inf], x.dtype), "scale": 2.0, "zero": 2}),
    Case("dequantize_int8", lambda q, s, z: (q.astype(float) - z) * s),
    Case("quantize_int8_channels", lambda x, s: np.clip(np.rint(x / s[:, None]), -127, 127).astype(np.int8), inputs={"X": lambda x: x * 40}),
    Case("dequantize_int8_channels", lambda q, s: q * s[:, None].astype(float)),
    Case("quantize_int8_rows", rows), Case("quantize_int8_rows", lambda x: (np.zeros(x.shape, np.int8), np.zeros(x.shape[:-1])), inputs={"X": 0}),
    Case("quantize_uint8_rows", unsigned_rows), Case("quantize_uint8_rows", unsigned_rows, inputs={"X": lambda x: np.abs(x) + 1}),
    Case("fake_quantize", lambda x, s: np.clip(np.rint(x / s), -127, 127) * s),
    Case("requantize_int8", lambda x, s, z: affine(x * float(s), 1.0, z), inputs={"X": lambda x: x * 5}),
    Case("int8_matmul", product, inputs=FULL), Case("uint8_matmul", lambda a, b, za, zb: (a.astype(int) - za) @ (b.astype(int) - zb), inputs=FULL),
    Case("int8_linear", quantized_linear, inputs={"W": any_bytes}), Case("int8_linear", quantized_linear, given=(), inputs={"W": any_bytes}),
    # exact evaluation does not round to f8; what the kernels store is tested below
    *(Case("quantize_f8", lambda x, s, m=limit: np.clip(x / s, -m, m), {"format": name}, inputs={"X": lambda x: x * 300}) for name, _, limit in F8),
    *(Case("quantize_f8_rows", lambda x, m=limit: scaled_rows(x, m), {"format": name}) for name, _, limit in F8),
    Case("dequantize_f8", lambda q, s: q * s), Case("f8_matmul", f8_product),
    Case("f8_linear", lambda x, w, s, b: x @ w.T * s + b), Case("f8_linear", lambda x, w, s: x @ w.T * s, given=()),
    Case("quantize_q8_0", lambda x: packed(x, q8_0, 34)), Case("quantize_q8_0", lambda x: packed(x, q8_0, 34), inputs={"X": 0}),
    Case("quantize_q4_0", lambda x: packed(x, q4_0, 18)),
    Case("dequantize_q8_0", from_q8_0, inputs={"B": valid}), Case("dequantize_q4_0", from_q4_0, inputs={"B": valid}),
    Case("q8_0_matmul", lambda a, b: from_q8_0(a) @ from_q8_0(b).T, inputs={"A": valid, "B": valid}),
    Case("q4_0_matmul", lambda a, b: from_q8_0(a) @ from_q4_0(b).T, inputs={"A": valid, "B": valid}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_quantize(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(("name", "unpacked", "step"), [("quantize_q8_0", from_q8_0, 1 / 127), ("quantize_q4_0", from_q4_0, 1 / 7)])
def test_blocks_are_near_what_they_stand_for(name: str, unpacked: object, step: float) -> None:
    """Half a step of each block, and what f16 takes from its scale."""

    def near(x: Array) -> Array:
        return x

    from library import graph_of, inputs_of
    from luminal.ir.interpret.graph import evaluate

    case = Case(name, near)
    sizes = {"batch": 3, "N": 160}
    _, graph = graph_of(case)
    x = inputs_of(case, graph, sizes)["X"]
    back = unpacked(np.asarray(evaluate(graph, {"X": x}, sizes)["B"].value))  # type: ignore[operator]
    scale = np.abs(x.reshape(3, -1, 32)).max(-1).repeat(32, -1).reshape(x.shape) * step
    assert (np.abs(back - x) <= scale * 1.01).all()


@needs_cc
@pytest.mark.parametrize(("name", "kind", "limit"), F8, ids=["f8e4m3", "f8e5m2"])
def test_bytes_of_f8(name: str, kind: type, limit: float) -> None:
    """What a kernel stores is what ml_dtypes rounds to, the largest value included."""
    x = np.random.default_rng(3).standard_normal((7, 53)).astype(np.float32) * 10
    q, scale = luminal.compile("quantize_f8_rows", format=name)(x)
    np.testing.assert_array_equal(scale, np.abs(x).max(-1) / np.float32(limit))
    np.testing.assert_array_equal(q.view(np.uint8), np.clip(x / scale[:, None], -limit, limit).astype(kind).view(np.uint8))
    assert (np.abs(q.astype(np.float32)).max(-1) == limit).all()
