"""Machines: the named ones by a table, `native` by asking the operating system.

`native` becomes the highest named level that this processor has, with its own instruction sets, caches and cores spelled out.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ...ir.record import record, replace

# What a level of the x86-64 psABI demands, by the names of /proc/cpuinfo.
_X86_LEVELS = (
    ("x86-64-v4", "avx512f avx512bw avx512cd avx512dq avx512vl"),
    ("x86-64-v3", "avx avx2 bmi1 bmi2 f16c fma abm movbe"),
    ("x86-64-v2", "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3"),
)
# What is worth writing into a file: sets that change what a compiler emits for our kernels.
_NOTABLE = [
    "sse4_2",
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512bw",
    "avx512dq",
    "avx512vl",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "avx_vnni",
    "avx_vnni_int8",
    "amx_tile",
    "amx_bf16",
    "amx_int8",
    "asimd",
    "asimdhp",
    "asimddp",
    "fphp",
    "bf16",
    "i8mm",
    "sve",
    "sve2",
]
# Lines of /proc/cpuinfo that stay the same while a machine runs.
_WHICH = re.compile(
    r"^(?:vendor_id|cpu family|model|model name|stepping|flags|CPU (?:implementer|architecture|variant|part|revision)|Features)[ \t]*:.*$",
    re.MULTILINE,
)


@record
class Machine:
    """One machine, as much of it as kernels care about.  Cache sizes in bytes, for one core but l3."""

    name: str
    architecture: str  # x86_64 | aarch64
    vector_bytes: int
    vector_registers: int
    isa: tuple[str, ...] = ()
    l1: int = 32 << 10
    l2: int = 512 << 10
    l3: int = 8 << 20
    cores: int = 4

    def has(self, needs: Mapping[str, int], vector_bytes: int) -> bool:
        """Whether one of the features or levels, each with the bytes of the widest vectors that it serves, is there."""
        return any(feature in (self.name, *self.isa) and vector_bytes <= widest for feature, widest in needs.items())

    @property
    def multiply_adds(self) -> int:
        """Of whole vectors in a cycle: two of up to 32 bytes, and of 64 where half floats come with them, as in Intel's server cores from Sapphire Rapids on.  Zen 4 does one of 64, in two halves; of others that is not known by
        what instructions they have, and they count as it."""
        return 2 if self.vector_bytes < 64 or "avx512_fp16" in self.isa else 1

    @property
    def describe(self) -> str:
        isa = f" ({' '.join(self.isa)})" if self.isa else ""
        registers = f"{self.vector_registers} vector registers of {self.vector_bytes} bytes"
        return f"{self.name}{isa}, {registers}, L1 {_size(self.l1)}, L2 {_size(self.l2)}, L3 {_size(self.l3)}, {self.cores} cores"


MACHINES: dict[str, Machine] = {
    m.name: m
    for m in (
        Machine("x86-64", "x86_64", 16, 16),
        Machine("x86-64-v2", "x86_64", 16, 16),
        # what goes past a cache that would have held it takes 2 to 3 times as long, what fills a smaller one 1.5: as much as v4 has, which most machines of this level have too
        Machine("x86-64-v3", "x86_64", 32, 16, l3=16 << 20),
        Machine("x86-64-v4", "x86_64", 64, 32, l1=32 << 10, l2=1 << 20, l3=16 << 20),
        Machine("armv8-a", "aarch64", 16, 32),
        Machine("armv8.2-a", "aarch64", 16, 32, l1=64 << 10),
    )
}


def host_architecture() -> str:
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


def baseline() -> Machine:
    """What files that are kept are made for on this architecture."""
    return MACHINES["armv8-a" if host_architecture() == "aarch64" else "x86-64-v3"]


@cache
def native() -> Machine:
    """This machine.  What cannot be found out keeps the level's own figures."""
    flags = _flags()
    if host_architecture() == "aarch64":
        level = MACHINES["armv8.2-a" if {"asimdhp", "asimddp"} <= flags or sys.platform == "darwin" else "armv8-a"]
    else:
        level = next((MACHINES[name] for name, needed in _X86_LEVELS if set(needed.split()) <= flags), MACHINES["x86-64"])
    caches = _mac_caches() if sys.platform == "darwin" else _sysfs_caches(Path("/sys/devices/system/cpu/cpu0/cache"))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    isa = tuple(f for f in _NOTABLE if f in flags)
    return replace(level, isa=isa, cores=cores, **{level_name: size for level_name, size in caches.items() if size > 0})


@cache
def fingerprint(described: Path = Path("/proc/cpuinfo")) -> str:
    """Everything that says which processor this is: what a compiler makes of `native` depends on more than kernels care about."""
    try:
        text = described.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return " ".join([_sysctl("machdep.cpu.brand_string"), *sorted(_flags())])
    return "\n".join(sorted(set(_WHICH.findall(text))))


def _flags() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return _mac_flags() if sys.platform == "darwin" else set()
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return set(found[1].split()) if found else set()


def _sysfs_caches(folder: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for index in sorted(folder.glob("index*")):
        try:
            level, kind, size = ((index / part).read_text().strip() for part in ("level", "type", "size"))
        except OSError:
            continue
        if kind != "Instruction":
            found[f"l{level}"] = _bytes(size)
    return {k: v for k, v in found.items() if k in ("l1", "l2", "l3")}


def _bytes(text: str) -> int:
    number = re.fullmatch(r"(\d+)([KMG]?)", text)
    return int(number[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[number[2]] if number else 0


def _sysctl(name: str) -> str:
    import subprocess

    try:
        return subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _mac_flags() -> set[str]:
    text = (_sysctl("machdep.cpu.features") + " " + _sysctl("machdep.cpu.leaf7_features")).lower()
    renamed = {"avx1.0": "avx", "sse4.1": "sse4_1", "sse4.2": "sse4_2", "lzcnt": "abm"}
    return {renamed.get(f, f) for f in text.split()} | ({"lahf_lm"} if text.strip() else set())


def _mac_caches() -> dict[str, int]:
    names = {
        "l1": ("hw.perflevel0.l1dcachesize", "hw.l1dcachesize"),
        "l2": ("hw.perflevel0.l2cachesize", "hw.l2cachesize"),
        "l3": ("hw.l3cachesize",),
    }
    return {level: next((int(t) for t in map(_sysctl, keys) if t.isdecimal()), 0) for level, keys in names.items()}


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count % (1 << 20) == 0 else f"{count >> 10} KiB"
