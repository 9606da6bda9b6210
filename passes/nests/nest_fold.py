"""A loop that stayed a loop as a state of a cascade: in each tile it walks the tile's scores, and its results go on as they were (`folds.py`).

Y.so_far[j] = -inf, I[j] = 0                     Y.so_far: what it copies, before anything is made of that
for p.0 in tiles:
  s[p.1], m, l                                   as ever
  for p.1: the statements, on s[p.1] at p.0 · tile + p.1
if 0 < l < inf: Y[j] = exp(Y.so_far[j] − m) / l
else: Y[j] = 0, I[j] = 0, for p: the statements, on exp(−inf − m) / l
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.expr import ZERO, Expr, call, const, load, var
from ...ir.kernel import Alloc, Block, Buffer, If, Let, Stmt, Store, map_block, map_expressions
from ...ir.record import replace
from ...ir.renaming import unique_locals
from ...ir.walks import rewrite, substitute
from ..cascades.folds import copies, fold, order
from ..walk import Walk

if TYPE_CHECKING:
    from .nest_body import Point
    from .nest_cascade import CascadeLoops

INF = float("inf")


class FoldLoops:
    """The results of one nest among the states of a cascade."""

    def __init__(self, cascade: CascadeLoops, states: list[int]) -> None:
        self.cascade, self.body, self.states = cascade, cascade.body, states
        n = cascade.states[states[0]]
        form, kept, nest = fold(n), order(n.args[0].node, cascade.states), n.attr.nest
        assert form is not None and kept is not None and nest is not None
        self.form, self.order, self.nest = form, kept, nest
        places, _ = cascade.further[states[0]]
        self.rows = tuple(cascade.rows[j] for j in places[: len(form.rows)])
        wanted = {cascade.states[k].attr.result: cascade.names[k] for k in states}
        self.names = {b.name: wanted[k] if k in wanted else self.body.names.fresh(b.name) for k, b in enumerate(nest.results)}
        changed = (copies(n, form) or frozenset()) if kept.steps else frozenset()
        self.walking = {
            b.name: self.body.names.fresh(f"{self.names[b.name]}_so_far") if b.name in changed else self.names[b.name] for b in nest.results
        }

    def start(self) -> None:
        scope = self.body.current
        for b in self.nest.results:
            for name in dict.fromkeys((self.names[b.name], self.walking[b.name])):
                shape = b.shape[len(self.rows) :]
                scope.body.append(Alloc(Buffer(name, b.dtype, shape, "private" if shape else "register")))
                self.body.where[name] = scope
        self.clear(self.walking)
        scope.body.extend(self.at_row(self.form.before, self.walking))

    def clear(self, names: dict[str, str]) -> None:
        """The results as they are before the loop: 0, or what that is made of."""
        for b in self.nest.results:
            with self.body.nest(b.shape[len(self.rows) :]) as at:
                self.body.store(names[b.name], at, const(-INF if names[b.name] != self.names[b.name] else 0, b.dtype))

    def move(self, start: Point) -> Walk:
        """One tile."""
        from .nest_body import REDUCED_AXES

        body, tile = self.body, self.body.current
        inner = body.enter(self.cascade.length, "serial", REDUCED_AXES, self.cascade.begin)
        along = self.cascade.seed(start, inner, False)
        value = yield body._read(self.order.score, (*self.rows, along), None)
        self.walk(value, along, self.walking)
        body.leave(tile)

    def finish(self) -> Walk:
        """What the results are when the whole axis has been walked."""
        from .nest_body import REDUCED_AXES

        body, outer = self.body, self.body.current
        if not self.order.steps:
            return
        body.memo, memo = {}, body.memo  # the states are what they are in the end
        kept = dict(body.kept)
        for k, state in enumerate(self.cascade.states):
            if state.op == "reduce" and not self.cascade.further[k][1]:
                body.kept[state, self.cascade.point(state)] = load(self.cascade.names[k], state.dtype)
        at = (*self.rows, ZERO)
        operands: list[list[Expr]] = []
        for _, _, rest in self.order.steps:
            values = []
            for view in rest:
                values.append((yield body._read(view, at, None)))
            operands.append([self.named(v) for v in values])
        good = self.good(operands)
        blocks: list[Block] = []
        for proper in (True, False):
            scope = body.branch(outer.known)
            if proper:
                for b in self.nest.results:
                    if self.names[b.name] != self.walking[b.name]:
                        with body.nest(b.shape[len(self.rows) :]) as point:
                            body.store(self.names[b.name], point, self.made(load(self.walking[b.name], b.dtype, *point), operands))
            else:
                value = self.named(self.made(const(-INF, self.order.score.dtype), operands))
                self.clear(self.names)
                scope.body.extend(self.at_row(self.form.before, self.names))
                along = body.enter(self.cascade.extents[-1], "serial", REDUCED_AXES)
                self.walk(value, along, self.names)
                body.leave(scope)
            blocks.append(tuple(scope.body))
            body.forget(outer, frozenset())
        outer.body.append(If(good, blocks[0], blocks[1]))
        body.kept, body.memo = kept, memo

    def named(self, value: Expr) -> Expr:
        return value if not value.args and value.op != "load" else self.cascade.named("t", value)

    def good(self, operands: list[list[Expr]]) -> Expr:
        """Whether all factors are positive numbers."""
        tests: list[Expr] = []
        for (op, _, _), values in zip(self.order.steps, operands, strict=True):
            for v in values if op in ("mul", "div") else ():
                tests += [const(0, v.dtype).lt(v), v.lt(const(INF, v.dtype))]
        result = tests[0]
        for t in tests[1:]:
            result = call("bit_and", result, t)
        return result

    def made(self, score: Expr, operands: list[list[Expr]]) -> Expr:
        """What a score becomes."""
        for (op, k, _), rest in zip(reversed(self.order.steps), reversed(operands), strict=True):
            score = call(op, *rest[:k], score, *rest[k:])
        return score

    def walk(self, value: Expr, along: Expr, names: dict[str, str]) -> None:
        """The statements of one iteration, on this value."""
        body, scope = self.body, self.body.current
        name = body.names.fresh("x")
        scope.body.append(Let(name, body.shared(value, scope)))
        body.where[name] = scope
        scope.body.extend(self.at_row(self.form.along.body, names, {var(self.form.along.axis): along}, var(name, value.dtype)))

    def at_row(self, block: Block, names: dict[str, str], mapping: dict[Expr, Expr] | None = None, value: Expr | None = None) -> Block:
        """Statements of the nest at the row of the cascade; results are those of the row alone."""
        places = dict(zip((var(name) for name in self.form.rows), self.rows, strict=True)) | (mapping or {})
        depth = len(self.rows)

        def read(e: Expr) -> Expr | None:
            if e.op != "load":
                return None
            if e.attr == self.form.source:
                return value
            return load(names[e.attr], e.dtype, *e.args[depth:]) if e.attr in names else None

        def stored(s: Stmt) -> Block | None:
            return (replace(s, buffer=names[s.buffer], index=s.index[depth:]),) if isinstance(s, Store) and s.buffer in names else None

        fresh = unique_locals(block, self.body.names.fresh)
        return map_expressions(map_block(fresh, stored), lambda e: substitute(rewrite(e, read), places))
