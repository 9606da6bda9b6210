"""Axes of one element: where vectors would run along one, another axis is consecutive, and what is known of it reaches the addresses."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.kernel import Kernel, Module
from luminal.ir.target import Options
from luminal.ir.text import read
from luminal.passes.schedule import Facts, replay, schedule
from scheduling import same_at
from test_rows_of_lanes import BIAS, COLUMNS, KEPT, LONG, NARROW, PADDED, SUMS, TURNED

ONES = {
    "bias": (BIAS, "C"),
    "turned over": (TURNED, "BC"),
    "columns": (COLUMNS, "C"),
    "kept": (KEPT, "C"),
    "one long row": (LONG, ""),
    "padded": (PADDED, ""),
    "rows": (SUMS, ""),
}


@pytest.mark.parametrize("name", ONES)
def test_axes_of_one_element(name: str) -> None:
    text, sizes_of_one = ONES[name]
    before = read(text)
    assert isinstance(before, Module)
    after = schedule(before, NARROW, Options())
    script = after.kernels[0].schedule
    assert [line for line in script if line.endswith("== 1")] == [f"variant {n} == 1" for n in sizes_of_one]
    again = before.with_kernels((replay(before.kernels[0], Facts.of(before), script),))
    assert [k.body for k in again.kernels] == [k.body for k in after.kernels]
    rng = np.random.default_rng(4)
    for extents in [(3, 7, 1), (3, 1, 7), (1, 1, 1), (0, 3, 1), (3, 0, 1), (70, 3, 1), (1, 1, 0), (40, 1, 40)]:
        sizes = dict(zip("ABC", extents, strict=True))
        assert same_at(before, after, sizes, rng) == 0


SWAPPED = "(composite swapped ((X{f32}[A B C]) -> (Y)) (return (transpose X (0 2 1))))"


def test_what_is_turned_over_around_one_element_is_a_copy() -> None:
    """No element is gathered: addresses are those of the tensor without the axis."""
    (c,) = compilations(SWAPPED, Settings())
    kernel = c.run(stop_after="schedule").kernels[0]
    assert isinstance(kernel, Kernel)
    first = kernel.schedule[: kernel.schedule.index("variant B == 1")]
    assert first[:3] == ("variant C == 1", "decide", "collapse i k") and not any(line.startswith("unroll") for line in first)
    assert "gather" not in c.rendered.source


@needs_cc
@pytest.mark.usefixtures("plain_c")
def test_values_by_a_compiler() -> None:
    f = luminal.compile(SWAPPED)
    rng = np.random.default_rng(8)
    for shape in [(70, 1, 33), (70, 33, 1), (1, 1, 1), (5, 1, 0), (3, 5, 7)]:
        x = rng.standard_normal(shape, dtype=np.float32)
        np.testing.assert_array_equal(f(x), x.transpose(0, 2, 1))
