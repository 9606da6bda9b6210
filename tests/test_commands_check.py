"""`luminal check`, and the warnings of `check` and `compile`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from luminal.cli.main import cli

ROOT = Path(__file__).parent.parent
UNCHANGED = "(composite f ((A{f32}[N] B{f32}[N]) -> (B Y{f32}[N]))\n  (setf Y (+ A B)))\n"
WRONG = "(composite g ((A{f32}[N]) -> (Y{f32}[N]))\n  (return (+ A unknown)))\n\n(composite h ((A{f32}[N]) -> (Y{f32}[N]))\n  (return (sinn A)))\n"


def luminal(*words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, words, input=stdin, catch_exceptions=False, standalone_mode=False)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    for name, text in (("wrong.lisp", WRONG), ("unchanged.lisp", UNCHANGED)):
        (tmp_path / name).write_text(text)
    return {p.stem: str(p) for p in tmp_path.iterdir()}


def test_errors_of_every_composite_of_every_file_and_warnings(files: dict[str, str]) -> None:
    done = luminal("check", files["wrong"], files["unchanged"])
    assert done.return_value == 1 and done.stdout == "2 files, 3 composites: 2 errors, 1 warning in 2 files\n"
    assert [line.split(": ")[1] for line in done.stderr.splitlines() if ": error[" in line or ": warning[" in line] == [
        "error[E0201]", "error[E0203]", "warning[W0702]",
    ]  # fmt: skip


def test_warnings_alone_are_no_failure(files: dict[str, str]) -> None:
    done = luminal("check", files["unchanged"])
    assert done.return_value == 0 and "warning[W0702]" in done.stderr


def test_json_holds_every_diagnostic_once(files: dict[str, str]) -> None:
    done = luminal("check", "--json", files["wrong"], files["unchanged"], files["unchanged"])
    report = json.loads(done.stdout)
    assert done.return_value == 1 and done.stderr == "" and report["ok"] is False and report["checked"] == 4
    assert [(d["code"], d["severity"], d["line"]) for d in report["diagnostics"]] == [
        ("E0201", "error", 2),
        ("E0203", "error", 5),
        ("W0702", "warning", 1),
    ]


def test_a_missing_file_does_not_hide_the_others(files: dict[str, str]) -> None:
    done = luminal("check", "nowhere.toml", files["wrong"])
    assert done.return_value == 2 and "nowhere.toml" in done.stderr and "E0203" in done.stderr


def test_intermediate_files_are_verified(tmp_path: Path) -> None:
    file = tmp_path / "f.graph"
    file.write_text("graph f v1\nsize N\nin A: f32[N]\nout Y: f32[N]\n\n%0 = input f32[N] A\n%1 = exp f64[N] %0\noutput Y = %1\n")
    assert "E0904" in luminal("check", str(file)).stderr


def test_the_library_and_the_samples_are_right() -> None:
    files = [str(p) for folder in ("ops", "samples") for p in sorted((ROOT / folder).glob("**/*.toml"))]
    done = luminal("check", *files)
    assert done.stderr == "" and done.return_value == 0 and len(files) > 30


def test_a_folder_is_all_that_is_in_it() -> None:
    done = luminal("check", str(ROOT / "samples"))
    assert done.return_value == 0 and re.fullmatch(r"\d+ files, \d+ composites: nothing to say\n", done.stdout)
    errors = ROOT / "tests" / "errors"
    done = luminal("check", str(errors))
    count = sum(1 for _ in errors.iterdir())
    assert done.return_value == 1 and re.fullmatch(rf"{count} files, \d+ composites: (\d+) errors, \d+ warnings in {count} files\n", done.stdout)
    assert done.stderr.count(": error[") >= count - 5, "none is left out"


def test_a_folder_without_sources(tmp_path: Path) -> None:
    done = luminal("check", str(tmp_path))
    assert done.return_value == 2 and "no file below it" in done.stderr


def test_the_second_opinion_of_a_test_is_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "f.toml"
    text = '[composite]\nname = "f"\ninputs = ["A{f32}[N]"]\noutputs = ["A"]\n[implementation]\ncode = "(return (* 2 A))"\n[test]\ncode = "(lambda (A K) (setf A (+ A B)))"\n'
    file.write_text(text)
    assert ":8:20: error[E0201]: `K` is neither a port nor a size" in luminal("check", str(file)).stderr
    file.write_text(text.replace("(A K)", "(A N)"))
    assert "error[E0201]: unknown name `B`" in luminal("check", str(file)).stderr
    file.write_text(text.replace("(A K)", "(A N)").replace("A B", "A A"))
    assert luminal("check", str(file)).stderr == ""


def test_compile_shows_warnings_once(files: dict[str, str]) -> None:
    done = luminal("compile", files["unchanged"], "--runtime", "reference", "--emit", "graph", "--emit", "graph")
    assert done.stderr.count("warning[W0702]") == 1 and done.return_value == 0
    report = json.loads(luminal("compile", files["unchanged"], "--runtime", "reference", "--test", "N=3", "--json").stdout)
    assert report["ok"] and [d["code"] for d in report["diagnostics"]] == ["W0702"]
