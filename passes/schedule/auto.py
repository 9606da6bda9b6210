"""The automatic scheduler: look at the accesses, pick a plan, take its steps, say why."""

from __future__ import annotations

from ...ir.expr import FALSE, TRUE, Expr, both
from ...ir.instructions import TILES
from ...ir.kernel import Kernel, Let, Loop, Stmt, map_block
from ...ir.record import replace
from ...ir.renaming import defined
from ...ir.simplify import simplify
from ...ir.target import Options, Target
from .cost import FEWEST_ON_TILES
from .in_place import stays_in_place
from .plan import Plan
from .products.blocks import blocks
from .products.contractions import contract
from .roles import shape
from .steps import variants
from .tree import Facts, StepError, reads


def automatic(kernel: Kernel, facts: Facts, target: Target, options: Options) -> Kernel:
    """The kernel scheduled for the target, its script in `schedule`, the reasons in `notes`."""
    return variants.handed_over(_scheduled(kernel, facts, target, options))


def _scheduled(
    kernel: Kernel, facts: Facts, target: Target, options: Options, elsewhere: frozenset[str] | None = None, branch: bool = False
) -> Kernel:
    """The same, each variant with all of its rows.

    A plan that a step refuses is dropped whole, and the next simpler one is tried; the unscheduled kernel is always right.  `elsewhere`: where
    the kernel is one of several nests, what the others read.  `branch`: it stands under an `if` on the sizes, where there is no place for another one.
    """
    condition = variants.branching(kernel, facts)
    if condition is not None:
        return _each_branch(kernel, condition, facts, target, options)
    if elsewhere is None and not branch and not target.gpu and _in_tiles(kernel):
        parts = _with_few_rows(kernel, facts, target, options)
        return parts[0][1] if len(parts) == 1 else variants.choose(kernel, parts)
    reasons: list[str] = []
    for attempt in (_gpu,) if target.gpu else (_cascade, _blocks, _sums_of_blocks, _contraction, *(() if branch else (_few_rows,)), _apart, _vectors):
        plan = Plan(kernel, facts, target, options, elsewhere=elsewhere)
        try:
            if attempt(plan):
                stays_in_place(kernel, plan.kernel, facts)
                return replace(plan.kernel, notes=(*kernel.notes, *reasons, *plan.notes))
        except StepError as e:
            reasons.append(f"not {attempt.__name__.strip('_')}: {e}")
    return replace(kernel, notes=(*kernel.notes, *reasons))


def _in_tiles(kernel: Kernel) -> bool:
    """Whether several parallel loops stand one after the other, and one of them works off an axis in tiles: what is merged of its chunks is another nest."""
    nests = [s for s in kernel.body if isinstance(s, Loop) and s.kind == "parallel"]
    return len(nests) > 1 and any(_along_tiles(replace(kernel, body=(x,))) for x in nests)


def _along_tiles(kernel: Kernel) -> bool:
    """Whether loops inside its rows work off an axis in tiles."""
    return any(isinstance(s, Loop) and s.kind in ("serial", "elastic") for s in shape(kernel).body)


def _each_branch(kernel: Kernel, condition: Expr, facts: Facts, target: Target, options: Options) -> Kernel:
    """A kernel that is an `if` on the sizes: what stands under it and under its `else` are scheduled as kernels of their own."""
    bare = replace(kernel, notes=())
    parts = [variants.under(bare, condition), variants.under(bare, None, (condition,))]
    first = _with_few_rows(parts[0], replace(facts, branch=condition), target, options) if parts[0].body else [(None, parts[0])]
    rest = _one_by_one(parts[1], facts, target, options) if parts[1].body else parts[1]
    first = [(both(few, c), part) for few, k in first for c, part in variants.parts_of(k, parts[0])]
    first = [(c, part) for c, part in first if c is None or simplify(both(condition, c) or condition, facts.known) is not FALSE]
    if any(line.startswith(variants.WORD) for _, k in first for line in k.schedule):  # those have no place in the first part
        first = [(None, parts[0])]
    chosen = variants.choose(bare, [*((both(condition, few), k) for few, k in first), *variants.parts_of(rest, parts[1])])
    return replace(chosen, notes=tuple(dict.fromkeys((*kernel.notes, *(note for k in (*(k for _, k in first), rest) for note in k.notes)))))


def _with_few_rows(kernel: Kernel, facts: Facts, target: Target, options: Options) -> list[tuple[Expr | None, Kernel]]:
    """Parallel loops that stand one after the other, scheduled; where rows that share a tile are multiplied by the target's tiles, also for so few of them that vectors take less."""
    found = _one_by_one(kernel, facts, target, options)
    rows = _sharing(kernel, facts, target, options)
    if rows is None or not any(line.split()[0] == "tensorize" for line in found.schedule):
        return [(None, found)]
    few = simplify(rows.lt(FEWEST_ON_TILES), facts.known)
    if few is FALSE:
        return [(None, found)]
    plain = _one_by_one(kernel, facts, replace(target, instructions=target.instructions - TILES.keys()), options)
    return [(None, plain)] if few is TRUE else [(few, plain), (None, found)]


def _sharing(kernel: Kernel, facts: Facts, target: Target, options: Options) -> Expr | None:
    """How many rows share a tile in one of these loops."""
    from .products.cascades import rows_of

    for s in kernel.body:
        if isinstance(s, Loop):
            before = tuple(t for t in kernel.body if isinstance(t, Let))
            rows = rows_of(Plan(replace(kernel, body=(*before, s)), facts, target, options))
            if rows is not None:
                return rows
    return None


def _one_by_one(kernel: Kernel, facts: Facts, target: Target, options: Options) -> Kernel:
    """Parallel loops that stand one after the other, scheduled as kernels of their own, none of which gives a name that another has: the steps can be replayed on all of them."""
    nests = [s for s in kernel.body if not isinstance(s, Let)]
    if len(nests) < 2 or not all(isinstance(s, Loop) and s.kind == "parallel" for s in nests):
        return _scheduled(kernel, facts, target, options, branch=True)
    body: list[Stmt] = list(kernel.body)
    steps, notes = list(kernel.schedule), list(kernel.notes)
    for s in nests:
        place = next(k for k, t in enumerate(body) if t is s)
        before = tuple(t for t in body[:place] if isinstance(t, Let))
        # what others introduce is taken, as the names of buffers are
        others = set(defined((*body[:place], *body[place + 1 :]))) - set(defined((*before, s)))
        taken = (*kernel.buffers, *sorted(others))
        elsewhere = frozenset(n.attr for t in nests if t is not s for n in reads((t,)))
        nest = replace(kernel, buffers=taken, body=(*before, s), schedule=(), notes=())
        alone = _scheduled(nest, facts, target, options, elsewhere, branch=True)
        body[place : place + 1] = map_block(alone.body, lambda t, gone={*before}: () if isinstance(t, Let) and t in gone else None)
        steps += alone.schedule
        notes += alone.notes
    return replace(kernel, body=tuple(body), schedule=tuple(steps), notes=tuple(notes))


def _gpu(plan: Plan) -> bool:
    from .gpu.gpu import grid

    grid(plan)
    return True


def _cascade(plan: Plan) -> bool:
    plan.perfect()
    if not _along_tiles(plan.kernel):
        return False
    from .products.cascades import cascade

    return cascade(plan)


def _blocks(plan: Plan) -> bool:
    return blocks(plan)


def _sums_of_blocks(plan: Plan) -> bool:
    from .products.sums_of_blocks import sums_of_blocks

    plan.perfect()
    return sums_of_blocks(plan)


def _contraction(plan: Plan) -> bool:
    plan.perfect()
    return contract(plan)


def _few_rows(plan: Plan) -> bool:
    from .rows.few_rows import few_rows
    from .rows.longer_rows import lengthened

    lengthened(plan)
    return few_rows(plan)


def _apart(plan: Plan) -> bool:
    from .rows.apart import apart

    part = plan.another()
    pays = apart(part)
    if pays is FALSE:
        return False
    whole = _one_by_one(replace(part.kernel, notes=()), plan.facts, plan.target, plan.options)
    plan.note(*whole.notes)
    if pays is not TRUE:
        rest = plan.another()
        _vectors(rest)
        whole = variants.choose(plan.kernel, [(pays, whole), *variants.parts_of(rest.kernel, plan.kernel)])
        plan.note(*rest.notes)
    plan.kernel = replace(whole, notes=())
    return True


def _vectors(plan: Plan) -> bool:
    from .rows.longer_rows import lengthened
    from .rows.ones import of_ones
    from .rows.rows_carried import rows_carried
    from .rows.rows_of_lanes import by_lanes
    from .rows.rows_together import by_length
    from .rows.transpositions import ascending
    from .rows.whole_lines import by_lines

    lengthened(plan)
    ascending(plan)
    parts = rows_carried(plan) or [*of_ones(plan), *(by_lines(plan) or by_lanes(plan))]
    if not parts or parts[-1][0] is not None:
        parts += by_length(plan)
    plan.kernel = variants.choose(plan.kernel, parts) if len(parts) > 1 else parts[0][1]
    return True
