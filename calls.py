"""Repeat calls of compiled composites by a small extension of CPython (`calls.c`), where there are Python's headers and a C compiler; else ctypes serves them."""

from __future__ import annotations

import sys
import sysconfig
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from .ir.errors import ToolError

SOURCE = Path(__file__).with_name("calls.c")
NAME = "luminal_calls"


def plans() -> Any | None:
    """An empty set of plans: `add` keeps one, `run(args, named)` performs it; None where there is no such module."""
    import numpy

    module = extension()
    return None if module is None else module.Plans(numpy.ndarray)


@cache
def extension() -> ModuleType | None:
    """The module, built when it is first asked for and kept in the compile cache; None where it cannot be built, or arrays are not laid out as it takes them to be."""
    headers = Path(sysconfig.get_path("include"))
    with_lock = not sysconfig.get_config_var("Py_GIL_DISABLED")
    if sys.implementation.name != "cpython" or not with_lock or sys.maxsize != 2**63 - 1 or not (headers / "Python.h").is_file():
        return None
    from .runtimes.clang.compiler import find_compiler, run
    from .search.cache import cached

    def build(path: Path) -> None:
        run([*compiler.command, "-O2", "-shared", "-fPIC", f"-I{headers}", str(SOURCE), "-o", str(path)], 60.0, [], path.parent)

    try:
        compiler = find_compiler("")
        path = cached((SOURCE.read_text(encoding="utf-8"), compiler.identity, sys.version, str(headers)), ".so", build)
        loader = ExtensionFileLoader(NAME, str(path))
        spec = spec_from_file_location(NAME, path, loader=loader)
        assert spec is not None
        module = module_from_spec(spec)
        loader.exec_module(module)
    except (ToolError, OSError, ImportError):
        return None
    return module if _trusted(module) else None


def _trusted(module: ModuleType) -> bool:
    """Whether the module reads NumPy's arrays as NumPy does."""
    import numpy

    fixed = numpy.zeros(3, numpy.int8)
    fixed.flags.writeable = False
    samples = [numpy.arange(5), numpy.zeros((3, 4))[1:, 2:], numpy.zeros(0, numpy.float32), numpy.zeros((2, 3, 4)).T, fixed, numpy.zeros(())]
    return all(module.look(a) == (a.ctypes.data, (*a.shape, *a.strides), id(a.dtype), int(a.flags.writeable)) for a in samples)
