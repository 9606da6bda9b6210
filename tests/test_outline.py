"""One iteration of a parallel loop as a function of its own."""

from __future__ import annotations

import luminal
import numpy as np


def test_what_an_iteration_only_asks_for_is_a_parameter_too() -> None:
    """Of a complex value whose imaginary part nobody needs, hints are left."""
    inverse = luminal.compile("irfft", runtime="reference")
    x = np.fft.rfft(np.random.default_rng(4).standard_normal((3, 8))).astype(np.complex64)
    np.testing.assert_allclose(inverse(x), np.fft.irfft(x), atol=1e-6)
