"""The step `prefetch_group`: what a loop goes through in order, a few short rows in each iteration, is asked for some of them ahead, to be read or to be stored into."""

from __future__ import annotations

from ....ir.expr import FALSE, ONE, TRUE, ZERO, ceildiv, const, var
from ....ir.kernel import Block, If, Kernel, Let, Loop, Prefetch, Store, reads, statements, with_body
from ....ir.simplify import simplify
from ....ir.target import LINE
from ....ir.walks import substitute
from ..affine import minus
from ..tree import Facts, Never, StepError, all_loops, find, fresh, names_taken, replace_loop
from .streams import large


def prefetch_group(kernel: Kernel, facts: Facts, buffer: str, axis: str, ahead: int = LINE, least: int = 0) -> Kernel:
    """Ask, in each iteration of a loop over rows that lie one behind the other, for as many lines of a buffer as it reads or stores, so many bytes further on.

        for i in 0 .. M:                        for i in 0 .. M:
          for j in 0 .. N:                        for l in 0 .. ceil(N / 16):
            Y[i, j] = …                 →           prefetch Y[i, 0] ahead l * 16 + 512 write
                                                  for j in 0 .. N:
                                                    Y[i, j] = …

    A hint changes no value.  Loops of a few vectors ask for nothing themselves: rows of less than their vectors side by side pass them by, and lines that are stored through the caches are read first, for which stores wait.
    How far it is from one iteration of the loop to the next depends on sizes alone.  With `least`, memory is asked only where the buffer has so many bytes or more.
    """
    loop = find(kernel, axis)
    if buffer not in facts.buffers:
        raise StepError(f"prefetch_group: `{buffer}` is local, or no buffer")
    held, inside = facts.buffers[buffer], {s.axis if isinstance(s, Loop) else s.name for s in statements(loop.body) if isinstance(s, (Loop, Let))}
    stored = [s.index for s in statements(loop.body) if isinstance(s, Store) and s.buffer == buffer]
    begins = {var(x.axis): x.start for x in all_loops(loop.body)}
    first = (tuple(substitute(e, begins) for e in index) for index in stored or [n.args for n in reads(loop.body) if n.attr == buffer])
    index = next((x for x in first if not any(e.buffers or e.names & inside for e in x)), None)
    if index is None:
        raise StepError(f"prefetch_group: `{axis}` reads and stores nothing of `{buffer}`, or where is only known inside")
    address = held.address(index)
    step = simplify(minus(substitute(address, {var(axis): var(axis) + loop.step}), address), facts.known)
    if step is ZERO or step.buffers or not step.names <= facts.sizes.keys():
        raise StepError(f"prefetch_group: the next iteration of `{axis}` is not always as far")
    if step.is_const and step.attr * held.dtype.bytes < LINE:
        raise StepError(f"prefetch_group: `{axis}` goes through less than a line of `{buffer}` at a time")
    condition = large(facts, buffer, least)
    if condition is FALSE:
        raise Never(f"prefetch_group: `{buffer}` never has {least} bytes")
    line, each = fresh(f"{axis}.l", names_taken(kernel)), LINE // held.dtype.bytes
    hint = Prefetch(buffer, index, var(line) * each + ahead // held.dtype.bytes, write=bool(stored))
    hints: Block = (Loop(line, ZERO, ceildiv(step, const(each)), (hint,), "serial", step=ONE),)
    hints = hints if condition is TRUE else (If(condition, hints),)
    return replace_loop(kernel, axis, lambda x: (with_body(x, (*hints, *x.body)),))
