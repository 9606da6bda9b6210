"""What a local buffer holds behind the end of what is read of it."""

from __future__ import annotations

from ....ir.bounds import Known
from ....ir.expr import Expr, ceildiv, var
from ....ir.kernel import Kernel, Loop, Store
from ..affine import is_multiple, minus, same_position
from ..tree import local_buffers, walk_paths


def ragged(end: Expr, multiple: int, known: Known) -> list[Expr]:
    """The numbers that an end is the smallest of, without those that are known to be multiples: up to the next multiple of the smallest of all, nothing is beyond these."""
    if end.op == "min":
        return [a for arg in end.args for a in ragged(arg, multiple, known)]
    return [] if is_multiple(end, multiple, known) else [end]


def zero_beyond(kernel: Kernel, element: Expr, reader: Loop, multiple: int, known: Known) -> bool:
    """Whether what a loop reads of a local buffer is 0 from the loop's end on to the next multiple: whoever wrote it, before in the same loops, wrote zeros there.

    for n in 0 .. ceil(L / 64) · 64:                      for p in 0 .. L reduce:     L = M - r, or the smallest of that, the length of a row and multiples
      W[j, n] = where(r + n < M, …, 0.0)                    … W[i, p] …
    """
    held = local_buffers(kernel).get(element.attr) if element.op == "load" else None
    if held is None or element.args[-1] is not var(reader.axis) or not held.shape[-1].is_const:
        return False
    paths = [(*outer, s) for s, outer in walk_paths(kernel.body) if isinstance(s, Store) and s.buffer == held.name]
    reading = next(tuple(outer) for s, outer in walk_paths(kernel.body) if s is reader)
    return all(_zeros(path, held.shape[-1], reader.stop, multiple, known) and _before(path, reading, reader) for path in paths)


def _zeros(path: tuple[object, ...], row: Expr, end: Expr, multiple: int, known: Known) -> bool:
    """Whether a store, at the end of its path, puts zeros behind the end up to the next multiple."""
    s = path[-1]
    assert isinstance(s, Store)
    loop = next((x for x in reversed(path) if isinstance(x, Loop) and s.index[-1] is var(x.axis)), None)
    value = s.value.args[0] if s.value.op == "cast" else s.value
    if loop is None or s.combiner or value.op != "where":
        return False
    condition, _, nothing = value.args
    if condition.op != "less_than" or not nothing.is_const or nothing.attr != 0:
        return False
    left = minus(condition.args[1], minus(condition.args[0], var(loop.axis)))  # the positions below this are not 0
    if loop.axis in left.names or not (same_position(end, left) or all(a is row or same_position(a, left) for a in ragged(end, multiple, known))):
        return False
    step = loop.stop.args[1] if loop.stop.op == "mul" else None
    return step is not None and step.is_const and step.attr % multiple == 0 and same_position(loop.stop, ceildiv(end, step.attr) * step.attr)


def _before(path: tuple[object, ...], reading: tuple[object, ...], reader: Loop) -> bool:
    """Whether a statement is executed before a loop, in each iteration of the loops around both."""
    common = 0
    while common < min(len(path), len(reading)) and path[common] is reading[common]:
        common += 1
    first, second = path[common], (*reading, reader)[common]
    around = path[common - 1] if common else None
    body = around.body if isinstance(around, Loop) else None
    return body is not None and next(s for s in body if s is first or s is second) is first
