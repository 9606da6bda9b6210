"""Each verify rule against IR that breaks it and nothing else: a valid text with one place changed, or the one object that no text can say."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from luminal.ir import graph as g, kernel as k, program as p
from luminal.ir.dtypes import f16, f32, i32, i64
from luminal.ir.errors import CompilerBug
from luminal.ir.expr import ZERO, axis, const, load, make, ramp, size, var
from luminal.ir.record import replace
from luminal.ir.text import read
from luminal.ir.verify import rules, verify
from luminal.ir.verify.body import CONCURRENT, Body
from luminal.ir.verify.races import _concurrent
from random_ir import random_graph, random_module, random_program

GRAPH = """
graph g v1
size M
size N
in a: f32[M, N]
in b: f32[N, N]
out y: f32[M]
require N <= 100
%0 = input f32[M, N] a
%1 = reduce.add f32[M] over [N] %0[$0, $1 - 1] if 1 <= $1 else 0.0
%2 = input f32[N, N] b
%3 = scan.max f32[M] axis 0 %2[0, 0]
%4 = add f32[M] %1 %3
output y = %4
"""
MODULE = """
kernels m v1
size M
size N
in a: f32[M, N]
inout c: f32[M, N]
scalar s: f32[]
out y: f32[M]
temp t: f32[M]

kernel first(a, t):
  for i in 0 .. M parallel:
    alloc acc: f32[] register
    acc[] = 0.0:f32
    for j in 0 .. N reduce:
      acc[] add= a[i, j]
    t[i] = acc[] * s

kernel second(c, y, t):
  alloc tile: f32[M, 8] shared
  region:
    for i in 0 .. M workshare:
      for j in 0 .. 8 vector:
        tile[i, j] = t[i]
    barrier
    for i.b in 0 .. M workshare:
      let row: i64 = M - 1 - i.b
      y[i.b] = tile[row, 3]
  for i.c in 0 .. M parallel:
    for j.c in 0 .. N:
      if first(j.c):
        c[i.c, j.c] = c[i.c, j.c] + 1.0:f32
"""
PROGRAM = """
program p v1
size N
in a: f32[N]
out y: f32[N]
workspace N * 4

function f(const f32* a, f32* y, i64 N) fails:
  array parts: f32x4[2]
  var left: i64 = 3
  while 0 < left:
    left = left - 1
  parts[0] = broadcast.4(a[0])
  let total: f32 = fold.add(parts[0])
  for i in 0 .. N // 4 * 4 step 4 parallel serial_if N < 100:
    y[i] = vload.4 a[i] + broadcast.4(total)
  region:
    for j in N // 4 * 4 .. N workshare:
      y[j] = a[j]
    barrier
  for begin, end in 0 .. N parallel:
    for k in begin .. end:
      y[k] = a[k]
  if N < 0:
    fail 2

entry:
  if null(a):
    fail 1
  scratch work: f32[N]
  call f(a, y, N)
"""

Break = tuple[str, str] | Callable[[Any], Any]


def node(x: g.Graph, new: g.Node) -> g.Graph:
    return x.with_outputs((new,))


def body(x: k.Module, *block: k.Stmt, at: int = 1) -> k.Module:
    """The block before the statements of one kernel."""
    kernels = list(x.kernels)
    kernels[at] = replace(kernels[at], body=(*block, *kernels[at].body))
    return x.with_kernels(tuple(kernels))


def function(x: p.Program, *block: p.Stmt) -> p.Program:
    f = x.functions[0]
    return replace(x, functions=(replace(f, body=(*f.body, *block)),))


def output(x: g.Graph) -> g.View:
    return g.identity(x.outputs[0][1])


M, N = size("M"), size("N")
ONE_F = const(1.0, f32)

# fmt: off
CASES: dict[str, dict[str, list[Break]]] = {
    "graph": {
        "sizes": [("size M\n", "size M min 7 max 3\n"), ("size M\n", "size M multiple 0\n")],
        "header-names": [("size M\n", "size M\nsize M\n"), lambda x: replace(x, ports=(*x.ports, replace(x.ports[0], shape=())))],
        "ports": [("in a: f32[M, N]", "in a: f32[M, N] order 0 0"), lambda x: replace(x, ports=(*x.ports, g.Port("z", f32, (size("Q"),), "in")))],
        "facts": [("require N <= 100", "require N + 100"), lambda x: replace(x, derived=(("K", size("Q")),))],
        "operators": [lambda x: node(x, g.make("frobnicate", f32, (M,), (output(x),)))],
        "attributes": [
            ("axis 0", "axis 1"),
            lambda x: node(x, g.make("add", f32, (M,), (output(x), output(x)), g.Attr(axis=2))),
            lambda x: node(x, g.make("reduce", f32, (M,), (g.View(output(x).node, (axis(0),)),), g.Attr(combiner="xor", extents=(N,)))),
        ],
        "dtypes": [
            ("%4 = add f32[M] %1 %3", "%5 = cast i32[M] %3\n%4 = add f32[M] %1 %5"),
            ("add f32[M] %1 %3", "bit_and f32[M] %1 %3"),
            lambda x: node(x, g.elementwise("where", (M,), *[output(x)] * 3)),
            lambda x: node(x, g.elementwise("add", (M,), output(x), g.scalar(g.make("const", f32, (), (), g.Attr(value=1))))),
        ],
        "view-rank": [("%2[0, 0]", "%2[0]"), ("%2[0, 0]", "%2[0, 0, 0]")],
        "domains": [("if 1 <= $1 else 0.0", "if $1 else 0.0"), ("else 0.0", "else true")],
        "positions": [("%2[0, 0]", "%2[$1, 0]"), lambda x: node(x, g.make("contiguous", f32, (M,), (g.View(x.outputs[0][1], (size("Q"),)),)))],
        "expressions": [("[0, 0]", "[0, where($0, 1, 2)]")],
        "inputs": [("input f32[N, N] b", "input f32[N, N] c"), ("input f32[N, N] b", "input f32[N, M] b")],
        "outputs": [("out y: f32[M]", "out y: f32[N]"), ("out y: f32[M]", "out y: f32[M]\nout z: f32[M]"), ("output y = %4", "output y = %4\noutput y = %4")],
        "nests": [
            ("%4 = add f32[M] %1 %3", "%4 = nest f32[M] result 0 n %1:\n  operand x: f32[M]\n  result z: f32[M]\n  z[0] = x[0, 1]"),
            ("%4 = add f32[M] %1 %3", "%4 = nest f32[M] result 1 n %1:\n  operand x: f32[M]\n  result z: f32[M]"),
            ("%4 = add f32[M] %1 %3", "%4 = nest f32[M] result 0 n %1:\n  operand x: f32[N]\n  result z: f32[M]"),
        ],
        "cascades": [
            ("%4 = add f32[M] %1 %3", "%4 = cascade f32[M] result 1 over [M] %1 %3"),
            ("%4 = add f32[M] %1 %3", "%4 = cascade f32[M] result 0 over [M] %3 %1 %1"),
            ("%4 = add f32[M] %1 %3", "%4 = cascade f32[M] result 0 over [N] %1 %3 %3"),
            ("%4 = add f32[M] %1 %3", "%4 = cascade f32[M] result 0 over [M] %1[M - 1 - $0] %3 %3"),
        ],
    },
    "kernels": {
        "buffers": [("temp t: f32[M]", "temp t: f32[M] stack"), ("kernel second", "kernel first"), lambda x: replace(x, temps=(*x.temps, x.temps[0]))],
        "names": [lambda x: body(x, k.Let("u", size("Q"))), lambda x: body(x, k.Let("u", var("later"))), lambda x: body(x, k.Let("u", load("lost", f32)))],
        "unique-names": [("let row: i64 = M - 1 - i.b\n      y[i.b] = tile[row, 3]", "let j: i64 = M - 1 - i.b\n      y[i.b] = tile[j, 3]")],
        "index-rank": [("tile[row, 3]", "tile[row]"), ("acc[] = 0.0:f32", "acc[0] = 0.0:f32")],
        "dtypes": [
            ("acc[] = 0.0:f32", "acc[] = 0:i32"),
            lambda x: body(x, k.Let("u", load("t", i32, ZERO))),
            ("acc[] add=", "acc[] and="),
        ],
        "expressions": [
            lambda x: body(x, k.If(N, ())),
            lambda x: body(x, k.Let("u", make("sqrt", i64, (N,)))),
            lambda x: body(x, k.Let("u", axis(0))),
            ("tile[row, 3]", "tile[row, 3:i32]"),
        ],
        "loops": [lambda x: body(x, k.Loop("q", ZERO, N, (), "sideways")), lambda x: body(x, k.Loop("q", ZERO, N, (), "serial", ZERO)), ("for i.c in 0 .. M parallel", "for i.c in 0 .. M workshare")],
        "vectors": [("for j in 0 .. 8 vector", "for j in 0 .. N vector")],
        "matrices": [("for j in 0 .. N reduce", "for j in 0 .. N matrix")],  # the other ways are in test_matrix.py
        "allocations": [
            ("alloc acc: f32[] register", "alloc acc: f32[] global"),
            lambda x: body(x, k.Alloc(k.Buffer("r", f32, (N,), "register"))),
            lambda x: body(x, k.Region((k.Alloc(k.Buffer("r", f32, (N,), "shared")),))),
        ],
        "swizzled": [
            lambda _: read(PIECES.replace("swizzle 64", "swizzle 96")),
            lambda _: read(PIECES.replace("align 1024 ", "")),
            lambda _: read(PIECES.replace("[8, 64] shared", "[7, 64] shared")),
            lambda _: read(PIECES.replace("held[t, 8 * c + k]", "held[t, 8 * c + k + 4]")),  # across the border of a piece
            lambda _: read(PIECES.replace("held[t, 8 * c + k]", "held[t, c + 8 * k]")),
        ],
        "barriers": [
            lambda x: body(x, k.Barrier()),
            ("    for i.b in", "    for q in 0 .. M workshare:\n      barrier\n    for i.b in"),
            ("    barrier\n", "    alloc own: f32[] private\n    own[] = 1.0:f32\n    if own[] < 2.0:f32:\n      barrier\n"),
        ],
        "predicates": [("first(j.c)", "first(j)"), ("first(j.c)", "last(nowhere)")],
        "inputs": [("    t[i] = acc[] * s", "    t[i] = acc[] * s\n    a[i, 0] = 1.0:f32"), ("    t[i] = acc[] * s", "    t[i] = acc[] * s\n    s[] = 1.0:f32")],
        "in-place": [
            ("c[i.c, j.c] + 1.0:f32", "c[j.c, i.c] + 1.0:f32"),
            ("c[i.c, j.c] + 1.0:f32", "c[i.c - 1, j.c] + 1.0:f32"),
            ("c[i.c, j.c] + 1.0:f32", "c[0, j.c] + 1.0:f32"),
        ],
        "arrivals": [
            lambda _: read(RING.replace("y[i] = ring[r % 3, 1]", "y[i] = ring[(r + 2) % 3, 1]")),  # what has begun just now
            lambda _: read(RING.replace("y[i] = ring[r % 3, 1]", "y[i] = ring[(r + 1) % 3, 1]")),  # what the barrier does not wait for
            lambda _: read(RING.replace("later 1", "later 2")),
        ],
        "accumulation": [
            ("        c[i.c, j.c] = c[i.c, j.c] + 1.0:f32", "        c[0, j.c] add= 1.0:f32"),
            ("for j in 0 .. N reduce", "for j in 0 .. N parallel"),
        ],
        "forms": [lambda x: body(x, k.Let("u", make("ins", f32, (), "clock")))],
        "buffer-lists": [("kernel first(a, t)", "kernel first(t, a)"), ("kernel first(a, t)", "kernel first(a, t, c)"), ("kernel second(c, y, t)", "kernel second(c, y)")],
        "order": [lambda x: x.with_kernels(x.kernels[1:]), lambda x: x.with_kernels(x.kernels[:1])],
    },
    "program": {
        "names": [
            lambda x: function(x, p.Define("u", i64, var("later"))),
            lambda x: function(x, p.Define("u", f32, load("work", f32, ZERO))),
            ("i64 N)", "i64 M)"),
        ],
        "unique-names": [lambda x: function(x, p.Define("a", f32, ONE_F)), lambda x: replace(x, functions=x.functions * 2), lambda x: function(x, p.For("left", ZERO, N, ()))],
        "dtypes": [
            lambda x: function(x, p.Define("u", i32, ONE_F)),
            lambda x: function(x, p.Define("u", i32, load("a", i32, ZERO))),
            ("y[j] = a[j]", "y[j] = 1:i32"),
            ("parts[0] = broadcast.4(a[0])", "parts[0] = broadcast.2(a[0])"),
            ("left = left - 1", "left = 1:i32"),
        ],
        "expressions": [
            lambda x: function(x, p.Define("u", f32, make("sqrt", f32, (ONE_F, ONE_F)))),
            lambda x: function(x, p.Define("u", i64, axis(0))),
            lambda x: function(x, p.Define("u", f32, load("a", f32, ZERO, ZERO))),
            lambda x: function(x, p.Define("u", f32, make("extract", f32, (load("parts", f32.vector(4), ZERO),), 4))),
        ],
        "addresses": [("y[j] = a[j]", "y[1:i32] = a[j]"), lambda x: function(x, p.If(N, ())), lambda x: function(x, p.StoreTo("y", ramp(4), ONE_F))],
        "arrays": [("f32x4[2]", "f32x4[0]"), ("array parts", "shared parts"), lambda x: function(x, p.Array("u", f32, 3, "attic")), lambda x: function(x, p.Array("u", f16, 512, "stack", 1024, 64))],
        "assignments": [("let total: f32 = fold.add(parts[0])", "let total: f32 = fold.add(parts[0])\n  total = 1.0:f32"), ("const f32* a, f32* y", "const f32* a, const f32* y"), lambda x: function(x, p.StoreTo("a", ZERO, ONE_F)), lambda x: function(x, p.Define("u", f32))],
        "loops": [lambda x: function(x, p.For("q", ZERO, N, (), pragma="sideways")), ("step 4 parallel", "step 0 parallel"), ("step 4 parallel serial_if", "step 4 serial_if"), ("begin, end in 0", "begin, end in 1"), ("begin, end in 0 .. N parallel", "begin, end in 0 .. N"), lambda x: function(x, p.For("q", ZERO, N, (), pragma="thread.x"))],
        "regions": [lambda x: function(x, p.Barrier()), ("      y[j] = a[j]", "      barrier"), lambda x: function(x, p.Region((p.Region(()),)))],
        "tiles": [lambda x: function(x, p.Multiply("tile_bf16", 16, 16, "y", ZERO, N, ("a", ZERO, N, N), ("a", ZERO, N, N), N)), lambda x: function(x, p.Multiply("tile", 16, 16, "y", ZERO, N, ("a", ZERO, N, N), ("a", ZERO, N, N), N))],
        "matrices": [lambda x, name=name: function(x, p.Matrix(name, (1, 1, 1), "y", ZERO, (0, 2, 0, 1), ("a", ZERO, 16, 0, 1), ("a", ZERO, 16, 0, 1))) for name in ("mma_bf16", "mma")],
        "calls": [("call f(a, y, N)", "call f(a, y)"), ("call f(a, y, N)", "call f(y, a, N)"), ("call f(a, y, N)", "call g(a, y, N)"), ("call f(a, y, N)", "call f(a, y, true)"), lambda x: function(x, p.Call("f", ("a", "y", N)))],
        "failures": [("fail 2", "fail 77"), ("i64 N) fails:", "i64 N):")],
        "functions": [("i64 N) fails", "i64 N) grid [N] fails"), lambda x: replace(x, workspace=size("Q"))],
        "entry-forms": [("if N < 0", "if null(a)")],
    },
}
# fmt: on
RING = """
kernels m v1
size M
size N
in a: f32[M, N]
out y: f32[M]

kernel one(a, y):
  for i in 0 .. M block.x:
    alloc ring: f32[3, 4] shared
    for t in 0 .. 4 thread.x:
      for r in 0 .. N:
        ring[(r + 2) % 3, t] = a[i, r] stream true
        if t == 0:
          y[i] = ring[r % 3, 1]
        barrier later 1
"""
PIECES = """
kernels m v1
in a: f16[8, 64]
out y: f16[8, 64]

kernel one(a, y):
  for i in 0 .. 1 block.x:
    alloc held: f16[8, 64] shared align 1024 swizzle 64
    for t in 0 .. 8 thread.x:
      for c in 0 .. 8:
        for k in 0 .. 8 vector:
          held[t, 8 * c + k] = a[t, 8 * c + k]
      barrier
      for n in 0 .. 64:
        y[t, n] = held[t, n]
"""
TEXTS = {"graph": GRAPH, "kernels": MODULE, "program": PROGRAM}
SHARED = ("sizes", "header-names", "ports", "facts")  # one implementation for all levels: broken above at the graph level


def broken(level: str, change: Break) -> Any:
    if callable(change):
        return change(read(TEXTS[level]))
    old, new = change
    assert TEXTS[level].count(old) >= 1, old
    return read(TEXTS[level].replace(old, new))


@pytest.mark.parametrize("level", CASES)
def test_every_rule_has_a_case(level: str) -> None:
    verify(read(TEXTS[level]))
    names = [r.name for r in rules(level)]
    assert len(set(names)) == len(names)
    assert set(CASES[level]) == set(names) - (set() if level == "graph" else set(SHARED))


@pytest.mark.parametrize(("level", "rule", "number"), [(lv, r, n) for lv, t in CASES.items() for r, c in t.items() for n in range(len(c))])
def test_rule(level: str, rule: str, number: int) -> None:
    x = broken(level, CASES[level][rule][number])
    with pytest.raises(CompilerBug) as caught:
        verify(x)
    assert caught.value.where == f"{level}/{rule}", str(caught.value)


def test_what_must_be_accepted() -> None:
    """Things near the edge of a rule that are right."""
    rows = MODULE.replace("c[i.c, j.c] + 1.0:f32", "c[i.c, N - 1 - j.c] + 1.0:f32")  # another place, in the same row
    verify(read(rows))
    picked = MODULE.replace(
        "      if first(j.c):\n        c[i.c, j.c] = c[i.c, j.c] + 1.0:f32", "      if first(i.c):\n        c[0, j.c] add= 1.0:f32"
    )
    verify(read(picked))
    serial = MODULE.replace("for i.c in 0 .. M parallel", "for i.c in 0 .. M").replace("c[i.c, j.c] + 1.0:f32", "c[j.c, i.c] + 1.0:f32")
    verify(read(serial))
    tiled = MODULE.replace("for j.c in 0 .. N:", "for j.c in 0 .. min(4, N - i.c * 4):").replace("c[i.c, j.c]", "c[0, i.c * 4 + j.c]")
    verify(read(tiled))


def test_pieces_of_a_swizzled_array_are_moved_at_once() -> None:
    verify(read(PIECES))


def test_what_a_barrier_has_waited_for_may_be_read() -> None:
    verify(read(RING))
    verify(read(RING.replace("y[i] = ring[r % 3, 1]", "y[i] = ring[(r + 1) % 3, 1]").replace(" later 1", "")))


THREADS = """
kernels m v1
size M
size N
in a: f32[M, N]
inout c: f32[M, N]
out y: f32[M]

kernel one(a, c, y):
  for i in 0 .. M block.x:
    alloc all: f32[4] shared
    for t in 0 .. 4 thread.x:
      for r in 0 .. N:
        all[t] = a[i, r]
        barrier
        let other: f32 = all[3 - t]
        barrier
        if t == 0:
          y[i] = other
      for j in t .. N step 4:
        c[i, j] add= 1.0:f32
"""


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("        barrier\n        let", "        let", "in-place"),  # read before it is stored
        ("        barrier\n        if", "        if", "in-place"),  # stored by the next iteration before it is read
        ("        barrier\n        let", "        if t < 2:\n          barrier\n        let", "barriers"),  # for some threads only
        ("for r in 0 .. N:", "for r in 0 .. t:", "barriers"),
        ("for j in t .. N step 4", "for j in t .. N step 3", "accumulation"),  # two threads at one place
        ("for j in t .. N step 4", "for j in 0 .. N step 4", "accumulation"),
    ],
)
def test_threads_of_a_block_wait_for_one_another(old: str, new: str, rule: str) -> None:
    verify(read(THREADS))
    assert old in THREADS
    with pytest.raises(CompilerBug) as caught:
        verify(read(THREADS.replace(old, new)))
    assert caught.value.where == f"kernels/{rule}", str(caught.value)


def test_one_iteration_has_none_beside_it() -> None:
    """So a block may do all of a kernel that accumulates where the data says."""
    text = (
        THREADS.replace("for i in 0 .. M block.x", "for i in 0 .. 1 block.x")
        .replace("c[i, j] add=", "c[cast.i64(y[0]), j] add=")
        .replace("y[i] = other", "y[0] = other")
    )
    verify(read(text))
    with pytest.raises(CompilerBug):
        verify(read(text.replace("0 .. 1 block.x", "0 .. 2 block.x")))


def test_random_ir_is_valid() -> None:
    for seed in range(120):
        for maker in (random_graph, random_module, random_program):
            verify(maker(random.Random(seed)))


def test_what_stands_in_a_loop_that_runs_at_the_same_time() -> None:
    """Found by how deep statements stand, it is what the loop is around."""
    for seed in range(40):
        module = random_module(random.Random(seed))
        for kernel in module.kernels:
            body = Body(kernel.name, kernel.body, {b: module.buffer(b) for b in kernel.buffers}, {}, frozenset(), frozenset(), False)
            found = list(_concurrent(body))
            assert [loop for loop, _ in found] == [q.stmt for q in body.places if isinstance(q.stmt, k.Loop) and q.stmt.kind in CONCURRENT]
            for loop, places in found:
                assert places == [q for q in body.places if any(a is loop for a in q.around)]
