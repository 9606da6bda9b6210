"""`python -m luminal.bench.polybench`: PolyBench's kernels as naive composites, beside the same loops in C by gcc and clang at -O3 and -Ofast (-march=native).

    python -m luminal.bench.polybench                    all thirty, a quarter of an hour or more
    python -m luminal.bench.polybench lu cholesky        some of them
    python -m luminal.bench.polybench --small --blocks 1 all of them at a quarter of their sizes, a minute

One thread each, ours too (`OMP=0`), both for the machine (`MARCH=native`).  Each is checked first: at the small sizes of its own test against the float64 reference, ours and every C, and at the sizes that are timed every C against
ours.  The best C is the peer; a ratio above 1 says that ours is faster.  Arrays that are updated in place begin anew before every call, which is not timed.  The C knows its sizes when
it is compiled, and that no two of its arrays overlap; ours learns its sizes when it is called.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from ...cli.parse import parse_bindings
from ...cli.testing import bindings
from ...compiler import Compilation, Settings, compilations
from ...ir.interpret.judge import judge
from ...ir.record import replace
from ...runtimes.registry import load
from ...search.bench.blocks import Call, Contender, Method, asked_for, compare, minima
from ...search.bench.ceiling import ceilings
from ...search.bench.measure import OURS, Row, agrees, disturbed
from ...search.bench.report import line, table_head
from ...search.draw import draw
from ...search.reference import reference
from ...search.trial import Result
from ..__main__ import heading
from .peers import Kernel, Sizes, arrays_of, builds, call_of, counted, kernels, source

SEED = 7
SMALLER = 4  # --small: what sizes are divided by
WIDTH = 52
REORDERED = 2.0  # bounds by which a C may be off: they are those of sums in the order that the graph has, and -Ofast takes another (A + u v in another order than ours: 1.23)
Calls = dict[str, tuple[Call, dict[str, Any]]]  # by implementation: its call, and its arrays


@dataclass(frozen=True)
class Case:
    """One kernel, compiled, and the sizes that it is checked and timed at."""

    kernel: Kernel
    compilation: Compilation
    small: Sizes
    timed: Sizes

    def inputs(self, sizes: Sizes) -> dict[str, Any]:
        graph = self.compilation.elaborate()
        return {p.name: sizes[p.name] if p.name in sizes else draw(p, sizes, SEED) for p in graph.ports if p.role != "out"}


def case_of(kernel: Kernel, divisor: int = 1, config: Mapping[str, Any] | None = None) -> Case:
    (compilation,) = compilations(str(kernel.path), Settings(target="native", config={"OMP": False} if config is None else dict(config)))
    sizes, scalars = bindings(compilation, {})[0]
    names = {s.name for s in compilation.elaborate().sizes}
    timed = {n: v // divisor if n in names else v for n, v in parse_bindings(kernel.sizes, "sizes").items()}
    return Case(kernel, compilation, sizes | scalars, timed)


def text_of(cases: list[Case]) -> str:
    return source([(f"{c.kernel.name}_{what}", c.kernel, c.compilation, s) for c in cases for what, s in (("small", c.small), ("timed", c.timed))])


def calls_of(case: Case, what: str, inputs: Mapping[str, Any], libraries: Mapping[str, ctypes.CDLL]) -> Calls:
    """Ours and every C, over arrays of their own."""
    c, sizes = case.compilation, getattr(case, what)
    numbers = {s.name: sizes[s.name] for s in c.program.sizes}
    ours = arrays_of(c, sizes, inputs)
    found: Calls = {OURS: (load(c.runtime, c.library_path(), c.program, c.target, c.settings.prefix).bind(ours, numbers), ours)}
    for name, library in libraries.items():
        arrays = arrays_of(c, sizes, inputs)
        found[name] = call_of(library, f"{case.kernel.name}_{what}", c, arrays), arrays
    return found


def beyond_bounds(case: Case, libraries: Mapping[str, ctypes.CDLL]) -> dict[str, str]:
    """What is wrong at the small sizes, by implementation: outputs that are further from the float64 reference than its bounds (a C: than twice as far)."""
    inputs = case.inputs(case.small)
    expected = reference(case.compilation.elaborate(), inputs, case.small)
    wrong: dict[str, str] = {}
    for name, (call, arrays) in calls_of(case, "small", inputs, libraries).items():
        if code := call():
            wrong[name] = f"returned {code}"
            continue
        verdicts = {p: judge(arrays[p], expected[p], case.compilation.elaborate().port(p).dtype) for p in expected}
        if bad := [
            f"{p} is off by {v.max_bound_ratio:.3g} bounds" for p, v in verdicts.items() if v.max_bound_ratio > (1 if name == OURS else REORDERED)
        ]:
            wrong[name] = ", ".join(bad)
    return wrong


def row_of(case: Case, libraries: Mapping[str, ctypes.CDLL], method: Method) -> Row:
    """Checked, and timed where ours is right."""
    name, program = case.kernel.name, case.compilation.program
    outputs = [p for p in program.ports if p.role in ("out", "inout")]
    row = Row(name, dict(case.timed), outputs[0].dtype.name, Result(name, "clang", dict(case.small), "pass"), dict(case.small))
    wrong = beyond_bounds(case, libraries)
    if OURS in wrong:
        return replace(row, checked=Result(name, "clang", dict(case.small), "mismatch", wrong[OURS]))
    inputs = case.inputs(case.timed)
    calls = calls_of(case, "timed", inputs, {n: lib for n, lib in libraries.items() if n not in wrong})
    for call, _ in calls.values():
        call()
    ours = calls[OURS][1]
    for peer, (_, arrays) in calls.items():
        if other := [p.name for p in outputs if not agrees(p, numpy.asarray(arrays[p.name]), numpy.asarray(ours[p.name]))]:
            wrong[peer] = f"gives another {', '.join(other)}"
    contenders = {peer: contender(case, call, arrays, inputs) for peer, (call, arrays) in calls.items() if peer not in wrong}
    c = case.compilation
    pace = ceilings(c.runtime, c.target, 1, None).pace
    found = compare(contenders, method, pace)
    notes = (*(f"{peer}: {why}, not timed" for peer, why in wrong.items()), *disturbed(found, pace))
    return replace(row, minima=minima(found), notes=notes, flops=counted(case.kernel.flops, case.timed))


def contender(case: Case, call: Call, arrays: Mapping[str, Any], inputs: Mapping[str, Any]) -> Contender:
    """What is updated in place begins anew before every call: factors of factors are another problem."""
    changed = [p.name for p in case.compilation.program.ports if p.role == "inout"]

    def reset() -> None:
        for name in changed:
            arrays[name][...] = inputs[name]

    return Contender(call, reset=reset if changed else None, each=bool(changed))


def mean(rows: list[Row]) -> str:
    ratios = [row.ratio for row in rows if row.ratio]
    if not ratios:
        return "nothing was timed"
    counts = [sum(row.ratio > 1 for row in rows if row.ratio and not row.tie), sum(row.tie for row in rows)]
    said = f"geometric mean of the ratios to the best C: {statistics.geometric_mean(ratios):.2f}"
    return f"{said} ({len(ratios)} kernels: {counts[0]} faster, {counts[1]} ties, {len(ratios) - sum(counts)} slower)"


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m luminal.bench.polybench", description="PolyBench's kernels beside the same loops in C, one thread each"
    )
    listed = {k.name: k for k in kernels()}
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which (default: all): {', '.join(listed)}")
    parser.add_argument("--small", action="store_true", help=f"sizes divided by {SMALLER}")
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--runs", type=int, default=10, help="timed calls of a block, at least, of what takes less than 0.8 s together")
    parser.add_argument("--patience", type=float, default=10.0, metavar="SECONDS", help="for how long a row whose blocks are uneven has more of them")
    given = parser.parse_args(words)
    if unknown := [n for n in given.names if n not in listed]:
        parser.error(f"no such kernel: {', '.join(unknown)}; there are {', '.join(listed)}")
    cases = [case_of(listed[n], SMALLER if given.small else 1) for n in given.names or listed]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="luminal-polybench-") as folder:
        libraries = builds(text_of(cases), Path(folder))
        print(f"{heading('luminal.bench.polybench')}\none thread each; C: {', '.join(libraries)}, -march=native\n\n{table_head(WIDTH)}", flush=True)
        for case in cases:
            rows.append(row_of(case, libraries, asked_for(given.blocks, given.runs, given.patience)))
            print(line(rows[-1], case.kernel.name, WIDTH), flush=True)
    print(f"\n{mean(rows)}")
    return 0 if all(row.ok for row in rows) else 3


if __name__ == "__main__":
    sys.exit(main())
