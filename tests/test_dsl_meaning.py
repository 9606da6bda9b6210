"""What composites mean: elaborated, evaluated by the reference interpreter, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from luminal.dsl import Instance, Scope, elaborate, read
from luminal.ir.errors import SourceError
from luminal.ir.evaluate import evaluate as size_value
from luminal.ir.graph import Graph
from luminal.ir.interpret.graph import evaluate
from luminal.ir.interpret.judge import CheckFault

SEED = 20


def graph_of(source: str, **instance: Any) -> Graph:
    composites = read(source)
    return elaborate(composites[-1], Scope(composites), Instance(**instance))


def run(source: str, sizes: dict[str, int] | None = None, /, instance: dict[str, Any] | None = None, **inputs: Any) -> Any:
    """The outputs (one alone, several as a tuple) of the last composite of a Lisp text."""
    graph = graph_of(source, **(instance or {}))
    known = dict(sizes or {})
    for p in graph.ports:
        if p.name in inputs:
            for e, n in zip(p.shape, np.shape(inputs[p.name]), strict=True):
                if e.op == "size":
                    known.setdefault(e.attr, n)
    found = evaluate(graph, inputs, known)
    values = tuple(np.asarray(found[name].value, dtype=np.float64) for name, _ in graph.outputs)
    return values[0] if len(values) == 1 else values


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(SEED + sum(shape)).standard_normal(shape).astype(np.float32)


def same(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=1e-6)


# ---- the loop style


def test_the_exact_spelling_of_an_output_wins_over_a_folded_loop_variable() -> None:
    x = draw(5)
    same(run("(composite c ((X{f32}[N]) -> (Y{f32}[N])) (dotimes (y N) (setf (aref Y y) (* 2.0 (aref X y)))))", X=x), 2 * x)


@pytest.mark.parametrize(
    "body",
    [
        "(setf g (* 2 G)) (return g (sum G))",
        "(setf (values g h) (split (* 2 (concat G G :axis 0)) N N :axis 0)) (return g (sum G))",
        "(setf y (zeros N)) (dotimes (i N) (set g (* 2 G)) (setf (aref y i) (aref g i))) (return y (sum G))",
        "(setf g (* 2 g)) (return g (sum G))",
    ],
    ids=["setf", "several", "in a loop", "of itself"],
)
def test_a_name_beside_an_input_that_differs_in_case_is_its_own(body: str) -> None:
    G = draw(7)
    y, total = run(f"(composite f ((G{{f32}}[N]) -> (Y{{f32}}[N] S{{f32}}[])) {body})", G=G)
    same(y, 2 * G)
    same(total, G.astype(np.float64).sum())


def test_an_input_is_updated_and_stored_into_by_its_folded_name() -> None:
    G = draw(7)
    for body in ("(incf g 1)", "(setf (aref g 0) (+ 1 (aref g 0)))", "(dotimes (i 1) (incf (aref g i)))"):
        y, z = run(f"(composite f ((G{{f32}}[N](where N = 7)) -> (Y{{f32}}[N] Z{{f32}}[N])) {body} (return G g))", G=G)
        same(y, G + (np.arange(7) == 0 if "aref" in body else 1))
        same(z, y)


def test_what_is_updated_in_place_is_assigned_by_its_folded_name() -> None:
    G = draw(7)
    same(run("(composite f ((G{f32}[N]) -> (G)) (setf g (* 2 G)))", G=G), 2 * G)


def test_gemm_accumulates_into_its_output() -> None:
    a, b, c = draw(3, 5), draw(5, 2), draw(3, 2)
    text = """(composite gemm ((A{float}[M K] B{float}[K N] C{float}[M N]) -> (C))
      (dotimes (i m) (dotimes (j n) (dotimes (p k) (incf (aref C i j) (* (aref A i p) (aref B p j)))))))"""
    same(run(text, A=a, B=b, C=c), c + a @ b)


def test_an_output_of_its_own_starts_as_zeros() -> None:
    a = draw(3, 5)
    same(run("(composite f ((A{f32}[M N]) -> (Y{f32}[M])) (dotimes (i M) (dotimes (j N) (incf (aref Y i) (aref A i j)))))", A=a), a.sum(1))


def test_a_scalar_takes_the_dtype_of_what_is_added_to_it() -> None:
    a = draw(3, 5)
    text = """(composite f ((A{f32}[M N]) -> (Y{f32}[M]))
      (dotimes (i M)
        (set s 0)
        (dotimes (j N) (incf s (aref A i j)))
        (setf (aref Y i) (/ s N))))"""
    same(run(text, A=a), a.mean(1))


def test_a_scalar_of_the_outer_body_lives_across_loops() -> None:
    a = draw(7)
    text = """(composite f ((A{f32}[N]) -> (Y{f32}[]))
      (set s 0) (set count 0)
      (dotimes (i N) (incf s (aref A i)) (incf count))
      (dotimes (i N) (incf s (* 2 (aref A i))))
      (setf Y (/ s count)))"""
    same(run(text, A=a), 3 * a.mean())


def test_order_matters_where_a_loop_reads_what_it_wrote() -> None:
    a = draw(6)
    expected = a.copy()
    for n in range(6):
        expected[n] = expected[5 - n]
    same(run("(composite r ((X{f32}[N]) -> (X)) (dotimes (n N) (setf (aref X n) (aref X (- N 1 n)))))", X=a), expected)


def test_loop_down_and_by_steps() -> None:
    text = """(composite f ((A{f32}[N]) -> (Y{f32}[N]))
      (loop (i (- N 1) -1 -1) (setf (aref Y i) (+ (aref A i) (if (< i (- N 1)) (aref Y (+ i 1)) 0))))
      (loop (i 0 N 2) (mulcf (aref Y i) 2)))"""
    a = draw(7)
    expected = np.cumsum(a[::-1])[::-1].copy()
    expected[::2] *= 2
    same(run(text, A=a), expected)


def test_while_and_conditions() -> None:
    text = """(composite collatz ((A{i64}[N]) -> (Y{i64}[N]))
      (dotimes (i N)
        (set x (aref A i))
        (while (/= x 1) :max 1000
          (if (= (mod x 2) 0) (set x (floordiv x 2)) (set x (+ 1 (* 3 x))))
          (incf (aref Y i)))))"""
    same(run(text, A=np.array([1, 2, 3, 27])), [0, 1, 7, 111])


def test_local_arrays_and_let() -> None:
    text = """(composite f ((A{f32}[M 4]) -> (Y{f32}[M]))
      (dotimes (i M)
        (make-array v f32 (4))
        (dotimes (k 4) (let ((x (aref A i k)) (y 2)) (setf (aref v (- 3 k)) (* x y))))
        (dotimes (k 4) (incf (aref Y i) (* (aref v k) k)))))"""
    a = draw(3, 4)
    same(run(text, A=a), (2 * a[:, ::-1]) @ np.arange(4))


@pytest.mark.parametrize(
    ("ports", "requires", "extent"),
    [
        ("A{f32}[(* 2 N)]", [], "N"), ("A{f32}[8]", [], "4"), ("A{f32}[N]", ["N % 2 == 0"], "N // 2"), ("A{f32}[(+ N N)]", [], "N"),
        ("A{f32}[(- N 3)]", ["(N + 1) % 2 == 0", "3 <= N"], "(N + 1) // 2 - 2"),
    ],
)  # fmt: skip
def test_a_size_of_a_callee_in_an_expression_alone_is_what_makes_it_the_extent(ports: str, requires: list[str], extent: str) -> None:
    callee = "(composite half ((A{T}[(* 2 M)]) -> (Y{T}[M])) (return (slice A (0 M))))"
    graph = graph_of(f"{callee} (composite f (({ports}) -> Y) (return (half A)))")
    assert repr(graph.port("Y").shape[0]) == extent and sorted(map(repr, graph.requires)) == sorted(requires)


def test_such_a_size_is_known_to_what_the_callee_says_of_it() -> None:
    callee = "(composite g ((P{i32}[(+ N 1)](where N < 4)) -> (Y{i32}[N])) (return (slice P (1 (+ N 1)))))"
    graph = graph_of(f"{callee} (composite f ((P{{i32}}[S]) -> Y) (return (g P)))")
    assert repr(graph.port("Y").shape[0]) == "S - 1" and sorted(map(repr, graph.requires)) == ["1 <= S", "S <= 4"]
    with pytest.raises(SourceError, match="E0307"):
        graph_of(f"{callee} (composite f ((P{{i32}}[5]) -> Y) (return (g P)))")


def test_an_index_by_a_name_into_a_local_array_is_drawn_inside_it() -> None:
    """What a scatter within loops becomes: the element has a name, and the array is of the loops."""
    text = """(composite rounds ((r{f32}[V] at{i64}[E] from{i64}[E]) -> (r))
      (dotimes (k 2)
        (setf r (scatter (zeros V) at (gather r from) :combine add)))
      (return r))"""
    limits = {p.name: p.index_limit.attr for p in graph_of(text).ports if p.index_limit is not None}
    assert limits == {"at": "V", "from": "V"}


def test_indices_from_a_tensor_are_checked() -> None:
    text = "(composite f ((X{f32}[N D] I{int}[M]) -> (Y{f32}[M D])) (dotimes (i M) (dotimes (d D) (setf (aref Y i d) (aref X (aref I i) d)))))"
    x, i = draw(5, 2), np.array([4, 0, 0, 2], dtype=np.int32)
    same(run(text, X=x, I=i), x[i])
    port = graph_of(text).port("I")
    assert port.index_limit is not None and port.index_limit.attr == "N" and port.draw == "index"
    with pytest.raises(CheckFault):
        run(text, X=x, I=np.array([5], dtype=np.int32))


def test_an_index_that_a_condition_guards_needs_no_check() -> None:
    text = """(composite conv ((X{f32}[N] W{f32}[K]) -> (Y{f32}[N]))
      (dotimes (i N) (dotimes (k K) (incf (aref Y i) (* (aref W k) (if (>= i k) (aref X (- i k)) 0))))))"""
    x, w = draw(9), draw(3)
    same(run(text, X=x, W=w), np.convolve(x, w)[:9])
    from luminal.ir.text import show

    assert "check" not in show(graph_of(text))


def test_bounds_that_may_lie_outside_become_preconditions_before_the_loops() -> None:
    text = "(composite f ((A{T}[i j] B{T}[i j]) -> (B)) (dotimes (i1 3) (dotimes (j1 j) (setf (aref b i1 j1) (+ 1.0 (aref a i1 j1))))))"
    same(run(text, A=draw(3, 3), B=draw(3, 3)), draw(3, 3) + 1)
    (condition,) = graph_of(text).requires
    assert [size_value(condition, {"i": i, "j": j}) for i, j in ((3, 1), (2, 1), (2, 0))] == [True, False, True]
    with pytest.raises(SourceError, match="E0319"):
        graph_of("(composite f ((A{T}[2]) -> (A)) (dotimes (i 3) (setf (aref A i) 0)))")


def test_checks_leave_loops_only_where_that_says_the_same() -> None:
    text = """(composite f ((A{f32}[N] I{i64}[K]) -> (Y{f32}[M N]))
      (dotimes (k K)
        (set at (aref I k))
        (dotimes (j N) (setf (aref Y at j) (aref A (floordiv (* 2 j) 3))))))"""
    graph = graph_of(text.replace("[M N]", "[K N]"))
    a, i = draw(5), np.array([2, 0, 2])
    expected = np.zeros((3, 5))
    expected[[0, 2]] = a[[0, 0, 1, 2, 2]]
    same(run(text.replace("[M N]", "[K N]"), A=a, I=i), expected)
    assert not graph.requires
    with pytest.raises(CheckFault):
        run(text.replace("[M N]", "[K N]"), A=a, I=np.array([0, 3, 0]))


def test_composites_of_numbers_are_called_inside_loops() -> None:
    text = """(composite mix ((X{T}[] Y{T}[~] &key (a 0.5)) -> (Z{T}[])) (setf z (* a X)) (if (= a 0.5) (setf z (+ z 1))) (return (* (relu z) Y)))
    (composite f ((A{f64}[N]) -> (Y{f64}[N])) (dotimes (i N) (setf (aref Y i) (+ (mix (aref A i) 2) (gelu (aref A i))))))"""
    from scipy.special import erf

    a = draw(9).astype(np.float64)
    same(run(text, A=a), np.maximum(a / 2 + 1, 0) * 2 + a / 2 * (1 + erf(a / np.sqrt(2))))


# ---- both styles, and values


def test_styles_mix_and_values_are_values() -> None:
    text = """(composite f ((A{f32}[M N]) -> (Y{f32}[M N] Z{f32}[M N]))
      (setf z (exp A))
      (setf before z)
      (setf (aref z 0 0) 7)
      (dotimes (i M) (setf (aref z i (- N 1)) i))
      (return z before))"""
    a = draw(3, 5)
    expected = np.exp(a.astype(np.float64))
    changed = expected.copy()
    changed[0, 0] = 7
    changed[:, 4] = range(3)
    y, z = run(text, A=a)
    same(y, changed)
    same(z, expected)


def test_rows_are_assigned_and_accumulated() -> None:
    text = """(composite f ((A{f32}[M N]) -> (Y{f32}[M N]))
      (setf Y A) (setf (aref Y 0) (sum A :axis 0)) (incf (aref Y 1 2) 10) (return Y))"""
    a = draw(3, 5)
    expected = a.astype(np.float64)
    expected[0] = a.sum(0)
    expected[1, 2] += 10
    same(run(text, A=a), expected)


def test_composites_call_one_another_and_update_in_place() -> None:
    text = """(composite add-one ((X{T}[N]) -> (X)) (dotimes (i N) (incf (aref X i) 1)))
    (composite split2 ((X{T}[N M]) -> (A{T}[N] B{T}[N])) (return (sum X :axis 1) (max X :axis 1)))
    (composite f ((A{f32}[N M]) -> Y)
      (setf (values s m) (split2 A))
      (add-one s)
      (return (+ s (* 2 m))))"""
    a = draw(3, 5)
    same(run(text, A=a), a.sum(1) + 1 + 2 * a.max(1))


def test_optional_ports_and_parameters() -> None:
    text = """(composite norm ((X{T}[~ N] W{T}[N]? &key (eps 0.5) (mode "plain")) -> (Y{T}[~ N]))
      (setf y (/ X (+ eps (sum (* X X) :axis -1 :keepdims t))))
      (return (if (and (given W) (= mode "scaled")) (* y W) y)))
    (composite f ((A{f32}[M N] W{f32}[N]) -> (Y{f32}[M N])) (return (+ (norm A W :mode scaled) (norm A :eps 2))))"""
    a, w = draw(3, 5), draw(5)
    s = (a * a).sum(1, keepdims=True)
    same(run(text, A=a, W=w), a / (0.5 + s) * w + a / (2 + s))


def test_keyword_values_t_and_nil_are_literals_even_beside_ports_of_that_name() -> None:
    text = "(composite f ((T{f32}[M N] pi{f32}[]) -> (Y{f32}[M 1])) (return (* pi (sum t :axis 1 :keepdims t))))"
    a = draw(3, 5)
    same(run(text, T=a, pi=2.0), 2 * a.sum(1, keepdims=True))


def test_sizes_defined_by_where_and_by_the_body() -> None:
    text = "(composite ((A{T}[M, N], B{T}[M, N]) -> (Y{T}[M, K]) where K = (* 2 N)) (setf z (+ A B)) (return (concat z z :axis 1)))"
    a, b = draw(3, 5), draw(3, 5)
    same(run(text, A=a, B=b), np.concatenate([a + b, a + b], 1))
    graph = graph_of("(composite f ((A{f32}[N]) -> (Y{f32}[O P])) (return (reshape A 1 (* 1 N))))")
    assert [n for n, _ in graph.derived] == ["O", "P"] and [s.name for s in graph.sizes] == ["N"]


def test_the_order_of_sizes_and_what_is_known_of_them() -> None:
    graph = graph_of("(composite f ((B{f32}[N M](where M % 8 = 0, 2 <= N < 100) A{f32}[M K]) -> Y) (return (matmul B A)))")
    assert [s.name for s in graph.sizes] == ["N", "M", "K"]
    n, m, _ = graph.sizes
    assert (n.min, n.max, m.multiple) == (2, 99, 8)
    assert len(graph.requires) == 3
    fixed = graph_of("(composite f ((A{f32}[M N]) -> Y) (return (reshape A (* M N))))", sizes={"m": 4})
    assert [s.name for s in fixed.sizes] == ["N"] and fixed.ports[0].shape[0].attr == 4


def test_strided_ports_take_their_leading_strides_as_sizes() -> None:
    graph = graph_of("(composite f ((A{f32}[M N]<0 1 :strided> X{f32}[N]<0 :strided>) -> Y) (return (matmul A X)))")
    assert graph.port("A").strided == ("ldA",) and graph.port("X").strided == ("incX",)
    assert [s.name for s in graph.sizes] == ["M", "N", "ldA", "incX"]
    column = graph_of("(composite f ((A{f32}[M N]<1 0>) -> Y) (return A))")
    assert column.port("A").order == (1, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(* a 2)", "f32"),
        ("(* n 2)", "i32"),
        ("(+ n N)", "i32"),
        ("(sqrt N)", "f32"),
        ("(* 2 N)", "i64"),
        ("0.5", "f32"),
        ("(- a)", "f32"),
        ("(< a n2)", "bool"),
        ("(sum n)", "i64"),
        ("(argmax a)", "i64"),
    ],
)
def test_dtypes_of_numbers(text: str, expected: str) -> None:
    graph = graph_of(f"(composite f ((a{{f32}}[N] n{{i32}}[N] n2{{f32}}[N]) -> Y) (return {text}))")
    assert graph.outputs[0][1].dtype.name == expected


def test_type_variables_are_bound_by_the_instance_and_by_calls() -> None:
    text = "(composite g ((A{T}[N]) -> (Y{T}[N])) (return (* A 0.1)))\n(composite f ((A{T}[N]) -> (Y{T}[N])) (return (g (g A))))"
    assert graph_of(text, dtypes={"T": "f64"}).outputs[0][1].dtype.name == "f64"
    assert graph_of(text).outputs[0][1].dtype.name == "f32"


def test_one_composite_serves_every_rank() -> None:
    text = "(composite f ((X{T}[~ N]) -> (Y{T}[~ N])) (return (softmax X)))"
    for rank in range(4):
        x = draw(*range(2, 2 + rank), 5)
        e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
        same(run(text, X=x, instance={"ranks": rank}), e / e.sum(-1, keepdims=True))


def test_a_broken_statement_is_reported_once() -> None:
    with pytest.raises(SourceError) as caught:
        graph_of(
            "(composite f ((A{f32}[N]) -> (Y{f32}[N])) (setf b (oops A)) (setf c (+ b 1)) (dotimes (i N) (setf (aref Y i) (aref c i))) (return (+ Y c)))"
        )
    assert [d.code for d in caught.value.diagnostics] == ["E0203"]


def test_the_same_text_gives_the_same_graph() -> None:
    from luminal.ir.text import show

    text = "(composite f ((A{f32}[M N]) -> Y) (return (layer_norm (gelu A))))"
    assert show(graph_of(text)) == show(graph_of(text))


@pytest.mark.parametrize(("T", "wide"), [("f64", "f64"), ("f32", "f32"), ("bf16", "f32")])
def test_dtypes_are_compared_and_chosen_at_compile_time(T: str, wide: str) -> None:
    (c, g) = read(
        """(composite f ((X{T}[N]) -> (Y{T}[N]))
          (setf to (if (= T f64) f64 f32))
          (return (cast T (horner (cast to X) 1.0 2.0 (if (= T "bf16") 3 4)))))
        (composite g ((X{T}[N]) -> (Y{T}[N]))
          (dotimes (i N) (setf (aref Y i) (cast T (horner (cast (if (= T f64) f64 f32) (aref X i)) 1.0 2.0 (if (= T bf16) 3 4))))))"""
    )
    for composite in (c, g):
        graph = elaborate(composite, Scope((c, g)), Instance({"T": T}))
        assert {n.dtype.name for n in graph.nodes() if n.op == "fma"} <= {wide}
        found = np.asarray(evaluate(graph, {"X": np.array([0.5, 2.0])}, {"N": 2})["Y"].value)
        assert found.tolist() == [1 + 2 * x + (3 if T == "bf16" else 4) * x * x for x in (0.5, 2.0)]


# ---- leading axes


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_a_tilde_in_the_code_stands_for_the_leading_axes(rank: int) -> None:
    text = """(composite f ((X{f32}[~ N](where N >= 1)) -> Y)
      (return (+ (reshape (expand (unsqueeze (slice X ~ (1 _)) :axis -1) ~ (- N 1) 2) (~ (* 2 (- N 1))))
                 (pad (zeros (~ (- N 1)) :dtype f32) ~ (0 (- N 1))))))"""
    x = draw(*(2, 3, 1)[:rank], 5)
    same(
        run(text, {f"batch_{k}" if rank > 1 else "batch": n for k, n in enumerate(x.shape[:-1])}, {"ranks": rank}, X=x), np.repeat(x[..., 1:], 2, -1)
    )


def test_a_tilde_in_a_callee_stands_for_the_axes_of_the_call() -> None:
    text = """(composite twice ((X{T}[~ N]) -> (Y{T}[~ (* 2 N)])) (return (reshape (expand (unsqueeze X :axis -1) ~ N 2) ~ (* 2 N))))
      (composite f ((X{f32}[M K N]) -> Y) (return (twice X)))"""
    x = draw(2, 3, 4)
    same(run(text, X=x), np.repeat(x, 2, -1))


def test_a_tilde_alone_is_a_whole_shape() -> None:
    x = draw(2, 3)
    text = "(composite f ((X{f32}[~]) -> Y) (return (+ (zeros ~ :dtype f32) (expand (reshape (reshape X -1) ~) ~) (full (~) 0.5))))"
    same(run(text, {"batch_0": 2, "batch_1": 3}, {"ranks": 2}, X=x), x + 0.5)


def test_a_callee_may_store_into_its_output_in_loops() -> None:
    text = """(composite twice ((X{T}[~ N]) -> (Y{T}[~ N])) (setf Y X) (incf Y X))
      (composite reversed ((X{T}[M]) -> (Y{T}[M])) (dotimes (i M) (setf (aref Y i) (aref X (- (- M 1) i)))))
      (composite f ((X{f32}[M]) -> Y) (return (twice (reversed X))))"""
    x = draw(5)
    same(run(text, X=x), 2 * x[::-1])


def test_a_type_variable_has_the_default_that_the_composite_gives_it() -> None:
    (c,) = read(
        '[composite]\nname = "f"\ninputs = ["A{T}[N]"]\noutputs = ["Y{T}[N]"]\ntypes.T = "i32"\n[implementation]\ncode = "(return (lognot A))"\n'
    )
    assert elaborate(c, Scope((c,))).port("Y").dtype.name == "i32"
    assert elaborate(c, Scope((c,)), Instance({"T": "u8"})).port("Y").dtype.name == "u8"
