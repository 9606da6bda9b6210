"""graph → graph: less work for the same values, by rules that hold exactly.

    algebra       the table of `rules/algebra.py`: x · 1 → x, −(−x) → x, where(c, x, x) → x …
    casts         of a cast that lost nothing, or to the dtype that is there already
    constants     operators on literals are computed; masks that always or never hold are dropped
    emptiness     a tensor that is known to have no elements is zeros, and a reduction over none gives what changes nothing
    movement      `contiguous` becomes a view of what it copies (`fuse` decides afterwards what is real); reductions over axes of extent 1 too

A node that turns out to be a view of another one is read through that view by its users.  Outputs and operands of nests stay nodes.
"""

from __future__ import annotations

from typing import Any

from ..ir.bounds import Known
from ..ir.constants import computed, single
from ..ir.dtypes import DType, bool_, c64, f32
from ..ir.evaluate import evaluate
from ..ir.expr import FALSE, ONE, TRUE, ZERO, axis, both, call, const
from ..ir.graph import Graph, Node, Shape, View, const_node, elementwise, identity, make, node_of, operand_domain
from ..ir.kernel import identity_of
from ..ir.primops import OPS
from ..ir.simplify import assuming, prove_equal, simplify as simplified
from ..ir.target import Options, Target
from ..ir.walks import substitute
from .rules.algebra import ALGEBRA
from .rules.pattern import Rule, build, match, parsed, same_value, through

_BY_HEAD: dict[str, list[Rule]] = {}
for _rule in ALGEBRA:
    _BY_HEAD.setdefault(_rule.head, []).append(_rule)


def simplify(ir: Graph, target: Target, options: Options) -> Graph:
    return _Simplifier(ir).graph()


class _Simplifier:
    def __init__(self, graph: Graph) -> None:
        self.whole = graph
        self.known = assuming(Known(graph.size_info()), both(*graph.requires))
        self.domains: dict[Shape, Known] = {}
        self.found: dict[Node, View] = {}  # what stands for a node, over its domain

    def graph(self) -> Graph:
        for n in self.whole.nodes():
            self.found[n] = self.rewritten(n)
        return self.whole.with_outputs(tuple(node_of(self.found[n], n.shape) for _, n in self.whole.outputs))

    def rewritten(self, n: Node) -> View:
        args = tuple(self.read(n, k, a) for k, a in enumerate(n.args))
        same = all(a is b or a == b for a, b in zip(args, n.args, strict=True))
        result = identity(n if same else make(n.op, n.dtype, n.shape, args, n.attr, n.span))
        while True:
            better = self.better(result.node)
            if better is None:
                return result
            if not better.is_identity or better.node.shape != n.shape:
                return better
            result = better

    def read(self, user: Node, k: int, view: View) -> View:
        """Operand k of `user`, read through what its node has become."""
        shape = operand_domain(user, k)
        source = self.found[view.node]
        if user.op in ("nest", "cascade", "previous"):
            return identity(node_of(source, view.node.shape))
        new = through(view, source)
        if new is None:
            new = View(node_of(source, view.node.shape), view.index, view.domain, view.fill)
        return self.tidied(self.settled(new, shape), shape)

    def settled(self, view: View, shape: Shape) -> View:
        """What is read of a choice at positions that decide it, as one element of a tensor of which another one was stored: of the branch that stands there."""
        while view.node.op == "where" and view.domain is None and (mask := view.node.args[0]).domain is not None and mask.node.op == "const":
            here = simplified(substitute(mask.domain, view.places), self.domain(shape))
            if here is not TRUE and here is not FALSE:
                break
            chosen = mask.node.attr.value if here is TRUE else mask.fill
            view = view.operands[1 if chosen else 2]
        return view

    def domain(self, shape: Shape) -> Known:
        known = self.domains.get(shape)
        if known is None:
            known = self.domains[shape] = self.known.with_domain(shape)
        return known

    def tidied(self, view: View, shape: Shape) -> View:
        """Positions simplified for the domain that they are read over, a mask that decides nothing dropped."""
        if view.is_identity:
            return view
        known = self.domain(shape)
        domain = None if view.domain is None else simplified(view.domain, known)
        if domain is FALSE:
            return View(const_node(const(view.fill, view.dtype).attr, view.dtype), ())
        if domain is TRUE or (view.node.op == "const" and same_value(view.node.attr.value, view.fill)):
            domain = None
        inside = assuming(known, domain)
        return View(view.node, tuple(simplified(e, inside) for e in view.index), domain, view.fill if domain is not None else 0)

    # ---- one node, its operands done

    def better(self, n: Node) -> View | None:
        if ZERO in n.shape and n.op not in ("input", "const", "nest"):
            return _everywhere(0, n.dtype)
        if n.op == "reduce" and ZERO in n.attr.extents and not n.dtype.is_complex:
            return _everywhere(identity_of(n.attr.combiner, n.dtype).attr, n.dtype)
        if n.op in OPS:
            return self.by_rule(n) or _cast(n) or _folded(n)
        if n.op == "contiguous":
            return n.args[0]
        if n.op == "iota" and n.attr.expr is not None and n.attr.expr.is_const:
            return View(const_node(n.attr.expr.attr, n.dtype), ())
        if n.op == "reduce" and all(prove_equal(e, ONE, self.known) for e in n.attr.extents):
            mapping = {axis(n.rank + k): ZERO for k in range(len(n.attr.extents))}
            return self.tidied(n.args[0].through(mapping), n.shape)
        return None

    def by_rule(self, n: Node) -> View | None:
        d = n.args[-1].dtype
        for rule in _BY_HEAD.get(n.op, ()):
            if rule.admits(d):
                bound = match(parsed(rule.pattern), n)
                if bound is not None:
                    return build(parsed(rule.replacement), n.shape, bound, n.dtype)
        return None


def _everywhere(value: Any, dtype: DType) -> View:
    """The same number at every position."""
    if not dtype.is_complex:
        return View(const_node(const(value, dtype).attr, dtype), ())
    part = _everywhere(value, dtype.part)
    return View(elementwise("complex", (), part, part), ())


def _cast(n: Node) -> View | None:
    """cast to the dtype that is there → x;   cast.T(cast.U(x)) → cast.T(x) where U holds every value of x;   cast.T(where(c, 1, 0)) → where(c, 1:T, 0:T)

    Not for an integer that goes through a float to an integer: that cast saturates, the direct one wraps.
    """
    if n.op not in ("cast", "bitcast"):
        return None
    x = n.args[0]
    if x.dtype is n.dtype:
        return x
    if n.op == "bitcast" or x.domain is not None:
        return None
    if x.node.op == "where":
        sides = [_literal_as(n.dtype, a) for a in x.operands[1:]]
        return None if None in sides else identity(make("where", n.dtype, n.shape, (x.operands[0], *filter(None, sides))))
    if x.node.op != "cast":
        return None
    inner = through(x, x.node.args[0])
    if inner is None or not _holds(x.dtype, inner.dtype):
        return None
    if x.dtype.is_float and inner.dtype.is_integer and n.dtype.is_integer and not _holds(n.dtype, inner.dtype):
        return None
    return identity(make("cast", n.dtype, n.shape, (inner,), n.attr, n.span)) if inner.dtype is not n.dtype else inner


def _literal_as(d: DType, x: View) -> View | None:
    """A literal in another dtype, where none of its digits are lost by rounding."""
    value = _literal(x)
    found = None if value is None else _folded(make("cast", d, (), (x,)))
    return found if found is not None and (d.is_integer or _literal(found) == value) else None


_MANTISSA = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "f8e4m3": 4, "f8e5m2": 3}
_EXPONENT = {"f64": 11, "f32": 8, "bf16": 8, "f16": 5, "f8e4m3": 4, "f8e5m2": 5}


def _holds(wide: DType, narrow: DType) -> bool:
    """Every value of `narrow` is one of `wide`."""
    if narrow is bool_:
        return True
    if wide.is_float and narrow.is_float:
        return _MANTISSA[wide.name] >= _MANTISSA[narrow.name] and _EXPONENT[wide.name] >= _EXPONENT[narrow.name]
    if wide.is_integer and narrow.is_integer:
        return wide.min <= narrow.min and wide.max >= narrow.max
    return wide.is_float and narrow.is_integer and narrow.bits - (narrow.kind == "int") <= _MANTISSA[wide.name] and wide.max > narrow.max


def _folded(n: Node) -> View | None:
    """An operator on literals, computed; wrapped or rounded to the dtype as the operator does."""
    literals = [_literal(a) for a in n.args]
    if not literals or None in literals:
        return None
    if n.dtype.is_inexact:
        value = computed(n.op, literals, n.dtype)
        if value is None:
            return None
        if not isinstance(value, complex):
            return View(const_node(value, n.dtype), ())
        parts = [identity(const_node(x, c64.part)) for x in (value.real, value.imag)]
        return View(elementwise("complex", (), *parts), ())
    if n.op not in _FOLDED or any(a.dtype.is_inexact for a in n.args):
        return None
    values = [const(a.node.attr.value, a.dtype) for a in n.args]
    value = evaluate(call(n.op, *values, to=n.dtype), {})
    return View(const_node(_wrapped(value, n.dtype), n.dtype), ())


def _literal(x: View) -> Any:
    """The value that a view has everywhere, if that is written in the graph."""
    if x.domain is not None:
        return None
    if x.node.op == "complex":
        real, imag = [_literal(a) for a in x.node.args]
        return None if real is None or imag is None else complex(real, imag)
    if x.node.op != "const":
        return None
    return single(x.node.attr.value) if x.dtype is f32 else x.node.attr.value


_FOLDED = frozenset(
    {"add", "sub", "mul", "neg", "max", "min", "less_than", "less_equal", "equal", "not_equal", "bit_and", "bit_or", "bit_xor", "where", "cast"}
)


def _wrapped(value: int, d: DType) -> int | bool:
    if d is bool_:
        return bool(value)
    low = value & ((1 << d.bits) - 1)
    return low - (1 << d.bits) if d.kind == "int" and low >> (d.bits - 1) else low
