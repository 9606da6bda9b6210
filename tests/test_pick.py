"""Products with rows of a one-hot matrix, and sums over a condition that one position meets, are gathers and scatters, wherever the index comes from."""

from __future__ import annotations

from collections.abc import Callable

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 22
Reference = Callable[..., np.ndarray]
HOT = "(setf o (cast f32 (= (unsqueeze I :axis -1) (iota V))))"


def hot(index: np.ndarray, classes: int) -> np.ndarray:
    return (index[..., None] == np.arange(classes)).astype(np.float64)


def softmax_loss(x: np.ndarray, index: np.ndarray) -> np.ndarray:
    m = x.max(1, keepdims=True)
    logs = x - m - np.log(np.exp(x - m).sum(1, keepdims=True))
    return -(hot(index, x.shape[1]) * logs).sum() / len(x)


# name: ports, body, what it is in NumPy, what it becomes
FORMS: dict[str, tuple[str, str, Reference, str]] = {
    "a table by one-hot rows": ("I{i64}[N] E{f32}[V D] -> Y", f"{HOT} (return (matmul o E))", lambda i, e: hot(i, len(e)) @ e, "gather"),
    "in batches": ("I{i64}[B N] E{f32}[V D] -> Y", f"{HOT} (return (matmul o E))", lambda i, e: hot(i, len(e)) @ e, "gather"),
    "a table that lies the other way": ("I{i64}[N] E{f32}[D V] -> Y", f'{HOT} (return (einsum "dv,nv->dn" E o))', lambda i, e: e @ hot(i, e.shape[1]).T, "gather"),
    "by numbers of 32 bits": ("I{i32}[N] E{f32}[V D] -> Y", "(return (matmul (cast f32 (= (unsqueeze I :axis 1) (iota V))) E))", lambda i, e: hot(i, len(e)) @ e, "gather"),
    "logits of labels": ("X{f32}[N V] I{i64}[N] -> Y", "(return (sum (where (= (iota V) (unsqueeze I :axis 1)) X 0) :axis 1))", lambda x, i: (hot(i, x.shape[1]) * x).sum(1), "gather"),
    "what is computed of them": (
        "X{f32}[N V] I{i64}[N] -> Y", "(setf l (- X (logsumexp X :axis 1 :keepdims t))) (return (/ (- (sum (where (= (unsqueeze I :axis 1) (iota V)) l 0))) N))",
        softmax_loss, "gather",
    ),
    "the gradient of a table": ("I{i64}[N] G{f32}[N D] E{f32}[V D] -> Y", f'{HOT} (return (+ E (einsum "nv,nd->vd" o G)))', lambda i, g, e: e + hot(i, len(e)).T @ g, "scatter"),
    "in batches, its gradient": ("I{i64}[B N] G{f32}[B N D] E{f32}[V D] -> Y", f'{HOT} (return (+ E (einsum "bnv,bnd->vd" o G)))', lambda i, g, e: e + np.einsum("bnv,bnd->vd", hot(i, len(e)), g), "scatter"),
    "how many of each": ("I{i64}[N] E{f32}[V] -> Y", f"{HOT} (return (+ E (sum o :axis 0)))", lambda i, e: e + hot(i, len(e)).sum(0), "scatter"),
    "sums of groups, scaled": (
        "I{i64}[N] G{f32}[N D] E{f32}[V] -> Y", f"{HOT} (return (matmul (transpose (* o E)) G))", lambda i, g, e: (hot(i, len(e)) * e).T @ g, "",
    ),
}  # fmt: skip
SIZES = ({"B": 2, "N": 37, "V": 21, "D": 19}, {"B": 1, "N": 1, "V": 1, "D": 1}, {"B": 3, "N": 5, "V": 40, "D": 64})


def text_of(name: str) -> str:
    before, after = FORMS[name][0].split(" -> ")
    return f"(composite picked (({before}) -> ({after})) {FORMS[name][1]})"


def operators(text: str, **options: bool) -> list[str]:
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3", **options))
    return [n.op for n in found.run("pick").nodes()]


@pytest.mark.parametrize("name", FORMS)
def test_what_they_become(name: str) -> None:
    found = operators(text_of(name))
    assert "mul" not in found or not FORMS[name][3]
    assert not FORMS[name][3] or FORMS[name][3] in found


def test_strict_multiplies() -> None:
    assert "gather" not in operators(text_of("a table by one-hot rows"), strict=True)
    assert "gather" in operators(text_of("logits of labels"), strict=True)


def test_few_sums_stay_side_by_side() -> None:
    assert "scatter" not in operators("(composite few ((I{i64}[N]) -> (Y)) (return (sum (cast i64 (= (unsqueeze I :axis 1) (iota 4))) :axis 0)))")


@needs_cc
@pytest.mark.parametrize("lies", ("X{f32}[N D]", "X{f32}[D N]"))
def test_few_sums_of_rows_are_added_to_in_turn(lies: str) -> None:
    """Sums of numbers that lie along what is summed stay side by side."""
    term = "(aref X n d)" if lies.endswith("[N D]") else "(aref X d n)"
    text = f"(composite few (({lies} I{{i64}}[N]) -> (Y{{f32}}[3 D])) (dotimes (s 3) (dotimes (n N) (if (= (aref I n) s) (dotimes (d D) (incf (aref Y s d) {term}))))))"
    assert ("scatter" in operators(text)) == lies.endswith("[N D]")
    rng = np.random.default_rng(SEED)
    x, index = rng.standard_normal((41, 9)).astype(np.float32), rng.integers(-1, 5, 41)
    expected = np.stack([x[index == s].sum(0) for s in range(3)])
    np.testing.assert_allclose(
        luminal.compile(text, runtime="clang")(x if lies.endswith("[N D]") else x.T.copy(), index), expected, rtol=1e-5, atol=1e-5
    )


def test_what_is_dear_is_not_computed_anew() -> None:
    text = "(composite dear ((X{f32}[N K] W{f32}[K V] I{i64}[N]) -> (Y)) (return (sum (where (= (unsqueeze I :axis 1) (iota V)) (matmul X W) 0) :axis 1)))"
    assert "gather" not in operators(text)


@needs_cc
@pytest.mark.parametrize("name", FORMS)
def test_meaning(name: str) -> None:
    """Indices that are no positions pick nothing."""
    f = luminal.compile(text_of(name), runtime="clang")
    rng = np.random.default_rng(SEED)
    for sizes in SIZES:
        inputs = []
        for port in FORMS[name][0].split(" -> ")[0].replace("] ", "]\n").split("\n"):
            shape = [sizes[w] for w in port.split("[")[1].rstrip("]").split()]
            kind = {"i64": np.int64, "i32": np.int32}.get(port[2:5])
            inputs.append(rng.standard_normal(shape).astype(np.float32) if kind is None else rng.integers(-2, sizes["V"] + 2, shape).astype(kind))
        if name == "what is computed of them":
            inputs[1] %= sizes["V"]
        want = FORMS[name][2](*(x.astype(np.float64) if x.dtype == np.float32 else x for x in inputs))
        got = f(*inputs)
        assert np.abs(got - want).max() <= 100 * np.finfo(np.float32).eps * (1 + np.abs(want).max()), sizes


@needs_cc
def test_no_rows_at_all() -> None:
    f = luminal.compile(text_of("a table by one-hot rows"), runtime="clang")
    assert (f(np.arange(3), np.zeros((0, 4), np.float32)) == np.zeros((3, 4))).all()
