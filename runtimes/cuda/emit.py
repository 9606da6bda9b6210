"""A program as CUDA C++: the source that is complete in itself, and its C header."""

from __future__ import annotations

import re
from pathlib import Path

from ...ir.program import ERRORS, Program
from ...ir.target import Target
from .. import Description, Rendered
from ..describe import described_parameters, heading
from ..render import Renderer
from ..signature import parameters

_TAKEN = frozenset({"LM_GLOBAL", "LM_INLINE", "LM_LAUNCH", "lm_status", "stream", "stream_"})


def entry_name(prefix: str, program: Program) -> str:
    """The C name of the function that the user calls."""
    return prefix + re.sub(r"[^A-Za-z0-9_]", "_", program.name)


def emit(description: Description, folders: tuple[Path, ...], program: Program, target: Target, prefix: str) -> Rendered:
    """Source and header.  The same program, target and prefix give the same bytes everywhere."""
    entry = entry_name(prefix, program)
    r = Renderer(description, folders, program, _TAKEN | {entry, f"{entry}_status", f"{prefix}strerror"})
    functions = [r.function(f) for f in program.functions]
    given = parameters(program)
    names = r.open_scope(given)
    body = r.block(program.entry, "entry")
    params = [*(r.parameter(p, n) for p, n in zip(given, names, strict=True)), "void *stream_"]
    fails = any(r.fails(f) for f in program.functions)
    common = {"prefix": prefix, "entry": entry, "params": params, "fails": fails}
    source = r.environment.get_template("source.cu.j2").render(
        common
        | {
            "head": heading(program, target, r.expressions),
            "functions": functions,
            "body": body,
            "errors": sorted(ERRORS.items()),
            "helpers": device(r.helpers.texts),
        }
    )
    header = r.environment.get_template("header.cu.h.j2").render(
        common
        | {
            "head": heading(program, target, r.expressions, brief=True),
            "guard": entry.upper() + "_H",
            "description": described_parameters(program, dict(zip((p.name for p in given), names, strict=True)), r.expressions),
        }
    )
    return Rendered(source, header, ".cu")


def device(helpers: list[str]) -> list[str]:
    """Helper functions in C, callable from kernels and from the entry."""
    return [re.sub(r"^static (inline )?", "LM_INLINE ", text, flags=re.MULTILINE) for text in helpers]
