"""docs/cli.md: every block is run, those of a part in order, in one folder, and gives its status; every command and option is spoken of."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from compilers import needs_cc
from luminal.cli.main import COMMANDS, cli
from processes import own_cache

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "cli.md").read_text()
FIRST = "# The command line"
PARTS = (
    FIRST,
    "### What it is compiled for",
    "### Testing",
    "### Looking inside",
    "## tune",
    "## bench",
    "## new",
    "## doctor",
)  # the headings where parts begin: a test each
ALONE = ("### What it is compiled for", "## tune", "## doctor")  # change what others may be reading: records, the cache itself
BLOCK = re.compile(r"^```(\w+)((?: \S+=\S+)*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text_of(heading: str) -> str:
    """From a heading to that of the next part."""
    begins = [*(TEXT.index(f"\n{h}") if h != FIRST else 0 for h in PARTS), len(TEXT)]
    at = PARTS.index(heading)
    return TEXT[begins[at] : begins[at + 1]]


def test_the_parts_are_the_page() -> None:
    assert "".join(map(text_of, PARTS)) == TEXT


@needs_cc
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(not shutil.which("bash"), reason="no bash on PATH")
@pytest.mark.parametrize("part", PARTS)
def test_every_block_of_the_page_runs(part: str, tmp_path: Path) -> None:
    text = text_of(part)
    blocks = BLOCK.findall(text)
    assert blocks and len(blocks) == text.count("\n```") // 2 and {language for language, _, _ in blocks} <= {"sh", "json"}
    folder, tools = tmp_path / "folder", tmp_path / "bin"
    folder.mkdir()
    tools.mkdir()
    shutil.copytree(ROOT / "samples", folder / "samples")
    (tools / "luminal").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m luminal.cli "$@"\n')
    (tools / "luminal").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    if part in ALONE:
        environment["XDG_CACHE_HOME"] = own_cache(tmp_path / "cache")
    for language, options, body in blocks:
        if language == "json":
            assert json.loads(body)["ok"]
            continue
        status = int(dict(word.split("=") for word in options.split()).get("status", 0))
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", body], cwd=folder, env=environment, capture_output=True, text=True, timeout=240)
        assert done.returncode == status and "Traceback" not in done.stderr, f"{body}\n{done.stdout}\n{done.stderr}"


def test_parts_that_change_a_cache_have_one_of_their_own() -> None:
    change = re.compile(r"^luminal (tune|tuning (clear|import)|cache clear)", re.MULTILINE)
    assert tuple(part for part in PARTS if change.search(text_of(part))) == ALONE


def test_every_command_and_every_option_is_spoken_of() -> None:
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None and f"luminal {name}" in TEXT
        for option in command.params:
            if isinstance(option, click.Option):
                assert any(re.search(rf"(?<![\w-]){re.escape(o)}(?![a-z-])", TEXT) for o in option.opts), f"{name} {option.opts}"
