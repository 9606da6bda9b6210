"""Convolution, pooling and resizing of the library against loops over windows in NumPy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from library import Array, Case, check


def places(extents: tuple[int, ...], kernel: tuple[int, ...], stride: int, dilation: int = 1) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Every window over the last axes: where it stands among the others, and what it holds."""
    counts = [(n - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(extents, kernel, strict=True)]
    for at in itertools.product(*map(range, counts)):
        yield at, tuple(slice(i * stride, i * stride + dilation * (k - 1) + 1, dilation) for i, k in zip(at, kernel, strict=True))


def windows(
    x: Array, kernel: tuple[int, ...], fold: Callable[..., Array], stride: int = 1, padding: int = 0, dilation: int = 1, value: float = 0.0
) -> Array:
    """`fold` of every window of the last axes: of an array whose own last axis holds the window's elements."""
    n = len(kernel)
    x = np.pad(x, [(0, 0)] * (x.ndim - n) + [(padding, padding)] * n, constant_values=value)
    found = {at: fold(x[(..., *part)].reshape(*x.shape[: x.ndim - n], -1)) for at, part in places(x.shape[-n:], kernel, stride, dilation)}
    counts = tuple(k + 1 for k in max(found))
    return np.stack([found[at] for at in np.ndindex(counts)], -1).reshape(*x.shape[: x.ndim - n], *counts)


def pool(n: int, fold: Callable[..., Array], value: float = 0.0, **options: int) -> Callable[[Array], Array]:
    return lambda x: windows(x, (3,) * n, fold, value=value, **options)


def mean(x: Array) -> Array:
    return x.mean(-1)


def largest(x: Array) -> Array:
    return x.max(-1)


def mean_inside(n: int, stride: int, padding: int) -> Callable[[Array], Array]:
    def run(x: Array) -> Array:
        options = {"stride": stride, "padding": padding}
        return windows(x, (3,) * n, lambda w: w.sum(-1), **options) / windows(np.ones_like(x), (3,) * n, lambda w: w.sum(-1), **options)

    return run


def depthwise(x: Array, k: Array, bias: Array | float = 0.0, **options: int) -> Array:
    flat = k.reshape(len(k), -1)
    return windows(x, k.shape[1:], lambda w: (w * flat).sum(-1), **options) + np.reshape(bias, (-1, *[1] * (k.ndim - 1)))


def causal(x: Array, k: Array, bias: Array, dilation: int = 1) -> Array:
    y = np.zeros_like(x) + bias[:, None]
    taps = k.shape[1]
    for t, s in itertools.product(range(x.shape[-1]), range(taps)):
        back = t - (taps - 1 - s) * dilation
        y[..., t] += x[..., back] * k[:, s] if back >= 0 else 0
    return y


def transposed(x: Array, k: Array, bias: Array, stride: int = 1, padding: int = 0, output_padding: int = 0, dilation: int = 1) -> Array:
    """Each element of x adds its filters to a large y, of which the padding is then cut off."""
    shape = [(n - 1) * stride + dilation * (r - 1) + 1 for n, r in zip(x.shape[2:], k.shape[2:], strict=True)]
    y = np.zeros((len(x), k.shape[1], *[n + output_padding for n in shape]))
    for at in np.ndindex(*x.shape[2:]):
        part = tuple(slice(i * stride, i * stride + dilation * (r - 1) + 1, dilation) for i, r in zip(at, k.shape[2:], strict=True))
        y[(..., *part)] += np.tensordot(x[(..., *at)], k, 1)
    y = y[(..., *[slice(padding, n + output_padding - padding) for n in shape])]
    return y + np.reshape(bias, (-1, *[1] * (k.ndim - 2)))


def grouped(x: Array, k: Array, bias: Array, groups: int, *options: int) -> Array:
    """A transposed convolution for each group of channels, one behind the other."""
    parts = [np.split(a, groups, axis) for a, axis in ((x, 1), (k, 0), (bias, 0))]
    return np.concatenate([transposed(*part, *options) for part in zip(*parts, strict=True)], 1)


def columns(x: Array, kernel: int = 3, stride: int = 1, padding: int = 0, dilation: int = 1) -> Array:
    x = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    found = [x[(..., *part)].reshape(len(x), -1) for _, part in places(x.shape[2:], (kernel, kernel), stride, dilation)]
    return np.stack(found, -1)


def image(x: Array, size: tuple[int, int] = (7, 9), kernel: int = 3, stride: int = 1, padding: int = 0, dilation: int = 1) -> Array:
    y = np.zeros((len(x), x.shape[1] // kernel**2, size[0] + 2 * padding, size[1] + 2 * padding))
    for column, (_, part) in enumerate(places(y.shape[2:], (kernel, kernel), stride, dilation)):
        y[(..., *part)] += x[..., column].reshape(*y.shape[:2], kernel, kernel)
    return y[..., padding : padding + size[0], padding : padding + size[1]]


def adaptive(n: int, size: tuple[int, ...], fold: Callable[..., Array]) -> Callable[[Array], Array]:
    def run(x: Array) -> Array:
        result = np.zeros((*x.shape[: x.ndim - n], *size))
        for at in np.ndindex(*size):
            part = tuple(slice(math.floor(i * e / s), math.ceil((i + 1) * e / s)) for i, e, s in zip(at, x.shape[-n:], size, strict=True))
            result[(..., *at)] = fold(x[(..., *part)].reshape(*x.shape[: x.ndim - n], -1))
        return result

    return run


def hat(d: float) -> float:
    return max(0.0, 1 - abs(d))


def keys(d: float) -> float:
    """The kernel of cubic convolution as a function of the distance, a = -3/4."""
    a, d = -0.75, abs(d)
    return (a + 2) * d**3 - (a + 3) * d**2 + 1 if d <= 1 else a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def weights(n: int, size: int, kernel: Callable[[float], float], corners: bool) -> Array:
    """[size n]: how much of each element is in each position; elements outside are those at the border."""
    found = np.zeros((size, n))
    for i in range(size):
        at = i * (n - 1) / max(size - 1, 1) if corners else (i + 0.5) * n / size - 0.5
        at = max(at, 0) if kernel is hat else at
        for j in range(math.floor(at) - 2, math.floor(at) + 4):
            found[i, min(max(j, 0), n - 1)] += kernel(at - j)
    return found


def resized(x: Array, kernel: Callable[[float], float], size: tuple[int, int], corners: bool) -> Array:
    return weights(x.shape[-2], size[0], kernel, corners) @ x @ weights(x.shape[-1], size[1], kernel, corners).T


def nearest(x: Array) -> Array:
    return x[..., [i * x.shape[-2] // 7 for i in range(7)], :][..., [i * x.shape[-1] // 23 for i in range(23)]]


def shuffled(x: Array, f: int = 3) -> Array:
    b, c, h, w = x.shape
    y = np.zeros((b, c // f**2, h * f, w * f))
    for r, s in itertools.product(range(f), range(f)):
        y[:, :, r::f, s::f] = x[:, r * f + s :: f * f]
    return y


def unshuffled(x: Array, f: int = 3) -> Array:
    parts = [x[:, :, r::f, s::f] for r, s in itertools.product(range(f), range(f))]
    return np.stack(parts, 2).reshape(len(x), -1, x.shape[2] // f, x.shape[3] // f)


def patches(x: Array, p: int = 3) -> Array:
    rows, cols = (range(0, n, p) for n in x.shape[2:])
    return np.stack([x[:, :, i : i + p, j : j + p].reshape(len(x), -1) for i in rows for j in cols], 1)


def with_zeros(x: Array) -> Array:
    """-inf where padding is read as 0 would show."""
    return -np.abs(x) - 1


IMAGES = [{"B": 2, "C": 3, "H": 9, "W": 11, "R": 3, "S": 3, "G": 2}]
SPD = {"stride": 2, "padding": 1, "dilation": 2}
CASES = [
    Case("depthwise_conv2d", depthwise), Case("depthwise_conv2d", depthwise, given=()),
    Case("depthwise_conv2d", lambda x, k, b: depthwise(x, k, b, **SPD), SPD, sizes=IMAGES),
    Case("causal_conv1d", causal), Case("causal_conv1d", lambda x, k, b: causal(x, k, b, 3), {"dilation": 3}),
    Case("pointwise_conv2d", lambda x, k, b: np.einsum("oc,bchw->bohw", k, x) + b[:, None, None]),
    Case("conv_transpose1d", transposed), Case("conv_transpose2d", transposed),
    Case("conv_transpose1d", lambda x, k, b: transposed(x, k, b, 3, 2, 1, 2), {"stride": 3, "padding": 2, "output_padding": 1, "dilation": 2}, sizes=[{"B": 2, "C": 5, "L": 4, "G": 3, "S": 4}]),
    Case("conv_transpose1d", lambda x, k, b: grouped(x, k, b, 2), {"groups": 2}, sizes=[{"B": 2, "C": 6, "L": 5, "G": 3, "S": 4}]),
    Case("conv_transpose2d", lambda x, k, b: grouped(x, k, b, 3, 2, 1, 1), {"groups": 3, "stride": 2, "padding": 1, "output_padding": 1}, sizes=[{"B": 2, "C": 6, "H": 4, "W": 5, "G": 2, "R": 3, "S": 4}]),
    Case("conv_transpose2d", lambda x, k: grouped(x, k, np.zeros(6), 3), {"groups": 3}, given=(), sizes=[{"B": 2, "C": 6, "H": 4, "W": 5, "G": 2, "R": 3, "S": 4}]),
    Case("conv_transpose2d", lambda x, k, b: transposed(x, k, b, 2, 1, 1), {"stride": 2, "padding": 1, "output_padding": 1}, sizes=IMAGES),
    Case("conv_transpose3d", transposed),
    Case("conv_transpose3d", lambda x, k, b: grouped(x, k, b, 2, 2, 1, 1), {"groups": 2, "stride": 2, "padding": 1, "output_padding": 1}, sizes=[{"B": 2, "C": 4, "D": 3, "H": 2, "W": 4, "G": 3, "Q": 2, "R": 3, "S": 4}]),
    Case("conv_transpose3d", lambda x, k, b: transposed(x, k, b, 3, 2, 0, 2), {"stride": 3, "padding": 2, "dilation": 2}, sizes=[{"B": 1, "C": 2, "D": 3, "H": 2, "W": 4, "G": 2, "Q": 2, "R": 3, "S": 2}]),
    Case("im2col", columns), Case("im2col", lambda x: columns(x, 2, **SPD), {"kernel": 2, **SPD}, sizes=IMAGES), Case("col2im", image),
    Case("col2im", lambda x: image(x, (8, 6), 2, **SPD), {"size": [8, 6], "kernel": 2, **SPD}, sizes=[{"B": 2, "I": 12, "J": 12}]),
    Case("maxpool1d", pool(1, largest)),
    Case("maxpool1d", pool(1, largest, -np.inf, stride=2, padding=1, dilation=2), {"stride": 2, "padding": 1, "dilation": 2}, sizes=[{"batch": 3, "L": 17}], inputs={"X": with_zeros}),
    Case("avgpool1d", pool(1, mean)), Case("avgpool1d", pool(1, mean, stride=2, padding=1), {"stride": 2, "padding": 1}),
    Case("avgpool1d", mean_inside(1, 2, 1), {"stride": 2, "padding": 1, "count_include_pad": False}),
    Case("maxpool3d", pool(3, largest)), Case("avgpool3d", pool(3, mean)), Case("avgpool3d", pool(3, mean, stride=2, padding=1), {"stride": 2, "padding": 1}),
    Case("maxpool3d", pool(3, largest, -np.inf, stride=2, padding=1), {"stride": 2, "padding": 1}, inputs={"X": with_zeros}),
    *(Case("lppool2d", pool(2, lambda w, p=p: np.linalg.norm(w, p, axis=-1), stride=2), {"p": p, "stride": 2}) for p in (1.0, 2.0, 3.5)),
    Case("adaptive_avgpool1d", adaptive(1, (5,), mean)), Case("adaptive_maxpool1d", adaptive(1, (5,), largest), inputs={"X": with_zeros}),
    Case("adaptive_avgpool2d", adaptive(2, (4, 5), mean)), Case("adaptive_maxpool2d", adaptive(2, (4, 5), largest), inputs={"X": with_zeros}),
    Case("adaptive_avgpool2d", adaptive(2, (3, 3), mean), {"size": 3}, inputs={"X": lambda x: np.where(x > 1, np.inf, x)}),  # what is outside a window does not leak
    Case("global_avgpool", lambda x: x.mean((-2, -1))), Case("global_maxpool", lambda x: x.max((-2, -1))),
    Case("resize_nearest", nearest),
    *(Case("resize_linear", lambda x, c=c: x @ weights(x.shape[-1], 23, hat, c).T, {"align_corners": c}) for c in (False, True)),
    *(Case("resize_bilinear", lambda x, c=c: resized(x, hat, (7, 23), c), {"align_corners": c}) for c in (False, True)),
    *(Case("resize_bicubic", lambda x, c=c: resized(x, keys, (7, 23), c), {"align_corners": c}) for c in (False, True)),
    Case("resize_bilinear", lambda x: resized(x, hat, (1, 1), True), {"size": 1, "align_corners": True}),
    Case("pixel_shuffle", shuffled), Case("pixel_unshuffle", unshuffled), Case("patchify", patches),
    Case("channel_shuffle", lambda x: np.concatenate([x[:, k :: x.shape[1] // 3] for k in range(x.shape[1] // 3)], 1)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_images(case: Case) -> None:
    check(case)
