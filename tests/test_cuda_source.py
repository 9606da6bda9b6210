"""The text of emitted CUDA C++: what it holds, what it leaves out, and what else may be linked beside it."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cuda_unit import ROOT, needs_host, target, unit
from luminal.compiler import Compilation, Settings, compilations
from luminal.ir.program import BAD_SIZE, OVERLAP
from luminal.runtimes import find
from luminal.runtimes.cuda import nvrtc
from luminal.runtimes.cuda.driver import ARCHITECTURES, architecture_for
from test_cuda_composites import nvrtc_version

GEMM = str(ROOT / "samples" / "gemm.toml")


def one(source: str, **settings: object) -> Compilation:
    return compilations(source, Settings(runtime="cuda", **settings))[0]  # pyright: ignore[reportArgumentType]


def test_gemm_reads_like_a_kernel() -> None:
    """Five of them: one for a short sum and one for few rows, three for tiles that a block computes; the entry picks one by the sizes."""
    source = one(GEMM).rendered.source
    lines = [line.strip() for line in source.split("\n")]
    for line in (
        'extern "C" __global__ void __launch_bounds__(256, 2) lm_gemm_0_5(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, '
        "int64_t M, int64_t K, int64_t N) {",
        "__shared__ __align__(64) float A_packed[4220];",
        "__shared__ __align__(64) float B_packed[4096];",
        "float acc[64];",
        "__syncthreads();",
        "if (A == NULL && 0 < M && 0 < K) return 1; /* null pointer */",
        "return cudaGetLastError() == cudaSuccess ? 0 : 7;",
    ):
        assert line in lines, line
    assert len(re.findall(r"LM_LAUNCH\(lm_gemm_0(?:_\d)?, lm_grid\(.*\), dim3\(.*\), stream, A, B, C, M, K, N\);", source)) == 5
    assert len(lines) < 720


def test_rows_are_shared_by_threads_that_wait_for_one_another() -> None:
    source = one("softmax").rendered.source
    kernels = source.split('extern "C" __global__ ')[1:]
    assert [re.findall(r"__launch_bounds__\((\d+)\)", k)[0] for k in kernels] == [
        "256",
        "32",
        "256",
    ]  # rows of up to 16 elements, of up to 1024, longer ones
    assert [k.count("__syncthreads();") for k in kernels] == [0, 4, 4]


def test_only_what_is_used() -> None:
    relu, gemm, softmax = (one(s).rendered.source for s in ("relu", GEMM, "softmax"))
    assert "INFINITY __int" not in gemm and "INFINITY __int" in softmax
    assert "typedef unsigned char uint8_t" not in gemm
    for source in (relu, gemm, softmax):
        defined = re.findall(r"__forceinline__ \w+ (\w+)\(", source)
        assert len(defined) == len(set(defined)) and all(source.count(name) > 1 for name in defined)
    assert "lm_relu_status" not in relu and "status" in one("embedding").rendered.source
    assert "_workspace" not in gemm and "lm_attention_workspace" in one("attention").rendered.source


def test_every_loop_over_a_size_counts_in_64_bits() -> None:
    for name in ("attention", "rotary", "layer_norm"):
        source = one(name).rendered.source
        assert not re.search(r"for \((int|unsigned|int32_t) ", source) and "for (int64_t" in source


def test_prefixes_keep_two_of_a_kind_apart() -> None:
    a, b = (one(GEMM, prefix=p).rendered for p in ("a_", "b_"))
    public = re.compile(r'^extern "C" .*?(\w+)\([^()]*\) \{$', re.MULTILINE)
    for prefix, found in (("a", public.findall(a.source)), ("b", public.findall(b.source))):
        assert found[-2:] == [f"{prefix}_strerror", f"{prefix}_gemm"] and all(re.fullmatch(rf"{prefix}_gemm_0(_\d)?", n) for n in found[:-2])


ODD = """(composite double ((stream{f32}[N] threadIdx{f32}[N] lm_grid{f32}[]) -> (status{f32}[N] lm_double_0{f32}[N] dim3{f32}[N]))
  (setf workspace (+ stream threadIdx))
  (setf status (* workspace lm_grid))
  (setf lm_double_0 (exp workspace))
  (setf dim3 (cumsum workspace)))
"""


@needs_host
def test_any_name_is_a_name(tmp_path: Path) -> None:
    c = one(ODD)
    library = unit(tmp_path / "odd.so", {"lm_": c.program}, target()).library("lm_")
    x, outs = np.ones(7, np.float32), {n: np.zeros(7, np.float32) for n in ("status", "lm_double_0", "dim3")}
    assert library.call({"stream": x, "threadIdx": 2 * x, "lm_grid": 2.0, **outs}, {"N": 7}) == 0
    np.testing.assert_array_equal(outs["status"], 6 * x)
    np.testing.assert_array_equal(outs["dim3"], 3 * np.arange(1, 8))
    if nvrtc_version():
        assert nvrtc.compile_text(c.rendered.source, "sm_75", "cubin", [])


@needs_host
def test_the_functions_beside_the_entry(tmp_path: Path) -> None:
    c = one("attention", O=1)  # which stores its scores
    found = unit(tmp_path / "attention.so", {"lm_": c.program}, target())
    library = ctypes.CDLL(str(found.path))
    workspace = library.lm_attention_workspace
    workspace.restype, workspace.argtypes = ctypes.c_int64, [ctypes.c_int64] * 5
    assert workspace(1, 2, 3, 4, 5) >= 2 * 2 * 4 * 4 and workspace(0, 0, 0, 0, 0) >= 0
    assert workspace(1 << 40, 1 << 40, 1 << 40, 1 << 40, 1) == -1
    arrays = {p.name: np.ones(1, np.float32) for p in c.program.ports}
    assert found.library("lm_").call(arrays, dict.fromkeys((s.name for s in c.program.sizes), 1 << 40)) == BAD_SIZE
    same = np.ones((1, 1, 1), np.float32)
    assert found.library("lm_").call(dict.fromkeys(arrays, same), dict.fromkeys((s.name for s in c.program.sizes), 1)) == OVERLAP
    library.lm_strerror.restype = ctypes.c_char_p
    assert [library.lm_strerror(k) for k in (0, 7, 99)] == [b"no error", b"the device reported an error", b"unknown error"]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize(("language", "standard"), [("c", "c99"), ("c++", "c++17")])
def test_headers_are_clean(language: str, standard: str, tmp_path: Path) -> None:
    for name in ("attention", "embedding"):
        (tmp_path / f"{name}.h").write_text(one(name).rendered.header)
    (tmp_path / "user").write_text(
        '#include "attention.h"\n#include "embedding.h"\n#include "attention.h"\nint main(void) { return lm_strerror(0) == 0; }\n'
    )
    command = ["gcc", "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "user"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=240)


def test_the_same_bytes_whatever_the_hash_seed() -> None:
    command = [sys.executable, "-m", "luminal.cli", "compile", "rotary", "--runtime", "cuda", "--emit", "source"]
    seen = {
        subprocess.run(command, check=True, capture_output=True, timeout=240, env={**os.environ, "PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "77")
    }
    assert len(seen) == 1


def test_what_a_device_of_each_generation_gets() -> None:
    runs = {
        (7, 5): "sm_75",
        (8, 0): "sm_80",
        (8, 6): "sm_86",
        (8, 7): "sm_86",
        (8, 9): "sm_89",
        (9, 0): "sm_90a",
        (10, 3): "sm_100",
        (12, 0): "sm_120",
    }
    for capability, architecture in runs.items():
        assert architecture_for(*capability) == architecture and architecture in ARCHITECTURES
    assert architecture_for(7, 0) is None and architecture_for(15, 0) is None
    assert find("cuda").target("sm_75", {}, True).name == "sm_75"
