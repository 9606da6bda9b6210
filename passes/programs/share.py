"""Names for what is computed twice (step 3 of hoist).

    y[t + j] = exp(x[t + j]) * (exp(x[t + j]) + 1)      →      let t1 = exp(x[t + j])
                                                               y[t + j] = t1 * (t1 + 1)

Within one statement anything may be shared; between the statements of a run only what the run cannot change.  An operand of `where` that loads what is
not loaded anyway stays under its condition; where that would write out an expression many times over, the choice becomes an `if`.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from ...ir.dtypes import INDEX
from ...ir.expr import Expr, var
from ...ir.operator_kinds import CHOOSES
from ...ir.program import Assign, Block, Define, If, Stmt, StoreTo, kinds_in, with_blocks, with_expressions
from ...ir.walks import always, is_lazy, postorder, substitute, substitution
from ..lower.names import Names

MEMORY: Final = ("load", "vload", "gather")
INDEX_WORTH: Final = 4  # integer operations that are worth a name; of values every one is
BLOWN_UP: Final = 64  # operations that an expression may print; beyond, a choice with shared parts becomes an `if`


class Temporaries:
    """Fresh names t0, t1, …"""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._count = 0

    def define(self, e: Expr, value: Expr | None = None) -> Define:
        """A `let` for `e`, spelled as `value`."""
        return Define(self._fresh(), e.dtype, e if value is None else value)

    def variable(self, e: Expr) -> Define:
        """A variable that is to hold `e`."""
        return Define(self._fresh(), e.dtype, None, mutable=True)

    def _fresh(self) -> str:
        name = self._names.fresh(f"t{self._count}")
        self._count += 1
        return name


def share(block: Block, fresh: Temporaries) -> Block:
    result: list[Stmt] = []
    run: list[Stmt] = []
    for s in block:
        if isinstance(s, (Assign, StoreTo, Define)):
            run.append(s)
            continue
        if run:
            result.extend(_run(run, fresh))
            run = []
        result.append(with_blocks(s, lambda b: share(b, fresh)))
    return (*result, *_run(run, fresh)) if run else tuple(result)


def _run(run: list[Stmt], fresh: Temporaries) -> Block:
    """One run of simple statements with its lets."""
    repeated = _repeated(run)
    if not repeated:  # most runs are done here
        return tuple(run)
    if not any(map(_worth, repeated)):
        return tuple([t for s in run for t in _unfolded(s, fresh)])
    changed = {s.name for s in run if isinstance(s, Assign)} | {s.buffer for s in run if isinstance(s, StoreTo)}
    plan = _Plan(run, changed)
    result: list[Stmt] = []
    lasting: dict[Expr, Expr] = {}
    for place, s in enumerate(run):
        names = dict(lasting)
        for e in plan.orders[place]:
            if e not in names and plan.wanted(place, e):
                let = fresh.define(e, substitute(e, names))
                result.extend(_unfolded(let, fresh))
                names[e] = var(let.name, e.dtype)
                if plan.stable(e):
                    lasting[e] = names[e]
        if names:
            s = with_expressions(s, substitution(names))
        result.extend(_unfolded(s, fresh))
    return tuple(result)


def _repeated(run: list[Stmt]) -> list[Expr]:
    """What could have a name and occurs twice."""
    roots = [s.expressions() for s in run]
    used = [a for r in roots for args in (r, *[n.args for n in postorder(*r)]) for a in args if a.args and a.op != "broadcast"]
    return [e for e, times in Counter(used).items() if times > 1] if len(set(used)) < len(used) else []


def _worth(e: Expr) -> bool:
    if e.op == "broadcast":
        return False
    if e.op in MEMORY:
        return True
    if e.dtype.element is INDEX or e.dtype.kind == "bool":
        operations, stack = 0, [e]
        while stack and operations < INDEX_WORTH:
            operations += 1
            stack += [a for a in stack.pop().args if a.args]
        return operations == INDEX_WORTH
    return e.op != "cast" or bool(e.args[0].args)


Use = tuple[int, Expr]  # a subexpression in one statement of a run; in all of them (-1), where its value is the same


class _Plan:
    """How often, and whether under a condition, the statements of a run use each subexpression that has operands."""

    def __init__(self, run: list[Stmt], changed: set[str]) -> None:
        self.orders = [[n for n in postorder(*s.expressions()) if n.args] for s in run]
        self._stable: dict[Expr, bool] = {}
        self._keys: list[dict[Expr, Use]] = []
        self._uses: dict[Use, int] = {}
        self._guarded: dict[Use, bool] = {}
        self._always: set[Use] = set()
        counted: set[Use] = set()
        for place, (s, order) in enumerate(zip(run, self.orders, strict=True)):
            for n in order:
                if n not in self._stable:
                    self._stable[n] = changed.isdisjoint(n.names) and changed.isdisjoint(n.buffers)
            keys: dict[Expr, Use] = {n: (-1 if self._stable[n] else place, n) for n in order}
            roots = s.expressions()
            used = [*roots, *[a for n in order if keys[n] not in counted for a in n.args]]
            for key in [keys[e] for e in used if e.args]:
                self._uses[key] = self._uses.get(key, 0) + 1
            counted.update(keys.values())
            self._keys.append(keys)
        self._certain = not kinds_in(tuple(run)) & CHOOSES or not any(is_lazy(n) for order in self.orders for n in order)
        if self._certain:
            return
        for s, keys in zip(run, self._keys, strict=True):
            self._always.update([keys[n] for n in always(*s.expressions()) if n.args])
        for keys in self._keys:
            for n, key in keys.items():
                own = n.op in MEMORY and key not in self._always
                self._guarded[key] = own or any(self._guarded[keys[a]] for a in n.args if a.args)

    def stable(self, e: Expr) -> bool:
        """Its value is the same in the whole run."""
        return self._stable[e]

    def wanted(self, place: int, e: Expr) -> bool:
        key = self._keys[place][e]
        return self._uses[key] > 1 and _worth(e) and (self._certain or key in self._always or not self._guarded[key])


def _unfolded(s: Stmt, fresh: Temporaries) -> Block:
    """The statement, its choices written as `if` where it would print the same loads many times."""
    roots = s.expressions()
    if not any(e.kinds & CHOOSES for e in roots) or not any(is_lazy(n) for n in postorder(*roots)):
        return (s,)
    printed: dict[Expr, int] = {}
    for n in postorder(*roots):
        printed[n] = 1 + sum(printed[a] for a in n.args)
    if sum(printed[r] for r in roots) <= max(BLOWN_UP, 2 * len(printed)):
        return (s,)
    before: list[Stmt] = []
    names: dict[Expr, Expr] = {}
    inside: set[Expr] = set()  # parts of a choice that is written already
    certain = set(always(*roots))
    for n in reversed(list(postorder(*roots))):
        if is_lazy(n) and n in certain and n not in inside and any(a.op in MEMORY for a in postorder(*n.args[1:])):
            name = fresh.variable(n)
            sides = [share((Assign(name.name, a),), fresh) for a in n.args[1:]]
            before += [name, If(n.args[0], sides[0], sides[1])]
            names[n] = var(name.name, n.dtype)
            inside.update(postorder(*n.args))
    return (*before, with_expressions(s, lambda e: substitute(e, names)))
