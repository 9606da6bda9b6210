"""A loop that begins at a line of the cache stores the same wherever the memory begins, and rows that go together are summed as they are alone."""

from __future__ import annotations

import re

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.evaluate import evaluate
from luminal.ir.expr import to_line
from luminal.ir.kernel import If, Let, Loop, Store, statements
from luminal.ir.walks import postorder
from luminal.passes.schedule.tree import walk_paths

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 20
TEXT = """
[composite]
name = "{name}"
inputs = ["X{{f32}}[M N]"]
outputs = ["Y{{f32}}{shape}"]
[implementation]
code = "{code}"
[schedule.clang]
steps = '''
{steps}
stream_store Y
'''
"""
ROWS = "align j Y\nsplit j.h 16 tail=pad\nvectorize j.h.1\nsplit j 16 tail=cut\nvectorize j.1"
TURNED = """reorder j i
align j Y
reorder i.b j.h
reorder i j
tile i j 32 16
split i.1 16 tail=cut
reorder j.1 i.1.1
split j.1 16 tail=cut
reorder i.1.1 j.1.1
unroll i.1.1
vectorize j.1.1
prefetch X j.1.0 i.1.0 trips=2"""
READ_IN_LINES = """reorder j i
align j Y
reorder i.b j.h
reorder i j
align i X trips=33
tile i j 32 16
split i.1 16 tail=pad
reorder j.1 i.1.1
split j.1 16 tail=clamp
reorder i.1.1 j.1.1
unroll i.1.1
vectorize j.1.1
split i.h 16 tail=pad
reorder j.b i.h.1
split j.b 16 tail=clamp
reorder i.h.1 j.b.1
unroll i.h.1
vectorize j.b.1
reorder j.b.0 i.h.0
collapse j.b.0 i.h.0 named=1
parallel i.b
parallel j.b.0_i.h.0
parallel i.0"""
IN_LINES = """split i 32
line_tiles j 32 Y
reorder j.0 i.1
split i.1 16
stage X i.1.1 j.1 at=i.1.0 space=stack
even i.1.1 j.1
align j.1.b Y
split j.1.b.h 16 tail=pad
vectorize j.1.b.h.1
split j.1.b 16 tail=cut
vectorize j.1.b.1
split j.1.b.t 16 tail=pad
vectorize j.1.b.t.1
split j.1 16 tail=perfect
vectorize j.1.1
collapse i.0 j.0 named=1
parallel i.0_j.0"""
IN_RUNS = """split i 16
stage X i.1 j at=i.0 exact=j
collapse i.1 j
align i.1_j Y
split i.1_j.h 16 tail=pad
vectorize i.1_j.h.1
split i.1_j 16 tail=cut
vectorize i.1_j.1
split i.1_j.t 16 tail=pad
vectorize i.1_j.t.1
parallel i.0
region"""
FLAT = """collapse i j
align i_j Y
split i_j.h 16 tail=pad
vectorize i_j.h.1
split i_j 16 tail=cut
vectorize i_j.1
split i_j.t 16 tail=pad
vectorize i_j.t.1"""
IN_TURN = """collapse i j
align i_j Y
split i_j.h 16 tail=pad
vectorize i_j.h.1
split i_j 64 tail=cut
hold i_j.1 sqrt 0
expand i_j.1.sqrt i_j.1
fission i_j.1
split i_j.1 16 tail=perfect
vectorize i_j.1.1
split i_j.1.b 16 tail=perfect
vectorize i_j.1.b.1"""
FORMS = {
    "doubled": (TEXT.format(name="doubled", shape="[M N]", code="(return (* 2 X))", steps=ROWS), lambda x: 2 * x),
    "flat": (TEXT.format(name="flat", shape="[M N]", code="(return (* 2 X))", steps=FLAT), lambda x: 2 * x),
    "in_turn": (TEXT.format(name="in_turn", shape="[M N]", code="(return (/ (sqrt (abs X)) 4))", steps=IN_TURN), lambda x: np.sqrt(np.abs(x)) / 4),
    "in_lines": (TEXT.format(name="in_lines", shape="[N M]", code="(return (transpose X))", steps=IN_LINES), np.transpose),
    "in_runs": (TEXT.format(name="in_runs", shape="[N M]", code="(return (transpose X))", steps=IN_RUNS), np.transpose),
    "read_in_lines": (TEXT.format(name="read_in_lines", shape="[N M]", code="(return (transpose X))", steps=READ_IN_LINES), np.transpose),
    "turned": (TEXT.format(name="turned", shape="[N M]", code="(return (transpose X))", steps=TURNED), np.transpose),
}


def placed(shape: tuple[int, ...], offset: int) -> tuple[np.ndarray, np.ndarray]:
    """An array that begins so many floats past a line, and the room that it stands in."""
    count = int(np.prod(shape))
    room = np.full(count + 48, 7, np.float32)
    begin = -room.ctypes.data % 64 // 4 + offset
    return room[begin : begin + count].reshape(shape), room


@needs_cc
@pytest.mark.parametrize("name", FORMS)
def test_wherever_the_memory_begins(name: str) -> None:
    text, expected = FORMS[name]
    f = luminal.compile(text, runtime="clang", target="native")
    assert "(uintptr_t)Y & 63" in f.source
    rng = np.random.default_rng(SEED)
    for m, n in [(1, 1), (3, 15), (5, 16), (17, 33), (40, 70), (64, 48), (130, 37)]:
        values = rng.standard_normal((m, n)).astype(np.float32)
        for offset in range(16):
            x, _ = placed((m, n), offset * 7 % 16)
            x[...] = values
            y, room = placed(expected(x).shape, offset)
            f(x, Y=y)
            np.testing.assert_array_equal(y, expected(x), err_msg=f"{m}×{n}, {offset} floats past a line, seed {SEED}")
            y[...] = 7
            assert (room == 7).all(), f"{m}×{n}, {offset} floats past a line: stored outside"


@pytest.mark.parametrize("value", ["(exp X)", "(/ (exp (sin (+ (* 2 X) 1))) 2)"])
def test_what_is_consecutive_over_all_axes_begins_at_a_line(value: str) -> None:
    f = luminal.compile(f"(composite flat ((X{{f32}}[M N]) -> (Y{{f32}}[M N])) (return {value}))", runtime="clang", target="x86-64-v3")
    assert "(uintptr_t)Y & 63" in f.source


@needs_cc
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
def test_rows_that_go_together_are_summed_as_alone(target: str) -> None:
    f = luminal.compile("(composite matvec ((A{f32}[M N] x{f32}[N]) -> (y{f32}[M])) (return (matmul A x)))", runtime="clang", target=target)
    rng = np.random.default_rng(SEED)
    for m, n in [(1, 1), (3, 64), (4, 65), (7, 200), (9, 1000)]:
        a, x = rng.standard_normal((m, n)).astype(np.float32), rng.standard_normal(n).astype(np.float32)
        np.testing.assert_allclose(f(a, x), a.astype(float) @ x, rtol=1e-4, atol=1e-4, err_msg=f"{m}×{n}, seed {SEED}")
        same = f(np.repeat(a[:1], m, axis=0), x)
        assert (same == same[0]).all(), f"{m}×{n}: a row's sum depends on where it stands"


def test_the_next_long_row_comes_no_nearer_than_the_second_cache() -> None:
    """In the first it would take the place of the row that is worked on; rows of which several are there at once come to it."""
    f = luminal.compile("softmax", runtime="clang", target="x86-64-v3")
    hints = [line.strip().removesuffix(";") for line in f.source.splitlines() if "__builtin_prefetch" in line and ")X + " in line]
    near, far = [h for h in hints if not h.endswith(", 0, 2)")], [h for h in hints if h.endswith(", 0, 2)")]
    assert far
    assert near


def test_rows_that_take_turns_go_past_the_caches_in_whole_lines() -> None:
    """Half a line now and half later would go to memory twice: a transposition of 4100² took 13 times as long as one of 4096².  Rows that begin anywhere are cut where lines do."""

    def source(shape: str, code: str = "(transpose X)", out: str = "") -> str:
        text = f"(composite turned ((X{{f32}}[{shape}]) -> (Y{{f32}}[{out or ' '.join(reversed(shape.split()))}])) (return {code}))"
        return luminal.compile(text, runtime="clang", target="x86-64-v4").source

    assert "stream_f32x16(&" in source("4096 4096") and "stream_f32x16(&" in source("4096 5001")
    assert "stream_f32x16(&" in source("4100 4100") and "(uintptr_t)Y & 63" in source("4100 4100")
    assert "stream_f32x16(&" in source("100 400000")  # short rows as one
    assert "stream_f32x16(&" not in source("10 4000000")
    found = sorted({line.rsplit(", ", 1)[1] for line in source("M N").splitlines() if " stream_f32x16(&" in line})
    copies = [c for c in found if c.endswith((" <= M);", " <= N);"))]  # around an axis of one element
    whole, turns = [c for c in found if c not in copies]
    assert len(copies) == 2
    assert whole == "1);"  # runs, and tiles of whole lines, which are for nothing else
    assert " == 0" in turns
    short = luminal.compile(
        "(composite turned ((X{bf16}[8 4000000]) -> (Y{bf16}[4000000 8])) (return (transpose X)))", runtime="clang", target="x86-64-v4"
    ).source
    assert "stream_bf16" not in short  # a part of a line of a row at a time
    assert "stream_f32x16(&" in source("4096 5001", "(exp X)", "4096 5001")  # each row from one end to the other


def test_what_is_asked_for_is_a_distance_from_where_the_buffer_begins() -> None:
    """A number that becomes a pointer in a loop is counted on its own, line by line (clang), a distance where the loop counts anyway."""
    f = luminal.compile("attention", runtime="clang", target="x86-64-v4")
    assert f.source.count("__builtin_prefetch(") > 10
    assert f.source.count("__builtin_prefetch(") == len(
        re.findall(r"__builtin_prefetch\(\(const char \*\)\(uintptr_t\)\w+ \+ \(.*\) \* 4(?:, [01], [1-3])?\);", f.source)
    )


def test_a_small_first_cache_is_asked_for_nothing_that_several_rows_read() -> None:
    """What comes from memory comes to the second cache, and what the caches hold is not asked for."""
    text = "(composite vecmat ((x{f32}[K] B{f32}[K N]) -> (y{f32}[N])) (return (matmul x B)))"
    for source in ("(composite matvec ((A{f32}[M N] x{f32}[N]) -> (y{f32}[M])) (return (matmul A x)))", text):
        f = luminal.compile(source, runtime="clang", target="x86-64-v3")
        hints = [line for line in f.source.splitlines() if "__builtin_prefetch" in line]
        assert hints and all(line.endswith("0, 2);") for line in hints)


OF_ROWS = {
    "a bias": "(composite c ((X{f32}[M N] B{f32}[N]) -> (Y{f32}[M N])) (return (+ X B)))",
    "a norm": "(composite c ((X{f32}[M N]) -> (Y{f32}[M N])) (return (/ X (sqrt (sum (* X X) :axis 1 :keepdims t)))))",
    "a softmax": "(composite c ((X{f32}[M N]) -> (Y{f32}[M N])) (return (softmax X :axis 1)))",
    "results in turn": "(composite c ((X{f32}[M N] W{f32}[M N]) -> (Y{f32}[M N 2])) (return (stack X W :axis 2)))",
}


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("name", OF_ROWS)
def test_a_part_of_a_line_goes_past_the_caches_beside_the_rest_of_it_or_not_at_all(name: str, target: str) -> None:
    """Of a row that ends within a line, what is less than a vector is stored through the caches; half a line that went past them beside it took a hundred times as long (the portable target, rows of 30 floats)."""
    (found,) = compilations(OF_ROWS[name], Settings(runtime="clang", target=target))
    streamed = 0
    for s, path in walk_paths(found.module.kernels[-1].body):
        if not isinstance(s, Store) or s.buffer != "Y" or s.stream is None:
            continue
        if any(isinstance(p, If) and p.condition.op == "equal" and any(s is t for t in statements(p.body)) for p in path):
            continue  # rows of one element are one long row
        vector = path[-1] if isinstance(path[-1], Loop) else path[-2]
        if not isinstance(vector, Loop) or vector.kind != "vector":
            continue  # a scalar is stored through the caches whatever is asked
        streamed += 1
        aligned = any(isinstance(t, Let) and to_line("Y") in postorder(t.value) for t in statements(found.module.kernels[-1].body))
        sizes = {"M": 10**6, "N": 30}
        if aligned:
            assert (vector.stop.attr * 4) % 64 == 0
        else:
            assert not evaluate(s.stream, sizes) and evaluate(s.stream, sizes | {"N": 64})
    assert streamed


@pytest.mark.parametrize(("size", "cut"), [("16", False), ("48", False), ("20", False), ("100", True), ("128", False), ("200", True), ("1000", True)])
def test_short_rows_are_not_cut_at_lines(size: str, cut: bool) -> None:
    """Each would have two ends and little between them: windows of 16 floats took 66 ms where they take 2.4."""
    (c,) = compilations(
        f"(composite windows ((X{{f32}}[N](where N >= {size})) -> (Y{{f32}}[(- N {int(size) - 1}) {size}])) (return (unfold X :size {size} :step 1 :axis 0)))",
        Settings(),
    )
    (kernel,) = c.run(stop_after="schedule").kernels
    assert any(line.startswith("align") for line in kernel.schedule) == cut


def test_rows_of_any_length_are_cut_at_lines_where_they_have_some() -> None:
    f = luminal.compile("softmax", runtime="clang", target="x86-64-v3")
    assert "64 <= N ? (int64_t)((-(uintptr_t)Y & 63) / 4) - N * i : 0" in f.source


def test_rows_that_are_known_to_have_lines_are_not_asked() -> None:
    """Shorter ones are worked off in another way."""
    f = luminal.compile("(composite moved ((X{f32}[M N] b{f32}[N]) -> (Y{f32}[M N])) (return (+ X b)))", runtime="clang", target="x86-64-v3")
    assert "if (N <= 64) {" in f.source
    assert "64 <= N" not in next(line for line in f.source.splitlines() if "(uintptr_t)Y & 63" in line)
