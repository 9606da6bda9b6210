"""Naive loops that nobody tuned for: each kernel of `bench/polybench` at a small odd size beside the same loops in C, both within the bounds of the float64 reference."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from luminal.bench.polybench.__main__ import SMALLER, Case, beyond_bounds, case_of, main, row_of, text_of
from luminal.bench.polybench.peers import HERE, build, counted, kernels
from luminal.runtimes.clang.compiler import find_compiler
from luminal.search.bench.blocks import Method
from luminal.search.bench.measure import OURS

pytestmark = pytest.mark.usefixtures("plain_c", "quick_ceilings")
LISTED = {k.name: k for k in kernels()}


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {name: case_of(kernel, SMALLER) for name, kernel in LISTED.items()}


@pytest.fixture(scope="module")
def plain(cases: dict[str, Case], tmp_path_factory: pytest.TempPathFactory) -> dict[str, ctypes.CDLL]:
    """One compilation of all C."""
    return {"c": build(text_of([*cases.values()]), find_compiler("").command, "-O1", tmp_path_factory.mktemp("peers"))}


@pytest.mark.parametrize("name", LISTED)
def test_within_bounds_beside_its_c(name: str, cases: dict[str, Case], plain: dict[str, ctypes.CDLL]) -> None:
    assert beyond_bounds(cases[name], plain) == {}


def test_a_c_that_computes_something_else_is_not_timed(cases: dict[str, Case], plain: dict[str, ctypes.CDLL], tmp_path: Path) -> None:
    text = text_of([cases["atax"]])
    wrong = build(
        text.replace(f'#include "{HERE / "atax"}.c"', (HERE / "atax.c").read_text().replace("+=", "-=", 1)),
        find_compiler("").command,
        "-O1",
        tmp_path,
    )
    row = row_of(cases["atax"], {**plain, "wrong": wrong}, Method(blocks=1, runs=1, seconds=0, pause=0, again=0))
    assert row.ok and [*row.minima] == [OURS, "c"] and row.flops == 4 * 475 * 525
    assert any(note.startswith("wrong: ") and note.endswith("not timed") for note in row.notes)


def test_what_is_updated_in_place_begins_anew(cases: dict[str, Case], plain: dict[str, ctypes.CDLL]) -> None:
    """After all its calls a factor is that of the input, not of factors."""
    from luminal.bench.polybench.__main__ import calls_of, contender
    from luminal.search.bench.blocks import timed

    case = cases["lu"]
    inputs = case.inputs(case.small)
    call, arrays = calls_of(case, "small", inputs, plain)["c"]
    call()
    once = arrays["A"].copy()
    timed(contender(case, call, arrays, inputs), Method(blocks=1, runs=3, seconds=0, pause=0, again=0))
    assert (arrays["A"] == once).all()


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trisolv", "jacobi_1d", "--small", "--blocks", "1", "--runs", "1", "--patience", "0"]) == 0
    printed = capsys.readouterr().out
    assert (
        "one thread each" in printed and "trisolv N=" in printed and "jacobi_1d" in printed and "GFLOP/s" in printed and "geometric mean" in printed
    )
    with pytest.raises(SystemExit):
        main(["nothing_of_that_name"])


def test_the_page_names_every_kernel() -> None:
    page = (HERE / "README.md").read_text(encoding="utf-8")
    assert len(LISTED) == 30 and [k for k in LISTED if f"`{k}`" not in page] == []
    assert {p.stem for p in HERE.glob("*.c")} == {*LISTED} == {p.stem for p in HERE.glob("*.toml")} - {"kernels"}
    assert counted("2 * (I + 1)", {"I": 3}) == 8 and counted("", {}) == 0
