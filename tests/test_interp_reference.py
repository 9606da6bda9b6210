"""The reference runtime: graphs go through the passes and run with no compiler, in every dtype."""

from pathlib import Path

import numpy as np
import pytest
from luminal import runtimes
from luminal.ir import expr as ex, graph as g
from luminal.ir.dtypes import DTYPES, f32, numpy_dtype
from luminal.ir.errors import ToolError, UsageError
from luminal.ir.interpret.graph import evaluate, judge
from luminal.ir.program import OVERLAP
from luminal.ir.target import Options
from luminal.ir.text import read
from luminal.passes.lower import lower
from luminal.passes.make_nests import make_nests

M, N = ex.size("M"), ex.size("N")
REFERENCE = runtimes.find("reference")


def scaled_rows(d, order=()):
    """y[i] = Σ_j a[i, j] · s, with A in the given memory order."""
    ports = (g.Port("A", d, (M, N), "in", order), g.Port("s", d, (), "scalar"), g.Port("y", d, (M,), "out"))
    a, s = g.input_node(ports[0]), g.scalar(g.input_node(ports[1]))
    combiner = "or" if d.kind == "bool" else "add"
    term = g.elementwise("bit_and" if d.kind == "bool" else "mul", (M, N), g.identity(a), s)
    return g.Graph("rows", (g.Size("M"), g.Size("N")), ports, (("y", g.reduce_node(combiner, (M,), (N,), g.identity(term))),))


def library(graph, config, folder: Path):
    target = REFERENCE.target(None, config, True)
    program = lower(make_nests(graph, target, Options()), target, Options())
    rendered = REFERENCE.render(program, target, "lm_")
    assert read(rendered.source) == program
    path = folder / "x.program"
    REFERENCE.build(rendered, target, "program", path, None, [])
    return REFERENCE.load(path, read(path.read_text()), target, "lm_")


@pytest.mark.parametrize("name", [n for n in DTYPES if n not in ("c64", "f16", "bf16", "f8e4m3", "f8e5m2")])
@pytest.mark.parametrize("config", [{}, {"VECTOR": 0, "THREADS": 3}, {"CHECK": 1}], ids=str)
def test_every_dtype_that_is_computed_with(name, config, tmp_path):
    d = DTYPES[name]
    run = library(scaled_rows(d), config, tmp_path)
    rng = np.random.default_rng(8)
    for m, n in ((0, 3), (1, 0), (5, 7), (2, 33)):
        a = (rng.standard_normal((m, n)) * 5).astype(numpy_dtype(d))
        s = numpy_dtype(d).type(3)
        y = np.zeros(m, a.dtype)
        assert run.call({"A": a, "s": s, "y": y}, {"M": m, "N": n}) == 0
        assert judge(y, evaluate(scaled_rows(d), {"A": a, "s": s}, {"M": m, "N": n})["y"], d).ok


def test_column_major_and_codes(tmp_path):
    run = library(scaled_rows(f32, (1, 0)), {}, tmp_path)
    a = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    y = np.zeros(3, np.float32)
    assert run.call({"A": a, "s": 2.0, "y": y}, {"M": 3, "N": 4}) == 0
    assert y.tolist() == (2 * a.sum(1)).tolist()
    assert len(run.time({"A": a, "s": 2.0, "y": y}, {"M": 3, "N": 4}, 3)) == 3
    assert run.bind({"A": a, "s": 1.0, "y": y}, {"M": 3, "N": 4})() == 0
    both = np.zeros(12, np.float32)
    assert run.call({"A": both.reshape(4, 3).T, "s": 1.0, "y": both[:3]}, {"M": 3, "N": 4}) == OVERLAP


def test_what_it_cannot_do_is_said(tmp_path):
    target = REFERENCE.target("native", {}, False)
    with pytest.raises(ToolError, match="no compiler"):
        REFERENCE.build(runtimes.Rendered("", "", ".program"), target, "shared", tmp_path / "x.so", None, [])
    for name, config in (("sm_90", {}), (None, {"VECTOR": 7}), (None, {"THREADS": 0}), (None, {"WARP": 1})):
        with pytest.raises(UsageError):
            REFERENCE.target(name, config, True)
    with pytest.raises(UsageError):
        REFERENCE.run_kind("cuda:0")
