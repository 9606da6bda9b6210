"""The steps that keep numbers in the bits that they have, `narrow`, and in the bits of where they are kept, `unrounded`."""

from __future__ import annotations

from ....ir.dtypes import DType
from ....ir.expr import Expr, cast, load
from ....ir.kernel import Alloc, Block, Kernel, Store, map_block, map_expressions, statements
from ....ir.record import replace
from ....ir.walks import rewrite
from ..tree import Facts, StepError, local_buffers


def narrow(kernel: Kernel, facts: Facts, buffer: str) -> Kernel:
    """A local buffer holds what has been rounded to a smaller type as that type.

        alloc W: f32[256] private               alloc W: bf16[256] private
        for i in 0 .. N:                        for i in 0 .. N:
          W[i] = cast.f32(cast.bf16(f(i)))  →     W[i] = cast.bf16(f(i))
        …                                       …
          … W[i] …                                … cast.f32(W[i]) …

    All that is stored there is made wider from one type of floats, and nothing is accumulated there.
    """
    old = local_buffers(kernel).get(buffer)
    if old is None:
        raise StepError(f"narrow: no local buffer `{buffer}`")
    stores = [s for s in statements(kernel.body) if isinstance(s, Store) and s.buffer == buffer]
    kept = {_kept(s) for s in stores}
    dtype = next(iter(kept), None)
    if dtype is None or len(kept) > 1 or not dtype.is_float or not old.dtype.is_float:
        raise StepError(f"narrow: what is stored into `{buffer}` has not been rounded to one smaller type before")

    def rule(n: Expr) -> Expr | None:
        return cast(old.dtype, load(buffer, dtype, *n.args)) if n.op == "load" and n.attr == buffer and n.dtype is old.dtype else None

    def narrowed(s: object) -> Block | None:
        if isinstance(s, Store) and s.buffer == buffer:
            return (replace(s, value=s.value.args[0]),)
        return (Alloc(replace(old, dtype=dtype)),) if isinstance(s, Alloc) and s.buffer.name == buffer else None

    body = map_expressions(kernel.body, lambda e: rewrite(e, rule) if buffer in e.buffers else e)
    return kernel.with_body(map_block(body, narrowed))


def unrounded(kernel: Kernel, facts: Facts, buffer: str) -> Kernel:
    """What is rounded to a smaller type of floats on its way into a local buffer of a wider one is not: rounding serves instructions that multiply the smaller type, and none reads it.

        alloc W: f32[256] private               alloc W: f32[256] private
        for i in 0 .. N:                        for i in 0 .. N:
          W[i] = cast.f32(cast.bf16(f(i)))  →     W[i] = f(i)

    All that is stored there is made wider from one type of floats, of what was as wide before, and nothing is accumulated there.
    """
    held = local_buffers(kernel).get(buffer)
    if held is None:
        raise StepError(f"unrounded: no local buffer `{buffer}`")
    stores = [s for s in statements(kernel.body) if isinstance(s, Store) and s.buffer == buffer]
    if not stores or any(_kept(s) is None or s.value.args[0].op != "cast" or s.value.args[0].args[0].dtype is not held.dtype for s in stores):
        raise StepError(f"unrounded: what is stored into `{buffer}` is not rounded to a smaller type and made wider again")

    def wide(s: object) -> Block | None:
        return (replace(s, value=s.value.args[0].args[0]),) if isinstance(s, Store) and s.buffer == buffer else None

    return kernel.with_body(map_block(kernel.body, wide))


def _kept(s: Store) -> DType | None:
    """The smaller type from which what is stored is made wider."""
    if s.combiner or s.value.op != "cast":
        return None
    dtype = s.value.args[0].dtype
    return dtype if dtype.is_float and dtype.bits < s.value.dtype.bits else None
