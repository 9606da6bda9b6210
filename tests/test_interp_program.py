"""The program interpreter: vectors, calls, error codes, teams; and lowered kernels give what the kernels give."""

import numpy as np
import pytest
from luminal.ir import expr as ex, program as p
from luminal.ir.dtypes import f32, i32, i64
from luminal.ir.graph import Port, Size
from luminal.ir.interpret.program import run
from luminal.ir.interpret.team import MeaningFault

N = ex.size("N")
i, j = ex.var("i"), ex.var("j")
X, Y = Port("x", f32, (N,), "in"), Port("y", f32, (N,), "out")


def program(body, *ports, before=(), grid=(), threads=()):
    params = (*tuple(p.Param(q.name, q.dtype, pointer=q.role != "scalar") for q in ports), p.Param("N", i64))
    function = p.Function("f", params, tuple(body), grid, threads)
    args = (*tuple(q.name if q.role != "scalar" else ex.var(q.name, q.dtype) for q in ports), N)
    return p.Program("t", (Size("N"),), ports, (function,), (*before, p.Call("f", args)))


def loop(name, stop, *body, start=0, step=1, pragma=""):
    return p.For(name, ex.as_expr(start), ex.as_expr(stop), tuple(body), ex.as_expr(step), pragma)


def test_vectors_and_tails():
    four = ex.call("mul", ex.vload("x", f32, 4, i), ex.broadcast(ex.var("alpha", f32), 4))
    one = ex.call("mul", ex.load("x", f32, i), ex.var("alpha", f32))
    whole = N // 4 * 4
    body = (loop("i", whole, p.StoreTo("y", i, four), step=4), loop("i", N, p.StoreTo("y", i, one, stream=ex.TRUE), start=whole))
    x, y = np.arange(11, dtype=np.float32), np.zeros(11, np.float32)
    for check in (False, True):
        assert run(program(body, X, Y, Port("alpha", f32, (), "scalar")), {"x": x, "y": y, "alpha": 0.5}, {"N": 11}, check=check) == 0
        np.testing.assert_array_equal(y, x / 2)
    with pytest.raises(MeaningFault):
        run(program((p.StoreTo("y", N - 3, ex.vload("x", f32, 4, ex.ZERO)),), X, Y), {"x": x, "y": y}, {"N": 11})


def test_gathers_folds_arrays_of_vectors():
    v = ex.var("v", f32.vector(4))
    reversed_ = ex.gather("x", f32, ex.call("sub", ex.broadcast(ex.const(3), 4), ex.ramp(4)))
    acc = ex.load("acc", f32.vector(4), ex.ONE)
    body = (
        p.Array("acc", f32.vector(4), 2, "register"),
        p.StoreTo("acc", ex.ONE, reversed_),
        p.Define("v", f32.vector(4), acc),
        p.StoreTo("acc", ex.ONE, ex.call("add", acc, acc)),
        p.StoreTo("y", ex.ZERO, ex.fold("add", v)),
        p.StoreTo("y", ex.ONE, ex.extract(acc, 1)),
        p.StoreTo("y", ex.const(2), ex.fold("max", ex.call("where", ex.call("less_than", v, acc), v, ex.broadcast(ex.const(-1.0, f32), 4)))),
    )
    x, y = np.array([1, 2, 3, 5], np.float32), np.zeros(3, np.float32)
    for check in (False, True):
        assert run(program(body, X, Y), {"x": x, "y": y}, {"N": 4}, check=check) == 0
        assert y.tolist() == [11, 6, 5]


def test_entry_checks_and_codes():
    checks = (
        p.If(ex.null("x"), (p.Fail(p.NULL_POINTER),)),
        p.If(N.lt(0), (p.Fail(p.BAD_SIZE),)),
        p.If(ex.overlap("x", N * 4, "y", N * 4), (p.Fail(p.OVERLAP),)),
    )
    t = program((), X, Y, before=checks)
    both = np.zeros(8, np.float32)
    cases = (({"x": None, "y": both}, 4, p.NULL_POINTER), ({"x": both, "y": both}, -1, p.BAD_SIZE), ({"x": both[:4], "y": both[3:]}, 4, p.OVERLAP))
    for buffers, n, code in cases:
        assert run(t, buffers, {"N": n}) == code
    assert run(t, {"x": both[:4], "y": both[4:]}, {"N": 4}) == 0


def test_fail_in_a_team_is_sticky_and_mutable_variables_cross_loops():
    index = ex.load("k", i32, i)
    inside = ex.call("less_than", index, ex.const(4, i32))
    guarded = p.If(inside, (p.StoreTo("y", i, ex.load("x", f32, ex.cast(i64, index))),), (p.Fail(p.BAD_INDEX),))
    t = program((loop("i", N, guarded, pragma="parallel"), p.StoreTo("y", ex.ZERO, ex.const(7.0, f32))), X, Y, Port("k", i32, (N,), "in"))
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    assert run(t, {"x": x, "y": y, "k": np.array([3, 9, 1, 0], np.int32)}, {"N": 4}) == p.BAD_INDEX
    assert y.tolist() == [7, 0, 1, 0]
    s = ex.var("s", f32)
    deep = p.Assign("s", ex.call("add", s, ex.load("x", f32, i)))
    for k in range(14):
        deep = loop(f"a{k}", 1, deep)
    t = program((p.Define("s", f32, ex.const(0.0, f32), True), loop("i", N, deep), p.StoreTo("y", ex.ZERO, s)), X, Y)
    assert run(t, {"x": x, "y": y}, {"N": 4}) == 0 and y[0] == 6


@pytest.mark.parametrize("threads", [1, 3])
def test_regions_and_scratch(threads):
    copy = loop("i", N, p.StoreTo("t", i, ex.load("x", f32, N - 1 - i)), pragma="workshare")
    s = ex.var("s", f32)
    add = loop("j", N, p.Assign("s", ex.call("add", s, ex.load("t", f32, j))))
    sums = loop("i", N, p.Define("s", f32, ex.const(0.0, f32), True), add, p.StoreTo("y", i, s), pragma="workshare")
    for barrier in ((p.Barrier(),), ()):
        t = program((p.Scratch("t", f32, N), p.Region((copy, *barrier, sums), N.lt(2))), X, Y)
        x, y = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
        if barrier:
            assert run(t, {"x": x, "y": y}, {"N": 10}, threads=threads) == 0
            assert (y == 45).all()
            assert run(t, {"x": x, "y": y}, {"N": 10}, check=True) == 0
        else:
            with pytest.raises(MeaningFault):
                run(t, {"x": x, "y": y}, {"N": 10}, check=True)


def test_instructions_have_a_meaning():
    dot = ex.make("ins", f32, (ex.vload("x", f32, 4, ex.ZERO), ex.vload("x", f32, 4, ex.ZERO)), "dot4")
    t = program((p.StoreTo("y", ex.ZERO, dot),), X, Y)
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    assert run(t, {"x": x, "y": y}, {"N": 4}, instructions={"dot4": np.dot}) == 0 and y[0] == 14
