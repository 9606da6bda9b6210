"""Products of neighbours by one instruction: what it means, the steps that bring it in, and the C that comes out, with the instruction and with its portable body."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.ir.dtypes import DTYPES, bf16, f32, i32, numpy_dtype, u32
from luminal.ir.evaluate import evaluate
from luminal.ir.expr import const, make, var
from luminal.ir.instructions import INSTRUCTIONS
from luminal.ir.interpret.kernel import run
from luminal.ir.kernel import Module
from luminal.ir.record import replace
from luminal.ir.target import Options
from luminal.ir.text import read, show
from luminal.passes.schedule import Facts, StepError, replay, schedule, unique
from luminal.passes.schedule.steps.variants import condition
from luminal.runtimes.clang.driver import Driver
from scheduling import BYTES, CPU, FLOATS
from small_attention import scores_agree

pytestmark = pytest.mark.usefixtures("plain_c")

TILED = "dot p dot2_bf16\nsplit i 2 tail=pad\nsplit j 4 tail=pad\nreorder i.0 j.0 i.1 j.1\nexpand acc i.1 j.1\nfission i.1 j.1\nreorder p i.1.b j.1.b\nsplit i.0 2\nreorder i.0.0 j.0 i.0.1\nstage B j.0 p j.1.b\nstage A i.0.1 p i.1.b at=i.0.0"


def module(text: str) -> Module:
    found = read(text)
    assert isinstance(found, Module)
    return found


def scheduled(text: str, script: str, strict: bool = False) -> Module:
    before = module(text)
    after = before.with_kernels((replay(unique(before.kernels[0]), Facts.of(before, strict), script),))
    assert read(show(after)) == after
    return after


# ---- what the instructions mean


def test_integers_wrap() -> None:
    row = INSTRUCTIONS["dot4_u8_i8"]
    a, b = (np.array(x).view(np.uint32) for x in (np.array([255, 1, 2, 3], np.uint8), np.array([-128, 127, 0, -1], np.int8)))
    assert row.meaning(np.array([5], np.int32), a, b) == [5 - 255 * 128 + 127 - 3]
    assert row.meaning(np.int32(-(2**31)), a[0], b[0]) == 2**31 - 255 * 128 + 124


def test_small_floats_are_lost_below_the_bound_only() -> None:
    row = INSTRUCTIONS["dot2_bf16"]
    words = {x: np.array([x, 0], numpy_dtype(bf16)).view(np.uint32)[0] for x in (2.0**-56, 2.0**-100, 2.0**-130, 1.0)}
    assert words[2.0**-56] == row.least
    assert row.meaning(np.float32(0), words[2.0**-56], words[2.0**-56]) == 2.0**-112
    assert row.meaning(np.float32(0), words[2.0**-100], words[2.0**-100]) == 0
    assert row.meaning(np.float32(0), words[2.0**-130], words[1.0]) == 0


@pytest.mark.parametrize("seed", range(3))
def test_what_the_screen_lets_through_is_exact(seed: int) -> None:
    """From `least` on the sums of products are those of float32 with denormals, however they cancel."""
    rng = np.random.default_rng(seed)
    row = INSTRUCTIONS["dot2_bf16"]
    bits = rng.integers(row.least, row.least + 0x300, (2, 4096), dtype=np.uint16) | rng.integers(0, 2, (2, 4096), dtype=np.uint16) << np.uint16(15)
    bits[rng.random(bits.shape) < 0.2] = 0
    x, y = bits.view(numpy_dtype(bf16)).astype(np.float64)
    flushed = kept = np.zeros(2048, np.float32)
    a, b = bits[0].view(np.uint32), bits[1].view(np.uint32)
    for _ in range(4):
        flushed = row.meaning(flushed, a, b)
        kept = (kept + x[0::2] * y[0::2] + x[1::2] * y[1::2]).astype(np.float32)
        assert (flushed == kept).all()
        b = b ^ np.uint32(0x80008000 if rng.random() < 0.5 else 0x80000000)
        y = b.view(np.uint16).view(numpy_dtype(bf16)).astype(np.float64)


# ---- the steps


@pytest.mark.parametrize("k", [0, 1, 3, 4, 9, 21])
@pytest.mark.parametrize(
    "script",
    [
        "dot p dot4_i8",
        "offset p A\ndot p dot4_u8_i8",
        "offset p B\nsplit p 8\ndot p.1 dot4_u8_i8",
        "offset p B\ndot p dot4_u8_i8\nsplit i 2 tail=pad",
    ],
)
def test_integers_stay_as_they_are(script: str, k: int) -> None:
    rng = np.random.default_rng(k)
    a, b = rng.integers(-128, 128, (3, k)).astype(np.int8), rng.integers(-128, 128, (k, 5)).astype(np.int8)
    c = np.zeros((3, 5), np.int32)
    assert run(scheduled(BYTES, script), {"A": a, "B": b, "C": c}, {"M": 3, "N": 5, "K": k}, check=True) == 0
    assert (c == 2 * (a.astype(np.int32) @ b.astype(np.int32))).all()


@pytest.mark.parametrize("screen", ["screen p", "screen p lanes=A.packed"])
@pytest.mark.parametrize("scale", [1.0, 2.0**-62, 2.0**-70, 2.0**-128])
def test_small_numbers_are_kept(scale: float, screen: str) -> None:
    """The machine's instruction takes denormal numbers for zeros: panels that hold any that matter are multiplied without it."""
    rng = np.random.default_rng(1)
    a, b = ((rng.standard_normal(s) * scale).astype(numpy_dtype(bf16)) for s in ((5, 9), (9, 7)))
    a[3] = rng.standard_normal(9)  # one row tile of several is of another kind
    c = np.zeros((5, 7), np.float32)
    assert run(scheduled(FLOATS, f"{TILED}\n{screen}"), {"A": a, "B": b, "C": c}, {"M": 5, "N": 7, "K": 9}, check=True) == 0
    wide = [x.astype(np.float64) for x in (a, b)]
    bound = 12 * (2.0**-24 * abs(wide[0]) @ abs(wide[1]) + 2.0**-149)
    assert (abs(c - 2 * (wide[0] @ wide[1])) <= 2 * bound).all()


def test_without_the_screen_they_would_be_lost() -> None:
    a, b, c = np.full((1, 2), 2.0**-70, numpy_dtype(bf16)), np.full((2, 1), 2.0**-70, numpy_dtype(bf16)), np.ones((1, 1), np.float32)
    assert run(scheduled(FLOATS, TILED), {"A": a, "B": b, "C": c}, {"M": 1, "N": 1, "K": 2}) == 0
    assert c == 0


@pytest.mark.parametrize(
    ("text", "script", "reason"),
    [
        (BYTES, "dot p dot8", "no instruction `dot8`"),
        (BYTES, "dot p dot4_u8_i8", "multiplies u8 by i8 into i32, here are i8 and i8"),
        (BYTES, "dot i dot4_i8", "no innermost reduction"),
        (BYTES.replace("cast.i32(A[i, p]) *", ""), "dot p dot4_i8", "products of two elements that are small"),
        (BYTES, "offset p C", "no factor of bytes"),
        (BYTES, "split p 8\noffset p.1 A", "does not start at 0 beside"),
        (BYTES, "serial i\noffset p A", "more than parallel loops"),
        (BYTES.replace("acc[] = 0:i32", "acc[] = 1:i32"), "offset p A", "does not start at 0"),
        (BYTES, "dot p dot4_i8\nscreen p", "does not multiply packed words of floats"),
        (FLOATS, "screen p", "no reduction by one instruction"),
        (FLOATS, "dot p dot2_bf16\nscreen p", "does not multiply packed words"),
        (FLOATS, TILED.replace("p j.1.b", "p j.1.b space=shared") + "\nscreen p lanes=B.packed", "packed by several threads"),
    ],
)
def test_a_step_is_refused_with_the_reason(text: str, script: str, reason: str) -> None:
    with pytest.raises(StepError, match=reason):
        scheduled(text, script)


def test_strict_forbids_another_order_of_a_float_sum() -> None:
    scheduled(BYTES, "dot p dot4_i8", strict=True)
    with pytest.raises(StepError, match="--strict forbids"):
        scheduled(FLOATS, "dot p dot2_bf16", strict=True)


def test_kernels_hold_known_instructions_of_the_right_types() -> None:
    from luminal.ir.verify.expressions import mistyped

    word = var("w", u32)
    assert not list(mistyped([make("ins", f32, (const(0.0, f32), word, word), "dot2_bf16")]))
    assert list(mistyped([make("ins", i32, (const(0, i32), word, word), "dot2_bf16")]))


# ---- compiled

FORMS = {
    "rows of both": ("i8", "i8", '(composite f ((A{L}[M K] B{R}[N K]) -> (C{i32}[M N])) (return (einsum "ik,jk->ij" (cast i32 A) (cast i32 B))))', "mk,nk->mn"),
    "u8 by i8": ("u8", "i8", '(composite f ((A{L}[M K] B{R}[K N]) -> (C{i32}[M N])) (return (einsum "ik,kj->ij" (cast i32 A) (cast i32 B))))', "mk,kn->mn"),
    "u8 by u8, transposed": ("u8", "u8", '(composite f ((A{L}[K M] B{R}[K N]) -> (C{i32}[M N])) (return (einsum "ki,kj->ij" (cast i32 A) (cast i32 B))))', "km,kn->mn"),
    "batched": ("i8", "i8", '(composite f ((A{L}[G M K] B{R}[G K N]) -> (C{i32}[G M N])) (return (einsum "gik,gkj->gij" (cast i32 A) (cast i32 B))))', "gmk,gkn->gmn"),
    "bf16": ("bf16", "bf16", "(composite f ((A{L}[M K] B{R}[K N]) -> (C{L}[M N])) (return (matmul A B)))", "mk,kn->mn"),
    "bf16, rows of both": ("bf16", "bf16", '(composite f ((A{L}[M K] B{R}[N K]) -> (C{L}[M N])) (return (einsum "ik,jk->ij" A B)))', "mk,nk->mn"),
}  # fmt: skip


@needs_cc
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("form", FORMS)
def test_compiled(form: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every instruction is offered; on a machine without it the portable body runs."""
    resolved = Driver.target
    monkeypatch.setattr(Driver, "target", lambda *given: replace(resolved(*given), instructions=frozenset(INSTRUCTIONS) - {"dot4_i8"}))
    left, right, text, axes = FORMS[form]
    kernel = luminal.compile(text, dtype={"L": left, "R": right}, target=target)
    assert "dot" in kernel.source
    rng = np.random.default_rng(3)
    for m, n, k in ((1, 1, 1), (15, 33, 67), (70, 200, 2101), (7, 2, 64), (11, 37, 192)):
        extent = {"g": 2, "m": m, "n": n, "k": k}
        operands = []
        for names, dtype in zip(axes.partition("->")[0].split(","), (left, right), strict=True):
            shape = tuple(extent[a] for a in names)
            values = (
                rng.standard_normal(shape) if dtype == "bf16" else rng.integers(-128, 128, shape) if dtype == "i8" else rng.integers(0, 256, shape)
            )
            operands.append(np.asarray(values).astype(numpy_dtype(DTYPES[dtype])))
        wide = [x.astype(np.float64) for x in operands]
        exact, size = np.einsum(axes, *wide), np.einsum(axes, *map(abs, wide))
        found = np.asarray(kernel(*operands)).astype(np.float64)
        bound = 0 if left != "bf16" else (k + 2) * 2.0**-24 * size + 2.0**-8 * abs(exact)
        assert (abs(found - exact) <= bound).all(), (form, m, n, k)


QUANTISED = """(composite f ((X{f32}[M K] W{i8}[N K] S{f32}[N]) -> (Y{f32}[M N]))
  (setf s (/ (max (abs X) :axis 1 :keepdims t) 127.0))
  (setf p (einsum "mk,nk->mn" (cast i32 (cast i8 (round (/ X s)))) (cast i32 W)))
  (return (* (cast f32 p) s S)))"""


@needs_cc
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
def test_bytes_that_are_computed_are_stored_as_bytes(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Activations that are quantised on the way, by as many rows as take them as they lie and by more."""
    resolved = Driver.target
    monkeypatch.setattr(Driver, "target", lambda *given: replace(resolved(*given), instructions=frozenset(INSTRUCTIONS) - {"dot4_i8"}))
    kernel = luminal.compile(QUANTISED, target=target)
    assert "dot4" in kernel.source and "int8_t *restrict temp" in kernel.source
    rng = np.random.default_rng(6)
    for m, n, k in ((1, 1, 64), (6, 7, 128), (3, 5, 70), (150, 40, 192)):
        x, w, s = rng.standard_normal((m, k)).astype(np.float32), rng.integers(-128, 128, (n, k)).astype(np.int8), rng.random(n).astype(np.float32)
        scale = np.abs(x).max(1, keepdims=True) / np.float32(127)
        exact = np.rint(x / scale).astype(np.int64) @ w.T.astype(np.int64) * scale.astype(np.float64) * s
        np.testing.assert_allclose(np.asarray(kernel(x, w, s)), exact, rtol=1e-6)


@pytest.mark.parametrize(
    ("sizes", "copied"),
    {
        (16, 512, 384): False,
        (128, 128, 128): False,
        (8, 2000, 2000): False,
        (160, 160, 160): True,
        (32, 512, 512): False,
        (40, 1000, 1000): True,
        (4096, 64, 64): True,
    }.items(),
)
def test_small_floats_are_copied_for_rows_and_work_enough(sizes: tuple[int, int, int], copied: bool) -> None:
    """However few elements there are to be copied: in place they are multiplied half as fast."""
    before = module(FLOATS)
    target = replace(CPU, vector_bytes=64, vector_registers=32, l1=32 << 10, l2=1 << 20, instructions=frozenset({"dot2_bf16"}))
    (kernel,) = schedule(before, target, Options()).kernels
    facts, known = Facts.of(before, False), dict(zip("MKN", sizes, strict=True))
    parts = [part.split("\n") for part in ("\n" + "\n".join(kernel.schedule)).split("\nvariant")[1:]]
    chosen = next(part for part in parts if not part[0] or evaluate(condition(part[0].strip(), facts), known))
    assert any("dot2_bf16" in line for line in chosen) is copied


def test_few_rows_of_bytes_are_multiplied_as_they_lie() -> None:
    """Columns along the reduction are copied for many rows alone."""
    text = BYTES.replace("B: i8[K, N]", "B: i8[N, K]").replace("B[p, j]", "B[j, p]")
    before = module(text)
    target = replace(CPU, vector_bytes=64, vector_registers=32, l1=32 << 10, l2=1 << 20, instructions=frozenset({"dot4_u8_i8"}))
    (kernel,) = schedule(before, target, Options()).kernels
    _, rows, *_ = "\n".join(kernel.schedule).split("variant ")[1:]
    assert rows.startswith("M <= 64 & K % 64 == 0\n") and "dot p dot4_u8_i8" in rows and "stage" not in rows
    rng = np.random.default_rng(1)
    for m, n, k in ((1, 1, 64), (2, 3, 128), (7, 9, 64), (0, 2, 64), (2, 0, 64), (5, 4, 0)):
        start = {
            "A": rng.integers(-128, 128, (m, k)).astype(np.int8),
            "B": rng.integers(-128, 128, (n, k)).astype(np.int8),
            "C": np.zeros((m, n), np.int32),
        }
        after = {name: a.copy() for name, a in start.items()}
        assert run(before.with_kernels((kernel,)), after, {"M": m, "N": n, "K": k}, check=True, seed=2) == 0
        assert (after["C"] == 2 * start["A"].astype(np.int32) @ start["B"].astype(np.int32).T).all()


@needs_cc
def test_small_numbers_are_kept_by_the_machine() -> None:
    kernel = luminal.compile(FORMS["bf16"][2], dtype={"L": "bf16", "R": "bf16"}, target="native")
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((90, 600)).astype(numpy_dtype(bf16)), rng.standard_normal((600, 200)).astype(numpy_dtype(bf16))
    for place, scale in (((slice(3, 5), slice(None)), 2.0**-130), ((slice(60, 80), slice(0, 7)), 2.0**-128)):
        a[place] = (rng.standard_normal(a[place].shape) * scale).astype(a.dtype)
    b[:, 40:50] = (b[:, 40:50].astype(np.float64) * 2.0**-60).astype(b.dtype)
    wide = [x.astype(np.float64) for x in (a, b)]
    exact, size = wide[0] @ wide[1], abs(wide[0]) @ abs(wide[1])
    bound = 602 * (2.0**-24 * size + 2.0**-149) + 2.0**-8 * abs(exact) + 2.0**-133
    found = np.asarray(kernel(a, b)).astype(np.float64)
    assert (abs(found - exact) <= bound).all()
    assert (found[3:5, :40] != 0).any()


@needs_cc
def test_a_small_number_is_found_anywhere_in_a_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Panels are packed in squares: all of one is looked at, to its last row and column."""
    resolved = Driver.target
    monkeypatch.setattr(Driver, "target", lambda *given: replace(resolved(*given), instructions=frozenset({"dot2_bf16"})))
    kernel = luminal.compile(FORMS["bf16, rows of both"][2], dtype={"L": "bf16", "R": "bf16"}, target="native")
    a, b = np.zeros((90, 600), numpy_dtype(bf16)), np.zeros((200, 600), numpy_dtype(bf16))
    a[3, 599], b[:, 599] = 2.0**-100, 2.0**-30
    a[50, 300], b[:, 300] = 2.0**40, 2.0**-130
    found = np.asarray(kernel(a, b)).astype(np.float64)
    assert (found[3] == 2.0**-130).all() and (found[50] == 2.0**-90).all()


@needs_cc
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
def test_scores_in_a_cascade(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention in bf16: neighbours along the size of a head are multiplied by the instruction, tiny ones without it."""
    resolved = Driver.target
    monkeypatch.setattr(Driver, "target", lambda *given: replace(resolved(*given), instructions=frozenset(INSTRUCTIONS)))
    attention = luminal.compile("attention", dtype={"T": "bf16"}, target=target)
    assert "dot2_bf16" in attention.source
    scores_agree(attention, [(1, 1, 1, 1, 1), (2, 57, 130, 33, 20), (1, 100, 65, 64, 64)])


@pytest.mark.parametrize("columns", ["B: i8[K, N]", "B: i8[N, K]"])
def test_few_columns_of_bytes_change_places_with_the_rows(columns: str) -> None:
    """Rows are read as they lie along the reduction; columns that lie across it are turned over once, as bytes."""
    text = BYTES if columns in BYTES else BYTES.replace("B: i8[K, N]", columns).replace("B[p, j]", "B[j, p]")
    before = module(text)
    target = replace(CPU, vector_bytes=64, vector_registers=32, l1=32 << 10, l2=1 << 20, instructions=frozenset({"dot4_u8_i8"}))
    (kernel,) = schedule(before, target, Options()).kernels
    few, *_ = "\n".join(kernel.schedule).split("variant ")[1:]
    most = 48 if columns in BYTES else 16
    assert few.startswith(f"N <= {most} & 64 <= K & N * 8 <= M & K % 64 == 0\n") and "dot p dot4_u8_i8" in few
    assert ("stage B j p space=shared order=p,j plain=1" in few) == (columns in BYTES)
    rng = np.random.default_rng(3)
    for m, n, k in ((8, 1, 64), (25, 3, 128), (9, 1, 64), (0, 0, 64), (16, 2, 192)):
        a, b, c = rng.integers(-128, 128, (m, k)), rng.integers(-128, 128, (k, n)), np.zeros((m, n), np.int32)
        given = {"A": a.astype(np.int8), "B": (b if columns in BYTES else b.T.copy()).astype(np.int8), "C": c}
        assert run(before.with_kernels((kernel,)), given, {"M": m, "N": n, "K": k}, check=True, seed=2) == 0
        assert (c == 2 * a @ b).all()


def test_tiles_leave_fewer_rows_and_columns_of_bytes_to_vectors() -> None:
    target = replace(CPU, vector_bytes=64, vector_registers=32, l1=32 << 10, l2=1 << 20, instructions=frozenset({"dot4_u8_i8", "tile_i8"}))
    (kernel,) = schedule(module(BYTES), target, Options()).kernels
    conditions = [line.removeprefix("variant ") for line in kernel.schedule if line.startswith("variant ")]
    assert conditions[:2] == ["N <= 6 & 64 <= K & N * 8 <= M & K % 64 == 0", "M <= 3"]
    rng = np.random.default_rng(3)
    for m, n, k in ((3, 40, 70), (4, 33, 5), (56, 7, 64), (48, 6, 64)):
        a, b, c = rng.integers(-128, 128, (m, k)), rng.integers(-128, 128, (k, n)), np.zeros((m, n), np.int32)
        given = {"A": a.astype(np.int8), "B": b.astype(np.int8), "C": c}
        assert run(module(BYTES).with_kernels((kernel,)), given, {"M": m, "N": n, "K": k}, check=True, seed=2) == 0
        assert (c == 2 * a @ b).all()


@pytest.mark.parametrize(
    ("adds", "width", "beside"), [(1, "f32", ""), (2, "f32", " & (N <= 12 | 196609 <= K * N)"), (2, "f64", " & (N <= 6 | 98305 <= K * N)")]
)
def test_few_columns_are_turned_over_up_to_what_a_cycle_multiplies(adds: int, width: str, beside: str) -> None:
    """Where they could be read in place."""
    text = BYTES.replace("i8", width).replace("i32", width).replace("0:" + width, "0.0:" + width).replace("2:" + width, "2.0:" + width)
    target = replace(CPU, vector_bytes=64, vector_registers=32, l1=32 << 10, l2=1 << 20, multiply_adds=adds)
    (kernel,) = schedule(module(text), target, Options()).kernels
    assert kernel.schedule[0] == f"variant N <= 16 & 64 <= K & N * 8 <= M{beside}"


@pytest.mark.parametrize(("adds", "width", "most"), [(1, "f64", 32), (2, "f64", 20), (2, "f32", 32)])
def test_rows_that_read_columns_as_they_lie(adds: int, width: str, most: int) -> None:
    text = BYTES.replace("i8", width).replace("i32", width).replace("0:" + width, "0.0:" + width).replace(" * 2:" + width, "")
    text = text.replace("B: " + width + "[K, N]", "B: " + width + "[N, K]").replace("B[p, j]", "B[j, p]")
    target = replace(CPU, vector_bytes=64, vector_registers=32, l1=32 << 10, l2=1 << 20, multiply_adds=adds)
    (kernel,) = schedule(module(text), target, Options()).kernels
    assert f"variant M <= {most}" in kernel.schedule


@pytest.mark.parametrize(("last", "short"), [(480 << 20, True), (32 << 20, False)])
def test_nothing_is_packed_for_a_short_reduction_where_the_last_cache_is_far(last: int, short: bool) -> None:
    text = BYTES.replace("i8", "f32").replace("i32", "f32").replace("0:f32", "0.0:f32").replace("2:f32", "2.0:f32")
    target = replace(CPU, vector_bytes=64, vector_registers=32, l1=48 << 10, l2=2 << 20, l3=last)
    (kernel,) = schedule(module(text), target, Options()).kernels
    assert any("K <= 31 | N <= 16" in line for line in kernel.schedule) is short
