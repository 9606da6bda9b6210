"""What a compiler says of itself is kept as long as it is the same program in the same surroundings, and asked each time where that cannot be told."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from luminal import runtimes
from luminal.runtimes import keep
from luminal.runtimes.clang import driver, machine, probes

ELF = b"\x7fELF and so on"
Said = Callable[..., str]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were run, beside a cache of one's own and in surroundings without a variable that counts."""
    monkeypatch.setattr(keep, "folder", lambda room: tmp_path / "cache" / room)
    monkeypatch.setattr(probes, "SETTLED", 0.0)
    for name in probes._HEEDED:
        monkeypatch.delenv(name, raising=False)
    return []


def program(place: Path, data: bytes = ELF) -> str:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    place.chmod(0o755)
    return str(place)


def ask(asked: list[list[str]], *command: str, question: str = "--version", says: str = "version 1", **how: bool) -> str:
    def run(words: list[str]) -> str:
        asked.append(words)
        return says

    return probes.answer(command, question, run, **how)


def test_asked_once(asked: list[list[str]], tmp_path: Path) -> None:
    gcc = program(tmp_path / "gcc-99")
    assert ask(asked, gcc) == ask(asked, gcc, says="another") == "version 1"
    assert asked == [[gcc, "--version"]]
    ask(asked, gcc, question="-print-resource-dir")
    ask(asked, program(tmp_path / "there" / "gcc-99"))
    assert len(asked) == 3, "another question, another program"


def test_a_link_is_what_it_leads_to(asked: list[list[str]], tmp_path: Path) -> None:
    (tmp_path / "cc").symlink_to("gcc-1")
    program(tmp_path / "gcc-1")
    program(tmp_path / "gcc-2")
    cc = str(tmp_path / "cc")
    assert ask(asked, cc) == ask(asked, cc, says="?") == "version 1"
    (tmp_path / "cc").unlink()
    (tmp_path / "cc").symlink_to("gcc-2")
    assert ask(asked, cc, says="version 2") == "version 2"


def test_another_program_in_its_place(asked: list[list[str]], tmp_path: Path) -> None:
    gcc = program(tmp_path / "gcc")
    ask(asked, gcc)
    before = os.stat(gcc)
    program(tmp_path / "new", ELF[:-1] + b"!")
    os.utime(tmp_path / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(tmp_path / "new", gcc)
    assert (os.stat(gcc).st_size, os.stat(gcc).st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert ask(asked, gcc, says="version 2") == "version 2", "of the same size and the same time"


def test_a_library_of_a_clang(asked: list[list[str]], tmp_path: Path) -> None:
    clang, library = program(tmp_path / "bin" / "clang-99"), tmp_path / "lib" / "libclang-cpp.so.99"
    program(library)
    ask(asked, clang)
    ask(asked, clang)
    assert len(asked) == 1
    program(library, ELF + b" more")
    assert ask(asked, clang, says="version 2") == "version 2"


@pytest.mark.parametrize("name", ["COMPILER_PATH", "C_INCLUDE_PATH", "LD_LIBRARY_PATH"])
def test_the_environment(name: str, asked: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gcc = program(tmp_path / "gcc")
    ask(asked, gcc)
    monkeypatch.setenv(name, str(tmp_path))
    ask(asked, gcc)
    monkeypatch.setenv(name, str(tmp_path / "other"))
    ask(asked, gcc)
    assert len(asked) == 3


@pytest.mark.parametrize("what", ["a script", "ccache", "arguments", "another name", "not there", "just written"])
def test_who_may_say_something_else_tomorrow_is_asked_each_time(
    what: str, asked: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [program(tmp_path / ("compile" if what == "another name" else "gcc"), b"#!/bin/sh\n" if what == "a script" else ELF)]
    if what == "ccache":
        (tmp_path / "gcc").rename(tmp_path / "ccache")
        (tmp_path / "gcc").symlink_to("ccache")
    elif what == "arguments":
        command.append("-m32")
    elif what == "not there":
        (tmp_path / "gcc").unlink()
    elif what == "just written":
        monkeypatch.setattr(probes, "SETTLED", 1000.0)
    for _ in range(2):
        ask(asked, *command)
    assert len(asked) == 2


def test_an_answer_that_names_a_file_counts_while_that_is_there(asked: list[list[str]], tmp_path: Path) -> None:
    gcc, library = program(tmp_path / "gcc"), tmp_path / "libgomp.so"

    def where(says: str) -> str:
        return ask(asked, gcc, question="-print-file-name=libgomp.so", says=says, names_file=True)

    assert where("libgomp.so\n") == where("libgomp.so\n") and len(asked) == 2, "it may be installed"
    library.touch()
    assert where(f"{library}\n") == where("?") == f"{library}\n" and len(asked) == 3
    library.unlink()
    assert where("libgomp.so\n") == "libgomp.so\n" and len(asked) == 4


def test_a_damaged_answer_is_none(asked: list[list[str]], tmp_path: Path) -> None:
    gcc = program(tmp_path / "gcc")
    ask(asked, gcc)
    (place,) = (tmp_path / "cache" / probes.ROOM).iterdir()
    place.write_bytes(place.read_bytes()[:-1] + b"2")
    assert ask(asked, gcc) == "version 1" and len(asked) == 2


CPUINFO = "processor\t: {0}\nvendor_id\t: G\nmodel\t\t: 8\ncpu MHz\t\t: 28{0}\nflags\t\t: {1}\n\n"


def test_a_processor_is_all_its_flags(tmp_path: Path) -> None:
    def of(*flags: str) -> str:
        (tmp_path / "cpuinfo").write_text("".join(CPUINFO.format(k, f) for k, f in enumerate(flags)))
        machine.fingerprint.cache_clear()
        return machine.fingerprint(tmp_path / "cpuinfo")

    one = of("sse avx")
    assert of("sse avx", "sse avx") == one and "sse avx" in one and "MHz" not in one, "cores and clocks do not count"
    assert len({one, of("sse avx gfni"), of("sse avx", "sse")}) == 3


def test_what_is_built_depends_on_the_processor_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    clang = runtimes.find("clang")

    def identities() -> list[str]:
        return [clang.identity(clang.target(name, {}, True)) for name in ("native", "x86-64-v3")]

    native, portable = identities()
    monkeypatch.setattr(driver, "fingerprint", lambda: "another processor")
    assert identities()[0] != native and identities()[1] == portable
    monkeypatch.setenv("C_INCLUDE_PATH", "/there")
    assert identities()[1] != portable
