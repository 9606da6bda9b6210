"""Operators on literals are computed while the graph is simplified (`ir/constants.py`): rounded as they round, and only where the result is the same everywhere."""

import math

import luminal
import numpy as np
import pytest
from luminal.compiler import Settings, compilations
from luminal.ir.constants import computed
from luminal.ir.dtypes import c64, f16, f32, f64

pytestmark = pytest.mark.usefixtures("plain_c")


def simplified(body, port="f32"):
    (c,) = compilations(f"(composite one ((X{{{port}}}[N]) -> Y) (return (* X {body})))", Settings())
    return [n.op for n in c.run(stop_after="simplify").nodes()]


@pytest.mark.parametrize("body", ["(cos (/ pi 3))", "(/ (* 2.0 pi) (cast f32 7))", "(- (sqrt 2.0) (exp 1.5))"])
def test_a_literal_is_left(body):
    assert set(simplified(body)) <= {"input", "const", "mul"}


def test_so_it_is_of_complex_numbers():
    assert set(simplified("(exp (complex 0.0 (/ pi 4)))", "c64")) <= {"input", "const", "complex", "mul"}


@pytest.mark.parametrize("body", ["(/ 1.0 0.0)", "(log -1.0)", "(exp 1000.0)"])
def test_what_is_no_finite_number_is_left_to_the_machine(body):
    assert not set(simplified(body)) <= {"input", "const", "mul"}
    text = f"(composite one ((X{{f32}}[N]) -> Y) (return (* X {body})))"
    np.testing.assert_array_equal(luminal.compile(text)(np.ones(3, np.float32)), luminal.compile(text, runtime="reference")(np.ones(3, np.float32)))


def test_rounded_once():
    assert computed("div", [1.0, 3.0], f32) == float(np.float32(1) / np.float32(3))
    assert computed("mul", [16777217, 1.0], f32) == 16777216.0
    assert computed("cos", [math.pi / 3], f32) == float(np.float32(np.cos(math.pi / 3)))
    assert computed("mul", [0.1, 0.1j], c64) == complex(0, float(np.float32(0.1 * 0.1)))
    assert math.copysign(1, computed("neg", [0.0], f32)) == -1


def test_functions_of_doubles_are_libm_s_own_affair():
    """Whose last place is not the same everywhere, and the text of a kernel is."""
    assert computed("cos", [1.0], f64) is None
    assert computed("sqrt", [2.0], f64) == math.sqrt(2)
    assert computed("add", [1.0, 1.0], f16) is None
