"""Rows that are read side by side and come from memory: the step `prefetch_block` asks for each line of the next ones once, and products with a vector have a schedule for them that is as right as the other."""

from __future__ import annotations

from itertools import product

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.evaluate import evaluate
from luminal.ir.kernel import Loop, Module, Prefetch, statements
from luminal.ir.text import read, show
from luminal.ir.verify import verify
from luminal.passes.schedule import Facts, StepError, replay, unique

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 7
COLUMNS = """kernels columns v1
size M
size N
in X: f32[M, N]
out Y: f32[N]
kernel columns_0(X, Y):
  for j in 0 .. N parallel:
    Y[j] = 0.0:f32
  for i in 0 .. M reduce:
    for j.b in 0 .. N parallel:
      Y[j.b] add= X[i, j.b]
"""
SIDE_BY_SIDE = "split i {rows} tail=cut\nreorder j.b i.1\nsplit j.b {lanes} tail=cut\nreorder i.1 j.b.1\nunroll i.1\nvectorize j.b.1\n"
MATVEC = "(composite matvec ((A{T}[M N] x{T}[N]) -> (y{T}[M])) (return (matmul A x)))"
VECMAT = "(composite vecmat ((x{T}[M] A{T}[M N]) -> (y{T}[N])) (return (matmul x A)))"


def scheduled(script: str) -> Module:
    m = read(COLUMNS)
    assert isinstance(m, Module)
    result = m.with_kernels((replay(unique(m.kernels[0]), Facts.of(m), script),))
    verify(result)
    return result


@pytest.mark.parametrize(("rows", "lanes"), [(8, 16), (8, 8), (4, 4), (8, 32), (2, 16)])
def test_each_line_of_the_next_rows_is_asked_for_once(rows: int, lanes: int) -> None:
    m = scheduled(SIDE_BY_SIDE.format(rows=rows, lanes=lanes) + "prefetch_block X j.b.0 i.0 cache=2")
    assert read(show(m)) == m
    loop = next(s for s in statements(m.kernels[0].body) if isinstance(s, Loop) and s.axis == "j.b.0")
    (unrolled,) = (s for s in loop.body if isinstance(s, Loop) and any(isinstance(t, Prefetch) for t in s.body))
    hints = [h for h in unrolled.body if isinstance(h, Prefetch)]
    assert all(h.cache == 2 for h in hints) and all(isinstance(h, Prefetch) for h in unrolled.body)
    width = 40 * max(lanes, 16)  # whole lines
    sizes = {"M": 100, "N": width, "i.0": 3}
    trips, each = evaluate(loop.stop, sizes), evaluate(unrolled.stop, sizes)
    asked: list[int] = []
    for t, k, h in product(range(trips), range(each), hints):
        names = {**sizes, "j.b.0": t, unrolled.axis: k}
        row, column = (evaluate(e, names) for e in h.index)
        asked.append(row * width + column + evaluate(h.ahead, names))
    lines = [a // 16 for a in asked]
    wanted = range(4 * rows * width // 16, 5 * rows * width // 16)
    assert len(set(lines)) == len(lines) and set(wanted) <= set(lines)
    assert lines == sorted(lines)  # in the order of addresses


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("prefetch_block X j.b.0 j.b.0", "not inside"),
        ("prefetch_block Z j.b.0 i.0", "no buffer"),
        ("prefetch_block Y j.b.0 i.0", "reads no rows of `Y`"),
        ("prefetch_block X j.b.0 i.0 cache=3", "`cache` is 1 or 2, not 3"),
        ("prefetch_block X i.0 i.0", "is not inside"),
        ("prefetch_block X j.b.0 i.0 least=1 most=1", "never within 1"),
    ],
)
def test_what_it_refuses(script: str, message: str) -> None:
    with pytest.raises(StepError, match=message):
        scheduled(SIDE_BY_SIDE.format(rows=8, lanes=16) + script)


def test_it_wants_rows_and_vectors() -> None:
    with pytest.raises(StepError, match="no unrolled loop over rows"):
        scheduled("split i 8 tail=cut\nprefetch_block X j.b i.0")


def _script(text: str, target: str) -> list[str]:
    (c,) = compilations(text, Settings(runtime="clang", target=target))
    return [line for k in c.module.kernels for line in k.schedule]


def test_a_matrix_from_memory_has_more_rows_side_by_side() -> None:
    for dtype, elements in (("f32", 6291456), ("f64", 3145728)):
        script = _script(MATVEC.replace("{T}", f"{{{dtype}}}"), "x86-64-v4")
        begin = script.index(f"variant {elements} <= M * N")
        part = script[begin : script.index("variant", begin)]
        assert "split i 8" in part and [line for line in part if line.startswith("prefetch A")] == ["prefetch A p.0.v p.0.v near=262144 cache=2"]
    small = _script(MATVEC.replace("{T}", "{f32}").replace("M N", "100 N").replace("[M]", "[100]").replace("[N]", "[N]"), "x86-64-v4")
    assert any(line.startswith("variant") for line in small)
    fixed = _script(MATVEC.replace("{T}", "{f32}").replace("M N", "100 200").replace("[M]", "[100]").replace("[N]", "[200]"), "x86-64-v4")
    assert not any(line.startswith(("variant", "prefetch")) for line in fixed)  # the caches hold it
    hints = [line for line in _script(VECMAT.replace("{T}", "{f32}"), "x86-64-v4") if line.startswith("prefetch") and " A " in line]
    assert (
        [h.split()[0] for h in hints[:2]] == ["prefetch_block", "prefetch"] and "most=65536" in hints[0] and "trips=32" in hints[1]
    )  # short rows, and long ones


def test_rows_that_data_chooses_are_not_asked_for_as_if_they_lay_one_behind_the_other() -> None:
    paged = """(composite paged ((Q{f32}[H D] K{f32}[E S H D] V{f32}[E S H D] I{i32}[P]) -> (O{f32}[H D]))
      (setf p (softmax (reshape (einsum "hd,pshd->hps" Q (gather K I :axis 0)) H (* P S))))
      (return (einsum "hps,pshd->hd" (reshape p H P S) (gather V I :axis 0))))"""
    assert not any(line.startswith("prefetch_block V") for line in _script(paged, "x86-64-v4"))


@needs_cc
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
def test_products_of_a_matrix_from_memory(target: str) -> None:
    rng = np.random.default_rng(SEED)
    matvec, vecmat = (luminal.compile(t.replace("{T}", "{f32}"), runtime="clang", target=target) for t in (MATVEC, VECMAT))
    for m, n in ((13, 500_000), (1573, 4001), (100_003, 63)):
        a, x, z = rng.standard_normal((m, n), np.float32), rng.standard_normal(n, np.float32), rng.standard_normal(m, np.float32)
        assert a.nbytes >= 24 << 20
        np.testing.assert_allclose(matvec(a, x), a @ x.astype(float), rtol=1e-4, atol=2e-5 * n**0.5 * 10, err_msg=f"{m} × {n}, seed {SEED}")
        np.testing.assert_allclose(vecmat(z, a), z.astype(float) @ a, rtol=1e-4, atol=2e-5 * m**0.5 * 10, err_msg=f"{m} × {n}, seed {SEED}")
