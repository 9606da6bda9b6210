"""What README.md shows is what happens."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import luminal
import numpy as np
import pytest
from compilers import needs_cc

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text()


def block(language: str, holding: str) -> str:
    found = [b for kind, b in re.findall(r"```(\w*)\n(.*?)```", TEXT, re.DOTALL) if kind == language and holding in b]
    assert len(found) == 1, f"{len(found)} {language} blocks hold {holding!r}"
    return found[0]


@needs_cc
def test_both_definitions_are_one_kernel() -> None:
    toml, lisp = block("toml", "gemm"), block("lisp", "gemm")
    assert len(toml.strip().splitlines()) == 12
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((5, 7), (7, 3), (5, 3)))
    results = [luminal.compile(text)(a, b, c.copy()) for text in (toml, lisp)]
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], c + a @ b, rtol=1e-5, atol=1e-6)


def test_the_emitted_kernel_is_the_one_shown() -> None:
    source = luminal.compile(ROOT / "samples" / "gemm.toml", target="x86-64-v3").source
    shown = [line.strip() for line in block("c", "acc_c[").strip().splitlines()]
    assert "\n".join(shown) in "\n".join(line.strip() for line in source.splitlines())


@pytest.mark.skipif(not any(shutil.which(c) for c in ("gcc", "clang")), reason="no C compiler on PATH to link with")
def test_the_c_program_links_and_runs(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "luminal.cli", "compile", str(ROOT / "samples" / "gemm.toml")], cwd=tmp_path, check=True, capture_output=True
    )
    (tmp_path / "main.c").write_text(block("c", "int main"))
    command = next(line for line in TEXT.splitlines() if line.startswith("cc main.c")).split()
    command[0] = shutil.which("gcc") or shutil.which("clang") or "cc"
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert subprocess.run(["./main"], cwd=tmp_path, check=False).returncode == 0


@needs_cc
def test_the_python_block_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    exec(block("python", "import luminal").replace("gemm(A, B, C)", "result = gemm(A, B, C)"), names)
    np.testing.assert_array_equal(names["result"], np.full((2, 4), 6, np.float32))
