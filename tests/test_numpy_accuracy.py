"""NumPy's accuracy set on the clang runtime, within NumPy's own tolerances: f32 and f64, vectors and scalars.

The rows come with NumPy (numpy/_core/tests/data): bits of an argument, bits of the result, the largest error in ULP.  They hold NaN, infinities, signed
zeros and denormals too.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from compilers import needs_cc
from luminal import runtimes
from luminal.dsl import Instance, Scope, elaborate, read_file
from luminal.dsl.scope import LIBRARY
from luminal.ir.merge import merge
from luminal.ir.target import Options
from luminal.passes.pipeline import run_pipeline

DATA = Path(np.__file__).parent / "_core" / "tests" / "data"
FILES = sorted(DATA.glob("umath-validation-set-*.csv"))
ROWS = 26610
WAYS = ("vector", "scalar")
KINDS = {"f32": np.float32, "f64": np.float64}
SEED = 7
pytestmark = needs_cc


class Rows(NamedTuple):
    x: np.ndarray
    y: np.ndarray
    ulp: np.ndarray


@cache
def rows(name: str, dtype: str) -> Rows:
    """In an order that puts every row anywhere in a vector or behind the last whole one."""
    bits = {"f32": np.uint32, "f64": np.uint64}[dtype]
    wanted = f"np.{KINDS[dtype].__name__}"
    found = [line.split(",") for line in (DATA / f"umath-validation-set-{name}.csv").read_text().splitlines() if line.startswith(wanted)]
    order = np.random.default_rng(SEED).permutation(len(found))
    x, y = (np.array([int(f[k], 16) for f in found], bits).view(KINDS[dtype])[order] for k in (1, 2))
    return Rows(x, y, np.array([int(f[3]) for f in found])[order])


def names() -> list[str]:
    return [re.fullmatch(r"umath-validation-set-(\w+)", p.stem).group(1) for p in FILES]  # type: ignore[union-attr]


def composite(name: str) -> str:
    """NumPy's arc is our a."""
    return name.replace("arc", "a")


def test_the_set_is_the_one_that_is_spoken_of() -> None:
    assert len(FILES) == 20
    assert sum(len(rows(n, d).x) for n in names() for d in KINDS) == ROWS


@pytest.mark.parametrize("dtype", KINDS)
def test_accuracy(dtype: str, tmp_path: Path) -> None:
    runtime = runtimes.find("clang")
    target = runtime.target(None, {}, False)
    cases = [(name, way) for way in WAYS for name in names()]
    programs = []
    for name, way in cases:
        (c,) = read_file(LIBRARY / "elementwise" / f"{composite(name)}.toml")
        graph = elaborate(c, Scope((c,)), Instance(dtypes={"T": dtype}))
        assert [p.role for p in graph.ports] == ["in", "out"]
        programs.append(run_pipeline(graph, "graph", target, Options(level=0 if way == "scalar" else 2)))
    merged = merge(programs, "accuracy")
    path = tmp_path / "accuracy.so"
    runtime.build(runtime.render(merged.program, target, "lm_"), target, "shared", path, 300, [])
    library = runtime.load(path, merged.program, target, "lm_")
    for k, (name, way) in enumerate(cases):
        x, y, ulp = rows(name, dtype)
        out = np.full_like(x, 42)
        count = programs[k].sizes[0].name
        arrays = {merged.ports[k]["X"]: x, merged.ports[k]["Y"]: out}
        assert library.call(arrays, merged.bound(k, {count: len(x)}, {"X": len(x), "Y": len(x)})) == 0, (name, way)
        for most in np.unique(ulp):
            here = ulp == most
            np.testing.assert_array_max_ulp(out[here], y[here], maxulp=int(most))
