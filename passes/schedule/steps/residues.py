"""The steps for reductions of which only every m-th position counts, as where zeros stand between the elements of an operand: `deal` and `sieve`.

    for i in 0 .. N parallel:                                        for i.0 in 0 .. 2 parallel:
      for p in 0 .. K reduce:                                          for i.1 in 0 .. (N - i.0 + 1) // 2 parallel:
        acc[] add= where((i + p) % 2 <= 0, X[(i + p) // 2], 0)    →      for p in 0 .. (K - i.0 % 2 + 1) // 2 reduce:
                                                                           acc[] add= X[i.1 + p + (i.0 + i.0 % 2) // 2]

`deal` makes loops of the residue classes of a kept axis; inside one of them `sieve` leaves of a reduction the positions that count.
"""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

from ....ir import polynomial as pl
from ....ir.bounds import Known, Range
from ....ir.conditions import conjuncts
from ....ir.dtypes import bool_
from ....ir.expr import TRUE, ZERO, Expr, const, floordiv, mod, var
from ....ir.kernel import Block, Kernel, Loop, Store, identity_of, map_expressions, statements, with_body
from ....ir.record import replace
from ....ir.simplify import simplify
from ....ir.walks import postorder, substitute
from ..affine import extent, inside, minus
from ..tree import Facts, StepError, around, find, fresh, names_taken, replace_loop, simple


class Comb(NamedTuple):
    """A condition (c + a·axis) % modulus <= 0, where a and the modulus have no common divisor."""

    condition: Expr
    modulus: int
    factor: int
    rest: pl.Poly  # c

    def strides(self) -> dict[str, int]:
        """For each name in c: in how many steps of it the condition is the same again; only names that c is linear in."""
        return {m[0].attr: self.modulus // gcd(self.modulus, k) for m, k in self.rest.items() if len(m) == 1 and m[0].op == "var"}


def comb(loop: Loop) -> Comb | None:
    """The condition by which a reduction over this loop adds something at every so-many-th position, and nothing elsewhere."""
    stores = [s for s in statements(loop.body) if not isinstance(s, Loop)]
    if loop.kind != "reduce" or not all(isinstance(s, Store) and s.combiner for s in stores):
        return None
    tests = [t for n in postorder(*(e for s in stores for e in s.expressions())) if n.op == "where" for t in conjuncts(n.args[0])]
    for test in dict.fromkeys(tests):
        found = _comb(test, loop.axis)
        if found is not None and all(isinstance(s, Store) and _is_identity(s, test) for s in stores):
            return found
    return None


def _comb(test: Expr, axis: str) -> Comb | None:
    if test.op not in ("less_equal", "equal") or test.args[1] is not ZERO or test.args[0].op != "mod":
        return None
    position, modulus = test.args[0].args
    p = pl.poly(position)
    factor = p.get((var(axis),), 0)
    rest = {m: c for m, c in p.items() if m != (var(axis),)}
    if not modulus.is_const or modulus.attr < 2 or gcd(factor, modulus.attr) != 1 or any(axis in a.names for m in rest for a in m):
        return None
    return Comb(test, modulus.attr, factor, rest)


def _is_identity(store: Store, test: Expr) -> bool:
    """Whether a store adds what changes nothing where the test fails."""
    nothing = identity_of(store.combiner, store.value.dtype)
    stack = [store.value]
    while stack:
        n = stack.pop()
        if n.op == "where" and test in conjuncts(n.args[0]):
            if n.args[2].attr != nothing.attr or not n.args[2].is_const:
                return False
        elif n.op == "cast" and n.args[0].dtype is not bool_ and store.combiner == "add":
            stack.append(n.args[0])
        elif n.op == "mul" and store.combiner == "add":
            # one factor is 0: what the others are need not be known
            stack.append(next((a for a in n.args if any(m.op == "where" and test in conjuncts(m.args[0]) for m in postorder(a))), n.args[0]))
        else:
            return False
    return True


def deal(kernel: Kernel, facts: Facts, axis: str, count: int) -> Kernel:
    """Deal an axis out, as one deals cards: a loop over residue classes, and in it one over the positions of a class.

        for i in 0 .. N:          for i.0 in 0 .. 4:
          S(i)             →        for i.1 in 0 .. (N - i.0 + 3) // 4:
                                      S(4·i.1 + i.0)

    The loop is parallel and runs in steps of 1.
    """
    loop = find(kernel, axis)
    if loop.kind != "parallel" or loop.step.attr != 1:
        raise StepError(f"deal: `{axis}` is not parallel, or does not run in steps of 1")
    if count < 1:
        raise StepError(f"deal: {count} classes")
    taken = names_taken(kernel)
    outer, inner = fresh(f"{axis}.0", taken), fresh(f"{axis}.1", taken)
    length = floordiv(extent(loop) - var(outer) + (count - 1), const(count))
    known = inside(around(kernel, axis)[:-1], facts.known).with_ranges({outer: Range(ZERO, const(count - 1)), inner: Range(ZERO, length - 1)})
    body = _moved(loop.body, {var(axis): loop.start + var(inner) * count + var(outer)}, known)
    classes = Loop(outer, ZERO, const(count), (Loop(inner, ZERO, length, body, loop.kind, span=loop.span),), loop.kind, span=loop.span)
    return replace_loop(kernel, axis, lambda _: (classes,))


def sieve(kernel: Kernel, facts: Facts, axis: str) -> Kernel:
    """Leave of a reduction the positions that count.

        for p in 0 .. K reduce:                                        for p in 0 .. (K - f + 1) // 2 reduce:      with f = -r mod 2
          acc[] add= where((r + p) % 2 <= 0, X[(r + p) // 2], 0)   →     acc[] add= X[p + (r + f) // 2]

    The condition stands around all that is accumulated, or around a factor of it, and what is accumulated where it fails changes nothing; a product with zero counts as zero whatever the other
    factor is, so not under --strict.
    """
    loop = find(kernel, axis)
    found = comb(loop)
    if found is None:
        raise StepError(f"sieve: `{axis}` is no reduction to which only every so-many-th position adds anything")
    if facts.strict:
        raise StepError("sieve: where a factor is zero the other may be infinite, and --strict forbids to leave that out")
    count = found.modulus
    known = inside(around(kernel, axis)[:-1], facts.known)
    start = pl.expr(pl.scaled(found.rest, -pow(found.factor, -1, count) % count))
    skipped = simplify(mod(minus(start, loop.start), const(count)), known)
    length = simplify(floordiv(extent(loop) - skipped + (count - 1), const(count)), known)
    body = _moved(loop.body, {found.condition: TRUE}, known)
    inner = known.with_ranges({axis: Range(ZERO, length - 1)})
    body = _moved(body, {var(axis): loop.start + var(axis) * count + skipped}, inner)
    return replace_loop(kernel, axis, lambda x: (with_body(replace(x, start=ZERO, stop=length), body),))


def _moved(body: Block, mapping: dict[Expr, Expr], known: Known) -> Block:
    """The statements with expressions put in the place of others, and what that says worked out."""
    return map_expressions(body, lambda e: e if (new := simple(substitute(e, mapping))) is e else simplify(new, known))
