"""Every operator of the table on every dtype, as a composite of its own output: one translation unit for all, against the reference; and through NVRTC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from cuda_unit import Unit, check, compiled, needs_host, target, unit
from luminal.ir.build import Builder, Tensor
from luminal.ir.dtypes import DTYPES, DType, bf16, bool_, c64, f8e4m3, f8e5m2, f16, f32, f64, numpy_dtype
from luminal.ir.expr import size
from luminal.ir.graph import Graph, Port, Size
from luminal.ir.primops import COMBINERS, OPS, accepts
from luminal.runtimes.cuda import nvrtc
from test_cuda_composites import nvrtc_version

pytestmark = pytest.mark.usefixtures("plain_c")

FLOATS = (f64, f32, f16, bf16, f8e4m3, f8e5m2)
INTEGERS = tuple(DTYPES[n] for n in ("i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"))
ALL = (*FLOATS, *INTEGERS, bool_, c64)
N, SEED = size("N"), 20261121


class Table:
    """A graph that grows: input ports X Y Z of one dtype, and one output port an operator."""

    def __init__(self, name: str, d: DType, others: Mapping[str, DType] | None = None) -> None:
        self.builder = Builder({"N": Size("N")})
        self.ports = [Port(n, t, (N,), "in") for n, t in ({"X": d, "Y": d, "Z": d} | dict(others or {})).items()]
        self.name, self.d = name, d
        self.inputs = {p.name: self.builder.input(p) for p in self.ports}
        self.outputs: list[tuple[Port, Any]] = []

    def add(self, name: str, x: Tensor) -> None:
        port = Port(f"o_{name}", x.dtype, x.shape, "out")
        self.outputs.append((port, self.builder.output(x, x.dtype, x.shape)))

    def graph(self) -> Graph:
        ports = (*self.ports, *(p for p, _ in self.outputs))
        return Graph(self.name, (Size("N"),), ports, tuple((p.name, node) for p, node in self.outputs))


def rows(d: DType) -> Graph:
    """All rows of the table that accept the dtype; casts and bitcasts from it."""
    t = Table(f"rows_{d}", d, {"C": bool_})
    b, (x, y, z) = t.builder, (t.inputs[n] for n in "XYZ")
    for op in OPS.values():
        if not accepts(op, d) or op.result == "to":
            continue
        if op.name == "where":
            t.add("where", b.where(t.inputs["C"], x, y))
        elif op.name == "floordiv" and d.is_float:  # of an infinite divisor the table says nothing
            t.add("floordiv", b.elementwise("floordiv", x, b.where(b.elementwise("isinf", y), x, y)))
        else:
            t.add(op.name, b.elementwise(op.name, *(x, y, z)[: op.arity]))
    for to in ALL if d is not c64 else (bool_,):
        if to is not d:
            t.add(f"cast_{to}", b.cast(x, to))
        if to.bits == d.bits and to is not d and not {bool_, c64} & {to, d}:
            t.add(f"bits_{to}", b.bitcast(x, to))
    return t.graph()


def structure(d: DType) -> Graph:
    """Reductions, scans, iota, gather and scatter; what is made real."""
    t = Table(f"structure_{d}", d, {"I": DTYPES["i32"]})
    b, x, y = t.builder, t.inputs["X"], t.inputs["Y"]
    combiners = [c for c in COMBINERS.values() if accepts(OPS[c.op], d) and not (d is bool_ and c.name in ("add", "mul", "max", "min"))]
    if not d.is_inexact:
        combiners = [c for c in combiners if c.name not in ("and", "or") or d is bool_]
    for c in combiners:
        t.add(f"all_{c.name}", b.reduce(c.name, x, (0,)))
        t.add(f"scan_{c.name}", b.scan(c.name, x, 0))
    t.add("gather", b.gather(x, t.inputs["I"]))
    t.add("scatter", b.scatter(y, t.inputs["I"], x, combine="set" if d is bool_ else "add" if d is c64 else "max"))
    t.add("flip", b.flip(x))
    t.add("real", b.elementwise("equal", b.contiguous(b.elementwise("add" if d is c64 else "max", x, y)), y))
    if d is not bool_:
        t.add("iota", b.elementwise("add", b.cast(b.iota(N), d), y))
    return t.graph()


def values(d: DType, count: int, salt: int) -> Any:
    """Special values first, then small ones (exact in every dtype, so that integers and f16 stay in range), then random bits."""
    rng = np.random.default_rng(SEED + salt)
    kind = numpy_dtype(d)
    if d is bool_:
        return rng.integers(0, 2, count).astype(bool)
    if d is c64:
        parts = values(f32, count, salt), rng.permutation(values(f32, count, salt + 7))
        return np.stack(parts, axis=-1).view(kind)[:, 0]
    small = rng.integers(0 if d.kind == "uint" else -12, 13, count).astype(kind)
    if d.is_float:
        small = (small.astype(np.float64) / 4).astype(kind)
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.5, -2.5, 3.0], kind)
    else:
        special = np.array([0, 1, d.max, d.min, 2, 3, d.bits - 1, 7, d.max - 1], kind)
    bits = rng.integers(0, 256, 40 * d.bytes, dtype=np.uint8).view(kind)
    return np.concatenate([rng.permutation(np.resize(special, 40)), small, bits])[:count]


@pytest.fixture(scope="module")
def graphs() -> dict[str, Graph]:
    found = [rows(d) for d in ALL] + [structure(d) for d in (f32, f16, DTYPES["i32"], DTYPES["u8"], bool_, c64)]
    return {f"{g.name}_": g for g in found}


@pytest.fixture(scope="module")
def built(graphs: dict[str, Graph], tmp_path_factory: pytest.TempPathFactory) -> Unit:
    on = target()
    return unit(tmp_path_factory.mktemp("cuda") / "operators.so", {prefix: compiled(g, on) for prefix, g in graphs.items()}, on)


@needs_host
@pytest.mark.parametrize("count", [0, 1, 90])
@pytest.mark.parametrize("d", ALL, ids=str)
def test_rows(d: DType, count: int, graphs: dict[str, Graph], built: Unit) -> None:
    graph = graphs[f"rows_{d}_"]
    inputs = {p.name: values(p.dtype, count, k) for k, p in enumerate(graph.ports) if p.role == "in"}
    check(built.library(f"rows_{d}_"), graph, {"N": count}, inputs)


@needs_host
@pytest.mark.parametrize("count", [1, 37, 300])
@pytest.mark.parametrize("d", [f32, f16, DTYPES["i32"], DTYPES["u8"], bool_, c64], ids=str)
def test_structure(d: DType, count: int, graphs: dict[str, Graph], built: Unit) -> None:
    graph = graphs[f"structure_{d}_"]
    rng = np.random.default_rng(SEED)
    small = {p.name: values(p.dtype, 340, k)[40 : 40 + count] for k, p in enumerate(graph.ports) if p.role == "in"}
    small["I"] = rng.permutation(count).astype(np.int32)
    check(built.library(f"structure_{d}_"), graph, {"N": count}, small)


@pytest.mark.skipif(not nvrtc_version(), reason="NVRTC is not installed")
@pytest.mark.parametrize("d", [f64, f32, f16, bf16, f8e4m3, f8e5m2, DTYPES["i64"], DTYPES["i8"], DTYPES["u16"], bool_, c64], ids=str)
def test_nvrtc_takes_every_row(d: DType, built: Unit, monkeypatch: pytest.MonkeyPatch) -> None:
    """To optimise takes it most of its time, and what is taken is the same."""
    monkeypatch.setattr(nvrtc, "OPTIONS", (*nvrtc.OPTIONS, "--Ofast-compile=max"))
    assert nvrtc.compile_text(built.sources[f"rows_{d}_"], "sm_75", "ptx" if d is f64 else "cubin", [])
