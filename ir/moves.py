"""Vectors of a GPU: it computes with none, but a thread moves a piece of memory at once that is as long as one."""

from __future__ import annotations

from .expr import Expr

VECTOR_BYTES = 16


def is_moved(e: Expr) -> bool:
    """Whether a vector is loaded, all of it or its first lanes, chosen as a whole, or made of one number; its elements have 16 or 32 bits."""
    if e.dtype.bytes != VECTOR_BYTES or e.dtype.element.bits not in (16, 32):
        return False
    if e.op == "where":
        return e.args[0].dtype.lanes == 1
    return (e.op == "vload" and len(e.args) < 3) or e.op in ("load", "broadcast")
