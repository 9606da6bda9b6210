"""`--fast`: divisions that share a reciprocal, the bound that this is judged by, and what it contradicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import luminal
import numpy as np
import pytest
from click.testing import CliRunner, Result
from compilers import HAS_CC
from luminal.cli.main import cli, prepare
from luminal.compiler import Settings, compilations
from luminal.ir.errors import UsageError
from luminal.ir.interpret.graph import evaluate
from luminal.ir.interpret.judge import judge
from luminal.ir.quotients import loosened

pytestmark = pytest.mark.usefixtures("plain_c")

SAMPLES = Path(__file__).parent.parent / "samples"
ROWS = "(composite rows ((X{f32}[M N] S{f32}[M]) -> (Y{f32}[M N])) (return (/ X (reshape S (M 1)))))"
EACH = "(composite each ((X{f32}[N] D{f32}[N]) -> (Y{f32}[N])) (return (/ X D)))"
TWICE = "(composite twice ((X{f32}[N] Z{f32}[N] D{f32}[N]) -> (Y{f32}[N])) (return (+ (/ X D) (sin (/ Z D)))))"
THIRD = "(composite third ((X{f32}[N]) -> (Y{f32}[N])) (return (/ X 3)))"
LOOP = (
    "(composite walk ((X{f32}[N] S{f32}[1]) -> (Y{f32}[N])) (dotimes (i n) (if (> (aref x i) 0) (setf (aref y i) (/ (aref x i) (+ 1 (aref s 0)))))))"
)


def luminal_(*words: str) -> Result:
    return CliRunner().invoke(cli, prepare(words), catch_exceptions=False, standalone_mode=False)


def kernels(source: str, **settings: Any) -> str:
    from luminal.ir import text

    (c,) = compilations(source, Settings(O=1, **settings))
    return text.show(c.module).partition("\nkernel ")[2]


@pytest.mark.parametrize(
    ("source", "divisions", "reciprocals"),
    [(ROWS, 0, 1), (EACH, 1, 0), (TWICE, 0, 2), (THIRD, 0, 0), (LOOP, 0, 1), (str(SAMPLES / "softmax.toml"), 0, 1)],
)
def test_a_reciprocal_is_for_divisors_that_are_shared(source: str, divisions: int, reciprocals: int) -> None:
    plain, fast = (kernels(source, fast=f) for f in (False, True))
    assert " / " in plain and "recip" not in plain
    assert (fast.count(" / "), fast.count("recip(")) == (divisions, reciprocals), fast


def test_a_reciprocal_is_computed_before_the_loop() -> None:
    (c,) = compilations(str(SAMPLES / "softmax.toml"), Settings(O=1, fast=True))
    body = c.rendered.source
    assert body.index("recip_f32(acc1)") < body.rindex("for (int64_t j"), body


def test_the_stated_bound_of_a_quotient() -> None:
    """In f32, one ULP and no more: what docs/language.md derives; and what a product with a reciprocal really is off by comes near it."""
    (c,) = compilations(EACH, Settings())
    random = np.random.default_rng(5)
    x, d = (random.uniform(1, 2, 20000).astype(np.float32) for _ in range(2))
    sizes = {"N": x.size}
    exact, loose = (evaluate(g, {"X": x, "D": d}, sizes)["Y"] for g in (c.elaborate(), loosened(c.elaborate())))
    u = 2.0**-24
    assert np.all(loose.bound <= np.abs(exact.value) * (2 * u + u * u) * 1.001 + 2**-140)
    quotient = x * (np.float32(1) / d)
    ordinary, admitted = (judge(quotient, b, c.elaborate().ports[0].dtype) for b in (exact, loose))
    assert not ordinary.ok and admitted.ok and admitted.max_bound_ratio > 0.6
    assert not judge(quotient * np.float32(1 + 3e-7), loose, c.elaborate().ports[0].dtype).ok, "what is worse than stated is no longer admitted"


@pytest.mark.skipif(not HAS_CC, reason="needs a C compiler")
def test_kernels_are_within_the_bound_and_special_values_hold() -> None:
    rows = luminal.compile(ROWS, fast=True)
    plain = luminal.compile(ROWS)
    values = np.array([0, -0.0, 1, -3, np.inf, -np.inf, np.nan, 7e37], np.float32)
    x = np.tile(values, (values.size, 1))
    s = values.copy()
    s[-1] = np.float32(2.0**-126)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(rows(x, s), plain(x, s), rtol=1.2e-7, atol=0, equal_nan=True)


@pytest.mark.skipif(not HAS_CC, reason="needs a C compiler")
@pytest.mark.parametrize("what", ["softmax", "layer_norm", "samples/attention.toml"])
def test_a_test_run_is_judged_by_what_fast_admits(what: str) -> None:
    name = str(SAMPLES.parent / what) if "/" in what else what
    done = luminal_("compile", name, "--fast", "--test")
    assert done.return_value == 0, done.output


def test_strict_and_fast_contradict() -> None:
    with pytest.raises(UsageError, match="--strict and --fast contradict"):
        luminal_("compile", "softmax", "--strict", "--fast", "--emit", "source")
    with pytest.raises(UsageError, match="--strict and --fast contradict"):
        luminal.compile("softmax", strict=True, fast=True)


def test_fast_reaches_the_passes() -> None:
    (c,) = compilations("softmax", Settings(fast=True))
    assert c.options.fast and not c.options.strict
