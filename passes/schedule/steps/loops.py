"""Steps on loops: split, reorder, collapse, tile.  What kinds a loop may be given is in `kinds.py`.

Every step is a function `(kernel, facts, arguments…) -> kernel`.  It addresses loops by their axes and refuses with a `StepError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ....ir.bounds import Range
from ....ir.dtypes import INDEX
from ....ir.expr import ONE, ZERO, Expr, ceildiv, const, first, floordiv, last, maximum, minimum, mod, var, where
from ....ir.kernel import Block, If, Kernel, Let, Loop, Stmt, Store, identity_of, map_expressions, nested, with_blocks
from ....ir.operator_kinds import ENDS
from ....ir.record import replace
from ....ir.simplify import simplify
from ....ir.verify.body import Body
from ....ir.verify.races import overwrites, races
from ....ir.walks import substitute, substitution
from ..affine import at_least, bounded, extent, extreme, inside, inside_for, is_multiple, minus
from ..tree import Facts, StepError, around, copy, find, fresh, names_taken, nest, replace_loop
from .filled import stays_filled
from .guards import clamp_block, pad_block

TAILS: Final = ("guard", "cut", "pad", "clamp", "perfect")
_PLAIN: Final = ("serial", "parallel", "reduce")


def plain(loop: Stmt, step: str) -> Loop:
    """A loop in steps of 1 whose iterations are not run in another way already; StepError for every other."""
    assert isinstance(loop, Loop)
    if loop.step is not ONE:
        raise StepError(f"{step}: `{loop.axis}` does not run in steps of 1")
    if loop.kind not in _PLAIN:
        raise StepError(f"{step}: `{loop.axis}` is {loop.kind} already")
    return loop


def at(block: Block, *places: tuple[Loop, Expr]) -> Block:
    """The block with the variables of these loops at these values; `first` and `last` of their axes become comparisons."""
    return map_expressions(block, _moved(*places))


def _moved(*places: tuple[Loop, Expr]) -> Callable[[Expr], Expr]:
    """`at` for one expression after the other, which share what they are made of."""
    here = {var(loop.axis): value for loop, value in places}
    moved = substitution(here)

    def change(e: Expr) -> Expr:
        if not e.kinds & ENDS:
            return moved(e)
        ends: dict[Expr, Expr] = {}
        for loop, value in places:
            ends |= {first(loop.axis): value.eq(loop.start), last(loop.axis): value.eq(loop.stop - 1)}
        return substitute(e, here | ends)

    return change


def split(kernel: Kernel, facts: Facts, axis: str, factor: int, tail: str = "guard", aligned: int = 0) -> Kernel:
    """Cut an axis in two.

        for i in 0 .. N:          for i.0 in 0 .. ceil(N / 4):                            tail=guard
          S(i)             →        for i.1 in 0 .. min(4, N - 4·i.0):
                                      S(4·i.0 + i.1)

        tail=perfect: i.1 in 0 .. 4 and no tail; N is known to be a multiple of 4.
        tail=cut:     i.0 in 0 .. N // 4, i.1 in 0 .. 4, and then  for i.t in 4·(N // 4) .. N: S(i.t)
        tail=pad:     i.0 in 0 .. ceil(N / 4), i.1 in 0 .. 4, and S is run beyond N too: loads give 0 there (of local buffers that are filled so far, what is
                      there), stores to memory that outlives the iteration are guarded by `4·i.0 + i.1 < N`.
        tail=clamp:   as pad, but beyond N it is S(N - 1) that is run again: what is read needs no guard.

    Of a loop that starts at s, 4·i.0 + i.1 is counted from there; with aligned=1, for an s that is known to be a multiple of 4, from 0: i.0 in s // 4 .. , so that a part is the
    same positions wherever the loop starts.

    The loop runs in steps of 1 and is serial, parallel or reduce; both parts are of its kind.  Only parallel axes are padded or clamped (the iterations beyond
    the end leave nothing behind that another could see), and not across a `while`; of serial ones all of S is guarded; and reductions that
    accumulate, which beyond N they do with what changes nothing, and store at their own positions, which there they do not.  A part whose name is something
    else's already is `i.0.b` (`i.0.c`, …), as all that steps make.
    """
    loop = plain(find(kernel, axis), "split")
    if factor < 1:
        raise StepError(f"split: a factor of {factor}")
    if tail not in TAILS:
        raise StepError(f"split: tail={tail} is none of {', '.join(TAILS)}")
    taken = names_taken(kernel)
    outer, inner = parts_of(axis, taken)
    length = extent(loop)
    exact = is_multiple(length, factor, facts.known)
    if tail == "perfect" and not exact:
        raise StepError(f"split: {length} is not known to be a multiple of {factor}; use tail=guard, cut or pad")
    origin, begin, end = loop.start, ZERO, length
    if aligned and loop.start is not ZERO:
        if not is_multiple(loop.start, factor, facts.known):
            raise StepError(f"split: `{axis}` is not known to start at a multiple of {factor}")
        origin, begin, end = ZERO, simplify(floordiv(loop.start, const(factor)), facts.known), loop.stop
    value = origin + (var(outer) * factor + var(inner))
    body = loop.body
    if exact or tail == "cut":
        parts, inner_stop = floordiv(end, const(factor)), const(factor)
    else:
        parts, inner_stop = ceildiv(end, factor), const(factor)
        if tail == "guard":
            inner_stop = bounded(factor, minus(end, var(outer) * factor))
        elif loop.kind == "reduce" and tail == "pad":
            body = _neutral(loop)
        elif loop.kind == "serial" and tail == "pad":
            body = (If(var(axis).lt(loop.stop), body),)
        elif loop.kind != "parallel":
            raise StepError(
                f"split: only parallel axes can be padded or clamped, and reductions padded, `{axis}` is {loop.kind}; use tail=guard or cut"
            )
        elif tail == "pad":
            body = pad_block(body, var(axis).lt(loop.stop), axis, stays_filled(kernel, facts, loop, factor))
        else:
            at_last = _moved((loop, minimum(var(axis), loop.stop - 1)))
            body = clamp_block(body, var(axis).lt(loop.stop), lambda b: map_expressions(b, at_last))
    main = Loop(inner, ZERO, inner_stop, at(body, (loop, value)), loop.kind, span=loop.span)
    result: Block = (Loop(outer, begin, parts, (main,), loop.kind, span=loop.span),)
    if tail == "cut" and not exact:
        rest = fresh(f"{axis}.t", taken)
        known = inside_for(around(kernel, axis)[:-1], facts.known, loop.start, loop.stop)
        behind = origin + (parts if at_least(length, 0, known) else maximum(begin, parts)) * factor
        result = (*result, Loop(rest, simplify(behind, known), loop.stop, copy(at(loop.body, (loop, var(rest))), taken), loop.kind, span=loop.span))
    return replace_loop(kernel, axis, lambda _: result)


def parts_of(axis: str, taken: set[str]) -> tuple[str, str]:
    """The names of the two parts of an axis that is cut where these are taken."""
    return fresh(f"{axis}.0", taken), fresh(f"{axis}.1", taken)


def part(kernel: Kernel, facts: Facts, axis: str, count: int = 0) -> Kernel:
    """Cut an axis in so many equal parts, or (without a count) in parts as long as what its positions are divided by.

        for i in 0 .. N:          for i.0 in 0 .. 4:
          S(i)             →        for i.1 in 0 .. N // 4:
                                      S(N // 4·i.0 + i.1)

        for i in 0 .. H·W:                   for i.0 in 0 .. H:
          Y[i] = A[i // W] * B[i % W]   →      for i.1 in 0 .. W:
                                                 Y[W·i.0 + i.1] = A[i.0] * B[i.1]

    N is known to be a multiple of the count, the extent one of the divisor.  What the parts say of positions, such as i // (N // 4), is worked out.
    """
    from ..divisions import pieces

    loop = plain(find(kernel, axis), "part")
    length = extent(loop)
    if count:
        if not is_multiple(length, count, facts.known):
            raise StepError(f"part: {length} is not known to be a multiple of {count}")
        parts, size = const(count), simplify(floordiv(length, const(count)), facts.known)
    else:
        found = pieces(loop, facts.known) if loop.start is ZERO else None
        if found is None:
            raise StepError(f"part: no position along `{axis}` is divided by what its extent is a multiple of")
        parts, size = found
    taken = names_taken(kernel)
    outer, inner = parts_of(axis, taken)
    body = at(loop.body, (loop, loop.start + (var(outer) * size + var(inner))))
    known = inside(around(kernel, axis)[:-1], facts.known).with_ranges({outer: Range(ZERO, parts - 1), inner: Range(ZERO, size - 1)})
    body = map_expressions(body, lambda e: simplify(e, known) if outer in e.names else e)
    whole = Loop(outer, ZERO, parts, (Loop(inner, ZERO, size, body, loop.kind, span=loop.span),), loop.kind, span=loop.span)
    return replace_loop(kernel, axis, lambda _: (whole,))


def share(kernel: Kernel, facts: Facts, axis: str, most: int, multiple: int = 1, whole: int = 1, beside: str = "") -> Kernel:
    """Cut an axis in blocks of nearly equal length, at most so long, and so many that their number is a multiple.

        for i in 0 .. N:          for i.0 in 0 .. n:                                                          with n = max(1, ceil(N / 8))·2
          S(i)             →        for i.1 in 0 .. min(4, (i.0 + 1)·N // n - i.0·N // n):                    (share i 4 multiple=2)
                                      S(i.0·N // n + i.1)

        for i in 0 .. N:          for i.0 in 0 .. ceil(N / L):                                                with L = ceil(N / 4n)·4
          S(i)             →        for i.1 in 0 .. min(L, N - i.0·L):                                        (share i 8 multiple=2 whole=4)
                                      S(i.0·L + i.1)

    A few blocks of full length and a short one are shared unevenly.  With `whole`, all but the last are as long as a multiple of that, of which `most` is one.  With `beside`, an axis around this one whose iterations are shared too, any number
    of blocks will do where its extent is a multiple.  The loop runs in steps of 1 and is parallel.
    """
    loop = plain(find(kernel, axis), "share")
    if loop.kind != "parallel":
        raise StepError(f"share: `{axis}` is not parallel")
    if most < 1 or multiple < 1 or whole < 1 or most % whole:
        raise StepError(f"share: blocks of {most}, a multiple of {multiple} of them, each of whole {whole}")
    taken = names_taken(kernel)
    outer, inner = parts_of(axis, taken)
    all_ = extent(loop)
    shared: Expr = const(multiple)
    if beside:
        around_it = next((x for x in around(kernel, axis) if isinstance(x, Loop) and x.axis == beside != axis), None)
        if around_it is None:
            raise StepError(f"share: `{beside}` is not around `{axis}`")
        shared = where(mod(extent(around_it), shared).eq(ZERO), ONE, shared)
    count = simplify(maximum(ONE, ceildiv(all_, shared * most)) * shared, facts.known)
    if whole > 1:
        length = simplify(maximum(ONE, ceildiv(all_, count * whole)) * whole, facts.known)
        first, stop, blocks = var(outer) * length, minimum(length, all_ - var(outer) * length), ceildiv(all_, length)
    else:
        first, behind = (floordiv((var(outer) + k) * all_, count) for k in (0, 1))
        stop, blocks = minimum(const(most), behind - first), count
    main = Loop(inner, ZERO, stop, at(loop.body, (loop, loop.start + (first + var(inner)))), loop.kind, span=loop.span)
    return replace_loop(kernel, axis, lambda _: (Loop(outer, ZERO, blocks, (main,), loop.kind, span=loop.span),))


def _neutral(loop: Loop) -> Block:
    """The body of a reduction as it may run beyond its end."""
    inside = var(loop.axis).lt(loop.stop)
    result: list[Stmt] = []
    for s in loop.body:
        own = isinstance(s, Store) and loop.axis in {n for e in s.index for n in e.names}
        if isinstance(s, Let):
            result.append(replace(s, value=where(inside, s.value, const(0, s.value.dtype))))
        elif isinstance(s, Store) and own:
            result.append(If(inside, (s,)))
        elif isinstance(s, Store) and s.combiner:
            result.append(replace(s, value=where(inside, s.value, identity_of(s.combiner, s.value.dtype))))
        else:
            raise StepError(
                f"split: beyond its end `{loop.axis}` would do more than accumulate and store at its own positions; use tail=guard or cut"
            )
    return tuple(result)


def reorder(kernel: Kernel, facts: Facts, *axes: str) -> Kernel:
    """Nest the loops in the order given, outermost first.

        for i in 0 .. M:          for j in 0 .. N:
          for j in 0 .. N:   →      for i in 0 .. M:
            S                         S

    An elastic loop whose bounds depend on a loop that it leaves runs over all that this loop's iterations have, and so do the loops inside of it.

    The axes are a perfect nest.  Two loops may change places where one of them is parallel, or both are reductions (not under --strict: the order of a float sum
    changes), and where neither's bounds depend on the other.
    """
    if len(axes) < 2 or len(set(axes)) != len(axes):
        raise StepError("reorder: give two or more different axes")
    for axis in axes:
        find(kernel, axis)
    chain = [s for s in around(kernel, axes[0]) if isinstance(s, Loop)]
    top = next(loop.axis for loop in chain if loop.axis in axes)
    order = [top]
    loop = find(kernel, top)
    while len(order) < len(axes):
        if len(loop.body) != 1 or not isinstance(loop.body[0], Loop) or loop.body[0].axis not in axes:
            raise StepError(f"reorder: {', '.join(axes)} are not a perfect nest (`{loop.axis}` holds something else)")
        loop = loop.body[0]
        order.append(loop.axis)
    loops = dict(zip(order, nest(kernel, tuple(order)), strict=True))
    for place, axis in enumerate(axes):
        for other in axes[place + 1 :]:
            if order.index(axis) > order.index(other):
                _may_swap(loops[other], loops[axis], facts)
    body = loop.body
    for place, axis in enumerate(axes):
        bad = (loops[axis].start.names | loops[axis].stop.names) & set(axes[place:])
        if bad and loops[axis].kind == "elastic":
            left = [loops[a] for a in axes if a in bad]
            loops[axis] = replace(_stretched(loops[axis], left), kind="serial")
            body = _stretched_inside(body, left)
        elif bad:
            raise StepError(f"reorder: the bounds of `{axis}` depend on {', '.join(sorted(bad))}")
    body = nested([loops[axis] for axis in axes], body)
    result = replace_loop(kernel, top, lambda _: body)
    outwards = [
        axis for place, axis in enumerate(axes) if any(loops[o].kind == "serial" and order.index(o) < order.index(axis) for o in axes[place + 1 :])
    ]
    if outwards:
        _still_independent(result, facts, outwards)
    return result


def _still_independent(kernel: Kernel, facts: Facts, axes: list[str]) -> None:
    """A loop that is parallel inside one iteration of a loop in order need not be so around it.  StepError."""
    laid = Body(kernel.name, kernel.body, facts.buffers, {}, frozenset(facts.sizes), frozenset(), False)
    found = next((f for f in (*races(laid, axes), *overwrites(laid, axes))), None)
    if found is not None:
        raise StepError(f"reorder: they are parallel only inside a loop in order: {found}")


def _stretched_inside(block: Block, loops: list[Loop]) -> Block:
    """What stands inside an elastic loop that leaves these loops: the loops whose bounds move with them run over all that they have for some iteration."""
    names = {x.axis for x in loops}

    def walk(s: Stmt) -> Stmt:
        if isinstance(s, Loop) and not names.isdisjoint(s.start.names | s.stop.names):
            s = _stretched(s, loops)
        return with_blocks(s, lambda b: tuple(map(walk, b)))

    return tuple(map(walk, block))


def _stretched(loop: Loop, inside: list[Loop]) -> Loop:
    """A loop, elastic or inside of one, over all positions that it has for some iteration of these loops."""
    start, stop = loop.start, loop.stop
    for other in inside:
        if other.step is not ONE:
            raise StepError(f"reorder: `{other.axis}` does not run in steps of 1, and the bounds of `{loop.axis}` depend on it")
        low, high = other.start, other.stop - 1
        ends = (extreme(start, other.axis, low, high, largest=False), extreme(stop, other.axis, low, high, largest=True))
        if ends[0] is None or ends[1] is None:
            raise StepError(f"reorder: how the bounds of `{loop.axis}` move with `{other.axis}` is not known")
        start, stop = ends[0], ends[1]
    return replace(loop, start=start, stop=stop)


def _may_swap(a: Loop, b: Loop, facts: Facts) -> None:
    if "parallel" in (a.kind, b.kind):
        return
    if a.kind == b.kind == "reduce":
        if facts.strict:
            raise StepError(f"reorder: exchanging the reductions `{a.axis}` and `{b.axis}` changes the order of the sum, and --strict forbids it")
        return
    raise StepError(f"reorder: `{a.axis}` ({a.kind}) and `{b.axis}` ({b.kind}): neither is known to be parallel")


def collapse(kernel: Kernel, facts: Facts, a: str, b: str, named: int = 0) -> Kernel:
    """Two nested loops become one.

        for i in 0 .. M:            for i_j in 0 .. M·N:
          for j in 0 .. N:     →      S(i_j // N, i_j % N)
            S(i, j)

    The loops are a perfect nest of one kind (serial, parallel or reduce), in steps of 1, and N does not depend on i.  With named=1 the two positions keep their names, as `let`s: shorter
    where they are used often.
    """
    outer, inner = nest(kernel, (a, b))
    for loop in (outer, inner):
        plain(loop, "collapse")
    if outer.kind != inner.kind:
        raise StepError(f"collapse: `{a}` is {outer.kind}, `{b}` is {inner.kind}")
    if a in inner.start.names | inner.stop.names:
        raise StepError(f"collapse: the bounds of `{b}` depend on `{a}`")
    name = fresh(f"{a}_{b}", names_taken(kernel))
    width = extent(inner)
    trips = extent(outer) * width
    if trips.is_const and trips.attr > INDEX.max:
        raise StepError(f"collapse: `{a}` and `{b}` together run more often than an index counts")
    positions = (outer.start + floordiv(var(name), width), inner.start + mod(var(name), width))
    if named:
        body: Block = (Let(a, positions[0]), Let(b, positions[1]), *inner.body)
    else:
        body = at(inner.body, (inner, positions[1]), (outer, positions[0]))
    return replace_loop(kernel, a, lambda _: (Loop(name, ZERO, trips, body, outer.kind, span=outer.span),))


def tile(kernel: Kernel, facts: Facts, a: str, b: str, factor_a: int, factor_b: int, tail: str = "guard") -> Kernel:
    """Split two nested axes and bring the outer parts outside: `a.0 b.0 a.1 b.1`.

        for i in 0 .. M:            for i.0 in 0 .. ceil(M / 4):
          for j in 0 .. N:     →      for j.0 in 0 .. ceil(N / 8):
            S                           for i.1 in 0 .. min(4, M - 4·i.0):
                                          for j.1 in 0 .. min(8, N - 8·j.0):
                                            S

    As `split` twice and `reorder`; tail=cut would leave no perfect nest and is refused.
    """
    if tail == "cut":
        raise StepError("tile: a cut tail leaves no perfect nest; use guard, pad or perfect")
    outer_a, inner_a = parts_of(a, names_taken(kernel))
    kernel = split(kernel, facts, a, factor_a, tail)
    outer_b, inner_b = parts_of(b, names_taken(kernel))
    kernel = split(kernel, facts, b, factor_b, tail)
    return reorder(kernel, facts, outer_a, outer_b, inner_a, inner_b)
