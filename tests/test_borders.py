"""Loops that are cut where masks turn (`passes/nests/borders.py`): a stack of rolled tensors, short axes that are cut at each position, and what is read of one element of a tensor that others are stored into."""

import luminal
import numpy as np
import pytest
from luminal.compiler import Settings, compilations
from luminal.ir.kernel import Loop, Store, statements
from luminal.ir.walks import postorder

pytestmark = pytest.mark.usefixtures("plain_c")

SHIFTS = ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, -1), (-1, 1))
STORES = [f"(setf (aref G {q} i j) (aref F {q} (mod (- i {a}) H) (mod (- j {b}) W)))" for q, (a, b) in enumerate(SHIFTS)]
STREAMING = f"(composite streaming ((F{{f32}}[9 H W]) -> (G{{f32}}[9 H W])) (dotimes (i H) (dotimes (j W) {' '.join(STORES)})))"


def test_a_stack_of_rolled_tensors_is_cut_for_each() -> None:
    """One that is not rolled has one part, four that are rolled along one axis two, four that are along both four; none is left with a choice between the nine."""
    (c,) = compilations(STREAMING, Settings())
    (kernel,) = c.run(stop_after="make_nests").kernels
    assert sum(isinstance(s, Store) for s in statements(kernel.body)) == 1 + 4 * 2 + 4 * 4
    assert not any(n.op == "where" for s in statements(kernel.body) for e in s.expressions() for n in postorder(e))


@pytest.mark.parametrize(("h", "w"), [(1, 1), (1, 5), (2, 3), (17, 40)])
def test_streaming(h, w):
    x = np.random.default_rng(h * w).standard_normal((9, h, w)).astype(np.float32)
    expected = np.stack([np.roll(x[q], s, (0, 1)) for q, s in enumerate(SHIFTS)])
    np.testing.assert_array_equal(luminal.compile(STREAMING)(x), expected)


def test_rows_of_a_few_values_have_no_loops() -> None:
    """And what is named once for a row never changes: nothing is set."""
    text = """(composite turned ((X{f32}[N 3]) -> (Y{f32}[N 3]))
      (dotimes (n N) (let ((s (exp (aref X n 1)))) (setf (aref Y n 0) (* s (aref X n 2))) (setf (aref Y n 1) s) (setf (aref Y n 2) (- s (aref X n 0))))))"""
    (c,) = compilations(text, Settings())
    (kernel,) = c.run(stop_after="join_blocks").kernels
    assert sum(isinstance(s, Loop) for s in statements(kernel.body)) == 1
    assert kernel.buffers == ("X", "Y")
    x = np.random.default_rng(3).standard_normal((20, 3)).astype(np.float32)
    e = np.exp(x[:, 1])
    np.testing.assert_allclose(luminal.compile(text)(x), np.stack([e * x[:, 2], e, e - x[:, 0]], 1), rtol=1e-5)


def test_an_element_is_read_of_what_stored_it() -> None:
    """Not of a tensor with all that was stored before: of a chain of choices the branch that stands at the position, which is none of them."""
    text = """(composite chain ((X{f32}[N 3]) -> (X))
      (dotimes (n N) (setf (aref X n 0) (+ (aref X n 1) 1)) (setf (aref X n 1) (* (aref X n 0) 2)) (setf (aref X n 2) (- (aref X n 2) (aref X n 1)))))"""
    (c,) = compilations(text, Settings())
    reads = [a for n in c.run(stop_after="simplify").nodes() for a in n.args if n.rank == 1]
    assert not any(a.node.op in ("where", "contiguous") for a in reads)
    x = np.random.default_rng(3).standard_normal((20, 3)).astype(np.float32)
    a = x[:, 1] + 1
    b = a * 2
    np.testing.assert_array_equal(luminal.compile(text)(x.copy()), np.stack([a, b, x[:, 2] - b], 1))
