"""gemm beside NumPy (OpenBLAS) and, where installed, PyTorch: f32, the same threads, preallocated outputs, checked before it is timed."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import numpy

from .. import __version__, compile
from .blocks import compare, table

SIZES = [
    (64, 64, 64),
    (100, 100, 100),
    (128, 128, 128),
    (256, 256, 256),
    (512, 512, 512),
    (1000, 1000, 1000),
    (1024, 1024, 1024),
    (513, 511, 509),
    (2048, 2048, 2048),
]


def main() -> None:
    kernel = compile("(composite gemm ((A{f32}[M K] B{f32}[K N]) -> (C{f32}[M N])) (return (matmul A B)))")
    rng = numpy.random.default_rng(0)
    rows: list[tuple[str, dict[str, float], float, str]] = []
    for m, n, k in SIZES:
        a, b = rng.standard_normal((m, k), dtype=numpy.float32), rng.standard_normal((k, n), dtype=numpy.float32)
        ours, theirs = numpy.zeros((m, n), numpy.float32), numpy.zeros((m, n), numpy.float32)
        kernel(a, b, C=ours)
        exact = a.astype(numpy.float64) @ b.astype(numpy.float64)
        bound = k * 2.0**-23 * (abs(a).astype(numpy.float64) @ abs(b).astype(numpy.float64))
        assert (abs(ours - exact) <= bound).all(), f"wrong result at {m}x{n}x{k}"
        call = kernel.bound(a, b, C=ours)
        seconds = compare({"luminal": call, "numpy": lambda a=a, b=b, out=theirs: numpy.matmul(a, b, out=out)})
        rows.append((f"{m}x{n}x{k}", seconds, 2.0 * m * n * k, "GFLOP/s"))
    print(
        f"luminal {__version__}, Python {platform.python_version()}, NumPy {numpy.__version__}, {processor()}, target {kernel.compilation.target.describe}"
    )
    print("command: " + " ".join(["python", "-m", "luminal.bench.gemm", *sys.argv[1:]]))
    print(table("gemm f32, C = A B", rows))


def processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
