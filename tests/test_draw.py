"""Inputs drawn for tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from luminal.ir.dtypes import u8
from luminal.ir.errors import UsageError
from luminal.ir.expr import const
from luminal.ir.graph import Port
from luminal.search.draw import draw


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
