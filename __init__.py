"""luminal: tensor composites in, fast C and CUDA kernels out.

    import luminal
    gemm = luminal.compile("samples/gemm.toml")     # a path, text (TOML or S-expression), or the name of a library composite
    gemm(A, B, C)                                   # NumPy (or DLPack) arrays; C is updated in place and returned

Everything else is imported when it is first used.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if os.path.isdir(os.path.join(os.path.dirname(__file__), ".compiled")) and not os.environ.get("LUMINAL_PURE"):
    from .compiled import install

    install()

from .ir.version import VERSION as __version__

if TYPE_CHECKING:
    from .compiler import Compilation
    from .function import Function, compile
    from .ir.errors import CompilerBug, DeviceError, Diagnostic, LuminalError, SourceError, TimeLimit, ToolError, Unsupported, UsageError

_HOMES = {
    "compile": "function",
    "Function": "function",
    "Compilation": "compiler",
    **dict.fromkeys(
        ("LuminalError", "SourceError", "UsageError", "ToolError", "DeviceError", "TimeLimit", "Unsupported", "CompilerBug", "Diagnostic"),
        "ir.errors",
    ),
}
__all__ = [
    "Compilation", "CompilerBug", "DeviceError", "Diagnostic", "Function", "LuminalError", "SourceError", "TimeLimit", "ToolError",
    "Unsupported", "UsageError", "__version__", "compile",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'luminal' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value
