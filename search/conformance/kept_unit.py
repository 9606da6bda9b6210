"""What compiling a unit came to, kept in the compile cache: a run whose compiler has not changed goes through no pass and no C compiler.

An entry names the libraries and holds, in the text of the levels, what their cases are judged by.  Its key is everything that decides it, luminal's own files included
(`search/own.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.merge import Names
from ...ir.record import record
from ...runtimes import keep
from .. import own
from ..cache import found
from .kernels import Kernel, Refused, Spec
from .subjects import Subject

if TYPE_CHECKING:
    from ...ir.target import Target
    from ...runtimes import Runtime
    from .unit import Settings

PREFIX = "lm_"
ROOM = "units"
_LASTING = ("not supported", "dtype")  # what no second try can change


@record
class Part:
    """A library: kernels, by which names it knows theirs, its program as text."""

    kernels: list[Kernel]
    names: Names
    program: str
    path: Path


@record
class Unit:
    parts: list[Part]
    refused: list[Refused]


def key(specs: Sequence[Spec], runtime: Runtime, target: Target, settings: Settings) -> str | None:
    """None where it cannot be told."""
    kind, _ = runtime.run_kind(settings.device)
    files = own.compiler(), own.library(), own.of_runtime(runtime)
    if None in files:
        return None
    return json.dumps([*files, target.describe, kind, runtime.identity(target), repr(sorted(settings.config.items())), repr(list(specs))])


def remember(key: str | None, unit: Unit) -> None:
    """Keep the unit; not one in which something failed, which may be the machine's fault."""
    if key is not None and all(r.status in _LASTING for r in unit.refused) and own.unchanged():
        keep.keep(ROOM, key, json.dumps({"parts": [_part(p) for p in unit.parts], "refused": [asdict(r) for r in unit.refused]}).encode())


def _part(part: Part) -> dict[str, Any]:
    from ...ir import text

    return {
        "library": [part.path.parent.name, part.path.suffix],
        "program": part.program,
        "names": asdict(Names(part.names.ports, part.names.sizes, part.names.free)),
        "kernels": [[asdict(k.spec), text.show(k.graph), text.show(k.raised), k.opinion and text.show(k.opinion)] for k in part.kernels],
    }


def recall(key: str | None, known: Mapping[tuple[str, str], Subject]) -> Unit | None:
    """The unit as it was kept, None where it was not, or where a library is no longer there."""
    data = None if key is None else keep.kept(ROOM, key)
    if data is None:
        return None
    table = json.loads(data)
    parts = [_recalled(p, known) for p in table["parts"]]
    if any(p is None for p in parts):
        return None
    return Unit([p for p in parts if p is not None], [Refused(**{**r, "spec": Spec(**r["spec"])}) for r in table["refused"]])


def _recalled(table: dict[str, Any], known: Mapping[tuple[str, str], Subject]) -> Part | None:
    path = found(*table["library"])
    if path is None:
        return None
    kernels = [_kernel(Spec(**spec), known, *graphs) for spec, *graphs in table["kernels"]]
    names = table["names"]
    return Part(kernels, Names(tuple(names["ports"]), tuple(names["sizes"]), tuple(names["free"])), table["program"], path)


def _kernel(spec: Spec, known: Mapping[tuple[str, str], Subject], graph: str, raised: str, opinion: str | None) -> Kernel:
    from ...ir import text
    from ...ir.graph import Graph

    before, after, other = text.read(graph), text.read(raised), opinion and text.read(opinion)
    assert isinstance(before, Graph) and isinstance(after, Graph) and (other is None or isinstance(other, Graph))
    return Kernel(spec, known[spec.kind, spec.subject], before, after, None, other)


__all__ = ["PREFIX", "Part", "Unit", "key", "recall", "remember"]
