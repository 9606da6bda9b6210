"""Every small environment that some ranges admit, and expressions evaluated in all of them at once."""

import itertools

import numpy as np
import pytest
from luminal.ir.expr import Expr, size, var
from luminal.ir.walks import postorder

N, M, K, B = map(size, "NMKB")
I, J, P, V, W = map(var, "ijpvw")  # noqa: E741

# Sizes, a variable inside one of them, one inside a constant, one inside a multiple of 4, and two without a sign.
RANGES = {
    "N": (0, None, 1), "M": (1, None, 1), "K": (0, None, 4), "B": (2, 3, 1), "i": (0, N - 1, 1), "j": (0, 3, 1), "p": (0, K - 1, 1), "v": (-3, 2, 1), "w": (None, None, 1),
}  # fmt: skip


def environments():
    """Every small environment that RANGES admit, as one array a name."""
    rows = [
        (n, m, k, b, i, j, p, v, w)
        for n, m, k, b, j, v, w in itertools.product((0, 1, 2, 5), (1, 3), (0, 4, 8), (2, 3), (0, 1, 3), (-3, -1, 0, 2), (-7, 0, 4))
        for i in sorted({0, n // 2, n - 1}) if 0 <= i < n
        for p in sorted({0, 1, k // 2, k - 1}) if 0 <= p < k
    ]  # fmt: skip
    return dict(zip("NMKBijpvw", np.array(rows).T, strict=True))


ENVIRONMENTS = environments()
# The same names with nothing known of i and p, so that every size may be 0.
LOOSE_RANGES = {**RANGES, "i": (None, None, 1), "p": (None, None, 1)}
LOOSE = dict(zip("NMKBijpvw", np.array([
    (n, m, k, b, i, j, p, v, w)
    for n, m, k, b, i, j, p, v, w in itertools.product((0, 1, 3), (1, 2), (0, 4), (2, 3), (-2, 1), (0, 3), (-1, 5), (-3, 2), (-7, 0, 4))
]).T, strict=True))  # fmt: skip
SPACES = {"tight": (RANGES, ENVIRONMENTS), "loose": (LOOSE_RANGES, LOOSE)}
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide, "mod": np.mod, "min": np.minimum, "max": np.maximum,
    "less_than": np.less, "less_equal": np.less_equal, "equal": np.equal, "not_equal": np.not_equal, "bit_and": np.logical_and, "bit_or": np.logical_or,
}  # fmt: skip


def values(e: Expr, space=ENVIRONMENTS):
    """(values, where they are defined) in every environment; a division by 0 anywhere is undefined."""
    count = len(space["N"])
    done, defined = {}, np.ones(count, bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        for n in postorder(e):
            a = [done[x] for x in n.args]
            if n.op == "const":
                done[n] = np.full(count, n.attr)
            elif n.op in ("size", "var"):
                done[n] = space[n.attr]
            elif n.op == "where":
                done[n] = np.where(*a)
            elif n.op == "bit_not":
                done[n] = ~a[0]
            elif n.op == "neg":
                done[n] = -a[0]
            else:
                if n.op in ("floordiv", "mod"):
                    defined &= a[1] != 0
                done[n] = BINARY[n.op](*a)
    return done[e], defined


def check_same(before: Expr, after: Expr, only=None, space=ENVIRONMENTS):
    want, defined = values(before, space)
    got, still = values(after, space)
    cares = defined if only is None else defined & only
    assert (still | ~cares).all(), f"{before} → {after} divides by 0"
    wrong = np.flatnonzero(cares & (want != got))
    if wrong.size:
        k = wrong[0]
        pytest.fail(f"{before} → {after}: {want[k]} became {got[k]} at { {n: int(a[k]) for n, a in space.items()} }")
