"""spare_bounds: program → program.  Exponentials of vectors whose argument is known to lie within bounds do not ask about them.

    s[i] = sin(vload.16 X[i])                            s[i] = sin(vload.16 X[i])
    Y[i] = exp(vload.16 s[i])                     →      Y[i] = ins.exp_inside:f32x16(vload.16 s[i])
    Y[i] = exp(vload.16 s[i]) / 2.0:f32           →      Y[i] = ins.exp_near:f32x16(vload.16 s[i], broadcast.16(-1.0:f32))
    Z[i] = exp(-abs(vload.16 X[i]))               →      Z[i] = ins.weight:f32x16(-abs(vload.16 X[i]), broadcast.16(-105.0:f32))
    Y[i] = 1.0:f32 + exp(vload.16 X[i])           →      Y[i] = ins.plus_exp:f32x16(1.0:f32, vload.16 X[i])
    l[k] = l[k] + exp(vload.16 X[i] - m)          →      l[k] = ins.sum_exp:f32x16(l[k], vload.16 X[i] - m)

What overflows and what is too small for a normal number is most of what an exponential asks: where neither can be (`ir/float_ranges.py` says so), the result is the same to the last bit with seven operations less of 21, with
AVX-512, where one instruction scales, with one less of ten; where only overflow cannot be, that instruction waits for nothing but the scaling.

Near 0 what one float loses of ln 2 counts for nothing (with AVX-512 one operation less), and a power of two beside the exponential joins its exponent (another one).

An exponential that is only added to something is not rounded before: its last product is that of the sum (with AVX-512 one operation less of thirteen).  Where lanes of what it is added to are added up in the end, the sum
has as many terms at least: another one less.

A name and an array of the function's own lie between all that they are ever given; what comes from elsewhere may be anything.  Only where the target has the instructions (`ir/instructions.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from math import frexp

from ..ir.dtypes import f32
from ..ir.expr import Expr, broadcast, const, make
from ..ir.float_ranges import ANY, Range, float_range
from ..ir.instructions import EXP_INSIDE, EXP_NEAR, INSIDE, MANY, NEAR, PLUS_EXP, SHIFT, SUM_EXP, WEIGHT
from ..ir.operator_kinds import FOLDS, LONG
from ..ir.program import (
    Array,
    Assign,
    Block,
    Call,
    Define,
    Function,
    Matrix,
    Multiply,
    Program,
    StoreTo,
    kinds_in,
    map_expressions,
    named,
    statements,
)
from ..ir.record import replace
from ..ir.target import Options, Target
from ..ir.walks import postorder, rewrite

VANISHED = -105.0  # e^x is less than half of the least number from -103.98 on
DEEPEST = 16  # names, of names, that a range is looked for in


def spare_bounds(program: Program, target: Target, options: Options) -> Program:
    """See the head of this file."""
    functions = tuple(_function(f, target) for f in program.functions)
    return program.with_functions(functions)


def _function(f: Function, target: Target) -> Function:
    if not kinds_in(f.body) & LONG:
        return f
    values = [e for s in statements(f.body) for e in s.expressions() if not e.is_position]  # no position holds an exponential
    if not any(n.op == "exp" and n.dtype.lanes > 1 for n in postorder(*[e for e in values if e.kinds & LONG])):
        return f
    held, done = _Held(f), dict[Expr, Expr]()
    folded = _folded(f.body, values)

    def changed(e: Expr) -> Expr:
        if not e.kinds & LONG:
            return e
        added, scaled = _added_up(e, target), _scaled_alone(e, target)
        if not added and not scaled:
            return rewrite(e, lambda n: _spared(n, held, target), done)
        return rewrite(e, lambda n: _sum(n, added, folded) or _scaled(n, scaled) or _spared(n, held, target))

    return replace(f, body=map_expressions(f.body, changed))


def _folded(body: Block, values: list[Expr]) -> set[str]:
    """The arrays whose lanes are added up in the end, by themselves or in the sums of another one that begin with theirs."""
    folds = (n for n in postorder(*[e for e in values if e.kinds & FOLDS]) if n.op == "fold" and n.attr == "add")
    found = {n.attr for n in postorder(*folds) if n.op == "load"}
    for s in reversed(statements(body)):
        if isinstance(s, StoreTo) and s.buffer in found:
            stack = [s.value]
            while stack:
                n = stack.pop()
                if n.op == "add":
                    stack += n.args
                elif n.op == "load":
                    found.add(n.attr)
    return found


def _added_up(e: Expr, target: Target) -> frozenset[Expr]:
    """The arguments of those exponentials in an expression that are used once, by a sum."""
    if not {PLUS_EXP.name, SUM_EXP.name} <= target.instructions or not any(n.op == "add" for n in postorder(e)):
        return frozenset()
    uses = Counter(a for n in postorder(e) for a in n.args)
    sums = [a for n in postorder(e) if n.op == "add" and n.dtype.element is f32 and n.dtype.bytes == target.vector_bytes for a in n.args]
    return frozenset(a.args[0] for a in sums if a.op == "exp" and uses[a] == 1)


def _sum(n: Expr, added: frozenset[Expr], folded: Set[str]) -> Expr | None:
    if n.op != "add" or not added:
        return None
    for a, x in (n.args, n.args[::-1]):
        if x.op in ("exp", "ins") and x.args[0] in added and (x.op == "exp" or x.attr in (EXP_INSIDE.name, EXP_NEAR.name, WEIGHT.name)):
            many = n.dtype.lanes >= MANY and a.op == "load" and a.attr in folded
            return make("ins", n.dtype, (a, x.args[0]), (SUM_EXP if many else PLUS_EXP).name)
    return None


def _scaled_alone(e: Expr, target: Target) -> frozenset[Expr]:
    """The arguments of those exponentials in an expression that are used once, beside a power of two."""
    if EXP_NEAR.name not in target.instructions:
        return frozenset()
    products = [(n, _exponent(n)) for n in postorder(e) if n.op in ("mul", "div")]
    found = [x for n, exponent in products if exponent is not None for x in n.args if x.op == "exp"]
    uses = Counter(a for n in postorder(e) for a in n.args) if found else Counter()
    return frozenset(x.args[0] for x in found if uses[x] == 1)


def _exponent(n: Expr) -> int | None:
    """Of the power of two that a vector is multiplied or divided by."""
    factors = n.args[1:] if n.op == "div" else n.args
    for by in (a.args[0] for a in factors if a.op == "broadcast" and a.args[0].is_const and a.args[0].dtype is f32):
        fraction, exponent = frexp(float(by.attr))
        if fraction == 0.5 and abs(exponent - 1) <= SHIFT:
            return 1 - exponent if n.op == "div" else exponent - 1
    return None


def _scaled(n: Expr, scaled: frozenset[Expr]) -> Expr | None:
    if not scaled or n.op not in ("mul", "div"):
        return None
    x = next((a for a in n.args if a.op == "ins" and a.attr == EXP_NEAR.name and a.args[0] in scaled and a.args[1].args[0].attr == 0), None)
    exponent = _exponent(n)
    return (
        None
        if x is None or exponent is None
        else make("ins", n.dtype, (x.args[0], broadcast(const(float(exponent), f32), n.dtype.lanes)), EXP_NEAR.name)
    )


def _spared(n: Expr, held: _Held, target: Target) -> Expr | None:
    if n.op != "exp" or n.dtype.element is not f32 or n.dtype.bytes != target.vector_bytes:
        return None
    found = held.range(n.args[0])
    if EXP_NEAR.name in target.instructions and found.within(-NEAR, NEAR):
        return make("ins", n.dtype, (n.args[0], broadcast(const(0.0, f32), n.dtype.lanes)), EXP_NEAR.name)
    if EXP_INSIDE.name in target.instructions and found.within(-INSIDE, INSIDE):
        return make("ins", n.dtype, n.args, EXP_INSIDE.name)
    if WEIGHT.name in target.instructions and found.high <= 0:
        return make("ins", n.dtype, (n.args[0], broadcast(const(VANISHED, f32), n.dtype.lanes)), WEIGHT.name)
    return None


class _Held:
    """What the names and the arrays of one function are given, and between what that lies."""

    def __init__(self, f: Function) -> None:
        self.given: dict[str, list[Expr]] = {}
        own: set[str] = set()
        shared: set[str] = {p.name for p in f.params}
        for s in statements(f.body):
            if isinstance(s, (Define, Assign)) and s.value is not None:
                self.given.setdefault(s.name, []).append(s.value)
            elif isinstance(s, Define):
                self.given.setdefault(s.name, [])
            elif isinstance(s, Array):
                own.add(s.name)
            elif isinstance(s, StoreTo):
                self.given.setdefault(s.buffer, []).append(s.value)
            elif isinstance(s, Call):
                shared.update(a for a in s.args if isinstance(a, str))
            elif isinstance(s, (Multiply, Matrix)):
                shared.update(named(s))
            else:
                pass
        self.known: dict[str, Range] = dict.fromkeys(shared, ANY)
        self.arrays = own - shared
        self.deep = 0

    def range(self, e: Expr) -> Range:
        return float_range(e, self._known)

    def _known(self, n: Expr) -> Range:
        """Of a name that is asked for while its range is found nothing is known: it depends on itself."""
        if not (n.op == "var" or (n.op in ("load", "vload", "gather") and n.attr in self.arrays)) or n.attr not in self.given:
            return ANY
        if n.attr not in self.known:
            if self.deep == DEEPEST:
                return ANY
            self.known[n.attr] = ANY
            self.deep += 1
            found = [self.range(value) for value in self.given[n.attr]]
            self.deep -= 1
            for r in found[1:]:
                found[0] = found[0].joined(r)
            self.known[n.attr] = found[0] if found else ANY
        # lanes that are not loaded are 0
        return self.known[n.attr].joined(Range(0.0, 0.0)) if n.op == "vload" and len(n.args) > 1 else self.known[n.attr]
