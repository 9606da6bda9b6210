"""docs/cli.md: every block is run, in order, in one folder, and gives its status; every command and option is spoken of."""

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

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "cli.md").read_text()
BLOCKS = re.findall(r"^```(\w+)((?: \S+=\S+)*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@needs_cc
@pytest.mark.skipif(not shutil.which("bash"), reason="no bash on PATH")
def test_every_block_of_the_page_runs(tmp_path: Path) -> None:
    assert len(BLOCKS) == TEXT.count("\n```") // 2 and {language for language, _, _ in BLOCKS} == {"sh", "json"}
    folder, tools = tmp_path / "folder", tmp_path / "bin"
    folder.mkdir()
    tools.mkdir()
    shutil.copytree(ROOT / "samples", folder / "samples")
    (tools / "luminal").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m luminal.cli "$@"\n')
    (tools / "luminal").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for language, options, body in BLOCKS:
        if language == "json":
            assert json.loads(body)["ok"]
            continue
        status = int(dict(word.split("=") for word in options.split()).get("status", 0))
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", body], cwd=folder, env=environment, capture_output=True, text=True, timeout=240)
        assert done.returncode == status and "Traceback" not in done.stderr, f"{body}\n{done.stdout}\n{done.stderr}"


def test_every_command_and_every_option_is_spoken_of() -> None:
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None and f"luminal {name}" in TEXT
        for option in command.params:
            if isinstance(option, click.Option):
                assert any(re.search(rf"(?<![\w-]){re.escape(o)}(?![a-z-])", TEXT) for o in option.opts), f"{name} {option.opts}"
