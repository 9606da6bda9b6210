"""The step that asks for the next packed panel while one is worked on: `prefetch_panel`."""

from __future__ import annotations

from ...ir.expr import ONE, ZERO, const, mod, var
from ...ir.kernel import Kernel, Loop, Prefetch, expressions, statements, with_body
from ...ir.target import LINE
from ...ir.walks import substitute
from .affine import minus, stride
from .tree import Facts, StepError, around, loads_in, local_buffers, replace_loop


def prefetch_panel(kernel: Kernel, facts: Facts, buffer: str, depth: str, tile: str, panel: str) -> Kernel:
    """Ask, while the loop over `panel` is at one panel of a local buffer, for the next one: a line of it in each iteration of `depth`, until all of it is asked for.

        for j.0:                                   for j.0:
          for i.0:                                   for i.0:
            for p.1 in 0 .. P:            →            for p.1 in 0 .. P:
              … B.packed[j.0, p.1, k] …                  prefetch B.packed[j.0, 0, 0] ahead (the panel) + (i.0 % 2 · P + p.1) · 16
                                                         … B.packed[j.0, p.1, k] …

    A hint changes no value.  A panel lies in memory along `depth`, here two lines for each of its iterations, and is read once for each iteration of `tile`, which stands between the two loops: the first two
    ask for one half each, and what later ones ask for has come.  Behind the last panel it is asked for what there need not be.
    """
    loops = [s for s in around(kernel, depth) if isinstance(s, Loop)]
    names = [x.axis for x in loops]
    if panel not in names or tile not in names[names.index(panel) :]:
        raise StepError(f"prefetch_panel: `{depth}` is not inside `{tile}`, or that not inside `{panel}`")
    loop = loops[-1]
    held = local_buffers(kernel).get(buffer)
    if held is None or loop.start is not ZERO or loop.step is not ONE:
        raise StepError(f"prefetch_panel: `{buffer}` is no local buffer, or `{depth}` does not run from 0 in steps of 1")
    inner = {var(s.axis): ZERO for s in statements(loop.body) if isinstance(s, Loop)}
    starts = {
        tuple(substitute(i, {**inner, var(depth): ZERO}) for i in n.args)
        for s in statements((loop,))
        for n in loads_in(*expressions(s))
        if n.attr == buffer
    }
    rows = {stride(held.address(n.args), depth) for s in statements((loop,)) for n in loads_in(*expressions(s)) if n.attr == buffer}
    if len(starts) != 1 or len(rows) != 1:
        raise StepError(f"prefetch_panel: `{depth}` reads not one panel of `{buffer}`")
    (start,), (row,) = starts, rows
    line = LINE // held.dtype.bytes
    address = held.address(start)
    ahead = minus(substitute(address, {var(panel): var(panel) + ONE}), address)
    if row is None or row < line or row % line or ahead is ZERO or ahead.buffers or any(axis in ahead.names for axis in names):
        raise StepError(
            f"prefetch_panel: `{buffer}` is not in panels along `{depth}`, of whole lines for each of its iterations, one for each of `{panel}`"
        )
    lines = row // line
    asked = var(depth) if lines == 1 else mod(var(tile), const(lines)) * loop.stop + var(depth)
    hint = Prefetch(buffer, start, ahead + asked * line)
    return replace_loop(kernel, depth, lambda x: (with_body(x, (hint, *x.body)),))
