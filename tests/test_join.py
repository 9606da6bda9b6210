"""Elementwise kernels over one domain become one, where each point of the domain has what they hand on for itself; the meaning stays."""

from __future__ import annotations

import numpy as np
import pytest
from luminal.ir.kernel import Module
from luminal.ir.target import Options
from luminal.ir.text import read, show
from luminal.ir.verify import verify
from luminal.passes.join import join
from running import TARGET
from scheduling import same

pytestmark = pytest.mark.usefixtures("plain_c")

OPTIONS = Options(level=2)
BUFFERS = {
    "X": "in X: f32[N]",
    "Z": "in Z: f32[M, N]",
    "P": "inout P: f32[N]",
    "Y": "out Y: f32[N]",
    "W": "out W: f32[M, N]",
    "B": "out B: bool[N]",
    "T": "temp T: f32[N]",
}


def elementwise(name: str, buffers: str, *lines: str, extents: str = "i N") -> str:
    ordered = ", ".join(sorted(buffers.split(", "), key=[*BUFFERS].index))
    text, depth = f"\nkernel {name}({ordered}):\n", 1
    words = extents.split()
    for axis, extent in zip(words[::2], words[1::2], strict=True):
        text += "  " * depth + f"for {axis} in 0 .. {extent} parallel:\n"
        depth += 1
    return text + "".join("  " * depth + line + "\n" for line in lines)


def module(*kernels: str) -> Module:
    """With the buffers that the kernels name."""
    used = {b for k in kernels for b in k[k.index("(") + 1 : k.index(")")].split(", ")}
    found = read("kernels t v1\nsize M\nsize N\n" + "\n".join(line for b, line in BUFFERS.items() if b in used) + "\n" + "".join(kernels))
    assert isinstance(found, Module)
    verify(found)
    return found


A = elementwise("t_0", "X, T", "T[i] = X[i] * 2.0:f32")
# name -> kernels, how many there are afterwards, temporaries that are left
CASES = {
    "a temporary": ((A, elementwise("t_1", "Y, T", "Y[i] = T[i] + 1.0:f32")), 1, 0),
    "a temporary that somebody else reads": (
        (A, elementwise("t_1", "Y, T", "Y[i] = T[i] + 1.0:f32"), elementwise("t_2", "W, T", "W[i, j] = T[j]", extents="i M j N")),
        2,
        1,
    ),
    "in place": ((elementwise("t_0", "X, P", "P[i] = P[i] * X[i]"), elementwise("t_1", "P, Y", "Y[i] = P[i] - 1.0:f32")), 1, 0),
    "read before it is written": ((elementwise("t_0", "P, Y", "Y[i] = P[i]"), elementwise("t_1", "X, P", "P[i] = X[i]")), 1, 0),
    "other names": ((A, elementwise("t_1", "Y, T", "let t: f32 = T[k]", "Y[k] = t * t", extents="k N")), 1, 0),
    "names twice": (
        (elementwise("t_0", "X, T", "let t: f32 = exp(X[i])", "T[i] = t * t"), elementwise("t_1", "Y, T", "let t: f32 = T[i] + 1.0:f32", "Y[i] = t * t")),
        1,
        0,
    ),
    "across a kernel that has nothing to do with it": (
        (A, elementwise("t_1", "Z, W", "W[i, j] = Z[i, j]", extents="i M j N"), elementwise("t_2", "Y, T", "Y[i] = T[i]")),
        2,
        0,
    ),
    "the first across a kernel that reads what the second writes": (
        (elementwise("t_0", "X, Y", "Y[i] = X[i]"), elementwise("t_1", "P, W", "W[i, j] = P[j]", extents="i M j N"), elementwise("t_2", "X, P", "P[i] = X[i]")),
        2,
        0,
    ),
    "not across a kernel that reads what both write": (
        (elementwise("t_0", "X, T", "T[i] = X[i]"), elementwise("t_1", "P, T, W", "W[i, j] = P[j] + T[j]", extents="i M j N"), elementwise("t_2", "X, P", "P[i] = X[i]")),
        3,
        1,
    ),
    "a neighbour": ((A, elementwise("t_1", "Y, T", "Y[i] = T[max(i - 1, 0)]")), 2, 1),
    "backwards": ((A, elementwise("t_1", "Y, T", "Y[i] = T[N - 1 - i]")), 2, 1),
    "one element for all": ((A, elementwise("t_1", "Y, T", "Y[i] = T[0]")), 2, 1),
    "another domain": ((A, elementwise("t_1", "W, T", "W[i, j] = T[j]", extents="i M j N")), 2, 1),
    "nothing in common": ((A, elementwise("t_1", "P", "P[i] = P[i] + 1.0:f32"), elementwise("t_2", "T, Y", "Y[i] = T[0]")), 3, 1),
    "another width": ((A, elementwise("t_1", "T, B", "B[i] = 0.0:f32 < T[i]")), 2, 1),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_kernels_join(case: str) -> None:
    kernels, count, temps = CASES[case]
    before = module(*kernels)
    after = join(before, TARGET, OPTIONS)
    verify(after)
    assert len(after.kernels) == count and len(after.temps) == temps, show(after)
    same(before, after)
    assert read(show(after)) == after
    assert join(after, TARGET, OPTIONS) == after


def test_an_optimiser_is_one_kernel() -> None:
    import luminal

    adam = luminal.compile("adam", runtime="reference")
    assert adam.compilation.kernels == 1
    p, g, m, v = (np.full(5, x, np.float32) for x in (1.0, 0.5, 0.0, 0.0))
    adam(p, g, m, v, 0.1, 1)
    np.testing.assert_allclose(m, 0.05, rtol=1e-6)
    np.testing.assert_allclose(v, 0.00025, rtol=1e-5)
    np.testing.assert_allclose(p, 0.9, rtol=1e-5)
