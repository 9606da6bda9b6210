"""Square blocks turned over in registers: the same elements as before, through the interpreter and as C, and left alone where that would be wrong."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.bounds import Known
from luminal.ir.dtypes import f32, u8, u32
from luminal.ir.expr import ZERO, broadcast, call, const, gather, ramp, var
from luminal.ir.interpret.program import zip_halves
from luminal.ir.kernel import If, Prefetch, statements as kernel_statements
from luminal.ir.program import For, StoreTo, statements
from luminal.ir.record import replace
from luminal.ir.simplify import simplify
from luminal.ir.text.expressions import show_expr
from luminal.ir.walks import postorder, substitute
from luminal.passes.lower.names import Names
from luminal.passes.lower.transposes import transposes
from test_chunks import WIDE, planned

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 3
N = 16
BASE = var("b")
SHAPES = [(0, 5), (1, 1), (16, 16), (15, 17), (33, 50), (64, 48), (100, 31)]
TILES = [(33, 1025), (1057, 18), (31, 1023), (300, 1040), (270, 130), (140, 260)]  # around the borders of tiles, compiled only
TEXT = """
(composite turned ((X{T}[M N] Z{T}[N M] U{T}[M 3 N]) -> (A{T}[N M] B{T}[N M] C{T}[N 3 M]))
  (return (transpose X) (max (transpose X) Z) (transpose U (2 1 0))))
"""


def block(value, body=(), stop=N):
    return (For("i", ZERO, const(stop), (StoreTo("Y", var("i") * 7, value), *body)),)


def taken(growth, base=BASE):
    """Element `b + i + growth·lane` of X."""
    return gather("X", f32, call("add", broadcast(base + var("i"), N), call("mul", broadcast(growth, N), ramp(N))))


def forms(block_):
    return {n.op for s in statements(block_) for n in postorder(*s.expressions())}


def test_a_block_is_loaded_along_the_outer_loop():
    found = forms(transposes(block(taken(var("stride"))), Names()))
    assert "gather" not in found and {"vload", "zip_low", "zip_high"} <= found


NOTHING = broadcast(const(0.0, f32), N)
THERE = var("there").lt(var("end"))


def test_what_is_loaded_under_a_condition_that_no_trip_changes_is_loaded_under_it():
    found = transposes(block(call("where", THERE, taken(var("stride")), NOTHING)), Names())
    assert "gather" not in forms(found)
    (filled,) = [s for s in statements(found) if isinstance(s, StoreTo) and "vload" in {n.op for n in postorder(s.value)}]
    assert filled.value.op == "where" and filled.value.args[0] is THERE


def test_what_is_needed_in_any_case_is_loaded_in_any_case():
    found = transposes(block(call("add", taken(var("stride")), call("where", THERE, taken(var("stride")), NOTHING))), Names())
    (filled,) = [s for s in statements(found) if isinstance(s, StoreTo) and "vload" in {n.op for n in postorder(s.value)}]
    assert "gather" not in forms(found) and filled.value.op == "vload"


def test_what_both_sides_of_a_choice_need_is_loaded_in_any_case():
    """The first block of a reduction stores its sums, the others add them to what is there."""
    more = call("add", broadcast(const(1.0, f32), N), taken(var("stride")))
    found = transposes(block(call("where", THERE, taken(var("stride")), more)), Names())
    (filled,) = [s for s in statements(found) if isinstance(s, StoreTo) and "vload" in {n.op for n in postorder(s.value)}]
    assert "gather" not in forms(found) and filled.value.op == "vload"


def test_what_is_needed_where_a_condition_does_not_hold_too_is_left_alone():
    """As a part of another choice there, zeros would be read in its place."""
    rows = taken(var("stride"))
    inside = call("where", var("one").lt(var("two")), rows, NOTHING)
    found = transposes(block(call("where", THERE, rows, inside)), Names())
    assert "gather" in forms(found)


def test_lanes_before_the_first_that_is_there_repeat_a_row():
    lane = call("max", call("min", ramp(N), broadcast(const(13), N)), broadcast(const(2), N))
    rows = gather("X", f32, call("add", broadcast(var("i"), N), call("mul", broadcast(const(100), N), lane)))
    found = transposes(block(call("where", call("less_than", broadcast(const(1), N), ramp(N)), rows, NOTHING)), Names())
    (load,) = {n for s in statements(found) for e in s.expressions() for n in postorder(e) if n.op == "vload"}
    places = [simplify(substitute(load.args[0], {var("k"): const(k)}), Known({})).attr for k in range(N)]
    assert places == [200, 200, *range(200, 1400, 100), 1300, 1300]


def word(parts):
    """Bytes b + 4i + k + stride·lane of X, put together as words."""
    lane = call("mul", broadcast(var("stride"), N), call("min", ramp(N), broadcast(const(13), N)))
    bytes_ = [gather("X", u8, call("add", broadcast(BASE + var("i") * 4 + k, N), lane)) for k in parts]
    bits = [call("cast", b, to=u32.vector(N)) for b in bytes_]
    shifted = [call("shift_left", b, broadcast(const(8 * k, u32), N)) if k else b for k, b in enumerate(bits)]
    return call("bit_or", call("bit_or", call("bit_or", shifted[0], shifted[1]), shifted[2]), shifted[3])


def test_words_of_neighbours_are_loaded_as_such_and_lanes_that_nobody_asks_for_repeat_a_row():
    found = transposes(block(word(range(4))), Names())
    loads = [n for s in statements(found) for e in s.expressions() for n in postorder(e) if n.op == "vload"]
    assert [n.dtype for n in loads] == [u8.vector(4 * N)] and "gather" not in forms(found)
    rows = [substitute(loads[0].args[0], {var("k"): const(k), BASE: ZERO, var("stride"): const(100)}) for k in range(N)]
    assert [simplify(r, Known({})).attr for r in rows] == [*range(0, 1400, 100), 1300, 1300]


def parts_of_neighbours(*parts):
    """Elements b + 2i + part + stride·lane of X, added up."""
    total = taken(var("stride"), BASE + var("i") + parts[0])
    for part in parts[1:]:
        total = call("add", total, taken(var("stride"), BASE + var("i") + part))
    return total


def test_rows_of_neighbours_that_are_taken_together_are_two_squares():
    """As both parts of complex numbers: 16 rows of 32 elements, in halves that are turned over one after the other."""
    found = transposes(block(parts_of_neighbours(0, 1)), Names())
    assert "gather" not in forms(found)
    loads = [n for s in statements(found) for e in s.expressions() for n in postorder(e) if n.op == "vload"]
    zeros = {var("k"): ZERO, var("k_2"): ZERO, BASE: ZERO}
    assert [simplify(substitute(n.args[0], zeros), Known({})).attr for n in loads] == [0, N]
    results = [s for s in found if isinstance(s, For) and s.var == "i"]
    assert [s.stop.attr for s in results] == [N // 2, N // 2]
    places = [
        [simplify(substitute(n.args[0], {var("i"): const(N // 2 - 1)}), Known({})).attr for n in postorder(s.body[0].value) if n.op == "load"]
        for s in results
    ]
    assert places == [[N - 2, N - 1], [N - 2, N - 1]]


@pytest.mark.parametrize(
    "loop",
    {
        "one of two neighbours": block(parts_of_neighbours(0)),
        "parts of a word that are not neighbours": block(word((0, 1, 3, 2))),
        "the stride changes": block(taken(var("i"))),
        "two elements a trip": block(taken(var("stride"), var("i") + var("b"))),
        "not as many trips as lanes": block(taken(var("stride")), stop=8),
        "the buffer is written": block(taken(var("stride")), (StoreTo("X", var("i"), const(0.0, f32)),)),
        "trips differ in whether they load": block(call("where", var("i").lt(var("end")), taken(var("stride")), NOTHING)),
        "a loop inside": block(taken(var("stride")), (For("j", ZERO, const(2), ()),)),
    }.items(),
    ids=lambda c: c[0],
)
def test_what_is_left_alone(loop):
    assert transposes(loop[1], Names()) == loop[1]


def test_zipping_log_n_times_transposes():
    rows = list(np.arange(8 * 8).reshape(8, 8))
    for _ in range(3):
        rows = [zip_halves(rows[k // 2], rows[k // 2 + 4], k % 2 == 1) for k in range(8)]
    assert np.array_equal(rows, np.arange(64).reshape(8, 8).T)


def run(dtype, runtime, **options):
    f = luminal.compile(TEXT, dtype={"T": dtype}, runtime=runtime, **options)
    kind = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "u16": np.uint16, "bool": bool}[dtype]
    for m, n in SHAPES if runtime == "reference" else SHAPES + TILES:
        rng = np.random.default_rng(SEED)
        x, z, u = (rng.integers(0, 2 if dtype == "bool" else 90, shape).astype(kind) for shape in ((m, n), (n, m), (m, 3, n)))
        for found, expected in zip(f(x, z, u), (x.T, np.maximum(x.T, z), u.transpose(2, 1, 0)), strict=True):
            np.testing.assert_array_equal(found, expected, err_msg=f"{dtype} {m}×{n}, seed {SEED}")
    return f


@pytest.mark.parametrize("dtype", ["f32", "i8"])
def test_the_interpreter_gives_the_same(dtype):
    run(dtype, "reference")


@needs_cc
@pytest.mark.parametrize("dtype", ["f32", "f64", "i8", "u16", "bool"])
def test_as_c(dtype):
    run(dtype, "clang")


@needs_cc
@pytest.mark.parametrize("bytes_", [16, 32])
def test_narrow_vectors(bytes_):
    run("f32", "clang", config={"VECTOR": bytes_})


PACKED = """
(composite both ((A{T}[K M] B{T}[N K]) -> (C{T}[M N])) (return (einsum "ki,jk->ij" A B)))
(composite rows ((A{i8}[M K] B{i8}[N K]) -> (C{i32}[M N])) (return (einsum "ik,jk->ij" (cast i32 A) (cast i32 B))))
"""
PANELS = [(0, 3, 4), (3, 0, 4), (130, 1, 97), (257, 33, 300), (113, 513, 98)]  # around the borders of register tiles, of squares and of words


@needs_cc
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
def test_panels_are_turned_over_while_they_are_packed(target):
    both, rows = (luminal.compile(PACKED, entry=name, target=target) for name in ("both", "rows"))
    assert "turned" in both.source
    for m, k, n in PANELS:
        rng = np.random.default_rng(SEED)
        a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (n, k)))
        np.testing.assert_array_equal(rows(a, b), a.astype(np.int32) @ b.T.astype(np.int32), err_msg=f"{m}×{k}×{n}, seed {SEED}")
        a, b = (x.astype(np.float32) % 5 for x in (a, b))
        np.testing.assert_array_equal(both(a.T.copy(), b), a @ b.T, err_msg=f"{m}×{k}×{n}, seed {SEED}")


@needs_cc
def test_the_rest_of_a_row_is_turned_over_too():
    """Of rows of 28 elements the last 12 are a block that stores its first lanes, not 12 times 16 elements one by one."""
    text = "(composite first ((X{T}[H W C]) -> (Y{T}[C H W])) (return (transpose X (2 0 1))))"
    f = luminal.compile(text, target="x86-64-v4", runtime="clang")
    assert "turned_2[" in f.source and "store_first" in f.source
    for shape in ((28, 28, 64), (3, 15, 33), (2, 1, 16), (1, 31, 48)):
        x = np.random.default_rng(SEED).standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(f(x), x.transpose(2, 0, 1), err_msg=f"{shape}")


@needs_cc
def test_squares_of_half_a_line_make_lines_of_both():
    """AVX2: four squares of 8 × 8 one after the other are 16 × 16, stored past the caches in halves of 8 lines at once, and the first of two vectors of a line asks for the next."""
    (found,) = compilations("transpose", Settings(runtime="clang", target="x86-64-v3"))
    (kernel,) = found.module.kernels
    squares = list(kernel.schedule[max(k for k, line in enumerate(kernel.schedule) if line.startswith("split j.1 16")) :])
    order = ["split k.1 16", "reorder j.1.0 k.1.0 j.1.1 k.1.1", "split j.1.1 8 tail=pad", "split k.1.1 8 tail=clamp"]
    assert [line for line in squares if line in order] == order
    assert any(line.startswith("stream_store Y") for line in squares)
    assert any(
        isinstance(s, If) and "% 2 == 0" in show_expr(s.condition) and any(isinstance(x, Prefetch) for x in kernel_statements(s.body))
        for s in kernel_statements(kernel.body)
    )
    f = luminal.compile("transpose", target="x86-64-v3", runtime="clang")
    for shape in ((1024, 2048), (1040, 2064), (1031, 2049)):
        x = np.random.default_rng(SEED).standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(f(x), x.T, err_msg=f"{shape}, seed {SEED}")


@needs_cc
@pytest.mark.parametrize("shape", [(1040, 1024), (1072, 1040), (2, 528, 1024)])
def test_what_is_large_is_read_and_stored_in_whole_lines(shape):
    """Wherever either begins: what is before the first line and after the last one is turned over in blocks as well."""
    axes = ("A B", "B A") if len(shape) == 2 else ("L A B", "L B A")
    order = (1, 0) if len(shape) == 2 else (0, 2, 1)
    text = f"(composite swapped ((X{{f32}}[{axes[0]}]) -> (Y{{f32}}[{axes[1]}])) (return (transpose X ({' '.join(map(str, order))}))))"
    f = luminal.compile(text, target="x86-64-v4", runtime="clang")
    assert "(uintptr_t)X & 63" in f.source and "(uintptr_t)Y & 63" in f.source
    count = int(np.prod(shape))
    rooms = [np.full(count + 32, 7, np.float32) for _ in range(2)]
    values = np.random.default_rng(SEED).standard_normal(shape).astype(np.float32)
    for read, stored in ((0, 0), (4, 4), (1, 15), (15, 2)):
        x, y = (room[-room.ctypes.data % 64 // 4 + past :][:count] for room, past in zip(rooms, (read, stored), strict=True))
        x[...] = values.ravel()
        f(x.reshape(shape), Y=y.reshape(values.transpose(order).shape))
        np.testing.assert_array_equal(
            y.reshape(values.transpose(order).shape), values.transpose(order), err_msg=f"{shape}, {read} and {stored} floats past a line, seed {SEED}"
        )


@needs_cc
def test_what_descends_is_turned_over_too():
    """A rotation: its axis is run from its end."""
    f = luminal.compile("rot90", target="x86-64-v3", runtime="clang")
    assert "gather" not in f.source
    for shape in ((1, 1), (3, 200), (200, 3), (70, 133), (2, 66, 72)):
        x = np.random.default_rng(SEED).standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(f(x), np.rot90(x, axes=(-2, -1)), err_msg=f"{shape}, seed {SEED}")


@pytest.mark.parametrize(("dtype", "near", "far"), [("f32", 2048, 512), ("f64", 1024, 256), ("bf16", 4096, 1024)])
def test_machines_with_a_wide_first_cache_turn_over_as_many_rows_as_they_follow(dtype: str, near: int, far: int) -> None:
    """Tiles of 32 rows that are read, whatever their elements, and of 128 lines of each; others of 4 lines by 32.  Where rows begin anywhere a line more is read, which of small elements is as much again."""
    text = f"(composite turned ((X{{{dtype}}}[M N]) -> (Y{{{dtype}}}[N M])) (return (transpose X)))"
    line = far // 32
    for target, along, rows in ((WIDE, near, 32), (replace(WIDE, l1=32 << 10), far, 4 * line)):
        steps = planned(text, target).schedule
        assert f"share i {along} whole={line}" in steps and f"split j {rows}" in steps, steps
    (tiles,) = (line for line in planned(text).schedule if line.startswith("line_tiles "))
    assert tiles == ("line_tiles j 128 Y" if dtype == "bf16" else "line_tiles j 32 Y")


def test_one_line_at_a_time_is_stored_where_it_is_one_vector() -> None:
    text = "(composite turned ((X{bf16}[M N]) -> (Y{bf16}[N M])) (return (transpose X)))"
    assert "share i 4096 whole=32" in planned(text).schedule
    assert "share i 1024 whole=32" in planned(text, replace(WIDE, vector_bytes=32, vector_registers=16)).schedule


STAYING = """
(composite lanes ((X{f32}[R N]) -> (Y{f32}[R N]))
  (dotimes (b (floordiv (+ R 15) 16))
    (make-array side f32 (N 16))
    (dotimes (i N)
      (dotimes (w (min 16 (- R (* 16 b))))
        (setf (aref side i w) (aref X (+ (* 16 b) w) i))))
    (set d 1)
    (while (< d N) ; sums of all before
      (loop (i (- N 1) (- d 1) -1)
        (dotimes (w 16)
          (incf (aref side i w) (aref side (- i d) w))))
      (set d (* 2 d)))
    (dotimes (w (min 16 (- R (* 16 b))))
      (dotimes (i N)
        (setf (aref Y (+ (* 16 b) w) i) (aref side i w))))))
"""


@needs_cc
@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_copies_in_loops_that_stay_are_turned_over_too(target: str) -> None:
    """Rows that are laid into lanes, and lanes that are laid into rows, around what nobody can raise."""
    f = luminal.compile(STAYING, target=target)
    assert f.source.count("zip_low") > 2 and "gather_" not in f.source
    for shape in ((1, 1), (16, 16), (17, 40), (35, 9)) if target == "x86-64-v3" else ():
        x = np.random.default_rng(SEED).integers(-9, 9, shape).astype(np.float32)
        np.testing.assert_array_equal(f(x), np.cumsum(x, axis=1), err_msg=f"{shape}, seed {SEED}")


COMPLEX = """
(composite both ((A{c64}[~ M N] Z{c64}[~ N M]) -> (B{c64}[~ N M] C{c64}[~ M N]))
  (return (conj (einsum "...ij->...ji" A)) (* 2 (conj (einsum "...ij->...ji" Z)))))
"""


@needs_cc
@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_complex_numbers_are_turned_over_in_squares_of_pairs(target: str) -> None:
    f = luminal.compile(COMPLEX, target=target, runtime="clang")
    assert f.source.count("turned[k") > 2
    if target == "x86-64-v4":  # what is left over is a block too
        assert "block_3[" in f.source and "gather_f32x16(A" not in f.source
    for batch, *shape in ((1, 1, 1), (3, 16, 16), (2, 33, 15), (1, 100, 40), (2, 8, 70), (1, 1030, 37), (2, 66, 200)):
        rng = np.random.default_rng(SEED)
        a, z = ((rng.standard_normal(s) + 1j * rng.standard_normal(s)).astype(np.complex64) for s in ((batch, *shape), (batch, *shape[::-1])))
        for found, expected in zip(f(a, z), (a.swapaxes(1, 2).conj(), 2 * z.swapaxes(1, 2).conj()), strict=True):
            np.testing.assert_array_equal(found, expected, err_msg=f"{batch} × {shape}, seed {SEED}")


@pytest.mark.parametrize("shape", [(1, 5, 3), (2, 17, 33), (1, 32, 16)])
def test_complex_numbers_through_the_interpreter(shape: tuple[int, ...]) -> None:
    f = luminal.compile("adjoint", runtime="reference")
    a = np.random.default_rng(SEED).standard_normal((*shape, 2)).astype(np.float32).view(np.complex64)[..., 0]
    np.testing.assert_array_equal(f(a), a.swapaxes(1, 2).conj())
