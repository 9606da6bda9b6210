"""The step that stores a result past the caches: `stream_store`."""

from __future__ import annotations

from dataclasses import replace

from ...ir.expr import FALSE, Expr, const
from ...ir.kernel import Block, Kernel, Stmt, Store, map_block, statements
from ...ir.simplify import simplify
from .tree import Facts, StepError, reads


def stream_store(kernel: Kernel, facts: Facts, buffer: str, least: int = 0) -> Kernel:
    """Store a result past the caches where it has `least` bytes or more: what would be evicted before anybody reads it need not be fetched either, so a line is written
    without being read first.

        for i in 0 .. M:                     for i in 0 .. M:
          Y[i] = exp(X[i])            →        Y[i] = exp(X[i]) stream 16777216 <= M * 4

    `buffer` is a port or lives between kernels; this kernel only stores it, never accumulates into it, and reads nothing of it.
    """
    if buffer not in facts.buffers:
        raise StepError(f"stream_store: `{buffer}` is local, or no buffer")
    stores = [s for s in statements(kernel.body) if isinstance(s, Store) and s.buffer == buffer]
    if not stores:
        raise StepError(f"stream_store: the kernel does not store `{buffer}`")
    if any(s.combiner for s in stores) or any(n.attr == buffer for n in reads(kernel.body)):
        raise StepError(f"stream_store: the kernel reads `{buffer}` again")
    condition = _large(facts, buffer, least)
    if condition is FALSE:
        raise StepError(f"stream_store: `{buffer}` never has {least} bytes")

    def one(s: Stmt) -> Block | None:
        return (replace(s, stream=condition),) if isinstance(s, Store) and s.buffer == buffer else None

    return kernel.with_body(map_block(kernel.body, one))


def _large(facts: Facts, buffer: str, least: int) -> Expr:
    held = facts.buffers[buffer]
    return simplify(const(least).le(held.elements * held.dtype.bytes), facts.known)
