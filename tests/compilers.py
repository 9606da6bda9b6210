"""Which compilers a test may count on: what the clang runtime finds here, PyPI's zig included."""

from __future__ import annotations

import pytest
from luminal.ir.errors import ToolError
from luminal.runtimes.clang.compiler import every_compiler, find_compiler


def _found() -> bool:
    try:
        return bool(find_compiler("").command)
    except ToolError:
        return False


HAS_CC = _found()
needs_cc = pytest.mark.skipif(not HAS_CC, reason="no C compiler: neither clang nor gcc nor ziglang")
FAMILIES = {c.family: " ".join(c.command) for c in reversed(every_compiler())}  # gcc | clang | zig -> the first of its kind
