"""Cascades of few rows along a long axis: chunks side by side, whose states are merged; the same bits for any number of threads."""

from __future__ import annotations

import random

import luminal
import numpy as np
import pytest
import test_cascade
import test_cascade_invented
import test_cascade_moments
import test_cascade_scores
from cascades import OPTIONS, SEED, after, before, inputs_of, naive, nests
from compilers import needs_cc
from luminal.ir.evaluate import evaluate
from luminal.ir.expr import const, var
from luminal.ir.kernel import Alloc, If, Kernel, Let, Loop, Prefetch, Store, statements
from luminal.ir.program import Region, statements as lines
from luminal.ir.record import replace
from luminal.ir.target import Target
from luminal.ir.walks import substitute
from luminal.passes.legalize import legalize
from luminal.passes.lower import lower
from luminal.passes.schedule import Facts, replay, schedule, unique
from plain import printed
from running import TARGET, agree, draw, meaning, outputs

pytestmark = pytest.mark.usefixtures("plain_c")

FEW: dict[str, str] = {
    **{f"{name}, {k}": one[0] for k, table in enumerate((test_cascade.ONE_PASS, test_cascade_moments.ONE_PASS, test_cascade_scores.SHARED)) for name, one in table.items()},
    **{f"{name}, invented": one[0] for name, one in test_cascade_invented.INVENTED.items()},
    "a row alone": "((X{f32}[N]) -> (Y{f32}[N])) (return (softmax X))",
    "a row alone, to a number": "((X{f32}[N]) -> (Y{f32}[])) (return (logsumexp X))",
    "variance of a row alone": "((X{f32}[N]) -> (Y{f32}[])) (setf d (- X (mean X))) (return (mean (* d d)))",
    "a row and its logarithm": "((X{f32}[N]) -> (Y{f32}[N] L{f32}[])) (return (softmax X) (logsumexp X))",
    "position of a row's maximum in scores": '((Q{f32}[D] K{f32}[M D]) -> (I{i64}[] Y{f32}[])) (setf s (einsum "d,jd->j" Q K)) (return (argmax s) (max s))',
}  # fmt: skip
VECTORS = Target(
    "clang", "test", "16 lanes", native=TARGET.native, dtypes=TARGET.dtypes, arithmetic=TARGET.arithmetic, vector_bytes=64, vector_registers=32
)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tensors have several chunks, of several tiles."""
    monkeypatch.setattr("luminal.passes.nests.nest_cascade.LONG_TILE", 32)
    monkeypatch.setattr("luminal.passes.nests.nest_cascade.TILE", 64)
    monkeypatch.setattr("luminal.passes.nests.nest_cascade.FEW_TILE", 32)
    monkeypatch.setattr("luminal.passes.nests.nest_moments.CACHED", 128)
    for name, value in (("CHUNKS", 3), ("PIECES", 6), ("LIGHT", 64), ("HEAVY", 64), ("ROWS", 9)):
        monkeypatch.setattr(f"luminal.passes.nests.split_cascade.{name}", value)


def _split(kernel: Kernel) -> bool:
    return any("side by side" in note for note in kernel.notes)


@pytest.mark.parametrize("name", FEW)
def test_chunks_mean_the_same(name: str) -> None:
    """Rows of nothing but -inf, chunks of nothing else, huge values; lengths of the axis around chunks and tiles; and rows too many, or too short, to be split."""
    graph = naive(FEW[name])
    module = nests(after(before(FEW[name])))
    if not any(map(_split, module.kernels)):
        assert name == "linear, written as a square, 2", "only this is left to several kernels"
        return
    legal = legalize(module, TARGET, OPTIONS)
    rng = random.Random(f"{SEED} {name}")
    names = {s.name for s in graph.sizes}
    for length in rng.sample((127, 128, 129, 193, 257), 1):
        sizes = {s.name: rng.choice((1, 2, 3)) for s in graph.sizes} | {("M" if {"M", "D"} <= names else "N"): length}
        seed = rng.randrange(3)
        print(f"seed {seed}, sizes {sizes}")
        inputs = inputs_of(graph, sizes, seed)
        for x in (inputs[key] for key in "XB" if seed == 1 and key in inputs and inputs[key].dtype.kind == "f"):
            x[..., 64:128] = -np.inf
        agree(outputs(legal, inputs, sizes, seed), meaning(graph, inputs, sizes), graph, f"{name}, seed {seed}, sizes {sizes}")


@pytest.mark.parametrize(
    "name", ["softmax, 0", "one query, 0", "grouped queries, 0", "causal, 0", "layer norm, 1", "a row alone", "push and pull, invented"]
)
def test_scheduled(name: str) -> None:
    """Both forms of a kernel are scheduled, the script replays, and the result means the same."""
    graph = naive(FEW[name])
    legal = legalize(nests(after(before(FEW[name]))), VECTORS, OPTIONS)
    done = schedule(legal, VECTORS, OPTIONS)
    for old, new in zip(legal.kernels, done.kernels, strict=True):
        again = replay(unique(old), Facts.of(legal), new.schedule)
        assert again.body == new.body and again.schedule == new.schedule
        assert sum(line.startswith("variant") for line in new.schedule) in (
            (2, 3, 4) if _split(old) else (0,)
        )  # rows that are short besides, and rows that are piped
        assert any(isinstance(s, Loop) and s.kind == "vector" for s in statements(new.body))
    names = {s.name for s in graph.sizes}
    for seed, length in enumerate((129,)):
        sizes = {s.name: 3 for s in graph.sizes} | {("M" if {"M", "D"} <= names else "N"): length}
        inputs = draw(graph, sizes, seed)
        agree(outputs(done, inputs, sizes, seed), meaning(graph, inputs, sizes), graph, f"{name}, scheduled, seed {seed}")


@pytest.mark.parametrize(
    ("registers", "columns", "strips"),
    [(32, "E", {128, 64, 16}), (16, "E", {128, 64, 16}), (8, "E", {64, 16}), (32, "64", {64}), (32, "100", {64, 16})],
)
def test_strips_along_a_kept_axis(registers: int, columns: str, strips: set[int]) -> None:
    """As many vectors side by side as half of the registers hold, and no more than there are columns; what is left by fewer."""
    text = f'((P{{f32}}[H M] V{{f32}}[H M {columns}]) -> (O{{f32}}[H {columns}])) (return (einsum "hj,hje->he" (softmax P :axis 1) V))'
    target = replace(VECTORS, vector_registers=registers)
    notes = [
        note.split() for kernel in schedule(legalize(nests(after(before(text))), target, OPTIONS), target, OPTIONS).kernels for note in kernel.notes
    ]
    assert {int(words[2]) for words in notes if words[:2] == ["vectors", "of"] and "kept" in words} == strips


@pytest.mark.parametrize("registers", [32, 16])
def test_rows_that_share_keys_and_values_ask_ahead_for_both(monkeypatch: pytest.MonkeyPatch, registers: int) -> None:
    """Values are weighed in register tiles, four rows to a vector; keys are scored in tiles of rows and neighbours.  All ask for what they read next, as a row alone does."""
    monkeypatch.setattr("luminal.passes.nests.nest_cascade.FEW_TILE", 256)
    scored, weighed = 'einsum "had,hjd->haj" Q K', 'einsum "haj,hje->hae"'
    several = f"((Q{{f32}}[H A D] K{{f32}}[H M D] V{{f32}}[H M E]) -> (O{{f32}}[H A E])) (return ({weighed} (softmax ({scored}) :axis -1) V))"
    target = replace(VECTORS, vector_registers=registers, vector_bytes=2 * registers)
    for text in (several, several.replace("H A ", "H ").replace("ha", "h")):
        (kernel,) = schedule(legalize(nests(after(before(text))), target, OPTIONS), target, OPTIONS).kernels
        hints = [line.split() for line in kernel.schedule if line.startswith(("prefetch K", "prefetch V"))]
        assert {(words[1], words[4].split("=")[0]) for words in hints} == {("K", "near"), ("V", "trips")}
        assert any("rows of" in note and "share" in note and "loaded once" in note for note in kernel.notes) is (text is several)


@pytest.mark.parametrize(("dtype", "lines"), [("f32", False), ("bf16", True)])
def test_each_line_is_asked_for_once(dtype: str, lines: bool) -> None:
    """A vector of sums in f32 reads half a line of bf16: every other one asks."""
    text = f"((Q{{{dtype}}}[H D] K{{{dtype}}}[H M D] V{{{dtype}}}[H M E]) -> (O{{{dtype}}}[H E])) "
    text += '(return (einsum "hj,hje->he" (softmax (einsum "hd,hjd->hj" Q K) :axis -1) V))'
    (kernel,) = schedule(legalize(nests(after(before(text))), VECTORS, OPTIONS), VECTORS, OPTIONS).kernels
    turns = [s for s in statements(kernel.body) if isinstance(s, Loop) and any(isinstance(t, If) and "w.0" in t.condition.names for t in s.body)]
    asking = {s.buffer for x in turns for s in statements(x.body) if isinstance(s, Prefetch)}
    assert asking == ({"K"} if lines else set())


def test_few_chunks_are_half_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """700 positions in chunks of 512 would be one of 512 and one of 188."""
    for name, value in (("CHUNKS", 64), ("PIECES", 128), ("HEAVY", 512)):
        monkeypatch.setattr(f"luminal.passes.nests.split_cascade.{name}", value)
    text = '((Q{f32}[H A D] K{f32}[H M D] V{f32}[H M E]) -> (O{f32}[H A E])) (return (einsum "haj,hje->hae" (softmax (einsum "had,hjd->haj" Q K) :axis -1) V))'
    (kernel,) = nests(after(before(text))).kernels
    lets = {s.name: s.value for s in statements(kernel.body) if isinstance(s, Let)}

    def chunks(heads: int, rows: int, positions: int) -> tuple[object, object]:
        sizes = {"H": heads, "A": rows, "D": 64, "E": 64, "M": positions}
        size = evaluate(lets["size"], sizes)
        return size, evaluate(lets["chunks"], {**sizes, "size": size})

    assert chunks(1, 16, 700) == (256, 3) and chunks(1, 1, 512) == (256, 2) and chunks(1, 4, 1500) == (256, 6) and chunks(1, 1, 100) == (256, 1)
    assert (
        chunks(8, 4, 500) == (512, 1) and chunks(4, 1, 1024) == (512, 2) and chunks(1, 1, 8192) == (512, 16) and chunks(1, 1, 100_000) == (2048, 49)
    )


@pytest.mark.parametrize(("M", "threads"), [(384, False), (1024, True), (8192, True)])
def test_chunks_are_shared_where_their_positions_are_worth_a_team(M: int, threads: bool) -> None:
    """What the chunks hold together decides, not one of them: a single head of 1024 × 128 is a megabyte."""
    text = (
        '((Q{f32}[H D] K{f32}[H M D] V{f32}[H M E]) -> (O{f32}[H E])) (return (einsum "hj,hje->he" (softmax (einsum "hd,hjd->hj" Q K) :axis -1) V))'
    )
    target = replace(VECTORS, threads=True)
    program = lower(schedule(legalize(nests(after(before(text))), target, OPTIONS), target, OPTIONS), target, OPTIONS)
    alone = next(
        s.serial_if
        for f in program.functions
        for s in lines(f.body)
        if isinstance(s, Region) and s.serial_if is not None and "chunks" in s.serial_if.names
    )
    assert evaluate(substitute(alone, {var("chunks"): const(max(1, M // 512))}), {"H": 1, "D": 128, "E": 128, "M": M}) is not threads


def test_sizes_that_are_known_choose_once() -> None:
    def forms(ports: str) -> tuple[bool, bool]:
        (kernel,) = nests(
            after(before(f"(({ports}) -> (Y{{f32}}[M])) (return (logsumexp X :axis 1))".replace("[M]", f"[{ports[7:].split()[0]}]")))
        ).kernels
        return _split(kernel), isinstance(kernel.body[0], If)

    assert forms("X{f32}[4 1000]") == (True, False)
    assert forms("X{f32}[40 1000]") == (False, False)
    assert forms("X{f32}[4 100]") == (False, False)
    assert forms("X{f32}[M 1000]") == (True, True)


@pytest.mark.parametrize("sizes", ["H A D M E", "2 4 64 512 64", "2 3 64 512 64"])
def test_rows_share_tiles_where_sizes_are_known_too(sizes: str) -> None:
    """Nothing then stands between the loops over rows and chunks: they are split from what is merged, as under the condition on the sizes."""
    h, a, d, m, e = sizes.split()
    text = f"((Q{{f32}}[{h} {a} {d}] K{{f32}}[{h} {m} {d}] V{{f32}}[{h} {m} {e}]) -> (O{{f32}}[{h} {a} {e}])) "
    text += '(return (einsum "haj,hje->hae" (softmax (einsum "had,hjd->haj" Q K) :axis -1) V))'
    (kernel,) = schedule(legalize(nests(after(before(text))), VECTORS, OPTIONS), VECTORS, OPTIONS).kernels
    assert any("rows share each tile" in note for note in kernel.notes)
    (step,) = (line for line in kernel.schedule if line.startswith("split i3 "))
    assert step == f"split i3 {min(8, int(a)) if a.isdigit() else 8}"


@pytest.mark.parametrize("length", [128, 200, 513])
def test_scores_in_memory_are_numbers(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    """Blocks of keys through which a row runs as one axis: the scores are stored, and the cascade reads numbers; chunks shorter than a long tile are not taken for more than they hold."""
    monkeypatch.setattr("luminal.passes.nests.nest_cascade.LONG_TILE", 256)
    text = '((Q{f32}[H D] K{f32}[P S H D]) -> (Y{f32}[H (* P S)])) (return (softmax (reshape (einsum "hd,pshd->hps" Q K) H (* P S))))'
    graph = naive(text)
    for light in (64, 512):
        monkeypatch.setattr("luminal.passes.nests.split_cascade.LIGHT", light)
        module = nests(after(before(text)))
        assert any(map(_split, module.kernels))
        for sizes in ({"H": 2, "D": 3, "P": length, "S": 1}, {"H": 1, "D": 3, "P": 3, "S": length}):
            inputs = inputs_of(graph, sizes, SEED)
            agree(outputs(legalize(module, TARGET, OPTIONS), inputs, sizes, SEED), meaning(graph, inputs, sizes), graph, f"{sizes}")


def test_rows_that_share_keys_are_few_by_the_block() -> None:
    """However short the keys are and however many blocks of rows there are: panels of keys are packed for more rows than a block has."""

    def split(blocks: int, rows: int, keys: int) -> bool:
        ports = f"Q{{f32}}[{blocks} {rows} 8] K{{f32}}[{blocks} {keys} 8] V{{f32}}[{blocks} {keys} 8]"
        scores = 'einsum "gad,gjd->gaj" Q K'
        text = f'(({ports}) -> (O{{f32}}[{blocks} {rows} 8])) (return (einsum "gaj,gje->gae" (softmax ({scores}) :axis -1) V))'
        (kernel,) = nests(after(before(text))).kernels
        assert not isinstance(kernel.body[0], If), "known sizes choose once"
        return _split(kernel)

    assert split(2, 4, 10) and split(5000, 4, 10) and split(5000, 16, 1000)
    assert not split(1, 17, 10) and not split(5000, 17, 1000)


def test_an_update_in_place_stays_one() -> None:
    """Both forms read the old contents before they store the new."""
    module = nests(after(before("((X{f32}[M N]) -> (X)) (setf X (softmax X :axis 1))")))
    assert len(module.kernels) == 1 and _split(module.kernels[0])
    assert not any(t.shape == module.ports[0].shape for t in module.temps)


CHILD = f"""
import luminal, numpy as np, hashlib
rng = np.random.default_rng({SEED})
h = hashlib.sha256()
f = luminal.compile('''(composite few ((X{{f32}}[M N] Q{{f32}}[H D] G{{f32}}[H A D] K{{f32}}[H L D] V{{f32}}[H L D]) -> (Y{{f32}}[M N] S{{f32}}[M] W{{f32}}[M] O{{f32}}[H D] P{{f32}}[H A D]))
  (return (softmax X :axis 1) (logsumexp X :axis 1) (var X :axis 1)
    (einsum "hj,hje->he" (softmax (einsum "hd,hjd->hj" Q K) :axis -1) V) (einsum "haj,hje->hae" (softmax (einsum "had,hjd->haj" G K) :axis -1) V)))''', runtime="clang")
for m, n, heads, length, d in [(1, 200_001, 1, 2100, 24), (3, 70_000, 4, 1024, 83), (40, 33_000, 40, 1500, 8)]:
    x = rng.standard_normal((m, n)).astype(np.float32)
    x[0, 100:40_000] = -np.inf
    q, g, k, v = (rng.standard_normal(s).astype(np.float32) for s in ((heads, d), (heads, 7, d), (heads, length, d), (heads, length, d)))
    found = f(x, q, g, k, v)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    scores = np.einsum("had,hjd->haj", np.concatenate([q[:, None], g], 1).astype(np.float64), k)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    o = np.einsum("haj,hje->hae", p / p.sum(-1, keepdims=True), v)
    with np.errstate(invalid="ignore"):
        want = (e / e.sum(1, keepdims=True), np.log(e.sum(1)) + x.max(1), x.astype(np.float64).var(1), o[:, 0], o[:, 1:])
    for name, a, b in zip("YSWOP", found, want):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 if name in "OP" else 0, err_msg=name)
        h.update(np.asarray(a).tobytes())
print(h.hexdigest())
"""


@needs_cc
def test_the_same_bits_for_any_number_of_threads() -> None:
    found = printed(CHILD, (1, 2, 3, 8))
    assert len(set(found)) == 1 and len(found[0]) == 65, found


@needs_cc
def test_compiled_with_nothing_to_see() -> None:
    """Chunks and rows that are all masked, and infinite or huge scores, give what one pass gives."""
    f = luminal.compile(
        "(composite rows ((X{f32}[M N]) -> (Y{f32}[M N] L{f32}[M])) (return (softmax X :axis 1) (logsumexp X :axis 1)))", runtime="clang"
    )
    x = np.random.default_rng(SEED).standard_normal((5, 300)).astype(np.float32)
    x[0] = -np.inf
    x[1, :299] = -np.inf
    x[2] *= 1e30
    x[3, 70] = np.inf
    x[4, 70] = np.nan
    found = f(x)
    assert np.isnan(found[0][0]).all() and found[1][0] == -np.inf
    assert (found[0][1] == (np.arange(300) == 299)).all() and found[1][1] == x[1, 299]
    assert (found[0][2] == (x[2] == x[2].max())).all() and found[1][2] == x[2].max()
    assert np.isnan(found[0][3]).all() and found[1][3] == np.inf
    assert np.isnan(found[0][4]).all() and np.isnan(found[1][4])


def test_only_what_is_asked_is_merged() -> None:
    """Of a variance, the sum of differences is what others are corrected by, chunk by chunk; of a softmax, one sum needs the corrections, and works them out itself."""
    for name in ("variance of a row alone", "a row alone"):
        kernel = next(k for k in nests(after(before(FEW[name]))).kernels if _split(k))
        choice = next(s for s in kernel.body if isinstance(s, If))
        chunks = next(k for k, s in enumerate(choice.body) if isinstance(s, Loop))
        merged = choice.body[chunks + 1 :]
        assert len({s.buffer for s in statements(merged) if isinstance(s, Store) and s.combiner}) == 2
        assert not any(isinstance(s, Alloc) and s.buffer.shape for s in statements(merged))


def test_states_of_few_chunks_are_one_loop_of_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are a few vectors of them at most: none is cut off for being whole, and none asks for the next."""
    monkeypatch.setattr("luminal.passes.nests.split_cascade.CHUNKS", 64)
    monkeypatch.setattr("luminal.passes.nests.split_cascade.PIECES", 128)
    for name in ("a row and its logarithm", "softmax, 0"):
        done = schedule(legalize(nests(after(before(FEW[name]))), VECTORS, OPTIONS), VECTORS, OPTIONS)
        steps = [line for k in done.kernels for line in k.schedule]
        assert any(line.startswith("rfactor ") and line.endswith(" skip=1") for line in steps), steps
        assert not any(line.startswith(("peel ", "prefetch temp")) for line in steps), steps
