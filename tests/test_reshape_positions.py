"""Reshapes in which an axis is cut at a place that is no border between axes: positions are mapped axis by axis as far as extents are factors of each other, and reductions over them read in order."""

from __future__ import annotations

import itertools

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.expr import Expr, const
from luminal.ir.program import statements
from luminal.ir.walks import postorder

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 25
GROUPS = """(composite groups ((X{f32}[N C H W](where C % 8 = 0) G{f32}[C]) -> (Y))
  (setf x (reshape X N 8 -1)) (setf c (- x (mean x :axis 2 :keepdims t)))
  (return (* (reshape (* c (rsqrt (+ (mean (* c c) :axis 2 :keepdims t) 1e-5))) N C H W) (reshape G (C 1 1)))))"""
FLAT = "(composite flat ((X{f32}[N C H W]) -> (Y)) (return (mean (reshape X N -1) :axis 1)))"


def shapes(elements: int, most: int) -> list[tuple[int, ...]]:
    """All shapes of so many elements, without axes of one."""
    found: list[tuple[int, ...]] = [(elements,)]
    if most > 1:
        for first in range(2, elements):
            if elements % first == 0:
                found += [(first, *rest) for rest in shapes(elements // first, most - 1)]
    return found


def test_every_cut() -> None:
    """All pairs of shapes of 24 elements, against NumPy."""
    from luminal.ir.build import Builder

    builder = Builder({})
    for old, new in itertools.product(shapes(24, 4), repeat=2):
        found = builder.positions(tuple(const(e) for e in old), tuple(const(e) for e in new))
        want = np.unravel_index(np.arange(24), old)
        places = np.unravel_index(np.arange(24), new)
        for e, expected in zip(found, want, strict=True):
            assert (values(e, places) == expected).all(), (old, new, e)


def values(e: Expr, places: tuple[np.ndarray, ...]) -> np.ndarray:
    done: dict[Expr, np.ndarray] = {}
    for n in postorder(e):
        args = [done[a] for a in n.args]
        match n.op:
            case "const":
                done[n] = np.full(24, n.attr)
            case "axis":
                done[n] = places[n.attr]
            case _:
                done[n] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide, "mod": np.mod}[n.op](*args)
    return done[e]


def test_no_lane_divides() -> None:
    """A channel's group is found once a row."""
    (found,) = compilations(GROUPS, Settings(runtime="clang", target="x86-64-v3"))
    wide = [n for f in found.program.functions for s in statements(f.body) for e in s.expressions() for n in postorder(e) if n.dtype.lanes > 1]
    assert any(n.op == "vload" for n in wide)
    assert not any(n.op in ("floordiv", "mod") for n in wide)
    (short,) = {n.args[0].args[1] for n in wide if n.op == "gather"}  # of rows of a few elements, one in each lane
    assert short.op == "var"


@pytest.mark.parametrize("text", [GROUPS, FLAT])
def test_reductions_are_vectors(text: str) -> None:
    (found,) = compilations(text, Settings(runtime="clang", target="x86-64-v3"))
    notes = found.run("schedule").kernels[0].notes
    assert any("accumulate along `p`" in note for note in notes), notes


@needs_cc
@pytest.mark.parametrize("sizes", [(1, 8, 1, 1), (3, 16, 5, 7), (2, 24, 9, 33), (40, 8, 3, 2), (0, 8, 2, 3), (2, 8, 0, 3)])
def test_meaning(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(SEED)
    x, g = (rng.standard_normal(shape).astype(np.float32) for shape in (sizes, (sizes[1],)))
    got = luminal.compile(GROUPS, runtime="clang")(x, g)
    assert got.shape == x.shape
    if not x.size:
        return
    d = x.astype(np.float64).reshape(sizes[0], 8, -1)
    c = d - d.mean(2, keepdims=True)
    want = (c / np.sqrt((c * c).mean(2, keepdims=True) + 1e-5)).reshape(sizes) * g.reshape(-1, 1, 1)
    assert np.abs(got - want).max() <= 200 * np.finfo(np.float32).eps * (1 + np.abs(want).max())
    flat = luminal.compile(FLAT, runtime="clang")(x)
    assert np.abs(flat - x.astype(np.float64).reshape(len(x), -1).mean(1)).max() <= 1e-5
