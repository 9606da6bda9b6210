"""Every variant of a kernel at sizes for which the dispatch takes another: what is the best, and what the choice costs.

    python -m luminal.bench.variants                                 the workloads of `workloads.toml` at their sizes
    python -m luminal.bench.variants --only softmax                  those whose name or family holds a word
    python -m luminal.bench.variants softmax --sizes "batch=4, N=1000" --sizes "batch=1000, N=40"
    OMP_NUM_THREADS=1 python -m luminal.bench.variants matmul --target x86-64-v3 …

Each variant is compiled without its condition, compared with the reference and timed in alternating blocks beside the one that the sizes pick.  A row has the time of
that one, and how much of it the best other one takes; below 0.9, beyond the noise, the row is marked.  Variants that need their condition are not there.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..cli.tune import checked, settings_of
from ..compiler import compilations
from ..ir.errors import LuminalError
from ..search.tuning.climb import Candidate, Measured, compared
from ..search.tuning.session import CannotMeasure
from ..tuning import at_sizes, search_for, sizes_of
from .__main__ import TABLE, Workload, workloads

MARKED = 1.1  # times as fast as what the sizes pick


def rows(workload: Workload, options: dict[str, Any], seconds: float) -> Iterator[tuple[str, list[tuple[Candidate, Measured]]]]:
    options = {
        **options,
        "defines": tuple(workload.define),
        "dtypes": tuple(workload.dtype),
        "without": tuple(workload.without),
        "fast": workload.fast,
    }
    for sizes in workload.sizes or [""]:
        (compilation,) = compilations(workload.code.strip() or workload.input, settings_of(options, sizes))
        if sizes:
            checked(compilation, sizes)
        graph = compilation.elaborate()
        at = sizes_of(compilation, graph)
        if at is None:
            raise CannotMeasure("no sizes: name them with --sizes")
        yield f"{workload.name}{at_sizes(at[0])}", search_for(compilation, graph, *at).variants(seconds)


def line(found: list[tuple[Candidate, Measured]]) -> tuple[str, float]:
    """What is printed of a row, and the part of the chosen one's time that the best takes (1 where that is the chosen one)."""
    chosen = found[0][1]
    if not chosen.minima:
        return f"{chosen.status}: {chosen.detail}", 1.0
    others = [(*compared(m, chosen), c) for c, m in found[1:] if m.minima]
    wrong = [f"; {c.what}: {m.status} {m.detail}" for c, m in found[1:] if not m.minima and m.status != "refused"]
    text = f"{min(chosen.minima) * 1e6:11.1f} µs {len(others):3} others"
    if not others:
        return text + "".join(wrong), 1.0
    faster, noise, candidate = max(others, key=lambda o: o[0])
    mark = "!!" if faster > max(MARKED, 1 + noise) else "  "
    text += f" {mark} best {1 / faster:5.2f} ±{noise:.2f}"
    if faster > 1:
        text += f"  {candidate.what}"
    return text + "".join(wrong), min(1.0, 1 / faster)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m luminal.bench.variants", description="every variant of a kernel at sizes for which the dispatch takes another"
    )
    parser.add_argument("input", nargs="?", help="a composite, or the name of one of the library; default: the workloads")
    parser.add_argument("--sizes", action="append", default=[], metavar='"M=100, N=100"')
    parser.add_argument("--dtype", action="append", default=[], metavar="T=bf16")
    parser.add_argument("-D", dest="define", action="append", default=[], metavar="M=64")
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="workloads whose name or family holds this word")
    parser.add_argument("--table", default=str(TABLE), metavar="FILE", help="another table of workloads")
    parser.add_argument("--target")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seconds", type=float, default=2.0, help="for the comparison of a row")
    given = parser.parse_args()
    options: dict[str, Any] = {
        "runtime": "clang", "target": given.target, "config": tuple(given.config), "strict": False, "unchecked": False, "include": (), "entry": None, "budget": 0.0,
    }  # fmt: skip
    if given.input:
        chosen = [Workload(given.input, "", given.sizes, input=given.input, dtype=given.dtype, define=given.define)]
    else:
        chosen = [w for w in workloads(Path(given.table)) if not given.only or any(word in f"{w.name} {w.family}" for word in given.only)]
    parts: list[float] = []
    for workload in chosen:
        try:
            for what, found in rows(workload, options, given.seconds):
                text, part = line(found)
                parts.append(part)
                print(f"{what:<64}{text}", flush=True)
        except LuminalError as error:
            print(f"{workload.name}: {error}", flush=True)
    if parts:
        print(f"\nthe best variant takes {statistics.geometric_mean(parts):.3f} of the chosen one's time in the geometric mean of {len(parts)} rows")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
