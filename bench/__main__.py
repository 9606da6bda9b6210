"""`python -m luminal.bench`: every workload of `workloads.toml` beside its peers, with a geometric mean for each family and every row that misses its bar.

python -m luminal.bench                              all of them; the peers are those that are installed
python -m luminal.bench --only gemm --blocks 3       the workloads whose name or family holds a word
python -m luminal.bench --target x86-64-v3           kernels for AVX2, beside peers that are held to it
python -m luminal.bench --table bench/library.toml   the library instead, beside what NumPy and PyTorch have as one call
python -m luminal.bench --out bench/results          also kept: DATE-bench.txt and, for the chart, DATE-bench.json
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import shlex
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import __version__
from ..cli.bench import families_of, prepare, settings_of, timed
from ..compiler import compilations
from ..ir.errors import LuminalError
from ..search.bench.blocks import Method, asked_for
from ..search.bench.measure import Row
from ..search.bench.report import line, table_head
from .bars import missed, of_family
from .held import PEERS, hold

TABLE = Path(__file__).with_name("workloads.toml")
WIDTH = 64  # of the first column


@dataclass(frozen=True)
class Workload:
    """One table of `workloads.toml`, which says what the fields are."""

    name: str
    family: str
    sizes: list[str]
    input: str = ""
    code: str = ""
    dtype: list[str] = field(default_factory=list)
    define: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    fast: bool = False
    forms: dict[str, list[str]] = field(default_factory=dict)
    bar: float | None = None
    least: float | None = None
    ceiling: float | None = None


def workloads(path: Path) -> list[Workload]:
    import tomllib

    found: list[Workload] = []
    for table in tomllib.loads(path.read_text(encoding="utf-8"))["workload"]:
        names = table.pop("inputs", "").split()
        found += [Workload(name=n, input=n, **table) for n in names] if names else [Workload(**table)]
    return found


def rows_of(workload: Workload, options: dict[str, Any], method: Method) -> list[Row]:
    """Time one workload; each row is printed when it is there."""
    text = workload.code or workload.input
    options = {
        **options,
        "sizes": workload.sizes,
        "defines": workload.define,
        "dtypes": workload.dtype,
        "without": tuple(workload.without),
        "fast": workload.fast,
    }
    (compilation,) = compilations(text if workload.input else text.strip(), settings_of(options))
    made, bindings = prepare(compilation, options, method, workload.forms)
    return timed(compilation, made, bindings, options, lambda row: print(line(row, workload.name, WIDTH), flush=True))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m luminal.bench", description="every workload beside its peers")
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="workloads whose name or family holds this word")
    parser.add_argument("--table", default=str(TABLE), metavar="FILE", help="another table of workloads")
    parser.add_argument("--peers", default="numpy,torch", help="numpy, torch, inductor, flex, tinygrad; or none")
    parser.add_argument("--target", choices=list(PEERS), help="kernels for another processor than this one; the peers are held to its instructions")
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--patience", type=float, default=10.0, metavar="SECONDS", help="for how long a row whose blocks are uneven has more of them")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--out", metavar="FOLDER", help="where DATE-bench.txt and DATE-bench.json are kept")
    parser.add_argument("--date", default=datetime.date.today().isoformat(), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.target:
        hold(given.target)
    options: dict[str, Any] = {
        "runtime": "clang", "target": given.target, "config": (), "level": 2, "include": (), "entry": None, "seed": 0, "timeout": 600.0,
        "peers": ",".join(families_of(given.peers)) or "none", "as_json": True,
    }  # fmt: skip
    listed = workloads(Path(given.table))
    chosen = [w for w in listed if not given.only or any(word in f"{w.name} {w.family}" for word in given.only)]
    print(heading())
    results: list[tuple[Workload, Row]] = []
    failed: list[str] = []
    family = None
    for workload in chosen:
        if workload.family != family:
            family = workload.family
            print(f"\n{family}\n{table_head(WIDTH)}", flush=True)
        try:
            results += [(workload, row) for row in rows_of(workload, options, asked_for(given.blocks, given.runs, given.patience))]
        except LuminalError as error:
            failed.append(f"{workload.name}: {error}")
            print(f"{workload.name}: {error}", flush=True)
    summary = summed(results, listed)
    print(f"\n{summary}")
    if given.out:
        keep(Path(given.out), given.date, results, summary)
    return 3 if failed or not all(row.ok for _, row in results) else 0


def heading(module: str = "luminal.bench") -> str:
    return "\n".join([
        f"{datetime.date.today().isoformat()}, luminal {__version__}, Python {platform.python_version()}, {versions()}, {processor()}",
        "command: " + shlex.join(["python", "-m", module, *sys.argv[1:]]),
    ])  # fmt: skip


def versions() -> str:
    """The peers that are there."""
    from importlib.metadata import PackageNotFoundError, version

    found: list[str] = []
    for name, package in (("NumPy", "numpy"), ("PyTorch", "torch")):
        try:
            found.append(f"{name} {version(package)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


def processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for text in info.read_text().splitlines():
            if text.startswith("model name"):
                return text.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def summed(results: list[tuple[Workload, Row]], listed: list[Workload]) -> str:
    """Geometric means by family, and the rows that miss their bar."""
    lines = ["geometric means of the ratios to the best peer"]
    misses: list[str] = []
    for family in dict.fromkeys(w.family for w, _ in results):
        rows = [(w, row) for w, row in results if w.family == family]
        ratios = [row.ratio for _, row in rows if row.ratio]
        bars = of_family(family, listed)
        mean = statistics.geometric_mean(ratios) if ratios else None
        lines.append(f"  {family:<40}{f'{mean:.2f}' if mean else '-':>6}" + (f"   owed {bars.bar:.2f}" if bars.bar else ""))
        if mean and bars.bar and mean < bars.bar:
            misses.append(f"  {family}: {mean:.2f} in the mean, owed {bars.bar:.2f}")
        misses += [f"  {w.name}, {said}" for w, row in rows for said in missed(row, bars)]
    return "\n".join([*lines, "", "what misses its bar", *(misses or ["  nothing"])])


def keep(folder: Path, date: str, results: list[tuple[Workload, Row]], summary: str) -> None:
    """The results as text and, for the chart, as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [heading()]
    family = None
    for workload, row in results:
        if workload.family != family:
            family = workload.family
            lines += ["", family, table_head(WIDTH)]
        lines.append(line(row, workload.name, WIDTH))
    (folder / f"{date}-bench.txt").write_text("\n".join([*lines, "", summary, ""]), encoding="utf-8")
    objects = [{"name": w.name, "family": w.family, **row.as_json()} for w, row in results]
    (folder / f"{date}-bench.json").write_text(json.dumps({"heading": heading().splitlines(), "results": objects}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
