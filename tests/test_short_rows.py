"""Rows that a table holds: the reductions of a cascade one after the other, and what they share with the row's results computed once."""

from __future__ import annotations

from functools import cache

import luminal
import numpy as np
import pytest
from cascades import OPTIONS, after, before, check_one_pass, nests
from compilers import needs_cc
from luminal.ir.evaluate import evaluate
from luminal.ir.kernel import Alloc, If, Kernel, Loop, Store, statements
from luminal.ir.record import replace
from luminal.ir.target import Target
from luminal.passes.legalize import legalize
from luminal.passes.schedule import schedule
from running import TARGET

pytestmark = pytest.mark.usefixtures("plain_c")

CPU = replace(TARGET, vector_bytes=16, threads=True)
AVX512 = replace(CPU, vector_bytes=64, vector_registers=32)
PORTS = "((X{T}[B N]) -> (Y{T}[B N]))"
EXP = "(setf e (exp (- X (max X :axis 1 :keepdims t))))"
SHARING = {
    "softmax": f"{PORTS} {EXP} (return (/ e (sum e :axis 1 :keepdims t)))",
    "of small floats": f"{PORTS.replace('T', 'bf16')} {EXP} (return (/ e (sum e :axis 1 :keepdims t)))",
    "with an epilogue": f"((X{{T}}[B N] W{{T}}[N]) -> (Y{{T}}[B N])) {EXP} (return (max 0 (- (* W (/ e (sum e :axis 1 :keepdims t))) 0.01)))",
    "around a minimum": f"{PORTS} (setf e (exp (- (min X :axis 1 :keepdims t) X))) (return (/ e (sum e :axis 1 :keepdims t)))",
    "of three axes": "((X{T}[A B N]) -> (Y{T}[A B N])) (setf e (exp (- X (max X :axis 2 :keepdims t)))) (return (/ e (sum e :axis 2 :keepdims t)))",
}
ALONE = {
    "nothing dear is shared": f"{PORTS} (return (- (- X (max X :axis 1 :keepdims t)) (log (sum (exp (- X (max X :axis 1 :keepdims t))) :axis 1 :keepdims t))))",
    "no result for each element": f"((X{{T}}[B N]) -> (Y{{T}}[B])) {EXP} (return (sum e :axis 1))",
    "another axis": f"((X{{T}}[B N]) -> (Y{{T}}[N B])) {EXP} (return (transpose (/ e (sum e :axis 1 :keepdims t))))",
}


def scheduled(source: str, target: Target = CPU) -> Kernel:
    *_, kernel = schedule(legalize(nests(after(before(source))), target, OPTIONS), target, OPTIONS).kernels
    return kernel


def conditions(kernel: Kernel) -> int:
    """Inside the loops; around them stands the one on few long rows."""
    return sum(isinstance(s, If) and bool(s.orelse) and s not in kernel.body for s in statements(kernel.body))


def tables(kernel: Kernel) -> int:
    return sum(isinstance(s, Alloc) and s.buffer.space == "stack" for s in statements(kernel.body))


@pytest.mark.parametrize("name", SHARING)
def test_a_shared_value_is_computed_once(name: str) -> None:
    kernel = scheduled(SHARING[name])
    assert tables(kernel) == 1 and conditions(kernel) == 1
    assert tables(scheduled(SHARING[name].replace("N]", "1000]"))) == 1
    assert conditions(scheduled(SHARING[name].replace("N]", "1000]"))) == 0
    assert tables(scheduled(SHARING[name].replace("N]", "100000]"))) == 0


@pytest.mark.parametrize("name", ALONE)
def test_rows_that_share_nothing_stay_a_cascade(name: str) -> None:
    assert tables(scheduled(ALONE[name])) == 0


@pytest.mark.parametrize("name", [*SHARING, *ALONE])
def test_short_rows_mean_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tiles of 8 and tables of 16 elements, so that lengths on both sides are met."""
    monkeypatch.setattr("luminal.passes.nests.nest_cascade.LONG_TILE", 8)
    monkeypatch.setattr("luminal.passes.nests.short_rows.TABLE", 64)
    kernels = 2 if name == "another axis" else 1  # what is turned over reads the statistics of its rows
    check_one_pass(name, {**SHARING, **ALONE}[name], kernels, masked=name in SHARING)


@pytest.mark.parametrize("name", [*SHARING, *ALONE])
def test_rows_of_one_tile_are_worked_off_together(name: str) -> None:
    """Where a variant says that they are so short, the loop over tiles has one iteration and is none; threads share the rows."""
    kernel = scheduled({**SHARING, **ALONE}[name], replace(CPU, vector_bytes=32))
    together = [line for line in kernel.schedule if line.startswith("jam")]
    assert together == {"another axis": [], "of three axes": ["jam j.1"]}.get(name, ["jam i.1"])


@pytest.mark.parametrize(
    ("code", "columns"), {"(max X :axis 1)": 256, "(min X :axis 1)": 256, "(sum X :axis 1)": 0, "(sqrt (sum X :axis 1))": 0}.items()
)
def test_maxima_of_short_rows_are_worked_off_together(code: str, columns: int) -> None:
    """What puts their lanes together takes as long as a short row; of a sum it does not."""
    kernel = scheduled(f"((X{{T}}[B N]) -> (Y{{T}}[B])) (return {code})", AVX512)
    assert [line for line in kernel.schedule if line.startswith("jam")] == (["jam i.1"] if columns else [])
    assert any(line.startswith(f"variant N <= {columns} &") for line in kernel.schedule) == bool(columns)


@pytest.mark.parametrize(("width", "registers"), [(64, 32), (32, 16)])
def test_rows_that_wait_twice_are_worked_off_together_up_to_three_times_as_long(width: int, registers: int) -> None:
    """Twice as many rows where vectors are as wide as that: as many elements."""
    target = replace(CPU, vector_bytes=width, vector_registers=registers)
    once = "((X{T}[B N]) -> (Y{T}[B N])) (return (* X (rsqrt (sum (* X X) :axis 1 :keepdims t))))"
    assert any(line.startswith("variant N <= 1024 &") for line in scheduled(SHARING["softmax"], target).schedule)
    assert any(line.startswith("variant N <= 336 &") for line in scheduled(once, target).schedule)


@cache
def compiled(name: str) -> luminal.Composite:
    return luminal.compile(name, runtime="clang")


@needs_cc
@pytest.mark.parametrize("n", [1, 64, 100, 515])
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "softmax", "logsumexp", "var"])
def test_rows_that_are_worked_off_together_are_those_of_one_row(name: str, n: int) -> None:
    """Rows of four, and the three that are left, have the bits that each has alone; NaN and infinities stay in theirs."""
    call = compiled(name)
    x = np.random.default_rng(n).standard_normal((11, n)).astype(np.float32)
    x[2], x[5, 0], x[9, n // 2] = -np.inf, np.inf, np.nan
    more = {"layer_norm": (np.linspace(1, 2, n, dtype=np.float32),) * 2, "rms_norm": (np.linspace(1, 2, n, dtype=np.float32),)}.get(name, ())
    with np.errstate(all="ignore"):
        together = call(x, *more)
        for k in range(len(x)):
            np.testing.assert_array_equal(together[k : k + 1], call(x[k : k + 1], *more))


@needs_cc
@pytest.mark.parametrize("n", [1, 129, 8191, 8192, 8193])
def test_softmax_at_the_border(n: int) -> None:
    softmax = compiled("softmax")
    x = np.random.default_rng(3).standard_normal((3, n)).astype(np.float32)
    x[1, 0] = np.nan
    x[2] = -np.inf
    got = softmax(x)
    e = np.exp(x[0].astype(np.float64) - x[0].max())
    np.testing.assert_allclose(got[0], e / e.sum(), rtol=1e-5)
    assert np.isnan(got[1:]).all()


@pytest.mark.parametrize("name", [*SHARING, *ALONE])
def test_what_is_left_over_of_rows_together_stands_once(name: str) -> None:
    """The last part, which works off any row by itself, begins where the rows that are worked off together end."""
    kernel = scheduled({**SHARING, **ALONE}[name], replace(CPU, vector_bytes=32))
    loops = [s for s in statements(kernel.body) if isinstance(s, Loop)]
    together = any(line.startswith("jam i") for line in kernel.schedule)  # the rows are one loop
    assert [s.axis for s in loops if str(s.start).endswith(".done")] == (["i"] if together else [])
    assert together or name in ("another axis", "of three axes")
    assert not together or not any(s.axis.startswith("i.t") for s in loops)


@needs_cc
def test_rows_that_are_left_over() -> None:
    f = luminal.compile("softmax", runtime="clang")
    rng = np.random.default_rng(5)
    for rows in (0, 1, 3, 4, 5, 7, 8, 11, 203):
        for n in (1, 5, 70, 680, 700):
            x = rng.standard_normal((rows, n)).astype(np.float32)
            e = np.exp(x - x.max(1, keepdims=True))
            np.testing.assert_allclose(f(x), e / e.sum(1, keepdims=True), rtol=1e-5, err_msg=f"{rows}×{n}")


@pytest.mark.parametrize(
    ("rows", "length", "expected"), [(10**7, 20, True), (10**7, 128, True), (10**7, 300, False), (1000, 300, True), (1000, 3000, False)]
)
def test_very_short_rows_are_worked_off_together_wherever_they_come_from(rows: int, length: int, expected: bool) -> None:
    kernel = scheduled(SHARING["softmax"], replace(CPU, vector_bytes=32, l2=1 << 20, l3=1 << 25))
    together = next(
        s for s in reversed([*statements(kernel.body)]) if isinstance(s, If) and any(isinstance(t, Loop) and t.axis == "i.0" for t in s.body)
    )
    assert bool(evaluate(together.condition, {"B": rows, "N": length})) is expected
    assert not any(isinstance(s, Store) and s.stream is not None for s in statements(together.body))
