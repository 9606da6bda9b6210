"""`--config KEY=VALUE` brought to the types that a runtime's `runtime.toml` declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ir.errors import UsageError
from . import ConfigKey

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def resolve_config(keys: tuple[ConfigKey, ...], given: Mapping[str, Any], runtime: str) -> dict[str, Any]:
    """Every declared key, given or default, typed.  Keys are taken in any case.  UsageError for what is unknown or does not fit."""
    known = {k.name: k for k in keys}
    result = {k.name: k.default for k in keys}
    for name, value in given.items():
        key = known.get(name) or known.get(name.upper())
        if key is None:
            from difflib import get_close_matches

            near = get_close_matches(name.upper(), list(known), 1)
            hint = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(sorted(known))}"
            raise UsageError(f"the runtime {runtime} has no configuration key `{name}`; {hint}")
        result[key.name] = _typed(key, value)
    return result


def _typed(key: ConfigKey, value: Any) -> Any:
    if key.type == "bool":
        text = str(value).lower()
        if text not in _TRUE + _FALSE:
            raise UsageError(f"--config {key.name}: expected 0 or 1, found `{value}`")
        return text in _TRUE
    if key.type == "int":
        try:
            value = int(value)
        except (TypeError, ValueError):
            raise UsageError(f"--config {key.name}: expected an integer, found `{value}`") from None
    else:
        value = str(value)
    if key.choices and str(value) not in key.choices:
        raise UsageError(f"--config {key.name}: expected one of {', '.join(c or '(nothing)' for c in key.choices)}, found `{value}`")
    return value
