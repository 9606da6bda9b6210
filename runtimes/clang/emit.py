"""A program as C: the source that is complete in itself, and its header."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ...ir.dtypes import u8
from ...ir.program import ERRORS, For, Program, Region
from ...ir.target import Target
from .. import Description, Rendered
from ..companions import shape, workspace
from ..describe import described_parameters, heading
from ..render import Renderer
from ..signature import parameters
from ..teams import every_statement, fails_in_team

# What a source uses of each header that not every source needs: clang takes 7 ms to read <math.h>, 3 to read <stdlib.h>, and half of the library's kernels need neither
_MATH = "fabs fma fmod fmin fmax sqrt floor ceil trunc round rint exp exp2 expm1 log log2 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc pow copysign"
_HEADERS = {
    "math.h": re.compile(rf"\b(?:INFINITY|NAN|(?:{_MATH.replace(' ', '|')})f?\()"),
    "stdlib.h": re.compile(r"\b(?:aligned_alloc|malloc|free)\("),
    "string.h": re.compile(r"\bmem(?:cpy|move|set)\("),
}
_TAKEN = frozenset({"UNROLL", "UNROLL_BY", "INTERLEAVE", "PRAGMA", "code", "bytes"})


def entry_name(prefix: str, program: Program) -> str:
    """The C name of the function that the user calls."""
    return prefix + re.sub(r"[^A-Za-z0-9_]", "_", program.name)


def emit(description: Description, folders: tuple[Path, ...], program: Program, target: Target, prefix: str) -> Rendered:
    """Source and header.  The same program, target and prefix give the same bytes everywhere."""
    source = _Emitter(description, folders, program, target, prefix)
    return Rendered(source.source(), source.header(), description.table.get("suffix", ".c"))


class _Emitter:
    def __init__(self, description: Description, folders: tuple[Path, ...], program: Program, target: Target, prefix: str) -> None:
        self.program, self.target, self.prefix = program, target, prefix
        self.entry = entry_name(prefix, program)
        taken = _TAKEN | {
            self.entry,
            f"{self.entry}_ws",
            f"{self.entry}_workspace",
            f"{self.entry}_shape",
            f"{self.entry}_release",
            f"{prefix}strerror",
        }
        self.renderer = r = Renderer(description, folders, program, taken, target.vector_bytes)
        self.functions = [r.function(f) for f in program.functions]
        self.params = parameters(program)
        self.names = r.open_scope(self.params)
        self.body = r.block(program.entry, "entry")
        params = [r.parameter(p, n) for p, n in zip(self.params, self.names, strict=True)]
        self.common: dict[str, Any] = {
            "prefix": prefix,
            "entry": self.entry,
            "params": params,
            "workspace": workspace(program, r),
            "shape": shape(program, r),
        }
        if self.common["workspace"] is not None:
            self.common["memory"] = {name: r.helpers.need(name, u8) for name in ("allocate", "release")}
        self.common["forget"] = r.helpers.need("forget", u8) if r.helpers.has("kept", u8) else None

    def source(self) -> str:
        r, program = self.renderer, self.program
        statements = [s for block in (*(f.body for f in program.functions), program.entry) for s in every_statement(block)]
        fields = self.common | {
            "head": heading(program, self.target, r.expressions),
            "openmp": any(isinstance(s, Region) or (isinstance(s, For) and s.pragma == "parallel") for s in statements),
            "shared": any(isinstance(s, For) and s.pragma == "parallel" for s in statements),
            "unroll": any(isinstance(s, For) and s.pragma == "unroll" for s in statements) or any("UNROLL(" in text for text in r.helpers.texts),
            "functions": self.functions,
            "errors": sorted(ERRORS.items()),
            "names": self.names,
            "body": self.body,
            "sticky": fails_in_team(program.entry, r.failing),
        }
        # last: every part above notes the types and helpers that it uses
        fields["types"], fields["helpers"] = r.types.sorted(), r.helpers.texts
        text = "\n".join([*r.helpers.texts, *(line for lines in self.functions for line in lines), *self.body])
        fields["headers"] = sorted({"stddef.h", "stdint.h"} | {header for header, used in _HEADERS.items() if used.search(text)})
        return r.environment.get_template("source.c.j2").render(fields)

    def header(self) -> str:
        fields = self.common | {
            "head": heading(self.program, self.target, self.renderer.expressions, brief=True),
            "guard": self.entry.upper() + "_H",
            "description": described_parameters(
                self.program, dict(zip((p.name for p in self.params), self.names, strict=True)), self.renderer.expressions
            ),
        }
        return self.renderer.environment.get_template("header.h.j2").render(fields)
