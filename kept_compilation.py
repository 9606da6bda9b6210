"""What a compilation came to, kept beside the compile cache: the same text with the same options goes through no pass again.

The key is everything that a compilation may know: the text and its name, the settings, the resolved target, what stands in the folders of -I, luminal's own files and those of the
runtime. Composites that are called are known only once it is done: the entry names their files and what was in them, and counts while that is still so. -O3 reads records and
measures, so it is never kept; nor is a compilation that somebody watches. The C compiler is no part of this: what it makes of a source has a key of its own (`search/cache.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .ir.errors import Diagnostic, Span
from .ir.record import record
from .runtimes import keep
from .search import own

if TYPE_CHECKING:
    from .compiler import Compilation

ROOM = "compilations"
_ASIDE = ("at", "budget", "timeout", "device")  # settings that no level depends on


@record
class Kept:
    name: str
    optional: list[str]  # ports that may be absent
    leading: list[str]  # ports that begin with `~`
    kernels: int
    levels: dict[str, str]  # graph and program, where somebody asked for them
    source: str
    header: str
    suffix: str
    notes: list[tuple[str, str]]  # kernel, and a reason for what was decided
    warnings: list[Diagnostic]
    files: dict[str, str]  # those of the composites that are called, and the sha256 of each


def key_of(compilation: Compilation) -> str | None:
    """What decides a compilation; None where that cannot be told."""
    unit, settings = compilation.unit, compilation.settings
    compiler, runtime = own.compiler(), own.of_runtime(compilation.runtime)
    if unit.level or settings.O > 2 or compiler is None or runtime is None:
        return None
    chosen = {k: v for k, v in asdict(settings).items() if k not in _ASIDE}
    if settings.entry == "all" and compilation.composite is not None:
        chosen["entry"] = compilation.composite.name
    target = {k: sorted(v) if isinstance(v, frozenset) else v for k, v in asdict(compilation.target).items()}
    try:
        return json.dumps([compiler, runtime, unit.name, unit.text, chosen, target, [_found(Path(f)) for f in settings.include]])
    except TypeError:  # a parameter that is no plain value
        return None


def _found(folder: Path) -> list[str]:
    """What a call may find in a folder of -I: one more file may come before those that were read."""
    from .dsl.scope import files_in

    return sorted(str(folder / file) for file in files_in(folder))


def called(compilation: Compilation) -> dict[str, str]:
    """The files of the composites that were called, and the sha256 of each as it was read."""
    texts = compilation.scope.texts if compilation.scope is not None else {}
    return {str(path): sha256(text.encode()).hexdigest() for path, text in texts.items()}


def recall(key: str) -> Kept | None:
    """What was kept under a key, if the composites that it called are still the same."""
    data = keep.kept(ROOM, key)
    if data is None:
        return None
    try:
        found: dict[str, Any] = json.loads(data)
        if any(sha256(Path(file).read_bytes()).hexdigest() != digest for file, digest in found["files"].items()):
            return None
        found["notes"] = [tuple(note) for note in found["notes"]]
        found["warnings"] = [_diagnostic(**d) for d in found["warnings"]]
        return Kept(**found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _diagnostic(**said: Any) -> Diagnostic:
    return Diagnostic(**{**said, "span": Span(**said["span"]), "notes": tuple(said["notes"])})


def remember(key: str, compilation: Compilation, levels: Iterable[str]) -> None:
    """Keep what the compilation came to, with the text of these levels, unless what decides it has changed meanwhile."""
    if not own.unchanged() or key_of(compilation) != key:
        return
    c, rendered = compilation, compilation.rendered
    texts: dict[str, str] = {}
    for level in levels:
        from .ir import text

        texts[level] = text.show(c.level(level))
    files = called(c) if c.kept is None else c.kept.files
    done = Kept(
        c.name, list(c.optional), sorted(c.leading), c.kernels, texts, rendered.source, rendered.header, rendered.suffix,
        list(c.notes), list(c.warnings), files,
    )  # fmt: skip
    keep.keep(ROOM, key, json.dumps(asdict(done)).encode())


__all__ = ["Kept", "called", "key_of", "recall", "remember"]
