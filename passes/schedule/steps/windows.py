"""The step that copies what sliding windows read: `window`.  Each element once, however many iterations read it."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

from ....ir import polynomial as pl
from ....ir.bounds import Known
from ....ir.dtypes import INDEX
from ....ir.expr import ONE, ZERO, Expr, both, call, ceildiv, const, load, var, where
from ....ir.kernel import Alloc, Block, Buffer, Kernel, Loop, Store, map_expressions, with_body
from ....ir.record import record, replace
from ....ir.simplify import simplify
from ....ir.walks import postorder, substitute
from ..affine import inside, upper
from ..tree import Facts, StepError, around, find, fresh, names_taken, replace_in, replace_loop, walk_paths
from .staging import axes_inside, staged_value

_COMPARISONS = ("less_than", "less_equal", "equal", "not_equal")


@record
class Form:
    """A sum c·a + … of axes, without a common factor: all that a value knows of these axes."""

    terms: tuple[tuple[str, int], ...]

    def at(self, position: Expr) -> dict[Expr, Expr]:
        """Values of the axes for which the sum is `position`."""
        return {var(axis): position * k for (axis, _), k in zip(self.terms, _bezout([c for _, c in self.terms]), strict=True)}


def window(
    kernel: Kernel,
    facts: Facts,
    buffer: str,
    *axes: str,
    at: str,
    multiple: tuple[str, ...] = (),
    lanes: int = 1,
    space: str = "private",
    name: str = "",
    align: int = 64,
    last: str = "",
) -> Kernel:
    """Copy the part of a buffer that the iterations of some loops read, at its own positions: what several iterations read is copied once.

        for b:                                        for b:
          for l in 0 .. L:                              alloc X.window: f32[G, 2·(L - 1) + S] private
            for p in 0 .. G:                            for p.s in 0 .. G:
              for r in 0 .. S:                  →         for r.s in 0 .. 2·(L - 1) + S:
                … f(X[b, p, 2·l + r]) …                     X.window[p.s, r.s] = f(X[b, p.s, r.s])
                                                        for l in 0 .. L:
                                                          … X.window[p, 2·l + r] …

    `axes` are the loops inside `at` over which the copy extends; each iteration of `at` makes one.  As for `stage`, what is copied is the largest subexpression that reads
    `buffer` and depends, inside `at`, on the axes alone.  It depends on them through sums of disjoint axes with constant factors; each sum is an axis of the copy, in the order of the buffer's own,
    but for that of the axis `last`, along which the copy is consecutive.
    With `multiple`, the copy has room for first axes whose extents are rounded up to multiples of these numbers, with `lanes` its last axis is filled in multiples of that; what only iterations beyond the
    end would read is what stands in place of what a choice does not read, a constant, or 0.
    """
    loop = find(kernel, at)
    value, copied, top = staged_value(kernel, loop.body, buffer, axes, facts, lambda e: isinstance(forms(e, axes), list))
    local = axes_inside(loop.body)
    found = forms(copied, axes)
    if isinstance(found, str):
        raise StepError(f"window: what is read of `{buffer}` {found}")
    if not all(m.isdecimal() and int(m) > 0 for m in multiple):
        raise StepError(f"window: multiple={','.join(multiple)} are no numbers")
    whole = dict(zip(axes, map(int, multiple), strict=False))
    found.sort(key=lambda form: last in dict(form.terms))
    missing = sorted(set(axes) - {a for form in found for a, _ in form.terms})
    if missing:
        raise StepError(f"window: what is read of `{buffer}` does not depend on {', '.join(missing)}")
    taken = names_taken(kernel)
    path = around(kernel, at)
    known = inside(path, facts.known)
    packed = Buffer(fresh(name or f"{buffer}.window", taken), value.dtype, (), space, align=align)
    sides: list[_Side] = []
    for form in found:
        for axis, factor in form.terms:
            x = find(kernel, axis)
            if x.start is not ZERO or x.step is not ONE or axis not in local or x.stop.names & local:
                raise StepError(f"window: `{axis}` does not run from 0 to an extent known outside, in steps of 1, inside `{at}`")
            if axis in whole and factor < 0:
                raise StepError(f"window: `{axis}` counts down, there is no room beyond its end")
        stops = {axis: find(kernel, axis).stop for axis, _ in form.terms}
        sides.append(_side(form, fresh(f"{form.terms[-1][0]}.s", taken), stops, whole, lanes if form is found[-1] else 1, facts, known))
    packed = replace(packed, shape=tuple(side.room for side in sides))
    filled = simplify(
        substitute(copied, {k: v for side in sides for k, v in side.values.items()}),
        known.with_ranges({side.axis: (ZERO, side.extent - 1, 1) for side in sides}),
    )
    inside_bounds = both(*(side.bound for side in sides if side.bound is not None))
    if inside_bounds is not None:
        nothing = const(0, value.dtype)
        if filled.op == "where" and filled.args[2].is_const:
            inside_bounds, filled, nothing = both(inside_bounds, filled.args[0]) or inside_bounds, *filled.args[1:]
        filled = where(inside_bounds, filled, nothing)
    copying: Block = (Store(packed.name, tuple(var(side.axis) for side in sides), filled),)
    for side in reversed(sides):
        copying = (Loop(side.axis, ZERO, side.extent, copying, "parallel"),)
    for s, outer in walk_paths((top,)):
        enclosing = {x.axis for x in outer if isinstance(x, Loop)}
        if any(value in postorder(e) for e in s.expressions() if buffer in e.buffers) and not set(axes) <= enclosing:
            raise StepError(f"window: what is copied is also read outside {', '.join(sorted(set(axes) - enclosing))}")
    replacement = {value: load(packed.name, value.dtype, *(side.place for side in sides))}
    used = map_expressions((top,), lambda e: substitute(e, replacement) if buffer in e.buffers else e)
    changed = replace_in(loop.body, top, (Alloc(packed), *copying, *used))
    return replace_loop(kernel, at, lambda x: (with_body(x, changed),))


class _Side(NamedTuple):
    """One axis of a copy."""

    axis: str  # of the loop that fills it
    extent: Expr  # how much it fills
    room: Expr  # what that never exceeds
    place: Expr  # where the copy is read
    values: dict[Expr, Expr]  # of the axes that are copied
    bound: Expr | None  # beyond this is nothing but room


def _side(form: Form, new: str, stops: dict[str, Expr], whole: dict[str, int], lanes: int, facts: Facts, known: Known) -> _Side:
    """`lanes`: the axis is filled in multiples of that."""
    low, place, exact, rounded, room = ZERO, ZERO, ONE, ONE, ONE
    for axis, factor in form.terms:
        stop, more = stops[axis], whole.get(axis, 1)
        full = ceildiv(stop, more) * more if more > 1 else stop
        low = low + (stop - 1) * min(0, factor)
        place = place + var(axis) * factor
        ends = ((exact, stop), (rounded, full), (room, _room(axis, full, facts, known)))
        exact, rounded, room = (e + (end - 1) * abs(factor) for e, end in ends)
    if lanes > 1:
        rounded, room = (ceildiv(e, lanes) * lanes for e in (rounded, room))
    exact, rounded = simplify(exact, known), simplify(rounded, known)
    bound = None if exact is rounded else var(new).lt(exact)
    return _Side(new, rounded, simplify(room, facts.known), place - low, form.at(var(new) + low), bound)


def _room(axis: str, extent: Expr, facts: Facts, known: Known) -> Expr:
    """What an extent never exceeds, on sizes alone."""
    if not extent.names - facts.sizes.keys():
        return extent
    bound = upper(extent, known)
    most = const(bound) if bound is not None else _most(extent, facts, True)
    if most is None:
        raise StepError(f"window: the extent of `{axis}` depends on {', '.join(sorted(extent.names - facts.sizes.keys()))}")
    return most


def _most(e: Expr, facts: Facts, largest: bool) -> Expr | None:
    """The largest (or smallest) value of what remainders by constants make of sizes; None where it is something else."""
    if not e.names - facts.sizes.keys():
        return e
    if e.op == "mod" and e.args[1].is_const and e.args[1].attr > 0:
        return e.args[1] - 1 if largest else ZERO
    rising = {"add": (True, True), "sub": (True, False), "min": (True, True)}.get(e.op)
    if e.op in ("floordiv", "mul") and e.args[1].is_const and e.args[1].attr:
        rising = (e.args[1].attr > 0, True)
    args = [_most(a, facts, largest == up) for a, up in zip(e.args, rising, strict=True)] if rising else []
    return call(e.op, *(a for a in args if a is not None)) if args and None not in args else None


def forms(value: Expr, axes: tuple[str, ...]) -> list[Form] | str:
    """The sums of axes that a value depends on, in the order in which loads are indexed by them; where it depends on axes in another way, how."""
    wanted = set(axes)
    found, tests = dict[Form, None](), dict[Form, None]()
    stack = [value]
    seen = {value}
    while stack:
        n = stack.pop()
        if n.names.isdisjoint(wanted):
            continue
        below: list[Expr] = []
        compared = n.op in _COMPARISONS and n.args[0].dtype is INDEX
        if compared or (n.dtype is INDEX and n.op != "load"):
            terms: dict[str, int] = {}
            for monomial, factor in (pl.plus(pl.poly(n.args[0]), pl.poly(n.args[1]), -1) if compared else pl.poly(n)).items():
                moving = [a for a in monomial if not a.names.isdisjoint(wanted)]
                if moving and len(monomial) == 1 and moving[0].op == "var":
                    terms[moving[0].attr] = factor
                elif any(a.op == "var" for a in moving) or len(moving) > 1:
                    return f"moves by other than constant steps with {', '.join(sorted(n.names & wanted))}"
                else:
                    below += [b for a in moving for b in a.args]
            if terms:
                divisor = gcd(*terms.values())
                (tests if compared else found)[Form(tuple((a, terms[a] // divisor) for a in axes if a in terms))] = None
        else:
            below += n.args
        for a in reversed(below):
            if a not in seen:
                seen.add(a)
                stack.append(a)
    for form in tests:  # whether q <= k is known of k - q alone
        if Form(tuple((a, -c) for a, c in form.terms)) not in found:
            found[form] = None
    ordered = sorted(found, key=lambda form: _rank(form, value))
    used: set[str] = set()
    for form in ordered:
        own = {a for a, _ in form.terms}
        if own & used:
            return f"depends on {', '.join(sorted(own & used))} in two ways"
        used |= own
    return ordered


def _rank(form: Form, value: Expr) -> tuple[int, ...]:
    """Where a form stands among the indices of the first load that it moves."""
    axis = form.terms[0][0]
    for n in postorder(value):
        if n.op == "load":
            for k, index in enumerate(n.args):
                if axis in index.names:
                    return (0, k)
    return (1, 0)


def _bezout(factors: list[int]) -> list[int]:
    """Integers with which the factors, which have no common divisor, add up to 1."""
    result = [1]
    total = factors[0]
    for f in factors[1:]:
        x, y, total = _extended(total, f)
        result = [*(k * x for k in result), y]
    return [k * total for k in result]  # total is 1 or -1


def _extended(a: int, b: int) -> tuple[int, int, int]:
    """x, y and g with a·x + b·y = g, a greatest common divisor; a unit is taken alone."""
    if abs(a) == 1:
        return 1, 0, a
    if abs(b) == 1:
        return 0, 1, b
    x, y, u, v = 1, 0, 0, 1
    while b:
        q = a // b
        a, b, x, y, u, v = b, a - q * b, u, v, x - q * u, y - q * v
    return x, y, a
