"""Peers held to the instructions of another target, so that kernels for it are timed beside libraries as they are on such a machine.

Each library reads a variable of the environment when it is loaded (their manuals: OpenBLAS, oneMKL's `MKL_ENABLE_INSTRUCTIONS`, oneDNN's CPU dispatcher control, PyTorch's `ATEN_CPU_CAPABILITY`,
NumPy's `NPY_DISABLE_CPU_FEATURES`), so the process begins anew with them.
"""

from __future__ import annotations

import os
import sys

PEERS = {
    "x86-64-v3": {"OPENBLAS_CORETYPE": "Haswell", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
    "x86-64-v2": {
        "OPENBLAS_CORETYPE": "Nehalem",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "ATEN_CPU_CAPABILITY": "default",
    },
}
BEYOND = {"x86-64-v3": ("AVX512", "X86_V4"), "x86-64-v2": ("AVX", "FMA", "F16C", "X86_V3", "X86_V4")}  # how the names of NumPy's features begin
MARK = "LUMINAL_BENCH_HELD"


def hold(target: str) -> None:
    """Begin this process anew where the peers are not yet held to `target`, one of `PEERS`."""
    if os.environ.get(MARK) == target:
        return
    os.environ.update(PEERS[target], NPY_DISABLE_CPU_FEATURES=" ".join(_features(BEYOND[target])), **{MARK: target})
    os.execv(sys.executable, sys.orig_argv)


def _features(beyond: tuple[str, ...]) -> list[str]:
    """What NumPy would dispatch to and the target has not; of releases that do not say it, nothing."""
    try:
        from numpy._core import _multiarray_umath as core
    except ImportError:
        return []
    return [name for name in getattr(core, "__cpu_dispatch__", ()) if name.startswith(beyond)]
