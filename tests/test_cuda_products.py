"""`luminal compile --runtime cuda` at the command line: products, devices, exit statuses."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cuda_unit import HAS_NVCC, ROOT, needs_host
from luminal.cli.main import cli, prepare
from luminal.runtimes.cuda import driver
from test_cuda_composites import nvrtc_version

GEMM, SOFTMAX = (str(ROOT / "samples" / f"{name}.toml") for name in ("gemm", "softmax"))
needs_nvcc = pytest.mark.skipif(not (HAS_NVCC and shutil.which("nm")), reason="nvcc, the g++ that it calls, or nm is not on PATH")
needs_device_compiler = pytest.mark.skipif(not nvrtc_version() and not HAS_NVCC, reason="neither nvcc nor NVRTC works here")


def luminal(*words: str) -> Result:
    """In this process; errors come as they are."""
    return CliRunner().invoke(cli, prepare(list(words)), standalone_mode=False)


def compiled(*words: str) -> None:
    done = luminal("compile", *words)
    assert done.exception is None, done.exception


@pytest.fixture(autouse=True)
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "device_count", lambda: 0)
    driver.native_architecture.cache_clear()


def test_source(tmp_path: Path) -> None:
    compiled(GEMM, "--runtime", "cuda", "-o", str(tmp_path / "gemm.cu"))
    compiled(GEMM, "--runtime", "cuda", "-o", str(tmp_path / "gemm.h"))
    assert "__global__" in (tmp_path / "gemm.cu").read_text() and "int32_t lm_gemm(" in (tmp_path / "gemm.h").read_text()


@needs_device_compiler
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90a"])
def test_ptx_and_cubin(architecture: str, tmp_path: Path) -> None:
    tool = "nvrtc" if nvrtc_version() else "auto"
    for source, product in ((GEMM, "gemm.ptx"), (SOFTMAX, "softmax.cubin")):
        compiled(source, "--runtime", "cuda", "--target", architecture, "-c", f"TOOL={tool}", "-o", str(tmp_path / product))
    ptx = (tmp_path / "gemm.ptx").read_text()
    assert f".target {architecture}" in ptx and ".entry lm_gemm_0(" in ptx
    assert (tmp_path / "softmax.cubin").read_bytes()[:4] == b"\x7fELF"


@needs_device_compiler
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_tensor_cores_multiply_what_is_in_registers(dtype: str, tmp_path: Path) -> None:
    """Fragments and sums have no address, and operands come in pieces of 16 bytes."""
    tool = "nvrtc" if nvrtc_version() else "auto"
    compiled("matmul", "--dtype", f"T={dtype}", "--runtime", "cuda", "--target", "sm_80", "-c", f"TOOL={tool}", "-o", str(tmp_path / "matmul.ptx"))
    entries = (tmp_path / "matmul.ptx").read_text().split(".entry ")
    products = f"mma.sync.aligned.m16n8k16.row.col.f32.{dtype}.{dtype}.f32"
    on_cores = sorted((e for e in entries if products in e), key=lambda e: e.count(products))
    for entry, (rows, columns, loops) in zip(on_cores, ((2, 4, 1), (4, 4, 1), (2, 4, 2), (4, 8, 2), (4, 8, 2)), strict=True):
        assert entry.count(products) == rows * columns * 2 * loops
        assert entry.count("ldmatrix.sync.aligned.m8n8.x4.") == (rows + columns // 2) * 2 * loops
        assert bool("cp.async.cg.shared.global" in entry and re.search(r"cp\.async\.wait_group\s+[12];", entry)) == (
            loops == 2
        )  # over whole pieces, and over the rest
        assert ".local" not in entry


@needs_nvcc
@pytest.mark.parametrize("source", [GEMM, SOFTMAX], ids=["gemm", "softmax"])
def test_nvcc_makes_libraries_that_link(source: str, tmp_path: Path) -> None:
    name = Path(source).stem
    for suffix in ("a", "cubin") if source == GEMM else ("so",):
        compiled(source, "--runtime", "cuda", "--target", "sm_80", "-o", str(tmp_path / f"{name}.{suffix}"))
    library = tmp_path / f"{name}.{'a' if source == GEMM else 'so'}"
    symbols = subprocess.run(["nm", *([] if source == GEMM else ["-D"]), str(library)], capture_output=True, text=True, check=True).stdout
    assert f" T lm_{name}\n" in symbols and " W lm_strerror\n" in symbols


def test_without_nvcc_a_folder_gets_what_nvrtc_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which
    monkeypatch.setattr(driver.shutil, "which", lambda name, *rest: None if name == "nvcc" else real(name, *rest))
    compiled(GEMM, "--runtime", "cuda", "-o", str(tmp_path / "out"))
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["gemm.cu", *(["gemm.cubin"] if nvrtc_version() else []), "gemm.h"]
    refused = luminal("compile", GEMM, "--runtime", "cuda", "-o", str(tmp_path / "gemm.so")).exception
    assert refused is not None and "nvcc" in str(refused) and getattr(refused, "exit_status", 0) == 4


@needs_host
def test_a_run_without_a_device_says_so(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_WARNED", set())
    words = ("compile", GEMM, "--runtime", "cuda", "--test", "M=3, N=5, K=7", "--config", "DEBUG=1")
    done = luminal(*words)
    assert done.exception is None and done.return_value == 0 and "pass" in done.stdout
    assert "no CUDA device here" in done.stderr
    monkeypatch.setattr(driver, "_WARNED", set())
    asked = luminal(*words, "--device", "host")
    assert asked.return_value == 0 and asked.stderr == ""


@needs_host
def test_orders_and_races_from_the_command_line() -> None:
    for config in ("DEBUG=1,SEED=0", "DEBUG=1,SEED=12345", "DEBUG=1,RACE=1"):
        done = luminal("compile", SOFTMAX, "--runtime", "cuda", "--device", "host", "--test", "batch=3, N=70", "--config", config)
        assert done.exception is None and done.return_value == 0, done.stdout


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--device", "cuda:0", "--test"), 5, "no CUDA devices here"),
        (("--device", "cuda:x", "--test"), 2, "expected cuda:N or host"),
        (("--target", "sm_70", "--emit", "source"), 2, "unknown target `sm_70`"),
        (("--config", "TOL=nvcc", "--emit", "source"), 2, "did you mean `TOOL`"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], status: int, said: str) -> None:
    error = luminal("compile", GEMM, "--runtime", "cuda", *words).exception
    assert error is not None and said in str(error) and getattr(error, "exit_status", 0) == status
