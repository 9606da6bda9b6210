"""What a kernel's threads meet when another library's threads were busy just before, and that library's when ours were.

    python -m luminal.bench.beside              matrix products of 256 x 256 and 1024 x 1024, NumPy's and (where installed) PyTorch's
    python -m luminal.bench.beside --size 512

Thread pools keep their idle threads spinning for a while, so that the next piece of work finds them awake; on the cores that another pool wants in the
meantime they are in the way.  Each line is the median time of one call in microseconds that comes `gap` milliseconds after one of the other library
(`alone`: after one of its own).  The first column says whose calls are timed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

import numpy

from .. import compile

GAPS = (0.0, 0.2, 1.0, 5.0, 20.0, 100.0)  # milliseconds
Call = Callable[[], object]


def contenders(size: int, seed: int) -> dict[str, Call]:
    """The same product, by each; outputs are allocated before."""
    draw = numpy.random.default_rng(seed)
    a, b = (draw.standard_normal((size, size), numpy.float32) for _ in range(2))
    matmul, c = compile("matmul", config={"MARCH": "native"}), numpy.empty((size, size), numpy.float32)
    out = numpy.empty_like(c)
    found: dict[str, Call] = {"luminal": lambda: matmul(a, b, C=c), "numpy": lambda: numpy.matmul(a, b, out=out)}
    try:
        import torch
    except ImportError:
        return found
    x, y, z = (torch.from_numpy(array) for array in (a, b, out.copy()))
    found["torch"] = lambda: torch.matmul(x, y, out=z)
    return found


def after(before: Call, call: Call, gap_ms: float, runs: int) -> float:
    """Median seconds of `call` at `gap_ms` after the end of `before`; the wait is a loop of this thread, as work between two calls would be."""
    times: list[float] = []
    for _ in range(runs):
        before()
        start = time.perf_counter()
        while time.perf_counter() - start < gap_ms / 1e3:
            pass
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def warm(calls: list[Call], seconds: float = 0.5) -> None:
    """Until a core has come to its speed: the first hundreds of calls of a process can take twice as long."""
    for call in calls:
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            call()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m luminal.bench.beside", description="calls that follow those of another library with threads of its own"
    )
    parser.add_argument("--size", type=int, action="append", help="rows and columns of the matrices; repeatable (256 and 1024)")
    parser.add_argument("--runs", type=int, default=40, help="calls for each figure")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, OMP_WAIT_POLICY={os.environ.get('OMP_WAIT_POLICY', 'unset')}; microseconds a call, seed {options.seed}")
    for size in options.size or (256, 1024):
        by_name = contenders(size, options.seed)
        warm([*by_name.values()])
        print(f"\n{f'{size} x {size}':<12}{'after':<10}{'alone':>9}" + "".join(f"{f'{gap:g} ms':>10}" for gap in GAPS))
        for name, call in by_name.items():
            alone = after(call, call, 0.0, options.runs)
            for other, before in by_name.items():
                if "luminal" in (name, other) and name != other:
                    cells = [after(before, call, gap, options.runs) for gap in GAPS]
                    print(f"{name:<12}{other:<10}{alone * 1e6:>9.1f}" + "".join(f"{t * 1e6:>10.1f}" for t in cells), flush=True)


if __name__ == "__main__":
    main()
