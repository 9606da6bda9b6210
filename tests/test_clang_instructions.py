"""Lane by lane operators that machines have an instruction for are that instruction, whichever compiler: clang joins no lanes, so helpers tell it."""

import itertools
import re
import subprocess

import luminal
import numpy as np
import pytest
from compilers import FAMILIES
from luminal.ir.dtypes import f32, f64, i32, i64, u32
from luminal.ir.expr import ZERO, call, const, make, size, var
from luminal.ir.graph import Port, Size
from luminal.ir.primops import OPS
from luminal.ir.program import Call, For, Function, Param, Program, StoreTo
from luminal.runtimes import find
from luminal.runtimes.clang.compiler import find_compiler

N, i = size("N"), var("i")
LANE_BY_LANE = re.compile(r"\b(v?(sqrt|round|fn?m(add|sub)\d*)s[sd]|v?insertps|v?pinsr[dq]|div[lq]|call\w*)\b")


def assembly(tmp_path, name, d, family, machine, bytes_, divisor=None, flags=()):
    """Of a loop over vectors alone; with these flags, or those that we give."""
    v = d.vector(bytes_ // d.bytes)
    read = [make("vload", v, (i,), p) for p in "XYZ"[: OPS[name].arity]]
    if divisor is not None:
        read[1] = make("broadcast", v, (const(divisor, d),))
    loop = For("i", ZERO, N, (StoreTo("O", i, call(name, *read)),), const(v.lanes))
    params = (*(Param(p, d, True, True) for p in "XYZ"), Param("O", d, True), Param("N", i64))
    ports = (*(Port(p, d, (N,), "in") for p in "XYZ"), Port("O", d, (N,), "out"))
    program = Program("one", (Size("N", multiple=v.lanes),), ports, (Function("k", params, (loop,)),), (Call("k", (*"XYZ", "O", N)),))
    runtime = find("clang")
    target = runtime.target(machine, {"CC": FAMILIES[family], "OMP": False}, False)
    (tmp_path / "one.c").write_text(runtime.render(program, target, "lm_").source)
    compiler = find_compiler(FAMILIES[family])
    subprocess.run(
        [*compiler.command, *(flags or runtime.flags(compiler, target)), "-S", "-o", "one.s", "one.c"], cwd=tmp_path, check=True, capture_output=True
    )
    text = (tmp_path / "one.s").read_text()
    return text[text.index("lm_one:") :]


@pytest.mark.parametrize("family", [f for f in ("clang", "gcc") if f in FAMILIES])
@pytest.mark.parametrize(("machine", "bytes_"), [("x86-64-v3", 32), ("x86-64-v4", 64)])
@pytest.mark.parametrize("d", [f32, f64], ids=str)
@pytest.mark.parametrize("name", ["sqrt", "floor", "ceil", "trunc", "round", "fma", "rsqrt", "floordiv"])
def test_one_instruction(name, d, machine, bytes_, family, tmp_path):
    text = assembly(tmp_path, name, d, family, machine, bytes_)
    assert not (found := LANE_BY_LANE.search(text)), found


@pytest.mark.parametrize("family", [f for f in ("clang", "gcc") if f in FAMILIES])
@pytest.mark.parametrize("name", ["sqrt", "floor", "fma", "exp", "log"])
def test_one_instruction_by_plain_flags(name, family, tmp_path):
    """A source that is built by somebody else: for a machine whose vectors gcc would rather have half as wide."""
    text = assembly(tmp_path, name, f32, family, "x86-64-v4", 64, flags=("-O3", "-march=skylake-avx512", "-w"))
    assert not (found := LANE_BY_LANE.search(text)), found


@pytest.mark.skipif("clang" not in FAMILIES, reason="needs clang")
@pytest.mark.parametrize(("name", "d"), [("atan", f32), ("atan", f64), ("log1p", f32)])
def test_choices_stay_masks(name, d, tmp_path):
    """A mask that becomes a vector of bits waits, on Intel's cores, for what the register held in the iteration before: atan took 2.5 times as long."""
    text = assembly(tmp_path, name, d, "clang", "x86-64-v4", 64)
    assert "%zmm" in text and "vpmovm2" not in text


@pytest.mark.parametrize("family", [f for f in ("clang", "gcc") if f in FAMILIES])
def test_a_literal_divides_by_products(family, tmp_path):
    text = assembly(tmp_path, "floordiv", u32, family, "x86-64-v3", 32, divisor=3)
    assert not (found := LANE_BY_LANE.search(text)), found


@pytest.mark.parametrize("family", [f for f in ("clang", "gcc") if f in FAMILIES])
@pytest.mark.parametrize(("machine", "bytes_"), [("x86-64-v3", 32), ("x86-64-v4", 64)])
@pytest.mark.parametrize(("name", "d", "wanted"), [("min", i32, "vpminsd"), ("max", u32, "vpmaxud"), ("min", i64, "vpminsq|blend")])
def test_a_choice_is_one_instruction(name, d, wanted, machine, bytes_, family, tmp_path):
    """Beside a comparison, perhaps; bits are not put together."""
    text = assembly(tmp_path, name, d, family, machine, bytes_)
    assert re.search(wanted, text)
    assert not (found := re.search(r"\bv?p?(xor|and|andn|or|ternlog)[dq]?\b.*[yz]mm", text)), found


NETWORK = """(composite network ((X{%s}[N 3]) -> (Y{%s}[N 3]))
  (setf Y X)
  (dotimes (r N)
    (dotimes (s 3)
      (loop (i (mod s 2) 2 2)
        (set low (min (aref Y r i) (aref Y r (+ i 1))))
        (setf (aref Y r (+ i 1)) (max (aref Y r i) (aref Y r (+ i 1))))
        (setf (aref Y r i) low)))))"""


@pytest.mark.parametrize("family", [f for f in ("clang", "gcc") if f in FAMILIES])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_extremes_of_scalars(dtype, family, tmp_path):
    """A chain of extremes gives the reference's bits, NaN and both zeros too, and no branch, behind which no compiler would make vectors of the rows."""
    code, kind = NETWORK % (dtype, dtype), np.dtype("float" + dtype[1:])
    x = np.array(list(itertools.product([0.0, -0.0, np.nan, 1, -1, np.inf, -np.inf], repeat=3)), kind)
    f = luminal.compile(code, target="x86-64-v3", config={"CC": FAMILIES[family]})
    expected, found = luminal.compile(code, runtime="reference")(x), f(x)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(
        np.where(np.isnan(found), 0, found.view(f"i{kind.itemsize}")), np.where(np.isnan(found), 0, expected.view(f"i{kind.itemsize}"))
    )
    runtime, compiler = find("clang"), find_compiler(FAMILIES[family])
    (tmp_path / "one.c").write_text(f.source)
    target = runtime.target("x86-64-v3", {"CC": FAMILIES[family], "OMP": False}, False)
    subprocess.run([*compiler.command, *runtime.flags(compiler, target), "-S", "-o", "one.s", "one.c"], cwd=tmp_path, check=True, capture_output=True)
    text = (tmp_path / "one.s").read_text()
    assert re.search(r"v(max|blendv|cmp\w*)p[sd]\b.*ymm", text)


@pytest.mark.skipif("gcc" not in FAMILIES, reason="no gcc")
def test_wide_conversions_are_those_of_registers(tmp_path):
    """Two of them, put together: of 128 bytes gcc makes as many moves as there are lanes."""
    wide = i64.vector(16)
    value = call("cast", make("vload", wide, (i,), "X"), to=i32.vector(16))
    loop = For("i", ZERO, N, (StoreTo("O", i, value),), const(16))
    params = (Param("X", i64, True, True), Param("O", i32, True), Param("N", i64))
    ports = (Port("X", i64, (N,), "in"), Port("O", i32, (N,), "out"))
    program = Program("one", (Size("N", multiple=16),), ports, (Function("k", params, (loop,)),), (Call("k", ("X", "O", N)),))
    runtime, compiler = find("clang"), find_compiler(FAMILIES["gcc"])
    target = runtime.target("x86-64-v4", {"CC": FAMILIES["gcc"], "OMP": False}, False)
    (tmp_path / "one.c").write_text(runtime.render(program, target, "lm_").source)
    subprocess.run([*compiler.command, *runtime.flags(compiler, target), "-S", "-o", "one.s", "one.c"], cwd=tmp_path, check=True, capture_output=True)
    text = (tmp_path / "one.s").read_text()
    assert len(re.findall(r"vpmovqd", text)) == 2


@pytest.mark.parametrize("family", [f for f in ("clang", "gcc") if f in FAMILIES])
@pytest.mark.parametrize(("dtype", "instruction"), [("f32", "vgatherqps"), ("u32", "vpgatherqd"), ("f64", "vgatherqpd"), ("i64", "vpgatherqq")])
def test_lanes_are_gathered_by_one_instruction_where_that_is_fast(dtype, instruction, family, tmp_path):
    """Machines with arithmetic on halves; all others load lane by lane."""
    text = f"(composite c ((X{{{dtype}}}[M N] I{{i64}}[K]) -> (Y)) (return (+ 1 (gather X I :axis -1))))"
    (tmp_path / "c.c").write_text(luminal.compile(text, target="x86-64-v4", config={"CC": FAMILIES[family]}).source)
    for machine in ("sapphirerapids", "icelake-server"):
        command = [*find_compiler(FAMILIES[family]).command, "-O3", f"-march={machine}", "-w", "-S", "-o", "c.s", "c.c"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        assert (instruction in (tmp_path / "c.s").read_text()) == (machine == "sapphirerapids")
    kind = np.dtype({"f": "float", "i": "int", "u": "uint"}[dtype[0]] + dtype[1:])
    f = luminal.compile(text, target="native", config={"CC": FAMILIES[family]})
    for m, n, k in ((1, 1, 1), (3, 9, 200), (2, 70000, 333)):
        rng = np.random.default_rng(n)
        x, at = rng.integers(0, 1000, (m, n)).astype(kind), rng.integers(0, n, k)
        np.testing.assert_array_equal(f(x, at), x[:, at] + kind.type(1))
