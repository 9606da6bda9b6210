"""A program as CUDA C++: the source that is complete in itself, and its C header."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from ...ir.dtypes import u8
from ...ir.errors import Unsupported
from ...ir.expr import TRUE, Expr, both, call, const
from ...ir.moves import VECTOR_BYTES, is_moved
from ...ir.program import ERRORS, Array, Barrier, Block, Fail, For, Function, If, Matrix, Program, Region, Scratch, StoreTo, named, statements
from ...ir.target import Target
from ...ir.walks import postorder
from .. import Description, Rendered
from ..companions import shape, workspace
from ..describe import described_parameters, heading
from ..names import Names, c_name
from ..render import Renderer
from ..signature import parameters

_TAKEN = frozenset({"LM_HOST", "LM_LAUNCH", "LM_LAUNCH_SHARED", "LM_SHARED", "lm_shared", "lm_grid", "stream", "bytes"})
_COMPANIONS = ("", "_ws", "_workspace", "_shape", "_status", "_wrong")  # what else begins with an entry's name
_DECLARED = 48 << 10  # bytes that a source may declare for the threads of a block to share
_APART = 128  # bytes, on a multiple of which each array begins where the launch asks for their memory
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


class Shared(NamedTuple):
    """The memory that the threads of a block share, where it is more than a source may declare: how many bytes the launch asks for, and where in these each array begins."""

    bytes: int
    places: dict[str, int]


def shared_memory(f: Function) -> Shared:
    """Of a kernel; 0 bytes where its arrays are declared one by one."""
    places: dict[str, int] = {}
    end = 0
    for s in statements(f.body):
        if isinstance(s, Array) and s.space == "shared":
            apart = max(s.align, _APART)
            places[s.name] = -(-end // apart) * apart
            end = places[s.name] + s.count * s.dtype.bytes
    return Shared(end, places) if end > _DECLARED else Shared(0, {})


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
            "asks": any(shared_memory(f).bytes for f in program.functions),
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
        self._shared: set[str] = set()  # arrays that the threads of a block of the open kernel share
        self._waited_for: set[int] = set()  # products of several warps that a barrier waits for
        self._asked = Shared(0, {})
        self._groups = False  # some of what is there several warps multiply together
        self._copies = False  # some of what is stored there arrives by itself
        super().__init__(description, folders, program, _TAKEN | _symbols(prefix, program) | set(self.symbols.values()))

    def function_name(self, name: str) -> str:
        return self.symbols[name]

    def resident(self, function: Function) -> int:
        """Where tensor cores multiply, and where copies arrive by themselves, others work while one block waits; but not where a thread would have to put registers aside for that."""
        body = statements(function.body)
        if not self._copies and not any(isinstance(s, Matrix) for s in body):
            return 0
        held = sum(s.count * max(1, s.dtype.bytes // 4) for s in body if isinstance(s, Array) and s.space == "register")
        return _AT_ONCE // _product([e.attr for e in function.threads]) if held <= _FEW_HELD else 0

    def asked(self, function: Function) -> int:
        return shared_memory(function).bytes

    def function(self, function: Function) -> list[str]:
        body = statements(function.body)
        self._stays = any(isinstance(s, Barrier) for s in body)
        self._shared = {s.name for s in body if isinstance(s, Array) and s.space == "shared"}
        self._copies = any(isinstance(s, StoreTo) and self._is_copy(s) for s in body)
        self._waited_for = _waited_for(function.body)
        self._groups = any(isinstance(s, Matrix) and s.group for s in body)
        self._asked = shared_memory(function)
        return super().function(function)

    def _array(self, s: Array, frame: Any) -> tuple[Any, ...]:
        fields, blocks, declare = super()._array(s, frame)
        return fields | {"place": self._asked.places.get(s.name)}, blocks, declare

    def _is_copy(self, s: StoreTo) -> bool:
        return s.stream is not None and s.buffer in self._shared and s.count is None and copied(s.value) is not None

    def _storeto(self, s: StoreTo, frame: Any) -> tuple[Any, ...]:
        if not self._is_copy(s):
            return super()._storeto(s, frame)
        found = copied(s.value)
        assert found is not None
        source, there = found
        e = self.expressions
        held = e.buffer(s.buffer)
        to, source = f"&{held.text}[{e.place(held, s.address).text}]", f"&{e.buffer(source.attr).text}[{e.text(source.args[0])}]"
        return {"call": f"{e.helpers.need('copy_later', s.value.dtype)}({to}, {source}, {e.text(there)})"}, {}, None

    def _barrier(self, s: Barrier, frame: Any) -> tuple[Any, ...]:
        need = self.expressions.helpers.need
        published, finished = (need(name, u8) if self._groups else "" for name in ("published", "finished"))
        return {"arrived": need("arrived", u8) if self._copies else "", "later": s.later, "published": published, "finished": finished}, {}, None

    def _matrix(self, s: Matrix, frame: Any) -> tuple[Any, ...]:
        fields, blocks, declare = super()._matrix(s, frame)
        waits = s.group and id(s) not in self._waited_for
        return fields | {"finished": self.expressions.helpers.need("finished", u8) if waits else ""}, blocks, declare

    def _if(self, s: If, frame: Any) -> tuple[Any, ...]:
        fields, blocks, declare = super()._if(s, frame)
        return fields if self._place == "entry" else fields | {"leave": None}, blocks, declare

    def _call(self, s: Any, frame: Any) -> tuple[Any, ...]:
        fields, blocks, declare = super()._call(s, frame)
        asked = shared_memory(self._functions[s.function]).bytes
        return fields | {"grid": _extents(fields["grid"], "lm_grid"), "threads": _extents(fields["threads"], "dim3"), "asked": asked}, blocks, declare

    def _fail(self, s: Fail, frame: Any) -> tuple[Any, ...]:
        fields, blocks, declare = super()._fail(s, frame)
        return fields | {"stays": self._stays}, blocks, declare


def _waited_for(block: Block) -> set[int]:
    """The products of several warps behind which, in the same block, only copies begin before a barrier."""
    found: set[int] = set()
    for k, s in enumerate(block):
        if isinstance(s, Matrix):
            for t in block[k + 1 :]:
                if isinstance(t, Barrier):
                    found.add(id(s))
                if any(
                    isinstance(u, (Barrier, Matrix)) or s.buffer in named(u) or any(s.buffer in e.buffers for e in u.expressions())
                    for u in statements((t,))
                ):
                    break
        for inner in s.blocks():
            found |= _waited_for(inner)
    return found


def copied(value: Expr) -> tuple[Expr, Expr] | None:
    """What a copy of memory reads, and under which condition it is there and no zero; of a vector, how many of its first lanes are.  None where a value is something else, or its elements are too small to be copied one by one."""
    if value.op == "where" and value.args[0].dtype.lanes == 1 and is_zero(value.args[2]):
        found = copied(value.args[1])
        if found is None:
            return None
        condition, there = value.args[0], found[1]
        return found[0], call("where", condition, there, const(0)) if value.dtype.lanes > 1 else both(condition, there) or TRUE
    if value.op == "vload" and value.dtype.bytes == VECTOR_BYTES:
        return value, value.args[1] if len(value.args) > 1 else const(value.dtype.lanes)
    return (value, TRUE) if value.op == "load" and value.dtype.lanes == 1 and value.dtype.bytes in (4, 8) and value.dtype.kind != "complex" else None


def is_zero(e: Expr) -> bool:
    return is_zero(e.args[0]) if e.op == "broadcast" else e.is_const and e.attr == 0


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
        if any(n.dtype.lanes > 1 and not is_moved(n) for e in s.expressions() for n in postorder(e)):
            raise Unsupported("vector", f"{f.name}: vectors; the runtime {target.runtime} only moves some, of 16-bit elements")


def _product(numbers: list[int]) -> int:
    result = 1
    for n in numbers:
        result *= n
    return result
