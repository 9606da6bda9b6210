"""Rows of which a mask leaves little or nothing: 0 or NaN, as the composite says, in the graph with cascades and in its kernels."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from cascades import OPTIONS, PLACES, SEED, after, before, inputs_of, naive, nests
from compilers import needs_cc
from luminal.ir.kernel import Loop, statements
from luminal.ir.text import show
from luminal.passes.legalize import legalize
from running import TARGET, agree, meaning, outputs

pytestmark = pytest.mark.usefixtures("plain_c")

QK = "Q{f32}[H N D] K{f32}[H M D] X{f32}[N M]"
SCORES = '(setf s (+ (einsum "hid,hjd->hij" Q K) X))'
CAUSAL = f"{PLACES} (setf s (where (<= j (- i 2)) s -inf))"  # nothing is left of the first two rows


def rows(result: str, code: str, more: str = "") -> str:
    return f"(({QK}{more}) -> ({result})) {SCORES} {code}"


WEIGHTS = "(setf p (where W (exp (- s (max s :axis -1 :keepdims t))) 0))"
# what is drawn for X holds a row of -inf, which is not what W masks
MASKED = {
    "a sum of exponentials": rows("O{f32}[H N]", f"{CAUSAL} (return (sum (exp (- s (max s :axis -1 :keepdims t))) :axis -1))"),
    "a choice around them": rows("O{f32}[H N]", f"{WEIGHTS} (return (sum p :axis -1))", " W{bool}[N M]"),
    "a choice around them, of scores that it masks too": rows("O{f32}[H N]", f"(setf s (where W s -inf)) {WEIGHTS} (return (sum p :axis -1))", " W{bool}[N M]"),
    "weights of a choice": rows(
        "O{f32}[H N E]", f'{WEIGHTS} (return (/ (einsum "hij,hje->hie" p V) (+ 1 (sum p :axis -1 :keepdims t))))', " V{f32}[H M E] W{bool}[N M]"
    ),
    "a variance": rows("O{f32}[H N]", f"{CAUSAL} (return (var s :axis -1))"),
    "a variance of positions under weights": rows(
        "O{f32}[H N]",
        f"{CAUSAL} (setf p (softmax s :axis -1)) (setf c (cast f32 j)) (setf m (sum (* p c) :axis -1 :keepdims t)) (return (sum (* p (pow (- c m) 2)) :axis -1))",
    ),
    "an entropy": rows("O{f32}[H N]", f"{CAUSAL} (setf p (softmax s :axis -1)) (return (- (sum (* p (log p)) :axis -1)))"),
    "the position of the largest": rows("O{i64}[H N]", f"{CAUSAL} (return (argmax s :axis -1))"),
}  # fmt: skip


@pytest.mark.parametrize("name", MASKED)
def test_means_the_same(name: str) -> None:
    text = MASKED[name]
    graph, found = naive(text), after(before(text))
    assert any(n.op == "cascade" for n in found.nodes())
    legal = legalize(nests(found), TARGET, OPTIONS)
    for seed, (n, m) in enumerate([(5, 4), (5, 4), (4, 130), (3, 65)]):
        sizes = {s.name: {"N": n, "M": m, "H": 1, "D": 2, "E": 2}[s.name] for s in graph.sizes}
        print(f"seed {seed}, sizes {sizes}")
        inputs = inputs_of(graph, sizes, seed)
        if "W" in inputs:
            inputs["W"][1], inputs["W"][2], inputs["W"][0, -1] = False, True, seed % 2 == 0  # row 0 holds nothing but -inf
        with np.errstate(all="ignore"):
            want = meaning(graph, inputs, sizes)
            agree(meaning(found, inputs, sizes), want, graph, f"{name}, the graph, seed {seed}")
            agree(outputs(legal, inputs, sizes, seed), want, graph, f"{name}, the nests, seed {seed}")


SOFTMAX = "(setf p (exp (- s (max s :axis -1 :keepdims t)))) (setf l (sum p :axis -1 :keepdims t))"
TIMES_V = '(einsum "hij,hje->hie" {} V)'
LOOPS = """(make-array s f32 (N M))
      (dotimes (i N)
        (dotimes (j M) (if (aref W i j) (dotimes (d D) (incf (aref s i j) (* (aref Q i d) (aref K j d))))) (incf (aref s i j) (aref X i j)))
        (set m -inf)
        (set l 0.0)
        (dotimes (j M) (if (aref W i j) (maxf m (aref s i j))))
        (dotimes (j M) (if (aref W i j) (incf l (exp (- (aref s i j) m)))))
        (dotimes (j M) (if (aref W i j) (dotimes (e E) (incf (aref O i e) (* (/ (exp (- (aref s i j) m)) l) (aref V j e)))))))"""
OF_V = " V{f32}[H M E] W{bool}[N M]"
# name -> (composite, whether what is kept has to be asked for)
KEPT = {
    "weights": (rows("O{f32}[H N E]", f"{SOFTMAX} (return {TIMES_V.format('(where W (/ p l) 0)')})", OF_V), True),
    "weights of scores that are masked too": (
        rows("O{f32}[H N E]", f"(setf s (where W s -inf)) {SOFTMAX} (return {TIMES_V.format('(where W (/ p l) 0)')})", OF_V), True
    ),
    "a sum": (rows("O{f32}[H N]", f"{SOFTMAX} (return (sum (where W (/ p l) 0) :axis -1))", " W{bool}[N M]"), True),
    "not divided": (rows("O{f32}[H N E]", f"{SOFTMAX} (return {TIMES_V.format('(where W p 0)')})", OF_V), True),
    "a reciprocal under two choices": (
        rows("O{f32}[H N]", f"{SOFTMAX} (return (sum (where W (where (< X 1) (* p (recip l)) 0) 0) :axis -1))", " W{bool}[N M]"), True
    ),
    "no exponentials": (
        rows("O{f32}[H N]", "(setf r (rsqrt (sum (* s s) :axis -1 :keepdims t))) (return (sum (where W (* s r) 0) :axis -1))", " W{bool}[N M]"), True
    ),
    "positions, which may leave nothing": (
        rows("O{f32}[H N E]", f"{PLACES} {SOFTMAX} (return {TIMES_V.format('(where (< j (- i 2)) (/ p l) 0)')})", " V{f32}[H M E]"), True
    ),
    "positions, which leave something": (
        rows("O{f32}[H N E]", f"{PLACES} {SOFTMAX} (return {TIMES_V.format('(where (<= j (+ i 2)) (/ p l) 0)')})", " V{f32}[H M E]"), False
    ),
    "loops": (f"((Q{{f32}}[N D] K{{f32}}[M D] X{{f32}}[N M] V{{f32}}[M E] W{{bool}}[N M]) -> (O{{f32}}[N E])) {LOOPS}", False),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_what_is_left_of_nothing(name: str) -> None:
    """Rows of which a choice around the quotient drops everything are 0, whatever the scores and what they are divided by; where it keeps anything they are what the composite says."""
    text, asked = KEPT[name]
    graph, found = naive(text), after(before(text))
    assert any(n.op == "reduce" and n.attr.combiner == "or" for n in found.nodes()) == asked
    legal = legalize(nests(found), TARGET, OPTIONS)
    for seed, (n, m) in enumerate([(9, 4), (9, 129), (10, 65)]):
        sizes = {s.name: {"N": n, "M": m, "H": 1, "D": 2, "E": 2}[s.name] for s in graph.sizes}
        print(f"seed {seed}, sizes {sizes}")
        inputs = inputs_of(graph, sizes, 3 * seed)
        inputs["X"][:6:2], inputs["X"][1:7:2] = np.array([[np.nan], [-np.inf], [np.inf]]), np.array([[np.nan], [-np.inf], [np.inf]])
        inputs["X"][6:8, -1] = np.nan
        if "W" in inputs:
            inputs["W"][:8], inputs["W"][1:8:2, m // 2] = False, True
        with np.errstate(all="ignore"):
            want = meaning(graph, inputs, sizes)
            agree(meaning(found, inputs, sizes), want, graph, f"{name}, the graph, seed {seed}")
            agree(outputs(legal, inputs, sizes, seed), want, graph, f"{name}, the nests, seed {seed}")


@needs_cc
def test_a_factor_of_zero_is_no_mask() -> None:
    """What a `where` leaves out is not read where a whole tile is left out; a product with 0 is a product everywhere."""
    ports = "Q{f32}[H N D] K{f32}[H M D] V{f32}[H M E]"
    form = f'(composite naive (({ports}) -> (O{{f32}}[H N E])) {PLACES} (setf s (einsum "hid,hjd->hij" Q K)) (return (einsum "hij,hje->hie" P V)))'
    product, choice = (
        luminal.compile(form.replace(" P ", weights), runtime="clang")
        for weights in (" (* (cast f32 (<= j i)) (sigmoid s)) ", " (sigmoid (where (<= j i) s -inf)) ")
    )
    rng = np.random.default_rng(SEED)
    q, k, v = (rng.standard_normal((2, 300, 8)).astype(np.float32) for _ in range(3))
    v[:, 299] = np.inf
    assert np.isnan(product(q, k, v)[:, :299]).all()
    assert np.isfinite(choice(q, k, v)[:, 0]).all()


@pytest.mark.parametrize(
    ("mask", "tiles"),
    [
        ("(<= (abs (- i j)) 40)", "max(j - 40, 0) // 128 .. (min(j + 41, M) + 127) // 128"),
        ("(< (max (- i j) (* 2 (- j i))) 50)", "max(j - 49, 0) // 128 .. "),
        ("(<= 0 (min (- i j) (- 200 j)))", "0 .. (min(min(j + 1, 201), M) + 127) // 128"),
        ("(<= (floordiv j 48) (floordiv i 48))", "0 .. (min(j // 48 * 48 + 48, M) + 127) // 128"),
        ("(= (floordiv j 48) (floordiv i 48))", "j // 48 * 3 // 8 .. (min(j // 48 * 48 + 48, M) + 127) // 128"),
        ("(or (<= j i) (< j 70))", "0 .. (min(max(j + 1, 70), M) + 127) // 128"),
        ("(or (and (<= j i) (<= (- i j) 9)) (= j (+ i 140)))", "max(j - 9, 0) // 128 .. (min(j + 141, M) + 127) // 128"),
    ],
)
def test_tiles_of_nothing_are_passed_over(mask: str, tiles: str) -> None:
    """Also where a mask is a distance, the larger of two, or of blocks: what stands within it lies between two positions."""
    text = f"""((Q{{f32}}[H N D] K{{f32}}[H M D] V{{f32}}[H M E]) -> (O{{f32}}[H N E])) (setf s (einsum "hid,hjd->hij" Q K)) {PLACES}
      (return (einsum "hij,hje->hie" (softmax (where {mask} s -inf) :axis -1) V))"""
    graph, found = naive(text), after(before(text))
    module = nests(found)
    loops = [line for line in show(module).splitlines() if "elastic" in line]
    assert any(f"in {tiles}" in line for line in loops), "\n".join(loops)
    legal = legalize(module, TARGET, OPTIONS)
    for n in (1, 65, 150):
        print(f"seed {SEED}, N = {n}")
        sizes = {s.name: {"N": n, "M": n, "H": 1, "D": 2, "E": 2}[s.name] for s in graph.sizes}
        inputs = inputs_of(graph, sizes, SEED)
        with np.errstate(all="ignore"):
            agree(outputs(legal, inputs, sizes, SEED), meaning(graph, inputs, sizes), graph, f"{mask} at {n}")


@pytest.mark.parametrize(
    ("mask", "axis", "columns", "skips"),
    [
        ("(<= j i)", -1, "N", True),
        ("(and (<= j i) (< (- i j) 20))", -1, "N", True),
        ("(< j i)", -1, "N", False),  # nothing is left of the first row
        ("(and (<= j i) (< (- i j) 20))", -1, "M", False),  # nor of rows far behind the last column
        ("(and (<= j i) W)", -1, "N", False),  # what W leaves is not known
        ("(<= j i)", -2, "N", True),
        ("(< j i)", -2, "N", False),  # nor of the last column
    ],
)
def test_weights_of_rows_in_the_other_direction(mask: str, axis: int, columns: str, skips: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights of a row that is masked whole are NaN, also in tiles that hold nothing but fills: these are passed over only where each row keeps something."""
    monkeypatch.setattr("luminal.passes.nests.nest_cascade.TILE", 64)
    other = "(einsum 'hij,hie->hje' p O)" if axis == -1 else "(einsum 'hij,hje->hie' p O)"
    ports = f"Q{{f32}}[H N D] K{{f32}}[H {columns} D] O{{f32}}[H {'N' if axis == -1 else columns} E] W{{bool}}[N {columns}]"
    places = PLACES.replace("M", columns)
    text = f"""(({ports}) -> (Y{{f32}}[H {columns if axis == -1 else "N"} E])) (setf s (einsum "hid,hjd->hij" Q K)) {places}
      (setf s (where {mask} s -inf)) (setf p (exp (- s (max s :axis {axis} :keepdims t)))) (return {other.replace("'", '"')})"""
    graph, found = naive(text), after(before(text))
    module = nests(found)
    *_, result = module.kernels  # before it, maxima of rows are taken along the rows
    assert any(isinstance(s, Loop) and s.kind == "elastic" for s in statements(result.body)) == skips
    legal = legalize(module, TARGET, OPTIONS)
    for n, m in [(1, 1), (67, 67), (10, 75), (75, 10)]:
        sizes = {s.name: {"N": n, "M": m, "H": 1, "D": 2, "E": 2}[s.name] for s in graph.sizes}
        print(f"seed {SEED}, sizes {sizes}")
        inputs = inputs_of(graph, sizes, SEED)
        if "W" in inputs:
            inputs["W"][n // 2] = False
        with np.errstate(all="ignore"):
            agree(outputs(legal, inputs, sizes, SEED), meaning(graph, inputs, sizes), graph, f"{mask} at {n}, {m}")
