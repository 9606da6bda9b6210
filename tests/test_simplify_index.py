"""simplify_index: what it takes away and what it leaves."""

from __future__ import annotations

from textwrap import dedent

import pytest
from lowering import SERIAL, body_of, program_of
from luminal.ir import polynomial as pl
from luminal.ir.bounds import Known
from luminal.ir.expr import ZERO, call, const, size, var
from luminal.ir.graph import Size
from luminal.ir.program import For
from luminal.ir.simplify import prove, simplify
from luminal.ir.target import Options
from luminal.passes.simplify_index import inside_loop, simplify_index


def simplified(text: str, wanted: str) -> None:
    assert body_of(simplify_index(program_of(text), SERIAL, Options())) == dedent(wanted).strip()


def test_a_guard_that_the_loops_imply_goes() -> None:
    simplified(
        """
        for i in 0 .. M // 8:
          for v in 0 .. 8:
            if i * 8 + v < M:
              y[(i * 8 + v) * 1 + 0] = x[i * 8 + v]
        """,
        """
        for i in 0 .. M // 8:
          for v in 0 .. 8:
            y[i * 8 + v] = x[i * 8 + v]
        """,
    )


def test_where_lines_begin_is_a_position_like_others() -> None:
    """As many elements as there are before a line are no more than all."""
    simplified(
        """
        let h: i64 = min(M, to_line(y) % 16)
        for i in 0 .. M - max(0, (M - h) // 8) * 8 - h:
          y[h + i] = x[h + i]
        """,
        """
        let h: i64 = min(to_line(y) % 16, M)
        for i in 0 .. (M - h) // 8 * -8 + M - h:
          y[h + i] = x[h + i]
        """,
    )


def test_a_guard_that_they_do_not_imply_stays() -> None:
    text = """
        for i in 0 .. (M + 7) // 8:
          for v in 0 .. 8:
            if i * 8 + v < M:
              y[i * 8 + v] = 0.0:f32
        """
    simplified(text, text)


def test_multiples_and_preconditions_are_known() -> None:
    simplified(
        """
        for i in 0 .. (N + 3) // 4:
          if i * 4 + 4 <= N:
            y[i] = x[N // 4 * 4]
        if 3 < M:
          y[0] = x[0]
        else:
          y[1] = x[1]
        """,
        """
        for i in 0 .. N // 4:
          y[i] = x[N]
        y[0] = x[0]
        """,
    )


def test_loops_of_one_trip_and_of_none() -> None:
    simplified(
        """
        for i in 3 .. 4:
          y[i * 2] = 0.0:f32
        for j in 5 .. 5:
          y[j] = 1.0:f32
        """,
        """
        y[6] = 0.0:f32
        """,
    )


def test_an_if_without_its_first_half_is_turned() -> None:
    simplified(
        """
        for i in 0 .. M:
          if i < 2:
            for j in 1 .. 1:
              y[j] = 0.0:f32
          else:
            y[i] = 1.0:f32
        """,
        """
        for i in 0 .. M:
          if 2 <= i:
            y[i] = 1.0:f32
        """,
    )


def test_a_let_is_known_but_not_one_of_changing_data() -> None:
    simplified(
        """
        let s: i64 = M + 1
        if M < s:
          y[0] = 0.0:f32
        let t: i64 = at[0]
        if at[0] == t:
          y[1] = 0.0:f32
        """,
        """
        let s: i64 = M + 1
        y[0] = 0.0:f32
        let t: i64 = at[0]
        if at[0] == t:
          y[1] = 0.0:f32
        """,
    )


def test_of_a_position_in_a_collapsed_loop_the_bounds_are_known() -> None:
    """And nothing of a quotient whose sign is not known."""
    simplified(
        """
        for f in 0 .. M * N:
          let i: i64 = f // N
          let j: i64 = f % N
          let k: i64 = (f - 9) // N
          if 0 <= i & j < N:
            y[i * N + j] = x[i * N + j]
          if 0 <= k:
            y[k] = x[k]
        """,
        """
        for f in 0 .. M * N:
          let i: i64 = f // N
          let j: i64 = f % N
          let k: i64 = (f - 9) // N
          y[N * i + j] = x[N * i + j]
          if 0 <= k:
            y[k] = x[k]
        """,
    )


def test_what_does_not_mention_the_loop_is_judged_outside_of_it() -> None:
    """Once for all loops: the answers of the inner scope are those of the outer one, the same objects."""
    n, i = size("N"), var("i")
    outside = Known({"N": Size("N", 1)})
    inside = inside_loop(For("i", ZERO, n // 8, ()), outside)
    deeper = inside_loop(For("j", ZERO, const(4), ()), inside)
    assert deeper.home(n // 8 * 8) is outside
    assert deeper.home(i * 8 + n) is inside
    assert deeper.home(i * 8 + var("j")) is deeper
    assert simplify((n + 7) // 8 + i, deeper) is simplify((n + 7) // 8 + i, inside)
    assert prove((i * 8).lt(n), deeper)  # what the loop says of its own variable is known all the same


def test_that_a_loop_runs_says_what_is_rounded_in_its_end() -> None:
    """Where it ends at a quotient too: that (M - N + 15) // 16 is at least 1 says that N < M, inside the loop."""
    simplified(
        """
        for i in 0 .. (M - N + 15) // 16:
          for j in 0 .. 4:
            if N - M < j:
              y[i * 16 + j] = x[i]
        """,
        """
        for i in 0 .. (M - N + 15) // 16:
          for j in 0 .. 4:
            y[i * 16 + j] = x[i]
        """,
    )


@pytest.mark.pure
def test_whether_a_loop_runs_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only that it never does is: a proof that there are trips would be long, and decides nothing."""
    asked: list[pl.Poly] = []
    holds = Known._holds
    monkeypatch.setattr(Known, "_holds", lambda self, p: asked.append(p) or holds(self, p))
    simplify_index(program_of("for i in 0 .. min(M, N * 2) // 4 * N:\n  y[i] = x[i]"), SERIAL, Options())
    runs = pl.poly(call("min", size("M"), size("N") * 2) // 4 * size("N") - 1)
    assert runs not in asked


def test_vectors_before_the_last_are_whole_where_that_is_known() -> None:
    simplified(
        """
        if M <= 32:
          for j in 0 .. 3 unroll:
            y[j * 16, M - j * 16] = vload.16 x[j * 16, M - j * 16] + vload.16 b[j * 16]
        else:
          for j in 0 .. 3 unroll:
            y[j * 16, M - j * 16] = vload.16 x[j * 16, M - j * 16] + vload.16 b[j * 16]
          for k in 0 .. 2 unroll:
            z[k * 16, M - k * 16] = vload.16 x[k * 16, M - k * 16]
          for l in 0 .. 4 unroll:
            z[l * 16, M - l * 16] = vload.16 x[l * 16]
          for n in 0 .. 2 unroll:
            z[n * 16, M - n * 16] = vload.16 x[n * 16, M - n * 16, 1]
        """,
        """
        if M <= 32:
          for j in 0 .. 3 unroll:
            y[j * 16, M - j * 16] = vload.16 x[j * 16, M - j * 16] + vload.16 b[j * 16]
        else:
          for j in 0 .. 2 unroll:
            y[j * 16] = vload.16 x[j * 16] + vload.16 b[j * 16]
          y[32, M - 32] = vload.16 x[32, M - 32] + vload.16 b[32]
          for k in 0 .. 2 unroll:
            z[k * 16] = vload.16 x[k * 16]
          for l in 0 .. 2 unroll:
            z[l * 16] = vload.16 x[l * 16]
          for l in 2 .. 4 unroll:
            z[l * 16, M - l * 16] = vload.16 x[l * 16]
          for n in 0 .. 2 unroll:
            z[n * 16] = vload.16 x[n * 16, M - n * 16, 1]
        """,
    )


def test_a_remainder_of_what_has_lost_one_is_put_back() -> None:
    i, s = var("i"), var("s")
    known = Known({"i": (0, 71, 1), "s": (0, 15, 1)})
    x = i % 36 * 16 + s
    assert simplify(x % 3, known) is simplify((i + s) % 3, known)
    assert simplify(x // 3 * 3 + x % 3, known) is simplify(x, known)
    assert simplify(x // 9 * 9 + x // 3 % 3 * 3 + x % 3, known) is simplify(x, known)
    assert simplify(x // 3 * 3 + (i + s + 1) % 3, known) is not simplify(x, known)
