"""Walks over expressions, and what is made by walking.  All are iterative: a user's depth is never Python's."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, Final

from .dtypes import INDEX
from .expr import Expr, add, floordiv, make, maximum, minimum, mod, mul

_NOTHING: Final[dict[Expr, Any]] = {}
_NO_NAMES: Final[frozenset[str]] = frozenset()
SHORT: Final = 96  # nodes of which an expression remembers the order; what is longer, such as a sum of a thousand terms, would hold as much for each of its parts
NEAR: Final = 24  # levels of an expression that are walked by recursion


def postorder(*roots: Expr) -> tuple[Expr, ...]:
    """Every node once, operands before users."""
    if len(roots) == 1:
        root = roots[0]
        return roots if not root.args else root.order or _ordered(root)
    return tuple(dict.fromkeys(chain.from_iterable([(r,) if not r.args else r.order or _ordered(r) for r in roots])))


def _ordered(root: Expr) -> tuple[Expr, ...]:
    """The order of one expression with operands: theirs one after the other, where they remember them."""
    for a in root.args:
        if a.args and a.order is None:
            order = _postorder(root)
            break
    else:
        found = dict.fromkeys(chain.from_iterable([a.order or (a,) for a in root.args]))
        found[root] = None
        order = tuple(found)
    if len(order) <= SHORT:
        root.order = order
    return order


def missing(root: Expr, done: dict[Expr, Any]) -> tuple[Expr, ...]:
    """As `postorder`, without what is done already and what is met there alone."""
    if root in done:
        return ()
    for a in root.args:
        if a not in done:
            return _postorder(root, done)
    return (root,)  # most of them


def _postorder(root: Expr, done: dict[Expr, Any] = _NOTHING) -> tuple[Expr, ...]:
    seen: dict[Expr, None] = {}
    _visit(root, seen, done, NEAR)
    return tuple(seen)


def _visit(node: Expr, seen: dict[Expr, None], done: dict[Expr, Any], levels: int) -> None:
    """Enter what stands under a node, and the node.  So many levels by recursion: with a stack of our own all passes took a fortieth more instructions."""
    for a in node.args:
        if a not in seen and a not in done:
            if not a.args:
                seen[a] = None
            elif not done and a.order is not None:  # else some of that is not missing
                seen.update(dict.fromkeys(a.order))
            elif levels:
                _visit(a, seen, done, levels - 1)
            else:
                _visit_deep(a, seen, done)
    seen[node] = None


def _visit_deep(root: Expr, seen: dict[Expr, None], done: dict[Expr, Any]) -> None:
    stack = [root]
    while stack:
        node = stack[-1]
        waiting = [a for a in node.args if a not in seen and a not in done] if node not in seen else []
        if waiting:
            stack += waiting[::-1]
            continue
        seen[node] = None
        stack.pop()


def is_lazy(node: Expr) -> bool:
    """A choice by one scalar evaluates one side; a choice lane by lane evaluates both."""
    return node.op == "where" and node.args[0].dtype.lanes == 1


def always(*roots: Expr) -> list[Expr]:
    """What is evaluated whatever the conditions of lazy choices are; every node once, users before operands."""
    found: dict[Expr, None] = {}
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        if node not in found:
            found[node] = None
            stack.extend(reversed(node.args[:1] if is_lazy(node) else node.args))
    return list(found)


def rebuild(node: Expr, args: tuple[Expr, ...]) -> Expr:
    """The same operator on other operands.  Integer index arithmetic is folded again on the way."""
    if args == node.args:
        return node
    if node.dtype is INDEX and len(args) == 2:
        a, b = args
        if node.op == "add":
            return add(a, b)
        if node.op == "mul":
            return mul(a, b)
        if node.op in _FOLDING:
            return _FOLDING[node.op](a, b)
    return make(node.op, node.dtype, args, node.attr)


_FOLDING: Final[dict[str, Callable[[Expr, Expr], Expr]]] = {"floordiv": floordiv, "mod": mod, "min": minimum, "max": maximum}


def rewrite(root: Expr, rule: Callable[[Expr], Expr | None], done: dict[Expr, Expr] | None = None) -> Expr:
    """Bottom-up, once: `rule(node)` (its operands already rewritten) gives a replacement or None.  `done` holds what the same rule has made of other expressions."""
    done = {} if done is None else done
    for node in postorder(root):
        if node in done:
            continue
        new = rebuild(node, tuple([done[a] for a in node.args])) if node.args else node
        replacement = rule(new)
        done[node] = new if replacement is None else replacement
    return done[root]


def substitute(root: Expr, mapping: dict[Expr, Expr]) -> Expr:
    """Replace leaves (or whole subexpressions) simultaneously."""
    found = mapping.get(root)
    if found is not None or not root.args:
        return root if found is None else found
    for k in mapping:
        if not k.names or not k.names.isdisjoint(root.names):
            return substitution(mapping)(root)
    return root


def substitution(mapping: dict[Expr, Expr]) -> Callable[[Expr], Expr]:
    """The function that replaces leaves (or whole subexpressions) simultaneously; for many expressions, what they share is done once."""
    names = [k.names for k in mapping]
    named = names[0] if len(names) == 1 else _NO_NAMES.union(*names)
    loaded, everywhere = _NO_NAMES, False
    for k in mapping:
        if not k.names:
            loaded, everywhere = loaded | k.buffers, everywhere or not k.buffers
    done = dict(mapping)

    def change(root: Expr) -> Expr:
        found = done.get(root)
        if found is not None:
            return found
        if not everywhere and named.isdisjoint(root.names) and loaded.isdisjoint(root.buffers):
            return root  # it shares no name with what is replaced
        return _changed(root, done, (named, loaded, everywhere), NEAR)

    return change


def _changed(node: Expr, done: dict[Expr, Expr], touched: tuple[frozenset[str], frozenset[str], bool], levels: int) -> Expr:
    """`substitution` of an expression that is not done and may change; so many levels by recursion, as in `_visit`."""
    named, loaded, everywhere = touched
    args: list[Expr] = []
    for a in node.args:
        new = done.get(a)
        if new is None:
            if a.args and (everywhere or not (named.isdisjoint(a.names) and loaded.isdisjoint(a.buffers))):
                new = _changed(a, done, touched, levels - 1) if levels else _changed_deep(a, done)
            else:
                new = a
        args.append(new)
    result = done[node] = rebuild(node, tuple(args))
    return result


def _changed_deep(root: Expr, done: dict[Expr, Expr]) -> Expr:
    for node in missing(root, done):
        done[node] = rebuild(node, tuple([done[a] for a in node.args])) if node.args else node
    return done[root]


def leaves(root: Expr, op: str) -> list[Expr]:
    """The leaves of one kind (`size`, `axis`, `var`, `load`, …), in order of first appearance."""
    return [n for n in postorder(root) if n.op == op]
