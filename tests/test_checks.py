"""Checks of loops that stay loops stand outside of the loops that they do not ask about, and still say what they said."""

from __future__ import annotations

import re

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir import program
from luminal.ir.kernel import Check, Loop, statements
from luminal.ir.program import Fail

pytestmark = pytest.mark.usefixtures("plain_c")

ROWS = "(composite rows ((I{i64}[N] G{f32}[N D] E{f32}[V D]) -> (E)) (dotimes (n N) (dotimes (d D) (incf (aref E (aref I n) d) (aref G n d)))))"
BOXES = """(composite boxes ((I{i64}[N] G{f32}[N D C] E{f32}[V D C]) -> (E))
  (dotimes (n N) (dotimes (d D) (dotimes (c C) (incf (aref E (aref I n) d c) (aref G n d c))))))"""
EXCHANGED = """(composite exchanged ((I{i64}[N] X{f32}[M 16]) -> (X))
  (dotimes (n (min M N)) (dotimes (w 16) (let ((x (aref X n w)) (y (aref X (aref I n) w)))
    (setf (aref X n w) (min x y)) (setf (aref X (aref I n) w) (max x y))))))"""
MOVING = "(composite moving ((I{i64}[N] J{i64}[D] E{f32}[V]) -> (E I)) (dotimes (n N) (dotimes (d D) (incf (aref E (aref I n)) 1.0) (setf (aref I n) (aref J d)))))"


def around_checks(text: str) -> list[list[str]]:
    """The axes of the loops around each check, as the loops stand before they are scheduled."""
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3"))
    (kernel,) = found.run("legalize").kernels
    loops = [s for s in statements(kernel.body) if isinstance(s, Loop)]
    return [[x.axis for x in loops if any(s is c for s in statements(x.body))] for c in statements(kernel.body) if isinstance(c, Check)]


@pytest.mark.parametrize("text", [ROWS, BOXES])
def test_where_they_stand(text: str) -> None:
    assert around_checks(text) == [["n"], ["n"]]


def test_named_values_are_no_obstacle_and_nothing_is_asked_twice() -> None:
    assert around_checks(EXCHANGED) == [["n"], ["n"]]


@needs_cc
def test_what_is_read_before_it_is_stored_over_is_a_vector() -> None:
    f = luminal.compile(EXCHANGED, runtime="clang", target="x86-64-v3")
    assert re.search(r"f32x8 x\[1\]", f.source)
    index = np.random.default_rng(2).integers(0, 9, 20)
    x = np.random.default_rng(3).standard_normal((20, 16), np.float32)
    want = x.copy()
    for n, i in enumerate(index):
        want[n], want[i] = np.minimum(want[n], want[i]), np.maximum(want[n], want[i])
    assert (f(index, x) == want).all()


def test_what_changes_is_asked_each_time() -> None:
    assert ["n", "d"] in around_checks(MOVING)


@needs_cc
def test_they_still_say_so() -> None:
    f = luminal.compile(ROWS, runtime="clang")
    index, rows = np.array([2, 0, 2, 1]), np.arange(20, dtype=np.float32).reshape(4, 5)
    table = np.zeros((3, 5), np.float32)
    want = table.copy()
    np.add.at(want, index, rows)
    assert (f(index, rows, table) == want).all()
    for bad in (3, -1):
        with pytest.raises(ValueError, match="index out of range"):
            f(np.array([0, bad, 1, 1]), rows, table)


@needs_cc
def test_loops_that_do_not_run_ask_nothing() -> None:
    f = luminal.compile(ROWS, runtime="clang")
    assert f(np.array([0, 7]), np.zeros((2, 0), np.float32), np.zeros((3, 0), np.float32)).shape == (3, 0)


NEIGHBOURS = """(composite neighbours ((I{i64}[N] X{f32}[M] Y{f32}[N]) -> (Y))
  (dotimes (n N) (let ((at (aref I n))) (setf (aref Y n) (+ (aref X at) (aref X (+ at 1)) (aref X (* at 2)))))))"""


def test_on_a_gpu_they_stay_and_those_that_follow_one_another_are_one() -> None:
    """Each would hold all that stands behind it: of a transform, a hundred and eighty, one in another."""
    (found,) = compilations(NEIGHBOURS, Settings(runtime="cuda"))
    (kernel,) = found.run("legalize").kernels
    assert sum(isinstance(s, Check) for s in statements(kernel.body)) == 1
    (fft,) = compilations("fft", Settings(runtime="cuda"))
    assert sum(isinstance(s, Fail) for f in fft.program.functions for s in program.statements(f.body)) < 20
