"""Random numbers of the library: bits against published vectors and an implementation of Threefry in Python, distributions against SciPy's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from library import SEED, Array, Case, graph_of
from luminal.dsl import Scope, elaborate, read
from luminal.ir.graph import Graph
from luminal.ir.interpret.graph import evaluate
from scipy import stats

N = 4000
MASK = (1 << 32) - 1
LEAST = 1e-3  # of the p-value: one test in a thousand would fall below it, and these seeds do not


@functools.cache
def graph(name: str, *parameters: tuple[str, Any]) -> Graph:
    return graph_of(Case(name, np.asarray, dict(parameters)))[1]


def run(name: str, inputs: dict[str, Any], sizes: dict[str, int], **parameters: Any) -> tuple[Array, ...]:
    found = evaluate(graph(name, *parameters.items()), inputs, sizes, bounds=False)
    return tuple(np.asarray(found[n].value) for n, _ in graph(name, *parameters.items()).outputs)


def words(text: str) -> list[int]:
    return [int(w, 16) for w in text.split()]


# from the file kat_vectors of Random123: counter, key, result
PHILOX = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]
THREEFRY = [
    ("00000000 00000000", "00000000 00000000", "6b200159 99ba4efe"),
    ("ffffffff ffffffff", "ffffffff ffffffff", "1cb996fc bb002be7"),
    ("243f6a88 85a308d3", "13198a2e 03707344", "c4923a9c 483df7a0"),
]


@pytest.mark.parametrize(
    ("name", "ports", "vectors"), [("philox", "ABCDKL", PHILOX), ("threefry", ["X", "Y", "K0", "K1"], THREEFRY)], ids=["philox", "threefry"]
)
def test_published_vectors(name: str, ports: list[str], vectors: list[tuple[str, str, str]]) -> None:
    for counter, key, result in vectors:
        count = len(words(counter))
        values = [np.array([w], np.uint32) for w in words(counter)] + words(key)
        assert len(values) == len(ports) == count + 2
        assert [int(w[0]) for w in run(name, dict(zip(ports, values, strict=True)), {"batch": 1})] == words(result)


def threefry(x: int, y: int, k0: int, k1: int) -> tuple[int, int]:
    """Threefry-2x32-20, word by word, from the paper."""
    keys = [k0, k1, k0 ^ k1 ^ 0x1BD11BDA]
    x, y = (x + k0) & MASK, (y + k1) & MASK
    for r in range(20):
        turn = (13, 15, 26, 6, 17, 29, 16, 24)[r % 8]
        x = (x + y) & MASK
        y = ((y << turn | y >> (32 - turn)) & MASK) ^ x
        if r % 4 == 3:
            s = r // 4 + 1
            x, y = (x + keys[s % 3]) & MASK, (y + keys[(s + 1) % 3] + s) & MASK
    return x, y


def bits(position: int, seed: int) -> tuple[int, int]:
    return threefry(position & MASK, position >> 32, seed & MASK, seed >> 32 & MASK)


def test_uniform_numbers_and_integers_are_those_of_the_bits() -> None:
    seed, n = -5 & (1 << 64) - 1, 50
    pairs = [bits(p, seed) for p in range(n)]
    (u,) = run("uniform", {"Low": np.zeros(n), "High": np.ones(n), "Seed": -5}, {"batch": n})
    np.testing.assert_array_equal(u, [((a << 21) | (b >> 11)) / 2**53 for a, b in pairs])
    low, high = np.full(n, -3), np.arange(n) - 3
    (i,) = run("randint", {"Low": low, "High": high, "Seed": -5}, {"batch": n})
    np.testing.assert_array_equal(i, [-3 + (a << 32 | b) % max(k, 1) for k, (a, b) in enumerate(pairs)])


def test_the_numbers_of_positions() -> None:
    """`rand` and `randn` by their positions, as the forms of these names call them."""
    n = 50
    pairs = [bits(p, SEED) for p in range(n)]
    inputs = {"Position": np.arange(n), "Seed": SEED}
    np.testing.assert_array_equal(np.transpose(run("random_bits", inputs, {"batch": n})), pairs)
    np.testing.assert_array_equal(run("rand", inputs, {"batch": n})[0], [(a >> 8) / 2**24 for a, _ in pairs])
    u, v = np.transpose(pairs)
    expected = np.sqrt(-2 * np.log((u + 0.5) / 2**32)) * np.cos(2 * np.pi * v / 2**32)
    np.testing.assert_allclose(run("randn", inputs, {"batch": n})[0].astype(float), expected, rtol=1e-6, atol=1e-6)  # π is that of f32
    assert stats.kstest(run("randn", {"Position": np.arange(N), "Seed": SEED}, {"batch": N})[0].astype(float), stats.norm.cdf).pvalue > LEAST


def full(value: float) -> Array:
    return np.full(N, value)


DISTRIBUTIONS: list[tuple[str, dict[str, Any], Any]] = [
    ("uniform", {"Low": full(-1), "High": full(3)}, stats.uniform(-1, 4)), ("normal", {"Mean": full(2), "Deviation": full(3)}, stats.norm(2, 3)),
    ("lognormal", {"Mean": full(0.5), "Deviation": full(0.7)}, stats.lognorm(0.7, scale=np.exp(0.5))),
    ("exponential", {"Rate": full(2.5)}, stats.expon(scale=0.4)), ("laplace", {"Centre": full(1), "Scale": full(2)}, stats.laplace(1, 2)),
    ("gumbel", {"Mode": full(1), "Scale": full(2)}, stats.gumbel_r(1, 2)), ("logistic", {"Centre": full(1), "Scale": full(2)}, stats.logistic(1, 2)),
    ("cauchy", {"Centre": full(1), "Scale": full(2)}, stats.cauchy(1, 2)), ("weibull", {"Shape": full(1.5), "Scale": full(2)}, stats.weibull_min(1.5, scale=2)),
    ("pareto", {"Shape": full(3), "Least": full(2)}, stats.pareto(3, scale=2)), ("rayleigh", {"Scale": full(2)}, stats.rayleigh(scale=2)),
    *(("standard_gamma", {"Shape": full(a)}, stats.gamma(a)) for a in (0.3, 1.0, 4.5)), ("chi_square", {"Freedom": full(3)}, stats.chi2(3)),
    *(("beta", {"A": full(a), "B": full(b)}, stats.beta(a, b)) for a, b in ((0.5, 0.7), (2.0, 5.0))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "inputs", "law"), DISTRIBUTIONS, ids=[f"{k}-{d[0]}" for k, d in enumerate(DISTRIBUTIONS)])
def test_distributions(name: str, inputs: dict[str, Any], law: Any) -> None:
    print("seed", SEED)
    (x,) = run(name, {**inputs, "Seed": SEED}, {"batch": N})
    x = x.astype(float)
    assert np.isfinite(x).all()
    assert stats.kstest(x, law.cdf).pvalue > LEAST
    # neighbours have nothing to do with one another
    assert abs(stats.spearmanr(x[1:], x[:-1]).statistic) < 4 / np.sqrt(N)


COUNTS: list[tuple[str, dict[str, Any], dict[str, Any], Callable[[Array], Array]]] = [
    ("bernoulli", {"P": full(0.3)}, {}, stats.bernoulli(0.3).pmf), ("binomial", {"P": full(0.3)}, {"trials": 6}, stats.binom(6, 0.3).pmf),
    ("geometric", {"P": full(0.3)}, {}, stats.geom(0.3).pmf), ("randint", {"Low": np.full(N, -2), "High": np.full(N, 5)}, {}, stats.randint(-2, 5).pmf),
]  # fmt: skip


@pytest.mark.parametrize(("name", "inputs", "parameters", "mass"), COUNTS, ids=[c[0] for c in COUNTS])
def test_discrete_distributions(name: str, inputs: dict[str, Any], parameters: dict[str, Any], mass: Callable[[Array], Array]) -> None:
    print("seed", SEED)
    (x,) = run(name, {**inputs, "Seed": SEED}, {"batch": N}, **parameters)
    values = np.arange(-3, 16)
    expected = mass(values) * N
    common = expected > 5
    found = np.array([(x.astype(int) == v).sum() for v in values])
    rest = N - found[common].sum(), N - expected[common].sum()
    pairs = [*zip(found[common], expected[common], strict=True), *([rest] if rest[1] > 5 else [])]
    assert sum((f - e) ** 2 / e for f, e in pairs) < stats.chi2(len(pairs) - 1).isf(LEAST)
    assert found[mass(values) == 0].sum() == 0


def test_certain_and_impossible_events() -> None:
    p = np.repeat([0.0, 1.0], 500)
    np.testing.assert_array_equal(run("bernoulli", {"P": p, "Seed": SEED}, {"batch": 1000})[0], p)
    np.testing.assert_array_equal(run("randint", {"Low": np.array([4, 4]), "High": np.array([4, 5]), "Seed": SEED}, {"batch": 2})[0], [4, 4])


def test_classes_follow_their_logits() -> None:
    logits = np.log([0.1, 0.6, 0.3])
    (x,) = run("categorical", {"Logits": np.tile(logits, (N, 1)), "Seed": SEED}, {"batch": N, "N": 3})
    assert stats.chisquare(np.bincount(x, minlength=3), np.exp(logits) * N).pvalue > LEAST
    (y,) = run("categorical", {"Logits": np.tile([-np.inf, 0.0], (50, 1)), "Seed": SEED}, {"batch": 50, "N": 2})
    assert (y == 1).all()


def test_a_point_of_the_simplex() -> None:
    shapes = np.array([0.5, 1.0, 2.5])
    (x,) = run("dirichlet", {"A": np.tile(shapes, (N, 1)), "Seed": SEED}, {"batch": N, "N": 3})
    x = x.astype(float)
    np.testing.assert_allclose(x.sum(-1), 1)
    for k, a in enumerate(shapes):
        assert stats.kstest(x[:, k], stats.beta(a, shapes.sum() - a).cdf).pvalue > LEAST


def test_permutation() -> None:
    rows = np.arange(12).reshape(4, 3)
    seen = np.zeros((4, 4))
    for seed in range(80):
        (y,) = run("permutation", {"X": rows.astype(float), "Seed": seed}, {"N": 4, "D": 3})
        order = y[:, 0].astype(int) // 3
        assert sorted(order) == [0, 1, 2, 3]
        np.testing.assert_array_equal(y, rows[order])
        seen[np.arange(4), order] += 1
    assert stats.chisquare(seen.ravel(), np.full(16, 20)).pvalue > LEAST


def test_the_same_numbers_for_any_rank() -> None:
    text = "(composite f ((L{f64}[M N] H{f64}[M N]) -> (Y{f64}[M N])) (return (uniform L H 7)))"
    (c,) = read(text, "f.lisp")
    (wide,) = evaluate(elaborate(c, Scope((c,))), {"L": np.zeros((3, 4)), "H": np.ones((3, 4))}, {"M": 3, "N": 4}).values()
    (flat,) = run("uniform", {"Low": np.zeros(12), "High": np.ones(12), "Seed": 7}, {"batch": 12})
    np.testing.assert_array_equal(np.asarray(wide.value).ravel(), flat)
