"""Positions as data in vectors of 32 bits: the same values as on 64, near the ends of 32 bits and far beyond them."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.ir.dtypes import f32, f64, i32
from luminal.ir.expr import ZERO, call, cast, const, make, size, var
from luminal.ir.program import For, StoreTo
from luminal.ir.target import Target
from luminal.passes.lower.names import Names
from luminal.passes.lower.positions import small
from luminal.passes.lower.vectors import vectorise

pytestmark = pytest.mark.usefixtures("plain_c")

TARGET = Target("clang", "avx2", "avx2", vector_bytes=32, vector_registers=16)
J, B, N = var("j"), var("b"), size("N")
FAR = (0, 2**31 - 3, -(2**31) + 2, 2**31 - 40, 5 * 10**9, -(10**12))
SIZES = [(1, 1), (3, 17), (16, 40), (33, 70)]


def lowered(value, n=8):
    (s,) = vectorise((For("j", ZERO, const(n), (StoreTo("Y", J, value),), pragma="vector"),), TARGET, Names())
    return s.value


def lanes_of_64(e):
    """What of an expression is computed on 64 bits a lane, outside of the choice that is not taken where 32 bits do."""
    found, stack = set(), [e]
    while stack:
        n = stack.pop()
        if n.dtype.lanes > 1 and n.dtype.element.name == "i64" and n.op != "ramp":
            found.add(n)
        stack += n.args[:2] if n.op == "where" and n.args[0].dtype.lanes == 1 else n.args
    return found


@pytest.mark.parametrize(
    "value",
    [
        cast(f32, J),
        cast(f32, B - J * 3),
        cast(f32, call("min", N - 1, J + B * 8)),
        cast(f32, call("max", B, J) - N),
        call("where", J.lt(N), const(1.0, f32), const(0.0, f32)),
        call("where", call("equal", J + B, N - J), const(1.0, f32), const(0.0, f32)),
        cast(f64, J + B),
        cast(f32, J // 3 + B),
        cast(f32, J % 4 - N),
        cast(f32, (J + N) // 3),
        cast(f32, (B - J * 5) // 7 - (J + N) % 12),
        cast(f32, (N * call("min", N - 1, J + B * 8) - J * B) % 11),
        call("where", call("equal", (J * N + B) % 3, const(0)), const(1.0, f32), const(0.0, f32)),
    ],
    ids=str,
)
def test_lanes_are_narrow(value) -> None:
    assert not lanes_of_64(lowered(value, 4 if value.dtype is f64 else 8))


@pytest.mark.parametrize("value", [cast(f32, J * J), cast(f32, J * J % 3), cast(f32, make("load", J.dtype, (J,), "X")), cast(f32, J * N)], ids=str)
def test_what_has_no_such_form_stays(value) -> None:
    assert lanes_of_64(lowered(value, 4))


def composite(offset: int) -> str:
    return f"""(composite positions ((Z{{f32}}[M N]) -> (A{{f32}}[M N] B{{f64}}[M N] C{{f32}}[M N] D{{f32}}[M N] E{{f32}}[M N] F{{f32}}[M N]))
      (setf i (+ (unsqueeze (iota M) :axis 1) {offset})) (setf j (+ (expand (iota N) M N) {offset}))
      (return (+ Z (cast f32 (- j (iota N)))) (cast f64 (- i (* 3 j)))
        (cast f32 (- (min j (+ i 5)) (* 2 {offset}))) (cast f32 (max j (- i 7)))
        (+ (cast f32 (<= j i)) (* 2 (cast f32 (= j i)))) (cast f32 (< (- i j) 3))))"""


@needs_cc
@pytest.mark.parametrize("offset", FAR)
def test_as_c(offset: int) -> None:
    run(offset, "clang")


@pytest.mark.parametrize("offset", FAR[1:3])
def test_interpreted(offset: int) -> None:
    run(offset, "reference")


def run(offset: int, runtime: str) -> None:
    f = luminal.compile(composite(offset), runtime=runtime)
    for m, n in SIZES:
        i, j = np.arange(m)[:, None] + offset, np.broadcast_to(np.arange(n), (m, n)) + offset
        expected = (j - np.arange(n), i - 3 * j, np.minimum(j, i + 5) - 2 * offset, np.maximum(j, i - 7), (j <= i) + 2 * (j == i), i - j < 3)
        for k, (found, wanted) in enumerate(zip(f(np.zeros((m, n), np.float32)), expected, strict=True)):
            np.testing.assert_array_equal(found, wanted.astype(found.dtype), err_msg=f"output {k}, {m}×{n}")


@needs_cc
@pytest.mark.parametrize("offset", FAR)
def test_quotients_and_remainders_by_constants(offset: int) -> None:
    """Of one composite: a C compiler starts once for all of the constants."""
    divisors = (2, 3, 7, 12, 100, 5000, 1 << 20)
    parts = "\n".join(
        f"""(cast i32 (mod (- i (* 3 j)) {d})) (cast i32 (mod (- (* i (min j (+ 9 (mod i 7)))) (* 5 j)) {d}))
            (cast i32 (mod (+ (floordiv (+ i j) {d}) {d}) 997)) (cast i32 (= (mod (floordiv j {d}) 2) 0))"""
        for d in divisors
    )
    outputs = " ".join(f"Y{k}{{i32}}[M N]" for k in range(4 * len(divisors)))
    f = luminal.compile(
        f"""(composite parts ((Z{{f32}}[M N]) -> ({outputs}))
              (setf i (+ (unsqueeze (iota M) :axis 1) {offset})) (setf j (+ (expand (iota N) M N) {offset % 1000}))
              (return {parts}))""",
        runtime="clang",
    )
    i, j = np.arange(5)[:, None] + offset, np.broadcast_to(np.arange(37), (5, 37)) + offset % 1000
    wanted = [y for d in divisors for y in ((i - 3 * j) % d, (i * np.minimum(j, 9 + i % 7) - 5 * j) % d, ((i + j) // d + d) % 997, j // d % 2 == 0)]
    for k, (found, want) in enumerate(zip(f(np.zeros((5, 37), np.float32)), wanted, strict=True)):
        np.testing.assert_array_equal(found, want, err_msg=f"output {k % 4}, by {divisors[k // 4]}")


def test_small_quotients() -> None:
    """By a multiplication and a shift, for all numbers that there may be."""
    lanes = var("v", i32.vector(4))
    for d in (*range(1, 40), 97, 255, 256, 257, 1000, 4095):
        for most in (0, d - 1, d, 2 * d - 1, 2 * d, 16 * d, 40 * d + 3):
            for op, python in (("floordiv", lambda a, b: a // b), ("mod", lambda a, b: a % b)):
                e, last = small(op, lanes, d, most)
                assert last == max(python(a, d) for a in range(most + 1))
                for a in {0, 1, most // 2, most, *range(max(0, most - 70), most), *range(0, most, d), *range(d - 1, most, d)}:
                    if 0 <= a <= most:
                        assert value(e, a) == python(a, d), (op, d, most, a)


def value(e, a: int) -> int:
    """An expression of lanes for one of them, which must fit in 32 bits all the way."""
    args = [value(x, a) for x in e.args]
    result = {
        "var": lambda: a,
        "const": lambda: e.attr,
        "broadcast": lambda: args[0],
        "less_than": lambda: args[0] < args[1],
        "where": lambda: args[1] if args[0] else args[2],
        "add": lambda: args[0] + args[1],
        "sub": lambda: args[0] - args[1],
        "mul": lambda: args[0] * args[1],
        "shift_right": lambda: args[0] >> args[1],
        "floordiv": lambda: args[0] // args[1],
        "mod": lambda: args[0] % args[1],
    }[e.op]()
    assert -(1 << 31) <= result < 1 << 31
    return result


@pytest.mark.parametrize("whole", [False, True])
def test_lanes_behind_a_guard_are_zeros_where_all_factors_are(whole):
    """x·y of the first lanes needs no comparison; where x is read in all lanes anyway, an infinite one times the zeros that stand for y is no zero."""
    x, y = make("load", f32, (J,), "X"), make("load", f32, (J,), "Y")
    value = call("where", call("less_than", J, N), x * y, const(0, f32))
    found = lowered(value + x if whole else value)
    stack, forms = [found], []
    while stack:
        n = stack.pop()
        forms.append(n)
        stack += n.args
    compared = [n for n in forms if n.op == "where" and n.args[0].dtype.lanes > 1]
    assert len(compared) == (1 if whole else 0)
    masked = {n.attr if isinstance(n.attr, str) else n.attr[0] for n in forms if n.op == "vload" and len(n.args) > 1}
    assert masked == ({"Y"} if whole else {"X", "Y"})
