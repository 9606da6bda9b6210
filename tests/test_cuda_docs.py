"""docs/cuda.md: every block is run, in order, in one folder.  `file=` writes a block, `needs=` names a tool without which it is left out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_unit import HAS_NVCC, ROOT
from test_cuda_composites import nvrtc_version

TEXT = (ROOT / "docs" / "cuda.md").read_text()
BLOCKS = re.findall(r"^```(\w+)((?: \S+=\S+)*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
TOOLS = {
    "nvcc": HAS_NVCC, "c++": shutil.which("c++") is not None, "device-compiler": bool(nvrtc_version() or HAS_NVCC),
}  # fmt: skip


@pytest.mark.skipif(not TOOLS["c++"], reason="needs a C++ compiler: the test runs of the page do")
def test_every_block_of_the_page_runs(tmp_path: Path) -> None:
    assert len(BLOCKS) == TEXT.count("```") // 2
    (tmp_path / "bin").mkdir()
    for name, words in (("luminal", "-m luminal.cli"), ("python", "")):
        command = tmp_path / "bin" / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    for language, options, body in BLOCKS:
        given = dict(word.split("=") for word in options.split())
        if "needs" in given and not TOOLS[given["needs"]]:
            continue
        if "file" in given:
            (tmp_path / given["file"]).write_text(body)
            continue
        command = {"sh": ["bash", "-euo", "pipefail", "-c", body], "python": [sys.executable, "-c", body]}[language]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{body}\n{done.stdout}\n{done.stderr}"
