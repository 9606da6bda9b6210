"""The same input and target give the same bytes: whatever the hash seed, folder, locale, time zone, output's name, and what was compiled before in the process."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

from compilers import needs_cc
from processes import own_cache

ROOT = Path(__file__).parent.parent
RUNS = 8
SAMPLES = ["gemm", "softmax", "attention"]
LEVELS = "graph,schedule,kernel,program,source,header"


def test_every_run_gives_the_same_bytes(tmp_path: Path) -> None:
    draw = random.Random(20)
    seen: dict[str, set[bytes]] = {}
    for k in range(RUNS):
        here = tmp_path / f"{'ä b' if k % 2 else 'x'}{k}"
        here.mkdir()
        order = draw.sample(SAMPLES, 2)  # and what one leaves behind for the next is another pair each time
        for name in order:
            shutil.copy(ROOT / "samples" / f"{name}.toml", here / f"{name}.toml")
        paths = [f"{name}.toml" if k % 3 else str(here / f"{name}.toml") for name in order]
        out = f"out{draw.randrange(1000)}"
        environment = {
            **os.environ,
            "PYTHONHASHSEED": str(draw.randrange(2**32)),
            "LC_ALL": draw.choice(["C", "C.UTF-8", "POSIX", "de_DE.UTF-8", "tr_TR.UTF-8"]),
            "TZ": draw.choice(["UTC", "Asia/Tokyo", "America/St_Johns"]),
            "HOME": str(here),
            "XDG_CACHE_HOME": str(here / "cache"),
            "OMP_NUM_THREADS": str(draw.randrange(1, 9)),
            "COLUMNS": str(draw.randrange(20, 200)),
        }
        runtime = "cuda" if k % 4 == 3 else "clang"
        command = [sys.executable, "-m", "luminal.cli", "compile", *paths, "--emit", LEVELS, "-o", out, "--runtime", runtime]
        done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        files = sorted((here / out).iterdir())
        assert len(files) == len(order) * len(LEVELS.split(","))
        for file in files:
            seen.setdefault(f"{runtime} {file.name}", set()).add(file.read_bytes())
    assert len(seen) == 2 * len(SAMPLES) * len(LEVELS.split(","))
    differing = [name for name, contents in seen.items() if len(contents) > 1]
    assert not differing


def test_the_outputs_name_leaves_no_trace(tmp_path: Path) -> None:
    for name in ("a", "other"):
        command = [sys.executable, "-m", "luminal.cli", "compile", "samples/gemm.toml", "-o", str(tmp_path / f"{name}.c")]
        subprocess.run(command, check=True, cwd=ROOT, capture_output=True, timeout=120)
    assert (tmp_path / "a.c").read_bytes() == (tmp_path / "other.c").read_bytes()


@needs_cc
def test_a_library_holds_no_path_of_this_machine(tmp_path: Path) -> None:
    made = set()
    for name in ("one", "two"):
        environment = {**os.environ, "XDG_CACHE_HOME": own_cache(tmp_path / name)}
        command = [sys.executable, "-m", "luminal.cli", "compile", "samples/gemm.toml", "-o", str(tmp_path / f"{name}.o")]
        subprocess.run(command, check=True, cwd=ROOT, env=environment, capture_output=True, timeout=120)
        made.add((tmp_path / f"{name}.o").read_bytes())
    assert len(made) == 1 and str(tmp_path).encode() not in next(iter(made))
