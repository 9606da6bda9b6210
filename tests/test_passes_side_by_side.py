"""The step `pipeline`: passes over a row side by side, each on a row of its own; the bits stay, for any number of rows and columns; and where it is taken."""

from __future__ import annotations

import numpy as np
import pytest
from luminal.ir.expr import size
from luminal.ir.interpret.kernel import run
from luminal.ir.kernel import Alloc, Loop, Module, statements, written
from luminal.ir.record import replace
from luminal.ir.target import Options, Target
from luminal.ir.text import read, show
from luminal.ir.verify import verify
from luminal.passes.schedule import Facts, StepError, replay, schedule, unique
from luminal.passes.schedule.tree import reads
from scheduling import module

# A scalar and an array that two later passes read, a position and a value that are named for them, and what is stored between passes.
FOUR = """kernels four v1
size M
size N max 16
in X: f32[M, N]
in S: f32[M]
out Y: f32[M, N]
out Z: f32[M]
kernel four_0(X, S, Y, Z):
  for i in 0 .. M parallel:
    alloc e: f32[16] stack
    alloc m: f32[] register
    m[] = -inf:f32
    for p in 0 .. N reduce:
      m[] max= X[i, p]
    let t: f32 = m[] * 2.0:f32
    let a: i64 = i * 3 % 5
    alloc s: f32[] register
    s[] = S[i]
    for q in 0 .. N reduce:
      e[q] = X[i, q] - t
      s[] add= e[q]
    Z[i] = s[] + m[]
    alloc c: f32[] register
    c[] = 1.0:f32
    for r in 0 .. N reduce:
      c[] add= e[r] * s[] + X[i, r] + cast.f32(a)
    let u: f32 = c[] + t
    for j in 0 .. N parallel:
      Y[i, j] = e[j] / u + m[]
"""
VECTORS = "split {0} 4 tail=cut\nrfactor {0}.1\nvectorize {0}.1\nsplit {0}.t 2 tail=pad\nrfactor {0}.t.1 skip=1"
LINES = "align j Y\nsplit j.h 2 tail=pad\nvectorize j.h.1\nsplit j 4 tail=cut\nvectorize j.1\nsplit j.t 2 tail=pad\nvectorize j.t.1"
SOFTMAX = f"tabulate q j\nsplit i 3\n{VECTORS.format('p')}\n{VECTORS.format('q')}\n{LINES}"
CASES = {
    "softmax": ("softmax", "", "pipeline i p q j"),
    "blocks of rows": ("softmax", "split i 3", "pipeline i.1 p q j"),
    "two of three": ("softmax", "split i 3", "pipeline i.1 q j"),
    "others of different lengths": ("softmax", "split p 4 tail=cut\nsplit j 3 tail=cut", "pipeline i p.0 q j.0"),
    "vectors and a table": ("softmax", SOFTMAX, "pipeline i.1 p.0 q.0 j.0"),
    "four": (FOUR, "", "pipeline i p q r j"),
    "four in blocks": (FOUR, "split i 2", "pipeline i.1 p q r j"),
    "a scalar that several passes change": (
        FOUR.replace("let u: f32", "s[] = s[] + c[]\n    let u: f32").replace("e[j] / u", "e[j] / u + s[]"),
        "split i 2",
        "pipeline i.1 p q r j",
    ),
    "the last two": (FOUR, "", "pipeline i r j"),
}


def kernels(name: str) -> Module:
    found = module(name) if not name.startswith("kernels") else read(name)
    assert isinstance(found, Module)
    return found


def facts(m: Module) -> Facts:
    return replace(Facts.of(m), assumed=size("N").le(64))


def scheduled(m: Module, script: str) -> Module:
    result = m.with_kernels((replay(unique(m.kernels[0]), facts(m), script),))
    verify(result)
    return result


def results(m: Module, rows: int, columns: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(rows * 100 + columns)
    given = {"X": rng.standard_normal((rows, columns)), "S": rng.standard_normal(rows), "Y": np.zeros((rows, columns)), "Z": np.zeros(rows)}
    ports = {p.name: given[p.name].astype(np.float32) for p in m.ports}
    assert run(m, ports, {"M": rows, "N": columns}) == 0
    return ports


@pytest.mark.parametrize("case", CASES)
def test_any_number_of_rows_and_columns_has_the_bits_that_it_had(case: str) -> None:
    name, before, step = CASES[case]
    m = kernels(name)
    apart, together = scheduled(m, before), scheduled(m, f"{before}\n{step}")
    for rows in (0, 1, 2, 3, 4, 7):
        for columns in (0, 1, 3, 4, 5, 9, 16):
            expected, found = results(apart, rows, columns), results(together, rows, columns)
            for port in expected:
                assert expected[port].tobytes() == found[port].tobytes(), (port, rows, columns)


def test_what_is_checked_is_checked_for_rows_alone() -> None:
    m = kernels(FOUR.replace("    alloc s:", "    check 0 <= i & i < M code 7\n    alloc s:"))
    together = scheduled(m, "split i 2\npipeline i.1 p q r j")
    for rows in (0, 1, 2, 5):
        results(together, rows, 3)


def test_an_array_that_is_read_from_its_end_lies_there_for_each_row() -> None:
    m = kernels("softmax")
    turned = replay(unique(m.kernels[0]), facts(m), SOFTMAX)
    backwards = read(show(m.with_kernels((turned,))).replace("q.table[j.a + (j.0 * 4 + j.1)]", "q.table[j.a + (j.0 * 4 + (3 - j.1))]"))
    assert isinstance(backwards, Module)
    piped = replay(replace(backwards.kernels[0], schedule=()), facts(m), "pipeline i.1 p.0 q.0 j.0")
    assert arrays(m.with_kernels((piped,))) == {"q.table": 2}


def arrays(m: Module) -> dict[str, int]:
    return {s.buffer.name: len(s.buffer.shape) for s in statements(m.kernels[0].body) if isinstance(s, Alloc) and s.buffer.space == "stack"}


def test_an_array_that_is_read_before_it_is_written_again_lies_there_once() -> None:
    m = kernels("softmax")
    assert arrays(scheduled(m, f"{SOFTMAX}\npipeline i.1 p.0 q.0 j.0")) == {"q.table": 1}
    behind = SOFTMAX.replace(
        "split j.t 2 tail=pad\nvectorize j.t.1", "split j.t 2 tail=cut"
    )  # what is left over is not seen to lie behind the vectors
    assert arrays(scheduled(m, f"{behind}\npipeline i.1 p.0 q.0 j.0")) == {"q.table": 2}
    assert arrays(scheduled(kernels(FOUR), "pipeline i p q r j")) == {"e": 2}


def test_vectors_of_the_same_length_become_one_behind_what_they_read() -> None:
    m = scheduled(kernels("softmax"), f"{SOFTMAX}\npipeline i.1 p.0 q.0 j.0")
    one = next(s for s in statements(m.kernels[0].body) if isinstance(s, Loop) and s.axis == "p.0")
    assert one.kind == "serial"
    *held, first, then = one.body
    assert isinstance(first, Loop) and isinstance(then, Loop) and first.kind == then.kind == "vector"
    assert {n.attr for n in reads(first.body)} == {"X", "q.table"}  # of two rows the one, of a third the other
    now = {s.buffer.name for s in held if isinstance(s, Alloc)}
    assert len(now) == 3 and written(first.body) == now
    assert {n.attr for n in reads(then.body) if then.axis in n.names} == now


def test_what_some_lanes_read_is_read_where_it_was() -> None:
    """There need be nothing at the positions of the others."""
    text = show(kernels("softmax")).replace("m[] max= X[i, p]", "m[] max= where(1 <= p, X[i, p - 1], 0.0:f32)")
    apart, together = (scheduled(kernels(text), script) for script in (SOFTMAX, f"{SOFTMAX}\npipeline i.1 p.0 q.0 j.0"))
    one = next(s for s in statements(together.kernels[0].body) if isinstance(s, Loop) and s.axis == "p.0")
    first, then = (s for s in one.body if isinstance(s, Loop))
    assert [n.attr for n in reads(first.body)] == ["q.table", "X"]
    assert any(n.attr == "X" for n in reads(then.body))
    for rows, columns in ((0, 3), (1, 1), (3, 9), (4, 16)):
        assert results(apart, rows, columns)["Y"].tobytes() == results(together, rows, columns)["Y"].tobytes()


IN_PLACE = """kernels scaled v1
size M
size N max 16
inout Y: f32[M, N]
kernel scaled_0(Y):
  for i in 0 .. M parallel:
    alloc m: f32[] register
    m[] = 0.0:f32
    for p in 0 .. N reduce:
      m[] add= Y[i, p]
    for j in 0 .. N parallel:
      Y[i, j] = Y[i, j] / m[]
"""


def test_what_an_iteration_has_stored_is_read_behind_that() -> None:
    m = kernels(IN_PLACE)
    before = f"{VECTORS.format('p')}\nsplit j 4 tail=cut\nvectorize j.1"
    together = scheduled(m, f"{before}\npipeline i p.0 j.0")
    one = next(s for s in statements(together.kernels[0].body) if isinstance(s, Loop) and s.axis == "p.0")
    first, then = (s for s in one.body if isinstance(s, Loop))
    assert [len([n for n in reads(x.body) if n.attr == "Y"]) for x in (first, then)] == [1, 1]
    values = np.random.default_rng(5).standard_normal((5, 9)).astype(np.float32)
    found = [values.copy(), values.copy()]
    for module_, y in zip((scheduled(m, before), together), found, strict=True):
        assert run(module_, {"Y": y}, {"M": 5, "N": 9}) == 0
    assert found[0].tobytes() == found[1].tobytes()


@pytest.mark.parametrize(
    ("text", "script", "message"),
    [
        ("softmax", "pipeline i p", "one pass has no other"),
        ("softmax", "pipeline i q p", "in this order"),
        ("softmax", "pipeline p q j", "`p` is no parallel loop"),
        ("softmax", "serial i\npipeline i p q j", "`i` is no parallel loop"),
        ("softmax", "split q 4 tail=cut\npipeline i p q.t j", "`q.t` does not run from 0"),
        (FOUR.replace("let u: f32 = c[] + t", "let u: f32 = S[i]"), "pipeline i p q r j", "`u` is read from memory"),
        (FOUR.replace("let a: i64 = i * 3 % 5", "let a: i64 = cast.i64(S[i])"), "pipeline i p q r j", "the position `a` is read from memory"),
        (FOUR.replace("c[] add= e[r] *", "e[r] = 1.0:f32\n      c[] add= X[i, r] *"), "pipeline i p q r j", "`e` is written by several passes"),
        (FOUR.replace("f32[16] stack", "f32[16] register"), "pipeline i p q r j", "`e`, which is in registers"),
        (FOUR.replace("Z[i] =", "if first(i):\n      Z[i] ="), "pipeline i p q r j", "the first or the last of `i`"),
    ],
)
def test_what_is_refused(text: str, script: str, message: str) -> None:
    m = kernels(text)
    with pytest.raises(StepError, match=message):
        replay(unique(m.kernels[0]), facts(m), script)


# ---- where it is taken

MACHINE = Target("clang", "machine", "machine", vector_bytes=32, vector_registers=32, l1=1 << 15, l2=1 << 19, l3=1 << 12, cores=1, threads=True)
ROWS = """kernels rows v1
size M
size N max 512
in X: {T}[M, N]
out Y: {T}[M, N]
kernel rows_0(X, Y):
  for i in 0 .. M parallel:
    alloc m: {T}[] register
    m[] = -inf:{T}
    for p in 0 .. N reduce:
      m[] max= X[i, p]
    alloc s: {T}[] register
    s[] = 0.0:{T}
    for q in 0 .. N reduce:
      s[] add= {f}(X[i, q] - m[])
    for j in 0 .. N parallel:
      Y[i, j] = {f}(X[i, j] - m[]) / s[]
"""


def automatically(dtype: str, function: str, target: Target = MACHINE, text: str = ROWS) -> Module:
    m = read(text.replace("{T}", dtype).replace("{f}", function))
    assert isinstance(m, Module)
    result = schedule(m, target, Options())
    verify(result)
    return result


def piped(m: Module) -> bool:
    return any(line.startswith("pipeline ") for line in m.kernels[0].schedule)


def test_it_is_taken_where_a_pass_computes_and_memory_takes_longer_than_all() -> None:
    assert piped(automatically("f32", "exp"))
    assert piped(automatically("f64", "exp"))
    assert not piped(automatically("f32", "abs"))  # nothing computes for long
    assert not piped(automatically("bf16", "exp"))  # memory does not take as long
    assert not piped(automatically("f32", "exp", replace(MACHINE, l3=0)))  # nothing goes past the caches
    assert not piped(automatically("f32", "exp", replace(MACHINE, vector_registers=16)))  # three rows have no room in registers
    sum_of_two = (
        ROWS.replace("in X: {T}[M, N]\n", "in X: {T}[M, N]\nin W: {T}[M, N]\n").replace("X[i, p]", "X[i, p] + W[i, p]").replace("(X, Y)", "(X, W, Y)")
    )
    sum_of_two = sum_of_two.replace("X[i, q]", "X[i, q] + W[i, q]").replace("X[i, j]", "X[i, j] + W[i, j]")
    assert not piped(automatically("f32", "exp", text=sum_of_two))  # three rows would have to stay near


def test_it_is_taken_for_rows_enough_that_are_neither_short_nor_leave_the_caches() -> None:
    variants = [line for line in automatically("f32", "exp").kernels[0].schedule if line.startswith("variant")]
    assert "variant 128 <= N & 256 <= M" in variants  # 512 columns at most are near, so many elements more than what goes past the caches


def test_the_rows_that_are_piped_have_the_bits_that_they_had() -> None:
    apart, together = automatically("f32", "exp", replace(MACHINE, l3=0)), automatically("f32", "exp")
    for rows, columns in ((256, 128), (257, 133)):
        assert results(apart, rows, columns)["Y"].tobytes() == results(together, rows, columns)["Y"].tobytes()
