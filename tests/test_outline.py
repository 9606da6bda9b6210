"""One iteration of a parallel loop as a function of its own."""

from __future__ import annotations

import re

import luminal
import numpy as np
import pytest


def test_what_an_iteration_only_asks_for_is_a_parameter_too() -> None:
    """Of a complex value whose imaginary part nobody needs, hints are left."""
    inverse = luminal.compile("irfft", runtime="reference")
    x = np.fft.rfft(np.random.default_rng(4).standard_normal((3, 8))).astype(np.complex64)
    np.testing.assert_allclose(inverse(x), np.fft.irfft(x), atol=1e-6)


def emitted(batches: str) -> str:
    """The source of matrix products, perhaps some of them side by side."""
    ports = f"((A{{f32}}[{batches} M K] B{{f32}}[{batches} K N]) -> (C{{f32}}[{batches} M N]))"
    return luminal.compile(f"(composite p {ports} (return (matmul A B)))", target="x86-64-v3").source


def calls(source: str) -> list[list[str]]:
    """What the function is called with, by one thread and by each of a team."""
    return [m[1].split(", ") for m in re.finditer(r"^ +p_0_each\((.*)\);$", source, re.MULTILINE)]


def test_iterations_are_a_range() -> None:
    """One thread calls once, so that what does not move is found out once; a team calls for each iteration."""
    alone, team = calls(emitted(""))
    (begin,) = (k for k, argument in enumerate(alone) if argument == "0")
    assert team[begin + 1] == f"{team[begin]} + 1" and alone[begin + 1] != "1"
    assert alone[:begin] + alone[begin + 2 :] == team[:begin] + team[begin + 2 :]


def test_one_thread_divides_nothing() -> None:
    """What stands for two loops is two where one thread runs it; a team divides once for each iteration."""
    source = emitted("Q")
    pieces = re.findall(r"^static void p_0_each\w*\(.*?^}$", source, re.DOTALL | re.MULTILINE)
    assert len(pieces) == 2 and not any("floordiv_i64" in piece or "mod_i64" in piece for piece in pieces)
    alone, team = calls(source)
    assert not any("div" in argument for argument in alone) and [argument.split("(")[0] for argument in team if "(" in argument] == [
        "mod_i64",
        "mod_i64",
        "floordiv_i64",
    ]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize(("rows", "depth", "columns"), [(0, 3, 5), (7, 0, 5), (13, 4, 0), (13, 4, 50), (29, 3, 97)])
def test_meaning(batch: int, rows: int, depth: int, columns: int) -> None:
    product = luminal.compile("matmul")
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((batch, rows, depth)).astype("f4"), rng.standard_normal((batch, depth, columns)).astype("f4")
    np.testing.assert_allclose(product(a, b), a @ b, rtol=1e-5, atol=1e-5)
