"""spare_bounds: program → program.  Exponentials of vectors whose argument is known to lie within bounds do not ask about them.

    s[i] = sin(vload.16 X[i])                            s[i] = sin(vload.16 X[i])
    Y[i] = exp(vload.16 s[i])                     →      Y[i] = ins.exp_near:f32x16(vload.16 s[i])
    l[k] = l[k] + exp(vload.16 X[i] - m)          →      l[k] = ins.sum_exp:f32x16(l[k], vload.16 X[i] - m)

What overflows and what is too small for a normal number is most of what an exponential asks: where neither can be (`ir/float_ranges.py` says so), the result is the same to the last bit with seven operations less of 21, with
AVX-512, where one instruction scales, with one less of ten.  Near 0 what one float loses of ln 2 counts for nothing (with AVX-512 another one less).

An exponential that is only added to lanes that are added up in the end is not rounded before: its last product is that of the sum, and among so many terms it may be a little less near (with AVX-512 two operations less of
thirteen).

A name and an array of the function's own lie between all that they are ever given; what comes from elsewhere may be anything.  Only where the target has the instructions (`ir/instructions.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

from ..ir.dtypes import f32
from ..ir.expr import Expr, make
from ..ir.float_ranges import ANY, Range, float_range
from ..ir.instructions import EXP_INSIDE, EXP_NEAR, MANY, SUM_EXP
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
        added = _added_up(e, folded, target)
        if not added:
            return rewrite(e, lambda n: _spared(n, held, target), done)
        return rewrite(e, lambda n: _sum(n, added) or _spared(n, held, target))

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


def _added_up(e: Expr, folded: Set[str], target: Target) -> frozenset[Expr]:
    """The arguments of those exponentials in an expression that are used once, by a sum of lanes of such an array and them."""
    if SUM_EXP.name not in target.instructions:
        return frozenset()
    sums = [n for n in postorder(e) if n.op == "add" and n.dtype.element is f32 and n.dtype.bytes == target.vector_bytes and n.dtype.lanes >= MANY]
    terms = [x for n in sums for a, x in (n.args, n.args[::-1]) if a.op == "load" and a.attr in folded and x.op == "exp"]
    uses = Counter(a for n in postorder(e) for a in n.args) if terms else Counter[Expr]()
    return frozenset(x.args[0] for x in terms if uses[x] == 1)


def _sum(n: Expr, added: frozenset[Expr]) -> Expr | None:
    if n.op == "add":
        for a, x in (n.args, n.args[::-1]):
            if a.op == "load" and x.op in ("exp", "ins") and x.args[0] in added:
                return make("ins", n.dtype, (a, x.args[0]), SUM_EXP.name)
    return None


def _spared(n: Expr, held: _Held, target: Target) -> Expr | None:
    if n.op != "exp" or n.dtype.element is not f32 or n.dtype.bytes != target.vector_bytes:
        return None
    found = held.range(n.args[0])
    for instruction in (EXP_NEAR, EXP_INSIDE):
        if instruction.name in target.instructions and found.within(-instruction.most, instruction.most):
            return make("ins", n.dtype, n.args, instruction.name)
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
