"""Instructions on tiles: the step that brings them in, what it means at each level, and the C that comes out, by the machine's tile registers and by the portable body."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import luminal
import numpy as np
import pytest
from click.testing import CliRunner
from compilers import needs_cc
from luminal.cli.main import cli
from luminal.compiler import Settings, compilations
from luminal.ir.dtypes import DTYPES, bf16, numpy_dtype
from luminal.ir.instructions import INSTRUCTIONS, TILES
from luminal.ir.interpret import kernel as kernels, program as programs
from luminal.ir.kernel import Module
from luminal.ir.program import Multiply, Program, Tiles, statements
from luminal.ir.record import replace
from luminal.ir.target import Options, Target
from luminal.ir.text import read, show
from luminal.ir.verify import verify
from luminal.passes.lower import lower
from luminal.passes.schedule import Facts, StepError, replay, unique
from luminal.passes.simplify_index import simplify_index
from luminal.runtimes.clang.driver import Driver
from luminal.runtimes.clang.machine import native
from luminal.search.tuning.estimate import estimate
from scheduling import BYTES, FLOATS
from small_attention import scores_agree

pytestmark = pytest.mark.usefixtures("plain_c")
HAS_TILES = "amx_bf16" in native().isa and "amx_int8" in native().isa
needs_tiles = pytest.mark.skipif(not HAS_TILES, reason="the machine has no instructions on tiles (amx_bf16, amx_int8)")

# 16 rows and columns; the reduction goes on inside of the instruction
SCRIPT = """dot p DOT multiple=16
split i 16 tail=pad
split j 16 tail=pad
reorder i.0 j.0 i.1 j.1
expand acc i.1 j.1
fission i.1 j.1
reorder p i.1.b j.1.b
stage B j.0 p j.1.b
split p 16 tail=perfect
reorder p.0 i.1.b j.1.b p.1
stage A p.0 i.1.b p.1 at=i.0
"""
ROUTES = {
    "i8": (BYTES, SCRIPT.replace("DOT", "dot4_i8") + "tensorize i.1.b tile_i8", ("i8", "i8")),
    "u8 rows": (BYTES.replace("A: i8", "A: u8"), SCRIPT.replace("DOT", "dot4_u8_i8") + "tensorize i.1.b tile_u8_i8", ("u8", "i8")),
    "u8 columns": (BYTES.replace("B: i8", "B: u8"), SCRIPT.replace("DOT", "dot4_u8_i8") + "tensorize i.1.b tile_i8_u8", ("i8", "u8")),
    "bf16": (FLOATS, SCRIPT.replace("DOT", "dot2_bf16") + "tensorize i.1.b tile_bf16", ("bf16", "bf16")),
}  # fmt: skip


def scheduled(text: str, script: str, strict: bool = False) -> Module:
    before = read(text)
    assert isinstance(before, Module)
    after = before.with_kernels((replay(unique(before.kernels[0]), Facts.of(before, strict), script),))
    verify(after)
    assert read(show(after)) == after
    return after


def lowered(module: Module) -> Program:
    target = Target("clang", "test", "test", vector_bytes=64, threads=True)
    program = simplify_index(lower(module, target, Options()), target, Options())
    verify(program)
    assert read(show(program)) == program
    return program


def whole(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Any:
    """Numbers whose products are summed without rounding, in any order."""
    low, high = {"i8": (-128, 128), "u8": (0, 256), "bf16": (-16, 17)}[dtype]
    return rng.integers(low, high, shape).astype(numpy_dtype(DTYPES[dtype]))


# ---- the step, at the kernel level and below


@pytest.mark.parametrize("k", [0, 41])
@pytest.mark.parametrize("route", ROUTES)
def test_the_meaning_stays(route: str, k: int) -> None:
    """As loops, as one statement, and as it was: tails of rows, columns and of the reduction are zeros."""
    text, script, dtypes = ROUTES[route]
    module = scheduled(text, script)
    program = lowered(module)
    assert [s.instruction for f in program.functions for s in statements(f.body) if isinstance(s, Multiply)] == [script.split()[-1]]
    rng = np.random.default_rng(k)
    m, n = 3, 5
    a, b = whole(rng, dtypes[0], (m, k)), whole(rng, dtypes[1], (k, n))
    exact = 2 * (a.astype(np.float64) @ b.astype(np.float64))
    c = np.zeros((m, n), np.float32 if route == "bf16" else np.int32)
    sizes = {"M": m, "N": n, "K": k}
    assert kernels.run(module, {"A": a, "B": b, "C": c}, sizes, check=True) == 0
    assert (c == exact).all()
    flat = {"A": a.reshape(-1), "B": b.reshape(-1), "C": np.zeros(m * n, c.dtype)}
    assert programs.run(program, flat, sizes, check=True) == 0
    assert (flat["C"].reshape(m, n) == exact).all()


@pytest.mark.parametrize(
    ("text", "script", "reason"),
    [
        (BYTES, "tensorize i tile8", "no instruction `tile8`"),
        (BYTES, "tensorize i tile_i8", "no nest of three loops"),
        (BYTES, ROUTES["i8"][1].replace("tile_i8", "tile_bf16"), "multiplies by dot2_bf16, here is dot4_i8"),
        (ROUTES["u8 rows"][0], ROUTES["u8 rows"][1].replace("tile_u8_i8", "tile_i8_u8"), "rows of tile_i8_u8 are i8"),
        (BYTES, ROUTES["i8"][1].replace("split j 16", "split j 8"), "a tile has 16 or 32 rows and columns"),
        (BYTES, ROUTES["i8"][1].replace("split i 16", "split i 48"), "a tile has 16 or 32 rows and columns"),
        (BYTES, ROUTES["i8"][1].replace("stage A p.0 i.1.b p.1 at=i.0\n", ""), "no local buffers"),
        (BYTES, ROUTES["i8"][1].replace("stage A p.0 i.1.b p.1", "stage A p.0 p.1 i.1.b"), "not consecutive along the reduction"),
        (BYTES, ROUTES["i8"][1].replace("stage B j.0 p j.1.b", "stage B j.0 j.1.b p"), "others not along the columns"),
    ],
)
def test_the_step_is_refused_with_the_reason(text: str, script: str, reason: str) -> None:
    with pytest.raises(StepError, match=reason):
        scheduled(text, script)


def test_words_go_on_to_a_multiple() -> None:
    loop = show(scheduled(BYTES, "dot p dot4_i8 multiple=16"))
    assert "for p in 0 .. (K + 63) // 64 * 16 reduce:" in loop


def test_programs_say_when_tile_registers_are_used() -> None:
    program = lowered(scheduled(*ROUTES["i8"][:2]))
    (f,) = program.functions
    assert [s.begin for s in statements(f.body) if isinstance(s, Tiles)] == [True, False]
    without = replace(f, body=tuple(s for s in f.body if not isinstance(s, Tiles)))
    inner = [s for s in statements(f.body) if isinstance(s, Multiply)]
    with pytest.raises(luminal.CompilerBug, match="outside of `tiles begin`"):
        verify(replace(program, functions=(replace(without, body=tuple(_without_tiles(without.body))),)))
    wrong = show(program).replace("multiply tile_i8 16 by 16", "multiply tile_i8 48 by 16")
    assert inner and wrong != show(program)
    with pytest.raises(luminal.CompilerBug, match="tile_i8 of 48 by 16"):
        verify(read(wrong))
    with pytest.raises(luminal.CompilerBug, match="works on"):
        verify(read(show(program).replace("multiply tile_i8", "multiply tile_bf16")))


def test_sums_that_are_cleared_before_are_not_read() -> None:
    """A product begins anew where zeros, all of them, stand right before it; any other start is read."""
    text, script, _ = ROUTES["bf16"]
    program = lowered(scheduled(text, script))
    assert "16 anew into acc" in show(program) and read(show(program)) == program
    assert "= 0.0:f32" not in show(program).partition("16 anew into acc")[0]
    other = lowered(scheduled(text.replace("acc[] = 0.0:f32", "acc[] = 1.0:f32"), script))
    assert "16 into acc" in show(other) and "anew" not in show(other)


def _without_tiles(block: Any) -> Any:
    from luminal.ir.program import map_block

    return map_block(block, lambda s: () if isinstance(s, Tiles) else None)


def test_a_search_counts_tiles_as_they_are() -> None:
    """Sixteen rows and columns of results take as long as their sixteen words; the same loops one by one, hundreds of times as long."""
    text, script, _ = ROUTES["bf16"]
    target = Target("clang", "test", "test", vector_bytes=64)
    sizes = {"M": 64, "N": 64, "K": 4096}
    steps, tiled = (scheduled(text, s).kernels[0] for s in (script.rpartition("\n")[0], script))
    assert 8 * estimate(tiled, sizes, target) < estimate(steps, sizes, target)


# ---- compiled

FORMS = {
    "i8": ("i8", "i8", '(composite f ((A{L}[M K] B{R}[K N]) -> (C{i32}[M N])) (return (einsum "ik,kj->ij" (cast i32 A) (cast i32 B))))', "mk,kn->mn", "tile_i8"),
    "u8 by i8, rows of both": ("u8", "i8", '(composite f ((A{L}[M K] B{R}[N K]) -> (C{i32}[M N])) (return (einsum "ik,jk->ij" (cast i32 A) (cast i32 B))))', "mk,nk->mn", "tile_u8_i8"),
    "i8 by u8, transposed": ("i8", "u8", '(composite f ((A{L}[K M] B{R}[K N]) -> (C{i32}[M N])) (return (einsum "ki,kj->ij" (cast i32 A) (cast i32 B))))', "km,kn->mn", "tile_i8_u8"),
    "u8 by u8": ("u8", "u8", '(composite f ((A{L}[M K] B{R}[K N]) -> (C{i32}[M N])) (return (einsum "ik,kj->ij" (cast i32 A) (cast i32 B))))', "mk,kn->mn", "tile_u8_i8"),
    "batched": ("i8", "i8", '(composite f ((A{L}[G M K] B{R}[G K N]) -> (C{i32}[G M N])) (return (einsum "gik,gkj->gij" (cast i32 A) (cast i32 B))))', "gmk,gkn->gmn", "tile_i8"),
    "factors the other way round": ("i8", "i8", '(composite f ((A{L}[M K] B{R}[K N]) -> (C{i32}[M N])) (return (einsum "kj,ik->ij" (cast i32 B) (cast i32 A))))', "mk,kn->mn", "tile_i8"),
    "bf16": ("bf16", "bf16", "(composite f ((A{L}[M K] B{R}[K N]) -> (C{L}[M N])) (return (matmul A B)))", "mk,kn->mn", "tile_bf16"),
    "bf16, rows of both": ("bf16", "bf16", '(composite f ((A{L}[M K] B{R}[N K]) -> (C{L}[M N])) (return (einsum "ik,jk->ij" A B)))', "mk,nk->mn", "tile_bf16"),
    "bf16, transposed": ("bf16", "bf16", '(composite f ((A{L}[K M] B{R}[K N]) -> (C{L}[M N])) (return (einsum "ki,kj->ij" A B)))', "km,kn->mn", "tile_bf16"),
}  # fmt: skip
WITH_TILES = frozenset(INSTRUCTIONS) - {"dot4_i8"} | frozenset(TILES)


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every instruction is offered; on a machine without it, or for a target that does not name it, the portable body runs."""
    resolved = Driver.target
    monkeypatch.setattr(Driver, "target", lambda *given: replace(resolved(*given), instructions=WITH_TILES))


def agrees(kernel: Any, form: str, sizes: tuple[tuple[int, int, int], ...]) -> None:
    left, right, _, axes, _ = FORMS[form]
    rng = np.random.default_rng(3)
    for m, n, k in sizes:
        extent = {"g": 2, "m": m, "n": n, "k": k}
        shapes = [tuple(extent[a] for a in names) for names in axes.partition("->")[0].split(",")]
        operands = [
            whole(rng, d, shape) if d != "bf16" else rng.standard_normal(shape).astype(numpy_dtype(bf16))
            for d, shape in zip((left, right), shapes, strict=True)
        ]
        wide = [x.astype(np.float64) for x in operands]
        exact, size = np.einsum(axes, *wide), np.einsum(axes, *map(abs, wide))
        bound = 0 if left != "bf16" else (k + 2) * 2.0**-24 * size + 2.0**-8 * abs(exact)
        assert (abs(np.asarray(kernel(*operands)).astype(np.float64) - exact) <= bound).all(), (form, m, n, k)


@needs_cc
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("form", FORMS)
def test_compiled(form: str, target: str, offered: None) -> None:
    left, right, text, _, name = FORMS[form]
    kernel = luminal.compile(text, dtype={"L": left, "R": right}, target=target)
    assert f"{name}_{'f32' if left == 'bf16' else 'i32'}(" in kernel.source
    agrees(kernel, form, ((1, 1, 1), (33, 40, 0), (34, 997, 65), (70, 200, 2101), (40, 33, 8200)))


@needs_cc
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("form", ["u8 by i8, rows of both", "bf16, rows of both"])
def test_columns_that_lie_along_the_reduction_are_the_rows_of_tiles(form: str, target: str, offered: None) -> None:
    """Where there are fewer rows: what is larger is copied as it lies, and results are turned over in squares; a deep reduction comes in blocks."""
    left, right, text, _, _ = FORMS[form]
    kernel = luminal.compile(text, dtype={"L": left, "R": right}, target=target)
    (compilation,) = compilations(text, Settings(dtype={"L": left, "R": right}, target=target))
    (made,) = compilation.module.kernels
    parts = [p for p in ("\n" + "\n".join(made.schedule)).split("\nvariant") if p.startswith(" M * 2 <= N & 524288 <= K * N\n")]
    assert len(parts) == 1 and "stage B j.0.1" in parts[0] and "vectorize j.1.c.1" in parts[0]
    agrees(kernel, form, ((17, 1037, 512), (33, 70, 8200), (64, 1024, 515), (100, 301, 4200)))


@needs_cc
def test_few_rows_of_bf16_are_read_as_they_lie(offered: None) -> None:
    """A token of a layer with W[out, in]: no column is packed."""
    left, right, text, _, _ = FORMS["bf16, rows of both"]
    (compilation,) = compilations(text, Settings(dtype={"L": left, "R": right}, target="x86-64-v4"))
    (made,) = compilation.module.kernels
    assert made.schedule[0] == "variant M <= 4"
    kernel = luminal.compile(text, dtype={"L": left, "R": right}, target="x86-64-v4")
    agrees(kernel, "bf16, rows of both", ((1, 9, 16), (2, 33, 100), (3, 4, 1000), (4, 1, 7), (5, 64, 64)))


@needs_cc
@needs_tiles
@pytest.mark.parametrize("compiler", ["gcc", "clang-14"])
@pytest.mark.parametrize("form", ["bf16", "i8"])
def test_by_the_machine(form: str, compiler: str) -> None:
    """As a user of such a machine gets it, by either compiler."""
    from shutil import which

    if which(compiler) is None:
        pytest.skip(f"no {compiler}")
    left, right, text, _, name = FORMS[form]
    kernel = luminal.compile(text, dtype={"L": left, "R": right}, target="native", config={"CC": compiler})
    assert name in kernel.source
    agrees(kernel, form, ((100, 300, 500), (512, 512, 512)))


@needs_cc
@needs_tiles
@pytest.mark.parametrize("form", ["bf16", "i8"])
def test_a_system_that_lends_no_tile_registers(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The portable body runs where the request is refused (here: it asks for something else, which no system knows)."""
    left, right, text, _, _ = FORMS[form]
    rendered = Driver.render

    def asking(*given: Any) -> Any:
        found = rendered(*given)
        assert "0x1023" in found.source
        return replace(found, source=found.source.replace("0x1023", "0x1ffff"))

    monkeypatch.setattr(Driver, "render", asking)
    kernel = luminal.compile(text, dtype={"L": left, "R": right}, target="native")
    agrees(kernel, form, ((34, 997, 65), (70, 200, 2101)))


def test_named_machines_have_none() -> None:
    """`x86-64-v4` names no such feature: its source has none."""
    for form in ("bf16", "i8"):
        left, right, text, _, name = FORMS[form]
        words = ["compile", "-", "--dtype", f"L={left}", "--dtype", f"R={right}", "--target", "x86-64-v4", "--emit", "source"]
        done = CliRunner().invoke(cli, words, input=text, catch_exceptions=False)
        assert done.exit_code == 0 and name not in done.stdout, done.output


@needs_cc
def test_into_an_operand_with_an_epilogue(offered: None) -> None:
    """alpha A B + beta C, into C, with blocks of the reduction: partial sums have memory of their own."""
    gemm = luminal.compile("gemm", dtype={"T": "bf16"}, target="native")
    assert "tile_bf16_f32(" in gemm.source
    rng = np.random.default_rng(5)
    for m, n, k in ((37, 300, 0), (45, 301, 530), (65, 31, 4100)):
        a, b, c = (rng.standard_normal(s).astype(numpy_dtype(bf16)) for s in ((m, k), (k, n), (m, n)))
        wide = [x.astype(np.float64) for x in (a, b, c)]
        exact, size = 0.5 * wide[0] @ wide[1] + 2 * wide[2], 0.5 * abs(wide[0]) @ abs(wide[1]) + 2 * abs(wide[2])
        gemm(a, b, c, 0.5, 2.0)
        assert (abs(c.astype(np.float64) - exact) <= (k + 3) * 2.0**-24 * size + 2.0**-8 * abs(exact)).all(), (m, n, k)


@needs_cc
def test_small_numbers_are_kept(offered: None) -> None:
    """The instruction takes denormal numbers for zeros: panels that hold numbers whose products may be such, at any place of them, are multiplied without it."""
    kernel = luminal.compile(FORMS["bf16"][2], dtype={"L": "bf16", "R": "bf16"}, target="native")
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((90, 600)).astype(numpy_dtype(bf16)), rng.standard_normal((600, 200)).astype(numpy_dtype(bf16))
    a[3] = 0
    a[3, 599] = 2.0**-130
    a[70, :300] = (rng.standard_normal(300) * 2.0**-128).astype(a.dtype)
    b[:, 40:50] = (b[:, 40:50].astype(np.float64) * 2.0**-60).astype(b.dtype)
    wide = [x.astype(np.float64) for x in (a, b)]
    exact, size = wide[0] @ wide[1], abs(wide[0]) @ abs(wide[1])
    found = np.asarray(kernel(a, b)).astype(np.float64)
    assert (abs(found - exact) <= 602 * (2.0**-24 * size + 2.0**-149) + 2.0**-8 * abs(exact) + 2.0**-133).all()
    assert (found[3, 60:] != 0).any()


@needs_cc
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
def test_scores_in_a_cascade(target: str, offered: None) -> None:
    """Attention in bf16: neighbours along the size of a head are multiplied by tiles, tiny ones without them; blocks of rows end anywhere."""
    attention = luminal.compile("attention", dtype={"T": "bf16"}, target=target)
    assert "tile_bf16_f32(" in attention.source
    scores_agree(attention, [(1, 1, 1, 1, 1), (2, 57, 130, 33, 20), (1, 150, 65, 64, 64)])


@needs_cc
def test_strict_multiplies_floats_in_their_order(offered: None) -> None:
    source = luminal.compile(FORMS["bf16"][2], dtype={"L": "bf16", "R": "bf16"}, target="native", strict=True).source
    assert "tile_bf16" not in source


@needs_cc
@pytest.mark.parametrize("form", ["bf16", "u8 by u8"])
def test_nothing_beyond_its_memory(form: str, offered: None, tmp_path: Path) -> None:
    """Under UBSan and ASan, in a process of its own."""
    left, right, text, _, _ = FORMS[form]
    file = tmp_path / "f.lisp"
    file.write_text(text)
    words = [
        "compile",
        str(file),
        "--dtype",
        f"L={left}",
        "--dtype",
        f"R={right}",
        "--target",
        "native",
        "-c",
        "SANITIZE=all",
        "--test",
        "M=45, N=303, K=131",
    ]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
