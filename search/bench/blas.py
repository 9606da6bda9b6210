"""The matrix product of the BLAS that NumPy brings along, called as C calls it: a peer without Python in between."""

from __future__ import annotations

import ctypes
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy

from ...ir.expr import axis
from ...ir.graph import Graph, Node, View

_ROW_MAJOR, _PLAIN, _TRANSPOSED = 101, 111, 112


@cache
def library() -> ctypes.CDLL | None:
    """The OpenBLAS inside NumPy's wheel (64-bit integers), or None where NumPy has another."""
    folder = Path(numpy.__file__).parent.parent / "numpy.libs"
    for file in sorted(folder.glob("libscipy_openblas64_*")):
        try:
            return ctypes.CDLL(str(file))
        except OSError:
            continue
    return None


def use_threads(count: int) -> None:
    found = library()
    if found is not None:
        found.scipy_openblas_set_num_threads64_(count)


def product_of(graph: Graph) -> tuple[str, str, str, bool, bool, str | None, str | None] | None:
    """(A, B, C, A transposed, B transposed, alpha, beta) where the graph is C = alpha · op(A) op(B) + beta · C on ports alone; alpha and beta are scalar ports, or None for 1
    (for beta: "" where C is only written).  None where it is something else."""
    if len(graph.outputs) != 1:
        return None
    ((name, node),) = graph.outputs
    beta: str | None = ""
    if node.op == "add" and all(v.is_identity for v in node.args):
        terms = [_scaled(v) for v in node.args]
        olds = [k for k, (_, n) in enumerate(terms) if n.op == "input" and n.attr.name == name]
        if len(olds) != 1:
            return None
        beta, (alpha, core) = terms[olds[0]][0], terms[1 - olds[0]]
    else:
        alpha, core = _scaled(View(node, tuple(axis(k) for k in range(node.rank))))
    if core.op != "reduce" or core.attr.combiner != "add" or core.args[0].node.op != "mul" or not core.args[0].is_identity:
        return None
    first = core.rank - 2  # a leading axis is taken only where its extent is 1
    if first not in (0, 1) or len(core.attr.extents) != 1:
        return None
    m, n, k = (axis(first), axis(first + 1), axis(first + 2))
    factors = core.args[0].node.args
    if any(v.node.op != "input" or v.domain is not None or len(v.index) != first + 2 or (first and v.index[0] is not axis(0)) for v in factors):
        return None
    by_axes = {v.index[first:]: v.node.attr.name for v in reversed(factors)}
    a = next(((name, t) for pair, t in (((m, k), False), ((k, m), True)) if (name := by_axes.get(pair))), None)
    b = next(((name, t) for pair, t in (((k, n), False), ((n, k), True)) if (name := by_axes.get(pair))), None)
    return None if a is None or b is None else (a[0], b[0], name_of(graph), a[1], b[1], alpha, beta)


def name_of(graph: Graph) -> str:
    return graph.outputs[0][0]


def _scaled(view: View) -> tuple[str | None, Node]:
    """A product of a scalar port and something, taken apart; None for the factor where there is none."""
    node = view.node
    if node.op == "mul":
        for one, other in (node.args, node.args[::-1]):
            if one.node.op == "input" and one.node.rank == 0 and other.is_identity:
                return one.node.attr.name, other.node
    return None, node


def call(graph: Graph, arrays: dict[str, Any], scalars: dict[str, Any]) -> tuple[partial[Any], str] | None:
    """The product over these arrays (row-major, leading axes of extent 1), with its arguments fixed, and how it is written; None where BLAS has no such call."""
    found, blas = product_of(graph), library()
    if found is None or blas is None:
        return None
    a, b, c, of_a, of_b, alpha, beta = found
    kind = {"float32": ("s", ctypes.c_float), "float64": ("d", ctypes.c_double)}.get(arrays[c].dtype.name)
    if kind is None or any((arrays[p].ndim == 3 and arrays[p].shape[0] != 1) or not arrays[p].flags.c_contiguous for p in (a, b, c)):
        return None
    function = getattr(blas, f"scipy_cblas_{kind[0]}gemm64_")
    number, real, pointer = ctypes.c_int64, kind[1], ctypes.c_void_p
    function.argtypes = [*(ctypes.c_int32,) * 3, number, number, number, real, pointer, number, pointer, number, real, pointer, number]
    function.restype = None
    (m, n), k = arrays[c].shape[-2:], arrays[a].shape[-2 if of_a else -1]
    one = {None: 1.0, "": 0.0} | scalars
    at = {p: arrays[p].ctypes.data for p in (a, b, c)}
    made = partial(
        function, _ROW_MAJOR, _TRANSPOSED if of_a else _PLAIN, _TRANSPOSED if of_b else _PLAIN, m, n, k,
        one[alpha], at[a], arrays[a].shape[-1], at[b], arrays[b].shape[-1], one[beta], at[c], arrays[c].shape[-1],
    )  # fmt: skip
    made.__dict__["arrays"] = arrays
    return made, f"cblas_{kind[0]}gemm({a}{'ᵀ' * of_a}, {b}{'ᵀ' * of_b}, {c})"
