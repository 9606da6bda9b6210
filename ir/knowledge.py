"""What is known of sizes, variables and positions: ranges by name (`ranges.py`), facts, scopes inside each other, and points that satisfy all of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from math import gcd
from typing import Final, Self

from . import polynomial as pl
from .expr import Expr
from .graph import Size
from .polynomial import Poly
from .ranges import NO_NAMES, End, Range, Ranges, as_range, end_of
from .witness import HIGH, LOW, Point, alike, points, uneven

FEW: Final = 3  # points: where fewer are left, each gives the variable of a loop both ends of its range
ENOUGH: Final = 4  # points: more refute little more, and each is carried into every scope


class Knowledge(Ranges):
    """The half of `Known` that proves nothing: ranges by name and facts (polynomials that are >= 0).
    Immutable, but for what it remembers."""

    def __init__(self, ranges: Mapping[str, Range | tuple[End, End, int] | Size]) -> None:
        super().__init__(ranges)
        self.zeros: tuple[Expr, ...] = ()  # expressions known to be 0 (x % d of a precondition)
        self.base: Self | None = None  # what is proven there holds here
        self.outer: Self | None = None  # answers for what mentions no name in `inner`
        self.inner = NO_NAMES
        self._forget()
        self.facts: tuple[Poly, ...] = ()
        if ranges:
            self._learn([_not_empty(r) for r in self.ranges.values()])

    def _forget(self) -> None:
        self.memo: dict[Expr, Expr] = {}  # of `simplify`
        self.quotients: dict[Expr, Poly] = {}  # x // d for x % d, of `simplify.regrouped`
        self.assumed: dict[Expr, Self] = {}  # of `simplify.assuming`
        self._scopes: dict[tuple[Self | tuple[str, Range | tuple[End, End, int]] | None, ...], Self] = {}  # of `with_ranges`
        self._points: list[Point] | None = None

    def _copy(self, ranges: dict[str, Range] | None = None) -> Self:
        """The same, of which nothing is remembered yet; with other ranges also nothing of what follows from these."""
        result = type(self)({})
        if ranges is None:
            result.ranges, result._wider, result._added = self.ranges, self._wider, self._added
            result._order, result._intervals, result._multiples, result._divisible = self._order, self._intervals, self._multiples, self._divisible
            result._ranks, result._ends, result._limits = self._ranks, self._ends, self._limits
        else:
            result.ranges = ranges
        result.zeros, result.base, result.outer, result.inner, result.facts = self.zeros, self.base, self.outer, self.inner, self.facts
        return result

    def with_ranges(self, more: Mapping[str, Range | tuple[End, End, int]], within: Self | None = None) -> Self:
        """Also these names, inner to those known so far (they are eliminated first).  A name known before is a new variable from here on: what was known
        of the old one is forgotten.

        `within` answers for what mentions none of the names, even if it knows a little less of it.
        """
        key = (within, *more.items())
        known = self._scopes.get(key)
        if known is None:
            known = self._scopes[key] = self._inner(more, within)
        return known

    def _inner(self, more: Mapping[str, Range | tuple[End, End, int]], within: Self | None) -> Self:
        again = [n for n in more if n in self.ranges]
        outer = self._without(frozenset(again)) if again else self
        added = {n: as_range(r) for n, r in more.items()}
        result = outer._copy({**outer.ranges, **added})
        result.base = outer
        result._wider, result._added = outer, frozenset(added)
        facts = [f for f in map(_not_empty, added.values()) if f]
        learned = bool(facts) and result._learn(facts)
        result.outer, result.inner = within or (None if learned else self), frozenset(added)
        return result

    def home(self, e: Expr) -> Self:
        """Who answers for an expression: what is remembered far out need not be found again in every scope inside."""
        known = self
        while known.outer is not None and known.inner.isdisjoint(e.names):
            known = known.outer
        return known

    def reached(self, names: frozenset[str]) -> frozenset[str]:
        """Names, and those that they are bounded by."""
        found, new = names, names
        while new:
            ends = [e.names for r in map(self.ranges.get, new) if r is not None for e in (r.min, r.max, r.exactly) if isinstance(e, Expr)]
            new = frozenset().union(*ends) - found
            found |= new
        return found

    def _without(self, names: frozenset[str]) -> Self:
        """Without what mentions these names."""

        def free(e: End) -> bool:
            return not isinstance(e, Expr) or names.isdisjoint(e.names)

        kept = {n: r for n, r in self.ranges.items() if n not in names}
        result = type(self)({n: Range(r.min if free(r.min) else None, r.max if free(r.max) else None, r.multiple) for n, r in kept.items()})
        result.facts = tuple(f for f in self.facts if all(free(a) for a in pl.atoms(f)))
        result.zeros = tuple(z for z in self.zeros if free(z))
        return result

    def _mentions(self, names: Set[str]) -> bool:
        """Whether what is known depends on one of these names."""
        ends = [e for r in self.ranges.values() for e in (r.min, r.max, r.exactly) if isinstance(e, Expr)]
        return any(not names.isdisjoint(e.names) for e in (*ends, *self.zeros, *[a for f in self.facts for a in pl.atoms(f)]))

    def with_multiple(self, name: str, multiple: int) -> Self:
        """The same variable, now known to be a multiple of this too."""
        r = self.ranges.get(name, Range())
        result = self._copy({**self.ranges, name: Range(r.min, r.max, r.multiple * multiple // gcd(r.multiple, multiple), r.exactly)})
        result.base, result.outer = self, None
        return result

    def with_facts(self, more: Iterable[Poly], zeros: tuple[Expr, ...] = ()) -> Self:
        """Also these polynomials are >= 0, and these expressions 0."""
        facts = [f for f in more if not pl.is_constant(f)]
        if not facts and not zeros:
            return self
        result = self._copy()
        result.zeros, result.base, result.outer = (*self.zeros, *zeros), self, None
        if not result._learn(facts) and not zeros:
            return self
        together = _multiplied(facts[0]) if len(facts) == 1 and not zeros else ()
        result.outer = self  # for what they do not mention: it keeps the form that it has outside, and the name
        if len(together) > 1:  # says next to nothing of what does not hold all of these names
            result.inner = frozenset(together[-1:])
        else:
            result.inner = NO_NAMES.union(*[a.names for f in facts for a in pl.atoms(f)], *[z.names for z in zeros])
        return result

    def with_domain(self, shape: Iterable[Expr]) -> Self:
        """Also the positions $0, $1, … of a domain that is not empty."""
        return self.with_ranges({f"${k}": Range(0, e + -1) for k, e in enumerate(shape)})

    def _learn(self, facts: Iterable[Poly]) -> bool:
        """Whether there was something to learn.  Takes in facts (polynomials >= 0): what bounds one name by a number goes into its range, the rest is kept, also what follows for the factors of
        a product: a·b >= 1 says a >= 1 where no factor is negative, and x // d >= 1 says x >= d.  So a loop over B·ceil(N / 8) trips says that N >= 1."""
        before = self.ranges
        pending = [f for f in facts if not pl.is_constant(f)]
        kept: list[Poly] = []
        while pending:
            f = pl.tightened(pending.pop(0))
            if f in self.facts or f in kept:
                continue
            terms, offset = [m for m in f if m], f.get((), 0)
            if len(terms) == 1:
                factors, c = list(terms[0]), f[terms[0]]
                if len(factors) == 1 and self._narrow(factors[0], c, offset):
                    continue
                if c > 0 > offset and (len(factors) > 1 or factors[0].args):
                    pending += self._factors(factors)
            kept.append(f)
        if kept:
            self.facts = (*self.facts, *kept)
        return bool(kept) or self.ranges is not before

    def _factors(self, product: list[Expr]) -> list[Poly]:
        """What product >= 1 says of its factors."""
        for a in product:
            if not self._is_natural(a):
                return []
        result: list[Poly] = [pl.plus(pl.atom(a), pl.constant(-1)) for a in product if not a.args]
        for a in product:
            if a.op == "floordiv" and a.args[1].is_const:  # and more than 0, or nothing would be known of it
                result.append(pl.plus(pl.poly(a.args[0]), pl.constant(-a.args[1].attr)))
        return result

    def _narrow(self, a: Expr, c: int, offset: int) -> bool:
        """c·a + offset >= 0 as a bound in the range of the name a; False where a is no name or its bound on that side is an expression."""
        known = self.range(a)
        old = known.min if c > 0 else known.max
        if not pl.name(a) or isinstance(old, Expr):
            return False
        new = -(offset // c) if c > 0 else offset // -c
        if old is None or (new > old if c > 0 else new < old):
            self.ranges = {
                **self.ranges,
                pl.name(a): Range(new, known.max, known.multiple, known.exactly) if c > 0 else Range(known.min, new, known.multiple, known.exactly),
            }
            self._forget_ranges()
        return True

    def _is_natural(self, a: Expr) -> bool:
        low = self.atom_interval(a)[0]
        return low is not None and low >= 0

    # ---- points that satisfy all of it

    def refuted(self, p: Poly) -> bool:
        """p < 0 at a point that agrees with all that is known, so that p >= 0 has no proof."""
        points = self._points
        if points is None:
            points = self._find_points()
        for k, point in enumerate(points):
            value = point.at(p)
            if value is not None and value < 0:
                if k:  # the next question is often much like this one
                    points[0], points[k] = point, points[0]
                return True
        return False

    @property
    def points(self) -> list[Point]:
        """Some that agree with all that is known."""
        return self._points if self._points is not None else self._find_points()

    def _find_points(self) -> list[Point]:
        chain: list[Knowledge] = []
        known: Knowledge | None = self
        while known is not None and known._points is None:
            chain.append(known)
            known = known.base
        for k in reversed(chain):
            base = k.base
            if base is not None and base.ranges is k.ranges:
                new: dict[str, Range] = {}
            else:
                new = {n: r for n, r in k.ranges.items() if base is None or base.ranges.get(n) is not r}
            olds = list(points()) if base is None else base._points or []
            others: list[Point] = []
            if base is not None and len(olds) < FEW and any(n not in base.ranges for n in new):
                others = [old.copy(HIGH if old.taste == LOW else LOW) for old in olds]
            k._points = []
            for n, old in enumerate([*olds, *others]):
                p = k._extended(old, base, new)
                if p is not None and (n < len(olds) or all(p.names != q.names for q in k._points)):
                    k._points.append(p)
            if base is not None and olds and not k._points:
                bounding = k._bounding()
                for start in (*points(), *alike(), *uneven()):
                    p = k._chosen(start, bounding)
                    if p is not None:
                        k._points.append(p)
                        if len(k._points) == ENOUGH:
                            break
        return self._points or []

    def _bounding(self) -> dict[str, list[tuple[Poly, Poly, Poly]]]:
        """By name, the facts c·name + rest >= 0 as (c, rest, the fact)."""
        found: dict[str, list[tuple[Poly, Poly, Poly]]] = {}
        for f in self.facts:
            for a in pl.atoms(f):
                linear = pl.linear(f, a) if pl.name(a) else None
                if linear is not None:
                    found.setdefault(pl.name(a), []).append((*linear, f))
        return found

    def _chosen(self, point: Point, bounding: dict[str, list[tuple[Poly, Poly, Poly]]]) -> Point | None:
        """A point with values for all names, each within its range and what the facts say of it given the names before; None where that leads nowhere."""
        point.awaited = self.ranges
        for n, r in self.ranges.items():
            ends = _within(r, point)
            if ends is None:
                return None
            low, high = ends
            inside: list[tuple[int, Poly]] = []  # facts of n and of what is made of it
            for c, others, f in bounding.get(n, ()):
                slope, rest = point.at(c), point.at(others)
                if slope is not None and rest is None:
                    inside.append((slope, f))
                elif slope and rest is not None and slope > 0:
                    low = -(rest // slope) if low is None else max(low, -(rest // slope))
                elif slope and rest is not None:
                    high = rest // -slope if high is None else min(high, rest // -slope)
            if not point.choose(n, low, high, r.multiple):
                return None
            for slope, f in inside:
                value = point.at(f)
                if value is not None and value < 0 and slope:  # a remainder that is too small or too large: by so much
                    point.move(n, point.names[n] + (-(value // slope) if slope > 0 else value // -slope))
                    if not point.admits(n, low, high, r.multiple):
                        return None
        point.awaited = ()
        agrees = all((value := point.at(f)) is not None and value >= 0 for f in self.facts)
        return point if agrees and all(point.of(z) == 0 for z in self.zeros) else None

    def _extended(self, point: Point, base: Knowledge | None, new: dict[str, Range]) -> Point | None:
        """A point of `base` with values for the names that are new here; None where what is new here rules it out.  It stays the same point: a name of this scope means nothing outside."""
        known: dict[str, Range] = {} if base is None else base.ranges
        for n, r in new.items():
            low, high = r.min, r.max
            if isinstance(low, Expr) or isinstance(high, Expr) or r.exactly is not None:
                ends = _within(r, point)
                if ends is None:
                    return None
                low, high = ends
            if n not in point.names:
                fits = point.choose(n, low, high, r.multiple)
            else:
                fits = point.admits(n, low, high, r.multiple)
                if not fits and n not in known:  # what it was elsewhere, or for lack of a better value
                    if base is not None and base._mentions({n}):
                        return None
                    point = point.without({n})
                    fits = point.choose(n, low, high, r.multiple)
            if not fits:
                return None
        for f in self.facts[0 if base is None else len(base.facts) :]:
            value = point.at(f)
            if value is None or value < 0:
                return None
        for z in self.zeros[0 if base is None else len(base.zeros) :]:
            if point.of(z) != 0:
                return None
        return point


def _within(r: Range, point: Point) -> tuple[int | None, int | None] | None:
    """The bounds of a range at a point; None where they have no value there, or what the range is exactly is not within them."""
    low = point.of(r.min) if isinstance(r.min, Expr) else r.min
    high = point.of(r.max) if isinstance(r.max, Expr) else r.max
    if (low is None and r.min is not None) or (high is None and r.max is not None):
        return None
    if r.exactly is None:
        return low, high
    value = point.of(r.exactly)
    return None if value is None or (low is not None and value < low) or (high is not None and value > high) else (value, value)


def _not_empty(r: Range) -> Poly:
    """max - min >= 0; a constant where that says nothing of other names."""
    if r.min is None or r.max is None or not (isinstance(r.min, Expr) or isinstance(r.max, Expr)):
        return {}
    return pl.plus(end_of(r.max), end_of(r.min), -1)


def _multiplied(f: Poly) -> tuple[str, ...]:
    """The names whose product, and nothing else, a polynomial compares with a number."""
    terms = [m for m in f if m]
    return tuple([pl.name(a) for a in terms[0]]) if len(terms) == 1 and not any(a.args for a in terms[0]) else ()
