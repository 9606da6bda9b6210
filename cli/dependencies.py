"""`-MD`: what a product was made of, as a rule for make."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..artifacts.write import write_text


def write_rule(products: list[Path], sources: Iterable[Path]) -> Path:
    """Write FIRST_PRODUCT.d beside the first product: all products depend on the sources, and each source is a target of its own, so that make goes on where
    one has been removed."""
    sources = list(dict.fromkeys(sources))
    place = products[0].with_suffix(".d")
    rule = f"{' '.join(map(escaped, products))}: {' '.join(map(escaped, sources))}"
    write_text(place, "\n".join([rule, *(f"{escaped(s)}:" for s in sources)]) + "\n")
    return place


def escaped(path: Path) -> str:
    """As make reads it."""
    return str(path).replace("$", "$$").replace("#", "\\#").replace(" ", "\\ ")
