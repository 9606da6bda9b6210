"""Bodies that are separable once they are written otherwise: conditions that leave a sum, differences of two softmaxes, logarithms of a softmax, exponents under a choice, two scores in one pass."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from cascades import PLACES, SEED, after, before, check_one_pass, inputs_of, nests
from compilers import needs_cc
from luminal.ir.text import show
from luminal.passes.cascade import why_not
from running import TARGET, agree, meaning

pytestmark = pytest.mark.usefixtures("plain_c")

QKV = "Q{f32}[H N D] K{f32}[H M D] V{f32}[H M E]"
SCORES = '(setf s (* (einsum "hid,hjd->hij" Q K) (rsqrt D)))'
OTHERS = '(setf t (* (einsum "hid,hjd->hij" R L) (rsqrt D)))'
VALUES = '(einsum "hij,hje->hie" p V)'


def attention(code: str, more: str = "", result: str = "O{f32}[H N E]") -> str:
    return f"(({QKV}{more}) -> ({result})) {SCORES} {code}"


def loops(condition: str) -> str:
    """Attention as loops that pass over what is masked."""
    score = "(let ((s 0.0)) (dotimes (d D) (incf s (* (aref Q h i d) (aref K h j d))))"
    return f"""(({QKV} A{{i32}}[N] B{{i32}}[M]) -> (O{{f32}}[H N E]))
  (dotimes (h H) (dotimes (i N)
    (let ((top -inf) (total 0.0))
      (dotimes (j M) {score} (if {condition} (maxf top s))))
      (dotimes (j M) {score}
        (if {condition} (progn
          (set w (exp (- s top)))
          (incf total w)
          (dotimes (e E) (incf (aref O h i e) (* w (aref V h j e))))))))
      (dotimes (e E) (setf (aref O h i e) (/ (aref O h i e) total))))))"""


WEIGHTS = "(setf e (where keep (exp (- s (max s :axis -1 :keepdims t))) 0)) (setf l (sum e :axis -1 :keepdims t))"
SECOND = '(setf t (einsum "hid,hjd->hij" Q R)) (setf m (max (max s :axis -1 :keepdims t) (max t :axis -1 :keepdims t))) (setf a (exp (- s m))) (setf b (exp (- t m)))'
SECOND_PORTS = " R{f32}[H L D] W{f32}[H L E]"
WRITTEN: dict[str, tuple[str, int]] = {
    "a sum over rows and columns beside the farthest of what is nearest": (
        attention("(return (- (max (min s :axis 2) :axis 1) (sum (sin s) :axis (1 2))))", result="Y{f32}[H]"),
        2,
    ),
    "one term more, divided by before the product": (
        attention(f"(setf m (max (max s :axis -1 :keepdims t) 0)) (setf e (exp (- s m))) (setf p (/ e (+ (exp (- m)) (sum e :axis -1 :keepdims t)))) (return {VALUES})"),
        1,
    ),
    "two memories under one maximum": (
        attention(
            f"""{SECOND} (setf z (+ (sum a :axis -1 :keepdims t) (sum b :axis -1 :keepdims t)))
            (return (/ (+ (einsum "hij,hje->hie" a V) (einsum "hij,hje->hie" b W)) z))""",
            SECOND_PORTS,
        ),
        2,
    ),
    "the same, masked, divided before the product": (
        attention(
            f"""(setf s (+ s X)) {SECOND} (setf z (+ (sum a :axis -1 :keepdims t) (sum b :axis -1 :keepdims t)))
            (return (+ (einsum "hij,hje->hie" (/ a z) V) (einsum "hij,hje->hie" (/ b z) W)))""",
            f"{SECOND_PORTS} X{{f32}}[N M]",
        ),
        2,
    ),
    "a row that may be empty": (
        attention(f"(setf keep (< (unsqueeze A :axis 1) B)) (setf s (where keep s -1e9)) {WEIGHTS} (setf p (where (> l 0) (/ e l) 0)) (return {VALUES})", " A{f32}[N] B{f32}[M]"),
        1,
    ),
    "the same, the other way round, causal": (attention(f"{PLACES} (setf keep (< j i)) (setf s (where keep s -1e9)) {WEIGHTS} (setf p (where (= l 0) 0 (/ e l))) (return {VALUES})"), 1),
    "masked behind the maximum": (attention(f"{PLACES} (setf keep (<= j i)) {WEIGHTS} (setf p (/ e l)) (return {VALUES})"), 1),
    "masked sums of scores": (attention(f"{PLACES} (setf p (where (<= j i) (* s s) 0)) (return (/ {VALUES} (+ 1 (sum p :axis -1 :keepdims t))))"), 1),
    "a difference of two, of their own scores": (
        attention(f"{OTHERS} (setf p (- (softmax s :axis -1) (* x (softmax t :axis -1)))) (return {VALUES})", " R{f32}[H N D] L{f32}[H M D] x{f32}[]"),
        1,
    ),
    "a mixture": (attention(f"(setf g (unsqueeze G :axis (1 2))) (setf p (+ (* g (softmax s :axis -1)) (* (- 1 g) (softmax (* 2 s) :axis -1)))) (return {VALUES})", " G{f32}[H]"), 1),
    "entropy beside the result": (attention(f"(setf p (softmax s :axis -1)) (return {VALUES} (- (sum (* p (log p)) :axis -1)))", result="O{f32}[H N E] Z{f32}[H N]"), 1),
    "divergence of two": (attention(f"{OTHERS} (setf a (log_softmax s :axis -1)) (return (sum (* (exp a) (- a (log_softmax t :axis -1))) :axis -1))", " R{f32}[H N D] L{f32}[H M D]", "Z{f32}[H N]"), 1),
    "loops, documents": (loops("(and (= (aref A i) (aref B j)) (<= j i))"), 1),
    "loops, a threshold": (loops("(> s 0.1)"), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_one_pass(name: str) -> None:
    text, kernels = WRITTEN[name]
    check_one_pass(name, text, kernels, masked="X{f32}" in text)


def test_what_depends_on_no_reduction_is_summed_by_itself() -> None:
    found = after(before(attention(f"(setf p (- (softmax s :axis -1) (/ 1.0 (cast f32 M)))) (return {VALUES})")))
    assert " = reduce.add f32[H, E] over [M]" in show(found)
    assert len(nests(found).kernels) == 2


def test_statistics_of_fewer_rows_are_finished_before() -> None:
    """The weights of the values are one row for all queries."""
    text = attention(f"(setf p (* (softmax s :axis -1) (unsqueeze (softmax G :axis -1) :axis 1))) (return {VALUES})", " G{f32}[H M]")
    module = nests(after(before(text)))
    assert len(module.kernels) == 3 and not any({"N", "M"} <= {str(e) for e in t.shape} for t in module.temps), show(module)


def test_squares_of_a_difference_are_not_taken_apart() -> None:
    text = "((X{f32}[R N] Y{f32}[R N]) -> (Z{f32}[R])) (setf d (- (softmax X :axis -1) (softmax Y :axis -1))) (return (sum (* d d) :axis -1))"
    assert " = sub f32[R, N]" in show(after(before(text)))


def test_two_cascades_of_products_are_two_kernels() -> None:
    """Along axes of different lengths they cannot be one; in one kernel neither would have blocks of rows."""
    text = f"""(({QKV} R{{f32}}[H L D] W{{f32}}[H L E]) -> (O{{f32}}[H N E])) {SCORES}
      (setf a (softmax s :axis -1)) (setf b (softmax (einsum "hid,hjd->hij" Q R) :axis -1))
      (return (+ (einsum "hij,hje->hie" a V) (einsum "hij,hje->hie" b W)))"""
    found = after(before(text))
    assert len(nests(found).kernels) == 2


def test_two_passes_that_would_need_each_other() -> None:
    """The sums of each memory are weighed by the other's: one of them stays reductions, each finished before what needs it."""
    text = attention(
        """(setf t (einsum "hid,hjd->hij" Q R))
        (setf a (exp (- s (max s :axis -1 :keepdims t)))) (setf b (exp (- t (max t :axis -1 :keepdims t))))
        (setf v (* (unsqueeze (sum b :axis -1) :axis -1) a)) (setf w (* (unsqueeze (sum a :axis -1) :axis -1) b))
        (return (+ (einsum "hij,hje->hie" v V) (einsum "hij,hje->hie" w W)))""",
        SECOND_PORTS,
    )
    graph = before(text)
    sizes = {"H": 2, "N": 3, "D": 2, "M": 65, "L": 5, "E": 2}
    inputs = inputs_of(graph, sizes, 0)
    agree(meaning(after(graph), inputs, sizes), meaning(graph, inputs, sizes), graph, "weighed by one another")
    assert any("need results of each other" in reason for reason in why_not(graph, TARGET))


def softmax(s: np.ndarray) -> np.ndarray:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@needs_cc
def test_compiled_difference() -> None:
    f = luminal.compile(f"(composite naive {WRITTEN['a difference of two, of their own scores'][0]})", runtime="clang")
    rng = np.random.default_rng(SEED)
    for n, m, d, e in [(5, 64, 3, 33), (57, 300, 16, 16), (1, 3000, 8, 8)]:
        q, k, v, r, y = (rng.standard_normal((2, *x)).astype(np.float32) for x in ((n, d), (m, d), (m, e), (n, d), (m, d)))
        s, t = (np.einsum("hid,hjd->hij", a.astype(np.float64), b) / np.sqrt(d) for a, b in ((q, k), (r, y)))
        np.testing.assert_allclose(f(q, k, v, r, y, 0.5), (softmax(s) - 0.5 * softmax(t)) @ v, atol=2e-5)


@needs_cc
def test_compiled_loops_do_not_read_what_they_pass_over() -> None:
    """A product under a condition is staged and multiplied in register tiles, and what the condition leaves out may be infinite."""
    f = luminal.compile(f"(composite naive {loops('(and (= (aref A i) (aref B j)) (<= j i))')})", runtime="clang")
    rng = np.random.default_rng(SEED)
    for n, d, e in [(5, 3, 33), (300, 16, 40), (129, 8, 8)]:
        q, k, v = (rng.standard_normal((2, n, x)).astype(np.float32) for x in (d, d, e))
        a = np.arange(n, dtype=np.int32) // 50
        v[:, 0] = np.inf  # which rows of another document pass over
        s = np.einsum("hid,hjd->hij", q.astype(np.float64), k)
        keep = (a[:, None] == a) & (np.arange(n) <= np.arange(n)[:, None])
        p = softmax(np.where(keep, s, -np.inf))
        want = np.where(keep[None, :, :, None], p[..., None] * np.where(keep[None, :, :, None], v[:, None].astype(np.float64), 0), 0).sum(2)
        np.testing.assert_allclose(f(q, k, v, a, a), want, atol=2e-5)


def log_softmax(x: np.ndarray) -> np.ndarray:
    return x - x.max(1, keepdims=True) - np.log(np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True))


@needs_cc
@pytest.mark.parametrize("shape", ["M N", "3 700"])
def test_an_extreme_that_an_exponent_holds_twice_is_taken_off_twice(shape: str) -> None:
    f = luminal.compile(f"(composite twice ((X{{f32}}[{shape}]) -> (Y{{f32}}[{shape}])) (return (log_softmax (log_softmax (log_softmax X)))))")
    x = (np.random.default_rng(SEED).standard_normal((3, 700)) + 5).astype(np.float32)
    np.testing.assert_allclose(f(x), log_softmax(x.astype(float)), rtol=1e-5, atol=1e-5)


@needs_cc
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("n", [20, 9000])
def test_statistics_that_keep_their_axis_are_those_of_the_row(dtype: str, n: int) -> None:
    """In short rows each is a reduction of its own, of as many axes as it had."""
    statistics = "(* (sum v :axis -1 :keepdims t) (- v (logsumexp v :axis -1 :keepdims t)))"
    f = luminal.compile(f"(composite kept ((X{{{dtype}}}[M N]) -> (Y{{{dtype}}}[M N])) (setf v (tanh X)) (return {statistics}))")
    x = (np.random.default_rng(SEED).standard_normal((3, n)) * 3).astype(np.float32 if dtype == "f32" else np.float16)
    v = np.tanh(x.astype(float))
    want = v.sum(1, keepdims=True) * (v - np.log(np.exp(v).sum(1, keepdims=True)))
    assert np.abs(f(x) - want).max() < (1e-5 if dtype == "f32" else 1e-2) * n


@needs_cc
def test_a_softmax_over_rows_and_columns_stores_no_scores() -> None:
    """Each row is relative to its own largest score, and weighed by that afterwards."""
    code = "(setf e (exp (- s (max s :axis (1 2) :keepdims t)))) (setf p (/ e (sum e :axis (1 2) :keepdims t)))"
    text = attention(f"(setf s (+ s X)) {code} (return {VALUES})", " X{f32}[H N M]")
    module = nests(after(before(text)))
    assert len(module.kernels) == 2 and not any({"N", "M"} <= {str(e) for e in t.shape} for t in module.temps), show(module)
    f = luminal.compile(f"(composite both {text})")
    rng = np.random.default_rng(SEED)
    for n, m in [(1, 1), (5, 130), (33, 64), (0, 3), (3, 0)]:
        q, k, v, x = (rng.standard_normal((2, *shape)).astype(np.float32) for shape in ((n, 8), (m, 8), (m, 5), (n, m)))
        x[0, n // 2 :] = -np.inf if n > 1 else 0  # whole rows that are masked
        s = (q.astype(float) @ k.astype(float).swapaxes(1, 2)) / np.sqrt(8) + x
        e = np.exp(s - s.max((1, 2), keepdims=True)) if s.size else s
        want = e / e.sum((1, 2), keepdims=True) @ v if s.size else np.zeros((2, n, 5))
        np.testing.assert_allclose(f(q, k, v, x), want, rtol=1e-4, atol=1e-6)
