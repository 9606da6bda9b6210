"""What compiling a unit came to, kept in the compile cache: a run whose compiler has not changed goes through no pass and no C compiler.

An entry names the libraries and holds, in the text of the levels, what their cases are judged by.  Its key is everything that decides it, the compiler's own files
included: whoever changes a pass compiles anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.merge import Names
from ..cache import cached, found, key_of
from .kernels import Kernel, Refused, Spec
from .subjects import Subject

if TYPE_CHECKING:
    from ...ir.target import Target
    from ...runtimes import Runtime
    from .unit import Settings

Key = tuple[str, ...]

PREFIX = "lm_"
_SUFFIX = ".json"
_LASTING = ("not supported", "dtype")  # what no second try can change
_ROOMS = ("dsl", "ir", "ops", "passes", "runtimes", "search")
_READ = frozenset({".py", ".toml", ".j2", ".lark", ".h", ".cuh"})


@dataclass(frozen=True, slots=True)
class Part:
    """A library: kernels, by which names it knows theirs, its program as text."""

    kernels: list[Kernel]
    names: Names
    program: str
    path: Path


@dataclass(frozen=True, slots=True)
class Unit:
    parts: list[Part]
    refused: list[Refused]


def key(specs: Sequence[Spec], runtime: Runtime, target: Target, settings: Settings) -> Key:
    kind, _ = runtime.run_kind(settings.device)
    own = [_hash(root, runtime.folder) for root in (_package(), runtime.folder)]
    return ("unit", *own, target.describe, kind, runtime.identity(target), repr(sorted(settings.config.items())), repr(list(specs)))


def _package() -> Path:
    return Path(__file__).resolve().parents[2]


@cache
def _hash(root: Path, runtime: Path) -> str:
    """Over the files that compiling reads: those of the package's rooms, or of a runtime's folder."""
    folders = [root] if root == runtime else [root / room for room in _ROOMS]
    digest = hashlib.sha256()
    for path in sorted(p for folder in folders for p in folder.rglob("*") if p.suffix in _READ and p.is_file()):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


def remember(key: Key, unit: Unit) -> None:
    """Keep the unit; not one in which something failed, which may be the machine's fault."""
    if any(r.status not in _LASTING for r in unit.refused):
        return
    table = {"parts": [_part(p) for p in unit.parts], "refused": [asdict(r) for r in unit.refused]}
    cached(key, _SUFFIX, lambda to: _write(to, json.dumps(table)))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _part(part: Part) -> dict[str, Any]:
    from ...ir import text

    return {
        "library": [part.path.parent.name, part.path.suffix],
        "program": part.program,
        "names": asdict(Names(part.names.ports, part.names.sizes, part.names.free)),
        "kernels": [[asdict(k.spec), text.show(k.graph), text.show(k.raised)] for k in part.kernels],
    }


def recall(key: Key, known: Mapping[tuple[str, str], Subject]) -> Unit | None:
    """The unit as it was kept, None where it was not, or where a library is no longer there."""
    entry = found(key_of(key), _SUFFIX)
    if entry is None:
        return None
    table = json.loads(entry.read_text(encoding="utf-8"))
    parts = [_recalled(p, known) for p in table["parts"]]
    if any(p is None for p in parts):
        return None
    return Unit([p for p in parts if p is not None], [Refused(**{**r, "spec": Spec(**r["spec"])}) for r in table["refused"]])


def _recalled(table: dict[str, Any], known: Mapping[tuple[str, str], Subject]) -> Part | None:
    path = found(*table["library"])
    if path is None:
        return None
    kernels = [_kernel(Spec(**spec), graph, raised, known) for spec, graph, raised in table["kernels"]]
    names = table["names"]
    return Part(kernels, Names(tuple(names["ports"]), tuple(names["sizes"]), tuple(names["free"])), table["program"], path)


def _kernel(spec: Spec, graph: str, raised: str, known: Mapping[tuple[str, str], Subject]) -> Kernel:
    from ...ir import text
    from ...ir.graph import Graph

    before, after = text.read(graph), text.read(raised)
    assert isinstance(before, Graph) and isinstance(after, Graph)
    return Kernel(spec, known[spec.kind, spec.subject], before, after, None)


__all__ = ["PREFIX", "Key", "Part", "Unit", "key", "recall", "remember"]
