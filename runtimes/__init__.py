"""Runtimes: one folder each (clang/, cuda/, reference/, or any folder of the user's).

A folder holds `runtime.toml` (what the target can do and how it spells operators), Jinja templates (layout of text only) and `driver.py`, which
defines a class `Driver` with the methods of `Runtime` below.  `find` loads one by name, by entry point (`luminal.runtimes`) or by path.
"""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..ir.record import record

if TYPE_CHECKING:
    from os import PathLike

    from ..ir.program import Program
    from ..ir.target import Target


@record
class Rendered:
    """What a program becomes as text."""

    source: str  # complete in itself
    header: str  # C99 and C++17
    suffix: str  # of the source: .c, .cu, …


@record
class ConfigKey:
    """One key of `--config`."""

    name: str
    type: str  # bool | int | string
    default: Any
    help: str
    choices: tuple[str, ...] = ()


class Library(Protocol):
    """A built program, loaded into this process."""

    picks: list[tuple[str, Any]]  # port -> how the C argument is taken from the caller's value, in the order of the arguments
    extra: tuple[Any, ...]  # arguments behind the sizes
    function: Any  # the C function itself

    def bind(self, buffers: dict[str, Any], sizes: dict[str, int]) -> Any:
        """The call with its arguments fixed: a function of nothing that gives the error code."""
        ...

    def call(self, buffers: dict[str, Any], sizes: dict[str, int]) -> int:
        """Run once on NumPy arrays (ports, by name; scalars as Python numbers); outputs are written in place.  Returns the error code."""
        ...

    def time(self, buffers: dict[str, Any], sizes: dict[str, int], runs: int) -> list[float]:
        """Seconds of each of `runs` calls, after warm-up."""
        ...


class Runtime(Protocol):
    name: str
    folder: Path
    source_suffix: str  # of what `render` gives
    library_kind: tuple[str, str]  # what is built by default (kind, suffix)

    def run_kind(self, device: str | None) -> tuple[str, str]:
        """The kind of build that runs here on `--device` (None: the best that is there), and its suffix.  DeviceError, UsageError."""
        ...

    def config_keys(self) -> tuple[ConfigKey, ...]: ...

    def target(self, name: str | None, config: dict[str, Any], portable: bool) -> Target:
        """The resolved target: `name` is `--target` (None: `native`, or the portable baseline where `portable`).  UsageError for what is unknown or contradicts."""
        ...

    def render(self, program: Program, target: Target, prefix: str) -> Rendered:
        """The same program, target and prefix give the same text, and nothing but the runtime's folder decides what it is: it is kept."""
        ...

    def build(self, rendered: Rendered, target: Target, kind: str, path: Path, timeout: float | None, log: list[str]) -> None:
        """Write `path` (kind: object | static | shared | ptx | cubin); `log` receives the commands.  ToolError when a tool is missing or fails."""
        ...

    def load(self, path: Path, program: Program, target: Target, prefix: str) -> Library: ...

    def environment(self, target: Target) -> dict[str, str]:
        """What the environment of a process must hold for `load` to work in it: a sanitizer's library.  ToolMissing where it is not there."""
        ...

    def tools(self, target: Target, device: str | None) -> str:
        """What builds here and where it runs, on one line without paths: for people who read a report.  ToolError where nothing can build."""
        ...

    def identity(self, target: Target) -> str:
        """What the build depends on besides source and target: compiler path, version, flags.  Part of the cache key."""
        ...


@record
class Description:
    """`runtime.toml`, read and checked."""

    name: str
    folder: Path
    spell: dict[str, str] = field(default_factory=dict)  # operator -> format string with {0} {1} …
    dtypes: dict[str, str] = field(default_factory=dict)  # dtype -> how the target language spells it
    config: tuple[ConfigKey, ...] = ()
    table: dict[str, Any] = field(default_factory=dict)  # everything else


def find(name_or_path: str | PathLike[str]) -> Runtime:
    """The runtime with this name, or in this folder.  UsageError naming the nearest where there is none."""
    from .registry import find as found

    return found(name_or_path)
