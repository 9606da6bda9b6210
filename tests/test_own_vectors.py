"""Rows shorter than a vector of the machine's: one vector of which the first lanes are there, or, where all that is read and written lies in a row, one long axis."""

from __future__ import annotations

from typing import Any

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations

pytestmark = pytest.mark.usefixtures("plain_c")


def scripts(text: str, **settings: Any) -> str:
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v4", **settings))
    return "\n".join(line for k in found.run("schedule").kernels for line in k.schedule)


def rows(n: int, value: str = "(+ X B)") -> str:
    return f"(composite rows ((X{{f32}}[N {n}] B{{f32}}[{n}]) -> (Y)) (return {value}))"


@pytest.mark.parametrize(("n", "lanes"), [(4, 4), (5, 8), (10, 16), (15, 16)])
def test_a_short_row_is_one_vector(n: int, lanes: int) -> None:
    assert f"split j {lanes} tail=pad" in scripts(rows(n))


def test_of_the_shortest_rows_only_polynomials_are() -> None:
    assert "vectorize" not in scripts(rows(3))
    assert "split j 4 tail=pad" in scripts(rows(3, "(tanh (+ X B))"))


def test_one_hot_rows() -> None:
    assert "split j 16 tail=pad" in scripts("one_hot")


def test_a_reshape_is_a_copy() -> None:
    """Rows of rows whose length is a multiple of theirs: inner axes are one first, so that no quotient of a quotient hides that the position is the position."""
    assert "vectorize i_j_k.1" in scripts("unflatten")
    source = compilations("unflatten", Settings(runtime="clang", target="x86-64-v4"))[0].rendered.source
    loads = [line for line in source.splitlines() if "&X[" in line]
    assert loads
    assert all("load_" in line and "floordiv" not in line for line in loads if "prefetch" not in line)


@needs_cc
@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_they_hold_what_they_should(target: str) -> None:
    rng = np.random.default_rng(5)
    for n in (2, 3, 4, 7, 13):
        x, b = rng.standard_normal((9, n)).astype(np.float32), rng.standard_normal(n).astype(np.float32)
        y = np.full((11, n), 7, np.float32)  # nothing beyond the last row is touched
        function = luminal.compile(rows(n, "(tanh (+ X B))"), target=target)
        function(x, b, Y=y[1:10])
        np.testing.assert_allclose(y[1:10], np.tanh(x + b), rtol=1e-6, atol=1e-6)
        assert (y[[0, 10]] == 7).all()
