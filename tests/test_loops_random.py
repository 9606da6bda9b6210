"""Random affine nests mean the same when they are raised: in the interpreter, as a graph and as kernels with races looked for."""

from __future__ import annotations

import random

import numpy as np
import pytest
from luminal.ir.graph import Graph
from luminal.ir.interpret.graph import evaluate
from luminal.ir.target import Options
from luminal.ir.text import show
from luminal.ir.verify import verify
from luminal.passes.make_nests import make_nests
from luminal.passes.raise_loops import raise_loops
from random_nests import random_nest
from running import TARGET, composite, draw, outputs

SEEDS = 60


def nests(graph: Graph) -> int:
    return len({n.attr.nest for n in graph.nodes() if n.op == "nest"})


def check(text: str, seed: int) -> Graph:
    graph = composite(text)
    raised = raise_loops(graph, TARGET, Options())
    verify(raised)
    module = make_nests(raised, TARGET, Options())
    verify(module)
    for n in (0, 1, 2, 5):
        inputs = draw(graph, {"N": n}, seed)
        want = evaluate(graph, inputs, {"N": n})
        got = evaluate(raised, inputs, {"N": n})
        ran = outputs(module, inputs, {"N": n}, seed)
        assert ran is not None
        for name, expected in want.items():
            context = f"seed {seed}, N = {n}, {name}:\n{text}\n{show(raised)}"
            np.testing.assert_array_equal(got[name].value, expected.value, context)
            np.testing.assert_array_equal(ran[name], expected.value, f"{context}\n{show(module)}")
    return raised


@pytest.mark.parametrize("start", range(0, SEEDS, 20))
def test_raised_is_unraised(start: int) -> None:
    for seed in range(start, start + 20):
        check(random_nest(random.Random(seed)), seed)


def test_the_random_nests_are_of_all_kinds() -> None:
    """Some are raised whole, some in part, some not at all; there are scans, updates and loops among the results."""
    whole = part = none = 0
    ops: set[str] = set()
    for seed in range(SEEDS):
        before = composite(random_nest(random.Random(seed)))
        after = raise_loops(before, TARGET, Options())
        ops |= {n.op for n in after.nodes()}
        left = [n.attr.nest for n in after.nodes() if n.op == "nest"]
        was = [n.attr.nest for n in before.nodes() if n.op == "nest"]
        whole += not left
        none += bool(left) and {n.body for n in left if n} == {n.body for n in was if n}
        part += bool(left) and any(n.op in ("update", "scan", "reduce", "add", "where") for n in after.nodes())
    assert min(whole, part) > SEEDS // 10, (whole, part, none)
    assert {"scan", "update", "reduce", "nest", "where"} <= ops
