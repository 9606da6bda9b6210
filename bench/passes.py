"""What the passes cost: processor time in milliseconds for every sample and every library composite, in a new process and again in a warm one.

    python -m luminal.bench.passes                                  all of them, clang at x86-64-v3, x86-64-v4 and native, and cuda
    python -m luminal.bench.passes attention --target native        one composite (a file, or the name of a library composite), one target

`cold` is the sum over the passes for the first compilation of a process, as `luminal compile --time-passes` has it (a new process for each line); `warm` is
the best of ten more, and the columns behind it are the passes of that best one.  Python's byte code is at hand, as an installed package has it: compiling the
modules that some passes import as they need them takes as long as half of the passes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import process_time

from ..cli.main import seldom_collect
from ..compiler import Settings, compilations
from ..passes.pipeline import PIPELINE

ROOT = Path(__file__).parent.parent
TARGETS = ("clang:x86-64-v3", "clang:x86-64-v4", "clang:native", "cuda:")
Times = dict[str, float]  # by pass, in seconds


def measure(input_: str, target: str, runs: int) -> list[Times]:
    """The first trip of this process through the pipeline, then `runs` more; by the processor's clock, because others may be at work on the machine."""
    runtime, _, name = target.partition(":")
    found: list[Times] = []
    for _ in range(runs + 1):
        (compilation,) = compilations(input_, Settings(runtime=runtime, target=name or None))
        ir = compilation.elaborate()
        times: Times = {}
        for p in PIPELINE:
            if compilation.options.level < p.since:
                continue
            run = p.load() if p.when(ir, compilation.target, compilation.options) else None
            began = process_time()
            if run is not None:
                ir = run(ir, compilation.target, compilation.options)
            times[p.name] = process_time() - began
        found.append(times)
    return found


def total(times: Times) -> float:
    return sum(times.values())


def with_byte_code(folder: str) -> dict[str, str]:
    """An environment in which Python finds the byte code of all that passes import, in a folder of its own."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPYCACHEPREFIX": folder}
    subprocess.run([sys.executable, "-m", "compileall", "-q", ROOT / "ir", ROOT / "passes"], check=True, env=environment)
    return environment


def in_a_new_process(input_: str, target: str, runs: int, environment: dict[str, str]) -> list[Times]:
    command = [sys.executable, "-m", "luminal.bench.passes", input_, "--target", target, "--runs", str(runs), "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout)


def line(label: str, cells: list[str]) -> str:
    return f"{label:<26}" + "".join(
        [f"{cell:>{max(7, len(name) + 2)}}" for cell, name in zip(cells, ("cold", "warm", *(p.name for p in PIPELINE)), strict=False)]
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m luminal.bench.passes", description="processor time of the passes, in milliseconds")
    parser.add_argument("inputs", nargs="*", help="files or names of library composites (default: all samples and the whole library)")
    parser.add_argument("--target", action="append", help=f"RUNTIME:TARGET, or a target of clang (default: {', '.join(TARGETS)})")
    parser.add_argument("--runs", type=int, default=10, help="warm runs, of which the best counts (default: 10)")
    parser.add_argument("--json", action="store_true", help="the seconds of every run of one input, in this process")
    given = parser.parse_args()
    targets = [t if ":" in t else f"clang:{t}" for t in given.target or TARGETS]
    inputs = given.inputs or [str(p) for folder in ("samples", "ops/*") for p in sorted(ROOT.glob(f"{folder}/*.toml"))]
    if given.json:
        seldom_collect()  # as the command does
        print(json.dumps(measure(inputs[0], targets[0], given.runs)))
        return
    with tempfile.TemporaryDirectory(prefix="luminal-passes-") as folder:
        report(inputs, targets, given.runs, with_byte_code(folder))


def report(inputs: list[str], targets: list[str], runs: int, environment: dict[str, str]) -> None:
    """A line for each input and target, and the worst of each target."""
    for target in targets:
        print(line(target, ["cold", "warm", *(p.name for p in PIPELINE)]))
        worst = [("", 0.0), ("", 0.0)]
        for input_ in inputs:
            cold, *warm = in_a_new_process(input_, target, runs, environment)
            best = min(warm, key=total, default=cold)
            path = Path(input_)
            label = f"{path.parent.name}/{path.stem}" if path.suffix else input_
            print(line(label, [f"{seconds * 1e3:.1f}" for seconds in (total(cold), total(best), *best.values())]), flush=True)
            worst = [max(w, (label, total(t)), key=lambda pair: pair[1]) for w, t in zip(worst, (cold, best), strict=True)]
        print(line("worst", [f"{seconds * 1e3:.1f}" for _, seconds in worst]) + f"  ({', '.join(dict.fromkeys(label for label, _ in worst))})\n")


if __name__ == "__main__":
    main()
