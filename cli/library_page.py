"""docs/ops.md, made from the library: `python -m luminal.cli.library_page` prints it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .ops import library, port_text

if TYPE_CHECKING:
    from ..dsl.ast import Composite, Parameter


def library_page() -> str:
    families = library()
    count = sum(map(len, families.values()))
    parts = [
        "# The library",
        f"{count} composites in {len(families)} families, each a TOML file of `ops/` in the language itself.  Call one from your own composite by its name, compile it "
        "by its name (`luminal compile softmax --test`), or see its code, its primops and the runtimes that pass it: `luminal ops softmax`.",
        "`make docs` writes this page.",
        "\n".join(f"- [{family}](#{family}): {len(members)}" for family, members in families.items()),
    ]
    for family, members in families.items():
        parts.append(f"## {family}")
        parts += [entry(c) for c in members]
    return "\n\n".join(parts) + "\n"


def entry(c: Composite) -> str:
    ports = f"{' '.join(map(port_text, c.inputs)) or 'nothing'} → {' '.join(port_text(c.port(n)) for n in c.outputs)}"
    given = "".join(f"\n- `{p.name}`: {p.type}{default(p)}" for p in c.parameters)
    words = "\n".join(line.strip() for line in c.documentation.strip().split("\n"))
    return f"### {c.name}\n\n`{c.signature}`  \n`{ports}`\n\n{words}" + (f"\n{given}" if given else "")


def default(p: Parameter) -> str:
    value = "nil" if p.default is None else str(p.default).lower() if isinstance(p.default, bool) else p.default
    return ", required" if p.required else f", {value} unless given"


if __name__ == "__main__":
    sys.stdout.write(library_page())

__all__ = ["library_page"]
