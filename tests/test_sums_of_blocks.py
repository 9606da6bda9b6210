"""Sums of blocks of small integers, each a term of one sum of floats: they stay inside of it, in tiles that an instruction multiplies, and are exact."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Compilation, Settings, compilations
from luminal.ir.instructions import INSTRUCTIONS
from luminal.ir.interpret.kernel import run
from luminal.ir.kernel import Module
from luminal.ir.record import replace
from luminal.ir.text import read, show
from luminal.passes.cascades.block_sums import block_sums
from luminal.passes.schedule import Facts, StepError, replay, unique
from luminal.runtimes.clang.driver import Driver

BOTH = '(return (einsum "mb,nb,mnb->mn" s t (cast f32 (einsum "mbi,nbi->mnb" (cast i32 X) (cast i32 W)))))'
BLOCKS = f"(composite f ((X{{i8}}[M B 32] W{{i8}}[N B 32] s{{f32}}[M B] t{{f32}}[N B]) -> (Y{{f32}}[M N])) {BOTH})"
NIBBLES = '(composite f ((X{{i8}}[M B 32] H{{u8}}[N B 16] s{{f32}}[M B] t{{f32}}[N B]) -> (Y{{f32}}[M N])) (return (einsum "mbi,nbi->mn" (* (cast f32 X) (reshape s M B 1)) (* (- (cast f32 {}) 8) (reshape t N B 1)))))'
F16 = "(cast f32 (bitcast f16 (logor (cast u16 (slice {0} ~ 0)) (ash (cast u16 (slice {0} ~ 1)) 8))))"
# a composite, and what of the two operands, their scales and their zeros it takes
FORMS = {
    "both with a sign": (BLOCKS, "int8", "int8", "XWst"),
    "both without": (BLOCKS.replace("i8", "u8"), "uint8", "uint8", "XWst"),
    "one without": (BLOCKS.replace("W{i8}", "W{u8}"), "int8", "uint8", "XWst"),
    "columns side by side": (
        '(composite f ((X{i8}[M B 32] V{i8}[B 32 N] s{f32}[M B] t{f32}[N B]) -> (Y{f32}[M N])) (return (einsum "mb,nb,mnb->mn" s t (cast f32 (einsum "mbi,bin->mnb" (cast i32 X) (cast i32 V))))))',
        "int8", "int8", "XVst",
    ),
    "rows along two axes": (
        '(composite f ((Z{i8}[3 M B 32] W{i8}[N B 32] s{f32}[M B] t{f32}[N B]) -> (Y{f32}[3 M N])) (return (einsum "mb,nb,amnb->amn" s t (cast f32 (einsum "ambi,nbi->amnb" (cast i32 Z) (cast i32 W))))))',
        "int8", "int8", "ZWst",
    ),
    "a zero of each block": (
        '(composite f ((X{i8}[M B 32] W{u8}[N B 32] z{u8}[N B] s{f32}[M B] t{f32}[N B]) -> (Y{f32}[M N])) (return (einsum "mb,nb,mnb->mn" s t (cast f32 (einsum "mbi,nbi->mnb" (cast i32 X) (- (cast i32 W) (cast i32 (reshape z N B 1))))))))',
        "int8", "uint8", "XWzst",
    ),
    "zeros of both": (
        '(composite f ((X{u8}[M B 32] W{u8}[N B 32] y{u8}[M B] z{u8}[N B] s{f32}[M B] t{f32}[N B]) -> (V{f32}[M N])) (return (einsum "mbi,nbi->mn" (* (- (cast f32 X) (cast f32 (reshape y M B 1))) (reshape s M B 1)) (* (- (cast f32 W) (cast f32 (reshape z N B 1))) (reshape t N B 1)))))',
        "uint8", "uint8", "XWyzst",
    ),
    "two in a byte, in halves": (NIBBLES.format("(concat (logand H 15) (ash H -4) :axis -1)"), "int8", "halves", "XHst"),
    "two in a byte, side by side": (NIBBLES.format("(reshape (stack (logand H 15) (ash H -4) :axis -1) N B 32)"), "int8", "pairs", "XHst"),
    "scales among the bytes": (
        f'(composite f ((P{{u8}}[M B 34] Q{{u8}}[N B 34]) -> (Y{{f32}}[M N])) (setf X (bitcast i8 (slice P ~ (2 34)))) (setf W (bitcast i8 (slice Q ~ (2 34)))) (setf s {F16.format("P")}) (setf t {F16.format("Q")}) {BOTH})',
        "int8", "int8", "PQ",
    ),
    "something is made of the sum": (BLOCKS.replace(BOTH, f"{BOTH.replace('(return', '(return (max 0')})"), "int8", "int8", "XWst"),
}  # fmt: skip
SIZES = [(1, 1, 1), (1, 3, 37), (2, 5, 33), (3, 1, 17), (5, 7, 66), (13, 3, 5), (300, 2, 20), (0, 2, 3), (2, 0, 3), (2, 3, 0)]


@pytest.fixture(autouse=True)
def _offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The instruction of one operand with a sign and one without is offered; on a machine without it the portable body runs."""
    resolved = Driver.target
    monkeypatch.setattr(Driver, "target", lambda *given: replace(resolved(*given), instructions=frozenset({"dot4_u8_i8"})))


def compiled(source: str, **settings: object) -> Compilation:
    (c,) = compilations(source, Settings(**settings))  # pyright: ignore[reportArgumentType]
    return c


def drawn(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if dtype in ("halves", "pairs"):
        return rng.integers(0, 16, shape).astype(np.uint8)
    return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, endpoint=True).astype(dtype)


@needs_cc
@pytest.mark.usefixtures("plain_c")
@pytest.mark.parametrize("target", ["native", "x86-64-v3", "no words"])
@pytest.mark.parametrize("form", FORMS)
def test_values(form: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the sums of exact integers: what is left is the rounding of a product and a sum for each block."""
    source, left, right, wanted = FORMS[form]
    if target == "no words":
        resolved = Driver.target
        monkeypatch.setattr(Driver, "target", lambda *given: replace(resolved(*given), instructions=frozenset()))
    kernel = luminal.compile(source, target=target if target != "no words" else "x86-64-v3")
    assert ("dot4_u8_i8" in kernel.source) == (target != "no words")
    rng = np.random.default_rng(5)
    for m, b, n in SIZES:
        x, w = (drawn(rng, d, (k, b, 32)) for d, k in ((left, m), (right, n)))
        s, t, z = rng.standard_normal((m, b), np.float32), rng.standard_normal((n, b), np.float32), rng.integers(0, 256, (n, b), np.uint8)
        zero = rng.integers(0, 256, (m, b), np.uint8)
        if wanted == "PQ":
            s, t = (v.astype(np.float16).astype(np.float32) for v in (s, t))
        p, q = (np.concatenate([v.astype(np.float16)[..., None].view(np.uint8), a.view(np.uint8)], -1) for v, a in ((s, x), (t, w)))
        given = {
            "X": x,
            "W": w,
            "V": np.ascontiguousarray(w.transpose(1, 2, 0)),
            "s": s,
            "t": t,
            "z": z,
            "P": p,
            "Q": q,
            "Z": np.stack([x, x, x]),
            "y": zero,
        }
        given["H"] = w[..., :16] | w[..., 16:] << 4 if right == "halves" else w[..., ::2] | w[..., 1::2] << 4
        wide = w.astype(np.int64) - (z[..., None] if "z" in wanted else 8 if "H" in wanted else 0)
        rows = x.astype(np.int64) - (zero[..., None] if "y" in wanted else 0)
        terms = np.einsum("mbi,nbi->mnb", rows.astype(np.float64), wide.astype(np.float64)) * s[:, None] * t[None].astype(np.float64)
        exact = terms.sum(2) if form != "something is made of the sum" else np.maximum(terms.sum(2), 0)
        found = np.asarray(kernel(*(given[name] for name in wanted)))
        assert found.shape == exact.shape or (found == found[:1]).all()  # along another axis the same rows
        words = np.einsum("mbki,nbki->mnbk", rows.reshape(m, b, 8, 4).astype(np.float64), wide.reshape(n, b, 8, 4).astype(np.float64))
        rounded = abs(words).sum(3) * abs(s)[:, None] * abs(t)[None]  # of few rows, word by word
        if target == "no words":  # what something is taken from is floats there
            rounded = np.einsum("mbi,nbi,mb,nb->mnb", abs(rows).astype(np.float64), abs(wide), abs(s), abs(t))
        assert (abs(found - exact) <= (b + 3) * 2.0**-24 * 16 * rounded.sum(2) + 1e-30).all(), (m, b, n)


@pytest.mark.parametrize("form", FORMS)
def test_they_stay_in_one_kernel(form: str) -> None:
    c = compiled(FORMS[form][0], target="x86-64-v4")
    *before, last = c.module.kernels
    assert not before and not c.module.temps
    assert "dot q dot4_u8_i8" in last.schedule or "dot p dot4_u8_i8" in last.schedule
    few = [line for line in last.schedule if line.startswith("variant M <= 2")]
    assert bool(few) == (form not in ("both without", "columns side by side", "rows along two axes", "zeros of both", "two in a byte, side by side"))


@pytest.mark.parametrize(
    "source",
    [
        BLOCKS.replace("32]", "D]"),  # how long a block is is not known
        BLOCKS.replace("32]", "30]"),  # not of whole words
        BLOCKS.replace("(Y{f32}[M N])", "(Y{f32}[M N] Z{i32}[M N B])").replace(BOTH, '(setf z (einsum "mbi,nbi->mnb" (cast i32 X) (cast i32 W))) (return (einsum "mb,nb,mnb->mn" s t (cast f32 z)) z)'),
        BLOCKS.replace('(cast f32 (einsum "mbi', '(abs (cast f32 (einsum "mbi').replace("(cast i32 W))))))", "(cast i32 W)))))))"),  # scores, of which more is made
        BLOCKS.replace("W{i8}[N B 32]", "W{i8}[M N B 32]").replace("nbi->", "mnbi->"),  # nothing is used twice
    ],
)  # fmt: skip
def test_what_is_no_sum_of_blocks(source: str) -> None:
    c = compiled(source, target="x86-64-v4")
    graph = c.run(stop_after="simplify")
    assert not block_sums(graph, c.target)


def test_without_an_instruction_they_are_as_long_as_floats_are_exact() -> None:
    for length, with_words, without in ((32, 1, 1), (256, 1, 1), (260, 1, 0), (30, 0, 1)):
        c = compiled(BLOCKS.replace("32]", f"{length}]"), target="x86-64-v4")
        graph = c.run(stop_after="simplify")
        assert len(block_sums(graph, c.target)) == with_words
        assert len(block_sums(graph, replace(c.target, instructions=frozenset(INSTRUCTIONS) - {"dot4_u8_i8", "dot4_i8"}))) == without


def test_strict_keeps_the_order_of_the_sum() -> None:
    (kernel,) = compiled(BLOCKS, target="x86-64-v4", strict=True).module.kernels
    assert "dot q dot4_u8_i8" in kernel.schedule and not any("variant" in line or "distribute" in line for line in kernel.schedule)


def test_as_floats() -> None:
    c = compiled(BLOCKS, target="x86-64-v3")
    c.target = replace(c.target, instructions=frozenset())
    (kernel,) = c.module.kernels
    assert not c.module.temps and kernel.schedule[:2] == ("variant M <= 2", "floats q") and "dot" not in " ".join(kernel.schedule)


def test_two_numbers_in_a_byte_are_words_in_two_halves_of_a_block() -> None:
    """The bytes are loaded once, as they lie, and what is in them is shifted and masked by words: for few rows by lanes of a block, else where panels are packed, in squares."""
    c = compiled(FORMS["two in a byte, in halves"][0], target="x86-64-v4")
    (kernel,) = c.module.kernels
    text = show(c.module)
    assert "q.s.0 // 4" not in text and "where(q" not in text and "& 252645135:u32" in text
    assert any(line.startswith("split q.s 4") for line in kernel.schedule)
    assert "repeat_u32x4_u32x8" in luminal.compile(FORMS["two in a byte, in halves"][0], target="x86-64-v4").source


@pytest.mark.parametrize(("adds", "rows"), [(1, 2), (2, 4)])
def test_more_rows_are_few_where_a_cycle_does_more(adds: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    resolved = Driver.target
    monkeypatch.setattr(Driver, "target", lambda *given: replace(resolved(*given), multiply_adds=adds))
    (kernel,) = compiled(BLOCKS, target="x86-64-v4").module.kernels
    assert kernel.schedule[0] == f"variant M <= {rows}"


def test_what_is_taken_from_a_byte_is_a_byte_for_words() -> None:
    """A zero of the type of the sum is taken out of the sums of blocks, but not word by word."""
    (kernel,) = compiled(FORMS["a zero of each block"][0].replace("z{u8}", "z{i8}"), target="x86-64-v4").module.kernels
    assert "offset q W" in kernel.schedule and not any("variant" in line for line in kernel.schedule)


# ---- the steps

KERNEL = """kernels f v1
size M
size N
size B
in X: i8[M, B, 8]
in W: i8[N, B, 8]
in s: f32[M, B]
out Y: f32[M, N]

kernel f_0(X, W, s, Y):
  for i in 0 .. M parallel:
    for j in 0 .. N parallel:
      alloc acc: f32[] register
      acc[] = 0.0:f32
      for p in 0 .. B reduce:
        alloc sum: i32[] register
        sum[] = 0:i32
        for q in 0 .. 8 reduce:
          sum[] add= cast.i32(X[i, p, q]) * cast.i32(W[j, p, q])
        acc[] add= cast.f32(sum[]) * s[i, p]
      Y[i, j] = acc[]
"""


def scheduled(script: str, text: str = KERNEL, strict: bool = False) -> Module:
    before = read(text)
    assert isinstance(before, Module)
    after = before.with_kernels((replay(unique(before.kernels[0]), Facts.of(before, strict), script),))
    assert read(show(after)) == after
    return after


@pytest.mark.parametrize(
    "script",
    ["distribute q", "floats q", "floats q\ndistribute q", "offset q W\ndot q dot4_u8_i8", "dot q dot4_u8_i8 signed=W\ndistribute q", "dot q dot4_u8_i8 signed=X", "dot q dot4_i8\ndistribute q\ncollapse p q"],
)  # fmt: skip
def test_steps_keep_the_meaning(script: str) -> None:
    rng = np.random.default_rng(2)
    for m, n, b in ((1, 1, 1), (3, 2, 5), (2, 3, 0)):
        x, w = (rng.integers(-128, 128, (k, b, 8)).astype(np.int8) for k in (m, n))
        s, y = rng.integers(-8, 8, (m, b)).astype(np.float32), np.ones((m, n), np.float32)
        assert run(scheduled(script), {"X": x, "W": w, "s": s, "Y": y}, {"M": m, "N": n, "B": b}, check=True) == 0
        assert (y == np.einsum("mbi,nbi,mb->mn", x.astype(np.float64), w.astype(np.float64), s)).all()  # small integers: any order is exact


@pytest.mark.parametrize(
    ("text", "strict", "reason"),
    [
        (KERNEL, True, "--strict forbids it"),
        (KERNEL.replace("8]", "2048]").replace("8 reduce", "2048 reduce"), False, "f32 does not hold all that the sum may be"),
        (KERNEL.replace("cast.f32(sum[]) *", "cast.f32(sum[]) +"), False, "`add` makes no multiple of the sum"),
        (KERNEL.replace("cast.f32(sum[]) * s[i, p]", "cast.f32(sum[]) * cast.f32(sum[])"), False, "`mul` makes no multiple of the sum"),
        (KERNEL.replace("sum[] = 0", "sum[] = 1"), False, "no sum that begins at 0"),
        (KERNEL.replace("acc[] add=", "acc[] max="), False, "no sum that begins at 0 and is a term of another"),
    ],
)
def test_what_is_made_of_terms_is_what_is_made_of_the_sum(text: str, strict: bool, reason: str) -> None:
    with pytest.raises(StepError, match=reason):
        scheduled("distribute q", text, strict)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (KERNEL.replace("8]", "2048]").replace("8 reduce", "2048 reduce"), "f32 does not hold all that the sum may be"),
        (KERNEL.replace("cast.f32(sum[]) *", "cast.f32(sum[] * 2:i32) *"), "is no float right away"),
        (KERNEL.replace("sum[] = 0", "sum[] = 1"), "no sum that begins at 0"),
    ],
)
def test_floats_hold_all_of_the_sum(text: str, reason: str) -> None:
    with pytest.raises(StepError, match=reason):
        scheduled("floats q", text)
