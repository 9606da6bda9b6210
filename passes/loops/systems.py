"""What is known of a place as a system of linear inequalities of integers, for `emptiness.py`: exact, wherever it can be.

    i <= min(a, b) - 1         i <= a - 1 and i <= b - 1                      where the lesser, or for max the greater, would do
    q = x // d, r = x % d      d·q + r = x and 0 <= r <= d - 1                 for numbers d > 0; alone in an inequality, q goes away: q >= i is x >= d·i
    N, a multiple of k         N = k·n

What is left are bounds of names, and products and other operators, of which no more is said than between what they lie.
"""

from __future__ import annotations

from ...ir.bounds import Known
from ...ir.dtypes import INDEX
from ...ir.expr import Expr, const, make, var
from ...ir.polynomial import Poly, atom, constant, name, plus, poly, scaled, undivided
from ...ir.walks import postorder

FAR = 1 << 60  # a bound beyond it is none


class System:
    """`equal` = 0 and `least` >= 0, with all that is known of the names that they mention.  `exact`: they are the whole truth of what they were made of."""

    def __init__(self, known: Known, equal: list[Poly], least: list[Poly]) -> None:
        self.known = known
        self.equal = list(equal)
        self.least: list[Poly] = []
        self.exact = True
        self._seen: set[Expr] = set()
        waiting = list(equal)
        for p in [*least, *known.facts]:
            waiting += self._taken_apart(p)
        for z in known.zeros:
            waiting += self._multiple(poly(z.args[0]), z.args[1])
        while waiting:
            for m in waiting.pop():
                for a in m:
                    if a not in self._seen:
                        self._seen.add(a)
                        waiting += self._defined(a) if a.args else self._bounded(a)
        self.exact = self.exact and all(len(m) < 2 for p in (*self.equal, *self.least) for m in p)

    def _taken_apart(self, p: Poly) -> list[Poly]:
        """p >= 0 without the operators that say it all themselves; they are in `least` then."""
        if not _compound(p):  # most of them
            self.least.append(p)
            return [p]
        found: list[Poly] = []
        waiting = [p]
        while waiting:
            p = undivided(waiting.pop())
            for m, c in p.items():
                if len(m) == 1 and ((m[0].op == "min" and c > 0) or (m[0].op == "max" and c < 0)):
                    rest = plus(p, {m: c}, -1)
                    waiting += [plus(rest, poly(x), c) for x in m[0].args]
                    break
            else:
                found.append(p)
        self.least += found
        return found

    def _defined(self, a: Expr) -> list[Poly]:
        """What an operator is, or at least between what it lies."""
        if a.op in ("floordiv", "mod") and a.is_position and a.args[1].is_const and a.args[1].attr > 0:
            x, d = a.args
            q, r = (a if a.op == op else make(op, INDEX, a.args) for op in ("floordiv", "mod"))
            self._seen |= {q, r}
            whole = plus(plus(atom(r), poly(x), -1), atom(q), d.attr)
            self.equal.append(whole)
            self.least += [atom(r), plus(constant(d.attr - 1), atom(r), -1)]
            return [whole]
        self.exact = False
        if a.op in ("min", "max") and a.is_position:
            way = 1 if a.op == "min" else -1
            return [q for x in a.args for q in self._taken_apart(scaled(plus(poly(x), atom(a), -1), way))]
        return [atom(n) for n in postorder(a) if name(n)]

    def _bounded(self, a: Expr) -> list[Poly]:
        """The ends of a name, and what divides it."""
        r = self.known.ranges.get(name(a))
        if r is None:
            return []
        found = [] if r.multiple == 1 else self._multiple(atom(a), const(r.multiple))
        for end, way in ((r.min, 1), (r.max, -1)):
            if end is not None and not (isinstance(end, int) and abs(end) > FAR):
                at = poly(end) if isinstance(end, Expr) else constant(end)
                found += self._taken_apart(scaled(plus(atom(a), at, -1), way))
        return found

    def _multiple(self, p: Poly, d: Expr) -> list[Poly]:
        """p = d·n for some n."""
        if not d.is_const:
            self.exact = False
            return []
        whole = plus(p, atom(var(f"{len(self.equal)}/{d.attr}")), -d.attr)
        self.equal.append(whole)
        return [whole]


def _compound(p: Poly) -> bool:
    for m in p:
        for a in m:
            if a.args:
                return True
    return False


__all__ = ["System"]
