"""Random numbers: the published vectors of Threefry, `rand` and `randn` in the language, what they may be given, and how they are distributed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from luminal.dsl import Scope, elaborate, read, read_file
from luminal.dsl.scope import LIBRARY
from luminal.ir.errors import SourceError
from luminal.ir.interpret.graph import evaluate
from threefry import normal, uniform

# Random123, kat_vectors: threefry2x32 of 20 rounds: counter, key, result
VECTORS = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


def run(text: str, inputs: dict[str, Any], sizes: dict[str, int]) -> list[Any]:
    composites = read(text, "random.lisp")
    graph = elaborate(composites[-1], Scope(composites))
    found = evaluate(graph, inputs, sizes)
    return [np.asarray(found[name].value) for name, _ in graph.outputs]


@pytest.mark.parametrize(("counter", "key", "result"), VECTORS)
def test_published_vectors(counter: tuple[int, int], key: tuple[int, int], result: tuple[int, int]) -> None:
    composites = read_file(LIBRARY / "random/threefry.toml")
    graph = elaborate(composites[-1], Scope(composites))
    words = [np.array([w], np.uint32) for w in counter]
    found = evaluate(graph, {"X": words[0], "Y": words[1], "K0": key[0], "K1": key[1]}, {"batch": 1})
    assert tuple(int(np.asarray(found[n].value)[0]) for n in "AB") == result


def test_seeds_may_be_literals_parameters_and_scalars_of_any_integer_dtype() -> None:
    text = """(composite draw ((S{i64}[] U{u32}[] A{f32}[M N] &key (seed 7)) -> (P Q R V))
      (return (rand (M N) :seed S) (rand (M N) :seed U) (rand (M N) :seed seed) (rand (M N) :seed (+ seed 1))))"""
    given = {"S": -3, "U": 2**32 - 5, "A": np.zeros((4, 3), np.float32)}
    expected = [uniform(np.arange(12), s, 24).reshape(4, 3) for s in (-3, 2**32 - 5, 7, 8)]
    for found, wanted in zip(run(text, given, {"M": 4, "N": 3}), expected, strict=True):
        np.testing.assert_array_equal(found.astype(float), wanted)


def test_every_float_dtype_has_its_own_digits() -> None:
    text = """(composite draw ((A{f32}[N]) -> (P Q R S))
      (return (rand N :seed 1 :dtype f64) (rand N :seed 1) (rand N :seed 1 :dtype f16) (rand N :seed 1 :dtype bf16)))"""
    found = run(text, {"A": np.zeros(100, np.float32)}, {"N": 100})
    for x, digits in zip(found, (53, 24, 11, 8), strict=True):
        np.testing.assert_array_equal(x.astype(float), uniform(np.arange(100), 1, digits))
        assert x.max() < 1


def test_distributions() -> None:
    """Mean, variance and tails of 40000 numbers, within five standard errors; no two neighbours alike."""
    n = 40000
    u, z = (
        x.astype(float)
        for x in run(
            "(composite draw ((A{f32}[N]) -> (U Z)) (return (rand N :seed 11) (randn N :seed 12)))", {"A": np.zeros(n, np.float32)}, {"N": n}
        )
    )
    for x, mean, variance, fourth in ((u, 1 / 2, 1 / 12, 1 / 80), (z, 0, 1, 3)):
        assert abs(x.mean() - mean) < 5 * np.sqrt(variance / n)
        assert abs(x.var() - variance) < 5 * np.sqrt((fourth - variance**2) / n)
        assert abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < 5 / np.sqrt(n)
    assert abs((np.abs(z) > 2).mean() - 0.0455) < 5 * np.sqrt(0.0455 / n)
    np.testing.assert_allclose(z, normal(np.arange(n), 12), rtol=1e-5, atol=1e-5)
    assert len(np.unique(u)) > 0.99 * n


@pytest.mark.parametrize(
    ("form", "code"),
    [("(rand (N))", "E0504"), ("(rand (N) :seed 0.5)", "E0318"), ("(rand (N) :seed A)", "E0318"), ("(randn (N) :seed 1 :dtype i32)", "E0303")],
)
def test_what_is_refused(form: str, code: str) -> None:
    (composite,) = read(f"(composite draw ((A{{f32}}[N]) -> (Y)) (return {form}))", "random.lisp")
    with pytest.raises(SourceError) as raised:
        elaborate(composite, Scope((composite,)))
    assert raised.value.diagnostics[0].code == code
