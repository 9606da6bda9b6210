"""Cascades: naive composites of every shape that the rule covers, before and after it; what is not separable; and the kernels that come out, on clang."""

import luminal
import numpy as np
import pytest
from cascades import OPTIONS, PLACES, QKV, SEED, after, attention, before, check_one_pass, naive, nests
from compilers import needs_cc
from luminal.ir.kernel import Loop, statements
from luminal.ir.target import Options
from luminal.ir.verify import verify
from luminal.passes.cascade import cascade, why_not
from luminal.passes.fuse import fuse
from luminal.passes.legalize import legalize
from luminal.passes.make_nests import make_nests
from luminal.passes.raise_loops import raise_loops
from luminal.passes.simplify import simplify
from running import TARGET, agree, draw, meaning, outputs

pytestmark = pytest.mark.usefixtures("plain_c")


def gradient(mean: str, scores: str = "", of: str = "{}") -> str:
    """What attention's gradient by its output, G, is by Q: dS = P ∘ (G Vᵀ - the mean of that), dS K / √D."""
    return f"""(({QKV.replace("{T}", "{f32}")} G{{f32}}[H N E]) -> (dQ{{f32}}[H N D]))
      (setf s (* (einsum "hid,hjd->hij" Q K) (rsqrt D))) {scores}
      (setf p (softmax s :axis -1)) (setf g (einsum "hie,hje->hij" G V))
      (return (* (einsum "hij,hjd->hid" (* p {of.format(f"(- g {mean})")}) K) (rsqrt D)))"""


# name -> (composite, kernels)
ONE_PASS: dict[str, tuple[str, int]] = {
    "softmax": ("((X{f32}[M N]) -> (Y{f32}[M N])) (return (softmax X :axis -1))", 1),
    "log softmax": ("((X{f32}[M N]) -> (Y{f32}[M N])) (return (log_softmax X :axis -1))", 1),
    "logsumexp": ("((X{f32}[M N]) -> (Y{f32}[M])) (return (logsumexp X :axis 1))", 1),
    "logsumexp without a guard": (
        "((X{f32}[M N]) -> (Y{f32}[M])) (setf m (max X :axis 1)) (return (+ m (log (sum (exp (- X (unsqueeze m :axis 1))) :axis 1))))",
        1,
    ),
    "sum of exponentials": ("((X{f32}[M N]) -> (Y{f32}[M])) (return (/ 1 (sum (exp (- X (max X :axis 1 :keepdims t))) :axis 1)))", 1),
    "cross-entropy": (
        "((X{f32}[M N] I{i64}[M]) -> (Y{f32}[M])) (return (- (logsumexp X :axis 1) (squeeze (take-along X (unsqueeze I :axis 1) :axis 1) :axis 1)))",
        1,
    ),
    "minimum": ("((X{f32}[M N]) -> (Y{f32}[M])) (return (sum (exp (- (min X :axis 1 :keepdims t) X)) :axis 1))", 1),
    "base 2": (
        "((X{f32}[M N] V{f32}[M N]) -> (Y{f32}[M])) (setf e (exp2 (- X (max X :axis 1 :keepdims t)))) (return (/ (sum (* e V) :axis 1) (sum e :axis 1)))",
        1,
    ),
    "scaled exponent": (
        "((X{f32}[M N] V{f32}[M N] A{f32}[M]) -> (Y{f32}[M])) (setf a (unsqueeze A :axis 1)) (setf e (exp (* (+ 1 (* a a)) (- X (max X :axis 1 :keepdims t))))) (return (/ (sum (* e V) :axis 1) (sum e :axis 1)))",
        1,
    ),
    "attention": (attention(), 1),
    "causal": (attention(f"{PLACES} (setf s (where (<= j (+ i (- M N))) s -inf))"), 1),
    "sliding window": (attention(f"{PLACES} (setf s (where (and (<= j i) (< (- i j) 5)) s -inf))"), 1),
    "bias": (attention("(setf s (+ s B))", " B{f32}[N M]"), 1),
    "bias of each head, causal": (attention(f"{PLACES} (setf s (where (<= j i) (+ s B) -inf))", " B{f32}[H N M]"), 1),
    "ALiBi": (attention(f"{PLACES} (setf s (+ s (* (unsqueeze A :axis (1 2)) (cast f32 (- j i)))))", " A{f32}[H]"), 1),
    "soft cap": (attention("(setf s (* 30 (tanh (/ s 30))))"), 1),
    "soft cap, causal": (attention(f"{PLACES} (setf s (* 30 (tanh (/ s 30)))) (setf s (where (<= j i) s -inf))"), 1),
    "scale of each head": (attention("(setf s (* s (unsqueeze A :axis (1 2))))", " A{f32}[H]"), 1),
    "bf16": (attention(t="bf16"), 1),
    "f16": (attention(t="f16"), 1),
    "bf16, causal": (attention(f"{PLACES} (setf s (where (<= j i) s -inf))", t="bf16"), 1),
    "f16, sliding window, soft cap": (
        attention(f"{PLACES} (setf s (* 30 (tanh (/ s 30)))) (setf s (where (and (<= j i) (< (- i j) 5)) s -inf))", t="f16"),
        1,
    ),
    "stripes, and keys that a table leaves out": (
        attention(f"{PLACES} (setf s (where (and (or (<= (abs (- i j)) 20) (= (mod j 7) 0)) (not off)) s -inf))", " off{bool}[M]"),
        1,
    ),
    "gradient by queries": (gradient("(sum (* p g) :axis -1 :keepdims t)"), 1),
    "gradient by queries, causal": (gradient("(sum (* p g) :axis -1 :keepdims t)", f"{PLACES} (setf s (where (<= j (+ i (- M N))) s -inf))"), 1),
    "gradient by queries, of the output": (gradient('(sum (* G (einsum "hij,hje->hie" p V)) :axis -1 :keepdims t)'), 3),
    "bf16, biased": (attention("(setf s (+ s B))", " B{bf16}[N M]", t="bf16"), 1),
    "f16 with casts": (
        '((Q{f16}[H N D] K{f16}[H M D] V{f16}[H M E]) -> (O{f16}[H N E])) (setf s (* (einsum "hid,hjd->hij" (cast f32 Q) (cast f32 K)) (rsqrt D))) '
        '(setf p (cast f16 (softmax s :axis -1))) (return (cast f16 (einsum "hij,hje->hie" (cast f32 p) (cast f32 V))))',
        1,
    ),
    "grouped queries": (
        "((Q{f32}[H G N D] K{f32}[H M D] V{f32}[H M E]) -> (O{f32}[H G N E])) "
        '(return (einsum "hgij,hje->hgie" (softmax (* (einsum "hgid,hjd->hgij" Q K) (rsqrt D)) :axis -1) V))',
        1,
    ),
    "heads inside": (
        '((Q{f32}[N H D] K{f32}[M H D] V{f32}[M H E]) -> (O{f32}[N H E])) (return (einsum "hij,jhe->ihe" (softmax (einsum "ihd,jhd->hij" Q K) :axis -1) V))',
        1,
    ),
    "sink": (
        '((Q{f32}[H N D] K{f32}[H M D] V{f32}[H M E] G{f32}[H]) -> (O{f32}[H N E])) (setf s (* (einsum "hid,hjd->hij" Q K) (rsqrt D))) (setf g (unsqueeze G :axis (1 2))) '
        "(setf mx (max (max s :axis -1 :keepdims t) g)) (setf p (exp (- s mx))) "
        '(return (/ (einsum "hij,hje->hie" p V) (+ (sum p :axis -1 :keepdims t) (exp (- g mx)))))',
        1,
    ),
    "one query": (
        '((Q{f32}[H D] K{f32}[H M D] V{f32}[H M E]) -> (O{f32}[H E])) (return (einsum "hj,hje->he" (softmax (* (einsum "hd,hjd->hj" Q K) (rsqrt D)) :axis -1) V))',
        1,
    ),
    "one query, the last positions": (
        '((Q{f32}[H D] K{f32}[H M D] V{f32}[H M E]) -> (O{f32}[H E])) (setf s (* (einsum "hd,hjd->hj" Q K) (rsqrt D))) '
        '(setf s (where (< (- M (iota M)) 100) s -inf)) (return (einsum "hj,hje->he" (softmax s :axis -1) V))',
        1,
    ),
    "one query of a group, biased": (
        '((Q{f32}[H G D] K{f32}[H M D] V{f32}[H M E] B{f32}[G M]) -> (O{f32}[H G E])) (setf s (+ (* (einsum "hgd,hjd->hgj" Q K) (rsqrt D)) B)) '
        '(return (einsum "hgj,hje->hge" (softmax s :axis -1) V))',
        1,
    ),
    "by distance": (
        "((Q{f32}[N D] K{f32}[M D] V{f32}[M E]) -> (O{f32}[N E])) (setf d (- (unsqueeze Q :axis 1) (unsqueeze K :axis 0))) "
        "(return (matmul (softmax (- (sum (* d d) :axis 2)) :axis -1) V))",
        1,
    ),
    "with its logsumexp without a guard": (
        '((Q{f32}[H N D] K{f32}[H M D] V{f32}[H M E]) -> (O{f32}[H N E] L{f32}[H N])) (setf s (* (einsum "hid,hjd->hij" Q K) (rsqrt D))) '
        "(setf m (max s :axis -1 :keepdims t)) (setf e (exp (- s m))) (setf l (sum e :axis -1 :keepdims t)) "
        '(return (einsum "hij,hje->hie" (/ e l) V) (squeeze (+ m (log l)) :axis -1))',
        1,
    ),
    "with its logsumexp": (
        '((Q{f32}[H N D] K{f32}[H M D] V{f32}[H M E]) -> (O{f32}[H N E] L{f32}[H N])) (setf s (* (einsum "hid,hjd->hij" Q K) (rsqrt D))) '
        '(return (einsum "hij,hje->hie" (softmax s :axis -1) V) (logsumexp s :axis -1))',
        1,
    ),
}
TAKEN_OUT = {  # R factors leave the sum; nothing is left to be corrected
    "norm, then product": "((X{f32}[M N] W{f32}[N K]) -> (Y{f32}[M K])) (return (matmul (* X (rsqrt (+ 1e-5 (mean (* X X) :axis 1 :keepdims t)))) W))",
    "normalised, then dot": "((X{f32}[M N] Y{f32}[M N]) -> (Z{f32}[M])) (return (sum (* (/ X (sqrt (sum (* X X) :axis 1 :keepdims t))) Y) :axis 1))",
}
LEFT_BEHIND = {  # the same, and a cascade remains
    "weights by their logarithms": (
        "((X{f32}[M N] V{f32}[M N]) -> (Y{f32}[M])) (setf l (log_softmax X :axis 1)) (return (sum (* (exp l) V) :axis 1))",
        1,
    ),
    "base 2, by logarithms": (
        "((X{f32}[M N] V{f32}[M N]) -> (Y{f32}[M])) (setf m (max X :axis 1 :keepdims t)) (setf l (log2 (sum (exp2 (- X m)) :axis 1 :keepdims t))) "
        "(return (sum (* (exp2 (- X (+ m l))) V) :axis 1))",
        1,
    ),
    "largest logarithm": ("((X{f32}[M N]) -> (Y{f32}[M])) (return (max (log_softmax X :axis 1) :axis 1))", 1),
    "smoothed cross-entropy": (
        "((X{f32}[M N] I{i64}[M]) -> (Y{f32}[M])) (setf l (log_softmax X :axis 1)) "
        "(return (- (+ (* 0.9 (squeeze (take-along l (unsqueeze I :axis 1) :axis 1) :axis 1)) (* 0.1 (mean l :axis 1)))))",
        2,  # what stands at a position of data reads the row's logarithm from memory
    ),
}
NOT_SEPARABLE = {
    "tanh": ("((X{f32}[M N]) -> (Y{f32}[M])) (return (sum (tanh (- X (max X :axis 1 :keepdims t))) :axis 1))", "`tanh` mixes"),
    "product": ("((X{f32}[M N]) -> (Y{f32}[M])) (return (sum (exp (* X (max X :axis 1 :keepdims t))) :axis 1))", "multiplies an earlier reduction by"),
    "rounding": ("((X{f32}[M N] W{f32}[M N]) -> (Y{f32}[M])) (return (sum (* W (round (* X (max (abs X) :axis 1 :keepdims t)))) :axis 1))", "`round` mixes"),
    "another maximum": ("((X{f32}[M N] W{f32}[M N]) -> (Y{f32}[M])) (return (sum (exp (- W (max X :axis 1 :keepdims t))) :axis 1))", "no maximum of it"),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_PASS)
def test_one_pass_means_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("luminal.passes.nests.nest_cascade.LONG_TILE", 64)  # so that small tensors have several tiles
    check_one_pass(name, *ONE_PASS[name])


def test_what_is_finished_before_does_not_move() -> None:
    """Two cascades: the second needs what the first gives in the end, also the maximum that its own exponents are relative to."""
    text = gradient('(sum (* G (einsum "hij,hje->hie" p V)) :axis -1 :keepdims t)', of="(tanh {})")
    graph, found = naive(text), after(before(text))
    assert len({n.args for n in found.nodes() if n.op == "cascade"}) == 2
    legal = legalize(nests(found), TARGET, OPTIONS)
    for seed, m in enumerate((0, 1, 65, 129)):
        sizes = {"H": 1, "N": 3, "M": m, "D": 2, "E": 3}
        print(f"seed {seed}, sizes {sizes}")
        inputs = draw(graph, sizes, seed)
        want = meaning(graph, inputs, sizes)
        agree(meaning(found, inputs, sizes), want, graph, f"the graph, seed {seed}")
        agree(outputs(legal, inputs, sizes, seed), want, graph, f"the nests, seed {seed}")


def test_a_cascade_that_is_read_where_nothing_proves_it_inside() -> None:
    """Heads h of H = G · (H // G): that h // (H // G) < G is beyond the prover, so outside of the loop over e it would want a guard; it gets a kernel of its own."""
    graph = naive(
        "((Q{f32}[H N D] K{f32}[G M D](where H % G = 0) V{f32}[G M E]) -> (O{f32}[H N E])) (setf q (reshape Q G -1 N D)) "
        '(return (reshape (einsum "hgij,hje->hgie" (softmax (einsum "hgid,hjd->hgij" q K) :axis -1) V) H N E))'
    )
    module = make_nests(fuse(after(simplify(raise_loops(graph, TARGET, OPTIONS), TARGET, OPTIONS)), TARGET, OPTIONS), TARGET, OPTIONS)
    verify(module)
    assert any("in one pass" in note for kernel in module.kernels for note in kernel.notes)
    for e in (0, 5):
        sizes = {"H": 6, "G": 3, "N": 2, "D": 3, "M": 7, "E": e}
        inputs = draw(graph, sizes, SEED)
        agree(outputs(legalize(module, TARGET, OPTIONS), inputs, sizes, SEED), meaning(graph, inputs, sizes), graph, f"E = {e}")


@pytest.mark.parametrize("name", LEFT_BEHIND)
def test_terms_leave_exponents_and_extremes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("luminal.passes.nests.nest_cascade.LONG_TILE", 64)
    monkeypatch.setattr("luminal.passes.nests.nest_moments.CACHED", 128)
    check_one_pass(name, *LEFT_BEHIND[name], masked=False)


@pytest.mark.parametrize("name", TAKEN_OUT)
def test_factors_leave_a_sum(name: str) -> None:
    graph = before(TAKEN_OUT[name])
    found = after(graph)
    assert found.outputs != graph.outputs and not any(n.op == "cascade" for n in found.nodes())
    sizes = {s.name: 5 for s in graph.sizes}
    for n in (0, 1, 7):
        inputs = draw(graph, sizes | {"N": n}, n)
        agree(meaning(found, inputs, sizes | {"N": n}), meaning(graph, inputs, sizes | {"N": n}), graph, name)


@pytest.mark.parametrize("name", NOT_SEPARABLE)
def test_what_is_not_separable_stays_and_says_why(name: str) -> None:
    text, reason = NOT_SEPARABLE[name]
    found = after(before(text))
    assert not any(n.op == "cascade" for n in found.nodes())
    (said,) = why_not(found, TARGET)
    assert reason in said


@pytest.mark.parametrize(
    ("name", "elastic"), [("attention", False), ("bias", False), ("causal", True), ("sliding window", True), ("soft cap, causal", True)]
)
def test_tiles_of_masked_scores_are_skipped(name: str, elastic: bool) -> None:
    """The loop over tiles ends (and begins) where a row's mask lets it; a mask whose fill changes something would not."""
    module = make_nests(fuse(after(before(ONE_PASS[name][0])), TARGET, OPTIONS), TARGET, OPTIONS)
    loops = [s for k in module.kernels for s in statements(k.body) if isinstance(s, Loop)]
    assert any(s.kind == "elastic" for s in loops) == elastic
    text = ONE_PASS[name][0].replace("-inf", "-1000")
    module = make_nests(fuse(after(before(text)), TARGET, OPTIONS), TARGET, OPTIONS)
    assert not any(s.kind == "elastic" for k in module.kernels for s in statements(k.body) if isinstance(s, Loop))


def test_a_tile_is_worked_off_as_far_as_its_rows_go() -> None:
    """What is read of a tile, and kept for it, ends where the mask ends, not with the tile."""
    module = make_nests(fuse(after(before(ONE_PASS["causal"][0])), TARGET, OPTIONS), TARGET, OPTIONS)
    *_, tiles = (s for k in module.kernels for s in statements(k.body) if isinstance(s, Loop) and s.kind == "elastic")  # not the one in chunks
    inside = [s for s in tiles.body if isinstance(s, Loop) and tiles.axis in s.stop.names]
    assert inside and all(tiles.stop.names <= s.stop.names for s in inside)


def test_strict_keeps_the_order_of_sums() -> None:
    graph = before(ONE_PASS["attention"][0])
    assert cascade(graph, TARGET, Options(level=2, strict=True)) is graph


def exact(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    s = np.einsum("hid,hjd->hij", *(x.astype(np.float64) for x in (q, k))) / np.sqrt(q.shape[-1])
    if mask is not None:
        s = np.where(mask, s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hij,hje->hie", e / e.sum(-1, keepdims=True), v.astype(np.float64))


@needs_cc
@pytest.mark.parametrize("causal", [False, True])
def test_compiled_attention(causal: bool) -> None:
    """Tiles, blocks of rows and their borders, on clang; a row that is masked to its end is NaN, and huge scores do not overflow."""
    f = luminal.compile(f"(composite naive {ONE_PASS['sliding window' if causal else 'attention'][0]})", runtime="clang")
    rng = np.random.default_rng(SEED)
    for n, m, d, e in [(1, 1, 1, 1), (5, 64, 3, 33), (57, 129, 16, 16), (24, 191, 8, 32), (113, 127, 5, 40), (2, 300, 64, 64)]:
        q, k, v = (rng.standard_normal((2, *x)).astype(np.float32) for x in ((n, d), (m, d), (m, e)))
        q[0] *= 100
        i, j = np.arange(n)[:, None], np.arange(m)
        with np.errstate(all="ignore"):
            want = exact(q, k, v, (j <= i) & (i - j < 5) if causal else None)
        got = f(q, k, v)
        assert np.array_equal(np.isnan(got), np.isnan(want))
        scores = (
            100 * np.abs(q[0] / 100 @ k[0].T).max() if n else 0.0
        )  # an exponential carries the rounding of its argument, which is as large as this
        assert np.nanmax(np.abs(got - want), initial=0) < 4 * np.finfo(np.float32).eps * (1 + scores), (n, m, d, e)
