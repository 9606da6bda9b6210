"""The little languages of the command line: `M=100, N=100`, `OMP=1,MARCH="native"`, `T=f16`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from ..ir.errors import UsageError

Bindings = dict[str, int | float]  # sizes, scalars and parameters by their names

_PAIR = re.compile(r"""\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*("[^"]*"|'[^']*'|\[[^]]*\]|\([^)]*\)|[^,\s"']+)\s*(?:,|;|$|(?=\s))""")


def split_pairs(text: str, what: str) -> list[tuple[str, str]]:
    """`KEY=VALUE` pairs split by commas, semicolons or spaces; values may be quoted.  UsageError shows where the text stops making sense."""
    pairs: list[tuple[str, str]] = []
    place = 0
    while place < len(text.rstrip()):
        match = _PAIR.match(text, place)
        if match is None:
            raise UsageError(f"{what}: expected KEY=VALUE, found {text[place:].strip()!r}")
        value = match.group(2)
        pairs.append((match.group(1), value[1:-1] if value[0] in "\"'" else value))
        place = match.end()
    return pairs


def parse_bindings(text: str, option: str = "--test") -> Bindings:
    """`--test`, `--sizes`: sizes and scalar values.  Integers are strict (`3D` is an error); a value with a point or an exponent is a float."""
    found: Bindings = {}
    for key, value in split_pairs(text, option):
        if key in found:
            raise UsageError(f"{option}: {key} is bound twice")
        try:
            found[key] = int(value)
        except ValueError:
            try:
                found[key] = float(value)
            except ValueError:
                raise UsageError(f"{option}: {key}={value}: expected a number") from None
    return found


def parse_config(texts: Iterable[str]) -> dict[str, Any]:
    """`--config`: later ones win; types are checked by the runtime."""
    return {key: value for text in texts for key, value in split_pairs(text, "--config")}


def parse_pairs(texts: Iterable[str], option: str, convert: Callable[[str], Any]) -> dict[str, Any]:
    """`-D M=64` and `--dtype T=f16`, repeatable."""
    found: dict[str, Any] = {}
    for text in texts:
        for key, value in split_pairs(text, option):
            try:
                found[key] = convert(value)
            except ValueError:
                raise UsageError(
                    f"{option} {key}={value}: expected {'an integer' if convert is int else 'a number, a word, or a list of integers such as [2,1]'}"
                ) from None
    return found


def parse_value(text: str) -> int | float | bool | str | list[int]:
    """A size or a parameter of `-D`: an integer, a float, true or false, a list of integers `[2,1]` or `(2 1)`; anything else is a word."""
    if text[:1] in ("[", "("):
        return [int(word) for word in re.split(r"[\s,]+", text[1:-1].strip()) if word]
    if text in ("true", "t", "false", "nil"):
        return text in ("true", "t")
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text
