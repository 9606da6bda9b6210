"""Guards of padded axes: put in (`pad_block`, used by `split … tail=pad`), proven away in the interior, moved outwards; to the last iterations in `peels.py`."""

from __future__ import annotations

from collections.abc import Callable

from ....ir import polynomial as pl
from ....ir.bounds import Known
from ....ir.conditions import conjuncts
from ....ir.dtypes import INDEX, bf16, f16, f32
from ....ir.expr import FALSE, ONE, TRUE, ZERO, Expr, both, call, const, minimum, var, where
from ....ir.kernel import (
    Alloc,
    Block,
    Check,
    If,
    Kernel,
    Let,
    Loop,
    Stmt,
    Store,
    map_block,
    map_expressions,
    nested,
    perfect,
    statements,
    with_blocks,
    with_body,
    written,
)
from ....ir.operator_kinds import DIVIDES
from ....ir.record import replace
from ....ir.simplify import simplify
from ....ir.walks import postorder, rewrite, substitute
from ..affine import constant_extent, extreme, inside as within, minus
from ..tree import Facts, StepError, around, copy, find, fresh, loads_in, names_taken, nest, rename, replace_loop, simple, unless


def pad_block(block: Block, condition: Expr, axis: str, in_bounds: Callable[[Expr], bool]) -> Block:
    """The block as it may run where `condition` (on `axis`) is false: loads that depend on the axis give 0 there, effects are left out.

    A load that is `in_bounds` there, of memory that nobody else sees, needs no guard.  What is computed into buffers that the block allocates itself is computed everywhere: outside the condition nobody sees it.
    Where only the end of the axis keeps a position in them in bounds, the block cannot run beyond it: StepError.
    """
    local: set[str] = set()
    depends = {axis}
    loose = {axis}  # what may have values outside the condition that it has nowhere inside

    def dependent(*exprs: Expr) -> bool:
        return any(e.buffers or not depends.isdisjoint(e.names) for e in exprs)

    def guarded(e: Expr, choice: bool) -> Expr:
        """`choice`: whether e is evaluated may depend on the axis; then so may each of its loads."""
        if not e.buffers:
            return e
        chosen = {m for n in postorder(e) if n.op == "where" and dependent(n.args[0]) for m in loads_in(*n.args[1:])}

        def rule(n: Expr) -> Expr | None:
            if n.op == "load" and n.attr not in local and (choice or n in chosen or dependent(*n.args)) and not in_bounds(n):
                return where(condition, n, const(0, n.dtype))
            if n.op == "where" and n.args[1].op == "where" and n.args[1].args[0] is condition:
                c = both(condition, n.args[0])
                assert c is not None
                return where(c, n.args[1].args[1], n.args[2])
            return None

        return rewrite(e, rule)

    def stays(s: Stmt) -> None:
        touched = [(n.attr, n.args) for n in loads_in(*s.expressions())] + ([(s.buffer, s.index)] if isinstance(s, Store) else [])
        for buffer, index in touched:
            if buffer in local and any(not loose.isdisjoint(e.names) for e in index):
                raise StepError(f"beyond the end of `{axis}` positions in `{buffer}` may be out of bounds; use tail=guard or cut")

    def runs_over(loop: Loop) -> bool:
        """Whether the loop may run at positions where it does not run inside the condition: it may only end earlier."""
        if loose.isdisjoint(loop.start.names | loop.stop.names):
            return False
        here, later = var(axis), var(f"{axis} later")
        latest = extreme(loop.stop, axis, here, later, largest=True)
        rising = loop.step.is_const and loop.step.attr > 0
        return not (
            rising and loose.isdisjoint(loop.start.names) and latest is not None and loose & latest.names <= {axis} and later.attr not in latest.names
        )

    def walk(b: Block, choice: bool, elastic: bool = False) -> Block:
        """`elastic`: inside a loop of that kind whose bounds depend on the axis, so that those of loops inside are no stricter."""
        result: list[Stmt] = []
        for s in b:
            stays(s)
            if isinstance(s, Alloc):
                if any(not loose.isdisjoint(e.names) for e in s.buffer.shape):
                    raise StepError(f"beyond the end of `{axis}` the extents of `{s.buffer.name}` mean nothing; use tail=guard or cut")
                local.add(s.buffer.name)
                result.append(s)
            elif isinstance(s, Let):
                if dependent(s.value):
                    depends.add(s.name)
                if not loose.isdisjoint(s.value.names):
                    loose.add(s.name)
                result.append(Let(s.name, guarded(s.value, choice)))
            elif isinstance(s, Store) and s.buffer in local:
                result.append(replace(s, index=tuple(guarded(e, choice) for e in s.index), value=guarded(s.value, choice)))
            elif isinstance(s, (Store, Check)):
                if result and isinstance(result[-1], If) and result[-1].condition is condition:
                    result[-1] = replace(result[-1], body=(*result[-1].body, s))
                else:
                    result.append(If(condition, (s,)))
            elif isinstance(s, Loop) and ((s.kind == "elastic" and dependent(s.start, s.stop)) or (elastic and axis in s.start.names | s.stop.names)):
                # beyond the end it runs as it does at the last position
                last = {var(axis): minimum(var(axis), condition.args[1] - 1)}
                body = walk(s.body, choice, True)
                result.append(replace(s, start=substitute(s.start, last), stop=substitute(s.stop, last), body=body))
            elif isinstance(s, Loop):
                if dependent(s.start, s.stop):
                    depends.add(s.axis)
                if runs_over(s):
                    loose.add(s.axis)
                inner = choice or dependent(s.start, s.stop)
                result.append(replace(s, start=guarded(s.start, choice), stop=guarded(s.stop, choice), body=walk(s.body, inner, elastic)))
            elif isinstance(s, If):
                inner = choice or dependent(s.condition)
                result.append(If(guarded(s.condition, choice), walk(s.body, inner, elastic), walk(s.orelse, inner, elastic)))
            else:
                raise StepError(f"`{axis}` cannot be padded over a {type(s).__name__.lower()}")
        return tuple(result)

    return walk(block, False)


def clamp_block(block: Block, condition: Expr, at_last: Callable[[Block], Block]) -> Block:
    """The block as it may run where `condition` is false: it computes again what `at_last` makes of it, and its effects are left out.

    What it computes again reads nothing that the block writes for others: the iteration that writes it may be running at the same time, or later.
    """
    local = {s.buffer.name for s in statements(block) if isinstance(s, Alloc)}
    effects = written(block) - local

    def again(s: Stmt) -> Block:
        changing = sorted(set().union(*(e.buffers for e in s.expressions())) & effects)
        if changing:
            raise StepError(f"an axis cannot be clamped where its last iteration would read `{changing[0]}` again, which it writes")
        return at_last((s,))

    def walk(b: Block) -> Block:
        result: list[Stmt] = []
        for s in b:
            if isinstance(s, Alloc):
                result.append(s)
            elif isinstance(s, Store) and s.buffer in effects and result and isinstance(result[-1], If) and result[-1].condition is condition:
                result[-1] = replace(result[-1], body=(*result[-1].body, s))
            elif isinstance(s, Store) and s.buffer in effects:
                result.append(If(condition, (s,)))
            elif isinstance(s, (Loop, If)):
                (head,) = again(s.around(()))
                assert isinstance(head, (Loop, If))
                result.append(head.around(*map(walk, s.blocks())))
            elif isinstance(s, (Store, Let, Check)):
                result += again(s)
            else:
                raise StepError(f"an axis cannot be clamped over a {type(s).__name__.lower()}")
        return tuple(result)

    return walk(block)


def interior(kernel: Kernel, facts: Facts, *axes: str, clamps: int = 0, guards: int = 0, fixed: int = 0, masks: int = 0) -> Kernel:
    """One test for a whole nest in place of one an element.

        for i in 0 .. 14:                        if (b + 14) <= M:
          for j in 0 .. 32:                        for i in 0 .. 14:
            if (b + i) < M:             →            for j in 0 .. 32:
              C[b + i, j] = …                          C[b + i, j] = …
                                                 else:
                                                   for i.b in 0 .. min(14, M - b):
                                                     for j.b in 0 .. 32:
                                                       C[b + i.b, j.b] = …

    `axes` are a perfect nest; the guards (`if` or the condition of a `where`) that are tested outside are comparisons `e < S` with `e` linear in axes of
    constant extent and S independent of them; with clamps=1, positions `min(e, S - 1)` become `e` too; with fixed=1, comparisons that no axis of the nest moves are tested outside as well,
    and positions that were taken apart, x // 4 · 4 + x % 4, are put together first; with masks=1, comparisons `e <= S` are such guards too, as those of a triangle are.  At the border an `if` on a single axis becomes that loop's bound, unless guards=1 leaves it or the loop is one of lanes; a `where` stays.
    """
    loops = nest(kernel, axes)
    last_value: dict[str, int] = {}
    for loop in loops:
        extent = constant_extent(loop)
        if extent is not None and loop.start is ZERO:
            last_value[loop.axis] = extent - 1
    inner = set(axes) | {s.axis for s in statements(loops[-1].body) if isinstance(s, Loop)}
    known: Known | None = None  # inside
    proofs: dict[Expr, Expr] = {}  # guard -> the condition under which it holds for the whole nest
    inside: dict[Expr, Expr] = {}  # guard, or position that is kept from running over -> what it is there
    for s in statements(loops[-1].body):
        for e in s.expressions():
            for n in postorder(e):
                for guard, value in guards_of(n, inner if clamps else set(), bool(masks)):
                    if n in proofs:
                        continue
                    proof = holds_everywhere(guard, last_value, inner, bool(fixed))
                    if proof is None and fixed and guard.kinds & DIVIDES:  # positions that were taken apart
                        known = known or within((*around(kernel, axes[0]), *loops[1:]), facts.known)
                        proof = holds_everywhere(simplify(guard, known), last_value, inner, True)
                    if proof is not None and simplify(proof, facts.known) is not FALSE:  # one that never holds everywhere stays
                        proofs[n], inside[n] = proof, value
    if not proofs:
        raise StepError(f"no guard of `{axes[0]}` can be tested outside the loop")
    condition = both(*dict.fromkeys(proofs.values()))
    assert condition is not None
    taken = names_taken(kernel)
    main = drop_true(map_expressions((loops[0],), lambda e: simple(substitute(e, inside))))
    border = copy((loops[0],), taken)
    border = border if guards else _bound_loops(border, len(loops))
    return replace_loop(kernel, axes[0], lambda loop: (If(condition, main, border),))


def guards_of(n: Expr, axes: set[str], masks: bool = False) -> list[tuple[Expr, Expr]]:
    """The comparison `e < S` that an expression makes, and what the expression is where it holds: true; or e, of `min(e, S - 1)` with e on some of the axes.  `masks`: of `e <= S` too."""
    if n.op == "less_than":
        return [(n, TRUE)]
    if masks and n.op == "less_equal" and n.args[0].dtype is INDEX:
        return [(n.args[0].lt(n.args[1] + 1), TRUE)]
    if n.op == "min" and n.dtype is INDEX:
        a, b = n.args
        return [(e.lt(end + 1), e) for e, end in ((a, b), (b, a)) if e.names & axes and not end.names & axes]
    return []


def holds_everywhere(guard: Expr, last_value: dict[str, int], inner: set[str], fixed: bool) -> Expr | None:
    """`e < S` for all values of the axes, as a condition outside of them; None where the guard is not of that form, or (unless `fixed`) mentions none of them."""
    e, limit = guard.args
    if e.dtype is not INDEX:
        return None
    left: dict[pl.Monomial, int] = {(): 1}
    right: dict[pl.Monomial, int] = {}
    mentioned = fixed
    for monomial, factor in pl.poly(minus(e, limit)).items():
        if len(monomial) == 1 and monomial[0].op == "var" and monomial[0].attr in last_value:
            mentioned = True
            left[()] += max(0, factor * last_value[monomial[0].attr])
        elif any(a.names & inner or a.buffers for a in monomial):
            return None
        elif not monomial:
            left[()] += factor
        else:
            (left if factor > 0 else right)[monomial] = abs(factor)
    return pl.expr({m: c for m, c in left.items() if c}).le(pl.expr(right)) if mentioned else None


def drop_true(block: Block) -> Block:
    """Inline the bodies of conditions that are constant."""
    result: list[Stmt] = []
    for s in block:
        if isinstance(s, If) and s.condition.is_const:
            result += drop_true(s.body if s.condition.attr else s.orelse)
        else:
            result.append(with_blocks(s, drop_true))
    return tuple(result)


def _bound_loops(block: Block, depth: int) -> Block:
    """Turn the guards of the innermost `if`s of a perfect nest of `depth` loops into bounds of the loops, where a guard is on one axis alone."""
    loops: list[Loop] = []
    body = block
    for _ in range(depth):
        assert isinstance(body[0], Loop)
        loops.append(body[0])
        body = body[0].body
    guards: list[Expr] = []
    while len(body) == 1 and isinstance(body[0], If) and not body[0].orelse:
        guards += conjuncts(body[0].condition)
        body = body[0].body
    axes = [loop.axis for loop in loops]
    left: list[Expr] = []
    for guard in guards:
        bound = _as_bound(guard, axes)
        if bound is None or loops[bound[0]].step is not ONE or loops[bound[0]].kind == "vector":  # lanes are of a constant number
            left.append(guard)
        else:
            k, stop = bound
            loops[k] = replace(loops[k], stop=minimum(loops[k].stop, stop))
    rest = both(*left)
    body = body if rest is None else (If(rest, body),)
    return nested(loops, body)


def _as_bound(guard: Expr, axes: list[str]) -> tuple[int, Expr] | None:
    """A guard `axis + rest < S` as (which axis, S - rest)."""
    if guard.op != "less_than" or guard.args[0].dtype is not INDEX:
        return None
    form = pl.poly(minus(*guard.args))
    inside = [m for m in form if any(a.names & set(axes) for a in m)]
    if len(inside) != 1 or form[inside[0]] != 1 or len(inside[0]) != 1 or inside[0][0].op != "var":
        return None
    (variable,) = inside[0]
    return axes.index(variable.attr), pl.expr({m: -c for m, c in form.items() if m != inside[0]})


def unswitch(kernel: Kernel, facts: Facts, axis: str) -> Kernel:
    """A condition that does not depend on a loop is asked once, before it.

        for i in 0 .. N:                       if c:
          if c:                                  for i in 0 .. N:
            A                          →           A
          else:                                else:
            B                                    for i.b in 0 .. N:
                                                   B

    `axis` is the outermost of a perfect nest whose innermost body is that one `if`; c mentions none of the axes and nothing that A or B writes.
    """
    loops, body = perfect((find(kernel, axis),))
    if len(body) != 1 or not isinstance(body[0], If):
        raise StepError(f"the nest of `{axis}` does not hold exactly one `if`")
    choice = body[0]
    if choice.condition.names & {loop.axis for loop in loops}:
        raise StepError(f"the condition depends on the loops that it should leave: {choice.condition}")
    changed = written(body)
    if any(n.attr in changed for n in loads_in(choice.condition)):
        raise StepError("the condition reads what the loop writes")

    taken = names_taken(kernel)
    orelse = rename(nested(loops, choice.orelse), {x.axis: fresh(x.axis, taken) for x in loops}) if choice.orelse else ()
    return replace_loop(kernel, axis, lambda loop: (If(choice.condition, nested(loops, choice.body), orelse),))


def _or_zero(e: Expr) -> bool:
    return e.op == "where" and e.args[2].is_const and e.args[2].attr == 0


def factors(kernel: Kernel, facts: Facts, axis: str) -> Kernel:
    """Ask the condition under which a product is added, inside the loop over `axis`, of each of its factors: what is copied of these (`stage`) holds zeros then.

        acc[] add= where(p < K, A[i, p] * B[p, j], 0)     →     acc[] add= where(p < K, A[i, p], 0) * where(p < K, B[p, j], 0)

    Where it is false 0 is added both ways.  Factors that read nothing stay as they are, with what they are multiplied by.
    Of what is read in fewer bits it is asked before: zeros are copied as they lie then.
    """
    changed = False

    def apiece(condition: Expr, e: Expr) -> Expr:
        if e.op == "mul" and all(a.buffers for a in e.args):
            return call("mul", *(apiece(condition, a) for a in e.args))
        bare, asked = (e.args[1], call("bit_and", condition, e.args[0])) if _or_zero(e) else (e, condition)
        if bare.op == "cast" and bare.dtype is f32 and bare.args[0].dtype in (bf16, f16):  # what lanes copy is asked about at once
            return call("cast", unless(asked, bare.args[0]), to=e.dtype)
        return where(condition, e, const(0, e.dtype))

    def one(s: Stmt) -> Block | None:
        nonlocal changed
        if not isinstance(s, Store) or s.combiner != "add":
            return None
        if s.value.op == "mul":
            new = call("mul", *(apiece(*a.args[:2]) if _or_zero(a) and a.args[1].op == "cast" else a for a in s.value.args))
        elif _or_zero(s.value) and s.value.args[1].op == "mul" and all(a.buffers for a in s.value.args[1].args):
            new = apiece(*s.value.args[:2])
        else:
            return None
        changed = changed or new is not s.value
        return (replace(s, value=new),)

    result = replace_loop(kernel, axis, lambda x: (with_body(x, map_block(x.body, one)),))
    if not changed:
        raise StepError(f"factors: inside `{axis}` no product is added under a condition")
    return result
