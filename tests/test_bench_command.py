"""`luminal bench` and `python -m luminal.bench` work: what they print and write, and how they fail.  No timing is asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import sleep
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import luminal.bench.__main__ as table
import luminal.search.bench.ceiling as ceiling
import luminal.search.bench.measure as measuring
import luminal.search.bench.peers as peers
import numpy as np
import pytest
from compilers import needs_cc
from luminal.bench import chart as kept, held
from luminal.bench.bars import Bars, missed, of_family
from luminal.cli import main as cli
from luminal.cli.bench import parameters_of
from luminal.cli.parse import parse_bindings
from luminal.compiler import OPS_FOLDER, Settings, compilations
from luminal.ir.interpret.graph import evaluate
from luminal.search.bench import blocks
from luminal.search.bench.blocks import Block, Contender, Method, compare, ratio, spread
from luminal.search.bench.ceiling import PAGE, Ceilings
from luminal.search.bench.chart import Bar, chart
from luminal.search.bench.dialect import NUMPY
from luminal.search.bench.pace import Pace
from luminal.search.draw import draw
from luminal.search.operations import iterations
from luminal.search.trial import Result

QUICK = ["--blocks", "1", "--runs", "1", "--patience", "0"]
pytestmark = pytest.mark.usefixtures("quick_ceilings")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = cli.run(["bench", *words])
    said = capsys.readouterr()
    return status, said.out, said.err


# ---- the command


@needs_cc
def test_a_row_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "ratios.svg"
    sizes = ["--sizes", "M=6,N=5,K=7", "--sizes", "M=3,N=4,K=5,alpha=0.5,beta=2.0"]
    status, out, _ = run(capsys, "gemm", *sizes, "--peers", "numpy", "--svg", str(picture), "--json", *QUICK)
    report = json.loads(out)
    assert status == 0 and report["ok"] and report["runtime"] == "clang" and report["threads"] >= 1
    first, second = report["results"]
    assert first["sizes"] == {"M": 6, "K": 7, "N": 5} and first["dtype"] == "f32" and first["check"]["ok"]
    assert second["sizes"]["M"] == 3
    for row in (first, second):
        best = row["best_peer"]
        assert best in row["time_s"] and best in row["forms"] and row["time_s"]["luminal"] > 0
        assert row["ratio"] == pytest.approx(row["time_s"][best] / row["time_s"]["luminal"])
        assert row["noise"] is None and not row["tie"]  # one block says nothing of noise
        assert row["ceiling"] in ("copy", "read", "fma") and row["of_ceiling"] > 0
        assert set(row["time_s"]) == set(row["spread"])
    assert second["flops"] == 2 * 3 * 4 * 5 + 3 * 3 * 4  # the product, and the scales and the sum
    root = ElementTree.fromstring(picture.read_text())
    assert root.tag.endswith("svg") and sum(e.tag.endswith("rect") for e in root.iter()) == 3


@needs_cc
def test_a_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "exp", "relu", "--sizes", "batch=99", "--peers", "numpy", *QUICK)
    lines = out.splitlines()
    assert status == 0 and [line.partition(",")[0] for line in lines if " for " in line] == ["exp", "relu"]
    assert any("of ceiling" in line for line in lines) and sum("numpy" in line for line in lines) == 2


@needs_cc
def test_a_peer_that_is_not_there_is_a_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    status, out, _ = run(capsys, "relu", "--sizes", "batch=9", "--peers", "torch", "--json", *QUICK)
    (row,) = json.loads(out)["results"]
    assert status == 0 and row["best_peer"] is None and row["ratio"] is None and not row["tie"]
    assert row["notes"][0] == "torch: not installed (pip install torch)"  # behind it may stand that the machine was disturbed


@needs_cc
def test_kernels_of_tinygrad_are_searched_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in of its interface: the search of a real one takes a minute."""
    settings: list[dict[str, int]] = []

    class Tensor:
        def __init__(self, array: Any, device: str = "CPU") -> None:
            self.array = array

        def __matmul__(self, other: Tensor) -> Tensor:
            return Tensor(self.array @ other.array)

        def realize(self) -> Tensor:
            return self

        def numpy(self) -> Any:
            return self.array

    def context(**of: int) -> AbstractContextManager[None]:
        settings.append(of)
        return nullcontext()

    device = {"CPU": SimpleNamespace(synchronize=lambda: None)}
    library = {"tinygrad": SimpleNamespace(Tensor=Tensor, TinyJit=lambda f: f, Device=device), "tinygrad.helpers": SimpleNamespace(Context=context)}
    monkeypatch.setattr(peers, "find_spec", lambda name: name)
    monkeypatch.setattr(peers, "import_module", library.__getitem__)
    status, out, _ = run(capsys, "matmul", "--sizes", "batch=2,M=5,N=4,K=3", "--peers", "tinygrad", "--json", *QUICK)
    assert status == 0 and json.loads(out)["results"][0]["best_peer"] == "tinygrad" and settings[0]["BEAM"] == 4
    # it is asked for what stands in its table alone
    status, out, _ = run(capsys, "relu", "--sizes", "batch=9", "--peers", "tinygrad", "--json", *QUICK)
    assert status == 0 and json.loads(out)["results"][0]["best_peer"] is None
    monkeypatch.setattr(Tensor, "realize", lambda self: open("/nowhere/clang"))  # noqa: SIM115
    status, out, _ = run(capsys, "matmul", "--sizes", "batch=2,M=5,N=4,K=3", "--peers", "tinygrad", "--json", *QUICK)
    assert status == 0 and any(n.startswith("tinygrad: [Errno 2] No such file") for n in json.loads(out)["results"][0]["notes"])


@needs_cc
def test_what_is_wrong_is_not_timed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(subject: Any, sizes: dict[str, int], **_: Any) -> Result:
        return Result("relu", "clang", sizes, "mismatch", "Y[0] is 1, not 2")

    monkeypatch.setattr(measuring, "run", wrong)
    status, out, _ = run(capsys, "relu", "--sizes", "batch=9", "--json", *QUICK)
    (row,) = json.loads(out)["results"]
    assert status == 3 and not row["ok"] and row["check"]["detail"] == "Y[0] is 1, not 2" and "time_s" not in row
    status, out, _ = run(capsys, "relu", "--sizes", "batch=9", *QUICK)
    assert status == 3 and "WRONG" in out


@needs_cc
def test_a_peer_that_computes_something_else_is_not_timed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = "(composite argmax ((X{f32}[M N] &key (axis -1)) -> (Y{i64}[M])) (return (argmin X :axis axis)))"
    (tmp_path / "argmax.lisp").write_text(source)
    status, out, _ = run(capsys, str(tmp_path / "argmax.lisp"), "--sizes", "M=4,N=9", "--peers", "numpy", "--json", *QUICK)
    (row,) = json.loads(out)["results"]
    assert status == 0 and "numpy: gives another Y, not timed" in row["notes"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gemm", "--peers", "numpi"], "no such peer; there are numpy, torch, inductor, flex, tinygrad, or none"),
        (["gemm", "--sizes", "M=4,N=4"], "--sizes: gemm also needs K"),
        (["gemm", "--sizes", "M=4,N=4,K=4,Q=1"], "--sizes: gemm has no size or scalar Q"),
        (["gemm", "--sizes", "M=x"], "--sizes: M=x: expected a number"),
        (["gemmm"], "nearest: gemm"),
        (["gemm", "--runtime", "reference"], "its kernels are not C functions"),
    ],
)
def test_mistakes_on_the_command_line(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    status, _, err = run(capsys, *words)
    assert status == 2 and said in err


# ---- the method


def test_blocks_alternate_and_start_anew() -> None:
    log: list[str] = []
    both = {name: Contender(lambda name=name: log.append(name), 2, lambda name=name: log.append(f"reset {name}")) for name in "ab"}
    found = compare(both, Method(blocks=2, runs=3, pause=0.0, seconds=0.0, again=0, patience=0.0))
    assert log == 2 * ["reset a", *"aaaaa", "reset b", *"bbbbb"] and [len(v) for v in found.values()] == [2, 2]


def test_ratios_and_noise() -> None:
    assert ratio([1.0, 2.0, 1.0], [2.0, 4.0, 3.0]) == (3.0, 0.5)
    assert spread([1.0, 2.0, 1.5]) == pytest.approx(1 / 6)
    assert spread([1.0]) == 0.0 and spread([1.0, 1.0, 1.0, 1.0, 9.0]) == 0.0  # one disturbed block of five says nothing of the others


def test_loops_that_stay_loops_are_checked_at_sizes_that_take_seconds() -> None:
    """The reference goes through them one statement at a time."""
    nest = "(dotimes (n N) (loop (j n N) (if (< (aref X j) 0) (incf (aref Y n) (aref X j)) (setf (aref Y j) (aref Y n)))))"
    (c,) = compilations(f"(composite nest ((X{{T}}[N]) -> (Y{{T}}[N])) {nest})", Settings())
    raised = c.run(stop_after="raise_loops")
    assert iterations(raised, {"N": 1000}) == 500_000  # 1000 times half as many, as deep as the middle iteration of the outer loop is
    found = measuring.within(c.elaborate(), raised, {"N": 1 << 20}, measuring.CHECKED)
    assert iterations(raised, found) <= measuring.STEPS < iterations(raised, {"N": 2 * found["N"]})
    (c,) = compilations("(composite fill ((X{T}[N]) -> (Y{T}[N])) (dotimes (n N) (setf (aref Y n) (aref X n))))", Settings())
    assert iterations(c.run(stop_after="raise_loops"), {"N": 1 << 30}) == 0


def test_uneven_blocks_are_followed_by_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the middle half agrees, or patience ends; what is far behind may be as uneven as it likes, and of one block nothing more is asked for."""
    for method, slow, rounds in (
        (Method(blocks=3, patience=1e9), 1.0, 9),  # 1, 2, 1, 2 and five times 1: then both quartiles are 1
        (Method(blocks=3, patience=0.0), 1.0, 3),
        (Method(blocks=3, patience=1e9), 9.0, 3),
        (Method(blocks=1, patience=1e9), 1.0, 1),
    ):
        times = iter([1.0, 2.0, 1.0, 2.0] + 20 * [1.0])

        def disturbed(contender: Contender, *_: object, times: Iterator[float] = times, slow: float = slow) -> Block:
            return Block(1.0 if contender.executions == 1 else slow * next(times))

        monkeypatch.setattr(blocks, "least_disturbed", disturbed)
        found = compare({"a": Contender(print), "b": Contender(print, 2)}, method)
        assert [len(v) for v in found.values()] == [rounds, rounds], method


# ---- peers


CASES = [
    '(composite f ((A{T}[M K] B{T}[N K]) -> (C{T}[M N])) (return (einsum "ik,jk->ij" A B)))',
    "(composite f ((A{T}[H M K] B{T}[H K N] s{T}[]) -> (C{T}[H M N])) (return (* s (matmul A B))))",
    '(composite f ((A{T}[I J] B{T}[K J] C{T}[L J]) -> (Y{T}[I K L])) (return (einsum "ij,kj,lj->ikl" A B C)))',
    "(composite f ((X{T}[M N](where M >= 3, N % 4 = 0)) -> (Y{T}[A B])) (return (slice (transpose X) (_ _ 2) (1 3))))",
    "(composite f ((X{T}[M N](where N >= 3)) -> (Y{T}[M W])) (return (sum (unfold X :size 3 :step 2 :axis 1) :axis -1)))",
    "(composite f ((X{T}[M N]) -> (Y{T}[A B])) (return (pad X (1 2) (0 3) :value 7)))",
    "(composite f ((X{T}[M N](where N % 2 = 0)) -> (Y{T}[A B])) (return (exp (reshape X (* 2 M) (floordiv N 2)))))",
    "(composite f ((X{T}[M N] I{i64}[K]) -> (Y{T}[K N])) (return (gather X I :axis 0)))",
    "(composite f ((X{T}[M N]) -> (X)) (return (+ X (roll X 1 :axis 0))))",
    "(composite f ((X{T}[M N]) -> (Y{T}[M N])) (return (where (< (iota N) (unsqueeze (iota M) :axis 1)) X 0)))",
    "(composite f ((X{T}[N M]) -> (Y{T}[N] Z{i64}[N])) (return (max X :axis 1) (argmax X :axis 1)))",
]


@pytest.mark.parametrize("text", CASES)
def test_a_graph_in_numpy_is_what_it_was(text: str) -> None:
    (compilation,) = compilations(text, Settings())
    graph, raised = compilation.elaborate(), compilation.run(stop_after="raise_loops")
    sizes = {s.name: 8 + 4 * k for k, s in enumerate(graph.sizes)}
    inputs = {p.name: draw(p, sizes, 3) for p in graph.ports if p.role != "out"}
    expected = evaluate(graph, inputs, sizes, bounds=False)
    found = peers.candidates("numpy", peers.Work("f", raised, sizes, inputs, {}, 1))
    assert not found.notes
    for peer in found.peers:
        for _ in range(2):  # as often as one likes
            peer.reset()
            results = peer.results(peer.call())
            for port in graph.ports:
                if port.role in ("out", "inout"):
                    exact = np.asarray(expected[port.name].value)
                    assert measuring.agrees(port, np.asarray(results[port.name]), exact.astype(results[port.name].dtype)), peer.form


def test_every_form_of_numpy_runs() -> None:
    from luminal.search.bench.forms import NUMPY as forms

    for name in forms:
        (compilation,) = compilations(name, Settings())
        graph = compilation.elaborate()
        sizes = {s.name: 5 for s in graph.sizes}
        inputs = {p.name: draw(p, sizes, 0) for p in graph.ports if p.role != "out"}
        work = peers.Work(name, compilation.run(stop_after="raise_loops"), sizes, inputs, parameters_of(compilation), 1)
        assert any(p.form in forms[name] for p in peers.candidates("numpy", work).peers), name


def test_what_a_library_has_no_call_for_is_said() -> None:
    (compilation,) = compilations("(composite f ((X{f32}[N]) -> (Y{f32}[N])) (return (erf X)))", Settings())
    inputs = {"X": np.zeros(3, np.float32)}
    assert "erf" not in NUMPY.calls
    found = peers.candidates("numpy", peers.Work("f", compilation.elaborate(), {"N": 3}, inputs, {}, 1))
    assert not found.peers and found.notes == ["numpy: numpy has no call for erf"]


def test_forms_are_of_the_library() -> None:
    from luminal.search.bench.forms import FORMS

    names = {p.stem for p in OPS_FOLDER.glob("*/*.toml")}
    assert {name for forms in FORMS.values() for name in forms} <= names


# ---- the workloads


def test_every_workload_compiles() -> None:
    found = table.workloads(table.TABLE)
    assert sum(w.family == "not tuned for" for w in found) >= 10
    for w in found:
        options = {"runtime": "clang", "target": None, "config": (), "level": 2, "include": (), "entry": None, "timeout": 60.0}
        options |= {"sizes": w.sizes, "defines": w.define, "dtypes": w.dtype, "without": tuple(w.without), "fast": w.fast}
        (compilation,) = compilations(w.code.strip() or w.input, table.settings_of(options))
        graph = compilation.elaborate()
        for text in w.sizes:
            assert {s.name for s in graph.sizes} == set(parse_bindings(text, "--sizes")), w.name


@needs_cc
def test_the_whole_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    small = tmp_path / "table.toml"
    small.write_text(
        '[[workload]]\nname = "exp"\nfamily = "one"\ninput = "exp"\nsizes = ["batch=64"]\nbar = 1e9\n'
        '[[workload]]\nname = "sum"\nfamily = "two"\ncode = "(composite s ((X{T}[N]) -> (Y{T}[])) (return (sum X)))"\nsizes = ["N=100"]\n'
    )
    monkeypatch.setattr(sys, "argv", ["bench", "--table", str(small), "--peers", "numpy", *QUICK, "--out", str(tmp_path), "--date", "2000-01-01"])
    assert table.main() == 0
    out = capsys.readouterr().out
    assert "owed 1000000000.00" in out.partition("what misses its bar")[2]
    assert (tmp_path / "2000-01-01-bench.txt").read_text().startswith(out.splitlines()[0])
    results = json.loads((tmp_path / "2000-01-01-bench.json").read_text())
    assert [(r["name"], r["family"]) for r in results["results"]] == [("exp", "one"), ("sum", "two")]
    monkeypatch.setattr(sys, "argv", ["chart", str(tmp_path / "2000-01-01-bench.json"), "-o", str(tmp_path / "bench.svg")])
    kept.main()
    assert ElementTree.parse(tmp_path / "bench.svg").getroot().tag.endswith("svg")


@needs_cc
def test_the_fastest_expression_of_a_library_stands_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, fast = "numpy.stack([X.sum() for _ in range(300)]).max()", "X.sum()"
    small = tmp_path / "table.toml"
    code = "(composite s ((X{T}[N]) -> (Y{T}[])) (return (sum X)))"
    small.write_text(f'[[workload]]\nname = "sum"\nfamily = "one"\ncode = "{code}"\nsizes = ["N=100"]\nforms.numpy = ["{slow}", "{fast}"]\n')
    words = ["bench", "--table", str(small), "--peers", "numpy", *QUICK, "--out", str(tmp_path), "--date", "2000-01-01"]
    monkeypatch.setattr(sys, "argv", words)
    assert table.main() == 0
    (row,) = json.loads((tmp_path / "2000-01-01-bench.json").read_text())["results"]
    assert row["forms"]["numpy"] != slow


def test_memory_between_calls_is_as_much_as_anybody_would_take() -> None:
    class Floats:
        def element_size(self) -> int:
            return 4

        def new_empty(self, shape: tuple[int, ...]) -> tuple[int, ...]:
            return shape

    assert peers.scratch(Floats(), 8, 1024, 1024) == (8, 1024, 1024)
    with pytest.raises(ValueError, match="8590 MB"):
        peers.scratch(Floats(), 8, 16384, 16384)


def test_bars() -> None:
    from luminal.bench.__main__ import Workload

    listed = [Workload("a", "f", [], bar=1.1, least=0.9), Workload("b", "f", []), Workload("c", "g", [], ceiling=0.8)]
    assert of_family("f", listed) == Bars(1.1, 0.9, None) and of_family("g", listed).ceiling == 0.8
    checked = Result("x", "clang", {"N": 1}, "pass")
    row = measuring.Row(
        "x", {"N": 1}, "f32", checked, {"N": 1}, {"luminal": [1.0, 1.0], "numpy": [0.5, 0.5]}, ceiling="copy", best_possible=[0.25, 0.75]
    )
    assert missed(row, Bars(least=0.9, ceiling=0.8)) == ["N=1: 0.50 of numpy, owed 0.90", "N=1: 50% of the ceiling (copy), owed 80%"]
    assert missed(row, Bars(least=0.5, ceiling=0.5)) == []


def test_charts() -> None:
    text = chart("a < b", "c & d", [Bar("x", 0.25, "numpy"), Bar("y", 3.0, "torch"), Bar("z", 1.0, "torch", tie=True)])
    root = ElementTree.fromstring(text)
    said = [e.text for e in root.iter() if e.tag.endswith("text")]
    assert "a < b" in said and "3.00× torch" in said and "1.00× torch (a tie)" in said
    assert ElementTree.fromstring(chart("nothing", "", [])) is not None


def test_the_module_runs_as_a_command() -> None:
    done = subprocess.run([sys.executable, "-m", "luminal.bench", "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "--only" in done.stdout


def test_peers_are_held_to_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process begins anew with what each library reads when it is loaded, once; NumPy is told of features by its own names."""
    import os

    begun: list[list[str]] = []
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(os, "execv", lambda program, arguments: begun.append([program, *arguments]))
    held.hold("x86-64-v3")
    held.hold("x86-64-v3")
    assert begun == [[sys.executable, *sys.orig_argv]]
    script = "import numpy; print(*(name for name, there in numpy._core._multiarray_umath.__cpu_features__.items() if there))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], env=os.environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert os.environ["MKL_ENABLE_INSTRUCTIONS"] == "AVX2" and os.environ["OPENBLAS_CORETYPE"] == "Haswell"
    dispatched = set(os.environ["NPY_DISABLE_CPU_FEATURES"].split())
    assert not dispatched & set(done.stdout.split()) and not any(name.startswith(("AVX2", "FMA", "X86_V3")) for name in dispatched)
    wrong = subprocess.run([sys.executable, "-m", "luminal.bench", "--target", "sm_90"], capture_output=True, text=True, timeout=60)
    assert wrong.returncode == 2 and "invalid choice: 'sm_90'" in wrong.stderr


# ---- ceilings


class _Loops:
    """The C loops of the ceilings, which note what they were asked for; streaming stores cost half."""

    def __init__(self) -> None:
        self.copies: list[tuple[int, int, int]] = []  # bytes, streaming, threads

    def copy(self, to: int, source: int, size: int, count: int, streaming: int, threads: int) -> None:
        assert to % PAGE == source % PAGE == 0 and abs(to - source) >= size
        self.copies.append((size, streaming, threads))
        sleep(2e-4 if streaming else 4e-4)

    def pace(self, to: int, rounds: int) -> None:
        assert rounds > 0


def test_a_ceiling_moves_as_many_bytes_in_the_best_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceiling, "METHOD", Method(runs=1, seconds=0, pause=0))
    monkeypatch.setattr(Pace, "seconds", lambda pace: pace.loop() or 1.0)
    loops = _Loops()
    found = Ceilings(loops, 64, 2, 24)
    limit = found.copy(2 * 50 * PAGE + 100)  # what is past a page is not worth another
    assert limit.kind == "copy" and limit.amount == 2 * 50 * PAGE
    assert {(s, t) for _, s, t in loops.copies} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    loops.copies.clear()
    limit.contender.call()
    assert [c[:2] for c in loops.copies] == [(50 * PAGE, 1)] and limit.contender.executions == ceiling.repeats(50 * PAGE)
    loops.copies.clear()
    found.copy(2 * 60 * PAGE)
    assert not loops.copies  # of about this size: the form is known


@needs_cc
def test_the_ceiling_takes_its_turn(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, list[Block]]] = []
    compared = measuring.compare

    def kept_(*words: Any) -> dict[str, list[Block]]:
        seen.append(found := compared(*words))
        return found

    monkeypatch.setattr(measuring, "compare", kept_)
    status, out, _ = run(capsys, "exp", "--sizes", "batch=5000", "--peers", "numpy", "--json", "--blocks", "3", "--runs", "1", "--patience", "0")
    (row,) = json.loads(out)["results"]
    assert status == 0 and measuring.CEILING not in row["time_s"] and row["ceiling"] in ("copy", "fma")
    assert [2 <= len(found[measuring.CEILING]) <= 3 for found in seen] == [True]  # one may have had a pace of its own
