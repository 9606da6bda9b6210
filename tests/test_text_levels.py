"""How the levels look as text, what survives the way there and back, and what a wrong file says."""

import math
from pathlib import Path

import pytest
from luminal import dsl
from luminal.ir import graph as g, kernel as k, program as p
from luminal.ir.dtypes import bool_, c64, f16, f32, f64, i8, i32, i64, u8, u64
from luminal.ir.errors import SourceError, Span
from luminal.ir.expr import (
    ONE,
    ZERO,
    Expr,
    add,
    axis,
    call,
    cast,
    const,
    first,
    floordiv,
    fold,
    last,
    load,
    make,
    mod,
    mul,
    null,
    overlap,
    size,
    var,
    zip_halves,
)
from luminal.ir.text import read, read_expr, read_valid, show, show_expr

M, N, I, J = size("M"), size("N"), var("i"), var("j")  # noqa: E741
X = var("x", f32)
SCOPE = {"sizes": ("M", "N"), "variables": {"i": i64, "j": i64, "x": f32, "flag": bool_}, "buffers": {"A": f32, "B": i32, "odd name": f32}}

WRITTEN = [
    (N - 1, "N - 1"),
    (N - I, "N - i"),
    (N - I * 3, "N - i * 3"),
    (-I, "-i"),
    (add(N, mul(I - J, const(-1))), "N - (i - j)"),
    (call("sub", N, I), "sub(N, i)"),
    (call("neg", N), "neg(N)"),
    (call("add", const(1), const(-2)), "1 - 2"),
    (call("mul", const(5), const(-1)), "5 * -1"),
    (call("mul", call("mul", I, const(5)), const(-1)), "i * 5 * -1"),
    (call("add", I, call("mul", call("mul", J, const(5)), const(-1))), "i + j * 5 * -1"),
    (call("add", I, const(-(2**63))), "i + -9223372036854775808"),
    (call("add", I, call("add", J, N)), "i + (j + N)"),
    (call("add", call("add", I, J), N), "i + j + N"),
    ((I + 1) * 2 % 3 // 4, "(i + 1) * 2 % 3 // 4"),
    (floordiv(I, mod(J, N)), "i // (j % N)"),
    (call("bit_and", I.lt(M), J.le(N)), "i < M & j <= N"),
    (call("equal", I.lt(M), J.eq(N)), "(i < M) == (j == N)"),
    (call("bit_or", call("bit_and", I.lt(M), I.lt(M)), call("bit_xor", I.lt(M), I.lt(M))), "i < M & i < M | i < M ^ i < M"),
    (call("sub", X, call("neg", X)), "x - -x"),
    (call("neg", call("neg", X)), "--x"),
    (call("neg", const(1.0, f32)), "neg(1.0:f32)"),
    (call("bit_not", call("bit_not", I)), "~~i"),
    (call("div", X, call("mul", X, X)), "x / (x * x)"),
    (call("where", I.lt(M), X, const(0.0, f32)), "where(i < M, x, 0.0:f32)"),
    (cast(f16, call("fma", X, X, X)), "cast.f16(fma(x, x, x))"),
    (make("cast", f32, (X,)), "cast.f32(x)"),
    (call("bitcast", X, to=i32), "bitcast.i32(x)"),
    (load("A", f32, I + 1, N - J), "A[i + 1, N - j]"),
    (load("A", f32), "A[]"),
    (load("odd name", f32, ZERO), '"odd name"[0]'),
    (call("bit_or", first("i.0"), last("for")), 'first(i.0) | last("for")'),
    (axis(12) * 2, "$12 * 2"),
    (fold("max", make("broadcast", f32.vector(4), (X,))), "fold.max(broadcast.4(x))"),
    (zip_halves(make("broadcast", f32.vector(4), (X,)), make("broadcast", f32.vector(4), (X,)), True), "zip_high(broadcast.4(x), broadcast.4(x))"),
    (make("extract", f32, (make("vload", f32.vector(8), (I,), "A"),), 7), "extract(vload.8 A[i], 7)"),
    (make("gather", i32.vector(8), (make("ramp", i64.vector(8)),), "B"), "gather.8 B[ramp.8]"),
    (call("bit_and", null("A"), overlap("A", N * 4, "B", M)), "null(A) & overlap(A, N * 4, B, M)"),
    (make("ins", f32.vector(16), (X, ONE), "dot4"), "ins.dot4:f32x16(x, 1)"),
    (make("ins", i64, (), "clock"), "ins.clock:i64()"),
]


@pytest.mark.parametrize(("e", "text"), WRITTEN, ids=[t for _, t in WRITTEN])
def test_expressions(e: Expr, text: str) -> None:
    assert show_expr(e) == text
    assert read_expr(text, **SCOPE) is e


LITERALS = [
    (const(1), "1"), (const(True, bool_), "true"), (const(1.0, f64), "1.0:f64"), (const(1.0, f32), "1.0:f32"), (const(-0.0, f32), "-0.0:f32"),
    (const(0.0, f32), "0.0:f32"), (const(math.inf, f16), "inf:f16"), (const(-math.inf, f16), "-inf:f16"), (const(math.nan, f32), "nan:f32"),
    (const(0.1, f64), "0.1:f64"), (const(5e-324, f64), "5e-324:f64"), (const(1e300, f64), "1e+300:f64"), (const(-128, i8), "-128:i8"), (const(2**64 - 1, u64), "18446744073709551615:u64"),
    (const(7, u8), "7:u8"), (const(-(2**63)), "-9223372036854775808"), (const(2.0, f32.vector(4)), "2.0:f32x4"), (const(False, bool_.vector(4)), "false:boolx4"), (const(3, c64), "3.0:c64"),
]  # fmt: skip


@pytest.mark.parametrize(("e", "text"), LITERALS, ids=[t for _, t in LITERALS])
def test_literals_keep_dtype_and_bits(e: Expr, text: str) -> None:
    assert show_expr(e) == text
    assert read_expr(text) is e


def test_a_shared_part_is_written_once() -> None:
    e = X
    for _ in range(60):  # as a tree: 2^60 nodes
        e = call("add", call("mul", e, e), X)
    text = show_expr(e)
    assert len(text) < 3000
    assert "(@0 = " in text
    assert read_expr(text, **SCOPE) is e


def test_depth_is_no_matter() -> None:
    left, right = I, I
    for n in range(5000):
        left, right = call("add", left, const(n)), call("min", const(n), call("add", N, right))
    for e in (left, right):
        assert read_expr(show_expr(e), **SCOPE) is e


ODD = [
    "",
    "a b",
    "for",
    "true",
    'quo"te',
    "back\\slash",
    "new\nline",
    "tab\t",
    "ünïcode",
    "i.",
    "1st",
    "vload.8",
    "ramp.4",
    "a..b",
    "\x00",
    "\u2028",
    "#",
    "%1",
    "in",
    "max",
    "_",
    "é",
    "i.0.b",
]


@pytest.mark.parametrize("name", ODD)
def test_odd_names_survive(name: str) -> None:
    other = name + "_"
    port, out = g.Port(name, f32, (size(other),), "in"), g.Port("out", f32, (size(other),), "out")
    graph = g.Graph(name, (g.Size(other),), (port, out), (("out", g.input_node(port)),))
    assert read(show(graph)) == graph
    loop = k.Loop(name + "'", ZERO, size(other), (k.Store("out", (var(name + "'"),), load(name, f32, var(name + "'"))),))
    module = k.Module(name, (g.Size(other),), (port, out), (), (k.Kernel(name, (name, "out"), (loop,)),))
    assert read(show(module)) == module
    store = p.StoreTo(name, ZERO, load(name, f32, ZERO))
    f = p.Function(name, (p.Param(name, f32, True),), (store,))
    program = p.Program(name, (g.Size(other),), (port, out), (f,), (p.Call(name, (name,)),))
    assert read(show(program)) == program


def test_the_header_survives() -> None:
    ports = (
        g.Port("A", f32, (M, N), "in", (1, 0), ("lda",), None, "spd", Span("x.toml", 3, 4, 5)),
        g.Port("i", i64, (M,), "in", index_limit=N, draw="one of 1 2"),
        g.Port("alpha", f32, (), "scalar"),
        g.Port("C", f32, (M, M), "inout"),
        g.Port("Z", c64, (M, N), "in", (1, 0), ("ldz",), pairs=True),
        g.Port("w", c64, (), "scalar", pairs=True),
    )
    graph = g.Graph(
        "h", (g.Size("M", 1, 99, 3), g.Size("N")), ports, (("C", g.make("contiguous", f32, (M, M), (g.scalar(g.input_node(ports[2])),))),),
        (("K", M * size("lda")),), (M.lt(N), (N % 4).eq(0)), "two\n lines # of \"text\"\n", "[composite]\n\n\tx = 'é'\\n",
    )  # fmt: skip
    again = read(show(graph))
    assert again == graph
    assert isinstance(again, g.Graph)
    assert (again.documentation, again.source) == (graph.documentation, graph.source)
    assert 'in A: f32[M, N] order 1 0 strided lda draw "spd"' in show(graph)


def test_a_graph_reads_well() -> None:
    text = """graph softmax v1
doc "rows"
size M
size N multiple 4
in x: f32[M, N]
out y: f32[M, N]
require N <= 4096
%0 = input f32[M, N] x
%1 = reduce.max f32[M] over [N] %0
%2 = sub f32[M, N] %0 %1[$0]
%3 = exp f32[M, N] %2
%4 = const f32[] 1.0
%5 = reduce.add f32[M] over [N] %3
%6 = div f32[M] %4[] %5
%7 = mul f32[M, N] %3[$0, $1 - 1] if 1 <= $1 else 0.0 %6[$0]
output y = %7
"""
    assert show(read(text)) == text


def test_nests_are_written_once_and_shared() -> None:
    a = g.Port("a", f32, (N,), "in")
    outs = (g.Port("y", f32, (N,), "out"), g.Port("z", i32, (), "out"))
    buffers = (k.Buffer("y", f32, (N,)), k.Buffer("z", i32, ()))
    body = (
        k.Loop("i", ZERO, N, (k.If(load("a", f32, I).dtype is f32 and call("less_than", load("a", f32, I), const(0.0, f32)), (), (k.Store("z", (), const(1, i32), "add"),)),)),
        k.While(load("z", i32).lt(const(9, i32)), (k.Store("z", (), const(2, i32), "mul"),), N),
    )  # fmt: skip
    nest = k.Nest("count", (k.Buffer("a", f32, (N,)),), buffers, body)
    x = g.identity(g.input_node(a))
    nodes = [g.make("nest", b.dtype, b.shape, (x,), g.Attr(nest=nest, result=n)) for n, b in enumerate(buffers)]
    graph = g.Graph("n", (g.Size("N"),), (a, *outs), (("y", nodes[0]), ("z", nodes[1])))
    text = show(graph)
    assert text.count("while") == 1
    assert "%2 = nest i32[] result 1 as %1 %0" in text
    assert read(text) == graph


def test_comments_blank_lines_and_free_layout() -> None:
    text = "# a comment\n\nkernels m v1  # the name\nsize N\nout y: f32[ N ]\n\nkernel k(y) :\n\n      for i in 0 .. (N):  # all\n\n         y[(i)] = 1:f32\r\n      # end\n"
    m = read(text)
    assert isinstance(m, k.Module)
    assert m.kernels[0].body == (k.Loop("i", ZERO, N, (k.Store("y", (I,), const(1.0, f32)),)),)


def test_notes_and_schedule_stay_with_their_kernel() -> None:
    kernels = (k.Kernel("a", (), (), ("split i 4", 'say "x"'), ("why",)), k.Kernel("b", (), (k.Barrier(),), (), ("because\nso",)))
    m = k.Module("m", (), (), (), kernels)
    assert read(show(m)) == m


def test_program_keeps_what_does_not_compare() -> None:
    program = p.Program("p", (), (), (), (p.Fail(3),), target="x86", workspace=ZERO, notes=("a", "b"))
    again = read(show(program))
    assert isinstance(again, p.Program)
    assert (again, again.notes) == (program, ("a", "b"))


HEAD = "kernels m v1\nsize N\nin A: f32[N]\nout y: f32[N]\nkernel k(A, y):\n"
WRONG = [
    ("", 1, 1, "E0901", "`graph`, `kernels` or `program`"),
    ("grph x v1", 1, 1, "E0901", "found grph"),
    ("graph x v2", 1, 9, "E0901", "version v1"),
    ("graph x v1\nsize N min", 2, 11, "E0901", "an integer"),
    ("graph x v1\n%0 = iota i64[] Q", 2, 17, "E0902", "no size or variable Q"),
    ("graph x v1\n%1 = neg f32[] %0", 2, 16, "E0902", "no node %0"),
    ("graph x v1\n%1 = adf f32[]", 2, 6, "E0902", "no operator adf"),
    ("graph x v1\n%1 = reduce.xor f32[] over []", 2, 6, "E0902", "combiner of reduce xor"),
    ("graph x v1\n%1 = const f33[] 1.0", 2, 12, "E0901", "a dtype"),
    ("graph x v1\n%1 = const f32[] 1.0\n%1 = const f32[] 2.0", 3, 1, "E0901", "twice"),
    (HEAD + "  y[0] = A[0] + 1", 6, 15, "E0903", "f32 and i64"),
    (HEAD + "  y[0] = A[0] + 1.0", 6, 17, "E0901", "needs its dtype"),
    (HEAD + "  y[0] = B[0]", 6, 10, "E0902", "no buffer B"),
    (HEAD + "  y[0] = (A[0]", 6, 15, "E0901", "expected `)`"),
    (HEAD + "  y[0] = A[0)", 6, 13, "E0901", "expected `]`"),
    (HEAD + "  y[0] = max(A[0])", 6, 10, "E0901", "max takes 2 operands, found 1"),
    (HEAD + "  y[0] = A[0] 7", 6, 15, "E0901", "the end of the line"),
    (HEAD + "  fro i in 0 .. N:", 6, 3, "E0902", "no statement fro"),
    (HEAD + "  for i in 0 .. N paralel:", 6, 19, "E0902", "paralel"),
    (HEAD + "  if 1 < 2 < 3:", 6, 12, "E0901", "do not chain"),
    (HEAD + "  barrier\n    barrier", 7, 5, "E0901", "indentation of 2, found 4"),
    (HEAD + "  let u: f32 = 1", 6, 10, "E0903", "declared f32, its value is i64"),
    (HEAD + "  y[0] = ?", 6, 10, "E0901", "'?' begins no word"),
    (HEAD + "  y[0] = 300:u8", 6, 10, "E0903", "300 is outside u8"),
    (HEAD + "  y[0] = cast.q(A[0])", 6, 10, "E0901", "a dtype after the dot"),
    (HEAD + "  y[0] = @3", 6, 10, "E0902", "no part @3"),
    ("program p v1\nentry:\n  q = 1", 3, 3, "E0902", "no variable q"),
    ("program p v1\nentry:\n  barrier\nsize N", 4, 1, "E0901", "nothing after the entry"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "code", "message"), WRONG)
def test_errors_have_a_place(text: str, line: int, column: int, code: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        read(text, "bad.kernel")
    (d,) = caught.value.diagnostics
    assert (d.span.file, d.span.line, d.span.column, d.code) == ("bad.kernel", line, column, code), d
    assert message in d.message, d.message


def test_a_near_name_is_offered() -> None:
    with pytest.raises(SourceError) as caught:
        read_expr("lenth + 1", sizes=("length",))
    assert caught.value.diagnostics[0].notes == ("did you mean length?",)


def test_blocks_nest_only_so_deep() -> None:
    text = HEAD + "".join("  " * n + f"  for i{n} in 0 .. N:\n" for n in range(300))
    with pytest.raises(SourceError, match="nested deeper than 200"):
        read(text)
    with pytest.raises(SourceError, match="no buffer Y"):  # the deepest that may be are read to their end
        read(HEAD + "".join("  " * n + f"  for i{n} in 0 .. N:\n" for n in range(198)) + "  " * 199 + "Y[0] = 1.0:f32\n")


def test_any_broken_text_is_a_source_error() -> None:
    """Cut anywhere, or with one character changed, a file is read or refused with a place: nothing else comes out."""
    from random import Random

    from random_ir import random_graph, random_module, random_program

    for seed in range(60):
        rng = Random(seed)
        text = show(rng.choice((random_graph, random_module, random_program))(rng))
        for _ in range(12):
            at = rng.randrange(len(text))
            broken = text[:at] + rng.choice(("", " ", ")", "[", ":", "-", "9", "x", "%", '"', "@1", ",", "\n")) + text[at + rng.randint(0, 3) :]
            try:
                read(broken)
            except SourceError as e:
                assert e.diagnostics[0].span.line >= 1, f"seed {seed}\n{broken}"


def test_a_file_that_breaks_a_rule_is_the_users_mistake() -> None:
    assert read_valid(HEAD + "  y[0] = A[0]") == read(HEAD + "  y[0] = A[0]")
    with pytest.raises(SourceError) as caught:
        read_valid(HEAD + "  y[0] = A[0, 0]", "x.kernel")
    (d,) = caught.value.diagnostics
    assert (d.code, d.span.file) == ("E0904", "x.kernel")
    assert "kernels/index-rank: kernel k: A has 1 axes and 2 indices" in d.message


@pytest.mark.parametrize("path", sorted((Path(__file__).parent / "golden").glob("*.kernel")), ids=lambda p: p.name)
def test_scheduled_kernels_round_trip(path: Path) -> None:
    module = read_valid(path.read_text(), path.name)
    assert read(show(module)) == module


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[1] / "samples").glob("*.toml")), ids=lambda p: p.name)
def test_graphs_of_the_samples_round_trip(path: Path) -> None:
    composites = dsl.read_file(path)
    for composite in composites:
        graph = dsl.elaborate(composite, dsl.Scope(composites, ()), dsl.Instance())
        assert read_valid(show(graph)) == graph
