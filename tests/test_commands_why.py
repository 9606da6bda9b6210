"""`--why` says what stopped the raising of loops, and where a copy comes from."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from luminal.cli.main import cli

SAMPLES = Path(__file__).parent.parent / "samples"
HISTOGRAM = "(composite h ((I{i64}[N] C{f32}[M]) -> (C)) (dotimes (n N) (incf (aref C (aref I n)) 1)))"
SHIFT = "(composite s ((X{f32}[N]) -> (X)) (return (pad (slice X (0 (- N 1))) (1 0))))"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (SAMPLES / "reverse.toml", "reverse_0: the loops stay loops: X[N - n - 1] is read where another iteration stores X[n] (line 15)"),
        (SAMPLES / "floyd_warshall.toml", "floyd_warshall_0: the loops stay loops: D[i, k] is read where another iteration stores D[i, j] (line 18)"),
        (HISTOGRAM, "h_0: the loops stay loops: where C is stored is data"),
        (SHIFT, "a copy into `X`: its old contents were read to the end"),
    ],
)
def test_why(source: Path | str, said: str) -> None:
    words, text = ([str(source)], "") if isinstance(source, Path) else (["-"], source)
    done = CliRunner().invoke(cli, ["compile", *words, "--why", "--runtime", "reference", "--emit", "schedule"], input=text, catch_exceptions=False)
    assert said in done.stderr, done.stderr


def test_nothing_stops_a_matrix_product() -> None:
    done = CliRunner().invoke(cli, ["compile", str(SAMPLES / "gemm.toml"), "--why", "--emit", "schedule"], catch_exceptions=False)
    assert "stay loops" not in done.stderr and "register tile" in done.stderr
