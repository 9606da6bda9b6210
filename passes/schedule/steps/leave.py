"""The step that leaves sums where they are read: `leave`."""

from __future__ import annotations

from ....ir.expr import ZERO, Expr, load, var
from ....ir.kernel import Alloc, Block, Kernel, Let, Loop, Stmt, Store, map_block, map_expressions, perfect, statements
from ....ir.places import block_of, path_of
from ....ir.record import replace
from ....ir.walks import rewrite, substitute
from ..affine import constant_extent, stride
from ..tree import Facts, StepError, local_buffers, replace_in, touched


def leave(kernel: Kernel, facts: Facts, buffer: str) -> Kernel:
    """Sums in memory that are copied as they are, or times one factor, stand from the beginning where they are copied to; who reads them there multiplies.

        alloc W: f32[64, 128] private               alloc W: f32[64, 128] private
        …                                           …
          alloc acc: f32[32, 32] stack
          for i, j: acc[i, j] = 0                     for i, j: W[q + i, r + j] = 0
          for i, j, p:                          →     for i, j, p:
            acc[i, j] add= …                            W[q + i, r + j] add= …
          for i, j:
            W[q + i, r + j] = acc[i, j] * t
        … W[k, l] …                                 … W[k, l] * t …

    Nothing else is stored into the local buffer that they go to, and nothing is read there before they are copied.  The factor is a name that is known where that buffer is.
    """
    local = local_buffers(kernel)
    sums = local.get(buffer)
    if sums is None or sums.space != "stack":
        raise StepError(f"leave: there are no sums `{buffer}` in memory")
    home, loops, s = _copy(kernel, buffer)
    axes = tuple(var(x.axis) for x in loops)
    kept = local.get(s.buffer)
    if kept is None or kept.dtype is not sums.dtype or s.combiner:
        raise StepError(f"leave: what is made of `{buffer}` is not stored into a local buffer of its type")
    read, factor = (s.value, None) if s.value.op != "mul" else sorted(s.value.args, key=lambda e: e.op != "load")
    if read.op != "load" or read.attr != buffer or read.args != axes or not _known(kernel, factor, s.buffer):
        raise StepError(f"leave: what is stored into `{s.buffer}` is not `{buffer}`, or that times one factor that is known where `{s.buffer}` is")
    if any(x.start is not ZERO or constant_extent(x) != n.attr for x, n in zip(loops, sums.shape, strict=True)):
        raise StepError(f"leave: `{loops[0].axis}` does not copy all of `{buffer}`")
    moves = [[stride(e, x.axis) for e in s.index] for x in loops]
    if any(m.count(0) != len(m) - 1 or 1 not in m for m in moves) or len({m.index(1) for m in moves}) < len(moves):
        raise StepError(f"leave: rows of `{buffer}` are not copied to rows of `{s.buffer}`")
    if sum(isinstance(t, Store) and t.buffer == s.buffer for t in statements(kernel.body)) > 1 or any(
        s.buffer in touched((t,)) for t in home if t is not loops[0]
    ):
        raise StepError(f"leave: `{s.buffer}` is stored, or read too early, elsewhere")

    def place(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(substitute(e, dict(zip(axes, index, strict=True))) for e in s.index)

    def scaled(n: Expr) -> Expr | None:
        return n * factor if factor is not None and n.op == "load" and n.attr == s.buffer else None

    def moved(n: Expr) -> Expr | None:
        return load(s.buffer, n.dtype, *place(n.args)) if n.op == "load" and n.attr == buffer else None

    def there(t: Stmt) -> Block | None:
        if isinstance(t, Alloc):
            return {buffer: (), s.buffer: (Alloc(replace(kept, align=max(kept.align, sums.align))),)}.get(t.buffer.name)
        return (replace(t, buffer=s.buffer, index=place(t.index)),) if isinstance(t, Store) and t.buffer == buffer else None

    body = map_expressions(replace_in(kernel.body, loops[0], ()), lambda e: rewrite(e, scaled) if s.buffer in e.buffers else e)
    body = map_expressions(body, lambda e: rewrite(e, moved) if buffer in e.buffers else e)
    return kernel.with_body(map_block(body, there))


def _copy(kernel: Kernel, buffer: str) -> tuple[Block, tuple[Loop, ...], Store]:
    """The block in which sums stand, the loops that copy them, of which the first is in that block, and what those store."""
    home = block_of(kernel, path_of(kernel, buffer))
    users = [t for t in home if buffer in touched((t,)) and not isinstance(t, Alloc)]
    loops, block = perfect(tuple(users[-1:]))
    s = block[0] if len(block) == 1 else None
    if not loops or not isinstance(s, Store) or s.buffer == buffer:
        raise StepError(f"leave: sums `{buffer}` are not copied")
    return home, tuple(loops), s


def _known(kernel: Kernel, factor: Expr | None, buffer: str) -> bool:
    """Whether there is no factor, or one that is known wherever a local buffer is."""
    if factor is None or factor.is_const:
        return True
    around = path_of(kernel, factor.attr) if factor.op == "var" else ()
    outside = path_of(kernel, buffer)
    return (
        bool(around)
        and isinstance(around[-1], Let)
        and len(around) <= len(outside)
        and all(a is b for a, b in zip(around[:-1], outside, strict=False))
    )
