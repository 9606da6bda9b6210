"""What a run is judged by: values are those of the loops as they are written, whatever they are raised to; bounds those of the tensor algebra where all of them are that."""

from __future__ import annotations

import numpy as np
import pytest
from luminal.ir.graph import Graph
from luminal.ir.interpret.graph import evaluate
from luminal.ir.interpret.judge import CheckFault, judge
from luminal.ir.target import Options
from luminal.passes import raise_loops
from luminal.search import reference as module
from luminal.search.reference import reference
from running import composite, draw

LOOPS = """(composite f ((A{f32}[M K] V{f32}[K]) -> (Y{f32}[M]))
  (dotimes (i M) (dotimes (p K) (incf (aref Y i) (* (aref A i p) (aref V p))))) (return Y))"""
TENSORS = "(composite f ((A{f32}[M K] V{f32}[K]) -> (Y{f32}[M])) (return (matmul A V)))"
SOLVE = """(composite solve ((L{f32}[N N] V{f32}[N]) -> (Y{f32}[N]))
  (dotimes (i N) (setf (aref Y i) (aref V i)) (dotimes (p i) (decf (aref Y i) (* (aref L i p) (aref Y p))))) (return Y))"""
SIZES = {"M": 5, "K": 37}


def test_loops_that_are_algebra_have_its_bounds() -> None:
    loops, tensors = composite(LOOPS), composite(TENSORS)
    inputs = draw(loops, SIZES, 1)
    found, plain = reference(loops, inputs, SIZES)["Y"], evaluate(tensors, inputs, SIZES)["Y"]
    assert np.array_equal(found.value, evaluate(loops, inputs, SIZES)["Y"].value)
    np.testing.assert_allclose(found.bound, plain.bound, rtol=0.1)
    assert not found.ill.any() and judge(plain.value.astype(np.float32), found, loops.port("Y").dtype).ok


@pytest.mark.parametrize("wrong", ["(matmul A (* V 1.001))", "(- (matmul A V) (* (slice A _ (- K 1)) (slice V (- K 1))))"])
def test_what_is_raised_wrong_is_found_out(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a sum that lacks its last term: the bound may be that of the mistaken algebra, the values are not."""
    loops, mistaken = composite(LOOPS), composite(TENSORS.replace("(matmul A V)", wrong))
    inputs = draw(loops, SIZES, 1)
    kernel = evaluate(mistaken, inputs, SIZES)["Y"].value.astype(np.float32)
    monkeypatch.setattr(raise_loops, "tensor_algebra", lambda graph, options: mistaken)
    module._algebra.cache_clear()
    try:
        assert not judge(kernel, reference(loops, inputs, SIZES)["Y"], loops.port("Y").dtype).ok
    finally:
        module._algebra.cache_clear()


def test_loops_that_stay_loops_have_bounds_of_their_own() -> None:
    graph, sizes = composite(SOLVE), {"N": 9}
    inputs = draw(graph, sizes, 1)
    found, alone = reference(graph, inputs, sizes)["Y"], evaluate(graph, inputs, sizes)["Y"]
    assert np.array_equal(found.value, alone.value) and np.array_equal(found.bound, alone.bound) and alone.bound[1:].all()


GATHER = "(composite f ((T{f32}[M] J{i64}[N]) -> (Y{f32}[N])) (dotimes (i N) (setf (aref Y i) (+ 1 (aref T (aref J i))))) (return Y))"
NO_GATHER = "(composite f ((T{f32}[M] J{i64}[N]) -> (Y{f32}[N])) (return (zeros (N))))"


def test_the_loops_say_whether_an_index_is_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, sizes = {"T": np.zeros(3, np.float32), "J": np.array([0, 3])}, {"M": 3, "N": 2}
    for loops, algebra, outside in ((GATHER, GATHER, True), (GATHER, NO_GATHER, True), (NO_GATHER, GATHER, False)):
        given = composite(loops if outside else loops.replace("(return (zeros (N)))", "(dotimes (i N) (setf (aref Y i) 7)) (return Y)"))
        raised = raise_loops.tensor_algebra(composite(algebra), Options())
        monkeypatch.setattr(module, "_algebra", lambda graph, raised=raised: raised)
        if outside:
            with pytest.raises(CheckFault):
                reference(given, inputs, sizes)
        else:
            assert (reference(given, inputs, sizes)["Y"].value == 7).all()


def test_loops_that_would_take_hours_are_judged_by_their_algebra(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = composite(LOOPS)
    inputs = draw(graph, SIZES, 1)
    asked: list[Graph] = []
    monkeypatch.setattr(module, "evaluate", lambda g, *a, **k: asked.append(g) or evaluate(g, *a, **k))
    monkeypatch.setattr(module, "INTERPRETED", 2 * 5 * 37)
    reference(graph, inputs, SIZES)
    assert graph in asked
    asked.clear()
    monkeypatch.setattr(module, "INTERPRETED", 2 * 5 * 37 - 1)
    reference(graph, inputs, SIZES)
    assert asked and graph not in asked
