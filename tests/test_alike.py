"""Kernels that differ in names alone are one function: when they do, when they do not, and that each call gives what its kernel gave."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.program import Call, statements
from luminal.passes.programs.alike import alike
from luminal.passes.schedule import Facts, automatic, replay, unique
from luminal.search.account import account

pytestmark = pytest.mark.usefixtures("plain_c")

X, Y = "X{f32}[N K]", "Y{f32}[M K]"
BOTH = "U{f32}[K L] V{f32}[K L]) -> (P{f32}[N L] Q{f32}[M L])"
PRODUCTS = "(setf P (matmul X U)) (setf Q (matmul Y V))"


def two(x: str = X, y: str = Y, ports: str = BOTH, body: str = PRODUCTS) -> str:
    return f"(composite two (({x} {y} {ports}) {body})"


def calls(text: str, runtime: str = "clang", target: str = "x86-64-v3") -> list[tuple[str, str]]:
    """The functions that the entry calls, and with what."""
    (found,) = compilations(text, Settings(runtime=runtime, target=target))
    program = found.program
    assert {s.function for s in statements(program.entry) if isinstance(s, Call)} == {f.name for f in program.functions if "_each" not in f.name}
    return [(s.function, " ".join(a if isinstance(a, str) else repr(a) for a in s.args)) for s in statements(program.entry) if isinstance(s, Call)]


def test_one_function_for_both() -> None:
    (first, arguments), (second, others) = calls(two())
    assert first == second == "two_0"
    assert others == arguments.replace("X", "Y").replace("U", "V").replace("P", "Q").replace("N", "M")


def test_the_result_of_one_may_be_the_operand_of_the_other() -> None:
    text = "(composite chain ((X{f32}[N N] U{f32}[N N] V{f32}[N N]) -> (Q{f32}[N N])) (setf Q (matmul (matmul X U) V)))"
    assert calls(text) == [("chain_0", "X U temp N"), ("chain_0", "temp V Q N")]


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (two(body="(setf P (* 2 (matmul X U))) (setf Q (matmul Y V))"), {}),
        (two(ports=BOTH.replace("V{f32}[K L]", "V{f32}[L K]"), body="(setf P (matmul X U)) (setf Q (matmul Y (transpose V)))"), {}),
        (two(X + "(where N % 4 = 0)"), {}),
        (two(X + "(where N <= M)"), {}),
    ],
    ids=["another factor", "another order", "more is known of a size", "a condition on both"],
)
def test_two_functions(text: str, settings: dict[str, str]) -> None:
    (first, _), (second, _) = calls(text, **settings)
    assert first != second


def test_blocks_are_counted_by_sizes() -> None:
    """On a GPU the entry counts the blocks of a launch by the sizes that the function has."""
    found = [name for name, _ in calls(two(), runtime="cuda", target="sm_90a")]
    assert len(set(found)) == len(found) and {name[:5] for name in found} == {"two_0", "two_1"}


@pytest.mark.parametrize("text", [two(), "circular_convolution"], ids=["sizes and buffers", "buffers in pairs"])
def test_scheduled_once(text: str) -> None:
    """The second takes the steps of the first by its own names, and they replay."""
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3"))
    plain, scheduled = found.run(stop_after="join_blocks"), found.run(stop_after="schedule")
    facts = Facts.of(plain)
    pairs = [(a, b) for b in range(len(plain.kernels)) for a in range(b) if alike(plain.kernels[a], plain.kernels[b], plain)]
    assert pairs
    for a, b in pairs:
        renamed = alike(scheduled.kernels[a], scheduled.kernels[b], scheduled)
        made = scheduled.kernels[b]
        assert renamed is not None and any(old != new for old, new in renamed.items())
        assert replay(unique(plain.kernels[b]), facts, made.schedule).body == made.body
        own = automatic(unique(plain.kernels[b]), facts, found.target, found.options)
        assert (own.schedule, own.notes) == (made.schedule, made.notes)


@needs_cc
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (7, 40, 19, 33), (40, 7, 65, 50)])
def test_meaning(sizes: tuple[int, int, int, int]) -> None:
    n, m, k, width = sizes
    rng = np.random.default_rng(0)
    x, y, u, v = (rng.standard_normal(s).astype(np.float32) for s in ((n, k), (m, k), (k, width), (k, width)))
    p, q = luminal.compile(two(), runtime="clang")(x, y, u, v)
    np.testing.assert_allclose(p, x.astype(np.float64) @ u, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(q, y.astype(np.float64) @ v, rtol=1e-4, atol=1e-4)


def test_each_kernel_is_accounted_for_by_itself() -> None:
    (found,) = compilations(two(), Settings(runtime="clang", target="x86-64-v3"))
    sizes = {"N": 1000, "M": 500, "K": 700, "L": 900}
    first, second = account(found.run(stop_after="join"), found.program, sizes).kernels
    assert "N" in first.scratch[0] and [s.replace("N", "M") for s in first.scratch] == list(second.scratch)
    assert first.scratch_values[0] > second.scratch_values[0]


def test_names_stand_for_one_name_each() -> None:
    """What reads one operand twice is not what reads two."""
    square, product = (
        compilations(
            two("X{f32}[N N]", "Y{f32}[N N]", ") -> (P{f32}[N N] Q{f32}[N N])", f"(setf P (matmul X {b})) (setf Q (matmul Y Y))"),
            Settings(runtime="clang", target="x86-64-v3"),
        )[0].run("schedule")
        for b in ("X", "Y")
    )
    assert alike(*square.kernels, square) is not None and alike(*product.kernels, product) is None
    assert alike(*reversed(product.kernels), product) is None


def test_kernels_that_are_made_later_are_not_accounted_for() -> None:
    """A filter in Winograd's form is some kernels by themselves, which a variant joins: the entry calls more functions than there were kernels."""
    (found,) = compilations("conv2d", Settings(target="x86-64-v4", sizes={"R": 3, "S": 3}, parameters={"padding": 1}, without=("Bias",), fast=True))
    nests = found.run(stop_after="join")
    made = account(nests, found.program, {"B": 1, "H": 14, "W": 14, "O": 64, "G": 64})
    called = [s.function for s in statements(found.program.entry) if isinstance(s, Call)]
    assert len(called) > len(nests.kernels)
    assert [k.work.kernel for k in made.kernels] == [k.name for k in nests.kernels]
