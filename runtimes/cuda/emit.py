"""A program as CUDA C++: the source that is complete in itself, and its C header."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ...ir.errors import Unsupported
from ...ir.moves import is_moved
from ...ir.program import ERRORS, Array, Barrier, Fail, For, Function, If, Matrix, Program, Region, Scratch, expressions, statements
from ...ir.target import Target
from ...ir.walks import postorder
from .. import Description, Rendered
from ..companions import shape, workspace
from ..describe import described_parameters, heading
from ..names import Names, c_name
from ..render import Renderer
from ..signature import parameters

_TAKEN = frozenset({"LM_HOST", "LM_LAUNCH", "lm_grid", "stream", "bytes"})
_COMPANIONS = ("", "_ws", "_workspace", "_shape", "_status", "_wrong")  # what else begins with an entry's name
_MAX_THREADS = (1024, 1024, 64)  # of a block, along x, y, z
_AT_ONCE = 512  # threads on a processor that have 128 registers each
_FEW_HELD = 80  # words in arrays of a thread beside which these are enough (beside 96 some are put aside)

# NVRTC has no headers: what the kernels use of <stdint.h> and <math.h>, by its name
_NVRTC = {
    "int8_t": "typedef signed char int8_t;",
    "int16_t": "typedef short int16_t;",
    "int32_t": "typedef int int32_t;",
    "int64_t": "typedef long long int64_t;",
    "uint8_t": "typedef unsigned char uint8_t;",
    "uint16_t": "typedef unsigned short uint16_t;",
    "uint32_t": "typedef unsigned int uint32_t;",
    "uint64_t": "typedef unsigned long long uint64_t;",
    "INT8_MIN": "#define INT8_MIN (-128)",
    "INT16_MIN": "#define INT16_MIN (-32768)",
    "INT32_MIN": "#define INT32_MIN (-2147483647 - 1)",
    "INT32_MAX": "#define INT32_MAX 2147483647",
    "INT64_MIN": "#define INT64_MIN (-9223372036854775807LL - 1)",
    "INT64_MAX": "#define INT64_MAX 9223372036854775807LL",
    "UINT64_MAX": "#define UINT64_MAX 18446744073709551615ULL",
    "INT64_C": "#define INT64_C(x) x##LL",
    "UINT32_C": "#define UINT32_C(x) x##U",
    "UINT64_C": "#define UINT64_C(x) x##ULL",
    "INFINITY": "#define INFINITY __int_as_float(0x7f800000)",
    "NAN": "#define NAN __int_as_float(0x7fc00000)",
}


def entry_name(prefix: str, program: Program) -> str:
    """The C name of the function that the user calls."""
    return prefix + re.sub(r"[^A-Za-z0-9_]", "_", program.name)


def kernel_names(prefix: str, program: Program) -> dict[str, str]:
    """The symbol of each function of the program.  They begin with the prefix, so that two composites can be linked together."""
    names = Names(_symbols(prefix, program))
    return {f.name: names.get("function", prefix + c_name(f.name)) for f in program.functions}


def _symbols(prefix: str, program: Program) -> frozenset[str]:
    return frozenset({f"{prefix}strerror", *(entry_name(prefix, program) + c for c in _COMPANIONS)})


def emit(description: Description, folders: tuple[Path, ...], program: Program, target: Target, prefix: str) -> Rendered:
    """Source and header.  The same program, target and prefix give the same bytes everywhere.  Unsupported for what no GPU can run."""
    for f in program.functions:
        _check(f, target)
    entry = entry_name(prefix, program)
    r = CudaRenderer(description, folders, program, prefix)
    functions = [r.function(f) for f in program.functions]
    on_device = len(r.helpers.texts)
    given = parameters(program)
    names = r.open_scope(given)
    body = r.block(program.entry, "entry")
    common: dict[str, Any] = {
        "prefix": prefix,
        "entry": entry,
        "params": [r.parameter(p, n) for p, n in zip(given, names, strict=True)],
        "fails": bool(r.failing),
        "workspace": workspace(program, r),
        "shape": shape(program, r),
    }
    # helpers come in the order of their first use: those of the entry stand behind those of the kernels
    device = [_qualified(text, "static __host__ __device__ __forceinline__") for text in r.helpers.texts[:on_device]]
    text = "\n".join([*device, *(line for lines in functions for line in lines)])
    source = r.environment.get_template("source.cu.j2").render(
        common
        | {
            "head": heading(program, target, r.expressions),
            "nvrtc": [line for word, line in _NVRTC.items() if re.search(rf"\b{word}\b", text)],
            "vectors": [t for t, _, _ in r.types.sorted()],
            "device_helpers": device,
            "functions": functions,
            "host_helpers": [_qualified(text, "static inline") for text in r.helpers.texts[on_device:]],
            "clamped": any("lm_grid(" in line for line in body),
            "body": body,
            "names": names,
            "errors": sorted(ERRORS.items()),
        }
    )
    described = described_parameters(program, dict(zip((p.name for p in given), names, strict=True)), r.expressions)
    header = r.environment.get_template("header.cu.h.j2").render(
        common | {"head": heading(program, target, r.expressions, brief=True), "guard": entry.upper() + "_H", "description": described}
    )
    return Rendered(source, header, ".cu")


class CudaRenderer(Renderer):
    """What CUDA's statements need beside what every C-family language does: symbols, launches, how a thread fails."""

    def __init__(self, description: Description, folders: tuple[Path, ...], program: Program, prefix: str) -> None:
        self.symbols = kernel_names(prefix, program)
        self._stays = False  # a failing thread of the open kernel goes on: there are barriers
        super().__init__(description, folders, program, _TAKEN | _symbols(prefix, program) | set(self.symbols.values()))

    def function_name(self, name: str) -> str:
        return self.symbols[name]

    def resident(self, function: Function) -> int:
        """Where tensor cores multiply, others work while one block waits for memory; but not where a thread would have to put registers aside for that."""
        body = statements(function.body)
        if not any(isinstance(s, Matrix) for s in body):
            return 0
        held = sum(s.count * (s.dtype.bytes // 4 if s.dtype.lanes > 1 else 1) for s in body if isinstance(s, Array) and s.space == "register")
        return _AT_ONCE // _product([e.attr for e in function.threads]) if held <= _FEW_HELD else 0

    def function(self, function: Function) -> list[str]:
        self._stays = any(isinstance(s, Barrier) for s in statements(function.body))
        return super().function(function)

    def _if(self, s: If, frame: Any) -> tuple[Any, ...]:
        fields, blocks, declare = super()._if(s, frame)
        return fields if self._place == "entry" else fields | {"leave": None}, blocks, declare

    def _call(self, s: Any, frame: Any) -> tuple[Any, ...]:
        fields, blocks, declare = super()._call(s, frame)
        return fields | {"grid": _extents(fields["grid"], "lm_grid"), "threads": _extents(fields["threads"], "dim3")}, blocks, declare

    def _fail(self, s: Fail, frame: Any) -> tuple[Any, ...]:
        fields, blocks, declare = super()._fail(s, frame)
        return fields | {"stays": self._stays}, blocks, declare


def _extents(texts: list[str], symbolic: str) -> str:
    """`dim3(16, 16)`; with the function `symbolic` where an extent is known at the launch only.  Trailing ones are CUDA's defaults."""
    while len(texts) > 1 and texts[-1] == "1":
        texts = texts[:-1]
    constant = all(t.isdecimal() and int(t) <= 65535 for t in texts)
    return f"{'dim3' if constant else symbolic}({', '.join(texts)})"


def _qualified(text: str, words: str) -> str:
    """A helper function in C as one of CUDA C++."""
    return re.sub(r"^static (inline )?(?=[^;=]*\()", f"{words} ", text, flags=re.MULTILINE)


def _check(f: Function, target: Target) -> None:
    """That a GPU can run the function: a program may have been lowered for another target, or scheduled by hand."""
    if not f.threads:
        raise Unsupported("grid", f"{f.name} has no grid: the program was lowered for another target; start from the .kernel file or the source")
    extents = [e.attr for e in f.threads if e.is_const]
    if (
        len(extents) != len(f.threads)
        or any(n > most for n, most in zip(extents, _MAX_THREADS, strict=False))
        or _product(extents) > target.max_threads
    ):
        shape = " × ".join(repr(e) for e in f.threads)
        raise Unsupported(
            "threads", f"{f.name}: a block of {shape} threads; {target.name} has at most 1024 × 1024 × 64, and {target.max_threads} together"
        )
    for s in statements(f.body):
        if isinstance(s, Scratch):
            raise Unsupported("scratch", f"{f.name}: `{s.name}` has no constant size, and a kernel cannot allocate memory")
        if isinstance(s, Region) or (isinstance(s, For) and s.pragma in ("parallel", "workshare")):
            raise Unsupported("region", f"{f.name}: threads of a CPU; start from the .kernel file or the source")
        if any(n.dtype.lanes > 1 and not is_moved(n) for e in expressions(s) for n in postorder(e)):
            raise Unsupported("vector", f"{f.name}: vectors; the runtime {target.runtime} only moves some, of 16-bit elements")


def _product(numbers: list[int]) -> int:
    result = 1
    for n in numbers:
        result *= n
    return result
