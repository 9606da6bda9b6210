"""What becomes of nests of several kinds: which nodes, what stays loops and why.  That they mean the same is tested on random nests and in `test_graphpasses_meaning`."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from luminal.ir.graph import Graph
from luminal.ir.kernel import Loop
from luminal.ir.target import Options
from luminal.passes.make_nests import make_nests
from luminal.passes.raise_loops import raise_loops
from luminal.passes.schedule.steps.loops import reorder
from luminal.passes.schedule.tree import Facts, StepError
from running import TARGET, agree, composite, draw, meaning, outputs


@dataclass(frozen=True)
class Case:
    text: str
    ops: str  # among the nodes
    stays: str = ""  # part of the reason of the one nest that is left; "" for none
    kernels: int = 1


CASES = {
    "a running sum through memory": Case("((X{f32}[N]) -> (X)) (loop (i 1 N) (incf (aref X i) (aref X (- i 1))))", "scan"),
    "running sums of columns": Case(
        "((X{f32}[M N]) -> (X)) (loop (i 1 M) (dotimes (j N) (setf (aref X i j) (+ (aref X (- i 1) j) (aref X i j)))))", "scan"
    ),
    "a running greatest": Case("((X{f32}[N]) -> (Y{f32}[N])) (dotimes (i N) (if (= i 0) (set m -inf)) (maxf m (aref X i)) (setf (aref Y i) m))", "max"),
    "a scalar before and after it grows": Case(
        "((X{f32}[M N]) -> (Y{f32}[M N] Z{f32}[M N])) (dotimes (i M) (set s 1.0) (dotimes (j N) (setf (aref Y i j) s) (incf s (aref X i j)) (setf (aref Z i j) s)))",
        "scan", kernels=2,
    ),
    "a counter": Case("((X{f32}[N]) -> (Y{f32}[(* 2 N)])) (dotimes (once 1) (set at 1) (dotimes (i N) (setf (aref Y at) (aref X i)) (incf at 2)))", "where contiguous"),
    "an inner part": Case("((X{f32}[N]) -> (Y{f32}[N])) (loop (i 1 (- N 1)) (setf (aref Y i) (+ (aref X (- i 1)) (aref X (+ i 1)))))", "contiguous add"),
    "the inner part of a copy": Case(
        "((X{f32}[N]) -> (Y{f32}[N])) (dotimes (i N) (setf (aref Y i) (aref X i))) (loop (i 1 (- N 1)) (mulcf (aref Y i) 2))", "where mul"
    ),
    "a part of what is updated in place": Case("((X{f32}[N]) -> (X)) (loop (i 1 (- N 1)) (mulcf (aref X i) 2))", "update"),
    "an older version": Case(
        "((A{f32}[N]) -> (Y{f32}[N] Z{f32}[N])) (dotimes (i (- N 1)) (setf (aref Y i) (* 2 (aref A i))) (setf (aref Z i) (aref Y (+ i 1))))", "mul", kernels=2
    ),
    "a local array of each iteration": Case(
        "((X{f32}[M N]) -> (Y{f32}[M N])) (dotimes (i M) (make-array w f32 (N)) (dotimes (j N) (setf (aref w j) (exp (aref X i j)))) (dotimes (j N) (setf (aref Y i j) (aref w (- N 1 j)))))",
        "exp",
    ),
    "a linear recurrence beside what is none": Case(
        "((A{f32}[N] X{f32}[N]) -> (X Y{f32}[N])) (loop (i 1 N) (setf (aref X i) (+ (* 0.5 (aref X (- i 1))) (aref A i))) (setf (aref Y i) (exp (aref X i))))",
        "exp contiguous nest", "X[i - 1] is read where another iteration stores X[i]", kernels=2,
    ),
    "a histogram beside a sum": Case(
        "((I{i32}[N] V{f32}[N]) -> (H{f32}[7] S{f32}[])) (dotimes (n N) (incf (aref H (aref I n)) (aref V n)) (incf S (aref V n)))",
        "reduce nest", "where H is stored is data", kernels=3,
    ),
    "rows in order, columns not": Case(
        "((X{f32}[M N]) -> (X)) (loop (i 1 M) (dotimes (j N) (setf (aref X i j) (* (aref X i j) (+ 1 (* 0.5 (aref X (- i 1) j)))))))", "nest", "X[i - 1, j] is read where"
    ),
    "read between two stores": Case(
        "((A{f32}[N] U{f32}[N]) -> (U Z{f32}[N])) (loop (i 1 N) (incf (aref U i) (aref A i)) (setf (aref Z i) (aref U i)) (setf (aref U i) (aref U (- i 1))))",
        "nest", "U[i - 1] is read where another iteration stores U[i]", kernels=3,
    ),
    "the smaller of two positions, checked as a gather checks it": Case(
        "((X{f32}[N]) -> (Y{f32}[(* 2 N)])) (dotimes (i (* 2 N)) (let ((y (* 0.5 i))) (let ((a (cast i64 (floor y)))) (let ((b (min (+ a 1) (- N 1)))) (setf (aref Y i) (+ (aref X a) (aref X b)))))))",
        "gather",
    ),
    "a triangle of a product, stored into both": Case(
        "((A{f32}[M N]) -> (C{f32}[N N])) (dotimes (i N) (loop (j i N) (dotimes (k M) (incf (aref C i j) (* (aref A k i) (aref A k j)))) (setf (aref C j i) (aref C i j))))",
        "reduce where",
    ),
    "a triangle in a triangle": Case(
        "((X{f32}[N N]) -> (Y{f32}[N])) (dotimes (i N) (set s 0.0) (loop (j i N) (loop (k j N) (incf s (* (aref X j k) (aref X i k))))) (setf (aref Y i) s))", "reduce mul"
    ),
    "a sum behind the diagonal": Case(
        "((A{f32}[N N] B{f32}[N M]) -> (C{f32}[N M])) (dotimes (i N) (dotimes (j M) (set s 0.0) (loop (k (+ i 1) N) (incf s (* (aref A k i) (aref B k j)))) (setf (aref C i j) s)))",
        "reduce mul",
    ),
    "a triangle times a matrix, in its place": Case(
        "((A{f32}[N N] B{f32}[N M]) -> (B)) (dotimes (i N) (dotimes (j M) (loop (k (+ i 1) N) (incf (aref B i j) (* (aref A k i) (aref B k j)))) (mulcf (aref B i j) 2)))",
        "reduce mul", kernels=2,
    ),
    "sums that a row before has grown": Case(
        "((A{f32}[N N] B{f32}[N M]) -> (B)) (dotimes (i N) (dotimes (j M) (dotimes (k i) (incf (aref B i j) (* (aref A k i) (aref B k j))))))",
        "nest", "B[k, j] is read where another iteration stores B[i, j]",
    ),
}  # fmt: skip


def raised(text: str) -> tuple[Graph, Graph]:
    graph = composite(f"(composite t {text})")
    return graph, raise_loops(graph, TARGET, Options())


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    case = CASES[name]
    before, graph = raised(case.text)
    nests = {n.attr.nest for n in graph.nodes() if n.attr.nest is not None}
    assert set(case.ops.split()) <= {n.op for n in graph.nodes()}
    assert len(nests) == (1 if case.stays else 0)
    assert all(any(case.stays in note for note in nest.notes) for nest in nests), [nest.notes for nest in nests]
    module = make_nests(graph, TARGET, Options())
    assert len(module.kernels) == case.kernels, [k.notes for k in module.kernels]
    for n in (0, 1, 2, 6):
        sizes = {s.name: n + 1 if s.name == "M" else n for s in graph.sizes}
        inputs = draw(before, sizes, n)
        want = meaning(before, inputs, sizes)
        agree(meaning(graph, inputs, sizes), want, before, f"{name} as a graph, {sizes}")
        agree(outputs(module, inputs, sizes, n), want, before, f"{name} as kernels, {sizes}")


def test_a_loop_that_is_independent_inside_another_stays_inside_it() -> None:
    """The columns of one row may run in any order, but not before the row above is whole."""
    text = "((Y{f32}[M N]) -> (Y)) (loop (i 1 M) (dotimes (j N) (setf (aref Y i j) (- 1 (* (aref Y i j) (aref Y (- i 1) 0))))))"
    _, graph = raised(text)
    (kernel,) = make_nests(graph, TARGET, Options()).kernels
    outer = kernel.body[0]
    assert isinstance(outer, Loop) and outer.kind == "serial"
    inner = outer.body[0]
    assert isinstance(inner, Loop) and inner.kind == "parallel"
    facts = Facts.of(make_nests(graph, TARGET, Options()))
    with pytest.raises(StepError, match="only inside a loop in order"):
        reorder(kernel, facts, inner.axis, outer.axis)
    _, graph = raised(text.replace("(aref Y (- i 1) 0)", "(aref Y (- i 1) j)"))
    (kernel,) = make_nests(graph, TARGET, Options()).kernels
    assert reorder(kernel, facts, inner.axis, outer.axis).body[0].kind == "parallel"  # type: ignore[union-attr]
