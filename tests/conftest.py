"""Shared by all tests: `--bless` refreshes goldens, and the compile cache is the test run's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="write what is produced over the golden files")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.getbasetemp() / "cache")


@pytest.fixture(scope="session", autouse=True)
def key_of() -> Iterator[Callable[..., str | None]]:
    """Nothing is taken for compiled already: tests change constants of passes while they run, which no key can tell.  Gives the function that finds the key."""
    from luminal import kept_compilation

    found, kept_compilation.key_of = kept_compilation.key_of, lambda compilation: None
    yield found
    kept_compilation.key_of = found


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
