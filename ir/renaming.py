"""Names inside blocks of statements: buffers that move, axes and locals that must be unique."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from .expr import Expr, make, var
from .kernel import Alloc, Block, If, Let, Loop, Region, Stmt, Store, While, map_block, map_expressions, statements, with_parts
from .record import replace
from .walks import rewrite

Index = tuple[Expr, ...]


class Names:
    """Hands out names that are free; `taken` are the sizes, ports and temporaries, and what has been handed out."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)

    def fresh(self, *wanted: str) -> str:
        """The first of `wanted` that is free, else the first of them with the smallest number that makes it free."""
        for name in wanted:
            if name not in self.taken:
                self.taken.add(name)
                return name
        number = 1
        while f"{wanted[0]}{number}" in self.taken:
            number += 1
        self.taken.add(f"{wanted[0]}{number}")
        return f"{wanted[0]}{number}"


def defined(block: Block) -> list[str]:
    """The names that a block defines, in order: axes, `let`s and local buffers."""
    found: list[str] = []
    for s in statements(block):
        if isinstance(s, Loop):
            found.append(s.axis)
        elif isinstance(s, Let):
            found.append(s.name)
        elif isinstance(s, Alloc):
            found.append(s.buffer.name)
    return found


def rename_buffers(block: Block, names: dict[str, str], scalars: frozenset[str] = frozenset()) -> Block:
    """Loads and stores of each buffer in `names` go to its new name; a load of what becomes a scalar parameter becomes its variable."""

    def leaf(n: Expr) -> Expr | None:
        if n.op != "load" or n.attr not in names:
            return None
        name = names[n.attr]
        return var(name, n.dtype) if name in scalars else make("load", n.dtype, n.args, name)

    def stmt(s: Stmt) -> Block | None:
        return (replace(s, buffer=names[s.buffer]),) if isinstance(s, Store) and s.buffer in names else None

    return map_block(map_expressions(block, lambda e: e if e.buffers.isdisjoint(names) else rewrite(e, leaf)), stmt)


def at_places(block: Block, buffers: Collection[str], place: Callable[[str, Index], Index]) -> Block:
    """Loads and stores of these buffers are at the index that `place` makes of a buffer and the index that it had."""
    names = frozenset(buffers)

    def rule(n: Expr) -> Expr | None:
        return make("load", n.dtype, place(n.attr, n.args), n.attr) if n.op == "load" and n.attr in buffers else None

    def stored(s: Stmt) -> Block | None:
        return (replace(s, index=place(s.buffer, s.index)),) if isinstance(s, Store) and s.buffer in buffers else None

    return map_block(map_expressions(block, lambda e: e if names.isdisjoint(e.buffers) else rewrite(e, rule)), stored)


def unique_locals(block: Block, fresh: Callable[[str], str]) -> Block:
    """Every loop, `let` and `alloc` gets the name that `fresh(old name)` gives, inside its scope."""

    def expr(e: Expr, names: dict[str, str]) -> Expr:
        def leaf(n: Expr) -> Expr | None:
            new = names.get(n.attr) if n.op in ("var", "load", "first", "last") else None
            return None if new is None else make(n.op, n.dtype, n.args, new)

        return rewrite(e, leaf)

    def walk(block: Block, names: dict[str, str]) -> Block:
        names = dict(names)
        result: list[Stmt] = []
        for s in block:
            match s:
                case Loop():
                    new = fresh(s.axis)
                    bounds = {"start": expr(s.start, names), "stop": expr(s.stop, names), "step": expr(s.step, names)}
                    result.append(replace(s, axis=new, body=walk(s.body, {**names, s.axis: new}), **bounds))
                case Let():
                    value = expr(s.value, names)
                    names[s.name] = fresh(s.name)
                    result.append(Let(names[s.name], value))
                case Alloc():
                    b = s.buffer
                    shape, strides = (tuple(expr(e, names) for e in es) for es in (b.shape, b.strides))
                    names[b.name] = fresh(b.name)
                    result.append(Alloc(replace(b, name=names[b.name], shape=shape, strides=strides)))
                case If() | While() | Region():
                    result.append(with_parts(s, lambda e: expr(e, names), lambda b: walk(b, names)))
                case _:
                    result += map_expressions((s,), lambda e: expr(e, names), names)
        return tuple(result)

    return walk(block, {})
