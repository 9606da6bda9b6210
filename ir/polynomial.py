"""Integer expressions as polynomials over atoms: the canonical form behind `simplify.py` and `bounds.py`.

A `Poly` maps a monomial (its atoms in a fixed order, () for the constant) to a coefficient other than 0.  An atom is whatever is no sum, difference, product or
negation: a size, an axis, a variable, a floordiv, a load.  Polys are values: no function here changes its arguments.
"""

from __future__ import annotations

from hashlib import blake2b
from math import gcd
from typing import Final

from .dtypes import INDEX
from .expr import Expr, const, make
from .walks import postorder

Monomial = tuple[Expr, ...]
Poly = dict[Monomial, int]  # a Mapping in all but name: what is compiled ahead of time asks a dict itself, any other mapping by its methods

MOST_TERMS: Final = 64  # a product that would have more is kept as an atom
MOST_FACTORS: Final = 16  # and so is one with a longer monomial: repeated squaring doubles it every time
_LINEAR: Final = frozenset({"add", "sub", "mul", "neg"})


def key(e: Expr) -> str:
    """A text that orders expressions the same way in every run."""
    if e.key is None:
        for n in postorder(e):
            if n.key is None:
                text = (
                    f"{n.op}.{n.dtype.name}:{n.attr}"
                    if not n.args
                    else f"{n.op}.{n.dtype.name}:{n.attr}({','.join([a.key or key(a) for a in n.args])})"
                )
                n.key = text if len(text) < 256 else n.op + blake2b(text.encode(), digest_size=16).hexdigest()
    assert e.key is not None
    return e.key


def name(e: Expr) -> str:
    """The name that `Known` has a range of a leaf by ("$k" for axis k), "" for what has none."""
    return e.attr if e.op in ("size", "var") else f"${e.attr}" if e.op == "axis" else ""


def constant(value: int) -> Poly:
    return {(): value} if value else {}


def atom(e: Expr) -> Poly:
    return {(e,): 1}


def plus(a: Poly, b: Poly, times: int = 1) -> Poly:
    """a + times · b."""
    result = dict(a)
    for m, c in b.items():
        sum_ = result.get(m, 0) + c * times
        if sum_:
            result[m] = sum_
        else:
            result.pop(m, None)
    return result


def shifted(a: Poly, by: int) -> Poly:
    """a + by."""
    result = dict(a)
    sum_ = result.get((), 0) + by
    if sum_:
        result[()] = sum_
    else:
        result.pop((), None)
    return result


def scaled(a: Poly, times: int) -> Poly:
    return {m: c * times for m, c in a.items()} if times else {}


def joined(a: Monomial, b: Monomial) -> Monomial:
    if not (a and b):
        return a or b
    if len(a) == len(b) == 1:
        return (*b, *a) if key(b[0]) < key(a[0]) else (*a, *b)
    return tuple(sorted((*a, *b), key=key))


def times(a: Poly, b: Poly) -> Poly:
    result: dict[Monomial, int] = {}
    for m, c in a.items():
        for n, d in b.items():
            mn = joined(m, n)
            result[mn] = result.get(mn, 0) + c * d
    return {m: c for m, c in result.items() if c}


def combined(op: str, args: list[Poly]) -> Poly | None:
    """add, sub, mul or neg of polynomials; None where a product would have too many terms or factors."""
    if op == "mul":
        a, b = args
        if is_constant(b):  # the most of them
            return scaled(a, b.get((), 0))
        if len(a) > 1 and len(b) > 1 and len(a) * len(b) > MOST_TERMS:
            return None
        return times(a, b) if _factors(a) + _factors(b) <= MOST_FACTORS else None
    if op == "neg":
        return scaled(args[0], -1)
    return plus(args[0], args[1], 1 if op == "add" else -1)


def _factors(p: Poly) -> int:
    """Of the longest term."""
    most = 0
    for m in p:
        if len(m) > most:
            most = len(m)
    return most


def poly(e: Expr) -> Poly:
    """The polynomial of an i64 expression; nothing inside atoms is looked at."""
    known = e.poly
    if known is not None:
        return known
    if e.is_const:
        known = e.poly = constant(e.attr)
        return known
    if e.op not in _LINEAR:
        return {(e,): 1}
    known = _of_few(e)
    if known is not None:
        if (e,) not in known:  # what refers to itself would never be forgotten
            e.poly = known
        return known
    done: dict[Expr, Poly] = {}
    stack = [e]
    while stack:
        n = stack[-1]
        if n in done:
            stack.pop()
        elif n.op not in _LINEAR or n.poly is not None:
            done[n] = poly(n)
        else:
            waiting = [a for a in n.args if a not in done]
            if waiting:
                stack.extend(waiting)
                continue
            made = combined(n.op, [done[a] for a in n.args])
            if made is None:
                done[n] = atom(n)
            else:
                done[n] = n.poly = made
    if (e,) not in done[e]:  # what refers to itself would never be forgotten
        e.poly = done[e]
    return done[e]


def _of_few(e: Expr) -> Poly | None:
    """`poly` of a product or of a sum of products, which nearly all are, as `add` builds it: a chain of terms that are no sums themselves; None for others."""
    if e.op != "add":
        return _of_product(e)
    result = _of_product(e.args[1])
    terms: list[Poly] = []
    while result is not None:
        terms.append(result)
        e = e.args[0]
        if e.op != "add" or e.poly is not None:
            break
        result = _of_product(e.args[1])
    first = None if result is None else _of_product(e)
    if first is None:
        return None
    sum_ = dict(first)
    for p in reversed(terms):
        for m, c in p.items():
            c += sum_.get(m, 0)
            if c:
                sum_[m] = c
            else:
                del sum_[m]
    return sum_


def _of_product(e: Expr) -> Poly | None:
    """`poly` of what is no sum, or of what it is known of; None for products of several terms that are not."""
    if e.poly is not None:
        return e.poly
    if e.op not in _LINEAR:
        return poly(e)
    if e.op == "neg":
        return None
    a, b = e.args
    if (a.poly is None and a.op in _LINEAR) or (b.poly is None and b.op in _LINEAR):
        return None
    made = combined(e.op, [poly(a), poly(b)])
    if made is None:
        return atom(e)
    e.poly = made
    return made


def composed(p: Poly, by: dict[Expr, Expr]) -> Poly | None:
    """The polynomial with other expressions in the place of its atoms; None where a product would have too many terms or factors."""
    if not [a for m in p for a in m if by[a] is not a]:
        return p
    result: dict[Monomial, int] = {}
    for m, c in p.items():
        for a in m:
            if by[a] is not a:
                break
        else:  # most terms stay
            sum_ = result.get(m, 0) + c
            if sum_:
                result[m] = sum_
            else:
                result.pop(m, None)
            continue
        term: Poly = scaled(poly(by[m[0]]), c)
        for a in m[1:]:
            made = combined("mul", [term, poly(by[a])])
            if made is None:
                return None
            term = made
        for n, d in term.items():
            sum_ = result.get(n, 0) + d
            if sum_:
                result[n] = sum_
            else:
                result.pop(n, None)
    return result


def is_constant(p: Poly) -> bool:
    return not p or (len(p) == 1 and () in p)


def content(p: Poly) -> int:
    """The greatest common divisor of all coefficients but the constant's; 0 where there is none."""
    return gcd(*[c for m, c in p.items() if m])


def undivided(p: Poly) -> Poly:
    """x // d + r >= 0 → x + d·r >= 0;   r - x // d >= 0 → d·r + d - 1 - x >= 0     for constants d > 0, as long as there is such a quotient.

    Both say the same, and a prover finds of the one what it finds of the other.
    """
    while True:
        for m, c in p.items():
            d = m[0].args[1] if len(m) == 1 and m[0].op == "floordiv" and (c == 1 or c == -1) else None
            if d is not None and d.is_const and d.attr > 0:
                x, rest = poly(m[0].args[0]), scaled(plus(p, {m: c}, -1), d.attr)
                p = plus(x, rest) if c > 0 else plus(plus(rest, constant(d.attr - 1)), x, -1)
                break
        else:
            return p


def tightened(p: Poly) -> Poly:
    """g·q + c >= 0 → q + floor(c / g) >= 0, which says the same of integers."""
    g = content(p)
    return {m: c // g for m, c in p.items() if m or c // g} if g > 1 else p


def atoms(p: Poly) -> list[Expr]:
    """Every atom once, in a fixed order."""
    found: dict[Expr, None] = {}
    for m in p:
        for a in m:
            found[a] = None
    return list(found)


def without(m: Monomial, part: Monomial) -> Monomial | None:
    """The monomial m / part, or None where part does not divide m."""
    rest = list(m)
    for a in part:
        if a not in rest:
            return None
        rest.remove(a)
    return tuple(rest)


def degree(p: Poly, a: Expr) -> int:
    return max([m.count(a) for m in p], default=0)


def coefficient(p: Poly, a: Expr) -> tuple[Poly, Poly]:
    """(c, rest) with p = c · a + rest, for an atom of degree at most 1."""
    c: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for m, k in p.items():
        if a in m:
            c[tuple(x for x in m if x is not a)] = k
        else:
            rest[m] = k
    return c, rest


def linear(p: Poly, a: Expr) -> tuple[Poly, Poly] | None:
    """`coefficient` of an atom of degree 1; None for any other."""
    c: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for m, k in p.items():
        if a in m:
            others = tuple([x for x in m if x is not a])
            if len(others) < len(m) - 1:
                return None
            c[others] = k
        else:
            rest[m] = k
    return (c, rest) if c else None


def order(m: Monomial) -> tuple[int, list[str]]:
    """Terms of higher degree first, the constant last."""
    if len(m) == 1:  # most of them
        return -1, [m[0].key or key(m[0])]
    return -len(m), [a.key or key(a) for a in m]


def expr(p: Poly) -> Expr:
    """The canonical expression of a polynomial: ((a·b)·c + …) + constant, terms in a fixed order."""
    if not p or (len(p) == 1 and () in p):  # a third of them
        return const(p.get((), 0))
    if len(p) > 1:
        p = {m: p[m] for m in sorted(p, key=order)}
    result: Expr | None = None
    for m in p:
        term: Expr | None = None
        for a in m:
            term = a if term is None else make("mul", INDEX, (term, a))
        if term is None:
            term = const(p[m])
        elif p[m] != 1:
            term = make("mul", INDEX, (term, const(p[m])))
        result = term if result is None else make("add", INDEX, (result, term))
    assert result is not None
    result.canonical = result.op in _LINEAR
    if result.canonical and result.poly is None and all(len(m) <= MOST_FACTORS for m in p):
        result.poly = p
    return result


def divided(x: Poly, d: Poly) -> tuple[Poly, Poly]:
    """(q, r) with x = q · d + r, by long division: no term of r is divisible by the leading term of d, and a constant d leaves 0 <= constant of r < d."""
    lead = min(d, key=order)
    c = d[lead]
    q: Poly = {}
    r: Poly = x
    for _ in range(MOST_TERMS):
        found: tuple[Monomial, int] | None = None
        for m, k in r.items():
            rest = without(m, lead)
            if rest is not None and (k % c == 0 or (not m and k // c)):
                found = (rest, k // c)
                break
        if found is None:
            break
        term = {found[0]: found[1]}
        q = plus(q, term)
        r = plus(r, times(term, d), -1)
    return q, r
