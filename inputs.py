"""What the user named, opened: a file, standard input, literal text, or a composite of the library."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from .ir.errors import UsageError
from .ir.record import record

if TYPE_CHECKING:
    from .compiler import Settings
    from .dsl.ast import Composite

LEVELS = ("graph", "kernel", "program")
OPS_FOLDER = Path(__file__).parent / "ops"


@record
class Unit:
    """What an input holds: composites in source form, or one intermediate file."""

    name: str
    text: str
    read: tuple[Composite, ...] | None = None  # the composites, where somebody has read them already
    level: str = ""  # "graph" | "kernel" | "program" for an intermediate file

    @cached_property
    def composites(self) -> tuple[Composite, ...]:
        """SourceError where the text is wrong."""
        from . import dsl

        return dsl.read(self.text, self.name) if self.read is None and not self.level else self.read or ()


def open_input(text_or_path: str, settings: Settings, stdin: Callable[[], str] | None = None) -> Unit:
    """A path, `-` (standard input), literal text (it holds a newline or starts with `(`), or the name of a library composite."""
    from . import dsl

    if text_or_path == "-" and stdin is not None:
        return Unit("<stdin>", stdin())
    if "\n" in text_or_path or text_or_path.lstrip().startswith(("(", ";")):
        return Unit("<text>", text_or_path)
    if not text_or_path.strip():
        raise UsageError("an input without a name: expected a file, - for standard input, or the name of a library composite")
    path = Path(text_or_path)
    if not path.suffix and (path.is_dir() or not path.exists()):
        if path.is_dir():
            raise UsageError(f"{text_or_path}: a folder; name the files in it (only `luminal check` takes folders)")
        folders = (*map(Path, settings.include), OPS_FOLDER)
        found = [p for folder in folders for p in sorted(p for p in folder.glob("**/*.toml") if p.stem == text_or_path)]
        if found:
            path = found[0]
        else:
            raise UsageError(f"{text_or_path}: no such file, and no library composite of this name{_nearest(text_or_path)}")
    suffix = path.suffix[1:]
    if suffix in LEVELS:
        try:
            return Unit(str(path), path.read_text(encoding="utf-8"), level=suffix)
        except OSError as error:
            raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: not UTF-8 text (byte {error.start})") from None
    if suffix not in ("toml", "lisp"):
        raise UsageError(f"{path}: the suffix says what a file holds: .toml, .lisp, .graph, .kernel or .program")
    return Unit(str(path), dsl.text_of(path))


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    names = sorted(p.stem for p in OPS_FOLDER.glob("**/*.toml"))
    close = get_close_matches(name, names, 1)
    return f"; nearest: {close[0]}" if close else ""


def entries(unit: Unit, settings: Settings) -> tuple[Composite | None, ...]:
    """The composites of a unit that are to be compiled (`--entry`); (None,) for an intermediate file."""
    if unit.level:
        return (None,)
    if settings.entry == "all":
        return unit.composites
    if settings.entry is None:
        return (unit.composites[-1],)
    chosen = tuple(c for c in unit.composites if c.name == settings.entry)
    if not chosen:
        raise UsageError(f"{unit.name}: no composite named {settings.entry}; it holds {', '.join(c.name for c in unit.composites)}")
    return chosen


__all__ = ["LEVELS", "OPS_FOLDER", "Unit", "entries", "open_input"]
