"""Finding a runtime: a folder of this package, an entry point of the group `luminal.runtimes`, or any folder by its path.

A folder given by path becomes a subpackage of this one, so that `from ..clang.driver import Driver` in its `driver.py` works.  It may also have no
driver of its own: `inherits = "clang"` in its `runtime.toml` takes the driver, the templates and the tables that it does not bring.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import traceback
from functools import cache
from importlib import import_module
from inspect import get_annotations
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..ir.errors import LuminalError, UsageError
from . import Description, Library, Runtime
from .description import describe, merge, read_description

if TYPE_CHECKING:
    from ..ir.program import Program
    from ..ir.target import Target

_HERE = Path(__file__).resolve().parent
_PACKAGE = __name__.rpartition(".")[0]
GROUP = "luminal.runtimes"


def names() -> list[str]:
    """Every runtime that `find` knows by name, sorted: ours and the installed ones."""
    ours = {p.parent.name for p in _HERE.glob("*/runtime.toml")}
    return sorted(ours | set(_installed()))


def find(name_or_path: str | os.PathLike[str]) -> Runtime:
    """The runtime with this name, or in this folder.  UsageError naming the nearest where there is none."""
    text = os.fspath(name_or_path)
    if text.isidentifier() and (_HERE / text / "runtime.toml").is_file():
        return _at(_HERE / text)
    if os.sep in text or text.startswith(".") or Path(text).is_dir():
        folder = Path(text).expanduser().resolve()
        if not folder.is_dir():
            raise UsageError(f"no folder `{text}` to take a runtime from")
        return _at(folder)
    installed = _installed()
    if text in installed:
        try:
            module = import_module(installed[text])
        except Exception as error:  # of code that is not ours
            raise UsageError(f"the installed runtime `{text}` ({installed[text]}): {type(error).__name__}: {error}") from error
        return _at(Path(next(iter(module.__path__))), installed[text])
    from difflib import get_close_matches

    near = get_close_matches(text, names(), 1)
    hint = f"did you mean `{near[0]}`?" if near else "known: " + ", ".join(names())
    raise UsageError(f"unknown runtime `{text}`; {hint}")


def describe_folder(folder: Path) -> tuple[Description, tuple[Path, ...]]:
    """The description with what it inherits merged in, and the folders to look for templates in, nearest first."""
    tables, folders = [read_description(folder).table], [folder]
    while "inherits" in tables[-1]:
        parent = _parent(tables[-1]["inherits"], folders[-1])
        if parent in folders:
            raise UsageError(f"{folder / 'runtime.toml'}: `inherits` goes round in a circle through `{tables[-1]['inherits']}`")
        tables.append(read_description(parent).table)
        folders.append(parent)
    whole: dict[str, Any] = {}
    for table in reversed(tables):
        whole = merge(whole, table)
    return describe(whole, folder), tuple(folders)


def _parent(name: str, child: Path) -> Path:
    if name.isidentifier() and (_HERE / name / "runtime.toml").is_file():
        return _HERE / name
    folder = (child / name).resolve()
    if not folder.is_dir():
        raise UsageError(f"{child / 'runtime.toml'}: inherits from `{name}`, which is neither a runtime of luminal nor a folder beside it")
    return folder


@cache
def _at(folder: Path, package: str | None = None) -> Runtime:
    description, folders = describe_folder(folder)
    for place in folders:
        if (place / "driver.py").is_file():
            if place != folder:
                _same_suffix(folder, description, place)
            return driver(place / "driver.py", package if package and place == folder else _package(place), description, folders)
    raise UsageError(f"{folder} is no runtime: it has neither a driver.py nor `inherits` in its runtime.toml")


def _same_suffix(folder: Path, description: Description, place: Path) -> None:
    """UsageError where the driver that a folder inherits builds files of another suffix than the folder's."""
    own, built = description.table.get("suffix", ""), describe_folder(place)[0].table.get("suffix", "")
    if own != built:
        raise UsageError(
            f'{folder / "runtime.toml"}: `suffix = "{own}"`, but the driver that it inherits, {place / "driver.py"}, builds `{built}`; leave the line out, or bring a driver.py'
        )


def driver(file: Path, package: str, description: Description, folders: tuple[Path, ...]) -> Runtime:
    """The `Driver` of a driver.py.  UsageError where it cannot be imported or made, or lacks something of the protocol."""
    try:
        found = import_module(".driver", package).Driver(description, folders)
    except LuminalError:
        raise
    except Exception as error:  # of code that is not ours
        raise UsageError(f"{file}: {type(error).__name__}: {error}{_line_in(error, file)}") from error
    complete(found, Runtime, f"{file}: the class Driver")
    return found


def load(runtime: Runtime, path: Path, program: Program, target: Target, prefix: str) -> Library:
    """The runtime's library.  UsageError where what a driver gives is none."""
    found = runtime.load(path, program, target, prefix)
    complete(found, Library, f"{runtime.folder / 'driver.py'}: what `load` gives")
    return found


def _line_in(error: BaseException, file: Path) -> str:
    """Where in the file an exception was raised."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f" (line {lines[-1]})" if lines else ""


def written_by_author(error: BaseException) -> str:
    """`FILE, line N` where an exception is the fault of a runtime that is not ours: the innermost frame that is its or ours is its.  Else nothing."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.parent.name == ".prepared":  # as what Jinja compiles where it is used, a template is no file
            continue
        if file.is_relative_to(_HERE.parent):
            return ""
        if any((folder / "runtime.toml").is_file() for folder in file.parents[:2]):
            return f"{file}, line {frame.lineno}"
    return ""


def complete(found: object, protocol: type, what: str) -> None:
    """UsageError that names what of a protocol an object lacks."""
    wanted = [*get_annotations(protocol), *(name for name, value in vars(protocol).items() if callable(value) and name[0] != "_")]
    lacks = [name for name in wanted if not hasattr(found, name)]
    if lacks:
        raise UsageError(f"{what} lacks {', '.join(f'`{name}`' for name in lacks)}; the protocol stands in luminal/runtimes/__init__.py")


def _package(folder: Path) -> str:
    """The name of the subpackage that stands for a folder; a foreign one is made on the spot, named by its path."""
    if folder.parent == _HERE:
        return f"{_PACKAGE}.{folder.name}"
    stem = re.sub(r"\W", "_", folder.name)
    name = f"{_PACKAGE}.{stem}_{hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]}"
    if name not in sys.modules:
        module = ModuleType(name, f"the runtime in the folder {stem}")
        module.__path__ = [str(folder)]
        sys.modules[name] = module
    return name


@cache
def _installed() -> dict[str, str]:
    """Entry points: runtime name -> the package that holds its runtime.toml.  Asked only after our own folders: it is slow."""
    from importlib.metadata import entry_points

    return {e.name: e.value.partition(":")[0] for e in entry_points(group=GROUP)}
