"""Searches, records and their commands, with real kernels: small sizes and budgets, and no assertion about time."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import luminal
import numpy as np
import pytest
from click.testing import CliRunner, Result
from compilers import HAS_CC
from luminal.cli.main import cli, prepare
from luminal.compiler import Compilation, Settings, compilations
from luminal.ir.errors import UsageError
from luminal.search.child import Child
from luminal.search.tuning import records
from luminal.search.tuning.alternatives import Refused, alternatives, classes, parts
from luminal.search.tuning.bench import Bench, Place
from luminal.search.tuning.climb import Found
from luminal.search.tuning.session import Search, Workshop
from luminal.search.tuning.space import neighbours
from luminal.tuning import search_for, sizes_of

ROOT = Path(__file__).parent.parent
GEMM = str(ROOT / "samples/gemm.toml")
SIZES = {"M": 37, "K": 29, "N": 41}
needs_cc = pytest.mark.skipif(not HAS_CC, reason="needs a C compiler")


def luminal_(*words: str) -> Result:
    return CliRunner().invoke(cli, prepare(words), catch_exceptions=False, standalone_mode=False)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def compiled(source: str, **settings: Any) -> Compilation:
    (c,) = compilations(source, Settings(portable=False, **settings))
    return c


def search_of(c: Compilation, sizes: dict[str, int]) -> Search:
    return search_for(c, c.elaborate(), sizes, {})


def found_by(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """From here on a search takes no time and finds the neighbour whose name matches `what`, twice as fast."""

    def climbed(space: object, *_: object) -> Found:
        default = space.defaults()[0]  # type: ignore[attr-defined]
        lines = next(lines for name, lines in neighbours(default.scripts[0]) if re.fullmatch(what, name))
        winner = space.candidate(0, (lines, *default.scripts[1:]), what)  # type: ignore[attr-defined]
        assert winner is not None
        return Found(winner, default, 2.0, 0.01)

    monkeypatch.setattr("luminal.search.tuning.session.climb", climbed)


# ---- candidates


@pytest.mark.parametrize("name", [GEMM, "softmax", "transpose", "multi_head_attention", str(ROOT / "samples/attention.toml")])
def test_the_default_is_what_o2_makes_and_neighbours_are_schedules(name: str) -> None:
    c = compiled(name)
    graph = c.elaborate()
    sizes = {s.name: 64 for s in graph.sizes}
    first = alternatives(graph, c.target, c.options, sizes)[0]
    assert tuple(k.body for k in first.kernels) == tuple(k.body for k in c.module.kernels)
    good = 0
    for k, (what, lines) in enumerate(neighbours(first.defaults[0])):
        if what.startswith("split") and k % 3:  # most are another number in a split, hundreds for attention
            continue
        try:
            kernels = first.scheduled((lines, *first.defaults[1:]))
        except Refused:
            continue
        assert first.cost(kernels) > 0
        good += 1
    assert good >= 3


def test_a_variant_that_its_condition_decides_is_replayed_under_it() -> None:
    rows = "(composite rows ((X{f32}[M N]) -> (Y{f32}[M N])) (return (softmax X)))"
    c = compiled(rows)
    sizes = {"M": 1 << 14, "N": 4000}
    first = alternatives(c.elaborate(), c.target, c.options, sizes)[0]
    assert any(line.startswith("pipeline ") for line in first.defaults[0])
    assert first.cost(first.default_kernels) > 0
    other = next(lines for what, lines in neighbours(first.defaults[0]) if what.startswith("split i "))
    assert first.scheduled((other,)) != first.default_kernels


def test_without_a_cascade_is_an_alternative() -> None:
    rows = "(composite rows ((X{f32}[M N]) -> (Y{f32}[M N])) (return (softmax X)))"
    c = compiled(rows, sizes={"M": 64, "N": 100_000})  # a row that leaves the cache
    assert [a.left_out for a in alternatives(c.elaborate(), c.target, c.options, {})] == [(), ("cascade",)]
    free = compiled(rows)
    found = alternatives(free.elaborate(), free.target, free.options, {"M": 64, "N": 64})
    assert [a.left_out for a in found] == [()], "at other sizes it may be far worse, and there are no variants of a graph"
    g = compiled(GEMM, sizes=SIZES)
    assert len(alternatives(g.elaborate(), g.target, g.options, {})) == 1, "what makes no difference is none"


def test_what_the_default_does_at_other_sizes_is_a_candidate() -> None:
    c = compiled(GEMM)
    found = Workshop(alternatives(c.elaborate(), c.target, c.options, SIZES)).defaults()
    assert [f.what for f in found if " * " not in f.what] == [  # what goes by products of sizes, registers decide: strips, tiles of operands in place
        "the default",
        "gemm_0 as where M <= 128",
        "gemm_0 as at all other sizes",
    ]
    assert "region queue=i.0.0" in found[-1].scripts[0] and len({f.scripts for f in found}) == len(found)


def test_a_tuned_part_is_for_its_class_of_sizes() -> None:
    c = compiled(GEMM)
    (a,) = alternatives(c.elaborate(), c.target, c.options, SIZES)
    lines = next(lines for what, lines in neighbours(a.defaults[0]) if re.fullmatch("split i [68] → 4", what))
    script = a.recorded((lines,)).splitlines()
    assert script[0] == "kernel 0" and script[1].startswith("variant ") and all(n in script[1] for n in ("32 <= M", "M <= 63", "16 <= K", "K <= 31"))
    default = parts(a.kernels[0].schedule)
    assert [part for _, part in parts(tuple(script[1:]))] == [lines, *(part for _, part in default)]
    assert classes({"M": 37, "K": 1, "N": 0}) == {"M": (32, 63), "K": (1, 1), "N": (0, 0)}


def test_hard_limits() -> None:
    c = compiled(GEMM)
    (a,) = alternatives(c.elaborate(), c.target, c.options, SIZES)
    registers = c.target.vector_registers * c.target.vector_bytes
    wide = tuple(line.replace("split j 48", f"split j {registers}").replace("split j 16", f"split j {registers}") for line in a.defaults[0])
    with pytest.raises(Refused, match="in registers"):
        a.scheduled((wide,))


# ---- checked before it is timed


@needs_cc
def test_what_is_wrong_is_never_timed() -> None:
    ports = "((A{f32}[N] B{f32}[N]) -> (C{f32}[N]))"
    add = compiled(f"(composite add {ports} (return (+ A B)))")
    subtract = compiled(f"(composite add {ports} (return (- A B)))")
    outside = compiled("(composite add ((A{f32}[N](where N >= 100) B{f32}[N]) -> (C{f32}[N])) (return (+ A B)))")
    place = Place(add.runtime, add.target, "clang", None, {}, False)
    graph = add.elaborate()
    with Child() as child:
        bench = Bench(place, graph, graph, {"N": 33}, {"N": 33}, {}, child)
        found = bench.measure([add.program, subtract.program, outside.program], 0.02)
    assert [m.status for m in found] == ["pass", "mismatch", "code"]
    assert len(found[0].minima) == 7 and all(s > 0 for s in found[0].minima)
    assert not found[1].minima and "of the bound" in found[1].detail and not found[2].minima


@needs_cc
def test_a_program_that_does_not_build_does_not_keep_the_others_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from luminal.ir.errors import ToolError

    c = compiled("(composite twice ((A{f32}[N]) -> (Y{f32}[N])) (return (* 2 A)))")
    broken = compiled("(composite broken ((A{f32}[N]) -> (Y{f32}[N])) (return (* 2 A)))")
    real = c.runtime.build

    def build(rendered: object, *rest: object) -> None:
        if "broken" in rendered.source:  # type: ignore[attr-defined]
            raise ToolError("the compiler fell over")
        real(rendered, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(c.runtime, "build", build)
    with Child() as child:
        bench = Bench(Place(c.runtime, c.target, "clang", None, {}, False), c.elaborate(), c.elaborate(), {"N": 9}, {"N": 9}, {}, child)
        found = bench.measure([c.program, broken.program, c.program], 0.02)
    assert [m.status for m in found] == ["pass", "not built", "pass"]


# ---- records


def record(**changes: object) -> records.Record:
    values: dict[str, object] = {
        "key": "ab12", "composite": "gemm", "runtime": "clang", "target": "t", "compiler": "c", "classes": {"M": (32, 63)}, "sizes": {"M": 37}, "script": "kernel 0\nsplit i 8",
    }  # fmt: skip
    return records.Record(**{**values, **changes})  # type: ignore[arg-type]


def test_records_are_kept_listed_exported_and_imported(tmp_path: Path) -> None:
    first, second = record(), record(key="cd34", composite="a", left_out=("cascade",), ratio=1.25)
    assert records.keep(first) and records.keep(second)
    assert records.find("ab12") == first and records.records() == [second, first] and records.find("ff") is None
    assert "gemm" in luminal_("tuning", "list").output and json.loads(luminal_("tuning", "list", "--json").output)["records"]
    out = tmp_path / "records.json"
    luminal_("tuning", "export", str(out))
    assert luminal_("tuning", "clear").output == "removed 2 records\n" and records.records() == []
    assert luminal_("tuning", "import", str(out)).output == "2 records\n" and records.records() == [second, first]


def test_a_record_that_cannot_be_read_counts_as_none(tmp_path: Path) -> None:
    records.keep(record())
    path = records.folder() / "ab12.json"
    whole = path.read_text()
    for text in (
        "",
        "{",
        "[]",
        whole.replace('"format": 1', '"format": 2'),
        whole.replace('"script": "', '"skript": "'),
        whole.replace('"ab12"', '"../ab"'),
    ):
        path.write_text(text)
        assert records.find("ab12") is None and records.records() == []
    path.write_text(whole.replace(records.VERSION, "0.0.0"))
    assert records.find("ab12") is None, "of another version"
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"records": [{"format": 1}]}')
    with pytest.raises(UsageError, match="no exported tuning records"):
        luminal_("tuning", "import", str(wrong))


def test_the_key_is_content_options_class_target_and_compiler() -> None:
    c = compiled(GEMM)
    base = search_of(c, SIZES)
    same = [search_of(compiled(GEMM), SIZES), search_of(c, {**SIZES, "M": 63})]
    other = [search_of(c, {**SIZES, "M": 64}), search_of(compiled(GEMM, sizes={"K": 29}), {"M": 37, "N": 41}), search_of(compiled(GEMM, fast=True), SIZES),
             search_of(compiled(GEMM, target="x86-64-v2"), SIZES), search_of(compiled("dot"), {"N": 37})]  # fmt: skip
    assert all(s.key == base.key for s in same)
    assert len({base.key, *(s.key for s in other)}) == 1 + len(other)


# ---- -O3


@needs_cc
def test_a_winner_is_recorded_and_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found_by(monkeypatch, "split i [68] → 4")
    first = compiled(GEMM, O=3, at=SIZES)
    source = first.rendered.source
    assert "split i 4 tail=clamp" in first.module.kernels[0].schedule and first.tune().found is not None
    plain = compiled(GEMM).rendered.source
    assert source != plain

    def never(*_: object) -> Found:
        raise AssertionError("what is recorded is not searched for")

    monkeypatch.setattr("luminal.search.tuning.session.climb", never)
    again = compiled(GEMM, O=3, at={**SIZES, "M": 60})
    assert again.rendered.source == source and again.tune().found is None, "a record replays exactly, for all sizes of its class"
    assert compiled(GEMM).rendered.source == plain, "-O2 is the same on every machine"
    assert "2.00 times as fast" in again.tune().summary
    done = luminal_("compile", GEMM, "-O3", "--test", "M=37, N=41, K=29", "--json")
    row = json.loads(done.output)
    assert row["ok"] and row["tuning"][0]["ratio"] == 2.0 and not row["tuning"][0]["searched"]


@needs_cc
def test_a_tuned_library_is_right_at_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    found_by(monkeypatch, "split i [68] → 4")
    gemm = luminal.compile(GEMM, O=3, at=SIZES)
    random = np.random.default_rng(11)
    for m, k, n in ((37, 29, 41), (32, 16, 32), (63, 31, 63), (7, 29, 41), (64, 29, 41), (0, 3, 2)):
        a, b, c = (random.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n), (m, n)))
        expected = c + a.astype(np.float64) @ b
        np.testing.assert_allclose(gemm(a, b, c), expected, rtol=1e-4, atol=1e-4)


@needs_cc
def test_a_real_search_ends_within_its_budget_and_gives_a_right_kernel() -> None:
    tuned = json.loads(luminal_("tune", GEMM, "--sizes", "M=37, N=41, K=29", "--budget", "3", "--json").output)["results"][0]
    assert all(c["status"] == "pass" for c in tuned["candidates"]) and len(tuned["candidates"]) >= 1 and len(records.records()) == 1
    done = luminal_("compile", GEMM, "-O3", "--test", "M=37, N=41, K=29", "--json")
    row = json.loads(done.output)
    assert done.return_value == 0 and row["results"][0]["status"] == "pass" and not row["tuning"][0]["searched"], done.output


@needs_cc
def test_variants_are_timed_beside_the_one_that_the_sizes_pick() -> None:
    found = search_of(compiled(GEMM), SIZES).variants(0.1)
    assert len(found) > 3
    assert all(m.status == "pass" and m.minima for _, m in found), found
    assert next(c.what for c, _ in found) == "the default" and all("where" in c.what or "other sizes" in c.what for c, _ in found[1:])


@needs_cc
def test_tune_shows_what_was_tried() -> None:
    done = luminal_("tune", "softmax", "--sizes", "batch=8, N=40", "--budget", "3")
    lines = done.output.splitlines()
    assert done.return_value == 0 and lines[0].startswith("softmax at batch=8 N=40") and "candidate" in lines[1]
    assert any(line.endswith("the default") for line in lines) and re.search(r"candidates? in", lines[-1])
    (kept,) = records.records()
    assert kept.sizes == {"batch": 8, "N": 40}


def test_no_place_to_measure_is_a_warning_and_o2(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = luminal_("compile", "softmax", "-r", "cuda", "--target", "sm_80", "--emit", "source")
    done = luminal_("compile", "softmax", "-r", "cuda", "--target", "sm_80", "-O3", "--emit", "source")
    assert "warning: -O3: nothing can be measured here" in done.stderr and done.stdout == plain.stdout
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        luminal.compile("softmax", runtime="reference", O=3)
    assert any("nothing can be measured" in str(w.message) for w in said)
    monkeypatch.setattr("luminal.search.tuning.session.climb", lambda space, *_: Found(*[space.defaults()[0]] * 2, failed="crash: SIGILL"))
    c = compiled(GEMM, O=3, at=SIZES)
    assert "SIGILL" in c.tune().warning and c.tune().record is None and records.records() == []


def test_a_schedule_of_ones_own_stays() -> None:
    text = (ROOT / "samples/softmax.toml").read_text() + '\n[schedule.clang]\nsteps = "parallel i"\n'
    c = compiled(text, O=3)
    assert "schedule of its own" in c.tune().warning and c.module.kernels[0].schedule == ("parallel i",)


@needs_cc
def test_an_interruption_leaves_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> Found:
        raise KeyboardInterrupt

    monkeypatch.setattr("luminal.search.tuning.session.climb", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compiled(GEMM, O=3, at=SIZES).tune()
    assert records.records() == []


def test_sizes_to_tune_for() -> None:
    def chosen(source: str, **settings: Any) -> dict[str, int] | None:
        c = compiled(source, O=3, **settings)
        found = sizes_of(c, c.elaborate())
        return None if found is None else found[0]

    assert chosen(GEMM, at=SIZES) == SIZES
    assert chosen(GEMM, at=SIZES, sizes={"K": 29}) == {"M": 37, "N": 41}, "a size that is fixed is none"
    moderate = chosen("matmul")
    assert moderate is not None and min(moderate.values()) >= 64, "its own test sizes are too small to time"
    assert chosen("(composite f ((A{f32}[N](where N >= 9)) -> (Y{f32}[N])) (return (* 2 A)))", at={"N": 3}) is None
