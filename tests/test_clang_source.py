"""What the clang runtime writes: names, literals, parentheses, headers, the same bytes everywhere."""

import os
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import luminal.runtimes
import numpy as np
import pytest
from luminal.ir.constants import single
from luminal.ir.dtypes import bf16, bool_, f8e4m3, f8e5m2, f16, f32, f64, i8, i32, i64, numpy_dtype, u32, u64
from luminal.ir.evaluate import evaluate
from luminal.ir.expr import ONE, ZERO, call, const, floordiv, load, maximum, minimum, mod, size, var
from luminal.ir.graph import Port, Size
from luminal.ir.program import Barrier, Call, Define, Fail, For, Function, If, Param, Program, Region, Scratch, StoreTo
from luminal.ir.target import Target
from luminal.ir.version import VERSION
from luminal.runtimes import find
from luminal.runtimes.literals import literal, small_bits
from luminal.runtimes.names import Names, c_name

GCC = shutil.which("gcc")
TARGET = Target("clang", "x86-64-v3", "x86-64-v3, for a test")
M, N, K = size("M"), size("N"), size("K")
i = var("i")


def render(program, prefix="lm_"):
    return find("clang").render(program, TARGET, prefix)


def copy_program(**changes):
    """out[i] = in[i] over N elements, through a temporary."""
    body = (For("i", ZERO, N, (StoreTo("to", i, load("from", f32, i)),)),)
    params = (Param("from", f32, True, True), Param("to", f32, True), Param("N", i64))
    fields = {
        "name": "copy", "sizes": (Size("N"),), "ports": (Port("X", f32, (N,), "in"), Port("Y", f32, (N,), "out")),
        "functions": (Function("copy kernel", params, body),),
        "entry": (If(N.lt(0), (Fail(2),)), Scratch("T", f32, N), Call("copy kernel", ("X", "T", N)), Call("copy kernel", ("T", "Y", N))),
    }  # fmt: skip
    return Program(**(fields | changes))


def compile_c(tmp_path, text, *flags, name="test.c"):
    file = tmp_path / name
    file.write_text(text)
    compiler = "g++" if name.endswith("pp") else "gcc"
    done = subprocess.run([compiler, *flags, name], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr


def test_version_is_the_packages():
    text = (Path(luminal.runtimes.__file__).parents[1] / "pyproject.toml").read_text()
    assert f'version = "{VERSION}"' in text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("A", "A"), ("i.0", "i_0"), ("my-name", "my_name"), ("double", "double_"), ("for", "for_"), ("printf", "printf_"), ("main", "main_"),
        ("asm", "asm_"), ("class", "class_"), ("I", "I_"), ("3d", "v3d"), ("_x", "v_x"), ("f32x16", "f32x16_"), ("exp2_f32", "exp2_f32_"),
        ("size_t", "size_t_"), ("sinf", "sinf_"), ("uint8_t", "uint8_t_"), ("größe", "gr__e"),
    ],
)  # fmt: skip
def test_names(name, expected):
    assert c_name(name) == expected


def test_names_are_unique_and_stable():
    names = Names(frozenset({"taken"}))
    found = [
        names.get("buffer", "a-b"),
        names.get("buffer", "a_b"),
        names.get("size", "a_b"),
        names.get("buffer", "for"),
        names.get("var", "for"),
        names.get("var", "taken"),
    ]
    assert found == ["a_b", "a_b_2", "a_b_3", "for_", "for_2", "taken_2"]
    assert names.get("buffer", "a_b") == "a_b_2"


def test_float_literals_are_the_shortest_that_read_back():
    rng = random.Random(7)
    for _ in range(2000):
        value = struct.unpack("<f", struct.pack("<I", rng.randrange(1 << 32)))[0]
        if value == value and abs(value) != float("inf"):
            text = literal(value, f32)
            assert text.endswith("f") and single(float(text[:-1])) == value
    assert [literal(v, f32) for v in (0.1, 1, -0.0, 1e30, float("inf"), float("-inf"), float("nan"))] == [
        "0.1f", "1.0f", "-0.0f", "1e+30f", "INFINITY", "-INFINITY", "NAN",
    ]  # fmt: skip
    assert [literal(v, f64) for v in (0.1, 1, 1e300)] == ["0.1", "1.0", "1e+300"]
    assert [literal(1.0, f8e4m3), literal(-1e9, f8e4m3), literal(1e9, f8e5m2)] == ["0x38", "0xff", "0x7c"]
    assert [literal(1.0, f16), literal(-2.0, bf16), literal(1e9, f16)] == ["0x3c00", "0xc000", "0x7c00"]
    assert [literal(-(1 << 31), i32), literal(-(1 << 63), i64), literal(1 << 40, i64), literal(7, u32), literal(1 << 40, u64), literal(-3, i8), literal(True, bool_)] == [
        "INT32_MIN", "INT64_MIN", "INT64_C(1099511627776)", "7u", "UINT64_C(1099511627776)", "-3", "1",
    ]  # fmt: skip


@pytest.mark.parametrize("d", [f16, bf16, f8e4m3, f8e5m2], ids=str)
def test_small_literals_round_as_memory_does(d):
    """Every value is its own literal; random numbers round as NumPy and ml_dtypes do."""
    kind, bits = numpy_dtype(d), np.uint16 if d.bytes == 2 else np.uint8
    every = np.arange(1 << d.bits).astype(bits).view(kind).astype(np.float32)
    drawn = np.random.default_rng(11).standard_normal(2000).astype(np.float32) * np.float32(2.0) ** np.arange(-30, 20, 0.025, dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for x in (every[every == every], drawn):
            assert [small_bits(float(v), d) for v in x] == x.astype(kind).view(bits).tolist()


def spelled(expression, port=f32):
    """How a stored value is written."""
    kernel = Function(
        "k", (Param("X", port, True, True), Param("Y", expression.dtype, True), Param("M", i64), Param("N", i64)), (StoreTo("Y", ZERO, expression),)
    )
    program = Program("p", (Size("M"), Size("N")), (Port("X", port, (N,), "in"), Port("Y", expression.dtype, (N,), "out")), (kernel,), ())
    line = next(line for line in render(program).source.split("\n") if line.startswith("  Y[0] = "))
    return line.removeprefix("  Y[0] = ").removesuffix(";")


def test_parentheses_are_those_that_are_needed():
    a, b, c = (load("X", f32, const(k)) for k in range(3))
    add, mul, sub, div = (lambda x, y, op=op: call(op, x, y) for op in ("add", "mul", "sub", "div"))
    assert spelled(add(mul(a, b), c)) == "X[0] * X[1] + X[2]"
    assert spelled(mul(add(a, b), c)) == "(X[0] + X[1]) * X[2]"
    assert spelled(sub(a, sub(b, c))) == "X[0] - (X[1] - X[2])"
    assert spelled(sub(sub(a, b), c)) == "X[0] - X[1] - X[2]"
    assert spelled(div(a, mul(b, c))) == "X[0] / (X[1] * X[2])"
    assert spelled(call("neg", call("neg", a))) == "-(-X[0])"
    assert spelled(call("where", call("less_than", a, b), add(a, b), c)) == "X[0] < X[1] ? X[0] + X[1] : X[2]"
    assert spelled(call("sqrt", add(a, b))) == "sqrtf(X[0] + X[1])"
    both = call("bit_and", call("less_than", a, b), call("bit_or", call("less_than", b, c), call("equal", a, c)))
    assert spelled(both) == "X[0] < X[1] && (X[1] < X[2] || X[0] == X[2])"
    assert spelled(call("cast", add(a, b), to=f64)) == "(double)(X[0] + X[1])"
    assert spelled((M - 3) * 2 + N - M) == "(M - 3) * 2 + N - M"
    assert spelled(M * -4 + N) == "N - M * 4"
    assert spelled(call("add", call("cast", a, to=i32), call("cast", b, to=i32))) == "add_i32(cast_f32_i32(X[0]), cast_f32_i32(X[1]))"
    assert spelled(call("sub", call("cast", load("X", f16, ZERO), to=f32), const(1.0, f32)), f16) == "cast_f16_f32(X[0]) - 1.0f"
    assert spelled(floordiv(M + 15, const(16)) * N) == "(M + 15) / 16 * N"


def random_position(rng, depth):
    """An integer expression over M, N, K as lower makes them."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([M, N, K, const(rng.randrange(-9, 10))])
    a, b = random_position(rng, depth - 1), random_position(rng, depth - 1)
    match rng.randrange(8):
        case 0 | 1:
            return a + b
        case 2:
            return a - b
        case 3:
            return a * const(rng.randrange(-3, 4))
        case 4:
            return floordiv(a, const(rng.randrange(1, 9)))
        case 5:
            return mod(a, const(rng.randrange(1, 9)))
        case 6:
            return maximum(a, b) if rng.random() < 0.5 else minimum(a, b)
        case _:
            return call("where", a.lt(b), b, a * b if depth < 3 else a)


@pytest.mark.skipif(GCC is None, reason="needs gcc")
def test_positions_mean_what_they_mean(tmp_path):
    rng = random.Random(11)
    expressions = [random_position(rng, 4) for _ in range(300)]
    kernel = Function(
        "k",
        (Param("Y", i64, True), Param("M", i64), Param("N", i64), Param("K", i64)),
        tuple(StoreTo("Y", const(n), e) for n, e in enumerate(expressions)),
    )
    program = Program("p", (Size("M"), Size("N"), Size("K")), (Port("Y", i64, (const(300),), "out"),), (kernel,), (Call("k", ("Y", M, N, K)),))
    runtime = find("clang")
    target = runtime.target(None, {"CC": "gcc", "SANITIZE": "undefined"}, False)
    runtime.build(render(program), target, "shared", tmp_path / "p.so", 240, [])
    library = runtime.load(tmp_path / "p.so", program, target, "lm_")
    for sizes in ({"M": 0, "N": 1, "K": 2}, {"M": 17, "N": 3, "K": 100}, {"M": 64, "N": 64, "K": 1}):
        found = np.zeros(300, np.int64)
        assert library.call({"Y": found}, sizes) == 0
        for e, value in zip(expressions, found, strict=True):
            assert value == evaluate(e, sizes), (e, sizes)


def everything():
    """A program whose header has all that a header can have."""
    ports = (
        Port("double", f16, (M, N), "in", order=(1, 0)), Port("class", bool_, (N,), "in"), Port("alpha", f32, (), "scalar"), Port("b", bf16, (), "scalar"),
        Port("lda", f64, (M, N), "inout", strided=("asm",)), Port("y-y", i8, (floordiv(M + 1, const(2)),), "out"),
    )  # fmt: skip
    text = 'evil */ int x; /* "quotes" \\ ??/ \x07\n(composite …)'
    return Program(
        "ever-ything", (Size("M", 1, 1000, 4), Size("N"), Size("asm")), ports, (), (Scratch("tmp", f32, M * N),), (("O", floordiv(M + 1, const(2))),),
        (N.lt(M * 2), call("bit_or", M.eq(4), N.lt(3))), f"All of it. {text}", text, "",
    )  # fmt: skip


@pytest.mark.skipif(GCC is None, reason="needs gcc")
def test_header_is_clean_c99_and_cxx17(tmp_path):
    rendered = render(everything())
    (tmp_path / "lm.h").write_text(rendered.header)
    other = render(copy_program())
    (tmp_path / "copy.h").write_text(other.header)
    text = '#include "lm.h"\n#include "copy.h"\n#include "lm.h"\nint main(void) { return lm_strerror(0) == 0; }\n'
    strict = ("-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only")
    compile_c(tmp_path, text, "-std=c99", *strict)
    if shutil.which("g++"):
        compile_c(tmp_path, text, "-std=c++17", *strict, name="test.cpp")
    compile_c(tmp_path, rendered.source, "-std=gnu11", "-Wall", "-Wno-unused-variable", "-Werror", "-fsyntax-only", name="source.c")


def test_header_says_what_there_is_to_know():
    header = render(everything()).header
    for text in (
        "int32_t lm_ever_ything(const uint16_t *double_, const uint8_t *class_, float alpha, uint16_t b, double *lda, int8_t *y_y, int64_t M, int64_t N, int64_t asm_);",
        "int64_t lm_ever_ything_workspace(int64_t M, int64_t N, int64_t asm_);", "lm_ever_ything_ws(", "lm_ever_ything_shape(int64_t M, int64_t N, int64_t asm_, int64_t *out_O);",
        "read, f16 (bits of an IEEE half) [M, N], column-major", "leading strides asm (in elements)", "by value, f32", "a multiple of 4", "O = (M + 1) / 2", "requires N < M * 2",
    ):  # fmt: skip
        assert text in header, text


def test_source_begins_with_the_composite_and_cannot_escape_the_comment():
    source = render(everything()).source
    head = source[: source.index("*/")]
    assert "(composite …)" in head and "target: x86-64-v3, for a test" in head and f"luminal {VERSION}" in head and "evil * /" in head
    assert "requires: M % 4 == 0" in head


def test_prefix():
    rendered = render(copy_program(), "my_")
    assert "int32_t my_copy(" in rendered.header and "my_strerror" in rendered.source and "lm_" not in rendered.source + rendered.header


def test_helpers_and_types_only_where_used():
    source = render(copy_program()).source
    assert "typedef" not in source and "UNROLL" not in source and "#pragma" not in source and "inline float" not in source


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import test_clang_source as t
for p in (t.everything(), t.copy_program()):
    r = t.render(p)
    sys.stdout.write(r.source + r.header)
"""


def test_same_bytes_for_any_hash_seed_and_folder(tmp_path):
    found = set()
    for seed in ("1", "77"):
        folder = tmp_path / seed
        folder.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path), "LC_ALL": "C", "PYTHONIOENCODING": "utf-8"}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(Path(__file__).parent)], cwd=folder, env=environment, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        found.add(done.stdout)
    assert len(found) == 1


def test_one_scope_shadows_another_and_gives_it_back():
    inner = (Define("x", f32, load("from", f32, i)), StoreTo("to", i, var("x", f32)))
    body = (
        Define("x", f32, const(1.0, f32), True),
        For("i", ZERO, N, inner),
        For("i", N - 1, const(-1), (StoreTo("to", i, var("x", f32)),), const(-1)),
        For("i", ZERO, N, (StoreTo("to", i, var("x", f32)),), M),
        StoreTo("to", ONE, var("x", f32)),
    )
    params = (Param("from", f32, True, True), Param("to", f32, True), Param("N", i64), Param("M", i64))
    source = render(copy_program(functions=(Function("copy kernel", params, body),), entry=())).source
    assert "for (int64_t i = N - 1; i > -1; i--) {" in source
    assert "for (int64_t i = 0; M > 0 ? i < N : i > N; i += M) {" in source
    assert "  float x = 1.0f;\n" in source and "    const float x = from[i];\n" in source


def test_iterations_of_a_queue_are_for_the_next_thread_that_is_free():
    params = (Param("from", f32, True, True), Param("to", f32, True), Param("N", i64))
    loops = tuple(For("i", ZERO, N, (StoreTo("to", i, load("from", f32, i)),), pragma=pragma) for pragma in ("workshare", "queue"))
    text = render(copy_program(functions=(Function("copy kernel", params, (Region((loops[0], Barrier(), loops[1])),)),))).source
    assert (
        "#pragma omp for nowait schedule(dynamic)" in text.split("#pragma omp barrier")[1]
        and "schedule(static)" in text.split("#pragma omp barrier")[0]
    )


def test_threads_have_copies_of_what_iterations_only_read():
    params = (Param("from", f32, True, True), Param("to", f32, True), Param("N", i64))
    half = (Define("middle", N.dtype, floordiv(N, const(2)), False),)
    body = (Define("at", N.dtype, i + var("middle"), False), StoreTo("to", i, load("from", f32, var("at"))))
    parallel = For("i", ZERO, floordiv(N, const(2)), body, pragma="parallel")
    text = render(copy_program(functions=(Function("copy kernel", params, (*half, parallel)),))).source
    assert "#pragma omp parallel firstprivate(from, to, middle) if (!omp_in_parallel())\n" in text
    own = (Scratch("own", f32, const(8)), StoreTo("own", ZERO, load("from", f32, i)), StoreTo("to", i, load("own", f32, ZERO)))
    with_memory = For("i", ZERO, N, own, pragma="parallel")  # and memory of its own
    text = render(copy_program(functions=(Function("copy kernel", params, (with_memory,)),))).source
    assert "#pragma omp parallel firstprivate(from, to) if (!omp_in_parallel())\n" in text
    inner = Function("inner", params, ())
    called = For("i", ZERO, N, (Call("inner", ("from", "to", N)),), pragma="parallel")
    text = render(copy_program(functions=(inner, Function("copy kernel", params, (called,))))).source
    assert "#pragma omp parallel if (!omp_in_parallel())\n" in text
