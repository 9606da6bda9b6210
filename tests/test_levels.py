"""Every sample at every optimisation level on every runtime; every level of IR as text, as a start, and as something to watch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from compilers import HAS_CC
from luminal.cli.main import cli
from luminal.cli.testing import bindings, subject_of
from luminal.compiler import LEVELS, Compilation, Settings, compilations
from luminal.ir import text
from luminal.ir.graph import Graph
from luminal.ir.verify import verify
from luminal.passes.pipeline import PIPELINE
from luminal.products import emit
from luminal.search import reference
from luminal.search.child import Child
from luminal.search.trial import run
from plain import plain

ROOT = Path(__file__).parent.parent
SAMPLES = sorted((ROOT / "samples").glob("*.toml"))
RUNTIMES = ["reference", *(["clang", "cuda"] if HAS_CC else [])]
SMALL = 40  # the interpreter is slow


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with Child() as process:
        yield process


@pytest.fixture(scope="module")
def _judged_once() -> Iterator[None]:
    """What a sample is judged by, at each of its sizes, is computed once for all levels and runtimes: they are given the same inputs."""
    known: dict[Any, Any] = {}
    compute = reference.reference

    def remembered(graph: Graph, inputs: Any, sizes: dict[str, int], written: Graph | None = None) -> Any:
        key = (graph.outputs, *sizes.items())
        if key not in known:
            known[key] = compute(graph, inputs, sizes, written)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "reference", remembered)
        yield


def compiled(file: Path | str, runtime: str = "clang", level: int = 2, **more: Any) -> Compilation:
    (found,) = compilations(str(file), Settings(runtime=runtime, O=level, device="host", **more))
    return found


@pytest.mark.usefixtures("_judged_once")
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("file", SAMPLES, ids=lambda file: file.stem)
def test_a_sample_passes(file: Path, level: int, runtime: str, child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    if level < 2 or runtime == "cuda":  # what is optimised is run at -O2; how a host optimises the shim says nothing of a GPU
        for owner, name, method in plain():
            monkeypatch.setattr(owner, name, method)
    compilation = compiled(file, runtime, level, config={"DEBUG": 1} if runtime == "cuda" and level < 2 else {})
    subject = subject_of(compilation, [])
    for sizes, _ in bindings(compilation, {}):
        if runtime == "reference" and max(sizes.values()) > SMALL:
            continue
        result = run(subject, sizes, child=child, timeout=120, timed_runs=0)
        assert result.ok, result


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("file", SAMPLES, ids=lambda file: file.stem)
def test_every_level_is_shown_read_and_gives_the_same_source(file: Path, level: int, tmp_path: Path) -> None:
    compilation = compiled(file, level=level)
    source = emit(compilation, "source")
    for name in ("ast", "composite", "schedule", "header"):
        assert emit(compilation, name).strip() or name == "schedule"
    for name in LEVELS:
        shown = emit(compilation, name)
        verify(text.read(shown, name))
        place = tmp_path / f"x.{name}"
        place.write_text(shown)
        again = compiled(place, level=level)
        assert again.rendered.source == source, f"from .{name}"
        assert emit(again, name) == shown


@pytest.mark.parametrize("file", SAMPLES, ids=lambda file: file.stem)
def test_the_graph_before_the_passes_is_a_start_too(file: Path, tmp_path: Path) -> None:
    compilation = compiled(file)
    place = tmp_path / "x.graph"
    place.write_text(text.show(compilation.elaborate()))
    assert compiled(place).rendered.source == compilation.rendered.source


def invoke(*words: str) -> Any:
    done = CliRunner().invoke(cli, ["compile", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


def kept_after_each_pass(file: str, folder: Path) -> tuple[list[tuple[str, Path]], Any]:
    """The files that `--save-temps` leaves, each with the name of its pass; and what the command printed."""
    names = [p.name for p in PIPELINE]
    assert len(names) == len(set(names))
    everything = invoke(file, "--print-after", "all", "--time-passes", "--save-temps", str(folder))
    printed = [line.removeprefix("; after ") for line in everything.stdout.splitlines() if line.startswith("; after ")]
    assert printed == ["elaborate", *names]
    timed = [line.split()[0] for line in everything.stderr.splitlines() if line.endswith(" ms")]
    assert timed == printed
    kept = sorted(folder.iterdir())
    assert [p.name.split(".")[2] for p in kept] == printed
    return list(zip(printed, kept, strict=True)), everything


def test_each_pass_can_be_printed_stopped_after_timed_and_kept(tmp_path: Path) -> None:
    """Of a small composite: each pass is two compilations."""
    file = str(ROOT / "samples" / "rescale.toml")
    after, everything = kept_after_each_pass(file, tmp_path)
    for name, place in after:
        shown = place.read_text()
        assert f"; after {name}\n{shown}" in everything.stdout
        if name != "elaborate":
            assert invoke(file, "--stop-after", name).stdout == shown
            alone = invoke(file, "--print-after", name, "--emit", "header").stdout
            assert alone.startswith(f"; after {name}\n{shown}") and alone.count("; after ") == 1


def test_what_is_kept_after_each_pass_is_a_start(tmp_path: Path) -> None:
    """A program is taken as it is, so that one on the way is not worked on further."""
    file = str(ROOT / "samples" / "softmax.toml")
    after, everything = kept_after_each_pass(file, tmp_path)
    straight = invoke(file, "--emit", "source").stdout
    for name, place in after:
        assert f"; after {name}\n{place.read_text()}" in everything.stdout
        again = invoke(str(place), "--emit", "source").stdout
        assert again == straight or (place.suffix == ".program" and name != PIPELINE[-1].name), place.name


def test_a_level_that_is_behind_is_an_error(tmp_path: Path) -> None:
    invoke("softmax", "-o", str(tmp_path / "softmax.program"))
    done = CliRunner().invoke(cli, ["compile", str(tmp_path / "softmax.program"), "--emit", "graph"])
    assert done.exit_code != 0 and "has no graph" in str(done.exception)


@pytest.mark.parametrize("runtime", ["clang", "cuda"])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_emitted_gemm_can_be_read(runtime: str, level: int) -> None:
    lines = compiled(ROOT / "samples" / "gemm.toml", runtime, level).rendered.source.splitlines()
    assert len(lines) <= (5 * 200 if level == 2 else 200)  # -O2 on a CPU: five variants, seven where there are 32 registers
    assert max(map(len, lines)) <= 200
