"""The graph interpreter: values against NumPy, bounds against evaluation that rounds at every step, tiles against whole tensors."""

import math

import numpy as np
import pytest
from graphs import AX, K, M, N, graph, port, same
from luminal.ir import expr as ex, graph as g, kernel as k
from luminal.ir.dtypes import DTYPES, bf16, f8e4m3, f16, f32, f64, i8, i32, i64, numpy_dtype
from luminal.ir.interpret import graph as interpreter
from luminal.ir.interpret.graph import IndexFault, evaluate, judge, reads_outside
from luminal.ir.interpret.judge import CheckFault


def matmul(a, b):
    p = g.elementwise("mul", (M, N, K), g.View(a, (AX[0], AX[2])), g.View(b, (AX[2], AX[1])))
    return g.reduce_node("add", (M, N), (K,), g.identity(p))


@pytest.fixture(params=["whole", "tiles"])
def tiling(request, monkeypatch):
    if request.param == "tiles":
        monkeypatch.setattr(interpreter, "TILE", 5)
        monkeypatch.setattr(interpreter, "CACHE", 400)


@pytest.mark.parametrize("name", ["f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i64", "i32", "i8", "u32", "u8"])
@pytest.mark.parametrize("m,n,k", [(3, 4, 5), (1, 1, 1), (0, 3, 2), (2, 3, 0), (7, 2, 13)])
def test_matmul(name, m, n, k, tiling):
    d = DTYPES[name]
    rng = np.random.default_rng(m + 10 * n)
    a, b = port("A", d, M, K), port("B", d, K, N)
    draw = (lambda *s: rng.standard_normal(s)) if d.is_float else (lambda *s: rng.integers(0, 100, s))
    x, y = (draw(*s).astype(numpy_dtype(d)) for s in ((m, k), (k, n)))
    result = evaluate(graph([a, b], C=matmul(g.input_node(a), g.input_node(b))), {"A": x, "B": y}, {"M": m, "N": n, "K": k})["C"]
    acc = np.float32 if d.is_float and d.bits < 32 else x.dtype
    actual = np.zeros((m, n), acc)
    for p in range(k):
        actual = (actual + x[:, p, None].astype(acc) * y[None, p].astype(acc)).astype(acc)
    verdict = judge(actual.astype(x.dtype), result, d)
    assert verdict.ok and verdict.ill_count == 0, verdict
    if k and m and n and d.is_float:
        wrong = actual.copy()
        wrong[0, 0] = wrong[0, 0] * 3 + 1
        assert not judge(wrong.astype(x.dtype), result, d).ok


def test_masked_views_read_the_fill(tiling):
    p = port("x", f32, N)
    x = np.arange(1, 8, dtype=np.float32)
    shifted = g.View(g.input_node(p), (AX[0] - 2,), ex.both(ex.const(1).lt(AX[0]), AX[0].lt(N + 2)), float("-inf"))
    padded = g.make("contiguous", f32, (N + 3,), (shifted,))
    got = evaluate(graph([p], y=padded), {"x": x}, {"N": 7})["y"].value
    np.testing.assert_array_equal(got, [-np.inf] * 2 + list(x) + [-np.inf])
    empty = evaluate(graph([p], y=padded), {"x": x[:0]}, {"N": 0})["y"].value
    np.testing.assert_array_equal(empty, [-np.inf] * 3)


def test_views_flip_diagonal_divide(tiling):
    p = port("x", f32, N, N)
    node = g.input_node(p)
    x = np.random.default_rng(1).standard_normal((6, 6)).astype(np.float32)
    flip = g.make("contiguous", f32, (N, N), (g.View(node, (AX[1], N - 1 - AX[0])),))
    flip2 = g.make("contiguous", f32, (N, N), (g.identity(flip),))
    diagonal = g.make("contiguous", f32, (N,), (g.View(flip, (AX[0], AX[0])),))
    flat = g.make("contiguous", f32, (N * N,), (g.View(flip2, (AX[0] // N, AX[0] % N)),))
    r = evaluate(graph([p], a=flip2, b=diagonal, c=flat), {"x": x}, {"N": 6})
    want = x[:, ::-1].T
    np.testing.assert_array_equal(r["a"].value, want)
    np.testing.assert_array_equal(r["b"].value, np.diagonal(want))
    np.testing.assert_array_equal(r["c"].value, want.reshape(-1))


@pytest.mark.parametrize("combiner,reference", [("add", np.sum), ("mul", np.prod), ("max", np.max), ("min", np.min)])
def test_reductions_and_scans(combiner, reference, tiling):
    p = port("x", f32, M, N)
    node = g.input_node(p)
    exp = g.elementwise("exp", (M, N), g.identity(node))
    reduced = g.reduce_node(combiner, (M,), (N,), g.identity(exp))
    running = g.scan_node(combiner, 1, g.identity(exp), (M, N))
    x = np.random.default_rng(2).standard_normal((5, 9)).astype(np.float32)
    r = evaluate(graph([p], a=reduced, b=running), {"x": x}, {"M": 5, "N": 9})
    y = np.exp(x)
    assert judge(reference(y, axis=1), r["a"], f32).ok
    ufunc = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[combiner]
    assert judge(ufunc.accumulate(y, axis=1), r["b"], f32).ok
    assert (r["a"].bound > 0).all() and (r["a"].bound < 1e-4 * np.abs(r["a"].value)).all()
    empty = evaluate(graph([p], a=reduced), {"x": x[:, :0]}, {"M": 5, "N": 0})["a"].value
    np.testing.assert_array_equal(empty, [{"add": 0, "mul": 1, "max": -np.inf, "min": np.inf}[combiner]] * 5)


@pytest.mark.parametrize("m", [1, 4])
def test_a_position_whose_factor_is_zero_at_these_sizes(m, tiling):
    """$0 · (M - 1) // 3 does not depend on the position where M is 1."""
    p = port("A", f32, M)
    view = g.View(g.input_node(p), ((AX[0] * M - AX[0]) // 3,))
    x = np.arange(m, dtype=np.float32)
    y = evaluate(graph([p], y=g.elementwise("neg", (ex.const(4),), view)), {"A": x}, {"M": m})["y"].value
    np.testing.assert_array_equal(y, -x[np.arange(4) * (m - 1) // 3])


@pytest.mark.parametrize("d", [f16, bf16], ids=str)
def test_a_product_inside_a_sum_may_be_stored_in_its_dtype(d):
    """Three factors, one sum: what the inner product is rounded to before the sum is within the bound."""
    ports = [port(name, d, N, K) for name in "abc"]
    a, b, c = map(g.input_node, ports)
    inner = g.elementwise("mul", (N, K), *same(b, c))
    total = g.reduce_node("add", (N,), (K,), g.identity(g.elementwise("mul", (N, K), *same(a, inner))))
    rng = np.random.default_rng(3)
    x, y, z = (rng.standard_normal((500, 9)).astype(numpy_dtype(d)) for _ in ports)
    stored = (y.astype(np.float32) * z.astype(np.float32)).astype(numpy_dtype(d))
    actual = (x.astype(np.float32) * stored.astype(np.float32)).sum(1).astype(numpy_dtype(d))
    verdict = judge(actual, evaluate(graph(ports, y=total), {"a": x, "b": y, "c": z}, {"N": 500, "K": 9})["y"], d)
    assert verdict.ok and verdict.ill_count == 0, verdict


def softmax(x):
    top = g.reduce_node("max", (M,), (N,), g.identity(x))
    e = g.elementwise("exp", (M, N), g.identity(g.elementwise("sub", (M, N), g.identity(x), g.View(top, (AX[0],)))))
    s = g.reduce_node("add", (M,), (N,), g.identity(e))
    return g.elementwise("div", (M, N), g.identity(e), g.View(s, (AX[0],)))


@pytest.mark.parametrize("kind", ["random", "whole"])
def test_a_sum_may_begin_with_what_is_added_to_it(kind, tiling):
    """C += Σ t is the running sum in C as well as C + (Σ t): the bound is that of all terms, be those of the sum exact by themselves."""
    a, b, c = port("A", f32, M, K), port("B", f32, K, N), port("C", f32, M, N)
    added = g.elementwise("add", (M, N), *same(g.input_node(c), matmul(g.input_node(a), g.input_node(b))))
    rng = np.random.default_rng(5)
    draw = (lambda *s: rng.standard_normal(s)) if kind == "random" else (lambda *s: rng.integers(-2, 3, s))
    x, y = draw(3, 40).astype(np.float32), draw(40, 4).astype(np.float32)
    start = (rng.standard_normal((3, 4)) * (1e4 if kind == "random" else 0.1)).astype(np.float32)
    r = evaluate(graph([a, b, c], Y=added), {"A": x, "B": y, "C": start}, {"M": 3, "N": 4, "K": 40})["Y"]
    running = start.copy()
    for p in range(40):
        running += x[:, p, None] * y[None, p]
    verdict = judge(running, r, f32)
    assert verdict.ok and verdict.ill_count == 0, verdict
    assert not judge(running * np.float32(1.001) + 0.01, r, f32).ok
    whole = evaluate(graph([a, b, c], Y=added), {"A": np.rint(x), "B": np.rint(y), "C": np.rint(start)}, {"M": 3, "N": 4, "K": 40})["Y"]
    assert not whole.bound.any()  # small integers are exact in every order


def test_softmax_with_masked_rows(tiling):
    p = port("x", f32, M, N)
    x = np.random.default_rng(3).standard_normal((6, 11)).astype(np.float32)
    x[1, 3:] = -np.inf
    x[2] = -np.inf
    r = evaluate(graph([p], y=softmax(g.input_node(p))), {"x": x}, {"M": 6, "N": 11})["y"]
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        y = e / e.sum(axis=1, keepdims=True)
    verdict = judge(y, r, f32)
    assert verdict.ok and verdict.ill_count == 0, verdict
    assert np.isnan(r.value[2]).all() and (r.value[1, 3:] == 0).all()


def test_a_sum_with_a_certain_nan_is_judged(tiling):
    """A row of weights that is NaN without doubt makes its results NaN: a number there is wrong.  Beside a weight of zero a NaN may show or not."""
    a, b = port("A", f32, M, K), port("B", f32, K, N)
    weights = g.elementwise("exp", (M, K), *same(g.elementwise("sin", (M, K), *same(g.input_node(a)))))  # inexact, NaN where A is infinite
    rng = np.random.default_rng(7)
    x, y = rng.standard_normal((4, 6)).astype(np.float32), rng.standard_normal((6, 3)).astype(np.float32)
    x[1] = np.inf
    result = evaluate(graph([a, b], C=matmul(weights, g.input_node(b))), {"A": x, "B": y}, {"M": 4, "N": 3, "K": 6})["C"]
    with np.errstate(invalid="ignore"):
        right = (np.exp(np.sin(x.astype(np.float64))) @ y).astype(np.float32)
    verdict = judge(right, result, f32)
    assert verdict.ok and verdict.ill_count == 0 and np.isnan(right[1]).all()
    assert not judge(np.where(np.isnan(right), np.float32(0), right), result, f32).ok
    # the last key is NaN; the weight of it is zero in the first row alone
    zero = g.elementwise("mul", (M, K), *same(weights, g.input_node(port("Z", f32, M, K))))
    mask = np.ones((4, 6), np.float32)
    mask[0, 5], y[5] = 0, np.nan
    result = evaluate(graph([a, b, port("Z", f32, M, K)], C=matmul(zero, g.input_node(b))), {"A": x, "B": y, "Z": mask}, {"M": 4, "N": 3, "K": 6})[
        "C"
    ]
    assert result.ill.tolist() == [[True] * 3] + [[False] * 3] * 3
    assert not judge(right, result, f32).ok


def test_exact_integers_in_floats_have_no_edges(tiling):
    """floor(iota / 2) of small integers in f32 is certain; of a rounded quotient it is not."""
    whole = g.elementwise("cast", (N,), g.identity(g.iota_node(AX[0], (N,))), to=f32)
    half = g.elementwise("floor", (N,), g.identity(g.elementwise("mul", (N,), g.identity(whole), g.scalar(g.const_node(0.5, f32)))))
    third = g.elementwise("mul", (N,), g.identity(whole), g.scalar(g.const_node(1 / 3, f32)))
    edge = g.elementwise("floor", (N,), *same(third))
    below = g.elementwise("less_than", (N,), *same(third), g.scalar(g.const_node(1.0, f32)))
    r = evaluate(graph([], a=half, b=edge, c=below), {}, {"N": 8})
    assert (r["a"].bound == 0).all()
    np.testing.assert_array_equal(r["a"].value, np.arange(8) // 2)
    assert r["b"].bound[3] >= 1 and r["b"].bound[2] == 0
    assert list(r["c"].ill) == [k == 3 for k in range(8)]
    many = g.reduce_node("add", (), (N,), g.identity(whole))
    assert evaluate(graph([], s=many), {}, {"N": 100})["s"].bound == 0


def test_what_follows_a_step_is_rounded_at_the_size_that_it_has_there():
    """a - floor(tanh 15): 0.9999999999998 rounds to 1, and a - 1 has a coarser last place than a."""
    p = port("a", f32, N)
    a = g.input_node(p)
    step = g.elementwise("floor", (N,), *same(g.elementwise("tanh", (N,), g.scalar(g.const_node(15.0, f32)))))
    values = -np.random.default_rng(0).uniform(1, 1.1, 1000).astype(np.float32)
    assert judge(values - np.float32(1), evaluate(graph([p], y=g.elementwise("sub", (N,), *same(a, step))), {"a": values}, {"N": 1000})["y"], f32).ok


def test_the_root_of_a_certain_zero_is_certain_beside_uncertain_numbers():
    p = port("x", f32, N)
    below = g.elementwise("sub", (N,), *same(g.elementwise("exp", (N,), g.identity(g.input_node(p)))), g.scalar(g.const_node(2.0, f32)))
    root = g.elementwise("sqrt", (N,), *same(g.elementwise("max", (N,), *same(below), g.scalar(g.const_node(0.0, f32)))))
    r = evaluate(graph([p], y=root), {"x": np.array([-1, 0, 1], np.float32)}, {"N": 3})["y"]
    assert not r.ill.any() and r.bound[0] == 0 and 0 < r.bound[2] < 1e-5


def test_weights_of_nothing_are_certain():
    """exp(-inf) is 0 exactly, so the logarithm of their sum is -inf: a row that is masked to the end is judged."""
    p = port("x", f32, M, N)
    weights = g.elementwise("exp", (M, N), g.identity(g.input_node(p)))
    y = g.elementwise("log", (M,), *same(g.reduce_node("add", (M,), (N,), g.identity(weights))))
    r = evaluate(graph([p], y=y), {"x": np.array([[-np.inf, -np.inf], [-np.inf, 1]], np.float32)}, {"M": 2, "N": 2})["y"]
    assert not r.ill.any() and list(r.value) == [-np.inf, 1]


def test_relu_of_an_uncertain_zero_is_judged():
    p = port("x", f32, N)
    x = g.input_node(p)
    y = g.elementwise("sub", (N,), *same(g.elementwise("exp", (N,), *same(x))), g.scalar(g.const_node(1.0, f32)))
    zero = g.scalar(g.const_node(0.0, f32))
    relu = g.elementwise("where", (N,), *same(g.elementwise("less_than", (N,), g.identity(y), zero)), zero, g.identity(y))
    r = evaluate(graph([p], y=relu), {"x": np.zeros(3, np.float32)}, {"N": 3})["y"]
    assert not r.ill.any() and (r.bound > 0).all() and (r.bound < 1e-6).all()


def test_gather_and_scatter(tiling):
    table, at = port("T", f32, N, K), port("i", i64, M)
    row = g.gather_node(
        g.View(g.input_node(table), (AX[0], AX[1])), (N, K), (g.View(g.input_node(at), (AX[0],)), g.View(g.iota_node(AX[0], (K,)), (AX[1],))), (M, K)
    )
    rng = np.random.default_rng(4)
    t, i = rng.standard_normal((5, 3)).astype(np.float32), np.array([4, 0, 0, 2])
    sizes = {"N": 5, "K": 3, "M": 4}
    np.testing.assert_array_equal(evaluate(graph([table, at], y=row), {"T": t, "i": i}, sizes)["y"].value, t[i])
    for bad in (-1, 5):
        with pytest.raises(IndexFault):
            evaluate(graph([table, at], y=row), {"T": t, "i": np.array([0, 1, bad, 0])}, sizes)
    updates = g.input_node(port("u", f32, M))
    u = np.array([1, 2, 3, 4], np.float32)
    for combiner, want in (("set", [3, 0, 4, 0, 1]), ("add", [5, 0, 4, 0, 1]), ("max", [3, 0, 4, 0, 1])):
        base = g.View(g.const_node(0.0, f32), ())
        node = g.scatter_node(combiner, base, g.identity(updates), (g.identity(g.input_node(at)),), (M,), (N,))
        r = evaluate(graph([at, port("u", f32, M)], y=node), {"i": i, "u": u}, sizes)["y"]
        np.testing.assert_array_equal(r.value, want)
        assert not r.bound.any()


def test_an_index_is_checked_where_its_element_is_needed(tiling):
    table, at = port("T", f32, N, K), port("i", i64, M)
    index = g.View(g.input_node(at), (AX[0],))
    row = g.gather_node(g.View(g.input_node(table), (AX[0], AX[1])), (N, K), (index, g.View(g.iota_node(AX[0], (K,)), (AX[1],))), (M, K))
    base, update = g.View(g.const_node(0.0, f32), ()), g.View(g.const_node(1.0, f32), ())
    column = g.View(g.iota_node(AX[0], (K,)), (AX[1],))
    stored = g.scatter_node("add", base, update, (index, column), (M, K), (N, K))
    for node, ports in ((row, [table, at]), (stored, [at])):
        for rows, columns in ((0, 0), (3, 0), (0, 2)):
            sizes = {"N": rows, "K": columns, "M": 2}
            given = {"T": np.zeros((rows, columns), np.float32), "i": np.array([0, 5])}
            inputs = {p.name: given[p.name] for p in ports}
            if columns:  # there are elements, and a table without rows has none of them
                with pytest.raises(IndexFault):
                    evaluate(graph(ports, y=node), inputs, sizes)
            else:
                assert evaluate(graph(ports, y=node), inputs, sizes)["y"].value.size == 0
            assert reads_outside(graph(ports, y=node), inputs, sizes), "a kernel may look at the index all the same"


def test_update_stores_a_region(tiling):
    p = port("x", f32, N)
    value = g.View(g.const_node(9.0, f32), ())
    node = g.update_node(g.identity(g.input_node(p)), value, (K,), (AX[0] * 2 + 1,), (N,))
    x = np.arange(7, dtype=np.float32)
    want = x.copy()
    want[[1, 3, 5]] = 9
    np.testing.assert_array_equal(evaluate(graph([p], y=node), {"x": x}, {"N": 7, "K": 3})["y"].value, want)


def test_deep_graphs_do_not_recurse():
    p = port("x", f32, N)
    node = g.input_node(p)
    for _ in range(3000):
        node = g.elementwise("neg", (N,), g.identity(node))
    assert evaluate(graph([p], y=node), {"x": np.ones(2, np.float32)}, {"N": 2})["y"].value.tolist() == [1, 1]


def test_half_of_the_smallest_double_is_not_nothing():
    """A square that underflows: 0 is right, and so is the root of it."""
    p = port("x", f64, N)
    square = g.elementwise("mul", (N,), g.identity(g.input_node(p)), g.identity(g.input_node(p)))
    root = g.elementwise("sqrt", (N,), g.identity(square))
    r = evaluate(graph([p], square=square, root=root), {"x": np.array([2.2250738585072014e-308, 3.0])}, {"N": 2})
    assert r["square"].bound.tolist() == [5e-324, 0]
    assert judge(np.array([0.0, 3.0]), r["root"], f64).ok
    assert not judge(np.array([0.0, 3.000000000000002]), r["root"], f64).ok


def nest_graph(body, d, *results):
    x = port("x", d, N)
    operand = k.Buffer("a", d, (N,))
    nest = k.Nest("t", (operand,), tuple(k.Buffer(n, e, (N,)) for n, e in results), tuple(body))
    nodes = [g.make("nest", e, (N,), (g.identity(g.input_node(x)),), g.Attr(nest=nest, result=q)) for q, (_, e) in enumerate(results)]
    return graph([x], **{f"y{q}": n for q, n in enumerate(nodes)})


def test_nests_run_with_a_bound():
    """A recurrence that updates its operand, and the count of its negative values."""
    i = ex.var("i")
    at = ex.load("a", f32, i)
    step = k.Store("a", (i,), ex.call("add", at, ex.call("mul", ex.const(0.9, f32), ex.load("a", f32, i - 1))))
    count = k.If(ex.call("less_than", at, ex.const(0.0, f32)), (k.Store("c", (ex.ZERO,), ex.const(1, i32), "add"),))
    t = nest_graph([k.Loop("i", ex.ONE, N, (step, count))], f32, ("a", f32), ("c", i32))
    x = np.random.default_rng(6).standard_normal(50).astype(np.float32)
    r = evaluate(t, {"x": x}, {"N": 50})
    y = x.copy()
    for q in range(1, 50):
        y[q] += np.float32(0.9) * y[q - 1]
    assert judge(y, r["y0"], f32).ok and (r["y0"].bound < 1e-4).all()
    want = np.zeros(50, np.int32)
    want[0] = (y[1:] < 0).sum()
    assert judge(want, r["y1"], i32).ok
    y[30] *= 1.001
    assert not judge(y, r["y0"], f32).ok
    with pytest.raises(CheckFault):
        evaluate(nest_graph([k.Check(N.lt(3), 3)], f32, ("a", f32)), {"x": x}, {"N": 50})


def test_an_uncertain_integer_at_the_end_of_its_range_may_wrap():
    x, y = port("x", i8, N), port("y", f32, N)
    whole = g.elementwise("cast", (N,), *same(g.elementwise("exp", (N,), *same(g.input_node(y)))), to=i8)  # exp 0 is 1, or just below it
    total = g.elementwise("add", (N,), *same(g.input_node(x), whole))
    given = {"x": np.array([126, 127, -128, 5], np.int8), "y": np.array([0, 0, 0, 0.5], np.float32)}
    r = evaluate(graph([x, y], t=total), given, {"N": 4})["t"]
    assert r.ill.tolist() == [True, True, False, False] and r.value.tolist() == [127, -128, -127, 6]


def test_an_infinity_that_the_dtype_lacks_is_not_judged():
    x = port("x", f8e4m3, N)
    less = g.elementwise("less_than", (N,), *same(g.input_node(x)), g.scalar(g.const_node(0.0, f8e4m3)))
    chosen = g.elementwise("where", (N,), *same(less), g.scalar(g.const_node(-math.inf, f8e4m3)), *same(g.input_node(x)))
    r = evaluate(graph([x], y=chosen), {"x": np.array([-1, 2], numpy_dtype(f8e4m3))}, {"N": 2})["y"]
    assert r.ill.tolist() == [True, False]


@pytest.mark.parametrize(("size", "undecided"), [(3, [True, True, False, False, False]), (0, [True, True])])
def test_nor_one_that_a_masked_view_reads(size, undecided):
    x = port("x", f8e4m3, N)
    shifted = g.View(g.input_node(x), (AX[0] - 2,), ex.const(1).lt(AX[0]), -math.inf)
    y = g.make("contiguous", f8e4m3, (N + 2,), (shifted,))
    r = evaluate(graph([x], y=y), {"x": np.ones(size, numpy_dtype(f8e4m3))}, {"N": size})["y"]
    assert r.ill.tolist() == undecided


def test_the_largest_of_computed_elements_is_decided():
    """An element equals the maximum of its row for certain where no other one can: which one it is, is judged.  Two that are nearer than their error leave it open."""
    x = g.input_node(port("X", f32, M, N))
    y = g.elementwise("exp", (M, N), *same(x))
    top = g.reduce_node("max", (M,), (N,), g.identity(y))
    first = g.elementwise("equal", (M, N), g.identity(y), g.View(top, (AX[0],)))
    near = np.array([[0.0, 1.0, 2.0], [2.0, 2.0, 1.0], [2.0, np.nextafter(np.float32(2), np.float32(3)), 0.0]], np.float32)
    expected = evaluate(graph([port("X", f32, M, N)], Y=first), {"X": near}, {"M": 3, "N": 3, "K": 0})["Y"]
    assert expected.value[0].tolist() == [False, False, True]
    assert expected.ill.tolist() == [[False] * 3, [True, True, False], [True, True, False]]
