"""Names of composites and ports: which are allowed, how they fold, and which input an output names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..ir.record import replace
from .ast import PortDecl
from .diagnostics import nearest, shorten
from .sexpr import MAX_NAME
from .source import Place, error

_COMPOSITE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def fold(name: str) -> str:
    """Names that are equal after folding are taken for each other where the exact spelling is not there."""
    return name.lower().replace("-", "_")


def composite_name(name: str, place: Place) -> str:
    """The name itself; E0121 where it is not allowed."""
    if len(name) > MAX_NAME or not _COMPOSITE.fullmatch(name):
        raise error(
            "E0121",
            f"`{shorten(name)}` cannot be the name of a composite",
            place,
            f"expected: a letter, then letters, digits, _ and - (at most {MAX_NAME} characters)",
        )
    return name


def port_names(inputs: Sequence[PortDecl], outputs: Sequence[PortDecl], bare_is_input: bool) -> tuple[tuple[PortDecl, ...], tuple[str, ...]]:
    """All ports in declared order, and the names of the outputs.  An output that is only a name names an input, which then is updated in place;
    with `bare_is_input` a bare name that is no input is an error (TOML), without it the body gives its type and sizes (Lisp)."""
    ports: dict[str, PortDecl] = {}
    for p in inputs:
        if p.name in ports:
            raise error("E0204", f"the port `{p.name}` is there twice", p.place)
        ports[p.name] = p
    names: list[str] = []
    for out in outputs:
        bare = out.place.end - out.place.start == len(out.name)
        exact = [n for n in ports if n == out.name] or [n for n in ports if fold(n) == fold(out.name)]
        if bare and len(exact) == 1 and exact[0] not in names:
            ports[exact[0]] = replace(ports[exact[0]], role="inout")
            names.append(exact[0])
            continue
        if bare and bare_is_input:
            notes = nearest(out.name, [p.name for p in inputs])
            raise error(
                "E0118",
                f"the output `{out.name}` is not an input",
                out.place,
                *notes,
                f"help: write {out.name}{{f32}}[M N], or {out.name}{{}} where the body gives type and sizes",
            )
        if exact:
            raise error(
                "E0204", f"there is another port `{exact[0]}`", out.place, f"help: write only the name, `{exact[0]}`, to update the input in place"
            )
        ports[out.name] = out
        names.append(out.name)
    return tuple(ports.values()), tuple(names)


def unique(name: str, names: Iterable[str], place: Place) -> str | None:
    """The one of `names` that equals `name` after folding (or exactly); None where there is none; E0202 where there are several."""
    wanted = fold(name)
    found = [n for n in names if n == name] or [n for n in names if fold(n) == wanted]
    if len(found) > 1:
        raise error("E0202", f"`{shorten(name)}` may mean {' or '.join(f'`{n}`' for n in found)}", place, "help: use the exact spelling")
    return found[0] if found else None
