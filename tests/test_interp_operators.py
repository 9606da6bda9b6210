"""The operators of the graph interpreter: values at the edges of every kind of number, bounds against evaluation that rounds at every step."""

import math

import numpy as np
import pytest
from graphs import N, graph, port, same
from luminal.ir import graph as g
from luminal.ir.dtypes import bf16, bool_, f8e4m3, f16, f32, f64, i8, i32, i64, numpy_dtype, u8, u32
from luminal.ir.interpret.bounds import largest, overflow
from luminal.ir.interpret.graph import evaluate, judge
from luminal.ir.interpret.meaning import VALUE


def scalar_graph(op, *dtypes, to=None):
    ports = [port(f"x{k}", d, N) for k, d in enumerate(dtypes)]
    return graph(ports, y=g.elementwise(op, (N,), *(g.identity(g.input_node(p)) for p in ports), to=to))


def run(op, *columns, to=None):
    dtypes, arrays = zip(*columns, strict=True)
    arrays = [np.asarray(a).astype(numpy_dtype(d)) for d, a in columns]
    return evaluate(scalar_graph(op, *dtypes, to=to), {f"x{k}": a for k, a in enumerate(arrays)}, {"N": len(arrays[0])})["y"].value.tolist()


def test_integer_semantics():
    assert run("add", (i8, [127, -128]), (i8, [1, -1])) == [-128, 127]
    assert run("mul", (u8, [16, 255]), (u8, [16, 255])) == [0, 1]
    assert run("floordiv", (i32, [-7, 7, 7, 5, -(2**31)]), (i32, [2, -2, 0, 5, -1])) == [-4, -4, 0, 1, -(2**31)]
    assert run("mod", (i32, [-7, 7, 7, -(2**31)]), (i32, [3, -3, 0, -1])) == [2, -2, 0, 0]
    assert run("shift_left", (i8, [1, 1, 1, 3]), (i8, [7, 8, -1, 1])) == [-128, 0, 0, 6]
    assert run("shift_right", (i8, [-128, -128, 5, -1]), (i8, [1, 8, 9, -3])) == [-64, -1, 0, -1]
    assert run("shift_right", (u8, [128, 128]), (u8, [1, 8])) == [64, 0]
    assert run("pow", (i32, [3, -2, 2, 2, 0]), (i32, [4, 3, -1, 31, 0])) == [81, -8, 0, -(2**31), 1]
    assert run("abs", (i8, [-128, -1])) == [-128, 1]
    assert run("bit_not", (bool_, [True, False])) == [False, True]
    assert run("bit_not", (u8, [0, 1])) == [255, 254]


def test_float_semantics():
    nan, inf = math.nan, math.inf
    assert np.isnan(run("max", (f32, [nan, 1]), (f32, [1, nan]))).all()
    assert run("round", (f32, [0.5, 1.5, 2.5, -0.5])) == [0, 2, 2, 0]
    assert run("mod", (f32, [-7, 7, 5.5]), (f32, [3, -3, 2])) == [2, -2, 1.5]
    assert run("floordiv", (f32, [-7, 7, inf]), (f32, [2, 0, 2])) == [-4, inf, inf]
    assert run("less_than", (f32, [nan, 1]), (f32, [1, nan])) == [False, False]
    assert run("not_equal", (f32, [nan]), (f32, [nan])) == [True]
    assert run("pow", (f32, [-2, 0, 1, -8, 0]), (f32, [3, 0, nan, 1 / 3, -1]))[:3] == [-8, 1, 1]
    assert math.copysign(1, run("sign", (f32, [-0.0]))[0]) == -1
    for d in (f32, f64):
        x = np.linspace(-8, 8, 101)
        assert np.allclose(np.array(run("erf", (d, x)), float), [math.erf(v) for v in x.astype(numpy_dtype(d))], rtol=1e-15, atol=0)


def test_casts():
    nan, inf = math.nan, math.inf
    assert run("cast", (f32, [nan, inf, -inf, 3e9, -2.9, 2.9]), to=i32) == [0, 2**31 - 1, -(2**31), 2**31 - 1, -2, 2]
    assert run("cast", (f32, [-1, 300, 255.9]), to=u8) == [0, 255, 255]
    assert run("cast", (f64, [1e19, -1e19, 2.0**62]), to=i64) == [2**63 - 1, -(2**63), 2**62]
    assert run("cast", (i32, [300, -1]), to=u8) == [44, 255]
    assert run("cast", (f32, [0, 0.5, nan]), to=bool_) == [False, True, True]
    assert run("bitcast", (f32, [1.0, -0.0]), to=u32) == [0x3F800000, 0x80000000]
    assert run("bitcast", (u32, [0x3F800000]), to=f32) == [1.0]


@pytest.mark.parametrize("d", [f32, f16, bf16, f8e4m3], ids=str)
def test_bounds_hold_for_rounding_at_every_step(d):
    """Random expressions, evaluated in float32 and rounded to the dtype after every operation, stay within their bounds."""
    unary = ["exp", "sin", "sqrt", "abs", "log", "recip", "tanh", "neg", "floor", "exp2", "log2", "cos", "sign", "erf", "atan"]
    binary = ["add", "sub", "mul", "div", "max", "min", "mod"]
    seed = 20 + d.bits
    rng = np.random.default_rng(seed)
    numeric = numpy_dtype(d)
    judged = 0
    for _ in range(60):
        ports = [port("a", d, N), port("b", d, N)]
        nodes = [g.input_node(p) for p in ports]
        arrays = [rng.standard_normal(64).astype(numeric) for _ in ports]
        inputs = dict(zip("ab", arrays, strict=True))
        for _ in range(6):
            op = str(rng.choice(unary if rng.random() < 0.5 else binary))
            picked = [int(k) for k in rng.integers(0, len(nodes), 1 if op in unary else 2)]
            nodes.append(g.elementwise(op, (N,), *(g.identity(nodes[k]) for k in picked)))
            with np.errstate(all="ignore"):
                high = [arrays[k].astype(np.float64) for k in picked]
                arrays.append(VALUE[op](*high).astype(np.float32).astype(numeric))
        r = evaluate(graph(ports, y=nodes[-1]), inputs, {"N": 64})["y"]
        verdict = judge(arrays[-1], r, d)
        assert verdict.ok, (seed, verdict, [n.op for n in nodes])
        judged += 64 - verdict.ill_count
    assert judged > 60 * 64 * 0.5, judged


@pytest.mark.parametrize("d", [f16, bf16, f8e4m3], ids=str)
def test_what_rounds_to_the_largest_value_is_judged(d):
    """An uncertain value at the top of a range overflows where it may reach half a place above it, not before."""
    top = float(largest(d))
    ports = [port(n, f32, N) for n in "ab"]
    product = g.elementwise("mul", (N,), *same(*map(g.input_node, ports)))
    a = np.array([top / 3, float(overflow(d)) / 3, -top / 3], np.float32)
    r = evaluate(graph(ports, y=g.make("cast", d, (N,), tuple(same(product)))), {"a": a, "b": np.full(3, 3, np.float32)}, {"N": 3})["y"]
    verdict = judge(np.array([top, top, -top]).astype(numpy_dtype(d)), r, d)
    assert verdict.ok and verdict.ill_count == 1, verdict
