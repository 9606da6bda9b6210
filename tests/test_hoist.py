"""hoist: what it takes out of loops, what it shares, and what it leaves."""

from __future__ import annotations

from textwrap import dedent

from lowering import SERIAL, body_of, program_of
from luminal.ir.target import Options
from luminal.passes.hoist import hoist


def hoisted(text: str, wanted: str) -> None:
    assert body_of(hoist(program_of(text), SERIAL, Options())) == dedent(wanted).strip()


def test_addresses_are_sums_in_the_order_of_the_loops() -> None:
    hoisted(
        """
        for i in 0 .. M:
          for j in 0 .. N:
            y[j + i * N] = x[i * N + j] + x[j * M + i]
        """,
        """
        for i in 0 .. M:
          let t0: i64 = i * N
          for j in 0 .. N:
            y[t0 + j] = x[t0 + j] + x[i + j * M]
        """,
    )


def test_bounds_that_divide_and_what_lets_share_is_computed_once() -> None:
    hoisted(
        """
        for i in 0 .. (M + 7) // 8:
          z[0] = 0.0:f32
        for j in 0 .. (M + 7) // 8:
          z[0] = 1.0:f32
        """,
        """
        let t0: i64 = (M + 7) // 8
        for i in 0 .. t0:
          z[0] = 0.0:f32
        for j in 0 .. t0:
          z[0] = 1.0:f32
        """,
    )


def test_what_a_loop_beside_it_assigns_is_taken_out_of_no_loop_around_both() -> None:
    hoisted(
        """
        var a: i64 = 0
        for i in 0 .. M:
          for j in 0 .. N:
            a = a + j
          for p in 0 .. N:
            y[p] = x[p + a * M]
        """,
        """
        var a: i64 = 0
        for i in 0 .. M:
          for j in 0 .. N:
            a = a + j
          let t0: i64 = a * M
          for p in 0 .. N:
            y[p] = x[t0 + p]
        """,
    )


def test_what_the_loop_assigns_stays_inside() -> None:
    hoisted(
        """
        var s: f32 = 0.0:f32
        for i in 0 .. M:
          s = s + alpha * 2.0:f32
          y[i] = s * s
        """,
        """
        var s: f32 = 0.0:f32
        let t0: f32 = alpha * 2.0:f32
        for i in 0 .. M:
          s = s + t0
          y[i] = s * s
        """,
    )


def test_a_temporary_ends_where_its_variable_is_assigned() -> None:
    hoisted(
        """
        var s: f32 = 2.0:f32
        for i in 0 .. M:
          y[i] = recip(s)
        s = 3.0:f32
        for j in 0 .. M:
          z[j] = recip(s)
        """,
        """
        var s: f32 = 2.0:f32
        let t0: f32 = recip(s)
        for i in 0 .. M:
          y[i] = t0
        s = 3.0:f32
        let t1: f32 = recip(s)
        for j in 0 .. M:
          z[j] = t1
        """,
    )


def test_a_temporary_is_not_used_where_its_variable_changes() -> None:
    hoisted(
        """
        var s: f32 = 2.0:f32
        for i in 0 .. M:
          y[i] = recip(s)
        for j in 0 .. M:
          z[j] = recip(s)
          s = s + 1.0:f32
        """,
        """
        var s: f32 = 2.0:f32
        let t0: f32 = recip(s)
        for i in 0 .. M:
          y[i] = t0
        for j in 0 .. M:
          z[j] = recip(s)
          s = s + 1.0:f32
        """,
    )


def test_what_a_statement_computes_twice_gets_a_name() -> None:
    hoisted(
        """
        y[0] = exp(x[0]) * exp(x[0]) + x[1]
        """,
        """
        let t0: f32 = exp(x[0])
        y[0] = t0 * t0 + x[1]
        """,
    )


def test_what_a_store_may_change_is_loaded_again() -> None:
    hoisted(
        """
        y[0] = exp(b[0])
        z[0] = exp(y[0])
        z[1] = exp(b[0])
        y[1] = 0.0:f32
        z[2] = exp(y[0])
        """,
        """
        let t0: f32 = exp(b[0])
        y[0] = t0
        z[0] = exp(y[0])
        z[1] = t0
        y[1] = 0.0:f32
        z[2] = exp(y[0])
        """,
    )


def test_a_guarded_load_stays_under_its_guard() -> None:
    text = """
        y[0] = where(0 < M, x[M - 1] * x[M - 1], 0.0:f32)
        """
    hoisted(text, text)


def test_a_guarded_load_that_is_performed_anyway_is_shared() -> None:
    hoisted(
        """
        y[0] = where(b[0] < 0.0:f32, x[0], 0.0:f32) + x[0]
        """,
        """
        let t0: f32 = x[0]
        y[0] = where(b[0] < 0.0:f32, t0, 0.0:f32) + t0
        """,
    )


def test_a_choice_that_would_be_written_out_many_times_becomes_an_if() -> None:
    value = "x[at[0]]"
    for _ in range(6):
        value = f"({value} + {value})"
    p = hoist(program_of(f"y[0] = where(0 < M, {value}, 0.0:f32)"), SERIAL, Options())
    lines = body_of(p).split("\n")
    assert lines[:2] == ["var t0: f32", "if 0 < M:"]
    assert lines[-3:] == ["else:", "  t0 = 0.0:f32", "y[0] = t0"]
    assert len(lines) == 12


def test_unused_lets_go() -> None:
    hoisted(
        """
        let a: f32 = x[0]
        let c: f32 = a + 1.0:f32
        y[0] = x[1]
        """,
        """
        y[0] = x[1]
        """,
    )
