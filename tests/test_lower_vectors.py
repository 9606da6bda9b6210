"""lower: what loops over lanes become.  Kernels are given as text, functions are compared as text."""

from __future__ import annotations

import pytest
from lowering import expect, lowered


def test_a_vector_loop_loads_consecutive_elements() -> None:
    expect(
        """
        for j in 0 .. 16 vector:
          y[0, j] = add(mul(x[0, j], alpha), cast.f32(j))
        """,
        """
        for j in 0 .. 2 unroll:
          y[j * 8] = vload.8 x[j * 8] * broadcast.8(alpha) + cast.f32x8(broadcast.8(cast.i32(j * 8)) + cast.i32x8(ramp.8))
        """,
    )


def test_words_that_positions_are_do_not_count() -> None:
    """What is made of them is computed in whole registers."""
    expect(
        """
        for j in 0 .. 8 vector:
          y[0, j] = cast.f32(cast.u32(bitcast.u64(j) >> 32:u64))
        """,
        """
        y[0] = cast.f32x8(cast.u32x8(bitcast.u64x8(ramp.8) >> broadcast.8(32:u64)))
        """,
    )


def test_words_that_named_data_becomes_do() -> None:
    expect(
        """
        for j in 0 .. 8 vector:
          let v: f32 = x[0, j]
          y[0, j] = cast.f32(cast.u64(v) >> 1:u64)
        """,
        """
        for j in 0 .. 2 unroll:
          let v: f32x4 = vload.4 x[j * 4]
          y[j * 4] = cast.f32x4(cast.u64x4(v) >> broadcast.4(1:u64))
        """,
    )


def test_a_column_is_gathered() -> None:
    expect(
        """
        for i in 0 .. 8 vector:
          r[i] = x[i, 3]
        """,
        """
        r[0] = gather.8 x[broadcast.8(3) + broadcast.8(N) * ramp.8]
        """,
    )


def test_positions_from_data_are_gathered() -> None:
    expect(
        """
        for j in 0 .. 8 vector:
          y[0, j] = b[at[j]]
        """,
        """
        for j in 0 .. 2 unroll:
          y[j * 4] = gather.4 b[vload.4 at[j * 4]]
        """,
    )


def test_a_sum_into_a_scalar_is_folded() -> None:
    expect(
        """
        alloc s: f32[] register
        s[] = 0.0:f32
        for j in 0 .. 8 vector:
          s[] add= x[0, j]
        r[0] = s[]
        """,
        """
        var s: f32 = 0.0:f32
        s = s + fold.add(vload.8 x[0])
        r[0] = s
        """,
    )


def test_a_register_array_of_aligned_vectors_is_an_array_of_vectors() -> None:
    expect(
        """
        alloc acc: f32[2, 8] register
        for i in 0 .. 2 unroll:
          for j in 0 .. 8 vector:
            acc[i, j] = x[i, j]
        for i.b in 0 .. 2 unroll:
          for j.b in 0 .. 8 vector:
            y[i.b, j.b] = acc[i.b, j.b]
        """,
        """
        array acc: f32x8[2] register
        for i in 0 .. 2 unroll:
          acc[i] = vload.8 x[i * N]
        for i_b in 0 .. 2 unroll:
          y[i_b * N] = acc[i_b]
        """,
    )


def test_a_register_array_that_is_also_touched_alone_stays_in_memory() -> None:
    expect(
        """
        alloc acc: f32[8] register
        for j in 0 .. 8 vector:
          acc[j] = x[0, j]
        r[0] = acc[3]
        """,
        """
        array acc: f32[8] register
        acc[0] = vload.8 x[0]
        r[0] = acc[3]
        """,
    )


@pytest.mark.parametrize(
    "statement",
    [
        "y[0, j] = where((j < N), x[0, ((j * 2) % N)], 0.0:f32)",  # a load that some lanes may not perform
        "x2[j] = 1.0:f32",  # scattered
    ],
)
def test_what_has_no_vector_form_stays_a_loop(statement: str) -> None:
    text = lowered(f"for j in 0 .. 8 vector:\n  {statement.replace('x2[j]', 'y[j, 0]')}")
    assert text.startswith("for j in 0 .. 8:\n")


def test_a_branch_of_lanes_stays_a_loop() -> None:
    text = lowered("for j in 0 .. 8 vector:\n  if (b[j] < 0.0:f32):\n    y[0, j] = x[0, j]")
    assert text.startswith("for j in 0 .. 8:\n  if b[j] < 0.0:f32:")


def test_of_a_guard_that_the_first_lanes_pass_only_those_are_read_and_written() -> None:
    expect(
        """
        for j in 0 .. 16 vector:
          if ((M < N) & ((j + 3) < N)):
            y[0, (j + 3)] = x[0, (j + 3)]
        """,
        """
        for j in 0 .. 2 unroll:
          if M < N & 0 < N - j * 8 - 3:
            y[j * 8 + 3, N - j * 8 - 3] = vload.8 x[j * 8 + 3, N - j * 8 - 3]
        """,
    )


def test_a_choice_of_lanes_between_loads_that_are_inside_is_a_select() -> None:
    expect(
        """
        for j in 0 .. 8 vector:
          y[0, j] = where((b[j] < 0.0:f32), x[0, j], b[j])
        """,
        """
        let x_value: f32x8 = vload.8 x[0]
        let b_value: f32x8 = vload.8 b[0]
        y[0] = where(b_value < broadcast.8(0.0:f32), x_value, b_value)
        """,
    )


def test_so_it_is_where_a_load_is_inside_by_the_outer_of_two_collapsed_axes() -> None:
    found = lowered(
        """
        for i in 0 .. M * 3:
          for j in 0 .. 8 vector:
            y[0, j] = where((j * j < i), r[i // 3], 0.0:f32)
        """
    )
    assert "let r_value: f32 = r[i // 3]" in found and " vector" not in found
    assert " = where(" in found


def test_a_choice_that_all_lanes_share_stays_lazy() -> None:
    expect(
        """
        for i in 0 .. M:
          for j in 0 .. 8 vector:
            y[i, j] = where((0 < i), x[(i + -1), j], 0.0:f32)
        """,
        """
        for i in 0 .. M:
          y[i * N] = where(0 < i, vload.8 x[(i - 1) * N], broadcast.8(0.0:f32))
        """,
    )


def test_a_quotient_that_is_the_same_in_all_lanes_of_a_vector_is_one_number() -> None:
    """Eight lanes at a time, each in the block of its vector."""
    expect(
        """
        for i in 0 .. M:
          for j in 0 .. 16 vector:
            y[i, j] = where((((j // 8 + i) % 2) == 0), x[i, j], 0.0:f32)
        """,
        """
        for i in 0 .. M:
          for j in 0 .. 2 unroll:
            let x_value: f32x8 = vload.8 x[i * N + j * 8]
            y[i * N + j * 8] = where((i + j) % 2 == 0, x_value, broadcast.8(0.0:f32))
        """,
    )
