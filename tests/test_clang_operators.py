"""Every operator on every dtype, as vectors and as scalars, against NumPy: one translation unit a dtype."""

import platform
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from compilers import FAMILIES
from luminal.ir.dtypes import DTYPES, bf16, bool_, f8e4m3, f8e5m2, f16, f32, f64, i64, numpy_dtype
from luminal.ir.expr import call, cast, const, floordiv, load, make, size, var
from luminal.ir.graph import Port, Size
from luminal.ir.primops import OPS
from luminal.ir.program import Call, For, Function, Param, Program, StoreTo
from luminal.runtimes import find
from luminal.runtimes.clang.driver import Driver

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

SMALL = (f16, bf16, f8e4m3, f8e5m2)
FLOATS, INTEGERS = (f64, f32), tuple(DTYPES[n] for n in ("i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"))
N = size("N")
COUNT = 64 * 9 + 5  # vectors and a scalar tail
WIDTH = find("clang").target(None, {}, False).vector_bytes or 16  # of a vector, as wide as this machine's: what a kernel is lowered to is never wider
SEED = 20261121


def pointwise(name, ports, out, expression, width=WIDTH):
    """A kernel that stores `expression(read)` for vectors of the widest dtype, then for the rest as scalars; `read(port)` loads."""
    lanes = width // max(d.bytes for _, d in (*ports, out))
    i = var("i")

    def body(count):
        def read(k):
            port, d = ports[k]
            return load(port, d, i) if count == 1 else make("vload", d.vector(count), (i,), port)

        return (StoreTo(out[0], i, expression(read, count)),)

    edge = floordiv(N, const(lanes)) * lanes
    loops = (For("i", const(0), edge, body(lanes), const(lanes)), For("i", edge, N, body(1)))
    params = tuple(Param(p, d, True, True) for p, d in dict(ports).items())
    return Function(name, (*params, Param(out[0], out[1], True), Param("N", i64)), loops)


OPTIMISED = (
    "f32",
    "i32",
)  # whose casts and integer operators are compiled as ever; -O3 takes gcc four times as long as -O1 for those of the others, and that no C is undefined is asked below


@contextmanager
def optimised(d):
    flags = Driver.flags
    with pytest.MonkeyPatch.context() as patch:
        if d.name not in OPTIMISED:
            patch.setattr(Driver, "flags", lambda *of: tuple("-O1" if f == "-O3" else f for f in flags(*of)))
        yield


def build(tmp_path, name, functions, **config):
    """The loaded library of an entry that calls every function on its own parameters."""
    roles = {}
    for f in functions:
        for p in f.params:
            if p.pointer:
                roles.setdefault(p.name, (p.dtype, "in" if p.const else "out"))
    declared = tuple(Port(p, d, (N,), role) for p, (d, role) in roles.items())
    calls = tuple(Call(f.name, tuple(N if p.name == "N" else p.name for p in f.params)) for f in functions)
    program = Program(name, (Size("N"),), declared, tuple(functions), calls)
    runtime = find("clang")
    target = runtime.target(None, {"CC": "gcc"} | config, False)
    path = tmp_path / f"{name}.so"
    runtime.build(runtime.render(program, target, "lm_"), target, "shared", path, 120, [])
    return runtime.load(path, program, target, "lm_")


def values(d, seed):
    """Special values, then random bits, then moderate numbers."""
    rng = np.random.default_rng(SEED + seed)
    kind = numpy_dtype(d)
    if d is bool_:
        return rng.integers(0, 2, COUNT).astype(bool)
    bits = rng.integers(0, 256, COUNT * d.bytes, dtype=np.uint8).view(kind)
    if d.is_float:
        info = ml_dtypes.finfo(kind)
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, 1.5, 2.5, -2.5, info.max, info.min, info.tiny, info.smallest_subnormal, 3, -3]
        moderate = (rng.standard_normal(COUNT) * 4).astype(kind)
    else:
        special = [0, 1, d.max, d.min, 2, 3, d.bits - 1, d.bits % (d.max + 1), 7, d.max - 1] + (
            [-1, -2, -3, -7, d.min + 1] if d.kind == "int" else []
        )
        moderate = rng.integers(0 if d.kind == "uint" else -20, 20, COUNT).astype(kind)
    fixed = np.array(rng.choice(np.array(special, dtype=object), 400), dtype=kind)
    with np.errstate(all="ignore"):
        return np.concatenate([fixed, bits[:100], moderate])[:COUNT]


def ulps(found, exact, kind):
    """Distance in units of the last place of the exact value; 0 where both are the same infinity or NaN."""
    info = np.finfo(kind)
    with np.errstate(all="ignore"):
        _, e = np.frexp(np.abs(exact))
        unit = np.maximum(np.ldexp(np.ones_like(exact), e - 1 - info.nmant), np.asarray(info.smallest_subnormal, exact.dtype))
        rounded = exact.astype(kind)
        same = (np.isnan(found) & np.isnan(rounded)) | (found == rounded)
        distance = np.where(same, 0, np.abs(found.astype(exact.dtype) - exact) / unit)
    return np.where(np.isnan(distance), np.inf, distance)


FLOAT_REFERENCE = {
    "log2": np.log2, "exp2": np.exp2, "sin": np.sin, "sqrt": np.sqrt, "recip": lambda x: 1 / x, "add": np.add, "mul": np.multiply, "sub": np.subtract,
    "neg": np.negative, "div": np.divide, "abs": np.abs, "sign": lambda x: np.where(x == 0, x, np.sign(x)), "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "round": np.rint, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "rsqrt": lambda x: 1 / np.sqrt(x),
    "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "max": np.maximum, "min": np.minimum, "mod": np.mod, "pow": np.power,
}  # fmt: skip
EXACT = {"add", "mul", "sub", "div", "recip", "sqrt", "neg", "abs", "sign", "floor", "ceil", "trunc", "round", "max", "min", "mod", "floordiv"}
COMPARE = {
    "less_than": np.less, "less_equal": np.less_equal, "equal": np.equal, "not_equal": np.not_equal, "isnan": np.isnan, "isinf": np.isinf,
}  # fmt: skip


def operands(name):
    return [("X", "Y", "Z")[k] for k in range(OPS[name].arity)]


@pytest.mark.parametrize("family", [f for f in ("gcc", "clang") if f in FAMILIES])
@pytest.mark.parametrize("d", FLOATS, ids=str)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_floats(d, family, tmp_path):
    kind, wide = numpy_dtype(d), {f32: np.float64, f64: np.longdouble}[d]
    names = [*FLOAT_REFERENCE, "floordiv", "fma"]
    functions = [
        pointwise(f"k_{n}", [(p, d) for p in operands(n)], (f"o_{n}", d), lambda r, c, n=n: call(n, *(r(k) for k in range(OPS[n].arity))))
        for n in names
    ]
    functions += [
        pointwise(f"k_{n}", [(p, d) for p in operands(n)], (f"o_{n}", bool_), lambda r, c, n=n: call(n, *(r(k) for k in range(OPS[n].arity))))
        for n in COMPARE
    ]
    functions.append(
        pointwise("k_where", [("X", d), ("Y", d)], ("o_where", d), lambda r, c: call("where", call("less_than", r(0), r(1)), r(1), call("neg", r(0))))
    )
    library = build(tmp_path, f"floats_{d}", functions, CC=FAMILIES[family], OMP=False)  # two OpenMP libraries in a process are one too many
    data = {p: values(d, k) for k, p in enumerate("XYZ")}
    outs = {f"o_{n}": np.empty(COUNT, kind) for n in (*names, "where")} | {f"o_{n}": np.empty(COUNT, bool) for n in COMPARE}
    assert library.call(data | outs, {"N": COUNT}) == 0
    exact = {p: x.astype(wide) for p, x in data.items()}
    x, y = data["X"], data["Y"]
    for n, reference in FLOAT_REFERENCE.items():
        given = data if n in EXACT else exact
        expected = reference(*(given[p] for p in operands(n)))
        distance = ulps(outs[f"o_{n}"], np.asarray(expected, wide), kind)
        worst = int(np.argmax(distance))
        bound = 0 if n in EXACT else {"rsqrt": 1.5, "pow": 4}.get(n, 2)
        assert distance[worst] <= bound, (n, [data[p][worst] for p in operands(n)], outs[f"o_{n}"][worst], expected[worst], distance[worst])
        # the sign of zero is part of the value
        zero = (outs[f"o_{n}"] == 0) & (np.asarray(expected) == 0)
        if n not in ("max", "min"):
            assert np.array_equal(np.signbit(outs[f"o_{n}"])[zero], np.signbit(np.asarray(expected))[zero]), n
    np.testing.assert_array_equal(outs["o_floordiv"], np.floor(x / y))
    fused = exact["X"] * exact["Y"] + exact["Z"]
    finite = np.isfinite(fused)
    assert np.max(ulps(outs["o_fma"], fused, kind)[finite]) <= 0.51
    for n, reference in COMPARE.items():
        np.testing.assert_array_equal(outs[f"o_{n}"], reference(*(data[p] for p in operands(n))), err_msg=n)
    np.testing.assert_array_equal(outs["o_where"], np.where(x < y, y, -x))


def integer_reference(n, d, *args):
    """Exact Python integers, wrapped to the dtype."""

    def one(*v):
        a, b = v[0], v[1] if len(v) > 1 else 0
        match n:
            case "add":
                r = a + b
            case "sub":
                r = a - b
            case "mul":
                r = a * b
            case "neg":
                r = -a
            case "abs":
                r = abs(a)
            case "sign":
                r = (a > 0) - (a < 0)
            case "max":
                r = max(a, b)
            case "min":
                r = min(a, b)
            case "floordiv":
                r = a // b if b else 0
            case "mod":
                r = a % b if b else 0
            case "fma":
                r = a * b + v[2]
            case "bit_and":
                r = a & b
            case "bit_or":
                r = a | b
            case "bit_xor":
                r = a ^ b
            case "bit_not":
                r = ~a
            case "shift_left":
                r = a << b if 0 <= b < d.bits else 0
            case "shift_right":
                r = a >> b if 0 <= b < d.bits else -1 if a < 0 else 0
            case "pow":
                r = pow(a, b, 1 << d.bits) if b >= 0 else 0
        r &= (1 << d.bits) - 1
        return r - (1 << d.bits) if d.kind == "int" and r >> (d.bits - 1) else r

    return np.array([one(*map(int, v)) for v in zip(*args, strict=True)], numpy_dtype(d))  # fmt: skip


INTEGER_OPS = [
    "add",
    "sub",
    "mul",
    "neg",
    "abs",
    "sign",
    "max",
    "min",
    "floordiv",
    "mod",
    "fma",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bit_not",
    "shift_left",
    "shift_right",
    "pow",
]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions of x86-64")
@pytest.mark.parametrize("family", [f for f in ("gcc", "clang") if f in FAMILIES])
@pytest.mark.parametrize("march", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("d", FLOATS, ids=str)
def test_a_maximum_of_any_width_compares_once(d, march, family, tmp_path):
    widths = (16, 32)
    functions = [pointwise(f"k_{w}", [("X", d), ("Y", d)], (f"o_{w}", d), lambda r, c: call("max", r(0), r(1)), w) for w in widths]
    ports = (*(Port(p, d, (N,), "in") for p in "XY"), *(Port(f"o_{w}", d, (N,), "out") for w in widths))
    calls = tuple(Call(f.name, tuple(N if p.name == "N" else p.name for p in f.params)) for f in functions)
    runtime = find("clang")
    source = tmp_path / "maxima.c"
    target = runtime.target(march, {"CC": FAMILIES[family]}, False)
    source.write_text(runtime.render(Program("maxima", (Size("N"),), ports, tuple(functions), calls), target, "lm_").source)
    command = [FAMILIES[family], "-O3", "-Wno-psabi", f"-march={march}", "-S", "-o", "-", str(source)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    unit = {f32: "ps", f64: "pd"}[d]
    assert any(f"vmax{unit}" in x and "ymm" in x for x in lines)
    assert not [x for x in lines if "vcmplt" + unit in x or "vcmpgt" + unit in x or ("ymm" in x and "kor" in x)]
    assert any("vfixupimm" + unit in x and "ymm" in x for x in lines) == (march == "x86-64-v4")


@pytest.mark.parametrize("d", INTEGERS, ids=str)
def test_integers(d, tmp_path):
    compare = {k: v for k, v in COMPARE.items() if not k.startswith("is")}
    functions = [
        pointwise(
            f"k_{n}",
            [(p, d) for p in operands(n)],
            (f"o_{n}", d if n in INTEGER_OPS else bool_),
            lambda r, c, n=n: call(n, *(r(k) for k in range(OPS[n].arity))),
        )
        for n in (*INTEGER_OPS, *compare)
    ]
    three = lambda c: const(3, d) if c == 1 else make("broadcast", d.vector(c), (const(3, d),))  # noqa: E731
    functions += [
        pointwise("k_third", [("X", d)], ("o_third", d), lambda r, c: call("floordiv", r(0), three(c))),
        pointwise("k_eighth", [("X", d)], ("o_eighth", d), lambda r, c: call("shift_right", r(0), three(c))),
    ]
    with optimised(d):
        library = build(tmp_path, f"integers_{d}", functions)
    data = {p: values(d, k) for k, p in enumerate("XYZ")}
    outs = {f"o_{n}": np.empty(COUNT, numpy_dtype(d)) for n in (*INTEGER_OPS, "third", "eighth")} | {f"o_{n}": np.empty(COUNT, bool) for n in compare}
    assert library.call(data | outs, {"N": COUNT}) == 0
    for n in INTEGER_OPS:
        np.testing.assert_array_equal(outs[f"o_{n}"], integer_reference(n, d, *(data[p] for p in operands(n))), err_msg=n)
    for n, reference in compare.items():
        np.testing.assert_array_equal(outs[f"o_{n}"], reference(data["X"], data["Y"]), err_msg=n)
    np.testing.assert_array_equal(outs["o_third"], data["X"] // 3)
    np.testing.assert_array_equal(outs["o_eighth"], data["X"] >> 3)


def test_bools(tmp_path):
    references = {
        "bit_and": np.logical_and, "bit_or": np.logical_or, "bit_xor": np.logical_xor, "equal": np.equal, "not_equal": np.not_equal,
        "less_than": lambda a, b: ~a & b, "less_equal": lambda a, b: ~a | b, "max": np.logical_or, "min": np.logical_and,
    }  # fmt: skip
    functions = [pointwise(f"k_{n}", [("X", bool_), ("Y", bool_)], (f"o_{n}", bool_), lambda r, c, n=n: call(n, r(0), r(1))) for n in references]
    mixed = lambda r, c: call("where", call("bit_and", call("bit_not", r(0)), call("less_than", r(1), r(2))), r(1), r(2))  # noqa: E731
    functions += [
        pointwise("k_mixed", [("X", bool_), ("F", f32), ("G", f32)], ("o_mixed", f32), mixed),
        pointwise("k_wide", [("X", bool_), ("F", f32), ("D", f64), ("E", f64)], ("o_wide", bool_),
                  lambda r, c: call("where", r(0), call("less_than", r(2), r(3)), call("less_than", r(1), r(1)))),
    ]  # fmt: skip
    library = build(tmp_path, "bools", functions)
    rng = np.random.default_rng(SEED)
    data = (
        {"X": values(bool_, 0), "Y": values(bool_, 1)}
        | {p: rng.standard_normal(COUNT).astype("f4") for p in "FG"}
        | {p: rng.standard_normal(COUNT) for p in "DE"}
    )
    outs = {f"o_{n}": np.empty(COUNT, bool) for n in (*references, "wide")} | {"o_mixed": np.empty(COUNT, "f4")}
    assert library.call(data | outs, {"N": COUNT}) == 0
    x, y, f, g = (data[p] for p in ("X", "Y", "F", "G"))
    for n, reference in references.items():
        np.testing.assert_array_equal(outs[f"o_{n}"], reference(x, y), err_msg=n)
        assert outs[f"o_{n}"].view(np.uint8).max() <= 1
    np.testing.assert_array_equal(outs["o_mixed"], np.where(~x & (f < g), f, g))
    np.testing.assert_array_equal(outs["o_wide"], np.where(x, data["D"] < data["E"], False))


def cast_reference(x, to):
    kind = numpy_dtype(to)
    source = x.dtype
    with np.errstate(all="ignore"):
        if to.is_integer and not np.issubdtype(source, np.integer) and source.kind != "b":
            exact = [0 if v != v else (to.max if v > 0 else to.min) if np.isinf(v) else min(max(int(v), to.min), to.max) for v in map(float, x)]
            return np.array(exact, kind)
        return x.astype(kind)


@pytest.mark.parametrize("source", [*FLOATS, *SMALL, *INTEGERS, bool_], ids=str)
def test_casts(source, tmp_path):
    targets = [d for d in (*FLOATS, *SMALL, *INTEGERS, bool_) if d is not source]
    functions = [pointwise(f"k_{d}", [("X", source)], (f"o_{d}", d), lambda r, c, d=d: cast(d.vector(c), r(0))) for d in targets]
    with optimised(source):
        library = build(tmp_path, f"casts_{source}", functions)
    data = {"X": values(source, 3)}
    outs = {f"o_{d}": np.zeros(COUNT, numpy_dtype(d)) for d in targets}
    assert library.call(data | outs, {"N": COUNT}) == 0
    for d in targets:
        expected, found = cast_reference(data["X"], d), outs[f"o_{d}"]
        different = ~((found == expected) | ((found != found) & (expected != expected)))
        assert not different.any(), (d, data["X"][different][:5], found[different][:5], expected[different][:5])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the machines are x86-64 ones")
@pytest.mark.parametrize(("march", "width"), [("x86-64", 16), ("x86-64-v3", 32)])
def test_casts_on_a_smaller_machine(march, width, tmp_path):
    """gcc 12 fails (internal compiler error) where two comparisons of vectors wider than the machine's are combined: no cast may widen what it compares."""
    targets = (f64, *SMALL, *INTEGERS, bool_)
    functions = [pointwise(f"k_{d}", [("X", f32)], (f"o_{d}", d), lambda r, c, d=d: cast(d.vector(c), r(0)), width) for d in targets]
    library = build(tmp_path, "casts_small", functions, MARCH=march)
    data, outs = {"X": values(f32, 3)}, {f"o_{d}": np.zeros(COUNT, numpy_dtype(d)) for d in targets}
    assert library.call(data | outs, {"N": COUNT}) == 0
    for d in targets:
        assert np.array_equal(outs[f"o_{d}"].view(f"u{d.bytes}"), cast_reference(data["X"], d).view(f"u{d.bytes}")) or d.is_float


def test_every_small_float_and_every_halfway_point(tmp_path):
    """Small floats to f32 and back are the identity on every value; ties and neighbours of ties round as NumPy and ml_dtypes do."""
    for small in SMALL:
        kind, bits = numpy_dtype(small), np.uint16 if small.bytes == 2 else np.uint8
        every = np.resize(np.arange(1 << small.bits).astype(bits), 1 << 16).view(kind)
        wide = every.astype(np.float32)
        with np.errstate(all="ignore"):
            halfway = ((wide.astype(np.float64) + np.roll(wide, 1).astype(np.float64)) / 2).astype(np.float32)
            near = np.concatenate([wide, halfway, np.nextafter(halfway, np.float32(np.inf)), np.nextafter(halfway, np.float32(-np.inf))])
        halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
        patterns = np.random.default_rng(SEED).integers(0, 1 << 32, 1 << 16, dtype=np.uint32).view(np.float32)
        near = np.concatenate([near, halves, patterns])
        functions = [
            pointwise("down", [("X", f32)], ("Y", small), lambda r, c, small=small: cast(small.vector(c), r(0))),
            pointwise("fall", [("D", f64)], ("Z", small), lambda r, c, small=small: cast(small.vector(c), r(0))),
            pointwise("up", [("Y", small)], ("U", f32), lambda r, c: cast(f32.vector(c), r(0))),
        ]
        library = build(tmp_path, f"every_{small}", functions)
        y, z, u = np.empty(len(near), kind), np.empty(len(near), kind), np.empty(len(near), np.float32)
        with np.errstate(all="ignore"):
            assert library.call({"X": near, "D": near.astype(np.float64), "Y": y, "Z": z, "U": u}, {"N": len(near)}) == 0
            expected = near.astype(kind)
        real = near == near
        np.testing.assert_array_equal(y.view(bits)[real], expected.view(bits)[real])
        np.testing.assert_array_equal(z.view(bits)[real], expected.view(bits)[real])
        assert np.isnan(y[~real].astype(np.float32)).all() and np.isnan(u[~real]).all()
        np.testing.assert_array_equal(u[real], expected[real].astype(np.float32))


def test_an_infinite_exponential_stays_one_when_an_addition_is_fused_with_it(tmp_path):
    """exp(x) - y where both are infinite: the products that scale the exponential are infinite before the subtraction is."""
    functions = [
        pointwise(f"{op}_{d}", [(f"X_{d}", d)], (f"{op}_{d}_out", d), lambda r, c, op=op: call("sub", call(op, r(0)), r(0)))
        for d in (f32, f64)
        for op in ("exp", "exp2")
    ]
    library = build(tmp_path, "fused", functions)
    data = {f"X_{d}": np.full(COUNT, np.inf, numpy_dtype(d)) for d in (f32, f64)}
    outs = {f"{op}_{d}_out": np.zeros(COUNT, numpy_dtype(d)) for d in (f32, f64) for op in ("exp", "exp2")}
    assert library.call(data | outs, {"N": COUNT}) == 0
    assert [name for name, found in outs.items() if not np.isnan(found).all()] == []


def test_bitcasts(tmp_path):
    pairs = [(f32, DTYPES["u32"]), (f64, i64), (DTYPES["i16"], DTYPES["u16"]), (f16, DTYPES["u16"]), (DTYPES["u8"], DTYPES["i8"])]
    functions = [
        pointwise(f"k{k}", [(f"X{k}", a)], (f"Y{k}", b), lambda r, c, b=b: call("bitcast", r(0), to=b.vector(c))) for k, (a, b) in enumerate(pairs)
    ]
    library = build(tmp_path, "bitcasts", functions)
    data = {f"X{k}": values(a, k) for k, (a, _) in enumerate(pairs)}
    outs = {f"Y{k}": np.empty(COUNT, numpy_dtype(b)) for k, (_, b) in enumerate(pairs)}
    assert library.call(data | outs, {"N": COUNT}) == 0
    for k, (_, b) in enumerate(pairs):
        assert data[f"X{k}"].tobytes() == outs[f"Y{k}"].tobytes(), b


def overflowing(tmp_path):
    """Everything that C leaves undefined on integers, and conversions to them, run under UBSan."""
    functions, data, outs = [], {}, {}
    for d in (DTYPES[n] for n in ("i64", "i32", "i8", "u16")):
        data |= {f"{p}_{d}": values(d, k) for k, p in enumerate("XYZ")}
        for n in INTEGER_OPS:
            ports = [(f"{p}_{d}", d) for p in operands(n)]
            functions.append(pointwise(f"{n}_of_{d}", ports, (f"{n}_{d}_out", d), lambda r, c, n=n: call(n, *(r(k) for k in range(OPS[n].arity)))))
            outs[f"{n}_{d}_out"] = np.empty(COUNT, numpy_dtype(d))
        for source in (f64, f16):
            data[f"S_{source}"] = values(source, 5)
            functions.append(
                pointwise(f"from_{source}_{d}", [(f"S_{source}", source)], (f"{source}_{d}_out", d), lambda r, c, d=d: cast(d.vector(c), r(0)))
            )
            outs[f"{source}_{d}_out"] = np.empty(COUNT, numpy_dtype(d))
    library = build(tmp_path, "overflowing", functions, SANITIZE="undefined", VECTOR=16)
    assert library.call(data | outs, {"N": COUNT}) == 0


def test_nothing_is_undefined(tmp_path):
    """In a child process, which UBSan ends at the first finding."""
    script = "import sys, pathlib; sys.path.insert(0, sys.argv[1]); import test_clang_operators as t; t.overflowing(pathlib.Path(sys.argv[2]))"
    done = subprocess.run([sys.executable, "-c", script, str(Path(__file__).parent), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "runtime error" not in done.stderr, done.stderr
