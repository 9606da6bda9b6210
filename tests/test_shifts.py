"""`ash` with a count that is no literal: which directions are computed, and what they give."""

from __future__ import annotations

import numpy as np
import pytest
from luminal.ir.interpret.graph import evaluate
from running import composite, draw


@pytest.mark.parametrize(
    ("count", "left", "right"),
    [
        ("Y", 1, 1),
        ("(max 0 Y)", 1, 0),
        ("(- (max 0 Y))", 0, 1),
        ("(- (cast i64 (max 0 (min Y 64))))", 0, 1),
        ("(where (< Y 0) 64 (max Y 1))", 1, 0),
        ("(min Y 64)", 1, 1),
        ("(- Y)", 1, 1),
        ("(min (max Y -1) 5)", 1, 1),
        ("(cast i32 (max 0 (cast i64 Y)))", 1, 1),  # may wrap
    ],
)
def test_a_shift_has_the_directions_that_its_count_has(count: str, left: int, right: int) -> None:
    graph = composite(f"(composite shifted ((X{{i32}}[N] Y{{i32}}[N]) -> (Z{{i32}}[N])) (return (ash X {count})))")
    found = [n.op for n in graph.nodes()]
    assert (found.count("shift_left"), found.count("shift_right")) == (left, right)
    inputs = draw(graph, {"N": 50}, 3)
    inputs["Y"] = np.arange(-25, 25, dtype=np.int32)
    meaning_of_count = composite(f"(composite count ((X{{i32}}[N] Y{{i32}}[N]) -> (Z{{i64}}[N])) (return (+ (cast i64 {count}) (* 0 (cast i64 X)))))")
    counts = evaluate(meaning_of_count, inputs, {"N": 50})["Z"].value
    expected = [int(x) << min(int(c), 40) if c >= 0 else int(x) >> min(-int(c), 40) for x, c in zip(inputs["X"], counts, strict=True)]
    np.testing.assert_array_equal(evaluate(graph, inputs, {"N": 50})["Z"].value, np.array(expected).astype(np.int32))
