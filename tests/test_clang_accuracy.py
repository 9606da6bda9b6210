"""The vector polynomials over wide ranges: within 2 ULP of the wider type's libm, special values and signs of zero right."""

import re
import shutil
from pathlib import Path

import fit_places
import luminal
import numpy as np
import pytest
from compilers import FAMILIES
from luminal.ir.dtypes import f32, f64, i64
from luminal.ir.expr import ZERO, call, const, make, size, var
from luminal.ir.graph import Port, Size
from luminal.ir.program import Call, For, Function, Param, Program, StoreTo
from luminal.runtimes import find

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

ROOT_PI = 2 * np.sqrt(np.arctan(np.longdouble(1)))


def erf(x):
    """The series of positive terms below 3, the continued fraction above (Abramowitz & Stegun 7.1.6, 7.1.14), in the operand's precision."""
    a = np.abs(x)
    found = np.where(np.isnan(x), x, np.ones_like(x))  # from 9 on, to the last place of 80 bits
    small, big = a[a < 3], a[(a >= 3) & (a < 9)]
    term = total = small
    for n in range(1, 120):
        term = term * 2 * small * small / (2 * n + 1)
        total = total + term
    tail = big
    for n in range(300, 0, -1):
        tail = big + n / x.dtype.type(2) / tail
    root = x.dtype.type(ROOT_PI)
    found[a < 3], found[(a >= 3) & (a < 9)] = 2 * np.exp(-small * small) / root * total, 1 - np.exp(-big * big) / root / tail
    return np.copysign(found, x)


REFERENCE = {
    "exp2": np.exp2, "exp": np.exp, "expm1": np.expm1, "log2": np.log2, "log": np.log, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "erf": erf,
}  # fmt: skip
NAMES = tuple(REFERENCE)
N, i = size("N"), var("i")
SEED, EACH = 5, 1 << 15
MACHINES = (("native", "gcc"), ("x86-64-v3", "gcc"), ("x86-64", "gcc"), ("native", "clang"))


def inputs(kind):
    """Random bit patterns, moderate and large values, near 1, near multiples of pi/2, special values."""
    rng = np.random.default_rng(SEED)
    bits = rng.integers(0, 256, EACH * np.dtype(kind).itemsize, dtype=np.uint8).view(kind)
    scales = [rng.standard_normal(EACH) * s for s in (1e-3, 1, 20, 700, 3e4)]
    turns = np.longdouble("1.57079632679489661923132169163975144") * np.arange(EACH)
    info = np.finfo(kind)
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1,
        -1,
        info.max,
        -info.max,
        info.tiny,
        info.smallest_subnormal,
        -info.smallest_subnormal,
        128,
        -149,
        1024,
        -1074,
    ]
    parts = [bits, 1 + rng.standard_normal(EACH) * 0.01, *scales, turns, np.resize(np.array(special, kind), 64)]
    return np.concatenate([np.asarray(p, kind) for p in parts])


class Exact:
    """The values that are wanted, and what an error in them is counted in."""

    def __init__(self, exact, kind):
        """A unit is that of the last place of the exact value."""
        info = np.finfo(kind)
        self.value, self.largest, self.rounded = exact, info.max, exact.astype(kind)
        _, e = np.frexp(np.abs(exact))
        self.unit = np.maximum(np.ldexp(np.ones_like(exact), e - 1 - info.nmant), np.asarray(info.smallest_subnormal, exact.dtype))

    def error(self, found):
        """In units; where the exact value rounds to infinity, the largest finite number is one unit off."""
        rounded = self.rounded
        distance = np.abs(found.astype(self.value.dtype) - self.value) / self.unit
        distance = np.where(np.isinf(rounded) & (np.abs(found) == self.largest) & (np.sign(found) == np.sign(rounded)), 1, distance)
        distance = np.where((found == rounded) | (np.isnan(found) & np.isnan(rounded)), np.where(np.isfinite(rounded), distance, 0), distance)
        return np.where(np.isnan(rounded) & np.isnan(found), 0, np.where(np.isnan(distance), np.inf, distance))


def computed(x, d, march, family, folder):
    """What a library for a machine makes of x, by the name of the function."""
    lanes = 64 // d.bytes
    runtime = find("clang")
    target = runtime.target(march, {"CC": FAMILIES[family], "OMP": False}, False)
    functions = []
    for name in NAMES:
        loop = For("i", ZERO, N, (StoreTo("Y", i, call(name, make("vload", d.vector(lanes), (i,), "X"))),), const(lanes))
        functions.append(Function(f"k_{name}", (Param("X", d, True, True), Param("Y", d, True), Param("N", i64)), (loop,)))
    ports = (Port("X", d, (N,), "in"), *(Port(f"Y_{name}", d, (N,), "out") for name in NAMES))
    program = Program(
        "accuracy", (Size("N", multiple=lanes),), ports, tuple(functions), tuple(Call(f"k_{name}", ("X", f"Y_{name}", N)) for name in NAMES)
    )
    path = folder / f"{march}_{family}.so"
    runtime.build(runtime.render(program, target, "lm_"), target, "shared", path, 240, [])
    found = {name: np.empty_like(x) for name in NAMES}
    assert len(x) % lanes == 0
    assert runtime.load(path, program, target, "lm_").call({"X": x} | {f"Y_{name}": y for name, y in found.items()}, {"N": len(x)}) == 0
    return found


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("d", "wide"), [(f32, np.float64), (f64, np.longdouble)], ids=str)
def test_within_two_ulp(d, wide, tmp_path):
    """Of all machines and compilers at once: the exact values take longer than what is compared with them."""
    kind = {f32: np.float32, f64: np.float64}[d]
    if np.finfo(wide).nmant < np.finfo(kind).nmant + 8:
        pytest.skip("no wider float here to compare with")
    x = inputs(kind)
    found = {(march, family): computed(x, d, march, family, tmp_path) for march, family in MACHINES if family in FAMILIES}
    assert found
    for name in NAMES:
        exact = Exact(REFERENCE[name](x.astype(wide)), kind)
        for machine, values in found.items():
            y = values[name]
            distance = exact.error(y)
            worst = int(np.argmax(distance))
            assert distance[worst] <= 2, (machine, name, x[worst], y[worst], exact.value[worst], distance[worst])
            zero = (y == 0) & (exact.value == 0)
            assert np.array_equal(np.signbit(y[zero]), np.signbit(exact.value[zero])), (machine, name)


@pytest.mark.parametrize("march", ["native", "x86-64-v3"])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_far_lanes_leave_the_others_as_they_are(name, march):
    """One lane by libm, whatever it is: the same bits for the others, and NaN of infinities."""
    f = luminal.compile(f"(composite waves ((X{{f32}}[N]) -> (Y{{f32}}[N])) (return ({name} X)))", target=march)
    x = (np.random.default_rng(SEED).standard_normal(16 * 64) * 1000).astype(np.float32)
    far = np.array([51471.5, -51472, 65536, -1e6, 1e30, np.inf, -np.inf, np.nan, np.finfo(np.float32).max, 2.0**24], np.float32)
    mixed = x.copy()
    mixed[5 :: 16 * 5][: len(far)] = far
    same = mixed.view(np.uint32) == x.view(np.uint32)
    with np.errstate(invalid="ignore"):
        alone, together, wanted = f(x), f(mixed), REFERENCE[name](mixed.astype(np.float64))
    assert np.array_equal(alone[same].view(np.uint32), together[same].view(np.uint32))
    np.testing.assert_allclose(together[~same], wanted[~same], rtol=2e-7)


def test_table_of_erf_is_as_fitted():
    text = (Path(luminal.__file__).parent / "runtimes/clang/helpers/erf.j2").read_text()
    found = re.search(r"set erf_places = (\[.*?\]) %\}", text, re.DOTALL)
    assert found
    values = np.array([float(x) for x in re.findall(r'"([^"]*)f"', found[1])]).reshape(-1, fit_places.PLACES)
    fitted = np.array(fit_places.table())
    assert values.shape == fitted.shape
    assert np.array_equal(values[:2].astype(np.float32), fitted[:2].astype(np.float32))
    assert np.allclose(values[2:], fitted[2:], rtol=1e-3, atol=1e-4)
