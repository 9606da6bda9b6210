"""Reductions of elements some apart from each other, and of rows from their end to their beginning: vectors along the row, beside float64 in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.text import show

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 3
V3 = "x86-64-v3"
SIZES = (0, 1, 2, 7, 16, 33, 300)


class Form(NamedTuple):
    ports: str
    body: str
    reference: Callable[..., np.ndarray]
    read: str  # how the program reads what lies otherwise than side by side


FORMS = {
    "every other column": Form("X{f32}[M N] -> Y", "(return (sum (slice X _ (0 N 2)) :axis 1))", lambda x: x[:, ::2].sum(1), "unzip("),
    "every third column": Form("X{f32}[M N] -> Y", "(return (sum (slice X _ (0 N 3)) :axis 1))", lambda x: x[:, ::3].sum(1), "gather.8 X"),
    "the largest of every fifth": Form("X{f32}[M N](where N > 0) -> Y", "(return (max (slice X _ (0 N 5)) :axis 1))", lambda x: x[:, ::5].max(1), "gather.8 X"),
    "real parts": Form("X{f32}[M N 2] -> Y", "(return (sum (reshape (slice X _ _ (0 1)) M N) :axis 1))", lambda x: x[:, :, 0].sum(1), "unzip("),
    "from the end": Form("X{f32}[M N] W{f32}[N] -> Y", "(return (sum (* W (flip X :axis 1)) :axis 1))", lambda x, w: (x[:, ::-1] * w).sum(1), "pick("),
    "turned round": Form("X{f64}[M N] -> Y", "(return (+ X (flip X :axis 1)))", lambda x: x + x[:, ::-1], "pick("),
    "turned round, bytes": Form("X{i8}[M N] -> Y", "(return (flip X :axis 1))", lambda x: x[:, ::-1], "pick("),
}  # fmt: skip


def text_of(name: str) -> str:
    ports, result = FORMS[name].ports.split(" -> ")
    return f"(composite apart (({ports}) -> ({result})) {FORMS[name].body})"


@pytest.mark.parametrize("name", FORMS)
def test_how_it_is_read(name: str) -> None:
    (found,) = compilations(text_of(name), Settings(runtime="clang", target=V3))
    assert FORMS[name].read in show(found.program)


@needs_cc
@pytest.mark.parametrize("name", FORMS)
def test_values(name: str) -> None:
    f, rng = luminal.compile(text_of(name), runtime="clang"), np.random.default_rng(SEED)
    drawn: dict[str, Callable[..., np.ndarray]] = {
        "f32": lambda *s: rng.standard_normal(s).astype(np.float32),
        "f64": lambda *s: rng.standard_normal(s),
        "i8": lambda *s: rng.integers(-99, 99, s, np.int8),
    }
    draw = drawn[FORMS[name].ports.split("{")[1].split("}")[0]]
    for n in SIZES[1:] if "where" in FORMS[name].ports else SIZES:
        for m in (0, 1, 5):
            shape = (m, n, 2) if "N 2]" in FORMS[name].ports else (m, n)
            arrays = [draw(*shape), *([draw(n)] if "W{" in FORMS[name].ports else ())]
            wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in arrays]
            np.testing.assert_allclose(f(*arrays), FORMS[name].reference(*wide), rtol=1e-5, atol=1e-4, err_msg=f"{name}, {shape}")
