"""Index expressions as polynomials over their atoms, as far as `lower` needs them: by how much an address grows with a loop variable."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.expr import Expr, const, postorder, product, total

Polynomial = dict[tuple[Expr, ...], int]  # factors in order of first appearance -> coefficient


def polynomial(e: Expr) -> Polynomial:
    """Sums and products multiplied out; everything else (divisions, loads, …) is an atom.  No term has the coefficient 0."""
    place = {n: i for i, n in enumerate(postorder(e))}
    done: dict[Expr, Polynomial] = {}
    for n in place:
        args = [done[a] for a in n.args] if n.op in ("add", "sub", "mul", "neg") else []
        match n.op:
            case "const":
                done[n] = {(): n.attr} if n.attr else {}
            case "add":
                done[n] = _sum(args[0], args[1], 1)
            case "sub":
                done[n] = _sum(args[0], args[1], -1)
            case "neg":
                done[n] = _sum({}, args[0], -1)
            case "mul":
                done[n] = {}
                for m, c in args[0].items():
                    term = {tuple(sorted(m + o, key=place.__getitem__)): c * d for o, d in args[1].items()}
                    done[n] = _sum(done[n], term, 1)
            case _:
                done[n] = {(n,): 1}
    return done[e]


def _sum(a: Polynomial, b: Polynomial, sign: int) -> Polynomial:
    result = dict(a)
    for m, c in b.items():
        result[m] = result.get(m, 0) + sign * c
        if result[m] == 0:
            del result[m]
    return result


def expression(p: Polynomial) -> Expr:
    return total(product(m) * const(c) for m, c in p.items())


def slope(e: Expr, v: Expr, varies: Callable[[Expr], bool]) -> Expr | None:
    """What `e` grows by when the variable `v` grows by 1, where that is the same everywhere; None otherwise.

    `varies` says of an atom whether it holds `v` (or anything else that differs between the lanes).
    """
    result: Polynomial = {}
    for m, c in polynomial(e).items():
        moving = [f for f in m if varies(f)]
        if not moving:
            continue
        if moving != [v]:
            return None
        result[tuple(f for f in m if f is not v)] = c
    return expression(result)


def divide(e: Expr, divisor: int) -> Expr | None:
    """e / divisor where every term is a multiple of it; None otherwise."""
    terms = polynomial(e)
    if any(c % divisor for c in terms.values()):
        return None
    return expression({m: c // divisor for m, c in terms.items()})


def difference(a: Expr, b: Expr) -> Expr:
    """a - b with equal terms cancelled."""
    return expression(polynomial(a - b))
