"""Vectors divided by one number (`passes/share_divisors.py`): where the instruction stands, and that its results are the division's, bit by bit."""

from __future__ import annotations

import ctypes
import itertools
import re
import shutil
import subprocess
import sys
from pathlib import Path

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Compilation, Settings, compilations
from luminal.ir.dtypes import f32, f64
from luminal.ir.instructions import QUOTIENT
from luminal.ir.program import Block, For, If, statements
from luminal.ir.quotients import rounded
from luminal.ir.walks import postorder
from luminal.passes.share_divisors import RANGES

SEED = 4
BY_SUM = "(composite by_sum ((X{T}[M N] D{T}[M K]) -> (Y{T}[M N])) (return (/ X (sum D :axis 1 :keepdims t))))"
V4 = "x86-64-v4"


def quotients(text: str, **settings) -> tuple[int, int]:
    """Instructions and divisions of vectors in loops of the program."""
    (found,) = compilations(text, Settings(runtime="clang", **{"target": V4} | settings))
    nodes = [
        n
        for f in found.program.functions
        for loop in statements(f.body)
        if isinstance(loop, For)
        for s in loop.body
        for n in postorder(*s.expressions())
        if n.dtype.lanes > 1
    ]
    return sum(n.op == "ins" and n.attr == QUOTIENT.name for n in nodes), sum(n.op == "div" for n in nodes)


@pytest.mark.parametrize(
    ("text", "settings", "shared", "divided"),
    [
        (BY_SUM, {}, True, False),
        (BY_SUM, {"dtype": {"T": "f64"}}, True, False),
        (BY_SUM, {"target": "x86-64-v3"}, False, True),  # its divider keeps up
        (BY_SUM, {"fast": True}, False, False),  # times the reciprocal
        ("(composite third ((X{T}[N]) -> (Y{T}[N])) (return (/ X 3)))", {}, True, False),
        ("(composite half ((X{T}[N]) -> (Y{T}[N])) (return (/ X 2)))", {}, False, True),  # a product already
        ("(composite below ((X{T}[N]) -> (Y{T}[N])) (return (/ X -3)))", {}, False, True),
        ("(composite each ((X{T}[N] Z{T}[N]) -> (Y{T}[N])) (return (/ X Z)))", {}, False, True),
    ],
)
def test_where_it_stands(text: str, settings: dict, shared: bool, divided: bool) -> None:
    found = quotients(text, **settings)
    assert (found[0] > 0, found[1] > 0) == (shared, divided)


@pytest.mark.parametrize(
    ("text", "divided"),
    [
        ("(composite scaled ((X{T}[M N]) -> (Y{T}[M N])) (return (/ (* X (rsqrt N)) 50)))", False),
        ("(composite scaled ((X{T}[M N]) -> (Y{T}[M N])) (return (/ (* (sqrt (* M N)) X) 3)))", False),
        ("(composite scaled ((X{T}[M N]) -> (Y{T}[M N])) (return (/ (* X 7) 3)))", False),
        ("(composite scaled ((X{T}[M N]) -> (Y{T}[M N])) (return (/ (* X (rsqrt N)) 0.3)))", True),  # of what overflows before the division
        (
            "(composite scaled ((X{T}[M N] s{T}[M]) -> (Y{T}[M N])) (return (/ (* X (unsqueeze s :axis 1)) 50)))",
            True,
        ),  # a quotient that may be denormal
        ("(composite scaled ((X{T}[M N]) -> (Y{T}[M N])) (return (/ (* X X) 50)))", True),
    ],
)
def test_a_factor_made_of_sizes_is_divided_itself(text: str, divided: bool) -> None:
    instructions, divisions = quotients(text)
    assert divisions == 0 and (instructions > 0) == divided


@needs_cc
def test_the_factor_is_divided_before_the_product() -> None:
    """Two roundings, at any number of elements, none at all included."""
    f = luminal.compile("(composite scaled ((X{f32}[M N]) -> (Y{f32}[M N])) (return (/ (* X (rsqrt N)) 50)))", target="native")
    x = np.random.default_rng(SEED).standard_normal((3, 1000)).astype(np.float32)
    for n in (1, 15, 16, 17, 1000):
        expected = x[:, :n].astype(np.float64) / np.sqrt(n) / 50
        np.testing.assert_allclose(f(np.ascontiguousarray(x[:, :n])), expected, rtol=3 * 2.0**-24)
    assert f(np.zeros((2, 0), np.float32)).shape == (2, 0)


def test_the_reciprocal_is_computed_before_the_loop() -> None:
    (found,) = compilations(BY_SUM, Settings(runtime="clang", target=V4))
    for s in (s for f in found.program.functions for s in statements(f.body)):
        inside = [n for n in postorder(*s.expressions()) if n.op == "ins" and n.attr == QUOTIENT.name]
        assert all(n.args[2].args[0].op == "var" for n in inside)


def hard(kind: type, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Dividends for each of many divisors: any bits, all that is special, quotients that are nearly half way between two numbers, ties among denormal ones."""
    rng = np.random.default_rng(seed)
    info = np.finfo(kind)
    least, most = RANGES[f32 if kind is np.float32 else f64]
    special = [0.0, np.inf, np.nan, 1, 3, info.max, info.tiny, info.smallest_subnormal, least, most, info.tiny * 5, info.max / 3]
    divisors = [*special, *(-x for x in special), *(np.nextafter(kind(x), kind(y)) for x, y in itertools.product((1, 2, least, most), (0, np.inf)))]
    divisors += [*rng.standard_normal(40), *np.exp2(rng.uniform(-info.maxexp + 2, info.maxexp - 2, 40)), *range(5, 40)]
    d = np.array(divisors, kind)
    bits = rng.integers(0, 256, 2000 * info.dtype.itemsize, dtype=np.uint8).view(kind)
    with np.errstate(all="ignore"):
        near = (1 + rng.integers(0, 1 << 20, 3000) * info.eps + info.eps / 2).astype(np.longdouble) * d[:, None]
        ties = np.arange(1, 3000, 2) * info.smallest_subnormal * np.maximum(1, np.abs(d[:, None]) // 2)
        rows = [np.broadcast_to(np.array([*special, *(-x for x in special)], kind), (len(d), 2 * len(special)))]
        rows += [
            np.broadcast_to(np.concatenate([bits, rng.standard_normal(2000).astype(kind)]), (len(d), 4000)),
            near.astype(kind),
            ties.astype(kind),
        ]
    return np.concatenate(rows, 1).astype(kind), d


@needs_cc
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("cc", ["", "gcc"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_same_bits_as_a_division(kind: type, cc: str) -> None:
    x, d = hard(kind, SEED)
    config = {"CC": cc, "OMP": False} if cc else {"OMP": False}
    composite = luminal.compile(BY_SUM, dtype={"T": {np.float32: "f32", np.float64: "f64"}[kind]}, target="native", config=config)
    y, expected = composite(x, d[:, None]), x / (d + kind(0))[:, None]
    unsigned = {4: np.uint32, 8: np.uint64}[x.itemsize]
    same = (y.view(unsigned) == expected.view(unsigned)) | (np.isnan(y) & np.isnan(expected))
    at = np.argwhere(~same)
    assert not len(at), [(x[i, j], d[i], y[i, j], expected[i, j]) for i, j in at[:5]]


SCORES = '(composite scores ((Q{f32}[N D] K{f32}[M D] V{f32}[M E]) -> (O{f32}[N E])) (setf s (/ (einsum "id,jd->ij" Q K) (sqrt D))) (return (einsum "ij,je->ie" (softmax s :axis -1) V)))'


def on_a_gpu() -> Compilation:
    return compilations(SCORES, Settings(runtime="cuda", target="sm_80"))[0]


def test_a_nest_of_a_gpu_asks_once_what_it_divides_by() -> None:
    """Under one condition all divisions of an unrolled nest are products that are corrected; else all of them stay."""
    asked = [s for f in on_a_gpu().program.functions for s in statements(f.body) if isinstance(s, If) and s.orelse]

    def counted(block: Block) -> tuple[int, int]:
        nodes = [n for s in statements(block) for e in s.expressions() for n in postorder(e)]
        return sum(n.op == "ins" and n.attr == QUOTIENT.name for n in nodes), sum(n.op == "div" for n in nodes)

    found = [(counted(s.body), counted(s.orelse)) for s in asked]
    assert found and set(found) == {((1, 0), (0, 1))}  # the reciprocal is made before the loops


@pytest.mark.skipif(not shutil.which("g++"), reason="the device's own text, compiled for the host")
def test_the_quotient_of_a_gpu_is_the_division(tmp_path: Path) -> None:
    text = re.search(r"^static[^\n]* float quotient_f32\(.*?^}\n", on_a_gpu().rendered.source, re.DOTALL | re.MULTILINE)
    assert text
    (tmp_path / "q.cpp").write_text(
        "#include <math.h>\n#define __CUDA_ARCH__ 800\n#define __host__\n#define __device__\n#define __forceinline__ inline\n"
        + text[0]
        + 'extern "C" void all(const float *a, const float *b, float *y, int n) { for (int k = 0; k < n; k++) y[k] = quotient_f32(a[k], b[k], 1 / b[k]); }\n'
    )
    made = tmp_path / "q.so"
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-ffp-contract=off", str(tmp_path / "q.cpp"), "-o", str(made)], check=True, timeout=120)
    rng = np.random.default_rng(SEED)
    n = 1 << 20
    least, most = RANGES[f32]
    b = np.exp2(rng.uniform(np.log2(least), np.log2(most), n)).astype("f4").clip(least, most)
    a = (rng.choice([-1, 1], n) * np.exp2(rng.uniform(-40, 60, n))).astype("f4")
    a[:6] = 0, -0.0, np.inf, -np.inf, np.nan, 1
    y = np.empty(n, "f4")
    pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (a, b, y)]
    ctypes.CDLL(str(made)).all(*pointers, n)
    np.testing.assert_array_equal(y, a / b)
    assert (np.signbit(y) == np.signbit(a))[:4].all()


def test_nearest_numbers() -> None:
    """As numpy rounds, also beyond the range and among denormal numbers."""
    bits = np.random.default_rng(SEED).integers(0, 1 << 63, 2000).view(np.float64)
    some = [*bits, 3.4028235677973366e38, 3.4e38, 1e-45, 7e-46, 0.1, -0.0, np.inf, -1e300]
    with np.errstate(over="ignore"):
        for value in map(float, some):
            if value == value:
                assert np.float32(value).tobytes() == np.float32(rounded(value, f32)).tobytes()
                assert rounded(value, f64) == value


def test_numpy_is_not_opened() -> None:
    """By a division by a literal: that takes as long as all passes."""
    text = "from luminal.compiler import Settings, compilations; import sys; next(iter(compilations('hardsigmoid', Settings(target='x86-64-v4')))).run(); print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, check=True).stdout.strip() == "False"
