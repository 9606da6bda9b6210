"""Modules that were compiled ahead of time (`compile_core.py`), in place of their sources.

They are taken all or none: only by the interpreter for which they were made, and only where every source is still the one that was compiled; else the sources run, and nothing is said.
`LUMINAL_PURE=1` in the environment: the sources.
"""

from __future__ import annotations

import os
import sys
from _imp import source_hash
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from types import ModuleType
from typing import Any

ROOT = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(ROOT, ".compiled")
LIBRARY = "luminal_core__mypyc"  # as mypyc names what it makes of a group of modules
ENTRIES = "luminal_core"  # in the same file: `load(name)` gives one of the modules


class Finder:
    """Finds the modules that the manifest names.  Whether they may be taken is found out when the first is asked for."""

    def __init__(self, folder: str = FOLDER, root: str = ROOT) -> None:
        self.folder, self.root = folder, root
        self.names: frozenset[str] | None = None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith("luminal."):
            return None
        if self.names is None:
            self.names = fresh(self.folder, self.root)
        return ModuleSpec(name, self, origin=library(self.folder)) if name in self.names else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module, made and run: one that is imported by another of them is not asked for here."""
        if LIBRARY not in sys.modules:
            _extension(LIBRARY, self.folder)
        return _extension(ENTRIES, self.folder).load(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def _extension(name: str, folder: str) -> Any:
    """One of the two modules that lie in the library."""
    if name not in sys.modules:
        path = library(folder)
        loader = ExtensionFileLoader(name, path)
        module = loader.create_module(ModuleSpec(name, loader, origin=path))
        loader.exec_module(module)
        sys.modules[name] = module
    return sys.modules[name]


def library(folder: str) -> str:
    return os.path.join(folder, LIBRARY + EXTENSION_SUFFIXES[0])


def interpreter() -> str:
    """Which one the library is for."""
    return f"{sys.implementation.cache_tag} {EXTENSION_SUFFIXES[0]}"


def line(root: str, file: str) -> str:
    """What the manifest says of a source: its place, size, time and hash."""
    status = os.stat(os.path.join(root, file))
    return f"{file} {status.st_size} {status.st_mtime_ns} {_hash(root, file)}"


def _hash(root: str, file: str) -> str:
    with open(os.path.join(root, file), "rb") as source:
        return source_hash(0, source.read()).hex()


def fresh(folder: str, root: str) -> frozenset[str]:
    """The names of the modules that may be taken: all or none.  What has another time, as installed packages have, is read."""
    try:
        with open(os.path.join(folder, "manifest"), encoding="utf-8") as manifest:
            made_for, *lines = manifest.read().splitlines()
        if made_for != interpreter():
            return frozenset()
        names = []
        for entry in lines:
            file, size, time, digest = entry.split()
            status = os.stat(os.path.join(root, file))
            if status.st_size != int(size) or (status.st_mtime_ns != int(time) and _hash(root, file) != digest):
                return frozenset()
            names.append(name(file))
        return frozenset(names)
    except (OSError, ValueError):
        return frozenset()


def name(file: str) -> str:
    """The module that a source is."""
    return "luminal." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def install() -> None:
    sys.meta_path.insert(0, Finder())
