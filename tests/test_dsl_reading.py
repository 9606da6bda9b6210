"""Reading: both notations, places, folding, and text that means harm."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from luminal.dsl import Scope, elaborate, read, read_file, render_diagnostics
from luminal.dsl.document import read_toml
from luminal.dsl.sexpr import Form, List, parse
from luminal.dsl.source import whole
from luminal.ir.errors import SourceError, UsageError

GEMM = """(composite gemm ((A{T}[M, K] B{T}[K N]<1 0>) -> (C{T}[M, N]) where K % 8 = 0)
  (return (matmul A B)))"""


def shown(form: Form) -> Any:
    return [form.bracket, *map(shown, form.items)] if isinstance(form, List) else form.source_text


def test_forms() -> None:
    text = '(a \'(1 -2) .5 1e-5 :Axis "x\\"y" ; comment )\n #| (b |# c <0 1 :strided> <= -)'
    (form,) = parse(whole("f", text))
    assert shown(form) == ["(", "a", ["(", "1", "-2"], ".5", "1e-5", ":Axis", '"x\\"y"', "c", "<0 1 :strided>", "<=", "-"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("X<1 0>y", ["Symbol X<1", "Symbol 0>y"]),
        ("X <1, 0 :strided>y <> <1", ["Symbol X", "Order (1, 0) True", "Symbol y", "Order () False", "Symbol <1"]),
        ('\'a"b\\n\\""c;d\n#|e|#f#|g|#', ["Symbol a", 'String b\n"', "Symbol c", "Symbol f#|g|#"]),
        ("#xFf 0xfF -0X80 #x-80 #b101 0b101 #o17 0o17 017 #y1", [*(f"Number {n}" for n in (255, 255, -128, -128, 5, 5, 15, 15, 17)), "Symbol #y1"]),
        ("(a,[b]{})", ["( Symbol a, Comma, [ Symbol b, { "]),
    ],
)
def test_where_a_token_ends(text: str, shown: list[str]) -> None:
    def show(form: Form) -> str:
        if isinstance(form, List):
            return f"{form.bracket} {', '.join(map(show, form.items))}"
        return " ".join([type(form).__name__, *(str(getattr(form, name)) for name in type(form).__slots__)])

    assert [show(form) for form in parse(whole("a.lisp", text))] == shown


def test_both_notations_give_the_same_composite() -> None:
    (lisp,) = read(GEMM)
    (toml,) = read(
        """
[composite]
name = "gemm"
inputs = ["A{T}[M, K](where K % 8 = 0)", "B{T}[K N]<1 0>()"]
outputs = ["C{T}[M N]"]
[implementation]
code = "(return (matmul A B))"
"""
    )
    for c in (lisp, toml):
        assert [(p.name, p.role, p.type and p.type.name, p.order) for p in c.ports] == [
            ("A", "in", "T", ()),
            ("B", "in", "T", (1, 0)),
            ("C", "out", "T", ()),
        ]
    one, other = (elaborate(c, Scope((c,))) for c in (lisp, toml))
    assert one.outputs == other.outputs and one.requires == other.requires


def test_the_same_text_of_the_same_file_is_read_once() -> None:
    other = GEMM.replace("% 8", "% 4")
    assert read(GEMM, "a.lisp") is read(str(GEMM.encode(), "utf-8"), "a.lisp")
    assert read(GEMM, "a.lisp") is not read(GEMM, "b.lisp") and read(GEMM, "b.lisp")[0].file == "b.lisp"
    assert read(other, "a.lisp")[0].source_text != read(GEMM, "a.lisp")[0].source_text


def test_a_toml_composite_is_shown_as_one_s_expression_that_reads_back() -> None:
    sample = Path(__file__).parent.parent / "samples" / "gemm.toml"
    (composite,) = read_file(sample)
    (again,) = read(composite.source_text)
    assert elaborate(again, Scope((again,))).ports[0].shape == elaborate(composite, Scope((composite,))).ports[0].shape


@pytest.mark.parametrize(
    ("code", "line", "column"),
    [
        ('code = "(return oops)"', 7, 17),
        ("code = '''\n(return\n  oops)'''", 9, 3),
        ('code = """\\\n   (return \\u0041 \\\n     oops)"""', 9, 6),
        ('code = "(return \\t\\"x\\" oops)"', 7, 25),
    ],
)
def test_places_inside_toml_strings_are_the_files_own(code: str, line: int, column: int) -> None:
    text = (
        f'[composite]\nname = "ü"\ndocumentation = "ä € 𝄞"\ninputs = ["A{{f32}}[N]"]\noutputs = ["A"]\n[implementation]\n{code}\n'.replace(
            '"ü"', '"f"'
        )
        .replace("{{", "{")
        .replace("}}", "}")
    )
    (composite,) = read_toml(text, "f.toml")
    forms = [composite.body[0]]
    assert isinstance(forms[0], List)
    span = forms[0].items[-1].place.span
    assert (span.line, span.column, span.length) == (line, column, 4)
    assert text.splitlines()[line - 1][column - 1 :].startswith("oops")


def test_names_fold_where_the_exact_spelling_is_missing() -> None:
    (c,) = read("(composite f ((Some-Port{f32}[M]) -> (Y{f32}[m])) (dotimes (i m) (setf (aref y i) (aref SOME_PORT i))))")
    graph = elaborate(c, Scope((c,)))
    assert [s.name for s in graph.sizes] == ["M"] and graph.ports[1].shape == graph.ports[0].shape


def test_a_name_of_a_file_and_the_library() -> None:
    composites = read("(composite gelu ((X{T}[N]) -> (Y{T}[N])) (return (* 3 X)))\n(composite f ((A{T}[N]) -> (Y{T}[N])) (return (gelu A)))")
    assert len(elaborate(composites[-1], Scope(composites)).nodes()) == 3
    alone = read("(composite matmul ((A{T}[M K] B{T}[K N]) -> (C{T}[M N])) (return (matmul A B)))")
    assert elaborate(alone[0], Scope(alone)).name == "matmul"


def test_composites_of_other_folders(tmp_path: Path) -> None:
    (tmp_path / "twice.lisp").write_text("(composite ((A{T}[N]) -> (Y{T}[N])) (return (* 2 A)))")
    composites = read("(composite f ((A{T}[N]) -> (Y{T}[N])) (return (twice A)))")
    assert elaborate(composites[0], Scope(composites, (tmp_path,))).outputs
    with pytest.raises(SourceError, match="E0203"):
        elaborate(composites[0], Scope(composites))
    (tmp_path / "twice.lisp").write_text("(composite ((A{T}[N]) -> (Y{T}[N])) (return (* 2 B)))")
    with pytest.raises(SourceError) as caught:
        elaborate(composites[0], Scope(composites, (tmp_path,)))
    text = render_diagnostics(caught.value.diagnostics)
    assert text.startswith("<stdin>:1:47: error[E0201]: in `twice`: unknown name `B`") and "twice.lisp:1:50" in text


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml"):
        read_file(tmp_path / "none.toml")


# ---- harm


HOSTILE = {
    "parentheses": "(" * 200_000,
    "closed parentheses": "(" * 100_000 + ")" * 100_000,
    "shallow lists": "() " * 200_000,
    "a name of a megabyte": f"(composite {'x' * 1_000_000} ((A{{f32}}[N]) -> (A)) (return A))",
    "a number of a megabyte": f"(composite f ((A{{f32}}[N]) -> (A)) (return (* A {'9' * 1_000_000})))",
    "a string of two megabytes": '(composite f "' + "x" * 2_000_000 + '")',
    "NUL": "(composite f\0)",
    "TOML arrays": "a = " + "[" * 100_000,
    "TOML tables": "a = " + "{a=" * 100_000,
    "TOML keys": ".".join("a" for _ in range(20_000)) + " = 1",
    "TOML headers": "".join(f"[a{k}]\n" for k in range(50_000)),
    "extents": "(composite f ((A{f32}[1000000000000000000 1000000000000000000]) -> (Y{f32}[N])) (return A))",
    "extents of the body": "(composite f ((A{f32}[1]) -> Y) (return (expand A 1000000000000000000)))",
    "tiles": "(composite f ((A{f32}[9]) -> Y) (return (tile A 1000000000000000000)))",
    "doubling": "(composite f ((A{f32}[9]) -> Y) " + "(setf A (concat A A))" * 60 + "(return A))",
    "deep sums": "(composite f ((A{f32}[9]) -> Y) (return " + "(+ A " * 300 + "A" + ")" * 302,
    "controls": "(composite f ((A{f32}[N]) -> (A)) (return \x1b[31m\x07))",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_refused_quickly_and_in_words(text: str) -> None:
    start = time.process_time()
    with pytest.raises(SourceError) as caught:
        composites = read(text)
        elaborate(composites[-1], Scope(composites))
    said = render_diagnostics(caught.value.diagnostics)
    assert time.process_time() - start < 5  # about 0.1; what is meant is that nothing grows without bounds
    assert len(said) < 20_000 and all(c.isprintable() or c in "\n\t" for c in said)


@pytest.mark.parametrize("depth", [50, 200, 240])
def test_deep_but_admitted_nesting_is_compiled(depth: int) -> None:
    (c,) = read("(composite f ((A{f32}[N]) -> Y) (return " + "(+ A " * depth + "A" + ")" * (depth + 2))
    assert len(elaborate(c, Scope((c,))).nodes()) == depth + 1
    (c,) = read("(composite f ((A{i64}[N]) -> (Y{i64}[])) (dotimes (i N) (setf Y " + "(+ (aref A i) " * depth + "1" + ")" * (depth + 3))
    assert elaborate(c, Scope((c,))).outputs


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "binary.toml"
    path.write_bytes(b'[composite]\nname = "\xff\xfe"\n')
    with pytest.raises(SourceError, match=r"binary.toml:2:9: error\[E0107\]"):
        read_file(path)
    path.write_bytes(b"x" * (1 << 21))
    with pytest.raises(SourceError, match="E0106"):
        read_file(path)


def test_random_damage_never_ends_in_anything_but_a_diagnostic() -> None:
    seed = 5
    print("seed", seed)
    rng = random.Random(seed)
    root = Path(__file__).parent.parent
    texts = [(p.read_text("utf-8"), p.name) for p in [*sorted((root / "samples").glob("*.toml")), *sorted((root / "ops").glob("nn/*.toml"))]] + [
        (GEMM, "gemm.lisp")
    ]
    alphabet = '()[]{}<>,;:"\\ \n~=%-+0aM'
    for _ in range(400):
        text, name = rng.choice(texts)
        at = rng.randrange(len(text))
        damaged = text[:at] + rng.choice(["", rng.choice(alphabet), rng.choice(alphabet) * 3]) + text[at + rng.randrange(3) :]
        try:
            composites = read(damaged, name)
            elaborate(composites[-1], Scope(composites))
        except SourceError as e:
            assert e.diagnostics and all(d.span.line > 0 for d in e.diagnostics)
            render_diagnostics(e.diagnostics)


WORDS = [
    "A",
    "B",
    "s",
    "Y",
    "N",
    "M",
    "i",
    "t",
    "nil",
    "_",
    "0",
    "1",
    "-1",
    "2",
    "0.5",
    "inf",
    ":axis",
    ":keepdims",
    ":dtype",
    "f32",
    "i64",
    "relu",
    "softmax",
    "linear",
    "attention",
]
TEXTS = ['"ij,jk->ik"', '"x"', "(0 1)", "(1 1 2)", "(M N)", "(N)", "()"]


def test_random_programs_end_in_a_graph_or_a_diagnostic() -> None:
    from luminal.dsl.evaluate import SPECIAL, STATEMENTS
    from luminal.dsl.operators import TABLE

    seed = 5
    print("seed", seed)
    rng = random.Random(seed)
    heads = [*TABLE, *SPECIAL, *STATEMENTS, "aref", "aref", "+", "*", "gelu", "layer_norm"]

    def form(depth: int) -> str:
        if depth == 0 or rng.random() < 0.3:
            return rng.choice(WORDS if rng.random() < 0.8 else TEXTS)
        if rng.random() < 0.3:
            return f"(dotimes (i {rng.choice('MN3')}) ({rng.choice(['setf', 'incf'])} (aref {rng.choice('YA')} i {rng.choice(['0', 'i', '(mod i N)'])}) {form(depth - 1)}))"
        return f"({rng.choice(heads)} {' '.join(form(depth - 1) for _ in range(rng.randrange(4)))})"

    graphs = 0
    for _ in range(400):
        text = (
            f"(composite f ((A{{f32}}[M N] B{{i64}}[M N] s{{f32}}[]) -> (Y{{f32}}[M N])) {form(rng.randrange(4))} (return {form(rng.randrange(4))}))"
        )
        try:
            composites = read(text)
            graphs += bool(elaborate(composites[0], Scope(composites)).outputs)
        except SourceError as e:
            assert e.diagnostics, text
        except Exception as e:
            raise AssertionError(text) from e
    assert graphs > 0
