"""What compiling a unit came to is kept: a second run compiles nothing, a changed compiler everything."""

import shutil

import pytest
from luminal.search import own
from luminal.search.cache import cache_folder
from luminal.search.conformance import unit
from luminal.search.conformance.kernels import Spec
from luminal.search.conformance.unit import Settings, run_unit

SPECS = [Spec("softmax", "composite", "f32"), Spec("softmax", "composite", "i32"), Spec("solve_lower", "composite", "f32")]
SETTINGS = Settings("clang", quick=True)


@pytest.fixture
def compilations(monkeypatch, tmp_path):
    """The specs that were compiled, beside a cache of one's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(own, "_known", {})
    monkeypatch.setattr(own, "compiler", lambda: "a compiler")
    monkeypatch.setattr(own, "library", lambda: "a library")
    seen = []
    compile_one = unit.compiled
    monkeypatch.setattr(unit, "compiled", lambda spec, *rest: seen.append(spec) or compile_one(spec, *rest))
    return seen


def test_a_second_run_compiles_nothing(compilations, monkeypatch):
    first = run_unit(SPECS, SETTINGS)
    assert compilations == SPECS and [t.status for t in first] == ["passes", "dtype", "passes"]
    assert run_unit(SPECS, SETTINGS) == first and compilations == SPECS
    for k, what in enumerate(("compiler", "library"), 2):
        monkeypatch.setattr(own, what, lambda: "another")
        assert run_unit(SPECS, SETTINGS) == first and compilations == SPECS * k


def test_a_library_that_is_gone_is_built_again(compilations):
    first = run_unit(SPECS, SETTINGS)
    for path in cache_folder().glob("*/product.so"):
        shutil.rmtree(path.parent)
    assert run_unit(SPECS, SETTINGS) == first and compilations == SPECS * 2


def test_a_failure_is_tried_again(compilations, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr("luminal.passes.pipeline.run_pipeline", lambda *_: 1 // 0)
        assert [t.status for t in run_unit(SPECS[:1], SETTINGS)] == ["compiler error"]
    assert [t.status for t in run_unit(SPECS[:1], SETTINGS)] == ["passes"]


def test_a_unit_is_not_kept_where_the_compiler_changed_meanwhile(compilations, monkeypatch):
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(own, "unchanged", lambda: False)
        run_unit(SPECS[:1], SETTINGS)
    run_unit(SPECS[:1], SETTINGS)
    assert compilations == SPECS[:1] * 2
