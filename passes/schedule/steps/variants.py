"""Several schedules of one kernel, and the condition on the sizes under which each runs.

    variant K * N <= 196608          if K * N <= 196608:
    split j 32 tail=pad                … the kernel by the first part's steps
    …                           →    else:
    variant                            … the kernel by the others
    split p 512
    …

A kernel that is nothing but an `if` on the sizes has its variants already: the part with the `if`'s own condition, and each before it with that and more, takes the steps of what stands under it, the
parts after that one those of what stands under its `else`.

Steps before the first `variant` are taken once, before the parts part ways.  The last part has no condition; what others leave over of their rows it does too.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.conditions import fixed_sizes
from ....ir.dtypes import bool_
from ....ir.errors import SourceError
from ....ir.expr import ONE, TRUE, ZERO, Expr, first, last, var, where
from ....ir.kernel import Block, If, Kernel, Let, Loop, Stmt, map_block, map_expressions, statements, substitute_block
from ....ir.operator_kinds import ENDS
from ....ir.places import homes_in
from ....ir.record import replace
from ....ir.simplify import simplify
from ....ir.text.expressions import show_expr
from ....ir.walks import substitute
from ..affine import upper
from ..tree import Facts, StepError, copy, fresh
from .named_values import named_values

WORD = "variant"
KNOWING = "decide"


def condition(text: str, facts: Facts) -> Expr | None:
    """What stands behind `variant`: a condition on the sizes, or nothing.  StepError where it is something else."""
    if not text:
        return None
    from ....ir.text.parse import Scope, expression
    from ....ir.text.tokens import Line

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

    Under a condition that gives a size its value, N == 1, the kernel has that, loops of that one iteration are none, and what was summed up in them is a value.
    """
    fixed = fixed_sizes(facts.assumed)

    def one(s: Stmt) -> Block | None:
        if isinstance(s, Loop) and s.kind == "serial" and s.start is ZERO and s.step is ONE and upper(s.stop, facts.known) == 1:
            here = {var(s.axis): ZERO, first(s.axis): TRUE, last(s.axis): TRUE}
            return (If(ZERO.lt(s.stop), map_expressions(s.body, lambda e: simplify(substitute(e, here), facts.known))),)
        if fixed and isinstance(s, Loop) and s.start is ZERO and s.step is ONE and s.stop is ONE and s.kind in ("parallel", "reduce"):
            return substitute_block(s.body, {var(s.axis): ZERO, first(s.axis): TRUE, last(s.axis): TRUE})
        found = simplify(s.condition, facts.known) if isinstance(s, If) and not s.condition.buffers else None
        return (s.body if found.attr else s.orelse) if isinstance(s, If) and found is not None and found.is_const else None

    decided = kernel.with_body(map_block(substitute_block(kernel.body, fixed), one))
    return named_values(decided) if fixed else decided


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


def handed_over(kernel: Kernel) -> Kernel:
    """What a part leaves over of the rows that it works off several at a time is the last part's, which works them off one by one, so that this stands once.

    if N <= 682:                                          if N <= 682:
      for i.0 in 0 .. M // 4 parallel: …                    for i.0 in 0 .. M // 4 parallel: …
      for i.t in M // 4 * 4 .. M: S(i.t)            →     let i.done = where(N <= 682, M // 4 * 4, 0)
    else:                                                 for i in i.done .. M parallel: S(i)
      for i in 0 .. M parallel: S(i)

    The last part is one parallel loop, the other is what `split … tail=cut` has made of it; what other parts do is done.
    """
    if not any(line.split()[0] == WORD for line in kernel.schedule):
        return kernel
    return kernel.with_body(_handed_over(kernel.body, kernel))


def _handed_over(body: Block, kernel: Kernel) -> Block:
    s = body[0] if len(body) == 1 else None
    if not isinstance(s, If):
        return body
    row = _last_row(s.orelse)
    rest = None if row is None else _left_over(s.body, row, kernel.schedule)
    if row is None or rest is None:
        return (If(s.condition, s.body, _handed_over(s.orelse, kernel)),)
    done = var(fresh(f"{row.axis}.done", {*homes_in(kernel), *kernel.buffers}))
    others, begin = _without_last(s.orelse, row.stop)
    loop = Loop(row.axis, done, row.stop, row.body, row.kind, span=row.span)
    return If(s.condition, s.body[:-1], others), Let(done.attr, where(s.condition, rest.start, begin)), loop


def _last_row(block: Block) -> Loop | None:
    """The loop that the last part is, if it is one over all rows."""
    s = block[0] if len(block) == 1 else None
    if isinstance(s, If):
        return _last_row(s.orelse)
    if not isinstance(s, Loop) or s.kind != "parallel" or s.start is not ZERO or s.step is not ONE:
        return None
    return None if any(e.kinds & ENDS for t in statements(s.body) for e in t.expressions()) else s


def _left_over(part: Block, row: Loop, schedule: Sequence[str]) -> Loop | None:
    """The loop over the last rows of a part that works off several at a time, as `split … tail=cut` leaves it."""
    main, rest = (part[0], part[-1]) if len(part) > 1 and all(isinstance(s, Loop) for s in part) else (None, None)
    cut = any(line.startswith(f"split {row.axis} ") and line.endswith(" tail=cut") for line in schedule)
    if not cut or not isinstance(main, Loop) or not isinstance(rest, Loop) or rest.stop is not row.stop or rest.step is not ONE:
        return None
    return rest if main.axis.startswith(f"{row.axis}.0") and rest.axis.startswith(f"{row.axis}.t") else None


def _without_last(block: Block, all_: Expr) -> tuple[Block, Expr]:
    """The parts before the last, and where its rows begin after them: there are none left where one of them runs."""
    (s,) = block
    if not isinstance(s, If):
        return (), ZERO
    others, begin = _without_last(s.orelse, all_)
    return (If(s.condition, s.body, others),), where(s.condition, all_, begin)


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
