"""hoist: program → program.  What does not change in a loop is computed before it; what a statement computes twice gets a name.

    for i in 0 .. M:                              for i in 0 .. M:
      for p in 0 .. K:                    →         let t0 = i * K
        y[p + i*K] = f(x[p + i*K])                  for p in 0 .. K:
                                                      y[t0 + p] = f(x[t0 + p])

1. An address becomes a sum in the order of the loops, outermost first, so that its beginnings are what the inner loops leave unchanged.
2. Arithmetic on what a loop does not change moves before the loop, from the outermost loop inwards.  Loads stay: a C compiler, which is told what may
   alias, moves them better.
3. In a run of simple statements, what is computed twice becomes a `let` (`share.py`).

The value of no expression changes but for the order of integer sums, and no load is moved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ..ir import polynomial as pl
from ..ir.dtypes import INDEX
from ..ir.expr import Expr, product, total, var
from ..ir.program import (
    Array,
    Assign,
    Block,
    Define,
    For,
    Function,
    If,
    Matrix,
    Multiply,
    Program,
    Region,
    Scratch,
    Stmt,
    StoreTo,
    While,
    statements,
    with_blocks,
    with_body,
    with_expressions,
)
from ..ir.record import replace
from ..ir.target import Options, Target
from ..ir.walks import postorder, substitute, substitution
from .lower.names import Names
from .programs.share import Temporaries, share

MOST_TERMS: Final = 8  # an address that multiplies out to more is left as it is
WORTH: Final = 2.0  # operations (a multiplication of two unknowns counts as 2) that are worth a name outside the loop
MEMORY: Final = frozenset({"load", "vload", "gather"})
DEAR: Final = frozenset({"floordiv", "mod", "min", "max", "where"})


def hoist(program: Program, target: Target, options: Options) -> Program:
    """Functions only: the entry is straight-line code as it stands."""
    taken = [*(s.name for s in program.sizes), *(s.name for s in program.ports), *(s.name for s in program.functions)]
    return replace(program, functions=tuple(_function(f, taken) for f in program.functions))


def _function(f: Function, taken: list[str]) -> Function:
    local = [s.var if isinstance(s, For) else s.name for s in statements(f.body) if isinstance(s, (For, Define, Array, Scratch))]
    fresh = Temporaries(Names([*taken, *local, *(p.name for p in f.params)]))
    body = _order(f.body, {p.name: 0 for p in f.params}, 0)
    body = _Outward(body, fresh).block(body, {}, substitution({}))
    return replace(f, body=_used(share(body, fresh)))


def _used(body: Block) -> Block:
    """Without the lets that nothing reads."""
    read: set[str] = set()

    def block(stmts: Block) -> Block:
        result: list[Stmt] = []
        for s in reversed(stmts):  # what is read stands behind its let
            if isinstance(s, Define) and not s.mutable and s.name not in read:
                continue
            result.append(with_blocks(s, block))
            read.update(*[e.names for e in s.expressions()])
        return tuple(reversed(result))

    return block(body)


# ---- 1. the order of sums


def _order(block: Block, depth: dict[str, int], level: int) -> Block:
    """`depth`: the loop level that defines each name (a name whose value changes counts as the innermost)."""
    depth = dict(depth)
    result: list[Stmt] = []
    for s in block:
        s = _ordered(s, depth, level)
        if isinstance(s, For):
            result.append(with_body(s, _order(s.body, {**depth, s.var: level + 1}, level + 1)))
        elif isinstance(s, While):
            result.append(with_body(s, _order(s.body, depth, level + 1)))
        else:
            if isinstance(s, Define) and not s.mutable:
                depth[s.name] = level
            result.append(with_blocks(s, lambda b: _order(b, depth, level)))
    return tuple(result)


def _ordered(s: Stmt, depth: dict[str, int], level: int) -> Stmt:
    """The statement (not its body) with its addresses in order."""

    done: dict[Expr, Expr] = {}  # what accumulates has its address twice

    def ordered(address: Expr) -> Expr:
        found = done.get(address)
        if found is None:
            found = done[address] = ordered_sum(address, depth, level)
        return found

    def change(e: Expr) -> Expr:
        if not e.buffers:
            return e
        addresses = {n.args[0]: ordered(n.args[0]) for n in postorder(e) if n.op in ("load", "vload")}
        return substitute(e, {a: b for a, b in addresses.items() if a is not b})

    if isinstance(s, StoreTo):
        return StoreTo(s.buffer, ordered(change(s.address)), change(s.value), s.stream, s.count)
    if isinstance(s, (Multiply, Matrix)):
        (a, left, *far), (b, right, *wide) = s.left, s.right
        left, right = (ordered_sum(change(e), depth, level) for e in (left, right))
        return replace(s, address=ordered_sum(change(s.address), depth, level), left=(a, left, *far), right=(b, right, *wide))
    if isinstance(s, (Define, Assign)):
        return with_expressions(s, change)
    return s


def ordered_sum(address: Expr, depth: dict[str, int], level: int) -> Expr:
    """The terms of an address by the loop that changes them, outermost first."""
    if address.dtype is not INDEX or not address.args:
        return address
    terms = pl.poly(address)
    if len(terms) > MOST_TERMS:
        return address
    constant = 0
    levels: dict[int, list[Expr]] = {}
    for factors in sorted(terms, key=pl.order) if len(terms) > 1 else terms:
        if not factors:
            constant = terms[factors]
            continue
        by_level = factors if len(factors) == 1 else sorted(factors, key=lambda f: -_level(f, depth, level))  # i * N, not N * i
        at = _level(by_level[0], depth, level)
        term = product(by_level) if len(by_level) > 1 else by_level[0]
        levels.setdefault(at, []).append(term if terms[factors] == 1 else term * terms[factors])
    sum_ = total([term for at in sorted(levels) for term in levels[at]])
    return sum_ + constant if constant else sum_


def _level(e: Expr, depth: dict[str, int], level: int) -> int:
    if e.names and not e.args:
        return depth.get(e.attr, level)
    return level if e.buffers else max([depth.get(name, level) for name in e.names], default=0)


# ---- 2. out of the loops

Change = Callable[[Expr], Expr]


class Inner(NamedTuple):
    """What stands inside a statement, at any depth."""

    expressions: dict[Expr, None]  # in order of appearance
    changing: frozenset[str]  # loop variables, lets and what is assigned, of the statement itself too
    assigned: frozenset[str]
    own: frozenset[str]  # of `changing`, what is named in no loop further in


_NO_NAMES: Final[frozenset[str]] = frozenset()
_NOTHING: Final = Inner({}, _NO_NAMES, _NO_NAMES, _NO_NAMES)


def _inner(block: Block, found: dict[int, Inner]) -> Inner:
    """Of a block; `found` gets that of each statement by its `id`."""
    exprs: dict[Expr, None] = {}
    changing: list[frozenset[str]] = []
    assigned: list[frozenset[str]] = []
    own: set[str] = set()
    for s in block:
        inside = _NOTHING
        if isinstance(s, (For, While, Region)):
            inside = _inner(s.body, found)
        elif isinstance(s, If):
            inside = _inner((*s.body, *s.orelse), found)
        elif isinstance(s, Assign):
            name = frozenset((s.name,))
            inside = Inner({}, name, name, name)
        if isinstance(s, (For, Define)):
            name = frozenset((s.var if isinstance(s, For) else s.name,))
            inside = Inner(inside.expressions, inside.changing | name, inside.assigned, inside.own | name)
        found[id(s)] = inside
        if not isinstance(s, (For, While)):
            own |= inside.own
        for e in s.expressions():
            exprs[e] = None
        if inside is not _NOTHING:
            exprs.update(inside.expressions)
        changing.append(inside.changing)
        assigned.append(inside.assigned)
    return Inner(exprs, _NO_NAMES.union(*changing), _NO_NAMES.union(*assigned), frozenset(own))


class _Outward:
    """Statements are made anew once, on the way in.  `names` are the temporaries in scope, by the expressions of the function as it was that they hold; `change` puts them there."""

    def __init__(self, body: Block, fresh: Temporaries) -> None:
        self.fresh = fresh
        self.weight: dict[Expr, float] = {}
        self.inner: dict[int, Inner] = {}
        _inner(body, self.inner)

    def block(self, block: Block, around: dict[Expr, Expr], change: Change, outer: Inner | None = None) -> Block:
        """`around` is in scope where the block begins; `outer` is the loop around."""
        result: list[Stmt] = []
        names = around
        for s in block:
            inner = self.inner[id(s)]
            if inner.assigned and names is not around and _mentioned(inner.assigned, names):  # only those that hold once these variables change
                names = {e: t for e, t in names.items() if e in around or inner.assigned.isdisjoint(e.names)}
                change = substitution(names)
            if isinstance(s, (For, While)):
                header = _header(s, change)
                new: dict[Expr, Expr] = {}
                bound = [s.stop] if isinstance(s, For) and isinstance(header, For) and _is_dear(header.stop, inner) else []
                for e in [*bound, *self.unchanging(inner, outer, names, change)]:
                    let = self.fresh.define(change(e))
                    result.append(let)
                    new[e] = var(let.name, let.dtype)
                if isinstance(header, For) and isinstance(s, For) and s.stop in new:
                    header = replace(header, stop=new[s.stop])
                inside, within = ({**names, **new}, substitution({**names, **new})) if new else (names, change)
                result.append(with_body(header, self.block(s.body, inside, within, inner)))
                if new:  # behind the loop, only what is spelled without the temporaries of this block
                    own = {t.attr for e, t in names.items() if e not in around}
                    lasting = {e: t for e, t in new.items() if own.isdisjoint(change(e).names)}
                    if len(lasting) == len(new):
                        names, change = inside, within
                    elif lasting:
                        names = {**names, **lasting}
                        change = substitution(names)
            elif isinstance(s, Region):
                result.append(Region(self.block(s.body, names, change, outer), None if s.serial_if is None else change(s.serial_if)))
            elif isinstance(s, If):
                result.append(If(change(s.condition), self.block(s.body, names, change, outer), self.block(s.orelse, names, change, outer)))
            else:
                result.append(with_expressions(s, change))
        return tuple(result)

    def unchanging(self, loop: Inner, outer: Inner | None, names: dict[Expr, Expr], change: Change) -> list[Expr]:
        """The largest subexpressions in the body that the loop does not change, in order of appearance.  What depends on nothing that the loop around it alone
        changes is left out: that one has hoisted all there is."""
        changing = loop.changing
        more = None if outer is None else (outer.own | outer.assigned) - changing  # what else may stand in it
        found: dict[Expr, None] = {}
        seen: set[Expr] = set()
        if more is None:
            stack = [e for e in reversed(loop.expressions) if e.args]
        else:  # most do not change with it
            stack = [e for e in reversed(loop.expressions) if e.args and not more.isdisjoint(e.names)]
        while stack:
            n = stack.pop()
            if n in seen or n in names:
                continue
            seen.add(n)
            fixed = not n.buffers and n.names.isdisjoint(changing)
            worth = _weight(change(n), self.weight) if fixed else WORTH
            if fixed and worth >= WORTH and n.op != "broadcast" and n.dtype.kind != "bool":
                found[n] = None
            elif not 0.0 <= worth < WORTH:  # else no part of it is worth more
                for a in reversed(n.args):
                    if a.args and (more is None or not more.isdisjoint(a.names)):
                        stack.append(a)
        return list(found)


def _mentioned(changed: frozenset[str], names: dict[Expr, Expr]) -> bool:
    for e in names:  # noqa: SIM110 - a generator is dear in compiled code
        if not changed.isdisjoint(e.names):
            return True
    return False


def _header(s: For | While, change: Change) -> For | While:
    """The loop around its body as it was."""
    if isinstance(s, While):
        return While(change(s.condition), s.body)
    start, stop, step = [change(e) if e.args else e for e in (s.start, s.stop, s.step)]  # names are of what has operands
    return For(s.var, start, stop, s.body, step, s.pragma, None if s.serial_if is None else change(s.serial_if))


def _is_dear(stop: Expr, inner: Inner) -> bool:
    """Whether the end of a loop is dear, and the same on every trip."""
    return bool(stop.args) and any(n.op in DEAR for n in postorder(stop)) and not stop.buffers and inner.assigned.isdisjoint(stop.names)


CHANGES: Final = float("-inf")


def _weight(root: Expr, weight: dict[Expr, float]) -> float:
    """Operations in an expression; minus infinity where it loads.  `weight` remembers them."""
    if root not in weight:
        for n in postorder(root):
            if n not in weight:
                weight[n] = CHANGES if n.op in MEMORY or n.op == "ins" else _own_weight(n) + sum([weight[a] for a in n.args])
    return weight[root]


def _own_weight(n: Expr) -> float:
    return 0 if not n.args else 2 if n.op in DEAR or (n.op == "mul" and not n.args[1].is_const) or n.dtype.is_float else 1
