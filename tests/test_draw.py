"""Inputs drawn for tests."""

from __future__ import annotations

import numpy as np
import pytest
from luminal.ir.dtypes import DType, c64, f32, u8
from luminal.ir.errors import UsageError
from luminal.ir.evaluate import evaluate
from luminal.ir.expr import const
from luminal.ir.graph import Port
from luminal.ir.record import replace
from luminal.search.draw import draw
from running import composite


def test_what_a_dtype_cannot_hold_is_not_drawn_for_it() -> None:
    port = Port("X", u8, (const(100),), "in", draw="one of -1.5 0 0.5 2 nan 300")
    drawn = draw(port, {}, 3)
    assert drawn.dtype == np.uint8 and set(drawn.tolist()) == {0, 2}
    with pytest.raises(UsageError, match="is a u8"):
        draw(replace(port, draw="one of -1 0.5"), {}, 3)


def test_numbers_may_have_commas_between_them() -> None:
    port = Port("X", u8, (const(100),), "in", draw="one of 1, 2 3")
    assert set(draw(port, {}, 3).tolist()) == {1, 2, 3}
    with pytest.raises(UsageError, match="no number"):
        draw(replace(port, draw="one of 1, b"), {}, 3)


# bodies, the ports that bound their loops, and how these are drawn: axis along which they rise, limit
BOUNDS = {
    "(dotimes (i N) (loop (p (aref P i) (aref P (+ i 1))) (incf (aref y i) (* (aref V p) (aref x (aref J p))))))": {"P": ("rising 0", 8)},
    "(dotimes (i N) (dotimes (q (- (aref P (+ i 1)) (aref P i))) (incf (aref y i) (aref V (+ q (aref P i))))))": {"P": ("rising 0", 8)},
    "(dotimes (i N) (loop (p (- (aref P (+ i 1)) 1) (- (aref P i) 1) -1) (incf (aref y i) (aref V p))))": {"P": ("rising 0", 8)},
    "(dotimes (i N) (let ((a (aref P i)) (b (aref P (+ i 1)))) (setf (aref y i) (sum (slice V (a b))))))": {"P": ("rising 0", 8)},
    "(dotimes (i N) (dotimes (q (aref L i)) (incf (aref y i) (aref V q))))": {"L": ("index", 8)},
    "(dotimes (i N) (dotimes (q (aref L i)) (incf (aref y i) (aref V (+ q 2)))))": {"L": ("index", 6)},
    "(dotimes (i N) (loop (p (aref L i) (aref P i)) (incf (aref y i) (aref V p))))": {"L": ("index", 8), "P": ("index", 8)},
    "(dotimes (i N) (dotimes (q (aref L i)) (incf (aref y i) 1)))": {},
}


@pytest.mark.parametrize("body", BOUNDS)
def test_what_bounds_loops_is_drawn_so_that_they_stay_inside(body: str) -> None:
    """Row pointers rise from 0 to the number of elements; counts are no more than there is room for."""
    graph = composite(f"(composite f ((P{{i32}}[(+ N 1)] L{{i16}}[N] J{{i32}}[E] V{{f32}}[E] x{{f32}}[M]) -> (y{{f32}}[N])) {body})")
    found = {p.name: p for p in graph.ports if p.name in "PL" and p.index_limit is not None}
    for name, (how, limit) in BOUNDS[body].items():
        port = found.pop(name)
        values = draw(port, sizes := {"N": 40, "E": 7, "M": 5}, 3)
        assert port.draw == how and evaluate(port.index_limit, sizes) == limit and values.min() >= 0 and values.max() == limit - 1
        if how != "index":
            assert (np.diff(values) >= 0).all() and values[0] == 0 and values[-1] == limit - 1
    assert not found


def test_rising_along_its_own_axis_and_at_no_elements() -> None:
    text = "(composite f ((P{i32}[(+ N 1) B] V{f32}[B E]) -> (y{f32}[B N])) (dotimes (b B) (dotimes (i N) (loop (p (aref P i b) (aref P (+ i 1) b)) (incf (aref y b i) (aref V b p))))))"
    port = composite(text).port("P")
    values = draw(port, {"N": 9, "B": 3, "E": 20}, 1)
    assert (
        port.draw == "rising 0" and (np.diff(values, axis=0) >= 0).all() and (values[-1] == 20).all() and (np.diff(values[1:-1], axis=1) != 0).any()
    )
    assert draw(port, {"N": 0, "B": 2, "E": 4}, 1).tolist() == [[0, 0]] and draw(port, {"N": 2, "B": 1, "E": 0}, 1).tolist() == [[0], [0], [0]]
    tall = draw(replace(port, dtype=u8), {"N": 9, "B": 3, "E": 1000}, 1)
    assert (tall[-1] == 255).all() and (np.diff(tall.astype(int), axis=0) >= 0).all()


@pytest.mark.parametrize("shape", [(4,), (), (3, 4)])
@pytest.mark.parametrize("dtype", [f32, c64])
def test_only_square_matrices_are_positive_definite(shape: tuple[int, ...], dtype: DType) -> None:
    with pytest.raises(UsageError, match="only square matrices are drawn as spd"):
        draw(Port("X", dtype, tuple(map(const, shape)), "in", draw="spd"), {}, 3)
