"""Rows of which nothing is left: sums of a cascade relative to an extreme that is −∞ to the end.

    m = max_p s                                 In a cascade l is 0 where m is −∞: exponentials relative to nothing are 0, so that a tile that is masked
    l = Σ_p exp(s − m)                          changes nothing.  The sum itself is NaN there (−∞ − −∞), where the graph does not guard the exponent.

    exp(s − m) / l,  a / l,  s − m − log l      are NaN all the same: another operand is, or it is 0 / 0
    m + log l                                   is −∞ where it should be NaN: l has to be made NaN

`lost` finds the sums of the second kind, so the others cost nothing.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from ...ir.graph import Graph, Node, View
from ...ir.primops import OPS
from ..rules.pattern import same_view, through
from .separate import EXPONENTIALS, looked_through

_ARITHMETIC = frozenset(
    {"add", "sub", "mul", "div", "neg", "recip", "cast", "contiguous", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "square", "fma"}
)


Use = tuple[Node, int]  # a node and which of its operands
OUTPUT = -1  # no operand, but what a port takes


def lost(graph: Graph, sums: Mapping[Node, tuple[View, ...]], states: Container[Node]) -> dict[Use, tuple[View, ...]]:
    """`sums`: for each sum the extremes (in its domain) that its exponents are taken relative to without a guard.  Where it is read, and by that somebody could see that it is not NaN."""
    uses = _Uses(graph, sums, states)
    found: dict[Use, tuple[View, ...]] = {}
    for n, extremes in sums.items():
        if n in uses.outputs:
            found[n, OUTPUT] = extremes
        for use in uses.users.get(n, ()):
            seen = tuple(e for e in extremes if uses.seen(use, e))
            if seen:
                found[use] = seen
    return found


def nothing_of(extreme: Node) -> float:
    """What a maximum or a minimum is of no elements."""
    return float("inf") if "min" in (extreme.op, getattr(extreme.attr, "combiner", "")) else float("-inf")


def leaves_out(node: Node) -> bool:
    """Whether a product leaves something out by a choice around its exponentials: a row of which nothing is left is 0, one with something left that is −∞ is NaN.  There nothing is guarded, and a
    sum relative to nothing is forgotten when there is something."""
    stack, seen = [node], set()
    while stack:
        n = stack.pop()
        if n in seen or n.op in EXPONENTIALS or n.op not in OPS:
            continue
        if n.op == "where":
            return True
        seen.add(n)
        stack.extend(a.node for a in n.args)
    return False


class _Uses:
    """Who reads what in a graph."""

    def __init__(self, graph: Graph, sums: Mapping[Node, tuple[View, ...]], states: Container[Node]) -> None:
        self.sums, self.states = sums, states
        self.outputs = frozenset(n for _, n in graph.outputs)
        self.users: dict[Node, list[Use]] = {}
        for n in graph.nodes():
            for k, a in enumerate(n.args):
                self.users.setdefault(a.node, []).append((n, k))

    def seen(self, use: Use, extreme: View) -> bool:
        """Whether a value is made of a sum, where it is read there, that is not NaN by what else it is made of.  What states are made of is the business of their cascade."""
        stack, done = [(use, extreme, True)], set()  # whether NaN would still be NaN
        while stack:
            (user, k), e, kept = stack.pop()
            if user in self.states:
                continue
            here = through(user.args[k], e) if user.args[k].domain is None else None
            if (user.op not in OPS and user.op != "contiguous") or here is None:
                return True
            kept = kept and user.op in _ARITHMETIC
            if (user, here.index, kept) in done or (kept and self.is_nan_by_others(user, k, here)):
                continue
            done.add((user, here.index, kept))
            if user in self.outputs:
                return True
            stack += [(further, here, kept) for further in self.users.get(user, ())]
        return False

    def is_nan_by_others(self, user: Node, k: int, extreme: View) -> bool:
        return _is_quotient(user, extreme, self.sums) or any(_is_nan(a, extreme) for j, a in enumerate(user.args) if j != k)


def _is_nan(view: View, extreme: View) -> bool:
    """Whether a value holds x − m, as a factor or a term, of the very extreme m of x."""
    stack, seen = [view], set()
    while stack:
        v = stack.pop()
        if v.domain is not None or v.node.op not in _ARITHMETIC or (v.node, v.index) in seen:
            continue
        seen.add((v.node, v.index))
        below = [looked_through(v, a) for a in v.node.args]
        if v.node.op == "sub" and any(_is_extreme(m, extreme) and _element_of(x.node, extreme.node) for x, m in (below, below[::-1])):
            return True
        stack += below
    return False


def _is_extreme(view: View, extreme: View) -> bool:
    return same_view(_bare(view), _bare(extreme))


def _element_of(x: Node, extreme: Node) -> bool:
    """Whether x is what the extreme is taken of, or picked out of it."""
    while x.op in ("gather", "contiguous", "cast"):
        x = x.args[0].node
    return extreme.op == "reduce" and x is _bare(extreme.args[0]).node


def _bare(view: View, *wrappers: str) -> View:
    """What stands inside casts (and these operators)."""
    while view.domain is None and view.node.op in ("cast", "contiguous", *wrappers):
        view = looked_through(view, view.node.args[0])
    return view


def _is_quotient(user: Node, extreme: View, sums: Mapping[Node, tuple[View, ...]]) -> bool:
    """0 / 0, of two sums relative to that extreme; or 0 · (1 / 0)."""
    if user.op not in ("div", "mul"):
        return False
    parts = [_bare(a, "recip") for a in user.args]
    recips = sum(_bare(a).node.op == "recip" for a in user.args)
    if recips != (user.op == "mul"):
        return False
    return all(any(same_view(m, extreme) for m in (through(p, e) for e in sums.get(p.node, ())) if m is not None) for p in parts)
