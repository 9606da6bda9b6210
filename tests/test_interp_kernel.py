"""The kernel interpreter: loops, guards, teams, rounding, and the race finder."""

import time
from contextlib import nullcontext

import numpy as np
import pytest
from luminal.ir import expr as ex, kernel as k
from luminal.ir.dtypes import DTYPES, bool_, f32, f64, i8, i32, i64, numpy_dtype
from luminal.ir.graph import Port, Size
from luminal.ir.interpret import kernel as kernels
from luminal.ir.interpret.fma import fma32, fma32_scalar, fma64, fma64_scalar
from luminal.ir.interpret.kernel import MeaningFault, run

M, N, K = map(ex.size, "MNK")
i, j, p = map(ex.var, "ijp")


def module(body, ports, temps=()):
    return k.Module("t", tuple(map(Size, "MNK")), tuple(ports), tuple(temps), (k.Kernel("t", tuple(q.name for q in ports), tuple(body)),))


def port(name, d, *shape, role="in"):
    return Port(name, d, tuple(shape), role)


def loop(axis, stop, *body, kind="serial", start=0, step=1):
    return k.Loop(axis, ex.as_expr(start), ex.as_expr(stop), tuple(body), kind, ex.as_expr(step))


def gemm(d, kind="parallel"):
    acc = k.Buffer("acc", d, (), "register")
    term = ex.call("mul", ex.load("A", d, i, p), ex.load("B", d, p, j))
    body = (
        k.Alloc(acc),
        k.Store("acc", (), ex.const(0, d)),
        loop("p", K, k.Store("acc", (), term, "add"), kind="reduce"),
        k.Store("C", (i, j), ex.load("acc", d)),
    )
    return module([loop("i", M, loop("j", N, *body, kind=kind), kind=kind)], [port("A", d, M, K), port("B", d, K, N), port("C", d, M, N, role="out")])


@pytest.mark.parametrize("name", ["f64", "f32", "f16", "bf16", "i64", "i32", "i8", "u8"])
@pytest.mark.parametrize("check", [False, True])
def test_gemm_rounds_as_its_dtype_does(name, check):
    d = DTYPES[name]
    rng = np.random.default_rng(0)
    m, n, kk = 3, 5, 4
    a, b = ((rng.standard_normal(s) * 10).astype(numpy_dtype(d)) for s in ((m, kk), (kk, n)))
    c = np.zeros((m, n), numpy_dtype(d))
    assert run(gemm(d), {"A": a, "B": b, "C": c}, {"M": m, "N": n, "K": kk}, check=check) == 0
    want = np.zeros_like(c)
    for q in range(kk):
        want = (want + a[:, q, None] * b[None, q]).astype(c.dtype)
    np.testing.assert_array_equal(c, want)


def test_a_kernel_is_translated_once_for_all_sizes(monkeypatch):
    """And for each dtype, checked or not, as it is asked for."""
    made = []
    real = kernels.translated
    monkeypatch.setattr(kernels, "translated", lambda *given: made.append(1) or real(*given))
    one, other = gemm(f32), gemm(f64)
    for times, (m, check) in enumerate([(one, False), (one, True), (other, False)], 1):
        for n in (0, 1, 4):
            kind = numpy_dtype(m.ports[0].dtype)
            a, b, c = np.full((n, 2), 0.1, kind), np.full((2, n), 3, kind), np.zeros((n, n), kind)
            assert run(m, {"A": a, "B": b, "C": c}, {"M": n, "N": n, "K": 2}, check=check) == 0
            np.testing.assert_array_equal(c, kind.type(0.1) * kind.type(3) + kind.type(0.1) * kind.type(3))
        assert len(made) == times


def test_a_local_that_is_read_before_it_is_written_is_found_each_time():
    acc = k.Buffer("acc", f32, (), "register")
    unset = [k.Alloc(acc), loop("j", N, k.Store("acc", (), ex.const(1, f32))), k.Store("Y", (), ex.load("acc", f32))]
    m = module(unset, [port("Y", f32, role="out")])
    for n, found in ((0, True), (2, False), (0, True)):
        with pytest.raises(MeaningFault, match=r"acc\[\] is read before it is written") if found else nullcontext():
            run(m, {"Y": np.zeros((), np.float32)}, {"N": n}, check=True)


@pytest.mark.parametrize(
    "first",
    [
        [k.Store("acc", (), ex.const(1, f32), "add")],
        [k.Store("acc", (), ex.call("add", ex.load("acc", f32), ex.const(1, f32)))],
        [k.Let("x", ex.load("acc", f32)), k.Store("acc", (), ex.const(1, f32))],
        [k.If(N.lt(0), (k.Store("acc", (), ex.const(1, f32)),))],
    ],
)
def test_a_local_is_looked_at_unless_a_store_comes_first(first):
    acc = k.Buffer("acc", f32, (), "register")
    m = module([k.Alloc(acc), *first, k.Store("Y", (), ex.load("acc", f32))], [port("Y", f32, role="out")])
    with pytest.raises(MeaningFault, match=r"acc\[\] is read before it is written"):
        run(m, {"Y": np.zeros((), np.float32)}, {"N": 2}, check=True)


@pytest.mark.parametrize("seed", range(5))
def test_who_writes_what_many_have_read_is_found(seed):
    """Of readers the first ones are remembered, and the last."""
    body = [k.Store("y", (i,), ex.load("x", f32, ex.const(0))), k.If(i.eq(3), (k.Store("x", (ex.const(0),), ex.const(1, f32)),))]
    m = module([loop("i", N, *body, kind="parallel")], [port("x", f32, N, role="inout"), port("y", f32, N, role="out")])
    with pytest.raises(MeaningFault, match=r"race: x\[0\]"):
        run(m, {"x": np.zeros(9, np.float32), "y": np.zeros(9, np.float32)}, {"N": 9}, check=True, seed=seed)


def test_gemm_is_fast_enough():
    n = 30
    a, b, c = (np.ones((n, n), np.float32) for _ in range(3))
    began = time.process_time()
    run(gemm(f32), {"A": a, "B": b, "C": c}, {"M": n, "N": n, "K": n})
    assert time.process_time() - began < 5  # 0.03 s on a quiet machine
    assert (c == n).all()


def test_exact_keeps_float64():
    a = np.array([[1.0, 2.0**-40]])
    c = np.zeros((1, 1))
    run(gemm(f32), {"A": a, "B": np.ones((2, 1)), "C": c}, {"M": 1, "N": 1, "K": 2}, exact=True)
    assert c[0, 0] == 1 + 2.0**-40


def test_where_is_lazy_and_chains_are_flat():
    """A concatenation of 60 parts by nested selections: only the part that is selected is read."""
    x = ex.const(-1.0, f32)
    for q in range(60):
        x = ex.where(i.eq(q), ex.load("x", f32, i * 2 - q), x)
    m = module([loop("i", N, k.Store("y", (i,), x))], [port("x", f32, N), port("y", f32, N, role="out")])
    y = np.zeros(7, np.float32)
    run(m, {"x": np.arange(7, dtype=np.float32), "y": y}, {"N": 7}, check=True)
    assert y.tolist() == list(range(7))


def test_shared_loads_below_two_selections():
    inner = ex.where(i.lt(N - 1), ex.load("x", f32, i + 1), ex.const(0.0, f32))
    outer = ex.where(ex.const(0).lt(i), ex.call("add", inner, ex.load("x", f32, i - 1)), ex.call("mul", inner, inner))
    m = module([loop("i", N, k.Store("y", (i,), outer))], [port("x", f32, N), port("y", f32, N, role="out")])
    x, y = np.arange(1, 6, dtype=np.float32), np.zeros(5, np.float32)
    run(m, {"x": x, "y": y}, {"N": 5}, check=True)
    assert y.tolist() == [4, 4, 6, 8, 4]


def test_first_last_steps_and_negative_steps():
    flags = ex.call("add", ex.where(ex.first("i"), ex.const(1, i32), ex.const(0, i32)), ex.where(ex.last("i"), ex.const(2, i32), ex.const(0, i32)))
    for start, stop, step, want in ((0, 7, 3, {0: 1, 3: 0, 6: 2}), (6, -1, -2, {6: 1, 4: 0, 2: 0, 0: 2}), (2, 3, 1, {2: 3})):
        y = np.full(7, -1, np.int32)
        run(module([loop("i", stop, k.Store("y", (i,), flags), start=start, step=step)], [port("y", i32, 7, role="inout")]), {"y": y}, {})
        assert {q: v for q, v in enumerate(y.tolist()) if v >= 0} == want


def test_while_let_if_check_and_scalars():
    n = ex.load("n", i64)
    body = [
        k.Alloc(k.Buffer("n", i64, (), "register")),
        k.Store("n", (), ex.var("start", i64)),
        k.While(ex.const(1).lt(n), (
            k.Let("odd", ex.mod(n, ex.const(2)).eq(1)),
            k.If(ex.var("odd", bool_), (k.Store("n", (), n * 3 + 1),), (k.Store("n", (), n // 2),)),
            k.Store("steps", (), ex.const(1), "add"),
        ), ex.const(200)),
        k.Check(n.eq(1), 6),
    ]  # fmt: skip
    m = module(body, [port("start", i64, role="scalar"), port("steps", i64, role="inout")])
    for start, want in ((27, (111, 0)), (1, (0, 0)), (871, (178, 0)), (6171, (200, 6))):
        steps = np.zeros((), np.int64)
        code = run(m, {"start": start, "steps": steps}, {})
        assert (int(steps), code) == want


def test_i64_values_wrap_and_integers_saturate_nothing():
    x = ex.load("x", i64, i)
    m = module(
        [loop("i", N, k.Store("y", (i,), ex.call("mul", x, x)), k.Store("y", (i,), x, "add"))], [port("x", i64, N), port("y", i64, N, role="out")]
    )
    x = np.array([2**62, -(2**63), 3])
    y = np.zeros(3, np.int64)
    run(m, {"x": x, "y": y}, {"N": 3})
    with np.errstate(all="ignore"):
        assert y.tolist() == (x * x + x).tolist()


def packed(kind="workshare", barrier=True):
    """A region: threads share the copying into `pack`, wait, and share the sums that read all of it."""
    copy = loop("i", N, k.Store("pack", (i,), ex.load("x", f32, N - 1 - i)), kind=kind)
    add = loop("j", N, loop("p", N, k.Store("y", (j,), ex.load("pack", f32, p), "add"), kind="reduce"), kind="workshare")
    body = (copy, k.Barrier(), add) if barrier else (copy, add)
    return module([k.Alloc(k.Buffer("pack", f32, (N,), "shared")), k.Region(body)], [port("x", f32, N), port("y", f32, N, role="inout")])


@pytest.mark.parametrize("threads", [1, 3])
def test_regions(threads):
    x, y = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    run(packed(), {"x": x, "y": y}, {"N": 10}, threads=threads)
    assert (y == 45).all()


def test_races_are_found():
    buffers = {"x": np.ones(10, np.float32), "y": np.zeros(10, np.float32)}
    assert run(packed(), buffers, {"N": 10}, check=True) == 0
    for bad in (packed(barrier=False), packed(kind="serial")):
        with pytest.raises(MeaningFault, match=r"race|before it is written"):
            run(bad, buffers, {"N": 10}, check=True)
    shift = loop("i", N - 1, k.Store("y", (i,), ex.load("y", f32, i + 1)), kind="parallel")
    total = loop("i", N, k.Store("y", (ex.ZERO,), ex.load("x", f32, i), "add"), kind="parallel")
    for body in (shift, total):
        m = module([body], [port("x", f32, N), port("y", f32, N, role="inout")])
        with pytest.raises(MeaningFault, match="race"):
            run(m, buffers, {"N": 10}, check=True)
    twice = loop("i", N, k.Store("y", (i,), ex.load("x", f32, i), "add"), kind="parallel")
    assert run(module([twice, twice], [port("x", f32, N), port("y", f32, N, role="inout")]), buffers, {"N": 10}, check=True) == 0


def test_undefined_and_outside_are_found():
    y = {"y": np.zeros(4, np.float32)}
    bodies = [
        (k.Alloc(k.Buffer("t", f32, (), "register")), k.Store("y", (ex.ZERO,), ex.load("t", f32))),
        (k.Alloc(k.Buffer("t", f32, (N,), "stack")), k.Store("y", (ex.ZERO,), ex.load("t", f32, ex.ONE))),
        (k.Store("y", (N,), ex.const(0.0, f32)),),
        (k.Store("y", (ex.const(-1),), ex.const(0.0, f32)),),
        (k.Store("y", (ex.ZERO,), ex.load("y", f32, ex.ZERO)),),
    ]
    for body in bodies:
        with pytest.raises(MeaningFault):
            run(module(body, [port("y", f32, N, role="out")]), y, {"N": 4}, check=True)


def test_gpu_threads_meet_at_barriers():
    """A tree sum in shared memory: nested thread axes, a barrier in a serial loop."""
    tid, s = ex.var("ty") * 4 + ex.var("tx"), ex.var("s")
    halve = k.If(tid.lt(s), (k.Store("t", (tid,), ex.load("t", f32, tid + s), "add"),))
    shrink = k.Loop(
        "q",
        ex.ZERO,
        ex.const(3),
        (k.Let("s", ex.where(ex.var("q").eq(0), ex.const(4), ex.where(ex.var("q").eq(1), ex.const(2), ex.const(1)))), halve, k.Barrier()),
    )
    inner = (
        k.Store("t", (tid,), ex.load("x", f32, ex.var("b") * 8 + tid)),
        k.Barrier(),
        shrink,
        k.If(tid.eq(0), (k.Store("y", (ex.var("b"),), ex.load("t", f32, ex.ZERO)),)),
    )
    body = loop(
        "b",
        3,
        k.Alloc(k.Buffer("t", f32, (ex.const(8),), "shared")),
        loop("ty", 2, loop("tx", 4, *inner, kind="thread.x"), kind="thread.y"),
        kind="block.x",
    )
    ports = [port("x", f32, ex.const(24)), port("y", f32, ex.const(3), role="out")]
    x = np.arange(24, dtype=np.float32)
    for check in (False, True):
        y = np.zeros(3, np.float32)
        assert run(module([body], ports), {"x": x, "y": y}, {}, check=check) == 0
        assert y.tolist() == x.reshape(3, 8).sum(1).tolist()


def test_deep_loops():
    names = [f"a{q}" for q in range(30)]
    body = k.Store("y", (ex.ZERO,), ex.const(1.0, f32), "add")
    for n in names:
        body = loop(n, 1, body)
    y = np.zeros(1, np.float32)
    run(module([body], [port("y", f32, ex.ONE, role="inout")]), {"y": y}, {})
    assert y[0] == 1


def test_fma_rounds_once():
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 2000)) * 2.0 ** rng.integers(-30, 30, (2, 2000))
    c = -a * b * (1 + rng.integers(-2, 3, 2000) * 2.0**-52) + rng.choice([0, 1e-20, 1], 2000)
    want = np.array([fma64_scalar(*t) for t in zip(a, b, c, strict=True)])
    np.testing.assert_array_equal(fma64(a, b, c), want)
    a, b, c = (x.astype(np.float32) for x in (a, b, c))
    exact = np.array([fma32_scalar(*t) for t in zip(a, b, c, strict=True)])
    np.testing.assert_array_equal(fma32(a, b, c), exact)
    half = np.float32(1 + 2.0**-12)  # the product is 1 + 2^-11 + 2^-24: a tie that a tiny addend decides
    assert fma32_scalar(half, half, np.float32(2.0**-60)) == np.float32(1 + 2.0**-11 + 2.0**-23)
    assert fma32_scalar(half, half, np.float32(-(2.0**-60))) == np.float32(1 + 2.0**-11)


def test_operators_reach_every_dtype():
    for d in (f32, f64, i8, i64):
        x = ex.load("x", d, i)
        e = ex.call("max", ex.call("mod", x, ex.const(3, d)), ex.call("abs", ex.call("floordiv", x, ex.const(2, d))))
        m = module([loop("i", N, k.Store("y", (i,), e))], [port("x", d, N), port("y", d, N, role="out")])
        x = np.array([-7, 5, 0, 100]).astype(numpy_dtype(d))
        y = np.zeros(4, x.dtype)
        run(m, {"x": x, "y": y}, {"N": 4})
        assert y.tolist() == [4, 2, 0, 50]
