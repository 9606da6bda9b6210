"""`luminal doctor` and `luminal cache`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from luminal.cli import doctor as module
from luminal.cli.main import cli
from luminal.runtimes import tools
from luminal.runtimes.tools import Finding
from luminal.search.cache import cache_folder, cached
from luminal.search.contents import clear, contents


def luminal(*words: str) -> Result:
    return CliRunner().invoke(cli, words, catch_exceptions=False, standalone_mode=False)


@pytest.fixture
def empty_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine with nothing on PATH."""
    from luminal.runtimes.clang import compiler

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(compiler, "find_spec", lambda _: None)
    monkeypatch.setattr(tools, "find_spec", lambda _: None)
    compiler.find_compiler.cache_clear()
    yield tmp_path
    compiler.find_compiler.cache_clear()


def fake(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def by_name(found: list[Finding]) -> dict[str, Finding]:
    return {f.name: f for f in found}


def test_nothing_installed_names_the_command(empty_path: Path) -> None:
    found = by_name(list(tools.c_compilers()))
    assert found["C compiler"].state == "missing" and found["C compiler"].needed
    assert found["C compiler"].mend == f"{sys.executable} -m pip install ziglang cmeel-libomp"
    fake(empty_path, "apt-get", "exit 0")
    mend = by_name(list(tools.c_compilers()))["C compiler"].mend
    assert mend.removeprefix("sudo ") == "apt-get install -y gcc libc6-dev"


def test_a_compiler_that_cannot_compile_is_broken(empty_path: Path) -> None:
    fake(empty_path, "gcc", 'if [ "$1" = --version ]; then echo "gcc 13.2.0"; else echo math.h: No such file; exit 1; fi')
    found = by_name(list(tools.c_compilers()))
    (compiler,) = [f for name, f in found.items() if name.endswith("/gcc")]
    assert compiler.state == "broken" and "math.h" in compiler.detail and compiler.needed


def test_an_old_compiler_is_told_from_a_good_one(empty_path: Path) -> None:
    fake(empty_path, "gcc", 'echo "gcc (GCC) 9.4.0"')
    found = by_name(list(tools.c_compilers()))
    assert next(f for name, f in found.items() if name.endswith("/gcc")).detail.endswith("gcc 12 or later is wanted")


def test_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    good, ill = Finding("gcc", "present", "13", needed=True), Finding("CuPy", "missing", "launches kernels", "pip install cupy")
    monkeypatch.setattr(module, "findings", lambda: iter([good, ill]))
    done = luminal("doctor")
    assert done.return_value == 0 and "ok  gcc" in done.stdout and "if wanted: pip install cupy" in done.stdout
    monkeypatch.setattr(module, "findings", lambda: iter([Finding("C compiler", "missing", "none", "apt-get install gcc", needed=True)]))
    done = luminal("doctor", "--json")
    report = json.loads(done.stdout)
    assert done.return_value == 4 and not report["ok"]
    assert [f["mend"] for f in report["findings"] if f["state"] == "missing" and f["needed"]] == ["apt-get install gcc"]


def test_this_machine_has_what_the_tests_need() -> None:
    assert all(f.state == "present" for f in module.of_python())
    assert module.of_cache().state == "present"


def test_the_cache_is_counted_and_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert luminal("cache", "clear").stdout == "removed 0 products\n"
    for word in ("one", "two"):
        cached((word,), ".txt", lambda to: to.write_text("12345") and None)
    (cache_folder() / ".0.x.making").mkdir()
    report = json.loads(luminal("cache", "info", "--json").stdout)
    assert report["folder"] == str(cache_folder()) and report["products"] == 2 and report["unfinished"] == 1 and report["bytes"] >= 10
    assert luminal("cache", "clear").stdout == "removed 2 products\n"
    assert contents().products == 0 and not list(cache_folder().iterdir())


def test_what_is_being_made_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from filelock import FileLock

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    product = cached(("one",), ".txt", lambda to: to.write_text("1") and None)
    with FileLock(cache_folder() / f".{product.parent.name}.lock"):
        assert clear() == (0, 1) and product.exists()
    assert clear() == (1, 0) and not product.exists()


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "luminal").write_text("a file where a folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = module.of_cache()
    assert found.state == "broken" and os.fspath(tmp_path) in found.mend
