"""docs/schedules.md is what the steps say, its example runs, and what `--emit schedule` prints replays from a composite's TOML to the same bytes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from compilers import needs_cc
from luminal.cli.main import cli
from luminal.cli.schedule_page import schedule_page

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "schedules.md").read_text(encoding="utf-8")
# one kernel, several, elementwise kernels that join, rows that join, windows, an `if` on the sizes, a cascade, loops that stay loops
COMPOSITES = ["ops/movement/transpose2d", "ops/nn/lstm_cell", "ops/optimizer/adam", "ops/nn/moe_gate", "ops/nn/add_norm", "samples/conv2d", "samples/softmax", "samples/attention",
              "samples/floyd_warshall", "ops/reduce/logsumexp"]  # fmt: skip


def run(*words: str) -> str:
    done = CliRunner().invoke(cli, [*words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.pure
def test_the_page_is_current() -> None:
    assert schedule_page() == PAGE, "make docs"


@needs_cc
def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (toml,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "scaled.toml").write_text(toml)
    monkeypatch.chdir(tmp_path)
    shown, tested = [run(*shlex.split(c)[1:]) for c in commands.strip().split("\n")]
    assert "for j.1 in 0 .. 16 vector:" in shown and "for i in 0 .. M parallel:" in shown
    assert " pass" in tested


@pytest.mark.parametrize("composite", COMPOSITES)
def test_what_was_printed_replays(composite: str, tmp_path: Path) -> None:
    def compiled(path: Path, level: str) -> str:
        text = run("compile", str(path), "--runtime", "clang", "--target", "x86-64-v3", "--emit", level)
        return "\n".join(line for line in text.split("\n") if path.name not in line)

    original, copy = ROOT / f"{composite}.toml", tmp_path / Path(f"{composite}.toml").name
    script = compiled(original, "schedule")
    assert script.strip()
    copy.write_text(original.read_text() + f"\n[schedule.clang]\nsteps = '''\n{script}\n'''\n")
    assert compiled(copy, "source") == compiled(original, "source")
