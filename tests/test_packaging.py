"""The wheel holds the packages that the tree holds, their data, and nothing else; and what it installs works away from the tree."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NOT_SHIPPED = {"tests", "docs", "build", "dist"}

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("pip") is None or int(importlib.metadata.version("setuptools").split(".")[0]) < 77,
    reason="building a wheel needs pip and setuptools >= 77",
)


def shipped() -> list[Path]:
    """The files of the tree that belong into the package, relative to its root."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [f for f in folders if not f.startswith((".", "__")) and not f.endswith(".egg-info")]
        place = Path(folder).relative_to(ROOT)
        if place == Path("."):
            folders[:] = [f for f in folders if f not in NOT_SHIPPED]
            files = [f for f in files if f.endswith(".py") and f != "setup.py"]
        if place == Path("bench"):
            folders.remove("results")
        found += [place / f for f in files if not f.endswith((".pyc", ".so", ".md")) and not f.startswith(".")]
    return sorted(found)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is left in the tree; without isolation, so that no index is asked."""
    place = tmp_path_factory.mktemp("wheel")
    tree = place / "tree"
    for file in [*shipped(), Path("pyproject.toml"), Path("setup.py"), Path("README.md"), Path("LICENSE")]:
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tree / file)
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(place), str(tree))
    (built,) = place.glob("*.whl")
    return built


def pip(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *words], text=True, capture_output=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_list_of_packages_is_the_tree() -> None:
    folders = {file.parent for file in shipped() if file.suffix == ".py"}
    expected = sorted(".".join(("luminal", *folder.parts)) for folder in folders)
    assert sorted(PROJECT["tool"]["setuptools"]["packages"]) == expected


def test_the_wheel_holds_what_the_tree_holds(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    held = sorted(n.removeprefix("luminal/") for n in names if n.startswith("luminal/"))
    prepared = [n for n in held if n.startswith("runtimes/.prepared/")]
    assert [n for n in held if n not in prepared] == [str(file) for file in shipped()]
    assert prepared and all(n.endswith(".py") for n in prepared)
    assert {n.split("/")[0] for n in names} == {"luminal", f"luminal_cc-{PROJECT['project']['version']}.dist-info"}
    assert any(n.endswith("licenses/LICENSE") for n in names)


def test_the_installed_wheel_works_away_from_the_tree(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "venv"
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    pip("--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    # the libraries that it needs, as they are here; a path in a .pth file brings no editable install with it
    site = next((place / "lib").glob("python*/site-packages"))
    (site / "here.pth").write_text(sysconfig.get_paths()["purelib"] + "\n" + sysconfig.get_paths()["platlib"] + "\n")
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=240)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where, version = run(str(python), "-c", "import luminal; print(luminal.__file__, luminal.__version__)").split()
    assert Path(where).is_relative_to(site) and version == PROJECT["project"]["version"]
    luminal = str(place / "bin" / "luminal")
    assert run(luminal, "--version") == f"luminal {version}\n"
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    for runtime in ("clang", "cuda"):
        assert "lm_softmax" in run(luminal, "compile", "softmax", "--runtime", runtime, "--emit", "source")
    assert "pass" in run(luminal, "compile", "matmul", "--runtime", "reference", "--test", "batch=1, M=3, K=4, N=5")
    assert not (tmp_path / "cache" / "luminal" / "templates").exists()  # all that these took was prepared
