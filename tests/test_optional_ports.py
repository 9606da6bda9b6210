"""Optional ports: each presence is a kernel of its own, in Python, in C and in a test run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import luminal
import numpy as np
import pytest
from click.testing import CliRunner
from luminal.cli.main import cli, prepare
from luminal.compiler import Settings, compilations
from luminal.ir.errors import UsageError

pytestmark = pytest.mark.usefixtures("plain_c")

SAMPLES = Path(__file__).parent.parent / "samples"
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


def ran(*words: str) -> list[str]:
    """The names of what `compile --test` ran on the reference runtime; everything passed."""
    done = CliRunner().invoke(cli, prepare(["compile", *words, "--runtime", "reference"]), catch_exceptions=False, standalone_mode=False)
    assert done.return_value == 0, done.output
    return [line.split()[0] for line in done.stdout.splitlines() if "of the bound" in line]


def test_a_test_run_tries_every_presence(tmp_path: Path) -> None:
    path = tmp_path / "scaled.lisp"
    path.write_text("(composite scaled ((X{T}[N] B{T}[N]? s{T}[]?) -> (Y)) (setf y (if (given B) (+ X B) X)) (return (if (given s) (* y s) y)))")
    assert ran(str(path), "--test", "N=3, s=0.5") == ["scaled", "scaled_without_B", "scaled_without_s", "scaled_without_B_s"]
    assert ran(str(path), "--without", "B", "--test", "N=3") == ["scaled_without_B"]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.toml")), ids=lambda p: p.stem)
def test_every_sample_passes_its_own_test(sample: Path) -> None:
    """All presences of optional ports, and the second opinion of each."""
    done = CliRunner().invoke(cli, prepare(["compile", str(sample), "--test"]), catch_exceptions=False, standalone_mode=False)
    assert done.return_value == 0, done.output


def test_a_second_opinion_asks_for_optional_ports_as_a_body_does() -> None:
    assert len(ran(str(SAMPLES / "affine.toml"), "--test", "batch=2, N=3")) == 4
