"""Long chains of operations, taken apart: the step `hold`, and the values for which the first pays.

A core works on as many iterations at once as its schedulers hold operations that wait for operands.  The exponential of a sine is some fifty operations, most of which wait for the one before:
too few iterations fit to hide that, and other vectors side by side in the loop would fill the schedulers in the same way.  Half of the chain in a loop of its own needs half the time for an
iteration and half the places, so both loops run at the speed of their instructions; between them the values lie in the first cache.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from itertools import islice

from ....ir.expr import Expr, load
from ....ir.kernel import Alloc, Buffer, Kernel, Let, Loop, Store, map_expressions, written
from ....ir.primops import OPS
from ....ir.record import replace
from ....ir.walks import postorder, substitute
from ...costs import operation
from ..tree import Facts, StepError, find, fresh, names_taken, replace_loop

LONG = 12.0  # operations (of `costs.py`) of a function that is a polynomial and more


def hold(kernel: Kernel, facts: Facts, axis: str, operator: str, which: int = 0) -> Kernel:
    """The result of an operator gets a buffer of its own.

        for i in 0 .. N parallel:               for i in 0 .. N parallel:
          Y[i] = exp(sin(X[i])) / 2       →       alloc i.sin: f32[] stack
                                                  i.sin[] = sin(X[i])
                                                  Y[i] = exp(i.sin[]) / 2

    The loop over `axis` holds stores and lets alone.  `which` counts the results of `operator` in the order of evaluation, from 0; those in branches of a choice, which are not always computed, do not count.
    The result is no integer, of which addresses are made.  Nothing that the value reads is written before its last use.  `expand` and `fission` then make a loop of it.
    """
    loop = find(kernel, axis)
    if not all(isinstance(s, (Store, Let)) for s in loop.body):
        raise StepError(f"hold: the loop over `{axis}` holds more than stores and lets")
    # what is computed behind it is not looked at: a chain of a thousand is held one by one, from its end
    found = list(islice((v for v in _computed(loop, always=True) if v.op == operator), which + 1))
    if len(found) <= which:
        raise StepError(f"hold: the loop over `{axis}` computes {len(found)} results of `{operator}` whatever the conditions")
    value = found[which]
    if value.dtype.is_integer:
        raise StepError(f"hold: `{operator}` is of integers, which addresses are made of")
    users = [k for k, s in enumerate(loop.body) if any(_holds(e, value) for e in s.expressions())]
    changed = sorted(written(loop.body[users[0] : users[-1]]) & value.buffers)
    if changed:
        raise StepError(f"hold: `{changed[0]}` is written between two uses of the value")
    buffer = Buffer(fresh(f"{axis}.{operator}", names_taken(kernel)), value.dtype, (), "stack", align=64)
    here = {value: load(buffer.name, buffer.dtype)}
    body = list(loop.body)
    for k in users:
        (body[k],) = map_expressions((body[k],), lambda e: substitute(e, here))
    body[users[0] : users[0]] = Alloc(buffer), Store(buffer.name, (), value)
    return replace_loop(kernel, axis, lambda x: (replace(x, body=tuple(body)),))


def candidates(loop: Loop) -> list[tuple[str, int]]:
    """The long results that other long ones are made of, as `hold` names them, last first: what is held does not change the count of those before it.  None where several loops would compute
    as much as another long one again (two of the numbers that one round of a generator draws), or where several results share values."""
    if sum(isinstance(s, Store) for s in loop.body) != 1 or not all(isinstance(s, (Store, Let)) for s in loop.body):
        return []
    values = {s.name: s.value for s in loop.body if isinstance(s, Let)}

    def beneath(stack: list[Expr], held: Container[Expr]) -> set[Expr]:
        """These, and what they are made of that is not held."""
        found: set[Expr] = set()
        while stack:
            n = stack.pop()
            if n not in found and n not in held:
                found.add(n)
                stack += [values[n.attr]] if n.op == "var" and n.attr in values else n.args if n.op in OPS else ()
        return found

    inside = beneath([a for v in _computed(loop) if operation(v.op) >= LONG for a in v.args], ())  # of long ones
    before: Counter[str] = Counter()
    held: dict[Expr, tuple[str, int]] = {}
    for v in _computed(loop, always=True):
        if operation(v.op) >= LONG:
            if v in inside:
                held[v] = v.op, before[v.op]
            before[v.op] += 1
    loops = [beneath([*v.args], held) for v in held] + [beneath([s.value for s in loop.body if isinstance(s, Store)], held)]
    work = [sum(operation(n.op) for n in found if n.op in OPS) for found in (*loops, set[Expr]().union(*loops))]
    return [] if sum(work[:-1]) - work[-1] >= LONG else [*held.values()][::-1]


def _holds(e: Expr, value: Expr) -> bool:
    return value.buffers <= e.buffers and value.names <= e.names and value in postorder(e)


def _computed(loop: Loop, always: bool = False) -> Iterator[Expr]:
    """What iterations compute, operands first; `always`: whatever the conditions."""
    found: set[Expr] = set()
    for s in loop.body:
        stack = [(s.value, False)] if isinstance(s, (Store, Let)) else []
        while stack:
            n, ready = stack.pop()
            if n in found or n.op not in OPS:
                continue
            if ready:
                found.add(n)
                yield n
                continue
            stack.append((n, True))
            stack += [(a, False) for a in reversed(n.args[:1] if always and n.op == "where" else n.args)]
