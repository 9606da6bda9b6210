"""Kernels around a batched contraction that are worked off in blocks: which ones, that they mean the same, what they are scheduled as, and the same bits for any number of threads."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.expr import var
from luminal.ir.kernel import If, Loop, Module, Region, Store, statements
from luminal.ir.record import replace
from luminal.ir.target import Options, Target
from luminal.ir.text import read, show
from luminal.ir.verify import verify
from luminal.passes.join_blocks import join_blocks
from luminal.passes.schedule import Facts, replay, schedule, unique
from plain import printed
from running import TARGET, outputs

pytestmark = pytest.mark.usefixtures("plain_c")

OPTIONS = Options(level=2)
# caches so small that a few numbers are many, so that blocks are of a row or two
NEAR = replace(TARGET, vector_bytes=64, vector_registers=32, l1=1 << 10, l2=1 << 12, cores=2)
WIDE = Target("clang", "avx512", "avx512", vector_bytes=64, vector_registers=32, l1=48 << 10, l2=1 << 20, l3=1 << 24, cores=2, threads=True)

HEAD = """kernels planes v1
size R
size W
size G
size O
in X: f32[R, W, G]
in B: f32[2, G, O]
out Y: f32[R, W, O]
temp a: f32[2, R * W, G]
temp w: f32[2, G, O]
temp d: f32[2, R * W, O]
"""
MAKER = """
kernel planes_0(X, a):
  for i in 0 .. R parallel:
    for j in 0 .. W parallel:
      for k in 0 .. G parallel:
        a[0, i * W + j, k] = X[i, j, k]
        a[1, i * W + j, k] = X[i, j, k] * X[i, j, k]
"""
WEIGHTS = """
kernel planes_1(B, w):
  for i in 0 .. G parallel:
    alloc row: f32[O] private
    for j in 0 .. O parallel:
      row[j] = B[0, i, j] + B[1, i, j]
    for j1 in 0 .. O parallel:
      w[0, i, j1] = row[j1]
      w[1, i, j1] = row[j1] * 2.0:f32
"""
PRODUCT = """
kernel planes_2(a, w, d):
  for i in 0 .. 2 parallel:
    for k in 0 .. R * W parallel:
      for l in 0 .. O parallel:
        alloc acc: f32[] register
        acc[] = 0.0:f32
        for p in 0 .. G reduce:
          acc[] add= a[i, k, p] * w[i, p, l]
        d[i, k, l] = acc[]
"""
READER = """
kernel planes_3(Y, d):
  for i in 0 .. R parallel:
    for j in 0 .. W parallel:
      for l in 0 .. O parallel:
        Y[i, j, l] = d[0, i * W + j, l] - d[1, i * W + j, l]
"""
CHAIN = HEAD + MAKER + WEIGHTS + PRODUCT + READER
# what reads the products goes past its own row of them, or somebody else reads them: these stay in memory
APART = {
    "the next row": CHAIN.replace("d[1, i * W + j, l]", "d[1, min(i * W + j + 1, R * W - 1), l]"),
    "rows of another length": CHAIN.replace("i * W + j, l] -", "i * W * 1 + (W - 1 - j), l] -"),
}


def sized(r: int, w: int, g: int, o: int) -> dict[str, int]:
    return {"R": r, "W": w, "G": g, "O": o}


def values(sizes: dict[str, int], seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    r, w, g, o = (sizes[n] for n in "RWGO")
    return {"X": rng.standard_normal((r, w, g)).astype(np.float32), "B": rng.standard_normal((2, g, o)).astype(np.float32)}


def expected(inputs: dict[str, np.ndarray]) -> np.ndarray:
    x, b = (inputs[n].astype(np.float64) for n in "XB")
    row = b[0] + b[1]
    return x @ row - (x * x) @ (row * 2)


def blocks_of(ir: Module) -> list[Loop]:
    return [s for kernel in ir.kernels for s in statements(kernel.body) if isinstance(s, Loop) and s.axis == "block"]


def test_rows_or_columns_by_the_sizes() -> None:
    """The larger operand is the one that is cut; both are kept where the sizes leave it open, and the kernels one after the other."""
    whole = read(CHAIN)
    assert isinstance(whole, Module)
    verify(whole)
    joined = join_blocks(whole, NEAR, OPTIONS)
    verify(joined)
    assert read(show(joined)) == joined
    assert len(blocks_of(joined)) == 2
    assert [len(k.body) == 1 and isinstance(k.body[0], If) for k in joined.kernels] == [True] * 6
    assert join_blocks(whole, replace(NEAR, gpu=True), OPTIONS) is whole
    rows, columns = joined.kernels[4:]
    assert set(rows.buffers) == {"X", "Y", "w"}
    assert set(columns.buffers) == {"B", "Y", "a"}


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_blocks_mean_the_same(cores: int) -> None:
    """At sizes below, at and above a block, with rows and blocks that are empty."""
    whole = read(CHAIN)
    assert isinstance(whole, Module)
    joined = join_blocks(whole, replace(NEAR, cores=cores), OPTIONS)
    ran = set()
    for seed, s in enumerate(
        [
            (1, 1, 1, 1),
            (0, 3, 2, 2),
            (3, 0, 2, 2),
            (3, 2, 0, 2),
            (2, 3, 2, 0),
            (7, 3, 2, 5),
            (9, 1, 5, 3),
            (1, 2, 9, 40),
            (3, 2, 20, 67),
            (2, 2, 16, 33),
            (1, 3, 33, 35),
            (1, 1, 48, 32),
            (13, 6, 4, 4),
        ]
    ):
        sizes = sized(*s)
        inputs = values(sizes, seed)
        got = outputs(joined, dict(inputs), sizes, seed)
        assert got is not None
        np.testing.assert_allclose(got["Y"], expected(inputs), rtol=1e-4, atol=1e-4)
        ran |= {n for n, k in (("rows", 4), ("columns", 5)) if holds(joined, k, sizes)}
    assert ran == {"rows", "columns"}


def test_a_deep_sum_is_made_in_pieces() -> None:
    """Of the operand that the columns are cut of a block holds one piece of its depth, and sums are added up; not under --strict, and not where one piece is all."""
    whole = read(CHAIN)
    assert isinstance(whole, Module)

    def pieces(ir: Module, options: Options = OPTIONS) -> list[list[Loop]]:
        joined = join_blocks(ir, NEAR, options)
        verify(joined)
        return [[s for s in statements(k.body) if isinstance(s, Loop) and s.axis == "piece"] for k in joined.kernels[4:]]

    rows, columns = pieces(whole)
    assert not rows and len(columns) == 1
    makes, multiplies = (s for s in columns[0].body if isinstance(s, Loop))
    assert makes.stop is var("deep")
    assert [s.combiner for s in statements((multiplies,)) if isinstance(s, Store) and "d_block" in s.buffer] == ["add"]
    assert pieces(whole, replace(OPTIONS, strict=True)) == [[], []]
    few = read(CHAIN.replace("size G\n", "").replace("G]", "8]").replace("G,", "8,").replace(" G ", " 8 "))
    assert isinstance(few, Module)
    assert not any(pieces(few))


# what goes through the depth reads or writes past its own position of it
ASTRAY = {
    "the next of the depth": WEIGHTS.replace("w[1, i, j1]", "w[1, min(i + 1, G - 1), j1]"),
    "from the end": WEIGHTS.replace("w[1, i, j1]", "w[1, G - 1 - i, j1]"),
}


@pytest.mark.parametrize("name", ASTRAY)
def test_what_strays_in_the_depth_is_made_whole(name: str) -> None:
    whole = read(HEAD + MAKER + ASTRAY[name] + PRODUCT + READER)
    assert isinstance(whole, Module)
    joined = join_blocks(whole, NEAR, OPTIONS)
    verify(joined)
    assert not any(isinstance(s, Loop) and s.axis == "piece" for k in joined.kernels for s in statements(k.body))


def holds(ir: Module, kernel: int, sizes: dict[str, int]) -> bool:
    from luminal.ir.evaluate import evaluate

    (branch,) = ir.kernels[kernel].body
    assert isinstance(branch, If)
    return bool(evaluate(branch.condition, sizes))


@pytest.mark.parametrize("name", APART)
def test_what_is_no_block_of_its_own_stays(name: str) -> None:
    whole = read(APART[name])
    assert isinstance(whole, Module)
    verify(whole)
    joined = join_blocks(whole, NEAR, OPTIONS)
    verify(joined)
    rows = [k for k in joined.kernels if "X" in k.buffers and "Y" in k.buffers]
    assert not rows, show(joined)
    inputs, sizes = values(sized(5, 3, 4, 3), 3), sized(5, 3, 4, 3)
    a, b = (outputs(m, dict(inputs), sizes, 1) for m in (whole, joined))
    assert a is not None and b is not None
    np.testing.assert_array_equal(a["Y"], b["Y"])


def test_a_second_reader_keeps_the_products_in_memory() -> None:
    text = CHAIN.replace("out Y: f32[R, W, O]\n", "out Y: f32[R, W, O]\nout Z: f32[R * W]\n")
    whole = read(text + "\nkernel planes_4(Z, d):\n  for i in 0 .. R * W parallel:\n    Z[i] = d[0, R * W - 1 - i, 0]\n")
    assert isinstance(whole, Module)
    verify(whole)
    joined = join_blocks(whole, NEAR, OPTIONS)
    verify(joined)
    assert all("d" in k.buffers for k in joined.kernels if any(isinstance(s, Loop) and s.axis == "block" for s in statements(k.body)))


@pytest.mark.parametrize(("entry", "joins"), [("V[q, l]", True), ("V[l, q]", False)])
def test_a_product_that_wants_panels_is_no_part_of_a_block(entry: str, joins: bool) -> None:
    """Of the second matrix vectors of columns are consecutive, of the first they are not: that one is packed, which is no work for a block."""
    second = f"""
kernel planes_3(V, Y, d):
  for i in 0 .. R parallel:
    for j in 0 .. W parallel:
      for l in 0 .. O parallel:
        alloc sum: f32[] register
        sum[] = 0.0:f32
        for q in 0 .. O reduce:
          sum[] add= (d[0, i * W + j, q] - d[1, i * W + j, q]) * {entry}
        Y[i, j, l] = sum[]
"""
    whole = read(HEAD.replace("out Y", "in V: f32[O, O]\nout Y") + MAKER + WEIGHTS + PRODUCT + second)
    assert isinstance(whole, Module)
    verify(whole)
    joined = join_blocks(whole, NEAR, OPTIONS)
    verify(joined)
    assert any("V" in k.buffers and "d" not in k.buffers for k in joined.kernels) is joins, show(joined)


def test_what_stands_before_the_loops_of_a_product_keeps_it_apart() -> None:
    """A number of no position, made before them: `2 Σx`."""
    text = """(composite shifted ((Q{f32}[H N D] K{f32}[H N D] V{f32}[H N D] x{f32}[W]) -> (O{f32}[H N D]))
      (setf s (tanh (matmul Q (transpose K 0 2 1))))
      (return (+ (matmul s V) (* 2 (sum x)))))"""
    (c,) = compilations(text, Settings(strict=True))
    assert not blocks_of(c.run(stop_after="join_blocks"))


def test_the_schedule_of_a_block_replays() -> None:
    """One team of threads for the blocks, register tiles for the contraction, vectors for what is around it."""
    whole = read(CHAIN)
    assert isinstance(whole, Module)
    fixed = read(CHAIN.replace("size R\n", "").replace("size W\n", "").replace("size G\n", "").replace("size O\n", "").replace("R * W", "4096").replace("i * W", "i * 64")
                 .replace(" R ", " 64 ").replace("[R,", "[64,").replace(" W ", " 64 ").replace(" W,", " 64,").replace(" G ", " 32 ").replace(" G]", " 32]").replace(" G,", " 32,")
                 .replace(" O ", " 32 ").replace(" O]", " 32]").replace("[O]", "[32]"))  # fmt: skip
    assert isinstance(fixed, Module)
    joined = join_blocks(fixed, WIDE, OPTIONS)
    assert len(blocks_of(joined)) == 1 and len(joined.kernels) == 2 and [t.name for t in joined.temps] == ["w"]
    done = schedule(joined, WIDE, OPTIONS)
    verify(done)
    kernel = done.kernels[-1]
    assert any(isinstance(s, Region) for s in statements(kernel.body))
    assert sum(line.startswith("parallel") for line in kernel.schedule) == 1
    assert any(line.startswith("expand acc") for line in kernel.schedule), kernel.schedule
    again = replay(unique(joined.kernels[-1]), Facts.of(joined), kernel.schedule)
    assert again.body == kernel.body
    free = schedule(join_blocks(whole, WIDE, OPTIONS), WIDE, OPTIONS)
    verify(free)
    # columns of a block's own are as many as a narrow tile has: nothing is left over that would want tiles of one to four vectors
    rows, columns = (k.schedule for k in free.kernels[4:])
    assert any(line.startswith("short") for line in rows) and not any(line.startswith("short") for line in columns)
    for before, after in zip(join_blocks(whole, WIDE, OPTIONS).kernels, free.kernels, strict=True):
        assert replay(unique(before), Facts.of(free), after.schedule).body == after.body


CONVOLUTION = "(composite f ((X{f32}[B C H W] K{f32}[O C 3 3]) -> (Y{f32}[B O H W])) (return (conv2d X K :padding 1)))"
CASES = [(1, 20, 29, 31, 36), (2, 33, 21, 40, 17), (1, 70, 13, 12, 90), (1, 100, 9, 9, 130), (3, 24, 16, 16, 24)]
CHILD = f"""
import hashlib, luminal, numpy as np
f = luminal.compile({CONVOLUTION!r}, fast=True)
for k, (b, c, h, w, o) in enumerate({CASES!r}):
    rng = np.random.default_rng(k)
    x, y = rng.standard_normal((b, c, h, w)).astype("f4"), rng.standard_normal((o, c, 3, 3)).astype("f4")
    print(hashlib.sha256(f(x, y).tobytes()).hexdigest())
"""


@needs_cc
def test_convolutions_in_blocks() -> None:
    """Odd images, channels that are no multiple of a vector, several images: by rows of tiles and by columns of filters."""
    (c,) = compilations(CONVOLUTION, Settings(fast=True))
    assert len(blocks_of(c.run(stop_after="join_blocks"))) == 2
    kernel = luminal.compile(CONVOLUTION, fast=True)
    for k, (b, g, h, w, o) in enumerate(CASES):
        rng = np.random.default_rng(k)
        x, f = rng.standard_normal((b, g, h, w)).astype(np.float32), rng.standard_normal((o, g, 3, 3)).astype(np.float32)
        padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
        want = sum(
            np.einsum("bchw,oc->bohw", padded[:, :, r : r + h, s : s + w], f[:, :, r, s].astype(np.float64)) for r in range(3) for s in range(3)
        )
        np.testing.assert_allclose(kernel(x, f), want, rtol=1e-3, atol=1e-3)


@needs_cc
def test_the_same_bits_for_any_number_of_threads() -> None:
    found = set(printed(CHILD, (1, 2, 3)))
    assert len(found) == 1
