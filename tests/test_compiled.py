"""Modules that were compiled ahead of time: taken while their sources are the ones that were compiled, and never else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from luminal import compile_core, compiled

ROOT = Path(compiled.ROOT)


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, Path]:
    """A tree with one module, and what says that it was compiled."""
    (tmp_path / "ir").mkdir()
    source = tmp_path / "ir" / "one.py"
    source.write_text("ONE = 1\n")
    folder = tmp_path / ".compiled"
    folder.mkdir()
    (folder / "manifest").write_text(f"{compiled.interpreter()}\n{compiled.line(str(tmp_path), 'ir/one.py')}\n")
    return folder, source


def taken(folder: Path) -> bool:
    spec = compiled.Finder(str(folder), str(folder.parent)).find_spec("luminal.ir.one")
    assert spec is None or spec.origin == compiled.library(str(folder))
    return spec is not None


def test_what_was_compiled_is_taken(made: tuple[Path, Path]) -> None:
    folder, _ = made
    assert taken(folder)
    finder = compiled.Finder(str(folder), str(folder.parent))
    assert finder.find_spec("luminal.ir.two") is None and finder.find_spec("json") is None


def test_another_time_alone_changes_nothing(made: tuple[Path, Path]) -> None:
    folder, source = made
    os.utime(source, (1, 1))
    assert taken(folder)


@pytest.mark.parametrize("change", [
    lambda source, folder: source.write_text("ONE = 11\n"),
    lambda source, folder: (source.write_text("ONE = 2\n"), os.utime(source, (1, 1))),
    lambda source, folder: source.unlink(),
    lambda source, folder: (folder / "manifest").write_text((folder / "manifest").read_text().replace("cpython", "other", 1)),
    lambda source, folder: (folder / "manifest").write_text("damaged"),
    lambda source, folder: (folder / "manifest").unlink(),
])  # fmt: skip
def test_else_the_source_runs(made: tuple[Path, Path], change: Callable[[Path, Path], object]) -> None:
    folder, source = made
    change(source, folder)
    assert not taken(folder)


def test_no_compiled_module_compares_records() -> None:
    """mypyc makes `==` between two of a class without `__eq__` an `is`; of what it compiles it does not see the one that a record gets."""
    for file in compile_core.FILES:
        text = (ROOT / file).read_text()
        assert not re.findall(r"^@record\nclass (?!Facts\b)(\w+)", text, re.MULTILINE), file


@pytest.mark.skipif(not compiled.fresh(compiled.FOLDER, compiled.ROOT), reason="nothing is compiled (`make fast`)")
@pytest.mark.parametrize("name", ["matmul", "softmax", "attention", "conv2d"])
def test_both_make_the_same_source(name: str) -> None:
    script = f"from luminal.compiler import Settings, compilations; print([c.rendered.source for c in compilations({name!r}, Settings())])"
    made = [
        subprocess.run([sys.executable, "-c", script], env=os.environ | {"LUMINAL_PURE": pure}, check=True, capture_output=True).stdout
        for pure in ("", "1")
    ]
    assert made[0] == made[1]
