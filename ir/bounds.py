"""What is known of sizes, variables and positions, and what follows from it: intervals, divisibility, proofs of inequalities.

A proof shows that a polynomial is >= 0.  Its steps, each of which replaces the goal by one or more stronger goals:

    tighten     g·q + c >= 0                  ⇐ q + floor(c / g) >= 0             g divides every coefficient but the constant
    loosen      p >= 0                        ⇐ p + g - 1 - c % g >= 0            g divides every term but the constant c, by what is known of its atoms (2·(i // 2) + 2 <= H, where H is even, follows from i < H)
    interval    p >= 0                        ⇐ the sum of the terms' least values is >= 0
    endpoint    c·v + r >= 0                  ⇐ c >= 0 and c·min(v) + r >= 0, or c <= 0 and c·max(v) + r >= 0, or both ends
    division    c·(x // d) + r >= 0           ⇐ c·(x - d + 1) + d·r + d - 1 >= 0 for c >= 0, c·x + d·r + d - 1 >= 0 for c <= 0      (d > 0)
    modulus     c·(x % d) + r >= 0            ⇐ an endpoint of 0 … d - 1 or, for c <= 0 and x >= 0, c·x + r >= 0
    branch      c·min(a, b) + r >= 0          ⇐ both with a and b; for c <= 0 one suffices (max: the other way round; where: both)
    fact        p >= 0                        ⇐ b·p - a·f >= 0 for a known f >= 0 and a, b > 0 that cancel one term (Fourier-Motzkin)

Bounds of a variable may be expressions over other names (0 <= i <= N - 1).  Reasoning is about a place where every name has a value: that a loop
variable is in scope says that its range is not empty (N >= 1).
"""

from __future__ import annotations

from typing import Final

from . import polynomial as pl
from .dtypes import INDEX
from .expr import Expr
from .knowledge import Knowledge
from .polynomial import Poly
from .ranges import Range
from .walks import postorder

FUEL: Final = 120  # goals that one proof may look at
DEPTH: Final = 3  # facts that one proof may combine

Goal = frozenset[tuple[pl.Monomial, int]]  # the terms of a polynomial that is to be >= 0


class Known(Knowledge):
    """`Known({"N": Size("N"), "i": (0, N - 1, 1), …})`: knowledge that proves inequalities.  Make one for a scope and keep it: the answers are
    remembered in it."""

    def _forget(self) -> None:
        super()._forget()
        self._proofs: dict[Goal, bool] = {}
        self._asides: dict[Goal, bool] = {}
        self._tried: dict[tuple[Goal, int, frozenset[int]], bool] = {}  # steps of proofs: the depth that is left, and the facts that are used up
        self._parts: dict[tuple[Expr, Expr], bool] = {}  # of `_is_part`
        self._within = 0  # side conditions
        self._fuel = 0

    # ---- proofs

    def nonnegative(self, p: Poly) -> bool:
        """p >= 0 is proven."""
        if pl.is_constant(p):
            return p.get((), 0) >= 0
        low, high = self.interval(p)  # which answers half of the questions, and asks for no points
        if low is not None and low >= 0:
            return True
        return (high is None or high >= 0) and not self.refuted(p) and self._holds(p)

    def positive(self, p: Poly) -> bool:
        return self.nonnegative(pl.shifted(p, -1))

    def decided(self, p: Poly) -> bool | None:
        """True where p >= 0 is proven, False where p < 0 is, None where neither is.  The same points say of both which need not be tried."""
        if pl.is_constant(p):
            return p.get((), 0) >= 0
        below = above = False
        for point in self.points:
            value = point.at(p)
            if value is not None:
                below, above = below or value < 0, above or value >= 0
                if below and above:
                    return None
        if not below and self._holds(p):
            return True
        return False if not above and self._holds(pl.shifted(pl.scaled(p, -1), -1)) else None

    def _holds(self, p: Poly) -> bool:
        """A proof is found, or was found before, of p >= 0, which no point refutes."""
        name = frozenset(p.items())
        found = self._proved(name)
        if found is None:
            self._fuel = FUEL
            found = self._proofs[name] = self._search(p, DEPTH, ())
        return found

    def _proved(self, name: Goal) -> bool | None:
        """What an earlier proof said; a proof with less knowledge counts where it succeeded."""
        found = self._proofs.get(name)
        base = self.base
        while base is not None and not found:
            found = base._proofs.get(name) or found
            base = base.base
        return found

    def _aside(self, p: Poly) -> bool:
        """p >= 0 as a side condition inside a proof: with the fuel that is left, one fact deep, and never resting on itself."""
        if pl.is_constant(p):
            return p.get((), 0) >= 0
        if self.refuted(p):
            return False
        name = frozenset(p.items())
        found = self._proved(name)
        if found is None:
            found = self._asides.get(name)
        if found is None:
            self._asides[name] = False
            self._within += 1
            found = self._asides[name] = self._search(p, 1, ())
            self._within -= 1
        return found

    def _prove(self, p: Poly, depth: int, used: tuple[int, ...]) -> bool:
        """p >= 0 as a step of a proof."""
        if self.refuted(p):
            self._fuel -= 1
            return False
        return self._search(p, depth, used)

    def _search(self, p: Poly, depth: int, used: tuple[int, ...]) -> bool:
        """A proof of p >= 0, which no point refutes."""
        self._fuel -= 1
        if self.divisible:
            p = self._loosened(p)
        p = pl.tightened(p)
        if pl.is_constant(p):
            return p.get((), 0) >= 0
        low, high = self.interval(p)
        if low is not None and low >= 0:
            return True
        if self._fuel <= 0 or (high is not None and high < 0):
            return False
        name = frozenset(p.items()), depth, frozenset(used)
        found = self._tried.get(name)
        if found is None:
            found = self._by_elimination(p, depth, used) or (depth > 0 and self._by_facts(p, depth, used))
            if found or (self._fuel > 0 and not self._within):  # not what failed for lack of fuel, or of a side condition that is being looked for
                self._tried[name] = found
        return found

    def _loosened(self, p: Poly) -> Poly:
        """The weakest goal that says the same: p is some multiples of g more or less than c % g, so it is >= 0 wherever it is more than c % g - g."""
        g = self.multiple({m: c for m, c in p.items() if m})
        return pl.plus(p, pl.constant((-1 - p.get((), 0)) % g)) if g > 1 else p

    def _by_facts(self, p: Poly, depth: int, used: tuple[int, ...]) -> bool:
        for k, f in enumerate(self.facts):
            if k in used:
                continue
            for m, b in f.items():
                a = p.get(m, 0)
                if m and a * b > 0 and self._prove(pl.plus(pl.scaled(p, abs(b)), f, -abs(a)), depth - 1, (*used, k)):
                    return True
        return False

    def _by_elimination(self, p: Poly, depth: int, used: tuple[int, ...]) -> bool:
        """Replace one atom by its extreme; the first that can be is taken (its extreme is attained, so nothing is lost), but for divisions and branches."""
        atoms = pl.atoms(p)
        for a in self._in_order(atoms, p) if len(atoms) > 1 else atoms:
            linear = pl.linear(p, a)
            if linear is None:
                continue
            c, rest = linear
            rises = self._sign(c)
            goals = self._extremes(a, c, rest, rises)
            for together in goals:
                for goal in together:  # loops, not all() and any(): a proof may be long, and every frame counts
                    if not self._prove(goal, depth, used):
                        break
                else:
                    return True
            if goals:
                return False
        return False

    def _in_order(self, atoms: list[Expr], p: Poly) -> list[Expr]:
        """As `elimination_order` has them, and compound atoms before those that they are made of: x - 8·(x // 8) where x is a quotient itself.  But for variables that a compound atom bounds,
        which is not made of them: q <= ceil(N / 16) - 4·(N // 64) goes before N // 64, which then cancels; and for those at an end of their own: b + 16·((N - k + 15) // 16) > 15 where b >= 0 and k < N."""
        found = sorted(atoms, key=self.elimination_order)
        compound = [a for a in found if a.args]
        if len(compound) > 1:
            around = {a: sum([a.names <= b.names and self._is_part(a, b) for b in compound]) for a in compound}
            compound.sort(key=around.__getitem__)
            found = [*compound, *found[len(compound) :]]
        if compound and len(compound) < len(found):
            leaves = found[len(compound) :]
            bounded = [a for a in leaves if not self.limits(a).isdisjoint(compound) and all(a.names.isdisjoint(x.names) for x in compound)]
            alone = [a for a in leaves if a not in bounded and self._at_a_number(a, p)]
            free = [a for a in alone if a.names.isdisjoint(self._behind(compound, leaves))] if alone else []
            if bounded or free:
                return [*bounded, *free, *(a for a in found if a not in bounded and a not in free)]
        return found

    def _is_part(self, a: Expr, b: Expr) -> bool:
        """Whether a stands in b, which is remembered where b does not remember what it is made of: choices of choices may have thousands of nodes."""
        if b.order is not None:
            return a in b.order
        found = self._parts.get((a, b))
        if found is None:
            found = self._parts[a, b] = a in postorder(b)
        return found

    def _behind(self, compound: list[Expr], leaves: list[Expr]) -> set[str]:
        """The names that compound atoms are made of, and those that bound these or the leaves."""
        found: set[str] = set().union(*(x.names for x in compound))
        waiting = [*found, *(n for a in leaves for n in a.names)]
        while waiting:
            r = self.ranges.get(waiting.pop())
            for end in () if r is None else (r.min, r.max):
                if isinstance(end, Expr):
                    waiting += end.names - found
                    found |= end.names
        return found

    def _at_a_number(self, a: Expr, p: Poly) -> bool:
        """Whether the least value of p is where this variable is at an end of its own that is a number: then nothing is lost by putting it there, before a division is rounded."""
        c = p.get((a,), 0)
        end = self.range(a).min if c > 0 else self.range(a).max
        return isinstance(end, int) and c != 0 and sum(a in m for m in p) == 1

    def _sign(self, c: Poly) -> int:
        """1 for c >= 0, -1 for c <= 0, 0 for unknown."""
        if pl.is_constant(c):
            return 1 if c.get((), 0) >= 0 else -1
        return 1 if self._aside(c) else -1 if self._aside(pl.scaled(c, -1)) else 0

    def _extremes(self, a: Expr, c: Poly, rest: Poly, rises: int) -> list[list[Poly]]:
        """Alternatives, each a list of goals that together imply c·a + rest >= 0; empty where nothing is known."""

        times = c.get((), 0) if len(c) == 1 else 0

        def at(value: Poly) -> Poly:
            return pl.plus(rest, value, times) if times else pl.plus(pl.times(c, value), rest)

        if a.op in ("min", "max", "where"):
            x, y = (at(pl.poly(arg)) for arg in a.args[-2:])
            one_suffices = rises == (-1 if a.op == "min" else 1) and a.op != "where"
            return [[x], [y]] if one_suffices else [[x, y]]
        if a.op in ("floordiv", "mod"):
            x, d = pl.poly(a.args[0]), pl.poly(a.args[1])
            return self._division_extremes(a.op, x, d, c, rest, rises) if rises and self._aside(pl.shifted(d, -1)) else []
        low, high = self.ends(a)
        if rises > 0:
            return [] if low is None else [[at(low)]]
        if rises < 0:
            return [] if high is None else [[at(high)]]
        return [] if low is None or high is None else [[at(low), at(high)]]

    def _division_extremes(self, op: str, x: Poly, d: Poly, c: Poly, rest: Poly, rises: int) -> list[list[Poly]]:
        below = pl.shifted(d, -1)
        if op == "mod":
            if rises > 0:
                return [[rest]]
            return [[pl.plus(pl.times(c, below), rest)], [x, pl.plus(pl.times(c, x), rest)]]
        whole = pl.plus(pl.times(d, rest), below)
        if rises < 0:
            return [[pl.plus(pl.times(c, x), whole)]]
        return [[pl.plus(pl.times(c, pl.plus(x, below, -1)), whole)], [x, rest]]

    # ---- extremes of an expression

    def least(self, p: Poly) -> int | None:
        """A lower bound, with variables of symbolic bounds replaced by their extremes first."""
        for _ in range(16):
            for a in sorted(pl.atoms(p), key=self.elimination_order):
                r = self.range(a)
                linear = pl.linear(p, a) if not a.args and (isinstance(r.min, Expr) or isinstance(r.max, Expr)) else None
                if linear is None:
                    continue
                c, rest = linear
                self._fuel = FUEL
                rises = self._sign(c)
                low, high = self.ends(a)
                end = low if rises > 0 else high if rises < 0 else None
                if end is not None:
                    p = pl.plus(pl.times(c, end), rest)
                    break
            else:
                break
        found = self.interval(p)[0]
        return self._least_of_arms(p) if found is None else found

    def _least_of_arms(self, p: Poly) -> int | None:
        """A lower bound where p has one with a minimum that it falls with, or a maximum that it rises with, as one of what they are of: min(b + 8, n) - b is at most 8."""
        for a in pl.atoms(p):
            linear = pl.linear(p, a) if a.op in ("min", "max") else None
            if linear is None or not pl.is_constant(linear[0]) or (linear[0].get((), 0) < 0) != (a.op == "min"):
                continue
            c, rest = linear
            for arm in a.args:
                found = self.least(pl.plus(pl.times(c, pl.poly(arm)), rest))
                if found is not None:
                    return found
        return None


def bounds(e: Expr, known: Known) -> tuple[int | None, int | None, int]:
    """(min, max, multiple) of an integer expression: min <= e <= max (None: unbounded or unknown), e % multiple == 0 (0: e is 0)."""
    p = pl.poly(e)
    high = known.least(pl.scaled(p, -1))
    return known.least(p), None if high is None else -high, known.multiple(p)


def fact(condition: Expr) -> list[Poly]:
    """What a comparison of integers says, as polynomials >= 0; nothing for other conditions."""
    if condition.op not in ("less_than", "less_equal", "equal") or condition.args[0].dtype is not INDEX or not condition.is_position:
        return []
    a, b = (pl.poly(x) for x in condition.args)
    if condition.op == "equal":
        return [pl.plus(a, b, -1), pl.plus(b, a, -1)]
    return [pl.plus(pl.plus(b, a, -1), pl.constant(-1 if condition.op == "less_than" else 0))]


__all__ = ["Known", "Range", "bounds", "fact"]
