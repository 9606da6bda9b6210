"""Options of `compile`: --assume, -D of parameters, -MD, --mem-limit, interruption, progress, completion."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from click.testing import CliRunner, Result
from compilers import HAS_CC, needs_cc
from luminal.cli.dependencies import escaped
from luminal.cli.main import COMMANDS, cli, prepare
from luminal.compiler import Settings, compilations
from luminal.ir.errors import ToolError, ToolMissing, UsageError
from luminal.runtimes.clang import compiler
from luminal.runtimes.clang.compiler import find_compiler
from luminal.runtimes.keep import NOTES
from processes import PATIENCE, alive, started, waited

pytestmark = pytest.mark.usefixtures("plain_c", "quick_ceilings")

ROOT = Path(__file__).parent.parent
GEMM = str(ROOT / "samples/gemm.toml")
PYTHON = [sys.executable, "-m", "luminal.cli"]


def luminal(*words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, prepare(words), input=stdin, catch_exceptions=False, standalone_mode=False)


# ---- leading strides

LDA = "(composite f ((A{f32}[M N]<0 1 :strided> B{f32}[P Q R]<2 0 1 :strided> x{f32}[K]<0 :strided>) -> (Y{f32}[N] Z{f32}[P Q R]<0 1 2 :strided>)) (return (+ (sum A :axis 0) (max x)) (* 2 B)))"


@needs_cc
def test_strides_that_are_not_given_are_those_without_gaps() -> None:
    """In what the sizes say; without sizes the bindings that are tried have some."""
    given = "M=3, N=4, P=2, Q=3, R=5, K=6"
    free = {"M": 3, "N": 4, "P": 2, "Q": 3, "R": 5, "K": 6}
    whole = free | {"ldA": 4, "ldB_0": 6, "ldB_1": 3, "incx": 1, "ldZ_0": 15, "ldZ_1": 5}
    (result,) = json.loads(luminal("compile", "-", "--json", "--test", given, stdin=LDA).stdout)["results"]
    assert result["ok"] and result["sizes"] == whole
    (result,) = json.loads(luminal("compile", "-", "--json", "--test", f"{given}, ldB_1=4, ldZ_1=8", stdin=LDA).stdout)["results"]
    assert result["ok"] and result["sizes"] == whole | {"ldB_1": 4, "ldB_0": 8, "ldZ_1": 8, "ldZ_0": 24}
    results = json.loads(luminal("compile", "-", "--json", "--test", stdin=LDA).stdout)["results"]
    assert [(r["sizes"]["ldA"] - r["sizes"]["N"], r["sizes"]["incx"], r["ok"]) for r in results] == [(0, 1, True), (1, 2, True), (2, 3, True)]
    (result,) = json.loads(
        luminal("bench", "-", "--json", "--peers", "none", "--blocks", "1", "--patience", "0", "--sizes", given, stdin=LDA).stdout
    )["results"]
    assert result["sizes"] == whole
    assert "at M=3 N=4 P=2" in luminal("show", "-", "--sizes", given, stdin=LDA).stdout


# ---- CC=


@pytest.mark.parametrize(
    ("words", "needed"), [([], True), (["-o", "made"], True), (["-o", "x.so"], True), (["--emit", "source"], False), (["-o", "x.c"], False)]
)
@pytest.mark.parametrize("how", ["config", "environment"])
def test_a_compiler_that_was_asked_for_is_asked_where_one_is_needed(
    words: list[str], needed: bool, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text needs none: it may be compiled elsewhere.  A library does, and to leave it out would be to do something else."""
    monkeypatch.chdir(tmp_path)
    if how == "environment":
        monkeypatch.setenv("CC", "nosuchcc")
        find_compiler.cache_clear()
    try:
        done = CliRunner().invoke(
            cli, prepare(["compile", "relu", *(["-c", "CC=nosuchcc"] if how == "config" else []), *words]), standalone_mode=False
        )
    finally:
        find_compiler.cache_clear()
    if not needed:
        assert done.exception is None and not done.stderr
        return
    assert isinstance(done.exception, ToolError) and "`nosuchcc` that was asked for is not there" in str(done.exception)
    assert not list(tmp_path.iterdir())


def test_where_there_is_no_compiler_a_note_says_what_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(requested: str) -> None:
        raise ToolMissing("no C compiler found")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(compiler, "find_compiler", none)
    done = luminal("compile", "relu")
    assert (
        done.exit_code == 0 and done.stdout == "wrote relu.c, relu.h\n" and done.stderr == "luminal: note: without librelu.so: no C compiler found\n"
    )


# ---- --assume and -D


def test_an_assumption_refines_the_sizes_and_is_required() -> None:
    (c,) = compilations(GEMM, Settings(assume=("K % 16 == 0, m >= 32",)))
    sizes = c.elaborate().size_info()
    assert sizes["K"].multiple == 16 and sizes["M"].min == 32 and sizes["N"].multiple == 1
    assert [s.name for s in c.program.sizes] == ["M", "K", "N"], "an assumption fixes nothing"
    assert "if (K % 16 != 0) return 6;" in c.rendered.source


def test_what_the_tilde_stands_for_may_be_assumed() -> None:
    (c,) = compilations("softmax", Settings(assume=("batch % 8 = 0",)))
    assert c.elaborate().size_info()["batch"].multiple == 8


def test_an_assumed_equation_defines_nothing() -> None:
    (c,) = compilations(GEMM, Settings(assume=("M = N", "K = 64")))
    graph = c.elaborate()
    assert [s.name for s in graph.sizes] == ["M", "K", "N"] and (graph.size_info()["K"].min, graph.size_info()["K"].max) == (64, 64)
    assert c.program.derived == ()


@pytest.mark.parametrize(
    ("text", "stride"),
    [
        ("(composite f ((A{f32}[M N]<0 1 :strided>) -> (Y{f32}[N])) (return (sum A :axis 0)))", "ldA"),
        ("(composite f ((A{f32}[M N]) -> (Y{f32}[M N]<0 1 :strided>)) (return (* A 2)))", "ldY"),
        ("(composite f ((A{f32}[M N] x{f32}[N]<0 :strided>) -> (Y{f32}[M])) (return (matmul A x)))", "incx"),
    ],
)
def test_leading_strides_are_sizes_that_may_be_assumed(text: str, stride: str) -> None:
    (c,) = compilations(text, Settings(assume=(f"{stride} % 16 = 0, N <= 64", f"{stride} <= 4096")))
    sizes = c.elaborate().size_info()
    assert (sizes[stride].multiple, sizes[stride].max, sizes["N"].max) == (16, 4096, 64)
    assert f"if ({stride} % 16 != 0) return 6;" in c.rendered.source
    with pytest.raises(UsageError, match=f"it has M, N, {stride}"):
        compilations(text, Settings(assume=("ldQ = 3",)))[0].elaborate()
    with pytest.raises(UsageError, match=f'{stride}=64: a leading stride is passed by the caller; --assume "{stride} = 64" compiles for it'):
        compilations(text, Settings(sizes={stride: 64}))[0].elaborate()
    with pytest.raises(UsageError, match="has no size ldQ; it has M, N"):
        compilations(text, Settings(sizes={"ldQ": 64}))[0].elaborate()


@pytest.mark.parametrize("wrong", ["Q % 16 = 0", "K %", "K", "(K", "K = = 3"])
def test_a_wrong_assumption_is_a_usage_error(wrong: str) -> None:
    with pytest.raises(UsageError, match="--assume"):
        luminal("compile", GEMM, "--assume", wrong, "--emit", "graph")


def test_an_assumption_against_what_is_fixed() -> None:
    with pytest.raises(UsageError, match="does not hold"):
        luminal("compile", GEMM, "--assume", "K % 16 = 0", "-D", "K=15", "--emit", "graph")


def test_a_test_tries_only_what_is_assumed() -> None:
    done = luminal("compile", GEMM, "--runtime", "reference", "--assume", "K % 16 = 0", "--test")
    assert done.return_value == 0 and done.stdout and all("K=0" in row or "K=16" in row for row in done.stdout.splitlines() if row.startswith("gemm"))
    with pytest.raises(UsageError, match="a multiple of 16"):
        luminal("compile", GEMM, "--runtime", "reference", "--assume", "K % 16 = 0", "--test", "M=3, N=3, K=15")


def test_the_emitted_function_checks_what_is_assumed() -> None:
    import luminal as module
    import numpy

    product = module.compile(GEMM, runtime="reference", assume=("K % 2 = 0",))
    a, b, c = (numpy.ones(shape, numpy.float32) for shape in ((2, 4), (4, 2), (2, 2)))
    assert product(a, b, c).tolist() == [[5.0, 5.0], [5.0, 5.0]]
    with pytest.raises(ValueError, match="precondition"):
        product(a[:, :3].copy(), b[:3].copy(), c)


def test_parameters_by_definition() -> None:
    assert "const f32[] 0.5" in luminal("compile", "layer_norm", "-D", "eps=0.5", "--emit", "graph").stdout
    assert " = erf " not in luminal("compile", "gelu", "-D", "approximate=true", "--emit", "graph").stdout
    with pytest.raises(UsageError, match="a size is an integer"):
        luminal("compile", GEMM, "-D", "K=1.5", "--emit", "graph")


def test_parameters_by_test() -> None:
    done = luminal("compile", "softmax", "--runtime", "reference", "--test", "batch=3, N=5, axis=0", "-d", "0")
    assert done.return_value == 0 and done.stdout.count("pass") == 1
    with pytest.raises(UsageError, match="-D axis=7 does not fit softmax"):
        luminal("compile", "softmax", "--runtime", "reference", "--test", "axis=7")
    done = luminal("compile", "softmax", "--runtime", "reference", "--test", "axis=0")
    assert done.return_value == 0 and done.stdout.count("pass") == 3, "its own sizes"


def test_each_test_in_turn(tmp_path: Path) -> None:
    words = ("compile", "softmax", "--runtime", "reference", "--test", "batch=3, N=5", "--test", "batch=2, N=7, axis=0", "--test", "batch=0, N=1")
    done = luminal(*words, "--json")
    assert [r["sizes"] for r in json.loads(done.stdout)["results"]] == [{"batch": b, "N": n} for b, n in ((3, 5), (2, 7), (0, 1))]
    with pytest.raises(UsageError, match="binds parameters of softmax in more ways than one"):
        luminal(*words, "-o", str(tmp_path / "softmax.c"))
    assert luminal(*words, "-D", "axis=0").return_value == 0


def test_what_several_runs_keep_in_one_file_is_of_the_last_and_said(tmp_path: Path) -> None:
    text, place = "(composite add ((A{f32}[M N] B{f32}[M N]) -> (C{f32}[M N])) (return (+ A B)))", tmp_path / "c.npy"
    once = luminal("compile", "-", "--runtime", "reference", "--test", "M=3, N=4", "--output", f"C={place}", stdin=text)
    assert "warning" not in once.stderr and numpy.load(place).shape == (3, 4)
    again = luminal(
        "compile", "-", "--runtime", "reference", "--json", "--test", "M=3, N=4", "--test", "M=2, N=4", "--output", f"C={place}", stdin=text
    )
    assert f'--output C={place}: 2 runs wrote it, it holds that of the last ("M=2, N=4")' in again.stderr
    assert json.loads(again.stdout)["ok"] and numpy.load(place).shape == (2, 4)


WHERE = """(composite halves ((X{T}[N](where N % 2 = 0)) -> (Y{T}[N])) (return X))
(composite quarters ((X{T}[N]) -> Y) (return (reshape X -1 4)))
(composite doubled ((X{T}[M] Y{T}[K](where K = (* 2 M))) -> (Z{T}[M])) (return X))
(composite wrong ((X{T}[N]) -> (Y{T}[N])) (return (+ X 1 (* Z 2))))
"""


@pytest.mark.parametrize(
    ("entry", "fixed", "said"),
    [
        ("halves", ["N=3"], "-D N=3 does not fit halves: .*`N % 2 = 0` does not hold: 1 = 0"),
        ("quarters", ["N=6"], "the elements do not divide"),
        ("doubled", ["K=3", "M=2"], "-D K=3, M=2 does not fit doubled: .*3 = 4"),
        ("doubled", ["K=3"], "never holds"),
        ("halves", ["N=-2"], "the extent -2 is negative"),
    ],
)
def test_a_definition_that_breaks_a_where_is_a_wrong_command_line(entry: str, fixed: list[str], said: str) -> None:
    words = [w for f in fixed for w in ("-D", f)]
    with pytest.raises(UsageError, match=said):
        luminal("compile", "-", "--entry", entry, *words, "--emit", "graph", stdin=WHERE)


def test_what_is_wrong_anyway_is_not_the_definitions_fault() -> None:
    done = luminal("compile", "-", "--entry", "wrong", "-D", "N=3", "--emit", "graph", stdin=WHERE)
    assert done.return_value == 1 and "error[E0201]: unknown name `Z`" in done.stderr


def test_a_default_is_shown_in_the_notation_of_the_composite() -> None:
    shown = luminal(
        "compile",
        "-",
        "-D",
        "count=3",
        "--emit",
        "ast",
        stdin="""[composite]
name = "f"
inputs = ["A{f32}[N]"]
outputs = ["A"]
parameters.flag = { type = "bool", default = false }
parameters.on = { type = "bool", default = true }
parameters.axes = { type = "axes", default = [0, 1] }
parameters.mode = { type = "string", default = 'a "b"' }
parameters.count = { type = "int" }
[implementation]
code = "(return A)"
""",
    ).stdout
    assert r"""&key (flag nil) (on t) (axes (0 1)) (mode "a \"b\"") (count)) -> """ in shown


def test_an_intermediate_file_is_what_it_is(tmp_path: Path) -> None:
    file = tmp_path / "gemm.graph"
    luminal("compile", GEMM, "-o", str(file))
    with pytest.raises(UsageError, match="-D is for composites"):
        luminal("compile", str(file), "-D", "K=3", "--emit", "source")


# ---- -MD


def test_a_rule_for_make(tmp_path: Path) -> None:
    (tmp_path / "twice.toml").write_text(
        '[composite]\nname = "twice"\ninputs = ["X{T}[N]"]\noutputs = ["Y{T}[N]"]\n[implementation]\ncode = "(return (+ X X))"\n'
    )
    main = tmp_path / "main file.lisp"
    main.write_text("(composite main ((X{f32}[N]) -> (Y{f32}[N])) (return (twice (relu X))))")
    done = luminal("compile", str(main), "-I", str(tmp_path), "-MD", "--runtime", "reference", "-o", str(tmp_path / "main.program"))
    assert done.return_value == 0
    rule, *alone = (tmp_path / "main.d").read_text().splitlines()
    sources = [escaped(main), str(tmp_path / "twice.toml"), str(next((ROOT / "ops").glob("*/relu.toml")))]
    assert rule == f"{tmp_path}/main.program: {' '.join(sources)}"
    assert alone == [f"{s}:" for s in sources]


def test_a_rule_needs_a_product() -> None:
    with pytest.raises(UsageError, match="-MD"):
        luminal("compile", GEMM, "-MD", "--emit", "source")


# ---- --mem-limit, interruption


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux bounds another process")
def test_too_little_memory_is_reported(tmp_path: Path) -> None:
    """For the compiler, status 4 with what it says; for the test run, a crash that is status 3."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    words = ["compile", GEMM, "--test", "M=3, N=3, K=3", "--mem-limit", "1"]
    if HAS_CC:
        done = subprocess.run([*PYTHON, *words], env=environment, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 4 and "Traceback" not in done.stderr, done.stderr
    done = subprocess.run([*PYTHON, *words, "--runtime", "reference"], env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 3 and "CRASH" in done.stdout and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_it_leaves_nothing(number: int, status: int, tmp_path: Path) -> None:
    """A compiler that never ends is ended, and neither the folder nor the cache holds anything unfinished."""
    folder, cache, marks = (tmp_path / n for n in ("folder", "cache", "marks"))
    for place in (folder, cache, marks):
        place.mkdir()
    slow = tmp_path / "cc"
    slow.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "gcc 13.1" && exit\n[ "$1" = -print-file-name=libgomp.so ] && echo libgomp.so && exit\n'
                    f'case "$1" in -print*) echo none; exit;; esac\necho $$ > {marks}/pid\nsleep 60\n')  # fmt: skip
    slow.chmod(0o755)
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "CC": str(slow)}
    with started([*PYTHON, "compile", GEMM, "-o", "gemm.so"], cwd=folder, env=environment, stderr=subprocess.PIPE) as process:
        compiler = int(waited(lambda: (marks / "pid").exists() and (marks / "pid").read_text()))
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == status and "Traceback" not in said
    assert not list(folder.iterdir())
    left = [p for p in cache.rglob("*") if p.is_file() and p.suffix != ".lock" and p.parent != cache / "luminal"]
    assert all(p.parent.name in NOTES and not p.name.startswith(".") for p in left), left  # what was known before, each whole
    waited(lambda: not alive(compiler))


# ---- progress, completion, help


def test_a_terminal_is_told_what_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import sys, time\nfrom luminal.cli import progress\nprogress.PATIENCE = 0.1\nwith progress.stage('building x'):\n    time.sleep(0.4)\nprint('end', file=sys.stderr)"
    ours, theirs = pty.openpty()
    seen = b""
    with started([sys.executable, "-c", script], stderr=theirs):
        os.close(theirs)
        while b"end" not in seen:
            seen += os.read(ours, 1000)
    os.close(ours)
    assert "building x … 0 s" in seen.decode() and seen.decode().index("building x") < seen.decode().rindex("\r\x1b[K") < seen.decode().index("end")
    piped = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, timeout=PATIENCE)
    assert piped.stderr == b"end\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    if shutil.which(shell) or shell != "bash":
        assert "_LUMINAL_COMPLETE" in luminal("completion", shell).stdout


def test_commands_and_options_are_completed() -> None:
    environment = {**os.environ, "_LUMINAL_COMPLETE": "bash_complete", "COMP_WORDS": "luminal compile --ass", "COMP_CWORD": "2"}
    done = subprocess.run(PYTHON, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.strip() == "plain,--assume"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_shows_an_example(command: str) -> None:
    text = luminal(command, "--help").stdout
    assert "Example" in text and f"luminal {command}" in text
