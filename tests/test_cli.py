"""The command line as scripts use it: exit statuses, JSON, products, the ancestor's form."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from compilers import HAS_CC, needs_cc
from luminal.cli.main import prepare
from luminal.cli.parse import parse_bindings, parse_config
from luminal.ir.errors import UsageError

ROOT = Path(__file__).parent.parent
ADD = "(composite ((A{f32}[M N] B{f32}[M N]) -> (C{f32}[M N])) (return (+ A B)))"


def luminal(*arguments: str, stdin: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "luminal.cli", *arguments], input=stdin, text=True, capture_output=True, cwd=cwd, timeout=240)


def test_words_are_prepared_as_the_contract_says(tmp_path: Path) -> None:
    assert prepare(["compile", "x", "--test", "M=1, N=2"]) == ["compile", "x", "--test=M=1, N=2"]
    assert prepare(["compile", "--test", "x.toml"]) == ["compile", "--test=", "x.toml"]
    assert prepare(["-i", "x.toml", "--runtime", "clang"]) == ["compile", "x.toml", "--runtime", "clang"]
    response = tmp_path / "words"
    response.write_text("compile 'a b.toml'\n# a comment\n-O1\n")
    assert prepare([f"@{response}"]) == ["compile", "a b.toml", "-O1"]


def test_bindings_are_strict() -> None:
    assert parse_bindings("M=100, N=100,K=3 alpha=0.5") == {"M": 100, "N": 100, "K": 3, "alpha": 0.5}
    assert parse_config(['OMP=1,MARCH="native"', "CC=gcc-13"]) == {"OMP": "1", "MARCH": "native", "CC": "gcc-13"}
    for bad in ("M=3D", "M", "M=1 M=2", "=3", "M=1,,N"):
        with pytest.raises(UsageError):
            parse_bindings(bad)


def test_source_of_a_composite_on_standard_input() -> None:
    done = luminal("compile", "-", "--emit", "source", stdin=ADD)
    assert done.returncode == 0, done.stderr
    assert "int32_t lm_" in done.stdout and "Traceback" not in done.stderr


def test_help_shows_an_example_and_an_unknown_option_is_status_2() -> None:
    assert "luminal compile" in luminal("--help").stdout
    assert "luminal compile" in luminal("compile", "--help").stdout
    wrong = luminal("compile", "-", "--emitt", "source", stdin=ADD)
    assert wrong.returncode == 2 and "--emit" in wrong.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("compile", "nowhere.toml"), 2, "No such file"),
        (("compile", "softmaxx"), 2, "nearest: softmax"),
        (("compile", "-", "--emit", "sauce"), 2, "no such level"),
        (("compile", "-", "--stop-after", "nothing"), 2, "no such pass"),
        (("compile", "-", "--test", "M=3, X=4"), 2, "no size or scalar X"),
        (("compile", "-", "--test", "M=3"), 2, "also needs N"),
        (("compile", "-", "--runtime", "nowhere"), 2, "nowhere"),
        (("compile", "-", "-o", "x.exe"), 2, "suffix"),
        (("compile", "-", "--config", "OPM=1", "--emit", "source"), 2, "OMP"),
        (("compile",), 2, "no input"),
    ],
)
def test_a_wrong_command_line_is_status_2_and_leaves_nothing(arguments: tuple[str, ...], status: int, said: str, tmp_path: Path) -> None:
    done = luminal(*arguments, stdin=ADD, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert said in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_wrong_source_is_status_1_with_a_place(tmp_path: Path) -> None:
    done = luminal("compile", "-", "--emit", "source", stdin=ADD.replace("(+ A B)", "(+ A D)"), cwd=tmp_path)
    assert done.returncode == 1
    assert "<stdin>:1:" in done.stderr and "error[E" in done.stderr and "^" in done.stderr
    as_json = luminal("compile", "-", "--json", stdin=ADD.replace("(+ A B)", "(+ A D)"), cwd=tmp_path)
    report = json.loads(as_json.stdout)
    assert report["ok"] is False and report["diagnostics"][0]["line"] == 1 and as_json.returncode == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("runtime", "extent"), [("reference", 40), *([("clang", 100), ("cuda", 40)] if HAS_CC else [])])
def test_the_main_job(runtime: str, extent: int) -> None:
    done = luminal("compile", "samples/gemm.toml", "--runtime", runtime, "--test", f"M={extent}, N={extent}, K={extent}", "--json", cwd=ROOT)
    assert done.returncode == 0, done.stderr + done.stdout
    report = json.loads(done.stdout)
    (row,) = report["results"]
    assert report["ok"] and report["runtime"] == runtime
    assert row["composite"] == "gemm" and row["sizes"] == dict.fromkeys("MKN", extent) and row["ok"]
    (output,) = row["outputs"]
    assert output["name"] == "C" and output["dtype"] == "f32" and 0 <= output["max_bound_ratio"] < 1
    assert set(row["time_s"]) == {"median", "min", "runs"} and row["gflops"] > 0 and row["gbps"] > 0 and row["kernels"] == 1


@needs_cc
def test_the_ancestors_form() -> None:
    words = [
        "-i",
        "./samples/gemm.toml",
        "--runtime",
        "./runtimes/clang",
        "--debug",
        "1",
        "--test",
        "M=33, N=34, K=35",
        "--config",
        'OMP=1,MARCH="native"',
    ]
    done = luminal(*words, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "pass" in done.stdout and "raise_loops" in done.stderr


@pytest.mark.parametrize("level", ["graph", "kernel", "program"])
def test_every_level_is_a_start(level: str, tmp_path: Path) -> None:
    file = tmp_path / f"gemm.{level}"
    straight = luminal("compile", "samples/gemm.toml", "--emit", "source", cwd=ROOT)
    assert luminal("compile", "samples/gemm.toml", "-o", str(file), cwd=ROOT).returncode == 0
    again = luminal("compile", str(file), "--emit", "source")
    assert again.returncode == 0, again.stderr
    assert again.stdout == straight.stdout


def test_passes_can_be_watched(tmp_path: Path) -> None:
    done = luminal("compile", "samples/softmax.toml", "--stop-after", "fuse", "--time-passes", "--save-temps", str(tmp_path), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("graph softmax") and "fuse" in done.stderr and "make_nests" not in done.stderr
    saved = sorted(p.name for p in tmp_path.iterdir())
    assert any("fuse.graph" in name for name in saved)
    printed = luminal("compile", "samples/softmax.toml", "--print-after", "all", cwd=ROOT)
    assert printed.returncode == 0 and "; after make_nests\nkernels softmax" in printed.stdout


@needs_cc
def test_default_products_are_whole_and_named(tmp_path: Path) -> None:
    done = luminal("compile", str(ROOT / "samples" / "gemm.toml"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["gemm.c", "gemm.h", "libgemm.so"]
    assert all(p.name in done.stdout for p in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("redirected", "status", "said"),
    [
        ("compile samples/gemm.toml --emit source,program | head -1; exit ${PIPESTATUS[0]}", 0, ""),
        ("compile samples/gemm.toml --emit source >&-", 0, ""),
        ("compile samples/gemm.toml --emit source > /dev/full", 2, "standard output: no space left on device"),
        ("compile - <&-", 1, "there is no composite in this file"),
        ("compile - --emit graph < <(printf '\\xff')", 1, "byte 0 is not UTF-8"),
        ("show softmax --sizes batch=2,N=0 > /dev/null", 0, ""),
    ],
)
def test_streams_that_are_closed_full_or_no_text(redirected: str, status: int, said: str) -> None:
    done = subprocess.run(["bash", "-c", f"{sys.executable} -m luminal.cli {redirected}"], cwd=ROOT, text=True, capture_output=True, timeout=240)
    assert done.returncode == status and said in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert said or not done.stderr


def test_a_closed_pipe_ends_quietly() -> None:
    command = f"{sys.executable} -m luminal.cli compile samples/gemm.toml --print-after all | head -1"
    done = subprocess.run(["bash", "-c", command], text=True, capture_output=True, cwd=ROOT, timeout=120)
    assert done.stderr == ""
