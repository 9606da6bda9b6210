"""Complex numbers: against NumPy where the interpreter has no say, through the split into components, in loops, in memory and across the C interface."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.ir.dtypes import c64
from luminal.ir.interpret.graph import evaluate
from luminal.ir.interpret.judge import judge
from luminal.ir.kernel import Module
from luminal.ir.target import Options
from luminal.ir.text import read, show
from luminal.passes.pipeline import run_pipeline
from luminal.passes.split_complex import split_complex
from running import TARGET, agree, composite, draw, outputs

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 20261129

GEMM = """(composite cgemm ((A{c64}[M K] B{c64}[K N] C{c64}[M N]) -> (C))
  (dotimes (i m) (dotimes (j n) (dotimes (p k) (incf (aref C i j) (* (aref A i p) (aref B p j)))))))"""

TENSORS = {
    "arithmetic": "((X{c64}[M N] Y{c64}[N] s{c64}[]) -> (Z{c64}[M N])) (return (- (* s (/ X (+ Y 5))) (* 2 Y) 0.5))",
    "functions": "((X{c64}[N]) -> (A{c64}[N] B{c64}[N] C{c64}[N] D{f32}[N] E{f32}[N])) (return (exp X) (log X) (sqrt X) (abs X) (angle X))",
    "powers": "((X{c64}[N] Y{c64}[N]) -> (A{c64}[N] B{c64}[N] C{c64}[N])) (return (pow X 3) (pow X -2) (pow X Y))",
    "parts": "((X{c64}[N] r{f32}[N]) -> (A{c64}[N] B{c64}[N])) (return (conj (complex r (imag X))) (complex (real X) 2))",
    "reductions": "((X{c64}[M N]) -> (A{c64}[M] B{c64}[N] C{c64}[M])) (return (sum X :axis 1) (prod X :axis 0) (mean X :axis 1))",
    "scans": "((X{c64}[M N]) -> (A{c64}[M N] B{c64}[M N])) (return (cumsum X :axis 1) (cumprod X :axis 0))",
    "choices": "((X{c64}[N] Y{c64}[N]) -> (A{c64}[N] B{bool}[N])) (return (where (< (abs X) (abs Y)) X Y) (or (= X Y) (/= X 0)))",
    "positions": "((X{c64}[N] I{i64}[N] Y{c64}[N]) -> (A{c64}[N] B{c64}[N] C{c64}[N])) (return (gather X I) (scatter Y I X :combine add) (scatter Y I X :combine mul))",
    "movement": "((X{c64}[M N]) -> (A{c64}[N M] B{c64}[M K])) (return (flip X :axis 0) (concat (pad X (0 0) (1 0)) X :axis 1))",
    "in place": "((X{c64}[N N]) -> (X)) (return (+ X (* (transpose X) (complex 0 1))))",
}  # fmt: skip
TENSORS["movement"] = TENSORS["movement"].replace("(flip X :axis 0)", "(transpose (flip X :axis 0))")
LOOPS = {
    "recurrence": "((A{c64}[N] X{c64}[N]) -> (X)) (loop (i 1 N) (setf (aref X i) (+ (* 0.5 (aref X i)) (* (aref A i) (aref X (- i 1))))))",
    "running product": "((A{c64}[N]) -> (Y{c64}[N])) (set s (complex 1 0)) (dotimes (i N) (mulcf s (aref A i)) (setf (aref Y i) s))",
    "escape": """((C{c64}[N]) -> (L{i64}[N]))
      (dotimes (i N)
        (set z (complex 0 0)) (set count 0)
        (while (< (abs z) 2) :max 9 (set z (+ (* z z) (aref C i))) (incf count))
        (setf (aref L i) count))""",
    "local array": """((A{c64}[N]) -> (Y{c64}[N]))
      (dotimes (i N)
        (make-array t c64 (2))
        (setf (aref t 0) (aref A i)) (setf (aref t 1) (* (aref t 0) (conj (aref t 0)))) (divcf (aref t 0) (+ 2 (aref t 1)))
        (setf (aref Y i) (if (/= (aref t 0) 0) (pow (aref t 0) 2) (aref t 1))))""",
    "colliding": "((A{c64}[N]) -> (H{c64}[4])) (dotimes (i N) (incf (aref H (mod (* i i) 4)) (aref A i)))",
}


def unsplit(graph: Any, level: int) -> Module:
    return run_pipeline(graph, "graph", TARGET, Options(level=level), stop_after="make_nests")


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("name", [*TENSORS, *LOOPS])
def test_the_split_keeps_the_meaning(name: str, level: int) -> None:
    graph = composite(f"(composite t {(TENSORS | LOOPS)[name]})")
    whole = unsplit(graph, level)
    split = split_complex(whole, TARGET, Options(level=level))
    assert read(show(whole)) == whole and read(show(split)) == split
    assert "c64" not in show(split).partition("\nkernel")[2]
    print("seed", SEED)
    for seed, n in enumerate((0, 1, 5)):
        sizes = {s.name: n for s in graph.sizes}
        inputs = draw(graph, sizes, seed)
        want = evaluate(graph, inputs, sizes)
        agree(outputs(whole, inputs, sizes, seed), want, graph, f"{name} in complex numbers")
        agree(outputs(split, inputs, sizes, seed), want, graph, f"{name} in components")


@pytest.mark.parametrize("name", ["arithmetic", "recurrence"])
def test_kernels_in_components_are_a_start(name: str) -> None:
    """What `--emit kernel` prints goes through the passes on kernels again."""
    split = split_complex(unsplit(composite(f"(composite t {(TENSORS | LOOPS)[name]})"), 2), TARGET, Options())
    assert split_complex(read(show(split)), TARGET, Options()) == split


def test_a_kernel_in_components_reads_well(golden: Any) -> None:
    whole = unsplit(composite(GEMM), 2)
    golden("complex_gemm.kernel", show(split_complex(whole, TARGET, Options())))


def test_loops_and_tensors_end_in_the_same_kernel() -> None:
    loops, tensors = composite(GEMM), composite(f"{GEMM.partition('(dotimes')[0]} (return (+ C (matmul A B))))")
    bodies = [show(run_pipeline(g, "graph", TARGET, Options())).partition("\nfunction")[2] for g in (loops, tensors)]
    assert bodies[0] == bodies[1]


def test_the_definition_refuses_what_is_off() -> None:
    """The bound is of each part: a right modulus with a wrong part does not pass, nor does a sum that is off in one part."""
    graph = composite("(composite t ((X{c64}[N] Y{c64}[N]) -> (A{c64}[N] B{c64}[])) (return (* X Y) (sum X)))")
    inputs = draw(graph, {"N": 50}, 0)
    expected = evaluate(graph, inputs, {"N": 50})
    x, y = inputs["X"], inputs["Y"]
    assert judge(x * y, expected["A"], c64).ok and judge(x.sum(), expected["B"], c64).ok
    assert not judge(np.conj(x * y), expected["A"], c64).ok
    assert not judge(x * y * np.complex64(1 + 1e-5j), expected["A"], c64).ok
    assert not judge(x.sum() + np.complex64(1e-3j), expected["B"], c64).ok


# ---- against NumPy

POINTS = np.array(
    [0, 1, -1, 1j, -1j, -4 + 0j, complex(-4.0, -0.0), complex(0.0, -0.0), 3 + 4j, -3 - 4j, 1e30 + 1e30j, 1e-30 - 2e-30j, 1e-40j, 3e38, 1 + 1e-6j, 0.6 + 0.8j,
     88.9 + 1.5j, -100 + 2j, 1e4j, 1e20 - 1e-20j, 1e-20 + 1e20j],
    np.complex64,
)  # fmt: skip


@needs_cc
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_at_special_points() -> None:
    """Cuts, zeros with signs, and numbers whose squares overflow or vanish, against NumPy in twice the precision."""
    f = luminal.compile(
        "(composite t ((X{c64}[N]) -> (A{f32}[N] B{f32}[N] C{c64}[N] D{c64}[N] E{c64}[N] F{c64}[N] G{c64}[N N]))"
        " (return (abs X) (angle X) (sqrt X) (log X) (exp X) (recip X) (/ (unsqueeze X :axis 1) X)))"
    )
    wide = POINTS.astype(np.complex128)
    quotients = wide[:, None] / wide[None, :]
    references = [np.abs(wide), np.angle(wide), np.sqrt(wide), np.log(wide), np.exp(wide), 1 / wide, quotients]
    for name, got, want in zip("ABCDEFG", f(POINTS), references, strict=True):
        kind = np.complex64 if np.iscomplexobj(want) else np.float32
        rounded = want.astype(kind)
        special = ~np.isfinite(rounded) | (np.abs(rounded) < 1e-37)
        size = np.abs(rounded[~special])
        assert np.all(np.abs(got[~special] - want[~special]) <= 1e-6 * size), name
        for a, b in ((got.real, rounded.real), (got.imag, rounded.imag)) if kind is np.complex64 else ((got, rounded),):
            # what overflows in one part and not in the other is said part by part
            here = special & np.isfinite(b)
            assert np.all(np.abs(a[here] - b[here]) <= 1e-6 * np.abs(b[here]) + 1e-44), name
            assert np.array_equal(np.isinf(a) | np.isnan(a), ~np.isfinite(b)), name


@needs_cc
def test_a_modulus_needs_no_wider_floats() -> None:
    """Within one ULP over all exponents, those of subnormal numbers and of the largest ones too, which have no square in f32."""
    f = luminal.compile("complex_abs", config={"OMP": False})
    kernel = f.source[f.source.index("static void complex_abs_0") :].partition("\n}")[0]
    assert "sqrt" in kernel and "f64" not in kernel and "double" not in kernel
    rng = np.random.default_rng(SEED)
    for low, high in ((0, 0x7F800000), (0, 0x00900000), (0x3F000000, 0x40000000), (0x7E800000, 0x7F7FFFFF)):
        parts = rng.integers(low, high, (2, 20000)).astype(np.int32).view(np.float32)
        x = np.empty(20000, np.complex64)
        x.real, x.imag = parts[0], -parts[1]
        exact = np.hypot(parts[0].astype(float), parts[1].astype(float))
        with np.errstate(over="ignore"):
            fits = np.isfinite(exact.astype(np.float32))
        found = f(x)
        off = np.abs(found[fits] - exact[fits]) / np.spacing(exact[fits].astype(np.float32)).astype(float)
        assert off.max() <= 1 and np.isinf(found[~fits]).all()
    special = np.array([0, complex(-0.0, 0.0), complex(np.inf, 1), complex(1, -np.inf)], np.complex64)
    np.testing.assert_array_equal(f(special), [0, 0, np.inf, np.inf])


@needs_cc
def test_python_arrays_of_every_layout() -> None:
    """Row- and column-major, strided (a stride counts complex elements), a scalar by value, in place; rows of numbers without a gap are not asked for."""
    f = luminal.compile(
        "(composite t ((A{c64}[M N]<1 0> B{c64}[M N]<0 1 :strided> s{c64}[] C{c64}[M N]) -> (C D{c64}[M])) (setf C (+ (* s C) (* A B))) (return C (sum A :axis 1)))"
    )
    rng = np.random.default_rng(SEED)
    a, b, c = ((rng.standard_normal((5, 7)) + 1j * rng.standard_normal((5, 7))).astype(np.complex64) for _ in range(3))
    wide = np.zeros((5, 11), np.complex64)
    wide[:, :7] = b
    for _ in range(2):  # the second call takes the quick way
        out = c.copy()
        first, second = f(np.asfortranarray(a), wide[:, :7], 2 - 1j, out)
        np.testing.assert_allclose(first, (2 - 1j) * c + a * b, rtol=1e-5)
        np.testing.assert_allclose(second, a.sum(1), rtol=1e-5)
        assert first is out
    with pytest.raises(TypeError, match="expected dtype c64"):
        f(np.asfortranarray(a), wide[:, :7], 1j, c.real.copy())


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_c_and_cpp_callers_pass_their_own_complex_numbers(tmp_path: Path) -> None:
    """`float _Complex` of C and `std::complex<float>` of C++ are pairs of floats, as the header says."""
    f = luminal.compile("(composite scale ((X{c64}[N] a{c64}[]) -> (Y{c64}[N])) (return (* a X)))", portable=False)
    assert "float a_re, float a_im" in f.header and "read, c64 (real part, imaginary part) [N]" in f.header
    f.save(tmp_path / "scale.c")
    f.save(tmp_path / "scale.h")
    main = """#include "scale.h"
#include <%s>
int main() { %s x[2] = {%s}, y[2];
  if (lm_scale((const float *)x, 0, 1, (float *)y, 2)) return 1;
  return !(((float *)y)[0] == -2 && ((float *)y)[1] == 1 && ((float *)y)[2] == -4 && ((float *)y)[3] == 3); }
"""
    (tmp_path / "main.c").write_text(main % ("complex.h", "float _Complex", "1 + 2 * I, 3 + 4 * I"))
    (tmp_path / "main.cpp").write_text(main % ("complex", "std::complex<float>", "{1, 2}, {3, 4}"))
    subprocess.run(["gcc", "-c", "scale.c"], cwd=tmp_path, check=True)
    for source in ["main.c", *(["main.cpp"] if shutil.which("g++") else [])]:
        compiler = "gcc" if source.endswith(".c") else "g++"
        subprocess.run([compiler, source, "scale.o", "-lm", "-o", "main"], cwd=tmp_path, check=True)
        subprocess.run(["./main"], cwd=tmp_path, check=True)
