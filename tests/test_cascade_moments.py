"""Reductions that are polynomials in earlier ones: variance and its kin in one pass over an axis, as accurate as two passes, and only where a row is long."""

import luminal
import numpy as np
import pytest
from cascades import OPTIONS, SEED, after, before, check_one_pass, naive, nests
from compilers import needs_cc
from luminal.ir.kernel import If, Loop, statements
from luminal.passes.cascade import why_not
from luminal.passes.legalize import legalize
from luminal.passes.raise_loops import raise_loops
from luminal.passes.simplify import simplify
from running import TARGET, agree, draw, meaning, outputs

pytestmark = pytest.mark.usefixtures("plain_c")

CENTRED = "(setf d (- X (mean X :axis 1 :keepdims t)))"
# name -> (composite, kernels)
ONE_PASS: dict[str, tuple[str, int]] = {
    "variance": (f"((X{{f32}}[M N]) -> (Y{{f32}}[M])) {CENTRED} (return (mean (* d d) :axis 1))", 1),
    "sample variance by name": ("((X{f32}[M N](where N > 1)) -> (Y{f32}[M])) (return (var X :axis 1 :correction 1))", 1),
    "layer norm": (f"((X{{f32}}[M N] W{{f32}}[N]) -> (Y{{f32}}[M N])) {CENTRED} (return (* W (* d (rsqrt (+ 1e-5 (mean (* d d) :axis 1 :keepdims t))))))", 1),
    "third moment": (f"((X{{f32}}[M N]) -> (Y{{f32}}[M])) {CENTRED} (return (sum (* d (* d d)) :axis 1))", 1),
    "kurtosis": (f"((X{{f32}}[M N]) -> (Y{{f32}}[M])) {CENTRED} (setf s (* d d)) (return (/ (mean (* s s) :axis 1) (+ 1e-3 (pow (mean s :axis 1) 2))))", 1),
    "covariance": (
        "((X{f32}[M N] Z{f32}[M N]) -> (Y{f32}[M])) (return (mean (* (- X (mean X :axis 1 :keepdims t)) (- Z (mean Z :axis 1 :keepdims t))) :axis 1))",
        1,
    ),
    "correlation": (
        f"((X{{f32}}[M N] Z{{f32}}[M N]) -> (Y{{f32}}[M])) {CENTRED} (setf e (- Z (mean Z :axis 1 :keepdims t))) "
        "(return (/ (sum (* d e) :axis 1) (sqrt (+ 1e-3 (* (sum (* d d) :axis 1) (sum (* e e) :axis 1))))))",
        1,
    ),
    "weighted": (
        "((X{f32}[M N] W{f32}[M N]) -> (Y{f32}[M])) (setf c (* W (* W (cast f32 (max (- (iota N) 40) 0))))) "
        "(setf d (- X (/ (sum (* c X) :axis 1 :keepdims t) (sum c :axis 1 :keepdims t)))) (return (sum (* c (* d d)) :axis 1))",
        1,
    ),
    "around what is no mean": ("((X{f32}[M N]) -> (Y{f32}[M])) (setf d (- X (sqrt (+ 1 (sum (* X X) :axis 1 :keepdims t))))) (return (sum (* d d) :axis 1))", 1),
    "deviation of scores": (
        '((Q{f32}[H N D] K{f32}[H M D]) -> (Y{f32}[H N])) (setf s (einsum "hid,hjd->hij" Q K)) (setf d (- s (mean s :axis -1 :keepdims t))) (return (mean (* d d) :axis -1))',
        1,
    ),
    "entropy": (
        "((S{f32}[M N]) -> (Y{f32}[M])) (setf m (max S :axis 1 :keepdims t)) (setf e (exp (- S m))) (setf l (sum e :axis 1 :keepdims t)) "
        "(return (- (sum (* (/ e l) (- (- S m) (log l))) :axis 1)))",
        1,
    ),
    "of small floats": (f"((X{{bf16}}[M N]) -> (Y{{bf16}}[M])) {CENTRED} (return (mean (* d d) :axis 1))", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_PASS)
def test_one_pass_means_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("luminal.passes.nests.nest_cascade.LONG_TILE", 32)
    monkeypatch.setattr("luminal.passes.nests.nest_moments.CACHED", 128)
    check_one_pass(name, *ONE_PASS[name])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("(* c c)", "degree above 4"),
        ("(abs d)", "`abs` mixes"),
        ("(abs (+ (* X (mean X :axis 1 :keepdims t)) (exp (- X (max X :axis 1 :keepdims t)))))", "`abs` mixes"),
        ("(/ X d)", "`div` mixes"),
    ],
)
def test_what_is_no_polynomial_stays_and_says_why(body: str, reason: str) -> None:
    found = after(before(f"((X{{f32}}[M N]) -> (Y{{f32}}[M])) {CENTRED} (setf c (* d (* d d))) (return (sum {body} :axis 1))"))
    assert not any(n.op == "cascade" for n in found.nodes())
    assert any(reason in said for said in why_not(found, TARGET)), why_not(found, TARGET)


def test_columns_stay_two_passes() -> None:
    """Over an axis in which memory is not consecutive there are no rows that could stay in a cache."""
    found = after(before("((X{f32}[M N]) -> (Y{f32}[N])) (setf d (- X (mean X :axis 0 :keepdims t))) (return (mean (* d d) :axis 0))"))
    assert not any(n.op == "cascade" for n in found.nodes())


def test_tiles_are_for_rows_that_leave_the_cache() -> None:
    """Where the length is known there is one form: tiles for a long row, two passes for a short one; else both."""

    def loops(n: str) -> tuple[int, bool]:
        module = nests(after(before(ONE_PASS["variance"][0].replace("N]", f"{n}]"))))
        body = module.kernels[0].body
        if isinstance(body[0], If):  # else few rows that are long
            body = body[0].orelse
        return sum(isinstance(s, Loop) and s.kind == "reduce" for s in statements(body)), any(isinstance(s, If) for s in statements(body))

    assert loops("1000") == (2, False)
    assert loops("1000000") == (2, False)
    assert loops("N") == (4, True)


@needs_cc
def test_accuracy() -> None:
    """Against float64, where a naive Σx² − (Σx)² has no digit left: in the mean of several rows no worse than twice what two passes in float32 give, or a few ULP.

    Of one row alone that is chance: a variance is wrong by the square of what its mean is, and that is as good as the last place of the sum happens to fall.
    """
    variance = luminal.compile(f"(composite naive {ONE_PASS['variance'][0]})", runtime="clang")
    norm = luminal.compile(f"(composite naive {ONE_PASS['layer norm'][0]})", runtime="clang")
    rng = np.random.default_rng(SEED)
    n, draws = 200_001, 6
    noise = [rng.standard_normal((draws, n)) for _ in range(4)]
    rows = {
        "normal": noise[0],
        "far": 1e4 + noise[1],
        "step": np.where(np.arange(n) < 5000, 0, 1e4) + noise[2],
        "ramp": np.linspace(-1e4, 1e4, n)[None],
        "huge": 1e15 * noise[3],
        "constant": np.full((1, n), 1e4),
    }
    x = np.concatenate(list(rows.values())).astype(np.float32)
    exact = x.astype(np.float64)
    want = exact.var(1)
    two_passes = ((x - x.mean(1, keepdims=True, dtype=np.float32)) ** 2).mean(1, dtype=np.float32)
    got = variance(x)
    first = 0
    for name, drawn in rows.items():
        these = slice(first, first := first + len(drawn))
        allowed = 2 * np.abs(two_passes - want)[these].mean() + 16 * np.finfo(np.float32).eps * want[these].mean()
        assert np.abs(got - want)[these].mean() <= allowed, (name, got[these], want[these])
    w = np.ones(n, np.float32)
    normed = (exact - exact.mean(1, keepdims=True)) / np.sqrt(want[:, None] + 1e-5)
    mean_error = 4 * np.finfo(np.float32).eps * np.abs(exact).max(1) / np.sqrt(want + 1e-5)  # a mean carries the rounding of numbers as large as it
    assert (np.abs(norm(x, w) - normed).max(1) <= mean_error + 1e-5).all()


def test_a_cascade_inside_of_another_over_as_long_an_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was reached is each cascade's own: scores with standardised keys, whose deviation is taken in turn."""
    monkeypatch.setattr("luminal.passes.nests.nest_cascade.LONG_TILE", 32)
    monkeypatch.setattr("luminal.passes.nests.nest_moments.CACHED", 128)
    graph = naive(
        "((Q{f32}[H N] K{f32}[H N N]) -> (Y{f32}[H])) (setf k (- K (mean K :axis -1 :keepdims t))) (setf k (* k (rsqrt (+ 1e-3 (mean (* k k) :axis -1 :keepdims t))))) "
        '(setf s (einsum "hd,hjd->hj" Q k)) (setf d (- s (mean s :axis -1 :keepdims t))) (return (mean (* d d) :axis -1))'
    )
    module = nests(after(simplify(raise_loops(graph, TARGET, OPTIONS), TARGET, OPTIONS)))
    for n in (1, 33, 70):
        sizes = {"H": 2, "N": n}
        inputs = draw(graph, sizes, SEED)
        agree(outputs(legalize(module, TARGET, OPTIONS), inputs, sizes, SEED), meaning(graph, inputs, sizes), graph, f"N = {n}")
