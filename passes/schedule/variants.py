"""Several schedules of one kernel, and the condition on the sizes under which each runs.

    variant K * N <= 196608          if K * N <= 196608:
    split j 32 tail=pad                … the kernel by the first part's steps
    …                           →    else:
    variant                            … the kernel by the others
    split p 512
    …

A kernel that is nothing but an `if` on the sizes has its variants already: the part with the `if`'s own condition, and each before it with that and more, takes the steps of what stands under it, the
parts after that one those of what stands under its `else`.

Steps before the first `variant` are taken once, before the parts part ways.  The last part has no condition.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dtypes import bool_
from ...ir.errors import SourceError
from ...ir.expr import ONE, TRUE, ZERO, Expr, first, last, var
from ...ir.kernel import Block, If, Kernel, Loop, Stmt, map_block, map_expressions
from ...ir.record import replace
from ...ir.simplify import simplify
from ...ir.text.expressions import show_expr
from ...ir.walks import substitute
from .affine import upper
from .tree import Facts, StepError, copy, less

WORD = "variant"
KNOWING = "decide"


def condition(text: str, facts: Facts) -> Expr | None:
    """What stands behind `variant`: a condition on the sizes, or nothing.  StepError where it is something else."""
    if not text:
        return None
    from ...ir.text.parse import Scope, expression
    from ...ir.text.tokens import Line

    try:
        line = Line(text, 1, "")
        found = expression(line, Scope(set(facts.sizes)))
        line.end()
    except SourceError as e:
        raise StepError(f"{WORD}: {e.diagnostics[0].message}") from None
    if found.dtype is not bool_:
        raise StepError(f"{WORD}: `{text}` is no condition")
    return found


def decide(kernel: Kernel, facts: Facts) -> Kernel:
    """What the sizes decide is decided; the first step of a variant, from which on its condition is known.

    variant N <= 1024
    decide                       if N <= 8192:      →    S
                                   S
                                 else:
                                   T
    """

    def one(s: Stmt) -> Block | None:
        if isinstance(s, Loop) and s.kind == "serial" and s.start is ZERO and s.step is ONE and upper(s.stop, facts.known) == 1:
            here = {var(s.axis): ZERO, first(s.axis): TRUE, last(s.axis): TRUE}
            return (If(less(ZERO, s.stop), map_expressions(s.body, lambda e: simplify(substitute(e, here), facts.known))),)
        found = simplify(s.condition, facts.known) if isinstance(s, If) and not s.condition.buffers else None
        return (s.body if found.attr else s.orelse) if isinstance(s, If) and found is not None and found.is_const else None

    return kernel.with_body(map_block(kernel.body, one))


def branching(kernel: Kernel, facts: Facts) -> Expr | None:
    """The condition of the `if` on the sizes that a kernel is."""
    only = kernel.body[0] if len(kernel.body) == 1 else None
    return only.condition if isinstance(only, If) and only.condition.names <= facts.sizes.keys() and not only.condition.buffers else None


def under(kernel: Kernel, condition: Expr | None, failed: Sequence[Expr | None] = ()) -> Kernel:
    """What is left of such a kernel where a condition holds, after others did not; any other kernel is left as it is."""
    only = kernel.body[0] if len(kernel.body) == 1 else None
    if isinstance(only, If) and condition is not None and _holds(only.condition, condition):
        return replace(kernel, body=only.body)
    if isinstance(only, If) and only.condition in failed:
        return replace(kernel, body=only.orelse)
    return kernel


def _holds(part: Expr, condition: Expr) -> bool:
    """Whether one condition is another, or an `and` that names it."""
    return condition is part or (condition.op == "bit_and" and any(_holds(part, a) for a in condition.args))


def choose(kernel: Kernel, parts: Sequence[tuple[Expr | None, Kernel]]) -> Kernel:
    """One kernel of several schedules of `kernel`: the first whose condition holds runs.  The last has no condition, the others have one."""
    if not parts or parts[-1][0] is not None or any(c is None for c, _ in parts[:-1]):
        raise StepError(f"{WORD}: the last part has no condition, and each part before it has one")
    taken = set(kernel.buffers)
    bodies = [copy(k.body, taken) for _, k in reversed(parts)][::-1]  # the last keeps its names
    body = bodies[-1]
    for (c, _), own in zip(reversed(parts[:-1]), reversed(bodies[:-1]), strict=True):
        assert c is not None
        body = (If(c, own, body),)
    steps: list[str] = []
    for c, k in parts:
        steps += [WORD if c is None else f"{WORD} {show_expr(c)}", *k.schedule[len(kernel.schedule) :]]
    return replace(kernel, body=body, schedule=(*kernel.schedule, *steps))


def parts_of(chosen: Kernel, before: Kernel) -> list[tuple[Expr | None, Kernel]]:
    """The schedules that `choose(before, …)` has put together, each as a kernel of its own; of any other kernel, itself."""
    steps = chosen.schedule[len(before.schedule) :]
    heads = [k for k, line in enumerate(steps) if line.split()[0] == WORD]
    if not heads or heads[0] != 0:
        return [(None, chosen)]
    parts: list[tuple[Expr | None, Kernel]] = []
    body = chosen.body
    for start, stop in zip(heads, [*heads[1:], len(steps)], strict=True):
        own, rest, condition = body, body, None
        if stop < len(steps):
            (branch,) = body
            assert isinstance(branch, If)
            condition, own, rest = branch.condition, branch.body, branch.orelse
        parts.append((condition, replace(chosen, body=own, schedule=(*before.schedule, *steps[start + 1 : stop]))))
        body = rest
    return parts
