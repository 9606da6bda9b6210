"""What no loop changes is no register: each value that it is given has a name.

    alloc acc: f32[] register                let acc.b = 0.0
    acc[] = 0.0                              let acc.c = acc.b + X[i, 0]
    acc[] add= X[i, 0]                →      Y[i] = acc.c * 2.0
    Y[i] = acc[] * 2.0

So a reduction over one element is seen to be none, and vectors run along what is around it.
"""

from __future__ import annotations

from ....ir.expr import Expr, call, var
from ....ir.kernel import COMBINERS, Alloc, Block, Kernel, Let, Loop, Stmt, Store, map_block, map_expressions, statements, with_body
from ....ir.places import homes_in
from ....ir.walks import rewrite
from ..tree import fresh, reads


def named_values(kernel: Kernel) -> Kernel:
    """The kernel without the registers of one element that are stored into where they stand and in no loop or branch, before anything reads them."""
    taken = {*kernel.buffers, *homes_in(kernel)}
    body = _named(map_block(kernel.body, lambda s: _inside(s, taken)), taken)
    return kernel if body is kernel.body else kernel.with_body(body)


def _inside(s: Stmt, taken: set[str]) -> Block | None:
    if not isinstance(s, Loop):
        return None
    body = _named(s.body, taken)
    return None if body is s.body else (with_body(s, body),)


def _named(block: Block, taken: set[str]) -> Block:
    for s in block:
        if isinstance(s, Alloc) and s.buffer.space == "register" and not s.buffer.shape:
            block = _without(block, s, taken)
    return block


def _without(block: Block, alloc: Alloc, taken: set[str]) -> Block:
    name = alloc.buffer.name
    stores = [s for s in block if isinstance(s, Store) and s.buffer == name]
    if not stores or stores[0].combiner or len(stores) < sum(isinstance(s, Store) and s.buffer == name for s in statements(block)):
        return block
    if any(n.attr == name for n in reads(block[: block.index(stores[0]) + 1])):
        return block
    result: list[Stmt] = []
    value: Expr | None = None
    for s in block:
        if s is alloc:
            continue
        if value is not None:
            (s,) = map_expressions((s,), lambda e, now=value: rewrite(e, lambda n: now if n.op == "load" and n.attr == name else None))
        if isinstance(s, Store) and s.buffer == name:
            new = call(COMBINERS[s.combiner].op, value, s.value) if value is not None and s.combiner else s.value
            s = Let(fresh(name, taken), new)
            value = var(s.name, new.dtype)
        result.append(s)
    return tuple(result)
