"""What was compiled before, from the command line: the same output as the first time, and luminal's own files as they are on disk."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from compilers import needs_cc
from luminal.search import own
from processes import PATIENCE, own_cache

PACKAGE = Path(own.ROOT)
CALLER = "(composite caller ((A{f32}[N] C{f32}[N]) -> (B{f32}[N])) (dotimes (i N) (setf (aref C i) (aref A i))) (return (scale C)))"
SCALE = "(composite scale ((A{T}[N]) -> (B{T}[N])) (return (* A %s)))"


class Here:
    """A folder with a cache and files of its own, and perhaps a luminal of its own."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "XDG_CACHE_HOME": own_cache(folder / "cache"), "PYTHONPATH": str(home)}

    def luminal(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "luminal.cli", "compile", *words],
            cwd=self.folder,
            env=self.environment,
            text=True,
            capture_output=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return done

    def kept(self) -> list[str]:
        """The entries."""
        return sorted(p.name for p in (self.folder / "cache" / "luminal" / "compilations").glob("*"))


@pytest.fixture
def here(tmp_path: Path) -> Here:
    (tmp_path / "scale.lisp").write_text(SCALE % 2)
    (tmp_path / "caller.lisp").write_text(CALLER)
    return Here(tmp_path, PACKAGE.parent)


@needs_cc
@pytest.mark.parametrize("words", [("--why", "--emit", "header"), ("-o", "a.so", "-MD"), ("-o", "out"), ("-o", "out", "--json", "--why")])
def test_the_second_time_says_the_same(words: tuple[str, ...], here: Here) -> None:
    said = []
    for _ in range(2):
        done = here.luminal("caller.lisp", "-I", ".", *words)
        files = {p.name: p.read_bytes() for folder in (here.folder, here.folder / "out") for p in folder.glob("*.?") if p.is_file()}
        said.append((done.stdout, done.stderr, files))
        assert len(here.kept()) == 1
    assert said[0] == said[1]
    first = json.dumps(json.loads(said[0][0])["diagnostics"]) if "--json" in words else said[0][1]
    assert "W0" in first or "warning" in first


def test_the_second_time_writes_the_same_files_without_passes_or_probes(here: Here) -> None:
    """By what a process imports: nothing that reads, changes or renders a composite."""
    here.luminal("caller.lisp", "-I", ".", "-o", "a.c")
    code = "import sys; from luminal.cli.main import run; run(sys.argv[1:]); print(*sorted(sys.modules))"
    words = ["compile", "caller.lisp", "-I", ".", "-o", "b.c"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=here.folder, env=here.environment, text=True, capture_output=True, timeout=PATIENCE
    )
    loaded = done.stdout.split()
    assert (here.folder / "a.c").read_bytes() == (here.folder / "b.c").read_bytes()
    heavy = [
        m for m in loaded if m.partition(".")[0] in ("numpy", "jinja2", "lark", "filelock") or m.startswith(("luminal.passes", "luminal.ir.verify"))
    ]
    assert heavy == []


def test_passes_are_shown_again(here: Here) -> None:
    first, second = (here.luminal("caller.lisp", "-I", ".", "--emit", "header", "--time-passes").stderr for _ in range(2))
    shown = [[line.split()[0] for line in said.splitlines() if line.endswith(" ms")] for said in (first, second)]
    assert shown[0] == shown[1] and "fuse" in shown[0]


def test_a_changed_luminal_compiles_anew(tmp_path: Path) -> None:
    """A pass, a composite of the library, a template; and only what processes that began later read."""
    own_files = tmp_path / "home" / "luminal"
    shutil.copytree(PACKAGE, own_files, ignore=shutil.ignore_patterns(".*", "__pycache__", "tests", "docs", "bench", "samples"))
    here = Here(tmp_path, tmp_path / "home")
    (tmp_path / "f.lisp").write_text("(composite f ((A{f32}[N]) -> (B{f32}[N])) (return (relu A)))")

    def emitted() -> str:
        return here.luminal("f.lisp", "--emit", "source").stdout

    time.sleep(0.2)  # a process takes for changed what changed as it began
    first = emitted()
    assert emitted() == first and len(here.kept()) == 1
    relu = next((own_files / "ops").glob("**/relu.toml"))
    changes = {own_files / "passes" / "fuse.py": ("\n\n", "\n\n\n"), own_files / "runtimes" / "clang" / "source.c.j2": ("\n", "\n\n")}
    results = {first}
    for count, (file, change) in enumerate(changes.items(), 2):
        file.write_text(file.read_text().replace(*change))
        time.sleep(0.2)
        results.add(emitted())
        assert len(here.kept()) == count, file
    assert len(results) == 2, "the template shows"
    relu.write_text(relu.read_text().replace("max", "min"))
    assert emitted() not in results and len(here.kept()) == 3, "in the place of what stood under the same key"
    shutil.copy(relu, relu.with_name("another.toml"))
    emitted()
    assert len(here.kept()) == 4, "one more name in the library"


def test_a_file_that_changed_since_a_process_began_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.py"
    file.write_text("1")

    def digest() -> str | None:
        monkeypatch.setattr(own, "_known", {})
        return own.look(("x",), lambda: [str(p) for p in tmp_path.iterdir()]).digest

    assert digest() is None and not own.unchanged()
    monkeypatch.setattr(own, "LOADED", time.time() + 1000)
    one = digest()
    assert one is not None and digest() == one and own.unchanged()
    (tmp_path / "b.py").write_text("2")
    assert not own.unchanged(), "a new file"
    (tmp_path / "b.py").unlink()
    assert own.unchanged()
    file.write_text("2")
    assert digest() not in (None, one)
    monkeypatch.setattr(own, "LOADED", 0.0)
    assert not own.unchanged(), "newer than the process"
    file.unlink()
    assert not own.unchanged()
    assert own.look(("gone",), lambda: [str(tmp_path / "gone.py")]).digest is None


def test_what_compiles_is_every_file_but_what_is_beside_it() -> None:
    found = {Path(p).relative_to(own.ROOT).as_posix() for p in own.ours()}
    assert {"compiler.py", "calls.c", "dsl/grammar/sexpr.lark", "passes/fuse.py", "runtimes/clang/runtime.toml", "runtimes/cuda/lm_host.h"} <= found
    assert not any(p.startswith(("tests/", "docs/", "bench/", "cli/", "ops/")) or "__pycache__" in p for p in found)


def test_packages_that_are_installed_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = own._packages()
    assert any(p.startswith("numpy-") for p in before)
    (tmp_path / "jinja2-99.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert own._packages() == sorted([*before, "jinja2-99.dist-info"])
