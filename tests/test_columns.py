"""Rows of a few elements, one in each lane: whole vectors in memory, columns in registers (`passes/lower/vectors/columns.py`)."""

import re

import luminal
import numpy as np
import pytest
from compilers import FAMILIES
from luminal.ir.dtypes import DTYPES
from luminal.ir.expr import const, vload
from luminal.ir.walks import postorder
from luminal.passes.lower.vectors.columns import column, rows

pytestmark = pytest.mark.usefixtures("plain_c")

# each element depends on all that stand before it, so rows are values
RUNNING = """(composite running ((X{%s}[N %d]) -> (Y{%s}[N %d]))
  (setf Y X)
  (dotimes (n N) (loop (i 1 %d) (setf (aref Y n i) (- (aref Y n i) (* 2 (aref Y n (- i 1))))))))"""


def value(e, memory, lanes):
    found = {}
    for n in postorder(e):
        if n.op == "vload":
            found[n] = memory[n.args[0].attr :][:lanes]
        elif n.op == "pick":
            found[n] = [(found[n.args[0]] + found[n.args[1]])[k] for k in n.attr]
    return found[e]


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("length", range(2, 17))
def test_columns_and_back(length, lanes):
    """Lane by lane, on numbers that say where they come from; of a power of two one permutation for each column and round, of another number one less than its prime."""
    v = DTYPES["i32"]
    vectors = [vload("X", v, lanes, const(k * lanes)) for k in range(length)]
    memory = list(range(length * lanes))
    columns = [column(vectors, k) for k in range(length)]
    for k, c in enumerate(columns):
        assert value(c, memory, lanes) == memory[k::length]
    for k, r in enumerate(rows(columns)):
        assert value(r, memory, lanes) == memory[k * lanes : (k + 1) * lanes]
    if length == 8 and lanes > 2:
        assert sum(n.op == "pick" for n in postorder(*columns)) == 24


@pytest.mark.parametrize("family", [f for f in ("clang", "gcc") if f in FAMILIES])
@pytest.mark.parametrize("machine", ["x86-64-v2", "x86-64-v4"])
@pytest.mark.parametrize(("dtype", "length"), [("f32", 3), ("i32", 8), ("f64", 5), ("f32", 16), ("f32", 17), ("i16", 3)])
def test_values(dtype, length, machine, family):
    """The result is stored in whole vectors; what rows are left over is worked off row by row. A row too long for the registers, and many short elements, are left to the compiler."""
    f = luminal.compile(RUNNING % (dtype, length, dtype, length, length), target=machine, config={"CC": FAMILIES[family]})
    assert ("__builtin_shufflevector" in f.source[f.source.index("running_0") :]) == (
        length <= 16 and not (dtype == "i16" and machine == "x86-64-v4")
    )
    kind = np.dtype({"f": "float", "i": "int"}[dtype[0]] + dtype[1:])
    for n in (0, 1, 15, 16, 17, 70):
        x = np.random.default_rng(n).integers(-4, 4, (n, length)).astype(kind)
        y = x.copy()
        for i in range(1, length):
            y[:, i] -= 2 * y[:, i - 1]
        np.testing.assert_array_equal(f(x), y)


@pytest.mark.parametrize("n", [0, 3, 16, 50])
def test_in_place(n):
    text = """(composite turned ((X{f32}[N 3]) -> (X))
      (dotimes (n N) (let ((a (aref X n 0))) (setf (aref X n 0) (aref X n 1)) (setf (aref X n 1) (aref X n 2)) (setf (aref X n 2) a))))"""
    x = np.random.default_rng(n).standard_normal((n, 3)).astype(np.float32)
    np.testing.assert_array_equal(luminal.compile(text, target="x86-64-v4")(x.copy()), np.roll(x, -1, axis=1))


def test_what_is_not_read_is_not_loaded():
    """The last element of the last row belongs to nobody who asks: memory may end before it."""
    text = "(composite firsts ((X{f32}[N 4]) -> (Y{f32}[N])) (dotimes (n N) (setf (aref Y n) (+ (aref X n 0) (aref X n 2)))))"
    source = luminal.compile(text, target="x86-64-v4").source
    assert not re.search(r"load_f32x16\(&X", source)


def test_complex_pairs_are_columns():
    text = """(composite squares ((X{c64}[N 2]) -> (Y{c64}[N 2]))
      (dotimes (n N) (setf (aref Y n 0) (* (aref X n 0) (aref X n 1))) (setf (aref Y n 1) (- (aref X n 0) (aref X n 1)))))"""
    f = luminal.compile(text, target="x86-64-v3")
    x = np.random.default_rng(1).standard_normal((37, 4)).astype(np.float32).view(np.complex64)
    np.testing.assert_allclose(f(x), np.stack([x[:, 0] * x[:, 1], x[:, 0] - x[:, 1]], 1), rtol=1e-5, atol=1e-5)
    assert "__builtin_shufflevector" in f.source[f.source.index("squares_0") :]


@pytest.mark.parametrize("machine", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_bytes_beside_wider_numbers(machine):
    """As many lanes as something wider has: colours of bytes, and what is half as long in f16."""
    grey = """(composite grey ((X{u8}[N 3]) -> (Y{u8}[N])) (dotimes (i N)
      (setf (aref Y i) (cast u8 (ash (+ (* 77 (cast i32 (aref X i 0))) (* 150 (cast i32 (aref X i 1))) (* 29 (cast i32 (aref X i 2)))) -8)))))"""
    turned = """(composite turned ((X{f16}[N 3]) -> (Y{f16}[N 3])) (dotimes (i N) (let ((a (cast f32 (aref X i 0))) (b (cast f32 (aref X i 2))))
      (setf (aref Y i 0) (cast f16 (+ a b))) (setf (aref Y i 1) (aref X i 1)) (setf (aref Y i 2) (cast f16 (- a b))))))"""
    rng = np.random.default_rng(3)
    f, g = (luminal.compile(text, target=machine) for text in (grey, turned))
    assert "__builtin_shufflevector" in f.source[f.source.index("grey_0") :]
    for n in (0, 1, 15, 16, 17, 70, 1000):
        x = rng.integers(0, 256, (n, 3)).astype(np.uint8)
        np.testing.assert_array_equal(f(x), (x.astype(int) @ [77, 150, 29] >> 8).astype(np.uint8))
        h = rng.integers(-100, 100, (n, 3)).astype(np.float16)
        np.testing.assert_array_equal(g(h), np.stack([h[:, 0] + h[:, 2], h[:, 1], h[:, 0] - h[:, 2]], axis=1))


@pytest.mark.parametrize("family", [f for f in ("clang", "gcc") if f in FAMILIES])
def test_the_first_rows_are_put_together_too(family):
    """Behind a guard that the first lanes pass, what is left of complex numbers is a vector of each of the two parts, of which the first rows are stored."""
    f = luminal.compile("(composite twice ((X{c64}[N]) -> (Y)) (return (* 2 (conj X))))", target="x86-64-v4", config={"CC": FAMILIES[family]})
    body = f.source[f.source.index("static void twice_0") :]
    assert "store_first_f32x16(&Y[" in body or "stream_first_f32x16(&Y[" in body
    assert not re.search(r"\bY\[[^\]]*\] = ", body)
    for n in (0, 1, 7, 8, 9, 15, 16, 17, 31, 50):
        x = np.random.default_rng(n).standard_normal(2 * n + 2).astype(np.float32)
        y = np.full(n + 8, 7 + 7j, np.complex64)
        f(x[: 2 * n].view(np.complex64), Y=y[:n])
        np.testing.assert_array_equal(y[:n], 2 * x[: 2 * n].view(np.complex64).conj())
        assert (y[n:] == 7 + 7j).all()
