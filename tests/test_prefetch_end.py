"""The step `prefetch_end`: the line that a row ends in is asked for before the row is worked on; and hints for the next row that loops share, one of them under a condition."""

from __future__ import annotations

import pytest
from luminal.compiler import Settings, compilations
from luminal.ir.evaluate import evaluate
from luminal.ir.kernel import If, Loop, Module, Prefetch
from luminal.ir.text import read, show
from luminal.ir.verify import verify
from luminal.passes.schedule import Facts, StepError, replay, unique
from scheduling import module

TILED = """kernels tiled v1
size M
size N
in X: f32[M, N]
out Y: f32[M, N]
kernel tiled_0(X, Y):
  for i in 0 .. M parallel:
    alloc s: f32[] register
    s[] = 0.0:f32
    for p in 0 .. N reduce:
      s[] add= X[i, p]
    alloc t: f32[] register
    t[] = 0.0:f32
    if N <= 65536:
      for q in 0 .. N reduce:
        t[] add= abs(X[i, q] - s[])
    for j in 0 .. N parallel:
      Y[i, j] = X[i, j] / t[]
"""
VECTORS = "split {0} 64 tail=cut\nrfactor {0}.1\nvectorize {0}.1"


def scheduled(m: Module, script: str) -> Module:
    result = m.with_kernels((replay(unique(m.kernels[0]), Facts.of(m), script),))
    verify(result)
    return result


def test_a_row_asks_for_its_end_before_all_else() -> None:
    m = scheduled(module("softmax"), "align j Y\nprefetch_end Y j\nsplit j 16 tail=cut\nvectorize j.1")
    (row,) = (s for s in m.kernels[0].body if isinstance(s, Loop))
    hint = row.body[0]
    assert isinstance(hint, Prefetch) and hint.write and hint.buffer == "Y"
    assert [evaluate(e, {"M": 7, "N": 30, "i": 3}) for e in hint.index] == [3, 29]
    assert read(show(m)) == m


def test_where_it_pays_is_asked() -> None:
    m = scheduled(module("softmax"), "prefetch_end Y j least=4096")
    (row,) = (s for s in m.kernels[0].body if isinstance(s, Loop))
    choice = row.body[0]
    assert isinstance(choice, If) and [type(s) for s in choice.body] == [Prefetch] and choice.condition.names == {"M", "N"}


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("prefetch_end X j", "`j` is no loop along the rows of `X`"),
        ("prefetch_end Y i", "`i` is no loop along the rows of `Y`"),
        ("prefetch_end Y j\nprefetch_end Y j", "asks for where a row of `Y` ends already"),
    ],
)
def test_what_is_refused(script: str, message: str) -> None:
    m = module("softmax")
    with pytest.raises(StepError, match=message):
        scheduled(m, script)


def test_rows_that_end_where_the_row_itself_says() -> None:
    text = TILED.replace("    for j in 0 .. N parallel", "    let n: i64 = i % N\n    for j in 0 .. n parallel")
    m = read(text)
    assert isinstance(m, Module)
    with pytest.raises(StepError, match="only known inside `i`"):
        scheduled(m, "prefetch_end Y j")


def test_what_is_printed_says_that_it_is_stored_into() -> None:
    (compilation,) = compilations("rms_norm", Settings(runtime="clang", target="x86-64-v4"))
    text = compilation.rendered.source
    assert "(N * i + N - 1) * 4, 1, 3);" in text


def test_the_last_pass_that_reads_a_row_asks_for_the_next_one() -> None:
    (compilation,) = compilations("layer_norm", Settings(runtime="clang", target="x86-64-v4"))
    lines = compilation.module.kernels[0].schedule
    assert [line for line in lines if line.startswith("prefetch X") and "over=4096" in line] == [
        "prefetch X j.0 i places=1 most=262144 over=4096 cache=2"
    ]
