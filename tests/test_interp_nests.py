"""The bound of loops that stay loops: wide enough for every right order of roundings, too narrow for a wrong kernel."""

import numpy as np
import pytest
from luminal.ir import expr as ex, graph as g, kernel as k
from luminal.ir.dtypes import f32, numpy_dtype
from luminal.ir.evaluate import evaluate as size_of
from luminal.ir.interpret.graph import evaluate, judge
from luminal.ir.interpret.kernel import KernelTranslator, run_function
from luminal.ir.interpret.nest import WIDTH
from luminal.ir.interpret.perturbed import rounds, steady
from luminal.ir.record import replace
from luminal.search.conformance.kernels import Spec
from luminal.search.conformance.subjects import subjects
from luminal.search.conformance.unit import Settings, run_unit
from luminal.search.draw import draw
from running import composite

SUBJECTS = {s.name: s for s in subjects()}
COPIES = {"U": "A", "X": "B"}  # what elimination works on
SIZES = {"batch": 2, "R": 2, "N": 17, "K": 3}
# Elimination with exchanges of rows, then back substitution, in one nest.
SOLVE = """(composite solve ((A{T}[R N N] B{T}[R N K]) -> (X{T}[R N K]))
  (setf U A)
  (setf X B)
  (dotimes (r R)
    (dotimes (k N)
      (set p k)
      (loop (i (+ k 1) N)
        (if (> (abs (aref U r i k)) (abs (aref U r p k))) (set p i)))
      (dotimes (j N)
        (let ((above (aref U r k j)) (below (aref U r p j)))
          (setf (aref U r p j) above)
          (setf (aref U r k j) below)))
      (dotimes (j K)
        (let ((above (aref X r k j)) (below (aref X r p j)))
          (setf (aref X r p j) above)
          (setf (aref X r k j) below)))
      (loop (i (+ k 1) N)
        (let ((f (/ (aref U r i k) (aref U r k k))))
          (loop (j (+ k 1) N) (decf (aref U r i j) (* f (aref U r k j))))
          (dotimes (j K) (decf (aref X r i j) (* f (aref X r k j)))))))
    (loop (i (- N 1) -1 -1)
      (dotimes (k K)
        (set s (aref X r i k))
        (loop (j (+ i 1) N) (decf s (* (aref U r i j) (aref X r j k))))
        (setf (aref X r i k) (/ s (aref U r i i)))))))"""


def prepared(name, dtype, seed):
    """The composite's graph, its one nest, sizes and inputs."""
    graph = composite(SOLVE.replace("{T}", f"{{{dtype}}}")) if name == "solve" else SUBJECTS[name].graph(dtype, 1, SUBJECTS[name].instances[0])
    sizes = {s.name: SIZES.get(s.name, 5) for s in graph.sizes}
    inputs = {p.name: draw(p, sizes, seed) for p in graph.ports if p.role != "out"}
    return graph, next(n.attr.nest for n in graph.nodes() if n.op == "nest"), sizes, inputs


def straightforward(nest, inputs, sizes, body=None, dtype=None):
    """The nest's results with every operation rounded to its dtype, or all to another: what a plain kernel computes."""
    dtypes = {b.name: b.dtype for b in (*nest.operands, *nest.results)}
    arrays = {}
    for b in (*nest.operands, *nest.results):
        shape = tuple(size_of(e, sizes) for e in b.shape)
        arrays.setdefault(b.name, np.zeros(shape, dtype or numpy_dtype(b.dtype)))
    for b in nest.operands:
        arrays[b.name][...] = np.asarray(inputs[b.name if b.name in inputs else COPIES[b.name]]).reshape(arrays[b.name].shape)
    function = KernelTranslator(dtypes, False, False).function(body or nest.body, sorted(arrays), sorted(sizes), {}, "nest")
    run_function(function, arrays, sizes)
    return arrays


def ratio(graph, inputs, sizes, result):
    """The error of the graph's first output in units of its bound."""
    name, _ = graph.outputs[0]
    expected = evaluate(graph, inputs, sizes)[name]
    assert not expected.ill.any(), "undecided points"
    port = next(p for p in graph.ports if p.name == name)
    return judge(result.reshape(expected.value.shape), expected, port.dtype).max_bound_ratio


@pytest.mark.parametrize(
    "name, dtype, result",
    [("cholesky", "f32", "L"), ("cholesky", "f64", "L"), ("solve", "f32", "X"), ("solve", "f64", "X"), ("solve_lower", "f32", "X")],
)
def test_a_right_kernel_is_well_within(name, dtype, result):
    found = []
    for seed in range(3):
        graph, nest, sizes, inputs = prepared(name, dtype, seed)
        found.append(ratio(graph, inputs, sizes, straightforward(nest, inputs, sizes)[result]))
    print(name, dtype, "seeds 0 … 2:", found)
    assert 0.2 / WIDTH < max(found) < 0.5


def updates(s):
    """A loop that does more than look for a pivot: any of the rows is a right one."""
    return isinstance(s, k.Loop) and any(isinstance(t, k.Store) and t.value.dtype is f32 for t in k.statements(s.body))


def shortened(body, at, all_of_it=False):
    """The statements with the `at`th loop beginning one later: an update that is left out."""
    count = -1

    def change(s):
        nonlocal count
        if not updates(s):
            return None
        count += 1
        if count != at:
            return None
        return () if all_of_it else (replace(s, start=s.start + s.step),)

    return k.map_block(body, change)


@pytest.mark.parametrize("name, result", [("cholesky", "L"), ("solve", "X")])
def test_a_kernel_without_an_update_is_refused(name, result):
    graph, nest, sizes, inputs = prepared(name, "f32", 7)
    loops = sum(updates(s) for s in k.statements(nest.body))
    right = straightforward(nest, inputs, sizes)[result]
    refused = reached = 0
    for at in range(loops):
        reached += not np.array_equal(straightforward(nest, inputs, sizes, shortened(nest.body, at, all_of_it=True))[result], right, equal_nan=True)
        wrong = straightforward(nest, inputs, sizes, shortened(nest.body, at))[result]
        if np.array_equal(wrong, right, equal_nan=True):
            continue
        assert not ratio(graph, inputs, sizes, wrong) <= 1, f"{name}, loop {at}, seed 7"
        refused += 1
    assert refused >= reached - 2
    assert reached >= loops // 2  # others are for other sizes


@pytest.mark.parametrize("name, result", [("cholesky", "L"), ("solve", "X")])
def test_less_precision_than_is_due_is_refused(name, result):
    graph, _, sizes, inputs = prepared(name, "f64", 3)
    _, narrow, _, _ = prepared(name, "f32", 3)
    assert not ratio(graph, inputs, sizes, straightforward(narrow, inputs, sizes)[result].astype(np.float64)) <= 1


N = ex.size("N")


def recurrence(factor):
    """y[i] = factor · y[i - 1] + x[i]."""
    x = k.Buffer("x", f32, (N,))
    i = ex.var("i")
    step = ex.call("add", ex.call("mul", ex.const(factor, f32), ex.load("y", f32, i - 1)), ex.load("x", f32, i))
    body = (k.Store("y", (ex.ZERO,), ex.load("x", f32, ex.ZERO)), k.Loop("i", ex.ONE, N, (k.Store("y", (i,), step),)))
    nest = k.Nest("t", (x,), (k.Buffer("y", f32, (N,)),), body)
    port = g.Port("x", f32, (N,), "in")
    node = g.make("nest", f32, (N,), (g.identity(g.input_node(port)),), g.Attr(nest=nest, result=0))
    return g.Graph("t", (g.Size("N", min=1),), (port, g.Port("y", f32, (N,), "out")), (("y", node),)), nest


def test_a_few_last_places_are_too_many():
    graph, nest = recurrence(0.75)
    inputs, sizes = {"x": np.random.default_rng(5).standard_normal(200).astype(np.float32)}, {"N": 200}
    right = straightforward(nest, inputs, sizes)["y"]
    assert ratio(graph, inputs, sizes, right) < 0.5
    at = int(np.argmax(np.abs(right)))
    wrong = right.copy()
    wrong[at] *= 1 + 60 * 2.0**-24
    assert ratio(graph, inputs, sizes, wrong) > 1, "seed 5"


def test_what_does_not_round_is_exact():
    graph, _, sizes, inputs = prepared("sort", "f32", 1)
    assert not any(b.bound.any() for b in evaluate(graph, inputs, sizes).values())
    graph, _ = recurrence(2.0)  # small integers: every sum is representable
    expected = evaluate(graph, {"x": np.ones(12, np.float32)}, {"N": 12})["y"]
    assert expected.value.tolist() == [2.0**n - 1 for n in range(1, 13)]
    assert (expected.bound <= 8 * (2.0**-23 * expected.value + 2.0**-149)).all()


def test_samples_together_and_one_by_one_agree(monkeypatch):
    """What takes the same way for all samples has the same statistics when they run side by side."""
    import luminal.ir.interpret.nest as module

    graph, nest = recurrence(0.99)
    dtypes = {b.name: b.dtype for b in (*nest.operands, *nest.results)}
    assert steady(nest.body, dtypes) and rounds(nest.body, dtypes)
    inputs = {"x": np.random.default_rng(2).standard_normal(300).astype(np.float32)}
    together = evaluate(graph, inputs, {"N": 300})["y"].bound
    monkeypatch.setattr(module, "steady", lambda *_: False)
    apart = evaluate(graph, inputs, {"N": 300})["y"].bound
    assert 0.7 < np.median(together) / np.median(apart) < 1.4
    assert not np.array_equal(together, apart)


def test_a_float_that_decides_is_seen():
    for name in ("solve", "sort"):
        _, nest, _, _ = prepared(name, "f32", 0)
        assert not steady(nest.body, {b.name: b.dtype for b in (*nest.operands, *nest.results)})


@pytest.mark.parametrize("name, case", [("solve", "row batch=3 N=13 K=5"), ("inverse", "row batch=3 N=13")])
def test_compiled_kernels_are_within(name, case):
    """Elimination, whose result one sample of the roundings had judged five times too far off."""
    (tally,) = run_unit([Spec(name, "composite", "f32")], Settings("clang", case=case))
    assert (tally.status, tally.cases) == ("passes", 1), tally.detail
    assert tally.ratio < 0.5


def narrowed(nest, inputs, sizes, result, wide=np.float32):
    """As `straightforward`, but in a wider dtype, rounded where it is stored at last."""
    return straightforward(nest, {n: np.asarray(x, wide) for n, x in inputs.items()}, sizes, dtype=wide)[result]


def without_the_update(body, at):
    """The nest with the innermost loop's statements left out at one iteration."""
    (loop,) = body if isinstance(body[-1], k.Loop) and len(body) == 1 else body[-1:]
    inner = next(i for i, s in enumerate(loop.body) if isinstance(s, k.Loop))
    steps = loop.body[inner]
    skipped = replace(steps, body=(k.If(ex.var(steps.axis).eq(at), (), steps.body),))
    return (*body[:-1], replace(loop, body=(*loop.body[:inner], skipped, *loop.body[inner + 1 :])))


@pytest.mark.parametrize("name", ["ema_scan", "linear_recurrence"])
@pytest.mark.parametrize("n", [200, 1500])
def test_long_scans_in_small_floats_are_judged(name, n):
    """Roundings that follow each other 1500 times, of 1/256 each: right kernels are within, one that leaves out one update is not."""
    graph = SUBJECTS[name].graph("bf16", 1, SUBJECTS[name].instances[0])
    nest = next(node.attr.nest for node in graph.nodes() if node.op == "nest")
    sizes = {s.name: {"M": 2, "N": n}[s.name] for s in graph.sizes}
    for seed in range(2):
        inputs = {p.name: draw(p, sizes, seed) for p in graph.ports if p.role != "out"}
        expected = evaluate(graph, inputs, sizes)["Y"]
        assert expected.ill.mean() < 0.01
        dtype = graph.port("Y").dtype
        plain = straightforward(nest, inputs, sizes)["Y"]
        wide = narrowed(nest, inputs, sizes, "Y").astype(plain.dtype)
        ratios = [judge(found, expected, dtype).max_bound_ratio for found in (plain, wide)]
        print(name, n, "seed", seed, ratios)
        assert max(ratios) < 0.6
        wrong = straightforward(nest, inputs, sizes, without_the_update(nest.body, n // 2))["Y"]
        assert not judge(wrong, expected, dtype).ok


def test_what_drifts_as_it_is_written_may_drift():
    """A running sum of numbers below 1 stands still at 256 in bf16, whose samples do not: no right kernel is refused for that.  One that forgets what came before is."""
    text = (
        "(composite f ((X{bf16}[N]) -> (Y{bf16}[N])) (set s (cast bf16 0)) (dotimes (j N) (set s (+ s (aref X j))) (setf (aref Y j) s)) (return Y))"
    )
    graph = composite(text)
    nest = next(node.attr.nest for node in graph.nodes() if node.op == "nest")
    values = np.random.default_rng(3).uniform(0.6, 1, 380).astype(numpy_dtype(graph.port("X").dtype))
    inputs, sizes = {"X": values}, {"N": len(values)}
    expected, dtype = evaluate(graph, inputs, sizes)["Y"], graph.port("Y").dtype
    plain = straightforward(nest, inputs | {"s": 0}, sizes)["Y"]
    assert float(plain[-1]) == 256 < 0.9 * float(expected.value[-1])
    assert expected.ill.mean() < 0.3 and not expected.ill[-1] and judge(plain, expected, dtype).ok
    forgetful = plain.copy()
    forgetful[180:] = straightforward(nest, {"X": values[180:], "s": 0}, {"N": 200})["Y"]
    assert not judge(forgetful, expected, dtype).ok


def test_a_count_that_stays_zero_is_judged():
    """Nothing that went in is a float, so a bound of the smallest number is larger than all of it: what no sample moves is decided nonetheless."""
    graph = composite(
        "(composite f ((I{i64}[N]) -> (C{f64}[4]))\n  (setf c (zeros 4 :dtype f64)) (dotimes (n N) (incf (aref c (aref I n)) 1.0)) (return c))"
    )
    assert any(node.op == "nest" for node in graph.nodes())
    expected = evaluate(graph, {"I": np.array([0, 2, 2])}, {"N": 3})["C"]
    assert not expected.ill.any()
    assert judge(np.array([1.0, 0, 2, 0]), expected, graph.port("C").dtype).ok
    assert not judge(np.array([1.0, 1, 2, 0]), expected, graph.port("C").dtype).ok
