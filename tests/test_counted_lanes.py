"""Vectors of which only the first lanes are there: one instruction where the machine has it, halves where it has it for those (`runtimes/clang/helpers/lanes.j2`)."""

import ctypes
import re

import luminal
import numpy as np
import pytest
from compilers import FAMILIES
from luminal.ir.dtypes import DTYPES, i64
from luminal.ir.expr import ZERO, add, const, make, mul, size, var
from luminal.ir.graph import Port, Size
from luminal.ir.program import Call, For, Function, Param, Program, StoreTo
from luminal.runtimes import find

pytestmark = pytest.mark.usefixtures("simple_c")

INNER = "(composite inner ((X{%s}[M N](where N > 2)) -> Y) (return (max 3 (slice X _ (1 (- N 1))))))"


@pytest.mark.parametrize(("dtype", "instruction"), [("u8", "loaddquqi512_mask"), ("i16", "loaddquhi512_mask"), ("i32", "loaddqusi512_mask")])
def test_one_instruction(dtype, instruction):
    source = luminal.compile(INNER % dtype, target="x86-64-v4").source
    assert instruction in source
    assert "store" + instruction[4:] in source


def test_pieces_where_no_instruction_stores_lanes_fast():
    """AVX2's masked store takes AMD's processors a dozen cycles and more."""
    source = luminal.compile(INNER % "f32", target="x86-64-v3").source
    assert "store_first_f32" in source
    assert "maskstore" not in source


@pytest.mark.parametrize("machine", ["native", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("dtype", ["u8", "i8", "u16", "i16", "i32", "i64", "f32", "f64"])
def test_every_count(dtype, machine):
    """What lies behind the last row stays as it is."""
    f = luminal.compile(INNER % dtype, target=machine)
    kind = {"u": "uint", "i": "int", "f": "float"}[dtype[0]] + dtype[1:]
    for n in range(3, 140 if machine == "native" else 80):
        x = np.random.default_rng(n).integers(0, 100, (3, n)).astype(kind)
        memory = np.full(3 * (n - 2) + 40, 77, kind)
        f(x, Y=memory[: 3 * (n - 2)].reshape(3, n - 2))
        np.testing.assert_array_equal(memory[: 3 * (n - 2)].reshape(3, n - 2), np.maximum(x[:, 1:-1], 3))
        assert (memory[3 * (n - 2) :] == 77).all()


def two_registers(dtype: str, bytes_: int) -> Program:
    """O[i] = X[i] from the third on and 0 before, in vectors of so many bytes, of which the last is there in part."""
    d = DTYPES[dtype]
    v, N, i = d.vector(bytes_ // d.bytes), size("N"), var("i")
    count = add(N, mul(const(-1), i))
    value = make("vload", v, (i, count, add(const(3), mul(const(-1), i))), "X")
    copied = make("vload", v, (i, count), "X")
    loops = tuple(For("i", ZERO, N, (StoreTo(out, i, e, count=count),), const(v.lanes)) for out, e in (("O", value), ("P", copied)))
    params = (Param("X", d, True, True), Param("O", d, True), Param("P", d, True), Param("N", i64))
    ports = (Port("X", d, (N,), "in"), Port("O", d, (N,), "out"), Port("P", d, (N,), "out"))
    return Program("two", (Size("N"),), ports, (Function("k", params, loops),), (Call("k", ("X", "O", "P", N)),))


@pytest.mark.parametrize(
    ("machine", "bytes_", "halves"),
    [("x86-64-v2", 64, [32]), ("x86-64-v3", 64, [32]), ("x86-64-v4", 64, []), ("x86-64-v4", 128, [64]), ("x86-64-v4", 256, [64, 128])],
)
@pytest.mark.parametrize("dtype", ["u8", "f32"])
def test_halves_of_what_no_register_holds(dtype, machine, bytes_, halves):
    """Where a register holds the vector, nobody wants the halves, and they are not written."""
    runtime = find("clang")
    source = runtime.render(two_registers(dtype, bytes_), runtime.target(machine, {}, False), "lm_").source
    lanes = [n // DTYPES[dtype].bytes for n in (*halves, bytes_)]
    for name in ("load_first", "load_between", "store_first"):
        assert re.findall(rf"{name}_{dtype}x(\d+)\((?:const )?\w+ \*p", source) == [str(n) for n in lanes]


@pytest.mark.parametrize("family", [f for f in ("clang", "gcc") if f in FAMILIES])
@pytest.mark.parametrize("bytes_", [64, 128])
@pytest.mark.parametrize("dtype", ["u8", "i16", "f32", "f64"])
def test_every_count_of_halves(dtype, bytes_, family, tmp_path):
    """For a machine of 16 bytes: lanes before and behind those that are there are not read, which ends of the arrays would show; what comes behind the result stays."""
    runtime = find("clang")
    target = runtime.target("x86-64-v2", {"CC": FAMILIES[family], "OMP": False}, False)
    program = two_registers(dtype, bytes_)
    runtime.build(runtime.render(program, target, "lm_"), target, "shared", tmp_path / "two.so", None, [])
    call = ctypes.CDLL(str(tmp_path / "two.so")).lm_two
    kind = np.dtype({"u": "uint", "i": "int", "f": "float"}[dtype[0]] + dtype[1:])
    for n in range(3 * bytes_ // kind.itemsize):
        x = np.arange(1, n + 2).astype(kind)
        o, p = np.full(n + 1, 77, kind), np.full(n + 1, 77, kind)
        assert call(*(ctypes.c_void_p(a.ctypes.data) for a in (x, o, p)), ctypes.c_int64(n)) == 0
        np.testing.assert_array_equal(o, [*np.where(np.arange(n) < 3, 0, x[:n]), 77])
        np.testing.assert_array_equal(p, [*x[:n], 77])
