"""What a compilation came to is kept: a second one runs no pass and says the same; whatever it depends on, changed, makes it run them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from time import time
from typing import Any

import pytest
from luminal import kept_compilation
from luminal.compiler import Compilation, Settings, compilations
from luminal.ir import text
from luminal.passes import pipeline
from luminal.runtimes import keep, rooms
from luminal.runtimes.clang import driver, machine
from luminal.search import own

TEXT = """
(composite double ((A{T}[N]) -> (B{T}[N])) (return (+ A A)))
(composite rows ((A{T}[~ N] Bias{T}[N]? &key (k 2)) -> (B{T}[~ N]))
  (setf z (softmax (+ A k)))
  (if (given Bias) (setf z (+ z Bias)))
  (return z))
"""
SCALE = "(composite scale ((A{T}[N]) -> (B{T}[N])) (return (* A %s)))"
CALLER = "(composite caller ((A{T}[N]) -> (B{T}[N])) (return (scale A)))"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key_of: Callable[..., str | None]) -> list[str]:
    """The graphs that went through passes, beside a cache of one's own; luminal's files are taken for unchanged."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(kept_compilation, "key_of", key_of)
    monkeypatch.setattr(own, "compiler", lambda: "a compiler")
    monkeypatch.setattr(own, "_known", {})
    seen: list[str] = []
    real = pipeline.run_pipeline

    def counted(ir: Any, *rest: Any, **named: Any) -> Any:
        seen.append(ir.name)
        return real(ir, *rest, **named)

    monkeypatch.setattr(pipeline, "run_pipeline", counted)
    return seen


def made(source: str, observer: Any = None, **settings: Any) -> Compilation:
    """Compiled to its source."""
    (found,) = compilations(source, Settings(**{"target": "x86-64-v3", **settings}), observer=observer, keeps=True)
    assert found.rendered.source
    return found


def entry(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "cache" / "luminal" / kept_compilation.ROOM).iterdir()
    return found


# ---- the same again


def test_a_second_compilation_runs_no_pass_and_says_the_same(runs: list[str]) -> None:
    first, second = made(TEXT), made(TEXT)
    assert runs == ["rows"] and second.kept is not None and first.kept is None
    assert second.rendered == first.rendered
    assert (second.name, second.optional, second.leading, second.kernels) == (first.name, first.optional, first.leading, first.kernels)
    assert second.notes == first.notes and second.notes, "the reasons that --why prints"
    assert second.dependencies == first.dependencies and second.dependencies
    assert text.show(second.module) == text.show(first.module) and runs == ["rows", "rows"], "what is not kept is computed"


@pytest.mark.parametrize("late", [False, True])
def test_levels_are_kept_where_somebody_asks_for_them(late: bool, runs: list[str]) -> None:
    if late:  # by another who found the source
        made(TEXT)
    first = made(TEXT)
    shown = text.show(first.program), text.show(first.graph)
    count = len(runs)
    second = made(TEXT)
    assert (text.show(second.program), text.show(second.graph)) == shown and len(runs) == count == 1 + late
    first.run(stop_after="simplify")
    assert text.show(first.graph) == shown[1], "a level stays what all passes made of it"


def test_warnings_come_again(runs: list[str], tmp_path: Path) -> None:
    changed = "(composite f ((A{f32}[N] C{f32}[N]) -> (B{f32}[N])) (dotimes (i N) (setf (aref C i) (aref A i))) (return (+ A C)))"
    first, second = made(changed), made(changed)
    assert runs == ["f"] and len(first.warnings) == 1 and second.warnings == first.warnings
    assert second.elaborate() is not None and second.warnings == first.warnings, "not twice, where it is elaborated after all"


def test_every_composite_of_a_file_has_its_own(runs: list[str], tmp_path: Path) -> None:
    (tmp_path / "two.lisp").write_text(TEXT)
    both = [[c.rendered.source for c in compilations("two.lisp", Settings(entry="all"), keeps=True)] for _ in range(2)]
    assert runs == ["double", "rows"] and both[0] == both[1] and both[0][0] != both[0][1]
    made("two.lisp", target=None, entry="double")
    assert runs == ["double", "rows"], "by its name it is the same"


def test_functions_and_their_variants(runs: list[str]) -> None:
    from luminal.function import compile

    numpy = pytest.importorskip("numpy")
    a, bias = numpy.ones((2, 3, 5), "f4"), numpy.zeros(5, "f4")
    results = []
    for _ in range(2):
        f = compile(TEXT, runtime="reference")
        results.append((f(a, Bias=bias), f(a)))
    assert runs == ["rows", "rows_without_Bias"], "once with the optional port and once without"
    assert all((x == y).all() and x.shape == a.shape for x, y in zip(*results, strict=True))


# ---- what it depends on

OTHER: dict[str, Any] = {
    "runtime": "reference", "target": "x86-64-v4", "config": {"VECTOR": 16}, "O": 1, "strict": True, "fast": True, "unchecked": True, "sizes": {"N": 8}, "dtype": {"T": "f64"},
    "parameters": {"k": 3}, "ranks": 2, "assume": ("N % 8 = 0",), "without": ("Bias",), "include": (".",), "entry": "double", "prefix": "xx_", "portable": False,
}  # fmt: skip


def test_every_setting_is_tried() -> None:
    assert {f.name for f in fields(Settings)} == {*OTHER, *kept_compilation._ASIDE}


@pytest.mark.parametrize("name", OTHER)
def test_another_setting_is_another_compilation(name: str, runs: list[str]) -> None:
    made(TEXT)
    other = {name: OTHER[name]} | ({"target": None} if name == "runtime" else {})
    found = made(TEXT, **other)
    assert len(runs) == 2 and found.kept is None
    assert made(TEXT, **other).rendered == found.rendered and len(runs) == 2


def test_another_text_or_name_is_another_compilation(runs: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.lisp").write_text(TEXT)
    made("a.lisp")
    (tmp_path / "b.lisp").write_text(TEXT)
    made("b.lisp")
    assert len(runs) == 2, "diagnostics tell the name"
    (tmp_path / "a.lisp").write_text(TEXT.replace("+ A k", "* A k"))
    made("a.lisp")
    made("a.lisp")
    assert len(runs) == 3


def test_a_composite_that_is_called(runs: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "scale.lisp").write_text(SCALE % 2)
    made(CALLER, include=("mine",))
    assert made(CALLER, include=("mine",)).dependencies == (Path("mine/scale.lisp"),) and len(runs) == 1
    (folder / "scale.lisp").write_text(SCALE % 3)
    assert "3." in made(CALLER, include=("mine",)).rendered.source and len(runs) == 2
    (folder / "a").mkdir()
    (folder / "a" / "scale.lisp").write_text(SCALE % 4)
    found = made(CALLER, include=("mine",))
    assert len(runs) == 3 and found.dependencies == (Path("mine/a/scale.lisp"),), "one more file comes before it"
    (folder / "a" / "scale.lisp").unlink()
    assert made(CALLER, include=("mine",)).dependencies == (Path("mine/scale.lisp"),)


def test_a_composite_that_changes_while_it_is_compiled(runs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scale.lisp").write_text(SCALE % 2)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(own, "unchanged", lambda: (tmp_path / "scale.lisp").write_text(SCALE % 3) > 0)
        made(CALLER, include=(".",))
    assert "3." in made(CALLER, include=(".",)).rendered.source and len(runs) == 2


def test_a_composite_that_changes_before_a_level_is_asked_for(runs: list[str], tmp_path: Path) -> None:
    (tmp_path / "scale.lisp").write_text(SCALE % 2)
    made(CALLER, include=(".",))
    second = made(CALLER, include=(".",))
    (tmp_path / "scale.lisp").write_text(SCALE % 3)
    assert second.kept is not None and "3." in text.show(second.program), "as the file is now"
    assert "3." in second.rendered.source, "and the source with it"
    assert "3." in made(CALLER, include=(".",)).rendered.source


def test_the_machine(runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def native(isa: str) -> machine.Machine:
        return machine.Machine("x86-64-v3", "x86_64", 32, 16, isa=tuple(isa.split()))

    for isa in ("avx2 fma", "avx2 fma avx_vnni", "avx2 fma"):
        monkeypatch.setattr(driver, "native", lambda isa=isa: native(isa))
        made(TEXT, target="native")
    assert len(runs) == 2


def test_luminal_itself(runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    made(TEXT)
    monkeypatch.setattr(own, "compiler", lambda: "another compiler")
    made(TEXT)
    assert len(runs) == 2
    monkeypatch.setattr(own, "compiler", lambda: None)
    made(TEXT)
    made(TEXT)
    assert len(runs) == 4, "what is not known is not kept"
    monkeypatch.setattr(own, "compiler", lambda: "a third")
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(own, "unchanged", lambda: False)
        made(TEXT)
    made(TEXT)
    assert len(runs) == 6


def test_a_runtime_of_the_users(runs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from luminal.runtimes import registry

    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "runtime.toml").write_text('name = "mine"\ninherits = "clang"\n')
    monkeypatch.setattr(own, "LOADED", float("inf"))  # as in a process that began after the last change

    def again() -> Compilation:
        monkeypatch.setattr(own, "_known", {})
        registry._at.cache_clear()
        return made(TEXT, runtime="./mine")

    again()
    again()
    assert len(runs) == 1
    (folder / "table.json").write_text("{}")
    again()
    assert len(runs) == 2, "whatever it reads"
    monkeypatch.setattr(own, "LOADED", 0.0)
    again()
    again()
    assert len(runs) == 4, "changed since this process began"


# ---- what is never taken, and what is damaged


def test_what_is_watched_searched_or_not_plain_is_not_taken(runs: list[str], tmp_path: Path) -> None:
    made(TEXT)
    seen: list[str] = []
    made(TEXT, observer=lambda step: seen.append(step.name))
    assert len(runs) == 2 and "elaborate" in seen
    (c,) = compilations(TEXT, Settings(O=3), keeps=True)
    assert kept_compilation.key_of(c) is None
    (c,) = compilations(TEXT, Settings(parameters={"k": object()}), keeps=True)
    assert kept_compilation.key_of(c) is None
    (c,) = compilations(TEXT, Settings())
    assert c._key is None, "only who asks for it"


@pytest.mark.parametrize("damage", ["empty", "shorter", "other", "no JSON", "another table", "no bytes"])
def test_a_damaged_entry_is_a_miss(damage: str, runs: list[str], tmp_path: Path) -> None:
    first = made(TEXT)
    place = entry(tmp_path)
    whole = place.read_bytes()

    def summed(data: bytes) -> bytes:
        return sha256(data).digest() + data

    table = json.loads(whole[keep.DIGEST :])
    place.write_bytes(
        {
            "empty": b"", "shorter": whole[:-9], "other": whole[:50] + b"?" + whole[51:], "no JSON": summed(b"{"), "no bytes": summed(b"\xff"),
            "another table": summed(json.dumps({**table, "notes": 3}).encode()),
        }[damage]
    )  # fmt: skip
    assert made(TEXT).rendered == first.rendered and len(runs) == 2
    assert place.read_bytes() == whole, "made anew"


def test_where_nothing_can_be_kept_all_works(runs: list[str], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    assert made(TEXT).rendered == made(TEXT).rendered and len(runs) == 2


def test_a_room_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(rooms.ROOMS, "probes", rooms.Bound(1000, 8))
    place = rooms.folder("probes")
    for k in range(9):
        keep.keep("probes", str(k), b"data")
        now = time() - 5000 + k
        for path in place.iterdir():
            if path.stat().st_mtime > now:
                os.utime(path, (now, now))
    assert keep.kept("probes", "0") == b"data" and len(list(place.iterdir())) == 9, "a room is looked at once an hour"
    (place.parent / ".probes").unlink()
    keep.keep("probes", "8", b"data")
    assert len(list(place.iterdir())) == 4 and keep.kept("probes", "8") and not keep.kept("probes", "1")
    assert keep.kept("probes", "0"), "what was used last stays"
    monkeypatch.setattr(rooms, "YOUNG", 0)
    keep.keep("probes", "large", bytes(990))
    assert len(list(place.iterdir())) < 4


def test_what_was_used_within_the_hour_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rooms.ROOMS, "probes", rooms.Bound(100, 4))
    now = time()
    found = [rooms.Entry(now - 1000 * k, 10, str(k)) for k in range(6)]
    assert rooms.surplus("probes", found) == ["4", "5"], "beyond half, and older than 3600 s"
    assert rooms.surplus("probes", found[:4]) == []
    assert rooms.surplus("probes", [e._replace(size=60) for e in found[:4]]) == []
    assert rooms.surplus("probes", [e._replace(size=60, used=now - 4000 - k) for k, e in enumerate(found[:4])]) == ["0", "1", "2", "3"]
