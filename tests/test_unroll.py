"""Short innermost loops say how many iterations stand side by side, and nothing else changes."""

import re
import shutil

import pytest
from luminal.ir import text
from luminal.ir.target import Options, Target
from luminal.passes.unroll import unroll

LANES = Target(runtime="clang", name="plain", describe="plain", vector_bytes=32)


def program(body: str) -> str:
    head = "program p v1\nsize N\nin X: f32[N]\nout Y: f32[N]\n\nfunction f(const f32* X, f32* Y, i64 N):\n"
    return head + "".join(f"  {line}\n" for line in body.strip("\n").split("\n")) + "\nentry:\n  call f(X, Y, N)\n"


def loops(body: str) -> list[str]:
    """The heads of the loops after the pass, which shows and reads back as it is."""
    found = unroll(text.read(program(body)), LANES, Options())
    shown = text.show(found)
    assert text.show(text.read(shown)) == shown and text.read(shown) == found
    return [line.strip(" :") for line in shown.split("\n") if line.strip().startswith("for ")]


def test_short_bodies_stand_side_by_side() -> None:
    assert loops("for i in 0 .. N step 8:\n  Y[i] = vload.8 X[i] + vload.8 Y[i]") == ["for i in 0 .. N step 8 unroll 4"]
    assert loops("for i in 0 .. N:\n  Y[i] = X[i]") == ["for i in 0 .. N unroll 8"]


@pytest.mark.parametrize(
    "body",
    [
        "for i in 0 .. N step 8:\n  Y[i, N - i] = vload.8 X[i, N - i]",  # the end of another loop
        "for i in 0 .. N:\n  while X[i] < Y[i]:\n    Y[i] = Y[i] - 1.0:f32",  # a loop inside
        "for i in 0 .. N:\n  call g(X)",  # calls
        "for i in 0 .. N parallel:\n  Y[i] = X[i]",  # says something else
    ],
)
def test_others_stay(body: str) -> None:
    assert not any("unroll" in head for head in loops(body))


def test_what_is_long_by_itself_stands_once() -> None:
    """Not what another loop leaves over, which has few iterations."""
    assert loops("for i in 0 .. N:\n  Y[i] = exp(X[i])") == ["for i in 0 .. N unroll 1"]
    assert loops("for i in 0 .. N step 8:\n  Y[i, N - i] = exp(vload.8 X[i, N - i])") == ["for i in 0 .. N step 8"]


def test_what_is_shared_by_iterations_of_a_block_is_seen_together() -> None:
    """Two vectors of a block have one scale: it is loaded once where both stand in an iteration, however long that is."""
    assert loops("for i in 0 .. N:\n  Y[i] = exp(X[i // 2])") == ["for i in 0 .. N unroll 2"]
    assert loops("for i in 0 .. N:\n  Y[i] = exp(X[i // 4 * 2 + i % 2])") == ["for i in 0 .. N unroll 4"]
    assert loops("for i in 0 .. N:\n  Y[i] = exp(X[i // 32])") == ["for i in 0 .. N unroll 1"]  # too many
    assert loops("for i in 0 .. N:\n  Y[i] = exp(X[N // 2])") == ["for i in 0 .. N unroll 1"]


def test_few_iterations_leave_no_loop() -> None:
    nest = "for i in 0 .. N:\n  var a: f32 = 0.0:f32\n  for k in 0 .. 3:\n    a = a + X[i + k]\n  Y[i] = a"
    assert loops(nest) == ["for i in 0 .. N unroll 4", "for k in 0 .. 3 unroll"]
    many = "for k in 0 .. 96:\n  Y[k] = X[k] + 1.0:f32"
    assert loops(many) == ["for k in 0 .. 96 unroll 8"]
    assert loops("for k in 0 .. 97:\n  Y[k] = X[k]") == ["for k in 0 .. 97"]


def tile(at: str, head: str = "0 .. N") -> list[str]:
    """The heads of a loop that adds to a tile of 14 vectors, each times the element of X at a place, and of the one inside."""
    body = f"array a: f32x8[14] register\nfor p in {head}:\n  let t: i64 = p * 16\n  for k in 0 .. 14 unroll:\n    a[k] = a[k] + broadcast.8(X[{at}]) * vload.8 Y[t]\nY[0] = a[0]"
    return loops(body)


def test_a_tile_stands_twice() -> None:
    assert tile("t + k") == ["for p in 0 .. N unroll 2", "for k in 0 .. 14 unroll"] == tile("p * 14 + k")
    assert tile("k * N + p", "0 .. 100") == ["for p in 0 .. 100 unroll 2", "for k in 0 .. 14 unroll"]
    assert tile("k * N + p", "0 .. 101") == ["for p in 0 .. 101 unroll 1", "for k in 0 .. 14 unroll"]


@pytest.mark.parametrize("at", ["p + k", "p * 2 + k", "k * 2 - p * 4", "t - p * 8 + k", "N - p - k % 7 + k // 7 * 56"])
def test_a_tile_that_reads_again_what_it_read_stands_once(at: str) -> None:
    assert tile(at) == ["for p in 0 .. N unroll 1", "for k in 0 .. 14 unroll"]


@pytest.mark.parametrize(
    "body",
    [
        "a[k] = a[k] + broadcast.8(X[p]) * vload.8 Y[p + k * 8]",  # vectors that overlap those of the next iteration
        "a[k] = max(a[k], vload.8 Y[p * 112 + k * 8])",  # no sum
        "a[k] = a[k] + exp(vload.8 Y[p * 112 + k * 8])",  # long by itself
    ],
)
def test_what_is_no_tile_of_products_stands_once(body: str) -> None:
    heads = loops(f"array a: f32x8[14] register\nfor p in 0 .. N:\n  for k in 0 .. 14 unroll:\n    {body}\nY[0] = a[0]")
    assert heads == ["for p in 0 .. N unroll 1", "for k in 0 .. 14 unroll"]


@pytest.mark.parametrize(("lanes", "times"), [("N", " unroll 2"), ("N - p", "")])
def test_borders_stand_twice_where_all_iterations_have_the_same_lanes(lanes: str, times: str) -> None:
    heads = loops(
        f"array a: f32x8[14] register\nfor p in 0 .. N:\n  for k in 0 .. 14 unroll:\n    a[k] = a[k] + vload.8 Y[p * 112 + k * 8, {lanes}]\nY[0] = a[0]"
    )
    assert heads == [f"for p in 0 .. N{times}", "for k in 0 .. 14 unroll"]


def test_a_tile_whose_sums_come_from_elsewhere_stays() -> None:
    for around in ("for q in 0 .. N:", "if N < 5:"):
        body = f"array a: f32x8[14] register\n{around}\n  for p in 0 .. N:\n    for k in 0 .. 14 unroll:\n      a[k] = a[k] + vload.8 Y[p * 112 + k * 8]\nY[0] = a[0]"
        assert not any("unroll 2" in head for head in loops(body))


def test_what_is_unrolled_stays_so() -> None:
    assert loops("for k in 0 .. 64 unroll:\n  Y[k] = X[k] + 1.0:f32") == ["for k in 0 .. 64 unroll"]
    assert loops("for k in 0 .. N unroll 2:\n  Y[k] = X[k]") == ["for k in 0 .. N unroll 2"]


@pytest.mark.skipif(shutil.which("clang-14") is None and shutil.which("clang") is None, reason="no clang")
def test_the_source_says_so() -> None:
    from luminal.compiler import Settings, compilations

    (compilation,) = compilations("(composite twice ((X{T}[N]) -> (Y{T}[N])) (return (* 2 X)))", Settings(target="x86-64-v3"))
    assert re.search(r"UNROLL_BY\([24]\)\n +for ", compilation.rendered.source)


def test_the_source_alone_says_that_a_tile_of_windows_stands_once() -> None:
    """Whatever the flags with which it is compiled: clang would read the taps of four iterations at once, gcc keep those of the last one."""
    from luminal.compiler import Settings, compilations

    (compilation,) = compilations("conv2d", Settings(target="x86-64-v3"))
    source = compilation.rendered.source
    assert re.search(r"UNROLL_BY\(1\)\n +for \(int64_t \w+ = 0; \w+ < S; ", source)
    assert 0 < source.find('#pragma GCC optimize("no-predictive-commoning", ') < source.find("static ")
