"""Sizes and index expressions of a graph with the sizes known: as numbers, as arrays over positions, as linear forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..evaluate import evaluate
from ..expr import Expr
from ..walks import postorder
from .meaning import VALUE, Array, working


class Positions:
    """Everything is memoised by expression; the sizes do not change."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = {k: int(v) for k, v in sizes.items()}
        self.numbers: dict[Expr, int] = {}
        self.linear_forms: dict[Expr, tuple[int, dict[int, int]] | None] = {}

    def number(self, e: Expr) -> int:
        if e not in self.numbers:
            self.numbers[e] = int(evaluate(e, self.sizes))
        return self.numbers[e]

    def extents(self, shape: tuple[Expr, ...]) -> tuple[int, ...]:
        return tuple(max(self.number(e), 0) for e in shape)

    def linear(self, root: Expr) -> tuple[int, dict[int, int]] | None:
        """The expression as constant + Σ coefficient·$k, or None."""
        forms = self.linear_forms
        for n in postorder(root):
            if n in forms:
                continue
            parts = [forms[a] for a in n.args]
            form: tuple[int, dict[int, int]] | None = None
            if n.op == "axis":
                form = 0, {n.attr: 1}
            elif not any(p is None or p[1] for p in parts):
                form = self.folded(n, [p[0] for p in parts if p is not None]), {}
            elif n.op in ("add", "sub", "neg") and None not in parts:
                form = _combine(parts, (-1,) if n.op == "neg" else (1, -1) if n.op == "sub" else (1, 1))
            elif n.op == "mul" and None not in parts:
                (c0, k0), (c1, k1) = (p for p in parts if p is not None)
                if not k1:
                    form = c0 * c1, {a: f * c1 for a, f in k0.items() if f * c1}
                elif not k0:
                    form = c0 * c1, {a: f * c0 for a, f in k1.items() if f * c0}
            forms[n] = form
        return forms[root]

    def folded(self, n: Expr, parts: list[int]) -> int:
        """The node's value by those of its operands.  Positions may stand below it: they do not matter where their factors are 0."""
        if not n.args:
            return self.number(n)
        if n.op == "cast":
            return parts[0]
        return int(VALUE[n.op](*(np.asarray(p, working(a.dtype)) for p, a in zip(parts, n.args, strict=True))))

    def index(self, root: Expr, axes: list[Array]) -> Array:
        """An integer or boolean expression of the positions `axes` (arrays that broadcast together)."""
        value: dict[Expr, Array] = {}
        for n in postorder(root):
            if n.op == "axis":
                value[n] = axes[n.attr]
            elif n.op == "const":
                value[n] = np.asarray(n.attr, working(n.dtype))
            elif n.op == "size":
                value[n] = np.asarray(self.number(n), np.int64)
            elif n.op == "cast":
                value[n] = value[n.args[0]].astype(working(n.dtype))
            else:
                value[n] = VALUE[n.op](*(value[a] for a in n.args))
        return value[root]


def _combine(parts: list[Any], signs: tuple[int, ...]) -> tuple[int, dict[int, int]]:
    constant, factors = 0, {}
    for (c, form), sign in zip(parts, signs, strict=True):
        constant += sign * c
        for k, f in form.items():
            factors[k] = factors.get(k, 0) + sign * f
    return constant, {k: f for k, f in factors.items() if f}
