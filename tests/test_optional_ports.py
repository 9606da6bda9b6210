"""Optional ports: each presence is a kernel of its own, in Python, in C and in a test run."""

from __future__ import annotations

import shutil
from typing import Any

import luminal
import numpy as np
import pytest
from click.testing import CliRunner
from luminal.cli.main import main
from luminal.compiler import Settings, compilations
from luminal.ir.errors import UsageError

TEXT = """(composite affine ((X{T}[M N] W{T}[N]? B{T}[N]? s{T}[]?) -> (Y{T}[M N]))
  (setf y X)
  (if (given W) (setf y (* y W)))
  (if (given B) (setf y (+ y B)))
  (if (given s) (setf y (* y s)))
  (return y))"""


@pytest.fixture(scope="module")
def arrays() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {n: rng.standard_normal(s).astype(np.float32) for n, s in (("X", (3, 5)), ("W", (5,)), ("B", (5,)))}


@pytest.mark.parametrize("runtime", ["reference", pytest.param("clang", marks=pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"))])
def test_python_finds_the_kernel_for_what_is_passed(runtime: str, arrays: dict[str, Any]) -> None:
    f = luminal.compile(TEXT, runtime=runtime)
    x, w, b = (arrays[n] for n in "XWB")
    for _ in range(2):  # the second time by the plan of the first
        np.testing.assert_array_equal(f(x), x)
        np.testing.assert_allclose(f(x, w), x * w, rtol=1e-6)
    np.testing.assert_allclose(f(x, None, b), x + b, rtol=1e-6)
    np.testing.assert_allclose(f(x, B=b, s=2.0), 2 * (x + b), rtol=1e-6)
    np.testing.assert_allclose(f(x, w, b, 2.0), 2 * (x * w + b), rtol=1e-5)
    assert f(x, w).shape == (3, 5)
    with pytest.raises(TypeError, match="port W: expected dtype"):
        f(x, w.astype(np.float64))


def test_absence_is_part_of_the_name_and_of_the_signature() -> None:
    (found,) = compilations(TEXT, Settings(without=("w", "S")))
    assert found.name == "affine_without_W_s"
    assert [p.name for p in found.program.ports] == ["X", "B", "Y"]
    with pytest.raises(UsageError, match=r"--without Q: .* it has W, B, s"):
        compilations(TEXT, Settings(without=("Q",)))[0].elaborate()


def test_a_test_run_tries_every_presence(tmp_path: Any) -> None:
    path = tmp_path / "affine.lisp"
    path.write_text(TEXT)
    ran = CliRunner().invoke(main, ["compile", str(path), "--runtime", "reference", "--test", "M=2, N=3, s=0.5"])
    assert ran.exit_code == 0, ran.output
    names = ["affine", *(f"affine_without_{w}" for w in ("W", "B", "s", "W_B", "W_s", "B_s", "W_B_s"))]
    assert [line.split()[0] for line in ran.stdout.splitlines() if "of the bound" in line] == names
    ran = CliRunner().invoke(main, ["compile", str(path), "--runtime", "reference", "--without", "B", "--test", "M=2, N=3"])
    assert [line.split()[0] for line in ran.stdout.splitlines() if "of the bound" in line] == ["affine_without_B"]
