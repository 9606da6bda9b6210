"""What `luminal new` writes works as it stands, and passes its own tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from compilers import needs_cc
from luminal.cli.main import cli, prepare
from luminal.cli.new import KINDS, TEMPLATES
from luminal.compiler import Settings, compilations
from luminal.ir.errors import Unsupported, UsageError
from luminal.ir.primops import OPS
from luminal.runtimes import find
from luminal.runtimes.clang.compiler import find_compiler
from plain import plain_compiler

ROOT = Path(__file__).parent.parent


def luminal(*words: str) -> Result:
    return CliRunner().invoke(cli, prepare(words), catch_exceptions=False, standalone_mode=False)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_template_is_used() -> None:
    assert {kind: {f"{name}.in" for name in files} for kind, files in KINDS.items()} == {
        folder.name: {p.name for p in folder.iterdir()} for folder in TEMPLATES.iterdir()
    }


@needs_cc
def test_a_runtime_compiles_gemm(here: Path) -> None:
    assert luminal("new", "runtime", "mine").stdout.startswith("wrote mine")
    done = luminal("compile", str(ROOT / "samples/gemm.toml"), "--runtime", "./mine", "--test")
    assert done.return_value == 0 and done.stdout.count("pass") >= 3 and "MISMATCH" not in done.stdout, done.stdout
    source = luminal("compile", "softmax", "--runtime", "./mine", "--emit", "source").stdout
    assert "vector_size" not in source and "expf" not in source and "exp2f" in source, "derived operators are decomposed"


def test_a_runtime_spells_the_elementwise_primops_and_no_more(here: Path) -> None:
    luminal("new", "runtime", "mine")
    native = find("./mine").target(None, {}, True).native
    assert native == {name for name, op in OPS.items() if op.primop} and len(native) == 20


@needs_cc
def test_a_runtime_passes_its_own_tests(here: Path) -> None:
    luminal("new", "runtime", "mine")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "mine"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, env={**os.environ, "CC": plain_compiler(here, " ".join(find_compiler("").command))}
    )
    assert done.returncode == 0, done.stdout


@needs_cc
def test_a_composite_passes_its_own_tests(here: Path) -> None:
    luminal("new", "composite", "my-scaled")
    done = luminal("compile", "my-scaled.toml", "--test")
    assert done.return_value == 0 and done.stdout.count("pass") == 3
    assert luminal("check", "my-scaled.toml").stderr == ""


@pytest.mark.skipif(not all(map(shutil.which, ("make", "cc", "ar"))), reason="no make, cc or ar on PATH")
def test_a_library_passes_its_own_tests_and_is_built_once(here: Path) -> None:
    luminal("new", "library", "vectors")
    command = here / "luminal"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m luminal.cli "$@"\n')
    command.chmod(0o755)
    words = ["make", "-C", "vectors", f"LUMINAL={command}", f"CC={plain_compiler(here, 'cc')}"]
    done = subprocess.run([*words, "test"], capture_output=True, text=True, timeout=240, env={**os.environ, "MAKEFLAGS": ""})
    assert done.returncode == 0 and "cosine: ok" in done.stdout, done.stdout + done.stderr
    assert {p.name for p in (here / "vectors/build").iterdir()} >= {"libvectors.a", "cosine.h", "normalize.h", "cosine.d"}
    assert "normalize.toml" in (here / "vectors/build/cosine.d").read_text()
    again = subprocess.run(words, capture_output=True, text=True, timeout=240)
    assert "compile" not in again.stdout
    os.utime(here / "vectors/normalize.toml", (2**31, 2**31))
    changed = subprocess.run([*words, "-n"], capture_output=True, text=True, timeout=240)
    assert "compile cosine.toml" in changed.stdout, "cosine calls normalize"


@pytest.mark.parametrize(
    ("kind", "name"), [("runtime", "my-runtime"), ("runtime", "../up"), ("composite", "a/b"), ("library", "3d"), ("composite", "x" * 200)]
)
def test_names_that_cannot_be(kind: str, name: str, here: Path) -> None:
    with pytest.raises(UsageError, match="a name is"):
        luminal("new", kind, name)
    assert not list(here.iterdir())


@pytest.mark.parametrize("kind", ["runtime", "composite", "library"])
def test_nothing_is_overwritten(kind: str, here: Path) -> None:
    luminal("new", kind, "mine")
    before = {p: p.read_bytes() for p in here.rglob("*") if p.is_file()}
    with pytest.raises(UsageError, match="is there already"):
        luminal("new", kind, "mine")
    assert {p: p.read_bytes() for p in here.rglob("*") if p.is_file()} == before


def test_a_generated_runtime_is_refused_what_it_lacks_and_takes_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Types and spellings that it lacks are named, no bug of luminal; what is decomposed on it does not grow beyond measure."""
    monkeypatch.chdir(tmp_path)
    assert luminal("new", "runtime", "mine").return_value == 0
    (beta,) = compilations("beta", Settings(runtime="./mine"))
    assert "beta" in beta.rendered.source
    for name, lacks in (("q4_0_matmul", "no type f16"), ("quantize_q4_0", "no `cast_small` of f32")):
        (found,) = compilations(name, Settings(runtime="./mine"))
        with pytest.raises(Unsupported, match=lacks):
            _ = found.rendered
