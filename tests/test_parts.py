"""Axes whose positions are divided, as reshapes, groups and patches bring them, and matrices of few columns: what the kernels are cut into, and beside float64 in NumPy what they give."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.expr import Expr
from luminal.ir.kernel import Kernel, Loop, statements
from luminal.ir.walks import postorder

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 8
V3 = "x86-64-v3"


class Form(NamedTuple):
    ports: str
    body: str
    reference: Callable[..., np.ndarray]
    shapes: tuple[tuple[tuple[int, ...], ...], ...]  # of the inputs, each time
    steps: tuple[str, ...]  # that its schedule holds


def group_norm(x: np.ndarray) -> np.ndarray:
    n, h, w, c = x.shape
    g = x.reshape(n, h * w, 8, c // 8)
    return ((g - g.mean((1, 3), keepdims=True)) / np.sqrt(g.var((1, 3), keepdims=True) + 1e-5)).reshape(x.shape)


def patches(x: np.ndarray) -> np.ndarray:
    b, _, h, w = x.shape
    return x.reshape(b, 3, h // 16, 16, w // 16, 16).transpose(0, 2, 4, 3, 5, 1).reshape(b, h // 16 * (w // 16), 768)


def windows(x: np.ndarray) -> np.ndarray:
    found = np.lib.stride_tricks.sliding_window_view(x, (2, 3), axis=(2, 3))
    b, c, p, q = found.shape[:4]
    return found.transpose(0, 1, 4, 5, 2, 3).reshape(b, c * 6, p * q)


GROUPS = "(setf x (reshape X N (* H W) 8 (floordiv C 8))) (setf m (mean x :axis (1 3) :keepdims t)) (setf v (var x :axis (1 3) :keepdims t))"
FORMS: dict[str, Form] = {
    "products of pairs": Form(
        "X{f32}[N D] -> Y", "(return (reshape (* (unsqueeze X :axis 2) (unsqueeze X :axis 1)) N (* D D)))", lambda x: np.einsum("ni,nj->nij", x, x).reshape(len(x), x.shape[1] ** 2),
        (((3, 1),), ((2, 11),), ((0, 5),), ((3, 0),), ((2, 40),)), ("part j",),
    ),
    "statistics of groups of channels": Form(
        "X{f32}[N H W C](where C % 8 = 0) -> Y", f"{GROUPS} (return (reshape (/ (- x m) (sqrt (+ v 1e-5))) N H W C))", group_norm,
        (((2, 3, 5, 8),), ((1, 2, 3, 88),), ((2, 1, 4, 64),), ((1, 3, 2, 600),)), ("part l", "short q 8", "short q1 8"),
    ),
    "statistics of groups, read again by each position": Form(
        "X{f32}[N P C](where C % 8 = 0) -> Y",
        "(setf x (reshape X N P 8 -1)) (setf c (- x (mean x :axis (1 3) :keepdims t))) (return (reshape (* c (rsqrt (+ (mean (* c c) :axis (1 3) :keepdims t) 1e-5))) N P C))",
        lambda x: group_norm(x[:, :, None]).reshape(x.shape),
        (((2, 15, 8),), ((1, 6, 88),), ((2, 4, 64),), ((1, 3, 1048),), ((3, 1, 2048),)), ("stage row k.1 at=k.0 space=stack", "stage row1 k.1 at=k.0 space=stack"),
    ),
    "patches, channels last": Form(
        "X{f32}[B 3 H W](where H % 16 = 0, W % 16 = 0) -> Y",
        "(setf x (reshape X B 3 (floordiv H 16) 16 (floordiv W 16) 16)) (return (reshape (transpose x 0 2 4 3 5 1) B (* (floordiv H 16) (floordiv W 16)) 768))",
        patches, (((2, 3, 32, 48),), ((1, 3, 16, 16),), ((1, 3, 0, 16),)), ("part k", "part j"),
    ),
    "windows as columns": Form(
        "X{f32}[B C H W] -> Y", "(return (im2col X :kernel (2 3)))", windows,
        (((1, 1, 2, 3),), ((2, 3, 5, 9),), ((1, 2, 4, 40),), ((1, 3, 33, 18),)), ("part k", "part j"),
    ),
    "few columns": Form(
        "A{f32}[M K] B{f32}[K N] -> C", "(return (matmul A B))", lambda a, b: a @ b,
        (((8, 100), (100, 1)), ((65, 64), (64, 8)), ((0, 65), (65, 3)), ((59, 129), (129, 7)), ((7, 70), (70, 0)), ((3, 63), (63, 2)), ((13, 1050), (1050, 5))),
        ("variant N <= 16 & 64 <= K & N * 8 <= M", "stage B j p space=shared order=p,j"),
    ),
    "few columns, and what becomes of them": Form(
        "A{f32}[M K] B{f32}[K N] D{f32}[N] -> C", "(return (max 0 (+ (matmul A B) D)))", lambda a, b, d: np.maximum(a @ b + d, 0),
        (((25, 100), (100, 3), (3,)), ((8, 64), (64, 4), (4,))), ("variant N <= 16 & 64 <= K & N * 8 <= M",),
    ),
}  # fmt: skip


def text_of(name: str) -> str:
    ports, result = FORMS[name].ports.split(" -> ")
    return f"(composite form (({ports}) -> ({result})) {FORMS[name].body})"


def kernels_of(text: str) -> tuple[Kernel, ...]:
    (found,) = compilations(text, Settings(runtime="clang", target=V3))
    return found.module.kernels


@pytest.mark.parametrize("name", FORMS)
def test_steps(name: str) -> None:
    taken = [line for k in kernels_of(text_of(name)) for line in k.schedule]
    for step in FORMS[name].steps:
        assert step in taken, taken


def divided_in_lanes(kernel: Kernel) -> list[Expr]:
    """Positions that differ from lane to lane, and are divided there."""
    vectors = [s for s in statements(kernel.body) if isinstance(s, Loop) and s.kind == "vector"]
    return [n for x in vectors for s in statements(x.body) for n in postorder(*s.expressions()) if n.op in ("floordiv", "mod") and x.axis in n.names]


@pytest.mark.parametrize("name", ["products of pairs", "statistics of groups of channels", "patches, channels last", "windows as columns"])
def test_no_lane_divides_its_position(name: str) -> None:
    assert not [n for k in kernels_of(text_of(name)) for n in divided_in_lanes(k)]


def test_positions_that_are_one_again_are_not_cut() -> None:
    """A reshape there and back, and halves of bytes, whose vectors are stretches of memory."""
    for text in (
        "(composite c ((X{f32}[N H W] Z{f32}[N]) -> (Y)) (return (reshape (* (reshape X N (* H W)) (unsqueeze Z :axis 1)) N H W)))",
        "(composite c ((X{f32}[N M]) -> (Y)) (return (reshape (stack X X :axis 2) N (* 2 M))))",
    ):
        assert not any(line.startswith("part") for k in kernels_of(text) for line in k.schedule)


def test_a_value_for_all_lanes_is_read_under_a_guard() -> None:
    """The sum of squared distances from a mean that lies in memory: vectors, of which the last has only some lanes."""
    (found,) = compilations(text_of("statistics of groups of channels"), Settings(runtime="clang", target=V3))
    sums = [line.split() for line in found.rendered.source.splitlines() if "_lanes" in line and line.rstrip().endswith("];") and "=" not in line]
    assert sums and all(kind == "f32x8" for kind, *_ in sums), sums


@needs_cc
@pytest.mark.parametrize("name", FORMS)
def test_meaning(name: str) -> None:
    form, rng = FORMS[name], np.random.default_rng(SEED)
    print(f"seed {SEED}")
    function = luminal.compile(text_of(name))
    for shapes in form.shapes:
        inputs = [rng.standard_normal(s).astype(np.float32) for s in shapes]
        expected = form.reference(*(x.astype(float) for x in inputs))
        np.testing.assert_allclose(function(*inputs), expected, rtol=1e-4, atol=1e-4, err_msg=str(shapes))
