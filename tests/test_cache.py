"""The compile cache: concurrent use, kill, corruption, folders that cannot be written; and nothing half-written beside the user's files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from compilers import needs_cc
from luminal.ir.errors import ToolError
from luminal.runtimes import rooms
from luminal.search import cache
from processes import PATIENCE, started, waited

ADD = "(composite add ((A{f32}[M N] B{f32}[M N]) -> (C{f32}[M N])) (return (+ A B)))"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def python(code: str, *words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **environment}
    )


def everything(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.rglob("*") if not p.name.endswith(".lock"))


def test_made_once_then_found(own: Path) -> None:
    made: list[Path] = []

    def make(path: Path) -> None:
        made.append(path)
        path.write_bytes(b"product")

    paths = [cache.cached(("a", "b"), ".so", make) for _ in range(3)]
    assert len(made) == 1 and len(set(paths)) == 1 and paths[0].read_bytes() == b"product" and own in paths[0].parents
    assert cache.cached(("ab", ""), ".so", make) != paths[0], "the parts of a key do not run together"
    assert len(made) == 2


@pytest.mark.parametrize("damage", ["shorter", "other", "no sum", "binary sum", "no product"])
def test_a_damaged_entry_is_a_miss(damage: str, own: Path) -> None:
    made = cache.cached(("key",), ".so", lambda path: path.write_bytes(b"product") and None)
    total = made.parent / "sha256"
    if damage == "shorter":
        made.write_bytes(b"prod")
    elif damage == "other":
        made.write_bytes(b"PRODUCT")
    elif damage == "no sum":
        total.unlink()
    elif damage == "binary sum":
        total.write_bytes(b"\xff\xfe\0")
    else:
        made.unlink()
    again = cache.cached(("key",), ".so", lambda path: path.write_bytes(b"new") and None)
    assert again == made and again.read_bytes() == b"new"


def test_a_failure_leaves_nothing(own: Path) -> None:
    def fail(path: Path) -> None:
        path.write_bytes(b"half")
        raise ToolError("failed")

    with pytest.raises(ToolError, match="failed"):
        cache.cached(("key",), ".so", fail)
    assert everything(own) == ["kernels", "luminal"]


USE = """
import os, sys, time
from pathlib import Path
from luminal.search.cache import cached
log, key, end = sys.argv[1:]
def make(path):
    with open(log, "a") as file:
        file.write(key + "\\n")
    with path.open("wb") as file:
        for k in range(4):
            file.write(key.encode() * 20000)
            file.flush()
            time.sleep(0.05)
            if end and k == 1:
                os.kill(os.getpid(), 9)
print(cached((key,), ".so", make).read_bytes() == key.encode() * 80000)
"""


def test_eight_processes_at_once(own: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    users = [python(USE, str(log), f"key{k % 3}", "") for k in range(8)]
    said = [u.communicate(timeout=PATIENCE) for u in users]
    assert [out for out, _ in said] == ["True\n"] * 8, said
    assert sorted(log.read_text().split()) == ["key0", "key1", "key2"], "each is made once"
    assert sum(name.startswith("product") for name in everything(own)) == 3 and not any("making" in name for name in everything(own))


def test_killed_while_making(own: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    killed = python(USE, str(log), "key", "kill")
    killed.communicate(timeout=PATIENCE)
    assert killed.returncode == -signal.SIGKILL
    assert "sha256" not in everything(own) and any("making" in name for name in everything(own))
    after = python(USE, str(log), "key", "")
    assert after.communicate(timeout=PATIENCE)[0] == "True\n", "the lock died with its process"
    assert not any("making" in name for name in everything(own)), "what the killed one left is gone"


def test_products_have_a_bound(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rooms.ROOMS, "kernels", rooms.Bound(1 << 20, 6))
    monkeypatch.setattr(rooms, "YOUNG", 0)

    def make(path: Path) -> None:
        path.write_bytes(b"product")

    paths = []
    for k in range(6):
        paths.append(cache.cached((str(k),), ".so", make))
        os.utime(paths[-1].parent, (k, k))
    for lock in own.rglob("*.lock"):
        os.utime(lock, (0, 0))
    assert cache.cached(("0",), ".so", make) == paths[0], "used now"
    last = cache.cached(("6",), ".so", make)
    assert [p for p in paths if p.exists()] == [paths[0], paths[5]] and last.exists()
    assert len([p for p in last.parent.parent.iterdir() if p.suffix == ".lock"]) <= 3
    assert cache.cached(("1",), ".so", make) == paths[1] and paths[1].exists(), "made again"


SHORTEN = """
import sys
from luminal.runtimes import rooms
from luminal.search.cache import cached
rooms.ROOMS["kernels"], rooms.YOUNG = rooms.Bound(1 << 20, 4), 0
seed = int(sys.argv[1])
def make(path, data):
    path.write_bytes(data)
for k in range(60):
    key = str((k * (seed + 1)) % 7)
    data = key.encode() * 1000
    while True:
        try:
            found = cached((key,), ".so", lambda path: make(path, data)).read_bytes()
        except FileNotFoundError:  # gone between the two, for nothing is young here
            continue
        break
    assert found == data, (key, found[:20])
print("done")
"""


def test_several_processes_shorten_one_room(own: Path) -> None:
    users = [python(SHORTEN, str(k)) for k in range(4)]
    said = [u.communicate(timeout=PATIENCE) for u in users]
    assert [out for out, _ in said] == ["done\n"] * 4, said
    assert not any("making" in name for name in everything(own))
    assert sum(name.startswith("product") for name in everything(own)) <= 7


@pytest.mark.parametrize("where", ["below a file", "nowhere", "full", "no home"])
def test_a_cache_that_cannot_be_written(where: str, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if where == "below a file":
        own.write_text("in the way")
    elif where == "nowhere":
        monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    elif where == "no home":  # as for a user whom the system does not know
        monkeypatch.setattr(cache, "cache_folder", lambda: Path("~/.cache/luminal/kernels"))
    else:
        real = os.rename

        def full(source: Path, target: Path) -> None:
            if own in Path(target).parents:
                raise OSError(28, "No space left on device")
            real(source, target)

        monkeypatch.setattr(os, "rename", full)
    made: list[Path] = []

    def make(path: Path) -> None:
        made.append(path)
        path.write_bytes(b"product")

    for _ in range(2):
        path = cache.cached(("unwritable", where), ".so", make)
        assert path.read_bytes() == b"product" and own not in path.parents
    assert not Path("~").exists()
    assert len([p for p in made if own not in p.parents]) == 1, "the folder that stands in keeps it for this process"


CALL = """
import sys, numpy, luminal
add = luminal.compile(sys.argv[1], config={"DEBUG": 1, "OMP": 0})
a = numpy.ones((3, 5), "f4")
print((add(a, a) == int(sys.argv[2])).all())
"""


@needs_cc
def test_the_same_and_different_kernels_built_at_once(own: Path) -> None:
    texts = [(ADD, "2"), (ADD.replace("(+ A B)", "(- A B)"), "0")]
    users = [python(CALL, *texts[k % 2]) for k in range(8)]
    said = [u.communicate(timeout=240) for u in users]
    assert [out for out, _ in said] == ["True\n"] * 8, said
    from luminal.calls import extension

    shared = extension() is not None  # what performs calls from Python is built once, too
    assert sum(name.startswith("product") for name in everything(own)) == 2 + shared


def compile_command(*words: str) -> list[str]:
    return [sys.executable, "-m", "luminal.cli", "compile", "add.lisp", *words]


@needs_cc
@pytest.mark.parametrize("words", [(), ("-o", "add.so"), ("-o", "out"), ("--emit", "source,library", "-o", "out")])
def test_a_failed_compiler_leaves_nothing_beside_the_input(words: tuple[str, ...], own: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "add.lisp").write_text(ADD)
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\n[ "$1" = --version ] && { echo clang version 99; exit 0; }\necho it is broken\nexit 1\n')
    compiler.chmod(0o755)
    done = subprocess.run(compile_command(*words, "--config", f"CC={compiler},OMP=0"), cwd=here, text=True, capture_output=True, timeout=PATIENCE)
    assert done.returncode == 4 and "it is broken" in done.stderr and "Traceback" not in done.stderr
    assert everything(here) == ["add.lisp"]


@needs_cc
def test_killed_while_the_compiler_runs(own: Path, tmp_path: Path) -> None:
    here, begun = tmp_path / "here", tmp_path / "begun"
    here.mkdir()
    (here / "add.lisp").write_text(ADD)
    compiler = tmp_path / "compiler"
    compiler.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && {{ echo clang version 99; exit 0; }}\necho half > product\ntouch {begun}\nexec sleep 2\n'
    )
    compiler.chmod(0o755)
    words = ("-o", "add.so", "--config", f"CC={compiler},OMP=0")
    with started(compile_command(*words), cwd=here, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        waited(begun.exists)
        process.kill()
    assert everything(here) == ["add.lisp"]
    done = subprocess.run(compile_command("-o", "add.so"), cwd=here, text=True, capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0 and everything(here) == ["add.lisp", "add.so"], done.stderr


def test_killed_while_a_file_is_written(tmp_path: Path) -> None:
    """A reader sees the old file or the new one, and a kill between leaves the old one."""
    code = """
import os, sys
from pathlib import Path
from luminal.artifacts.write import write_text
os.fsync = lambda file: os.kill(os.getpid(), 9)
write_text(Path(sys.argv[1]), "new" * 100000)
"""
    file = tmp_path / "gemm.c"
    file.write_text("old")
    killed = python(code, str(file))
    killed.communicate(timeout=PATIENCE)
    assert killed.returncode == -signal.SIGKILL and file.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir() if not p.name.startswith(".")] == ["gemm.c"]


@pytest.mark.parametrize("words", [("-o", "add.lisp/out"), ("-o", "/proc/nowhere"), ("--save-temps", "add.lisp"), ("-o", "nowhere/add.c")])
def test_a_place_that_cannot_be_written_is_status_2(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "add.lisp").write_text(ADD)
    done = subprocess.run(compile_command(*words, "--runtime", "reference"), cwd=tmp_path, text=True, capture_output=True, timeout=PATIENCE)
    assert done.returncode == 2 and "Traceback" not in done.stderr and "luminal: error:" in done.stderr, done.stderr
    assert everything(tmp_path) == ["add.lisp"]


def test_one_file_for_two_composites_is_status_2(tmp_path: Path) -> None:
    (tmp_path / "add.lisp").write_text(ADD)
    (tmp_path / "two.lisp").write_text(ADD.replace("add", "two"))
    done = subprocess.run(compile_command("two.lisp", "-o", "both.c"), cwd=tmp_path, text=True, capture_output=True, timeout=PATIENCE)
    assert done.returncode == 2 and "name a folder" in done.stderr and everything(tmp_path) == ["add.lisp", "two.lisp"]
