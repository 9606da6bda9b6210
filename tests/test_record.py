"""Records behave as frozen dataclasses with slots do, though their methods are made together."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace as replaced
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from luminal.ir.kernel import Store
from luminal.ir.record import changing, record, replace


class Body:
    """What is written in both classes."""

    name: str
    at: int = 7
    parts: list[int] = field(default_factory=list, hash=False)
    span: str = field(default="here", compare=False)
    found: Any = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "found", self.at + 1)


def a_class(make: Any, name: str) -> Any:
    return make(type(name, (), {k: v for k, v in vars(Body).items() if k not in ("__dict__", "__weakref__")}))


OURS, THEIRS = a_class(record, "One"), a_class(dataclass(frozen=True, slots=True), "One")


@pytest.mark.parametrize("given", [{"name": "a"}, {"name": "a", "at": 3}, {"name": "b", "parts": [1, 2], "span": "there"}])
def test_the_same_fields_text_and_hash(given: dict[str, Any]) -> None:
    ours, theirs = OURS(**given), THEIRS(**given)
    assert [(f.name, getattr(ours, f.name)) for f in fields(OURS)] == [(f.name, getattr(theirs, f.name)) for f in fields(THEIRS)]
    assert repr(ours) == repr(theirs)
    assert hash(ours) == hash(theirs)
    assert not hasattr(ours, "__dict__")
    assert OURS.__match_args__ == THEIRS.__match_args__


def test_equal_by_what_is_compared() -> None:
    assert OURS("a", 1, [2], "here") == OURS("a", 1, [2], "there")
    assert OURS("a", 1, [2]) != OURS("a", 1, [3])
    assert OURS("a") != THEIRS("a")
    assert OURS("a").parts is not OURS("a").parts


@pytest.mark.parametrize("changes", [{}, {"at": 9}, {"name": "c", "parts": [4]}])
def test_replace(changes: dict[str, Any]) -> None:
    ours, theirs = replace(OURS("a", 2), **changes), replaced(THEIRS("a", 2), **changes)
    assert repr(ours) == repr(theirs)
    assert ours.found == theirs.found


def test_what_is_no_field_is_refused() -> None:
    with pytest.raises(TypeError):
        replace(OURS("a"), nothing=1)
    with pytest.raises(TypeError):
        OURS()


def test_a_method_of_the_class_stays() -> None:
    @record
    class Own:
        x: int

        def __repr__(self) -> str:
            return "mine"

    assert repr(Own(1)) == "mine"


def test_nothing_is_checked_while_the_program_runs() -> None:
    """The type checker alone refuses it: checking costs more than making."""
    with pytest.raises(FrozenInstanceError):
        THEIRS("a").at = 2
    assert "__setattr__" not in vars(Store)


def test_how_two_are_compared_is_made_when_the_first_two_are() -> None:
    one, other = a_class(record, "One"), a_class(record, "Other")
    unmade = vars(other)["__eq__"]
    assert one("a") == one("a") and one("a") != one("b")
    assert len({one("a"), one("a"), one("b")}) == 2
    assert vars(one)["__eq__"].__code__.co_varnames == ("self", "other") and vars(other)["__eq__"] is unmade
    assert one("a") != other("a")


def test_a_record_of_a_record_has_the_fields_of_both() -> None:
    @record
    class Base:
        x: int
        y: int = 2

    @record
    class More(Base):
        z: int = 3

    ours = More(1)
    assert (ours.x, ours.y, ours.z, More.__match_args__, vars(More)["__slots__"]) == (1, 2, 3, ("x", "y", "z"), ("z",))
    assert [(f.name, f.type) for f in fields(More)] == [("x", "int"), ("y", "int"), ("z", "int")]
    assert asdict(replace(ours, y=5)) == {"x": 1, "y": 5, "z": 3}
    assert Base(1) != ours and More(1) == ours and hash(More(1)) == hash(ours)


def test_a_method_is_made_when_it_is_first_called() -> None:
    """By whoever calls it, also where another thread has made it meanwhile."""

    @record
    class Pair:
        x: int
        y: int = 2

    class Under(Pair):
        pass

    for name, call in (
        ("__init__", lambda f: f(object.__new__(Pair), 1, y=3)),
        ("__eq__", lambda f: f(Pair(1), Pair(1))),
        ("__hash__", lambda f: f(Pair(1))),
    ):
        before = vars(Pair)[name]
        first = call(before)
        assert vars(Pair)[name] is not before
        assert call(before) == first == call(vars(Pair)[name])
    assert (Under(4).x, Under(4).y) == (4, 2) and "__init__" not in vars(Under)


def test_a_record_may_remember_what_it_found() -> None:
    @record
    class Found:
        x: int

        @cached_property
        def twice(self) -> list[int]:
            return [self.x, self.x]

    one = Found(3)
    assert one.twice is one.twice == [3, 3]
    assert one == Found(3) and replace(one, x=4).twice == [4, 4]


def test_what_changes_is_equal_to_itself_alone() -> None:
    @changing
    class Work:
        """Some."""

        name: str
        at: int = 7
        parts: list[int] = field(default_factory=list)
        later: str = field(init=False)

        def __post_init__(self) -> None:
            self.later = self.name * 2

    class Under(Work):
        pass

    for cls in (Work, Under):
        ours = cls("a", parts=[1])
        assert (ours.name, ours.at, ours.parts, ours.later) == ("a", 7, [1], "aa")
        ours.at = 8
        assert ours == ours and ours != cls("a", 8, [1]) and len({ours, cls("a")}) == 2
        assert cls("a").parts is not cls("a").parts
    assert [f.name for f in fields(Work)] == ["name", "at", "parts", "later"] and Work.__match_args__ == ("name", "at", "parts")
    assert repr(Work("a")).endswith("Work(name='a', at=7, parts=[], later='aa')")
    assert replace(Work("a", 3), name="b").at == 3
    with pytest.raises(TypeError):
        Work()  # pyright: ignore[reportCallIssue]


KEY = {"luminal.compiler", "luminal.ir.target", "luminal.kept_compilation"}  # `asdict` asks what these records are made of


def test_the_classes_of_a_compilation_are_made_when_they_are_needed(tmp_path: Path) -> None:
    """Each dataclass takes a millisecond of every start."""
    script = """
import dataclasses, sys
made, make = [], dataclasses._process_class
dataclasses._process_class = lambda cls, *given: made.append(cls.__module__) or make(cls, *given)
from luminal.cli.main import run
status = run(["compile", "gemm", "--emit", "source", "--target", "x86-64-v3"])
print(*[m for m in made if m.startswith("luminal.")], file=sys.stderr)
sys.exit(status)
"""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}  # where nothing is kept, so that all passes are run
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert "lm_gemm" in done.stdout
    assert set(done.stderr.split()) <= {"luminal.ir.dtypes", "luminal.ir.errors", *KEY}
