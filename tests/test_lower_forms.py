"""lower: what each construct of the kernel level becomes, but for loops over lanes (`test_lower_vectors.py`).  Kernels are given as text, functions are compared as text."""

from __future__ import annotations

from itertools import pairwise
from textwrap import dedent
from typing import Any

import pytest
from lowering import CPU, GPU, SERIAL, expect, lowered, module
from luminal.ir.bounds import Known
from luminal.ir.errors import CompilerBug, Unsupported
from luminal.ir.evaluate import evaluate
from luminal.ir.expr import const, floordiv, maximum, size
from luminal.ir.kernel import Module
from luminal.ir.program import Program
from luminal.ir.target import Options
from luminal.ir.text import read, show
from luminal.passes.lower import lower
from luminal.passes.lower.entry import magnitudes
from luminal.passes.simplify_index import known_of


def test_without_vectors_and_threads_loops_are_plain() -> None:
    expect(
        """
        region:
          for i in 0 .. M workshare:
            for j in 0 .. 8 vector:
              y[i, j] = x[i, j]
          barrier
        """,
        """
        for i in 0 .. M:
          for j in 0 .. 8:
            y[i * N + j] = x[i * N + j]
        """,
        SERIAL,
    )


def test_the_outermost_parallel_loop_is_divided_where_there_is_enough_work() -> None:
    text = lowered("for i in 0 .. M parallel:\n  for j in 0 .. N parallel:\n    y[i, j] = exp(x[i, j])")
    assert text.split("\n")[0] == "for i in 0 .. M parallel serial_if M * N < 1801 | M <= 1:"
    assert text.split("\n")[1] == "  for j in 0 .. N:"


def test_what_is_much_for_each_row_counts_beside_little_for_each_element() -> None:
    """A term that divides another is left out where it is small beside it, for usual extents."""
    body = "for i in 0 .. M parallel:\n  r[i] = {}\n  for j in 0 .. N reduce:\n    r[i] add= x[i, j]"
    exps = "exp(" * 9 + "b[0]" + ")" * 9
    assert lowered(body.format("exp(b[0])")).split("\n")[0] == "for i in 0 .. M parallel serial_if M * N < 66666 | M <= 1:"
    assert lowered(body.format(exps)).split("\n")[0] == "for i in 0 .. M parallel serial_if M * 331 + M * N < 66666 | M <= 1:"


def test_of_two_ways_that_sizes_choose_between_the_one_with_more_work_counts() -> None:
    """Few elements in one way, the usual number in the other: the latter is worth threads."""
    body = "for i in 0 .. M parallel:\n  if N <= 8:\n    r[i] = x[i, 0]\n  else:\n    for j in 0 .. N reduce:\n      r[i] add= x[i, j]"
    assert lowered(body).split("\n")[0] == "for i in 0 .. M parallel serial_if M * N < 66666 | M <= 1:"


def test_loops_that_run_less_than_never_by_the_estimate_are_no_work() -> None:
    """4 // 5 - 1 trips of five cancelled the one of the border, all but 1e-16, and the fork weighed against that was a literal beyond 64 bits."""
    body = """
        for i in 0 .. (M + 3) // 4 parallel:
          for k in 0 .. min(4, M - i * 4) // 5 - 1 parallel:
            for j in 0 .. 5 parallel:
              for p in 0 .. N reduce:
                r[i * 4 + (k * 5 + j)] add= x[i * 4 + (k * 5 + j), p]
          for t in 0 .. min(1, M - i * 4) parallel:
            for q in 0 .. N reduce:
              r[i * 4 + t] add= x[i * 4 + t, q]
        """
    assert lowered(dedent(body)).split("\n")[0] == "for i in 0 .. (M + 3) // 4 parallel serial_if M * N < 266666 | (M + 3) // 4 <= 1:"


def test_shared_memory_stands_before_its_region_and_private_memory_inside() -> None:
    expect(
        """
        region:
          alloc s: f32[N] shared align 64
          alloc p: f32[N] private
          for i in 0 .. N workshare:
            s[i] = b[i]
          barrier
          for i.b in 0 .. N workshare:
            p[0] = s[i.b]
            y[0, i.b] = p[0]
        """,
        """
        scratch s: f32[N]
        region serial_if N < 66666:
          scratch p: f32[N]
          for i in 0 .. N workshare:
            s[i] = b[i]
          barrier
          for i_b in 0 .. N workshare:
            p[0] = s[i_b]
            y[i_b] = p[0]
        """,
    )


def test_first_and_last_compare_with_the_ends() -> None:
    expect(
        """
        for i in 0 .. M:
          if first(i):
            r[i] = 0.0:f32
          if last(i):
            r[i] = 1.0:f32
        """,
        """
        for i in 0 .. M:
          if i == 0:
            r[i] = 0.0:f32
          if M <= i + 1:
            r[i] = 1.0:f32
        """,
    )


def test_a_check_fails_the_function() -> None:
    body = "for j in 0 .. N:\n  check (at[j] < N) code 3\n  r[0] = b[at[j]]"
    expect(
        body,
        """
        for j in 0 .. N:
          if ~(at[j] < N):
            fail 3
          r[0] = b[at[j]]
        """,
    )
    assert lower(module(body), CPU, Options()).functions[0].fails


def test_among_threads_what_a_check_protects_stands_under_it() -> None:
    expect(
        """
        for i in 0 .. 1000000 parallel:
          check (at[i] < N) code 3
          r[i] = b[at[i]]
        """,
        """
        for i in 0 .. 1000000 parallel:
          if ~(at[i] < N):
            fail 3
          else:
            r[i] = b[at[i]]
        """,
    )


def test_bounds_are_taken_once() -> None:
    text = lowered("alloc n: i64[] register\nn[] = 3\nfor i in 0 .. n[]:\n  n[] add= 1\n  r[i] = 1.0:f32")
    assert "let i_stop: i64 = n\nfor i in 0 .. i_stop:" in text


def test_a_while_counts_its_trips() -> None:
    expect(
        """
        while (b[0] < 1.0:f32) max M:
          r[0] = 1.0:f32
        """,
        """
        var trips: i64 = 0
        while where(trips < M, b[0] < 1.0:f32, false):
          r[0] = 1.0:f32
          trips = trips + 1
        """,
    )


def test_strides_of_ports() -> None:
    ports = "size M\nsize N\nsize ldx\nin x: f32[M, N] strided ldx\nout y: f32[M, N] order 1 0\n"
    text = lowered("for i in 0 .. M:\n  for j in 0 .. N:\n    y[i, j] = x[i, j]", ports=ports, buffers="x, y")
    assert text.split("\n")[-1].strip() == "y[i + j * M] = x[i * ldx + j]"


def test_sums_of_sizes_that_multiply_have_names() -> None:
    """An image of so many rows and columns as windows leave: (H - R + 1) · (W - R + 1) would be nine terms for each index before it.  Where nothing multiplies two sums, the address says it itself."""
    ports = "size H\nsize W\nsize R\nsize C\nout y: f32[C, H - R + 1, W - R + 1]\nout z: f32[C, H + 1]\n"
    expect(
        """
        for c in 0 .. C:
          for i in 0 .. H - R + 1:
            for j in 0 .. W - R + 1:
              y[c, i, j] = 1.0:f32
            z[c, i] = 2.0:f32
            y[c // (H - R + 1), c % (H - R + 1), 0] = 3.0:f32
            y[c // max(1, H // 4 + 1), 0, 0] = 4.0:f32
            y[c // (H * W - R * W), 0, 0] = 5.0:f32
        """,
        """
        let y_extent: i64 = H - R + 1
        let y_extent_2: i64 = W - R + 1
        for c in 0 .. C:
          for i in 0 .. H - R + 1:
            for j in 0 .. W - R + 1:
              y[c * (y_extent * y_extent_2) + i * y_extent_2 + j] = 1.0:f32
            z[c * (H + 1) + i] = 2.0:f32
            y[c // y_extent * (y_extent * y_extent_2) + c % y_extent * y_extent_2] = 3.0:f32
            y[c // max(1, H // 4 + 1) * (y_extent * y_extent_2)] = 4.0:f32
            y[c // (H * W - R * W) * ((H - R + 1) * (W - R + 1))] = 5.0:f32
        """,
        target=SERIAL,
        ports=ports,
        buffers="y, z",
    )


# ---- GPU


def test_block_and_thread_axes_make_the_grid() -> None:
    body = """
    for i.0 in 0 .. ((M + 15) // 16) block.y:
      for j.0 in 0 .. ((N + 31) // 32) block.x:
        alloc s: f32[16, 32] shared
        for i.1 in 0 .. 16 thread.y:
          for j.1 in 32 .. 64 thread.x:
            if ((((i.0 * 16) + i.1) < M) & (((j.0 * 32) + (j.1 + -32)) < N)):
              s[i.1, (j.1 + -32)] = x[((i.0 * 16) + i.1), ((j.0 * 32) + (j.1 + -32))]
    """
    program = lower(module(body), GPU, Options())
    f = program.functions[0]
    assert [show_all(f.grid), show_all(f.threads)] == ["(N + 31) // 32, (M + 15) // 16, 1", "32, 16, 1"]
    text = show(program)
    assert "for j_1 in 0 .. 32 thread.x:" in text
    assert "shared s: f32[512]" in text
    assert "if 0 < (N + 31) // 32 & 0 < (M + 15) // 16:\n    call k_0" in text


def show_all(exprs: tuple[object, ...]) -> str:
    return ", ".join(map(repr, exprs))


def test_two_loops_over_one_index_are_guarded() -> None:
    text = lowered("for i in 0 .. M block.x:\n  r[i] = 0.0:f32\nfor j in 0 .. N block.x:\n  y[0, j] = 0.0:f32", GPU)
    assert "if i < M:" in text
    assert "if j < N:" in text


def test_a_gpu_needs_extents_at_the_launch() -> None:
    with pytest.raises(CompilerBug, match=r"thread\.x"):
        lowered("for i in 0 .. M thread.x:\n  r[i] = 0.0:f32", GPU)
    with pytest.raises(Unsupported, match="constant size"):
        lowered("alloc s: f32[N] shared\nr[0] = 1.0:f32", GPU)


def test_a_barrier_among_threads_needs_a_gpu() -> None:
    with pytest.raises(CompilerBug, match="needs a GPU"):
        lowered("for i in 0 .. 8 thread.x:\n  r[i] = 0.0:f32\n  barrier")


# ---- the entry


def entry(m: Module) -> str:
    text = show(lower(m, CPU, Options()))
    return text[text.index("\nentry:") + 1 :]


def test_the_entry_of_a_copy(golden) -> None:
    ports = "size N min 1 multiple 4\nsize ldy\nin x: f32[N, N]\nout y: f32[N, N] strided ldy\nrequire N <= ldy\n"
    golden("entry.program", entry(module("y[0, 0] = x[0, 0]", ports=ports, buffers="x, y")))


def test_what_the_bounds_of_a_size_say_is_not_asked_twice() -> None:
    """As where a composite says `(where N >= 2)`: the size is known to be, and its precondition says so too."""
    ports = "size N min 2 multiple 4\nsize M\nin x: f32[N, M]\nout y: f32[N, M]\nrequire 2 <= N\nrequire 1 <= N\nrequire N % 2 == 0\nrequire N <= M\n"
    program = lower(module("y[0, 0] = x[0, 0]", ports=ports, buffers="x, y"), CPU, Options())
    assert [str(r) for r in program.requires] == ["N <= M"]
    lines = [line.strip() for line in show(program).split("\n")]
    assert [before for before, line in pairwise(lines) if line == "fail 6"] == ["if N < 2:", "if N % 4 != 0:", "if M < N:"]


def test_temporaries_share_memory_when_their_lives_do_not_meet() -> None:
    head = "kernels k v1\nsize N\nin x: f32[N]\nout y: f32[N]\n" + "".join(f"temp t{i}: f32[N]\n" for i in range(3))
    kernels = "".join(
        f"\nkernel k_{i}({a}, {b}):\n  for i in 0 .. N:\n    {b}[i] = {a}[i]\n"
        for i, (a, b) in enumerate([("x", "t0"), ("t0", "t1"), ("t1", "t2"), ("t2", "y")])
    )
    program = lower(read_module(head + kernels), CPU, Options())
    calls = [line.strip() for line in show(program).split("\n") if "scratch" in line or "call" in line]
    assert calls == [
        "scratch t0: f32[N]",
        "scratch t1: f32[N]",
        "call k_0(x, t0, N)",
        "call k_0(t0, t1, N)",  # a kernel like the first
        "call k_0(t1, t0, N)",
        "call k_0(t0, y, N)",
    ]
    assert repr(program.workspace) == "(N * 4 + 63) // 64 * 64 + (N * 4 + 63) // 64 * 64"


def read_module(text: str) -> Module:
    result = read(text)
    assert isinstance(result, Module)
    return result


def test_parameters_are_what_occurs() -> None:
    program: Program = lower(module("r[0] = alpha", buffers="r"), CPU, Options())
    assert [(p.name, p.pointer, p.const) for p in program.functions[0].params] == [("r", True, False), ("alpha", False, False)]


def test_what_the_sizes_are_known_to_be_is_asked_once_and_only_where_lanes_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(*given: Any) -> Known:
        asked.append(1)
        return known_of(*given)

    monkeypatch.setattr("luminal.passes.lower.known_of", counted)
    copy = "for j in 0 .. 16 vector:\n  y[0, j] = x[0, j]"
    lowered(copy)
    assert not asked
    ways = [module(f"for j in 0 .. 16 vector:\n  y[0, j // {n} * {n} + j % {n}] = x[0, j]") for n in (2, 4, 8)]
    program = lower(ways[0].with_kernels(tuple(k for m in ways for k in m.kernels)), CPU, Options())
    assert len(program.functions) == 3 and len(asked) == 1
    assert "//" not in show(program)


def test_how_large_a_count_can_be() -> None:
    n, one = size("N"), {"N": 10**9}
    quotient = floordiv(n + 1023, const(1024))
    (*_, whole) = magnitudes(maximum(quotient, const(1)) * n)
    assert 10**18 / 1024 < evaluate(whole, one) < 10**18 / 1023


def test_a_truth_of_cheap_parts_is_no_branch() -> None:
    """What may not be evaluated, as it stands: a load that another part guards."""
    text = lowered("""
        for i in 0 .. M:
          let u: f32 = b[i]
          let v: f32 = r[i]
          let cheap: bool = where(i < 3, where(u < v, true, v != v), false)
          let guarded: bool = where(i < 3, b[i + 1] < v, false)
          y[i, 0] = where(cheap, u, v)
          y[i, 1] = where(guarded, u, v)
    """)
    assert "let cheap: bool = (cast.u8(i < 3) & (cast.u8(u < v) | cast.u8(v != v))) != 0:u8" in text
    assert "let guarded: bool = where(i < 3, b[i + 1] < v, false)" in text
