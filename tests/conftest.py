"""Shared by all tests: `--bless` refreshes goldens, and the compile cache is the test run's own."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from xdist.scheduler import LoadScopeScheduling

# Collecting garbage walks every interned node again and again (a quarter of the time of passes), and there are no cycles worth it: after every 200 000 objects it still took 3 % of compiling.
gc.set_threshold(1_000_000, 50, 100)
# Threads that wait sleep, and NumPy's own are one (it reads that when it is imported): two processes of tests share the machine.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


# Files whose tests share something that takes long to make: one process runs them all, where several share the tests.
TOGETHER = {
    f"tests/test_{name}.py"
    for name in (
        "across_memory", "ask_after", "cuda_composites", "cuda_operators", "cuda_shim", "dtype_table", "gpu_cascade", "gpu_matrix", "guarded_gathers", "language_forms", "levels",
        "loops_forms", "one_position", "overlaps", "packaging", "polybench", "short_rows", "strips",
    )
}  # fmt: skip


class Together(LoadScopeScheduling):
    """A test to the process that is free first, but for the files of TOGETHER.  (Not by xdist's marks: they are written into the names of tests, which pytest 9.2 no longer lets it do, and no
    word is said of it.)"""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if file in TOGETHER else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return Together(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="write what is produced over the golden files")
    parser.addoption("--random", type=int, default=40, help="programs of each test of random programs")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first, so that no process is left with one when the others are done."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test marked `pure` replaces what compiled modules call among themselves: where they are taken, it runs again without them.  All of these tests share one process, begun by the first;
    where that says that not all is well each has its own, which tells what is wrong."""
    if "luminal_core__mypyc" not in sys.modules or pyfuncitem.get_closest_marker("pure") is None:
        return None
    pure = [item.nodeid for item in pyfuncitem.session.items if item.get_closest_marker("pure")]
    said = Path(os.environ["XDG_CACHE_HOME"]) / "pure"
    said.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{said}.lock"):
        if not said.exists():
            said.write_text(str(_purely(pyfuncitem, pure).returncode))
    if said.read_text() != "0":
        done = _purely(pyfuncitem, [pyfuncitem.nodeid])
        assert done.returncode == 0, done.stdout + done.stderr
    return True


def _purely(item: pytest.Function, tests: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")} | {"LUMINAL_PURE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=item.config.rootpath, env=environment, text=True, capture_output=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """What is left (a gigabyte of nodes) is looked through once, not by everybody who looks for what was forgotten."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    here = tmp_path_factory.getbasetemp()
    run = here.parent if "PYTEST_XDIST_WORKER" in os.environ else here  # processes that share the tests share what they have built, too
    os.environ["XDG_CACHE_HOME"] = str(run / "cache")
    if (
        sys.dont_write_bytecode
    ):  # the processes that tests start share theirs all the same, away from the sources: reading these takes longer than most of what they do
        os.environ["PYTHONPYCACHEPREFIX"] = str(run / "bytecode")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(scope="session", autouse=True)
def _verify_each_pass() -> None:
    from luminal.passes import pipeline

    pipeline.EACH = True


@pytest.fixture(scope="session", autouse=True)
def key_of() -> Iterator[Callable[..., str | None]]:
    """Nothing is taken for compiled already: tests change constants of passes while they run, which no key can tell.  Gives the function that finds the key."""
    from luminal import kept_compilation

    found, kept_compilation.key_of = kept_compilation.key_of, lambda compilation: None
    yield found
    kept_compilation.key_of = found


@pytest.fixture(scope="module")
def plain_c() -> Iterator[None]:
    """Within a file that asks for this, the C compiler does not optimise: -O3 takes it up to twenty times as long as our passes, and it is those that are tested.  What is optimised is run
    by the tests of samples, of the command line and of operators."""
    with _compiled_at("-O0"):
        yield


@pytest.fixture(scope="module")
def simple_c() -> Iterator[None]:
    """Within a file that asks for this, C is compiled at -O1: what reads undefined behaviour as it likes is there, what takes most of the time of -O3 (loops that become vectors) is not."""
    with _compiled_at("-O1"):
        yield


@contextmanager
def _compiled_at(level: str) -> Iterator[None]:
    from plain import plain

    with pytest.MonkeyPatch.context() as patch:
        for owner, name, method in plain(level):
            patch.setattr(owner, name, method)
        yield


@pytest.fixture(scope="module")
def quick_ceilings() -> Iterator[None]:
    """Within a file that asks for this, each ceiling of the machine is run once: which form of it is the best matters to nobody there, and finding it takes seconds of every `bench`."""
    from luminal.search.bench import ceiling
    from luminal.search.bench.blocks import Method

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ceiling, "METHOD", Method(blocks=1, runs=1, seconds=0, pause=0, again=0))
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` compares with tests/golden/NAME, or writes it under --bless."""

    def check(name: str, text: str) -> None:
        path = Path(__file__).parent / "golden" / name
        if request.config.getoption("--bless"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path} is missing: run with --bless and read it"
        assert text == path.read_text(), f"{path} differs: read the difference, then run with --bless"

    return check
