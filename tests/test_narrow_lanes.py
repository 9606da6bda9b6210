"""Positions in lanes are as narrow as the data beside them (`passes/narrow_lanes.py`): what becomes narrow, what does not, and that every value stays."""

from __future__ import annotations

import re
from textwrap import dedent

import luminal
import numpy as np
import pytest
from compilers import FAMILIES
from lowering import body_of, program_of
from luminal.ir.interpret.program import run
from luminal.ir.program import Program
from luminal.ir.target import Options, Target
from luminal.passes.narrow_lanes import narrow_lanes

pytestmark = pytest.mark.usefixtures("plain_c")

TARGET = Target("clang", "test", "a test machine", vector_bytes=32)
SORTED = "(composite sorted ((X{%s}[N %d]) -> (Y{%s}[N %d])) (return (sort X)))"
KINDS = {"u8": np.uint8, "i16": np.int16, "f16": np.float16, "f32": np.float32}
HEAD = "program k v1\nin x: i16[16]\nin w: i64[16]\nout y: i16[16]\nout z: i64[16]\n\nfunction k_0(const i16* x, const i64* w, i16* y, i64* z):\n"


def program(body: str) -> Program:
    return program_of(body, HEAD, "call k_0(x, w, y, z)")


def narrowed(body: str) -> str:
    """The lines after the pass, once it has been seen to change no value."""
    before = program(body)
    after = narrow_lanes(before, TARGET, Options())
    rng = np.random.default_rng(3)
    x, w = rng.integers(-(1 << 15), 1 << 15, 16).astype(np.int16), rng.integers(-5, 5, 16) << rng.integers(0, 60, 16)
    x[:4] = -(1 << 15), (1 << 15) - 1, 0, 1
    found = [{"x": x, "w": w, "y": np.zeros(16, np.int16), "z": np.zeros(16, np.int64)} for _ in range(2)]
    for p, memory in zip((before, after), found, strict=True):
        assert run(p, memory, {}) == 0
    for name in ("y", "z"):
        np.testing.assert_array_equal(found[0][name], found[1][name])
    return body_of(after)


def test_choices_and_sums_of_literals_take_the_width_of_the_data() -> None:
    assert (
        narrowed("""
            let v: i16x16 = vload.16 x[0]
            let c: boolx16 = v < broadcast.16(3:i16)
            let p: i64x16 = where(c, broadcast.16(5), broadcast.16(-4)) * broadcast.16(100)
            let q: i64x16 = max(p, cast.i64x16(c)) + ramp.16
            y[0] = where(q < broadcast.16(9), v, broadcast.16(1:i16))
            z[0] = q
        """)
        == dedent("""
            let v: i16x16 = vload.16 x[0]
            let c: boolx16 = v < broadcast.16(3:i16)
            let p: i16x16 = where(c, broadcast.16(5:i16), broadcast.16(-4:i16)) * broadcast.16(100:i16)
            let q: i16x16 = max(p, cast.i16x16(c)) + cast.i16x16(ramp.16)
            y[0] = where(q < broadcast.16(9:i16), v, broadcast.16(1:i16))
            z[0] = cast.i64x16(q)
        """).strip()
    )


def test_one_that_needs_more_widens_all() -> None:
    """The product reaches 2 · 10⁵; that of data and 2 does not fit 16 bits either."""
    text = narrowed("""
        let v: i16x16 = vload.16 x[0]
        let p: i64x16 = where(v < broadcast.16(3:i16), broadcast.16(500), broadcast.16(4))
        let q: i64x16 = p * broadcast.16(400)
        let r: i64x16 = cast.i64x16(v) * broadcast.16(-2)
        z[0] = where(q < r, q, r)
    """)
    assert re.findall(r"let [pqr]: (\w+)", text) == ["i32x16"] * 3
    assert "where(q < r, q, r)" in text


def test_beside_wide_data_they_are_half_as_wide() -> None:
    text = narrowed("""
        let u: i64x16 = vload.16 w[0]
        let p: i64x16 = where(u < broadcast.16(3), broadcast.16(5), broadcast.16(4))
        z[0] = where(p == broadcast.16(5), u, p)
    """)
    assert "let p: i32x16 = where(u < broadcast.16(3), broadcast.16(5:i32), broadcast.16(4:i32))" in text
    assert "z[0] = where(p == broadcast.16(5:i32), u, cast.i64x16(p))" in text


def test_what_is_not_known_keeps_its_width() -> None:
    """Numbers from memory, of which sums wrap, and one that 32 bits do not hold; a narrow operand is widened for them."""
    text = narrowed("""
        let v: i16x16 = vload.16 x[0]
        let u: i64x16 = vload.16 w[0]
        let p: i64x16 = where(v < broadcast.16(3:i16), broadcast.16(5), broadcast.16(4))
        let q: i64x16 = u * u + p
        let r: i64x16 = p * broadcast.16(1000000000)
        z[0] = where(q < r, q, p)
    """)
    assert re.findall(r"let [upqr]: (\w+)", text) == ["i64x16", "i16x16", "i64x16", "i64x16"]
    assert "u * u + cast.i64x16(p)" in text
    assert "where(q < r, q, cast.i64x16(p))" in text


def test_what_ranges_decide_is_not_asked() -> None:
    text = narrowed("""
        let v: i16x16 = vload.16 x[0]
        let c: boolx16 = v < broadcast.16(3:i16)
        let p: i64x16 = where(c, broadcast.16(5), broadcast.16(4))
        let q: i64x16 = where(p == broadcast.16(5), p, p + broadcast.16(2))
        let a: i16x16 = where(p == broadcast.16(4), v, broadcast.16(7:i16))
        let b: i16x16 = where(p <= broadcast.16(5), a, broadcast.16(8:i16))
        let d: i16x16 = where(p != broadcast.16(3), b, v)
        let e: i16x16 = where(p < broadcast.16(4), v, d)
        y[0] = where(q == broadcast.16(6), e, v)
    """)
    assert "let q: i16x16 = where(c, p, p + broadcast.16(2:i16))" in text
    assert "let a: i16x16 = where(~c, v, broadcast.16(7:i16))" in text
    assert "let b: i16x16 = where(broadcast.16(true), a, broadcast.16(8:i16))" in text
    assert "let d: i16x16 = where(broadcast.16(true), b, v)" in text
    assert "let e: i16x16 = where(broadcast.16(false), v, d)" in text
    assert "y[0] = where(q == broadcast.16(6:i16), e, v)" in text


def test_a_choice_by_what_may_change_is_asked_again() -> None:
    text = narrowed("""
        let v: i16x16 = vload.16 x[0]
        var m: i16x16 = v
        let p: i64x16 = where(m < broadcast.16(3:i16), broadcast.16(5), broadcast.16(4))
        m = v + v
        y[0] = where(p == broadcast.16(5), m, v)
    """)
    assert "y[0] = where(p == broadcast.16(5:i16), m, v)" in text


def test_what_fits_in_registers_stays() -> None:
    before = program("""
        let v: i64x4 = where(vload.4 x[0] < broadcast.4(3:i16), broadcast.4(5), broadcast.4(4))
        z[0] = v
    """)
    assert narrow_lanes(before, TARGET, Options()) is before


@pytest.mark.parametrize("dtype", ["u8", "i16", "f16", "f32"])
@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_rows_are_sorted_without_wide_lanes(dtype, target):
    """In vectors, also of bytes: whole rows of which much is computed are columns of sixteen lanes."""
    source = luminal.compile(SORTED % (dtype, 12, dtype, 12), target=target).source
    assert re.search(rf"{'f32' if dtype == 'f16' else dtype}x\d+ row", source)
    assert "i64x" not in source


@pytest.mark.parametrize("family", [f for f in ("clang", "gcc") if f in FAMILIES])
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("length", [4, 7])
def test_sorted_rows(family, dtype, length):
    f = luminal.compile(SORTED % (dtype, length, dtype, length), config={"CC": FAMILIES[family]})
    for rows in (0, 1, 15, 16, 33, 70):
        x = np.random.default_rng(rows).integers(0, 9, (rows, length)).astype(KINDS[dtype])
        if dtype[0] == "f" and rows:
            x[0, -1] = np.nan
        np.testing.assert_array_equal(f(x), np.sort(x))
