"""Linear algebra of the library against NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from library import Array, Case, check
from scipy import linalg
from scipy.spatial.distance import cdist


def swapped(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


def triangular(a: Array, b: Array, **options: bool | int) -> Array:
    return np.stack([linalg.solve_triangular(p, q, **options) for p, q in zip(a, b, strict=True)])


def lu(a: Array) -> tuple[Array, Array]:
    """Without exchanges of rows: by the recursion on Schur's complement."""
    n = a.shape[-1]
    lower, upper, rest = np.zeros_like(a) + np.eye(n), np.zeros_like(a), a.copy()
    for k in range(n):
        upper[:, k, k:] = rest[:, k, k:]
        lower[:, k + 1 :, k] = rest[:, k + 1 :, k] / rest[:, k, k, None]
        rest[:, k + 1 :] -= lower[:, k + 1 :, k, None] * rest[:, k, None]
    return lower, upper


def ldl(a: Array) -> tuple[Array, Array]:
    factor = np.linalg.cholesky(a)
    roots = np.diagonal(factor, axis1=-2, axis2=-1)
    return factor / roots[:, None], roots**2


def qr(a: Array) -> tuple[Array, Array]:
    q, r = np.linalg.qr(a)
    signs = np.where(np.diagonal(r) < 0, -1.0, 1.0)
    return q * signs, r * signs[:, None]


def symmetric(a: Array) -> Array:
    return np.tril(a) + np.tril(a, -1).T


def unit(x: Array) -> Array:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def axpby(a: Array, b: Array, alpha: float, beta: float) -> Array:
    return alpha * a + beta * b


UNIT = {"unit": True}
CASES = [
    Case("matmul", np.matmul), Case("matvec", np.matmul), Case("dot", np.dot), Case("outer", np.outer), Case("trace", np.trace),
    Case("gemm", lambda a, b, c, alpha, beta: axpby(a @ b, c, alpha, beta)), Case("gemm_tn", lambda a, b, c, alpha, beta: axpby(a.T @ b, c, alpha, beta)),
    Case("gemm_nt", lambda a, b, c, alpha, beta: axpby(a @ b.T, c, alpha, beta)), Case("gemm_tt", lambda a, b, c, alpha, beta: axpby(a.T @ b.T, c, alpha, beta)),
    Case("gemv", lambda a, x, y, alpha, beta: axpby(a @ x, y, alpha, beta)), Case("gemv_t", lambda a, x, y, alpha, beta: axpby(a.T @ x, y, alpha, beta)),
    Case("ger", lambda x, y, a, alpha: a + alpha * np.outer(x, y)), Case("axpy", lambda x, y, alpha: alpha * x + y),
    Case("syrk", lambda a, c, alpha, beta: axpby(a @ a.T, c, alpha, beta)), Case("symm", lambda a, b, c, alpha, beta: axpby(symmetric(a) @ b, c, alpha, beta)),
    Case("trmm", lambda a, b, alpha: alpha * (np.tril(a) @ b)), Case("linear_combination", axpby),
    Case("bmm", np.matmul), Case("vecdot", lambda a, b: np.einsum("...i,...i", a, b)), Case("quadratic_form", lambda x, a: ((x @ a) * x).sum(-1)),
    Case("bilinear", lambda x, y, w, b: np.stack([((x @ m) * y).sum(-1) for m in w], -1) + b),
    Case("bilinear", lambda x, y, w: np.stack([((x @ m) * y).sum(-1) for m in w], -1), given=()),
    Case("kron", np.kron), Case("cross", np.cross), Case("trace_product", lambda a, b: np.trace(a @ b)), Case("tensordot", lambda a, b: np.tensordot(a, b, 1)),
    *(Case("matrix_power", lambda a, n=n: np.linalg.matrix_power(a, n), {"n": n}, inputs={"A": lambda a: a / len(a)}) for n in (0, 1, 2, 5, 11, 255)),
    Case("gram", lambda x: x @ swapped(x)), Case("covariance", lambda x: np.atleast_2d(np.cov(x))), Case("correlation", lambda x: np.atleast_2d(np.corrcoef(x))),
    Case("pairwise_distance", lambda x, y: np.stack([cdist(a, b) for a, b in zip(x, y, strict=True)])),
    Case("cosine_similarity", lambda a, b: (unit(a) * unit(b)).sum(-1)), Case("normalize", unit), Case("normalize", lambda x: x * 0, inputs={"X": lambda x: x * 0}),
    Case("projection", lambda a, b: (a * unit(b)).sum(-1, keepdims=True) * unit(b)),
    Case("solve_lower", lambda a, b: triangular(a, b, lower=True)), Case("solve_lower", lambda a, b: triangular(a, b, lower=True, unit_diagonal=True), UNIT),
    Case("solve_upper", triangular), Case("solve_upper", lambda a, b: triangular(a, b, unit_diagonal=True), UNIT),
    Case("solve_lower_transposed", lambda a, b: triangular(a, b, lower=True, trans=1)),
    Case("solve_lower_transposed", lambda a, b: triangular(a, b, lower=True, trans=1, unit_diagonal=True), UNIT),
    Case("cholesky", np.linalg.cholesky), Case("cholesky", lambda a: np.full_like(a, np.nan), sizes=[{"batch": 2, "N": 1}], inputs={"A": lambda a: -a}),
    Case("cholesky_solve", np.linalg.solve, tolerance=1e-8), Case("lu", lu, tolerance=1e-9), Case("ldl", ldl, tolerance=1e-9),
    Case("inverse_lower", lambda a: np.linalg.inv(np.tril(a)), tolerance=1e-9), Case("solve", np.linalg.solve, tolerance=1e-9),
    Case("solve", lambda a, b: b[:, ::-1], inputs={"A": lambda a: np.zeros_like(a) + np.eye(a.shape[-1])[::-1]}),  # no pivot without an exchange
    Case("inverse", np.linalg.inv, tolerance=1e-9), Case("inverse", np.linalg.inv, ranks=2, sizes=[{"batch_0": 2, "batch_1": 2, "N": 5}], tolerance=1e-9),
    Case("determinant", np.linalg.det, tolerance=1e-9), Case("determinant", np.linalg.det, inputs={"A": lambda a: a * 0}),
    Case("qr", qr), Case("qr", lambda a: (np.eye(*a.shape), a.T @ np.eye(*a.shape)), inputs={"A": lambda a: np.eye(*a.shape)}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_linalg(case: Case) -> None:
    check(case)
