"""Reductions that go through the same memory go through it once: over rows, columns, everything and some of five axes, and in both directions; the meaning and the bits stay."""

from __future__ import annotations

from collections.abc import Callable

import luminal
import numpy as np
import pytest
from cascades import OPTIONS, SEED, before, naive
from compilers import needs_cc
from luminal.ir.kernel import Block, If, Loop, Module, statements
from luminal.ir.target import Options
from luminal.ir.text import read, show
from luminal.ir.verify import verify
from luminal.ir.walks import postorder
from luminal.passes.cascade import cascade
from luminal.passes.fuse import fuse
from luminal.passes.join_columns import join_columns
from luminal.passes.join_rows import join_rows
from luminal.passes.legalize import legalize
from luminal.passes.make_nests import make_nests
from luminal.passes.schedule import schedule
from running import TARGET, agree, draw, meaning, outputs

pytestmark = pytest.mark.usefixtures("plain_c")

XMN = "X{f32}[M N]"
FIVE = "X{f32}[A B C D E]"
# name -> composite; how often, in loops of their own, the elements of the first input are read
ONCE: dict[str, tuple[str, int]] = {
    "moments of rows": (f"(({XMN}) -> (S{{f32}}[M] Q{{f32}}[M])) (return (sum X :axis 1) (sum (* X X) :axis 1))", 1),
    "inside one output": (f"(({XMN}) -> (S{{f32}}[M])) (return (/ (- (max X :axis 1) (min X :axis 1)) 255))", 1),
    "columns": (
        f"(({XMN}) -> (S{{f32}}[N] A{{f32}}[N] I{{f32}}[N] Q{{f32}}[N])) (return (sum X :axis 0) (max X :axis 0) (min X :axis 0) (sum (* X X) :axis 0))",
        1,
    ),
    "norms of everything": (f"(({XMN}) -> (A{{f32}} B{{f32}} C{{f32}})) (return (sum (abs X)) (sqrt (sum (* X X))) (max (abs X)))", 1),
    "two of five axes": (f"(({FIVE}) -> (S{{f32}}[B C E] V{{f32}}[B C E])) (return (mean X :axis (0 3)) (max X :axis (0 3)))", 1),
    "the inner ones of five": (f"(({FIVE}) -> (S{{f32}}[A C D] V{{f32}}[A C D])) (return (mean X :axis (1 4)) (max X :axis (1 4)))", 1),
    "two operands": (
        f"(({XMN} Y{{f32}}[M N]) -> (P{{f32}}[M])) (return (/ (sum (* X Y) :axis 1) (sqrt (+ 1 (* (sum (* X X) :axis 1) (sum (* Y Y) :axis 1))))))",
        1,
    ),
    "and what is made of them": (
        f"(({XMN}) -> (Y{{f32}}[M N])) (setf a (max X :axis 1 :keepdims t)) (setf b (min X :axis 1 :keepdims t)) (return (/ (- X b) (+ 1 (- a b))))",
        2,
    ),
    "in loops": (
        f"(({XMN}) -> (S{{f32}}[M] V{{f32}}[M])) (dotimes (i M) (setf (aref V i) -inf) (dotimes (j N) (incf (aref S i) (aref X i j)) (setf (aref V i) (max (aref V i) (aref X i j)))))",
        1,
    ),
    "one after the other": (f"(({XMN}) -> (A{{f32}}[M] D{{f32}}[M])) (setf m (mean X :axis 1)) (return m (sum (abs (- X (unsqueeze m :axis 1))) :axis 1))", 2),
    "over other axes of what is not shared": (f"(({XMN} Y{{f32}}[M N]) -> (A{{f32}}[M] B{{f32}}[M])) (return (sum X :axis 1) (sum Y :axis 1))", 1),
}  # fmt: skip
BOTH: dict[str, str] = {
    "sums": f"(({XMN}) -> (R{{f32}}[M] C{{f32}}[N] T{{f32}})) (return (sum X :axis 1) (sum X :axis 0) (sum X))",
    "columns and all": f"(({XMN}) -> (C{{f32}}[N] T{{f32}})) (return (max X :axis 0) (mean X))",
    "softmax backward and bias": "((X{f32}[M N] G{f32}[M N]) -> (D{f32}[M N] B{f32}[N])) (return (* X (- G (sum (* X G) :axis 1 :keepdims t))) (sum G :axis 0))",
    "of what a row has made": "((X{f32}[M N] G{f32}[M N]) -> (D{f32}[M N] B{f32}[N])) (setf d (where (> X 0) G 0.0)) (return d (sum d :axis 0))",
    "a matrix and its transpose": "((X{f32}[M N] P{f32}[N] R{f32}[M]) -> (Q{f32}[M] S{f32}[N])) (return (matmul X P) (matmul R X))",
    "two triangles and columns": "((X{f32}[M N]) -> (U{f32}[M N] L{f32}[M N] C{f32}[N])) (return (triu X) (tril X) (sum X :axis 0))",
    "a channel": "((X{f32}[M C W]) -> (S{f32}[C] Y{f32}[M C W])) (return (sum X :axis (0 2)) (* 2 X))",
}


def module(text: str, options: Options = OPTIONS) -> Module:
    return make_nests(fuse(cascade(before(text), TARGET, options), TARGET, options), TARGET, options)


def passes(block: Block, name: str) -> int:
    """The innermost loops that read a buffer: how often the block goes through it (of an `if`, its first branch)."""
    found = 0
    for s in block:
        if isinstance(s, If) or (isinstance(s, Loop) and any(isinstance(t, Loop) for t in s.body)):
            found += passes(s.body, name)
        elif isinstance(s, Loop):
            found += any(n.op == "load" and n.attr == name for t in statements(s.body) for n in postorder(*t.expressions()))
    return found


def check(name: str, text: str, joined: Module, extents: tuple[tuple[int, int], ...]) -> None:
    verify(joined)
    assert read(show(joined)) == joined
    graph, legal = naive(text), legalize(joined, TARGET, OPTIONS)
    for seed, (m, n) in enumerate(extents):
        sizes = {s.name: {"M": m, "N": n, "A": n, "D": m}.get(s.name, 2) for s in graph.sizes}
        print(f"seed {SEED + seed}, sizes {sizes}")
        inputs = draw(graph, sizes, SEED + seed)
        agree(outputs(legal, inputs, sizes, seed), meaning(graph, inputs, sizes), graph, f"{name}, seed {seed}, sizes {sizes}")


@pytest.mark.parametrize("name", ONCE)
def test_reductions_of_the_same_memory_share_a_loop(name: str) -> None:
    text, times = ONCE[name]
    joined = join_rows(module(text), TARGET, OPTIONS)
    assert sum(passes(k.body, "X") for k in joined.kernels) == times, show(joined)
    check(name, text, joined, ((0, 3), (1, 1), (3, 5), (2, 17)))
    assert join_rows(joined, TARGET, OPTIONS) == joined


def test_registers_bound_what_shares_a_loop() -> None:
    sums = " ".join(f"(sum (abs (- X {k})) :axis 1)" for k in range(3, 33))
    text = f"(({XMN}) -> ({' '.join(f'Y{k}{{f32}}[M]' for k in range(30))})) (return {sums})"
    joined = join_rows(module(text), TARGET, OPTIONS)
    assert TARGET.vector_registers == 16
    assert sum(passes(k.body, "X") for k in joined.kernels) == 3  # of 12, 12 and 6 accumulators


@pytest.mark.parametrize("name", BOTH)
def test_both_directions_in_one_pass(name: str) -> None:
    apart = join_rows(module(BOTH[name]), TARGET, OPTIONS)
    joined = join_columns(apart, TARGET, OPTIONS)
    assert len(joined.temps) > 0, show(joined)
    assert not any(passes(k.body, "X") for k in joined.kernels[1:]), show(joined)  # where the sizes want that
    check(name, BOTH[name], joined, ((0, 3), (1, 1), (65, 3), (512, 2), (577, 5)))
    assert join_columns(joined, TARGET, OPTIONS) == joined


# composite -> how many loops a row has left inside the chunks
SIBLINGS = {
    "of what a row has made": (BOTH["of what a row has made"], 1),
    "a gradient and its columns": (
        "((X{f32}[M N] G{f32}[M N]) -> (D{f32}[M N] B{f32}[N])) (setf d (* X (- G (sum (* X G) :axis 1 :keepdims t)))) (return d (sum d :axis 0))",
        2,
    ),
    "another operand": (BOTH["softmax backward and bias"], 2),
    "what is stored is rounded": (
        "((X{f32}[M N]) -> (D{f16}[M N] B{f32}[N])) (setf d (cast f16 (* X 3.1))) (return d (sum (cast f32 d) :axis 0))",
        1,
    ),
    "a neighbour": ("((X{f32}[M N]) -> (D{f32}[M N] B{f32}[N])) (setf d (* X 2)) (return d (sum (roll d 1 :axis 1) :axis 0))", 2),
    "nothing in common": ("((X{f32}[M N] G{f32}[M N]) -> (D{f32}[M] B{f32}[N])) (return (sum X :axis 1) (sum (* X G) :axis 0))", 2),
}


@pytest.mark.parametrize("name", SIBLINGS)
def test_elementwise_loops_of_a_row_are_one(name: str) -> None:
    text, loops = SIBLINGS[name]
    joined = join_columns(join_rows(module(text), TARGET, OPTIONS), TARGET, OPTIONS)
    verify(joined)
    assert read(show(joined)) == joined
    (rows,) = [s for s in statements(joined.kernels[0].body) if isinstance(s, Loop) and s.kind == "serial"]
    assert sum(isinstance(s, Loop) for s in rows.body) == loops, show(joined)
    check(name, text, joined, ((0, 3), (65, 3), (512, 2), (577, 5)))


# composite -> the loops over a row in the chunks, scheduled
ROWS = {
    "columns first": ("((X{f32}[M N] P{f32}[N] R{f32}[M]) -> (S{f32}[N] Q{f32}[M])) (return (matmul R X) (matmul X P))", 1),
    "rows first": (BOTH["a matrix and its transpose"], 1),
    "columns of what rows came to": ("((X{f32}[M N] P{f32}[N]) -> (S{f32}[N])) (return (matmul (matmul X P) X))", 2),
}


@pytest.mark.parametrize("name", ROWS)
def test_sums_in_both_directions_load_a_row_once(name: str) -> None:
    text, loops = ROWS[name]
    joined = join_columns(join_rows(module(text), TARGET, OPTIONS), TARGET, OPTIONS)
    done = schedule(joined, TARGET, OPTIONS)
    verify(done)
    rows = next(s for s in statements(done.kernels[0].body) if isinstance(s, Loop) and s.kind == "serial" and passes(s.body, "X"))
    assert passes(rows.body, "X") == loops, show(done)
    check(name, text, done, ((0, 3), (1, 1), (65, 3), (512, 2), (577, 37)))


APART = {
    "a matrix product": "((X{f32}[M N] G{f32}[M K]) -> (W{f32}[N K] B{f32}[N])) (return (matmul (transpose X) G) (sum X :axis 0))",
    "what the rows are made of": "((X{f32}[M N]) -> (Y{f32}[M N])) (return (- X (sum X :axis 0 :keepdims t)))",
    "neighbours": "((X{f32}[M N]) -> (Y{f32}[M N] C{f32}[N])) (setf y (+ X 1)) (return y (sum (* X (roll y 1 :axis 0)) :axis 0))",
    "vectors": "((X{f32}[M] Y{f32}[M N]) -> (A{f32}[M N] S{f32})) (return (* Y (unsqueeze X :axis 1)) (sum X))",
}


@pytest.mark.parametrize("name", APART)
def test_what_stays_apart(name: str) -> None:
    apart = join_rows(module(APART[name]), TARGET, OPTIONS)
    assert join_columns(apart, TARGET, OPTIONS) is apart


def test_strict_sums_keep_their_order() -> None:
    apart = join_rows(module(BOTH["sums"]), TARGET, OPTIONS)
    strict = join_columns(apart, TARGET, Options(level=2, strict=True))
    assert strict is apart
    largest = join_rows(module(f"(({XMN}) -> (R{{f32}}[M] C{{f32}}[N])) (return (max X :axis 1) (max X :axis 0))"), TARGET, OPTIONS)
    assert join_columns(largest, TARGET, Options(level=2, strict=True)) is not largest


@needs_cc
@pytest.mark.parametrize("name", ["sums", "of what a row has made", "a matrix and its transpose"])
def test_compiled(name: str) -> None:
    """Small integers are exact in any order."""
    f = luminal.compile(f"(composite both {BOTH[name]})", runtime="clang")
    rng = np.random.default_rng(SEED)
    for m, n in [(1, 1), (511, 33), (512, 1), (577, 70), (1100, 1041)]:
        x, g = rng.integers(-3, 4, (2, m, n)).astype(np.float32)
        d = np.where(x > 0, g, 0)
        p, r = g[0], g[:, 0]
        wanted = {
            "sums": ((x,), (x.sum(1), x.sum(0), x.sum())),
            "of what a row has made": ((x, g), (d, d.sum(0))),
            "a matrix and its transpose": ((x, p, r), (x @ p, r @ x)),
        }
        given, expected = wanted[name]
        for found, want in zip(f(*given), expected, strict=True):
            np.testing.assert_array_equal(found, want, err_msg=f"{name} {m}×{n}, seed {SEED}")


def test_golden(golden: Callable[[str, str], None]) -> None:
    joined = join_columns(join_rows(module(BOTH["sums"]), TARGET, OPTIONS), TARGET, OPTIONS)
    golden("both_directions.kernel", show(joined))
