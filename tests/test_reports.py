"""What is made from the library is current: docs/ops.md, and the report of each runtime."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from luminal.cli.library_page import library_page
from luminal.cli.main import cli
from luminal.cli.ops import library
from luminal.search.conformance.markdown import markdown
from luminal.search.conformance.report import CLOSE, FAILURES, Report, Row, from_json, reason
from luminal.search.conformance.shipped import FOLDER, shipped, standing
from luminal.search.conformance.survey import folder_hash, library_hash

ROOT = Path(__file__).parent.parent
RUNTIMES = tuple(shipped())  # those whose report `make reports` has written


def test_the_page_of_the_library_is_current() -> None:
    assert (ROOT / "docs" / "ops.md").read_text(encoding="utf-8") == library_page(), "make docs"


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_report_is_of_this_library_and_this_runtime(name: str) -> None:
    report = shipped()[name]
    assert report.library == library_hash(), "ops/ has changed: make reports"
    assert report.folder == folder_hash(FOLDER / name), f"runtimes/{name}/ has changed: make report-{name}"
    assert (FOLDER / name / "REPORT.md").read_text(encoding="utf-8") == markdown(report)


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_report_knows_every_composite_and_nothing_in_it_fails(name: str) -> None:
    report = shipped()[name]
    assert {r.name for r in report.rows if r.kind == "composite"} == {c.name for members in library().values() for c in members}
    assert sum(r.kind == "primop" and r.status == "passes" and r.dtype in ("f32", "i32", "i64") for r in report.rows) >= 27
    assert not [(r.name, r.dtype, r.status) for r in report.rows if r.status in FAILURES]


@pytest.mark.parametrize("name", RUNTIMES)
def test_elementwise_results_are_close_or_the_report_says_why(name: str) -> None:
    report = shipped()[name]
    found = [r for r in report.rows if r.elementwise and r.dtype == "f32" and r.status == "passes"]
    assert len(found) > 100
    for r in found:
        assert r.ulp_median == 0 or reason(r), (r.name, r.ulp_median)
        assert r.ulp_p99 <= CLOSE or (reason(r) and r.bound_ulp > CLOSE), (r.name, r.ulp_p99, r.bound_ulp)


def row(**fields: object) -> Row:
    return Row("f", "composite", "nn", "f32", **fields)  # type: ignore[arg-type]


def test_the_json_twin_holds_everything() -> None:
    rows = [row(cases=3, passed=3, elementwise=True, ulp_p99=7, bound_ulp=40), row(status="mismatch", detail="no", command="luminal test-runtime")]
    report = Report("clang", "c", "1", "3", "2", "t", "o", "m", "a", "b", False, 1.5, rows)
    again = from_json(json.loads(json.dumps(report.as_json())))
    assert again == report and not again.ok
    text = markdown(again)
    assert "| f | f32 | passes | 3/3 | 0 | 7 | 0 | 0 |" in text and "| f32 | 1 | 1 | 0 |" in text
    assert "f, f32: median 0, p99 7; " in text and "formula is 40 ULP" in text and "```\nluminal test-runtime\n```" in text


def test_what_fails_is_not_excused() -> None:
    assert reason(row(elementwise=True, ulp_p99=7, bound_ulp=40)) and not reason(row(status="mismatch", elementwise=True, ulp_p99=7, bound_ulp=40))


@pytest.mark.parametrize("name", RUNTIMES)
def test_ops_says_which_runtimes_pass_a_composite(name: str) -> None:
    assert "f32" in standing("softmax")[name]["passes"]
    shown = CliRunner().invoke(cli, ["ops", "softmax"], catch_exceptions=False, standalone_mode=False).stdout
    assert f"  {name:<10} passes f" in shown
