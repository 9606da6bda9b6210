"""Which composites a call may reach: those of the same file, of the folders given with -I, and the standard library `ops/`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from pathlib import Path

from ..ir.record import changing
from .ast import Composite
from .files import text_of
from .names import fold
from .reader import read

LIBRARY = Path(__file__).resolve().parent.parent / "ops"
SEARCHED = ("*.toml", "*.lisp", "*/*.toml", "*/*.lisp")  # in a folder


@changing
class Scope:
    """`local`: the composites of the file that is compiled; `folders`: searched in order (each with its subfolders), before the library.

    Files are read when a name asks for them: a composite is looked for in the file of its own name."""

    local: tuple[Composite, ...] = ()
    folders: tuple[Path, ...] = ()
    _read: dict[Path, tuple[Composite, ...]] = field(default_factory=dict)
    _files: dict[Path, dict[str, Path]] = field(default_factory=dict)
    texts: dict[Path, str] = field(default_factory=dict)  # of the files that were read so far

    def find(self, name: str, beside: Composite) -> Composite | None:
        """The composite with this name (exact, then folded): of the file of `beside`, of the compiled file, of the folders, of the library.
        SourceError where its file is wrong."""
        found = self.find_local(name, beside) or _pick(self.local, name)
        for folder in () if found else (*self.folders, LIBRARY):
            path = self._index(folder).get(fold(name))
            found = _pick(self._composites(path), name) if path else None
            if found is not None:
                break
        return found

    def library(self, name: str) -> Composite:
        """The composite of the standard library that a form of the language is made of."""
        found = _pick(self._composites(self._index(LIBRARY)[fold(name)]), name)
        assert found is not None
        return found

    def find_local(self, name: str, beside: Composite) -> Composite | None:
        """The same, of the file of `beside` only."""
        group = next((cs for cs in (self.local, *self._read.values()) if beside in cs), ())
        return _pick(group, name)

    def names(self) -> list[str]:
        """Everything that `find` reaches, for the nearest name in a diagnostic and for lists."""
        found = [c.name for c in self.local]
        for folder in (*self.folders, LIBRARY):
            found.extend(path.stem for path in self._index(folder).values())
        return list(dict.fromkeys(found))

    def _composites(self, path: Path) -> tuple[Composite, ...]:
        if path not in self._read:
            self.texts[path] = text_of(path)
            self._read[path] = read(self.texts[path], str(path))
        return self._read[path]

    def _index(self, folder: Path) -> dict[str, Path]:
        """Folded stem → file; the first in alphabetical order wins."""
        if folder not in self._files:
            index: dict[str, Path] = {}
            for path in sorted(p for pattern in SEARCHED for p in folder.glob(pattern)):
                index.setdefault(fold(path.stem), path)
            self._files[folder] = index
        return self._files[folder]


def _pick(composites: Iterable[Composite], name: str) -> Composite | None:
    """Names of one file are told apart when it is read, so a folded match is unique."""
    found = list(composites)
    return next((c for c in found if c.name == name), None) or next((c for c in found if fold(c.name) == fold(name)), None)
