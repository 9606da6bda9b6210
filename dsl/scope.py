"""Which composites a call may reach: those of the same file, of the folders given with -I, and the standard library `ops/`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import field
from pathlib import Path

from ..ir.record import changing
from .ast import Composite
from .files import text_of
from .names import fold
from .reader import read

LIBRARY = Path(__file__).resolve().parent.parent / "ops"
SUFFIXES = (".toml", ".lisp")


@changing
class Scope:
    """`local`: the composites of the file that is compiled; `folders`: searched in order (each with its subfolders), before the library.

    Files are read when a name asks for them: a composite is looked for in the file of its own name."""

    local: tuple[Composite, ...] = ()
    folders: tuple[Path, ...] = ()
    _read: dict[Path, tuple[Composite, ...]] = field(default_factory=dict)
    _files: dict[Path, dict[str, str]] = field(default_factory=dict)
    texts: dict[Path, str] = field(default_factory=dict)  # of the files that were read so far

    def find(self, name: str, beside: Composite) -> Composite | None:
        """The composite with this name (exact, then folded): of the file of `beside`, of the compiled file, of the folders, of the library.
        SourceError where its file is wrong."""
        found = self.find_local(name, beside) or _pick(self.local, name)
        for folder in () if found else (*self.folders, LIBRARY):
            file = self._index(folder).get(fold(name))
            found = _pick(self._composites(folder / file), name) if file else None
            if found is not None:
                break
        return found

    def library(self, name: str) -> Composite:
        """The composite of the standard library that a form of the language is made of."""
        found = _pick(self._composites(LIBRARY / self._index(LIBRARY)[fold(name)]), name)
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
            found.extend(map(_stem, self._index(folder).values()))
        return list(dict.fromkeys(found))

    def _composites(self, path: Path) -> tuple[Composite, ...]:
        if path not in self._read:
            self.texts[path] = text_of(path)
            self._read[path] = read(self.texts[path], str(path))
        return self._read[path]

    def _index(self, folder: Path) -> dict[str, str]:
        """Folded stem → file in the folder; the first in alphabetical order wins."""
        if folder not in self._files:
            index: dict[str, str] = {}
            for file in files_in(folder):
                index.setdefault(fold(_stem(file)), file)
            self._files[folder] = index
        return self._files[folder]


def files_in(folder: Path) -> list[str]:
    """The files of composites in a folder and in those right below it, as they are named from there, in alphabetical order; none where it cannot be read."""
    here = _entries(folder)
    found = [(e.name,) for e in here if e.name.endswith(SUFFIXES)]
    below = [(e.name, f.name) for e in here if e.is_dir() for f in _entries(folder / e.name) if f.name.endswith(SUFFIXES)]
    return ["/".join(parts) for parts in sorted([*found, *below])]


def _stem(file: str) -> str:
    return file.rpartition("/")[2].rpartition(".")[0]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except OSError:
        return []


def _pick(composites: Iterable[Composite], name: str) -> Composite | None:
    """Names of one file are told apart when it is read, so a folded match is unique."""
    found = list(composites)
    return next((c for c in found if c.name == name), None) or next((c for c in found if fold(c.name) == fold(name)), None)
