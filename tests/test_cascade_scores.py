"""Reductions of the same scores: no S×S buffer where nothing is corrected either, and all that is made of a row of scores in one kernel."""

import luminal
import numpy as np
import pytest
from cascades import OPTIONS, PLACES, SEED, after, before, check_one_pass, naive, nests
from compilers import needs_cc
from luminal.ir.expr import Expr
from luminal.ir.instructions import WEIGHT
from luminal.ir.kernel import If, Loop, Module, statements
from luminal.ir.record import replace
from luminal.ir.walks import postorder
from luminal.passes.legalize import legalize
from luminal.runtimes.clang.driver import Driver
from running import TARGET, agree, draw, meaning, outputs
from small_attention import agrees

pytestmark = pytest.mark.usefixtures("plain_c")

QKV = "Q{f32}[H N D] K{f32}[H M D] V{f32}[H M E]"
SCORES = '(setf s (* (einsum "hid,hjd->hij" Q K) (rsqrt D)))'


def weighted(weights: str, more: str = "") -> str:
    return f'(({QKV}{more}) -> (O{{f32}}[H N E])) {SCORES} (return (einsum "hij,hje->hie" {weights} V))'


# name -> (composite, kernels)
SHARED: dict[str, tuple[str, int]] = {
    "sigmoid": (weighted("(sigmoid s)"), 1),
    "sigmoid, causal": (weighted("(sigmoid (where (<= j i) s -inf))").replace(SCORES, f"{SCORES} {PLACES}"), 1),
    "sigmoid, causal, unscaled": (
        f'(({QKV}) -> (O{{f32}}[H N E])) {PLACES} (setf s (einsum "hid,hjd->hij" Q K)) (return (einsum "hij,hje->hie" (sigmoid (where (<= j i) s -inf)) V))',
        1,
    ),
    "sigmoid, window": (weighted("(sigmoid (where (and (<= j i) (< (- i j) 5)) s -inf))").replace(SCORES, f"{SCORES} {PLACES}"), 1),
    "sigmoid, biased": (weighted("(sigmoid (+ s B))", " B{f32}[N M]"), 1),  # by rows of -inf, and by huge numbers
    "relu": (weighted("(max s 0)"), 1),
    "squared relu, biased": (weighted("(pow (max (+ s B) 0) 2)", " B{f32}[H N M]"), 1),
    "normalised sigmoid": (
        f'(({QKV}) -> (O{{f32}}[H N E])) {SCORES} (setf p (sigmoid s)) (return (/ (einsum "hij,hje->hie" p V) (+ 1e-3 (sum p :axis -1 :keepdims t))))',
        1,
    ),
    "gradients by keys and values": (  # two products, one of them with two kinds of scores and a sum for each column
        f"""(({QKV} G{{f32}}[H N E] W{{f32}}[H M E] L{{f32}}[H M]) -> (A{{f32}}[H N D] O{{f32}}[H N E])) {SCORES}
        (setf p (exp (- s (unsqueeze L :axis 1)))) (setf c (unsqueeze (sum (* V W) :axis -1) :axis 1))
        (setf t (* p (- (einsum "hie,hje->hij" G W) c)))
        (return (einsum "hij,hjd->hid" t K) (einsum "hij,hje->hie" p V))""",
        2,
    ),
    "linear, written as a square": (
        '((Q{f32}[H N D] K{f32}[H M D] V{f32}[H M E]) -> (O{f32}[H N E])) (setf s (einsum "hid,hjd->hij" (exp Q) (exp K))) '
        '(return (/ (einsum "hij,hje->hie" s V) (sum s :axis -1 :keepdims t)))',
        3,
    ),
    "difference of two": (
        "((Q{f32}[H N D] R{f32}[H N D] K{f32}[H M D] V{f32}[H M E]) -> (O{f32}[H N E])) "
        '(return (einsum "hij,hje->hie" (- (sigmoid (einsum "hid,hjd->hij" Q K)) (sigmoid (einsum "hid,hjd->hij" R K))) V))',
        1,
    ),
    "nearest": (
        "((X{f32}[N D] Y{f32}[M D]) -> (Z{f32}[N])) (setf d (- (unsqueeze X :axis 1) (unsqueeze Y :axis 0))) (return (min (sum (* d d) :axis 2) :axis 1))",
        1,
    ),
    # what stands where an extreme is
    "position of the nearest": (
        "((X{f32}[N D] Y{f32}[M D]) -> (Z{i64}[N] R{f32}[N])) (setf d (- (unsqueeze X :axis 1) (unsqueeze Y :axis 0))) (setf s (sum (* d d) :axis 2)) "
        "(return (argmin s :axis 1) (min s :axis 1))",
        1,
    ),
    "position of the nearest, of integers": (
        "((X{i32}[N D] Y{i32}[M D]) -> (Z{i64}[N] R{i32}[N])) (setf s (min (abs (- (unsqueeze X :axis 1) (unsqueeze Y :axis 0))) :axis 2)) "
        "(return (argmin s :axis 1) (min s :axis 1))",
        1,
    ),
    "position of the largest, and what stands there": (
        "((Q{f32}[H N D] K{f32}[H M D] W{f32}[H M]) -> (Z{i64}[H N] R{f32}[H N])) "
        '(setf s (round (* 2 (einsum "hid,hjd->hij" Q K)))) (setf m (max s :axis -1 :keepdims t)) (return (argmax s :axis -1) (sum (where (= s m) (unsqueeze W :axis 1) 0) :axis -1))',
        1,
    ),
    "position of the largest, biased": (
        '((Q{f32}[H N D] K{f32}[H M D] B{f32}[N M]) -> (Z{i64}[H N] R{f32}[H N])) (setf s (+ (einsum "hid,hjd->hij" Q K) B)) (return (argmax s :axis -1) (max s :axis -1))',
        1,
    ),
    "hard attention": (
        f'(({QKV}) -> (O{{f32}}[H N E])) {SCORES} (setf p (where (= s (max s :axis -1 :keepdims t)) 1.0 0)) '
        '(return (/ (einsum "hij,hje->hie" p V) (sum p :axis -1 :keepdims t)))',
        1,
    ),
    "bf16": (weighted("(sigmoid s)").replace("{f32}", "{bf16}"), 1),
    # several outputs
    "with its logsumexp": (f'(({QKV}) -> (O{{f32}}[H N E] L{{f32}}[H N])) {SCORES} (return (einsum "hij,hje->hie" (softmax s :axis -1) V) (logsumexp s :axis -1))', 1),
    "with extremes and a mean": (
        f'(({QKV}) -> (O{{f32}}[H N E] L{{f32}}[H N] A{{f32}}[H N])) {SCORES} '
        '(return (einsum "hij,hje->hie" (softmax s :axis -1) V) (min s :axis -1) (mean s :axis -1))',
        1,
    ),
    "two values": (
        '((Q{f32}[H N D] K{f32}[H M D] V{f32}[H M E] W{f32}[H M D]) -> (O{f32}[H N E] P{f32}[H N D])) (setf p (softmax (einsum "hid,hjd->hij" Q K) :axis -1)) '
        '(return (einsum "hij,hje->hie" p V) (einsum "hij,hjd->hid" p W))',
        1,
    ),
    "of a vector": ("((X{f32}[M N]) -> (Y{f32}[M] Z{f32}[M 1])) (return (logsumexp X :axis 1) (max X :axis 1 :keepdims t))", 1),
    # an axis of extent 1, which the scores of one reader lack
    "of sums with keepdims": (
        "((X{f32}[M N](where M > 0)) -> (A{f32}[1] Z{i64}[1])) (setf s (sum X :axis 1 :keepdims t)) (return (sum s :axis 0) (argmax s :axis 0))",
        3,
    ),
    # one result needs the other: not in the same loops
    "an output of an output": (
        f'(({QKV}) -> (O{{f32}}[H N E] L{{f32}}[H N])) {SCORES} (setf o (einsum "hij,hje->hie" (softmax s :axis -1) V)) (return o (+ (sum o :axis -1) (logsumexp s :axis -1)))',
        3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARED)
def test_means_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("luminal.passes.nests.nest_cascade.LONG_TILE", 64)
    check_one_pass(name, *SHARED[name])


LSE = "(logsumexp s :axis -1)"
PLAIN_LSE = "(+ (squeeze m :axis -1) (log (sum (exp (- s m)) :axis -1)))"
SPELLINGS = {
    "softmax, and logsumexp": f'(einsum "hij,hje->hie" (softmax s :axis -1) V) {LSE}',
    "exponentials of differences": f'(einsum "hij,hje->hie" (exp (- s (unsqueeze {LSE} :axis -1))) V) {LSE}',
    "softmax, and its sum's logarithm": f'(einsum "hij,hje->hie" (softmax s :axis -1) V) {PLAIN_LSE}',
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_one_exponential_serves_the_weights_and_their_sum(name: str) -> None:
    """However an extreme is guarded against infinities; a row that holds one means what it did."""
    text = f"(({QKV}) -> (O{{f32}}[H N E] L{{f32}}[H N])) {SCORES} (setf m (max s :axis -1 :keepdims t)) (return {SPELLINGS[name]})"
    graph = naive(text)
    found = after(before(text))
    (kernel,) = nests(found).kernels
    (choice,) = (s for s in kernel.body if isinstance(s, If))  # few rows along a long axis, or not
    for form, expected in ((choice.body, 3), (choice.orelse, 2)):  # of a tile, and of the correction; and of merging chunks
        exps = {e for s in statements(form) for root in s.expressions() for e in postorder(root) if e.op == "exp"}
        assert len(exps) == expected, exps
    sizes = {"H": 1, "N": 2, "D": 1, "M": 5, "E": 1}
    inputs = draw(graph, sizes, SEED)
    inputs["Q"][:] = 1
    inputs["K"][0, 3, 0] = np.inf
    with np.errstate(all="ignore"):
        agree(meaning(found, inputs, sizes), meaning(graph, inputs, sizes), graph, name)


@pytest.mark.parametrize(
    ("weights", "fades"), [("(softmax s :axis -1)", True), ("(exp (- s 1))", False), ("(exp (- s (min s :axis -1 :keepdims t)))", False)]
)
def test_weights_that_are_tiny(weights: str, fades: bool) -> None:
    """Beside a largest weight of 1 they count as 0, even for values that are huge; of weights that are relative to something else they are kept."""
    graph = naive(weighted(weights))
    legal = legalize(nests(after(before(weighted(weights)))), TARGET, OPTIONS)
    assert any(e.op == "exp" and e.args[0].op == "where" and e.args[0].args[0].op == "less_than" for e in everywhere(legal)) == fades
    sizes = {"H": 1, "N": 2, "D": 1, "M": 4, "E": 4}
    inputs = draw(graph, sizes, SEED)
    inputs["Q"][:] = 1
    inputs["K"][0, :, 0] = 0, -61, -64, -100 if fades else 0
    inputs["V"][0] = np.eye(4) * (1 if "min" in weights else 1e37)
    with np.errstate(all="ignore"):
        (want,) = meaning(graph, inputs, sizes).values()
        (found,) = outputs(legal, inputs, sizes, SEED).values()
    faded = inputs["K"][0, :, 0] < -62.38 if fades else np.zeros(4, bool)
    np.testing.assert_allclose(found[0], np.where(faded, 0, want.value[0]), rtol=1e-5)


@needs_cc
@pytest.mark.usefixtures("plain_c")
@pytest.mark.parametrize("target", ["native", "x86-64-v4", "x86-64-v3"])
def test_weights_by_an_instruction(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores from the largest down to where weights are nothing, infinite and NaN, where a machine has exponentials of what is no more than 0 and where vectors stand in for them."""
    resolved = Driver.target
    monkeypatch.setattr(Driver, "target", lambda *given: replace(resolved(*given), instructions=frozenset({WEIGHT.name})))
    text = f"(composite weights {weighted('(softmax s :axis -1)')})"
    kernel = luminal.compile(text, target=target)
    assert "weight_f32" in kernel.source
    rng, m = np.random.default_rng(SEED), 75
    sizes = (2, 57, 130, 33, 20)
    h, n, length, d, e = sizes
    drawn = [rng.standard_normal(s).astype(np.float32) for s in ((h, n, d), (h, length, d), (h, length, e))]
    agrees(kernel, text, dict(zip("QKV", drawn, strict=True)), sizes, "drawn")
    q, v = np.ones((1, 40, 1), np.float32), np.eye(m, dtype=np.float32)[None]
    k = -np.linspace(0, 70, m, dtype=np.float32).reshape(1, m, 1)
    found = np.asarray(kernel(q, k, v), np.float64)
    exact = np.exp(k.astype(np.float64).reshape(m))
    seen = exact > 2.0**-90
    exact /= exact.sum()
    np.testing.assert_allclose(found[0, :, seen].T, np.broadcast_to(exact[seen], (40, seen.sum())), rtol=1e-6)
    assert (found[0][:, ~seen] == 0).all()
    for odd in (np.inf, np.nan):
        k[0, 5] = odd
        assert np.isnan(np.asarray(kernel(q, k, v))).all()
    k[0, 5] = -np.inf
    assert (np.asarray(kernel(q, k, v))[0, :, 5] == 0).all()


def everywhere(module: Module) -> set[Expr]:
    return {e for kernel in module.kernels for s in statements(kernel.body) for root in s.expressions() for e in postorder(root)}


def test_two_products_with_matrices_of_all_rows_stay_two() -> None:
    """A feed-forward layer: each of its contractions is blocked by itself."""
    text = "((X{f32}[M K] W{f32}[K N] U{f32}[N L]) -> (O{f32}[M L])) (setf s (max (matmul X W) 0)) (return (matmul (* s s) U))"
    found = after(before(text))
    assert not any(n.op == "cascade" for n in found.nodes())
    kernels = nests(found).kernels
    assert len(kernels) == 2
    assert any("all rows share the matrix" in note for kernel in kernels for note in kernel.notes)


def test_scores_that_somebody_else_wants_are_in_memory() -> None:
    found = after(before(weighted("(sigmoid s)").replace("(O{f32}[H N E])", "(O{f32}[H N E] S{f32}[H N M])")[:-1] + " s)"))
    assert not any(n.op == "cascade" for n in found.nodes())


def test_masked_tiles_are_skipped_inside_of_other_operators() -> None:
    """A sigmoid of -inf is 0, so the loop over tiles ends at the diagonal, though no choice is outermost."""
    module = nests(after(before(SHARED["sigmoid, causal"][0])))
    assert any(isinstance(s, Loop) and s.kind == "elastic" for k in module.kernels for s in statements(k.body))
    module = nests(after(before(SHARED["sigmoid, causal"][0].replace("-inf", "-4"))))
    assert not any(isinstance(s, Loop) and s.kind == "elastic" for k in module.kernels for s in statements(k.body))


@needs_cc
def test_compiled_positions() -> None:
    """Equal scores, tails, and NaN: the first of the smallest, or the first NaN."""
    nearest = luminal.compile(f"(composite naive {SHARED['position of the nearest'][0]})", runtime="clang")
    rng = np.random.default_rng(SEED)
    for n, m, d in [(1, 1, 1), (5, 127, 2), (57, 300, 3), (13, 129, 8)]:
        x, y = (rng.integers(-2, 3, (k, d)).astype(np.float32) for k in (n, m))
        if m > 128:
            y[-1] = np.nan
            y[100, 0] = np.nan
        s = ((x[:, None] - y[None]) ** 2).sum(-1)
        at, least = nearest(x, y)
        assert np.array_equal(at, s.argmin(1))
        assert np.array_equal(least, s.min(1), equal_nan=True)


@needs_cc
def test_compiled() -> None:
    """Scheduled kernels on clang: sigmoid attention, and softmax attention with its logsumexp."""
    sigmoid = luminal.compile(f"(composite naive {SHARED['sigmoid, causal'][0]})", runtime="clang")
    both = luminal.compile(f"(composite naive {SHARED['with its logsumexp'][0]})", runtime="clang")
    rng = np.random.default_rng(SEED)
    for n, m, d, e in [(1, 1, 1, 1), (5, 64, 3, 33), (57, 129, 16, 16), (113, 300, 64, 40)]:
        q, k, v = (rng.standard_normal((2, *x)).astype(np.float32) for x in ((n, d), (m, d), (m, e)))
        s = np.einsum("hid,hjd->hij", q.astype(np.float64), k) / np.sqrt(d)
        masked = np.where(np.arange(m) <= np.arange(n)[:, None], 1 / (1 + np.exp(-s)), 0)
        assert np.abs(sigmoid(q, k, v) - masked @ v).max() < 3e-6 * m**0.5
        o, lse = both(q, k, v)
        p = np.exp(s)
        assert np.abs(o - p / p.sum(-1, keepdims=True) @ v).max() < 3e-6
        assert np.abs(lse - np.log(p.sum(-1))).max() < 3e-6


def test_statistics_beside_a_contraction_are_a_kernel() -> None:
    """A softmax over experts weighs what each of them gives: in one kernel with the product that would have no tiles."""
    text = """((X{f32}[R D] G{f32}[R E] W{f32}[E D F]) -> (Y{f32}[R E F]))
      (return (* (unsqueeze (softmax G :axis -1) :axis -1) (einsum "rd,edf->ref" X W)))"""
    statistics, product = nests(after(before(text))).kernels
    assert "X" not in statistics.buffers and {"X", "W", "Y"} <= set(product.buffers)
