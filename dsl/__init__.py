"""Text → checked composite → graph.  Everything public is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ast import Composite
    from .diagnostics import render_diagnostics
    from .elaboration import Instance, elaborate
    from .files import decoded, text_of
    from .opinion import second_opinion
    from .reader import read, read_file
    from .scope import Scope

_PUBLIC = {
    "Composite": "ast", "Instance": "elaboration", "Scope": "scope", "elaborate": "elaboration", "read": "reader", "read_file": "reader",
    "decoded": "files", "render_diagnostics": "diagnostics", "second_opinion": "opinion", "text_of": "files",
}  # fmt: skip
__all__ = ["Composite", "Instance", "Scope", "decoded", "elaborate", "read", "read_file", "render_diagnostics", "second_opinion", "text_of"]


def __getattr__(name: str) -> Any:
    """PEP 562: a name is imported when it is first asked for."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_PUBLIC[name]}", __name__), name)
