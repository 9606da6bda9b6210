"""Complex numbers and Fourier transforms of the library against NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from library import Array, Case, check
from scipy import ndimage, signal


def adjoint(a: Array) -> Array:
    return np.swapaxes(a.conj(), -1, -2)


def short_time(x: Array) -> Array:
    frames = np.lib.stride_tricks.sliding_window_view(x, 16, -1)[..., ::5, :]
    return np.fft.rfft(frames * signal.windows.hann(16, sym=False), axis=-1)


def around(a: Array, b: Array) -> Array:
    n = a.shape[-1]
    return np.stack([ndimage.convolve1d(p, np.roll(q, n // 2), mode="wrap") for p, q in zip(a, b, strict=True)])


def transform(x: Array) -> Array:
    return np.fft.fft(x, axis=-1) if x.shape[-1] else x


# twiddles are rounded to c64 where they stand in a table, so transforms are as near as c64 is
TABLE = 1e-5
CASES = [
    Case("complex_add", np.add), Case("complex_mul", np.multiply), Case("complex_div", np.divide), Case("complex_abs", np.abs), Case("complex_angle", np.angle),
    Case("conjugate", np.conj), Case("real_part", np.real), Case("imaginary_part", np.imag), Case("from_parts", lambda x, y: x + 1j * y),
    Case("polar", lambda r, p: r * np.exp(1j * p)), Case("cis", lambda x: np.exp(1j * x)), Case("complex_exp", np.exp), Case("complex_log", np.log),
    Case("complex_sqrt", np.sqrt), Case("complex_sqrt", np.sqrt, inputs={"Z": lambda z: -np.abs(z) + 0j}), Case("power_spectrum", lambda z: np.abs(z) ** 2),
    Case("complex_matmul", np.matmul), Case("vdot", lambda a, b: (a.conj() * b).sum(-1)), Case("adjoint", adjoint),
    Case("dft", transform), Case("fft", transform), Case("fft", transform, ranks=2, sizes=[{"batch_0": 2, "batch_1": 3, "N": 18}]),
    Case("fft", transform, sizes=[{"batch": 1, "N": n} for n in (2, 3, 4, 5, 8, 9, 11, 12, 35, 49)]),
    Case("fft", transform, sizes=[{"batch": b, "N": n} for b, n in ((16, 16), (17, 30), (33, 37), (16, 96), (15, 128), (18, 128), (16, 255), (16, 256))]),  # rows side by side, and others
    Case("ifft", np.fft.ifft), Case("rfft", np.fft.rfft), Case("irfft", np.fft.irfft), Case("fft2", np.fft.fft2),
    Case("fftshift", lambda x: np.fft.fftshift(x, -1)), Case("ifftshift", lambda x: np.fft.ifftshift(x, -1)),
    Case("circular_convolution", around, tolerance=TABLE), Case("stft", short_time, tolerance=TABLE),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_complex(case: Case) -> None:
    check(case)
