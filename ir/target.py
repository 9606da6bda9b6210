"""What a pass may know of the machine and of the runtime: plain data, resolved and spelled out.

A target is made by a runtime (from its `runtime.toml`, `--target` and `--config`) and read by the passes; passes never ask the machine.
"""

from __future__ import annotations

from dataclasses import field

from .dtypes import DType
from .record import record

LINE = 64  # bytes of a line of the cache
PAGE = 4096  # bytes of a page of memory, at least: prefetchers of machines do not look across its end


@record
class Target:
    runtime: str  # clang | cuda | reference | …
    name: str  # as the user may write it back: "x86-64-v3", "native" is never stored here
    describe: str  # one spelled-out line for the head of emitted files: ISA, registers, caches, cores
    native: frozenset[str] = frozenset()  # operators of the table that the runtime spells; the others are decomposed
    dtypes: frozenset[str] = frozenset()  # element types that may appear in ports and buffers
    instructions: frozenset[str] = frozenset()  # of `ir/instructions.py`, those that this machine has and the runtime spells
    arithmetic: frozenset[str] = frozenset()  # element types that may be computed with; others are promoted to f32 (f16, bf16, f8)
    vector_bytes: int = 0  # 0: no vector types
    vector_registers: int = 16
    multiply_adds: int = 1  # of whole vectors that a core begins in a cycle, as far as that is known
    l1: int = 32 << 10  # bytes, data, one core
    l2: int = 512 << 10
    l3: int = 8 << 20
    cores: int = 1
    threads: bool = False  # region / parallel loops may be emitted
    gpu: bool = False  # block and thread axes are wanted
    max_threads: int = 1024  # GPU: threads of a block
    shared_bytes: int = 48 << 10  # GPU: what these may share
    copies_ahead: bool = False  # GPU: what is copied there arrives while they go on
    interpreted: bool = False  # far slower than machine code; no pass asks, the choice of test cases does
    options: dict[str, str | int | bool] = field(default_factory=dict)  # the resolved --config

    def lanes(self, dtype: DType) -> int:
        """Elements of `dtype` in one vector register; 1 where there are no vectors."""
        return max(1, self.vector_bytes * 8 // dtype.bits)


@record
class Options:
    """What the user asked of the passes (not of the machine)."""

    level: int = 2  # -O
    strict: bool = False  # no reassociation of float reductions
    fast: bool = False  # also what is less accurate (ir/quotients.py has what that costs)
    unchecked: bool = False  # no run-time index checks
    prefix: str = "lm_"
    schedules: dict[str, str] = field(default_factory=dict)  # runtime -> schedule script of the composite's TOML
    left_out: tuple[str, ...] = ()  # optional passes of the pipeline that are not run
