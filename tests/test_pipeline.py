"""The runner: what is verified when, and who is named where a rule does not hold."""

from __future__ import annotations

from typing import Any

import pytest
from luminal.compiler import Settings, compilations
from luminal.ir import verify as rules
from luminal.ir.errors import CompilerBug, UsageError
from luminal.ir.record import replace
from luminal.passes import flatten_temps, join_blocks, pipeline, schedule


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    """From a composite to its program, as a user's process goes: verified at the end of each level."""
    monkeypatch.setattr(pipeline, "EACH", False)
    (compilation,) = compilations("softmax", Settings(runtime="clang", target="x86-64-v3"))
    graph = compilation.elaborate()
    return lambda: pipeline.run_pipeline(graph, "graph", compilation.target, compilation.options)


def unread(module: Any, *_: Any) -> Any:
    """Kernels that name no buffers, which is against a rule."""
    return module.with_kernels(tuple(replace(k, buffers=()) for k in module.kernels))


def fails(*_: Any) -> Any:
    raise AssertionError("not what was expected")


def test_each_level_is_verified_once(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    real = rules.verify
    monkeypatch.setattr(rules, "verify", lambda ir: (found.append(type(ir).__name__), real(ir)))
    program()
    assert found == ["Graph", "Module", "Program"]


def test_the_pass_that_broke_a_rule_is_named(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though what leaves the level is looked at only later."""
    monkeypatch.setattr(flatten_temps, "flatten_temps", unread)
    monkeypatch.setattr(join_blocks, "join_blocks", lambda ir, *_: ir)
    monkeypatch.setattr(schedule, "schedule", lambda ir, *_: ir)
    with pytest.raises(CompilerBug) as caught:
        program()
    assert caught.value.where == "flatten_temps"


def test_it_is_named_where_a_later_pass_trips(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flatten_temps, "flatten_temps", unread)
    monkeypatch.setattr(join_blocks, "join_blocks", fails)
    with pytest.raises(CompilerBug) as caught:
        program()
    assert caught.value.where == "flatten_temps"


def test_what_a_pass_raises_is_raised(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no rule is broken."""
    monkeypatch.setattr(join_blocks, "join_blocks", fails)
    with pytest.raises(AssertionError, match="not what was expected"):
        program()


def test_a_pass_with_nothing_to_do_is_not_loaded(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    real = pipeline.Pass.load
    monkeypatch.setattr(pipeline.Pass, "load", lambda p: (loaded.append(p.name), real(p))[1])
    program()
    assert "cascade" in loaded
    assert not {"pick", "row_axes", "shorten_filters", "share_reciprocals"} & set(loaded)


def test_a_program_is_taken_as_it_is(program: Any) -> None:
    made = program()
    (compilation,) = compilations("softmax", Settings(runtime="clang", target="x86-64-v3"))
    assert pipeline.run_pipeline(made, "program", compilation.target, compilation.options) is made


@pytest.mark.parametrize("stop", ["cascade", "pick"])
def test_stopping_after_a_pass_that_has_nothing_to_do(stop: str) -> None:
    (compilation,) = compilations("samples/gemm.toml", Settings(runtime="clang"))
    graph = compilation.elaborate()
    assert pipeline.run_pipeline(graph, "graph", compilation.target, compilation.options, stop_after=stop).name == "gemm"


def test_a_users_mistake_is_none_of_ours(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []

    def refuses(*_: Any) -> Any:
        runs.append(1)
        raise UsageError("no")

    monkeypatch.setattr(join_blocks, "join_blocks", refuses)
    with pytest.raises(UsageError):
        program()
    assert len(runs) == 1
