"""`luminal test-runtime`: what it says of runtimes that are right, wrong in one place, or not whole; each is a folder of a few lines."""

from __future__ import annotations

import json
import shlex
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from compilers import needs_cc
from luminal import dsl, runtimes
from luminal.cli.main import cli, prepare
from luminal.ir.dtypes import f32, f64, numpy_dtype
from luminal.ir.errors import UsageError
from luminal.ir.graph import Graph
from luminal.ir.interpret.graph import evaluate
from luminal.ir.interpret.judge import Bounded
from luminal.ir.layout import allocate
from luminal.ir.merge import merge
from luminal.ir.primops import OPS, STRUCTURAL
from luminal.ir.record import replace
from luminal.ir.target import Options
from luminal.ir.verify import verify
from luminal.passes.pipeline import run_pipeline
from luminal.runtimes import find
from luminal.search import own
from luminal.search.conformance import survey as surveys
from luminal.search.conformance.distance import FAR, histogram, quantile, steps
from luminal.search.conformance.kernels import Refused, Spec, compiled, of_case, specs
from luminal.search.conformance.layouts import laid_out
from luminal.search.conformance.report import reproduction
from luminal.search.conformance.sizes import bindings, legal
from luminal.search.conformance.subjects import Subject, Variation, operators, subjects
from luminal.search.conformance.survey import chosen, recorded, units
from luminal.search.conformance.unit import Settings, Tally, run_unit
from luminal.search.conformance.values import inputs, special_size
from luminal.search.operations import work_of

TOML = 'name = "{name}"\ninherits = "clang"\n'


def runtime(folder: Path, toml: str = "", **files: str) -> Path:
    """A runtime that inherits from clang; `files` by name, with _ for the dot."""
    folder.mkdir()
    (folder / "runtime.toml").write_text(TOML.format(name=folder.name) + toml)
    for name, text in files.items():
        (folder / {"source": "source.c.j2", "driver": "driver.py"}[name]).write_text(text)
    return folder


def luminal(*words: str) -> Result:
    return CliRunner().invoke(cli, prepare(["test-runtime", *words]), catch_exceptions=False, standalone_mode=False)


def rows(*words: str) -> tuple[int, list[dict[str, Any]]]:
    done = luminal(*words, "--json")
    table = json.loads(done.stdout)
    assert table["ok"] is (done.return_value == 0)
    return done.return_value, table["rows"]


def elaborated(text: str) -> Graph:
    (c,) = dsl.read(text, "test.lisp")
    return dsl.elaborate(c, dsl.Scope((c,)))


# ---- what is tested


def test_every_primop_and_every_derived_operator_is_a_subject_and_the_contract_comes_first() -> None:
    every = subjects()
    assert [s.name for s in every[: len(operators())]] == operators()
    assert set(operators()) == OPS.keys() | STRUCTURAL.keys()
    assert [s.kind for s in every] == sorted((s.kind for s in every), key=["primop", "derived", "composite"].index)
    assert sum(s.kind == "primop" for s in every) == 27


def test_the_sizes_of_a_composite_are_of_every_class_and_legal() -> None:
    graph = elaborated("(composite f ((A{f32}[M K](where K % 4 = 0) B{f32}[K N]) -> (C{f32}[M N])) (return (matmul A B)))")
    for quick in (False, True):
        found = bindings(graph, ({"M": 3, "K": 8, "N": 5},), quick)
        assert all(legal(graph, b) for _, b in found)
        assert len({tuple(b.items()) for _, b in found}) == len(found)
        assert {"zero", "prime", "tile", "large"} <= {kind for kind, _ in found}
        assert any(0 in b.values() for _, b in found) and any(b["M"] == 1 for _, b in found) and max(b["M"] for _, b in found) > 40


def test_an_interpreter_is_given_less_work() -> None:
    graph = elaborated("(composite f ((A{f32}[M K] B{f32}[K N]) -> (Y)) (return (matmul A B)))")
    most, less = (max(work_of(graph, b)[0] for _, b in bindings(graph, (), True, interpreted)) for interpreted in (False, True))
    assert 5 < most / less < 50 and find("reference").target(None, {}, False).interpreted


def test_a_size_that_something_is_divided_by_is_not_0() -> None:
    graph = elaborated("(composite f ((A{f32}[M K](where M % K = 0)) -> (C{f32}[M])) (return (sum A :axis 1)))")
    assert not legal(graph, {"M": 2, "K": 0})
    assert bindings(graph, ({"M": 6, "K": 3},), False)


def test_layouts_change_the_memory_and_nothing_else() -> None:
    graph = elaborated("(composite f ((A{f32}[M N] B{f32}[M N]) -> (C{f32}[M N])) (return (+ A B)))")
    column, permuted = laid_out(graph, "column"), laid_out(graph, "permuted")
    assert column is not None and permuted is not None
    assert [p.memory_order for p in column.ports] == [(1, 0)] * 3
    assert [p.memory_order for p in permuted.ports] == [(1, 0), (0, 1), (1, 0)]
    assert column.outputs == graph.outputs
    assert laid_out(elaborated("(composite f ((A{f32}[N]) -> (C{f32}[N])) (return (exp A)))"), "column") is None


def test_special_values_meet_each_other_and_depend_on_the_seed_alone() -> None:
    graph = elaborated("(composite f ((A{f32}[N] B{f32}[N]) -> (C{f32}[N])) (return (+ A B)))")
    n = special_size(graph)
    a, b = (inputs(graph, {"N": n}, "special", 5) for _ in range(2))
    assert all(np.array_equal(a[p].view(np.uint32), b[p].view(np.uint32)) for p in "AB")
    met = {(float(x), float(y)) for x, y in zip(a["A"], a["B"], strict=True)}
    assert {(np.inf, -np.inf), (0.0, np.inf), (1.0, 0.0)} <= met and np.isnan(a["A"]).any()
    assert np.signbit(a["A"][a["A"] == 0]).any()


def test_distances_are_counted_in_representable_values() -> None:
    def of(d: Any, actual: list[float], exact: list[float]) -> list[int]:
        kind = {f32: np.float32, f64: np.float64}[d]
        value = np.array(exact, np.longdouble if d is f64 else np.float64)
        return steps(np.array(actual, kind), Bounded(value, np.zeros(len(exact)), np.zeros(len(exact), bool)), d).tolist()

    one = np.nextafter(np.float32(1), np.float32(2))
    assert of(f32, [1.0, float(one), 0.0, np.inf], [1.0, 1.0, -0.0, np.inf]) == [0, 1, 0, 0]
    assert of(f32, [np.nan, np.nan, 1.0], [np.nan, 1.0, np.nan]) == [0, FAR, FAR]
    assert of(f64, [5e-324, -5e-324], [0.0, 5e-324]) == [1, 2]
    assert of(f32, [float(np.finfo(np.float32).max)], [np.inf]) == [1]
    counts = histogram(np.array([0] * 97 + [1, 3, 1000]))
    assert counts == {0: 97, 1: 1, 3: 1, 512: 1}
    assert [quantile(counts, q) for q in (0.5, 0.98, 0.99, 1.0)] == [0, 1, 3, 512]


# ---- many programs in one


MERGED = {
    "a scalar, in place": "(composite f ((A{f32}[M N] B{f32}[N M] s{f32}[]) -> (A)) (return (+ (* s A) (transpose B))))",
    "temporaries": "(composite f ((A{f32}[M K] B{f32}[K N]) -> (C{f32}[M N])) (setf c (matmul A B)) (return (/ c (sum c :axis 1 :keepdims t))))",
    "loops in functions of their own": "(composite f ((A{f32}[M N] B{f32}[N]) -> (C{f32}[M N] D{f32}[N])) (return (* A B) (exp B)))",
    "an index": "(composite f ((T{f32}[K N] I{i32}[M]) -> (Y{f32}[M N])) (return (gather T I)))",
    "loops": "(composite f ((X{f64}[N]) -> (X)) (loop (i 1 n) (incf (aref X i) (* 0.5 (aref X (- i 1))))))",
    "complex": "(composite f ((X{c64}[N] a{c64}[]) -> (Y{c64}[N])) (return (* a X)))",
    "nothing to read": "(composite f ((X{f32}[M N]) -> (Y{i64}[M N])) (return (+ (unsqueeze (iota M) :axis 1) (iota N))))",
}


@pytest.mark.parametrize("name", ["reference", pytest.param("clang", marks=needs_cc)])
def test_merged_programs_are_called_one_by_one(name: str, tmp_path: Path) -> None:
    chosen_runtime = runtimes.find(name)
    target = chosen_runtime.target(None, {}, False)
    graphs = [elaborated(text) for text in MERGED.values()]
    merged = merge([run_pipeline(g, "graph", target, Options()) for g in graphs], "unit")
    verify(merged.program)
    kind, suffix = chosen_runtime.run_kind(None)
    path = tmp_path / f"unit{suffix}"
    chosen_runtime.build(chosen_runtime.render(merged.program, target, "lm_"), target, kind, path, 120, [])
    library = chosen_runtime.load(path, merged.program, target, "lm_")
    for k, graph in enumerate(graphs):
        sizes = {s.name: {"M": 3, "N": 5, "K": 4}[s.name] for s in graph.sizes}
        given = inputs(graph, sizes, "drawn", k)
        arrays = {p.name: given[p.name] if p.name in given else allocate(p, sizes) for p in graph.ports}
        before = {n: np.array(a) if isinstance(a, np.ndarray) else a for n, a in given.items()}
        flat = {n: a if p.role == "scalar" else np.ravel(a) for p in graph.ports for n, a in ((p.name, arrays[p.name]),)}
        call = {p.name: 0 if p.role == "scalar" else np.zeros(1, numpy_dtype(p.dtype)) for p in merged.program.ports}
        call |= {merged.ports[k][n]: a for n, a in flat.items()}
        counts = {n: a.size for n, a in flat.items() if isinstance(a, np.ndarray)}
        assert library.call(call, merged.bound(k, sizes, counts)) == 0
        expected = evaluate(graph, before, sizes)
        for out, _ in graph.outputs:
            np.testing.assert_allclose(np.asarray(flat[out]).reshape(arrays[out].shape), np.asarray(expected[out].value), rtol=1e-5, atol=1e-5)
    # a size of another program is no concern of this one
    assert library.call(call, {s.name: -1 for s in merged.program.sizes} | {"which": 99}) == 0


# ---- what is said of a runtime


@needs_cc
def test_a_right_runtime_passes_and_the_report_says_on_what(tmp_path: Path) -> None:
    report = tmp_path / "R.md"
    done = luminal("--ops", "exp", "--ops", "softmax", "--ops", "sum_reduce", "--dtype", "f32", "--quick", "-o", str(report))
    assert done.return_value == 0 and not done.stderr
    text, table = report.read_text(), json.loads(report.with_suffix(".json").read_text())
    shown = [(r["kind"], r["name"], r.get("form", "")) for r in table["rows"]]
    assert (
        shown[:3] == [("primop", "sum_reduce", ""), ("derived", "exp", ""), ("derived", "exp", "decomposed")]
        and ("composite", "softmax", "") in shown
    )
    assert all(r["cases"] == r["passed"] >= 5 for r in table["rows"])
    assert "| exp | ✓ |" in text and "## What fails" not in text
    for what in (table["target"], table["tools"], table["machine"], table["library"], table["folder"], table["command"]):
        assert what and what in text
    assert [p.name for p in tmp_path.iterdir() if p.suffix == ".journal"] == [], "the journal goes with the end of the run"


@needs_cc
def test_a_wrong_spelling_is_a_mismatch_and_the_command_shows_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runtime(tmp_path / "wrong", '[spell]\nmax = { any = "{0} > {1} ? {0} : {1}", "any.vector" = "{0}" }\n[target]\nvectors = false\n')
    status, found = rows("--runtime", "./wrong", "--ops", "max", "--ops", "add", "--dtype", "f32", "--quick")
    assert status == 3
    by = {r["name"]: r for r in found if r["kind"] == "primop"}
    assert by["add"]["status"] == "passes" and by["max"]["status"] == "mismatch"
    assert "nan" in by["max"]["detail"]
    words = shlex.split(by["max"]["command"])
    assert words[:2] == ["luminal", "test-runtime"] and "special" in by["max"]["command"]
    status, (again,) = rows(*words[2:])
    assert status == 3 and again["status"] == "mismatch" and again["cases"] == 1


@needs_cc
def test_what_is_lacking_is_named_and_is_no_failure(tmp_path: Path) -> None:
    runtime(tmp_path / "narrow", '[target]\ndtypes = ["f32", "i64", "bool"]\narithmetic = ["f32", "i64", "bool"]\n')
    status, found = rows("--runtime", str(tmp_path / "narrow"), "--ops", "relu", "--dtype", "f32", "--dtype", "f16", "--quick")
    assert status == 0
    assert [(r["dtype"], r["status"], r.get("what")) for r in found] == [("f32", "passes", None), ("f16", "not supported", "f16")]


def test_a_dtype_that_a_composite_does_not_take_is_no_failure(tmp_path: Path) -> None:
    asked = ("--runtime", "reference", "--ops", "sinc", "--ops", "where", "--quick")
    code, found = rows(*asked, "--dtype", "i64")
    assert code == 0
    assert {(r["kind"], r["name"]): (r["status"], r.get("what")) for r in found} == {
        ("primop", "where"): ("passes", None),
        ("composite", "where"): ("passes", None),
        ("composite", "sinc"): ("not supported", "i64"),
    }
    assert "for want of `i64`: sinc" in luminal(*asked, "--dtype", "i64").stdout
    code, found = rows(*asked, "--dtype", "i64", "--dtype", "f32")
    assert code == 0 and [r["dtype"] for r in found if r["name"] == "sinc"] == ["f32"], "beside a dtype that it takes it is no row"


def test_a_composite_that_is_defined_on_no_dtype_is_a_mistake() -> None:
    def graph(dtype: str, ranks: int, instance: Variation) -> Graph:
        return elaborated("(composite f ((A{f32}[N]) -> (Y{f32}[N])) (return (nothing A)))")

    target = runtimes.find("reference").target(None, {}, False)
    found = compiled(Spec("f", "composite", "f32"), Subject("f", "composite", "nn", graph, ("f32", "i64")), target)
    assert isinstance(found, Refused) and found.status == "compiler error" and "nothing" in found.detail


BAD = {"crash": "abort();", "time limit": "for (;;) sleep(1);"}


@needs_cc
@pytest.mark.parametrize("status", BAD)
def test_a_kernel_that_dies_or_hangs_is_its_own_row(status: str, tmp_path: Path) -> None:
    source = f'#include <stdlib.h>\n#include <unistd.h>\nstatic float bad(float x) {{ {BAD[status]} return x; }}\n{{% include "clang/source.c.j2" %}}'
    folder = runtime(tmp_path / "bad", '[spell]\nsqrt = "bad({0})"\n[target]\nvectors = false\n', source=source)
    asked = ("--runtime", str(folder), "--dtype", "f32", "--timeout", "5", "--case", "row N=13")
    code, (found,) = rows(*asked, "--ops", "sqrt")
    assert code == 3 and found["status"] == status and found["cases"] == 1 and "passed" not in found
    code, found = rows(*asked, "--ops", "sqrt", "--ops", "recip")
    assert code == 3 and {r["name"]: r["status"] for r in found} == {"sqrt": status, "recip": "passes"}


@needs_cc
def test_a_kernel_that_always_dies_is_left_alone_after_some_cases(tmp_path: Path) -> None:
    source = '#include <stdlib.h>\nstatic float bad(float x) { abort(); return x; }\n{% include "clang/source.c.j2" %}'
    folder = runtime(tmp_path / "bad", '[spell]\nsqrt = "bad({0})"\n[target]\nvectors = false\n', source=source)
    code, found = rows("--runtime", str(folder), "--dtype", "f32", "--quick", "--ops", "sqrt")
    by = {r["kind"]: r for r in found}
    assert code == 3 and by["primop"]["status"] == "crash" and by["primop"]["cases"] == 4 and by["primop"]["passed"] == 1, "N = 0, then three"


@needs_cc
def test_a_kernel_that_does_not_compile_does_not_keep_the_others_from_it(tmp_path: Path) -> None:
    folder = runtime(tmp_path / "gap", '[spell]\nsqrt = "no_such_function_anywhere({0} $)"\n')
    code, found = rows("--runtime", str(folder), "--ops", "add", "--ops", "sqrt", "--ops", "mul", "--dtype", "f32", "--quick")
    assert code == 3
    assert {r["name"]: r["status"] for r in found} == {"add": "passes", "mul": "passes", "sqrt": "compiler error"}
    assert "no_such_function_anywhere" in next(r["detail"] for r in found if r["name"] == "sqrt")


def test_a_runtime_without_a_primop_is_told_which(tmp_path: Path) -> None:
    driver = "from ..reference.driver import Driver as Reference\n\n\nclass Driver(Reference):\n    def render(self, program, target, prefix):\n"
    driver += "        from luminal.ir.errors import Unsupported\n        from luminal.ir.text import show\n        if 'sqrt(' in show(program):\n"
    driver += "            raise Unsupported('sqrt', 'the runtime spells no `sqrt`')\n        return super().render(program, target, prefix)\n"
    folder = tmp_path / "rootless"
    folder.mkdir()
    (folder / "runtime.toml").write_text('name = "rootless"\ninherits = "reference"\n')
    (folder / "driver.py").write_text(driver)
    code, found = rows("--runtime", str(folder), "--ops", "sqrt", "--ops", "mul", "--ops", "norm", "--dtype", "f32", "--quick")
    assert code == 0
    assert {r["name"]: (r["status"], r.get("what")) for r in found} == {
        "mul": ("passes", None),
        "sqrt": ("not supported", "sqrt"),
        "norm": ("not supported", "sqrt"),
    }


# ---- interrupted runs


def test_a_run_goes_on_where_it_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = [[s] for s in specs(chosen(["recip", "less_than", "mod"]), ["f32"], True) if s.kind == "primop"]
    settings = Settings("reference", quick=True)
    journal = tmp_path / "journal"
    whole = surveys.survey(work, settings, 1, None, False, lambda p: None)
    calls: list[str] = []

    def interrupted(unit: Any, given: Settings) -> Any:
        calls.append(unit[0].subject)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return run_unit(unit, given)

    monkeypatch.setattr(surveys, "run_unit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        surveys.survey(work, settings, 1, journal, False, lambda p: None)
    with journal.open("a") as file:
        file.write('{"unit": 2, "tal')  # cut off
    assert len(recorded(journal, surveys.key_of(work, settings))) == 2
    told: list[int] = []
    assert surveys.survey(work, settings, 1, journal, True, lambda p: told.append(p.done)) == whole
    assert len(calls) == 4 and calls[3] == calls[2] and told == [3]
    assert recorded(journal, surveys.key_of(work, Settings("reference"))) == {}, "a journal of another run is not gone on with"


def test_a_run_does_not_go_on_with_the_results_of_another_luminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = [[s] for s in specs(chosen(["recip"]), ["f32"], True) if s.kind == "primop"]
    settings, journal = Settings("reference", quick=True), tmp_path / "journal"
    surveys.survey(work, settings, 1, journal, False, lambda p: None)
    assert len(recorded(journal, surveys.key_of(work, settings))) == len(work)
    for other in ("another pass", None):  # None: nobody can say which text runs
        monkeypatch.setattr(own, "compiler", lambda other=other: other)
        assert recorded(journal, surveys.key_of(work, settings)) == {}
    surveys.start(journal, surveys.key_of(work, settings), {})
    assert recorded(journal, surveys.key_of(work, settings)) == {}


def test_what_was_computed_while_luminal_changed_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = [[s] for s in specs(chosen(["recip"]), ["f32"], True) if s.kind == "primop"]
    settings, journal = Settings("reference", quick=True), tmp_path / "journal"
    monkeypatch.setattr(own, "compiler_unchanged", lambda: False)
    assert surveys.survey(work, settings, 1, journal, False, lambda p: None)
    assert recorded(journal, surveys.key_of(work, settings)) == {}


def test_who_interrupts_a_run_is_told_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(unit: Any, given: Settings) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(surveys, "run_unit", interrupted)
    done = CliRunner().invoke(cli, prepare(["test-runtime", "--ops", "recip", "--quick", "-o", str(tmp_path / "R.md")]))
    assert done.exit_code and "--resume goes on" in done.stderr
    assert (tmp_path / ".R.md.journal").exists() and not (tmp_path / "R.md").exists()


def test_an_interrupted_run_leaves_no_process_behind() -> None:
    work = [[s] for s in specs(chosen(["primops"]), ["f32"], True)]

    def interrupt(p: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        surveys.survey(work, Settings("reference", quick=True), 2, None, False, interrupt)
    assert not active_children()


def test_processes_do_not_change_the_result() -> None:
    work = [[s] for s in specs(chosen(["add", "recip"]), ["f32"], True)]
    settings = Settings("reference", quick=True)
    one, two = (surveys.survey(work, settings, n, None, False, lambda p: None) for n in (1, 2))
    assert one == two


def test_units_are_of_one_dtype_and_limited() -> None:
    found = units(subjects(), (), False)
    assert all(len(unit) <= surveys.UNIT and len({s.dtype for s in unit}) == 1 for unit in found)
    quick = {s for unit in units(subjects(), (), True) for s in unit}
    assert quick < {s for unit in found for s in unit}, "whatever fails in a quick run can be named with --case"


def test_names_that_are_not_there_are_errors() -> None:
    with pytest.raises(UsageError, match="nearest: softmax"):
        luminal("--ops", "sofmax")
    with pytest.raises(UsageError, match="no dtype"):
        luminal("--dtype", "f33")
    with pytest.raises(UsageError, match=r"\.md"):
        luminal("-o", "report.txt")
    with pytest.raises(UsageError, match="no such case"):
        luminal("--runtime", "reference", "--ops", "add", "--dtype", "f32", "--case", "row N=123456")


def test_a_reproducing_command_says_all_that_the_case_depends_on() -> None:
    """`--quick` has other sizes, and an operator and a composite may have one name."""
    tally = Tally(Spec("tanh", "composite", "f32"), "elementwise", failed="row N=3 special")
    words = shlex.split(reproduction(tally, Settings("./mine", quick=True, timeout=5)))
    assert "--quick" in words and words[words.index("--timeout") + 1] == "5"
    assert words[words.index("--kind") + 1] == "composite" and words[-1] == "row N=3 special"
    assert "--kind" not in shlex.split(reproduction(replace(tally, spec=Spec("gemm", "composite", "f32")), Settings("./mine")))


def test_a_case_is_of_one_kernel() -> None:
    every = specs(chosen(["tanh"]), ["f32"], quick=False)
    derived = [s for s in every if s.kind == "derived"]
    for spec in derived:
        assert of_case(derived, spec.words) == [spec] and of_case(derived, f"{spec.words} N=3") == [spec]
    assert of_case(every, "rows N=3") == []
